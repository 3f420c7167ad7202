"""Pair frequencies and their main-effects fit against optimisers and fits from elsewhere."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import dirichlet_multinomial

from dmlrank.nuisance.outcome_model.cross_fit import PairVotes, main_effects, shrunken_frequencies

RIDGE = 0.1
INTERCEPT_RIDGE = 1e-6


def shrunken_table(counts):
    return shrunken_frequencies(counts).table


def draw_counts(rng, n_items, n_categories, mean=12.0):
    counts = rng.poisson(mean * rng.dirichlet(np.ones(n_categories), size=(n_items, n_items))).astype(float)
    counts[np.arange(n_items), np.arange(n_items)] = 0
    counts[0, 1] = 0
    return counts


def probabilities(effects, n_items, n_categories):
    """The model of the docstring, pair by pair."""
    intercepts, strength = effects[:n_categories], effects[n_categories : n_categories + n_items]
    ties = effects[n_categories + n_items :].reshape(n_categories - 2, n_items)
    table = np.zeros((n_items, n_items, n_categories))
    for j in range(n_items):
        for k in range(n_items):
            if j != k:
                edge = strength[j] - strength[k]
                scores = intercepts + np.concatenate([[edge, -edge], ties[:, j] + ties[:, k]])
                table[j, k] = np.exp(scores) / np.exp(scores).sum()
    return table


@pytest.mark.parametrize("n_categories", [2, 3, 4, 5])
def test_main_effects_maximise_the_penalised_likelihood(n_categories):
    n_items = 4
    counts = draw_counts(np.random.default_rng(n_categories), n_items, n_categories)
    size = n_categories + n_items * (n_categories - 1)
    penalty = np.where(np.arange(size) < n_categories, INTERCEPT_RIDGE, RIDGE)
    has_votes = counts > 0

    def loss(effects):
        table = probabilities(effects, n_items, n_categories)
        return -(counts[has_votes] * np.log(table[has_votes])).sum() + (penalty * effects**2).sum() / 2

    best = minimize(loss, np.zeros(size), method="BFGS", options={"gtol": 1e-4})
    expected = probabilities(best.x, n_items, n_categories)
    np.testing.assert_allclose(main_effects(counts), expected, atol=2e-5)


def test_strength_of_the_prior_is_the_most_likely_of_its_grid():
    rng = np.random.default_rng(4)
    counts = draw_counts(rng, 6, 3, mean=40.0)
    fitted, pairs = main_effects(counts), ~np.eye(6, dtype=bool)
    total = counts.sum(axis=-1, keepdims=True)
    grid = [*(2.0**power for power in range(-1, 14)), 1e6]

    def likelihood(strength):
        voted = [(n, m) for n, m in zip(counts[pairs], fitted[pairs], strict=True) if n.sum()]
        return sum(dirichlet_multinomial.logpmf(n.astype(int), strength * m, int(n.sum())) for n, m in voted)

    best = max(grid, key=likelihood)
    assert grid[0] < best < grid[-1]
    np.testing.assert_allclose(shrunken_table(counts)[pairs], ((counts + best * fitted) / (total + best))[pairs])


def test_a_model_that_never_won_and_a_pair_never_seen_are_finite():
    counts = np.zeros((3, 3, 3))
    counts[0, 1, 0] = counts[0, 2, 0] = counts[1, 0, 1] = 50
    counts[1, 2] = [10, 10, 0]
    table = shrunken_table(counts)
    pairs = ~np.eye(3, dtype=bool)
    assert np.isfinite(table).all()
    assert (table[pairs] > 0).all()
    np.testing.assert_allclose(table[pairs].sum(axis=-1), 1)
    assert table[2, 0, 1] > 0.9
    assert not table[~pairs].any()


def test_no_votes_at_all_are_even_chances():
    table = shrunken_table(np.zeros((3, 3, 4)))
    np.testing.assert_allclose(table[~np.eye(3, dtype=bool)], 1 / 4)


def test_pairs_without_votes_cost_nothing_and_say_nothing():
    """The counts of many models are those of a few pairs: more models without a vote change no probability."""
    rng = np.random.default_rng(6)
    counts, wide = draw_counts(rng, 5, 3), np.zeros((12, 12, 3))
    wide[:5, :5] = counts
    assert len(PairVotes.of(wide).first) == (counts.sum(axis=-1) > 0).sum()
    for estimate in (main_effects, shrunken_table):
        np.testing.assert_allclose(estimate(wide)[:5, :5], estimate(counts), atol=1e-8)
