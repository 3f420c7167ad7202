"""Costs per success: mean costs divided by mean scores, with joint intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._utils.computation import one_thread
from ..data.preferences import FloatArray
from ..estimation.influence import Influence
from ..exceptions import DataError, MissingDataError, listed
from ..fit.estimates import Estimates
from ..fit.fit_covariance import make_covariance
from ..fit.state import FitState
from ..inference.simultaneous import MaxT
from .context_variables import values_of_runs


@one_thread()
def table_per_success(e: Estimates, steps: FitState, column: str, alpha: float) -> pd.DataFrame:
    """Return mean costs per unit of the mean score, see :meth:`RankResults.per_success`."""
    costs, n_models = values_of_runs(steps, e.models, column, "votes have no costs"), len(e.models)
    if np.isnan(costs).any():
        counts = np.isnan(costs).sum(axis=0)
        j = int(counts.argmax())
        raise MissingDataError(
            f"column {column!r} has no value for {e.models[j]!r} on {counts[j]:,} of {len(costs):,} prompts; every "
            f"model needs a cost on every prompt, also where its runs failed or were lost"
        )
    own = steps.influence.by_context()
    parts = (np.hstack([own.value, costs]), np.hstack([own.correction, np.zeros_like(costs)]))
    influence = Influence(*parts, np.arange(len(costs)), np.ones(len(costs)), steps.influence.weight)
    joint = make_covariance(influence, np.empty((0, 2 * n_models)), steps.units, fixed_prompts=False)
    score, cost = influence.estimate[:n_models], influence.estimate[n_models:]
    if (score <= 0).any():
        none = listed([name for name, value in zip(e.models, score, strict=True) if value <= 0])
        raise DataError(f"the mean score of {none} is not above 0, so that there is no cost per success; leave it out")
    ratio = cost / score
    # The derivative of c / s is (dc - r ds) / s.
    of_ratios = joint.of_combinations(np.hstack([np.diag(-ratio / score), np.diag(1 / score)]))
    critical = MaxT(of_ratios, e.description.seed).critical(alpha, "max-t")
    low, high = fieller_limits(score, cost, joint.matrix, critical)
    frame = {"score": score, "cost": cost, "per_success": ratio, "std_error": of_ratios.std_errors}
    return pd.DataFrame({**frame, "lower": low, "upper": high}, index=e.models)


def fieller_limits(
    score: FloatArray, cost: FloatArray, matrix: FloatArray, critical: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ratios r at which cost - r score is within ``critical`` standard errors of zero, (K,) each.

    Where the score itself is that close to zero, no ratio is too large. Shapes: ``matrix`` of scores and then costs,
    (2 K, 2 K).
    """
    n, spread = len(score), critical**2 * matrix
    a, c = score**2 - np.diag(spread)[:n], cost**2 - np.diag(spread)[n:]
    b = score * cost - np.diag(spread[:n, n:])
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    is_bounded = a > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(is_bounded | (c > 0), c / (b + root), 0.0)
        high = np.where(is_bounded, (b + root) / a, np.inf)
    return low, high
