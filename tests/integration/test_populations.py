"""Weighted populations, fixed prompts and repetitions: against what they mean."""

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


@pytest.mark.parametrize("weights", [np.ones(7), np.full(120, np.nan), -np.ones(120), np.zeros(120), "x9"])
def test_weights_that_make_no_sense_are_refused(battles, rank, weights):
    with pytest.raises(dr.DmlrankError):
        known(battles, rank, weights=weights)


def test_fixed_prompts_leave_the_uncertainty_of_the_labels(battles, rank):
    fixed, random = (known(battles, rank, functional="bt", prompts=prompts) for prompts in ("fixed", "random"))
    np.testing.assert_array_equal(fixed.params, random.params)
    correction = random.steps.influence.correction_by_context
    centred = correction - correction.mean(axis=0)
    np.testing.assert_allclose(fixed.cov_params(), corrected(centred, random), rtol=1e-9, atol=1e-15)
    assert "these prompts only" in " ".join(fixed.summary().as_text().split())
    np.testing.assert_array_equal(fixed.predict(), random.predict())


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


def test_more_repetitions_train_only_the_new_ones(battles, rank, monkeypatch):
    fit = rank(battles.frame, FORMULA, propensity="marginal", tune=QUICK)
    import lightgbm

    # LightGBM's trial of the caller's parameters is no training.
    trained, train = [], lightgbm.train
    monkeypatch.setattr(lightgbm, "train", lambda *a, **k: trained.append(1) or train(*a, **k))
    fit.update(n_rep=2)
    assert len(trained) == 5
