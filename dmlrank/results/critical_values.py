"""Critical values of a result, intervals of its scores, and draws of their t statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.argument_checks import check_alpha
from ..data.preferences import FloatArray, IntArray
from ..exceptions import OptionError, check_choice, shown
from ..fit.estimates import Estimates
from ..fit.fit_covariance import multiplier_bootstrap
from ..fit.state import FitSteps
from ..inference.alternatives import Alternative
from ..inference.compact_letters import letter_groups
from ..inference.covariance import Covariance
from ..inference.multiple_testing import max_t_critical_value, max_t_draws, max_t_p_values
from ..inference.pairwise import PairTests, compare_at_all_looks, compare_differences
from ..inference.ranks import Separation, separate, separate_at_all_looks, separate_each, separate_each_at_all_looks
from ..inference.resampling import Contrasts, MultiplierBootstrap, TStatisticDraws, differences, normal_draws
from ..inference.simultaneous import METHODS, critical_value
from ..inference.z_tests import two_sided_p_values, z_statistics
from ..plotting.intervals import Intervals
from ..plotting.theme import level_words, models_words
from ..report.leaderboard import rows_to_show
from ..report.statements import SummaryLevel, interval_method
from .lookup import require_intervals, require_steps


def alpha_or_default(alpha: float | None, default: float) -> float:
    """Return the user's alpha, or the default where the user gives None."""
    return default if alpha is None else check_alpha(alpha)


def alpha_of(estimates: Estimates, alpha: float | None) -> float:
    """Return the user's alpha for statements about a result, or the result's where the user gives None."""
    alpha, sequence = alpha_or_default(alpha, estimates.alpha), estimates.sequence
    if sequence is not None and alpha != sequence.alpha:
        raise OptionError(sequence.why_not_alpha(alpha))
    return alpha


def require_no_bootstrap(estimates: Estimates, bootstrap: str | None) -> None:
    """Raise where a bootstrap is asked for in a sequential view."""
    if bootstrap is not None and estimates.sequence is not None:
        raise OptionError(
            f"bootstrap={shown(bootstrap)} of a sequential view: the bootstrap draws the estimates of one look, not of "
            f"all looks; leave bootstrap= out"
        )


def interval_critical_value(
    estimates: Estimates,
    alpha: float,
    method: str = "max-t",
    *,
    bootstrap: str | None = None,
    steps: FitSteps | None = None,
) -> float:
    """Return the half-width of the scores' intervals in standard errors."""
    require_intervals(estimates, "intervals")
    require_no_bootstrap(estimates, bootstrap)
    if estimates.sequence is not None:
        check_choice(method, METHODS, "method")
        n_scores = 1 if method == "none" else int((estimates.std_errors > 0).sum())
        return estimates.sequence.critical(n_scores)
    if bootstrap is not None:
        return _bootstrap_critical_value(estimates, steps, alpha, method, bootstrap=bootstrap)
    if method == "max-t" and alpha == estimates.alpha:
        return estimates.critical
    return critical_value(estimates.covariance, alpha, method)


def critical_value_or_nan(
    estimates: Estimates,
    alpha: float,
    method: str = "max-t",
    *,
    bootstrap: str | None = None,
    steps: FitSteps | None = None,
) -> float:
    """Return the critical value for a table or picture: NaN where the result has no intervals."""
    check_choice(method, METHODS, "method")
    if not estimates.has_intervals and bootstrap is None:
        return float("nan")
    return interval_critical_value(estimates, alpha, method, bootstrap=bootstrap, steps=steps)


def _bootstrap_critical_value(
    estimates: Estimates, steps: FitSteps | None, alpha: float, method: str, *, bootstrap: str
) -> float:
    """Return the max-t critical value from a multiplier bootstrap."""
    if method != "max-t":
        raise OptionError(
            f"bootstrap={shown(bootstrap)} is not possible with method={method!r}; use method='max-t', or leave "
            f"bootstrap= out"
        )
    contrasts = _single_scores(estimates.covariance)
    if not len(contrasts.first):
        return critical_value(estimates.covariance, alpha, "none")
    maxima = max_t_draws(_bootstrap_draws(estimates, steps, bootstrap), contrasts, absolute=True)
    return max_t_critical_value(maxima, alpha, alpha / 2, len(contrasts.first), normal=False)


def _single_scores(covariance: Covariance) -> Contrasts:
    """Return the scores that vary as contrasts, each score alone."""
    places = np.arange(len(covariance.matrix))
    contrasts = differences(covariance, places, np.full(len(places), len(places)))
    return contrasts.take(contrasts.usable)


def adjusted_p_values(estimates: Estimates, steps: FitSteps | None, bootstrap: str | None = None) -> FloatArray:
    """Return two-sided p-values of the scores against the neutral value, or the mean score where there is none, (d,).

    They are adjusted for all scores by max-t, and in a sequential view by Bonferroni's method.
    """
    if bootstrap is None:
        return estimates.adjusted_p_values()
    z = z_statistics(*estimates.against_neutral())
    draws, covariance = _bootstrap_draws(estimates, steps, bootstrap), estimates.covariance
    if estimates.neutral is None:
        # A score is then tested against the mean score, which is a test of the score minus the mean score against zero.
        centring = np.eye(len(z)) - 1 / len(z)
        draws = draws.of_combinations(centring)
        covariance = replace(covariance, matrix=centring @ covariance.matrix @ centring)
    contrasts = _single_scores(covariance)
    contrasts = contrasts.take(~np.isnan(z[contrasts.first]))
    adjusted = np.full(len(z), np.nan)
    if len(contrasts.first):
        t = np.abs(z[contrasts.first])
        maxima = max_t_draws(draws, contrasts, absolute=True)
        adjusted[contrasts.first] = max_t_p_values(t, two_sided_p_values(t), maxima, normal=False)
    return adjusted


def summary_level(
    estimates: Estimates, steps: FitSteps | None, alpha: float, bootstrap: str | None = None
) -> SummaryLevel:
    """Return critical value, tests of ranks and letters for a table or page of a result.

    Without intervals there is no separation and there are no letters, and the critical value is NaN.
    """
    if bootstrap is None and not estimates.has_intervals:
        return SummaryLevel(alpha, float("nan"), None)
    critical = interval_critical_value(estimates, alpha, bootstrap=bootstrap, steps=steps)
    separation = separation_of_models(estimates, steps, alpha, bootstrap) if estimates.of_models else None
    letters = letter_groups(separation.separated, estimates.estimate) if separation else ()
    return SummaryLevel(alpha, critical, separation, letters, bootstrap)


def t_statistic_draws(estimates: Estimates, steps: FitSteps | None, bootstrap: str | None = None) -> TStatisticDraws:
    """Return joint draws of the scores' t statistics, which are the same for the same fit."""
    if bootstrap is None:
        return normal_draws(estimates.covariance, estimates.description.seed)
    return _bootstrap_draws(estimates, steps, bootstrap)


def _bootstrap_draws(estimates: Estimates, steps: FitSteps | None, bootstrap: str) -> MultiplierBootstrap:
    """Return draws of the scores' t statistics by the multiplier bootstrap."""
    fit_steps = require_steps(estimates, steps, f"bootstrap={bootstrap!r}")
    return multiplier_bootstrap(fit_steps, bootstrap, estimates.scale.factor, estimates.description.seed)


def separation_of_models(
    estimates: Estimates, steps: FitSteps | None, alpha: float, bootstrap: str | None = None
) -> Separation:
    """Test which models are above which."""
    e = estimates
    require_no_bootstrap(e, bootstrap)
    if e.sequence is not None:
        return separate_at_all_looks(e.estimate, e.covariance, e.sequence)
    return separate(e.estimate, e.covariance, t_statistic_draws(e, steps, bootstrap), alpha)


def separation_by_model(
    estimates: Estimates, steps: FitSteps | None, alpha: float, bootstrap: str | None = None
) -> NDArray[np.bool_]:
    """Return whether each model is above, and below, each other model, (K, K, 2), with a family of tests per model."""
    e = estimates
    if e.sequence is not None:
        return separate_each_at_all_looks(e.estimate, e.covariance, e.sequence)
    return separate_each(e.estimate, e.covariance, t_statistic_draws(e, steps, bootstrap), alpha)


def pair_tests(
    estimates: Estimates,
    steps: FitSteps | None,
    first: IntArray,
    second: IntArray,
    *,
    method: str,
    alternative: Alternative,
    alpha: float,
    bootstrap: str | None = None,
) -> PairTests:
    """Test differences of scores as one family, at one look or in a sequential view at all looks.

    Shapes: first, second (J,).
    """
    e = estimates
    require_no_bootstrap(e, bootstrap)
    if e.sequence is not None:
        return compare_at_all_looks(
            e.estimate, e.covariance, e.sequence, first, second, method=method, alternative=alternative
        )
    draws = t_statistic_draws(e, steps, bootstrap)
    return compare_differences(
        e.estimate, e.covariance, draws, first, second, method=method, alternative=alternative, alpha=alpha
    )


def adjustment_in_use(estimates: Estimates, method: str) -> str:
    """Return the adjustment of p-values that a result uses where a user asks for ``method``.

    The joint distribution of all differences at all looks is not known. A sequential view therefore uses Bonferroni's
    method for ``"max-t"``, and Holm's for ``"step-down"``.
    """
    if estimates.sequence is None:
        return method
    if method == "fdr_bh":
        raise OptionError(
            "method='fdr_bh' of a sequential view: the method of Benjamini and Hochberg controls the false discovery "
            "rate at one look, not over all looks; use 'max-t', 'step-down' or 'none'"
        )
    return {"max-t": "bonferroni", "step-down": "holm"}.get(method, method)


def interval_frame(estimates: Estimates, critical: float) -> pd.DataFrame:
    """Return intervals as a frame with ``lower`` and ``upper``, a row per estimate."""
    lower, upper = estimates.intervals(critical)
    return pd.DataFrame({"lower": lower, "upper": upper}, index=list(estimates.names))


def intervals_to_draw(
    estimates: Estimates,
    steps: FitSteps | None,
    alpha: float,
    *,
    models: Sequence[str] | None = None,
    top: int | None = None,
    bootstrap: str | None = None,
) -> Intervals:
    """Return simultaneous intervals for a forest plot, the best model first."""
    e = estimates
    scores = list(rows_to_show(e, models, top).places)
    chosen = [e.names[j] for j in scores]
    critical = critical_value_or_nan(e, alpha, bootstrap=bootstrap, steps=steps)
    limits = interval_frame(e, critical).loc[chosen]
    method = interval_method(e) if bootstrap is None else f"{interval_method(e)}, {bootstrap} bootstrap"
    level = level_words(alpha, method=method) if e.has_intervals else "estimates without intervals"
    level += f"\n{e.sequence.clause}" if e.sequence is not None else ""
    low, high = (limits[side].to_numpy() for side in ("lower", "upper"))
    counted_models = models_words(len(chosen), len(e.names), "models" if e.of_models else "outputs")
    part = f"\n{e.part}" if e.part else ""
    return Intervals(chosen, e.estimate[scores], low, high, score_label(e), f"{level}, {counted_models}{part}")


def score_label(estimates: Estimates) -> str:
    """Return the label of an axis of scores: the functional and the unit."""
    unit = "" if estimates.scale.natural else f", {estimates.scale.name}"
    return f"{'score' if estimates.of_models else 'estimate'}: {estimates.functional_label}{unit}"
