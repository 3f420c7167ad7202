"""What a fit would take: a count of its trees, and the time of a few trees on random numbers of the same size."""

from __future__ import annotations

import time
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np

# The work of tune="cv" for propensities: rows from which a sample settles it for all folds, configurations, inner
# folds, and rounds for a thousand labels, with those that early stopping waits for. On simulated arenas rounds grow
# like the fourth root of the labels.
_MANY_ROWS = 40_000
_CONFIGURATIONS = 4
_INNER_FOLDS = 3
_ROUNDS = 40
# That of the default learner of mu: stages, rounds with those waited for, labels from which a sample and one fold
# settle these, columns of main effects per feature, evaluations of their likelihood, and seconds per number in these.
_STAGES = 3
_MU_ROUNDS = 25
_MANY = 20_000
_CURVES = 4
_EVALUATIONS = 150
_PER_NUMBER = 1e-8
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
    Per fold, mu has main effects, and up to three boosters that grow C trees a round on its share of the cells in both
    orders, as long as trees help; with many cells one fold and a sample settle how. The propensity's booster grows one
    tree a round on that share and ten sampled pairs for each, tuned with 4 configurations on 3 inner folds, once for
    all folds where rows are many. The time of a round, a + b rows columns trees, and of a prediction are measured on
    random numbers within the call.
    """
    numbers = n_contexts * n_items * (n_items - 1) * n_categories
    kept = n_cells * (n_folds - 1) / n_folds
    sizes = {"mu": kept, "propensity": kept * (1 + min(_NEGATIVES, n_items * (n_items - 1)))}
    megabytes = n_contexts * n_features * 8 / 1e6
    if n_features == 0:
        # Counts and one pass over one table for all contexts: about 50 million numbers a second.
        return Cost(0.2 + numbers / 5e7, 0, int(kept), numbers, megabytes)
    fixed, per_number, per_leaf_visit = _probe(n_features + 2)
    rounds = _ROUNDS * max(n_cells / 1000, 1.0) ** 0.25
    # An inner fold trains on two thirds of the rows.
    tuned = min(sizes["propensity"], _MANY_ROWS) * 2 / 3
    tunings = 1 if sizes["propensity"] > _MANY_ROWS else n_folds
    tuning = (tunings * _CONFIGURATIONS * _INNER_FOLDS * rounds, tuned)
    propensity = (n_folds * rounds, sizes["propensity"])
    sampled, settling = (kept, n_folds) if n_cells <= _MANY else (kept * _MANY / n_cells, 1)
    trials = (settling * _STAGES * _MU_ROUNDS, 2 * sampled)
    final = (0 if settling == n_folds else n_folds * _MU_ROUNDS, 2 * kept)
    seconds = 0.2 + (settling * sampled + kept) * _EVALUATIONS * (1 + _CURVES * n_features) * _PER_NUMBER
    for (grown, rows), per_tree in ((tuning, 1), (propensity, 1), (trials, n_categories), (final, n_categories)):
        seconds += grown * (fixed + per_number * per_tree * rows * (n_features + 2))
    trees_asked = _MU_ROUNDS * n_categories + rounds * one_pair
    visits = n_contexts * trees_asked * (_WALKS + _WALKS_PER_PAIR * n_items * (n_items - 1))
    trees = round(tuning[0] + propensity[0] + (trials[0] + final[0]) * n_categories)
    return Cost(seconds + visits * per_leaf_visit, trees, int(sizes["propensity"]), numbers, megabytes)


def _probe(n_columns: int) -> tuple[float, float, float]:
    """Seconds of a round, per row and column of a tree, and per row and tree of a prediction, on random numbers.

    Time of the processor, and the shortest of a few tries each: other work on the machine only ever adds.
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
            start = time.process_time()
            booster = lgb.train(settings, data, _PROBE_ROUNDS)
            trained = time.process_time()
            booster.predict(rows, num_threads=1)
            tries.append((trained - start) / _PROBE_ROUNDS)
            visits.append((time.process_time() - trained) / (n_rows * _PROBE_ROUNDS))
        rounds.append(min(tries))
    numbers = [n_rows * n_columns for n_rows in _PROBE_ROWS]
    slope = max(rounds[1] - rounds[0], 0.05 * rounds[1]) / (numbers[1] - numbers[0])
    return max(rounds[0] - slope * numbers[0], 0.1 * rounds[0]), slope, min(visits)
