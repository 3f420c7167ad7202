"""Contexts without a label from a frame of their own, appended to the rows of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..exceptions import DataError, DmlrankError
from .columns import check_names
from .contexts import Rows
from .frames import (
    column_names,
    is_numeric_column,
    is_vector_column,
    kind_of_time,
    plain_column,
    require_columns,
    take_columns,
)


def append_unlabelled(rows: Rows, unlabelled: Any, groups: tuple[str, ...]) -> Rows:
    """The rows of the data, and after them those of ``unlabelled`` with outcome and items missing.

    Parameters
    ----------
    rows : Rows
        All rows of the data.
    unlabelled : frame
        With the columns that features, ``context=`` and clusters use; outcome and items absent or all missing.
    groups : tuple of str
        Columns of clusters.

    Raises
    ------
    DataError
        If the frame holds labels or pairs, a column is of another type than in the data, or the features use arrays,
        which end where the data do.
    ColumnError, FrameTypeError
        If a column that is needed does not exist, or there is no frame.
    """
    if rows.names.arrays:
        raise DataError(
            f"unlabelled=: the features use {rows.names.arrays[0]!r}, an array with one entry for each row of data; "
            f"put it into a column of both frames"
        )
    needed = list(dict.fromkeys([*rows.names.columns, *rows.context, *groups]))
    try:
        available = column_names(unlabelled)
        require_columns(needed, available, "needed are the columns of features, context= and clusters")
        formula = rows.formula
        roles = [name for name in (*formula.outcomes, formula.first, formula.second) if name in available]
        also = [name for name in rows.also if name in available]
        new = take_columns(unlabelled, list(dict.fromkeys([*needed, *roles, *also])))
        check_names(new, [name for name in [*needed, *roles] if not is_vector_column(new[name])])
    except DmlrankError as error:
        raise type(error)(f"unlabelled=: {error}") from None
    for name in roles:
        _check_empty(new[name], name in formula.outcomes, formula.outcome)
    for name in needed:
        _check_kinds(rows.table[name], new[name])
    below = new.drop(columns=[name for name in roles if name not in needed])
    joined = rows_below(rows.table, below)
    n_rows = len(joined)
    coded = {name: column.lengthened(n_rows) for name, column in rows.roles.items()}
    return replace(rows, table=joined, roles=coded, index=np.arange(n_rows), n_rows=n_rows)


def rows_below(own: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """The columns of ``own`` with the rows of ``new`` below; what ``new`` does not have is missing there."""
    index = pd.RangeIndex(len(own) + len(new))
    columns = {
        name: _joined(own[name], new[name]) if name in new.columns else _lengthened(own[name], len(index))
        for name in own.columns
    }
    return pd.DataFrame({name: column.set_axis(index) for name, column in columns.items()}, index=index)


def _check_empty(column: pd.Series, outcome: bool, outcomes: str) -> None:
    known = np.flatnonzero(column.notna())
    if not len(known):
        return
    seen = (
        f"unlabelled=: column {column.name!r} is {column.iloc[known[0]]!r} in row {known[0]} ({len(known)} such rows)"
    )
    if outcome:
        raise DataError(f"{seen}; rows with labels belong into data")
    raise DataError(
        f"{seen}; these contexts have no pair: leave the item columns out, or append the rows to data with "
        f"{outcomes!r} missing"
    )


def _check_kinds(own: pd.Series, new: pd.Series) -> None:
    kinds = _kind(own), _kind(new)
    if None not in kinds and kinds[0] != kinds[1]:
        raise DataError(f"unlabelled=: column {own.name!r} holds {kinds[1]}, in data it holds {kinds[0]}")


def _joined(own: pd.Series, new: pd.Series) -> pd.Series:
    """Both columns below each other; categories in the order of the data's, then those that only ``new`` has."""
    if isinstance(own.dtype, pd.CategoricalDtype):
        coded = isinstance(new.dtype, pd.CategoricalDtype)
        levels = list(new.cat.categories) if coded else sorted(new.dropna().unique())
        values = [*own.astype(object), *new.astype(object)]
        return pd.Series(pd.Categorical(values, list(dict.fromkeys([*own.cat.categories, *levels]))), name=own.name)
    if own.dtype == new.dtype:
        return pd.concat([own, new])
    if bool in (own.dtype, new.dtype) and (_kind(own), _kind(new)) == _NUMBERS:
        own, new = own.astype(float), new.astype(float)
    return plain_column(pd.concat([own.astype(object), new.astype(object)], ignore_index=True))


def _lengthened(own: pd.Series, n_rows: int) -> pd.Series:
    """The column, and missing values below it."""
    # As objects, whole numbers stay exact beside missing ones.
    keeps_type = isinstance(own.dtype, pd.CategoricalDtype) or own.dtype.kind in "mM"
    return plain_column((own if keeps_type else own.astype(object)).reindex(range(n_rows)))


_NUMBERS = ("numbers", "numbers")


def _kind(column: pd.Series) -> str | None:
    """What the known values of a column are, in words; None where there are none."""
    values = pd.Series(column.cat.categories) if isinstance(column.dtype, pd.CategoricalDtype) else column.dropna()
    if not len(values):
        return None
    if is_vector_column(values):
        return "vectors"
    return kind_of_time(values) or ("numbers" if is_numeric_column(values) else "text")
