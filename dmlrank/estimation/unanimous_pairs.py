"""Unanimous pairs, all of whose labels are equal: the variance that these labels do not show, by the rule of three.

Notes
-----
J is the derivative of a score in the probabilities of a pair, and V the covariance of a label of the pair. n labels
that are all equal show no variance, although the next label may differ. For n losses, the rule of three gives the upper
limit 3 / n for the probability of a win. The variance c / n of a label, with c = (3 / 1.96)^2, gives the mean of n
labels the standard error sqrt(c) / n, so that the limit of a 95 % interval is 1.96 sqrt(c) / n = 3 / n. V is the
covariance of a label that has each other kind of category with the probability c / n, as long as the variance of a
model's share stays below 1/4. n counts all labels in unanimous pairs that the winner won, or all that the loser lost,
whichever are more.

The covariance of the influence values contains J M J' already, with M the second moment of the residuals Y - mu. A pair
adds sum of squared weights times the positive part of J V J' - J M J': the part with positive eigenvalues. Where the
fitted probabilities are more extreme than the rule allows, J in J V J' is taken at probabilities that are raised to the
limits of the rule, because the slope of a logit would have no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..data.arrays import BoolArray, RowRecord, row_slices
from ..data.outcomes import CategoryWeights, exchanged_wins, in_other_order
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..functionals import Functional, is_moved_by_pair
from .cross_fitting import clip_and_renormalise

# For n labels that are all losses, the rule of three gives the upper limit 3 / n for the probability of a win. If a
# label has the variance c / n, the mean of n labels has the standard error sqrt(c) / n. With this constant c, the limit
# of a 95 % interval is 1.96 sqrt(c) / n = 3 / n.
RULE_OF_THREE = (3 / 1.959963984540054) ** 2
# Largest variance of a share in [0, 1].
_LARGEST_VARIANCE = 0.25
# Shares that differ by less count as equal.
_ROUNDING = 1e-12
# Number of entries of directions in memory at a time.
_CHUNK = 10_000_000

# Takes directions, (r, C), and the ordered pairs (first, second) at which they are, and returns derivatives, (r, d).
Derivative: TypeAlias = Callable[[FloatArray, IntArray, IntArray], FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class LabelErrors(RowRecord):
    """Contribution of each label to the error of an estimate: its weight times J times its residual.

    cells: The m labelled cells.
    weight (m,): Weight of each label in the estimate, 1 / (n pi) for a mean over n contexts; zero for labels that do
        not count.
    mu (m, C): Fitted probabilities.
    residual (m, C): Label less its expected value.
    unit (m,): The context of each label, or its cluster where labels of a cluster depend on each other.
    n_units: Number of units over which influence values are centred; infinite where they are not centred.
    other_unit (m,): The cluster of each label in a second grouping, crossed with the first.
    apart (K,): Models whose labels play no part in what is computed for pairs of others; None without any.
    """

    cells: Cells
    weight: FloatArray
    mu: FloatArray
    residual: FloatArray
    unit: IntArray
    n_units: float = np.inf
    other_unit: IntArray | None = None
    apart: BoolArray | None = None
    shared = ("n_units", "apart")

    def units_by_pair(self, pair: IntArray, size: int) -> tuple[IntArray, FloatArray]:
        """Count each pair's units, (size,), and sum the squares of the units' weights, (size,).

        With two crossed groupings, a pair gets the smaller of the two counts and the larger of the two sums.

        Shapes: pair (m,).
        """
        groupings = [self.unit] if self.other_unit is None else [self.unit, self.other_unit]
        counts, sums = [], []
        for unit in groupings:
            pair_units, pair_unit_of_label = np.unique(np.stack([pair, unit], axis=1), axis=0, return_inverse=True)
            place = pair_unit_of_label.reshape(-1)
            square: FloatArray = np.square(np.bincount(place, self.weight, len(pair_units)))
            # A label with copies is the only one of its unit.
            copies = 1 if self.cells.copies is None else np.bincount(place, self.cells.copies)
            counts.append(np.bincount(pair_units[:, 0], np.broadcast_to(copies, len(square)), size))
            sums.append(np.bincount(pair_units[:, 0], square * copies, size))
        return np.min(counts, axis=0).astype(np.intp), np.max(sums, axis=0).astype(float)


@dataclass(frozen=True, slots=True, eq=False)
class UnanimousPairs:
    """Pairs all of whose labels are equal, so that the labels do not show the variance of a label.

    first, second (q,): The ordered pairs.
    label (q, C): Mean label of each pair.
    n_labels (q,): Number of labels of each pair; where labels of a cluster depend on each other, number of clusters.
    n_pooled (q,): The larger of two numbers of labels: of all unanimous pairs that this pair's winner won, and of all
        unanimous pairs that this pair's loser lost. If the labels of this pair are ties, the larger of two other
        numbers: for each of the two models, the labels of all unanimous pairs in which this model tied.
    n_both_orders (q,): Number of labels of this pair with the same winner, in both orders together.
    squared_weight (q,): Sum of the squared weights of the pair's units.
    residual_moment (q, C, C): Second moment of the residuals, as far as the covariance of the influence values contains
        it. Influence values are centred, and subtracting their mean, to which the unanimous pairs contribute, makes the
        second moment smaller.
    table (K, K, C): Mean fitted probabilities of all pairs.
    ordered: Whether the two orders of a pair are two pairs.
    """

    first: IntArray
    second: IntArray
    label: FloatArray
    n_labels: IntArray
    n_pooled: IntArray
    n_both_orders: IntArray
    squared_weight: FloatArray
    residual_moment: FloatArray
    table: FloatArray
    weights: CategoryWeights
    ordered: bool

    def __len__(self) -> int:
        return len(self.first)

    @property
    def pairs(self) -> IntArray:
        """The unordered pairs, (q, 2), each with the smaller index first."""
        low, high, n_items = np.minimum(self.first, self.second), np.maximum(self.first, self.second), len(self.table)
        return np.column_stack(np.divmod(np.unique(low * n_items + high), n_items))

    def covariance(self, score: Functional, floor: float, *, pooled: bool = True) -> FloatArray:
        """Return the covariance of a score's estimate that the labels of unanimous pairs do not show, (d, d).

        ``pooled`` says whether labels of other unanimous pairs of the same models count in the rule of three.
        """
        table = clip_and_renormalise(self.table[None], floor)[0] if score.interior else self.table
        unseen_directions, limit = self._unseen_directions(pooled)
        raised_table = self._raise_probabilities(table, limit) if score.interior else table
        if is_moved_by_pair(score):
            # Only lengths are compared.
            unseen, observed = (
                sum(
                    np.square(score.term_changes(table, column, self.first, self.second, ordered=self.ordered))
                    for column in np.moveaxis(directions, 2, 0)
                )
                for table, directions in ((raised_table, unseen_directions), (table, self._observed_directions()))
            )
            excess = np.where(unseen - observed > _ROUNDING * (unseen + observed), unseen - observed, 0.0)
            amounts = np.zeros(table.shape[:2])
            amounts[self.first, self.second] = self.squared_weight * excess
            return score.sum_over_pairs(amounts)
        along = partial(score.derivative_along, ordered=self.ordered)
        return self._excess_covariance(unseen_directions, partial(along, raised_table), partial(along, table))

    def covariance_along(self, derivative: Derivative) -> FloatArray:
        """Return the covariance that the labels of unanimous pairs do not show, (d, d), of an estimate without a score.

        ``derivative`` returns the derivatives of the estimate along directions at ordered pairs.
        """
        return self._excess_covariance(self._unseen_directions(True)[0], derivative, derivative)

    def _excess_covariance(
        self, unseen_directions: FloatArray, at_unseen: Derivative, at_fitted: Derivative
    ) -> FloatArray:
        """Add up over pairs the positive part of J V J' minus the second moment of the residuals, (d, d).

        Shapes: unseen_directions (q, C, C).
        """
        observed = self._observed_directions()
        total: FloatArray = np.zeros(())
        # A pair has a row of derivatives for each direction at both tables.
        for part in row_slices(len(self), 2 * self.table[0].size, _CHUNK):
            first, second = self.first[part], self.second[part]
            # Derivatives along the columns of directions, (b, C, r), as rows, (b, r, d).
            unseen_rows, observed_rows = (
                np.stack([derivative(column, first, second) for column in np.moveaxis(directions[part], 2, 0)], axis=1)
                for derivative, directions in ((at_unseen, unseen_directions), (at_fitted, observed))
            )
            rows = np.sqrt(self.squared_weight[part])[:, None, None] * positive_difference(unseen_rows, observed_rows)
            rows = rows.reshape(-1, rows.shape[2])
            total = total + rows.T @ rows
        return total

    def _observed_directions(self) -> FloatArray:
        """Return directions, (q, C, C), whose products add up to the second moment of the residuals."""
        values, axes = np.linalg.eigh(self.residual_moment)
        return np.asarray(axes * np.sqrt(np.maximum(values, 0.0))[:, None, :])

    def _raise_probabilities(self, table: FloatArray, limit: FloatArray) -> FloatArray:
        """Return the table, (K, K, C), with probabilities of unanimous pairs that are at least ``limit``, (q, C)."""
        fitted = table[self.first, self.second]
        raised = np.maximum(fitted, np.minimum(limit, 0.5))
        raised /= raised.sum(axis=1, keepdims=True)
        result, is_raised = table.copy(), (limit > fitted).any(axis=1)
        first, second = self.first[is_raised], self.second[is_raised]
        result[first, second] = raised[is_raised]
        if not self.ordered:
            result[second, first] = raised[is_raised][:, exchanged_wins(self.label.shape[1])]
        return result

    def _unseen_directions(self, pooled: bool) -> tuple[FloatArray, FloatArray]:
        """Return directions, (q, C, C), whose products add up to V, and limits for unseen categories, (q, C)."""
        n_equal = self.n_pooled if pooled else self.n_both_orders
        n_categories, weights = self.label.shape[1], np.array([self.weights.first, self.weights.second])
        # Changes of the two models' shares if a label had another category, (q, C, 2).
        change = weights.T[None] - (self.label @ weights.T)[:, None, :]
        differs = np.abs(change).max(axis=2) > _ROUNDING
        limit = np.zeros(self.label.shape)
        # Wins come first, then ties. The unseen categories of each kind share the probability that the rule allows. The
        # variance of a model's share stays below the largest that is possible.
        for is_kind in (np.arange(n_categories) < 2, np.arange(n_categories) >= 2):
            is_unseen = differs & is_kind
            count = is_unseen.sum(axis=1)
            mean_square = np.where(is_unseen, np.square(change).max(axis=2), 0.0).sum(axis=1) / np.maximum(count, 1)
            allowed = np.minimum(RULE_OF_THREE / n_equal, _LARGEST_VARIANCE / np.where(count > 0, mean_square, 1.0))
            limit += np.where(is_unseen, (allowed / np.maximum(count, 1))[:, None], 0.0)
        directions = np.eye(n_categories)[None] - self.label[:, :, None]
        return directions * np.sqrt(limit)[:, None, :], limit


def positive_difference(minuend: FloatArray, subtrahend: FloatArray) -> FloatArray:
    """Return rows R, (b, s, d), such that R'R is the positive part of M'M - S'S, for each of b pairs of M and S.

    Shapes: minuend, subtrahend (b, r, d).
    """
    stacked = np.concatenate([minuend, subtrahend], axis=1)
    orthonormal, upper = np.linalg.qr(np.swapaxes(stacked, 1, 2))
    sign = np.repeat([1.0, -1.0], [minuend.shape[1], subtrahend.shape[1]])
    values, axes = np.linalg.eigh((upper * sign) @ np.swapaxes(upper, 1, 2))
    # Eigenvalues of the size of rounding errors count as zero.
    largest = np.square(upper).sum(axis=(1, 2))[:, None]
    positive = np.where(values > _ROUNDING * largest, values, 0.0)
    return np.swapaxes(orthonormal @ (axes * np.sqrt(positive)[:, None, :]), 1, 2)


def find_unanimous_pairs(
    errors: LabelErrors, data: PreferenceData, weights: CategoryWeights, edges: NDArray[np.bool_]
) -> UnanimousPairs | None:
    """Find the compared pairs all of whose labels count the same for each model; None where there are none.

    Shapes: edges (K, K).
    """
    cells, n_items = errors.cells, data.n_items
    is_counted = (errors.weight > 0) & edges[cells.first, cells.second]
    if not is_counted.all():
        errors, cells = errors.only(is_counted), cells.only(is_counted)
    pair = cells.first * n_items + cells.second
    is_unanimous = np.bincount(pair, minlength=n_items**2) > 0
    for side in (weights.first, weights.second):
        share = cells.y @ np.array(side)
        low, high = np.full(n_items**2, np.inf), np.full(n_items**2, -np.inf)
        np.minimum.at(low, pair, share)
        np.maximum.at(high, pair, share)
        is_unanimous &= ~(high - low > _ROUNDING)
    if not is_unanimous.any():
        return None
    codes = np.flatnonzero(is_unanimous)
    in_unanimous, n_pairs = is_unanimous[pair], len(codes)
    place = np.searchsorted(codes, pair[in_unanimous])
    unanimous_errors = errors.only(in_unanimous)
    count = unanimous_errors.cells.count
    label = _means(unanimous_errors.cells.y, place, n_pairs, count)
    n_labels, squared_weight = unanimous_errors.units_by_pair(place, n_pairs)
    first, second = np.divmod(codes, n_items)
    gap = label @ np.subtract(weights.first, weights.second)
    winner_sign = np.where(np.abs(gap) > _ROUNDING, np.sign(gap), 0.0)
    is_apart = unanimous_errors.cells.of(errors.apart)[np.unique(place, return_index=True)[1]]
    (n_pooled, n_both_orders), (of_others, _) = (
        _count_same_results(first, second, winner_sign, n_labels=n, n_items=n_items)
        for n in (n_labels, np.where(is_apart, 0, n_labels))
    )
    n_pooled = np.where(is_apart, n_pooled, of_others)
    # The second moment of the residuals in the covariance of the influence values.
    residual, weight = unanimous_errors.residual, unanimous_errors.weight
    product = (residual[:, :, None] * residual[:, None, :]).reshape(len(place), -1)
    total = np.bincount(place, weight * count, n_pairs)
    kept = np.maximum(1 - total * total[~is_apart].sum() / (errors.n_units * squared_weight), 0.0)
    moment = _means(product, place, n_pairs, np.square(weight) * count) * kept[:, None]
    return UnanimousPairs(
        first=first,
        second=second,
        label=label,
        n_labels=n_labels,
        n_pooled=n_pooled,
        n_both_orders=n_both_orders,
        squared_weight=squared_weight,
        residual_moment=moment.reshape(n_pairs, residual.shape[1], -1),
        table=_mean_table(errors, data),
        weights=weights,
        ordered=data.ordered,
    )


def _count_same_results(
    first: IntArray, second: IntArray, winner_sign: FloatArray, *, n_labels: IntArray, n_items: int
) -> tuple[IntArray, IntArray]:
    """Count labels with the same result, (q,) each: of all pairs of the winner or the loser, and of this pair.

    The sign is 1 where the first model leads by the label, -1 where the second does, else 0.

    Shapes: first, second (q,), winner_sign (q,), n_labels (q,).
    """
    winner, loser = np.where(winner_sign >= 0, first, second), np.where(winner_sign >= 0, second, first)
    n_lost, n_even = np.zeros((2, n_items, n_items), dtype=np.intp)
    has_winner = winner_sign != 0
    np.add.at(n_lost, (loser[has_winner], winner[has_winner]), n_labels[has_winner])
    np.add.at(n_even, (first[~has_winner], second[~has_winner]), n_labels[~has_winner])
    n_even = n_even + n_even.T
    pooled = np.maximum(n_lost.sum(axis=1)[loser], n_lost.sum(axis=0)[winner])
    pooled_even = np.maximum(n_even.sum(axis=1)[first], n_even.sum(axis=1)[second])
    of_pair = np.where(has_winner, n_lost[loser, winner], n_even[first, second])
    return np.where(has_winner, pooled, pooled_even), of_pair


def _means(rows: FloatArray, place: IntArray, size: int, weight: FloatArray | IntArray) -> FloatArray:
    """Average rows by place, (size, c); shapes: rows (m, c), place (m,), weight (m,)."""
    total = np.bincount(place, weight, size)
    sums = [np.bincount(place, column * weight, size) for column in rows.T]
    return np.stack(sums, axis=1) / total[:, None]


def _mean_table(errors: LabelErrors, data: PreferenceData) -> FloatArray:
    """Return the mean fitted probabilities of all pairs, (K, K, C), over their labels; even ones for other pairs."""
    n_items, cells, n_categories = data.n_items, errors.cells, errors.mu.shape[1]
    count = cells.counts(n_items)[:, :, None]
    total = np.stack([cells.sums(column * cells.count, n_items) for column in errors.mu.T], axis=-1)
    table = total / np.maximum(count, 1)
    # A pair without labels in one order has the probabilities of its other order.
    mirrored = in_other_order(table[None])[0]
    table = np.where(count > 0, table, np.where(np.swapaxes(count, 0, 1) > 0, mirrored, 1 / n_categories))
    table[np.arange(n_items), np.arange(n_items)] = 0.0
    return np.asarray(table, dtype=np.float64)
