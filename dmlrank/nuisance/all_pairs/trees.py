"""The trees of a booster over rows [x, first, second], as a sum of rectangles whose weights depend on the context."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.sparse import csr_array
from scipy.special import expit

from ...data.preferences import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import lightgbm as lgb


T = TypeVar("T", np.float64, np.intp)

# LightGBM reads numbers up to this size as zero (kZeroThreshold in its meta.h, a single-precision constant).
_ZERO_THRESHOLD = float(np.float32(1e-35))
# Bits of a split's decision type.
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
# LightGBM's codes for the values that a split treats as missing and sends in its default direction: zeros and NaN, or
# NaN alone.
ZEROS, NANS = 1, 2
# Bits in a word of the sets of categories.
_WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class Link:
    """Conversion of sums over trees to probabilities: the softmax, or for one output the logistic function.

    n_outputs: Number of categories of a multiclass booster, C; 1 for a binary booster, which predicts the probability
        of the positive class.
    scale: Factor by which the sums are multiplied: the steepness of a binary objective's sigmoid. In a random forest,
        whose trees are averaged, this steepness is divided by the number of rounds.
    """

    n_outputs: int
    scale: float = 1.0

    def probabilities(self, scores: FloatArray, spare: FloatArray | None = None) -> FloatArray:
        """Overwrite scaled scores, (C, ...), with probabilities, and return these; ``spare`` is memory for a sum."""
        if self.n_outputs == 1:
            return expit(scores, out=scores)
        scores -= scores.max(axis=0, out=spare)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=0, out=spare)
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """All trees of a booster, with s splits and l leaves that are numbered across the trees.

    Where a node can be a split or a leaf, a split is given by its number, and leaf i by the negative number ``~i`` =
    -1 - i.

    root (t,): Root of each tree: a split, or ``~leaf``. Tree i adds to output i modulo ``link.n_outputs``.
    feature (s,): Feature of each split.
    threshold (s,): Numbers up to the threshold go left.
    categorical (s,): Whether the split is on the categories of its feature.
    default_left (s,): Whether the default direction of the split is left.
    missing (s,): Values that are treated as missing and go in the default direction: none (0), zeros and NaN (1) or NaN
        (2).
    left, right (s,): Children of each split: a split, or ``~leaf``.
    words, word_start, word_count: Categories that go left, as bits: those of split i are
        ``words[word_start[i]:][:word_count[i]]``.
    value (l,): Value of each leaf.
    n_features: Number of features, the codes of the two items included.
    link: Converts the sums over trees to probabilities.
    """

    root: IntArray
    feature: IntArray
    threshold: FloatArray
    categorical: BoolArray
    default_left: BoolArray
    missing: IntArray
    left: IntArray
    right: IntArray
    words: IntArray
    word_start: IntArray
    word_count: IntArray
    value: FloatArray
    n_features: int
    link: Link


def read_trees(booster: lgb.Booster) -> Trees:
    """Read the trees that ``booster.predict`` uses: those up to the best iteration, where the booster has one."""
    header, *blocks = booster.model_to_string().split("\nend of trees")[0].split("\n\nTree=")

    def text(block: str, name: str) -> str:
        return block.partition(f"\n{name}=")[2].partition("\n")[0]

    def field(name: str, dtype: type[T]) -> tuple[NDArray[T], IntArray]:
        """Return the numbers in a field of all trees, one tree after the other, and how many each tree has."""
        texts = [text(block, name) for block in blocks]
        sizes = np.array([len(numbers.split()) for numbers in texts], dtype=np.intp)
        return np.array(" ".join(texts).split(), dtype=dtype), sizes

    feature, n_splits = field("split_feature", np.intp)
    value, n_leaves = field("leaf_value", np.float64)
    first_split, first_leaf = np.cumsum(n_splits) - n_splits, np.cumsum(n_leaves) - n_leaves
    tree = np.repeat(np.arange(len(blocks)), n_splits)
    decision, threshold = field("decision_type", np.intp)[0], field("threshold", np.float64)[0]
    categorical = (decision & _CATEGORICAL) > 0
    # A categorical split's threshold is the number of its set of categories in its tree.
    (bounds, n_bounds), (words, n_words) = field("cat_boundaries", np.intp), field("cat_threshold", np.intp)
    number = threshold[categorical].astype(np.intp) + (np.cumsum(n_bounds) - n_bounds)[tree[categorical]]
    word_start, word_count = np.zeros((2, len(threshold)), dtype=np.intp)
    word_start[categorical] = (np.cumsum(n_words) - n_words)[tree[categorical]] + bounds[number]
    word_count[categorical] = bounds[number + 1] - bounds[number]
    # Children with numbers that run across all trees.
    left, right = (
        np.where(child >= 0, child + first_split[tree], child - first_leaf[tree])
        for child, _ in (field("left_child", np.intp), field("right_child", np.intp))
    )
    # A multiclass or a binary objective; the latter may have a steepness.
    n_outputs, details = int(text(header, "num_tree_per_iteration")), text(header, "objective").split()
    steepness = [float(detail.partition(":")[2]) for detail in details if detail.startswith("sigmoid:")]
    n_averaged = len(blocks) // n_outputs if "\naverage_output\n" in header and blocks else 1
    return Trees(
        root=np.where(n_splits == 0, ~first_leaf, first_split),
        feature=feature,
        threshold=threshold,
        categorical=categorical,
        default_left=(decision & _DEFAULT_LEFT) > 0,
        missing=(decision >> 2) & 3,
        left=left,
        right=right,
        words=words,
        word_start=word_start,
        word_count=word_count,
        value=value,
        n_features=int(text(header, "max_feature_idx")) + 1,
        link=Link(n_outputs, (steepness or [1.0])[0] / n_averaged),
    )


def as_lightgbm_reads(x: FloatArray) -> FloatArray:
    """Return features as LightGBM reads them: in double precision, with the tiniest numbers replaced by zero."""
    features = x.astype(float)
    features[np.abs(features) <= _ZERO_THRESHOLD] = 0.0
    return features


def go_left(trees: Trees, split: IntArray, values: FloatArray) -> BoolArray:
    """Return which values a split sends left, by LightGBM's rules for missing values and categories.

    Shapes: split (m,), values (m, n), returns (m, n).
    """
    is_nan, missing = np.isnan(values), trees.missing[split, None]
    numbers = np.where(is_nan, 0.0, values)
    by_default = np.where(missing == NANS, is_nan, (missing == ZEROS) & (numbers == 0))
    goes_left = np.where(by_default, trees.default_left[split, None], numbers <= trees.threshold[split, None])
    is_categorical = trees.categorical[split]
    categorical, categories = split[is_categorical], values[is_categorical]
    with np.errstate(invalid="ignore"):
        is_code = (categories > -1) & (categories < (trees.word_count[categorical] * _WORD_BITS)[:, None])
    code = np.where(is_code, categories, 0).astype(np.intp)
    # The minimum only keeps the index valid for values that are no codes; `is_code` sends these values right.
    word = np.minimum(trees.word_start[categorical, None] + code // _WORD_BITS, len(trees.words) - 1)
    goes_left[is_categorical] = is_code & (trees.words[word] >> (code % _WORD_BITS) & 1).astype(bool)
    return goes_left


# --- splits on the context, and items that reach each leaf ------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Comparisons:
    """Distinct thresholds of one feature in splits that treat missing values alike.

    column: Position of the feature in ``features`` of :class:`Branches`.
    thresholds (t,): Increasing. Numbers up to a threshold go left.
    missing: Values that are treated as missing: none (0), zeros and NaN (1) or NaN (2). NaN that is not missing is
        zero.
    default_left: Whether missing values go left.
    """

    column: int
    thresholds: FloatArray
    missing: int
    default_left: bool

    def ranks(self, values: FloatArray) -> NDArray[np.unsignedinteger]:
        """Return the rank of each value, (n,): the number of thresholds at which it does not go left.

        Thresholds increase, so that a number goes left at every threshold from its rank on. Missing values get a rank
        that sends them in their default direction at all thresholds.
        """
        n_thresholds = len(self.thresholds)
        is_nan = np.isnan(values)
        numbers = np.where(is_nan, 0.0, values)
        rank = np.searchsorted(self.thresholds, numbers).astype(np.min_scalar_type(n_thresholds))
        if self.missing:
            rank[is_nan if self.missing == NANS else numbers == 0] = 0 if self.default_left else n_thresholds
        return rank

    def goes_left(self, values: FloatArray) -> BoolArray:
        """Return which values, (n,), go left at each threshold, (t, n).

        Comparing ranks, which are small integers, is faster than comparing the values with every threshold.
        """
        rank = self.ranks(values)
        goes_left: BoolArray = rank <= np.arange(len(self.thresholds), dtype=rank.dtype)[:, None]
        return goes_left


@dataclass(frozen=True, slots=True, eq=False)
class Branches:
    """The branches to which splits on context features lead.

    Every context takes branch 0, on which all roots lie. A context that takes the branch on which split i of ``split``
    lies goes on to branch 1 + 2 i if the split sends it left, and to branch 2 + 2 i if the split sends it right.

    Splits are listed by level, which is their depth in the tree. The branch on which a split lies starts at a split of
    a smaller depth, so that the branches that contexts take can be found level by level.

    split (c,): The splits on context features, by level: their numbers in the trees.
    parent (c,): The branch on which each split lies.
    levels: Range of the positions in ``split`` that hold the splits of each level: start, and end exclusive.
    features (u,): Context features that occur in a split.
    comparisons: Comparisons with thresholds that decide the numeric splits.
    decision (c,): The decision that each split takes. Decisions are numbered through the thresholds of all
        ``comparisons``, and then through the categorical splits. Numeric splits that decide alike share a decision.
    categorical (g,): The categorical splits: their numbers in the trees.
    categorical_column (g,): Position of each categorical split's feature in ``features``.
    """

    split: IntArray
    parent: IntArray
    levels: tuple[tuple[int, int], ...]
    features: IntArray
    comparisons: tuple[Comparisons, ...]
    decision: IntArray
    categorical: IntArray
    categorical_column: IntArray


class Nodes(NamedTuple):
    """Nodes of the trees, with the branches and the items that lead to them.

    node (d,): Number of a split, or ``~leaf``; of nodes that are known to be leaves, number of the leaf.
    branch (d,): The branch on which the node lies.
    output (d,): The output of the booster to which the node's tree adds: the category, or 0 for a binary booster.
    first, second (d, K): Sets of first and of second items that reach the node.
    """

    node: IntArray
    branch: IntArray
    output: IntArray
    first: BoolArray
    second: BoolArray

    def only(self, rows: BoolArray | IntArray) -> Nodes:
        """Return some of the nodes."""
        return Nodes(self.node[rows], self.branch[rows], self.output[rows], self.first[rows], self.second[rows])


def evaluate_items(trees: Trees, n_items: int) -> tuple[Branches, Nodes]:
    """Walk through all trees level by level with sets of items; return branches, and leaves that some pair reaches."""
    n_trees, first_item_feature = len(trees.root), trees.n_features - 2
    all_items = np.ones((n_trees, n_items), dtype=bool)
    root_branch, output = np.zeros(n_trees, dtype=np.intp), np.arange(n_trees) % trees.link.n_outputs
    nodes = Nodes(trees.root, root_branch, output, all_items, all_items)
    levels: list[tuple[int, int]] = []
    leaves, splits, split_branches, n_splits = [], [], [], 0
    while not levels or len(nodes.node):
        is_leaf: BoolArray = nodes.node < 0
        leaves.append(nodes.only(is_leaf))
        inner = nodes.only(~is_leaf)
        is_on_items: BoolArray = trees.feature[inner.node] >= first_item_feature
        on_items, on_context = inner.only(is_on_items), inner.only(~is_on_items)
        splits.append(on_context.node)
        split_branches.append(on_context.branch)
        left_branch = 1 + 2 * (n_splits + np.arange(len(on_context.node)))
        levels.append((n_splits, n_splits + len(on_context.node)))
        n_splits = levels[-1][1]
        items = np.broadcast_to(np.arange(float(n_items)), (len(on_items.node), n_items))
        goes_left = go_left(trees, on_items.node, items)
        on_first = (trees.feature[on_items.node] == first_item_feature)[:, None]
        children = [
            on_context._replace(node=trees.left[on_context.node], branch=left_branch),
            on_context._replace(node=trees.right[on_context.node], branch=left_branch + 1),
        ]
        for child, goes_there in ((trees.left, goes_left), (trees.right, ~goes_left)):
            first, second = on_items.first & (goes_there | ~on_first), on_items.second & (goes_there | on_first)
            children.append(on_items._replace(node=child[on_items.node], first=first, second=second))
        nodes = Nodes(*map(np.concatenate, zip(*children, strict=True)))
        nodes = nodes.only(np.flatnonzero(nodes.first.any(axis=1) & nodes.second.any(axis=1)))
    reached, split = Nodes(*map(np.concatenate, zip(*leaves, strict=True))), np.concatenate(splits)
    branches = _branches(trees, split, np.concatenate(split_branches), tuple(levels))
    return branches, reached._replace(node=~reached.node)


def _branches(trees: Trees, split: IntArray, parent: IntArray, levels: tuple[tuple[int, int], ...]) -> Branches:
    """Find the features, comparisons and decisions of the splits on context features; shapes: split, parent (c,)."""
    features, column = np.unique(trees.feature[split], return_inverse=True)
    is_categorical = trees.categorical[split]
    numeric, categorical = np.flatnonzero(~is_categorical), np.flatnonzero(is_categorical)
    missing, threshold = trees.missing[split[numeric]], trees.threshold[split[numeric]]
    # The default direction matters only where some value is treated as missing.
    default_left = trees.default_left[split[numeric]] & (missing > 0)
    group = (column[numeric] * (NANS + 1) + missing) * 2 + default_left
    by_decision = np.lexsort((threshold, group))
    is_new_group = _differs_from_previous(group[by_decision])
    is_new = is_new_group | _differs_from_previous(threshold[by_decision])
    decision = np.empty(len(split), dtype=np.intp)
    decision[numeric[by_decision]] = np.cumsum(is_new) - 1
    decision[categorical] = np.count_nonzero(is_new) + np.arange(len(categorical))
    distinct = by_decision[is_new]
    bounds = [*np.flatnonzero(is_new_group[is_new]), len(distinct)]
    comparisons = tuple(
        Comparisons(
            int(column[numeric[distinct[start]]]),
            threshold[distinct[start:stop]],
            int(missing[distinct[start]]),
            bool(default_left[distinct[start]]),
        )
        for start, stop in pairwise(bounds)
    )
    return Branches(split, parent, levels, features, comparisons, decision, split[categorical], column[categorical])


def _differs_from_previous(values: NDArray[np.generic]) -> BoolArray:
    """Return which values, (n,), differ from the value before them; the first one does."""
    differs = np.ones(len(values), dtype=bool)
    differs[1:] = values[1:] != values[:-1]
    return differs


def contexts_by_branch(trees: Trees, branches: Branches, x: FloatArray) -> NDArray[np.uint8]:
    """Return which contexts take each branch, as bits: eight contexts in each number.

    Shapes: x (n, u), returns (1 + 2 c, ceil(n / 8).
    """
    columns = np.ascontiguousarray(x.T)
    by_threshold = [comparison.goes_left(columns[comparison.column]) for comparison in branches.comparisons]
    by_category = go_left(trees, branches.categorical, columns[branches.categorical_column])
    goes_left = np.packbits(np.concatenate([*by_threshold, by_category]), axis=1)[branches.decision]
    bits = np.empty((1 + 2 * len(branches.split), -(-len(x) // 8)), dtype=np.uint8)
    bits[0] = 255
    for start, stop in branches.levels:
        at_split = bits[branches.parent[start:stop]]
        to_left = at_split & goes_left[start:stop]
        bits[1 + 2 * start : 1 + 2 * stop : 2] = to_left
        bits[2 + 2 * start : 2 + 2 * stop : 2] = at_split ^ to_left
    return bits


# --- rectangles -------------------------------------------------------------------------------------------------------

# Bytes of bits of each branch that are numbers at a time, eight contexts each.
_BYTES_AT_ONCE = 8
# The bits of a byte, as numbers.
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(float)


class _ClusterStep(NamedTuple):
    """Rectangles that are added to the scores of all first items of a cluster, or subtracted from them.

    larger: Number of the sum over the larger clusters with these items, which the scores begin with. Sum 0 is zero, and
        every step with a cluster of several items makes the next one.
    rectangles (r,): Numbers of the rectangles.
    second (r, K): One for the second items of a rectangle, or minus one if the rectangle is subtracted.
    item: The item of a cluster of one; None for other clusters.
    """

    larger: int
    rectangles: IntArray
    second: NDArray[np.int8]
    item: int | None


@dataclass(frozen=True, slots=True, eq=False)
class RectangleSum:
    """Scores of one output as a sum of rectangles whose weights depend on the branches that a context takes.

    A rectangle is a set of first items times a set of second items.

    branches (u,): Branches on which leaves of this output hang.
    weights (r + q, u): The weight that each branch contributes to each rectangle, if a context takes the branch. The
        last q rectangles have all second items.
    first (K, q): One for the first items of these q rectangles.
    steps: The other r rectangles, by cluster; a cluster comes before those of which it is made.

    Notes
    -----
    With sets of first items A_r, sets of second items B_r and weights w_r(x), the score of a pair is

        s(a, b | x) = sum_r w_r(x) 1(a in A_r) 1(b in B_r).

    Splits that are alike send the same items left, so that A_r is the sum and difference of few clusters g of a
    dendrogram: 1(a in A_r) = sum_g c_rg 1(a in g) with signs c_rg in {-1, 0, 1}. Then

        s(a, b | x) = sum_(g contains a) sum_r c_rg w_r(x) 1(b in B_r),

    where the inner sum is the same for all items of a cluster, and is one matrix product for many contexts. The signs
    with the fewest clusters follow by dynamic programming over the dendrogram, from the items up.
    """

    branches: IntArray
    weights: csr_array
    first: FloatArray
    steps: tuple[_ClusterStep, ...]

    def write_scores(self, branch_bits: NDArray[np.uint8], scores: FloatArray) -> None:
        """Write the scores of all ordered pairs in n contexts.

        Shapes: branch_bits (b, at least n / 8), scores (n, K, K).
        """
        n, taken = 8 * branch_bits.shape[1], branch_bits[self.branches]
        weight = np.empty((self.weights.shape[0], n))
        # Bits that are numbers fit the cache for few contexts.
        for start in range(0, n // 8, _BYTES_AT_ONCE):
            some = weight[:, 8 * start : 8 * (start + _BYTES_AT_ONCE)]
            bits = _BITS.take(taken[:, start : start + _BYTES_AT_ONCE], axis=0)
            some[:] = self.weights @ bits.reshape(len(taken), some.shape[1])
        of_first = (self.first @ weight[len(weight) - self.first.shape[1] :])[:, :, None]
        # New memory takes longer than the copies in it.
        memory, sums = np.empty((max(len(step.rectangles) for step in self.steps), n)), [np.zeros((n, len(self.first)))]
        for step in self.steps:
            gathered = memory[: len(step.rectangles)]
            weight.take(step.rectangles, axis=0, out=gathered, mode="clip")
            total = gathered.T @ step.second.astype(float)
            total += sums[step.larger]
            if step.item is None:
                sums.append(total)
            else:
                np.add(total[: len(scores)], of_first[step.item, : len(scores)], out=scores[:, step.item])


def sums_of_rectangles(leaves: Nodes, value: FloatArray, n_outputs: int) -> tuple[RectangleSum, ...]:
    """Return the sum of rectangles of every output; equal rectangles of several leaves are merged.

    Shapes: value (n_leaves,).
    """
    parts = []
    for output in range(n_outputs):
        rows = np.flatnonzero(leaves.output == output)
        weight, first, second, branch = _without_large_sets(
            leaves.first[rows], leaves.second[rows], leaves.branch[rows], value[leaves.node[rows]]
        )
        example, rectangle = _distinct(np.column_stack([first, second]))
        has_all = second[example].all(axis=1)
        by_second = np.argsort(has_all, kind="stable")
        example, place = example[by_second], np.argsort(by_second)
        branches, column = np.unique(branch, return_inverse=True)
        weights = csr_array((weight, (place[rectangle], column)), shape=(len(example), len(branches)))
        parts.append((branches, weights, first[example], second[example], np.count_nonzero(~has_all)))
    children = _children_of_clusters(np.concatenate([first[:r] for _, _, first, _, r in parts]))
    return tuple(
        RectangleSum(branches, weights, first[r:].T.astype(float), _steps(children, first[:r], second[:r]))
        for branches, weights, first, second, r in parts
    )


def _without_large_sets(
    first: BoolArray, second: BoolArray, branch: IntArray, value: FloatArray
) -> tuple[FloatArray, BoolArray, BoolArray, IntArray]:
    """Rewrite the rectangle of each leaf as a sum of rectangles whose sets of items are small, or contain all items.

    Shapes: first, second (l, K), branch (l,), value (l,), weight (t,), first, second (t, K), branch (t,).
    """
    small_first, first_swapped = _smaller_sets(first)
    small_second, second_swapped = _smaller_sets(second)
    all_items = np.ones_like(first)
    first_terms = [(np.where(first_swapped, -1.0, 1.0), small_first), (first_swapped.astype(float), all_items)]
    second_terms = [(np.where(second_swapped, -1.0, 1.0), small_second), (second_swapped.astype(float), all_items)]
    terms = []
    for first_sign, first_items in first_terms:
        for second_sign, second_items in second_terms:
            weight = first_sign * second_sign * value
            rows = np.flatnonzero(first_sign * second_sign)
            terms.append((weight[rows], first_items[rows], second_items[rows], branch[rows]))
    weights, first_sets, second_sets, branches = (np.concatenate(arrays) for arrays in zip(*terms, strict=True))
    return weights, first_sets, second_sets, branches


def _smaller_sets(sets: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Return each set or its complement, whichever is smaller, (l, K), and which sets were swapped, (l,)."""
    size, n_items = sets.sum(axis=1), sets.shape[1]
    half_with_item_0 = (2 * size == n_items) & sets[:, 0]
    swapped: BoolArray = ((2 * size > n_items) | half_with_item_0) & (size < n_items)
    return sets ^ swapped[:, None], swapped


def _distinct(sets: BoolArray) -> tuple[IntArray, IntArray]:
    """Return a row with each distinct set, (d,), and the number of every set among the distinct ones, (l,)."""
    packed = np.packbits(sets, axis=1)
    # Sorting words takes a fraction of the time of sorting rows of bytes.
    words = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64)
    order = np.lexsort(words.T)
    is_new = np.ones(len(sets), dtype=bool)
    is_new[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1)
    number = np.empty(len(sets), dtype=np.intp)
    number[order] = np.cumsum(is_new) - 1
    return order[is_new], number


def _children_of_clusters(first: BoolArray) -> IntArray:
    """Cluster items that are first items of the same rectangles, (r, K), by average linkage.

    Returns the two clusters of which each cluster of several items is made, (K - 1, 2). Numbers below K are items, and
    K + i is the cluster in row i.
    """
    n_items = first.shape[1]
    if n_items == 1:
        return np.zeros((0, 2), dtype=np.intp)
    together = first.T.astype(float) @ first
    size = np.diagonal(together)
    differing = size[:, None] + size - 2 * together
    return linkage(differing[np.triu_indices(n_items, 1)], "average")[:, :2].astype(np.intp)


def _steps(children: IntArray, first: BoolArray, second: BoolArray) -> tuple[_ClusterStep, ...]:
    """Return rectangles, (r, K), by cluster, from the clusters' children, (K - 1, 2)."""
    n_items, signs, steps, n_sums = first.shape[1], _signs(children, first), list[_ClusterStep](), 1
    items = second.astype(np.int8)
    larger = np.zeros(len(signs), dtype=np.intp)
    for cluster in range(len(signs) - 1, -1, -1):
        rectangles, number = np.flatnonzero(signs[cluster]), int(larger[cluster])
        item = cluster if cluster < n_items else None
        if item is not None or len(rectangles):
            steps.append(_ClusterStep(number, rectangles, items[rectangles] * signs[cluster, rectangles, None], item))
        if item is None:
            if len(rectangles):
                number, n_sums = n_sums, n_sums + 1
            larger[children[cluster - n_items]] = number
    return tuple(steps)


def _signs(children: IntArray, first: BoolArray) -> NDArray[np.int8]:
    """Write sets of items, (r, K), as sums and differences of the fewest clusters; return the signs, (2 K - 1, r).

    Shapes: children (K - 1, 2).
    """
    n_items = first.shape[1]
    # Number of smaller clusters that are needed if the larger ones, with the cluster itself, add up to 0 or to 1. An
    # item has no smaller ones; two, where its sum must be the other, makes its own sign the better choice.
    below = np.zeros((2 * n_items - 1, 2, len(first)), dtype=np.int16)
    below[:n_items, 0], below[:n_items, 1] = 2 * first.T, 2 * ~first.T
    for number, pair in enumerate(children):
        below[n_items + number] = np.minimum(below[pair], 1 + below[pair, ::-1]).sum(axis=0)
    signs, larger = np.zeros((2, len(below), len(first)), dtype=np.int8)
    for cluster in range(len(below) - 1, -1, -1):
        less = below[cluster, 0] - below[cluster, 1]
        signs[cluster] = np.where(larger[cluster], -(less < -1).astype(np.int8), less > 1)
        if cluster >= n_items:
            larger[children[cluster - n_items]] = larger[cluster] + signs[cluster]
    return signs
