"""Tests that means do not change between periods, from arrays: one test for each period and column.

Let e be the residuals of a column, centred within strata; for votes, a stratum is a pair of models. For a period t, the
sum of e over the period is compared with the variance of this sum if times were exchanged at random within strata.
This is the Mantel-Haenszel test of mean scores. With one stratum it is the score test that compares the mean of the
period with the mean of all other periods. Rows of one prompt or cluster may depend on each other; their terms are
therefore summed before they are squared, where this makes the variance larger.

Sources: Mantel (1963), Chi-square tests with one degree of freedom; extensions of the Mantel-Haenszel procedure, JASA.
Landis, Heyman and Koch (1978), Average partial association in three-way contingency tables, International Statistical
Review. Liang and Zeger (1986), Longitudinal data analysis using generalized linear models, Biometrika, for sums over
clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from ..data.preferences import FloatArray, IntArray
from ..inference.multiple_testing import holm

# Fewest rows of a column, and fewest clusters, with which a period is tested. A row counts if its stratum also has rows
# in other periods.
FEWEST_ROWS = 20
# Effective number of rows of a column, (sum e^2)^2 / sum e^4, that is expected in a period: below this number, for
# instance where an event is rare, the sum over a period is not close to normal.
_FEWEST_EFFECTIVE = 10.0
# A feature follows the time if, in the order of time, it has at least this many rows for each change of its value.
_FEWEST_ROWS_BY_CHANGE = 5


@dataclass(frozen=True, slots=True, eq=False)
class DriftTests:
    """Tests of T periods and d columns; NaN where a period has too few rows for a test of a column.

    n_rows (T, d): Rows of the period that count for the column: those of strata that have rows in other periods, too.
    difference (T, d): Mean of the period minus mean of the other periods, within strata.
    z (T, d): Sum over the period, divided by its standard error.
    p_value (T, d): Two-sided p-values, from the t distribution with one degree of freedom less than there are clusters
        of rows in the period.
    p_adjusted (T, d): p-values adjusted for all tests by Holm's method.
    """

    n_rows: IntArray
    difference: FloatArray
    z: FloatArray
    p_value: FloatArray
    p_adjusted: FloatArray


class Column(NamedTuple):
    """Values of a column in the n rows that belong to it.

    value (n,).
    period (n,): Period of each row, from 0.
    stratum (n,): Stratum of each row; means are compared within strata.
    clusters (n,): Groupings of rows that may depend on each other; none where all rows are independent. The largest of
        the variances counts.
    """

    value: FloatArray
    period: IntArray
    stratum: IntArray
    clusters: Sequence[IntArray] = ()


def drift_tests(columns: Iterable[Column], n_periods: int) -> DriftTests:
    """Test for each period and column whether the mean of the period is that of the other periods."""
    by_column = [_tests_of_column(column, n_periods) for column in columns]
    # (d, 4, T), also without columns.
    stacked = np.array(by_column).reshape(-1, 4, n_periods)
    n_rows, difference, z, p_value = (stacked[:, part].T for part in range(4))
    is_tested = np.isfinite(p_value)
    p_adjusted = np.full(p_value.shape, np.nan)
    p_adjusted[is_tested] = holm(p_value[is_tested])
    return DriftTests(n_rows.astype(np.intp), difference, z, p_value, p_adjusted)


def _tests_of_column(column: Column, n_periods: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return rows that count, differences, z statistics and p-values of one column by period, (T,) each."""
    stratum, strata = pd.factorize(column.stratum)
    n_cells = np.bincount(stratum * n_periods + column.period, minlength=len(strata) * n_periods)
    n_cells = n_cells.reshape(len(strata), n_periods)
    n_of_stratum = n_cells.sum(axis=1)
    share = n_cells / n_of_stratum[:, None]
    residual = column.value - (np.bincount(stratum, column.value) / n_of_stratum)[stratum]
    # Rounding must not count as variation.
    residual[np.abs(residual) < 1e-12 * np.abs(column.value).max(initial=0.0)] = 0.0
    divisor = n_of_stratum / np.maximum(n_of_stratum - 1, 1)
    variance = (share * (1 - share) * (np.bincount(stratum, residual**2) * divisor)[:, None]).sum(axis=0)
    n_clusters = np.bincount(column.period, minlength=n_periods)
    for grouping in column.clusters:
        cluster, levels = pd.factorize(grouping)
        scaled = residual * np.sqrt(divisor)[stratum]
        for t in range(n_periods):
            inside = column.period == t
            terms = (inside - share[stratum, t]) * scaled
            variance[t] = max(variance[t], np.square(np.bincount(cluster, terms, len(levels))).sum())
            n_clusters[t] = min(n_clusters[t], len(np.unique(cluster[inside])))
    n_rows = (n_cells * (share < 1)).sum(axis=0)
    fourth = (residual**4).sum()
    effective = (residual**2).sum() ** 2 / fourth if fourth > 0 else 0.0
    is_enough = (np.minimum(n_rows, n_clusters) >= FEWEST_ROWS) & (variance > 0)
    is_enough &= effective * n_rows >= _FEWEST_EFFECTIVE * len(residual)
    total = np.bincount(column.period, residual, n_periods)
    untested = np.full(n_periods, np.nan)
    difference = np.divide(total, (n_cells * (1 - share)).sum(axis=0), out=untested.copy(), where=is_enough)
    z = np.divide(total, np.sqrt(variance), out=untested, where=is_enough)
    return n_rows, difference, z, 2 * scipy.stats.t.sf(np.abs(z), np.maximum(n_clusters - 1, 1))


def follows_time(values: NDArray[np.floating]) -> bool:
    """Return whether a feature, in the order of time, (n,), follows the time itself: a day number, or a month.

    Such a feature never decreases or never increases, or its value changes rarely compared with the number of rows that
    do not have the most frequent value. A constant does not follow the time.
    """
    steps = np.diff(values[~np.isnan(values)])
    n_changes = int((steps != 0).sum())
    if n_changes == 0:
        return False
    if n_changes > 1 and ((steps >= 0).all() or (steps <= 0).all()):
        return True
    n_rows = len(values) - int(np.unique(values, return_counts=True)[1].max())
    return _FEWEST_ROWS_BY_CHANGE * n_changes <= n_rows


def bounded_features(x: NDArray[np.floating], names: Sequence[str], most: int = 50) -> tuple[FloatArray, list[str]]:
    """Return standardised features with indicators of missing values; random projections where there are many.

    Features that do not vary are left out. Missing values are replaced by the mean. More than ``most`` features are
    projected at random on ``most`` directions, the same ones each time.

    Shapes: x (n, p), returns (n, d).
    """
    values = np.asarray(x, dtype=float)
    is_missing = np.isnan(values)
    with_missing = np.flatnonzero(is_missing.any(axis=0) & ~is_missing.all(axis=0))
    n_present = np.maximum((~is_missing).sum(axis=0), 1)
    mean = np.where(is_missing, 0.0, values).sum(axis=0) / n_present
    filled = np.where(is_missing, mean, values)
    filled = np.concatenate([filled, is_missing[:, with_missing]], axis=1)
    all_names = [*names, *(f"{names[j]} (missing)" for j in with_missing.tolist())]
    deviation = filled - filled.mean(axis=0)
    scale = np.sqrt((deviation**2).mean(axis=0))
    varies = scale > 1e-12 * np.maximum(np.abs(filled).max(axis=0, initial=0.0), 1e-300)
    columns = deviation[:, varies] / scale[varies]
    varying_names = [name for name, does_vary in zip(all_names, varies, strict=True) if does_vary]
    if len(varying_names) <= most:
        return columns, varying_names
    directions = np.random.default_rng(0).normal(size=(len(varying_names), most)) / np.sqrt(len(varying_names))
    return columns @ directions, [f"projection {number + 1} of {len(varying_names)} features" for number in range(most)]
