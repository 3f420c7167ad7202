"""Pairwise comparisons: tests of many differences of scores as one family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.stats import norm

from .._utils.blas import one_thread
from ..data.preferences import FloatArray, IntArray
from .alternatives import Alternative
from .confidence_sequence import ConfidenceSequence
from .covariance import Covariance
from .multiple_testing import (
    benjamini_hochberg,
    bonferroni,
    holm,
    max_t_critical_value,
    max_t_draws,
    max_t_p_values,
    step_down,
)
from .resampling import Contrasts, TStatisticDraws, differences

METHODS = ("max-t", "step-down", "holm", "fdr_bh", "bonferroni", "none")
# Methods that need nothing but the p-values.
_BY_P_VALUES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "holm": holm,
    "fdr_bh": benjamini_hochberg,
    "bonferroni": bonferroni,
    "none": np.asarray,
}
_Adjust: TypeAlias = Callable[[Contrasts, FloatArray], tuple[FloatArray, FloatArray, float]]


@dataclass(frozen=True, slots=True, eq=False)
class PairTests:
    """Tests of J differences of scores; NaN where the functional fixes a difference, or the difference does not vary.

    first, second (J,): Scores whose difference, first - second, is tested.
    estimate, std_error, statistic (J,): Estimated differences, standard errors and z statistics.
    p_value, p_adjusted (J,): p-values, and p-values adjusted for the number of tests.
    low, high (J,): Limits of the intervals.
    critical: Half-width of the intervals in standard errors.
    """

    first: IntArray
    second: IntArray
    estimate: FloatArray
    std_error: FloatArray
    statistic: FloatArray
    p_value: FloatArray
    p_adjusted: FloatArray
    low: FloatArray
    high: FloatArray
    critical: float


@one_thread()
def compare_differences(
    estimate: FloatArray,
    covariance: Covariance,
    draws: TStatisticDraws,
    first: IntArray,
    second: IntArray,
    *,
    method: str,
    alternative: Alternative,
    alpha: float,
) -> PairTests:
    """Test all differences ``estimate[first] - estimate[second]`` as one family.

    Shapes: estimate (K,), first, second (J,).
    """

    def adjust(contrasts: Contrasts, z: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        p = alternative.p_values(z)
        return p, *_adjust_p_values(draws, contrasts, z, p=p, method=method, alternative=alternative, alpha=alpha)

    return _test_differences(estimate, differences(covariance, first, second), alternative, adjust)


def compare_at_all_looks(
    estimate: FloatArray,
    covariance: Covariance,
    sequence: ConfidenceSequence,
    first: IntArray,
    second: IntArray,
    *,
    method: str,
    alternative: Alternative,
) -> PairTests:
    """Test all differences ``estimate[first] - estimate[second]`` as one family, at all looks at once.

    Shapes: estimate (K,), first, second (J,).
    """

    def adjust(contrasts: Contrasts, z: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        n_tests = 1 if method == "none" else len(z)
        boundary = sequence.boundary(n_tests)
        p = alternative.sequential_p_values(z, boundary)
        return p, _BY_P_VALUES[method](p), alternative.sequential_critical(sequence.alpha / n_tests, boundary)

    return _test_differences(estimate, differences(covariance, first, second), alternative, adjust)


def _test_differences(
    estimate: FloatArray, contrasts: Contrasts, alternative: Alternative, adjust: _Adjust
) -> PairTests:
    """Compute statistics, p-values and intervals of differences of scores.

    Shapes: estimate (K,).
    """
    first, second, usable = contrasts.first, contrasts.second, contrasts.usable
    difference = estimate[first] - estimate[second]
    z, p, adjusted = (np.full(len(first), np.nan) for _ in range(3))
    critical = float("nan")
    if usable.any():
        usable_contrasts = contrasts.take(usable)
        z[usable] = alternative.statistics(difference[usable], usable_contrasts.std_error)
        p[usable], adjusted[usable], critical = adjust(usable_contrasts, z[usable])
    half_width = np.where(usable, critical * contrasts.std_error, np.nan)
    low, high = alternative.limits(difference, half_width)
    low, high = (np.where(usable, limit, np.nan) for limit in (low, high))
    return PairTests(first, second, difference, contrasts.std_error, z, p, adjusted, low, high, critical)


def _adjust_p_values(
    draws: TStatisticDraws,
    contrasts: Contrasts,
    z: FloatArray,
    *,
    p: FloatArray,
    method: str,
    alternative: Alternative,
    alpha: float,
) -> tuple[FloatArray, float]:
    """Return adjusted p-values, (J,), and the critical value of the intervals.

    Shapes: z, p (J,).
    """
    tail, n_tests = alternative.tail(alpha), len(p)
    if method in _BY_P_VALUES:
        n_adjusted = 1 if method in ("none", "fdr_bh") else n_tests
        return _BY_P_VALUES[method](p), float(norm.isf(tail / n_adjusted))
    absolute = alternative.side in ("two-sided", "equivalence")
    t = alternative.evidence(z)
    if method == "step-down":
        result = step_down(draws, contrasts, t, absolute=absolute, p=p)[0]
        adjusted, maxima = result.p_adjusted, result.max_t
    else:
        maxima = max_t_draws(draws, contrasts, absolute)
        adjusted = max_t_p_values(t, p, maxima, draws.normal)
    return adjusted, max_t_critical_value(maxima, alpha, tail, n_tests, draws.normal)
