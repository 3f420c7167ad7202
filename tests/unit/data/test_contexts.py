"""Numbers that stand for identifiers: the same for equal values of all types, on all machines."""

import datetime as dt
import uuid
from decimal import Decimal
from hashlib import blake2b

import numpy as np
import pandas as pd
import pytest

from dmlrank.data.contexts import identity_numbers, identity_text

NOON = pd.Timestamp("2024-05-01 12:00:00.25")


def cells(*values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def hash_of(text):
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float32, np.float64, object, str]
)
def test_whole_numbers_of_all_types_are_themselves(dtype):
    assert identity_numbers(np.arange(100).astype(dtype)).tolist() == list(range(100))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((3, 3.0, np.int8(3), np.float32(3), Decimal("3.00"), "3", np.str_("3")), "3"),
        ((0, 0.0, -0.0, "0"), "0"),
        ((0.1, np.float64(0.1), Decimal("0.1"), "0.1"), "0.1"),
        ((True, np.True_, "True"), "True"),
        ((10**18, 1e18, "1000000000000000000"), "1000000000000000000"),
        ((float("inf"), "inf"), "inf"),
        ((float("nan"), "nan"), "nan"),
        (("prompt 7 é", np.str_("prompt 7 é")), "prompt 7 é"),
        ((NOON, NOON.to_pydatetime(), NOON.to_datetime64(), str(NOON).rstrip("0")), "2024-05-01 12:00:00.25"),
        ((dt.date(2024, 5, 1), "2024-05-01"), "2024-05-01"),
        ((("a", 1), ("a", 1.0), ("a", "1"), (np.str_("a"), np.int8(1))), "1:a1:1"),
        ((b"ab", "b'ab'"), "b'ab'"),
        ((uuid.UUID(int=5), str(uuid.UUID(int=5))), str(uuid.UUID(int=5))),
    ],
)
def test_equal_values_have_one_text_and_one_number(values, text):
    assert {identity_text(value) for value in values} == {text}
    alone = [int(identity_numbers(cells(value))[0]) for value in values]
    among_others = identity_numbers(cells(*values, None, "x")).tolist()[:-2]
    expected = int(text) if text.isdecimal() and len(text) < 19 else hash_of(text)
    assert alone == among_others == [expected] * len(values)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "Asia/Tokyo", dt.timezone(dt.timedelta(hours=-5))])
def test_times_with_a_zone_are_instants(zone):
    instants = pd.DatetimeIndex(["2024-05-01 10:00", "2024-05-01 10:00:00.000000001"], tz="UTC").tz_convert(zone)
    texts = ["2024-05-01 10:00:00+00:00", "2024-05-01 10:00:00.000000001+00:00"]
    assert [identity_text(time) for time in instants] == texts
    assert identity_numbers(cells(*instants)).tolist() == [hash_of(text) for text in texts]
    assert identity_numbers(cells(instants[0], "x")).tolist()[0] == hash_of(texts[0])


def test_times_of_several_zones_or_of_distant_years():
    times = [pd.Timestamp("2024-05-01 12:00", tz=zone) for zone in ("UTC", "Asia/Tokyo")]
    assert identity_numbers(cells(*times)).tolist() == [
        hash_of("2024-05-01 12:00:00+00:00"),
        hash_of("2024-05-01 03:00:00+00:00"),
    ]
    distant = [dt.datetime(4000, 1, 1), dt.datetime(1000, 1, 1, 5)]
    assert identity_numbers(cells(*distant)).tolist() == [
        hash_of("4000-01-01 00:00:00"),
        hash_of("1000-01-01 05:00:00"),
    ]


def test_numbers_beyond_18_digits_are_hashed_whatever_their_type():
    for number in (10**18, -(10**18), 2**63, 10**30):
        assert identity_numbers(cells(number, 5)).tolist() == [hash_of(str(number)), 5]
        assert identity_numbers(cells(str(number))).tolist() == [hash_of(str(number))]
    assert identity_numbers(cells(-7)).tolist() == [2**64 - 7]


def test_floats_that_a_file_holds_as_text_are_whole_numbers():
    column = pd.Series([3.0, -7.0, 0.0, 123456789012.0, None])
    texts = column.to_csv(index=False, header=False).split()[:4]
    assert texts[0] == "3.0"
    assert identity_numbers(cells(*texts)).tolist() == identity_numbers(column[:4].to_numpy()).tolist()


def test_texts_that_look_alike_differ():
    texts = ["3", "03", "3.00", "+3", " 3", "３", "-0", "", "a", "A", ("3",), ("3", ""), ("", "3"), "3.", ".3", "3e0"]
    assert len(set(identity_numbers(cells(*texts)).tolist())) == len(texts)


def test_texts_with_half_of_a_surrogate_pair_have_a_number():
    assert len(set(identity_numbers(cells("\ud800", "\ud801", "?")).tolist())) == 3


def test_no_identifiers():
    assert identity_numbers(cells()).tolist() == []
