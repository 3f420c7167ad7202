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
import gc
import os
import pathlib
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from coverage import clopper_pearson

import dmlrank as dr
from dmlrank.exceptions import DmlrankWarning

RESULTS = pathlib.Path(__file__).parent / "results" / "extend.csv"
TIMES = pathlib.Path(__file__).parent / "results" / "extend_time.csv"
YEAR = pathlib.Path(__file__).parent / "results" / "extend_year.csv"
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
    """Time of a fit and of extensions by 1,000 rows, with one thread; the fit is timed before and after them.

    The shares are those of the mean of the two fits, so that a computer that is busy for a while changes both times.
    """
    frame, rows = dr.datasets.simulate_arena(n=n_rows + 3000, rng=0), []
    for functional in FUNCTIONALS:
        settings = {**options(0), "functional": functional}
        result, before = timed(lambda settings=settings: dr.dml_rank(FORMULA, frame.iloc[:n_rows], **settings))
        times = []
        for number in range(3):
            later = frame.iloc[n_rows + 1000 * number : n_rows + 1000 * (number + 1)]
            result, own = timed(lambda result=result, later=later: result.extend(later, refit="never"))
            times.append(own)
        _, after = timed(lambda settings=settings: dr.dml_rank(FORMULA, frame.iloc[:n_rows], **settings))
        fit = [(first + second) / 2 for first, second in zip(before, after, strict=True)]
        rows += [
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
            for number, own in enumerate(times)
        ]
    table = pd.DataFrame(rows).round(4)
    table.to_csv(path, index=False)
    print(table.to_string(index=False))


def timed(compute: Callable[[], dr.RankResults]) -> tuple[dr.RankResults, tuple[float, float]]:
    """Return a result with the seconds of processor time and of wall time that it took."""
    start = time.process_time(), time.perf_counter()
    result = compute()
    return result, (time.process_time() - start[0], time.perf_counter() - start[1])


def chain(
    frame: pd.DataFrame, *, n_first: int, by_day: int, days: int, settings: dict[str, object]
) -> Iterator[tuple[dr.RankResults, dict[str, object]]]:
    """Extend a fit day by day; yield the result of each day with what the extension took.

    Parameters
    ----------
    frame : DataFrame
        At least ``n_first + by_day * days`` rows.
    n_first, by_day, days : int
        Rows of the first fit, rows of a day, and number of days.
    settings : dict
        Options of the fit.
    """
    result = dr.dml_rank(FORMULA, frame.iloc[:n_first], **settings)
    for day in range(1, days + 1):
        start, time_before = n_first + by_day * (day - 1), time.process_time()
        result = result.extend(frame.iloc[start : start + by_day])
        seconds = time.process_time() - time_before
        assert result.extension is not None
        yield (
            result,
            {
                "day": day,
                "prompts": result.nobs,
                "trained": int(result.extension.refitted),
                "cpu_seconds": round(seconds, 4),
                "memory_mb": round(resident_memory(), 1),
            },
        )


def resident_memory() -> float:
    """Memory of this process, in MB."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def distances(result: dr.RankResults, frame: pd.DataFrame, settings: dict[str, object]) -> pd.Series:
    """Distance of a result from one fit of all rows, by model, in standard errors."""
    full = dr.dml_rank(FORMULA, frame, **settings)
    return ((result.params - full.params) / full.bse).abs()


def year(path: pathlib.Path, n_first: int = 1000, by_day: int = 2, days: int = 365) -> None:
    """A year of daily extensions: time and memory of every day, and the distance from one fit at the end."""
    frame = dr.datasets.simulate_arena(n=n_first + by_day * days, rng=5)
    with warnings.catch_warnings(), open(path, "w", newline="", encoding="utf-8") as file:
        warnings.simplefilter("ignore", DmlrankWarning)
        writer = csv.DictWriter(file, ("day", "prompts", "trained", "cpu_seconds", "memory_mb"))
        writer.writeheader()
        for day in chain(frame, n_first=n_first, by_day=by_day, days=days, settings=options(5)):
            writer.writerow(day[1])
            file.flush()
        distance = distances(day[0], frame, options(5))
    by_month = pd.read_csv(path).assign(month=lambda days: (days.day - 1) // 30 + 1)
    trained = by_month[by_month.trained == 1]
    scored = by_month[by_month.trained == 0].groupby("month")[["prompts", "cpu_seconds", "memory_mb"]].median()
    print(scored.round(3).to_string())
    print(f"trained on the days {trained.day.tolist()}, in {trained.cpu_seconds.mean():.2f} s")
    print(f"distance from one fit at the end: mean {distance.mean():.3f}, largest {distance.max():.3f} standard errors")


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
        year(YEAR if arguments.path == RESULTS else arguments.path)


if __name__ == "__main__":
    main()
