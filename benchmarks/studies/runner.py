"""What all studies share: replications that a file keeps, workers, and shares with exact limits.

A study has cells, such as scenarios. A replication is one seed in one cell and returns rows; replications that the file
of the study holds are not run again. Tables are made of all rows, under the names of their files in docs/results.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import pathlib
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta

import dmlrank as dr

ROOT = pathlib.Path(__file__).parents[2]
TABLES = ROOT / "docs" / "results"
RESULTS = ROOT / "benchmarks" / "results"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Study:
    """What differs between studies.

    cells: Scenarios, settings or whatever else is replicated for every seed.
    replicate: ``replicate(cell, seed)`` returns the rows of one replication.
    tables: Takes all rows, with the columns ``cell`` and ``seed``, and returns tables by the names of their files.
    seeds: Replications of each cell behind the tables in docs/results.
    small: Further arguments of ``replicate`` in the small version, which tests run in the first cell.
    """

    cells: Sequence[str]
    replicate: Callable[..., Iterable[Row]]
    tables: Callable[[pd.DataFrame], dict[str, pd.DataFrame]]
    seeds: int = 100
    small: Mapping[str, Any] = field(default_factory=dict)


def names() -> list[str]:
    """Return the names of all studies."""
    others = ("__main__", "runner")
    return sorted(m.name for m in pkgutil.iter_modules([str(pathlib.Path(__file__).parent)]) if m.name not in others)


def load(name: str) -> Study:
    """Return the study of a module."""
    study: Study = importlib.import_module(f"benchmarks.studies.{name}").STUDY
    return study


def replication(name: str, cell: str, seed: int, **small: Any) -> list[Row]:
    """Return the rows of one replication."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        return [{"cell": cell, "seed": seed, **row} for row in load(name).replicate(cell, seed, **small)]


def read(path: pathlib.Path) -> dict[tuple[str, int], list[Row]]:
    """Return the rows of the replications that a file holds."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {(cell, seed): rows for cell, seed, rows in map(json.loads, lines)}


def run(name: str, cells: Sequence[str], seeds: int, processes: int, path: pathlib.Path) -> None:
    """Add the replications that are missing to the file, the first seeds first."""
    done = read(path)
    tasks = [(cell, seed) for seed in range(seeds) for cell in cells if (cell, seed) not in done]
    path.parent.mkdir(exist_ok=True)
    with (
        ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool,
        path.open("a", encoding="utf-8") as file,
    ):
        futures = {pool.submit(replication, name, *task): task for task in tasks}
        for count, future in enumerate(as_completed(futures), start=1):
            file.write(json.dumps([*futures[future], future.result()], default=float) + "\n")
            file.flush()
            print(f"{count} of {len(tasks)}: {futures[future]}", file=sys.stderr, flush=True)


def clopper_pearson(hits: int, trials: int, level: float = 0.99) -> tuple[float, float]:
    """Return exact limits of a share."""
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


def share(hits: pd.Series, digits: int = 2) -> str:
    """Return the share of hits with its exact 99 % limits as text."""
    low, high = clopper_pearson(int(hits.sum()), len(hits))
    return f"{hits.mean():.{digits}f} [{low:.2f}, {high:.2f}]"


def covers(fit: Any, truth: pd.Series) -> bool:
    """Return whether the simultaneous intervals of all scores hold."""
    limits = fit.conf_int()
    truth = truth[limits.index]
    return bool(((limits["lower"] <= truth) & (truth <= limits["upper"])).all())


def rmse(errors: Any) -> float:
    """Return the root mean square."""
    return float(np.sqrt(np.square(errors).mean()))


def main() -> int:
    """Run what is missing of a study, print its tables, and write them where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies", description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=names())
    parser.add_argument("--seeds", type=int, help="replications of each cell (default: the study's)")
    parser.add_argument("--cells", nargs="+", help="some of the cells")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the tables to docs/results")
    given = parser.parse_args()
    study, path = load(given.name), RESULTS / f"{given.name}.jsonl"
    seeds = study.seeds if given.seeds is None else given.seeds
    run(given.name, given.cells or study.cells, seeds, given.processes, path)
    rows = pd.DataFrame([row for replicated in read(path).values() for row in replicated])
    for title, table in study.tables(rows).items():
        print(f"\n{title}\n{table.to_string(index=False)}")
        if given.write:
            table.to_csv(TABLES / f"{title}.csv", index=False)
    return 0
