"""Propensities that the user supplies (arrays, columns, functions, plans), and features of an estimated one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from patsy import EvalEnvironment

from ..._utils.argument_checks import real_array
from ...data.formula.features import check_features, fit_features, locate_names
from ...data.formula.parse import names_in, one_sided
from ...data.graph import Graph
from ...data.plain_columns import too_large_error
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ...exceptions import DataError, FormulaError, MissingDataError, NuisanceError, OptionError, OptionTypeError, listed
from .all_pairs import TabulatedPairPropensity
from .estimate import Propensity


class PropensityPlan(Protocol):
    """A plan that holds an array of propensities (contexts, models, models), as a labelling plan does.

    It may also have the attributes ``models`` and ``contexts``, the names along the array's axes, and
    ``position_bias``, which says whether the array is about ordered pairs.
    """

    @property
    def propensity(self) -> ArrayLike:
        """Propensities (contexts, models, models)."""
        ...


def propensity_columns(propensity: object) -> tuple[str, ...] | None:
    """Return the columns that ``propensity=`` reads beside a column of its own; None means every column.

    A propensity that is a function reads every column.
    """
    if isinstance(propensity, str):
        features = one_sided(propensity)
        return () if features is None else names_in(features).values
    return None if callable(propensity) and not is_plan(propensity) else ()


def propensity_features(data: PreferenceData, formula: str, environment: EvalEnvironment) -> FloatArray:
    """Evaluate the features of ``propensity="~ features"``, (n, q), one row per context."""
    features = one_sided(formula)
    assert features is not None, "the option is a one-sided formula"
    names = locate_names(features, data.columns.available, environment, data.n_rows, ())
    if names.arrays:
        raise FormulaError(f"propensity={formula!r} uses {listed(names.arrays)}; allowed: columns of the data")
    for name in names.columns:
        missing = data.columns.missing(name)
        if missing.any():
            raise MissingDataError(
                f"propensity={formula!r}: {name!r} is missing in {int(missing.sum())} rows; drop these rows, fill in "
                f"the values or leave the column out of the formula"
            )
        context = data.varying_context(data.columns.value_codes(name))
        if context is not None:
            raise DataError(
                f"propensity={formula!r}: {name!r} varies within context {context!r}; allowed: columns with one value "
                f"per context, because the propensities of all pairs of a context are estimated from the same features"
            )
    by_context = data.context_table(names.columns)
    columns = {name: by_context[name] for name in names.columns}
    x, feature_map = fit_features(features, columns, data.n_contexts, environment)
    check_features(x, feature_map.names, keep_missing=False)
    return x


def propensity_table(data: PreferenceData, propensity: object) -> FloatArray:
    """Return the propensities of all pairs, (n, K, K), that an array, a function or a plan gives.

    Where a plan has ``position_bias`` and the data differ from it, the plan's propensities are converted.
    """
    if is_plan(propensity):
        return _table_of_plan(propensity, data)
    if callable(propensity):
        returned = propensity(data.context_table(), list(data.items))
        try:
            return real_array(returned)
        except (TypeError, ValueError, OverflowError):
            raise NuisanceError(
                f"the propensity function returned a {type(returned).__name__}; allowed: an array of numbers "
                f"(contexts, models, models) = {(data.n_contexts, data.n_items, data.n_items)}"
            ) from None
    return real_array(propensity)


def is_plan(value: object) -> TypeGuard[PropensityPlan]:
    """Whether an object has an array of propensities with three axes, as a labelling plan does."""
    return np.ndim(getattr(value, "propensity", 0)) == 3


def check_propensity(propensity: object) -> None:
    """Check that ``propensity`` is a string, a function, a plan or an array (n, K, K)."""
    if isinstance(propensity, str) and propensity.lstrip().startswith("~") and one_sided(propensity) is None:
        raise FormulaError(f"propensity={propensity!r}; allowed: '~ features', such as '~ C(category) + score'")
    if isinstance(propensity, str) and not propensity:
        raise OptionError(
            "propensity='' names no column; allowed: 'estimate', 'marginal', '~ features', the name of a column"
        )
    if isinstance(propensity, str) or is_plan(propensity) or callable(propensity):
        return
    try:
        table = real_array(propensity)
    except (TypeError, ValueError, OverflowError):
        table = np.empty(0)
    if table.ndim != 3:
        raise OptionTypeError(
            f"propensity is a {type(propensity).__name__}; allowed: 'estimate', 'marginal', '~ features', the name of "
            f"a column, an array of numbers (contexts, models, models), a function of (contexts, models) that returns "
            f"one, a plan"
        )


def supplied_propensity(
    data: PreferenceData, values: FloatArray, graph: Graph, zeros_allowed: bool = False
) -> Propensity:
    """Use an array of known propensities unchanged.

    Shapes: values (n, K, K).
    """
    shape = (data.n_contexts, data.n_items, data.n_items)
    if values.shape != shape:
        raise NuisanceError(
            f"propensity= has shape {values.shape}; allowed: (contexts, models, models) = {shape}, with contexts in "
            f"the order of their first appearance and models in the order of their names"
        )
    cells = data.cells
    is_used = np.broadcast_to(graph.edges, shape).copy()
    is_used[cells.context, cells.first, cells.second] = True
    largest = 1 if data.ordered else 2
    wrong = ~((values > 0) & (values <= largest)) & is_used
    if zeros_allowed:
        wrong &= values != 0
        wrong[cells.context, cells.first, cells.second] |= values[cells.context, cells.first, cells.second] == 0
    if wrong.any():
        i, j, k = (int(place[0]) for place in np.nonzero(wrong))
        raise NuisanceError(
            f"propensity= is {values[i, j, k]} in context {data.context_ids[i]!r} for {data.items[j]!r} before "
            f"{data.items[k]!r} ({int(wrong.sum())} such entries); allowed for a pair that is compared or labelled: "
            f"numbers in (0, {largest}]"
        )
    uneven = ~np.isclose(values, np.swapaxes(values, 1, 2)) & is_used
    if not data.ordered and uneven.any():
        i, j, k = (int(place[0]) for place in np.nonzero(uneven))
        raise NuisanceError(
            f"propensity= differs by order in context {data.context_ids[i]!r} for {data.items[j]!r} and "
            f"{data.items[k]!r} ({values[i, j, k]} and {values[i, k, j]}); with position_bias=False, give the expected "
            f"number of labelled orders of the pair, such as pi + pi.transpose(0, 2, 1)"
        )
    at_cells = values[cells.context, cells.first, cells.second].astype(float)
    return Propensity(at_cells, "given", pairs=TabulatedPairPropensity(np.where(is_used, values, 0.0)))


def column_propensity(data: PreferenceData, column: str) -> Propensity:
    """Use a column that holds the propensity of the pair of each row (of the ordered pair, where order matters)."""
    raw = data.columns[column][data.vote_row]
    try:
        votes = raw.astype(float)
    except (TypeError, ValueError, OverflowError):
        odd = next((value for value in raw if not isinstance(value, Real)), None)
        if odd is None:
            raise too_large_error(column) from None
        raise NuisanceError(f"propensity column {column!r} holds {odd!r}; allowed: numbers") from None
    largest = 1 if data.ordered else 2
    wrong = ~((votes > 0) & (votes <= largest))
    if wrong.any():
        row = int(data.row_index[data.vote_row[np.flatnonzero(wrong)[0]]])
        raise NuisanceError(
            f"propensity column {column!r} is {votes[wrong][0]} in row {row} ({int(wrong.sum())} such labelled rows); "
            f"allowed: numbers in (0, {largest}]"
        )
    pair_of_cell = _number_pairs(data.cells)
    low, high = (np.full(len(data.cells), fill) for fill in (np.inf, -np.inf))
    np.minimum.at(low, pair_of_cell[data.vote_cell], votes)
    np.maximum.at(high, pair_of_cell[data.vote_cell], votes)
    low, high = low[pair_of_cell], high[pair_of_cell]
    differs = high - low > 1e-9 * high
    if differs.any():
        cell = int(np.flatnonzero(differs)[0])
        raise NuisanceError(
            f"propensity column {column!r} has different values ({low[cell]}, {high[cell]}) for votes on the same pair "
            f"in context {data.context_ids[data.cells.context[cell]]!r}; allowed: one propensity per pair and context"
        )
    return Propensity(high, "given")


def _number_pairs(cells: Cells) -> IntArray:
    """Give each cell a number, (m,), which two cells share if they agree in context and ordered pair."""
    rows = np.stack([cells.context, cells.first, cells.second], axis=1)
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def _table_of_plan(plan: PropensityPlan, data: PreferenceData) -> FloatArray:
    """Return a plan's propensities, (n, K, K), with models, contexts and orders as in the data."""
    table = np.asarray(plan.propensity, dtype=float)
    models = getattr(plan, "models", None)
    if models is not None:
        places = _places_in_plan("models", list(models), data.items)
        table = table[:, places][:, :, places]
    contexts = getattr(plan, "contexts", None)
    if contexts is not None:
        table = table[_places_in_plan("contexts", list(contexts), list(data.context_ids))]
    ordered = getattr(plan, "position_bias", data.ordered)
    if ordered and not data.ordered:
        return table + np.swapaxes(table, 1, 2)
    if data.ordered and not ordered:
        # Such a plan draws the display order of a pair with equal probabilities.
        return table / 2
    return table


def _places_in_plan(what: str, plan_names: Sequence[Hashable], data_names: Sequence[Hashable]) -> list[int]:
    """Return the position of each of ``data_names`` in ``plan_names``."""
    place = {name: position for position, name in enumerate(plan_names)}
    missing = [name for name in data_names if name not in place]
    if missing:
        raise NuisanceError(
            f"the plan has propensities of {len(plan_names)} {what}, but not of {listed(missing, 5)} in the data; pass "
            f"the plan of these data, or drop the votes on other {what}"
        )
    return [place[name] for name in data_names]
