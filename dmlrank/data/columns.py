"""Named columns of the user's frame, and coded columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pandas as pd

from ..exceptions import DataError, OptionError, listed
from .arrays import AnyArray, BoolArray, FloatArray, IntArray, name_of, too_large_error

T = TypeVar("T")


def row_index(data: object, n_rows: int) -> pd.Index:
    """Return the index of a pandas frame, and an index 0, 1, ... for a frame of any other kind."""
    return data.index if isinstance(data, pd.DataFrame) else pd.RangeIndex(n_rows)


def align_by_index(value: T, index: pd.Index, *, name: str, of: str) -> T | pd.Series | pd.DataFrame:
    """Return a Series or DataFrame with its rows in the order of ``index``; return anything else as it is."""
    if not isinstance(value, pd.Series | pd.DataFrame) or value.index.equals(index):
        return value
    if value.index.is_unique and index.is_unique:
        place = value.index.get_indexer(index)
        if (place >= 0).all():
            return value.iloc[place]
    raise DataError(
        f"{name} is a {type(value).__name__} with the index {listed(value.index, 3)}, {of} have {listed(index, 3)}; "
        f"set the index to these labels (each once), or pass {name}.to_numpy() in the order of {of}"
    )


def align_pairs_by_name(value: T, items: Sequence[str], *, name: str) -> T | AnyArray:
    """A DataFrame about pairs of models as an array in the order of the models; return anything else as it is."""
    if not isinstance(value, pd.DataFrame):
        return value
    places = []
    for side, labels in (("rows", value.index), ("columns", value.columns)):
        names = pd.Index([name_of(label) for label in labels])
        missing = [item for item in items if item not in names]
        if missing or not names.is_unique:
            finding = f"no {listed(missing)}" if missing else "a model twice"
            raise OptionError(
                f"{name} is a frame with {finding} among its {side} ({listed(names)}); its rows and its columns must "
                f"name every model once; an array (models, models) in their order, {listed(items)}, is allowed too"
            )
        places.append(names.get_indexer(pd.Index(items)))
    return value.to_numpy()[places[0]][:, places[1]]


# Before version 3, pandas compares texts up to the character NUL.
_COMPARES_UP_TO_NUL = len(pd.unique(np.array(["a\0b", "a"], dtype=object))) == 1


@dataclass(frozen=True, slots=True, eq=False)
class CodedColumn:
    """A column coded as places, (rows,), in its ``levels``, which are in order of appearance; -1 for a missing cell."""

    codes: IntArray
    levels: AnyArray

    @classmethod
    def of(cls, column: pd.Series) -> CodedColumn:
        """Return a column, coded as integers; raise :class:`DataError` where a cell, such as a list, has no hash."""
        _check_whole_names_are_compared(column)
        try:
            codes, levels = pd.factorize(column)
        except TypeError:
            # A tuple has no hash where it holds what has none.
            cell = next(cell for cell in column if isinstance(cell, tuple) or not isinstance(cell, Hashable))
            kind = type(cell).__name__
            raise DataError(
                f"column {column.name!r} holds {cell!r}, a {kind}; it must hold names, numbers or labels"
            ) from None
        return cls(codes, np.asarray(levels, dtype=object))

    def only(self, rows: BoolArray | IntArray) -> CodedColumn:
        """Return the cells of some rows; levels that do not occur in these rows are left out."""
        codes, used_levels = pd.factorize(np.where(self.codes[rows] < 0, np.nan, self.codes[rows]))
        return CodedColumn(codes, self.levels[used_levels.astype(np.intp)])

    def with_plain_names(self, known: Collection[str] | None = None) -> tuple[CodedColumn, set[str]]:
        """Return the column with names of models without outer blanks in the Unicode form NFC, and what was changed.

        ``known`` are the only names that others may become, such as the models in a column of winners.
        """
        # A name of blanks alone stays.
        texts = [level for level in self.levels if isinstance(level, str)]
        names = {text: unicodedata.normalize("NFC", text.strip() or text) for text in texts}
        plain = {text: name for text, name in names.items() if name != text and (known is None or name in known)}
        if not plain:
            return self, set()
        levels = np.array([plain.get(name_of(level), level) for level in self.levels], dtype=object)
        # Names that become the same are one level.
        place, distinct = pd.factorize(levels)
        return CodedColumn(np.append(place, -1)[self.codes], np.asarray(distinct, dtype=object)), set(plain)

    def places(self, place_of: Mapping[str, int]) -> IntArray:
        """Return the integer that ``place_of`` gives to each cell's name, (rows,); -1 for a missing cell or name."""
        return np.array([*(place_of.get(name_of(level), -1) for level in self.levels), -1], dtype=np.intp)[self.codes]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Columns of the user's frame, with rows in the order of the frame.

    A frame need not return its rows in the same order a second time (a query without ``ORDER BY`` does not). Therefore
    all columns of a fit are taken at once.

    available: Names of all columns of the frame, also of those that are not in ``_table``.
    """

    available: tuple[str, ...]
    _table: pd.DataFrame = field(repr=False)

    def __contains__(self, name: object) -> bool:
        return name in self._table.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.columns)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, name: str) -> AnyArray:
        """Return the cells of a column, (rows,)."""
        return self._table[name].to_numpy()

    def coded(self, name: str) -> CodedColumn:
        """Return a column of names or labels, coded as integers; raise :class:`DataError` for other columns."""
        return CodedColumn.of(self._table[name])

    def sorted_codes(self, name: str) -> IntArray:
        """Return the place of each cell's text among all texts in sorted order, (rows,), whatever the order of rows."""
        _check_whole_names_are_compared(self._table[name])
        return pd.factorize(identity_texts(self._table[name]), sort=True)[0]

    def texts(self, name: str) -> AnyArray:
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


def identity_texts(column: pd.Series) -> pd.Series:
    """Return a column of names or identifiers as texts, (rows,), or refuse different values with one text."""
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    if is_category:
        check_identity(column.name, column.cat.categories)
    if is_category or not _has_several_types(column):
        try:
            return column.astype(str)
        except UnicodeEncodeError as error:
            check_unicode([column.name], [str(error.object)])
            raise
    coded = CodedColumn.of(column)
    check_identity(column.name, coded.levels)
    names = np.array([*map(name_of, coded.levels), "nan"], dtype=object)
    check_unicode([column.name], names)
    return pd.Series(names[coded.codes], index=column.index, name=column.name)


def beside(ours: Iterable[object], theirs: Iterable[object]) -> str:
    """Return two identifiers of the data beside two of another table without these, and why they may differ."""
    sides = [list(dict.fromkeys(side)) for side in (ours, theirs)]
    shown_ids = " beside ".join(listed(side[:2]) for side in sides)
    whole = [{name_of(one).removesuffix(".0") for one in side} for side in sides]
    if whole[0].isdisjoint(whole[1]):
        return f" (such as {shown_ids})"
    return (
        f" (such as {shown_ids}: a missing value has made decimals of whole numbers; drop the rows without an "
        f"identifier and convert the column, in pandas .astype('Int64').astype(str), or read both as text, dtype=str)"
    )


def _check_whole_names_are_compared(column: pd.Series) -> None:
    """Raise where a name has the character NUL and pandas compares names only up to there, as it does before 3.0."""
    has_names = _COMPARES_UP_TO_NUL and column.dtype == object
    if has_names and any("\0" in cell for cell in column if isinstance(cell, str)):
        raise DataError(
            f"column {column.name!r} holds a name with the character NUL, and pandas {pd.__version__} takes names for "
            f"the same that differ after this character only; remove the character, or install pandas 3"
        )


def check_unicode(columns: Sequence[object], names: Iterable[str]) -> None:
    """Raise where a name cannot be encoded in UTF-8, as tables and files of results need it."""
    for name in names:
        if not is_unicode(name):
            raise DataError(
                f"column {columns[0]!r} holds the name {name!r}, which is no text in Unicode: it has half of a "
                f"surrogate pair, as a text has that was cut within a character; correct the name"
            )


def is_unicode(name: str) -> bool:
    """Whether a name can be encoded in UTF-8: half of a surrogate pair cannot."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


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
                    f"{hold} {other!r} ({type(other).__name__}) and {level!r} ({type(level).__name__}), which read the "
                    f"same; give them one type, such as data[{names[0]!r}].astype(str), or rename one of them"
                )


def _has_several_types(column: pd.Series) -> bool:
    """Return whether a column holds values of several types, numbers among texts for example."""
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in ("mixed", "mixed-integer")


def similar_names(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return groups of different names that look the same: without invisible characters, blanks and letter case."""
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        normal = unicodedata.normalize("NFKC", name)
        visible = "".join(letter for letter in normal if unicodedata.category(letter) != "Cf")
        alike.setdefault(" ".join(unicodedata.normalize("NFKC", visible.casefold()).split()), []).append(name)
    return [tuple(group) for group in alike.values() if len(group) > 1]
