"""Labels to categories: every spelling, the tie rule, names, numbers, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dmlrank.data.columns import Coded
from dmlrank.data.outcomes import MEANINGS, ComparedItems, read_labels
from dmlrank.exceptions import OptionError, OutcomeError

SPELLINGS = {
    "first": ["model_a", "a", "A", "left", "first", "Model A", "model-1", "response_a", "assistant_a", "answer_a"],
    "second": ["model_b", "b", "B", "right", "second", "MODEL_B", "model_2", "response_b", "assistant_b", "option_b"],
    "tie": ["tie", "Tie", "tied", "draw", "equal", "same", " tie "],
    "both_good": ["both_good", "Both Good", "bothgood", "tie (bothgood)", "tie (both good)"],
    "both_bad": ["both_bad", "both bad", "bothbad", "tie (bothbad)", "Tie (both bad)", "neither"],
}


def outcomes(labels, first="x", second="y", categories=None, dtype=object):
    n = len(labels)
    names, item = np.unique(
        [[side] * n if isinstance(side, str) else side for side in (first, second)], return_inverse=True
    )
    column = pd.Series(labels, dtype=dtype)
    pairs = ComparedItems(*item.reshape(2, n), [str(name) for name in names])
    return read_labels(Coded.of(column), pairs, lambda: column, categories)


def read_as(labels, **options):
    result = outcomes(labels, **options)
    return [result.categories[code] for code in result.y.argmax(axis=1)]


@pytest.mark.parametrize(("meaning", "label"), [(m, label) for m, labels in SPELLINGS.items() for label in labels])
def test_known_spellings(meaning, label):
    assert read_as([label, "first"])[0] == meaning


def test_categories_that_occur_come_in_canonical_order():
    labels = ["tie", "both_bad", "second", "both_good", "first"]
    assert outcomes(labels).categories == MEANINGS
    assert outcomes(labels[2:]).categories == ("first", "second", "both_good")
    assert outcomes(["tie", "first"]).categories == ("first", "second", "tie")
    assert outcomes(["first"]).categories == ("first", "second")
    assert outcomes(["both_bad"]).categories == ("first", "second", "both_bad")


def test_labels_are_one_hot():
    y = outcomes(["tie", "second", "first", "both_good", "both_bad", "tie"]).y
    np.testing.assert_array_equal(y, np.eye(5)[[4, 1, 0, 2, 3, 4]])


def test_a_tie_beside_both_bad_means_both_good():
    assert read_as(["tie", "tie (bothbad)", "model_a"]) == ["both_good", "both_bad", "first"]
    assert read_as(["tie", "model_a"]) == ["tie", "first"]
    assert read_as(["tie", "both_bad", "both_good"]) == ["tie", "both_bad", "both_good"]
    assert read_as(["tie", "both_bad"], categories={"tie": "tie"}) == ["tie", "both_bad"]


def test_what_each_label_was_read_as_is_kept():
    result = outcomes(["x", "tie", "y"])
    assert result.labels == (("x", "the model that wins"), ("tie", "tie"), ("y", "the model that wins"))


@pytest.mark.parametrize("dtype", [object, int, float, bool])
def test_one_is_first_and_zero_is_second(dtype):
    assert read_as(list(np.array([1, 0, 1]).astype(dtype)), dtype=dtype) == ["first", "second", "first"]


def test_numbers_beside_given_ones():
    assert read_as([0.5, 1.0, 0.0], categories={0.5: "tie"}) == ["tie", "first", "second"]
    assert read_as([2, 1, 0], categories={2: "first", 1: "tie", 0: "second"}) == ["first", "tie", "second"]


def test_names_of_models_win():
    first, second = ["x", "y", "z", "x"], ["y", "x", "x", "z"]
    assert read_as(["x", "x", "tie", "z"], first=first, second=second) == ["first", "second", "tie", "second"]


def test_names_that_are_numbers():
    first, second = ["10", "20", "20"], ["20", "10", "30"]
    for labels in ([10, 10, 20], [10.0, 10.0, 20.0], ["10", "10", "20"]):
        assert read_as(labels, first=first, second=second) == ["first", "second", "first"]


def test_given_meanings_come_before_everything_known():
    assert read_as(["a", "b", "?"], categories={"a": "second", "b": "first", "?": "both_bad"}) == [
        "second",
        "first",
        "both_bad",
    ]
    assert read_as(["a", "tie"], first="a", categories={"a": "first"}) == ["first", "tie"]


@pytest.mark.parametrize(
    ("labels", "options", "fragments"),
    [
        (["modle_a", "tie"], {}, ["label 'modle_a'; did you mean 'model_a'?", "labels found: 'modle_a', 'tie'"]),
        (["?", "!", "tie"], {}, ["unknown winner labels '?', '!'", "categories={'?': 'tie'}"]),
        ([1, 2, 3], {}, ["unknown winner labels '1', '2', '3'", "numbers 1 and 0"]),
        ([1, 0, 0.5], {"categories": {0.5: "tie", 7: "tie"}}, []),
        (["1", "0"], {}, ["unknown winner labels '1', '0'"]),
        (["a", "b"], {"first": "a"}, ["'a' is a known spelling of 'first' and", "categories={'a': 'first'}", "rename"]),
        (["tie", "x"], {"second": "tie"}, ["'tie' is a known spelling of 'tie' and also the name of a model"]),
        ([1, 0], {"first": "0", "second": "1"}, ["the label 1 is a known spelling of 'first' and also the name"]),
        (["x", "z"], {"first": ["x", "x"], "second": ["y", "z"], "categories": {}}, []),
        (["z", "x"], {"first": ["x", "x"], "second": ["y", "z"]}, ["1 votes name a winner that was not", "'z'"]),
        (["tie"], {"categories": {"Tie": "both_bad"}}, ["categories has the label 'Tie', the data have 'tie'"]),
        ([1, 0], {"categories": {"1": "second"}}, ["categories has the label '1', the data have 1"]),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_read(labels, options, fragments):
    if not fragments:
        assert read_as(labels, **options)[:2] == ["first", "second"]
        return
    with pytest.raises(OutcomeError) as caught:
        outcomes(labels, **options)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_a_third_model_is_named_with_its_comparison():
    with pytest.raises(OutcomeError, match="'z' in a comparison of 'x' with 'y'"):
        outcomes(["x", "z"], first=["x", "x"], second=["z", "y"])


def test_a_meaning_that_does_not_exist():
    with pytest.raises(OptionError, match=r"'draw'.*allowed are 'first', 'second'"):
        outcomes(["?"], categories={"?": "draw"})
    with pytest.raises(OptionError, match="did you mean 'both_good'"):
        outcomes(["?"], categories={"?": "both good"})


def test_meanings_for_labels_that_do_not_occur_are_ignored():
    assert read_as(["tie", "a"], categories={"no vote": "both_bad"}) == ["tie", "first"]
