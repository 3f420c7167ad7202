"""Do intervals cover where most pairs were never compared? Bradley-Terry exactly true, 251 of 1,711 pairs compared.

Scores on the complete graph are extrapolated: a fit gives them no intervals, and the ones that are looked at here are
made from the covariance. Scores on the graph of compared pairs estimate the same numbers, because the model is true.

The table is resumable: replications that it holds are not run again.

    python benchmarks/extrapolation.py run --seeds 120
    python benchmarks/extrapolation.py table
"""

from __future__ import annotations

import argparse
import csv
import os
import pathlib
import warnings
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dmlrank as dr
from dmlrank.options import in_objects

RESULTS = pathlib.Path(__file__).parent / "results" / "extrapolation.csv"
COLUMNS = ("setting", "seed", "simultaneous", "pointwise", "half_width", "error")
N_MODELS, N_PAIRS, VOTES_PER_PAIR = 59, 251, 120
SETTINGS: dict[str, dict[str, Any]] = {
    'graph="complete"': {"graph": "complete", "position_bias": False},
    "position_bias=True": {"position_bias": True},
    "min_labels=1, position_bias=False": {"min_labels": 1, "position_bias": False},
}


def sparse_graph(n_models: int, n_pairs: int) -> NDArray[np.intp]:
    """Pairs of a connected graph, (n_pairs, 2): a random tree, and random pairs beside it."""
    rng = np.random.default_rng(0)
    order = rng.permutation(n_models)
    tree = {tuple(sorted((int(order[i]), int(order[rng.integers(i)])))) for i in range(1, n_models)}
    others = [(j, k) for j in range(n_models) for k in range(j + 1, n_models) if (j, k) not in tree]
    chosen = rng.choice(len(others), n_pairs - len(tree), replace=False)
    return np.array(sorted(tree) + [others[i] for i in chosen])


def true_scores(n_models: int) -> pd.Series:
    """Log-odds of the models, which sum to zero."""
    scores = np.random.default_rng(1).normal(0, 0.8, n_models)
    return pd.Series(scores - scores.mean(), index=[f"m{j:02d}" for j in range(n_models)])


def draw(seed: int, *, n_models: int, n_pairs: int, votes: int) -> pd.DataFrame:
    """Votes on the pairs of the graph, about as many on each, from the Bradley-Terry model."""
    rng, truth, pairs = np.random.default_rng(seed), true_scores(n_models), sparse_graph(n_models, n_pairs)
    pair = pairs[rng.integers(len(pairs), size=n_pairs * votes)]
    pair = np.where(rng.random(len(pair))[:, None] < 0.5, pair, pair[:, ::-1])
    first, second = truth.to_numpy()[pair].T
    wins = rng.random(len(pair)) < 1 / (1 + np.exp(second - first))
    names = truth.index.to_numpy()[pair]
    return pd.DataFrame(
        {"winner": np.where(wins, "model_a", "model_b"), "model_a": names[:, 0], "model_b": names[:, 1]}
    )


def replicate(
    setting: str, seed: int, *, n_models: int = N_MODELS, n_pairs: int = N_PAIRS, votes: int = VOTES_PER_PAIR
) -> dict[str, Any]:
    """One fit: whether all intervals cover, the share of pointwise ones that do, their width, and the error."""
    battles = draw(seed, n_models=n_models, n_pairs=n_pairs, votes=votes)
    formula, options = "winner ~ 1 | model_a + model_b", SETTINGS[setting]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        fit = dr.dml_rank(formula, battles, **in_objects({"functional": "bt", "rng": seed, "n_jobs": 1, **options}))
    error = (fit.params - true_scores(n_models)[fit.models]).abs().to_numpy()
    std_errors = np.sqrt(np.diag(fit.cov_params()))
    return {
        "setting": setting,
        "seed": seed,
        "simultaneous": int((error <= fit.estimates.critical * std_errors).all()),
        "pointwise": round(float((error <= 1.959964 * std_errors).mean()), 4),
        "half_width": round(float(fit.estimates.critical * std_errors.mean()), 4),
        "error": round(float(np.sqrt(np.square(error).mean())), 4),
    }


def run(seeds: int) -> None:
    """Add the replications that are missing to the table."""
    done = set()
    if RESULTS.exists():
        done = set(pd.read_csv(RESULTS)[["setting", "seed"]].itertuples(index=False, name=None))
    with RESULTS.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for seed in range(seeds):
            for setting in SETTINGS:
                if (setting, seed) not in done:
                    writer.writerow(replicate(setting, seed))
                    file.flush()


def table() -> str:
    """The table of docs/validity.md."""
    lines = ["| setting | seeds | simultaneous | pointwise | half-width | root mean squared error |", "|" + "---|" * 6]
    found = pd.read_csv(RESULTS)
    for setting in SETTINGS:
        rows = found[found["setting"] == setting]
        mean = rows[["simultaneous", "pointwise", "half_width", "error"]].mean()
        lines.append(f"| `{setting}` | {len(rows)} | " + " | ".join(f"{value:.2f}" for value in mean) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run the study, or print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run").add_argument("--seeds", type=int, default=120)
    commands.add_parser("table")
    given = parser.parse_args()
    if given.command == "run":
        run(given.seeds)
    else:
        print(table())


if __name__ == "__main__":
    main()
