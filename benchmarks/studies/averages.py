"""Averages of scores and scores of mean preferences: do the intervals cover, and how large is the error?

Every replication fits the mean of scores, E F(mu(X)), and the score of mean preferences, F(E mu(X)), each against its
own true value. The fit without features, ``~ 1``, has the same target as mean preferences, but known propensities alone
adjust it for who was compared on which prompts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd

import dmlrank as dr
from benchmarks.scenarios import scenarios
from dmlrank.functionals import BradleyTerry, CategoryWeights, Dominance, RankCentrality
from dmlrank.options import in_objects

from .runner import Row, Study, covers, share

CELLS = (
    *("ties-0-1000", "ties-5-1000", "ties-9-1000", "binary", "no minimum mass", "98 noise features"),
    "five features",
)
FUNCTIONALS = {"bt": BradleyTerry, "rank_centrality": RankCentrality, "dominance": Dominance}


@cache
def truths(name: str, chunks: int = 20) -> dict[tuple[str, str], pd.Series]:
    """True scores of a scenario by functional and by what is averaged, from chunks of 20,000 contexts."""
    scenario, rng = scenarios()[name], np.random.default_rng(0)
    weights, models = CategoryWeights.half(scenario.categories), scenario.base.models
    bound = {key: kind().bind(weights, scenario.compared) for key, kind in FUNCTIONALS.items()}
    mean, scores = 0.0, dict.fromkeys(FUNCTIONALS, 0.0)
    for _ in range(chunks):
        mu = scenario.mu(scenario.features(20_000, rng))
        mean = mean + mu.mean(axis=0) / chunks
        for key, functional in bound.items():
            scores[key] = scores[key] + functional.value(mu).mean(axis=0) / chunks
    found = {(key, "scores"): pd.Series(scores[key], models) for key in bound}
    return found | {
        (key, "preferences"): pd.Series(f.value(np.asarray(mean)[None])[0], models) for key, f in bound.items()
    }


def replicate(cell: str, seed: int, chunks: int = 20) -> Iterator[Row]:
    """Fit one data set: a row per functional, average and formula."""
    scenario = scenarios()[cell]
    draw = scenario.draw(seed)
    options = in_objects({"propensity": "propensity", **draw.options, "rng": seed, "n_jobs": 1})
    plain = f"winner ~ 1 | {scenario.formula.split('|')[1]}"
    fits = {
        "yes": dr.dml_rank(scenario.formula, draw.frame, **options),
        "no": dr.dml_rank(plain, draw.frame, **options),
    }
    for functional in FUNCTIONALS:
        for features, average in (("yes", "scores"), ("yes", "preferences"), ("no", "preferences")):
            fit = fits[features].update(functional=functional, average=average)
            truth, limits = truths(cell, chunks)[functional, average], fit.conf_int()
            yield {
                **{"functional": functional, "average": average, "features": features, "covers": covers(fit, truth)},
                "mse": ((fit.params - truth) ** 2).mean(),
                "bias": (fit.params - truth)[truth.idxmax()],
                "half": (limits["upper"] - limits["lower"]).mean() / 2,
            }


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Coverage and errors by scenario, functional, average and formula."""
    made = []
    for (cell, *keys), part in rows.groupby(["cell", "functional", "average", "features"], sort=False):
        error, bias, half = f"{np.sqrt(part['mse'].mean()):.3g}", f"{part['bias'].mean():+.3f}", part["half"].mean()
        made.append((cell, *keys, len(part), share(part["covers"]), error, bias, f"{half:.3g}"))
    columns = ["scenario", "functional", "average", "features", "samples", "joint coverage, 99 % limits"]
    columns += ["root mean squared error", "bias of the best model", "half-width"]
    return {"averages": pd.DataFrame(made, columns=columns)}


STUDY = Study(CELLS, replicate, tables, 100, {"chunks": 1})
