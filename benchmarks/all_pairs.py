"""Predictions of all pairs of items: sums of rectangles against Booster.predict on stacked rows.

Both score the same contexts in turn, with as many threads, and the ratio of their times is taken within each turn.
Rows are stacked beforehand, outside the time. The ``wide`` setting has 102 features and 402 trees of 31 leaves;
``default`` is what dmlrank trains by itself on 12 features.

    python benchmarks/all_pairs.py --items 20 60
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import lightgbm as lgb
import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.nuisance.all_pairs.predict import PairTrees, predict_all_pairs
from dmlrank.nuisance.boosting.train import BoosterSpec, train_booster
from dmlrank.nuisance.boosting.tuning import Tune
from dmlrank.nuisance.training_rows import TrainingRows

N_CATEGORIES = 3
# Features and hyperparameters; the rounds make three trees each.
SETTINGS: dict[str, tuple[int, Tune]] = {
    "wide": (102, {"num_leaves": 31, "n_estimators": 134}),
    "default": (12, "cv"),
}
_ROWS = 200_000


def draw_labels(n: int, n_features: int, n_items: int, rng: np.random.Generator) -> TrainingRows:
    """Labels whose strengths depend on five features, with matchups, for one pair per context."""
    x = rng.normal(size=(n, n_features))
    first = rng.integers(n_items, size=n)
    second = (first + rng.integers(1, n_items, size=n)) % n_items
    strength, slope = rng.normal(size=n_items), rng.normal(size=(n_items, 5)) / 2
    matchup = rng.normal(size=(n_items, n_items)) * 0.3
    lead = strength[first] - strength[second] + (x[:, :5] * (slope[first] - slope[second])).sum(axis=1)
    lead += (matchup - matchup.T)[first, second] + 0.3
    scores = np.column_stack([lead / 2, -lead / 2, 0.2 * x[:, 6] - 0.3 * np.abs(lead)])
    label = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return TrainingRows(np.column_stack([x, first, second]), label, np.ones(n), np.arange(n))


def stacked_rows(x: np.ndarray, n_items: int) -> np.ndarray:
    """Rows [x, first, second] for all ordered pairs of every context."""
    first, second = np.nonzero(~np.eye(n_items, dtype=bool))
    return np.column_stack([np.repeat(x, len(first), axis=0), np.tile(first, len(x)), np.tile(second, len(x))])


def compare(
    booster: lgb.Booster, x: np.ndarray, n_items: int, threads: int, repeats: int
) -> dict[str, float | int | str]:
    """Median of the ratios, and of the milliseconds per context."""
    start = time.perf_counter()
    prepared = PairTrees.of(booster, n_items)
    preparation = time.perf_counter() - start
    rows, n_pairs = stacked_rows(x, n_items), n_items * (n_items - 1)
    off = ~np.eye(n_items, dtype=bool)
    turns = []
    for _ in range(repeats):
        start = time.perf_counter()
        parts = [booster.predict(rows[at : at + _ROWS], num_threads=threads) for at in range(0, len(rows), _ROWS)]
        middle = time.perf_counter()
        table = predict_all_pairs(prepared, x, n_items, n_jobs=threads)
        turns.append((middle - start, time.perf_counter() - middle))
    error = np.abs(table[:, off] - np.concatenate(parts).reshape(len(x), n_pairs, -1)).max()
    stacked, summed = np.median(turns, axis=0) / len(x) * 1000
    ratios = [one / other for one, other in turns]
    return {
        "K": n_items,
        "trees": booster.num_trees(),
        "contexts": len(x),
        "threads": threads,
        "Booster.predict, ms": round(stacked, 3),
        "all pairs, ms": round(summed, 3),
        "ratio": round(float(np.median(ratios)), 1),
        "lowest": round(min(ratios), 1),
        "highest": round(max(ratios), 1),
        "prepared in, ms": round(preparation * 1000),
        "largest difference": f"{error:.0e}",
    }


def main() -> int:
    """Print versions and one row per setting, number of items and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, nargs="+", default=[20, 60])
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, os.cpu_count() or 1}))
    parser.add_argument("--labels", type=int, default=4000)
    parser.add_argument("--rows", type=int, default=400_000, help="stacked rows, which settle the number of contexts")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    dr.show_versions()
    print(f"{os.cpu_count()} cores\n")
    results = []
    for setting in given.settings:
        n_features, tune = SETTINGS[setting]
        for n_items in given.items:
            rng = np.random.default_rng(0)
            rows = draw_labels(given.labels, n_features, n_items, rng)
            booster = train_booster(rows, BoosterSpec(N_CATEGORIES, n_items, tune, 1), rng)
            x = rng.normal(size=(max(1, given.rows // (n_items * (n_items - 1))), n_features))
            for threads in given.threads:
                results.append({"setting": setting} | compare(booster, x, n_items, threads, given.repeats))
                print(pd.DataFrame(results[-1:]).to_string(index=False, header=len(results) == 1), flush=True)
    print(f"\n{pd.DataFrame(results).set_index(['setting', 'K', 'threads']).to_string()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
