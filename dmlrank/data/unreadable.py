"""Rows that a fit refuses: a model against itself, labels without a meaning, winners that were not compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .contexts import Rows
from .frames import name_of
from .outcomes import ComparedItems, third_models, unknown_labels

_NAMED = 5


def readable_rows(rows: Rows, categories: Mapping[Any, str] | None) -> tuple[Rows, tuple[str, ...]]:
    """The rows that a fit can read, and a sentence about each kind of row that it refuses.

    Where no vote would be left, nothing is left out: the error of a fit says why.

    Parameters
    ----------
    rows : Rows
    categories : mapping or None
        Meanings of labels that are not known.
    """
    everything, sentences = rows, []
    itself = _against_itself(rows)
    if itself.any():
        sentences.append(
            f"{int(itself.sum()):,} rows compare a model with itself ({_first(rows, itself, rows.formula.first)}): a "
            f"fit raises an error; leave them out, as this check did."
        )
        rows = rows.only(~itself)
    if rows.formula.probabilities:
        return rows, tuple(sentences)
    unknown = _votes_where(unknown_labels, rows, categories)
    if unknown.any():
        winner = rows.roles[rows.formula.outcome].only(unknown)
        counts = np.bincount(winner.codes, minlength=len(winner.levels))
        shown = [f"{name_of(label)!r} in {n:,} rows" for label, n in zip(winner.levels, counts, strict=True)]
        more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
        sentences.append(
            f"Unknown winner labels: {', '.join(shown[:_NAMED])}{more}: a fit raises an error; say what they mean with "
            f"categories={{label: meaning}}, a meaning being 'first', 'second', 'both_good', 'both_bad' or 'tie' (this "
            f"check left these rows out)."
        )
        rows = rows.only(~unknown)
    third = _votes_where(third_models, rows, categories)
    if third.any():
        sentences.append(
            f"{int(third.sum()):,} rows name a winner that was not compared "
            f"({_first(rows, third, rows.formula.outcome)}): a fit raises an error; correct them or leave them out, as "
            f"this check did."
        )
        rows = rows.only(~third)
    return (rows, tuple(sentences)) if _complete_votes(rows).any() else (everything, ())


def _against_itself(rows: Rows) -> NDArray[np.bool_]:
    """Rows that compare a model with itself, (rows,)."""
    first, second, _ = _places(rows)
    return np.asarray((first == second) & (first >= 0))


def _votes_where(unreadable: Any, rows: Rows, categories: Mapping[Any, str] | None) -> NDArray[np.bool_]:
    """Rows with a label and two models whose label is unreadable, (rows,)."""
    found = _complete_votes(rows)
    if found.any():
        first, second, names = _places(rows)
        pairs = ComparedItems(first[found], second[found], names)
        found[found] = unreadable(rows.roles[rows.formula.outcome].only(found), pairs, categories)
    return found


def _complete_votes(rows: Rows) -> NDArray[np.bool_]:
    """Rows with a label and two models, (rows,)."""
    first, second, _ = _places(rows)
    return np.asarray(rows.labelled & (first >= 0) & (second >= 0))


def _places(rows: Rows) -> tuple[NDArray[np.intp], NDArray[np.intp], list[str]]:
    """Places of the items of each row among all names, -1 where there is none, and the names."""
    columns = rows.roles[rows.formula.first], rows.roles[rows.formula.second]
    names = sorted({name_of(level) for column in columns for level in column.levels})
    place_of = {name: place for place, name in enumerate(names)}
    return columns[0].places(place_of), columns[1].places(place_of), names


def _first(rows: Rows, where: NDArray[np.bool_], name: str) -> str:
    row, column = int(np.flatnonzero(where)[0]), rows.roles[name]
    return f"first in row {rows.index[row]}: {name_of(column.levels[column.codes[row]])!r}"
