"""Partial evaluation of trees: splits on context features apart from the sets of items that splits on items leave.

Within a context only the two items change. Splits on context features lead to *branches* of a tree; every leaf hangs on
one branch and holds for a rectangle of item pairs, a set of first items times a set of second items.
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
    """Where the splits on context features lead.

    Branch 0 is taken by every context. The splits at place a up to b of level (a, b) lie on branches that earlier
    levels have made; the split at place i makes branches 1 + 2 i (left) and 2 + 2 i.

    Attributes
    ----------
    split : ndarray of int, shape (c,)
        The tree's splits on context features, by level.
    on : ndarray of int, shape (c,)
        The branch that each lies on.
    levels : tuple of (int, int)
    features : ndarray of int, shape (u,)
        Context features that some split is on.
    column : ndarray of int, shape (c,)
        The place of a split's feature among them.
    thresholds : tuple of u ndarrays
        Distinct thresholds of each, increasing.
    rank : ndarray of int, shape (c,)
        Place of a split's threshold among those of its feature; 0 for categories.
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
    """The leaves that some pair of items can reach.

    Attributes
    ----------
    leaf, branch : ndarray of int, shape (l,)
        Number in the trees, and the branch it hangs on.
    output : ndarray of int, shape (l,)
    first, second : ndarray of bool, shape (l, K)
        Items for which it holds.
    """

    leaf: IntArray
    branch: IntArray
    output: IntArray
    first: NDArray[np.bool_]
    second: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Places in the trees: a split or ``~leaf``, with the branch, the output and the items that lead there."""

    at: IntArray
    branch: IntArray
    output: IntArray
    first: NDArray[np.bool_]
    second: NDArray[np.bool_]

    def __getitem__(self, chosen: NDArray[np.bool_] | IntArray) -> _Places:
        return _Places(
            self.at[chosen], self.branch[chosen], self.output[chosen], self.first[chosen], self.second[chosen]
        )


def evaluate_items(trees: Trees, n_items: int) -> tuple[Branches, Leaves]:
    """Walk all trees level by level with sets of items.

    Parameters
    ----------
    trees : Trees
        The last two features are the codes of the first and the second item.
    n_items : int
        K.
    """
    n_trees, first_feature = len(trees.root), trees.n_features - 2
    every = np.ones((n_trees, n_items), dtype=bool)
    here = _Places(
        trees.root, np.zeros(n_trees, dtype=np.intp), np.arange(n_trees) % trees.link.n_outputs, every, every
    )
    levels: list[tuple[int, int]] = []
    leaves, splits, ons, placed = [], [], [], 0
    while not levels or len(here.at):
        is_leaf: NDArray[np.bool_] = here.at < 0
        leaves.append(here[is_leaf])
        inner = here[~is_leaf]
        feature = trees.feature[inner.at]
        on_items, on_context = inner[feature >= first_feature], inner[feature < first_feature]
        splits.append(on_context.at)
        ons.append(on_context.branch)
        levels.append((placed, placed + len(on_context.at)))
        here = _joined([*_on_context(trees, on_context, placed), *_on_items(trees, on_items, first_feature)])
        here = here[_any(here.first) & _any(here.second)]
        placed = levels[-1][1]
    found = _joined(leaves)
    split = np.concatenate(splits)
    return (
        Branches(split, np.concatenate(ons), tuple(levels), *_thresholds(trees, split)),
        Leaves(~found.at, found.branch, found.output, found.first, found.second),
    )


def _joined(parts: list[_Places]) -> _Places:
    return _Places(
        np.concatenate([part.at for part in parts]),
        np.concatenate([part.branch for part in parts]),
        np.concatenate([part.output for part in parts]),
        np.concatenate([part.first for part in parts]),
        np.concatenate([part.second for part in parts]),
    )


def _on_context(trees: Trees, here: _Places, placed: int) -> tuple[_Places, _Places]:
    left = 1 + 2 * (placed + np.arange(len(here.at)))
    return (
        _Places(trees.left[here.at], left, here.output, here.first, here.second),
        _Places(trees.right[here.at], left + 1, here.output, here.first, here.second),
    )


def _on_items(trees: Trees, here: _Places, first_feature: int) -> tuple[_Places, _Places]:
    n_items = here.first.shape[1]
    left = go_left(trees, here.at, np.broadcast_to(np.arange(float(n_items)), (len(here.at), n_items)))
    on_first = (trees.feature[here.at] == first_feature)[:, None]
    return (
        _Places(
            trees.left[here.at],
            here.branch,
            here.output,
            here.first & (left | ~on_first),
            here.second & (left | on_first),
        ),
        _Places(
            trees.right[here.at],
            here.branch,
            here.output,
            here.first & (~left | ~on_first),
            here.second & (~left | on_first),
        ),
    )


def _thresholds(trees: Trees, split: IntArray) -> tuple[IntArray, IntArray, tuple[FloatArray, ...], IntArray]:
    """Features, columns, thresholds and ranks of :class:`Branches`."""
    features, column = np.unique(trees.feature[split], return_inverse=True)
    rank, thresholds = np.zeros(len(split), dtype=np.intp), []
    numeric = np.flatnonzero(~trees.categorical[split])
    by_feature = numeric[np.argsort(column[numeric], kind="stable")]
    bounds = np.searchsorted(column[by_feature], np.arange(len(features) + 1))
    for start, stop in pairwise(bounds):
        chosen = by_feature[start:stop]
        distinct, rank[chosen] = np.unique(trees.threshold[split[chosen]], return_inverse=True)
        thresholds.append(distinct)
    return features, column, tuple(thresholds), rank


def branches_taken(trees: Trees, branches: Branches, x: FloatArray) -> NDArray[np.uint8]:
    """Which contexts take which branches, as bits along contexts.

    Parameters
    ----------
    x : ndarray, shape (n, u)
        The context features ``branches.features``, as
        :func:`dmlrank.nuisance.all_pairs.parse_trees.as_read` gives them.

    Returns
    -------
    ndarray of uint8, shape (1 + 2 c, ceil(n / 8))
    """
    left = np.packbits(_decisions(trees, branches, np.ascontiguousarray(x.T)), axis=1)
    taken = np.empty((1 + 2 * len(branches.split), -(-len(x) // 8)), dtype=np.uint8)
    taken[0] = 255
    for start, stop in branches.levels:
        on = taken[branches.on[start:stop]]
        to_left = on & left[start:stop]
        taken[1 + 2 * start : 1 + 2 * stop : 2] = to_left
        taken[2 + 2 * start : 2 + 2 * stop : 2] = on ^ to_left
    return taken


def _decisions(trees: Trees, branches: Branches, columns: FloatArray) -> NDArray[np.bool_]:
    """Which contexts go left at every split on context features, (c, n); ``columns`` is (u, n)."""
    split, column = branches.split, branches.column
    nan = np.isnan(columns)
    # A number's rank is how many thresholds lie below it: it is at most a threshold whose own rank is no less.
    most = max((len(distinct) for distinct in branches.thresholds), default=0)
    ranks = np.empty(columns.shape, dtype=np.min_scalar_type(most))
    for row, values, distinct in zip(ranks, np.where(nan, 0.0, columns), branches.thresholds, strict=True):
        row[:] = np.searchsorted(distinct, values)
    left: NDArray[np.bool_] = ranks[column] <= branches.rank.astype(ranks.dtype)[:, None]
    has_nan = _any(nan)
    has_zero = _any(columns == 0) | has_nan
    missing = trees.missing[split]
    by_rule = np.flatnonzero(
        trees.categorical[split] | (has_zero[column] & (missing == ZEROS)) | (has_nan[column] & (missing == NANS))
    )
    left[by_rule] = go_left(trees, split[by_rule], columns[column[by_rule]])
    return left


def _any(sets: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(sets.any(axis=1))
