"""The comparison graph: its pairs, its parts, its sides and the inverse of its Laplacian."""

import numpy as np
import pytest

from dmlrank.data.graph import Graph, inverse_on_differences, laplacian_inverse

TRIANGLE_WITH_TAIL = Graph.of([(0, 1), (1, 2), (2, 0), (2, 3)], 4)


def test_pairs_are_unordered():
    graph = Graph.of([(2, 0), (0, 2), (1, 0)], 3)
    np.testing.assert_array_equal(graph.edges, [[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    assert (graph.n_items, graph.n_edges) == (3, 2)
    np.testing.assert_array_equal(graph.degrees, [2, 1, 1])


@pytest.mark.parametrize("n_items", [2, 3, 6])
def test_all_pairs_is_complete_and_one_less_is_not(n_items):
    graph = Graph.all_pairs(n_items)
    assert graph.complete
    assert graph.n_edges == n_items * (n_items - 1) // 2
    assert not graph.edges.diagonal().any()
    edges = graph.edges.copy()
    edges[0, 1] = edges[1, 0] = False
    assert not Graph(edges).complete


def test_components_come_largest_first():
    graph = Graph.of([(0, 4), (1, 3), (3, 5)], 7)
    parts = [part.tolist() for part in graph.components()]
    assert parts == [[1, 3, 5], [0, 4], [2], [6]]
    assert not graph.connected
    assert TRIANGLE_WITH_TAIL.connected


@pytest.mark.parametrize(
    ("pairs", "n_items", "other_side"),
    [
        ([(0, 1)], 2, {1}),
        ([(0, 1), (1, 2), (2, 3)], 4, {1, 3}),
        ([(3, 0), (3, 1), (3, 2)], 4, {3}),
        ([(0, 1), (1, 2), (2, 3), (3, 0)], 4, {1, 3}),
        ([(0, 5), (5, 1), (1, 4), (4, 2), (2, 3), (3, 0)], 6, {3, 4, 5}),
    ],
    ids=["pair", "path", "star", "square", "hexagon"],
)
def test_sides_of_a_bipartite_graph(pairs, n_items, other_side):
    sides = Graph.of(pairs, n_items).sides()
    assert set(np.flatnonzero(sides)) == other_side
    assert all(sides[j] != sides[k] for j, k in pairs)


@pytest.mark.parametrize(
    "graph",
    [Graph.all_pairs(3), TRIANGLE_WITH_TAIL, Graph.of([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], 5)],
    ids=["triangle", "triangle with a tail", "pentagon"],
)
def test_an_odd_cycle_has_no_sides(graph):
    assert graph.sides() is None


def test_an_observed_pair_has_enough_labels_in_both_orders():
    labelled = np.array([[99, 10, 30], [10, 0, 9], [9, 10, 0]])
    np.testing.assert_array_equal(Graph.observed(labelled, 10).edges, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert Graph.observed(labelled, 9).complete


def test_a_pair_without_labels_is_never_observed():
    labelled = np.array([[0, 3, 0], [1, 0, 0], [5, 0, 0]])
    np.testing.assert_array_equal(Graph.observed(labelled, 0).edges, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def draw_weights(rng, *shape):
    weights = rng.uniform(0.1, 3.0, size=shape)
    weights = np.triu(weights, 1)
    return weights + np.swapaxes(weights, -1, -2)


def laplacian(weights):
    return np.diag(weights.sum(axis=1)) - weights


def test_the_laplacian_is_inverted_as_by_its_pseudo_inverse():
    weights = draw_weights(np.random.default_rng(0), 5, 5)
    np.testing.assert_allclose(laplacian_inverse(weights), np.linalg.pinv(laplacian(weights)), atol=1e-13)


def test_edge_weights_of_any_size_leave_the_null_space_alone():
    weights = draw_weights(np.random.default_rng(1), 4, 4) * np.geomspace(1e-9, 1e3, 4)
    weights = np.sqrt(weights * weights.T)
    inverse = laplacian_inverse(weights)
    centre = np.eye(4) - 1 / 4
    np.testing.assert_allclose(inverse.sum(axis=0) / np.abs(inverse).max(), 0, atol=1e-12)
    np.testing.assert_allclose(inverse @ laplacian(weights), centre, atol=1e-4)


def test_scores_beside_another_parameter_are_inverted_context_by_context():
    rng = np.random.default_rng(2)
    directions = rng.normal(size=(3, 9, 5))
    directions[..., :4] -= directions[..., :4].mean(axis=-1, keepdims=True)
    information = np.swapaxes(directions, 1, 2) @ directions
    expected = [np.linalg.pinv(part, rcond=1e-10) for part in information]
    np.testing.assert_allclose(inverse_on_differences(information, 4), expected, atol=1e-12)
