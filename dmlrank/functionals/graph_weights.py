"""Checks of the comparison graph of a functional and of its edge weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._utils.argument_checks import array_of_numbers
from ..data.graph import Graph
from ..data.preferences import FloatArray
from ..exceptions import GraphError, OptionError, OptionTypeError, shown
from .category_weights import CategoryWeights


def check_weights_and_graph(name: str, weights: object, graph: object) -> None:
    """Raise where the settings of a functional are neither None nor category weights and a comparison graph."""
    if weights is not None and not isinstance(weights, CategoryWeights):
        raise OptionTypeError(
            f"{name} got weights={shown(weights)}, a {type(weights).__name__}; allowed: CategoryWeights such as "
            f"CategoryWeights.half(3), or None"
        )
    if graph is not None and not isinstance(graph, Graph):
        raise OptionTypeError(
            f"{name} got graph={shown(graph)}, a {type(graph).__name__}; allowed: a Graph such as Graph.of([(0, 1)], "
            f"n_items=2), or None"
        )


def checked_edge_weights(edge_weights: ArrayLike | None) -> FloatArray | None:
    """Return a read-only copy of edge weights, (K, K)."""
    if edge_weights is None:
        return None
    numbers = array_of_numbers(edge_weights, 2)
    if numbers is None:
        raise OptionTypeError(
            f"edge_weights is a {type(edge_weights).__name__} that holds no rows of numbers; allowed: a square matrix "
            f"of numbers over the items"
        )
    matrix = numbers.copy()
    if matrix.shape[0] != matrix.shape[1]:
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
    """Return the comparison graph over ``n_items`` items; by default the graph with every pair."""
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
    """Return the weight of every pair, (K, K), zero off the graph, scaled to a largest weight of one."""
    edges = checked_graph(graph, n_items).edges
    if edge_weights is None:
        return edges.astype(float)
    if edge_weights.shape != edges.shape:
        raise OptionError(f"edge_weights has shape {edge_weights.shape}; allowed for these items: {edges.shape}")
    weighted = np.where(edges, edge_weights, 0.0)
    checked_graph(Graph(weighted > 0), n_items)
    return weighted / weighted.max()
