"""The linear approximation of a functional at one table of preferences, for scores of mean preferences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..data.outcomes import exchanged_wins, in_other_order
from ..data.preferences import FloatArray, IntArray
from .base import Functional, Gauge, PairDerivativeScore, PairLocalScore, output_names
from .custom import Custom

# Entries of the tables that are in memory at a time where a derivative needs a table for every direction.
_CHUNK = 2_000_000
# Largest number of such entries in all for which the curvature of a functional is computed.
_MOST_ENTRIES = 400_000_000
# Largest step of a second difference, as a share of the distance to the nearest limit of a share or probability.
_STEP = 0.02
# The room for steps of a functional that is finite at all shares of a win.
_ROOM = 0.2
# Entries of a direction that are smaller than this share of its largest entry are rounding errors.
_MOVES = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Linearised:
    """The linear approximation F(m) + DF(m) [mu - c] of a functional F at a table m of preferences.

    The scores of mean preferences, F(E mu(X)), have the influence values DF(m) [mu(x) + S / pi (Y - mu(x)) - m] with
    m = E mu(X). The one-step estimator of this linear approximation therefore has the right influence values. If c is
    the debiased mean of mu, its estimate is F(m).

    functional: F.
    table (K, K, C): m: probabilities of which F and its derivative are finite.
    centre (K, K, C): c: m, before probabilities were raised to a floor.
    jacobian (d, K, K, C): DF(m). Only its values along directions that sum to zero over the categories have a meaning.
    scores (d,): F(m), less the bias of F at an estimate of m.
    """

    functional: Functional
    table: FloatArray
    centre: FloatArray
    jacobian: FloatArray
    scores: FloatArray
    interior = False
    linear = True

    @classmethod
    def at(
        cls,
        functional: Functional,
        table: FloatArray,
        centre: FloatArray | None = None,
        bias: FloatArray | None = None,
    ) -> Linearised:
        """Return the linear approximation at a table of preferences, (K, K, C).

        Shapes: table (K, K, C), centre (K, K, C), bias (d,).
        """
        scores = functional.value(table[None])[0]
        if bias is not None:
            scores = scores - bias
        return cls(functional, table, table if centre is None else centre, jacobian_at(functional, table), scores)

    @property
    def name(self) -> str:
        """Name of the functional."""
        return self.functional.name

    @property
    def label(self) -> str:
        """Name and short description of the functional."""
        return self.functional.label

    def bind(self, *_: object, **__: object) -> Linearised:
        """Return this approximation: its functional has category weights and graph."""
        return self

    def neutral(self, n_items: int) -> float | None:
        """Return the neutral score of the functional."""
        return self.functional.neutral(n_items)

    def gauge(self, n_items: int) -> Gauge:
        """Return the gauge of the functional."""
        return self.functional.gauge(n_items)

    def names(self, items: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the d scores."""
        return output_names(self.functional, items)

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the approximate scores, (n, d), from category probabilities, (n, K, K, C)."""
        return self.scores + self.derivative(mu, mu) - self.derivative(mu, self.centre[None])

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the derivative along ``delta``, (n, d): one matrix product, which does not depend on ``mu``."""
        flat = self.jacobian.reshape(len(self.jacobian), -1)
        return np.asarray(delta.reshape(len(delta), -1) @ flat.T)

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the approximate scores and their derivative along ``delta``, (n, d) each."""
        return self.value(mu), self.derivative(mu, delta)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Return the derivative, (r, d), along directions that are zero except at one ordered pair each.

        Shapes: mu (r, C), delta (r, C), first, second (r,).
        """
        total = np.zeros((len(first), len(self.jacobian)))
        for category in range(delta.shape[1]):
            total += delta[:, category, None] * self.jacobian[:, first, second, category].T
        return total

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        """Return the trace of M J V J' for every context and ordered pair, (n, K, K).

        J is the derivative in the probabilities of the pair, the same in all contexts, V the covariance of a label with
        probabilities ``mu``, (n, K, K, C), and M the metric, (d, d), by default the identity.
        """
        size = len(self.jacobian)
        scale = np.eye(size) if metric is None else (metric + metric.T) / 2
        gram = np.einsum("ajkc,ab,bjke->jkce", self.jacobian, scale, self.jacobian, optimize=True)
        mean_square = np.einsum("jkcc,njkc->njk", gram, mu)
        return np.maximum(mean_square - np.einsum("njkc,jkce,njke->njk", mu, gram, mu, optimize=True), 0.0)

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Return the sum of amount J V J' over contexts and ordered pairs, (d, d).

        Shapes: mu (n, K, K, C), amount (n, K, K), labels (n, K, K, C).
        """
        mean = mu if labels is None else labels
        amounts = np.broadcast_to(amount, mean.shape[:3])
        variance = -np.einsum("njk,njkc,njke->jkce", amounts, mean, mean, optimize=True)
        categories = np.arange(mean.shape[-1])
        variance[..., categories, categories] += np.einsum("njk,njkc->jkc", amounts, mean)
        total = np.einsum("ajkc,jkce,bjke->ab", self.jacobian, variance, self.jacobian, optimize=True)
        return np.asarray((total + total.T) / 2)


def jacobian_at(functional: Functional, table: FloatArray) -> FloatArray:
    """Return the derivative of a functional in the probabilities of all ordered pairs, (d, K, K, C).

    Entry c is the derivative along the direction that raises the probability of category c and lowers that of the last
    category by the same amount. It is zero for the last category, and for pairs of a model with itself.

    Shapes: table (K, K, C).
    """
    n_items, n_categories = len(table), table.shape[-1]
    first, second = np.nonzero(~np.eye(n_items, dtype=bool))
    columns = []
    for category in range(n_categories - 1):
        direction = np.zeros((len(first), n_categories))
        direction[:, category], direction[:, -1] = 1.0, -1.0
        columns.append(derivatives_at_pairs(functional, table, direction, first, second))
    jacobian = np.zeros((columns[0].shape[1], n_items, n_items, n_categories))
    for category, column in enumerate(columns):
        jacobian[:, first, second, category] = column.T
    return jacobian


def derivatives_at_pairs(
    functional: Functional, table: FloatArray, direction: FloatArray, first: IntArray, second: IntArray
) -> FloatArray:
    """Return derivatives at one table along directions that are zero except at one ordered pair each, (r, d).

    Shapes: table (K, K, C), direction (r, C), first, second (r,).
    """
    if isinstance(functional, PairLocalScore):
        return functional.derivative_at(table[first, second], direction, first, second, len(table))
    if isinstance(functional, PairDerivativeScore):
        return functional.derivative_along(table, direction, first, second)
    rows = []
    step = max(1, _CHUNK // table.size)
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        delta = np.zeros((len(first[part]), *table.shape))
        delta[np.arange(len(delta)), first[part], second[part]] = direction[part]
        rows.append(functional.derivative(np.broadcast_to(table, delta.shape), delta))
    return np.concatenate(rows)


def curvature_bias(
    functional: Functional, table: FloatArray, moment: FloatArray, uses: NDArray[np.bool_], ordered: bool
) -> FloatArray:
    """Return the second-order bias of F at an estimate of a table of preferences, (d,): half the trace of D2F times V.

    Errors of different pairs are taken as independent. The result is NaN where the second differences would need too
    much computation.

    Shapes: table (K, K, C), moment (K, K, C, C), uses (K, K).
    """
    n_scores = functional.value(table[None]).shape[1]
    values, axes = np.linalg.eigh(moment)
    roots = axes * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    first, second, axis = np.nonzero((np.abs(roots).max(axis=-2) > 0) & uses[:, :, None])
    direction = roots[first, second, :, axis]
    share = _step_lengths(functional, table[first, second], direction)
    is_counted = share > 0
    first, second, direction, share = first[is_counted], second[is_counted], direction[is_counted], share[is_counted]
    if not len(first):
        return np.zeros(n_scores)
    if isinstance(functional, PairLocalScore):
        return _local_curvature(functional, table, share[:, None] * direction, share, (first, second), ordered=ordered)
    if 2 * len(first) * table.size > _MOST_ENTRIES:
        return np.full(n_scores, np.nan)
    at_table, total = functional.value(table[None])[0], np.zeros(n_scores)
    step = max(1, _CHUNK // table.size)
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        delta = np.zeros((len(first[part]), *table.shape))
        delta[np.arange(len(delta)), first[part], second[part]] = share[part, None] * direction[part]
        if not ordered:
            delta += in_other_order(delta)
        second_difference = functional.value(table + delta) + functional.value(table - delta) - 2 * at_table
        total += (second_difference / share[part, None] ** 2).sum(axis=0) / 2
    return total


def _step_lengths(functional: Functional, probabilities: FloatArray, direction: FloatArray) -> FloatArray:
    """Return the length of the step along each direction as a share of the direction, (r,), at most 1.

    Shapes: probabilities (r, C), direction (r, C).
    """
    weights = None if isinstance(functional, Custom) else getattr(functional, "weights", None)
    if weights is None:
        change = np.where(np.abs(direction) > _MOVES * np.abs(direction).max(axis=1, keepdims=True), direction, 0.0)
        room = probabilities
    else:
        by_share = np.array([weights.first, weights.second]).T
        change, wins = direction @ by_share, probabilities @ by_share
        room = np.minimum(wins, 1 - wins) if functional.interior else np.full_like(wins, _ROOM)
    ratio = np.divide(room, np.abs(change), out=np.full(change.shape, np.inf), where=change != 0)
    return np.minimum(1.0, _STEP * np.maximum(ratio.min(axis=1), 0.0))


def _local_curvature(
    functional: PairLocalScore,
    table: FloatArray,
    change: FloatArray,
    share: FloatArray,
    pairs: tuple[IntArray, IntArray],
    *,
    ordered: bool,
) -> FloatArray:
    """Return :func:`curvature_bias`, (d,), of a functional whose derivative at a pair depends on this pair alone.

    Shapes: table (K, K, C), change (r, C), share (r,), pairs (r,).
    """
    first, second = pairs
    orders = [(first, second, change)]
    if not ordered:
        orders.append((second, first, change[:, exchanged_wins(change.shape[1])]))
    total: FloatArray | None = None
    for j, k, delta in orders:
        step = max(1, _CHUNK // len(table))
        for start in range(0, len(j), step):
            part = slice(start, start + step)
            mu, rows = table[j[part], k[part]], (j[part], k[part], len(table))
            second_difference = functional.derivative_at(mu + delta[part], delta[part], *rows)
            second_difference = second_difference - functional.derivative_at(mu - delta[part], delta[part], *rows)
            part_sum = (second_difference / (4 * share[part, None] ** 2)).sum(axis=0)
            total = part_sum if total is None else total + part_sum
    assert total is not None
    return total
