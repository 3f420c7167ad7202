"""The one-step estimator where contexts are alike, and the part of its variance that curved scores add."""

from dataclasses import replace

import numpy as np
import pytest

import dmlrank as dr
from dmlrank.data.graph import Graph
from dmlrank.data.preferences import gather_cells
from dmlrank.estimation import influence
from dmlrank.estimation import one_step as steps
from dmlrank.estimation.cross_fitting import (
    CrossFittedMu,
    HeldOutLabels,
    SuppliedMu,
    find_identical_contexts,
    mu_by_fold,
)
from dmlrank.estimation.diagnostics import calibration
from dmlrank.estimation.influence import (
    CompressedInfluence,
    Influence,
    blocks_by_context,
    blocks_by_group,
)
from dmlrank.estimation.one_step import (
    CHUNK,
    evaluate_contexts,
    evaluate_identical_contexts,
    one_step,
    pair_variance_scale,
    useful_kinds,
    variance_correction,
)
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, Dominance, Functional, RankCentrality
from dmlrank.functionals.linear_scores import PositionEffect
from dmlrank.inference.covariance import one_way, robust
from dmlrank.nuisance.outcome_model.cross_fit import ConstantMu, MirroredMu
from dmlrank.nuisance.training_rows import Folds
from dmlrank.options import in_objects

from ...support import inputs_of, two_of

K, C, N_FOLDS = 4, 3, 3
SCORES = {
    "borda": lambda weights, graph: Borda(weights, graph),
    "bt": lambda weights, graph: BradleyTerry(weights, graph),
    "rank_centrality": lambda weights, graph: RankCentrality(weights, graph),
    "rate": lambda weights, graph: RankCentrality(weights, graph, walk="rate"),
    "first advantage": lambda weights, graph: PositionEffect(weights, graph),
}
WEIGHTS = {"half": CategoryWeights.half(C), "unshared": CategoryWeights((1.0, 0.0, 0.9), (0.0, 1.0, 0.9))}


def draw(make_data, draw_mu, ordered=True, several=False, soft=False, weighted=False):
    """Contexts with no, one or several labelled cells, each fold with its own mu, propensities by pair."""
    rng = np.random.default_rng(5)
    n, n_votes = 300, 500 if several else 250
    context = rng.integers(n - 20, size=n_votes) if several else rng.permutation(n)[:n_votes]
    first, second = two_of(rng, K, n_votes)
    data = make_data(context, first, second, rng.integers(C, size=n_votes), n_items=K, n_categories=C, n_contexts=n)
    if soft:
        y = np.where(rng.random(n_votes)[:, None] < 0.3, rng.dirichlet(np.ones(C), size=n_votes), data.vote_y)
        cells, vote_cell = gather_cells(context, first, second, y)
        data = replace(data, cells=cells, vote_cell=vote_cell, vote_y=y)
    data = data if ordered else data.unordered()
    tables = draw_mu(rng, N_FOLDS, K, C, floor=0.2)
    models = tuple(ConstantMu(table, np.ones(table.shape[:2])) for table in tables)
    models = models if ordered else tuple(MirroredMu(model, data.flip) for model in models)
    folds = Folds(rng.integers(N_FOLDS, size=n), np.arange(n), N_FOLDS)
    rates = rng.uniform(0.2, 0.9, size=(K, K))
    weight = rng.uniform(0.2, 2.0, size=n)
    return (
        data,
        CrossFittedMu(models, folds, data.x),
        rates[data.cells.first, data.cells.second],
        weight / weight.mean() if weighted else np.ones(n),
    )


def in_chunks(given, chunk):
    """The estimates from all contexts, with so many entries of mu in memory at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "CHUNK", chunk)
        return evaluate_contexts(*given)


def both(case, estimands, floor=0.05):
    """The estimates from kinds of identical contexts and those from all contexts."""
    data, mu, propensity, weight = case
    given = estimands, inputs_of(data, mu, propensity, floor, weight=weight)
    assert len(mu_by_fold(mu).identical_contexts(data)) < data.n_contexts
    kinds = mu_by_fold(mu).identical_contexts(data)
    return evaluate_identical_contexts(kinds, *given), in_chunks(given, CHUNK)


CASES = {
    "plain": {},
    "unordered": {"ordered": False},
    "several votes": {"several": True},
    "several votes, unordered": {"several": True, "ordered": False},
    "soft": {"soft": True},
    "weights": {"weighted": True},
    "all": {"ordered": False, "several": True, "soft": True, "weighted": True},
}


@pytest.mark.parametrize("options", [{"weighted": True}, {"ordered": False, "soft": True}, {"several": True}])
def test_large_second_moments_of_bradley_terry_scores_are_summed_by_pair(make_data, draw_mu, options, monkeypatch):
    passed, _ = both(draw(make_data, draw_mu, **options), {"target": BradleyTerry(WEIGHTS["unshared"])})
    made = passed.influences["target"]
    known = made.second_moment(), made.power_sums()[1]
    monkeypatch.setattr(influence, "_LARGE_PRODUCT", 0)
    summed = replace(made)
    np.testing.assert_allclose(summed.second_moment(), known[0], rtol=1e-11, atol=1e-12 * np.abs(known[0]).max())
    np.testing.assert_array_equal(summed.power_sums()[1], known[1])


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_what_labels_say_of_mu_is_the_same(make_data, draw_mu, options):
    case = draw(make_data, draw_mu, **options)
    passed, whole = both(case, {"target": BradleyTerry(CategoryWeights.half(C))}, floor=0.15)
    np.testing.assert_array_equal(passed.cell_mu, whole.cell_mu)
    assert (passed.n_floored, passed.n_entries) == (whole.n_floored, whole.n_entries)
    assert passed.n_floored > 0
    short, long = passed.labels, HeldOutLabels(whole.cell_mu, case[0].cells)
    assert len(whole.labels.cells) == len(short.cells)
    assert len(short.cells) < len(long.cells)
    assert short.cells.n_labels == len(long.cells)
    assert short.cells.n_votes.sum() == long.cells.n_votes.sum()
    slopes = [calibration(labels)[0] for labels in (short, long)]
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-6)
    assert calibration(short)[1] == pytest.approx(calibration(long)[1], rel=1e-12)
    losses = [(one.cells.n_votes[:, None] * one.cells.y * np.log(one.mu)).sum() for one in (short, long)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_covariances_are_made_from_kinds(make_data, draw_mu, weighted):
    case = draw(make_data, draw_mu, several=True, weighted=weighted)
    passed, whole = both(case, {"target": BradleyTerry(CategoryWeights.half(C))})
    made, known = passed.target, whole.target
    gauge = np.full((1, K), 0.5)
    cluster = np.random.default_rng(1).integers(40, size=case[0].n_contexts)
    for kind in (lambda one: robust(one, gauge), lambda one: one_way(one, cluster, gauge)):
        np.testing.assert_allclose(kind(made).matrix, kind(known).matrix, rtol=0, atol=1e-12)
    sums = np.zeros((40, K))
    np.add.at(sums, cluster, known.centred)
    np.testing.assert_allclose(made.sums_by(cluster), sums, rtol=1e-12, atol=1e-10)


def test_contexts_are_alike_where_fold_pair_and_label_are(make_data):
    rng = np.random.default_rng(2)
    n = 400
    first, second = two_of(rng, 3, n)
    label, fold = rng.integers(C, size=n), rng.integers(2, size=n + 5)
    data = make_data(np.arange(n), first, second, label, n_items=3, n_categories=C, n_contexts=n + 5)
    kinds = find_identical_contexts(data, fold, np.arange(fold.max() + 1))
    said = [(fold[i], first[i], second[i], label[i]) if i < n else (fold[i],) for i in range(n + 5)]
    assert len(kinds) == len(set(said))
    for kind in range(len(kinds)):
        assert len({said[i] for i in np.flatnonzero(kinds.kind == kind)}) == 1
    np.testing.assert_array_equal(kinds.cells.y[kinds.row], data.cells.y)
    assert (np.diff(kinds.table) >= 0).all()
    assert kinds.cells.n_votes.sum() == n


def test_propensities_that_vary_within_a_group_are_noticed(make_data, draw_mu):
    data, mu, propensity, _ = draw(make_data, draw_mu, several=True)
    kinds = mu_by_fold(mu).identical_contexts(data)
    assert kinds.is_constant_within_kinds(propensity)
    alike = np.flatnonzero(kinds.cells.copies > 1)[0]
    propensity[np.flatnonzero(kinds.row == alike)[0]] *= 1.001
    assert not kinds.is_constant_within_kinds(propensity)


def test_the_one_step_estimator_groups_contexts_by_itself_where_this_is_cheaper(make_data, draw_mu):
    """One vote a context and propensities by pair; each other case differs in one thing that tells contexts apart."""
    rng = np.random.default_rng(8)
    n = 600
    first, second = two_of(rng, K, n)
    data = make_data(np.arange(n), first, second, rng.integers(C, size=n), n_items=K, n_categories=C, n_contexts=n)
    folds = Folds(np.arange(n) % N_FOLDS, np.arange(n), N_FOLDS)
    tables = draw_mu(rng, N_FOLDS, K, C, floor=0.2)
    mu = CrossFittedMu(tuple(ConstantMu(table, np.ones(table.shape[:2])) for table in tables), folds, data.x)
    estimands, given = {"target": Borda(CategoryWeights.half(C))}, inputs_of(data, mu, np.full(n, 0.3))
    made = one_step(estimands, given)
    assert isinstance(made.target, CompressedInfluence)
    others = {
        "propensities": replace(given, propensity=rng.uniform(0.2, 0.9, n)),
        "given mu": replace(given, mu=SuppliedMu(tables[folds.fold])),
        "annotators": replace(given, blocks=blocks_by_group(data, rng.integers(5, size=n))[0]),
    }
    for name, case in others.items():
        assert useful_kinds(estimands, case) is None, name
        assert isinstance(one_step(estimands, case).target, Influence), name
    by_hand = one_step(estimands, others["given mu"]).target
    np.testing.assert_allclose(made.target.estimate, by_hand.estimate, rtol=1e-12)
    np.testing.assert_allclose(made.target.by_context().centred, by_hand.centred, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_contexts_with_many_labels_have_the_sums_of_one_derivative_for_each_label(make_data, draw_mu, ordered, score):
    """Where contexts have many labels, their derivative is taken along all residuals at the same time."""
    rng, n_items, n = np.random.default_rng(11), 8, 15
    first, second = (np.tile(codes, n) for codes in np.nonzero(~np.eye(n_items, dtype=bool)))
    context = np.repeat(np.arange(n), n_items * (n_items - 1))
    is_shown = rng.random(len(context)) < 0.9
    context, first, second = context[is_shown], first[is_shown], second[is_shown]
    drawn = rng.integers(2, size=len(context))
    data = make_data(context, first, second, drawn, n_items=n_items, n_categories=2, n_contexts=n)
    data = data if ordered else data.unordered()
    assert len(data.cells) > n * n_items * 2
    models = tuple(
        ConstantMu(table, np.ones((n_items, n_items))) for table in draw_mu(rng, N_FOLDS, n_items, 2, floor=0.2)
    )
    models = models if ordered else tuple(MirroredMu(model, data.flip) for model in models)
    mu = CrossFittedMu(models, Folds(rng.integers(N_FOLDS, size=n), np.arange(n), N_FOLDS), data.x)
    one = score(CategoryWeights.half(2), Graph(~np.eye(n_items, dtype=bool)))
    propensity = rng.uniform(0.2, 0.9, size=(n_items, n_items))[data.cells.first, data.cells.second]
    given = {"target": one}, inputs_of(data, mu, propensity, 0.05)
    by_label, by_context = (
        evaluate_identical_contexts(mu_by_fold(mu).identical_contexts(data), *given),
        in_chunks(given, 1000),
    )
    written, known = by_label.target.by_context(), by_context.target
    for name in ("value", "correction", "centred", "estimate"):
        np.testing.assert_allclose(getattr(known, name), getattr(written, name), rtol=1e-10, atol=1e-11)
    assert (written.variance_correction is None) == (known.variance_correction is None)
    np.testing.assert_allclose(by_context.labels.mu, by_label.labels.mu, rtol=1e-12)
    np.testing.assert_array_equal(by_context.labels.cells.count, by_label.labels.cells.count)
    np.testing.assert_allclose(by_context.labels.votes, by_label.labels.votes, rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"cov_type": "cluster", "cov_kwds": {"groups": "cluster"}, "n_rep": 2}])
def test_large_data_with_few_different_features_have_the_results_of_every_context(monkeypatch, options):
    """Values by kind, to which second order adds what labels of a kind have in common."""
    battles = dr.datasets.simulate_arena(n=1500, rng=0)
    battles["cluster"] = np.arange(len(battles)) // 3

    def fit():
        given = {"functional": "bt", "rng": 0, "n_jobs": 1, "min_labels": 1} | options
        return dr.dml_rank("winner ~ C(category) | model_a + model_b", battles, **in_objects(given))

    every = fit()
    monkeypatch.setattr("dmlrank.estimation.one_step.MAX_STORED", 0)
    kinds = fit()
    assert isinstance(kinds.steps.first.one_step_result.target, CompressedInfluence)
    assert isinstance(every.steps.first.one_step_result.target, Influence)
    np.testing.assert_allclose(kinds.params, every.params, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(kinds.cov_params(), every.cov_params(), rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(kinds.influence, every.influence, rtol=1e-8, atol=1e-9)
    assert kinds.summary().as_text() == every.summary().as_text()
    assert kinds.by("category").summary().as_text() == every.by("category").summary().as_text()
    assert kinds.sensitivity(gamma=[1.2]).summary().as_text() == every.sensitivity(gamma=[1.2]).summary().as_text()


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
        {"target": score},
        inputs_of(data, SuppliedMu(mu), propensity),
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
        made = one_step(
            {"target": score}, inputs_of(data, SuppliedMu(mu), propensity, blocks=blocks, weight=weight)
        ).target
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
