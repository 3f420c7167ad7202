"""Fragility: how few votes, contexts or groups of rows turn a result if they are dropped, confirmed by refits.

A result turns when the sign of a contrast of scores changes, or when the contrast is no longer significant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray, IntArray
from ..fit.state import FitSteps
from .dropped_rows import Refit, RefitFrames, contrast_error
from .influential_units import Units, smallest_set

# How much larger the set becomes after a refit that did not turn the result.
_GROWTH = 1.2
# Largest number of refits for one result.
MAX_REFITS = 12


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A result that may turn: the sign of a contrast, or its significance.

    contrast (d,): Coefficients of the scores.
    value: The value that the contrast is compared with, in the functional's own unit.
    critical: 0 for the sign. For significance, the half-width of the interval in standard errors.
    """

    label: str
    contrast: FloatArray
    value: float
    critical: float = 0.0

    def sign(self, steps: FitSteps) -> float:
        """Return 1 where the estimate is above the value, else -1."""
        return 1.0 if self.contrast @ steps.influence.estimate >= self.value else -1.0

    def distance(self, estimate: float, std_error: float, sign: float) -> float:
        """Return how far an estimate is from turning; negative where it has turned."""
        return sign * (estimate - self.value) - self.critical * std_error


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """How many units turn a result.

    dropped: The smallest set of units that turned the result, or the last one that did not; None where half of the
        units do not suffice.
    before: Estimate of the contrast.
    after: Estimate after the refit without these units; NaN where the refit failed.
    confirmed: Whether the result turned in the refit without ``dropped``.
    n_refits: Number of all refits.
    failure: Why the refit without ``dropped`` failed; empty where it did not.
    """

    question: Question
    dropped: IntArray | None
    before: float
    after: float
    confirmed: bool
    n_refits: int
    failure: str = ""


def predicted_set(steps: FitSteps, units: Units, question: Question) -> IntArray | None:
    """Return the fewest units that turn a result, by their influence; None where half of the units do not suffice.

    For significance, the standard error without the first k units is approximated by the standard error of the fit,
    times the root of the share of the squared influence that the other units have, times n / (contexts left).
    """
    contrast = question.contrast
    sign = question.sign(steps)
    estimate, std_error = float(contrast @ steps.influence.estimate), contrast_error(steps.covariance, contrast)
    effect = sign * (units.influence @ contrast)
    if question.distance(estimate, std_error, sign) < 0:
        return np.array([], dtype=np.intp)
    distance = sign * (estimate - question.value)
    margin = None
    if question.critical:
        order = np.argsort(-effect, kind="stable")
        total = float(np.square(effect).sum())
        left = np.maximum(1 - np.cumsum(np.square(effect[order])) / total, 0.0)
        n_left = np.maximum(units.n_contexts - np.cumsum(units.weight[order]), 1e-9)
        margin = question.critical * std_error * np.sqrt(left) * units.n_contexts / n_left
    return smallest_set(effect, units.weight, distance, units.n_contexts, margin)


def answer(steps: FitSteps, frames: RefitFrames, units: Units, question: Question) -> Answer:
    """Return how many units turn a result, confirmed by refits."""
    before = float(question.contrast @ steps.influence.estimate)
    predicted = predicted_set(steps, units, question)
    if predicted is not None and not len(predicted):
        return Answer(question, predicted, before, before, confirmed=True, n_refits=0)
    sign = question.sign(steps)
    effect = sign * (units.influence @ question.contrast)
    order = np.argsort(-effect, kind="stable")
    largest = min(len(units) // 2, int((effect > 0).sum()))
    # The smallest set that turned the result, the largest set that did not, and the last refit of either kind.
    turned: tuple[int, Refit] | None = None
    last = (0, Refit(before, float("nan")))
    number = largest if predicted is None else min(len(predicted), largest)
    n_refits = 0
    while n_refits < MAX_REFITS:
        n_refits += 1
        refit = _refit(frames, units, order[:number], question)
        if not refit.failure and question.distance(refit.estimate, refit.std_error, sign) < 0:
            turned = number, refit
        else:
            last = number, refit
        if turned is not None and last[0] + 1 >= turned[0]:
            break
        if turned is None and (refit.failure or number >= largest):
            break
        number = (last[0] + turned[0]) // 2 if turned else min(max(number + 1, int(_GROWTH * number)), largest)
    dropped, refit = turned or last
    is_enough = turned is not None or number < largest
    return Answer(
        question,
        order[:dropped] if is_enough else None,
        before,
        refit.estimate,
        turned is not None,
        n_refits,
        refit.failure,
    )


def _refit(frames: RefitFrames, units: Units, dropped: IntArray, question: Question) -> Refit:
    """Fit again without some units."""
    members = units.members(dropped)
    if units.of_votes:
        return frames.without_votes(members, question.contrast)
    return frames.without_contexts(members, question.contrast)
