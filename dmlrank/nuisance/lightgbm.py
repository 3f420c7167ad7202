"""One global LightGBM model over rows [x, first, second]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ..data.preferences import Cells, FloatArray, IntArray
from .tuning import Parameter, settle


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRows:
    """Rows of a classification problem.

    Attributes
    ----------
    features : ndarray, shape (r, p + 2)
        Context features, then the codes of the first and of the second item; (r, p) where no items take part.
    label : ndarray of int, shape (r,)
    weight : ndarray, shape (r,)
    unit : ndarray of int, shape (r,)
        What inner folds must not split.
    """

    features: FloatArray
    label: IntArray
    weight: FloatArray
    unit: IntArray


def outcome_rows(x: FloatArray, cells: Cells, kept: NDArray[np.bool_], unit: IntArray) -> TrainingRows:
    """One row for every category that was chosen in a cell of the ``kept`` contexts, weighted by its votes.

    Parameters
    ----------
    x : ndarray, shape (n, p)
    cells : Cells
    kept : ndarray of bool, shape (n,)
        Contexts to learn from.
    unit : ndarray of int, shape (n,)
    """
    cell, label = np.nonzero(cells.y * kept[cells.context, None])
    features = stack_rows(x, cells.context[cell], cells.first[cell], cells.second[cell])
    weight = cells.y[cell, label] * cells.n_votes[cell]
    return TrainingRows(features, label, weight, unit[cells.context[cell]])


def stack_rows(x: FloatArray, context: IntArray, first: IntArray, second: IntArray) -> FloatArray:
    """Rows [x, first, second], (r, p + 2)."""
    rows = np.empty((len(context), x.shape[1] + 2))
    rows[:, :-2] = x[context]
    rows[:, -2], rows[:, -1] = first, second
    return rows


def train_booster(
    rows: TrainingRows,
    n_classes: int | None,
    n_items: int | None,
    tune: str | Mapping[str, Parameter] | None,
    rng: np.random.Generator,
    n_jobs: int | None = None,
) -> lgb.Booster:
    """Train a booster, its hyperparameters settled on the training rows alone.

    Parameters
    ----------
    rows : TrainingRows
    n_classes : int or None
        C for the multiclass objective; None for the binary one.
    n_items : int or None
        Number of items where the last two features are item codes, None where there are none.
    tune : {"cv"}, mapping or None
        See :func:`dmlrank.nuisance.tuning.settle`.
    rng : Generator
        Draws the inner folds and the booster's seed.
    n_jobs : int or None
        Threads; None means all cores.
    """
    p = rows.features.shape[1]
    fixed: dict[str, Parameter] = {
        "objective": "binary" if n_classes is None else "multiclass",
        "seed": int(rng.integers(2**31 - 1)),
        "num_threads": n_jobs or 0,
        "verbosity": -1,
        # The same trees whatever the number of threads.
        "deterministic": True,
        "force_row_wise": True,
        "feature_pre_filter": False,
        # LightGBM's default of 100 rows per group of categories would merge all but the most frequent models.
        "min_data_per_group": 10,
    }
    if n_classes is not None:
        fixed["num_class"] = n_classes
    items = [p - 2, p - 1] if n_items else "auto"
    train = lgb.Dataset(
        rows.features, rows.label, weight=rows.weight, categorical_feature=items, params=fixed, free_raw_data=False
    ).construct()
    settings = settle(tune, train, rows.unit, fixed, rng)
    return lgb.train({**fixed, **settings.parameters}, train, num_boost_round=settings.rounds)
