"""Computational cost of a fit: its number of trees, and its time by that of a few trees on random numbers."""

from __future__ import annotations

import time
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np

from ..data.preferences import PreferenceData
from ..nuisance.boosting.binning import BINS
from ..nuisance.boosting.early_stopping import TREES
from ..nuisance.boosting.train import MANY_ROWS
from ..nuisance.boosting.tuning import CONFIGURATIONS, INNER_FOLDS
from ..nuisance.propensity_model.estimate import NEGATIVES_PER_POSITIVE
from ..nuisance.propensity_model.pair_choice import DRAWN_PER_SHOWN
from ..nuisance.smooth.basis import CURVES, MOST_SPLINE_COLUMNS
from ..nuisance.smooth.penalty import MANY

# Rounds of tune="cv" for propensities where prompts have several labelled pairs, for a thousand labels, with those that
# early stopping waits for: a mean over configurations some of which are soon given up. On simulated arenas rounds grow
# like the fourth root of the labels.
_ROUNDS = 20
# The work of the default learner of mu: rounds of all stages together, with those waited for, evaluations of the
# likelihood of the main effects, and seconds per number in these.
_MU_ROUNDS = 45
_EVALUATIONS = 60
_PER_NUMBER = 8e-9
# That of pairs' shares, where prompts have one labelled pair: rounds, evaluations of the likelihood, and seconds per
# number, once for every item.
_SHARE_ROUNDS = 15
_SHARE_EVALUATIONS = 25
_PER_ITEM_NUMBER = 3e-10
# What one tree's part in the scores of all pairs of a context costs, in walks of one row down a tree; by
# benchmarks/all_pairs.py.
_WALKS, _WALKS_PER_PAIR = 3.0, 0.01
_PROBE_ROWS = (500, 2000)
_PROBE_ROUNDS = 4
_PROBE_TRIES = 3


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


@dataclass(frozen=True, slots=True)
class FitSize:
    """What the work of a fit depends on.

    Attributes
    ----------
    n_contexts, n_cells, n_items, n_categories, n_features : int
        n, m, K, C and p.
    n_folds : int
    one_pair : bool
        No context has more than one labelled pair, so that propensities are summed over all pairs.
    """

    n_contexts: int
    n_cells: int
    n_items: int
    n_categories: int
    n_features: int
    n_folds: int
    one_pair: bool

    @classmethod
    def of(cls, data: PreferenceData, n_folds: int) -> FitSize:
        """The size of a fit to these data."""
        n_cells = len(data.cells)
        return cls(
            n_contexts=data.n_contexts,
            n_cells=n_cells,
            n_items=data.n_items,
            n_categories=data.n_categories,
            n_features=data.x.shape[1],
            n_folds=n_folds,
            one_pair=len(np.unique(data.cells.context)) == n_cells,
        )


def estimate_cost(size: FitSize) -> Cost:
    """Estimate size and time of a fit.

    Notes
    -----
    Per fold, mu has main effects, and up to three boosters that grow C trees a round on its share of the cells in both
    orders, as long as trees help; with many cells one fold and a sample settle how. Where prompts have one labelled
    pair, the shares of pairs have effects of the items, and boosters of one tree a round on that share and some drawn
    pairs for each. Elsewhere the propensity's booster grows one tree a round on that share and some sampled pairs for
    each, tuned with a few configurations on inner folds, once for all folds where rows are many. The time of a round,
    a + b rows columns trees, and of a prediction are measured on random numbers within the call.
    """
    numbers = size.n_contexts * size.n_items * (size.n_items - 1) * size.n_categories
    kept = size.n_cells * (size.n_folds - 1) / size.n_folds
    contrast = DRAWN_PER_SHOWN if size.one_pair else min(NEGATIVES_PER_POSITIVE, size.n_items * (size.n_items - 1))
    selection_rows = kept * (1 + contrast)
    megabytes = size.n_contexts * size.n_features * 8 / 1e6
    if size.n_features == 0:
        # Counts and one pass over one table for all contexts: about 50 million numbers a second.
        return Cost(0.2 + numbers / 5e7, 0, int(kept), numbers, megabytes)
    fixed, per_number, per_leaf_visit = _probe(size.n_features + 2)
    columns = 1 + min(CURVES * size.n_features, MOST_SPLINE_COLUMNS)
    # Cells that settle how the effects and their boosters are trained, and on how many folds.
    sampled, settling = (kept, size.n_folds) if size.n_cells <= MANY else (kept * MANY / size.n_cells, 1)
    again = 0 if settling == size.n_folds else size.n_folds
    fitted = (settling * sampled + again * kept) * columns
    seconds = 0.2 + fitted * _EVALUATIONS * _PER_NUMBER
    # Rounds, rows and trees of a round.
    grown = [
        (settling * _MU_ROUNDS, 2 * sampled, size.n_categories),
        (again * _MU_ROUNDS / 2, 2 * kept, size.n_categories),
    ]
    if size.one_pair:
        seconds += fitted * size.n_items * _SHARE_EVALUATIONS * _PER_ITEM_NUMBER
        rounds = float(_SHARE_ROUNDS)
        grown += [(settling * rounds, sampled * (1 + contrast), 1), (again * rounds, selection_rows, 1)]
    else:
        rounds = _ROUNDS * max(size.n_cells / 1000, 1.0) ** 0.25
        # An inner fold trains on the others' rows.
        tuned = min(selection_rows, MANY_ROWS) * (INNER_FOLDS - 1) / INNER_FOLDS
        tunings = 1 if selection_rows > MANY_ROWS else size.n_folds
        grown += [
            (tunings * len(CONFIGURATIONS) * INNER_FOLDS * rounds, tuned, 1),
            (size.n_folds * rounds, selection_rows, 1),
        ]
    for n_rounds, rows, per_round in grown:
        seconds += n_rounds * (fixed + per_number * per_round * rows * (size.n_features + 2))
    trees_asked = _MU_ROUNDS / 2 * size.n_categories + rounds * size.one_pair
    visits = size.n_contexts * trees_asked * (_WALKS + _WALKS_PER_PAIR * size.n_items * (size.n_items - 1))
    trees = round(sum(n_rounds * per_round for n_rounds, _, per_round in grown))
    return Cost(seconds + visits * per_leaf_visit, trees, int(selection_rows), numbers, megabytes)


def _probe(n_columns: int) -> tuple[float, float, float]:
    """Seconds of a round, per row and column of a tree, and per row and tree of a prediction, on random numbers.

    Time of the processor, and the shortest of a few tries each: other work on the machine only ever adds.
    """
    rng = np.random.default_rng(0)
    settings = {"objective": "binary", "num_leaves": TREES["num_leaves"], "extra_trees": True, "num_threads": 1}
    settings |= {"verbosity": -1, "seed": 0}
    rounds, visits = [], []
    for n_rows in _PROBE_ROWS:
        rows = rng.normal(size=(n_rows, n_columns))
        data = lgb.Dataset(rows, rng.integers(2, size=n_rows), params={"verbosity": -1, "max_bin": BINS}).construct()
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
