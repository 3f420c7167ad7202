"""Named columns with plain numpy types from frames of any kind: pandas, polars, Arrow, DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError

from ..exceptions import ColumnError, DataError, FrameTypeError, listed, nearest
from .derived_pairs import DerivedPairs
from .partitions import is_partitioned, partitioned_names, take_partitioned
from .plain_columns import arrow_module, arrow_to_series, plain_column

if TYPE_CHECKING:
    import pyarrow as pa


class PlainFrame(pd.DataFrame):
    """A frame with plain types and a fresh index, as :func:`take_columns` returns it, which is not converted again.

    Columns of pandas' type of text may be among the columns. They are converted when they are taken.
    Frames that pandas derives from it, by a selection of rows for example, are common frames.
    """


class Relation(Protocol):
    """The methods of a DuckDB relation that are used here. A relation is a query; it holds no rows."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""

    def project(self, columns: str) -> Relation:
        """Return a query for some of the columns, named in SQL."""

    def aggregate(self, expressions: str) -> Relation:
        """Return a query for aggregates, written in SQL."""

    def limit(self, n_rows: int) -> Relation:
        """Return a query for the first rows."""

    def fetchall(self) -> list[tuple[int, ...]]:
        """Return the rows as tuples."""

    def to_arrow_table(self) -> pa.Table:
        """Return the rows as an Arrow table."""


def column_names(data: object) -> list[str]:
    """Return the names of the columns of a frame. No row of a DuckDB relation is read."""
    if is_partitioned(data):
        found, n_rows = partitioned_names(data)
        names = pd.Index(found)
        if n_rows is not None:
            _check_not_empty(n_rows)
    elif _is_relation(data):
        with _duckdb_errors_as_data_errors():
            names = pd.Index(data.columns)
    else:
        frame = _read_eagerly(data)
        names = pd.Index([str(name) for name in frame.columns])
        _check_not_empty(len(frame))
    if not names.is_unique:
        raise _repeated_names_error(names)
    return list(names)


def take_columns(data: object, names: Sequence[str]) -> pd.DataFrame:
    """Return the named columns as a pandas frame with a fresh index and plain types, rows in the frame's order."""
    if isinstance(data, PlainFrame):
        taken = {name: data[name] for name in names}
        texts = {name: plain_column(taken[name]) for name in names if isinstance(taken[name].dtype, pd.StringDtype)}
        return pd.DataFrame(taken | texts, index=data.index)
    if is_partitioned(data):
        return _partitioned_columns(data, names)
    if _is_relation(data):
        columns = _relation_columns(data, names) if names else []
        n_rows = len(columns[0]) if names else _count_relation_rows(data)
    else:
        frame = _read_eagerly(data)
        all_names, n_rows = [str(name) for name in frame.columns], len(frame)
        columns = _eager_columns(frame, [all_names.index(name) for name in names])
    _check_not_empty(n_rows)
    index = pd.RangeIndex(n_rows)
    return pd.DataFrame(
        {name: plain_column(column.set_axis(index).rename(name)) for name, column in zip(names, columns, strict=True)},
        index=index,
    )


def _partitioned_columns(data: object, names: Sequence[str]) -> pd.DataFrame:
    """Return columns of partitioned data as a frame."""
    columns, n_rows = take_partitioned(data, names)
    _check_not_empty(n_rows)
    # Columns that are joined to a block would be in memory twice.
    return pd.DataFrame(columns, index=pd.RangeIndex(n_rows), copy=False)


def require_columns(names: Iterable[str], available: Sequence[str], purpose: str) -> None:
    """Check that every name is a column; raise :class:`ColumnError` for the first that is not."""
    for name in names:
        if name not in available:
            raise ColumnError(
                f"{purpose}: there is no column {name!r}{nearest(name, available)} (columns: {listed(available)})"
            )


def _repeated_names_error(names: pd.Index) -> DataError:
    """Return the error for a frame in which several columns have one name."""
    repeated = names[names.duplicated()].unique()
    return DataError(
        f"the frame has several columns named {listed(repeated)}; every column must have a different name: rename or "
        f"drop all but one of them"
    )


def _read_eagerly(data: object) -> nw.DataFrame[Any]:
    """Return a narwhals frame of a frame that holds its rows; raise :class:`FrameTypeError` for anything else."""
    data = data.table if isinstance(data, DerivedPairs) else data
    try:
        return nw.from_native(data, eager_only=True)
    except DuplicateError:
        names = data.columns if isinstance(data, pd.DataFrame) else getattr(data, "column_names", [])
        raise _repeated_names_error(pd.Index(names)) from None
    except TypeError:
        hint = "; pandas.DataFrame(data) makes one" if isinstance(data, dict | list | np.ndarray) else ""
        for method in ("compute", "collect"):
            hint = f"; .{method}() makes one" if hasattr(data, method) else hint
        raise FrameTypeError(
            f"data is a {type(data).__module__}.{type(data).__name__}; it must be a pandas or polars DataFrame, a Dask "
            f"DataFrame, a pyarrow Table, a DuckDB relation or the path of parquet files{hint}"
        ) from None


def _check_not_empty(n_rows: int) -> None:
    if n_rows == 0:
        raise DataError("the frame has no rows; a fit needs one row for each vote: check how the frame was filtered")


def _eager_columns(frame: nw.DataFrame[Any], places: Sequence[int]) -> list[pd.Series]:
    """Return the columns at these places of a frame as pandas Series."""
    if not places:
        return []
    if frame.implementation.is_polars() or frame.implementation.is_pyarrow():
        return _arrow_columns(frame, places)
    table = frame.select(nw.nth(*places)).to_pandas()
    return [table.iloc[:, place] for place in range(len(places))]


def _arrow_columns(frame: nw.DataFrame[Any], places: Sequence[int]) -> list[pd.Series]:
    """Return the columns at these places of an eager polars or pyarrow frame as pandas Series."""
    arrow_module(f"a {frame.implementation.value} frame")
    columns = [frame[:, place] for place in places]
    if frame.implementation.is_polars():
        columns = [c.cast(nw.String) if c.dtype == nw.Categorical else c for c in columns]
    return [arrow_to_series(column.to_arrow()) for column in columns]


def _is_relation(data: object) -> TypeGuard[Relation]:
    """Return whether a caller's frame is a DuckDB relation."""
    kind = type(data)
    return kind.__name__ == "DuckDBPyRelation" and kind.__module__.lstrip("_").startswith("duckdb")


def _relation_columns(relation: Relation, names: Sequence[str]) -> list[pd.Series]:
    """Return columns of a DuckDB relation, read by one query, in the order of its rows."""
    arrow_module("a DuckDB relation")
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    with _duckdb_errors_as_data_errors():
        _check_row_order(relation)
        table = relation.project(quoted).to_arrow_table()
    return [arrow_to_series(table.column(place)) for place in range(len(names))]


def _count_relation_rows(relation: Relation) -> int:
    """Return the number of rows of a DuckDB relation."""
    with _duckdb_errors_as_data_errors():
        ((n_rows,),) = relation.aggregate("count(*)").fetchall()
    return int(n_rows)


def _check_row_order(relation: Relation) -> None:
    """Raise where the connection of a relation does not keep the order of rows."""
    # The setting is read by a query on an empty selection of rows, so that DuckDB computes no row of the relation.
    ((_, keeps_order),) = (
        relation.limit(0).aggregate("count(*), current_setting('preserve_insertion_order')").fetchall()
    )
    if not keeps_order:
        raise DataError(
            "the DuckDB connection has preserve_insertion_order = false, so that its rows have no fixed order; a fit "
            "reads the rows in order: set it to true, or pass relation.to_arrow_table()"
        )


@contextmanager
def _duckdb_errors_as_data_errors() -> Iterator[None]:
    """Raise the errors of DuckDB as :class:`DataError`; other errors pass as they are."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        if not type(error).__module__.lstrip("_").startswith("duckdb"):
            raise
        raise DataError(f"the DuckDB relation cannot be read: {error}") from None
