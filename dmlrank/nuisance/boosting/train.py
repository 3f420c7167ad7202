"""One global LightGBM model over rows [x, first, second]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ..._utils.parallel import core_count
from ...data.preferences import FloatArray, IntArray, PreferenceData
from .binning import binned_rows, bins
from .parameters import Parameter, Settings, as_settings, fixed_parameters
from .tuning import Tune, settle

# Numbers in a training matrix from which threads within one booster pay.
_LARGE = 2_000_000
# Numbers between which folds are trained at the same time.
_SIDE_BY_SIDE = (200_000, 20_000_000)
# Rows from which a sample of so many settles hyperparameters.
_MANY = 40_000
# Rows that are gathered at a time.
_BLOCK = 1024


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


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """Rows [x, first, second] that need not be stacked: contexts and items, (r,), with labels and weights, (r,)."""

    context: IntArray
    first: IntArray
    second: IntArray
    label: IntArray
    weight: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class BinnedRows:
    """The same in LightGBM's bins, which parts of them share.

    Attributes
    ----------
    dataset : lightgbm.Dataset
    label, unit : ndarray of int, shape (r,)
    n_features : int
        Columns of the features.
    """

    dataset: lgb.Dataset
    label: IntArray
    unit: IntArray
    n_features: int

    @classmethod
    def of(cls, rows: TrainingRows, n_items: int | None, tune: Tune) -> BinnedRows:
        """Bin rows; the last two features are codes of items unless ``n_items`` is None."""
        p = rows.features.shape[1]
        items = [p - 2, p - 1] if n_items else "auto"
        # Once the bins are made LightGBM lets go of the rows; if it did not, it would copy them for every inner fold.
        dataset = lgb.Dataset(
            rows.features,
            rows.label,
            weight=rows.weight,
            categorical_feature=items,
            params={"verbosity": -1, "feature_pre_filter": False, **_shape(p, n_items, tune)},
        )
        return cls(dataset.construct(), rows.label, rows.unit, p)

    @classmethod
    def of_pairs(cls, rows: PairRows, x: FloatArray, tune: Tune) -> BinnedRows:
        """Bin pairs of items in contexts with features ``x``, (n, p); units are the contexts."""
        p = x.shape[1] + 2
        if tune != "cv":
            stacked = stack_rows(x, rows.context, rows.first, rows.second)
            return cls.of(TrainingRows(stacked, rows.label, rows.weight, rows.context), 2, tune)
        dataset, order = binned_rows(x, rows.context, rows.first, rows.second, {"verbosity": -1})
        label = rows.label[order]
        dataset.set_label(label)
        dataset.set_weight(rows.weight[order])
        return cls(dataset, label, rows.context[order], p)

    def only(self, kept: NDArray[np.bool_]) -> BinnedRows:
        """Some of the rows."""
        part = self.dataset.subset(np.flatnonzero(kept).tolist()).construct()
        return BinnedRows(part, self.label[kept], self.unit[kept], self.n_features)


def outcome_rows(data: PreferenceData, kept: NDArray[np.bool_], unit: IntArray) -> TrainingRows:
    """One row for every category that was chosen in a cell of the ``kept`` contexts, weighted by its votes.

    Where order does not matter every row stands in both orders, with half its weight in each.

    Parameters
    ----------
    data : PreferenceData
    kept : ndarray of bool, shape (n,)
        Contexts to learn from.
    unit : ndarray of int, shape (n,)
    """
    cells, inside = data.cells, ordered_cells(data, kept)
    place, label = np.nonzero(cells.y[inside])
    cell = inside[place]
    features = stack_rows(data.x, cells.context[cell], cells.first[cell], cells.second[cell])
    weight = cells.y[cell, label] * cells.n_votes[cell]
    rows = TrainingRows(features, label, weight, unit[cells.context[cell]])
    return rows if data.ordered else _in_both_orders(rows, data.flip)


def _in_both_orders(rows: TrainingRows, flip: IntArray) -> TrainingRows:
    back = rows.features.copy()
    back[:, [-2, -1]] = back[:, [-1, -2]]
    return TrainingRows(
        np.concatenate([rows.features, back]),
        np.concatenate([rows.label, flip[rows.label]]),
        np.concatenate([rows.weight, rows.weight]) / 2,
        np.concatenate([rows.unit, rows.unit]),
    )


def ordered_cells(data: PreferenceData, kept: NDArray[np.bool_]) -> IntArray:
    """Labelled cells of the ``kept`` contexts, (r,), in an order that the order of the data's rows does not change.

    A booster's sums depend on the order of its rows in the last digits, and its trees on its sums.
    """
    inside = np.flatnonzero(kept[data.cells.context])
    return inside[np.argsort(data.seed_order[data.cells.context[inside]], kind="stable")]


def stack_rows(x: FloatArray, context: IntArray, first: IntArray, second: IntArray) -> FloatArray:
    """Rows [x, first, second], (r, p + 2)."""
    rows = np.empty((len(context), x.shape[1] + 2), dtype=x.dtype)
    # In blocks: x[context] as a whole would be a second matrix of this size.
    for at in range(0, len(context), _BLOCK):
        block = slice(at, at + _BLOCK)
        rows[block, :-2] = x[context[block]]
    rows[:, -2], rows[:, -1] = first, second
    return rows


def threads(n_jobs: int | None, size: int) -> int:
    """Threads for a training matrix of ``size`` numbers; 0 means all cores.

    LightGBM's threads meet after every node. On a small matrix that costs as much as it gains, and on a busy machine,
    where a thread may wait for its turn, a hundred times more.

    Examples
    --------
    >>> threads(None, 10_000), threads(4, 10_000_000)
    (1, 4)
    """
    return (n_jobs or 0) if size >= _LARGE else 1


def workers_at(size: int, count: int, n_jobs: int | None) -> tuple[int, int | None]:
    """How many of ``count`` trainings on matrices of ``size`` numbers to carry out at once, and ``n_jobs`` of each.

    On large ones LightGBM's own threads do as well and need the memory of one. On tiny ones handing over takes as long
    as the work.

    Examples
    --------
    >>> workers_at(10_000, 5, 2), workers_at(500_000, 5, 2), workers_at(50_000_000, 5, 2)
    ((1, 2), (2, 1), (1, 2))
    """
    cores = core_count(n_jobs)
    workers = min(count, cores)
    if workers < 2 or not _SIDE_BY_SIDE[0] <= size < _SIDE_BY_SIDE[1]:
        return 1, n_jobs
    return workers, cores // workers


def train_booster(
    rows: TrainingRows | BinnedRows,
    n_classes: int | None,
    n_items: int | None,
    tune: Tune,
    rng: np.random.Generator,
    n_jobs: int | None = None,
    settings: Settings | None = None,
) -> lgb.Booster:
    """Train a booster, its hyperparameters settled on the training rows alone unless they are given.

    Parameters
    ----------
    rows : TrainingRows or BinnedRows
        Binned with the same ``n_items`` and ``tune``, if they are.
    n_classes : int or None
        C for the multiclass objective; None for the binary one.
    n_items : int or None
        Number of items where the last two features are item codes, None where there are none.
    tune : {"cv", "random"}, RandomSearch, mapping or None
        See :func:`dmlrank.nuisance.boosting.tuning.settle`.
    rng : Generator
        Draws the inner folds and the booster's seed.
    n_jobs : int or None
        Threads; None means all cores. Small training sets use one in any case.
    settings : Settings, optional
        What :func:`settled` has found.
    """
    seed = int(rng.integers(2**31 - 1))
    binned = rows if isinstance(rows, BinnedRows) else BinnedRows.of(rows, n_items, tune)
    fixed = _fixed(binned, n_classes, seed, n_jobs)
    if settings is None and many(binned, tune):
        settings = settled(binned, n_classes, n_items, tune, rng, n_jobs)
    found = settings or settle(tune, binned.dataset, binned.unit, fixed, rng)
    return lgb.train({**fixed, **found.parameters}, binned.dataset, num_boost_round=found.rounds)


def many(rows: BinnedRows, tune: Tune) -> bool:
    """Whether a sample of the rows is enough to settle hyperparameters."""
    return len(rows.label) > _MANY and isinstance(tune, str)


def settled(
    rows: BinnedRows,
    n_classes: int | None,
    n_items: int | None,
    tune: Tune,
    rng: np.random.Generator,
    n_jobs: int | None = None,
) -> Settings:
    """Hyperparameters settled on all rows, or where they are many on a sample of units with about as many as do."""
    sample = rows
    if many(rows, tune):
        units, place = np.unique(rows.unit, return_inverse=True)
        sample = rows.only(rng.permutation(len(units))[place] < len(units) * _MANY / len(rows.label))
    fixed = _fixed(sample, n_classes, int(rng.integers(2**31 - 1)), n_jobs)
    return settle(tune, sample.dataset, sample.unit, fixed, rng)


def _fixed(rows: BinnedRows, n_classes: int | None, seed: int, n_jobs: int | None) -> dict[str, Parameter]:
    return fixed_parameters(n_classes, seed, threads(n_jobs, len(rows.label) * rows.n_features))


def _shape(n_features: int, n_items: int | None, tune: Tune) -> dict[str, Parameter]:
    """What a data set has to know of the parameters: given ones may be about the bins."""
    if isinstance(tune, Mapping):
        return dict(as_settings(tune).parameters)
    own = 2 if n_items else 0
    return bins(n_features - own, own) if tune == "cv" else {}
