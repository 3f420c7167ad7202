"""LightGBM's bins of labelled cells: computed once, and shared by all folds and configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ..._utils.computation import current
from ...data.outcomes import exchange_wins, exchanged_wins
from ...data.preferences import FloatArray, IntArray
from ..training_rows import LabelledRows
from .parameters import Parameter

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
        cls, x: FloatArray, context: _Codes, first: _Codes, second: _Codes, parameters: Mapping[str, Parameter]
    ) -> tuple[BinnedPairs, IntArray]:
        """Bin rows, and return the place of each binned row among the arguments, (r,).

        The bins of features are those of the contexts, each counted once.

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
        shared = {**parameters, "feature_pre_filter": False}
        names = [f"x{f}" for f in range(x.shape[1])]
        features = lgb.Dataset(
            x[contexts],
            np.zeros(len(contexts)),
            params={**shared, **bin_parameters(x.shape[1], 0)},
            feature_name=names,
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


def bin_rows(
    x: FloatArray, context: IntArray, first: IntArray, second: IntArray, parameters: Mapping[str, Parameter]
) -> tuple[lgb.Dataset, IntArray]:
    """Return rows [x, first, second] in bins, and the order of the rows in the data set, which sorts them by context.

    The order holds, for each row of the data set, its place among the arguments.

    Shapes: x (n, p), context, first, second (r,).
    """
    binned, order = BinnedPairs.of(x, context, first, second, parameters)
    return binned.rows(), order


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


def binning_parameters() -> dict[str, Parameter]:
    """Return LightGBM's parameters for constructing bins, where each thread bins one feature at a time."""
    return {"verbosity": -1, "num_threads": current().lightgbm_threads}


def gather_rows(dataset: lgb.Dataset, rows: NDArray[np.integer[Any]], n_threads: int | None = None) -> lgb.Dataset:
    """Return rows of a data set, some of them several times.

    Shapes: rows (r,).
    """
    threads = {} if n_threads is None else {"num_threads": n_threads}
    gathered = dataset.subset([], params={**dataset.params, **threads})
    # As an array; a list of whole numbers would take nine times the memory.
    gathered.used_indices = rows.astype(np.int32)
    return gathered.construct()


@dataclass(frozen=True, slots=True, eq=False)
class BinnedCells:
    """Labelled cells in bins: for every category with votes in a cell, one row in each of the two display orders.

    binned: The rows in bins.
    label (r,): Category of each row, in the display order of the row.
    cell (r,): Cell of each row.
    is_swapped (r,): Whether the row has the display order that is not the one of its cell.
    weight (r,): Votes of the cell for the row's category.
    """

    binned: BinnedPairs
    label: NDArray[np.int32]
    cell: NDArray[np.int32]
    is_swapped: NDArray[np.bool_]
    weight: FloatArray

    @classmethod
    def of(
        cls,
        x: FloatArray,
        context: IntArray,
        cells: LabelledRows,
        parameters: Mapping[str, Parameter],
    ) -> BinnedCells:
        """Bin labelled cells.

        Shapes: x (n, p), context (m,).
        """
        # There are millions of rows; their codes are kept in half the memory of numpy's default integers.
        voted_cell, label = (numbers.astype(np.int32) for numbers in np.nonzero(cells.y))
        flip = exchanged_wins(cells.y.shape[1]).astype(np.int32)
        cell, swapped = np.tile(voted_cell, 2), np.repeat([False, True], len(voted_cell))
        one, other = (items.astype(np.int32)[voted_cell] for items in (cells.first, cells.second))
        first, second = np.concatenate([one, other]), np.concatenate([other, one])
        binned, order = BinnedPairs.of(x, context.astype(np.int32)[cell], first, second, parameters)
        labels = np.concatenate([label, flip[label]])
        weight = np.tile(cells.weight[voted_cell] * cells.y[voted_cell, label], 2)
        return cls(binned, labels[order], cell[order], swapped[order], weight[order])

    @property
    def dataset(self) -> lgb.Dataset:
        """All rows in bins, with labels."""
        dataset = self.binned.rows()
        dataset.set_label(self.label)
        return dataset

    def subset(self, cells: IntArray, scores: FloatArray, mirrored: bool, n_threads: int) -> lgb.Dataset:
        """Return the rows of some cells with weights and initial scores.

        Shapes: cells (c,), scores (c, C).
        """
        is_member = np.zeros(self.cell.max(initial=-1) + 1, dtype=bool)
        is_member[cells] = True
        rows = np.flatnonzero(is_member[self.cell] & (mirrored | ~self.is_swapped))
        initial_scores = exchange_wins(scores[np.searchsorted(cells, self.cell[rows])], self.is_swapped[rows])
        subset = self.binned.rows(rows, n_threads)
        subset.set_label(self.label[rows])
        subset.set_weight(self.weight[rows] / 2 if mirrored else self.weight[rows])
        subset.set_init_score(initial_scores)
        return subset
