"""The criterion of a plan (A or D), the allocation that minimises it, and what a plan is made of.

The *specification* of a plan is its purpose and its limits, its *solution* the optimal propensities.

Sigma is n times the covariance of the scores, and L, (J, K), holds the coefficients of the J contrasts that the plan is
for. The A criterion is the trace of L Sigma L', the D criterion its log determinant. The *metric* is the derivative of
the criterion by Sigma. The *labelling covariance* is the part of Sigma that depends on the propensities of the plan:
E sum_jk M_jk / pi_jk. See :mod:`dmlrank.planning.problem` for M, rows, cells and the information of a label.

With the estimator ``bt_restricted`` the information of a label depends on the other labels of its context; such a
problem is called *interdependent*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.linalg

from .._utils.computation import report, warn
from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .allocation import (
    Allocation,
    CellRates,
    Computed,
    Constraints,
    Propensities,
    Rows,
    allocate,
    kkt_residual,
    level_of,
    propensity_table,
)
from .problem import DesignProblem, PlanNames

# Coefficients of combinations of scores, (J, K), and their names.
Targets: TypeAlias = tuple[FloatArray, Sequence[str]]
# One minus the level of intervals and tests where no fit has one.
ALPHA = 0.05
# Without min_propensity= the smallest propensity is this share of the uniform plan's propensity.
_SMALLEST_SHARE = 0.1
# Violation of the optimality conditions above which there is a warning.
_LARGEST_RESIDUAL = 1e-4
# Share of the largest eigenvalue below which a direction has no variance.
_ROUNDING = 1e-12
# The search for an optimum ends if a step changes the logarithm of the labelling covariance by no more than this in
# every direction.
_TOLERANCE = 1e-6
# A search whose steps evaluate the scores of many prompts ends if the optimality conditions are violated by less than
# this. Every propensity is then within half of this share of its optimum for the metric, so that the part of the
# criterion that a plan changes is at most a quarter of the square, 2e-4, above its smallest value. In a plan for 52
# models (rank centrality, 16,000 prompts) the first step had a violation of 0.016 and a criterion 4e-7 too large.
_NEARLY_STATIONARY = 0.03
# Largest number of steps of a search where the objective is not linear in the labelling covariance.
MAX_STEPS = 300
# Largest number of steps of a search in an interdependent problem; three steps are one cycle of the search.
MAX_INTERDEPENDENT_STEPS = 6000
# Number of past steps from which the next one is extrapolated.
_HISTORY = 5
# The search in an interdependent problem ends if the optimality conditions are violated by less than this.
_STATIONARY = 1e-5
# Largest factor by which an extrapolation in an interdependent problem lengthens a step.
_LONGEST = 300.0


@dataclass(frozen=True, slots=True, eq=False)
class EarlierLabels:
    """The labels and verdicts of a fit, which are used together with those of a plan.

    sigma (K, K): Covariance of the fit's scores, times the number of contexts of the plan.
    share: Share w of the plan's prompts among all prompts; None for a plan for the fit's own prompts.
    joined: Whether a fit of all labels joins them with those of the plan pair by pair; L is then the labelling
        covariance of all labels.
    dependence (K, K): The part of ``sigma`` that comes from the dependence of labels in a cluster.
    """

    sigma: FloatArray
    share: float | None
    dependence: FloatArray
    joined: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """The criterion that a plan minimises: the sum of the variances of contrasts, or their log determinant.

    rows (J, K): L, the coefficients of the contrasts. For "D" the rows are linearly independent, and no combination of
        them is fixed by the functional.
    """

    kind: str
    rows: FloatArray

    def objective(self, sigma: FloatArray) -> float:
        """Return the trace of L Sigma L' ("A"), or the log determinant of L Sigma L' ("D")."""
        covariance = self.rows @ sigma @ self.rows.T
        return float(np.trace(covariance) if self.kind == "A" else np.linalg.slogdet(covariance)[1])

    def metric(self, sigma: FloatArray) -> FloatArray:
        """Return the derivative of the objective by Sigma, (K, K)."""
        if self.kind == "A":
            return self.rows.T @ self.rows
        inverse = np.linalg.inv(self.rows @ sigma @ self.rows.T)
        return np.asarray(self.rows.T @ ((inverse + inverse.T) / 2) @ self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    r"""How precise the scores become: Sigma and the criterion as functions of the labelling covariance L.

    between_covariance (K, K): B, the covariance of the scores between contexts, which no plan changes.
    earlier: The labels of a fit, to which planned labels are added.

    Notes
    -----
    Without earlier labels :math:`\Sigma = B + L`. With them, Sigma is the covariance of the estimate from all labels,
    times the number of contexts of the plan. Given the prompts, the errors of the labels are independent.

    - A plan for new prompts: one fit of all rows, each with the propensity of its own round, weights every prompt
      equally. If the plan's prompts are a share w of all prompts, :math:`\Sigma = (1 - w)^2 A + w^2 (B + L)`, where A
      is the covariance of the fit. Sigma may be larger than A where few labels are spread over many new prompts.
    - Labels that are joined pair by pair, with the propensities of all rounds together: :math:`\Sigma = B + L`, or
      :math:`w B + L` with new prompts.
    - A plan for the fit's own prompts: the estimate from all labels is at least as precise as the best weighted mean of
      the fit's estimate and the one from the planned labels, which share B,
      :math:`\Sigma = B + (A^{-1} + L^{-1})^{-1}`. Here A is the part of the fit's covariance beyond B. One fit of all
      rows weights labels as if they were independent. What the dependence of the fit's labels in clusters adds to its
      covariance, C, is therefore not in A and adds :math:`G C G'` with the weight :math:`G = L (A + L)^{-1}` of the
      fit's estimate.
    """

    criterion: Criterion
    between_covariance: FloatArray
    earlier: EarlierLabels | None = None

    @property
    def linear(self) -> bool:
        """Whether the objective is linear in the labelling covariance, so that one allocation finds the optimum."""
        earlier = self.earlier
        return self.criterion.kind == "A" and (earlier is None or earlier.joined or earlier.share is not None)

    def sigma(self, labelling: FloatArray) -> FloatArray:
        """Return Sigma, n times the covariance of the scores, from the labelling covariance; (K, K) both."""
        between, earlier = self.between_covariance, self.earlier
        if earlier is None:
            return between + labelling
        if earlier.joined:
            return between * (earlier.share or 1.0) + labelling
        if earlier.share is not None:
            return (1 - earlier.share) ** 2 * earlier.sigma + earlier.share**2 * (between + labelling)
        beyond = self._beyond(earlier)
        weight = labelling @ _inverse(beyond + labelling)
        return between + _symmetric(beyond @ weight.T + weight @ earlier.dependence @ weight.T)

    def sigma_without_plan(self) -> FloatArray | None:
        """Return Sigma, (K, K), from the earlier labels alone; None without any."""
        if self.earlier is None or self.earlier.joined or self.earlier.share is not None:
            return None if self.earlier is None else self.earlier.sigma
        return self.between_covariance + self._beyond(self.earlier) + self.earlier.dependence

    def objective(self, labelling: FloatArray) -> float:
        """Return the value of the criterion for a labelling covariance, (K, K)."""
        return self.criterion.objective(self.sigma(labelling))

    def metric(self, labelling: FloatArray) -> FloatArray:
        """Return the derivative of the objective by the labelling covariance, (K, K)."""
        metric, earlier = self.criterion.metric(self.sigma(labelling)), self.earlier
        if earlier is None or earlier.joined:
            return metric
        # Sigma changes by G' dL G with this slope G, and with the weight of dependent labels.
        if earlier.share is not None:
            return earlier.share**2 * metric
        beyond = self._beyond(earlier)
        inverse = _inverse(beyond + labelling)
        slope = inverse @ beyond
        of_weight = inverse @ earlier.dependence @ inverse @ labelling @ metric @ slope.T
        return np.asarray(slope @ metric @ slope.T + of_weight + of_weight.T)

    def _beyond(self, earlier: EarlierLabels) -> FloatArray:
        """Return the part of the fit's covariance beyond B that independent labels would have, (K, K)."""
        # By chance the fit's covariance may be smaller than B in a direction. There the fit's labels count as free of
        # noise.
        of_labels = earlier.sigma - earlier.dependence - self.between_covariance
        return of_eigenvalues(_symmetric(of_labels), partial(np.maximum, 0.0))


class SearchStart(NamedTuple):
    """Where a search by steps begins.

    labelling (K, K): The labelling covariance.
    level: Level of an allocation near the optimum (:mod:`dmlrank.planning.allocation`), infinite where there is none.
    rates: Rates of the cells, where the objective is linear: they do not depend on the budget.
    """

    labelling: FloatArray
    level: float = np.inf
    rates: CellRates | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """An optimal allocation, the covariance that it leads to, and how far it is from the optimality conditions.

    kkt_residual: Largest relative violation of the optimality conditions; NaN where it was not computed.
    start: The labelling covariance at the optimum, where the search for the optimum of a similar problem begins.
    """

    allocation: Allocation
    kkt_residual: float
    start: SearchStart


def optimise(
    problem: DesignProblem,
    precision: Precision,
    *,
    lower: float,
    budget: float,
    start: SearchStart | None = None,
    certify: bool,
) -> Optimum:
    """Find the propensities of at least ``lower`` that minimise the criterion within a budget.

    Without ``certify`` the violation of the optimality conditions is NaN where the search does not need it.
    """
    constraints = problem.constraints(lower, budget)
    if problem.interdependent:
        return _with_interdependent_labels(problem, precision, constraints)
    if not precision.linear:
        return _by_steps(problem, precision, constraints, start, certify)
    rates = None if start is None else start.rates
    if rates is None:
        rates = problem.label_rates(precision.metric(precision.between_covariance))
    allocation = allocate(rates, constraints)
    residual = kkt_residual(rates, constraints, allocation) if certify else np.nan
    labelling = problem.labelling_covariance(allocation.propensities)
    return Optimum(allocation, residual, SearchStart(labelling, level_of(allocation.multiplier), rates))


# --- an objective that is concave in the labelling covariance ---------------------------------------------------------


def _by_steps(
    problem: DesignProblem, precision: Precision, constraints: Constraints, start: SearchStart | None, certify: bool
) -> Optimum:
    """Find the optimum of an objective that is concave in the labelling covariance, by majorise-minimise steps."""
    if start is None:
        start = _first_step(problem, precision, constraints)
    if precision.criterion.kind == "D":
        rows = precision.criterion.rows
        variances = np.linalg.eigvalsh(rows @ precision.sigma(start.labelling) @ rows.T)
        if not variances[0] > 1e-12 * variances[-1]:
            raise OptionError(
                "under these probabilities a combination of the scores has no variance, so that the determinant of "
                "criterion='D' is zero; use criterion='A', or contrasts= without the combinations that have no variance"
            )
    values, vectors = np.linalg.eigh(start.labelling)
    # The directions in which there is variance.
    basis, level = vectors[:, values > _ROUNDING * values[-1]], start.level
    # A step starts at the labelling covariance ``state`` and leads to ``reached``, in coordinates of the basis.
    state = reached = basis.T @ start.labelling @ basis
    best, past = np.inf, list[tuple[FloatArray, FloatArray]]()
    is_slow, accepted = problem.deviations is None and problem.cell_type is not np.float64, None
    for step in range(1, MAX_STEPS + 1):
        metric = precision.metric(basis @ state @ basis.T)
        rates = problem.label_rates(metric)
        if accepted is not None and is_slow and state is reached:
            residual = kkt_residual(rates, constraints, accepted.allocation)
            if residual <= _NEARLY_STATIONARY:
                return replace(accepted, kkt_residual=residual)
        allocation = allocate(rates, constraints, start=level)
        level = level_of(allocation.multiplier)
        labelling = problem.labelling_covariance(allocation.propensities)
        objective = precision.objective(labelling)
        if objective > best + 1e-12 * max(1.0, abs(best)) and state is not reached:
            state, past = reached, []
            continue
        best, reached = min(best, objective), basis.T @ labelling @ basis
        accepted = Optimum(allocation, np.nan, SearchStart(labelling, level))
        if is_slow and not past:
            # The bound takes no pass over the probabilities.
            residual = _largest_change(basis.T @ metric @ basis, basis.T @ precision.metric(labelling) @ basis)
            if residual <= _NEARLY_STATIONARY:
                return replace(accepted, kkt_residual=residual)
        move = float(np.abs(np.log(scipy.linalg.eigh(reached, state, eigvals_only=True))).max())
        is_last = move <= _TOLERANCE
        remaining = 0 if is_last else max(1, round(np.log10(move / _TOLERANCE)))
        # Steps of small problems take so little time that a log file gets no line for them.
        report(step, step + remaining, "plan, steps", minor=problem.cell_type is np.float64)
        if is_last:
            break
        past = [*past[1 - _HISTORY :], (of_eigenvalues(state, np.log), of_eigenvalues(reached, np.log))]
        state = _extrapolate(past) if len(past) > 1 else reached
    # The last step was accepted.
    assert accepted is not None
    if not certify:
        return accepted
    rates = problem.label_rates(precision.metric(accepted.start.labelling))
    return replace(accepted, kkt_residual=kkt_residual(rates, constraints, accepted.allocation))


def _largest_change(before: FloatArray, after: FloatArray) -> float:
    """Return a bound on the relative change of the information of a label from one metric to another, (r, r) both.

    An allocation that is optimal for the first metric violates the optimality conditions for the second by no more.
    """
    try:
        ratio = scipy.linalg.eigh(after, before, eigvals_only=True)
    except np.linalg.LinAlgError:
        return np.inf  # a label may have no information in the first metric
    return float(max(1 - ratio[0], 1 - 1 / ratio[-1]))


def _first_step(problem: DesignProblem, precision: Precision, constraints: Constraints) -> SearchStart:
    """Return where a search by steps begins: at the optimum of a sample of the rows, or at the uniform plan."""
    sample, share_of_all = problem.sample(), constraints.budget / problem.total_cost
    if sample is None:
        return SearchStart(problem.labelling_covariance(np.broadcast_to(min(1.0, share_of_all), problem.shape)))
    budget = constraints.budget * sample.total_cost / problem.total_cost
    return optimise(sample, precision, lower=float(np.min(constraints.lower)), budget=budget, certify=False).start


def _extrapolate(past: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Return the Anderson acceleration of past steps, (r, r) each, as a positive definite matrix."""
    moves = np.stack([(after - before).ravel() for before, after in past])
    change = np.diff(moves, axis=0)
    share = np.linalg.lstsq(change.T, moves[-1], rcond=1e-10)[0]
    ends = np.stack([after for _, after in past])
    return of_eigenvalues(_symmetric(ends[-1] - np.tensordot(share, np.diff(ends, axis=0), axes=1)), np.exp)


def of_eigenvalues(matrix: FloatArray, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return a symmetric matrix with a function of its eigenvalues in their place."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * function(values)) @ vectors.T)


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the generalised inverse of a covariance, (K, K), zero where the covariance has no variance."""
    return np.asarray(np.linalg.pinv(matrix, rcond=_ROUNDING, hermitian=True), dtype=np.float64)


# --- interdependent labels --------------------------------------------------------------------------------------------


def _with_interdependent_labels(problem: DesignProblem, precision: Precision, constraints: Constraints) -> Optimum:
    """Find the optimum of an interdependent problem, by majorise-minimise in cycles of three steps.

    Two steps are followed by an extrapolation and a third step, which starts at the extrapolated propensities. If the
    third step leads to a larger objective than the second step, the result of the second step is kept. Where the
    objective is not linear in the labelling covariance, each step minimises the tangent at the current point.
    """

    def rates_at(propensity: FloatArray, labelling: FloatArray) -> CellRates:
        information = problem.label_information(precision.metric(labelling), propensity)
        return CellRates(np.sqrt(information / problem.cost))

    def step(propensity: FloatArray, labelling: FloatArray) -> tuple[Allocation, FloatArray, FloatArray]:
        """Return the next allocation, its propensities and their labelling covariance."""
        allocation = allocate(rates_at(propensity, labelling), constraints)
        table = propensity_table(allocation.propensities)
        return allocation, table, problem.labelling_covariance(table)

    cap = 1 / len(problem.pairs) if problem.one_pair else 1.0
    propensity = np.full(problem.shape, min(cap, constraints.budget / problem.total_cost))
    allocation, propensity, labelling = step(propensity, problem.labelling_covariance(propensity))
    cycle, residual = 0, np.inf
    while cycle < max(1, MAX_INTERDEPENDENT_STEPS // 3) and residual >= _STATIONARY:
        cycle += 1
        first = step(propensity, labelling)
        second = step(*first[1:])
        extrapolated = _extrapolate_two_steps(propensity, first[1], second[1], float(np.min(constraints.lower)))
        # The extrapolated propensities may violate the constraints; the step from there meets them again.
        third = step(extrapolated, problem.labelling_covariance(extrapolated))
        is_better = precision.objective(third[2]) < precision.objective(second[2])
        allocation, propensity, labelling = third if is_better else second
        residual = kkt_residual(rates_at(propensity, labelling), constraints, allocation)
    return Optimum(allocation, residual, SearchStart(labelling))


def _extrapolate_two_steps(start: FloatArray, first: FloatArray, second: FloatArray, lower: float) -> FloatArray:
    """Extrapolate two steps of a slowly converging iteration, (g, m) each, on the log scale (SQUAREM)."""
    origin, move = np.log(start), np.log(first) - np.log(start)
    turn = np.log(second) - np.log(first) - move
    size = np.sqrt(np.square(turn).sum(axis=1, keepdims=True))
    length = np.divide(
        np.sqrt(np.square(move).sum(axis=1, keepdims=True)), size, out=np.ones_like(size), where=size > 0
    )
    length = np.clip(length, 1.0, _LONGEST)
    return np.asarray(np.clip(np.exp(origin + 2 * length * move + length**2 * turn), lower / 2, 1.0))


# --- the purpose of a plan, and its solution --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class PlanSpecification:
    """The purpose of a plan and its limits, the budget aside.

    contrasts (J, K): Coefficients of the contrasts that the plan is for; J is 0 for a plan for all scores.
    contrast_labels: Names of the contrasts.
    scores (K,): The fit's estimates where a fit made the plan, else the mean of F(mu).
    between_covariance (K, K): Covariance of the scores between contexts.
    full_covariance (K, K): Labelling covariance with a label on every pair of every context.
    gauge: Coefficients of the combinations of scores that the functional fixes; K columns.
    explore: Share of the uniform plan that is mixed in.
    predict: Takes a frame of further contexts and returns their probabilities, (n, K, K, C); None for a plan without a
        fit.
    earlier: The labels of the fit, to which those of the plan are added. For a round of scores of its own, the scores
        of the fit, of which only the summary says what they add.
    alpha: One minus the level of intervals and tests where the caller of a method gives none.
    seed: Seed of the draws behind critical values.
    remark: Sentences of the summary: doubts about the fit, and what the contrasts are about.
    test: How tests of differences hold jointly: "max-t" for all pairs, "none" for the test of first place.
    candidate: A model without a score, for which another model's stands; empty for none.
    uniform_plan: What the uniform plan is for, where its pairs have other weights than those of the plan; None: as the
        plan.
    """

    problem: DesignProblem
    criterion: Criterion
    contrasts: FloatArray
    contrast_labels: tuple[str, ...]
    scores: FloatArray
    between_covariance: FloatArray
    full_covariance: FloatArray
    gauge: FloatArray
    min_propensity: float | None
    explore: float
    names: PlanNames
    predict: Callable[[object], FloatArray] | None = None
    earlier: EarlierLabels | None = None
    alpha: float = ALPHA
    seed: int = 0
    remark: str = ""
    candidate: str = ""
    test: str = "max-t"
    uniform_plan: PlanSpecification | None = None

    @property
    def targets(self) -> Targets:
        """What the plan is for: contrasts, or all scores."""
        if len(self.contrasts):
            return self.contrasts, self.contrast_labels
        return np.eye(len(self.scores)), self.names.scores

    @property
    def precision(self) -> Precision:
        """How precise the scores become, as a function of the labelling covariance."""
        return Precision(self.criterion, self.between_covariance, None if self.problem.of_scores else self.earlier)

    @property
    def max_uniform(self) -> float:
        """The largest propensity that all pairs can have at the same time."""
        return 1 / len(self.problem.pairs) if self.problem.one_pair else 1.0

    def uniform(self, cost: float) -> float:
        """Return the uniform plan's propensity at this cost, or the largest possible one."""
        problem = self.problem
        return min(self.max_uniform, (cost + problem.spent) / (problem.total_cost + problem.spent))

    def smallest_propensity(self, budget: float) -> float:
        """Return the smallest propensity of a plan within a budget."""
        if self.min_propensity is None:
            return _SMALLEST_SHARE * self.uniform(budget)
        if self.min_propensity > self.max_uniform * (1 + 1e-12):
            raise OptionError(
                f"min_propensity={self.min_propensity:g} on {len(self.problem.pairs)} pairs is more than one pair per "
                f"context; with one_pair=True the largest one is min_propensity={self.max_uniform:.6g}"
            )
        least = self.min_propensity * self.problem.total_cost
        if least > budget * (1 + 1e-12):
            raise OptionError(
                f"budget={budget:g} is too small for min_propensity={self.min_propensity:g} on every pair; raise the "
                f"budget to {least:.8g}, or take min_propensity={budget / self.problem.total_cost:.6g}"
            )
        return self.min_propensity


@dataclass(frozen=True, slots=True, eq=False)
class PlanSolution:
    """The optimal propensities of a specification within a budget, and the covariance that they lead to.

    smallest_propensity: The smallest propensity that a pair of the graph may have, before the uniform plan is mixed in.
    propensities (g, m): Propensities of the m pairs by row of the problem.
    sigma, uniform_sigma (K, K): n times the covariance of the scores: for the plan, and for the uniform plan of the
        same cost.
    optimum: The optimum before the uniform plan is mixed in. Its violation of the optimality conditions is NaN where it
        was not computed, which saves time in a search over budgets. The multiplier of its allocation is n times the
        amount by which one more unit of budget lowers the objective.
    """

    budget: float
    expected_cost: float
    smallest_propensity: float
    propensities: Propensities
    sigma: FloatArray
    uniform_sigma: FloatArray
    optimum: Optimum

    @property
    def propensity(self) -> FloatArray:
        """All propensities as an array, (g, m), computed on every call."""
        return propensity_table(self.propensities)

    @property
    def slack(self) -> bool:
        """Whether a larger budget would change nothing."""
        return self.optimum.allocation.multiplier == 0


def solve(
    specification: PlanSpecification, budget: float, *, start: SearchStart | None = None, certify: bool = True
) -> PlanSolution:
    """Find the optimal propensities within a budget, mixed with the uniform plan where ``explore`` is positive."""
    problem, precision, explore = specification.problem, specification.precision, specification.explore
    lower = specification.smallest_propensity(budget)
    best = optimise(problem, precision, lower=lower, budget=budget, start=start, certify=certify)
    largest = _LARGEST_RESIDUAL if problem.cell_type is np.float64 else _NEARLY_STATIONARY
    if best.kkt_residual > largest:
        warn(
            f"the plan violates the optimality conditions by {best.kkt_residual:.1e} (relative; kkt_residual), more "
            f"than {largest:g}; the plan keeps to the budget and to the smallest propensity, but it may not "
            f"be optimal",
        )
    propensities, sigma = best.allocation.propensities, precision.sigma(best.start.labelling)
    if explore:
        # Both plans keep to the smallest propensity and the budget. So does their mixture.
        mixed = partial(_mixed, propensities, explore, specification.uniform(budget))
        propensities = Computed(problem.shape, mixed)
        sigma = precision.sigma(problem.labelling_covariance(propensities))
    cost = problem.expected_cost(propensities)
    uniform = specification.full_covariance / specification.uniform(cost)
    uniform_plan = specification.uniform_plan or specification
    if problem.of_scores or specification.uniform_plan:
        # Further runs of a prompt vary more than the mean of earlier ones; earlier labels may be joined with these.
        even = np.broadcast_to(specification.uniform(cost), problem.shape)
        uniform = uniform_plan.problem.labelling_covariance(even)
    uniform_sigma = uniform_plan.precision.sigma(uniform)
    return PlanSolution(budget, cost, lower, propensities, sigma, uniform_sigma, best)


def _mixed(propensities: Propensities, share: float, uniform: float, rows: Rows) -> FloatArray:
    """Return the propensities of some rows, mixed with a share of the uniform plan."""
    return (1 - share) * propensities[rows] + share * uniform
