"""Sums of rectangles: what the trees of one output add to the item pairs of a context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..._utils.blas import PRODUCT
from ...data.preferences import FloatArray, IntArray
from .context_splits import Leaves


@dataclass(frozen=True, slots=True, eq=False)
class RectangleSum:
    """Scores of one output as a sum of rectangles whose weights depend on the branches that a context takes.

    Attributes
    ----------
    branches : ndarray of int, shape (u,)
        Branches that carry leaves of this output.
    weights : csr_array, shape (r + q, u)
        From branches to the weights of r rectangles, then of q sets of second items, for any first item.
    second : ndarray, shape (r + q, K)
        One for the second items of a rectangle or set, zero for the others.
    with_first : tuple of K ndarrays of int
        The rectangles that hold for each first item.
    n_rectangles : int
        r.
    """

    branches: IntArray
    weights: csr_array
    second: FloatArray
    with_first: tuple[IntArray, ...]
    n_rectangles: int


def sums_of_rectangles(leaves: Leaves, value: FloatArray, n_outputs: int) -> tuple[RectangleSum, ...]:
    """One sum per output.

    Parameters
    ----------
    leaves : Leaves
    value : ndarray, shape (all leaves,)
    n_outputs : int
    """
    return tuple(
        _sum_of_rectangles(
            leaves.first[chosen], leaves.second[chosen], leaves.branch[chosen], value[leaves.leaf[chosen]]
        )
        for chosen in (np.flatnonzero(leaves.output == output) for output in range(n_outputs))
    )


def _sum_of_rectangles(
    first: NDArray[np.bool_], second: NDArray[np.bool_], branch: IntArray, value: FloatArray
) -> RectangleSum:
    weight, first, second, branch = _without_complements(first, second, branch, value)
    # Sets that hold for any first item come last.
    key = np.packbits(np.column_stack([first.all(axis=1), first, second]), axis=1)
    _, example, term = np.unique(key, axis=0, return_index=True, return_inverse=True)
    held, column = np.unique(branch, return_inverse=True)
    weights = csr_array((weight, (term.reshape(-1), column)), shape=(len(example), len(held)))
    members = first[example]
    n_rectangles = int(np.count_nonzero(~members.all(axis=1)))
    with_first = tuple(np.flatnonzero(member) for member in members[:n_rectangles].T)
    return RectangleSum(held, weights, second[example].astype(float), with_first, n_rectangles)


def _without_complements(
    first: NDArray[np.bool_], second: NDArray[np.bool_], branch: IntArray, value: FloatArray
) -> tuple[FloatArray, NDArray[np.bool_], NDArray[np.bool_], IntArray]:
    """Leaves written with sets of at most half of the items, or all: weights, first and second items, branches.

    1[A^c x B] = 1[B] - 1[A x B], and the same for B. So leaves on both sides of a split on items share rectangles:
    there are fewer of them, and not many hold for any one first item.
    """
    small_first, first_swapped = _smaller(first)
    small_second, second_swapped = _smaller(second)
    every = np.ones_like(first)
    firsts = [(np.where(first_swapped, -1.0, 1.0), small_first), (first_swapped.astype(float), every)]
    seconds = [(np.where(second_swapped, -1.0, 1.0), small_second), (second_swapped.astype(float), every)]
    weights, firsts_of, seconds_of, branches = [], [], [], []
    for first_sign, some_first in firsts:
        for second_sign, some_second in seconds:
            used = np.flatnonzero(first_sign * second_sign)
            weights.append((first_sign * second_sign * value)[used])
            firsts_of.append(some_first[used])
            seconds_of.append(some_second[used])
            branches.append(branch[used])
    return np.concatenate(weights), np.concatenate(firsts_of), np.concatenate(seconds_of), np.concatenate(branches)


def _smaller(sets: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Each set or its complement, whichever is smaller, (l, K), and which were swapped, (l,).

    The set of all items stays as it is. Of two halves the one without item 0 is taken: both write the same set.
    """
    size, n_items = sets.sum(axis=1), sets.shape[1]
    half = (2 * size == n_items) & sets[:, 0]
    swapped: NDArray[np.bool_] = ((2 * size > n_items) | half) & (size < n_items)
    return sets ^ swapped[:, None], swapped


def scores_by_first(sums: tuple[RectangleSum, ...], taken: NDArray[np.uint8]) -> Iterator[FloatArray]:
    """Scores of all second items, for one first item after the other.

    Parameters
    ----------
    sums : tuple of RectangleSum
        One per output.
    taken : ndarray of uint8, shape (b, n / 8)
        The branches that contexts take, as bits along contexts.

    Yields
    ------
    ndarray, shape (C, n, K)
        Overwritten by the next.
    """
    n, n_items = 8 * taken.shape[1], sums[0].second.shape[1]
    weights = [one.weights @ np.unpackbits(taken[one.branches], axis=1).astype(float) for one in sums]
    any_first = np.empty((len(sums), n, n_items))
    scores = np.empty_like(any_first)
    for one, weight, base in zip(sums, weights, any_first, strict=True):
        _multiply(weight[one.n_rectangles :], one.second[one.n_rectangles :], base)
    for first in range(n_items):
        for one, weight, base, total in zip(sums, weights, any_first, scores, strict=True):
            held = one.with_first[first]
            _multiply(weight[held], one.second[held], total)
            total += base
        yield scores


def _multiply(weight: FloatArray, second: FloatArray, out: FloatArray) -> None:
    """Write weight' second, of shapes (r, n) and (r, K), to ``out``, (n, K).

    Eight contexts at a time, and few rectangles: as one product it would be given to the linear algebra library's own
    threads, which get in the way of ours, and of everyone's on a busy machine.
    """
    n, n_items = out.shape
    # (n / 8, 8, r)
    weight = weight.reshape(len(weight), n // 8, 8).transpose(1, 2, 0)
    blocks, step = out.reshape(n // 8, 8, n_items), max(1, PRODUCT // (8 * n_items))
    np.matmul(weight[:, :, :step], second[:step], out=blocks)
    for at in range(step, len(second), step):
        blocks += np.matmul(weight[:, :, at : at + step], second[at : at + step])
