"""Intervals for a win share: the delta method on the logit scale, and what happens at the ends."""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm

from dmlrank.inference.covariance import Covariance
from dmlrank.results.score_tests import win_probability


def share(estimate, std_error, alpha=0.05):
    return win_probability("a", "b", estimate, Covariance(np.array([[std_error**2]]), np.eye(1)), alpha)


@pytest.mark.parametrize("estimate", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("alpha", [0.01, 0.1])
def test_the_delta_method_with_a_numerical_derivative(estimate, alpha):
    made = share(estimate, 0.03, alpha)
    slope = (logit(estimate + 1e-6) - logit(estimate - 1e-6)) / 2e-6
    reach = norm.ppf(1 - alpha / 2) * 0.03 * slope
    assert made.conf_low == pytest.approx(expit(logit(estimate) - reach), rel=1e-6)
    assert made.conf_high == pytest.approx(expit(logit(estimate) + reach), rel=1e-6)
    assert (made.estimate, made.std_error) == pytest.approx((estimate, 0.03))


@pytest.mark.parametrize("estimate", [-0.01, 0.0, 1.0, 1.02])
def test_a_share_outside_the_unit_interval_is_clipped_on_its_own_scale(estimate):
    made = share(estimate, 0.03)
    inside = np.clip(estimate, 0, 1)
    # The distance to the limit is error, too.
    reach = 1.959964 * np.hypot(0.03, estimate - inside)
    low, high = np.clip([inside - reach, inside + reach], 0, 1)
    assert made.estimate == inside
    assert (made.conf_low, made.conf_high) == pytest.approx((low, high), abs=1e-6)


def test_in_words():
    assert str(share(0.9, 0.05, 0.1)).startswith("a wins 0.900 against b (90 %: ")
