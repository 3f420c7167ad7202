"""Do intervals cover where most pairs were never compared? Bradley-Terry exactly true, 251 of 1,711 pairs compared.

Scores on the complete graph are extrapolated: a fit gives them no intervals, and the ones that are looked at here are
made from the covariance. Scores on the graph of compared pairs estimate the same numbers, because the model is true.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

from .runner import Row, Study, rmse

SETTINGS = {
    'graph="complete"': {"graph": "complete", "position_bias": False},
    "position_bias=True": {"position_bias": True},
    "min_labels=1, position_bias=False": {"min_labels": 1, "position_bias": False},
}


def sparse_graph(n_models: int, n_pairs: int) -> np.ndarray:
    """Pairs of a connected graph, (n_pairs, 2): a random tree, and random pairs beside it."""
    rng = np.random.default_rng(0)
    order = rng.permutation(n_models)
    tree = {tuple(sorted((int(order[i]), int(order[rng.integers(i)])))) for i in range(1, n_models)}
    others = [(j, k) for j in range(n_models) for k in range(j + 1, n_models) if (j, k) not in tree]
    chosen = rng.choice(len(others), n_pairs - len(tree), replace=False)
    return np.array(sorted(tree) + [others[i] for i in chosen])


def replicate(cell: str, seed: int, n_models: int = 59, n_pairs: int = 251, votes: int = 120) -> Iterator[Row]:
    """One fit: whether all intervals cover, the share of pointwise ones that do, their width, and the error."""
    scores = np.random.default_rng(1).normal(0, 0.8, n_models)
    truth = pd.Series(scores - scores.mean(), index=[f"m{j:02d}" for j in range(n_models)])
    rng, pairs = np.random.default_rng(seed), sparse_graph(n_models, n_pairs)
    pair = pairs[rng.integers(len(pairs), size=n_pairs * votes)]
    pair = np.where(rng.random(len(pair))[:, None] < 0.5, pair, pair[:, ::-1])
    first, second = truth.to_numpy()[pair].T
    winner = np.where(rng.random(len(pair)) < 1 / (1 + np.exp(second - first)), "model_a", "model_b")
    names = truth.index.to_numpy()[pair]
    frame = pd.DataFrame({"winner": winner, "model_a": names[:, 0], "model_b": names[:, 1]})
    options = in_objects({"functional": "bt", "rng": seed, "n_jobs": 1, **SETTINGS[cell]})
    fit = dr.dml_rank("winner ~ 1 | model_a + model_b", frame, **options)
    error, se = (fit.params - truth[fit.models]).abs().to_numpy(), np.sqrt(np.diag(fit.cov_params()))
    critical = fit.estimates.critical
    yield {
        "simultaneous": (error <= critical * se).all(),
        "pointwise": (error <= 1.959964 * se).mean(),
        "half-width": critical * se.mean(),
        "root mean squared error": rmse(error),
    }


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means by setting."""
    by = rows.groupby("cell", sort=False)
    means = by.mean().drop(columns="seed").round(2).reset_index().rename(columns={"cell": "setting"})
    means.insert(1, "seeds", by.size().to_numpy())
    return {"complete_graph": means.assign(setting=[f"`{setting}`" for setting in means["setting"]])}


STUDY = Study(tuple(SETTINGS), replicate, tables, 120, {"n_models": 16, "n_pairs": 22})
