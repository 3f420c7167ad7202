"""Checks of the comparison graph of a functional and of its edge weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..data.graph import Graph
from ..data.preferences import FloatArray
from ..exceptions import GraphError, OptionError


def checked_edge_weights(edge_weights: ArrayLike | None) -> FloatArray | None:
    """Return a read-only copy of edge weights, (K, K).

    Raises
    ------
    OptionError
        If they are not a symmetric matrix of finite, non-negative numbers.
    """
    if edge_weights is None:
        return None
    matrix = np.array(edge_weights, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise OptionError(f"edge_weights has shape {matrix.shape}; allowed: a square matrix over the items")
    if not (np.isfinite(matrix).all() and (matrix >= 0).all() and np.allclose(matrix, matrix.T)):
        raise OptionError(
            "edge_weights has entries that are infinite, missing, negative or different in the two orders of a pair; "
            "allowed: a symmetric matrix of finite numbers that are not negative"
        )
    matrix = (matrix + matrix.T) / 2
    matrix.setflags(write=False)
    return matrix


def checked_graph(graph: Graph | None, n_items: int) -> Graph:
    """Return the comparison graph over ``n_items`` items; by default the graph with every pair.

    Raises
    ------
    GraphError
        If the graph has another number of items, has fewer than two items, or does not connect the items.
    """
    graph = graph or Graph.all_pairs(n_items)
    if graph.n_items != n_items:
        raise GraphError(f"the graph has {graph.n_items} items, the probabilities have {n_items}")
    if n_items < 2:
        raise GraphError(f"there are {n_items} items; allowed: at least 2")
    if not graph.connected:
        parts = "; ".join(str(part.tolist()) for part in graph.components())
        raise GraphError(
            f"the compared pairs do not connect the items: components {parts}; rank one component at a time, or add "
            f"comparisons between the components"
        )
    return graph


def edge_matrix(graph: Graph | None, edge_weights: FloatArray | None, n_items: int) -> FloatArray:
    """Return the weight of every pair, (K, K), zero off the graph, scaled to a largest weight of one.

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
        raise OptionError(f"edge_weights has shape {edge_weights.shape}; allowed for these items: {edges.shape}")
    weighted = np.where(edges, edge_weights, 0.0)
    checked_graph(Graph(weighted > 0), n_items)
    return weighted / weighted.max()
