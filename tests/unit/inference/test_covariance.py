"""Covariances against their formulas in loops, and intervals where few clusters have most votes."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh, sqrtm

from dmlrank.data.graph import Graph
from dmlrank.estimation.influence import Influence
from dmlrank.exceptions import DataError, DmlrankWarning, IntervalWarning
from dmlrank.functionals import CategoryWeights, RankCentrality
from dmlrank.functionals.base import Gauge
from dmlrank.inference.covariance import (
    Covariance,
    covariance_of_mean,
    find_constant_combination,
    free_basis,
    match_blocks,
    one_way,
    robust,
    transport_map,
    two_way,
)
from dmlrank.inference.simultaneous import MaxT, compare_differences

NO_GAUGE = np.empty((0, 3))


@pytest.fixture
def draw():
    def draw(seed=0, n=90, n_blocks=260, d=3):
        rng = np.random.default_rng(seed)
        context = np.sort(np.concatenate([np.arange(n), rng.integers(n, size=n_blocks - n)]))
        correction = rng.normal(size=(n_blocks, d)) + rng.normal(size=(n, d))[context] + 0.3
        annotator = np.concatenate([rng.permutation(40)[: np.sum(context == i)] for i in range(n)])
        return Influence(
            rng.normal(size=(n, d)), correction, context, rng.uniform(0.3, 1, size=n_blocks), np.ones(n)
        ), annotator

    return draw


def outer_sums(rows, *groups):
    """Sum over groups of (sum of rows)(sum of rows)'."""
    total = {}
    for row, *key in zip(rows, *groups, strict=True):
        total[tuple(key)] = total.get(tuple(key), 0) + row
    return sum(np.outer(row, row) for row in total.values())


def phi_in_loops(influence):
    """Value and corrections of every context less the estimate."""
    n = len(influence.value)
    phi = influence.value.copy()
    for block, context in enumerate(influence.block_context):
        phi[context] += influence.correction[block]
    return phi - sum(phi) / n


def centred_blocks(influence):
    share = influence.block_weight / sum(influence.block_weight)
    return influence.correction - np.outer(share, sum(influence.correction))


def test_robust(draw):
    influence, _ = draw()
    phi = phi_in_loops(influence)
    expected = sum(np.outer(row, row) for row in phi) / 90**2
    np.testing.assert_allclose(robust(influence, NO_GAUGE).matrix, expected, rtol=1e-12)
    np.testing.assert_allclose(robust(influence, NO_GAUGE).matrix, np.cov(phi.T, ddof=0) / 90, rtol=1e-12)


def df_in_loops(phi, group):
    """Degrees of freedom of each score and the scale of quantiles, cluster by cluster."""
    n, d = phi.shape
    clusters = [phi[group == g] for g in np.unique(group)]
    n_groups, s = len(clusters), np.array([len(rows) / n for rows in clusters])
    w = np.array([len(rows) * rows.var(axis=0, ddof=1) if len(rows) > 1 else np.full(d, np.nan) for rows in clusters])
    of_many = np.isfinite(w[:, 0])
    w = np.where(np.isfinite(w), w, np.outer(s, np.nansum(w, axis=0) / s[of_many].sum()))
    q = w / w.sum(axis=0)
    for j in range(d):
        kurtosis = np.mean(phi[:, j] ** 4) / np.mean(phi[:, j] ** 2) ** 2
        noise = sum(n * s_g * (kurtosis - 1 + 2 / (n * s_g - 1)) for s_g in s[of_many]) / n**2
        q[:, j] = s + max(0, 1 - noise / sum((q[:, j] - s) ** 2)) * (q[:, j] - s)
    of_sums = np.array([rows.sum(axis=0) for rows in clusters]) ** 2 / (1 - q)
    each = np.square(phi).sum(axis=0)
    part = min(1, sum(w.sum(axis=0) / each) / sum(of_sums.sum(axis=0) / each))
    v = part * q + (1 - part) * q**2 / (q**2).sum(axis=0)
    m = np.array([v[g] * (1 - q[g]) ** 2 + q[g] ** 2 * (v.sum(axis=0) - v[g]) for g in range(n_groups)])
    df = np.clip(m.sum(axis=0) ** 2 / (m**2).sum(axis=0) - 1, 1, n_groups - 1)
    return df, np.sqrt(max(1, (1 - 1 / n_groups) / np.mean(m.sum(axis=0) / v.sum(axis=0))))


def test_one_way(draw):
    influence, _ = draw(1)
    group = np.random.default_rng(0).integers(40, size=90)
    n_groups = len(np.unique(group))
    expected = outer_sums(phi_in_loops(influence), group) * n_groups / (n_groups - 1) / 90**2
    made = one_way(influence, group, NO_GAUGE)
    np.testing.assert_allclose(made.matrix, expected, rtol=1e-12)
    assert made.n_clusters == (n_groups,)
    df, scale = df_in_loops(phi_in_loops(influence), group)
    np.testing.assert_allclose(made.of_scores, df, rtol=1e-10)
    assert made.scale == pytest.approx(scale)
    assert made.df == pytest.approx(1 / np.mean(1 / np.sqrt(df)) ** 2)


@pytest.mark.filterwarnings("ignore:there are only:dmlrank.exceptions.IntervalWarning")
@pytest.mark.parametrize("n_groups", [12, 45])
def test_groups_of_one_size_have_the_usual_factor_and_degrees_of_freedom(n_groups):
    rng = np.random.default_rng(0)
    n = 20 * n_groups
    group = np.arange(n) % n_groups
    value = rng.normal(size=(n, 3)) + rng.normal(size=(n_groups, 3))[group]
    influence = Influence(value, np.zeros((n, 3)), np.arange(n), np.ones(n), np.ones(n))
    made = one_way(influence, group, NO_GAUGE)
    expected = outer_sums(phi_in_loops(influence), group) * n_groups / (n_groups - 1) / n**2
    np.testing.assert_allclose(made.matrix, expected, rtol=1e-10)
    assert 0.9 * (n_groups - 1) < made.df <= n_groups - 1
    assert made.scale == pytest.approx(1, abs=1e-3)


@pytest.mark.filterwarnings("ignore:the 100 clusters count as .* for one of the scores:UserWarning")
def test_a_score_whose_votes_lie_in_few_clusters_has_its_own_degrees_of_freedom():
    rng = np.random.default_rng(0)
    inside = {"own": [], "typical": []}
    group = np.arange(1500) % 100
    for _ in range(300):
        value = rng.normal(size=(1500, 3)) + rng.normal(size=(100, 3))[group]
        own = value[group < 6, 2].mean()
        value[:, 2] = own + np.where(group < 6, 100 / 6, 0) * (value[:, 2] - own)
        influence = Influence(value, np.zeros_like(value), np.arange(1500), np.ones(1500), np.ones(1500))
        covariance = one_way(influence, group, NO_GAUGE)
        for own, law in (("own", covariance), ("typical", replace(covariance, of_scores=None))):
            tests = compare_differences(
                influence.estimate, MaxT(law, n_draws=512), np.array([2]), np.array([0]), method="none", alpha=0.05
            )
            inside[own].append(tests.conf_low[0] < 0 < tests.conf_high[0])
            assert (tests.p_value[0] > 0.05) == inside[own][-1]
    assert np.mean(inside["typical"]) < 0.9 < 0.93 < np.mean(inside["own"])


def test_few_effective_clusters_are_warned_of():
    # Three of the clusters have 45 % of the prompts.
    rng, group = np.random.default_rng(0), np.repeat(np.arange(241), [225] * 3 + [3, 4] * 119)
    n = len(group)
    value = np.sqrt(0.5) * (rng.normal(size=(241, 3))[group] + rng.normal(size=(n, 3)))
    with pytest.warns(IntervalWarning, match="the 241 clusters count as"):
        one_way(Influence(value, np.zeros((n, 3)), np.arange(n), np.ones(n), np.ones(n)), group, NO_GAUGE)


@pytest.mark.parametrize("n_prompts", [90, 35])
def test_two_way_from_the_blocks(draw, n_prompts):
    influence, annotator = draw(3)
    prompt = np.arange(90) % n_prompts
    blocks, its_prompt = centred_blocks(influence), prompt[influence.block_context]
    total = outer_sums(phi_in_loops(influence), prompt) + outer_sums(blocks, annotator)
    total -= outer_sums(blocks, its_prompt, annotator)
    made = two_way(influence, prompt, annotator, NO_GAUGE)
    fewest = min(n_prompts, 40)
    np.testing.assert_allclose(made.matrix, total * fewest / (fewest - 1) / 90**2, rtol=1e-10)
    assert 1 < made.scale < 1.01
    assert made.n_clusters == (n_prompts, 40)
    assert made.note == ""


def test_empty_pieces_belong_to_no_annotator(draw):
    influence, annotator = draw(4)
    empty = influence.block_context < 20
    correction, weight = influence.correction.copy(), influence.block_weight.copy()
    correction[empty] = weight[empty] = 0
    silent = Influence(influence.value, correction, influence.block_context, weight, influence.weight)
    made, expected = (
        two_way(silent, np.arange(90), np.where(empty, label, annotator), NO_GAUGE) for label in (-1, annotator)
    )
    np.testing.assert_allclose(made.matrix, expected.matrix, rtol=1e-12)


def test_two_groupings_of_contexts(draw):
    influence, _ = draw(6)
    rng = np.random.default_rng(0)
    first, second = rng.integers(36, size=90), rng.integers(33, size=90)
    phi = phi_in_loops(influence)
    total = outer_sums(phi, first) + outer_sums(phi, second) - outer_sums(phi, first, second)
    made = two_way(influence, first, second, NO_GAUGE, of_contexts=True)
    fewest = min(made.n_clusters)
    assert made.n_clusters == (len(np.unique(first)), len(np.unique(second)))
    np.testing.assert_allclose(made.matrix, total * fewest / (fewest - 1) / 90**2, rtol=1e-10)


def test_many_prompts_by_many_annotators_need_no_table_of_both():
    rng = np.random.default_rng(0)
    n = 60_000
    influence = Influence(rng.normal(size=(n, 3)), rng.normal(size=(n, 3)), np.arange(n), np.ones(n), np.ones(n))
    made = two_way(influence, np.arange(n), rng.integers(50_000, size=n), NO_GAUGE)
    np.testing.assert_allclose(made.matrix, 2 * np.eye(3) / n, atol=0.1 / n)


def test_where_the_difference_is_not_positive_semidefinite_nothing_is_subtracted(draw):
    rng = np.random.default_rng(1)
    sign = np.where(np.arange(1600) % 40 < 20, 1.0, -1.0) * np.where(np.arange(1600) // 40 < 20, 1.0, -1.0)
    phi = sign[:, None] + 1e-3 * rng.normal(size=(1600, 1))
    influence = Influence(phi, np.zeros_like(phi), np.arange(1600), np.ones(1600), np.ones(1600))
    first, second = np.arange(1600) % 40, np.arange(1600) // 40
    made = two_way(influence, first, second, np.empty((0, 1)), of_contexts=True)
    centred = phi - phi.mean()
    added = outer_sums(centred, first) + outer_sums(centred, second)
    assert added < outer_sums(centred, first, second)
    np.testing.assert_allclose(made.matrix, added * 40 / 39 / 1600**2, rtol=1e-10)
    assert "is counted twice" in made.note


def test_what_the_functional_fixes_has_no_variance_at_all(draw):
    influence, _ = draw(7)
    rounded = Influence(
        influence.value - influence.value.mean(axis=1, keepdims=True) + 1e-9,
        influence.correction - influence.correction.mean(axis=1, keepdims=True),
        influence.block_context,
        influence.block_weight,
        influence.weight,
    )
    made = robust(rounded, Gauge.spanned_by(np.ones(3), "").basis)
    assert made.basis.shape == (3, 2)
    assert made.reduced.shape == (2, 2)
    np.testing.assert_allclose(made.matrix.sum(axis=1), 0, atol=1e-15)
    np.testing.assert_allclose(made.basis @ made.reduced @ made.basis.T, made.matrix, atol=1e-15)


def test_the_hub_of_a_star_has_a_standard_error_of_exactly_zero(draw_mu):
    graph = Graph.of([(0, 1), (0, 2), (0, 3)], 4)
    walk = RankCentrality(CategoryWeights.half(2), graph)
    value = walk.value(draw_mu(np.random.default_rng(2), 50, 4, 2))
    influence = Influence(value, np.zeros((0, 4)), np.zeros(0, dtype=int), np.zeros(0), np.ones(len(value)))
    gauge = walk.gauge(4)
    made = robust(influence, gauge.basis)
    assert made.basis.shape == (4, 2)
    np.testing.assert_array_equal(made.std_errors == 0, gauge.fixed)
    assert gauge.fixed.tolist() == [True, False, False, False]
    assert not made.matrix[0].any()


@pytest.mark.parametrize("g", [0, 1, 2, 4])
def test_free_directions_are_orthonormal_and_complete(g):
    rng = np.random.default_rng(g)
    gauge = np.linalg.qr(rng.normal(size=(4, g)))[0].T if g else np.empty((0, 4))
    basis = free_basis(gauge, 4)
    assert basis.shape == (4, 4 - g)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4 - g), atol=1e-14)
    np.testing.assert_allclose(gauge @ basis, 0, atol=1e-14)


def test_few_clusters_are_warned_about_and_one_is_refused(draw):
    influence, _ = draw(8)
    with pytest.warns(DmlrankWarning, match="only 4 clusters"):
        one_way(influence, np.arange(90) % 4, NO_GAUGE)
    with pytest.warns(DmlrankWarning, match="only 9 clusters"):
        two_way(influence, np.arange(90) % 40, np.arange(90) % 9, NO_GAUGE, of_contexts=True)
    with pytest.raises(DataError):
        one_way(influence, np.zeros(90, dtype=int), NO_GAUGE)


def semidefinite(rng, basis, rank=None):
    """A random positive semidefinite matrix within the span of ``basis``."""
    free = basis.shape[1]
    sides = basis @ rng.normal(size=(free, rank or free))
    return sides @ sides.T


@pytest.fixture
def within_gauge():
    """A covariance of four scores that sum to a constant, and the columns that span what is free."""
    basis = free_basis(np.full((1, 4), 0.5), 4)
    return Covariance(semidefinite(np.random.default_rng(0), basis), basis, (7,), "a note")


@pytest.mark.parametrize("seed", range(8))
def test_the_larger_of_two_is_the_smallest_that_is_larger_along_common_directions(within_gauge, seed):
    """Its twin: both matrices are diagonal in the generalised eigenvectors, where the larger numbers are taken."""
    rng = np.random.default_rng(seed)
    variance_correction = semidefinite(rng, within_gauge.basis) - semidefinite(rng, within_gauge.basis)
    basis = within_gauge.basis
    gains, directions = eigh(basis.T @ variance_correction @ basis, within_gauge.reduced)
    back = np.linalg.inv(directions)
    expected = back.T @ np.diag(np.maximum(1 + gains, 1)) @ back
    assert min(gains) < 0 < max(gains)
    larger = within_gauge.with_variance_correction(variance_correction)
    np.testing.assert_allclose(larger.reduced, expected, atol=1e-10)
    np.testing.assert_allclose(larger.matrix @ np.ones(4), 0, atol=1e-12)
    assert (larger.n_clusters, larger.note) == ((7,), "a note")


def test_what_the_functional_fixes_stays_fixed_whatever_is_added(within_gauge):
    larger = within_gauge.with_variance_correction(np.full((4, 4), 3.0))
    np.testing.assert_allclose(larger.matrix, within_gauge.matrix, atol=1e-12)


def test_a_fixed_score_keeps_a_variance_of_exactly_zero():
    rng = np.random.default_rng(4)
    gauge = np.array([[1.0, 0, 0, 0], [0, 1, 1, 1]]) / np.sqrt([[1], [3]])
    basis = free_basis(gauge, 4)
    fixed = Covariance(semidefinite(rng, basis), basis)
    larger = fixed.with_variance_correction(semidefinite(rng, np.eye(4)))
    assert larger.matrix[0, 0] == 0
    assert not larger.matrix[0].any()
    assert (larger.std_errors[1:] > 0).all()


def test_directions_without_variance_are_not_compared(within_gauge):
    flat = Covariance(semidefinite(np.random.default_rng(3), within_gauge.basis, rank=2), within_gauge.basis)
    np.testing.assert_allclose(flat.at_least(4 * flat.matrix).matrix, 4 * flat.matrix, atol=1e-12)
    np.testing.assert_allclose(flat.at_least(flat.matrix / 4).matrix, flat.matrix, atol=1e-12)
    assert np.linalg.matrix_rank(flat.with_variance_correction(np.eye(4)).matrix) == 2
    rounded = Covariance(np.diag([1.0, 1.0, 1e-14]), np.eye(3))
    np.testing.assert_allclose(rounded.at_least(np.diag([4.0, 1.0, 1.0])).matrix, np.diag([4, 1, 0]), atol=1e-12)
    still = Covariance(np.zeros((4, 4)), within_gauge.basis)
    assert still.with_variance_correction(np.eye(4)) is still


def test_the_smaller_of_two_exceeds_neither_and_reaches_one_in_every_shared_direction(within_gauge):
    rng = np.random.default_rng(5)
    basis = within_gauge.basis
    other = semidefinite(rng, basis) * 0.8
    smaller = within_gauge.at_most(other)
    for larger in (within_gauge.matrix, other):
        spectrum = np.linalg.eigvalsh(basis.T @ (larger - smaller.matrix) @ basis)
        assert spectrum[0] > -1e-10 * spectrum[-1]
    total = np.linalg.eigvals(np.linalg.solve(basis.T @ within_gauge.matrix @ basis, basis.T @ other @ basis)).real
    made = np.linalg.eigvals(np.linalg.solve(within_gauge.reduced, smaller.reduced)).real
    np.testing.assert_allclose(np.sort(made), np.sort(np.minimum(total, 1)), rtol=1e-8)
    np.testing.assert_allclose(within_gauge.at_most(within_gauge.matrix * 3).matrix, within_gauge.matrix, atol=1e-12)


@pytest.mark.parametrize("sizes", [[1.0, 1.0, 1.0], [1.0, 1e-4, 1e5]], ids=["alike", "of different sizes"])
def test_a_combination_that_does_not_vary_is_found_whatever_the_sizes_of_the_scores(sizes):
    """The correlation matrix of three scores has rank two: 3 a - 2 b + c does not vary, in units of the scores."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2))
    scale = np.array(sizes)
    root = scale[:, None] * np.stack([a, b, 2 * b - 3 * a])
    found = find_constant_combination(Covariance(root @ root.T, np.eye(3)))
    expected = np.array([3.0, -2.0, 1.0]) / scale
    np.testing.assert_allclose(found / found[0], expected / expected[0], rtol=1e-5)
    assert np.abs(found).max() == 1
    noise = np.diag(np.square(0.01 * scale))
    assert find_constant_combination(Covariance(root @ root.T + noise, np.eye(3))) is None


def test_the_covariance_of_the_mean_of_repetitions():
    estimates = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(covariance_of_mean(estimates), np.cov(estimates.T) / 5, atol=1e-15)
    np.testing.assert_array_equal(covariance_of_mean(estimates[:1]), np.zeros((3, 3)))


def test_what_a_result_adds_stretches_its_errors_by_optimal_transport():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(5, 5))
    joint = factor @ factor.T
    gauge = np.ones((1, 3)) / np.sqrt(3)
    basis = free_basis(gauge, 3)
    inside = basis @ basis.T
    whole = np.block([[inside, np.zeros((3, 2))], [np.zeros((2, 3)), np.eye(2)]])
    joint = whole @ joint @ whole
    grown = basis @ (basis.T @ joint[:3, :3] @ basis + np.diag([0.5, 1.0])) @ basis.T
    blocks = [Covariance(grown, basis), Covariance(joint[3:, 3:], np.eye(2))]
    found = match_blocks(joint, blocks)
    np.testing.assert_array_equal(found[:3, :3], grown)
    np.testing.assert_array_equal(found[3:, 3:], joint[3:, 3:])
    have, want = basis.T @ joint[:3, :3] @ basis, basis.T @ grown @ basis
    root = sqrtm(have).real
    back = np.linalg.inv(root)
    expected = basis @ back @ sqrtm(root @ want @ root).real @ back @ basis.T
    np.testing.assert_allclose(transport_map(joint[:3, :3], blocks[0]), expected, atol=1e-10)
    np.testing.assert_allclose(found[:3, 3:], expected @ joint[:3, 3:], atol=1e-10)
    assert np.linalg.eigvalsh(found)[0] > -1e-10


def test_where_nothing_was_added_nothing_moves():
    factor = np.random.default_rng(1).normal(size=(6, 4))
    joint = factor @ factor.T
    blocks = [Covariance(joint[:2, :2], np.eye(2)), Covariance(joint[2:, 2:], np.eye(4))]
    np.testing.assert_allclose(match_blocks(joint, blocks), joint, rtol=1e-12)
    # Four directions for a block of four, three of which vary: the fourth stays without variance.
    singular = joint[2:, 2:] - np.linalg.eigvalsh(joint[2:, 2:])[0] * np.eye(4)
    moved = transport_map(singular, Covariance(singular, np.eye(4)))
    np.testing.assert_allclose(moved @ singular @ moved.T, singular, atol=1e-12)
