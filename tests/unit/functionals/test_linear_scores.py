"""The linear approximation of a functional, a pair's share and the advantage of the first: against loops."""

import numpy as np
import pytest

from dmlrank.data.graph import Graph
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights
from dmlrank.functionals.linear_scores import Linearised, PositionEffect, WinShare


@pytest.fixture
def tables():
    """Preferences of four models in three categories, on two prompts."""
    return np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 4, 4))


@pytest.fixture
def linear(tables):
    return Linearised.at(BradleyTerry(CategoryWeights.half(3)), tables[0])


def test_the_derivative_at_single_pairs_is_that_of_tables_with_zeros_elsewhere(linear, tables):
    rng = np.random.default_rng(1)
    first, second, delta = np.array([0, 3, 2]), np.array([1, 0, 3]), rng.normal(size=(3, 3))
    directions = np.zeros((3, 4, 4, 3))
    directions[np.arange(3), first, second] = delta
    single = linear.derivative_at(np.empty((3, 3)), delta, first, second, 4)
    np.testing.assert_allclose(single, linear.derivative(tables, directions), atol=1e-12)


def test_the_approximation_touches_the_functional_at_its_table(linear, tables):
    exact = BradleyTerry(CategoryWeights.half(3))
    np.testing.assert_allclose(linear.value(tables[:1]), exact.value(tables[:1]), atol=1e-12)
    step = tables[1:] - tables[:1]
    values, slope = linear.value_and_derivative(tables[:1] + step, step)
    np.testing.assert_allclose(values, exact.value(tables[:1]) + slope, atol=1e-12)
    small = 1e-6
    change = (exact.value(tables[:1] + small * step) - exact.value(tables[:1])) / small
    np.testing.assert_allclose(slope, change, atol=1e-4)


def test_a_bias_is_subtracted_and_another_centre_is_where_scores_are_those_of_the_table(tables):
    functional, bias = Borda(CategoryWeights.half(3)), np.array([0.1, 0.0, -0.1, 0.2])
    linear = Linearised.at(functional, tables[0], centre=tables[1], bias=bias)
    np.testing.assert_allclose(linear.value(tables[1:]), functional.value(tables[:1]) - bias, atol=1e-12)


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
