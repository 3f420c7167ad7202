"""The A and the D criterion: the trace or the log determinant of a covariance, and the allocation that minimises it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .allocation import ROWS, Allocation, allocate, kkt_residual
from .earlier_labels import EarlierLabels
from .problem import DesignProblem

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
        """tr L Sigma L', or log det L Sigma L'."""
        covariance = self.rows @ sigma @ self.rows.T
        if self.kind == "A":
            return float(np.trace(covariance))
        return float(np.linalg.slogdet(covariance)[1])

    def metric(self, sigma: FloatArray) -> FloatArray:
        """Derivative of the objective by Sigma, (K, K)."""
        if self.kind == "A":
            return self.rows.T @ self.rows
        return self.rows.T @ self.inverse(sigma) @ self.rows

    def inverse(self, sigma: FloatArray) -> FloatArray:
        """(L Sigma L')^-1, (J, J)."""
        made = np.linalg.inv(self.rows @ sigma @ self.rows.T)
        return np.asarray((made + made.T) / 2, dtype=np.float64)


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
    """

    allocation: Allocation
    sigma: FloatArray
    metric: FloatArray
    kkt_residual: float
    n_steps: int


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
        """n times the covariance of the scores, (K, K), from what labelling adds to it, (K, K)."""
        if self.earlier is None:
            return self.between_covariance + labelling
        return self.earlier.combined(self.between_covariance, labelling)

    def objective(self, labelling: FloatArray) -> float:
        """The criterion's value."""
        return self.criterion.objective(self.sigma(labelling))

    def metric(self, labelling: FloatArray) -> FloatArray:
        """Derivative of the objective by what labelling adds, (K, K)."""
        metric = self.criterion.metric(self.sigma(labelling))
        if self.earlier is None:
            return metric
        slope = self.earlier.slope(self.between_covariance, labelling)
        return np.asarray(slope @ metric @ slope.T)


def optimise(
    problem: DesignProblem,
    precision: Precision,
    *,
    lower: FloatArray,
    budget: float,
    information: FloatArray | None = None,
    certify: bool = True,
    max_steps: int | None = None,
    rows: int = ROWS,
) -> Optimum:
    """The plan that minimises the criterion.

    Parameters
    ----------
    problem : DesignProblem
    precision : Precision
    lower : ndarray, shape (1, m or 1)
        Floors.
    budget : float
    information : ndarray, shape (n, m), optional
        Of a label of each cell, where the objective is linear and that is known already.
    certify : bool
        Whether to compute the violation of the optimality conditions where no search needs it; it is NaN otherwise.
    max_steps : int, optional
        Most steps of an iterative minimisation; 300 for a determinant, 6000 where labels inform each other when None.
    rows : int
        Contexts whose temporary arrays live at a time in an allocation.
    """

    programme = _Programme(problem, precision, lower, budget, certify, rows)
    if problem.interdependent:
        return programme.interdependent(max_steps or _INTERDEPENDENT_STEPS)
    if precision.linear:
        return programme.in_one_step(information)
    return programme.in_steps(max_steps or _STEPS)


@dataclass(frozen=True, slots=True, eq=False)
class _Programme:
    """The convex programme of a plan: its objective and its constraints; see :func:`optimise`."""

    problem: DesignProblem
    precision: Precision
    lower: FloatArray
    budget: float
    certify: bool
    rows: int

    def labelling(self, propensity: FloatArray) -> FloatArray:
        """What labelling adds to Sigma, (K, K), for propensities that broadcast to (n, m)."""
        return self.problem.labelling_covariance(propensity)

    def allocate(self, information: FloatArray) -> Allocation:
        """The best propensities for labels with this information, (n, m)."""
        problem = self.problem
        return allocate(
            information,
            problem.cost,
            self.lower,
            self.budget,
            problem.one_pair,
            count=problem.count,
            rows=self.rows,
        )

    def residual(self, information: FloatArray, found: Allocation) -> float:
        """Violation of the optimality conditions."""
        return kkt_residual(information, self.problem.cost, self.lower, found)

    def in_one_step(self, information: FloatArray | None) -> Optimum:
        """The optimum of a linear objective: the smallest sum of variances of an estimate from these labels alone."""
        metric = self.precision.metric(self.precision.between_covariance)
        if information is None:
            information = self.problem.label_information(metric)
        found = self.allocate(information)
        residual = self.residual(information, found) if self.certify else np.nan
        del information
        return Optimum(found, self.precision.sigma(self.labelling(found.propensity)), metric, residual, 1)

    def in_steps(self, max_steps: int) -> Optimum:
        """The optimum of a concave objective, by majorise-minimise: its tangent lies above it.

        The log determinant is concave in Sigma, and Sigma in what labelling adds. Every step is an A criterion and
        lowers the objective. Where it is stationary it is optimal, for the objective is convex in pi. What labelling
        adds is extrapolated from step to step, on the logarithmic scale, and an extrapolation that does not lower the
        objective is dropped.
        """
        problem, precision = self.problem, self.precision
        start = self.labelling(np.full((1, 1), min(1.0, self.budget / problem.total_cost)))
        if precision.criterion.kind == "D":
            _check_regular(precision.criterion, precision.sigma(start))
        basis = _varying(start)
        state = plain = basis.T @ start @ basis
        best, past = np.inf, list[tuple[FloatArray, FloatArray]]()
        for step in range(1, max_steps + 1):  # noqa: B007
            metric = precision.metric(basis @ state @ basis.T)
            found = self.allocate(problem.label_information(metric))
            labelling = self.labelling(found.propensity)
            objective = precision.objective(labelling)
            if objective > best + 1e-12 * max(1.0, abs(best)) and state is not plain:
                state, past = plain, []
                continue
            best, plain = min(best, objective), basis.T @ labelling @ basis
            if np.abs(np.log(scipy.linalg.eigh(plain, state, eigvals_only=True))).max() <= _TOLERANCE:
                break
            past = [*past[1 - _HISTORY :], (_log(state), _log(plain))]
            state = _extrapolated(past) if len(past) > 1 else plain
        metric, sigma = precision.metric(labelling), precision.sigma(labelling)
        residual = self.residual(problem.label_information(metric), found) if self.certify else np.nan
        return Optimum(found, sigma, metric, residual, step)

    def interdependent(self, max_steps: int) -> Optimum:
        """The optimum where labels of a context inform each other, by majorise-minimise in cycles of three steps.

        Where the objective is not linear in what labelling adds, each step has its tangent.
        """
        problem, precision = self.problem, self.precision
        cap = 1 / len(problem.pairs) if problem.one_pair else 1.0
        start = np.full((problem.n_rows, len(problem.pairs)), min(cap, self.budget / problem.total_cost))

        def information(propensity: FloatArray, labelling: FloatArray) -> FloatArray:
            return problem.label_information(precision.metric(labelling), propensity)

        def step(propensity: FloatArray, labelling: FloatArray) -> Allocation:
            return self.allocate(information(propensity, labelling))

        found = step(start, self.labelling(start))
        labelling = self.labelling(found.propensity)
        cycle, residual = 0, np.inf
        while cycle < max(1, max_steps // 3) and residual >= _STATIONARY:
            cycle += 1
            once = step(found.propensity, labelling)
            twice = step(once.propensity, self.labelling(once.propensity))
            leap = _squared_step(found.propensity, once.propensity, twice.propensity, self.lower)
            # From wherever the leap has led, a step is feasible again; it counts if it is lower than without the leap.
            further, plain = step(leap, self.labelling(leap)), self.labelling(twice.propensity)
            leapt = self.labelling(further.propensity)
            better = precision.objective(leapt) < precision.objective(plain)
            found, labelling = (further, leapt) if better else (twice, plain)
            residual = self.residual(information(found.propensity, labelling), found)
        return Optimum(found, precision.sigma(labelling), precision.metric(labelling), residual, 3 * cycle)


def _varying(matrix: FloatArray) -> FloatArray:
    """Orthonormal columns, (K, r), of the directions in which a covariance, (K, K), has variance."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors[:, values > 1e-12 * values[-1]], dtype=np.float64)


def _squared_step(start: FloatArray, once: FloatArray, twice: FloatArray, lower: FloatArray) -> FloatArray:
    """Where two steps of a slowly converging iteration point to, (n, m), extrapolated by context on the log scale.

    References
    ----------
    Varadhan and Roland (2008), Simple and globally convergent methods for accelerating the convergence of any EM
    algorithm, Scandinavian Journal of Statistics 35 (the third step length).
    """
    origin, first = np.log(start), np.log(once) - np.log(start)
    turn = np.log(twice) - np.log(once) - first
    size = np.sqrt(np.square(turn).sum(axis=1, keepdims=True))
    length = np.divide(
        np.sqrt(np.square(first).sum(axis=1, keepdims=True)), size, out=np.ones_like(size), where=size > 0
    )
    length = np.clip(length, 1.0, _LONGEST)
    return np.asarray(np.clip(np.exp(origin + 2 * length * first + length**2 * turn), lower / 2, 1.0))


def _extrapolated(past: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Anderson's mixture of past steps (from, to), each the logarithm of a positive definite matrix."""
    moves = np.stack([(after - before).ravel() for before, after in past])
    change = np.diff(moves, axis=0)
    share = np.linalg.lstsq(change.T, moves[-1], rcond=1e-10)[0]
    ends = np.stack([after for _, after in past])
    mixed = ends[-1] - np.tensordot(share, np.diff(ends, axis=0), axes=1)
    values, vectors = np.linalg.eigh((mixed + mixed.T) / 2)
    return np.asarray((vectors * np.exp(values)) @ vectors.T, dtype=np.float64)


def _log(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.log(values)) @ vectors.T, dtype=np.float64)


def _check_regular(criterion: Criterion, sigma: FloatArray) -> None:
    values = np.linalg.eigvalsh(criterion.rows @ sigma @ criterion.rows.T)
    if not values[0] > 1e-12 * values[-1]:
        raise OptionError(
            "criterion='D' needs scores that are uncertain in every direction, but under these probabilities a "
            "combination of them has no variance; use criterion='A', or contrasts= that leave the certain ones out"
        )
