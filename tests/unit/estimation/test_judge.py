"""The two-stage estimator: its formula written out with loops, and the derivative of what it estimates."""

from itertools import product

import numpy as np
import pytest

from dmlrank.data.preferences import Cells
from dmlrank.estimation.cross_fitting import SuppliedMu
from dmlrank.estimation.influence import (
    JudgeCorrection,
    NuisanceEstimates,
    blocks_by_context,
    blocks_by_group,
)
from dmlrank.estimation.one_step import one_step
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, RankCentrality

WEIGHTS = CategoryWeights.half(3)
FUNCTIONALS = [Borda(WEIGHTS), BradleyTerry(WEIGHTS), RankCentrality(WEIGHTS), RankCentrality(WEIGHTS, walk="rate")]
NAMES = ["borda", "bt", "rank_centrality", "rate"]


def jacobian_by_steps(functional, mu, j, k):
    """Derivatives of the scores by one pair's probabilities, (K, C), by central differences."""
    columns = []
    for category in range(mu.shape[-1]):
        up, down = mu.copy(), mu.copy()
        up[j, k, category] += 1e-6
        down[j, k, category] -= 1e-6
        columns.append((functional.value(up[None])[0] - functional.value(down[None])[0]) / 2e-6)
    return np.stack(columns, axis=1)


@pytest.fixture(scope="module")
def drawn(make_data, draw_mu):
    """Twelve prompts, three models: labels on some pairs, verdicts on some, both on some."""
    rng = np.random.default_rng(5)
    n, n_items = 12, 3
    pairs = [(i, j, k) for i in range(n) for j in range(n_items) for k in range(n_items) if j != k]
    labelled = [pair for pair in pairs if rng.random() < 0.5]
    judged = [pair for pair in pairs if rng.random() < 0.6]
    data = make_data(
        *np.array(labelled).T, rng.integers(3, size=len(labelled)), n_items=3, n_categories=3, n_contexts=n
    )
    return data, draw_mu(rng, n, n_items, 3), labelled, judged, rng


def judged_of(data, judged, m, rho, share):
    context, first, second = np.array(judged).T
    cells = Cells(context, first, second, m, np.ones(len(m), dtype=int), np.zeros(len(m), dtype=bool))
    place = {pair: at for at, pair in enumerate(judged)}
    labels = zip(data.cells.context, data.cells.first, data.cells.second, strict=True)
    return JudgeCorrection(cells, share / rho, m, np.array([place.get(tuple(map(int, cell)), -1) for cell in labels]))


@pytest.mark.parametrize("functional", FUNCTIONALS, ids=NAMES)
def test_the_formula_written_out(drawn, functional):
    data, mu, labelled, judged, _ = drawn
    rng = np.random.default_rng(1)
    m = rng.dirichlet(np.ones(3), size=len(judged))
    rho, pi = rng.uniform(0.3, 1, len(judged)), rng.uniform(0.3, 1, len(labelled))
    share = np.mean([pair in judged for pair in labelled])
    assert 0 < share < 1
    term = judged_of(data, judged, m, rho, share)
    blocks = blocks_by_context(data)
    got = one_step({"target": functional}, data, NuisanceEstimates(SuppliedMu(mu), pi, judge=term), blocks).target
    for i in range(data.n_contexts):
        total = np.zeros(3)
        for at, (c, j, k) in enumerate(judged):
            if c == i:
                total += jacobian_by_steps(functional, mu[i], j, k) @ (share / rho[at] * (m[at] - mu[i, j, k]))
        for cell in np.flatnonzero(data.cells.context == i):
            j, k = data.cells.first[cell], data.cells.second[cell]
            expected = m[judged.index((i, j, k))] if (i, j, k) in judged else mu[i, j, k]
            total += jacobian_by_steps(functional, mu[i], j, k) @ ((data.cells.y[cell] - expected) / pi[cell])
        np.testing.assert_allclose(got.correction_by_context[i], total, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(got.value, functional.value(mu))


@pytest.mark.parametrize("functional", FUNCTIONALS, ids=NAMES)
def test_without_order_a_verdict_acts_through_both_orders(drawn, functional):
    data, mu, _, _, _ = drawn
    data = data.unordered()
    mu = (mu + np.swapaxes(mu, 1, 2)[..., data.flip]) / 2
    rng = np.random.default_rng(2)
    judged = [(i, 0, 1) for i in range(data.n_contexts)]
    m, pi = rng.dirichlet(np.ones(3), size=len(judged)), rng.uniform(0.3, 1, len(data.cells))
    term = judged_of(data, judged, m, np.ones(len(judged)), 1.0)
    got = one_step(
        {"target": functional}, data, NuisanceEstimates(SuppliedMu(mu), pi, judge=term), blocks_by_context(data)
    ).target.correction_by_context
    for i in range(data.n_contexts):
        table = mu[i]
        total = np.zeros(3)
        moves = [(0, 1, m[i] - table[0, 1])]
        for cell in np.flatnonzero(data.cells.context == i):
            j, k = data.cells.first[cell], data.cells.second[cell]
            expected = m[i] if (j, k) == (0, 1) else table[j, k]
            moves.append((j, k, (data.cells.y[cell] - expected) / pi[cell]))
        for j, k, move in moves:
            total += jacobian_by_steps(functional, table, j, k) @ move
            total += jacobian_by_steps(functional, table, k, j) @ move[data.flip]
        np.testing.assert_allclose(got[i], total, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("functional", FUNCTIONALS, ids=NAMES)
def test_a_judge_that_says_what_mu_says_changes_nothing(drawn, functional):
    data, mu, _, judged, _ = drawn
    m = np.array([mu[pair] for pair in judged])
    pi = np.random.default_rng(3).uniform(0.3, 1, len(data.cells))
    term = judged_of(data, judged, m, np.full(len(judged), 0.7), 0.5)
    nuisances = (NuisanceEstimates(SuppliedMu(mu), pi, judge=one) for one in (term, None))
    with_judge, without = (
        one_step({"target": functional}, data, one, blocks_by_context(data)).target for one in nuisances
    )
    np.testing.assert_allclose(with_judge.centred, without.centred, atol=1e-12)
    if without.variance_correction is not None:
        # Up to what the finite differences leave.
        np.testing.assert_allclose(with_judge.variance_correction, without.variance_correction, rtol=1e-3, atol=1e-6)


def test_annotators_keep_their_votes_and_verdicts_stay_with_the_prompt(drawn):
    data, mu, _, judged, _ = drawn
    rng = np.random.default_rng(4)
    m, pi = rng.dirichlet(np.ones(3), size=len(judged)), rng.uniform(0.3, 1, len(data.cells))
    term = judged_of(data, judged, m, np.ones(len(judged)), 1.0)
    group = rng.integers(4, size=data.n_votes)
    by_group, annotator = blocks_by_group(data, group, term.cells.context)
    for functional in FUNCTIONALS:
        whole = one_step(
            {"target": functional}, data, NuisanceEstimates(SuppliedMu(mu), pi, judge=term), blocks_by_context(data)
        ).target
        parts = one_step(
            {"target": functional}, data, NuisanceEstimates(SuppliedMu(mu), pi, judge=term), by_group
        ).target
        np.testing.assert_allclose(parts.centred, whole.centred, atol=1e-12)
        votes_alone = one_step({"target": functional}, data, NuisanceEstimates(SuppliedMu(mu), pi), by_group).target
        nobody = np.isin(parts.block_context, term.cells.context) & (annotator < 0)
        assert np.abs(parts.correction[nobody]).max() > 0
        assert np.abs(votes_alone.correction[nobody]).max() == 0


# --- the derivative of what is estimated, by exact enumeration --------------------------------------------------


def softened(rng, *shape):
    """Random probabilities along the last axis, none near zero."""
    return 0.1 / shape[-1] + 0.9 * rng.dirichlet(3 * np.ones(shape[-1]), size=shape[:-1])


def centred_over(direction, probabilities, axes):
    """A score: a direction with conditional mean zero."""
    return direction - (direction * probabilities).sum(axis=axes, keepdims=True)


def perturbed(probabilities, direction, step):
    return probabilities * (1 + step * direction)


@pytest.mark.parametrize("functional", FUNCTIONALS, ids=NAMES)
@pytest.mark.parametrize("always", [True, False], ids=["labels are judged", "some labels are not judged"])
def test_pathwise_derivative_with_a_judge_on_the_pair_that_is_shown(make_data, functional, always):
    """One pair is shown, it may be judged, and be labelled by what the judge said: E[phi s] = d theta."""
    rng = np.random.default_rng(11)
    pairs = [(j, k) for j in range(3) for k in range(3) if j != k]
    p_x, p_f, p_y = softened(rng, 2), softened(rng, 2, 6, 2), softened(rng, 2, 6, 2, 3)
    p_pair = softened(rng, 2, 6)
    # The share of labelled pairs that are judged is one number, as the estimator takes it.
    p_judged = np.full((2, 6), 1.0 if always else 0.6)
    p_label = (
        rng.uniform(0.2, 0.8, size=(2, 6, 2))
        if always
        else np.broadcast_to(rng.uniform(0.2, 0.8, (2, 6, 1)), (2, 6, 2))
    )

    def mu_of(f, y):
        table = np.zeros((2, 3, 3, 3))
        for at, pair in enumerate(pairs):
            table[:, pair[0], pair[1]] = np.einsum("xf,xfc->xc", f[:, at], y[:, at])
        return table

    mu = mu_of(p_f, p_y)
    states = [
        s for s in product(range(2), range(6), range(2), range(2), range(2), range(3)) if p_judged[s[:2]] < 1 or s[3]
    ]
    x, pair, f, seen, labelled, y = np.array(states).T
    share_seen = np.where(seen, p_judged[x, pair], 1 - p_judged[x, pair])
    share_label = np.where(labelled, p_label[x, pair, f], 1 - p_label[x, pair, f])
    mass = p_x[x] * p_pair[x, pair] * p_f[x, pair, f] * share_seen * share_label * p_y[x, pair, f, y]
    assert mass.sum() == pytest.approx(1)
    place = np.flatnonzero(labelled)
    first, second = np.array(pairs)[pair].T
    data = make_data(place, first[place], second[place], y[place], n_items=3, n_categories=3, n_contexts=len(states))
    propensity = (p_pair[x, pair] * p_label[x, pair, f])[place]
    rho = p_pair[x, pair] * p_judged[x, pair]
    told = [(int(i), int(first[i]), int(second[i])) for i in np.flatnonzero(seen)]
    term = judged_of(data, told, p_y[x, pair, f][seen == 1], rho[seen == 1], 1.0 if always else 0.6)
    influence = one_step(
        {"target": functional},
        data,
        NuisanceEstimates(SuppliedMu(mu[x]), propensity, judge=term),
        blocks_by_context(data),
    )
    phi = influence.target.value + influence.target.correction_by_context
    theta = mass @ phi
    np.testing.assert_allclose(theta, p_x @ functional.value(mu), atol=1e-12)
    for _ in range(3):
        h_x = centred_over(rng.normal(size=2), p_x, 0)
        h_f = centred_over(rng.normal(size=p_f.shape), p_f, -1)
        h_y = centred_over(rng.normal(size=p_y.shape), p_y, -1)
        # Directions of the selection, along which theta does not move.
        h_pair = centred_over(rng.normal(size=p_pair.shape), p_pair, -1)
        odds = rng.normal(size=p_label.shape[:2])
        h_label = np.where(labelled, (1 - p_label[x, pair, f]), -p_label[x, pair, f]) * odds[x, pair]
        score = h_x[x] + h_f[x, pair, f] + h_y[x, pair, f, y] + h_pair[x, pair] + h_label
        expected = (mass * score) @ (phi - theta)
        step = 1e-5

        def moved(step, h_x=h_x, h_f=h_f, h_y=h_y):
            table = mu_of(perturbed(p_f, h_f, step), perturbed(p_y, h_y, step))
            return perturbed(p_x, h_x, step) @ functional.value(table)

        change = (moved(step) - moved(-step)) / (2 * step)
        assert np.abs(expected - change).max() < 1e-3 * np.abs(change).max()


@pytest.mark.parametrize("functional", [Borda(CategoryWeights.half(2)), BradleyTerry(CategoryWeights.half(2))])
def test_pathwise_derivative_with_a_judge_on_every_pair(make_data, functional):
    """Both orders judged, each labelled or not by what the judge said of it: E[phi s] = d theta."""
    rng = np.random.default_rng(12)
    p_x, p_f, p_y = softened(rng, 2), softened(rng, 2, 2, 2), softened(rng, 2, 2, 2, 2)
    p_label = rng.uniform(0.2, 0.8, size=(2, 2, 2))

    def mu_of(f, y):
        table = np.zeros((2, 2, 2, 2))
        for at, (j, k) in enumerate([(0, 1), (1, 0)]):
            table[:, j, k] = np.einsum("xf,xfc->xc", f[:, at], y[:, at])
        return table

    states = np.array(list(product(*[range(2)] * 7)))
    x, f, s, y = states[:, 0], states[:, 1:3], states[:, 3:5], states[:, 5:7]
    orders = np.arange(2)
    chance = p_label[x[:, None], orders, f]
    mass = p_x[x] * np.prod(
        p_f[x[:, None], orders, f] * np.where(s, chance, 1 - chance) * p_y[x[:, None], orders, f, y], axis=1
    )
    assert mass.sum() == pytest.approx(1)
    context, order = np.nonzero(s)
    data = make_data(context, order, 1 - order, y[context, order], n_items=2, n_categories=2, n_contexts=len(states))
    told = [(i, int(o), int(1 - o)) for i in range(len(states)) for o in orders]
    m = p_y[x[:, None], orders, f].reshape(-1, 2)
    term = judged_of(data, told, m, np.ones(len(m)), 1.0)
    mu, pi = mu_of(p_f, p_y), chance[context, order]
    got = one_step(
        {"target": functional}, data, NuisanceEstimates(SuppliedMu(mu[x]), pi, judge=term), blocks_by_context(data)
    ).target
    phi = got.value + got.correction_by_context
    theta = mass @ phi
    for _ in range(3):
        h_x = centred_over(rng.normal(size=2), p_x, 0)
        h_f = centred_over(rng.normal(size=p_f.shape), p_f, -1)
        h_y = centred_over(rng.normal(size=p_y.shape), p_y, -1)
        score = h_x[x] + (h_f[x[:, None], orders, f] + h_y[x[:, None], orders, f, y]).sum(axis=1)
        step = 1e-5
        ends = [
            perturbed(p_x, h_x, by) @ functional.value(mu_of(perturbed(p_f, h_f, by), perturbed(p_y, h_y, by)))
            for by in (step, -step)
        ]
        change = (ends[0] - ends[1]) / (2 * step)
        assert np.abs((mass * score) @ (phi - theta) - change).max() < 1e-3 * np.abs(change).max()
