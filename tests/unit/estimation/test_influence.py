"""Influence values: their blocks, chunks and floor, and errors of the propensity."""

import numpy as np
import pytest

from dmlrank._utils.tasks_and_threads import computing_with
from dmlrank.data.preferences import Cells
from dmlrank.estimation import influence as module
from dmlrank.estimation import one_step as steps
from dmlrank.estimation.cross_fitting import ContextPart, SuppliedMu, clip_and_renormalise
from dmlrank.estimation.influence import Influence, blocks_by_context, blocks_by_group
from dmlrank.estimation.one_step import evaluate_contexts, one_step
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, RankCentrality
from dmlrank.nuisance.training_rows import Folds

from ...support import inputs_of

K, C = 4, 3
SCORES = {
    "borda": Borda(CategoryWeights.half(C)),
    "bt": BradleyTerry(CategoryWeights.half(C)),
    "rank_centrality": RankCentrality(CategoryWeights.half(C)),
    "rate": RankCentrality(CategoryWeights.half(C), walk="rate"),
}


@pytest.fixture(params=SCORES.values(), ids=SCORES)
def score(request):
    return request.param


@pytest.fixture
def case(make_data, draw_mu):
    """Contexts with none, one and many votes, by annotators, with their nuisances."""
    rng = np.random.default_rng(0)
    n, n_votes = 40, 150
    context, first = rng.integers(n - 5, size=n_votes), rng.integers(2, size=n_votes)
    second = first + rng.integers(1, 3, size=n_votes)
    data = make_data(context, first, second, rng.integers(C, size=n_votes), n_items=K, n_categories=C, n_contexts=n)
    assert data.cells.n_votes.max() >= 3
    mu = draw_mu(rng, n, K, C)
    return data, SuppliedMu(mu), rng.uniform(0.2, 1, size=len(data.cells)), rng.integers(6, size=n_votes)


def every_pair(mu, target, data):
    """Data in which every pair of every context has the label ``target``, (n, K, K, C), a probability."""
    context, first, second = np.nonzero(np.broadcast_to(~np.eye(K, dtype=bool), mu.shape[:3]))
    cells = Cells(
        context,
        first,
        second,
        target[context, first, second],
        np.ones(len(context), dtype=int),
        np.zeros(len(context), dtype=bool),
    )
    object.__setattr__(data, "cells", cells)
    return data


def estimate(score, mu, data, propensity, floor=0.0):
    return one_step({"target": score}, inputs_of(data, mu, propensity, floor)).target


def test_influence_values_have_mean_zero(score, case):
    data, mu, propensity, _ = case
    made = estimate(score, mu, data, propensity)
    np.testing.assert_allclose(made.centred.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(made.estimate, (made.value + made.correction_by_context).mean(axis=0), rtol=1e-13)
    unlabelled = np.setdiff1d(np.arange(40), data.cells.context)
    assert len(unlabelled) >= 5
    assert not made.correction_by_context[unlabelled].any()


def test_pieces_by_annotator_sum_to_the_correction_of_the_context(score, case):
    data, mu, propensity, annotator = case
    whole = estimate(score, mu, data, propensity)
    blocks, owner = blocks_by_group(data, annotator)
    split = one_step({"target": score}, inputs_of(data, mu, propensity, blocks=blocks)).target
    assert len(split.correction) > 100
    np.testing.assert_allclose(split.correction_by_context, whole.correction_by_context, atol=1e-13)
    np.testing.assert_array_equal(split.value, whole.value)
    np.testing.assert_allclose(split.centred_correction.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_array_equal(np.unique(split.block_context[owner < 0]), np.arange(35, 40))
    assert split.block_weight.sum() == pytest.approx(len(data.cells))


def test_a_piece_holds_the_votes_of_one_annotator_on_one_context(case):
    data, mu, propensity, annotator = case
    blocks, owner = blocks_by_group(data, annotator)
    made = one_step({"target": SCORES["borda"]}, inputs_of(data, mu, propensity, blocks=blocks)).target
    assert len({*zip(blocks.context, owner, strict=True)}) == len(owner)
    for block in range(len(owner)):
        total = np.zeros(K)
        for vote in np.flatnonzero(annotator == owner[block]):
            cell = data.vote_cell[vote]
            i, j, k = data.cells.context[cell], data.cells.first[cell], data.cells.second[cell]
            if i == blocks.context[block]:
                residual = (data.vote_y[vote] - mu.mu[i, j, k]) / propensity[cell] / data.cells.n_votes[cell]
                total[j] += residual @ [1, 0, 0.5] / 2 / (K - 1)
                total[k] += residual @ [0, 1, 0.5] / 2 / (K - 1)
        np.testing.assert_allclose(made.correction[block], total, atol=1e-14)


@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("chunk", [1, 500])
def test_chunks_do_not_matter(score, case, by_group, chunk, monkeypatch):
    data, mu, propensity, annotator = case
    blocks = blocks_by_group(data, annotator)[0] if by_group else blocks_by_context(data)
    folds = Folds(np.arange(40) % 3, np.arange(40), 3)
    whole = one_step({"target": score}, inputs_of(data, mu, propensity, 0.02, blocks=blocks))
    monkeypatch.setattr(steps, "CHUNK", chunk)
    for source in (mu, Scattered(mu.mu, folds)):
        given = {"target": score}, inputs_of(data, source, propensity, 0.02, blocks=blocks)
        parts = evaluate_contexts(*given)
        for name in ("value", "correction"):
            one, other = (getattr(passed.target, name) for passed in (whole, parts))
            np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)
        if score.interior:
            one, other = (passed.target.variance_correction for passed in (whole, parts))
            np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-9 * np.abs(one).max())
        np.testing.assert_array_equal(parts.cell_mu, whole.cell_mu)
        assert (parts.n_floored, parts.n_entries) == (whole.n_floored, whole.n_entries)


class Scattered:
    """The same probabilities fold by fold, as cross-fitting hands them out."""

    def __init__(self, mu, folds):
        self.mu, self.folds = mu, folds

    def parts(self, size, kept=None):
        for fold in range(self.folds.n_folds):
            here = np.flatnonzero((self.folds.fold == fold) & (True if kept is None else kept))
            for at in range(0, len(here), size):
                part = here[at : at + size]
                yield ContextPart(part, np.arange(len(part)), lambda part=part: self.mu[part], fold % 2 == 0)

    def at(self, cells):
        return self.mu[cells.context, cells.first, cells.second]


def test_several_scores_in_one_pass_are_those_of_one_pass_each(case):
    data, mu, propensity, _ = case
    names = ("target", "win_share", "position_effect", "projection")
    asked = dict(zip(names, SCORES.values(), strict=True))
    passed = one_step(asked, inputs_of(data, mu, propensity, 0.2))
    assert passed.n_floored > 100
    for score, name in zip(SCORES.values(), names, strict=True):
        together = passed.influences[name]
        alone = estimate(score, mu, data, propensity, floor=0.2)
        np.testing.assert_array_equal(together.value, alone.value)
        np.testing.assert_array_equal(together.correction, alone.correction)


def test_the_floored_probabilities_are_used_in_value_derivative_and_residual(case):
    data, mu, propensity, _ = case
    sharp = mu.mu**4
    sharp /= np.maximum(sharp.sum(axis=-1, keepdims=True), 1e-300)
    floored = clip_and_renormalise(sharp, 0.05)
    assert (floored != sharp).any()
    for score in (SCORES["bt"], SCORES["rank_centrality"]):
        made = one_step(
            {"target": score},
            inputs_of(data, SuppliedMu(sharp), propensity, 0.05),
        )
        by_hand = estimate(score, SuppliedMu(floored), data, propensity)
        np.testing.assert_array_equal(made.target.value, by_hand.value)
        np.testing.assert_array_equal(made.target.correction, by_hand.correction)
        assert made.n_floored == (sharp[:, ~np.eye(K, dtype=bool)] < 0.05).sum()
        assert made.n_entries == 40 * K * (K - 1) * C
        cells = data.cells
        np.testing.assert_array_equal(made.cell_mu, sharp[cells.context, cells.first, cells.second])


def test_borda_needs_no_floor(case):
    data, mu, propensity, _ = case
    floored, plain = (
        one_step(
            {"target": SCORES["borda"]},
            inputs_of(data, mu, propensity, floor),
        )
        for floor in (0.2, 0.0)
    )
    np.testing.assert_array_equal(floored.target.correction, plain.target.correction)
    assert (floored.n_floored, floored.n_entries) == (0, 0)


def test_raised_lifts_what_is_low_and_renormalises():
    mu = np.zeros((1, 2, 2, 3))
    mu[0, 0, 1], mu[0, 1, 0] = [0.0, 0.01, 0.99], [0.2, 0.3, 0.5]
    floored = clip_and_renormalise(mu, 0.1)
    np.testing.assert_allclose(floored[0, 0, 1], np.array([0.1, 0.1, 0.99]) / 1.19)
    np.testing.assert_array_equal(floored[0, 1, 0], mu[0, 1, 0])
    assert not floored[0, [0, 1], [0, 1]].any()
    assert mu[0, 0, 1, 0] == 0


def test_errors_of_the_propensity_do_not_matter_where_mu_is_right(score, case, draw_mu):
    rng = np.random.default_rng(6)
    true = draw_mu(rng, 40, K, C)
    everything = every_pair(true, true, case[0])
    made = estimate(score, SuppliedMu(true), everything, rng.uniform(0.05, 1, size=len(everything.cells)))
    np.testing.assert_allclose(made.estimate, score.value(true).mean(axis=0), rtol=1e-12)


def test_second_moments_are_added_up_over_parts_of_the_contexts_in_threads(monkeypatch):
    rng = np.random.default_rng(2)
    value, correction = rng.normal(size=(2, 300, 3))
    influence = Influence(value, correction, np.arange(300), np.ones(300), np.ones(300))
    monkeypatch.setattr(module, "_MOMENT_VALUES", 100)
    moments = []
    for n_jobs in (1, 3):
        with computing_with(n_jobs):
            moments.append(influence.second_moment())
    np.testing.assert_array_equal(*moments)
    np.testing.assert_allclose(moments[0], influence.centred.T @ influence.centred, rtol=1e-12)
