"""Conditional logit for the pair that a context shows, with effects of the items that are smooth in the features.

Every item has an effect u(x) on being shown at all, and an effect w(x) on being shown first instead of second. Both are
linear combinations of a constant and of smooth columns: spline basis functions of the features, see
:class:`dmlrank.nuisance.smooth.basis.SmoothBasis`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np

from ..._utils.computation import current, in_order, product, rows_of_a_product, transposed_product
from ...data.arrays import row_slices
from ...data.preferences import FloatArray, IntArray
from ..all_pairs.predict import distinct_rows
from ..smooth.basis import Design, column_sums, with_constant
from ..smooth.penalty import PenalisedLikelihood
from ..training_rows import LabelledRows

# Prior precision of the effects w relative to the prior precision of the effects u: unless the data say otherwise,
# features hardly influence whether an item is shown first or second.
_PLACE_PRECISION = 10.0
# Prior precision of the constants relative to the prior precision of the curves: the prior hardly restricts how often
# an item is shown on average.
_CONSTANT_PRECISION = 0.1
# Largest number of entries of an array (rows, 2 K): the rows are processed in chunks of this size.
_CHUNK_SIZE = 250_000
# A likelihood is computed on several threads if a product over all rows takes at least this many multiplications.
_PARALLEL_FROM = 100_000_000


@dataclass(frozen=True, slots=True, eq=False)
class PairChoiceEffects:
    r"""Probability of every ordered pair to be the one that a context shows.

    .. math:: \rho_{jk}(x) = \frac{\bar\rho_{jk} e^{a_j(x) + b_k(x)}}
              {\sum_{l \ne m} \bar\rho_{lm} e^{a_l(x) + b_m(x)}}

    These probabilities are called shares, because they are the pairs' shares among the pairs shown. The effect of an
    item is a = u + w where the item is shown first, and b = u - w where it is shown second.

    share (K, K): Overall shares rho bar, positive off the diagonal and zero on it.
    first, second (1 + q, K): Coefficients of a (items shown first) and of b (items shown second) in a constant and the
        q smooth columns.
    """

    share: FloatArray
    first: FloatArray
    second: FloatArray

    @property
    def importance(self) -> FloatArray:
        """Sum of the squared coefficients of each smooth column, (q,)."""
        return np.asarray((np.square(self.first[1:]) + np.square(self.second[1:])).sum(axis=1))

    def loss(self, rows: LabelledRows) -> float:
        """Return the log-loss: minus the sum of the log shares of the pairs shown."""
        shown = np.arange(len(rows))
        return -float(self.log_at(rows.table, rows.first, rows.second, shown, rows.context).sum())

    def log_at(
        self,
        columns: FloatArray,
        first: IntArray,
        second: IntArray,
        row: IntArray,
        context: IntArray | None = None,
    ) -> FloatArray:
        """Return the log shares of r ordered pairs, (r,), each in one of m rows with smooth columns.

        Shapes: columns (n, q), first, second, row (r,), context (m,): the place of each row's columns, by default rows
        of ``columns``.
        """
        context = np.arange(len(columns)) if context is None else context
        score = np.log(self.share[first, second])
        by_row = np.argsort(row, kind="stable")
        # The bits of a product depend on the place of a row in its block.
        step = lcm(rows_of_a_product(self.first[1:]), rows_of_a_product(self.share))
        for block in row_slices(len(context), columns.shape[1], multiple_of=step):
            of_first, of_second = self._item_effects(columns[context[block]])
            a, b, maxima = _exponentials(of_first, of_second)
            log_total = maxima + np.log(_at_least_tiny((product(a, self.share) * b).sum(axis=1)))
            pairs = by_row[slice(*np.searchsorted(row[by_row], [block.start, block.stop]))]
            place = row[pairs] - block.start
            effects = of_first[place, first[pairs]] + of_second[place, second[pairs]]
            score[pairs] = effects + score[pairs] - log_total[place]
        return score

    def table(self, columns: FloatArray) -> FloatArray:
        """Return shares of all pairs that are not normalised, (n, K, K): within a context, only their ratios matter."""
        a, b, _ = _exponentials(*self._item_effects(columns))
        return np.asarray(a[:, :, None] * b[:, None, :] * self.share)

    def _item_effects(self, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the effects a and b of all items, (n, K) each."""
        return product(columns, self.first[1:]) + self.first[0], product(columns, self.second[1:]) + self.second[0]


def _exponentials(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return exp(a - max a) and exp(b - max b) by row, (n, K) each, and max a + max b, (n,)."""
    max_a, max_b = a.max(axis=1), b.max(axis=1)
    return np.exp(a - max_a[:, None]), np.exp(b - max_b[:, None]), max_a + max_b


def pair_shares(first: IntArray, second: IntArray, n_items: int, prior: float) -> FloatArray:
    """Estimate the overall shares of the ordered pairs, (K, K), shrunk towards products of their items' shares.

    Shapes: first, second (r,).
    """
    count = np.zeros((n_items, n_items))
    np.add.at(count, (first, second), 1.0)
    # Half an observation is added to how often each item is shown first, and to how often it is shown second.
    # Therefore, also a pair that was never shown has a positive share.
    independent = np.outer(count.sum(axis=1) + 0.5, count.sum(axis=0) + 0.5)
    np.fill_diagonal(independent, 0.0)
    count += prior * n_items * (n_items - 1) * independent / independent.sum()
    return np.asarray(count / count.sum())


class PairChoiceLikelihood(PenalisedLikelihood[PairChoiceEffects]):
    """The log-likelihood of rows that show one pair each, as a function of the effects u and w of the items.

    The effect of an item is a = u + w where the item is shown first and b = u - w where it is shown second. The search
    works on a flat vector of the coefficients (1 + q, 2 K), in which the K columns of u stand before the K columns of
    w. The overall shares already describe how often items are shown on average. The effects contain constants
    nevertheless: shares are not linear in the effects, so that even curves with mean zero change the average shares,
    and the constants correct this change.

    share (K, K): Overall shares, which hold where all effects are zero.
    design (d, 1 + q): Distinct rows of a constant and the smooth columns; the sum over all pairs depends on them alone.
    count (d,): Number of training rows with these columns.
    gradient_of_shown (1 + q, 2 K): Sums of the columns over the pairs shown: the gradient of the part of the
        log-likelihood that is linear in the coefficients.
    log_share: Sum of the logs of the overall shares of the pairs shown.

    References
    ----------
    McFadden (1974), Conditional logit analysis of qualitative choice behavior.
    """

    def __init__(self, rows: LabelledRows, share: FloatArray) -> None:
        self.share, n_items, design = share, len(share), Design(rows.table, rows.context)
        penalty = np.ones((design.shape[1], 2 * n_items))
        penalty[0] = _CONSTANT_PRECISION
        penalty[:, n_items:] *= _PLACE_PRECISION
        rate = share.sum(axis=0) + share.sum(axis=1)
        squares = column_sums(design, lambda rows: np.square(rows, dtype=float))
        precision = squares[:, None] * np.tile(rate * (1 - rate / 2), 2)
        self.penalty, self.precision = penalty.reshape(-1), precision.reshape(-1) + 1e-3
        self.is_free = np.ones(len(self.penalty), dtype=bool)
        first, second = np.empty((2, design.shape[1], n_items))
        for sums, items in ((first, rows.first), (second, rows.second)):
            for item in range(n_items):
                shown = with_constant(rows.table[rows.context[items == item]])
                sums[:, item] = shown.sum(axis=0, dtype=float)
        self.gradient_of_shown = np.hstack([first + second, first - second])
        self.log_share = float(np.log(share[rows.first, rows.second]).sum())
        distinct, place = distinct_rows(rows.table, rows.context)
        self.design = design if len(distinct) == len(rows) else Design(rows.table, rows.context[distinct])
        self.count = np.bincount(place, minlength=len(distinct)).astype(float)

    def effects(self, flat: FloatArray) -> PairChoiceEffects:
        """Return the effects whose coefficients the flat vector holds."""
        u, w = np.hsplit(flat.reshape(-1, 2 * len(self.share)), 2)
        return PairChoiceEffects(self.share, u + w, u - w)

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the log-likelihood, and its gradient, at the coefficients of the flat vector."""
        coefficients = flat.reshape(self.gradient_of_shown.shape)
        value = -float((coefficients * self.gradient_of_shown).sum()) - self.log_share
        gradient = -self.gradient_of_shown
        step = max(1, _CHUNK_SIZE // (2 * len(self.share)))

        def log_sums(start: int) -> tuple[float, FloatArray]:
            """Return the log of the sum over all pairs, added up over a chunk of rows, and its gradient."""
            columns, count = self.design[start : start + step], self.count[start : start + step]
            u, w = np.hsplit(product(columns, coefficients), 2)
            a, b, maxima = _exponentials(u + w, u - w)
            as_first = a * product(b, self.share.T)
            as_second = b * product(a, self.share)
            total = _at_least_tiny(as_first.sum(axis=1))
            weight = (count / total)[:, None]
            as_first *= weight
            as_second *= weight
            slope = np.hstack([as_first + as_second, as_first - as_second])
            return float(count @ (np.log(total) + maxima)), transposed_product(columns, slope)

        n_rows, width = self.design.shape
        is_large = n_rows * width * self.gradient_of_shown.shape[1] >= _PARALLEL_FROM
        for log_sum, slope in in_order(log_sums, range(0, n_rows, step), current().n_threads if is_large else 1):
            value += log_sum
            gradient += slope
        return value, gradient.reshape(-1)


def _at_least_tiny(total: FloatArray) -> FloatArray:
    """Replace zeros by the smallest positive number: far from the optimum the sums can underflow."""
    return np.maximum(total, np.finfo(float).tiny)
