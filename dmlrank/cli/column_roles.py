"""Roles of columns: which ones hold names, labels or numbers in files whose cells have no type (csv)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..data.formula.parse import Formula, names_in, one_sided, parse_formula
from ..data.outcomes import is_category
from ..data.plain_columns import name_of
from ..exceptions import DataError

# A number as csv files have it. One that begins with a zero, such as 007, is a name.
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|infinity)", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d+")
# Words that stand for a missing number in a column of numbers. In a column of text they are text.
_NO_NUMBER = frozenset(
    ("NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan")
)
_NAN = frozenset(("NaN", "nan"))
_TRUTH = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class ColumnRoles:
    """Roles of a file's columns; a column without a role holds numbers where every cell is a number, else text.

    names: Columns of names and identifiers: models, prompts, clusters.
    labels: Columns of labels. They hold numbers where every cell is a number and no cell is the name of a model, else
        text.
    models: Columns of names that are models.
    features: Columns that features use.
    is_of_verdicts: Whether the file holds verdicts of a judge. Then columns without a role hold labels, too, unless
        their names say that they hold probabilities.
    """

    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    is_of_verdicts: bool = False

    @classmethod
    def of_fit(
        cls,
        formula: str,
        *,
        context: Sequence[str] = (),
        groups: Sequence[str] = (),
        judge: Sequence[str] = (),
        propensity: str | None = None,
    ) -> ColumnRoles:
        """Return the roles that follow from a formula and the options of a fit."""
        parsed = parse_formula(formula)
        models = (parsed.first, parsed.second)
        verdicts = () if judge and all(is_category(name) for name in judge) else tuple(judge)
        further = one_sided(propensity)
        features = names_in(parsed.features).values + (names_in(further).values if further else ())
        return cls((*models, *context, *groups), _labels(parsed, verdicts), models, features)

    @property
    def for_verdict_file(self) -> ColumnRoles:
        """The roles of columns in a further file, with a judge's verdicts on the same prompts and models."""
        return ColumnRoles(self.names, self.labels[:1], self.models, is_of_verdicts=True)

    def typed(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Return the columns of a file with the types of their roles."""
        return pd.DataFrame({name: self._typed(cells, name) for name in cells.columns}, index=cells.index)

    def _typed(self, cells: pd.DataFrame, name: str) -> pd.Series:
        """Return one column with the type of its role."""
        column = cells[name]
        if name in self.names:
            return _named_feature(column) if name in self.features else _as_text(column)
        if name in self.labels or (self.is_of_verdicts and not is_category(name)):
            return _labels_of(column, [cells[model] for model in self.models if model in cells.columns])
        return numbers_or_text(column, _NO_NUMBER)


def numbers_or_text(column: pd.Series, missing: Iterable[str] = _NO_NUMBER) -> pd.Series:
    """Convert a column of strings to whole numbers, floats or truth values where every cell is one of these.

    Floats are those that Python reads, to the last bit. A whole number beyond 64 bits, or that begins with a zero, is
    text, and so is the whole column.
    """
    # Each different word is converted once. Missing cells have the code -1, which selects the last entry of the arrays.
    codes, levels = pd.factorize(column)
    words = [str(level).strip() for level in levels]
    absent = np.array([word in missing or not word for word in words] + [True])
    present = [word for word, is_absent in zip(words, absent, strict=False) if not is_absent]
    is_missing = absent[codes]
    if present and all(word in _TRUTH for word in present):
        values: list[object] = [None if is_absent else _TRUTH[w] for w, is_absent in zip(words, absent, strict=False)]
        truth = np.array([*values, None], dtype=object)[codes]
        return pd.Series(truth if is_missing.any() else truth.astype(bool), index=column.index, name=column.name)
    if not all(_NUMBER.fullmatch(word) for word in present):
        return _as_text(column)
    if present and all(_WHOLE.fullmatch(word) for word in present):
        integers = [0 if is_absent else int(w) for w, is_absent in zip(words, absent, strict=False)]
        if min(integers) < _INT64.min or max(integers) > _INT64.max:
            return _as_text(column)
        if not is_missing.any():
            return pd.Series(np.array([*integers, 0])[codes], index=column.index, name=column.name)
    floats = [np.nan if is_absent else float(w) for w, is_absent in zip(words, absent, strict=False)]
    return pd.Series(np.array([*floats, np.nan])[codes], index=column.index, name=column.name)


def _labels(formula: Formula, verdicts: tuple[str, ...]) -> tuple[str, ...]:
    return verdicts if formula.probabilities else (formula.outcome, *verdicts)


def _labels_of(column: pd.Series, models: Sequence[pd.Series]) -> pd.Series:
    """Return labels as numbers where every label is a number, else as text."""
    numbers = numbers_or_text(column, _NAN)
    if numbers.dtype.kind not in "iuf":
        return numbers
    named = set().union(*(names.dropna().unique() for names in models))
    words = column.dropna().unique()
    return _as_text(column) if any(word in named and float(word) not in (0, 1) for word in words) else numbers


def _named_feature(column: pd.Series) -> pd.Series:
    """Return a column of names that is a feature, too: as numbers, if no two names are the same number."""
    numbers = numbers_or_text(column)
    if numbers.dtype.kind in "iuf" and numbers.nunique() < column.nunique():
        pairs = pd.DataFrame({"word": column, "number": numbers}).drop_duplicates().dropna()
        name, other, *_ = pairs.loc[pairs["number"].duplicated(keep=False)].sort_values("number")["word"]
        raise DataError(
            f"column {column.name!r} holds names and is a feature, too: {name!r} and {other!r} are different names but "
            f"the same number; put the names into a column of their own"
        )
    return numbers


def _as_text(column: pd.Series) -> pd.Series:
    """Return the cells as Python strings, None where they are missing."""
    values = column.astype(object)
    return values.where(values.notna(), None)


def whole_numbers_as_text(column: pd.Series) -> pd.Series:
    """Return a column of whole numbers as text, as csv files have it, and any other column unchanged."""
    if column.dtype.kind in "iu" or pd.api.types.infer_dtype(column, skipna=True) == "integer":
        return column.astype(object).map(name_of, na_action="ignore").astype(object)
    return column
