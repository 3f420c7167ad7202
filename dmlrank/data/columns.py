"""Named columns of the user's frame, all read at once, and columns of names coded as integers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..exceptions import DataError, listed
from .arrays import AnyArray, FloatArray, IntArray
from .equal_values import value_codes
from .frames import column_names, take_columns
from .plain_columns import is_vector_column, name_of, too_large_error

# Before version 3, pandas compares texts up to the character NUL.
_COMPARES_UP_TO_NUL = len(pd.unique(np.array(["a\0b", "a"], dtype=object))) == 1


@dataclass(frozen=True, slots=True, eq=False)
class CodedColumn:
    """A column of names, labels or identifiers, coded as integers.

    codes (rows,): Position of the value of each cell in ``levels``, -1 where the cell is missing.
    levels: The values that occur, in the order of their first appearance.
    """

    codes: IntArray
    levels: NDArray[np.object_]

    @classmethod
    def of(cls, column: pd.Series) -> CodedColumn:
        """Return a column, coded as integers; raise ``TypeError`` where a cell, such as a list, has no hash."""
        _check_whole_names_are_compared(column)
        codes, levels = pd.factorize(column)
        return cls(codes, np.asarray(levels, dtype=object))

    @property
    def is_present(self) -> NDArray[np.bool_]:
        """Cells that are not missing, (rows,)."""
        return self.codes >= 0

    def only(self, rows: NDArray[np.bool_] | IntArray) -> CodedColumn:
        """Return the cells of some rows; levels that do not occur in these rows are left out."""
        codes, used_levels = pd.factorize(np.where(self.codes[rows] < 0, np.nan, self.codes[rows]))
        return CodedColumn(codes, self.levels[used_levels.astype(np.intp)])

    def places(self, place_of: Mapping[str, int]) -> IntArray:
        """Return the integer that ``place_of`` gives to each cell's name, (rows,); -1 for a missing cell or name."""
        return np.array([*(place_of.get(name_of(level), -1) for level in self.levels), -1], dtype=np.intp)[self.codes]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Columns of the user's frame, all read at once, with rows in the order of the frame.

    A frame need not return its rows in the same order a second time (a query without ``ORDER BY`` does not). Therefore
    all columns of a fit are taken at once.

    available: Names of all columns of the frame, in its order. Not all of them need to be in ``_table``.
    _table: The columns that were taken.
    """

    available: tuple[str, ...]
    _table: pd.DataFrame = field(repr=False)

    @classmethod
    def of(cls, columns: Mapping[str, ArrayLike], n_rows: int | None = None) -> Columns:
        """Return columns made of arrays; ``n_rows`` must be given where ``columns`` is empty."""
        series = {name: pd.Series(column) for name, column in columns.items()}
        index = pd.RangeIndex(n_rows if n_rows is not None else len(next(iter(series.values()))))
        return cls(tuple(series), pd.DataFrame(series, index=index))

    @classmethod
    def read(cls, frame: object, names: Sequence[str]) -> Columns:
        """Return named columns of a frame of any kind; see :func:`dmlrank.data.frames.take_columns`."""
        return cls(tuple(column_names(frame)), take_columns(frame, names))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that were taken."""
        return tuple(self._table.columns)

    def __contains__(self, name: object) -> bool:
        return name in self._table.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.columns)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, name: str) -> AnyArray:
        """Return the cells of a column, (rows,)."""
        return self._table[name].to_numpy()

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Return where a column has no value, (rows,)."""
        return self._table[name].isna().to_numpy()

    def coded(self, name: str) -> CodedColumn:
        """Return a column of names or labels, coded as integers; raise :class:`DataError` for other columns."""
        return code_columns(self._table, [name])[name]

    def value_codes(self, name: str) -> IntArray:
        """Return a code for each cell, (rows,), as :func:`dmlrank.data.equal_values.value_codes` does."""
        return value_codes(self._table[name])

    def sorted_codes(self, name: str) -> IntArray:
        """Return the position of each cell's text among all different texts in sorted order, (rows,).

        Unlike :meth:`value_codes`, these codes do not depend on the order of the rows.
        """
        _check_whole_names_are_compared(self._table[name])
        return pd.factorize(identity_texts(self._table[name]), sort=True)[0]

    def texts(self, name: str) -> NDArray[np.object_]:
        """Return the cells of a column as text, (rows,)."""
        return identity_texts(self._table[name]).to_numpy(dtype=object)

    def numbers(self, name: str) -> FloatArray:
        """Return the cells of a column as floats, (rows,); NaN where a cell is no number."""
        try:
            return pd.to_numeric(self._table[name], errors="coerce").to_numpy(dtype=float)
        except OverflowError:
            raise too_large_error(name) from None

    def identifiers(self, names: Sequence[str]) -> list[Hashable]:
        """Return an identifier for each row, (rows,): the cell of one column, or a tuple of the cells of several."""
        if len(names) == 1:
            return self._table[names[0]].tolist()
        return list(self._table[list(names)].itertuples(index=False, name=None))

    def table(self, names: Sequence[str] | None = None, rows: IntArray | None = None) -> pd.DataFrame:
        """Return columns as a DataFrame."""
        chosen = [name for name in self.available if name in self] if names is None else list(names)
        table = self._table[chosen]
        return table if rows is None else table.iloc[rows]

    def only(self, rows: NDArray[np.bool_] | IntArray) -> Columns:
        """Return the columns for some of the rows."""
        return Columns(self.available, self._table.iloc[rows].reset_index(drop=True))

    def joined(self, further: Columns) -> Columns:
        """Return these columns and further columns of the same rows."""
        new = [name for name in further if name not in self]
        columns = {name: self._table[name] for name in self} | {name: further._table[name] for name in new}
        return Columns(self.available, pd.DataFrame(columns, index=self._table.index, copy=False))

    def differing(self, other: Columns) -> list[str]:
        """Return the names of the columns that differ in some row from the column of the same name in ``other``.

        Columns of vectors are skipped.
        """
        shared = [name for name in self if name in other and not is_vector_column(self._table[name])]
        return [name for name in shared if not self._table[name].equals(other._table[name])]


def identity_texts(column: pd.Series) -> pd.Series:
    """Return a column of names or identifiers as texts, (rows,), or refuse different values with one text."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        check_identity(column.name, column.cat.categories)
    if isinstance(column.dtype, pd.CategoricalDtype) or not _has_several_types(column):
        try:
            return column.astype(str)
        except UnicodeEncodeError as error:
            raise not_unicode_error(column.name, str(error.object)) from None
    coded = CodedColumn.of(column)
    check_identity(column.name, coded.levels)
    names = np.array([*map(name_of, coded.levels), "nan"], dtype=object)
    check_unicode([column.name], names)
    return pd.Series(names[coded.codes], index=column.index, name=column.name)


def _check_whole_names_are_compared(column: pd.Series) -> None:
    """Raise where a name has the character NUL and pandas compares names only up to there, as it does before 3.0."""
    if not _COMPARES_UP_TO_NUL or column.dtype != object:
        return
    if any("\0" in cell for cell in column if isinstance(cell, str)):
        raise DataError(
            f"column {column.name!r} holds a name with the character NUL, and pandas {pd.__version__} takes names for "
            f"the same that differ after this character only; remove the character, or install pandas 3"
        )


def not_unicode_error(column: object, name: str) -> DataError:
    """Return the error for a name that is no Unicode text, because it has half of a surrogate pair."""
    return DataError(
        f"column {column!r} holds the name {name!r}, which is no text in Unicode: it has half of a surrogate pair, as "
        f"a text has that was cut within a character; correct the name"
    )


def check_unicode(columns: Iterable[object], names: Iterable[str]) -> None:
    """Raise where a name cannot be encoded in UTF-8, as tables and files of results need it."""
    for name in names:
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            raise not_unicode_error(next(iter(columns)), name) from None


def check_identity(columns: object, levels: Iterable[Hashable]) -> None:
    """Check that different values have different texts."""
    values = list(levels)
    if not _has_several_types(pd.Series(values, dtype=object)):
        return
    level_of_text: dict[str, Hashable] = {}
    for level in values:
        for text in (name_of(level), str(level)):
            other = level_of_text.setdefault(text, level)
            if other is not level and other != level:
                names = list(columns) if isinstance(columns, tuple) else [columns]
                hold = f"columns {listed(names)} hold" if len(names) > 1 else f"column {names[0]!r} holds"
                raise DataError(
                    f"{hold} {other!r} ({type(other).__name__}) and {level!r} ({type(level).__name__}), two values "
                    f"that read the same, so that one name would stand for both; if they are the same thing, give them "
                    f"one type, such as data[{names[0]!r}].astype(str); if not, rename one of them"
                )


def _has_several_types(column: pd.Series) -> bool:
    """Return whether a column holds values of several types, numbers among texts for example."""
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in ("mixed", "mixed-integer")


def code_columns(table: pd.DataFrame, names: Iterable[str]) -> dict[str, CodedColumn]:
    """Return columns of labels, names or identifiers, coded as integers."""
    coded = {}
    for name in names:
        try:
            coded[name] = CodedColumn.of(table[name])
        except TypeError:
            cell = next(cell for cell in table[name] if not _is_hashable(cell))
            raise DataError(
                f"column {name!r} holds {cell!r}, a {type(cell).__name__}; it must hold names, numbers or labels"
            ) from None
    return coded


def _is_hashable(cell: object) -> bool:
    """Return whether a cell has a hash."""
    try:
        hash(cell)
    except TypeError:
        return False
    return True
