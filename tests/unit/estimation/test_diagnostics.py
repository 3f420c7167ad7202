"""What speaks against intervals: each sign against its twin, and the warnings where they are due and where not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp

import dmlrank as dr
from dmlrank.data.preferences import Cells
from dmlrank.estimation.cross_fitting import CrossFittedMu, HeldOutLabels, SuppliedMu
from dmlrank.estimation.diagnostics import (
    Validity,
    calibration,
    effective_contexts,
    estimate_second_order_bias,
    remaining_bias,
    warn_about_intervals,
)
from dmlrank.estimation.influence import Influence
from dmlrank.exceptions import DmlrankWarning
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights
from dmlrank.nuisance.outcome_model.cross_fit import ConstantMu
from dmlrank.nuisance.training_rows import Folds

DOUBTS = (
    "few prompts determine the standard error of",
    "too few labels for this functional",
    "the fitted probabilities are",
)


def calibration_slope(mu, cells):
    return calibration(HeldOutLabels.by_cell(mu, cells))[0]


def log_spread(mu):
    cells = cells_of(np.eye(mu.shape[1])[np.zeros(len(mu), dtype=int)])
    return calibration(HeldOutLabels.by_cell(mu, cells))[1]


def influence_of(phi):
    n = len(phi)
    return Influence(phi, np.zeros_like(phi), np.arange(n), np.ones(n), np.ones(n))


def cells_of(y, n_votes=None):
    n = len(y)
    votes = np.ones(n, dtype=int) if n_votes is None else n_votes
    return Cells(np.arange(n), np.zeros(n, dtype=int), np.ones(n, dtype=int), y, votes, np.zeros(n, dtype=bool))


def test_effective_contexts_in_loops():
    phi = np.random.default_rng(0).standard_t(3, size=(200, 3))
    made = effective_contexts(influence_of(phi))
    for j in range(3):
        centred = [value - sum(phi[:, j]) / 200 for value in phi[:, j]]
        assert made[j] == pytest.approx(sum(v**2 for v in centred) ** 2 / sum(v**4 for v in centred))


def test_effective_contexts_are_all_where_all_weigh_the_same_and_one_where_one_decides():
    same, one = np.tile([1.0, -1.0], 50), np.zeros(1000)
    one[0] = 1000.0
    assert effective_contexts(influence_of(same[:, None])) == pytest.approx(100)
    assert effective_contexts(influence_of(one[:, None])) == pytest.approx(1, abs=0.01)


def test_effective_contexts_of_a_score_that_does_not_vary():
    phi = np.column_stack([np.random.default_rng(1).normal(size=30), np.full(30, 0.1 + 0.2)])
    assert effective_contexts(influence_of(phi))[1] == 30


@pytest.mark.parametrize("true_slope", [0.4, 1.0, 2.0])
def test_the_slope_of_two_categories_is_statsmodels(true_slope):
    rng = np.random.default_rng(2)
    p = expit(2 * rng.normal(size=800))
    votes = rng.integers(1, 4, size=800)
    share = rng.binomial(votes, expit(true_slope * logit(p) + 0.3)) / votes
    design = sm.add_constant(logit(p))
    twin = sm.GLM(share, design, family=sm.families.Binomial(), freq_weights=votes).fit(tol=1e-12).params[1]
    made = calibration_slope(np.column_stack([p, 1 - p]), cells_of(np.column_stack([share, 1 - share]), votes))
    assert made == pytest.approx(twin, abs=1e-4)
    assert made == pytest.approx(true_slope, abs=0.25)


@pytest.mark.parametrize("n_categories", [3, 5])
def test_the_slope_of_several_categories_is_scipys(n_categories):
    rng = np.random.default_rng(3)
    mu = rng.dirichlet(np.ones(n_categories), size=400)
    y = np.stack([rng.multinomial(1, p) for p in mu]).astype(float)

    def loss(theta):
        scores = theta[0] * np.log(mu) + np.append(theta[1:], 0.0)
        return float((logsumexp(scores, axis=1) - (y * scores).sum(axis=1)).sum())

    twin = minimize(loss, np.append(1.0, np.zeros(n_categories - 1)), method="BFGS").x[0]
    assert calibration_slope(mu, cells_of(y)) == pytest.approx(twin, abs=1e-3)


def test_extreme_predictions_have_a_small_slope_and_shrunken_ones_a_large_one():
    rng = np.random.default_rng(4)
    mu = rng.dirichlet(np.full(3, 2.0), size=3000)
    cells = cells_of(np.stack([rng.multinomial(1, p) for p in mu]).astype(float))
    right = calibration_slope(mu, cells)
    for power in (0.5, 2.0):
        bent = mu**power / (mu**power).sum(axis=1, keepdims=True)
        assert calibration_slope(bent, cells) == pytest.approx(right / power, rel=1e-3)
    assert right == pytest.approx(1, abs=0.1)
    order = [2, 0, 1]
    assert calibration_slope(mu[:, order], cells_of(cells.y[:, order])) == pytest.approx(right, rel=1e-4)


def test_there_is_no_slope_where_nothing_varies():
    assert np.isnan(calibration_slope(np.full((50, 3), 1 / 3), cells_of(np.eye(3)[np.arange(50) % 3])))


def test_probabilities_of_zero_have_a_finite_slope():
    rng = np.random.default_rng(5)
    mu = np.where(rng.random((60, 1)) < 0.5, [1.0, 0.0], [0.3, 0.7])
    assert np.isfinite(calibration_slope(mu, cells_of(np.eye(2)[rng.integers(2, size=60)])))


class Square:
    """The functional mu_0,1,0 squared: its second derivative is 2 everywhere."""

    interior = True

    def value(self, mu):
        return np.square(mu[:, 0, 1, :1])


def constant(p):
    table = np.zeros((2, 2, 2))
    table[0, 1], table[1, 0] = [p, 1 - p], [1 - p, p]
    return ConstantMu(table)


def test_the_second_order_term_of_a_square_is_minus_the_jackknifes_variance():
    fits = np.array([0.4, 0.45, 0.5, 0.52, 0.6])
    made = estimate_second_order_bias(Square(), [constant(p) for p in fits], np.zeros((3, 1)), 0.0).mean(axis=0)
    assert made == pytest.approx(-4 / 5 * np.square(fits - fits.mean()).sum())


def test_on_average_the_second_order_term_of_a_square_is_minus_the_variance_of_the_fit():
    rng = np.random.default_rng(6)
    n, n_folds, p = 200, 5, 0.4
    terms = []
    for _ in range(400):
        y = rng.random(n) < p
        folds = [1 - np.delete(y.reshape(n_folds, -1), f, axis=0).mean() for f in range(n_folds)]
        terms.append(estimate_second_order_bias(Square(), [constant(1 - q) for q in folds], np.zeros((1, 1)), 0.0)[0])
    assert np.mean(terms) == pytest.approx(-p * (1 - p) / n, rel=0.15)


def test_the_second_order_term_averages_over_contexts_and_is_small_where_models_agree(draw_mu):
    rng = np.random.default_rng(7)
    score = BradleyTerry(CategoryWeights.half(3))
    x = np.arange(6.0)[:, None]
    middle = draw_mu(rng, 6, 3, 3, floor=0.4)

    class Near:
        def __init__(self, distance):
            other = draw_mu(rng, 6, 3, 3, floor=0.4)
            self.mu = (1 - distance) * middle + distance * other

        def predict(self, x):
            return self.mu[x[:, 0].astype(int)]

    near = [Near(0.1) for _ in range(4)]
    whole = estimate_second_order_bias(score, near, x, 0.0)
    parts = [estimate_second_order_bias(score, near, x[i : i + 1], 0.0) for i in range(6)]
    np.testing.assert_allclose(whole, np.concatenate(parts), atol=1e-12)
    same = [near[0]] * 4
    np.testing.assert_allclose(estimate_second_order_bias(score, same, x, 0.0), 0, atol=1e-12)
    assert np.abs(whole).max() > 1e-6


def test_the_second_order_term_stays_finite_where_a_mirrored_model_would_leave_the_simplex():
    score = BradleyTerry(CategoryWeights.half(2))
    made = estimate_second_order_bias(score, [constant(p) for p in (0.01, 0.02, 0.3)], np.zeros((1, 1)), 0.0)
    assert np.isfinite(made).all()


def test_the_second_order_term_is_known_of_fitted_models_and_zero_of_linear_functionals():
    weights = CategoryWeights.half(2)
    fitted = CrossFittedMu((constant(0.6), constant(0.7)), Folds(np.arange(4) % 2, np.arange(4), 2), np.zeros((4, 1)))
    given = SuppliedMu(fitted.average(np.zeros((4, 1))))

    def of(score, source):
        return remaining_bias(score, source, np.arange(4), n_scores=2, floor=0.01, n_items=2).total

    assert np.isnan(of(BradleyTerry(weights), given)).all()
    np.testing.assert_array_equal(of(Borda(weights), given), 0)
    np.testing.assert_array_equal(of(Borda(weights), fitted), 0)
    expected = estimate_second_order_bias(BradleyTerry(weights), fitted.models, np.zeros((4, 1)), 0.01).mean(axis=0)
    np.testing.assert_array_equal(of(BradleyTerry(weights), fitted), expected)
    assert np.abs(expected).max() > 0


def test_without_features_the_second_order_term_needs_one_context(draw_mu):
    tables = draw_mu(np.random.default_rng(8), 3, 2, 2)
    folds = Folds(np.zeros(9, dtype=int), np.arange(9), 1)
    fitted = CrossFittedMu(tuple(ConstantMu(table) for table in tables), folds, np.empty((9, 0)))
    score = BradleyTerry(CategoryWeights.half(2))
    made = remaining_bias(score, fitted, np.arange(9), n_scores=2, floor=0.01, n_items=2).total
    expected = estimate_second_order_bias(score, fitted.models, np.empty((9, 0)), 0.01).mean(axis=0)
    np.testing.assert_allclose(made, expected, rtol=1e-12)
    assert np.abs(expected).max() > 0


def test_everything_is_assessed():
    rng = np.random.default_rng(10)
    phi, mu, bias = rng.normal(size=(80, 3)), rng.dirichlet(np.ones(3), size=80), np.array([0.1, 0.0, -0.1])
    cells = cells_of(np.eye(3)[rng.integers(3, size=80)])
    made = Validity.of(influence_of(phi), bias, HeldOutLabels.by_cell(mu, cells))
    np.testing.assert_array_equal(made.effective_contexts, effective_contexts(influence_of(phi)))
    np.testing.assert_array_equal(made.second_order, bias)
    assert made.calibration == calibration_slope(mu, cells)
    log_mu = np.log(mu) - np.log(mu).mean(axis=1, keepdims=True)
    assert made.log_mu_std == pytest.approx(np.sqrt(log_mu.var(axis=0).mean()))
    assert made.log_mu_std == log_spread(mu)
    assert made.recalibration_shift == pytest.approx((1 - max(made.calibration, 0)) * made.log_mu_std)


GOOD = {"effective_contexts": [300.0, 200.0], "second_order": [0.01, -0.01], "calibration": 1.0, "log_mu_std": 1.0}


def warnings_of(interior=True, **changes):
    parts = GOOD | changes
    validity = Validity(
        np.array(parts["effective_contexts"]),
        np.array(parts["second_order"]),
        parts["calibration"],
        parts["log_mu_std"],
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_about_intervals(validity, np.array([0.1, 0.1]), ["ada", "bob"], 1000, interior)
    assert all(issubclass(w.category, DmlrankWarning) for w in caught)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"effective_contexts": [50.0, 6.0]}, "standard error of 'bob': their effective number is 6 of 1,000"),
        (
            {"effective_contexts": [2.0, 6.0]},
            "functional='borda' depends least on such labels, and a larger floor= bounds their influence$",
        ),
        (
            {"effective_contexts": [2.0, 6.0], "interior": False},
            "leave pairs with few labels out [(]min_labels=[)] or let them count less",
        ),
        ({"second_order": [-0.08, 0.02]}, "biases 'ada' by an estimated -0.08, which is 0.8 standard errors"),
        ({"second_order": [np.nan, 0.08]}, "biases 'bob' by an estimated [+]0.08, which is 0.8 standard errors"),
        (
            {"second_order": [np.nan, 0.08]},
            "or average='preferences', the scores of mean preferences, ",
        ),
        ({"calibration": 0.4}, "too extreme: their calibration slope is 0.40"),
        ({"calibration": 2.5}, "too close to even: their calibration slope is 2.50"),
    ],
)
def test_every_sign_has_its_warning(changes, words):
    (text,) = warnings_of(**changes)
    assert text.startswith(DOUBTS)
    with pytest.warns(DmlrankWarning, match=words):
        warnings.warn(text, DmlrankWarning, stacklevel=1)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"second_order": [np.nan, np.nan]},
        {"calibration": np.nan, "log_mu_std": 0.0},
        {"calibration": 1.5},
        {"calibration": -0.9, "log_mu_std": 0.2},
        {"calibration": 2.0, "log_mu_std": 0.2},
    ],
)
def test_no_sign_no_warning(changes):
    assert warnings_of(**changes) == []


def simulated(battles, functional):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        return dr.dml_rank(
            "winner ~ x0 + x1 | model_a + model_b",
            battles,
            functional=functional,
            context="question_id",
            propensity="propensity",
            rng=0,
            n_jobs=1,
        )


def doubts(fit):
    return [text for text in fit.diagnostics.warnings if text.startswith(DOUBTS)]


def test_fits_warn_where_preferences_are_extreme_and_not_where_they_are_mild():
    mild = simulated(dr.datasets.Ties(coefficients=0).sample(1000, rng=0), "bt")
    assert doubts(mild) == []
    assert mild.diagnostics.second_order < 0.5
    assert mild.diagnostics.effective_contexts > 50
    assert 0.6 < mild.diagnostics.calibration < 1.6
    extreme = simulated(dr.datasets.Ties(coefficients=5, min_mass=0.0).sample(300, rng=0), "bt")
    assert doubts(extreme)
    assert all(text.startswith(DOUBTS) is False for text in extreme.update(functional="borda").diagnostics.warnings)


def test_the_plug_in_is_not_warned_of_for_its_intervals_are_known_not_to_hold():
    extreme = simulated(dr.datasets.Ties(coefficients=5, min_mass=0.0).sample(300, rng=0), "bt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        plugin = extreme.update(estimator="plugin")
    assert doubts(plugin) == []
    assert np.isfinite(plugin.diagnostics.calibration)


def test_terms_of_the_second_order_bias_that_are_known_are_not_computed_again():
    class Shifted:
        """A model whose probabilities follow the feature, and which notes at how many contexts it is evaluated."""

        def __init__(self, shift):
            self.shift, self.n_contexts = shift, 0

        def predict(self, x):
            self.n_contexts += len(x)
            p = 0.4 + self.shift + 0.02 * x[:, 0]
            mu = np.zeros((len(x), 2, 2, 2))
            mu[:, 0, 1], mu[:, 1, 0] = np.stack([p, 1 - p], axis=1), np.stack([1 - p, p], axis=1)
            return mu

    x, score = np.arange(6.0)[:, None], BradleyTerry(CategoryWeights.half(2))
    options = {"n_scores": 2, "floor": 0.01, "n_items": 2}
    models = (Shifted(0.0), Shifted(0.1))
    old = CrossFittedMu(models, Folds(np.arange(4) % 2, np.arange(4), 2), x[:4])
    known = remaining_bias(score, old, np.array([2, 0, 3, 1]), **options)
    # Two further contexts come before the others.
    larger = CrossFittedMu(models, Folds(np.arange(6) % 2, np.arange(6), 2), np.concatenate([x[4:], x[:4]]))
    order = np.array([4, 0, 2, 1, 5, 3])
    before = [model.n_contexts for model in models]
    bias = remaining_bias(score, larger, order, **options, known=known.renumbered(np.arange(2, 6)))
    assert [model.n_contexts for model in models] == [count + 2 for count in before]
    again = remaining_bias(score, larger, order, **options)
    np.testing.assert_allclose(bias.by_context, again.by_context, rtol=1e-12)
    np.testing.assert_allclose(bias.total, again.total, rtol=1e-12)
    assert np.abs(again.total).max() > 0
