"""Reliability by bins: fitted probabilities beside observed shares, with binomial intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ..data.preferences import FloatArray
from ..plotting.first_stage_charts import ReliabilityCurve


def reliability_curve(
    category: str, fitted: FloatArray, labels: FloatArray, votes: NDArray[np.int64], *, alpha: float, n_bins: int = 10
) -> ReliabilityCurve:
    """Compare fitted probabilities of one category with the observed shares, by bins with equal numbers of votes.

    The intervals are Wilson's, each for one bin, and take votes as independent.

    Parameters
    ----------
    category : str
    fitted : ndarray, shape (m,)
        Fitted probability of the category in each labelled cell.
    labels : ndarray, shape (m,)
        Share of the cell's votes for the category.
    votes : ndarray of int, shape (m,)
        Number of votes of each cell.
    alpha : float
        One minus the level of each interval.
    n_bins : int
        Largest number of bins; cells with equal probabilities are never in different bins.

    References
    ----------
    Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22.

    Examples
    --------
    >>> fitted, labels = np.repeat([0.2, 0.6], 50), np.repeat([0.0, 1.0, 0.0, 1.0], [40, 10, 20, 30])
    >>> curve = reliability_curve("win", fitted, labels, np.ones(100, dtype=int), alpha=0.05, n_bins=2)
    >>> curve.fitted.round(3).tolist(), curve.observed.round(3).tolist()
    ([0.2, 0.6], [0.2, 0.6])
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
    """Return Wilson's interval of a binomial share.

    Parameters
    ----------
    share : ndarray
        Observed shares.
    n : ndarray
        Numbers of observations behind them.
    alpha : float
        One minus the level.

    Examples
    --------
    >>> low, high = wilson_interval(np.array([0.5]), np.array([100.0]), 0.05)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.4038], [0.5962])
    """
    z2 = float(norm.ppf(1 - alpha / 2)) ** 2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    # Rounding may move a limit beyond the share where all labels agree.
    return np.minimum(np.maximum(middle - half, 0.0), share), np.maximum(np.minimum(middle + half, 1.0), share)
