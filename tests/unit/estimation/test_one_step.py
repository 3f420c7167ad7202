"""Over which contexts the one-step estimator averages."""

from __future__ import annotations

import numpy as np

from dmlrank.estimation.influence import TargetPopulation


def test_a_sample_counts_for_all_contexts():
    population = TargetPopulation(sample=np.array([1, 3]))
    np.testing.assert_array_equal(population.sample_weights(4), [0, 2, 0, 2])
    np.testing.assert_array_equal(population.weights(4), np.ones(4))
    assert TargetPopulation(weight=np.array([0.5, 1.5])).sample_weights(2) is None
