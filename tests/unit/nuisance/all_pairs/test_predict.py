"""Predictions for all pairs are those of Booster.predict on stacked rows."""

from __future__ import annotations

import pickle

import lightgbm as lgb
import numpy as np
import pytest
from scipy.special import expit, softmax

from dmlrank.nuisance.all_pairs.predict import PairTrees, predict_all_pairs

from .random_boosters import TableOffset, in_other_order

N_ITEMS = 5
KINDS = {"multiclass": (3, {"objective": "multiclass", "num_class": 3}), "binary": (1, {"objective": "binary"})}


def booster_on(rng, n_features, parameters, n_items=N_ITEMS, missing=0.0, rounds=12):
    rows = np.concatenate([rng.normal(size=(600, n_features)), rng.integers(n_items, size=(600, 2))], axis=1)
    rows[:, :n_features][rng.random((600, n_features)) < missing] = np.nan
    signal = np.nansum(rows[:, :n_features], axis=1) + rows[:, -2] - rows[:, -1] + rng.normal(size=600)
    label = np.digitize(signal, [-1, 1]) if "num_class" in parameters else signal > 0
    train = lgb.Dataset(rows, label.astype(int), categorical_feature=[n_features, n_features + 1])
    quiet = {"verbosity": -1, "num_threads": 1, "seed": 0, "min_data_per_group": 5, "num_leaves": 8}
    return lgb.train(quiet | parameters, train, rounds)


def one_by_one(booster, x, n_items, n_outputs, **options):
    table = np.zeros((len(x), n_items, n_items, n_outputs))
    for j in range(n_items):
        for k in range(n_items):
            if j != k:
                rows = np.column_stack([x, np.full(len(x), j), np.full(len(x), k)])
                table[:, j, k] = booster.predict(rows, **options).reshape(len(x), n_outputs)
    return table


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


@pytest.mark.parametrize("raw_score", [False, True])
@pytest.mark.parametrize("n_features", [0, 1, 4])
def test_equal_to_stacked_rows(kind, n_features, raw_score):
    rng = np.random.default_rng(0)
    booster = booster_on(rng, n_features, kind[1])
    x = rng.normal(size=(30, n_features))
    table = predict_all_pairs(booster, x, N_ITEMS, raw_score=raw_score)
    expected = one_by_one(booster, x, N_ITEMS, kind[0], raw_score=raw_score)
    assert np.ptp(expected[:, ~np.eye(N_ITEMS, dtype=bool)]) > 0.1
    np.testing.assert_allclose(table, expected, rtol=1e-12, atol=1e-14)


def test_missing_features(kind):
    rng = np.random.default_rng(1)
    booster = booster_on(rng, 3, kind[1], missing=0.3)
    x = rng.normal(size=(40, 3))
    x[rng.random(x.shape) < 0.4] = np.nan
    np.testing.assert_allclose(
        predict_all_pairs(booster, x, N_ITEMS), one_by_one(booster, x, N_ITEMS, kind[0]), rtol=1e-12
    )


def test_two_items(kind):
    rng = np.random.default_rng(2)
    booster = booster_on(rng, 2, kind[1], n_items=2)
    x = rng.normal(size=(10, 2))
    np.testing.assert_allclose(predict_all_pairs(booster, x, 2), one_by_one(booster, x, 2, kind[0]), rtol=1e-12)


def test_equal_contexts_get_equal_predictions_in_their_own_places(kind):
    rng = np.random.default_rng(3)
    booster = booster_on(rng, 2, kind[1])
    few = np.array([[0.5, -1.0], [-0.0, 2.0], [0.0, 2.0], [-2.0, np.nan]])
    place = rng.integers(len(few), size=200)
    table = predict_all_pairs(booster, few[place], N_ITEMS)
    np.testing.assert_allclose(table, one_by_one(booster, few, N_ITEMS, kind[0])[place], rtol=1e-12)


def test_offsets_are_added_before_scores_become_probabilities(kind):
    rng = np.random.default_rng(4)
    booster = booster_on(rng, 2, kind[1])
    x, offset = rng.normal(size=(6, 2)), rng.normal(size=(6, N_ITEMS, N_ITEMS, kind[0]))
    raw = one_by_one(booster, x, N_ITEMS, kind[0], raw_score=True) + offset
    expected = expit(raw) if kind[0] == 1 else softmax(raw, axis=-1)
    expected[:, np.arange(N_ITEMS), np.arange(N_ITEMS)] = 0
    table = predict_all_pairs(booster, x, N_ITEMS, offset=TableOffset(offset))
    np.testing.assert_allclose(table, expected, rtol=1e-12)


def test_more_contexts_than_are_scored_at_once():
    rng = np.random.default_rng(5)
    booster = booster_on(rng, 2, KINDS["multiclass"][1], rounds=2)
    x = rng.normal(size=(11_000, 2))
    table = predict_all_pairs(booster, x, N_ITEMS)
    np.testing.assert_allclose(table, one_by_one(booster, x, N_ITEMS, 3), rtol=1e-12)


def test_rows_sum_to_one_off_the_diagonal():
    rng = np.random.default_rng(6)
    booster = booster_on(rng, 2, KINDS["multiclass"][1])
    total = predict_all_pairs(booster, rng.normal(size=(5, 2)), N_ITEMS).sum(axis=-1)
    np.testing.assert_allclose(total, np.broadcast_to(1 - np.eye(N_ITEMS), total.shape), atol=1e-14)


@pytest.mark.parametrize("n_categories", [3, 4])
def test_mirrored_trees_predict_the_mean_of_both_display_orders(n_categories):
    rng = np.random.default_rng(6)
    booster = booster_on(rng, 3, {"objective": "multiclass", "num_class": n_categories, "verbosity": -1})
    prepared = PairTrees.of(booster, N_ITEMS, mirrored=True)
    x = rng.normal(size=(40, 3))
    x[rng.integers(40, size=30)] = x[0]  # repeated contexts are scored once
    raw = one_by_one(booster, x, N_ITEMS, n_categories, raw_score=True)
    raw = (raw + in_other_order(raw)) / 2
    off = ~np.eye(N_ITEMS, dtype=bool)[:, :, None]
    table = predict_all_pairs(prepared, x, N_ITEMS, raw_score=True)
    np.testing.assert_allclose(table, np.where(off, raw, 0), rtol=0, atol=1e-13)
    for mirrored in (True, False):
        offset = rng.normal(size=raw.shape)
        if mirrored:
            offset += in_other_order(offset)
        table = predict_all_pairs(prepared, x, N_ITEMS, offset=TableOffset(offset, mirrored))
        np.testing.assert_allclose(table, np.where(off, softmax(raw + offset, axis=-1), 0), rtol=0, atol=1e-13)
        if mirrored:
            np.testing.assert_allclose(table, in_other_order(table), rtol=0, atol=1e-15)


def test_mirrored_trees_stay_mirrored_when_pickled():
    rng = np.random.default_rng(7)
    prepared = PairTrees.of(booster_on(rng, 2, KINDS["multiclass"][1]), N_ITEMS, mirrored=True)
    x = rng.normal(size=(20, 2))
    table = predict_all_pairs(pickle.loads(pickle.dumps(prepared)), x, N_ITEMS)
    np.testing.assert_array_equal(table, predict_all_pairs(prepared, x, N_ITEMS))
