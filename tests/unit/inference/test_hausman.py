"""The test of a difference of two estimates, and what labels without variation hide of its variance."""

import numpy as np
import pytest
from scipy.stats import chi2

from dmlrank.inference.covariance import Covariance
from dmlrank.inference.wald import wald_test_of_difference

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


def difference_test(unanimous_covariance, null=None):
    return wald_test_of_difference(
        RESTRICTED,
        FREE,
        covariance=SMALL,
        difference=SMALL,
        null=null,
        rng=np.random.default_rng(0),
        unanimous_covariance=unanimous_covariance,
    )


def test_variance_added_for_unanimous_pairs_counts_in_chi_squared_and_in_the_standard_errors():
    without, tested = difference_test(None), difference_test(UNIFORM_COVARIANCE)
    assert without.statistic == pytest.approx(GAP @ GAP / 1e-4)
    assert tested.statistic == pytest.approx(GAP @ GAP / 0.2501)
    assert tested.pvalue == pytest.approx(chi2.sf(tested.statistic, 2))
    assert tested.n_draws == 0
    np.testing.assert_allclose(tested.std_errors**2, without.std_errors**2 + np.diag(UNIFORM_COVARIANCE))
    np.testing.assert_allclose(tested.z, GAP / tested.std_errors)


def test_samples_from_the_model_lack_the_same_variance():
    without, tested = (
        difference_test(None, Samples().statistics),
        difference_test(UNIFORM_COVARIANCE, Samples().statistics),
    )
    assert tested.statistic == without.statistic
    assert tested.pvalue == without.pvalue == 2 / 3
    assert (tested.std_errors > 10 * without.std_errors).all()


def test_variance_added_for_unanimous_pairs_adds_no_direction():
    one = BASIS[:, :1]
    narrow = Covariance(1e-4 * one @ one.T, BASIS)
    tested = wald_test_of_difference(
        RESTRICTED,
        FREE,
        covariance=SMALL,
        difference=narrow,
        null=None,
        rng=np.random.default_rng(0),
        unanimous_covariance=UNIFORM_COVARIANCE,
    )
    assert tested.df == 1
    assert tested.statistic == pytest.approx((one[:, 0] @ GAP) ** 2 / 0.2501)
