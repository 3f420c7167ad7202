"""Shares of the pairs that contexts show: a smooth conditional logit, then boosted trees on what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np

from ..._utils.parallel import core_count
from ..._utils.progress import report
from ...data.preferences import FloatArray, IntArray, PreferenceData
from ..all_pairs.predict import PairTrees, predict_all_pairs
from ..boosting.binning import bin_rows, binning_parameters, subset_rows
from ..boosting.early_stopping import (
    EXHAUSTIVE_THRESHOLDS,
    RANDOM_THRESHOLDS,
    BoostingPath,
    TrialFold,
    boost_together,
    booster_parameters,
)
from ..boosting.parameters import Settings
from ..boosting.train import thread_count, workers_at
from ..smooth.basis import SmoothBasis
from ..smooth.penalty import SELECTION_SAMPLE, FoldEffects, SmoothEffectsModel, TunedEffects, selection_cells, split
from ..training_rows import FoldCells, labelled_cells, ordered_cells
from .conditional_logit import PairChoiceEffects, PairChoiceLikelihood, pair_shares

# Weights of the items' shares in those of their pairs that are tried, in labels per pair.
_PRIORS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# Prior precisions of the curves that are tried, from stiff to free.
_RIDGES = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
# Pairs drawn as contrast to every pair shown.
DRAWN_PER_SHOWN = 5
# Numbers in the tables of all pairs that are held at a time.
_CHUNK = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class PairShares:
    """Shares of the ordered pairs among what one context shows, as one fold has learnt them.

    Attributes
    ----------
    basis : SmoothBasis
    effects : PairChoiceEffects
    trees : PairTrees or None
        What their scores are multiplied by, as logs; None where trees did not help.
    """

    basis: SmoothBasis
    effects: PairChoiceEffects
    trees: PairTrees | None = None

    def table(self, x: FloatArray, n_jobs: int | None) -> FloatArray:
        """Shares of all pairs, (n, K, K), that sum to one, in contexts with features ``x``, (n, p)."""
        shares = self.effects.table(self.basis.of(x))
        if self.trees is not None:
            n_items = shares.shape[1]
            shares *= np.exp(predict_all_pairs(self.trees, x, n_items, raw_score=True, n_jobs=n_jobs)[..., 0])
        return np.asarray(shares / shares.sum(axis=(1, 2), keepdims=True))

    def at(
        self, x: FloatArray, first: IntArray, second: IntArray, n_jobs: int | None, both_orders: bool = False
    ) -> FloatArray:
        """Share of one pair in each context, (n,), or of its two orders together."""
        if self.trees is not None:
            n_items = len(self.effects.share)
            return pair_entries(
                lambda own: self.table(own, n_jobs), x, first, second, n_items=n_items, both_orders=both_orders
            )
        if both_orders:
            row = np.tile(np.arange(len(x)), 2)
            one, other = np.concatenate([first, second]), np.concatenate([second, first])
            return np.exp(self.effects.log_at(self.basis.of(x), one, other, row)).reshape(2, -1).sum(axis=0)
        return np.exp(self.effects.log_at(self.basis.of(x), first, second))


def pair_entries(
    table: Callable[[FloatArray], FloatArray],
    x: FloatArray,
    first: IntArray,
    second: IntArray,
    *,
    n_items: int,
    both_orders: bool = False,
) -> FloatArray:
    """Entries of a pair per context, or sums of both orders, of tables (b, K, K) made a few contexts at a time."""
    made = np.empty(len(x))
    step = max(1, _CHUNK // max(n_items**2, x.shape[1]))
    for begin in range(0, len(x), step):
        part = slice(begin, begin + step)
        own = table(x[part])
        at = np.arange(len(own))
        made[part] = own[at, first[part], second[part]]
        if both_orders:
            made[part] += own[at, second[part], first[part]]
    return made


def fit_pair_shares(
    data: PreferenceData,
    fold: IntArray,
    rngs: Sequence[np.random.Generator],
    n_jobs: int | None = None,
    *,
    selection_sample: int = SELECTION_SAMPLE,
) -> tuple[PairShares, ...]:
    """One model per fold, each learnt from the labelled contexts outside it, of which each shows one pair.

    How far pairs are drawn towards their items, the penalty of the curves, and whether and how long to boost are
    selected by the held-out folds, as for mu. The trees learn to tell the pairs shown from others that are drawn by
    their overall shares, starting from what the effects say of both: what is left is the log of a ratio of densities,
    and all rows have the same weight [Gutmann and Hyvarinen].

    Parameters
    ----------
    data : PreferenceData
        With features, and at most one labelled pair in a context.
    fold : ndarray of int, shape (n,)
    rngs : sequence of Generator
        One per fold.
    n_jobs : int, optional
    selection_sample : int
        With more labelled cells than these, one fold and a sample of this size select the hyperparameters.

    References
    ----------
    Gutmann and Hyvarinen (2012), Noise-contrastive estimation of unnormalized statistical models.
    """
    cells = _shown(data, fold)
    chosen_by, trials = selection_cells(cells, len(rngs), rngs[0], sample_size=selection_sample)
    prior, smooth = _select_effects(chosen_by, trials, n_jobs)
    lgb_seeds = [int(rng.integers(2**31 - 1)) for rng in rngs]
    contrast = _NoiseContrast.of(cells, prior, rngs[0], n_jobs)
    settings, trained = _select_trees(contrast, smooth.fits, lgb_seeds, n_jobs)
    models = []
    for f in range(len(rngs)):
        if chosen_by is cells:
            fitted, booster = smooth.fits[f], trained.boosters[f] if settings.rounds else None
        else:
            fitted = _fit_effects(cells, f, prior, smooth, n_jobs)
            booster = _train(contrast, fitted, settings, lgb_seeds[f], n_jobs) if settings.rounds else None
        trees = PairTrees.of(booster, data.n_items) if booster else None
        models.append(PairShares(fitted.basis, fitted.effects, trees))
        report(f + 1, len(rngs), "propensity, folds")
    return tuple(models)


def _shown(data: PreferenceData, fold: IntArray) -> FoldCells:
    """The labelled pairs in the order in which they were shown, as rows of one vote."""
    cells = labelled_cells(data, SmoothBasis.learn(data.x[np.argsort(data.seed_order)]), fold)
    inside = ordered_cells(data, np.ones(data.n_contexts, dtype=bool))
    first, second = (items[inside] for items in data.cells.shown)
    one = np.ones(len(inside))
    return replace(cells, rows=replace(cells.rows, first=first, second=second, y=one[:, None], weight=one))


def _model(prior: float, n_jobs: int | None) -> SmoothEffectsModel[PairChoiceEffects]:
    def problem(training: FoldCells) -> PairChoiceLikelihood:
        return PairChoiceLikelihood.of(training.rows, _overall(training, prior), core_count(n_jobs))

    return SmoothEffectsModel(problem, _RIDGES, "selection")


def _select_effects(
    cells: FoldCells, trials: range, n_jobs: int | None
) -> tuple[float, TunedEffects[PairChoiceEffects]]:
    """How far pairs are drawn towards their items, and effects of the trial folds; flat where curves do not help."""
    losses = {prior: _flat_loss(cells, trials, prior) for prior in _PRIORS}
    prior = min(_PRIORS, key=losses.__getitem__)
    smooth = _model(prior, n_jobs).select(cells, trials)
    if smooth.loss < losses[prior]:
        return prior, smooth
    return prior, TunedEffects(losses[prior], np.inf, False, [_without_curves(cells, f, prior) for f in trials])


def _fit_effects(
    cells: FoldCells, f: int, prior: float, smooth: TunedEffects[PairChoiceEffects], n_jobs: int | None
) -> FoldEffects[PairChoiceEffects]:
    """Effects of one fold, with what a sample has selected."""
    if np.isinf(smooth.ridge):
        return _without_curves(cells, f, prior)
    return _model(prior, n_jobs).fit(cells, f, smooth.ridge, screened=smooth.screened, start=smooth.fits[0].flat)


def _without_curves(cells: FoldCells, f: int, prior: float) -> FoldEffects[PairChoiceEffects]:
    training, held = split(cells, f)
    none = np.zeros((1 + training.rows.columns.shape[1], cells.n_items))
    return FoldEffects(training, held, PairChoiceEffects(_overall(training, prior), none, none), np.append(none, none))


def _flat_loss(cells: FoldCells, trials: range, prior: float) -> float:
    """Held-out log-loss of shares that are the same in all contexts."""
    total = 0.0
    for f in trials:
        rows = cells.rows
        training, held = cells.fold != f, cells.fold == f
        share = pair_shares(rows.first[training], rows.second[training], cells.n_items, prior)
        total -= float(np.log(share[rows.first[held], rows.second[held]]).sum())
    return total


def _overall(cells: FoldCells, prior: float) -> FloatArray:
    return pair_shares(cells.rows.first, cells.rows.second, cells.n_items, prior)


@dataclass(frozen=True, slots=True, eq=False)
class _NoiseContrast:
    """Pairs shown, and pairs drawn by their overall shares in the same contexts, in LightGBM's bins.

    Attributes
    ----------
    dataset : lightgbm.Dataset
    cell : ndarray of int, shape (r,)
        Cell of each row.
    first, second : ndarray of int, shape (r,)
    shown : ndarray of int, shape (r,)
        Whether the row is a pair shown.
    log_drawn : ndarray, shape (K, K)
        Logs of how often each pair is drawn for a context.
    width : int
        Columns of the data.
    """

    dataset: lgb.Dataset
    cell: IntArray
    first: IntArray
    second: IntArray
    shown: IntArray
    log_drawn: FloatArray
    width: int

    @classmethod
    def of(cls, cells: FoldCells, prior: float, rng: np.random.Generator, n_jobs: int | None) -> _NoiseContrast:
        """Draw for all cells."""
        rows, n_items = cells.rows, cells.n_items
        share = _overall(cells, prior)
        drawn = np.repeat(cells.number, DRAWN_PER_SHOWN)
        pair = rng.choice(n_items**2, size=len(drawn), p=share.reshape(-1))
        cell = np.concatenate([cells.number, drawn])
        first = np.concatenate([rows.first, pair // n_items])
        second = np.concatenate([rows.second, pair % n_items])
        dataset, order = bin_rows(cells.x, cells.context[cell], first, second, binning_parameters(n_jobs))
        shown = (order < len(rows)).astype(np.intp)
        dataset.set_label(shown)
        with np.errstate(divide="ignore"):
            log_drawn = np.log(DRAWN_PER_SHOWN * share)
        return cls(dataset, cell[order], first[order], second[order], shown, log_drawn, cells.x.shape[1] + 2)

    def size(self, cells: FoldCells) -> int:
        """Numbers in the matrix of some cells."""
        return len(cells.rows) * (1 + DRAWN_PER_SHOWN) * self.width

    def part(self, fitted: FoldEffects[PairChoiceEffects], cells: FoldCells, n_threads: int) -> lgb.Dataset:
        """The rows of some cells, with the log-odds of being shown, not drawn, to start from."""
        rows, scores = self._scores(fitted, cells)
        made = subset_rows(self.dataset, rows, n_threads)
        made.set_init_score(scores)
        return made

    def loss(self, fitted: FoldEffects[PairChoiceEffects]) -> float:
        """Log-loss of those log-odds on the held-out cells."""
        rows, scores = self._scores(fitted, fitted.held_out)
        return float(np.logaddexp(0, np.where(self.shown[rows] == 1, -scores, scores)).sum())

    def _scores(self, fitted: FoldEffects[PairChoiceEffects], cells: FoldCells) -> tuple[IntArray, FloatArray]:
        """Rows of the cells, and their log-odds."""
        place = np.full(self.cell.max(initial=-1) + 1, -1)
        place[cells.number] = np.arange(len(cells.number))
        rows = np.flatnonzero(place[self.cell] >= 0)
        first, second = self.first[rows], self.second[rows]
        shown = fitted.effects.log_at(cells.rows.columns, first, second, place[self.cell[rows]])
        return rows, shown - self.log_drawn[first, second]


def _train(
    contrast: _NoiseContrast, fitted: FoldEffects[PairChoiceEffects], settings: Settings, seed: int, n_jobs: int | None
) -> lgb.Booster:
    n_threads = thread_count(n_jobs, contrast.size(fitted.training))
    train = contrast.part(fitted, fitted.training, n_threads)
    parameters = booster_parameters(None, settings.parameters, seed, n_threads)
    return lgb.train(parameters, train, num_boost_round=settings.rounds)


def _select_trees(
    contrast: _NoiseContrast, fits: list[FoldEffects[PairChoiceEffects]], seeds: list[int], n_jobs: int | None
) -> tuple[Settings, BoostingPath]:
    """How to boost, and the boosters of the trial folds; no rounds where trees do not help."""
    unboosted = sum(contrast.loss(fitted) for fitted in fits)
    if not all(len(fitted.training.rows) for fitted in fits):
        return Settings(RANDOM_THRESHOLDS, 0), BoostingPath([], [unboosted], [()])
    size = contrast.size(fits[0].training)
    workers, each = workers_at(size, len(fits), n_jobs)
    n_threads = thread_count(each, size)
    chosen, best = RANDOM_THRESHOLDS, None
    for tried in (RANDOM_THRESHOLDS, EXHAUSTIVE_THRESHOLDS):
        trials = []
        for fitted, seed in zip(fits, seeds, strict=False):
            training = contrast.part(fitted, fitted.training, n_threads)
            held_out = contrast.part(fitted, fitted.held_out, n_threads) if len(fitted.held_out.rows) else None
            weight = float(len(fitted.held_out.rows) * (1 + DRAWN_PER_SHOWN))
            trials.append(TrialFold.of(booster_parameters(None, tried, seed, n_threads), training, held_out, weight))
        made = boost_together(trials, unboosted, workers, best)
        if best is None or made.loss < best.loss:
            chosen, best = tried, made
        if not best.rounds:
            # What jumps is seen by random thresholds as well, if not as sharply.
            break
    assert best is not None
    best.keep_best_rounds()
    return Settings(chosen, best.rounds), best
