"""Shares of the pairs by smooth effects and trees: what each adds, what is held out, what they must not depend on."""

from __future__ import annotations

import numpy as np
import pytest

from dmlrank._utils import parallel
from dmlrank.nuisance.boosting import train
from dmlrank.nuisance.propensity_model import pair_choice
from dmlrank.nuisance.propensity_model.conditional_logit import pair_shares
from dmlrank.nuisance.propensity_model.estimate import estimate_propensity
from dmlrank.nuisance.propensity_model.pair_choice import fit_pair_shares
from dmlrank.nuisance.smooth import penalty
from dmlrank.nuisance.smooth.basis import SmoothBasis
from dmlrank.nuisance.smooth.penalty import selection_cells
from dmlrank.nuisance.training_rows import Folds, labelled_cells

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
        kept = np.arange(n_labelled or n)
        label = rng.integers(2, size=len(kept))
        data = make_data(kept, pair[kept] // K, pair[kept] % K, label, n_items=K, n_categories=2, x=x, order=order)
        return data, table

    return draw


def generators(n=FOLDS, seed=0):
    return [np.random.default_rng(own) for own in np.random.SeedSequence(seed).spawn(n)]


def dealt(data, n_folds=FOLDS):
    return np.random.default_rng(1).permutation(np.arange(data.n_contexts) % n_folds)


def tables(data, models):
    """Out-of-fold shares of all pairs, (n, K, K)."""
    made, fold = np.empty((data.n_contexts, K, K)), dealt(data)
    for f, model in enumerate(models):
        made[fold == f] = model.table(data.x[fold == f], 1)
    return made


def divergence(truth, found):
    """Kullback-Leibler, mean over contexts."""
    off = ~np.eye(K, dtype=bool)
    return (truth[:, off] * np.log(truth[:, off] / found[:, off])).sum(axis=1).mean()


def pairs_only(data):
    """Shares of the pairs outside each fold, the same in all contexts."""
    made, fold = np.empty((data.n_contexts, K, K)), dealt(data)
    first, second = data.cells.shown
    for f in range(FOLDS):
        here = fold[data.cells.context] != f
        made[fold == f] = pair_shares(first[here], second[here], K, 10.0)
    return made


@pytest.mark.parametrize("jump", [0.0, 2.0])
def test_every_pair_by_itself_is_that_of_the_table_and_they_sum_to_one(draw, jump):
    data, _ = draw(1, jump=jump)
    models = fit_pair_shares(data, dealt(data), generators(), 1)
    assert all((model.trees is not None) == (jump > 0) for model in models)
    rng = np.random.default_rng(2)
    first = rng.integers(K, size=data.n_contexts)
    second = (first + rng.integers(1, K, size=data.n_contexts)) % K
    for model in models:
        table = model.table(data.x, 1)
        np.testing.assert_allclose(table.sum(axis=(1, 2)), 1, rtol=1e-12)
        np.testing.assert_array_equal(table[:, np.arange(K), np.arange(K)], 0)
        own = table[np.arange(data.n_contexts), first, second]
        np.testing.assert_allclose(model.at(data.x, first, second, 1), own, rtol=1e-10)
        other = table[np.arange(data.n_contexts), second, first]
        np.testing.assert_allclose(model.at(data.x, first, second, 1, both_orders=True), own + other, rtol=1e-10)


def test_smooth_effects_are_found(draw):
    data, truth = draw(3, 1500)
    found = tables(data, fit_pair_shares(data, dealt(data), generators(), 1))
    assert divergence(truth, found) < 0.15 * divergence(truth, pairs_only(data))


def test_trees_find_what_no_curves_can_tell(draw):
    data, truth = draw(4, 2000, curve=0.0, jump=2.0)
    models = fit_pair_shares(data, dealt(data), generators(), 1)
    assert all(model.trees is not None for model in models)
    assert divergence(truth, tables(data, models)) < 0.4 * divergence(truth, pairs_only(data))


def test_where_features_say_nothing_they_are_hardly_listened_to(draw):
    excess = []
    for seed in range(6):
        data, truth = draw(20 + seed, curve=0.0)
        found = tables(data, fit_pair_shares(data, dealt(data), generators(), 1))
        excess.append(divergence(truth, found) - divergence(truth, pairs_only(data)))
    assert np.mean(excess) < 0.003


def test_many_features_with_two_that_matter(draw):
    data, truth = draw(5, 1500, n_features=40)
    models = fit_pair_shares(data, dealt(data), generators(), 1)
    for model in models:
        assert model.basis.width == penalty.SCREENED * 7
        assert 0 in {f for f, _ in model.basis.columns}
    assert divergence(truth, tables(data, models)) < 0.5 * divergence(truth, pairs_only(data))


def test_the_order_of_contexts_changes_no_bit(make_data, draw):
    data, _ = draw(6, 300, jump=2.0)
    moved = np.random.default_rng(7).permutation(300)
    back = np.argsort(moved)
    cells = data.cells
    other = make_data(
        back[cells.context],
        cells.first,
        cells.second,
        cells.y.argmax(axis=1),
        n_items=K,
        n_categories=2,
        x=data.x[moved],
        order=moved,
    )
    one = fit_pair_shares(data, dealt(data), generators(), 1)
    two = fit_pair_shares(other, dealt(data)[moved], generators(), 1)
    assert one[0].trees is not None
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.table(data.x[:40], 1), b.table(data.x[:40], 1))


def test_the_effects_of_every_fold_are_learnt_from_the_other_folds_alone(make_data, draw):
    """A sample selects everything; other pairs of a fold, outside the sample, do not change the fold's own effects."""
    data, _ = draw(8, 300)
    fold, cells = dealt(data), data.cells
    rows = labelled_cells(data, SmoothBasis.learn(data.x), fold)
    sample, _ = selection_cells(rows, FOLDS, generators()[0], sample_size=100)
    here = (fold[cells.context] == 1) & ~np.isin(cells.context, sample.context)
    first, second = cells.first.copy(), cells.second.copy()
    first[here], second[here] = second[here], first[here]
    other = make_data(cells.context, first, second, cells.y.argmax(axis=1), n_items=K, n_categories=2, x=data.x)
    one, two = (fit_pair_shares(votes, fold, generators(), 1, selection_sample=100) for votes in (data, other))
    for name in ("first", "second", "share"):
        np.testing.assert_array_equal(getattr(one[1].effects, name), getattr(two[1].effects, name))
        assert np.abs(getattr(one[2].effects, name) - getattr(two[2].effects, name)).max() > 1e-3


def test_many_labels_are_selected_by_one_fold_and_a_sample(draw):
    data, truth = draw(9, 1500, jump=2.0)
    few = tables(data, fit_pair_shares(data, dealt(data), generators(), 1))
    models = fit_pair_shares(data, dealt(data), generators(), 1, selection_sample=800)
    assert len({model.trees.booster.num_trees() for model in models}) == 1
    assert np.abs(models[0].effects.first - models[1].effects.first).max() > 1e-3
    assert divergence(truth, tables(data, models)) < 1.6 * divergence(truth, few)


def test_many_labels_without_effects(draw, monkeypatch):
    monkeypatch.setattr(pair_choice, "_flat_loss", lambda cells, trials, prior: prior - 1e6)
    data, _ = draw(10, 400)
    for model in fit_pair_shares(data, dealt(data), generators(), 1, selection_sample=200):
        assert not model.effects.importance.any()


def test_trees_start_from_the_log_odds_of_being_shown(draw):
    """What a row starts from is the log of how much likelier its pair is to be shown than to be drawn."""
    data, _ = draw(11, 300)
    cells = pair_choice._shown(data, dealt(data))
    smooth = pair_choice._model(3.0, 1).select(cells, range(FOLDS))
    contrast = pair_choice._NoiseContrast.of(cells, 3.0, np.random.default_rng(0), 1)
    fitted = smooth.fits[1]
    part = contrast.part(fitted, fitted.held_out, 1)
    rows = np.flatnonzero(np.isin(contrast.cell, fitted.held_out.number))
    assert part.num_data() == len(rows) == len(fitted.held_out.rows) * (1 + pair_choice.DRAWN_PER_SHOWN)
    first, second = contrast.first[rows], contrast.second[rows]
    x = cells.x[cells.context[contrast.cell[rows]]]
    shown = fitted.effects.log_at(fitted.basis.of(x), first, second)
    drawn = pair_shares(cells.rows.first, cells.rows.second, K, 3.0)[first, second]
    np.testing.assert_allclose(part.get_init_score(), shown - np.log(pair_choice.DRAWN_PER_SHOWN * drawn), rtol=1e-6)
    p = 1 / (1 + np.exp(-part.get_init_score()))
    expected = -np.log(np.where(contrast.shown[rows] == 1, p, 1 - p)).sum()
    assert contrast.loss(fitted) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_array_equal(part.get_label(), contrast.shown[rows])
    count = np.zeros((K, K))
    np.add.at(count, (contrast.first, contrast.second), 1 - contrast.shown)
    overall = pair_shares(cells.rows.first, cells.rows.second, K, 3.0)
    np.testing.assert_allclose(count / count.sum(), overall, atol=0.03)


def test_a_fold_without_labels_and_contexts_without_any(draw):
    data, _ = draw(12, 300, n_labelled=200, jump=2.0)
    fold = np.where(np.arange(300) < 200, np.arange(300) % 2, 2)
    models = fit_pair_shares(data, fold, generators(), 1)
    assert len(models) == 3
    for model in models:
        np.testing.assert_allclose(model.table(data.x[:5], 1).sum(axis=(1, 2)), 1)


def test_all_labels_in_one_fold(draw):
    data, _ = draw(13, 100, n_labelled=30)
    fold = np.where(np.arange(100) < 30, 0, 1)
    models = fit_pair_shares(data, fold, generators(2), 1)
    assert models[0].trees is None
    np.testing.assert_allclose(models[0].table(data.x[:2], 1)[:, ~np.eye(K, dtype=bool)], 1 / 12)


def test_missing_values_are_read(draw):
    data, _ = draw(14, 600)
    data.x[::7, 1] = np.nan
    found = tables(data, fit_pair_shares(data, dealt(data), generators(), 1))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("ordered", [True, False])
def test_propensities_are_any_labels_times_shares(draw, ordered):
    data, _ = draw(15, 400, n_labelled=300)
    data = data if ordered else data.unordered()
    fold = dealt(data)
    seeds = np.random.SeedSequence(3).spawn(FOLDS)
    made = estimate_propensity(data, Folds(fold, data.seed_order, FOLDS), seeds, tune="cv", n_jobs=1)
    contexts = np.arange(data.n_contexts)
    table = made.pairs.table(contexts)
    cells = data.cells
    np.testing.assert_allclose(table[cells.context, cells.first, cells.second], made.cells, rtol=1e-10)
    for own in made.pairs.folds:
        whole = own.table(data.x, K, 1).sum(axis=(1, 2))
        np.testing.assert_allclose(whole / (1 if ordered else 2), own.any_label.predict(data.x, 1), rtol=1e-10)


def test_boosters_and_their_data_ask_for_as_many_threads(draw, monkeypatch, capfd):
    """LightGBM would complain, in threads in which it is let."""
    monkeypatch.setattr(train, "_SIDE_BY_SIDE", (0, 20_000_000))
    monkeypatch.setattr(parallel, "_quiet", lambda: None)
    data, _ = draw(16, 300, jump=2.0)
    for large in (1, 300 * 6 * 4 - 1, 10**9):
        monkeypatch.setattr(train, "_LARGE", large)
        fit_pair_shares(data, dealt(data), generators(), 2)
    assert "num_threads" not in capfd.readouterr().out
