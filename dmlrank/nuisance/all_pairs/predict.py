"""Predictions of a booster for all pairs of items in every context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ..._utils.tasks_and_threads import current, in_order
from ...data.arrays import row_slices
from ...data.outcomes import exchanged_wins
from ...data.preferences import FloatArray, IntArray
from .trees import (
    Branches,
    Link,
    Nodes,
    RectangleSum,
    Trees,
    as_lightgbm_reads,
    contexts_by_branch,
    evaluate_items,
    read_trees,
    sums_of_rectangles,
)

if TYPE_CHECKING:
    import lightgbm as lgb


# Largest number of entries of all tables of a booster, 64 MB.
_MOST_ENTRIES = 8_000_000
# How many multiplications of tables take as long as one multiplication of rectangles, whose weights are copied for
# every cluster of items, and as long as adding up and writing one score of rectangles.
_TABLES_PER_RECTANGLE, _TABLES_PER_SCORE = 2, 200
# Fewest contexts for which tables are prepared. For fewer contexts, the preparation takes more time than tables save.
_FEWEST_FOR_TABLES = 2_000
# Number of contexts in one product of tables, and largest number in one of rectangles.
_CONTEXTS_OF_TABLES, _CONTEXTS_OF_RECTANGLES = 64, 128
# Largest number of scores in memory after a product of rectangles, for at least the eight contexts of a byte.
_MOST_SCORES = 4_000_000


class _OutputTables(NamedTuple):
    """The tables of one output, and which of them are summed in a context.

    by_rank: Number of a comparison among ``branches.comparisons``, and the table of each rank of a context's value
        among the thresholds of the comparison. Every context gets one table of each comparison.
    branches (b,): The branches of the last b tables, which a context gets if it takes the branch.
    tables (t, m): The tables.
    """

    by_rank: list[tuple[int, IntArray]]
    branches: IntArray
    tables: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PairTables:
    """Scores of all outputs as sums of tables. outputs: The tables of every output."""

    trees: Trees
    branches: Branches
    outputs: tuple[_OutputTables, ...]

    @classmethod
    def of(
        cls, trees: Trees, branches: Branches, leaves: Nodes, value: FloatArray, n_items: int, *, mirrored: bool
    ) -> PairTables:
        """Prepare the tables; shapes: value (n_leaves,)."""
        n_outputs = trees.link.n_outputs
        first, second = np.triu_indices(n_items, 1) if mirrored else np.indices((n_items, n_items)).reshape(2, -1)
        scaled, swapped = value[leaves.node], exchanged_wins(n_outputs) if mirrored else np.arange(n_outputs)
        outputs = []
        for output in range(n_outputs):
            rows = np.flatnonzero(leaves.output == output)
            by_branch = _tables_of_branches(leaves, rows, scaled, branches, pairs=(first, second))
            if mirrored:
                rows = np.flatnonzero(leaves.output == swapped[output])
                by_branch += _tables_of_branches(leaves, rows, scaled, branches, pairs=(second, first))
                by_branch /= 2
            outputs.append(_output_tables(trees, branches, by_branch))
        return cls(trees, branches, tuple(outputs))

    def scores(self, x: FloatArray) -> Iterator[FloatArray]:
        """Yield the scores of m pairs, (b, C, m), in consecutive contexts with features as LightGBM reads them."""
        columns, context = np.ascontiguousarray(x.T), np.arange(len(x))
        ranks = [comparison.ranks(columns[comparison.column]) for comparison in self.branches.comparisons]
        bits = contexts_by_branch(self.trees, self.branches, x)
        # Products of one size, so that the last digits of a context do not depend on the number of contexts.
        n_contexts = -(-len(x) // _CONTEXTS_OF_TABLES) * _CONTEXTS_OF_TABLES
        # Which tables are summed: one, the others zero.
        is_summed = [np.zeros((len(output.tables), n_contexts)) for output in self.outputs]
        for output, summed in zip(self.outputs, is_summed, strict=True):
            for comparison, table_of_rank in output.by_rank:
                summed[table_of_rank[ranks[comparison]], context] = 1.0
            of_branches = summed[len(summed) - len(output.branches) :, : len(x)]
            of_branches[...] = np.unpackbits(bits[output.branches], axis=1, count=len(x))
        for begin in range(0, len(x), _CONTEXTS_OF_TABLES):
            scores = np.empty((_CONTEXTS_OF_TABLES, len(self.outputs), self.outputs[0].tables.shape[1]))
            for number, (output, summed) in enumerate(zip(self.outputs, is_summed, strict=True)):
                np.matmul(summed[:, begin : begin + _CONTEXTS_OF_TABLES].T, output.tables, out=scores[:, number])
            yield scores[: len(x) - begin]


def tables_pay(
    branches: Branches, sums: tuple[RectangleSum, ...], n_items: int, n_contexts: int | None, *, mirrored: bool
) -> bool:
    """Return whether summing tables takes less time than summing rectangles, for so many contexts."""
    if n_contexts is None or n_contexts < _FEWEST_FOR_TABLES:
        return False
    n_pairs = n_items * (n_items - 1) // 2 if mirrored else n_items**2
    # Each split is in the tables of one output, or of two outputs where the booster is mirrored.
    n_tables = len(branches.split) * (2 if mirrored else 1) + len(sums)
    if n_tables * n_pairs > _MOST_ENTRIES:
        return False
    of_rectangles = _TABLES_PER_RECTANGLE * sum(step.second.size for terms in sums for step in terms.steps)
    return n_tables * n_pairs < of_rectangles + _TABLES_PER_SCORE * len(sums) * n_items**2


def _tables_of_branches(
    leaves: Nodes, rows: IntArray, value: FloatArray, branches: Branches, *, pairs: tuple[IntArray, IntArray]
) -> FloatArray:
    """Return the sum of the leaves that hang on each branch, (1 + 2 c, m); shapes: rows (l,), pairs (m,)."""
    order = rows[np.argsort(leaves.branch[rows], kind="stable")]
    n_branches = 1 + 2 * len(branches.split)
    weights = csr_array(
        (value[order], np.arange(len(order)), np.searchsorted(leaves.branch[order], np.arange(n_branches + 1))),
        shape=(n_branches, len(order)),
    )
    tables = np.empty((n_branches, len(pairs[0])))
    for part in row_slices(len(pairs[0]), len(order), 1_000_000):
        reached = leaves.first[order][:, pairs[0][part]] & leaves.second[order][:, pairs[1][part]]
        tables[:, part] = weights @ reached.astype(float)
    return tables


def _output_tables(trees: Trees, branches: Branches, by_branch: FloatArray) -> _OutputTables:
    """Return the tables of an output, by rank and by branch, from the sums of leaves by branch, which are overwritten.

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
    return _OutputTables(by_rank, chosen_branches, np.concatenate([*parts, by_branch[chosen_branches]]))


# Largest number of contexts whose branches are found at a time.
CONTEXTS_AT_ONCE = 512
# Number of entries of a block of scores. With smaller blocks, threads often wait for one another.
_BLOCK_ENTRIES = 400_000


@dataclass(frozen=True, slots=True, eq=False)
class PairTrees:
    """A booster over rows [x, first, second], prepared for the scores of all pairs.

    Within a context only the items change. As a function of the items, the trees are a sum of rectangles of the K x K
    table of pairs, and the weights of the rectangles depend on the context alone. The scores of a context are therefore
    sums over distinct rectangles instead of sums over trees for every pair.

    branches: The branches to which splits on context features lead.
    sums: For each output of the booster (a category, or the positive class), the scores of all pairs as a function of
        the branches that a context takes; empty where tables are summed instead.
    tables: The same scores as sums of tables of pairs, for boosters and numbers of contexts where this is faster.
    mirrored: Whether the score of a pair is the mean of the booster's scores in both display orders; first and second
        wins, which are the first two categories, are exchanged in the other order.
    n_contexts: Number of contexts that will be scored; None where it is not known.
    """

    booster: lgb.Booster
    n_items: int
    trees: Trees
    branches: Branches
    sums: tuple[RectangleSum, ...]
    tables: PairTables | None = None
    mirrored: bool = False
    n_contexts: int | None = None

    @classmethod
    def of(
        cls, booster: lgb.Booster, n_items: int, *, mirrored: bool = False, n_contexts: int | None = None
    ) -> PairTrees:
        """Prepare a booster whose last two features are the codes of the first and of the second item."""
        trees = read_trees(booster)
        branches, leaves = evaluate_items(trees, n_items)
        value, n_outputs = trees.value * trees.link.scale, trees.link.n_outputs
        sums = sums_of_rectangles(leaves, value / 2 if mirrored else value, n_outputs)
        tables = None
        if tables_pay(branches, sums, n_items, n_contexts, mirrored=mirrored):
            tables = PairTables.of(trees, branches, leaves, value, n_items, mirrored=mirrored)
            sums = ()
        return cls(booster, n_items, trees, branches, sums, tables, mirrored, n_contexts)

    def __reduce__(self) -> tuple[Callable[[], PairTrees], tuple[()]]:
        prepare = partial(PairTrees.of, self.booster, self.n_items, mirrored=self.mirrored, n_contexts=self.n_contexts)
        return prepare, ()

    def blocks(
        self, x: FloatArray, link: Link | None, offset: Any, table: FloatArray | None = None
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Yield ranges of contexts with features ``x``, (n, p), and their predictions, (b, K, K, C).

        Scores of ``offset``, :class:`.MainEffectScores` of all pairs or None, are added to those of the booster.
        Predictions are in ``table``, (C, n, K, K); without one, a block is overwritten by the next one.
        """
        n_outputs, n_items, begin = self.trees.link.n_outputs, self.n_items, 0
        size = max(1, _BLOCK_ENTRIES // (n_outputs * n_items**2))
        low, high = np.triu_indices(n_items, 1)
        is_mirrored = self.mirrored and (offset is None or offset.mirrored)
        # Of rectangles, the two display orders of a pair have the same bits, which takes longer.
        first, second = np.indices((n_items, n_items)).reshape(2, -1)
        every = (first, second) if self.mirrored and self.tables is None else None
        # Where the score of each ordered pair is found among the scores of all outputs and pairs.
        place = np.zeros((n_outputs, n_items, n_items), dtype=np.intp)
        for output, exchanged in enumerate(exchanged_wins(n_outputs)) if self.mirrored else ():
            place[output][low, high] = output * len(low) + np.arange(len(low))
            place[output].T[low, high] = exchanged * len(low) + np.arange(len(low))
        # Memory of this function, because new memory takes longer than the operations on it.
        memory = np.empty((n_outputs + 3) * size * n_items**2)

        def probabilities_of(scores: FloatArray, contexts: slice, pairs: tuple[IntArray, IntArray] | None) -> None:
            spare = memory[-3 * scores[0].size :].reshape(3, *scores.shape[1:])
            if offset is not None:
                offset.add_to_all(scores, contexts, pairs, spare)
            if link is not None:
                link.probabilities(scores, spare[0])

        is_in_place = self.tables is None and not self.mirrored
        for by_output in self._scores(as_lightgbm_reads(x[:, self.branches.features]), table):
            for start in range(0, len(by_output), size):
                some_scores = by_output[start : start + size]
                contexts = slice(begin + start, begin + start + len(some_scores))
                if is_mirrored:
                    # The other order of a pair has the same probabilities, with the wins exchanged.
                    probabilities_of(some_scores.transpose(1, 0, 2), contexts, (low, high))
                shape = (n_outputs, len(some_scores), n_items, n_items)
                values = memory[: n_outputs * len(some_scores) * n_items**2].reshape(shape)
                values = values if table is None else table[:, contexts]
                if self.mirrored:
                    flat = some_scores.reshape(len(some_scores), -1)
                    for of_places, of_output in zip(place.reshape(n_outputs, -1), values, strict=True):
                        np.take(flat, of_places, axis=1, out=of_output.reshape(len(flat), -1), mode="clip")
                elif is_in_place:
                    values = some_scores.transpose(1, 0, 2).reshape(shape)
                else:
                    values[:] = some_scores.reshape(-1, n_outputs, n_items, n_items).transpose(1, 0, 2, 3)
                if not is_mirrored:
                    probabilities_of(values if every is None else values.reshape(*shape[:2], -1), contexts, every)
                values.reshape(n_outputs, len(some_scores), -1)[:, :, :: n_items + 1] = 0.0
                yield contexts, values.transpose(1, 2, 3, 0)
            begin += len(by_output)

    def _scores(self, x: FloatArray, table: FloatArray | None) -> Iterator[FloatArray]:
        """Yield the scores of all pairs, or of those above the diagonal, (b, C, m), in consecutive contexts.

        The next scores may overwrite these. Rectangles that are not mirrored are written to ``table``, (C, n, K, K).
        """
        n_outputs, n_items = self.trees.link.n_outputs, self.n_items
        starts = range(0, len(x), CONTEXTS_AT_ONCE)
        if self.tables is not None:
            for start in starts:
                yield from self.tables.scores(x[start : start + CONTEXTS_AT_ONCE])
            return
        # Products of one size, as for tables.
        size = min(_CONTEXTS_OF_RECTANGLES, max(8, _MOST_SCORES // (n_outputs * n_items**2) // 8 * 8))
        written = None if self.mirrored else table
        memory = np.empty((n_outputs if written is None else 0, size, n_items, n_items))
        if self.mirrored:
            places = np.arange(n_outputs * n_items**2).reshape(n_outputs, n_items, n_items)
            upper = (slice(None), *np.triu_indices(n_items, 1))
            shown, exchanged = places[upper], places[exchanged_wins(n_outputs)].transpose(0, 2, 1)[upper]
        for start in starts:
            rows = x[start : start + CONTEXTS_AT_ONCE]
            bits = contexts_by_branch(self.trees, self.branches, rows)
            bits = np.pad(bits, ((0, 0), (0, -bits.shape[1] % (size // 8))))
            for begin in range(0, len(rows), size):
                n = min(size, len(rows) - begin)
                scores = memory[:, :n] if written is None else written[:, start + begin : start + begin + n]
                for terms, of_output in zip(self.sums, scores, strict=True):
                    terms.write_scores(bits[:, begin // 8 : (begin + size) // 8], of_output)
                if self.mirrored:
                    flat = scores.transpose(1, 0, 2, 3).reshape(n, -1)
                    yield flat.take(shown, axis=1) + flat.take(exchanged, axis=1)
                else:
                    yield scores.reshape(n_outputs, n, -1).transpose(1, 0, 2)


def predict_all_pairs(
    booster: lgb.Booster | PairTrees,
    x: FloatArray,
    n_items: int,
    *,
    raw_score: bool = False,
    offset: Any = None,
) -> FloatArray:
    """Predict every ordered pair of items in every context with a booster over rows [x, first, second].

    Shapes: x (n, p), returns (n, K, K, C).
    """
    pairs = booster if isinstance(booster, PairTrees) else PairTrees.of(booster, n_items)
    link = None if raw_score else pairs.trees.link
    # Category by category: operations over a short last axis take several times as long.
    table = np.empty((pairs.trees.link.n_outputs, len(x), n_items, n_items))

    def fill(start: int) -> None:
        rows = slice(start, min(start + CONTEXTS_AT_ONCE, len(x)))
        for _ in pairs.blocks(x[rows], link, None if offset is None else offset.of_contexts(rows), table[:, rows]):
            pass

    for _ in in_order(fill, range(0, len(x), CONTEXTS_AT_ONCE), current().n_threads):
        pass
    return table.transpose(1, 2, 3, 0)
