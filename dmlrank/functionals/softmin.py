"""Soft minimum: how an item fares against the opponent who suits it worst."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.graph import Graph
from ..data.preferences import FloatArray
from .category_weights import CategoryWeights, require_weights
from .preference_aggregates import PreferenceAggregate, checked_sharpness


@dataclass(frozen=True, slots=True, eq=False)
class SoftMin(PreferenceAggregate):
    r"""Soft minimum of an item's preferences over its opponents.

    .. math:: F_j(\mu) = -\frac{1}{a} \log \frac{1}{\deg_j} \sum_k \exp(-a s^{sym}_{jk})

    over the opponents of j on the graph, with the sharpness a. It lies between minimum and mean, and returns equal
    preferences unchanged; the paper's, without the mean in the logarithm, lies log(K - 1) / a lower. The hard minimum
    is not differentiable where two opponents tie for the worst.

    Parameters
    ----------
    weights : CategoryWeights or None
        What each category contributes to the first and to the second item. None is filled in by :meth:`bind`.
    graph : Graph or None
        Pairs that count. None means every pair.
    sharpness : float
        Near 0 it is the mean, for large values the minimum.

    Raises
    ------
    OptionError
        On a sharpness that is not positive and finite.

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
        object.__setattr__(self, "sharpness", checked_sharpness(self.sharpness, "softmin", "minimum"))

    def _with(self, weights: CategoryWeights | None, graph: Graph | None) -> SoftMin:
        return SoftMin(weights, graph, self.sharpness)

    def _pair_total(self, n_items: int) -> float | None:
        # One opponent each: the soft minimum of one preference is that preference, and the score is Borda's.
        return require_weights(self.weights, self.name).total if n_items == 2 else None

    def _scores(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        lowest, weight = self._weighed(preference, edges)
        return np.asarray(lowest[:, :, 0] - np.log(weight.sum(axis=2) / edges.sum(axis=1)) / self.sharpness)

    def _gradient(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        weight = self._weighed(preference, edges)[1]
        return np.asarray(weight / weight.sum(axis=2, keepdims=True))

    def _weighed(self, preference: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The smallest preference of each item, (n, K, 1), and exp(-a (preference - smallest)) on the graph."""
        lowest = np.where(edges > 0, preference, np.inf).min(axis=2, keepdims=True, initial=np.inf)
        shifted = np.where(edges > 0, preference - lowest, 0.0)
        return lowest, np.exp(-self.sharpness * shifted) * edges
