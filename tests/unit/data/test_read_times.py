"""Times of all kinds are the same instants; what is no time is refused with advice."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from dmlrank.data.vote_columns import read_times
from dmlrank.exceptions import DataError

INSTANTS = pd.DatetimeIndex(["2024-05-01 10:00:00.25", "2023-12-31 23:59:59", "2024-03-10 00:00:00"], tz="UTC")
EXPECTED = INSTANTS.tz_localize(None).to_numpy(dtype="datetime64[ns]")


def cells(values):
    column = np.empty(len(values), dtype=object)
    column[:] = list(values)
    return column


@pytest.mark.parametrize(
    "column",
    [
        INSTANTS.to_series().to_numpy(),
        cells(INSTANTS.tz_convert("Asia/Tokyo")),
        INSTANTS.tz_localize(None).to_numpy(),
        INSTANTS.tz_localize(None).to_numpy().astype("datetime64[ms]"),
        cells([time.to_pydatetime() for time in INSTANTS]),
        cells([time.timestamp() for time in INSTANTS]),
        np.array([time.timestamp() for time in INSTANTS]),
        cells([time.isoformat() for time in INSTANTS.tz_convert("Europe/Paris")]),
        cells([str(time.tz_localize(None)) for time in INSTANTS]),
    ],
)
def test_the_same_instants_from_columns_of_all_types(column):
    np.testing.assert_array_equal(read_times(column, "tstamp"), EXPECTED)


def test_dates_and_whole_seconds():
    days = pd.DatetimeIndex(["2024-05-01", "2024-05-02"])
    expected = days.to_numpy(dtype="datetime64[ns]")
    for column in (
        cells([dt.date(2024, 5, 1), dt.date(2024, 5, 2)]),
        cells(["2024-05-01", "2024-05-02"]),
        (expected.astype(np.int64) // 10**9),
        cells((expected.astype(np.int64) // 10**9).tolist()),
    ):
        np.testing.assert_array_equal(read_times(np.asarray(column), "day"), expected)


@pytest.mark.parametrize(
    "column",
    [
        cells(["2024-05-01", None]),
        np.array([1.7e9, np.nan]),
        cells(["2024-05-01", "yesterday"]),
        cells(["05/06/2024"]),
        np.array([1.7e12]),
        np.array([1.7e15]),
        np.array([1700000000000000000]),
        np.array([2024, 2025]),
        np.array([-5.0]),
        np.array([True, False]),
        cells([dt.timedelta(days=3)]),
        cells(["2024-05-01", 1.7e9]),
        cells([["2024-05-01"]]),
    ],
)
def test_what_is_no_time_is_refused(column):
    with pytest.raises(DataError):
        read_times(column, "t")
