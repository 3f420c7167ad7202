"""Partial evaluation of trees: splits on context features are separated from splits on the two items.

Within a context only the two items change. Splits on context features lead to *branches* of a tree. Every leaf hangs
on one branch and holds for a rectangle of item pairs, a set of first items times a set of second items.
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

    Branch 0 is taken by every context. The splits at the places a to b - 1, for a level (a, b), lie on branches that
    splits of earlier levels lead to. The split at place i leads to the branches 1 + 2 i (left) and 2 + 2 i (right).

    Attributes
    ----------
    split : ndarray of int, shape (c,)
        The splits on context features, by level: their numbers in the trees.
    on : ndarray of int, shape (c,)
        The branch on which each split lies.
    levels : tuple of (int, int)
        First place and end of the splits of each level.
    features : ndarray of int, shape (u,)
        Context features that occur in a split.
    column : ndarray of int, shape (c,)
        Place of each split's feature in ``features``.
    thresholds : tuple of u ndarrays
        Distinct thresholds of each feature, increasing.
    rank : ndarray of int, shape (c,)
        Place of each split's threshold among those of its feature; 0 for a categorical split.
    """

    split: IntArray
    on: IntArray
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
        The output to which the leaf adds.
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
    at : ndarray of int, shape (d,)
        A split, or ``~leaf``.
    branch : ndarray of int, shape (d,)
        The branch on which the node lies.
    output : ndarray of int, shape (d,)
        The output to which the node's tree adds.
    first, second : ndarray of bool, shape (d, K)
        Sets of first and of second items that reach the node.
    """

    at: IntArray
    branch: IntArray
    output: IntArray
    first: NDArray[np.bool_]
    second: NDArray[np.bool_]

    def __getitem__(self, rows: NDArray[np.bool_] | IntArray) -> _Nodes:
        return _Nodes(self.at[rows], self.branch[rows], self.output[rows], self.first[rows], self.second[rows])


def evaluate_items(trees: Trees, n_items: int) -> tuple[Branches, Leaves]:
    """Walk through all trees level by level with sets of items.

    Parameters
    ----------
    trees : Trees
        Trees whose last two features are the codes of the first and of the second item.
    n_items : int
        K.
    """
    n_trees, first_feature = len(trees.root), trees.n_features - 2
    all_items = np.ones((n_trees, n_items), dtype=bool)
    root_branch, output = np.zeros(n_trees, dtype=np.intp), np.arange(n_trees) % trees.link.n_outputs
    nodes = _Nodes(trees.root, root_branch, output, all_items, all_items)
    levels: list[tuple[int, int]] = []
    leaves, splits, split_branches, n_splits = [], [], [], 0
    while not levels or len(nodes.at):
        is_leaf: NDArray[np.bool_] = nodes.at < 0
        leaves.append(nodes[is_leaf])
        inner = nodes[~is_leaf]
        feature = trees.feature[inner.at]
        on_items, on_context = inner[feature >= first_feature], inner[feature < first_feature]
        splits.append(on_context.at)
        split_branches.append(on_context.branch)
        levels.append((n_splits, n_splits + len(on_context.at)))
        children = [*_split_by_context(trees, on_context, n_splits), *_split_by_items(trees, on_items, first_feature)]
        nodes = _concatenate(children)
        nodes = nodes[_any_by_row(nodes.first) & _any_by_row(nodes.second)]
        n_splits = levels[-1][1]
    reached = _concatenate(leaves)
    split = np.concatenate(splits)
    return (
        Branches(split, np.concatenate(split_branches), tuple(levels), *_thresholds(trees, split)),
        Leaves(~reached.at, reached.branch, reached.output, reached.first, reached.second),
    )


def _concatenate(parts: list[_Nodes]) -> _Nodes:
    """Return the nodes of all parts, one part after the other."""
    return _Nodes(
        np.concatenate([part.at for part in parts]),
        np.concatenate([part.branch for part in parts]),
        np.concatenate([part.output for part in parts]),
        np.concatenate([part.first for part in parts]),
        np.concatenate([part.second for part in parts]),
    )


def _split_by_context(trees: Trees, nodes: _Nodes, n_splits: int) -> tuple[_Nodes, _Nodes]:
    """Return the left and the right children of splits on context features; ``n_splits`` splits came before these."""
    left_branch = 1 + 2 * (n_splits + np.arange(len(nodes.at)))
    return (
        _Nodes(trees.left[nodes.at], left_branch, nodes.output, nodes.first, nodes.second),
        _Nodes(trees.right[nodes.at], left_branch + 1, nodes.output, nodes.first, nodes.second),
    )


def _split_by_items(trees: Trees, nodes: _Nodes, first_feature: int) -> tuple[_Nodes, _Nodes]:
    """Return the left and the right children of splits on items; ``first_feature`` is the code of the first item."""
    n_items = nodes.first.shape[1]
    goes_left = go_left(trees, nodes.at, np.broadcast_to(np.arange(float(n_items)), (len(nodes.at), n_items)))
    on_first = (trees.feature[nodes.at] == first_feature)[:, None]
    return (
        _Nodes(
            trees.left[nodes.at],
            nodes.branch,
            nodes.output,
            nodes.first & (goes_left | ~on_first),
            nodes.second & (goes_left | on_first),
        ),
        _Nodes(
            trees.right[nodes.at],
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
    """Return the contexts that take each branch, as bits along the contexts.

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
        on = bits[branches.on[start:stop]]
        to_left = on & goes_left[start:stop]
        bits[1 + 2 * start : 1 + 2 * stop : 2] = to_left
        bits[2 + 2 * start : 2 + 2 * stop : 2] = on ^ to_left
    return bits


def _decisions(trees: Trees, branches: Branches, columns: FloatArray) -> NDArray[np.bool_]:
    """Return which contexts go left at every split on context features, (c, n); ``columns`` is (u, n)."""
    split, column = branches.split, branches.column
    is_nan = np.isnan(columns)
    # The rank of a number is how many thresholds lie below it. The number goes left, because it does not exceed the
    # threshold of a split, exactly where its rank does not exceed the rank of that threshold.
    most_thresholds = max((len(distinct) for distinct in branches.thresholds), default=0)
    ranks = np.empty(columns.shape, dtype=np.min_scalar_type(most_thresholds))
    for row, values, distinct in zip(ranks, np.where(is_nan, 0.0, columns), branches.thresholds, strict=True):
        row[:] = np.searchsorted(distinct, values)
    goes_left: NDArray[np.bool_] = ranks[column] <= branches.rank.astype(ranks.dtype)[:, None]
    has_nan = _any_by_row(is_nan)
    has_zero = _any_by_row(columns == 0) | has_nan
    missing = trees.missing[split]
    by_rule = np.flatnonzero(
        trees.categorical[split] | (has_zero[column] & (missing == ZEROS)) | (has_nan[column] & (missing == NANS))
    )
    goes_left[by_rule] = go_left(trees, split[by_rule], columns[column[by_rule]])
    return goes_left


def _any_by_row(sets: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows have a true entry."""
    return np.asarray(sets.any(axis=1))
