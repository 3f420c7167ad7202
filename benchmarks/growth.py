"""How a whole fit grows with the contexts and the models, and what large ones take.

Every measurement is a process of its own, so that its peak memory (of the whole process, data included) is its own.
Growth is that of CPU time on one thread, as the slope in logarithms; the fits of large data use all cores.

    python benchmarks/growth.py contexts
    python benchmarks/growth.py items
    python benchmarks/growth.py models
    python benchmarks/growth.py arena
    python benchmarks/growth.py wide
    python benchmarks/growth.py millions
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.data.arrays import row_slices
from dmlrank.exceptions import DmlrankWarning

LABELS = np.array(["model_a", "model_b", "both_good", "both_bad"])


@dataclass(frozen=True, slots=True)
class Setting:
    """What is drawn and fitted: 4 categories, one pair per context, estimated propensities."""

    contexts: int
    items: int
    features: int = 12
    binary: bool = False
    functional: str = "bt"
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds, of the clock and of all cores, and the largest memory of the process in gigabytes."""

    wall: float
    cpu: float
    peak: float


def draw_battles(setting: Setting, rng: np.random.Generator) -> pd.DataFrame:
    """Battles of which strengths, ties and who is shown depend on the features, all of them or the first three.

    Without features, every pair is shown as often.
    """
    n, n_items = setting.contexts, setting.items
    x = rng.normal(size=(n, setting.features))
    if setting.binary:
        x = (x > 0).astype(float)
    first = rng.integers(n_items, size=n)
    second = (first + rng.integers(1, n_items, size=n)) % n_items
    if setting.features:
        level, by_feature = 0.2 * rng.normal(size=n_items), 0.2 * rng.normal(size=(min(3, setting.features), n_items))
        for rows in row_slices(n, n_items, 20_000_000):
            popular = level + x[rows, :3] @ by_feature
            popular += rng.gumbel(size=popular.shape)
            first[rows] = popular.argmax(axis=1)
            popular[np.arange(len(popular)), first[rows]] = -np.inf
            second[rows] = popular.argmax(axis=1)
        swap = rng.random(n) < 0.5
        first, second = np.where(swap, second, first), np.where(swap, first, second)
    strength, slope = rng.normal(size=n_items), rng.normal(size=(n_items, min(5, setting.features))) / 3
    lead = strength[first] - strength[second] + (x[:, :5] * (slope[first] - slope[second])).sum(axis=1) + 0.1
    level = 0.3 * (strength[first] + strength[second]) - 0.5
    scores = np.column_stack([lead / 2, -lead / 2, level - 0.3 * np.abs(lead), -level - 1 - 0.3 * np.abs(lead)])
    label = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    names = np.array([f"model-{j:03d}" for j in range(n_items)])
    made = pd.DataFrame(x, columns=[f"f{f}" for f in range(setting.features)])
    return made.assign(model_a=names[first], model_b=names[second], winner=LABELS[label])


def measure(setting: Setting) -> Measured:
    """One fit in this process; without features, of the observed pairs and with its summary."""
    frame = draw_battles(setting, np.random.default_rng(0))
    formula = f"winner ~ {' + '.join(f'f{f}' for f in range(setting.features)) or 1} | model_a + model_b"
    start = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        fit = dr.dml_rank(
            formula,
            frame,
            functional=setting.functional,
            pairs=dr.Pairs(graph="complete" if setting.features else "observed"),
            rng=0,
            n_jobs=setting.threads,
        )
        if not setting.features:
            fit.summary().as_text()
    wall, cpu = np.subtract((time.perf_counter(), time.process_time()), start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Measured(float(wall), float(cpu), peak / 1e9)


def measure_apart(setting: Setting) -> Measured:
    """One fit in a fresh process."""
    command = [sys.executable, __file__, "one", json.dumps(asdict(setting))]
    # The linear algebra library's threads would only wait for those of the fit.
    environment = {**os.environ, "OMP_NUM_THREADS": str(setting.threads), "OPENBLAS_NUM_THREADS": "1"}
    made = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return Measured(**json.loads(made.stdout.splitlines()[-1]))


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Slope of log seconds on log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


ALL = os.cpu_count() or 1
# What is measured, one after another; exponents are those of the shapes with one functional.
SHAPES = {
    "contexts": [Setting(n, 20) for n in (8000, 16_000, 32_000, 64_000, 128_000)],
    "items": [
        Setting(4000, k, functional=name) for name in ("borda", "bt", "rank_centrality") for k in (20, 40, 80, 120)
    ],
    "models": [Setting(200_000, k, 0, functional=name) for name in ("borda", "bt") for k in (250, 500, 1000)],
    "arena": [Setting(135_000, 53, binary=binary, threads=ALL) for binary in (True, False)],
    "wide": [Setting(*shape, threads=ALL) for shape in ((100_000, 60, 100), (100_000, 200, 5), (200_000, 200, 5))],
    "millions": [Setting(2_000_000, 200, 5, True, threads=ALL)],
}


def main() -> int:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=(*SHAPES, "one"))
    parser.add_argument("setting", nargs="?", help="for `one`, which the others call")
    given = parser.parse_args()
    if given.what == "one":
        print(json.dumps(asdict(measure(Setting(**json.loads(given.setting))))))
        return 0
    dr.show_versions()
    print(f"{ALL} cores\n", flush=True)
    rows = []
    for setting in SHAPES[given.what]:
        rows.append(asdict(setting) | asdict(measure_apart(setting)))
        print(pd.DataFrame(rows[-1:]).round(2).to_string(index=False, header=len(rows) == 1), flush=True)
    size = "contexts" if given.what == "contexts" else "items"
    for functional, made in pd.DataFrame(rows).groupby("functional"):
        sizes, seconds = made[size].tolist(), made["cpu"].tolist()
        if len(set(sizes)) > 1:
            overall, last = exponent(sizes, seconds), exponent(sizes[-2:], seconds[-2:])
            print(f"{functional}: exponent {overall:.2f}, of the last step {last:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
