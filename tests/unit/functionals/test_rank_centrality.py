"""Rank centrality against an eigenvector, and the second sum that bipartite comparisons fix."""

import itertools

import numpy as np
import pytest

from dmlrank.exceptions import NuisanceError, OptionError
from dmlrank.functionals import CategoryWeights, Graph, RankCentrality

HALF = CategoryWeights.half(2)
WALKS = ["transition", "rate"]


def preference(weights, mu, j, k):
    """Symmetrised preference for j over k in one context."""
    first = sum(w * p for w, p in zip(weights.first, mu[j, k], strict=True))
    second = sum(w * p for w, p in zip(weights.second, mu[k, j], strict=True))
    return (first + second) / 2


def stationary(weights, graph, walk, mu):
    """Left eigenvector of the transition matrix of one context, built entry by entry."""
    n_items, matrix = graph.n_items, np.zeros((graph.n_items, graph.n_items))
    for i in range(n_items):
        opponents = np.flatnonzero(graph.edges[i])
        out = sum(preference(weights, mu, j, i) for j in opponents)
        for j in opponents:
            if walk == "transition":
                share = len(opponents) / graph.degrees.max()
                matrix[i, j] = share * preference(weights, mu, j, i) / out
            else:
                matrix[i, j] = preference(weights, mu, j, i) / n_items
        matrix[i, i] = 1 - matrix[i].sum()
    roots, vectors = np.linalg.eig(matrix.T)
    vector = vectors[:, np.argmin(abs(roots - 1))].real
    return vector / vector.sum()


@pytest.mark.parametrize("walk", WALKS)
def test_scores_are_the_stationary_distribution(weights, draw_mu, draw_graph, walk):
    rng = np.random.default_rng(0)
    for n_items, extra in itertools.product((3, 5, 8), (0.0, 0.4, 1.0)):
        graph, mu = draw_graph(rng, n_items, extra), draw_mu(rng, 3, n_items, weights.n_categories)
        scores = RankCentrality(weights, graph, walk).value(mu)
        expected = [stationary(weights, graph, walk, context) for context in mu]
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12)


def test_on_all_pairs_the_scores_are_the_papers(weights, draw_mu):
    # [P eq:weighted_rank_centrality]: rows of R sum to one, F = (I - T' + 11')^-1 1.
    mu = draw_mu(np.random.default_rng(1), 1, 5, weights.n_categories)[0]
    rates = np.array([[preference(weights, mu, j, i) if i != j else 0.0 for j in range(5)] for i in range(5)])
    transition = rates / rates.sum(axis=1, keepdims=True)
    expected = np.linalg.solve(np.eye(5) - transition.T + 1, np.ones(5))
    np.testing.assert_allclose(RankCentrality(weights).value(mu[None])[0], expected, rtol=1e-12)


def test_the_rate_walk_finds_bradley_terry_strengths_on_any_graph(draw_graph, strengths_to_mu):
    rng = np.random.default_rng(2)
    for n_items in (2, 4, 7):
        strengths = rng.uniform(0.5, 3, size=n_items)
        graph = draw_graph(rng, n_items, 0.1)
        scores = RankCentrality(HALF, graph, walk="rate").value(strengths_to_mu(strengths))[0]
        np.testing.assert_allclose(scores, strengths / strengths.sum(), rtol=1e-12)


@pytest.mark.parametrize("walk", WALKS)
def test_equal_items_score_the_neutral_value_on_any_graph(weights, draw_graph, walk):
    rng = np.random.default_rng(3)
    mu = np.full((1, 6, 6, weights.n_categories), 1 / weights.n_categories)
    for graph in (None, draw_graph(rng, 6, 0.0), draw_graph(rng, 6, 0.3)):
        functional = RankCentrality(weights, graph, walk)
        np.testing.assert_allclose(functional.value(mu), 1 / 6, rtol=1e-12)
        assert functional.neutral(6) == (1 / 6 if weights.shared else None)


BIPARTITE = {
    "path": [(0, 1), (1, 2), (2, 3), (3, 4)],
    "star": [(0, 1), (0, 2), (0, 3), (0, 4)],
    "cycle of six": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)],
    "two against three": list(itertools.product((0, 1), (2, 3, 4))),
    "square with a tail": [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4)],
}


def rank(scores):
    return int((np.linalg.svd(scores - scores.mean(axis=0), compute_uv=False) > 1e-9).sum())


@pytest.mark.parametrize("pairs", BIPARTITE.values(), ids=BIPARTITE)
def test_a_bipartite_graph_fixes_a_second_sum_of_the_transition_walk(weights, draw_mu, pairs):
    n_items = int(np.max(pairs)) + 1
    graph = Graph.of(pairs, n_items)
    mu = draw_mu(np.random.default_rng(4), 50, n_items, weights.n_categories)
    scores, gauge = RankCentrality(weights, graph).value(mu), RankCentrality(weights, graph).gauge(n_items)
    side = graph.sides()
    flow = scores * graph.degrees
    np.testing.assert_allclose(flow[:, side].sum(axis=1), flow[:, ~side].sum(axis=1), rtol=1e-12)
    assert len(gauge.basis) == 2
    assert np.ptp(scores @ gauge.basis.T, axis=0).max() < 1e-13
    assert rank(scores) == n_items - 2
    assert len(RankCentrality(weights, graph, "rate").gauge(n_items).basis) == 1


def test_on_four_items_every_connected_graph_has_the_gauge_it_says(draw_mu):
    mu = draw_mu(np.random.default_rng(6), 40, 4, 2)
    pairs = list(itertools.combinations(range(4), 2))
    graphs = [Graph.of(chosen, 4) for size in range(3, 7) for chosen in itertools.combinations(pairs, size)]
    connected = [graph for graph in graphs if graph.connected]
    assert len(connected) == 38
    for graph, walk in itertools.product(connected, WALKS):
        functional = RankCentrality(HALF, graph, walk)
        assert rank(functional.value(mu)) == 4 - len(functional.gauge(4).basis)


def test_the_centre_of_a_star_always_scores_the_same(weights, draw_mu):
    star = Graph.of([(2, 0), (2, 1), (2, 3)], 4)
    functional = RankCentrality(weights, star)
    mu = draw_mu(np.random.default_rng(7), 20, 4, weights.n_categories)
    np.testing.assert_allclose(functional.value(mu)[:, 2], 1 / 4, rtol=1e-12)
    gauge = functional.gauge(4)
    np.testing.assert_array_equal(gauge.fixed, [False, False, True, False])
    assert "the item compared with all others always scores 0.25" in gauge.reason
    assert not RankCentrality(weights, Graph.of([(0, 1), (1, 2), (2, 3)], 4)).gauge(4).fixed.any()


def test_the_gauge_and_its_reason():
    assert RankCentrality(HALF).gauge(3).reason == "scores sum to 1, so one score follows from the others"
    path = RankCentrality(HALF, Graph.of([(0, 1), (1, 2), (2, 3)], 4)).gauge(4).reason
    assert "the same sum in both of two groups" in path
    assert "always scores" not in path


def test_two_items_are_refused_by_the_transition_walk(draw_mu):
    mu = draw_mu(np.random.default_rng(8), 1, 2, 2)
    functional = RankCentrality(HALF)
    for call in (functional.value, functional.information, lambda mu: functional.gauge(mu.shape[1])):
        with pytest.raises(OptionError, match="borda"):
            call(mu)
    score = preference(HALF, mu[0], 0, 1)
    np.testing.assert_allclose(RankCentrality(HALF, walk="rate").value(mu), [[score, 1 - score]], rtol=1e-13)


def test_binding_keeps_the_walk_and_refuses_edge_weights():
    bound = RankCentrality(walk="rate").bind(HALF, Graph.all_pairs(3))
    assert (bound.walk, bound.weights) == ("rate", HALF)
    assert bound.label == "rank_centrality (stationary distribution, rate walk)"
    with pytest.raises(OptionError):
        RankCentrality().bind(HALF, None, np.ones((3, 3)))


def test_a_walk_that_can_get_stuck_is_refused_by_pair(draw_mu):
    mu = draw_mu(np.random.default_rng(9), 2, 3, 2)
    mu[1, 0, 2], mu[1, 2, 0] = [0.0, 1.0], [1.0, 0.0]
    for walk in WALKS:
        with pytest.raises(NuisanceError):
            RankCentrality(HALF, walk=walk).value(mu)


def test_an_unknown_walk_is_refused():
    with pytest.raises(OptionError, match="rate"):
        RankCentrality(walk="rates")
