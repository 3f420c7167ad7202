"""Predicted precision of a plan: standard errors, widths of intervals and power, and the budget that reaches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from .._utils.blas import one_thread
from ..data.preferences import FloatArray
from ..exceptions import OptionError, check_choice
from ..inference.covariance import Covariance, free_basis
from ..inference.ranks import critical_value_of_differences
from ..inference.resampling import normal_draws
from ..inference.simultaneous import METHODS, critical_value
from .criteria import SearchOptions
from .specification import PlanSolution, PlanSpecification, solve

# Relative precision of a budget that is searched for.
_CLOSE = 1e-4


def contrast_covariance(specification: PlanSpecification, sigma: FloatArray, rows: FloatArray) -> Covariance:
    """Return the predicted covariance of combinations of scores, (J, J).

    Its rank is known: combinations that the functional fixes have no variance.

    Shapes: sigma (K, K), rows (J, K).
    """
    # The combinations in coordinates of those that the functional does not fix.
    free_rows = rows @ free_basis(specification.gauge, rows.shape[1])
    directions, size, _ = np.linalg.svd(free_rows, full_matrices=False)
    matrix = rows @ sigma @ rows.T / specification.problem.n_contexts
    return Covariance(matrix, directions[:, size > 1e-9 * size[0]])


@one_thread()
def predicted_precision(
    specification: PlanSpecification,
    solution: PlanSolution,
    rows: FloatArray,
    labels: Sequence[str],
    *,
    alpha: float,
    method: str,
) -> pd.DataFrame:
    """Return scores, predicted standard errors and full widths of intervals, for the plan and the uniform plan.

    Shapes: rows (J, K).
    """
    columns: dict[str, FloatArray] = {"score": rows @ specification.scores}
    for prefix, sigma in (("", solution.sigma), ("uniform_", solution.uniform_sigma)):
        covariance = contrast_covariance(specification, sigma, rows)
        columns[f"{prefix}std_error"] = covariance.std_errors
        columns[f"{prefix}width"] = 2 * critical_value(covariance, alpha, method) * covariance.std_errors
    columns["ratio"] = np.divide(
        columns["std_error"],
        columns["uniform_std_error"],
        out=np.ones(len(rows)),
        where=columns["uniform_std_error"] > 0,
    )
    return pd.DataFrame(columns, index=list(labels))


@one_thread()
def max_width(specification: PlanSpecification, solution: PlanSolution, alpha: float, method: str) -> float:
    """Return the largest full width of the intervals of the target contrasts, or of all scores."""
    contrasts = specification.contrasts
    rows = contrasts if len(contrasts) else np.eye(len(specification.names.scores))
    covariance = contrast_covariance(specification, solution.sigma, rows)
    return float(2 * critical_value(covariance, alpha, method) * covariance.std_errors.max())


@one_thread()
def pair_critical_value(specification: PlanSpecification, solution: PlanSolution, alpha: float, method: str) -> float:
    """Return the critical value of the test that two of the scores are equal."""
    check_choice(method, METHODS, "method")
    n_scores = len(specification.scores)
    if method != "max-t":
        n_pairs = n_scores * (n_scores - 1) // 2 if method == "bonferroni" else 1
        return float(norm.ppf(1 - alpha / (2 * n_pairs)))
    covariance = contrast_covariance(specification, solution.sigma, np.eye(n_scores))
    return critical_value_of_differences(covariance, normal_draws(covariance, specification.seed), alpha)


@one_thread()
def cheapest_solution(
    specification: PlanSpecification,
    start: float,
    relative_width: Callable[[PlanSolution], float],
    explain: Callable[[PlanSolution], str],
    *,
    sample_size: int = 4_000,
) -> PlanSolution:
    """Return the solution of the smallest budget that reaches a width or a power, to four figures."""
    problem = specification.problem
    solver = _Solver(specification)
    all_labelled = solver.at(problem.total_cost, certify=False)
    if relative_width(all_labelled) > 1:
        raise OptionError(explain(all_labelled))
    earlier = specification.earlier
    if (
        earlier is not None
        and relative_width(replace(all_labelled, sigma=earlier.without_plan(specification.between_covariance))) <= 1
    ):
        raise OptionError(
            "the labels of the fit already reach this precision without further labels; ask for a higher precision, or "
            "plan for an estimate from new labels alone (from_scratch=True)"
        )
    # The search is on the log scale. Without a sample, it first looks between half of ``start`` and twice ``start``.
    largest_log, margin = float(np.log(all_labelled.expected_cost)), 0.7
    sample_size = problem.sample_size(sample_size)
    if problem.n_rows > 4 * sample_size:
        # A random sample of the rows needs nearly the same budget in proportion, and takes little time.
        sample = problem.sampled(sample_size)
        share = sample.total_cost / problem.total_cost
        sample_solver = _Solver(replace(specification, problem=sample))
        start = (
            sample_solver.cheapest(start * share, largest_log + float(np.log(share)), relative_width, margin) / share
        )
        # The budget of all rows is within a few percent of the sample's.
        margin = 0.02
    return solver.at(solver.cheapest(start, largest_log, relative_width, margin))


class _Solver:
    """Solutions of a specification for several budgets; each search begins at the solution of the budget before."""

    def __init__(self, specification: PlanSpecification) -> None:
        self._specification = specification
        self._latest: PlanSolution | None = None
        problem, precision = specification.problem, specification.precision
        # Where the objective is linear, its derivative and the information of a label do not depend on the budget.
        self._rates = None
        if precision.linear and not problem.interdependent:
            self._rates = problem.label_rates(precision.metric(specification.between_covariance))

    def at(self, budget: float, certify: bool = True) -> PlanSolution:
        """Return the solution within a budget; ``certify`` computes how far it violates the optimality conditions."""
        start = None if self._latest is None else self._latest.start.at_budget(budget / self._latest.budget)
        options = SearchOptions(certify=certify)
        self._latest = solve(self._specification, budget, rates=self._rates, start=start, options=options)
        return self._latest

    def cheapest(
        self, start: float, largest_log: float, relative_width: Callable[[PlanSolution], float], margin: float
    ) -> float:
        """Return the smallest budget with ``relative_width(solution) <= 1``."""

        def log_ratio(log_budget: float) -> float:
            return float(np.log(relative_width(self.at(float(np.exp(log_budget)), certify=False))))

        least, min_propensity = -np.inf, self._specification.min_propensity
        if min_propensity is not None:
            least = float(np.log(min_propensity * self._specification.problem.total_cost))
            if log_ratio(least) <= 0:
                return float(np.exp(least))
        middle, step = min(float(np.log(start)), largest_log), 2 * margin
        low, high = max(middle - margin, least), min(middle + margin, largest_log)
        while log_ratio(low) <= 0:
            high, low, step = low, max(low - step, least), 2 * step
        while high < largest_log and log_ratio(high) > 0:
            low, high, step = high, min(high + step, largest_log), 2 * step
        budget = float(brentq(log_ratio, low, high, xtol=_CLOSE / 4)) if log_ratio(high) < 0 else high
        # The root may lie just below the budget that is large enough.
        while log_ratio(budget) > 0 and budget < largest_log:
            budget += _CLOSE / 2
        return float(np.exp(budget))
