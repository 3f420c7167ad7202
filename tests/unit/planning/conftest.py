"""Small problems, and their covariance written out from derivatives, one label at a time."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize


@dataclass(frozen=True)
class ConvexProgramme:
    """Propensities (n, m) within a budget, for a general solver.

    ``value`` and ``slope`` take propensities (n, m) and give the objective and its derivatives (n, m).
    """

    value: Callable[[np.ndarray], float]
    slope: Callable[[np.ndarray], np.ndarray]
    cost: np.ndarray
    budget: float
    floor: float
    one_pair: bool

    def smallest(self) -> float:
        """The smallest objective that scipy's SLSQP finds from a feasible start."""
        n, m = self.cost.shape
        budget, cost = self.budget, self.cost.ravel()
        constraints = [{"type": "ineq", "fun": lambda pi: budget - cost @ pi, "jac": lambda pi: -cost}]
        if self.one_pair:
            sums = np.kron(np.eye(n), np.ones(m))
            constraints.append({"type": "ineq", "fun": lambda pi: 1 - sums @ pi, "jac": lambda pi: -sums})
        found = minimize(
            lambda pi: self.value(pi.reshape(n, m)),
            np.full(n * m, min(1 / m if self.one_pair else 1.0, budget / cost.sum())),
            jac=lambda pi: self.slope(pi.reshape(n, m)).ravel(),
            bounds=[(self.floor, 1)] * (n * m),
            constraints=constraints,
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 1000},
        )
        return self.value(np.clip(found.x, self.floor, 1).reshape(n, m))


@pytest.fixture(scope="session")
def convex_programme():
    return ConvexProgramme


@pytest.fixture(scope="session")
def label_covariances():
    def make(functional, mu, ordered=True):
        """M of every context and pair, (n, m, K, K): J V J' with J from derivatives along unit vectors.

        Where order does not matter a label of j < k moves both orders: along e at (j, k) and along flip e at (k, j).
        """
        n, n_items, _, n_categories = mu.shape
        flip = [1, 0, *range(2, n_categories)]
        places = list(
            itertools.permutations(range(n_items), 2) if ordered else itertools.combinations(range(n_items), 2)
        )
        made = np.empty((n, len(places), n_items, n_items))
        for cell, (j, k) in enumerate(places):
            columns = []
            for category in range(n_categories):
                unit = np.zeros_like(mu)
                unit[:, j, k, category] = 1
                if not ordered:
                    unit[:, k, j, flip[category]] = 1
                columns.append(functional.derivative(mu, unit))
            rows, p = np.stack(columns, axis=2), mu[:, j, k]
            variance = np.eye(n_categories) * p[:, None] - p[:, :, None] * p[:, None, :]
            made[:, cell] = rows @ variance @ np.swapaxes(rows, 1, 2)
        return made, places

    return make
