"""The benchmarks run, and what they compare with is what they say it is."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

from dmlrank.nuisance.all_pairs.predict import predict_all_pairs
from dmlrank.nuisance.boosting import BinnedRows, train_booster


@pytest.fixture(scope="module")
def end_to_end(load_benchmark):
    return load_benchmark("end_to_end")


@pytest.fixture(scope="module")
def battles(end_to_end):
    return end_to_end.draw_battles(300, 5, 4, 0)


SMALL = {"num_iterations": (5, 10), "num_leaves": (4, 7), "learning_rate": (0.1,), "min_data_in_leaf": (5,)}


def test_stacked_probabilities_are_the_packages(end_to_end, battles):
    rows = np.column_stack([battles.x, battles.first, battles.second])
    data = lgb.Dataset(rows, battles.label, categorical_feature=[5, 6])
    parameters = {"objective": "multiclass", "num_class": 3, "verbosity": -1, "num_threads": 1, "num_leaves": 6}
    booster = lgb.train(parameters, data, 12)
    stacked = end_to_end.stacked_probabilities(booster, battles.x, 4, 1, rows_at_once=100)
    np.testing.assert_allclose(predict_all_pairs(booster, battles.x, 4), stacked, atol=1e-10)
    assert stacked[:, 0, 1].std() > 0.01


def test_scores_and_errors_of_the_described_pipeline_are_the_packages_with_its_first_stages(end_to_end, battles, rank):
    described = end_to_end.described_pipeline(battles, np.random.default_rng(1), 1, SMALL)
    propensity = np.full((300, 4, 4), 0.5)
    propensity[np.arange(300), battles.first, battles.second] = described.propensity
    fit = rank(
        battles.frame,
        battles.formula,
        context=None,
        functional="bt",
        graph="complete",
        mu=described.mu,
        propensity=propensity,
        floor=end_to_end.FLOOR,
    )
    np.testing.assert_allclose(fit.params, described.scores, atol=1e-10)
    phi = end_to_end.bradley_terry_influence(described.mu, battles, described.propensity)
    np.testing.assert_allclose(fit.influence, phi - described.scores, atol=1e-10)
    np.testing.assert_allclose(described.std_errors, phi.std(axis=0) / np.sqrt(300))
    assert fit.diagnostics.log_loss == pytest.approx(described.log_loss)


def test_all_pairs_agree_with_stacked_rows(load_benchmark):
    module = load_benchmark("all_pairs")
    rng = np.random.default_rng(3)
    rows = module.draw_labels(400, 7, 5, 3)
    booster = train_booster(BinnedRows.of(rows, {"num_leaves": 7, "n_estimators": 10}, module.N_CATEGORIES), rng)
    x = module.remove_values(rng.normal(size=(50, 7)), 0.1, rng)
    row = module.compare(booster, x, 5, n_stacked=30, threads=1, repeats=2)
    assert float(row["largest difference"]) < 1e-10
    assert row["lowest"] <= row["ratio"] <= row["highest"]
    assert 0 <= row["with preparation"] <= row["ratio"]


def test_growth_measures_a_fit_and_its_exponent_is_a_slope(load_benchmark):
    module = load_benchmark("growth")
    assert module.exponent([5, 10, 40], [2.0, 8.0, 128.0]) == pytest.approx(2)
    setting = module.Setting(300, 4, 5, binary=True, functional="borda")
    frame = module.draw_battles(setting, np.random.default_rng(4))
    assert set(np.unique(frame[["f0", "f1", "f2"]])) == {0.0, 1.0}
    assert set(frame["winner"]) == set(module.LABELS)
    assert (frame["model_a"] != frame["model_b"]).all()
    made = module.measure(setting)
    assert made.cpu > 0
    assert 0.01 < made.peak < 10


@pytest.mark.parametrize("program", ["dmlrank", "statsmodels"])
def test_programs_estimate_the_scores_that_were_drawn(load_benchmark, program):
    peers = load_benchmark("peers")
    battles, truth = peers.draw_battles(20_000, 5, seed=1)
    low, high = peers.PEERS[program][0](battles)
    np.testing.assert_allclose((low + high) / 2, truth, atol=0.1)
    assert (low < high).all()
    assert peers.measure(program, "8,000 votes of 20", seeds=2)["covered"] in (0.0, 0.5, 1.0)
    # Nearly all samples of differences are covered.
    assert peers.measure("dmlrank", "3 runs of 10 on 500 prompts", seeds=3)["covered"] > 0.6


@pytest.mark.parametrize("what", ["questions", "plans", "scores"])
def test_costs_are_printed(load_benchmark, capsys, ignore_warnings, what):
    costs, growth = load_benchmark("costs"), load_benchmark("growth")
    costs.WORKS[what](growth.Setting(300, 4, 5))
    assert capsys.readouterr().out.count("CPU") >= 3


def test_the_losses_of_a_search_that_is_timed_do_not_depend_on_the_rounds_whose_loss_is_computed(load_benchmark):
    table = load_benchmark("costs").search(load_benchmark("growth").Setting(60, 3, 3), draws=3)
    assert (table["last_loss"] == table["every_loss"]).all()
    assert table["last_loss"].nunique() > 1
