"""Diagnostics of the intervals: extreme influence values, bias from errors of mu, and miscalibration of mu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .._utils.warning_collection import warn
from ..data.preferences import FloatArray, IntArray
from ..exceptions import IntervalWarning
from ..functionals import Functional
from ..nuisance.outcome_model.cross_fit import MuModel
from ..nuisance.smooth.penalty import minimise
from .cross_fitting import CrossFittedMu, HeldOutLabels, MuSource, clip_and_renormalise
from .influence import InfluenceFunction

# Smallest effective number of contexts behind a standard error without a warning.
_FEWEST_EFFECTIVE = 10.0
# Largest second-order bias without a warning, in standard errors. At 0.5, coverage of 95 % falls to 92 %.
_LARGEST_BIAS_RATIO = 0.5
# Calibration slopes without a warning. A slope outside these limits is ignored where the recalibration would change
# the log of mu by a standard deviation below _SMALLEST_SHIFT: where mu hardly varies, the slope is noise.
_SLOPE_LIMITS = (0.6, 1.6)
_SMALLEST_SHIFT = 0.3
# Largest numbers of contexts, and of entries (context, pair), at which the models of the folds are compared.
_MAX_CONTEXTS = 500
_MAX_ENTRIES = 200_000
_TINY = 1e-12
# In :func:`estimate_second_order_bias`, the mean mu minus a fold's deviation is clipped at a floor of at least this
# value, which keeps a functional with a logit finite where the user set no floor.
_SMALLEST_FLOOR = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Validity:
    """Figures that show whether the assumptions behind the intervals hold approximately.

    effective_contexts (d,): Effective number of contexts behind each standard error, (sum phi^2)^2 / sum phi^4: n where
        the influence values of all contexts have the same size.
    second_order (d,): Estimated bias that comes from the error of mu where the functional is curved, in units of the
        scores; NaN where no estimate is available.
    calibration: Slope of the labels' log-odds on the log-odds of out-of-fold mu: below 1 where mu is too extreme, above
        1 where mu is too close to even.
    log_mu_std: Root mean square, over the categories, of the standard deviation of log mu over the cells. From log mu
        the mean over the categories of the cell is subtracted first.
    """

    effective_contexts: FloatArray
    second_order: FloatArray
    calibration: float
    log_mu_std: float

    @classmethod
    def of(cls, influence: InfluenceFunction, bias: FloatArray, labels: HeldOutLabels) -> Validity:
        """Compute the figures of a fit with an estimated second-order bias, (d,)."""
        return cls(effective_contexts(influence), bias, *calibration(labels))

    @property
    def recalibration_shift(self) -> float:
        """Standard deviation of the change of log mu that a recalibration makes; negative slopes count as zero."""
        return abs(1 - max(self.calibration, 0.0)) * self.log_mu_std


def effective_contexts(influence: InfluenceFunction) -> FloatArray:
    """Return the effective number of contexts behind the variance of each score, (d,).

    The number is n for a score whose influence values are all zero.
    """
    total, fourth = influence.power_sums()
    varies = total > _TINY * max(float(total.max(initial=0.0)), _TINY)
    return np.where(varies, total**2 / np.where(fourth > 0, fourth, 1.0), float(influence.n_contexts))


def calibration(labels: HeldOutLabels) -> tuple[float, float]:
    """Fit the recalibration softmax(T log mu + a) to the labels; return its slope T (Cox 1958), and the spread of mu.

    The slope is NaN where mu does not vary. The spread is the root mean square, over the categories, of the standard
    deviation of log mu over the cells, less its mean over the categories of the cell.
    """
    log_mu = np.log(np.maximum(np.ascontiguousarray(labels.mu.T), _TINY))
    log_mu -= log_mu.mean(axis=0)
    mean = np.average(log_mu, axis=1, weights=labels.count)
    spread = float(np.sqrt(np.average(np.square(log_mu - mean[:, None]), axis=1, weights=labels.count).mean()))
    if not spread > 1e-6:
        return float("nan"), spread
    votes, n = labels.cells.n_votes.astype(float), int(labels.count.sum())
    counts = votes * labels.cells.y.T
    votes_of_labels = counts.sum(axis=0)

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        scores = (1 + theta[0] / spread) * log_mu + theta[1:, None]
        scores -= scores.max(axis=0)
        fitted = np.exp(scores)
        total = fitted.sum(axis=0)
        loss = float(np.vdot(votes_of_labels, np.log(total)) - np.vdot(counts, scores))
        fitted *= votes / total
        fitted -= counts
        return loss / n, np.array([np.vdot(fitted, log_mu) / spread, *fitted.sum(axis=1)]) / n

    slope = minimise(objective, np.zeros(1 + len(log_mu)), tolerance=1e-10)[0] / spread
    return float(1 + slope), spread


def estimate_second_order_bias(
    functional: Functional, models: Sequence[MuModel], x: FloatArray, floor: float
) -> FloatArray:
    """Estimate the bias of the one-step estimator that comes from the error of mu where F is curved, (b, d).

    Shapes: x (b, p), returns (b, d).
    """
    tables = [clip_and_renormalise(model.predict(x), floor) for model in models]
    mean_mu = sum(tables[1:], tables[0]) / len(tables)
    at_mean = functional.value(mean_mu)
    second_differences = np.zeros_like(at_mean)
    for table in tables:
        opposite = clip_and_renormalise(np.maximum(2 * mean_mu - table, 0.0), max(floor, _SMALLEST_FLOOR))
        second_differences += functional.value(table) + functional.value(opposite) - 2 * at_mean
    return np.asarray(-0.5 * (len(tables) - 1) / len(tables) * second_differences)


@dataclass(frozen=True, slots=True, eq=False)
class RemainingBias:
    """The second-order bias of d scores, with its terms by context.

    total (d,): The bias: zero for linear functionals, NaN for supplied probabilities, the mean of the terms otherwise.
    contexts (b,): The contexts at which the models of the folds were compared.
    by_context (b, d): The term of each of these contexts.
    """

    total: FloatArray
    contexts: IntArray = field(default_factory=lambda: np.empty(0, np.intp))
    by_context: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    def renumbered(self, place: IntArray) -> RemainingBias:
        """Return the bias with other numbers of the contexts; ``place``, (n_old,), holds the new numbers."""
        return replace(self, contexts=place[self.contexts])


def remaining_bias(
    functional: Functional,
    mu: MuSource,
    seed_order: IntArray,
    *,
    n_scores: int,
    floor: float,
    n_items: int,
    known: RemainingBias | None = None,
) -> RemainingBias:
    """Return the estimated second-order bias.

    Shapes: seed_order (n,).
    """
    if functional.linear:
        return RemainingBias(np.zeros(n_scores))
    if not isinstance(mu, CrossFittedMu):
        return RemainingBias(np.full(n_scores, np.nan))
    # Few contexts, so that the comparison is cheap for any number of models; one without features, where mu is the same
    # in all contexts.
    contexts = seed_order[: max(1, min(_MAX_CONTEXTS, _MAX_ENTRIES // n_items**2)) if mu.x.shape[1] else 1]
    terms, is_new = np.empty((len(contexts), n_scores)), np.ones(len(contexts), dtype=bool)
    if known is not None:
        _, among_contexts, among_known = np.intersect1d(
            contexts, known.contexts, assume_unique=True, return_indices=True
        )
        terms[among_contexts], is_new[among_contexts] = known.by_context[among_known], False
    if is_new.any():
        smallest = floor if functional.interior else 0.0
        terms[is_new] = estimate_second_order_bias(functional, mu.trained, mu.x[contexts[is_new]], smallest)
    return RemainingBias(terms.mean(axis=0), contexts, terms)


def warn_about_intervals(
    validity: Validity,
    std_errors: FloatArray,
    models: Sequence[str],
    n_contexts: int,
    interior: bool,
    *,
    remedies: Sequence[str] = (),
    mu_hardly_matters: bool = False,
    pairs_are_derived: bool = False,
) -> None:
    """Warn where the intervals may not hold because labels are too few or too extreme for the functional.

    Shapes: std_errors (d,).
    """
    remedy_text = "".join(f"; {remedy}" for remedy in remedies)
    fewest = int(np.argmin(validity.effective_contexts))
    if validity.effective_contexts[fewest] < _FEWEST_EFFECTIVE:
        outweighing = "Labels with rare outcomes or small propensities outweigh all others"
        if interior:
            advice = "functional='borda' depends least on such labels, and a larger floor= bounds their influence"
            advice += remedy_text
        elif pairs_are_derived:
            outweighing = "The few prompts on which this model does unlike elsewhere outweigh all others"
            advice = "add prompts"
        else:
            advice = "leave pairs with few labels out (min_labels=) or let them count less (edge_weights='counts')"
        warn(
            f"few prompts determine the standard error of {models[fewest]!r}: their effective number is "
            f"{validity.effective_contexts[fewest]:.0f} of {n_contexts:,} prompts, and a reliable interval needs at "
            f"least {_FEWEST_EFFECTIVE:.0f}. {outweighing}, and the interval may be far too short; {advice}",
            stacklevel=2,
            kind=IntervalWarning,
        )
    ratio = np.abs(validity.second_order) / np.where(std_errors > 0, std_errors, np.inf)
    if np.nanmax(ratio, initial=0.0) > _LARGEST_BIAS_RATIO:
        worst = int(np.nanargmax(ratio))
        warn(
            f"too few labels for this functional: the error of the fitted probabilities biases {models[worst]!r} by an "
            f"estimated {validity.second_order[worst]:+.3g}, which is {ratio[worst]:.1f} standard errors; an interval "
            f"is reliable up to a bias of {_LARGEST_BIAS_RATIO:g} standard errors. Collect more labels, or use "
            f"functional='borda', which has no such bias, or average='preferences', the scores of mean preferences, "
            f"from which it is subtracted{remedy_text}",
            stacklevel=2,
            kind=IntervalWarning,
        )
    low, high = _SLOPE_LIMITS
    # Comparisons with NaN are false: without a slope there is no warning.
    is_shifted = validity.recalibration_shift > _SMALLEST_SHIFT and not low <= validity.calibration <= high
    if is_shifted and not mu_hardly_matters:
        direction = "too extreme" if validity.calibration < 1 else "too close to even"
        warn(
            f"the fitted probabilities are {direction}: their calibration slope is {validity.calibration:.2f}, where 1 "
            f"is right and {low:g} to {high:g} is acceptable; try another learner=, or collect more labels",
            stacklevel=2,
            kind=IntervalWarning,
        )
