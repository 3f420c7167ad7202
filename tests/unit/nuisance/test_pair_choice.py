"""Shares of the pairs by smooth effects and trees: against sums and other software, and their invariances."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

from dmlrank._utils.tasks_and_threads import computing_with
from dmlrank.nuisance import effects_and_trees, pair_choice
from dmlrank.nuisance.effects_and_trees import SCREENED, BoostingStage, TunedEffects, selection_cells
from dmlrank.nuisance.pair_choice import (
    DRAWN_PER_SHOWN,
    NoiseContrast,
    PairChoiceEffects,
    PairChoiceLikelihood,
    _ShareLearner,
    fit_pair_shares,
    pair_entries,
    pair_shares,
    shown_pairs,
)
from dmlrank.nuisance.propensity import estimate_propensity
from dmlrank.nuisance.smooth import PenalisedSearch, SmoothBasis
from dmlrank.nuisance.training_rows import Folds, LabelledRows, labelled_cells

K = 4
FOLDS = 3


@pytest.fixture
def draw(make_data):
    def draw(seed=0, n=600, curve=1.0, jump=0.0, n_features=2, n_labelled=None, order=None):
        """One pair per context; item 0 is shown more where x0 is large, item 1 where the signs of x0 and x1 agree."""
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, size=(n, n_features))
        log_rate = np.tile(rng.normal(size=K) / 3, (n, 1))
        log_rate[:, 0] += 2 * curve * x[:, 0]
        log_rate[:, 1] += jump * np.sign(x[:, 0] * x[:, 1])
        table = np.exp(log_rate[:, :, None] + log_rate[:, None, :] + 0.3 * rng.normal(size=(K, K)))
        table[:, np.arange(K), np.arange(K)] = 0.0
        table /= table.sum(axis=(1, 2), keepdims=True)
        pair = (table.reshape(n, -1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
        labelled = np.arange(n_labelled or n)
        label = rng.integers(2, size=len(labelled))
        first, second = pair[labelled] // K, pair[labelled] % K
        data = make_data(labelled, first, second, label, n_items=K, n_categories=2, x=x, order=order)
        return data, table

    return draw


def generators(n=FOLDS, seed=0):
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(n)]


def random_folds(data, n_folds=FOLDS):
    return np.random.default_rng(1).permutation(np.arange(data.n_contexts) % n_folds)


def tables(data, models):
    """Out-of-fold shares of all pairs, (n, K, K)."""
    table, fold = np.empty((data.n_contexts, K, K)), random_folds(data)
    for f, model in enumerate(models):
        table[fold == f] = model.table(data.x[fold == f])
    return table


def divergence(truth, estimate):
    """Kullback-Leibler divergence, mean over contexts."""
    off = ~np.eye(K, dtype=bool)
    return (truth[:, off] * np.log(truth[:, off] / estimate[:, off])).sum(axis=1).mean()


def overall_shares(data):
    """Shares of the pairs outside each fold, the same in all contexts."""
    table, fold = np.empty((data.n_contexts, K, K)), random_folds(data)
    first, second = data.cells.in_display_order
    for f in range(FOLDS):
        training = fold[data.cells.context] != f
        table[fold == f] = pair_shares(first[training], second[training], K, 10.0)
    return table


def test_smooth_effects_are_recovered(draw):
    data, truth = draw(3, 1500)
    estimate = tables(data, fit_pair_shares(data, random_folds(data), generators()))
    assert divergence(truth, estimate) < 0.15 * divergence(truth, overall_shares(data))


def test_many_features_with_two_that_matter(draw):
    data, truth = draw(5, 1500, n_features=40)
    models = fit_pair_shares(data, random_folds(data), generators())
    for model in models:
        assert model.basis.width == SCREENED * 7
        assert 0 in {f for f, _ in model.basis.columns}
    assert divergence(truth, tables(data, models)) < 0.5 * divergence(truth, overall_shares(data))


def test_the_order_of_contexts_changes_no_bit(make_data, draw):
    data, _ = draw(6, 300, jump=2.0)
    moved = np.random.default_rng(7).permutation(300)
    back = np.argsort(moved)
    cells = data.cells
    votes = back[cells.context], cells.first, cells.second, cells.y.argmax(axis=1)
    other = make_data(*votes, n_items=K, n_categories=2, x=data.x[moved], order=moved)
    models = fit_pair_shares(data, random_folds(data), generators())
    moved_models = fit_pair_shares(other, random_folds(data)[moved], generators())
    assert models[0].trees is not None
    for model, moved_model in zip(models, moved_models, strict=True):
        np.testing.assert_array_equal(model.table(data.x[:40]), moved_model.table(data.x[:40]))


def test_the_effects_of_every_fold_are_learnt_from_the_other_folds_alone(make_data, draw, monkeypatch):
    """Pairs of fold 1 outside the sample that selects the hyperparameters do not change the effects of its model."""
    data, _ = draw(8, 300)
    fold, cells = random_folds(data), data.cells
    rows = labelled_cells(data, SmoothBasis.learn(data.x), fold)
    monkeypatch.setattr(effects_and_trees, "SELECTION_SAMPLE", 100)
    sample, _ = selection_cells(rows, FOLDS, generators()[0])
    swapped = (fold[cells.context] == 1) & ~np.isin(cells.context, sample.rows.context)
    first, second = cells.first.copy(), cells.second.copy()
    first[swapped], second[swapped] = second[swapped], first[swapped]
    other = make_data(cells.context, first, second, cells.y.argmax(axis=1), n_items=K, n_categories=2, x=data.x)
    models = fit_pair_shares(data, fold, generators())
    other_models = fit_pair_shares(other, fold, generators())
    for name in ("first", "second", "share"):
        np.testing.assert_array_equal(getattr(models[1].effects, name), getattr(other_models[1].effects, name))
        difference = getattr(models[2].effects, name) - getattr(other_models[2].effects, name)
        assert np.abs(difference).max() > 1e-3


def test_trees_may_learn_from_a_sample_of_the_pairs_shown(draw, monkeypatch):
    """The pairs on which the settings are selected are in the sample, the last pair shown is not."""
    data, truth = draw(9, 1500, jump=2.0)
    fold = random_folds(data)
    monkeypatch.setattr(effects_and_trees, "SELECTION_SAMPLE", 400)
    monkeypatch.setattr(pair_choice, "_MOST_CONTRASTED", 900)
    models = fit_pair_shares(data, fold, generators())
    assert all(model.trees is not None for model in models)
    without_trees = [replace(model, trees=None) for model in models]
    assert divergence(truth, tables(data, models)) < 0.9 * divergence(truth, tables(data, without_trees))
    monkeypatch.setattr(pair_choice, "_MOST_CONTRASTED", 1500)
    as_many_as_there_are = fit_pair_shares(data, fold, generators())
    monkeypatch.setattr(pair_choice, "_MOST_CONTRASTED", 500_000)
    all_of_them = fit_pair_shares(data, fold, generators())
    np.testing.assert_array_equal(tables(data, as_many_as_there_are), tables(data, all_of_them))


def test_where_a_sample_selects_no_effects_no_fold_has_any(draw, monkeypatch):
    monkeypatch.setattr(effects_and_trees, "SELECTION_SAMPLE", 200)
    data, _ = draw(10, 400, curve=0.0)
    for model in fit_pair_shares(data, random_folds(data), generators()):
        assert not model.effects.importance.any()


def test_trees_start_from_the_log_odds_of_being_shown(draw):
    """The initial score of a row is the log of how much more often its pair is shown than drawn."""
    data, _ = draw(11, 300)
    cells = shown_pairs(data, random_folds(data))
    fold_effects = _ShareLearner(cells, generators()).select_smooth_effects(3.0).fits[1]
    contrast = NoiseContrast.of(
        cells, pair_shares(cells.rows.first, cells.rows.second, K, 3.0), np.random.default_rng(0)
    )
    held_out = contrast.dataset(fold_effects.effects, fold_effects.held_out, BoostingStage({}), 1)
    rows = np.flatnonzero(np.isin(contrast.cell, fold_effects.held_out.number))
    assert held_out.num_data() == len(rows) == len(fold_effects.held_out.rows) * (1 + DRAWN_PER_SHOWN)
    first, second = contrast.first[rows], contrast.second[rows]
    x = cells.x[cells.rows.context[contrast.cell[rows]]]
    log_share = fold_effects.effects.log_at(fold_effects.training.basis.of(x), first, second, np.arange(len(x)))
    drawn = pair_shares(cells.rows.first, cells.rows.second, K, 3.0)[first, second]
    np.testing.assert_allclose(held_out.get_init_score(), log_share - np.log(DRAWN_PER_SHOWN * drawn), rtol=1e-6)
    p = 1 / (1 + np.exp(-held_out.get_init_score()))
    expected = -np.log(np.where(contrast.is_shown[rows] == 1, p, 1 - p)).sum()
    tuned = TunedEffects(0.0, 3.0, False, fold_effects.flat, [fold_effects])
    assert contrast.loss_without_trees(tuned) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_array_equal(held_out.get_label(), contrast.is_shown[rows])
    count = np.zeros((K, K))
    np.add.at(count, (contrast.first, contrast.second), 1 - contrast.is_shown)
    overall = pair_shares(cells.rows.first, cells.rows.second, K, 3.0)
    np.testing.assert_allclose(count / count.sum(), overall, atol=0.03)


def test_a_fold_without_labels_and_contexts_without_any(draw):
    data, _ = draw(12, 300, n_labelled=200, jump=2.0)
    fold = np.where(np.arange(300) < 200, np.arange(300) % 2, 2)
    models = fit_pair_shares(data, fold, generators())
    assert len(models) == 3
    for model in models:
        np.testing.assert_allclose(model.table(data.x[:5]).sum(axis=(1, 2)), 1)


def test_shares_are_finite_where_features_are_missing(draw):
    data, _ = draw(14, 600)
    data.x[::7, 1] = np.nan
    estimate = tables(data, fit_pair_shares(data, random_folds(data), generators()))
    assert np.isfinite(estimate).all()


@pytest.mark.parametrize("ordered", [True, False])
def test_a_propensity_is_the_probability_of_any_label_times_the_share_of_the_pair(draw, ordered):
    data, _ = draw(15, 400, n_labelled=300)
    data = data if ordered else data.unordered()
    fold = random_folds(data)
    seeds = np.random.SeedSequence(3).spawn(FOLDS)
    propensity = estimate_propensity(data, Folds(fold, data.seed_order, FOLDS), seeds, tune="cv")
    contexts = np.arange(data.n_contexts)
    table = propensity.pairs.table(contexts)
    cells = data.cells
    np.testing.assert_allclose(table[cells.context, cells.first, cells.second], propensity.cells, rtol=1e-10)
    for model in propensity.pairs.models:
        total = model.table(data.x, K).sum(axis=(1, 2))
        np.testing.assert_allclose(total / (1 if ordered else 2), model.any_label.predict(data.x), rtol=1e-10)


def test_a_single_chunk_of_tables_is_computed_in_the_calling_thread():
    threads = []

    def table(chunk):
        threads.append(threading.get_ident())
        return np.ones((len(chunk), 3, 3)) * chunk[:, :, None]

    x = np.arange(10.0)[:, None]
    with computing_with(2):
        entries = pair_entries(table, x, np.zeros(10, dtype=int), np.ones(10, dtype=int), 3)
    np.testing.assert_array_equal(entries, x[:, 0])
    assert threads == [threading.get_ident()]


# Decrease of the loss that a further step has to promise, where effects are compared digit by digit.
EXACT = 1e-15


def rows_of(columns, first, second):
    ones = np.ones(len(columns))
    return LabelledRows(columns, np.arange(len(columns)), first, second, ones[:, None], ones)


def draw_smooth(seed, n=400, q=3, n_items=K):
    """Rows whose pairs follow items' effects on both places."""
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(n, q))
    truth = PairChoiceEffects(shares(rng, n_items), *(0.5 * rng.normal(size=(2, 1 + q, n_items))))
    table = truth.table(columns).reshape(n, -1)
    chosen = (table.cumsum(axis=1) / table.sum(axis=1, keepdims=True) < rng.random((n, 1))).sum(axis=1)
    return rows_of(columns, chosen // n_items, chosen % n_items), truth


def shares(rng, n_items=K):
    share = rng.uniform(0.5, 2, size=(n_items, n_items))
    np.fill_diagonal(share, 0.0)
    return share / share.sum()


def log_shares_written_out(effects, columns, first, second):
    """Every pair's score, one by one."""
    n_items, log_shares = len(effects.share), []
    design = np.column_stack([np.ones(len(columns)), columns])
    a, b = design @ effects.first, design @ effects.second
    for i, (j, k) in enumerate(zip(first, second, strict=True)):
        scores = {
            (c, d): np.log(effects.share[c, d]) + a[i, c] + b[i, d]
            for c in range(n_items)
            for d in range(n_items)
            if c != d
        }
        log_shares.append(scores[j, k] - logsumexp(list(scores.values())))
    return np.array(log_shares)


def fit_effects(rows, share, ridge, start=None, tolerance=1e-3):
    problem = PairChoiceLikelihood(rows, share)
    search = PenalisedSearch(problem, ridge, start, tolerance)
    search.advance()
    return problem.effects(search.flat)


@pytest.mark.parametrize("n_items", [2, 3, 5])
def test_shares_follow_the_formula_and_the_table_holds_those_of_every_pair(n_items):
    rows, effects = draw_smooth(n_items, 30, n_items=n_items)
    expected = log_shares_written_out(effects, rows.table, rows.first, rows.second)
    np.testing.assert_allclose(effects.log_at(rows.table, rows.first, rows.second, rows.context), expected, rtol=1e-12)
    assert effects.loss(rows) == pytest.approx(-expected.sum(), rel=1e-12)
    table = effects.table(rows.table)
    table /= table.sum(axis=(1, 2), keepdims=True)
    at = table[np.arange(30), rows.first, rows.second]
    np.testing.assert_allclose(np.log(at), expected, rtol=1e-10)
    np.testing.assert_array_equal(table[:, np.arange(n_items), np.arange(n_items)], 0)


@pytest.mark.parametrize(("chunk_size", "parallel_from"), [(250_000, 10**8), (60, 10**8), (60, 0)])
def test_the_gradient_equals_finite_differences(chunk_size, parallel_from, monkeypatch):
    """All rows at once, or in chunks, by one thread or two; rows with equal columns among them."""
    rows, truth = draw_smooth(1, 50)
    rows.table[30:] = rows.table[:20]
    monkeypatch.setattr(pair_choice, "_CHUNK_SIZE", chunk_size)
    monkeypatch.setattr(pair_choice, "_PARALLEL_FROM", parallel_from)
    problem = PairChoiceLikelihood(rows, truth.share)
    assert problem.count.tolist() == [2] * 20 + [1] * 10
    flat = np.random.default_rng(2).normal(size=4 * 2 * K) / 2
    with computing_with(2):
        value, gradient = problem.loss(flat)
    np.testing.assert_allclose(gradient, approx_fprime(flat, lambda z: problem.loss(z)[0], 1e-6), atol=1e-3)
    assert value == pytest.approx(problem.effects(flat).loss(rows), rel=1e-12)


def test_two_items_without_a_ridge_are_statsmodels_logit():
    """With two items only their places can vary: which one comes first is a logit in twice the difference of w."""
    rows, _ = draw_smooth(4, 500, n_items=2)
    even = np.array([[0.0, 0.5], [0.5, 0.0]])
    effects = fit_effects(rows, even, 1e-9, tolerance=EXACT)
    expected = sm.Logit((rows.first == 0).astype(float), sm.add_constant(rows.table)).fit(disp=0).params
    logit = effects.first[:, 0] + effects.second[:, 1] - effects.first[:, 1] - effects.second[:, 0]
    np.testing.assert_allclose(logit, expected, atol=1e-5)


def test_the_effects_that_drew_the_pairs_are_recovered():
    rows, truth = draw_smooth(5, 20_000)
    columns = rows.table[:200]
    tables = [effects.table(columns) for effects in (fit_effects(rows, truth.share, 1.0), truth)]
    estimate, expected = (table / table.sum(axis=(1, 2), keepdims=True) for table in tables)
    off_diagonal = ~np.eye(K, dtype=bool)
    assert np.abs(np.log(estimate[:, off_diagonal] / expected[:, off_diagonal])).mean() < 0.1


def test_points_far_from_the_optimum_have_finite_losses():
    rows, truth = draw_smooth(12, 30)
    problem = PairChoiceLikelihood(rows, truth.share)
    value, gradient = problem.loss(1e4 * np.random.default_rng(13).normal(size=4 * 2 * K))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_items_and_pairs_that_were_never_shown_have_positive_shares():
    share = pair_shares(np.array([0, 0]), np.array([1, 1]), 3, 1.0)
    assert share.sum() == pytest.approx(1)
    assert (share[~np.eye(3, dtype=bool)] > 0).all()
    assert pair_shares(np.array([], int), np.array([], int), 3, 1.0)[0, 1] == pytest.approx(1 / 6)
