"""Use of judges' verdicts in two stages.

The first stage is m = P(Y | x, verdict), the probabilities of a human label Y given the context features x and the
verdict of a judge. It is the outcome model mu, recalibrated by the verdicts. In the second stage, mu = E[m | x] is
fitted again, to human labels and to m at judged pairs without a label. These values of m are called soft labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ..._utils.log_loss import log_loss
from ...data.outcomes import exchange_wins
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..smooth.minimise import MULTINOMIAL_CURVATURE, PenalisedSearch
from ..training_rows import Folds
from .verdicts import Verdicts

# Prior precisions of the coefficients of the verdicts, in decreasing order. The best of these ridges is used only if it
# predicts labels better than mu without recalibration does.
_RIDGES = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
# Penalties of the stretch and of the levels of a Recalibration, as multiples of the ridge.
_STRETCH_PENALTY, _LEVEL_PENALTY = 1.0, 0.1
# Smaller probabilities are replaced by this one before logarithms are taken.
_TINY = 1e-12
# Largest number of soft labels that mu is fitted to: 10 for each human label, or 20,000 if that is more.
_SOFT_PER_LABEL, _SOFT_LEAST = 10, 20_000
# The share of a pair's judged cells with a label is shrunk towards the overall share, as if the overall share had been
# observed on this number of further judged cells of the pair.
_PRIOR_CELLS = 20
# Largest number of context features that may explain which judged pairs have a label.
_MOST_FEATURES = 50


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationRows:
    """Labels, the predictions to recalibrate, and the features that recalibrate the predictions.

    base (r, C): Predicted probabilities, which do not use the features.
    features (r, q): Features of the recalibration.
    y (r, C): Shares of the categories among the votes of each row.
    weight (r,): Number of votes.
    """

    base: FloatArray
    features: FloatArray
    y: FloatArray
    weight: FloatArray

    def only(self, selected: NDArray[np.bool_]) -> CalibrationRows:
        """Return the rows that are selected by a mask, (r,)."""
        return CalibrationRows(self.base[selected], self.features[selected], self.y[selected], self.weight[selected])

    def loss(self, p: FloatArray) -> float:
        """Return the log-loss of probabilities, (r, C)."""
        return log_loss(p, self.weight[:, None] * self.y)


@dataclass(frozen=True, slots=True, eq=False)
class Recalibration:
    """A multinomial regression that recalibrates probabilities by features.

    stretch: The log-odds of the probabilities are multiplied by one plus this number.
    level (C,): Intercepts of the categories.
    slope (q, C): Coefficients of the standardised features.
    centre, scale (q,): Means and standard deviations that standardise the features.

    References
    ----------
    Cox (1958), Two further applications of a model for binary regression, on recalibration by a regression on log-odds.
    """

    stretch: float
    level: FloatArray
    slope: FloatArray
    centre: FloatArray
    scale: FloatArray

    def of(self, base: FloatArray, features: FloatArray) -> FloatArray:
        """Return the recalibrated probabilities, (r, C), for ``base``, (r, C), and ``features``, (r, q)."""
        logs = np.log(np.maximum(base, _TINY))
        scores = (1 + self.stretch) * logs + self.level + (features - self.centre) / self.scale @ self.slope
        return np.asarray(softmax(scores, axis=1))


def fit_recalibration(rows: CalibrationRows, ridge: float) -> Recalibration:
    """Fit a recalibration by penalised maximum likelihood; an infinite ridge would leave the base as it is."""
    y, weight, features = rows.y, rows.weight, rows.features
    logs = np.log(np.maximum(rows.base, _TINY))
    centre, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    z = (features - centre) / scale
    n_categories, q = y.shape[1], z.shape[1]
    penalty = ridge * np.concatenate(
        [[_STRETCH_PENALTY], np.full(n_categories, _LEVEL_PENALTY), np.ones(q * n_categories)]
    )
    mean_square = np.concatenate(
        [[np.square(logs - logs.mean(axis=1, keepdims=True)).sum(axis=1).mean()], np.ones(len(penalty) - 1)]
    )
    step_scale = 1 / np.sqrt(MULTINOMIAL_CURVATURE * weight.sum() * mean_square + penalty)

    y_total = y.sum(axis=1)

    def split(flat: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        return float(flat[0]), flat[1 : 1 + n_categories], flat[1 + n_categories :].reshape(q, n_categories)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        stretch, level, slope = split(flat)
        scores = (1 + stretch) * logs + level + z @ slope
        scores -= scores.max(axis=1, keepdims=True)
        share = np.exp(scores)
        total = share.sum(axis=1)
        value = float(weight @ (np.log(total) * y_total - (y * scores).sum(axis=1)))
        residual = weight[:, None] * (share * (y_total / total)[:, None] - y)
        gradient = np.concatenate([[(residual * logs).sum()], residual.sum(axis=0), (z.T @ residual).reshape(-1)])
        return value, gradient

    search = PenalisedSearch(loss, penalty, step_scale, tolerance=1e-6)
    search.advance()
    return Recalibration(*split(search.flat), centre, scale)


def select_recalibrations(rows: CalibrationRows, fold: IntArray, n_folds: int) -> tuple[Recalibration | None, ...]:
    """Fit one recalibration per fold on the other folds, with the ridge that has the smallest held-out log-loss.

    The result is None for every fold if no ridge lowers the held-out log-loss of the base. The regression has few
    coefficients and is fitted on predictions that are already out of fold, as in the short-stacking of Ahrens et al.
    (2025). Therefore mu is not fitted again within the training set of each fold.

    Shapes: fold (r,).
    """
    no_recalibration: tuple[Recalibration | None, ...] = (None,) * n_folds
    varying = rows.features.std(axis=0) > 1e-9 if len(rows.features) else np.zeros(0, dtype=bool)
    if not varying.any() or any(not (fold != f).any() for f in range(n_folds)):
        return no_recalibration
    best_loss = rows.loss(rows.base)
    best, n_failures = no_recalibration, 0
    for ridge in _RIDGES:
        fitted = tuple(fit_recalibration(rows.only(fold != f), ridge) for f in range(n_folds))
        loss = rows.loss(recalibrated(fitted, rows.base, rows.features, fold))
        if loss < best_loss:
            best_loss, best, n_failures = loss, fitted, 0
        elif best is not no_recalibration:
            n_failures += 1
            if n_failures > 1:
                break
    return best


def recalibrated(
    fitted: Sequence[Recalibration | None], base: FloatArray, features: FloatArray, fold: IntArray
) -> FloatArray:
    """Return probabilities, (r, C), that are recalibrated row by row with the recalibration of the row's fold.

    Shapes: base (r, C), features (r, q), fold (r,).
    """
    probabilities = base.copy()
    for f, recalibration in enumerate(fitted):
        rows = np.flatnonzero(fold == f)
        if recalibration is not None and len(rows):
            probabilities[rows] = recalibration.of(base[rows], features[rows])
    return probabilities


@dataclass(frozen=True, slots=True, eq=False)
class HumanGivenVerdict:
    """The fitted m = P(Y | x, verdict).

    recalibrations: One per fold; None where the verdicts do not lower the held-out log-loss.
    m (r, C): Out-of-fold m at the judged cells, with wins of the cell's first item as the first category.
    """

    recalibrations: tuple[Recalibration | None, ...]
    m: FloatArray


def human_given_verdict(data: PreferenceData, verdicts: Verdicts, base: FloatArray, folds: Folds) -> HumanGivenVerdict:
    """Regress labels on out-of-fold mu and verdicts.

    In the regression, labels, mu and verdicts refer to the order in which the judges were shown the pair.

    Shapes: base (r, C).
    """
    cells = verdicts.cells
    # Cells that have votes and verdicts: their places among the cells of the votes, and among the judged cells.
    in_votes = np.flatnonzero(verdicts.label >= 0)
    in_verdicts = verdicts.label[in_votes]
    base_as_shown = exchange_wins(base, cells.flipped)
    y = exchange_wins(data.cells.y[in_votes], cells.flipped[in_verdicts])
    n_votes = data.cells.n_votes[in_votes].astype(float)
    rows = CalibrationRows(base_as_shown[in_verdicts], verdicts.features[in_verdicts], y, n_votes)
    fitted = select_recalibrations(rows, folds.fold[cells.context[in_verdicts]], folds.n_folds)
    m = recalibrated(fitted, base_as_shown, verdicts.features, folds.fold[cells.context])
    return HumanGivenVerdict(fitted, exchange_wins(m, cells.flipped))


def soft_labels(
    verdicts: Verdicts,
    recalibration: Recalibration,
    places: IntArray,
    base: FloatArray,
) -> Cells:
    """Return m at judged cells without a label, as soft labels that weigh as much as one vote each.

    Shapes: places (s,), base (s, C).
    """
    cells = verdicts.cells
    flipped = cells.flipped[places]
    m = exchange_wins(recalibration.of(exchange_wins(base, flipped), verdicts.features[places]), flipped)
    context, first, second = cells.context[places], cells.first[places], cells.second[places]
    return Cells(context, first, second, m, np.ones(len(places), dtype=np.intp), flipped)


def draw_soft_label_cells(data: PreferenceData, verdicts: Verdicts, rng: np.random.Generator) -> IntArray:
    """Return the places of the judged cells without a label, (s,), or of a random sample where they are many."""
    unlabelled = np.flatnonzero(~verdicts.labelled)
    sample_size = max(_SOFT_LEAST, _SOFT_PER_LABEL * len(data.cells))
    if len(unlabelled) <= sample_size:
        return unlabelled
    # The sample is drawn from an order that does not depend on the order of the rows.
    unlabelled = unlabelled[np.argsort(data.seed_order[verdicts.cells.context[unlabelled]], kind="stable")]
    return np.sort(rng.choice(unlabelled, sample_size, replace=False))


def labelled_share(data: PreferenceData, verdicts: Verdicts, folds: Folds) -> FloatArray:
    """Return the estimated probability that a judged cell has a human label, at each labelled cell, (m,)."""
    cells, labelled = verdicts.cells, verdicts.labelled
    pair = cells.first * data.n_items + cells.second
    n_judged, n_labelled = (np.bincount(pair, weights=w, minlength=data.n_items**2) for w in (None, labelled))
    share = n_labelled.sum() / n_judged.sum()
    pair_share = ((n_labelled + _PRIOR_CELLS * share) / (n_judged + _PRIOR_CELLS))[pair]
    pair_share = np.clip(pair_share, 1e-6, 1 - 1e-6)
    base = np.stack([pair_share, 1 - pair_share], axis=1)
    features = np.hstack([verdicts.features, leading_components(data.x)[cells.context]])
    y = np.stack([labelled, ~labelled], axis=1).astype(float)
    fold = folds.fold[cells.context]
    fitted = select_recalibrations(CalibrationRows(base, features, y, np.ones(len(y))), fold, folds.n_folds)
    return recalibrated(fitted, base, features, fold)[verdicts.label, 0]


def leading_components(x: FloatArray) -> FloatArray:
    """Return standardised features, (n, p), or their 50 leading principal components if there are more than 50.

    Missing values count as the mean of their feature.
    """
    is_present = ~np.isnan(x)
    count = np.maximum(is_present.sum(axis=0), 1)
    centred = np.where(is_present, x - np.where(is_present, x, 0.0).sum(axis=0) / count, 0.0)
    scale = np.sqrt(np.square(centred).sum(axis=0) / count)
    z = centred / np.where(scale > 1e-12, scale, 1.0)
    if z.shape[1] <= _MOST_FEATURES:
        return np.asarray(z)
    return np.asarray(z @ np.linalg.eigh(z.T @ z)[1][:, -_MOST_FEATURES:])
