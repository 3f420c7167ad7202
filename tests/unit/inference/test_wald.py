"""z and Wald tests against statsmodels where every score is free, and with the structural rank where not."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.linalg import null_space
from scipy.stats import chi2, norm

from dmlrank.data.hypotheses import LinearHypothesis
from dmlrank.exceptions import HypothesisError
from dmlrank.inference.covariance import Covariance, free_basis
from dmlrank.inference.wald import NamedEstimates, wald_test, wald_test_of_difference, z_tests
from dmlrank.results.score_tests import ZTestResults

NAMES = ["a", "b", "c", "d"]
REASON = "scores sum to 1"


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    return sm.OLS(x @ [0.5, 0.2, 0.1, 0.0] + rng.normal(size=60), x).fit(use_t=False)


@pytest.fixture
def summed():
    rng = np.random.default_rng(1)
    basis = free_basis(np.ones((1, 4)) / 2, 4)
    root = basis @ rng.normal(size=(3, 3)) * 0.05
    return np.array([0.4, 0.3, 0.2, 0.1]), Covariance(root @ root.T, basis)


def answer(test, estimate, covariance, matrix, value=None, labels=None):
    matrix = np.atleast_2d(np.asarray(matrix, dtype=float))
    value = np.zeros(len(matrix)) if value is None else np.asarray(value, dtype=float)
    labels = labels or [f"row {place}" for place in range(len(matrix))]
    hypothesis = LinearHypothesis(matrix, value, tuple(labels))
    return test(NamedEstimates(estimate, covariance, NAMES, REASON), hypothesis)


def t_test(estimates, hypothesis):
    return z_tests(ZTestResults, estimates, hypothesis)


def free_of(regression):
    return regression.params, Covariance(regression.cov_params(), np.eye(4))


@pytest.mark.parametrize(
    ("matrix", "value"), [(np.eye(4)[:2], [0, 0.1]), (np.eye(4), np.zeros(4)), ([[1, -1, 0, 0], [0, 1, -2, 1]], [0, 1])]
)
def test_against_statsmodels(regression, matrix, value):
    outside = regression.wald_test((np.asarray(matrix, dtype=float), value), use_f=False, scalar=True)
    inside = answer(wald_test, *free_of(regression), matrix, value)
    assert inside.statistic == pytest.approx(outside.statistic, rel=1e-10)
    assert inside.pvalue == pytest.approx(outside.pvalue, rel=1e-8)
    assert inside.df_denom == len(matrix)
    single, outside = answer(t_test, *free_of(regression), matrix, value), regression.t_test((matrix, value))
    for name in ("effect", "sd", "statistic", "pvalue"):
        np.testing.assert_allclose(np.squeeze(getattr(single, name)), np.squeeze(getattr(outside, name)), rtol=1e-10)
    np.testing.assert_allclose(single.conf_int(), outside.conf_int(), rtol=1e-10)


def test_by_hand(summed):
    estimate, covariance = summed
    row = np.array([1.0, -1.0, 0.0, 0.0])
    made = answer(t_test, estimate, covariance, row, [0.05], ["a - b"])
    error = np.sqrt(row @ covariance.matrix @ row)
    assert made.statistic.item() == pytest.approx(0.05 / error)
    assert made.pvalue.item() == pytest.approx(2 * norm.sf(0.05 / error))
    assert made.summary_frame().index.tolist() == ["a - b = 0.05"]


def test_redundant_rows_do_not_count(summed):
    estimate, covariance = summed
    rows = [[1, -1, 0, 0], [0, 1, -1, 0], [1, 0, -1, 0], [3, -3, 0, 0]]
    few, many = (answer(wald_test, estimate, covariance, part) for part in (rows[:2], rows))
    assert (few.df_denom, many.df_denom) == (2, 2)
    assert many.statistic == pytest.approx(few.statistic, rel=1e-8)


def test_all_equal_has_the_rank_of_what_is_free(summed):
    estimate, covariance = summed
    made = answer(wald_test, estimate, covariance, np.eye(4), [0.25] * 4)
    frame = null_space(np.ones((1, 4)))
    away = (estimate - 0.25) @ frame
    expected = away @ np.linalg.solve(frame.T @ covariance.matrix @ frame, away)
    assert made.df_denom == 3
    assert made.statistic == pytest.approx(expected, rel=1e-8)
    assert made.pvalue == pytest.approx(chi2.sf(expected, 3), rel=1e-6)


def test_rounding_in_a_fixed_direction_does_not_raise_the_rank(summed):
    estimate, covariance = summed
    noisy = Covariance(covariance.matrix + 5e-16, covariance.basis)
    assert answer(wald_test, estimate, noisy, np.eye(4), [0.25] * 4).df_denom == 3


@pytest.mark.parametrize(
    ("matrix", "value"),
    [
        ([[1, -1, 0, 0], [1, -1, 0, 0]], [0, 0.1]),
        (np.eye(4), [0.3, 0.3, 0.3, 0.3]),
        ([[1, -1, 0, 0], [0, 1, -1, 0], [1, 0, -1, 0]], [0, 0, 1]),
    ],
)
def test_contradictory_rows_are_refused(summed, matrix, value):
    with pytest.raises(HypothesisError):
        answer(wald_test, *summed, matrix, value)


def test_constants_are_refused_with_the_reason(summed):
    with pytest.raises(HypothesisError, match="total"):
        answer(t_test, *summed, [[1, -1, 0, 0], [1, 1, 1, 1]], labels=["fine", "total"])
    with pytest.raises(HypothesisError):
        answer(wald_test, *summed, [2, 2, 2, 2])


def test_what_does_not_vary_is_refused():
    covariance = Covariance(np.diag([1.0, 0.0, 1.0, 1.0]), np.eye(4))
    with pytest.raises(HypothesisError):
        answer(t_test, np.zeros(4), covariance, [0, 1, 0, 0])
    with pytest.raises(HypothesisError):
        answer(wald_test, np.zeros(4), covariance, np.eye(4)[:2])


def test_more_restrictions_than_clusters_allow_are_refused(summed):
    estimate, covariance = summed
    few = replace(covariance, n_clusters=(40, 2))
    with pytest.raises(HypothesisError, match="2 effective clusters"):
        answer(wald_test, estimate, few, np.eye(4)[:2] - np.eye(4)[1:3])
    assert answer(wald_test, estimate, few, [1, -1, 0, 0]).df_denom == 1


FREE = np.array([1.0, 0.2, -1.2])
RESTRICTED = np.array([0.7, 0.3, -1.0])
GAP = FREE - RESTRICTED
BASIS = np.linalg.qr(np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, -2.0]]))[0]
SMALL = Covariance(1e-4 * BASIS @ BASIS.T, BASIS)
UNIFORM_COVARIANCE = 0.25 * BASIS @ BASIS.T


class Samples:
    """A null distribution whose statistics are given."""

    def statistics(self, directions, rng):
        return np.array([1.0, 1e6])


def difference_test(unanimous_covariance, null=None, difference=SMALL):
    given = {"covariance": SMALL, "difference": difference, "null": null, "rng": np.random.default_rng(0)}
    return wald_test_of_difference(RESTRICTED, FREE, unanimous_covariance=unanimous_covariance, **given)


def test_variance_added_for_unanimous_pairs_counts_in_chi_squared_and_in_the_standard_errors():
    without, tested = difference_test(None), difference_test(UNIFORM_COVARIANCE)
    assert without.statistic == pytest.approx(GAP @ GAP / 1e-4)
    assert tested.statistic == pytest.approx(GAP @ GAP / 0.2501)
    assert tested.pvalue == pytest.approx(chi2.sf(tested.statistic, 2))
    assert tested.n_draws == 0
    np.testing.assert_allclose(tested.std_errors**2, without.std_errors**2 + np.diag(UNIFORM_COVARIANCE))


def test_samples_from_the_model_lack_the_same_variance():
    without, tested = (difference_test(added, Samples().statistics) for added in (None, UNIFORM_COVARIANCE))
    assert tested.statistic == without.statistic
    assert tested.pvalue == without.pvalue == 2 / 3
    assert (tested.std_errors > 10 * without.std_errors).all()


def test_variance_added_for_unanimous_pairs_adds_no_direction():
    one = BASIS[:, :1]
    narrow = Covariance(1e-4 * one @ one.T, BASIS)
    tested = difference_test(UNIFORM_COVARIANCE, difference=narrow)
    assert tested.df == 1
    assert tested.statistic == pytest.approx((one[:, 0] @ GAP) ** 2 / 0.2501)
