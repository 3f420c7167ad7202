"""Signs that the intervals may not hold: extreme influence, a curved functional at a noisy mu, miscalibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._utils.warning_collection import warn
from ..data.preferences import Cells, FloatArray, IntArray
from ..exceptions import IntervalWarning
from ..functionals.base import is_linear
from ..functionals.protocols import Score
from ..nuisance.outcome_model.cross_fit import MuModel
from ..nuisance.smooth.minimise import minimise
from .cross_fitting import CrossFittedMu, HeldOutLabels, MuSource
from .influence import InfluenceFunction
from .outcome_floor import clip_and_renormalise

# Contexts that a standard error has to rest on.
_FEW = 10.0
# Second-order term in standard errors from which it is no longer small: coverage of 95 % falls to 92 % at 0.5.
_LARGE = 0.5
# Calibration slopes that are no cause for concern, and how little a recalibration may move the log of mu to be none
# either: where mu hardly varies its slope is noise, and harmless.
_SLOPES = (0.6, 1.6)
_MOVED = 0.3
# Contexts, and pairs of contexts and items, at which the folds' models are compared.
_MOST_CONTEXTS = 500
_MOST_CELLS = 200_000
_TINY = 1e-12
# Floor where none was asked for: a functional with a logit has to stay finite.
_SMALLEST = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Validity:
    """What speaks for and against the intervals.

    Attributes
    ----------
    effective_contexts : ndarray, shape (d,)
        Contexts that each standard error rests on: (sum phi^2)^2 / sum phi^4, n where all weigh the same.
    second_order : ndarray, shape (d,)
        Estimated bias that the linearisation at a noisy mu leaves, in units of the scores; NaN where it is not known.
    calibration : float
        Slope of the labels' log-odds on those of mu out of fold: below 1 mu is too extreme, above 1 it is shrunken.
    log_mu_std : float
        Standard deviation of the log of mu within a category, each context's mean over the categories taken off.
    """

    effective_contexts: FloatArray
    second_order: FloatArray
    calibration: float
    log_mu_std: float

    @property
    def recalibration_shift(self) -> float:
        """How far the recalibration moves the log of mu, as a standard deviation; a slope below zero is none."""
        return abs(1 - max(self.calibration, 0.0)) * self.log_mu_std


def effective_contexts(influence: InfluenceFunction) -> FloatArray:
    """Contexts that the variance of each score rests on, (d,); n where a score does not vary.

    Examples
    --------
    >>> from dmlrank.estimation.influence import Influence
    >>> phi = np.array([[1.0], [-1.0], [0.0], [0.0]])
    >>> nothing = np.zeros((4, 1))
    >>> effective_contexts(Influence(phi, nothing, np.arange(4), np.ones(4), np.ones(4)))
    array([2.])
    """
    total, fourth = influence.power_sums()
    varying = total > _TINY * max(float(total.max(initial=0.0)), _TINY)
    return np.where(varying, total**2 / np.where(fourth > 0, fourth, 1.0), float(influence.n_contexts))


def calibration_slope(mu: FloatArray, cells: Cells, count: IntArray | None = None) -> float:
    """Slope T of a recalibration softmax(T log mu + a) fitted to the labels (Cox 1958); NaN without variation.

    Parameters
    ----------
    mu : ndarray, shape (m, C)
        Out-of-fold probabilities of the labelled cells.
    cells : Cells
    count : ndarray of int, shape (m,), optional
        Equal cells that each stands for.
    """
    log_mu, scale = _centred_log(mu), log_spread(mu, count)
    if not scale > 1e-6:
        return float("nan")
    votes, n = cells.n_votes.astype(float), len(mu) if count is None else int(count.sum())

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        scores = (1 + theta[0] / scale) * log_mu + theta[1:]
        top = scores.max(axis=1, keepdims=True)
        log_total = top + np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
        slope = votes[:, None] * (np.exp(scores - log_total) - cells.y)
        loss = float((votes[:, None] * cells.y * (log_total - scores)).sum())
        return loss / n, np.array([(slope * log_mu).sum() / scale, *slope.sum(axis=0)]) / n

    return float(1 + minimise(objective, np.zeros(1 + mu.shape[1]), tolerance=1e-10)[0] / scale)


def log_spread(mu: FloatArray, count: IntArray | None = None) -> float:
    """Standard deviation of the log of mu, (m, C), within a category, centred over the categories.

    ``count`` says how many cells each row stands for.

    Examples
    --------
    >>> round(log_spread(np.array([[0.5, 0.5], [0.9, 0.1]])), 3)
    0.549
    """
    log_mu = _centred_log(mu)
    middle = np.average(log_mu, axis=0, weights=count)
    return float(np.sqrt(np.average(np.square(log_mu - middle), axis=0, weights=count).mean()))


def _centred_log(mu: FloatArray) -> FloatArray:
    log_mu = np.log(np.maximum(mu, _TINY))
    return np.asarray(log_mu - log_mu.mean(axis=1, keepdims=True))


def second_order(functional: Score, models: Sequence[MuModel], x: FloatArray, floor: float) -> FloatArray:
    """Bias from the curvature of F at a noisy mu, (d,): minus half the mean of D2F along mu's sampling error, twice.

    The one-step estimator's remainder is -1/2 E D2F(mu)[error, error]. The sampling variance of mu is estimated by the
    grouped jackknife: each fold's model is the fit without that fold. What all models share, the bias of mu, is not
    seen.

    Parameters
    ----------
    functional : Score
    models : sequence of MuModel
        One per fold, each trained without it.
    x : ndarray, shape (b, p)
        Contexts to average over.
    floor : float
    """
    tables = [clip_and_renormalise(model.predict(x), floor) for model in models]
    middle = sum(tables[1:], tables[0]) / len(tables)
    centre = functional.value(middle)
    mirrored = (clip_and_renormalise(np.maximum(2 * middle - table, 0.0), max(floor, _SMALLEST)) for table in tables)
    bend = [
        (functional.value(table) + functional.value(other) - 2 * centre).mean(axis=0)
        for table, other in zip(tables, mirrored, strict=True)
    ]
    return np.asarray(-0.5 * (len(tables) - 1) / len(tables) * np.sum(bend, axis=0))


def remaining_bias(
    functional: Score, mu: MuSource, order: IntArray, *, n_scores: int, floor: float, n_items: int
) -> FloatArray:
    """The second-order term where it is known, (d,): zero for linear functionals, NaN for given probabilities.

    Parameters
    ----------
    functional : Score
    mu : MuSource
    order : ndarray of int, shape (n,)
        Contexts in an order that does not depend on that of the data.
    n_scores : int
        d.
    floor : float
    n_items : int
    """
    if is_linear(functional):
        return np.zeros(n_scores)
    if not isinstance(mu, CrossFittedMu):
        return np.full(n_scores, np.nan)
    # Without features all contexts are one.
    some = compared_contexts(order, n_items)[: None if mu.x.shape[1] else 1]
    return second_order(functional, mu.models, mu.x[some], floor if functional.interior else 0.0)


def measure_validity(influence: InfluenceFunction, bias: FloatArray, labels: HeldOutLabels) -> Validity:
    """What speaks for and against the intervals of a fit.

    Parameters
    ----------
    influence : InfluenceFunction
    bias : ndarray, shape (d,)
        See :func:`remaining_bias`.
    labels : HeldOutLabels
    """
    mu, count = labels.mu, labels.count
    slope = calibration_slope(mu, labels.cells, count)
    return Validity(effective_contexts(influence), bias, slope, log_spread(mu, count))


def compared_contexts(order: IntArray, n_items: int) -> IntArray:
    """Contexts at which models are compared: the first ones of ``order``, (n,), as many as are cheap."""
    return order[: max(1, min(_MOST_CONTEXTS, _MOST_CELLS // n_items**2))]


def warn_about_intervals(
    validity: Validity,
    std_errors: FloatArray,
    models: Sequence[str],
    n_contexts: int,
    interior: bool,
    *,
    remedies: Sequence[str] = (),
) -> None:
    """Warn where data are too few or too extreme for the functional.

    Parameters
    ----------
    validity : Validity
    std_errors : ndarray, shape (d,)
    models : sequence of str
    n_contexts : int
    interior : bool
        Whether the functional has a logit or a division.
    remedies : sequence of str
        Options that make such a functional depend less on pairs with few labels.
    """
    others = "".join(f", {remedy}" for remedy in remedies)
    least = int(np.argmin(validity.effective_contexts))
    if validity.effective_contexts[least] < _FEW:
        advice = (
            f"functional='borda' depends least on them, a larger floor= bounds them{others}"
            if interior
            else "pairs with few labels can be left out (min_labels=) or count less (edge_weights='counts')"
        )
        warn(
            f"the standard error of {models[least]!r} rests on the equivalent of "
            f"{validity.effective_contexts[least]:.0f} of {n_contexts:,} prompts: a few labels with rare outcomes or "
            f"small propensities decide it, and its interval may be far too short; {advice}",
            stacklevel=2,
            kind=IntervalWarning,
        )
    ratio = np.abs(validity.second_order) / np.where(std_errors > 0, std_errors, np.inf)
    if np.nanmax(ratio, initial=0.0) > _LARGE:
        worst = int(np.nanargmax(ratio))
        warn(
            f"too few labels for this functional: the error of the fitted probabilities biases {models[worst]!r} by an "
            f"estimated {validity.second_order[worst]:+.3g}, {ratio[worst]:.1f} standard errors; functional="
            f"'borda' has no such bias{others}",
            stacklevel=2,
            kind=IntervalWarning,
        )
    # NaN compares false: without a slope there is nothing to say.
    if validity.recalibration_shift > _MOVED and not _SLOPES[0] <= validity.calibration <= _SLOPES[1]:
        how = "too extreme" if validity.calibration < 1 else "too close to even"
        warn(
            f"the fitted probabilities are {how}: their calibration slope is {validity.calibration:.2f} where 1 is "
            f"right; another learner or more labels may be needed",
            stacklevel=2,
            kind=IntervalWarning,
        )
