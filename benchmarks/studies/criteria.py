"""Several criteria: do intervals at 50 random weightings hold at once, and is nobody wrongly shown to be first?

Four models with scores on three correlated criteria: right or wrong, a grade with a bell curve, and rarely unsafe; the
best model depends on the criterion. For comparison, intervals that each hold for one weighting.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.stats import norm

import dmlrank as dr
from tests.support import table_of_criteria

from .runner import Row, Study

K, CRITERIA = 4, ["right", "style", "safety"]
PLACE = np.linspace(-1, 1, K)
TRUTH = np.stack([0.6 + 0.15 * PLACE, 3.0 - 0.4 * PLACE, 0.8 - 0.1 * PLACE**2])


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """One table of scores."""
    rng = np.random.default_rng(seed)
    table = table_of_criteria(int(cell), rng, K)
    fit = dr.dml_rank(f"{' + '.join(CRITERIA)} ~ 1 | model", table, context="prompt", rng=0)
    covered = single = True
    for w in rng.dirichlet(np.ones(3), size=50):
        found = fit.at_weights(dict(zip(CRITERIA, w, strict=True)))
        error = (found["score"] - w @ TRUTH).abs()
        covered &= bool((error <= found["upper"] - found["score"]).all())
        single &= bool((error <= norm.isf(0.05 / 8) * found["std_error"]).all())
    first = fit.first_for_some_weighting()
    shown = first[first["shown"]]
    leads = (shown[CRITERIA].to_numpy() @ TRUTH).argmax(axis=1)
    wrong = any(f"m{lead}" != name for lead, name in zip(leads, shown.index, strict=True))
    yield {"covered": covered, "covered by intervals of one weighting": single, "a wrong first": wrong}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Shares of samples."""
    by = rows.drop(columns="seed").groupby("cell", sort=False)
    made = by.mean().round(4).rename_axis("prompts").reset_index()
    made.insert(1, "samples", by.size().to_numpy())
    return {"criteria": made}


STUDY = Study(("500",), replicate, tables, 500)
