"""Frames of every kind become plain columns; what is no frame is refused."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dmlrank.data.frames import (
    as_array,
    check_names,
    column_names,
    is_vector_column,
    name_of,
    require_columns,
    stack_vectors,
    take_columns,
    vector_layout,
)
from dmlrank.exceptions import ColumnError, DataError, FrameTypeError


def taken(values, **options):
    return take_columns(pd.DataFrame({"c": pd.Series(values, **options)}), ["c"])["c"]


@pytest.mark.parametrize(
    ("values", "dtype", "kind", "expected"),
    [
        ([1, 2], "Int64", "i", [1, 2]),
        ([1, None], "Int64", "f", [1.0, np.nan]),
        ([1.5, None], "Float64", "f", [1.5, np.nan]),
        ([True, False], "boolean", "b", [True, False]),
        ([True, None], "boolean", "f", [1.0, np.nan]),
        (["u", None], "string", "O", ["u", None]),
        (["u", np.nan], object, "O", ["u", None]),
        ([1, 2], object, "i", [1, 2]),
        ([1, 2.5, pd.NA], object, "f", [1.0, 2.5, np.nan]),
        ([Decimal("1.5"), None], object, "f", [1.5, np.nan]),
        ([1, "u"], object, "O", [1, "u"]),
        ([1, None], pd.ArrowDtype(pa.int32()), "f", [1.0, np.nan]),
        (["u", None], pd.ArrowDtype(pa.string()), "O", ["u", None]),
        ([0.0, 2.0], "Sparse[float]", "f", [0.0, 2.0]),
        ([None, None], "Int64", "f", [np.nan, np.nan]),
    ],
)
def test_columns_become_plain(values, dtype, kind, expected):
    column = taken(values, dtype=dtype)
    assert column.dtype.kind == kind
    pd.testing.assert_series_equal(column, pd.Series(expected, name="c", dtype=column.dtype))


def test_whole_numbers_too_large_for_floats_stay_apart():
    ids = [2**53, 2**53 + 1, None]
    assert taken(ids, dtype="Int64").tolist() == ids
    assert taken([10**30, 10**30 + 1], dtype=object).nunique() == 2


def test_categories_keep_their_order_and_lose_what_is_unused():
    column = taken(pd.Categorical(["b", None, "a"], categories=["c", "b", "a"]))
    assert column.cat.categories.tolist() == ["b", "a"]


def test_dates_stay_dates():
    assert taken(pd.to_datetime(["2024-01-01"])).dtype.kind == "M"


def test_columns_come_in_the_order_asked_for_with_a_fresh_index():
    frame = pd.DataFrame({"u": [1, 2], 7: [3, 4], "v": [5, 6]}, index=["r", "r"])
    table = take_columns(frame, ["v", "7"])
    assert table.columns.tolist() == ["v", "7"]
    assert table.index.tolist() == [0, 1]
    assert table["7"].tolist() == [3, 4]
    assert len(take_columns(frame, [])) == 2
    assert column_names(frame) == ["u", "7", "v"]


def test_arrow_tables_are_frames():
    arrow = pa.table({"u": [1, None], "e": [[1.0, 2.0], [3.0, 4.0]], "s": pa.array(["x", None]).dictionary_encode()})
    table = take_columns(arrow, ["e", "u", "s"])
    np.testing.assert_array_equal(stack_vectors(table["e"]), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(table["u"], [1.0, np.nan])
    assert table["s"].cat.categories.tolist() == ["x"]


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ({"winner": ["a"]}, "builtins.dict; .*pandas.DataFrame.data. makes one"),
        ([{"winner": "a"}], "builtins.list; .*pandas.DataFrame.data. makes one"),
        (np.zeros((2, 3)), "numpy.ndarray; .*pandas.DataFrame.data. makes one"),
        (None, "NoneType"),
        ("battles.csv", "builtins.str"),
        (pd.Series([1]), "pandas.Series"),
    ],
)
def test_what_is_no_frame_is_refused(data, hint):
    with pytest.raises(FrameTypeError, match=hint):
        column_names(data)


def test_a_lazy_frame_is_to_be_computed_first():
    class LazyFrame:
        def collect(self):
            """Never called: reading a lazy frame is the caller's decision."""

    with pytest.raises(FrameTypeError, match=r"LazyFrame; needed is an eager frame.*collect"):
        column_names(LazyFrame())


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame([[1, 2, 3]], columns=["u", "v", "u"]),
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["u", "u"]),
    ],
)
def test_a_name_stands_for_one_column(data):
    with pytest.raises(DataError, match="several columns named 'u'"):
        column_names(data)


def test_a_number_and_its_text_are_the_same_name():
    with pytest.raises(DataError, match="several columns named '1'"):
        column_names(pd.DataFrame([[1, 2]], columns=["1", 1]))


@pytest.mark.parametrize("data", [pd.DataFrame(), pd.DataFrame({"winner": []}), pa.table({"winner": pa.array([])})])
def test_a_frame_without_rows(data):
    with pytest.raises(DataError, match="no rows"):
        column_names(data)


def test_a_column_that_does_not_exist_has_a_nearest_one():
    with pytest.raises(ColumnError) as caught:
        require_columns(["winner", "modle_a"], ["winner", "model_a", "length"], "context=")
    assert str(caught.value).startswith("context=: there is no column 'modle_a'; did you mean 'model_a'?")
    assert "'winner', 'model_a', 'length'" in str(caught.value)
    require_columns(["length"], ["winner", "length"], "context=")


@pytest.mark.parametrize("vector", [[1, 2], (1, 2), np.array([1, 2])], ids=["list", "tuple", "array"])
def test_vectors_in_cells_are_stacked(vector):
    column = pd.Series([None, vector, vector], dtype=object)
    assert is_vector_column(column)
    np.testing.assert_array_equal(stack_vectors(column), [[np.nan, np.nan], [1, 2], [1, 2]])
    assert not is_vector_column(pd.Series(["u", vector]))
    assert not is_vector_column(pd.Series([None, None], dtype=object))


def test_vectors_keep_single_precision_where_all_have_it():
    single, double = np.array([0.1, 0.2], dtype=np.float32), np.array([0.1, 0.2])
    stacked = stack_vectors(pd.Series([single, None, single], dtype=object))
    assert stacked.dtype == np.float32
    np.testing.assert_array_equal(stacked, [single, [np.nan, np.nan], single])
    mixed = stack_vectors(pd.Series([single, double]))
    assert mixed.dtype == np.float64
    np.testing.assert_array_equal(mixed, [single.astype(float), double])
    assert vector_layout(pd.Series([[1, 2, 3], None, (4, 5, 6)])) == (3, np.float64)


def test_vectors_may_be_written_where_they_belong():
    out = np.zeros((2, 5))
    assert stack_vectors(pd.Series([[1, 2], [3, 4]]), out[:, 1:3]) is not None
    np.testing.assert_array_equal(out, [[0, 1, 2, 0, 0], [0, 3, 4, 0, 0]])


@pytest.mark.parametrize(
    ("cells", "fragment"),
    [
        ([[1, 2], [3]], "length 1, 2"),
        ([[], []], "length 0"),
        ([["u"], ["v"]], r"\['u'\], which is not a vector of numbers"),
        ([[1], "v"], "'v', which is not a vector of numbers"),
        ([[[1]], [[2]]], r"\[\[1\]\], which is not a vector of numbers"),
        ([[1], [*range(100), "v"]], r"\.\.\., which is not a vector"),
    ],
)
def test_vectors_that_do_not_fit_together(cells, fragment):
    with pytest.raises(DataError, match=f"'e' holds vectors.*{fragment}"):
        stack_vectors(pd.Series(cells, name="e", dtype=object))


def test_arrays_of_the_caller_become_plain():
    np.testing.assert_array_equal(as_array(pd.Series([1, None], dtype="Int64", index=[5, 5])), [1, np.nan])
    np.testing.assert_array_equal(as_array(pd.DataFrame({"u": [1, 2], "v": [3.0, 4.0]})), [[1, 3], [2, 4]])
    np.testing.assert_array_equal(as_array([[1, 2], [3, 4]]), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(as_array(np.array(["u", None], dtype=object)), np.array(["u", None], dtype=object))
    matrix = np.eye(3)
    assert as_array(matrix) is matrix


def test_names_are_hashable():
    table = pd.DataFrame({"u": ["x", {"y": 1}], "v": [1, 2]})
    check_names(table, ["v"])
    with pytest.raises(DataError, match=r"column 'u' holds \{'y': 1\}, a dict"):
        check_names(table, ["v", "u"])


@pytest.mark.parametrize(("value", "name"), [(3, "3"), (3.0, "3"), (np.float32(3), "3"), (3.5, "3.5"), ("3.0", "3.0")])
def test_names_as_text(value, name):
    assert name_of(value) == name
