"""Estimated propensities against the true ones: items' effects and trees, one booster over pairs, and pair frequencies.

Every context shows one ordered pair, drawn from known propensities. Estimates are cross-fitted, floored and scaled as
in a fit; the figure is the root mean squared error of their logs at the pairs shown, with the seconds of CPU time. What
the true propensities have after scaling is the error that scaling to a weight of one by pair brings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import EvalEnvironment

from dmlrank.data.preferences import PreferenceData
from dmlrank.data.read_votes import preferences_of, take_rows
from dmlrank.nuisance.all_pairs.predict import PairTrees
from dmlrank.nuisance.propensity_model.estimate import (
    AnyLabelModel,
    BoostedPropensity,
    estimate_propensity,
    floored_and_scaled,
    marginal_propensity,
    pair_boosters,
)
from dmlrank.nuisance.training_rows import Folds
from dmlrank.options import Options

from .runner import Row, Study, rmse

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Setting:
    """How pairs are drawn: contexts, features, items, and logs of the ordered pairs' rates, (n, K, K)."""

    n: int
    n_features: int
    n_items: int
    log_rates: Callable[[FloatArray, np.random.Generator, int], FloatArray]
    n_folds: int = 5


def _lines(x: FloatArray, rng: np.random.Generator, n_items: int) -> FloatArray:
    return _of_items(0.3 * rng.normal(size=n_items) + 0.3 * x[:, :2] @ rng.normal(size=(2, n_items)))


def _steep(x: FloatArray, rng: np.random.Generator, n_items: int) -> FloatArray:
    return _of_items(0.3 * rng.normal(size=n_items) + 0.8 * x[:, :2] @ rng.normal(size=(2, n_items)))


def _signs(x: FloatArray, rng: np.random.Generator, n_items: int) -> FloatArray:
    return _of_items(0.3 * rng.normal(size=n_items) + 0.8 * np.sign(x[:, :1] * x[:, 1:2]) * rng.normal(size=n_items))


def _pairs(x: FloatArray, rng: np.random.Generator, n_items: int) -> FloatArray:
    return 0.8 * rng.normal(size=(n_items, n_items)) * (x[:, 0] > 0)[:, None, None]


def _nothing(x: FloatArray, rng: np.random.Generator, n_items: int) -> FloatArray:
    return _of_items(np.tile(0.3 * rng.normal(size=n_items), (len(x), 1)))


def _of_items(log_rate: FloatArray) -> FloatArray:
    return np.asarray(log_rate[:, :, None] + log_rate[:, None, :])


SETTINGS = {
    "4,000 prompts, 102 features, 20 models": Setting(4000, 102, 20, _lines, 2),
    "3,000 prompts, 6 features, 6 models: straight lines": Setting(3000, 6, 6, _steep),
    "signs of a product of two features": Setting(3000, 6, 6, _signs),
    "every pair by itself, at a threshold": Setting(3000, 6, 6, _pairs),
    "features say nothing": Setting(3000, 6, 6, _nothing),
}


def draw(setting: Setting, seed: int) -> tuple[PreferenceData, FloatArray]:
    """Data, and the true propensities of the pairs shown, (n,)."""
    rng = np.random.default_rng(seed)
    n, n_items = setting.n, setting.n_items
    x = rng.normal(size=(n, setting.n_features))
    table = np.exp(setting.log_rates(x, rng, n_items))
    table[:, np.arange(n_items), np.arange(n_items)] = 0.0
    table /= table.sum(axis=(1, 2), keepdims=True)
    pair = (table.reshape(n, -1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    names = np.array([f"m{j:03d}" for j in range(n_items)])
    frame = pd.DataFrame(x, columns=[f"f{f}" for f in range(x.shape[1])])
    frame = frame.assign(
        model_a=names[pair // n_items],
        model_b=names[pair % n_items],
        winner=np.where(rng.random(n) < 0.5, "model_a", "model_b"),
    )
    formula = f"winner ~ {' + '.join(f'f{f}' for f in range(x.shape[1]))} | model_a + model_b"
    data = preferences_of(take_rows(formula, frame, EvalEnvironment([{}]), Options.of({})))
    return data, table.reshape(n, -1)[np.arange(n), pair]


def boosted(data: PreferenceData, folds: Folds, seeds: list[np.random.SeedSequence]) -> FloatArray:
    """One binary booster over rows [x, first, second] per fold, normalised over pairs."""
    rngs = [np.random.default_rng(seed) for seed in seeds]
    made = np.empty(data.n_contexts)
    for f, booster in enumerate(pair_boosters(data, folds, rngs, "cv")):
        here = folds.fold == f
        selection = BoostedPropensity(PairTrees.of(booster, data.n_items), AnyLabelModel(1.0), True)
        first, second = (items[here] for items in data.cells.in_display_order)
        made[here] = selection.at(data.x[here], first, second, data.n_items)
    return floored_and_scaled(made, data).cells


def replicate(cell: str, seed: int) -> Iterator[Row]:
    """Errors and seconds of each way of estimating."""
    setting = SETTINGS[cell]
    data, truth = draw(setting, seed)
    fold = np.random.default_rng(seed).permutation(np.arange(setting.n) % setting.n_folds)
    folds, seeds = Folds(fold, data.seed_order, setting.n_folds), np.random.SeedSequence(seed)
    ways = {
        "effects, trees": lambda: estimate_propensity(data, folds, seeds.spawn(setting.n_folds), tune="cv").cells,
        "one booster": lambda: boosted(data, folds, seeds.spawn(setting.n_folds)),
        "pair frequencies": lambda: marginal_propensity(data).cells,
        "true pi, scaled": lambda: floored_and_scaled(truth.copy(), data).cells,
    }
    for way, make in ways.items():
        start = time.process_time()
        yield {"way": way, "rmse": rmse(np.log(make() / truth)), "seconds": time.process_time() - start}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means over seeds; seconds of what is learnt."""
    means = rows.groupby(["cell", "way"], sort=False)[["rmse", "seconds"]].mean()
    text = [
        f"{error:.3f}, {seconds:.2f}" if way in ("effects, trees", "one booster") else f"{error:.3f}"
        for (_, way), (error, seconds) in means.iterrows()
    ]
    made = pd.Series(text, means.index).unstack()[list(dict.fromkeys(rows["way"]))]
    return {"propensities": made.loc[list(dict.fromkeys(rows["cell"]))].rename_axis("RMSE, CPU seconds").reset_index()}


STUDY = Study((*list(SETTINGS)[1:], *list(SETTINGS)[:1]), replicate, tables, 3)
