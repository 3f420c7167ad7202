"""Hyperparameters: what may be given, what cross-validation chooses, and folds that keep units whole."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import lightgbm as lgb
import numpy as np
import pytest
from lightgbm.callback import EarlyStopException

from dmlrank.exceptions import OptionError, OptionTypeError
from dmlrank.nuisance.boosting import tuning
from dmlrank.nuisance.boosting.parameter_names import ALIASES, SETTABLE
from dmlrank.nuisance.boosting.parameters import Settings
from dmlrank.nuisance.boosting.random_search import GRIDS, RandomSearch
from dmlrank.nuisance.boosting.tuning import check_tune, tuned_settings

FIXED = {"objective": "binary", "verbosity": -1, "num_threads": 1, "seed": 0, "feature_pre_filter": False}


@pytest.fixture
def train():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    label = (x[:, 0] + rng.normal(size=300) > 0).astype(int)
    return lgb.Dataset(x, label, params=FIXED, free_raw_data=False).construct()


@pytest.mark.parametrize(
    "tune",
    [
        "cv",
        "random",
        RandomSearch(n_draws=2),
        None,
        {},
        {"num_leaves": 4},
        {"n_estimators": 7},
        {"max_iter": np.int64(3)},
    ],
)
def test_allowed(tune):
    check_tune(tune)


@pytest.mark.parametrize(
    ("tune", "error", "message"),
    [
        ("cvv", OptionError, "did you mean 'cv'"),
        ("randm", OptionError, "did you mean 'random'"),
        (3, OptionTypeError, "tune is a int"),
        (RandomSearch, OptionTypeError, "the class RandomSearch; .*=RandomSearch\\(\\)"),
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
    settings = tuned_settings({"num_leaves": 3, "num_trees": 17}, train, np.arange(300), FIXED, rng)
    assert settings == Settings({"num_leaves": 3}, 17)
    assert tuned_settings({"num_leaves": 3}, train, np.arange(300), FIXED, rng) == Settings({"num_leaves": 3}, 100)


def test_none_means_the_defaults_of_lightgbm(train):
    assert tuned_settings(None, train, np.arange(300), FIXED, np.random.default_rng(0)) == Settings({}, 100)


def test_too_few_units_for_inner_folds_fall_back_to_the_defaults(train):
    assert tuned_settings("cv", train, np.arange(300) % 5, FIXED, np.random.default_rng(0)) == Settings({}, 100)


def tell(callbacks, losses):
    """What LightGBM tells its callbacks, round by round, until one of them stops it: the number of rounds."""
    for done, loss in enumerate(losses):
        try:
            for callback in callbacks:
                callback(SimpleNamespace(iteration=done, evaluation_result_list=[("valid", "l", loss, False, 0.0)]))
        except EarlyStopException:
            return done + 1
    return len(losses)


@pytest.mark.parametrize(
    ("curves", "rounds", "chosen"),
    [
        # A minimum is waited for as many rounds as the patience.
        ([[0.9, 0.8] + [0.85] * 30], [12], (0, 2)),
        # Behind the first one at the fifth round: given up; behind it before that, but not then: carried on, and best.
        ([[0.5] * 12, [0.4] * 4 + [0.6] + [0.1] * 10, [0.6] * 4 + [0.49] * 15], [11, 5, 15], (1, 1)),
    ],
)
def test_a_configuration_is_given_up_when_it_is_stale_or_behind(train, monkeypatch, curves, rounds, chosen):
    seen, todo = [], iter(curves)
    monkeypatch.setattr(tuning, "CONFIGURATIONS", tuple({"num_leaves": 2 + at} for at in range(len(curves))))
    monkeypatch.setattr(tuning.lgb, "cv", lambda *_, callbacks, **__: seen.append(tell(callbacks, next(todo))))
    settings = tuned_settings("cv", train, np.arange(300), FIXED, np.random.default_rng(0))
    assert seen == rounds
    assert settings == Settings({"num_leaves": 2 + chosen[0]}, chosen[1])


def test_with_many_rows_one_inner_fold_is_enough(train, monkeypatch):
    seen = []
    monkeypatch.setattr(tuning, "_ENOUGH", 300)
    monkeypatch.setattr(tuning.lgb, "cv", lambda *_, folds, callbacks, **__: seen.append(folds) or tell(callbacks, [1]))
    tuned_settings("cv", train, np.arange(300), FIXED, np.random.default_rng(0))
    (learned, test), *others = seen[0]
    assert not others
    assert (len(learned), len(test)) == (200, 100)


def test_cv_takes_the_configuration_and_the_round_with_the_smallest_loss(train, monkeypatch):
    seen = []

    def cv(parameters, *_, folds, callbacks, **__):
        seen.append((parameters, folds))
        tell(callbacks, [0.7, 0.6, 0.3 if len(seen) == 3 else 0.5, 0.55])

    monkeypatch.setattr(tuning.lgb, "cv", cv)
    settings = tuned_settings("cv", train, np.arange(300), FIXED, np.random.default_rng(0))
    assert settings == Settings(tuning.CONFIGURATIONS[2], 3)
    assert len(seen) == len(tuning.CONFIGURATIONS)
    assert all(folds is seen[0][1] for _, folds in seen)
    assert all(parameters["objective"] == "binary" for parameters, _ in seen)


def test_inner_folds_keep_units_whole_and_cover_every_row(train, monkeypatch):
    seen = []
    monkeypatch.setattr(tuning.lgb, "cv", lambda *_, folds, callbacks, **__: seen.append(folds) or tell(callbacks, [1]))
    unit = np.random.default_rng(1).integers(40, size=300)
    tuned_settings("cv", train, unit, FIXED, np.random.default_rng(2))
    held_out = [test for _, test in seen[0]]
    np.testing.assert_array_equal(np.sort(np.concatenate(held_out)), np.arange(300))
    for learned, test in seen[0]:
        assert not set(unit[learned]) & set(unit[test])
        assert abs(len(np.unique(unit[test])) - len(np.unique(unit)) / 3) < 1


def test_rounds_are_those_of_an_outside_cross_validation(train, monkeypatch):
    monkeypatch.setattr(tuning, "CONFIGURATIONS", ({"num_leaves": 4, "learning_rate": 0.2},))
    unit = np.arange(300) // 2
    settings = tuned_settings("cv", train, unit, FIXED, np.random.default_rng(3))
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


def test_the_grids_of_the_paper():
    """Values as printed in its tables, counted by hand."""
    assert RandomSearch().n_configurations == 4 * 3 * 3 * 4 * 3 * 3 * 3 * 4 * 4 == 62_208
    assert RandomSearch(grid="debiasing").values == RandomSearch(grid="real").values
    assert RandomSearch(grid="collection").n_configurations == 3**9
    assert {tuple(grid) for grid in GRIDS.values()} == {tuple(GRIDS["real"])}
    assert GRIDS["real"]["num_iterations"] == (50, 100, 300, 600)
    assert GRIDS["collection"]["num_iterations"] == (100, 300, 600)


def test_draws_are_distinct_within_the_grid_and_follow_the_seed():
    search = RandomSearch(n_draws=200)
    draws, again, other = (search.draws(np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert draws == again != other
    assert len({tuple(draw.items()) for draw in draws}) == 200
    for draw in draws:
        assert list(draw) == list(search.values)
        assert all(value in search.values[name] for name, value in draw.items())
    for name, values in search.values.items():
        counts = [sum(draw[name] == value for draw in draws) for value in values]
        assert min(counts) > 0.5 * 200 / len(values)


def test_a_small_grid_is_drawn_whole():
    search = RandomSearch(grid={"num_leaves": [4, 8, 4], "lambda_l2": np.array([0.0, 1.0])})
    draws = search.draws(np.random.default_rng(0))
    assert len(draws) == search.n_configurations == 4
    assert {(d["num_leaves"], d["lambda_l2"]) for d in draws} == {(4, 0.0), (4, 1.0), (8, 0.0), (8, 1.0)}


def test_a_whole_grid_gives_the_smallest_log_loss_computed_by_hand(train):
    """The twin trains every configuration on every inner fold and computes the log-loss itself."""
    grid = {"n_estimators": [5, 40], "num_leaves": [3, 12], "learning_rate": [0.05, 0.3], "subsample": [0.6, 1.0]}
    unit, rng = np.arange(300) // 2, np.random.default_rng(6)
    settings = tuned_settings(RandomSearch(n_folds=4, grid=grid), train, unit, FIXED, rng)
    folds = tuning._inner_folds(unit, np.random.default_rng(6), 4)
    y, losses = train.get_label(), {}
    for values in itertools.product(*grid.values()):
        rounds, leaves, rate, fraction = values
        parameters = {"num_leaves": leaves, "learning_rate": rate, "bagging_fraction": fraction, "bagging_freq": 1}
        total = []
        for learned, test in folds:
            booster = lgb.train(FIXED | parameters, train.subset(learned), rounds)
            p = booster.predict(train.get_data()[test])
            total.append(-np.mean(y[test] * np.log(p) + (1 - y[test]) * np.log(1 - p)))
        losses[values] = np.mean(total)
    rounds, leaves, rate, fraction = min(losses, key=losses.get)
    assert settings.rounds == rounds
    chosen = {"num_leaves": leaves, "learning_rate": rate, "subsample": fraction, "bagging_freq": 1}
    assert settings.parameters == chosen
    assert max(losses.values()) > min(losses.values()) + 0.05


def test_a_fraction_of_rows_is_drawn_anew_for_every_tree(train, monkeypatch):
    seen = []
    monkeypatch.setattr(tuning.lgb, "cv", lambda given, *_, **__: seen.append(given) or {"valid l-mean": [0.5]})
    for grid in ({"subsample": [0.7]}, {"subsample": [0.7], "subsample_freq": [5]}, {"num_leaves": [4]}):
        tuned_settings(RandomSearch(grid=grid), train, np.arange(300), FIXED, np.random.default_rng(0))
    assert [given.get("bagging_freq") for given in seen] == [1, None, None]


def test_random_is_the_search_with_its_defaults(train, monkeypatch):
    seen = []

    def cv(given, train_set, num_boost_round, folds, **options):
        assert train_set is train
        assert not options
        seen.append((given, num_boost_round, len(folds)))
        return {"valid l-mean": [0.5 + 0.01 * len(seen)] * num_boost_round}

    monkeypatch.setattr(tuning.lgb, "cv", cv)
    runs = [
        tuned_settings(tune, train, np.arange(300), FIXED, np.random.default_rng(0))
        for tune in ("random", RandomSearch())
    ]
    assert runs[0] == runs[1]
    assert seen[:30] == seen[30:]
    assert len(seen) == 60
    assert {n_folds for *_, n_folds in seen} == {3}
    assert {rounds for _, rounds, _ in seen} == {50, 100, 300, 600}
    assert runs[0].rounds == seen[0][1]


def test_too_few_units_for_the_folds_of_a_search(train):
    few = np.arange(300) % 7
    assert tuned_settings(RandomSearch(n_folds=4), train, few, FIXED, np.random.default_rng(0)) == Settings({}, 100)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"n_draws": 0}, OptionError, "n_draws=0; needed is a whole number of at least 1"),
        ({"n_draws": 2.5}, OptionError, "n_draws=2.5"),
        ({"n_folds": 1}, OptionError, "n_folds=1; needed is a whole number of at least 2"),
        ({"grid": "reel"}, OptionError, "did you mean 'real'"),
        ({"grid": 3}, OptionTypeError, "grid is a int; needed is one of 'real', 'debiasing', 'collection'"),
        ({"grid": {}}, OptionError, "grid is empty"),
        ({"grid": {"num_leaves": []}}, OptionError, "'num_leaves': \\[\\]; needed is a list"),
        ({"grid": {"num_leaves": 8}}, OptionError, "'num_leaves': 8; needed is a list"),
        ({"grid": {"boosting": "dart"}}, OptionError, "'boosting': 'dart'; needed is a list"),
        ({"grid": {"objective": ["binary"]}}, OptionError, "'objective' is settled by the data"),
        ({"grid": {"early_stopping": [5]}}, OptionError, "'early_stopping' needs held-out rows"),
        ({"grid": {"max_bin": [15, 255]}}, OptionError, "'max_bin', but all draws share their bins"),
        ({"grid": {"num_trees": [0]}}, OptionError, "num_trees has 0; needed are whole numbers"),
        ({"grid": {"num_trees": [5], "max_iter": [5]}}, OptionError, "number of rounds 2 times"),
    ],
)
def test_searches_that_are_none(given, error, message):
    with pytest.raises(error, match=message):
        RandomSearch(**given)


def test_a_search_is_a_value():
    grid = {"num_leaves": [4, 8]}
    search = RandomSearch(grid=grid)
    assert search == RandomSearch(grid={"num_leaves": (4, 8)}) != RandomSearch()
    grid["num_leaves"].append(16)
    assert search.n_configurations == 2
    with pytest.raises(FrozenInstanceError):
        search.n_draws = 3


def test_a_fit_with_a_search_is_reproducible_and_updates_know_it(rank, draw_battles, monkeypatch):
    battles = draw_battles(np.random.default_rng(0), 120, 3, 3).frame
    tune = {"n_estimators": [3, 6], "num_leaves": [3, 5], "min_data_in_leaf": [5]}
    options = {"formula": "winner ~ x0 | model_a + model_b", "propensity": "shown", "n_folds": 2}
    one, two = (rank(battles, tune=RandomSearch(n_draws=2, grid=tune), **options) for _ in range(2))
    np.testing.assert_array_equal(one.params, two.params)
    monkeypatch.setattr(tuning.lgb, "cv", lambda *_, **__: pytest.fail("searched again"))
    same = one.update(tune=RandomSearch(n_draws=2, grid=tune), functional="bt")
    assert same.steps.mu is one.steps.mu


@pytest.mark.parametrize(
    ("tune", "words"),
    [
        ({"num_leafs": 5}, "no parameter 'num_leafs'; did you mean 'num_leaf'"),
        ({"num_leaves": -1}, "LightGBM refuses {'num_leaves': -1}"),
        ({"learning_rate": "fast"}, "LightGBM refuses {'learning_rate': 'fast'}"),
    ],
)
def test_parameters_that_lightgbm_does_not_take_are_refused_at_once(tune, words):
    with pytest.raises(OptionError) as caught:
        check_tune(tune)
    assert words in str(caught.value)


def test_no_alias_of_the_installed_lightgbm_is_missing():
    table = lgb.basic._ConfigAliases._get_all_param_aliases()
    for parameter, names in ALIASES.items():
        assert {parameter, *table[parameter]} <= set(names)


@pytest.mark.parametrize("name", ["categorical_features", "cat_feature", "loss"])
def test_every_alias_of_what_follows_from_the_data_is_refused(name):
    with pytest.raises(OptionError, match=f"{name!r} is settled by the data"):
        check_tune({name: 1})


@pytest.mark.parametrize(
    "tune",
    [
        {"monotone_constraints": [1, 1]},
        {"mc": "1,1"},
        {"interaction_constraints": "[0,99]"},
        {"feature_contri": [1.0]},
        {"max_bin_by_feature": [15]},
        {"forced_splits": "splits.json"},
        {"cegb_penalty_feature_coupled": [1.0]},
        {"num_leaves": "4 monotone_constraints=1,1"},
        {"lambda_l2": "1\tinteraction_constraints=[0,99]"},
    ],
    ids=repr,
)
def test_what_is_tied_to_the_columns_never_reaches_lightgbm(tune, monkeypatch):
    """A vector of the wrong length ends the process (SIGABRT, SIGSEGV)."""
    monkeypatch.setattr(lgb, "Dataset", lambda *_, **__: pytest.fail("LightGBM was asked"))
    with pytest.raises(OptionError, match=r"is tied to the columns|needed is a finite number"):
        check_tune(tune)
    with pytest.raises(OptionError, match=r"is tied to the columns|needed is a finite number"):
        RandomSearch(grid={name: [value] for name, value in tune.items()})


def test_parameters_of_lightgbm_are_settable_or_refused_with_a_reason():
    for name in lgb.basic._ConfigAliases._get_all_param_aliases():
        if name not in SETTABLE:
            with pytest.raises(OptionError, match=f"{name!r} (is tied|is settled|is what|needs held-out|does not say)"):
                check_tune({name: 1})


@pytest.mark.parametrize("value", [None, [], {}, [1, 2], object(), "", "a b", float("nan"), float("inf"), 1j, b"4"])
@pytest.mark.parametrize("name", SETTABLE)
def test_every_parameter_with_a_value_of_a_wrong_kind_is_our_error(name, value):
    with pytest.raises(OptionError):
        check_tune({name: value})


@pytest.mark.parametrize("value", [-1, 10**12, 10**400, -1e300, "fast"])
@pytest.mark.parametrize("name", SETTABLE)
def test_every_parameter_with_a_wrong_value_is_our_error_or_none(name, value):
    with contextlib.suppress(OptionError):
        check_tune({name: value})


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"num_leaves": [4, 1]}, "grid: LightGBM refuses .*'num_leaves': 1"),
        ({"num_leafs": [4]}, "grid: LightGBM has no parameter 'num_leafs'; did you mean 'num_leaf'"),
        ({"metric": ["auc"]}, "grid: 'metric' does not say how trees are grown"),
    ],
)
def test_values_of_a_grid_are_checked_when_it_is_made(grid, message):
    with pytest.raises(OptionError, match=message):
        RandomSearch(grid=grid)
