"""The linear approximation of a functional: what it shares with the functional, and the forms of its derivative."""

import numpy as np
import pytest

from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights
from dmlrank.functionals.linear_scores import Linearised


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


def test_values_at_several_tables_are_those_at_each(linear, tables):
    several = [linear, Linearised.at(linear.functional, tables[1], centre=tables[0])]
    values = Linearised.values_at_tables(several, tables)
    np.testing.assert_allclose(values, [score.value(tables) for score in several], atol=1e-12)
    assert Linearised.values_at_tables([Linearised.at(Borda(CategoryWeights.half(3)), tables[0])], tables) is None


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
