"""The position effect: how much better an item does when it is shown first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from .category_weights import CategoryWeights


@dataclass(frozen=True, slots=True)
class PositionEffect:
    """Mean over the ordered pairs of the graph of s1 - s2: an (n, 1) score, zero where order does not matter.

    Parameters
    ----------
    weights : CategoryWeights
        Mirrored ones, such as every tie one half.
    graph : Graph

    Examples
    --------
    >>> mu = np.zeros((1, 2, 2, 2)); mu[0, 0, 1] = [0.7, 0.3]; mu[0, 1, 0] = [0.4, 0.6]
    >>> PositionEffect(CategoryWeights.half(2), Graph.all_pairs(2)).value(mu).round(3)
    array([[0.1]])
    """

    weights: CategoryWeights
    graph: Graph
    interior = False

    def value(self, mu: FloatArray) -> FloatArray:
        """The advantage, (n, 1)."""
        gap = np.subtract(self.weights.first, self.weights.second)
        return ((mu @ gap) * self.graph.edges).sum(axis=(1, 2))[:, None] / (2 * self.graph.n_edges)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Derivative, (r, 1), along directions that differ from zero at one pair each."""
        gap = delta @ np.subtract(self.weights.first, self.weights.second)
        return np.asarray((gap * self.graph.edges[first, second])[:, None] / (2 * self.graph.n_edges))

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The advantage at ``mu`` and its change along ``delta``."""
        return self.value(mu), self.value(delta)
