"""Win probabilities: the expected share of the wins of one item in its comparisons with another item."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray, IntArray
from .category_weights import CategoryWeights


@dataclass(frozen=True, slots=True)
class PairWinProbability:
    """Symmetrised preference for one item over another, a score (n, 1) that is linear in ``mu``.

    weights: How much each category counts for the first and for the second item.
    item, opponent: Codes of the two items.
    """

    weights: CategoryWeights
    item: int
    opponent: int
    interior = False

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the win probability, (n, 1), from category probabilities ``mu``, (n, K, K, C)."""
        pair = mu[:, [self.item, self.opponent]][:, :, [self.item, self.opponent]]
        return self.weights.symmetric(pair)[:, :1, 1]

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Return the derivative, (r, 1), along directions that are zero except at one ordered pair each.

        Shapes: mu (r, C), delta (r, C), first, second (r,).
        """
        is_first = (first == self.item) & (second == self.opponent)
        is_second = (first == self.opponent) & (second == self.item)
        change = delta @ np.array(self.weights.first) * is_first + delta @ np.array(self.weights.second) * is_second
        return np.asarray(change[:, None] / 2)

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the win probability and its derivative along ``delta``, (n, 1) each."""
        return self.value(mu), self.value(delta)


@dataclass(frozen=True, slots=True, eq=False)
class PairMargins:
    """Margins of pairs of items, a score (n, P) that is linear in ``mu``: the win share of one item minus the other's.

    A win share is the symmetrised preference: the mean over both display orders.

    weights: How much each category counts for the first and for the second item.
    item, opponent (P,): Codes of the two items of each pair.
    """

    weights: CategoryWeights
    item: IntArray
    opponent: IntArray
    interior = False

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the margins, (n, P), from category probabilities ``mu``, (n, K, K, C)."""
        gap = np.subtract(self.weights.first, self.weights.second)
        return np.asarray((mu[:, self.item, self.opponent] @ gap - mu[:, self.opponent, self.item] @ gap) / 2)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Return the derivative, (r, P), along directions that are zero except at one ordered pair each.

        Shapes: mu (r, C), delta (r, C), first, second (r,).
        """
        place, sign = np.full((n_items, n_items), -1), np.zeros((n_items, n_items))
        place[self.item, self.opponent] = place[self.opponent, self.item] = np.arange(len(self.item))
        sign[self.item, self.opponent], sign[self.opponent, self.item] = 0.5, -0.5
        change = delta @ np.subtract(self.weights.first, self.weights.second) * sign[first, second]
        derivative, rows = np.zeros((len(first), len(self.item))), np.flatnonzero(place[first, second] >= 0)
        derivative[rows, place[first, second][rows]] = change[rows]
        return derivative

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the margins and their derivative along ``delta``, (n, P) each."""
        return self.value(mu), self.value(delta)
