"""Boosters: bins and training rows, what may be passed to LightGBM, and what cross-validation selects."""

import itertools
from types import SimpleNamespace

import lightgbm as lgb
import numpy as np
import pytest
from lightgbm.callback import EarlyStopException

from dmlrank._utils.tasks_and_threads import computing_with
from dmlrank.exceptions import OptionError, OptionTypeError
from dmlrank.nuisance import boosting
from dmlrank.nuisance.boosting import (
    CONFIGURATIONS,
    GRIDS,
    SETTABLE,
    BinnedPairs,
    BinnedRows,
    RandomSearch,
    Settings,
    check_tune,
    draw_inner_folds,
    fixed_parameters,
    loss_after_last_round,
    train_booster,
    tuned_settings,
)
from dmlrank.nuisance.outcome_model.main_effects import VoteRows
from dmlrank.nuisance.training_rows import LabelledRows, TrainingRows

from ...support import two_of

FIXED = {"objective": "binary", "verbosity": -1, "num_threads": 1, "seed": 0, "feature_pre_filter": False}


@pytest.fixture
def train():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    label = (x[:, 0] + rng.normal(size=300) > 0).astype(int)
    return lgb.Dataset(x, label, params=FIXED, free_raw_data=False).construct()


@pytest.mark.parametrize(
    ("tune", "error"),
    [
        ("cvv", OptionError),
        (3, OptionTypeError),
        ({"n_estimators": 0}, OptionError),
        ({"n_estimators": 5, "num_trees": 6}, OptionError),
        ({"objective": "regression"}, OptionError),
        ({"early_stopping_round": 5}, OptionError),
        # LightGBM itself does not accept these.
        ({"num_leafs": 5}, OptionError),
        ({"boosting": "rf"}, OptionError),
        ({"boosting": "goss", "subsample": 0.5, "bagging_freq": 1}, OptionError),
        ({"boosting": "goss", "top_rate": 0.9, "other_rate": 0.5}, OptionError),
    ],
)
def test_refused(tune, error):
    with pytest.raises(error):
        check_tune(tune)


def test_given_parameters_are_used_as_they_are(train):
    rng = np.random.default_rng(0)
    settings = tuned_settings({"num_leaves": 3, "num_trees": 17}, train, np.arange(300), FIXED, rng)
    assert settings == Settings({"num_leaves": 3}, 17)
    assert tuned_settings({"num_leaves": 3}, train, np.arange(300), FIXED, rng) == Settings({"num_leaves": 3}, 100)


@pytest.mark.parametrize(("tune", "n_units"), [(None, 300), ("cv", 5), (RandomSearch(n_folds=4), 7)])
def test_none_and_too_few_units_for_inner_folds_mean_the_defaults_of_lightgbm(train, tune, n_units):
    assert tuned_settings(tune, train, np.arange(300) % n_units, FIXED, np.random.default_rng(0)) == Settings({}, 100)


class RecordedCV:
    """A cross-validation in place of LightGBM's: it reports given losses to the callbacks and records its arguments.

    ``curves`` has the losses by round of each call; the last curve serves all further calls.
    """

    def __init__(self, *curves):
        self.curves, self.calls = curves, []

    def __call__(self, parameters, train, *, num_boost_round, folds, callbacks=()):
        losses = self.curves[min(len(self.calls), len(self.curves) - 1)]
        call = SimpleNamespace(parameters=parameters, train=train, max_rounds=num_boost_round, folds=folds, rounds=0)
        self.calls.append(call)
        for loss in losses:
            results = [("valid", "l", loss, False, 0.0)]
            call.rounds += 1
            try:
                for callback in callbacks:
                    callback(SimpleNamespace(iteration=call.rounds - 1, evaluation_result_list=results))
            except EarlyStopException:
                break
        return {"valid l-mean": list(losses)}

    def in_place_of_lightgbm(self, monkeypatch):
        monkeypatch.setattr(lgb, "cv", self)
        monkeypatch.setattr(boosting, "loss_after_last_round", self.last_loss)
        return self

    def last_loss(self, parameters, n_rounds, train, folds):
        return self(parameters, train, num_boost_round=n_rounds, folds=folds)["valid l-mean"][-1]


@pytest.mark.parametrize(
    ("curves", "rounds", "chosen"),
    [
        # After ten rounds without a new minimum.
        ([[0.9, 0.8] + [0.85] * 30], [12], (0, 2)),
        # Behind the first configuration at the fifth round; behind it only before the fifth round, and best in the end.
        ([[0.5] * 12, [0.4] * 4 + [0.6] + [0.1] * 10, [0.6] * 4 + [0.49] * 15], [11, 5, 15], (1, 1)),
    ],
)
def test_a_configuration_is_given_up_when_it_is_stale_or_behind(train, curves, rounds, chosen, monkeypatch):
    cv = RecordedCV(*curves).in_place_of_lightgbm(monkeypatch)
    monkeypatch.setattr(boosting, "CONFIGURATIONS", [{"num_leaves": 2 + place} for place in range(len(curves))])
    settings = tuned_settings("cv", train, np.arange(300), FIXED, np.random.default_rng(0))
    assert [call.rounds for call in cv.calls] == rounds
    assert settings == Settings({"num_leaves": 2 + chosen[0]}, chosen[1])


def test_with_many_rows_one_inner_fold_is_enough(train, monkeypatch):
    cv = RecordedCV([1.0]).in_place_of_lightgbm(monkeypatch)
    monkeypatch.setattr(boosting, "_SINGLE_FOLD_ROWS", 300)
    tuned_settings("cv", train, np.arange(300), FIXED, np.random.default_rng(0))
    ((training, held_out),) = cv.calls[0].folds
    assert (len(training), len(held_out)) == (200, 100)


def test_cv_takes_the_configuration_and_the_round_with_the_smallest_loss(train, monkeypatch):
    curves = [[0.7, 0.6, 0.3 if place == 2 else 0.5, 0.55] for place in range(len(CONFIGURATIONS))]
    cv = RecordedCV(*curves).in_place_of_lightgbm(monkeypatch)
    settings = tuned_settings("cv", train, np.arange(300), FIXED, np.random.default_rng(0))
    assert settings == Settings(CONFIGURATIONS[2], 3)
    assert len(cv.calls) == len(CONFIGURATIONS)
    assert all(call.folds is cv.calls[0].folds for call in cv.calls)
    assert all(call.parameters["objective"] == "binary" for call in cv.calls)


def test_inner_folds_keep_units_whole_and_cover_every_row(train, monkeypatch):
    cv = RecordedCV([1.0]).in_place_of_lightgbm(monkeypatch)
    unit = np.random.default_rng(1).integers(40, size=300)
    tuned_settings("cv", train, unit, FIXED, np.random.default_rng(2))
    folds = cv.calls[0].folds
    np.testing.assert_array_equal(np.sort(np.concatenate([held_out for _, held_out in folds])), np.arange(300))
    for training, held_out in folds:
        assert not set(unit[training]) & set(unit[held_out])
        assert abs(len(np.unique(unit[held_out])) - len(np.unique(unit)) / 3) < 1


def test_rounds_are_those_of_an_outside_cross_validation(train, monkeypatch):
    unit = np.arange(300) // 2
    monkeypatch.setattr(boosting, "CONFIGURATIONS", [{"num_leaves": 4, "learning_rate": 0.2}])
    settings = tuned_settings("cv", train, unit, FIXED, np.random.default_rng(3))
    folds, n_rounds = draw_inner_folds(unit, np.random.default_rng(3)), settings.rounds + 15
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


def test_a_whole_grid_gives_the_smallest_log_loss_computed_by_hand(train):
    """The twin trains every configuration on every inner fold and computes the log-loss itself."""
    grid = {"n_estimators": [5, 40], "num_leaves": [3, 12], "learning_rate": [0.05, 0.3], "subsample": [0.6, 1.0]}
    unit, rng = np.arange(300) // 2, np.random.default_rng(6)
    settings = tuned_settings(RandomSearch(n_folds=4, grid=grid), train, unit, FIXED, rng)
    folds = draw_inner_folds(unit, np.random.default_rng(6), 4)
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


def test_a_fraction_of_rows_is_drawn_for_every_tree(train, monkeypatch):
    cv = RecordedCV([0.5]).in_place_of_lightgbm(monkeypatch)
    for grid in ({"subsample": [0.7]}, {"subsample": [0.7], "subsample_freq": [5]}, {"num_leaves": [4]}):
        search = RandomSearch(grid=grid)
        tuned_settings(search, train, np.arange(300), FIXED, np.random.default_rng(0))
    assert [call.parameters.get("bagging_freq") for call in cv.calls] == [1, None, None]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"n_draws": 0}, OptionError),
        ({"n_folds": 1}, OptionError),
        ({"grid": "reel"}, OptionError),
        ({"grid": 3}, OptionTypeError),
        ({"grid": {}}, OptionError),
        ({"grid": {"num_leaves": []}}, OptionError),
        ({"grid": {"boosting": "dart"}}, OptionError),
        ({"grid": {"objective": ["binary"]}}, OptionError),
        ({"grid": {"max_bin": [15, 255]}}, OptionError),
        ({"grid": {"num_trees": [0]}}, OptionError),
        ({"grid": {"num_trees": [5], "max_iter": [5]}}, OptionError),
        ({"grid": {"num_leaves": [4, 1]}}, OptionError),
    ],
)
def test_searches_that_are_none(given, error):
    with pytest.raises(error):
        RandomSearch(**given)


@pytest.mark.parametrize("value", [-1, 0, 0.5, 1, 2, 131073, True, "true", "0.5", "fast"])
def test_a_value_is_refused_where_lightgbm_refuses_it(value):
    """The twin asks LightGBM itself."""
    for name in sorted(set(SETTABLE) - {"num_iterations", "boosting"}):
        parameters = fixed_parameters(None, 0, 1) | {name: value}
        try:
            dataset = lgb.Dataset(np.arange(120.0).reshape(60, 2), np.arange(60) % 2, params=parameters)
            lgb.Booster(parameters, dataset.construct())
        except lgb.basic.LightGBMError:
            with pytest.raises(OptionError):
                check_tune({name: value})
        else:
            check_tune({name: value})


def test_parameters_of_lightgbm_are_settable_or_refused_with_a_reason():
    for name in (*lgb.basic._ConfigAliases._get_all_param_aliases(), "categorical_features", "cat_feature", "loss"):
        if name not in SETTABLE:
            with pytest.raises(OptionError, match=f"{name!r}"):
                check_tune({name: 1})


@pytest.mark.parametrize(
    "value", [None, [], {}, [1, 2], object(), "", "a b", float("nan"), float("inf"), 1j, b"4", 10**12, 10**400]
)
def test_every_parameter_with_a_value_of_a_wrong_kind_is_our_error(value):
    for name in SETTABLE:
        with pytest.raises(OptionError):
            check_tune({name: value})


def test_the_loss_after_the_last_round_is_that_of_lightgbms_cross_validation(train):
    folds = [(np.arange(100, 300), np.arange(100)), (np.arange(200), np.arange(200, 300))]
    for parameters in ({"num_leaves": 4}, {"bagging_fraction": 0.7, "bagging_freq": 1, "feature_fraction": 0.7}):
        arguments = {**FIXED, **parameters}, train
        history = lgb.cv(*arguments, num_boost_round=20, folds=folds)
        (every_round,) = (values for name, values in history.items() if name.endswith("-mean"))
        assert loss_after_last_round({**FIXED, **parameters}, 20, train, folds) == every_round[-1]
        assert every_round[-1] != every_round[0]


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
                booster = train_booster(BinnedRows.of(rows, tune, 3), np.random.default_rng(0))
            predictions.append(booster.predict(rows.features))
        np.testing.assert_array_equal(*predictions)


def test_selection_is_binary_and_without_items_no_feature_is_categorical(draw_rows):
    rows = draw_rows(6, n_classes=2)
    booster = train_booster(BinnedRows.of(rows, TUNE, has_items=False), np.random.default_rng(0))
    assert booster.predict(rows.features).shape == (500,)
    assert "==" not in {node["decision_type"] for node in splits(booster)}


def test_bins_may_be_changed_and_nothing_is_printed_about_other_parameters(draw_rows, capfd):
    train_booster(BinnedRows.of(draw_rows(8), TUNE | {"boosting": "dart"}, 3), np.random.default_rng(0))
    assert capfd.readouterr() == ("", "")
    coarse = train_booster(BinnedRows.of(draw_rows(8), TUNE | {"max_bin": 3}, 3), np.random.default_rng(0))
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


K, FEATURES = 70, 3
PARAMETERS = {
    "objective": "multiclass",
    "num_class": 3,
    "verbosity": -1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "feature_pre_filter": False,
    "min_data_in_leaf": 3,
    "boost_from_average": False,
}


@pytest.fixture(scope="module")
def drawn():
    """Cells of a hundred contexts in no order, labels of which some are shared between categories, votes, scores."""
    rng = np.random.default_rng(0)
    n = 400
    x, context = rng.normal(size=(100, FEATURES)), rng.integers(100, size=n)
    x[rng.random(x.shape) < 0.1] = np.nan
    first, second = two_of(rng, K, n)
    y = np.eye(3)[rng.integers(3, size=n)]
    y[::7] = [0.5, 0.25, 0.25]
    return x, context, first, second, y, rng.integers(1, 4, size=n).astype(float), rng.normal(size=(n, 3))


@pytest.mark.parametrize("mirrored", [True, False])
def test_a_part_is_the_data_set_of_its_rows_stacked(drawn, mirrored):
    x, context, first, second, y, votes, scores = drawn
    binned = VoteRows.of(x, LabelledRows(np.empty((len(x), 0)), context, first, second, y, votes))
    cells = np.sort(np.random.default_rng(1).choice(len(y), 250, replace=False))
    swap, rows_of_cells = [1, 0, 2], []
    for i in dict.fromkeys(context):
        for back in (False, True) if mirrored else (False,):
            for cell in cells[context[cells] == i]:
                rows_of_cells += [(cell, c, back) for c in range(3) if y[cell, c]]
    pairs = [(second[cell], first[cell]) if back else (first[cell], second[cell]) for cell, _, back in rows_of_cells]
    rows = np.array([[*x[context[cell]], *pair] for (cell, _, _), pair in zip(rows_of_cells, pairs, strict=True)])
    stacked = lgb.Dataset(
        rows,
        [swap[c] if back else c for _, c, back in rows_of_cells],
        weight=[votes[cell] * y[cell, c] / (2 if mirrored else 1) for cell, c, _ in rows_of_cells],
        init_score=np.array([scores[cell][swap] if back else scores[cell] for cell, _, back in rows_of_cells]),
        reference=binned.binned.rows(None, 1),
        params=binned.binned.rows(None, 1).params,
    )
    part = binned.subset(cells, scores[cells], mirrored, 1)
    one, two = (lgb.train(PARAMETERS, data, 4).predict(rows, raw_score=True) for data in (part, stacked))
    np.testing.assert_array_equal(one, two)
    assert np.ptp(one) > 0.1


def test_features_have_few_bins_and_every_item_its_own():
    """Sixty common items and sixty that one battle in a hundred shows: LightGBM would leave these out."""
    rng = np.random.default_rng(2)
    first = np.concatenate([rng.integers(60, size=24_000), 60 + np.arange(180) % 60])
    second, x = rng.permutation(first), rng.normal(size=(len(first), 1))
    binned, order = BinnedPairs.of(x, np.arange(len(first)), first, second)
    dataset = binned.rows(None, 1)
    np.testing.assert_array_equal(order, np.arange(len(first)))
    with_default_bins = lgb.Dataset(
        first[:, None], categorical_feature=[0], params={"verbosity": -1, "max_bin": 63}
    ).construct()
    assert dataset.feature_num_bin(0) <= 64
    assert min(dataset.feature_num_bin(1), dataset.feature_num_bin(2)) >= 120
    assert with_default_bins.feature_num_bin(0) < 70


def test_features_that_do_not_vary():
    binned, _ = BinnedPairs.of(np.ones((40, 2)), np.arange(40), np.arange(40) % 3, np.arange(1, 41) % 3)
    dataset = binned.rows(None, 1)
    dataset.set_label(np.arange(40) % 3)
    booster = lgb.train(PARAMETERS, dataset, 2)
    p = booster.predict(np.array([[1.0, 1.0, item, (item + 1) % 3] for item in range(3)]))
    assert (p.argmax(axis=1) == np.arange(3)).all()
