"""The outcome model mu with a judge, in two ways.

Two-stage: verdicts give soft labels, on which mu is trained as well, and enter the correction. Features: verdicts are
features of gradient boosting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .._utils.tasks_and_threads import current
from ..data.outcomes import exchange_wins, in_other_order
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..exceptions import DataError, JudgeError
from ..nuisance.boosting import BinnedRows, Tune, train_booster
from ..nuisance.training_rows import Folds, TrainingRows, ordered_cells
from ..nuisance.verdicts import Verdicts, draw_soft_label_cells, human_given_verdict, soft_labels
from .cross_fitting import ContextPart, CrossFittedMu, HeldOutLabels, MuSource
from .influence import JudgeCorrection

if TYPE_CHECKING:
    import lightgbm as lgb


@dataclass(frozen=True, slots=True, eq=False)
class JudgedMu:
    """With a judge: mu(x) = P(Y | x), which does not depend on the verdict, and m = P(Y | x, verdict).

    mu: mu(x) = E[m | x], fitted with soft labels where these lower the log-loss of the labels, else without a judge.
    m (r, C): Out-of-fold P(Y | x, verdict) at the judged cells.
    """

    mu: MuSource
    m: FloatArray


def cross_fit_judged(
    data: PreferenceData,
    verdicts: Verdicts,
    folds: Folds,
    without_judge: MuSource,
    *,
    refit: Callable[[Sequence[Cells]], CrossFittedMu] | None,
    rng: np.random.Generator,
) -> JudgedMu:
    """Fit m and mu with a judge, starting from mu without a judge."""
    found, first_m = human_given_verdict(data, verdicts, without_judge.at(verdicts.cells), folds)
    recalibrations = [fit for fit in found if fit is not None]
    if (
        refit is None
        or not isinstance(without_judge, CrossFittedMu)
        or len(recalibrations) < folds.n_folds
        or verdicts.labelled.all()
    ):
        return JudgedMu(without_judge, first_m)
    # The model of each fold gets soft labels at judged cells outside the fold.
    cells, chosen, soft = verdicts.cells, draw_soft_label_cells(data, verdicts, rng), []
    fold = folds.fold[cells.context[chosen]]
    for held_out, (model, recalibration) in enumerate(zip(without_judge.models, recalibrations, strict=True)):
        outside = chosen[fold != held_out]
        of_model = model.at(data.x[cells.context[outside]], cells.first[outside], cells.second[outside])
        soft.append(soft_labels(verdicts, recalibration, outside, of_model))
    mu = refit(soft)
    losses = [HeldOutLabels(one.at(data.cells), data.cells).log_loss for one in (mu, without_judge)]
    if losses[0] >= losses[1]:
        return JudgedMu(without_judge, first_m)
    return JudgedMu(mu, human_given_verdict(data, verdicts, mu.at(verdicts.cells), folds)[1])


def judge_correction(verdicts: Verdicts, rho: FloatArray, m: FloatArray) -> JudgeCorrection:
    """Return the part of the correction that comes from the verdicts.

    Each label has the weight 1 / pi whether its pair was judged or not. The verdicts correct only the labels of judged
    pairs. The weight of the verdicts is therefore multiplied by the share of judged pairs among the labelled pairs.

    Shapes: rho (r,), m (r, C).
    """
    # verdicts.label is -1 for labelled cells without a verdict.
    judged_share = float((verdicts.label >= 0).mean())
    return JudgeCorrection(verdicts.cells, judged_share / rho, m, verdicts.label)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMu:
    """Boosters with the verdict among the features, one per fold.

    The boosters' features are [x, verdict, first, second]. All P pairs of all contexts have a verdict, so that the
    judged cells of context i are rows i P to (i + 1) P.

    boosters: The booster of each fold, trained on the other folds.
    """

    boosters: tuple[lgb.Booster, ...]
    folds: Folds
    data: PreferenceData
    verdicts: Verdicts

    def parts(self, size: int, selected: NDArray[np.bool_] | None = None) -> Iterator[ContextPart]:
        """Yield parts fold by fold; no two contexts share their probabilities."""
        for held_out, booster in enumerate(self.boosters):
            in_fold = self.folds.fold == held_out
            fold_contexts = np.flatnonzero(in_fold if selected is None else in_fold & selected)
            for start in range(0, len(fold_contexts), size):
                contexts = fold_contexts[start : start + size]
                predict = partial(self._predict_contexts, booster, contexts)
                yield ContextPart(contexts, np.arange(len(contexts)), predict, False)

    def average(self, x: FloatArray) -> FloatArray:
        """Raise: new contexts have no verdicts."""
        raise DataError(
            "learning=Learning(judge_as='features') predicts from the verdicts on every pair, and new prompts have no "
            "verdicts; use judge_as='two-stage', whose probabilities need the prompt alone"
        )

    def at(self, cells: Cells) -> FloatArray:
        """Return the out-of-fold probabilities of m cells, (m, C)."""
        # The judged cells are sorted.
        code, judged_code = (
            (of.context * self.data.n_items + of.first) * self.data.n_items + of.second
            for of in (cells, self.verdicts.cells)
        )
        judged_cell = np.searchsorted(judged_code, code)
        probabilities = np.empty((len(cells), len(self.data.flip)))
        for held_out, booster in enumerate(self.boosters):
            in_fold = np.flatnonzero(self.folds.fold[cells.context] == held_out)
            probabilities[in_fold] = self._predict_cells(booster, judged_cell[in_fold])
        return probabilities

    def _predict_contexts(self, booster: lgb.Booster, contexts: IntArray) -> FloatArray:
        """Return the probabilities of all pairs of b contexts, (b, K, K, C)."""
        data, cells = self.data, self.verdicts.cells
        n_pairs = len(cells) // data.n_contexts
        rows = (contexts[:, None] * n_pairs + np.arange(n_pairs)).reshape(-1)
        place = np.repeat(np.arange(len(contexts)), n_pairs)
        table = np.zeros((len(contexts), data.n_items, data.n_items, data.n_categories))
        table[place, cells.first[rows], cells.second[rows]] = self._predict_cells(booster, rows)
        return table if data.ordered else table + in_other_order(table)

    def _predict_cells(self, booster: lgb.Booster, rows: IntArray) -> FloatArray:
        """Return the probabilities of r judged cells, (r, C)."""
        features = _booster_features(self.data, self.verdicts, rows)
        probabilities = np.asarray(booster.predict(features, num_threads=current().n_jobs or 0))
        return exchange_wins(probabilities, self.verdicts.cells.flipped[rows])


def fit_with_features(
    data: PreferenceData, verdicts: Verdicts, folds: Folds, *, tune: Tune, seeds: Sequence[np.random.SeedSequence]
) -> FeatureMu:
    """Train one booster per fold, with the verdict among the features."""
    if not verdicts.covers_all_pairs:
        n_pairs = data.n_contexts * data.n_items * (data.n_items - 1) // (1 if data.ordered else 2)
        raise JudgeError(
            f"learning=Learning(judge_as='features') makes the verdict a feature of every pair, and "
            f"{n_pairs - len(verdicts.cells):,} of {n_pairs:,} pairs have no verdict; use judge_as='two-stage', which "
            f"needs verdicts on some pairs only"
        )
    boosters, cells = [], data.cells
    for held_out, seed in enumerate(seeds):
        # One row for each labelled cell and each category with votes, in the order shown.
        selected = ordered_cells(data, folds.fold != held_out)
        judged_cell = verdicts.label[selected]
        y = exchange_wins(cells.y[selected], verdicts.cells.flipped[judged_cell])
        place, label = np.nonzero(y)
        weight = y[place, label] * cells.n_votes[selected[place]]
        features = _booster_features(data, verdicts, judged_cell[place])
        rows = TrainingRows(features, label, weight, folds.unit[cells.context[selected[place]]])
        boosters.append(train_booster(BinnedRows.of(rows, tune, data.n_categories), np.random.default_rng(seed)))
    return FeatureMu(tuple(boosters), folds, data, verdicts)


def _booster_features(data: PreferenceData, verdicts: Verdicts, rows: IntArray) -> FloatArray:
    """Return the features [x, verdict, first, second] of judged cells, with the models in the order shown."""
    cells = verdicts.cells
    flipped = cells.flipped[rows]
    first = np.where(flipped, cells.second[rows], cells.first[rows])
    second = np.where(flipped, cells.first[rows], cells.second[rows])
    return np.hstack([data.x[cells.context[rows]], verdicts.features[rows], first[:, None], second[:, None]])
