"""The compact letter display: two models share a letter where the data do not separate them."""

from __future__ import annotations

import string

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FloatArray

_ALPHABET = string.ascii_lowercase + string.ascii_uppercase

# A display with more groups than this number would be unreadable. The limit also bounds the computation, because the
# number of groups may grow exponentially with the number of models.
MAX_GROUPS = 200


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
