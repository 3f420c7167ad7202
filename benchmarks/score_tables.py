"""Time and memory of a fit to benchmark scores: ``pairs_from_scores`` against a frame with a row per comparison.

Each measurement is a process of its own: processor seconds of all threads, and the peak of the memory above that of
the imported package and of a first small fit. The frame with a row per comparison is written out by arrays, not by a
loop. Reading the scores, or writing out the rows, is part of the measurement. Scores are random, and the fit has no
features.

    python benchmarks/score_tables.py
    python benchmarks/score_tables.py --small
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.options import in_objects

FORMULA = "winner ~ 1 | model_a + model_b"
# Numbers of models and prompts: a usual harness, an embedding benchmark, a small table.
SIZES = ((60, 500), (332, 41), (20, 300))


def draw_scores(n_items: int, n_prompts: int, seed: int = 0) -> pd.DataFrame:
    """A table with a random score of every model on every prompt."""
    names = [f"model-{item:03d}" for item in range(n_items)]
    score = np.random.default_rng(seed).random(n_items * n_prompts)
    return pd.DataFrame(
        {"prompt": np.repeat(np.arange(n_prompts), n_items), "model": names * n_prompts, "score": score}
    )


def write_out(table: pd.DataFrame) -> pd.DataFrame:
    """The comparisons of a complete table without ties as a frame with a row each."""
    wide = table.pivot(index="prompt", columns="model", values="score")
    first, second = np.triu_indices(wide.shape[1], 1)
    names, values = wide.columns.to_numpy(), wide.to_numpy()
    won = values[:, first] > values[:, second]
    return pd.DataFrame(
        {
            "prompt": np.repeat(wide.index.to_numpy(), len(first)),
            "model_a": np.tile(names[first], len(wide)),
            "model_b": np.tile(names[second], len(wide)),
            "winner": np.where(won.ravel(), "model_a", "model_b"),
        }
    )


def fit(table: pd.DataFrame, method: str, functional: str) -> dr.RankResults:
    """Fit the table by one of the two methods."""
    if method == "pairs":
        pairs = dr.data.pairs_from_scores(table, prompt="prompt", model="model", score="score")
        return dr.dml_rank(FORMULA, pairs, functional=functional, rng=0)
    options = {"context": "prompt", "position_bias": False, "functional": functional, "rng": 0}
    return dr.dml_rank(FORMULA, write_out(table), **in_objects(options))


def peak_megabytes() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(n_items: int, n_prompts: int, method: str, functional: str) -> dict[str, float]:
    """Seconds, megabytes and the first score of one fit in this process."""
    fit(draw_scores(3, 40), method, functional)
    table, before = draw_scores(n_items, n_prompts), peak_megabytes()
    start = time.process_time()
    results = fit(table, method, functional)
    seconds = time.process_time() - start
    return {"seconds": seconds, "megabytes": peak_megabytes() - before, "score": float(results.params.iloc[0])}


def measure_in_fresh_process(n_items: int, n_prompts: int, method: str, functional: str) -> dict[str, float]:
    """Result of :func:`measure` in a process of its own."""
    words = [sys.executable, __file__, "--one", str(n_items), str(n_prompts), method, functional]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Print a table of all sizes and functionals."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="the smallest table alone")
    parser.add_argument("--functionals", nargs="+", default=["borda", "bt"])
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        n_items, n_prompts, method, functional = arguments.one
        print(json.dumps(measure(int(n_items), int(n_prompts), method, functional)))
        return
    print("| models x prompts | functional | pairs, s | MB | rows, s | MB | ratio of time | ratio of memory |")
    print("|---|---|---|---|---|---|---|---|")
    for n_items, n_prompts in SIZES[-1:] if arguments.small else SIZES:
        for functional in arguments.functionals:
            pairs, rows = (measure_in_fresh_process(n_items, n_prompts, m, functional) for m in ("pairs", "rows"))
            assert abs(pairs["score"] - rows["score"]) < 1e-8
            times, sizes = rows["seconds"] / pairs["seconds"], rows["megabytes"] / pairs["megabytes"]
            figures = " | ".join(f"{p['seconds']:.2f} | {p['megabytes']:.0f}" for p in (pairs, rows))
            print(f"| {n_items} x {n_prompts} | {functional} | {figures} | {times:.1f} | {sizes:.1f} |", flush=True)


if __name__ == "__main__":
    main()
