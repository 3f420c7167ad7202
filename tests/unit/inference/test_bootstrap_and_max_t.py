"""Joint draws, their moments, and adjusted p-values against statsmodels, R's multcomp, scipy and step-downs."""

import pathlib
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.stats import dunnett, norm, studentized_range
from statsmodels.stats.multitest import multipletests

from dmlrank._utils.tasks_and_threads import computing_with
from dmlrank.inference import bootstrap_and_max_t
from dmlrank.inference.bootstrap_and_max_t import (
    STUDENTISED,
    MultiplierBootstrap,
    NormalDraws,
    differences,
    draw_multipliers,
    holm,
    max_abs_normal_draws,
    max_t_critical_value,
    max_t_draws,
    max_t_p_values,
    step_down,
)
from dmlrank.inference.covariance import Covariance, free_basis
from dmlrank.inference.simultaneous import PAIR_METHODS, MaxT, compare_differences
from dmlrank.inference.wald import SIDES, Alternative
from dmlrank.options import MULTIPLIERS

REFERENCE = pathlib.Path(__file__).parents[2] / "reference" / "multcomp.csv"
# Three standard errors of a share of 100,000 draws are at most 0.0048, of a critical value about 0.02.
SHARE, QUANTILE = 0.005, 0.025


def draw_covariance(rng, d):
    """Of scores that sum to a constant."""
    basis = free_basis(np.ones((1, d)) / np.sqrt(d), d)
    root = basis @ (0.5 * rng.normal(size=(d - 1, d - 1)) + np.eye(d - 1))
    return Covariance(root @ root.T, basis)


class Fixed:
    """Draws that are given, so that a twin can use the same ones; not normal, so nothing is bounded."""

    normal = False

    def __init__(self, draws):
        self.draws = draws

    def blocks(self, contrasts):
        del contrasts
        for part in np.array_split(self.draws, 3, axis=1):
            yield lambda which, part=part: part[which]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.long
def test_holm_s_adjustment_is_that_of_statsmodels(seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=12) ** 4
    p[3] = p[7]
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1], rtol=1e-12)


@pytest.fixture
def given():
    """What tests/reference/multcomp.R starts from."""
    i = np.arange(1, 6)
    root = np.cos(np.outer(i, i)) / (3 + i)[:, None]
    covariance = Covariance((root @ root.T + np.diag(0.02 * i)) / 2, np.eye(5))
    return np.array([0.55, 0.31, 0.22, -0.4, -0.68]), covariance


@pytest.mark.parametrize(("family", "group"), list(pd.read_csv(REFERENCE).groupby(["family", "type", "alternative"])))
def test_tests_of_differences_are_those_of_multcomp(given, family, group):
    _, kind, alternative = family
    first, second = (group["contrast"].str[at].map("abcde".index).to_numpy() for at in (0, 4))
    method = {"single-step": "max-t", "free": "step-down", "BH": "fdr_bh"}.get(kind, kind)
    side = {"two.sided": "two-sided", "greater": "larger", "less": "smaller"}[alternative]
    tests = compare_differences(
        given[0], MaxT(given[1]), first, second, method=method, alternative=Alternative(side), alpha=0.05
    )
    atol = SHARE if kind in ("single-step", "free") else 1e-7
    np.testing.assert_allclose(tests.p_adjusted, group["p"], atol=atol)
    if kind in ("single-step", "free"):
        limits = np.stack([tests.conf_low, tests.conf_high]), group[["low", "high"]].to_numpy().T
        np.testing.assert_allclose(*limits, atol=QUANTILE * tests.std_error.max())


@pytest.mark.parametrize("k", [3, 8, 20])
def test_all_differences_of_independent_scores_follow_the_studentised_range(k):
    covariance = Covariance(0.3 * np.eye(k), np.eye(k))
    pairs = differences(covariance, *np.triu_indices(k, 1))
    maxima = max_t_draws(MaxT(covariance, 1).draws, pairs, absolute=True)
    for level in (0.5, 0.9, 0.95):
        exact = studentized_range.ppf(level, k, np.inf) / np.sqrt(2)
        assert np.quantile(maxima, level) == pytest.approx(exact, abs=QUANTILE)


@pytest.mark.parametrize(("side", "word"), [("two-sided", "two-sided"), ("larger", "greater"), ("smaller", "less")])
def test_many_to_one_tests_are_those_of_dunnett(side, word):
    rng = np.random.default_rng(2)
    size = 4000
    samples = [rng.normal(loc, 1, size=size) for loc in (0, 0.03, 0.05, -0.045)]
    means = np.array([sample.mean() for sample in samples])
    pooled = np.mean([sample.var(ddof=1) for sample in samples])
    covariance = Covariance(pooled / size * np.eye(4), np.eye(4))
    expected = dunnett(*samples[1:], control=samples[0], alternative=word, random_state=np.random.default_rng(0))
    others, control = np.array([1, 2, 3]), np.zeros(3, dtype=int)
    options = {"method": "max-t", "alternative": Alternative(side), "alpha": 0.05}
    tests = compare_differences(means, MaxT(covariance), others, control, **options)
    np.testing.assert_allclose(tests.statistic, expected.statistic, rtol=1e-9)
    np.testing.assert_allclose(tests.p_adjusted, expected.pvalue, atol=SHARE)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sides", ["one", "absolute", "opposites"])
@pytest.mark.parametrize("step", [2, 32])
def test_stepping_down_is_removing_the_rejected_and_starting_again(seed, sides, step, monkeypatch):
    monkeypatch.setattr(bootstrap_and_max_t, "_STEP", step)
    rng = np.random.default_rng(seed)
    draws = np.linalg.cholesky(0.6 + 0.4 * np.eye(9)) @ rng.standard_normal((9, 2000))
    t = np.sort(rng.uniform(0.0, 3.6, size=9))[rng.permutation(9)]
    family = rng.permutation(9)
    p_adjusted, max_t = step_down(Fixed(draws), None, t, families=[family], sides=sides)[0]
    sizes = np.abs(draws) if sides == "absolute" else draws
    # Opposites are never rejected.
    others = (-draws).max(axis=0) if sides == "opposites" else np.full(2000, -np.inf)
    for alpha in (0.01, 0.05, 0.2, 0.5):
        left, rejected = set(range(9)), set()
        while left:
            top = np.maximum(sizes[sorted(left)].max(axis=0), others)
            worst = max(left, key=lambda i: t[i])
            if (1 + (top >= t[worst]).sum()) / 2001 > alpha:
                break
            left.remove(worst)
            rejected.add(worst)
        assert {int(i) for i in family[p_adjusted <= alpha]} == rejected
    np.testing.assert_array_equal(np.sort(max_t), np.sort(np.maximum(sizes.max(axis=0), others)))


@pytest.mark.parametrize("shared", [0.0, 3.0])
def test_of_many_pairs_few_are_compared_in_a_draw_and_no_number_moves(shared):
    rng = np.random.default_rng(0)
    factor = np.hstack([np.diag(rng.uniform(0.5, 2, size=60)), shared * rng.normal(size=(60, 2))])
    pairs = differences(Covariance(factor @ factor.T, np.eye(60)), *np.triu_indices(60, 1))
    t, draws = np.abs(rng.normal(scale=3, size=len(pairs.first))), NormalDraws(factor, 0, 3000)
    of_all = Fixed(np.hstack([draw(np.arange(len(t))) for draw in draws.blocks(pairs)]))
    made, expected = (step_down(drawn, pairs, t, sides="opposites")[0] for drawn in (draws, of_all))
    np.testing.assert_array_equal(made[0], expected[0])
    np.testing.assert_array_equal(made[1], expected[1])


def test_families_share_draws_and_nothing_else():
    rng = np.random.default_rng(0)
    noise, t = Fixed(rng.standard_normal((6, 900))), rng.uniform(0, 3, size=6)
    together = step_down(noise, None, t, families=[np.array([0, 1, 2]), np.array([5, 2])])
    for family, (p_adjusted, _) in zip(([0, 1, 2], [5, 2]), together, strict=True):
        alone, _ = step_down(noise, None, t, families=[np.array(family)])[0]
        np.testing.assert_array_equal(p_adjusted, alone)


def test_normal_draws_are_the_same_in_any_number_of_threads():
    factor = np.random.default_rng(1).normal(size=(4, 3))
    drawn = []
    for n_jobs in (1, 3):
        with computing_with(n_jobs):
            drawn.append(max_abs_normal_draws(factor))
    np.testing.assert_array_equal(*drawn)
    np.testing.assert_array_equal(drawn[0], max_abs_normal_draws(factor))
    assert len(drawn[0]) == 100_000


def test_far_out_p_values_are_bounded_where_no_draw_reaches():
    t = np.array([9.0, 2.0])
    p = 2 * norm.sf(t)
    maxima = np.abs(np.random.default_rng(0).standard_normal((2, 1000))).max(axis=0)
    adjusted = max_t_p_values(t, p, maxima, normal=True)
    assert adjusted[0] == 2 * p[0]
    assert max_t_p_values(t, p, maxima, normal=False)[0] == 1 / 1001
    critical = max_t_critical_value(maxima, 1e-9, 5e-10, 2)
    assert norm.isf(5e-10) < critical == norm.isf(2.5e-10)
    assert max_t_critical_value(maxima, 1e-9, 5e-10, 2, normal=False) == norm.isf(5e-10)
    assert p[1] < adjusted[1] < 2 * p[1] + 1e-12


@pytest.mark.parametrize("method", PAIR_METHODS)
@pytest.mark.parametrize("side", SIDES)
def test_intervals_and_p_values_decide_alike(method, side):
    rng = np.random.default_rng(3)
    covariance, estimate = draw_covariance(rng, 6), 3 * rng.normal(size=6)
    delta = {"two-sided": 0.0, "equivalence": 5.0}.get(side, 0.5)
    first, second = np.triu_indices(6, 1)
    noise = MaxT(covariance)
    tests = compare_differences(
        estimate, noise, first, second, method=method, alternative=Alternative(side, delta), alpha=0.2
    )
    outside = {
        "two-sided": (tests.conf_low > 0) | (tests.conf_high < 0),
        "larger": tests.conf_low > delta,
        "smaller": tests.conf_high < delta,
        "noninferiority": tests.conf_low > -delta,
        "equivalence": (tests.conf_low > -delta) & (tests.conf_high < delta),
    }[side]
    rejected = tests.p_adjusted <= 0.2
    assert 0 < rejected.sum() < len(rejected)
    if method in ("step-down", "holm"):
        # Later steps may reject what the intervals of the first step do not exclude.
        assert (rejected | ~outside).all()
    elif method == "fdr_bh":
        assert (outside | ~rejected).all()
    else:
        np.testing.assert_array_equal(rejected, outside)
    assert (tests.p_adjusted >= tests.p_value - 1e-15).all()


def test_differences_without_variance_are_left_out_of_the_family():
    matrix = np.array([[1.0, 1.0, 0.2], [1.0, 1.0, 0.2], [0.2, 0.2, 1.0]])
    covariance = Covariance(matrix, np.eye(3))
    noise = MaxT(covariance)
    first, second = np.triu_indices(3, 1)
    tests = compare_differences(
        np.array([1.0, 0.5, 0.0]), noise, first, second, method="max-t", alternative=Alternative(), alpha=0.1
    )
    assert np.isnan([tests.statistic[0], tests.p_adjusted[0], tests.conf_low[0], tests.conf_high[0]]).all()
    # The two that are left move together: nothing to adjust for.
    np.testing.assert_allclose(tests.p_adjusted[1:], tests.p_value[1:], atol=SHARE)


def test_what_scores_share_cancels_in_differences():
    rng = np.random.default_rng(5)
    small = draw_covariance(rng, 4)
    shared = Covariance(small.matrix + 1e9, np.eye(4))
    pairs = differences(small, *np.triu_indices(4, 1))
    critical = [np.quantile(max_t_draws(MaxT(c, 0).draws, pairs, absolute=True), 0.95) for c in (small, shared)]
    assert critical[0] == pytest.approx(critical[1], abs=QUANTILE)


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
