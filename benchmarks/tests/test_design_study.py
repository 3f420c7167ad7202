"""What plans predict agrees with the simulations of the study of designs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from tests.support import without_order


@pytest.fixture(scope="module")
def benchmark(load_benchmark):
    return load_benchmark("design")


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
def test_formula_and_simulation_agree_in_the_papers_collection_setting(benchmark, functional):
    row = benchmark.compare(benchmark.collection(pool=600, coefficients=5), functional, seeds=800)
    assert row["formula ratio"] < 0.95
    assert row["realised ratio"] == pytest.approx(row["formula ratio"], abs=2 * row["+-"])
    assert row["realised plan"] == pytest.approx(row["formula plan"], rel=0.2)
    assert 0.9 < row["se ratio min"] <= row["se ratio max"] < 1.1


def test_a_plan_without_position_effect_is_as_precise_as_it_says(benchmark):
    ties = dr.datasets.Ties(coefficients=5)
    mu = without_order(ties.mu(ties.features(600, rng=2)))
    plan = dr.design(mu, "bt", budget=500, position_bias=False, floor=0)
    made = benchmark.estimates(plan, plan.solution.propensity, n=600, seeds=800, seed=0)
    np.testing.assert_allclose(made.std(axis=0), plan.std_errors, rtol=0.1)


def test_a_plan_for_a_tenth_of_gpt4s_verdicts_finds_the_full_table(folder, load_benchmark):
    benchmark = load_benchmark("design")
    verdicts, plan, labels = next(benchmark.plans_of_verdicts(folder / "mt_bench", 0.1))[1:]
    assert len(verdicts) == plan.propensity[:, *np.triu_indices(6, 1)].size == 2400
    assert plan.expected_cost == pytest.approx(240)
    truth = benchmark.full_table(plan, labels)
    # Borda of the verdicts, counted: wins plus half the ties over the 5 x 160 verdicts about a model.
    won = pd.Series(0.0, index=plan.models)
    for row in verdicts.itertuples():
        share = {"model_a": 1.0, "model_b": 0.0}.get(row.winner, 0.5)
        won[row.model_a] += share / 800
        won[row.model_b] += (1 - share) / 800
    np.testing.assert_allclose(truth, won, rtol=1e-12)
    made = benchmark.estimates(plan, plan.solution.propensity, n=160, seeds=400, seed=0, labels=labels)
    error = made.std(axis=0) / np.sqrt(len(made))
    assert (np.abs(made.mean(axis=0) - truth) < 4 * error).all()
    assert made.std(axis=0).max() < 0.05
