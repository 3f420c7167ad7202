"""Training rows are the votes, in an order of their own, and boosters do not depend on threads."""

import lightgbm as lgb
import numpy as np
import pytest

from dmlrank._utils.tasks_and_threads import computing_with
from dmlrank.nuisance.boosting import BoosterSpec, train_booster
from dmlrank.nuisance.training_rows import TrainingRows

from ....support import two_of

TUNE = {"n_estimators": 20, "num_leaves": 8, "min_data_in_leaf": 5}


@pytest.fixture
def draw_rows():
    def draw(seed, n=500, n_items=4, n_classes=3):
        rng = np.random.default_rng(seed)
        first, second = two_of(rng, n_items, n)
        x = rng.normal(size=(n, 2))
        signal = x[:, 0] + 0.5 * (first - second) + rng.normal(size=n)
        label = np.digitize(signal, [-0.5, 0.5] if n_classes == 3 else [0.0])
        return TrainingRows(np.column_stack([x, first, second]), label, rng.uniform(0.5, 2, size=n), np.arange(n))

    return draw


def test_the_same_whatever_the_threads(draw_rows):
    rows = draw_rows(3)
    for tune in ({"n_estimators": 3, "num_leaves": 4}, {"n_estimators": 3, "num_leaves": 4, "extra_trees": True}):
        predictions = []
        for n_jobs in (1, 2):
            with computing_with(n_jobs):
                booster = train_booster(rows, BoosterSpec(3, True, tune), np.random.default_rng(0))
            predictions.append(booster.predict(rows.features))
        np.testing.assert_array_equal(*predictions)


def test_selection_is_binary_and_without_items_no_feature_is_categorical(draw_rows):
    rows = draw_rows(6, n_classes=2)
    booster = train_booster(rows, BoosterSpec(None, False, TUNE), np.random.default_rng(0))
    assert booster.predict(rows.features).shape == (500,)
    assert "==" not in {node["decision_type"] for node in splits(booster)}


def test_bins_may_be_changed_and_nothing_is_printed_about_other_parameters(draw_rows, capfd):
    train_booster(draw_rows(8), BoosterSpec(3, True, TUNE | {"boosting": "dart"}), np.random.default_rng(0))
    assert capfd.readouterr() == ("", "")
    coarse = train_booster(draw_rows(8), BoosterSpec(3, True, TUNE | {"max_bin": 3}), np.random.default_rng(0))
    assert len({node["threshold"] for node in splits(coarse) if node["split_feature"] == 0}) <= 2


def splits(booster: lgb.Booster):
    """All nodes of a booster that are split."""
    split_nodes = []
    waiting = [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    while waiting:
        node = waiting.pop()
        if "split_feature" in node:
            split_nodes.append(node)
            waiting += [node["left_child"], node["right_child"]]
    return split_nodes
