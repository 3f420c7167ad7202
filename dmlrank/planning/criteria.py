"""The A and the D criterion: the trace or the log determinant of a covariance, and the allocation that minimises it.

Sigma is n times the covariance of the scores, and L, (J, K), holds the coefficients of the J contrasts that the plan is
for. The A criterion is the trace of L Sigma L', the D criterion its log determinant. The *metric* is the derivative of
the criterion by Sigma. The *labelling covariance* is the part of Sigma that depends on the propensities of the plan:
E sum_jk M_jk / pi_jk. See :mod:`dmlrank.planning.problem` for M, rows, cells and the information of a label.

With the estimator ``bt_restricted`` the information of a label depends on the other labels of its context; such a
problem is called *interdependent*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .allocation import Allocation, CellRates, Constraints, allocate, kkt_residual
from .problem import DesignProblem

# Share of the largest eigenvalue below which a direction has no variance.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class EarlierLabels:
    r"""How precise the scores are with the labels and verdicts of a fit and the labels of a plan together.

    Given the prompts, the errors of the labels are independent. Sigma is the covariance of the estimate from all
    labels, times the number of contexts of the plan. B is the covariance of the scores between prompts, and L the
    labelling covariance of the plan.

    - A plan for new prompts: one fit of all rows, each with the propensity of its own round, weights every prompt
      equally. If the plan's prompts are a share w of all prompts, :math:`\Sigma = (1 - w)^2 A + w^2 (B + L)`, where A
      is the covariance of the fit. Sigma may be larger than A where few labels are spread over many new prompts.
    - A plan for the fit's own prompts: the estimate from all labels is at least as precise as the best weighted mean of
      the fit's estimate and the one from the planned labels, which share B,
      :math:`\Sigma = B + (A^{-1} + L^{-1})^{-1}`. Here A is the part of the fit's covariance beyond B.

    sigma (K, K): Covariance of the fit's scores, times the number of contexts of the plan.
    share: Share w of the plan's prompts among all prompts; None for a plan for the fit's own prompts.
    """

    sigma: FloatArray
    share: float | None

    def combined(self, between: FloatArray, labelling: FloatArray) -> FloatArray:
        """Return Sigma, (K, K), of the estimate from all labels.

        Shapes: between (K, K), labelling (K, K).
        """
        if self.share is not None:
            return (1 - self.share) ** 2 * self.sigma + self.share**2 * (between + labelling)
        earlier = self._beyond(between)
        return np.asarray(between + _symmetric(earlier @ _inverse(earlier + labelling) @ labelling))

    def without_plan(self, between: FloatArray) -> FloatArray:
        """Return Sigma, (K, K), without any planned label."""
        return self.sigma if self.share is not None else between + self._beyond(between)

    def slope(self, between: FloatArray, labelling: FloatArray) -> FloatArray:
        """Return the matrix G, (K, K), with d Sigma = G' dL G: how Sigma changes with the labelling covariance L."""
        if self.share is not None:
            return self.share * np.eye(len(self.sigma))
        earlier = self._beyond(between)
        return _inverse(earlier + labelling) @ earlier

    def _beyond(self, between: FloatArray) -> FloatArray:
        """Return the part of the fit's covariance beyond B, (K, K)."""
        values, vectors = np.linalg.eigh(_symmetric(self.sigma - between))
        # By chance the fit's covariance may be smaller than B in a direction. There the fit's labels count as free of
        # noise.
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the generalised inverse of a covariance, (K, K), zero where the covariance has no variance."""
    return np.asarray(np.linalg.pinv(matrix, rcond=_ROUNDING, hermitian=True), dtype=np.float64)


# The search for an optimum ends if a step changes the logarithm of the labelling covariance by no more than this in
# every direction.
_TOLERANCE = 1e-6
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
        if self.kind == "A":
            return float(np.trace(covariance))
        return float(np.linalg.slogdet(covariance)[1])

    def metric(self, sigma: FloatArray) -> FloatArray:
        """Return the derivative of the objective by Sigma, (K, K)."""
        if self.kind == "A":
            return self.rows.T @ self.rows
        return self.rows.T @ self.inverse(sigma) @ self.rows

    def inverse(self, sigma: FloatArray) -> FloatArray:
        """Return the inverse of L Sigma L', (J, J)."""
        inverse = np.linalg.inv(self.rows @ sigma @ self.rows.T)
        return np.asarray((inverse + inverse.T) / 2, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """An optimal allocation, the covariance that it leads to, and how far it is from the optimality conditions.

    sigma (K, K): n times the covariance of the scores.
    metric (K, K): Derivative of the objective by the labelling covariance, at the optimum.
    kkt_residual: Largest relative violation of the optimality conditions; NaN where it was not computed.
    labelling (K, K): The labelling covariance.
    """

    allocation: Allocation
    sigma: FloatArray
    metric: FloatArray
    kkt_residual: float
    n_steps: int
    labelling: FloatArray

    def as_start(self) -> SearchStart:
        """Return where the search for the optimum of a similar problem begins."""
        return SearchStart(self.labelling, None if self.allocation.slack else self.allocation.level)


@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """How precise the scores become: Sigma and the criterion as functions of the labelling covariance.

    between_covariance (K, K): Covariance of the scores between contexts, the part of Sigma that no plan changes.
    earlier: The labels of a fit, to which planned labels are added.
    """

    criterion: Criterion
    between_covariance: FloatArray
    earlier: EarlierLabels | None = None

    @property
    def linear(self) -> bool:
        """Whether the objective is linear in the labelling covariance, so that one allocation finds the optimum."""
        return self.criterion.kind == "A" and (self.earlier is None or self.earlier.share is not None)

    def sigma(self, labelling: FloatArray) -> FloatArray:
        """Return Sigma, n times the covariance of the scores, from the labelling covariance; (K, K) both."""
        if self.earlier is None:
            return self.between_covariance + labelling
        return self.earlier.combined(self.between_covariance, labelling)

    def objective(self, labelling: FloatArray) -> float:
        """Return the value of the criterion for a labelling covariance, (K, K)."""
        return self.criterion.objective(self.sigma(labelling))

    def metric(self, labelling: FloatArray) -> FloatArray:
        """Return the derivative of the objective by the labelling covariance, (K, K)."""
        metric = self.criterion.metric(self.sigma(labelling))
        if self.earlier is None:
            return metric
        slope = self.earlier.slope(self.between_covariance, labelling)
        return np.asarray(slope @ metric @ slope.T)


@dataclass(frozen=True, slots=True, eq=False)
class SearchStart:
    """Where a search by steps begins.

    labelling (K, K): The labelling covariance.
    level: Level of an allocation near the optimum, see :class:`dmlrank.planning.allocation.Allocation`.
    """

    labelling: FloatArray
    level: float | None = None

    def at_budget(self, factor: float) -> SearchStart:
        """Return the start for a budget that is ``factor`` times as large."""
        return SearchStart(self.labelling / factor, None if self.level is None else self.level * factor)


def optimise(
    problem: DesignProblem,
    precision: Precision,
    *,
    lower: FloatArray,
    budget: float,
    rates: CellRates | None = None,
    start: SearchStart | None = None,
    certify: bool = True,
) -> Optimum:
    """Find the propensities that minimise the criterion within a budget.

    Without ``certify`` the violation of the optimality conditions is NaN where the search does not need it.

    Shapes: lower (1, m or 1), rates (g, m).
    """
    constraints = Constraints(problem.cost, lower, budget, problem.one_pair, problem.count)
    search = _Search(problem, precision, constraints, certify)
    if problem.interdependent:
        return search.of_interdependent_labels()
    if precision.linear:
        return search.of_linear_objective(rates)
    return search.of_concave_objective(start)


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """The search for the optimum of an objective under constraints; see :func:`optimise`."""

    problem: DesignProblem
    precision: Precision
    constraints: Constraints
    certify: bool

    def allocate(self, rates: CellRates, start: float | None = None) -> Allocation:
        """Find the best propensities for labels with these rates, (g, m); ``start`` is a level near the optimum's."""
        return allocate(rates, self.constraints, start=start)

    def residual(self, rates: CellRates, allocation: Allocation) -> float:
        """Return the largest relative violation of the optimality conditions."""
        return kkt_residual(rates, self.constraints, allocation)

    def of_linear_objective(self, rates: CellRates | None) -> Optimum:
        """Find the optimum of the A criterion of a plan without earlier labels, by one allocation."""
        metric = self.precision.metric(self.precision.between_covariance)
        if rates is None:
            rates = self.problem.label_rates(metric)
        allocation = self.allocate(rates)
        residual = self.residual(rates, allocation) if self.certify else np.nan
        labelling = self.problem.labelling_covariance(allocation.propensities)
        return Optimum(allocation, self.precision.sigma(labelling), metric, residual, 1, labelling)

    def of_concave_objective(self, start: SearchStart | None) -> Optimum:
        """Find the optimum of an objective that is concave in the labelling covariance, by majorise-minimise steps."""
        problem, precision = self.problem, self.precision
        if start is None:
            start = self.first_step()
        if precision.criterion.kind == "D":
            _check_regular(precision.criterion, precision.sigma(start.labelling))
        values, vectors = np.linalg.eigh(start.labelling)
        # The directions in which there is variance.
        basis, level = vectors[:, values > _ROUNDING * values[-1]], start.level
        # A step starts at the labelling covariance ``state`` and leads to ``reached``, in coordinates of the basis.
        state = reached = basis.T @ start.labelling @ basis
        best, past = np.inf, list[tuple[FloatArray, FloatArray]]()
        for step in range(1, MAX_STEPS + 1):
            metric = precision.metric(basis @ state @ basis.T)
            allocation = self.allocate(problem.label_rates(metric), level)
            level = None if allocation.slack else allocation.level
            labelling = problem.labelling_covariance(allocation.propensities)
            objective = precision.objective(labelling)
            if objective > best + 1e-12 * max(1.0, abs(best)) and state is not reached:
                state, past = reached, []
                continue
            best, reached = min(best, objective), basis.T @ labelling @ basis
            move = float(np.abs(np.log(scipy.linalg.eigh(reached, state, eigvals_only=True))).max())
            problem.report_step(step, 0 if move <= _TOLERANCE else max(1, round(np.log10(move / _TOLERANCE))))
            if move <= _TOLERANCE:
                break
            past = [*past[1 - _HISTORY :], (_log(state), _log(reached))]
            state = _extrapolate(past) if len(past) > 1 else reached
        metric, sigma = precision.metric(labelling), precision.sigma(labelling)
        residual = self.residual(problem.label_rates(metric), allocation) if self.certify else np.nan
        return Optimum(allocation, sigma, metric, residual, step, labelling)

    def first_step(self) -> SearchStart:
        """Return where a search by steps begins: at the optimum of a sample of the rows, or at the uniform plan."""
        problem, budget = self.problem, self.constraints.budget
        size = problem.sample_size
        if problem.n_rows <= 4 * size:
            uniform = min(1.0, budget / problem.total_cost)
            return SearchStart(problem.labelling_covariance(np.full((1, 1), uniform)))
        sample = problem.sampled(size)
        optimum = optimise(
            sample,
            self.precision,
            lower=self.constraints.lower,
            budget=budget * sample.total_cost / problem.total_cost,
            certify=False,
        )
        return optimum.as_start()

    def of_interdependent_labels(self) -> Optimum:
        """Find the optimum of an interdependent problem, by majorise-minimise in cycles of three steps.

        Two steps are followed by an extrapolation and a third step, which starts at the extrapolated propensities. If
        the third step leads to a larger objective than the second step, the result of the second step is kept. Where
        the objective is not linear in the labelling covariance, each step minimises the tangent at the current point.
        """
        problem, precision, constraints = self.problem, self.precision, self.constraints
        max_cycles = max(1, MAX_INTERDEPENDENT_STEPS // 3)
        cap = 1 / len(problem.pairs) if problem.one_pair else 1.0
        start = np.full(problem.shape, min(cap, constraints.budget / problem.total_cost))

        def rates_at(propensity: FloatArray, labelling: FloatArray) -> CellRates:
            return CellRates.of(problem.label_information(precision.metric(labelling), propensity), problem.cost)

        def step(propensity: FloatArray, labelling: FloatArray) -> tuple[Allocation, FloatArray, FloatArray]:
            """Return the next allocation, its propensities and their labelling covariance."""
            allocation = self.allocate(rates_at(propensity, labelling))
            table = allocation.propensity
            return allocation, table, problem.labelling_covariance(table)

        allocation, propensity, labelling = step(start, problem.labelling_covariance(start))
        cycle, residual = 0, np.inf
        while cycle < max_cycles and residual >= _STATIONARY:
            cycle += 1
            _, first_propensity, first_labelling = step(propensity, labelling)
            second = step(first_propensity, first_labelling)
            _, second_propensity, second_labelling = second
            extrapolated = _extrapolate_two_steps(propensity, first_propensity, second_propensity, constraints.lower)
            # The extrapolated propensities may violate the constraints; the step from there meets them again.
            third = step(extrapolated, problem.labelling_covariance(extrapolated))
            _, _, third_labelling = third
            third_is_better = precision.objective(third_labelling) < precision.objective(second_labelling)
            allocation, propensity, labelling = third if third_is_better else second
            residual = self.residual(rates_at(propensity, labelling), allocation)
        sigma, metric = precision.sigma(labelling), precision.metric(labelling)
        return Optimum(allocation, sigma, metric, residual, 3 * cycle, labelling)


def _extrapolate_two_steps(start: FloatArray, first: FloatArray, second: FloatArray, lower: FloatArray) -> FloatArray:
    """Extrapolate two steps of a slowly converging iteration on the log scale (SQUAREM).

    Shapes: start, first, second (g, m), lower (1, m or 1).
    """
    origin, move = np.log(start), np.log(first) - np.log(start)
    turn = np.log(second) - np.log(first) - move
    size = np.sqrt(np.square(turn).sum(axis=1, keepdims=True))
    length = np.divide(
        np.sqrt(np.square(move).sum(axis=1, keepdims=True)), size, out=np.ones_like(size), where=size > 0
    )
    length = np.clip(length, 1.0, _LONGEST)
    return np.asarray(np.clip(np.exp(origin + 2 * length * move + length**2 * turn), lower / 2, 1.0))


def _extrapolate(past: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Return the Anderson acceleration of past steps, as a positive definite matrix.

    Shapes: past (r, r) each.
    """
    moves = np.stack([(after - before).ravel() for before, after in past])
    change = np.diff(moves, axis=0)
    share = np.linalg.lstsq(change.T, moves[-1], rcond=1e-10)[0]
    ends = np.stack([after for _, after in past])
    mixed = ends[-1] - np.tensordot(share, np.diff(ends, axis=0), axes=1)
    values, vectors = np.linalg.eigh((mixed + mixed.T) / 2)
    return np.asarray((vectors * np.exp(values)) @ vectors.T, dtype=np.float64)


def _log(matrix: FloatArray) -> FloatArray:
    """Return the logarithm of a positive definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.log(values)) @ vectors.T, dtype=np.float64)


def _check_regular(criterion: Criterion, sigma: FloatArray) -> None:
    """Check that L Sigma L' is regular; otherwise raise, since its determinant is zero."""
    values = np.linalg.eigvalsh(criterion.rows @ sigma @ criterion.rows.T)
    if not values[0] > 1e-12 * values[-1]:
        raise OptionError(
            "under these probabilities a combination of the scores has no variance, so that the determinant of "
            "criterion='D' is zero; use criterion='A', or contrasts= without the combinations that have no variance"
        )
