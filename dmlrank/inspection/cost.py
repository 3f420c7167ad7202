"""What a fit would take: a count of its trees, and the time of a few trees on random numbers of the same size."""

from __future__ import annotations

import time
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np

# The work of tune="cv": configurations, inner folds, and rounds for a thousand labels, with those that early stopping
# waits for. On simulated arenas rounds grow like the fourth root of the labels.
_CONFIGURATIONS = 4
_INNER_FOLDS = 3
_ROUNDS = 40
# Sampled unlabelled pairs for each labelled one, in the training of propensities.
_NEGATIVES = 10
# What one tree's part in the scores of all pairs of a context costs, in walks of one row down a tree; by
# benchmarks/all_pairs.py.
_WALKS, _WALKS_PER_PAIR = 3.0, 0.01
_PROBE_ROWS = (500, 2000)
_PROBE_ROUNDS = 4
_PROBE_TRIES = 3
_PROBE_LEAVES = 15


@dataclass(frozen=True, slots=True)
class Cost:
    """Size of a fit with the default options, and a rough estimate of its time on one thread.

    Attributes
    ----------
    seconds : float
        An estimate: right within a factor of three or so.
    trees : int
        Trees that are grown, tuning included; 0 without features.
    training_rows : int
        Rows of the larger of the two training sets.
    probabilities : int
        Numbers in mu, n K (K - 1) C; they are made chunk by chunk and never kept together.
    megabytes : float
        Memory of the features.
    """

    seconds: float
    trees: int
    training_rows: int
    probabilities: int
    megabytes: float


def estimate_cost(
    n_contexts: int, n_cells: int, n_items: int, n_categories: int, n_features: int, n_folds: int, one_pair: bool
) -> Cost:
    """Estimate size and time of a fit.

    Parameters
    ----------
    n_contexts, n_cells, n_items, n_categories, n_features : int
        n, m, K, C and p.
    n_folds : int
    one_pair : bool
        No context has more than one labelled pair, so that propensities are summed over all pairs.

    Notes
    -----
    Per fold, mu's booster grows C trees a round on its share of the cells, and the propensity's one tree a round on
    that and ten sampled pairs for each; each is tuned with 4 configurations on 3 inner folds. The time of a round,
    a + b rows columns trees, and of a prediction are measured on random numbers within the call.
    """
    numbers = n_contexts * n_items * (n_items - 1) * n_categories
    kept = n_cells * (n_folds - 1) / n_folds
    sizes = {"mu": kept, "propensity": kept * (1 + min(_NEGATIVES, n_items * (n_items - 1)))}
    megabytes = n_contexts * n_features * 8 / 1e6
    if n_features == 0:
        # Counts and one pass over one table for all contexts: about 50 million numbers a second.
        return Cost(0.2 + numbers / 5e7, 0, int(kept), numbers, megabytes)
    per_tree = {"mu": n_categories, "propensity": 1}
    fixed, per_number, per_leaf_visit = _probe(n_features + 2)
    rounds = _ROUNDS * max(n_cells / 1000, 1.0) ** 0.25
    boosted = n_folds * (_CONFIGURATIONS * _INNER_FOLDS + 1) * rounds
    seconds = 0.2
    for name, rows in sizes.items():
        # An inner fold trains on two thirds of the rows.
        seconds += boosted * (fixed + per_number * per_tree[name] * rows * 2 / 3 * (n_features + 2))
    trees_asked = rounds * (n_categories + one_pair)
    visits = n_contexts * trees_asked * (_WALKS + _WALKS_PER_PAIR * n_items * (n_items - 1))
    trees = round(boosted * sum(per_tree.values()))
    return Cost(seconds + visits * per_leaf_visit, trees, int(sizes["propensity"]), numbers, megabytes)


def _probe(n_columns: int) -> tuple[float, float, float]:
    """Seconds of a round, per row and column of a tree, and per row and tree of a prediction, on random numbers.

    The shortest of a few tries each: other work on the machine only ever adds.
    """
    rng = np.random.default_rng(0)
    settings = {"objective": "binary", "num_leaves": _PROBE_LEAVES, "extra_trees": True, "num_threads": 1}
    settings |= {"verbosity": -1, "seed": 0}
    rounds, visits = [], []
    for n_rows in _PROBE_ROWS:
        rows = rng.normal(size=(n_rows, n_columns))
        data = lgb.Dataset(rows, rng.integers(2, size=n_rows), params={"verbosity": -1}).construct()
        tries = []
        for _ in range(_PROBE_TRIES):
            start = time.perf_counter()
            booster = lgb.train(settings, data, _PROBE_ROUNDS)
            trained = time.perf_counter()
            booster.predict(rows, num_threads=1)
            tries.append((trained - start) / _PROBE_ROUNDS)
            visits.append((time.perf_counter() - trained) / (n_rows * _PROBE_ROUNDS))
        rounds.append(min(tries))
    numbers = [n_rows * n_columns for n_rows in _PROBE_ROWS]
    slope = max(rounds[1] - rounds[0], 0.05 * rounds[1]) / (numbers[1] - numbers[0])
    return max(rounds[0] - slope * numbers[0], 0.1 * rounds[0]), slope, min(visits)
