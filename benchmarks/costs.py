"""Time and memory of what is asked of a large fit, of tables of scores, of files of votes, and of a random search.

Each command is a process of its own, and prints seconds of the clock and of the processors and the largest memory so
far. ``questions``: groups and updates; ``plans``: a design on prompts that all differ, and the budget for a power;
``bounds``: sensitivity and fragility; ``scores``: pairs from tables of scores; ``files``: votes in parquet files;
``search``: a random search for the hyperparameters of LightGBM, which computes the held-out loss of a configuration
after its last round, and ``lightgbm.cv``, which computes it after every round, on votes of the paper's tie simulator.

    OMP_NUM_THREADS=1 python -m benchmarks.costs questions --binary
    python -m benchmarks.costs plans --models 52 --features 4
    python -m benchmarks.costs scores --models 60 --contexts 500
    python -m benchmarks.costs files --models 20 --features 64 --contexts 1000000
    OMP_NUM_THREADS=1 python -m benchmarks.costs search --contexts 500 --features 2
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd

import dmlrank as dr
from benchmarks.growth import Setting, draw_battles
from dmlrank.nuisance.boosting import BinnedRows, draw_inner_folds, fixed_parameters, loss_after_last_round
from dmlrank.nuisance.training_rows import TrainingRows

OPTIONS: dict[str, Any] = {"rng": 0, "n_jobs": 1}


def timed(name: str, work: Callable[[], Any]) -> Any:
    """Print clock and processor seconds of a function and the peak of memory so far, and return its result."""
    clock, cpu = time.perf_counter(), time.process_time()
    result = work()
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{name:44} clock {clock:7.2f} s, CPU {cpu:7.2f} s, peak {peak:5.2f} GB", flush=True)
    return result


def fit_of(setting: Setting, data: Any = None, **options: Any) -> dr.RankResults:
    """Fit drawn votes with all features."""
    data = draw_battles(setting, np.random.default_rng(0)) if data is None else data
    formula = f"winner ~ {' + '.join(f'f{f}' for f in range(setting.features)) or '1'} | model_a + model_b"
    return timed("fit", lambda: dr.dml_rank(formula, data, **{"functional": "bt"} | OPTIONS | options))


def questions(setting: Setting) -> None:
    """Mean preferences and scores, and both by thirty tags that overlap."""
    frame, tags = draw_battles(setting, np.random.default_rng(0)), [f"tag{number:02d}" for number in range(30)]
    for number, tag in enumerate(tags):
        column = frame[f"f{number % setting.features}"].to_numpy()
        cut = 0.5 if setting.binary else np.quantile(column, (0.8, 0.1, 0.6)[number // setting.features % 3])
        frame[tag] = column > cut if number % 2 else column <= cut
    fit = fit_of(setting, frame, pairs=dr.Pairs(graph="complete"))
    for average in ("scores", "preferences"):
        result = timed(f"update(average={average!r})", lambda average=average: fit.update(average=average))
        groups = timed(f"by(30 tags), {average}", lambda result=result: result.by(tags))
        timed("  simultaneous intervals of all tags", groups.conf_int)
        timed("  summary", lambda groups=groups: str(groups.summary()))


def plans(setting: Setting) -> None:
    """A plan, and the budget that shows a difference of the two best models 15 % smaller than what the plan shows."""
    fit = fit_of(setting, position_bias=False, pairs=dr.Pairs(min_labels=1))
    for functional in ("borda", "bt"):
        fit = fit.update(functional=functional)
        pair = fit.params.sort_values().index[:-3:-1]
        plan = timed(f"design, {functional}", lambda fit=fit: fit.design(setting.contexts / 4))
        gap = 0.85 * plan.smallest_gap(*pair)
        timed("for_power", lambda plan=plan, pair=pair, gap=gap: plan.for_power(*pair, difference=gap))


def bounds(setting: Setting) -> None:
    """Sensitivity of all neighbours and of one pair where two in five battles have no vote; fragility."""
    frame = draw_battles(setting, np.random.default_rng(0))
    frame.loc[np.random.default_rng(1).random(len(frame)) < 0.4, "winner"] = None
    fit = fit_of(setting, frame, position_bias=False)
    timed("sensitivity(), all neighbours", fit.sensitivity)
    timed("sensitivity of one pair", lambda: fit.sensitivity(" - ".join(fit.models[:2])))
    if not setting.features:
        timed("fragility()", fit.fragility)


def scores(setting: Setting) -> None:
    """Pairs of random scores of every model on every prompt."""
    n, k = setting.contexts, setting.items
    names, values = np.array([f"model-{item:03d}" for item in range(k)]), np.random.default_rng(0).random((n, k))
    table = pd.DataFrame({"prompt": np.repeat(np.arange(n), k), "model": [*names] * n, "score": values.ravel()})
    pairs = timed("pairs", lambda: dr.data.pairs_from_scores(table, prompt="prompt", model="model", score="score"))
    for functional in ("borda", "bt"):
        fit_of(replace(setting, features=0), pairs, functional=functional)


def files(setting: Setting) -> None:
    """Votes in parquet files of 100,000 rows; the files are written first, a part at a time."""
    with tempfile.TemporaryDirectory() as folder:
        for part, start in enumerate(range(0, setting.contexts, 100_000)):
            n = min(100_000, setting.contexts - start)
            size = Setting(n, setting.items, setting.features, setting.binary)
            frame = draw_battles(size, np.random.default_rng(part)).assign(prompt=np.arange(start, start + n))
            frame.to_parquet(Path(folder) / f"part-{part:05d}.parquet", index=False)
        fit_of(setting, folder, context="prompt")


def search(setting: Setting, draws: int = 30) -> pd.DataFrame:
    """Every configuration of a random search twice in turn: with the loss of the last round, and of every round."""
    rng, simulator = np.random.default_rng(0), dr.datasets.Ties(n_features=setting.features)
    votes = simulator.sample(setting.contexts, rng=rng).dropna(subset=["model_a", "model_b"])
    codes = [pd.Categorical(votes[side], simulator.models).codes for side in ("model_a", "model_b")]
    features = np.column_stack([votes[[f"x{place}" for place in range(setting.features)]].to_numpy(), *codes])
    label, unit = pd.Categorical(votes["winner"]).codes.astype(np.intp), votes["question_id"].to_numpy(int)
    spec = dr.RandomSearch(draws, 3, "debiasing")
    binned = BinnedRows.of(TrainingRows(features, label, np.ones(len(votes)), unit), spec)
    fixed, folds = fixed_parameters(int(label.max()) + 1, 0, 1), draw_inner_folds(binned.unit, rng, spec.n_folds)
    rows = []
    for place, drawn in enumerate(spec.draws(rng)):
        rounds = int(drawn.pop("num_iterations"))  # type: ignore[arg-type]
        parameters, row = {**fixed, **drawn, "bagging_freq": 1}, {"rounds": rounds}
        # The order alternates, so that neither way always finds the rows in the processor's cache.
        for name in ("last", "every") if place % 2 else ("every", "last"):
            start = time.process_time()
            if name == "last":
                loss = loss_after_last_round(parameters, rounds, binned.dataset, folds)
            else:
                history = lgb.cv(parameters, binned.dataset, num_boost_round=rounds, folds=folds)
                loss = next(values for key, values in history.items() if key.endswith("-mean"))[-1]
            row |= {f"{name}_seconds": time.process_time() - start, f"{name}_loss": loss}
        rows.append(row)
    table = pd.DataFrame(rows)
    print(f"{len(votes)} training rows; sums, CPU seconds among them:", table.sum().to_string(), sep="\n")
    return table


WORKS = {work.__name__: work for work in (questions, plans, bounds, scores, files, search)}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=WORKS)
    parser.add_argument("--contexts", type=int, default=135_000)
    parser.add_argument("--models", type=int, default=53)
    parser.add_argument("--features", type=int, default=12)
    parser.add_argument("--binary", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore", dr.DmlrankWarning)
    WORKS[given.what](Setting(given.contexts, given.models, given.features, given.binary))


if __name__ == "__main__":
    main()
