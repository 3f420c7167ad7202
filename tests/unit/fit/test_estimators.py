"""Estimators are objects: they say what they assume, and nobody asks for one by its name."""

import numpy as np
import pytest

from dmlrank.fit.estimators import BT_MLE, estimator_named
from dmlrank.functionals import BradleyTerry
from dmlrank.options import ESTIMATORS


def test_every_estimator_has_an_object():
    assert [estimator_named(name).name for name in ESTIMATORS] == list(ESTIMATORS)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("asked", ["borda", "softmin", "bt", BradleyTerry(), np.sum])
def test_an_estimator_that_assumes_a_model_has_its_scores_whatever_an_earlier_fit_was_asked_for(name, asked):
    """What the user asks for beside it is refused before."""
    estimator = estimator_named(name)
    means_other = estimator.assumes_bradley_terry and not isinstance(asked, BradleyTerry)
    assert estimator.functional(asked) == ("bt" if means_other else asked)


def test_only_the_plug_in_leaves_the_correction_out():
    assert [estimator_named(name).is_debiased for name in ESTIMATORS] == [True, False, True, True, True]
    assert [not estimator_named(name).why_no_intervals for name in ESTIMATORS] == [True, False, True, True, True]
    assert not BT_MLE.has_first_stages
