"""Sensitivity analysis of a result: refusal of fits without bounds, default hypotheses, and the unit of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Real
from typing import cast

import numpy as np
import pandas as pd

from .._utils.argument_checks import real_number
from .._utils.warning_collection import warn
from ..data.derived_pairs import DerivedPairs
from ..data.hypotheses import HypothesisLike, LinearHypothesis, read_hypothesis
from ..data.preferences import FloatArray
from ..estimation.omitted_variables import label_spread, robustness_value
from ..exceptions import HypothesisError, IntervalWarning, OptionError, OptionTypeError, shown
from ..fit.estimates import Estimates
from ..fit.state import FitSteps
from ..report.leaderboard import functional_unit
from ..sensitivity.benchmark import benchmark_frame
from ..sensitivity.sensitivity_results import SensitivityResults
from ..sensitivity.vote_bounds import (
    BoundEvaluation,
    Bounds,
    SensitivityNumbers,
    distances,
    extend_to_tipping_points,
    tipping_gammas,
)
from .lookup import require_intervals, require_steps
from .ranking import compare_models

# A contrast is fixed by the functional where its standard error is below this share of the largest standard error of a
# score, times the largest absolute coefficient of the contrast.
_FIXED = 1e-9


def analyse_sensitivity(
    estimates: Estimates, steps: FitSteps | None, hypothesis: HypothesisLike | None, gamma: object
) -> SensitivityResults:
    """Return bounds, tipping points and robustness values, see :meth:`RankResults.sensitivity`."""
    gammas = read_gammas(gamma)
    fit_steps = steps_of_debiased_fit(estimates, steps, "sensitivity")
    contrasts, value, critical = _contrasts(estimates, fit_steps, hypothesis)
    scale, alpha = estimates.scale, estimates.alpha
    evaluation = BoundEvaluation.of(fit_steps, contrasts.matrix, critical)
    if not evaluation.battles.n_unvoted:
        _warn_of_missing_battles()
    bounds = extend_to_tipping_points(
        evaluation.at(sorted({1.0, *gammas}), alpha), value, lambda further: evaluation.at(further, alpha)
    )
    estimate, std_error = (bounds.lower[0] + bounds.upper[0]) / 2, bounds.lower_error[0]
    spread = spread_of_labels(fit_steps, contrasts.matrix)
    shift = scale.shift * contrasts.matrix.sum(axis=1)
    shown = _rescaled(bounds, scale.factor, shift)
    numbers = SensitivityNumbers(
        result_frame=_frame(shown, contrasts.labels, gammas),
        tipping=_tipping_frame(bounds, contrasts.labels, value, spread),
        hypothesis=contrasts,
        estimate=scale.factor * estimate + shift,
        std_error=scale.factor * std_error,
        critical=float(bounds.critical[0]),
        spread=scale.factor * spread,
        curve=shown,
        gammas=gammas,
        alpha=alpha,
        functional=functional_unit(estimates),
        is_natural=scale.natural,
        n_shown=len(evaluation.battles),
        n_unvoted=evaluation.battles.n_unvoted,
        is_sharp=evaluation.is_sharp,
        is_linear=fit_steps.setup.functional.linear,
        is_chosen_by_data=hypothesis is None,
    )
    return SensitivityResults(numbers, partial(benchmark_frame, fit_steps, numbers, scale.factor))


def spread_of_labels(steps: FitSteps, contrasts: FloatArray) -> FloatArray:
    """Return the spread B of each contrast, (J,), averaged over repetitions; ``contrasts`` has the shape (J, K).

    The bias from an omitted variable is proportional to B (:mod:`dmlrank.estimation.omitted_variables`).
    """
    functional = steps.setup.functional
    by_repetition = [
        label_spread(functional, contrasts, steps.data, repetition.nuisances, steps.population(repetition))
        for repetition in steps.repetitions
    ]
    return np.asarray(np.mean(by_repetition, axis=0))


def _tipping_frame(bounds: Bounds, labels: Sequence[str], value: FloatArray, spread: FloatArray) -> pd.DataFrame:
    """Return tipping points and robustness values, a row per contrast.

    Shapes: value (J,), spread (J,).
    """
    distance = np.abs((bounds.lower[0] + bounds.upper[0]) / 2 - value)
    beyond_interval = np.maximum(distance - bounds.critical[0] * bounds.lower_error[0], 0.0)
    of_bounds, of_limits = distances(bounds, value)
    return pd.DataFrame(
        {
            "hypothesis": list(labels),
            "gamma_estimate": tipping_gammas(bounds.gamma, of_bounds),
            "gamma_interval": tipping_gammas(bounds.gamma, of_limits),
            "rv": robustness_value(distance, spread),
            "rv_alpha": robustness_value(beyond_interval, spread),
        }
    )


def read_gammas(gamma: object) -> tuple[float, ...]:
    """Return the values of gamma, sorted, each once."""
    values: object = [gamma] if isinstance(gamma, Real) else gamma
    is_list = isinstance(values, list | tuple | range) or (isinstance(values, np.ndarray) and values.ndim == 1)
    if not is_list:
        raise OptionTypeError(f"gamma is a {type(gamma).__name__}; allowed: numbers of at least 1, such as (1, 1.5, 2)")
    numbers = set()
    for value in cast(Sequence[object], values):
        number = real_number(value)
        if number is None:
            raise OptionTypeError(f"gamma holds {shown(value)}; allowed: numbers of at least 1, such as (1, 1.5, 2)")
        if not (np.isfinite(number) and number >= 1):
            raise OptionError(
                f"gamma holds {shown(value)}; allowed: finite numbers of at least 1, because gamma bounds an odds "
                f"ratio from above and 1/gamma bounds it from below"
            )
        numbers.add(number)
    if not numbers:
        raise OptionError("gamma is empty; give at least one number, such as gamma=1.5")
    return tuple(sorted(numbers))


def steps_of_debiased_fit(estimates: Estimates, steps: FitSteps | None, method: str) -> FitSteps:
    """Return the steps of a debiased fit with its data; refuse other fits with the reason."""
    if not estimates.estimated_by.is_unrestricted_one_step:
        raise OptionError(
            f"{method}() with estimator={estimates.estimator!r}: the bounds are those of the debiased estimator; use "
            f"update(estimator='debiased').{method}()"
        )
    fit_steps = require_steps(estimates, steps, method)
    require_intervals(estimates, method)
    options = fit_steps.options
    if isinstance(fit_steps.source.data, DerivedPairs):
        raise OptionError(
            f"{method}() with comparisons made from scores or rankings: nobody voted on single battles, so that "
            f"voting cannot depend on the label; fit a frame of battles"
        )
    if options.judge is not None:
        raise OptionError(
            f"{method}() with judge=: the bounds have no formula for verdicts, which exist without votes; use "
            f"update(judge=None).{method}()"
        )
    if options.adjust is not None:
        raise OptionError(
            f"{method}() with adjust=: the bounds have no formula for an adjustment for style; use "
            f"update(adjust=None).{method}()"
        )
    if options.average != "scores":
        raise OptionError(
            f"{method}() with average={options.average!r}: the bounds are those of the mean scores of the prompts; "
            f"use update(average='scores').{method}()"
        )
    if fit_steps.sample is not None:
        raise OptionError(
            f"{method}() with subsample=: the bounds need the preferences in all prompts; use "
            f"update(subsample=None).{method}()"
        )
    return fit_steps


def _contrasts(
    estimates: Estimates, steps: FitSteps, hypothesis: HypothesisLike | None
) -> tuple[LinearHypothesis, FloatArray, float]:
    """Return the contrasts, their values in the functional's own unit, and the critical value of a larger family."""
    if hypothesis is None and not estimates.of_models:
        raise OptionError(
            "sensitivity() of a functional whose outputs are not scores of models needs a hypothesis about these "
            f"outputs, such as {estimates.names[0]!r}"
        )
    if hypothesis is None:
        ranking = np.argsort(-estimates.estimate, kind="stable")
        matrix = np.zeros((len(ranking) - 1, len(ranking)))
        rows = np.arange(len(matrix))
        matrix[rows, ranking[:-1]], matrix[rows, ranking[1:]] = 1.0, -1.0
        contrasts = read_hypothesis(matrix, estimates.names)
        critical = critical_value_of_pairs(estimates, steps)
    else:
        contrasts, critical = read_hypothesis(hypothesis, estimates.names), 0.0
    require_free_contrasts(estimates, contrasts)
    scale = estimates.scale
    value = (contrasts.value - scale.shift * contrasts.matrix.sum(axis=1)) / scale.factor
    return contrasts, value, critical


def critical_value_of_pairs(estimates: Estimates, steps: FitSteps) -> float:
    """Return the half-width of the intervals of all differences of models, in standard errors."""
    pairwise = compare_models(
        estimates,
        steps,
        "max-t",
        models=None,
        against=None,
        side="two-sided",
        delta=0.0,
        alpha=None,
        bootstrap=None,
    )
    return pairwise.critical


def require_free_contrasts(estimates: Estimates, contrasts: LinearHypothesis) -> None:
    """Raise where the functional fixes the value of a contrast."""
    matrix = contrasts.matrix
    error = np.sqrt(np.square(matrix @ estimates.covariance.factor).sum(axis=1))
    largest = max(estimates.covariance.std_errors.max(), 1e-300)
    is_fixed = error <= _FIXED * largest * np.abs(matrix).max(axis=1)
    if is_fixed.any():
        label = contrasts.labels[int(np.flatnonzero(is_fixed)[0])]
        raise HypothesisError(
            f"{label} has the same value whatever the data are ({estimates.reason}); give a contrast that can vary, "
            f"such as the difference of two models"
        )


def _rescaled(bounds: Bounds, factor: float, shift: FloatArray) -> Bounds:
    """Return bounds in the unit in which scores are shown."""
    return Bounds(
        bounds.gamma,
        factor * bounds.lower + shift,
        factor * bounds.upper + shift,
        factor * bounds.lower_error,
        factor * bounds.upper_error,
        bounds.critical,
    )


def _frame(bounds: Bounds, labels: Sequence[str], gammas: Sequence[float]) -> pd.DataFrame:
    """Return a row per hypothesis and gamma that the user asked for."""
    rows = np.flatnonzero(np.isin(bounds.gamma, gammas))
    columns = {"hypothesis": np.repeat(np.array(labels, dtype=object), len(rows))}
    columns["gamma"] = np.tile(bounds.gamma[rows], len(labels))
    for name in ("lower", "upper", "conf_lower", "conf_upper"):
        columns[name] = getattr(bounds, name)[rows].T.ravel()
    return pd.DataFrame(columns)


def _warn_of_missing_battles() -> None:
    """Warn that the bounds are wide, because battles without a vote are not in the data."""
    warn(
        "the data have no shown battles without a vote (rows with two models and a missing winner): sensitivity counts "
        "every pair without a vote as one on which people refrained from voting, so that the bounds are wide; keep the "
        "battles without a vote in the data",
        stacklevel=4,
        kind=IntervalWarning,
    )
