"""Learners that the user brings: the same as fitted by hand, never changed, and refused where they cannot be used."""

import copy

import numpy as np
import pytest

pytest.importorskip("sklearn")

import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from dmlrank.exceptions import NuisanceError, OptionError, OptionTypeError
from dmlrank.nuisance.outcome_model.cross_fit import ConstantMu, fit_mu
from dmlrank.nuisance.outcome_model.user_learners import RowsMu, check_learner, fit_learner
from dmlrank.nuisance.training_rows import TrainingRows

from ....support import two_of

K, C = 4, 3
PAIRS = ~np.eye(K, dtype=bool)
FORMULA = "winner ~ x0 + x1 | model_a + model_b"


@pytest.fixture(scope="module")
def battles(draw_battles):
    return draw_battles(np.random.default_rng(0), 240, K, C, repeats=True).frame


@pytest.fixture
def rows():
    """Training rows [x, first, second] with whole weights."""
    rng = np.random.default_rng(1)
    first, second = two_of(rng, K, 300)
    x = rng.normal(size=(300, 2))
    label = np.digitize(x[:, 0] + 0.5 * (first - second) + rng.normal(size=300), [-0.7, 0.7])
    return TrainingRows(np.column_stack([x, first, second]), label, rng.integers(1, 4, size=300) * 1.0, np.arange(300))


def by_hand(x, first, second):
    """[x, one-hot first, one-hot second], entry by entry."""
    table = np.zeros((len(x), x.shape[1] + 2 * K))
    for row in range(len(x)):
        table[row, : x.shape[1]] = x[row]
        table[row, x.shape[1] + first[row]] = 1
        table[row, x.shape[1] + K + second[row]] = 1
    return table


def wide(rows):
    return by_hand(rows.features[:, :-2], rows.features[:, -2].astype(int), rows.features[:, -1].astype(int))


def ask_by_hand(model, x):
    """predict_proba for every pair, one after the other."""
    table = np.zeros((len(x), K, K, C))
    for j in range(K):
        for k in range(K):
            if j != k:
                asked = by_hand(x, np.full(len(x), j), np.full(len(x), k))
                table[:, j, k][:, model.classes_] = model.predict_proba(asked)
    return table


def counting(classifier):
    """A classifier of a subclass that counts, for all copies together, how often it is fitted."""

    class Counting(classifier):
        n_fits = 0

        def fit(self, x, y, sample_weight=None):
            type(self).n_fits += 1
            return super().fit(x, y, sample_weight)

    return Counting()


def fit(learner, rows, seed=0):
    return fit_learner(learner, rows, K, C, np.random.default_rng(seed))


def test_every_fold_has_the_model_that_one_would_fit_by_hand(battles, rank):
    learner = LogisticRegression(C=0.3, max_iter=500)
    result = rank(battles, FORMULA, learner=learner, propensity="shown", n_folds=3)
    data, folds = result.steps.data, result.steps.first.folds
    for held_out, model in enumerate(result.steps.first.inputs.mu.models):
        votes = [
            (cell, category, count)
            for cell in range(len(data.cells))
            for category, count in enumerate(np.rint(data.cells.y[cell] * data.cells.n_votes[cell]))
            if count and folds.fold[data.cells.context[cell]] != held_out
        ]
        cell, category, count = (np.array(part) for part in zip(*votes, strict=True))
        x = by_hand(data.x[data.cells.context[cell]], data.cells.first[cell], data.cells.second[cell])
        hand = LogisticRegression(C=0.3, max_iter=500, tol=1e-8).fit(x, category, sample_weight=count)
        here = data.x[folds.fold == held_out]
        np.testing.assert_allclose(model.predict(here), ask_by_hand(hand, here), atol=2e-3)
    assert result.estimates.description.learner == "LogisticRegression"
    assert "LogisticRegression" in result.summary().as_text()


def test_the_given_classifier_is_neither_fitted_nor_changed(battles, rank):
    learner = RandomForestClassifier(n_estimators=5)
    before = copy.deepcopy(learner.get_params())
    result = rank(battles, FORMULA, learner=learner, propensity="shown", n_folds=2)
    assert learner.get_params() == before
    assert not hasattr(learner, "classes_")
    again = rank(battles, FORMULA, learner=learner, propensity="shown", n_folds=2)
    np.testing.assert_array_equal(result.params, again.params)
    other = rank(battles, FORMULA, learner=learner, propensity="shown", n_folds=2, rng=1)
    assert np.abs(result.params - other.params).max() > 1e-6


def test_tune_changes_the_propensities_only(battles, rank, ignore_warnings):
    small, learner = {"n_estimators": 3, "num_leaves": 3}, counting(GaussianNB)
    result = rank(battles, FORMULA, learner=learner, tune=small, n_folds=2)
    other = result.update(tune={"n_estimators": 4, "num_leaves": 3})
    assert learner.n_fits == 2
    assert other.steps.first.inputs.mu is result.steps.first.inputs.mu
    assert np.abs(other.steps.first.propensity.cells - result.steps.first.propensity.cells).max() > 0


def test_seeds_that_are_given_stay_and_others_are_drawn(rows):
    given, drawn = RandomForestClassifier(3, random_state=7), RandomForestClassifier(3)
    nested = make_pipeline(StandardScaler(), drawn)
    x = rows.features[:5, :-2]
    for learner, same in ((given, True), (drawn, False), (nested, False)):
        one, again, other = (fit(learner, rows, seed).predict(x) for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, again)
        assert (one == other).all() == same


def test_a_category_that_a_fold_does_not_have_has_probability_zero(rows):
    gap = TrainingRows(rows.features, np.where(rows.label == 1, 2, rows.label), rows.weight, rows.unit)
    mu = fit(LogisticRegression(), gap).predict(rows.features[:20, :-2])
    assert not mu[..., 1].any()
    np.testing.assert_allclose(mu[:, PAIRS].sum(axis=-1), 1)
    hand = LogisticRegression().fit(wide(gap), gap.label, sample_weight=gap.weight)
    np.testing.assert_allclose(mu, ask_by_hand(hand, rows.features[:20, :-2]), atol=1e-12)


def test_labels_have_no_gaps_for_classifiers_that_take_none(rows):
    class Strict(GaussianNB):
        def fit(self, x, y, sample_weight=None):
            assert set(np.unique(y)) == set(range(len(np.unique(y))))
            return super().fit(x, y, sample_weight)

    gap = TrainingRows(rows.features, np.where(rows.label == 0, 1, rows.label), rows.weight, rows.unit)
    assert not fit(Strict(), gap).predict(rows.features[:3, :-2])[..., 0].any()


def test_weights_are_handed_on_or_rows_repeated(rows):
    x = rows.features[:30, :-2]
    times = np.repeat(np.arange(300), rows.weight.astype(int))
    weighted = GaussianNB().fit(wide(rows), rows.label, sample_weight=rows.weight)
    np.testing.assert_allclose(fit(GaussianNB(), rows).predict(x), ask_by_hand(weighted, x), atol=1e-12)
    repeated = KNeighborsClassifier(15).fit(wide(rows)[times], rows.label[times])
    np.testing.assert_allclose(fit(KNeighborsClassifier(15), rows).predict(x), ask_by_hand(repeated, x), atol=1e-12)


def test_weights_go_to_the_last_step_of_a_pipeline(rows):
    x = rows.features[:30, :-2]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    hand = sklearn.base.clone(pipeline).fit(wide(rows), rows.label, logisticregression__sample_weight=rows.weight)
    np.testing.assert_allclose(fit(pipeline, rows).predict(x), ask_by_hand(hand, x), atol=1e-12)
    nested = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression()))
    np.testing.assert_allclose(fit(nested, rows).predict(x), ask_by_hand(hand, x), atol=1e-4)
    neighbours = make_pipeline(StandardScaler(), KNeighborsClassifier())
    assert fit(neighbours, rows).predict(x).shape == (30, K, K, C)


def test_weights_of_one_need_no_keyword_and_halves_are_doubled(rows):
    class Plain(ClassifierMixin, BaseEstimator):
        def fit(self, x, y):
            self.classes_, counts = np.unique(y, return_counts=True)
            self.share_, self.rows_ = counts / counts.sum(), len(y)
            return self

        def predict_proba(self, x):
            return np.tile(self.share_, (len(x), 1))

    ones = TrainingRows(rows.features, rows.label, np.ones(300), rows.unit)
    share = np.bincount(ones.label) / 300
    np.testing.assert_allclose(fit(Plain(), ones).predict(rows.features[:1, :-2])[0, 0, 1], share)
    halves = TrainingRows(rows.features, rows.label, rows.weight / 2, rows.unit)
    share = np.bincount(rows.label, rows.weight) / rows.weight.sum()
    np.testing.assert_allclose(fit(Plain(), halves).predict(rows.features[:1, :-2])[0, 0, 1], share)
    thirds = TrainingRows(rows.features, rows.label, rows.weight / 3, rows.unit)
    with pytest.raises(NuisanceError):
        fit(Plain(), thirds)


def test_classifiers_that_know_nothing_of_scikit_learn(rows):
    class Shares:
        learned = None

        def fit(self, x, y):
            self.learned = np.bincount(y) / len(y)

        def predict_proba(self, x):
            return np.tile(self.learned, (len(x), 1))

    learner = Shares()
    ones = TrainingRows(rows.features, rows.label, np.ones(300), rows.unit)
    mu = fit(learner, ones).predict(rows.features[:2, :-2])
    np.testing.assert_allclose(mu[0, 0, 1], np.bincount(rows.label) / 300)
    assert learner.learned is None


def test_functions_are_given_codes_labels_weights_and_a_generator(rows):
    seen = []

    def learner(features, labels, weights, rng):
        seen.append((features.copy(), labels, weights, rng.integers(100)))
        return lambda asked: (
            np.column_stack([np.full(len(asked), 0.2), 0.1 + 0.05 * asked[:, -2:]])[:, [0, 1, 2]]
            @ (np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]]))
            / np.column_stack([0.4 + 0.05 * asked[:, -2:].sum(axis=1)] * 3)
        )

    mu = fit(learner, rows).predict(rows.features[:4, :-2])
    features, labels, weights, draw = seen[0]
    for given, expected in ((features, rows.features), (labels, rows.label), (weights, rows.weight)):
        np.testing.assert_array_equal(given, expected)
    assert draw == np.random.default_rng(0).integers(100)
    j, k = 3, 1
    np.testing.assert_allclose(mu[2, j, k], np.array([0.2, 0.1 + 0.05 * j, 0.1 + 0.05 * k]) / (0.4 + 0.05 * (j + k)))


def test_long_predictions_come_in_chunks(rows):
    whole = fit(LogisticRegression(), rows)
    x = rows.features[:50, :-2]
    expected = whole.predict(x[np.r_[0:50, 0:50]])
    asked = []

    def predictor(part):
        asked.append(len(part))
        return whole.predictor(part)

    chunked = RowsMu(predictor, K, C, one_hot=True, name="chunked", max_entries=1000)
    np.testing.assert_allclose(chunked.predict(x[np.r_[0:50, 0:50]]), expected, rtol=1e-12)
    assert max(asked) * (2 + 2 * K) <= 1000
    assert sum(asked) == 50 * K * (K - 1)
    assert chunked.predict(x[:0]).shape == (0, K, K, C)


def test_without_features_or_with_one_category_no_learner_is_asked(make_data):
    def refuse(*_):
        raise AssertionError("asked")

    rng = np.random.default_rng(0)
    data = make_data(np.arange(30), np.zeros(30), np.ones(30), rng.integers(2, size=30), n_items=2, n_categories=2)
    same = make_data(
        np.arange(30), np.zeros(30), np.ones(30), np.zeros(30), n_items=2, n_categories=2, x=rng.normal(size=(30, 1))
    )
    for part in (data, same):
        kept = np.ones(30, dtype=bool)
        assert isinstance(fit_mu(part, kept, part.seed_order, rng, tune="cv", learner=refuse), ConstantMu)


class Odd(BaseEstimator):
    """A classifier whose predictions are set."""

    def __init__(self, answer=None):
        self.answer = answer

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, x):
        return self.answer(len(x))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n: np.full((n, 2), 0.5), r"shape \(12, 2\); allowed: probabilities \(rows, categories\) = \(12, 3\)"),
        (lambda n: np.full((n, 3), np.nan), r"predicted NaN in 12 of 12 rows, first \[nan, nan, nan\]"),
        (lambda n: np.tile([1.2, -0.1, -0.1], (n, 1)), "not probabilities in 12 of 12 rows"),
        (lambda n: np.tile([0.5, 0.5, 0.5], (n, 1)), "do not sum to one in 12 of 12 rows"),
        (lambda n: ["a"] * n, "is a list that holds no real numbers; allowed: probabilities"),
    ],
)
def test_predictions_that_are_no_probabilities(rows, answer, message):
    ones = TrainingRows(rows.features, rows.label, np.ones(300), rows.unit)
    with pytest.raises(NuisanceError, match=message):
        fit(Odd(answer), ones).predict(rows.features[:1, :-2])
    function = fit(lambda *_: lambda asked: answer(len(asked)), rows)
    with pytest.raises(NuisanceError, match=message):
        function.predict(rows.features[:1, :-2])


def test_single_precision_sums_to_one(rows):
    ones = TrainingRows(rows.features, rows.label, np.ones(300), rows.unit)
    answer = np.array([0.3, 0.3, 0.4], dtype=np.float32) * np.float32(1 + 1e-5)
    mu = fit(Odd(lambda n: np.tile(answer, (n, 1))), ones).predict(rows.features[:1, :-2])
    np.testing.assert_allclose(mu[:, PAIRS].sum(axis=-1), 1, rtol=1e-14)


def test_a_fit_that_fails_names_the_learner(rows):
    holes = TrainingRows(rows.features.copy(), rows.label, rows.weight, rows.unit)
    holes.features[3, 0] = np.nan
    with pytest.raises(NuisanceError):
        fit(LogisticRegression(), holes)


def test_a_function_that_returns_no_function(rows):
    with pytest.raises(NuisanceError):
        fit(lambda features, *_: features, rows)


@pytest.mark.parametrize(
    "learner",
    [
        LogisticRegression,
        RandomForestRegressor(),
        LinearSVC(),
        np.zeros((2, 2)),
        None,
        3,
        lambda features, labels: None,
    ],
)  # fmt: skip
def test_learners_that_cannot_be_used(learner):
    with pytest.raises(OptionTypeError):
        check_learner(learner, "cv", estimates_propensity=True)


@pytest.mark.parametrize("tune", ["random", None, {"num_leaves": 4}])
def test_tune_is_about_boosters(tune):
    check_learner(GaussianNB(), tune, estimates_propensity=True)
    check_learner(GaussianNB(), "cv", estimates_propensity=False)
    with pytest.raises(OptionError, match="tune"):
        check_learner(GaussianNB(), tune, estimates_propensity=False)
