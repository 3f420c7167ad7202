"""Plans for the restricted estimator against a general solver, and plans for outputs that are no scores of models."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

import dmlrank as dr
from dmlrank.exceptions import OptionError
from dmlrank.functionals import CategoryWeights, Custom
from dmlrank.options import in_objects
from dmlrank.planning import allocation
from dmlrank.planning.solution import solve

from ...support import true_first_stages, without_order

K = 3


def covariance(mu, pi, places, ordered):
    """Cov r + E [I^-1]_rr and its derivative parts, everything written out."""
    n, between, added, parts = len(mu), [], np.zeros((K, K)), []
    for i in range(n):
        odds = logit(np.where(np.eye(K, dtype=bool), 0.5, mu[i, ..., 0]))
        strength = (odds - odds.T).sum(axis=1) / (2 * K)
        effect = odds.sum() / (K * (K - 1)) if ordered else 0.0
        between.append(strength)
        total = np.zeros((K + 1, K + 1))
        zs = []
        for (j, k), p in zip(places, pi[i], strict=True):
            z = np.append(np.eye(K)[j] - np.eye(K)[k], float(ordered))
            w = expit(strength[j] - strength[k] + effect)
            zs.append(np.sqrt(w * (1 - w)) * z)
            total += p * np.outer(zs[-1], zs[-1])
        inverse = np.linalg.pinv(total, rcond=1e-12)
        added += inverse[:K, :K] / n
        parts.append(np.array(zs) @ inverse[:, :K])
    return np.cov(np.array(between).T, bias=True) + added, np.array(parts)


def smallest(value, slope, cost, budget, floor, one_pair):
    """Return the smallest objective that scipy's SLSQP finds, over propensities (n, m) within a budget."""
    n, m = cost.shape
    constraints = [{"type": "ineq", "fun": lambda pi: budget - cost.ravel() @ pi, "jac": lambda pi: -cost.ravel()}]
    if one_pair:
        sums = np.kron(np.eye(n), np.ones(m))
        constraints.append({"type": "ineq", "fun": lambda pi: 1 - sums @ pi, "jac": lambda pi: -sums})
    found = minimize(
        lambda pi: value(pi.reshape(n, m)),
        np.full(n * m, min(1 / m if one_pair else 1.0, budget / cost.sum())),
        jac=lambda pi: slope(pi.reshape(n, m)).ravel(),
        bounds=[(floor, 1)] * (n * m),
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    return value(np.clip(found.x, floor, 1).reshape(n, m))


# Earlier versions of scipy warn of the steps of the general solver.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
@pytest.mark.parametrize(
    ("criterion", "one_pair", "ordered", "contrasted"),
    [("A", False, False, False), ("A", True, True, True), ("D", False, True, True), ("D", True, False, False)],
)
def test_no_general_solver_does_better(criterion, one_pair, ordered, contrasted, draw_mu):
    rng = np.random.default_rng([criterion == "A", one_pair, ordered, contrasted])
    n = 3
    mu = draw_mu(rng, n, K, 2)
    mu = mu if ordered else without_order(mu)
    places = [(j, k) for j in range(K) for k in range(K) if j != k and (ordered or j < k)]
    cost = rng.uniform(0.5, 2, size=n)
    budget = (0.6 if one_pair else 0.4 * len(places)) * cost.sum()
    rows = rng.normal(size=(2, K)) if contrasted else None
    options = {"budget": budget, "criterion": criterion, "contrasts": rows, "costs": cost, "min_propensity": 0.02}
    plan = dr.design(mu, estimator="bt_restricted", one_pair=one_pair, position_bias=ordered, **options)
    target = plan.goal.rows

    def value(pi):
        sigma = target @ covariance(mu, pi, places, ordered)[0] @ target.T
        return np.linalg.slogdet(sigma)[1] if criterion == "D" else np.trace(sigma)

    def slope(pi):
        sigma, parts = covariance(mu, pi, places, ordered)
        inverse = np.linalg.inv(target @ sigma @ target.T) if criterion == "D" else np.eye(len(target))
        return -np.einsum("nma,ab,nmb->nm", parts, target.T @ inverse @ target, parts) / n

    each = np.repeat(cost[:, None], len(places), axis=1)
    best = smallest(value, slope, each, budget, 0.02, one_pair)
    assert plan.objective <= best + 1e-5 * max(1, abs(best))
    assert plan.objective >= best - 1e-4 * max(1, abs(best))
    assert plan.kkt_residual < 1e-4
    assert plan.expected_cost <= budget * (1 + 1e-8)
    taken = plan.propensity[:, [j for j, _ in places], [k for _, k in places]]
    assert taken.min() >= 0.02 * (1 - 1e-12)
    assert taken.max() <= 1
    assert plan.objective == pytest.approx(value(taken), abs=1e-9)
    sigma = covariance(mu, taken, places, ordered)[0]
    np.testing.assert_allclose(plan.std_errors, np.sqrt(np.diag(sigma) / n), rtol=1e-8)


def test_it_beats_the_plan_for_the_projection_and_predicts_its_errors():
    sim = dr.datasets.Bt(n_items=4, n_features=2)
    mu = sim.mu(sim.features(60, rng=0))
    given = {"budget": 60.0, "min_propensity": 0.01}
    own, other = dr.design(mu, "bt", estimator="bt_restricted", **given), dr.design(mu, "bt", **given)
    places = [(j, k) for j in range(4) for k in range(4) if j != k]
    assert own.objective < own.uniform_objective
    assert (own.std_errors < other.std_errors).all()
    taken = other.propensity[:, [j for j, _ in places], [k for _, k in places]]
    trace_of_other, trace = (own.problem.labelling_covariance(p).trace() for p in (taken, own.propensities[:]))
    assert trace_of_other > trace


def test_a_limit_on_steps_ends_the_search_before_it_is_certified(monkeypatch):
    sim = dr.datasets.Bt(n_items=3, n_features=2)
    plan = dr.design(sim.mu(sim.features(40, rng=1)), "bt", estimator="bt_restricted", budget=60)
    assert plan.kkt_residual < 1e-5
    monkeypatch.setattr(allocation, "MAX_INTERDEPENDENT_STEPS", 3)
    with pytest.warns(dr.DmlrankWarning, match="may not be optimal"):
        early = solve(dr.planning.Plan, plan.problem, plan.goal, plan.limits)
    assert plan.goal.objective(early.sigma) > plan.objective


def test_a_fit_plans_for_its_own_estimator():
    sim = dr.datasets.Bt(n_items=3, n_features=2)
    battles = sim.sample(300, rng=0)
    known = true_first_stages(sim, battles) | {"floor": 0.0, "functional": "bt", "estimator": "bt_restricted"}
    res = dr.dml_rank(
        "winner ~ x0 + x1 | model_a + model_b", battles, **in_objects({"context": "question_id", **known})
    )
    plan = res.design(budget=200, from_scratch=True)
    expected = dr.design(known["mu"], "bt", estimator="bt_restricted", budget=200, floor=0.0)
    np.testing.assert_allclose(plan.std_errors, expected.std_errors, rtol=1e-6)


def test_what_is_refused(draw_mu):
    mu = draw_mu(np.random.default_rng(0), 5, 3, 3)
    with pytest.raises(OptionError):
        dr.design(mu, estimator="bt_restricted", budget=3)
    with pytest.raises(OptionError, match="functional"):
        dr.design(
            mu[..., :2] / mu[..., :2].sum(axis=-1, keepdims=True).clip(1e-9),
            "rank_centrality",
            estimator="bt_restricted",
            budget=3,
        )
    with pytest.raises(OptionError, match="bt_mle"):
        dr.design(mu, estimator="bt_mle", budget=3)


def test_plans_for_outputs_with_names(draw_mu, label_covariances):
    rng = np.random.default_rng(1)
    mu, half = draw_mu(rng, 20, 4, 2), CategoryWeights.half(2)

    def gap(mu):
        share = half.symmetric(mu)
        return np.stack([share[:, 0].sum(axis=1) - share[:, 1].sum(axis=1), share[:, 0, 2] * share[:, 1, 2]], axis=1)

    own = Custom(gap, outputs=("gap", "both"), interior=False)
    plan = dr.design(mu, own, budget=40, models=list("abcd"))
    assert plan.std_errors.index.tolist() == plan.names == ["gap", "both"]
    assert plan.models == list("abcd")
    assert "both" in str(plan.summary())
    alone = dr.design(mu, own, budget=40, contrasts="gap", models=list("abcd"))
    assert alone.std_errors["gap"] < plan.std_errors["gap"]
    # Pairs that no output uses get no more than the floor.
    np.testing.assert_allclose(alone.propensity[:, 2, 3], alone.smallest_propensity)
    assert alone.propensity[:, 0, 2].min() > alone.smallest_propensity
