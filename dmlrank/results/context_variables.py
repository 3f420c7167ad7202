"""Groups of contexts and functions of the context, read after a fit and checked against its features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.argument_checks import check_type
from ..data.arrays import kind_of_time
from ..data.columns import check_identity, check_unicode, value_codes
from ..data.formula.features import FeatureMap, check_features, fit_features, locate_names
from ..data.formula.parse import names_in, one_sided, parse_formula, terms_of
from ..data.frames import require_columns
from ..data.graph import Graph
from ..data.preferences import FloatArray
from ..data.read_votes import with_columns
from ..estimation.joint_influence import column_units
from ..exceptions import DataError, FormulaError, MissingDataError, OptionError, OptionTypeError, listed, shown
from ..fit.estimators import MEANS
from ..fit.state import FitState
from .requirements import joined_names

# Largest number of groups that by() allows.
_MOST_GROUPS = 100
_WHY_FEATURES = (
    "The learner does not know variables that are not in the formula. Scores in groups that are no function of the "
    "features would therefore differ from scores of a fit to the group."
)


@dataclass(frozen=True, slots=True, eq=False)
class ContextGroups:
    """Groups of contexts.

    names, values: Names of the G groups, in order, all different, and the values, one for every grouping column.
    members (G, n): The contexts of each group; groups may overlap.
    left_out: Names of groups without scores, with the reason.
    """

    variable: str
    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    members: NDArray[np.bool_]
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def is_partition(self) -> bool:
        """Whether every context belongs to exactly one group."""
        return bool((self.members.sum(axis=0) == 1).all())

    @property
    def dependent(self) -> tuple[str, ...]:
        """Names of the groups whose indicators are linear combinations of the indicators of the groups before them."""
        indicators = self.members / np.sqrt(self.members.sum(axis=1, keepdims=True))
        gram = indicators @ indicators.T
        ranks = [np.linalg.matrix_rank(gram[:n, :n], tol=1e-9, hermitian=True) for n in range(len(self.names) + 1)]
        return tuple(name for name, grows in zip(self.names, np.diff(ranks), strict=True) if not grows)


@dataclass(frozen=True, slots=True, eq=False)
class ContextDesign:
    """P functions of the context, by a formula, with their values, (n, P).

    terms: Terms of the formula with their columns, without the constant.
    table: The variables, a row per context.
    feature_map: Computes the columns for further contexts, without the constant.
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
        """Return the functions of further contexts, (b, P)."""
        x = self.feature_map.transform(table)
        return np.column_stack([np.ones(len(table)), x]) if self.constant else x


def read_groups(state: FitState, columns: Sequence[str]) -> ContextGroups:
    """Return groups of contexts: the combinations of values that occur in one or several columns."""
    if not columns:
        raise OptionError("by() got no column; name one or several columns that define the groups")
    coded = []
    for name, column in _full_table(state, columns).items():
        levels = (
            [value for value in column.cat.categories if (column == value).any()]
            if isinstance(column.dtype, pd.CategoricalDtype)
            # Numbers by size, before all other values by their text.
            else sorted(set(column), key=lambda x: (0, x) if isinstance(x, int | float | np.number) else (1, str(x)))
        )
        check_unicode([name], (level for level in levels if isinstance(level, str)))
        if len(levels) > _MOST_GROUPS:
            raise OptionError(
                f"by(): {name!r} has {len(levels)} values; allowed are {_MOST_GROUPS} groups; by('~ {name}') describes "
                f"how scores vary with numbers"
            )
        coded.append((levels, pd.Categorical(column, levels).codes))
    level_codes, code = np.unique(np.stack([codes for _, codes in coded], axis=1), axis=0, return_inverse=True)
    if len(level_codes) > _MOST_GROUPS:
        raise OptionError(
            f"by(): {len(level_codes):,} combinations of the values of {listed(columns)} occur, more than the "
            f"{_MOST_GROUPS} groups that by() allows; name fewer columns, or give columns of booleans as one list, "
            f"by([...]), for groups that may overlap"
        )
    values = tuple(tuple(str(levels[at]) for (levels, _), at in zip(coded, row, strict=True)) for row in level_codes)
    check_function_of_features(state, columns, code.reshape(-1, 1).astype(float))
    members = np.arange(len(values))[:, None] == code.reshape(-1)
    return ContextGroups(", ".join(columns), tuple(joined_names(values, ", ")), values, members)


def read_design(state: FitState, formula: str) -> ContextDesign:
    """Return functions of the context from ``"~ ..."``, the constant first unless the formula leaves it out."""
    text = one_sided(formula)
    if text is None:
        raise FormulaError(
            f"by({formula!r}) cannot be read; give '~ functions of the prompt', such as '~ C(category) + length'"
        )
    available = state.data.columns.available
    formula_of_fit = parse_formula(state.source.formula)
    roles = (*formula_of_fit.outcomes, *formula_of_fit.items)
    names = locate_names(text, available, state.source.environment, state.data.n_rows, roles)
    if names.arrays:
        raise FormulaError(f"by({formula!r}) uses {listed(names.arrays)}, which are no columns of the data")
    columns = names.columns
    table = _full_table(state, columns)
    x, feature_map = fit_features(text, {name: table[name] for name in columns}, len(table), state.source.environment)
    check_features(x, feature_map.names, keep_missing=False, rows=state.data.row_index[state.data.first_row])
    constant = any(not term.factors for term in terms_of(text))
    column_names = (("Intercept",) if constant else ()) + tuple(feature_map.names)
    matrix = np.column_stack([np.ones(len(x)), x]) if constant else np.asarray(x, dtype=float)
    _check_rank(state, matrix, column_names, formula)
    check_function_of_features(state, columns, matrix)
    terms = tuple((name, tuple(column + constant for column in of)) for name, of in feature_map.terms.items())
    return ContextDesign(f"~ {text}", column_names, matrix, terms, table, feature_map)


def _check_rank(state: FitState, matrix: FloatArray, names: Sequence[str], formula: str) -> None:
    """Raise where the columns of the formula, (n, P), are linearly dependent."""
    sizes = zip(names, np.abs(matrix).max(axis=0, initial=0.0), strict=True)
    if extreme := [name for name, size in sizes if size > 0 and not 1e-100 <= size <= 1e100]:
        raise FormulaError(f"by({formula!r}): {listed(extreme)} are not between 1e-100 and 1e100; use another unit")
    weighted = np.sqrt(state.influence.weight)[:, None] * (matrix / column_units(matrix))  # so that no square overflows
    size = np.sqrt(np.square(weighted).sum(axis=0))
    scaled = weighted / np.where(size > 0, size, 1.0)
    spectrum = np.linalg.svd(scaled, compute_uv=False) if len(names) else np.zeros(1)
    if not len(names) or len(matrix) < len(names) or spectrum[-1] < 1e-10:
        raise FormulaError(
            f"by({formula!r}): the columns {listed(names, 20)} are linearly dependent in these data; leave some out"
        )


def context_table(state: FitState, columns: Sequence[str], what: str) -> pd.DataFrame:
    """Return columns of the data, a row per context; ``what`` names the method in errors."""
    require_columns(columns, state.data.columns.available, what)
    if len(set(columns)) < len(columns):
        raise OptionError(f"{what}: a column is named twice in {listed(columns)}; name each column once")
    data = with_columns(state.data, state.source.data, columns)
    for name in columns:
        kind = kind_of_time(data.columns.table([name])[name])
        if kind:
            raise DataError(f"{what}: {name!r} is a {kind}, which cannot be used; turn it into a number or a category")
        try:
            codes = data.columns.coded(name).codes
        except DataError:
            raise DataError(f"{what}: {name!r} holds vectors or lists; use a column of numbers or labels") from None
        check_identity(name, data.columns.coded(name).levels)
        data.one_per_context(codes, f"{what}: {name!r}")
    return data.context_table(columns)


def _full_table(state: FitState, columns: Sequence[str]) -> pd.DataFrame:
    """Return columns of the data without gaps, a row per context."""
    table = context_table(state, columns, "by()")
    for name, column in table.items():
        if column.isna().any():
            raise MissingDataError(
                f"by(): {name!r} is missing in {int(column.isna().sum()):,} prompts; fill the gaps, or drop these rows "
                f"with {name!r} in the formula of the fit and missing='drop'"
            )
    return table


def check_function_of_features(
    state: FitState, columns: Sequence[str], values: FloatArray, *, are_booleans: bool = False
) -> None:
    """Raise unless the values, (n, P), are a function of the fit's features.

    Values that differ between contexts with equal features are no function of the features. Otherwise the columns are
    accepted if the fit's formula uses them, or if most contexts share their features with another context, because the
    data could then have shown a difference. Columns of booleans may also be functions of one column of the formula.
    """
    if state.estimator is MEANS:
        return  # means in groups are means of what was observed, and need no learner that knows the groups
    features = parse_formula(state.source.formula).features
    used = set(names_in(features).values)
    unknown = [name for name in columns if name not in used]
    if are_booleans:
        known = _shown_in_a_column(state, {name: values[:, columns.index(name)] for name in unknown}, used)
        unknown = [name for name in unknown if name not in known]
    x = state.data.x
    code = value_codes(x)
    first = np.unique(code, return_index=True)[1]
    same = np.allclose(values, values[first][code], rtol=1e-9, atol=1e-12)
    is_unique = np.bincount(code)[code] == 1
    if same and (not unknown or is_unique.mean() < 0.5):
        return
    named = unknown or list(columns)
    reason = (
        f"prompts with the same features differ in {listed(named)}"
        if not same
        else f"the fit's features are {features!r}, and nothing shows that {listed(named)} is a function of them"
    )
    table = context_table(state, named, "by()")
    booleans = {name: table[name].to_numpy(dtype=float) for name in named if table[name].dtype == bool}
    is_list_enough = same and not are_booleans and _shown_in_a_column(state, booleans, used) == set(named)
    without = f"; without a new fit, by({named}) works, with a list of columns of booleans" * is_list_enough
    raise OptionError(f"by(): {reason}. {_WHY_FEATURES} Add {listed(named)} to the formula{without}")


def _shown_in_a_column(state: FitState, booleans: Mapping[str, FloatArray], used: set[str]) -> set[str]:
    """Return the columns of booleans, (n,) each, that the data show to be functions of one column of the formula."""
    shown_columns = {name for name, value in booleans.items() if np.ptp(value) == 0}
    for column_name in sorted(used & set(state.data.columns.available)) if len(shown_columns) < len(booleans) else ():
        column = context_table(state, [column_name], "by()")[column_name]
        is_number = column.dtype.kind in "fiu"
        code, level = pd.factorize(column, sort=is_number)
        if (code < 0).any():
            continue
        count, is_repeated = np.bincount(code), 2 * len(level) < len(code)
        for name in booleans.keys() - shown_columns:
            share = np.bincount(code, booleans[name]) / count
            is_interval = is_number and np.count_nonzero(np.diff(share)) <= 2
            if np.isin(share, (0, 1)).all() and (is_repeated or is_interval):
                shown_columns.add(name)
    return shown_columns


# Name of the variable that groups in columns of booleans have in titles and in the names of results.
VARIABLE = "tag"
# Words that stand for booleans in text columns.
_WORDS = {"true": True, "false": False, "1": True, "0": False}
_FEWEST_LABELLED = 2


def read_overlapping_groups(state: FitState, columns: Sequence[str]) -> ContextGroups:
    """Return groups of contexts that may overlap; those without enough labels are left out, with the reason."""
    check_type("by", columns, list | tuple, "names of columns, or one list of columns of booleans")
    if not 0 < len(columns) <= _MOST_GROUPS:
        raise OptionError(f"by() got {len(columns)} groups; name 1 to {_MOST_GROUPS} columns of booleans")
    if wrong := [shown(name) for name in columns if not isinstance(name, str) or not name]:
        raise OptionTypeError(f"by(): names of columns are non-empty texts, and these are not: {listed(wrong)}")
    table = _full_table(state, columns)
    members = np.stack([_as_booleans(table[name], name) for name in columns])
    check_function_of_features(state, columns, members.T.astype(float), are_booleans=True)
    reasons = {name: _why_left_out(state, inside) for name, inside in zip(columns, members, strict=True)}
    names = tuple(name for name, reason in reasons.items() if not reason)
    left_out = tuple((name, reason) for name, reason in reasons.items() if reason)
    if not names:
        texts = "; ".join(f"{name!r}: {reason}" for name, reason in left_out)
        raise DataError(f"by(): no group has enough labels ({texts}); use larger groups, or collect more labels")
    kept = [not reason for reason in reasons.values()]
    return ContextGroups(VARIABLE, names, tuple((name,) for name in names), members[kept], left_out)


def _as_booleans(values: pd.Series, name: str) -> NDArray[np.bool_]:
    """Return a column as booleans."""
    if values.dtype.kind == "b" or str(values.dtype) == "boolean":
        return values.to_numpy(dtype=bool)
    found = {value: _WORDS.get(str(int(value)) if value in (0, 1) else str(value).lower()) for value in set(values)}
    wrong = [value for value, boolean in found.items() if boolean is None]
    if wrong:
        raise DataError(
            f"by(): {name!r} holds {listed(wrong, 3)}, which are not booleans; for groups "
            f"of its values use by({name!r})"
        )
    return values.map(found).to_numpy(dtype=bool)


def _why_left_out(state: FitState, inside: NDArray[np.bool_]) -> str:
    """Return why a group has no scores; empty where it has some."""
    data = state.data
    if not state.influence.weight[inside].any():
        return "its prompts have weight zero"
    if state.estimator is MEANS:
        # Means of scores rest on no pairs of models.
        return "" if inside.sum() >= _FEWEST_LABELLED else f"{inside.sum()} prompts"
    cells = data.cells.only(inside[data.cells.context])
    n_labelled = len(np.unique(cells.context))
    if n_labelled < _FEWEST_LABELLED:
        return f"{n_labelled} labelled prompts"
    counts = cells.counts(data.n_items)
    compared = (counts + counts.T > 0) & state.setup.graph.edges
    seen = np.flatnonzero(compared.any(axis=0))
    if not len(seen):
        return "no compared pair has a label"
    components = Graph(compared[np.ix_(seen, seen)]).components()
    if len(components) > 1:
        names = "; ".join(f"{{{listed([data.items[seen[j]] for j in part], 5)}}}" for part in components[:3])
        return f"its labels do not connect the models: {names}{' and more' if len(components) > 3 else ''}"
    return ""
