"""Chatbot Arena: three functionals, debiased and plug-in, against the Elo order of June 2023 [P fig:real_arena].

The shared data have 26,919 of the paper's 32,980 battles and no prompts, so that the formula is ``~ 1``. The graph, the
category weights and whether display order matters vary, because the paper's order depends on them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

from .tables import Experiment
from .ways import DESCRIBED, FLOOR, FUNCTIONALS, critical_value, plain_covariance

# How the data are read: the paper treats the two orders of a pair as two pairs, and uses all of them.
PAPERS = "ordered, all pairs, paper weights"
SETTINGS: dict[str, dict[str, Any]] = {
    PAPERS: {"position_bias": True, "graph": "complete", "category_weights": "paper"},
    "ordered, all pairs, half weights": {"position_bias": True, "graph": "complete", "category_weights": "half"},
    "unordered, all pairs, paper weights": {"position_bias": False, "graph": "complete", "category_weights": "paper"},
    "unordered, all pairs, half weights": {"position_bias": False, "graph": "complete"},
    "ordered, 10 labels, paper weights": {"position_bias": True, "category_weights": "paper", "component": "largest"},
    "ordered, 10 labels, half weights": {"position_bias": True, "component": "largest"},
    "unordered, counts as edge weights": {"position_bias": False, "edge_weights": "counts", "min_labels": 1},
}
# The paper's folds on these data.
FOLDS = 2
ELO = "elo_2023_06_22_42k"


def data_folder() -> Path | None:
    """Return the folder of the shared data; None where the environment names none."""
    folder = os.environ.get("DMLRANK_DATA")
    return Path(folder) if folder else None


def needed_data_folder() -> Path:
    """Return the folder with the real data; end with a sentence where there is none."""
    folder = data_folder()
    if folder is None:
        raise SystemExit("set the environment variable DMLRANK_DATA to the folder with the real data")
    return folder


def tasks(seed: int, way: str) -> Iterator[tuple[Any, ...]]:
    """List the settings; there is one run, as in the paper."""
    if seed or data_folder() is None:
        return
    for setting in SETTINGS if way == DESCRIBED else ("default",):
        yield seed, way, setting


def elo_order() -> pd.Series:
    """Return the Elo scores of June 2023 by model."""
    folder = needed_data_folder()
    table = pd.read_csv(folder / "reference" / "lmsys_elo_reference.csv", index_col="model")
    return table[ELO].dropna()


def run(task: tuple[Any, ...], *, small: bool = False) -> list[dict[str, object]]:
    """Return the rows of a setting, one for every functional, estimator and model."""
    seed, way, setting = task
    folder = needed_data_folder()
    battles = dr.datasets.read_chatbot_arena(folder / "chatbot_arena" / "human.json")
    if small:
        battles = battles.iloc[:6000]
    options: dict[str, Any] = {}
    if way == DESCRIBED:
        options = {"n_folds": FOLDS, "floor": FLOOR, "propensity": "marginal", **SETTINGS[setting]}
    fit = dr.dml_rank(
        "winner ~ 1 | model_a + model_b",
        battles,
        **in_objects({"context": "question_id", "rng": seed, "n_jobs": 1, **options}),
    )
    # Rank centrality has no edge weights.
    functionals = FUNCTIONALS[:2] if "edge_weights" in options else FUNCTIONALS
    return [row for functional in functionals for row in model_rows(fit.update(functional=functional), way)]


def model_rows(fit: dr.RankResults, way: str) -> Iterator[dict[str, object]]:
    """Yield score and half width of the simultaneous interval of every model, debiased and plug-in."""
    for estimator in ("debiased", "plugin"):
        changed = fit.update(estimator=estimator)
        is_plain = way == DESCRIBED or estimator == "plugin"
        covariance = plain_covariance(changed) if is_plain else changed.cov_params().to_numpy()
        error = np.sqrt(np.diag(covariance))
        # Without features the plug-in scores of a fold are the same in all contexts, and differ between folds alone.
        critical = critical_value(covariance) if error.min() > 1e-12 else 0.0
        for model, score, half_width in zip(changed.models, changed.params, critical * error, strict=True):
            yield {
                "functional": changed.functional,
                "estimator": estimator,
                "model": model,
                "score": f"{score:.6g}",
                "half_width": f"{half_width:.5g}",
            }


EXPERIMENT = Experiment(
    "arena", ("seed", "way", "setting"), ("functional", "estimator", "model", "score", "half_width"), 1, tasks, run
)
