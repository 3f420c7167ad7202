"""Calibration by bins: the bins hold as many votes, and the intervals are those of statsmodels."""

import numpy as np
from statsmodels.stats.proportion import proportion_confint

from dmlrank.plotting.diagnostic_charts import reliability_curve


def test_bins_hold_equal_numbers_of_votes_and_their_means():
    rng = np.random.default_rng(0)
    fitted, labels, votes = rng.random(4000), rng.random(4000), rng.integers(1, 5, size=4000)
    curve = reliability_curve(fitted, labels, votes, alpha=0.05, n_bins=5)
    order = np.argsort(fitted)
    share = (np.cumsum(votes[order]) - votes[order] / 2) / votes.sum()
    parts = [order[(share >= i / 5) & (share < (i + 1) / 5)] for i in range(5)]
    for got, numbers in ((curve.fitted, fitted), (curve.observed, labels)):
        np.testing.assert_allclose(got, [np.average(numbers[part], weights=votes[part]) for part in parts])
    n_votes = np.array([votes[part].sum() for part in parts], float)
    expected = proportion_confint(curve.observed * n_votes, n_votes, method="wilson")
    np.testing.assert_allclose([curve.low, curve.high], expected)


def test_limits_do_not_pass_the_share_where_all_labels_agree():
    for label in (0.0, 1.0):
        curve = reliability_curve(np.linspace(0.1, 0.9, 70), np.full(70, label), np.ones(70, dtype=int), alpha=0.05)
        assert (curve.low <= curve.observed).all()
        assert (curve.high >= curve.observed).all()


def test_equal_probabilities_are_never_in_two_bins():
    fitted = np.repeat([0.1, 0.5, 0.9], [10, 80, 10])
    curve = reliability_curve(fitted, np.zeros(100), np.ones(100, dtype=int), alpha=0.05, n_bins=4)
    np.testing.assert_allclose(curve.fitted, [0.1, 0.5, 0.9])
