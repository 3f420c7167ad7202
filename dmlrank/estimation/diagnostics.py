"""Diagnostics of the intervals: extreme influence values, bias from errors of mu, and miscalibration of mu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from .._utils.tasks_and_threads import warn
from ..data.preferences import FEW_CLUSTERS, FloatArray, IntArray
from ..exceptions import IntervalWarning
from ..nuisance.smooth import minimise
from .cross_fitting import HeldOutLabels
from .influence import InfluenceFunction

# Smallest effective number of contexts behind a standard error without a warning.
_FEWEST_EFFECTIVE = 10.0
# Models with fewer votes than this share of the median are rare.
_RARE = 0.2
# Largest second-order bias without a warning, in standard errors. At 0.5, coverage of 95 % falls to 92 %. Where a bias
# of one standard error is removed, a remainder of half of it is possible.
LARGEST_BIAS = {"removed": 1.0, "partly removed": 0.5, "left in": 0.5}
# Calibration slopes without a warning. A slope outside these limits is ignored where the recalibration would change
# the log of mu by a standard deviation below _SMALLEST_SHIFT: where mu hardly varies, the slope is noise.
_SLOPE_LIMITS = (0.6, 1.6)
_SMALLEST_SHIFT = 0.3
_TINY = 1e-12


# What was done about the second-order bias: "partly removed" where the labels are too few for the full dictionary.
Treatment: TypeAlias = Literal["removed", "partly removed", "left in"]


@dataclass(frozen=True, slots=True, eq=False)
class Validity:
    """Figures that show whether the assumptions behind the intervals hold approximately.

    effective_contexts (d,): Effective number of contexts behind each standard error, (sum phi^2)^2 / sum phi^4: n where
        the influence values of all contexts have the same size.
    second_order (d,): Estimated bias of the one-step estimate that comes from the error of mu where the functional is
        curved, in units of the scores; zero for linear functionals, NaN where no estimate is available.
    second_order_errors (d,): Standard errors of this estimate.
    treatment: Whether the scores still have this bias.
    calibration: Slope of the labels' log-odds on the log-odds of out-of-fold mu: below 1 where mu is too extreme, above
        1 where mu is too close to even.
    log_mu_std: Root mean square, over the categories, of the standard deviation of log mu over the cells. From log mu
        the mean over the categories of the cell is subtracted first.
    """

    effective_contexts: FloatArray
    second_order: FloatArray
    second_order_errors: FloatArray
    treatment: Treatment
    calibration: float
    log_mu_std: float


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
    count = labels.cells.count
    mean = np.average(log_mu, axis=1, weights=count)
    spread = float(np.sqrt(np.average(np.square(log_mu - mean[:, None]), axis=1, weights=count).mean()))
    if not spread > 1e-6:
        return float("nan"), spread
    votes, n = labels.cells.n_votes.astype(float), labels.cells.n_labels
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


# Models that the warning of few prompts names, at most.
_MOST_NAMED = 20
# Why few prompts may determine the standard error of a model's scores.
FEW_UNLIKE = "The few prompts on which this model does unlike elsewhere outweigh all others"


def warn_of_few_prompts(
    effective: FloatArray, models: Sequence[str], n_contexts: int, outweighing: str, advice: str
) -> None:
    """Warn where a standard error rests on few prompts; such models are named unless they are very many or all.

    Shapes: effective (d,).
    """
    few = [int(j) for j in np.argsort(effective, kind="stable") if effective[j] < _FEWEST_EFFECTIVE]
    if few:
        if n_contexts <= FEW_CLUSTERS:
            outweighing = "The number of prompts is the cause, which other options cannot mend"
            advice = f"collect votes or scores on more than {FEW_CLUSTERS} prompts"
        named = few if len(few) <= min(_MOST_NAMED, len(effective) - 1) else few[:1]
        others = len(few) - len(named)
        more = f" ({others} further {'has' if others == 1 else 'have'} fewer, too)" if others else ""
        # Rounded up, a number may equal the one that is needed.
        numbers = [str(min(round(effective[j]), round(_FEWEST_EFFECTIVE) - 1)) for j in (named[0], named[-1])]
        warning = IntervalWarning(
            f"few prompts determine the standard error of {', '.join(repr(models[j]) for j in named)}: their effective "
            f"number is {' to '.join(dict.fromkeys(numbers))} of {n_contexts:,} prompts, and a reliable interval "
            f"needs at least {_FEWEST_EFFECTIVE:.0f}{more}. {outweighing}, and the interval may be far too "
            f"short; {advice}"
        )
        warning.models = tuple(models[j] for j in named if not others and n_contexts > FEW_CLUSTERS)
        warn(warning)


def warn_about_intervals(
    validity: Validity,
    std_errors: FloatArray,
    models: Sequence[str],
    n_contexts: int,
    interior: bool,
    *,
    remedies: Sequence[str] = (),
    votes: IntArray | None = None,
    mu_hardly_matters: bool = False,
    pairs_are_derived: bool = False,
) -> None:
    """Warn where the intervals may not hold because labels are too few or too extreme for the functional.

    Shapes: std_errors (d,), votes of each model (d,).
    """
    remedy_text = "".join(f"; {remedy}" for remedy in remedies)
    outweighing = "Labels with rare outcomes or of rarely compared pairs outweigh all others"
    has_few = validity.effective_contexts < _FEWEST_EFFECTIVE
    if votes is not None and has_few.any() and (votes[has_few] < _RARE * np.median(votes)).all():
        bounded = ["a larger floor, learning=Learning(floor=...), bounds the influence of their labels"] * interior
        without = f"res.update(min_votes={votes[has_few].max() + 1}) leaves out models with so few votes"
        advice = "; ".join([without, *bounded, *remedies])
    elif interior:
        advice = "functional='borda' depends least on such labels, and a larger floor, learning=Learning(floor=...), "
        advice += "bounds their influence"
        advice += remedy_text
    elif pairs_are_derived:
        outweighing, advice = FEW_UNLIKE, "add prompts"
    else:
        advice = "; ".join(["leave pairs with few labels out (pairs=Pairs(min_labels=...))", *remedies])
    warn_of_few_prompts(validity.effective_contexts, models, n_contexts, outweighing, advice)
    is_certain = np.abs(validity.second_order) > 2 * validity.second_order_errors
    ratio = np.where(is_certain, np.abs(validity.second_order), 0.0) / np.where(std_errors > 0, std_errors, np.inf)
    worst = int(ratio.argmax())
    if ratio[worst] > LARGEST_BIAS[validity.treatment]:
        warn(
            f"too few labels for this functional: the error of the fitted probabilities biases {models[worst]!r} by an "
            f"estimated {validity.second_order[worst]:+.3g}, which is {ratio[worst]:.1f} standard errors and was "
            f"{validity.treatment}. Intervals are reliable where it is at most {LARGEST_BIAS[validity.treatment]:g} "
            f"times the standard error. Collect more labels, or use functional='borda', which has no such bias, or "
            f"average='preferences', the scores of mean preferences{remedy_text}",
            kind=IntervalWarning,
        )
    low, high = _SLOPE_LIMITS
    # Standard deviation of the change of log mu that a recalibration makes; negative slopes count as zero. Comparisons
    # with NaN are false: without a slope there is no warning.
    shift = abs(1 - max(validity.calibration, 0.0)) * validity.log_mu_std
    if shift > _SMALLEST_SHIFT and not low <= validity.calibration <= high and not mu_hardly_matters:
        direction = "too extreme" if validity.calibration < 1 else "too close to even"
        warn(
            f"the fitted probabilities are {direction}: their calibration slope is {validity.calibration:.2f}, where 1 "
            f"is right and {low:g} to {high:g} is acceptable; try another learner=, or collect more labels",
            kind=IntervalWarning,
        )
