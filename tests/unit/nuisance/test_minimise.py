"""The minimiser against SciPy's, on a curved valley, a logistic regression and functions with known minima."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der
from scipy.special import expit

from dmlrank.nuisance.smooth import minimise


def logistic(seed, n=300, p=6, ridge=0.5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p))
    y = rng.random(n) < expit(x @ rng.normal(size=p))

    def objective(theta):
        scores = x @ theta
        loss = np.logaddexp(0, scores).sum() - scores[y].sum() + ridge * theta @ theta / 2
        return float(loss), x.T @ (expit(scores) - y) + ridge * theta

    return objective, np.zeros(p)


def scipys(objective, start):
    return minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-9}
    ).x


@pytest.mark.parametrize("seed", range(5))
def test_a_logistic_regression_equals_scipys(seed):
    objective, start = logistic(seed)
    np.testing.assert_allclose(minimise(objective, start, tolerance=1e-16), scipys(objective, start), atol=1e-5)


@pytest.mark.parametrize("d", [2, 5])
def test_a_curved_valley(d):
    def objective(z):
        return float(rosen(z)), rosen_der(z)

    start = np.full(d, -0.5)
    np.testing.assert_allclose(minimise(objective, start, tolerance=1e-18), scipys(objective, start), atol=1e-4)
    np.testing.assert_allclose(minimise(objective, start, tolerance=1e-18), 1, atol=1e-4)


def test_a_quadratic_with_very_different_curvatures():
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    matrix, target = axes @ np.diag(10.0 ** np.linspace(-2, 3, 8)) @ axes.T, rng.normal(size=8)

    def objective(z):
        return float((z - target) @ matrix @ (z - target) / 2), matrix @ (z - target)

    np.testing.assert_allclose(minimise(objective, np.zeros(8), tolerance=1e-16), target, atol=1e-5)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-8])
def test_what_is_left_to_gain_is_of_the_size_of_the_tolerance(tolerance):
    objective, start = logistic(7)
    least = objective(scipys(objective, start))[0]
    excess = objective(minimise(objective, start, tolerance))[0] - least
    assert excess < 3 * tolerance
    assert objective(start)[0] - least > 10


def test_it_never_goes_up_and_starts_where_it_is_told():
    objective, _ = logistic(8)
    values = []

    def watched(theta):
        values.append(objective(theta))
        return values[-1]

    start = np.full(6, 3.0)
    end = objective(minimise(watched, start))[0]
    assert values[0][0] == objective(start)[0]
    assert end == min(value for value, _ in values)


def test_at_the_minimum_nothing_moves():
    np.testing.assert_array_equal(minimise(lambda z: (float(z @ z), 2 * z), np.zeros(3)), np.zeros(3))


def test_a_function_without_a_minimum_ends_too():
    end = minimise(lambda z: (float(np.logaddexp(0, -z[0])), np.array([-expit(-z[0])])), np.zeros(1), 1e-12)
    assert np.isfinite(end).all()
    assert end[0] > 10
