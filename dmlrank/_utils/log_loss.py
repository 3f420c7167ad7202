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

    Shapes: p (m, C), votes (m, C).
    """
    return -float((votes * np.log(np.maximum(p, smallest))).sum())
