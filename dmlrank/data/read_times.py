"""A column of times as instants: timestamps, dates, seconds since 1970, or texts in ISO 8601."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..exceptions import DataError
from .arrays import AnyArray

Times = NDArray[np.datetime64]

# Smallest and largest number that is read as seconds since 1970: the years 1971 to 2199.
_FIRST_SECOND, _LAST_SECOND = 366 * 86_400, 7_226_582_400
_ALLOWED = (
    "timestamps, dates, seconds since 1970, or texts such as '2024-05-01' and '2024-05-01 14:30:00+02:00' (ISO 8601)"
)
# Units that larger numbers may have, with the divisor that turns each unit into seconds.
_SMALLER_UNITS = (("milliseconds", 1e3), ("microseconds", 1e6), ("nanoseconds", 1e9))


def read_times(cells: AnyArray, name: str) -> Times:
    """Return the instant of each cell in UTC, in nanoseconds, (n,).

    Times without a zone, and dates, are taken as UTC. Numbers are seconds since 1970.

    Shapes: cells (n,).
    """
    column = pd.Series(cells).infer_objects()
    missing = np.flatnonzero(column.isna())
    if len(missing):
        raise DataError(
            f"time={name!r} is missing in {len(missing):,} of {len(column):,} rows, first in row {missing[0]}; every "
            f"row needs its time: fill these cells, or leave the rows out"
        )
    if pd.api.types.is_bool_dtype(column):
        raise DataError(f"time={name!r} holds True and False; it must hold {_ALLOWED}")
    if pd.api.types.is_numeric_dtype(column):
        return _from_seconds(np.asarray(column, dtype=np.float64), name)
    return _from_times_or_texts(column, name)


def _from_seconds(seconds: NDArray[np.float64], name: str) -> Times:
    """Return the instants of seconds since 1970."""
    wrong = np.flatnonzero(~((seconds >= _FIRST_SECOND) & (seconds <= _LAST_SECOND)))
    if len(wrong):
        value = seconds[wrong[0]]
        units = [(unit, scale) for unit, scale in _SMALLER_UNITS if _FIRST_SECOND <= value / scale <= _LAST_SECOND]
        advice = (
            f"if these are {units[0][0]}, divide the column by {units[0][1]:,.0f}"
            if units
            else "turn the column into timestamps, for instance with pandas.to_datetime"
        )
        raise DataError(
            f"time={name!r} holds {value:.15g} in row {wrong[0]}; numbers are read as seconds since 1970, from "
            f"{_FIRST_SECOND:,} (1971) to {_LAST_SECOND:,} (2199): {advice}"
        )
    whole = np.floor(seconds)
    nanoseconds = whole.astype(np.int64) * 1_000_000_000 + np.rint((seconds - whole) * 1e6).astype(np.int64) * 1000
    return nanoseconds.view("datetime64[ns]")


def _from_times_or_texts(column: pd.Series, name: str) -> Times:
    """Return the instants of timestamps, dates or texts."""
    times = pd.to_datetime(column.map(_as_text_or_timestamp), format="ISO8601", utc=True, errors="coerce")
    wrong = np.flatnonzero(times.isna())
    if len(wrong):
        raise DataError(
            f"time={name!r} holds {column.iloc[wrong[0]]!r} in row {wrong[0]} ({len(wrong):,} such rows), which is not "
            f"read as a time; it must hold {_ALLOWED}"
        )
    return times.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(dtype="datetime64[ns]")


def _as_text_or_timestamp(cell: object) -> object:
    """Return a cell that pandas reads as a time; None for numbers and other objects."""
    if isinstance(cell, date | np.datetime64):
        return pd.Timestamp(cell)
    return cell if isinstance(cell, str) else None
