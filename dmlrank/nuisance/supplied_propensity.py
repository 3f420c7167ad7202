"""Propensities that the user supplies, features of an estimated one, and a check against the labels.

Where supplied propensities pi are right, the mean of S / pi over contexts is one for every pair: S is 1 in a context
where the pair is labelled, and 0 in all other contexts. The mean of S / pi of a pair is called its factor. A factor of
2 means that the supplied propensities of the pair are half as large as they should be.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from .._utils.argument_checks import real_array, require_shape
from .._utils.tasks_and_threads import warn
from ..data.arrays import name_of, row_slices
from ..data.columns import beside, value_codes
from ..data.formula.features import Environment, check_features, fit_features, locate_names
from ..data.formula.parse import names_in, one_sided
from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..exceptions import (
    FormulaError,
    MissingDataError,
    NuisanceError,
    OptionError,
    OptionTypeError,
    failing_as,
    listed,
    named_rows,
    shown,
)
from .propensity import Propensity, TabulatedPairPropensity


def propensity_columns(propensity: object) -> tuple[str, ...] | None:
    """Return the columns that ``propensity=`` reads beside a column of its own; None for all: a function reads all."""
    if isinstance(propensity, str):
        features = one_sided(propensity)
        return () if features is None else names_in(features).values
    return None if callable(propensity) and not is_plan(propensity) else ()


def propensity_features(data: PreferenceData, formula: str, environment: Environment) -> FloatArray:
    """Evaluate the features of ``propensity="~ features"``, (n, q), one row per context."""
    features = one_sided(formula)
    assert features is not None, "the option is a one-sided formula"
    names = locate_names(features, data.columns.available, environment, data.n_rows, ())
    if names.arrays:
        raise FormulaError(f"propensity={formula!r} uses {listed(names.arrays)}; allowed: columns of the data")
    for name in names.columns:
        if n_missing := int(data.columns.table([name])[name].isna().sum()):
            raise MissingDataError(
                f"propensity={formula!r}: {name!r} is missing in {n_missing} rows; drop or fill them, or leave it out"
            )
        codes = value_codes(data.columns.table([name])[name])
        data.one_per_context(codes, f"propensity={formula!r}: {name!r}")
    columns = {str(name): column for name, column in data.context_table(names.columns).items()}
    x, feature_map = fit_features(features, columns, data.n_contexts, environment)
    check_features(x, feature_map.names, keep_missing=False, rows=data.row_index[data.first_row])
    return x


_AXES = "(contexts in order of first appearance, models in order of their names, models)"
# Smallest propensity of a label: the weight of one that is less likely leaves no digits for the other labels.
_SMALLEST = 1e-12


def propensity_table(data: PreferenceData, propensity: object) -> FloatArray:
    """Return the propensities of all pairs, (n, K, K), of an array, a function or a plan, in the order of the data."""
    if is_plan(propensity):
        return _table_of_plan(propensity, data)
    if callable(propensity):
        with failing_as(NuisanceError, "the propensity function"):
            propensity = propensity(data.context_table(), list(data.items))
        return real_array(propensity, "the result of the propensity function", _AXES, NuisanceError)
    return real_array(propensity, "propensity", _AXES)


def is_plan(value: object) -> bool:
    """Whether an object has an array ``propensity`` (contexts, models, models), as a labelling plan does.

    It may also have the attributes ``models`` and ``contexts``, the names along the array's axes, and
    ``position_bias``, which says whether the array is about ordered pairs.
    """
    return np.ndim(getattr(value, "propensity", 0)) == 3


def check_propensity(propensity: object) -> None:
    """Check that ``propensity`` is a string, a function, a plan or an array (n, K, K)."""
    if isinstance(propensity, str) and propensity.lstrip().startswith("~") and one_sided(propensity) is None:
        raise FormulaError(f"propensity={propensity!r}; allowed: '~ features', such as '~ C(category) + score'")
    if isinstance(propensity, str) and not propensity:
        raise OptionError("propensity='' names no column; name one, or use 'estimate', 'marginal' or '~ features'")
    if isinstance(propensity, str) or is_plan(propensity) or callable(propensity):
        return
    allowed = (
        f"'estimate', 'marginal', '~ features', the name of a column, an array {_AXES}, a function of (contexts, "
        f"models) that returns one, a plan"
    )
    table = real_array(propensity, "propensity", allowed)
    if table.ndim != 3:
        raise OptionTypeError(f"propensity has {table.ndim} axes; allowed: {allowed}")


def supplied_propensity(
    data: PreferenceData, values: FloatArray, graph: Graph, zeros_allowed: bool = False
) -> Propensity:
    """Use an array of known propensities, (n, K, K), unchanged."""
    shape = (data.n_contexts, data.n_items, data.n_items)
    require_shape(values, shape, "propensity=", _AXES)
    cells = data.cells
    is_used = np.broadcast_to(graph.edges, shape).copy()
    is_used[cells.context, cells.first, cells.second] = True
    largest = 1 if data.ordered else 2
    wrong = ~((values > 0) & (values <= largest)) & is_used
    if zeros_allowed:
        wrong &= values != 0
    wrong[cells.context, cells.first, cells.second] |= values[cells.context, cells.first, cells.second] < _SMALLEST
    if wrong.any():
        i, j, k = (int(place[0]) for place in np.nonzero(wrong))
        raise NuisanceError(
            f"propensity= is {values[i, j, k]} in context {data.context_ids[i]!r} for {data.items[j]!r} before "
            f"{data.items[k]!r} ({int(wrong.sum())} such entries); allowed for a pair that is compared: numbers in "
            f"(0, {largest}], and at least {_SMALLEST:g} where it is labelled"
        )
    uneven = ~np.isclose(values, np.swapaxes(values, 1, 2)) & is_used
    if not data.ordered and uneven.any():
        i, j, k = (int(place[0]) for place in np.nonzero(uneven))
        raise NuisanceError(
            f"propensity= differs by order in context {data.context_ids[i]!r} for {data.items[j]!r} and "
            f"{data.items[k]!r} ({values[i, j, k]} and {values[i, k, j]}); give pi + pi.transpose(0, 2, 1)"
        )
    at_cells = values[cells.context, cells.first, cells.second].astype(float)
    return Propensity(at_cells, "given", pairs=TabulatedPairPropensity(np.where(is_used, values, 0.0)))


def column_propensity(data: PreferenceData, column: str) -> Propensity:
    """Use a column that holds the propensity of the pair of each row (of the ordered pair, where order matters)."""
    votes = data.columns.numbers(column)[data.vote_row]
    largest = 1 if data.ordered else 2
    wrong = ~((votes >= _SMALLEST) & (votes <= largest))
    if wrong.any():
        value, rows = data.columns[column][data.vote_row[wrong][0]], data.row_index[data.vote_row]
        raise NuisanceError(
            f"propensity column {column!r} is {shown(value, 80)} in {named_rows(wrong, rows)}, with a label; allowed: "
            f"numbers in [{_SMALLEST:g}, {largest}]"
        )
    # Where order does not matter, both orders of a pair may be cells of their own.
    rows = np.stack([data.cells.context, data.cells.first, data.cells.second], axis=1)
    pair_of_cell = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    low, high = (np.full(len(data.cells), fill) for fill in (np.inf, -np.inf))
    np.minimum.at(low, pair_of_cell[data.vote_cell], votes)
    np.maximum.at(high, pair_of_cell[data.vote_cell], votes)
    low, high = low[pair_of_cell], high[pair_of_cell]
    differs = high - low > 1e-9 * high
    if differs.any():
        cell = int(np.flatnonzero(differs)[0])
        raise NuisanceError(
            f"propensity column {column!r} has different values ({low[cell]}, {high[cell]}) for one pair in context "
            f"{data.context_ids[data.cells.context[cell]]!r}; give one"
        )
    return Propensity(high, "given")


def places_in(given: Sequence[Hashable], names: Sequence[Hashable], what: str) -> list[int]:
    """Return where the prompts or models of the data stand among those with given propensities."""
    place = {name: at for at, name in enumerate(given)}
    if any(name not in place for name in names):
        # Numbers of prompts are text where a table was read from csv.
        by_text = {_text_of(name): at for name, at in place.items()}
        place |= {name: by_text[_text_of(name)] for name in names if _text_of(name) in by_text}
    if missing := [name for name in names if name not in place]:
        raise NuisanceError(
            f"propensity= has {len(given):,} {what}, but not {listed(missing, 5)} of the data{beside(missing, given)}; "
            f"pass the propensities of all {what} of the data; where new prompts took the places of a plan's, fit with "
            f"the column of its sample that has the propensities (propensity='propensity')"
        )
    return [place[name] for name in names]


def _text_of(name: object) -> object:
    """Return the name of a prompt or model as text; of a prompt that several columns identify, all of them."""
    return tuple(map(name_of, name)) if isinstance(name, tuple) else name_of(name)


def _table_of_plan(plan: Any, data: PreferenceData) -> FloatArray:
    """Return a plan's propensities, (n, K, K), with models, contexts and orders as in the data."""
    table = np.asarray(plan.propensity, dtype=float)
    for what, names_of_data, axes in (("models", data.items, (1, 2)), ("contexts", list(data.context_ids), (0,))):
        if (names := getattr(plan, what, None)) is not None:
            places = places_in(list(names), names_of_data, what)
            for axis in axes:
                table = np.take(table, places, axis=axis)
    ordered = getattr(plan, "position_bias", data.ordered)
    if ordered and not data.ordered:
        table = table + np.swapaxes(table, 1, 2)
    # A plan without order draws the display order of a pair with equal probabilities.
    table = table / 2 if data.ordered and not ordered else table
    n_labels, expected = len(data.cells), float((table if data.ordered else np.triu(table)).sum())
    if n_labels > expected + _FAR * np.sqrt(expected):
        raise NuisanceError(
            f"propensity=plan: the data have {n_labels:,} labels of pairs, and the plan has {expected:,.0f} for their "
            f"prompts, so that not all are labels of the plan. Fit those of the plan alone, with all of its prompts; "
            f"to add earlier votes, give every row its own propensity in a column (how to stop: old votes and a plan)"
        )
    return table


# Standard errors by which labels of a plan are more than it has.
_FAR = 4.0
# Level of the test.
_LEVEL = 1e-4
# A factor between these two numbers is not reported, even if it differs from one significantly.
_SMALLEST_FACTOR, _LARGEST_FACTOR = 0.67, 1.25
# A pair's expected number of labels is estimated from its labels where its propensities are not known in all contexts.
# The estimate counts as reliable if the pair has at least this many labels.
_RELIABLE_LABELS = 20
# Where propensities are known at the labels only, fewest effective labels for a test: the first number applies if the
# factor is above one, the second if it is below one.
_FEWEST_EFFECTIVE_LABELS = 30, 100


def mean_weight(data: PreferenceData, propensity: Propensity, unit: IntArray) -> tuple[float, float, float]:
    """Return the mean of S / pi over contexts and pairs with labels, its standard error, and its z as a test of one.

    It is the number of labels, divided by the number expected from the propensities. Units, (n,), are independent.
    Where propensities are known at the labels only, labels count as so many of equal weight as give the same precision.
    """
    cells, n_items = data.cells, data.n_items
    pair, weight = cells.first * n_items + cells.second, 1 / propensity.cells
    codes = np.unique(unit, return_inverse=True)[1].reshape(-1)
    if not isinstance(propensity.pairs, TabulatedPairPropensity):
        return _factor_by_halves(pair, weight, codes, cells.context)
    n_labels, total, total_square = (
        np.bincount(pair, w * cells.count, minlength=n_items**2) for w in (np.ones_like(weight), weight, weight**2)
    )
    flat = propensity.pairs.values.reshape(len(propensity.pairs.values), -1)
    sums, is_known = np.zeros(flat.shape[1]), np.ones(flat.shape[1], dtype=bool)
    for rows in row_slices(*flat.shape, numbers=20_000_000):
        sums += flat[rows].sum(axis=0)
        is_known &= (flat[rows] > 0).all(axis=0)
    labelled = np.flatnonzero(n_labels)
    n_labels, total, is_known = n_labels[labelled], total[labelled], is_known[labelled]
    effective = total**2 / total_square[labelled]
    # Whether the expected number is precise enough to conclude that a pair has too few labels.
    if not (is_known | ((n_labels >= _RELIABLE_LABELS) & (effective > 0.9 * n_labels))).all():
        return _factor_by_halves(pair, weight, codes, cells.context)
    observed = np.where(is_known, n_labels, effective)
    expected = np.where(is_known, sums[labelled] / len(flat), effective / total) * data.n_contexts
    rate = np.zeros(n_items**2)
    rate[labelled] = observed / total
    by_unit = np.bincount(codes[cells.context], weights=weight * rate[pair], minlength=codes.max() + 1)
    deviation = by_unit - np.average(by_unit, weights=data.copies)
    n_units = len(by_unit) if data.copies is None else data.n_contexts
    # Of Poisson variables given that they are not zero: only pairs with labels are there.
    mean = expected / -np.expm1(-expected)
    variance = float(np.maximum(mean * (1 + expected - mean), 0.0).sum())
    error = float(np.sqrt(max(np.average(np.square(deviation), weights=data.copies) * n_units, variance)))
    z = float((observed - mean).sum()) / error if error > 0 else 0.0
    return float(observed.sum() / expected.sum()), error / float(expected.sum()), z


def _factor_by_halves(
    pair: IntArray, weight: FloatArray, unit: IntArray, context: IntArray
) -> tuple[float, float, float]:
    """Return the overall factor, its standard error and z, where propensities are known at the labels, (m,), only."""
    half = unit % 2
    observed, expected, variance = 0.0, 0.0, 0.0
    sums_by_unit = []
    for part in (0, 1):
        inside = half[context] == part
        n_inside, n_outside = int((half == part).sum()), int((half != part).sum())
        count, total = (np.bincount(pair[~inside], w, minlength=pair.max() + 1) for w in (None, weight[~inside]))
        rate = np.divide(count, total, out=np.zeros(len(total)), where=total > 0)
        by_unit = np.bincount(
            unit[context[inside]], weights=weight[inside] * rate[pair[inside]], minlength=unit.max() + 1
        )
        by_unit = by_unit[part::2]
        share = n_inside / max(n_inside + n_outside, 1)
        observed += share * by_unit.sum() / max(n_inside, 1)
        expected += share * rate.sum()
        variance += share**2 * by_unit.var() * len(by_unit) / max(n_inside, 1) ** 2
        sums_by_unit.append(by_unit)
    sums = np.concatenate(sums_by_unit)
    effective = sums.sum() ** 2 / max(np.square(sums).sum(), 1e-300)
    # Where 1 / pi varies, a factor below one may only mean that no label fell on the rare contexts with a large 1 / pi.
    # The test for factors below one therefore needs more labels.
    if not expected > 0 or effective < _FEWEST_EFFECTIVE_LABELS[int(observed < expected)]:
        return float("nan"), float("nan"), 0.0
    factor = observed / expected
    error = np.sqrt(variance) / expected * max(1.0, 1 / np.sqrt(max(factor, 1e-12)))
    return float(factor), float(error), float((factor - 1) / error) if error > 0 else 0.0


def check_mean_weights(data: PreferenceData, propensity: Propensity, unit: IntArray) -> float | None:
    """Return the overall factor of supplied propensities (None for others, or few labels); warn of a wrong one."""
    if propensity.how != "given":
        return None
    factor, std_error, z = mean_weight(data, propensity, unit)
    if not _SMALLEST_FACTOR <= factor <= _LARGEST_FACTOR and abs(z) > -ndtri(_LEVEL / 2):
        wrong = f"{factor:.3g} times too small" if factor > 1 else f"{1 / factor:.3g} times too large"
        order = "in the display order that was shown" if data.ordered else "in either display order, the sum over both"
        warn(
            f"the given propensities do not fit the labels: the mean of S / pi over prompts and pairs, which is 1 for "
            f"right propensities, is {factor:.3g} (standard error {std_error:.2g}), so that they are about {wrong}; "
            f"give the probability that this pair is labelled in this prompt, {order}",
        )
    return factor if np.isfinite(factor) else None
