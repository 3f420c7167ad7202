"""The rows of the user's frames that a fit uses, their contexts, and identifiers of contexts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from hashlib import blake2b

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.tasks_and_threads import warn
from ..exceptions import DataError, shown
from ..options import Options
from .arrays import AnyArray, BoolArray, IntArray, is_vector_column
from .columns import CodedColumn, identity_texts, value_codes
from .derived_pairs import DerivedPairs
from .formula.features import Environment, FeatureNames
from .formula.parse import Formula
from .preferences import FEW_CLUSTERS


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of the user's frames, with the columns that a fit needs and what each column is for.

    environment: Where functions and arrays of the formula are looked up.
    names: Columns and arrays that the features use.
    available: Names of all columns of the frame.
    extras: Columns of clusters, weights, propensities and style.
    optional: Further columns that later steps may ask for. Their values may be missing.
    roles: The columns of the outcome and of the items, coded as integers.
    arrays: The caller's arrays, one entry per row of the table.
    index (rows,): Position of each row in the caller's frames, which have ``n_rows``.
    same: Number of rows that compare a model with itself, by model; these rows are left out.
    n_names_changed: Names of models that had outer blanks or another Unicode form.
    derived: The comparisons, where the user's data are benchmark scores or rankings in place of votes. Then each row
        holds the numbers of all items on one prompt, and no column holds an outcome or an item.
    are_partitioned: Whether the rows come from parquet files or a Dask DataFrame, so that features are kept in a file.
    copies (rows,): How many equal rows each row stands for, in a table of counts; None elsewhere.
    """

    formula: Formula
    environment: Environment
    options: Options
    names: FeatureNames
    available: tuple[str, ...]
    extras: tuple[str, ...]
    optional: tuple[str, ...]
    table: pd.DataFrame
    roles: dict[str, CodedColumn]
    arrays: dict[str, AnyArray]
    index: IntArray
    n_rows: int
    same: tuple[tuple[str, int], ...] = ()
    n_names_changed: int = 0
    derived: DerivedPairs | None = None
    are_partitioned: bool = False
    copies: IntArray | None = None

    def number(self, mask: BoolArray) -> int:
        """Return the number of rows in a mask, (rows,), all copies counted."""
        return int(mask.sum() if self.copies is None else self.copies[mask].sum())

    @property
    def labelled(self) -> BoolArray:
        """Whether each row has an outcome, (rows,): a label, a probability of the formula, or a derived comparison."""
        if self.derived is not None:
            return self.derived.has_comparison
        if not self.formula.outcomes:
            return np.ones(len(self.table), dtype=bool)
        return np.logical_or.reduce([self.roles[name].codes >= 0 for name in self.formula.outcomes])

    def only(self, is_used: BoolArray) -> Rows:
        """Return the rows that are used, by a mask, (rows,)."""
        if is_used.all():
            return self
        arrays = {name: array[is_used] for name, array in self.arrays.items()}
        table = self.table[is_used].reset_index(drop=True)
        roles = {name: column.only(is_used) for name, column in self.roles.items()}
        derived = None if self.derived is None else self.derived.only(is_used)
        index, copies = self.index[is_used], None if self.copies is None else self.copies[is_used]
        return replace(self, table=table, roles=roles, arrays=arrays, index=index, derived=derived, copies=copies)

    def without_labels(self, rows: BoolArray) -> Rows:
        """Return the rows without the labels of some, (rows,); rows that say who won and lost are left out."""
        if not self.formula.outcomes:
            return self.only(~rows)
        outcomes = {name: self.roles[name] for name in self.formula.outcomes}
        emptied = {name: CodedColumn(np.where(rows, -1, one.codes), one.levels) for name, one in outcomes.items()}
        every = np.ones(len(rows), dtype=bool)
        return replace(self, roles=self.roles | {name: column.only(every) for name, column in emptied.items()})


def find_contexts(rows: Rows) -> tuple[IntArray, IntArray, IntArray]:
    """Group the rows, (rows,), into n contexts, which are numbered in order of first appearance."""
    names = list(rows.options.context)
    if not names:
        return np.arange(len(rows.table)), np.arange(len(rows.table)), np.arange(len(rows.table))
    ids = pd.DataFrame({name: identity_texts(rows.table[name]) for name in names})
    row_context = np.asarray(ids.groupby(names, sort=False).ngroup(), dtype=np.intp)
    first_row = np.unique(row_context, return_index=True)[1]
    order = ids.iloc[first_row].reset_index(drop=True).sort_values(names).index.to_numpy()
    seed_order = np.empty(len(first_row), dtype=np.intp)
    seed_order[order] = np.arange(len(first_row))
    return row_context, first_row, seed_order


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
            context = rows.options.context
            identifier = dict(zip(context, rows.table[list(context)].iloc[row], strict=True))
            cells = np.asarray(column)[[first_row[row_context[row]], row]]
            first, second = (shown(cell.item() if isinstance(cell, np.generic) else cell, 57) for cell in cells)
            raise DataError(
                f"feature {name!r} differs within {n_contexts} contexts, first in {identifier}: {first} and {second}; "
                f"a context has one value of every feature: if {name!r} tells contexts apart, add it to context="
            )


def warn_of_repeats(rows: Rows) -> bool:
    """Warn where, without ``context=``, texts or vectors are equal, most likely of one prompt; return whether so."""
    if rows.options.context or not len(rows.names.columns):
        return False
    for name, count in repeated_values(rows.table[list(rows.names.columns)]).items():
        if count:
            warn(
                f"{count} rows repeat a value of {name!r}: are these the same prompt? Without context=, the column "
                f"that identifies prompts, every row counts as another one, and standard errors are too small"
            )
            return True
    return False


def warn_of_shared_prompts(table: pd.DataFrame, groups: Sequence[str]) -> None:
    """Warn where rows count as prompts, but a column named like prompts, outside ``groups``, says they share some."""
    codes = {name: value_codes(column) for name, column in table.items()}
    counts = {name: len(np.unique(codes[name])) for name in codes if name not in groups}
    if not counts:
        return
    # An identifier of each question, for example, beside texts of which some are equal.
    name = max(counts, key=lambda name: counts[name])
    n_prompts = counts[name]
    # Prompts that lie within clusters are allowed for.
    pairs = (np.unique(np.stack([codes[group], codes[name]]), axis=1).shape[1] for group in groups)
    if not 1 < n_prompts < len(table) / 2 or any(number == n_prompts for number in pairs):
        return
    advice = f"context={name!r} makes them about prompts like these"
    if n_prompts <= FEW_CLUSTERS:
        advice = "collect votes on more prompts if they shall hold for others"
    warn(
        f"the {len(table):,} rows are about {n_prompts:,} prompts (values of {name!r}), and each counts as a prompt of "
        f"its own: intervals hold for these {n_prompts:,} prompts, not for new ones; {advice}"
    )


def repeated_values(table: pd.DataFrame) -> dict[str, int]:
    """Return how many rows repeat a value, by column of texts, vectors or floats of which over half are different."""
    repeats = {}
    for name in table.columns:
        column = table[name]
        if is_vector_column(column) or column.dtype == object or column.dtype.kind == "f":
            codes = value_codes(column)
            n_different = int(codes.max(initial=-1)) + 1 + bool((codes < 0).any())
            if n_different > len(column) / 2:
                repeats[name] = len(column) - n_different
    return repeats


IdentityNumbers = NDArray[np.uint64]

# The text of a whole number of 64 bits, without a plus sign or leading zeros. A file may hold ".0" behind the
# digits, because missing values have made the column one of floats.
_WHOLE_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,17})(?:\.0)?").fullmatch
# Whole numbers with a larger absolute value than this one are replaced by the hash of their text.
_LARGEST = 10**18 - 1


def identity_numbers(identifiers: AnyArray) -> IdentityNumbers:
    """Return a number for each identifier, (n,), that depends on this identifier alone."""
    are_whole = pd.api.types.infer_dtype(identifiers, skipna=False) == "integer"
    if are_whole and identifiers.min() >= -_LARGEST and identifiers.max() <= _LARGEST:
        return identifiers.astype(np.int64).view(np.uint64)
    # Numbers of 64 bits: the whole number that a text holds, as a two's complement, or the text's hash.
    numbers = np.empty(len(identifiers), np.uint64)
    for place, identifier in enumerate(identifiers):
        text = identity_text(identifier)
        if whole := _WHOLE_NUMBER(text):
            numbers[place] = int(whole[1]) % 2**64
        else:
            # Half of a surrogate pair, which is no valid UTF-8, may stand in texts that were read from broken files.
            hashed = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
            numbers[place] = int.from_bytes(hashed.digest(), "little")
    return numbers


def identity_text(identifier: object) -> str:
    """Return the canonical text of an identifier: the same for equal values of different types."""
    if isinstance(identifier, bool):
        return str(identifier)
    if isinstance(identifier, int | np.integer):
        return str(int(identifier))
    if isinstance(identifier, float | np.floating | Decimal):
        number = float(identifier) if isinstance(identifier, np.floating) else identifier
        if number != number or abs(number) == float("inf"):
            return str(float(number))
        return str(int(number)) if number == int(number) else repr(float(number))
    if isinstance(identifier, datetime | np.datetime64):
        time = pd.Timestamp(identifier)
        if time.tzinfo is not None:
            time = time.tz_convert("UTC")
        text, zone = time.tz_localize(None).isoformat(sep=" "), "" if time.tzinfo is None else "+00:00"
        return (text.rstrip("0") if "." in text else text) + zone
    if isinstance(identifier, tuple):
        texts = [identity_text(entry) for entry in identifier]
        return "".join(f"{len(text)}:{text}" for text in texts)
    return str(identifier)
