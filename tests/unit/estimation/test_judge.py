"""The two-stage estimator: its formula written out with loops, and the derivative of what it estimates."""

import numpy as np
import pytest

from dmlrank.data.preferences import Cells
from dmlrank.estimation.cross_fitting import SuppliedMu
from dmlrank.estimation.influence import JudgeCorrection, blocks_by_context, blocks_by_group
from dmlrank.estimation.one_step import one_step
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, RankCentrality

from ...support import inputs_of

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
    got = one_step({"target": functional}, inputs_of(data, SuppliedMu(mu), pi, judge=term, blocks=blocks)).target
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
        {"target": functional},
        inputs_of(data, SuppliedMu(mu), pi, judge=term),
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
    with_judge, without = (
        one_step({"target": functional}, inputs_of(data, SuppliedMu(mu), pi, judge=one)).target for one in (term, None)
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
            {"target": functional},
            inputs_of(data, SuppliedMu(mu), pi, judge=term),
        ).target
        parts = one_step(
            {"target": functional}, inputs_of(data, SuppliedMu(mu), pi, judge=term, blocks=by_group)
        ).target
        np.testing.assert_allclose(parts.centred, whole.centred, atol=1e-12)
        votes_alone = one_step({"target": functional}, inputs_of(data, SuppliedMu(mu), pi, blocks=by_group)).target
        nobody = np.isin(parts.block_context, term.cells.context) & (annotator < 0)
        assert np.abs(parts.correction[nobody]).max() > 0
        assert np.abs(votes_alone.correction[nobody]).max() == 0


# --- the derivative of what is estimated, by exact enumeration --------------------------------------------------
