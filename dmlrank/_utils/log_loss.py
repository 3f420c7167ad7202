"""Log-loss of predicted probabilities, the score by which predictions of labels are compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Smaller probabilities are raised to this one: a label with probability zero costs much, but not infinitely much.
_SMALLEST = 1e-12

# Smallest probabilities among which the log-loss of held-out labels selects.
FLOORS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1)


def log_loss(p: FloatArray, votes: FloatArray, *, smallest: float = _SMALLEST) -> float:
    """Return the log-loss, summed over all votes.

    Parameters
    ----------
    p : ndarray, shape (m, C)
        Probabilities of the categories.
    votes : ndarray, shape (m, C)
        Votes for each category, or weights of the labels.
    smallest : float
        Smaller probabilities are raised to this one.

    Examples
    --------
    >>> round(log_loss(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([[1.0, 1.0], [0.0, 1.0]])), 3)
    3.689
    """
    return -float((votes * np.log(np.maximum(p, smallest))).sum())
