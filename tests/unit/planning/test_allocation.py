"""Plans against a solver for cones: clarabel, through cvxpy, on 4 models and 20 prompts; what holds of every plan."""

import cvxpy as cp
import numpy as np
import pytest

import dmlrank as dr
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, RankCentrality
from dmlrank.planning import allocation, problem

from ...support import without_order

FUNCTIONALS = {
    "borda": Borda(),
    "bt": BradleyTerry(),
    "rank_centrality": RankCentrality(),
    "rank_centrality-rate": RankCentrality(walk="rate"),
}


@pytest.mark.parametrize("name", FUNCTIONALS)
@pytest.mark.parametrize("criterion", ["A", "D"])
@pytest.mark.parametrize("contrasted", [False, True], ids=["scores", "contrasts"])
@pytest.mark.parametrize("one_pair", [False, True], ids=["many", "one"])
@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
def test_no_plan_is_better(name, criterion, contrasted, one_pair, ordered, draw_mu, label_covariances):
    """A plan minimises a convex function of the propensities.

    The determinant's logarithm is convex in the logarithms of the propensities, and concave in the covariance. So a
    plan for "D" is optimal if and only if it minimises the function whose weights are the inverse of its covariance.
    """
    case = [sorted(FUNCTIONALS).index(name), criterion == "A", contrasted, one_pair, ordered]
    costly = ("pair", "context", "both")[sum(case) % 3]
    rng = np.random.default_rng(case)
    n, n_items = 20, 4
    mu = draw_mu(rng, n, n_items, 3)
    mu = mu if ordered else without_order(mu)
    functional = FUNCTIONALS[name].bind(CategoryWeights.half(3), dr.Graph.all_pairs(n_items))
    parts, places = label_covariances(functional, mu, ordered)
    pair = rng.uniform(0.5, 2, size=(n_items, n_items))
    pair = pair if ordered else (pair + pair.T) / 2
    context = rng.uniform(0.5, 2, size=n)
    given = {"pair": pair, "context": context, "both": context[:, None, None] * pair}[costly]
    table = np.broadcast_to(given[:, None, None] if given.ndim == 1 else given, (n, n_items, n_items))
    cost = table[:, [j for j, _ in places], [k for _, k in places]]
    rows = rng.normal(size=(2, n_items)) if contrasted else None
    budget = (0.7 * n * cost.mean()) if one_pair else 0.4 * cost.sum()
    floor = 0.02
    options = {"budget": budget, "criterion": criterion, "contrasts": rows, "costs": given, "min_propensity": floor}
    plan = dr.design(mu, FUNCTIONALS[name], one_pair=one_pair, position_bias=ordered, **options)
    taken = plan.propensity[:, [j for j, _ in places], [k for _, k in places]]
    covariance = np.cov(functional.value(mu).T, bias=True) + (parts / taken[:, :, None, None]).sum(axis=(0, 1)) / n
    np.testing.assert_allclose(plan.std_errors, np.sqrt(np.diag(covariance) / n), rtol=1e-9)
    target = plan.goal.rows
    weight = target.T @ (np.linalg.inv(target @ covariance @ target.T) if criterion == "D" else np.eye(len(target)))
    information = np.einsum("ab,imba->im", weight @ target, parts)
    free = cp.Variable(taken.shape, pos=True)
    limits = [free >= floor, free <= 1, cp.sum(cp.multiply(cost, free)) <= budget]
    limits += [cp.sum(free, axis=1) <= 1] if one_pair else []
    best = cp.Problem(cp.Minimize(cp.sum(cp.multiply(information, cp.inv_pos(free)))), limits)
    best.solve(solver=cp.CLARABEL)
    np.testing.assert_allclose((information / taken).sum(), best.value, rtol=1e-6)
    np.testing.assert_allclose(taken, free.value, atol=5e-3)
    assert plan.kkt_residual < 1e-5
    assert plan.expected_cost <= budget * (1 + 1e-8)
    assert plan.slack or abs(plan.expected_cost - budget) <= 1e-8 * budget
    assert taken.min() >= floor * (1 - 1e-12)
    assert taken.max() <= 1
    if one_pair:
        assert taken.sum(axis=1).max() <= 1 + 1e-10


def test_a_slow_search_ends_near_the_smallest_criterion(monkeypatch):
    battles = dr.datasets.simulate_arena(n=4000, rng=0)
    fit = dr.dml_rank(
        "winner ~ length | model_a + model_b", battles, functional="rank_centrality", context="question_id", rng=0
    )
    monkeypatch.setattr(problem, "SAMPLE_SIZE", 330)
    steps, allocate = [], allocation.allocate
    monkeypatch.setattr(allocation, "allocate", lambda *args, **options: steps.append(1) or allocate(*args, **options))
    exact = fit.design(1000)
    n_exact = len(steps)
    monkeypatch.setattr(problem.VoteProblem, "cell_type", property(lambda _: np.float32))
    near = fit.design(1000)
    assert len(steps) < 2 * n_exact
    of_plan, goal = near.problem, near.goal
    rates = of_plan.cell_rates(goal.metric(near.labelling, of_plan.between))
    least = of_plan.least(near.limits)
    # The search ends at a bound on the violation, which takes no pass over the probabilities.
    residual = allocation.kkt_residual(of_plan, rates, least, (near.propensities, near.multiplier, None))
    assert 1e-5 < residual < near.kkt_residual <= 0.03
    values = [np.trace(goal.sigma(plan.labelling, of_plan.between)) for plan in (near, exact)]
    assert values[0] == pytest.approx(values[1], rel=2e-4)


def test_the_smallest_budget_of_one_pair_per_context_leaves_every_propensity_at_its_floor():
    ties = dr.datasets.Ties(n_items=6)
    mu = ties.mu(ties.features(60, rng=0))
    for seed in range(20):
        cost = np.random.default_rng(seed).uniform(0.5, 2, size=(6, 6))
        cost = (cost + cost.T) / 2
        total = 60 * cost[np.triu_indices(6, 1)].sum()
        plan = dr.design(mu, costs=cost, one_pair=True, min_propensity=2 / total, budget=2.0, position_bias=False)
        np.testing.assert_allclose(plan.propensity[:, *np.triu_indices(6, 1)], 2 / total, rtol=1e-6)
