"""Ranks and rank sets from separated pairs, letters of groups, the power of a test of a difference, and cycles.

A cycle is a triple in which a beats b, b beats c, and c beats a.
"""

from __future__ import annotations

import string
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from ..data.preferences import FloatArray, IntArray
from .covariance import Covariance
from .simultaneous import Family

_ALPHABET = string.ascii_lowercase + string.ascii_uppercase

# A display with more groups than this number would be unreadable. The limit also bounds the computation, because the
# number of groups may grow exponentially with the number of models.
MAX_GROUPS = 200


def rank_bounds(above: NDArray[np.bool_], below: NDArray[np.bool_] | None = None) -> tuple[IntArray, IntArray]:
    """Return the best and the worst rank in the rank set of each model, (K,) each.

    The best rank is one plus the number of models above it, the worst rank is K less the number of models below it.

    Shapes: above (K, K), below (K, K).

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm (2024), Inference for ranks with applications to mobility across neighbourhoods
    and academic achievement across countries, Review of Economic Studies 91.
    """
    below = above.T if below is None else below
    return 1 + below.sum(axis=1), len(above) - above.sum(axis=1)


def ranks_of(scores: FloatArray) -> IntArray:
    """Return the ranks of scores, (K,): one plus the number of higher scores."""
    return 1 + (scores[None, :] > scores[:, None]).sum(axis=1)


def power_of(difference: float, std_error: float, critical: float) -> float:
    """Return the power: the probability that an estimated difference exceeds ``critical`` standard errors."""
    return float(norm.cdf(difference / std_error - critical) + norm.cdf(-difference / std_error - critical))


def smallest_gap(std_error: float, critical: float, power: float = 0.8) -> float:
    """Return the smallest true difference whose test has a given power."""
    # The power is 1 up to rounding at a difference of 40 standard errors more than the critical value.
    largest = 40.0 + critical
    return std_error * float(brentq(lambda z: power_of(z, 1.0, critical) - power, 0.0, largest, xtol=1e-12))


def letter_groups(separated: NDArray[np.bool_], scores: FloatArray, max_groups: int = MAX_GROUPS) -> tuple[str, ...]:
    """Return the letters of each model: two models share a letter exactly where they are not separated.

    Shapes: separated (K, K), scores (K,).

    References
    ----------
    Piepho (2004), An algorithm for a letter-based representation of all-pairwise comparisons.
    """
    best_first = np.argsort(-scores, kind="stable")
    not_separated = ~separated[np.ix_(best_first, best_first)]
    np.fill_diagonal(not_separated, True)
    maximal = _maximal_groups(not_separated, max_groups)
    if maximal is None:
        return ("",) * len(scores)
    groups = sorted(_drop_redundant(maximal))
    names = _ALPHABET if len(groups) <= len(_ALPHABET) else [str(number) for number in range(1, len(groups) + 1)]
    separator = "" if names is _ALPHABET else ","
    letters = [""] * len(best_first)
    for place, model in enumerate(best_first):
        letters[model] = separator.join(name for name, group in zip(names, groups, strict=False) if place in group)
    return tuple(letters)


def abbreviate_letters(letters: str) -> str:
    """Abbreviate four or more consecutive letters (or numbers) of one model to the first and the last of them."""
    if not letters:
        return ""
    numbered = not letters.isalpha()
    names = letters.split(",") if numbered else list(letters)
    places = [int(name) if numbered else _ALPHABET.index(name) for name in names]
    parts, start = [], 0
    for end in range(1, len(names) + 1):
        if end == len(names) or places[end] != places[end - 1] + 1:
            run = names[start:end]
            parts += [f"{run[0]}-{run[-1]}"] if len(run) > 3 else run
            start = end
    return ("," if numbered else "").join(parts)


def _maximal_groups(not_separated: NDArray[np.bool_], max_groups: int) -> list[tuple[int, ...]] | None:
    """Return all groups, each sorted: sets of models of which no two are separated, to which no model can be added."""
    groups: list[int] = []
    for model in range(len(not_separated)):
        compatible = sum(1 << int(other) for other in np.flatnonzero(not_separated[model, :model]))
        with_model = {(group & compatible) | (1 << model) for group in groups} or {1 << model}
        candidates = [group for group in groups if group & ~compatible] + list(with_model)
        candidates.sort(key=int.bit_count, reverse=True)
        groups = []
        for candidate in candidates:
            if not any(candidate & larger == candidate for larger in groups):
                groups.append(candidate)
        if len(groups) > max_groups:
            return None
    return [tuple(j for j in range(len(not_separated)) if group >> j & 1) for group in groups]


def _drop_redundant(groups: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Drop groups of which each pair is also in another group; the smallest groups are dropped first."""
    n_models = 1 + max((max(group) for group in groups), default=-1)
    n_groups_of_pair = np.zeros((n_models, n_models), dtype=int)
    for group in groups:
        n_groups_of_pair[np.ix_(group, group)] += 1
    necessary = []
    for group in sorted(groups, key=len):
        pairs = np.ix_(group, group)
        if (n_groups_of_pair[pairs] > 1).all():
            n_groups_of_pair[pairs] -= 1
        else:
            necessary.append(group)
    return necessary


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
