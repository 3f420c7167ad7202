"""Columns that live in Arrow memory: polars, pyarrow and DuckDB frames, and pandas columns of Arrow types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


def is_relation(data: Any) -> bool:
    """Whether a caller's frame is a DuckDB relation, which is a query and holds no rows."""
    kind = type(data)
    return kind.__name__ == "DuckDBPyRelation" and kind.__module__.lstrip("_").startswith("duckdb")


def relation_columns(relation: Any, names: Sequence[str]) -> list[pd.Series]:
    """Columns of a DuckDB relation, read by one query, in the order of its rows.

    Raises
    ------
    DataError
        If the connection is told not to keep the order of rows, or the query fails.
    """
    arrow_module("a DuckDB relation")
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    with _own_errors():
        _check_order(relation)
        table = relation.project(quoted).to_arrow_table()
    return [series_of(table.column(place)) for place in range(len(names))]


def relation_names(relation: Any) -> list[str]:
    """Names of the columns of a DuckDB relation; no row is read."""
    with _own_errors():
        return list(relation.columns)


def relation_length(relation: Any) -> int:
    """Number of rows of a DuckDB relation."""
    with _own_errors():
        ((n_rows,),) = relation.aggregate("count(*)").fetchall()
    return int(n_rows)


def series_of(column: Any) -> pd.Series:
    """An Arrow array as a pandas Series; whole numbers beside missing ones stay exact."""
    kind = column.type
    if hasattr(kind, "index_type") and str(kind.index_type).startswith("uint"):
        # Older releases of pyarrow cannot turn unsigned codes of a dictionary into pandas.
        pa = arrow_module("a dictionary")
        column = column.cast(pa.dictionary(pa.int64(), kind.value_type, ordered=kind.ordered))
    return pd.Series(column.to_pandas(integer_object_nulls=True)).rename(None)


def _check_order(relation: Any) -> None:
    # Asked of an empty selection, so that no row is computed for it.
    ((_, kept),) = relation.limit(0).aggregate("count(*), current_setting('preserve_insertion_order')").fetchall()
    if not kept:
        raise DataError(
            "the DuckDB connection has preserve_insertion_order = false, so its rows have no order to keep; set it to "
            "true, or hand over relation.to_arrow_table()"
        )


@contextmanager
def _own_errors() -> Iterator[None]:
    """DuckDB's errors as one of ours, others as they are."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        if not type(error).__module__.lstrip("_").startswith("duckdb"):
            raise
        raise DataError(f"the DuckDB relation cannot be read: {error}") from None
