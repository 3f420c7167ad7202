"""Predictions of a booster for all pairs of items in every context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..._utils.computation import current, in_order
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
    scores_by_first,
    sums_of_rectangles,
)

if TYPE_CHECKING:
    import lightgbm as lgb


# Largest number of entries of all tables of a booster, 64 MB.
_MOST_ENTRIES = 8_000_000
# Share of contexts assumed to get the table of a split that is not on the root's branch: those that take the split's
# branch and are sent to the left.
_SHARE_LEFT = 0.3
# Multiplications that a matrix product computes in the time in which a table is added to scores, by entry.
_MULTIPLICATIONS_PER_ADDITION = 3
# Fewest contexts for which tables are prepared. For fewer contexts, the preparation takes more time than tables save.
_FEWEST_FOR_TABLES = 2_000
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

    def sums(
        self, ranks: Sequence[NDArray[np.unsignedinteger]], takes_branch: NDArray[np.bool_]
    ) -> tuple[IntArray, NDArray[np.bool_]]:
        """Return numbers of tables, (n, f), and which of them are summed in each context, (n, f).

        Shapes: ranks (n,), takes_branch (n, b).
        """
        n, n_fixed, n_branches = len(takes_branch), len(self.by_rank), len(self.branches)
        number = np.empty((n, n_fixed + n_branches), dtype=np.intp)
        for column, (comparison, table_of_rank) in enumerate(self.by_rank):
            number[:, column] = table_of_rank[ranks[comparison]]
        number[:, n_fixed:] = np.arange(len(self.tables) - n_branches, len(self.tables))
        is_summed = np.ones(number.shape, dtype=bool)
        is_summed[:, n_fixed:] = takes_branch
        return number, is_summed


@dataclass(frozen=True, slots=True, eq=False)
class PairTables:
    """Scores of all outputs as sums of tables.

    outputs: The tables of every output.
    tables (t, m): The tables of all outputs, one output after the other.
    n_items: Number of items, K.
    place (C, K * K): Where the score of each ordered pair is found among the scores of all outputs and pairs, (C m,);
        None where these are in the same order.
    """

    trees: Trees
    branches: Branches
    outputs: tuple[_OutputTables, ...]
    tables: FloatArray
    n_items: int
    place: IntArray | None

    @classmethod
    def of(
        cls, trees: Trees, branches: Branches, leaves: Nodes, value: FloatArray, n_items: int, *, mirrored: bool
    ) -> PairTables:
        """Prepare the tables.

        Shapes: value (n_leaves,).
        """
        n_outputs = trees.link.n_outputs
        first, second = np.triu_indices(n_items, 1) if mirrored else np.indices((n_items, n_items)).reshape(2, -1)
        scaled, swapped = value[leaves.node], exchanged_wins(n_outputs) if mirrored else np.arange(n_outputs)
        tables, place = [], np.zeros((n_outputs, n_items, n_items), dtype=np.intp)
        for output in range(n_outputs):
            rows = np.flatnonzero(leaves.output == output)
            by_branch = _tables_of_branches(leaves, rows, scaled, branches, pairs=(first, second))
            if mirrored:
                rows = np.flatnonzero(leaves.output == swapped[output])
                by_branch += _tables_of_branches(leaves, rows, scaled, branches, pairs=(second, first))
                by_branch /= 2
                place[output, first, second] = output * len(first) + np.arange(len(first))
                place[output, second, first] = swapped[output] * len(first) + np.arange(len(first))
            tables.append(_output_tables(trees, branches, by_branch))
        joined = np.concatenate([output.tables for output in tables])
        ends = np.cumsum([len(output.tables) for output in tables])[:-1]
        views = zip(tables, np.split(joined, ends), strict=True)
        outputs = tuple(replace(output, tables=view) for output, view in views)
        return cls(trees, branches, outputs, joined, n_items, place.reshape(n_outputs, -1) if mirrored else None)

    def blocks(self, x: FloatArray, link: Link | None, offset: PairOffset | None) -> Iterator[tuple[slice, FloatArray]]:
        """Yield ranges of contexts and their predictions, (b, K, K, C); see :meth:`PairTrees.blocks`."""
        x = as_lightgbm_reads(x[:, self.branches.features])
        columns = np.ascontiguousarray(x.T)
        ranks = [comparison.ranks(columns[comparison.column]) for comparison in self.branches.comparisons]
        bits = contexts_by_branch(self.trees, self.branches, x)
        number, is_summed, n_tables = list[IntArray](), list[NDArray[np.bool_]](), 0
        for output in self.outputs:
            takes_branch = np.unpackbits(bits[output.branches], axis=1, count=len(x)).T.astype(bool)
            numbers, are_summed = output.sums(ranks, takes_branch)
            number.append(numbers + n_tables)
            is_summed.append(are_summed)
            n_tables += len(output.tables)
        # Which tables are summed, as a matrix of ones with a row for every context and output.
        indices = np.concatenate(number, axis=1)[np.concatenate(is_summed, axis=1)]
        bounds = np.cumsum(np.stack([np.count_nonzero(one, axis=1) for one in is_summed], axis=1))
        n_outputs, n_items, n_pairs = len(self.outputs), self.n_items, self.tables.shape[1]
        ones, places = np.ones(len(indices)), np.concatenate([[0], bounds.ravel()])
        summed = csr_array((ones, indices, places), shape=(n_outputs * len(x), n_tables))
        upper = np.triu_indices(n_items, 1)
        is_mirrored = self.place is not None and (offset is None or offset.mirrored)
        size = max(1, _BLOCK_ENTRIES // (n_outputs * n_items**2))
        # Memory of this function, because new memory takes longer than the operations on it.
        memory = np.empty((n_outputs + 2) * size * n_items**2)

        def probabilities_of(scores: FloatArray, contexts: slice, pairs: tuple[IntArray, IntArray] | None) -> None:
            spare = memory[-2 * scores[0].size :].reshape(2, *scores.shape[1:])
            if offset is not None:
                offset.add_to_all(scores, contexts, pairs, spare)
            if link is not None:
                link.probabilities(scores, spare[0])

        for begin in range(0, len(x), _CONTEXTS_AT_ONCE):
            rows = slice(begin * n_outputs, min(begin + _CONTEXTS_AT_ONCE, len(x)) * n_outputs)
            by_output = (summed[rows] @ self.tables).reshape(-1, n_outputs, n_pairs)
            for start in range(0, len(by_output), size):
                some_scores = by_output[start : start + size]
                contexts = slice(begin + start, begin + start + len(some_scores))
                if is_mirrored:
                    # The other order of a pair has the same probabilities, with the wins exchanged.
                    probabilities_of(some_scores.transpose(1, 0, 2), contexts, upper)
                shape = (n_outputs, len(some_scores), n_items, n_items)
                values = memory[: n_outputs * len(some_scores) * n_items**2].reshape(shape)
                if self.place is None:
                    values[:] = some_scores.reshape(-1, n_outputs, n_items, n_items).transpose(1, 0, 2, 3)
                else:
                    flat = some_scores.reshape(len(some_scores), -1)
                    for place, of_output in zip(self.place, values, strict=True):
                        np.take(flat, place, axis=1, out=of_output.reshape(len(flat), -1), mode="clip")
                if not is_mirrored:
                    probabilities_of(values, contexts, None)
                values.reshape(n_outputs, len(some_scores), -1)[:, :, :: n_items + 1] = 0.0
                yield contexts, values.transpose(1, 2, 3, 0)


def tables_pay(
    branches: Branches, leaves: Nodes, n_outputs: int, n_items: int, n_contexts: int | None, *, mirrored: bool
) -> bool:
    """Return whether summing tables takes less time than summing rectangles, for so many contexts."""
    if n_contexts is None or n_contexts < _FEWEST_FOR_TABLES:
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


def _tables_of_branches(
    leaves: Nodes, rows: IntArray, value: FloatArray, branches: Branches, *, pairs: tuple[IntArray, IntArray]
) -> FloatArray:
    """Return the sum of the leaves that hang on each branch, (1 + 2 c, m).

    Shapes: rows (l,), pairs (m,).
    """
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


# Largest number of contexts that are scored at a time, so that the scores stay in cache.
CONTEXTS_AT_ONCE = 256
# Number of entries of a block of scores, so that a few arrays of this size stay in a core's own cache.
_BLOCK_ENTRIES = 100_000
# Contexts are divided into two chunks, for two threads, only if each chunk has at least this many contexts: with fewer,
# the additional calls take longer than the second thread saves.
_FEWEST_CONTEXTS = 32


class PairOffset(Protocol):
    """Scores of all ordered pairs in n contexts to which the scores of a booster are added."""

    @property
    def mirrored(self) -> bool:
        """Whether the other display order of a pair has the same scores, with first and second wins exchanged."""
        ...

    def of_item(self, item: int, others: slice, contexts: IntArray | slice, *, shown_first: bool) -> FloatArray:
        """Return the scores, (C, b, k), of pairs of an item, shown first or second, and k others in b contexts."""
        ...

    def add_to_all(
        self, scores: FloatArray, contexts: slice, pairs: tuple[IntArray, IntArray] | None, spare: FloatArray
    ) -> None:
        """Add the scores in b contexts of all ordered pairs, (C, b, K, K), or of m pairs, (C, b, m), in place.

        ``spare`` is memory for two outputs that is overwritten.
        """
        ...

    def of_contexts(self, contexts: slice) -> PairOffset:
        """Return the scores of a range of the contexts."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PairTrees:
    """A booster over rows [x, first, second], prepared for the scores of all pairs.

    Within a context only the items change. As a function of the items, the trees are a sum of rectangles of the K x K
    table of pairs, and the weights of the rectangles depend on the context alone. The scores of a context are therefore
    sums over distinct rectangles instead of sums over trees for every pair.

    booster: The booster.
    n_items: K.
    trees: The trees before they are separated.
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
        sums, tables = tuple[RectangleSum, ...](), None
        if tables_pay(branches, leaves, n_outputs, n_items, n_contexts, mirrored=mirrored):
            tables = PairTables.of(trees, branches, leaves, value, n_items, mirrored=mirrored)
        else:
            sums = sums_of_rectangles(leaves, value, n_outputs, mirrored=mirrored)
        return cls(booster, n_items, trees, branches, sums, tables, mirrored, n_contexts)

    def __reduce__(self) -> tuple[Callable[[], PairTrees], tuple[()]]:
        prepare = partial(PairTrees.of, self.booster, self.n_items, mirrored=self.mirrored, n_contexts=self.n_contexts)
        return prepare, ()

    def blocks(
        self, x: FloatArray, *, raw_score: bool = False, offset: PairOffset | None = None
    ) -> Iterator[tuple[slice, FloatArray]] | None:
        """Yield ranges of contexts and their predictions, (b, K, K, C); None where tables of pairs are not summed.

        Shapes: x (n, p).
        """
        link = None if raw_score else self.trees.link
        return None if self.tables is None else self.tables.blocks(x, link, offset)


def predict_all_pairs(
    booster: lgb.Booster | PairTrees,
    x: FloatArray,
    n_items: int,
    *,
    raw_score: bool = False,
    offset: PairOffset | None = None,
) -> FloatArray:
    """Predict every ordered pair of items in every context with a booster over rows [x, first, second].

    Shapes: x (n, p), returns (n, K, K, C).
    """
    pairs = booster if isinstance(booster, PairTrees) else PairTrees.of(booster, n_items)
    tables, link = pairs.tables, None if raw_score else pairs.trees.link
    if tables is None:
        return _predict_from_rectangles(pairs, x, link, offset)
    table = np.empty((len(x), n_items, n_items, pairs.trees.link.n_outputs))

    def fill(start: int) -> None:
        rows = slice(start, min(start + CONTEXTS_AT_ONCE, len(x)))
        for contexts, predictions in tables.blocks(x[rows], link, None if offset is None else offset.of_contexts(rows)):
            table[rows][contexts] = predictions

    for _ in in_order(fill, range(0, len(x), CONTEXTS_AT_ONCE), current().n_threads):
        pass
    return table


def _predict_from_rectangles(
    pairs: PairTrees, x: FloatArray, link: Link | None, offset: PairOffset | None
) -> FloatArray:
    """Return the predictions for all pairs, (n, K, K, C), as sums of rectangles."""
    trees, branches, n_items = pairs.trees, pairs.branches, pairs.n_items
    features = as_lightgbm_reads(x[:, branches.features])
    distinct, place = distinct_rows(features)
    is_repeated = len(distinct) < len(x)
    by_place = np.argsort(place, kind="stable") if is_repeated else place
    table = np.empty((len(x), n_items, n_items, trees.link.n_outputs))
    # The distinct contexts make chunks of even size.
    n = len(distinct)
    step = max(1, -(-n // max(-(-n // CONTEXTS_AT_ONCE), min(2, n // _FEWEST_CONTEXTS), 1)))

    def fill(start: int) -> None:
        stop = min(start + step, len(distinct))
        branch_bits = contexts_by_branch(trees, branches, features[distinct[start:stop]])
        # The contexts of the table that are filled, and the place of each among the distinct contexts of the chunk.
        # Slices give views; copies would cost as much as the softmax.
        rows: IntArray | slice = slice(start, stop)
        from_scores: IntArray | slice = slice(stop - start)
        if is_repeated:
            rows = by_place[slice(*np.searchsorted(place[by_place], [start, stop]))]
            from_scores = place[rows] - start
        for first, of_chunk in enumerate(scores_by_first(pairs.sums, branch_bits)):
            seconds, scores = pairs.sums[0].seconds(first), of_chunk[:, from_scores]
            values = scores if offset is None else offset.of_item(first, seconds, rows, shown_first=True) + scores
            if link is not None:
                values = link.probabilities(values)
            # Category by category: copies over a short last axis take several times as long.
            for category, of_category in enumerate(values):
                table[rows, first, seconds, category] = of_category
            table[rows, first, first] = 0.0
            if seconds.start is None:
                continue
            # Only second items behind the first one have scores; those before it have the other order's.
            exchanged = exchanged_wins(len(scores))
            if offset is None or offset.mirrored:
                in_other_order = values[exchanged]
            else:
                in_other_order = offset.of_item(first, seconds, rows, shown_first=False) + scores[exchanged]
                if link is not None:
                    in_other_order = link.probabilities(in_other_order)
            for category, of_category in enumerate(in_other_order):
                table[rows, seconds, first, category] = of_category

    for _ in in_order(fill, range(0, len(distinct), step), current().n_threads):
        pass
    return table


def distinct_rows(x: FloatArray, rows: IntArray | None = None) -> tuple[IntArray, IntArray]:
    """Return the first of every kind of equal rows, and the kind of each row.

    ``rows`` are m rows of the matrix, by default all of them in their order.

    Shapes: x (n, p), rows (m,), distinct (d,), place (m,).
    """

    def bits(chosen: IntArray | slice) -> NDArray[np.uint64]:
        """Return the bits of numbers, the same for all NaN and for -0.0 and 0.0."""
        numbers = x[chosen] if rows is None else x[rows[chosen]]
        return np.where(np.isnan(numbers), np.nan, np.add(numbers, 0.0, dtype=float)).view(np.uint64)

    drawn = np.random.default_rng(0).integers(2**64, size=(x.shape[1],), dtype=np.uint64)
    factors = np.asarray(drawn | np.uint64(1), dtype=np.uint64)
    hashes = np.empty(len(x) if rows is None else len(rows), dtype=np.uint64)
    blocks = list(row_slices(len(hashes), x.shape[1]))
    for block in blocks:
        # As floating-point numbers, small whole numbers differ in their highest bits only. Multiplication by a factor
        # would lose these bits, because it overflows. Therefore they are first combined with the lower bits.
        number = bits(block)
        hashes[block] = (np.bitwise_xor(number, number >> np.uint64(32)) * factors).sum(axis=1, dtype=np.uint64)
    _, distinct, place = np.unique(hashes, return_index=True, return_inverse=True)
    first = distinct[place]
    if not all(np.array_equal(bits(first[block]), bits(block)) for block in blocks):
        # Unequal rows share a hash.
        _, distinct, place = np.unique(bits(slice(None)), axis=0, return_index=True, return_inverse=True)
    by_row = np.argsort(distinct)
    return distinct[by_row], np.argsort(by_row)[place.reshape(-1)]


def softmax_in_place(scores: FloatArray) -> FloatArray:
    """Overwrite scores with their softmax over the last axis, and return it; fast where this axis is short."""
    largest = scores[..., 0].copy()
    for c in range(1, scores.shape[-1]):
        np.maximum(largest, scores[..., c], out=largest)
    scores -= largest[..., None]
    np.exp(scores, out=scores)
    total = scores[..., 0].copy()
    for c in range(1, scores.shape[-1]):
        total += scores[..., c]
    scores /= total[..., None]
    return scores
