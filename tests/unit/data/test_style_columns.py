"""Style columns: counts of texts by hand and by a line-by-line twin, conversations, published counts, and errors."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr

ANSWER = """# Title
## Part
#no header
**bold** and __bold__ and ** two lines
**
- item
  * item
1. item
2) no item
```python
# comment, no header
- minus
```
"""


def test_counts_of_one_answer_by_hand():
    style = dr.data.style_columns(pd.DataFrame({"answer_a": [ANSWER], "answer_b": [""]})).iloc[0]
    assert style["log_length"] == np.log(len(ANSWER))
    assert style["log_words"] == np.log(len(ANSWER.split()))
    # With b = 0 a column is a / (a + 1): two headers, two bold passages, three list items, one code block.
    assert style["headers"] == 2 / 3
    assert style["bold"] == 2 / 3
    assert style["lists"] == 3 / 4
    assert style["code_blocks"] == 1 / 2


def test_counts_agree_with_a_twin_that_reads_line_by_line():
    rng = np.random.default_rng(0)
    words = ["#", "## ", "word", "- ", "* ", "1. ", "12. ", "+ x", "\n", "\n", " ", "**", "x"]
    answers = ["".join(rng.choice(words, 60)) for _ in range(80)]
    table = pd.DataFrame({"answer_a": answers, "answer_b": [""] * 80})
    style = dr.data.style_columns(table)

    def is_header(line):
        n_hashes = len(line) - len(line.lstrip("#"))
        return 1 <= n_hashes <= 6 and line[n_hashes : n_hashes + 1].isspace()

    a = np.array([sum(is_header(line) for line in answer.splitlines(keepends=True)) for answer in answers])
    assert a.max() > 3
    np.testing.assert_allclose(style["headers"], a / (a + 1))


def test_exchanging_the_answers_changes_all_signs():
    answers = pd.DataFrame({"answer_a": [ANSWER, "x"], "answer_b": ["**b** text", ANSWER + ANSWER]})
    first = dr.data.style_columns(answers)
    second = dr.data.style_columns(answers, answers=("answer_b", "answer_a"))
    columns = ["log_length", "log_words", "headers", "bold", "lists", "code_blocks"]
    np.testing.assert_array_equal(first[columns], -second[columns])
    assert list(first.columns) == ["answer_a", "answer_b", *columns]
    assert list(answers.columns) == ["answer_a", "answer_b"]


def test_conversations_are_read_as_the_text_of_the_assistant():
    parts = [
        {"role": "user", "content": [{"type": "text", "text": "# question"}]},
        {"role": "assistant", "content": [{"type": "text", "text": ANSWER}, {"type": "image", "image": "..."}]},
        {"role": "user", "content": "- more"},
        {"role": "assistant", "content": "**end**"},
    ]
    talk = dr.data.style_columns(pd.DataFrame({"answer_a": [parts, None], "answer_b": ["b", "b"]}))
    text = dr.data.style_columns(pd.DataFrame({"answer_a": [ANSWER + "\n**end**"], "answer_b": ["b"]}))
    np.testing.assert_array_equal(talk.iloc[0, 2:].astype(float), text.iloc[0, 2:].astype(float))
    assert talk.iloc[1, 2:].isna().all()


def counts(tokens, headers, **more):
    side = {
        "header_count": {"h1": headers, "h2": 1, "h3": None},
        "bold_count": {"**": 2, "__": 0},
        "list_count": {"ordered": 3, "unordered": 1},
    }
    metadata = {f"{name}_{s}": value for name, value in side.items() for s in "ab"}
    return metadata | {"sum_assistant_a_tokens": tokens, "sum_assistant_b_tokens": 10} | more


@pytest.mark.parametrize("kind", ["pandas", "arrow", "polars"])
def test_published_counts_are_read_from_structs_and_mappings(kind):
    pyarrow = pytest.importorskip("pyarrow")
    rows = [counts(20, 3, header_count_b={"h1": 0, "h2": 0, "h3": 0}), counts(10, 1)]
    table = pd.DataFrame({"model_a": ["x", "y"], "conv_metadata": rows})
    if kind != "pandas":
        table = pyarrow.Table.from_pylist(table.to_dict("records"))
    if kind == "polars":
        table = pytest.importorskip("polars").from_arrow(table)
    style = dr.data.style_columns(table)
    np.testing.assert_allclose(style["log_length"], [np.log(2), 0])
    np.testing.assert_allclose(style["headers"], [4 / 5, 0])
    np.testing.assert_allclose(style[["bold", "lists"]], 0)
    assert "code_blocks" not in style
    assert "log_words" not in style


def test_errors_say_what_was_found_and_what_to_do():
    table = pd.DataFrame({"answer_a": ["x"], "answer_b": ["y"], "number": [3], "headers": [0.0]})
    with pytest.raises(dr.exceptions.ColumnError, match="replace=True"):
        dr.data.style_columns(table)
    assert dr.data.style_columns(table, replace=True)["headers"].tolist() == [0.0]
    for answers, error, words in (
        (("answer_a", "answer_c"), dr.exceptions.ColumnError, "answer_c"),
        (("answer_a", "number"), dr.exceptions.DataError, None),
        (("answer_a",), dr.exceptions.OptionTypeError, None),
        ("number", dr.exceptions.DataError, None),
    ):
        with pytest.raises(error, match=words):
            dr.data.style_columns(table.drop(columns="headers"), answers=answers)
    lacking, empty = {"conv_metadata": [{"sum_assistant_a_tokens": 3}]}, {"answer_a": [None], "answer_b": ["x"]}
    for columns, words in (
        (lacking, "a cell of column 'conv_metadata' lacks 'header_count_a'; it has 'sum_assistant_a_tokens'"),
        (empty, "all cells"),
    ):
        with pytest.raises(dr.exceptions.DataError, match=words):
            dr.data.style_columns(pd.DataFrame(columns))
