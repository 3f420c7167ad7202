"""Unlabelled contexts from a frame of their own are the same rows appended with everything else missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dmlrank.exceptions import ColumnError, DataError, DmlrankWarning, FrameTypeError, MissingDataError

from ...support import optional

pa = optional("pyarrow")

FEATURES = "length + topic + e + code"


def assert_same(left, right):
    """Everything that a fit uses is equal, and so is what is counted."""
    for name in ("items", "categories", "n_rows", "n_dropped", "n_unlabelled"):
        assert getattr(left, name) == getattr(right, name)
    assert left.feature_map.names == right.feature_map.names
    for name in ("x", "context_ids", "seed_order", "vote_cell", "vote_y", "row_context", "row_index", "vote_row"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    np.testing.assert_array_equal(left.cells.context, right.cells.context)
    pd.testing.assert_frame_equal(left.columns.table(), right.columns.table()[list(left.columns.table())])


@pytest.fixture
def battles(many_votes):
    rng = np.random.default_rng(1)
    code, e = rng.random(60) < 0.5, rng.normal(size=(60, 2))
    question = many_votes["question"].str[1:].astype(int)
    return many_votes.assign(code=code[question], e=list(e[question]), judge=question % 4, shown=0.5)


@pytest.fixture
def prompts(battles):
    """Ten prompts without a vote; two of them are in the battles too."""
    rng = np.random.default_rng(2)
    known = battles.drop_duplicates("question")[["question", "length", "topic", "e", "code", "judge"]].iloc[:2]
    new = pd.DataFrame(
        {
            "question": [f"new{i}" for i in range(8)],
            "length": rng.normal(size=8),
            "topic": ["chat", "code"] * 4,
            "e": list(rng.normal(size=(8, 2))),
            "code": [True, False] * 4,
            "judge": [0, 1, 2, 3] * 2,
        }
    )
    return pd.concat([new.iloc[:3], known, new.iloc[3:]], ignore_index=True)


CHANGES = {
    "as they are": lambda frame: frame,
    "missing numbers": lambda frame: frame.assign(length=frame["length"].mask(frame.index == 1)),
    "missing booleans": lambda frame: frame.assign(code=frame["code"].mask(frame.index == 2)),
    "missing categories": lambda frame: frame.assign(topic=frame["topic"].mask(frame.index == 0)),
    "missing vectors": lambda frame: frame.assign(e=frame["e"].mask(frame.index == 7)),
    "a new category": lambda frame: frame.assign(topic=frame["topic"].mask(frame.index == 9, "poetry")),
    "whole numbers": lambda frame: frame[frame["question"].str.startswith("new")].assign(length=3),
    "empty outcome and items": lambda frame: frame.assign(winner=None, a=np.nan, b=None),
}


@pytest.mark.parametrize("missing", ["drop", "keep"])
@pytest.mark.parametrize("change", CHANGES)
def test_they_are_rows_without_a_winner(read, battles, prompts, change, missing):
    added = CHANGES[change](prompts)
    options = {"context": ["question"], "missing": missing, "groups": ["judge"], "propensity": "shown"}
    data = read(battles, FEATURES, unlabelled=added, **options)
    below = pd.concat([battles, added[["question", "length", "topic", "e", "code", "judge"]]], ignore_index=True)
    assert_same(data, read(below, FEATURES, **options))
    n_missing = missing == "drop" and change.startswith("missing")
    assert data.n_added == 8 - n_missing
    assert data.n_contexts == 68 - n_missing


@pytest.mark.parametrize("kind", ["nullable", "arrow dtypes", "polars", "pyarrow", "duckdb", "parquet"])
def test_any_kind_of_frame_beside_any_other(read, battles, prompts, as_kind, kind):
    options = {"context": ["question"], "missing": "keep"}
    expected = read(battles, FEATURES, unlabelled=prompts, **options)
    assert_same(
        read(battles, FEATURES, unlabelled=as_kind(pa.Table.from_pandas(prompts), kind), **options),
        expected,
    )
    assert_same(
        read(as_kind(pa.Table.from_pandas(battles), kind), FEATURES, unlabelled=prompts, **options),
        expected,
    )


def test_without_context_every_row_is_a_prompt(read, battles, prompts):
    data = read(battles, "length", unlabelled=prompts)
    assert (data.n_contexts, data.n_added, data.n_unlabelled) == (210, 10, 10)
    assert data.context_ids.tolist() == list(range(210))
    assert read(battles, "1", unlabelled=prompts[["judge"]]).n_contexts == 210
    one_each = battles.drop_duplicates("question")
    with pytest.warns(DmlrankWarning, match="2 rows repeat a value of 'length'.*pass context="):
        read(one_each, "length", unlabelled=prompts)


def test_categories_keep_the_order_that_they_have_in_the_data(read, battles, prompts):
    order, models = ["math", "unused", "code", "chat"], ["m3", "m2", "m1", "m0"]
    coded = battles.assign(
        topic=pd.Categorical(battles["topic"], order),
        a=pd.Categorical(battles["a"], models),
        b=pd.Categorical(battles["b"], models),
    )
    added = prompts.assign(topic=pd.Categorical(prompts["topic"].mask(prompts.index == 9, "poetry")))
    for new in (added, added.astype({"topic": object})):
        data = read(coded, "topic", context=["question"], unlabelled=new)
        assert data.feature_map.names == ("topic[T.code]", "topic[T.chat]", "topic[T.poetry]")
        assert data.items == ("m3", "m2", "m1", "m0")


def test_labels_and_items_keep_their_type(read, battles, prompts):
    codes = {f"m{k}": 2**60 + k for k in range(4)}
    numbers = battles.assign(
        a=battles["a"].map(codes), b=battles["b"].map(codes), winner=battles["winner"] == "model_a", judge=1
    )
    data = read(numbers, "length", context=["question"], unlabelled=prompts)
    assert data.items == tuple(str(code) for code in codes.values())
    assert data.categories == ("first", "second")
    assert data.cells.n_votes.sum() == 200


def test_transforms_are_fitted_on_all_prompts(read, battles, prompts):
    data = read(battles, "center(length)", context=["question"], unlabelled=prompts)
    lengths = pd.concat([battles, prompts]).drop_duplicates("question")["length"]
    np.testing.assert_allclose(data.x[:, 0], lengths - lengths.mean(), atol=1e-15)


def test_the_callers_frames_are_left_as_they_were(read, battles, prompts):
    before = prompts.copy(deep=True), battles.copy(deep=True)
    read(battles, FEATURES, context=["question"], unlabelled=prompts)
    pd.testing.assert_frame_equal(prompts, before[0])
    pd.testing.assert_frame_equal(battles, before[1])


@pytest.mark.parametrize(
    ("change", "options", "error", "fragments"),
    [
        (lambda p: p.to_dict(), {}, FrameTypeError, ["unlabelled=: data is a builtins.dict"]),
        (lambda p: p.iloc[:0], {}, DataError, ["unlabelled=: the frame has no rows"]),
        (lambda p: p.drop(columns="length"), {}, ColumnError, ["unlabelled=: the columns of", "no column 'length'"]),
        (lambda p: p.drop(columns="question"), {}, ColumnError, ["no column 'question'"]),
        (lambda p: p.drop(columns="judge"), {"groups": ["judge"]}, ColumnError, ["no column 'judge'"]),
        (lambda p: p.assign(winner=["tie"] + [None] * 9), {}, DataError, ["'winner' is 'tie' in row 0", "move rows"]),
        (lambda p: p.assign(b="m0"), {}, DataError, ["'b' is 'm0' in row 0 (10 such rows)", "have no pair"]),
        (lambda p: p.assign(length="long"), {}, DataError, ["'length' holds text, in data it holds numbers"]),
        (lambda p: p.assign(topic=3), {}, DataError, ["'topic' holds numbers, in data it holds text"]),
        (lambda p: p.assign(e=1.0), {}, DataError, ["'e' holds numbers, in data it holds vectors"]),
        (lambda p: p.assign(length=pd.Timestamp("2024-05-01")), {}, DataError, ["'length' holds timestamp"]),
        (lambda p: p.assign(e=[[1.0, 2.0, 3.0]] * 10), {}, DataError, ["length 2, 3"]),
        (lambda p: p.assign(topic=[["u"]] * 10), {}, DataError, ["'topic' holds vectors, in data it holds text"]),
        (lambda p: p.assign(question=range(10)), {}, DataError, ["'question' holds numbers, in data it holds text"]),
        (lambda p: p.assign(question=[{}] * 10), {}, DataError, ["unlabelled=: column 'question' holds {}, a dict"]),
        (
            lambda p: p.assign(length=9.0),
            {},
            DataError,
            ["feature 'length' differs within 2 contexts", "9.0 (unlabelled= row 3)", "one value of every feature"],
        ),
        (
            lambda p: p.assign(length=np.nan),
            {},
            MissingDataError,
            ["'length' in 10 of 210 rows (10 of these rows in unlabelled=)", "missing='drop'"],
        ),
        (lambda p: p.assign(question=None), {}, MissingDataError, ["'question' in 10 of 210 rows (10 of"]),
    ],
)  # fmt: skip
def test_frames_that_do_not_go_with_the_data(read, battles, prompts, change, options, error, fragments):
    with pytest.raises(error) as caught:
        read(battles, FEATURES, context=["question"], unlabelled=change(prompts), **options)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_arrays_end_where_the_data_do(read, battles, prompts):
    with pytest.raises(DataError, match="unlabelled=: the features use 'matrix', an array with one entry"):
        read(battles, "matrix", env={"matrix": np.zeros((200, 2))}, context=["question"], unlabelled=prompts)
