"""Predicted precision of a plan, the budget that reaches it, and the loss where the probabilities are wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike

from .._utils.computation import one_thread
from ..data.preferences import FloatArray
from ..exceptions import NuisanceError, OptionError, check_choice
from ..inference.covariance import Covariance, free_basis
from ..inference.simultaneous import MaxT
from ..nuisance.outcome_model.user_learners import check_mu
from ..options import METHODS
from ..tables.summary_table import Summarised, Summary
from .allocation import CellRates, Constraints, allocate, at_rows, propensity_table
from .plan_options import mu_array
from .search import PlanSolution, PlanSpecification, SearchStart, Targets, solve

# Relative precision of a budget that is searched for.
_CLOSE = 1e-4


def contrast_covariance(specification: PlanSpecification, sigma: FloatArray, rows: FloatArray) -> Covariance:
    """Return the predicted covariance, (J, J), of combinations of scores, which is zero for those that are fixed."""
    # The combinations in coordinates of those that the functional does not fix.
    free_rows = rows @ free_basis(specification.gauge, rows.shape[1])
    directions, size, _ = np.linalg.svd(free_rows, full_matrices=False)
    matrix = rows @ sigma @ rows.T / specification.problem.n_contexts
    return Covariance(matrix, directions[:, size > 1e-9 * size[0]])


@one_thread()
def predicted_precision(
    specification: PlanSpecification, solution: PlanSolution, targets: Targets, alpha: float, method: str
) -> pd.DataFrame:
    """Return scores, predicted standard errors and full widths of intervals, for the plan and the uniform plan."""
    rows, labels = targets
    columns: dict[str, FloatArray] = {"score": rows @ specification.scores}
    for prefix, sigma in (("", solution.sigma), ("uniform_", solution.uniform_sigma)):
        covariance = contrast_covariance(specification, sigma, rows)
        columns[f"{prefix}std_error"] = covariance.std_errors
        columns[f"{prefix}width"] = 2 * MaxT(covariance).critical(alpha, method) * covariance.std_errors
    error, uniform = columns["std_error"], columns["uniform_std_error"]
    columns["ratio"] = np.divide(error, uniform, out=np.ones(len(rows)), where=uniform > 0)
    return pd.DataFrame(columns, index=list(labels))


@one_thread()
def max_width(specification: PlanSpecification, solution: PlanSolution, alpha: float, method: str) -> float:
    """Return the largest full width of the intervals of the target contrasts, or of all scores."""
    covariance = contrast_covariance(specification, solution.sigma, specification.targets[0])
    return float(2 * MaxT(covariance).critical(alpha, method) * covariance.std_errors.max())


@one_thread()
def pair_critical_value(specification: PlanSpecification, solution: PlanSolution, alpha: float, method: str) -> float:
    """Return the critical value of the test that two of the scores are equal."""
    check_choice(method, METHODS, "method")
    n_scores = len(specification.scores)
    if method != "max-t":
        n_pairs = n_scores * (n_scores - 1) // 2 if method == "bonferroni" else 1
        return float(scipy.stats.norm.ppf(1 - alpha / (2 * n_pairs)))
    covariance = contrast_covariance(specification, solution.sigma, np.eye(n_scores))
    return MaxT(covariance, specification.seed).critical_of_pairs(alpha)


@one_thread()
def cheapest_solution(
    specification: PlanSpecification,
    start: float,
    relative_width: Callable[[PlanSolution], float],
    failure: Callable[[float], str],
) -> PlanSolution:
    """Return the solution of the smallest budget whose relative width is at most one, to four figures.

    ``failure`` describes for the error what labels on all pairs reach, from the relative width.
    """
    problem = specification.problem
    solver = _Solver(specification, relative_width)
    all_labelled = solver.at(problem.total_cost)
    ratio, earlier = relative_width(all_labelled), specification.precision.sigma_without_plan()
    if ratio > 1:
        n, labelled = problem.n_contexts, "labelling one pair" if problem.one_pair else "labelling every pair"
        labelled = "running every model that is not complete" if problem.of_scores else labelled
        advice = f"about {int(np.ceil(n * ratio**2)):,} prompts like these would be enough in the same way"
        if earlier is not None and not problem.of_scores:
            advice = "plan for more prompts: pass them to design() of the fit as newdata="
        on = "on" if problem.of_scores else "of"
        raise OptionError(f"even {labelled} {on} all {n:,} prompts {failure(ratio)}; {advice}")
    if earlier is not None and relative_width(replace(all_labelled, sigma=earlier)) <= 1:
        raise OptionError(
            "the labels of the fit already reach this precision without further labels; ask for a higher precision, or "
            "plan for an estimate from new labels alone (from_scratch=True)"
        )
    # The search is on the log scale. Without a sample, it first looks between half of ``start`` and twice ``start``.
    largest_log, margin = float(np.log(all_labelled.expected_cost)), 0.7
    sample = problem.sample()
    if sample is not None:
        # A random sample of the rows needs nearly the same budget in proportion, and takes little time.
        share = sample.total_cost / problem.total_cost
        sample_solver = _Solver(replace(specification, problem=sample), relative_width)
        start = sample_solver.cheapest(start * share, largest_log + float(np.log(share)), margin) / share
        # The budget of all rows is within a few percent of the sample's.
        margin = 0.02
    return solver.at(solver.cheapest(start, largest_log, margin), certify=True)


class _Solver:
    """Solutions of a specification for several budgets; each search begins at the solution of the budget before."""

    def __init__(self, specification: PlanSpecification, relative_width: Callable[[PlanSolution], float]) -> None:
        self._specification, self._relative_width = specification, relative_width
        self._latest: PlanSolution | None = None

    def at(self, budget: float, certify: bool = False) -> PlanSolution:
        """Return the solution within a budget; ``certify`` computes how far it violates the optimality conditions."""
        start = None
        if self._latest is not None:
            factor, latest = budget / self._latest.budget, self._latest.optimum.start
            start = SearchStart(latest.labelling / factor, latest.level * factor, latest.rates)
        self._latest = solve(self._specification, budget, start=start, certify=certify)
        return self._latest

    def cheapest(self, start: float, largest_log: float, margin: float) -> float:
        """Return the smallest budget at which the relative width is at most one."""

        def log_ratio(log_budget: float) -> float:
            return float(np.log(self._relative_width(self.at(float(np.exp(log_budget))))))

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
        budget = float(scipy.optimize.brentq(log_ratio, low, high, xtol=_CLOSE / 4)) if log_ratio(high) < 0 else high
        # The root may lie just below the budget that is large enough.
        while log_ratio(budget) > 0 and budget < largest_log:
            budget += _CLOSE / 2
        return float(np.exp(budget))


@dataclass(frozen=True, slots=True)
class Regret(Summarised):
    """The loss of a plan that was made from probabilities mu_hat if the true probabilities are mu.

    The loss is compared with the best plan for mu, which has the same budget and the same smallest propensity. All
    losses are differences of sums of variances: of the variances of the plan's contrasts, or of all scores. Below, pi
    are the propensities of the plan, a(mu) is the information of a label of a pair under mu, and sums are over pairs.

    Attributes
    ----------
    excess : float
        Sum of variances of the plan minus that of the best plan.
    relative : float
        ``excess`` divided by the sum of variances of the best plan.
    uniform_excess : float
        Sum of variances of the uniform plan of the same cost minus that of the best plan.
    sharp_bound : float
        Upper bound on ``excess``: (1/n) E sum ``|a(mu_hat) - a(mu)|`` (1 / pi + 1 / floor), plus the loss from
        exploration under mu_hat.
    bound : float
        The coarser upper bound of the theorem: (2 / (floor n)) E sum ``|a(mu_hat) - a(mu)|``, plus the loss from
        exploration under mu_hat.
    distance : float
        E sum ``|a(mu_hat) - a(mu)|``.
    floor : float
        The plan's smallest propensity before the uniform plan is mixed in.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P thm:aopt_robustness]; the sharp bound is a step of its proof.
    """

    excess: float
    relative: float
    uniform_excess: float
    sharp_bound: float
    bound: float
    distance: float
    floor: float

    def summary(self, title: str | None = None) -> Summary:
        figures = (
            ("Sum of variances above that of the best plan", f"{self.excess:.3g}"),
            ("The same as a share of the best plan's sum", f"{100 * self.relative:.1f} %"),
            ("Upper bound", f"{self.sharp_bound:.3g}"),
            ("Coarser upper bound of the theorem", f"{self.bound:.3g}"),
            ("The uniform plan's sum above that of the best plan", f"{self.uniform_excess:.3g}"),
            ("Distance in the information of labels", f"{self.distance:.3g}"),
            ("Smallest propensity", f"{self.floor:.3g}"),
        )
        table = Summary("Regret of a Labelling Plan", (), (("value", 1),), figures, (str(self),), row_head="figure")
        return table.with_title(title)

    def __str__(self) -> str:
        return (
            f"If these probabilities are true, the plan's sum of variances is {100 * self.relative:.1f} % above that "
            f"of the best plan. The difference is {self.excess:.3g}, with the upper bound {self.sharp_bound:.3g}; the "
            f"difference between the uniform plan and the best plan is {self.uniform_excess:.3g}."
        )


def regret_of(specification: PlanSpecification, solution: PlanSolution, mu: ArrayLike) -> Regret:
    """Return the loss of a plan if the true probabilities are ``mu``, (n, K, K, C)."""
    problem, names = specification.problem, specification.names
    reasons = {
        "has criterion='D', which minimises a determinant, but regret is about sums of variances; make the plan with "
        "criterion='A'": specification.criterion.kind == "D",
        "has estimator='bt_restricted', where the information of a label depends on the other labels of its prompt; "
        "regret is about estimator='debiased', where this is not so": problem.interdependent,
        "weights pairs by its own labels, but regret is about weights that are given; fit with "
        "pairs=Pairs(edge_weights=...), 'equal' or a matrix": specification.uniform_plan is not None
        and specification.earlier is None,
        "adds labels to those of a fit, but regret is about an estimate from the planned labels alone; make the plan "
        "with design(..., from_scratch=True)": specification.earlier is not None,
    }
    for reason, holds in reasons.items():
        if holds:
            raise OptionError(f"this plan {reason}")
    table, shape = mu_array(mu), (problem.n_contexts, *problem.mu.shape[1:])
    if table.shape != shape:
        raise NuisanceError(
            f"mu has shape {table.shape}, but the plan was made from probabilities of shape {shape}; pass mu of the "
            f"plan's contexts, models and categories"
        )
    check_mu(table, names.models, names.contexts, problem.pairs.ordered)
    metric, n, row = specification.criterion.metric(specification.between_covariance), problem.n_contexts, problem.row
    by_context = replace(
        problem,
        mu=table,
        row=np.arange(n),
        cost=at_rows(problem.cost, row),
        context_weight=at_rows(problem.context_weight, row),
        deviations=None,
    )
    _, between_covariance, _, truth = by_context.scan()
    assumed_information, information = problem.label_information(metric)[row], truth.label_information(metric)
    floor, explore = solution.smallest_propensity, specification.explore
    constraints = Constraints(truth.cost, np.array([[floor]]), solution.budget, problem.one_pair)
    best = propensity_table(allocate(CellRates(np.sqrt(information / truth.cost)), constraints).propensities)
    propensity, uniform = solution.propensity[row], specification.uniform(solution.expected_cost)
    best_variance = float((information / best).sum()) / n
    between = float(np.trace(metric @ between_covariance))
    excess = float((information / propensity).sum()) / n - best_variance
    gap = np.abs(assumed_information - information)
    # The theorem is about the optimal propensities. Exploration mixes the uniform plan into them; the bounds allow for
    # the loss of this mixture under mu_hat.
    optimal = (propensity - explore * specification.uniform(solution.budget)) / (1 - explore)
    loss_from_mixing = 0.0
    if explore:
        loss_from_mixing = float((assumed_information / propensity - assumed_information / optimal).sum()) / n
    return Regret(
        excess=excess / n,
        relative=excess / (best_variance + between),
        uniform_excess=(float(information.sum()) / uniform / n - best_variance) / n,
        sharp_bound=(float((gap * (1 / propensity + 1 / floor)).sum()) / n + loss_from_mixing) / n,
        bound=(2 * float(gap.sum()) / (floor * n) + loss_from_mixing) / n,
        distance=float(gap.sum()) / n,
        floor=floor,
    )
