"""Borda scores: the mean symmetrised preference for an item over the opponents it was compared with."""

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

    with edge weights a, zero off the graph. The functional is linear, so the debiased estimator has no second-order
    bias from ``mu``.

    Parameters
    ----------
    weights : CategoryWeights or None
        What each category contributes to the first and to the second item. None is filled in by :meth:`bind`.
    graph : Graph or None
        Pairs the functional averages over. None means every pair.
    edge_weights : array, (K, K), or None
        Symmetric, not negative; only their ratios matter, values off the graph are ignored. None means equal.

    Raises
    ------
    OptionError
        On edge weights that are no such matrix, and where scores are asked for before there are category weights.
    GraphError
        Where the graph does not fit the items or does not connect them.

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
        """A copy in which what was not set yet is set."""
        return Borda(
            weights if self.weights is None else self.weights,
            graph if self.graph is None else self.graph,
            edge_weights if self.edge_weights is None else self.edge_weights,
        )

    def neutral(self, n_items: int) -> float | None:
        """1/2; None where an item as good as the others has no fixed score.

        That is so where the two items do not share 1 in every category, or where items face different opponents: pairs
        missing from the graph, or unequal edge weights.
        """
        edges = self._edges(n_items)
        alike = bool(np.allclose(edges, 1 - np.eye(n_items), rtol=0, atol=1e-12))
        total = require_weights(self.weights, self.name).total
        return 0.5 if alike and total is not None and abs(total - 1) < 1e-12 else None

    def value(self, mu: FloatArray) -> FloatArray:
        """Scores, (n, K), from category probabilities ``mu``, (n, K, K, C)."""
        preference = require_weights(self.weights, self.name).symmetric(mu)
        return np.einsum("jk,njk->nj", self._shares(mu.shape[1]), preference)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Derivative, (r, K), along directions that differ from zero at one pair each; see :class:`Local`."""
        shares, weights = self._shares(n_items), require_weights(self.weights, self.name)
        rows, change = np.arange(len(first)), np.zeros((len(first), n_items))
        change[rows, first] = delta @ np.array(weights.first) * shares[first, second] / 2
        change[rows, second] = delta @ np.array(weights.second) * shares[second, first] / 2
        return change

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Directional derivative, (n, K), at ``mu`` along ``delta``, both (n, K, K, C)."""
        return self.value(delta)

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and their derivative along ``delta``, (n, K) each."""
        return self.value(mu), self.value(delta)

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        """Trace of metric J V J' for every ordered pair, (n, K, K): what one label of the pair tells about all scores.

        V is the covariance of a label at ``mu``; ``metric`` is (K, K) and positive semidefinite, by default the
        identity. Zero off the graph.
        """
        first, second, both = require_weights(self.weights, self.name).covariances(mu)
        shares, scale = self._shares(mu.shape[1]), symmetric_metric(metric, mu.shape[1])
        # J_jk = (a_jk e_j w1' + a_kj e_k w2') / 2 has two rows, so that the trace has four terms.
        own = np.diag(scale)[:, None] * shares**2
        first *= own / 4
        second *= own.T / 4
        both *= scale * shares * shares.T / 2
        first += second
        first += both
        return np.maximum(first, 0, out=first)

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Sum of amount J V J' over contexts and ordered pairs, (K, K), for amounts (n, K, K).

        With the inverse propensities as amounts this is what the labels add to the covariance of the scores. V is the
        covariance of a label where its probabilities are ``labels``, by default ``mu``.
        """
        first, second, both = (
            np.einsum("njk,njk->jk", amount, part)
            for part in require_weights(self.weights, self.name).covariances(mu if labels is None else labels)
        )
        shares = self._shares(mu.shape[1])
        cross = shares * shares.T * both
        own = (shares**2 * first).sum(axis=1) + (shares.T**2 * second).sum(axis=0)
        return np.asarray((np.diag(own) + cross + cross.T) / 4, dtype=np.float64)

    def label_directions(self, n_items: int) -> FloatArray | None:
        """Directions d, (K, K, K), of the pairs (j, k), with J V J' = v dd' whatever mu is; v: `label_variances`.

        None where the two scores of a pair have no fixed sum: a label then moves them apart and together.
        """
        if require_weights(self.weights, self.name).total is None:
            return None
        shares, every = self._shares(n_items), np.eye(n_items)
        return np.asarray(shares[:, :, None] * every[:, None, :] - shares.T[:, :, None] * every[None, :, :]) / 2

    def label_variances(self, mu: FloatArray) -> FloatArray:
        """Variance of a label along its direction, (n, K, K)."""
        return np.maximum(require_weights(self.weights, self.name).covariances(mu)[0], 0)

    def gauge(self, n_items: int) -> Gauge:
        """Scores weighted by their degree have a fixed sum, where the two scores of a pair have one."""
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
        return edge_matrix(self.graph, self.edge_weights, n_items)

    def _shares(self, n_items: int) -> FloatArray:
        edges = self._edges(n_items)
        return edges / edges.sum(axis=1, keepdims=True)
