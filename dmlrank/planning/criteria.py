"""What a plan minimises, and the plan that does: the trace or the determinant of the covariance of what is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .allocation import Allocation, allocate, stationarity
from .bt_restricted import RestrictedProblem, squared_step
from .problem import Problem

_TOLERANCE = 1e-6
_STEPS = 300
_HISTORY = 5
# Cycles of three steps where labels work together, and the violation of the optimality conditions at which they end.
_CYCLES, _STATIONARY = 2000, 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """What is to be estimated well: combinations of the scores, and the sum of their variances or their determinant.

    Attributes
    ----------
    kind : {"A", "D"}
    rows : ndarray, shape (J, K)
        The combinations; for "D" independent rows within what the functional leaves free.
    """

    kind: str
    rows: FloatArray

    def objective(self, sigma: FloatArray) -> float:
        """tr L Sigma L', or log det L Sigma L'."""
        asked = self.rows @ sigma @ self.rows.T
        if self.kind == "A":
            return float(np.trace(asked))
        return float(np.linalg.slogdet(asked)[1])

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
    problem: Problem,
    criterion: Criterion,
    lower: FloatArray,
    budget: float,
    between: FloatArray,
    worth: FloatArray | None = None,
) -> Optimum:
    """The plan that minimises the criterion.

    Parameters
    ----------
    problem : Problem
    criterion : Criterion
    lower : ndarray, shape (1, m or 1)
        Floors.
    budget : float
    between : ndarray, shape (K, K)
        Covariance of the scores between contexts, the part of Sigma that no plan changes.
    worth : ndarray, shape (n, m), optional
        What a label of each cell is worth to an A criterion, where that is known already.
    """

    if isinstance(problem, RestrictedProblem):
        return _interdependent(problem, criterion, lower, budget, between)

    def planned(metric: FloatArray) -> tuple[Allocation, FloatArray]:
        found = allocate(problem.worth(metric), problem.cost, lower, budget, problem.one_pair)
        return found, between + problem.spread(found.propensity)

    if criterion.kind == "A":
        worth = problem.worth(criterion.metric(between)) if worth is None else worth
        found = allocate(worth, problem.cost, lower, budget, problem.one_pair)
        residual = stationarity(worth, problem.cost, lower, found)
        del worth
        return Optimum(found, between + problem.spread(found.propensity), residual, 1)
    even = np.full((1, 1), min(1.0, budget / problem.total_cost))
    found, sigma, n_steps = _determinant(criterion, planned, between + problem.spread(even))
    residual = stationarity(problem.worth(criterion.metric(sigma)), problem.cost, lower, found)
    return Optimum(found, sigma, residual, n_steps)


def _interdependent(
    problem: RestrictedProblem, criterion: Criterion, lower: FloatArray, budget: float, between: FloatArray
) -> Optimum:
    """Majorise-minimise where labels of a context work together; D adds the tangent of log det to each step."""
    cap = 1 / len(problem.pairs) if problem.one_pair else 1.0
    start = np.full((problem.n_contexts, len(problem.pairs)), min(cap, budget / problem.total_cost))

    def sigma_at(propensity: FloatArray) -> FloatArray:
        return between + problem.spread(propensity)

    def step(propensity: FloatArray, sigma: FloatArray) -> Allocation:
        worth = problem.worth_at(criterion.metric(sigma), propensity)
        return allocate(worth, problem.cost, lower, budget, problem.one_pair)

    sigma = sigma_at(start)
    found = step(start, sigma)
    sigma = sigma_at(found.propensity)
    cycle, residual = 0, np.inf
    while cycle < _CYCLES and residual >= _STATIONARY:
        cycle += 1
        once = step(found.propensity, sigma)
        twice = step(once.propensity, sigma_at(once.propensity))
        leap = squared_step(found.propensity, once.propensity, twice.propensity, lower)
        # From wherever the leap has led, a step is feasible again; it counts if it is lower than without the leap.
        further, plain = step(leap, sigma_at(leap)), sigma_at(twice.propensity)
        leapt = sigma_at(further.propensity)
        better = criterion.objective(leapt) < criterion.objective(plain)
        found, sigma = (further, leapt) if better else (twice, plain)
        worth = problem.worth_at(criterion.metric(sigma), found.propensity)
        residual = stationarity(worth, problem.cost, lower, found)
    return Optimum(found, sigma, residual, 3 * cycle)


def _determinant(
    criterion: Criterion, planned: Callable[[FloatArray], tuple[Allocation, FloatArray]], sigma: FloatArray
) -> tuple[Allocation, FloatArray, int]:
    """Majorise-minimise: log det is concave in Sigma, so that its tangent lies above it and is an A criterion.

    Every step lowers the objective. Where it is stationary it is optimal, for log det Sigma(pi) is convex in pi. Steps
    are extrapolated, and an extrapolation that does not lower the objective is dropped. The propensities of a step meet
    the conditions for the inverse X that it began with; where Sigma of the step has the inverse G, every pair's worth
    differs by no more than the eigenvalues of G against X do.
    """
    _check_regular(criterion, sigma)
    asked = plain = criterion.inverse(sigma)
    best, past = np.inf, list[tuple[FloatArray, FloatArray]]()
    for step in range(1, _STEPS + 1):
        found, sigma = planned(criterion.rows.T @ asked @ criterion.rows)
        objective = criterion.objective(sigma)
        if objective > best + 1e-12 * max(1.0, abs(best)) and asked is not plain:
            asked, past = plain, []
            continue
        best, plain = min(best, objective), criterion.inverse(sigma)
        if np.abs(np.log(scipy.linalg.eigh(plain, asked, eigvals_only=True))).max() <= _TOLERANCE:
            return found, sigma, step
        past = [*past[1 - _HISTORY :], (_log(asked), _log(plain))]
        asked = _extrapolated(past) if len(past) > 1 else plain
    return found, sigma, _STEPS


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
