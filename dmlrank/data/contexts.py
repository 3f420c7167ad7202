"""The rows of the user's frames that a fit uses, and the grouping of these rows into contexts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.warning_collection import warn
from ..exceptions import DataError
from .arrays import AnyArray, IntArray
from .columns import CodedColumn, Columns, identity_texts
from .derived_pairs import DerivedPairs
from .equal_values import value_codes
from .formula.features import FeatureNames
from .formula.parse import Formula
from .plain_columns import Variable, is_vector_column
from .preferences import first_rows

# Whole numbers with at most this many digits can be sorted as texts without overflow.
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of the user's frames, with the columns that a fit needs and what each column is for.

    formula: The formula of the fit.
    names: Columns and arrays that the features use.
    available: Names of all columns of the frame.
    context, extras: Columns that identify a context, and columns of clusters, weights, propensities and style.
    optional: Further columns that later steps may ask for. Their values may be missing.
    propensity: The column of propensities, if there is one.
    style: Columns with style differences.
    table: The columns, with a fresh index.
    roles: The columns of the outcome and of the items, coded as integers.
    arrays: The caller's arrays, one entry per row of the table.
    index (rows,): Position of each row in the caller's frame.
    n_rows: Number of rows of the caller's frames.
    n_later_votes: Number of votes that were left out because the same context and pair has an earlier vote.
    derived: The comparisons, where the user's data are benchmark scores or rankings in place of votes. Then each row
        holds the numbers of all items on one prompt, and no column holds an outcome or an item.
    are_partitioned: Whether the rows come from parquet files or a Dask DataFrame, so that features are kept in a file.
    """

    formula: Formula
    names: FeatureNames
    available: tuple[str, ...]
    context: tuple[str, ...]
    extras: tuple[str, ...]
    optional: tuple[str, ...]
    propensity: str | None
    style: tuple[str, ...]
    table: pd.DataFrame
    roles: dict[str, CodedColumn]
    arrays: dict[str, AnyArray]
    index: IntArray
    n_rows: int
    n_later_votes: int = 0
    derived: DerivedPairs | None = None
    are_partitioned: bool = False

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Whether each row has an outcome, (rows,).

        The outcome is a label, or at least one of the category probabilities that the formula names, or, with
        ``derived``, at least one comparison.
        """
        if self.derived is not None:
            return self.derived.has_comparison
        return np.logical_or.reduce([self.roles[name].is_present for name in self.formula.outcomes])

    def only(self, is_used: NDArray[np.bool_]) -> Rows:
        """Return the rows that are used, by a mask, (rows,)."""
        if is_used.all():
            return self
        arrays = {name: array[is_used] for name, array in self.arrays.items()}
        table = self.table[is_used].reset_index(drop=True)
        roles = {name: column.only(is_used) for name, column in self.roles.items()}
        derived = None if self.derived is None else self.derived.only(is_used)
        index = self.index[is_used]
        return replace(self, table=table, roles=roles, arrays=arrays, index=index, derived=derived)


def find_contexts(rows: Rows) -> tuple[IntArray, IntArray, IntArray]:
    """Group the rows into contexts, numbered in order of first appearance.

    Shapes: row_context (rows,), first_row (n,), seed_order (n,).
    """
    n = len(rows.table)
    if not rows.context:
        return np.arange(n), np.arange(n), np.arange(n)
    if len(rows.context) == 1 and _are_whole_numbers(rows.table[rows.context[0]]):
        return _contexts_of_numbers(rows.table[rows.context[0]].to_numpy())
    ids = pd.DataFrame({name: identity_texts(rows.table[name]) for name in rows.context})
    row_context = np.asarray(ids.groupby(list(rows.context), sort=False).ngroup(), dtype=np.intp)
    first_row = first_rows(row_context)
    by_id = ids.iloc[first_row].reset_index(drop=True).sort_values(list(rows.context)).index.to_numpy()
    seed_order = np.empty(len(first_row), dtype=np.intp)
    seed_order[by_id] = np.arange(len(first_row))
    return row_context, first_row, seed_order


def _are_whole_numbers(column: pd.Series) -> bool:
    """Return whether a column holds whole numbers that :func:`_order_of_texts` can sort."""
    if column.dtype.kind != "i":
        return False
    limit = 10**_MOST_DIGITS
    return -limit < int(column.min()) and int(column.max()) < limit


def _contexts_of_numbers(identifier: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the result of :func:`find_contexts` for identifiers that are whole numbers, (rows,)."""
    codes, numbers = pd.factorize(identifier)
    row_context = codes.astype(np.intp)
    seed_order = np.empty(len(numbers), dtype=np.intp)
    seed_order[_order_of_texts(numbers)] = np.arange(len(numbers))
    return row_context, first_rows(row_context), seed_order


def _order_of_texts(numbers: IntArray) -> IntArray:
    """Return the order, (n,), in which the texts of whole numbers are sorted."""
    size, powers = np.abs(numbers), 10 ** np.arange(1, _MOST_DIGITS)
    n_digits = 1 + np.searchsorted(powers, size, side="right")
    # Texts are compared from the left: with zeros appended to the same length, they are compared as numbers. Of two
    # texts that differ by zeros at the end, the shorter one comes first. A minus sign comes before every digit.
    padded = size * 10 ** (_MOST_DIGITS - n_digits)
    return np.lexsort((n_digits, padded, numbers >= 0))


def check_constant_features(rows: Rows, row_context: IntArray, first_row: IntArray) -> None:
    """Check that all rows of a context have the same features; raise :class:`DataError` where two differ."""
    if len(first_row) == len(row_context):
        return
    columns = {name: rows.table[name] for name in rows.names.columns} | rows.arrays
    for name, column in columns.items():
        codes = value_codes(column)
        differs = codes != codes[first_row][row_context]
        if differs.any():
            row = int(np.flatnonzero(differs)[0])
            n_contexts = len(np.unique(row_context[differs]))
            identifier = dict(zip(rows.context, rows.table[list(rows.context)].iloc[row], strict=True))
            raise DataError(
                f"feature {name!r} differs within {n_contexts} contexts, first in {identifier}: "
                f"{_cell_text(column, first_row[row_context[row]])} and {_cell_text(column, row)}; all rows of "
                f"a context must have one value of every feature (if {name!r} tells contexts apart, add it to context=)"
            )


def _cell_text(column: Variable, row: int) -> str:
    """Return a cell as it is shown in an error, cut after 60 characters."""
    cell = column.iloc[row] if isinstance(column, pd.Series) else column[row]
    text = repr(cell.item() if isinstance(cell, np.generic) else cell)
    return text if len(text) <= 60 else text[:57] + "..."


def identifiers(rows: Rows, first_row: IntArray) -> NDArray[np.object_]:
    """Return the identifier of each context, (n,).

    The identifier is the cell of the column that ``context=`` names, or a tuple of cells if ``context=`` names several
    columns. Without ``context=``, the identifier is the position of the row.
    """
    ids = np.empty(len(first_row), dtype=object)
    if not rows.context:
        ids[:] = rows.index[first_row]
    else:
        ids[:] = Columns(rows.available, rows.table[list(rows.context)]).only(first_row).identifiers(rows.context)
    return ids


def warn_of_repeats(rows: Rows) -> bool:
    """Warn where, without ``context=``, texts or vectors are equal; return whether a warning was given.

    Equal texts or vectors are most likely one prompt that was used more than once.
    """
    if rows.context or not len(rows.names.columns):
        return False
    for name, count in repeated_values(rows.table[list(rows.names.columns)]).items():
        if count:
            warn(
                f"{count} rows repeat a value of {name!r}: are these the same prompt? Without context= every row "
                f"counts as another prompt, and standard errors are too small if several rows have the same prompt; "
                f"pass context= with the column that identifies prompts",
                stacklevel=5,
            )
            return True
    return False


def repeated_values(table: pd.DataFrame) -> dict[str, int]:
    """Return the number of rows that repeat a value, for every column whose values identify prompts.

    A column of texts, of vectors or of floats identifies prompts if more than half of its values are different.
    """
    repeats = {}
    for name in table.columns:
        column = table[name]
        if is_vector_column(column) or column.dtype == object or column.dtype.kind == "f":
            codes = value_codes(column)
            n_different = int(codes.max(initial=-1)) + 1 + bool((codes < 0).any())
            if n_different > len(column) / 2:
                repeats[name] = len(column) - n_different
    return repeats
