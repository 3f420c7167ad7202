"""The part of a check that is about time: availability of models, votes per period, drift of prompts and of votes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.argument_checks import check_text
from .._utils.number_text import p_value_clause, p_value_text
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.vote_columns import Clusters, Times, read_times
from ..exceptions import OptionError, listed, nearest
from ..functionals import CategoryWeights
from ..report.statements import counted, percentage
from ..tables.summary_table import Summary
from .drift import Column, DriftTests, bounded_features, drift_tests, follows_time

# Name of each kind of period, with pandas' name for it.
_FREQUENCIES = {"hour": "h", "day": "D", "week": "W-SUN", "month": "M", "quarter": "Q", "year": "Y"}
PERIODS = ("auto", *_FREQUENCIES)
# Largest number of periods.
_MOST_PERIODS = 500
# "auto" takes the first kind whose limit, in days, is not below the time that the data span; years beyond all limits.
_SPANS = ((4, "hour"), (28, "day"), (2 * 366, "week"), (10 * 366, "month"))
# Adjusted p-values below this are reported as drift.
DRIFT_ALPHA = 0.05
# Pairs, features or models that a sentence names.
_MOST_NAMED = 3
# Pairs that were available together for a smaller share of the prompts than this one are reported.
_SMALL_SHARE = 0.5


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
    first_times = np.full(data.n_contexts, np.iinfo(np.int64).max)
    np.minimum.at(first_times, data.row_context, row_times.astype(np.int64))
    vote_times, context_times = row_times[data.vote_row], first_times.view("datetime64[ns]")
    vote_period, context_period = periods.number_of(vote_times), periods.number_of(context_times)
    is_time_feature = np.array([follows_time(values[np.argsort(context_times)]) for values in data.x.T], dtype=bool)
    prompts, feature_names = _drift_of_prompts(
        data, context_period, len(periods), features=np.flatnonzero(~is_time_feature), clusters=clusters
    )
    models = data.cells.first[data.vote_cell], data.cells.second[data.vote_cell]
    wins = _wins_by_model(data, vote_period, models, _groupings_of_votes(data, clusters), by_order=by_order)
    votes = drift_tests(wins, len(periods))
    available = _availability(*models, vote_times, data.n_items)
    shares, pair_votes = _shares_together(*available, context_times), data.pair_votes()
    return TimeCheck(
        column=column,
        period=periods.kind,
        time_features=tuple(np.array(data.feature_map.names, dtype=object)[is_time_feature]),
        first=pd.Timestamp(row_times.min()),
        last=pd.Timestamp(row_times.max()),
        periods=_period_table(periods, context_period, vote_period, models=models, tests=(prompts, votes)),
        models=_model_table(data.items, available, shares, models=models, period=vote_period),
        pairs=_pair_table(data.items, available, shares, pair_votes + pair_votes.T),
        prompts=_test_table(prompts, periods, feature_names, ("feature", "prompts")),
        votes=_test_table(votes, periods, list(data.items), ("model", "votes")),
    )


def _drift_of_prompts(
    data: PreferenceData, period: IntArray, n_periods: int, *, features: IntArray, clusters: Clusters | None
) -> tuple[DriftTests, list[str]]:
    """Return the tests that means of the features do not change, and the names of the features.

    Shapes: period (n,).
    """
    values, names = bounded_features(data.x[:, features], [data.feature_map.names[j] for j in features])
    groupings = () if clusters is None else (clusters.of_context, clusters.second_of_context)
    clusterings = tuple(grouping for grouping in groupings if grouping is not None)
    one_stratum = np.zeros(data.n_contexts, dtype=np.intp)
    return drift_tests((Column(value, period, one_stratum, clusterings) for value in values.T), n_periods), names


def _wins_by_model(
    data: PreferenceData,
    period: IntArray,
    models: tuple[IntArray, IntArray],
    groupings: tuple[IntArray, ...],
    *,
    by_order: bool,
) -> Iterator[Column]:
    """Yield for each model its shares of wins in the votes on it; a tie counts one half.

    Shapes: period (v,), models (v,), groupings (v,).
    """
    first, second = models
    win_share: FloatArray = data.vote_y @ np.array(CategoryWeights.half(data.n_categories).first)
    opponents = np.stack([second, first]) + np.array([[0], [data.n_items if by_order else 0]])
    for model in range(data.n_items):
        as_first, as_second = np.flatnonzero(first == model), np.flatnonzero(second == model)
        votes = np.concatenate([as_first, as_second])
        yield Column(
            value=np.concatenate([win_share[as_first], 1 - win_share[as_second]]),
            period=period[votes],
            stratum=np.concatenate([opponents[0, as_first], opponents[1, as_second]]),
            clusters=tuple(grouping[votes] for grouping in groupings),
        )


def _groupings_of_votes(data: PreferenceData, clusters: Clusters | None) -> tuple[IntArray, ...]:
    """Return groupings of votes that may depend on each other, (v,) each; none where all votes are independent."""
    context = data.cells.context[data.vote_cell]
    if clusters is None:
        return () if len(np.unique(context)) == len(context) else (context,)
    groupings = [clusters.of_context[context]]
    groupings += [] if clusters.second_of_context is None else [clusters.second_of_context[context]]
    groupings += [] if clusters.of_vote is None else [clusters.of_vote]
    return tuple(groupings)


def _period_table(
    periods: Periods,
    context_period: IntArray,
    vote_period: IntArray,
    *,
    models: tuple[IntArray, IntArray],
    tests: tuple[DriftTests, DriftTests],
) -> pd.DataFrame:
    """Return the table of periods of a :class:`TimeCheck`.

    Shapes: context_period (n,), vote_period (v,), models (v,).
    """
    appearances = pd.DataFrame({"period": np.concatenate([vote_period] * 2), "model": np.concatenate(models)})
    n_models = appearances.drop_duplicates()["period"].value_counts()
    smallest = [pd.DataFrame(test.p_adjusted).min(axis=1).to_numpy() for test in tests]
    return pd.DataFrame(
        {
            "prompts": np.bincount(context_period, minlength=len(periods)),
            "votes": np.bincount(vote_period, minlength=len(periods)),
            "models": n_models.reindex(range(len(periods)), fill_value=0).to_numpy(),
            "p_prompts": smallest[0],
            "p_votes": smallest[1],
        },
        index=pd.Index(periods.names, name="period"),
    )


def _model_table(
    names: tuple[str, ...],
    available: tuple[Times, Times],
    shares: FloatArray,
    *,
    models: tuple[IntArray, IntArray],
    period: IntArray,
) -> pd.DataFrame:
    """Return the table of models of a :class:`TimeCheck`.

    Shapes: available (K,), shares (K, K), models (v,), period (v,).
    """
    appearances = pd.DataFrame({"model": np.concatenate(models), "period": np.concatenate([period] * 2)})
    n_periods = appearances.drop_duplicates()["model"].value_counts()
    return pd.DataFrame(
        {
            "first": available[0],
            "last": available[1],
            "periods": n_periods.reindex(range(len(names)), fill_value=0).to_numpy(),
            "share_prompts": np.diag(shares),
        },
        index=pd.Index(names, name="model"),
    )


def _test_table(tests: DriftTests, periods: Periods, names: list[str], words: tuple[str, str]) -> pd.DataFrame:
    """Return the tests that were made as a table, a row for each."""
    period, column = np.nonzero(np.isfinite(tests.p_value))
    cells = {
        "period": np.array(periods.names, dtype=object)[period],
        words[0]: np.array(names, dtype=object)[column],
        words[1]: tests.n_rows[period, column],
    }
    numbers = {name: getattr(tests, name)[period, column] for name in ("difference", "z", "p_value", "p_adjusted")}
    return pd.DataFrame(cells | numbers)


# --- periods and availability -----------------------------------------------------------------------------------------


def check_time_options(time: object, period: object) -> None:
    """Raise unless ``time`` is a name or None, and ``period`` a kind of period, which needs ``time``."""
    if time is not None:
        check_text("time", time)
    check_text("period", period)
    if period not in PERIODS:
        raise OptionError(
            f"period={period!r} is not allowed; allowed are {listed(PERIODS)}{nearest(str(period), PERIODS)}"
        )
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

    def __len__(self) -> int:
        return len(self.names)

    def number_of(self, times: Times) -> IntArray:
        """Return the period of each time, (n,), counted from 0."""
        ordinals = pd.DatetimeIndex(times).to_period(_FREQUENCIES[self.kind]).asi8
        return (ordinals - self.first).astype(np.intp)


def divide_time(times: Times, kind: str) -> Periods:
    """Return the periods of a kind; with "auto" hours, days, weeks, months or years, by the time that the data span.

    "auto" takes hours for up to 4 days, days for up to 4 weeks, weeks for up to 2 years, months for up to 10 years, and
    years for longer.
    """
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


def _availability(model_a: IntArray, model_b: IntArray, times: Times, n_models: int) -> tuple[Times, Times]:
    """Return the times of the first and the last vote of each model, (K,) each; NaT for a model without votes.

    Shapes: model_a, model_b (v,), times (v,).
    """
    models, times_of_models = np.concatenate([model_a, model_b]), np.concatenate([times, times]).astype(np.int64)
    bounds = np.iinfo(np.int64)
    first, last = np.full(n_models, bounds.max), np.full(n_models, bounds.min)
    np.minimum.at(first, models, times_of_models)
    np.maximum.at(last, models, times_of_models)
    # The smallest integer stands for "not a time".
    first[first > last] = bounds.min
    return first.view("datetime64[ns]"), last.view("datetime64[ns]")


def _shares_together(first: Times, last: Times, context_times: Times) -> FloatArray:
    """Return for each pair of models the share of prompts at whose time both models were available, (K, K).

    The diagonal has the shares of the single models. Shapes: first, last (K,).
    """
    ordered = np.sort(context_times)
    start, end = np.maximum.outer(first, first), np.minimum.outer(last, last)
    count = np.searchsorted(ordered, end, side="right") - np.searchsorted(ordered, start, side="left")
    return np.asarray(np.maximum(count, 0) / len(ordered))


def _pair_table(
    names: tuple[str, ...], available: tuple[Times, Times], shares: FloatArray, votes: NDArray[np.int64]
) -> pd.DataFrame:
    """Return a row for each unordered pair: when both models were available, for which prompts, with which votes.

    Shapes: available (K,), shares (K, K), votes (K, K).
    """
    j, k = np.triu_indices(len(names), 1)
    labels, (first, last) = np.array(names, dtype=object), available
    start, end = np.maximum(first[j], first[k]), np.minimum(last[j], last[k])
    together = start <= end
    return pd.DataFrame(
        {
            "first": labels[j],
            "second": labels[k],
            "together": together,
            "together_from": pd.Series(start).where(together),
            "together_until": pd.Series(end).where(together),
            "share_prompts": shares[j, k],
            "votes": votes[j, k],
        }
    )


# --- sentences and tables ---------------------------------------------------------------------------------------------


def time_facts(time: TimeCheck) -> list[tuple[str, str]]:
    """Return the facts about time, each a name and a sentence."""
    votes = time.periods["votes"]
    n_empty = int((votes == 0).sum())
    empty = f"; none in {counted(n_empty, time.period)}" if n_empty else ""
    span = f"{time.first:%Y-%m-%d %H:%M} to {time.last:%Y-%m-%d %H:%M} UTC"
    n_never = len(time.never_together)
    verb = "was" if n_never == 1 else "were"
    never = f"{n_never:,} of {counted(len(time.pairs), 'pair')} {verb} never available at the same time"
    n_short = int((time.models["share_prompts"] < _SMALL_SHARE).sum())
    verb_short = "was" if n_short == 1 else "were"
    short = (
        f"from first to last vote, {n_short:,} of {counted(len(time.models), 'model')} {verb_short} available for less "
        f"than half of the prompts"
    )
    return [
        ("Time:", f"{time.column}, {span}, {counted(len(votes), time.period)}"),
        (f"Votes by {time.period}:", f"{votes.min():,} to {votes.max():,}, median {votes.median():,.0f}{empty}"),
        ("Availability:", f"{short}; {never}"),
        ("Drift of prompts:", _drift_fact(time, time.prompts, "feature", "no feature") + _untested(time)),
        ("Drift of votes:", _drift_fact(time, time.votes, "model", "no model")),
    ]


def _drift_fact(time: TimeCheck, tests: pd.DataFrame, noun: str, nothing: str) -> str:
    """Return the number of tests, and the test with the smallest p-value."""
    if not len(tests):
        return f"not tested, because {nothing} has enough values in two {time.period}s or more"
    n_drifting = int((tests["p_adjusted"] < DRIFT_ALPHA).sum())
    smallest = tests.iloc[int(np.argmin(tests["p_adjusted"].to_numpy()))]
    p_value = p_value_clause(smallest["p_adjusted"])
    return (
        f"{counted(len(tests), 'test')} (each {noun} in each {time.period} against the other {time.period}s), "
        f"{n_drifting:,} with adjusted p < {DRIFT_ALPHA:g}; the smallest adjusted p {p_value} "
        f"({smallest[noun]}, {smallest['period']})"
    )


def _untested(time: TimeCheck) -> str:
    """Return a clause about the features that are not tested because they follow the time; empty without any."""
    if not time.time_features:
        return ""
    names = ", ".join(time.time_features[:_MOST_NAMED]) + (", ..." if len(time.time_features) > _MOST_NAMED else "")
    return f"; not tested, because they follow the time itself: {names}"


def time_problems(time: TimeCheck) -> Iterator[str]:
    """Yield sentences about pairs that were not available together, and about drift, each with advice."""
    yield from _never_together(time)
    yield from _rarely_together(time)
    drifting = time.prompts[time.prompts["p_adjusted"] < DRIFT_ALPHA]
    if len(drifting):
        shown = "; ".join(
            f"{row['feature']} {row['difference']:+.2f} standard deviations in the {time.period} {row['period']} "
            f"(adjusted p {p_value_clause(row['p_adjusted'])})"
            for row in _largest(drifting)
        )
        yield (
            f"The prompts change over time. Against the other {time.period}s: {shown}{_others(drifting)}. Scores are "
            f"averages over the prompts of all {time.period}s. weights= with larger weights for recent prompts gives "
            f"scores for the prompts of today, and by() gives scores by period (docs/time.md). The frame .time.prompts "
            f"has all tests."
        )
    drifting = time.votes[time.votes["p_adjusted"] < DRIFT_ALPHA]
    if len(drifting):
        shown = "; ".join(
            f"{row['model']} {row['difference']:+.3f} in the {time.period} {row['period']} "
            f"(adjusted p {p_value_clause(row['p_adjusted'])})"
            for row in _largest(drifting)
        )
        yield (
            f"Votes change over time. Shares of wins against the same opponents, compared with the other "
            f"{time.period}s: {shown}{_others(drifting)}. Reasons may be another version of a model under the same "
            f"name, other voters, or other prompts. A fit without the time as a feature averages over these changes; "
            f"with the period as a feature, by() gives scores by period (docs/time.md). The frame .time.votes has all "
            f"tests."
        )


def _never_together(time: TimeCheck) -> Iterator[str]:
    """Report the pairs of models that were never available at the same time."""
    never = time.never_together
    if len(never):
        shown = "; ".join(f"{row.first} - {row.second}" for row in never.head(_MOST_NAMED).itertuples(index=False))
        verb = "was" if len(never) == 1 else "were"
        yield (
            f"{len(never):,} of {counted(len(time.pairs), 'pair')} {verb} never available at the same time, by first "
            f"and last vote: {shown}{_others(never)}. The propensity of such a pair is zero for every prompt, and no "
            f"vote can say who wins. The models are compared through other models alone. With graph='complete' scores "
            f"would also use the pair's own preference, which is then extrapolated and has no interval. The frame "
            f".time.pairs lists all pairs."
        )


def _rarely_together(time: TimeCheck) -> Iterator[str]:
    """Report pairs with votes that were available together for less than half of the prompts."""
    rare = time.pairs[(time.pairs["votes"] > 0) & (time.pairs["share_prompts"] < _SMALL_SHARE)]
    if len(rare):
        shown = "; ".join(
            f"{first} - {second} for {percentage(share)}"
            for first, second, share in rare.sort_values("share_prompts", kind="stable")
            .head(_MOST_NAMED)[["first", "second", "share_prompts"]]
            .to_numpy(dtype=object)
        )
        n_voted = int((time.pairs["votes"] > 0).sum())
        verb = "was" if len(rare) == 1 else "were"
        yield (
            f"{len(rare):,} of {counted(n_voted, 'pair')} with votes {verb} available together for less than half of "
            f"the prompts, by first and last vote: {shown}{_others(rare)}. For the other prompts the propensity of "
            f"these pairs is zero: no votes correct the learnt preferences there, and scores, which average over all "
            f"prompts, rest on extrapolation. This is right if preferences given the features do not change over time. "
            f"A fit of the prompts of a period in which all models were available does not extrapolate."
        )


def _largest(drifting: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the few tests that a sentence names, those with the largest z, each as a mapping of its columns."""
    by_size = np.argsort(-np.abs(drifting["z"].to_numpy()), kind="stable")
    return [dict(drifting.iloc[place]) for place in by_size[:_MOST_NAMED].tolist()]


def _others(all_cases: pd.DataFrame) -> str:
    """Return how many cases a sentence does not name; nothing where it names all."""
    n_others = len(all_cases) - _MOST_NAMED
    return f"; and {counted(n_others, 'other')}" if n_others > 0 else ""


def time_tables(time: TimeCheck) -> list[Summary]:
    """Return the tables of periods and of models for the HTML page of a check."""
    note = (
        "Smallest p-values of the drift of prompts (means of features) and of votes (shares of wins within pairs) in "
        f"the {time.period}, adjusted for all tests by Holm's method. Empty: too few rows for a test."
    )
    names = ("prompts", "votes", "models with votes", "prompts: p", "votes: p")
    periods = tuple(
        (str(name), *(f"{count:,}" for count in row[:3]), *("" if np.isnan(p) else p_value_text(p) for p in row[3:]))
        for name, row in zip(time.periods.index, time.periods.to_numpy(dtype=object), strict=True)
    )
    by_arrival = time.models.sort_values("first", kind="stable")
    models = tuple(
        # A model without votes has no days.
        (str(name), *("" if pd.isna(t) else f"{t:%Y-%m-%d}" for t in (first, last)), f"{n_periods:,}", f"{share:.3f}")
        for name, first, last, n_periods, share in by_arrival.reset_index().to_numpy(dtype=object)
    )
    heads = ("first vote", "last vote", f"{time.period}s with votes", "share of prompts in between")
    return [
        Summary(f"Votes by {time.period}", (), tuple((name, 1) for name in names), periods, (note,), time.period),
        Summary("Availability of models", (), tuple((name, 1) for name in heads), models, (), "model"),
    ]
