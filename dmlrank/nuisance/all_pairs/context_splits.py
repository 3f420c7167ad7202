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
from .parse_trees import NANS, ZEROS, Trees, go_left


@dataclass(frozen=True, slots=True, eq=False)
class Branches:
    """The branches to which splits on context features lead.

    Every context takes branch 0, on which all roots lie. A context that takes the branch on which split i of ``split``
    lies goes on to branch 1 + 2 i if the split sends it left, and to branch 2 + 2 i if the split sends it right.

    Splits are listed by level, which is their depth in the tree. The branch on which a split lies starts at a split of
    a smaller depth, so that the branches that contexts take can be found level by level.

    Attributes
    ----------
    split : ndarray of int, shape (c,)
        The splits on context features, by level: their numbers in the trees.
    parent : ndarray of int, shape (c,)
        The branch on which each split lies.
    levels : tuple of (int, int)
        Range of the positions in ``split`` that hold the splits of each level: start, and end exclusive.
    features : ndarray of int, shape (u,)
        Context features that occur in a split.
    column : ndarray of int, shape (c,)
        Position of each split's feature in ``features``.
    thresholds : tuple of u ndarrays
        Distinct thresholds of each feature, increasing.
    rank : ndarray of int, shape (c,)
        Position of each split's threshold in the ``thresholds`` of its feature; 0 for a categorical split.
    """

    split: IntArray
    parent: IntArray
    levels: tuple[tuple[int, int], ...]
    features: IntArray
    column: IntArray
    thresholds: tuple[FloatArray, ...]
    rank: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """The leaves that at least one pair of items can reach.

    Attributes
    ----------
    leaf : ndarray of int, shape (l,)
        Number of the leaf in the trees.
    branch : ndarray of int, shape (l,)
        The branch on which the leaf hangs.
    output : ndarray of int, shape (l,)
        The output of the booster to which the leaf adds: the category, or 0 for a binary booster.
    first, second : ndarray of bool, shape (l, K)
        Sets of first and of second items that reach the leaf.
    """

    leaf: IntArray
    branch: IntArray
    output: IntArray
    first: NDArray[np.bool_]
    second: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """Nodes of the trees, with the branches and the items that lead to them.

    Attributes
    ----------
    node : ndarray of int, shape (d,)
        Number of a split, or ``~leaf``.
    branch : ndarray of int, shape (d,)
        The branch on which the node lies.
    output : ndarray of int, shape (d,)
        The output of the booster to which the node's tree adds.
    first, second : ndarray of bool, shape (d, K)
        Sets of first and of second items that reach the node.
    """

    node: IntArray
    branch: IntArray
    output: IntArray
    first: NDArray[np.bool_]
    second: NDArray[np.bool_]

    def __getitem__(self, rows: NDArray[np.bool_] | IntArray) -> _Nodes:
        return _Nodes(self.node[rows], self.branch[rows], self.output[rows], self.first[rows], self.second[rows])


def evaluate_items(trees: Trees, n_items: int) -> tuple[Branches, Leaves]:
    """Walk through all trees level by level with sets of items.

    Parameters
    ----------
    trees : Trees
        Trees whose last two features are the codes of the first and of the second item.
    n_items : int
        K.
    """
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
        Branches(split, np.concatenate(split_branches), tuple(levels), *_thresholds(trees, split)),
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
    """Return the left and the right children of splits on context features.

    Parameters
    ----------
    trees : Trees
    nodes : _Nodes
        The splits, all of one level.
    n_splits : int
        Number of splits on context features on the levels above, which determines the numbers of the new branches.
    """
    left_branch = 1 + 2 * (n_splits + np.arange(len(nodes.node)))
    return (
        _Nodes(trees.left[nodes.node], left_branch, nodes.output, nodes.first, nodes.second),
        _Nodes(trees.right[nodes.node], left_branch + 1, nodes.output, nodes.first, nodes.second),
    )


def _split_by_items(trees: Trees, nodes: _Nodes, first_item_feature: int) -> tuple[_Nodes, _Nodes]:
    """Return the left and the right children of splits on items.

    Parameters
    ----------
    trees : Trees
    nodes : _Nodes
        The splits.
    first_item_feature : int
        Number of the feature that holds the code of the first item; the next feature holds the second item.
    """
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


def _thresholds(trees: Trees, split: IntArray) -> tuple[IntArray, IntArray, tuple[FloatArray, ...], IntArray]:
    """Return ``features``, ``column``, ``thresholds`` and ``rank`` of :class:`Branches` for splits, (c,)."""
    features, column = np.unique(trees.feature[split], return_inverse=True)
    rank, thresholds = np.zeros(len(split), dtype=np.intp), []
    numeric = np.flatnonzero(~trees.categorical[split])
    by_feature = numeric[np.argsort(column[numeric], kind="stable")]
    bounds = np.searchsorted(column[by_feature], np.arange(len(features) + 1))
    for start, stop in pairwise(bounds):
        rows = by_feature[start:stop]
        distinct, rank[rows] = np.unique(trees.threshold[split[rows]], return_inverse=True)
        thresholds.append(distinct)
    return features, column, tuple(thresholds), rank


def contexts_by_branch(trees: Trees, branches: Branches, x: FloatArray) -> NDArray[np.uint8]:
    """Return which contexts take each branch, as bits: eight contexts in each number.

    Parameters
    ----------
    trees : Trees
    branches : Branches
    x : ndarray, shape (n, u)
        The context features ``branches.features``, as
        :func:`dmlrank.nuisance.all_pairs.parse_trees.as_lightgbm_reads` gives them.

    Returns
    -------
    ndarray of uint8, shape (1 + 2 c, ceil(n / 8))
    """
    goes_left = np.packbits(_decisions(trees, branches, np.ascontiguousarray(x.T)), axis=1)
    bits = np.empty((1 + 2 * len(branches.split), -(-len(x) // 8)), dtype=np.uint8)
    bits[0] = 255
    for start, stop in branches.levels:
        at_split = bits[branches.parent[start:stop]]
        to_left = at_split & goes_left[start:stop]
        bits[1 + 2 * start : 1 + 2 * stop : 2] = to_left
        bits[2 + 2 * start : 2 + 2 * stop : 2] = at_split ^ to_left
    return bits


def _decisions(trees: Trees, branches: Branches, columns: FloatArray) -> NDArray[np.bool_]:
    """Return which contexts go left at every split on context features, (c, n); ``columns`` is (u, n)."""
    split, column = branches.split, branches.column
    is_nan = np.isnan(columns)
    # A number goes left at a split if it does not exceed the threshold. Comparing ranks is equivalent and faster: the
    # rank of a number is how many of the feature's thresholds lie below it, and the rank of a threshold is its position
    # among them.
    most_thresholds = max((len(distinct) for distinct in branches.thresholds), default=0)
    ranks = np.empty(columns.shape, dtype=np.min_scalar_type(most_thresholds))
    for row, values, distinct in zip(ranks, np.where(is_nan, 0.0, columns), branches.thresholds, strict=True):
        row[:] = np.searchsorted(distinct, values)
    goes_left: NDArray[np.bool_] = ranks[column] <= branches.rank.astype(ranks.dtype)[:, None]
    has_nan = _any_by_row(is_nan)
    has_zero = _any_by_row(columns == 0) | has_nan
    missing = trees.missing[split]
    # These splits are not decided by a comparison with the threshold alone: categorical splits, and splits of features
    # with zeros or NaN that the split treats as missing.
    special_splits = np.flatnonzero(
        trees.categorical[split] | (has_zero[column] & (missing == ZEROS)) | (has_nan[column] & (missing == NANS))
    )
    goes_left[special_splits] = go_left(trees, split[special_splits], columns[column[special_splits]])
    return goes_left


def _any_by_row(sets: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows have a true entry."""
    return np.asarray(sets.any(axis=1))
