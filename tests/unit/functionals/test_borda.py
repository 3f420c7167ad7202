"""Borda against its definition, and where an average item has a score of its own."""

import numpy as np
import pytest

from dmlrank.functionals import Borda, CategoryWeights, Graph


def test_scores_are_means_over_opponents(weights, draw_mu, draw_graph, draw_edge_weights):
    rng = np.random.default_rng(0)
    for n_items in (2, 4, 7):
        graph, edge_weights = draw_graph(rng, n_items), draw_edge_weights(rng, n_items)
        mu = draw_mu(rng, 2, n_items, weights.n_categories)
        scores = Borda(weights, graph, edge_weights).value(mu)
        for i, j in np.ndindex(2, n_items):
            won = opponents = 0.0
            for k in np.flatnonzero(graph.edges[j]):
                shown_first = sum(w * p for w, p in zip(weights.first, mu[i, j, k], strict=True))
                shown_second = sum(w * p for w, p in zip(weights.second, mu[i, k, j], strict=True))
                won += edge_weights[j, k] * (shown_first + shown_second) / 2
                opponents += edge_weights[j, k]
            assert scores[i, j] == pytest.approx(won / opponents, rel=1e-12)


@pytest.mark.parametrize("n_categories", [2, 3, 4, 5])
def test_even_preferences_score_the_neutral_value(n_categories):
    mu = np.full((1, 4, 4, n_categories), 1 / n_categories)
    borda = Borda(CategoryWeights.half(n_categories))
    assert borda.neutral(4) == 0.5
    np.testing.assert_allclose(borda.value(mu), 0.5)


@pytest.mark.parametrize(
    "borda",
    [
        Borda(CategoryWeights.paper(4)),
        Borda(CategoryWeights.half(2), Graph.of([(0, 1), (1, 2)], 3)),
        Borda(CategoryWeights.half(2), edge_weights=np.array([[0, 1, 1], [1, 0, 2], [1, 2, 0.0]])),
    ],
    ids=["totals differ", "incomplete", "unequal opponents"],
)
def test_no_neutral_value_where_an_average_item_has_no_score_of_its_own(borda):
    assert borda.neutral(3) is None


def test_the_gauge_and_its_reason():
    half, path = CategoryWeights.half(2), Graph.of([(0, 1), (1, 2)], 3)
    assert Borda(half).gauge(5).reason == "scores sum to 2.5, so one score follows from the others"
    assert "number of opponents" in Borda(half, path).gauge(3).reason
    assert "total edge weight" in Borda(half, path, np.ones((3, 3)) + np.eye(3)).gauge(3).reason
    assert Borda(CategoryWeights.paper(4)).gauge(3).reason == "the functional fixes no combination of the scores"
