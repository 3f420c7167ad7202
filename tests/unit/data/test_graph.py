"""The comparison graph: its pairs, parts and sides, votes by model, and rules that use more of them."""

import itertools

import numpy as np
import pytest

from dmlrank.data.graph import Graph, PairRule, VoteCounts, inverse_on_differences, laplacian_inverse, losses_clause

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


def test_counts_are_those_of_a_loop_over_votes():
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 9, size=(5, 5))
    np.fill_diagonal(votes, 0)
    graph = Graph.observed(votes, 4)
    counts = VoteCounts.of(votes, graph)
    used, total = np.zeros(5, int), np.zeros(5, int)
    for j, k in np.ndindex(5, 5):
        for model in (j, k):
            total[model] += votes[j, k]
            used[model] += votes[j, k] * graph.edges[j, k]
    np.testing.assert_array_equal(counts.used, used)
    np.testing.assert_array_equal(counts.total, total)
    assert counts.n_used + counts.n_left_out == votes.sum()
    assert counts.n_used == votes[graph.edges].sum()


@pytest.mark.parametrize(
    ("used", "total", "most", "losing"),
    [
        ([95, 95], [100, 100], True, []),
        ([94, 94], [100, 100], False, []),
        ([980, 980, 80, 80], [980, 1000, 100, 80], True, []),
        ([980, 980, 79, 81], [980, 1000, 100, 81], False, [2]),
    ],
)
def test_a_twentieth_of_all_and_a_fifth_of_a_model_may_be_left_out(used, total, most, losing):
    counts = VoteCounts(np.array(used), np.array(total))
    assert counts.uses_most == most
    assert counts.models_losing_many.tolist() == losing


def test_many_models_are_counted_and_not_all_named():
    counts = VoteCounts(np.full(8, 10), np.full(8, 20))
    text = losses_clause(counts, list("abcdefgh"), most_named=2)
    assert text == (
        ", among them 10 of the 20 votes of 'a', 10 of the 20 votes of 'b' and more "
        "than a fifth of the votes of 6 further models"
    )


@pytest.mark.parametrize("rule", [PairRule(True, 10), PairRule(False, 10), PairRule(True, 2), PairRule(False, 1)])
@pytest.mark.parametrize("ignored", [True, False])
def test_looser_rules_compare_more_pairs_one_after_the_other(rule, ignored):
    counts = np.random.default_rng(1).poisson(4, size=(8, 8))
    edges = [r.graph(counts).edges for r in (rule, *rule.looser(ignored))]
    assert all((fewer <= more).all() for fewer, more in itertools.pairwise(edges))
    assert ignored or all(r.position_bias == rule.position_bias for r in rule.looser(ignored))
