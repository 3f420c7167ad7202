"""Training of LightGBM boosters: rows in bins, which all folds and configurations share, and the number of threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ..._utils.computation import current
from ...data.preferences import FloatArray, IntArray
from ..training_rows import PairRows, TrainingRows, stack_rows
from .tuning import Parameter, Settings, Tune, as_settings, fixed_parameters, tuned_settings

# Bins of a feature. More bins did not lower the held-out log-loss, and finding splits among them took up to half of the
# training time.
BINS = 63
# Codes of contexts and items, of any integer type.
_Codes: TypeAlias = NDArray[np.integer[Any]]
# Items are categorical values; LightGBM would merge all items beyond the number of bins.
_ITEM_BINS = 255


def bin_parameters(n_features: int, n_item_columns: int) -> dict[str, Parameter]:
    """Return LightGBM's parameters for the bins of features and of the columns with item codes, which come last."""
    widths = [BINS] * n_features + [_ITEM_BINS] * n_item_columns
    return {"max_bin_by_feature": ",".join(map(str, widths))}


@dataclass(frozen=True, slots=True, eq=False)
class BinnedPairs:
    """Rows [x, first, second] in bins, sorted by context; the bins of a context are kept once for all of its rows.

    features: The features of the contexts in bins, one row for each context.
    items: The codes of the items in bins, r rows.
    place (r,): Row of ``features`` with the features of each row, ascending.
    """

    features: lgb.Dataset
    items: lgb.Dataset
    place: NDArray[np.int32]

    @classmethod
    def of(
        cls, x: FloatArray, context: _Codes, first: _Codes, second: _Codes, n_threads: int | None = None
    ) -> tuple[BinnedPairs, IntArray]:
        """Bin rows, and return the place of each binned row among the arguments, (r,).

        The bins of features are those of the contexts, each counted once. Each thread bins one feature at a time.

        Shapes: x (n, p), context, first, second (r,).
        """
        # Contexts are numbered in the order of their first appearance, and the rows are sorted by this number.
        first_row = np.full(len(x), len(context))
        first_row[context[::-1]] = np.arange(len(context))[::-1]
        contexts = np.argsort(first_row, kind="stable")[: int((first_row < len(context)).sum())]
        number = np.empty(len(x), dtype=np.int32)
        number[contexts] = np.arange(len(contexts), dtype=np.int32)
        place = number[context]
        order = np.argsort(place, kind="stable")
        threads: dict[str, Parameter] = {} if n_threads is None else {"num_threads": n_threads}
        shared: dict[str, Parameter] = {"verbosity": -1, **threads, "feature_pre_filter": False}
        features = lgb.Dataset(
            x[contexts],
            np.zeros(len(contexts)),
            params={**shared, **bin_parameters(x.shape[1], 0)},
            feature_name=[f"x{f}" for f in range(x.shape[1])],
        )
        items = lgb.Dataset(
            np.column_stack([first[order], second[order]]).astype(np.float32),
            np.zeros(len(order)),
            categorical_feature=[0, 1],
            params={**shared, **bin_parameters(0, 2)},
            feature_name=["first", "second"],
        )
        return cls(features.construct(), items.construct(), place[order]), order

    def rows(self, rows: IntArray | None = None, n_threads: int | None = None) -> lgb.Dataset:
        """Return a data set of some rows, or of all rows.

        LightGBM has one number of threads for the whole process, which the object constructed last determines, and a
        booster warns if its data ask for another number. Therefore a data set asks for as many threads as its booster.

        Shapes: rows (s,).
        """
        place = self.place if rows is None else self.place[rows]
        gathered = gather_rows(self.features, place, n_threads)
        _join_columns(gathered, self.items if rows is None else gather_rows(self.items, rows, n_threads))
        return gathered


def _join_columns(rows: lgb.Dataset, other: lgb.Dataset) -> None:
    """Append the columns of another data set of the same rows, as ``rows.add_features_from(other)`` does."""
    library, check = getattr(lgb.basic, "_LIB", None), getattr(lgb.basic, "_safe_call", None)
    handles = [getattr(dataset, "_handle", None) for dataset in (rows, other)]
    if library is None or check is None or None in handles:
        rows.add_features_from(other)
        return
    check(library.LGBM_DatasetAddFeaturesFrom(*handles))
    rows.data = rows.pandas_categorical = None
    # None before the bins are constructed, "auto" afterwards: the bins know which features are categorical.
    rows.feature_name, rows.categorical_feature = rows.get_feature_name(), "auto"


def gather_rows(dataset: lgb.Dataset, rows: NDArray[np.integer[Any]], n_threads: int | None = None) -> lgb.Dataset:
    """Return rows of a data set, some of them several times.

    Shapes: rows (r,).
    """
    threads = {} if n_threads is None else {"num_threads": n_threads}
    gathered = dataset.subset([], params={**dataset.params, **threads})
    # As an array; a list of whole numbers would take nine times the memory.
    gathered.used_indices = rows.astype(np.int32)
    return gathered.construct()


# With more rows than this number, hyperparameters are selected on a sample of about this size.
SELECTION_ROWS = 40_000


# Sizes of a training matrix, in entries. LightGBM's threads wait for each other after every node. On a small matrix the
# waiting takes as much time as the threads save. On a busy machine it takes up to a hundred times as much. Boosters of
# several folds that are trained at the same time, each in one thread, do not wait for each other. On a tiny matrix,
# handing a booster to a thread takes as long as training it. On a large matrix LightGBM's own threads are as fast, and
# only one training needs memory at a time.
OWN_THREADS_FROM = 2_000_000
SEVERAL_BOOSTERS_FROM, SEVERAL_BOOSTERS_BELOW = 200_000, 20_000_000


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
        bins: Mapping[str, Parameter] = as_settings(tune).parameters if isinstance(tune, Mapping) else {}
        if tune == "cv":
            bins = bin_parameters(p - 2, 2) if has_items else bin_parameters(p, 0)
        # Once the bins are constructed, LightGBM no longer holds the rows, which it would copy for every inner fold.
        dataset = lgb.Dataset(
            rows.features,
            rows.label,
            weight=rows.weight,
            categorical_feature=items,
            params={"verbosity": -1, "feature_pre_filter": False, **bins},
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
        binned, row_order = BinnedPairs.of(x, rows.context, rows.first, rows.second)
        dataset, label = binned.rows(), rows.label[row_order]
        dataset.set_label(label)
        dataset.set_weight(rows.weight[row_order])
        return cls(dataset, label, rows.context[row_order], p)

    def only(self, selected: NDArray[np.bool_]) -> BinnedRows:
        """Return the rows that are selected by a mask, (r,)."""
        subset = gather_rows(self.dataset, np.flatnonzero(selected))
        return BinnedRows(subset, self.label[selected], self.unit[selected], self.n_features)


def thread_count(size: int, n_jobs: int | None) -> int:
    """Return the number of threads of a booster whose training matrix has ``size`` entries; 0 means all cores."""
    return (n_jobs or 0) if size >= OWN_THREADS_FROM else 1


def split_jobs(size: int, n_boosters: int) -> tuple[int, int | None]:
    """Return how many of several boosters to train at the same time, and ``n_jobs`` of each of them."""
    cores = current().n_threads
    workers = min(n_boosters, cores)
    if workers < 2 or not SEVERAL_BOOSTERS_FROM <= size < SEVERAL_BOOSTERS_BELOW:
        return 1, current().n_jobs
    return workers, cores // workers


class BoosterSpec(NamedTuple):
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
    has_items = spec.n_items is not None
    binned = BinnedRows.of(rows, spec.tune, has_items=has_items) if isinstance(rows, TrainingRows) else rows
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
