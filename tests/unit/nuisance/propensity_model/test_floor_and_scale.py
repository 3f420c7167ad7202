"""Estimated propensities are floored by their pair's own rate and scaled so that the mean of S / pi is one."""

from __future__ import annotations

import numpy as np
import pytest

from dmlrank.data.preferences import Cells
from dmlrank.nuisance.propensity_model.estimate import FloorAndScale


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
    rule = FloorAndScale.of(ESTIMATES, Data())
    assert rule.floor[0, 1] == pytest.approx(0.1 * 8 / 20)
    assert rule.floor[1, 2] == pytest.approx(0.1 * 2 / 20)
    cells, n_floored = rule.at_cells(ESTIMATES, Data.cells)
    assert n_floored == 2
    assert cells[4] / cells[0] == pytest.approx(0.04 / 0.5)
    assert cells[9] / cells[8] == pytest.approx(0.01 / 0.02)


def test_the_mean_weight_of_every_labelled_pair_is_one():
    cells, _ = FloorAndScale.of(ESTIMATES, Data()).at_cells(ESTIMATES, Data.cells)
    np.testing.assert_allclose([(1 / cells[:8]).sum() / 20, (1 / cells[8:]).sum() / 20], 1, rtol=1e-12)


def test_pairs_without_a_label_have_scale_zero_and_orders_add_up_where_order_is_ignored():
    rule = FloorAndScale.of(ESTIMATES, Data())
    assert np.count_nonzero(rule.scale) == 2
    ordered, summed = rule.of_pairs(ordered=True), rule.of_pairs(ordered=False)
    for own, both in zip(ordered, summed, strict=True):
        np.testing.assert_array_equal(both, own + own.T)
