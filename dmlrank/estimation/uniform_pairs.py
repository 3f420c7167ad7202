"""Uniform pairs, whose labels all say the same: the variance that their labels do not show, by the rule of three."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..data.outcomes import exchanged_wins, in_other_order
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..functionals.base import PairDerivativeScore, PairLocalScore
from ..functionals.category_weights import CategoryWeights
from ..functionals.protocols import Score
from .outcome_floor import clip_and_renormalise

# With variance c / n, n labels and nothing but losses reach up to 1.96 sqrt(c) / n = 3 / n, the rule of three.
RULE_OF_THREE = (3 / 1.959963984540054) ** 2
# Variance of a share in [0, 1] is at most this.
_LARGEST = 0.25
# Shares closer than this are equal.
_ROUNDING = 1e-12
# Numbers in the directions that are held at a time.
_CHUNK = 2_000_000

# Derivatives, (r, d), along directions, (r, C), at the ordered pairs (first, second).
Derivative: TypeAlias = Callable[[FloatArray, IntArray, IntArray], FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class LabelErrors:
    """What the labels add to the error of an estimate, label by label: weight times J times residual.

    Attributes
    ----------
    cells : Cells
        The m labelled cells.
    weight : ndarray, shape (m,)
        Of one label in the estimate, 1 / (n pi) for a mean over n contexts; zero where it does not count.
    mu : ndarray, shape (m, C)
        Fitted probabilities.
    residual : ndarray, shape (m, C)
        Label less what was expected.
    unit : ndarray of int, shape (m,)
        The context of each label, or the cluster where labels of a cluster depend on each other.
    n_units : float
        Units over which influence values are centred; infinite where they are not.
    other_unit : ndarray of int, shape (m,), or None
        The cluster of each label in a second grouping, crossed with the first.
    """

    cells: Cells
    weight: FloatArray
    mu: FloatArray
    residual: FloatArray
    unit: IntArray
    n_units: float = np.inf
    other_unit: IntArray | None = None

    def only(self, kept: NDArray[np.bool_], factor: float = 1.0) -> LabelErrors:
        """Some of the labels, with weights times a factor."""
        return LabelErrors(
            self.cells.only(kept),
            factor * self.weight[kept],
            self.mu[kept],
            self.residual[kept],
            self.unit[kept],
            self.n_units,
            None if self.other_unit is None else self.other_unit[kept],
        )

    def units_by_pair(self, pair: IntArray, size: int) -> tuple[IntArray, FloatArray]:
        """Count each pair's units, (size,), and sum the squares of the units' weights, (size,).

        Of two crossed groupings each pair has the counts of the coarser one: the fewer units, the larger sum.

        Parameters
        ----------
        pair : ndarray of int, shape (m,)
            The pair of each label, numbered from 0.
        size : int
            Number of pairs.
        """
        groupings = [self.unit] if self.other_unit is None else [self.unit, self.other_unit]
        counts, sums = [], []
        for unit in groupings:
            units, unit_of = np.unique(np.stack([pair, unit], axis=1), axis=0, return_inverse=True)
            square: FloatArray = np.square(np.bincount(unit_of.reshape(-1), self.weight, len(units)))
            counts.append(np.bincount(units[:, 0], minlength=size))
            sums.append(np.bincount(units[:, 0], square, size))
        return np.min(counts, axis=0), np.max(sums, axis=0).astype(float)


@dataclass(frozen=True, slots=True, eq=False)
class UniformPairs:
    """Pairs whose labels all say the same, so that their spread says nothing of the variance of a label.

    Attributes
    ----------
    first, second : ndarray of int, shape (q,)
    label : ndarray, shape (q, C)
        What the labels say, their mean.
    n_labels : ndarray of int, shape (q,)
        Labels, or clusters of them.
    n_alike, n_both : ndarray of int, shape (q,)
        Labels in all that say the same of one of the two models in uniform pairs, of whichever there are more; and of
        both, in either order.
    amount : ndarray, shape (q,)
        Sum of squared weights of the pair's units.
    seen : ndarray, shape (q, C, C)
        Second moment of the residuals, as much of it as the covariance of the influence values holds: what uniform
        pairs have in common is their mean, which centring takes off.
    table : ndarray, shape (K, K, C)
        Mean fitted probabilities of all pairs.
    weights : CategoryWeights
    ordered : bool
        Whether the two orders of a pair are two pairs.
    """

    first: IntArray
    second: IntArray
    label: FloatArray
    n_labels: IntArray
    n_alike: IntArray
    n_both: IntArray
    amount: FloatArray
    seen: FloatArray
    table: FloatArray
    weights: CategoryWeights
    ordered: bool

    def __len__(self) -> int:
        return len(self.first)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs in whichever order, the smaller code first."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        return sorted(set(zip(low.tolist(), high.tolist(), strict=True)))

    @property
    def lean(self) -> IntArray:
        """1 where the first model won all, -1 where the second did, 0 where all are even, (q,)."""
        return _lean(self.label, self.weights)

    def covariance(self, score: Score, floor: float, *, pooled: bool = True) -> FloatArray:
        """What the labels' covariance lacks in the covariance of a score's estimate, (d, d).

        Of each pair the larger, direction by direction, of J V J' and what the residuals show counts, the second as
        the influence values hold it already. V is the covariance of labels, of which a share as large as the rule of
        three allows says something else; J stands at the probabilities of such labels where the fitted ones are more
        extreme, for the slope of a logit has no bound.

        Parameters
        ----------
        score : Score
        floor : float
            Of mu, for scores that need one.
        pooled : bool
            Whether labels of other pairs that say the same of a model count; not so for a share of the pair alone.
        """
        given = clip_and_renormalise(self.table[None], floor)[0] if score.interior else self.table
        away, share = self._unseen(pooled)
        lifted = self._lifted(given, share) if score.interior else given
        return self._summed(away, partial(self._derivative, score, lifted), partial(self._derivative, score, given))

    def covariance_along(self, derivative: Derivative) -> FloatArray:
        """The same of an estimate whose derivatives along single pairs are given."""
        return self._summed(self._unseen(True)[0], derivative, derivative)

    def _summed(self, away: FloatArray, at_unseen: Derivative, at_fitted: Derivative) -> FloatArray:
        values, axes = np.linalg.eigh(self.seen)
        shown = axes * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        total: FloatArray | None = None
        step = max(1, _CHUNK // self.table.size)
        for start in range(0, len(self), step):
            part = slice(start, start + step)
            needed, held = self._along(at_unseen, away[part], part), self._along(at_fitted, shown[part], part)
            rows = np.sqrt(self.amount[part])[:, None, None] * lacking(needed, held)
            rows = rows.reshape(-1, rows.shape[2])
            total = rows.T @ rows if total is None else total + rows.T @ rows
        assert total is not None
        return total

    def _along(self, derivative: Derivative, directions: FloatArray, part: slice) -> FloatArray:
        """Derivatives along the columns of directions, (b, C, r), as rows, (b, r, d)."""
        first, second = self.first[part], self.second[part]
        made = [derivative(directions[:, :, column], first, second) for column in range(directions.shape[2])]
        return np.stack(made, axis=1)

    def _lifted(self, table: FloatArray, share: FloatArray) -> FloatArray:
        """The table, where what was not seen is at least as probable as ``share``, (q, C), says."""
        given = table[self.first, self.second]
        lifted = np.maximum(given, np.minimum(share, 0.5))
        lifted /= lifted.sum(axis=1, keepdims=True)
        made, other = table.copy(), (share > given).any(axis=1)
        first, second = self.first[other], self.second[other]
        made[first, second] = lifted[other]
        if not self.ordered:
            made[second, first] = lifted[other][:, self._flip]
        return made

    @property
    def _flip(self) -> IntArray:
        return exchanged_wins(self.label.shape[1])

    def _unseen(self, pooled: bool) -> tuple[FloatArray, FloatArray]:
        """Directions, (q, C, C), whose products add up to V, and the probability of each category not seen, (q, C)."""
        number = self.n_alike if pooled else self.n_both
        n_categories, worth = self.label.shape[1], np.array([self.weights.first, self.weights.second])
        # By how much the two shares change where a label were another one, (q, C, 2).
        change = worth.T[None] - (self.label @ worth.T)[:, None, :]
        other = np.abs(change).max(axis=2) > _ROUNDING
        share = np.zeros(self.label.shape)
        for kind in (np.arange(n_categories) < 2, np.arange(n_categories) >= 2):
            unseen = other & kind
            count = unseen.sum(axis=1)
            square = np.where(unseen, np.square(change).max(axis=2), 0.0).sum(axis=1) / np.maximum(count, 1)
            most = np.minimum(RULE_OF_THREE / number, _LARGEST / np.where(count > 0, square, 1.0))
            share += np.where(unseen, (most / np.maximum(count, 1))[:, None], 0.0)
        away = np.eye(n_categories)[None] - self.label[:, :, None]
        return away * np.sqrt(share)[:, None, :], share

    def _derivative(
        self, score: Score, table: FloatArray, along: FloatArray, first: IntArray, second: IntArray
    ) -> FloatArray:
        """Derivative of a score, (b, d), where the probabilities of all pairs are the table's."""
        if isinstance(score, PairLocalScore | PairDerivativeScore):
            made = _at_pairs(score, table, along, first, second)
            return made if self.ordered else made + _at_pairs(score, table, along[:, self._flip], second, first)
        delta = np.zeros((len(first), *table.shape))
        delta[np.arange(len(first)), first, second] = along
        if not self.ordered:
            delta += in_other_order(delta)
        return score.value_and_derivative(np.repeat(table[None], len(first), axis=0), delta)[1]


def _at_pairs(
    score: PairLocalScore | PairDerivativeScore, table: FloatArray, along: FloatArray, first: IntArray, second: IntArray
) -> FloatArray:
    if isinstance(score, PairLocalScore):
        return np.asarray(score.derivative_at(table[first, second], along, first, second, len(table)))
    return np.asarray(score.derivative_along(table, along, first, second))


def lacking(needed: FloatArray, held: FloatArray) -> FloatArray:
    """Rows, (b, s, d), whose sums of products are the positive part of those of ``needed`` less those of ``held``.

    Parameters
    ----------
    needed, held : ndarray, shape (b, r, d)

    Examples
    --------
    >>> lacking(np.array([[[5.0, 0.0]]]), np.array([[[4.0, 0.0]]])).round(12).any(axis=1)
    array([[ True, False]])
    >>> abs(lacking(np.array([[[5.0, 0.0]]]), np.array([[[4.0, 0.0]]]))).sum().round(12)
    np.float64(3.0)
    """
    both = np.concatenate([needed, held], axis=1)
    across, upper = np.linalg.qr(np.swapaxes(both, 1, 2))
    sign = np.repeat([1.0, -1.0], [needed.shape[1], held.shape[1]])
    values, axes = np.linalg.eigh((upper * sign) @ np.swapaxes(upper, 1, 2))
    # Rounding of the subtraction is no variance.
    largest = np.square(upper).sum(axis=(1, 2))[:, None]
    kept = np.where(values > 1e-12 * largest, values, 0.0)
    return np.swapaxes(across @ (axes * np.sqrt(kept)[:, None, :]), 1, 2)


def find_uniform_pairs(
    errors: LabelErrors, data: PreferenceData, weights: CategoryWeights, edges: NDArray[np.bool_]
) -> UniformPairs | None:
    """The compared pairs whose labels all count the same for both models; None where there is none.

    Parameters
    ----------
    errors : LabelErrors
    data : PreferenceData
    weights : CategoryWeights
    edges : ndarray of bool, shape (K, K)
        Pairs that are compared.
    """
    n_items, cells = data.n_items, errors.cells
    counted = (errors.weight > 0) & edges[cells.first, cells.second]
    if not counted.all():
        errors = errors.only(counted)
        cells = errors.cells
    pair = cells.first * n_items + cells.second
    uniform = np.bincount(pair, minlength=n_items**2) > 0
    for side in (weights.first, weights.second):
        share = cells.y @ np.array(side)
        low, high = np.full(n_items**2, np.inf), np.full(n_items**2, -np.inf)
        np.minimum.at(low, pair, share)
        np.maximum.at(high, pair, share)
        uniform &= ~(high - low > _ROUNDING)
    if not uniform.any():
        return None
    found = np.flatnonzero(uniform)
    inside = uniform[pair]
    place = np.searchsorted(found, pair[inside])
    own, size = errors.only(inside), len(found)
    label = _means(own.cells.y, place, size)
    product = own.residual[:, :, None] * own.residual[:, None, :]
    seen = _means(product.reshape(len(place), -1), place, size, np.square(own.weight))
    n_labels, amount = own.units_by_pair(place, size)
    total = np.bincount(place, own.weight, size)
    seen *= np.maximum(1 - total * total.sum() / (errors.n_units * amount), 0.0)[:, None]
    first, second = np.divmod(found, n_items)
    n_alike, n_both = _alike(first, second, _lean(label, weights), n_labels, n_items)
    return UniformPairs(
        first=first,
        second=second,
        label=label,
        n_labels=n_labels,
        n_alike=n_alike,
        n_both=n_both,
        amount=amount,
        seen=seen.reshape(size, label.shape[1], -1),
        table=_mean_table(errors, data),
        weights=weights,
        ordered=data.ordered,
    )


def _alike(
    first: IntArray, second: IntArray, lean: IntArray, n_labels: IntArray, n_items: int
) -> tuple[IntArray, IntArray]:
    """Labels that say the same of the pair's winner or its loser, the larger, and those of this pair, (q,) each."""
    winner, loser = np.where(lean >= 0, first, second), np.where(lean >= 0, second, first)
    lost, even = np.zeros((2, n_items, n_items), dtype=np.intp)
    decided = lean != 0
    np.add.at(lost, (loser[decided], winner[decided]), n_labels[decided])
    np.add.at(even, (first[~decided], second[~decided]), n_labels[~decided])
    even = even + even.T
    of_one = np.maximum(lost.sum(axis=1)[loser], lost.sum(axis=0)[winner])
    of_even = np.maximum(even.sum(axis=1)[first], even.sum(axis=1)[second])
    return np.where(decided, of_one, of_even), np.where(decided, lost[loser, winner], even[first, second])


def _lean(label: FloatArray, weights: CategoryWeights) -> IntArray:
    gap = label @ np.subtract(weights.first, weights.second)
    return np.where(np.abs(gap) > _ROUNDING, np.sign(gap), 0.0).astype(np.intp)


def _means(rows: FloatArray, place: IntArray, size: int, weight: FloatArray | None = None) -> FloatArray:
    """Means of rows, (m, c), by place, (size, c)."""
    total = np.bincount(place, weight, size)
    amounts = rows if weight is None else rows * weight[:, None]
    return np.stack([np.bincount(place, column, size) for column in amounts.T], axis=1) / total[:, None]


def _mean_table(errors: LabelErrors, data: PreferenceData) -> FloatArray:
    """Mean fitted probabilities of all pairs, (K, K, C), from those at the labels; even where there is none."""
    n_items, cells, n_categories = data.n_items, errors.cells, errors.mu.shape[1]
    pair = cells.first * n_items + cells.second
    count = np.bincount(pair, minlength=n_items**2).reshape(n_items, n_items, 1)
    total = np.stack([np.bincount(pair, column, n_items**2) for column in errors.mu.T], axis=1)
    table = total.reshape(n_items, n_items, n_categories) / np.maximum(count, 1)
    # The other order of a pair says what its own labels do not, and all there is where order does not matter.
    turned = in_other_order(table[None])[0]
    table = np.where(count > 0, table, np.where(np.swapaxes(count, 0, 1) > 0, turned, 1 / n_categories))
    table[np.arange(n_items), np.arange(n_items)] = 0.0
    return np.asarray(table, dtype=np.float64)
