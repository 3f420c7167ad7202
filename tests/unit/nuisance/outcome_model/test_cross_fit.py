"""Learners of mu where the votes are many, few, of one category only, or without features."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import dirichlet_multinomial

from dmlrank.nuisance.outcome_model.cross_fit import (
    BoosterMu,
    ConstantMu,
    PairVotes,
    fit_mu,
    main_effects,
    shrunken_frequencies,
)

from ....support import two_of

TUNE = {"n_estimators": 30, "num_leaves": 6, "min_data_in_leaf": 5}
PAIRS = ~np.eye(3, dtype=bool)


@pytest.fixture
def draw(make_data):
    def draw(label, n_categories, n=None, features=1, seed=0):
        rng = np.random.default_rng(seed)
        label = np.asarray(label)
        first, second = two_of(rng, 3, len(label))
        x = rng.normal(size=(n or len(label), features))
        return make_data(np.arange(len(label)), first, second, label, n_items=3, n_categories=n_categories, x=x)

    return draw


def fit(data, in_training=None):
    in_training = np.ones(data.n_contexts, dtype=bool) if in_training is None else in_training
    return fit_mu(data, in_training, data.seed_order, np.random.default_rng(0), tune=TUNE)


def fit_without_booster(data, in_training=None):
    """A model whose probabilities are a table."""
    model = fit(data, in_training)
    assert isinstance(model, ConstantMu)
    return model


def test_a_fold_with_one_category_predicts_it(draw):
    label = np.r_[np.zeros(20, dtype=int), np.ones(20, dtype=int)]
    mu = fit_without_booster(draw(label, 2), np.arange(40) < 20).predict(np.zeros((4, 1)))
    assert mu.shape == (4, 3, 3, 2)
    np.testing.assert_array_equal(mu[:, PAIRS], np.broadcast_to([1.0, 0.0], (4, 6, 2)))
    assert not mu[:, ~PAIRS].any()


def test_no_label_in_a_fold_is_even_chances(draw):
    data = draw(np.arange(30) % 3, 3, n=50)
    mu = fit_without_booster(data, np.arange(50) >= 30).predict(np.zeros((2, 1)))
    np.testing.assert_allclose(mu[:, PAIRS], 1 / 3)


def test_without_features_votes_are_counted_and_no_booster_is_trained(draw):
    rng = np.random.default_rng(1)
    data = draw(rng.integers(3, size=200), 3, features=0)
    in_training = rng.random(200) < 0.7
    counts = np.zeros((3, 3, 3))
    for cell in np.flatnonzero(in_training[data.cells.context]):
        counts[data.cells.first[cell], data.cells.second[cell]] += data.cells.y[cell] * data.cells.n_votes[cell]
    model = fit_without_booster(data, in_training)
    np.testing.assert_allclose(model.predict(np.empty((2, 0))), np.stack([shrunken_frequencies(counts).table] * 2))


def test_repeated_votes_count_each(make_data):
    context, label = [0, 0, 0, 1, 2], [0, 0, 1, 0, 1]
    data = make_data(context, [0] * 5, [1] * 5, label, n_items=2, n_categories=2)
    counts = np.zeros((2, 2, 2))
    counts[0, 1] = [3, 2]
    np.testing.assert_allclose(fit_without_booster(data).predict(data.x)[0], shrunken_frequencies(counts).table)


@pytest.mark.parametrize("n_categories", [2, 3, 5])
def test_a_booster_finds_what_depends_on_the_context(draw, n_categories):
    rng = np.random.default_rng(2)
    data = draw(np.zeros(600, dtype=int), n_categories)
    label = np.where(rng.random(600) < np.where(data.x[:, 0] > 0, 0.9, 0.1), 0, rng.integers(1, n_categories, 600))
    data.cells.y[:] = np.eye(n_categories)[label]
    model = fit(data)
    assert isinstance(model, BoosterMu)
    low, high = model.predict(np.array([[-1.0], [1.0]]))[:, PAIRS, 0].mean(axis=1)
    assert low < 0.25
    assert high > 0.75


def test_a_category_that_a_fold_does_not_have_gets_hardly_any_probability_and_keeps_its_place(draw):
    rng = np.random.default_rng(3)
    data = draw(np.r_[rng.choice([0, 2], size=300), np.ones(20, dtype=int)], 3)
    mu = fit(data, np.arange(320) < 300).predict(data.x[:50])
    assert mu.shape[-1] == 3
    assert mu[..., 1].max() < 1e-6
    np.testing.assert_allclose(mu[:, PAIRS].sum(axis=-1), 1)
    assert mu[:, PAIRS][..., [0, 2]].mean() == pytest.approx(0.5, abs=0.01)


def test_held_out_contexts_are_not_looked_at(draw):
    rng = np.random.default_rng(4)
    label, in_training = rng.integers(3, size=200), np.arange(200) % 4 > 0
    other = np.where(in_training, label, (label + 1) % 3)
    one, two = (fit(draw(labels, 3), in_training).predict(np.zeros((1, 1))) for labels in (label, other))
    np.testing.assert_array_equal(one, two)


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
