"""Joins further rows to the frame of a fit: checks of their columns and kinds of values, and of repeated rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..exceptions import ColumnError, DataError, FrameTypeError, listed, nearest
from .columns import Columns
from .derived_pairs import DerivedPairs
from .frames import PlainFrame, column_names, take_columns
from .plain_columns import is_numeric_column, is_vector_column, kind_of_time, plain_column

_ARGUMENT = "new_rows"
# Cells, from the top of a column, that show what kind of values the column holds.
_CELLS_SHOWING_KIND = 1000


class JoinedRows(NamedTuple):
    """The rows of a fit, followed by further rows.

    table: All rows, with the columns of the frame of the fit.
    n_old, n_new: Number of rows of the fit, and of further rows.
    remarks: Sentences on columns that only one of the two frames has.
    """

    table: PlainFrame
    n_old: int
    n_new: int
    remarks: tuple[str, ...] = ()


def join_rows(
    frame: object,
    new_rows: object,
    needed: Sequence[str],
    identifiers: Sequence[str],
    *,
    already_read: Columns | None = None,
) -> JoinedRows:
    """Return the frame of a fit with further rows appended.

    Columns that only the frame of the fit has are missing in the further rows. Columns that only the further rows have
    are left out.
    """
    if isinstance(new_rows, DerivedPairs):
        raise FrameTypeError(f"{_ARGUMENT} is data from scores or rankings, and the fit was made from a frame of votes")
    try:
        new_names = column_names(new_rows)
    except (FrameTypeError, DataError) as error:
        raise type(error)(f"{_ARGUMENT}: {error}") from None
    old_names = column_names(frame)
    lacking = [name for name in needed if name not in new_names]
    if lacking:
        raise ColumnError(
            f"{_ARGUMENT} lacks the column {lacking[0]!r}, which the fit uses{nearest(lacking[0], new_names)} (columns "
            f"of {_ARGUMENT}: {listed(new_names)}); pass rows with the columns {listed(needed, 20)}"
        )
    shared_names = [name for name in old_names if name in new_names]
    # Long texts that the fit does not use, such as answers, keep pandas' type of text, which takes no time and memory.
    kept = {name for name in shared_names if name not in needed and _are_texts(frame, new_rows, name)}
    read = pd.DataFrame() if already_read is None else already_read.table()
    to_take = [name for name in old_names if name not in kept and name not in read]
    old = _with_texts(_beside(read, take_columns(frame, to_take)), frame, old_names)
    taken = take_columns(new_rows, [name for name in shared_names if name not in kept])
    new = _with_texts(taken, new_rows, shared_names)
    for name in new.columns:
        # The first cells show what kind of values a column holds, unless all of them are missing.
        first_cells = old[name].iloc[:_CELLS_SHOWING_KIND]
        _check_same_kind(old[name] if first_cells.isna().all() else first_cells, new[name], _ARGUMENT)
        new[name] = _as_whole_numbers(old[name], new[name])
    _check_repeated(old, new, identifiers)
    return JoinedRows(PlainFrame(_rows_below(old, new)), len(old), len(new), _remarks(old_names, new_names))


def _beside(read: pd.DataFrame, taken: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of two tables of the same rows, read before and taken now."""
    if len(read.columns) and len(read) != len(taken):
        raise DataError(
            f"the frame of the fit has {len(taken):,} rows; when it was read it had {len(read):,}; fit a copy of a "
            f"frame that changes"
        )
    columns = {name: table[name] for table in (read, taken) for name in table.columns}
    return pd.DataFrame(columns, index=taken.index)


def _are_texts(frame: object, new_rows: object, name: str) -> bool:
    """Return whether a column has pandas' type of text in both frames."""
    frames = (frame, new_rows)
    return all(isinstance(f, pd.DataFrame) and isinstance(f.dtypes.get(name), pd.StringDtype) for f in frames)


def _with_texts(table: pd.DataFrame, frame: Any, names: Sequence[str]) -> pd.DataFrame:
    """Return a table with further columns of a pandas frame as they are, in the order of ``names``."""
    columns = {name: table[name] if name in table else frame[name].set_axis(table.index) for name in names}
    return pd.DataFrame(columns, index=table.index)


def _as_whole_numbers(old: pd.Series, new: pd.Series) -> pd.Series:
    """Return new floats as whole numbers where the old column holds whole numbers, so that identifiers agree."""
    if old.dtype.kind != "i" or new.dtype.kind != "f" or not (new == np.floor(new)).all():
        return new
    return new.astype(old.dtype)


def _remarks(old_names: Sequence[str], new_names: Sequence[str]) -> tuple[str, ...]:
    """Return sentences on columns that only one of the two frames has."""
    only_old = [name for name in old_names if name not in new_names]
    only_new = [name for name in new_names if name not in old_names]
    remarks = []
    if only_old:
        remarks.append(f"the columns {listed(only_old)} are missing in the new rows")
    if only_new:
        remarks.append(
            f"the columns {listed(only_new)} of the new rows are not in the data of the fit and are left out"
        )
    return tuple(remarks)


def _check_repeated(old: pd.DataFrame, new: pd.DataFrame, identifiers: Sequence[str]) -> None:
    """Raise where new rows repeat old rows in all columns, unless old rows also repeat each other."""
    names = [name for name in new.columns if not is_vector_column(old[name]) and not is_vector_column(new[name])]
    old_rows = np.arange(len(old))
    if identifiers:
        # Only contexts that both frames have can have repeated rows.
        is_candidate = np.logical_and.reduce([old[name].isin(new[name]).to_numpy() for name in identifiers])
        old_rows = np.flatnonzero(is_candidate)
    if not len(old_rows) or not names:
        return
    old_codes = _row_codes(old[names].iloc[old_rows])
    new_codes = _row_codes(new[names])
    is_repeated = np.isin(new_codes, old_codes)
    if not is_repeated.any() or len(np.unique(old_codes)) < len(old_codes):
        return
    row = int(np.flatnonzero(is_repeated)[0])
    old_row = int(old_rows[np.flatnonzero(old_codes == new_codes[row])[0]])
    raise DataError(
        f"{int(is_repeated.sum()):,} of {len(new):,} rows of {_ARGUMENT} are already among the rows of the fit: row "
        f"{row} equals row {old_row} of the data in all columns; pass the rows that are new. If these rows are other "
        f"votes with the same content, add a column that tells votes apart, such as a time, to both frames"
    )


def _row_codes(table: pd.DataFrame) -> NDArray[np.uint64]:
    """Return a hash of each row, (rows,), which depends on the values but not on the types of the columns."""
    columns = {}
    for name in table.columns:
        column = table[name]
        columns[name] = column.astype(float) if column.dtype.kind in "biuf" else column.astype(object).astype(str)
    return np.asarray(pd.util.hash_pandas_object(pd.DataFrame(columns), index=False), dtype=np.uint64)


def _rows_below(data: pd.DataFrame, further: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of ``data`` with the rows of ``further`` below, missing in columns that ``further`` lacks."""
    index = pd.RangeIndex(len(data) + len(further))
    columns = {
        name: _concatenated(data[name], further[name])
        if name in further.columns
        else _with_missing_below(data[name], len(index))
        for name in data.columns
    }
    return pd.DataFrame({name: column.set_axis(index) for name, column in columns.items()}, index=index)


def _check_same_kind(column: pd.Series, further: pd.Series, argument: str) -> None:
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
