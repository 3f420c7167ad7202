"""The part of a check that is about time: availability of models, votes per period, drift of prompts and of votes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters
from ..data.read_times import Times, read_times
from ..functionals import CategoryWeights
from .availability import Availability
from .drift import Column, DriftTests, bounded_features, drift_tests, follows_time
from .periods import Periods, divide_time

# Adjusted p-values below this are reported as drift.
DRIFT_ALPHA = 0.05


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
    vote_times, context_times = row_times[data.vote_row], _first_times(row_times, data)
    vote_period, context_period = periods.number_of(vote_times), periods.number_of(context_times)
    is_time_feature = np.array([follows_time(values[np.argsort(context_times)]) for values in data.x.T], dtype=bool)
    prompts, feature_names = _drift_of_prompts(
        data, context_period, len(periods), features=np.flatnonzero(~is_time_feature), clusters=clusters
    )
    votes = _drift_of_votes(data, vote_period, len(periods), clusters=clusters, by_order=by_order)
    models = _models_of_votes(data)
    availability = Availability.of_votes(*models, vote_times, data.n_items)
    shares, pair_votes = availability.shares(context_times), data.pair_votes()
    return TimeCheck(
        column=column,
        period=periods.kind,
        time_features=tuple(np.array(data.feature_map.names, dtype=object)[is_time_feature]),
        first=pd.Timestamp(row_times.min()),
        last=pd.Timestamp(row_times.max()),
        periods=_period_table(periods, context_period, vote_period, models=models, tests=(prompts, votes)),
        models=_model_table(data.items, availability, shares, models=models, period=vote_period),
        pairs=availability.pair_table(data.items, shares, pair_votes + pair_votes.T),
        prompts=_test_table(prompts, periods, feature_names, ("feature", "prompts")),
        votes=_test_table(votes, periods, list(data.items), ("model", "votes")),
    )


def _first_times(row_times: Times, data: PreferenceData) -> Times:
    """Return the earliest time among the rows of each context, (n,)."""
    first = np.full(data.n_contexts, np.iinfo(np.int64).max)
    np.minimum.at(first, data.row_context, row_times.astype(np.int64))
    return first.view("datetime64[ns]")


def _models_of_votes(data: PreferenceData) -> tuple[IntArray, IntArray]:
    """Return the first and the second model of each vote, (v,) each."""
    return data.cells.first[data.vote_cell], data.cells.second[data.vote_cell]


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


def _drift_of_votes(
    data: PreferenceData, period: IntArray, n_periods: int, *, clusters: Clusters | None, by_order: bool
) -> DriftTests:
    """Return the tests that the models' shares of wins do not change within pairs.

    Shapes: period (v,).
    """
    return drift_tests(_wins_by_model(data, period, _groupings_of_votes(data, clusters), by_order), n_periods)


def _wins_by_model(
    data: PreferenceData, period: IntArray, groupings: tuple[IntArray, ...], by_order: bool
) -> Iterator[Column]:
    """Yield for each model its shares of wins in the votes on it; a tie counts one half.

    Shapes: period (v,), groupings (v,).
    """
    first, second = _models_of_votes(data)
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
    availability: Availability,
    shares: FloatArray,
    *,
    models: tuple[IntArray, IntArray],
    period: IntArray,
) -> pd.DataFrame:
    """Return the table of models of a :class:`TimeCheck`.

    Shapes: shares (K, K), models (v,), period (v,).
    """
    appearances = pd.DataFrame({"model": np.concatenate(models), "period": np.concatenate([period] * 2)})
    n_periods = appearances.drop_duplicates()["model"].value_counts()
    return pd.DataFrame(
        {
            "first": availability.first,
            "last": availability.last,
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
