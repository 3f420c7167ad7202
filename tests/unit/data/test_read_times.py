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
    ("column", "message"),
    [
        (cells(["2024-05-01", None]), "time='t' is missing in 1 of 2 rows, first in row 1; .* fill these cells"),
        (np.array([1.7e9, np.nan]), "is missing in 1 of 2 rows"),
        (cells(["2024-05-01", "yesterday"]), r"holds 'yesterday' in row 1 \(1 such rows\), .*ISO 8601"),
        (cells(["05/06/2024"]), "holds '05/06/2024' in row 0"),
        (np.array([1.7e12]), "if these are milliseconds, divide the column by 1,000$"),
        (np.array([1.7e15]), "if these are microseconds"),
        (np.array([1700000000000000000]), "if these are nanoseconds"),
        (np.array([2024, 2025]), "turn the column into timestamps, for instance with pandas.to_datetime"),
        (np.array([-5.0]), "numbers are read as seconds since 1970"),
        (np.array([True, False]), "holds True and False"),
        (cells([dt.timedelta(days=3)]), "which is not read as a time"),
        (cells(["2024-05-01", 1.7e9]), "holds 1700000000.0 in row 1"),
        (cells([["2024-05-01"]]), "which is not read as a time"),
    ],
)
def test_what_is_no_time_is_refused(column, message):
    with pytest.raises(DataError, match=message):
        read_times(column, "t")
