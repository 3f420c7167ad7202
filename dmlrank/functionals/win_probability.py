"""The win probability of one item against another: the share of their comparisons that it wins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray, IntArray
from .category_weights import CategoryWeights


@dataclass(frozen=True, slots=True)
class PairWinProbability:
    """Symmetrised preference for one item over another: an (n, 1) score, linear in ``mu``.

    Parameters
    ----------
    weights : CategoryWeights
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
        """The share, (n, 1)."""
        pair = mu[:, [self.item, self.opponent]][:, :, [self.item, self.opponent]]
        return self.weights.symmetric(pair)[:, :1, 1]

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Derivative, (r, 1), along directions that differ from zero at one pair each."""
        ahead = (first == self.item) & (second == self.opponent)
        behind = (first == self.opponent) & (second == self.item)
        change = delta @ np.array(self.weights.first) * ahead + delta @ np.array(self.weights.second) * behind
        return np.asarray(change[:, None] / 2)

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The share at ``mu`` and its change along ``delta``."""
        return self.value(mu), self.value(delta)
