"""Where verdicts come from: columns of the data, long frames, arrays, functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..data.formula import Formula
from ..data.frames import column_names, name_of, require_columns, take_columns
from ..data.outcomes import MEANINGS, is_category, read_outcomes, read_probabilities
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..exceptions import DataError, DmlrankError, JudgeError, OptionTypeError, listed
from .selection import contexts_of, kept_rows

# How far probabilities may be from summing to one.
_SUM = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """One judge's verdicts: items as shown, (r,), and probabilities by meaning, (r, 5), or raw numbers, (r, q)."""

    context: IntArray
    first: IntArray
    second: IntArray
    values: FloatArray
    probabilities: bool

    def only(self, kept: Any) -> Said:
        return Said(self.context[kept], self.first[kept], self.second[kept], self.values[kept], self.probabilities)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Where verdicts are read from."""

    data: PreferenceData
    formula: Formula
    frame: Any
    unlabelled: Any
    context: tuple[str, ...]
    categories: Mapping[Any, str] | None


def named_judges(judge: Any) -> list[tuple[str, Any]]:
    """Judges by name."""
    if isinstance(judge, str):
        return [(judge, (judge,))]
    if isinstance(judge, tuple) and judge and all(isinstance(name, str) for name in judge):
        if all(is_category(name) for name in judge):
            return [("judge", judge)]
        return [(name, (name,)) for name in judge]
    if isinstance(judge, tuple) and judge and all(isinstance(entry, tuple) and len(entry) == 2 for entry in judge):
        return [(str(name), (spec,) if isinstance(spec, str) else spec) for name, spec in judge]
    return [("judge", judge)]


def read_said(name: str, spec: Any, source: Source) -> Said:
    try:
        if isinstance(spec, tuple) and spec and all(isinstance(column, str) for column in spec):
            return _from_columns(spec, source)
        if _is_frame(spec):
            return _from_frame(spec, source)
        if callable(spec):
            contexts = contexts_of(source.data, source.frame, source.unlabelled)
            return _from_array(spec(contexts, list(source.data.items)), source.data)
        return _from_array(spec, source.data)
    except DmlrankError as error:
        raise type(error)(f"judge {name!r}: {error}") from None


def _is_frame(spec: Any) -> bool:
    return hasattr(spec, "columns") or hasattr(spec, "column_names")


def _from_columns(columns: tuple[str, ...], source: Source) -> Said:
    """Verdicts in columns of the data, on each row's own pair."""
    require_columns(columns, column_names(source.frame), "columns of the data that hold verdicts")
    pair = (source.formula.first, source.formula.second)
    rows = kept_rows(source.data, source.frame, source.unlabelled, list(dict.fromkeys([*pair, *columns])))
    return _of_rows(rows, source.data.row_context, columns, source)


def _from_frame(spec: Any, source: Source) -> Said:
    """Verdicts in a long frame: context, two items, and a label or probabilities."""
    if not source.context:
        raise JudgeError(
            "a frame of verdicts names its contexts; pass context= with the columns that identify a prompt in it and "
            "in the data, or put the verdicts into columns of the data"
        )
    available = column_names(spec)
    pair = (source.formula.first, source.formula.second)
    require_columns((*source.context, *pair), available, "a frame of verdicts")
    rest = [name for name in available if name not in (*source.context, *pair)]
    columns = tuple(source.formula.outcomes) if set(source.formula.outcomes) <= set(rest) else ()
    columns = columns or tuple(name for name in rest if is_category(name)) or tuple(rest)
    if len(columns) != 1 and not all(is_category(name) for name in columns):
        raise JudgeError(
            f"a frame of verdicts has the context, the two items and one column of labels "
            f"({source.formula.outcome!r}), or probabilities named by category (p_a, p_b, p_tie); beside "
            f"{listed([*source.context, *pair])} this one has {listed(rest)}"
        )
    rows = take_columns(spec, [*source.context, *pair, *columns])
    place = {name: at for at, name in enumerate(source.data.context_ids)}
    if len(source.context) == 1:
        ids = rows[source.context[0]].tolist()
    else:
        ids = list(rows[list(source.context)].itertuples(index=False, name=None))
    context = np.array([place.get(name, -1) for name in ids], dtype=np.intp)
    if (context < 0).all():
        raise JudgeError(
            f"none of the {len(rows)} verdicts is about a context of the data (contexts of the verdicts: "
            f"{listed(ids[:3])}; of the data: {listed(list(source.data.context_ids[:3]))})"
        )
    return _of_rows(rows, context, columns, source)


def _of_rows(rows: pd.DataFrame, context: IntArray, columns: tuple[str, ...], source: Source) -> Said:
    """Verdicts of rows; those about other models or contexts, and missing ones, are left out."""
    code = {name: place for place, name in enumerate(source.data.items)}
    first, second = (
        np.array(
            [code.get(name_of(cell), -1) if known else -1 for cell, known in zip(column, column.notna(), strict=True)]
        )
        for column in (rows[source.formula.first], rows[source.formula.second])
    )
    known = rows[list(columns)].notna().all(axis=1).to_numpy()
    kept = np.flatnonzero(known & (context >= 0) & (first >= 0) & (second >= 0))
    if (first[kept] == second[kept]).any():
        raise DataError("a verdict compares a model with itself")
    table = rows.iloc[kept]
    if not len(kept):
        return Said(context[kept], first[kept], second[kept], np.empty((0, 5)), True)
    if len(columns) == 1:
        names = np.array(source.data.items, dtype=object)
        read = read_outcomes(table[columns[0]], names[first[kept]], names[second[kept]], source.categories)
    else:
        read = read_probabilities(table[list(columns)], source.categories)
    values = np.zeros((len(kept), len(MEANINGS)))
    values[:, [MEANINGS.index(meaning) for meaning in read.categories]] = read.y
    return Said(context[kept], first[kept], second[kept], values, True)


def _from_array(values: Any, data: PreferenceData) -> Said:
    """Verdicts in an array, (n, K, K, q): probabilities in the order of the categories, or any numbers."""
    shape = (data.n_contexts, data.n_items, data.n_items)
    try:
        table = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise OptionTypeError(
            f"judge= is a {type(values).__name__}; allowed: a column of the data or several, a frame, an array "
            f"(contexts, models, models, q), a function that returns one, or a mapping of names to these"
        ) from None
    if table.ndim == 3:
        table = table[..., None]
    if table.ndim != 4 or table.shape[:3] != shape:
        raise JudgeError(
            f"the array has shape {table.shape}; needed is (contexts, models, models, q) = {(*shape, 'q')}, contexts "
            f"in order of first appearance and models as in the results"
        )
    known = ~np.isnan(table).any(axis=-1) & ~np.eye(data.n_items, dtype=bool)
    context, first, second = np.nonzero(known)
    found = table[known]
    if np.isinf(found).any():
        raise JudgeError("the array holds infinite values; NaN stands for a verdict that is not known")
    even = found.shape[1] == data.n_categories and len(found) > 0
    if not (even and (found >= 0).all() and (np.abs(found.sum(axis=1) - 1) <= _SUM).all()):
        return Said(context, first, second, found, False)
    values = np.zeros((len(found), len(MEANINGS)))
    values[:, [MEANINGS.index(meaning) for meaning in data.categories]] = found
    return Said(context, first, second, values, True)
