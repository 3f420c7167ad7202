"""Cross-fitting of the outcome model mu: which learner, fitted by fold and asked about the held-out contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..._utils.progress import report
from ...data.outcomes import in_other_order
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..all_pairs.predict import PairTrees, predict_all_pairs
from ..boosting.train import BoosterSpec, train_booster
from ..boosting.tuning import Tune
from ..training_rows import Folds, outcome_rows, stack_rows
from .main_effects_boosting import SmoothBoostedMu, fit_smooth_boosted
from .user_learners import fit_learner, is_own
from .without_features import shrunken_frequencies


class MuModel(Protocol):
    """What a learner returns."""

    def predict(self, x: FloatArray) -> FloatArray:
        """Category probabilities of every ordered pair, (n, K, K, C), in contexts with features ``x``, (n, p)."""
        ...

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Category probabilities, (r, C), of one pair in each of r contexts with features ``x``, (r, p)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class BoosterMu:
    """A booster over rows [x, first, second], prepared once for all chunks of contexts."""

    trees: PairTrees
    n_jobs: int | None = None

    concurrent = True

    def predict(self, x: FloatArray) -> FloatArray:
        """Category probabilities, (n, K, K, C)."""
        return predict_all_pairs(self.trees, x, self.trees.n_items, n_jobs=self.n_jobs)

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Category probabilities, (r, C)."""
        rows = stack_rows(x, np.arange(len(x)), first, second)
        return np.asarray(self.trees.booster.predict(rows, num_threads=self.n_jobs or 0))


@dataclass(frozen=True, slots=True, eq=False)
class ConstantMu:
    """The same probabilities, (K, K, C), in every context."""

    table: FloatArray

    concurrent = True

    def predict(self, x: FloatArray) -> FloatArray:
        """Category probabilities, (n, K, K, C)."""
        return np.broadcast_to(self.table, (len(x), *self.table.shape))

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Category probabilities, (r, C)."""
        return self.table[first, second]


@dataclass(frozen=True, slots=True, eq=False)
class MirroredMu:
    """A model made the same for both orders of a pair: the mean of its prediction and the flipped one's."""

    model: MuModel
    flip: IntArray

    @property
    def concurrent(self) -> bool:
        """Whether several threads may ask at once."""
        return getattr(self.model, "concurrent", False)

    def predict(self, x: FloatArray) -> FloatArray:
        """Category probabilities, (n, K, K, C), with mu_kj the flip of mu_jk."""
        mu = self.model.predict(x)
        return (mu + in_other_order(mu)) / 2

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Category probabilities, (r, C)."""
        return (self.model.at(x, first, second) + self.model.at(x, second, first)[:, self.flip]) / 2


def on_one_thread(model: MuModel) -> MuModel:
    """The same model for callers that ask it from several threads: its own would only get in their way."""
    if isinstance(model, MirroredMu):
        return replace(model, model=on_one_thread(model.model))
    return replace(model, n_jobs=1) if isinstance(model, BoosterMu | SmoothBoostedMu) else model


def fit_all(
    data: PreferenceData,
    folds: Folds,
    seeds: Sequence[np.random.SeedSequence],
    *,
    tune: Tune,
    n_jobs: int | None,
    learner: Any = "auto",
    soft: Sequence[Cells] | None = None,
    like: MuModel | None = None,
) -> tuple[MuModel, ...]:
    """One model of mu per fold, each trained on the other folds.

    Parameters
    ----------
    data : PreferenceData
    folds : Folds
    seeds : sequence of SeedSequence
        One per fold.
    tune, n_jobs, learner
        See :func:`fit_mu`. ``learner="auto"`` with ``tune="cv"`` means smooth main effects and boosting, see
        :func:`dmlrank.nuisance.outcome_model.main_effects_boosting.fit_smooth_boosted`; with any other ``tune``,
        LightGBM alone.
    soft : sequence of Cells, optional
        Further cells with soft labels to learn from, by fold: those of a model come from labels outside its fold.
    like : model, optional
        One fitted to the same labels, whose configuration need not be selected again.
    """
    fold = folds.fold
    if learner == "auto" and tune == "cv" and data.x.shape[1] and _several_categories(data, fold, len(seeds)):
        stage = like.stage if isinstance(like, SmoothBoostedMu) else None
        return fit_smooth_boosted(data, fold, seeds, n_jobs=n_jobs, soft=soft, like=stage)
    models = []
    counts = _vote_counts(data, fold, len(seeds)) if soft is None else None
    for held_out, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        learned = data if soft is None else replace(data, cells=data.cells.joined(soft[held_out]))
        others = None if counts is None else np.delete(counts, held_out, axis=0).sum(axis=0)
        kept = fold != held_out
        models.append(fit_mu(learned, kept, folds.unit, rng, tune=tune, n_jobs=n_jobs, learner=learner, counts=others))
        report(held_out + 1, len(seeds), "mu, folds")
    return tuple(models)


def _several_categories(data: PreferenceData, fold: IntArray, n_folds: int) -> bool:
    """Whether more than one category was chosen outside every fold."""
    chosen = np.stack([data.cells.y[fold[data.cells.context] == f].sum(axis=0) for f in range(n_folds)])
    return bool((((chosen.sum(axis=0) - chosen) > 0).sum(axis=1) > 1).all())


def fit_mu(
    data: PreferenceData,
    kept: NDArray[np.bool_],
    unit: IntArray,
    rng: np.random.Generator,
    *,
    tune: Tune,
    n_jobs: int | None,
    learner: Any = "auto",
    counts: FloatArray | None = None,
) -> MuModel:
    """Fit mu on the labelled cells of the ``kept`` contexts.

    Without features it is read off the counts; where only one category was ever chosen there is nothing to classify,
    and the category's frequency (one) is the prediction.

    Parameters
    ----------
    data : PreferenceData
    kept : ndarray of bool, shape (n,)
    unit : ndarray of int, shape (n,)
        What inner folds must not split.
    rng : Generator
    tune, n_jobs
        See :class:`dmlrank.nuisance.boosting.train.BoosterSpec`.
    learner : str, classifier or callable
        The user's own, see :func:`dmlrank.nuisance.outcome_model.user_learners.fit_learner`; otherwise LightGBM.
    counts : ndarray, shape (K, K, C), optional
        Votes of the kept contexts by ordered pair and category, where they are known.
    """
    if counts is None:
        counts = _vote_counts(data, kept.astype(np.intp), 2)[1]
    if not data.ordered:
        counts = counts + in_other_order(counts)
    model: MuModel
    if np.count_nonzero(counts.sum(axis=(0, 1))) <= 1:
        model = ConstantMu(_shares(counts))
    elif data.x.shape[1] == 0:
        model = ConstantMu(shrunken_frequencies(counts))
    else:
        rows = outcome_rows(data, kept, unit)
        if is_own(learner):
            model = fit_learner(learner, rows, data.n_items, data.n_categories, rng)
        else:
            booster = train_booster(rows, BoosterSpec(data.n_categories, data.n_items, tune, n_jobs), rng)
            model = BoosterMu(PairTrees.of(booster, data.n_items), n_jobs)
    return model if data.ordered else MirroredMu(model, data.flip)


def _shares(counts: FloatArray) -> FloatArray:
    """Shares of the categories for every pair alike, (K, K, C); even ones where there is no label at all."""
    total = counts.sum(axis=(0, 1))
    share = total / total.sum() if total.sum() else np.full(len(total), 1 / len(total))
    return np.where(np.eye(len(counts), dtype=bool)[:, :, None], 0.0, share)


def _vote_counts(data: PreferenceData, fold: IntArray, n_folds: int) -> FloatArray:
    """Votes by fold of their context, ordered pair and category, (F, K, K, C)."""
    cells, n_items = data.cells, data.n_items
    place = (fold[cells.context] * n_items + cells.first) * n_items + cells.second
    counts = [np.bincount(place, share * cells.n_votes, n_folds * n_items**2) for share in cells.y.T]
    table: FloatArray = np.stack(counts, axis=1).astype(float).reshape(n_folds, n_items, n_items, -1)
    return table
