"""Whether labels that came after a training are predicted worse than the earlier ones: a test that holds at all times.

The test decides whether an extension trains the first stages again. It compares the log-loss of each later label with
the mean out-of-fold log-loss of the earlier labels of the same ordered pair. If later prompts, voters and models are
like the earlier ones, the two have the same expectation: in both cases the model has not seen the label.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import Cells, FloatArray, IntArray

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

    Attributes
    ----------
    z : float
        Excess of the later losses in standard errors; NaN where labels are too few.
    p_value : float
        One-sided p-value that holds at all times together; NaN where labels are too few.
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
    r"""Test whether the labels of later cells have a larger log-loss than those of earlier cells of the same pairs.

    Let D be the sum over later cells of the loss minus the mean loss of the earlier cells of the pair. Units of cells
    (contexts or clusters) are independent. The variance of D is the sum of the squared sums by unit, plus the variance
    of the means of the earlier losses. With t units, :math:`z = D / se(D)` and :math:`\tau = t \tau^* / t^*`,

    .. math:: p = \min(1, \sqrt{1 + \tau} \exp(-z^2 \tau / (2 (1 + \tau)))) \quad (z > 0).

    By the inequality of Ville, the probability that p falls to a or below at any time is at most a, asymptotically.
    :math:`\tau^* = -2 \log a + \log(-2 \log a) + 1` makes the test most powerful near t* = ``planned`` units,
    with a the error rate ``LOSS_ERROR_RATE``.

    Parameters
    ----------
    cells : Cells
    mu : ndarray, shape (m, C)
        Probabilities of the categories from models that have not seen the label.
    is_later : ndarray of bool, shape (m,)
        Whether a cell came after the training.
    unit : ndarray of int, shape (m,)
        The context, or cluster of contexts, of each cell.
    n_items : int
        K.
    planned : float
        The number of units t* near which the test is most powerful.

    References
    ----------
    Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas (2024), Time-uniform central limit theory and asymptotic confidence
    sequences, Annals of Statistics.
    """
    loss = -(cells.y * np.log(np.maximum(mu, _SMALLEST_PROBABILITY))).sum(axis=1)
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
    return LossTest(z, uniform_p_value(z, len(units), planned, LOSS_ERROR_RATE))


def uniform_p_value(z: float, n_units: int, planned: float, alpha: float) -> float:
    """Return a one-sided p-value of a z statistic that may be looked at after any number of units.

    Parameters
    ----------
    z : float
    n_units : int
        Number of independent units behind the statistic.
    planned : float
        Number of units near which the test is most powerful.
    alpha : float
        Error rate of the test, for which its power is optimised.

    Examples
    --------
    >>> round(uniform_p_value(3.5, 1000, 1000, 0.05), 3), uniform_p_value(-3.0, 1000, 1000, 0.05)
    (0.013, 1.0)
    """
    if z <= 0:
        return 1.0
    level = -2 * np.log(alpha)
    tau = n_units * (level + np.log(level) + 1) / planned
    return float(min(1.0, np.sqrt(1 + tau) * np.exp(-(z**2) * tau / (2 * (1 + tau)))))
