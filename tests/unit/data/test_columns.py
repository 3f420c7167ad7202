"""Columns taken once: cells by name and codes; codes of equal values, of names, vectors and rows of numbers."""

import numpy as np
import pandas as pd
import pytest

from dmlrank.data.arrays import row_slices, vector_blocks
from dmlrank.data.columns import CodedColumn, Columns, row_codes, value_codes
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
    assert coded.places(["3", "1"]).tolist() == [1, -1, -1, 0]


@pytest.fixture
def repeated_rows():
    """Rows of few different numbers, so that many rows agree in all columns but one."""
    return np.random.default_rng(1).integers(0, 3, size=(2_000, 7)) / 2


def expected_codes(matrix):
    return pd.DataFrame(matrix).groupby(list(range(matrix.shape[1])), sort=False, dropna=False).ngroup().to_numpy()


@pytest.mark.parametrize("dtype", [float, np.float32, int, bool, object])
def test_rows_have_one_code_where_all_numbers_are_equal(repeated_rows, dtype):
    matrix = repeated_rows.astype(dtype)
    np.testing.assert_array_equal(value_codes(matrix), expected_codes(matrix))


@pytest.mark.parametrize("container", [list, tuple, np.asarray, lambda row: row.astype(np.float32)])
def test_vectors_in_cells_have_the_codes_of_rows(repeated_rows, container):
    column = pd.Series([container(row) for row in repeated_rows])
    np.testing.assert_array_equal(value_codes(column), expected_codes(repeated_rows))


def test_zeros_have_one_sign_and_missing_numbers_are_equal():
    matrix = np.array([[0.0, np.nan], [-0.0, np.nan], [np.nan, 0.0], [0.0, 1.0]])
    assert value_codes(matrix).tolist() == [0, 0, 1, 2]


def test_exchanged_numbers_and_powers_of_two_are_different():
    rows = np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 4.0], [4.0, 2.0], [3.0, 0.0], [0.0, 3.0], [0.0, 0.0], [1e300, 2.0]])
    assert value_codes(rows).tolist() == list(range(8))


@pytest.mark.parametrize("block_numbers", [1, 20, 10**6])
def test_codes_do_not_depend_on_the_blocks(repeated_rows, block_numbers):
    slices = row_slices(*repeated_rows.shape, block_numbers)
    np.testing.assert_array_equal(row_codes(repeated_rows[rows] for rows in slices), expected_codes(repeated_rows))


@pytest.mark.parametrize("block_numbers", [1, 7, 100])
def test_blocks_of_vectors_hold_every_row_once(block_numbers):
    column = pd.Series([[1.0, 2.0], None, np.array([3.0, 4.0]), (5.0, 6.0)])
    rows = np.concatenate(list(vector_blocks(column, block_numbers)))
    np.testing.assert_array_equal(rows, [[1.0, 2.0], [np.nan, np.nan], [3.0, 4.0], [5.0, 6.0]])


def test_empty_input():
    assert value_codes(np.empty((0, 3))).tolist() == []
    assert value_codes(np.empty((3, 0))).tolist() == [0, 0, 0]
