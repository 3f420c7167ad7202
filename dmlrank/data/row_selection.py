"""Rows of columns and tables of which some columns are in mapped files."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.mapped_arrays import is_mapped, take
from .arrays import AnyArray, IntArray


def is_mapped_column(column: pd.Series | AnyArray) -> bool:
    """Return whether the numbers of a column are in a mapped file."""
    if isinstance(column, pd.Series):
        return isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf" and is_mapped(column.to_numpy())
    return is_mapped(column)


def rows_of_column(column: pd.Series, rows: IntArray | NDArray[np.bool_]) -> pd.Series:
    """Return rows of a column, by numbers or by a mask; the numbers of a mapped column stay in a file."""
    if not is_mapped_column(column):
        return column.iloc[rows]
    if rows.dtype != bool and len(rows) == len(column) and (rows == np.arange(len(rows))).all():
        return column
    return pd.Series(take(column.to_numpy(), rows), name=column.name, copy=False)


def rows_of_table(table: pd.DataFrame, rows: IntArray | NDArray[np.bool_]) -> pd.DataFrame:
    """Return rows of a table with a fresh index, by numbers or by a mask; mapped columns stay in files."""
    if not any(is_mapped_column(table[name]) for name in table.columns):
        return table.iloc[rows].reset_index(drop=True)
    n_rows = int(rows.sum()) if rows.dtype == bool else len(rows)
    index = pd.RangeIndex(n_rows)
    columns = {name: rows_of_column(table[name], rows).set_axis(index) for name in table.columns}
    return pd.DataFrame(columns, index=index, copy=False)
