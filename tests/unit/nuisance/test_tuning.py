"""Hyperparameters: what may be given, what cross-validation chooses, and folds that keep units whole."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

from dmlrank.exceptions import OptionError, OptionTypeError
from dmlrank.nuisance import tuning
from dmlrank.nuisance.tuning import Settings, check_tune, settle

FIXED = {"objective": "binary", "verbosity": -1, "num_threads": 1, "seed": 0, "feature_pre_filter": False}


@pytest.fixture
def train():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    label = (x[:, 0] + rng.normal(size=300) > 0).astype(int)
    return lgb.Dataset(x, label, params=FIXED, free_raw_data=False).construct()


@pytest.mark.parametrize("tune", ["cv", None, {}, {"num_leaves": 4}, {"n_estimators": 7}, {"max_iter": np.int64(3)}])
def test_allowed(tune):
    check_tune(tune)


@pytest.mark.parametrize(
    ("tune", "error", "message"),
    [
        ("cvv", OptionError, "did you mean 'cv'"),
        (3, OptionTypeError, "tune is a int"),
        ({"n_estimators": 0}, OptionError, "whole number of at least 1, not \\[0\\]"),
        ({"num_rounds": 2.5}, OptionError, "number of rounds"),
        ({"n_estimators": 5, "num_trees": 6}, OptionError, "number of rounds is one"),
        ({"objective": "regression"}, OptionError, "'objective' is settled by the data"),
        ({"application": "regression"}, OptionError, "'application' is settled"),
        ({"num_classes": 9}, OptionError, "'num_classes' is settled"),
        ({"early_stopping_round": 5}, OptionError, "tune='cv' stops early"),
    ],
)
def test_refused(tune, error, message):
    with pytest.raises(error, match=message):
        check_tune(tune)


def test_given_parameters_are_used_as_they_are(train):
    rng = np.random.default_rng(0)
    settings = settle({"num_leaves": 3, "num_trees": 17}, train, np.arange(300), FIXED, rng)
    assert settings == Settings({"num_leaves": 3}, 17)
    assert settle({"num_leaves": 3}, train, np.arange(300), FIXED, rng) == Settings({"num_leaves": 3}, 100)


def test_none_means_the_defaults_of_lightgbm(train):
    assert settle(None, train, np.arange(300), FIXED, np.random.default_rng(0)) == Settings({}, 100)


def test_too_few_units_for_inner_folds_fall_back_to_the_defaults(train):
    assert settle("cv", train, np.arange(300) % 5, FIXED, np.random.default_rng(0)) == Settings({}, 100)


def test_cv_takes_the_configuration_and_the_round_with_the_smallest_loss(train, monkeypatch):
    seen = []

    def cv(parameters, *_, folds, **__):
        seen.append((parameters, folds))
        best = 0.3 if len(seen) == 3 else 0.5
        return {"valid binary_logloss-mean": [0.7, 0.6, best], "valid binary_logloss-stdv": [0.0] * 3}

    monkeypatch.setattr(tuning.lgb, "cv", cv)
    settings = settle("cv", train, np.arange(300), FIXED, np.random.default_rng(0))
    assert settings == Settings(tuning._CONFIGURATIONS[2], 3)
    assert len(seen) == len(tuning._CONFIGURATIONS)
    assert all(folds is seen[0][1] for _, folds in seen)
    assert all(parameters["objective"] == "binary" for parameters, _ in seen)


def test_inner_folds_keep_units_whole_and_cover_every_row(train, monkeypatch):
    seen = []
    monkeypatch.setattr(tuning.lgb, "cv", lambda *_, folds, **__: seen.append(folds) or {"valid l-mean": [0.5]})
    unit = np.random.default_rng(1).integers(40, size=300)
    settle("cv", train, unit, FIXED, np.random.default_rng(2))
    held_out = [test for _, test in seen[0]]
    np.testing.assert_array_equal(np.sort(np.concatenate(held_out)), np.arange(300))
    for learned, test in seen[0]:
        assert not set(unit[learned]) & set(unit[test])
        assert abs(len(np.unique(unit[test])) - len(np.unique(unit)) / 3) < 1


def test_rounds_are_those_of_an_outside_cross_validation(train, monkeypatch):
    monkeypatch.setattr(tuning, "_CONFIGURATIONS", ({"num_leaves": 4, "learning_rate": 0.2},))
    unit = np.arange(300) // 2
    settings = settle("cv", train, unit, FIXED, np.random.default_rng(3))
    folds, n_rounds = tuning._inner_folds(unit, np.random.default_rng(3)), settings.rounds + 15
    losses = np.zeros(n_rounds)
    for learned, test in folds:
        part = lgb.train(FIXED | dict(settings.parameters), train.subset(learned), n_rounds)
        y = train.get_label()[test]
        for place in range(n_rounds):
            p = part.predict(train.get_data()[test], num_iteration=place + 1)
            losses[place] += -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)) / len(folds)
    assert losses[0] > losses.min() + 0.01
    assert losses[settings.rounds - 1] == pytest.approx(losses.min(), rel=1e-9)
