"""Borda scores, dominance and soft minimum, which aggregate an item's preferences over its opponents."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from .._utils.argument_checks import number_in, real_number
from ..data.arrays import BoolArray
from ..data.graph import Graph
from ..data.outcomes import exchanged_wins
from ..data.preferences import FloatArray, IntArray
from ..exceptions import OptionError, shown
from .base import CategoryWeights, Functional, Gauge, directed, symmetric_metric


@dataclass(frozen=True, eq=False)
class PreferenceAggregate(Functional):
    r"""A score :math:`F_j(\mu) = f(s^{sym}_{jk} : k \text{ an opponent of } j)` with gradient :math:`g_{jk}`.

    A subclass writes ``_scores``, ``_gradient`` and ``_pair_total``; ``edges`` masks the diagonal and pairs off the
    graph. The Jacobian of an ordered pair is (g_jk e_j w1' + g_kj e_k w2') / 2.
    """

    weights: CategoryWeights | None = None
    graph: Graph | None = None
    interior = False
    uses_shares = True

    def value(self, mu: FloatArray) -> FloatArray:
        return self._scores(self.category_weights.symmetric(mu), self._edges(mu.shape[1]))

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        return np.einsum("njk,njk->nj", self._gradient_at(mu), self.category_weights.symmetric(delta))

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        first, second, covariance = self.category_weights.covariances(mu)
        scale, gradient = symmetric_metric(metric, mu.shape[1]), self._gradient_at(mu)
        transposed = np.swapaxes(gradient, 1, 2)
        first *= np.diag(scale)[:, None] * gradient**2
        first += second * (np.diag(scale) * transposed**2)
        first += 2 * covariance * (scale * gradient * transposed)
        return np.asarray(np.maximum(first / 4, 0.0))

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        gradient = self._gradient_at(mu)
        first, second, covariance = self.category_weights.covariances(mu if labels is None else labels)
        transposed = np.swapaxes(gradient, 1, 2)
        variance = (amount * first * gradient**2).sum(axis=(0, 2)) + (amount * second * transposed**2).sum(axis=(0, 1))
        cross = (amount * covariance * gradient * transposed).sum(axis=0)
        return np.asarray((np.diag(variance) + cross + cross.T) / 4, dtype=np.float64)

    def gauge(self, n_items: int) -> Gauge:
        # A pair of items contributes one term to the score of each of its two items. The sum of the scores, weighted by
        # the number of opponents (total edge weight), is constant where these two terms have a fixed sum.
        degrees, total = self._edges(n_items).sum(axis=1), self._pair_total(n_items)
        if total is None:
            return Gauge.none(n_items)
        if np.ptp(degrees) < 1e-12 * degrees.max():
            reason = f"scores sum to {n_items * total / 2:g}, so one score follows from the others"
        else:
            what = "number of opponents" if self.edge_weights is None else "total edge weight"
            reason = f"scores weighted by their {what} have a fixed sum, so one score follows from the others"
        return Gauge.spanned_by(degrees, reason)

    def neutral(self, n_items: int) -> float | None:
        # A fixed number only where all items face the same opponents with the same weights.
        has_equal_edges = np.allclose(self._edges(n_items), 1 - np.eye(n_items), rtol=0, atol=1e-12)
        total = self._pair_total(n_items)
        return total / 2 if has_equal_edges and total is not None else None

    def _pair_total(self, n_items: int) -> float | None:
        """Return the sum of the terms that a pair contributes to its two items' scores; None where it varies."""
        raise NotImplementedError

    def _scores(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        """Return the scores, (n, K), from symmetrised preferences, (n, K, K), and the graph, (K, K)."""
        raise NotImplementedError

    def _gradient(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        """Return the derivative of each item's score in each of its preferences, (n, K, K)."""
        raise NotImplementedError

    def _gradient_at(self, mu: FloatArray) -> FloatArray:
        return self._gradient(self.category_weights.symmetric(mu), self._edges(mu.shape[1]))


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
        How much each category counts for each item; None if :meth:`bind` sets them later.
    graph : Graph or None
        Pairs over which the functional averages. None means every pair.
    edge_weights : array, (K, K), or None
        Symmetric, non-negative weights of the pairs, of which only ratios on the graph matter; None for equal ones.
    apart : array, (K,), or None
        Items whose pairs count in their own score alone.

    Raises
    ------
    OptionError, GraphError
        If edge weights or category weights are missing or wrong, or the graph does not connect the items.

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
    apart: BoolArray | None = None
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
    meaning = "Each score is the mean share of comparisons that the model wins against {opponents}."
    meaning_of_grades = "Scores are means of this worth."

    def gauge(self, n_items: int) -> Gauge:
        if self.apart is None:
            return super().gauge(n_items)
        # The others are scored among themselves.
        kept = np.flatnonzero(~self.apart)
        of_kept = self._of(kept).gauge(len(kept))
        return Gauge(of_kept.basis @ np.eye(n_items)[kept], of_kept.reason)

    def neutral(self, n_items: int) -> float | None:
        if self.apart is None:
            return super().neutral(n_items)
        kept = np.flatnonzero(~self.apart)
        return self._of(kept).neutral(len(kept))

    def _of(self, kept: IntArray) -> Borda:
        """Return the functional of some of the items."""
        block = np.ix_(kept, kept)
        graph = None if self.graph is None else Graph(self.graph.edges[block])
        edge_weights = None if self.edge_weights is None else self.edge_weights[block]
        return replace(self, graph=graph, edge_weights=edge_weights, apart=None)

    def _edges(self, n_items: int) -> FloatArray:
        edges = super()._edges(n_items)
        return edges if self.apart is None else directed(edges, self.apart)

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        return self.value(delta)

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        edges, weights = self._edges(n_items), self.category_weights
        rows, change, total = np.arange(len(first)), np.zeros((len(first), n_items)), edges.sum(axis=1)
        change[rows, first] = delta @ np.array(weights.first) * (edges[first, second] / total[first]) / 2
        change[rows, second] = delta @ np.array(weights.second) * (edges[second, first] / total[second]) / 2
        return change

    def label_directions(self, n_items: int) -> FloatArray | None:
        # Without a fixed sum of the weights, a label can move both the difference and the sum of two items' scores.
        if self.category_weights.total is None:
            return None
        shares, unit = self._shares(self._edges(n_items)), np.eye(n_items)
        return np.asarray(shares[:, :, None] * unit[:, None, :] - shares.T[:, :, None] * unit[None, :, :]) / 2

    def term_changes(
        self, table: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, *, ordered: bool = True
    ) -> FloatArray:
        weights = np.array(self.category_weights.first)
        return np.asarray(delta @ (weights if ordered else weights - weights[exchanged_wins(len(weights))]))

    def sum_over_pairs(self, amounts: FloatArray) -> FloatArray:
        shares, both = self._shares(self._edges(len(amounts))) / 2, amounts + amounts.T
        return np.asarray(np.diag((both * shares**2).sum(axis=1)) - both * shares * shares.T)

    def label_variances(self, mu: FloatArray) -> FloatArray:
        return self.category_weights.covariances(mu)[0]

    def _pair_total(self, n_items: int) -> float | None:
        return self.category_weights.total

    def _scores(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        return np.einsum("jk,njk->nj", self._shares(edges), preference)

    def _gradient(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        return np.broadcast_to(self._shares(edges), preference.shape)

    def _shares(self, edges: FloatArray) -> FloatArray:
        """Return the share of each opponent in an item's total edge weight, (K, K)."""
        return edges / edges.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Dominance(PreferenceAggregate):
    r"""Share of its opponents that an item beats with a preference above ``tau``, in a smooth version.

    .. math:: F_j(\mu) = \frac{1}{\deg_j} \sum_k \sigma\{a (s^{sym}_{jk} - \tau)\}

    where k runs over the opponents of j on the graph and a is the sharpness. The share itself, for large a, is not
    differentiable. ``Dominance(tau=0.5, sharpness=10)`` is a smooth Copeland score.

    Parameters
    ----------
    weights : CategoryWeights or None
        How much each category counts for each item; None if :meth:`bind` sets them later.
    graph : Graph or None
        Pairs of opponents. None means every pair.
    tau : float
        Preference from which a win is clear, in (0, 1).
    sharpness : float
        How fast the term of an opponent rises from 0 to 1 with the preference over this opponent: from 0.12 to 0.88 in
        an interval of length 4 / sharpness around ``tau``.

    Raises
    ------
    OptionError
        If the threshold is outside (0, 1), or the sharpness is not positive and finite.

    References
    ----------
    Frauen et al., arXiv 2601.21816, "Custom ranking estimands".

    Examples
    --------
    >>> mu = np.zeros((1, 2, 2, 2)); mu[0, 0, 1] = [0.8, 0.2]; mu[0, 1, 0] = [0.2, 0.8]
    >>> Dominance(CategoryWeights.half(2)).value(mu).round(3)
    array([[0.982, 0.   ]])
    """

    tau: float = 0.6
    sharpness: float = 20.0
    name = "dominance"
    in_short = "share of opponents that a model clearly beats"
    meaning = (
        "Each score is the share of its opponents that the model clearly beats. An opponent counts in part where the "
        "preference is close to the limit of a clear win."
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "sharpness", checked_sharpness(self.sharpness, "dominance", "indicator"))
        super().__post_init__()
        threshold = real_number(self.tau)
        if threshold is None or not 0 < threshold < 1:
            raise OptionError(f"dominance(tau={shown(self.tau)}); allowed: a preference between 0 and 1, such as 0.6")

    @property
    def label(self) -> str:
        """Name and short description, for headers."""
        return f"dominance (share beaten above {self.tau:g})"

    def _pair_total(self, n_items: int) -> float | None:
        # sigma(x) + sigma(-x) = 1: the terms sum to 1 where the threshold is half the sum of the two preferences.
        total = self.category_weights.total
        return 1.0 if total is not None and abs(total - 2 * self.tau) < 1e-12 else None

    def _scores(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        terms = expit(self.sharpness * (preference - self.tau))
        return np.asarray((terms * edges).sum(axis=2) / edges.sum(axis=1))

    def _gradient(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        terms = expit(self.sharpness * (preference - self.tau))
        return np.asarray(self.sharpness * terms * (1 - terms) * edges / edges.sum(axis=1)[:, None])


@dataclass(frozen=True, eq=False)
class SoftMin(PreferenceAggregate):
    r"""Soft minimum of an item's preferences over its opponents.

    .. math:: F_j(\mu) = -\frac{1}{a} \log \frac{1}{\deg_j} \sum_k \exp(-a s^{sym}_{jk})

    where k runs over the opponents of j on the graph and a is the sharpness. The soft minimum lies between minimum and
    mean; for equal preferences it is their value. The paper's soft minimum has a sum instead of the mean in the
    logarithm and is lower by log(K - 1) / a. The minimum itself is not differentiable where two opponents share the
    lowest preference.

    Parameters
    ----------
    weights : CategoryWeights or None
        How much each category counts for each item; None if :meth:`bind` sets them later.
    graph : Graph or None
        Pairs of opponents. None means every pair.
    sharpness : float
        For values near 0 the score is near the mean, for large values near the minimum.

    Raises
    ------
    OptionError
        If the sharpness is not positive and finite.

    References
    ----------
    Frauen et al., arXiv 2601.21816, "Custom ranking estimands".

    Examples
    --------
    >>> mu = np.full((1, 3, 3, 2), 0.5); mu[0, 0, 1] = [0.9, 0.1]; mu[0, 1, 0] = [0.1, 0.9]
    >>> SoftMin(CategoryWeights.half(2)).value(mu).round(3)
    array([[0.535, 0.135, 0.5  ]])
    """

    sharpness: float = 20.0
    name = "softmin"
    in_short = "smooth minimum of the preferences over a model's opponents"
    meaning = (
        "Each score is a smooth minimum of the model's preferences over its opponents: how well the model does against "
        "the opponent that is hardest for it."
    )
    label = "softmin (worst opponent)"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sharpness", checked_sharpness(self.sharpness, "softmin", "minimum"))

    def _pair_total(self, n_items: int) -> float | None:
        # With one opponent each, the soft minimum is the preference for the item, as in a Borda score.
        return self.category_weights.total if n_items == 2 else None

    def _scores(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        lowest, weight = self._lowest_and_weights(preference, edges)
        return np.asarray(lowest[:, :, 0] - np.log(weight.sum(axis=2) / edges.sum(axis=1)) / self.sharpness)

    def _gradient(self, preference: FloatArray, edges: FloatArray) -> FloatArray:
        weight = self._lowest_and_weights(preference, edges)[1]
        return np.asarray(weight / weight.sum(axis=2, keepdims=True))

    def _lowest_and_weights(self, preference: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return each item's lowest preference, (n, K, 1), and exp(-a (preference - lowest)), zero off the graph."""
        lowest = np.where(edges > 0, preference, np.inf).min(axis=2, keepdims=True, initial=np.inf)
        shifted = np.where(edges > 0, preference - lowest, 0.0)
        return lowest, np.exp(-self.sharpness * shifted) * edges


def checked_sharpness(sharpness: float, name: str, limit: str) -> float:
    """Return the sharpness of a functional, as a finite float: the functional has to be differentiable."""
    number = number_in(f"{name}: sharpness", sharpness, lambda number: number > 0, "a positive number, such as 20")
    if np.isposinf(number):
        raise OptionError(
            f"{name}(sharpness=inf) is the hard {limit}, which is not differentiable; use a finite one, such as 20"
        )
    return number
