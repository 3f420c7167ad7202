"""Ready probabilities are used as they are, or refused with the place and the reason."""

import numpy as np
import pytest

from dmlrank.exceptions import NuisanceError, OptionTypeError
from dmlrank.nuisance.outcome_model.user_learners import checked_mu


@pytest.fixture
def data(make_data):
    return make_data([0, 1, 2], [0, 1, 2], [1, 2, 0], [0, 1, 2], n_items=3, n_categories=3, n_contexts=4)


@pytest.fixture
def mu(draw_mu):
    return draw_mu(np.random.default_rng(0), 4, 3, 3)


def test_good_ones_are_kept(data, mu):
    np.testing.assert_array_equal(checked_mu(mu, data), mu)
    np.testing.assert_array_equal(checked_mu(mu.tolist(), data), mu)


def test_whatever_stands_on_the_diagonal_becomes_zero_in_a_copy(data, mu):
    given = mu.copy()
    given[:, [0, 1, 2], [0, 1, 2]] = np.nan
    np.testing.assert_array_equal(checked_mu(given, data), mu)
    assert np.isnan(given[0, 0, 0, 0])


def test_shape_is_named(data, mu):
    with pytest.raises(NuisanceError):
        checked_mu(mu[:3], data)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ([-0.1, 0.6, 0.5], "is not a probability"),
        ([np.nan, 0.5, 0.5], "is not a probability"),
        ([1.2, -0.1, -0.1], "is not a probability"),
        ([0.2, 0.2, 0.2], "does not sum to one"),
    ],
)
def test_wrong_probabilities_are_named_with_their_place(data, mu, wrong, what):
    mu[2, 1, 0] = wrong
    with pytest.raises(NuisanceError, match=what):
        checked_mu(mu, data)


def test_something_else_than_numbers(data):
    with pytest.raises(OptionTypeError):
        checked_mu("lightgbm", data)
