"""The variance correction against numerical derivatives of the correction's second moment, written out pair by pair."""

import numpy as np
import pytest

from dmlrank.data.graph import Graph
from dmlrank.estimation.cross_fitting import HeldOutLabels, SuppliedMu
from dmlrank.estimation.influence import NuisanceEstimates, blocks_by_context, blocks_by_group
from dmlrank.estimation.one_step import one_step, pair_variance_scale, variance_correction
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, Dominance, Functional, RankCentrality

K, C = 4, 3
FLIP = [1, 0, 2]
HALF = CategoryWeights.half(C)
RING = Graph.of([(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)], K)
CURVED = {
    "bt": BradleyTerry(HALF),
    "bt on a graph": BradleyTerry(HALF, RING),
    "rank_centrality": RankCentrality(HALF),
    "rate on a graph": RankCentrality(HALF, RING, walk="rate"),
}


@pytest.fixture(params=CURVED.values(), ids=CURVED)
def score(request):
    return request.param


def mirror(mu):
    return np.swapaxes(mu, 1, 2)[..., FLIP]


def jacobian(score, mu, j, k):
    """J_jk, (d, C), of one context, (1, K, K, C)."""
    columns = []
    for c in range(C):
        unit = np.zeros(mu.shape)
        unit[0, j, k, c] = 1.0
        columns.append(score.derivative(mu, unit)[0])
    return np.stack(columns, axis=1)


def second_moment(score, mu, labels, scale, ordered):
    """Sum over pairs of scale J V J', J at ``mu``, V at ``labels``, of one context."""
    total = np.zeros((K, K))
    for j in range(K):
        for k in range(K):
            if j == k or (not ordered and j > k):
                continue
            p = labels[0, j, k]
            jac = jacobian(score, mu, j, k)
            if not ordered:
                jac = jac + jacobian(score, mu, k, j)[:, FLIP]
            total += scale[j, k] * jac @ (np.diag(p) - np.outer(p, p)) @ jac.T
    return total


@pytest.mark.parametrize("ordered", [True, False])
def test_it_is_the_derivative_of_the_second_moment(score, draw_mu, ordered):
    rng = np.random.default_rng(0)
    n = 3
    mu = draw_mu(rng, n, K, C, floor=0.3)
    delta = rng.normal(size=mu.shape) * ~np.eye(K, dtype=bool)[:, :, None]
    delta -= delta.mean(axis=-1, keepdims=True) * ~np.eye(K, dtype=bool)[:, :, None]
    delta *= 30
    scale, population = rng.uniform(1, 5, size=(K, K)), rng.uniform(0.5, 1.5, size=n)
    if not ordered:
        mu, delta = (mu + mirror(mu)) / 2, delta + mirror(delta)
        scale = np.triu(scale, 1)
    step = 1e-5
    twin = np.zeros((K, K))
    for i in range(n):
        at, along = mu[i : i + 1], delta[i : i + 1]
        ends = [second_moment(score, at + sign * step * along, at, scale, ordered) for sign in (1, -1)]
        twin += population[i] ** 2 * (ends[0] - ends[1]) / (2 * step)
    # The scale of an unordered pair counts both orders through which its label acts.
    made = variance_correction(score, mu, delta, scale * (1 if ordered else 4), population)
    np.testing.assert_allclose(made, twin, rtol=1e-4, atol=1e-4 * np.abs(twin).max())
    assert np.abs(twin).max() > 0.1


class ByValue(Dominance):
    """Dominance with all derivatives from differences of values."""

    derivative, accumulate = Functional.derivative, Functional.accumulate


class ByValueWithFloor(ByValue):
    interior = True


@pytest.mark.parametrize("kind", [Dominance, ByValue, ByValueWithFloor])
@pytest.mark.parametrize("smallest", [1e-13, 1e-6, 1e-3, 0.1, 0.5])
def test_differences_agree_with_closed_forms_however_small_the_probabilities(kind, smallest):
    # One label in each context, on another pair each time, with the residual of a likely and of an unlikely label.
    functional = kind(CategoryWeights.half(2), tau=0.5, sharpness=10)
    rng, off = np.random.default_rng(5), ~np.eye(K, dtype=bool)
    if functional.interior:
        smallest = max(smallest, 1e-6)
    first, second = np.argwhere(off).T
    n = len(first)
    p = rng.uniform(0.3, 0.7, size=(n, K, K))
    mu = np.stack([p, 1 - p], axis=-1) * off[:, :, None]
    mu[:, 0, 1], mu[:, 1, 0] = [1 - smallest, smallest], [smallest, 1 - smallest]
    delta, other = np.zeros((2, *mu.shape))
    delta[np.arange(n), first, second] = 20 * rng.choice([-1, 1], size=(n, 1)) * np.array([1, -1])
    other[:, off] = rng.normal(size=(n, n, 1)) * np.array([1, -1])
    # The gradient is a t (1 - t) / (K - 1), and its derivative a^2 t (1 - t) (1 - 2 t) / (K - 1).
    t = 1 / (1 + np.exp(-10 * (functional.category_weights.symmetric(mu) - 0.5)))
    bend = 100 * t * (1 - t) * (1 - 2 * t) / (K - 1) * functional.category_weights.symmetric(delta)
    slope = 10 * t * (1 - t) / (K - 1)
    expected = np.zeros((K, K))
    for j, k in zip(first, second, strict=True):
        jacobian, change = np.zeros((2, n, K))
        jacobian[:, j], jacobian[:, k] = slope[:, j, k] / 2, -slope[:, k, j] / 2
        change[:, j], change[:, k] = bend[:, j, k] / 2, -bend[:, k, j] / 2
        half = (mu[:, j, k].prod(axis=1)[:, None] * jacobian).T @ change
        expected += half + half.T
    made = variance_correction(functional, mu, delta, np.ones((K, K)), np.ones(n))
    close = 1e-4 if functional.interior else 1e-6
    np.testing.assert_allclose(made, expected, rtol=0, atol=close * np.abs(expected).max())
    expected = (bend * functional.category_weights.symmetric(other) * off).sum(axis=2)
    made = functional.second_derivative(mu, delta, other)
    if not functional.interior:
        np.testing.assert_allclose(made, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_a_context_without_labels_adds_nothing(score, draw_mu):
    rng = np.random.default_rng(1)
    mu = draw_mu(rng, 2, K, C)
    delta = np.zeros(mu.shape)
    assert not variance_correction(score, mu, delta, np.ones((K, K)), np.ones(2)).any()
    delta[0, 0, 1] = [1.0, -0.5, -0.5]
    both, one = (variance_correction(score, mu[:n], delta[:n], np.ones((K, K)), np.ones(n)) for n in (2, 1))
    np.testing.assert_allclose(both, one, rtol=1e-12)


def test_a_linear_functional_has_none(draw_mu):
    rng = np.random.default_rng(2)
    mu = draw_mu(rng, 5, K, C)
    delta = 10 * rng.normal(size=mu.shape) * ~np.eye(K, dtype=bool)[:, :, None]
    made = variance_correction(Borda(HALF), mu, delta, np.ones((K, K)), np.ones(5))
    np.testing.assert_allclose(made, 0, atol=1e-8)


def labelled(make_data, rng, mu, pi):
    """Every pair of every context labelled with its propensity, by the probabilities ``mu``."""
    context, first, second = np.nonzero(rng.random(mu.shape[:3]) < pi * ~np.eye(K, dtype=bool))
    p = mu[context, first, second].cumsum(axis=1)
    label = np.minimum((p < rng.random((len(p), 1))).sum(axis=1), C - 1)
    data = make_data(context, first, second, label, n_items=K, n_categories=C, n_contexts=len(mu))
    return data, np.full(len(data.cells), pi)


def shrunken(mu, share=0.5):
    even = np.where(np.eye(K, dtype=bool)[:, :, None], 0.0, 1 / C)
    return (1 - share) * mu + share * even


def variance_correction_of(score, mu, data, propensity):
    return one_step(
        {"target": score}, data, NuisanceEstimates(SuppliedMu(mu), propensity), blocks_by_context(data)
    ).target.variance_correction


def test_where_mu_is_shrunken_the_log_odds_are_steeper_than_they_look(make_data):
    rng = np.random.default_rng(9)
    true = np.broadcast_to(np.where(np.eye(K, dtype=bool)[:, :, None], 0.0, [0.8, 0.1, 0.1]), (300, K, K, C))
    data, propensity = labelled(make_data, rng, true, 0.5)
    added = np.diag(variance_correction_of(CURVED["bt"], shrunken(true), data, propensity))
    assert (added > 0).all()


def test_the_pass_sums_it_over_contexts_whatever_the_blocks_are(score, make_data, draw_mu):
    rng = np.random.default_rng(4)
    n = 30
    context, first = rng.integers(n, size=120), rng.integers(K, size=120)
    second = (first + rng.integers(1, K, size=120)) % K
    data = make_data(context, first, second, rng.integers(C, size=120), n_items=K, n_categories=C, n_contexts=n)
    mu, propensity = draw_mu(rng, n, K, C, floor=0.3), rng.uniform(0.3, 1, size=len(data.cells))
    weight = rng.uniform(0.5, 1.5, size=n)
    weight /= weight.mean()
    cells, delta = data.cells, np.zeros(mu.shape)
    at = (cells.context, cells.first, cells.second)
    delta[at] = (cells.y - mu[at]) / propensity[:, None]
    twin = (
        variance_correction(
            score, mu, delta, pair_variance_scale(HeldOutLabels(mu[at], cells), propensity, data), weight
        )
        / n
    )
    for blocks in (blocks_by_context(data), blocks_by_group(data, rng.integers(5, size=120))[0]):
        made = one_step({"target": score}, data, NuisanceEstimates(SuppliedMu(mu), propensity), blocks, weight).target
        # The pass takes a difference per labelled pair where the score allows it, another step than the twin has.
        np.testing.assert_allclose(made.variance_correction, twin, rtol=1e-5, atol=1e-10 * np.abs(twin).max())
        assert made.without_correction().variance_correction is None


def test_borda_has_none(make_data, draw_mu):
    rng = np.random.default_rng(5)
    mu = draw_mu(rng, 20, K, C)
    data, propensity = labelled(make_data, rng, mu, 0.5)
    assert variance_correction_of(Borda(HALF), mu, data, propensity) is None


@pytest.mark.parametrize("ordered", [True, False])
def test_variance_scale_of_pairs_in_loops(make_data, draw_mu, ordered):
    rng = np.random.default_rng(7)
    n, votes = 15, 60
    context, first = rng.integers(n, size=votes), rng.integers(K, size=votes)
    second = (first + rng.integers(1, K, size=votes)) % K
    data = make_data(context, first, second, rng.integers(C, size=votes), n_items=K, n_categories=C, n_contexts=n)
    data = data if ordered else data.unordered()
    cells = data.cells
    mu = rng.dirichlet(np.full(C, 5.0), size=len(cells))
    propensity = rng.uniform(0.3, 1, size=len(cells))
    expected, spread, full = np.zeros((K, K)), 0.0, 0.0
    for cell in range(len(cells)):
        expected[cells.first[cell], cells.second[cell]] += 1 / propensity[cell] ** 2 / n
        spread += sum((cells.y[cell] - mu[cell]) ** 2)
        full += 1 - sum(mu[cell] ** 2)
    expected *= min(spread / full, 1) * (1 if ordered else 4)
    np.testing.assert_allclose(pair_variance_scale(HeldOutLabels(mu, cells), propensity, data), expected)
    if not ordered:
        assert not np.tril(expected).any()


def test_means_of_votes_spread_less(make_data):
    rng = np.random.default_rng(8)
    pairs = np.repeat(np.arange(200), 4)
    data = make_data(pairs, np.zeros(800), np.ones(800), rng.integers(2, size=800), n_items=2, n_categories=2)
    even = np.full((200, 2), 0.5)
    single = make_data(np.arange(200), np.zeros(200), np.ones(200), np.arange(200) % 2, n_items=2, n_categories=2)
    ratio = (
        pair_variance_scale(HeldOutLabels(even, data.cells), np.ones(200), data)[0, 1]
        / pair_variance_scale(HeldOutLabels(even, single.cells), np.ones(200), single)[0, 1]
    )
    assert ratio == pytest.approx(0.25, abs=0.05)
