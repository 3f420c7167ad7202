"""Reading data frames of any kind (pandas, polars, Arrow, DuckDB): named columns with plain numpy types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from types import ModuleType
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from ..exceptions import ColumnError, DataError, FrameTypeError, MissingExtraError, listed, nearest

# What pandas calls an object column of nothing but numbers, and whole numbers beyond which floats are not exact.
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean")
_EXACT = 2**53
# Cells that are looked at to see whether the values of a column recur.
_PEEK = 1000

# Types of columns that patsy would take for a category per value.
_TIMES = {
    "datetime64": "timestamp",
    "datetime": "timestamp",
    "date": "date",
    "period": "period",
    "timedelta64": "time difference",
    "timedelta": "time difference",
    "time": "time of day",
}


def column_names(data: Any) -> list[str]:
    """Names of the columns of a frame; of a DuckDB relation no row is read for it.

    Raises
    ------
    FrameTypeError
        If ``data`` is not a frame, or a lazy one other than a DuckDB relation.
    DataError
        If a name stands for more than one column, or there are no rows.
    """
    frame = None if _is_relation(data) else _eager(data)
    names = pd.Index(_relation_names(data) if frame is None else [str(name) for name in frame.columns])
    if not names.is_unique:
        raise _several(names)
    if frame is not None:
        _check_rows(len(frame))
    return list(names)


def take_columns(data: Any, names: Sequence[str]) -> pd.DataFrame:
    """The named columns as a pandas frame with a fresh index and plain types, rows in the frame's order.

    The same values give the same columns whatever the kind of frame: numbers become int64 or float64 (missing ones, of
    booleans too, NaN), strings objects with None where missing, vectors objects; categories keep their order and lose
    unused levels. The caller's frame is not changed.

    Raises
    ------
    MissingExtraError
        If the kind of frame needs pyarrow, which is not installed.
    DataError
        If there are no rows, or a DuckDB relation cannot be read.
    """
    if _is_relation(data):
        columns = _relation_columns(data, names) if names else []
        n_rows = len(columns[0]) if names else _relation_length(data)
    else:
        frame = _eager(data)
        known, n_rows = [str(name) for name in frame.columns], len(frame)
        columns = _eager_columns(frame, [known.index(name) for name in names])
    index = pd.RangeIndex(_check_rows(n_rows))
    named = zip(names, columns, strict=True)
    return pd.DataFrame(
        {name: plain_column(column.set_axis(index).rename(name)) for name, column in named}, index=index
    )


def kind_of_time(column: pd.Series) -> str | None:
    """What kind of time a column holds, in words; None where it holds none.

    Examples
    --------
    >>> kind_of_time(pd.Series(pd.to_datetime(["2024-05-01"]))), kind_of_time(pd.Series([1.0]))
    ('timestamp', None)
    """
    known = column.dropna()
    if column.dtype == object and len(known) and isinstance(known.iloc[0], pd.DateOffset):
        return "time difference"
    levels = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    return _TIMES.get(pd.api.types.infer_dtype(levels, skipna=True))


def is_numeric_column(column: pd.Series) -> bool:
    """Whether a column holds numbers or booleans, be it as objects."""
    return column.dtype.kind in "biuf" or pd.api.types.infer_dtype(column, skipna=True) in _NUMBERS


def plain_column(column: pd.Series) -> pd.Series:
    """A column with plain types, as :func:`take_columns` describes them.

    Examples
    --------
    >>> plain_column(pd.Series([1, None], dtype="Int8")).tolist()
    [1.0, nan]
    """
    if isinstance(column.dtype, pd.ArrowDtype):
        plain = _series_of(column.array.__arrow_array__())
        column = pd.Series(plain.array, index=column.index, name=column.name)
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return column.cat.remove_unused_categories()
    if getattr(dtype, "kind", None) == "M" or (isinstance(dtype, np.dtype) and dtype.kind not in "Oiuf"):
        return column
    if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
        return pd.Series(_wide(column.to_numpy()), index=column.index, name=column.name)
    if isinstance(dtype, pd.StringDtype):
        return pd.Series(_texts(column), index=column.index, name=column.name, dtype=object)
    if pd.api.types.is_numeric_dtype(dtype) or pd.api.types.infer_dtype(column, skipna=True) in _NUMBERS:
        return pd.Series(_numbers(column), index=column.index, name=column.name)
    values = column.astype(object)
    return values.where(values.notna(), None)


def as_array(value: Any) -> NDArray[Any]:
    """A caller's array, list, Series or frame with plain types; vectors in its cells become a second axis."""
    if isinstance(value, pd.DataFrame):
        return np.column_stack([np.asarray(plain_column(value.iloc[:, place])) for place in range(value.shape[1])])
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return value
    column = plain_column(pd.Series(list(value) if isinstance(value, np.ndarray) else value))
    return stack_vectors(column) if is_vector_column(column) else np.asarray(column)


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


def name_of(value: object) -> str:
    """A name as text; whole numbers without the decimal point that missing values beside them bring.

    Examples
    --------
    >>> name_of(3.0), name_of("gpt-4")
    ('3', 'gpt-4')
    """
    return str(int(value)) if isinstance(value, float | np.floating) and value.is_integer() else str(value)


def require_columns(names: Iterable[str], available: Sequence[str], purpose: str) -> None:
    """Raise :class:`ColumnError` for the first name that is not a column, with the nearest one that is."""
    for name in names:
        if name not in available:
            raise ColumnError(
                f"{purpose}: there is no column {name!r}{nearest(name, available)} (columns: {listed(available)})"
            )


def is_vector_column(column: pd.Series) -> bool:
    """Whether the cells of a column are themselves vectors, such as embeddings."""
    if column.dtype != object:
        return False
    known = column.dropna()
    return len(known) > 0 and isinstance(known.iloc[0], list | tuple | np.ndarray)


def vector_layout(column: pd.Series) -> tuple[int, np.dtype[Any]]:
    """Length and type of the vectors in a column: float32 where all of them are, else float64.

    Raises
    ------
    DataError
        If their lengths differ, or are zero.
    """
    cells = column.dropna()
    lengths = sorted({len(cell) if _is_vector(cell) else len(_vector(cell, column.name)) for cell in cells})
    if len(lengths) != 1 or lengths[0] == 0:
        for cell in cells:
            _vector(cell, column.name)
        raise DataError(
            f"column {column.name!r} holds vectors of length {', '.join(map(str, lengths))}; needed is one length, at "
            f"least 1, in all rows"
        )
    single = all(getattr(cell, "dtype", None) == np.float32 for cell in cells)
    return lengths[0], np.dtype(np.float32 if single else np.float64)


def stack_vectors(column: pd.Series, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """A column of equally long vectors as a float matrix (rows, length), written into ``out`` where that is given."""
    length, dtype = vector_layout(column)
    stacked = np.empty((len(column), length), dtype) if out is None else out
    for row, vector in enumerate(each_vector(column)):
        stacked[row] = vector
    return stacked


def each_vector(column: pd.Series) -> Iterator[NDArray[Any]]:
    """The vectors of a column one by one; a missing cell is a vector of NaN."""
    missing = np.full(vector_layout(column)[0], np.nan)
    for cell, gone in zip(column, column.isna(), strict=True):
        yield missing if gone else _vector(cell, column.name)


def _is_vector(cell: Any) -> bool:
    """Whether a cell has as many numbers as its length says, its entries apart."""
    return isinstance(cell, list | tuple) or (isinstance(cell, np.ndarray) and cell.ndim == 1)


def _vector(cell: Any, name: Any) -> NDArray[Any]:
    single = getattr(cell, "dtype", None) == np.float32
    try:
        vector = np.asarray(cell, dtype=np.float32 if single else float)
    except (TypeError, ValueError, OverflowError):
        vector = np.empty((0, 0))
    if vector.ndim != 1:
        shown = repr(cell) if len(repr(cell)) <= 60 else repr(cell)[:57] + "..."
        raise DataError(f"column {name!r} holds vectors, and {shown}, which is not a vector of numbers")
    return vector


def too_large(name: object) -> DataError:
    """The error for a column with a whole number that no float holds."""
    return DataError(f"column {name!r} holds a whole number beyond 1e308, which is too large for a float")


def _several(names: pd.Index) -> DataError:
    repeated = names[names.duplicated()].unique()
    return DataError(f"the frame has several columns named {listed(repeated)}; every column needs a name of its own")


def _eager(data: Any) -> nw.DataFrame[Any]:
    try:
        return nw.from_native(data, eager_only=True)
    except DuplicateError:
        raise _several(pd.Index(data.columns if isinstance(data, pd.DataFrame) else data.column_names)) from None
    except TypeError:
        kind = f"{type(data).__module__}.{type(data).__name__}"
        hint = "; pandas.DataFrame(data) makes one" if isinstance(data, dict | list | np.ndarray) else ""
        for method in ("compute", "collect"):
            hint = f"; .{method}() makes one" if hasattr(data, method) else hint
        raise FrameTypeError(
            f"data is a {kind}; needed is a pandas or polars DataFrame, a pyarrow Table or a DuckDB relation{hint}"
        ) from None


def _check_rows(n_rows: int) -> int:
    if n_rows == 0:
        raise DataError("the frame has no rows; one row is one comparison")
    return n_rows


def _eager_columns(frame: nw.DataFrame[Any], places: Sequence[int]) -> list[pd.Series]:
    if not places:
        return []
    if frame.implementation.is_polars() or frame.implementation.is_pyarrow():
        return _frame_columns(frame, places)
    table = frame.select(nw.nth(*places)).to_pandas()
    return [table.iloc[:, place] for place in range(len(places))]


def _wide(numbers: NDArray[Any]) -> NDArray[Any]:
    """Numbers as int64 or float64: smaller types wrap around or lose digits in a formula's arithmetic."""
    if numbers.dtype.kind == "f":
        return numbers.astype(float, copy=False) if numbers.dtype.itemsize < 8 else numbers
    fits = numbers.dtype != np.uint64 or int(numbers.max(initial=0)) <= np.iinfo(np.int64).max
    return numbers.astype(np.int64, copy=False) if fits else numbers


def _is_whole(number: Any) -> bool:
    """Whether a number is of a kind that holds whole numbers only."""
    return isinstance(number, int) or (isinstance(number, Decimal) and number.as_tuple().exponent == 0)


def _texts(column: pd.Series) -> NDArray[np.object_]:
    """Strings as objects, None where missing; where values recur, equal ones are one object, compared in no time."""
    if column.iloc[:_PEEK].nunique() > _PEEK / 2:
        values = column.astype(object)
        return np.asarray(values.where(values.notna(), None))
    codes, levels = pd.factorize(column)
    return np.array([*levels, None], dtype=object)[codes]


def _numbers(column: pd.Series) -> NDArray[Any]:
    """Numbers without pandas' own types: floats where some are missing, unless that would merge whole numbers."""
    missing = column.isna().to_numpy()
    known = np.array(column[~missing].tolist())
    if known.dtype == object:
        whole = all(_is_whole(number) for number in known)
        try:
            known = np.array([int(number) for number in known]) if whole else known.astype(float)
        except OverflowError:
            raise too_large(column.name) from None
    if not missing.any():
        return known
    exact = known.dtype.kind in "bf" or max(int(known.max()), -int(known.min())) <= _EXACT
    filled = np.full(len(column), np.nan if exact else None, dtype=float if exact else object)
    filled[~missing] = known
    return filled


def _frame_columns(frame: nw.DataFrame[Any], places: Sequence[int]) -> list[pd.Series]:
    """Columns of an eager polars or pyarrow frame, by place, as pandas Series.

    A polars Categorical becomes strings: the order of its levels is that in which the process has met them. An Enum
    and an Arrow dictionary are categories in the order in which they were declared.
    """
    arrow_module(f"a {frame.implementation.value} frame")
    columns = [frame[:, place] for place in places]
    if frame.implementation.is_polars():
        columns = [c.cast(nw.String) if c.dtype == nw.Categorical else c for c in columns]
    return [_series_of(column.to_arrow()) for column in columns]


def _is_relation(data: Any) -> bool:
    """Whether a caller's frame is a DuckDB relation, which is a query and holds no rows."""
    kind = type(data)
    return kind.__name__ == "DuckDBPyRelation" and kind.__module__.lstrip("_").startswith("duckdb")


def _relation_columns(relation: Any, names: Sequence[str]) -> list[pd.Series]:
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
    return [_series_of(table.column(place)) for place in range(len(names))]


def _relation_names(relation: Any) -> list[str]:
    """Names of the columns of a DuckDB relation; no row is read."""
    with _own_errors():
        return list(relation.columns)


def _relation_length(relation: Any) -> int:
    """Number of rows of a DuckDB relation."""
    with _own_errors():
        ((n_rows,),) = relation.aggregate("count(*)").fetchall()
    return int(n_rows)


def _series_of(column: Any) -> pd.Series:
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
