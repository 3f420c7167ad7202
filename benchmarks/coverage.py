"""Coverage of simultaneous intervals and mean squared error on the tie simulator of the paper.

Every seed draws contexts, selections and labels from :class:`dmlrank.datasets.Ties` with known propensities and fits
all functionals, debiased and plug-in, once with the default learner and once with the true probabilities (the oracle).
A simultaneous interval covers when it holds for all models at once.

    python benchmarks/coverage.py --seeds 100 --contexts 1000
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pandas as pd

import dmlrank as dr

FORMULA = "winner ~ x0 + x1 | model_a + model_b"
FUNCTIONALS = ("borda", "bt", "rank_centrality")
# Band in which Borda's coverage has to be, by the number of seeds that the small study can afford.
BAND = (0.88, 0.99)


def replicate(seed: int, n: int, coefficients: int, truth: pd.DataFrame) -> list[dict[str, object]]:
    """All fits of one seed: a row per functional, estimator and source of mu."""
    simulator = dr.datasets.Ties(coefficients=coefficients)
    data = simulator.sample(n, rng=seed)
    x = data.drop_duplicates("question_id")[["x0", "x1"]].to_numpy()
    rows = []
    for source, mu, floor in (("learner", None, 0.005), ("oracle", simulator.mu(x), 0.0)):
        fit = dr.dml_rank(
            FORMULA, data, context="question_id", propensity="propensity", mu=mu, floor=floor, rng=seed, n_jobs=1
        )
        for functional in FUNCTIONALS:
            for estimator in ("debiased", "plugin"):
                fit = fit.update(functional=functional, estimator=estimator)
                rows.append({"seed": seed, "source": source} | _figures(fit, truth[functional]))
    return rows


def study(seeds: int, n: int, coefficients: int = 0, processes: int = 2) -> pd.DataFrame:
    """One row per seed, functional, estimator and source of mu."""
    simulator = dr.datasets.Ties(coefficients=coefficients)
    truth = pd.DataFrame({functional: simulator.truth(functional) for functional in FUNCTIONALS})
    one = partial(replicate, n=n, coefficients=coefficients, truth=truth)
    with ProcessPoolExecutor(processes) as pool:
        return pd.DataFrame([row for rows in _counted(pool.map(one, range(seeds)), seeds) for row in rows])


def table(replications: pd.DataFrame) -> pd.DataFrame:
    """Coverage, bias and mean squared errors (x 100), and its ratio to the oracle's, by functional and estimator."""
    by = replications.groupby(["functional", "estimator", "source"])
    figures = by.agg(coverage=("covers", "mean"), mse=("squared_error", "mean"), half_width=("half_width", "mean"))
    figures["mse"] *= 100
    oracle = figures.xs(("debiased", "oracle"), level=("estimator", "source"))["mse"]
    figures["mse / oracle"] = figures["mse"] / oracle.reindex(figures.index, level="functional")
    return figures.drop(index=[key for key in figures.index if key[1:] == ("plugin", "oracle")])


def _figures(fit: dr.RankResults, truth: pd.Series) -> dict[str, object]:
    error = fit.params - truth
    limits = fit.conf_int()
    return {
        "functional": fit.functional,
        "estimator": fit.estimator,
        "covers": bool(((limits["lower"] <= truth) & (truth <= limits["upper"])).all()),
        "squared_error": float((error**2).mean()),
        "half_width": float((limits["upper"] - limits["lower"]).mean() / 2),
    }


def _counted(results: Iterator[list[dict[str, object]]], total: int) -> Iterator[list[dict[str, object]]]:
    for done, rows in enumerate(results, start=1):
        if done % 10 == 0:
            print(f"{done} of {total} seeds", file=sys.stderr)
        yield rows


def main() -> int:
    """Print the table; with ``--check``, fail where Borda leaves its band or the plug-in is as good."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--contexts", type=int, default=1000)
    parser.add_argument("--coefficients", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    figures = table(study(given.seeds, given.contexts, given.coefficients, given.processes))
    print(figures.round(4).to_string())
    if not given.check:
        return 0
    debiased, plugin = (figures.loc[("borda", estimator, "learner")] for estimator in ("debiased", "plugin"))
    # Three binomial standard errors around the band: a small study may miss it by chance.
    slack = 3 * np.sqrt(0.05 * 0.95 / given.seeds)
    good = BAND[0] - slack <= debiased["coverage"] and plugin["coverage"] < debiased["coverage"]
    good &= debiased["mse"] <= 1.05 * plugin["mse"] + 0.01
    print("within its band" if good else "OUT OF ITS BAND")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
