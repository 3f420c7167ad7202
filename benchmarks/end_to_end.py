"""A whole fit against the pipeline as the paper describes it: time, and out-of-fold log-loss.

The described pipeline is written out plainly here: LightGBM for mu and pi, each tuned in every fold by a random search
(2 draws from the paper's grid, scored on 3 inner folds), prediction of all ordered pairs from stacked rows in batches,
then the debiased Bradley-Terry projection. It begins with arrays; dmlrank begins with a data frame and has made its
summary when the clock stops. Both run one after the other on the same labels, and the ratio is taken within each seed.
The cost of the described pipeline depends on the configurations that it happens to draw, hence several seeds. On a
machine that others use as well, ``--threads 1`` and the ratio of CPU time are to be trusted.

    python -m benchmarks.end_to_end --seeds 0 1 2

Reference: Frauen, Deviyani, van der Schaar and Feuerriegel, arXiv 2601.21816, appendix on nuisance estimation.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dmlrank as dr
from benchmarks import growth
from dmlrank.exceptions import DmlrankWarning
from dmlrank.nuisance.boosting import GRIDS, Grid

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

N_CATEGORIES = 3
LABELS = np.array(["model_a", "model_b", "tie"])
N_FOLDS, FLOOR = 2, 0.005
_DRAWS, _INNER_FOLDS, _NEGATIVES = 2, 3, 10
ROWS_AT_ONCE = 200_000
# The paper's grid for real data.
_GRID = GRIDS["real"]


@dataclass(frozen=True, slots=True, eq=False)
class Battles:
    """A leaderboard's table with one labelled ordered pair per context, and its arrays.

    Features x (n, p), items first and second (n,) and category label (n,).
    """

    frame: pd.DataFrame
    x: FloatArray
    first: IntArray
    second: IntArray
    label: IntArray
    n_items: int

    @property
    def formula(self) -> str:
        """All features, and the two items."""
        return f"winner ~ {' + '.join(f'f{f}' for f in range(self.x.shape[1]))} | model_a + model_b"


def draw_battles(n: int, n_features: int, n_items: int, seed: int) -> Battles:
    """Votes with ties whose strengths, and who is shown, depend on the features."""
    frame = growth.draw_battles(growth.Setting(n, n_items, n_features), np.random.default_rng(seed))
    frame["winner"] = frame["winner"].replace({"both_good": "tie", "both_bad": "tie"})
    names = sorted({*frame["model_a"], *frame["model_b"]})
    first, second = (pd.Categorical(frame[side], names).codes.astype(np.intp) for side in ("model_a", "model_b"))
    label = pd.Categorical(frame["winner"], LABELS).codes.astype(np.intp)
    return Battles(frame, frame.filter(regex="^f").to_numpy(), first, second, label, len(names))


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRows:
    """Rows of a classifier: features (m, p + 2) with the items last, label (m,), context (m,), weight (m,) or None."""

    features: FloatArray
    label: IntArray
    context: IntArray
    weight: FloatArray | None = None

    def part(self, kept: NDArray[np.bool_]) -> TrainingRows:
        """Some of the rows."""
        own = None if self.weight is None else self.weight[kept]
        return TrainingRows(self.features[kept], self.label[kept], self.context[kept], own)

    def dataset(self) -> lgb.Dataset:
        """The rows as LightGBM takes them, the items as categories."""
        n = self.features.shape[1]
        return lgb.Dataset(self.features, self.label, weight=self.weight, categorical_feature=[n - 2, n - 1])


@dataclass(frozen=True, slots=True, eq=False)
class Described:
    """What the described pipeline makes: probabilities of all pairs (n, K, K, C), propensities (n,), scores (K,)."""

    mu: FloatArray
    propensity: FloatArray
    scores: FloatArray
    std_errors: FloatArray
    log_loss: float


def described_pipeline(battles: Battles, rng: np.random.Generator, threads: int, grid: Grid = _GRID) -> Described:
    """The paper's two-stage estimator, step by step."""
    n, n_items = len(battles.x), battles.n_items
    fold = rng.permutation(np.arange(n) % N_FOLDS)
    mu = np.zeros((n, n_items, n_items, N_CATEGORIES))
    propensity = np.empty(n)
    for f in range(N_FOLDS):
        learned, held = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        features = _rows(battles.x[learned], battles.first[learned], battles.second[learned])
        rows = TrainingRows(features, battles.label[learned], learned)
        multiclass = {"objective": "multiclass", "num_class": N_CATEGORIES, "num_threads": threads}
        outcome = _tuned(rows, multiclass, grid, rng)
        mu[held] = stacked_probabilities(outcome, battles.x[held], n_items, threads)
        binary = {"objective": "binary", "num_threads": threads}
        selection = _tuned(_selection_rows(battles, learned, rng), binary, grid, rng)
        shown = _rows(battles.x[held], battles.first[held], battles.second[held])
        propensity[held] = np.asarray(selection.predict(shown, num_threads=threads))
    at = (np.arange(n), battles.first, battles.second)
    log_loss = -float(np.log(mu[(*at, battles.label)]).mean())
    influence = bradley_terry_influence(mu, battles, propensity)
    return Described(mu, propensity, influence.mean(axis=0), influence.std(axis=0) / np.sqrt(n), log_loss)


def stacked_probabilities(
    booster: lgb.Booster, x: FloatArray, n_items: int, threads: int, rows_at_once: int = ROWS_AT_ONCE
) -> FloatArray:
    """Probabilities of every ordered pair, (n, K, K, C), in batches of stacked rows."""
    first, second = np.nonzero(~np.eye(n_items, dtype=bool))
    table = np.zeros((len(x), n_items, n_items, N_CATEGORIES))
    step = max(1, rows_at_once // len(first))
    for at in range(0, len(x), step):
        part = x[at : at + step]
        rows = _rows(np.repeat(part, len(first), axis=0), np.tile(first, len(part)), np.tile(second, len(part)))
        values = np.asarray(booster.predict(rows, num_threads=threads))
        table[at : at + step, first, second] = values.reshape(len(part), len(first), -1)
    return table


def bradley_terry_influence(mu: FloatArray, battles: Battles, propensity: FloatArray) -> FloatArray:
    """F(mu) + its derivative along S / pi (Y - mu), (n, K), on the complete graph with ties one half."""
    mu = np.maximum(mu, FLOOR)
    mu = mu / mu.sum(axis=-1, keepdims=True)
    share = mu[..., 0] + mu[..., 2] / 2
    log_odds = np.log(share / (1 - share))
    edge = (log_odds - np.swapaxes(log_odds, 1, 2)) / 2
    edge[:, np.arange(battles.n_items), np.arange(battles.n_items)] = 0.0
    scores = edge.sum(axis=2) / battles.n_items
    n = np.arange(len(mu))
    won = np.array([1.0, 0.0, 0.5])[battles.label]
    own = share[n, battles.first, battles.second]
    pull = (won - own) / propensity / (own * (1 - own)) / 2 / battles.n_items
    np.add.at(scores, (n, battles.first), pull)
    np.add.at(scores, (n, battles.second), -pull)
    return scores


def _rows(x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
    return np.column_stack([x, first, second])


def _selection_rows(battles: Battles, kept: IntArray, rng: np.random.Generator) -> TrainingRows:
    """Labelled pairs and sampled others of the kept contexts; the label says whether the pair was labelled."""
    n_items, n = battles.n_items, len(kept)
    drawn = np.repeat(kept, _NEGATIVES)
    first = rng.integers(n_items, size=len(drawn))
    second = (first + rng.integers(1, n_items, size=len(drawn))) % n_items
    free = (first != battles.first[drawn]) | (second != battles.second[drawn])
    drawn, first, second = drawn[free], first[free], second[free]
    context = np.concatenate([kept, drawn])
    rows = _rows(
        battles.x[context], np.concatenate([battles.first[kept], first]), np.concatenate([battles.second[kept], second])
    )
    weight = np.ones(len(context))
    weight[n:] = n * (n_items * (n_items - 1) - 1) / len(drawn)
    return TrainingRows(rows, (np.arange(len(context)) < n).astype(np.intp), context, weight)


def _tuned(rows: TrainingRows, options: dict[str, Any], grid: Grid, rng: np.random.Generator) -> lgb.Booster:
    """Random search scored by log-loss on inner folds of contexts, then a fit to all rows."""
    fixed = {**options, "verbosity": -1, "bagging_freq": 1, "seed": int(rng.integers(2**31 - 1))}
    contexts, place = np.unique(rows.context, return_inverse=True)
    inner = rng.permutation(np.arange(len(contexts)) % _INNER_FOLDS)[place]
    trials = [{name: values[rng.integers(len(values))] for name, values in grid.items()} for _ in range(_DRAWS)]

    def trained(trial: dict[str, Any], on: TrainingRows) -> lgb.Booster:
        with warnings.catch_warnings():
            # LightGBM notes that the number of rounds stands among the parameters.
            warnings.simplefilter("ignore", UserWarning)
            return lgb.train({**fixed, **trial}, on.dataset())

    def loss(trial: dict[str, Any]) -> float:
        total = 0.0
        for f in range(_INNER_FOLDS):
            held = rows.part(inner == f)
            booster = trained(trial, rows.part(inner != f))
            predicted = np.asarray(booster.predict(held.features, num_threads=options["num_threads"]))
            both = predicted if predicted.ndim == 2 else np.column_stack([1 - predicted, predicted])
            own = np.ones(len(both)) if held.weight is None else held.weight
            total -= float(own @ np.log(np.maximum(both[np.arange(len(both)), held.label], 1e-15)))
        return total

    return trained(min(trials, key=loss), rows)


def compare(battles: Battles, seed: int, threads: int, grid: Grid = _GRID) -> dict[str, float | int]:
    """Seconds (wall clock and of all cores), log-losses, and the ratio of the times."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        start = time.perf_counter(), time.process_time()
        fit = dr.dml_rank(
            battles.formula,
            battles.frame,
            functional="bt",
            pairs=dr.Pairs(graph="complete"),
            learning=dr.Learning(n_folds=N_FOLDS),
            rng=seed,
            n_jobs=threads,
        )
        fit.summary().as_text()
        middle = time.perf_counter(), time.process_time()
    described = described_pipeline(battles, np.random.default_rng(seed), threads, grid)
    end = time.perf_counter(), time.process_time()
    own, other = np.subtract(middle, start), np.subtract(end, middle)
    return {
        "seed": seed,
        "described, s": round(float(other[0]), 1),
        "dmlrank, s": round(float(own[0]), 2),
        "ratio": round(float(other[0] / own[0]), 1),
        "ratio of CPU time": round(float(other[1] / own[1]), 1),
        "log-loss, described": round(described.log_loss, 4),
        "log-loss, dmlrank": round(fit.diagnostics.log_loss, 4),
        "std err, described": round(float(described.std_errors.mean()), 4),
        "std err, dmlrank": round(float(fit.bse.mean()), 4),
    }


def main() -> int:
    """Print versions and one row per seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--contexts", type=int, default=4000)
    parser.add_argument("--features", type=int, default=102)
    parser.add_argument("--items", type=int, default=20)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    dr.show_versions()
    print(f"{os.cpu_count()} cores, {given.threads} threads\n")
    results = []
    for seed in given.seeds:
        battles = draw_battles(given.contexts, given.features, given.items, seed)
        results.append(compare(battles, seed, given.threads))
        print(pd.DataFrame(results[-1:]).T.to_string(header=False), "\n", flush=True)
    print(pd.DataFrame(results).set_index("seed").T.to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main())
