"""The floor of mu: the smallest probability allowed, selected by the log-loss of the labels."""

from __future__ import annotations

import numpy as np

from .._utils.log_loss import FLOORS, log_loss
from ..data.preferences import FloatArray, IntArray
from .cross_fitting import HeldOutLabels


def select_floor(labels: HeldOutLabels) -> float:
    """Select the floor with the smallest log-loss of the out-of-fold probabilities at the labelled cells.

    Predictions that are more extreme than the truth bias a functional with a logit or a division, because the slope of
    the functional is large there. Clipping the predictions at one of ten floors, selected by the log-loss, removes most
    of this bias. Where true probabilities are extreme, too, the smallest of the ten floors is selected.
    """
    allowed = [floor for floor in FLOORS if floor * labels.mu.shape[1] < 0.5]
    return min(allowed, key=lambda floor: log_loss(clip_and_renormalise(labels.mu, floor), labels.votes))


def clip_and_renormalise(mu: FloatArray, floor: float) -> FloatArray:
    """Raise probabilities below the floor to the floor, and renormalise the probabilities of the categories.

    Shapes: mu (n, K, K, C).
    """
    low = mu < floor
    items = np.arange(mu.shape[1]) if mu.ndim == 4 else None
    if items is not None:
        low[:, items, items] = False
    if not low.any():
        return mu
    raised = np.maximum(mu, floor)
    if items is not None:
        raised[:, items, items] = mu[:, items, items]
    # The sum is computed category by category, because a sum over a short last axis takes several times as long.
    total = raised[..., 0].copy()
    for c in range(1, mu.shape[-1]):
        total += raised[..., c]
    total[total <= 0] = 1.0
    raised /= total[..., None]
    return raised


def count_below(mu: FloatArray, floor: float, count: IntArray) -> int:
    """Count the entries below the floor in ``mu``, (n, K, K, C), which has a diagonal of zeros.

    Shapes: mu (n, K, K, C), count (n,).
    """
    n, n_items, _, n_categories = mu.shape
    if floor <= 0:
        return 0
    low, on_diagonal = mu < floor, n_items * n_categories
    n_low = np.count_nonzero(low)
    if n_low == n * on_diagonal or (count == 1).all():
        return int(n_low - n * on_diagonal)
    return int((np.count_nonzero(low.reshape(n, -1), axis=1) - on_diagonal) @ count)
