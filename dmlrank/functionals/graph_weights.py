"""Edge weights of the comparison graph, checked: one graph, one weight per pair."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..data.graph import Graph
from ..data.preferences import FloatArray
from ..exceptions import GraphError, OptionError


def checked_edge_weights(edge_weights: ArrayLike | None) -> FloatArray | None:
    """A read-only copy of symmetric, finite, non-negative edge weights, (K, K)."""
    if edge_weights is None:
        return None
    matrix = np.array(edge_weights, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise OptionError(f"edge_weights is a square matrix over the items; got shape {matrix.shape}")
    if not (np.isfinite(matrix).all() and (matrix >= 0).all() and np.allclose(matrix, matrix.T)):
        raise OptionError("edge_weights is symmetric, finite and not negative: a pair has one weight in both orders")
    matrix = (matrix + matrix.T) / 2
    matrix.setflags(write=False)
    return matrix


def checked_graph(graph: Graph | None, n_items: int) -> Graph:
    """The graph over ``n_items`` items, every pair where none was given.

    Raises
    ------
    GraphError
        If it has another number of items, fewer than two, or does not connect them.
    """
    graph = graph or Graph.all_pairs(n_items)
    if graph.n_items != n_items:
        raise GraphError(f"the graph has {graph.n_items} items, the probabilities have {n_items}")
    if n_items < 2:
        raise GraphError(f"a ranking needs at least 2 items, not {n_items}")
    if not graph.connected:
        parts = "; ".join(str(part.tolist()) for part in graph.components())
        raise GraphError(f"the compared pairs do not connect the items: components {parts}")
    return graph


def edge_matrix(graph: Graph | None, edge_weights: FloatArray | None, n_items: int) -> FloatArray:
    """Weight of every pair, (K, K), zero off the graph, scaled to a largest weight of one.

    Raises
    ------
    OptionError
        If the weights are for another number of items.
    GraphError
        If the pairs with a positive weight do not connect the items.
    """
    edges = checked_graph(graph, n_items).edges
    if edge_weights is None:
        return edges.astype(float)
    if edge_weights.shape != edges.shape:
        raise OptionError(f"edge_weights has shape {edge_weights.shape}, the items need {edges.shape}")
    weighted = np.where(edges, edge_weights, 0.0)
    checked_graph(Graph(weighted > 0), n_items)
    return weighted / weighted.max()
