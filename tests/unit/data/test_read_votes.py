"""From rows to contexts and votes: order, repeats, missing values, dtypes, and rows that contradict each other."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dmlrank.exceptions import ColumnError, DataError, DmlrankWarning, MissingDataError, OutcomeError

from ...support import needs, optional

pa = optional("pyarrow")


def assert_same(left, right):
    """Everything that a fit uses is equal."""
    assert (left.items, left.categories, left.n_dropped) == (right.items, right.categories, right.n_dropped)
    for name in ("x", "context_ids", "seed_order", "vote_cell", "vote_y", "row_context", "vote_row"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    for name in ("context", "first", "second", "y", "n_votes"):
        np.testing.assert_array_equal(getattr(left.cells, name), getattr(right.cells, name))


def test_contexts_items_and_categories_come_in_their_order(read, votes):
    data = read(votes, context=["question"])
    assert data.context_ids.tolist() == ["q3", "q1", "q2", "q5", "q4"]
    assert data.items == ("x", "y", "z")
    assert data.categories == ("first", "second", "tie")
    assert data.row_context.tolist() == [0, 1, 0, 2, 1, 3, 4, 4, 0]
    assert (data.n_rows, data.n_dropped, data.n_votes, data.n_contexts) == (9, 0, 9, 5)


def test_without_context_every_row_is_one(read, votes):
    data = read(votes)
    assert data.context_ids.tolist() == list(range(9))
    assert data.row_context.tolist() == list(range(9))


def test_several_columns_identify_a_context(read, votes):
    data = read(votes, context=["topic", "question"])
    assert data.context_ids.tolist() == [("math", "q3"), ("code", "q1"), ("code", "q2"), ("chat", "q5"), ("math", "q4")]
    merged = read(
        votes.assign(question=votes["topic"].str[0], turn=votes["question"].str[1]), context=["question", "turn"]
    )
    np.testing.assert_array_equal(merged.row_context, data.row_context)


def test_identifiers_that_print_alike_only_together_stay_apart(read, votes):
    frame = votes.assign(u=["1", "11"] * 4 + ["1"], v=["11", "1"] * 4 + ["11"])
    assert read(frame, context=["u", "v"]).context_ids.tolist() == [("1", "11"), ("11", "1")]


def test_repeated_votes_are_averaged(read, votes):
    data = read(votes, context=["question"])
    cells = data.cells
    places = zip(cells.context, cells.first, cells.second, strict=True)
    place = [(data.context_ids[i], data.items[j], data.items[k]) for i, j, k in places]
    table = dict(zip(place, zip(cells.y.tolist(), cells.n_votes.tolist(), strict=True), strict=True))
    assert table == {
        ("q3", "x", "y"): ([0.5, 0.5, 0.0], 2),
        ("q3", "y", "z"): ([0.0, 1.0, 0.0], 1),
        ("q1", "x", "y"): ([0.0, 1.0, 0.0], 1),
        ("q1", "y", "z"): ([0.0, 0.0, 1.0], 1),
        ("q2", "z", "x"): ([1.0, 0.0, 0.0], 1),
        ("q5", "y", "x"): ([0.0, 0.0, 1.0], 1),
        ("q4", "z", "y"): ([1.0, 0.0, 0.0], 2),
    }


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA, pd.NaT])
def test_a_missing_winner_is_a_context_without_a_label(read, votes, nothing):
    silent = votes.assign(winner=votes["winner"].astype(object).mask(votes["question"].isin(["q5", "q2"]), nothing))
    for missing in ("raise", "drop", "keep"):
        data = read(silent, "length", context=["question"], missing=missing)
        assert data.context_ids.tolist() == ["q3", "q1", "q2", "q5", "q4"]
        assert (data.n_votes, data.n_unlabelled, data.n_dropped) == (7, 2, 0)
        np.testing.assert_array_equal(data.x[:, 0], [3, 1, 2, 5, 4])


def test_a_context_without_a_label_needs_no_items(read, votes):
    prompts = pd.DataFrame({"question": ["p1", "p2"], "length": [8.0, 9.0]})
    data = read(pd.concat([prompts, votes]), "length", context=["question"])
    assert data.context_ids.tolist()[:2] == ["p1", "p2"]
    assert data.items == ("x", "y", "z")
    np.testing.assert_array_equal(data.cells.context, read(votes, context=["question"]).cells.context + 2)


def test_a_vote_needs_both_items(read, votes):
    holes = votes.assign(a=votes["a"].mask(votes["question"] == "q1"))
    with pytest.raises(MissingDataError, match="drop"):
        read(holes, context=["question"])
    with pytest.raises(MissingDataError):
        read(holes, context=["question"], missing="keep")
    data = read(holes, context=["question"], missing="drop")
    assert (data.n_dropped, data.n_rows, data.n_contexts) == (2, 9, 4)


def test_one_mask_for_all_missing_values(read, votes):
    holes = votes.assign(
        length=votes["length"].mask(votes["question"] == "q5"),
        topic=votes["topic"].mask(votes["question"] == "q4"),
        question=votes["question"].mask(np.arange(9) == 3),
    )
    with pytest.raises(MissingDataError, match="question"):
        read(holes, "length + topic", context=["question"])
    data = read(holes, "length + topic", context=["question"], missing="drop")
    assert_same(
        read(votes[~votes["question"].isin(["q2", "q4", "q5"])], "length + topic", context=["question"]),
        replace(data, n_rows=5, n_dropped=0),
    )
    assert data.n_dropped == 4
    assert data.row_index.tolist() == [0, 1, 2, 4, 8]


def test_keep_hands_missing_numbers_on(read, votes):
    holes = votes.assign(length=votes["length"].mask(votes["question"] == "q5"))
    data = read(holes, "length + topic", context=["question"], missing="keep")
    np.testing.assert_array_equal(data.x[:, -1], [3, 1, 2, np.nan, 4])
    assert data.n_dropped == 0


def test_equal_missing_vectors_are_one_feature_value(read, votes):
    vectors = {"q3": None, "q1": [1.0, np.nan]}
    frame = votes.assign(e=[vectors.get(question, [1.0, 2.0]) for question in votes["question"]])
    data = read(frame, "e", context=["question"], missing="keep")
    np.testing.assert_array_equal(data.x, [[np.nan, np.nan], [1, np.nan], [1, 2], [1, 2], [1, 2]])


def test_zero_has_no_sign(read, votes):
    frame = votes.assign(e=[[0.0, 1.0]] * 2 + [[-0.0, 1.0]] * 7, length=[0.0, 0.0] + [-0.0] * 7)
    assert read(frame, "e + length", context=["question"]).n_contexts == 5


def log(column):
    with np.errstate(invalid="ignore"):
        return np.log(column - 1.5)


def test_missing_values_that_a_function_makes(read, votes):
    with pytest.raises(MissingDataError):
        read(votes, "log(length)", env={"log": log}, context=["question"])
    dropped = read(votes, "log(length)", env={"log": log}, context=["question"], missing="drop")
    assert dropped.context_ids.tolist() == ["q3", "q2", "q5", "q4"]
    assert (dropped.n_dropped, dropped.n_votes) == (2, 7)
    kept = read(votes, "log(length)", env={"log": log}, context=["question"], missing="keep")
    np.testing.assert_array_equal(kept.x[:, 0], np.log([1.5, np.nan, 0.5, 3.5, 2.5]))


@pytest.mark.parametrize("missing", ["drop", "keep"])
@pytest.mark.parametrize("features", ["center(log(0 * length))", "log(0 * length)", "bs(nothing, 4)", "nothing"])
def test_a_feature_without_any_value(read, votes, features, missing):
    with pytest.raises(MissingDataError):
        read(votes.assign(nothing=np.nan), features, env={"log": log}, context=["question"], missing=missing)


def test_dropping_all_contexts_for_different_reasons(read, votes):
    env = {"f": lambda v: v.where(v > 2.5), "g": lambda v: v.where(v < 2.5)}
    with pytest.raises(MissingDataError):
        read(votes, "f(length) + g(length)", env=env, context=["question"], missing="drop")


@pytest.mark.parametrize("missing", ["raise", "drop", "keep"])
def test_infinite_features_are_never_dropped(read, votes, missing):
    with pytest.raises(DataError, match="length"):
        read(
            votes.assign(length=votes["length"].replace(5.0, -np.inf)), "length", context=["question"], missing=missing
        )


def test_items_are_sorted_or_in_the_order_of_a_categorical(read, votes):
    order = ["z", "w", "x", "y"]
    ordered = votes.assign(a=pd.Categorical(votes["a"], order), b=pd.Categorical(votes["b"], order))
    assert read(ordered, context=["question"]).items == ("z", "x", "y")
    half = votes.assign(a=pd.Categorical(votes["a"], order))
    assert read(half, context=["question"]).items == ("x", "y", "z")
    against = votes.assign(a=pd.Categorical(votes["a"], order), b=pd.Categorical(votes["b"], order[::-1]))
    assert read(against, context=["question"]).items == ("x", "y", "z")


@pytest.mark.parametrize("dtype", [int, float, "Int64", object, "category", str])
def test_models_that_are_numbers(read, votes, dtype):
    codes = {"x": 3, "y": 10, "z": 2}
    frame = votes.assign(a=votes["a"].map(codes).astype(dtype), b=votes["b"].map(codes).astype(dtype))
    data = read(frame, context=["question"])
    assert set(data.items) == {"10", "2", "3"}
    assert len(data.cells) == 7


@pytest.mark.parametrize("context", [["question"], ["topic", "question"]])
def test_the_order_of_rows_does_not_change_what_is_read(read, many_votes, context):
    straight = read(many_votes, "center(length)", context=context)
    by_id = dict(zip(straight.context_ids, zip(straight.seed_order, straight.x[:, 0], strict=True), strict=True))
    assert sorted(straight.seed_order) == list(range(60))
    for seed in range(3):
        shuffled = read(many_votes.sample(frac=1, random_state=seed), "center(length)", context=context)
        assert shuffled.context_ids.tolist() != straight.context_ids.tolist()
        assert set(shuffled.context_ids) == set(straight.context_ids)
        for name, place, length in zip(shuffled.context_ids, shuffled.seed_order, shuffled.x[:, 0], strict=True):
            assert by_id[name][0] == place
            assert by_id[name][1] == pytest.approx(length, abs=1e-12)
        np.testing.assert_array_equal(shuffled.pair_votes(), straight.pair_votes())


def test_the_callers_frame_is_never_changed(read, many_votes):
    frame = many_votes.assign(
        a=many_votes["a"].astype("category"),
        e=[[1.0, 2.0]] * 200,
        length=many_votes["length"].mask(many_votes["question"] == "q01").astype("Float64"),
    )
    frame.index = pd.Index(np.arange(200) % 7)
    before = frame.copy(deep=True)
    read(frame, "center(length) + e + topic", context=["question"], missing="drop")
    pd.testing.assert_frame_equal(frame, before)


KINDS = {
    "nullable": lambda frame: frame.convert_dtypes(),
    "arrow dtypes": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "objects": lambda frame: frame.astype(object),
    "categoricals": lambda frame: frame.astype(dict.fromkeys(("question", "a", "b", "winner", "topic"), "category")),
    "arrow table": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "doubled index": lambda frame: frame.set_axis([0] * len(frame)),
    "named index": lambda frame: frame.set_axis(pd.Index([f"r{i}" for i in range(len(frame))], name="winner")),
    "further columns": lambda frame: frame.assign(**{"7": 1}).rename(columns={"7": 7}),
}


@pytest.mark.parametrize("kind", [pytest.param(k, marks=needs("pyarrow")) if "arrow" in k else k for k in KINDS])
def test_every_kind_of_frame_gives_the_same(read, many_votes, kind):
    expected = read(many_votes, "length + topic", context=["question"])
    assert_same(read(KINDS[kind](many_votes), "length + topic", context=["question"]), expected)


def test_further_columns_are_kept_for_clusters_and_propensities(read, votes):
    frame = votes.assign(judge=list("uvuvuvuvu"), p=0.5)
    data = read(frame, context=["question"], groups=["judge"], cov_type="cluster", propensity="p")
    assert {"judge", "p"} <= set(data.columns)
    assert data.columns["judge"].tolist() == list("uvuvuvuvu")
    silent = frame.assign(p=frame["p"].mask(frame["question"] == "q5"))
    with pytest.raises(MissingDataError):
        read(silent, context=["question"], propensity="p")
    silent["winner"] = silent["winner"].mask(silent["question"] == "q5")
    assert read(silent, context=["question"], propensity="p").n_unlabelled == 1


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("length", [3.0, 1.0, 3.5, 2.0, 1.0, 5.0, 4.0, 4.0, 3.0]),
        ("topic", ["math", "code", "math", "code", "math", "chat", "math", "math", "math"]),
        ("e", [[1.0, 2.0]] * 8 + [[1.0, 3.0]]),
    ],
)
def test_a_context_has_one_value_of_every_feature(read, votes, column, values):
    frame = votes.assign(**{column: values})
    with pytest.raises(DataError) as caught:
        read(frame, column, context=["question"])
    assert f"feature {column!r} differs within 1 contexts, first in {{'question': " in str(caught.value)
    assert f"if {column!r} tells contexts apart, add it to context=" in str(caught.value)
    assert "np." not in str(caught.value)
    assert read(frame, "1", context=["question"]).n_contexts == 5


def test_arrays_of_the_caller_have_one_value_per_context(read, votes):
    for array in (np.arange(9.0), np.eye(9), np.array(list("uvwuvwuvw"), dtype=object)):
        with pytest.raises(DataError, match="array"):
            read(votes, "array", env={"array": array}, context=["question"])


@needs("sklearn")
def test_repeated_prompts_without_context_are_warned_of(read, many_votes):
    rows = many_votes.drop(columns="question")
    frame = rows.assign(prompt=[f"prompt {i % 150}" for i in range(200)])
    with pytest.warns(DmlrankWarning, match="50 rows repeat a value of 'prompt'.*context="):
        read(frame, "text(prompt, 3)")
    read(rows, "topic")
    with pytest.warns(DmlrankWarning, match="200 rows are about 60 prompts .values of 'question'.*context='question'"):
        read(many_votes, "topic")


@pytest.mark.parametrize(
    ("changes", "options", "error"),
    [
        ({"b": ["y"] * 9, "a": ["y"] + ["x"] * 8}, {}, DataError),
        ({"a": ["x"] * 9, "b": [None] * 9, "winner": [None] * 9}, {}, DataError),
        ({"a": [None] * 9, "b": [None] * 9, "winner": [None] * 9}, {}, DataError),
        ({"winner": [None] * 9}, {}, DataError),
        ({"a": [None] * 9}, {"missing": "drop"}, MissingDataError),
        ({"winner": ["z"] * 9}, {}, OutcomeError),
        ({"a": [["x"]] * 9}, {}, DataError),
        ({"winner": [["x"]] * 9}, {}, DataError),
        ({"question": [{}] * 9}, {"context": ["question"]}, DataError),
        ({}, {"context": ["questoin"]}, ColumnError),
        ({}, {"groups": ["judge"], "cov_type": "cluster"}, ColumnError),
        ({}, {"propensity": "estimte"}, ColumnError),
    ],
)  # fmt: skip
def test_rows_that_contradict_what_is_needed(read, votes, changes, options, error):
    with pytest.raises(error):
        read(votes.assign(**changes), **options)
