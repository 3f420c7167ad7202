"""The default outcome model: smooth main effects of every item, then boosted trees on what these leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np
from scipy.special import softmax

from ..._utils.progress import report
from ...data.outcomes import exchanged_wins
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..all_pairs.predict import PairTrees, predict_all_pairs, softmax_in_place
from ..boosting.binning import BinnedCells, binning
from ..boosting.early_stopping import JUMPS, TREES, BoostingPath, TrialFold, boost_together, parameters_of
from ..boosting.parameters import Parameter
from ..boosting.train import threads, workers_at
from ..smooth.basis import SmoothBasis
from ..smooth.penalty import FoldEffects, SmoothEffectsModel, TunedEffects, selection_cells
from ..training_rows import FoldCells, labelled_cells, stack_rows, with_soft_labels
from .main_effects import MainEffects, MainEffectsLikelihood

_RIDGES = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)


def _likelihood(cells: FoldCells) -> MainEffectsLikelihood:
    return MainEffectsLikelihood.of(cells.rows, cells.n_items, cells.ordered)


_MODEL: SmoothEffectsModel[MainEffects] = SmoothEffectsModel(_likelihood, _RIDGES, "main effects")


@dataclass(frozen=True, slots=True, eq=False)
class BoostingStage:
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
    stage : BoostingStage
        How the booster was trained; where it learnt from both orders, its score for a pair is the mean of both.
    n_items : int
    n_jobs : int or None
    """

    basis: SmoothBasis
    main: MainEffects
    trees: PairTrees | None
    stage: BoostingStage
    n_items: int
    n_jobs: int | None = None

    concurrent = True

    def predict(self, x: FloatArray) -> FloatArray:
        """Category probabilities of every ordered pair, (n, K, K, C)."""
        scores = self.main.table(self.basis.of(x))
        if self.trees is not None:
            added = predict_all_pairs(self.trees, x, self.n_items, raw_score=True, n_jobs=self.n_jobs)
            if self.stage.mirrored:
                added /= 2
                back = np.swapaxes(added, 1, 2)
                for category, flipped in enumerate(exchanged_wins(added.shape[-1])):
                    scores[..., category] += back[..., flipped]
            scores += added
        mu = softmax_in_place(scores)
        items = np.arange(self.n_items)
        mu[:, items, items] = 0.0
        return mu

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Category probabilities, (r, C), of one pair in each of r contexts with features ``x``, (r, p)."""
        scores = self.main.at(self.basis.of(x), first, second)
        if self.trees is not None:
            scores += self._booster_scores(self.trees.booster, x, first, second)
        return np.asarray(softmax(scores, axis=-1))

    def _booster_scores(self, booster: lgb.Booster, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        def scores(j: IntArray, k: IntArray) -> FloatArray:
            stacked = stack_rows(x, np.arange(len(x)), j, k)
            return np.asarray(booster.predict(stacked, raw_score=True, num_threads=self.n_jobs or 0))

        shown = scores(first, second)
        return (shown + scores(second, first)[:, exchanged_wins(shown.shape[-1])]) / 2 if self.stage.mirrored else shown


def fit_smooth_boosted(
    data: PreferenceData,
    fold: IntArray,
    seeds: Sequence[np.random.SeedSequence],
    *,
    n_jobs: int | None = None,
    soft: Sequence[Cells] | None = None,
    like: BoostingStage | None = None,
) -> tuple[SmoothBoostedMu, ...]:
    """One model per fold, each trained on the other folds.

    The ridge, whether and how long to boost, and whether both orders of a pair may be learnt as one are selected by the
    log-loss on the held-out folds, once for all folds: a choice among a handful of candidates, which costs the
    held-out predictions next to nothing of their independence. With many labels one fold and a sample select it.

    Parameters
    ----------
    data : PreferenceData
        With features, and more than one category in the labels outside every fold.
    fold : ndarray of int, shape (n,)
    seeds : sequence of SeedSequence
        One per fold.
    n_jobs : int, optional
    soft : sequence of Cells, optional
        Cells with soft labels that the model of each fold learns from as well; labels alone select what is selected.
    like : BoostingStage, optional
        How to boost, as another fit of the same labels has selected it; only how long is selected anew.

    References
    ----------
    Ahrens, Hansen, Schaffer and Wiemann (2025), Model averaging and double machine learning.
    """
    basis = SmoothBasis.learn(data.x[np.argsort(data.seed_order)])
    cells = with_soft_labels(labelled_cells(data, basis, fold), data, fold, soft or ())
    generators = [np.random.default_rng(seed) for seed in seeds]
    chosen_by, trials = selection_cells(cells, len(seeds), generators[0])
    smooth = _MODEL.select(chosen_by, trials)
    lgb_seeds = [int(rng.integers(2**31 - 1)) for rng in generators]
    binned = _binned(cells, n_jobs)
    stage, trained = _select_stage(binned, smooth, lgb_seeds, n_jobs, like)
    models = []
    for f in range(len(seeds)):
        if chosen_by is cells:
            fitted, booster = smooth.fits[f], trained[f] if trained else None
        else:
            fitted = _MODEL.fit(cells, f, smooth.ridge, smooth.screened, smooth.fits[0].flat)
            booster = _train(binned, fitted, stage, lgb_seeds[f], n_jobs) if stage.rounds else None
        trees = PairTrees.of(booster, data.n_items) if booster else None
        models.append(SmoothBoostedMu(fitted.basis, fitted.main, trees, stage, data.n_items, n_jobs))
        report(f + 1, len(seeds), "mu, folds")
    return tuple(models)


def _binned(cells: FoldCells, n_jobs: int | None) -> BinnedCells:
    """All cells in bins that follow from the features alone."""
    every = cells
    for more in cells.soft:
        every = every.and_more(more)
    return BinnedCells.of(every.x, every.context, every.rows, binning(n_jobs))


def _select_stage(
    binned: BinnedCells,
    smooth: TunedEffects[MainEffects],
    seeds: list[int],
    n_jobs: int | None,
    like: BoostingStage | None,
) -> tuple[BoostingStage, list[lgb.Booster]]:
    """How to boost, and the boosters of the trial folds; no rounds and no boosters where trees do not help."""
    candidates = [BoostingStage(TREES, True), BoostingStage(JUMPS, True)] if like is None else [like]
    if like is None and smooth.fits[0].training.ordered:
        candidates.append(BoostingStage(TREES, False))
    stage, best = candidates[0], None
    for done, tried in enumerate(candidates, start=1):
        made = _boosted(binned, smooth, tried, seeds=seeds, n_jobs=n_jobs, best=best)
        if best is None or made.loss < best.loss:
            stage, best = tried, made
        report(done, len(candidates), "boosting, configurations", minor=True)
    assert best is not None
    best.cut()
    return replace(stage, rounds=best.rounds), best.boosters if best.rounds else []


def _boosted(
    binned: BinnedCells,
    smooth: TunedEffects[MainEffects],
    stage: BoostingStage,
    *,
    seeds: list[int],
    n_jobs: int | None,
    best: BoostingPath | None,
) -> BoostingPath:
    """One way to boost on all trial folds."""
    size = _size(smooth.fits[0].training, stage)
    workers, each = workers_at(size, len(smooth.fits), n_jobs)
    n_threads = threads(each, size)

    def trial(fitted: FoldEffects[MainEffects], seed: int) -> TrialFold:
        training, held = fitted.training, fitted.held
        parameters = parameters_of(training.rows.y.shape[1], stage.parameters, seed, n_threads)
        data = _dataset(binned, fitted, training, stage.mirrored, n_threads)
        # A fold may hold contexts without labels only: it has no say.
        held_out = _dataset(binned, fitted, held, stage.mirrored, n_threads) if len(held.rows) else None
        return TrialFold.of(parameters, data, held_out, float(held.rows.weight.sum()))

    trials = [trial(fitted, seed) for fitted, seed in zip(smooth.fits, seeds, strict=False)]
    return boost_together(trials, smooth.loss, workers, best)


def _train(
    binned: BinnedCells, fitted: FoldEffects[MainEffects], stage: BoostingStage, seed: int, n_jobs: int | None
) -> lgb.Booster:
    n_threads = threads(n_jobs, _size(fitted.training, stage))
    parameters = parameters_of(fitted.training.rows.y.shape[1], stage.parameters, seed, n_threads)
    train = _dataset(binned, fitted, fitted.training, stage.mirrored, n_threads)
    return lgb.train(parameters, train, num_boost_round=stage.rounds)


def _size(cells: FoldCells, stage: BoostingStage) -> int:
    """Numbers in the training matrix."""
    return len(cells.rows) * (cells.x.shape[1] + 2) * (2 if stage.mirrored else 1)


def _dataset(
    binned: BinnedCells, fitted: FoldEffects[MainEffects], cells: FoldCells, mirrored: bool, n_threads: int
) -> lgb.Dataset:
    """Some cells, with the scores of the main effects to start from."""
    rows = cells.rows
    return binned.part(cells.number, fitted.main.at(rows.columns, rows.first, rows.second), mirrored, n_threads)
