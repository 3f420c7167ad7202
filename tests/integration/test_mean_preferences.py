"""Scores of mean preferences: their target, their equality with other computations, and every option beside them."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import IntervalWarning, OptionError
from dmlrank.fit.fit_covariance import warn_of_mean_preferences
from dmlrank.functionals import Custom
from dmlrank.options import in_objects

from ..support import COVARIANCES, by_prompt, draw_with_groups, fits_of, without_order

FORMULA = "winner ~ C(half) + x0 | model_a + model_b"
FUNCTIONALS = ["bt", "rank_centrality", "dominance", "softmin"]
pytestmark = pytest.mark.usefixtures("ignore_warnings")  # Small groups and few clusters are meant here


def log_ratio(mu):
    """Log of the ratio of the first two models' win shares, and the tie share of the first pair."""
    share = mu[..., 0] + mu[..., 2] / 2
    return np.stack([np.log(share[:, 0, 1:].sum(axis=1) / share[:, 1, [0, 2, 3]].sum(axis=1)), mu[:, 0, 1, 2]], axis=1)


@pytest.fixture(scope="module")
def battles(draw_battles):
    return draw_with_groups(draw_battles, seed=0, n=160, unlabelled=9)


@pytest.fixture(scope="module")
def fitted(battles, rank):
    return fits_of(battles, rank, FORMULA)


def one_step_mean(result, weight=None):
    """Mean of mu + S / pi (Y - mu) over the prompts, (K, K, C), label by label."""
    data, mu, pi = result.steps.data, result.steps.first.inputs.mu.mu, result.steps.first.propensity.cells
    weight = np.ones(len(mu)) if weight is None else weight
    weight = weight / weight.sum()
    mean = np.tensordot(weight / weight.sum(), mu, 1)
    for m, i in enumerate(data.cells.context):
        j, k = data.cells.first[m], data.cells.second[m]
        delta = weight[i] / pi[m] * (data.cells.y[m] - mu[i, j, k])
        mean[j, k] += delta
        if not data.ordered:
            mean[k, j] += delta[[1, 0, 2]]
    return mean


def second_order_bias(result, mean):
    """Half the trace of the Hessian of F times the variance of the means, pair by pair, (d,)."""
    data, mu, pi = result.steps.data, result.steps.first.inputs.mu.mu, result.steps.first.propensity.cells
    functional, step = result.steps.setup.functional, 1e-4
    moment = np.zeros((*mean.shape, mean.shape[-1]))
    for m, i in enumerate(data.cells.context):
        j, k = data.cells.first[m], data.cells.second[m]
        residual = (data.cells.y[m] - mu[i, j, k]) / pi[m] / len(mu)
        moment[j, k] += np.outer(residual, residual)
    total = 0.0
    for j, k in np.argwhere(moment.any(axis=(2, 3))):
        values, axes = np.linalg.eigh(moment[j, k])
        for value, axis in zip(values[1:], axes.T[1:], strict=True):
            delta = np.zeros_like(mean)
            delta[j, k] = step * axis
            second = functional.value((mean + delta)[None]) + functional.value((mean - delta)[None])
            total = total + value * (second - 2 * functional.value(mean[None]))[0] / step**2 / 2
    return total


@pytest.mark.parametrize("functional", [*FUNCTIONALS, Custom(log_ratio, outputs=("log ratio", "ties"))])
def test_estimate_and_error_are_written_out(fitted, functional):
    result = fitted(functional, average="preferences")
    bound, mean, step = result.steps.setup.functional, one_step_mean(result), 1e-6
    np.testing.assert_allclose(result.params, bound.value(mean[None])[0] - second_order_bias(result, mean), rtol=1e-3)
    np.testing.assert_allclose(result.steps.first.mean.floored.table, mean, atol=1e-12)
    np.testing.assert_allclose(
        result.estimates.plugin, bound.value(result.steps.first.inputs.mu.mu.mean(axis=0)[None])[0], rtol=1e-9
    )
    data, mu, pi = result.steps.data, result.steps.first.inputs.mu.mu, result.steps.first.propensity.cells
    change = mu - mean
    for m, i in enumerate(data.cells.context):
        j, k = data.cells.first[m], data.cells.second[m]
        change[i, j, k] += (data.cells.y[m] - mu[i, j, k]) / pi[m]
    # The influence of a prompt is how F changes where the prompt gets a little more weight.
    phi = (bound.value(mean + step * change) - bound.value(mean - step * change)) / (2 * step)
    np.testing.assert_allclose(result.influence, phi, rtol=1e-4, atol=1e-6 * np.abs(phi).max())
    if result.steps.unanimous is None:
        np.testing.assert_allclose(result.cov_params(), phi.T @ phi / len(phi) ** 2, rtol=1e-3, atol=1e-9)


def test_weights_are_those_of_the_target_population(battles, fitted):
    result = fitted("bt", average="preferences", **COVARIANCES["weighted"])
    mean = one_step_mean(result, by_prompt(battles.frame, "importance"))
    np.testing.assert_allclose(result.steps.first.mean.floored.table, mean, atol=1e-12)
    expected = result.steps.setup.functional.value(mean[None])[0] - result.steps.first.mean.bias
    np.testing.assert_allclose(result.params, expected, rtol=1e-9)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_a_linear_functional_has_one_average(fitted, kind):
    scores, preferences = (fitted("borda", average=name, **COVARIANCES[kind]) for name in ("scores", "preferences"))
    np.testing.assert_array_equal(preferences.params, scores.params)
    np.testing.assert_array_equal(preferences.cov_params(), scores.cov_params())
    assert preferences.by("~ x0").params.equals(scores.by("~ x0").params)


@pytest.mark.parametrize("functional", ["bt", "rank_centrality"])
def test_display_order_is_ignored_by_both_orders_of_a_pair(battles, rank, functional):
    options = {"mu": without_order(battles.mu), "propensity": "marginal", "position_bias": False}
    result = rank(battles.frame, FORMULA, functional=functional, average="preferences", **options)
    expected = result.steps.setup.functional.value(one_step_mean(result)[None])[0]
    np.testing.assert_allclose(result.params, expected - result.steps.first.mean.bias, rtol=1e-9)


def test_the_second_order_bias_is_subtracted_and_reported(battles, rank):
    options = {"functional": "bt", "average": "preferences", "mu": battles.mu, "propensity": "shown"}
    result = rank(battles.frame, FORMULA, **options)
    mean = result.steps.first.mean
    assert result.diagnostics.bias_subtracted == pytest.approx((np.abs(mean.bias) / result.bse).max())
    assert "standard errors was estimated and subtracted" in " ".join(result.explain().split())
    # Log-odds of noisy means are too far from zero.
    assert mean.bias @ result.params > 0
    for n_errors in (0.9, 1.1):
        target = mean._replace(bias=n_errors * result.bse.to_numpy() * np.array([0, 1, 0, 0]))
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warn_of_mean_preferences(target, result.bse.to_numpy(), result.models)
        assert [("'m1'" in str(warning.message)) for warning in given] == [True] * (n_errors > 1)


def test_a_pair_whose_labels_all_agree_gets_a_floor_that_depends_on_their_number(battles, rank):
    frame = battles.frame.copy()
    between = frame["model_a"].isin(["m0", "m1"]) & frame["model_b"].isin(["m0", "m1"])
    frame.loc[between, "winner"] = np.where(frame.loc[between, "model_a"] == "m0", "model_a", "model_b")
    options = {"functional": "bt", "average": "preferences", "propensity": "marginal", "position_bias": False}
    result = rank(frame, "winner ~ 1 | model_a + model_b", **options)
    table = result.steps.first.mean.floored.table
    n_labels = result.steps.data.pair_counts()[0, 1]
    floor = 0.5 / (n_labels + 1)
    assert table[0, 1, 1] == pytest.approx(floor / (1 + 2 * floor), rel=0.05)
    assert result.diagnostics.means_raised == 1
    assert "they were raised to a floor" in " ".join(result.explain().split())
    assert np.isfinite(result.bse).all()
    higher = result.update(floor=0.2)
    assert higher.params["m0"] < result.params["m0"]


def test_means_outside_of_the_simplex_are_set_to_its_border_with_a_warning(battles, rank):
    frame = battles.frame.assign(shown=0.02)
    wrong = np.clip(1 - battles.mu, 0.01, None)
    wrong[:, np.arange(4), np.arange(4)] = 0.0
    wrong /= np.where(wrong.sum(axis=-1, keepdims=True) > 0, wrong.sum(axis=-1, keepdims=True), 1.0)
    options = {"functional": "bt", "average": "preferences", "mu": wrong, "propensity": "shown", "rng": 0}
    with pytest.warns(IntervalWarning, match="mean preferences of .* pairs lie outside of 0 to 1"):
        result = dr.dml_rank(
            FORMULA, frame, **in_objects({"context": "prompt", "min_labels": 1, "n_jobs": 1, **options})
        )
    table = result.steps.first.mean.floored.table
    assert table.min() >= 0
    np.testing.assert_allclose(table.sum(axis=-1)[~np.eye(4, dtype=bool)], 1, rtol=1e-12)


def test_repetitions_add_what_other_folds_change(battles, rank):
    options = {"functional": "bt", "average": "preferences", "propensity": "marginal", "n_rep": 2, "n_folds": 3}
    result = rank(battles.frame, FORMULA, **options)
    estimates = [repetition.one_step_result.target.estimate for repetition in result.steps.repetitions]
    np.testing.assert_allclose(result.params, np.mean(estimates, axis=0), rtol=1e-12)
    assert np.abs(estimates[0] - estimates[1]).max() > 1e-6
    plugins = [repetition.mean.plugin for repetition in result.steps.repetitions]
    np.testing.assert_allclose(result.estimates.plugin, np.mean(plugins, axis=0), rtol=1e-12)


@pytest.mark.parametrize("functional", ["bt", "rank_centrality"])
def test_a_floor_of_zero_divides_by_no_zero(rank, functional):
    """numpy's warnings are errors here; models and themselves have probabilities of zero."""
    rng = np.random.default_rng(0)
    votes = pd.DataFrame({"winner": rng.choice(["model_a", "model_b"], size=60)}).assign(model_a="m0", model_b="m1")
    votes.loc[::2, ["model_a", "model_b"]] = ["m1", "m2"]
    votes["prompt"] = np.arange(60)
    results = rank(votes, functional=functional, average="preferences", floor=0, propensity="marginal")
    assert np.isfinite(results.params).all()


def test_predictions_are_scores_of_prompts(fitted):
    preferences, scores = fitted("bt", average="preferences"), fitted("bt")
    np.testing.assert_allclose(preferences.predict(), scores.predict(), rtol=1e-12)
    assert preferences.predict().index.equals(scores.predict().index)


def test_projections_of_mean_preferences_are_refused(fitted):
    with pytest.raises(OptionError, match="preferences"):
        fitted("bt", average="preferences").by("~ x0")
