"""Base class of dominance and soft minimum, which aggregate an item's preferences over its opponents smoothly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from .._utils.argument_checks import real_number
from ..data.graph import Graph
from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, shown
from .base import Gauge, symmetric_metric
from .category_weights import CategoryWeights, require_weights
from .graph_weights import checked_graph


@dataclass(frozen=True, slots=True, eq=False)
class PreferenceAggregate:
    r"""A score :math:`F_j(\mu) = f(s^{sym}_{jk} : k \text{ an opponent of } j)` with gradient :math:`g_{jk}`.

    This class computes everything that depends on the gradient alone; a subclass defines f. The Jacobian of an ordered
    pair is (g_jk e_j w1' + g_kj e_k w2') / 2.

    weights: How much each category counts for the first and for the second item. None if :meth:`bind` sets them later.
    graph: Pairs of opponents. None means every pair.
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
        """Return a copy of the functional in which the arguments replace settings that are None.

        Parameters
        ----------
        weights : CategoryWeights, optional
            Used if the functional has no category weights yet.
        graph : Graph, optional
            Used if the functional has no graph yet.
        edge_weights : None
            Refused, because this functional has no edge weights.

        Returns
        -------
        PreferenceAggregate
            The copy.

        Raises
        ------
        OptionError
            If there are edge weights.
        """
        if edge_weights is not None:
            raise OptionError(
                f"{self.name} has no edge weights: edge_weights apply to borda and bt; leave edge_weights out"
            )
        return self._with(
            weights if self.weights is None else self.weights, graph if self.graph is None else self.graph
        )

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the scores of the items.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.

        Returns
        -------
        ndarray, shape (n, K)
            Scores of the items in each context.
        """
        return self._scores(self._preferences(mu), self._edges(mu.shape[1]))

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the directional derivative of the scores at ``mu`` along ``delta``.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.
        delta : ndarray, shape (n, K, K, C)
            Direction in which ``mu`` changes.

        Returns
        -------
        ndarray, shape (n, K)
            Directional derivative of the scores in each context.
        """
        return self._along(self._gradient(self._preferences(mu), self._edges(mu.shape[1])), delta)

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores and their directional derivative at ``mu`` along ``delta``.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.
        delta : ndarray, shape (n, K, K, C)
            Direction in which ``mu`` changes.

        Returns
        -------
        scores : ndarray, shape (n, K)
            Scores of the items in each context.
        derivative : ndarray, shape (n, K)
            Directional derivative of the scores in each context.
        """
        preference, edges = self._preferences(mu), self._edges(mu.shape[1])
        return self._scores(preference, edges), self._along(self._gradient(preference, edges), delta)

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        """Return the variance that one label of each ordered pair contributes to the scores.

        This is the trace of M J V J'. J is the Jacobian of the scores in the category probabilities of the pair, V the
        covariance of a label with probabilities ``mu``, and M the metric.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.
        metric : ndarray, shape (K, K), optional
            Positive semidefinite matrix M; the identity by default.

        Returns
        -------
        ndarray, shape (n, K, K)
            The trace for each context and ordered pair; zero for pairs off the graph.
        """
        gradient = self._gradient(self._preferences(mu), self._edges(mu.shape[1]))
        first, second, covariance = require_weights(self.weights, self.name).covariances(mu)
        scale = symmetric_metric(metric, mu.shape[1])
        transposed = np.swapaxes(gradient, 1, 2)
        first *= np.diag(scale)[:, None] * gradient**2
        first += second * (np.diag(scale) * transposed**2)
        first += 2 * covariance * (scale * gradient * transposed)
        return np.asarray(np.maximum(first / 4, 0.0))

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Return the sum of amount J V J' over contexts and ordered pairs.

        J is the Jacobian of the scores in the category probabilities of the pair at ``mu``, and V the covariance of a
        label. With the inverse propensities as amounts, the sum is the contribution of the labels to the covariance of
        the scores.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.
        amount : ndarray, shape (n, K, K)
            Factor of each context and ordered pair, for example the inverse propensity.
        labels : ndarray, shape (n, K, K, C), optional
            Category probabilities of the labels, from which V is computed; ``mu`` by default.

        Returns
        -------
        ndarray, shape (K, K)
            The sum, a symmetric matrix.
        """
        edges = self._edges(mu.shape[1])
        gradient = self._gradient(self._preferences(mu), edges)
        weights, label_mean = require_weights(self.weights, self.name), mu if labels is None else labels
        first, second, covariance = weights.covariances(label_mean)
        factor = amount * edges
        transposed = np.swapaxes(gradient, 1, 2)
        variance = (factor * first * gradient**2).sum(axis=(0, 2)) + (factor * second * transposed**2).sum(axis=(0, 1))
        cross = (factor * covariance * gradient * transposed).sum(axis=0)
        return np.asarray((np.diag(variance) + cross + cross.T) / 4, dtype=np.float64)

    def gauge(self, n_items: int) -> Gauge:
        """Return the gauge: the sum of the scores, weighted by the number of opponents, may be constant.

        A pair of items contributes one term to the score of each of its two items. The sum is constant where these two
        terms have a fixed sum; elsewhere every score is identified by itself.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        Gauge
            The combinations of scores that are constant, and the reason.
        """
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
        """Return the score of an item that is as good as the other items: half the sum of a pair's two terms.

        A pair of items contributes one term to the score of each of its two items.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        float or None
            The score; None where the sum of the two terms is not a constant, or where items face different opponents.
        """
        total = self._pair_total(n_items)
        return None if total is None or not checked_graph(self.graph, n_items).complete else total / 2

    def _pair_total(self, n_items: int) -> float | None:
        """Return the sum of the terms that a pair contributes to its two items' scores; None where it varies."""
        raise NotImplementedError

    def _with(self, weights: CategoryWeights | None, graph: Graph | None) -> Self:
        """Return a copy with other category weights and another graph."""
        raise NotImplementedError

    def _scores(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        """Return the scores, (n, K), from symmetrised preferences, (n, K, K), and the graph, (K, K)."""
        raise NotImplementedError

    def _gradient(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        """Return the derivative of each item's score in each of its preferences, (n, K, K)."""
        raise NotImplementedError

    def _preferences(self, mu: FloatArray) -> FloatArray:
        """Return the symmetrised preferences, (n, K, K)."""
        return require_weights(self.weights, self.name).symmetric(mu)

    def _edges(self, n_items: int) -> FloatArray:
        """Return the graph as a matrix of ones and zeros, (K, K)."""
        return checked_graph(self.graph, n_items).edges.astype(float)

    def _along(self, gradient: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the derivative of the scores along ``delta``, (n, K)."""
        return np.einsum("njk,njk->nj", gradient, require_weights(self.weights, self.name).symmetric(delta))


def checked_sharpness(sharpness: float, name: str, limit: str) -> float:
    """Return the sharpness of a functional as a float.

    At infinite sharpness the functional would not be differentiable.
    """
    number = real_number(sharpness)
    if number is None:
        raise OptionTypeError(f"{name}(sharpness={shown(sharpness)}); allowed: a positive number, such as 20")
    if np.isposinf(number):
        raise OptionError(
            f"{name}(sharpness=inf) is the hard {limit}, which is not differentiable at some preference probabilities, "
            f"and no estimate of it is normally distributed there; use a smooth one, such as {name}(sharpness=20)"
        )
    if not number > 0:
        raise OptionError(f"{name}(sharpness={shown(sharpness)}); allowed: a positive number, such as 20")
    return number
