"""The comparison graph, whose edges are the compared pairs of items, and the inverse of its Laplacian."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components


@dataclass(frozen=True, slots=True, eq=False)
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

    edges: NDArray[np.bool_]

    @property
    def n_items(self) -> int:
        """Number of items, K."""
        return len(self.edges)

    @property
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

    @property
    def connected(self) -> bool:
        """Whether every item can be reached from every other."""
        return self.complete or len(self.components()) == 1

    def components(self) -> list[NDArray[np.intp]]:
        """Return the items of each connected component, the largest component first.

        Returns
        -------
        list of ndarray of int
            Codes of the items of each component.
        """
        count, label = connected_components(self.edges, directed=False)
        parts = [np.flatnonzero(label == part) for part in range(count)]
        return sorted(parts, key=lambda part: (-len(part), int(part[0])))

    def sides(self) -> NDArray[np.bool_] | None:
        """Return the side of each item if a connected graph is bipartite, else None.

        In a bipartite graph no two items of one side are compared.

        Returns
        -------
        ndarray of bool, shape (K,), or None
            Side of each item.
        """
        # Number of edges between each item and the first item, by breadth-first search.
        distance = np.full(self.n_items, -1)
        distance[0], frontier = 0, [0]
        while frontier:
            reached = [k for j in frontier for k in np.flatnonzero(self.edges[j]) if distance[k] < 0]
            for k in reached:
                distance[k] = distance[frontier[0]] + 1
            frontier = sorted({int(k) for k in reached})
        odd = distance % 2 == 1
        return None if self.edges[np.ix_(odd, odd)].any() or self.edges[np.ix_(~odd, ~odd)].any() else odd

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
            If true, each of the two ordered pairs needs ``min_labels`` labelled contexts. If false, the two ordered
            pairs need ``min_labels`` labelled contexts in total.

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
    """Return the inverse of information about K scores of which only differences are identified.

    Shapes: information (..., D, D).
    """
    shifted = information.copy()
    scores = shifted[..., :n_items, :n_items]
    scores += np.trace(scores, axis1=-2, axis2=-1)[..., None, None] / n_items**2
    inverse = np.linalg.inv(shifted)
    inverse = (inverse + np.swapaxes(inverse, -1, -2)) / 2
    inverse[..., :n_items, :] -= inverse[..., :n_items, :].mean(axis=-2, keepdims=True)
    inverse[..., :, :n_items] -= inverse[..., :, :n_items].mean(axis=-1, keepdims=True)
    return np.asarray(inverse, dtype=np.float64)
