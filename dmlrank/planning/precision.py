"""Predicted precision of a plan, the budget that reaches it, and the loss where the probabilities are wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike

from .._utils.computation import one_thread
from .._utils.laws import normal_critical
from ..data.preferences import FloatArray
from ..exceptions import NuisanceError, OptionError, check_choice
from ..inference.covariance import Covariance, free_basis
from ..inference.ranks import smallest_gap
from ..inference.simultaneous import MaxT
from ..nuisance.outcome_model.user_learners import check_mu
from ..options import METHODS
from .allocation import allocate, at_rows, cell_rates, propensity_table
from .criteria import Targets
from .plan_options import mu_array
from .problem import VoteProblem
from .search import Solution, solve
from .specify import Specification

# Relative precision of a budget that is searched for.
_CLOSE = 1e-4


def covariance_of(specification: Specification, sigma: FloatArray, rows: FloatArray) -> Covariance:
    """Return the predicted covariance, (J, J), of combinations of scores, which is zero for those that are fixed."""
    # The combinations in coordinates of those that the functional does not fix.
    free_rows = rows @ free_basis(specification.gauge, rows.shape[1])
    directions, size, _ = np.linalg.svd(free_rows, full_matrices=False)
    matrix = rows @ sigma @ rows.T / specification.problem.n_contexts
    return Covariance(matrix, directions[:, size > 1e-9 * size[0]])


@one_thread()
def predicted_precision(solution: Solution, targets: Targets, alpha: float, method: str) -> pd.DataFrame:
    """Return scores, predicted standard errors and full widths of intervals, for the plan and the uniform plan."""
    rows, labels = targets
    columns: dict[str, FloatArray] = {"score": rows @ solution.specification.scores}
    for prefix, sigma in (("", solution.sigma), ("uniform_", solution.uniform_sigma)):
        covariance = covariance_of(solution.specification, sigma, rows)
        columns[f"{prefix}std_error"] = covariance.std_errors
        columns[f"{prefix}width"] = 2 * MaxT(covariance).critical(alpha, method) * covariance.std_errors
    error, uniform = columns["std_error"], columns["uniform_std_error"]
    columns["ratio"] = np.divide(error, uniform, out=np.ones(len(rows)), where=uniform > 0)
    return pd.DataFrame(columns, index=list(labels))


@one_thread()
def max_width(solution: Solution, alpha: float, method: str) -> float:
    """Return the largest full width of the intervals of the target contrasts, or of all scores."""
    covariance = covariance_of(solution.specification, solution.sigma, solution.specification.targets[0])
    return float(2 * MaxT(covariance).critical(alpha, method) * covariance.std_errors.max())


@one_thread()
def pair_critical_value(solution: Solution, alpha: float, method: str) -> float:
    """Return the critical value of the test that two of the scores are equal."""
    check_choice(method, METHODS, "method")
    n_scores = len(solution.specification.scores)
    if method != "max-t":
        n_pairs = n_scores * (n_scores - 1) // 2 if method == "bonferroni" else 1
        return float(normal_critical(alpha / (2 * n_pairs)))
    covariance = covariance_of(solution.specification, solution.sigma, np.eye(n_scores))
    return MaxT(covariance, solution.specification.goal.seed).critical_of_pairs(alpha)


def std_error_of(solution: Solution, row: FloatArray) -> float:
    """Return the predicted standard error of a combination of scores, (K,)."""
    return float(np.sqrt(row @ solution.sigma @ row / solution.specification.problem.n_contexts))


def smallest_gap_of(solution: Solution, row: FloatArray, power: float, alpha: float, method: str) -> float:
    """Return the smallest true difference of two scores that is shown with a power."""
    return smallest_gap(std_error_of(solution, row), pair_critical_value(solution, alpha, method), power)


@one_thread()
def cheapest_solution(
    specification: Specification,
    start: float,
    relative_width: Callable[[Solution], float],
    failure: Callable[[float], str],
) -> Solution:
    """Return the solution of the smallest budget whose relative width is at most one, to four figures.

    ``failure`` describes for the error what labels on all pairs reach, from the relative width.
    """
    problem = specification.problem
    budgets = _Budgets(specification, relative_width)
    everything = budgets.solution(problem.total_cost)
    ratio, earlier = relative_width(everything), specification.sigma_without_plan()
    if ratio > 1:
        n, labelled = problem.n_contexts, "labelling one pair of" if problem.one_pair else "labelling every pair of"
        labelled = "running every model that is not complete on" if problem.of_scores else labelled
        advice = f"about {int(np.ceil(n * ratio**2)):,} prompts like these would be enough in the same way"
        if earlier is not None:
            advice = "plan for more prompts: pass them to design() of the fit as newdata="
        raise OptionError(f"even {labelled} all {n:,} prompts {failure(ratio)}; {advice}")
    if earlier is not None and relative_width(replace(everything, sigma=earlier)) <= 1:
        raise OptionError(
            "the labels of the fit already reach this precision; ask for a higher one, or plan from_scratch=True"
        )
    # The search is on the log scale. Without a sample, it first looks between half of ``start`` and twice ``start``.
    largest_log, margin = float(np.log(everything.expected_cost)), 0.7
    sample = problem.sample()
    if sample is not None:
        # A random sample of the rows needs nearly the same budget in proportion, and takes little time.
        share = sample.total_cost / problem.total_cost
        of_sample = _Budgets(replace(specification, problem=sample), relative_width)
        start = of_sample.smallest(start * share, largest_log + float(np.log(share)), margin) / share
        # The budget of all rows is within a few percent of the sample's.
        margin = 0.02
    return budgets.solution(budgets.smallest(start, largest_log, margin), certify=True)


class _Budgets:
    """Solutions of a specification for several budgets; each search begins at the solution of the budget before."""

    def __init__(self, specification: Specification, relative_width: Callable[[Solution], float]) -> None:
        self._specification, self._relative_width = specification, relative_width
        self._latest: Solution | None = None

    def solution(self, budget: float, certify: bool = False) -> Solution:
        """Return the solution within a budget."""
        self._latest = solve(self._specification, budget, near=self._latest, certify=certify)
        return self._latest

    def smallest(self, start: float, largest_log: float, margin: float) -> float:
        """Return the smallest budget at which the relative width is at most one."""

        def log_ratio(log_budget: float) -> float:
            return float(np.log(self._relative_width(self.solution(float(np.exp(log_budget))))))

        least, min_propensity = -np.inf, self._specification.limits.min_propensity
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
        budget = float(scipy.optimize.brentq(log_ratio, low, high, xtol=_CLOSE / 4)) if log_ratio(high) < 0 else high
        # The root may lie just below the budget that is large enough.
        while log_ratio(budget) > 0 and budget < largest_log:
            budget += _CLOSE / 2
        return float(np.exp(budget))


def regret_of(solution: Solution, mu: ArrayLike) -> pd.Series:
    """Return the loss of a plan if the true probabilities are ``mu``, (n, K, K, C); see :meth:`Plan.regret`."""
    specification, problem = solution.specification, solution.specification.problem
    goal, explore = specification.goal, specification.limits.explore
    assert isinstance(problem, VoteProblem)
    reasons = {
        "minimises a determinant, and regret is about sums of variances: take criterion='A'": goal.criterion == "D",
        "is for estimator='bt_restricted', whose labels depend on each other: take 'debiased'": problem.interdependent,
        "adds labels to those of a fit, and regret is about planned labels alone: take from_scratch=True": (
            goal.earlier is not None
        ),
        "weights pairs by its own labels, and regret is about given weights: fit with other edge_weights=": (
            goal.counts is not None
        ),
    }
    for reason, holds in reasons.items():
        if holds:
            raise OptionError(f"this plan {reason}")
    table, n = mu_array(mu), problem.n_contexts
    if table.shape != (shape := (n, *problem.mu.shape[1:])):
        raise NuisanceError(
            f"mu has shape {table.shape}; that of the plan's contexts, models and categories is {shape}"
        )
    check_mu(table, problem.models, list(problem.contexts.index), problem.ordered)
    row, metric = problem.row, specification.metric(problem.between)
    cost, weight = at_rows(problem.cost, row), at_rows(problem.context_weight, row)
    by_context = replace(problem, mu=table, row=np.arange(n), cost=cost, context_weight=weight, deviation=None)
    _, truth = by_context.scanned()
    assumed, information = problem.label_information(metric)[row], truth.label_information(metric)
    floor = solution.smallest_propensity
    constraints = truth.constraints(floor, solution.budget)
    best = propensity_table(allocate(cell_rates(np.sqrt(information / truth.cost)), constraints).propensities)

    def variance(information: FloatArray, propensity: FloatArray | float) -> float:
        return float((information / propensity).sum()) / n

    propensity, uniform = solution.propensity[row], problem.uniform(solution.expected_cost)
    best_variance, gap = variance(information, best), np.abs(assumed - information)
    excess = variance(information, propensity) - best_variance
    # The theorem is about the optimal propensities. Exploration mixes the uniform plan into them; the bounds allow for
    # the loss of this mixture under mu_hat.
    loss_from_mixing = 0.0
    if explore:
        optimal = (propensity - explore * problem.uniform(solution.budget)) / (1 - explore)
        loss_from_mixing = variance(assumed, propensity) - variance(assumed, optimal)
    losses = {
        "excess": excess / n,
        "relative": excess / (best_variance + float(np.trace(metric @ truth.between))),
        "uniform_excess": (variance(information, uniform) - best_variance) / n,
        "sharp_bound": (variance(gap, propensity) + variance(gap, floor) + loss_from_mixing) / n,
        "bound": (2 * variance(gap, floor) + loss_from_mixing) / n,
        "distance": float(gap.sum()) / n,
        "floor": floor,
    }
    return pd.Series(losses, name="regret")
