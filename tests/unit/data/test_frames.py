"""Frames of every kind become plain columns; what is no frame is refused."""

import contextlib
import datetime
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from dmlrank.data.arrays import as_array, is_vector_column, kind_of_time, name_of, stack_vectors, vector_layout
from dmlrank.data.columns import CodedColumn
from dmlrank.data.frames import column_names, require_columns, take_columns
from dmlrank.exceptions import ColumnError, DataError, FrameTypeError, MissingExtraError

from ...support import optional

duckdb = optional("duckdb")
pl = optional("polars")
pa = optional("pyarrow")


def test_texts_are_the_same_whether_values_recur_or_not():
    rng = np.random.default_rng(0)
    few = [None if u < 0.1 else f"m{u:.1f}" for u in rng.random(3000)]
    many = [None if u < 0.1 else f"prompt {u}" for u in rng.random(3000)]
    for values in (few, many):
        column = taken(values, dtype="string")
        assert column.dtype == object
        assert column.tolist() == values


def test_columns_are_coded_in_the_order_of_appearance():
    table = pd.DataFrame({"c": ["v", None, "u", "v", "w"], "d": [3.0, np.nan, 1.0, 1.0, 3.0]})
    coded = {name: CodedColumn.of(table[name]) for name in table}
    for name, levels in (("c", ["v", "u", "w"]), ("d", [3.0, 1.0])):
        one = coded[name]
        assert one.levels.tolist() == levels
        np.testing.assert_array_equal(one.codes >= 0, table[name].notna())
        assert [one.levels[c] for c in one.codes if c >= 0] == table[name].dropna().tolist()
    fewer = coded["c"].only(np.array([False, True, True, True, False]))
    assert (fewer.codes.tolist(), fewer.levels.tolist()) == ([-1, 0, 1], ["u", "v"])
    assert coded["c"].only(np.array([4, 0])).levels.tolist() == ["w", "v"]


def taken(values, **options):
    return take_columns(pd.DataFrame({"c": pd.Series(values, **options)}), ["c"])["c"]


@pytest.mark.parametrize(
    ("values", "dtype", "kind", "expected"),
    [
        (["u", np.nan], object, "O", ["u", None]),
        ([1, 2], object, "i", [1, 2]),
        ([1, 2.5, pd.NA], object, "f", [1.0, 2.5, np.nan]),
        ([Decimal("1.5"), None], object, "f", [1.5, np.nan]),
        ([1, "u"], object, "O", [1, "u"]),
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


KINDS = ["pandas", "nullable", "arrow dtypes", "polars", "pyarrow", "duckdb", "parquet"]
DAY = datetime.date(2024, 5, 1)


def coded(values, levels, ordered=False):
    codes = pa.array([None if value is None else levels.index(value) for value in values], pa.int8())
    return pa.DictionaryArray.from_arrays(codes, pa.array(levels), ordered=ordered)


# What an Arrow column becomes, whatever the kind of frame it comes in.
COLUMNS = {
    "int": (pa.array([3, 1, 2]), np.array([3, 1, 2])),
    "int with missing": (pa.array([3, None, 2]), np.array([3.0, np.nan, 2.0])),
    "small int": (pa.array([3, 1, 2], pa.int8()), np.array([3, 1, 2])),
    "unsigned": (pa.array([3, 1, 2], pa.uint64()), np.array([3, 1, 2])),
    "long int with missing": (pa.array([2**53 + 1, None, 2]), np.array([2**53 + 1, None, 2], dtype=object)),
    "float": (pa.array([0.1, -0.0, 2.0]), np.array([0.1, -0.0, 2.0])),
    "float with missing": (pa.array([0.1, None, np.nan]), np.array([0.1, np.nan, np.nan])),
    "short float": (pa.array([0.1, None, 2.0], pa.float32()), np.array([np.float32(0.1), np.nan, 2.0], dtype=float)),
    "boolean": (pa.array([True, False, True]), np.array([True, False, True])),
    "boolean with missing": (pa.array([True, None, False]), np.array([1.0, np.nan, 0.0])),
    "string": (pa.array(["u", "", "v"]), np.array(["u", "", "v"], dtype=object)),
    "string with missing": (pa.array(["u", None, "v"]), np.array(["u", None, "v"], dtype=object)),
    "large string": (pa.array(["u", None, "v"], pa.large_string()), np.array(["u", None, "v"], dtype=object)),
    "decimal": (pa.array([Decimal("0.25"), None, Decimal("1.00")]), np.array([0.25, np.nan, 1.0])),
    "whole decimal": (pa.array([Decimal(3), Decimal(1), Decimal(2)], pa.decimal128(38, 0)), np.array([3, 1, 2])),
    "nothing": (pa.array([None, None, None], pa.float64()), np.full(3, np.nan)),
    "no text": (pa.array([None, None, None], pa.string()), np.full(3, None)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("column", COLUMNS)
def test_the_same_values_give_the_same_column_in_every_kind_of_frame(as_kind, column, kind):
    values, expected = COLUMNS[column]
    taken_column = take_columns(as_kind(pa.table({"c": values, "other": [1, 2, 3]}), kind), ["c"])["c"]
    assert taken_column.dtype == expected.dtype
    np.testing.assert_array_equal(taken_column.to_numpy(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_categories_keep_their_order_in_every_kind_of_frame(as_kind, kind):
    for ordered in (False, True):
        table = pa.table({"c": coded(["b", None, "a", "b"], ["z", "b", "q", "a"], ordered), "other": [1, 2, 3, 4]})
        column = take_columns(as_kind(table, kind), ["c"])["c"]
        assert column.cat.categories.tolist() == ["b", "a"]
        assert column.astype(object).where(column.notna(), None).tolist() == ["b", None, "a", "b"]


def test_the_levels_of_a_polars_categorical_have_no_order():
    pl.Series(["q", "b", "a"], dtype=pl.Categorical)
    column = take_columns(pl.DataFrame({"c": pl.Series(["b", None, "a"], dtype=pl.Categorical)}), ["c"])["c"]
    assert column.tolist() == ["b", None, "a"]
    assert column.dtype == object


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "vectors",
    [
        pa.array([[1.0, 2.0], None, [3.0, None]]),
        pa.array([[1.0, 2.0], None, [3.0, None]], pa.list_(pa.float32(), 2)),
        pa.array([[1, 2], None, [3, None]]),
    ],
    ids=["lists", "arrays", "whole numbers"],
)
def test_vectors_in_every_kind_of_frame(as_kind, vectors, kind):
    column = take_columns(as_kind(pa.table({"e": vectors}), kind), ["e"])["e"]
    assert is_vector_column(column)
    np.testing.assert_array_equal(stack_vectors(column), [[1, 2], [np.nan, np.nan], [3, np.nan]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pa.array([DAY, None]), "date"),
        (pa.array([datetime.datetime(2024, 5, 1), None]), "datetime64"),
        (pa.array([datetime.datetime(2024, 5, 1), None], pa.timestamp("us", tz="UTC")), "datetime64"),
        (pa.array([datetime.time(12), None]), "time"),
    ],
)
def test_times_are_known_for_what_they_are(as_kind, values, words, kind):
    assert kind_of_time(take_columns(as_kind(pa.table({"c": values}), kind), ["c"])["c"]) == words


def test_time_differences_are_known_too():
    frames = [pd.DataFrame({"c": pd.to_timedelta([1, None], unit="D")}), pl.DataFrame({"c": [datetime.timedelta(1)]})]
    for frame in frames:
        assert kind_of_time(take_columns(frame, ["c"])["c"]) == "timedelta64"
    assert kind_of_time(pd.Series(pd.Categorical(pd.to_datetime(["2024-05-01"])))) == "datetime64"
    assert kind_of_time(pd.Series(["2024-05-01"], dtype=object)) is None


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_columns_in_every_kind_of_frame(as_kind, kind):
    names = ["u v", 'a "quoted" name', "ü", "select", "U V 2"]
    frame = as_kind(pa.table({name: [place, 7] for place, name in enumerate(names)}), kind)
    assert column_names(frame) == names
    table = take_columns(frame, names[::-1])
    assert table.columns.tolist() == names[::-1]
    assert table.iloc[0].tolist() == [4, 3, 2, 1, 0]
    assert len(take_columns(frame, [])) == 2


def test_only_the_columns_that_are_needed_are_read_from_a_relation():
    relation = duckdb.sql("SELECT range AS u, error('read') AS v FROM range(3)")
    assert column_names(relation) == ["u", "v"]
    assert take_columns(relation, ["u"])["u"].tolist() == [0, 1, 2]
    assert len(take_columns(relation, [])) == 3
    with pytest.raises(DataError):
        take_columns(relation, ["v"])


def test_a_relation_keeps_the_order_of_its_rows():
    connection = duckdb.connect()
    connection.execute("SET threads = 4")
    connection.execute("CREATE TABLE t AS SELECT range AS u, hash(range) % 7 AS h FROM range(600000)")
    relation = connection.table("t").filter("h <> 3")
    rows = take_columns(relation, ["u"])["u"].to_numpy()
    assert 400_000 < len(rows) < 600_000
    assert (np.diff(rows) > 0).all()
    connection.execute("SET preserve_insertion_order = false")
    with pytest.raises(DataError):
        take_columns(relation, ["u"])


def test_a_relation_that_cannot_be_read():
    connection = duckdb.connect()
    relation = connection.sql("SELECT range AS u FROM range(3)")
    connection.close()
    for names in (["u"], []):
        with pytest.raises(DataError):
            take_columns(relation, names)
    # Some versions of DuckDB still know the names of the columns.
    with contextlib.suppress(DataError):
        assert column_names(relation) == ["u"]


@pytest.mark.parametrize(
    ("frame", "kind"),
    [(pl.DataFrame({"u": [1]}), "a frame that is not of pandas"), (duckdb.sql("SELECT 1 AS u"), "a DuckDB relation")],
)
def test_without_pyarrow(monkeypatch, frame, kind):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=kind):
        take_columns(frame, ["u"])
    assert take_columns(pd.DataFrame({"u": [1]}), ["u"])["u"].tolist() == [1]


@pytest.mark.parametrize("data", [{"winner": ["a"]}, np.zeros((2, 3)), None, pd.Series([1]), pl.Series([1])])
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(FrameTypeError):
        column_names(data)


def test_a_column_may_be_called_like_an_attribute():
    assert column_names(pd.DataFrame({"column_names": [1], "columns": [2]})) == ["column_names", "columns"]


def test_a_lazy_frame_is_to_be_computed_first():
    class Computed:
        def compute(self):
            """Never called: reading a lazy frame is the caller's decision."""

    with pytest.raises(FrameTypeError):
        column_names(pl.LazyFrame({"u": [1]}))
    with pytest.raises(FrameTypeError):
        take_columns(Computed(), ["u"])


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame([[1, 2, 3]], columns=["u", "v", "u"]),
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["u", "u"]),
        duckdb.sql("SELECT 1 AS u, 2 AS u"),
    ],
)
def test_a_name_stands_for_one_column(data):
    with pytest.raises(DataError):
        column_names(data)


@pytest.mark.parametrize(
    "data", [pd.DataFrame(), pd.DataFrame({"u": []}), pa.table({"u": []}), pl.DataFrame({"u": []})]
)
def test_a_frame_without_rows(data):
    with pytest.raises(DataError, match="no rows"):
        take_columns(data, [])


def test_a_column_that_does_not_exist_has_a_nearest_one():
    with pytest.raises(ColumnError) as caught:
        require_columns(["winner", "modle_a"], ["winner", "model_a", "length"], "context=")
    assert str(caught.value).startswith("context=: there is no column 'modle_a'; did you mean 'model_a'?")
    assert "winner" in str(caught.value)
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
    with pytest.raises(DataError, match=fragment):
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
    CodedColumn.of(table["v"])
    with pytest.raises(DataError):
        CodedColumn.of(table["u"])


@pytest.mark.parametrize(("value", "name"), [(3, "3"), (3.0, "3"), (np.float32(3), "3"), (3.5, "3.5"), ("3.0", "3.0")])
def test_names_as_text(value, name):
    assert name_of(value) == name
