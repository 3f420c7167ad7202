"""Whether the bits of a result depend on how it was computed: threads, workers, the order of the rows.

Every setting is a process of its own with its own number of threads, which computes all cases: the fits of
``same_numbers.py``, larger fits whose linear algebra a library divides among its threads, and what workers do beside
fits. The table has a row for each case and a column for each setting: "=" where all numbers and texts are those of the
first setting to the last bit, otherwise the largest difference relative to the largest number, and then the parts that
differ.

    python -m benchmarks.determinism                            # threads and the order of rows: a quarter of an hour
    python -m benchmarks.determinism --settings processes Dask  # workers of the user
    python -m benchmarks.determinism --cases bt "text, large" --settings "linear algebra 2"
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dmlrank as dr
from benchmarks import same_numbers

Numbers = dict[str, Any]


def _loky() -> Any:
    import loky

    return loky.ProcessPoolExecutor(2)


def _cluster() -> Any:
    from benchmarks.dask_clusters import local_cluster

    return local_cluster(2)


WORKERS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "threads": lambda: ThreadPoolExecutor(2),
    "processes": lambda: ProcessPoolExecutor(2, mp_context=get_context("spawn")),
    "loky": _loky,
    "Dask": _cluster,
}


@dataclass(frozen=True)
class Setting:
    """A way to compute.

    n_jobs: The option of every fit.
    threads: Threads of OpenMP and of the linear algebra, which the libraries read from the environment when they are
    loaded.
    is_shuffled: Whether the rows of each frame are in another order.
    workers: Kind of workers that carry out the tasks of all cases; empty for the threads of the package.
    """

    n_jobs: int | None = 1
    threads: int = 1
    is_shuffled: bool = False
    workers: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The variables that libraries read."""
        return {f"{library}_NUM_THREADS": str(self.threads) for library in ("OMP", "OPENBLAS", "MKL")}


SETTINGS: dict[str, Setting] = {
    "one thread": Setting(),
    "n_jobs 2": Setting(n_jobs=2),
    "n_jobs 4": Setting(n_jobs=4),
    "linear algebra 2": Setting(threads=2),
    "linear algebra 4": Setting(threads=4),
    "4 of each": Setting(n_jobs=4, threads=4),
    "other row order": Setting(is_shuffled=True),
    **{kind: Setting(n_jobs=None, workers=kind) for kind in WORKERS},
}


def _words(n: int) -> pd.Series:
    """Prompts of words that depend on the row number."""
    rng = np.random.default_rng(1)
    words = np.array([f"word{i}" for i in range(3000)])
    chosen = rng.zipf(1.3, size=(n, 12)) % len(words)
    return pd.Series([" ".join(words[row]) for row in chosen])


def _large(formula: str, n: int = 1500, **options: Any) -> Numbers:
    battles = same_numbers.arena(n)
    rng = np.random.default_rng(0)
    battles = battles.assign(prompt=_words(len(battles)))
    # Rounded, because the last bits of this product depend on the number of threads.
    features = rng.normal(size=(len(battles), 40)) @ rng.normal(size=(40, 40))
    battles[[f"z{i}" for i in range(40)]] = features.round(6)
    return same_numbers.of_result(same_numbers.fit(formula, battles, n_folds=2, **options))


def _many_models(functional: str, **options: Any) -> Numbers:
    rng = np.random.default_rng(2)
    n, n_models = 6_000, 120
    first = rng.integers(n_models, size=n)
    second = (first + rng.integers(1, n_models, size=n)) % n_models
    strength = np.linspace(-1, 1, n_models)
    wins = rng.random(n) < 1 / (1 + np.exp(strength[second] - strength[first]))
    battles = pd.DataFrame({"question_id": np.arange(n), "winner": np.where(wins, "model_a", "model_b")})
    battles["model_a"], battles["model_b"] = ([f"m{i:03d}" for i in side] for side in (first, second))
    result = same_numbers.fit(same_numbers.PLAIN, battles, functional=functional, min_labels=1, n_folds=2, **options)
    return {**same_numbers.of_result(result), "json": result.to_json()}


def _mean_preferences() -> Numbers:
    result = same_numbers.fit(functional="bt", average="preferences")
    return {**same_numbers.of_result(result), "groups": result.by("category").cov_params().to_numpy()}


def _plan() -> Numbers:
    # Plans from so many labels need a pass for each step, because the directions of labels depend on the prompt.
    plan = same_numbers.fit(functional="rank_centrality").design(500, from_scratch=True)
    return {"propensity": plan.propensity, "cov": plan.cov_params().to_numpy()}


def _files() -> Numbers:
    battles = same_numbers.arena()
    with tempfile.TemporaryDirectory() as folder:
        for number, start in enumerate(range(0, len(battles), 500)):
            battles[start : start + 500].to_parquet(Path(folder) / f"{number}.parquet", index=False)
        how = {"functional": "bt", "context": "question_id", "rng": 0, **same_numbers.OF_EVERY_FIT}
        return same_numbers.of_result(dr.dml_rank(same_numbers.FORMULA, folder, **how))


_NUMERIC = " + ".join(f"z{i}" for i in range(40))
CASES: dict[str, Callable[[], Numbers]] = {
    **{name: case for name, case in same_numbers.FITS.items() if not name.startswith("real")},
    "text, large": partial(_large, "winner ~ text(prompt, 30) | model_a + model_b"),
    "40 features, bt": partial(_large, f"winner ~ {_NUMERIC} | model_a + model_b", functional="bt", tune=None),
    "splines": partial(_large, "winner ~ bs(length, df=6) + standardize(z1) | model_a + model_b"),
    "bt_contextual": partial(
        _large, f"winner ~ {_NUMERIC} | model_a + model_b", functional="bt", estimator="bt_contextual"
    ),
    "120 models, bt": partial(_many_models, "bt"),
    "120 models, rank centrality": partial(_many_models, "rank_centrality"),
    "120 models, bt_mle": partial(_many_models, "bt", estimator="bt_mle"),
    "mean preferences, groups": _mean_preferences,
    "plan from scratch, rank centrality": _plan,
    "parquet files": _files,
}


def compute(name: str, setting: Setting) -> Numbers:
    """Return the numbers of a case, or the error that it raises."""
    same_numbers.OF_EVERY_FIT.update(n_jobs=setting.n_jobs)
    same_numbers.ROWS.update(is_shuffled=setting.is_shuffled)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            numbers = CASES[name]()
        except dr.DmlrankError as error:
            numbers = {"error": str(error)}
    return {**numbers, "warnings": "\n".join(str(warning.message) for warning in caught)}


def compute_all(cases: Sequence[str], setting: Setting) -> dict[str, Numbers]:
    """Return the numbers of all cases of a setting, on its workers if it has any."""
    with ExitStack() as stack:
        if setting.workers:
            stack.enter_context(dr.computing(executor=stack.enter_context(WORKERS[setting.workers]())))
        return {name: compute(name, setting) for name in cases}


def in_other_process(cases: Sequence[str], name: str) -> dict[str, Numbers]:
    """Return the numbers of all cases, computed by a process with the threads of a setting."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "numbers.pkl"
        words = [sys.executable, "-m", "benchmarks.determinism", "--cases", *cases]
        environment = os.environ | SETTINGS[name].environment
        subprocess.run([*words, "--settings", name, "--store", str(path)], check=True, env=environment)
        numbers: dict[str, Numbers] = pickle.loads(path.read_bytes())
    return numbers


def differences(first: Numbers, other: Numbers) -> dict[str, float]:
    """Return the largest relative difference of each part that is not the same to the last bit."""
    parts = {**first, **other}
    return {
        part: same_numbers.difference(first.get(part, ""), other.get(part))
        for part in parts
        if not _are_same_bits(first.get(part), other.get(part))
    }


def _are_same_bits(first: Any, other: Any) -> bool:
    if isinstance(first, np.ndarray) and isinstance(other, np.ndarray):
        return first.dtype == other.dtype and first.shape == other.shape and first.tobytes() == other.tobytes()
    return bool(type(first) is type(other) and first == other)


def table(cases: Sequence[str], numbers: Mapping[str, Mapping[str, Numbers]]) -> tuple[str, int]:
    """Return the table as text, and the number of cells that differ from the first setting."""
    reference, *others = numbers
    width = max(len(name) for name in cases) + 2
    lines = [" " * width + "".join(f"{name:>18s}" for name in others)]
    notes, n_different = [], 0
    for name in cases:
        cells = []
        for setting in others:
            gaps = differences(numbers[reference][name], numbers[setting][name])
            n_different += bool(gaps)
            cells.append(f"{max(gaps.values()):.0e}" if gaps else "=")
            if gaps:
                notes.append(f"{name}, {setting}: " + ", ".join(f"{part} {gap:.0e}" for part, gap in gaps.items()))
        lines.append(f"{name:{width}s}" + "".join(f"{cell:>18s}" for cell in cells))
    total = len(cases) * len(others)
    return "\n".join([*lines, "", *notes, f"{n_different} of {total} cells differ"]), n_different


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute every case in every setting and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS)[1:7], metavar="SETTING")
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.store is not None:
        given.store.write_bytes(pickle.dumps(compute_all(given.cases, SETTINGS[given.settings[0]])))
        return 0
    settings = ["one thread", *(name for name in given.settings if name != "one thread")]
    numbers = {}
    for name in settings:
        numbers[name] = in_other_process(given.cases, name)
        print(f"computed: {name}", file=sys.stderr, flush=True)
    text, n_different = table(given.cases, numbers)
    print(text)
    return int(n_different > 0)


if __name__ == "__main__":
    raise SystemExit(main())
