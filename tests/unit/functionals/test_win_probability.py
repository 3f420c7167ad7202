"""A pair's share and the advantage of the first: against loops, and linear in mu."""

from __future__ import annotations

import numpy as np
import pytest

from dmlrank.data.graph import Graph
from dmlrank.functionals import CategoryWeights
from dmlrank.functionals.linear_scores import PositionEffect, WinShare

GRAPH = Graph.of([(0, 1), (1, 2), (2, 3)], 4)


def draw(seed, n_categories=4):
    mu = np.random.default_rng(seed).dirichlet(np.ones(n_categories), size=(5, 4, 4))
    mu[:, np.arange(4), np.arange(4)] = 0.0
    return mu


@pytest.mark.parametrize("kind", ["half", "paper"])
def test_a_share_is_the_mean_of_both_orders(kind):
    weights = getattr(CategoryWeights, kind)(4)
    mu = draw(0)
    expected = (mu[:, 1, 3] @ weights.first + mu[:, 3, 1] @ weights.second) / 2
    np.testing.assert_allclose(WinShare(weights, 1, 3).value(mu)[:, 0], expected)


def test_the_advantage_is_the_mean_gap_over_the_pairs_of_the_graph():
    weights = CategoryWeights.half(4)
    mu = draw(2)
    gaps = [mu[:, j, k, 0] - mu[:, j, k, 1] for j, k in np.argwhere(GRAPH.edges)]
    np.testing.assert_allclose(PositionEffect(weights, GRAPH).value(mu)[:, 0], np.mean(gaps, axis=0))


@pytest.mark.parametrize(
    "score", [WinShare(CategoryWeights.half(4), 0, 2), PositionEffect(CategoryWeights.half(4), GRAPH)]
)
def test_win_probability_and_position_effect_are_linear(score):
    mu, delta = draw(4), draw(5) - draw(6)
    value, derivative = score.value_and_derivative(mu, delta)
    np.testing.assert_allclose(score.value(mu + delta) - value, derivative, atol=1e-12)
