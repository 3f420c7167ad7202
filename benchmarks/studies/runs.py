"""Runs: joint coverage of curves of pass@k and pass^k, of costs per success, and of their ratios.

Half of the prompts are hard for all models. Costs are log-normal, larger on hard prompts and where a run fails; a fifth
of the runs fail. "few" and "many" are 100 and 500 prompts, with 4 and with 8 runs of each of 3 models.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

import dmlrank as dr

from .runner import Row, Study, share

PROMPTS = {"few": 100, "many": 500}
# The chance that a run of a model solves an easy and a hard prompt; four fifths on average.
RATES = np.array([[0.98, 0.62], [0.95, 0.65], [0.92, 0.68]])
# Spread of log costs on a prompt, and what a failed run costs more.
SPREAD, FAILED = 0.8, 2.0


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """Draw runs, and compare the intervals of their quantities with the true ones."""
    size, n_runs = cell.split()[0], int(cell.split()[1])
    rng = np.random.default_rng([seed, PROMPTS[size], n_runs])
    shape = (PROMPTS[size], len(RATES), n_runs)
    hard = rng.integers(0, 2, size=PROMPTS[size])
    solved = rng.random(shape) < RATES[:, hard].T[:, :, None]
    price = np.arange(1.0, 4.0)
    cost = np.exp(SPREAD * rng.normal(size=shape)) * price[:, None] * (1 + hard)[:, None, None]
    cost *= np.where(solved, 1.0, FAILED)
    prompt, model, run = np.indices(shape)
    table = pd.DataFrame({"prompt": prompt.ravel(), "model": np.array([*"abc"])[model.ravel()], "run": run.ravel()})
    table = table.assign(solved=solved.ravel().astype(float), cost=cost.ravel())
    res = dr.dml_rank("solved ~ 1 | model", table, context="prompt", run="run", rng=seed)
    k = np.arange(1, n_runs + 1)[:, None, None]
    of_cost = np.exp(SPREAD**2 / 2) * price * ((RATES + FAILED * (1 - RATES)) * np.array([1, 2])).mean(axis=1)
    per_success = of_cost / RATES.mean(axis=1)
    truth = {
        "pass@k": (res.curve("pass@k"), (1 - (1 - RATES) ** k).mean(axis=2).T.ravel()),
        "pass^k": (res.curve("pass^k"), (RATES**k).mean(axis=2).T.ravel()),
        "cost per success": (res.per_success("cost"), per_success),
        "ratios": (res.per_success("cost", against="a"), per_success[1:] / per_success[0]),
    }
    for quantity, (found, true) in truth.items():
        holds = ((found["lower"] <= true) & (true <= found["upper"])).all()
        yield {"quantity": quantity, "holds": holds, "width": (found["upper"] - found["lower"]).mean()}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Shares of samples in which all intervals of a quantity hold."""
    by = rows.groupby(["cell", "quantity"], sort=False)
    size, n_runs = zip(*(cell.split() for cell, _ in by.groups), strict=True)
    made = pd.DataFrame({"prompts": [PROMPTS[one] for one in size], "runs": list(map(int, n_runs))})
    made["quantity"] = [quantity for _, quantity in by.groups]
    made["samples"] = by.size().to_numpy()
    made["all hold"] = by["holds"].apply(share, digits=3).to_numpy()
    made["mean width"] = by["width"].mean().round(3).to_numpy()
    return {"runs": made}


STUDY = Study([f"{size} {n_runs}" for size in PROMPTS for n_runs in (4, 8)], replicate, tables, 300)
