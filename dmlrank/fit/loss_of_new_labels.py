"""Whether labels that came after a training are predicted worse than the earlier ones: a test that holds at all times.

The test decides whether an extension trains the first stages again. It compares the log-loss of each later label with
the mean out-of-fold log-loss of the earlier labels of the same ordered pair. If later prompts, voters and models are
like the earlier ones, the two have the same expectation: in both cases the model has not seen the label.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import Cells, FloatArray, IntArray
from ..inference.confidence_sequence import Boundary, best_tau

# Error rate of the test: the probability that first stages which fit as well as ever are trained again because of the
# losses, at any time before the next training.
LOSS_ERROR_RATE = 0.05
# Predicted probabilities below this one are replaced by it, so that no loss is infinite.
_SMALLEST_PROBABILITY = 1e-15
# Fewest units with later labels, and fewest earlier labels of a pair, with which the test is made.
_FEWEST_UNITS = 30
_FEWEST_LABELS = 2


class LossTest(NamedTuple):
    """The test that later labels are predicted no worse than earlier ones.

    z: Excess of the later losses in standard errors; NaN where labels are too few.
    p_value: One-sided p-value that holds at all times together; NaN where labels are too few.
    """

    z: float = float("nan")
    p_value: float = float("nan")

    @property
    def rejects(self) -> bool:
        """Whether later labels are predicted worse."""
        return self.p_value <= LOSS_ERROR_RATE


def compare_losses(
    cells: Cells, mu: FloatArray, is_later: NDArray[np.bool_], unit: IntArray, *, n_items: int, planned: float
) -> LossTest:
    """Test whether the labels of later cells have a larger log-loss than those of earlier cells of the same pairs.

    Let D be the sum over later cells of the loss minus the mean loss of the earlier cells of the pair. Units of cells
    (contexts or clusters) are independent. The variance of D is the sum of the squared sums by unit, plus the variance
    of the means of the earlier losses. The p-value is the one-sided p-value of :class:`.Boundary` for z = D / se(D) and
    t units, so that by the inequality of Ville the probability that it falls to a or below at any time is at most a,
    asymptotically. The test is most powerful near t = ``planned`` units for a = ``LOSS_ERROR_RATE``.

    Shapes: mu (m, C), is_later (m,), unit (m,).
    """
    # The sum is computed category by category, because a sum over a short last axis takes several times as long.
    loss = -reduce(np.add, (cells.y * np.log(np.maximum(mu, _SMALLEST_PROBABILITY))).T)
    pair = cells.first * n_items + cells.second
    early, n_pairs = ~is_later, n_items**2
    count = np.bincount(pair[early], minlength=n_pairs)
    has_mean = count >= _FEWEST_LABELS
    divisor = np.maximum(count, 1)
    mean = np.bincount(pair[early], loss[early], n_pairs) / divisor
    variance = np.bincount(pair[early], np.square(loss[early] - mean[pair[early]]), n_pairs) / np.maximum(count - 1, 1)
    compared = np.flatnonzero(is_later & has_mean[pair])
    excess = loss[compared] - mean[pair[compared]]
    units, place = np.unique(unit[compared], return_inverse=True)
    if len(units) < _FEWEST_UNITS:
        return LossTest()
    by_unit = np.bincount(place, excess)
    n_later = np.bincount(pair[compared], minlength=n_pairs)
    variance_of_sum = float(np.square(by_unit - by_unit.mean()).sum() + (np.square(n_later) * variance / divisor).sum())
    if not variance_of_sum > 0:
        return LossTest()
    z = float(by_unit.sum() / np.sqrt(variance_of_sum))
    boundary = Boundary(best_tau(LOSS_ERROR_RATE) * len(units) / planned)
    return LossTest(z, float(boundary.one_sided_p_values(np.array([z]))[0]))
