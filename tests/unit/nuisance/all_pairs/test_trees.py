"""Sums of rectangles equal what Booster.predict returns for stacked rows, for every kind of tree."""

import pickle

import lightgbm as lgb
import numpy as np
import pytest
from scipy.special import expit, softmax

from dmlrank._utils.tasks_and_threads import computing_with
from dmlrank.nuisance.all_pairs import predict
from dmlrank.nuisance.all_pairs.predict import PairTrees, predict_all_pairs
from dmlrank.nuisance.all_pairs.trees import read_trees

from .random_boosters import TableOffset, draw_case

SEEDS = range(60)


def stacked(booster, x, n_items, **options):
    """Predictions of the booster itself for every ordered pair, (n, K, K, C), with zeros on the diagonal."""
    first, second = np.divmod(np.arange(n_items**2), n_items)
    rows = np.column_stack([np.repeat(x, n_items**2, axis=0), np.tile(first, len(x)), np.tile(second, len(x))])
    values = booster.predict(rows.astype(x.dtype), num_threads=1, **options)
    table = values.reshape(len(x), n_items, n_items, -1).copy()
    table[:, np.arange(n_items), np.arange(n_items)] = 0
    return table


@pytest.fixture(scope="module")
def cases():
    return [draw_case(seed) for seed in SEEDS]


@pytest.mark.parametrize("seed", SEEDS)
def test_any_booster(cases, seed):
    case = cases[seed]
    prepared = PairTrees.of(case.booster, case.n_items)
    table = predict_all_pairs(prepared, case.x, case.n_items)
    assert table.shape == (len(case.x), case.n_items, case.n_items, case.n_outputs)
    np.testing.assert_allclose(table, stacked(case.booster, case.x, case.n_items), rtol=0, atol=1e-13)


@pytest.mark.parametrize("seed", range(0, 60, 4))
def test_single_precision(cases, seed):
    case = cases[seed]
    with np.errstate(over="ignore"):
        x = case.x.astype(np.float32)
    table = predict_all_pairs(case.booster, x, case.n_items)
    np.testing.assert_allclose(table, stacked(case.booster, x, case.n_items), rtol=0, atol=1e-13)


@pytest.mark.parametrize("seed", range(1, 60, 4))
def test_offsets_are_added_to_the_scores_before_they_become_probabilities(cases, seed):
    case = cases[seed]
    offset = np.random.default_rng(seed).normal(size=(len(case.x), case.n_items, case.n_items, case.n_outputs))
    raw = predict_all_pairs(case.booster, case.x, case.n_items, raw_score=True)
    link = expit if case.n_outputs == 1 else lambda scores: softmax(scores, axis=-1)
    off = ~np.eye(case.n_items, dtype=bool)
    expected = np.where(off[:, :, None], link(raw + offset), 0)
    table = predict_all_pairs(case.booster, case.x, case.n_items, offset=TableOffset(offset))
    np.testing.assert_allclose(table, expected, rtol=0, atol=1e-13)
    without_offset = stacked(case.booster, case.x, case.n_items)
    np.testing.assert_allclose(np.where(off[:, :, None], link(raw), 0), without_offset, rtol=0, atol=1e-13)


def test_the_cases_hold_every_kind_of_split(cases):
    """The tests above cover every rule of LightGBM, on context features and on items."""
    covered = set().union(*(kinds(case) for case in cases))
    ways = {("context", missing, default) for missing in ("zero", "nan") for default in ("left", "right")}
    sets = {(place, size) for place in ("context", "item") for size in ("one category", "several categories")}
    thresholds = {("context", "none"), ("item", "none")}
    others = {"codes beyond 31", "single leaf", "averaged", "steep", "best iteration", *range(1, 6)}
    assert (ways | sets | thresholds | others) - covered == set()


def kinds(case):
    """The kinds of splits, trees and links of a case."""
    trees, covered = read_trees(case.booster), {case.n_outputs}
    for split in range(len(trees.feature)):
        place = "context" if trees.feature[split] < trees.n_features - 2 else "item"
        if trees.categorical[split]:
            start, count = trees.word_start[split], trees.word_count[split]
            size = sum(int(word).bit_count() for word in trees.words[start : start + count])
            covered |= {(place, "one category" if size == 1 else "several categories")}
            covered |= {"codes beyond 31"} if count > 1 else set()
        elif trees.missing[split] == 0:
            covered.add((place, "none"))
        else:
            way = "left" if trees.default_left[split] else "right"
            covered.add((place, ("zero", "nan")[trees.missing[split] - 1], way))
    conditions = {
        "single leaf": (trees.root < 0).any(),
        "averaged": trees.link.scale < 1,
        "steep": trees.link.scale > 1,
        "best iteration": 0 < case.booster.best_iteration < case.booster.current_iteration(),
    }
    return covered | {name for name, holds in conditions.items() if holds}


@pytest.fixture(scope="module")
def large():
    """A booster of a realistic size, and contexts of which some are equal."""
    rng = np.random.default_rng(0)
    n_items, p, n_rows = 12, 6, 3000
    rows = np.column_stack([rng.normal(size=(n_rows, p)), rng.integers(n_items, size=(n_rows, 2))])
    signal = rows[:, 0] * np.cos(rows[:, p]) + np.sin(rows[:, p + 1]) + rng.normal(size=n_rows)
    train = lgb.Dataset(rows, np.digitize(signal, [-0.5, 0.5]), categorical_feature=[p, p + 1])
    parameters = {"objective": "multiclass", "num_class": 3, "verbosity": -1, "num_threads": 1, "min_data_per_group": 5}
    x = rng.normal(size=(600, p))
    x[rng.integers(600, size=20)] = x[0]
    return lgb.train(parameters, train, 30), n_items, x


def test_large(large):
    booster, n_items, x = large
    table = predict_all_pairs(booster, x, n_items)
    np.testing.assert_allclose(table, stacked(booster, x, n_items), rtol=0, atol=1e-13)


def test_threads_change_no_bit(large):
    booster, n_items, x = large
    prepared = PairTrees.of(booster, n_items)
    tables = []
    for n_jobs in (1, 2, 3, None):
        with computing_with(n_jobs):
            tables.append(predict_all_pairs(prepared, x, n_items))
    for table in tables[1:]:
        np.testing.assert_array_equal(table, tables[0])


def test_chunks_order_and_number_of_contexts_do_not_matter(large, monkeypatch):
    booster, n_items, x = large
    prepared, order = PairTrees.of(booster, n_items), np.random.default_rng(1).permutation(len(x))
    table = predict_all_pairs(prepared, x, n_items)
    other_order = predict_all_pairs(prepared, x[order], n_items)
    one_by_one = [predict_all_pairs(prepared, x[i : i + 1], n_items)[0] for i in range(5)]
    monkeypatch.setattr(predict, "CONTEXTS_AT_ONCE", 37)
    other_chunks = predict_all_pairs(prepared, x, n_items)
    np.testing.assert_allclose(other_order, table[order], rtol=0, atol=1e-12)
    np.testing.assert_allclose(one_by_one, table[:5], rtol=0, atol=1e-12)
    np.testing.assert_allclose(other_chunks, table, rtol=0, atol=1e-12)


def test_a_prepared_booster_is_pickled_as_its_booster(large):
    booster, n_items, x = large
    prepared = PairTrees.of(booster, n_items)
    stored = pickle.dumps(prepared)
    assert len(stored) < 1.1 * len(pickle.dumps(booster))
    np.testing.assert_array_equal(
        predict_all_pairs(pickle.loads(stored), x, n_items), predict_all_pairs(prepared, x, n_items)
    )


def test_without_rounds_contexts_or_pairs(large):
    booster, n_items, x = large
    assert predict_all_pairs(booster, x[:0], n_items).shape == (0, n_items, n_items, 3)
    assert predict_all_pairs(booster, x[:2], 1).tolist() == np.zeros((2, 1, 1, 3)).tolist()
    empty = lgb.Booster(model_str=booster.model_to_string(num_iteration=1, start_iteration=booster.current_iteration()))
    np.testing.assert_allclose(predict_all_pairs(empty, x[:2], 3)[:, 0, 1], 1 / 3)
