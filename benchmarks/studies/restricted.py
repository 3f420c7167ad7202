"""Bradley-Terry assumed or projected: precision and coverage where it holds, what happens where it does not.

The simulator of the paper's experiment on misspecification (K = 4, p = 5, a cycle of strength gamma on the log-odds).
From the same first stages come the plug-in, the debiased projection, the restricted estimator, and the paper's formula
for the restricted one, which counts every pair twice. Truth is the mean of the projection, which at gamma = 0 is the
mean of the Bradley-Terry scores. At a known mu every multiple of the residuals is unbiased; what a formula is worth
shows where mu is off: in "shrunken" its log-odds are 0.8 times the true ones, in "fitted" it is learnt.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd
from scipy.special import expit, logit

import dmlrank as dr
from dmlrank.options import in_objects

from .runner import Row, Study

GAMMAS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
# Position effect in the data, position effect in the fit, strength of the selection.
POSITION = {
    "no effect, `position_bias=False`": (0.0, False, 0.5),
    "no effect, `position_bias=True`": (0.0, True, 0.5),
    "effect, `position_bias=True`": (2.0, True, 0.5),
    "effect, constant pi": (2.0, True, 0.0),
}
SHRUNKEN = {"no position effect": 0.0, "position effect": 2.0}
CELLS = (
    *(f"{stages} {gamma:g}" for stages in ("known", "fitted") for gamma in GAMMAS),
    *(f"position {name}" for name in POSITION),
    *(f"shrunken {name}" for name in SHRUNKEN),
)


def simulator_of(cell: str) -> tuple[dr.datasets.Bt, bool]:
    """The simulator of a cell, and whether the fit allows for a position effect."""
    stages, _, name = cell.partition(" ")
    if stages == "position":
        effect, position, selection = POSITION[name]
        return dr.datasets.Bt(position_effect=effect, selection_strength=selection), position
    return dr.datasets.Bt(
        **({"position_effect": SHRUNKEN[name]} if stages == "shrunken" else {"gamma": float(name)})
    ), True


@cache
def truth_of(cell: str) -> pd.Series:
    """True scores."""
    return simulator_of(cell)[0].truth("bt", 400_000)


def replicate(cell: str, seed: int, n: int = 2000) -> Iterator[Row]:
    """A row of squared errors, variances and coverage of every estimator on one sample."""
    (sim, position), stages = simulator_of(cell), cell.partition(" ")[0]
    battles, names, k = sim.sample(n, rng=seed), [f"x{i}" for i in range(sim.n_features)], sim.n_items
    x = battles.drop_duplicates("question_id")[names].to_numpy()
    mu, pi = sim.mu(x), sim.propensity(x)
    if stages == "shrunken":
        won = expit(0.8 * logit(np.clip(mu[..., 0], 1e-12, 1 - 1e-12)))
        mu = np.stack([won, 1 - won], axis=-1) * ~np.eye(k, dtype=bool)[..., None]
    options = {"functional": "bt", "estimator": "bt_restricted", "context": "question_id", "position_bias": position}
    if stages != "fitted":
        options |= {"mu": mu, "propensity": pi if position else pi + np.swapaxes(pi, 1, 2), "floor": 0.0}
    options = in_objects({**options, "rng": seed, "n_jobs": 1})
    restricted = dr.dml_rank(f"winner ~ {' + '.join(names)} | model_a + model_b", battles, **options)
    free = restricted.update(estimator="debiased")
    made = {"restricted": (restricted.params, restricted.bse), "projection": (free.params, free.bse)}
    made["plug-in"] = free.estimates.plugin, free.bse
    if stages != "fitted":
        made["paper's"] = paper_formula(battles, free.models, mu, pi)
    row: Row = {"rejects": np.asarray(restricted.restriction_test().pvalue).item() < 0.05}
    for name, (estimate, se) in made.items():
        error = np.asarray(estimate - truth_of(cell))
        row |= {f"mse {name}": (error**2).mean(), f"var {name}": (np.asarray(se) ** 2).mean()}
        row[f"cover {name}"] = (np.abs(error) < 1.96 * np.asarray(se)).mean()
    yield row


def paper_formula(battles: pd.DataFrame, models: list[str], mu: np.ndarray, pi: np.ndarray):
    """The paper's restricted influence values [P eq:eif_bt_restricted] at known mu and pi: mean and standard error."""
    k = len(models)
    score = dr.functionals.BradleyTerry(dr.functionals.CategoryWeights.half(2)).value(mu)
    fitted = expit(score[:, :, None] - score[:, None, :])
    weight = fitted * (1 - fitted) * ~np.eye(k, dtype=bool)
    inverse = np.linalg.pinv(weight.sum(axis=2)[:, :, None] * np.eye(k) - weight)
    rows = battles.dropna(subset=["winner"])
    i = rows["question_id"].to_numpy(int)
    a, b = (pd.Categorical(rows[c], categories=models).codes.astype(int) for c in ("model_a", "model_b"))
    residual = (rows["winner"] == "model_a").to_numpy() - mu[i, a, b, 0]
    phi = score.copy()
    np.add.at(phi, i, (inverse[i, :, a] - inverse[i, :, b]) * (residual / pi[i, a, b])[:, None])
    return phi.mean(axis=0), phi.std(axis=0) / np.sqrt(len(phi))


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Root mean squared errors, the smallest in bold, coverage and rejections."""
    made: dict[str, list] = {}
    means = rows.drop(columns="seed").astype({"rejects": float}).groupby("cell", sort=False).mean()
    shown = ["plug-in", "projection", "restricted", "paper's"]
    for cell, mean in means.iterrows():
        stages, _, name = cell.partition(" ")
        rmse, cover = (
            {k: np.sqrt(mean.get(f"mse {k}", np.nan)) for k in shown},
            [f"{mean[f'cover {k}']:.2f}" for k in shown[1:3]],
        )
        if stages == "shrunken":
            made.setdefault(stages, []).append((name, *(f"{value:.2f}" for value in rmse.values())))
        elif stages == "position":
            ratio = [f"{mean[f'var {k}'] / mean['var projection']:.2f}" for k in shown[2:]]
            rest = (*ratio, f"{mean['cover restricted']:.3f}", f"{mean['rejects']:.2f}")
            made.setdefault(stages, []).append((name, *(f"{rmse[k]:.3f}" for k in shown[1:3]), *rest))
        else:
            del rmse["paper's" if stages == "fitted" else "plug-in"]
            best = min(rmse.values())
            errors = [f"**{e:.3f}**" if e == best else f"{e:.3f}" for e in rmse.values()]
            made.setdefault(stages, []).append((name, *errors, *cover, f"{mean['rejects']:.2f}"))
    ends = ["cover projection", "cover restricted", "test rejects"]
    var = ["rmse projection", "rmse restricted", "var restricted", "var paper's"]
    columns = {"known": ["gamma", *shown[1:], *ends], "fitted": ["gamma", *shown[:3], *ends], "shrunken": ["", *shown]}
    columns["position"] = ["data, fit", *var, *ends[1:]]
    titles = {stages: "shrunk" if stages == "shrunken" else stages for stages in made}
    return {f"restricted_{titles[key]}": pd.DataFrame(part, columns=columns[key]) for key, part in made.items()}


STUDY = Study(CELLS, replicate, tables, 30, {"n": 400})
