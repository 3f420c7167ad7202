"""Models of the preference probabilities mu, trained on some of the contexts and asked about others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FloatArray, IntArray, PreferenceData
from .classifiers import fit_learner, is_own
from .frequencies import shrunken_frequencies
from .lightgbm import outcome_rows, train_booster
from .pairs import PairTrees, predict_all_pairs
from .tuning import Tune


class MuModel(Protocol):
    """What a learner returns."""

    def predict(self, x: FloatArray) -> FloatArray:
        """Category probabilities of every ordered pair, (n, K, K, C), in contexts with features ``x``, (n, p)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class BoosterMu:
    """A booster over rows [x, first, second], prepared once for all chunks of contexts."""

    trees: PairTrees
    n_jobs: int | None = None

    def predict(self, x: FloatArray) -> FloatArray:
        """Category probabilities, (n, K, K, C)."""
        return predict_all_pairs(self.trees, x, self.trees.n_items, n_jobs=self.n_jobs)


@dataclass(frozen=True, slots=True, eq=False)
class ConstantMu:
    """The same probabilities, (K, K, C), in every context."""

    table: FloatArray

    def predict(self, x: FloatArray) -> FloatArray:
        """Category probabilities, (n, K, K, C)."""
        return np.broadcast_to(self.table, (len(x), *self.table.shape))


@dataclass(frozen=True, slots=True, eq=False)
class MirroredMu:
    """A model made the same for both orders of a pair: the mean of its prediction and the flipped one's."""

    model: MuModel
    flip: IntArray

    def predict(self, x: FloatArray) -> FloatArray:
        """Category probabilities, (n, K, K, C), with mu_kj the flip of mu_jk."""
        mu = self.model.predict(x)
        return (mu + np.swapaxes(mu, 1, 2)[..., self.flip]) / 2


def fit_mu(
    data: PreferenceData,
    kept: NDArray[np.bool_],
    unit: IntArray,
    tune: Tune,
    rng: np.random.Generator,
    n_jobs: int | None,
    learner: Any = "auto",
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
    tune, rng, n_jobs
        See :func:`dmlrank.nuisance.lightgbm.train_booster`.
    learner : str, classifier or callable
        The user's own, see :func:`dmlrank.nuisance.classifiers.fit_learner`; otherwise LightGBM.
    """
    counts = _vote_counts(data, kept)
    if not data.ordered:
        counts = counts + np.swapaxes(counts, 0, 1)[..., data.flip]
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
            booster = train_booster(rows, data.n_categories, data.n_items, tune, rng, n_jobs)
            model = BoosterMu(PairTrees.of(booster, data.n_items), n_jobs)
    return model if data.ordered else MirroredMu(model, data.flip)


def _shares(counts: FloatArray) -> FloatArray:
    """Shares of the categories for every pair alike, (K, K, C); even ones where there is no label at all."""
    total = counts.sum(axis=(0, 1))
    share = total / total.sum() if total.sum() else np.full(len(total), 1 / len(total))
    return np.where(np.eye(len(counts), dtype=bool)[:, :, None], 0.0, share)


def _vote_counts(data: PreferenceData, kept: NDArray[np.bool_]) -> FloatArray:
    """Votes of the kept contexts by ordered pair and category, (K, K, C)."""
    cells, n_items = data.cells, data.n_items
    inside = kept[cells.context]
    pair = cells.first[inside] * n_items + cells.second[inside]
    votes = cells.y[inside] * cells.n_votes[inside, None]
    counts = [np.bincount(pair, weights=votes[:, c], minlength=n_items**2) for c in range(data.n_categories)]
    table: FloatArray = np.stack(counts, axis=1).astype(float).reshape(n_items, n_items, -1)
    return table
