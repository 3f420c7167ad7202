"""Do intervals of mean scores hold where scores are missing for reasons that a feature holds?

Four models, 500 prompts; the first model has all scores. Errors over standard errors of the plain means of the scores
that are there, and of ``missing="model"``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import binom

import dmlrank as dr

from .runner import Row, Study

MEAN, EFFECT = np.array([0.2, 0.1, 0.0, -0.2]), np.array([1.0, 0.8, 0.6, 1.2])


def table_of(seed: int, slope: float, curved: bool, n: int = 500) -> pd.DataFrame:
    """Return scores with gaps that follow a feature."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    signal = (x**2 - 1) / np.sqrt(2) if curved else x
    scores = MEAN + EFFECT * signal[:, None] + 0.5 * rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, 4))
    is_there = rng.random((n, 4)) < expit(1 + slope * np.tanh(signal))[:, None]
    is_there[:, 0] = True
    prompt, model = (part.ravel() for part in np.indices((n, 4)))
    return pd.DataFrame(
        {
            "prompt": prompt,
            "model": np.array(["m0", "m1", "m2", "m3"])[model],
            "score": np.where(is_there, scores, np.nan).ravel(),
            "x": x[prompt],
        }
    )


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """A row for each model with gaps."""
    shape, slope = cell.split(", ")
    table = table_of(seed, float(slope), shape == "a curve")
    fit = dr.dml_rank("score ~ x | model", table, context="prompt", missing="model", rng=seed)
    seen = table.groupby("model")["score"]
    plain = (seen.mean() - MEAN) / (seen.std() / np.sqrt(seen.count()))
    for model in fit.models[1:]:
        yield {"model": model, "plain": plain[model], "ours": ((fit.params - MEAN) / fit.bse)[model]}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Bias in standard errors, and coverage."""
    made = []
    for (cell, model), part in rows.groupby(["cell", "model"], sort=False):
        low, high = (binom.ppf(q, len(part), 0.95) / len(part) for q in (0.005, 0.995))
        figures = [f"{part['plain'].mean():.1f}", f"{(part['plain'].abs() < 1.96).mean():.3f}"]
        figures += [f"{part['ours'].mean():+.2f}", f"{(part['ours'].abs() < 1.96).mean():.3f}"]
        made.append((*cell.split(", "), model, *figures, f"{low:.3f} to {high:.3f}"))
    columns = [
        "scores follow",
        "gaps follow it with slope",
        "model",
        "bias of plain means (se)",
        "coverage of plain means",
    ]
    columns += ["bias of missing='model' (se)", "coverage of missing='model'", "99 % band of 0.95"]
    return {"missing_scores": pd.DataFrame(made, columns=columns)}


STUDY = Study(
    tuple(f"{shape}, {slope}" for shape in ("a line", "a curve") for slope in (0.8, 1.6)), replicate, tables, 200
)
