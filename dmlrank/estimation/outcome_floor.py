"""The floor of mu: how small a probability the labels leave credible."""

from __future__ import annotations

import numpy as np

from ..data.preferences import Cells, FloatArray

_FLOORS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1)


def select_floor(mu: FloatArray, cells: Cells) -> float:
    """The floor with the smallest log-loss of the out-of-fold probabilities at the labelled cells.

    Predictions that are more extreme than the truth are what hurts a functional with a logit or a division: its
    linearisation there is steep and its error has one sign. One number chosen among ten by the labels' own log-loss
    takes most of that away, and is the smallest of the ten where the labels do reach the extremes.

    Parameters
    ----------
    mu : ndarray, shape (m, C)
        Out-of-fold probabilities.
    cells : Cells

    Examples
    --------
    >>> context, y = np.arange(100), np.repeat(np.eye(2), [90, 10], axis=0)
    >>> zeros, votes = np.zeros(100, dtype=int), np.ones(100, dtype=int)
    >>> select_floor(np.tile([0.999, 0.001], (100, 1)), Cells(context, zeros, zeros + 1, y, votes, zeros > 0))
    0.1
    """
    allowed = [floor for floor in _FLOORS if floor * mu.shape[1] < 0.5]
    votes = cells.n_votes[:, None] * cells.y

    def loss(floor: float) -> float:
        lifted = np.maximum(mu, floor)
        return -float((votes * np.log(lifted / lifted.sum(axis=1, keepdims=True))).sum())

    return min(allowed, key=loss)
