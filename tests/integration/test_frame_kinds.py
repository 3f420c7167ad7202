"""The same battles in any kind of frame: the same ranking to the last bit, and a frame that stays as it was."""

import numpy as np
import pytest

from ..support import optional, two_of

pa = optional("pyarrow")

KINDS = ["nullable", "arrow dtypes", "polars", "pyarrow", "duckdb", "parquet"]
FORMULA = "winner ~ length + topic + code + place + e + text(prompt, 2) | model_a + model_b"
QUICK = {"tune": {"n_estimators": 3, "num_leaves": 4}, "n_folds": 2, "functional": "bt", "missing": "drop"}
MODELS = ["zephyr", "unused", "koala", "alpaca"]


@pytest.fixture(scope="module")
def battles():
    """Votes on 150 prompts as an Arrow table with all kinds of columns, values missing in some of them."""
    rng = np.random.default_rng(3)
    prompt = rng.permutation(np.repeat(np.arange(150), 2))
    ranked = np.array(["zephyr", "koala", "alpaca"])
    first, second = two_of(rng, 3, 300)
    length = rng.normal(size=150)
    words = [" ".join(rng.choice(["write", "sort", "poem", "list", "prove"], size=4)) for _ in range(150)]
    columns = {
        "prompt_id": pa.array(prompt),
        "winner": _with_missing(rng.choice(["model_a", "model_b", "tie"], size=300), rng.random(300) < 0.1),
        "model_a": _coded(ranked[first], MODELS),
        "model_b": _coded(ranked[second], MODELS),
        "length": _with_missing(length[prompt], prompt % 40 == 7),
        "topic": _coded(np.array(["math", "chat"])[prompt % 2], ["none", "math", "chat"]),
        "code": _with_missing(prompt % 3 == 0, prompt % 50 == 9),
        "place": _with_missing(prompt, prompt % 60 == 11),
        "e": pa.array([[float(q), float(q % 5)] for q in prompt], pa.list_(pa.float64(), 2)),
        "prompt": pa.array([words[q] for q in prompt]),
        "judge": pa.array([f"judge{k}" for k in rng.integers(4, size=300)]),
        "unread": pa.array([{"u": 1}] * 300),
    }
    return pa.table(columns)


def _with_missing(values, missing):
    return pa.array([None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)])


def _coded(values, levels):
    return pa.DictionaryArray.from_arrays(pa.array([levels.index(v) for v in values], pa.int8()), pa.array(levels))


def same(left, right):
    """Equal to the last bit."""
    assert left.models == right.models
    for name in ("params", "bse"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    assert left.summary().as_text() == right.summary().as_text()


@pytest.mark.long
@pytest.mark.parametrize("context", ["prompt_id", None])
def test_the_same_ranking_from_every_kind_of_frame(battles, as_kind, rank, context):
    expected = rank(as_kind(battles, "pandas"), FORMULA, context=context, **QUICK)
    assert expected.models == ["zephyr", "koala", "alpaca"]
    assert "topic[T.chat]" in expected.steps.data.feature_map.names
    for kind in KINDS:
        same(rank(as_kind(battles, kind), FORMULA, context=context, **QUICK), expected)


def test_update_reads_a_relation_again(battles, as_kind, rank):
    relation = as_kind(battles, "duckdb")
    fitted = rank(relation, "winner ~ length | model_a + model_b", context="prompt_id", **QUICK)
    assert fitted.update(functional="borda").steps.data is fitted.steps.data
    again = fitted.update(missing="keep")
    assert again.steps.data is not fitted.steps.data
    same(
        again, rank(battles, "winner ~ length | model_a + model_b", context="prompt_id", **QUICK | {"missing": "keep"})
    )
