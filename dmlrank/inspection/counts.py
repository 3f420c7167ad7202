"""Display order, repeats and clusters, counted: functions of arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, chi2, norm

from ..data.preferences import Cells, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class OrderTest:
    """Test that of every pair each model is shown first equally often: a sum of squares over pairs.

    Attributes
    ----------
    statistic : float
        Sum of (n_jk - n_kj)^2 / (n_jk + n_kj) over pairs.
    df : int
        Number of pairs with labels.
    p_value : float
    one_order : int
        Pairs that were shown in one order only.
    """

    statistic: float
    df: int
    p_value: float
    one_order: int


@dataclass(frozen=True, slots=True)
class FirstPositionWins:
    """How often the model shown first wins.

    Attributes
    ----------
    share : float
        Share of comparisons won by the model shown first, ties one half.
    adjusted : float
        The same with both orders of every pair weighted alike, so that a strong model shown first more often does not
        count; NaN where no pair was shown in both orders.
    std_error : float
        Of ``adjusted``, labelled cells taken as independent.
    p_value : float
        Two-sided, against one half; NaN where it cannot be computed.
    """

    share: float
    adjusted: float
    std_error: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Repeats:
    """Contexts with more than one vote, and cells (context, first, second) with more than one.

    Attributes
    ----------
    contexts : int
        Contexts with more than one vote.
    most_votes : int
        Most votes on one context.
    cells : int
        Cells with more than one vote.
    agreement : float
        Share of these cells in which all votes agree; NaN where there are none.
    """

    contexts: int
    most_votes: int
    cells: int
    agreement: float


def order_test(counts: NDArray[np.int64]) -> OrderTest:
    """Is display order balanced in every pair?

    Parameters
    ----------
    counts : ndarray of int, shape (K, K)
        Labelled contexts of every ordered pair.

    Examples
    --------
    >>> order_test(np.array([[0, 60], [40, 0]]))
    OrderTest(statistic=4.0, df=1, p_value=0.04550026389635857, one_order=0)
    """
    first, second = np.nonzero(np.triu(counts + counts.T))
    one, other = counts[first, second], counts[second, first]
    statistic = float(((one - other) ** 2 / (one + other)).sum())
    return OrderTest(statistic, len(one), float(chi2.sf(statistic, len(one))), int((np.minimum(one, other) == 0).sum()))


def balance_p_values(one: NDArray[np.int64], other: NDArray[np.int64]) -> FloatArray:
    """Exact two-sided p-values, (q,), of as many contexts in one order as in the other; NaN for pairs without any."""
    both = zip(one.tolist(), other.tolist(), strict=True)
    return np.array([binomtest(a, a + b).pvalue if a + b else np.nan for a, b in both])


def win_shares(cells: Cells, worth: FloatArray, n_items: int) -> tuple[FloatArray, FloatArray]:
    """Sum and sum of squares, (K, K) each, of the shares that the item shown first won in every labelled cell.

    Parameters
    ----------
    cells : Cells
    worth : ndarray, shape (C,)
        What each category counts for the item shown first.
    n_items : int
    """
    share, pair = cells.y @ worth, cells.first * n_items + cells.second
    total, square = (np.bincount(pair, weights=w, minlength=n_items**2).astype(float) for w in (share, share**2))
    return total.reshape(n_items, n_items), square.reshape(n_items, n_items)


def position_effect(counts: NDArray[np.int64], total: FloatArray, square: FloatArray) -> FirstPositionWins:
    """How often the first position wins, over all pairs.

    Parameters
    ----------
    counts : ndarray of int, shape (K, K)
        Labelled contexts of every ordered pair.
    total, square : ndarray, shape (K, K)
        What :func:`win_shares` counts.
    """
    share = float(total.sum() / counts.sum())
    first, second = np.nonzero(np.triu(np.minimum(counts, counts.T) > 0))
    n = np.stack([counts[first, second], counts[second, first]]).astype(float)
    mean = np.stack([total[first, second], total[second, first]]) / n
    squares = np.stack([square[first, second], square[second, first]])
    if not n.size:
        return FirstPositionWins(share, np.nan, np.nan, np.nan)
    weight = n[0] * n[1] / n.sum(axis=0)
    weight /= weight.sum()
    spread = (squares - n * mean**2).sum() / max(n.sum() - n.size, 1.0)
    error = float(np.sqrt((weight**2 * (spread / n).sum(axis=0)).sum()) / 2)
    adjusted = float((weight * mean.mean(axis=0)).sum())
    p_value = float(2 * norm.sf(abs(adjusted - 0.5) / error)) if error > 0 else np.nan
    return FirstPositionWins(share, adjusted, error, p_value)


def count_repeats(cells: Cells) -> Repeats:
    """Contexts and cells with more than one vote."""
    votes = np.bincount(cells.context, weights=cells.n_votes)
    again = cells.n_votes > 1
    agreement = float((cells.y[again].max(axis=1) > 1 - 1e-9).mean()) if again.any() else np.nan
    return Repeats(int((votes > 1).sum()), int(votes.max()), int(again.sum()), agreement)


def cluster_sizes(group: IntArray) -> tuple[int, int, float, int]:
    """Number of clusters, and the smallest, median and largest one.

    Examples
    --------
    >>> cluster_sizes(np.array([0, 0, 1, 2, 2, 2]))
    (3, 1, 2.0, 3)
    """
    sizes = np.bincount(np.unique(group, return_inverse=True)[1])
    return len(sizes), int(sizes.min()), float(np.median(sizes)), int(sizes.max())
