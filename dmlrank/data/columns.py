"""Named columns of the user's frame, taken in one reading; and a column as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..exceptions import DataError, listed
from .frames import column_names, each_vector, is_vector_column, name_of, take_columns, too_large

IntArray = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column as numbers.

    Attributes
    ----------
    codes : ndarray of int, shape (rows,)
        Place of each cell's value among the levels, -1 where it is missing.
    levels : ndarray of object
        The values that occur, in the order of their first appearance.
    """

    codes: NDArray[np.intp]
    levels: NDArray[np.object_]

    @classmethod
    def of(cls, column: pd.Series) -> Coded:
        """The cells of a column; a ``TypeError`` where one of them cannot be told from others, as a list cannot."""
        codes, levels = pd.factorize(column)
        return cls(codes, np.asarray(levels, dtype=object))

    @property
    def known(self) -> NDArray[np.bool_]:
        """Cells that are not missing, (rows,)."""
        return self.codes >= 0

    def only(self, kept: NDArray[np.bool_] | NDArray[np.intp]) -> Coded:
        """Some of the cells, with the levels that these have."""
        codes, found = pd.factorize(np.where(self.codes[kept] < 0, np.nan, self.codes[kept]))
        return Coded(codes, self.levels[found.astype(np.intp)])

    def lengthened(self, n_rows: int) -> Coded:
        """With missing cells below, ``n_rows`` in all."""
        return Coded(np.concatenate([self.codes, np.full(n_rows - len(self.codes), -1)]), self.levels)

    def places(self, place_of: Mapping[str, int]) -> IntArray:
        """The place of each cell's name, (rows,); -1 where the cell is missing or its name has no place."""
        return np.array([*(place_of.get(name_of(level), -1) for level in self.levels), -1], dtype=np.intp)[self.codes]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Columns of the user's frame, all from one reading and in the order of its rows.

    Rows of a frame need not come in the same order a second time (a query without ``ORDER BY``), so what belongs
    together is taken together.

    Attributes
    ----------
    available : tuple of str
        Names of all columns of the frame, taken or not, in its order.

    Examples
    --------
    >>> columns = Columns.of({"topic": ["code", None], "length": [3, 4]})
    >>> columns["length"], columns.missing("topic")
    (array([3, 4]), array([False,  True]))
    """

    available: tuple[str, ...]
    _table: pd.DataFrame = field(repr=False)

    @classmethod
    def of(cls, columns: Mapping[str, Any], n_rows: int | None = None) -> Columns:
        """Columns that are at hand as arrays; ``n_rows`` is needed where there are none."""
        index = pd.RangeIndex(n_rows if n_rows is not None else len(next(iter(columns.values()))))
        return cls(tuple(columns), pd.DataFrame(dict(columns), index=index))

    @classmethod
    def read(cls, frame: Any, names: Sequence[str]) -> Columns:
        """Named columns of a frame of any kind; see :func:`dmlrank.data.frames.take_columns`."""
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

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The cells of a column, (rows,)."""
        return self._table[name].to_numpy()

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Where a column has no value, (rows,)."""
        return self._table[name].isna().to_numpy()

    def coded(self, name: str) -> Coded:
        """A column of names, labels or identifiers as numbers; a :class:`DataError` where it holds something else."""
        return check_names(self._table, [name])[name]

    def value_codes(self, name: str) -> IntArray:
        """Equal cells, vectors too, have equal codes, (rows,); a missing cell that is no vector has -1."""
        return value_codes(self._table[name])

    def sorted_codes(self, name: str) -> IntArray:
        """Place of each cell's text among all texts, sorted, (rows,): whatever the order of the rows."""
        return pd.factorize(identity_texts(self._table[name]), sort=True)[0]

    def texts(self, name: str) -> NDArray[np.object_]:
        """The cells of a column as text, (rows,)."""
        return identity_texts(self._table[name]).to_numpy(dtype=object)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The cells of a column as floats, (rows,); NaN where a cell is no number."""
        try:
            return pd.to_numeric(self._table[name], errors="coerce").to_numpy(dtype=float)
        except OverflowError:
            raise too_large(name) from None

    def identifiers(self, names: Sequence[str]) -> list[Any]:
        """A name for each row, (rows,): the cell of one column, or a tuple of several cells."""
        if len(names) == 1:
            return self._table[names[0]].tolist()
        return list(self._table[list(names)].itertuples(index=False, name=None))

    def table(self, names: Sequence[str] | None = None, rows: IntArray | None = None) -> pd.DataFrame:
        """Columns as a DataFrame, all in the frame's order where none are named; its index holds the ``rows``."""
        wanted = [name for name in self.available if name in self] if names is None else list(names)
        table = self._table[wanted]
        return table if rows is None else table.iloc[rows]

    def only(self, kept: NDArray[np.bool_] | IntArray) -> Columns:
        """Some of the rows."""
        return Columns(self.available, self._table.iloc[kept].reset_index(drop=True))

    def joined(self, others: Columns) -> Columns:
        """These columns and others, of the same rows."""
        new = [name for name in others if name not in self]
        return Columns(self.available, pd.concat([self._table, others._table[new]], axis=1))

    def differing(self, others: Columns) -> list[str]:
        """Columns with the same name, vectors aside, that are not equal in every row."""
        shared = [name for name in self if name in others and not is_vector_column(self._table[name])]
        return [name for name in shared if not self._table[name].equals(others._table[name])]


def identity_texts(column: pd.Series) -> pd.Series:
    """The values of a column of names or identifiers as texts, (rows,): equal texts for equal values only.

    Raises
    ------
    DataError
        If two values, such as the number 1 and the text '1', have the same text.

    Examples
    --------
    >>> identity_texts(pd.Series([1, 1.0, "b"], dtype=object)).tolist()
    ['1', '1', 'b']
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        check_identity(column.name, column.cat.categories)
        return column.astype(str)
    if not _is_mixed(column):
        return column.astype(str)
    coded = Coded.of(column)
    check_identity(column.name, coded.levels)
    names = np.array([*map(name_of, coded.levels), "nan"], dtype=object)
    return pd.Series(names[coded.codes], index=column.index, name=column.name)


def check_identity(where: object, levels: Iterable[Any]) -> None:
    """Raise :class:`DataError` where two different values have the same text.

    Parameters
    ----------
    where : str or sequence of str
        The column or columns that hold them, for the error.
    levels : iterable
        Different values.
    """
    values, seen = list(levels), dict[str, Any]()
    if not _is_mixed(pd.Series(values, dtype=object)):
        return
    for level in values:
        for text in (name_of(level), str(level)):
            other = seen.setdefault(text, level)
            if other is not level and other != level:
                columns = [where] if isinstance(where, str) else list(where) if isinstance(where, tuple) else [where]
                both = f"columns {listed(columns)} hold" if len(columns) > 1 else f"column {columns[0]!r} holds"
                raise DataError(
                    f"{both} {other!r} ({type(other).__name__}) and {level!r} ({type(level).__name__}), two values "
                    f"that read the same; if they are one, give them one type, such as "
                    f"data[{columns[0]!r}].astype(str); if not, rename one of them"
                )


def _is_mixed(column: pd.Series) -> bool:
    """Whether a column holds values of several types, numbers among texts for example."""
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in ("mixed", "mixed-integer")


def check_names(table: pd.DataFrame, columns: Iterable[str]) -> dict[str, Coded]:
    """Columns that hold labels, names or identifiers as numbers.

    Raises
    ------
    DataError
        Where a cell is none of these.
    """
    coded = {}
    for name in columns:
        try:
            coded[name] = Coded.of(table[name])
        except TypeError:
            cell = next(cell for cell in table[name] if not _is_hashable(cell))
            raise DataError(
                f"column {name!r} holds {cell!r}, a {type(cell).__name__}; needed are names, numbers or labels"
            ) from None
    return coded


def value_codes(column: Any) -> IntArray:
    """Equal values of a column, or equal rows of an array, have equal codes, (rows,); a missing cell has -1."""
    if isinstance(column, pd.Series) and not is_vector_column(column):
        return pd.factorize(column, use_na_sentinel=True)[0]
    if not isinstance(column, pd.Series) and column.dtype.kind not in "biuf":
        matrix = column.reshape(len(column), -1)
        rows_alike = pd.DataFrame(matrix).groupby(list(range(matrix.shape[1])), sort=False, dropna=False)
        return np.asarray(rows_alike.ngroup(), dtype=np.intp)
    if isinstance(column, pd.Series):
        return _row_codes(each_vector(column))
    return _row_codes(column.reshape(len(column), -1)) if column.size else np.zeros(len(column), dtype=np.intp)


def _row_codes(rows: Iterable[NDArray[Any]]) -> IntArray:
    # One digest for each row in place of a comparison for each number. Adding zero turns -0.0 into 0.0.
    digests = [blake2b((row.astype(float) + 0.0).tobytes(), digest_size=16).digest() for row in rows]
    return pd.factorize(np.array(digests, dtype=object))[0]


def _is_hashable(cell: Any) -> bool:
    try:
        hash(cell)
    except TypeError:
        return False
    return True
