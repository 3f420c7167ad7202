"""How often do slopes on style that cannot be estimated give a warning or an error, and how often do harmless ones?

Log-odds are gaps of models that depend on a feature, plus slope times style. Style is a smooth function of model and
feature plus noise; ``noise`` is the standard deviation of the noise. In the case "decides" the sign of style decides.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import expit

import dmlrank as dr
from dmlrank.exceptions import DataError

from .runner import Row, Study

HARMLESS = {
    "slope 0": {"slope": 0.0},
    "slope 0.5": {"slope": 0.5},
    "slope 1": {},
    "slope 1, 400 votes": {"n": 400},
    "slope 1, 6,000 votes": {"n": 6000},
    "slope 1, 8 models": {"n_models": 8, "gap": 0.25},
    "slope 1, strong models": {"gap": 1.0},
    "slope 1, noise 0.3": {"noise": 0.3},
    "slope 2": {"slope": 2.0},
}
HARMFUL = {
    "slope 3": {"slope": 3.0},
    "slope 4": {"slope": 4.0},
    "slope 8": {"slope": 8.0},
    "slope 20": {"slope": 20.0},
    "decides": {"slope": np.inf},
    "noise 0.05": {"noise": 0.05},
    "determined by model and feature": {"noise": 0.0},
    "determined, 400 votes": {"noise": 0.0, "n": 400},
    "determined, 6,000 votes": {"noise": 0.0, "n": 6000},
}
COUNTED = ["refused", "warned", "silent", "covers", "silent_and_wrong"]


def sample(seed: int, slope=1.0, n=1500, n_models=4, noise=1.0, gap=0.5) -> pd.DataFrame:
    """Battles with one style column."""
    rng = np.random.default_rng(seed)
    first = rng.integers(n_models, size=n)
    second = (first + rng.integers(1, n_models, size=n)) % n_models
    x = rng.normal(size=n)
    style_of = [0.5 * np.sin(x * (model + 1) / 2) + 0.3 * model for model in (first, second)]
    style = style_of[0] - style_of[1] + noise * rng.normal(size=n)
    log_odds = gap * (first - second) * (1 + 0.3 * x) + (0 if np.isinf(slope) else slope) * style
    wins = style > 0 if np.isinf(slope) else rng.uniform(size=n) < expit(log_odds)
    names, winner = np.array([f"m{model}" for model in range(n_models)]), np.where(wins, "model_a", "model_b")
    return pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": winner, "x": x, "style": style})


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """What a fit to one sample says about the slope."""
    case = (HARMLESS | HARMFUL)[cell]
    options = {"functional": "bt", "adjust": "~ style", "propensity": "marginal", "position_bias": False}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fit = dr.dml_rank("winner ~ x | model_a + model_b", sample(seed, **case), **options, rng=seed, n_jobs=1)
        except DataError:
            yield {"refused": 1, "warned": 0, "silent": 0}
            return
    warned = any("style column" in str(one.message) for one in caught)
    error, se = fit.style.params.item() - case.get("slope", 1.0), fit.style.bse.item()
    hit = abs(error) <= 1.959964 * se
    yield {
        **{"refused": 0, "warned": int(warned), "silent": int(not warned), "covers": int(hit)},
        **{"silent_and_wrong": int(not (warned or hit)), "error": error, "se": se},
    }


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Counts by case; no count of coverage where every fit was refused."""
    by = rows.reindex(columns=["cell", *COUNTED, "error", "se"]).groupby("cell", sort=False)
    counts = by[COUNTED].sum(min_count=1).astype("Int64")
    means = by[["error", "se"]].mean().round(3).add_prefix("mean_")
    made = pd.concat([counts, means], axis=1).reset_index(names="case")
    made.insert(1, "samples", by.size().to_numpy())
    made.insert(0, "kind", ["harmless" if case in HARMLESS else "harmful" for case in made["case"]])
    return {"style_limits": made}


STUDY = Study((*HARMLESS, *HARMFUL), replicate, tables, 25)
