"""Averages of scores and scores of mean preferences: do the intervals cover, and how large is the error?

Every replication draws a data set of a scenario of the coverage study and fits the mean of scores, E F(mu(X)), and the
score of mean preferences, F(E mu(X)), each against its own true value. The fit without features, ``~ 1``, has the same
target as mean preferences, but known propensities alone adjust it for who was compared on which prompts.

The table is resumable: rows that it holds are not made again.

    python benchmarks/averages.py run --scenarios ties-0-1000 binary --seeds 100
    python benchmarks/averages.py tables
    python benchmarks/averages.py targets
"""

from __future__ import annotations

import argparse
import csv
import os
import pathlib
import warnings
from collections import Counter
from functools import lru_cache

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from coverage import clopper_pearson
from scenarios import Scenario, scenarios

import dmlrank as dr
from dmlrank.exceptions import DmlrankWarning
from dmlrank.functionals import BradleyTerry, CategoryWeights, Dominance, Functional, RankCentrality
from dmlrank.options import in_objects

RESULTS = pathlib.Path(__file__).parent / "results" / "averages.csv"
NAMES = ("ties-0-1000", "ties-5-1000", "ties-9-1000", "binary", "no minimum mass", "98 noise features")
FUNCTIONALS = {"bt": BradleyTerry, "rank_centrality": RankCentrality, "dominance": Dominance}
COLUMNS = ("scenario", "seed", "functional", "target", "fit", "covers", "mse", "bias", "half_width", "second_order")
# What a row of the table is about.
_KEYS = ("scenario", "seed", "functional", "fit")
# Formula, what is averaged, and the target of each fit.
_FITS = (
    ("features", "scores", "scores"),
    ("features", "preferences", "preferences"),
    ("~ 1", "scores", "preferences"),
    ("~ 1", "preferences", "preferences"),
)
_CHUNK, _TRUTH_CONTEXTS = 20_000, 400_000


@lru_cache
def truths(name: str, n_contexts: int = _TRUTH_CONTEXTS) -> dict[tuple[str, str], pd.Series]:
    """True scores of a scenario by functional and by what is averaged, from ``n_contexts`` drawn contexts."""
    scenario, rng = scenarios()[name], np.random.default_rng(0)
    weights = CategoryWeights.half(scenario.categories)
    mean = np.zeros((scenario.base.n_items, scenario.base.n_items, scenario.categories))
    scores = {functional: np.zeros(scenario.base.n_items) for functional in FUNCTIONALS}
    n_chunks = n_contexts // _CHUNK
    for _ in range(n_chunks):
        mu = scenario.mu(scenario.features(_CHUNK, rng))
        mean += mu.mean(axis=0) / n_chunks
        for functional, kind in FUNCTIONALS.items():
            scores[functional] += _bound(kind(), weights, scenario).value(mu).mean(axis=0) / n_chunks
    found = {}
    for functional, kind in FUNCTIONALS.items():
        of_mean = _bound(kind(), weights, scenario).value(mean[None])[0]
        found[functional, "scores"] = pd.Series(scores[functional], scenario.base.models)
        found[functional, "preferences"] = pd.Series(of_mean, scenario.base.models)
    return found


def _bound(functional: Functional, weights: CategoryWeights, scenario: Scenario) -> Functional:
    return functional.bind(weights, scenario.compared)


def replicate(name: str, seed: int, truth_contexts: int = _TRUTH_CONTEXTS) -> list[dict[str, object]]:
    """Fit one data set: a row per functional, average and formula."""
    scenario, rows = scenarios()[name], []
    draw = scenario.draw(seed)
    options = {"propensity": "propensity", **draw.options, "rng": seed, "n_jobs": 1}
    without = f"winner ~ 1 | {scenario.formula.split('|')[1]}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        fits = {"features": dr.dml_rank(scenario.formula, draw.frame, **in_objects(options))}
        fits["~ 1"] = dr.dml_rank(without, draw.frame, **in_objects(options))
        for functional in FUNCTIONALS:
            for formula, average, target in _FITS:
                fit = fits[formula].update(functional=functional, average=average)
                truth = truths(name, truth_contexts)[functional, target]
                row = {"scenario": name, "seed": seed, "functional": functional, "target": target}
                rows.append(row | {"fit": f"{formula}, {average}"} | _figures(fit, truth))
    return rows


def _figures(fit: dr.RankResults, truth: pd.Series) -> dict[str, object]:
    error, limits = fit.params - truth, fit.conf_int()
    return {
        "covers": int(((limits["lower"] <= truth) & (truth <= limits["upper"])).all()),
        "mse": f"{float((error**2).mean()):.4g}",
        "bias": f"{float(error[truth.idxmax()]):.4g}",
        "half_width": f"{float((limits['upper'] - limits['lower']).mean() / 2):.4g}",
        "second_order": f"{fit.diagnostics.second_order:.3f}",
    }


def run(names: list[str], seeds: int, path: pathlib.Path) -> None:
    """Add the rows that are missing to the table, one seed of every scenario after the other."""
    is_new, done = not path.exists(), set[tuple[object, ...]]()
    if not is_new:
        done = set(pd.read_csv(path)[list(_KEYS)].itertuples(index=False, name=None))
    n_rows = Counter(key[:2] for key in done)
    path.parent.mkdir(exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        for seed in range(seeds):
            for name in names:
                if n_rows[name, seed] == len(FUNCTIONALS) * len(_FITS):
                    continue
                rows = replicate(name, seed)
                writer.writerows(row for row in rows if tuple(row[key] for key in _KEYS) not in done)
                file.flush()


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Return coverage with its 99 % limits, root mean squared error, bias of the best model and half-width."""
    rows = []
    for key, part in table.groupby(["scenario", "functional", "target", "fit"], sort=False):
        hits, trials = int(part["covers"].sum()), len(part)
        low, high = clopper_pearson(hits, trials)
        figures = {"n": trials, "coverage": hits / trials, "low": low, "high": high}
        figures |= {"rmse": np.sqrt(part["mse"].mean()), "bias": part["bias"].mean()}
        figures |= {"half_width": part["half_width"].mean(), "second_order": part["second_order"].median()}
        rows.append(dict(zip(("scenario", "functional", "target", "fit"), key, strict=True)) | figures)
    return pd.DataFrame(rows)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "tables", "targets"])
    parser.add_argument("--scenarios", nargs="+", default=list(NAMES))
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--path", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.action == "run":
        run(arguments.scenarios, arguments.seeds, arguments.path)
    elif arguments.action == "tables":
        print(summarise(pd.read_csv(arguments.path)).round(4).to_string(index=False))
    else:
        for name in arguments.scenarios:
            for (functional, average), truth in truths(name).items():
                print(f"{name:20} {functional:16} {average:12} {truth.round(3).tolist()}")


if __name__ == "__main__":
    main()
