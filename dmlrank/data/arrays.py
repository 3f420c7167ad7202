"""Types of arrays that modules pass to each other, chunks of rows, and columns of any frame as plain arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..exceptions import DataError, MissingExtraError, shown

# Positions in another array, integer codes of values, and counts.
IntArray: TypeAlias = NDArray[np.intp]
# Numbers in double precision.
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
# Values of any type, such as the cells of a column of the user's frame.
AnyArray: TypeAlias = NDArray[Any]
# Numbers of a matrix that are read at a time, where a pass over all rows would otherwise make a copy of the matrix.
_CHUNK_NUMBERS = 2**21


def number_in_cell(cell: object) -> float:
    """Return the number in a cell, NaN where it is missing; raise :class:`ValueError` for anything else."""
    if isinstance(cell, str):
        word = cell.strip()
        if word.casefold() in MISSING_WORDS:
            return float("nan")
        if NUMBER.fullmatch(word):
            return float(word)
        raise ValueError(word)
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return float("nan")
    if isinstance(cell, int | float | np.number | np.bool_):
        return float(cell)
    raise ValueError(shown(cell, 80))


def is_number(cell: object) -> bool:
    """Whether a cell holds a number, or a text of one, and is not missing."""
    try:
        return not np.isnan(number_in_cell(cell))
    except (ValueError, OverflowError):
        return False


def row_slices(n_rows: int, width: int, numbers: int = _CHUNK_NUMBERS, *, multiple_of: int = 1) -> Iterator[slice]:
    """Yield slices of the rows of a matrix, (n_rows, width), each with up to so many numbers in all."""
    step = max(1, numbers // max(width, 1) // multiple_of) * multiple_of
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


@dataclass(frozen=True, slots=True, eq=False)
class RowRecord:
    """A record of arrays with a row for every entry, of such records, or None; all rows share fields in ``shared``."""

    shared: ClassVar[tuple[str, ...]] = ()

    def only(self, rows: BoolArray | IntArray | slice) -> Self:
        """Return some of the rows."""
        chosen = {}
        for field in fields(self):
            values = getattr(self, field.name)
            if field.name not in self.shared and values is not None:
                chosen[field.name] = values.only(rows) if isinstance(values, RowRecord) else values[rows]
        return replace(self, **chosen)


if TYPE_CHECKING:
    import pyarrow as pa

# The values of a variable, one for each row: a column of a frame, or an array of the caller, in which the numbers of a
# vector are the second axis.
Variable: TypeAlias = pd.Series | AnyArray

# The kinds that ``pandas.api.types.infer_dtype`` returns for columns of numbers only.
NUMERIC_KINDS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean")

# Cells in lower case that stand for a missing value, in columns of scores and of votes.
MISSING_WORDS = frozenset({"", "-", "n/a", "na", "nan", "null", "none", "<na>", "#n/a", "#na", "-nan"})
# A number as files have it. One that begins with a zero, such as 007, is a name.
NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity)", re.I)

# Floats hold every whole number up to this one exactly.
LARGEST_EXACT = 2**53

# Number of cells, from the top of a column, that are searched for values that occur more than once.
_COMPARED_CELLS = 1000

# Numbers that are copied at a time: few enough for a processor's cache.
BLOCK_NUMBERS = 2**15

# pandas' names of dates and times, which are refused as features: patsy would code every single one as a category.
_TIMES = frozenset(("datetime64", "datetime", "date", "period", "timedelta64", "timedelta", "time"))


def kind_of_time(column: pd.Series) -> str | None:
    """Return the kind of time that a column holds, by pandas' name; None where it holds something else."""
    levels = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    kind = pd.api.types.infer_dtype(levels, skipna=True)
    return kind if kind in _TIMES else None


def plain_column(column: pd.Series) -> pd.Series:
    """Return a column with the plain types that :func:`take_columns` describes."""
    if isinstance(column.dtype, pd.ArrowDtype):
        values = arrow_to_series(column.array.__arrow_array__())
        column = pd.Series(values.array, index=column.index, name=column.name)
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return column.cat.remove_unused_categories()
    if getattr(dtype, "kind", None) == "M" or (isinstance(dtype, np.dtype) and dtype.kind not in "Oiuf"):
        return column
    if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
        # Smaller types overflow or lose digits in the arithmetic of a formula.
        is_huge = dtype == np.uint64 and len(column) > 0 and int(column.max()) > np.iinfo(np.int64).max
        is_long = dtype.kind == "f" and dtype.itemsize >= 8
        numbers = column.to_numpy()
        if not (is_huge or is_long):
            numbers = numbers.astype(np.float64 if dtype.kind == "f" else np.int64, copy=False)
        return pd.Series(numbers, index=column.index, name=column.name)
    if isinstance(dtype, pd.StringDtype):
        if column.iloc[:_COMPARED_CELLS].nunique() > _COMPARED_CELLS / 2:
            texts = column.array.to_numpy(dtype=object, na_value=None)
        else:
            codes, levels = pd.factorize(column)
            texts = np.array([*levels, None], dtype=object)[codes]
        return pd.Series(texts, index=column.index, name=column.name, dtype=object)
    if pd.api.types.is_numeric_dtype(dtype) or pd.api.types.infer_dtype(column, skipna=True) in NUMERIC_KINDS:
        return pd.Series(_plain_numbers(column), index=column.index, name=column.name)
    values = column.astype(object)
    return values.where(values.notna(), None)


def as_array(value: object) -> AnyArray:
    """Return an array, list, Series or frame of the caller as a plain array; vectors in cells become its rows."""
    if isinstance(value, pd.DataFrame):
        return np.column_stack([np.asarray(plain_column(value.iloc[:, place])) for place in range(value.shape[1])])
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "O":
            return value
        value = list(value)
    column = plain_column(value if isinstance(value, pd.Series) else pd.Series(value))
    return stack_vectors(column) if is_vector_column(column) else np.asarray(column)


def arrow_module(kind: str) -> ModuleType:
    """Return the module pyarrow, which is needed to read data of this ``kind``."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(f"reading {kind} needs pyarrow: pip install 'dmlrank[arrow]'") from None
    return pyarrow


def name_of(value: object) -> str:
    """Return a name as text. A whole number gets no decimal point, even where missing values made it a float."""
    return str(int(value)) if isinstance(value, float | np.floating) and value.is_integer() else str(value)


def is_vector_column(column: pd.Series) -> bool:
    """Return whether the cells of a column are themselves vectors, such as embeddings."""
    if column.dtype != object:
        return False
    # The first cell that is not missing decides; most columns have none missing.
    if len(column) and isinstance(column.iloc[0], str | list | tuple | np.ndarray):
        return not isinstance(column.iloc[0], str)
    cells = column.dropna()
    return len(cells) > 0 and isinstance(cells.iloc[0], list | tuple | np.ndarray)


def vector_layout(column: pd.Series) -> tuple[int, np.dtype[np.floating]]:
    """Return the length and the type of the vectors in a column: float32 if all vectors are float32, else float64."""
    cells = column.dropna()
    if set(map(type, cells)) == {np.ndarray} and {cell.ndim for cell in cells} == {1}:
        lengths, are_float32 = set(map(len, cells)), {cell.dtype for cell in cells} == {np.dtype(np.float32)}
    else:
        lengths = {len(cell if isinstance(cell, list | tuple) else _as_vector(cell, column.name)) for cell in cells}
        are_float32 = all(getattr(cell, "dtype", None) == np.float32 for cell in cells)
    if len(lengths) != 1 or 0 in lengths:
        for cell in cells:
            _as_vector(cell, column.name)
        raise unequal_vectors_error(column.name, lengths)
    return lengths.pop(), np.dtype(np.float32 if are_float32 else np.float64)


def unequal_vectors_error(name: object, lengths: set[int]) -> DataError:
    """Return the error for a column with vectors of several lengths, or without numbers."""
    return DataError(
        f"column {name!r} holds vectors of length {', '.join(map(str, sorted(lengths)))}; allowed: one length"
    )


def stack_vectors(column: pd.Series, out: NDArray[np.floating] | None = None) -> NDArray[np.floating]:
    """Return a column of equally long vectors as a matrix, (rows, length), which is ``out`` where ``out`` is passed."""
    length, dtype = vector_layout(column)
    matrix = np.empty((len(column), length), dtype) if out is None else out
    start = 0
    for block in vector_blocks(column):
        matrix[start : start + len(block)] = block
        start += len(block)
    return matrix


def vector_blocks(column: pd.Series, block_numbers: int = BLOCK_NUMBERS) -> Iterator[NDArray[np.floating]]:
    """Yield the vectors of a column as matrices of consecutive rows; a missing cell becomes a row of NaN."""
    length, dtype = vector_layout(column)
    missing = np.full(length, np.nan, dtype)
    is_missing, cells = column.isna().to_numpy(), column.to_numpy(dtype=object)
    for rows in row_slices(len(cells), length, block_numbers):
        block = cells[rows].tolist()
        for row in np.flatnonzero(is_missing[rows]):
            block[row] = missing
        try:
            matrix = np.array(block, dtype)
        except (TypeError, ValueError, OverflowError):
            matrix = np.empty(0, dtype)
        # Where cells cannot be stacked, they are converted one by one: the error shows the cell that is no vector.
        yield matrix if matrix.ndim == 2 else np.array([_as_vector(cell, column.name) for cell in block], dtype)


def _as_vector(cell: object, name: object) -> NDArray[np.floating]:
    """Return a cell of the column ``name`` as a vector; raise :class:`DataError` where the cell is no vector."""
    is_float32 = getattr(cell, "dtype", None) == np.float32
    vector: NDArray[np.floating]
    try:
        vector = np.asarray(cell, dtype=np.float32 if is_float32 else np.float64)
    except (TypeError, ValueError, OverflowError):
        vector = np.empty((0, 0))
    if vector.ndim != 1:
        raise DataError(f"column {name!r} holds vectors, and also {shown(cell, 57)}, which is not a vector of numbers")
    return vector


def too_large_error(name: object) -> DataError:
    """Return the error for a column with a whole number that no float can hold."""
    return DataError(f"column {name!r} holds a whole number beyond 1e308, too large for a float; divide the column")


def _plain_numbers(column: pd.Series) -> AnyArray:
    """Return numbers in numpy's types: floats where cells are missing, objects where floats would not be exact."""
    missing = column.isna().to_numpy()
    numbers = np.array(column[~missing].tolist())
    if numbers.dtype == object:
        are_whole = all(
            number.as_tuple().exponent == 0 if isinstance(number, Decimal) else isinstance(number, int)
            for number in numbers
        )
        try:
            numbers = np.array([int(number) for number in numbers]) if are_whole else numbers.astype(float)
        except OverflowError:
            raise too_large_error(column.name) from None
    if not missing.any():
        return numbers
    exact = numbers.dtype.kind in "bf" or max(int(numbers.max()), -int(numbers.min())) <= LARGEST_EXACT
    cells = np.full(len(column), np.nan if exact else None, dtype=float if exact else object)
    cells[~missing] = numbers
    return cells


def arrow_to_series(column: pa.Array | pa.ChunkedArray) -> pd.Series:
    """Return an Arrow array as a pandas Series; whole numbers beside missing ones stay exact."""
    kind = column.type
    if hasattr(kind, "index_type") and str(kind.index_type).startswith("uint"):
        # Older releases of pyarrow cannot turn unsigned codes of a dictionary into pandas.
        pyarrow = arrow_module("a dictionary")
        column = column.cast(pyarrow.dictionary(pyarrow.int64(), kind.value_type, ordered=kind.ordered))
    return pd.Series(column.to_pandas(integer_object_nulls=True)).rename(None)
