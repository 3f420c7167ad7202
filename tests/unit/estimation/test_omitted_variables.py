"""Omitted variables: the bound against the bias that a variable causes, and the robustness value against a search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from dmlrank.estimation.cross_fitting import SuppliedMu
from dmlrank.estimation.influence import NuisanceEstimates, TargetPopulation
from dmlrank.estimation.omitted_variables import (
    bias_scale,
    robustness_value,
    squared_error,
)
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, RankCentrality

WORTH = np.array([0.5, -0.5])
CONTRASTS = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])


def bias_bound(explained_label, explained_propensity, spread):
    """The largest absolute bias for C_Y^2 and C_D^2 = R / (1 - R)."""
    return np.sqrt(explained_label * explained_propensity / (1 - explained_propensity)) * spread


def drawn_law(rng, n_prompts=3, n_values=4, n_items=3):
    """Propensities and win probabilities given a variable U with known shares: (X, U, K, K) each."""
    shape = (n_prompts, n_values, n_items, n_items)
    return rng.dirichlet(np.ones(n_values)), rng.uniform(0.1, 0.6, size=shape), rng.uniform(0.2, 0.8, size=shape)


def as_probabilities(win):
    mu = np.stack([win, 1 - win], axis=-1)
    items = np.arange(mu.shape[-2])
    mu[..., items, items, :] = 0.0
    return mu


def make_one(make_data, n_contexts):
    rows = np.array([[i, 0, 1, 0] for i in range(n_contexts)]).T
    return make_data(*rows, n_items=3, n_categories=2, n_contexts=n_contexts)


@pytest.mark.parametrize("seed", range(6))
def test_no_variable_causes_a_larger_bias_for_borda(seed, make_data):
    """U's strengths are computed from its law in every cell; the largest ones bound the bias of the contrast."""
    rng = np.random.default_rng(seed)
    share, pi, win = drawn_law(rng)
    observed_pi = np.einsum("u,xujk->xjk", share, pi)
    among_labelled = share[None, :, None, None] * pi / observed_pi[:, None]
    observed = (among_labelled * win).sum(axis=1)
    true = np.einsum("u,xujk->xjk", share, win)
    functional = Borda(CategoryWeights.half(2))
    bias = (functional.value(as_probabilities(observed)) - functional.value(as_probabilities(true))).mean(axis=0)
    explained = (among_labelled * (win - observed[:, None]) ** 2).sum(axis=1) / (observed * (1 - observed))
    added = (among_labelled * (observed_pi[:, None] / pi) ** 2).sum(axis=1) - 1
    off = ~np.eye(3, dtype=bool)
    c_y2, c_d2 = explained[:, off].max(), added[:, off].max()
    nuisances = NuisanceEstimates(SuppliedMu(as_probabilities(observed)), np.full(3, 0.5))
    spread = bias_scale(functional, CONTRASTS, make_one(make_data, 3), nuisances, TargetPopulation(), WORTH).every_cell
    bound = bias_bound(np.array(c_y2), np.array(c_d2 / (1 + c_d2)), spread)
    assert (np.abs(CONTRASTS @ bias) <= bound).all()


def test_a_variable_that_is_as_bad_as_can_be_attains_the_bound(make_data):
    """U makes mu a linear function of pi / pi(U) in every cell, with the same strengths and the worst signs."""
    n_items, c_y, c_d = 3, 0.2, 0.5
    win = np.full((1, n_items, n_items), 0.5)
    # Among labelled battles U is +-1 with even chances; pi / pi(U) = 1 + c_d U and mu(U) = mu + c_y sd U.
    value = np.array([0.7, -0.1, -0.6])
    sign = np.sign(value[:, None] - value[None, :])
    contrast = np.array([1.0, 0.0, -1.0])
    observed = win
    true = win + sign * c_y * c_d * 0.5
    functional = Borda(CategoryWeights.half(2))
    bias = (functional.value(as_probabilities(true)) - functional.value(as_probabilities(observed)))[0] @ contrast
    nuisances = NuisanceEstimates(SuppliedMu(as_probabilities(observed)), np.full(1, 0.5))
    spread = bias_scale(
        functional, contrast[None], make_one(make_data, 1), nuisances, TargetPopulation(), WORTH
    ).every_cell
    assert bias == pytest.approx(bias_bound(np.array(c_y**2), np.array(c_d**2 / (1 + c_d**2)), spread)[0])


@pytest.mark.parametrize("functional", [Borda, BradleyTerry, RankCentrality])
def test_spread_is_the_sum_of_standard_deviations_of_labels(functional, make_data):
    rng = np.random.default_rng(3)
    mu = as_probabilities(rng.uniform(0.2, 0.8, size=(4, 3, 3)))
    score, weight = functional(CategoryWeights.half(2)), np.array([0.5, 1.5, 1.0, 1.0])
    nuisances = NuisanceEstimates(SuppliedMu(mu), np.full(4, 0.5))
    spread = bias_scale(score, CONTRASTS, make_one(make_data, 4), nuisances, TargetPopulation(weight), WORTH).every_cell
    expected = np.zeros(len(CONTRASTS))
    for j, k in ((j, k) for j in range(3) for k in range(3) if j != k):
        delta = np.zeros_like(mu)
        delta[:, j, k] = [1.0, -1.0]
        slope = score.derivative(mu, delta) @ CONTRASTS.T
        expected += (weight[:, None] * np.abs(slope) * np.sqrt(mu[:, j, k, :1] * mu[:, j, k, 1:])).mean(axis=0)
    np.testing.assert_allclose(spread, expected, rtol=1e-9)


@pytest.mark.parametrize("distance", [0.003, 0.1, 0.4, 3.0])
def test_the_robustness_value_is_found_by_a_search(distance):
    spread = np.array([0.7])
    found = brentq(lambda r: bias_bound(np.array(r), np.array(r), spread)[0] - distance, 1e-9, 1 - 1e-12, xtol=1e-14)
    assert robustness_value(np.array([distance]), spread)[0] == pytest.approx(found, rel=1e-6)
    half = robustness_value(np.array([distance]), spread / 2)[0]
    assert half > found


def enumerated(make_data, law, truth, models):
    """What bounds the bias with each model of win and pi; a context is a prompt, pair and label, weighted by chance."""
    win, pi = truth
    x, j, k = (np.tile(part, 2) for part in np.nonzero(np.broadcast_to(~np.eye(3, dtype=bool), pi.shape)))
    label = np.repeat([0, 1], len(x) // 2)
    chance = law[x] * pi[x, j, k] * np.where(label == 0, win[x, j, k], 1 - win[x, j, k])
    data, population = (
        make_data(np.arange(len(x)), j, k, label, n_items=3, n_categories=2),
        TargetPopulation(chance * len(x)),
    )
    for win, pi in models:
        nuisances = NuisanceEstimates(SuppliedMu(as_probabilities(win)[x]), pi[x, j, k])
        yield bias_scale(Borda(CategoryWeights.half(2)), CONTRASTS, data, nuisances, population, WORTH)


@pytest.mark.long
def test_leaving_a_feature_out_moves_no_estimate_beyond_the_bound(make_data):
    """1,000 laws of X and Z; in half of them Z moves the pairs of one model alone."""
    rng, used = np.random.default_rng(4), []
    functional = Borda(CategoryWeights.half(2))
    for number in range(1000):
        law, shape = rng.dirichlet(np.ones(4)).reshape(2, 2), (2, 2, 3, 3)
        pi, win = rng.uniform(0.05, 0.95, size=shape), rng.uniform(0.05, 0.95, size=shape)
        if number % 2:
            pi[:, 1, 1:, 1:], win[:, 1, 1:, 1:] = pi[:, 0, 1:, 1:], win[:, 0, 1:, 1:]
        given_x = law / law.sum(axis=1, keepdims=True)
        short_pi = np.einsum("xz,xzjk->xjk", given_x, pi)
        short_win = np.einsum("xz,xzjk,xzjk->xjk", given_x, pi, win) / short_pi
        short = tuple(np.repeat(part, 2, axis=0) for part in (short_win, short_pi))
        full = win.reshape(4, 3, 3), pi.reshape(4, 3, 3)
        long_scale, short_scale = enumerated(make_data, law.ravel(), full, (full, short))
        change = law.ravel() @ functional.value(as_probabilities(short[0]) - as_probabilities(full[0])) @ CONTRASTS.T
        c_y2, c_d2 = long_scale.strengths(short_scale, np.arange(len(long_scale.weight)))
        bound = np.sqrt(c_y2 * c_d2) * long_scale.aggregate
        assert (np.abs(change) <= bound + 1e-12).all()
        used.append((np.abs(change) / bound).max())
    assert max(used) > 0.9


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("functional", [Borda, BradleyTerry, RankCentrality])
def test_the_derivative_along_a_label_is_that_of_the_correction(functional, ordered, make_data):
    """alpha times the label's residual is the correction of a context with one label."""
    rng, n = np.random.default_rng(5), 12
    first, second = np.array([(0, 1), (0, 2), (1, 2)] * 4).T
    win = rng.uniform(0.2, 0.8, size=(n, 3, 3))
    win = win if ordered else (win + 1 - win.transpose(0, 2, 1)) / 2
    data = make_data(np.arange(n), first, second, rng.integers(2, size=n), n_items=3, n_categories=2)
    data = replace(data, ordered=ordered)
    mu, score = as_probabilities(win), functional(CategoryWeights.half(2))
    delta = np.zeros_like(mu)
    delta[np.arange(n), first, second] = [1.0, -1.0]
    if not ordered:
        delta[np.arange(n), second, first] = [-1.0, 1.0]
    alpha = score.derivative(mu, delta) @ CONTRASTS.T / 0.3
    nuisances = NuisanceEstimates(SuppliedMu(mu), np.full(n, 0.3))
    scale = bias_scale(score, CONTRASTS, data, nuisances, TargetPopulation(), WORTH)
    np.testing.assert_allclose(scale.slope / 0.3, np.abs(alpha), rtol=1e-6)


def test_without_a_distance_or_without_variance_the_robustness_value_is_defined():
    assert robustness_value(np.array([0.0, 0.3]), np.zeros(2)).tolist() == [0.0, 1.0]


def test_squared_errors_are_means_over_the_votes_of_a_cell():
    mu, y = np.array([[0.7, 0.3], [0.4, 0.6]]), np.array([[1.0, 0.0], [0.5, 0.5]])
    error = squared_error(mu, y, np.array([1.0, 0.0]))
    np.testing.assert_allclose(error, [0.3**2, (0.6**2 + 0.4**2) / 2])
