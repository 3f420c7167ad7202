"""Tables that grow: tasks whose rows a file holds already are skipped, and finished tasks are written at once."""

from __future__ import annotations

import csv
import multiprocessing
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import pandas as pd

import dmlrank as dr

RESULTS = pathlib.Path(__file__).parents[1] / "results"


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment.

    name: Its rows are in ``paper_<name>.csv``.
    key: Columns that identify a task, the seed among them. A task is a tuple of their values.
    columns: The further columns.
    seeds: Runs in the paper.
    tasks: ``tasks(seed, way)`` lists the tasks of a seed in one of the two ways.
    run: ``run(task)`` returns the rows of a task without its key; ``run(task, small=True)`` those of a tiny version.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    seeds: int
    tasks: Callable[[int, str], Iterable[tuple[Any, ...]]]
    run: Callable[..., list[dict[str, object]]]

    def path(self, folder: pathlib.Path = RESULTS) -> pathlib.Path:
        """Return the file of the rows."""
        return folder / f"paper_{self.name}.csv"

    def done(self, folder: pathlib.Path = RESULTS) -> set[tuple[str, ...]]:
        """Return the tasks whose rows the file holds, their values as text."""
        path = self.path(folder)
        if not path.exists():
            return set()
        keys = pd.read_csv(path, usecols=list(self.key), dtype=str, keep_default_na=False)
        return set(keys[list(self.key)].drop_duplicates().itertuples(index=False, name=None))

    def rows(self, folder: pathlib.Path = RESULTS) -> pd.DataFrame:
        """Return all rows."""
        return pd.read_csv(self.path(folder))

    def append(self, task: tuple[Any, ...], rows: Iterable[dict[str, object]], folder: pathlib.Path = RESULTS) -> None:
        """Write the rows of a task."""
        path = self.path(folder)
        is_new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, self.key + self.columns, lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerows(dict(zip(self.key, task, strict=True)) | row for row in rows)


def as_text(task: tuple[Any, ...]) -> tuple[str, ...]:
    """Return a task as the file spells it."""
    return tuple(str(value) for value in task)


def timed_rows(experiment: Experiment, task: tuple[Any, ...]) -> tuple[list[dict[str, object]], float]:
    """Run a task; its CPU time in seconds is returned beside its rows."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        rows = experiment.run(task)
    return rows, time.process_time() - start


def missing_tasks(
    experiments: Sequence[Experiment], ways: Sequence[str], seeds: int | None, folder: pathlib.Path = RESULTS
) -> list[tuple[Experiment, tuple[Any, ...]]]:
    """Return what is still to be computed.

    Seeds are the outermost loop, so that every finished seed counts. An experiment with fewer runs in the paper comes
    in proportion: all experiments are complete at about the same time.
    """
    missing = []
    for place, experiment in enumerate(experiments):
        done, total = experiment.done(folder), min(seeds or experiment.seeds, experiment.seeds)
        for seed in range(total):
            for way in ways:
                tasks = [task for task in experiment.tasks(seed, way) if as_text(task) not in done]
                missing += [((seed + 1) / total, way != "default", place, experiment, task) for task in tasks]
    missing.sort(key=lambda entry: entry[:3])
    return [entry[3:] for entry in missing]


def run_missing(tasks: Sequence[tuple[Experiment, tuple[Any, ...]]], processes: int) -> None:
    """Run tasks and write their rows as they come."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        futures = {pool.submit(timed_rows, experiment, task): (experiment, task) for experiment, task in tasks}
        for count, future in enumerate(as_completed(futures), start=1):
            experiment, task = futures.pop(future)
            rows, seconds = future.result()
            experiment.append(task, rows)
            print(f"{count} of {len(tasks)}: {experiment.name} {task}, {seconds:.0f} s", file=sys.stderr, flush=True)
