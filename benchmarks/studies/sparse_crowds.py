"""Sparse crowds without features: few prompts, many models, and most pairs labelled on one or two prompts.

Strengths of models differ by prompt, so that the votes on a prompt depend on each other. The truth of a score is the
functional of the mean preferences on the pairs that were compared.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import expit

import dmlrank as dr
from dmlrank.options import in_objects

from .runner import Row, Study, rmse

# Models and votes; prompts; whether a few prompts have most of the votes.
SETTINGS = [(k, v, q, even) for k, v in ((20, 1500), (60, 5000)) for q in (13, 150) for even in (True, False)]
# Standard deviation of a model's strength between models, and of its change between prompts.
SPREAD, BY_PROMPT = 0.8, 0.5


def draw_crowd(
    n_models: int, n_votes: int, n_prompts: int, even: bool, rng: np.random.Generator
) -> tuple[pd.DataFrame, np.ndarray]:
    """Votes, and the mean preferences of all pairs over new prompts, (K, K)."""
    strength = np.sort(rng.normal(scale=SPREAD, size=n_models))[::-1]
    by_prompt = strength + BY_PROMPT * rng.normal(size=(n_prompts, n_models))
    share = np.ones(n_prompts) if even else 1 / np.arange(1, n_prompts + 1)
    prompt = rng.choice(n_prompts, n_votes, p=share / share.sum())
    first = rng.integers(n_models, size=n_votes)
    second = (first + rng.integers(1, n_models, size=n_votes)) % n_models
    won = rng.random(n_votes) < expit(by_prompt[prompt, first] - by_prompt[prompt, second])
    names = np.array([f"m{j:02d}" for j in range(n_models)])
    votes = pd.DataFrame({"prompt": prompt, "model_a": names[first], "model_b": names[second]})
    votes["winner"] = np.where(won, "model_a", "model_b")
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    gap = (strength[:, None] - strength)[..., None] + np.sqrt(2) * BY_PROMPT * nodes
    return votes, expit(gap) @ (weights / weights.sum())


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """Rows of the two functionals."""
    number = CELLS.index(cell)
    votes, preferences = draw_crowd(*SETTINGS[number], np.random.default_rng([seed, number]))
    table = np.stack([preferences, 1 - preferences], axis=-1)
    table[np.diag_indices(len(table))] = 0
    options = {"context": "prompt", "position_bias": False, "min_labels": 1, "rng": seed, "n_jobs": 1}
    for functional in ("borda", "bt"):
        fit = dr.dml_rank("winner ~ 1 | model_a + model_b", votes, functional=functional, **in_objects(options))
        truth = fit.steps.setup.functional.value(table[None])[0]
        distance, errors = np.abs(fit.params.to_numpy() - truth), fit.bse.to_numpy()
        figures = {"error": rmse(distance), "coverage": (distance <= 1.96 * errors).mean(), "std_error": errors.mean()}
        yield {"functional": functional, **figures}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means over crowds."""
    names = ["models", "v", "prompts", "even"]
    keys = pd.DataFrame([SETTINGS[CELLS.index(cell)] for cell in rows["cell"]], columns=names)
    by = pd.concat([keys, rows], axis=1).groupby(["models", "prompts", "even", "functional"])
    means = by[["error", "coverage", "std_error"]].mean().round(4)
    return {"sparse_crowds": means.assign(crowds=by.size()).reset_index()}


CELLS = tuple(f"{k} models, {q} prompts, {'evenly' if even else 'mostly on a few'}" for k, _, q, even in SETTINGS)
STUDY = Study(CELLS, replicate, tables, 50)
