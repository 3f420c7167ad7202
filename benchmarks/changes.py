"""How often simultaneous intervals of changes between two results cover all true changes.

Two months with one vote per prompt on a pair drawn at random; Bradley-Terry votes whose scores change from the first
month to the second one. ``independent``: different prompts. ``overlap``: half of the second month's prompts with their
votes are those of the first month, and the scores do not change.

    python benchmarks/changes.py 200
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import numpy as np
import pandas as pd

import dmlrank as dr

FORMULA = "winner ~ 1 | model_a + model_b"
SCORES = np.array([0.6, 0.3, 0.1, -0.1, -0.3, -0.6])
SHIFT = np.array([0.4, 0.0, 0.0, 0.0, 0.0, -0.4])


def true_scores(functional: str, scores: np.ndarray) -> np.ndarray:
    """Scores of the functional where a Bradley-Terry model holds."""
    if functional == "bt":
        return scores - scores.mean()
    share = 1 / (1 + np.exp(scores[None, :] - scores[:, None]))
    return (share.sum(axis=1) - 0.5) / (len(scores) - 1)


def month(scores: np.ndarray, n: int, rng: np.random.Generator, name: str) -> pd.DataFrame:
    """One vote per prompt."""
    all_pairs = np.array(list(itertools.permutations(range(len(scores)), 2)))
    pairs = all_pairs[rng.integers(len(all_pairs), size=n)]
    wins = rng.random(n) < 1 / (1 + np.exp(scores[pairs[:, 1]] - scores[pairs[:, 0]]))
    names = np.array([f"m{j}" for j in range(len(scores))])
    columns = {"model_a": names[pairs[:, 0]], "model_b": names[pairs[:, 1]], "prompt": [f"{name}{i}" for i in range(n)]}
    return pd.DataFrame(columns | {"winner": np.where(wins, "model_a", "model_b")})


def independent(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Two months with different prompts, and the scores of the second one."""
    return month(SCORES, n, rng, "a"), month(SCORES + SHIFT, n, rng, "b"), SCORES + SHIFT


def overlap(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Two months, the second of which keeps half of the first one's prompts."""
    first = month(SCORES, n, rng, "a")
    return first, pd.concat([first.iloc[: n // 2], month(SCORES, n - n // 2, rng, "b")], ignore_index=True), SCORES


def covers(
    draw: Callable[[int, np.random.Generator], tuple[pd.DataFrame, pd.DataFrame, np.ndarray]],
    functional: str,
    n: int,
    seed: int,
) -> tuple[bool, bool, bool]:
    """Whether the intervals of all models, and those of all pairs, cover, and whether the Wald test is wrong."""
    first, second, scores = draw(n, np.random.default_rng(seed))
    options = {"functional": functional, "context": "prompt", "rng": 0, "n_jobs": 1}
    side = dr.compare(a=dr.dml_rank(FORMULA, first, **options), b=dr.dml_rank(FORMULA, second, **options))
    names = [f"m{j}" for j in range(len(SCORES))]
    gain = true_scores(functional, scores) - true_scores(functional, SCORES)
    change = dict(zip(names, gain, strict=True))
    models, pairs = side.changes(), side.pair_changes()
    of_models = models["model"].map(change)
    of_pairs = pairs["first"].map(change) - pairs["second"].map(change)
    rejected = float(side.test_unchanged().pvalue) < 0.05
    return (
        bool(((models["conf_low"] <= of_models) & (of_models <= models["conf_high"])).all()),
        bool(((pairs["conf_low"] <= of_pairs) & (of_pairs <= pairs["conf_high"])).all()),
        rejected,
    )


def main(replications: int) -> None:
    """Print a line for each setting."""
    for draw in (independent, overlap):
        for functional, n in itertools.product(("borda", "bt"), (600, 2000)):
            found = np.mean([covers(draw, functional, n, seed) for seed in range(replications)], axis=0)
            print(
                f"{draw.__name__:12} {functional:6} n={n:5}  all models {found[0]:.3f}  all pairs {found[1]:.3f}  "
                f"test rejects {found[2]:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
