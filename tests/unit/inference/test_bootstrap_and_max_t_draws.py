"""Joint draws: their moments, and bootstrapped statistics written out."""

import tracemalloc

import numpy as np
import pytest

from dmlrank.exceptions import OptionError
from dmlrank.inference.bootstrap_and_max_t import (
    MULTIPLIERS,
    STUDENTISED,
    MultiplierBootstrap,
    NormalDraws,
    differences,
    draw_multipliers,
    max_t_draws,
)
from dmlrank.inference.covariance import Covariance


def collected(noise, contrasts):
    """All draws, (J, draws)."""
    return np.concatenate([rows(np.arange(len(contrasts.first))) for rows in noise.blocks(contrasts)], axis=1)


def test_normal_draws_have_the_covariance_of_the_t_statistics():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    covariance = Covariance(root @ root.T, np.eye(4))
    # The last two are scores themselves.
    contrasts = differences(covariance, np.array([0, 1, 3, 2, 0]), np.array([1, 2, 0, 4, 4]))
    rows = np.array([[1, -1, 0, 0], [0, 1, -1, 0], [-1, 0, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0]])
    np.testing.assert_allclose(contrasts.std_error, np.sqrt(np.diag(rows @ covariance.matrix @ rows.T)))
    scaled = rows / contrasts.std_error[:, None]
    draws = collected(NormalDraws(covariance.factor, 0), contrasts)
    assert draws.shape == (5, 100_000)
    np.testing.assert_allclose(np.cov(draws), scaled @ covariance.matrix @ scaled.T, atol=0.02)
    np.testing.assert_allclose(draws.mean(axis=1), 0, atol=0.015)


def test_many_pairs_have_fewer_draws():
    strengths = np.linspace(-1, 1, 210)
    covariance = Covariance(np.outer(strengths, strengths), strengths[:, None] / np.linalg.norm(strengths))
    first, second = np.triu_indices(210, 1)
    blocks = NormalDraws(covariance.factor, 0).blocks(differences(covariance, first, second))
    n_draws = sum(rows(np.arange(1)).shape[1] for rows in blocks)
    # Four thousand million statistics at most, of each pair in two directions.
    assert n_draws == 4_000_000_000 // (2 * len(first)) // 1000 * 1000 == 91_000


@pytest.mark.parametrize("kind", MULTIPLIERS)
def test_multipliers_have_mean_zero_and_variance_one(kind):
    drawn = draw_multipliers(np.random.default_rng(0), kind, (300, 1000))
    assert drawn.mean() == pytest.approx(0, abs=0.01)
    assert drawn.var() == pytest.approx(1, abs=0.01)
    assert len(np.unique(drawn)) == {"gaussian": 300_000, "rademacher": 2, "webb": 6}[kind]


def test_unknown_multipliers_are_refused():
    with pytest.raises(OptionError, match="rademacher"):
        draw_multipliers(np.random.default_rng(0), "rademaher", (1,))


@pytest.mark.parametrize("kind", MULTIPLIERS)
@pytest.mark.parametrize("n_units", [40, STUDENTISED + 200])
def test_bootstrapped_statistics_are_the_multiplied_rows_over_their_standard_error(kind, n_units):
    if kind == "gaussian" and n_units > STUDENTISED:
        pytest.skip("their sum is drawn at once: see the next test")
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(n_units, 3)) / n_units
    rows -= rows.mean(axis=0)
    covariance = Covariance(rows.T @ rows, np.eye(3))
    contrasts = differences(covariance, np.array([0, 1, 2]), np.array([1, 2, 3]))
    noise = MultiplierBootstrap(rows, 1.2, np.zeros((3, 3)), kind, seed=5, n_draws=64)
    draws = collected(noise, contrasts)
    multipliers = draw_multipliers(np.random.default_rng([20260121, 5]), kind, (n_units, 64))
    for j, each in enumerate((rows[:, 0] - rows[:, 1], rows[:, 1] - rows[:, 2], rows[:, 2])):
        multiplied = multipliers * each[:, None]
        total = multiplied.sum(axis=0)
        error = contrasts.std_error[j]
        if n_units <= STUDENTISED:
            error = np.sqrt(1.2 * ((multiplied - multiplied.mean(axis=0)) ** 2).sum(axis=0))
        np.testing.assert_allclose(draws[j], total / error, rtol=1e-9)


def test_a_bootstrap_of_many_units_holds_no_array_of_units_by_draws():
    """300,000 multipliers for each of 20,000 draws would be 48 GB."""
    n_units = 30_000
    rows = np.random.default_rng(4).normal(size=(n_units, 3)) / n_units
    covariance = Covariance(rows.T @ rows, np.eye(3))
    pairs = differences(covariance, *np.triu_indices(3, 1))
    for kind in MULTIPLIERS:
        tracemalloc.start()
        max_t_draws(MultiplierBootstrap(rows, 1.0, np.zeros((3, 3)), kind, 0, n_draws=4096), pairs, absolute=True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 250e6 < 8 * 4096 * n_units


@pytest.mark.parametrize("n_units", [300, 2000])
def test_what_comes_on_top_of_the_units_is_drawn_too(n_units):
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(n_units, 3)) / n_units
    rows -= rows.mean(axis=0)
    added = np.diag([0.0, 4.0, 1.0]) * (rows.T @ rows)[0, 0]
    covariance = Covariance(rows.T @ rows + added, np.eye(3))
    contrasts = differences(covariance, np.array([0, 1, 2]), np.array([1, 2, 3]))
    draws = collected(MultiplierBootstrap(rows, 1.0, added, "gaussian", 0, n_draws=20_000), contrasts)
    np.testing.assert_allclose(draws.var(axis=1), 1, atol=0.04)
