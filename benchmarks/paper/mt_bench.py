"""MT-Bench: three functionals, debiased and plug-in, and GPT-4 as a judge in two ways [P fig:real_mt]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

from .arena import data_folder, model_rows, needed_data_folder
from .tables import Experiment
from .ways import DESCRIBED, FLOOR, FUNCTIONALS, SMALL_SEARCH

FORMULA = "winner ~ text(prompt, {components}) + turn | model_a + model_b"
CONTEXT = ["question_id", "turn"]
# The paper's folds on these data.
FOLDS = 5
JUDGES = {"GPT-4, two-stage": "two-stage", "GPT-4 among the features": "features"}
# As described the search has 30 draws; the setting with 2 draws, the number for Chatbot Arena, is fast.
DRAWS = {"30 draws": 30, "2 draws": 2}


def tasks(seed: int, way: str) -> Iterator[tuple[Any, ...]]:
    """List the settings; there is one run, as in the paper."""
    if seed or data_folder() is None:
        return
    for setting in reversed(DRAWS) if way == DESCRIBED else ("no judge", *JUDGES):
        yield seed, way, setting


def majority_votes() -> pd.DataFrame:
    """Return the majority vote for each prompt, turn and ordered pair, a tie where no label has most votes."""
    folder = needed_data_folder()
    votes = dr.datasets.read_mt_bench(folder / "mt_bench" / "human.jsonl", folder / "mt_bench" / "question.jsonl")
    kept = [*CONTEXT, "prompt", "model_a", "model_b"]
    counts = votes.groupby(kept)["winner"].value_counts().unstack(fill_value=0)
    is_most = counts.eq(counts.max(axis=1), axis=0)
    winner = is_most.idxmax(axis=1).where(is_most.sum(axis=1) == 1, "tie")
    return winner.rename("winner").reset_index()


def run(task: tuple[Any, ...], *, small: bool = False) -> list[dict[str, object]]:
    """Return the rows of a setting, one for every functional, estimator and model."""
    seed, way, setting = task
    votes, options = majority_votes(), {}
    if way == DESCRIBED:
        options = {
            "learner": "lightgbm",
            "tune": SMALL_SEARCH if small else dr.RandomSearch(DRAWS[setting], 3, "real"),
            "n_folds": FOLDS,
            "floor": FLOOR,
            "category_weights": "paper",
            "position_bias": True,
            "graph": "complete",
        }
    elif setting in JUDGES:
        verdicts = dr.datasets.read_mt_bench(needed_data_folder() / "mt_bench" / "gpt4_pair.jsonl")
        names = [*CONTEXT, "model_a", "model_b", "winner"]
        options = {"judge": verdicts[names], "judge_as": JUDGES[setting], "position_bias": False}
    fit = dr.dml_rank(
        FORMULA.format(components=5 if small else 100),
        votes,
        **in_objects({"context": CONTEXT, "rng": seed, "n_jobs": 1, **options}),
    )
    return [row for functional in FUNCTIONALS for row in model_rows(fit.update(functional=functional), way)]


EXPERIMENT = Experiment(
    "mt_bench", ("seed", "way", "setting"), ("functional", "estimator", "model", "score", "half_width"), 1, tasks, run
)
