"""Supplied propensities (arrays, functions, plans), and the features of ``propensity_formula``."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from patsy import EvalEnvironment

from ...data.formula.features import check_features, fit_features, locate_names
from ...data.formula.parse import names_in, one_sided
from ...data.frames import too_large_error
from ...data.graph import Graph
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ...exceptions import DataError, FormulaError, MissingDataError, NuisanceError, OptionError, OptionTypeError, listed
from .all_pairs import TabulatedPairPropensity
from .estimate import Propensity


def propensity_columns(propensity: Any, formula: str | None) -> tuple[str, ...] | None:
    """Columns that ``propensity=`` and ``propensity_formula=`` ask for; None means every column, as a function does.

    Examples
    --------
    >>> propensity_columns("estimate", "~ C(category) + score"), propensity_columns("marginal", None)
    (('category', 'score'), ())
    """
    if formula is not None:
        return names_in(_features_of(formula)).values
    return None if callable(propensity) and not is_plan(propensity) else ()


def selection_features(data: PreferenceData, formula: str, environment: EvalEnvironment) -> FloatArray:
    """Features of ``propensity_formula``, (n, q), one row per context.

    Parameters
    ----------
    data : PreferenceData
        With the columns that :func:`propensity_columns` names.
    formula : str
        ``"~ features"``: what the selection of pairs may have looked at.
    environment : EvalEnvironment
        Where functions of the formula are looked up.

    Raises
    ------
    FormulaError, ColumnError
        If the formula cannot be read.
    DataError, MissingDataError
        If a column varies within a context or is missing.
    """
    features = _features_of(formula)
    names = locate_names(features, data.columns.available, environment, data.n_rows, ())
    if names.arrays:
        raise FormulaError(f"propensity_formula uses {listed(names.arrays)}; it reads columns of the data only")
    for name in names.columns:
        missing = data.columns.missing(name)
        if missing.any():
            raise MissingDataError(f"propensity_formula: {name!r} is missing in {int(missing.sum())} rows")
        context = data.varying_context(data.columns.value_codes(name))
        if context is not None:
            raise DataError(
                f"propensity_formula: {name!r} varies within context {context!r}; the propensity of all pairs of a "
                f"context is needed, so its features belong to the context"
            )
    by_context = data.context_table(names.columns)
    columns = {name: by_context[name] for name in names.columns}
    x, feature_map = fit_features(features, columns, data.n_contexts, environment)
    check_features(x, feature_map.names, keep_missing=False)
    return x


def propensity_table(data: PreferenceData, propensity: Any) -> FloatArray:
    """Propensities of all pairs, (n, K, K), from an array, a function or a plan.

    A plan that says whether it has ``position_bias`` is translated where the data differ from it.

    Parameters
    ----------
    data : PreferenceData
        With every column of the frame where ``propensity`` is a function.
    propensity : array_like, callable or plan
        A function takes the contexts (a DataFrame with all columns of the data, a row per context) and the models'
        names and returns the array. A plan is an object with an array ``propensity``; its ``models`` and ``contexts``,
        where it has them, are matched by name.

    Raises
    ------
    OptionTypeError, NuisanceError
        If it is none of these, or a plan is about other models or contexts.
    """
    if is_plan(propensity):
        return _of_plan(propensity, data)
    if callable(propensity):
        made = propensity(data.context_table(), list(data.items))
        try:
            return np.asarray(made, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise NuisanceError(
                f"the propensity function returned a {type(made).__name__}; needed is an array (contexts, models, "
                f"models) = {(data.n_contexts, data.n_items, data.n_items)}"
            ) from None
    return np.asarray(propensity, dtype=float)


def is_plan(value: object) -> bool:
    """Whether an object carries an array of propensities, as a labelling plan does."""
    return np.ndim(getattr(value, "propensity", 0)) == 3


def check_propensity(propensity: Any) -> None:
    """Raise :class:`OptionTypeError` unless ``propensity`` is a word, a function, a plan or an array (n, K, K)."""
    if isinstance(propensity, str) and not propensity:
        raise OptionError("propensity='' names no column; allowed: 'estimate', 'marginal', the name of a column")
    if isinstance(propensity, str) or is_plan(propensity) or callable(propensity):
        return
    try:
        table = np.asarray(propensity, dtype=float)
    except (TypeError, ValueError, OverflowError):
        table = np.empty(0)
    if table.ndim != 3:
        raise OptionTypeError(
            f"propensity is a {type(propensity).__name__}; allowed: 'estimate', 'marginal', the name of a column, an "
            f"array of numbers (contexts, models, models), a function of (contexts, models) that returns one, a plan"
        )


def supplied_propensity(
    data: PreferenceData, values: FloatArray, graph: Graph, zeros_allowed: bool = False
) -> Propensity:
    """Use an array (n, K, K) of known propensities unchanged.

    With ``zeros_allowed`` a pair on the comparison graph may have propensity 0 where it has no label.

    Raises
    ------
    NuisanceError
        If the shape is wrong, or a value on the comparison graph or at a label is not in (0, 1] ((0, 2] where order
        does not matter: there it is the expected number of labelled orders, the same for both orders of a pair).
    """
    shape = (data.n_contexts, data.n_items, data.n_items)
    if values.shape != shape:
        raise NuisanceError(
            f"propensity= has shape {values.shape}; needed is (contexts, models, models) = {shape}, in the order of "
            f"first appearance and of the models' names"
        )
    cells = data.cells
    needed = np.broadcast_to(graph.edges, shape).copy()
    needed[cells.context, cells.first, cells.second] = True
    most = 1 if data.ordered else 2
    wrong = ~((values > 0) & (values <= most)) & needed
    if zeros_allowed:
        wrong &= values != 0
        wrong[cells.context, cells.first, cells.second] |= values[cells.context, cells.first, cells.second] == 0
    if wrong.any():
        i, j, k = (int(place[0]) for place in np.nonzero(wrong))
        raise NuisanceError(
            f"propensity= is {values[i, j, k]} in context {data.context_ids[i]!r} for {data.items[j]!r} before "
            f"{data.items[k]!r} ({int(wrong.sum())} such entries); a ranked or labelled pair needs one in (0, {most}]"
        )
    uneven = ~np.isclose(values, np.swapaxes(values, 1, 2)) & needed
    if not data.ordered and uneven.any():
        i, j, k = (int(place[0]) for place in np.nonzero(uneven))
        raise NuisanceError(
            f"propensity= differs by order in context {data.context_ids[i]!r} for {data.items[j]!r} and "
            f"{data.items[k]!r} ({values[i, j, k]} and {values[i, k, j]}); with position_bias=False it is the expected "
            f"number of labelled orders of the pair, such as pi + pi.transpose(0, 2, 1)"
        )
    at_cells = values[cells.context, cells.first, cells.second].astype(float)
    return Propensity(at_cells, "given", pairs=TabulatedPairPropensity(np.where(needed, values, 0.0)))


def column_propensity(data: PreferenceData, column: str) -> Propensity:
    """Use a column that holds the propensity of each row's own pair (ordered, where order matters).

    Raises
    ------
    NuisanceError
        If a labelled row's value is not in (0, 1] ((0, 2] where order does not matter), or the votes of one pair in
        one context disagree.
    """
    raw = data.columns[column][data.vote_row]
    try:
        votes = raw.astype(float)
    except (TypeError, ValueError, OverflowError):
        odd = next((value for value in raw if not isinstance(value, Real)), None)
        if odd is None:
            raise too_large_error(column) from None
        raise NuisanceError(f"propensity column {column!r} is not numeric, for example {odd!r}") from None
    most = 1 if data.ordered else 2
    wrong = ~((votes > 0) & (votes <= most))
    if wrong.any():
        row = int(data.row_index[data.vote_row[np.flatnonzero(wrong)[0]]])
        raise NuisanceError(
            f"propensity column {column!r} is {votes[wrong][0]} in row {row} ({int(wrong.sum())} such labelled rows); "
            f"a propensity lies in (0, {most}]"
        )
    pair_of_cell = _pair_places(data.cells)
    low, high = (np.full(len(data.cells), fill) for fill in (np.inf, -np.inf))
    np.minimum.at(low, pair_of_cell[data.vote_cell], votes)
    np.maximum.at(high, pair_of_cell[data.vote_cell], votes)
    low, high = low[pair_of_cell], high[pair_of_cell]
    apart = high - low > 1e-9 * high
    if apart.any():
        cell = int(np.flatnonzero(apart)[0])
        raise NuisanceError(
            f"propensity column {column!r} has different values ({low[cell]}, {high[cell]}) for votes on the same pair "
            f"in context {data.context_ids[data.cells.context[cell]]!r}; a pair has one propensity per context"
        )
    return Propensity(high, "given")


def _pair_places(cells: Cells) -> IntArray:
    """A number for every (context, pair), (m,): equal for the two orders of a pair where they are one."""
    places = np.stack([cells.context, cells.first, cells.second], axis=1)
    return np.unique(places, axis=0, return_inverse=True)[1].reshape(-1)


def _of_plan(plan: Any, data: PreferenceData) -> FloatArray:
    table = np.asarray(plan.propensity, dtype=float)
    models = getattr(plan, "models", None)
    if models is not None:
        at = _matched("models", list(models), list(data.items))
        table = table[:, at][:, :, at]
    contexts = getattr(plan, "contexts", None)
    if contexts is not None:
        table = table[_matched("contexts", list(contexts), list(data.context_ids))]
    ordered = getattr(plan, "position_bias", data.ordered)
    if ordered and not data.ordered:
        return table + np.swapaxes(table, 1, 2)
    if data.ordered and not ordered:
        # The plan drew which of the two is shown first.
        return table / 2
    return table


def _matched(what: str, have: list[Any], needed: list[Any]) -> list[int]:
    place = {name: position for position, name in enumerate(have)}
    missing = [name for name in needed if name not in place]
    if missing:
        raise NuisanceError(f"the plan knows {len(have)} {what}, but not {listed(missing, 5)} of the data")
    return [place[name] for name in needed]


def _features_of(formula: str) -> str:
    """The features in ``"~ features"``."""
    features = one_sided(formula)
    if features is None:
        raise FormulaError(f"propensity_formula={formula!r}; needed is '~ features', such as '~ C(category) + score'")
    return features
