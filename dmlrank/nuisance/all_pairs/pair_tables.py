"""Scores of all item pairs of a context as sums of a few tables, each with an entry for every pair.

Trees split on context features and on the two items. Their splits on context features form branches, see
:mod:`.context_splits`, and most trees have few such splits. The scores of a context are then the sum of tables of two
kinds:

- For every feature that numeric splits on the root's branch compare, one table, chosen by the interval between
  thresholds in which the feature lies.
- For every further split, a table that is added if the context takes the split's branch and goes left there.

Where contexts are many, summing tables takes much less time than summing the rectangles of :mod:`.rectangles`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...data.outcomes import exchanged_wins
from ...data.preferences import FloatArray, IntArray
from .context_splits import Branches, Leaves, contexts_by_branch
from .parse_trees import Trees

# Largest number of entries of all tables of a booster, 64 MB.
_MOST_ENTRIES = 8_000_000
# Share of contexts assumed to get the table of a split that is not on the root's branch: those that take the split's
# branch and are sent to the left.
_SHARE_LEFT = 0.3
# Multiplications that a matrix product computes in the time in which a table is added to scores, by entry.
_MULTIPLICATIONS_PER_ADDITION = 3
# Fewest contexts for which tables are prepared. For fewer contexts, the preparation takes more time than tables save.
_FEWEST_CONTEXTS = 2_000
# Number of contexts whose tables are summed at a time.
_CONTEXTS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False)
class _OutputTables:
    """The tables of one output.

    tables (t, m): Scores of the m pairs.
    by_rank: Number of a comparison among ``branches.comparisons``, and the table of each rank of a context's value
        among the thresholds of the comparison. Every context gets one table of each comparison.
    branches (b,): Branches for which a context gets a table if it takes the branch: the last b tables.
    """

    tables: FloatArray
    by_rank: tuple[tuple[int, IntArray], ...]
    branches: IntArray

    def sums(self, ranks: Sequence[NDArray[np.unsignedinteger]], takes_branch: NDArray[np.bool_]) -> csr_array:
        """Return which tables are summed, as a matrix of ones, (n, t).

        Shapes: ranks (n,), takes_branch (n, b).
        """
        n, n_fixed, n_branches = len(takes_branch), len(self.by_rank), len(self.branches)
        number = np.empty((n, n_fixed + n_branches), dtype=np.int32)
        for column, (comparison, table_of_rank) in enumerate(self.by_rank):
            number[:, column] = table_of_rank[ranks[comparison]]
        number[:, n_fixed:] = np.arange(len(self.tables) - n_branches, len(self.tables))
        is_summed = np.ones(number.shape, dtype=bool)
        is_summed[:, n_fixed:] = takes_branch
        bounds = np.concatenate([[0], np.cumsum(np.count_nonzero(is_summed, axis=1))])
        indices = number[is_summed]
        return csr_array((np.ones(len(indices)), indices, bounds), shape=(n, len(self.tables)))


@dataclass(frozen=True, slots=True, eq=False)
class PairTables:
    """Scores of all outputs as sums of tables.

    outputs: The tables of every output.
    n_items: Number of items, K.
    place (C, K * K): Where the score of each ordered pair is found among the scores of all outputs and pairs, (C m,).
    """

    trees: Trees
    branches: Branches
    outputs: tuple[_OutputTables, ...]
    n_items: int
    place: IntArray

    @classmethod
    def of(
        cls, trees: Trees, branches: Branches, leaves: Leaves, value: FloatArray, n_items: int, *, mirrored: bool
    ) -> PairTables:
        """Prepare the tables.

        Shapes: value (n_leaves,).
        """
        n_outputs = trees.link.n_outputs
        first, second = np.triu_indices(n_items, 1) if mirrored else np.indices((n_items, n_items)).reshape(2, -1)
        scaled, swapped = value[leaves.leaf], exchanged_wins(n_outputs) if mirrored else np.arange(n_outputs)
        tables = []
        for output in range(n_outputs):
            rows = np.flatnonzero(leaves.output == output)
            by_branch = _tables_of_branches(leaves, rows, scaled, branches, pairs=(first, second))
            if mirrored:
                rows = np.flatnonzero(leaves.output == swapped[output])
                by_branch += _tables_of_branches(leaves, rows, scaled, branches, pairs=(second, first))
                by_branch /= 2
            tables.append(_output_tables(trees, branches, by_branch))
        return cls(trees, branches, tuple(tables), n_items, _places(n_items, swapped, mirrored))

    def scores(self, x: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the scores of a few contexts at a time, (b, C m), with the range of these contexts.

        Shapes: x (n, u).
        """
        columns = np.ascontiguousarray(x.T)
        ranks = [comparison.ranks(columns[comparison.column]) for comparison in self.branches.comparisons]
        bits = contexts_by_branch(self.trees, self.branches, x)
        takes_branch = [
            np.unpackbits(bits[output.branches], axis=1, count=len(x)).T.astype(bool) for output in self.outputs
        ]
        sums = [output.sums(ranks, takes) for output, takes in zip(self.outputs, takes_branch, strict=True)]
        n_pairs = self.outputs[0].tables.shape[1]
        for start in range(0, len(x), _CONTEXTS_AT_ONCE):
            rows = slice(start, min(start + _CONTEXTS_AT_ONCE, len(x)))
            scores = np.empty((rows.stop - start, len(self.outputs), n_pairs))
            for number, (output, summed) in enumerate(zip(self.outputs, sums, strict=True)):
                scores[:, number] = summed[rows] @ output.tables
            yield rows, scores.reshape(len(scores), -1)


def tables_pay(
    branches: Branches, leaves: Leaves, n_outputs: int, n_items: int, n_contexts: int | None, *, mirrored: bool
) -> bool:
    """Return whether summing tables takes less time than summing rectangles, for so many contexts."""
    if n_contexts is None or n_contexts < _FEWEST_CONTEXTS:
        return False
    n_pairs = n_items * (n_items - 1) // 2 if mirrored else n_items**2
    # Each split is in the tables of one output, or of two outputs where the booster is mirrored.
    n_tables = len(branches.split) * (2 if mirrored else 1) + n_outputs
    if n_tables * n_pairs > _MOST_ENTRIES:
        return False
    n_common = len(branches.comparisons) * n_outputs
    is_common = branches.parent == 0
    n_further = _SHARE_LEFT * np.count_nonzero(~is_common) * (2 if mirrored else 1)
    additions = (n_common + n_further) * n_pairs
    # A rectangle with f of the first items takes f multiplications for every second item. Mirrored boosters have two
    # rectangles for each leaf, but only half of the second items.
    n_first = np.count_nonzero(leaves.first, axis=1)
    multiplications = np.minimum(n_first, n_items - n_first).sum() * n_items
    return bool(_MULTIPLICATIONS_PER_ADDITION * additions < multiplications)


def _places(n_items: int, swapped: IntArray, mirrored: bool) -> IntArray:
    """Return where the score of each output and ordered pair is found in the scores of all tables, (C, K K)."""
    n_outputs = len(swapped)
    if not mirrored:
        return np.arange(n_outputs * n_items**2).reshape(n_outputs, -1)
    n_pairs = n_items * (n_items - 1) // 2
    place = np.zeros((n_outputs, n_items, n_items), dtype=np.intp)
    first, second = np.triu_indices(n_items, 1)
    for output in range(n_outputs):
        place[output, first, second] = output * n_pairs + np.arange(n_pairs)
        place[output, second, first] = swapped[output] * n_pairs + np.arange(n_pairs)
    return place.reshape(n_outputs, -1)


def _tables_of_branches(
    leaves: Leaves, rows: IntArray, value: FloatArray, branches: Branches, *, pairs: tuple[IntArray, IntArray]
) -> FloatArray:
    """Return the sum of the leaves that hang on each branch, (1 + 2 c, m).

    Shapes: rows (l,), pairs (m,).
    """
    order = rows[np.argsort(leaves.branch[rows], kind="stable")]
    n_branches = 1 + 2 * len(branches.split)
    weights = csr_array(
        (
            value[order],
            np.arange(len(order)),
            np.searchsorted(leaves.branch[order], np.arange(n_branches + 1)),
        ),
        shape=(n_branches, len(order)),
    )
    tables = np.empty((n_branches, len(pairs[0])))
    step = max(1, 1_000_000 // max(len(order), 1))
    for start in range(0, len(pairs[0]), step):
        first, second = pairs[0][start : start + step], pairs[1][start : start + step]
        reached = leaves.first[order][:, first] & leaves.second[order][:, second]
        tables[:, start : start + step] = weights @ reached.astype(float)
    return tables


def _output_tables(trees: Trees, branches: Branches, by_branch: FloatArray) -> _OutputTables:
    """Return the tables of an output, from the sums of the leaves on each branch, which are overwritten.

    Shapes: by_branch (1 + 2 c, m).
    """
    for split in range(len(branches.split) - 1, -1, -1):
        by_branch[branches.parent[split]] += by_branch[2 + 2 * split]
        by_branch[1 + 2 * split] -= by_branch[2 + 2 * split]
    left = by_branch[1::2]
    is_used = left.any(axis=1)
    is_common = (branches.parent == 0) & ~trees.categorical[branches.split]
    parts, by_rank, n_tables, first_decision = [], [], 0, 0
    for number, comparison in enumerate(branches.comparisons):
        n_thresholds = len(comparison.thresholds)
        threshold = branches.decision - first_decision
        first_decision += n_thresholds
        splits = np.flatnonzero(is_used & is_common & (threshold >= 0) & (threshold < n_thresholds))
        if not len(splits):
            continue
        # A context with rank r goes left at thresholds r, r + 1, ...: its table is the sum of their tables.
        distinct, place = np.unique(threshold[splits], return_inverse=True)
        tables = np.zeros((len(distinct) + 1, left.shape[1]))
        np.add.at(tables, place, left[splits])
        tables = np.ascontiguousarray(tables[::-1].cumsum(axis=0)[::-1])
        by_rank.append((number, n_tables + np.searchsorted(distinct, np.arange(n_thresholds + 1))))
        parts.append(tables)
        n_tables += len(tables)
    if parts:
        parts[0] += by_branch[0]
    further = np.flatnonzero(is_used & ~is_common)
    chosen_branches = 1 + 2 * further
    if not parts:
        # Every context takes branch 0.
        chosen_branches = np.concatenate([[0], chosen_branches])
    return _OutputTables(np.concatenate([*parts, by_branch[chosen_branches]]), tuple(by_rank), chosen_branches)
