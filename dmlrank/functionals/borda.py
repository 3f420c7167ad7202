"""Borda scores: the mean symmetrised preference for an item over its opponents on the comparison graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from .base import Gauge, symmetric_metric
from .category_weights import CategoryWeights, require_weights
from .graph_weights import check_weights_and_graph, checked_edge_weights, edge_matrix


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
        How much each category counts for the first and for the second item. None if :meth:`bind` sets them later.
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
        check_weights_and_graph("borda", self.weights, self.graph)
        object.__setattr__(self, "edge_weights", checked_edge_weights(self.edge_weights))

    def bind(
        self,
        weights: CategoryWeights | None = None,
        graph: Graph | None = None,
        edge_weights: FloatArray | None = None,
    ) -> Borda:
        """Return a copy of the functional in which the arguments replace settings that are None.

        Parameters
        ----------
        weights : CategoryWeights, optional
            Used if the functional has no category weights yet.
        graph : Graph, optional
            Used if the functional has no graph yet.
        edge_weights : ndarray, shape (K, K), optional
            Used if the functional has no edge weights yet.

        Returns
        -------
        Borda
            The copy.
        """
        return Borda(
            weights if self.weights is None else self.weights,
            graph if self.graph is None else self.graph,
            edge_weights if self.edge_weights is None else self.edge_weights,
        )

    def neutral(self, n_items: int) -> float | None:
        """Return 1/2, the score of an item that is as good as the other items.

        The score of such an item is not a fixed number in two cases: if the category weights of the two items do not
        sum to 1 in every category, or if items face different opponents because pairs are missing from the graph or
        edge weights are unequal.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        float or None
            1/2; None where the score is not a fixed number.
        """
        edges = self._edges(n_items)
        has_equal_edges = bool(np.allclose(edges, 1 - np.eye(n_items), rtol=0, atol=1e-12))
        total = require_weights(self.weights, self.name).total
        return 0.5 if has_equal_edges and total is not None and abs(total - 1) < 1e-12 else None

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
        preference = require_weights(self.weights, self.name).symmetric(mu)
        return np.einsum("jk,njk->nj", self._shares(mu.shape[1]), preference)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Return the derivative of the scores along directions that change one ordered pair each.

        Parameters
        ----------
        mu : ndarray, shape (r, C)
            Category probabilities of r ordered pairs.
        delta : ndarray, shape (r, C)
            Directions: the change of the probabilities of each pair.
        first, second : ndarray of int, shape (r,)
            Codes of the two items of each direction's ordered pair.
        n_items : int
            Number of items, K.

        Returns
        -------
        ndarray, shape (r, K)
            Derivative of the scores along each direction.
        """
        shares, weights = self._shares(n_items), require_weights(self.weights, self.name)
        rows, change = np.arange(len(first)), np.zeros((len(first), n_items))
        change[rows, first] = delta @ np.array(weights.first) * shares[first, second] / 2
        change[rows, second] = delta @ np.array(weights.second) * shares[second, first] / 2
        return change

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
        return self.value(delta)

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
        return self.value(mu), self.value(delta)

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
        first, second, covariance = (
            np.einsum("njk,njk->jk", amount, part)
            for part in require_weights(self.weights, self.name).covariances(mu if labels is None else labels)
        )
        shares = self._shares(mu.shape[1])
        cross = shares * shares.T * covariance
        variance = (shares**2 * first).sum(axis=1) + (shares.T**2 * second).sum(axis=0)
        return np.asarray((np.diag(variance) + cross + cross.T) / 4, dtype=np.float64)

    def label_directions(self, n_items: int) -> FloatArray | None:
        """Return the direction d in which a label of each ordered pair moves the scores.

        With the variance v of :meth:`label_variances`, J V J' = v d d'. Here J is the Jacobian of the scores in the
        category probabilities of the pair, and V the covariance of a label. The direction d does not depend on ``mu``.

        The result is None where the category weights of the two items have no fixed sum (``CategoryWeights.total`` is
        None): a label can then move both the difference and the sum of the two items' scores.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        ndarray, shape (K, K, K), or None
            The direction d of ordered pair (j, k) in ``[j, k]``.
        """
        if require_weights(self.weights, self.name).total is None:
            return None
        shares, unit = self._shares(n_items), np.eye(n_items)
        return np.asarray(shares[:, :, None] * unit[:, None, :] - shares.T[:, :, None] * unit[None, :, :]) / 2

    def label_variances(self, mu: FloatArray) -> FloatArray:
        """Return the variance v of a label along its direction, see :meth:`label_directions`.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.

        Returns
        -------
        ndarray, shape (n, K, K)
            Variance for each context and ordered pair.
        """
        return np.maximum(require_weights(self.weights, self.name).covariances(mu)[0], 0)

    def pair_terms(self, mu: FloatArray) -> FloatArray:
        """Return the term of each ordered pair: the expected weight of a label for the item shown first.

        Where :meth:`label_directions` is not None, the scores are a constant plus the sum over ordered pairs of
        direction times term.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.

        Returns
        -------
        ndarray, shape (n, K, K)
            Term for each context and ordered pair.
        """
        return require_weights(self.weights, self.name).scores(mu)[0]

    def pair_term_changes(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the derivative of the terms of :meth:`pair_terms` along a direction.

        Parameters
        ----------
        mu : ndarray, shape (n, K, K, C)
            Category probabilities in n contexts; ``[:, j, k]`` with item j shown first and item k shown second.
        delta : ndarray, shape (n, K, K, C)
            Direction in which ``mu`` changes.

        Returns
        -------
        ndarray, shape (n, K, K)
            Derivative for each context and ordered pair.
        """
        return self.pair_terms(delta)

    def pair_term_changes_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Return the derivative of the term of one ordered pair each, see :meth:`pair_terms`.

        Parameters
        ----------
        mu : ndarray, shape (r, C)
            Category probabilities of r ordered pairs.
        delta : ndarray, shape (r, C)
            Directions: the change of the probabilities of each pair.
        first, second : ndarray of int, shape (r,)
            Codes of the two items of each direction's ordered pair.
        n_items : int
            Number of items, K.

        Returns
        -------
        ndarray, shape (r,)
            Derivative of the pair's term along each direction.
        """
        return delta @ np.array(require_weights(self.weights, self.name).first)

    def gauge(self, n_items: int) -> Gauge:
        """Return the gauge: the sum of the scores, weighted by degree, is constant.

        The degree of an item is its total edge weight. The sum is constant where the category weights of the two items
        have the same sum in every category; elsewhere every score is identified by itself.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        Gauge
            The combinations of scores that are constant, and the reason.
        """
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
