"""Soft outcomes: a preference in [0, 1], or one column of probabilities per category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..exceptions import OutcomeError, listed, nearest
from .frames import name_of

# What rounding may add to or take from a probability.
_ROUNDING = 1e-6
_PREFIXES = ("p_", "pr_", "prob_", "probability_", "winner_")


def is_preference(levels: Sequence[Any], items: set[str]) -> bool:
    """Whether the distinct labels are numbers of which some lie between the whole ones and name no model.

    Examples
    --------
    >>> is_preference([1, 0.25], {"gpt-4"}), is_preference([1, 0], {"gpt-4"}), is_preference([3.5, 4.5], {"3.5", "4.5"})
    (True, False, False)
    """
    numeric = all(isinstance(level, int | float | np.number) for level in levels)
    return numeric and any(not float(level).is_integer() and name_of(level) not in items for level in levels)


def preference_shares(winner: pd.Series) -> NDArray[np.float64]:
    """Shares of the two wins, (v, 2), from preferences for the item shown first.

    Parameters
    ----------
    winner : Series of numbers, shape (v,)
        Its index holds the numbers of the rows.

    Raises
    ------
    OutcomeError
        If a number is not in [0, 1].

    Examples
    --------
    >>> preference_shares(pd.Series([0.25, 1.0])).tolist()
    [[0.25, 0.75], [1.0, 0.0]]
    """
    p = winner.to_numpy(dtype=float)
    outside = ~((p >= -_ROUNDING) & (p <= 1 + _ROUNDING))
    if outside.any():
        row, value = winner.index[outside][0], p[outside][0]
        hint = "; divide percentages by 100" if 1 < p[outside].max() <= 100 and p.min() >= 0 else ""
        raise OutcomeError(
            f"the outcome {winner.name!r} is {value:g} in row {row} ({int(outside.sum())} such rows): numbers other "
            f"than 0 and 1 are read as preferences for the item shown first, which lie in [0, 1]{hint}; numbers that "
            f"are labels need categories={{{value:g}: 'tie'}}"
        )
    p = np.clip(p, 0.0, 1.0)
    return np.stack([p, 1 - p], axis=1)


def probability_shares(table: pd.DataFrame) -> NDArray[np.float64]:
    """Shares of the categories, (v, C), from columns of probabilities.

    Parameters
    ----------
    table : DataFrame, shape (v, C)
        No cell is missing; its index holds the numbers of the rows.

    Raises
    ------
    OutcomeError
        If a cell is no number or negative, or a row does not sum to one.
    """
    for name, column in table.items():
        if column.dtype.kind not in "biuf":
            raise OutcomeError(
                f"column {name!r} is {column.iloc[0]!r} in row {table.index[0]}; with several columns left of ~ each "
                f"holds the probabilities of a category"
            )
    p = table.to_numpy(dtype=float)
    lowest, total = p.min(axis=1), p.sum(axis=1)
    wrong = ~((lowest >= -_ROUNDING) & (np.abs(total - 1) <= _ROUNDING))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        what = "has a negative one" if lowest[at] < -_ROUNDING else f"sums to {total[at]:g}"
        values = ", ".join(f"{name} = {value:g}" for name, value in zip(table.columns, p[at], strict=True))
        raise OutcomeError(
            f"the probabilities left of ~ are not negative and sum to one; row {table.index[at]} {what}: {values} "
            f"({int(wrong.sum())} such rows)"
        )
    p = np.maximum(p, 0.0)
    return p / p.sum(axis=1, keepdims=True)


def column_meanings(names: Sequence[str], given: Mapping[Any, str], known: Mapping[str, str]) -> list[str]:
    """The category whose probability each column holds.

    Parameters
    ----------
    names : sequence of str
        Columns left of ~.
    given : mapping
        ``{column: meaning}`` for columns that are not known.
    known : mapping
        Known spellings, folded, and what they mean.

    Raises
    ------
    OutcomeError
        If a column is not known, two mean the same, or one of the wins has none.
    """
    meanings = {name: given.get(name) or known_meaning(name, known) for name in names}
    unknown = [name for name, meaning in meanings.items() if meaning is None]
    if unknown:
        words = [f"p_{word}" for word in known]
        raise OutcomeError(
            f"the columns {listed(unknown)} left of ~ stand for no known category{nearest(unknown[0], words)} (known: "
            f"model_a, model_b, tie, both_good, both_bad, also as p_a, p_b, p_tie, prob_...); pass "
            f"categories={{{unknown[0]!r}: 'tie'}}"
        )
    read = [meaning for meaning in meanings.values() if meaning is not None]
    for meaning in ("first", "second"):
        if meaning not in read:
            raise OutcomeError(
                f"no column left of ~ holds the probability that the {meaning} item wins; read was "
                f"{', '.join(f'{name} = {meaning}' for name, meaning in meanings.items())}"
            )
    twice = [name for name, meaning in meanings.items() if read.count(str(meaning)) > 1]
    if twice:
        raise OutcomeError(f"the columns {listed(twice)} left of ~ stand for one category, {meanings[twice[0]]!r}")
    return read


def known_meaning(name: str, known: Mapping[str, str]) -> str | None:
    """The category that a column's name stands for, with or without a prefix such as ``p_``; None for others."""
    folded = folded_words(name)
    bare = [folded.removeprefix(prefix) for prefix in _PREFIXES]
    return next((known[word] for word in [folded, *bare] if word in known), None)


def folded_words(text: str) -> str:
    """Words in lower case, joined by one underscore.

    Examples
    --------
    >>> folded_words("Tie (both bad)")
    'tie_both_bad'
    """
    return "_".join("".join(letter if letter.isalnum() else " " for letter in text.casefold()).split())
