"""Smooth aggregates of an item's preferences over its opponents: what dominance and the soft minimum share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ..data.graph import Graph
from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .base import Gauge, symmetric_metric
from .category_weights import CategoryWeights, require_weights
from .graph_weights import checked_graph


@dataclass(frozen=True, slots=True, eq=False)
class PreferenceAggregate:
    r"""A score :math:`F_j(\mu) = f(s^{sym}_{jk} : k \text{ an opponent of } j)` with gradient :math:`g_{jk}`.

    What depends on the gradient alone is here; a child says what f is. The Jacobian of an ordered pair is
    (g_jk e_j w1' + g_kj e_k w2') / 2.

    Parameters
    ----------
    weights : CategoryWeights or None
        What each category contributes to the first and to the second item. None is filled in by :meth:`bind`.
    graph : Graph or None
        Pairs that count. None means every pair.
    """

    weights: CategoryWeights | None = None
    graph: Graph | None = None
    name = ""
    interior = False
    linear = False

    def bind(
        self,
        weights: CategoryWeights | None = None,
        graph: Graph | None = None,
        edge_weights: FloatArray | None = None,
    ) -> Self:
        """A copy in which what was not set yet is set; it has no edge weights."""
        if edge_weights is not None:
            raise OptionError(f"edge_weights apply to borda and bt; {self.name} has none")
        return self._with(
            weights if self.weights is None else self.weights, graph if self.graph is None else self.graph
        )

    def value(self, mu: FloatArray) -> FloatArray:
        """Scores, (n, K), from category probabilities ``mu``, (n, K, K, C)."""
        return self._scores(self._preferences(mu), self._edges(mu.shape[1]))

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Directional derivative, (n, K), at ``mu`` along ``delta``, both (n, K, K, C)."""
        return self._along(self._gradient(self._preferences(mu), self._edges(mu.shape[1])), delta)

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and their derivative along ``delta``, (n, K) each."""
        preference, edges = self._preferences(mu), self._edges(mu.shape[1])
        return self._scores(preference, edges), self._along(self._gradient(preference, edges), delta)

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        """Trace of metric J V J' for every ordered pair, (n, K, K): what one label of the pair tells about all scores.

        V is the covariance of a label at ``mu``; ``metric`` is (K, K) and positive semidefinite, by default the
        identity. Zero off the graph.
        """
        gradient = self._gradient(self._preferences(mu), self._edges(mu.shape[1]))
        first, second, both = require_weights(self.weights, self.name).covariances(mu)
        scale = symmetric_metric(metric, mu.shape[1])
        turned = np.swapaxes(gradient, 1, 2)
        first *= np.diag(scale)[:, None] * gradient**2
        first += second * (np.diag(scale) * turned**2)
        first += 2 * both * (scale * gradient * turned)
        return np.asarray(np.maximum(first / 4, 0.0))

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Sum of amount J V J' over contexts and ordered pairs, (K, K), for amounts (n, K, K).

        With the inverse propensities as amounts this is what the labels add to the covariance of the scores. V is the
        covariance of a label where its probabilities are ``labels``, by default ``mu``.
        """
        edges = self._edges(mu.shape[1])
        gradient = self._gradient(self._preferences(mu), edges)
        first, second, both = require_weights(self.weights, self.name).covariances(mu if labels is None else labels)
        used = amount * edges
        turned = np.swapaxes(gradient, 1, 2)
        own = (used * first * gradient**2).sum(axis=(0, 2)) + (used * second * turned**2).sum(axis=(0, 1))
        cross = (used * both * gradient * turned).sum(axis=0)
        return np.asarray((np.diag(own) + cross + cross.T) / 4, dtype=np.float64)

    def gauge(self, n_items: int) -> Gauge:
        """Borda's where the scores of a pair have a fixed sum; none otherwise."""
        graph = checked_graph(self.graph, n_items)
        total = self._pair_total(n_items)
        if total is None:
            return Gauge.none(n_items)
        if np.ptp(graph.degrees) == 0:
            reason = f"scores sum to {n_items * total / 2:g}, so one score follows from the others"
        else:
            reason = (
                "scores weighted by their number of opponents have a fixed sum, so one score follows from the others"
            )
        return Gauge.spanned_by(graph.degrees, reason)

    def neutral(self, n_items: int) -> float | None:
        """Half of what the two items of a pair share; None where that varies, or items face different opponents."""
        total = self._pair_total(n_items)
        return None if total is None or not checked_graph(self.graph, n_items).complete else total / 2

    def _pair_total(self, n_items: int) -> float | None:
        """What the two items of a pair contribute together, where that is a constant."""
        raise NotImplementedError

    def _with(self, weights: CategoryWeights | None, graph: Graph | None) -> Self:
        raise NotImplementedError

    def _scores(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _gradient(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _preferences(self, mu: FloatArray) -> FloatArray:
        return require_weights(self.weights, self.name).symmetric(mu)

    def _edges(self, n_items: int) -> FloatArray:
        return checked_graph(self.graph, n_items).edges.astype(float)

    def _along(self, gradient: FloatArray, delta: FloatArray) -> FloatArray:
        return np.einsum("njk,njk->nj", gradient, require_weights(self.weights, self.name).symmetric(delta))


def checked_sharpness(sharpness: float, name: str, hard: str) -> float:
    """A positive, finite sharpness; the limit at infinity has no derivative.

    Examples
    --------
    >>> checked_sharpness(20, "softmin", "minimum")
    20.0
    """
    number = float(sharpness)
    if np.isposinf(number):
        raise OptionError(
            f"{name}(sharpness=inf) is the hard {hard}, which is not differentiable: no estimate of it has a normal "
            f"limit everywhere; use the smooth one, such as {name}(sharpness=20)"
        )
    if not number > 0:
        raise OptionError(f"{name}(sharpness={sharpness!r}): needed is a positive number, such as 20")
    return number
