"""Training of one LightGBM booster over rows [x, first, second]: binned, tuned, with as many threads as pay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ..._utils.parallel import core_count
from ...data.preferences import FloatArray, IntArray
from ..training_rows import PairRows, TrainingRows, stack_rows
from .binning import binned_rows, bins
from .parameters import Parameter, Settings, as_settings, fixed_parameters
from .tuning import Tune, tuned_settings

# Numbers in a training matrix from which threads within one booster pay.
_LARGE = 2_000_000
# Numbers between which folds are trained at the same time.
_SIDE_BY_SIDE = (200_000, 20_000_000)
# Rows from which hyperparameters are selected on a sample of so many.
MANY_ROWS = 40_000


@dataclass(frozen=True, slots=True, eq=False)
class BinnedRows:
    """Training rows in LightGBM's bins, which parts of them share.

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


@dataclass(frozen=True, slots=True)
class BoosterSpec:
    """What a booster predicts, from which kind of rows, and how it is tuned.

    Attributes
    ----------
    n_classes : int or None
        C for the multiclass objective; None for the binary one.
    n_items : int or None
        Number of items where the last two features are item codes, None where there are none.
    tune : {"cv", "random"}, RandomSearch, mapping or None
        See :func:`dmlrank.nuisance.boosting.tuning.tuned_settings`.
    n_jobs : int or None
        Threads; None means all cores. Small training sets use one in any case.
    """

    n_classes: int | None
    n_items: int | None
    tune: Tune
    n_jobs: int | None = None

    def fixed(self, rows: BinnedRows, seed: int) -> dict[str, Parameter]:
        """LightGBM's parameters that are not tuned."""
        return fixed_parameters(self.n_classes, seed, threads(self.n_jobs, len(rows.label) * rows.n_features))


def train_booster(
    rows: TrainingRows | BinnedRows, spec: BoosterSpec, rng: np.random.Generator, settings: Settings | None = None
) -> lgb.Booster:
    """Train a booster, its hyperparameters selected on the training rows alone unless they are given.

    Parameters
    ----------
    rows : TrainingRows or BinnedRows
        Binned for the same ``spec``, if they are.
    spec : BoosterSpec
    rng : Generator
        Draws the inner folds and the booster's seed.
    settings : Settings, optional
        What :func:`select_settings` has found.
    """
    seed = int(rng.integers(2**31 - 1))
    binned = rows if isinstance(rows, BinnedRows) else BinnedRows.of(rows, spec.n_items, spec.tune)
    fixed = spec.fixed(binned, seed)
    if settings is None and a_sample_is_enough(binned, spec.tune):
        settings = select_settings(binned, spec, rng)
    found = settings or tuned_settings(spec.tune, binned.dataset, binned.unit, fixed, rng)
    return lgb.train({**fixed, **found.parameters}, binned.dataset, num_boost_round=found.rounds)


def a_sample_is_enough(rows: BinnedRows, tune: Tune) -> bool:
    """Whether hyperparameters are selected on a sample of the rows."""
    return len(rows.label) > MANY_ROWS and isinstance(tune, str)


def select_settings(rows: BinnedRows, spec: BoosterSpec, rng: np.random.Generator) -> Settings:
    """Hyperparameters selected on all rows, or where they are many on a sample of units with about as many as do."""
    sample = rows
    if a_sample_is_enough(rows, spec.tune):
        units, place = np.unique(rows.unit, return_inverse=True)
        sample = rows.only(rng.permutation(len(units))[place] < len(units) * MANY_ROWS / len(rows.label))
    fixed = spec.fixed(sample, int(rng.integers(2**31 - 1)))
    return tuned_settings(spec.tune, sample.dataset, sample.unit, fixed, rng)


def _shape(n_features: int, n_items: int | None, tune: Tune) -> dict[str, Parameter]:
    """What a data set has to know of the parameters: given ones may be about the bins."""
    if isinstance(tune, Mapping):
        return dict(as_settings(tune).parameters)
    own = 2 if n_items else 0
    return bins(n_features - own, own) if tune == "cv" else {}
