"""The A and the D criterion: the trace or the log determinant of a covariance, and the allocation that minimises it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .allocation import Allocation, Constraints, allocate, kkt_residual
from .earlier_labels import EarlierLabels
from .problem import DesignProblem
from .propensities import CellRates

_TOLERANCE = 1e-6
# Most steps for a determinant, and most where labels inform each other, in cycles of three.
_STEPS, _INTERDEPENDENT_STEPS = 300, 6000
_HISTORY = 5
# Where labels inform each other: the violation of the optimality conditions at which steps end.
_STATIONARY = 1e-5
# Longest extrapolation, in steps.
_LONGEST = 300.0


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """What is to be estimated precisely: contrasts of the scores, by the sum of their variances or their determinant.

    Attributes
    ----------
    kind : {"A", "D"}
    rows : ndarray, shape (J, K)
        The contrasts; for "D" independent rows within what the functional leaves free.
    """

    kind: str
    rows: FloatArray

    def objective(self, sigma: FloatArray) -> float:
        """Trace of L Sigma L' ("A"), or its log determinant ("D")."""
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
        """(L Sigma L')^-1, (J, J)."""
        inverse = np.linalg.inv(self.rows @ sigma @ self.rows.T)
        return np.asarray((inverse + inverse.T) / 2, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """An optimal allocation, where it leads to, and how far it is from the optimality conditions.

    Attributes
    ----------
    allocation : Allocation
    sigma : ndarray, shape (K, K)
        n times the covariance of the scores.
    metric : ndarray, shape (K, K)
        Derivative of the objective by what labelling adds to Sigma, at the optimum.
    kkt_residual : float
    n_steps : int
    labelling : ndarray, shape (K, K)
        What labelling adds to Sigma.
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
    """How precise the scores become: from what labelling adds to their covariance to an objective.

    Attributes
    ----------
    criterion : Criterion
    between_covariance : ndarray, shape (K, K)
        Covariance of the scores between contexts, the part of Sigma that no plan changes.
    earlier : EarlierLabels or None
        Labels that are there already.
    """

    criterion: Criterion
    between_covariance: FloatArray
    earlier: EarlierLabels | None = None

    @property
    def linear(self) -> bool:
        """Whether the objective is linear in what labelling adds, so that one allocation is the optimum."""
        return self.criterion.kind == "A" and self.earlier is None

    def sigma(self, labelling: FloatArray) -> FloatArray:
        """Return n times the covariance of the scores, (K, K), from what labelling adds to it, (K, K)."""
        if self.earlier is None:
            return self.between_covariance + labelling
        return self.earlier.combined(self.between_covariance, labelling)

    def objective(self, labelling: FloatArray) -> float:
        """Return the value of the criterion."""
        return self.criterion.objective(self.sigma(labelling))

    def metric(self, labelling: FloatArray) -> FloatArray:
        """Return the derivative of the objective by what labelling adds, (K, K)."""
        metric = self.criterion.metric(self.sigma(labelling))
        if self.earlier is None:
            return metric
        slope = self.earlier.slope(self.between_covariance, labelling)
        return np.asarray(slope @ metric @ slope.T)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How the search for an optimal allocation is carried out; no option changes the optimum.

    Attributes
    ----------
    certify : bool
        Whether to compute the violation of the optimality conditions where no search needs it; it is NaN otherwise.
    max_steps : int, optional
        Most steps of an iterative minimisation; 300 for a determinant, 6000 where labels inform each other when None.
    rows : int, optional
        Rows whose temporary arrays live at a time in an allocation; about 65,536 cells when None.
    sample_size : int
        Rows of the random sample on which a search by steps begins where the problem has more than four times as many.
    """

    certify: bool = True
    max_steps: int | None = None
    rows: int | None = None
    sample_size: int = 4_000


@dataclass(frozen=True, slots=True, eq=False)
class SearchStart:
    """Where a search by steps begins.

    Attributes
    ----------
    labelling : ndarray, shape (K, K)
        What labelling adds to Sigma.
    level : float or None
        Level of the allocation, lambda^(-1/2).
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
    options: SearchOptions | None = None,
) -> Optimum:
    """Find the plan that minimises the criterion.

    Parameters
    ----------
    problem : DesignProblem
    precision : Precision
    lower : ndarray, shape (1, m or 1)
        Floors.
    budget : float
    rates : CellRates, shape (n, m), optional
        Square roots of information per cost, where the objective is linear and they have been computed already.
    start : SearchStart, optional
        Where a search by steps begins, such as the optimum of a similar budget.
    options : SearchOptions, optional
    """
    constraints = Constraints(problem.cost, lower, budget, problem.one_pair, problem.count)
    programme = _Programme(problem, precision, constraints, options or SearchOptions())
    if problem.interdependent:
        return programme.interdependent()
    if precision.linear:
        return programme.in_one_step(rates)
    return programme.in_steps(start)


@dataclass(frozen=True, slots=True, eq=False)
class _Programme:
    """The convex programme of a plan: its objective and its constraints; see :func:`optimise`.

    Attributes
    ----------
    problem : DesignProblem
    precision : Precision
    constraints : Constraints
    options : SearchOptions
    """

    problem: DesignProblem
    precision: Precision
    constraints: Constraints
    options: SearchOptions

    def allocate(self, rates: CellRates, start: float | None = None) -> Allocation:
        """Find the best propensities for labels with these rates, (n, m), from a level near the optimum's."""
        return allocate(rates, self.constraints, start=start, n_jobs=self.problem.n_jobs, rows=self.options.rows)

    def residual(self, rates: CellRates, allocation: Allocation) -> float:
        """Violation of the optimality conditions."""
        return kkt_residual(rates, self.constraints, allocation, n_jobs=self.problem.n_jobs, rows=self.options.rows)

    def in_one_step(self, rates: CellRates | None) -> Optimum:
        """Find the optimum of a linear objective: the sum of variances of an estimate from these labels alone."""
        metric = self.precision.metric(self.precision.between_covariance)
        if rates is None:
            rates = self.problem.label_rates(metric)
        allocation = self.allocate(rates)
        residual = self.residual(rates, allocation) if self.options.certify else np.nan
        labelling = self.problem.labelling_covariance(allocation.propensities)
        return Optimum(allocation, self.precision.sigma(labelling), metric, residual, 1, labelling)

    def in_steps(self, start: SearchStart | None) -> Optimum:
        """Find the optimum of a concave objective, by majorise-minimise: its tangent lies above it.

        The log determinant is concave in Sigma, and Sigma in what labelling adds. Every step is an A criterion and
        lowers the objective. Where it is stationary it is optimal, for the objective is convex in pi. What labelling
        adds is extrapolated from step to step, on the logarithmic scale, and an extrapolation that does not lower the
        objective is dropped.
        """
        problem, precision, max_steps = self.problem, self.precision, self.options.max_steps or _STEPS
        if start is None:
            start = self.first_step()
        if precision.criterion.kind == "D":
            _check_regular(precision.criterion, precision.sigma(start.labelling))
        basis, level = _varying(start.labelling), start.level
        state = reached = basis.T @ start.labelling @ basis
        best, past = np.inf, list[tuple[FloatArray, FloatArray]]()
        for step in range(1, max_steps + 1):
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
        residual = self.residual(problem.label_rates(metric), allocation) if self.options.certify else np.nan
        return Optimum(allocation, sigma, metric, residual, step, labelling)

    def first_step(self) -> SearchStart:
        """Return where a search by steps begins: at the optimum of a sample of the rows, or at the uniform plan."""
        problem, budget = self.problem, self.constraints.budget
        size = problem.sample_size(self.options.sample_size)
        if problem.n_rows <= 4 * size:
            uniform = min(1.0, budget / problem.total_cost)
            return SearchStart(problem.labelling_covariance(np.full((1, 1), uniform)))
        sample = problem.sampled(size)
        optimum = optimise(
            sample,
            self.precision,
            lower=self.constraints.lower,
            budget=budget * sample.total_cost / problem.total_cost,
            options=replace(self.options, certify=False),
        )
        return optimum.as_start()

    def interdependent(self) -> Optimum:
        """Find the optimum where labels of a context inform each other, by majorise-minimise in cycles of three steps.

        Where the objective is not linear in what labelling adds, each step has its tangent.
        """
        problem, precision, constraints = self.problem, self.precision, self.constraints
        max_cycles = max(1, (self.options.max_steps or _INTERDEPENDENT_STEPS) // 3)
        cap = 1 / len(problem.pairs) if problem.one_pair else 1.0
        start = np.full(problem.shape, min(cap, constraints.budget / problem.total_cost))

        def rates_at(propensity: FloatArray, labelling: FloatArray) -> CellRates:
            return CellRates.of(problem.label_information(precision.metric(labelling), propensity), problem.cost)

        def step(propensity: FloatArray, labelling: FloatArray) -> tuple[Allocation, FloatArray, FloatArray]:
            """Return the next allocation, its propensities and what labelling by them adds to Sigma."""
            allocation = self.allocate(rates_at(propensity, labelling))
            table = allocation.propensity
            return allocation, table, problem.labelling_covariance(table)

        allocation, propensity, labelling = step(start, problem.labelling_covariance(start))
        cycle, residual = 0, np.inf
        while cycle < max_cycles and residual >= _STATIONARY:
            cycle += 1
            _, first_propensity, first_labelling = step(propensity, labelling)
            second = step(first_propensity, first_labelling)
            leap = _squared_step(propensity, first_propensity, second[1], constraints.lower)
            # From wherever the leap has led, a step is feasible again; it counts if it is lower than without the leap.
            leapt = step(leap, problem.labelling_covariance(leap))
            better = precision.objective(leapt[2]) < precision.objective(second[2])
            allocation, propensity, labelling = leapt if better else second
            residual = self.residual(rates_at(propensity, labelling), allocation)
        sigma, metric = precision.sigma(labelling), precision.metric(labelling)
        return Optimum(allocation, sigma, metric, residual, 3 * cycle, labelling)


def _varying(matrix: FloatArray) -> FloatArray:
    """Orthonormal columns, (K, r), of the directions in which a covariance, (K, K), has variance."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors[:, values > 1e-12 * values[-1]], dtype=np.float64)


def _squared_step(start: FloatArray, first: FloatArray, second: FloatArray, lower: FloatArray) -> FloatArray:
    """Extrapolate two steps of a slowly converging iteration by context, on the log scale.

    Parameters
    ----------
    start, first, second : ndarray, shape (n, m)
        Propensities before the two steps, after the first and after the second one.
    lower : ndarray, shape (1, m or 1)
        Floors.

    References
    ----------
    Varadhan and Roland (2008), Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm, Scandinavian Journal of Statistics 35 (the third step length).
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
    """Anderson's mixture of past steps (from, to), each the logarithm of a positive definite matrix."""
    moves = np.stack([(after - before).ravel() for before, after in past])
    change = np.diff(moves, axis=0)
    share = np.linalg.lstsq(change.T, moves[-1], rcond=1e-10)[0]
    ends = np.stack([after for _, after in past])
    mixed = ends[-1] - np.tensordot(share, np.diff(ends, axis=0), axes=1)
    values, vectors = np.linalg.eigh((mixed + mixed.T) / 2)
    return np.asarray((vectors * np.exp(values)) @ vectors.T, dtype=np.float64)


def _log(matrix: FloatArray) -> FloatArray:
    """Logarithm of a positive definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.log(values)) @ vectors.T, dtype=np.float64)


def _check_regular(criterion: Criterion, sigma: FloatArray) -> None:
    """Raise where Sigma has no variance in a direction of the criterion, so that the determinant is zero."""
    values = np.linalg.eigvalsh(criterion.rows @ sigma @ criterion.rows.T)
    if not values[0] > 1e-12 * values[-1]:
        raise OptionError(
            "under these probabilities a combination of the scores has no variance, but criterion='D' needs scores "
            "that are uncertain in every direction; use criterion='A', or contrasts= without the certain combinations"
        )
