"""Do the intervals cover? Seeded replications over many scenarios, kept in a table that grows.

Every replication draws a data set with known truth and fits all functionals, debiased and plug-in, with the default
learner, with others, and with the true nuisances (the oracle). A simultaneous interval covers when it holds for all
models at once. The oracle's intervals come from the plain mean of its influence values' squares, which is the efficient
variance: the correction for a shrunken mu, which a fit adds to it, has nothing to correct there. The learner "given"
has the true nuisances, too, and the intervals of the fit.

The table is resumable: replications that it holds are not run again. Replications are tasks of processes of this
machine, or of the workers of a Dask cluster (``--scheduler``), which need the project on their PYTHONPATH.

    python -m benchmarks.coverage run --scenarios ties-0-1000 ties-5-1000 --seeds 300
    python -m benchmarks.coverage run --scheduler tcp://127.0.0.1:8786
    python -m benchmarks.coverage tables --markdown
    python -m benchmarks.coverage check
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import pathlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from typing import Any

# The processes share the cores; threads within each would only wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import dmlrank as dr
from benchmarks.scenarios import FUNCTIONALS, Scenario, scenarios
from benchmarks.studies.runner import clopper_pearson
from dmlrank._utils.computation import computing, computing_with, in_workers
from dmlrank.exceptions import DmlrankError, DmlrankWarning
from dmlrank.options import in_objects

RESULTS = pathlib.Path(__file__).parent / "results" / "coverage.csv"
COLUMNS = (
    "scenario",
    "seed",
    "learner",
    "functional",
    "estimator",
    "covers",
    "mse",
    "error_top",
    "half_width",
    "warned",
    "second_order",
    "effective",
    "failed",
)
# What a warning of the intervals begins with; others are about the data's form.
_DOUBTS = ("the standard error of", "too few labels for this functional", "the fitted probabilities are")
# Scenarios, seeds and learner of the small study that runs with every change.
_SMALL, _SMALL_SEEDS = "ties-5-1000", 40


@lru_cache
def truth_of(name: str) -> pd.DataFrame:
    """True scores of a scenario, computed once per process."""
    return scenarios()[name].truth()


def replicate(task: tuple[str, int, str]) -> list[dict[str, object]]:
    """All fits of one scenario, seed and learner: a row per functional and estimator."""
    name, seed, learner = task
    scenario, truth = scenarios()[name], truth_of(name)
    rows, common = [], {"scenario": name, "seed": seed, "learner": learner}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        try:
            fit = first_fit(scenario, seed, learner)
        except DmlrankError as error:
            return [common | {"failed": f"{type(error).__name__}: {error}"[:80]}]
        for functional in FUNCTIONALS:
            for estimator in ("debiased", "plugin"):
                if (learner, estimator) == ("oracle", "plugin"):
                    continue
                fit = fit.update(functional=functional, estimator=estimator)
                limits = efficient_limits(fit, scenario.cluster) if learner == "oracle" else limits_of(fit)
                rows.append(common | _figures(fit, truth[functional], limits))
    return rows


def replication(_: None, task: tuple[str, int, str]) -> list[dict[str, object]]:
    """A replication as a task of workers, which share nothing."""
    return replicate(task)


def replications(
    tasks: Sequence[tuple[str, int, str]], processes: int, scheduler: str | None
) -> Iterator[list[dict[str, object]]]:
    """Yield the rows of replications in their order, computed by processes or by the workers of a Dask cluster."""
    if scheduler is None:
        spawn = multiprocessing.get_context("spawn")
        workers: Any = ProcessPoolExecutor(processes, mp_context=spawn)
    else:
        from distributed import Client

        workers = Client(scheduler)
    with workers, computing(executor=workers), computing_with(1):
        yield from in_workers(replication, None, tasks, name="replications")


def limits_of(fit: dr.RankResults) -> pd.DataFrame:
    """Simultaneous 95 % limits from the covariance, which the plug-in has, too, though it claims no intervals."""
    half_width = fit.estimates.critical * np.sqrt(np.diag(fit.cov_params()))
    return pd.DataFrame({"lower": fit.params - half_width, "upper": fit.params + half_width})


def efficient_limits(fit: dr.RankResults, cluster: int) -> pd.DataFrame:
    """Simultaneous 95 % limits from the influence values as they are; ``cluster`` contexts in a row belong together."""
    phi = fit.influence
    n, factor = len(phi), 1.0
    if cluster:
        groups = np.arange(n) // cluster
        phi = np.stack([np.bincount(groups, weights=column) for column in phi.T], axis=1)
        factor = len(phi) / (len(phi) - 1)
    covariance = factor * phi.T @ phi / n**2
    errors = np.sqrt(np.diag(covariance))
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(len(errors)), covariance, 50_000, method="eigh")
    half_width = np.quantile(np.abs(draws / errors).max(axis=1), 0.95) * errors
    return pd.DataFrame({"lower": fit.params - half_width, "upper": fit.params + half_width})


def first_fit(scenario: Scenario, seed: int, learner: str) -> dr.RankResults:
    """Fit the data set of a seed with a learner, or with the true nuisances."""
    draw = scenario.draw(seed)
    options = {"propensity": "propensity", **draw.options, "rng": seed, "n_jobs": 1}
    if learner in ("oracle", "given"):
        options |= {"mu": draw.mu, "propensity": "propensity", "floor": 0.0}
    else:
        options["learner"] = learner
    return dr.dml_rank(scenario.formula, draw.frame, **in_objects(options))


def _figures(fit: dr.RankResults, truth: pd.Series, limits: pd.DataFrame) -> dict[str, object]:
    error, known = fit.params - truth, fit.diagnostics
    doubts = [text for text in known.warnings if text.startswith(_DOUBTS)]
    return {
        "functional": fit.functional,
        "estimator": fit.estimates.estimator,
        "covers": int(((limits["lower"] <= truth) & (truth <= limits["upper"])).all()),
        "mse": f"{float((error**2).mean()):.4g}",
        "error_top": f"{error[truth.idxmax()]:.4g}",
        "half_width": f"{float((limits['upper'] - limits['lower']).mean() / 2):.4g}",
        "warned": len(doubts),
        "second_order": f"{known.second_order:.2f}",
        "effective": f"{known.effective_contexts:.0f}",
    }


def run(
    names: Sequence[str],
    learners: Sequence[str],
    seeds: int | None,
    *,
    processes: int,
    scheduler: str | None,
    path: pathlib.Path,
) -> None:
    """Add the replications that are missing to the table."""
    known = scenarios()
    done = _done(path)
    tasks = [
        (name, seed, learner)
        for name in names
        for seed in range(seeds or known[name].seeds)
        for learner in learners
        if (name, seed, learner) not in done
    ]
    path.parent.mkdir(exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done and file.tell() == 0:
            writer.writeheader()
        for count, rows in enumerate(replications(tasks, processes, scheduler), start=1):
            writer.writerows(rows)
            file.flush()
            if count % 50 == 0:
                print(f"{count} of {len(tasks)}: {tasks[count - 1]}", file=sys.stderr)


def _done(path: pathlib.Path) -> set[tuple[str, int, str]]:
    if not path.exists():
        return set()
    table = pd.read_csv(path, usecols=["scenario", "seed", "learner"]).drop_duplicates()
    return set(table.itertuples(index=False, name=None))


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """A row per scenario, functional, learner and estimator."""
    failed = table["failed"].notna()
    good = table[~failed]
    rows = []
    for key, group in good.groupby(["scenario", "functional", "learner", "estimator"], sort=False):
        scenario, functional, learner, estimator = key
        oracle = good.query(
            "scenario == @scenario and functional == @functional and learner == 'oracle' and seed in @group.seed"
        )
        missed = group[group["covers"] == 0]
        low, high = clopper_pearson(int(group["covers"].sum()), len(group))
        rows.append(
            {
                "scenario": scenario,
                "functional": functional,
                "learner": learner,
                "estimator": estimator,
                "seeds": len(group),
                "coverage": group["covers"].mean(),
                "low": low,
                "high": high,
                "bias / rmse": group["error_top"].mean() / np.sqrt(group["mse"].mean()),
                "mse x 100": 100 * group["mse"].mean(),
                "mse / oracle": group["mse"].mean() / oracle["mse"].mean() if len(oracle) else np.nan,
                "width / oracle": group["half_width"].mean() / oracle["half_width"].mean() if len(oracle) else np.nan,
                "warned": (group["warned"] > 0).mean(),
                "warned when missed": (missed["warned"] > 0).mean() if len(missed) else np.nan,
                "failed": int((failed & (table["scenario"] == scenario) & (table["learner"] == learner)).sum()),
            }
        )
    return pd.DataFrame(rows)


def markdown(figures: pd.DataFrame) -> Iterator[str]:
    """One table for the documentation: default learner, oracle and plug-in side by side."""
    yield (
        "| scenario | functional | seeds | coverage [99 % band] | oracle | plug-in | MSE, plug-in / debiased "
        "| MSE / oracle | width / oracle | bias / RMSE | warned | when missed |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for (scenario, functional), group in figures.groupby(["scenario", "functional"], sort=False):
        by = group.set_index(["learner", "estimator"])
        own, oracle, plugin = (
            by.loc[key] if key in by.index else None
            for key in (("auto", "debiased"), ("oracle", "debiased"), ("auto", "plugin"))
        )
        if own is None or oracle is None or plugin is None:
            continue
        missed = "-" if np.isnan(own["warned when missed"]) else f"{own['warned when missed']:.2f}"
        yield (
            f"| {scenario} | {functional} | {own['seeds']} "
            f"| {own['coverage']:.3f} [{own['low']:.2f}, {own['high']:.2f}] "
            f"| {oracle['coverage']:.3f} | {plugin['coverage']:.2f} "
            f"| {plugin['mse x 100'] / own['mse x 100']:.2f} | {own['mse / oracle']:.2f} "
            f"| {own['width / oracle']:.2f} | {own['bias / rmse']:+.2f} | {own['warned']:.2f} | {missed} |"
        )


def check(processes: int, scheduler: str | None) -> bool:
    """A small study that fails where coverage leaves its band or the plug-in's intervals are as good."""
    tasks = [(_SMALL, 10_000 + seed, "auto") for seed in range(_SMALL_SEEDS)]
    table = pd.DataFrame([row for rows in replications(tasks, processes, scheduler) for row in rows])
    table["covers"] = table["covers"].astype(int)
    good = True
    for functional, group in table.groupby("functional"):
        share = group.groupby("estimator")["covers"].mean()
        low, high = clopper_pearson(int(group.query("estimator == 'debiased'")["covers"].sum()), _SMALL_SEEDS, 0.999)
        held = low <= 0.95 <= high and share["plugin"] < share["debiased"]
        good &= held
        print(
            f"{functional:16s} debiased {share['debiased']:.2f}, plug-in {share['plugin']:.2f}", "" if held else "OUT"
        )
    return good


def _printed(path: pathlib.Path) -> Iterator[str]:
    figures = summarise(pd.read_csv(path))
    for scenario, group in figures.groupby("scenario", sort=False):
        yield f"\n{scenario}"
        yield group.drop(columns="scenario").round(3).to_string(index=False)


def main() -> int:
    """Run, tabulate or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("run", "tables", "check"))
    parser.add_argument("--scenarios", nargs="+", choices=list(scenarios()), default=list(scenarios()))
    parser.add_argument("--learners", nargs="+", default=["auto", "oracle"])
    parser.add_argument("--seeds", type=int, help="replications (default: the scenario's)")
    parser.add_argument("--markdown", action="store_true", help="one table, as in docs/validity.md")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--scheduler", help="address of a Dask scheduler whose workers replace the processes")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    given = parser.parse_args()
    if given.action == "check":
        good = check(given.processes, given.scheduler)
        print("within its band" if good else "OUT OF ITS BAND")
        return 0 if good else 1
    if given.action == "run":
        run(
            given.scenarios,
            given.learners,
            given.seeds,
            processes=given.processes,
            scheduler=given.scheduler,
            path=given.results,
        )
    lines = markdown(summarise(pd.read_csv(given.results))) if given.markdown else _printed(given.results)
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
