"""Periods cover the time of the data without gaps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dmlrank.exceptions import OptionError, OptionTypeError
from dmlrank.inspection.time_check import check_time_options, divide_time
from dmlrank.options import PERIODS

START = np.datetime64("2024-02-28T13:30", "ns")


@pytest.mark.parametrize(
    ("days", "kind"),
    [(0, "hour"), (4, "hour"), (5, "day"), (28, "day"), (29, "week"), (730, "week"), (740, "month"), (4000, "year")],
)
def test_the_kind_follows_from_the_time_that_the_data_span(days, kind):
    times = START + np.array([0, days * 24 * 60], dtype="timedelta64[m]")
    assert divide_time(times, "auto").kind == kind


@pytest.mark.parametrize("kind", PERIODS[1:])
def test_every_time_is_in_the_period_that_pandas_names(kind):
    rng = np.random.default_rng(0)
    times = START + rng.integers(0, 20 * 24 * 60 if kind == "hour" else 400 * 24 * 60, size=200).astype(
        "timedelta64[m]"
    )
    periods = divide_time(times, kind)
    number = periods.number_of(times)
    assert number.min() == 0
    assert number.max() == len(periods.names) - 1
    frequency = {"hour": "h", "day": "D", "week": "W-SUN", "month": "M", "quarter": "Q", "year": "Y"}[kind]
    starts = pd.DatetimeIndex(times).to_period(frequency).start_time
    for name, start in zip(np.array(periods.names)[number], starts, strict=True):
        assert str(start).startswith(name) or name == str(start.to_period(frequency))
    if kind == "week":
        assert all(pd.Timestamp(name).day_name() == "Monday" for name in periods.names)


def test_options():
    with pytest.raises(OptionTypeError):
        check_time_options(3, "auto")
    with pytest.raises(OptionTypeError):
        check_time_options("tstamp", None)
    with pytest.raises(OptionError, match="week"):
        check_time_options("tstamp", "weeks")
    with pytest.raises(OptionError, match="time"):
        check_time_options(None, "week")
    with pytest.raises(OptionError):
        divide_time(START + np.array([0, 9999], dtype="timedelta64[h]"), "hour")
