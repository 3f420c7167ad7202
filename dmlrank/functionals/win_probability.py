"""The win probability of one item against another: its expected share of the wins in their comparisons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray, IntArray
from .category_weights import CategoryWeights


@dataclass(frozen=True, slots=True)
class PairWinProbability:
    """Symmetrised preference for one item over another, a score (n, 1) that is linear in ``mu``.

    Parameters
    ----------
    weights : CategoryWeights
        How much each category counts for the first and for the second item.
    item, opponent : int
        Codes of the two items.

    Examples
    --------
    >>> mu = np.zeros((1, 2, 2, 2)); mu[0, 0, 1] = [0.7, 0.3]; mu[0, 1, 0] = [0.2, 0.8]
    >>> PairWinProbability(CategoryWeights.half(2), 0, 1).value(mu)
    array([[0.75]])
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

        Parameters
        ----------
        mu : ndarray, shape (r, C)
            Category probabilities of the pairs.
        delta : ndarray, shape (r, C)
            Directions.
        first, second : ndarray of int, shape (r,)
            The ordered pair of each direction.
        n_items : int
            K.
        """
        is_first = (first == self.item) & (second == self.opponent)
        is_second = (first == self.opponent) & (second == self.item)
        change = delta @ np.array(self.weights.first) * is_first + delta @ np.array(self.weights.second) * is_second
        return np.asarray(change[:, None] / 2)

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the win probability and its derivative along ``delta``, (n, 1) each."""
        return self.value(mu), self.value(delta)
