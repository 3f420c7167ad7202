"""An update is the fit that its options describe, at the price of what they touch; results stay as they are."""

import importlib.util
from dataclasses import FrozenInstanceError, asdict

import lightgbm
import numpy as np
import pytest

import dmlrank as dr
from dmlrank.exceptions import ColumnError, FrameTypeError, OptionError
from dmlrank.functionals import BradleyTerry
from dmlrank.nuisance.all_pairs import predict as all_pairs
from dmlrank.options import OPTIONS as ALL_OPTIONS

from ..support import quiet

TREES = {"n_estimators": 6, "num_leaves": 4, "min_data_in_leaf": 5}
FORMULA = "winner ~ x0 + x1 | model_a + model_b"
OPTIONS = {"context": "prompt", "min_labels": 1, "tune": TREES, "n_folds": 2, "rng": 3, "n_jobs": 1}
N_PROMPTS = 240
# One pass over all contexts, with a margin, and one more by the model of each fold: the models of the two folds are
# compared in all of so few contexts, for the second-order term.
ONE_PASS = 1.2 * N_PROMPTS
ONE_PASS_OF_EACH_FOLD = 2 * N_PROMPTS
CLUSTERS = {"cov_type": "cluster"}
PAIR_0_1_MISSING = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]], dtype=bool)


@pytest.fixture(scope="module")
def battles(draw_battles):
    """One pair per prompt with one or more votes, prompts without any in between."""
    return draw_battles(np.random.default_rng(0), N_PROMPTS, 4, 4, repeats=True, unlabelled=15)


@pytest.fixture(scope="module")
def results(battles, rank):
    return rank(battles.frame, FORMULA, **OPTIONS)


@pytest.fixture
def trained(monkeypatch):
    """Counts trainings and cross-validations of boosters."""
    calls = []
    for name in ("train", "cv"):
        kept = getattr(lightgbm, name)
        monkeypatch.setattr(lightgbm, name, lambda *args, kept=kept, **kwargs: calls.append(1) or kept(*args, **kwargs))
    return calls


@pytest.fixture
def scored(monkeypatch):
    """Counts the contexts that are scored for all pairs."""
    rows = []
    kept = all_pairs.predict_all_pairs
    monkeypatch.setattr(
        all_pairs,
        "predict_all_pairs",
        lambda booster, x, *args, **given: rows.append(len(x)) or kept(booster, x, *args, **given),
    )
    return rows


def assert_equal(one, other):
    np.testing.assert_array_equal(one.params, other.params)
    np.testing.assert_array_equal(one.cov_params(), other.cov_params())
    np.testing.assert_array_equal(one.estimates.plugin, other.estimates.plugin)
    assert one.estimates.critical == other.estimates.critical
    # What is not known is NaN on both sides.
    np.testing.assert_equal(asdict(one.diagnostics), asdict(other.diagnostics))
    assert one.estimates.description == other.estimates.description
    assert one.summary().as_text() == other.summary().as_text()


def quietly(update, **changes):
    with quiet():
        return update(**changes)


CHANGES = {
    "bt": {"functional": "bt"},
    "rank centrality": {"functional": "rank_centrality"},
    "plug-in": {"estimator": "plugin"},
    "mean preferences": {"average": "preferences", "functional": "bt"},
    "floor": {"floor": 0.2, "functional": "bt"},
    "alpha": {"alpha": 0.2},
    "edge weights": {"edge_weights": "counts", "functional": "bt"},
    "category weights": {"category_weights": "paper"},
    "one-way clusters": CLUSTERS | {"cov_kwds": {"groups": "topic"}},
    "two-way clusters": CLUSTERS | {"cov_kwds": {"groups": ["prompt", "judge"]}},
    "marginal propensity": {"propensity": "marginal"},
    "propensity column": {"propensity": "shown"},
    "tune": {"tune": {"n_estimators": 3}},
    "folds": {"n_folds": 3},
    "no context": {"context": None, "missing": "raise"},
    "graph": {"graph": PAIR_0_1_MISSING, "functional": "bt"},
    "min labels": {"min_labels": 3, "functional": "bt"},
    "learner": {"learner": "lightgbm"},
    "rng": {"rng": 4},
    "second-order bias": {"second_order": False, "functional": "bt"},
    "given mu": {"mu": np.full((N_PROMPTS, 4, 4, 4), 0.25)},
    "repetitions": {"n_rep": 2},
    "order does not matter": {"position_bias": False},
    "fixed prompts": {"prompts": "fixed"},
    "weights": {"weights": np.linspace(0.5, 1.5, N_PROMPTS)},
    "selection": {"propensity": "~ x0"},
    "largest component": {"component": "largest"},
    "enough votes": {"min_votes": 2, "apart": 0},
    "missing rows dropped": {"missing": "drop"},
    "threads": {"n_jobs": 2},
    "categories": {"categories": {"both_good": "tie", "both_bad": "tie", "model_a": "first", "model_b": "second"}},
}
if importlib.util.find_spec("sklearn"):
    CHANGES["user's learner"] = {"learner": importlib.import_module("sklearn.naive_bayes").GaussianNB()}


def test_every_option_is_updated_here():
    """Judges are changed in test_judges, style in the tests of style, and runs in those of scores."""
    changed = {name for changes in CHANGES.values() for name in changes}
    left_out = {"judge", "judge_as", "adjust", "run", "lower_is_better", "bounds"}
    assert changed - {"cov_kwds"} | {"groups"} == ALL_OPTIONS.keys() - left_out


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_an_update_is_a_fresh_fit(battles, results, rank, changes):
    fresh = rank(battles.frame, FORMULA, **(OPTIONS | changes))
    assert_equal(quietly(results.update, **changes), fresh)


def test_an_update_of_an_update_is_a_fresh_fit(battles, results, rank):
    made = results
    for name in ("one-way clusters", "bt", "propensity column", "alpha", "marginal propensity"):
        made = quietly(made.update, **CHANGES[name])
    together = CHANGES["one-way clusters"] | CHANGES["bt"] | CHANGES["alpha"] | CHANGES["marginal propensity"]
    assert_equal(made, rank(battles.frame, FORMULA, **(OPTIONS | together)))


def test_warnings_stay_in_the_diagnostics(battles, rank):
    graph = {"graph": PAIR_0_1_MISSING}
    warned = rank(battles.frame, FORMULA, **(OPTIONS | graph))
    assert warned.diagnostics.warnings
    assert quietly(warned.update, alpha=0.1).diagnostics.warnings == warned.diagnostics.warnings


CHEAP = ["alpha", "plug-in", "floor", "marginal propensity"]
NEW_SETUP = ["bt", "rank centrality", "edge weights", "category weights"]


@pytest.mark.parametrize("name", [*CHEAP, *NEW_SETUP, "floor of bt"])
def test_no_booster_is_trained_again(results, trained, name):
    changes = CHANGES.get(name, {"functional": "bt", "floor": 0.01})
    if name == "floor":
        changes = {"floor": 0.2}
    quietly(results.update, **changes)
    assert not trained


def test_another_functional_of_known_propensities_costs_one_pass(battles, rank, trained, scored):
    given = rank(battles.frame, FORMULA, **(OPTIONS | {"propensity": "shown"}))
    assert len(trained) == 2
    assert sum(scored) <= ONE_PASS
    trained.clear()
    scored.clear()
    quietly(given.update, functional="bt")
    assert not trained
    assert sum(scored) <= ONE_PASS + ONE_PASS_OF_EACH_FOLD


def test_a_fit_trains_each_first_stage_once_per_fold(battles, rank, trained, scored):
    rank(battles.frame, FORMULA, **OPTIONS)
    assert len(trained) == 2 * 3
    assert sum(scored) <= 2.2 * N_PROMPTS


def first_prompts(frame, n=200):
    """The rows of the first prompts."""
    return frame[frame["prompt"].isin(frame["prompt"].unique()[:n])]


FURTHER_ROWS = {
    "debiased": {},
    "bt of clusters": {"functional": "bt", "cov_type": "cluster", "cov_kwds": {"groups": "topic"}},
    "two repetitions, known propensities": {"n_rep": 2, "propensity": "shown"},
    "maximum likelihood": {"estimator": "bt_mle"},
}


@pytest.mark.parametrize("options", FURTHER_ROWS.values(), ids=FURTHER_ROWS)
def test_an_update_of_other_rows_is_a_fresh_fit_of_them(battles, results, rank, options):
    earlier = quietly(rank(first_prompts(battles.frame), FORMULA, **OPTIONS).update, **options)
    fresh = quietly(results.update, **options)
    assert_equal(quietly(earlier.update, data=battles.frame), fresh)
    assert_equal(quietly(earlier.update, data=battles.frame, alpha=0.1), quietly(fresh.update, alpha=0.1))
    # The rows of the fit stay what they were.
    assert_equal(quietly(earlier.update, data=None), earlier)
    assert earlier.nobs < fresh.nobs


def test_other_rows_lack_a_column_or_are_no_frame(battles, results):
    with pytest.raises(ColumnError, match="x1"):
        results.update(data=battles.frame.drop(columns="x1"))
    with pytest.raises(FrameTypeError):
        results.update(data="battles.csv")


def test_results_do_not_change(battles, results):
    text, params = results.summary().as_text(), results.params.copy()
    for handed_out in (results.params, results.bse, results.cov_params(), results.predict()):
        handed_out.iloc[:] = 99
    results.influence[:] = 99
    results.models.append("another")
    quietly(results.update, functional="bt", alpha=0.5)
    results.t_test("m0 - m1")
    results.wald_test("m0 = m1 = m2")
    results.win_probability("m0", "m1")
    results.ellipsoid(models=["m0", "m1"])
    for name in ("params", "estimates", "steps", "something"):
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
            setattr(results, name, None)
    assert results.summary().as_text() == text
    np.testing.assert_array_equal(results.params, params)


def test_the_caller_s_data_are_left_alone(battles, rank):
    frame, mu, shown = battles.frame.copy(), battles.mu.copy(), battles.propensity.copy()
    rank(frame, FORMULA, **(OPTIONS | {"mu": mu, "propensity": shown, "functional": "bt", "floor": 0.2}))
    assert frame.equals(battles.frame)
    np.testing.assert_array_equal(mu, battles.mu)
    np.testing.assert_array_equal(shown, battles.propensity)


def test_objects_that_are_bound_already_keep_what_they_were_given(results):
    weights = dr.CategoryWeights((1, 0, 1, 0), (0, 1, 1, 0))
    own = quietly(results.update, functional=BradleyTerry(weights))
    other = quietly(results.update, functional="bt", category_weights=weights)
    np.testing.assert_array_equal(own.params, other.params)
    # What is printed about ties, and the win shares beside the scores, follow the weights that the scores have.
    assert own.summary().as_text() == other.summary().as_text()
    assert own.to_json() == other.to_json()


@pytest.mark.parametrize(
    ("weights", "options"),
    [
        (dr.CategoryWeights((1, 0, 1, 0), (0, 1, 1, 0)), {"category_weights": ((1, 0, 0, 0), (0, 1, 0, 0))}),
        (dr.CategoryWeights((1, 0, 0.5), (0, 1, 0.5)), {}),
    ],
)
def test_category_weights_in_two_places_must_agree(results, weights, options):
    with pytest.raises(OptionError):
        results.update(functional=BradleyTerry(weights), **options)


def test_edge_weights_in_two_places_are_refused(results):
    n_models = len(results.params)
    weights = np.ones((n_models, n_models)) - np.eye(n_models)
    for option in ("counts", weights):
        with pytest.raises(OptionError, match="one place"):
            results.update(functional=BradleyTerry(edge_weights=weights), edge_weights=option)
