"""Borda scores: the mean symmetrised preference for an item over its opponents on the comparison graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray, IntArray
from .preference_aggregates import PreferenceAggregate


@dataclass(frozen=True, eq=False)
class Borda(PreferenceAggregate):
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
    >>> from dmlrank import CategoryWeights
    >>> mu = np.zeros((1, 2, 2, 2)); mu[0, 0, 1] = [0.7, 0.3]; mu[0, 1, 0] = [0.2, 0.8]
    >>> Borda(CategoryWeights.half(2)).value(mu)
    array([[0.75, 0.25]])
    """

    edge_weights: FloatArray | None = None
    name = "borda"
    label = "borda (mean win share)"
    linear = True
    takes_edge_weights = True
    link = "identity"
    limits = (0.0, 1.0)
    pair_local = True
    gauge_is_known = True
    ignores_opponents = True
    in_short = "mean share of comparisons won against {opponents}"
    meaning = "Each score is the mean share of comparisons that the model wins{opponents}"
    meaning_of_grades = "Scores are means of this worth."

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        return self.value(delta)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        shares, weights = self._shares(self._edges(n_items)), self.category_weights
        rows, change = np.arange(len(first)), np.zeros((len(first), n_items))
        change[rows, first] = delta @ np.array(weights.first) * shares[first, second] / 2
        change[rows, second] = delta @ np.array(weights.second) * shares[second, first] / 2
        return change

    def label_directions(self, n_items: int) -> FloatArray | None:
        # Without a fixed sum of the weights, a label can move both the difference and the sum of two items' scores.
        if self.category_weights.total is None:
            return None
        shares, unit = self._shares(self._edges(n_items)), np.eye(n_items)
        return np.asarray(shares[:, :, None] * unit[:, None, :] - shares.T[:, :, None] * unit[None, :, :]) / 2

    def label_variances(self, mu: FloatArray) -> FloatArray:
        return self.category_weights.covariances(mu)[0]

    def pair_terms(self, mu: FloatArray, delta: FloatArray | None = None) -> FloatArray:
        return self.category_weights.scores(mu if delta is None else delta)[0]

    def _pair_total(self, n_items: int) -> float | None:
        return self.category_weights.total

    def _scores(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        return np.einsum("jk,njk->nj", self._shares(edges), preference)

    def _gradient(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        return np.broadcast_to(self._shares(edges), preference.shape)

    def _shares(self, edges: FloatArray) -> FloatArray:
        """Return the share of each opponent in an item's total edge weight, (K, K)."""
        return edges / edges.sum(axis=1, keepdims=True)
