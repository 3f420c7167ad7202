"""Projection, plug-in and restricted estimator while the data depart from Bradley-Terry [P fig:sim_bt_misspec]."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

import dmlrank as dr
from dmlrank.options import in_objects

from .tables import Experiment
from .ways import DEFAULT, contexts_of, formula_of, options_of, truth_of

FloatArray = NDArray[np.float64]

GAMMAS = tuple(0.5 * step for step in range(9))
CONTEXTS, _SMALL = 2000, 250
DRAWS = (0, 5)
ESTIMATORS = ("plugin", "projection", "restricted", "restricted, the paper's")
HALF = "restricted, half of the paper's correction"


def tasks(seed: int, way: str) -> Iterator[tuple[Any, ...]]:
    """List the samples of a seed: a gamma each, for one draw of coefficients as described."""
    for draw in DRAWS if way == DEFAULT else DRAWS[:1]:
        for gamma in GAMMAS:
            yield seed, way, draw, gamma


def run(task: tuple[Any, ...], *, small: bool = False) -> list[dict[str, object]]:
    """Return the rows of a sample, an estimator each."""
    seed, way, draw, gamma = task
    sample = _Sample(seed, way, draw, gamma, small)
    restricted = sample.restricted
    errors = {"projection": sample.free.bse, "restricted": restricted.bse}
    pvalue = restricted.restriction_test().pvalue
    return [
        {
            "estimator": name,
            "mse": _mean_square(estimate - sample.truth),
            "covers_share": f"{float(((estimate - sample.truth).abs() <= 1.959964 * errors[name]).mean()):.4g}"
            if name in errors
            else "",
            "rejected": int(pvalue < 0.05) if name == "restricted" else "",
        }
        for name, estimate in sample.estimates().items()
    ]


def shrinkage_tasks(seed: int, way: str) -> Iterator[tuple[Any, ...]]:
    """List the samples of a seed in which the Bradley-Terry model holds."""
    for draw in DRAWS if way == DEFAULT else DRAWS[:1]:
        yield seed, way, draw


def shrinkage_run(task: tuple[Any, ...], *, small: bool = False) -> list[dict[str, object]]:
    """Return the rows of a sample at gamma = 0, an estimator each: its error, and how far it shrinks the scores.

    The slope is that of the least-squares line without intercept from true to estimated scores. It is 1 where the
    scores are not shrunk.
    """
    seed, way, draw = task
    sample = _Sample(seed, way, draw, 0.0, small)
    half = paper_restricted(sample.free, sample.battles, sample.pi, share=0.5)
    estimates = sample.estimates() | {HALF: half}
    return [
        {
            "estimator": name,
            "slope": f"{float((estimate * sample.truth).sum() / (sample.truth**2).sum()):.5g}",
            "mse": _mean_square(estimate - sample.truth),
        }
        for name, estimate in estimates.items()
    ]


def _mean_square(errors: pd.Series) -> str:
    return f"{float((errors**2).mean()):.5g}"


class _Sample:
    """A sample with its propensities (n, K, K), its fit of the projection, and the true scores."""

    def __init__(self, seed: int, way: str, draw: int, gamma: float, small: bool) -> None:
        simulator = dr.datasets.Bt(draw, gamma=gamma)
        self.battles = simulator.sample(_SMALL if small else CONTEXTS, rng=np.random.default_rng([seed, 8]))
        self.pi = simulator.propensity(contexts_of(simulator, self.battles))
        self.free = dr.dml_rank(
            formula_of(simulator),
            self.battles,
            **in_objects(
                {
                    "functional": "bt",
                    "context": "question_id",
                    "propensity": self.pi,
                    "rng": seed,
                    "n_jobs": 1,
                    **options_of(way, "debiasing", small=small),
                }
            ),
        )
        self.truth = truth_of(simulator, "bt", 20_000 if small else 1_000_000)

    @cached_property
    def restricted(self) -> dr.RankResults:
        """The fit that assumes Bradley-Terry, with the package's factor."""
        return self.free.update(estimator="bt_restricted")

    def estimates(self) -> dict[str, pd.Series]:
        """Return the scores by estimator."""
        with_papers_factor = paper_restricted(self.free, self.battles, self.pi)
        scores = (self.free.estimates.plugin, self.free.params, self.restricted.params, with_papers_factor)
        return dict(zip(ESTIMATORS, scores, strict=True))


def paper_restricted(free: dr.RankResults, battles: pd.DataFrame, pi: FloatArray, share: float = 1.0) -> pd.Series:
    """Return the paper's restricted estimate [P eq:theta_hat_bt_app] from the first stages of a fit.

    free: Fit of the projection, with out-of-fold mu.
    battles: The sample; contexts are numbered in order.
    pi (n, K, K): Propensities of the ordered pairs.
    share: How much of the paper's correction of the plug-in scores is added.
    """
    score = free.predict().to_numpy()
    fitted = expit(score[:, :, None] - score[:, None, :])
    # The Laplacian sums over unordered pairs, each once.
    weight = fitted * (1 - fitted) * ~np.eye(score.shape[1], dtype=bool)
    laplacian = -weight
    items = np.arange(score.shape[1])
    laplacian[:, items, items] += weight.sum(axis=2)
    inverse = np.linalg.pinv(laplacian)
    steps, floor = free.steps, free.diagnostics.floor
    cells = steps.data.cells
    i = steps.data.context_ids[cells.context].astype(int)
    first, second = cells.first, cells.second
    probability = np.clip(steps.first.one_step_result.cell_mu[:, 0], floor, 1 - floor)
    residual = (cells.y[:, 0] - probability) / pi[i, first, second]
    correction = (inverse[i, :, first] - inverse[i, :, second]) * residual[:, None]
    return pd.Series(score.mean(axis=0) + share * correction.sum(axis=0) / len(score), free.models)


EXPERIMENT = Experiment(
    "misspecification",
    ("seed", "way", "draw", "gamma"),
    ("estimator", "mse", "covers_share", "rejected"),
    30,
    tasks,
    run,
)
SHRINKAGE = Experiment(
    "shrinkage", ("seed", "way", "draw"), ("estimator", "slope", "mse"), 30, shrinkage_tasks, shrinkage_run
)
