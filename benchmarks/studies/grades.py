"""Few grades beside a judge of all answers, and suites whose tasks change: errors and joint coverage.

500 prompts, scores of 0 and 1, ``grades`` of each model on random prompts: *whole* prompts, on which all models are
graded, or *single* answers. ``judge`` is the correlation of judge and quality. The root mean squared error of the means
is divided by that of plain means of the grades, and by that of PPI++ (Angelopoulos et al., arXiv 2311.01453); covered
means and differences are those of all models at once, at 95 %. "suites": 40 tasks of 25 prompts, ten models, two
abilities, newer tasks are harder; four old models were not run on the newer half, three new ones not on the oldest
45 %. "human_grades": grades of some prompts against those of all. MT-Bench: people's votes as grades, GPT-4's verdicts
as the judge. OpinSummEval (Shen and Wan, arXiv 2310.18122): 14 summarisers of reviews of 100 businesses, the mean of
two people's four grades, and of ChatGPT's; ``scores.jsonl`` of its repository is named by ``DMLRANK_OPINSUMMEVAL``.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm

import dmlrank as dr

from .runner import Row, Study

N = 500


def ppi_plus(grades: np.ndarray, judge: np.ndarray) -> np.ndarray:
    """Return PPI++ means, (K,), with power tuning by model; grades (n, K) are NaN where there is none."""
    found = []
    for y, f in zip(grades.T, judge.T, strict=True):
        is_graded = np.isfinite(y)
        n, rest = is_graded.sum(), (~is_graded).sum()
        slope = np.cov(y[is_graded], f[is_graded], ddof=1)[0, 1] / ((1 + n / max(rest, 1)) * f.var(ddof=1))
        found.append(y[is_graded].mean() + np.clip(slope, 0, None) * (f[~is_graded].mean() - f[is_graded].mean()))
    return np.array(found)


def one_board(setting: tuple[int, int, float, float, str], seed: int) -> dict[str, float]:
    """Return squared errors, and whether the intervals of all means and of all differences cover."""
    n_models, n_grades, mean, quality, drawn = setting
    rng = np.random.default_rng([seed, n_models, n_grades, int(10 * mean), int(10 * quality), len(drawn)])
    gap = np.linspace(-0.3, 0.3, n_models)
    latent = np.sqrt(0.4) * rng.normal(size=(N, 1)) + np.sqrt(0.6) * rng.normal(size=(N, n_models))
    scores, truth = (latent + gap > norm.isf(mean)).astype(float), norm.sf(norm.isf(mean) - gap)
    judge = quality * latent + np.sqrt(1 - quality**2) * rng.normal(size=latent.shape) + gap
    order = rng.permuted(np.tile(np.arange(N), (n_models, 1)), axis=1).T
    is_graded = (order[:, [0] * n_models] if drawn == "whole" else order) < n_grades
    grades = np.where(is_graded, scores, np.nan)
    prompt, model = (place.ravel() for place in np.indices(latent.shape))
    names = np.array([f"m{j}" for j in range(n_models)])
    table = pd.DataFrame({"prompt": prompt, "model": names[model], "grade": grades.ravel(), "score": judge.ravel()})
    options = {"context": "prompt", "judge": "score", "propensity": "marginal", "rng": 0}
    res = dr.dml_rank("grade ~ 1 | model", table, **options)
    limits, true = res.conf_int(), pd.Series(truth, names)
    pairs = res.t_test_pairwise().result_frame
    gaps = true[pairs["first"]].to_numpy() - true[pairs["second"]].to_numpy()
    plain = np.nanmean(grades, axis=0)
    return {
        "rmse_over_plain": np.square(res.params[names] - truth).mean(),
        "plain": np.square(plain - truth).mean(),
        "rmse_over_ppi": np.square(ppi_plus(grades, judge) - truth).mean(),
        "means_covered": float(
            ((limits["lower"] <= true[limits.index]) & (true[limits.index] <= limits["upper"])).all()
        ),
        "differences_covered": float(((pairs["conf_low"] <= gaps) & (gaps <= pairs["conf_high"])).all()),
    }


def suite(rng: np.random.Generator, n_tasks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return chances of success by task and model, dates and difficulties of tasks; dates are spread evenly."""
    date = np.tile(np.linspace(0, 1, 40), n_tasks // 40)
    kind = np.stack([np.ones(n_tasks), 0.6 * rng.normal(size=n_tasks)], axis=1)
    ability = np.stack([np.linspace(-0.6, 0.8, 10), np.repeat([0.0, 0.5, 1.0], [4, 3, 3])])
    difficulty = 2.0 * date + 0.8 * rng.normal(size=n_tasks)
    return expit(kind @ ability - difficulty[:, None]), date, difficulty


def one_suite(setting: tuple[str], seed: int) -> dict[str, float]:
    """Return errors of the models that lack tasks, and whether their intervals cover."""
    rng = np.random.default_rng([seed, 40])
    p, date, difficulty = suite(rng, 40)
    scores = (rng.random((1000, 10)) < np.repeat(p, 25, axis=0)).astype(float)
    is_run = np.ones((40, 10), dtype=bool)
    is_run[:, :4] = (date < 0.5)[:, None]
    is_run[:, 7:] = (date > 0.45)[:, None]
    prompt, model = (place.ravel() for place in np.indices(scores.shape))
    task, names = prompt // 25, np.array([f"m{j}" for j in range(10)])
    table = pd.DataFrame({"prompt": prompt, "task": task, "model": names[model]})
    table["score"] = np.where(is_run[task, model], scores.ravel(), np.nan)
    table = table.assign(date=date[task], difficulty=difficulty[task] + 0.3 * rng.normal(size=40)[task])
    options = {"context": "prompt", "missing": "model", "cov_type": "cluster", "cov_kwds": {"groups": "task"}, "rng": 0}
    res = dr.dml_rank(f"score ~ {setting[0]} | model", table, **options)
    truth = suite(np.random.default_rng(1), 40_000)[0].mean(axis=0)
    lacks = ~is_run.all(axis=0)
    # Biases are those given the tasks, whose draw is the same for all estimates.
    error = res.params[names].to_numpy() - p.mean(axis=0)
    plain = table.groupby("model")["score"].mean()[names].to_numpy() - p.mean(axis=0)
    limits = res.conf_int(method="none").loc[names]
    inside = (limits["lower"].to_numpy() <= truth) & (truth <= limits["upper"].to_numpy())
    old, new = np.arange(10) < 4, np.arange(10) > 6
    return {
        "bias_old": error[old].mean(),
        "bias_new": error[new].mean(),
        "plain_bias_old": plain[old].mean(),
        "plain_bias_new": plain[new].mean(),
        "covered": float(inside[lacks].mean()),
    }


@cache
def graded_by_people(data: str) -> pd.DataFrame:
    """Return a row per answer: prompt, model, people's mean grade ("full"), and the judge's score."""
    if data == "opinsummeval":
        lines = Path(os.environ["DMLRANK_OPINSUMMEVAL"]).read_text(encoding="utf-8").splitlines()
        read = {(at, name): each for at, line in enumerate(lines) for name, each in json.loads(line).items()}
        answers = {place: each for place, each in read.items() if place[1] != "case"}
        people = {k: np.mean([*v["annot1"].values(), *v["annot2"].values()]) for k, v in answers.items()}
        of_judge = {k: np.mean([x for name, x in v.items() if "chatgpt_CoT" in name]) for k, v in answers.items()}
        scores = {"full": pd.Series(people), "score": pd.Series(of_judge)}
        return pd.DataFrame(scores).rename_axis(["prompt", "model"]).reset_index()
    found = {}
    for name, file in (("full", "human"), ("score", "gpt4_pair")):
        votes = pd.read_json(Path(os.environ["DMLRANK_DATA"]) / "mt_bench" / f"{file}.jsonl", lines=True)
        votes["prompt"] = votes["question_id"].astype(str) + "." + votes["turn"].astype(str)
        won = votes["winner"].map({"model_a": 1.0, "model_b": 0.0}).fillna(0.5)
        sides = [votes[["prompt"]].assign(model=votes[f"model_{side}"]) for side in "ab"]
        both = pd.concat([side.assign(won=won if place == 0 else 1 - won) for place, side in enumerate(sides)])
        found[name] = both.groupby(["prompt", "model"])["won"].mean()
    return pd.DataFrame(found).dropna().reset_index()


@cache
def favour_of_all(data: str) -> pd.Series:
    """Return whom the judge favours by all grades."""
    res = dr.dml_rank("full ~ 1 | model", graded_by_people(data), context="prompt", judge="score", rng=0)
    return res.judge.models["favour"]


def one_sample(setting: tuple[str, int], seed: int) -> dict[str, float]:
    """Return errors of means from the grades of some prompts against those of all, and whether intervals cover them."""
    answers = graded_by_people(setting[0])
    drawn = answers[["prompt"]].drop_duplicates().sample(setting[1], random_state=seed).assign(drawn=True)
    table = answers.merge(drawn, how="left").assign(grade=lambda each: each["full"].where(each["drawn"].notna()))
    res = dr.dml_rank("grade ~ 1 | model", table, context="prompt", judge="score", propensity="marginal", rng=0)
    by_model, limits = table.groupby("model"), res.conf_int()
    truth, plain = by_model["full"].mean(), by_model["grade"].mean()
    judge, of_all = res.judge.models, favour_of_all(setting[0]).loc[truth.index]
    return {
        "rmse_over_plain": np.square(res.params[truth.index] - truth).mean(),
        "plain": np.square(plain - truth).mean(),
        "means_covered": float(((limits["lower"] <= truth) & (truth <= limits["upper"])).all()),
        "worth_over_number": float(judge["worth"].median()) / setting[1],
        "explained": float(res.judge.explained["all"]),
        "favour_covered": float(((judge["lower"] <= of_all) & (of_all <= judge["upper"])).all()),
        "favour_rmse": np.sqrt(np.square(judge["favour"] - of_all).mean()),
        "largest_favour": float(of_all.abs().max()),
    }


BOARDS = list(itertools.product((3, 10), (10, 20, 50, 100), (0.1, 0.5), (0.0, 0.6, 0.9), ("whole", "single")))
# Function, settings and what they are called, by the name of the table.
TABLES = {
    "grades": (one_board, BOARDS, ["models", "grades", "mean", "judge", "drawn"]),
    "suites": (one_suite, [("date + difficulty",), ("1",)], ["features"]),
    "human_grades": (
        one_sample,
        [("mt_bench", 20), ("mt_bench", 40), ("mt_bench", 80), *(("opinsummeval", n) for n in (15, 25, 50))],
        ["data", "grades"],
    ),
}
CELLS = {f"{name}: {', '.join(map(str, each))}": (name, each) for name, of in TABLES.items() for each in of[1]}


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """One board, suite or sample."""
    name, setting = CELLS[cell]
    yield TABLES[name][0](setting, seed)


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means by setting; ratios of root mean squared errors."""
    made: dict[str, list[Row]] = {}
    for cell, part in rows.groupby("cell", sort=False):
        (name, setting), mean = CELLS[cell], part.drop(columns=["cell", "seed"]).mean().dropna()
        if "plain" in mean:
            others = [other for other in ("plain", "rmse_over_ppi") if other in mean]
            ratios = np.sqrt(mean["rmse_over_plain"] / mean[others].to_numpy())
            mean[["rmse_over_plain", "rmse_over_ppi"][: len(others)]] = ratios
            mean = mean.drop("plain")
        row = dict(zip(TABLES[name][2], setting, strict=True)) | {"seeds": len(part)}
        made.setdefault(name, []).append(row | mean.to_dict())
    return {name: pd.DataFrame(part).round(3) for name, part in made.items()}


STUDY = Study(tuple(CELLS), replicate, tables, 300)
