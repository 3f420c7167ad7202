"""The default learner: smooth main effects of every item, then boosted trees on what these leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from .._progress import report
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from .lightgbm import ordered_cells, stack_rows, threads
from .main_effects import LabelledRows, MainEffects, fit_main_effects
from .pairs import PairTrees, predict_all_pairs
from .parameters import Parameter
from .splines import SmoothBasis

# Prior precisions of the main effects that are tried, from stiff to free.
_RIDGES = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
# Labelled cells from which one fold and a sample of this size settle the hyperparameters for all folds.
_MANY = 20_000
# Features that get curves where there are too many for all to have them.
_SCREENED = 8
_MAX_ROUNDS = 500
_PATIENCE = 10
_TREES: Mapping[str, Parameter] = {"extra_trees": True, "num_leaves": 15, "min_data_in_leaf": 10, "lambda_l2": 10.0}
_JUMPS: Mapping[str, Parameter] = {"extra_trees": False, "num_leaves": 15, "min_data_in_leaf": 20, "lambda_l2": 5.0}


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """How the booster is trained: its parameters, and on both orders or on the one shown."""

    parameters: Mapping[str, Parameter]
    mirrored: bool
    rounds: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class SmoothBoostedMu:
    """Main effects, and a booster whose scores are added to theirs.

    Attributes
    ----------
    basis : SmoothBasis
    main : MainEffects
    trees : PairTrees or None
        The booster, prepared once for all chunks of contexts; None where trees did not help.
    stage : Stage
        How the booster was trained; where it learnt from both orders, its score for a pair is the mean of both.
    n_items : int
    n_jobs : int or None
    """

    basis: SmoothBasis
    main: MainEffects
    trees: PairTrees | None
    stage: Stage
    n_items: int
    n_jobs: int | None = None

    concurrent = True

    def predict(self, x: FloatArray) -> FloatArray:
        """Category probabilities of every ordered pair, (n, K, K, C)."""
        scores = self.main.table(self.basis.of(x))
        if self.trees is not None:
            added = predict_all_pairs(self.trees, x, self.n_items, raw_score=True, n_jobs=self.n_jobs)
            scores += (added + np.swapaxes(added, 1, 2)[..., _flip(added)]) / 2 if self.stage.mirrored else added
        mu: FloatArray = softmax(scores, axis=-1)
        items = np.arange(self.n_items)
        mu[:, items, items] = 0.0
        return mu

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Category probabilities, (r, C), of one pair in each of r contexts with features ``x``, (r, p)."""
        scores = self.main.at(self.basis.of(x), first, second)
        if self.trees is not None:
            scores += _booster_scores(self.trees.booster, x, first, second, self.stage.mirrored, self.n_jobs)
        return np.asarray(softmax(scores, axis=-1))


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Labelled cells as rows, and the fold of each."""

    rows: LabelledRows
    basis: SmoothBasis
    x: FloatArray
    context: IntArray
    fold: IntArray
    n_items: int
    ordered: bool
    # Soft labels by fold, for training only.
    soft: tuple[_Cells, ...] = ()

    def only(self, kept: IntArray) -> _Cells:
        return replace(self, rows=self.rows.only(kept), context=self.context[kept], fold=self.fold[kept])

    def and_soft(self, f: int) -> _Cells:
        """The labels outside a fold and the soft ones that go with it."""
        own = self.only(np.flatnonzero(self.fold != f))
        if not self.soft:
            return own
        more = self.soft[f].only(np.flatnonzero(self.soft[f].fold != f))
        context, fold = (np.concatenate([getattr(own, at), getattr(more, at)]) for at in ("context", "fold"))
        return replace(own, rows=own.rows.and_more(more.rows), context=context, fold=fold, soft=())


def fit_smooth_boosted(
    data: PreferenceData,
    fold: IntArray,
    seeds: Sequence[np.random.SeedSequence],
    n_jobs: int | None = None,
    soft: Sequence[Cells] | None = None,
    like: Stage | None = None,
) -> tuple[SmoothBoostedMu, ...]:
    """One model per fold, each trained on the other folds.

    The ridge, whether and how long to boost, and whether both orders of a pair may be learnt as one are settled by the
    log-loss on the held-out folds, once for all folds: a choice among a handful of candidates, which costs the
    held-out predictions next to nothing of their independence. With many labels one fold and a sample settle it.

    Parameters
    ----------
    data : PreferenceData
        With features, and more than one category in the labels outside every fold.
    fold : ndarray of int, shape (n,)
    seeds : sequence of SeedSequence
        One per fold.
    n_jobs : int, optional
    soft : sequence of Cells, optional
        Cells with soft labels that the model of each fold learns from as well; labels alone settle what is settled.
    like : Stage, optional
        How to boost, as another fit of the same labels has settled it; only how long is settled anew.

    References
    ----------
    Ahrens, Hansen, Schaffer and Wiemann (2025), Model averaging and double machine learning.
    """
    basis = SmoothBasis.learn(data.x[np.argsort(data.seed_order)])
    cells = _labelled(data, basis, fold)
    cells = replace(cells, soft=tuple(_labelled(replace(data, cells=more), basis, fold) for more in soft or ()))
    generators = [np.random.default_rng(seed) for seed in seeds]
    folds = range(len(seeds))
    settled = cells if len(cells.rows) <= _MANY else _sampled(cells, generators[0])
    trials = folds if settled is cells else range(1)
    smooth = _settle_smooth(settled, trials)
    lgb_seeds = [int(rng.integers(2**31 - 1)) for rng in generators]
    stage, trained = _settle_stage(smooth, lgb_seeds, n_jobs, like)
    models = []
    for f in folds:
        if settled is cells:
            fitted, booster = smooth.fits[f], trained[f] if trained else None
        else:
            fitted = _fit_smooth(cells, f, smooth.ridge, smooth.screened, smooth.fits[0].flat)
            booster = _train(fitted, stage, lgb_seeds[f], n_jobs) if stage.rounds else None
        trees = PairTrees.of(booster, data.n_items) if booster else None
        models.append(SmoothBoostedMu(fitted.basis, fitted.main, trees, stage, data.n_items, n_jobs))
        report(f + 1, len(seeds), "mu, folds")
    return tuple(models)


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """Main effects of one fold: learnt from ``training``, judged by ``held``."""

    basis: SmoothBasis
    training: _Cells
    held: _Cells
    main: MainEffects
    flat: FloatArray

    @property
    def loss(self) -> float:
        """Log-loss of the main effects on the held-out cells."""
        rows = self.held.rows
        return _log_loss(self.main.at(rows.columns, rows.first, rows.second), rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Smooth:
    """Main effects with the best ridge: a fit per trial fold, with screened features or all."""

    loss: float
    ridge: float
    screened: bool
    fits: list[_Fitted]


def _labelled(data: PreferenceData, basis: SmoothBasis, fold: IntArray) -> _Cells:
    cells, inside = data.cells, ordered_cells(data, np.ones(data.n_contexts, dtype=bool))
    context = cells.context[inside]
    weight = cells.n_votes[inside].astype(float)
    columns = basis.of(data.x)[context]
    rows = LabelledRows(columns, cells.first[inside], cells.second[inside], cells.y[inside], weight)
    return _Cells(rows, basis, data.x, context, fold[context], data.n_items, data.ordered)


def _sampled(cells: _Cells, rng: np.random.Generator) -> _Cells:
    """A sample that the first fold and the rest share as they share all cells."""
    share = _MANY / len(cells.rows)
    soft = tuple(
        more.only(np.sort(rng.choice(len(more.rows), int(share * len(more.rows)), replace=False)))
        for more in cells.soft
    )
    return replace(cells.only(np.sort(rng.choice(len(cells.rows), _MANY, replace=False))), soft=soft)


def _settle_smooth(cells: _Cells, trials: range) -> _Smooth:
    """The main effects with the smallest held-out log-loss.

    Where features are too many for curves, those that matter most to straight lines are given curves as well, and the
    others are left out: chosen within every training set, and kept if it lowers the loss.
    """
    best = _settle_ridge([_split(cells, f) for f in trials], False)
    if not len(cells.basis.straight):
        return best
    screened = [(_curved(training, fitted), _curved(held, fitted)) for (training, held), fitted in _zipped(best)]
    return min(best, _settle_ridge(screened, True), key=lambda smooth: smooth.loss)


def _zipped(smooth: _Smooth) -> list[tuple[tuple[_Cells, _Cells], _Fitted]]:
    return [((fitted.training, fitted.held), fitted) for fitted in smooth.fits]


def _split(cells: _Cells, f: int) -> tuple[_Cells, _Cells]:
    return cells.and_soft(f), replace(cells.only(np.flatnonzero(cells.fold == f)), soft=())


def _curved(cells: _Cells, fitted: _Fitted) -> _Cells:
    """The cells with curves of the most important features instead of straight lines of all."""
    leading = np.argsort(-fitted.main.importance[: len(cells.basis.straight)], kind="stable")[:_SCREENED]
    basis = SmoothBasis.learn(fitted.training.x, np.sort(cells.basis.straight[leading]))
    columns = basis.of(cells.x[cells.context])
    return replace(cells, basis=basis, rows=replace(cells.rows, columns=columns))


def _settle_ridge(splits: list[tuple[_Cells, _Cells]], screened: bool) -> _Smooth:
    """The ridge with the smallest held-out log-loss."""
    best: _Smooth | None = None
    starts: list[FloatArray | None] = [None] * len(splits)
    for done, ridge in enumerate(_RIDGES, start=1):
        fits = [_fitted(*split, ridge, start) for split, start in zip(splits, starts, strict=True)]
        starts = [fitted.flat for fitted in fits]
        loss = sum(fitted.loss for fitted in fits)
        report(done, len(_RIDGES), "main effects, ridges", minor=True)
        if best is not None and loss >= best.loss:
            break
        best = _Smooth(loss, ridge, screened, fits)
    assert best is not None
    return best


def _fitted(training: _Cells, held: _Cells, ridge: float, start: FloatArray | None) -> _Fitted:
    main, flat = fit_main_effects(training.rows, training.n_items, training.ordered, ridge, start)
    return _Fitted(training.basis, training, held, main, flat)


def _fit_smooth(cells: _Cells, f: int, ridge: float, screened: bool, start: FloatArray) -> _Fitted:
    """Main effects of one fold, with what a sample has settled."""
    training, held = _split(cells, f)
    if not screened:
        return _fitted(training, held, ridge, start)
    lines = _fitted(training, held, ridge, None)
    return _fitted(_curved(training, lines), _curved(held, lines), ridge, None)


def _log_loss(scores: FloatArray, rows: LabelledRows) -> float:
    log_mu = scores - logsumexp(scores, axis=1, keepdims=True)
    return -float(rows.weight @ (rows.y * log_mu).sum(axis=1))


def _settle_stage(
    smooth: _Smooth, seeds: list[int], n_jobs: int | None, like: Stage | None
) -> tuple[Stage, list[lgb.Booster]]:
    """How to boost, and the boosters of the trial folds; no rounds and no boosters where trees do not help."""
    candidates = [Stage(_TREES, True), Stage(_JUMPS, True)] if like is None else [like]
    if like is None and smooth.fits[0].training.ordered:
        candidates.append(Stage(_TREES, False))
    best: tuple[float, Stage, list[lgb.Booster]] = (smooth.loss, candidates[0], [])
    for done, stage in enumerate(candidates, start=1):
        loss, rounds, boosters = _boost_together(smooth, stage, seeds, n_jobs)
        if loss < best[0]:
            best = (loss, replace(stage, rounds=rounds), boosters)
        report(done, len(candidates), "boosting, configurations", minor=True)
    return best[1], best[2]


def _boost_together(
    smooth: _Smooth, stage: Stage, seeds: list[int], n_jobs: int | None
) -> tuple[float, int, list[lgb.Booster]]:
    """Boost on all trial folds at once, as long as their held-out log-loss falls: loss, rounds and the boosters."""
    boosters, sizes = [], []
    for fitted, seed in zip(smooth.fits, seeds, strict=False):
        parameters = _parameters(fitted.training, stage, seed, n_jobs)
        train = _dataset(fitted.training, fitted.main, stage.mirrored, parameters)
        booster = lgb.Booster(parameters, train)
        # A fold may hold contexts without labels only: it has no say.
        if len(fitted.held.rows):
            held = _dataset(fitted.held, fitted.main, stage.mirrored, parameters, train)
            booster.add_valid(held, "held out")
        boosters.append(booster)
        sizes.append(fitted.held.rows.weight.sum())
    best, rounds, done = smooth.loss, 0, 0
    while done < min(_MAX_ROUNDS, rounds + _PATIENCE):
        for booster in boosters:
            booster.update()
        done += 1
        loss = sum(size * booster.eval_valid()[0][2] for size, booster in zip(sizes, boosters, strict=True) if size)
        if loss < best:
            best, rounds = loss, done
    for booster in boosters:
        for _ in range(done - rounds):
            booster.rollback_one_iter()
        booster.free_dataset()
    return best, rounds, boosters


def _train(fitted: _Fitted, stage: Stage, seed: int, n_jobs: int | None) -> lgb.Booster:
    parameters = _parameters(fitted.training, stage, seed, n_jobs)
    train = _dataset(fitted.training, fitted.main, stage.mirrored, parameters)
    return lgb.train(parameters, train, num_boost_round=stage.rounds)


def _parameters(cells: _Cells, stage: Stage, seed: int, n_jobs: int | None) -> dict[str, Parameter]:
    size = len(cells.rows) * (cells.x.shape[1] + 2) * (2 if stage.mirrored else 1)
    return {
        "objective": "multiclass",
        "num_class": cells.rows.y.shape[1],
        "metric": "multi_logloss",
        "seed": seed,
        "num_threads": threads(n_jobs, size),
        "verbosity": -1,
        "deterministic": True,
        "force_row_wise": True,
        "feature_pre_filter": False,
        "min_data_per_group": 10,
        "boost_from_average": False,
        **stage.parameters,
    }


def _dataset(
    cells: _Cells,
    main: MainEffects,
    mirrored: bool,
    parameters: Mapping[str, Parameter],
    reference: lgb.Dataset | None = None,
) -> lgb.Dataset:
    """A row for every category chosen in a cell, in both orders where the booster is mirrored."""
    rows = cells.rows
    place, label = np.nonzero(rows.y)
    x = stack_rows(cells.x, cells.context[place], rows.first[place], rows.second[place])
    weight = rows.weight[place] * rows.y[place, label]
    scores = main.at(rows.columns, rows.first, rows.second)[place]
    if mirrored:
        back = x.copy()
        back[:, [-2, -1]] = back[:, [-1, -2]]
        flip = _flip(scores)
        x, weight = np.concatenate([x, back]), np.tile(weight / 2, 2)
        label, scores = np.concatenate([label, flip[label]]), np.concatenate([scores, scores[:, flip]])
    p = x.shape[1]
    return lgb.Dataset(
        x,
        label,
        weight=weight,
        init_score=scores,
        categorical_feature=[p - 2, p - 1],
        params=dict(parameters),
        reference=reference,
    )


def _booster_scores(
    booster: lgb.Booster, x: FloatArray, first: IntArray, second: IntArray, mirrored: bool, n_jobs: int | None
) -> FloatArray:
    def scores(j: IntArray, k: IntArray) -> NDArray[np.float64]:
        stacked = stack_rows(x, np.arange(len(x)), j, k)
        return np.asarray(booster.predict(stacked, raw_score=True, num_threads=n_jobs or 0))

    shown = scores(first, second)
    return (shown + scores(second, first)[:, _flip(shown)]) / 2 if mirrored else shown


def _flip(scores: FloatArray) -> IntArray:
    """The categories with the two wins exchanged, (C,)."""
    return np.array([1, 0, *range(2, scores.shape[-1])])
