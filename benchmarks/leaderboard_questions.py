"""What further questions of a leaderboard cost: mean preferences and scores by tag.

The fit has 135,000 battles of 53 models with four outcomes. Each question is asked of the same fit, without training.

    OMP_NUM_THREADS=1 python benchmarks/leaderboard_questions.py
    OMP_NUM_THREADS=1 python benchmarks/leaderboard_questions.py --contexts 20000 --models 20
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from growth import Setting, draw_battles

import dmlrank as dr
from dmlrank.exceptions import DmlrankWarning
from dmlrank.options import in_objects

N_TAGS = 30


def timed(name: str, work: Callable[[], Any]) -> Any:
    """Print clock and processor seconds of a function and the peak of memory so far, and return its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{name:44} clock {wall:7.1f} s, CPU {cpu:7.1f} s, peak {peak:5.2f} GB", flush=True)
    return result


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", type=int, default=135_000)
    parser.add_argument("--models", type=int, default=53)
    parser.add_argument("--features", type=int, default=12)
    parser.add_argument("--binary", action="store_true")
    arguments = parser.parse_args()
    setting = Setting(arguments.contexts, arguments.models, arguments.features, arguments.binary)
    frame = draw_battles(setting, np.random.default_rng(0))
    features = [f"f{f}" for f in range(setting.features)]
    formula = f"winner ~ {' + '.join(features)} | model_a + model_b"
    # Thirty tags that overlap: each holds the prompts with a large or a small value of one feature.
    tags = {}
    for number in range(N_TAGS):
        column = frame[features[number % len(features)]].to_numpy()
        cut = 0.5 if setting.binary else np.quantile(column, (0.8, 0.1, 0.6)[number // len(features)])
        tags[f"tag {number:02d}"] = column > cut if number % 2 else column <= cut
    warnings.simplefilter("ignore", DmlrankWarning)
    options = {"functional": "bt", "graph": "complete", "rng": 0, "n_jobs": 1}
    fit = timed("fit, average='scores'", lambda: dr.dml_rank(formula, frame, **in_objects(options)))
    for average in ("scores", "preferences"):
        result = timed(f"update(average={average!r})", lambda average=average: fit.update(average=average))
        groups = timed(f"by(30 tags), {average}", lambda result=result: result.by(tags))
        timed("  simultaneous intervals of all tags", groups.conf_int)
        timed("  summary", lambda groups=groups: str(groups.summary()))


if __name__ == "__main__":
    main()
