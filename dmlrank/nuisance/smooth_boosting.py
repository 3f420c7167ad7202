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
from .at_once import side_by_side
from .binned import BinnedCells
from .fold_cells import FoldCells, labelled, with_soft
from .lightgbm import stack_rows, threads, workers_at
from .main_effects import LabelledRows, MainEffects, fit_main_effects
from .pairs import PairTrees, predict_all_pairs, softmax_in_place
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
# Rounds after which a configuration that is behind the best one's loss at the same round is given up.
_WARM_UP = 5
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
        mu = softmax_in_place(scores)
        items = np.arange(self.n_items)
        mu[:, items, items] = 0.0
        return mu

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Category probabilities, (r, C), of one pair in each of r contexts with features ``x``, (r, p)."""
        scores = self.main.at(self.basis.of(x), first, second)
        if self.trees is not None:
            scores += _booster_scores(self.trees.booster, x, first, second, self.stage.mirrored, self.n_jobs)
        return np.asarray(softmax(scores, axis=-1))


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
    cells = with_soft(labelled(data, basis, fold), data, fold, soft or ())
    generators = [np.random.default_rng(seed) for seed in seeds]
    folds = range(len(seeds))
    settled = cells if len(cells.rows) <= _MANY else _sampled(cells, generators[0])
    trials = folds if settled is cells else range(1)
    smooth = _settle_smooth(settled, trials)
    lgb_seeds = [int(rng.integers(2**31 - 1)) for rng in generators]
    binned = _binned(cells, n_jobs)
    stage, trained = _settle_stage(binned, smooth, lgb_seeds, n_jobs, like)
    models = []
    for f in folds:
        if settled is cells:
            fitted, booster = smooth.fits[f], trained[f] if trained else None
        else:
            fitted = _fit_smooth(cells, f, smooth.ridge, smooth.screened, smooth.fits[0].flat)
            booster = _train(binned, fitted, stage, lgb_seeds[f], n_jobs) if stage.rounds else None
        trees = PairTrees.of(booster, data.n_items) if booster else None
        models.append(SmoothBoostedMu(fitted.basis, fitted.main, trees, stage, data.n_items, n_jobs))
        report(f + 1, len(seeds), "mu, folds")
    return tuple(models)


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """Main effects of one fold: learnt from ``training``, judged by ``held``."""

    basis: SmoothBasis
    training: FoldCells
    held: FoldCells
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


def _binned(cells: FoldCells, n_jobs: int | None) -> BinnedCells:
    """All cells in bins that follow from the features alone."""
    every = cells
    for more in cells.soft:
        every = every.and_more(more)
    parameters = _parameters(every, Stage(_TREES, True), 0, n_jobs)
    rows = every.rows
    return BinnedCells.of(every.x, every.context, rows.first, rows.second, rows.y, rows.weight, parameters)


def _sampled(cells: FoldCells, rng: np.random.Generator) -> FoldCells:
    """A sample that the first fold and the rest share as they share all cells."""
    share = _MANY / len(cells.rows)
    soft = tuple(
        more.only(np.sort(rng.choice(len(more.rows), int(share * len(more.rows)), replace=False)))
        for more in cells.soft
    )
    return replace(cells.only(np.sort(rng.choice(len(cells.rows), _MANY, replace=False))), soft=soft)


def _settle_smooth(cells: FoldCells, trials: range) -> _Smooth:
    """The main effects with the smallest held-out log-loss.

    Where features are too many for curves, those that matter most to straight lines are given curves as well, and the
    others are left out: chosen within every training set, and kept if it lowers the loss.
    """
    best = _settle_ridge([_split(cells, f) for f in trials], False)
    if not len(cells.basis.straight):
        return best
    screened = [(_curved(training, fitted), _curved(held, fitted)) for (training, held), fitted in _zipped(best)]
    return min(best, _settle_ridge(screened, True), key=lambda smooth: smooth.loss)


def _zipped(smooth: _Smooth) -> list[tuple[tuple[FoldCells, FoldCells], _Fitted]]:
    return [((fitted.training, fitted.held), fitted) for fitted in smooth.fits]


def _split(cells: FoldCells, f: int) -> tuple[FoldCells, FoldCells]:
    return cells.and_soft(f), replace(cells.only(np.flatnonzero(cells.fold == f)), soft=())


def _curved(cells: FoldCells, fitted: _Fitted) -> FoldCells:
    """The cells with curves of the most important features instead of straight lines of all."""
    leading = np.argsort(-fitted.main.importance[: len(cells.basis.straight)], kind="stable")[:_SCREENED]
    basis = SmoothBasis.learn(fitted.training.x, np.sort(cells.basis.straight[leading]))
    columns = basis.of(cells.x[cells.context])
    return replace(cells, basis=basis, rows=replace(cells.rows, columns=columns))


def _settle_ridge(splits: list[tuple[FoldCells, FoldCells]], screened: bool) -> _Smooth:
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


def _fitted(training: FoldCells, held: FoldCells, ridge: float, start: FloatArray | None) -> _Fitted:
    main, flat = fit_main_effects(training.rows, training.n_items, training.ordered, ridge, start)
    return _Fitted(training.basis, training, held, main, flat)


def _fit_smooth(cells: FoldCells, f: int, ridge: float, screened: bool, start: FloatArray) -> _Fitted:
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
    binned: BinnedCells, smooth: _Smooth, seeds: list[int], n_jobs: int | None, like: Stage | None
) -> tuple[Stage, list[lgb.Booster]]:
    """How to boost, and the boosters of the trial folds; no rounds and no boosters where trees do not help."""
    candidates = [Stage(_TREES, True), Stage(_JUMPS, True)] if like is None else [like]
    if like is None and smooth.fits[0].training.ordered:
        candidates.append(Stage(_TREES, False))
    best = _Boosted(candidates[0], [], [smooth.loss])
    for done, stage in enumerate(candidates, start=1):
        best = min(best, _boost_together(binned, smooth, stage, seeds, n_jobs, best), key=lambda own: own.loss)
        report(done, len(candidates), "boosting, configurations", minor=True)
    best.cut()
    return best.stage, best.boosters


@dataclass(frozen=True, slots=True, eq=False)
class _Boosted:
    """Boosters of the trial folds, and their held-out log-loss after 0, 1, 2, ... rounds."""

    tried: Stage
    boosters: list[lgb.Booster]
    losses: list[float]

    @property
    def loss(self) -> float:
        return min(self.losses)

    @property
    def rounds(self) -> int:
        """The first number of rounds with the smallest loss."""
        return int(np.argmin(self.losses))

    @property
    def stage(self) -> Stage:
        return replace(self.tried, rounds=self.rounds)

    def behind(self, other: _Boosted) -> bool:
        """Whether the last round's loss is above the other's at the same round."""
        done = len(self.losses) - 1
        return _WARM_UP <= done < len(other.losses) and self.losses[done] > other.losses[done]

    def cut(self) -> None:
        """Leave the best rounds only."""
        for booster in self.boosters:
            for _ in range(len(self.losses) - 1 - self.rounds):
                booster.rollback_one_iter()
            booster.free_dataset()


def _boost_together(
    binned: BinnedCells, smooth: _Smooth, stage: Stage, seeds: list[int], n_jobs: int | None, best: _Boosted
) -> _Boosted:
    """Boost on all trial folds at once, as long as their held-out log-loss falls and is not behind the best one's."""
    boosters, sizes = [], []
    workers, each = workers_at(_size(smooth.fits[0].training, stage), len(smooth.fits), n_jobs)
    for fitted, seed in zip(smooth.fits, seeds, strict=False):
        parameters = _parameters(fitted.training, stage, seed, each)
        booster = lgb.Booster(parameters, _dataset(binned, fitted.training, fitted.main, stage.mirrored))
        # A fold may hold contexts without labels only: it has no say.
        if len(fitted.held.rows):
            booster.add_valid(_dataset(binned, fitted.held, fitted.main, stage.mirrored), "held out")
        boosters.append(booster)
        sizes.append(fitted.held.rows.weight.sum())
    made = _Boosted(stage, boosters, [smooth.loss])

    def another_round(number: int) -> float:
        boosters[number].update()
        return float(sizes[number] * boosters[number].eval_valid()[0][2]) if sizes[number] else 0.0

    with side_by_side(another_round, len(boosters), workers) as next_round:
        while len(made.losses) <= min(_MAX_ROUNDS, made.rounds + _PATIENCE) and not made.behind(best):
            made.losses.append(sum(next_round()))
    return made


def _train(binned: BinnedCells, fitted: _Fitted, stage: Stage, seed: int, n_jobs: int | None) -> lgb.Booster:
    parameters = _parameters(fitted.training, stage, seed, n_jobs)
    train = _dataset(binned, fitted.training, fitted.main, stage.mirrored)
    return lgb.train(parameters, train, num_boost_round=stage.rounds)


def _size(cells: FoldCells, stage: Stage) -> int:
    """Numbers in the training matrix."""
    return len(cells.rows) * (cells.x.shape[1] + 2) * (2 if stage.mirrored else 1)


def _parameters(cells: FoldCells, stage: Stage, seed: int, n_jobs: int | None) -> dict[str, Parameter]:
    return {
        "objective": "multiclass",
        "num_class": cells.rows.y.shape[1],
        "metric": "multi_logloss",
        "seed": seed,
        "num_threads": threads(n_jobs, _size(cells, stage)),
        "verbosity": -1,
        "deterministic": True,
        "force_row_wise": True,
        "feature_pre_filter": False,
        "min_data_per_group": 10,
        "boost_from_average": False,
        **stage.parameters,
    }


def _dataset(binned: BinnedCells, cells: FoldCells, main: MainEffects, mirrored: bool) -> lgb.Dataset:
    """The cells, with the scores of the main effects to start from."""
    rows = cells.rows
    return binned.part(cells.number, main.at(rows.columns, rows.first, rows.second), mirrored)


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
