"""Rows that a fit refuses: a model against itself, labels without a meaning, winners that were not compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .arrays import IntArray
from .columns import CodedColumn
from .contexts import Rows
from .frames import name_of
from .outcomes import Categories, ComparedItems, third_models, unknown_labels

# Number of unknown labels that a sentence names.
_MOST_NAMED = 5


def readable_rows(rows: Rows, categories: Categories | None) -> tuple[Rows, tuple[str, ...]]:
    """Return the rows that a fit can read, and a sentence about each kind of row that a fit refuses.

    Where no vote would be left, all rows are returned and no sentence, because the error of a fit says why.

    Parameters
    ----------
    rows : Rows
        All rows.
    categories : mapping or None
        Meanings of labels that are not known.
    """
    all_rows, sentences = rows, []
    is_same = _compares_item_with_itself(rows)
    if is_same.any():
        sentences.append(
            f"{int(is_same.sum()):,} rows compare a model with itself "
            f"({_first_row(rows, is_same, rows.formula.first)}): a fit raises an error; leave them out, as this check "
            f"did."
        )
        rows = rows.only(~is_same)
    if rows.formula.probabilities:
        return rows, tuple(sentences)
    is_unknown = _votes_where(unknown_labels, rows, categories)
    if is_unknown.any():
        winner = rows.roles[rows.formula.outcome].only(is_unknown)
        counts = np.bincount(winner.codes, minlength=len(winner.levels))
        labels = [f"{name_of(label)!r} in {n:,} rows" for label, n in zip(winner.levels, counts, strict=True)]
        further = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
        sentences.append(
            f"Unknown winner labels: {', '.join(labels[:_MOST_NAMED])}{further}: a fit raises an error; say what they "
            f"mean with categories={{label: meaning}}, a meaning being 'first', 'second', 'both_good', 'both_bad' or "
            f"'tie' (this check left these rows out)."
        )
        rows = rows.only(~is_unknown)
    names_third = _votes_where(third_models, rows, categories)
    if names_third.any():
        sentences.append(
            f"{int(names_third.sum()):,} rows name a winner that was not compared "
            f"({_first_row(rows, names_third, rows.formula.outcome)}): a fit raises an error; correct them or leave "
            f"them out, as this check did."
        )
        rows = rows.only(~names_third)
    return (rows, tuple(sentences)) if _is_complete_vote(rows).any() else (all_rows, ())


def _compares_item_with_itself(rows: Rows) -> NDArray[np.bool_]:
    """Return which rows compare a model with itself, (rows,)."""
    first, second, _ = _item_places(rows)
    return np.asarray((first == second) & (first >= 0))


def _votes_where(
    is_unreadable: Callable[[CodedColumn, ComparedItems, Categories | None], NDArray[np.bool_]],
    rows: Rows,
    categories: Categories | None,
) -> NDArray[np.bool_]:
    """Return which rows with a label and two models have an unreadable label, (rows,)."""
    is_found = _is_complete_vote(rows)
    if is_found.any():
        first, second, names = _item_places(rows)
        pairs = ComparedItems(first[is_found], second[is_found], names)
        is_found[is_found] = is_unreadable(rows.roles[rows.formula.outcome].only(is_found), pairs, categories)
    return is_found


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


def _first_row(rows: Rows, mask: NDArray[np.bool_], name: str) -> str:
    """Return the first row in the mask and its cell of the column ``name``, in words."""
    row, column = int(np.flatnonzero(mask)[0]), rows.roles[name]
    return f"first in row {rows.index[row]}: {name_of(column.levels[column.codes[row]])!r}"
