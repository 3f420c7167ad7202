"""Predictions for all pairs, from rectangles or from tables of pairs, are those of Booster.predict on stacked rows."""

import pickle
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest
from scipy.special import softmax

from dmlrank.nuisance.all_pairs import predict
from dmlrank.nuisance.all_pairs.predict import PairTables, PairTrees, predict_all_pairs, tables_pay
from dmlrank.nuisance.all_pairs.trees import evaluate_items, read_trees

from .random_boosters import TableOffset, draw_case, in_other_order


def with_tables(booster, n_items, *, mirrored=False):
    trees = read_trees(booster)
    branches, leaves = evaluate_items(trees, n_items)
    tables = PairTables.of(trees, branches, leaves, trees.value * trees.link.scale, n_items, mirrored=mirrored)
    return PairTrees(booster, n_items, trees, branches, (), tables, mirrored)


@pytest.mark.parametrize("seed", range(40))
def test_any_booster(seed, monkeypatch):
    case = draw_case(seed)
    expected = predict_all_pairs(PairTrees.of(case.booster, case.n_items), case.x, case.n_items)
    table = predict_all_pairs(with_tables(case.booster, case.n_items), case.x, case.n_items)
    np.testing.assert_allclose(table, expected, rtol=0, atol=1e-13)
    if case.n_outputs < 2:
        return
    raw = predict_all_pairs(PairTrees.of(case.booster, case.n_items), case.x, case.n_items, raw_score=True)
    raw = (raw + in_other_order(raw)) / 2
    mirrored = with_tables(case.booster, case.n_items, mirrored=True)
    table = predict_all_pairs(mirrored, case.x, case.n_items, raw_score=True)
    np.testing.assert_allclose(table, raw, rtol=0, atol=1e-13)
    offset = np.random.default_rng(seed).normal(size=raw.shape)
    monkeypatch.setattr(predict, "CONTEXTS_AT_ONCE", 7)
    table = predict_all_pairs(mirrored, case.x, case.n_items, offset=TableOffset(offset))
    expected = np.where(~np.eye(case.n_items, dtype=bool)[:, :, None], softmax(raw + offset, axis=-1), 0)
    np.testing.assert_allclose(table, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("prepare", [with_tables, PairTrees.of])
def test_scores_do_not_depend_on_the_other_contexts(prepare, monkeypatch):
    case = next(case for case in map(draw_case, range(40)) if case.n_outputs > 2)
    prepared = prepare(case.booster, case.n_items)
    table = predict_all_pairs(prepared, case.x, case.n_items)
    order = np.random.default_rng(1).permutation(len(case.x))
    monkeypatch.setattr(predict, "CONTEXTS_AT_ONCE", 4)
    again = predict_all_pairs(prepared, case.x[order][:9], case.n_items)
    np.testing.assert_array_equal(again, table[order][:9])
    # Of many items, a product of rectangles has fewer contexts.
    monkeypatch.setattr(predict, "_MOST_SCORES", 24 * prepared.trees.link.n_outputs * case.n_items**2)
    few = predict_all_pairs(prepared, case.x, case.n_items)
    np.testing.assert_allclose(few, table, rtol=0, atol=1e-14)


def test_tables_are_prepared_for_many_contexts_where_few_splits_are_on_the_context():
    rng, n_items = np.random.default_rng(0), 40
    rows = np.column_stack([rng.normal(size=(3000, 2)), rng.integers(n_items, size=(3000, 2))])
    label = np.digitize(rows[:, 0] + rows[:, 2] - rows[:, 3] + rng.normal(size=3000), [-2, 2])
    quiet = {"objective": "multiclass", "num_class": 3, "verbosity": -1, "num_threads": 1, "num_leaves": 8}
    booster = lgb.train(quiet, lgb.Dataset(rows, label, categorical_feature=[2, 3]), 10)
    few, many = (PairTrees.of(booster, n_items, mirrored=True, n_contexts=n) for n in (100, 100_000))
    assert few.tables is None
    assert many.tables is not None
    assert pickle.loads(pickle.dumps(many)).tables is not None
    x = rng.normal(size=(300, 2))
    expected = predict_all_pairs(few, x, n_items)
    np.testing.assert_allclose(predict_all_pairs(many, x, n_items), expected, rtol=0, atol=1e-14)
    # A block overwrites the one before.
    for pairs in (few, many):
        for contexts, block in pairs.blocks(x, pairs.trees.link, None):
            np.testing.assert_allclose(block, expected[contexts], rtol=0, atol=1e-14)
    wide = replace(few.branches, split=np.zeros(10**6, dtype=int))
    assert not tables_pay(wide, few.sums, n_items, 100_000, mirrored=True)


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
