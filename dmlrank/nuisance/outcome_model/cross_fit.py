"""Cross-fitting of the outcome model mu: for every fold, a model is fitted to the labels of the other folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..._utils.computation import current, report
from ...data.outcomes import in_other_order
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..all_pairs.predict import PairTrees, predict_all_pairs
from ..boosting.train import BoosterSpec, train_booster
from ..boosting.tuning import Tune
from ..training_rows import Folds, outcome_rows, stack_rows
from .main_effects_boosting import SmoothBoostedMu, fit_smooth_boosted
from .user_learners import fit_learner, is_user_learner
from .without_features import shrunken_frequencies


class MuModel(Protocol):
    """A fitted outcome model.

    A model may have an attribute ``concurrent``. Where it is true, several threads may predict with the model at the
    same time; where it is false or missing, one thread predicts at a time.
    """

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the category probabilities of every ordered pair, (n, K, K, C), in contexts with features ``x``."""
        ...

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the category probabilities, (r, C), of one pair in each of r contexts with features ``x``, (r, p)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class BoosterMu:
    """A booster over rows [x, first, second] as an outcome model.

    trees: The booster, with its trees in a form from which its raw scores for all pairs are computed fast.
    """

    trees: PairTrees

    concurrent = True

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the category probabilities of every ordered pair, (n, K, K, C)."""
        return predict_all_pairs(self.trees, x, self.trees.n_items)

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the category probabilities, (r, C), of one pair in each context."""
        rows = stack_rows(x, np.arange(len(x)), first, second)
        return np.asarray(self.trees.booster.predict(rows, num_threads=current().lightgbm_threads))


@dataclass(frozen=True, slots=True, eq=False)
class ConstantMu:
    """An outcome model with the same probabilities in every context.

    table (K, K, C): Category probabilities of every ordered pair; zero diagonal.
    """

    table: FloatArray

    concurrent = True

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the category probabilities of every ordered pair, (n, K, K, C)."""
        return np.broadcast_to(self.table, (len(x), *self.table.shape))

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the category probabilities, (r, C), of one pair in each context."""
        return self.table[first, second]


@dataclass(frozen=True, slots=True, eq=False)
class MirroredMu:
    """An outcome model in which display order does not matter.

    Its prediction for a pair is the mean of another model's prediction for the pair and of that model's prediction for
    the other order, with first and second wins exchanged.

    model: The other model.
    flip (C,): Code of each category in the other display order: the codes of first and second wins are exchanged.
    """

    model: MuModel
    flip: IntArray

    @property
    def concurrent(self) -> bool:
        """Whether several threads may predict at the same time."""
        return getattr(self.model, "concurrent", False)

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the category probabilities, (n, K, K, C), in which mu_kj is the flip of mu_jk."""
        mu = self.model.predict(x)
        return (mu + in_other_order(mu)) / 2

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the category probabilities, (r, C), of one pair in each context."""
        return (self.model.at(x, first, second) + self.model.at(x, second, first)[:, self.flip]) / 2


@dataclass(frozen=True, slots=True, eq=False)
class MeanMu:
    """The mean of the models of all folds, for contexts that none of these models has seen.

    models: One per fold.
    """

    models: tuple[MuModel, ...]

    @property
    def concurrent(self) -> bool:
        """Whether several threads may predict at the same time."""
        return all(getattr(model, "concurrent", False) for model in self.models)

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the category probabilities of every ordered pair, (n, K, K, C)."""
        return sum((model.predict(x) for model in self.models[1:]), self.models[0].predict(x)) / len(self.models)

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the category probabilities, (r, C), of one pair in each context."""
        total = sum((model.at(x, first, second) for model in self.models[1:]), self.models[0].at(x, first, second))
        return total / len(self.models)


def fit_all(
    data: PreferenceData,
    folds: Folds,
    seeds: Sequence[np.random.SeedSequence],
    *,
    tune: Tune,
    learner: object = "auto",
    soft: Sequence[Cells] | None = None,
    like: MuModel | None = None,
) -> tuple[MuModel, ...]:
    """Fit one model of mu per fold, each trained on the other folds."""
    fold = folds.fold
    if learner == "auto" and tune == "cv" and data.x.shape[1] and _several_categories(data, fold, len(seeds)):
        stage = like.stage if isinstance(like, SmoothBoostedMu) else None
        return fit_smooth_boosted(data, fold, seeds, soft=soft, like=stage)
    models = []
    counts = _vote_counts(data, fold, len(seeds)) if soft is None else None
    for held_out, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        with_soft = data if soft is None else replace(data, cells=data.cells.joined(soft[held_out]))
        training_counts = None if counts is None else np.delete(counts, held_out, axis=0).sum(axis=0)
        in_training = fold != held_out
        model = fit_mu(with_soft, in_training, folds.unit, rng, tune=tune, learner=learner, counts=training_counts)
        models.append(model)
        report(held_out + 1, len(seeds), "mu, folds")
    return tuple(models)


def _several_categories(data: PreferenceData, fold: IntArray, n_folds: int) -> bool:
    """Return whether, for each fold, the labels outside this fold have more than one category."""
    in_fold = np.stack([data.cells.y[fold[data.cells.context] == f].sum(axis=0) for f in range(n_folds)])
    outside_fold = in_fold.sum(axis=0) - in_fold
    return bool(((outside_fold > 0).sum(axis=1) > 1).all())


def fit_mu(
    data: PreferenceData,
    in_training: NDArray[np.bool_],
    unit: IntArray,
    rng: np.random.Generator,
    *,
    tune: Tune,
    learner: object = "auto",
    counts: FloatArray | None = None,
) -> MuModel:
    """Fit mu on the labelled cells of the training contexts with LightGBM or with the user's learner.

    Neither is needed in two cases. Without features, the probabilities are estimated from counts of votes. Where all
    labels have the same category, this category gets probability one.

    Shapes: in_training (n,), unit (n,), counts (K, K, C).
    """
    if counts is None:
        counts = _vote_counts(data, in_training.astype(np.intp), 2)[1]
    if not data.ordered:
        counts = counts + in_other_order(counts)
    model: MuModel
    if np.count_nonzero(counts.sum(axis=(0, 1))) <= 1:
        model = ConstantMu(_shares(counts))
    elif data.x.shape[1] == 0:
        model = ConstantMu(shrunken_frequencies(counts))
    else:
        rows = outcome_rows(data, in_training, unit)
        if is_user_learner(learner):
            model = fit_learner(learner, rows, data.n_items, data.n_categories, rng)
        else:
            booster = train_booster(rows, BoosterSpec(data.n_categories, data.n_items, tune), rng)
            model = BoosterMu(PairTrees.of(booster, data.n_items))
    return model if data.ordered else MirroredMu(model, data.flip)


def _shares(counts: FloatArray) -> FloatArray:
    """Return the overall shares of the categories, repeated for every pair, (K, K, C); equal shares without labels."""
    total = counts.sum(axis=(0, 1))
    share = total / total.sum() if total.sum() else np.full(len(total), 1 / len(total))
    return np.where(np.eye(len(counts), dtype=bool)[:, :, None], 0.0, share)


def _vote_counts(data: PreferenceData, fold: IntArray, n_folds: int) -> FloatArray:
    """Return the number of votes by fold of their context, ordered pair and category, (F, K, K, C)."""
    cells, n_items = data.cells, data.n_items
    place = (fold[cells.context] * n_items + cells.first) * n_items + cells.second
    counts = [np.bincount(place, share * cells.n_votes, n_folds * n_items**2) for share in cells.y.T]
    table: FloatArray = np.stack(counts, axis=1).astype(float).reshape(n_folds, n_items, n_items, -1)
    return table
