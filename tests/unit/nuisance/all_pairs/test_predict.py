"""Predictions for all pairs are those of Booster.predict on stacked rows."""

from __future__ import annotations

import pickle

import lightgbm as lgb
import numpy as np
import pytest
from scipy.special import softmax

from dmlrank.nuisance.all_pairs.predict import PairTrees, predict_all_pairs

from .random_boosters import TableOffset, in_other_order

N_ITEMS = 5
KINDS = {"multiclass": (3, {"objective": "multiclass", "num_class": 3}), "binary": (1, {"objective": "binary"})}


def booster_on(rng, n_features, parameters):
    rows = np.concatenate([rng.normal(size=(600, n_features)), rng.integers(N_ITEMS, size=(600, 2))], axis=1)
    signal = np.sum(rows[:, :n_features], axis=1) + rows[:, -2] - rows[:, -1] + rng.normal(size=600)
    label = np.digitize(signal, [-1, 1]) if "num_class" in parameters else signal > 0
    train = lgb.Dataset(rows, label.astype(int), categorical_feature=[n_features, n_features + 1])
    quiet = {"verbosity": -1, "num_threads": 1, "seed": 0, "min_data_per_group": 5, "num_leaves": 8}
    return lgb.train(quiet | parameters, train, 12)


def one_by_one(booster, x, n_items, n_outputs, **options):
    table = np.zeros((len(x), n_items, n_items, n_outputs))
    for j in range(n_items):
        for k in range(n_items):
            if j != k:
                rows = np.column_stack([x, np.full(len(x), j), np.full(len(x), k)])
                table[:, j, k] = booster.predict(rows, **options).reshape(len(x), n_outputs)
    return table


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
