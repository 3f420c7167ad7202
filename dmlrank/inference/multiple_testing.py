"""Multiple testing: adjusted p-values from joint draws of t statistics (max-t), or from the p-values alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from .._utils.computation import one_thread
from ..data.preferences import FloatArray, IntArray
from .resampling import Contrasts, DrawContrasts, Draws, TStatisticDraws

# Number of contrasts whose draws are processed together.
_STEP = 32
# Smallest adjusted p-value that draws can give: one over the number of draws, which is below a million.
_SMALLEST_SHARE = 1e-6

# A quantile of the draws is used only where at least this number of draws lies beyond the quantile. In the same way,
# the share of draws beyond a t statistic is used only where it is the share of at least this number of draws.
_FEWEST_BEYOND = 10


@dataclass(frozen=True, slots=True, eq=False)
class StepDown:
    """Result of a step-down test of a family of m hypotheses.

    p_adjusted (m,): Adjusted p-values in the order of the family.
    max_t (draws,): Draws of the max-t statistic of the whole family.
    """

    p_adjusted: FloatArray
    max_t: Draws


def holm(p: FloatArray) -> FloatArray:
    """Adjust p-values, (m,), by Holm's step-down.

    ``multipletests`` of statsmodels gives the same numbers, but its Holm branch runs the garbage collector and takes
    150 ms a call, where this function takes 0.1 ms; the rank sets of 50 models need 50 calls.
    """
    by_size = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[by_size] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[by_size] = np.minimum(1.0, stepped)
    return adjusted


@one_thread()
def max_t_draws(draws: TStatisticDraws, contrasts: Contrasts, absolute: bool) -> Draws:
    """Draw the max-t statistic, the largest (absolute) t statistic of the contrasts, (draws,)."""
    n_contrasts = len(contrasts.first)
    is_tested = np.zeros(n_contrasts, dtype=bool)
    return step_down(draws, contrasts, np.zeros(n_contrasts), absolute=absolute, is_tested=is_tested)[0].max_t


def max_t_critical_value(maxima: Draws, alpha: float, tail: float, n_tests: int, normal: bool = True) -> float:
    """Return the critical value of a family of tests from draws of the max-t statistic of the family.

    Under normality the exact critical value lies between that of a single test and Bonferroni's, and the quantile of
    the draws is clipped to these limits. Where fewer than ten draws lie beyond the quantile, the critical value is
    Bonferroni's. With draws of a bootstrap there is no upper limit.

    Shapes: maxima (draws,).
    """
    single_test_value = float(norm.isf(tail))
    if not normal:
        return max(float(np.quantile(maxima, 1 - alpha)), single_test_value)
    bonferroni_value = float(norm.isf(tail / n_tests))
    if alpha * len(maxima) < _FEWEST_BEYOND:
        return bonferroni_value
    return float(np.clip(np.quantile(maxima, 1 - alpha), single_test_value, bonferroni_value))


def max_t_p_values(t: FloatArray, p: FloatArray, maxima: Draws, normal: bool = True) -> FloatArray:
    """Adjust p-values by single-step max-t, (m,): below alpha where t exceeds :func:`max_t_critical_value`.

    Shapes: t, p (m,), maxima (draws,).
    """
    sorted_maxima = np.sort(maxima)
    last = len(sorted_maxima) - 1
    # This inverts numpy's quantile, which interpolates between draws.
    share = 1 - np.interp(t.astype(sorted_maxima.dtype), sorted_maxima, np.arange(last + 1) / last)
    if not normal:
        return np.maximum(np.maximum(share, 1 / (last + 2)), p)
    bounds = np.minimum(1.0, p * len(p))
    smallest_share = _FEWEST_BEYOND / (last + 1)
    share = np.where(share < smallest_share, np.minimum(smallest_share, bounds), share)
    return np.clip(share, p, bounds)


class _ExceedanceCounter:
    """Counts the draws in which the running maximum of a family's t statistics reaches each observed t statistic.

    by_size (m,): The hypotheses, the least extreme first.
    t (m,): Their t statistics.
    is_counted (m,): Hypotheses whose number of draws is used afterwards; the numbers of the others may stay zero.
    """

    def __init__(self, by_size: IntArray, t: FloatArray, is_counted: NDArray[np.bool_]) -> None:
        self._by_size, self._t, self._is_counted = by_size, t, is_counted
        self.count = np.zeros(len(by_size))
        self.maxima: list[Draws] = []

    def add(self, draw_contrasts: DrawContrasts, absolute: bool) -> None:
        """Count another block of draws.

        The running maximum at a hypothesis is the largest drawn t statistic of this hypothesis and of all less extreme
        ones. The hypotheses are processed in stretches of ``_STEP``.
        """
        maximum: Draws | None = None
        for start in range(0, len(self._by_size), _STEP):
            part = slice(start, start + _STEP)
            drawn = draw_contrasts(self._by_size[part])
            if absolute:
                np.abs(drawn, out=drawn)
            if maximum is not None:
                np.maximum(drawn[0], maximum, out=drawn[0])
            if maximum is not None and maximum.min() >= self._t[part][-1]:
                # The running maximum before this stretch reaches the stretch's largest observed t in all draws.
                self.count[part] += len(maximum)
                maximum = drawn.max(axis=0)
            elif self._is_counted[part].any():
                for before, after in pairwise(drawn):
                    np.maximum(before, after, out=after)
                t = self._t[part].astype(drawn.dtype)
                self.count[part] += np.count_nonzero(drawn >= t[:, None], axis=1)
                maximum = drawn[-1].copy()
            else:
                maximum = drawn.max(axis=0)
        assert maximum is not None
        self.maxima.append(maximum)


@one_thread()
def step_down(
    draws: TStatisticDraws,
    contrasts: Contrasts,
    t: FloatArray,
    *,
    families: Sequence[IntArray] | None = None,
    absolute: bool = False,
    p: FloatArray | None = None,
    is_tested: NDArray[np.bool_] | None = None,
) -> list[StepDown]:
    """Test families of hypotheses by step-down max-t.

    Each observed t statistic is compared with draws of the largest t statistic of the hypotheses that were not rejected
    before it.

    Shapes: t (J,), p (J,), is_tested (J,).

    References
    ----------
    Romano and Wolf (2005), Exact and approximate stepdown methods for multiple hypothesis testing.
    """
    families = [np.arange(len(t))] if families is None else families
    # With the least extreme hypothesis first, the running maximum is over all hypotheses that are not rejected before.
    sorted_families = [family[np.argsort(t[family], kind="stable")] for family in families]
    tested = np.ones(len(t), dtype=bool) if is_tested is None else is_tested
    counters = [
        # Where Holm's p-value is tiny, the draws have no part in the adjusted one.
        _ExceedanceCounter(
            by_size,
            t[by_size],
            tested[by_size] & (p is None or not draws.normal or holm(p[by_size]) > _SMALLEST_SHARE),
        )
        for by_size in sorted_families
    ]
    for draw_contrasts in draws.blocks(contrasts):
        for counter in counters:
            counter.add(draw_contrasts, absolute)
    results = []
    for family, by_size, counter in zip(families, sorted_families, counters, strict=True):
        max_t = np.concatenate(counter.maxima)
        share = (1.0 + counter.count) / (1.0 + len(max_t))
        if p is not None and draws.normal:
            share = np.clip(share, p[by_size], holm(p[by_size]))
        share[~tested[by_size]] = 1.0
        adjusted = np.empty(len(t))
        adjusted[by_size] = np.maximum.accumulate(share[::-1])[::-1]
        results.append(StepDown(adjusted[family], max_t))
    return results
