"""Debiased against plug-in estimates of three functionals [P tab:debiasing]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import dmlrank as dr
from dmlrank.options import in_objects

from .tables import Experiment
from .ways import DESCRIBED, FUNCTIONALS, figures, formula_of, options_of, truth_of

# Draws of coefficients; the paper does not name its own. True BT scores span 1.7 with 0 and 2.4 with 5.
DRAWS = (0, 5)
SIZES = (1000, 2000, 3000)
# What the paper leaves open, in fewer seeds: more draws, five features as in its text, five folds, estimated pi.
VARIANTS = ("", "five features", "five folds", "estimated propensities")
_SMALL = 200


def tasks(seed: int, way: str) -> Iterator[tuple[Any, ...]]:
    """List the samples of a seed."""
    for n in SIZES:
        for draw in DRAWS:
            yield seed, way, "", draw, n


def variant_tasks(seed: int, way: str) -> Iterator[tuple[Any, ...]]:
    """List the samples of a seed in which one of the open choices is another one, at the smallest size."""
    for variant in VARIANTS[1:]:
        for draw in DRAWS:
            if way == DESCRIBED or variant != "five folds":
                yield seed, way, variant, draw, SIZES[0]
    for draw in (1, 2, 3, 4):
        yield seed, way, "", draw, SIZES[0]


def simulator_of(variant: str, draw: int) -> dr.datasets.Ties:
    """Return the simulator of the experiment."""
    return dr.datasets.Ties(coefficients=draw, n_features=5 if variant == "five features" else 2)


def run(task: tuple[Any, ...], *, small: bool = False) -> list[dict[str, object]]:
    """Return the rows of a sample: functionals and estimators."""
    seed, way, variant, draw, n = task
    simulator = simulator_of(variant, draw)
    battles = simulator.sample(_SMALL if small else n, rng=np.random.default_rng([seed, 1]))
    fit = dr.dml_rank(
        formula_of(simulator),
        battles,
        **in_objects(
            {
                "context": "question_id",
                "propensity": "estimate" if variant == "estimated propensities" else "propensity",
                "rng": seed,
                "n_jobs": 1,
                **options_of(way, "debiasing", folds=5 if variant == "five folds" else 2, small=small),
            }
        ),
    )
    return list(_rows(fit, simulator, way, n_truth=20_000 if small else 1_000_000))


def _rows(fit: dr.RankResults, simulator: dr.datasets.Ties, way: str, n_truth: int) -> Iterator[dict[str, object]]:
    for functional in FUNCTIONALS:
        truth = truth_of(simulator, functional, n_truth)
        for estimator in ("debiased", "plugin"):
            changed = fit.update(functional=functional, estimator=estimator)
            plain = way == DESCRIBED or estimator == "plugin"
            yield {"functional": functional, "estimator": estimator} | figures(changed, truth, plain=plain)


COLUMNS = ("functional", "estimator", "mse", "covers")
EXPERIMENT = Experiment("debiasing", ("seed", "way", "variant", "draw", "n"), COLUMNS, 100, tasks, run)
OPEN_CHOICES = Experiment("debiasing_choices", EXPERIMENT.key, COLUMNS, 20, variant_tasks, run)
