"""Certified cycles: how often they are claimed in Bradley-Terry data, and how often a planted cycle is found.

python benchmarks/cycles.py --seeds 500
"""

from __future__ import annotations

import argparse
import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

import dmlrank as dr
from dmlrank.exceptions import DmlrankWarning

FORMULA = "winner ~ 1 | model_a + model_b"
# Models, votes, range of the strengths and share of ties of Bradley-Terry data.
NULL = ((8, 2000, 0.4, 0.0), (16, 3000, 0.4, 0.1))
# Models, votes and margin of a planted cycle.
PLANTED = ((8, 2000, 0.3), (8, 2000, 0.2))


def draw_battles(margin: NDArray[np.float64], n: int, ties: float, seed: int) -> pd.DataFrame:
    """Votes on random pairs; the win share of j against k without ties is one half plus ``margin[j, k]``."""
    rng = np.random.default_rng(seed)
    n_items = len(margin)
    first = rng.integers(n_items, size=n)
    second = (first + rng.integers(1, n_items, size=n)) % n_items
    won = np.where(rng.random(n) < 0.5 + margin[first, second], "model_a", "model_b")
    names = np.array([f"m{j:02d}" for j in range(n_items)])
    winner = np.where(rng.random(n) < ties, "tie", won)
    return pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": winner})


def certified(frame: pd.DataFrame) -> tuple[int, int, bool]:
    """Number of certified cycles, of cycles in the estimates, and whether the planted cycle is among the former."""
    options = {"propensity": "marginal", "position_bias": False, "min_labels": 1, "rng": 0, "n_jobs": 1}
    cycles = dr.dml_rank(FORMULA, frame, **options).cycles()
    rows = cycles.result_frame[["a", "b", "c"]].to_numpy()
    return len(cycles), cycles.n_raw, any(set(row) == {"m00", "m01", "m02"} for row in rows)


def main() -> None:
    """Run the study and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=500)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore", DmlrankWarning)
    for (n_items, n, spread, ties), n_seeds in zip(NULL, (seeds, seeds // 5), strict=True):
        strength = np.linspace(-spread / 2, spread / 2, n_items)
        margin = expit(strength[:, None] - strength) - 0.5
        counts = [certified(draw_battles(margin, n, ties, seed)) for seed in range(n_seeds)]
        claimed, raw = (np.array(column) for column in list(zip(*counts, strict=True))[:2])
        print(
            f"Bradley-Terry, {n_items} models, {n} votes, range {spread}, ties {ties}: {int((claimed > 0).sum())} of "
            f"{n_seeds} samples with a certified cycle, {raw.mean():.1f} in the estimates",
            flush=True,
        )
    for n_items, n, size in PLANTED:
        margin = np.zeros((n_items, n_items))
        margin[0, 1] = margin[1, 2] = margin[2, 0] = size
        margin -= margin.T
        n_seeds = seeds // 5
        counts = [certified(draw_battles(margin, n, 0.0, seed)) for seed in range(n_seeds)]
        found = [is_found for *_, is_found in counts]
        false = sum(n_claimed - is_found for n_claimed, _, is_found in counts)
        print(
            f"planted, {n_items} models, {n} votes, margin {size}: found in {sum(found)} of {n_seeds} samples; {false} "
            f"other triples certified",
            flush=True,
        )


if __name__ == "__main__":
    main()
