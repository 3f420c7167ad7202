"""The compact letter display: two models share a letter where the data cannot tell them apart."""

from __future__ import annotations

import string

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FloatArray

_ALPHABET = string.ascii_lowercase + string.ascii_uppercase


def letter_groups(separated: NDArray[np.bool_], scores: FloatArray) -> tuple[str, ...]:
    """Letters by model, the first of them for the best: two models share a letter exactly where they are not separated.

    Parameters
    ----------
    separated : ndarray of bool, shape (K, K)
        Symmetric.
    scores : ndarray, shape (K,)

    Returns
    -------
    tuple of str, length K
        Groups are the largest sets of models of which no two are separated, less those that add no pair. More than 52
        groups are numbered, with commas between.

    References
    ----------
    Piepho (2004), An algorithm for a letter-based representation of all-pairwise comparisons.

    Examples
    --------
    >>> separated = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool)
    >>> letter_groups(separated, np.array([3.0, 2.0, 1.0]))
    ('a', 'ab', 'b')
    """
    order = np.argsort(-scores, kind="stable")
    alike = ~separated[np.ix_(order, order)]
    np.fill_diagonal(alike, True)
    groups = sorted(_needed(_cliques(alike), alike))
    names = _ALPHABET if len(groups) <= len(_ALPHABET) else [str(number) for number in range(1, len(groups) + 1)]
    between = "" if names is _ALPHABET else ","
    result = [""] * len(order)
    for place, j in enumerate(order):
        result[j] = between.join(name for name, group in zip(names, groups, strict=False) if place in group)
    return tuple(result)


def abbreviate_letters(group: str) -> str:
    """The groups of one model with four or more that follow each other written from the first to the last.

    Examples
    --------
    >>> abbreviate_letters("abc"), abbreviate_letters("bcdeh"), abbreviate_letters("7,8,9,10,12")
    ('abc', 'b-eh', '7-10,12')
    """
    numbered = not group.isalpha()
    names = group.split(",") if numbered else list(group)
    places = [int(name) if numbered else _ALPHABET.index(name) for name in names]
    parts, start = [], 0
    for end in range(1, len(names) + 1):
        if end == len(names) or places[end] != places[end - 1] + 1:
            run = names[start:end]
            parts += [f"{run[0]}-{run[-1]}"] if len(run) > 3 else run
            start = end
    return ("," if numbered else "").join(parts)


def _cliques(alike: NDArray[np.bool_]) -> list[tuple[int, ...]]:
    """All largest sets of models that are alike in pairs, (each sorted), grown model by model; sets are bits."""
    found: list[int] = []
    for place in range(len(alike)):
        known = sum(1 << int(other) for other in np.flatnonzero(alike[place, :place]))
        grown = {(group & known) | (1 << place) for group in found} or {1 << place}
        candidates = [group for group in found if group & ~known] + list(grown)
        candidates.sort(key=int.bit_count, reverse=True)
        found = []
        for group in candidates:
            if not any(group & larger == group for larger in found):
                found.append(group)
    return [tuple(j for j in range(len(alike)) if group >> j & 1) for group in found]


def _needed(groups: list[tuple[int, ...]], alike: NDArray[np.bool_]) -> list[tuple[int, ...]]:
    """The groups without those whose pairs all stand together in another one; the smallest go first."""
    together = np.zeros(alike.shape, dtype=int)
    for group in groups:
        together[np.ix_(group, group)] += 1
    kept = []
    for group in sorted(groups, key=len):
        block = np.ix_(group, group)
        if (together[block] > 1).all():
            together[block] -= 1
        else:
            kept.append(group)
    return kept
