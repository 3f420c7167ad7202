"""Weighted populations, fixed prompts and repetitions: against what they mean."""

from __future__ import annotations

import numpy as np
import pytest

import dmlrank as dr
from dmlrank.inference.covariance import Covariance

FORMULA = "winner ~ x0 + x1 | model_a + model_b"
QUICK = {"n_estimators": 30, "extra_trees": True, "num_leaves": 6}


@pytest.fixture(scope="module")
def battles(draw_battles):
    return draw_battles(np.random.default_rng(0), 120, n_pairs=3, unlabelled=15)


def known(battles, rank, **options):
    return rank(battles.frame, mu=battles.mu, propensity=battles.propensity, floor=0, **options)


def corrected(phi, fit):
    """The covariance of ``phi``, at least the one with the variance correction that mu's shrinkage asks for."""
    plain = Covariance(phi.T @ phi / len(phi) ** 2, fit.estimates.covariance.basis)
    variance_correction = fit.steps.influence.variance_correction
    return (
        plain if variance_correction is None else plain.with_variance_correction(variance_correction / len(phi))
    ).matrix


def order_of(battles):
    return battles.frame["prompt"].unique()


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality"])
def test_whole_weights_repeat_prompts(battles, rank, functional):
    weights = np.random.default_rng(1).integers(1, 4, size=120)
    weighted = known(battles, rank, functional=functional, weights=weights)
    plain = known(battles, rank, functional=functional)
    raw = plain.influence + plain.params.to_numpy()
    repeated = np.repeat(raw, weights, axis=0)
    np.testing.assert_allclose(weighted.params, repeated.mean(axis=0))
    phi = weights[:, None] / weights.mean() * (raw - repeated.mean(axis=0))
    np.testing.assert_allclose(weighted.cov_params(), corrected(phi, weighted), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(weighted.influence, phi, atol=1e-12)


def test_a_column_of_weights_is_an_array_of_weights(battles, rank):
    weight = dict(zip(order_of(battles), np.random.default_rng(2).uniform(0.5, 2, size=120), strict=True))
    frame = battles.frame.assign(share=battles.frame["prompt"].map(weight))
    options = {"mu": battles.mu, "propensity": battles.propensity}
    column, array = rank(frame, weights="share", **options), rank(frame, weights=list(weight.values()), **options)
    np.testing.assert_array_equal(column.params, array.params)
    assert "weighted" in column.summary().as_text()


def test_equal_weights_change_nothing_and_zero_weights_leave_prompts_out_of_the_mean(battles, rank):
    plain = known(battles, rank, functional="bt")
    np.testing.assert_allclose(known(battles, rank, functional="bt", weights=np.full(120, 7.0)).bse, plain.bse)
    half = np.arange(120) < 60
    raw = plain.influence + plain.params.to_numpy()
    np.testing.assert_allclose(known(battles, rank, functional="bt", weights=half).params, raw[half].mean(axis=0))


@pytest.mark.parametrize("weights", [np.ones(7), np.full(120, np.nan), -np.ones(120), np.zeros(120), "x9"])
def test_weights_that_make_no_sense_are_refused(battles, rank, weights):
    with pytest.raises(dr.DmlrankError):
        known(battles, rank, weights=weights)


def test_weights_that_vary_within_a_prompt_are_refused(battles, rank):
    frame = battles.frame.assign(share=np.arange(1.0, len(battles.frame) + 1))
    with pytest.raises(dr.DmlrankError):
        rank(frame, weights="share")


def test_fixed_prompts_leave_the_uncertainty_of_the_labels(battles, rank):
    fixed, random = (known(battles, rank, functional="bt", prompts=prompts) for prompts in ("fixed", "random"))
    np.testing.assert_array_equal(fixed.params, random.params)
    correction = random.steps.influence.correction_by_context
    centred = correction - correction.mean(axis=0)
    np.testing.assert_allclose(fixed.cov_params(), corrected(centred, random), rtol=1e-9, atol=1e-15)
    assert "these prompts only" in " ".join(fixed.summary().as_text().split())
    np.testing.assert_array_equal(fixed.predict(), random.predict())


@pytest.mark.long
def test_intervals_for_fixed_prompts_cover_the_mean_over_these_prompts(rank, draw_mu, draw_battles):
    rng = np.random.default_rng(3)
    mu = draw_mu(rng, 150, 3, 2, floor=0.2)
    covered = []
    for seed in range(50):
        drawn = draw_battles(np.random.default_rng(seed), 150, n_items=3, n_categories=2, mu=mu, n_pairs=6)
        known_pi = np.ones((150, 3, 3))
        fit = rank(drawn.frame, mu=mu * 0 + 0.5 * (mu > 0), propensity=known_pi, prompts="fixed")
        target = known_truth(mu)
        limits = fit.conf_int(method="none")
        covered.append(((limits["lower"] <= target) & (target <= limits["upper"])).to_numpy())
    assert 0.9 < np.mean(covered) < 0.99


def known_truth(mu):
    return dr.functionals.Borda(dr.CategoryWeights.half(mu.shape[-1])).value(mu).mean(axis=0)


def test_repetitions_average_influence_values_and_add_what_folds_change(battles, rank):
    options = {"functional": "bt", "propensity": "marginal", "tune": QUICK, "second_order": False}
    fit = rank(battles.frame, FORMULA, n_rep=3, **options)
    ones = [r.one_step_result.target for r in fit.steps.repetitions]
    estimates = np.array([one.estimate for one in ones])
    assert np.ptp(estimates, axis=0).min() > 0
    np.testing.assert_allclose(fit.params, estimates.mean(axis=0))
    phi = np.mean([one.centred for one in ones], axis=0)
    expected = corrected(phi, fit) + np.cov(estimates.T) / 3
    np.testing.assert_allclose(fit.cov_params(), expected, rtol=1e-8, atol=1e-14)


def test_the_first_repetition_is_the_fit_without_repetitions(battles, rank):
    options = {"propensity": "marginal", "tune": QUICK}
    one, two = (rank(battles.frame, FORMULA, n_rep=n, **options) for n in (1, 2))
    np.testing.assert_array_equal(two.steps.repetitions[0].one_step_result.target.estimate, one.params)


def test_more_repetitions_train_only_the_new_ones(battles, rank, monkeypatch):
    fit = rank(battles.frame, FORMULA, propensity="marginal", tune=QUICK)
    import lightgbm

    # LightGBM's trial of the caller's parameters is no training.
    trained, train = [], lightgbm.train
    monkeypatch.setattr(lightgbm, "train", lambda *a, **k: trained.append(1) or train(*a, **k))
    fit.update(n_rep=2)
    assert len(trained) == 5
