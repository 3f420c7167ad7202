"""The default outcome model: smooth main effects of every item, and boosted trees that add to their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ..._utils.computation import current, report
from ...data.outcomes import exchange_wins, exchanged_wins
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..all_pairs.predict import PairTrees, predict_all_pairs, softmax_in_place
from ..boosting.train import BinnedPairs
from ..boosting.tuning import EXHAUSTIVE_THRESHOLDS, RANDOM_THRESHOLDS
from ..effects_and_trees import (
    SELECTION_SAMPLE,
    BoostingStage,
    EffectsAndTrees,
    SmoothEffectsModel,
    TunedEffects,
)
from ..smooth.basis import SmoothBasis
from ..training_rows import FoldCells, LabelledRows, labelled_cells, stack_rows
from .main_effects import MainEffects, MainEffectsLikelihood, flat_effects

RIDGES = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
MAIN_EFFECTS_MODEL: SmoothEffectsModel[MainEffects] = SmoothEffectsModel(
    lambda cells: MainEffectsLikelihood(cells.rows, cells.n_items, cells.ordered), RIDGES, "main effects"
)


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
        if self.trees is not None:
            code = np.arange(self.n_items)
            if self.tree_items is not None:
                code = np.full(self.n_items, -1)
                code[self.tree_items] = np.arange(len(self.tree_items))
            known = np.flatnonzero((code[first] >= 0) & (code[second] >= 0))
            if len(known):
                j, k = code[first[known]], code[second[known]]
                of_trees = self._tree_scores(self.trees.booster, x, known, j, k)
                if self.stage.mirrored:
                    in_other_order = self._tree_scores(self.trees.booster, x, known, k, j)
                    of_trees = (of_trees + in_other_order[:, exchanged_wins(of_trees.shape[1])]) / 2
                scores[known] += of_trees
        return np.asarray(softmax(scores, axis=-1))

    def _tree_scores(
        self, booster: lgb.Booster, x: FloatArray, context: IntArray, first: IntArray, second: IntArray
    ) -> FloatArray:
        """Return the booster's scores, (r, C), of one pair in each of some contexts."""
        rows = stack_rows(x, context, first, second)
        return np.asarray(booster.predict(rows, raw_score=True, num_threads=current().lightgbm_threads))


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
    basis = SmoothBasis.learn(data.x[np.argsort(data.seed_order)])
    cells = labelled_cells(data, basis, fold, soft or ())
    learner = _MuLearner(cells, [np.random.default_rng(seed) for seed in seeds], selection_sample)
    if like is not None:
        learner.candidates = [like]
    selection, fitted_folds = learner.fit()
    stage, models = selection.stage, list[SmoothBoostedMu]()
    for fold_basis, effects, booster in fitted_folds:
        trees = None
        if booster is not None:
            trees = PairTrees.of(booster, data.n_items, mirrored=stage.mirrored, n_contexts=data.n_contexts)
        models.append(SmoothBoostedMu(fold_basis, effects, trees, stage, data.n_items, selection.tuned.ridge))
        report(len(models), len(seeds), "mu, folds")
    return tuple(models)


class _MuLearner(EffectsAndTrees[MainEffects]):
    """Main effects, then trees that learn the category of a vote."""

    name = "mu"

    def __init__(self, cells: FoldCells, rngs: Sequence[np.random.Generator], selection_sample: int) -> None:
        super().__init__(cells, rngs, selection_sample)
        self.n_classes = cells.rows.y.shape[1]
        self.candidates = [BoostingStage(RANDOM_THRESHOLDS, True), BoostingStage(EXHAUSTIVE_THRESHOLDS, True)]
        if cells.ordered:
            self.candidates.append(BoostingStage(RANDOM_THRESHOLDS, False))

    def model(self, prior: float) -> SmoothEffectsModel[MainEffects]:
        return MAIN_EFFECTS_MODEL

    def make_rows(self, tuned: TunedEffects[MainEffects]) -> VoteRows:
        all_cells = self.cells
        for soft_cells in self.cells.soft:
            all_cells = all_cells.joined(soft_cells)
        return VoteRows.of(all_cells.x, all_cells.rows)


@dataclass(frozen=True, slots=True, eq=False)
class VoteRows:
    """Labelled cells in bins: for every category with votes in a cell, one row in each of the two display orders.

    binned: The rows in bins.
    label (r,): Category of each row, in the display order of the row.
    cell (r,): Cell of each row.
    is_swapped (r,): Whether the row has the display order that is not the one of its cell.
    weight (r,): Votes of the cell for the row's category.
    """

    binned: BinnedPairs
    label: NDArray[np.int32]
    cell: NDArray[np.int32]
    is_swapped: NDArray[np.bool_]
    weight: FloatArray

    @classmethod
    def of(cls, x: FloatArray, cells: LabelledRows) -> VoteRows:
        """Bin labelled cells of contexts with features ``x``, (n, p)."""
        # There are millions of rows; their codes are kept in half the memory of numpy's default integers.
        voted_cell, label = (numbers.astype(np.int32) for numbers in np.nonzero(cells.y))
        flip = exchanged_wins(cells.y.shape[1]).astype(np.int32)
        cell, swapped = np.tile(voted_cell, 2), np.repeat([False, True], len(voted_cell))
        one, other = (items.astype(np.int32)[voted_cell] for items in (cells.first, cells.second))
        first, second = np.concatenate([one, other]), np.concatenate([other, one])
        binned, order = BinnedPairs.of(
            x, cells.context.astype(np.int32)[cell], first, second, current().lightgbm_threads
        )
        labels = np.concatenate([label, flip[label]])
        weight = np.tile(cells.weight[voted_cell] * cells.y[voted_cell, label], 2)
        return cls(binned, labels[order], cell[order], swapped[order], weight[order])

    def loss_without_trees(self, tuned: TunedEffects[MainEffects]) -> float:
        """Return the held-out log-loss of the effects."""
        return tuned.loss

    def dataset(self, effects: MainEffects, cells: FoldCells, stage: BoostingStage, n_threads: int) -> lgb.Dataset:
        """Return the rows of some cells, with the scores of the effects as initial scores."""
        rows = cells.rows
        scores = effects.at(rows.table, rows.first, rows.second, rows.context)
        return self.subset(cells.number, scores, stage.mirrored, n_threads)

    def subset(self, cells: IntArray, scores: FloatArray, mirrored: bool, n_threads: int) -> lgb.Dataset:
        """Return the rows of some cells with weights and initial scores.

        Shapes: cells (c,), scores (c, C).
        """
        is_member = np.zeros(self.cell.max(initial=-1) + 1, dtype=bool)
        is_member[cells] = True
        rows = np.flatnonzero(is_member[self.cell] & (mirrored | ~self.is_swapped))
        initial_scores = exchange_wins(scores[np.searchsorted(cells, self.cell[rows])], self.is_swapped[rows])
        subset = self.binned.rows(rows, n_threads)
        subset.set_label(self.label[rows])
        subset.set_weight(self.weight[rows] / 2 if mirrored else self.weight[rows])
        subset.set_init_score(initial_scores)
        return subset


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
        table, weight = model.basis.of(data.x[cells.context[used]]), cells.n_votes[used].astype(float)
        rows = LabelledRows(table, np.arange(len(used)), cells.first[used], cells.second[used], cells.y[used], weight)
        likelihood = MainEffectsLikelihood(rows, data.n_items, data.ordered)
        belongs_to_new = MainEffects(
            np.broadcast_to(is_new[:, None], effects.strength.shape),
            0.0,
            (is_new[:, None] | is_new).astype(float),
            np.zeros(len(effects.distance_effect)),
            np.broadcast_to(np.append(False, is_new)[:, None], effects.tie.shape),
        )
        likelihood.is_free = likelihood.is_free & (flat_effects(belongs_to_new) > 0)
        effects = likelihood.effects(likelihood.fit(model.ridge, flat_effects(effects)))
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
