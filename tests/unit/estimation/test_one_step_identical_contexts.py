"""Groups of identical contexts against the evaluation of every context: without features they give the same numbers."""

from dataclasses import replace

import numpy as np
import pytest

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
    NuisanceEstimates,
    blocks_by_context,
    blocks_by_group,
)
from dmlrank.estimation.one_step import CHUNK, evaluate_contexts, evaluate_identical_contexts, one_step, useful_kinds
from dmlrank.functionals import Borda, BradleyTerry, CategoryWeights, RankCentrality
from dmlrank.functionals.linear_scores import PositionEffect
from dmlrank.inference.covariance import one_way, robust
from dmlrank.nuisance.outcome_model.cross_fit import ConstantMu, MirroredMu
from dmlrank.nuisance.training_rows import Folds

from ...support import two_of

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
    models = tuple(ConstantMu(table) for table in tables)
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
    given = estimands, data, NuisanceEstimates(mu, propensity, floor), blocks_by_context(data), weight
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
    kinds = find_identical_contexts(data, fold)
    said = [(fold[i], first[i], second[i], label[i]) if i < n else (fold[i],) for i in range(n + 5)]
    assert len(kinds) == len(set(said))
    for kind in range(len(kinds)):
        assert len({said[i] for i in np.flatnonzero(kinds.kind == kind)}) == 1
    np.testing.assert_array_equal(kinds.cells.y[kinds.row], data.cells.y)
    assert (np.diff(kinds.fold) >= 0).all()
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
    mu = CrossFittedMu(tuple(ConstantMu(table) for table in tables), folds, data.x)
    estimands, blocks = {"target": Borda(CategoryWeights.half(C))}, blocks_by_context(data)
    nuisances = NuisanceEstimates(mu, np.full(n, 0.3))
    made = one_step(estimands, data, nuisances, blocks)
    assert isinstance(made.target, CompressedInfluence)
    others = {
        "propensities": (replace(nuisances, propensity=rng.uniform(0.2, 0.9, n)), blocks),
        "given mu": (replace(nuisances, mu=SuppliedMu(tables[folds.fold])), blocks),
        "annotators": (nuisances, blocks_by_group(data, rng.integers(5, size=n))[0]),
    }
    for name, case in others.items():
        assert useful_kinds(estimands, data, *case) is None, name
        assert isinstance(one_step(estimands, data, *case).target, Influence), name
    by_hand = one_step(estimands, data, *others["given mu"]).target
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
    models = tuple(ConstantMu(table) for table in draw_mu(rng, N_FOLDS, n_items, 2, floor=0.2))
    models = models if ordered else tuple(MirroredMu(model, data.flip) for model in models)
    mu = CrossFittedMu(models, Folds(rng.integers(N_FOLDS, size=n), np.arange(n), N_FOLDS), data.x)
    one = score(CategoryWeights.half(2), Graph(~np.eye(n_items, dtype=bool)))
    propensity = rng.uniform(0.2, 0.9, size=(n_items, n_items))[data.cells.first, data.cells.second]
    given = (
        {"target": one},
        data,
        NuisanceEstimates(mu, propensity, 0.05),
        blocks_by_context(data),
        np.ones(data.n_contexts),
    )
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
