"""The floor of mu: how small a probability the labels leave credible."""

from __future__ import annotations

import numpy as np

from .._utils.log_loss import log_loss
from ..data.preferences import FloatArray, IntArray
from .cross_fitting import HeldOutLabels

FLOORS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1)


def select_floor(labels: HeldOutLabels) -> float:
    """The floor with the smallest log-loss of the out-of-fold probabilities at the labelled cells.

    Predictions that are more extreme than the truth are what hurts a functional with a logit or a division: its
    linearisation there is steep and its error has one sign. One number chosen among ten by the labels' own log-loss
    takes most of that away, and is the smallest of the ten where the labels do reach the extremes.

    Parameters
    ----------
    labels : HeldOutLabels

    Examples
    --------
    >>> from dmlrank.data.preferences import Cells
    >>> context, y = np.arange(100), np.repeat(np.eye(2), [90, 10], axis=0)
    >>> zeros, votes = np.zeros(100, dtype=int), np.ones(100, dtype=int)
    >>> cells = Cells(context, zeros, zeros + 1, y, votes, zeros > 0)
    >>> select_floor(HeldOutLabels.by_cell(np.tile([0.999, 0.001], (100, 1)), cells))
    0.1
    """
    allowed = [floor for floor in FLOORS if floor * labels.mu.shape[1] < 0.5]
    return min(allowed, key=lambda floor: log_loss(clip_and_renormalise(labels.mu, floor), labels.votes))


def clip_and_renormalise(mu: FloatArray, floor: float) -> FloatArray:
    """Probabilities with categories below the floor raised to it and rows renormalised.

    Parameters
    ----------
    mu : ndarray, shape (n, K, K, C) or (m, C)
        All pairs of contexts, with a diagonal that stays as it is, or single pairs.
    floor : float
    """
    low = mu < floor
    items = np.arange(mu.shape[1]) if mu.ndim == 4 else None
    if items is not None:
        low[:, items, items] = False
    if not low.any():
        return mu
    lifted = np.maximum(mu, floor)
    if items is not None:
        lifted[:, items, items] = mu[:, items, items]
    # Category by category: a sum over a short last axis takes several times as long.
    total = lifted[..., 0].copy()
    for c in range(1, mu.shape[-1]):
        total += lifted[..., c]
    total[total <= 0] = 1.0
    lifted /= total[..., None]
    return lifted


def count_below(mu: FloatArray, floor: float) -> IntArray:
    """Entries below the floor in each context, (n,), of probabilities (n, K, K, C) with a diagonal of zeros."""
    n, n_items, _, n_categories = mu.shape
    return np.count_nonzero((mu < floor).reshape(n, -1), axis=1) - n_items * n_categories * (floor > 0)
