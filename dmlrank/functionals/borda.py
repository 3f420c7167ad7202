"""Borda scores: the mean symmetrised preference for an item over its opponents on the comparison graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from .base import Functional, Gauge, symmetric_metric
from .category_weights import CategoryWeights


@dataclass(frozen=True, eq=False)
class Borda(Functional):
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
    linear = True
    takes_edge_weights = True
    link = "identity"
    limits = (0.0, 1.0)
    uses_shares = True
    pair_local = True
    gauge_is_known = True
    ignores_opponents = True
    in_short = "mean share of comparisons won against {opponents}"
    meaning = "Each score is the mean share of comparisons that the model wins{opponents}"
    meaning_of_grades = "Scores are means of this worth."

    def neutral(self, n_items: int) -> float | None:
        # The score of an item as good as the others is a fixed number only where the weights of the two items sum to 1,
        # and all items face the same opponents with the same weights.
        edges = self._edges(n_items)
        has_equal_edges = bool(np.allclose(edges, 1 - np.eye(n_items), rtol=0, atol=1e-12))
        total = self.category_weights.total
        return 0.5 if has_equal_edges and total is not None and abs(total - 1) < 1e-12 else None

    def value(self, mu: FloatArray) -> FloatArray:
        preference = self.category_weights.symmetric(mu)
        return np.einsum("jk,njk->nj", self._shares(mu.shape[1]), preference)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        shares, weights = self._shares(n_items), self.category_weights
        rows, change = np.arange(len(first)), np.zeros((len(first), n_items))
        change[rows, first] = delta @ np.array(weights.first) * shares[first, second] / 2
        change[rows, second] = delta @ np.array(weights.second) * shares[second, first] / 2
        return change

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        return self.value(delta)

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        first, second, covariance = self.category_weights.covariances(mu)
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
        first, second, covariance = (
            np.einsum("njk,njk->jk", amount, part)
            for part in self.category_weights.covariances(mu if labels is None else labels)
        )
        shares = self._shares(mu.shape[1])
        cross = shares * shares.T * covariance
        variance = (shares**2 * first).sum(axis=1) + (shares.T**2 * second).sum(axis=0)
        return np.asarray((np.diag(variance) + cross + cross.T) / 4, dtype=np.float64)

    def label_directions(self, n_items: int) -> FloatArray | None:
        # Without a fixed sum of the weights, a label can move both the difference and the sum of two items' scores.
        if self.category_weights.total is None:
            return None
        shares, unit = self._shares(n_items), np.eye(n_items)
        return np.asarray(shares[:, :, None] * unit[:, None, :] - shares.T[:, :, None] * unit[None, :, :]) / 2

    def label_variances(self, mu: FloatArray) -> FloatArray:
        return np.maximum(self.category_weights.covariances(mu)[0], 0)

    def pair_terms(self, mu: FloatArray) -> FloatArray:
        return self.category_weights.scores(mu)[0]

    def pair_term_changes(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        return self.pair_terms(delta)

    def pair_term_changes_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        return delta @ np.array(self.category_weights.first)

    def gauge(self, n_items: int) -> Gauge:
        # The sum of the scores, weighted by degree (total edge weight), is constant where the category weights of the
        # two items have the same sum in every category.
        total = self.category_weights.total
        degrees = self._edges(n_items).sum(axis=1)
        if total is None:
            return Gauge.none(n_items)
        if np.ptp(degrees) < 1e-12 * degrees.max():
            reason = f"scores sum to {n_items * total / 2:g}, so one score follows from the others"
        else:
            what = "number of opponents" if self.edge_weights is None else "total edge weight"
            reason = f"scores weighted by their {what} have a fixed sum, so one score follows from the others"
        return Gauge.spanned_by(degrees, reason)

    def _shares(self, n_items: int) -> FloatArray:
        """Return the share of each opponent in an item's total edge weight, (K, K)."""
        edges = self._edges(n_items)
        return edges / edges.sum(axis=1, keepdims=True)
