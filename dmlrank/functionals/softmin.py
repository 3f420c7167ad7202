"""Soft minimum of preferences: how an item does against its strongest opponent, in a smooth version."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.graph import Graph
from ..data.preferences import FloatArray
from .category_weights import CategoryWeights, require_weights
from .graph_weights import check_weights_and_graph
from .preference_aggregates import PreferenceAggregate, checked_sharpness


@dataclass(frozen=True, slots=True, eq=False)
class SoftMin(PreferenceAggregate):
    r"""Soft minimum of an item's preferences over its opponents.

    .. math:: F_j(\mu) = -\frac{1}{a} \log \frac{1}{\deg_j} \sum_k \exp(-a s^{sym}_{jk})

    where k runs over the opponents of j on the graph and a is the sharpness. The soft minimum lies between minimum and
    mean; for equal preferences it is their value. The paper's soft minimum has a sum instead of the mean in the
    logarithm and is lower by log(K - 1) / a. The minimum itself is not differentiable where two opponents share the
    lowest preference.

    Parameters
    ----------
    weights : CategoryWeights or None
        How much each category counts for the first and for the second item. None if :meth:`bind` sets them later.
    graph : Graph or None
        Pairs of opponents. None means every pair.
    sharpness : float
        For values near 0 the score is near the mean, for large values near the minimum.

    Raises
    ------
    OptionError
        If the sharpness is not positive and finite.

    References
    ----------
    Frauen et al., arXiv 2601.21816, "Custom ranking estimands".

    Examples
    --------
    >>> mu = np.full((1, 3, 3, 2), 0.5); mu[0, 0, 1] = [0.9, 0.1]; mu[0, 1, 0] = [0.1, 0.9]
    >>> SoftMin(CategoryWeights.half(2)).value(mu).round(3)
    array([[0.535, 0.135, 0.5  ]])
    """

    weights: CategoryWeights | None = None
    graph: Graph | None = None
    sharpness: float = 20.0
    name = "softmin"
    interior = False
    linear = False
    label = "softmin (worst opponent)"

    def __post_init__(self) -> None:
        check_weights_and_graph("softmin", self.weights, self.graph)
        object.__setattr__(self, "sharpness", checked_sharpness(self.sharpness, "softmin", "minimum"))

    def _with(self, weights: CategoryWeights | None, graph: Graph | None) -> SoftMin:
        return SoftMin(weights, graph, self.sharpness)

    def _pair_total(self, n_items: int) -> float | None:
        """Return the sum of a pair's category weights for two items, and None for more items."""
        # With one opponent each, the soft minimum is the preference for the item, as in a Borda score.
        return require_weights(self.weights, self.name).total if n_items == 2 else None

    def _scores(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        lowest, weight = self._lowest_and_weights(preference, edges)
        return np.asarray(lowest[:, :, 0] - np.log(weight.sum(axis=2) / edges.sum(axis=1)) / self.sharpness)

    def _gradient(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        weight = self._lowest_and_weights(preference, edges)[1]
        return np.asarray(weight / weight.sum(axis=2, keepdims=True))

    def _lowest_and_weights(self, preference: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return each item's lowest preference, (n, K, 1), and exp(-a (preference - lowest)), zero off the graph."""
        lowest = np.where(edges > 0, preference, np.inf).min(axis=2, keepdims=True, initial=np.inf)
        shifted = np.where(edges > 0, preference - lowest, 0.0)
        return lowest, np.exp(-self.sharpness * shifted) * edges
