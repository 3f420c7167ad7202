"""Columns that live in Arrow memory: polars, pyarrow and DuckDB frames, and pandas columns of Arrow types."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import narwhals as nw
import pandas as pd

from ..exceptions import DataError, MissingExtraError


def arrow_module(kind: str) -> ModuleType:
    """pyarrow, which reading ``kind`` needs.

    Raises
    ------
    MissingExtraError
        If it is not installed.

    Examples
    --------
    >>> arrow_module("a parquet file").__name__
    'pyarrow'
    """
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(f"reading {kind} needs pyarrow: pip install 'dmlrank[arrow]'") from None
    return pyarrow


def frame_columns(frame: nw.DataFrame[Any], places: Sequence[int]) -> list[pd.Series]:
    """Columns of an eager polars or pyarrow frame, by place, as pandas Series.

    A polars Categorical becomes strings: the order of its levels is that in which the process has met them. An Enum
    and an Arrow dictionary are categories in the order in which they were declared.
    """
    arrow_module(f"a {frame.implementation.value} frame")
    columns = [frame[:, place] for place in places]
    if frame.implementation.is_polars():
        columns = [c.cast(nw.String) if c.dtype == nw.Categorical else c for c in columns]
    return [series_of(column.to_arrow()) for column in columns]


def relation_columns(frame: nw.LazyFrame[Any], names: Sequence[str]) -> list[pd.Series]:
    """Columns of a DuckDB relation, read by one query, in the order of its rows.

    Raises
    ------
    DataError
        If the connection is told not to keep the order of rows, or the query fails.
    """
    pyarrow = arrow_module("a DuckDB relation")
    try:
        _check_order(frame.to_native())
        table = frame.select(nw.col(*names)).collect("pyarrow").to_native()
    except Exception as error:
        raise _own_error(error) from None
    assert isinstance(table, pyarrow.Table)
    return [series_of(table.column(name)) for name in names]


def relation_names(frame: nw.LazyFrame[Any]) -> list[str]:
    """Names of the columns of a DuckDB relation; no row is read."""
    try:
        return list(frame.columns)
    except Exception as error:
        raise _own_error(error) from None


def relation_length(frame: nw.LazyFrame[Any]) -> int:
    """Number of rows of a DuckDB relation."""
    arrow_module("a DuckDB relation")
    try:
        return int(frame.select(nw.len()).collect("pyarrow").item())
    except Exception as error:
        raise _own_error(error) from None


def series_of(column: Any) -> pd.Series:
    """An Arrow array as a pandas Series; whole numbers beside missing ones stay exact."""
    return pd.Series(column.to_pandas(integer_object_nulls=True)).rename(None)


def _check_order(relation: Any) -> None:
    # Asked of an empty selection, so that no row is computed for it.
    ((_, kept),) = relation.limit(0).aggregate("count(*), current_setting('preserve_insertion_order')").fetchall()
    if not kept:
        raise DataError(
            "the DuckDB connection has preserve_insertion_order = false, so its rows have no order to keep; set it to "
            "true, or hand over relation.to_arrow_table()"
        )


def _own_error(error: Exception) -> Exception:
    """DuckDB's errors as one of ours, others as they are."""
    if not type(error).__module__.lstrip("_").startswith("duckdb"):
        return error
    return DataError(f"the DuckDB relation cannot be read: {error}")
