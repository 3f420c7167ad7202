"""What labelling plans buy: the trace of the covariance with the true mu, relative to that of random labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

import dmlrank as dr

from .runner import Row, Study

FUNCTIONALS = ("borda", "bt", "rank_centrality")
CELLS = ("draw 0", "draw 5", "ten models, top five")


def ten_models(pool: int) -> np.ndarray:
    """Probabilities of ten models with ties, the best five close together."""
    rng = np.random.default_rng(3)
    x, level = rng.random((pool, 2)), np.concatenate([np.linspace(1.0, 0.8, 5), np.linspace(0.2, -1.2, 5)])
    utility = level + 0.5 * np.sin(2 * np.pi * (x[:, :1] + rng.random(10))) + (x[:, 1:] - 0.5) * rng.normal(size=10)
    gap = utility[:, :, None] - utility[:, None, :]
    mu = np.exp(np.stack([gap, -gap, -0.3 - 0.5 * np.abs(gap)], axis=-1))
    return mu / mu.sum(axis=-1, keepdims=True) * ~np.eye(10, dtype=bool)[..., None]


def replicate(cell: str, seed: int, n: int = 1500) -> Iterator[Row]:
    """Ratios of the formula."""
    simulator = dr.datasets.Bt(5 * ("draw 5" in cell), n_items=3, n_features=2, gamma=1)
    mu = ten_models(2 * n) if "ten" in cell else simulator.mu(simulator.features(2 * n, rng=1))
    budget, top = (6000, 5) if "ten" in cell else (4000, None)
    for functional in FUNCTIONALS:
        plan = dr.design(mu, functional, budget=budget, top=top, floor=0)
        yield {"functional": functional, "ratio": plan.objective / plan.uniform_objective}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Ratios of the formula, which need no seed."""
    ratios = rows.drop_duplicates(["cell", "functional"]).pivot(index="cell", columns="functional", values="ratio")
    return {"plan_gain": ratios.round(2).rename_axis("setting").reset_index()}


STUDY = Study(CELLS, replicate, tables, 1, {"n": 300})
