"""Outcomes: labels in every spelling, preferences in [0, 1], columns of probabilities, and what is refused."""

import pathlib
import re

import numpy as np
import pandas as pd
import pytest

from dmlrank.data.columns import CodedColumn
from dmlrank.data.outcomes import MEANINGS, PREFIXES, read_labels, read_probabilities
from dmlrank.data.outcomes import SPELLINGS as KNOWN_SPELLINGS
from dmlrank.exceptions import DmlrankWarning, MissingDataError, OptionError, OutcomeError

SPELLINGS = {
    "first": ["model_a", "a", "A", "left", "first", "Model A", "model-1", "response_a", "assistant_a", "answer_a"],
    "second": ["model_b", "b", "B", "right", "second", "MODEL_B", "model_2", "response_b", "assistant_b", "option_b"],
    "tie": ["tie", "Tie", "tied", "draw", "equal", "same", " tie "],
    "both_good": ["both_good", "Both Good", "bothgood", "tie (bothgood)", "tie (both good)"],
    "both_bad": ["both_bad", "both bad", "bothbad", "tie (bothbad)", "Tie (both bad)", "neither"],
}


def outcomes(values, first="x", second="y", dtype=None, **options):
    """What a column of values about two models, in rows numbered from 10, is read as."""
    n = len(values)
    names, item = np.unique(
        [[side] * n if isinstance(side, str) else side for side in (first, second)], return_inverse=True
    )
    if any(isinstance(value, str) for value in values):
        dtype = object
    column = pd.Series(values, index=range(10, 10 + n), name="winner", dtype=dtype)
    pairs = tuple(item.reshape(2, n))
    return read_labels(CodedColumn.of(column), column, pairs, [str(name) for name in names], **options)


def read_as(labels, dtype=object, **options):
    result = outcomes(labels, dtype=dtype, **options)
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


@pytest.mark.parametrize("dtype", [object, int, float, bool])
def test_one_is_first_and_zero_is_second(dtype):
    assert read_as(list(np.array([1, 0, 1]).astype(dtype)), dtype=dtype) == ["first", "second", "first"]


def test_numbers_beside_given_ones():
    with pytest.raises(OutcomeError, match=r"\{0.5: 'tie', 1.0: ..., 0.0: ...\}"):
        read_as([0.5, 1.0, 0.0], categories={0.5: "tie"})
    assert read_as([2, 1, 0], categories={2: "first", 1: "tie", 0: "second"}) == ["first", "tie", "second"]


def test_names_of_models_win():
    first, second = ["x", "y", "z", "x"], ["y", "x", "x", "z"]
    assert read_as(["x", "x", "tie", "z"], first=first, second=second) == ["first", "second", "tie", "second"]


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
        (["modle_a", "tie"], {}, ["'modle_a', first in row 10; did you mean 'model_a'?", "'modle_a' 1, 'tie' 1)"]),
        (["?", "!", "tie"], {}, ["labels '?', '!', first in row 10 (", "{'?': ..., '!': ..., 'tie': ...}: each"]),
        ([1, 2, 3], {}, ["unknown winner labels '1', '2', '3'", "categories={1: ..., 2: ..., 3: ...}: each"]),
        (["1", "0"], {}, ["unknown winner label '0'", "'1' 1, '0' 1"]),
        (["a", "b"], {"first": "a"}, ["'a' is a known spelling of 'first' and", "categories={'a': 'first'}", "rename"]),
        (["tie", "x"], {"second": "tie"}, ["'tie' is a known spelling of 'tie' and also the name of a model"]),
        ([1, 0], {"first": "0", "second": "1"}, ["the label 1 is a known spelling of 'first' and also the name"]),
        (["z", "x"], {"first": ["x", "x"], "second": ["y", "z"]}, ["1 votes name a winner that was not", "'z'"]),
        (["tie"], {"categories": {"Tie": "both_bad"}}, ["categories has the label 'Tie', the data have 'tie'"]),
        ([1, 0], {"categories": {"1": "second"}}, ["categories has the label '1', the data have 1"]),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_read(labels, options, fragments):
    with pytest.raises(OutcomeError) as caught:
        outcomes(labels, **options)
    for fragment in fragments:
        assert fragment in str(caught.value)


# The family of alphabets: a column has labels of one vocabulary, some or all of them, in any letter case, with meanings
# given for none, some or all; the labels of another vocabulary may be among them. Each is read whole or refused whole.
WHOLE = [
    {"H": "first", "A": "second", "D": "tie"},
    {"home": "first", "away": "second", "draw": "tie"},
    {"W": "first", "L": "second", "D": "tie"},
    {"win": "first", "loss": "second", "tie": "tie"},
    {"1-0": "first", "0-1": "second", "1/2": "tie"},
    {"1": "first", "2": "second", "X": "tie"},
    {"left": "first", "right": "second", "tie": "tie"},
    {"chosen": "first", "rejected": "second"},
    {"True": "first", "False": "second"},
    {"model_a": "first", "model_b": "second", "tie (bothbad)": "both_bad"},
]
NUMBERS = [{1: "first", 0: "tie", -1: "second"}, {1: "first", 0.5: "tie", 0: "second"}, {2: "first", 1: "second"}]


@pytest.mark.parametrize("seed", range(60))
def test_an_alphabet_is_read_whole_or_refused_whole(seed):
    rng = np.random.default_rng(seed)
    full = [*WHOLE, *NUMBERS][rng.integers(len(WHOLE) + len(NUMBERS))]
    labels = list(full)
    column = [*labels, *(labels[k] for k in rng.integers(len(labels), size=20))]
    rng.shuffle(column)
    if 0.5 in labels:
        assert outcomes(column).kind == "preferences"
    assert read_as(column, categories=full) == [full[label] for label in column]
    given = {label: full[label] for label in labels if rng.random() < 0.5}
    changed = dict.fromkeys(given, "both_bad")
    for categories in (given, changed) if given or 0.5 not in labels else ():
        try:
            read = read_as(column, categories=categories)
        except OutcomeError as error:
            read, said = None, str(error)
        if read is None:
            listed = [f"{label!r} {column.count(label)}" for label in labels] + [f"{label!r}: " for label in labels]
            assert [part for part in listed if part not in said] == []
            assert said.count("categories={") == 1
        else:
            assert read == [(full | categories)[label] for label in column]
    stranger = str(rng.choice(["?", "nobody", "5", "B&A"]))
    if all(isinstance(label, str) for label in labels) and stranger not in full:
        with pytest.raises(OutcomeError, match=f"unknown winner label.* '{re.escape(stranger)}' 1"):
            read_as([*column, stranger])


def test_numbers_are_read_alone_or_with_every_meaning():
    for values, categories in (([1, 0, -1], {1: "first", -1: "second"}), ([1, 0], {1: "second"}), ([2, 1], None)):
        with pytest.raises(OutcomeError, match="unknown winner label"):
            read_as(values, categories=categories)


def test_a_meaning_that_does_not_exist():
    with pytest.raises(OptionError, match="draw"):
        outcomes(["?"], categories={"?": "draw"})
    with pytest.raises(OptionError, match="both_good"):
        outcomes(["?"], categories={"?": "both good"})


def test_meanings_for_labels_that_do_not_occur_are_named_and_ignored():
    with pytest.warns(DmlrankWarning, match="no vote"):
        assert read_as(["tie", "a"], categories={"no vote": "both_bad"}) == ["tie", "first"]


def test_numbers_between_zero_and_one_are_preferences():
    read_outcomes = outcomes([0.25, 1.0, 0.0])
    assert (read_outcomes.kind, read_outcomes.categories) == ("preferences", ("first", "second"))
    np.testing.assert_array_equal(read_outcomes.y, [[0.25, 0.75], [1, 0], [0, 1]])
    assert read_outcomes.labels == (("1", "first"), ("0", "second"))


def test_zeros_and_ones_alone_are_labels():
    for values in ([1, 0, 0], [1.0, 0.0], [True, False]):
        assert outcomes(values).kind == "labels"
    meanings = {0.5: "tie", 1: "first", 0: "second"}
    assert outcomes([0.5, 1.0, 0.0], categories=meanings).kind == "labels"
    with pytest.warns(DmlrankWarning):
        assert outcomes([0.5, 1.0, 0.0], categories={0.75: "tie"}).kind == "preferences"


def test_versions_are_names_of_models():
    read_outcomes = outcomes([3.5, 4.5], first=["3.5", "3.5"], second=["4.5", "4.5"])
    assert read_outcomes.kind == "labels"
    np.testing.assert_array_equal(read_outcomes.y, np.eye(2))


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([0.5, 1.2, 0.0], {}),
        ([0.5, np.inf], {}),
        ([1, 2, 3], {}),
        (["?", 0.25], {}),
        ([0.5, 0.25], {"categories": {0.5: "tie"}}),
        ([0.5, 1.0], {"categories": {"0.5": "tie"}}),
    ],
)
def test_numbers_that_are_no_preferences(values, options):
    with pytest.raises(OutcomeError):
        outcomes(values, **options)


@pytest.mark.parametrize(
    ("columns", "categories", "order"),
    [
        (["p_a", "p_b"], ("first", "second"), [0, 1]),
        (["model_a", "model_b", "tie"], ("first", "second", "tie"), [0, 1, 2]),
        (["prob_tie", "prob_model_b", "prob_model_a"], ("first", "second", "tie"), [2, 1, 0]),
        (["winner_model_a", "winner_model_b", "winner_tie"], ("first", "second", "tie"), [0, 1, 2]),
        (["P left", "P right", "P draw"], ("first", "second", "tie"), [0, 1, 2]),
        (["p_a", "p_tie", "p_bothbad", "p_b"], ("first", "second", "both_good", "both_bad"), [0, 3, 1, 2]),
        (["a", "b", "both_good", "both_bad", "tie"], ("first", "second", "both_good", "both_bad", "tie"), range(5)),
    ],
)
def test_columns_are_known_by_their_names(columns, categories, order):
    rows = np.random.default_rng(0).dirichlet(np.ones(len(columns)), size=4)
    read_outcomes = read_probabilities(pd.DataFrame(rows, columns=columns))
    assert (read_outcomes.kind, read_outcomes.categories) == ("probabilities", categories)
    np.testing.assert_allclose(read_outcomes.y, rows[:, list(order)], rtol=1e-15)
    np.testing.assert_allclose(read_outcomes.y.sum(axis=1), 1, rtol=1e-15)


def test_columns_of_other_names_need_a_meaning():
    table = pd.DataFrame({"u": [0.5], "v": [0.25], "p_tie": [0.25]})
    read_outcomes = read_probabilities(table, {"u": "second", "v": "first", "p_tie": "both_bad"})
    assert read_outcomes.categories == ("first", "second", "both_bad")
    np.testing.assert_array_equal(read_outcomes.y, [[0.25, 0.5, 0.25]])
    assert read_outcomes.labels == (("u", "second"), ("v", "first"), ("p_tie", "both_bad"))


def test_a_category_that_never_has_a_probability_is_left_out():
    table = pd.DataFrame({"p_a": [0, 0], "p_b": [1, 1], "p_tie": [0, 0]})
    assert read_probabilities(table).categories == ("first", "second")


@pytest.mark.parametrize(
    ("columns", "options", "error"),
    [
        ({"p_a": 0.5, "p_c": 0.5}, {}, OutcomeError),
        ({"p_a": 0.5, "p_tie": 0.5}, {}, OutcomeError),
        ({"p_a": 0.5, "p_b": 0.3, "b": 0.2}, {}, OutcomeError),
        ({"p_a": 1.5, "p_b": -0.5}, {}, OutcomeError),
        ({"p_a": np.inf, "p_b": 0.0}, {}, OutcomeError),
        ({"p_a": "0.5", "p_b": 0.5}, {}, OutcomeError),
        ({"p_a": 0.5, "u": 0.5}, {"categories": {"u": "draw"}}, OptionError),
    ],
)  # fmt: skip
def test_columns_that_are_no_probabilities(columns, options, error):
    with pytest.raises(error):
        read_probabilities(pd.DataFrame(columns, index=[7, 9]), **options)


@pytest.fixture
def soft(votes):
    """The votes with probabilities in place of labels; nobody has judged q5."""
    p = np.random.default_rng(0).dirichlet([1, 1, 1], size=9)
    p[votes["question"] == "q5"] = np.nan
    return votes.assign(p_a=p[:, 0], p_b=p[:, 1], p_tie=p[:, 2])


def test_a_row_without_any_probability_is_not_labelled(read, soft):
    data = read(soft, outcome="p_a + p_b + p_tie", context=["question"])
    assert (data.outcome_kind, data.n_votes, data.n_unlabelled, data.n_dropped) == ("probabilities", 8, 1, 0)
    mean = soft.groupby(["question", "a", "b"])[["p_a", "p_b", "p_tie"]].mean().dropna()
    for i, j, k, y in zip(data.cells.context, data.cells.first, data.cells.second, data.cells.y, strict=True):
        np.testing.assert_allclose(y, mean.loc[(data.context_ids[i], data.items[j], data.items[k])], rtol=1e-12)


def test_a_row_with_some_of_its_probabilities(read, soft):
    soft.loc[3, "p_tie"] = np.nan
    for missing in ("raise", "keep"):
        with pytest.raises(MissingDataError, match="p_tie"):
            read(soft, outcome="p_a + p_b + p_tie", context=["question"], missing=missing)
    data = read(soft, outcome="p_a + p_b + p_tie", context=["question"], missing="drop")
    assert (data.n_votes, data.n_unlabelled, data.n_dropped) == (7, 1, 1)


def test_probabilities_are_no_features(read, soft):
    with pytest.raises(ValueError, match="p_tie"):
        read(soft, "p_tie", outcome="p_a + p_b + p_tie")


# --- the page on data ------------------------------------------------------------------------------------------------


def test_the_page_on_data_lists_all_recognised_labels():
    page = (pathlib.Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    section = page.partition("## Recognised labels")[2].partition("\n## ")[0]
    listed = {
        meaning: re.findall("`([^`]+)`", words)
        for meaning, words in re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.M)
    }
    assert listed == {meaning: words.split() for meaning, words in KNOWN_SPELLINGS.items()}
    assert re.findall("`([a-z]+_)`", section) == list(PREFIXES)
    assert {meaning: [read_as([word, "model_b"])[0] for word in words] for meaning, words in listed.items()} == {
        meaning: [meaning] * len(words) for meaning, words in listed.items()
    }
