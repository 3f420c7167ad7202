"""Outcome categories: labels and probabilities read as categories, a pair in the other order, weights of ties."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .._utils.argument_checks import array_of_numbers
from .._utils.tasks_and_threads import SINGLE_THREAD_MULTIPLICATIONS, warn
from ..exceptions import NuisanceError, OptionError, OptionTypeError, OutcomeError, check_choice, listed, nearest, shown
from .arrays import MISSING_WORDS, BoolArray, FloatArray, IntArray, name_of
from .columns import CodedColumn

# Meaning of a label: one of ``MEANINGS``, or for a grade the share of a win that it is worth for the item shown first.
Meaning: TypeAlias = str | float
# Meanings of labels, as in the option ``categories=``. Labels may be of any type. The keys are Any, because a mapping
# with keys of type object would refuse a mapping with keys of type str.
Categories: TypeAlias = Mapping[Any, Meaning]

# The kind of outcomes whose two columns of items say who won and who lost, and not who was shown first; at least so
# many votes have to be decided for the same column before it is taken for that of the winner.
WINNERS = "winners"
_FEWEST_DECIDED = 10
# The kind of outcomes that are columns of numbers of votes, one for each category.
COUNTS = "counts"
# Words that say of a column that it counts, beside a word that says what.
_COUNTING = frozenset(("win", "wins", "won", "n", "number", "of", "count", "counts", "votes"))
# Rounding may change a probability by this much.
_ROUNDING = 1e-6
# Prefixes before the name of a category in the name of a column of probabilities; docs/data.md lists them.
PREFIXES = ("p_", "pr_", "prob_", "probability_", "winner_")
# The meaning of a label that cannot be read.
_UNKNOWN = "unknown"
_NUMBERS = (int, float, np.integer, np.floating, np.bool_)

MEANINGS = ("first", "second", "both_good", "both_bad", "tie")
# A label of this meaning is no vote: the row is a prompt without a vote.
_MISSING = "missing"

# Spellings in public preference data, in lower case with one underscore between words; docs/data.md lists them.
SPELLINGS = {
    "first": "model_a a left first model_1 response_a assistant_a answer_a option_a",
    "second": "model_b b right second model_2 response_b assistant_b answer_b option_b",
    "tie": "tie tied draw equal same tie_inconsistent",
    "both_good": "both_good bothgood tie_bothgood tie_both_good",
    "both_bad": "both_bad bothbad tie_bothbad tie_both_bad neither",
}


def _vocabulary(*words: str, meanings: Iterable[str] = ("first", "second", "tie")) -> dict[Hashable, str]:
    """Return the meanings of the words of a vocabulary of results."""
    return {word: meaning for meaning, some in zip(meanings, words, strict=True) for word in some.split()}


_MEANING_OF_WORD = _vocabulary(*SPELLINGS.values(), meanings=SPELLINGS)
# A column of labels is read by a vocabulary that has all of them, and only if no other one reads them otherwise.
_VOCABULARIES: tuple[dict[Hashable, str], ...] = (
    _MEANING_OF_WORD,
    {1: "first", 0: "second"},
    _vocabulary("h home home_win", "a away away_win", "d draw"),
    _vocabulary("w win won", "l loss lost lose", "d draw t tie tied"),
    _vocabulary("1-0", "0-1", "1/2-1/2 1/2 \u00bd-\u00bd \u00bd 0.5-0.5"),
    _vocabulary("1", "2", "x tie draw"),
    _vocabulary("chosen", "rejected", "tie"),
    _vocabulary("true", "false", ""),
)

# Labels that an error lists.
_MOST_LABELS = 20

M = TypeVar("M", str, Meaning | None)


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Labels of the votes.

    categories: The C meanings that occur, in the order of ``MEANINGS``. The first two are always ``first`` and
        ``second``: the item shown first wins, and the item shown second wins.
    y (v, C): Labels as rows that sum to one: one-hot labels, or probabilities.
    labels: Each label, or each column of probabilities, with its meaning.
    kind: What the outcome column or columns hold, or what the labels are derived from. Labels are grades if at least
        one of them is worth a share of a win, and winners if every vote that is no tie is for the same column.
    """

    categories: tuple[str, ...]
    y: FloatArray
    labels: tuple[tuple[str, str], ...]
    kind: str = "labels"


def without_missing(
    winner: CodedColumn, categories: Categories | None, models: Iterable[Hashable] = (), *, warns: bool = True
) -> CodedColumn:
    """Return labels without those that ``categories=`` calls missing, and without words for a missing value."""
    # Such a word is a label where categories= gives it another meaning, or where it is the name of a model.
    meanings = {name_of(label).strip().casefold(): meaning for label, meaning in (categories or {}).items()}
    is_missing = {text: isinstance(meaning, str) and meaning == _MISSING for text, meaning in meanings.items()}
    names = {name_of(model).strip().casefold() for model in models}
    texts = [name_of(level).strip().casefold() for level in winner.levels]
    # pandas reads some words as missing values, which is what they mean here.
    known = [*texts, *(MISSING_WORDS if (winner.codes < 0).any() else ())]
    named = [label for label in categories or {} if is_missing[name_of(label).strip().casefold()]]
    if warns:
        _warn_of_absent(named, known, winner.levels)
    is_vote = np.array([not is_missing.get(text, text in MISSING_WORDS - names) for text in texts], dtype=bool)
    if is_vote.all():
        return winner
    place = np.where(is_vote, np.cumsum(is_vote) - 1, -1)
    return CodedColumn(np.append(place, -1)[winner.codes], winner.levels[is_vote])


def _warn_of_absent(labels: Iterable[Hashable], known: Iterable[str], levels: Iterable[Hashable]) -> None:
    """Warn of labels of ``categories=`` that are none of the known texts but for letter case and blanks."""
    folded = {text.strip().casefold() for text in known}
    if absent := [label for label in labels if name_of(label).strip().casefold() not in folded]:
        warn(f"categories= names labels that do not occur: {listed(absent)}; the data have {listed(levels)}")


def exchanged_wins(n_categories: int) -> IntArray:
    """Return the positions of the categories with "first wins" and "second wins" exchanged, (C,)."""
    return np.array([1, 0, *range(2, n_categories)])


def exchange_wins(y: FloatArray, is_reversed: BoolArray) -> FloatArray:
    """Return labels, (v, C), with "first wins" and "second wins" exchanged where the pair is reversed, (v,)."""
    return np.where(is_reversed[:, None], y[:, exchanged_wins(y.shape[1])], y)


def in_other_order(table: FloatArray) -> FloatArray:
    """Return a table of values by ordered pair and category, (..., K, K, C), for pairs in the reverse display order.

    Entry (j, k, "first wins") of the result is entry (k, j, "second wins") of the table: in both, item j wins.
    """
    return np.swapaxes(table, -3, -2)[..., exchanged_wins(table.shape[-1])]


def read_labels(
    winner: CodedColumn,
    column: pd.Series,
    pairs: tuple[IntArray, IntArray],
    names: Sequence[str],
    categories: Categories | None = None,
) -> Outcomes:
    """Read the labels, (v,), of votes, coded (``winner``) and as a column; no label is missing.

    The items of the pairs shown, first and second, are places in ``names``, (v,) each.
    """
    user_meanings, levels = _checked_categories(categories), list(winner.levels)
    first, second = pairs
    count = np.bincount(first, minlength=len(names)) + np.bincount(second, minlength=len(names))
    items = {names[place] for place in np.flatnonzero(count).tolist()}
    level_of_text = {name_of(level).strip().casefold(): level for level in levels if level not in user_meanings}
    for label in user_meanings:
        level = level_of_text.get(name_of(label).strip().casefold())
        if label not in levels and level is not None:
            raise OutcomeError(f"categories has the label {label!r}, the data have {level!r}; spell it as in the data")
    meanings = _level_meanings(levels, user_meanings, items)
    if meanings is not None and _UNKNOWN in meanings:
        counts = dict(zip(levels, np.bincount(winner.codes, minlength=len(levels)).tolist(), strict=True))
        rows = column.index[np.array([meaning == _UNKNOWN for meaning in meanings])[winner.codes]]
        raise OutcomeError(_about_unknown_labels(counts, meanings, items, user_meanings, rows[0]), rows)
    # The command line names a label as text and, where it can be one, as a number.
    _warn_of_absent(user_meanings, map(name_of, levels), levels)
    if meanings is None:
        # The numbers for a win of the first and of the second item: 1 and 0, or 1 and 2, as AlpacaEval has them.
        is_one_or_two = min(levels) >= 1 - _ROUNDING and 1 + _ROUNDING < max(levels) <= 2 + _ROUNDING
        ends = (1, 2) if is_one_or_two else (1, 0)
        # Whole numbers that no float can hold are compared as they are.
        known = [2 - level for level in levels] if is_one_or_two else levels
        is_outside = np.array([not -_ROUNDING <= level <= 1 + _ROUNDING for level in known])[winner.codes]
        if is_outside.any():
            rows, low, high = column.index[is_outside], min(known), max(known)
            hint = "; divide percentages by 100" if 10 < high <= 100 and low >= 0 else ""
            hint = "; where they go from -1 to 1, (p + 1) / 2 is a preference" if -1 <= low < 0 and high <= 1 else hint
            raise OutcomeError(
                f"the outcome {column.name!r} is {shown(column[rows[0]])} in row {rows[0]} ({len(rows)} such rows): "
                f"preferences lie in [0, 1]{hint}; categories={{number: meaning}} says what labels mean",
                rows,
            )
        p = column.to_numpy(dtype=float)
        p = np.clip(2 - p if is_one_or_two else p, 0.0, 1.0)
        read_as = ((f"{ends[0]}", "first"), (f"{ends[1]}", "second"))
        return Outcomes(MEANINGS[:2], np.stack([p, 1 - p], axis=1), read_as, "preferences")
    meanings = _read_ties_as_both_good(levels, meanings, user_meanings)
    y_of_level = np.zeros((len(levels), len(MEANINGS)))
    for row, meaning in zip(y_of_level, meanings, strict=True):
        if isinstance(meaning, str):
            row[MEANINGS.index(meaning)] = 1
        elif meaning is not None:
            row[:2] = meaning, 1 - meaning
    y = y_of_level[winner.codes]
    # A label that is the name of the winning model means the side on which that model was shown.
    is_model = np.array([meaning is None for meaning in meanings], dtype=bool)[winner.codes]
    if is_model.any():
        winning_item, first, second = winner.places(names)[is_model], first[is_model], second[is_model]
        is_third = (winning_item != first) & (winning_item != second)
        if is_third.any():
            winning, *compared = (names[places[is_third][0]] for places in (winning_item, first, second))
            rows = column.index[is_model][is_third]
            raise OutcomeError(
                f"{len(rows)} votes name a winner that was not compared, first in row {rows[0]}: {winning!r} in a "
                f"comparison of {compared[0]!r} with {compared[1]!r}; correct these labels or drop the votes",
                rows,
            )
        y[is_model, (winning_item != first).astype(np.intp)] = 1
    present = [number for number in range(len(MEANINGS)) if number < 2 or y[:, number].any()]
    texts = [
        "the model that wins" if meaning is None else meaning if isinstance(meaning, str) else f"{meaning:g}"
        for meaning in meanings
    ]
    labels = tuple(zip(map(name_of, levels), texts, strict=True))
    kind, decided = "grades" if any(isinstance(one, float) for one in meanings) else "labels", y[:, :2].sum(axis=0)
    if kind == "labels" and decided.min() == 0 and decided.max() >= _FEWEST_DECIDED:
        kind = WINNERS
    return Outcomes(tuple(MEANINGS[number] for number in present), y.take(present, axis=1), labels, kind)


def read_probabilities(
    table: pd.DataFrame, categories: Categories | None = None, items: Sequence[str] = ()
) -> Outcomes:
    """Read votes that are columns of probabilities, (v, C), which may be named by the items, as ``home_wins``."""
    # A tie whose probability is always zero is no category.
    user_meanings = _checked_categories(categories)
    names = [str(name) for name in table.columns]
    meanings = _read_ties_as_both_good(names, _column_meanings(names, user_meanings, items), user_meanings)
    for name, column in table.items():
        if column.dtype.kind not in "biuf":
            raise OutcomeError(
                f"column {name!r} is {column.iloc[0]!r} in row {table.index[0]}; each of several columns left of ~ "
                f"must hold the probabilities of a category, numbers in [0, 1]"
            )
    p = table.to_numpy(dtype=float)
    is_wrong = (p.min(axis=1) < -_ROUNDING) | (np.abs(p.sum(axis=1) - 1) > _ROUNDING)
    if is_wrong.any():
        row = int(np.flatnonzero(is_wrong)[0])
        finding = "has a negative one" if p[row].min() < -_ROUNDING else f"sums to {p[row].sum():g}"
        values = ", ".join(f"{name} = {value:g}" for name, value in zip(names, p[row], strict=True))
        raise OutcomeError(
            f"row {table.index[row]} {finding}: {values} ({int(is_wrong.sum())} such rows); probabilities sum to one, "
            f"each at least 0",
            table.index[is_wrong],
        )
    p = np.maximum(p, 0.0)
    # Rows sum to one exactly.
    probabilities = dict(zip(meanings, (p / p.sum(axis=1, keepdims=True)).T, strict=True))
    present = tuple(m for m in MEANINGS if m in probabilities and (m in MEANINGS[:2] or probabilities[m].any()))
    y = np.stack([probabilities[meaning] for meaning in present], axis=1)
    are_counts = not any(map(is_named_probability, names)) and bool(((p == 0) | (p == 1)).all())
    return Outcomes(present, y, tuple(zip(names, meanings, strict=True)), COUNTS if are_counts else "probabilities")


def _column_meanings(
    names: Sequence[str], user_meanings: Mapping[Hashable, Meaning], items: Sequence[str]
) -> list[str]:
    """Return the category whose probability each column holds."""
    for name, worth in user_meanings.items():
        if isinstance(worth, float):
            raise OptionError(
                f"categories gives {name!r} the worth {worth:g}; a column of probabilities means one of "
                f"{listed(MEANINGS)}"
            )
    of_items: dict[Hashable, str] = {
        _word_of_column(item): meaning for item, meaning in zip(items, MEANINGS, strict=False)
    }
    word_of = {name: _word_of_column(name) for name in names}
    readings = [one | of_items for one in _VOCABULARIES if all(word in one | of_items for word in word_of.values())]
    meanings = {}
    for name, word in word_of.items():
        read_as = {one[word] for one in readings}
        guessed = read_as.pop() if len(read_as) == 1 else category_of_column(name)
        meanings[name] = str(user_meanings.get(name) or guessed or _UNKNOWN)
    unknown = [name for name, meaning in meanings.items() if meaning == _UNKNOWN]
    if unknown:
        words = [f"p_{word}" for word in _MEANING_OF_WORD]
        raise OutcomeError(
            f"the columns {listed(unknown)} left of ~ stand for no known category{nearest(unknown[0], words)}; say "
            f"what they hold with {_categories_template(unknown)}, each meaning one of {listed(MEANINGS)}"
        )
    columns_of = {meaning: [name for name in names if meanings[name] == meaning] for meaning in meanings.values()}
    for win in MEANINGS[:2]:
        if win not in columns_of:
            raise OutcomeError(
                f"no column left of ~ holds the probability that the {win} item wins; the columns were read as "
                f"{', '.join(f'{name} = {meaning}' for name, meaning in meanings.items())}"
            )
    for meaning, columns in columns_of.items():
        if len(columns) > 1:
            raise OutcomeError(
                f"the columns {listed(columns)} left of ~ stand for one category, {meaning!r}; set categories="
            )
    return list(meanings.values())


def is_named_probability(name: str) -> bool:
    """Return whether the name of a column says that it holds probabilities, or the winner, of a category."""
    return _folded_words(name).startswith(PREFIXES)


def _word_of_column(name: str) -> str:
    """Return what a column's name says without words for counting: ``home`` of ``home_wins``, ``tie`` of ``ties``."""
    parts = re.findall(r"[^\W\d_]+|\d+", _folded_words(name))
    rest = [part for part in parts if part not in _COUNTING] or parts
    return {"ties": "tie", "draws": "draw", "wins": "win", "losses": "loss"}.get("_".join(rest), "_".join(rest))


def category_of_column(name: str) -> str | None:
    """Return the category that a column's name stands for, with or without a prefix such as ``p_``, or None."""
    folded = _folded_words(name)
    spellings = [folded, *(folded.removeprefix(prefix) for prefix in PREFIXES)]
    return next((_MEANING_OF_WORD[word] for word in spellings if word in _MEANING_OF_WORD), None)


def _folded_words(text: str) -> str:
    """Return the words of a text in lower case, joined by one underscore."""
    return "_".join("".join(letter if letter.isalnum() else " " for letter in text.casefold()).split())


def _checked_categories(categories: Categories | None) -> dict[Hashable, Meaning]:
    """Return ``categories=`` as a dict, worths as floats and missing votes left out; raise for an unknown meaning."""
    meanings: dict[Hashable, Meaning] = {}
    for label, meaning in (categories or {}).items():
        if isinstance(meaning, str) and meaning == _MISSING:
            continue
        is_worth = isinstance(meaning, int | float | np.integer | np.floating) and not isinstance(meaning, bool)
        if is_worth and 0 <= float(meaning) <= 1:
            meanings[label] = float(meaning)
        elif isinstance(meaning, str) and meaning in MEANINGS:
            meanings[label] = meaning
        else:
            hint = nearest(meaning, MEANINGS) if isinstance(meaning, str) else ""
            raise OptionError(
                f"categories: {label!r} means {meaning!r}; allowed are {listed((*MEANINGS, _MISSING))}, or the share "
                f"of a win for the model shown first, a number in [0, 1]{hint}"
            )
    return meanings


def require_mirrored_worths(categories: Categories | None) -> None:
    """Raise where a grade's worth w has no mirror, 1 - w for the model shown second, but display orders are joined."""
    grades = {label: worth for label, worth in _checked_categories(categories).items() if isinstance(worth, float)}
    # Labels that are no grades are wins, worth 1 and 0, and ties, worth one half.
    worths = np.array([*grades.values(), 0.0, 0.5, 1.0])
    for label, worth in grades.items():
        if np.abs(worths - (1 - worth)).min() > _ROUNDING:
            raise OptionError(
                f"categories gives {label!r} the worth {worth:g}, and no label the worth {1 - worth:g}, its mirror "
                f"where display orders are joined: change them, or pass position_bias=True"
            )


def _level_meanings(
    levels: Sequence[Hashable], user_meanings: Categories, items: set[str]
) -> list[Meaning | None] | None:
    """Return each label's meaning, ``_UNKNOWN``, or None for a model's name; no list where they are preferences."""
    guessed = [level for level in levels if level not in user_meanings]
    if len(guessed) == len(levels) and all(isinstance(level, int | float | np.number) for level in levels):
        fractions = [n for n in levels if isinstance(n, float | np.floating) and not float(n).is_integer()]
        if any(name_of(number) not in items for number in fractions):
            return None
    spelt = [level for level in guessed if name_of(level) not in items]
    # Where the caller gives one number a meaning, the others have none of their own.
    gives_number = any(isinstance(level, _NUMBERS) for level in levels if level in user_meanings)
    known: list[dict[Hashable, str]] = []
    if not (gives_number and any(isinstance(level, _NUMBERS) for level in spelt)):
        n_known = [sum(_word(label) in one for label in spelt) for one in _VOCABULARIES]
        if max(n_known) < len(spelt):  # No vocabulary has all of the labels: those of words that have most.
            n_known[1] = 0
        known = [one for one, n in zip(_VOCABULARIES, n_known, strict=True) if n == max(n_known) > 0]
    if len(spelt) < len(guessed):  # Beside names of models, letters and numbers say nothing.
        known = [one for one in known if one is _MEANING_OF_WORD]
    words = {_word(level) for level in guessed}
    spellings = [one for one in _VOCABULARIES if words <= one.keys() and {*map(one.get, words)} & {"first", "second"}]
    meanings: list[Meaning | None] = []
    for level in levels:
        is_model, word = name_of(level) in items, _word(level)
        spelling = next((one[word] for one in (_MEANING_OF_WORD, *spellings) if word in one), None)
        if level in user_meanings:
            meanings.append(user_meanings[level])
        elif is_model and spelling:
            raise OutcomeError(
                f"the label {level!r} is a known spelling of {spelling!r} and also the name of a model; pass "
                f"categories={{{level!r}: {spelling!r}}}, or rename the model"
            )
        else:
            read_as = {one[word] for one in known if word in one and not is_model}
            meanings.append(None if is_model else read_as.pop() if len(read_as) == 1 else _UNKNOWN)
    return meanings


def _word(label: Hashable) -> Hashable:
    """Return a label as vocabularies have it: a word by its letters and digits, anything else as it is."""
    if not isinstance(label, str):
        return label
    return _folded_words(label) if any(letter.isalpha() for letter in label) else label.strip()


def _read_ties_as_both_good(levels: Iterable[Hashable], meanings: list[M], user_meanings: Categories) -> list[M]:
    """Return the meanings, with "tie" replaced by "both_good" if the labels also have "both_bad"."""
    spelt = [(meaning, level not in user_meanings) for meaning, level in zip(meanings, levels, strict=True)]
    if ("both_bad", True) not in spelt or "both_good" in meanings:
        return meanings
    return ["both_good" if one == ("tie", True) else one[0] for one in spelt]


def _about_unknown_labels(
    counts: Mapping[Hashable, int],
    meanings: Sequence[Meaning | None],
    items: set[str],
    user_meanings: Categories,
    row: int,
) -> str:
    """Return what to say of labels without a meaning: all labels with their counts, and a complete ``categories=``."""
    levels = list(counts)
    unknown = [level for level, meaning in zip(levels, meanings, strict=True) if meaning == _UNKNOWN]
    others = [level for level in levels if name_of(level) not in items or level in user_meanings]
    found = ", ".join(f"{shown(level)} {counts[level]:,}" for level in levels[:_MOST_LABELS])
    found += f" and {len(levels) - _MOST_LABELS} more" if len(levels) > _MOST_LABELS else ""
    # A short word is near to too many labels: 'n/a' does not mean 'a'.
    words = [word for word in (*_MEANING_OF_WORD, *items) if len(str(word)) > 2]
    hint = nearest(unknown[0], words) if isinstance(unknown[0], str) else ""
    return (
        f"unknown winner label{'s' * (len(unknown) > 1)} {listed(unknown)}, first in row {row}{hint} (labels found, "
        f"with their numbers: {found}). Say what all labels mean with {_categories_template(others, user_meanings)}: "
        f"each is one of {listed((*MEANINGS, _MISSING))}, or for grades a number, the share of a win for the model "
        f"shown first"
    )


def _categories_template(labels: Sequence[Hashable], known: Mapping[Hashable, Meaning] = {}) -> str:
    """Return ``categories={label: ..., label: ...}`` with the labels as Python writes them."""
    meanings = (f"{shown(label)}: {repr(known[label]) if label in known else '...'}" for label in labels[:_MOST_LABELS])
    return "categories={" + ", ".join(meanings) + "}"


# --- how much a category counts ---------------------------------------------------------------------------------------

# Weights of a category for the item shown first and for the item shown second, by the meaning of the category.
_WINS = {"first": (1.0, 0.0), "second": (0.0, 1.0)}
_WEIGHTS_BY_MEANING = {
    "half": _WINS | {"both_good": (0.5, 0.5), "both_bad": (0.5, 0.5), "tie": (0.5, 0.5)},
    "paper": _WINS | {"both_good": (1.0, 1.0), "both_bad": (0.0, 0.0), "tie": (0.5, 0.5)},
}
_PAPER_SCHEMES = {
    2: ("first", "second"),
    3: ("first", "second", "tie"),
    4: ("first", "second", "both_good", "both_bad"),
    5: ("first", "second", "both_good", "both_bad", "tie"),
}
# Rounding may change a weight by this much.
_ROUNDING_OF_WEIGHTS = 1e-12


@dataclass(frozen=True, slots=True)
class CategoryWeights:
    """How much each outcome category counts for the item shown first and for the item shown second.

    Categories come in the canonical order: first wins, second wins, both good, both bad, tie (those present).

    Parameters
    ----------
    first, second : sequence of float
        A number in [0, 1] for each of the C categories; kept as tuples.

    Raises
    ------
    OptionError
        If lengths differ or are below two, a weight is outside [0, 1], or first - second is the same in every category.

    References
    ----------
    Frauen et al., arXiv 2601.21816, appendix "Unifying multiple categories via weighted preferences"
    [P app:weighted_gars].

    Examples
    --------
    >>> CategoryWeights.half(3)
    CategoryWeights(first=(1.0, 0.0, 0.5), second=(0.0, 1.0, 0.5))
    """

    first: tuple[float, ...]
    second: tuple[float, ...]

    def __post_init__(self) -> None:
        for item in ("first", "second"):
            numbers = array_of_numbers(getattr(self, item), 1)
            if numbers is None:
                raise OptionTypeError(
                    f"category weights of the {item} item are {shown(getattr(self, item))}; allowed: numbers"
                )
            object.__setattr__(self, item, tuple(numbers.tolist()))
        if len(self.first) != len(self.second) or len(self.first) < 2:
            raise OptionError(
                f"category weights have {len(self.first)} and {len(self.second)} numbers; allowed: C each, C > 1"
            )
        if not all(0 <= weight <= 1 for weight in self.first + self.second):
            raise OptionError(f"category weights are {self.first} and {self.second}; allowed: numbers in [0, 1]")
        if np.ptp(np.subtract(self.first, self.second)) < _ROUNDING_OF_WEIGHTS:
            raise OptionError(
                f"category weights {self.first} and {self.second} differ by the same number in every category"
            )

    @classmethod
    def paper(cls, n_categories: int) -> CategoryWeights:
        """Return the paper's weights, in which both good is a win for both items [P app:weighted_gars].

        Parameters
        ----------
        n_categories : {2, 3, 4, 5}
            Number of categories, C; another one raises an :class:`OptionError`.

        Returns
        -------
        CategoryWeights
            The weights.
        """
        if n_categories not in _PAPER_SCHEMES:
            raise OptionError(f"the paper has no weights for {n_categories} categories; it has them for 2 to 5")
        return cls.for_categories(_PAPER_SCHEMES[n_categories], "paper")

    @classmethod
    def half(cls, n_categories: int) -> CategoryWeights:
        """Return weights that count every tie as half a win for both items, as Bradley-Terry leaderboards do.

        Parameters
        ----------
        n_categories : int
            Number of categories, C, at least 2.

        Returns
        -------
        CategoryWeights
            The weights.
        """
        if n_categories < 2:
            raise OptionError(f"n_categories is {n_categories}; allowed: at least 2, the categories win and loss")
        ties = (0.5,) * (n_categories - 2)
        return cls((1.0, 0.0, *ties), (0.0, 1.0, *ties))

    @classmethod
    def for_categories(cls, meanings: Iterable[str], kind: str = "half") -> CategoryWeights:
        """Return the weights of categories with given meanings.

        Parameters
        ----------
        meanings : iterable of {"first", "second", "both_good", "both_bad", "tie"}
            Meaning of each category, in canonical order.
        kind : {"half", "paper"}
            "half" counts every kind of tie one half for both items; "paper" counts both good as (1, 1), both bad as
            (0, 0) and a tie as (1/2, 1/2).

        Returns
        -------
        CategoryWeights
            The weights.

        Raises
        ------
        OptionError
            If the kind or a meaning is unknown, or a meaning occurs twice.
        """
        check_choice(kind, _WEIGHTS_BY_MEANING, "category_weights")
        meanings = tuple(meanings)
        for meaning in meanings:
            check_choice(meaning, _WEIGHTS_BY_MEANING[kind], "meaning of a category")
        if len(set(meanings)) < len(meanings):
            raise OptionError(f"the meanings of the categories are {listed(meanings)}; allowed: each meaning once")
        weights = [_WEIGHTS_BY_MEANING[kind][meaning] for meaning in meanings]
        return cls(tuple(first for first, _ in weights), tuple(second for _, second in weights))

    @property
    def n_categories(self) -> int:
        """Number of categories, C."""
        return len(self.first)

    @property
    def shared(self) -> bool:
        """Whether the sum of the two weights is the same in all categories (the categories share this sum)."""
        return bool(np.ptp(np.add(self.first, self.second)) < _ROUNDING_OF_WEIGHTS)

    @property
    def total(self) -> float | None:
        """Sum of the two weights of a category; None where the sum differs between categories."""
        return self.first[0] + self.second[0] if self.shared else None

    @property
    def mirrored(self) -> bool:
        """Whether the weights treat the item shown first and the item shown second alike, so that order can be ignored.

        This is so if exchanging the two items and the two categories of wins gives the same weights.
        """
        swapped = (self.first[1], self.first[0], *self.first[2:])
        return bool(np.allclose(swapped, self.second, rtol=0, atol=_ROUNDING_OF_WEIGHTS))

    def scores(self, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weighted preferences for the item shown first and for the item shown second.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C) or (r, C)
            Category probabilities in n contexts, ``[:, j, k]`` with item j shown first and item k shown second, or
            those of r ordered pairs.

        Returns
        -------
        tuple of ndarray, shapes (n, K, K) or (r,)
            Expected weight of a label for the item shown first, and for the item shown second.
        """
        first, second = self._weighted(mu, [self.first, self.second])
        return first, second

    def symmetric(self, mu: FloatArray) -> FloatArray:
        """Return the symmetrised preference for j over k: the mean over both orders [P eq:s_sym_def].

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.

        Returns
        -------
        ndarray, shape (n, K, K)
            Preference for item j over item k in ``[:, j, k]``.
        """
        first, second = self.scores(mu)
        first += np.swapaxes(second, 1, 2)
        first /= 2
        return first

    def covariances(self, mu: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the variances and the covariance of one label's two weights, computed in one pass.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C) or (r, C)
            Category probabilities, see :meth:`scores`.

        Returns
        -------
        tuple of ndarray, shapes (n, K, K) or (r,)
            Variances of a label's weights for the item shown first and for the second, and their covariance.
        """
        a, b = np.array(self.first), np.array(self.second)
        first, second, square_first, square_second, product = self._weighted(mu, [a, b, a * a, b * b, a * b])
        product -= first * second
        square_first -= np.square(first, out=first)
        square_second -= np.square(second, out=second)
        # Where one category has probability 1, the variance is zero. Rounding must not make it negative, because plans
        # take its square root.
        return np.maximum(square_first, 0, out=square_first), np.maximum(square_second, 0, out=square_second), product

    def _weighted(self, mu: FloatArray, rows: ArrayLike) -> FloatArray:
        """Return the sums over categories of ``mu`` with each of r rows of weights, one row each."""
        has_shape = mu.ndim == 2 or (mu.ndim == 4 and mu.shape[1] == mu.shape[2])
        if not has_shape or mu.shape[-1] != self.n_categories:
            raise NuisanceError(f"probabilities have shape {mu.shape}; allowed: (contexts, K, K, {self.n_categories})")
        if mu.ndim == 2:
            return np.stack([mu @ np.asarray(row) for row in np.asarray(rows, dtype=np.float64)])
        # One product over all pairs of all contexts keeps every result contiguous and reads mu once.
        matrix, by_category = np.asarray(rows, dtype=np.float64), np.moveaxis(mu, -1, 0)
        if by_category.flags.c_contiguous:
            flat = by_category.reshape(self.n_categories, -1)
        else:
            flat = mu.reshape(-1, self.n_categories).T
        sums = np.empty((len(matrix), flat.shape[1]))
        step = SINGLE_THREAD_MULTIPLICATIONS // matrix.size
        for start in range(0, flat.shape[1], step):
            np.matmul(matrix, flat[:, start : start + step], out=sums[:, start : start + step])
        return sums.reshape(len(matrix), *mu.shape[:-1])
