"""Labels and probabilities as outcome categories: their meanings, their canonical order, and the order flipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..exceptions import OptionError, OutcomeError, listed, nearest
from .columns import Coded, Columns, IntArray, check_names
from .frames import name_of, too_large

# What rounding may add to or take from a probability.
_ROUNDING = 1e-6
_PREFIXES = ("p_", "pr_", "prob_", "probability_", "winner_")
# What a label that cannot be read is taken for.
_UNKNOWN = "unknown"

MEANINGS = ("first", "second", "both_good", "both_bad", "tie")

# Spellings found in public preference data, folded to lower case with one underscore between words.
_SPELLINGS = {
    "first": "model_a a left first model_1 response_a assistant_a answer_a option_a",
    "second": "model_b b right second model_2 response_b assistant_b answer_b option_b",
    "tie": "tie tied draw equal same tie_inconsistent",
    "both_good": "both_good bothgood tie_bothgood tie_both_good",
    "both_bad": "both_bad bothbad tie_bothbad tie_both_bad neither",
}
_KNOWN: dict[Any, str] = {word: meaning for meaning, words in _SPELLINGS.items() for word in words.split()}
_NUMBERS: dict[Any, str] = {1: "first", 0: "second"}


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Labels of the votes.

    Attributes
    ----------
    categories : tuple of str
        The meanings that occur, in canonical order; the two wins always.
    y : ndarray, shape (v, C)
        One-hot labels, or soft ones: rows that sum to one.
    labels : tuple of (str, str)
        What each label, or each column of probabilities, was read as.
    kind : {"labels", "preferences", "probabilities"}
        What the outcome column or columns hold.
    """

    categories: tuple[str, ...]
    y: NDArray[np.float64]
    labels: tuple[tuple[str, str], ...]
    kind: str = "labels"


@dataclass(frozen=True, slots=True, eq=False)
class ComparedItems:
    """Which two items each vote compares.

    Attributes
    ----------
    first, second : ndarray of int, shape (v,)
        Places of the items in ``names``, as they were shown.
    names : sequence of str, length K
    """

    first: IntArray
    second: IntArray
    names: Sequence[str]

    def present(self) -> set[str]:
        """Names of the items that are compared at all."""
        n = len(self.names)
        seen = np.bincount(self.first, minlength=n) + np.bincount(self.second, minlength=n) > 0
        return {name for name, here in zip(self.names, seen, strict=True) if here}


def exchanged_wins(n_categories: int) -> IntArray:
    """Places of the categories with the two wins exchanged, (C,).

    Examples
    --------
    >>> exchanged_wins(4).tolist()
    [1, 0, 2, 3]
    """
    return np.array([1, 0, *range(2, n_categories)])


def exchange_wins(y: NDArray[np.float64], where: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Labels, (v, C), with the two wins exchanged in some rows, (v,): those whose pair is turned round.

    Examples
    --------
    >>> exchange_wins(np.array([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1]]), np.array([True, False])).tolist()
    [[0.2, 0.7, 0.1], [0.7, 0.2, 0.1]]
    """
    return np.where(where[:, None], y[:, exchanged_wins(y.shape[1])], y)


def in_other_order(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of every pair, (..., K, K, C), what the pair shown the other way round has, in this pair's categories.

    Examples
    --------
    >>> mu = np.zeros((2, 2, 2)); mu[0, 1], mu[1, 0] = [0.7, 0.3], [0.4, 0.6]
    >>> in_other_order(mu)[0, 1].tolist()
    [0.6, 0.4]
    """
    return np.swapaxes(table, -3, -2)[..., exchanged_wins(table.shape[-1])]


def read_labels(
    winner: Coded,
    pairs: ComparedItems,
    column: Callable[[], pd.Series],
    categories: Mapping[Any, str] | None = None,
) -> Outcomes:
    """Read labels, none of them missing, of votes on pairs of items.

    Parameters
    ----------
    winner : Coded, shape (v,)
        Known spellings, names of the winning models, the numbers 1 (first) and 0 (second), or preferences for the
        item shown first, numbers in [0, 1].
    pairs : ComparedItems
        The models of each vote.
    column : callable
        Makes the labels as a Series, whose index holds the numbers of the rows; called for preferences only.
    categories : mapping, optional
        ``{label: meaning}`` for labels that are not known, with the meanings ``first``, ``second``, ``both_good``,
        ``both_bad`` and ``tie``.

    Raises
    ------
    OutcomeError
        If a label is unknown, names a third model, or could be read in two ways, or a preference is not in [0, 1].
    OptionError
        If ``categories`` names a meaning that does not exist.

    Examples
    --------
    >>> labels, pairs = pd.Series(["model_a", "tie"]), ComparedItems(np.array([0, 0]), np.array([1, 1]), ["x", "y"])
    >>> outcomes = read_labels(Coded.of(labels), pairs, lambda: labels)
    >>> outcomes.categories, outcomes.y.tolist()
    (('first', 'second', 'tie'), [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    """
    given, levels = _checked(categories), list(winner.levels)
    items = pairs.present()
    others = [level for level in levels if level not in given]
    _check_spelling(given, levels, others)
    if len(others) == len(levels) and _is_preference(others, items):
        return Outcomes(MEANINGS[:2], _preference_shares(column()), (("1", "first"), ("0", "second")), "preferences")
    meanings = _meanings(levels, given, items)
    # What is not a meaning is a model's name, and read by the side that it was shown on.
    place = {meaning: number for number, meaning in enumerate(MEANINGS)}
    meaning_of_vote = np.array([place[m] if m else -1 for m in meanings], dtype=np.intp)[winner.codes]
    by_name = meaning_of_vote < 0
    if None in meanings and by_name.any():
        won = winner.places({name: number for number, name in enumerate(pairs.names)})[by_name]
        meaning_of_vote[by_name] = _sides(won, pairs, by_name)
    chosen = np.bincount(meaning_of_vote, minlength=len(MEANINGS)) > 0
    present = [number for number, seen in enumerate(chosen) if seen or number < 2]
    y = np.zeros((len(meaning_of_vote), len(present)))
    for category, number in enumerate(present):
        y[:, category] = meaning_of_vote == number
    read_as = (
        (name_of(label), meaning or "the model that wins") for label, meaning in zip(levels, meanings, strict=True)
    )
    return Outcomes(tuple(MEANINGS[number] for number in present), y, tuple(read_as))


def read_probabilities(table: pd.DataFrame, categories: Mapping[Any, str] | None = None) -> Outcomes:
    """Read votes that are columns of probabilities, one per category; categories without any are left out.

    Parameters
    ----------
    table : DataFrame, shape (v, C)
        No cell is missing. Its index holds the numbers of the rows.
    categories : mapping, optional
        ``{column: meaning}`` for columns whose names are not known.

    Raises
    ------
    OutcomeError
        If a column stands for no category or for the same as another, or a row holds no probabilities.

    Examples
    --------
    >>> outcomes = read_probabilities(pd.DataFrame({"p_a": [0.5], "p_tie": [0.3], "p_b": [0.2]}))
    >>> outcomes.categories, outcomes.y.tolist()
    (('first', 'second', 'tie'), [[0.5, 0.2, 0.3]])
    """
    given = _checked(categories)
    names = [str(name) for name in table.columns]
    meanings = _good_ties(names, _column_meanings(names, given), given)
    shares = dict(zip(meanings, _probability_shares(table).T, strict=True))
    present = tuple(m for m in MEANINGS if m in shares and (m in ("first", "second") or shares[m].any()))
    y = np.stack([shares[meaning] for meaning in present], axis=1)
    return Outcomes(present, y, tuple(zip(names, meanings, strict=True)), "probabilities")


def read_outcome_columns(
    columns: Columns,
    names: Sequence[str],
    rows: IntArray,
    pairs: ComparedItems,
    categories: Mapping[Any, str] | None = None,
) -> Outcomes:
    """Read one column of labels, or several columns of probabilities, in the given rows, none of them missing there."""
    table = columns.table(names, rows)
    if len(names) > 1:
        return read_probabilities(table, categories)
    return read_labels(check_names(table, names)[names[0]], pairs, lambda: table[names[0]], categories)


def unknown_labels(
    winner: Coded, pairs: ComparedItems, categories: Mapping[Any, str] | None = None
) -> NDArray[np.bool_]:
    """Votes whose label :func:`read_labels` cannot read, (v,); parameters are those of that function.

    Examples
    --------
    >>> labels, pairs = pd.Series(["model_a", "1-0"]), ComparedItems(np.array([0, 0]), np.array([1, 1]), ["x", "y"])
    >>> unknown_labels(Coded.of(labels), pairs)
    array([False,  True])
    """
    meanings = _read_levels(winner, pairs, categories)
    return np.array([meaning == _UNKNOWN for meaning in meanings], dtype=bool)[winner.codes]


def third_models(winner: Coded, pairs: ComparedItems, categories: Mapping[Any, str] | None = None) -> NDArray[np.bool_]:
    """Votes whose label names a model that was not compared, (v,); parameters are those of :func:`read_labels`."""
    by_name = np.array([meaning is None for meaning in _read_levels(winner, pairs, categories)], dtype=bool)
    won = winner.places({name: place for place, name in enumerate(pairs.names)})
    return by_name[winner.codes] & (won != pairs.first) & (won != pairs.second)


def _read_levels(winner: Coded, pairs: ComparedItems, categories: Mapping[Any, str] | None) -> list[str | None]:
    """The meaning of every level, as :func:`_level_meanings` has it; preferences are all known."""
    given, levels, items = _checked(categories), list(winner.levels), pairs.present()
    others = [level for level in levels if level not in given]
    if len(others) == len(levels) and _is_preference(others, items):
        return [MEANINGS[0]] * len(levels)
    return _level_meanings(levels, given, items)


def is_category(name: str) -> bool:
    """Whether a column's name says whose probability it holds.

    Examples
    --------
    >>> is_category("p_tie"), is_category("gpt4_verdict")
    (True, False)
    """
    return _known_meaning(name) is not None


def _is_preference(levels: Sequence[Any], items: set[str]) -> bool:
    """Whether the distinct labels are numbers of which some lie between the whole ones and name no model.

    Examples
    --------
    >>> _is_preference([1, 0.25], {"gpt-4"}), _is_preference([3.5, 4.5], {"3.5", "4.5"})
    (True, False)
    """
    numeric = all(isinstance(level, int | float | np.number) for level in levels)
    return numeric and any(not _is_whole(level) and name_of(level) not in items for level in levels)


def _is_whole(number: Any) -> bool:
    """Whether a number is a whole one, of any size."""
    return isinstance(number, int | np.integer) or float(number).is_integer()


def _preference_shares(winner: pd.Series) -> NDArray[np.float64]:
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
    >>> _preference_shares(pd.Series([0.25, 1.0])).tolist()
    [[0.25, 0.75], [1.0, 0.0]]
    """
    try:
        p = winner.to_numpy(dtype=float)
    except OverflowError:
        raise too_large(winner.name) from None
    outside = ~((p >= -_ROUNDING) & (p <= 1 + _ROUNDING))
    if outside.any():
        row, value = winner.index[outside][0], p[outside][0]
        hint = "; divide percentages by 100" if 1 < p[outside].max() <= 100 and p.min() >= 0 else ""
        raise OutcomeError(
            f"the outcome {winner.name!r} is {value:g} in row {row} ({int(outside.sum())} such rows): numbers other "
            f"than 0 and 1 are read as preferences for the item shown first, which lie in [0, 1]{hint}; where the "
            f"numbers are labels, say what each means with categories={{number: meaning}}, each meaning one of "
            f"{listed(MEANINGS)}"
        )
    p = np.clip(p, 0.0, 1.0)
    return np.stack([p, 1 - p], axis=1)


def _probability_shares(table: pd.DataFrame) -> NDArray[np.float64]:
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


def _column_meanings(names: Sequence[str], given: Mapping[Any, str]) -> list[str]:
    """The category whose probability each column holds.

    Parameters
    ----------
    names : sequence of str
        Columns left of ~.
    given : mapping
        ``{column: meaning}`` for columns that are not known.

    Raises
    ------
    OutcomeError
        If a column is not known, two mean the same, or one of the wins has none.
    """
    meanings = {name: given.get(name) or _known_meaning(name) for name in names}
    unknown = [name for name, meaning in meanings.items() if meaning is None]
    if unknown:
        words = [f"p_{word}" for word in _KNOWN]
        raise OutcomeError(
            f"the columns {listed(unknown)} left of ~ stand for no known category{nearest(unknown[0], words)} (known: "
            f"model_a, model_b, tie, both_good, both_bad, also as p_a, p_b, p_tie, prob_...); say what they hold with "
            f"{_mapping(unknown)}, each meaning one of {listed(MEANINGS)}"
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


def _known_meaning(name: str) -> str | None:
    """The category that a column's name stands for, with or without a prefix such as ``p_``; None for others."""
    folded = _folded_words(name)
    bare = [folded.removeprefix(prefix) for prefix in _PREFIXES]
    return next((_KNOWN[word] for word in [folded, *bare] if word in _KNOWN), None)


def _folded_words(text: str) -> str:
    """Words in lower case, joined by one underscore.

    Examples
    --------
    >>> _folded_words("Tie (both bad)")
    'tie_both_bad'
    """
    return "_".join("".join(letter if letter.isalnum() else " " for letter in text.casefold()).split())


def _checked(categories: Mapping[Any, str] | None) -> dict[Any, str]:
    for label, meaning in (categories or {}).items():
        if meaning not in MEANINGS:
            raise OptionError(
                f"categories: {label!r} means {meaning!r}; allowed are {listed(MEANINGS)}{nearest(meaning, MEANINGS)}"
            )
    return dict(categories or {})


def _meanings(levels: list[Any], given: dict[Any, str], items: set[str]) -> list[str | None]:
    """The meaning of every distinct label; None where the label is the winning model's name."""
    meanings = _level_meanings(levels, given, items)
    unknown = [level for level, meaning in zip(levels, meanings, strict=True) if meaning == _UNKNOWN]
    if unknown:
        raise OutcomeError(_explain_unknown(unknown, levels, items, given))
    return _good_ties(levels, meanings, given)


def _level_meanings(levels: list[Any], given: dict[Any, str], items: set[str]) -> list[str | None]:
    """The meaning of every distinct label, ``_UNKNOWN`` where there is none, None where it is a model's name."""
    others = [level for level in levels if level not in given]
    known = _NUMBERS if all(_is_number(level) and level in (0, 1) for level in others) else _KNOWN
    return [_meaning(level, given, known, items) for level in levels]


def _good_ties(levels: list[Any], meanings: list[Any], given: Mapping[Any, str]) -> list[Any]:
    """On the arenas' buttons a tie beside "both bad" is a tie of good answers."""
    read = [m for level, m in zip(levels, meanings, strict=True) if level not in given]
    if "both_bad" not in read or "both_good" in meanings:
        return meanings
    return ["both_good" if m == "tie" and level not in given else m for level, m in zip(levels, meanings, strict=True)]


def _meaning(level: Any, given: dict[Any, str], known: Mapping[Any, str], items: set[str]) -> str | None:
    if level in given:
        return given[level]
    meaning = known.get(_folded(level))
    if name_of(level) in items:
        if meaning:
            raise OutcomeError(
                f"the label {level!r} is a known spelling of {meaning!r} and also the name of a model; if it is the "
                f"first, pass categories={{{level!r}: {meaning!r}}}, if it is the model, rename the model"
            )
        return None
    return meaning or _UNKNOWN


def _check_spelling(given: dict[Any, str], levels: list[Any], others: list[Any]) -> None:
    """Raise where ``categories=`` misses a label by its case or type only: it would be read as if not given."""
    alike = {name_of(level).strip().casefold(): level for level in others}
    for label in given:
        level = alike.get(name_of(label).strip().casefold())
        if label not in levels and level is not None:
            raise OutcomeError(f"categories has the label {label!r}, the data have {level!r}; spell it as in the data")


def _sides(won: IntArray, pairs: ComparedItems, votes: NDArray[np.bool_]) -> IntArray:
    """The place of "first" or "second" among the meanings, by which of the compared models won these votes."""
    first, second = pairs.first[votes], pairs.second[votes]
    third = (won != first) & (won != second)
    if third.any():
        winner, *compared = (pairs.names[column[third][0]] for column in (won, first, second))
        raise OutcomeError(
            f"{int(third.sum())} votes name a winner that was not compared: {winner!r} in a comparison of "
            f"{compared[0]!r} with {compared[1]!r}"
        )
    return np.asarray(won != first, dtype=np.intp)


def _explain_unknown(unknown: list[Any], levels: list[Any], items: set[str], given: Mapping[Any, str]) -> str:
    """What to tell of labels without a meaning: which are known, and which meanings ``categories=`` may give them."""
    if given and all(_is_number(level) for level in levels) and any(0 < float(level) < 1 for level in unknown):
        return (
            f"categories names {listed(given)}, so that the outcome is read as labels, and {listed(unknown)} are no "
            f"known labels; leave categories out and all numbers are read as preferences in [0, 1] (0.5 is half a win "
            f"for both), or give every label a meaning: {listed(MEANINGS)}"
        )
    hint = nearest(unknown[0], [*_KNOWN, *items]) if isinstance(unknown[0], str) else ""
    return (
        f"unknown winner label{'s' * (len(unknown) > 1)} {listed(unknown)}{hint} (labels found: {listed(levels)}); "
        f"known are model_a, model_b, tie, tie (bothbad), both_good, a model's name, the numbers 1 and 0, and "
        f"preferences between these; say what others mean with {_mapping(unknown)}, each meaning "
        f"one of {listed(MEANINGS)}"
    )


def _mapping(labels: Sequence[Any]) -> str:
    """``categories={label: ..., label: ...}`` with the labels as Python writes them.

    Examples
    --------
    >>> _mapping([1, "pa"])
    "categories={1: ..., 'pa': ...}"
    """
    shown = [label.item() if isinstance(label, np.generic) else label for label in labels[:5]]
    return "categories={" + ", ".join(f"{label!r}: ..." for label in shown) + "}"


def _folded(level: Any) -> Any:
    return _folded_words(level) if isinstance(level, str) else level


def _is_number(level: Any) -> bool:
    return isinstance(level, int | float | np.integer | np.floating | np.bool_)
