"""Training of one LightGBM booster over rows [x, first, second]: bins, hyperparameters, and number of threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ..._utils.computation import current
from ...data.preferences import FloatArray, IntArray
from ..training_rows import PairRows, TrainingRows, stack_rows
from .binning import bin_parameters, bin_rows, gather_rows
from .parameters import Parameter, Settings, as_settings, fixed_parameters
from .tuning import Tune, tuned_settings

# With more rows than this number, hyperparameters are selected on a sample of about this size.
SELECTION_ROWS = 40_000


@dataclass(frozen=True, slots=True)
class ThreadSizes:
    """The sizes of a training matrix, in entries, on which the use of threads depends.

    LightGBM's threads wait for each other after every node. On a small matrix the waiting takes as much time as the
    threads save. On a busy machine it takes up to a hundred times as much. Boosters of several folds that are trained
    at the same time, each in one thread, do not wait for each other. On a tiny matrix, handing a booster to a thread
    takes as long as training it. On a large matrix LightGBM's own threads are as fast, and only one training needs
    memory at a time.

    own_threads: From this size on, a booster uses several threads.
    several_boosters: From the first size on, and below the second one, boosters of several folds are trained at the
        same time.
    """

    own_threads: int = 2_000_000
    several_boosters: tuple[int, int] = (200_000, 20_000_000)


THREAD_SIZES = ThreadSizes()


@dataclass(frozen=True, slots=True, eq=False)
class BinnedRows:
    """Training rows in LightGBM's bins, which all subsets of the rows share.

    dataset: The rows in bins, with labels and weights.
    label, unit (r,): Category and unit of each row. Cross-validation within the rows keeps the rows of a unit in one
        fold.
    n_features: Number of columns, codes of items included.
    """

    dataset: lgb.Dataset
    label: IntArray
    unit: IntArray
    n_features: int

    @classmethod
    def of(cls, rows: TrainingRows, tune: Tune, *, has_items: bool) -> BinnedRows:
        """Bin rows; ``has_items`` says whether the last two features are codes of items."""
        p = rows.features.shape[1]
        items = [p - 2, p - 1] if has_items else "auto"
        # Once the bins are constructed, LightGBM no longer holds the rows, which it would copy for every inner fold.
        dataset = lgb.Dataset(
            rows.features,
            rows.label,
            weight=rows.weight,
            categorical_feature=items,
            params={"verbosity": -1, "feature_pre_filter": False, **_bin_parameters(p, tune, has_items=has_items)},
        )
        return cls(dataset.construct(), rows.label, rows.unit, p)

    @classmethod
    def of_pairs(cls, rows: PairRows, x: FloatArray, tune: Tune) -> BinnedRows:
        """Bin rows of pairs in contexts with features ``x``, (n, p); the contexts are the units."""
        p = x.shape[1] + 2
        if tune != "cv":
            # Bins with the user's parameters or with LightGBM's defaults are constructed from stacked rows.
            stacked = stack_rows(x, rows.context, rows.first, rows.second)
            return cls.of(TrainingRows(stacked, rows.label, rows.weight, rows.context), tune, has_items=True)
        dataset, row_order = bin_rows(x, rows.context, rows.first, rows.second, {"verbosity": -1})
        label = rows.label[row_order]
        dataset.set_label(label)
        dataset.set_weight(rows.weight[row_order])
        return cls(dataset, label, rows.context[row_order], p)

    def only(self, selected: NDArray[np.bool_]) -> BinnedRows:
        """Return the rows that are selected by a mask, (r,)."""
        subset = gather_rows(self.dataset, np.flatnonzero(selected))
        return BinnedRows(subset, self.label[selected], self.unit[selected], self.n_features)


def thread_count(size: int, n_jobs: int | None) -> int:
    """Return the number of threads of a booster whose training matrix has ``size`` entries; 0 means all cores."""
    return (n_jobs or 0) if size >= THREAD_SIZES.own_threads else 1


def split_jobs(size: int, n_boosters: int) -> tuple[int, int | None]:
    """Return how many of several boosters to train at the same time, and ``n_jobs`` of each of them."""
    cores = current().n_threads
    workers = min(n_boosters, cores)
    smallest, too_large = THREAD_SIZES.several_boosters
    if workers < 2 or not smallest <= size < too_large:
        return 1, current().n_jobs
    return workers, cores // workers


@dataclass(frozen=True, slots=True)
class BoosterSpec:
    """What a booster predicts, from which kind of rows, and how its hyperparameters are selected.

    n_classes: Number of categories for the multiclass objective; None for the binary objective.
    n_items: Number of items where the last two features are item codes; None where no feature is an item code.
    tune: See :func:`dmlrank.nuisance.boosting.tuning.tuned_settings`.
    """

    n_classes: int | None
    n_items: int | None
    tune: Tune

    def fixed(self, rows: BinnedRows, seed: int) -> dict[str, Parameter]:
        """Return LightGBM's parameters that are not tuned."""
        return fixed_parameters(self.n_classes, seed, thread_count(len(rows.label) * rows.n_features, current().n_jobs))


def train_booster(
    rows: TrainingRows | BinnedRows, spec: BoosterSpec, rng: np.random.Generator, settings: Settings | None = None
) -> lgb.Booster:
    """Train a booster, and select its hyperparameters on the training rows alone."""
    seed = int(rng.integers(2**31 - 1))
    binned = (
        rows if isinstance(rows, BinnedRows) else BinnedRows.of(rows, spec.tune, has_items=spec.n_items is not None)
    )
    fixed = spec.fixed(binned, seed)
    if settings is None and a_sample_is_enough(binned, spec.tune):
        settings = select_settings(binned, spec, rng)
    if settings is None:
        settings = tuned_settings(spec.tune, binned.dataset, binned.unit, fixed, rng)
    return lgb.train({**fixed, **settings.parameters}, binned.dataset, num_boost_round=settings.rounds)


def a_sample_is_enough(rows: BinnedRows, tune: Tune) -> bool:
    """Return whether the rows are so many that hyperparameters are selected on a sample of them."""
    return len(rows.label) > SELECTION_ROWS and isinstance(tune, str)


def select_settings(rows: BinnedRows, spec: BoosterSpec, rng: np.random.Generator) -> Settings:
    """Select the hyperparameters of a booster.

    Where the rows are many, only the rows of randomly drawn units are used, about ``SELECTION_ROWS`` rows.
    """
    sample = rows
    if a_sample_is_enough(rows, spec.tune):
        units, place = np.unique(rows.unit, return_inverse=True)
        sample = rows.only(rng.permutation(len(units))[place] < len(units) * SELECTION_ROWS / len(rows.label))
    fixed = spec.fixed(sample, int(rng.integers(2**31 - 1)))
    return tuned_settings(spec.tune, sample.dataset, sample.unit, fixed, rng)


def _bin_parameters(n_columns: int, tune: Tune, *, has_items: bool) -> dict[str, Parameter]:
    """Return LightGBM's parameters for the construction of the bins: the user's, the package's or none."""
    if isinstance(tune, Mapping):
        return dict(as_settings(tune).parameters)
    n_item_columns = 2 if has_items else 0
    return bin_parameters(n_columns - n_item_columns, n_item_columns) if tune == "cv" else {}
