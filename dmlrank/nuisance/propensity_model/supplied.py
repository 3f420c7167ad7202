"""What selection looked at, and propensities that come as objects: functions, plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from patsy import EvalEnvironment

from ...data.formula.features import check_features, fit_features, locate_names
from ...data.frames import column_names, take_columns
from ...data.preferences import FloatArray, PreferenceData
from ...exceptions import DataError, FormulaError, MissingDataError, NuisanceError, OptionTypeError, listed


def kept_rows(data: PreferenceData, frame: Any, unlabelled: Any, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Columns of the caller's frames, a row for every row that was kept.

    Parameters
    ----------
    data : PreferenceData
        Read from ``frame``, and from ``unlabelled`` where that is not None.
    frame, unlabelled : frame
        Columns that ``unlabelled`` does not have are missing in its rows.
    names : sequence of str, optional
        All columns of ``frame`` when None.
    """
    wanted = column_names(frame) if names is None else list(names)
    rows = take_columns(frame, wanted)
    if unlabelled is not None:
        available = column_names(unlabelled)
        rows = pd.concat([rows, take_columns(unlabelled, [name for name in wanted if name in available])])
    return rows.iloc[data.row_index].reset_index(drop=True)


def contexts_of(data: PreferenceData, frame: Any, unlabelled: Any) -> pd.DataFrame:
    """All columns of the caller's frames, a row per context in order of first appearance."""
    return kept_rows(data, frame, unlabelled).iloc[_first_rows(data)].reset_index(drop=True)


def selection_features(
    data: PreferenceData, formula: str, frame: Any, unlabelled: Any, environment: EvalEnvironment
) -> FloatArray:
    """Features of ``propensity_formula``, (n, q), one row per context.

    Parameters
    ----------
    data : PreferenceData
        Read from ``frame``.
    formula : str
        ``"~ features"``: what the selection of pairs may have looked at.
    frame, unlabelled : frame
    environment : EvalEnvironment
        Where functions of the formula are looked up.

    Raises
    ------
    FormulaError, ColumnError
        If the formula cannot be read.
    DataError, MissingDataError
        If a column varies within a context or is missing.
    """
    text = formula.strip()
    if not text.startswith("~") or "|" in text or not text[1:].strip():
        raise FormulaError(f"propensity_formula={formula!r}; needed is '~ features', such as '~ C(category) + score'")
    features = text[1:].strip()
    names = locate_names(features, column_names(frame), environment, data.n_rows, ())
    if names.arrays:
        raise FormulaError(f"propensity_formula uses {listed(names.arrays)}; it reads columns of the data only")
    rows = kept_rows(data, frame, unlabelled, names.columns)
    _check_constant(rows, data)
    x, feature_map = fit_features(features, dict(rows.iloc[_first_rows(data)].items()), data.n_contexts, environment)
    check_features(x, feature_map.names, keep_missing=False)
    return x


def propensity_table(data: PreferenceData, propensity: Any, frame: Any, unlabelled: Any) -> FloatArray:
    """Propensities of all pairs, (n, K, K), from an array, a function or a plan.

    A plan that says whether it has ``position_bias`` is translated where the data differ from it.

    Parameters
    ----------
    data : PreferenceData
    propensity : array_like, callable or plan
        A function takes the contexts (a DataFrame with all columns of the data, a row per context) and the models'
        names and returns the array. A plan is an object with an array ``propensity``; its ``models`` and ``contexts``,
        where it has them, are matched by name.
    frame, unlabelled : frame
        The caller's.

    Raises
    ------
    OptionTypeError, NuisanceError
        If it is none of these, or a plan is about other models or contexts.
    """
    if is_plan(propensity):
        return _of_plan(propensity, data)
    if callable(propensity):
        made = propensity(contexts_of(data, frame, unlabelled), list(data.items))
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
    return not isinstance(value, pd.DataFrame | np.ndarray) and np.ndim(getattr(value, "propensity", 0)) == 3


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


def _check_constant(rows: pd.DataFrame, data: PreferenceData) -> None:
    first = rows.iloc[_first_rows(data)].reset_index(drop=True).iloc[data.row_context].reset_index(drop=True)
    for name in rows.columns:
        if rows[name].isna().any():
            raise MissingDataError(f"propensity_formula: {name!r} is missing in {int(rows[name].isna().sum())} rows")
        varies = rows[name].map(_key) != first[name].map(_key)
        if varies.any():
            context = data.context_ids[data.row_context[int(np.flatnonzero(varies)[0])]]
            raise DataError(
                f"propensity_formula: {name!r} varies within context {context!r}; the propensity of all pairs of a "
                f"context is needed, so its features belong to the context"
            )


def _key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | np.ndarray) else value


def _first_rows(data: PreferenceData) -> Any:
    return np.unique(data.row_context, return_index=True)[1]
