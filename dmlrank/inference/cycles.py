"""Cycles of preferences: triples in which a beats b, b beats c, and c beats a."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ..data.preferences import FloatArray, IntArray
from .covariance import Covariance
from .simultaneous import Family


class Cycles(NamedTuple):
    """Triples a > b > c > a, sorted by p-value.

    items (q, 3): a, b and c of each triple; a comes first in the order of the search.
    p_adjusted (q,): Largest adjusted p-value of the three pairs.
    """

    items: IntArray
    p_adjusted: FloatArray


def margin_p_values(estimate: FloatArray, std_error: FloatArray, covariance: Covariance | None) -> FloatArray:
    """Return two-sided p-values of margins, (P,), adjusted for the number of pairs.

    With a joint covariance the adjustment is max-t. Without one it is Sidak's bound, which holds for normal statistics
    with any correlations (Sidak 1967), and is close to max-t where the margins of different pairs hardly depend on each
    other. A margin without variance has the p-value 1.

    Shapes: estimate, std_error (P,).
    """
    z = np.divide(estimate, std_error, out=np.full(len(estimate), np.nan), where=std_error > 0)
    if covariance is not None:
        return np.nan_to_num(Family.of_contrasts(covariance, std_errors=std_error).p_values(z), nan=1.0)
    unadjusted = np.nan_to_num(2 * norm.sf(np.abs(z)), nan=1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(len(z) * np.log1p(-unadjusted)))


def count_cycles(wins: NDArray[np.bool_]) -> int:
    """Count the triples a > b > c > a; ``wins``, (K, K), is true at (a, b) where a beats b."""
    table = wins.astype(float)
    return round(float(((table @ table) * table.T).sum()) / 3)


def find_cycles(p_adjusted: FloatArray, limit: float) -> Cycles:
    """Return all triples a > b > c > a whose three adjusted p-values are at most a limit.

    A triple is claimed only where all three pairs are separated. If the p-values are adjusted for all pairs, the
    probability that any pair is separated in the wrong direction is at most the limit, and so is the probability that
    any triple is claimed that is no cycle.

    Shapes: p_adjusted (K, K).
    """
    items, largest = [np.empty((0, 3), dtype=np.intp)], [np.empty(0)]
    for a in range(len(p_adjusted) - 2):
        of_triple = _largest_p_values(p_adjusted, a)
        b, c = np.nonzero(of_triple <= limit)
        items.append(np.stack([np.full(len(b), a), b + a + 1, c + a + 1], axis=1))
        largest.append(of_triple[b, c])
    triples, p = np.concatenate(items), np.concatenate(largest)
    by_size = np.argsort(p, kind="stable")
    return Cycles(triples[by_size], p[by_size])


def closest_cycle(p_adjusted: FloatArray) -> Cycles:
    """Return the triple a > b > c > a with the smallest p-value, or no triple.

    ``p_adjusted``, (K, K), is as in :func:`find_cycles`.
    """
    best = Cycles(np.empty((0, 3), dtype=np.intp), np.empty(0))
    smallest = np.inf
    for a in range(len(p_adjusted) - 2):
        of_triple = _largest_p_values(p_adjusted, a)
        b, c = np.unravel_index(int(of_triple.argmin()), of_triple.shape)
        if of_triple[b, c] < smallest:
            smallest = float(of_triple[b, c])
            best = Cycles(np.array([[a, b + a + 1, c + a + 1]]), np.array([smallest]))
    return best


def _largest_p_values(p_adjusted: FloatArray, a: int) -> FloatArray:
    """Return the largest p-value of a > b > c > a for all b and c behind a, (K - a - 1, K - a - 1)."""
    behind = slice(a + 1, None)
    ends = np.maximum(p_adjusted[a, behind][:, None], p_adjusted[behind, a][None, :])
    return np.maximum(ends, p_adjusted[behind, behind])
