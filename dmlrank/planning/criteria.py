"""The A and the D criterion: the trace or the log determinant of a covariance, and the allocation that minimises it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .allocation import ROWS, Allocation, allocate, kkt_residual
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
    """An optimal allocation, the Sigma it leads to, (K, K), and how far it is from the optimality conditions."""

    allocation: Allocation
    sigma: FloatArray
    kkt_residual: float
    n_steps: int


def optimise(
    problem: DesignProblem,
    criterion: Criterion,
    between_covariance: FloatArray,
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
    criterion : Criterion
    between_covariance : ndarray, shape (K, K)
        Covariance of the scores between contexts, the part of Sigma that no plan changes.
    lower : ndarray, shape (1, m or 1)
        Floors.
    budget : float
    information : ndarray, shape (n, m), optional
        Of a label of each cell to an A criterion, where that is known already.
    certify : bool
        Whether to compute the violation of the optimality conditions where no search needs it; it is NaN otherwise.
    max_steps : int, optional
        Most steps of an iterative minimisation; 300 for a determinant, 6000 where labels inform each other when None.
    rows : int
        Contexts whose temporary arrays live at a time in an allocation.
    """

    programme = _Programme(problem, criterion, between_covariance, lower, budget, certify, rows)
    if problem.interdependent:
        return programme.interdependent(max_steps or _INTERDEPENDENT_STEPS)
    if criterion.kind == "A":
        return programme.a_optimal(information)
    return programme.d_optimal(max_steps or _STEPS)


@dataclass(frozen=True, slots=True, eq=False)
class _Programme:
    """The convex programme of a plan: its objective and its constraints; see :func:`optimise`."""

    problem: DesignProblem
    criterion: Criterion
    between_covariance: FloatArray
    lower: FloatArray
    budget: float
    certify: bool
    rows: int

    def sigma(self, propensity: FloatArray) -> FloatArray:
        """n times the covariance of the scores, (K, K), for propensities that broadcast to (n, m)."""
        return self.between_covariance + self.problem.labelling_covariance(propensity)

    def allocate(self, information: FloatArray) -> Allocation:
        """The best propensities for labels with this information, (n, m)."""
        problem = self.problem
        return allocate(information, problem.cost, self.lower, self.budget, problem.one_pair, rows=self.rows)

    def residual(self, information: FloatArray, found: Allocation) -> float:
        """Violation of the optimality conditions."""
        return kkt_residual(information, self.problem.cost, self.lower, found)

    def a_optimal(self, information: FloatArray | None) -> Optimum:
        """The smallest sum of variances."""
        if information is None:
            information = self.problem.label_information(self.criterion.metric(self.between_covariance))
        found = self.allocate(information)
        residual = self.residual(information, found) if self.certify else np.nan
        del information
        return Optimum(found, self.sigma(found.propensity), residual, 1)

    def d_optimal(self, max_steps: int) -> Optimum:
        """The smallest log determinant, by majorise-minimise: log det is concave in Sigma, its tangent lies above it.

        Every step is an A criterion and lowers the objective. Where it is stationary it is optimal, for log det
        Sigma(pi) is convex in pi. Steps are extrapolated, and an extrapolation that does not lower the objective is
        dropped. The propensities of a step meet the conditions for the inverse X that it began with; where Sigma of the
        step has the inverse G, every label's information differs by no more than the eigenvalues of G against X do.
        """
        problem, criterion = self.problem, self.criterion
        sigma = self.sigma(np.full((1, 1), min(1.0, self.budget / problem.total_cost)))
        _check_regular(criterion, sigma)
        inverse = plain = criterion.inverse(sigma)
        best, past = np.inf, list[tuple[FloatArray, FloatArray]]()
        for step in range(1, max_steps + 1):  # noqa: B007
            found = self.allocate(problem.label_information(criterion.rows.T @ inverse @ criterion.rows))
            sigma = self.sigma(found.propensity)
            objective = criterion.objective(sigma)
            if objective > best + 1e-12 * max(1.0, abs(best)) and inverse is not plain:
                inverse, past = plain, []
                continue
            best, plain = min(best, objective), criterion.inverse(sigma)
            if np.abs(np.log(scipy.linalg.eigh(plain, inverse, eigvals_only=True))).max() <= _TOLERANCE:
                break
            past = [*past[1 - _HISTORY :], (_log(inverse), _log(plain))]
            inverse = _extrapolated(past) if len(past) > 1 else plain
        if not self.certify:
            return Optimum(found, sigma, np.nan, step)
        return Optimum(found, sigma, self.residual(problem.label_information(criterion.metric(sigma)), found), step)

    def interdependent(self, max_steps: int) -> Optimum:
        """The optimum where labels of a context inform each other, by majorise-minimise in cycles of three steps.

        D adds the tangent of log det to each step.
        """
        problem, criterion = self.problem, self.criterion
        cap = 1 / len(problem.pairs) if problem.one_pair else 1.0
        start = np.full((problem.n_contexts, len(problem.pairs)), min(cap, self.budget / problem.total_cost))

        def information(propensity: FloatArray, sigma: FloatArray) -> FloatArray:
            return problem.label_information(criterion.metric(sigma), propensity)

        def step(propensity: FloatArray, sigma: FloatArray) -> Allocation:
            return self.allocate(information(propensity, sigma))

        found = step(start, self.sigma(start))
        sigma = self.sigma(found.propensity)
        cycle, residual = 0, np.inf
        while cycle < max(1, max_steps // 3) and residual >= _STATIONARY:
            cycle += 1
            once = step(found.propensity, sigma)
            twice = step(once.propensity, self.sigma(once.propensity))
            leap = _squared_step(found.propensity, once.propensity, twice.propensity, self.lower)
            # From wherever the leap has led, a step is feasible again; it counts if it is lower than without the leap.
            further, plain = step(leap, self.sigma(leap)), self.sigma(twice.propensity)
            leapt = self.sigma(further.propensity)
            better = criterion.objective(leapt) < criterion.objective(plain)
            found, sigma = (further, leapt) if better else (twice, plain)
            residual = self.residual(information(found.propensity, sigma), found)
        return Optimum(found, sigma, residual, 3 * cycle)


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
