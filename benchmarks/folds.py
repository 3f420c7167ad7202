"""Whether folds of unequal sizes cost precision: folds of equal sizes against folds dealt by the hash alone.

Both fits of a run have the same votes of the paper's tie simulator (three models, two features) and the same key. The
folds of equal sizes are a random permutation, as for few units; the other folds have binomial sizes, as for many units.

    python benchmarks/folds.py run FILE.csv --runs 600
    python benchmarks/folds.py run FILE.csv --runs 600 --features 1
    python benchmarks/folds.py show FILE.csv
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.estimation import cross_fitting as folds
from dmlrank.exceptions import DmlrankWarning

SIZES = (200, 1000)
# The number of units per fold from which the hash alone decides, by the name of the dealing.
DEALINGS = {"equal": sys.maxsize, "binomial": 0}
COLUMNS = ("n", "seed", "functional", "dealing", "model", "error", "std_error", "covered")


@contextmanager
def dealing_from(units_per_fold: int) -> Iterator[None]:
    """Let the hash alone decide from this number of units per fold on."""
    usual = folds.UNITS_PER_FOLD
    folds.UNITS_PER_FOLD = units_per_fold
    try:
        yield
    finally:
        folds.UNITS_PER_FOLD = usual


@lru_cache
def true_scores(functional: str) -> pd.Series:
    """Return the true scores of the simulator, which take a second to compute."""
    return dr.datasets.Ties().truth(functional)


def rows_of_run(n: int, seed: int, features: str = "x0 + x1") -> list[tuple[object, ...]]:
    """Return a row for each functional, dealing and model: error of the score, its standard error and its coverage.

    Stored runs without features are from before such fits had no folds.

    Parameters
    ----------
    n, seed : int
        Number of prompts, and seed of the votes and of the key.
    features : str
        Features of the formula.
    """
    formula = f"winner ~ {features} | model_a + model_b"
    functionals = ("bt", "borda")
    battles = dr.datasets.simulate_ties(n=n, rng=seed)
    rows: list[tuple[object, ...]] = []
    for dealing, units_per_fold in DEALINGS.items():
        with dealing_from(units_per_fold), warnings.catch_warnings():
            warnings.simplefilter("ignore", DmlrankWarning)
            fit = dr.dml_rank(formula, battles, functional=functionals[0], context="question_id", rng=seed, n_jobs=1)
            for name in functionals:
                result = fit.update(functional=name)
                truth = true_scores(name)[result.models]
                inside = result.conf_int(method="none").assign(truth=truth).eval("lower <= truth <= upper")
                errors = (result.params - truth).to_numpy()
                columns = zip(result.models, errors, result.bse, inside.astype(int), strict=True)
                rows += [(n, seed, name, dealing, *cells) for cells in columns]
    return rows


def table_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return root mean squared error, mean standard error and coverage by size, functional and dealing.

    ``ratio`` is the root mean squared error relative to folds of equal sizes, and ``ratio_se`` its standard error over
    runs, by the delta method for the mean of paired differences.
    """
    table = []
    for (n, functional), part in rows.groupby(["n", "functional"]):
        squares = part.assign(square=part["error"] ** 2).pivot_table(index="seed", columns="dealing", values="square")
        equal = squares["equal"].mean()
        for dealing in DEALINGS:
            chosen, mean = part[part["dealing"] == dealing], squares[dealing].mean()
            difference = squares[dealing] / mean - squares["equal"] / equal
            ratio = np.sqrt(mean / equal)
            table.append(
                {
                    "n": n,
                    "functional": functional,
                    "dealing": dealing,
                    "runs": len(squares),
                    "rmse": np.sqrt(mean),
                    "mean_se": chosen["std_error"].mean(),
                    "coverage": chosen["covered"].mean(),
                    "ratio": ratio,
                    "ratio_se": ratio / 2 * difference.std() / np.sqrt(len(squares)),
                }
            )
    return pd.DataFrame(table)


def main(arguments: list[str] | None = None) -> None:
    """Run the study or show its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["run", "show"])
    parser.add_argument("file")
    parser.add_argument("--runs", type=int, default=600)
    parser.add_argument("--features", default="x0 + x1", help="features of the formula; 1 for none")
    chosen = parser.parse_args(arguments)
    if chosen.action == "run":
        with open(chosen.file, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for seed in range(chosen.runs):
                for n in SIZES:
                    writer.writerows(rows_of_run(n, seed, chosen.features))
                file.flush()
    print(table_of(pd.read_csv(chosen.file)).round(4).to_string(index=False))


if __name__ == "__main__":
    main()
