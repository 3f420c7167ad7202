"""The graph of the pairs of items that votes compare, and the votes that count as used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .arrays import BoolArray


@dataclass(frozen=True, eq=False)
class Graph:
    """The comparison graph: which pairs of items are compared.

    Parameters
    ----------
    edges : ndarray of bool, shape (K, K)
        Whether a pair is compared: a symmetric matrix that is false on its diagonal.

    Examples
    --------
    >>> graph = Graph.of([(0, 1), (1, 2)], n_items=3)
    >>> graph.n_edges, graph.degrees, graph.connected
    (2, array([1, 2, 1]), True)
    """

    edges: BoolArray

    @property
    def n_items(self) -> int:
        """Number of items, K."""
        return len(self.edges)

    @cached_property
    def n_edges(self) -> int:
        """Number of compared pairs, unordered."""
        return int(np.count_nonzero(self.edges)) // 2

    @property
    def complete(self) -> bool:
        """Whether every pair of different items is compared."""
        return 2 * self.n_edges == self.n_items * (self.n_items - 1)

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of opponents of each item, (K,)."""
        return self.edges.sum(axis=1)

    @cached_property
    def connected(self) -> bool:
        """Whether every item can be reached from every other."""
        return self.complete or len(self.components()) == 1

    def components(self) -> list[NDArray[np.intp]]:
        """Return the items of each connected component, the largest component first.

        Returns
        -------
        list of ndarray of int
            Codes of the items.
        """
        # The smallest item that each item is known to reach; scipy's graphs take longer to load than a fit's summary.
        label, smallest = np.full(self.n_items, -1), np.arange(self.n_items)
        while (label != smallest).any():
            label = smallest
            of_opponents = np.where(self.edges, label, self.n_items).min(axis=1, initial=self.n_items)
            smallest = np.minimum(label, of_opponents)
            smallest = smallest[smallest]
        parts = [np.flatnonzero(label == part) for part in np.unique(label)]
        return sorted(parts, key=lambda part: (-len(part), int(part[0])))

    def sides(self) -> BoolArray | None:
        """Return the side of each item if a connected graph is bipartite: no two items of one side are compared.

        Returns
        -------
        ndarray of bool, shape (K,), or None
            Side of each item; None where the graph is not bipartite.
        """
        # Of two copies of the items, with edges between copies alone, one part has the items of each side.
        no_edges = np.zeros_like(self.edges)
        parts = Graph(np.block([[no_edges, self.edges], [self.edges, no_edges]])).components()
        return None if len(parts) == 1 else np.isin(self.n_items + np.arange(self.n_items), parts[0])

    @classmethod
    def all_pairs(cls, n_items: int) -> Graph:
        """Return the graph in which every pair is compared.

        Parameters
        ----------
        n_items : int
            Number of items, K.

        Returns
        -------
        Graph
            The graph.
        """
        return cls(~np.eye(n_items, dtype=bool))

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]], n_items: int) -> Graph:
        """Return the graph with given pairs as edges.

        Parameters
        ----------
        pairs : iterable of (int, int)
            Codes of the two items of each compared pair, in any order.
        n_items : int
            Number of items, K.

        Returns
        -------
        Graph
            The graph.
        """
        edges = np.zeros((n_items, n_items), dtype=bool)
        for j, k in pairs:
            edges[j, k] = edges[k, j] = True
        return cls(edges)

    @classmethod
    def observed(cls, labelled: NDArray[np.int64], min_labels: int, ordered: bool = True) -> Graph:
        """Return the graph of pairs with enough labelled contexts.

        Parameters
        ----------
        labelled : ndarray of int, shape (K, K)
            Number of labelled contexts of every ordered pair.
        min_labels : int
            Smallest number of labelled contexts for a pair to be compared.
        ordered : bool
            Whether each of the two ordered pairs needs so many, and not both in total.

        Returns
        -------
        Graph
            The graph.
        """
        count = np.minimum(labelled, labelled.T) if ordered else labelled + labelled.T
        edges = count >= max(min_labels, 1)
        np.fill_diagonal(edges, False)
        return cls(edges)


def laplacian_inverse(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Moore-Penrose inverse, (K, K), of the Laplacian of a connected graph with edge weights, (K, K)."""
    return inverse_on_differences(np.diag(weights.sum(axis=1)) - weights, len(weights))


def inverse_on_differences(information: NDArray[np.float64], n_items: int) -> NDArray[np.float64]:
    """Return the inverse of information, (..., D, D), about K scores of which only differences are identified."""
    shifted = information.copy()
    scores = shifted[..., :n_items, :n_items]
    scores += np.trace(scores, axis1=-2, axis2=-1)[..., None, None] / n_items**2
    inverse = np.linalg.inv(shifted)
    inverse = (inverse + np.swapaxes(inverse, -1, -2)) / 2
    inverse[..., :n_items, :] -= inverse[..., :n_items, :].mean(axis=-2, keepdims=True)
    inverse[..., :, :n_items] -= inverse[..., :, :n_items].mean(axis=-1, keepdims=True)
    return np.asarray(inverse, dtype=np.float64)


# Largest shares of all votes, and of the votes of one model, that may be left out without a warning.
MOST_OF_ALL = 0.05
MOST_OF_A_MODEL = 0.2
# Values of min_labels that a warning may suggest in place of a larger one.
_FEWER_LABELS = (5, 2, 1)


@dataclass(frozen=True, slots=True, eq=False)
class VoteCounts:
    """Votes of each of K models, those on compared pairs and all, (K,); a vote counts for both models of its pair."""

    used: NDArray[np.int64]
    total: NDArray[np.int64]

    @classmethod
    def of(cls, votes: NDArray[np.int64], graph: Graph) -> VoteCounts:
        """Return the counts by model, from the votes on every ordered pair, (K, K), and the pairs that are compared."""
        of_pair = votes + votes.T
        return cls(np.where(graph.edges, of_pair, 0).sum(axis=1), of_pair.sum(axis=1))

    @property
    def n_used(self) -> int:
        """Number of votes on compared pairs."""
        return int(self.used.sum()) // 2

    @property
    def n_left_out(self) -> int:
        """Number of votes on pairs that are not compared."""
        return int((self.total - self.used).sum()) // 2

    @property
    def share_used(self) -> float:
        """Votes on compared pairs as a share of all votes."""
        return float(self.used.sum() / max(self.total.sum(), 1))

    @property
    def models_losing_many(self) -> NDArray[np.intp]:
        """Positions of the models that lose more than a fifth of their votes, the largest loss first."""
        share_lost = (self.total - self.used) / np.maximum(self.total, 1)
        models = np.argsort(-share_lost, kind="stable")
        return models[share_lost[models] > MOST_OF_A_MODEL]

    @property
    def uses_most(self) -> bool:
        """Whether at most 5 % of all votes are left out, and at most 20 % of the votes of each model."""
        return self.share_used >= 1 - MOST_OF_ALL and not len(self.models_losing_many)


@dataclass(frozen=True, slots=True)
class PairRule:
    """Which pairs are compared: those with at least ``min_labels`` labelled contexts.

    position_bias: Whether a pair needs these in each display order, not in both together.
    """

    position_bias: bool
    min_labels: int

    def graph(self, labelled: NDArray[np.int64]) -> Graph:
        """Return the pairs that are compared, from the labelled contexts of every ordered pair, (K, K)."""
        return Graph.observed(labelled, self.min_labels, self.position_bias)

    def looser(self, order_may_be_ignored: bool) -> list[PairRule]:
        """Return rules that compare more pairs, those with the smallest changes first."""
        ordered = self.position_bias and not order_may_be_ignored
        fewer = [PairRule(ordered, n_labels) for n_labels in _FEWER_LABELS if n_labels < self.min_labels]
        return [PairRule(False, self.min_labels), *fewer] if self.position_bias and not ordered else fewer

    def changed_from(self, other: PairRule) -> str:
        """Return the options of a fit that turn another rule into this one, as text."""
        options = []
        if self.position_bias != other.position_bias:
            options.append(f"position_bias={self.position_bias}")
        if self.min_labels != other.min_labels:
            options.append(f"pairs=Pairs(min_labels={self.min_labels})")
        return ", ".join(options)


def losses_clause(counts: VoteCounts, models: Sequence[str], most_named: int = 5) -> str:
    """Return a clause that names the models which lose more than a fifth of their votes; empty if none does."""
    named = [
        f"{counts.total[j] - counts.used[j]:,} of the {counts.total[j]:,} votes of {models[j]!r}"
        for j in counts.models_losing_many[:most_named]
    ]
    further = len(counts.models_losing_many) - most_named
    if further > 0:
        named.append(f"more than a fifth of the votes of {further} further model{'s' * (further > 1)}")
    enumeration = " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else "".join(named)
    return f", among them {enumeration}" if named else ""
