"""The rows of the user's frames that a fit uses, their contexts and identifiers, and rows that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from hashlib import blake2b

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
from .outcomes import (
    Categories,
    ComparedItems,
    improper_probabilities,
    outside_preferences,
    third_models,
    unknown_labels,
)
from .plain_columns import Variable, is_vector_column, name_of
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


IdentityNumbers = NDArray[np.uint64]

# The text of a whole number of 64 bits, without a plus sign or leading zeros. A file may hold ".0" behind the
# digits, because missing values have made the column one of floats.
_WHOLE_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,17})(?:\.0)?").fullmatch
# Texts that are hashed at a time.
_TEXTS_AT_A_TIME = 2**16
# Whole numbers with a larger absolute value than this one are replaced by the hash of their text.
_LARGEST = 10**18 - 1


def identity_numbers(identifiers: AnyArray) -> IdentityNumbers:
    """Return a number for each identifier that depends on this identifier alone, (n,).

    Shapes: identifiers (n,), returns (n,).
    """
    whole = _as_whole_numbers(identifiers)
    if whole is not None and (not len(whole) or (whole.min() >= -_LARGEST and whole.max() <= _LARGEST)):
        return whole.view(np.uint64)
    return _numbers_of_texts(_identity_texts(identifiers))


def identity_text(identifier: object) -> str:
    """Return the canonical text of an identifier: the same for equal values of different types."""
    if isinstance(identifier, str):
        return str(identifier)
    if isinstance(identifier, bool | np.bool_):
        return str(bool(identifier))
    if isinstance(identifier, int | np.integer):
        return str(int(identifier))
    if isinstance(identifier, float | np.floating | Decimal):
        return _text_of_number(float(identifier) if isinstance(identifier, np.floating) else identifier)
    if isinstance(identifier, datetime | np.datetime64):
        return _text_of_time(pd.Timestamp(identifier))
    if isinstance(identifier, date):
        return identifier.isoformat()
    if isinstance(identifier, tuple):
        return "".join(_with_lengths([identity_text(entry) for entry in identifier]))
    return str(identifier)


def _text_of_number(number: float | Decimal) -> str:
    """Return the canonical text of a float or a decimal."""
    if number != number or abs(number) == float("inf"):
        return str(float(number))
    return str(int(number)) if number == int(number) else repr(float(number))


def _text_of_time(time: pd.Timestamp) -> str:
    """Return the canonical text of a timestamp, with its instant in UTC where it has a time zone."""
    if time.tzinfo is not None:
        time = time.tz_convert("UTC")
    text, zone = time.tz_localize(None).isoformat(sep=" "), "" if time.tzinfo is None else "+00:00"
    return (text.rstrip("0") if "." in text else text) + zone


def _as_whole_numbers(identifiers: AnyArray) -> NDArray[np.int64] | None:
    """Return identifiers as integers, (n,); None unless all of them are whole numbers that fit into 64 bits."""
    kind = pd.api.types.infer_dtype(identifiers, skipna=False)
    try:
        if kind == "integer":
            return identifiers.astype(np.int64)
        if kind == "floating":
            numbers = identifiers.astype(float)
            is_whole = (numbers == np.trunc(numbers)) & (np.abs(numbers) <= _LARGEST)
            return numbers.astype(np.int64) if is_whole.all() else None
    except OverflowError:
        pass
    return None


def _identity_texts(identifiers: AnyArray) -> Sequence[str]:
    """Return :func:`identity_text` of each identifier, computed column by column where all have the same type."""
    kind = pd.api.types.infer_dtype(identifiers, skipna=False)
    if kind == "string":
        return identifiers.tolist()
    if kind == "integer":
        return [str(number) for number in identifiers.astype(object).tolist()]
    if kind in ("datetime", "datetime64"):
        try:
            return _texts_of_times(pd.DatetimeIndex(identifiers))
        except (ValueError, TypeError):
            # Times of several zones, or outside the range of one unit of time, are converted one by one.
            pass
    lengths = {len(entry) if type(entry) is tuple else -1 for entry in identifiers.tolist()}
    if len(lengths) == 1 and lengths.pop() > 0:
        columns = [_identity_texts(_as_objects(column)) for column in zip(*identifiers.tolist(), strict=True)]
        return ["".join(texts) for texts in zip(*map(_with_lengths, columns), strict=True)]
    return [identity_text(identifier) for identifier in identifiers.tolist()]


def _texts_of_times(times: pd.DatetimeIndex) -> list[str]:
    """Return :func:`identity_text` of each time."""
    zone = "" if times.tz is None else "+00:00"
    instants = times if times.tz is None else times.tz_convert("UTC").tz_localize(None)
    texts = np.datetime_as_string(instants.to_numpy(), unit="ns").tolist()
    return [text.replace("T", " ").rstrip("0").rstrip(".") + zone for text in texts]


def _with_lengths(texts: Sequence[str]) -> list[str]:
    """Return each text after its number of characters and a colon."""
    return [f"{len(text)}:{text}" for text in texts]


def _as_objects(cells: Sequence[object]) -> NDArray[np.object_]:
    """Return a column of cells as an array of objects, so that tuples among them stay cells."""
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


def _numbers_of_texts(texts: Sequence[str]) -> IdentityNumbers:
    """Return the number of each text; see :func:`identity_numbers`."""
    numbers = np.empty(len(texts), dtype=np.uint64)
    for start in range(0, len(texts), _TEXTS_AT_A_TIME):
        part = texts[start : start + _TEXTS_AT_A_TIME]
        numbers[start : start + len(part)] = np.frombuffer(b"".join(map(_bytes_of_text, part)), dtype="<u8")
    return numbers


def _bytes_of_text(text: str) -> bytes:
    """Return the 8 bytes of a text's number, the lowest byte first."""
    whole = _WHOLE_NUMBER(text)
    if whole:
        return int(whole[1]).to_bytes(8, "little", signed=True)
    try:
        return blake2b(text.encode(), digest_size=8).digest()
    except UnicodeEncodeError:
        # Half of a surrogate pair, which is no valid UTF-8, may stand in texts that were read from broken files.
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


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
