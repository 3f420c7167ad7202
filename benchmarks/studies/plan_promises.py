"""Whether a plan after earlier labels delivers the standard errors and the power that it promises.

A first round has uniform labels on old prompts. From its fit a plan for new prompts is made, its labels are drawn, and
all rows are fitted together, each with the propensity of its own round. In *alike* rounds the plan labels as many
prompts as the first round with as many labels; in *dense* rounds few prompts with many labels each, in *sparse* rounds
many prompts with few labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm

import dmlrank as dr

from .runner import Row, Study

MODELS = ["a", "b", "c", "d", "e"]
STRENGTH = np.array([0.5, 0.3, 0.0, -0.3, -0.5])
SLOPE = np.array([0.6, -0.6, 0.3, 0.0, -0.3])
FUNCTIONALS = ("borda", "bt", "rank_centrality")
# Old prompts, old labels, new prompts, budget of the plan.
ROUNDS = {"alike": (1500, 1500, 1500, 1500), "dense": (1500, 1500, 300, 1500), "sparse": (1500, 1500, 2000, 500)}
ALPHA = 0.05


def new_prompts(n: int, name: str, rng: np.random.Generator) -> pd.DataFrame:
    """Return prompts with one feature."""
    return pd.DataFrame({"question_id": [f"{name}{i}" for i in range(n)], "x": rng.normal(size=n)})


def preferences(x: np.ndarray) -> np.ndarray:
    """Return the probability that the first model of every ordered pair wins, (n, 5, 5)."""
    strength = STRENGTH + SLOPE * x[:, None]
    return expit(strength[:, :, None] - strength[:, None, :])


def label(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return rows with simulated votes where a pair was drawn."""
    shown = rows["model_a"].notna().to_numpy()
    place = {model: number for number, model in enumerate(MODELS)}
    first, second = (rows[column][shown].map(place).to_numpy() for column in ("model_a", "model_b"))
    wins = rng.random(shown.sum()) < preferences(rows["x"].to_numpy()[shown])[np.arange(shown.sum()), first, second]
    winner = np.full(len(rows), None, dtype=object)
    winner[shown] = np.where(wins, "model_a", "model_b")
    return rows.assign(winner=winner)


def first_round(n: int, labels: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return labels of pairs, in either order with the same probability, and prompts without a label."""
    prompts, pairs = new_prompts(n, "old", rng), np.array(list(combinations(MODELS, 2)), dtype=object)
    propensity = labels / (n * len(pairs))
    prompt, pair = np.nonzero(rng.random((n, len(pairs))) < propensity)
    swapped = rng.random(len(prompt)) < 0.5
    first, second = (np.where(swapped, pairs[pair, 1 - k], pairs[pair, k]) for k in (0, 1))
    rows = prompts.iloc[prompt].assign(model_a=first, model_b=second, propensity=propensity)
    return label(pd.concat([rows, prompts.drop(index=np.unique(prompt))], ignore_index=True), rng)


def fit(rows: pd.DataFrame, functional: str) -> dr.RankResults:
    """Return the fit of all rows, each with its own propensity."""
    return dr.dml_rank(
        "winner ~ x | model_a + model_b",
        rows,
        functional=functional,
        context="question_id",
        propensity="propensity",
        position_bias=False,
        pairs=dr.Pairs(min_labels=1),
        rng=0,
        n_jobs=1,
    )


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """Return promised and delivered figures of a run for every functional."""
    n_old, labels, n_new, budget = ROUNDS[cell]
    rng = np.random.default_rng([seed, n_new])
    old, prompts = first_round(n_old, labels, rng), new_prompts(n_new, "new", rng)
    first_fit = fit(old, FUNCTIONALS[0])
    for functional in FUNCTIONALS:
        before = first_fit.update(functional=functional)
        plan = before.design(budget, newdata=prompts)
        drawn = plan.sample(rng=rng).rename(columns={"context": "question_id"})
        drawn = label(drawn.drop(columns="x", errors="ignore").merge(prompts, on="question_id"), rng)
        after = fit(pd.concat([old, drawn], ignore_index=True), functional)
        truth = dr.functionals.named(functional).bind(weights=dr.functionals.CategoryWeights.half(2))
        p = preferences(np.random.default_rng(0).normal(size=20_000))
        mu = np.stack([p, 1 - p], axis=-1)
        mu[:, np.arange(5), np.arange(5)] = 0.0
        scores = truth.value(mu).mean(axis=0)
        # The question for the power: is the first model better than the second by what is true?
        effect = scores[0] - scores[1]
        contrast = np.array([1.0, -1.0, 0.0, 0.0, 0.0])
        promised = float(np.sqrt(contrast @ plan.cov_params().to_numpy() @ contrast))
        test = after.t_test("a - b")
        yield {
            "functional": functional,
            "effect": effect,
            "before": float(np.squeeze(before.t_test("a - b").sd)),
            "promised": promised,
            "reported": float(np.squeeze(test.sd)),
            "error": float(np.squeeze(test.effect) - effect),
            "rejects": bool(np.squeeze(test.pvalue) < ALPHA),
        }


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return promised and delivered standard errors and powers by design of rounds and functional."""
    figures = []
    for (kind, functional), part in rows.groupby(["cell", "functional"], sort=False):
        spread = part["error"].std()
        z = part["effect"] / part["promised"]
        power = (norm.cdf(z - norm.isf(ALPHA / 2)) + norm.cdf(-z - norm.isf(ALPHA / 2))).mean()
        figures.append(
            {
                "rounds": kind,
                "functional": functional,
                "runs": len(part),
                "se before": part["before"].mean(),
                "se promised": part["promised"].mean(),
                "se reported": part["reported"].mean(),
                "spread of estimates (its error)": f"{spread:.4f} ({spread / np.sqrt(2 * len(part)):.4f})",
                "power promised": power,
                "power delivered (its error)": f"{part['rejects'].mean():.3f} ({part['rejects'].sem():.3f})",
            }
        )
    return {"plan_promises": pd.DataFrame(figures).round(4)}


STUDY = Study(tuple(ROUNDS), replicate, tables, 200)
