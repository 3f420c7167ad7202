"""The default outcome model: smooth main effects of every item, and boosted trees that add to their scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ..._utils.computation import current, in_workers, report
from ..._utils.mapped_arrays import take
from ...data.outcomes import exchanged_wins
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..all_pairs.predict import PairTrees, predict_all_pairs, softmax_in_place
from ..boosting.binning import BinnedCells, binning_parameters
from ..boosting.parameters import Parameter
from ..boosting.train import split_jobs, thread_count
from ..boosting.tuning import (
    EXHAUSTIVE_THRESHOLDS,
    RANDOM_THRESHOLDS,
    BoostingPath,
    TrialFold,
    boost_together,
    booster_parameters,
)
from ..smooth.basis import SmoothBasis
from ..smooth.penalty import SELECTION_SAMPLE, FoldEffects, SmoothEffectsModel, TunedEffects, selection_cells
from ..training_rows import FoldCells, LabelledRows, labelled_cells, stack_rows, with_soft_labels
from .main_effects import MainEffects, MainEffectsLikelihood

RIDGES = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)


def _likelihood(cells: FoldCells) -> MainEffectsLikelihood:
    """Return the likelihood of training cells."""
    return MainEffectsLikelihood.of(cells.rows, cells.n_items, cells.ordered)


MAIN_EFFECTS_MODEL: SmoothEffectsModel[MainEffects] = SmoothEffectsModel(_likelihood, RIDGES, "main effects")


@dataclass(frozen=True, slots=True, eq=False)
class BoostingStage:
    """How the booster is trained, which is the second stage of the model after the main effects.

    parameters: The parameters of LightGBM that were selected.
    mirrored: True if the booster is trained on every vote in both display orders, False if in the recorded order alone.
    rounds: Number of rounds; zero where trees do not lower the held-out log-loss.
    """

    parameters: Mapping[str, Parameter]
    mirrored: bool
    rounds: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class SmoothBoostedMu:
    """An outcome model whose scores are those of main effects plus those of a booster.

    basis: Basis of the smooth columns of the main effects.
    main_effects: The main effects.
    trees: The booster, prepared once for all chunks of contexts; None where trees did not lower the held-out log-loss.
    stage: How the booster was trained. Where it was trained on both display orders, the score of a pair is the mean of
        the scores of its two orders.
    n_items: Number of items, K.
    ridge: The selected penalty of the main effects.
    tree_items: The items that the trees know, in the order of their codes in the trees, where further items have main
        effects of their own; None where the trees know all items.
    """

    basis: SmoothBasis
    main_effects: MainEffects
    trees: PairTrees | None
    stage: BoostingStage
    n_items: int
    ridge: float = float("nan")
    tree_items: IntArray | None = None

    # Several threads may predict with this model at the same time.
    concurrent = True

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the category probabilities of every ordered pair, (n, K, K, C), in contexts with features ``x``."""
        columns = self.basis.of(x)
        if self.trees is not None and self.tree_items is None:
            offset = self.main_effects.in_contexts(columns)
            return predict_all_pairs(self.trees, x, self.n_items, offset=offset)
        mu = softmax_in_place(self.main_effects.table(columns))
        items = np.arange(self.n_items)
        mu[:, items, items] = 0.0
        if self.trees is not None and self.tree_items is not None:
            known = self.tree_items
            offset = self.main_effects.only(known).in_contexts(columns)
            mu[:, known[:, None], known] = predict_all_pairs(self.trees, x, len(known), offset=offset)
        return mu

    def blocks(self, x: FloatArray) -> Iterator[tuple[slice, FloatArray]] | None:
        """Yield ranges of contexts and their probabilities; see :meth:`.PairTrees.blocks`."""
        if self.trees is None or self.tree_items is not None:
            return None
        return self.trees.blocks(x, offset=self.main_effects.in_contexts(self.basis.of(x)))

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the category probabilities, (r, C), of one pair in each of r contexts with features ``x``, (r, p)."""
        scores = self.main_effects.at(self.basis.of(x), first, second)
        if self.trees is not None and self.tree_items is None:
            scores += self._tree_scores(self.trees.booster, x, first, second)
        elif self.trees is not None and self.tree_items is not None:
            code = np.full(self.n_items, -1)
            code[self.tree_items] = np.arange(len(self.tree_items))
            known = np.flatnonzero((code[first] >= 0) & (code[second] >= 0))
            if len(known):
                scores[known] += self._tree_scores(
                    self.trees.booster, x[known], code[first[known]], code[second[known]]
                )
        return np.asarray(softmax(scores, axis=-1))

    def _tree_scores(self, booster: lgb.Booster, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the booster's scores, (r, C), of one pair in each context.

        Shapes: x (r, p), first, second (r,).
        """

        def scores(j: IntArray, k: IntArray) -> FloatArray:
            rows = stack_rows(x, np.arange(len(x)), j, k)
            return np.asarray(booster.predict(rows, raw_score=True, num_threads=current().lightgbm_threads))

        in_this_order = scores(first, second)
        if not self.stage.mirrored:
            return in_this_order
        return (in_this_order + scores(second, first)[:, exchanged_wins(in_this_order.shape[-1])]) / 2


def fit_smooth_boosted(
    data: PreferenceData,
    fold: IntArray,
    seeds: Sequence[np.random.SeedSequence],
    *,
    soft: Sequence[Cells] | None = None,
    like: BoostingStage | None = None,
    selection_sample: int = SELECTION_SAMPLE,
) -> tuple[SmoothBoostedMu, ...]:
    """Fit one model per fold, each trained on the other folds.

    Shapes: fold (n,).

    References
    ----------
    Ahrens, Hansen, Schaffer and Wiemann (2025), Model averaging and double machine learning.
    """
    basis = SmoothBasis.learn(take(data.x, np.argsort(data.seed_order)))
    cells = with_soft_labels(labelled_cells(data, basis, fold), data, fold, soft or ())
    generators = [np.random.default_rng(seed) for seed in seeds]
    compared_cells, trial_folds = selection_cells(cells, len(seeds), generators[0], sample_size=selection_sample)
    lgb_seeds = [int(rng.integers(2**31 - 1)) for rng in generators]
    training = _Training(cells, compared_cells, trial_folds, lgb_seeds, like)
    (selection,) = in_workers(_select_settings, training, [0], name="settings of mu", in_turn=True)
    if current().workers:
        report(1, 1, "mu, settings")
    if compared_cells is cells:
        fits, boosters = selection.tuned.fits, selection.boosters or [None] * len(seeds)
    else:
        training_and_selection = (training, selection)
        fitted_folds = in_workers(
            _fit_fold, training_and_selection, range(len(seeds)), name="folds of mu", in_turn=True
        )
        fits, boosters = [], []
        for f, (fitted, booster) in enumerate(fitted_folds):
            fits.append(fitted)
            boosters.append(booster)
            report(f + 1, len(seeds), "mu, folds")
    stage = selection.stage
    models = []
    for f, (fitted, booster) in enumerate(zip(fits, boosters, strict=True)):
        trees = (
            PairTrees.of(booster, data.n_items, mirrored=stage.mirrored, n_contexts=data.n_contexts)
            if booster
            else None
        )
        ridge = selection.tuned.ridge
        models.append(SmoothBoostedMu(fitted.basis, fitted.effects, trees, stage, data.n_items, ridge))
        if compared_cells is cells:
            report(f + 1, len(seeds), "mu, folds")
    return tuple(models)


@dataclass(frozen=True, eq=False)
class _Training:
    """What the training of all folds shares.

    cells: All cells, those with soft labels included.
    compared_cells: The cells on which settings are selected: ``cells`` itself, or a sample.
    trial_folds: The folds whose held-out log-loss is compared.
    seeds: Seeds of LightGBM, one per fold.
    like: How to boost, where another fit has selected it.
    """

    cells: FoldCells
    compared_cells: FoldCells
    trial_folds: range
    seeds: list[int]
    like: BoostingStage | None

    @cached_property
    def binned(self) -> BinnedCells:
        """All cells in bins that depend on the features alone, computed once in a process."""
        all_cells = self.cells
        for soft_cells in self.cells.soft:
            all_cells = all_cells.joined(soft_cells)
        return BinnedCells.of(all_cells.x, all_cells.context, all_cells.rows, binning_parameters())

    def __getstate__(self) -> dict[str, object]:
        # LightGBM's data sets cannot be pickled; another process computes the bins itself.
        return {name: value for name, value in self.__dict__.items() if name != "binned"}


@dataclass(frozen=True, slots=True, eq=False)
class _Selection:
    """The settings that the held-out log-loss selects.

    tuned: Main effects of the trial folds, with the selected penalty.
    stage: How to boost.
    boosters: The boosters of the trial folds; none where trees do not lower the loss.
    """

    tuned: TunedEffects[MainEffects]
    stage: BoostingStage
    boosters: list[lgb.Booster]


def _select_settings(training: _Training, _: int) -> _Selection:
    """Select the penalty of the main effects and how to boost."""
    tuned = MAIN_EFFECTS_MODEL.select(training.compared_cells, training.trial_folds)
    stage, boosters = _select_stage(
        training.binned,
        tuned,
        training.seeds,
        like=training.like,
    )
    return _Selection(tuned, stage, boosters)


def _fit_fold(shared: tuple[_Training, _Selection], f: int) -> tuple[FoldEffects[MainEffects], lgb.Booster | None]:
    """Fit main effects and booster of one fold with the selected settings."""
    training, selection = shared
    tuned, stage = selection.tuned, selection.stage
    # Where ``screened`` is true, the model uses only the most important features, as curves.
    start = tuned.fits[0].flat
    fitted = MAIN_EFFECTS_MODEL.fit(training.cells, f, tuned.ridge, screened=tuned.screened, start=start)
    if not stage.rounds:
        return fitted.without_cells(), None
    booster = _train(
        training.binned,
        fitted,
        stage,
        seed=training.seeds[f],
    )
    return fitted.without_cells(), booster


def _select_stage(
    binned: BinnedCells,
    tuned: TunedEffects[MainEffects],
    seeds: list[int],
    *,
    like: BoostingStage | None,
) -> tuple[BoostingStage, list[lgb.Booster]]:
    """Return how to boost, and the boosters of the trial folds; no boosters where trees do not lower the loss."""
    if like is not None:
        candidates = [like]
    else:
        candidates = [BoostingStage(RANDOM_THRESHOLDS, True), BoostingStage(EXHAUSTIVE_THRESHOLDS, True)]
        if tuned.fits[0].training.ordered:
            candidates.append(BoostingStage(RANDOM_THRESHOLDS, False))
    stage, best = candidates[0], None
    for n_tried, candidate in enumerate(candidates, start=1):
        path = _boost_trials(binned, tuned, candidate, seeds=seeds, best=best)
        if best is None or path.loss < best.loss:
            stage, best = candidate, path
        report(n_tried, len(candidates), "boosting, configurations", minor=True)
    assert best is not None
    best.keep_best_rounds()
    return replace(stage, rounds=best.rounds), best.boosters if best.rounds else []


def _boost_trials(
    binned: BinnedCells,
    tuned: TunedEffects[MainEffects],
    stage: BoostingStage,
    *,
    seeds: list[int],
    best: BoostingPath | None,
) -> BoostingPath:
    """Boost on all trial folds with one candidate."""
    size = _matrix_size(tuned.fits[0].training, stage)
    workers, jobs_per_fold = split_jobs(size, len(tuned.fits))
    n_threads = thread_count(size, jobs_per_fold)

    def trial_fold(fitted: FoldEffects[MainEffects], seed: int) -> TrialFold:
        training, held_out = fitted.training, fitted.held_out
        parameters = booster_parameters(training.rows.y.shape[1], stage.parameters, seed, n_threads)
        training_set = _dataset(binned, fitted, training, stage.mirrored, n_threads)
        # The contexts of a fold may all be without labels; then the fold does not count in the selection.
        held_out_set = _dataset(binned, fitted, held_out, stage.mirrored, n_threads) if len(held_out.rows) else None
        return TrialFold.of(parameters, training_set, held_out_set, float(held_out.rows.weight.sum()))

    trials = [trial_fold(fitted, seed) for fitted, seed in zip(tuned.fits, seeds, strict=False)]
    return boost_together(trials, tuned.loss, workers, best)


def _train(
    binned: BinnedCells,
    fitted: FoldEffects[MainEffects],
    stage: BoostingStage,
    *,
    seed: int,
) -> lgb.Booster:
    """Train the booster of one fold with the selected stage."""
    size = _matrix_size(fitted.training, stage)
    n_threads = thread_count(size, current().n_jobs)
    n_categories = fitted.training.rows.y.shape[1]
    parameters = booster_parameters(n_categories, stage.parameters, seed, n_threads, size=size)
    training_set = _dataset(binned, fitted, fitted.training, stage.mirrored, n_threads)
    return lgb.train(parameters, training_set, num_boost_round=stage.rounds)


def _matrix_size(cells: FoldCells, stage: BoostingStage) -> int:
    """Return the number of entries of the matrix that a booster is trained on."""
    return len(cells.rows) * (cells.x.shape[1] + 2) * (2 if stage.mirrored else 1)


def _dataset(
    binned: BinnedCells, fitted: FoldEffects[MainEffects], cells: FoldCells, mirrored: bool, n_threads: int
) -> lgb.Dataset:
    """Return training or held-out cells in bins, with the scores of the main effects as initial scores."""
    rows = cells.rows
    return binned.subset(cells.number, fitted.effects.at(rows.columns, rows.first, rows.second), mirrored, n_threads)


def fit_new_items(
    model: SmoothBoostedMu, data: PreferenceData, in_training: NDArray[np.bool_], item: IntArray
) -> SmoothBoostedMu:
    """Return a model with main effects of items that were not in the training, fitted to labels outside its fold.

    Effects of such items that an earlier extension has fitted are fitted again. A label of a new item contributes to
    the likelihood as in the training; the curves of its known opponents, the position effect and the effects of ties
    are fixed. The penalty is that of the training. Trees add nothing to the score of a pair with a new item.

    Shapes: in_training (n,), item (K_old,).
    """
    trained = np.arange(model.n_items) if model.tree_items is None else model.tree_items
    is_new = np.ones(data.n_items, dtype=bool)
    is_new[item[trained]] = False
    effects = enlarged(model.main_effects.only(trained), item[trained], data.n_items)
    cells = data.cells
    used = np.flatnonzero(in_training[cells.context] & (is_new[cells.first] | is_new[cells.second]))
    if len(used):
        used = used[np.argsort(data.seed_order[cells.context[used]], kind="stable")]
        rows = LabelledRows(
            model.basis.of(data.x[cells.context[used]]),
            cells.first[used],
            cells.second[used],
            cells.y[used],
            cells.n_votes[used].astype(float),
        )
        effects = _fit(rows, effects, is_new, data.ordered, model.ridge)
    return replace(model, main_effects=effects, n_items=data.n_items, tree_items=item[trained])


def enlarged(effects: MainEffects, item: IntArray, n_items: int) -> MainEffects:
    """Return the effects for K items, where those of items that are not in ``item``, (K_old,), are zero."""
    strength = np.zeros((n_items, effects.strength.shape[1]))
    strength[item] = effects.strength
    pair = np.zeros((n_items, n_items))
    pair[np.ix_(item, item)] = effects.pair
    tie = np.zeros((len(effects.tie), 1 + n_items, effects.strength.shape[1]))
    tie[:, 0], tie[:, 1 + item] = effects.tie[:, 0], effects.tie[:, 1:]
    return MainEffects(strength, effects.position, pair, effects.distance_effect, tie)


def _fit(
    rows: LabelledRows, effects: MainEffects, is_new: NDArray[np.bool_], ordered: bool, ridge: float
) -> MainEffects:
    """Return the effects, with those of new items fitted to the rows.

    Shapes: is_new (K,).
    """
    n_items = len(is_new)
    likelihood = MainEffectsLikelihood.of(rows, n_items, ordered)
    belongs_to_new = MainEffects(
        np.broadcast_to(is_new[:, None], effects.strength.shape).astype(float),
        0.0,
        (is_new[:, None] | is_new).astype(float),
        np.zeros(len(effects.distance_effect)),
        np.broadcast_to(np.append(False, is_new)[:, None], effects.tie.shape).astype(float),
    )
    with_fixed_effects = replace(likelihood, is_free=likelihood.is_free & (belongs_to_new.flat > 0))
    search = with_fixed_effects.search(ridge, effects.flat)
    search.advance()
    return likelihood.effects(search.flat)
