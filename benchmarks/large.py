"""What many models and many votes cost: processor seconds and peak memory of a fit, its summary, a bootstrap, a file.

Every model meets its neighbours on a ring, so that the graph is connected by few pairs with enough votes each.

    OMP_NUM_THREADS=1 python benchmarks/large.py
    python benchmarks/large.py --small
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

import dmlrank as dr

FORMULA = "winner ~ 1 | model_a + model_b"


def draw_battles(n: int, n_items: int, neighbours: int, seed: int) -> pd.DataFrame:
    """Battles between models at most so many places apart on a ring, 15 % ties."""
    rng = np.random.default_rng(seed)
    names = np.array([f"model-{item:04d}" for item in range(n_items)])
    strength = rng.permutation(np.linspace(-1.5, 1.5, n_items))
    first = rng.integers(n_items, size=n)
    second = (first + rng.integers(1, neighbours + 1, size=n)) % n_items
    turned = rng.random(n) < 0.5
    first, second = np.where(turned, second, first), np.where(turned, first, second)
    won = rng.random(n) < expit(strength[first] - strength[second])
    winner = np.where(rng.random(n) < 0.15, "tie", np.where(won, "model_a", "model_b"))
    return pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": winner})


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and its processor seconds."""
    start = time.process_time()
    made = work()
    return made, time.process_time() - start


def measure(battles: pd.DataFrame, folder: Path) -> dict[str, float]:
    """Processor seconds of each step, the size of the file, and the peak of memory after all of them in GB."""
    fit, seconds = timed(lambda: dr.dml_rank(FORMULA, battles, position_bias=False, n_jobs=1, rng=0))
    figures = {"fit, s": seconds, "fit, GB": _peak()}
    figures["summary, s"] = timed(lambda: str(fit.summary()))[1]
    for kind in ("gaussian", "rademacher", "webb"):
        figures[f"{kind} bootstrap, s"] = timed(lambda kind=kind: fit.bootstrap(kind).conf_int())[1]
    figures["save, s"] = timed(lambda: fit.save(folder / "fit.pkl", with_data=True))[1]
    figures["file, MB"] = (folder / "fit.pkl").stat().st_size / 1e6
    figures["all, GB"] = _peak()
    return figures


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> int:
    """Read the options and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--votes", type=int, default=200_000)
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--neighbours", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="6,000 votes on 30 models")
    given = parser.parse_args()
    if given.small:
        given.votes, given.items = 6_000, 30
    warnings.simplefilter("ignore", dr.DmlrankWarning)
    battles = draw_battles(given.votes, given.items, given.neighbours, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(battles, Path(folder))
    print(f"{given.votes:,} votes on {given.items:,} models")
    print(pd.Series(figures).round(2).to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main())
