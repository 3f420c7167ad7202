"""Optimal plans against a solver for cones: clarabel, through cvxpy, on 4 models and 20 prompts."""

import cvxpy as cp
import numpy as np
import pytest

import dmlrank as dr


@pytest.mark.parametrize("functional", ["borda", "bt"])
@pytest.mark.parametrize("one_pair", [False, True])
@pytest.mark.parametrize("criterion", ["A", "D"])
def test_no_plan_is_better(criterion, one_pair, functional, label_covariances):
    """A plan minimises a convex function of the propensities.

    The determinant's logarithm is convex in the logarithms of the propensities, and concave in the covariance. So a
    plan for "D" is optimal if and only if it minimises the function whose weights are the inverse of its covariance.
    """
    rng, n, k, budget = np.random.default_rng(5), 20, 4, 14.0
    mu = rng.dirichlet(np.ones(3) * 2, size=(n, k, k))
    mu[:, np.arange(k), np.arange(k)] = 0
    costs = rng.uniform(0.5, 2, size=n)
    plan = dr.design(
        mu,
        functional,
        budget=budget,
        criterion=criterion,
        one_pair=one_pair,
        costs=costs,
        min_propensity=0.01,
        prompts="fixed",
        position_bias=True,
    )
    made, places = label_covariances(plan.specification.problem.functional, np.maximum(mu, 1e-12))
    pi = np.stack([plan.propensity[:, j, h] for j, h in places], axis=1)
    sigma = np.einsum("im,imab->ab", 1 / pi, made)
    weight = np.eye(k) if criterion == "A" else np.linalg.pinv(sigma, rcond=1e-9, hermitian=True)
    information = np.einsum("ab,imba->im", weight, made)
    free = cp.Variable((n, len(places)), pos=True)
    limits = [free >= 0.01, free <= 1, cp.sum(cp.multiply(costs[:, None] * np.ones(pi.shape), free)) <= budget]
    limits += [cp.sum(free, axis=1) <= 1] if one_pair else []
    best = cp.Problem(cp.Minimize(cp.sum(cp.multiply(information, cp.inv_pos(free)))), limits)
    best.solve(solver=cp.CLARABEL)
    np.testing.assert_allclose((information / pi).sum(), best.value, rtol=1e-6)
    np.testing.assert_allclose(pi, free.value, atol=2e-3)
