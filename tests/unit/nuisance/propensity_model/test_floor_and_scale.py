"""Estimated propensities are floored by their pair's own rate and scaled so that the mean of S / pi is one."""

from __future__ import annotations

import numpy as np
import pytest

from dmlrank.data.preferences import Cells
from dmlrank.nuisance.propensity_model.estimate import floor_and_scale, floored_and_scaled


class Data:
    """Twenty contexts: pair (0, 1) is labelled in eight of them, pair (1, 2) in two."""

    n_items, n_contexts = 3, 20
    cells = Cells(
        np.arange(10),
        np.repeat([0, 1], [8, 2]),
        np.repeat([1, 2], [8, 2]),
        np.tile([1.0, 0.0], (10, 1)),
        np.ones(10, dtype=np.intp),
        np.zeros(10, dtype=bool),
    )

    def pair_counts(self):
        counts = np.zeros((3, 3))
        np.add.at(counts, (self.cells.first, self.cells.second), 1)
        return counts


ESTIMATES = np.array([0.5, 0.4, 0.3, 0.2, 0.001, 0.6, 0.4, 0.4, 0.02, 0.005])


def test_estimates_below_a_tenth_of_their_pairs_rate_are_raised():
    floor, _ = floor_and_scale(ESTIMATES, Data())
    assert floor[0, 1] == pytest.approx(0.1 * 8 / 20)
    assert floor[1, 2] == pytest.approx(0.1 * 2 / 20)
    propensity = floored_and_scaled(ESTIMATES, Data())
    cells = propensity.cells
    assert propensity.n_floored == 2
    assert cells[4] / cells[0] == pytest.approx(0.04 / 0.5)
    assert cells[9] / cells[8] == pytest.approx(0.01 / 0.02)


def test_the_mean_weight_of_every_labelled_pair_is_one():
    cells = floored_and_scaled(ESTIMATES, Data()).cells
    np.testing.assert_allclose([(1 / cells[:8]).sum() / 20, (1 / cells[8:]).sum() / 20], 1, rtol=1e-12)


def test_pairs_without_a_label_have_scale_zero():
    assert np.count_nonzero(floor_and_scale(ESTIMATES, Data())[1]) == 2
