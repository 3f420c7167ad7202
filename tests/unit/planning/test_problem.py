"""Contexts that are alike are one row: the same plan as with a table for each, at a fraction of the cost."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import DataNotStoredError
from dmlrank.planning import from_fit, problem
from dmlrank.planning.allocation import allocate
from dmlrank.planning.problem import cell_rates
from dmlrank.planning.solution import cheapest, solve

from ...support import chunks_of


@pytest.fixture(scope="module")
def fitted(rank):
    battles = dr.datasets.Ties().sample(300, rng=0)
    battles = battles.assign(g=np.where(battles["question_id"] % 3 == 0, "a", "b"))
    formula, options = "winner ~ C(g) | model_a + model_b", {"tune": None, "propensity": "propensity"}
    return battles, rank(battles, formula, context="question_id", functional="bt", **options)


@pytest.fixture(scope="module")
def varied(rank):
    """A fit with different features in every prompt."""
    battles = dr.datasets.Ties().sample(300, rng=1)
    formula = "winner ~ x0 + x1 | model_a + model_b"
    return rank(battles, formula, context="question_id", functional="bt", tune=None, propensity="propensity")


@pytest.fixture(scope="module")
def apart(fitted):
    """Probabilities of every prompt, (n, K, K, C)."""
    _, fit = fitted
    mu = np.empty((300, 3, 3, 3))
    for contexts, table in chunks_of(fit.steps.first.inputs.mu, 50):
        mu[contexts] = table
    return mu


@pytest.mark.parametrize(
    ("functional", "one_pair", "criterion"),
    [("borda", False, "A"), ("bt", True, "D"), ("rank_centrality", False, "D"), ("rank_centrality", True, "A")],
)
def test_a_plan_with_rows_is_the_plan_without(fitted, apart, functional, one_pair, criterion):
    fit = fitted[1].update(functional=functional)
    plan = fit.design(200, criterion, one_pair=one_pair, from_scratch=True)
    floor = fit.steps.first.inputs.floor
    expected = dr.design(
        apart, functional, budget=200, criterion=criterion, one_pair=one_pair, models=fit.models, floor=floor
    )
    assert plan.problem.n_rows == 10
    np.testing.assert_allclose(plan.propensity, expected.propensity, rtol=1e-6)
    np.testing.assert_allclose(plan.cov_params(), expected.cov_params(), rtol=1e-6, atol=1e-12)
    assert plan.expected_cost == pytest.approx(expected.expected_cost)
    pd.testing.assert_frame_equal(
        plan.sample(3).drop(columns=["question_id", "propensity"]),
        expected.sample(3).drop(columns=["context", "propensity"]),
    )
    assert plan.summary().as_text().splitlines()[5:10] == expected.summary().as_text().splitlines()[5:10]
    if criterion == "A":
        other = np.where(apart > 0, (apart + 1 / 3) / 2, 0.0)
        assert plan.regret(other).excess == pytest.approx(expected.regret(other).excess, rel=1e-6)


@pytest.mark.parametrize("shape", [(300,), (300, 3, 3)])
def test_contexts_of_other_weight_or_cost_are_other_rows(fitted, apart, shape):
    rng = np.random.default_rng(1)
    costs = rng.choice([1.0, 2.0], size=shape)
    fit = fitted[1].update(weights=np.where(np.arange(300) % 2, 1.0, 3.0))
    plan = fit.design(150, costs=costs, from_scratch=True)
    floor = fit.steps.first.inputs.floor
    expected = dr.design(
        apart, "bt", budget=150, costs=costs, weights=fit.steps.units.context_weight, models=fit.models, floor=floor
    )
    assert plan.problem.n_rows == (40 if len(shape) == 1 else 300)
    np.testing.assert_allclose(plan.propensity, expected.propensity, rtol=1e-6)
    np.testing.assert_allclose(plan.std_errors, expected.std_errors, rtol=1e-6)


def test_new_prompts_that_are_alike_are_one(fitted):
    _, fit = fitted
    new = pd.DataFrame({"question_id": np.arange(60), "g": ["a", "b", "b"] * 20})
    plan = fit.design(40, newdata=new)
    assert plan.problem.n_rows == 2
    assert plan.propensity.shape == (60, 3, 3)
    # The allocation is solved to a tolerance.
    np.testing.assert_allclose(plan.at(new), plan.propensity, rtol=1e-6)


@pytest.mark.long
def test_probabilities_that_do_not_fit_into_memory_are_read_when_they_are_needed(fitted, monkeypatch):
    _, fit = fitted
    expected = fit.design(100)
    monkeypatch.setattr(from_fit, "STORED_NUMBERS", 0)
    plan = fit.design(100)
    assert not isinstance(plan.problem.mu, np.ndarray)
    np.testing.assert_allclose(plan.propensity, expected.propensity, rtol=1e-12)
    stored = pickle.loads(pickle.dumps(plan))
    np.testing.assert_array_equal(stored.propensity, plan.propensity)
    np.testing.assert_array_equal(copy.deepcopy(plan).propensity, plan.propensity)
    assert stored.for_width(0.3).budget == pytest.approx(expected.for_width(0.3).budget)
    walk = fit.update(functional="rank_centrality").design(100)
    with pytest.raises(DataNotStoredError):
        pickle.loads(pickle.dumps(walk)).for_width(0.04)


@pytest.mark.parametrize("one_pair", [False, True])
@pytest.mark.parametrize("cost_of_pairs", [False, True])
def test_a_row_that_counts_three_times_is_three_rows(one_pair, cost_of_pairs):
    rng = np.random.default_rng(2)
    information, cost = rng.exponential(size=(8, 6)), np.ones((1, 1))
    cost = rng.uniform(1, 2, size=(1, 6)) if cost_of_pairs else cost
    every, least = np.repeat(np.arange(8), [3, 1, 1, 2, 1, 4, 1, 1]), np.array([[0.01]])
    mu = np.full((8, 3, 3, 2), 0.5) * ~np.eye(3, dtype=bool)[..., None]
    single = dr.design(mu, budget=5, one_pair=one_pair).problem
    tables = []
    for row, numbers in ((every, information), (np.arange(len(every)), information[every])):
        of_rows = replace(single, mu=mu[:1].repeat(len(numbers), axis=0), row=row, cost=cost)
        tables.append(allocate(of_rows, cell_rates(np.sqrt(numbers / cost)), least, 5.0)[0][row])
    np.testing.assert_allclose(*tables, rtol=1e-7)


@pytest.mark.parametrize("functional", ["borda", "bt"])
def test_fixed_directions_give_the_information_and_the_covariance_of_a_pass_over_mu(functional):
    ties = dr.datasets.Ties()
    problem = dr.design(ties.mu(ties.features(50, rng=0)), functional, budget=60).problem
    assert problem.deviation is not None
    without = replace(problem, deviation=None)
    metric = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.0], [0.1, 0.0, 3.0]])
    np.testing.assert_allclose(problem.label_information(metric), without.label_information(metric), rtol=1e-9)
    pi = np.random.default_rng(0).uniform(0.1, 1, size=(50, 6))
    np.testing.assert_allclose(
        problem.labelling_covariance(pi), without.labelling_covariance(pi), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
@pytest.mark.parametrize("criterion", ["A", "D"])
@pytest.mark.parametrize("one_pair", [False, True])
def test_a_search_that_begins_on_a_sample_in_single_precision_finds_the_same_plan(
    varied, functional, criterion, one_pair, ignore_warnings, monkeypatch
):
    plan = varied.update(functional=functional).design(120, criterion, one_pair=one_pair)
    monkeypatch.setattr(problem, "DOUBLE_CELLS", 0)
    single = replace(plan.problem, deviation=None).scanned()[1]
    assert (single.deviation is None) == (functional == "rank_centrality")
    monkeypatch.setattr(problem, "SAMPLE_SIZE", 50)
    other = solve(dr.planning.Plan, single, plan.goal, plan.limits)
    assert single.cell_type is np.float32
    assert other.kkt_residual < 1e-5
    assert other.expected_cost == pytest.approx(120, rel=1e-9)
    np.testing.assert_allclose(other.propensities[:], plan.propensities[:], rtol=1e-5)
    np.testing.assert_allclose(other.sigma, plan.sigma, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("criterion", ["A", "D"])
def test_a_budget_that_is_searched_for_on_a_sample_first_is_the_same(varied, criterion, monkeypatch):
    plan = varied.design(120, criterion)
    names = plan.models

    def error_of(solution):
        difference = np.array([1.0, -1.0, 0.0])
        return float(np.sqrt(difference @ solution.sigma @ difference)) / limit

    limit = 1.0
    limit = 0.9 * error_of(plan)
    budgets = []
    for size in (4000, 60):
        monkeypatch.setattr(problem, "SAMPLE_SIZE", size)
        budgets.append(cheapest(plan, error_of)[0].budget)
    assert len(names) == 3
    assert budgets[1] == pytest.approx(budgets[0], rel=2e-4)
    assert budgets[0] > 120
