"""mu with a judge: verdicts as soft labels and in the correction (two-stage), or as features of boosters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ..data.outcomes import exchange_wins, in_other_order
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..exceptions import DataError, JudgeError
from ..nuisance.boosting.train import BoosterSpec, train_booster
from ..nuisance.boosting.tuning import Tune
from ..nuisance.judge.two_stage import Recalibration, chosen_for_soft_labels, human_given_verdict, soft_labels
from ..nuisance.judge.verdicts import Verdicts
from ..nuisance.training_rows import Folds, TrainingRows, ordered_cells
from .cross_fitting import ContextPart, CrossFittedMu, HeldOutLabels, MuByFold, MuSource
from .nuisance_estimates import JudgeCorrection


@dataclass(frozen=True, slots=True, eq=False)
class JudgedMu:
    """mu and m = P(Y | x, verdict) with a judge.

    Attributes
    ----------
    mu : MuSource
        mu(x) = E[m | x]; the one without judge where soft labels do not lower the log-loss of the labels.
    m : ndarray, shape (r, C)
        Out-of-fold P(Y | x, verdict) at the judged cells.
    helped : bool
        Whether verdicts tell anything of the labels.
    learnt : bool
        Whether mu learnt from them.
    """

    mu: MuSource
    m: FloatArray
    helped: bool
    learnt: bool


def cross_fit_judged(
    data: PreferenceData,
    verdicts: Verdicts,
    folds: Folds,
    without_judge: MuSource,
    *,
    refit: Callable[[Sequence[Cells]], CrossFittedMu] | None,
    rng: np.random.Generator,
) -> JudgedMu:
    """m and mu, from mu without a judge.

    First m is the mu without judge recalibrated by the verdicts. m of a fold, which saw no label in it, then gives soft
    labels to judged pairs without label outside that fold, and mu is fitted again to labels and soft labels: the second
    regression. It is kept if it predicts the held-out labels better. Last, m is made from the mu that is kept.

    Parameters
    ----------
    data : PreferenceData
    verdicts : Verdicts
    folds : Folds
    without_judge : MuSource
        mu fitted to the labels.
    refit : callable or None
        Fits mu with soft labels by fold; None where mu stays as it is.
    rng : Generator
        Chooses cells for soft labels where there are many.
    """
    given = human_given_verdict(data, verdicts, without_judge.at(verdicts.cells), folds)
    fitted = [own for own in given.recalibrations if own is not None]
    kept = JudgedMu(without_judge, given.m, bool(fitted), False)
    if (
        refit is None
        or not isinstance(without_judge, CrossFittedMu)
        or len(fitted) < folds.n_folds
        or verdicts.labelled.all()
    ):
        return kept
    mu = refit(_soft(data, verdicts, folds, without_judge, fitted=fitted, rng=rng))
    if _loss(mu, data.cells) >= _loss(without_judge, data.cells):
        return kept
    given = human_given_verdict(data, verdicts, mu.at(verdicts.cells), folds)
    return JudgedMu(mu, given.m, any(own is not None for own in given.recalibrations), True)


def _soft(
    data: PreferenceData,
    verdicts: Verdicts,
    folds: Folds,
    without_judge: CrossFittedMu,
    *,
    fitted: Sequence[Recalibration],
    rng: np.random.Generator,
) -> list[Cells]:
    """Soft labels for the model of each fold, at judged cells outside the fold."""
    chosen = chosen_for_soft_labels(data, verdicts, rng)
    fold, soft = folds.fold[verdicts.cells.context[chosen]], []
    for held_out, (model, recalibration) in enumerate(zip(without_judge.models, fitted, strict=True)):
        here = chosen[fold != held_out]
        cells = verdicts.cells
        base = model.at(data.x[cells.context[here]], cells.first[here], cells.second[here])
        soft.append(soft_labels(data, verdicts, recalibration, here, base))
    return soft


def judge_correction(verdicts: Verdicts, rho: FloatArray, m: FloatArray) -> JudgeCorrection:
    """What the verdicts add to the correction.

    Each label weighs 1 / pi whether its pair was judged or not, so that the verdicts' term stands for the labelled
    pairs that were judged: it is multiplied by their share, which is one where all of them were.

    Parameters
    ----------
    verdicts : Verdicts
    rho : ndarray, shape (r,)
        P(judged | x) at the judged cells.
    m : ndarray, shape (r, C)
    """
    share = float((verdicts.label >= 0).mean())
    return JudgeCorrection(verdicts.cells, share / rho, m, verdicts.label)


def _loss(mu: MuSource, cells: Cells) -> float:
    """Log-loss of the labels."""
    return HeldOutLabels.by_cell(mu.at(cells), cells).log_loss


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMu:
    """Boosters over rows [x, verdict, first, second], one per fold, asked about stacked rows.

    All pairs of all contexts have a verdict, so that the judged cells of context i are rows i P to (i + 1) P, P pairs
    per context.
    """

    boosters: tuple[lgb.Booster, ...]
    folds: Folds
    data: PreferenceData
    verdicts: Verdicts
    n_jobs: int | None

    def chunks(self, size: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """Out-of-fold probabilities, fold by fold."""
        for part in self.parts(size):
            yield part.contexts, part.probabilities()

    def parts(self, size: int, kept: NDArray[np.bool_] | None = None) -> Iterator[ContextPart]:
        """Parts of equal size, fold by fold; no two contexts are equal."""
        for held_out, booster in enumerate(self.boosters):
            inside = self.folds.fold == held_out
            here = np.flatnonzero(inside if kept is None else inside & kept)
            for at in range(0, len(here), size):
                contexts = here[at : at + size]
                yield ContextPart(contexts, np.arange(len(contexts)), partial(self._table, booster, contexts), False)

    def average(self, x: FloatArray) -> FloatArray:
        """Raise: there are no verdicts in other contexts."""
        raise DataError("judge_as='features' needs verdicts on every pair, which new prompts do not have")

    def at(self, cells: Cells) -> FloatArray:
        """Out-of-fold probabilities of cells, (m, C)."""
        row, found = self._rows(cells.context, cells.first, cells.second), np.empty((len(cells), len(self.data.flip)))
        for held_out, booster in enumerate(self.boosters):
            here = np.flatnonzero(self.folds.fold[cells.context] == held_out)
            found[here] = self._predicted(booster, row[here])
        return found

    def by_fold(self) -> MuByFold | None:
        """None: verdicts differ between contexts."""
        return None

    def _table(self, booster: lgb.Booster, contexts: IntArray) -> FloatArray:
        data, cells = self.data, self.verdicts.cells
        n_pairs = len(cells) // data.n_contexts
        rows = (contexts[:, None] * n_pairs + np.arange(n_pairs)).reshape(-1)
        place = np.repeat(np.arange(len(contexts)), n_pairs)
        table = np.zeros((len(contexts), data.n_items, data.n_items, data.n_categories))
        table[place, cells.first[rows], cells.second[rows]] = self._predicted(booster, rows)
        return table if data.ordered else table + in_other_order(table)

    def _rows(self, context: IntArray, first: IntArray, second: IntArray) -> IntArray:
        """Judged cells of pairs, found among the sorted ones."""
        n, cells = self.data.n_items, self.verdicts.cells
        code = (cells.context * n + cells.first) * n + cells.second
        return np.searchsorted(code, (context * n + first) * n + second)

    def _predicted(self, booster: lgb.Booster, rows: IntArray) -> FloatArray:
        stacked = _stacked(self.data, self.verdicts, rows)
        found = np.asarray(booster.predict(stacked, num_threads=self.n_jobs or 0))
        return exchange_wins(found, self.verdicts.cells.flipped[rows])


def fit_with_features(
    data: PreferenceData,
    verdicts: Verdicts,
    folds: Folds,
    *,
    tune: Tune,
    seeds: Sequence[np.random.SeedSequence],
    n_jobs: int | None,
) -> FeatureMu:
    """One booster per fold, with the verdict among the features.

    Raises
    ------
    JudgeError
        If a pair has no verdict.
    """
    if not verdicts.everywhere:
        n_pairs = data.n_contexts * data.n_items * (data.n_items - 1) // (1 if data.ordered else 2)
        raise JudgeError(
            f"judge_as='features' makes the verdict a feature of every pair, and {n_pairs - len(verdicts.cells):,} of "
            f"{n_pairs:,} pairs have none; judge_as='two-stage' uses what there is"
        )
    boosters = []
    for held_out, seed in enumerate(seeds):
        rows = _training_rows(data, verdicts, folds, folds.fold != held_out)
        rng = np.random.default_rng(seed)
        boosters.append(train_booster(rows, BoosterSpec(data.n_categories, data.n_items, tune, n_jobs), rng))
    return FeatureMu(tuple(boosters), folds, data, verdicts, n_jobs)


def _training_rows(data: PreferenceData, verdicts: Verdicts, folds: Folds, kept: NDArray[np.bool_]) -> TrainingRows:
    """A row per category that was chosen in a labelled cell of the kept contexts, of the pair as shown."""
    cells, inside = data.cells, ordered_cells(data, kept)
    judged = verdicts.label[inside]
    y = exchange_wins(cells.y[inside], verdicts.cells.flipped[judged])
    place, label = np.nonzero(y)
    context = cells.context[inside[place]]
    weight = y[place, label] * cells.n_votes[inside[place]]
    return TrainingRows(_stacked(data, verdicts, judged[place]), label, weight, folds.unit[context])


def _stacked(data: PreferenceData, verdicts: Verdicts, rows: IntArray) -> FloatArray:
    """Rows [x, verdict, first, second] of judged cells as shown."""
    cells = verdicts.cells
    turned = cells.flipped[rows]
    first = np.where(turned, cells.second[rows], cells.first[rows])
    second = np.where(turned, cells.first[rows], cells.second[rows])
    return np.hstack([data.x[cells.context[rows]], verdicts.features[rows], first[:, None], second[:, None]])
