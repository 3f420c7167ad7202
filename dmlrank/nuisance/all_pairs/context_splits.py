"""Partial evaluation of trees: splits on context features are separated from splits on the two items.

Within a context only the two items change. The splits on context features divide a tree into *branches*: which branches
a context takes depends on its features alone. Every leaf hangs on one branch. A context that takes this branch reaches
the leaf for a rectangle of item pairs, which is a set of first items times a set of second items.

Nodes are numbered as in :class:`.parse_trees.Trees`: a split by its number, and leaf i by ``~i`` = -1 - i.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...data.preferences import FloatArray, IntArray
from .parse_trees import NANS, Trees, go_left


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

    def goes_left(self, values: FloatArray) -> NDArray[np.bool_]:
        """Return which values, (n,), go left at each threshold, (t, n).

        Comparing ranks, which are small integers, is faster than comparing the values with every threshold.
        """
        rank = self.ranks(values)
        goes_left: NDArray[np.bool_] = rank <= np.arange(len(self.thresholds), dtype=rank.dtype)[:, None]
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


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """The leaves that at least one pair of items can reach.

    leaf (l,): Number of the leaf in the trees.
    branch (l,): The branch on which the leaf hangs.
    output (l,): The output of the booster to which the leaf adds: the category, or 0 for a binary booster.
    first, second (l, K): Sets of first and of second items that reach the leaf.
    """

    leaf: IntArray
    branch: IntArray
    output: IntArray
    first: NDArray[np.bool_]
    second: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """Nodes of the trees, with the branches and the items that lead to them.

    node (d,): Number of a split, or ``~leaf``.
    branch (d,): The branch on which the node lies.
    output (d,): The output of the booster to which the node's tree adds.
    first, second (d, K): Sets of first and of second items that reach the node.
    """

    node: IntArray
    branch: IntArray
    output: IntArray
    first: NDArray[np.bool_]
    second: NDArray[np.bool_]

    def __getitem__(self, rows: NDArray[np.bool_] | IntArray) -> _Nodes:
        return _Nodes(self.node[rows], self.branch[rows], self.output[rows], self.first[rows], self.second[rows])


def evaluate_items(trees: Trees, n_items: int) -> tuple[Branches, Leaves]:
    """Walk through all trees level by level with sets of items."""
    n_trees, first_item_feature = len(trees.root), trees.n_features - 2
    all_items = np.ones((n_trees, n_items), dtype=bool)
    root_branch, output = np.zeros(n_trees, dtype=np.intp), np.arange(n_trees) % trees.link.n_outputs
    nodes = _Nodes(trees.root, root_branch, output, all_items, all_items)
    levels: list[tuple[int, int]] = []
    leaves, splits, split_branches, n_splits = [], [], [], 0
    while not levels or len(nodes.node):
        is_leaf: NDArray[np.bool_] = nodes.node < 0
        leaves.append(nodes[is_leaf])
        inner = nodes[~is_leaf]
        feature = trees.feature[inner.node]
        on_items, on_context = inner[feature >= first_item_feature], inner[feature < first_item_feature]
        splits.append(on_context.node)
        split_branches.append(on_context.branch)
        levels.append((n_splits, n_splits + len(on_context.node)))
        children = [
            *_split_by_context(trees, on_context, n_splits),
            *_split_by_items(trees, on_items, first_item_feature),
        ]
        nodes = _concatenate(children)
        nodes = nodes[_any_by_row(nodes.first) & _any_by_row(nodes.second)]
        n_splits = levels[-1][1]
    reached = _concatenate(leaves)
    split = np.concatenate(splits)
    return (
        _branches(trees, split, np.concatenate(split_branches), tuple(levels)),
        Leaves(~reached.node, reached.branch, reached.output, reached.first, reached.second),
    )


def _concatenate(parts: list[_Nodes]) -> _Nodes:
    """Return the nodes of all parts, one part after the other."""
    return _Nodes(
        np.concatenate([part.node for part in parts]),
        np.concatenate([part.branch for part in parts]),
        np.concatenate([part.output for part in parts]),
        np.concatenate([part.first for part in parts]),
        np.concatenate([part.second for part in parts]),
    )


def _split_by_context(trees: Trees, nodes: _Nodes, n_splits: int) -> tuple[_Nodes, _Nodes]:
    """Return the left and the right children of splits on context features."""
    left_branch = 1 + 2 * (n_splits + np.arange(len(nodes.node)))
    return (
        _Nodes(trees.left[nodes.node], left_branch, nodes.output, nodes.first, nodes.second),
        _Nodes(trees.right[nodes.node], left_branch + 1, nodes.output, nodes.first, nodes.second),
    )


def _split_by_items(trees: Trees, nodes: _Nodes, first_item_feature: int) -> tuple[_Nodes, _Nodes]:
    """Return the left and the right children of splits on items."""
    n_items = nodes.first.shape[1]
    goes_left = go_left(trees, nodes.node, np.broadcast_to(np.arange(float(n_items)), (len(nodes.node), n_items)))
    on_first = (trees.feature[nodes.node] == first_item_feature)[:, None]
    return (
        _Nodes(
            trees.left[nodes.node],
            nodes.branch,
            nodes.output,
            nodes.first & (goes_left | ~on_first),
            nodes.second & (goes_left | on_first),
        ),
        _Nodes(
            trees.right[nodes.node],
            nodes.branch,
            nodes.output,
            nodes.first & (~goes_left | ~on_first),
            nodes.second & (~goes_left | on_first),
        ),
    )


def _branches(trees: Trees, split: IntArray, parent: IntArray, levels: tuple[tuple[int, int], ...]) -> Branches:
    """Find the features, comparisons and decisions of the splits on context features.

    Shapes: split, parent (c,).
    """
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


def _differs_from_previous(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return which values, (n,), differ from the value before them; the first one does."""
    differs = np.ones(len(values), dtype=bool)
    differs[1:] = values[1:] != values[:-1]
    return differs


def contexts_by_branch(trees: Trees, branches: Branches, x: FloatArray) -> NDArray[np.uint8]:
    """Return which contexts take each branch, as bits: eight contexts in each number.

    Shapes: x (n, u), returns (1 + 2 c, ceil(n / 8).
    """
    goes_left = np.packbits(_decisions(trees, branches, np.ascontiguousarray(x.T)), axis=1)[branches.decision]
    bits = np.empty((1 + 2 * len(branches.split), -(-len(x) // 8)), dtype=np.uint8)
    bits[0] = 255
    for start, stop in branches.levels:
        at_split = bits[branches.parent[start:stop]]
        to_left = at_split & goes_left[start:stop]
        bits[1 + 2 * start : 1 + 2 * stop : 2] = to_left
        bits[2 + 2 * start : 2 + 2 * stop : 2] = at_split ^ to_left
    return bits


def _decisions(trees: Trees, branches: Branches, columns: FloatArray) -> NDArray[np.bool_]:
    """Return which contexts go left by every decision, (d + g, n); ``columns`` is (u, n)."""
    by_threshold = [comparison.goes_left(columns[comparison.column]) for comparison in branches.comparisons]
    by_category = go_left(trees, branches.categorical, columns[branches.categorical_column])
    return np.concatenate([*by_threshold, by_category])


def _any_by_row(sets: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows have a true entry."""
    return np.asarray(sets.any(axis=1))
