"""The same fits on the package's threads and on the user's workers: equal bits, and the time that workers save.

``bits`` fits twelve settings with one thread, two threads, an executor of threads, spawned processes, and Dask clusters
of one, two and three workers, one of which is started again between fits, and compares the bits of scores, covariance
and influence values. ``time`` fits a large arena with one and with two spawned processes, in turn.

    python benchmarks/executors.py bits
    python benchmarks/executors.py time --contexts 135000 --items 53
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

import dmlrank as dr
from benchmarks.growth import Setting, draw_battles
from dmlrank.exceptions import DmlrankWarning

FORMULA = "winner ~ C(category) + length | model_a + model_b"
Fit = Callable[..., dr.RankResults]


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
    "judge among the features": {"judge": "verdict", "judge_as": "features"},
    "clusters": {"cov_type": "cluster", "cov_kwds": {"groups": "topic"}},
    "three repetitions": {"n_rep": 3},
    "random search": {"tune": "random"},
    "restricted": {"estimator": "bt_restricted", "functional": "bt", "position_bias": False},
}


def numbers(result: dr.RankResults, *, grouped: bool) -> list[np.ndarray]:
    """Return what is compared: scores, covariance and influence values, and scores by category for one setting."""
    arrays = [result.params.to_numpy(), np.asarray(result.cov_params()), result.steps.influence.centred]
    if grouped:
        groups = result.by("category")
        arrays += [groups.params.to_numpy(), np.asarray(groups.cov_params())]
    return arrays


@contextmanager
def dask_workers(n: int) -> Iterator[Any]:
    """Start a cluster of n worker processes."""
    import distributed

    options = {"dashboard_address": ":0", "worker_dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=n, threads_per_worker=1, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def executors() -> Iterator[dict[str, Any]]:
    """Start all kinds of workers."""
    spawn = multiprocessing.get_context("spawn")
    with (
        ThreadPoolExecutor(2) as threads,
        ProcessPoolExecutor(2, mp_context=spawn) as processes,
        dask_workers(1) as one,
        dask_workers(2) as two,
        dask_workers(3) as three,
    ):
        yield {"threads": threads, "processes": processes, "Dask, 1": one, "Dask, 2": two, "Dask, 3": three}


def compare_bits(n: int, names: list[str]) -> bool:
    """Print a row for each setting; return whether all bits are equal."""
    battles = judged(dr.datasets.simulate_arena(n=n, rng=0))
    all_equal = True
    with executors() as workers:
        for number, name in enumerate(names):
            options = {"context": "question_id", "rng": 0} | SETTINGS[name]

            def fit(options: dict[str, Any] = options, **where: Any) -> list[np.ndarray]:
                return numbers(dr.dml_rank(FORMULA, battles, **options, **where), grouped=options.get("n_rep") is None)

            expected = fit(n_jobs=1)
            row: dict[str, Any] = {"fit": name}
            places: dict[str, dict[str, Any]] = {"n_jobs=2": {"n_jobs": 2}}
            places |= {kind: {"executor": executor} for kind, executor in workers.items()}
            for kind, where in places.items():
                equal = all(map(np.array_equal, expected, fit(**where)))
                row[kind] = "same" if equal else "DIFFERENT"
                all_equal &= equal
            workers["Dask, 3"].restart()
            equal = all(map(np.array_equal, expected, fit(executor=workers["Dask, 3"])))
            row["restarted"] = "same" if equal else "DIFFERENT"
            all_equal &= equal
            print(pd.DataFrame([row]).to_string(index=False, header=number == 0), flush=True)
    return all_equal


def compare_times(setting: Setting, repeats: int) -> None:
    """Print the seconds of a fit with one and with two spawned processes, and their ratio, in turn."""
    battles = draw_battles(setting, np.random.default_rng(0))
    formula = f"winner ~ {' + '.join(f'f{f}' for f in range(setting.features))} | model_a + model_b"
    spawn, seconds, scores = multiprocessing.get_context("spawn"), [], []
    for _ in range(repeats):
        turn = []
        for n_workers in (1, 2):
            with ProcessPoolExecutor(n_workers, mp_context=spawn) as executor:
                list(executor.map(abs, range(8 * n_workers)))  # processes are started outside of the time
                start = time.perf_counter()
                result = dr.dml_rank(
                    formula, battles, functional="bt", graph="complete", rng=0, n_jobs=1, executor=executor
                )
                turn.append(time.perf_counter() - start)
                scores.append(result.params.to_numpy())
        seconds.append(turn)
        print(f"one worker {turn[0]:.1f} s, two workers {turn[1]:.1f} s, ratio {turn[0] / turn[1]:.2f}", flush=True)
    same = all(np.array_equal(scores[0], other) for other in scores)
    print(
        f"median ratio {np.median([one / two for one, two in seconds]):.2f}; scores {'the same' if same else 'DIFFER'}"
    )


def main() -> int:
    """Run one of the comparisons."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("bits", "time"))
    parser.add_argument("--fits", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--contexts", type=int, help="number of prompts (bits: 1500; time: 135000)")
    parser.add_argument("--items", type=int, default=53)
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DmlrankWarning)
    if arguments.what == "bits":
        return 0 if compare_bits(arguments.contexts or 1500, arguments.fits) else 1
    compare_times(Setting(arguments.contexts or 135_000, arguments.items, 12), arguments.repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
