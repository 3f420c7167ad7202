"""Sentences and tables about time on the page of a check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from .._utils.number_text import p_value_clause, p_value_text
from ..report.statements import counted, percentage
from ..tables.summary_table import Summary
from .time_check import DRIFT_ALPHA, TimeCheck

# Pairs, features or models that a sentence names.
_MOST_NAMED = 3
# Pairs that were available together for a smaller share of the prompts than this one are reported.
_SMALL_SHARE = 0.5


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
        (str(name), *(f"{count:,}" for count in row[:3]), *map(_p_value, row[3:]))
        for name, row in zip(time.periods.index, time.periods.to_numpy(dtype=object), strict=True)
    )
    by_arrival = time.models.sort_values("first", kind="stable")
    models = tuple(
        (str(name), _day(first), _day(last), f"{n_periods:,}", f"{share:.3f}")
        for name, first, last, n_periods, share in by_arrival.reset_index().to_numpy(dtype=object)
    )
    heads = ("first vote", "last vote", f"{time.period}s with votes", "share of prompts in between")
    return [
        Summary(f"Votes by {time.period}", (), tuple((name, 1) for name in names), periods, (note,), time.period),
        Summary("Availability of models", (), tuple((name, 1) for name in heads), models, (), "model"),
    ]


def _p_value(p: float) -> str:
    """Return a p-value as text; empty where nothing was tested."""
    return "" if np.isnan(p) else p_value_text(p)


def _day(time: pd.Timestamp) -> str:
    """Return a day as text; empty for a model without votes."""
    return "" if pd.isna(time) else f"{time:%Y-%m-%d}"
