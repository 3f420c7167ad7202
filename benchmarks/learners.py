"""Learners of mu side by side on MT-Bench's human votes: fit out of fold, time, and what it means for the scores.

Every learner sees the same prompts, folds and (marginal) propensities, so only mu differs. Times are ratios within one
run, on one thread. The folder of the data is named by DMLRANK_DATA and holds ``mt_bench/human.jsonl``.

    DMLRANK_DATA=data python benchmarks/learners.py --rng 0
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time
import warnings
from typing import Any

import pandas as pd
from sklearn.linear_model import LogisticRegression

import dmlrank as dr

FORMULA = "winner ~ text(prompt, 20) + C(category) + turn | model_a + model_b"
PROMPT = ["question_id", "turn"]
GROUPS = {"groups": ["question_id", "judge"]}


def learners(n_draws: int) -> dict[str, dict[str, Any]]:
    """What is compared, by the options of the fit; the first is what times are measured against."""
    return {
        "smooth effects and LightGBM": {},
        'LightGBM, tune="cv"': {"learner": "lightgbm", "tune": "cv"},
        f"LightGBM, RandomSearch({n_draws})": {"tune": dr.RandomSearch(n_draws=n_draws)},
        "LogisticRegression": {"learner": LogisticRegression(max_iter=1000)},
    }


def compare(votes: pd.DataFrame, functional: str, rng: int, n_draws: int) -> pd.DataFrame:
    """One row per learner: log-loss per vote, time as a ratio, and scores with their standard errors."""
    rows = []
    for name, options in learners(n_draws).items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dr.DmlrankWarning)
            fit = dr.dml_rank(
                FORMULA,
                votes,
                functional=functional,
                context=PROMPT,
                propensity="marginal",
                cov_type="cluster",
                cov_kwds=GROUPS,
                rng=rng,
                n_jobs=1,
                **options,
            )
        row = {"learner": name, "seconds": time.process_time() - start, "log-loss": fit.diagnostics.log_loss}
        rows.append(row | {m: f"{fit.params[m]:.3f} ({fit.bse[m]:.3f})" for m in fit.models})
        constant = fit.diagnostics.log_loss_constant
    table = pd.DataFrame(rows).set_index("learner")
    table.insert(2, "constant", constant)
    table.insert(0, "time", (table["seconds"] / table["seconds"].iloc[0]).round(2))
    return table.drop(columns="seconds").round({"log-loss": 4, "constant": 4})


def main() -> int:
    """Print the table, learners in columns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functional", default="bt")
    parser.add_argument("--rng", type=int, default=0)
    parser.add_argument("--draws", type=int, default=10)
    given = parser.parse_args()
    folder = os.environ.get("DMLRANK_DATA")
    if not folder:
        print("skipped: DMLRANK_DATA does not name the folder of public preference data")
        return 0
    votes = dr.datasets.read_mt_bench(pathlib.Path(folder) / "mt_bench")
    print(compare(votes, given.functional, given.rng, given.draws).T.to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main())
