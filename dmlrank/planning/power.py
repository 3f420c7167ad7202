"""Predicted precision of a plan: standard errors, widths of intervals and power, and the budget that reaches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from ..data.preferences import FloatArray
from ..exceptions import OptionError
from ..inference.covariance import Covariance, free_basis
from ..inference.simultaneous import critical_value
from .specification import PlanSolution, PlanSpecification, solve

# Relative precision of a budget that is searched for.
_CLOSE = 1e-4


def contrast_covariance(specification: PlanSpecification, sigma: FloatArray, rows: FloatArray) -> Covariance:
    """Predicted covariance of combinations of scores, (J, J), with the rank that the functional's gauge leaves."""
    moving = rows @ free_basis(specification.gauge, rows.shape[1])
    directions, size, _ = np.linalg.svd(moving, full_matrices=False)
    matrix = rows @ sigma @ rows.T / specification.problem.n_contexts
    return Covariance(matrix, directions[:, size > 1e-9 * size[0]])


def predicted_precision(
    specification: PlanSpecification,
    solution: PlanSolution,
    rows: FloatArray,
    labels: Sequence[str],
    *,
    alpha: float,
    method: str,
) -> pd.DataFrame:
    """Scores, predicted standard errors and full widths of intervals, beside the uniform plan's at the same cost.

    Parameters
    ----------
    specification : PlanSpecification
    solution : PlanSolution
    rows : ndarray, shape (J, K)
        Combinations of scores, with their labels.
    labels : sequence of str, length J
    alpha : float
    method : {"max-t", "bonferroni", "none"}
    """
    made: dict[str, FloatArray] = {"score": rows @ specification.scores}
    for prefix, sigma in (("", solution.sigma), ("uniform_", solution.uniform_sigma)):
        covariance = contrast_covariance(specification, sigma, rows)
        made[f"{prefix}std_error"] = covariance.std_errors
        made[f"{prefix}width"] = 2 * critical_value(covariance, alpha, method) * covariance.std_errors
    made["ratio"] = np.divide(
        made["std_error"],
        made["uniform_std_error"],
        out=np.ones(len(rows)),
        where=made["uniform_std_error"] > 0,
    )
    return pd.DataFrame(made, index=list(labels))


def max_width(specification: PlanSpecification, solution: PlanSolution, alpha: float, method: str) -> float:
    """The largest full width of the intervals of the target contrasts, or of all scores."""
    contrasts = specification.contrasts
    rows = contrasts if len(contrasts) else np.eye(len(specification.names.scores))
    covariance = contrast_covariance(specification, solution.sigma, rows)
    return float(2 * critical_value(covariance, alpha, method) * covariance.std_errors.max())


def power_of(difference: float, std_error: float, alpha: float) -> float:
    """Power of the two-sided z test of no difference.

    Examples
    --------
    >>> round(power_of(2.8, 1.0, 0.05), 2)
    0.8
    """
    critical = norm.ppf(1 - alpha / 2)
    return float(norm.cdf(difference / std_error - critical) + norm.cdf(-difference / std_error - critical))


def required_std_error(difference: float, power: float, alpha: float) -> float:
    """The standard error at which the two-sided z test of no difference has the power, which is above alpha."""
    distance = brentq(lambda z: power_of(z, 1.0, alpha) - power, 0.0, 40.0, xtol=1e-12)
    return abs(difference) / float(distance)


def cheapest_solution(
    specification: PlanSpecification,
    start: float,
    excess: Callable[[PlanSolution], float],
    explain: Callable[[PlanSolution], str],
) -> PlanSolution:
    """The solution of the smallest budget with ``excess(solution) <= 1``, to four figures.

    Parameters
    ----------
    specification : PlanSpecification
    start : float
        Where the search begins.
    excess : callable
        What a solution reaches over what it should, falling in the budget.
    explain : callable
        The error for a solution that labels everything and does not reach it.

    Raises
    ------
    OptionError
        If labelling everything is not enough.
    """
    problem, criterion = specification.problem, specification.criterion
    # The information of a label does not depend on the budget, unless the criterion looks at all of Sigma.
    information = (
        problem.label_information(criterion.metric(specification.between_covariance))
        if criterion.kind == "A" and not problem.interdependent
        else None
    )

    def solution_at(log_budget: float, certify: bool = True) -> PlanSolution:
        return solve(specification, float(np.exp(log_budget)), information=information, certify=certify)

    def log_excess(log_budget: float) -> float:
        return float(np.log(excess(solution_at(log_budget, certify=False))))

    everything = solve(specification, problem.total_cost, information=information, certify=False)
    if excess(everything) > 1:
        raise OptionError(explain(everything))
    top = float(np.log(everything.expected_cost))
    least = -np.inf
    if specification.min_propensity is not None:
        least = float(np.log(specification.min_propensity * problem.total_cost))
        if log_excess(least) <= 0:
            return solution_at(least)
    low = max(min(float(np.log(start)), top) - 0.7, least)
    while log_excess(low) <= 0:
        top, low = low, max(low - 1.5, least)
    found = float(brentq(log_excess, low, top, xtol=_CLOSE / 4)) if log_excess(top) < 0 else top
    while log_excess(found) > 0:
        found += _CLOSE / 2
    return solution_at(found)
