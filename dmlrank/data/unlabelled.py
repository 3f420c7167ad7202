"""Contexts without a label: the rows of a second frame, appended to the rows of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from ..exceptions import DataError, DmlrankError
from .columns import code_columns
from .contexts import Rows
from .frames import column_names, require_columns, take_columns
from .plain_columns import is_numeric_column, is_vector_column, kind_of_time, plain_column


def append_unlabelled(rows: Rows, unlabelled: object, groups: tuple[str, ...]) -> Rows:
    """Return the rows of the data, followed by those of ``unlabelled`` with outcome and items missing."""
    if rows.names.arrays:
        raise DataError(
            f"unlabelled=: the features use {rows.names.arrays[0]!r}, an array with one entry for each row of data and "
            f"none for unlabelled rows; put it into a column of both frames"
        )
    required = list(dict.fromkeys([*rows.names.columns, *rows.context, *groups]))
    formula = rows.formula
    try:
        available = column_names(unlabelled)
        require_columns(required, available, "the columns of features, context= and clusters are needed")
        roles = [name for name in (*formula.outcomes, formula.first, formula.second) if name in available]
        optional = [name for name in rows.optional if name in available]
        table = take_columns(unlabelled, list(dict.fromkeys([*required, *roles, *optional])))
        code_columns(table, [name for name in [*required, *roles] if not is_vector_column(table[name])])
    except DmlrankError as error:
        raise type(error)(f"unlabelled=: {error}") from None
    for name in roles:
        _check_no_votes(table[name], is_outcome=name in formula.outcomes, outcome=formula.outcome)
    for name in required:
        check_same_kind(rows.table[name], table[name], "unlabelled=")
    further = table.drop(columns=[name for name in roles if name not in required])
    joined = rows_below(rows.table, further)
    n_rows = len(joined)
    coded = {name: column.lengthened(n_rows) for name, column in rows.roles.items()}
    return replace(rows, table=joined, roles=coded, index=np.arange(n_rows), n_rows=n_rows)


def rows_below(data: pd.DataFrame, further: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of ``data`` with the rows of ``further`` below, missing in columns that ``further`` lacks."""
    index = pd.RangeIndex(len(data) + len(further))
    columns = {
        name: _concatenated(data[name], further[name])
        if name in further.columns
        else _with_missing_below(data[name], len(index))
        for name in data.columns
    }
    return pd.DataFrame({name: column.set_axis(index) for name, column in columns.items()}, index=index)


def _check_no_votes(column: pd.Series, *, is_outcome: bool, outcome: str) -> None:
    """Check that a column of the outcome or of the items is missing in every row of the unlabelled frame."""
    present = np.flatnonzero(column.notna())
    if not len(present):
        return
    finding = (
        f"unlabelled=: column {column.name!r} is {column.iloc[present[0]]!r} in row {present[0]} ({len(present)} such "
        f"rows)"
    )
    if is_outcome:
        raise DataError(f"{finding}; unlabelled rows have no label: move rows with labels to data")
    raise DataError(
        f"{finding}; unlabelled contexts have no pair: leave the item columns out, or append the rows to data with "
        f"{outcome!r} missing"
    )


def check_same_kind(column: pd.Series, further: pd.Series, argument: str) -> None:
    """Check that a column holds the same kind of values in the data and in a further frame."""
    kinds = _kind_of_values(column), _kind_of_values(further)
    if None not in kinds and kinds[0] != kinds[1]:
        raise DataError(
            f"{argument}: column {column.name!r} holds {kinds[1]}, in data it holds {kinds[0]}; convert one of them"
        )


def _concatenated(column: pd.Series, further: pd.Series) -> pd.Series:
    """Return one column above the other; categories are those of the data, then those that only ``further`` has."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        is_coded = isinstance(further.dtype, pd.CategoricalDtype)
        levels = list(further.cat.categories) if is_coded else sorted(further.dropna().unique())
        values = [*column.astype(object), *further.astype(object)]
        categories = list(dict.fromkeys([*column.cat.categories, *levels]))
        return pd.Series(pd.Categorical(values, categories), name=column.name)
    if column.dtype == further.dtype:
        return pd.concat([column, further])
    has_booleans = bool in (column.dtype, further.dtype)
    if has_booleans and _kind_of_values(column) == _kind_of_values(further) == "numbers":
        column, further = column.astype(float), further.astype(float)
    return plain_column(pd.concat([column.astype(object), further.astype(object)], ignore_index=True))


def _with_missing_below(column: pd.Series, n_rows: int) -> pd.Series:
    """Return a column with missing values appended, so that it has ``n_rows`` rows."""
    # As objects, whole numbers stay exact beside missing ones.
    keeps_type = isinstance(column.dtype, pd.CategoricalDtype) or column.dtype.kind in "mM"
    return plain_column((column if keeps_type else column.astype(object)).reindex(range(n_rows)))


def _kind_of_values(column: pd.Series) -> str | None:
    """Return the kind of values of a column, as a word for errors; None if all values are missing."""
    values = pd.Series(column.cat.categories) if isinstance(column.dtype, pd.CategoricalDtype) else column.dropna()
    if not len(values):
        return None
    if is_vector_column(values):
        return "vectors"
    return kind_of_time(values) or ("numbers" if is_numeric_column(values) else "text")
