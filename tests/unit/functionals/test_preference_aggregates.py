"""Dominance and soft minimum against loops, their limits, and what they refuse."""

import math

import numpy as np
import pytest

from dmlrank.exceptions import OptionError
from dmlrank.functionals import Borda, CategoryWeights, Dominance, Graph, SoftMin, named


def preferences(weights, mu, j, k):
    return sum(
        (a * p + b * q) / 2 for a, b, p, q in zip(weights.first, weights.second, mu[j, k], mu[k, j], strict=True)
    )


def test_scores_against_loops(weights, draw_mu, draw_graph):
    rng = np.random.default_rng(0)
    for n_items in (2, 4, 7):
        graph, mu = draw_graph(rng, n_items), draw_mu(rng, 3, n_items, weights.n_categories)
        clear, worst = Dominance(weights, graph, 0.7, 13.0).value(mu), SoftMin(weights, graph, 13.0).value(mu)
        for i, j in np.ndindex(3, n_items):
            shares = [preferences(weights, mu[i], j, k) for k in np.flatnonzero(graph.edges[j])]
            expected = sum(1 / (1 + math.exp(-13 * (s - 0.7))) for s in shares) / len(shares)
            assert clear[i, j] == pytest.approx(expected, rel=1e-12)
            expected = -math.log(sum(math.exp(-13 * s) for s in shares) / len(shares)) / 13
            assert worst[i, j] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sharpness", [1e-3, 20.0, 1e4])
def test_equal_preferences_are_returned_unchanged(sharpness):
    for share in (0.0, 0.3, 0.5, 1.0):
        mu = np.zeros((1, 5, 5, 2))
        mu[:, 0, 1:] = [share, 1 - share]
        mu[:, 1:, 0] = [1 - share, share]
        assert SoftMin(CategoryWeights.half(2), None, sharpness).value(mu)[0, 0] == pytest.approx(share, abs=1e-12)


def test_the_soft_minimum_lies_between_minimum_and_mean(weights, draw_mu):
    mu = draw_mu(np.random.default_rng(1), 20, 5, weights.n_categories)
    preference = weights.symmetric(mu) + np.where(np.eye(5), np.inf, 0)
    soft = SoftMin(weights).value(mu)
    assert (soft >= preference.min(axis=2) - 1e-12).all()
    assert (soft <= Borda(weights).value(mu) + 1e-12).all()
    np.testing.assert_allclose(SoftMin(weights, None, 1e6).value(mu), preference.min(axis=2), atol=1e-5)
    np.testing.assert_allclose(SoftMin(weights, None, 1e-7).value(mu), Borda(weights).value(mu), atol=1e-6)


def test_even_items_and_their_gauge():
    half, even = CategoryWeights.half(2), np.full((1, 4, 4, 2), 0.5)
    assert Dominance(half, tau=0.5).neutral(4) == 0.5
    assert Dominance(half).neutral(4) is None
    assert SoftMin(half).neutral(4) is None
    np.testing.assert_allclose(Dominance(half, tau=0.5).value(even), 0.5)
    np.testing.assert_allclose(SoftMin(half).value(even), 0.5)
    assert Dominance(half, tau=0.5).gauge(4).reason == "scores sum to 2, so one score follows from the others"
    path = Dominance(half, Graph.of([(0, 1), (1, 2)], 3), tau=0.5).gauge(3)
    assert path.reason.startswith("scores weighted by their number of opponents")
    np.testing.assert_allclose(path.basis, [np.array([1, 2, 1]) / np.sqrt(6)])
    assert len(Dominance(half).gauge(4).basis) == len(SoftMin(half).gauge(3).basis) == 0
    assert len(Dominance(CategoryWeights.paper(4), tau=0.5).gauge(4).basis) == 0
    # One opponent each: the soft minimum of one preference is Borda's score.
    assert SoftMin(half).gauge(2).reason == "scores sum to 1, so one score follows from the others"
    assert SoftMin(half).neutral(2) == 0.5


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dominance(sharpness=np.inf),
        lambda: SoftMin(sharpness=0),
        lambda: Dominance(tau=1.0),
        lambda: named("minimum"),
        lambda: SoftMin().bind(edge_weights=np.ones((3, 3))),
    ],
)
def test_wrong_parameters_are_refused(make):
    with pytest.raises(OptionError):
        make()


def test_binding_keeps_the_parameters():
    bound = Dominance(tau=0.7, sharpness=5).bind(CategoryWeights.half(2))
    assert (bound.tau, bound.sharpness, bound.label) == (0.7, 5.0, "dominance (share beaten above 0.7)")
    assert SoftMin(sharpness=5).bind(CategoryWeights.half(2)).sharpness == 5.0


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
