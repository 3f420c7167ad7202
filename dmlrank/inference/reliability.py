"""Reliability by bins: fitted probabilities beside observed shares, with binomial intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ..data.preferences import FloatArray
from ..plotting.diagnostic_charts import ReliabilityCurve


def reliability_curve(
    category: str, fitted: FloatArray, labels: FloatArray, votes: NDArray[np.int64], *, alpha: float, n_bins: int = 10
) -> ReliabilityCurve:
    """Compare fitted probabilities of one category with the observed shares, by bins with equal numbers of votes.

    The intervals are Wilson's, each for one bin, and take votes as independent.

    Shapes: fitted (m,), labels (m,), votes (m,).

    References
    ----------
    Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22.
    """
    place = np.unique(fitted, return_inverse=True)[1]
    votes_of_distinct = np.bincount(place, votes)
    # The bin of a probability follows from the votes up to the middle of its own votes.
    middle = (np.cumsum(votes_of_distinct) - votes_of_distinct / 2) / votes.sum()
    bins = np.unique(np.minimum((middle * n_bins).astype(int), n_bins - 1), return_inverse=True)[1][place]
    n_votes = np.bincount(bins, votes).astype(np.float64)
    mean_fitted, observed = (np.bincount(bins, votes * numbers) / n_votes for numbers in (fitted, labels))
    low, high = wilson_interval(observed, n_votes, alpha)
    return ReliabilityCurve(category, mean_fitted, observed, low, high)


def wilson_interval(share: FloatArray, n: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's interval of a binomial share."""
    z2 = float(norm.ppf(1 - alpha / 2)) ** 2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    # Rounding may move a limit beyond the share where all labels agree.
    return np.minimum(np.maximum(middle - half, 0.0), share), np.maximum(np.minimum(middle + half, 1.0), share)
