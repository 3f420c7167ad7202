"""Estimated propensities: step by step and against the truth."""

from __future__ import annotations

import threading
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest

import dmlrank as dr
from dmlrank._utils.tasks_and_threads import computing_with
from dmlrank.nuisance import pair_choice, propensity  # noqa: F401 (loaded before what they import is replaced)
from dmlrank.nuisance.all_pairs import predict
from dmlrank.nuisance.boosting import BinnedRows, train_booster
from dmlrank.nuisance.outcome_model import main_effects  # noqa: F401
from dmlrank.nuisance.propensity import (
    boosters_by_fold,
    estimate_propensity,
    labelled_and_sampled_pairs,
    marginal_propensity,
)
from dmlrank.nuisance.training_rows import Folds, stack_rows

from ...support import two_of

SMALL = {"n_estimators": 40, "num_leaves": 4, "learning_rate": 0.05}
N_ITEMS = 4
N_FOLDS = 3


class Stub:
    """A booster that knows the probabilities: of an ordered pair, or of any label where there are no items."""

    def __init__(self, probability):
        self.probability = probability

    def predict(self, rows, raw_score=False, num_threads=0):
        p = self.probability(rows)
        return np.log(p / (1 - p)) if raw_score else p


def pair_probability(rows):
    x, first, second = rows[:, 0], rows[:, -2], rows[:, -1]
    return 0.01 + 0.8 / (1 + np.exp(4 - 3 * x * (first - 1.3 * second)))


def any_probability(rows):
    return 1 / (1 + np.exp(-1 - rows[:, 0]))


def train_stub(rows, *_):
    """Instead of training a booster on the only feature, and on items, return one that knows the probabilities."""
    assert rows.n_classes is None
    return Stub(pair_probability if rows.n_features > 1 else any_probability)


def predict_one_by_one(booster, x, n_items):
    """Predictions of a stub, which has no trees, for all pairs."""
    table = np.zeros((len(x), n_items, n_items, 1))
    for j, k in np.argwhere(~np.eye(n_items, dtype=bool)):
        table[:, j, k, 0] = booster.predict(np.column_stack([x, np.full(len(x), j), np.full(len(x), k)]))
    return table


@pytest.fixture
def draw(make_data):
    def draw(n_pairs, n=150, labelled=120, seed=0):
        """Labels on ``n_pairs`` ordered pairs of each of the first ``labelled`` contexts."""
        rng = np.random.default_rng(seed)
        pairs = np.argwhere(~np.eye(N_ITEMS, dtype=bool))
        rate = rng.dirichlet(np.ones(len(pairs)))
        chosen = [rng.choice(len(pairs), size=n_pairs, replace=False, p=rate) for _ in range(labelled)]
        first, second = pairs[np.concatenate(chosen)].T
        context = np.repeat(np.arange(labelled), n_pairs)
        x = rng.normal(size=(n, 1))
        label = rng.integers(2, size=len(context))
        return make_data(context, first, second, label, n_items=N_ITEMS, n_categories=2, x=x)

    return draw


class Unprepared:
    """In place of the trees that are prepared for all pairs: the booster itself."""

    @staticmethod
    def of(booster, n_items):
        return booster


def estimate(data, tune=None, train=train_booster):
    """Estimate the propensities, with boosters from ``train``."""
    fold = np.arange(data.n_contexts) % N_FOLDS
    seeds = np.random.SeedSequence(0).spawn(N_FOLDS)
    folds = Folds(fold, data.seed_order, N_FOLDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(propensity, "train_booster", train)
        if train is not train_booster and tune is None:
            patch.setattr(predict, "PairTrees", Unprepared)
            patch.setattr(predict, "predict_all_pairs", predict_one_by_one)
        return estimate_propensity(data, folds, seeds, tune=tune)


def floored_and_scaled(data, estimates):
    """Floor at a tenth of the pair's rate, then scale, pair by pair."""
    expected, n_floored = np.empty(len(estimates)), 0
    codes = list(zip(data.cells.first, data.cells.second, strict=True))
    for pair in set(codes):
        cells = [cell for cell, code in enumerate(codes) if code == pair]
        floor = 0.1 * len(cells) / data.n_contexts
        n_floored += sum(estimates[cell] < floor for cell in cells)
        floored = {cell: max(estimates[cell], floor) for cell in cells}
        scale = sum(1 / value for value in floored.values()) / data.n_contexts
        for cell in cells:
            expected[cell] = floored[cell] * scale
    return expected, n_floored


def test_with_one_pair_per_context_estimates_are_normalised_then_floored_then_scaled(draw):
    data = draw(n_pairs=1)
    normalised = np.empty(len(data.cells))
    for cell, (i, j, k) in enumerate(zip(data.cells.context, data.cells.first, data.cells.second, strict=True)):
        x = data.x[i, 0]
        table = {(a, b): pair_probability(np.array([[x, a, b]]))[0] for a in range(4) for b in range(4) if a != b}
        normalised[cell] = any_probability(data.x[[i]])[0] * table[j, k] / sum(table.values())
    expected, n_floored = floored_and_scaled(data, normalised)
    result = estimate(data, train=train_stub)
    np.testing.assert_allclose(result.cells, expected, rtol=1e-12)
    assert 0 < n_floored < len(normalised)
    assert result.n_floored == n_floored
    assert result.how == "estimated"


def test_many_pairs_per_context_are_not_normalised(draw):
    data = draw(n_pairs=3)
    cells = data.cells
    estimates = pair_probability(np.column_stack([data.x[cells.context], cells.first, cells.second]))
    expected, n_floored = floored_and_scaled(data, estimates)
    result = estimate(data, train=train_stub)
    np.testing.assert_allclose(result.cells, expected, rtol=1e-12)
    assert result.n_floored == n_floored


def test_where_every_context_is_labelled_once_the_pairs_of_a_context_sum_to_one_before_the_floor(draw):
    data = draw(n_pairs=1, labelled=150)
    result = estimate(data, train=lambda *_: Stub(lambda rows: np.full(len(rows), 0.3)))
    expected, _ = floored_and_scaled(data, np.full(len(data.cells), 1 / 12))
    np.testing.assert_allclose(result.cells, expected, rtol=1e-12)


@pytest.mark.parametrize("n_pairs", [1, 3])
def test_the_mean_weight_of_every_pair_is_one(draw, n_pairs):
    data = draw(n_pairs=n_pairs, n=300, labelled=250, seed=1)
    cells = data.cells
    pair = cells.first * N_ITEMS + cells.second
    mean = np.bincount(pair, weights=1 / estimate(data, tune=SMALL).cells) / data.n_contexts
    np.testing.assert_allclose(mean[np.unique(pair)], 1)


def test_held_out_folds_are_not_learnt_from(draw):
    units_learnt_from = []

    def train(rows, *_):
        units_learnt_from.append(set(rows.unit.tolist()))
        return Stub(lambda features: np.full(len(features), 0.5))

    estimate(draw(n_pairs=1), train=train)
    assert len(units_learnt_from) == 2 * N_FOLDS
    for booster, units in enumerate(units_learnt_from):
        assert units == set(range(150)) - set(range(booster % N_FOLDS, 150, N_FOLDS))


def settings_by_fold(data, tune):
    """Propensities, and the settings that each fold's booster is trained with."""
    settings_of_folds = []

    def train(rows, rng, settings):
        settings_of_folds.append(settings)
        return train_booster(rows, rng, settings)

    return estimate(data, tune, train), settings_of_folds


def test_our_own_configurations_are_compared_once_for_all_folds_and_outside_the_first(draw):
    data = draw(n_pairs=3)
    result, settings = settings_by_fold(data, "cv")
    assert np.ptp(result.cells) > 0
    assert settings == [settings[0]] * N_FOLDS
    assert settings[0] is not None
    cells = data.cells
    in_first_fold = cells.context % N_FOLDS == 0
    second = np.where(in_first_fold, cells.first, cells.second)
    first = np.where(in_first_fold, cells.second, cells.first)
    other = replace(data, cells=replace(cells, first=first, second=second))
    assert settings_by_fold(other, "cv")[1] == settings


def test_a_random_search_draws_anew_in_every_fold(draw):
    """The paper's search does so, too."""
    tune = dr.RandomSearch(n_draws=2, grid={"num_leaves": [3, 6], "num_trees": [4]})
    result, settings = settings_by_fold(draw(n_pairs=3), tune)
    assert np.ptp(result.cells) > 0
    assert settings == [None] * N_FOLDS


def test_all_that_threads_give_to_lightgbm_asks_for_the_same_number_of_its_threads(draw, monkeypatch):
    """LightGBM has one number for the process: changed in one thread, it makes a booster of another one crash."""
    numbers = []

    def recorded(method, params_of):
        def call(self, *args, **kwargs):
            is_made = getattr(self, "_handle", None) is not None
            if not is_made and threading.current_thread() is not threading.main_thread():
                numbers.append(params_of(self, *args, **kwargs).get("num_threads"))
            return method(self, *args, **kwargs)

        return call

    monkeypatch.setattr(lgb.Dataset, "construct", recorded(lgb.Dataset.construct, lambda data: data.params))
    of_booster = recorded(lgb.Booster.__init__, lambda _, params=None, *more, **others: params or {})
    monkeypatch.setattr(lgb.Booster, "__init__", of_booster)
    monkeypatch.setattr("dmlrank.nuisance.boosting.SEVERAL_BOOSTERS_FROM", 0)
    data = draw(n_pairs=3)
    rows = BinnedRows.of_pairs(labelled_and_sampled_pairs(data, np.random.default_rng(6)), data.x, "cv")
    folds = Folds(np.arange(data.n_contexts) % N_FOLDS, data.seed_order, N_FOLDS)
    rngs = [np.random.default_rng(seed) for seed in range(N_FOLDS)]
    with computing_with(2):
        boosters_by_fold(rows, folds, rngs)
    assert len(numbers) > N_FOLDS
    assert set(numbers) == {1}


def test_binned_contexts_give_what_stacked_rows_in_the_same_bins_give(draw):
    data = draw(n_pairs=3, seed=4)
    rows = labelled_and_sampled_pairs(data, np.random.default_rng(5))
    binned = BinnedRows.of_pairs(rows, data.x, "cv")
    order = np.argsort(rows.context, kind="stable")
    features = stack_rows(data.x, rows.context, rows.first, rows.second)[order]
    stacked = lgb.Dataset(
        features, rows.label[order], weight=rows.weight[order], reference=binned.dataset, params=binned.dataset.params
    )
    np.testing.assert_array_equal(binned.label, rows.label[order])
    np.testing.assert_array_equal(binned.unit, rows.context[order])
    half = binned.unit % 2 == 0
    parameters = {"objective": "binary", "verbosity": -1, "num_threads": 1, "num_leaves": 6, "min_data_per_group": 5}
    for part, twin in (
        (binned.dataset, stacked),
        (binned.only(half).dataset, stacked.construct().subset(np.flatnonzero(half).tolist())),
    ):
        predictions = lgb.train(parameters, part, 8).predict(features)
        np.testing.assert_array_equal(predictions, lgb.train(parameters, twin, 8).predict(features))
        assert np.ptp(predictions) > 0.01


def test_without_features_the_rates_are_used(draw, make_data):
    data = draw(n_pairs=2)
    cells = data.cells
    votes = cells.context, cells.first, cells.second, np.zeros(len(cells), dtype=int)
    without_features = make_data(*votes, n_items=4, n_categories=2, n_contexts=150)
    counts = data.pair_counts()
    for result in (estimate(without_features), marginal_propensity(data)):
        np.testing.assert_allclose(result.cells, counts[cells.first, cells.second] / 150)
        assert result.how == "marginal"


def test_labelled_and_sampled_pairs_stand_for_all_pairs_of_all_contexts(make_data):
    rng = np.random.default_rng(2)
    n, n_items = 400, 9
    first, second = two_of(rng, n_items, n)
    x = np.arange(n + 50, dtype=float)[:, None]
    data = make_data(np.arange(n), first, second, np.zeros(n, dtype=int), n_items=n_items, n_categories=2, x=x)
    rows = labelled_and_sampled_pairs(data, rng)
    context, j, k = rows.context, rows.first, rows.second
    labelled = set(zip(range(n), first, second, strict=True))
    pairs = list(zip(context, j, k, strict=True))
    positive = rows.label == 1
    assert {pair for pair, is_positive in zip(pairs, positive, strict=True) if is_positive} == labelled
    assert not labelled & {pair for pair, is_positive in zip(pairs, positive, strict=True) if not is_positive}
    assert (j != k).all()
    total = np.bincount(context, weights=rows.weight, minlength=n + 50)
    np.testing.assert_allclose(total, n_items * (n_items - 1))
    negatives = np.bincount(j[~positive] * n_items + k[~positive], weights=rows.weight[~positive])
    share = negatives[negatives > 0] / negatives.sum()
    assert len(share) == n_items * (n_items - 1)
    np.testing.assert_allclose(share, 1 / len(share), rtol=0.5)


def test_few_pairs_are_all_used_as_negatives(draw):
    data = draw(n_pairs=3)
    rows = labelled_and_sampled_pairs(data, np.random.default_rng(0))
    assert len(rows.label) == 150 * 12
    np.testing.assert_array_equal(rows.weight, 1)


def test_close_to_the_truth_with_one_pair(rank):
    arena = dr.datasets.Arena()
    battles = arena.sample(3000, rng=0)
    estimated, true, _ = propensities_at_cells(rank, arena, battles, SMALL, ["category"])
    assert np.corrcoef(estimated, true)[0, 1] > 0.7
    assert np.median(np.abs(estimated / true - 1)) < 0.2
    assert abs(np.mean(estimated / true) - 1) < 0.05


def propensities_at_cells(rank, simulator, battles, tune, features):
    """Estimated, true and marginal propensities at the labelled cells."""
    formula = f"winner ~ {' + '.join(features)} | model_a + model_b"
    result = rank(battles, formula, context="question_id", tune=tune, n_folds=2)
    contexts = battles.drop_duplicates("question_id")[features]
    true = simulator.propensity(contexts if "category" in features else contexts.to_numpy())
    data = result.steps.data
    cells = data.cells
    true_cells = true[cells.context, cells.first, cells.second]
    return result.steps.first.propensity.cells, true_cells, marginal_propensity(data).cells
