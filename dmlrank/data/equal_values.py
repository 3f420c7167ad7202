"""Equal values of columns, and contexts that share a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from .._utils.warning_collection import warn
from ..exceptions import listed
from .arrays import AnyArray, IntArray, row_slices
from .formula.parse import function_arguments
from .plain_columns import BLOCK_NUMBERS, Variable, is_vector_column, vector_blocks


def value_codes(column: Variable) -> IntArray:
    """Return a code for each value, (rows,): equal values, or equal rows of an array, have equal codes.

    Codes count up from 0 in order of first appearance. A missing cell has the code -1. A missing vector counts as a
    vector of NaN, so that all missing vectors have the same code, which is not -1.
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


def joint_codes(columns: Sequence[NDArray[np.floating]]) -> IntArray:
    """Return a code for each row of several columns of numbers, (rows,): equal rows have equal codes."""
    slices = row_slices(len(columns[0]), len(columns), BLOCK_NUMBERS)
    return row_codes(np.stack([column[rows] for column in columns], axis=1) for rows in slices)


def row_codes(blocks: Iterable[AnyArray]) -> IntArray:
    """Return a code for each row of a matrix of numbers, (rows,): equal rows have equal codes.

    Two rows are equal if their hashes of 128 bits are equal; this is faster than sorting or comparing the rows. NaN
    equals NaN, and -0.0 equals 0.0.

    Shapes: blocks (b, width).
    """
    hashes = np.concatenate([np.empty((0, 2), np.uint64), *_row_hashes(blocks)])
    codes = pd.factorize(hashes[:, 0])[0]
    # If rows with equal first hashes always have equal second hashes, the first hash is enough.
    first_row = np.unique(codes, return_index=True)[1]
    if (hashes[:, 1] == hashes[first_row, 1][codes]).all():
        return codes
    return np.asarray(pd.DataFrame(hashes).groupby([0, 1], sort=False).ngroup(), dtype=np.intp)


def _row_hashes(blocks: Iterable[AnyArray]) -> Iterator[NDArray[np.uint64]]:
    """Yield two independent hashes for each row of each block, (b, 2), from the bits of its numbers."""
    scramble = multipliers = np.empty((0, 2), np.uint64)
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
        yield np.stack([(bits * column).sum(axis=1) for column in multipliers.T], axis=1)


# A feature identifies texts if it has more different values than this, or more than half as many as there are contexts.
_FEWEST_VALUES = 50
# Columns of numbers with decimals identify texts together if there are at least so many, as in an embedding.
_FEWEST_COLUMNS = 5
# Number of vectors, from the top of a column, that are searched for numbers with decimals.
_SEARCHED_VECTORS = 50


@dataclass(frozen=True, slots=True, eq=False)
class SharedTexts:
    """Which contexts have the same text.

    names: The features that are equal.
    column: The column of texts, where one of the features is such a column.
    code (n,): Integer code of each context's text; equal texts have equal codes.
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

    def each_in_one_group(self, group: IntArray) -> bool:
        """Return whether all contexts with the same text are in the same group, from each context's group, (n,)."""
        first = np.unique(self.code, return_index=True)[1]
        return bool((group == group[first][self.code]).all())


def find_shared_texts(features: str, columns: Mapping[str, Variable]) -> SharedTexts | None:
    """Return which contexts share a text; None where none do, or where no feature identifies texts."""
    arguments = function_arguments(features)
    codes: dict[str, IntArray] = {}
    for name, column in columns.items():
        code = _text_code(column, name in arguments)
        if code is not None:
            codes[name] = code
    fractions = {name: np.asarray(column) for name, column in columns.items() if _holds_fractions(column)}
    if len(fractions) >= _FEWEST_COLUMNS:
        is_missing = np.ones(len(next(iter(fractions.values()))), dtype=bool)
        for column in fractions.values():
            is_missing &= np.isnan(column)
        code = _number_missing(np.where(is_missing, -1, joint_codes(list(fractions.values()))))
        if _identifies_texts(code):
            codes[", ".join(fractions)] = code
    if not codes:
        return None
    code = value_codes(np.stack(list(codes.values()), axis=1)) if len(codes) > 1 else next(iter(codes.values()))
    if code.max(initial=-1) + 1 == len(code):
        return None
    text_columns = [name for name in codes if name in columns and _is_text(columns[name])]
    return SharedTexts(tuple(codes), text_columns[0] if text_columns else None, code)


def join_shared(unit: IntArray, shared: SharedTexts | None, n_folds: int) -> IntArray:
    """Join the units that share a text, so that no text is in two folds; return the new unit of each context, (n,).

    A joined unit gets the smallest number among the units that it consists of. If a joined unit would be larger than a
    fold, all units stay as they are.

    Shapes: unit (n,).
    """
    if shared is None:
        return unit
    n_units, n_texts = int(unit.max()) + 1, shared.n_different
    edges = coo_matrix((np.ones(len(unit)), (unit, n_units + shared.code)), shape=(n_units + n_texts,) * 2)
    part = connected_components(edges, directed=False)[1][unit]
    if np.bincount(part).max() > len(unit) / n_folds:
        return unit
    smallest = np.full(int(part.max()) + 1, n_units)
    np.minimum.at(smallest, part, unit)
    return smallest[part]


def warn_of_shared_texts(shared: SharedTexts | None, groups: Sequence[IntArray], context: tuple[str, ...]) -> None:
    """Warn where contexts share a text although the standard errors take them as independent.

    Shapes: groups (n,).
    """
    if shared is not None and not shared.was_warned_of and not any(shared.each_in_one_group(group) for group in groups):
        warn(explain_shared_texts(shared, context), stacklevel=2)


def explain_shared_texts(shared: SharedTexts, context: tuple[str, ...]) -> str:
    """Return the warning about shared texts: what was found, why it matters, and what to do."""
    identifiers = f" under another {listed(context)}" if context else ""
    name = shared.column
    join = f"context={name!r}" if name else "context= with the column of the texts"
    groups = repr(name) if name else "column of the texts"
    return (
        f"{shared.n_repeats:,} of {len(shared.code):,} contexts repeat a value of {listed(shared.names)}{identifiers} "
        f"({shared.n_different:,} different values): if contexts with the same value are the same prompt, their votes "
        f"are not independent and standard errors are too small; {join} joins them to one context, "
        f"and cov_type='cluster' with cov_kwds={{'groups': {groups}}} keeps them apart but allows for the dependence"
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
    code = _number_missing(code)
    return code if _identifies_texts(code) else None


def _is_text(column: Variable) -> bool:
    """Return whether a column holds strings."""
    return isinstance(column, pd.Series) and pd.api.types.infer_dtype(column, skipna=True) == "string"


def _holds_fractions(column: Variable) -> bool:
    """Return whether a column holds single numbers, some of them with decimals."""
    return column.ndim == 1 and column.dtype.kind == "f" and _has_fractions(np.asarray(column))


def _has_fractions(numbers: AnyArray) -> bool:
    """Return whether an array holds a finite number that is not whole."""
    return numbers.dtype.kind == "f" and bool((np.isfinite(numbers) & (numbers != np.floor(numbers))).any())


def _identifies_texts(code: IntArray) -> bool:
    """Return whether there are enough different values, by their codes, to tell texts apart."""
    return bool(int(code.max(initial=-1)) + 1 > min(_FEWEST_VALUES, len(code) / 2))


def _number_missing(code: IntArray) -> IntArray:
    """Return codes, (n,), in which every -1 is replaced by a new code that no other context has."""
    is_missing = code < 0
    numbered = code.copy()
    numbered[is_missing] = code.max(initial=-1) + 1 + np.arange(is_missing.sum())
    return numbered
