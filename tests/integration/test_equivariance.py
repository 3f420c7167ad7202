"""Names, the order of rows and the order of display are labels: renaming and reordering change nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dmlrank.functionals import RankCentrality

N_ITEMS = 4
FUNCTIONALS = {"borda": "borda", "bt": "bt", "rank_centrality": "rank_centrality", "rate": RankCentrality(walk="rate")}
NAMES = {
    "order kept": ["ada", "bea", "cat", "dov"],
    "order changed": ["zoe", "ada", "mia", "bob"],
    "numbers": ["10", "9", "2", "1"],
}
TREES = {"n_estimators": 15, "num_leaves": 5, "min_data_in_leaf": 5}
MIRROR = {"model_a": "model_b", "model_b": "model_a"}


@pytest.fixture
def battles(draw_battles):
    return draw_battles(np.random.default_rng(0), 160, N_ITEMS, 4, n_pairs=2, repeats=True, unlabelled=10)


@pytest.fixture
def long_battles(draw_battles):
    """One pair per prompt, so that propensities are normalised; annotators voted more than once."""
    return draw_battles(np.random.default_rng(1), 400, N_ITEMS, 3, n_pairs=1, repeats=True, unlabelled=20)


def shuffled(frame, seed):
    return frame.iloc[np.random.default_rng(seed).permutation(len(frame))]


def assert_same(results, expected, places=None, tolerance=1e-10):
    places = np.arange(N_ITEMS) if places is None else places
    np.testing.assert_allclose(results.params.to_numpy(), expected.params.to_numpy()[places], rtol=0, atol=tolerance)
    covariance = expected.cov_params().to_numpy()[np.ix_(places, places)]
    np.testing.assert_allclose(results.cov_params(), covariance, rtol=0, atol=tolerance)
    np.testing.assert_allclose(results.estimates.shares, expected.estimates.shares[places], rtol=0, atol=tolerance)


@pytest.mark.parametrize("functional", FUNCTIONALS.values(), ids=FUNCTIONALS)
@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.long
def test_renaming_models_with_given_nuisances(battles, rank, functional, names):
    options = {"functional": functional, "graph": "complete"}
    expected = rank(battles.frame, mu=battles.mu, propensity=battles.propensity, **options)
    called = {f"m{j}": name for j, name in enumerate(names)}
    renamed = battles.frame.assign(
        model_a=battles.frame["model_a"].map(called), model_b=battles.frame["model_b"].map(called)
    )
    places = np.argsort(names)
    mu, propensity = (table[:, places][:, :, places] for table in (battles.mu, battles.propensity))
    results = rank(renamed, mu=mu, propensity=propensity, **options)
    assert results.models == sorted(names)
    assert_same(results, expected, places)
    if not isinstance(functional, RankCentrality):
        assert_same(rank(renamed, mu=mu, propensity="shown", **options), expected, places)


def test_a_categorical_sets_the_order(battles, rank):
    levels = ["m2", "m0", "m3", "m1"]
    frame = battles.frame.assign(
        model_a=pd.Categorical(battles.frame["model_a"], levels),
        model_b=pd.Categorical(battles.frame["model_b"], levels),
    )
    results = rank(frame, functional="bt")
    assert results.models == levels
    assert_same(results, rank(battles.frame, functional="bt"), [2, 0, 3, 1])


def test_renaming_models_in_the_same_order_with_boosters(long_battles, rank):
    formula = "winner ~ x0 + x1 | model_a + model_b"
    called = {f"m{j}": name for j, name in enumerate(NAMES["order kept"])}
    frame = long_battles.frame
    renamed = frame.assign(model_a=frame["model_a"].map(called), model_b=frame["model_b"].map(called))
    expected, results = (rank(f, formula, functional="bt", tune=TREES, n_folds=2) for f in (frame, renamed))
    np.testing.assert_array_equal(results.params, expected.params)


@pytest.mark.parametrize(
    "options", [{}, {"cov_type": "cluster", "cov_kwds": {"groups": "topic"}}], ids=["robust", "clustered"]
)
@pytest.mark.parametrize("formula", ["1", "x0 + x1"])
@pytest.mark.parametrize("data", ["battles", "long_battles"])
@pytest.mark.long
def test_shuffling_rows_with_estimated_nuisances(request, rank, data, formula, options):
    frame = request.getfixturevalue(data).frame
    fits = [
        rank(rows, f"winner ~ {formula} | model_a + model_b", functional="bt", tune=TREES, n_folds=2, **options)
        for rows in (frame, shuffled(frame, 2))
    ]
    assert_same(*fits)
    assert fits[0].diagnostics.log_loss == pytest.approx(fits[1].diagnostics.log_loss, rel=1e-12)


@pytest.mark.long
def test_shuffling_rows_with_annotators_and_tuned_boosters(long_battles, rank):
    options = {"cov_type": "cluster", "cov_kwds": {"groups": ["prompt", "judge"]}, "n_folds": 2, "tune": "cv"}
    frame = long_battles.frame[lambda rows: rows["prompt"] < "q200"]
    fits = [rank(rows, "winner ~ x0 | model_a + model_b", **options) for rows in (frame, shuffled(frame, 3))]
    assert fits[0].estimates.covariance.n_clusters[1] == 5
    assert_same(*fits)


SMOOTH = {"n_folds": 2, "propensity": "shown", "functional": "bt"}
FORMULA = "winner ~ x0 + x1 | model_a + model_b"


def test_shuffling_rows_with_the_default_learner(long_battles, rank):
    fits = [rank(rows, FORMULA, **SMOOTH) for rows in (long_battles.frame, shuffled(long_battles.frame, 4))]
    assert_same(*fits)
    assert fits[0].diagnostics.second_order == pytest.approx(fits[1].diagnostics.second_order, rel=1e-8)
    assert fits[0].diagnostics.floor == fits[1].diagnostics.floor > 0
    assert rank(long_battles.frame, FORMULA, **SMOOTH | {"functional": "borda"}).diagnostics.floor == 0


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("position_bias", [True, False])
@pytest.mark.long
def test_renaming_models_with_smooth_effects(long_battles, rank, names, position_bias):
    called, frame = {f"m{j}": name for j, name in enumerate(names)}, long_battles.frame
    renamed = frame.assign(model_a=frame["model_a"].map(called), model_b=frame["model_b"].map(called))
    expected, results = (rank(f, FORMULA, position_bias=position_bias, **SMOOTH) for f in (frame, renamed))
    assert_without_trees(expected, results)
    assert_same(results, expected, np.argsort(names), tolerance=1e-6)


@pytest.mark.parametrize("position_bias", [True, False])
@pytest.mark.long
def test_showing_pairs_the_other_way_round_with_smooth_effects(long_battles, rank, position_bias):
    frames = (long_battles.frame, mirrored(long_battles.frame))
    expected, results = (rank(frame, FORMULA, position_bias=position_bias, **SMOOTH) for frame in frames)
    assert_without_trees(expected, results)
    assert_same(results, expected, tolerance=1e-6)
    if position_bias:
        assert results.diagnostics.position_effect == pytest.approx(-expected.diagnostics.position_effect, abs=1e-6)


def assert_without_trees(*fits):
    """Labels do not depend on the features, so that no tree is kept; trees would depend on the codes of the models."""
    for fit in fits:
        assert fit.estimates.description.learner == "smooth effects"


def mirrored(frame):
    """Every pair shown the other way round, its label with it."""
    return frame.assign(model_a=frame["model_b"], model_b=frame["model_a"], winner=frame["winner"].replace(MIRROR))


@pytest.mark.long
def test_threads_and_generators(long_battles, rank):
    formula, trees = "winner ~ x0 | model_a + model_b", {"n_estimators": 2, "num_leaves": 3}
    fits = [
        rank(long_battles.frame, formula, n_folds=2, tune=trees, **options)
        for options in (
            {"n_jobs": 1, "rng": 7},
            {"n_jobs": 2, "rng": 7},
            {"rng": np.random.default_rng(5)},
            {"rng": np.random.default_rng(5)},
            {"rng": int(np.random.default_rng(5).integers(2**32))},
        )
    ]
    assert [fit.summary().as_text() == fits[0].summary().as_text() for fit in fits[:3]] == [True, True, False]
    for results in fits[3:]:
        assert results.summary().as_text() == fits[2].summary().as_text()


BAGGED = {"n_folds": 2, "tune": {"n_estimators": 3, "bagging_fraction": 0.5, "bagging_freq": 1}}


@pytest.mark.parametrize(
    ("formula", "options"),
    [(FORMULA, SMOOTH), ("winner ~ x0 | model_a + model_b", BAGGED)],
    ids=["the default learner", "trees on parts of the rows"],
)
@pytest.mark.long
def test_the_global_generator_is_neither_used_nor_changed(long_battles, rank, global_seed, formula, options):
    texts = []
    for seed in (0, 1):
        with global_seed(seed):
            texts.append(rank(long_battles.frame, formula, **options).summary().as_text())
    assert texts[0] == texts[1]
