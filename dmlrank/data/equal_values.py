"""Equal values of columns, and contexts that share a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy

from .._utils.tasks_and_threads import warn
from ..exceptions import listed
from .arrays import BLOCK_NUMBERS, AnyArray, IntArray, Variable, is_vector_column, row_slices, vector_blocks
from .formula.parse import names_in


def value_codes(column: Variable) -> IntArray:
    """Return a code for each value, (rows,), from 0 on: equal values, or equal rows of an array, have equal codes.

    A missing cell has the code -1. A missing vector counts as a vector of NaN, whose code is not -1.
    """
    if isinstance(column, pd.Series):
        if is_vector_column(column):
            return row_codes(vector_blocks(column))
        return pd.factorize(column, use_na_sentinel=True)[0]
    matrix = column.reshape(len(column), -1) if column.size else np.zeros((len(column), 1))
    if matrix.dtype.kind in "biuf":
        return row_codes(matrix[rows] for rows in row_slices(*matrix.shape, BLOCK_NUMBERS))
    groups = pd.DataFrame(matrix).groupby(list(range(matrix.shape[1])), sort=False, dropna=False)
    return np.asarray(groups.ngroup(), dtype=np.intp)


def row_codes(blocks: Iterable[AnyArray]) -> IntArray:
    """Return a code for each row of numbers, (rows,), from blocks (b, width): equal rows have equal codes."""
    # Hashes of 128 bits stand for the rows, which would take longer to sort or compare. NaN equals NaN, -0.0 equals
    # 0.0.
    # Two independent hashes for each row, from the bits of its numbers.
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
        f"{shared.n_repeats:,} of {len(shared.code):,} contexts repeat a value of "
        f"{listed(shared.names)}{identifiers} ({shared.n_different:,} different values): if these are the same prompt, "
        f"their votes are not independent and standard errors are too small; {join} joins them to one context, and "
        f"cov_type='cluster' with cov_kwds={{'groups': {groups_option}}} allows for the dependence",
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
