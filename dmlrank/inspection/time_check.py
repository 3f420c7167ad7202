"""The part of a check that is about time: availability of models, votes per period, drift of prompts and of votes.

Drift is tested from arrays: that means do not change between periods, by one test for each period and column.

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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from .._utils.argument_checks import check_text
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.vote_columns import Clusters, Times, read_times
from ..exceptions import OptionError, check_choice
from ..functionals import CategoryWeights
from ..inference.bootstrap_and_max_t import holm
from ..options import PERIODS

# Name of each kind of period, with pandas' name for it.
_FREQUENCIES = dict(zip(PERIODS[1:], ("h", "D", "W-SUN", "M", "Q", "Y"), strict=True))
# Largest number of periods.
_MOST_PERIODS = 500
# "auto" takes the first kind whose limit, in days, is not below the time that the data span; years beyond all limits.
_SPANS = ((4, "hour"), (28, "day"), (2 * 366, "week"), (10 * 366, "month"))


@dataclass(frozen=True, slots=True, eq=False)
class TimeCheck:
    """What a check finds about time, with ``time=``; all times are in UTC.

    Attributes
    ----------
    column : str
        The column of times.
    period : {"hour", "day", "week", "month", "quarter", "year"}
        Kind of the periods; weeks begin on Monday.
    first, last : Timestamp
        Times of the first and the last row.
    periods : DataFrame
        By period, without gaps: ``prompts`` (by their first row), ``votes``, ``models`` with votes, and the smallest
        adjusted p-values of the period, ``p_prompts`` and ``p_votes``; NaN where nothing could be tested.
    models : DataFrame
        By model: ``first`` and ``last`` vote, ``periods`` with votes, and ``share_prompts``, the share of prompts
        between the first and the last vote.
    pairs : DataFrame
        A row per unordered pair: ``first second together together_from together_until share_prompts votes``. A pair is
        ``together`` if the times from first to last vote of its two models overlap. ``share_prompts`` is the share of
        prompts in the overlap.
    prompts : DataFrame
        Tests of the drift of prompts: ``period feature prompts difference z p_value p_adjusted``. ``difference`` is the
        mean of the feature in the period minus its mean in all other periods, in standard deviations.
    votes : DataFrame
        Tests of the drift of votes: ``period model votes difference z p_value p_adjusted``. ``difference`` is the
        model's share of wins in the period minus its share in the other periods, against the same opponents.
    time_features : tuple of str
        Features that are not tested because they follow the time itself, such as the month.
    """

    column: str
    period: str
    first: pd.Timestamp
    last: pd.Timestamp
    periods: pd.DataFrame
    models: pd.DataFrame
    pairs: pd.DataFrame
    prompts: pd.DataFrame
    votes: pd.DataFrame
    time_features: tuple[str, ...] = ()

    @property
    def never_together(self) -> pd.DataFrame:
        """The pairs that were never available at the same time."""
        return self.pairs[~self.pairs["together"]]


def inspect_time(
    data: PreferenceData, column: str, kind: str, *, clusters: Clusters | None, by_order: bool
) -> TimeCheck:
    """Return what the times of the rows say about availability and drift."""
    row_times = read_times(data.columns[column], column)
    periods = divide_time(row_times, kind)
    # The time of a context is the earliest among its rows.
    context_times = pd.Series(row_times).groupby(data.row_context).min().to_numpy()
    vote_times = row_times[data.vote_row]
    vote_period, context_period = periods.number_of(vote_times), periods.number_of(context_times)
    is_time_feature = np.array([follows_time(values[np.argsort(context_times)]) for values in data.x.T], dtype=bool)
    tested = np.flatnonzero(~is_time_feature)
    values, feature_names = bounded_features(data.x[:, tested], [data.feature_map.names[j] for j in tested])
    of_contexts, of_votes = _groupings(data, clusters)
    one_stratum = np.zeros(data.n_contexts, dtype=np.intp)
    n_periods = len(periods.names)
    prompts = drift_tests((Column(x, context_period, one_stratum, of_contexts) for x in values.T), n_periods)
    votes = drift_tests(_wins_by_model(data, vote_period, of_votes, by_order=by_order), n_periods)
    # A row for each vote and each of its two models.
    appearances = pd.DataFrame(
        {
            "model": np.concatenate([data.cells.first[data.vote_cell], data.cells.second[data.vote_cell]]),
            "period": np.tile(vote_period, 2),
            "time": np.tile(vote_times, 2),
        }
    )
    by_model = appearances.groupby("model")
    available = by_model["time"].agg(["min", "max"]).reindex(range(data.n_items))
    first, last = available["min"].to_numpy(), available["max"].to_numpy()
    shares = _shares_together(first, last, context_times)
    n_of_model = by_model["period"].nunique().reindex(range(data.n_items), fill_value=0)
    n_of_period = appearances.groupby("period")["model"].nunique().reindex(range(n_periods), fill_value=0)
    return TimeCheck(
        column=column,
        period=periods.kind,
        time_features=tuple(np.array(data.feature_map.names, dtype=object)[is_time_feature]),
        first=pd.Timestamp(row_times.min()),
        last=pd.Timestamp(row_times.max()),
        periods=pd.DataFrame(
            {
                "prompts": np.bincount(context_period, minlength=n_periods),
                "votes": np.bincount(vote_period, minlength=n_periods),
                "models": n_of_period.to_numpy(),
                "p_prompts": pd.DataFrame(prompts.p_adjusted).min(axis=1).to_numpy(),
                "p_votes": pd.DataFrame(votes.p_adjusted).min(axis=1).to_numpy(),
            },
            index=pd.Index(periods.names, name="period"),
        ),
        models=pd.DataFrame(
            {"first": first, "last": last, "periods": n_of_model.to_numpy(), "share_prompts": np.diag(shares)},
            index=pd.Index(data.items, name="model"),
        ),
        pairs=_pair_table(data, first, last, shares),
        prompts=_test_table(prompts, periods.names, feature_names, ("feature", "prompts")),
        votes=_test_table(votes, periods.names, list(data.items), ("model", "votes")),
    )


def _groupings(data: PreferenceData, clusters: Clusters | None) -> tuple[tuple[IntArray, ...], tuple[IntArray, ...]]:
    """Return groupings of contexts, (n,), and of votes, (v,), that may depend on each other; none for independence."""
    context = data.cells.context[data.vote_cell]
    if clusters is None:
        return (), (() if len(np.unique(context)) == len(context) else (context,))
    of_contexts = [code for code in (clusters.of_context, clusters.second_of_context) if code is not None]
    of_votes = [code[context] for code in of_contexts] + ([] if clusters.of_vote is None else [clusters.of_vote])
    return tuple(of_contexts), tuple(of_votes)


def _wins_by_model(
    data: PreferenceData, period: IntArray, groupings: tuple[IntArray, ...], *, by_order: bool
) -> Iterator[Column]:
    """Yield for each model its shares of wins in the votes on it, (v,); a tie counts one half."""
    first, second = data.cells.first[data.vote_cell], data.cells.second[data.vote_cell]
    win_share: FloatArray = data.vote_y @ np.array(CategoryWeights.half(data.n_categories).first)
    opponents = np.stack([second, first]) + np.array([[0], [data.n_items if by_order else 0]])
    for model in range(data.n_items):
        as_first, as_second = np.flatnonzero(first == model), np.flatnonzero(second == model)
        votes = np.concatenate([as_first, as_second])
        value = np.concatenate([win_share[as_first], 1 - win_share[as_second]])
        stratum = np.concatenate([opponents[0, as_first], opponents[1, as_second]])
        yield Column(value, period[votes], stratum, tuple(grouping[votes] for grouping in groupings))


def _shares_together(first: Times, last: Times, context_times: Times) -> FloatArray:
    """Return the share of prompts at whose time both models of a pair, or one model, were available, (K, K)."""
    ordered = np.sort(context_times)
    start, end = np.maximum.outer(first, first), np.minimum.outer(last, last)
    count = np.searchsorted(ordered, end, side="right") - np.searchsorted(ordered, start, side="left")
    return np.asarray(np.maximum(count, 0) / len(ordered))


def _pair_table(data: PreferenceData, first: Times, last: Times, shares: FloatArray) -> pd.DataFrame:
    """Return a row for each unordered pair: when both models were available, for which prompts, with which votes."""
    j, k = np.triu_indices(data.n_items, 1)
    names, votes = np.array(data.items, dtype=object), data.pair_votes()
    start, end = np.maximum(first[j], first[k]), np.minimum(last[j], last[k])
    together = start <= end
    return pd.DataFrame(
        {
            "first": names[j],
            "second": names[k],
            "together": together,
            "together_from": pd.Series(start).where(together),
            "together_until": pd.Series(end).where(together),
            "share_prompts": shares[j, k],
            "votes": votes[j, k] + votes[k, j],
        }
    )


def _test_table(tests: DriftTests, periods: tuple[str, ...], names: list[str], words: tuple[str, str]) -> pd.DataFrame:
    """Return the tests that were made as a table, a row for each."""
    period, column = np.nonzero(np.isfinite(tests.p_value))
    cells: dict[str, object] = {"period": np.array(periods, dtype=object)[period]}
    cells |= {words[0]: np.array(names, dtype=object)[column], words[1]: tests.n_rows[period, column]}
    numbers = {name: getattr(tests, name)[period, column] for name in ("difference", "z", "p_value", "p_adjusted")}
    return pd.DataFrame(cells | numbers)


# --- periods ----------------------------------------------------------------------------------------------------------


def check_time_options(time: object, period: object) -> None:
    """Raise unless ``time`` is a name or None, and ``period`` a kind of period, which needs ``time``."""
    if time is not None:
        check_text("time", time)
    check_text("period", period)
    check_choice(period, PERIODS, "period")
    if time is None and period != "auto":
        raise OptionError(f"period={period!r} divides the times of a column; name this column in time=")


@dataclass(frozen=True, slots=True, eq=False)
class Periods:
    """The periods from the first to the last time of a data set, without gaps.

    kind: Weeks begin on Monday. All periods begin and end in UTC.
    names: Names of the periods: the day on which a week begins, ``2024-05`` for a month.
    first: Number of the first period, as pandas numbers the periods of this kind from 1970 on.
    """

    kind: str
    names: tuple[str, ...]
    first: int

    def number_of(self, times: Times) -> IntArray:
        """Return the period of each time, (n,), counted from 0."""
        ordinals = pd.DatetimeIndex(times).to_period(_FREQUENCIES[self.kind]).asi8
        return (ordinals - self.first).astype(np.intp)


def divide_time(times: Times, kind: str) -> Periods:
    """Return the periods of a kind, without gaps."""
    if kind == "auto":
        days = (times.max() - times.min()) / np.timedelta64(1, "D")
        kind = next((name for limit, name in _SPANS if days <= limit), "year")
    ends = pd.DatetimeIndex([times.min(), times.max()]).to_period(_FREQUENCIES[kind])
    n_periods = int(ends.asi8[1] - ends.asi8[0]) + 1
    if n_periods > _MOST_PERIODS:
        span = f"{ends[0].start_time:%Y-%m-%d} to {ends[1].start_time:%Y-%m-%d}"
        raise OptionError(
            f"period={kind!r} divides the time from {span} into {n_periods:,} periods; at most {_MOST_PERIODS} are "
            f"allowed: name a longer period, or leave period= out"
        )
    all_periods = pd.period_range(ends[0], ends[1])
    forms = {"hour": "%Y-%m-%d %H:00", "day": "%Y-%m-%d", "week": "%Y-%m-%d"}
    names = tuple(p.start_time.strftime(forms[kind]) if kind in forms else str(p) for p in all_periods)
    return Periods(kind, names, int(ends.asi8[0]))


# --- drift ------------------------------------------------------------------------------------------------------------

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
    """Tests of T periods and d columns, (T, d); NaN where a period has too few rows for a test of a column.

    n_rows: Rows of the period that count for the column: those of strata that have rows in other periods, too.
    difference: Mean of the period minus mean of the other periods, within strata.
    z: Sum over the period, divided by its standard error.
    p_value: Two-sided, from the t distribution with one degree of freedom less than clusters of rows in the period.
    p_adjusted: Adjusted for all tests by Holm's method.
    """

    n_rows: IntArray
    difference: FloatArray
    z: FloatArray
    p_value: FloatArray
    p_adjusted: FloatArray


class Column(NamedTuple):
    """Values of a column in the n rows that belong to it; all (n,).

    period: Period of each row, from 0.
    stratum: Stratum of each row; means are compared within strata.
    clusters: Groupings of rows that may depend on each other; the largest of the variances counts.
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
    """Return features, (n, p), standardised with indicators of missing values, (n, d).

    Features that do not vary are left out. Missing values are replaced by the mean. More than ``most`` features are
    projected at random on ``most`` directions, the same ones each time.
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
    varying_names = np.array(all_names, dtype=object)[varies].tolist()
    if len(varying_names) <= most:
        return columns, varying_names
    directions = np.random.default_rng(0).normal(size=(len(varying_names), most)) / np.sqrt(len(varying_names))
    return columns @ directions, [f"projection {number + 1} of {len(varying_names)} features" for number in range(most)]
