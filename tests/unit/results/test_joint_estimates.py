"""Joint estimates are tested by the names of their blocks, with the structural rank and enough clusters."""

import numpy as np
import pandas as pd
import pytest

from dmlrank.exceptions import HypothesisError
from dmlrank.inference.covariance import Covariance
from dmlrank.results.groups import equality_test
from dmlrank.results.joint_estimates import JointEstimates, JointResults


def joint(n_clusters=()):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    return JointEstimates(
        estimate=rng.normal(size=4),
        covariance=Covariance(root @ root.T, np.eye(4), n_clusters),
        names=["x: a", "x: b", "y: a", "y: b"],
        reason="nothing is fixed",
        index=pd.MultiIndex.from_product([["x", "y"], ["a", "b"]], names=["group", "model"]),
        alpha=0.1,
    )


class Together(JointResults):
    """Results that have nothing but joint estimates."""

    def __init__(self, estimates):
        self.joint = estimates


def test_joint_estimates_are_tested_by_the_names_of_blocks():
    together = joint()
    test = Together(together).t_test("x: a - y: a")
    row = np.array([1.0, 0.0, -1.0, 0.0])
    assert test.effect.item() == pytest.approx(row @ together.estimate)
    assert test.sd.item() == pytest.approx(np.sqrt(row @ together.covariance.matrix @ row))
    limits = Together(together).conf_int(method="none")
    width = (limits["upper"] - limits["lower"]).to_numpy() / together.covariance.std_errors
    np.testing.assert_allclose(width, 2 * 1.6448536)


def test_more_restrictions_than_clusters_are_refused():
    with pytest.raises(HypothesisError):
        Together(joint((2,))).wald_test("x: a = y: a, x: b = y: b")


def test_equal_means_are_tested_as_by_hand():
    together = joint()
    statistic, df, p = equality_test(together.estimate, together.covariance.matrix)
    by_hand = Together(together).wald_test("x: a = x: b = y: a = y: b")
    assert df == 3
    assert statistic == pytest.approx(float(by_hand.statistic))
    assert p == pytest.approx(float(by_hand.pvalue))
