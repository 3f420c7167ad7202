"""Time of a random search for LightGBM's hyperparameters, and what the loss of every round would add to it.

The search of :class:`dmlrank.RandomSearch` computes the held-out loss of a configuration after its last round only.
This benchmark runs every configuration twice, one directly after the other: as the package does it, and with
``lightgbm.cv``, which computes the loss after every round. It also checks that both have the same losses. The rows are
votes of the paper's tie simulator, in a single thread.

    python benchmarks/search_time.py
    python benchmarks/search_time.py --contexts 1100 --features 20
"""

from __future__ import annotations

import argparse
import os
import sys
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
    simulator = dr.datasets.Ties(n_features=features)
    votes = simulator.sample(contexts, rng=rng).dropna(subset=["model_a", "model_b"])
    models = sorted({*votes["model_a"], *votes["model_b"]})
    codes = [pd.Categorical(votes[side], models).codes for side in ("model_a", "model_b")]
    x = votes[[f"x{place}" for place in range(features)]].to_numpy()
    label = pd.Categorical(votes["winner"]).codes.astype(np.intp)
    return TrainingRows(np.column_stack([x, *codes]), label, np.ones(len(votes)), votes["question_id"].to_numpy(int))


def compare(rows: TrainingRows, search: dr.RandomSearch, rng: np.random.Generator) -> pd.DataFrame:
    """Return a row for each configuration: rounds, losses, and CPU seconds with the loss of the last and of each round.

    Parameters
    ----------
    rows : TrainingRows
        Training rows of one fold of a fit.
    search : RandomSearch
        What is drawn.
    rng : Generator
        Draws inner folds and configurations.
    """
    binned = BinnedRows.of(rows, search, has_items=True)
    fixed = fixed_parameters(int(rows.label.max()) + 1, 0, 1)
    folds = draw_inner_folds(binned.unit, rng, search.n_folds)
    table = []
    for place, draw in enumerate(search.draws(rng)):
        rounds = int(draw.pop("num_iterations"))  # type: ignore[arg-type]
        parameters = {**fixed, **draw, "bagging_freq": 1}
        row: dict[str, float] = {"rounds": rounds}
        ways = ["last", "every"]
        # The order alternates, so that neither way always finds the rows in the processor's cache.
        for name in ways if place % 2 else ways[::-1]:
            start = time.process_time()
            if name == "last":
                loss = loss_after_last_round(parameters, rounds, binned.dataset, folds)
            else:
                history = lgb.cv(parameters, binned.dataset, num_boost_round=rounds, folds=folds)
                loss = next(values for key, values in history.items() if key.endswith("-mean"))[-1]
            row[f"{name}_seconds"], row[f"{name}_loss"] = time.process_time() - start, loss
        table.append(row)
    return pd.DataFrame(table)


def summary(table: pd.DataFrame, n_rows: int, n_folds: int) -> str:
    """Return the figures of a comparison as text.

    Parameters
    ----------
    table : DataFrame
        What :func:`compare` returns.
    n_rows : int
        Number of training rows.
    n_folds : int
        Number of inner folds.
    """
    last, every = table["last_seconds"].sum(), table["every_seconds"].sum()
    boosters, rounds = n_folds * len(table), table["rounds"]
    longest = table[rounds == rounds.max()]
    return "\n".join(
        [
            f"{n_rows} training rows, {len(table)} configurations, {n_folds} inner folds: {boosters} boosters with "
            f"{rounds.mean():.0f} rounds on average",
            f"search: {last:.1f} s of CPU time, {1e3 * last / (n_folds * rounds.sum()):.2f} ms a round",
            f"a configuration with {rounds.max()} rounds: {longest['last_seconds'].mean():.2f} s, with the loss of "
            f"every round {longest['every_seconds'].mean():.2f} s",
            f"search with the loss of every round / of the last round: {every / last:.2f}",
            f"largest difference of the losses: {(table['last_loss'] - table['every_loss']).abs().max():.1e}",
        ]
    )


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contexts", type=int, default=500, help="contexts, which have 1.7 votes each on average")
    parser.add_argument("--features", type=int, default=2)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--rng", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.rng)
    rows = training_rows(given.contexts, given.features, rng)
    search = dr.RandomSearch(given.draws, 3, "debiasing")
    print(summary(compare(rows, search, rng), len(rows.label), search.n_folds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
