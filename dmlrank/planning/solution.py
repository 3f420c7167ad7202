"""The solution of a plan, with the precision that it predicts, and the budget that reaches a precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pandas as pd
import scipy

from .._utils.tasks_and_threads import one_thread, warn
from ..data.preferences import FloatArray
from ..exceptions import check_choice
from ..functionals import BradleyTerry
from ..inference.covariance import Covariance, free_basis
from ..inference.score_limits import WinShares, normal_critical
from ..inference.simultaneous import MaxT
from ..options import METHODS
from .allocation import NEARLY_STATIONARY, allocate, by_steps, kkt_residual, level_of, with_interdependent_labels
from .criteria import Goal, Targets
from .problem import Computed, Limits, Problem, Propensities, Rows, VoteProblem
from .score_plan import ScoreProblem

S = TypeVar("S", bound="Solution")

# Violation of the optimality conditions above which there is a warning.
_LARGEST_RESIDUAL = 1e-4
# Relative precision of a budget that is searched for.
_CLOSE = 1e-4


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Solution:
    """The optimal propensities of a problem for a goal, and the covariance of scores that they lead to.

    propensities (g, m): Of the cells by row of the problem.
    sigma, uniform_sigma (K, K): n times the covariance of the scores: for the plan, and for the uniform plan of the
        same cost.
    multiplier, labelling, kkt_residual: Those of the optimum before the uniform plan is mixed in. The violation of the
        optimality conditions is NaN where it was not computed, which saves time in a search over budgets. The
        multiplier is n times the amount by which one more unit of budget lowers the objective.
    rates: Rates of the cells where the objective is linear: they do not depend on the budget.
    """

    problem: Problem
    goal: Goal
    limits: Limits
    propensities: Propensities
    expected_cost: float
    sigma: FloatArray
    uniform_sigma: FloatArray
    multiplier: float
    labelling: FloatArray
    kkt_residual: float
    rates: Computed | None

    @property
    def budget(self) -> float:
        """The largest expected cost that was allowed."""
        return self.limits.budget

    @property
    def slack(self) -> bool:
        """Whether a larger budget changes nothing, because every label that adds precision is collected for certain."""
        return self.multiplier == 0

    @property
    def smallest_propensity(self) -> float:
        """The smallest propensity that a cell may have, before the uniform plan is mixed in."""
        return self.problem.smallest_propensity(self.limits)


def solve(
    kind: type[S], problem: Problem, goal: Goal, limits: Limits, near: Solution | None = None, *, certify: bool = True
) -> S:
    """Find the optimal propensities within limits, mixed with the uniform plan where ``explore`` is positive.

    The search begins at the solution of another budget, ``near``. Without ``certify``, for searches over budgets,
    the violation of the optimality conditions is NaN where the search does not need it, and the uniform plan is
    left out.
    """
    rates = start = None
    if problem.interdependent:
        allocation, labelling, residual = with_interdependent_labels(problem, goal, limits)
    elif goal.linear:
        rates = problem.cell_rates(goal.metric(problem.between, problem.between)) if near is None else near.rates
        assert rates is not None
        least = problem.least(limits)
        allocation = allocate(problem, rates, least, limits.budget)
        labelling = problem.labelling_covariance(allocation[0])
        residual = kkt_residual(problem, rates, least, allocation) if certify else np.nan
    else:
        if near is not None:
            factor = limits.budget / near.budget
            start = near.labelling / factor, level_of(near.multiplier) * factor
        allocation, labelling, residual = by_steps(problem, goal, limits, start, certify)
    (propensities, multiplier, _), sigma = allocation, goal.sigma(labelling, problem.between)
    largest = _LARGEST_RESIDUAL if problem.cell_type is np.float64 else NEARLY_STATIONARY
    if residual > largest:
        warn(
            f"the plan violates the optimality conditions by {residual:.1e} (relative; kkt_residual), more than "
            f"{largest:g}; the plan keeps to the budget and to the smallest propensity, but it may not be optimal",
        )
    if limits.explore:
        # Both plans keep to the smallest propensity and the budget. So does their mixture.
        mixed = partial(_mixed, propensities, limits.explore, problem.uniform(limits.budget))
        propensities = Computed(problem.shape, mixed)
        sigma = goal.sigma(problem.labelling_covariance(propensities), problem.between)
    cost, uniform_sigma, even = problem.expected_cost(propensities), sigma, problem.even or problem
    if certify:
        uniform = np.broadcast_to(problem.uniform(cost), problem.shape)
        uniform_sigma = goal.sigma(even.labelling_covariance(uniform), even.between)
    of_optimum = multiplier, labelling, residual, rates
    return kind(problem, goal, limits, propensities, cost, sigma, uniform_sigma, *of_optimum)


def covariance_of(solution: Solution, rows: FloatArray | None = None, *, uniform: bool = False) -> Covariance:
    """Return the predicted covariance of combinations of scores, (J, K), or of all, with quantiles of a later fit.

    Units are contexts, or the clusters of the fit and new labels. Limits of means of scores are those of the fit's
    scores, with errors and numbers of runs of the plan; a candidate's are normal, since its scores are not known.
    """
    problem, goal = solution.problem, solution.goal
    sigma, n, fit = solution.uniform_sigma if uniform else solution.sigma, problem.n_contexts, goal.fit
    made = Covariance(sigma / n, free_basis(problem.gauge, len(sigma)), df=n - 1.0)
    if isinstance(problem, ScoreProblem):
        assert fit is not None
        even = np.broadcast_to(problem.uniform(solution.expected_cost), problem.shape)
        means = problem.limits(fit.means, even if uniform else solution.propensities)
        made = replace(fit, matrix=made.matrix, basis=made.basis, means=means, of_scores=None)
    elif goal.earlier is not None and fit is not None:
        made = replace(made, df=fit.df + (0 if goal.share is None else n))
        made = _with_clusters(solution, made, goal.earlier, fit) if fit.n_clusters else made
    low, high = problem.functional.limits
    made = replace(made, shares=WinShares.between((problem.unit * low, problem.unit * high), len(sigma), made.df))
    if rows is None:
        return made
    # The combinations in coordinates of those that the functional does not fix.
    directions, size, _ = np.linalg.svd(rows @ free_basis(problem.gauge, rows.shape[1]), full_matrices=False)
    return replace(made.of_combinations(rows), basis=directions[:, size > 1e-9 * size[0]])


def _with_clusters(solution: Solution, made: Covariance, earlier: FloatArray, fit: Covariance) -> Covariance:
    """Return the covariance of all labels, (K, K), with degrees of freedom of the fit's clusters and new labels.

    Let G be the weight of the fit's estimate, g the part of its labels in the variance, and u the effective number
    of clusters. New labels are independent units of equal size. By Satterthwaite's formula the variance then has
    1 / (g^2 / u + (1 - g)^2 / n) effective units. Of what unequal clusters do not show of the fit's variance, the
    part 2 g G - G^2 is left (:func:`~dmlrank.inference.covariance.one_way`).
    """
    n, goal = solution.problem.n_contexts, solution.goal
    before, after, between, c = (
        np.broadcast_to(np.diagonal(part) if np.ndim(part) else 0.0, len(made.matrix))
        for part in (earlier, made.matrix * n, solution.problem.between, goal.dependence)
    )
    if goal.share is not None and goal.counts is None:
        weight = np.full(len(before), 1 - goal.share)
        old, new = weight**2 * before, np.maximum(after - weight**2 * before, 0)
    else:
        # Of A in :mod:`~dmlrank.planning.criteria` G A remains, and G^2 C of what clusters add.
        a, left = np.maximum(before - c - between, 0), np.maximum(after - between, 0)
        root = a + np.sqrt(a**2 + 4 * c * left)
        weight = np.clip(np.divide(2 * left, root, out=np.ones_like(left), where=root > 0), 0, 1)
        old, new = between + weight**2 * (a + c), weight * (1 - weight) * a
    g = np.divide(old, old + new, out=np.ones_like(old), where=old + new > 0)
    units = (np.broadcast_to(fit.df, g.shape) if fit.of_scores is None else fit.of_scores) + 1
    unseen = (1 - 1 / fit.scale**2) * float(np.mean(2 * g * weight - weight**2))
    made = replace(made, n_clusters=fit.n_clusters, scale=float(1 / np.sqrt(1 - unseen)))
    return made.with_df(1 / (g**2 / units + (1 - g) ** 2 / n) - 1)


@one_thread()
def errors_and_widths(
    solution: Solution, rows: FloatArray, alpha: float, method: str, *, uniform: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Return standard errors of combinations of scores, (J, K), and full widths of their intervals, (J,) each."""
    covariance = covariance_of(solution, rows, uniform=uniform)
    law = covariance.law(rows @ solution.goal.scores)
    low, high = law.limits(MaxT(covariance).critical(alpha, method))
    return covariance.std_errors, high - low


def precision_of(solution: Solution, targets: Targets, alpha: float, method: str) -> pd.DataFrame:
    """Return scores, predicted standard errors and full widths of intervals, for the plan and the uniform plan."""
    rows, labels = targets
    error, width = errors_and_widths(solution, rows, alpha, method)
    uniform, uniform_width = errors_and_widths(solution, rows, alpha, method, uniform=True)
    columns: dict[str, FloatArray] = {
        "score": rows @ solution.goal.scores,
        "std_error": error,
        "width": width,
        "uniform_std_error": uniform,
        "uniform_width": uniform_width,
        "ratio": np.divide(error, uniform, out=np.ones(len(rows)), where=uniform > 0),
    }
    return pd.DataFrame(columns, index=list(labels))


@one_thread()
def critical_value(solution: Solution, alpha: float, method: str) -> float:
    """Return the critical value of the test that two of the scores are equal."""
    check_choice(method, METHODS, "method")
    n_scores = len(solution.goal.scores)
    covariance = covariance_of(solution, np.eye(n_scores))
    if method == "max-t":
        return MaxT(covariance, solution.goal.seed).critical_of_pairs(alpha)
    n_pairs = n_scores * (n_scores - 1) // 2 if method == "bonferroni" else 1
    return covariance.from_normal(float(normal_critical(alpha / (2 * n_pairs))))


def pair_test(solution: Solution, row: FloatArray, alpha: float, method: str) -> tuple[float, float]:
    """Return the standard error behind the test of a difference of two scores, (K,), and its critical value."""
    error = float(np.sqrt(row @ covariance_of(solution).widened.matrix @ row))
    return error, critical_value(solution, alpha, method)


@one_thread()
def cheapest(solution: S, relative_width: Callable[[Solution], float]) -> tuple[S, float]:
    """Return the solution of the smallest budget whose relative width is at most one, and the least relative width.

    The latter is that of labels on all pairs; above one, no budget is enough, and the solution is that of all labels.
    The budget is found to four figures, from that of ``solution`` on.
    """
    whole, start = solution.problem, solution.budget

    def solved(problem: Problem, budget: float, latest: S | None, *, certify: bool = False) -> S:
        return solve(
            type(solution), problem, solution.goal, replace(solution.limits, budget=budget), latest, certify=certify
        )

    def smallest(problem: Problem, start: float, largest_log: float, margin: float, latest: S | None = None) -> S:
        """Return the solution of the smallest budget with a relative width of at most one, from near a start."""

        def log_ratio(log_budget: float) -> float:
            nonlocal latest
            # Each search begins at the solution of the budget before.
            latest = solved(problem, float(np.exp(log_budget)), latest)
            return float(np.log(relative_width(replace(latest, problem=whole))))

        least = max(problem.smallest_budget(solution.limits), 1e-9 * problem.total_cost * bool(problem.spent))
        smallest_log = float(np.log(least)) if least else -np.inf
        middle, step = min(float(np.log(start)), largest_log), 2 * margin
        low, high = max(middle - margin, smallest_log), min(middle + margin, largest_log)
        while low > smallest_log and log_ratio(low) <= 0:
            high, low, step = low, max(low - step, smallest_log), 2 * step
        while high < largest_log and log_ratio(high) > 0:
            low, high, step = high, min(high + step, largest_log), 2 * step
        budget = high
        if log_ratio(low) <= 0:
            budget = low
        elif log_ratio(high) < 0:
            budget = float(scipy.optimize.brentq(log_ratio, low, high, xtol=_CLOSE / 4))
        # The root may lie just below the budget that is large enough.
        while log_ratio(budget) > 0 and budget < largest_log:
            budget += _CLOSE / 2
        assert latest is not None
        return latest

    everything: S = solved(whole, whole.total_cost, None)
    reached = relative_width(everything)
    if reached > 1:
        return everything, reached
    # The search is on the log scale. Without a sample, it first looks between half and twice of ``start``.
    largest_log, margin = float(np.log(everything.expected_cost)), 0.7
    sample, limits = whole.in_sample(solution.limits)
    if sample is not whole:
        # A random sample of the rows needs nearly the same budget in proportion, and takes little time.
        share = limits.budget / start
        start = smallest(sample, limits.budget, largest_log + np.log(share), margin).budget / share
        # The budget of all rows is within a few percent of the sample's.
        margin = 0.02
    found = smallest(whole, start, largest_log, margin, everything)
    return solved(whole, found.budget, found, certify=True), reached


def _mixed(propensities: Propensities, share: float, uniform: float, rows: Rows) -> FloatArray:
    """Return the propensities of some rows, mixed with a share of the uniform plan."""
    return (1 - share) * propensities[rows] + share * uniform


# --- weights of pairs by the counts of all labels ---------------------------------------------------------------------

# A search for weights by counts ends when a step lowers the objective by less than this share, or after so many steps.
# A step that does not lower it is made half as long.
_SMALLEST_GAIN, _MOST_STEPS, _SMALLEST_STEP = 1e-7, 300, 1e-3
# Smallest factor of the information of a label, which may be worth nothing or less where it also changes weights.
_LEAST_WORTH = 1e-4


def labels_before(problem: VoteProblem, counts: FloatArray) -> FloatArray:
    """Return the labels so far of each pair, (1, m), by context of the plan, from those of both orders, (K, K)."""
    return problem.take(counts[None]) / ((2 if problem.ordered else 1) * problem.n_contexts)


def weighted_by_counts(kind: type[S], whole: VoteProblem, goal: Goal, limits: Limits) -> S:
    """Solve the problem with pairs weighted by the labels of ``goal.counts``, (K, K), and those of its plan.

    Scores with pairs weighted by w are combinations of the log-odds of pairs, Sigma = sum of v / w cc' for w labels of
    variance v, with c = w L^+ e for the Laplacian L and the difference e of the pair's two scores. With weights that
    stay as they are, all pairs of two models would need labels for the difference of the two, however many labels there
    are of their own pair. Here a label makes the log-odds of its pair more precise, which lowers the trace of G Sigma,
    for the metric G, by v c'Gc / w^2, and raises the weight of the pair, which lowers it by 2 (e'Sigma Gc - v c'Gc / w)
    / w. The latter is zero if all v are the same, since weights by counts are then the best ones (Gauss-Markov).
    Elsewhere a label is *worth* more or less than its information. The search begins at the uniform plan; a step takes
    what labels are worth as given, is made shorter until it lowers the objective, and leads to other weights.
    """
    counts = goal.counts
    assert counts is not None
    joined = replace(whole, before=labels_before(whole, counts))
    uniform = np.broadcast_to(whole.uniform(limits.budget), whole.shape)
    labels = counts + whole.both_orders(whole.expected_labels(uniform))
    # Weights change the covariance of the scores between contexts, so that another pass is needed.
    joined = replace(joined, even=_weighted(joined, labels).scanned()[1])
    # The search leaves out that weights change this covariance. Where this makes a plan worse than the uniform one, the
    # plan has as many labels of each pair as the uniform one.
    for most_steps in (_MOST_STEPS, 0):
        problem = _weights_of_optimum(joined, goal, limits, most_steps).scanned()[1]
        solution = solve(kind, problem, goal, limits)
        if goal.objective(solution.sigma) <= goal.objective(solution.uniform_sigma):
            break
    return solution


def _weights_of_optimum(whole: VoteProblem, goal: Goal, limits: Limits, most_steps: int) -> VoteProblem:
    """Return the problem with the weights of an optimal plan, and what its labels are worth, (m,)."""
    (problem, of_part), counts = whole.in_sample(limits), goal.counts
    assert counts is not None
    least, budget, share = problem.least(of_part), of_part.budget, of_part.budget / limits.budget

    def at(length: FloatArray) -> tuple[float, VoteProblem, FloatArray]:
        """Return the objective, the problem, and the next squared lengths, (m,), of a plan with these."""
        propensities, *_ = allocate(problem, problem.rates_of_lengths(length), least, budget)
        labels = problem.expected_labels(propensities) / share + counts / (2 if problem.ordered else 1)
        weights = problem.both_orders(labels)
        of_plan = _weighted(problem, weights)
        along, variance = of_plan.directions, problem.labelling_variances(propensities)
        labelling = (along.T * variance) @ along
        metric = goal.metric(labelling, whole.between)
        squared = of_plan.squared_lengths(metric)
        change, place, added = labelling @ metric @ along.T, np.arange(problem.n_cells), variance * squared
        by_weight = change[problem.first, place] - change[problem.second, place]
        # Only ratios of weights matter: if all of them were larger by the same factor, nothing would change.
        by_weight *= added.sum() / by_weight.sum()
        by_weight -= added
        of_pair = problem.take(problem.both_orders(problem.matrices(by_weight[None])[0])[None])[0]
        part = problem.take(np.divide(labels, weights, out=np.zeros_like(labels), where=weights > 0)[None])[0]
        following = np.maximum(squared + 2 * part * of_pair / variance, _LEAST_WORTH * squared)
        worth = np.divide(length, squared, out=np.ones_like(length), where=squared > 0)
        return goal.objective(goal.sigma(labelling, whole.between)), replace(of_plan, worth=worth), following

    mean = problem.count @ np.asarray(problem.deviation, dtype=np.float64) / problem.n_contexts
    even = (problem.before + whole.uniform(limits.budget)) / np.maximum(mean, np.finfo(float).tiny)
    length = np.square(np.broadcast_to(even, problem.shape)[0])
    objective, best, following = at(length)
    for _ in range(most_steps):
        step = 1.0
        while step > _SMALLEST_STEP:
            candidate = length ** (1 - step) * following**step
            found = at(candidate)
            if found[0] < objective:
                break
            step /= 2
        else:
            break
        gain, length = objective - found[0], candidate
        objective, best, following = found
        if gain < _SMALLEST_GAIN * max(1.0, abs(objective)):
            break
    return replace(whole, functional=best.functional, worth=best.worth)


def _weighted(problem: VoteProblem, weights: FloatArray) -> VoteProblem:
    """Return a problem of Bradley-Terry scores with other weights of pairs, (K, K)."""
    of_fit = problem.functional
    assert isinstance(of_fit, BradleyTerry)
    functional = BradleyTerry(of_fit.weights, of_fit.graph, weights, of_fit.apart)
    directions = functional.label_directions(problem.n_items)[problem.first, problem.second]
    return replace(problem, functional=functional, directions=directions)
