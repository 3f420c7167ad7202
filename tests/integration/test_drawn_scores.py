"""Scores that were drawn with known propensities: estimates, influence values, coverage, wrong propensities."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import (
    ColumnError,
    DataError,
    DmlrankWarning,
    IntervalWarning,
    MissingDataError,
    NuisanceError,
)
from dmlrank.options import in_objects

from ..support import drawn_scores

MODELS = np.array(["a", "b", "c", "d"])
FORMULA = "score ~ 1 | model"


def simulated(seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return 0/1 scores, (n, 4), propensities, and what is drawn; the first two models are complete."""
    rng = np.random.default_rng(seed)
    scores = (rng.normal(size=(n, 1)) + 0.7 * rng.normal(size=(n, 4)) + [0.3, 0.2, 0.0, -0.2] > 0).astype(float)
    propensity = np.ones((n, 4))
    propensity[:, 2:] = rng.uniform(0.15, 0.5, size=(n, 1))
    return scores, propensity, rng.random((n, 1)) < propensity


def table_of(scores: np.ndarray, propensity: np.ndarray, is_drawn: np.ndarray) -> pd.DataFrame:
    """Return the drawn scores as a long table."""
    return drawn_scores(scores, is_drawn, MODELS, pi=propensity)


def fit(table: pd.DataFrame, propensity: object = "pi", **options: object) -> dr.RankResults:
    given = {"context": "prompt", "propensity": propensity, "rng": 0}
    return dr.dml_rank(FORMULA, table, **in_objects(given | options))


def test_the_estimate_is_the_mean_of_fitted_scores_and_weighted_residuals() -> None:
    scores, propensity, is_drawn = simulated(1)
    table = table_of(scores, propensity, is_drawn)
    res = fit(table)
    shuffled = table.sample(frac=1, random_state=1)
    frame = pd.DataFrame(propensity[::-1], columns=MODELS, index=np.arange(300)[::-1])[list("dcba")]
    for data, known in ((shuffled, "pi"), (table, frame), (table, propensity)):
        other = fit(data, known)
        assert other.params.to_numpy() == pytest.approx(res.params.to_numpy(), abs=1e-12)
    influence = res._fit.influence
    fitted, weighted = influence.value, influence.correction
    weight = (is_drawn / propensity) / (is_drawn / propensity).mean(axis=0)
    expected = weight * np.where(is_drawn, scores - fitted, 0.0)
    assert weighted == pytest.approx(expected, abs=1e-12)
    phi = fitted + expected
    assert res.params.to_numpy() == pytest.approx(phi.mean(axis=0))
    number = np.square(weight.sum(axis=0)) / np.square(weight).sum(axis=0)
    widening = np.where(is_drawn.all(axis=0), 1.0, number / (number - 2))
    assert res.bse.to_numpy() == pytest.approx(phi.std(axis=0) * np.sqrt(widening / 300))
    assert res.params.iloc[:2].to_numpy() == pytest.approx(scores[:, :2].mean(axis=0))
    # The other models' scores say much of a score: the prediction is out of fold and has a small error.
    assert np.mean((scores - fitted)[:, 2:] ** 2) < 0.8 * scores[:, 2:].var()


def test_a_run_that_was_drawn_and_lost_is_not_one_that_was_not_drawn() -> None:
    scores, propensity, is_drawn = simulated(4)
    table = table_of(scores, propensity, is_drawn)
    failed = np.flatnonzero((table["model"] == "c") & (table["score"] == 0))[:7]
    lost = table.assign(score=table["score"].mask(table.index.isin(failed)))
    with pytest.raises(MissingDataError, match=r"7 rows with a model have no score \('c' 7\): these runs were drawn"):
        fit(lost, propensity)
    written = fit(lost.fillna({"score": 0.0}), propensity)
    whole = fit(table, propensity)
    np.testing.assert_array_equal(written.params, whole.params)


def test_prompts_without_a_run_are_rows_without_a_model() -> None:
    scores, propensity, is_drawn = simulated(2)
    drawn = table_of(scores, propensity, is_drawn)
    drawn = drawn[drawn["model"].isin(["c", "d"])]
    empty = pd.DataFrame({"prompt": np.setdiff1d(np.arange(300), drawn["prompt"])})
    res = fit(pd.concat([drawn, empty]))
    assert res.nobs == 300
    # Without features and complete models, the correction is of a mean: the estimate is nearly the weighted mean.
    weighted = (drawn["score"] / drawn["pi"]).groupby(drawn["model"]).sum()
    share = (1 / drawn["pi"]).groupby(drawn["model"]).sum()
    assert res.params.to_numpy() == pytest.approx((weighted / share).to_numpy(), abs=0.01)


def test_models_with_few_scores_are_named_apart_and_left_out() -> None:
    scores, propensity, _ = simulated(7)
    propensity = np.array([[0.5, 0.5, 0.05, 0.05]]) * np.ones_like(propensity)
    scores[:, 3] = 1.0 - 0.4 * (np.arange(300) % 37 == 0)
    is_drawn = np.random.default_rng(9).random((300, 1)) < propensity
    table = table_of(scores, propensity, is_drawn)
    few = int((table["model"] == "c").sum())
    every = pd.DataFrame(propensity, columns=MODELS)
    empty = pd.DataFrame({"prompt": np.setdiff1d(np.arange(300), table["prompt"])})
    table = pd.concat([table, empty], ignore_index=True)
    call = rf"'c', 'd' have scores on too few prompts .* equivalent to {few}\. .*: res\.update\(min_votes={few + 1}\)"
    with pytest.warns(IntervalWarning, match=call):
        res = fit(table, every)
    assert res.params.idxmax() == "d"
    said = f"d ({few} scores) and c ({few} scores) have too few scores to be placed; res.update(min_votes={few + 1})"
    assert said in " ".join(str(res.summary()).split())
    for given, left_out in (("pi", few + 1), (every, 30)):
        with pytest.warns(DmlrankWarning, match=rf"fewer than {left_out} scores and are left out with {2 * few} of"):
            kept = fit(table, given, min_votes=left_out)
        two = table.copy()
        two.loc[two["model"].isin(["c", "d"]), ["model", "score", "pi"]] = None
        two = two.drop_duplicates(["prompt", "model"])
        alone = fit(two)
        np.testing.assert_allclose(kept.params, alone.params, atol=1e-12)
        np.testing.assert_allclose(kept.conf_int(), alone.conf_int(), atol=1e-9)
    # The interval of the two models with many scores does not depend on those with seven scores.
    wide, narrow = (np.diff(r.t_test("a - b").conf_int())[0, 0] for r in (res, kept))
    assert wide == pytest.approx(narrow, rel=0.1)
    with pytest.raises(DataError, match=r"min_votes=900\) leaves 0 models with so many scores"):
        fit(table, min_votes=900)


def test_few_scores_of_a_complete_table_leave_the_common_prompts_alone() -> None:
    scores, propensity, _ = simulated(8)
    is_there = np.ones((300, 4), bool)
    is_there[20:, 3] = False
    table = table_of(scores, propensity, is_there)
    with pytest.warns(DmlrankWarning, match="1 of 4 models have fewer than 50 scores .* 20 of 920 scores: d 20"):
        res = dr.dml_rank(FORMULA, table, context="prompt", missing="common", pairs=dr.Pairs(min_votes=50), rng=0)
    assert res.nobs == 300
    np.testing.assert_allclose(res.params, scores[:, :3].mean(axis=0), atol=1e-12)
    # A check counts scores, too, not comparisons, of which d has 60.
    found = dr.check(FORMULA, table, context="prompt", pairs=dr.Pairs(min_votes=50))
    assert any("are left out with 20 of 920 scores: d 20" in problem for problem in found.problems["found"])
    assert found.models["scores"].to_dict() == {"a": 300, "b": 300, "c": 300}
    with pytest.raises(DataError, match=r"min_votes=400\) leaves 0 models with so many scores"):
        dr.check(FORMULA, table, context="prompt", pairs=dr.Pairs(min_votes=400))


def test_wrong_propensities_are_refused() -> None:
    scores, propensity, is_drawn = simulated(4)
    table = table_of(scores, propensity, is_drawn)
    wrong = table.assign(pi=table["pi"].where(table.index > 1, 0.0))
    three = pd.DataFrame(propensity[:, :3], columns=MODELS[:3])
    for data, known, error, words in (
        (wrong, "pi", NuisanceError, r"2 such scores"),
        (
            table.astype({"pi": object}).replace({"pi": {table["pi"][0]: "half"}}),
            "pi",
            DataError,
            "holds 'half' in row 0",
        ),
        (table, "p", ColumnError, r"there is no column 'p'"),
        (table, propensity[:, :3], NuisanceError, r"= \(300, 4\)"),
        (table, three, NuisanceError, "not 'd' of the data"),
    ):
        with pytest.raises(error, match=words):
            fit(data, known)
    nothing = pd.concat([table, pd.DataFrame({"prompt": [0], "model": ["new"]})])
    with pytest.raises(MissingDataError, match=r"no score \('new' 1\)"):
        fit(nothing)
