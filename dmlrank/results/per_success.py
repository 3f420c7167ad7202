"""Costs per success: mean costs divided by mean scores, and ratios of two models, with joint intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._utils.argument_checks import place_of
from .._utils.computation import one_thread, warn
from ..data.preferences import FloatArray
from ..estimation.influence import Influence
from ..exceptions import DataError, IntervalWarning, listed
from ..fit.estimates import Estimates
from ..fit.fit_covariance import make_covariance
from ..fit.state import FitState
from ..inference.covariance import cluster_sums
from ..inference.simultaneous import MaxT
from .context_variables import costs_of_runs


@one_thread()
def table_per_success(e: Estimates, steps: FitState, column: str, against: str | None, alpha: float) -> pd.DataFrame:
    """Return mean costs per unit of the mean score, or their ratios, see :meth:`RankResults.per_success`."""
    costs, n_models = costs_of_runs(steps, e.models, column), len(e.models)
    own = steps.influence.by_context()
    parts = (np.hstack([own.value, costs]), np.hstack([own.correction, np.zeros_like(costs)]))
    influence = Influence(*parts, np.arange(len(costs)), np.ones(len(costs)), steps.influence.weight)
    joint = make_covariance(influence, np.empty((0, 2 * n_models)), steps.units, fixed_prompts=False)
    score, cost = influence.estimate[:n_models], influence.estimate[n_models:]
    for means, what in ((score, "score"), *([] if against is None else [(cost, "cost")])):
        if (means <= 0).any():
            none = listed([name for name, value in zip(e.models, means, strict=True) if value <= 0])
            raise DataError(f"the mean {what} of {none} is not above 0, so that there is no ratio; leave it out")
    names, below, above, change = e.models, score, cost, np.eye(2 * n_models)
    if against is not None:
        # The ratio of two costs per success is that of two products, c_j s_0 / (s_j c_0).
        base, (of_score, of_cost) = place_of(e.models, against), (change[:n_models], change[n_models:])
        other = np.delete(np.arange(n_models), base)
        names = tuple(f"{e.models[j]} / {against}" for j in other)
        below, above = score[other] * cost[base], cost[other] * score[base]
        of_below = cost[base] * of_score[other] + np.outer(score[other], of_cost[base])
        change = np.vstack([of_below, score[base] * of_cost[other] + np.outer(cost[other], of_score[base])])
    ratio = above / below
    # The derivative of a / b is (da - r db) / b.
    slope = np.hstack([np.diag(-ratio / below), np.diag(1 / below)]) @ change
    of_ratios = joint.of_combinations(slope)
    critical = MaxT(of_ratios, e.description.seed).critical(alpha, "max-t")
    low, high = fieller_limits(below, above, change @ joint.matrix @ change.T, critical)
    of_context = None if steps.units.clusters is None else steps.units.clusters.of_context
    doubt_of_skew(cluster_sums(influence, of_context)[0] @ slope.T, "costs per success")
    # Costs that cannot be negative have no negative ratio.
    low = np.maximum(low, 0.0) if (costs >= 0).all() else low
    first = {"score": score, "cost": cost, "per_success": ratio} if against is None else {"ratio": ratio}
    limits = {"std_error": of_ratios.std_errors, "lower": low, "upper": high}
    return pd.DataFrame(first | limits, index=names)


def fieller_limits(
    below: FloatArray, above: FloatArray, matrix: FloatArray, critical: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ratios r at which above - r below is within ``critical`` standard errors of zero, (J,) each.

    Where the denominator itself is that close to zero, no ratio is too large. Shapes: ``matrix`` of denominators and
    then numerators, (2 J, 2 J).
    """
    n, spread = len(below), critical**2 * matrix
    a, c = below**2 - np.diag(spread)[:n], above**2 - np.diag(spread)[n:]
    b = below * above - np.diag(spread[:n, n:])
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    is_bounded = a > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(is_bounded | (c > 0), c / (b + root), 0.0)
        high = np.where(is_bounded, (b + root) / a, np.inf)
    return low, high


def doubt_of_skew(rows: FloatArray, what: str) -> str:
    """Say, with a warning, that costs are too skewed for so few units, from what each adds to J estimates, (g, J).

    A mean of n values of skewness s is nearly normal if n > 25 s^2 (Cochran 1977, section 2.15). Here s is the median
    of all estimates. With six models, log-normal costs and 25 to 300 prompts, some joint interval of differences at
    95 % missed in 3 to 7 % of 150 samples in settings most of whose samples meet this, and in 6 to 42 % in those where
    most do not.
    """
    second, third = ((rows**power).mean(axis=0) for power in (2, 3))
    varying = second > 0
    skewness = float(np.median(np.abs(third[varying]) / second[varying] ** 1.5)) if varying.any() else 0.0
    if len(rows) >= 25 * skewness**2:
        return ""
    doubt = (
        f"Intervals of costs are too narrow: the {what} have a skewness of {skewness:.1f} (median), for which "
        f"{len(rows):,} prompts or clusters are too few; about {float(f'{25 * skewness**2:.2g}'):,.6g} or more are "
        f"needed."
    )
    warn(doubt, kind=IntervalWarning)
    return doubt
