"""The position effect: the mean advantage of the item that is shown first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from .category_weights import CategoryWeights


@dataclass(frozen=True, slots=True)
class PositionEffect:
    """Mean of s1 - s2 over the ordered pairs of the graph, which is zero where display order does not matter.

    s1 and s2 are the preferences for the item shown first and for the item shown second. The score is (n, 1).

    weights: Weights that are symmetric in the items (``mirrored``), such as one half for every tie.
    graph: Pairs over which the mean is taken.
    """

    weights: CategoryWeights
    graph: Graph
    interior = False

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the mean advantage, (n, 1), from category probabilities ``mu``, (n, K, K, C)."""
        gap = np.einsum("njk,jk->n", self.weights.gap(mu), self.graph.edges.astype(float))
        return gap[:, None] / (2 * self.graph.n_edges)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Return the derivative, (r, 1), along directions that are zero except at one ordered pair each.

        Shapes: mu (r, C), delta (r, C), first, second (r,).
        """
        gap = delta @ np.subtract(self.weights.first, self.weights.second)
        return np.asarray((gap * self.graph.edges[first, second])[:, None] / (2 * self.graph.n_edges))

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean advantage and its derivative along ``delta``, (n, 1) each."""
        return self.value(mu), self.value(delta)
