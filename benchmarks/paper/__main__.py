"""The command line of the paper's experiments."""

from __future__ import annotations

import argparse
import os
import sys

# Processes share the cores; threads within each would only wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from . import arena, collection, debiasing, judges, misspecification, mt_bench
from .tables import Experiment, missing_tasks, run_missing
from .ways import WAYS

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        debiasing.EXPERIMENT,
        judges.EXPERIMENT,
        collection.EXPERIMENT,
        misspecification.EXPERIMENT,
        arena.EXPERIMENT,
        mt_bench.EXPERIMENT,
        debiasing.OPEN_CHOICES,
        misspecification.SHRINKAGE,
    )
}


def main() -> int:
    """Compute what is missing, write tables or draw figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument(
        "what",
        nargs="+",
        choices=[*EXPERIMENTS, "all", "tables", "figures"],
        help="experiments, or the tables and figures of docs/paper.md from the rows that exist",
    )
    parser.add_argument("--seeds", type=int, help="runs of each experiment (default: the paper's number)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    chosen = [experiment for name, experiment in EXPERIMENTS.items() if name in given.what or "all" in given.what]
    if chosen:
        run_missing(missing_tasks(chosen, given.ways, given.seeds), given.processes)
    if "tables" in given.what:
        from . import report

        report.write_tables()
    if "figures" in given.what:
        from . import figures

        print(*figures.draw_all(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
