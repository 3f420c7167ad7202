"""Rank centrality: the stationary distribution of a random walk that moves from losing to winning items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.graph import Graph
from ..data.outcomes import exchanged_wins
from ..data.preferences import FloatArray, IntArray
from ..exceptions import NuisanceError, OptionError, check_choice
from .base import CategoryWeights, Functional, Gauge, checked_graph, symmetric_metric


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """The stationary distribution F of a walk with generator Q, Q1 = 0, and its sensitivity to single rates.

    A change dR_ij of one rate changes Q'F by ``gain_i (e_j - origin_i) dR_ij``.

    inverse (n, K, K): (11' - Q')^-1.
    scores (n, K): The stationary distribution.
    gain (n, K): Probability mass that moves for each unit of change in a rate out of the item.
    origin (n, K, K): Row i is the distribution from which this mass is taken.
    """

    inverse: FloatArray
    scores: FloatArray
    gain: FloatArray
    origin: FloatArray


@dataclass(frozen=True, eq=False)
class RankCentrality(Functional):
    r"""Stationary distribution of a random walk over the items that moves from losing to winning items.

    The symmetrised preference :math:`s^{sym}_{ji}` for item j over item i is the mean of the preference over both
    display orders. With :math:`R_{ij} = s^{sym}_{ji}` on the graph and zero elsewhere:

    - ``walk="transition"`` moves with probabilities :math:`T_{ij} = (\deg_i / \deg_{max}) R_{ij} / \sum_l R_{il}` and
      stays with probability :math:`1 - \deg_i / \deg_{max}`. On the complete graph this is the walk of Frauen et
      al. On any other graph, the walk of Frauen et al. favours items with many opponents; this walk gives equal items
      the score 1/K.
    - ``walk="rate"`` moves with the rates :math:`R_{ij}` themselves (Negahban, Oh, Shah 2017). The scores are then
      proportional to Bradley-Terry strengths, where such strengths exist, on every connected graph.

    Parameters
    ----------
    weights : CategoryWeights or None
        How much each category counts for each item; None if :meth:`bind` sets them later.
    graph : Graph or None
        Pairs between which the walk can move. None means every pair.
    walk : {"transition", "rate"}
        Whether the walk normalises the rates by item, see above.

    Raises
    ------
    OptionError, GraphError, NuisanceError
        If the walk is unknown, there are two items and ``walk="transition"`` (both score 1/2 whatever the data say),
        the graph does not connect the items, or a preference on it is not positive.

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
    uses_shares = True
    gauge_is_known = True
    in_short = "share of time of a random walk that moves to preferred models"
    meaning = (
        "Each score is the share of time that a random walk over the models spends at the model. The walk moves from a "
        "model to an opponent more often, the more often the opponent is preferred."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.walk, ["transition", "rate"], "walk")

    @property
    def label(self) -> str:
        """Name and short description, for headers."""
        return f"rank_centrality (stationary distribution{', rate walk' if self.walk == 'rate' else ''})"

    def neutral(self, n_items: int) -> float | None:
        return 1 / n_items if self.category_weights.shared else None

    def value(self, mu: FloatArray) -> FloatArray:
        rates, graph = self._rates(mu)
        matrix = 1 - np.swapaxes(self._generator(rates, graph), 1, 2)
        scores = np.linalg.solve(matrix, np.ones((len(mu), graph.n_items, 1)))[:, :, 0]
        return np.asarray(scores, dtype=np.float64)

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        return self.value_and_derivative(mu, delta)[1]

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        walk = self._solve(mu)
        change = self._symmetric(delta, self._graph(mu.shape[1]))
        flow = np.einsum("ni,nij->nj", walk.gain, change)
        flow -= np.einsum("ni,nij->nj", walk.gain * change.sum(axis=2), walk.origin)
        return walk.scores, np.einsum("nij,nj->ni", walk.inverse, flow)

    def derivative_along(
        self, table: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, *, ordered: bool = True
    ) -> FloatArray:
        walk = self._solve(table[None])
        change = self._along_pairs(walk, delta, first, second)
        if not ordered:
            change += self._along_pairs(walk, delta[:, exchanged_wins(delta.shape[1])], second, first)
        return change

    def _along_pairs(self, walk: _Walk, delta: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the derivative, (r, K), along directions, (r, C), of one ordered pair each, by its two rates."""
        # R_kj changes by half the direction's weight for j, and R_jk by half its weight for k.
        graph, weights = self._graph(walk.scores.shape[1]), self.category_weights
        gain, inverse = walk.gain[0], walk.inverse[0]
        end, origin = np.ascontiguousarray(inverse.T), walk.origin[0] @ inverse.T
        factor = graph.edges[first, second] / 2
        to_first = gain[second] * factor * (delta @ np.array(weights.first))
        to_second = gain[first] * factor * (delta @ np.array(weights.second))
        change = to_first[:, None] * (end[first] - origin[second])
        change += to_second[:, None] * (end[second] - origin[first])
        return np.asarray(change, dtype=np.float64)

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        weights, walk, edges = (self.category_weights, self._solve(mu), self._graph(mu.shape[1]).edges)
        # With u_jk = inverse (e_k - origin_j), the Jacobian of a pair is (gain_j u_jk w2' + gain_k u_kj w1') / 2. The
        # trace needs the products u_jk'u_jk and u_jk'u_kj in the metric; one Gram matrix of the inverse gives them.
        gram = np.swapaxes(walk.inverse, 1, 2) @ symmetric_metric(metric, len(edges)) @ walk.inverse
        # u_jk'u_jk and u_jk'u_kj for u_jk = e_k - origin_j in the metric ``gram``.
        squares = walk.origin @ gram
        cross = squares @ np.swapaxes(walk.origin, 1, 2)
        # The products of e_j with itself, of origin_j with itself, and of origin_j with e_j.
        item_square, origin_square, origin_item = (
            np.einsum("njj->nj", product).copy() for product in (gram, cross, squares)
        )
        squares *= -2
        squares += item_square[:, None, :]
        squares += origin_square[:, :, None]
        cross += gram
        cross -= origin_item[:, :, None]
        cross -= origin_item[:, None, :]
        squares *= np.square(walk.gain)[:, :, None]
        cross *= 2 * walk.gain[:, :, None] * walk.gain[:, None, :]
        variance_first, variance_second, covariance = weights.covariances(mu)
        # The arrays are large; the trace is added up in place.
        trace = np.multiply(variance_first, np.swapaxes(squares, 1, 2), out=variance_first)
        trace += np.multiply(variance_second, squares, out=variance_second)
        trace += np.multiply(covariance, cross, out=covariance)
        trace *= edges / 4
        return np.maximum(trace, 0, out=trace)

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        walk, edges = self._solve(mu), self._graph(mu.shape[1]).edges
        weights, label_mean = self.category_weights, mu if labels is None else labels
        variance_first, variance_second, covariance = weights.covariances(label_mean)
        factor = amount * edges / 4
        variance = factor * variance_second + np.swapaxes(factor * variance_first, 1, 2)
        variance *= np.square(walk.gain)[:, :, None]
        covariance *= factor * walk.gain[:, :, None] * walk.gain[:, None, :]
        # The sum over pairs of variance_jk z_jk z_jk' + covariance_jk (z_jk z_kj' + z_kj z_jk'), z_jk = e_k - origin_j.
        transposed = np.swapaxes(walk.origin, 1, 2)
        mixed = np.swapaxes(variance, 1, 2) @ walk.origin
        inner = transposed @ (variance.sum(axis=2)[:, :, None] * walk.origin) - mixed - np.swapaxes(mixed, 1, 2)
        half = np.swapaxes(covariance, 1, 2) + transposed @ covariance @ walk.origin
        half -= covariance.sum(axis=1)[:, :, None] * walk.origin
        half -= transposed * covariance.sum(axis=2)[:, None, :]
        inner += half
        inner += np.swapaxes(half, 1, 2)
        items = np.arange(variance.shape[1])
        inner[:, items, items] += variance.sum(axis=1)
        inner = np.asarray(inner, dtype=np.float64)
        total = np.einsum("nij,nkj->ik", walk.inverse @ inner, walk.inverse, optimize=True)
        return np.asarray((total + total.T) / 2, dtype=np.float64)

    def gauge(self, n_items: int) -> Gauge:
        # On a bipartite graph the walk changes sides with every move, and in the stationary distribution equal mass
        # moves in both directions: scores times number of opponents have the same sum on both sides. No other
        # combination is fixed: where all preferences are 1/2, the derivative reaches every direction that keeps these
        # sums.
        graph = self._graph(n_items)
        sides = graph.sides() if self.walk == "transition" else None
        if sides is None:
            return Gauge.spanned_by(np.ones(n_items), "scores sum to 1, so one score follows from the others")
        reason = (
            "scores sum to 1, and score times number of opponents has the same sum in both of two groups of items, "
            "because no pair within a group is compared; two scores follow from the others"
        )
        if min(sides.sum(), (~sides).sum()) == 1:
            reason += f"; the item compared with all others always scores {1 / n_items:.3g}"
        return Gauge.spanned_by([np.ones(n_items), np.where(sides, -1.0, 1.0) * graph.degrees], reason)

    def _graph(self, n_items: int) -> Graph:
        """Return the graph over ``n_items`` items, which is every pair by default."""
        graph = checked_graph(self.graph, n_items)
        if n_items == 2 and self.walk == "transition":
            raise OptionError(
                "rank_centrality gives either of two items the score 1/2; use RankCentrality(walk='rate') or 'borda'"
            )
        return graph

    def _symmetric(self, mu: FloatArray, graph: Graph) -> FloatArray:
        """Return R_ij = ssym_ji on the graph and zero elsewhere, (n, K, K)."""
        preference = self.category_weights.symmetric(mu)
        preference *= graph.edges
        return np.swapaxes(preference, 1, 2)

    def _rates(self, mu: FloatArray) -> tuple[FloatArray, Graph]:
        """Return the rates R, (n, K, K), which are positive on the graph, and the graph."""
        graph = self._graph(mu.shape[1])
        rates = self._symmetric(mu, graph)
        if not rates.min(initial=1.0, where=graph.edges) > 0:
            context, loser, winner = np.argwhere(graph.edges & ~(rates > 0))[0]
            raise NuisanceError(
                f"the preference for item {winner} over item {loser} is {rates[context, loser, winner]:g}; give mu a "
                f"floor above 0"
            )
        return rates, graph

    def _generator(self, rates: FloatArray, graph: Graph) -> FloatArray:
        """Return the generator Q of the walk, (n, K, K), whose rows sum to zero; it may overwrite ``rates``."""
        generator = rates if self.walk == "rate" else rates * self._pace(rates, graph)[:, :, None]
        items = np.arange(graph.n_items)
        generator[:, items, items] = -generator.sum(axis=2)
        return generator

    @staticmethod
    def _pace(rates: FloatArray, graph: Graph) -> FloatArray:
        """Return the factors of an item's rates that turn them into probabilities of moving, (n, K)."""
        return graph.degrees / graph.degrees.max() / rates.sum(axis=2)

    def _solve(self, mu: FloatArray) -> _Walk:
        """Compute the stationary distributions at ``mu``."""
        rates, graph = self._rates(mu)
        if self.walk == "rate":
            origin, pace = np.broadcast_to(np.eye(graph.n_items), rates.shape), np.ones(rates.shape[:2])
        else:
            origin, pace = rates / rates.sum(axis=2, keepdims=True), self._pace(rates, graph)
        matrix = 1 - np.swapaxes(self._generator(rates, graph), 1, 2)
        inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        scores = inverse.sum(axis=2)
        return _Walk(inverse, scores, scores * pace, origin)
