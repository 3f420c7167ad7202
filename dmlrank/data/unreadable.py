"""Rows that a fit refuses, for :func:`dmlrank.check`, which names them and leaves them out.

They are comparisons of a model with itself, labels and probabilities that cannot be read, and labels that name a model
which the row does not compare.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .arrays import IntArray
from .columns import CodedColumn
from .contexts import Rows
from .outcomes import (
    Categories,
    ComparedItems,
    improper_probabilities,
    outside_preferences,
    third_models,
    unknown_labels,
)
from .plain_columns import name_of

# Number of unknown labels that a sentence names.
_MOST_NAMED = 5


def readable_rows(rows: Rows, categories: Categories | None) -> tuple[Rows, tuple[str, ...]]:
    """Return the rows that a fit can read, and a sentence about each kind of row that a fit refuses.

    The sentences are for the report of :func:`dmlrank.check`. If a fit can read no vote at all, all rows are returned
    without a sentence. Reading them raises the error of a fit, which says why.
    """
    if rows.derived is not None:
        # Scores and ranks were checked when the pairs were derived from them.
        return rows, ()
    all_rows, sentences = rows, []
    is_same = _compares_item_with_itself(rows)
    if is_same.any():
        sentences.append(
            f"Rows that compare a model with itself: {_count_and_first(rows, is_same, rows.formula.first)}. A fit "
            f"raises an error. Leave these rows out, as this check did."
        )
        rows = rows.only(~is_same)
    if rows.formula.probabilities:
        rows, about_probabilities = _without_improper_probabilities(rows)
        sentences += about_probabilities
        return (rows, tuple(sentences)) if _is_complete_vote(rows).any() else (all_rows, ())
    is_outside = _votes_where(outside_preferences, rows, categories)
    if is_outside.any():
        sentences.append(
            f"Preferences outside [0, 1]: {_count_and_first(rows, is_outside, rows.formula.outcome)}. A fit raises an "
            f"error. Divide percentages by 100, or correct these numbers; this check left these rows out."
        )
        rows = rows.only(~is_outside)
    is_unknown = _votes_where(unknown_labels, rows, categories)
    if is_unknown.any():
        winner = rows.roles[rows.formula.outcome].only(is_unknown)
        counts = np.bincount(winner.codes, minlength=len(winner.levels))
        labels = [f"{name_of(label)!r} in {n:,} rows" for label, n in zip(winner.levels, counts, strict=True)]
        further = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
        sentences.append(
            f"Unknown winner labels: {', '.join(labels[:_MOST_NAMED])}{further}. A fit raises an error. Say what the "
            f"labels mean with categories={{label: meaning}}, where a meaning is 'first', 'second', 'both_good', "
            f"'both_bad' or 'tie'; this check left these rows out."
        )
        rows = rows.only(~is_unknown)
    names_third = _votes_where(third_models, rows, categories)
    if names_third.any():
        sentences.append(
            f"Rows that name a winner that was not compared: "
            f"{_count_and_first(rows, names_third, rows.formula.outcome)}. A fit raises an error. Correct these rows, "
            f"or leave them out, as this check did."
        )
        rows = rows.only(~names_third)
    return (rows, tuple(sentences)) if _is_complete_vote(rows).any() else (all_rows, ())


def _without_improper_probabilities(rows: Rows) -> tuple[Rows, list[str]]:
    """Return the rows whose probabilities are not negative and sum to one, and a sentence about the others."""
    has_all = _is_complete_vote(rows)
    has_all &= np.logical_and.reduce([rows.roles[name].is_present for name in rows.formula.outcomes])
    columns = list(rows.formula.probabilities)
    is_improper = np.zeros_like(has_all)
    is_improper[has_all] = improper_probabilities(rows.table.loc[has_all, columns].infer_objects())
    if not is_improper.any():
        return rows, []
    place = int(np.flatnonzero(is_improper)[0])
    values = ", ".join(f"{name} = {rows.table[name].iloc[place]:g}" for name in columns)
    count = int(is_improper.sum())
    sentence = (
        f"Rows whose probabilities are negative or do not sum to one: {count:,} row{'s' * (count != 1)}, first row "
        f"{rows.index[place]} ({values}). A fit raises an error. Correct these rows, or leave them out, as this check "
        f"did."
    )
    return rows.only(~is_improper), [sentence]


def _compares_item_with_itself(rows: Rows) -> NDArray[np.bool_]:
    """Return which rows compare a model with itself, (rows,)."""
    first, second, _ = _item_places(rows)
    return np.asarray((first == second) & (first >= 0))


def _votes_where(
    is_unreadable: Callable[[CodedColumn, ComparedItems, Categories | None], NDArray[np.bool_]],
    rows: Rows,
    categories: Categories | None,
) -> NDArray[np.bool_]:
    """Return which rows with a label and two models have a label that ``is_unreadable`` marks, (rows,)."""
    is_complete = _is_complete_vote(rows)
    is_marked = np.zeros_like(is_complete)
    if is_complete.any():
        first, second, names = _item_places(rows)
        pairs = ComparedItems(first[is_complete], second[is_complete], names)
        is_marked[is_complete] = is_unreadable(rows.roles[rows.formula.outcome].only(is_complete), pairs, categories)
    return is_marked


def _is_complete_vote(rows: Rows) -> NDArray[np.bool_]:
    """Return which rows have a label and two models, (rows,)."""
    first, second, _ = _item_places(rows)
    return np.asarray(rows.labelled & (first >= 0) & (second >= 0))


def _item_places(rows: Rows) -> tuple[IntArray, IntArray, list[str]]:
    """Return the places of the items of each row among all names, -1 where an item is missing, and the names."""
    columns = rows.roles[rows.formula.first], rows.roles[rows.formula.second]
    names = sorted({name_of(level) for column in columns for level in column.levels})
    place_of = {name: place for place, name in enumerate(names)}
    return columns[0].places(place_of), columns[1].places(place_of), names


def _count_and_first(rows: Rows, mask: NDArray[np.bool_], name: str) -> str:
    """Return the number of rows in the mask, and the first of them with its cell of the column ``name``, in words."""
    count, first, column = int(mask.sum()), int(np.flatnonzero(mask)[0]), rows.roles[name]
    level = column.levels[column.codes[first]]
    cell = repr(level) if isinstance(level, str) else name_of(level)
    return f"{count:,} row{'s' * (count != 1)}, first row {rows.index[first]} ({cell})"
