"""Peak memory of fits of parquet files, by the number of rows.

The files are written first, a part at a time. Every fit is a process of its own. ``peak_gb`` is the largest number of
bytes that the operating system counted as memory of the process ("maximum resident set size"): anonymous memory, and
pages of mapped files and libraries that were resident. The system can take the pages of files back at any time, but not
the anonymous memory. ``anonymous_gb`` is the largest amount of anonymous memory, read every 20 ms (Linux only). With
``--in-memory`` the same rows are fitted as an Arrow table, too.

    python benchmarks/larger_than_memory.py --rows 500000 1000000 2000000 --folds 2
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dmlrank as dr
from dmlrank.exceptions import DmlrankWarning

# Rows that are written at a time, to one file.
ROWS_PER_FILE = 100_000
# Seconds between two readings of the anonymous memory.
INTERVAL = 0.02
FIELDS = (
    "rows",
    "features",
    "models",
    "kind",
    "clock_s",
    "cpu_s",
    "peak_gb",
    "anonymous_gb",
    "first",
    "score",
    "std_error",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is fitted: one vote in every row, one row for every prompt."""

    folder: str
    features: int
    in_memory: bool = False
    folds: int = 5


def write_votes(folder: Path, n_rows: int, features: int, models: int, rows_per_file: int = ROWS_PER_FILE) -> None:
    """Write votes of which strengths depend on the first three features."""
    rng = np.random.default_rng(0)
    ability, slope = np.linspace(0.8, -0.8, models), rng.normal(0, 0.3, (3, models))
    names = np.array([f"model-{k:02d}" for k in range(models)])
    for part, start in enumerate(range(0, n_rows, rows_per_file)):
        b = min(rows_per_file, n_rows - start)
        x = rng.normal(size=(b, features)).astype(np.float32)
        first = rng.integers(0, models, b)
        second = (first + rng.integers(1, models, b)) % models
        strength = ability + x[:, :3] @ slope
        lead = strength[np.arange(b), first] - strength[np.arange(b), second]
        won = rng.random(b) < 1 / (1 + np.exp(-lead))
        label = np.where(rng.random(b) < 0.15, "tie", np.where(won, "model_a", "model_b"))
        columns = {
            "prompt": pa.array([f"p{row:09d}" for row in range(start, start + b)]),
            "model_a": pa.array(names[first]),
            "model_b": pa.array(names[second]),
            "winner": pa.array(label),
        } | {f"f{f:02d}": pa.array(x[:, f]) for f in range(features)}
        pq.write_table(pa.table(columns), folder / f"part-{part:05d}.parquet")


class AnonymousMemory(threading.Thread):
    """Reads the anonymous memory of this process again and again.

    Attributes
    ----------
    peak : int
        The largest number of bytes read; 0 on systems that do not say it.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._stopped = threading.Event()

    def run(self) -> None:
        if not sys.platform.startswith("linux"):
            return
        while not self._stopped.wait(INTERVAL):
            with open("/proc/self/status") as status:
                kilobytes = next(line.split()[1] for line in status if line.startswith("RssAnon"))
            self.peak = max(self.peak, 1024 * int(kilobytes))

    def __enter__(self) -> AnonymousMemory:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()


def measure(setting: Setting) -> dict[str, float | str]:
    """One fit in this process."""
    formula = f"winner ~ {' + '.join(f'f{f:02d}' for f in range(setting.features))} | model_a + model_b"
    start = time.perf_counter(), time.process_time()
    data = pq.read_table(setting.folder) if setting.in_memory else setting.folder
    with AnonymousMemory() as anonymous, warnings.catch_warnings():
        warnings.simplefilter("ignore", DmlrankWarning)
        res = dr.dml_rank(
            formula,
            data,
            context="prompt",
            functional="bt",
            learning=dr.Learning(n_folds=setting.folds),
            rng=0,
            n_jobs=1,
        )
    clock, cpu = np.subtract((time.perf_counter(), time.process_time()), start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    name = res.params.index[0]
    return {
        "clock_s": round(float(clock), 1),
        "cpu_s": round(float(cpu), 1),
        "peak_gb": round(peak / 1e9, 3),
        "anonymous_gb": round(anonymous.peak / 1e9, 3),
        "first": name,
        "score": float(res.params[name]),
        "std_error": float(res.bse[name]),
    }


def measure_apart(setting: Setting) -> dict[str, float | str]:
    """One fit in a fresh process."""
    command = [sys.executable, __file__, "--one", json.dumps(asdict(setting))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    result: dict[str, float | str] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[500_000, 1_000_000, 2_000_000])
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--in-memory", action="store_true", help="fit the same rows as an Arrow table, too")
    parser.add_argument("--output", help="csv file to which a line is added after every fit")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(Setting(**json.loads(arguments.one)))))
        return
    with open(arguments.output, "a", newline="") if arguments.output else sys.stdout as output:
        writer = csv.DictWriter(output, FIELDS)
        writer.writeheader()
        for n_rows in arguments.rows:
            with tempfile.TemporaryDirectory() as folder:
                write_votes(Path(folder), n_rows, arguments.features, arguments.models)
                for in_memory in [False, True] if arguments.in_memory else [False]:
                    setting = Setting(folder, arguments.features, in_memory, arguments.folds)
                    size = {"rows": n_rows, "features": arguments.features, "models": arguments.models}
                    kind = "in memory" if in_memory else "parquet"
                    writer.writerow(size | {"kind": kind} | measure_apart(setting))
                    output.flush()


if __name__ == "__main__":
    main()
