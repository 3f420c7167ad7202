"""Columns taken once: cells by name and codes."""

import numpy as np
import pandas as pd
import pytest

from dmlrank.data.columns import CodedColumn, Columns
from dmlrank.data.equal_values import value_codes
from dmlrank.data.frames import take_columns
from dmlrank.exceptions import DataError

from ...support import optional

pl = optional("polars")

TABLE = {"topic": ["b", None, "a", "b"], "length": [3, 1, 2, 3], "e": [[1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [-0.0, 0.0]]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_the_named_columns_of_any_frame_are_taken(make):
    columns = Columns(tuple(TABLE), take_columns(make(TABLE), ["length", "topic"]))
    assert columns.available == ("topic", "length", "e")
    assert list(columns) == ["length", "topic"]
    assert "e" not in columns
    assert columns["length"].tolist() == [3, 1, 2, 3]
    assert columns.table()["topic"].isna().tolist() == [False, True, False, False]
    assert columns.table().columns.tolist() == ["topic", "length"]
    assert columns.identifiers(["topic", "length"])[2] == ("a", 2)


def test_rows_stay_together():
    columns = Columns(tuple(TABLE), pd.DataFrame(TABLE))
    assert columns.table(["length"], np.array([1])).index.tolist() == [1]
    assert columns.table(rows=np.array([2, 0]))["topic"].tolist() == ["a", "b"]


def test_codes_are_equal_where_values_are():
    columns = Columns(tuple(TABLE), pd.DataFrame(TABLE))
    assert columns.coded("topic").codes.tolist() == [0, -1, 1, 0]
    assert value_codes(columns.table()["e"]).tolist() == [0, 1, 0, 1]
    assert columns.sorted_codes("length").tolist() == [2, 0, 1, 2]
    assert value_codes(np.empty((3, 0))).tolist() == [0, 0, 0]
    with pytest.raises(DataError):
        columns.coded("e")


def test_places_of_names():
    coded = CodedColumn.of(pd.Series([1.0, 2.0, np.nan, 3.0]))
    assert coded.places({"1": 5, "3": 0}).tolist() == [5, -1, -1, 0]
