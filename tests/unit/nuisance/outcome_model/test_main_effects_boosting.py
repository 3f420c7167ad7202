"""The default learner: what trees add, what is held out, and what its predictions must not depend on."""

import numpy as np
import pytest
from scipy.special import softmax

from dmlrank.nuisance import effects_and_trees
from dmlrank.nuisance.effects_and_trees import SCREENED, TunedEffects, selection_cells
from dmlrank.nuisance.outcome_model import main_effects
from dmlrank.nuisance.outcome_model.cross_fit import BoosterMu, fit_all
from dmlrank.nuisance.outcome_model.main_effects import MainEffectsLikelihood, MuLearner, fit_smooth_boosted
from dmlrank.nuisance.smooth import PenalisedSearch, SmoothBasis
from dmlrank.nuisance.training_rows import Folds, labelled_cells

from ....support import two_of

K = 3
FOLDS = 3


@pytest.fixture
def draw(make_data):
    def draw(seed=0, n=400, n_categories=3, jump=0.0, curve=1.0, x=None, n_labelled=None):
        """One pair per context; item 0 is better where x0 is large, and where the signs of x0 and x1 agree."""
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, size=(n, 2)) if x is None else x
        first, second = two_of(rng, K, n)
        strength = np.zeros((n, K))
        strength[:, 0] = curve * 2 * x[:, 0] + jump * np.sign(x[:, 0] * x[:, 1])
        at = np.arange(n)
        advantage = strength[at, first] - strength[at, second] + 0.3
        scores = np.column_stack([advantage / 2, -advantage / 2, *[np.full(n, -0.5)] * (n_categories - 2)])
        p = softmax(scores, axis=1).cumsum(axis=1)
        label = np.minimum((p < rng.random((n, 1))).sum(axis=1), n_categories - 1)
        labelled = at[: n_labelled or n]
        return make_data(
            labelled, first[labelled], second[labelled], label[labelled], n_items=K, n_categories=n_categories, x=x
        )

    return draw


def seeds(n=FOLDS, seed=0):
    return np.random.SeedSequence(seed).spawn(n)


def dealt(data, n_folds=FOLDS):
    return np.random.default_rng(1).permutation(np.arange(data.n_contexts) % n_folds)


def fitted(data, n_folds=FOLDS, **options):
    return fit_smooth_boosted(data, dealt(data, n_folds), seeds(n_folds), **options)


def held_out_loss(data, predict, n_folds=FOLDS):
    """Log-loss of the held-out cells, ``predict(fold, x, first, second)``."""
    fold, cells, total = dealt(data, n_folds), data.cells, 0.0
    for f in range(n_folds):
        in_fold = fold[cells.context] == f
        p = predict(f, data.x[cells.context[in_fold]], cells.first[in_fold], cells.second[in_fold])
        total -= (cells.n_votes[in_fold, None] * cells.y[in_fold] * np.log(p)).sum()
    return total


def both_losses(data):
    models = fitted(data)
    loss = held_out_loss(data, lambda f, *at: models[f].at(*at))

    def predict_without_trees(f, x, first, second):
        return softmax(models[f].main_effects.at(models[f].basis.of(x), first, second), axis=1)

    return models, loss, held_out_loss(data, predict_without_trees)


@pytest.mark.parametrize("n_categories", [2, 3, 4])
@pytest.mark.long
def test_trees_are_added_where_they_help(draw, n_categories):
    models, loss, main = both_losses(draw(0, 600, n_categories, jump=2.0))
    assert all(model.trees is not None for model in models)
    assert loss < main - 5


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("jump", [0.0, 2.0])
@pytest.mark.long
def test_given_pairs_are_those_of_the_table(draw, jump, ordered):
    data = draw(2, jump=jump)
    model = fitted(data if ordered else data.unordered())[0]
    x = np.random.default_rng(3).uniform(-1, 1, size=(20, 2))
    table = model.predict(x)
    pairs = ~np.eye(K, dtype=bool)
    np.testing.assert_allclose(table[:, pairs].sum(axis=-1), 1)
    assert not table[:, ~pairs].any()
    i, j, k = np.nonzero(np.broadcast_to(pairs, (20, K, K)))
    np.testing.assert_allclose(model.at(x[i], j, k), table[i, j, k], rtol=1e-10)


def test_where_order_does_not_matter_both_orders_say_the_same(draw):
    data = draw(4, jump=2.0).unordered()
    for model in fitted(data):
        assert model.trees is not None
        assert model.stage.mirrored
        mu = model.predict(data.x[:30])
        np.testing.assert_allclose(np.swapaxes(mu, 1, 2)[..., data.flip], mu, atol=1e-12)


def test_the_order_of_contexts_changes_no_bit(make_data, draw):
    data = draw(5, 300, jump=2.0)
    cells, order = data.cells, np.random.default_rng(6).permutation(300)
    # Context ``order[i]`` of the data stands at place i; seeds go by the places of old.
    place = np.argsort(order)
    votes = place[cells.context], cells.first, cells.second, cells.y.argmax(axis=1)
    moved = make_data(*votes, n_items=K, n_categories=3, x=data.x[order], order=order)
    fold = dealt(data)
    one = fit_smooth_boosted(data, fold, seeds())
    two = fit_smooth_boosted(moved, fold[order], seeds())
    assert one[0].trees is not None
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.predict(data.x[:20]), b.predict(data.x[:20]))


def learner(cells):
    return MuLearner(cells, [np.random.default_rng(seed) for seed in seeds()])


def effects_of_fold(cells, f, screened):
    return learner(cells).fit_effects(f, TunedEffects(0.0, 3.0, screened, None, []))


def test_labels_of_a_fold_do_not_reach_its_own_main_effects(draw):
    data = draw(7)
    fold, other = dealt(data), draw(7)
    in_fold = fold[other.cells.context] == 1
    other.cells.y[in_fold] = np.roll(other.cells.y[in_fold], 1, axis=1)
    basis = SmoothBasis.learn(data.x)
    fits = []
    for labels in (data, other):
        cells = labelled_cells(labels, basis, fold)
        fits.append([effects_of_fold(cells, f, screened=False).flat for f in (0, 1)])
    np.testing.assert_array_equal(fits[0][1], fits[1][1])
    assert np.abs(fits[0][0] - fits[1][0]).max() > 0.01


def test_every_booster_learns_from_the_other_folds_alone(draw, monkeypatch):
    """A sample selects the ridge and the stage; labels of a fold outside the sample do not change the fold's model."""
    data, other = draw(8, jump=2.0), draw(8, jump=2.0)
    fold = dealt(data)
    cells = labelled_cells(data, SmoothBasis.learn(data.x), fold)
    monkeypatch.setattr(effects_and_trees, "SELECTION_SAMPLE", 250)
    sample, _ = selection_cells(cells, FOLDS, np.random.default_rng(seeds()[0]))
    changed = (fold[other.cells.context] == 1) & ~np.isin(other.cells.context, sample.rows.context)
    assert changed.sum() > 30
    other.cells.y[changed] = np.roll(other.cells.y[changed], 1, axis=1)
    one, two = (fitted(labels) for labels in (data, other))
    assert one[1].trees is not None
    np.testing.assert_array_equal(one[1].predict(data.x[:20]), two[1].predict(data.x[:20]))
    assert np.abs(one[2].predict(data.x[:20]) - two[2].predict(data.x[:20])).max() > 0.01


def test_the_ridge_is_the_first_from_stiff_to_free_that_the_next_does_not_beat(draw):
    data = draw(9, curve=1.5)
    basis = SmoothBasis.learn(data.x)
    cells = labelled_cells(data, basis, dealt(data))
    losses = []
    for ridge in MuLearner.ridges:
        losses.append(0.0)
        for f in range(FOLDS):
            training, held_out = (part.rows for part in cells.split(f))
            problem = MainEffectsLikelihood(training, K, True)
            search = PenalisedSearch(problem, ridge)
            search.advance()
            p = softmax(
                problem.effects(search.flat).at(held_out.table, held_out.first, held_out.second, held_out.context),
                axis=1,
            )
            losses[-1] -= (held_out.weight[:, None] * held_out.y * np.log(p)).sum()
    splits = [cells.split(f) for f in range(FOLDS)]
    expected = next(at for at in range(len(losses)) if at + 1 == len(losses) or losses[at + 1] >= losses[at])
    assert learner(cells).select_ridge(splits, np.nan, screened=False).ridge == MuLearner.ridges[expected]
    assert 0 < expected < len(losses) - 1


@pytest.mark.long
def test_many_labels_are_selected_by_one_fold_and_a_sample(draw, monkeypatch):
    data = draw(10, 900, jump=2.0)
    few = fitted(data)
    monkeypatch.setattr(effects_and_trees, "SELECTION_SAMPLE", 500)
    many = fitted(data)
    assert len(many) == FOLDS
    assert all(model.trees is not None for model in many)
    loss, expected = (held_out_loss(data, lambda f, *at, m=m: m[f].at(*at)) for m in (many, few))
    assert loss == pytest.approx(expected, rel=0.05)
    rounds = {model.trees.booster.num_trees() for model in many}
    assert len(rounds) == 1
    main = [model.main_effects.strength for model in many]
    assert np.abs(main[0] - main[1]).max() > 1e-3


def test_a_fold_without_labels(draw):
    data = draw(12, 300, n_labelled=200)
    fold = np.where(np.arange(300) < 200, np.arange(300) % 2, 2)
    models = fit_smooth_boosted(data, fold, seeds())
    assert np.isfinite(models[2].predict(data.x[200:])).all()


def test_auto_is_this_learner_and_anything_else_is_lightgbm_alone(draw):
    data = draw(15, 150)
    unit = np.arange(data.n_contexts)

    def models(learner, tune):
        return fit_all(data, Folds(dealt(data), unit, FOLDS), seeds(), tune=tune, learner=learner)

    quick = {"n_estimators": 2}
    assert all(isinstance(model, main_effects.SmoothBoostedMu) for model in models("auto", "cv"))
    for learner, tune in (("auto", quick), ("lightgbm", quick)):
        assert all(isinstance(model, BoosterMu) for model in models(learner, tune))
    assert all(isinstance(model, BoosterMu) for model in models("lightgbm", "cv"))


def test_where_features_are_too_many_the_ones_that_matter_get_curves(draw):
    rng = np.random.default_rng(20)
    x = np.concatenate([rng.uniform(size=(900, 2)), rng.uniform(size=(900, 38))], axis=1)
    data = draw(20, 900, x=x, curve=3.0)
    basis = SmoothBasis.learn(x)
    cells = labelled_cells(data, basis, dealt(data))
    assert basis.width == 40
    assert len(basis.straight) == 40
    lines = learner(cells).select_ridge([cells.split(f) for f in range(FOLDS)], np.nan, screened=False)
    smooth = learner(cells).select_effects()
    assert smooth.screened
    assert smooth.loss < lines.loss
    for fitted in smooth.fits:
        assert fitted.training.basis.width == SCREENED * 7
        assert {0, 1} & {f for f, _ in fitted.training.basis.columns}
