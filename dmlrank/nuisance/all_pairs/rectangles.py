"""Scores of all item pairs of a context as sums of rectangles, which the leaves of a booster's trees define.

A tree splits on the features of the context and on the two items. The splits on features divide the tree into branches,
and the features of a context decide which branches the context takes, see :mod:`.context_splits`. The splits on items
then lead to a leaf, which holds for a set of first items and a set of second items: a rectangle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..._utils.blas import SINGLE_THREAD_MULTIPLICATIONS
from ...data.outcomes import exchanged_wins
from ...data.preferences import FloatArray, IntArray
from .context_splits import Leaves


@dataclass(frozen=True, slots=True, eq=False)
class RectangleSum:
    """Scores of one output as a sum of rectangles whose weights depend on the branches that a context takes.

    A rectangle is a set of first items times a set of second items.

    branches (u,): Branches on which leaves of this output hang.
    weights (r + q, u): The weight that each branch contributes to each rectangle, if a context takes the branch. The
        first r rows are rectangles with some of the first items, and the last q rows are rectangles with all first
        items.
    second (r + q, K): One for the second items of a rectangle, zero for the other items.
    with_first: For each item, the rectangles among the first r that contain it as first item, and a second item that is
        scored with it.
    n_rectangles: Number of rectangles with some of the first items, r.
    mirrored: Whether the scores of a pair are the same in both display orders, but for the exchange of first and second
        wins. Then only the second items behind the first one are scored.
    """

    branches: IntArray
    weights: csr_array
    second: FloatArray
    with_first: tuple[IntArray, ...]
    n_rectangles: int
    mirrored: bool

    def seconds(self, first: int) -> slice:
        """Return the second items that are scored with a first item."""
        return slice(first + 1, None) if self.mirrored else slice(None)


def sums_of_rectangles(
    leaves: Leaves, value: FloatArray, n_outputs: int, *, mirrored: bool = False
) -> tuple[RectangleSum, ...]:
    """Return the sum of rectangles of every output.

    Shapes: value (n_leaves,).
    """
    output, first, second, branch, leaf_value = (
        leaves.output,
        leaves.first,
        leaves.second,
        leaves.branch,
        value[leaves.leaf],
    )
    if mirrored:
        output = np.concatenate([output, exchanged_wins(n_outputs)[output]])
        first, second = np.concatenate([first, second]), np.concatenate([second, first])
        branch, leaf_value = np.tile(branch, 2), np.tile(leaf_value / 2, 2)
    by_output = (np.flatnonzero(output == number) for number in range(n_outputs))
    return tuple(
        _sum_of_rectangles(first[rows], second[rows], branch[rows], leaf_value[rows], mirrored=mirrored)
        for rows in by_output
    )


def _sum_of_rectangles(
    first: NDArray[np.bool_], second: NDArray[np.bool_], branch: IntArray, value: FloatArray, *, mirrored: bool
) -> RectangleSum:
    """Return the sum of rectangles of one output; equal rectangles of several leaves are merged.

    Shapes: first, second (l, K), branch (l,), value (l,).
    """
    weight, first, second, branch = _without_large_sets(first, second, branch, value)
    # The flag in the first column sorts rectangles with all first items behind the other rectangles.
    key = np.packbits(np.column_stack([first.all(axis=1), first, second]), axis=1)
    _, example, rectangle = np.unique(key, axis=0, return_index=True, return_inverse=True)
    branches, column = np.unique(branch, return_inverse=True)
    weights = csr_array((weight, (rectangle.reshape(-1), column)), shape=(len(example), len(branches)))
    is_first, is_second = first[example], second[example]
    n_rectangles = int(np.count_nonzero(~is_first.all(axis=1)))
    in_use = is_first[:n_rectangles]
    if mirrored:
        n_items = is_second.shape[1]
        last_second = n_items - 1 - is_second[:n_rectangles, ::-1].argmax(axis=1)
        in_use = in_use & (last_second[:, None] > np.arange(n_items))
    with_first = tuple(np.flatnonzero(member) for member in in_use.T)
    return RectangleSum(branches, weights, is_second.astype(float), with_first, n_rectangles, mirrored)


def _without_large_sets(
    first: NDArray[np.bool_], second: NDArray[np.bool_], branch: IntArray, value: FloatArray
) -> tuple[FloatArray, NDArray[np.bool_], NDArray[np.bool_], IntArray]:
    """Rewrite the rectangle of each leaf as a sum of rectangles whose sets of items are small, or contain all items.

    Shapes: first, second (l, K), branch (l,), value (l,), weight (t,), first, second (t, K), branch (t,).
    """
    small_first, first_swapped = _smaller_sets(first)
    small_second, second_swapped = _smaller_sets(second)
    all_items = np.ones_like(first)
    first_terms = [(np.where(first_swapped, -1.0, 1.0), small_first), (first_swapped.astype(float), all_items)]
    second_terms = [(np.where(second_swapped, -1.0, 1.0), small_second), (second_swapped.astype(float), all_items)]
    weights, first_sets, second_sets, branches = [], [], [], []
    for first_sign, first_items in first_terms:
        for second_sign, second_items in second_terms:
            rows = np.flatnonzero(first_sign * second_sign)
            weights.append((first_sign * second_sign * value)[rows])
            first_sets.append(first_items[rows])
            second_sets.append(second_items[rows])
            branches.append(branch[rows])
    return np.concatenate(weights), np.concatenate(first_sets), np.concatenate(second_sets), np.concatenate(branches)


def _smaller_sets(sets: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return each set or its complement, whichever is smaller, (l, K), and which sets were swapped, (l,)."""
    size, n_items = sets.sum(axis=1), sets.shape[1]
    half_with_item_0 = (2 * size == n_items) & sets[:, 0]
    swapped: NDArray[np.bool_] = ((2 * size > n_items) | half_with_item_0) & (size < n_items)
    return sets ^ swapped[:, None], swapped


def scores_by_first(
    sums: tuple[RectangleSum, ...], branch_bits: NDArray[np.uint8], *, limit: int = SINGLE_THREAD_MULTIPLICATIONS
) -> Iterator[FloatArray]:
    """Yield the scores of second items, for one first item after the other.

    Shapes: branch_bits (b, n / 8), returns (C, n, K).
    """
    n, n_items = 8 * branch_bits.shape[1], sums[0].second.shape[1]
    weights = [terms.weights @ np.unpackbits(branch_bits[terms.branches], axis=1).astype(float) for terms in sums]
    for_every_first = np.empty((len(sums), n, n_items))
    for terms, weight, base in zip(sums, weights, for_every_first, strict=True):
        _multiply(weight[terms.n_rectangles :], terms.second[terms.n_rectangles :], base, limit)
    for first in range(n_items):
        seconds = sums[0].seconds(first)
        base_scores = for_every_first[:, :, seconds]
        scores = np.empty(base_scores.shape)
        for terms, weight, base, score in zip(sums, weights, base_scores, scores, strict=True):
            rectangles = terms.with_first[first]
            _multiply(weight[rectangles], terms.second[rectangles, seconds], score, limit)
            score += base
        yield scores


def _multiply(weight: FloatArray, second: FloatArray, out: FloatArray, limit: int) -> None:
    """Write the product weight' second to ``out``.

    Shapes: weight (r, n), second (r, K), out (n, K).
    """
    n, n_items = out.shape
    # From (r, n) to (n / 8, 8, r).
    weight = weight.reshape(len(weight), n // 8, 8).transpose(1, 2, 0)
    blocks, step = out.reshape(n // 8, 8, n_items), max(1, limit // (8 * max(n_items, 1)))
    np.matmul(weight[:, :, :step], second[:step], out=blocks)
    for start in range(step, len(second), step):
        blocks += np.matmul(weight[:, :, start : start + step], second[start : start + step])
