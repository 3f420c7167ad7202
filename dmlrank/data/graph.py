"""The comparison graph: which pairs of items the scores are built from, and the inverse of its Laplacian."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Which pairs are compared: a symmetric boolean (K, K) with an empty diagonal."""

    edges: NDArray[np.bool_]

    @property
    def n_items(self) -> int:
        """Number of items, K."""
        return len(self.edges)

    @property
    def n_edges(self) -> int:
        """Number of unordered pairs."""
        return int(self.edges.sum()) // 2

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
        return len(self.components()) == 1

    def components(self) -> list[NDArray[np.intp]]:
        """Item indices of every connected component, the largest first."""
        count, label = connected_components(self.edges, directed=False)
        parts = [np.flatnonzero(label == part) for part in range(count)]
        return sorted(parts, key=lambda part: (-len(part), int(part[0])))

    def sides(self) -> NDArray[np.bool_] | None:
        """The two sides, (K,), of a connected bipartite graph: no pair lies within one; None where there are none."""
        distance = np.full(self.n_items, -1)
        distance[0], front = 0, [0]
        while front:
            reached = [k for j in front for k in np.flatnonzero(self.edges[j]) if distance[k] < 0]
            for k in reached:
                distance[k] = distance[front[0]] + 1
            front = sorted({int(k) for k in reached})
        odd = distance % 2 == 1
        return None if self.edges[np.ix_(odd, odd)].any() or self.edges[np.ix_(~odd, ~odd)].any() else odd

    @classmethod
    def all_pairs(cls, n_items: int) -> Graph:
        """Every pair of different items."""
        return cls(~np.eye(n_items, dtype=bool))

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]], n_items: int) -> Graph:
        """The graph of the given unordered pairs."""
        edges = np.zeros((n_items, n_items), dtype=bool)
        for j, k in pairs:
            edges[j, k] = edges[k, j] = True
        return cls(edges)

    @classmethod
    def observed(cls, labelled: NDArray[np.int64], min_labels: int, ordered: bool = True) -> Graph:
        """Pairs with enough labelled contexts, from counts (K, K): in *both* orders, or, if not ``ordered``, in all."""
        enough = np.minimum(labelled, labelled.T) if ordered else labelled + labelled.T
        both = enough >= max(min_labels, 1)
        np.fill_diagonal(both, False)
        return cls(both)


def laplacian_inverse(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Moore-Penrose inverse, (K, K), of the Laplacian of a connected graph with symmetric edge weights, (K, K).

    Examples
    --------
    >>> laplacian_inverse(np.array([[0.0, 2.0], [2.0, 0.0]]))
    array([[ 0.125, -0.125],
           [-0.125,  0.125]])
    """
    return inverse_on_differences(np.diag(weights.sum(axis=1)) - weights, len(weights))


def inverse_on_differences(information: NDArray[np.float64], n_items: int) -> NDArray[np.float64]:
    """Inverse of information about K scores of which only differences are identified, for scores that sum to zero.

    The constants are known to be the null space of the scores' block, so that they are shifted away and projected out.
    A numerical rank would misjudge it where weights differ by orders of magnitude.

    Parameters
    ----------
    information : ndarray, shape (..., D, D)
        Symmetric; the K scores come first, then parameters that are identified by themselves.
    n_items : int
        K.
    """
    shifted = information.copy()
    scores = shifted[..., :n_items, :n_items]
    scores += np.trace(scores, axis1=-2, axis2=-1)[..., None, None] / n_items**2
    inverse = np.linalg.inv(shifted)
    inverse = (inverse + np.swapaxes(inverse, -1, -2)) / 2
    inverse[..., :n_items, :] -= inverse[..., :n_items, :].mean(axis=-2, keepdims=True)
    inverse[..., :, :n_items] -= inverse[..., :, :n_items].mean(axis=-1, keepdims=True)
    return np.asarray(inverse, dtype=np.float64)
