"""Margins of pairs of models of a fit: win share of one model minus that of the other, with standard errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._utils.computation import computing
from .._utils.warning_collection import collected_warnings
from ..data.preferences import FloatArray, IntArray
from ..estimation.influence import Estimands
from ..estimation.one_step import one_step
from ..functionals.linear_scores import PairMargins
from ..inference.covariance import Covariance
from .fit_covariance import covariance_of
from .state import FitSteps

# Largest number of influence values (contexts times pairs) that are stored at a time: 240 MB.
MAX_VALUES = 30_000_000
# Largest number of pairs whose joint covariance is computed.
MAX_JOINT = 1_500


class Margins(NamedTuple):
    """Margins of P pairs of models.

    estimate, std_error (P,): Margins and their standard errors.
    covariance: Joint covariance; None where the pairs or the contexts are too many.
    """

    estimate: FloatArray
    std_error: FloatArray
    covariance: Covariance | None


def pair_margins(
    steps: FitSteps, item: IntArray, opponent: IntArray, *, max_values: int = MAX_VALUES, max_joint: int = MAX_JOINT
) -> Margins:
    """Estimate the margins of pairs of models with the estimator and the type of covariance of the fit.

    Shapes: item, opponent (P,).
    """
    # Without features the influence values are those of groups of identical contexts, which need little memory.
    is_grouped = steps.mu.by_fold() is not None and steps.verdicts is None and steps.blocks.one_per_context
    size = max_joint if is_grouped else min(max_joint, max(1, max_values // steps.data.n_contexts))
    parts = [slice(start, start + size) for start in range(0, len(item), size)]
    with collected_warnings():
        # The fit has already warned of few clusters.
        estimates = [_margins_of(steps, item[part], opponent[part]) for part in parts]
    return Margins(
        np.concatenate([estimate for estimate, _ in estimates]),
        np.concatenate([covariance.std_errors for _, covariance in estimates]),
        estimates[0][1] if len(estimates) == 1 else None,
    )


def _margins_of(steps: FitSteps, item: IntArray, opponent: IntArray) -> tuple[FloatArray, Covariance]:
    """Estimate the margins of some pairs, (p,), with their covariance."""
    score = PairMargins(steps.setup.weights, item, opponent)
    with computing(steps.options.n_jobs):
        influences = [
            one_step(Estimands(score), steps.data, r.nuisances, steps.blocks, steps.population(r)).target
            for r in steps.repetitions
        ]
    influence = steps.estimator.average(influences)
    uniform_covariance = steps.uniform_covariance(score, pooled=False)
    covariance = covariance_of(
        steps,
        influence,
        np.empty((0, len(item))),
        steps.estimator.estimates(influences),
        uniform_covariance=uniform_covariance,
    )
    return influence.estimate, covariance
