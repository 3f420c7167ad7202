"""Critical values against quantiles that are known or can be integrated."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dmlrank.exceptions import OptionError
from dmlrank.inference.covariance import Covariance, free_basis
from dmlrank.inference.simultaneous import Family, MaxT

# Three standard errors of a quantile from 100,000 draws are about 0.02 at these levels.
TOLERANCE = 0.025
ALPHAS = [0.01, 0.05, 0.2]


def sidak(d, alpha):
    return norm.ppf((1 + (1 - alpha) ** (1 / d)) / 2)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_two_scores_that_add_up_are_one(alpha):
    basis = free_basis(np.ones((1, 2)) / np.sqrt(2), 2)
    covariance = Covariance(0.3 * np.array([[1.0, -1.0], [-1.0, 1.0]]), basis)
    assert MaxT(covariance).critical(alpha) == pytest.approx(norm.ppf(1 - alpha / 2), rel=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("d", [2, 3, 10])
def test_independent_scores(d, alpha):
    covariance = Covariance(np.diag(10.0 ** np.arange(d)), np.eye(d))
    assert MaxT(covariance).critical(alpha) == pytest.approx(sidak(d, alpha), abs=TOLERANCE)


def test_scores_that_add_up_are_fewer_than_they_seem():
    d = 3
    basis = free_basis(np.ones((1, d)) / np.sqrt(d), d)
    covariance = Covariance(basis @ basis.T, basis)
    angle = np.linspace(0, 2 * np.pi, 20_001)[:-1]
    reach = np.abs(np.stack([np.cos(angle + turn) for turn in (0, 2 * np.pi / 3, 4 * np.pi / 3)])).max(axis=0)

    def inside(c):
        return np.mean(1 - np.exp(-((c / reach) ** 2) / 2))

    exact = brentq(lambda c: inside(c) - 0.95, 1, 5)
    assert MaxT(covariance).critical(0.05) == pytest.approx(exact, abs=TOLERANCE)
    assert exact < sidak(3, 0.05) - 0.02


def test_fixed_scores_take_no_part():
    free = Covariance(np.diag([1.0, 2.0]), np.eye(2))
    more = Covariance(np.diag([1.0, 0.0, 2.0, 0.0]), np.eye(4)[:, [0, 2]])
    for method in ("max-t", "bonferroni", "none"):
        assert MaxT(more).critical(0.05, method) == MaxT(free).critical(0.05, method)
    single = Covariance(np.diag([0.0, 2.0]), np.eye(2)[:, [1]])
    assert MaxT(single).critical(0.05) == pytest.approx(norm.ppf(0.975))


def test_bonferroni_and_pointwise():
    covariance = Covariance(np.eye(4) + 1, np.eye(4))
    assert MaxT(covariance).critical(0.1, "bonferroni") == pytest.approx(norm.ppf(1 - 0.1 / 8))
    assert MaxT(covariance).critical(0.1, "none") == pytest.approx(norm.ppf(0.95))


@pytest.mark.parametrize("alpha", [1e-4, 1e-5, 1e-7, 1e-9, 1e-15, 1e-30])
def test_where_draws_run_out_values_lie_between_pointwise_and_bonferroni(alpha):
    root = np.random.default_rng(0).normal(size=(5, 5))
    covariance = Covariance(root @ root.T, np.eye(5))
    single, joint, bound = (MaxT(covariance).critical(alpha, method) for method in ("none", "max-t", "bonferroni"))
    assert single < joint <= bound < np.inf
    assert single == pytest.approx(norm.isf(alpha / 2))
    assert Family.of_contrasts(covariance, np.eye(5)).critical(alpha) == pytest.approx(joint, rel=1e-12)


def test_adjusted_p_values_are_below_alpha_exactly_beyond_the_critical_value():
    root = np.random.default_rng(2).normal(size=(4, 4))
    covariance = Covariance(root @ root.T, np.eye(4))
    for alpha in (0.7, 0.3, 0.05, 0.013, 1e-3, 1.5e-4, 1e-5, 1e-9):
        critical = MaxT(covariance).critical(alpha)
        z = critical * np.array([1 - 1e-5, -(1 - 1e-5), 1 + 1e-5, -(1 + 1e-5)])
        np.testing.assert_array_equal(
            MaxT(covariance).adjusted_p_values(z, centred=False) < alpha, [False, False, True, True]
        )


def test_adjusted_p_values_of_independent_scores_are_sidaks_and_what_is_fixed_takes_no_part():
    covariance = Covariance(np.diag([1.0, 4.0, 0.0, 9.0]), np.eye(4)[:, [0, 1, 3]])
    z = np.array([2.0, -2.5, np.nan, 0.5])
    expected = 1 - (1 - 2 * norm.sf(np.abs(z))) ** 3
    np.testing.assert_allclose(MaxT(covariance).adjusted_p_values(z, centred=False), expected, atol=4e-3)


def test_unknown_methods_are_refused():
    with pytest.raises(OptionError, match="bonferroni"):
        MaxT(Covariance(np.eye(2), np.eye(2))).critical(0.05, "bonferoni")
