"""Time of a random search for LightGBM's hyperparameters, and what the loss of every round would add to it.

The search of :class:`dmlrank.RandomSearch` computes the held-out loss of a configuration after its last round only.
This benchmark runs every configuration twice, one directly after the other: as the package does it, and with
``lightgbm.cv``, which computes the loss after every round. It also checks that both have the same losses. The rows are
votes of the paper's tie simulator, in a single thread.

    python -m benchmarks.search_time
    python -m benchmarks.search_time --contexts 1100 --features 20
"""

from __future__ import annotations

import argparse
import os
import time

# More threads would only wait for one another on data of this size.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import lightgbm as lgb
import numpy as np
import pandas as pd

import dmlrank as dr
from dmlrank.nuisance.boosting import BinnedRows, draw_inner_folds, fixed_parameters, loss_after_last_round
from dmlrank.nuisance.training_rows import TrainingRows


def training_rows(contexts: int, features: int, rng: np.random.Generator) -> TrainingRows:
    """Return the votes of a simulated sample as rows [x, first, second]."""
    votes = dr.datasets.Ties(n_features=features).sample(contexts, rng=rng).dropna(subset=["model_a", "model_b"])
    models = sorted({*votes["model_a"], *votes["model_b"]})
    codes = [pd.Categorical(votes[side], models).codes for side in ("model_a", "model_b")]
    x = votes[[f"x{place}" for place in range(features)]].to_numpy()
    label = pd.Categorical(votes["winner"]).codes.astype(np.intp)
    return TrainingRows(np.column_stack([x, *codes]), label, np.ones(len(votes)), votes["question_id"].to_numpy(int))


def compare(rows: TrainingRows, search: dr.RandomSearch, rng: np.random.Generator) -> pd.DataFrame:
    """Return rounds, losses, and CPU seconds with the loss of the last and of every round, by configuration."""
    binned = BinnedRows.of(rows, search, has_items=True)
    fixed, folds = fixed_parameters(int(rows.label.max()) + 1, 0, 1), draw_inner_folds(binned.unit, rng, search.n_folds)
    table = []
    for place, draw in enumerate(search.draws(rng)):
        rounds = int(draw.pop("num_iterations"))  # type: ignore[arg-type]
        parameters, row = {**fixed, **draw, "bagging_freq": 1}, {"rounds": rounds}
        # The order alternates, so that neither way always finds the rows in the processor's cache.
        for name in ("last", "every") if place % 2 else ("every", "last"):
            start = time.process_time()
            if name == "last":
                loss = loss_after_last_round(parameters, rounds, binned.dataset, folds)
            else:
                history = lgb.cv(parameters, binned.dataset, num_boost_round=rounds, folds=folds)
                loss = next(values for key, values in history.items() if key.endswith("-mean"))[-1]
            row |= {f"{name}_seconds": time.process_time() - start, f"{name}_loss": loss}
        table.append(row)
    return pd.DataFrame(table)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contexts", type=int, default=500, help="contexts, which have 1.7 votes each on average")
    parser.add_argument("--features", type=int, default=2)
    given, rng = parser.parse_args(), np.random.default_rng(0)
    rows, search = training_rows(given.contexts, given.features, rng), dr.RandomSearch(30, 3, "debiasing")
    table = compare(rows, search, rng)
    last, every, boosters = table["last_seconds"].sum(), table["every_seconds"].sum(), search.n_folds * len(table)
    print(f"{len(rows.label)} training rows, {boosters} boosters with {table['rounds'].mean():.0f} rounds on average")
    print(f"search: {last:.1f} s of CPU time; with the loss of every round {every / last:.2f} times as long")
    print(f"largest difference of the losses: {(table['last_loss'] - table['every_loss']).abs().max():.1e}")


if __name__ == "__main__":
    main()
