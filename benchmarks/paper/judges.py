"""Judges of six qualities [P fig:sim_judge]: error relative to the same learner without a judge."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import softmax

import dmlrank as dr
from dmlrank.options import in_objects

from .tables import Experiment
from .ways import DESCRIBED, FUNCTIONALS, contexts_of, figures, formula_of, options_of, truth_of, verdicts_on_all_pairs

NOISE = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# The paper states pi_p, eps_mu and pi_min; lambda_pi and pi_max are those of its other experiments.
SIMULATOR = dr.datasets.Ties(n_features=5, selection_strength=0.1, propensity_max=0.5)
CONTEXTS, _SMALL = 2000, 250
NO_JUDGE, NO_JUDGE_LIGHTGBM, FEATURES, TWO_STAGE = "no judge", "no judge, LightGBM", "features", "two-stage"


def tasks(seed: int, way: str) -> Iterator[tuple[Any, ...]]:
    """List the fits of a seed: without a judge, and with each judge."""
    yield seed, way, NO_JUDGE, ""
    if way != DESCRIBED:
        # By default, too, a judge among the features makes LightGBM alone the learner.
        yield seed, way, NO_JUDGE_LIGHTGBM, ""
    for noise in NOISE:
        yield seed, way, FEATURES, noise
        if way != DESCRIBED:
            yield seed, way, TWO_STAGE, noise


def judge_of(mu: NDArray[np.float64], noise: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return mu with normal noise on the logits, (n, K, K, C), NaN on the diagonal."""
    with np.errstate(divide="ignore"):
        logits = np.log(mu) + noise * rng.normal(size=mu.shape)
    items = np.arange(mu.shape[1])
    logits[:, items, items] = np.nan
    return np.asarray(softmax(logits, axis=-1))


def run(task: tuple[Any, ...], *, small: bool = False) -> list[dict[str, object]]:
    """Return the rows of a fit."""
    seed, way, how, noise = task
    fit = _fit_without_judge(seed, way, "lightgbm" if how == NO_JUDGE_LIGHTGBM else None, small)
    if how in (FEATURES, TWO_STAGE):
        fit = fit.update(**_judge_options(_battles(seed, small), seed, how, noise))
    rows = []
    for functional in FUNCTIONALS:
        truth = truth_of(SIMULATOR, functional, 20_000 if small else 1_000_000)
        rows.append(
            {"functional": functional} | figures(fit.update(functional=functional), truth, plain=way == DESCRIBED)
        )
    return rows


@lru_cache(maxsize=1)
def _battles(seed: int, small: bool) -> pd.DataFrame:
    """Return the sample of a seed, which all fits of the seed share."""
    return SIMULATOR.sample(_SMALL if small else CONTEXTS, rng=np.random.default_rng([seed, 2]))


@lru_cache(maxsize=2)
def _fit_without_judge(seed: int, way: str, learner: str | None, small: bool) -> dr.RankResults:
    """Return the fit without a judge, which a process computes once for all judges of a seed.

    A fit with a judge needs a fit of mu without one, too. Updating this fit with a judge reuses that mu, and gives the
    numbers of a new fit with the judge.
    """
    options = options_of(way, "collection", small=small)
    if learner is not None:
        options["learner"] = learner
    return dr.dml_rank(
        formula_of(SIMULATOR),
        _battles(seed, small),
        **in_objects({"context": "question_id", "propensity": "propensity", "rng": seed, "n_jobs": 1, **options}),
    )


def _judge_options(battles: pd.DataFrame, seed: int, how: str, noise: float) -> dict[str, object]:
    """Return the options about the judge; the noise of a seed does not depend on how the judge is used."""
    rng = np.random.default_rng([seed, 3, NOISE.index(noise)])
    judge = judge_of(SIMULATOR.mu(contexts_of(SIMULATOR, battles)), noise, rng)
    return {"judge": verdicts_on_all_pairs(SIMULATOR, battles, judge), "judge_as": how}


EXPERIMENT = Experiment("judges", ("seed", "way", "judge", "noise"), ("functional", "mse", "covers"), 100, tasks, run)
