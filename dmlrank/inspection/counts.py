"""Counts of display orders, wins by position, repeated votes and cluster sizes, from arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, chi2, norm

from ..data.preferences import Cells, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class OrderTest:
    """Chi-squared test that in every pair each model is shown first equally often.

    statistic: Sum of (n_jk - n_kj)^2 / (n_jk + n_kj) over pairs.
    df: Degrees of freedom: the number of pairs with labels.
    p_value: From the chi-squared distribution.
    one_order: Pairs that were shown in one order only.
    """

    statistic: float
    df: int
    p_value: float
    one_order: int


@dataclass(frozen=True, slots=True)
class FirstPositionWins:
    """How often the model shown first wins.

    share: Share of comparisons won by the model shown first; a tie counts one half.
    adjusted: The same share with both orders of every pair weighted alike, so that it does not grow where strong models
        are shown first more often; NaN where no pair was shown in both orders.
    std_error: Standard error of ``adjusted`` if labelled cells are independent.
    p_value: Two-sided p-value of ``adjusted`` against one half; NaN without a standard error.
    """

    share: float
    adjusted: float
    std_error: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Repeats:
    """Contexts with more than one vote, and cells (a context with an ordered pair) with more than one vote.

    contexts: Contexts with more than one vote.
    most_votes: Most votes on one context.
    cells: Cells with more than one vote.
    agreement: Share of these cells in which all votes agree; NaN where there are none.
    """

    contexts: int
    most_votes: int
    cells: int
    agreement: float


def order_test(counts: NDArray[np.int64]) -> OrderTest:
    """Test whether display order is balanced in every pair.

    Shapes: counts (K, K).
    """
    first, second = np.nonzero(np.triu(counts + counts.T))
    n_first, n_second = counts[first, second], counts[second, first]
    statistic, df = float(((n_first - n_second) ** 2 / (n_first + n_second)).sum()), len(first)
    n_one_order = int((np.minimum(n_first, n_second) == 0).sum())
    return OrderTest(statistic, df, float(chi2.sf(statistic, df)), n_one_order)


def balance_p_values(n_first: NDArray[np.int64], n_second: NDArray[np.int64]) -> FloatArray:
    """Exact two-sided p-values, (q,), of equally many contexts in both orders; NaN for pairs without a context."""
    counts = zip(n_first.tolist(), n_second.tolist(), strict=True)
    return np.array([binomtest(a, a + b).pvalue if a + b else np.nan for a, b in counts])


def win_shares(cells: Cells, weights: FloatArray, n_items: int) -> tuple[FloatArray, FloatArray]:
    """Return sum and sum of squares, (K, K) each, of the shares that the item shown first won in every labelled cell.

    Shapes: weights (C,).
    """
    share, pair = cells.y @ weights, cells.first * n_items + cells.second
    total, square = (np.bincount(pair, weights=w, minlength=n_items**2).astype(float) for w in (share, share**2))
    return total.reshape(n_items, n_items), square.reshape(n_items, n_items)


def position_effect(counts: NDArray[np.int64], total: FloatArray, square: FloatArray) -> FirstPositionWins:
    """Return how often the first position wins, over all pairs.

    Shapes: counts (K, K), total, square (K, K).
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
    variance = (squares - n * mean**2).sum() / max(n.sum() - n.size, 1.0)
    error = float(np.sqrt((weight**2 * (variance / n).sum(axis=0)).sum()) / 2)
    adjusted = float((weight * mean.mean(axis=0)).sum())
    p_value = float(2 * norm.sf(abs(adjusted - 0.5) / error)) if error > 0 else np.nan
    return FirstPositionWins(share, adjusted, error, p_value)


def count_repeats(cells: Cells) -> Repeats:
    """Return how many contexts and cells have more than one vote, and how often votes on a cell agree."""
    votes = np.bincount(cells.context, weights=cells.n_votes)
    has_several = cells.n_votes > 1
    agreement = float((cells.y[has_several].max(axis=1) > 1 - 1e-9).mean()) if has_several.any() else np.nan
    return Repeats(int((votes > 1).sum()), int(votes.max()), int(has_several.sum()), agreement)


def cluster_sizes(group: IntArray) -> tuple[int, int, float, int]:
    """Return the number of clusters, and the size of the smallest, the median and the largest cluster."""
    sizes = np.bincount(np.unique(group, return_inverse=True)[1])
    return len(sizes), int(sizes.min()), float(np.median(sizes)), int(sizes.max())
