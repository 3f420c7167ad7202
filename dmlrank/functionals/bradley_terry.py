"""Bradley-Terry scores: the least-squares projection of the log-odds of pairs on differences of scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from ..data.arrays import BoolArray
from ..data.graph import Graph, laplacian_inverse
from ..data.outcomes import exchanged_wins
from ..data.preferences import FloatArray, IntArray
from ..exceptions import NuisanceError, OptionError
from .base import CategoryWeights, Functional, Gauge, directed, edge_matrix


@dataclass(frozen=True, eq=False)
class BradleyTerry(Functional):
    r"""Scores whose differences fit the log-odds of the pairs best in least squares; no Bradley-Terry model is assumed.

    .. math:: F(\mu) = L^+ B^\top W \ell(\mu), \qquad
              \ell_{jk} = \tfrac14 \{\operatorname{logit} s^1_{jk} + \operatorname{logit} s^2_{kj}
              - \operatorname{logit} s^2_{jk} - \operatorname{logit} s^1_{kj}\}

    with the incidence matrix B, the edge weights W and the Laplacian L = B'WB of the graph, and s1 = <w1, mu>,
    s2 = <w2, mu>. Where w1 + w2 = 1, these log-odds are those of the paper. Elsewhere, the paper's log-odds depend on
    the order in which the items are listed, and the log-odds above do not.

    Parameters
    ----------
    weights : CategoryWeights or None
        How much each category counts for each item; None if :meth:`bind` sets them later.
    graph : Graph or None
        Pairs whose log-odds are projected. None means every pair.
    edge_weights : array, (K, K), or None
        Symmetric, non-negative weights of the pairs, of which only ratios on the graph matter; None for equal ones.
    apart : array, (K,), or None
        Items that are placed by their own pairs among the others, whose scores do not depend on them.

    Raises
    ------
    OptionError, GraphError, NuisanceError
        If weights are missing or wrong, the graph does not connect the items, or a preference on it is 0 or 1.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P eq:weighted_bt_logit], [P eq:weighted_bt_scores], [P eq:J_bt_case1].

    Examples
    --------
    >>> mu = np.zeros((1, 2, 2, 2)); mu[0, 0, 1] = [0.8, 0.2]; mu[0, 1, 0] = [0.2, 0.8]
    >>> BradleyTerry(CategoryWeights.half(2)).value(mu).round(3)       # log(4) / 2
    array([[ 0.693, -0.693]])
    """

    weights: CategoryWeights | None = None
    graph: Graph | None = None
    edge_weights: FloatArray | None = None
    apart: BoolArray | None = None
    name = "bt"
    label = "bt (log-odds projection)"
    takes_edge_weights = True
    link = "logit"
    uses_shares = True
    pair_local = True
    gauge_is_known = True
    in_short = "log-odds against the average of the {n_models}"
    meaning = "Scores are log-odds relative to the average of the {n_models}."
    meaning_of_grades = (
        "The log-odds of a pair are those of the mean worth of its labels, not of the share of votes won."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None and min(np.ptp(self.weights.first), np.ptp(self.weights.second)) < 1e-12:
            raise OptionError(
                f"bt got the category weights {self.weights}; allowed: weights that differ between categories"
            )

    def neutral(self, n_items: int) -> float | None:
        return 0.0

    def value(self, mu: FloatArray) -> FloatArray:
        edges, inverse = _edges_and_inverse(self, mu.shape[1])
        return _project(_log_odds(*self._preferences(mu, edges)), edges, inverse)

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        edges, inverse = _edges_and_inverse(self, mu.shape[1])
        preferences = self._preferences(mu, edges)
        scores = _project(_log_odds(*preferences), edges, inverse)
        return scores, _project(self._change(preferences, delta), edges, inverse)

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        return self.value_and_derivative(mu, delta)[1]

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        edge = self._edges(n_items)[first, second]
        return self._moved(self._change(self._preferences(mu, edge), delta), first, second, n_items)

    def derivative_along(
        self, table: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, *, ordered: bool = True
    ) -> FloatArray:
        # Both orders of a pair move the scores along the same direction.
        change = self.term_changes(table, delta, first, second, ordered=ordered)
        return self._moved(change, first, second, len(table))

    def _moved(self, change: FloatArray, first: IntArray, second: IntArray, n_items: int) -> FloatArray:
        """Return how far changes, (r,), of the terms of r pairs move the scores, (r, K)."""
        edges, inverse = _edges_and_inverse(self, n_items)
        if self.apart is None and len(first) < n_items**2:
            derivative = inverse[first] - inverse[second]
            change = change * edges[first, second]
        elif len(first) < n_items**2:
            derivative = inverse[first] * edges[first, second, None]
            derivative -= inverse[second] * edges[second, first, None]
        else:
            # The differences of two rows are computed once for each pair of items and not for each direction. The
            # table of all pairs has K**3 entries, no more than the result.
            by_pair = 4 * self.label_directions(n_items).reshape(-1, n_items)
            derivative = np.take(by_pair, first * n_items + second, axis=0)
        derivative *= (change / 4)[:, None]
        return derivative

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        return self.sum_over_pairs(np.einsum("njk,njk->jk", amount, self.label_variances(mu, labels)))

    def accumulate_at(
        self, mu: FloatArray, amount: FloatArray, labels: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        edges, weights = self._edges(n_items), self.category_weights
        of_first, of_second = (1 / (s * (1 - s)) for s in self._preferences(mu, edges[first, second]))
        change = of_first[:, None] * np.array(weights.first) - of_second[:, None] * np.array(weights.second)
        # Sums are computed category by category, because a sum over a short last axis takes several times as long.
        variance = reduce(np.add, (labels * change**2).T) - reduce(np.add, (labels * change).T) ** 2
        pair_amounts = np.bincount(first * n_items + second, weights=amount * variance, minlength=n_items**2)
        return self.sum_over_pairs(pair_amounts.reshape(n_items, n_items).astype(float))

    def label_directions(self, n_items: int) -> FloatArray:
        edges, inverse = _edges_and_inverse(self, n_items)
        of_first = inverse[:, None, :] * (edges / 4)[:, :, None]
        return np.asarray(of_first - np.swapaxes(of_first, 0, 1))

    def label_variances(self, mu: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        # A label of (j, k) moves the log-odds of one edge only. With P_jk a column of L^+ B'W, the Jacobian is
        # J_jk = P_jk (w1' / (s1 (1 - s1)) - w2' / (s2 (1 - s2))) / 4.
        first, second = (1 / (s * (1 - s)) for s in self._preferences(mu, self._edges(mu.shape[1])))
        var_first, var_second, covariance = self.category_weights.covariances(mu if labels is None else labels)
        covariance *= -2 * first * second
        covariance += np.square(first, out=first) * var_first
        covariance += np.square(second, out=second) * var_second
        return np.maximum(covariance, 0, out=covariance)

    def sum_over_pairs(self, amounts: FloatArray) -> FloatArray:
        # The sum over pairs of amount (e_j - e_k)(e_j - e_k)' is the Laplacian of the graph with amounts as weights.
        edges, inverse = _edges_and_inverse(self, len(amounts))
        amounts = (amounts + amounts.T) / 16
        of_pairs = np.diag((amounts * edges**2).sum(axis=1)) - amounts * edges * edges.T
        total = inverse.T @ of_pairs @ inverse
        return np.asarray((total + total.T) / 2, dtype=np.float64)

    def term_changes(
        self, table: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, *, ordered: bool = True
    ) -> FloatArray:
        edges = _edges_and_inverse(self, len(table))[0]
        edge = np.maximum(edges[first, second], edges[second, first])
        change = self._change(self._preferences(table[first, second], edge), delta)
        if ordered:
            return change
        flip = exchanged_wins(delta.shape[1])
        return change - self._change(self._preferences(table[second, first], edge), delta[:, flip])

    def gauge(self, n_items: int) -> Gauge:
        self._edges(n_items)
        kept, of = np.ones(n_items, dtype=bool), ""
        if self.apart is not None:
            kept, of = ~self.apart, f" of the {n_items - self.apart.sum()} models with enough votes"
        return Gauge.spanned_by(kept, f"scores{of} sum to 0, so only differences between models are identified")

    def _preferences(self, mu: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the preferences s1 and s2 of all pairs, (n, K, K), or of r pairs, (r,); both are 1/2 off the graph."""
        preferences = self.category_weights.scores(mu)
        # With items apart, a pair may move the score of one of its items alone.
        is_off = (edges == 0) & (edges.T == 0)
        for preference in preferences:
            np.copyto(preference, 0.5, where=is_off)
            if not (preference.min(initial=0.5) > 0 and preference.max(initial=0.5) < 1):
                place = np.argwhere(~((preference > 0) & (preference < 1)))[0]
                where = "a labelled pair"
                if preference.ndim == 3:
                    where = f"item {place[1]} (first) over item {place[2]} (second) in context {place[0]}"
                raise NuisanceError(
                    f"the preference of {where} is {preference[tuple(place)]:g}; give mu a floor above 0"
                )
        return preferences

    def _change(self, preferences: tuple[FloatArray, FloatArray], delta: FloatArray) -> FloatArray:
        """Return the derivative of logit s1 - logit s2 along ``delta`` at the preferences s1 and s2."""
        change, change_second = self.category_weights.scores(delta)
        first, second = (1 / (s * (1 - s)) for s in preferences)
        change *= first
        change_second *= second
        change -= change_second
        return change


def _log_odds(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the difference of the log-odds of two preferences, computed with one logarithm."""
    ratio = first - second
    ratio /= (1 - first) * second
    return np.asarray(np.log1p(ratio, out=ratio), dtype=np.float64)


def _project(odds: FloatArray, edges: FloatArray, inverse: FloatArray) -> FloatArray:
    """Return the scores L^+ B'W l, (n, K), of edge log-odds l = (odds - odds') / 4."""
    divergence = np.einsum("jk,njk->nj", edges, odds) - np.einsum("jk,nkj->nj", edges, odds)
    return divergence @ inverse / 4


@lru_cache(maxsize=2)
def _edges_and_inverse(functional: BradleyTerry, n_items: int) -> tuple[FloatArray, FloatArray]:
    """Return the edge weights and the pseudo-inverse L^+ of the graph's Laplacian, (K, K) each, of the last two calls.

    With items apart, weights are those of the row's item, and the inverse is transposed: the block of the other items
    is their own L^+, so that their scores are the same as without those apart. The key is
    the functional itself: to compare edge weights would take as long as a context's scores.
    """
    edges, apart = edge_matrix(functional.graph, functional.edge_weights, n_items), functional.apart
    if apart is None:
        inverse = laplacian_inverse(edges)
    else:
        edges, inverse = directed(edges, apart), np.zeros(edges.shape)
        core = np.ix_(~apart, ~apart)
        inverse[core] = laplacian_inverse(edges[core])
        own = np.linalg.inv((np.diag(edges.sum(axis=1)) - edges)[np.ix_(apart, apart)])
        inverse[np.ix_(~apart, apart)] = (own @ edges[np.ix_(apart, ~apart)] @ inverse[core]).T
        inverse[np.ix_(apart, apart)] = own.T
    for matrix in (edges, inverse):
        matrix.setflags(write=False)
    return edges, inverse
