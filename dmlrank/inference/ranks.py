"""Ranks and rank sets from separated pairs, the compact letter display, and the power of a test of a difference."""

from __future__ import annotations

import string

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from ..data.preferences import FloatArray, IntArray

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
