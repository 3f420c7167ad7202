"""Grades with worths: the fit is that of the worths as preferences, whatever the labels are called."""

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import OptionError, OutcomeError
from dmlrank.options import in_objects

FORMULA = "winner ~ 1 | model_a + model_b"
WORTHS = {"A>>B": 1, "A>B": 0.75, "A=B": 0.5, "B>A": 0.25, "B>>A": 0}
MIRROR = {"A>>B": "B>>A", "A>B": "B>A", "A=B": "A=B", "B>A": "A>B", "B>>A": "A>>B"}
MODELS = np.array(["ash", "birch", "cedar", "elm"])


def battles(n=400, seed=0):
    """Battles whose grades follow the gap in strength; every model is shown in both positions."""
    rng = np.random.default_rng(seed)
    first, second = np.array([rng.choice(4, 2, replace=False) for _ in range(n)]).T
    noise = rng.normal(size=n)
    place = np.digitize(-(0.5 * (second - first) + noise), [-1.0, -0.3, 0.3, 1.0])
    winner = np.array(list(WORTHS))[place]
    return pd.DataFrame({"model_a": MODELS[first], "model_b": MODELS[second], "winner": winner, "q": np.arange(n) // 2})


def fit(frame, **options):
    return dr.dml_rank(FORMULA, frame, **in_objects({"context": "q", "rng": 0, "position_bias": False} | options))


def same(one, other, rtol=1e-12):
    np.testing.assert_allclose(one.params, other.params[one.params.index], rtol=rtol, atol=1e-13)
    np.testing.assert_allclose(one.bse, other.bse[one.bse.index], rtol=max(rtol, 1e-10))


@pytest.mark.parametrize("functional", ["borda", "bt", "rank_centrality", "dominance"])
@pytest.mark.parametrize("position_bias", [True, False])
def test_the_fit_is_that_of_the_worths_as_preferences(functional, position_bias, ignore_warnings):
    frame = battles()
    options = {"functional": functional, "position_bias": position_bias}
    graded = fit(frame, categories=WORTHS, **options)
    same(graded, fit(frame.assign(winner=frame.winner.map(WORTHS)), **options))


def test_borda_is_the_mean_worth_where_every_pair_is_graded():
    rng = np.random.default_rng(1)
    grades = rng.integers(5, size=(80, 4, 4))
    worth = np.linspace(1, 0, 5)[grades]
    rows = [
        {"q": i, "model_a": MODELS[j], "model_b": MODELS[k], "winner": list(WORTHS)[grades[i, j, k]]}
        for i in range(80)
        for j in range(4)
        for k in range(j + 1, 4)
    ]
    res = fit(pd.DataFrame(rows), categories=WORTHS)
    table = np.where(np.arange(4)[:, None] < np.arange(4), worth, 1 - np.swapaxes(worth, 1, 2))
    share = (table * ~np.eye(4, dtype=bool)).sum(axis=2) / 3
    np.testing.assert_allclose(res.params, share.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(res.bse, share.std(axis=0) / np.sqrt(80), rtol=1e-10)


def test_swapped_models_with_mirrored_grades_give_the_same_scores():
    frame = battles().assign(q=lambda t: np.arange(len(t)))
    is_swapped = np.random.default_rng(2).random(len(frame)) < 0.5
    other = frame.copy()
    other.loc[is_swapped, ["model_a", "model_b"]] = frame.loc[is_swapped, ["model_b", "model_a"]].to_numpy()
    other.loc[is_swapped, "winner"] = frame.loc[is_swapped, "winner"].map(MIRROR)
    for functional in ("borda", "bt"):
        same(fit(frame, functional=functional, categories=WORTHS), fit(other, functional=functional, categories=WORTHS))


def test_extreme_worths_are_wins_and_words_may_be_mixed_in():
    frame = battles()
    coarse = frame[frame.winner.isin(["A>>B", "B>>A", "A=B"])]
    words = {"A>>B": "first", "B>>A": "second", "A=B": "tie"}
    same(fit(coarse, categories=words), fit(coarse, categories=words | {"A>>B": 1.0, "B>>A": 0}), rtol=1e-9)
    mixed = fit(frame, categories=WORTHS | {"A=B": "tie"})
    assert dict(mixed.diagnostics.labels)["A=B"] == "tie"
    np.testing.assert_allclose(mixed.params, fit(frame, categories=WORTHS).params, atol=0.02)


def test_worths_without_a_mirror_are_refused_where_orders_are_joined():
    frame = battles(1200)
    skewed = WORTHS | {"A>B": 0.6}
    words = r"gives 'A>B' the worth 0.6, and no label the worth 0.4.*pass position_bias=True"
    with pytest.raises(OptionError, match=words):
        fit(frame, categories=skewed)
    with pytest.raises(OptionError, match=words):
        fit(frame, categories=skewed, functional="bt", estimator="bt_mle", position_bias="auto")
    res = fit(frame, categories=skewed, position_bias=True, min_labels=5)
    same(res, fit(frame.assign(winner=frame.winner.map(skewed)), position_bias=True, min_labels=5))
    check = dr.check(FORMULA, frame, context="q", categories=skewed, position_bias=False)
    assert "no label the worth 0.4" in check.problems["found"][0]


def test_summary_says_which_share_is_used_and_check_lists_grades():
    frame = battles()
    text = " ".join(fit(frame, categories=WORTHS).explain().split())
    assert "Labels are grades." in text
    assert "A>B = 0.75" in text
    assert "Scores are means of this worth." in text
    for functional, words in (
        ("bt", "log-odds of a pair are those of the mean worth"),
        ("dominance", "is the mean worth"),
    ):
        assert words in " ".join(fit(frame, categories=WORTHS, functional=functional).explain().split())
    check = dr.check(FORMULA, frame, context="q", categories=WORTHS)
    assert check.labels.loc["B>A", "read_as"] == "0.25"
    assert check.labels["votes"].sum() == len(frame)
    assert not any("No label says" in problem for problem in check.problems["found"])


@pytest.mark.parametrize(
    ("categories", "error"),
    [
        (WORTHS | {"A>>B": 1.5}, OptionError),
        (WORTHS | {"A>>B": float("nan")}, OptionError),
        (WORTHS | {"A>>B": True}, OptionError),
        ({"A>>B": 1, "A>B": 0.75}, OutcomeError),
    ],
)
def test_worths_that_cannot_be_used(categories, error):
    with pytest.raises(error):
        fit(battles(60), categories=categories)


def test_columns_of_probabilities_have_no_worths():
    frame = battles(60).assign(p_a=0.5, p_b=0.5)
    with pytest.raises(OptionError, match="p_a"):
        dr.dml_rank("p_a + p_b ~ 1 | model_a + model_b", frame, categories={"p_a": 0.5}, rng=0)
