"""Two-stage use of verdicts: m = P(Y | x, verdict), mu recalibrated by verdicts, then soft labels for mu = E[m | x]."""

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

# Prior precisions, in votes, of what a verdict adds to the scores; stiffest first. Before them comes "nothing".
_RIDGES = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
# Relative to these: how far the first regression's log-odds may be stretched, and the categories' levels.
_STRETCH, _LEVEL = 1.0, 0.1
_TINY = 1e-12
# Soft labels that the second regression learns from, per human label, and at least.
_SOFT_PER_LABEL, _SOFT_LEAST = 10, 20_000
# Features beside the verdict that may tell who was labelled.
_MOST_FEATURES = 50


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationRows:
    """Labels, predictions that know nothing of the features, and the features.

    Attributes
    ----------
    base : ndarray, shape (r, C)
        Predicted probabilities.
    features : ndarray, shape (r, q)
    y : ndarray, shape (r, C)
        Mean labels.
    weight : ndarray, shape (r,)
        Votes.
    """

    base: FloatArray
    features: FloatArray
    y: FloatArray
    weight: FloatArray

    def only(self, kept: NDArray[np.bool_]) -> CalibrationRows:
        """Some of the rows."""
        return CalibrationRows(self.base[kept], self.features[kept], self.y[kept], self.weight[kept])

    def loss(self, p: FloatArray) -> float:
        """Log-loss of probabilities, (r, C)."""
        return log_loss(p, self.weight[:, None] * self.y)


@dataclass(frozen=True, slots=True, eq=False)
class Recalibration:
    """A multinomial regression that recalibrates given probabilities by features.

    Attributes
    ----------
    stretch : float
        The given log-odds are multiplied with one plus this.
    level : ndarray, shape (C,)
    slope : ndarray, shape (q, C)
        Coefficients of standardised features.
    centre, scale : ndarray, shape (q,)

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
        """Recalibrated probabilities, (r, C)."""
        logs = np.log(np.maximum(base, _TINY))
        scores = (1 + self.stretch) * logs + self.level + (features - self.centre) / self.scale @ self.slope
        return np.asarray(softmax(scores, axis=1))


def fit_recalibration(rows: CalibrationRows, ridge: float) -> Recalibration:
    """Maximise the log-likelihood of the labels less the ridge; with an infinite ridge the base stays as it is.

    Parameters
    ----------
    rows : CalibrationRows
    ridge : float
        Prior precision of the coefficients of standardised features, in votes.

    Examples
    --------
    >>> base, y = np.full((200, 2), 0.5), np.repeat(np.eye(2), 100, axis=0)
    >>> fitted = fit_recalibration(CalibrationRows(base, y[:, :1], y, np.ones(200)), ridge=1.0)
    >>> bool(fitted.of(base, y[:, :1])[0, 0] > 0.95)
    True
    """
    y, weight, features = rows.y, rows.weight, rows.features
    logs = np.log(np.maximum(rows.base, _TINY))
    centre, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    z = (features - centre) / scale
    n_categories, q = y.shape[1], z.shape[1]
    penalty = ridge * np.concatenate([[_STRETCH], np.full(n_categories, _LEVEL), np.ones(q * n_categories)])
    power = np.concatenate(
        [[np.square(logs - logs.mean(axis=1, keepdims=True)).sum(axis=1).mean()], np.ones(len(penalty) - 1)]
    )
    unit = 1 / np.sqrt(MULTINOMIAL_CURVATURE * weight.sum() * power + penalty)

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

    search = PenalisedSearch(loss, penalty, unit, tolerance=1e-6)
    search.advance()
    return Recalibration(*split(search.flat), centre, scale)


def select_recalibrations(rows: CalibrationRows, fold: IntArray, n_folds: int) -> tuple[Recalibration | None, ...]:
    """One recalibration per fold, learnt from the other folds; None for all where none lowers the held-out log-loss.

    The base of a row is out of fold. As in the short-stacking of Ahrens et al. (2025), regressions of a few
    coefficients are fitted on out-of-fold predictions, so that no first stage is trained within a first stage.

    Parameters
    ----------
    rows : CalibrationRows
    fold : ndarray of int, shape (r,)
    n_folds : int
    """
    none: tuple[Recalibration | None, ...] = (None,) * n_folds
    varying = rows.features.std(axis=0) > 1e-9 if len(rows.features) else np.zeros(0, dtype=bool)
    if not varying.any() or any(not (fold != f).any() for f in range(n_folds)):
        return none
    best = rows.loss(rows.base)
    kept, misses = none, 0
    for ridge in _RIDGES:
        fitted = tuple(fit_recalibration(rows.only(fold != f), ridge) for f in range(n_folds))
        loss = rows.loss(recalibrated(fitted, rows.base, rows.features, fold))
        if loss < best:
            best, kept, misses = loss, fitted, 0
        elif kept is not none:
            misses += 1
            if misses > 1:
                break
    return kept


def recalibrated(
    fitted: Sequence[Recalibration | None], base: FloatArray, features: FloatArray, fold: IntArray
) -> FloatArray:
    """Probabilities, (r, C), recalibrated by what the fold of each row has learnt."""
    out = base.copy()
    for f, recalibration in enumerate(fitted):
        here = np.flatnonzero(fold == f)
        if recalibration is not None and len(here):
            out[here] = recalibration.of(base[here], features[here])
    return out


@dataclass(frozen=True, slots=True, eq=False)
class HumanGivenVerdict:
    """m at the judged cells.

    Attributes
    ----------
    recalibrations : tuple of Recalibration or None
        By fold; None where the verdicts do not help.
    m : ndarray, shape (r, C)
        Out-of-fold m of the judged cells, in the data's orientation.
    """

    recalibrations: tuple[Recalibration | None, ...]
    m: FloatArray


def human_given_verdict(data: PreferenceData, verdicts: Verdicts, base: FloatArray, folds: Folds) -> HumanGivenVerdict:
    """Regress labels on out-of-fold mu and verdicts, both of the pair as shown.

    Parameters
    ----------
    data : PreferenceData
    verdicts : Verdicts
    base : ndarray, shape (r, C)
        Out-of-fold mu at the judged cells.
    folds : Folds
    """
    cells = verdicts.cells
    seen = np.flatnonzero(verdicts.label >= 0)
    judged = verdicts.label[seen]
    turned = cells.flipped
    shown = exchange_wins(base, turned)
    labels = exchange_wins(data.cells.y[seen], turned[judged])
    rows = CalibrationRows(shown[judged], verdicts.features[judged], labels, data.cells.n_votes[seen].astype(float))
    fitted = select_recalibrations(rows, folds.fold[cells.context[judged]], folds.n_folds)
    m = recalibrated(fitted, shown, verdicts.features, folds.fold[cells.context])
    return HumanGivenVerdict(fitted, exchange_wins(m, turned))


def soft_labels(
    data: PreferenceData,
    verdicts: Verdicts,
    recalibration: Recalibration,
    chosen: IntArray,
    base: FloatArray,
) -> Cells:
    """m at some judged cells without a label, as labels of one vote for the second regression.

    Parameters
    ----------
    data : PreferenceData
    verdicts : Verdicts
    recalibration : Recalibration
    chosen : ndarray of int, shape (s,)
        Judged cells.
    base : ndarray, shape (s, C)
        mu there, of the model that is recalibrated.
    """
    cells = verdicts.cells
    turned = cells.flipped[chosen]
    m = exchange_wins(recalibration.of(exchange_wins(base, turned), verdicts.features[chosen]), turned)
    context, first, second = cells.context[chosen], cells.first[chosen], cells.second[chosen]
    return Cells(context, first, second, m, np.ones(len(chosen), dtype=np.intp), turned)


def chosen_for_soft_labels(data: PreferenceData, verdicts: Verdicts, rng: np.random.Generator) -> IntArray:
    """Judged cells without a label, (s,): all, or a sample where they are many."""
    free = np.flatnonzero(~verdicts.labelled)
    most = max(_SOFT_LEAST, _SOFT_PER_LABEL * len(data.cells))
    if len(free) <= most:
        return free
    # Drawn from an order that does not depend on that of the rows.
    free = free[np.argsort(data.seed_order[verdicts.cells.context[free]], kind="stable")]
    return np.sort(rng.choice(free, most, replace=False))


def labelled_share(data: PreferenceData, verdicts: Verdicts, folds: Folds) -> FloatArray:
    """P(human label | judged, x, f) at the labelled cells, (m,): the pair's share, recalibrated by verdict
    and features.

    Where the features do not lower the held-out log-loss, labels were drawn among the judged pairs without looking at
    either, and the pair's share is what is left. All labelled cells have been judged. Of many features the leading
    principal components are used.
    """
    cells, labelled = verdicts.cells, verdicts.labelled
    pair = cells.first * data.n_items + cells.second
    n_judged, n_labelled = (np.bincount(pair, weights=w, minlength=data.n_items**2) for w in (None, labelled))
    share = n_labelled.sum() / n_judged.sum()
    # A pair's own share, shrunk to the overall one.
    own = ((n_labelled + 20 * share) / (n_judged + 20))[pair]
    own = np.clip(own, 1e-6, 1 - 1e-6)
    base = np.stack([own, 1 - own], axis=1)
    features = np.hstack([verdicts.features, leading_components(data.x)[cells.context]])
    y = np.stack([labelled, ~labelled], axis=1).astype(float)
    fold = folds.fold[cells.context]
    fitted = select_recalibrations(CalibrationRows(base, features, y, np.ones(len(y))), fold, folds.n_folds)
    return recalibrated(fitted, base, features, fold)[verdicts.label, 0]


def leading_components(x: FloatArray) -> FloatArray:
    """Standardised features, (n, p), missing ones at the mean; of more than 50 the leading principal components.

    Examples
    --------
    >>> leading_components(np.arange(400.0).reshape(2, 200)).shape, leading_components(np.ones((3, 2))).tolist()
    ((2, 50), [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    """
    known = ~np.isnan(x)
    count = np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, x - np.where(known, x, 0.0).sum(axis=0) / count, 0.0)
    scale = np.sqrt(np.square(centred).sum(axis=0) / count)
    z = centred / np.where(scale > 1e-12, scale, 1.0)
    if z.shape[1] <= _MOST_FEATURES:
        return np.asarray(z)
    return np.asarray(z @ np.linalg.eigh(z.T @ z)[1][:, -_MOST_FEATURES:])
