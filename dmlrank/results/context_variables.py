"""Groups of contexts, and functions of the context, read after a fit and held against its features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from patsy import ModelDesc

from ..data.columns import check_identity
from ..data.equal_values import value_codes
from ..data.formula.features import FeatureMap, check_features, fit_features, locate_names
from ..data.formula.parse import names_in, one_sided, parse_formula
from ..data.frames import kind_of_time, require_columns
from ..data.preferences import FloatArray, IntArray, first_rows
from ..data.read_votes import with_columns
from ..exceptions import DataError, FormulaError, MissingDataError, OptionError, listed
from ..fit.state import FitSteps
from .lookup import joined_names

_MOST_GROUPS = 100


@dataclass(frozen=True, slots=True, eq=False)
class ContextGroups:
    """Groups of contexts.

    Attributes
    ----------
    variable : str
        The column, or columns joined by commas.
    names : tuple of str
        Of the G groups, in order, all different.
    values : tuple of tuple of str
        Of each group, one for every column.
    code : ndarray of int, shape (n,)
        Group of each context.
    """

    variable: str
    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    code: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class ContextDesign:
    """Functions v of the context.

    Attributes
    ----------
    formula : str
    names : tuple of str
        Of the P columns.
    matrix : ndarray, shape (n, P)
    terms : tuple of (str, tuple of int)
        Terms of the formula and their columns, the constant left out.
    table : DataFrame
        The variables, a row per context.
    feature_map : FeatureMap
        What computes v of further contexts, without the constant.
    """

    formula: str
    names: tuple[str, ...]
    matrix: FloatArray
    terms: tuple[tuple[str, tuple[int, ...]], ...]
    table: pd.DataFrame
    feature_map: FeatureMap

    @property
    def constant(self) -> bool:
        """Whether the first column is a constant."""
        return self.names[:1] == ("Intercept",)

    def at(self, table: pd.DataFrame) -> FloatArray:
        """v of further contexts, (b, P)."""
        x = self.feature_map.transform(table)
        return np.column_stack([np.ones(len(table)), x]) if self.constant else x


def read_groups(steps: FitSteps, columns: Sequence[str]) -> ContextGroups:
    """Groups by the values of one or several columns; those that occur together are the groups.

    Parameters
    ----------
    steps : FitSteps
    columns : sequence of str

    Raises
    ------
    OptionError
        If a column is neither a feature of the fit nor shown by the data to be a function of the features, or has too
        many values.
    DataError, MissingDataError
        If it varies within a context or is missing.
    """
    if not columns:
        raise OptionError("by() needs the column, or columns, that the groups are made from")
    table = _context_table(steps, columns, "by()")
    coded = []
    for name in columns:
        column = table[name]
        if column.isna().any():
            raise MissingDataError(f"by(): {name!r} is missing in {int(column.isna().sum())} contexts")
        categories = isinstance(column.dtype, pd.CategoricalDtype)
        known = (
            [v for v in column.cat.categories if (column == v).any()] if categories else sorted(set(column), key=_key)
        )
        if len(known) > _MOST_GROUPS:
            raise OptionError(
                f"by(): {name!r} has {len(known)} values, more than {_MOST_GROUPS}; by() is for categories, "
                f"project('~ {name}') for numbers"
            )
        place = {value: code for code, value in enumerate(known)}
        coded.append((known, column.map(place).to_numpy(dtype=np.intp)))
    places, code = np.unique(np.stack([codes for _, codes in coded], axis=1), axis=0, return_inverse=True)
    values = tuple(tuple(str(known[at]) for (known, _), at in zip(coded, row, strict=True)) for row in places)
    _check_function_of_features(steps, columns, code.reshape(-1, 1).astype(float), "by()")
    return ContextGroups(", ".join(columns), tuple(joined_names(values, ", ")), values, code.reshape(-1))


def read_design(steps: FitSteps, formula: str) -> ContextDesign:
    """Functions of the context from ``"~ ..."``, a constant first unless the formula leaves it out.

    Parameters
    ----------
    steps : FitSteps
    formula : str

    Raises
    ------
    FormulaError
        If it cannot be read, or its columns are collinear.
    OptionError
        If a variable is neither a feature of the fit nor shown by the data to be a function of the features.
    DataError, MissingDataError
        If a column varies within a context or is missing.
    """
    text = one_sided(formula)
    if text is None:
        raise FormulaError(
            f"project({formula!r}): needed is '~ functions of the prompt', such as '~ C(category) + length'"
        )
    available = steps.data.columns.available
    formula_of_fit = parse_formula(steps.source.formula)
    roles = (*formula_of_fit.outcomes, formula_of_fit.first, formula_of_fit.second)
    names = locate_names(text, available, steps.source.environment, steps.data.n_rows, roles)
    if names.arrays:
        raise FormulaError(f"project({formula!r}) uses {listed(names.arrays)}; it reads columns of the data only")
    columns = names.columns
    table = _context_table(steps, columns, "project()")
    gone = [name for name in columns if table[name].isna().any()]
    if gone:
        raise MissingDataError(f"project(): {listed(gone)} are missing in some contexts")
    x, feature_map = fit_features(text, {name: table[name] for name in columns}, len(table), steps.source.environment)
    check_features(x, feature_map.names, keep_missing=False)
    description = ModelDesc.from_formula("~ " + text).rhs_termlist
    constant = any(not term.factors for term in description)
    heads = (("Intercept",) if constant else ()) + tuple(feature_map.names)
    matrix = np.column_stack([np.ones(len(x)), x]) if constant else np.asarray(x, dtype=float)
    _check_rank(steps, matrix, heads, formula)
    _check_function_of_features(steps, columns, matrix, "project()")
    return ContextDesign(f"~ {text}", heads, matrix, _terms(feature_map, constant), table, feature_map)


def _terms(feature_map: FeatureMap, constant: bool) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Columns of each term, after the constant."""
    places: dict[str, list[int]] = {}
    owner = {}
    if feature_map.info is not None:
        coded = [] if feature_map.coded is None else feature_map.coded.tolist()
        kept = [
            name
            for name, place in feature_map.info.term_name_slices.items()
            for _ in range(place.stop - place.start)
            if name != "Intercept"
        ]
        owner = dict(zip(coded, kept, strict=True))
    for start, term in feature_map.numeric:
        owner |= {start + offset: term.variable for offset in range(term.width)}
    for column in range(len(feature_map.names)):
        places.setdefault(owner[column], []).append(column + constant)
    return tuple((name, tuple(columns)) for name, columns in places.items())


def _check_rank(steps: FitSteps, matrix: FloatArray, names: Sequence[str], formula: str) -> None:
    weight = np.ones(len(matrix)) if steps.context_weight is None else steps.context_weight
    weighted = np.sqrt(weight)[:, None] * matrix
    size = np.sqrt(np.square(weighted).sum(axis=0))
    scaled = weighted / np.where(size > 0, size, 1.0)
    spectrum = np.linalg.svd(scaled, compute_uv=False) if len(names) else np.zeros(1)
    if not len(names) or len(matrix) < len(names) or spectrum[-1] < 1e-10:
        raise FormulaError(
            f"project({formula!r}): its columns {listed(names, 20)} are linearly dependent in these data, so that "
            f"coefficients are not determined; leave some out"
        )


def _context_table(steps: FitSteps, columns: Sequence[str], what: str) -> pd.DataFrame:
    """The columns, a row per context."""
    require_columns(columns, steps.data.columns.available, what)
    data = with_columns(steps.data, steps.source.data, steps.options.unlabelled, columns)
    for name in columns:
        kind = kind_of_time(data.columns.table([name])[name])
        if kind:
            raise DataError(f"{what}: {name!r} is a {kind}; turn it into a number or a category")
        try:
            codes = data.columns.coded(name).codes
        except DataError:
            raise DataError(f"{what}: {name!r} holds vectors or lists; needed are numbers or labels") from None
        check_identity(name, data.columns.coded(name).levels)
        context = data.varying_context(codes)
        if context is not None:
            raise DataError(f"{what}: {name!r} varies within context {context!r}; groups are groups of prompts")
    return data.context_table(columns)


def _check_function_of_features(steps: FitSteps, columns: Sequence[str], values: FloatArray, what: str) -> None:
    """Raise unless the values, (n, P), are a function of the fit's features.

    Where contexts with equal features differ in a value, it is none. Where they do not, the columns are accepted if the
    fit's formula uses them, or if most contexts share their features with another one, so that this could have failed.
    """
    features = parse_formula(steps.source.formula).features
    used = set(names_in(features).values)
    unknown = [name for name in columns if name not in used]
    x = steps.data.x
    code = value_codes(x)
    first = first_rows(code)
    same = np.allclose(values, values[first][code], rtol=1e-9, atol=1e-12)
    alone = np.bincount(code)[code] == 1
    if same and (not unknown or alone.mean() < 0.5):
        return
    named = listed(unknown or columns)
    why = (
        f"prompts with the same features differ in {named}"
        if not same
        else f"the fit's features are {features!r}, and nothing shows that {named} is a function of them"
    )
    raise OptionError(
        f"{what}: {why}. Scores given the features are averaged over what else varies, so that scores of groups which "
        f"the features do not know would be others than those of a leaderboard of the group; add it to the formula, "
        f"'... ~ {'' if features == '1' else features + ' + '}{_as_feature(steps, unknown or columns)} | ...'"
    )


def _as_feature(steps: FitSteps, columns: Sequence[str]) -> str:
    table = _context_table(steps, columns, "by()")
    named = {name: name if name.isidentifier() else f"Q({name!r})" for name in columns}
    return " + ".join(named[name] if table[name].dtype.kind in "fiu" else f"C({named[name]})" for name in columns)


def _key(value: Any) -> tuple[bool, Any]:
    """Numbers by size, before everything else by its text."""
    number = isinstance(value, int | float | np.number)
    return (not number, value if number else str(value))
