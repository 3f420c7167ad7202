"""Critical values of a result, intervals of its scores, and draws of their t statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_alpha
from ..exceptions import OptionError, check_choice
from ..fit.estimates import Estimates
from ..fit.fit_covariance import multiplier_bootstrap
from ..fit.state import FitSteps
from ..inference.multiple_testing import max_t_critical_value, max_t_draws
from ..inference.ranks import Separation, separate
from ..inference.resampling import TStatisticDraws, differences, normal_draws
from ..inference.simultaneous import METHODS, critical_value
from ..plotting.intervals import Intervals
from ..plotting.style import level_words, models_words
from ..report.fit_summary import rows_to_show
from .lookup import require_intervals, require_steps


def level_or_default(alpha: float | None, default: float) -> float:
    """Return the user's alpha, or the default where the user gives None.

    Raises
    ------
    OptionError, OptionTypeError
        If alpha is not a number between 0 and 1.
    """
    return default if alpha is None else check_alpha(alpha)


def interval_critical_value(
    estimates: Estimates,
    alpha: float,
    method: str = "max-t",
    *,
    bootstrap: str | None = None,
    steps: FitSteps | None = None,
) -> float:
    """Return the half-width of the scores' intervals in standard errors.

    Parameters
    ----------
    estimates : Estimates
    alpha : float
        One minus the level.
    method : {"max-t", "bonferroni", "none"}
    bootstrap : {"gaussian", "rademacher", "webb"}, optional
        Multiplier bootstrap in place of the normal distribution, for ``"max-t"``.
    steps : FitSteps, optional
        Needed for a bootstrap only.

    Raises
    ------
    NoIntervalError
        If the result has no intervals.
    OptionError
        If the method is unknown, or has no bootstrap.
    DataNotStoredError
        If there are no steps for a bootstrap.
    """
    require_intervals(estimates, "intervals")
    if bootstrap is not None:
        return _bootstrap_critical_value(estimates, steps, alpha, method, bootstrap=bootstrap)
    if method == "max-t" and alpha == estimates.alpha:
        return estimates.critical
    return critical_value(estimates.covariance, alpha, method)


def critical_value_or_nan(estimates: Estimates, alpha: float, method: str = "max-t") -> float:
    """Return the critical value for a table: NaN where the result has no intervals."""
    check_choice(method, METHODS, "method")
    return interval_critical_value(estimates, alpha, method) if estimates.has_intervals else float("nan")


def _bootstrap_critical_value(
    estimates: Estimates, steps: FitSteps | None, alpha: float, method: str, *, bootstrap: str
) -> float:
    """Return the max-t critical value from a multiplier bootstrap.

    Parameters
    ----------
    estimates : Estimates
    steps : FitSteps or None
    alpha : float
        One minus the level.
    method : str
        Only ``"max-t"`` has a bootstrap.
    bootstrap : {"gaussian", "rademacher", "webb"}
    """
    if method != "max-t":
        raise OptionError(
            f"bootstrap={bootstrap!r} is not possible with method={method!r}; use method='max-t', or leave bootstrap= "
            f"out"
        )
    covariance, places = estimates.covariance, np.arange(len(estimates.names))
    contrasts = differences(covariance, places, np.full(len(places), len(places)))
    contrasts = contrasts.take(contrasts.usable)
    if not len(contrasts.first):
        return critical_value(covariance, alpha, "none")
    draws = t_statistic_draws(estimates, steps, bootstrap)
    maxima = max_t_draws(draws, contrasts, absolute=True)
    return max_t_critical_value(maxima, alpha, alpha / 2, len(contrasts.first), draws.normal)


def t_statistic_draws(estimates: Estimates, steps: FitSteps | None, bootstrap: str | None = None) -> TStatisticDraws:
    """Return joint draws of the scores' t statistics, which are the same for the same fit.

    Parameters
    ----------
    estimates : Estimates
    steps : FitSteps or None
        Needed for a bootstrap only.
    bootstrap : {"gaussian", "rademacher", "webb"}, optional
        Multipliers of the influence values; normal draws when None.

    Raises
    ------
    DataNotStoredError
        If there are no steps for a bootstrap.
    """
    if bootstrap is None:
        return normal_draws(estimates.covariance, estimates.description.seed)
    fit_steps = require_steps(estimates, steps, f"bootstrap={bootstrap!r}")
    return multiplier_bootstrap(fit_steps, bootstrap, estimates.scale.factor, estimates.description.seed)


def separation_of_models(
    estimates: Estimates, steps: FitSteps | None, alpha: float, bootstrap: str | None = None
) -> Separation:
    """Test which models are above which.

    Parameters
    ----------
    estimates : Estimates
    steps : FitSteps or None
        Needed for a bootstrap only.
    alpha : float
        One minus the joint level.
    bootstrap : {"gaussian", "rademacher", "webb"}, optional
    """
    return separate(estimates.estimate, estimates.covariance, t_statistic_draws(estimates, steps, bootstrap), alpha)


def interval_frame(estimates: Estimates, critical: float) -> pd.DataFrame:
    """Return intervals as a frame with ``lower`` and ``upper``, a row per estimate."""
    lower, upper = estimates.intervals(critical)
    return pd.DataFrame({"lower": lower, "upper": upper}, index=list(estimates.names))


def intervals_to_draw(
    estimates: Estimates, alpha: float, *, models: Sequence[str] | None = None, top: int | None = None
) -> Intervals:
    """Return simultaneous intervals for a forest plot, the best model first.

    Parameters
    ----------
    estimates : Estimates
    alpha : float
        One minus the joint level, over all models.
    models : sequence of str, optional
        Models in the picture; all when None.
    top : int, optional
        Number of the best models in the picture.
    """
    e = estimates
    scores = list(rows_to_show(e, models, top).places)
    chosen = [e.names[j] for j in scores]
    limits = interval_frame(e, critical_value_or_nan(e, alpha)).loc[chosen]
    level = level_words(alpha) if e.has_intervals else "estimates without intervals"
    low, high = (limits[side].to_numpy() for side in ("lower", "upper"))
    counted_models = models_words(len(chosen), len(e.names), "models" if e.of_models else "outputs")
    part = f"\n{e.part}" if e.part else ""
    return Intervals(chosen, e.estimate[scores], low, high, score_label(e), f"{level}, {counted_models}{part}")


def score_label(estimates: Estimates) -> str:
    """Return the label of an axis of scores: the functional and the unit."""
    unit = "" if estimates.scale.natural else f", {estimates.scale.name}"
    return f"{'score' if estimates.of_models else 'estimate'}: {estimates.functional_label}{unit}"
