"""Any eager frame at the door: the columns that are needed, as one pandas frame with plain numpy types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from ..exceptions import ColumnError, DataError, FrameTypeError, listed, nearest

# What pandas calls an object column of nothing but numbers, and whole numbers beyond which floats are not exact.
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")
_EXACT = 2**53


def column_names(data: Any) -> list[str]:
    """Names of the columns of an eager frame.

    Raises
    ------
    FrameTypeError
        If ``data`` is not a frame that can be read at once.
    DataError
        If a name stands for more than one column, or there are no rows.
    """
    frame = _eager(data)
    names = pd.Index([str(name) for name in frame.columns])
    if not names.is_unique:
        raise _several(names)
    if len(frame) == 0:
        raise DataError("the frame has no rows; one row is one comparison")
    return list(names)


def take_columns(data: Any, names: Sequence[str]) -> pd.DataFrame:
    """The named columns as a pandas frame with a fresh index and numpy types.

    Nullable numbers and booleans and objects that are all numbers become numbers (missing ones NaN), strings become
    objects with None where missing, categoricals keep their order and lose unused levels. The caller's frame is not
    changed.
    """
    frame = _eager(data)
    index = pd.RangeIndex(len(frame))
    if not names:
        return pd.DataFrame(index=index)
    known = [str(name) for name in frame.columns]
    table = frame.select(nw.nth(*(known.index(name) for name in names))).to_pandas().set_axis(list(names), axis=1)
    return pd.DataFrame({name: _plain(table[name].set_axis(index)) for name in names}, index=index)


def as_array(value: Any) -> NDArray[Any]:
    """A caller's array, list, Series or frame with plain types; vectors in its cells become a second axis."""
    if isinstance(value, pd.DataFrame):
        return np.column_stack([np.asarray(_plain(value.iloc[:, place])) for place in range(value.shape[1])])
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return value
    column = _plain(pd.Series(list(value) if isinstance(value, np.ndarray) else value))
    return stack_vectors(column) if is_vector_column(column) else np.asarray(column)


def name_of(value: object) -> str:
    """A name as text; whole numbers without the decimal point that missing values beside them bring.

    Examples
    --------
    >>> name_of(3.0), name_of("gpt-4")
    ('3', 'gpt-4')
    """
    return str(int(value)) if isinstance(value, float | np.floating) and value.is_integer() else str(value)


def check_names(table: pd.DataFrame, columns: Iterable[str]) -> None:
    """Raise :class:`DataError` where a column that holds labels, names or identifiers has cells that are none."""
    for name in columns:
        try:
            pd.factorize(table[name])
        except TypeError:
            cell = next(cell for cell in table[name] if not _is_hashable(cell))
            raise DataError(
                f"column {name!r} holds {cell!r}, a {type(cell).__name__}; needed are names, numbers or labels"
            ) from None


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
    except (TypeError, ValueError):
        vector = np.empty((0, 0))
    if vector.ndim != 1:
        shown = repr(cell) if len(repr(cell)) <= 60 else repr(cell)[:57] + "..."
        raise DataError(f"column {name!r} holds vectors, and {shown}, which is not a vector of numbers")
    return vector


def _several(names: pd.Index) -> DataError:
    repeated = names[names.duplicated()].unique()
    return DataError(f"the frame has several columns named {listed(repeated)}; every column needs a name of its own")


def _is_hashable(cell: Any) -> bool:
    try:
        hash(cell)
    except TypeError:
        return False
    return True


def _eager(data: Any) -> nw.DataFrame[Any]:
    try:
        return nw.from_native(data, eager_only=True)
    except DuplicateError:
        raise _several(pd.Index(data.columns if isinstance(data, pd.DataFrame) else data.column_names)) from None
    except TypeError:
        kind = f"{type(data).__module__}.{type(data).__name__}"
        hint = "; pandas.DataFrame(data) makes one" if isinstance(data, dict | list | np.ndarray) else ""
        hint = "; .collect() or .compute() makes one" if hasattr(data, "collect") or hasattr(data, "compute") else hint
        raise FrameTypeError(f"data is a {kind}; needed is an eager frame such as a pandas DataFrame{hint}") from None


def _plain(column: pd.Series) -> pd.Series:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return column.cat.remove_unused_categories()
    if getattr(dtype, "kind", None) == "M" or (isinstance(dtype, np.dtype) and dtype.kind != "O"):
        return column
    if pd.api.types.is_numeric_dtype(dtype) or pd.api.types.infer_dtype(column, skipna=True) in _NUMBERS:
        return pd.Series(_numbers(column), index=column.index, name=column.name)
    values = column.astype(object)
    return values.where(values.notna(), None)


def _numbers(column: pd.Series) -> NDArray[Any]:
    """Numbers without pandas' own types: floats where some are missing, unless that would merge whole numbers."""
    missing = column.isna().to_numpy()
    known = np.array(column[~missing].tolist())
    if known.dtype == object and not all(isinstance(number, int) for number in known):
        known = known.astype(float)
    if not missing.any():
        return known
    exact = known.dtype.kind in "bf" or max(int(known.max()), -int(known.min())) <= _EXACT
    filled = np.full(len(column), np.nan if exact else None, dtype=float if exact else object)
    filled[~missing] = known
    return filled
