"""Named columns of the user's frame, coded columns, equal values, and contexts that share a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pandas as pd
import scipy

from .._utils.tasks_and_threads import warn
from ..exceptions import DataError, OptionError, listed, named_rows, shown
from .arrays import (
    BLOCK_NUMBERS,
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    Variable,
    is_vector_column,
    name_of,
    row_slices,
    too_large_error,
    vector_blocks,
)
from .formula.parse import names_in

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
        f"set the index to these labels (each once), or pass {name}.to_numpy()"
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
                f"{name} is a frame with {finding} among its {side} ({listed(names)}); name once every model of "
                f"{listed(items)}"
            )
        places.append(names.get_indexer(pd.Index(items)))
    return value.to_numpy()[places[0]][:, places[1]]


# Half of a surrogate pair, which UTF-8 cannot encode.
HALF_PAIR = re.compile("[\ud800-\udfff]")
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
            wrong = [isinstance(cell, tuple) or not isinstance(cell, Hashable) for cell in column]
            cell = column.iloc[wrong.index(True)]
            raise DataError(
                f"column {column.name!r} holds {shown(cell, 80)}, a {type(cell).__name__}, in {named_rows(wrong)}; "
                f"allowed: names, numbers or labels"
            ) from None
        return cls(codes, np.asarray(levels, dtype=object))

    def only(self, rows: BoolArray | IntArray) -> CodedColumn:
        """Return the cells of some rows; levels that do not occur in these rows are left out."""
        codes, used_levels = pd.factorize(np.where(self.codes[rows] < 0, np.nan, self.codes[rows]))
        return CodedColumn(codes, self.levels[used_levels.astype(np.intp)])

    def with_plain_names(self, known: Collection[str] | None = None) -> tuple[CodedColumn, set[str]]:
        """Return the column with names of models without outer blanks in the Unicode form NFC, and what was changed.

        A name of blanks alone is missing. ``known`` are the only names that others may become, such as the models in a
        column of winners.
        """
        texts = [level for level in self.levels if isinstance(level, str)]
        names = {text: unicodedata.normalize("NFC", text.strip()) or None for text in texts}
        plain = {text: name for text, name in names.items() if name != text and (known is None or name in known)}
        if not plain:
            return self, set()
        levels = np.array([plain.get(name_of(level), level) for level in self.levels], dtype=object)
        # Names that become the same are one level, and None is none.
        place, distinct = pd.factorize(levels)
        changed = {text for text, name in plain.items() if name}
        return CodedColumn(np.append(place, -1)[self.codes], np.asarray(distinct, dtype=object)), changed

    def places(self, names: Sequence[str]) -> IntArray:
        """Return the place of each cell's name among ``names``, (rows,); -1 for a missing cell or another name."""
        place_of = {name: place for place, name in enumerate(names)}
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
    return f" (such as {shown_ids}: a missing value has made decimals of whole numbers; read both as text, dtype=str)"


def _check_whole_names_are_compared(column: pd.Series) -> None:
    """Raise where a name has the character NUL and pandas compares names only up to there, as it does before 3.0."""
    has_names = _COMPARES_UP_TO_NUL and column.dtype == object
    if has_names and any("\0" in cell for cell in column if isinstance(cell, str)):
        raise DataError(f"column {column.name!r} holds a name with the character NUL; remove it, or install pandas 3")


def check_unicode(columns: Sequence[object], names: Iterable[str]) -> None:
    """Raise where a name cannot be encoded in UTF-8, as tables and files of results need it."""
    for name in names:
        if HALF_PAIR.search(name):
            raise DataError(
                f"column {columns[0]!r} holds the name {name!r}, which has half of a surrogate pair; correct it"
            )


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
                raise DataError(
                    f"{listed(names)}: {other!r} ({type(other).__name__}) and {level!r} ({type(level).__name__}) read "
                    f"the same; give them one type, such as data[{names[0]!r}].astype(str), or rename one"
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


# --- equal values -----------------------------------------------------------------------------------------------------


def value_codes(column: Variable) -> IntArray:
    """Return a code for each value, (rows,), from 0 on: equal values, or equal rows of an array, have equal codes.

    A missing cell has the code -1. A missing vector counts as a vector of NaN, whose code is not -1.
    """
    if isinstance(column, pd.Series):
        try:
            return row_codes(vector_blocks(column)) if is_vector_column(column) else pd.factorize(column)[0]
        except (DataError, TypeError):
            # Lists that are no vectors, and cells without a hash, such as the messages of a chat, are compared as text.
            return pd.factorize(column.map(str, na_action="ignore"))[0]
    matrix = column.reshape(len(column), -1) if column.size else np.zeros((len(column), 1))
    if matrix.dtype.kind in "biuf":
        return row_codes(matrix[rows] for rows in row_slices(*matrix.shape, BLOCK_NUMBERS))
    groups = pd.DataFrame(matrix).groupby(list(range(matrix.shape[1])), sort=False, dropna=False)
    return np.asarray(groups.ngroup(), dtype=np.intp)


def row_codes(blocks: Iterable[AnyArray]) -> IntArray:
    """Return a code for each row of numbers, (rows,), from blocks (b, width): equal rows have equal codes."""
    # Two hashes of 64 bits stand for a row, which takes longer to sort or compare. NaN equals NaN, -0.0 equals 0.0.
    hashes = [np.empty((0, 2), np.uint64)]
    scramble, multipliers = np.empty(0, np.uint64), np.empty((0, 2), np.uint64)
    for block in blocks:
        width = block.shape[1]
        if len(multipliers) != width:
            even = np.random.default_rng(0).integers(2**63, size=(width, 3), dtype=np.uint64) * np.uint64(2)
            scramble, multipliers = even[:, 0] + np.uint64(1), even[:, 1:] + np.uint64(1)
        # Adding zero turns -0.0 into 0.0 and makes a copy.
        bits = (block.astype(np.float64) + 0.0).view(np.uint64)
        bits *= scramble
        # Numbers such as 1.0 have zeros in their lower bits; the upper bits are copied there.
        bits ^= bits >> np.uint64(32)
        hashes.append(np.stack([(bits * column).sum(axis=1) for column in multipliers.T], axis=1))
    groups = pd.DataFrame(np.concatenate(hashes)).groupby([0, 1], sort=False)
    return np.asarray(groups.ngroup(), dtype=np.intp)


# A feature identifies texts if it has more different values than this, or more than half as many as there are contexts.
_FEWEST_VALUES = 50
# Columns of numbers with decimals identify texts together if there are at least so many, as in an embedding.
_FEWEST_COLUMNS = 5
# Number of vectors, from the top of a column, that are searched for numbers with decimals.
_SEARCHED_VECTORS = 50


@dataclass(frozen=True, slots=True, eq=False)
class SharedTexts:
    """Which contexts have the same text, by an integer code, (n,).

    names: The features that are equal.
    column: The column of texts, where one of the features is such a column.
    was_warned_of: Whether the user already got a warning about repeated values in these features.
    """

    names: tuple[str, ...]
    column: str | None
    code: IntArray
    was_warned_of: bool = False

    @property
    def n_different(self) -> int:
        """Number of different texts."""
        return int(self.code.max()) + 1

    @property
    def n_repeats(self) -> int:
        """Number of contexts whose text an earlier context has."""
        return len(self.code) - self.n_different


def find_shared_texts(features: str, columns: Mapping[str, Variable]) -> SharedTexts | None:
    """Return which contexts share a text; None where none do, or where no feature identifies texts."""
    arguments = names_in(features).arguments
    found = {name: _text_code(column, name in arguments) for name, column in columns.items()}
    codes = {name: code for name, code in found.items() if code is not None}
    singles = {name: np.asarray(column) for name, column in columns.items() if column.ndim == 1}
    fractions = {name: column for name, column in singles.items() if _has_fractions(column)}
    if len(fractions) >= _FEWEST_COLUMNS:
        numbers = list(fractions.values())
        is_missing = np.logical_and.reduce([np.isnan(column) for column in numbers])
        slices = row_slices(len(is_missing), len(numbers), BLOCK_NUMBERS)
        code = row_codes(np.stack([column[rows] for column in numbers], axis=1) for rows in slices)
        joint = _if_it_tells_texts_apart(np.where(is_missing, -1, code))
        if joint is not None:
            codes[", ".join(fractions)] = joint
    if not codes:
        return None
    code = value_codes(np.stack(list(codes.values()), axis=1)) if len(codes) > 1 else next(iter(codes.values()))
    if code.max(initial=-1) + 1 == len(code):
        return None
    text_columns = [name for name in codes if name in columns and _is_text(columns[name])]
    return SharedTexts(tuple(codes), text_columns[0] if text_columns else None, code)


def join_shared(unit: IntArray, shared: SharedTexts | None, n_folds: int) -> IntArray:
    """Join units, (n,), that share a text, so that no text is in two folds; return the unit of each context, (n,)."""
    # A joined unit has the smallest number of its units. All units stay if one would be larger than a fold.
    if shared is None:
        return unit
    n_units, n_texts = int(unit.max()) + 1, shared.n_different
    edges = scipy.sparse.coo_matrix((np.ones(len(unit)), (unit, n_units + shared.code)), shape=(n_units + n_texts,) * 2)
    part = scipy.sparse.csgraph.connected_components(edges, directed=False)[1][unit]
    if np.bincount(part).max() > len(unit) / n_folds:
        return unit
    smallest = np.full(int(part.max()) + 1, n_units)
    np.minimum.at(smallest, part, unit)
    return smallest[part]


def warn_of_shared_texts(
    shared: SharedTexts | None, groups: Sequence[IntArray | None], context: tuple[str, ...]
) -> None:
    """Warn where contexts share a text although the standard errors take them as independent. Shapes: groups (n,)."""
    if shared is None or shared.was_warned_of:
        return
    first = np.unique(shared.code, return_index=True)[1]
    if any(group is not None and (group == group[first][shared.code]).all() for group in groups):
        return
    identifiers = f" under another {listed(context)}" if context else ""
    name = shared.column
    join = f"context={name!r}" if name else "context= with the column of the texts"
    groups_option = repr(name) if name else "column of the texts"
    warn(
        f"{shared.n_repeats:,} of {len(shared.code):,} contexts repeat a value of {listed(shared.names)}{identifiers} "
        f"({shared.n_different:,} different values): if these are the same prompt, standard errors are too small; "
        f"{join} joins them to one context, and cov_type='cluster' with cov_kwds={{'groups': {groups_option}}} allows "
        f"for the dependence",
    )


def _text_code(column: Variable, is_argument: bool) -> IntArray | None:
    """Return an integer code of each context's text, (n,); None if the feature does not identify texts."""
    if isinstance(column, pd.Series) and not is_vector_column(column):
        if not (is_argument and _is_text(column)):
            return None
        code = value_codes(column)
    else:
        vectors = column if isinstance(column, np.ndarray) else next(vector_blocks(column))
        if vectors.ndim != 2 or vectors.shape[1] < 2 or not _has_fractions(vectors[:_SEARCHED_VECTORS]):
            return None
        blocks = [column] if isinstance(column, np.ndarray) else vector_blocks(column)
        is_missing = np.concatenate([np.isnan(block).all(axis=1) for block in blocks])
        code = np.where(is_missing, -1, value_codes(column))
    return _if_it_tells_texts_apart(code)


def _is_text(column: Variable) -> bool:
    """Return whether a column holds strings."""
    return isinstance(column, pd.Series) and pd.api.types.infer_dtype(column, skipna=True) == "string"


def _has_fractions(numbers: AnyArray) -> bool:
    """Return whether an array holds a finite number that is not whole."""
    return numbers.dtype.kind == "f" and bool((np.isfinite(numbers) & (numbers != np.floor(numbers))).any())


def _if_it_tells_texts_apart(code: IntArray) -> IntArray | None:
    """Return codes, (n,), every -1 replaced by a code of its own; None if there are too few different values."""
    is_missing, numbered = code < 0, code.copy()
    numbered[is_missing] = code.max(initial=-1) + 1 + np.arange(is_missing.sum())
    n_different = int(numbered.max(initial=-1)) + 1
    return numbered if n_different > min(_FEWEST_VALUES, len(code) / 2) else None
