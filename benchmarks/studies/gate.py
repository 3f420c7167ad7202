"""Decisions of the gate, margin 0.05, where the candidate is better, worse, and worse by exactly the margin.

The baseline is right on 7 of 10 prompts. With looks, a decision is that of the first of the looks at 100, 200, 400 and
800 prompts that decides.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.cli.gate import EXIT_CODES, decide

from .runner import Row, Study

DIFFERENCE = {"better": 0.03, "equal by the margin": -0.05, "worse": -0.15}


def decision(scores: np.ndarray, planned: int | None) -> str:
    """The decision about 0/1 scores of baseline and candidate, (n, 2)."""
    table = pd.DataFrame(scores, columns=["baseline", "candidate"]).rename_axis("prompt").reset_index()
    table = table.melt("prompt", var_name="model", value_name="accuracy")
    result = dr.dml_rank("accuracy ~ 1 | model", table, context="prompt")
    result = result if planned is None else result.sequential(planned, start=100)
    return str(decide(result, "candidate", "baseline", 0.05, 0.95)["decision"])


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """Decisions about one release with one look and with four."""
    for looks in (False, True):
        rng = np.random.default_rng([seed, len(cell), looks])
        n, sizes = (800, (100, 200, 400, 800)) if looks else (300, (300,))
        latent = np.where(rng.random((n, 1)) < 0.5, rng.random((n, 1)), rng.random((n, 2)))
        scores = (latent < [0.7, 0.7 + DIFFERENCE[cell]]).astype(float)
        made = (decision(scores[:size], 400 if looks else None) for size in sizes)
        decided = next((d for d in made if d != "not decided"), "not decided")
        yield {"looks": "four looks" if looks else "one look", "decision": decided}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Shares of the decisions."""
    made = rows.groupby(["cell", "looks"], sort=False)["decision"]
    shares = pd.DataFrame({name: made.agg(lambda found, name=name: (found == name).mean()) for name in EXIT_CODES})
    shares.insert(0, "samples", made.size())
    return {"gate": shares.round(4).rename_axis(["candidate", "looks"]).reset_index()}


STUDY = Study(tuple(DIFFERENCE), replicate, tables, 500)
