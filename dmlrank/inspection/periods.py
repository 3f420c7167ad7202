"""Hours, days, weeks, months, quarters or years into which the time of a data set is divided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from .._utils.argument_checks import check_text
from ..data.preferences import IntArray
from ..data.read_times import Times
from ..exceptions import OptionError, listed, nearest

# Name of each kind of period, with pandas' name for it.
_FREQUENCIES = {"hour": "h", "day": "D", "week": "W-SUN", "month": "M", "quarter": "Q", "year": "Y"}
PERIODS = ("auto", *_FREQUENCIES)
# Largest number of periods.
_MOST_PERIODS = 500
# "auto" takes the first kind whose limit, in days, is not below the time that the data span; years beyond all limits.
_SPANS = ((4, "hour"), (28, "day"), (2 * 366, "week"), (10 * 366, "month"))


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
    names = tuple(f"{p.start_time:%Y-%m-%d}" if kind in ("day", "week") else _name(p, kind) for p in all_periods)
    return Periods(kind, names, int(ends.asi8[0]))


def _name(period: pd.Period, kind: str) -> str:
    """Return the name of an hour, a month, a quarter or a year."""
    return f"{period.start_time:%Y-%m-%d %H:00}" if kind == "hour" else str(period)
