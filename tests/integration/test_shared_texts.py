"""Texts that stand under several contexts: found, warned of, and never split over folds."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.data.columns import SharedTexts, find_shared_texts, join_shared
from dmlrank.options import in_objects

from ..support import two_of, votes_of

TEXT = "winner ~ text(prompt, 20) | model_a + model_b"
pytestmark = pytest.mark.usefixtures("ignore_warnings")  # Results keep their warnings


def battles(n=999, n_texts=170, seed=0):
    """Every text prefers models in its own way, and stands under many identifiers."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(letters[rng.integers(26, size=6)]) for _ in range(2 * n_texts)]
    of_context = rng.integers(n_texts, size=n)
    strength = 2 * rng.normal(size=(n_texts, 3))
    a, b = two_of(rng, 3, n)
    gap = strength[of_context, a] - strength[of_context, b]
    won = rng.random(n) < 1 / (1 + np.exp(-gap))
    vectors = rng.normal(size=(n_texts, 8))
    votes = votes_of(["m0", "m1", "m2"], a, b, won, id=np.arange(n), vector=[vectors[t] for t in of_context])
    votes["prompt"] = [f"{words[2 * t]} {words[2 * t + 1]}" for t in of_context]
    return votes.assign(**{f"e{k}": vectors[of_context, k] for k in range(6)})


@pytest.fixture(scope="module")
def data():
    return battles()


FORMULAS = {
    "text": TEXT,
    "vectors": "winner ~ vector | model_a + model_b",
    "array": "winner ~ array | model_a + model_b",
    "numbers": "winner ~ e0 + e1 + e2 + e3 + e4 + e5 | model_a + model_b",
    "function": "winner ~ size(prompt) | model_a + model_b",
}


def repeats_told(result):
    return [text for text in result.diagnostics.warnings if "repeat a value of" in text]


def fit(data, formula=TEXT, **options):
    env = {"array": np.stack(list(data["vector"])), "size": lambda column: column.str.len() * 1.0}
    settings = {"context": "id", "tune": {"n_estimators": 5}, "propensity": "marginal", "min_labels": 1, "env": env}
    return dr.dml_rank(formula, data, **in_objects(settings | options | {"rng": 0, "n_jobs": 1}))


@pytest.mark.parametrize("kind", FORMULAS)
def test_contexts_with_one_text_are_warned_of_and_share_a_fold(data, kind):
    repeats = len(data) - data["prompt"].nunique()
    result = fit(data, FORMULAS[kind])
    (told,) = repeats_told(result)
    assert told.startswith(f"{repeats} of 999 contexts repeat a value of")
    assert "under another 'id'" in told
    folds = pd.Series(result.steps.repetitions[0].folds.fold).groupby(data["prompt"].to_numpy()).nunique()
    assert folds.max() == 1


def test_check_says_it_once(data):
    found = dr.check(TEXT, data, context="id", pairs=dr.Pairs(min_labels=1))
    told = found.problems["found"][found.problems["found"].str.contains("repeat a value of 'prompt'")]
    assert len(told) == 1
    assert "context='prompt' joins them" in told.iloc[0]
    assert found.columns["repeats"].to_dict() == {"prompt": 999 - data["prompt"].nunique()}


def test_what_the_advice_says_stops_the_warning(data):
    assert not repeats_told(fit(data, context="prompt"))
    assert not repeats_told(fit(data, cov_type="cluster", cov_kwds={"groups": "prompt"}))


def test_contexts_of_their_own_are_dealt_as_ever(data):
    alone = data.drop_duplicates("prompt").reset_index(drop=True)
    result = fit(alone)
    assert not repeats_told(result)
    assert result.steps.data.shared_texts is None
    assert len(np.unique(result.steps.repetitions[0].folds.unit)) == len(alone)


@pytest.mark.parametrize(
    ("features", "columns"),
    [
        ("C(topic)", {"topic": pd.Series(list("abcab") * 20)}),
        ("lower(topic)", {"topic": pd.Series(list("abcab") * 20)}),
        ("length", {"length": pd.Series(np.round(np.random.default_rng(0).normal(size=200), 1))}),
        ("flags", {"flags": np.eye(4)[np.arange(200) % 4]}),
        ("whole", {"whole": pd.Series([np.arange(3) + i % 60 for i in range(200)])}),
        ("text(prompt, 2)", {"prompt": pd.Series([f"text {i}" for i in range(200)])}),
        ("text(prompt, 2)", {"prompt": pd.Series([f"text {i}" for i in range(100)] + [None] * 20)}),
        (
            "text(a, 2) + text(b, 2)",
            {"a": pd.Series([f"a {i // 2}" for i in range(200)]), "b": pd.Series([f"b {i % 100}" for i in range(200)])},
        ),
        ("+".join("abcde"), {name: pd.Series([*np.arange(100) / 7, *[np.nan] * 20]) for name in "abcde"}),
    ],
)
def test_what_is_no_text_or_never_repeated_is_left_alone(features, columns):
    assert find_shared_texts(features, columns) is None


def test_units_with_a_text_in_common_become_one():
    shared = SharedTexts(("prompt",), "prompt", np.array([0, 1, 2, 1, 3, 4, 5, 6]))
    assert join_shared(np.array([0, 0, 1, 1, 2, 3, 4, 5]), shared, 2).tolist() == [0, 0, 0, 0, 2, 3, 4, 5]
    # One joint unit of half of the contexts would be more than a fold of three.
    assert join_shared(np.array([0, 0, 1, 1, 2, 3, 4, 5]), shared, 3).tolist() == [0, 0, 1, 1, 2, 3, 4, 5]
