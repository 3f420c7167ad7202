"""What labelling plans buy: the trace of the covariance, or the squared error, of a plan relative to random labels.

With the true mu the ratio is that of the formula. With mu from a pilot of 1,500 prompts with random labels, a plan for
1,500 new prompts is made, its labels are bought, and a fit of these is compared with one of as many random labels on
the same prompts; the paper's simulator of optimal data collection [P tab:collection].
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

import dmlrank as dr

from .runner import Row, Study

FUNCTIONALS = ("borda", "bt", "rank_centrality")
SIMULATOR, LABELS = dr.datasets.Bt(n_items=3, n_features=2, gamma=1), 2000
CELLS = (
    "draw 0, true mu",
    "draw 5, true mu",
    "ten models, top five, true mu",
    "draw 0, mu from a pilot",
)


def ten_models(pool: int) -> np.ndarray:
    """Probabilities of ten models with ties, the best five close together."""
    rng = np.random.default_rng(3)
    x, level = rng.random((pool, 2)), np.concatenate([np.linspace(1.0, 0.8, 5), np.linspace(0.2, -1.2, 5)])
    utility = level + 0.5 * np.sin(2 * np.pi * (x[:, :1] + rng.random(10))) + (x[:, 1:] - 0.5) * rng.normal(size=10)
    gap = utility[:, :, None] - utility[:, None, :]
    mu = np.exp(np.stack([gap, -gap, -0.3 - 0.5 * np.abs(gap)], axis=-1))
    return mu / mu.sum(axis=-1, keepdims=True) * ~np.eye(10, dtype=bool)[..., None]


def votes_on(rows: pd.DataFrame, prompts: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Features and drawn votes for rows with prompts, pairs and propensities; rows without a pair have no winner."""
    rows = rows.drop(columns=["x0", "x1"], errors="ignore").merge(prompts, on="question_id")
    place, shown = {model: code for code, model in enumerate(SIMULATOR.models)}, rows["model_a"].notna().to_numpy()
    first, second = (rows[side][shown].map(place).to_numpy(int) for side in ("model_a", "model_b"))
    p = SIMULATOR.mu(rows[["x0", "x1"]].to_numpy()[shown])[np.arange(shown.sum()), first, second, 0]
    winner = np.full(len(rows), None, dtype=object)
    winner[shown] = np.where(rng.random(len(p)) < p, "model_a", "model_b")
    return rows.assign(winner=winner)


def random_pairs(prompts: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Pairs in either order with the same probability, and prompts without a pair."""
    models, pairs = np.array(SIMULATOR.models, dtype=object), np.argwhere(~np.eye(SIMULATOR.n_items, dtype=bool))
    propensity = LABELS / (len(prompts) * len(pairs))
    prompt, pair = np.nonzero(rng.random((len(prompts), len(pairs))) < propensity)
    sides = {side: models[pairs[pair, place]] for place, side in enumerate(("model_a", "model_b"))}
    rows = pd.DataFrame({"question_id": prompts["question_id"].to_numpy()[prompt], **sides, "propensity": propensity})
    return pd.concat([rows, prompts.loc[~prompts.index.isin(prompt), ["question_id"]]], ignore_index=True)


def fit_of(votes: pd.DataFrame, functional: str) -> dr.RankResults:
    """Fit votes whose propensities are known."""
    options = {"context": "question_id", "propensity": "propensity", "rng": 0, "n_jobs": 1}
    return dr.dml_rank("winner ~ x0 + x1 | model_a + model_b", votes, functional=functional, **options)


def replicate(cell: str, seed: int, n: int = 1500) -> Iterator[Row]:
    """Ratios of the formula, which need no seed, or squared errors of plan and random labels."""
    if "pilot" not in cell:
        simulator = dr.datasets.Bt(5 * ("draw 5" in cell), n_items=3, n_features=2, gamma=1)
        budget = 2 * (3000 if "ten" in cell else LABELS)
        mu = ten_models(2 * n) if "ten" in cell else simulator.mu(simulator.features(2 * n, rng=1))
        contrasts = dr.planning.Top(5) if "ten" in cell else None
        for functional in FUNCTIONALS if seed == 0 else ():
            plan = dr.design(mu, functional, budget=budget, contrasts=contrasts, floor=0)
            yield {"functional": functional, "plan": plan.objective, "random": plan.uniform_objective}
        return
    rng = np.random.default_rng([seed, 7])
    x = SIMULATOR.features(n, rng=rng)
    prompts = pd.DataFrame({"question_id": range(n), "x0": x[:, 0], "x1": x[:, 1]})
    pilot = fit_of(SIMULATOR.sample(n, rng=seed), "borda")
    for functional in FUNCTIONALS:
        plan = pilot.update(functional=functional).design(LABELS, newdata=prompts, from_scratch=True)
        bought = {"plan": plan.sample(rng=rng).rename(columns={"context": "question_id"})}
        bought["random"], truth = random_pairs(prompts, rng), SIMULATOR.truth(functional)
        fits = {how: fit_of(votes_on(rows, prompts, rng), functional) for how, rows in bought.items()}
        yield {"functional": functional} | {how: ((fit.params - truth) ** 2).sum() for how, fit in fits.items()}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Ratios, with half-widths of 95 % intervals where they are simulated."""
    made = {}
    for (cell, functional), part in rows.groupby(["cell", "functional"], sort=False):
        ratio = part["plan"].mean() / part["random"].mean()
        # Both fits of a seed share their prompts.
        half = 1.96 * (part["plan"] - ratio * part["random"]).sem() / part["random"].mean()
        made.setdefault(cell, {})[functional] = f"{ratio:.2f} ({half:.2f})" if "pilot" in cell else f"{ratio:.2f}"
    return {"plan_gain": pd.DataFrame(made).T.rename_axis("setting").reset_index()}


STUDY = Study(CELLS, replicate, tables, 200, {"n": 300})
