"""Rank centrality: the stationary distribution of a walk that moves on to the items that win."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from ..exceptions import NuisanceError, OptionError, check_choice
from .base import Gauge, symmetric_metric
from .category_weights import CategoryWeights, require_weights
from .graph_weights import checked_graph


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """A solved walk with generator Q, Q1 = 0, whose derivative is that of one row at a time.

    ``inverse`` is (11' - Q')^-1 and ``scores`` the stationary distribution, (n, K, K) and (n, K). A change dR_ij of one
    rate changes Q'F by ``gain_i (e_j - origin_i) dR_ij``: row i of ``origin`` is where that mass is taken from.
    """

    inverse: FloatArray
    scores: FloatArray
    gain: FloatArray
    origin: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class RankCentrality:
    r"""Stationary distribution of a random walk over the items that moves from loser to winner.

    With :math:`R_{ij} = s^{sym}_{ji}` on the graph and zero elsewhere:

    - ``walk="transition"``: :math:`T_{ij} = (\deg_i / \deg_{max}) R_{ij} / \sum_l R_{il}`, staying with probability
      :math:`1 - \deg_i / \deg_{max}`. The paper's walk on the complete graph. On any other graph the paper's ranks by
      number of opponents; this one gives equal items 1/K.
    - ``walk="rate"``: rates :math:`R_{ij}` themselves (Negahban, Oh, Shah 2017), which recovers the order and ratios of
      Bradley-Terry strengths on every connected graph.

    Parameters
    ----------
    weights : CategoryWeights or None
        What each category contributes to the first and to the second item. None is filled in by :meth:`bind`.
    graph : Graph or None
        Pairs the walk can use. None means every pair.
    walk : {"transition", "rate"}

    Raises
    ------
    OptionError
        On an unknown walk, on two items with ``walk="transition"`` (both score 1/2 whatever the data say), on edge
        weights, and where scores are asked for before there are category weights.
    GraphError
        Where the graph does not fit the items or does not connect them.
    NuisanceError
        Where a symmetrised preference on an edge is not positive, so that the walk may get stuck.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P eq:weighted_rank_centrality] and [P eq:J_rank_centrality].

    Examples
    --------
    >>> mu = np.zeros((1, 2, 2, 2)); mu[0, 0, 1] = [0.8, 0.2]; mu[0, 1, 0] = [0.2, 0.8]
    >>> RankCentrality(CategoryWeights.half(2), walk="rate").value(mu)
    array([[0.8, 0.2]])
    """

    weights: CategoryWeights | None = None
    graph: Graph | None = None
    walk: str = "transition"
    name = "rank_centrality"
    interior = True

    def __post_init__(self) -> None:
        check_choice(self.walk, ["transition", "rate"], "walk")

    @property
    def label(self) -> str:
        """Human words for a header."""
        return f"rank_centrality (stationary distribution{', rate walk' if self.walk == 'rate' else ''})"

    def bind(
        self,
        weights: CategoryWeights | None = None,
        graph: Graph | None = None,
        edge_weights: FloatArray | None = None,
    ) -> RankCentrality:
        """A copy in which what was not set yet is set; it has no edge weights."""
        if edge_weights is not None:
            raise OptionError("edge_weights apply to borda and bt; rank_centrality has none")
        return RankCentrality(
            weights if self.weights is None else self.weights,
            graph if self.graph is None else self.graph,
            self.walk,
        )

    def neutral(self, n_items: int) -> float | None:
        """1/K; None where the category weights do not give the two items of a pair a fixed sum."""
        return 1 / n_items if require_weights(self.weights, self.name).shared else None

    def value(self, mu: FloatArray) -> FloatArray:
        """Scores, (n, K), from category probabilities ``mu``, (n, K, K, C)."""
        rates, graph = self._rates(mu)
        matrix = 1 - np.swapaxes(self._generator(rates, graph), 1, 2)
        scores = np.linalg.solve(matrix, np.ones((len(mu), graph.n_items, 1)))[:, :, 0]
        return np.asarray(scores, dtype=np.float64)

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Directional derivative, (n, K), at ``mu`` along ``delta``, both (n, K, K, C)."""
        return self.value_and_derivative(mu, delta)[1]

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and their derivative along ``delta``, (n, K) each, from one inversion per context."""
        walk = self._solved(mu)
        change = self._symmetric(delta, self._graph(mu.shape[1]))
        flow = np.einsum("ni,nij->nj", walk.gain, change)
        flow -= np.einsum("ni,nij->nj", walk.gain * change.sum(axis=2), walk.origin)
        return walk.scores, np.einsum("nij,nj->ni", walk.inverse, flow)

    def derivative_along(self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Derivative, (r, K), at ``mu``, (K, K, C), along ``delta``, (r, C), at the ordered pairs (first, second).

        A label of (j, k) moves two rates: R_kj by half its worth for j, and R_jk by half its worth for k.
        """
        graph, weights = self._graph(len(mu)), require_weights(self.weights, self.name)
        walk = self._solved(mu[None])
        gain, inverse = walk.gain[0], walk.inverse[0]
        end, origin = np.ascontiguousarray(inverse.T), walk.origin[0] @ inverse.T
        used = graph.edges[first, second] / 2
        to_first = gain[second] * used * (delta @ np.array(weights.first))
        to_second = gain[first] * used * (delta @ np.array(weights.second))
        change = to_first[:, None] * (end[first] - origin[second])
        change += to_second[:, None] * (end[second] - origin[first])
        return np.asarray(change, dtype=np.float64)

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        """Trace of metric J V J' for every ordered pair, (n, K, K): what one label of the pair tells about all scores.

        V is the covariance of a label at ``mu``; ``metric`` is (K, K) and positive semidefinite, by default the
        identity. Zero off the graph. With u_jk = inverse (e_k - origin_j), the Jacobian of a pair is
        (gain_j u_jk w2' + gain_k u_kj w1') / 2, and one Gram matrix of the inverse gives all products of the u.
        """
        weights, walk, edges = (
            require_weights(self.weights, self.name),
            self._solved(mu),
            self._graph(mu.shape[1]).edges,
        )
        gram = np.swapaxes(walk.inverse, 1, 2) @ symmetric_metric(metric, len(edges)) @ walk.inverse
        own, cross = _products(gram, walk.origin)
        own *= np.square(walk.gain)[:, :, None]
        cross *= 2 * walk.gain[:, :, None] * walk.gain[:, None, :]
        first, second, both = weights.covariances(mu)
        first *= np.swapaxes(own, 1, 2)
        first += np.multiply(second, own, out=second)
        first += np.multiply(both, cross, out=both)
        first *= edges / 4
        return np.maximum(first, 0, out=first)

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Sum of amount J V J' over contexts and ordered pairs, (K, K), for amounts (n, K, K).

        With the inverse propensities as amounts this is what the labels add to the covariance of the scores. V is the
        covariance of a label where its probabilities are ``labels``, by default ``mu``.
        """
        walk, edges = self._solved(mu), self._graph(mu.shape[1]).edges
        first, second, both = require_weights(self.weights, self.name).covariances(mu if labels is None else labels)
        used = amount * edges / 4
        own = used * second + np.swapaxes(used * first, 1, 2)
        own *= np.square(walk.gain)[:, :, None]
        both *= used * walk.gain[:, :, None] * walk.gain[:, None, :]
        inner = _spread(own, both, walk.origin)
        total = np.einsum("nij,nkj->ik", walk.inverse @ inner, walk.inverse, optimize=True)
        return np.asarray((total + total.T) / 2, dtype=np.float64)

    def gauge(self, n_items: int) -> Gauge:
        """Scores sum to one; on a bipartite graph the transition walk fixes a second sum.

        Such a walk changes sides with every move, and as much flows from one side to the other as back: scores times
        number of opponents have the same sum on both sides. There is no further direction: where all pairs are even,
        the derivative already reaches every score that these sums allow.
        """
        graph = self._graph(n_items)
        sides = graph.sides() if self.walk == "transition" else None
        if sides is None:
            return Gauge.spanned_by(np.ones(n_items), "scores sum to 1, so one score follows from the others")
        reason = (
            "scores sum to 1, and the compared pairs split the items into two groups with no pair inside a group, "
            "which makes scores times number of opponents sum to the same in both; two follow from the others"
        )
        if min(sides.sum(), (~sides).sum()) == 1:
            reason += f"; the item compared with all others always scores {1 / n_items:.3g}"
        return Gauge.spanned_by([np.ones(n_items), np.where(sides, -1.0, 1.0) * graph.degrees], reason)

    def _graph(self, n_items: int) -> Graph:
        graph = checked_graph(self.graph, n_items)
        if n_items == 2 and self.walk == "transition":
            raise OptionError(
                "rank_centrality gives each of two items 1/2, whatever the data say; use functional='borda', 'bt' or "
                "RankCentrality(walk='rate')"
            )
        return graph

    def _symmetric(self, mu: FloatArray, graph: Graph) -> FloatArray:
        """R_ij = ssym_ji on the graph, zero elsewhere, (n, K, K)."""
        preference = require_weights(self.weights, self.name).symmetric(mu)
        preference *= graph.edges
        return np.swapaxes(preference, 1, 2)

    def _rates(self, mu: FloatArray) -> tuple[FloatArray, Graph]:
        graph = self._graph(mu.shape[1])
        rates = self._symmetric(mu, graph)
        if not rates.min(initial=1.0, where=graph.edges) > 0:
            context, loser, winner = np.argwhere(graph.edges & ~(rates > 0))[0]
            raise NuisanceError(
                f"rank_centrality needs a positive preference for either item of a pair, but in context {context} that "
                f"for item {winner} over item {loser} is {rates[context, loser, winner]:g}; a floor above 0 for mu "
                f"prevents this"
            )
        return rates, graph

    def _generator(self, rates: FloatArray, graph: Graph) -> FloatArray:
        generator = rates if self.walk == "rate" else rates * self._pace(rates, graph)[:, :, None]
        items = np.arange(graph.n_items)
        generator[:, items, items] = -generator.sum(axis=2)
        return generator

    @staticmethod
    def _pace(rates: FloatArray, graph: Graph) -> FloatArray:
        """What turns rates into probabilities of moving, (n, K)."""
        return graph.degrees / graph.degrees.max() / rates.sum(axis=2)

    def _solved(self, mu: FloatArray) -> _Walk:
        rates, graph = self._rates(mu)
        if self.walk == "rate":
            origin, pace = np.broadcast_to(np.eye(graph.n_items), rates.shape), np.ones(rates.shape[:2])
        else:
            origin, pace = rates / rates.sum(axis=2, keepdims=True), self._pace(rates, graph)
        matrix = 1 - np.swapaxes(self._generator(rates, graph), 1, 2)
        inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        scores = inverse.sum(axis=2)
        return _Walk(inverse, scores, scores * pace, origin)


def _products(gram: FloatArray, origin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Products u_jk'u_jk and u_jk'u_kj of u_jk = e_k - origin_j in the metric ``gram``, (n, K, K) each."""
    own = origin @ gram
    cross = own @ np.swapaxes(origin, 1, 2)
    end, start, stay = (np.einsum("njj->nj", product).copy() for product in (gram, cross, own))
    own *= -2
    own += end[:, None, :]
    own += start[:, :, None]
    cross += gram
    cross -= stay[:, :, None]
    cross -= stay[:, None, :]
    return own, cross


def _spread(own: FloatArray, cross: FloatArray, origin: FloatArray) -> FloatArray:
    """Sum over pairs of own_jk z_jk z_jk' + cross_jk (z_jk z_kj' + z_kj z_jk'), z_jk = e_k - origin_j, (n, K, K)."""
    turned = np.swapaxes(origin, 1, 2)
    mixed = np.swapaxes(own, 1, 2) @ origin
    total = turned @ (own.sum(axis=2)[:, :, None] * origin) - mixed - np.swapaxes(mixed, 1, 2)
    half = np.swapaxes(cross, 1, 2) + turned @ cross @ origin
    half -= cross.sum(axis=1)[:, :, None] * origin
    half -= turned * cross.sum(axis=2)[:, None, :]
    total += half
    total += np.swapaxes(half, 1, 2)
    items = np.arange(own.shape[1])
    total[:, items, items] += own.sum(axis=1)
    return np.asarray(total, dtype=np.float64)
