"""A number of 64 bits for each identifier, the same on all machines and for all types that an identifier may have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from hashlib import blake2b

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .arrays import AnyArray

IdentityNumbers = NDArray[np.uint64]

# The text of a whole number of 64 bits, without a plus sign or leading zeros. A file may hold ".0" behind the
# digits, because missing values have made the column one of floats.
_WHOLE_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,17})(?:\.0)?").fullmatch
# Texts that are hashed at a time.
_TEXTS_AT_A_TIME = 2**16
# Whole numbers with a larger absolute value than this one are replaced by the hash of their text.
_LARGEST = 10**18 - 1


def identity_numbers(identifiers: AnyArray) -> IdentityNumbers:
    """Return a number for each identifier that depends on this identifier alone, (n,).

    Shapes: identifiers (n,), returns (n,).
    """
    whole = _as_whole_numbers(identifiers)
    if whole is not None and (not len(whole) or (whole.min() >= -_LARGEST and whole.max() <= _LARGEST)):
        return whole.view(np.uint64)
    return _numbers_of_texts(_identity_texts(identifiers))


def identity_text(identifier: object) -> str:
    """Return the canonical text of an identifier: the same for equal values of different types."""
    if isinstance(identifier, str):
        return str(identifier)
    if isinstance(identifier, bool | np.bool_):
        return str(bool(identifier))
    if isinstance(identifier, int | np.integer):
        return str(int(identifier))
    if isinstance(identifier, float | np.floating | Decimal):
        return _text_of_number(float(identifier) if isinstance(identifier, np.floating) else identifier)
    if isinstance(identifier, datetime | np.datetime64):
        return _text_of_time(pd.Timestamp(identifier))
    if isinstance(identifier, date):
        return identifier.isoformat()
    if isinstance(identifier, tuple):
        return "".join(_with_lengths([identity_text(entry) for entry in identifier]))
    return str(identifier)


def _text_of_number(number: float | Decimal) -> str:
    """Return the canonical text of a float or a decimal."""
    if number != number or abs(number) == float("inf"):
        return str(float(number))
    return str(int(number)) if number == int(number) else repr(float(number))


def _text_of_time(time: pd.Timestamp) -> str:
    """Return the canonical text of a timestamp, with its instant in UTC where it has a time zone."""
    if time.tzinfo is not None:
        time = time.tz_convert("UTC")
    text, zone = time.tz_localize(None).isoformat(sep=" "), "" if time.tzinfo is None else "+00:00"
    return (text.rstrip("0") if "." in text else text) + zone


def _as_whole_numbers(identifiers: AnyArray) -> NDArray[np.int64] | None:
    """Return identifiers as integers, (n,); None unless all of them are whole numbers that fit into 64 bits."""
    kind = pd.api.types.infer_dtype(identifiers, skipna=False)
    try:
        if kind == "integer":
            return identifiers.astype(np.int64)
        if kind == "floating":
            numbers = identifiers.astype(float)
            is_whole = (numbers == np.trunc(numbers)) & (np.abs(numbers) <= _LARGEST)
            return numbers.astype(np.int64) if is_whole.all() else None
    except OverflowError:
        pass
    return None


def _identity_texts(identifiers: AnyArray) -> Sequence[str]:
    """Return :func:`identity_text` of each identifier, computed column by column where all have the same type."""
    kind = pd.api.types.infer_dtype(identifiers, skipna=False)
    if kind == "string":
        return identifiers.tolist()
    if kind == "integer":
        return [str(number) for number in identifiers.astype(object).tolist()]
    if kind in ("datetime", "datetime64"):
        try:
            return _texts_of_times(pd.DatetimeIndex(identifiers))
        except (ValueError, TypeError):
            # Times of several zones, or outside the range of one unit of time, are converted one by one.
            pass
    lengths = {len(entry) if type(entry) is tuple else -1 for entry in identifiers.tolist()}
    if len(lengths) == 1 and lengths.pop() > 0:
        columns = [_identity_texts(_as_objects(column)) for column in zip(*identifiers.tolist(), strict=True)]
        return ["".join(texts) for texts in zip(*map(_with_lengths, columns), strict=True)]
    return [identity_text(identifier) for identifier in identifiers.tolist()]


def _texts_of_times(times: pd.DatetimeIndex) -> list[str]:
    """Return :func:`identity_text` of each time."""
    zone = "" if times.tz is None else "+00:00"
    instants = times if times.tz is None else times.tz_convert("UTC").tz_localize(None)
    texts = np.datetime_as_string(instants.to_numpy(), unit="ns").tolist()
    return [text.replace("T", " ").rstrip("0").rstrip(".") + zone for text in texts]


def _with_lengths(texts: Sequence[str]) -> list[str]:
    """Return each text after its number of characters and a colon."""
    return [f"{len(text)}:{text}" for text in texts]


def _as_objects(cells: Sequence[object]) -> NDArray[np.object_]:
    """Return a column of cells as an array of objects, so that tuples among them stay cells."""
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


def _numbers_of_texts(texts: Sequence[str]) -> IdentityNumbers:
    """Return the number of each text; see :func:`identity_numbers`."""
    numbers = np.empty(len(texts), dtype=np.uint64)
    for start in range(0, len(texts), _TEXTS_AT_A_TIME):
        part = texts[start : start + _TEXTS_AT_A_TIME]
        numbers[start : start + len(part)] = np.frombuffer(b"".join(map(_bytes_of_text, part)), dtype="<u8")
    return numbers


def _bytes_of_text(text: str) -> bytes:
    """Return the 8 bytes of a text's number, the lowest byte first."""
    whole = _WHOLE_NUMBER(text)
    if whole:
        return int(whole[1]).to_bytes(8, "little", signed=True)
    try:
        return blake2b(text.encode(), digest_size=8).digest()
    except UnicodeEncodeError:
        # Half of a surrogate pair, which is no valid UTF-8, may stand in texts that were read from broken files.
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
