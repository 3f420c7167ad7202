"""Estimands and results of the one-step estimator have names and no places."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dmlrank.data.preferences import Cells
from dmlrank.estimation.cross_fitting import HeldOutLabels
from dmlrank.estimation.influence import Estimands, Influence, OneStepResult, TargetPopulation
from dmlrank.functionals import Borda, BradleyTerry


def test_estimands_are_asked_for_by_name_and_the_target_comes_first():
    target, other = BradleyTerry(), Borda()
    asked = Estimands(projection=other, target=target).scores()
    assert list(asked) == ["target", "projection"]
    assert asked["projection"] is other


def test_a_result_is_built_and_read_by_name_only():
    phi = Influence(np.ones((3, 1)), np.zeros((3, 1)), np.arange(3), np.ones(3), np.ones(3))
    mu, none = np.full((1, 2), 0.5), np.zeros(1, dtype=int)
    labels = HeldOutLabels.by_cell(mu, Cells(none, none, none + 1, np.array([[1.0, 0.0]]), none + 1, none > 0))
    made = OneStepResult(target=phi, projection=phi, cell_mu=mu, labels=labels)
    assert made.influence("projection") is phi
    assert made.position_effect is None
    with pytest.raises(LookupError):
        made.influence("win_share")
    assert all(field.kw_only for field in dataclasses.fields(OneStepResult))
    assert not isinstance(made, tuple)


def test_a_sample_counts_for_all_contexts():
    population = TargetPopulation(sample=np.array([1, 3]))
    np.testing.assert_array_equal(population.sample_weights(4), [0, 2, 0, 2])
    np.testing.assert_array_equal(population.weights(4), np.ones(4))
    assert TargetPopulation(weight=np.array([0.5, 1.5])).sample_weights(2) is None
