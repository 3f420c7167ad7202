"""Rows that are added by extend() beside one fit at the end: scores, coverage and time.

Each replication draws battles of the simulated arena, whose true scores are known.

- ``auto``: a fit of the first tenth, and nine extensions by a tenth with ``refit="auto"``.
- ``never``: a fit of the first half, and five extensions by a tenth with ``refit="never"``.
- ``folds``: one fit of all rows with another seed, which shows what folds and boosters alone change.
- ``new model``: a fit of the first six tenths, in which one model does not take part, and four extensions by a tenth
  with ``refit="never"``, in which it does.

All are compared with one fit of all rows. The table is resumable: replications that it holds are not run again.

    python benchmarks/extend.py run --seeds 200
    python benchmarks/extend.py tables
    python benchmarks/extend.py time --rows 100000
    python benchmarks/extend.py year
"""

from __future__ import annotations

import argparse
import csv
import os
import pathlib
import resource
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from coverage import clopper_pearson

import dmlrank as dr
from dmlrank.exceptions import DmlrankWarning

RESULTS = pathlib.Path(__file__).parent / "results" / "extend.csv"
TIMES = pathlib.Path(__file__).parent / "results" / "extend_time.csv"
COLUMNS = ("seed", "functional", "method", "covers", "distance", "difference", "width", "mse", "refits", "inside")
FUNCTIONALS = ("borda", "bt")
FORMULA = "winner ~ C(category) + length | model_a + model_b"
NEW = "claude-v1"
# A model that has too few labels for the graph is ranked as soon as it has enough.
SETTINGS = {"position_bias": False, "component": "largest"}
_ROWS = 1500
# Seeds of the parts that need fewer replications than coverage.
_SEEDS = {"auto": 60, "folds": 20, "new model": 60}


@lru_cache
def truth(functional: str) -> pd.Series:
    """True scores of the arena."""
    return dr.datasets.Arena().truth(functional)


def options(seed: int) -> dict[str, object]:
    """Options of all fits of a replication."""
    return {"context": "question_id", "rng": seed, "n_jobs": 1, "functional": "bt", "min_labels": 3, **SETTINGS}


def tenths(frame: pd.DataFrame, first: int, last: int) -> pd.DataFrame:
    """Rows of the tenths from ``first`` to ``last``, both included, counted from 0."""
    n = len(frame)
    return frame.iloc[first * n // 10 : (last + 1) * n // 10]


def extended(frame: pd.DataFrame, n_first: int, refit: str, seed: int) -> tuple[dr.RankResults, int]:
    """A fit of the first tenths, extended by tenths; and how often the learners were trained again."""
    result, n_refits = dr.dml_rank(FORMULA, tenths(frame, 0, n_first - 1), **options(seed)), 0
    for place in range(n_first, 10):
        result = result.extend(tenths(frame, place, place), refit=refit)
        assert result.extension is not None
        n_refits += result.extension.refitted
    return result, n_refits


def without_new_model(frame: pd.DataFrame) -> pd.DataFrame:
    """The battles in which one model does not take part in the first six tenths: its prompts have no vote there."""
    later = frame.copy()
    is_hidden = (np.arange(len(frame)) < 6 * len(frame) // 10) & ((frame.model_a == NEW) | (frame.model_b == NEW))
    later.loc[is_hidden, ["winner", "model_a", "model_b"]] = None
    return later


def replicate(seed: int, n_rows: int = _ROWS) -> Iterator[dict[str, object]]:
    """Rows of the table of one data set."""
    frame = dr.datasets.simulate_arena(n=n_rows, rng=1_000_000 + seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        full = dr.dml_rank(FORMULA, frame, **options(seed))
        yield from figures(seed, "full", full, full)
        yield from figures(seed, "never", extended(frame, 5, "never", seed)[0], full)
        if seed < _SEEDS["auto"]:
            result, n_refits = extended(frame, 1, "auto", seed)
            yield from figures(seed, "auto", result, full, n_refits)
        if seed < _SEEDS["folds"]:
            yield from figures(seed, "folds", dr.dml_rank(FORMULA, frame, **options(seed + 500_000)), full)
        if seed < _SEEDS["new model"]:
            later = without_new_model(frame)
            full = dr.dml_rank(FORMULA, later, **options(seed))
            yield from figures(seed, "full, new model", full, full)
            yield from figures(seed, "new model", extended(later, 6, "never", seed)[0], full)


def figures(
    seed: int, method: str, result: dr.RankResults, full: dr.RankResults, n_refits: int = 0
) -> Iterator[dict[str, object]]:
    """Coverage of the true scores, and distance from the fit of all rows, by functional."""
    for functional in FUNCTIONALS:
        own, other = result.update(functional=functional), full.update(functional=functional)
        true, interval = truth(functional), own.conf_int()
        difference = (own.params - other.params) / other.bse
        low, high = (other.params[NEW] + sign * 1.959964 * other.bse[NEW] for sign in (-1, 1))
        yield {
            "seed": seed,
            "functional": functional,
            "method": method,
            "covers": int(((interval.lower <= true) & (true <= interval.upper)).all()),
            "distance": difference.abs().mean(),
            "difference": difference[NEW] if "new" in method else difference[true.idxmax()],
            "width": (own.bse / other.bse).mean(),
            "mse": float(np.square(own.params - true).mean()),
            "refits": n_refits,
            "inside": int(low <= own.params[NEW] <= high),
        }


def run(seeds: int, path: pathlib.Path) -> None:
    """Run replications that the table does not hold, and append their rows as they come."""
    done = set(pd.read_csv(path).seed) if path.exists() else set()
    # Some seeds with all parts, then the seeds of coverage alone, from the last one down.
    for seed in sorted(range(seeds), key=lambda seed: (seed >= 20, -seed)):
        if seed in done:
            continue
        for row in replicate(seed):
            is_first = not path.exists()
            with open(path, "a", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, COLUMNS)
                if is_first:
                    writer.writeheader()
                writer.writerow(
                    {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
                )


def tables(path: pathlib.Path) -> pd.DataFrame:
    """A row per functional and method."""
    table, rows = pd.read_csv(path), []
    for (functional, method), group in table.groupby(["functional", "method"], sort=False):
        low, high = clopper_pearson(int(group.covers.sum()), len(group))
        full = "full, new model" if "new" in method else "full"
        reference = table[(table.functional == functional) & (table.method == full)]
        reference = reference[reference.seed.isin(group.seed)]
        rows.append(
            {
                "functional": functional,
                "method": method,
                "seeds": len(group),
                "coverage": group.covers.mean(),
                "low": low,
                "high": high,
                "distance": group.distance.mean(),
                "difference": group.difference.mean(),
                "width": group.width.mean(),
                "mse / full": group.mse.mean() / reference.mse.mean(),
                "refits": group.refits.mean(),
                "inside": group.inside.mean(),
            }
        )
    return pd.DataFrame(rows)


def measure_time(n_rows: int, path: pathlib.Path) -> None:
    """Time of a fit and of extensions by 1,000 rows, with one thread."""
    frame, rows = dr.datasets.simulate_arena(n=n_rows + 3000, rng=0), []
    for functional in FUNCTIONALS:
        start = time.process_time(), time.perf_counter()
        result = dr.dml_rank(FORMULA, frame.iloc[:n_rows], **{**options(0), "functional": functional})
        fit = time.process_time() - start[0], time.perf_counter() - start[1]
        for number in range(3):
            later = frame.iloc[n_rows + 1000 * number : n_rows + 1000 * (number + 1)]
            start = time.process_time(), time.perf_counter()
            result = result.extend(later)
            own = time.process_time() - start[0], time.perf_counter() - start[1]
            rows.append(
                {
                    "functional": functional,
                    "rows": n_rows + 1000 * number,
                    "extension": number + 1,
                    "fit_cpu": fit[0],
                    "extend_cpu": own[0],
                    "share_cpu": own[0] / fit[0],
                    "fit_wall": fit[1],
                    "extend_wall": own[1],
                    "share_wall": own[1] / fit[1],
                }
            )
    table = pd.DataFrame(rows).round(4)
    table.to_csv(path, index=False)
    print(table.to_string(index=False))


def year(n_first: int = 1000, by_day: int = 5, days: int = 365) -> None:
    """A year of daily extensions: memory of the process, refits, and the distance from one fit at the end."""
    frame = dr.datasets.simulate_arena(n=n_first + by_day * days, rng=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        result, refits = dr.dml_rank(FORMULA, frame.iloc[:n_first], **options(5)), []
        for day in range(days):
            start = n_first + by_day * day
            result = result.extend(frame.iloc[start : start + by_day])
            assert result.extension is not None
            if result.extension.refitted:
                refits.append(day + 1)
            if day % 60 == 0 or day == days - 1:
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                print(f"day {day + 1:3d}: {result.nobs:,} prompts, largest memory {memory:,.0f} MB", flush=True)
        full = dr.dml_rank(FORMULA, frame, **options(5))
    distance = ((result.params - full.params) / full.bse).abs().mean()
    print(f"trained on days {refits}; mean distance from one fit {distance:.3f} standard errors")


def main() -> None:
    """Run, tabulate or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "tables", "time", "year"))
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--path", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments.seeds, arguments.path)
    elif arguments.command == "tables":
        print(tables(arguments.path).round(3).to_string(index=False))
    elif arguments.command == "time":
        measure_time(arguments.rows, TIMES)
    else:
        year()


if __name__ == "__main__":
    main()
