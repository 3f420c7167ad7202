"""Predictions of all pairs of items: sums of rectangles against Booster.predict on stacked rows.

Both score contexts in turn, with as many threads, and the ratio of their times per context is taken within each turn.
``Booster.predict`` scores the first contexts only, as many as ``--rows`` stacked rows hold. The rows are stacked
beforehand, outside the time. The ``wide`` setting has 102 features and 402 trees of 31 leaves;
``missing`` has 50 features, of whose values 2 % are missing, and 450 trees of 31 leaves, trained on 20,000 labels
instead of 4,000; ``default`` is what dmlrank trains by itself on 12 features.
``with preparation`` is the ratio if the trees are prepared in every turn. All contexts are one table in memory, which
the system provides within the time.

    python -m benchmarks.all_pairs --items 20 60
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pandas as pd

import dmlrank as dr
from benchmarks.end_to_end import draw_battles
from dmlrank._utils.tasks_and_threads import computing_with, one_thread
from dmlrank.nuisance.all_pairs.predict import PairTrees, predict_all_pairs
from dmlrank.nuisance.boosting import BinnedRows, Tune, train_booster
from dmlrank.nuisance.training_rows import TrainingRows

N_CATEGORIES = 3
# Labels, features, share of missing values and hyperparameters; the rounds make three trees each.
SETTINGS: dict[str, tuple[int, int, float, Tune]] = {
    "wide": (4_000, 102, 0.0, {"num_leaves": 31, "n_estimators": 134}),
    "missing": (20_000, 50, 0.02, {"num_leaves": 31, "n_estimators": 150}),
    "default": (4_000, 12, 0.0, "cv"),
}
# Stacked rows that are scored in one call.
_ROWS = 200_000


def draw_labels(n: int, n_features: int, n_items: int, seed: int) -> TrainingRows:
    """Labels whose strengths depend on five features, for one pair per context."""
    battles = draw_battles(n, n_features, n_items, seed)
    return TrainingRows(
        np.column_stack([battles.x, battles.first, battles.second]), battles.label, np.ones(n), np.arange(n)
    )


def remove_values(x: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Replace a random share of the values by NaN."""
    return np.where(rng.random(x.shape) < share, np.nan, x)


def stacked_rows(x: np.ndarray, n_items: int) -> np.ndarray:
    """Rows [x, first, second] for all ordered pairs of every context."""
    first, second = np.nonzero(~np.eye(n_items, dtype=bool))
    return np.column_stack([np.repeat(x, len(first), axis=0), np.tile(first, len(x)), np.tile(second, len(x))])


def compare(
    booster: lgb.Booster, x: np.ndarray, n_items: int, *, n_stacked: int, threads: int, repeats: int
) -> dict[str, float | int | str]:
    """Return medians of ratios and of milliseconds per context; ``n_stacked`` contexts are predicted by rows."""
    rows, n_pairs = stacked_rows(x[:n_stacked], n_items), n_items * (n_items - 1)
    off = ~np.eye(n_items, dtype=bool)
    turns = []
    for _ in range(repeats):
        times = [time.perf_counter()]
        parts = [booster.predict(rows[at : at + _ROWS], num_threads=threads) for at in range(0, len(rows), _ROWS)]
        times.append(time.perf_counter())
        prepared = PairTrees.of(booster, n_items)
        times.append(time.perf_counter())
        with one_thread(), computing_with(threads):
            table = predict_all_pairs(prepared, x, n_items)
        times.append(time.perf_counter())
        turns.append(np.diff(times) / [n_stacked, len(x), len(x)])
    error = np.abs(table[:n_stacked, off] - np.concatenate(parts).reshape(n_stacked, n_pairs, -1)).max()
    stacked, preparation, summed = np.median(turns, axis=0) * 1000
    ratios = [by_row / by_sum for by_row, _, by_sum in turns]
    with_preparation = [by_row / (prepare + by_sum) for by_row, prepare, by_sum in turns]
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
        "prepared in, ms": round(preparation * len(x)),
        "with preparation": round(float(np.median(with_preparation)), 1),
        "largest difference": f"{error:.0e}",
    }


def main() -> int:
    """Print versions and one row per setting, number of items and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, nargs="+", default=[20, 60])
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, os.cpu_count() or 1}))
    parser.add_argument("--labels", type=int, help="number of training rows in place of that of the setting")
    parser.add_argument("--contexts", type=int, default=4000, help="number of contexts")
    parser.add_argument("--rows", type=int, default=400_000, help="largest number of stacked rows")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    dr.show_versions()
    print(f"{os.cpu_count()} cores\n")
    results = []
    for setting in given.settings:
        n_labels, n_features, share_missing, tune = SETTINGS[setting]
        for n_items in given.items:
            rng = np.random.default_rng(0)
            rows = draw_labels(given.labels or n_labels, n_features, n_items, 0)
            contexts, items = np.split(rows.features, [n_features], axis=1)
            features = np.column_stack([remove_values(contexts, share_missing, rng), items])
            binned = BinnedRows.of(replace(rows, features=features), tune, N_CATEGORIES)
            booster = train_booster(binned, rng)
            x = remove_values(rng.normal(size=(given.contexts, n_features)), share_missing, rng)
            n_stacked = min(given.contexts, max(1, given.rows // (n_items * (n_items - 1))))
            for threads in given.threads:
                row = compare(booster, x, n_items, n_stacked=n_stacked, threads=threads, repeats=given.repeats)
                results.append({"setting": setting} | row)
                print(pd.DataFrame(results[-1:]).to_string(index=False, header=len(results) == 1), flush=True)
    print(f"\n{pd.DataFrame(results).set_index(['setting', 'K', 'threads']).to_string()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
