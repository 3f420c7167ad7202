"""What a judge is worth: 26,919 battles of a public arena, most human votes hidden, two language models as judges.

Human votes are hidden at random, the verdicts of a judge are known on all battles, and the win rates of all models are
estimated from humans alone, from both, and from the judge alone; the answer that all votes give is the truth. It is
itself an estimate from these battles, so that an error is compared with what hiding adds: se^2 - se_all^2.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

from .runner import Row, Study

JUDGES = {"GPT-4": "gpt-4-0125-preview.json", "GPT-3.5": "gpt-3.5-turbo.json"}
OPTIONS = {"functional": "borda", "position_bias": False, "propensity": "marginal", "min_labels": 1}


def fit_of(votes: pd.DataFrame, **more: object) -> dr.RankResults:
    """Fit win rates."""
    return dr.dml_rank(
        "winner ~ 1 | model_a + model_b", votes, **in_objects({**OPTIONS, "n_jobs": 1, "rng": 0, **more})
    )


@cache
def whole() -> tuple[pd.DataFrame, dr.RankResults, dict[str, object]]:
    """Human votes with a column of verdicts per judge, the answer of all votes, and its graph and weights of pairs."""
    folder = pathlib.Path(os.environ["DMLRANK_DATA"]) / "chatbot_arena"
    votes = dr.datasets.read_chatbot_arena(folder / "human.json")[["question_id", "model_a", "model_b", "winner"]]
    for judge, file in JUDGES.items():
        votes[judge] = dr.datasets.read_chatbot_arena(folder / file)["winner"].to_numpy()
    fit = fit_of(votes, edge_weights="counts")
    counts = fit.steps.data.pair_counts()
    return votes, fit, {"graph": fit.graph, "edge_weights": (counts + counts.T).astype(float)}


@cache
def alone() -> dict[str, tuple[float, str]]:
    """Mean squared error of each judge alone, and how many models its own intervals miss."""
    votes, truth, fixed = whole()
    # One vote in a hundred is hidden: verdicts on votes that are known say nothing.
    hidden = np.random.default_rng(0).random(len(votes)) < 0.01
    humans, found = fit_of(votes.assign(winner=votes["winner"].mask(hidden)), **fixed), {}
    for judge in JUDGES:
        table = humans.update(judge=judge).judge.table()
        misses = ((table["judge_lower"] > truth.params) | (truth.params > table["judge_upper"])).sum()
        found[judge] = float(((table["judge"] - truth.params) ** 2).mean()), f"misses {misses} of {len(table)}"
    return found


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """Keep a share of the votes: a row per kind of estimate."""
    (votes, truth, fixed), share = whole(), float(cell)
    known = np.random.default_rng([seed, int(1e6 * share)]).random(len(votes)) < share
    humans = fit_of(votes.assign(winner=votes["winner"].where(known)), **fixed)
    fits = {"humans": humans} | {f"humans and {judge}": humans.update(judge=judge) for judge in JUDGES}
    for name, fit in fits.items():
        # Pairs whose votes are all hidden leave a fit without intervals, not without a covariance.
        error, variance = fit.params - truth.params, np.diag(fit.cov_params())
        added = np.sqrt(np.maximum(variance - truth.bse**2, 0.0))
        row = {"estimate": name, "votes": fit.diagnostics.n_votes, "mse": (error**2).mean()}
        row |= {"variance": variance.mean(), "covers": (error.abs() <= 1.959964 * added).mean()}
        yield row | ({"worth": fit.judge.worth} if fit.judge else {})
    for judge, (error, misses) in alone().items():
        yield {"estimate": f"{judge} alone", "votes": 0, "mse": error, "misses": misses}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Errors and variances relative to those of humans alone, coverage, and equivalent votes."""
    made, by = [], rows.set_index("seed").groupby("estimate", sort=False)
    humans = by.get_group("humans")
    for name, part in by:
        scale, gap = humans["mse"].mean(), part["mse"] - humans["mse"]
        figures = [f"{part['votes'].mean():,.0f}", f"{np.sqrt(part['mse'].mean()):.4f}"]
        if name.endswith("alone"):
            rest = [f"{part['mse'].mean() / scale:.2g}", "", part["misses"].iloc[0], ""]
        elif name == "humans":
            rest = ["1", "1", f"{part['covers'].mean():.3f} ({part['covers'].sem():.3f})", ""]
        else:
            rest = [f"{part['mse'].mean() / scale:.2f} ({gap.sem() / scale:.3f})"]
            rest.append(f"{(part['variance'] / humans['variance']).mean():.2f}")
            rest += [f"{part['covers'].mean():.3f} ({part['covers'].sem():.3f})", f"{part['worth'].median():.0f}"]
        made.append((name, *figures, *rest))
    columns = ["estimate", "votes", "root mean squared error", "squared error, humans = 1", "variance, humans = 1"]
    return {"judge_arena": pd.DataFrame(made, columns=[*columns, "coverage", "equivalent votes (median)"])}


STUDY = Study(("0.1",), replicate, tables, 200)
