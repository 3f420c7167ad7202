"""Supplied propensities (arrays, functions, plans), and the features of ``propensity_formula``."""

from __future__ import annotations

from typing import Any

import numpy as np
from patsy import EvalEnvironment

from ...data.formula.features import check_features, fit_features, locate_names
from ...data.formula.parse import names_in
from ...data.preferences import FloatArray, PreferenceData
from ...exceptions import DataError, FormulaError, MissingDataError, NuisanceError, OptionTypeError, listed


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
        except (TypeError, ValueError):
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
    if isinstance(propensity, str) or is_plan(propensity) or callable(propensity):
        return
    try:
        table = np.asarray(propensity, dtype=float)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.ndim != 3:
        raise OptionTypeError(
            f"propensity is a {type(propensity).__name__}; allowed: 'estimate', 'marginal', the name of a column, an "
            f"array of numbers (contexts, models, models), a function of (contexts, models) that returns one, a plan"
        )


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
    text = formula.strip()
    if not text.startswith("~") or "|" in text or not text[1:].strip():
        raise FormulaError(f"propensity_formula={formula!r}; needed is '~ features', such as '~ C(category) + score'")
    return text[1:].strip()
