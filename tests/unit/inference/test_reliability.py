"""Calibration by bins: the bins hold as many votes, and the intervals are those of statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from dmlrank.plotting.diagnostic_charts import reliability_curve, wilson_interval


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_intervals_are_those_of_statsmodels(alpha):
    n = np.array([1.0, 7.0, 40.0, 1000.0])
    for successes in (np.zeros(4), n, np.floor(n / 3)):
        low, high = wilson_interval(successes / n, n, alpha)
        expected = proportion_confint(successes, n, alpha, method="wilson")
        np.testing.assert_allclose([low, high], np.clip(expected, 0, 1), atol=1e-12)
        assert (low <= successes / n).all()
        assert (high >= successes / n).all()


def test_bins_hold_equal_numbers_of_votes_and_their_means():
    rng = np.random.default_rng(0)
    fitted, labels, votes = rng.random(4000), rng.random(4000), rng.integers(1, 5, size=4000)
    curve = reliability_curve("win", fitted, labels, votes, alpha=0.05, n_bins=5)
    order = np.argsort(fitted)
    share = (np.cumsum(votes[order]) - votes[order] / 2) / votes.sum()
    parts = [order[(share >= i / 5) & (share < (i + 1) / 5)] for i in range(5)]
    for got, numbers in ((curve.fitted, fitted), (curve.observed, labels)):
        np.testing.assert_allclose(got, [np.average(numbers[part], weights=votes[part]) for part in parts])
    low, high = wilson_interval(curve.observed, np.array([votes[part].sum() for part in parts], float), 0.05)
    np.testing.assert_array_equal([curve.low, curve.high], [low, high])


def test_equal_probabilities_are_never_in_two_bins():
    fitted = np.repeat([0.1, 0.5, 0.9], [10, 80, 10])
    curve = reliability_curve("win", fitted, np.zeros(100), np.ones(100, dtype=int), alpha=0.05, n_bins=4)
    np.testing.assert_allclose(curve.fitted, [0.1, 0.5, 0.9])
