"""Multiple testing: adjusted p-values from joint draws of t statistics (max-t), or from the p-values alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from statsmodels.stats.multitest import multipletests

from ..data.preferences import FloatArray, IntArray
from .resampling import Contrasts, Row, Rows, TStatisticDraws

# Contrasts that are looked at together.
_STEP = 32
# No share of draws is smaller: there are fewer than a million.
_FINEST = 1e-6

# With fewer draws than these further out, a quantile or a share of the draws is not known.
_FEWEST_BEYOND = 10


@dataclass(frozen=True, slots=True, eq=False)
class StepDown:
    """What a step-down over a family of hypotheses brings.

    Attributes
    ----------
    p_adjusted : ndarray, shape (m,)
        In the order of the family.
    max_t : ndarray, shape (draws,)
        Draws of the max-t statistic of the whole family.
    """

    p_adjusted: FloatArray
    max_t: FloatArray


def bonferroni(p: FloatArray) -> FloatArray:
    """p-values times their number, at most one, (m,)."""
    return np.asarray(multipletests(p, method="bonferroni")[1], dtype=np.float64)


def holm(p: FloatArray) -> FloatArray:
    """Holm's step-down, (m,).

    statsmodels' ``multipletests`` gives the same numbers, and its Holm branch runs the garbage collector: 150 ms a call
    where this takes 0.1 ms, and the rank sets of 50 models ask 50 times.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, stepped)
    return adjusted


def benjamini_hochberg(p: FloatArray) -> FloatArray:
    """Benjamini and Hochberg's step-up, which bounds the false discovery rate, (m,)."""
    return np.asarray(multipletests(p, method="fdr_bh")[1], dtype=np.float64)


def max_t_draws(draws: TStatisticDraws, contrasts: Contrasts, absolute: bool) -> FloatArray:
    """Draws of the max-t statistic, the largest t statistic of the contrasts, (draws,)."""
    nothing = np.zeros(len(contrasts.first), dtype=bool)
    return step_down(draws, contrasts, np.zeros(len(nothing)), absolute=absolute, counted=nothing)[0].max_t


def max_t_critical_value(maxima: FloatArray, alpha: float, tail: float, number: int, normal: bool = True) -> float:
    """Critical value of a family of tests from draws of its max-t statistic.

    Under normality the exact value lies between that of one test and Bonferroni's, so that no draw can put it outside;
    where fewer than ten draws lie further out, it is Bonferroni's. Draws of a bootstrap have no such upper bound.

    Parameters
    ----------
    maxima : ndarray, shape (draws,)
    alpha : float
        Family-wise error.
    tail : float
        Error beyond each limit of a test for itself at this level: half of alpha where both sides can err.
    number : int
        Tests of the family.
    normal : bool
        Whether every t statistic is standard normal.

    Examples
    --------
    >>> draws = np.abs(np.random.default_rng(0).standard_normal((1000, 2))).max(axis=1)
    >>> round(max_t_critical_value(draws, 1e-9, 5e-10, 2), 3) == round(float(norm.isf(2.5e-10)), 3)
    True
    """
    single = float(norm.isf(tail))
    if not normal:
        return max(float(np.quantile(maxima, 1 - alpha)), single)
    bound = float(norm.isf(tail / number))
    if alpha * len(maxima) < _FEWEST_BEYOND:
        return bound
    return float(np.clip(np.quantile(maxima, 1 - alpha), single, bound))


def max_t_p_values(t: FloatArray, p: FloatArray, maxima: FloatArray, normal: bool = True) -> FloatArray:
    """p-values adjusted by single-step max-t, (m,): below alpha where t is beyond :func:`max_t_critical_value`.

    Parameters
    ----------
    t, p : ndarray, shape (m,)
        t statistics, large against the hypothesis, and their p-values each for itself.
    maxima : ndarray, shape (draws,)
        Draws of the largest t statistic.
    normal : bool
        Whether every t statistic is standard normal.
    """
    ordered = np.sort(maxima)
    last = len(ordered) - 1
    # The inverse of numpy's quantile, which interpolates between draws.
    share = 1 - np.interp(t.astype(ordered.dtype), ordered, np.arange(last + 1) / last)
    if not normal:
        return np.maximum(np.maximum(share, 1 / (last + 2)), p)
    bounds = bonferroni(p)
    sparse = _FEWEST_BEYOND / (last + 1)
    share = np.where(share < sparse, np.minimum(sparse, bounds), share)
    return np.clip(share, p, bounds)


class _Stepwise:
    """How many draws of the running maximum over a family's t statistics reach each of the observed ones.

    Parameters
    ----------
    order : ndarray of int, shape (m,)
        The hypotheses, the least extreme first.
    reached : ndarray, shape (m,)
        Their t statistics.
    wanted : ndarray of bool, shape (m,)
        Where the number of draws is asked for.
    """

    def __init__(self, order: IntArray, reached: FloatArray, wanted: NDArray[np.bool_]) -> None:
        self._order, self._reached, self._wanted = order, reached, wanted
        self.count = np.zeros(len(order))
        self.maxima: list[NDArray[Any]] = []

    def add(self, rows: Rows, absolute: bool) -> None:
        """Count in another block of draws."""
        top: Row | None = None
        for start in range(0, len(self._order), _STEP):
            part = slice(start, start + _STEP)
            drawn = rows(self._order[part])
            if absolute:
                np.abs(drawn, out=drawn)
            if top is not None:
                np.maximum(drawn[0], top, out=drawn[0])
            if top is not None and top.min() >= self._reached[part][-1]:
                self.count[part] += len(top)
            elif self._wanted[part].any():
                for before, after in pairwise(drawn):
                    np.maximum(before, after, out=after)
                reached = self._reached[part].astype(drawn.dtype)
                self.count[part] += np.count_nonzero(drawn >= reached[:, None], axis=1)
                top = drawn[-1].copy()
                continue
            top = drawn.max(axis=0)
        assert top is not None
        self.maxima.append(top)


def _undecided(p: FloatArray | None, order: IntArray, normal: bool) -> NDArray[np.bool_]:
    """Where the draws decide on the adjusted p-value, (m,), and Holm's is not below what any number of them gives."""
    if p is None or not normal:
        return np.ones(len(order), dtype=bool)
    return np.asarray(holm(p[order]) > _FINEST)


def step_down(
    draws: TStatisticDraws,
    contrasts: Contrasts,
    t: FloatArray,
    *,
    families: Sequence[IntArray] | None = None,
    absolute: bool = False,
    p: FloatArray | None = None,
    counted: NDArray[np.bool_] | None = None,
) -> list[StepDown]:
    """Step-down max-t: each t statistic against the largest of those hypotheses that are not rejected before it.

    Parameters
    ----------
    draws : TStatisticDraws
    contrasts : Contrasts
        J of them.
    t : ndarray, shape (J,)
        Hypotheses are rejected where t is large.
    families : sequence of ndarray of int, optional
        Hypotheses that belong together; all of them when None. Several families share the draws.
    absolute : bool
        Whether the sizes of drawn t statistics count, or their values.
    p : ndarray, shape (J,), optional
        p-values of each hypothesis for itself; where the draws are normal, the adjusted ones lie between them and
        Holm's.
    counted : ndarray of bool, shape (J,), optional
        Hypotheses whose p-value is wanted, all when None; the others take part, and theirs is one. They have to be the
        least extreme ones.

    References
    ----------
    Romano and Wolf (2005), Exact and approximate stepdown methods for multiple hypothesis testing.
    """
    families = [np.arange(len(t))] if families is None else families
    # The least extreme first: the running maximum is then over all that come after in the step-down.
    orders = [family[np.argsort(t[family], kind="stable")] for family in families]
    open_ = np.ones(len(t), dtype=bool) if counted is None else counted
    stepwise = [_Stepwise(order, t[order], _undecided(p, order, draws.normal) & open_[order]) for order in orders]
    for rows in draws.blocks(contrasts):
        for family_steps in stepwise:
            family_steps.add(rows, absolute)
    counts, maxima = [steps.count for steps in stepwise], [steps.maxima for steps in stepwise]
    results = []
    for family, order, count, parts in zip(families, orders, counts, maxima, strict=True):
        max_t = np.concatenate(parts)
        share = _share(count, len(max_t))
        if p is not None and draws.normal:
            share = np.clip(share, p[order], holm(p[order]))
        if counted is not None:
            share[~counted[order]] = 1.0
        adjusted = np.empty(len(t))
        adjusted[order] = np.maximum.accumulate(share[::-1])[::-1]
        results.append(StepDown(adjusted[family], max_t))
    return results


def _share(count: FloatArray | IntArray, n_draws: int) -> FloatArray:
    return (1.0 + count.astype(float)) / (1.0 + n_draws)
