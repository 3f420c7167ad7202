"""Borda scores: the mean symmetrised preference for an item over its opponents on the comparison graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from .base import Gauge, symmetric_metric
from .category_weights import CategoryWeights, require_weights
from .graph_weights import checked_edge_weights, edge_matrix


@dataclass(frozen=True, slots=True, eq=False)
class Borda:
    r"""Weighted Borda scores on a comparison graph.

    .. math:: F_j(\mu) = \frac{\sum_k a_{jk} s^{sym}_{jk}}{\sum_k a_{jk}}, \qquad
              s^{sym}_{jk} = \tfrac12 (\langle w_1, \mu_{jk}\rangle + \langle w_2, \mu_{kj}\rangle)

    with edge weights a that are zero off the graph. The functional is linear. The debiased estimator therefore has no
    second-order bias from ``mu``.

    Parameters
    ----------
    weights : CategoryWeights or None
        How much each category counts for the first and for the second item. :meth:`bind` fills in None.
    graph : Graph or None
        Pairs over which the functional averages. None means every pair.
    edge_weights : array, (K, K), or None
        Symmetric, non-negative weights of the pairs. Only their ratios matter, and values off the graph are ignored.
        None means equal weights.

    Raises
    ------
    OptionError
        If the edge weights are no such matrix, or scores are computed before there are category weights.
    GraphError
        If the graph has another number of items or does not connect the items.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P eq:weighted_borda] and [P eq:J_borda_matrix].

    Examples
    --------
    >>> mu = np.zeros((1, 2, 2, 2)); mu[0, 0, 1] = [0.7, 0.3]; mu[0, 1, 0] = [0.2, 0.8]
    >>> Borda(CategoryWeights.half(2)).value(mu)
    array([[0.75, 0.25]])
    """

    weights: CategoryWeights | None = None
    graph: Graph | None = None
    edge_weights: FloatArray | None = None
    name = "borda"
    label = "borda (mean win share)"
    interior = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "edge_weights", checked_edge_weights(self.edge_weights))

    def bind(
        self,
        weights: CategoryWeights | None = None,
        graph: Graph | None = None,
        edge_weights: FloatArray | None = None,
    ) -> Borda:
        """Return a copy in which the arguments fill in what has not been set yet."""
        return Borda(
            weights if self.weights is None else self.weights,
            graph if self.graph is None else self.graph,
            edge_weights if self.edge_weights is None else self.edge_weights,
        )

    def neutral(self, n_items: int) -> float | None:
        """Return 1/2, the score of an item that is as good as the others; None where this score is not fixed.

        The score is not fixed where the counts of a category for the two items do not always sum to 1, and where items
        face different opponents because pairs are missing from the graph or edge weights are unequal.
        """
        edges = self._edges(n_items)
        has_equal_edges = bool(np.allclose(edges, 1 - np.eye(n_items), rtol=0, atol=1e-12))
        total = require_weights(self.weights, self.name).total
        return 0.5 if has_equal_edges and total is not None and abs(total - 1) < 1e-12 else None

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the scores, (n, K), from category probabilities ``mu``, (n, K, K, C)."""
        preference = require_weights(self.weights, self.name).symmetric(mu)
        return np.einsum("jk,njk->nj", self._shares(mu.shape[1]), preference)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Return the derivative, (r, K), along directions that are zero except at one ordered pair each.

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
        shares, weights = self._shares(n_items), require_weights(self.weights, self.name)
        rows, change = np.arange(len(first)), np.zeros((len(first), n_items))
        change[rows, first] = delta @ np.array(weights.first) * shares[first, second] / 2
        change[rows, second] = delta @ np.array(weights.second) * shares[second, first] / 2
        return change

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the directional derivative, (n, K), at ``mu`` along ``delta``, both (n, K, K, C)."""
        return self.value(delta)

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores and their derivative along ``delta``, (n, K) each."""
        return self.value(mu), self.value(delta)

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        """Return the trace of metric J V J' for every ordered pair, (n, K, K): the variance that one label adds.

        J is the Jacobian of the scores in the pair's probabilities, V the covariance of a label at ``mu``. ``metric``
        is (K, K) and positive semidefinite, by default the identity. The result is zero off the graph.
        """
        first, second, covariance = require_weights(self.weights, self.name).covariances(mu)
        shares, scale = self._shares(mu.shape[1]), symmetric_metric(metric, mu.shape[1])
        # J_jk = (a_jk e_j w1' + a_kj e_k w2') / 2 has two rows, so that the trace has four terms.
        squares = np.diag(scale)[:, None] * shares**2
        first *= squares / 4
        second *= squares.T / 4
        covariance *= scale * shares * shares.T / 2
        first += second
        first += covariance
        return np.maximum(first, 0, out=first)

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Return the sum of amount J V J' over contexts and ordered pairs, (K, K), for amounts (n, K, K).

        With the inverse propensities as amounts, the sum is the contribution of the labels to the covariance of the
        scores. V is the covariance of a label whose probabilities are ``labels``, by default ``mu``.
        """
        first, second, covariance = (
            np.einsum("njk,njk->jk", amount, part)
            for part in require_weights(self.weights, self.name).covariances(mu if labels is None else labels)
        )
        shares = self._shares(mu.shape[1])
        cross = shares * shares.T * covariance
        variance = (shares**2 * first).sum(axis=1) + (shares.T**2 * second).sum(axis=0)
        return np.asarray((np.diag(variance) + cross + cross.T) / 4, dtype=np.float64)

    def label_directions(self, n_items: int) -> FloatArray | None:
        """Return the direction d in which a label of each ordered pair moves the scores, (K, K, K).

        With the variance v of :meth:`label_variances`, J V J' = v d d', and d does not depend on mu. The result is None
        where the scores of a pair have no fixed sum: a label can then move their difference and their sum.
        """
        if require_weights(self.weights, self.name).total is None:
            return None
        shares, unit = self._shares(n_items), np.eye(n_items)
        return np.asarray(shares[:, :, None] * unit[:, None, :] - shares.T[:, :, None] * unit[None, :, :]) / 2

    def label_variances(self, mu: FloatArray) -> FloatArray:
        """Return the variance v of a label along its direction, (n, K, K), see :meth:`label_directions`."""
        return np.maximum(require_weights(self.weights, self.name).covariances(mu)[0], 0)

    def gauge(self, n_items: int) -> Gauge:
        """Return the gauge: scores weighted by degree have a fixed sum where the two scores of a pair have one."""
        total = require_weights(self.weights, self.name).total
        degrees = self._edges(n_items).sum(axis=1)
        if total is None:
            return Gauge.none(n_items)
        if np.ptp(degrees) < 1e-12 * degrees.max():
            reason = f"scores sum to {n_items * total / 2:g}, so one score follows from the others"
        else:
            what = "number of opponents" if self.edge_weights is None else "total edge weight"
            reason = f"scores weighted by their {what} have a fixed sum, so one score follows from the others"
        return Gauge.spanned_by(degrees, reason)

    def _edges(self, n_items: int) -> FloatArray:
        """Return the edge weights, (K, K), zero off the graph."""
        return edge_matrix(self.graph, self.edge_weights, n_items)

    def _shares(self, n_items: int) -> FloatArray:
        """Return the share of each opponent in an item's total edge weight, (K, K)."""
        edges = self._edges(n_items)
        return edges / edges.sum(axis=1, keepdims=True)
