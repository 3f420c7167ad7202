"""Bradley-Terry assumed or projected: precision and coverage where it holds, what happens where it does not.

The simulator of the paper's experiment on misspecification (K = 4, p = 5, a cycle of strength gamma on the log-odds).
Four estimates from the same first stages: the plug-in, the debiased projection, the restricted estimator, and the
paper's formula for the restricted one (``paper``), which counts every pair twice. Truth is the mean of the projection,
which at gamma = 0 is the mean of the Bradley-Terry scores. At a known mu every multiple of the residuals is unbiased,
the paper's formula and the plug-in too; what a formula is worth shows where mu is off, as in the third and the last
table.

    python benchmarks/restricted.py --seeds 30 --replications 200 --fitted 5
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logit

import dmlrank as dr
from dmlrank.options import in_objects

N_CONTEXTS = 2000
# What a cautious learner makes of the log-odds.
SHRUNKEN = 0.8
GAMMAS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
ESTIMATORS = ("plugin", "projection", "restricted", "paper")
# Cases of the second table: position effect in the data, position effect in the fit, strength of the selection.
CASES = {
    "no effect, none assumed": (0.0, False, 0.5),
    "no effect, allowed for": (0.0, True, 0.5),
    "effect, allowed for": (2.0, True, 0.5),
    "effect, even selection": (2.0, True, 0.0),
}


def fit(sim: dr.datasets.Bt, seed: int, position: bool, stages: str, n: int) -> dict[str, NDArray[np.float64]]:
    """Estimates and standard errors of every estimator, and the p-value of the restriction, on one sample."""
    battles = sim.sample(n, rng=seed)
    names = [f"x{i}" for i in range(sim.n_features)]
    x = battles.drop_duplicates("question_id")[names].to_numpy()
    mu, pi = sim.mu(x), sim.propensity(x)
    if stages == "shrunken":
        mu[..., 0] = expit(SHRUNKEN * logit(np.clip(mu[..., 0], 1e-12, 1 - 1e-12)))
        mu[..., 1] = 1 - mu[..., 0]
        mu[:, np.arange(sim.n_items), np.arange(sim.n_items)] = 0.0
    offered = pi if position else pi + np.swapaxes(pi, 1, 2)
    first_stages = {"mu": mu, "propensity": offered, "floor": 0.0} if stages != "fitted" else {}
    restricted = dr.dml_rank(
        f"winner ~ {' + '.join(names)} | model_a + model_b",
        battles,
        **in_objects(
            {
                "functional": "bt",
                "estimator": "bt_restricted",
                "context": "question_id",
                "position_bias": position,
                "rng": seed,
                "n_jobs": 1,
                **first_stages,
            }
        ),
    )
    free = restricted.update(estimator="debiased")
    made = {
        "plugin": (free.plugin.to_numpy(), np.full(len(free.params), np.nan)),
        "projection": (free.params.to_numpy(), free.bse.to_numpy()),
        "restricted": (restricted.params.to_numpy(), restricted.bse.to_numpy()),
        "paper": paper_formula(battles, free.models, mu, pi)
        if stages != "fitted"
        else (np.full(len(free.params), np.nan),) * 2,
    }
    return {"p": np.array(restricted.restriction_test().pvalue)} | {k: np.stack(v) for k, v in made.items()}


def paper_formula(
    battles: pd.DataFrame, models: list[str], mu: NDArray[np.float64], pi: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The paper's restricted influence values [P eq:eif_bt_restricted] at known mu and pi: mean and standard error."""
    k = mu.shape[1]
    score = dr.functionals.BradleyTerry(dr.functionals.CategoryWeights.half(2)).value(mu)
    fitted = expit(score[:, :, None] - score[:, None, :])
    weight = fitted * (1 - fitted) * ~np.eye(k, dtype=bool)
    laplacian = -weight
    laplacian[:, np.arange(k), np.arange(k)] += weight.sum(axis=2)
    inverse = np.linalg.pinv(laplacian)
    rows = battles.dropna(subset=["winner"])
    i = rows["question_id"].to_numpy(int)
    a, b = (pd.Categorical(rows[c], categories=models).codes.astype(int) for c in ("model_a", "model_b"))
    residual = (rows["winner"] == "model_a").to_numpy() - mu[i, a, b, 0]
    phi = score.copy()
    np.add.at(phi, i, (inverse[i, :, a] - inverse[i, :, b]) * (residual / pi[i, a, b])[:, None])
    return phi.mean(axis=0), phi.std(axis=0) / np.sqrt(len(phi))


def figures(sim: dr.datasets.Bt, seeds: Iterable[int], position: bool, stages: str, n: int) -> dict[str, float]:
    """Root mean squared errors, ratios of variance, coverage of 95 % intervals, share of tests that reject."""
    truth = sim.truth("bt", 400_000).to_numpy()
    made = [fit(sim, seed, position, stages, n) for seed in seeds]
    row: dict[str, float] = {}
    for name in ESTIMATORS:
        estimate, error = np.stack([one[name] for one in made], axis=1)
        row[f"bias {name}"] = float(np.abs(estimate.mean(axis=0) - truth).max())
        row[f"rmse {name}"] = float(np.sqrt(np.square(estimate - truth).mean()))
        if name != "plugin":
            row[f"cover {name}"] = float((np.abs(estimate - truth) < 1.96 * error).mean())
            row[f"var {name}"] = float(np.square(error).mean())
    row["rejected"] = float(np.mean([one["p"] < 0.05 for one in made]))
    for name in ("restricted", "paper"):
        row[f"var {name}"] /= row["var projection"]
    del row["var projection"]
    return row


def show(rows: dict[str, dict[str, float]]) -> str:
    """The rows as a table."""
    table = pd.DataFrame(rows).T
    order = [c for kind in ("bias", "rmse", "cover", "var") for c in table.columns if c.startswith(kind)] + ["rejected"]
    return table[order].dropna(axis=1, how="all").round(3).to_string()


def known_tables(seeds: int, replications: int) -> bool:
    """Print the tables with known or shrunken first stages; whether they show what they should."""
    some = range(seeds)
    cycles = {f"gamma {g:g}": figures(dr.datasets.Bt(gamma=g), some, True, "known", N_CONTEXTS) for g in GAMMAS}
    print(f"known first stages, {seeds} samples of {N_CONTEXTS} prompts\n{show(cycles)}\n", flush=True)
    holds = {}
    for name, (effect, position, selection) in CASES.items():
        sim = dr.datasets.Bt(position_effect=effect, selection_strength=selection)
        holds[name] = figures(sim, range(replications), position, "known", N_CONTEXTS)
    print(f"Bradley-Terry holds, {replications} samples\n{show(holds)}\n", flush=True)
    sims = {"no position effect": dr.datasets.Bt(), "position effect": dr.datasets.Bt(position_effect=2.0)}
    shrunken = {name: figures(sim, some, True, "shrunken", N_CONTEXTS) for name, sim in sims.items()}
    print(f"log-odds of mu times {SHRUNKEN}, Bradley-Terry holds, {seeds} samples\n{show(shrunken)}\n", flush=True)
    slack = 4 * np.sqrt(0.05 * 0.95 / replications)
    first, last = cycles["gamma 0"], cycles[f"gamma {GAMMAS[-1]:g}"]
    return (
        first["rmse restricted"] < first["rmse projection"]
        and last["rmse projection"] < last["rmse restricted"]
        and last["rejected"] > 0.9
        and all(row["rmse restricted"] < 0.5 * row["rmse paper"] for row in shrunken.values())
        and all(row["var restricted"] < 1 and row["cover restricted"] > 0.95 - slack for row in holds.values())
    )


def main() -> int:
    """Print the tables; one, where the restricted estimator is not best at gamma = 0, or coverage fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=30, help="samples per gamma; none with 0")
    parser.add_argument("--replications", type=int, default=200, help="samples of the second table")
    parser.add_argument("--fitted", type=int, default=0, help="samples per gamma with fitted first stages")
    given = parser.parse_args()
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=dr.DmlrankWarning)
    start = time.perf_counter()
    right = known_tables(given.seeds, given.replications) if given.seeds else True
    if given.fitted:
        sims = {f"gamma {g:g}": dr.datasets.Bt(gamma=g) for g in GAMMAS}
        learnt = {name: figures(sim, range(given.fitted), True, "fitted", N_CONTEXTS) for name, sim in sims.items()}
        print(f"fitted first stages, {given.fitted} samples\n{show(learnt)}\n")
    print(f"{time.perf_counter() - start:.0f} s")
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
