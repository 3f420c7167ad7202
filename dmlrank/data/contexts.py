"""Rows of a frame, and which of them belong to one context."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.warning_collection import warn
from ..exceptions import DataError
from .columns import Coded, Columns, identity_texts, value_codes
from .formula.features import FeatureNames
from .formula.parse import Formula
from .frames import is_vector_column
from .preferences import IntArray, first_rows


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The needed columns of the rows that are kept, and what stands in which.

    Attributes
    ----------
    formula : Formula
    names : FeatureNames
        Columns and arrays that the features use.
    available : tuple of str
        Names of all columns of the frame.
    context, extras : tuple of str
        Columns that identify a context, and columns read for clusters, weights and propensities.
    also : tuple of str
        Columns that something asks for beside these, whose values may be missing.
    propensity : str or None
        Which of the columns holds propensities.
    table : DataFrame
        The columns, with a fresh index.
    roles : dict of Coded
        Those of the outcome and the items as numbers.
    arrays : dict of ndarray
        The caller's arrays, one entry per row of the table.
    index : ndarray of int, shape (rows,)
        Position in the caller's frame of every row, positions in ``unlabelled=`` counted on from there.
    n_rows : int
        Rows of the caller's frames.
    n_own : int
        Rows of the data, which come first; after them come those of ``unlabelled=``.
    n_later_votes : int
        Rows among these that were left out because an earlier one is a vote on the same thing.
    """

    formula: Formula
    names: FeatureNames
    available: tuple[str, ...]
    context: tuple[str, ...]
    extras: tuple[str, ...]
    also: tuple[str, ...]
    propensity: str | None
    table: pd.DataFrame
    roles: dict[str, Coded]
    arrays: dict[str, Any]
    index: IntArray
    n_rows: int
    n_own: int
    n_later_votes: int = 0

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Rows with a label, or with any of the probabilities, (rows,)."""
        known = [self.roles[name].known for name in self.formula.outcomes]
        return known[0] if len(known) == 1 else np.logical_or.reduce(known)

    def only(self, kept: NDArray[np.bool_]) -> Rows:
        """These rows without the ones that are not kept."""
        if kept.all():
            return self
        arrays = {name: array[kept] for name, array in self.arrays.items()}
        table = self.table[kept].reset_index(drop=True)
        roles = {name: column.only(kept) for name, column in self.roles.items()}
        return replace(self, table=table, roles=roles, arrays=arrays, index=self.index[kept])


def find_contexts(rows: Rows) -> tuple[IntArray, IntArray, IntArray]:
    """Context of each row, first row of each context, and each context's place in the order of its identifiers."""
    n = len(rows.table)
    if not rows.context:
        return np.arange(n), np.arange(n), np.arange(n)
    ids = pd.DataFrame({name: identity_texts(rows.table[name]) for name in rows.context})
    row_context = np.asarray(ids.groupby(list(rows.context), sort=False).ngroup(), dtype=np.intp)
    first_row = first_rows(row_context)
    by_id = ids.iloc[first_row].reset_index(drop=True).sort_values(list(rows.context)).index.to_numpy()
    seed_order = np.empty(len(first_row), dtype=np.intp)
    seed_order[by_id] = np.arange(len(first_row))
    return row_context, first_row, seed_order


def check_constant(rows: Rows, row_context: IntArray, first_row: IntArray) -> None:
    """Raise where two rows of one context have different features."""
    if len(first_row) == len(row_context):
        return
    columns = {name: rows.table[name] for name in rows.names.columns} | rows.arrays
    for name, column in columns.items():
        codes = value_codes(column)
        differs = codes != codes[first_row][row_context]
        if differs.any():
            row = int(np.flatnonzero(differs)[0])
            here = list(rows.table[list(rows.context)].iloc[row])
            n_bad = len(np.unique(row_context[differs]))
            where = f" (unlabelled= row {rows.index[row] - rows.n_own})" if rows.index[row] >= rows.n_own else ""
            raise DataError(
                f"feature {name!r} differs within {n_bad} contexts, first in "
                f"{dict(zip(rows.context, here, strict=True))}: "
                f"{_cell(column, first_row[row_context[row]])} and {_cell(column, row)}{where}; a context has one "
                f"value of every feature (if {name!r} tells contexts apart, add it to context=)"
            )


def _cell(column: Any, row: int) -> str:
    cell = column.iloc[row] if isinstance(column, pd.Series) else column[row]
    text = repr(cell.item() if isinstance(cell, np.generic) else cell)
    return text if len(text) <= 60 else text[:57] + "..."


def identifiers(rows: Rows, first_row: IntArray) -> NDArray[np.object_]:
    """Identifier of each context, (n,): its value, a tuple of several, or the row's place where nothing is named."""
    ids = np.empty(len(first_row), dtype=object)
    if not rows.context:
        ids[:] = rows.index[first_row]
    else:
        named = Columns(rows.available, rows.table[list(rows.context)]).only(first_row)
        ids[:] = named.identifiers(rows.context)
    return ids


def warn_of_repeats(rows: Rows) -> bool:
    """Without ``context=``, equal texts or vectors are most likely one prompt that was used more than once.

    Returns whether there was something to warn of.
    """
    if rows.context or not len(rows.names.columns):
        return False
    for name, count in repeated_values(rows.table[list(rows.names.columns)]).items():
        if count:
            warn(
                f"{count} rows repeat a value of {name!r}: are these the same prompt? Every row is taken as a context "
                f"of its own; pass context= with the column that identifies prompts",
                stacklevel=5,
            )
            return True
    return False


def repeated_values(table: pd.DataFrame) -> dict[str, int]:
    """Rows that repeat a value, for every column that tells prompts apart, as texts and vectors do."""
    found = {}
    for name in table.columns:
        column = table[name]
        if is_vector_column(column) or column.dtype == object or column.dtype.kind == "f":
            codes = value_codes(column)
            different = int(codes.max(initial=-1)) + 1 + bool((codes < 0).any())
            # Almost every value is its own, as a prompt's is.
            if different > len(column) / 2:
                found[name] = len(column) - different
    return found
