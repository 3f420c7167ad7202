"""A conditional logit of the pair that a context shows: effects of the items on both places, smooth in the context."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..._utils.blas import gathered, product
from ..._utils.parallel import in_order
from ...data.preferences import FloatArray, IntArray
from ..all_pairs.predict import distinct_rows
from ..smooth.minimise import PenalisedSearch
from ..training_rows import LabelledRows

# How an item's two places differ hardly varies with the context unless the data say so: prior precision relative to
# that of how often the item is shown.
_PLACE = 10.0
# How often an item is shown on average is nearly free, relative to the ridge of its curves.
_LEVEL = 0.1
# Doubles in an array of rows x items.
_CHUNK = 250_000
# Multiplications in a product over all rows from which threads pay.
_LARGE = 100_000_000


@dataclass(frozen=True, slots=True, eq=False)
class PairChoiceEffects:
    r"""Shares of the ordered pairs among what is shown in a context.

    .. math:: \rho_{jk}(x) = \frac{\bar\rho_{jk} e^{a_j(x) + b_k(x)}}
              {\sum_{l \ne m} \bar\rho_{lm} e^{a_l(x) + b_m(x)}}

    Attributes
    ----------
    share : ndarray, shape (K, K)
        rho bar, positive off the diagonal and zero on it.
    first, second : ndarray, shape (1 + q, K)
        Coefficients of a and b in a constant and the smooth columns.
    """

    share: FloatArray
    first: FloatArray
    second: FloatArray

    @property
    def importance(self) -> FloatArray:
        """How much each smooth column moves the shares, (q,)."""
        return np.asarray((np.square(self.first[1:]) + np.square(self.second[1:])).sum(axis=1))

    def loss(self, rows: LabelledRows) -> float:
        """Minus the log of the shares of the pairs shown."""
        return -float(self.log_at(rows.columns, rows.first, rows.second).sum())

    def log_at(self, columns: FloatArray, first: IntArray, second: IntArray, row: IntArray | None = None) -> FloatArray:
        """Logs of the shares of given pairs, (r,), in the contexts with columns (r, q).

        With ``row``, (r,), the columns are those of n contexts, (n, q), and it says which context each pair is of.
        """
        a, b = self._places(columns)
        row = np.arange(len(columns)) if row is None else row
        seen = a[row, first] + b[row, second] + np.log(self.share[first, second])
        a, b, top = _grown(a, b)
        total = top + np.log(_positive((product(a, self.share) * b).sum(axis=1)))
        return np.asarray(seen - total[row])

    def table(self, columns: FloatArray) -> FloatArray:
        """Shares of all pairs, (n, K, K), up to a factor of each context's own."""
        a, b, _ = _grown(*self._places(columns))
        return np.asarray(a[:, :, None] * b[:, None, :] * self.share)

    def _places(self, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """a and b, (n, K)."""
        return product(columns, self.first[1:]) + self.first[0], product(columns, self.second[1:]) + self.second[0]


def _grown(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Exponentials relative to the largest of every row, and the sum of the two largest, (n,)."""
    top_a, top_b = a.max(axis=1), b.max(axis=1)
    return np.exp(a - top_a[:, None]), np.exp(b - top_b[:, None]), top_a + top_b


def pair_shares(first: IntArray, second: IntArray, n_items: int, prior: float) -> FloatArray:
    """Shares of the ordered pairs, (K, K), drawn towards products of their items' shares.

    Parameters
    ----------
    first, second : ndarray of int, shape (r,)
        Pairs shown.
    n_items : int
        K.
    prior : float
        What the products count for, in pairs shown per ordered pair.

    Examples
    --------
    >>> pair_shares(np.array([0, 0, 1]), np.array([1, 2, 0]), 3, prior=1.0).round(2)
    array([[0.  , 0.3 , 0.3 ],
           [0.22, 0.  , 0.11],
           [0.04, 0.04, 0.  ]])
    """
    count = np.zeros((n_items, n_items))
    np.add.at(count, (first, second), 1.0)
    # Half a pair more for every item and place: one that has never been shown may be.
    product = np.outer(count.sum(axis=1) + 0.5, count.sum(axis=0) + 0.5)
    np.fill_diagonal(product, 0.0)
    count += prior * n_items * (n_items - 1) * product / product.sum()
    return np.asarray(count / count.sum())


@dataclass(frozen=True, slots=True, eq=False)
class PairChoiceLikelihood:
    """The log-likelihood of the pairs shown as a function of how often items are shown, u, and of their places, w.

    a = u + w and b = u - w; the flat vector is (1 + q, 2 K), u before w. The overall shares hold how often items are
    shown already, but means over contexts are not the shares of a mean context: constants make up for this.

    References
    ----------
    McFadden (1974), Conditional logit analysis of qualitative choice behavior.
    """

    columns: FloatArray
    count: FloatArray
    shown: FloatArray
    log_share: float
    share: FloatArray
    penalty: FloatArray
    precision: FloatArray
    workers: int

    @classmethod
    def of(cls, rows: LabelledRows, share: FloatArray, workers: int = 1) -> PairChoiceLikelihood:
        """Of rows that each show one pair; ``share``, (K, K), is what pairs have where effects are zero.

        The sum over all pairs is taken once for rows with equal columns, by ``workers`` threads.
        """
        columns, n_items = np.hstack([np.ones((len(rows), 1)), rows.columns]), len(share)
        penalty = np.ones((columns.shape[1], 2 * n_items))
        penalty[0] = _LEVEL
        penalty[:, n_items:] *= _PLACE
        rate = share.sum(axis=0) + share.sum(axis=1)
        precision = np.square(columns).sum(axis=0)[:, None] * np.tile(rate * (1 - rate / 2), 2)
        first, second = (_sums_by_item(columns, items, n_items) for items in (rows.first, rows.second))
        log_share = float(np.log(share[rows.first, rows.second]).sum())
        distinct, place = distinct_rows(columns)
        return cls(
            columns[distinct],
            np.bincount(place, minlength=len(distinct)).astype(float),
            np.hstack([first + second, first - second]),
            log_share,
            share,
            penalty.reshape(-1),
            precision.reshape(-1) + 1e-3,
            workers,
        )

    def search(self, ridge: float, start: FloatArray | None = None) -> PenalisedSearch:
        """A search for the effects, from those of an earlier one; ``ridge`` is a prior precision in pairs shown."""
        penalty = ridge * self.penalty
        return PenalisedSearch(self.loss, penalty, 1 / np.sqrt(self.precision + penalty), start)

    def effects(self, flat: FloatArray) -> PairChoiceEffects:
        """The flat vector's parts under their names."""
        u, w = np.hsplit(flat.reshape(-1, 2 * len(self.share)), 2)
        return PairChoiceEffects(self.share, u + w, u - w)

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log-likelihood, and its gradient."""
        coefficients = flat.reshape(self.shown.shape)
        value, gradient = -float((coefficients * self.shown).sum()) - self.log_share, -self.shown
        step = max(1, _CHUNK // (2 * len(self.share)))
        starts = range(0, len(self.columns), step)

        def part(start: int) -> tuple[float, FloatArray]:
            return self._log_sums(slice(start, start + step), coefficients)

        large = self.columns.size * self.shown.shape[1] >= _LARGE
        for own, slope in in_order(part, starts, self.workers if large else 1):
            value += own
            gradient += slope
        return value, gradient.reshape(-1)

    def _log_sums(self, rows: slice, coefficients: FloatArray) -> tuple[float, FloatArray]:
        """Logs of the sums over all pairs, added over some rows, and their gradient, (1 + q, 2 K)."""
        columns, count = self.columns[rows], self.count[rows]
        u, w = np.hsplit(product(columns, coefficients), 2)
        a, b, top = _grown(u + w, u - w)
        as_first = a * product(b, self.share.T)
        as_second = b * product(a, self.share)
        total = _positive(as_first.sum(axis=1))
        weight = (count / total)[:, None]
        as_first *= weight
        as_second *= weight
        slope = np.hstack([as_first + as_second, as_first - as_second])
        return float(count @ (np.log(total) + top)), gathered(columns, slope)


def _sums_by_item(columns: FloatArray, items: IntArray, n_items: int) -> FloatArray:
    """Sums of the rows of each item, (q, K)."""
    order = np.argsort(items, kind="stable")
    bounds = np.searchsorted(items[order], np.arange(n_items + 1))
    parts = [columns[order[begin:end]].sum(axis=0) for begin, end in pairwise(bounds)]
    return np.stack(parts, axis=1)


def _positive(total: FloatArray) -> FloatArray:
    """Sums that a search's far-off point may have let underflow."""
    return np.maximum(total, np.finfo(float).tiny)
