"""The same fits on the package's threads and on the user's workers: equal bits, and the time that workers save.

``bits`` computes fifteen fits, groups and plans, one of them from parquet files, with one thread, two
threads, an executor of threads, spawned processes, loky's processes, Dask clusters of one, two and three workers, with
restarted workers, and with Dask workers started by hand, and compares the bits of all numbers. ``lost`` ends a worker
process in each stage of a fit and compares the bits. ``time`` fits a large arena with one and with two spawned
processes, in turn.

    python -m benchmarks.executors bits
    python -m benchmarks.executors lost
    python -m benchmarks.executors time --contexts 135000 --items 53
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dmlrank as dr
from benchmarks.dask_clusters import ending_a_worker, local_cluster, workers_by_hand
from benchmarks.growth import Setting, draw_battles
from dmlrank.exceptions import DmlrankWarning
from dmlrank.options import in_objects

FORMULA = "winner ~ C(category) + length | model_a + model_b"


def judged(battles: pd.DataFrame) -> pd.DataFrame:
    """Add a judge that agrees with three of four votes."""
    rng = np.random.default_rng(1)
    other = rng.permutation(battles["winner"].to_numpy())
    verdict = np.where(rng.random(len(battles)) < 0.75, battles["winner"], other)
    return battles.assign(verdict=verdict, topic=rng.integers(60, size=len(battles)))


SETTINGS: dict[str, dict[str, Any]] = {
    "borda": {},
    "bt": {"functional": "bt"},
    "rank centrality": {"functional": "rank_centrality"},
    "order matters": {"position_bias": True},
    "order does not matter": {"position_bias": False, "functional": "bt"},
    "mean preferences": {"average": "preferences", "functional": "bt"},
    "judge": {"judge": "verdict", "functional": "bt"},
    "judge, no order": {"judge": "verdict", "functional": "bt", "position_bias": False},
    "clusters": {"cov_type": "cluster", "cov_kwds": {"groups": "topic"}},
    "three repetitions": {"n_rep": 3},
    "random search": {"tune": "random"},
    "restricted": {"estimator": "bt_restricted", "functional": "bt", "position_bias": False},
    "plan": {"functional": "bt"},
    "plan, rank centrality": {"functional": "rank_centrality"},
    "parquet": {"functional": "bt"},
}
# Files into which the votes of the setting "parquet" are divided.
N_FILES = 3
# Plans from so many labels need a pass for each step, because the directions of labels depend on the prompt.
BUDGET = 500
# Stages in which a worker is ended, and the setting whose fit has them.
STAGES = {
    "settings of mu": "bt",
    "settings of the propensity": "bt",
    "folds of mu": "many labels",
    "folds of the propensity": "many labels",
    "scores of contexts": "bt",
    "mean preferences of contexts": "mean preferences",
    "scores of groups": "mean preferences",
    "prompts of a plan": "plan, rank centrality",
}
KINDS = (
    "n_jobs=2",
    "threads",
    "processes",
    "loky",
    "Dask, 1",
    "Dask, 2",
    "Dask, 3",
    "Dask, restarted",
    "Dask, by hand",
)
# From so many labelled pairs on, folds are tasks of their own.
MANY_LABELS = 42_000


def arrays_of(result: dr.RankResults) -> list[np.ndarray]:
    """Return scores, covariance and influence values of a fit."""
    return [result.params.to_numpy(), np.asarray(result.cov_params()), result.steps.influence.centred]


def numbers(name: str, battles: pd.DataFrame, *, n_jobs: int | None = None, executor: Any = None) -> list[np.ndarray]:
    """Return the numbers of a setting that are compared: those of the fit, and of its groups or plan.

    Parameters
    ----------
    name : str
        Name of the setting.
    battles : DataFrame
    n_jobs : int, optional
        Number of threads.
    executor : object, optional
        Workers of all computations.
    """
    options = {"context": "question_id", "rng": 0, "min_labels": 1, "n_folds": 3} | SETTINGS.get(name, {})
    if name == "parquet":
        with tempfile.TemporaryDirectory() as folder:
            write_files(battles, Path(folder))
            return numbers_of(name, folder, options, n_jobs=n_jobs, executor=executor)
    if name == "restricted":
        battles = battles[battles["winner"].isin(["model_a", "model_b"])]
    return numbers_of(name, battles, options, n_jobs=n_jobs, executor=executor)


def write_files(battles: pd.DataFrame, folder: Path) -> None:
    """Write votes to parquet files of a folder, in their order."""
    for number, rows in enumerate(np.array_split(np.arange(len(battles)), N_FILES)):
        battles.iloc[rows].to_parquet(folder / f"{number}.parquet", index=False)


def numbers_of(
    name: str, battles: Any, options: dict[str, Any], *, n_jobs: int | None, executor: Any
) -> list[np.ndarray]:
    """Return the numbers of :func:`numbers` for votes in a frame or in parquet files.

    Parameters
    ----------
    name : str
        Name of the setting.
    battles : DataFrame or str
        The votes, or the folder of their files.
    options : dict
        Options of the fit.
    n_jobs : int or None
        Number of threads.
    executor : object or None
        Workers of all computations.
    """
    with nullcontext() if executor is None else dr.computing(executor=executor):
        result = dr.dml_rank(FORMULA, battles, **in_objects({**options, "n_jobs": n_jobs}))
        arrays = arrays_of(result)
        if name.startswith("plan"):
            plan = result.design(BUDGET, from_scratch=True)
            arrays += [plan.propensity, plan.cov_params().to_numpy()]
        elif name != "three repetitions":
            groups = result.by("category")
            arrays += [groups.params.to_numpy(), np.asarray(groups.cov_params())]
    return arrays


@contextmanager
def restarted_cluster() -> Iterator[Any]:
    """Start a cluster of three workers, end all of them, and start three others."""
    with local_cluster(3) as client:
        client.cluster.scale(0)
        while client.nthreads():
            time.sleep(0.2)
        client.cluster.scale(3)
        # On a busy machine three processes take minutes to start.
        client.wait_for_workers(3, timeout=900)
        yield client


@contextmanager
def place(kind: str) -> Iterator[dict[str, Any]]:
    """Start workers of one kind, and yield the arguments of :func:`numbers` that use them."""
    import loky

    if kind == "n_jobs=2":
        yield {"n_jobs": 2}
        return
    spawn = multiprocessing.get_context("spawn")
    start: dict[str, Callable[[], Any]] = {
        "threads": lambda: ThreadPoolExecutor(2),
        "processes": lambda: ProcessPoolExecutor(2, mp_context=spawn),
        "loky": lambda: loky.ProcessPoolExecutor(2),
        "Dask, 1": lambda: local_cluster(1),
        "Dask, 2": lambda: local_cluster(2),
        "Dask, 3": lambda: local_cluster(3),
        "Dask, restarted": restarted_cluster,
        "Dask, by hand": lambda: workers_by_hand(2),
    }
    with start[kind]() as executor:
        yield {"executor": executor}


def are_equal(expected: list[np.ndarray], found: list[np.ndarray]) -> bool:
    """Return whether all bits are equal."""
    return all(np.array_equal(one, other, equal_nan=True) for one, other in zip(expected, found, strict=True))


def compare_bits(n: int, names: list[str], kinds: list[str], output: str | None) -> bool:
    """Print a row for each kind of workers and setting, then a table; return whether all bits are equal.

    Parameters
    ----------
    n : int
        Number of prompts.
    names, kinds : list of str
        Settings, and kinds of workers.
    output : str or None
        csv file that the table is written to.
    """
    battles = judged(dr.datasets.simulate_arena(n=n, rng=0))
    expected: dict[str, list[np.ndarray]] = {}
    table = pd.DataFrame("", index=names, columns=kinds)
    for kind in kinds:
        with place(kind) as where:
            for name in names:
                if name not in expected:
                    # A fit of parquet files is compared with the fit of the same votes in memory.
                    expected[name] = numbers(name, battles, n_jobs=1)
                is_equal = are_equal(expected[name], numbers(name, battles, **where))
                table.loc[name, kind] = "same" if is_equal else "DIFFERENT"
                print(f"{kind:16} {name:26} {table.loc[name, kind]}", flush=True)
        if output:
            table.to_csv(output, index_label="fit")
    print(table.to_string())
    return bool((table == "same").all(axis=None))


def compare_with_lost_workers(n: int, stages: list[str]) -> bool:
    """End a worker in each stage, print a row for each; return whether a worker ended and all bits are equal."""
    all_equal = True
    battles = {False: judged(dr.datasets.simulate_arena(n=n, rng=0))}
    expected: dict[str, list[np.ndarray]] = {}
    for number, stage in enumerate(stages):
        name = STAGES[stage]
        is_large = name == "many labels"
        if is_large and is_large not in battles:
            battles[is_large] = judged(dr.datasets.simulate_arena(n=MANY_LABELS, rng=0))
        if name not in expected:
            expected[name] = numbers(name, battles[is_large], n_jobs=1)
        with local_cluster(2) as client, ending_a_worker(client, stage) as ending:
            is_equal = are_equal(expected[name], numbers(name, battles[is_large], executor=client))
        row = {
            "stage": f"{stage:30}",
            "fit": f"{name:24}",
            "worker ended": bool(ending.ended),
            "bits": "same" if is_equal else "DIFFERENT",
        }
        all_equal &= is_equal and bool(ending.ended)
        print(pd.DataFrame([row]).to_string(index=False, header=number == 0), flush=True)
    return all_equal


def compare_times(setting: Setting, repeats: int) -> None:
    """Print the seconds of a fit with one and with two spawned processes, in turn, and the load of the machine.

    Other programs on the machine make a fit longer, never shorter: the shortest of several times counts.
    """
    battles = draw_battles(setting, np.random.default_rng(0))
    formula = f"winner ~ {' + '.join(f'f{f}' for f in range(setting.features))} | model_a + model_b"
    options = {"functional": "bt", "pairs": dr.Pairs(graph="complete"), "rng": 0, "n_jobs": 1}
    for number in range(repeats):
        for n in (1, 2) if number % 2 == 0 else (2, 1):
            with ProcessPoolExecutor(n, mp_context=multiprocessing.get_context("spawn")) as processes:
                list(processes.map(abs, range(8 * n)))
                start = time.perf_counter()
                with dr.computing(executor=processes):
                    dr.dml_rank(formula, battles, **options)
                clock = time.perf_counter() - start
            print(f"{n} workers: {clock:.1f} s; load of the machine {os.getloadavg()[0]:.1f}", flush=True)


def main() -> int:
    """Run one of the comparisons."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("bits", "lost", "time"))
    parser.add_argument("--fits", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="kinds of workers (bits)")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--contexts", type=int, help="number of prompts (bits, lost: 1500; time: 135000)")
    parser.add_argument("--output", help="csv file of the table (bits)")
    parser.add_argument("--items", type=int, default=53)
    parser.add_argument("--repeats", type=int, default=3, help="fits with one and with two workers (time)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DmlrankWarning)
    if arguments.what == "bits":
        return 0 if compare_bits(arguments.contexts or 1500, arguments.fits, arguments.kinds, arguments.output) else 1
    if arguments.what == "lost":
        return 0 if compare_with_lost_workers(arguments.contexts or 1500, arguments.stages) else 1
    compare_times(Setting(arguments.contexts or 135_000, arguments.items, 12), arguments.repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
