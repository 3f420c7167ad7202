"""Score against cost: how often a status of one of eight models is wrong, or an interval of a difference misses.

Scores on 300 prompts are 0/1, and hard prompts take more tokens. In "equal models" pairs of models have one cost and
one score, so that no relation between the two may be claimed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.stats import norm

import dmlrank as dr

from .runner import Row, Study

K, PROMPTS = 8, 300


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """Draw true costs and scores, and their table."""
    rng = np.random.default_rng([seed, len(cell)])
    ability = np.sort(rng.uniform(0.35, 0.85, size=K))
    truth = np.stack([100 * np.exp(2 * ability + 0.5 * rng.normal(size=K)), ability])
    if cell == "equal models":
        truth = np.repeat(truth[:, ::2], 2, axis=1)
    hard = rng.normal(size=(PROMPTS, 1))
    score = norm.cdf(0.7 * hard + np.sqrt(0.51) * rng.normal(size=(PROMPTS, K))) < truth[1]
    log_tokens = 0.3 * hard + 0.39 * rng.normal(size=(PROMPTS, K))
    tokens = truth[0] * np.exp(log_tokens - (0.3**2 + 0.39**2) / 2)
    prompt, model = np.indices((PROMPTS, K))
    table = pd.DataFrame({"prompt": prompt.ravel(), "model": [f"m{j}" for j in model.ravel()]})
    table = table.assign(score=score.ravel().astype(float), tokens=tokens.ravel())
    found = dr.dml_rank("score ~ 1 | model", table, context="prompt", rng=0).pareto("tokens")
    claims = found.table[["model", "status", "dominated_by"]].itertuples(index=False)
    place = {f"m{j}": j for j in range(K)}
    first, second = (found.tests[side].map(place).to_numpy() for side in ("first", "second"))
    of = truth[(found.tests["quantity"] == "score").to_numpy().astype(int)]
    gap = of[np.arange(len(of)), first] - of[np.arange(len(of)), second]
    yield {
        "a wrong status": any(is_wrong(truth, *claim) for claim in claims),
        "an interval misses": ((gap < found.tests["conf_low"]) | (gap > found.tests["conf_high"])).any(),
        "decided statuses": (found.table["status"] != "undecided at its cost").mean(),
    }


def is_wrong(truth: np.ndarray, model: str, status: str, dominated_by: str) -> bool:
    """Return whether a status claims what is not true."""
    (cost, score), j = truth, int(model[1:])
    if status == "worse and not cheaper":
        by = [int(name[1:]) for name in dominated_by.split(", ")]
        return not (score[by] > score[j]).all() or not (cost[by] < cost[j]).all()
    others = np.delete(np.arange(K), j)
    return status == "best at its cost" and not ((score[j] > score[others]) | (cost[j] < cost[others])).all()


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Shares of samples."""
    by = rows.drop(columns="seed").groupby("cell", sort=False)
    made = by.mean().round(4).rename_axis("kind").reset_index()
    made.insert(1, "samples", by.size().to_numpy())
    made.insert(0, "prompts", PROMPTS)
    return {"pareto": made}


STUDY = Study(("correlated", "equal models"), replicate, tables, 500)
