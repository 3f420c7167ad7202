"""Plans against a general convex solver, and what holds of every plan."""

import numpy as np
import pytest

import dmlrank as dr
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, RankCentrality

from ...support import without_order

FUNCTIONALS = {
    "borda": Borda(),
    "bt": BradleyTerry(),
    "rank_centrality": RankCentrality(),
    "rank_centrality-rate": RankCentrality(walk="rate"),
}


# Earlier versions of scipy warn of the steps of the general solver.
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONALS)
@pytest.mark.parametrize("criterion", ["A", "D"])
@pytest.mark.parametrize("contrasted", [False, True], ids=["scores", "contrasts"])
@pytest.mark.parametrize("one_pair", [False, True], ids=["many", "one"])
@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
def test_no_general_solver_does_better(
    name, criterion, contrasted, one_pair, ordered, draw_mu, label_covariances, convex_programme
):
    case = [sorted(FUNCTIONALS).index(name), criterion == "A", contrasted, one_pair, ordered]
    costly = ("pair", "context", "both")[sum(case) % 3]
    rng = np.random.default_rng(case)
    n, n_items = (4, 4) if ordered else (6, 4)
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
    plan = dr.design(
        mu,
        FUNCTIONALS[name],
        budget=budget,
        criterion=criterion,
        contrasts=rows,
        costs=given,
        min_propensity=floor,
        one_pair=one_pair,
        position_bias=ordered,
    )
    value = functional.value(mu)
    between = np.cov(value.T, bias=True)
    target = plan.specification.rows

    def sigma(pi):
        return target @ (between + (parts / pi[:, :, None, None]).sum(axis=(0, 1)) / n) @ target.T

    def value(pi):
        return np.linalg.slogdet(sigma(pi))[1] if criterion == "D" else np.trace(sigma(pi))

    def slope(pi):
        metric = target.T @ (np.linalg.inv(sigma(pi)) if criterion == "D" else np.eye(len(target))) @ target
        return -np.einsum("nmjk,jk->nm", parts, metric) / pi**2 / n

    best = convex_programme(value, slope, cost, budget=budget, floor=floor, one_pair=one_pair).smallest()
    assert plan.objective <= best + 1e-6 * max(1, abs(best))
    assert plan.objective >= best - 1e-5 * max(1, abs(best))
    assert plan.kkt_residual < 1e-5
    assert plan.expected_cost <= budget * (1 + 1e-8)
    assert plan.slack or abs(plan.expected_cost - budget) <= 1e-8 * budget
    taken = plan.propensity[:, [j for j, _ in places], [k for _, k in places]]
    assert taken.min() >= floor * (1 - 1e-12)
    assert taken.max() <= 1
    if one_pair:
        assert taken.sum(axis=1).max() <= 1 + 1e-10
    written_out = between + (parts / taken[:, :, None, None]).sum(axis=(0, 1)) / n
    np.testing.assert_allclose(plan.std_errors, np.sqrt(np.diag(written_out) / n), rtol=1e-9)
