"""Predicted precision of a plan: standard errors, widths of intervals and power, and the budget that reaches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from ..data.preferences import FloatArray
from ..exceptions import OptionError, check_choice
from ..inference.covariance import Covariance, free_basis
from ..inference.ranks import critical_value_of_differences
from ..inference.resampling import normal_draws
from ..inference.simultaneous import METHODS, critical_value
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


def pair_critical_value(specification: PlanSpecification, solution: PlanSolution, alpha: float, method: str) -> float:
    """Critical value of the test that two of the scores are equal.

    Parameters
    ----------
    specification : PlanSpecification
    solution : PlanSolution
    alpha : float
    method : {"max-t", "bonferroni", "none"}
        Whether the family-wise error of all pairs is held, as a summary and ``t_test_pairwise`` hold it, or that of one
        pair, which was chosen before there were data.
    """
    check_choice(method, METHODS, "method")
    n_scores = len(specification.scores)
    if method != "max-t":
        n_pairs = n_scores * (n_scores - 1) // 2 if method == "bonferroni" else 1
        return float(norm.ppf(1 - alpha / (2 * n_pairs)))
    covariance = contrast_covariance(specification, solution.sigma, np.eye(n_scores))
    return critical_value_of_differences(covariance, normal_draws(covariance, specification.seed), alpha)


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
        If labelling everything is not enough, or the labels that are there are.
    """
    problem = specification.problem
    # The information of a label does not depend on the budget, unless the criterion looks at all of Sigma.
    information = (
        problem.label_information(specification.precision.metric(specification.between_covariance))
        if specification.precision.linear and not problem.interdependent
        else None
    )

    def solution_at(log_budget: float, certify: bool = True) -> PlanSolution:
        return solve(specification, float(np.exp(log_budget)), information=information, certify=certify)

    def log_excess(log_budget: float) -> float:
        return float(np.log(excess(solution_at(log_budget, certify=False))))

    everything = solve(specification, problem.total_cost, information=information, certify=False)
    if excess(everything) > 1:
        raise OptionError(explain(everything))
    earlier = specification.earlier
    if earlier is not None and excess(replace(everything, sigma=earlier.alone(specification.between_covariance))) <= 1:
        raise OptionError(
            "the labels that the fit has reach that without any further one; ask for more, or plan for an estimate "
            "from new labels alone (from_scratch=True)"
        )
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
