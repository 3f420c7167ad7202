"""Grades of a few answers beside a judge of all: the call, what is reported, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.exceptions import IntervalWarning, JudgeError, MissingDataError, OptionError
from dmlrank.options import in_objects

FORMULA, MODELS, N = "grade ~ 1 | model", np.array(["a", "b", "c"]), 300


def answers(seed=0, *, share=0.2, whole=True, models=MODELS):
    """A row per answer: a grade of some, a judge's score of all, which favours the first model, and another judge."""
    rng, k = np.random.default_rng(seed), len(models)
    latent = rng.normal(size=(N, 1)) + rng.normal(size=(N, k)) + np.linspace(-0.3, 0.3, k)
    judge = latent + 0.5 * rng.normal(size=(N, k)) + 1.2 * (np.arange(k) == 0)
    is_graded = np.repeat(rng.random((N, 1 if whole else k)) < share, k if whole else 1, axis=1)
    prompt, model = (place.ravel() for place in np.indices((N, k)))
    table = pd.DataFrame({"prompt": prompt, "model": models[model], "full": (latent > 0).ravel().astype(float)})
    table["grade"] = table["full"].where(is_graded.ravel())
    return table.assign(
        judge=judge.ravel(),
        noise=rng.normal(size=N * k),
        topic=np.array(["x", "y"])[prompt % 2],
        task=prompt // 10,
        pi=share,
    )


def fit(table, formula=FORMULA, **options):
    given = {"context": "prompt", "judge": "judge", "rng": 0, **options}
    return dr.dml_rank(formula, table, **in_objects(given))


def test_a_judge_makes_a_board_more_precise_and_is_reported():
    table = answers()
    res, people = fit(table, propensity="marginal"), table.dropna(subset="grade")
    models, truth = res.judge.models, table.groupby("model")["full"].mean()
    alone = dr.dml_rank(FORMULA, people, context="prompt", rng=0)
    assert (res.bse < 0.9 * alone.bse[res.models]).all()
    assert (np.abs(res.params - truth[res.models]) < 3 * res.bse).all()
    assert models["graded"].tolist() == people.groupby("model").size().tolist()
    assert (models["answers"] == N).all()
    assert (models["worth"] > 1.2 * models["graded"]).all()
    np.testing.assert_allclose(models["worth"] / models["graded"], (alone.bse / res.bse)[MODELS] ** 2, rtol=0.1)
    assert models["favour"].sum() == pytest.approx(0, abs=1e-12)
    assert models.loc["a", "lower"] > 0 > models.loc["c", "upper"]
    assert 0.25 < res.judge.explained["judge"] < 0.8
    both = res.judge.table()
    np.testing.assert_allclose(both["humans"], alone.params[MODELS], atol=1e-12)
    np.testing.assert_allclose(both["both"], res.params[MODELS])
    assert both.loc["a", "judge_differs"]
    text = " ".join(str(res).split())
    graded = models["graded"].iloc[0]
    assert f"People graded {3 * graded} of 900 answers, and the judge 'judge' scored 900: the {graded} grades" in text
    assert f"People graded {3 * graded} of 900 answers" in res.verdict()
    assert "The judge 'judge' places a" in text
    assert "not drawn" not in text
    board = " ".join(str(res.judge).split())
    assert "grade judge favour [interval] corr. worth" in board
    assert f"{models['worth'].iloc[0]:.0f}" in board
    assert f"independent grades of each model in all ({graded} so far, on judged prompts" in text
    again = dr.read_json(res.to_json())
    pd.testing.assert_frame_equal(again.judge.models, models)


def test_scales_orders_and_useless_judges_change_nothing():
    table = answers(1)
    res = fit(table)
    scaled = fit(table.assign(judge=5 + 3 * table["judge"]).sample(frac=1, random_state=0))
    np.testing.assert_allclose(scaled.params, res.params, atol=1e-9)
    np.testing.assert_allclose(scaled.bse, res.bse, rtol=1e-8)
    renamed = fit(table.assign(model=table["model"].map({"a": "z", "b": "y", "c": "x"})))
    np.testing.assert_allclose(renamed.params[["z", "y", "x"]], res.params[MODELS], atol=1e-9)
    plain = table.groupby("model")["grade"].mean()
    noise = fit(table, judge="noise", propensity="marginal")
    np.testing.assert_allclose(noise.params[MODELS], plain, atol=1e-12)
    several = fit(table, judge=["judge", "noise"], propensity="marginal")
    one = fit(table, propensity="marginal")
    assert (several.bse < 1.05 * one.bse).all()
    assert list(several.judge.explained.index) == ["judge", "noise", "all"]
    assert several.judge.explained["noise"] < 0.05 < several.judge.explained["judge"]
    complete = fit(table.assign(grade=table["full"]))
    np.testing.assert_allclose(complete.params[MODELS], table.groupby("model")["full"].mean(), atol=1e-12)


@pytest.mark.filterwarnings("ignore::dmlrank.exceptions.IntervalWarning")
def test_features_clusters_weights_tasks_one_model_and_single_answers():
    table = answers(2)
    res = fit(table, "grade ~ C(topic) | model", cov_type="cluster", cov_kwds={"groups": "task"})
    assert 0 < res.bse.max() < 0.1
    assert res.by("topic").params.shape == (3, 2)
    weighted = fit(table.assign(w=1 + table["prompt"] % 3), weights="w")
    assert (np.abs(weighted.params - res.params) < 0.1).all()
    assert (fit(table, weights=dr.EqualTasks("topic")).params.between(0, 1)).all()
    alone = fit(table[table["model"] == "a"])
    assert abs(alone.params["a"] - table.loc[table["model"] == "a", "full"].mean()) < 0.15
    assert np.isnan(alone.judge.models["favour"]).all()
    single = answers(3, whole=False, share=0.1)
    assert (fit(single).judge.models["worth"] > 25).all()
    gaps = table.assign(judge=table["judge"].mask(np.random.default_rng(0).random(len(table)) < 0.1))
    np.testing.assert_allclose(fit(gaps).params, fit(table).params, atol=0.05)


def test_propensities_of_graded_answers():
    table = answers(4)
    frame = pd.DataFrame(0.2, index=np.arange(N), columns=MODELS)
    column = fit(table, propensity="pi")
    np.testing.assert_allclose(fit(table, propensity=frame).params, column.params, atol=1e-12)
    np.testing.assert_allclose(fit(table, propensity="marginal").params, column.params, atol=1e-12)
    with pytest.raises(OptionError, match=r"drawn at random, as their judge .*update\(propensity='marginal'\).design"):
        fit(table).design(budget=40)
    again = fit(table).update(propensity="marginal")
    np.testing.assert_allclose(again.params, column.params, atol=1e-12)
    assert len(again.design(budget=60).sample(rng=0)) == pytest.approx(60, abs=3)
    rng = np.random.default_rng(0)
    chosen = rng.random(len(table)) < 1 / (1 + np.exp(2 - 2 * table["judge"]))
    biased = table.assign(grade=table["full"].where(chosen))
    with pytest.warns(IntervalWarning) as caught:
        res = fit(biased)
    assert any("with such judge scores were hardly ever graded" in str(each.message) for each in caught)
    truth, plain = table.groupby("model")["full"].mean(), biased.groupby("model")["grade"].mean()
    assert (np.abs(res.params - truth[res.models]) < 0.4 * np.abs(plain - truth)[res.models]).all()
    text = " ".join(str(res).split())
    assert "above the others: they were not drawn at random; their propensities are estimated from judge" in text


def test_what_is_refused():
    table = answers(5)
    few = table.assign(grade=table["grade"].where((table["model"] != "a") | (table["prompt"] < 30)))
    n = few.groupby("model")["grade"].count()["a"]
    with pytest.raises(MissingDataError, match=f"'a' has {n} graded answers; an interval needs at least 10 of every"):
        fit(few)
    with pytest.raises(MissingDataError, match=r"no answer is graded: .* \(judge column as the outcome"):
        fit(table.assign(grade=np.nan))
    half = table.assign(judge=table["judge"].where((table["model"] != "b") | (table["prompt"] % 3 == 0)))
    with pytest.raises(JudgeError, match="judge 'judge' has scores for 100 of 300 answers of 'b', graded or not"):
        fit(half)
    with pytest.raises(JudgeError, match="judge 'judge' has the same score for all answers"):
        fit(table.assign(judge=1.0))
    with pytest.raises(JudgeError, match="column 'judge' holds the grades themselves"):
        fit(table.assign(judge=table["grade"]))
    for missing in ("common", 0.0):
        with pytest.raises(OptionError, match="was given with judge=, which means missing='model'"):
            fit(table, missing=missing)
    with pytest.raises(OptionError, match="names columns of the table"):
        fit(table, judge=table)
    with pytest.raises(OptionError, match="has no meaning for pairs"):
        fit(table, functional="borda")


def test_the_check_counts_grades_and_says_what_they_would_be_worth():
    table = answers(7)
    check = dr.check(FORMULA, table, context="prompt", judge=["judge", "noise"])
    n, text = table["grade"].count(), " ".join(check.grades["found"])
    assert f"{n} of 900 answers; scores of judges: 'judge' 900, 'noise' 900" in text
    assert "as if drawn at random" in text
    worth = int(text.split("50 as many as ")[1].split(",")[0])
    assert 60 < worth < 120
    assert not (check.problems["severity"] == "error").any()
    likely = table.assign(grade=table["full"].where(table["judge"] > 0.8))
    assert "not drawn at random" in " ".join(dr.check(FORMULA, likely, context="prompt", judge="judge").grades["found"])


def test_a_plan_says_what_people_grade_next():
    table = answers(8, share=0.1)
    res = fit(table, propensity="marginal")
    plan = res.design(90, contrasts=["a - b", "b - c"])
    assert "Prompts are drawn at random" in " ".join(str(plan).split())
    assert "Plan of Grades" in str(plan)
    sample = plan.sample(rng=0)
    assert sample.groupby("prompt")["model"].nunique().eq(3).all()
    assert len(sample) == pytest.approx(90, abs=6)
    keys = table.set_index(["prompt", "model"])
    chosen = keys.index.isin(list(zip(sample["prompt"], sample["model"], strict=True)))
    more = table.assign(grade=table["grade"].mask(chosen, table["full"]))
    after = fit(more, propensity=plan)
    assert (after.bse < 0.95 * res.bse[after.models]).all()
    rare = answers(8, share=0.3).assign(full=lambda each: (each["judge"] > -1.5).astype(float))
    rare["grade"] = rare["full"].where(rare["grade"].notna())
    chosen = fit(rare, propensity="marginal").design(90, contrasts=["a - b", "b - c"])
    assert "% smaller than with random prompts" in " ".join(str(chosen).split())
    assert chosen.propensity.max() > 2 * chosen.propensity.min()
    with pytest.raises(OptionError, match="If they were drawn at random, as their judge scores look"):
        fit(table).design(90)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_few_further_grades_can_be_planned_however_many_there_are(share):
    res = fit(answers(8, share=share), propensity="marginal")
    plan = res.design(12, contrasts=["a - b", "b - c"])
    assert plan.expected_cost == pytest.approx(12, rel=1e-3)
    assert plan.std_errors.le(res.bse * (1 + 1e-9)).all()


def test_an_unbiased_judge_is_not_said_to_differ():
    marked, n = 0, 0
    for seed in range(6):
        table = answers(seed, share=0.1)
        rng = np.random.default_rng([seed, 1])
        share = rng.uniform(size=len(table))
        table = table.assign(judge=share, full=(rng.random(len(table)) < share).astype(float))
        table["grade"] = table["full"].where(table["grade"].notna())
        marked, n = marked + fit(table, propensity="marginal").judge.table()["judge_differs"].sum(), n + 3
    assert marked <= 0.2 * n
