"""Hypotheses in words against evaluating the words, names that look like arithmetic, and what every error says."""

import numpy as np
import pandas as pd
import pytest

from dmlrank.data.hypotheses import read_hypothesis
from dmlrank.exceptions import HypothesisError, UnknownModelError

MODELS = ["a", "b", "c", "gpt-4", "claude-1"]
NASTY = [
    "gpt-4", "gpt-4-turbo", "gpt-4-turbo (2024)", "gpt-4-turbo-2024-04-09", "01-ai/yi-34b",
    "meta-llama/Llama-3.1-70B-Instruct", "qwen2.5:72b[q4_K_M]", "claude 3", "claude 3 opus", "a+b", "c++", "x*y",
    "model = best", "one, two; three", "O'Brien's \"best\"", "(beta) grok", "4o", "1e3x", "模型-7b", "ёлка", "d", "e",
    "a-b", "a - b", "`tick", "f(x)", ".hidden", "a_b|c", "50%", "{x}",
]  # fmt: skip
ONLY_QUOTED = ["4", "3.5", "1e5", "-x", "+", "=", " padded", "padded ", "*starred", "/slash", ",", "new\nline"]


@pytest.mark.parametrize(
    ("words", "matrix", "value", "labels"),
    [
        ("a - b", [[1, -1, 0]], [0], ["a - b"]),
        ("a", [[1, 0, 0]], [0], ["a"]),
        ("-a", [[-1, 0, 0]], [0], ["-a"]),
        ("a - b = 0.1", [[1, -1, 0]], [0.1], ["a - b"]),
        ("a - b - .1", [[1, -1, 0]], [0.1], ["a - b"]),
        ("0.1 = a", [[-1, 0, 0]], [-0.1], ["-a"]),
        ("a = 1e-3", [[1, 0, 0]], [0.001], ["a"]),
        ("(a + b)/2 = c", [[0.5, 0.5, -1]], [0], ["0.5*a + 0.5*b - c"]),
        ("2*a = b + c", [[2, -1, -1]], [0], ["2*a - b - c"]),
        ("a*2 - b * 1E+1", [[2, -10, 0]], [0], ["2*a - 10*b"]),
        ("a-(b+c)/2", [[1, -0.5, -0.5]], [0], ["a - 0.5*b - 0.5*c"]),
        ("-(a - -b)", [[-1, -1, 0]], [0], ["-a - b"]),
        ("-c + 3*a", [[3, 0, -1]], [0], ["3*a - c"]),
        ("a − b", [[1, -1, 0]], [0], ["a - b"]),
        ("'a' - \"b\" + `c`", [[1, -1, 1]], [0], ["a - b + c"]),
        ("a = b = c", [[1, -1, 0], [0, 1, -1]], [0, 0], ["a - b", "b - c"]),
        ("a = b = 1", [[1, -1, 0], [0, 1, 0]], [0, 1], ["a - b", "b"]),
        ("a, b = 2; c", [[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 2, 0], ["a", "b", "c"]),
        (
            "\n a = b,\n\n b = c;\r\n a = c",
            [[1, -1, 0], [0, 1, -1], [1, 0, -1]],
            [0, 0, 0],
            ["a - b", "b - c", "a - c"],
        ),
        ("(a\n- b)", [[1, -1, 0]], [0], ["a - b"]),
        ("0.1*a + 0.2*a - 0.3*a = b", [[0, -1, 0]], [0], ["-b"]),
        ("a - a/3 - a/3 - a/3 + b", [[0, 1, 0]], [0], ["b"]),
        ("a - b, a - b", [[1, -1, 0], [1, -1, 0]], [0, 0], ["a - b", "a - b"]),
    ],
)
def test_words_are_read(words, matrix, value, labels):
    read = read_hypothesis(words, ["a", "b", "c"])
    np.testing.assert_array_equal(read.matrix, np.array(matrix, dtype=float))
    np.testing.assert_array_equal(read.value, np.array(value, dtype=float))
    assert read.labels == tuple(labels)
    assert read.matrix.dtype == read.value.dtype == np.float64


@pytest.mark.parametrize("name", NASTY)
def test_a_name_is_matched_whole(name):
    plain, other = read_hypothesis(name, NASTY), "claude 3" if name != "claude 3" else "gpt-4"
    np.testing.assert_array_equal(plain.matrix[0], np.eye(len(NASTY))[NASTY.index(name)])
    assert plain.labels == (name,)
    expected = np.eye(len(NASTY))[NASTY.index(name)] - np.eye(len(NASTY))[NASTY.index(other)]
    for words in (f"{name} - {other}", f"{name} = {other}", f"({name})-({other})", f"2*({name} - {other})/2"):
        np.testing.assert_array_equal(read_hypothesis(words, NASTY).matrix, [expected])
    np.testing.assert_array_equal(read_hypothesis((name, other), NASTY).matrix, [expected])
    np.testing.assert_array_equal(read_hypothesis({name: 1, other: -1}, NASTY).matrix, [expected])


@pytest.mark.parametrize("name", NASTY + ONLY_QUOTED)
def test_any_name_can_be_quoted(name):
    models = NASTY + ONLY_QUOTED
    quotes = [q for q in "'\"`" if q not in name]
    assert quotes
    for quote in quotes:
        read = read_hypothesis(
            f"{quote}{name}{quote}-{quote}c++{quote}" if name != "c++" else f"{quote}c++{quote}", models
        )
        assert read.matrix[0, models.index(name)] == 1.0
        assert np.abs(read.matrix).sum() == (2.0 if name != "c++" else 1.0)


@pytest.mark.parametrize(
    ("models", "words", "first", "second"),
    [
        (["a", "b", "a-b"], "a - b", "a", "b"),
        (["a", "b", "a - b"], "'a - b'", "a - b", None),
        (["gpt-4", "turbo"], "gpt-4-turbo", "gpt-4", "turbo"),
        (["gpt-4", "gpt-4-turbo"], "gpt-4-turbo", "gpt-4-turbo", None),
        (["gpt-4", "gpt-4-turbo"], "gpt-4-turbo-gpt-4", "gpt-4-turbo", "gpt-4"),
        (["gpt-4", "gpt-4-turbo"], "gpt-4-gpt-4-turbo", "gpt-4", "gpt-4-turbo"),
        (["'a'", "b"], "'a'", "'a'", None),
        (["(a)", "a"], "(a) - a", "(a)", "a"),
        (["a ", "a", "b"], "a - b", "a", "b"),
    ],
)
def test_the_longest_name_wins(models, words, first, second):
    (row,) = read_hypothesis(words, models).matrix
    assert row.tolist() == [float(model == first) - float(model == second) for model in models]


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (["a", "b", "a - b"], "a - b"),
        (["a", "b", "a = b"], "a = b"),
        (["a", "b", "c", "a > b > c"], "a > b > c"),
        (["a", "b", "a, b"], "a, b"),
        (["a", "b - c", "a - b", "c"], "a - b - c"),
        (["'a'", "a"], "'a'"),
        (["a", "b", "a - b"], "2*'a - b' = a - b"),
    ],
)
def test_a_name_that_is_also_an_expression_must_be_quoted(models, words):
    with pytest.raises(HypothesisError):
        read_hypothesis(words, models)
    for name in models:
        read = read_hypothesis(f'"{name}"', models)
        np.testing.assert_array_equal(read.matrix, [np.eye(len(models))[models.index(name)]])


@pytest.mark.parametrize(
    ("hypothesis", "labels"),
    [
        (("gpt-4", "claude-1"), ["gpt-4 - claude-1"]),
        (["gpt-4 - claude-1", "a = b = c"], ["gpt-4 - claude-1", "a - b", "b - c"]),
        (["a", "b"], ["a", "b"]),
        ([("a", "b"), {"c": 1}, "b = c"], ["a - b", "c", "b - c"]),
        ({"gpt-4": 1, "claude-1": -1.0}, ["gpt-4 - claude-1"]),
        ({"b": -1, "a": np.float32(0.5)}, ["0.5*a - b"]),
        (pd.Series({"c": 2, "a": -2}), ["2*c - 2*a"]),
        ([1, -1, 0, 0, 0], ["a - b"]),
        (np.array([0.5, 0.5, -1, 0, 0]), ["0.5*a + 0.5*b - c"]),
        ([[1, -1, 0, 0, 0], [0, 0, 0, -1, 1]], ["a - b", "claude-1 - gpt-4"]),
        ([(1, -1, 0, 0, 0), (0, 1, -1, 0, 0)], ["a - b", "b - c"]),
        (np.array([[True, False, False, False, False]]), ["a"]),
        (pd.DataFrame({"gpt-4": [1, 0], "a": [-1.0, 1 / 3]}), ["gpt-4 - a", "0.333333*a"]),
        (pd.DataFrame({"a": [1], "b": [-1]}, dtype="Int64"), ["a - b"]),
    ],
)
def test_numbers_and_names_are_read(hypothesis, labels):
    read = read_hypothesis(hypothesis, MODELS)
    assert read.labels == tuple(labels)
    np.testing.assert_array_equal(read.value, np.zeros(len(labels)))
    # "%g" shows six digits
    np.testing.assert_allclose(read.matrix, read_hypothesis(list(labels), MODELS).matrix, atol=1e-6)


def test_restrictions_with_values():
    matrix = np.array([[1, -1, 0, 0, 0], [0, 1, -1, 0, 0]])
    frame = pd.DataFrame({"b": [-1, 1], "a": [1, 0], "c": [0, -1]}, index=["x", "y"])
    for pair in [(matrix, [0.1, 2]), (matrix.tolist(), np.array([0.1, 2])), (frame, pd.Series([0.1, 2], ["x", "y"]))]:
        read = read_hypothesis(pair, MODELS)
        np.testing.assert_array_equal(read.matrix, matrix)
        np.testing.assert_array_equal(read.value, [0.1, 2])
    np.testing.assert_array_equal(read_hypothesis((matrix, 3), MODELS).value, [3, 3])
    np.testing.assert_array_equal(read_hypothesis((matrix[0], 3), MODELS).value, [3])
    np.testing.assert_array_equal(read_hypothesis(({"a": 1}, 3), MODELS).value, [3])


def test_the_input_is_neither_changed_nor_shared():
    matrix, value = np.eye(2), np.array([1.0, 2.0])
    read = read_hypothesis((matrix, value), ["a", "b"])
    read.matrix[:], read.value[:] = 7, 7
    np.testing.assert_array_equal(matrix, np.eye(2))
    np.testing.assert_array_equal(value, [1, 2])


@pytest.mark.parametrize(
    "words",
    [
        "gpt-4-0314 = claude-1",
        "gpt-4-a-turbo",
        "gpt-4-(2024)",
        "01-ai/yi-34b",
        "GPT-4 = a",
        "a = 'gpt 4'",
        "a = nan",
        "2a = b",
        "(a + zz)/2",
        {"gpt4": 1},
    ],
)
def test_unknown_models_are_named(words):
    with pytest.raises(UnknownModelError):
        read_hypothesis(words, MODELS)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "a*b",
        "1/a",
        "a/0",
        "(a - b",
        "()",
        "a -",
        "= a",
        "a, , b",
        "a**2",
        "a b",
        "1 = 2",
        "a = b = b",
        "0*a",
        "a > b",
        "'a - b",
        "1e999*a",
        "0." + "0" * 2000 + "1*a",
        "1e-300*1e-300*a",
        "0e999999999999*a",
        "(" * 5000 + "a" + ")" * 5000,
    ],
)
def test_words_that_say_nothing_are_refused(words):
    with pytest.raises(HypothesisError):
        read_hypothesis(words, MODELS)


def test_a_number_that_is_also_a_name_must_be_told_apart():
    with pytest.raises(HypothesisError):
        read_hypothesis("a = 4", ["a", "4"])
    np.testing.assert_array_equal(read_hypothesis("a = '4'", ["a", "4"]).matrix, [[1, -1]])
    np.testing.assert_array_equal(read_hypothesis("a = 04", ["a", "4"]).value, [4])


class NamedColumns:
    columns = ("a", "b")


@pytest.mark.parametrize(
    "hypothesis",
    [
        [],
        {},
        np.empty((0, 5)),
        [1, -1],
        3.0,
        [[1, -1], [1]],
        None,
        {"a": "1"},
        [[1j, 0, 0, 0, 0]],
        {"a": 10**400},
        [[1, 0, 0, 0, 0], [np.inf, 0, 0, 0, 0]],
        (np.eye(5), np.nan),
        np.zeros(5),
        pd.DataFrame({"a": [1, 0]}),
        pd.Series([1, -1], index=["a", "a"]),
        ("a", "a"),
        (np.eye(5), [1, 2]),
        ("a - b", 0.1),
        ("a", "b", "c"),
        (["a - b"], [0.1]),
        (pd.DataFrame({"a": [1, 2]}), pd.Series([1, 2], index=[1, 0])),
        NamedColumns(),
    ],
)
def test_numbers_that_cannot_be_read_are_refused(hypothesis):
    with pytest.raises(HypothesisError):
        read_hypothesis(hypothesis, MODELS)


def test_a_model_of_a_projection_is_answered_by_its_coefficients():
    names = ["Intercept: aster", "Intercept: dahlia", "tokens: aster", "tokens: dahlia"]
    with pytest.raises(UnknownModelError, match="it has 'Intercept: aster', 'tokens: aster'"):
        read_hypothesis("aster - dahlia", names)
