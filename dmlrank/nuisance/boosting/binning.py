"""LightGBM's bins of labelled cells: made once, shared by all folds and configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from ...data.outcomes import exchange_wins, exchanged_wins
from ...data.preferences import FloatArray, IntArray
from ..training_rows import LabelledRows
from .parameters import Parameter

# Bins of a feature. Finer thresholds left the held-out log-loss as it was and took up to half of the time.
BINS = 63
# Items are categories; those beyond the number of bins would be taken together.
_ITEM_BINS = 255


def bins(n_features: int, n_item_columns: int) -> dict[str, Parameter]:
    """LightGBM's parameters for the bins of features, the last of which are codes of items.

    Examples
    --------
    >>> bins(2, 2)
    {'max_bin_by_feature': '63,63,255,255'}
    """
    widths = [BINS] * n_features + [_ITEM_BINS] * n_item_columns
    return {"max_bin_by_feature": ",".join(map(str, widths))}


def binned_rows(
    x: FloatArray, context: IntArray, first: IntArray, second: IntArray, parameters: Mapping[str, Parameter]
) -> tuple[lgb.Dataset, IntArray]:
    """Rows [x, first, second] in bins, and in which order they stand there: a context's rows together.

    Rows are never stacked: every context is binned once, and its bins are copied for its rows.

    Parameters
    ----------
    x : ndarray, shape (n, p)
    context, first, second : ndarray of int, shape (r,)
    parameters : mapping
        LightGBM's; those of the bins are added.
    """
    _, begin, place = np.unique(context, return_index=True, return_inverse=True)
    appearance = np.argsort(np.argsort(begin))[place]
    order = np.argsort(appearance, kind="stable")
    shared = {**parameters, "feature_pre_filter": False}
    contexts = context[np.sort(begin)]
    names = [f"x{f}" for f in range(x.shape[1])]
    features = lgb.Dataset(
        x[contexts], np.zeros(len(contexts)), params={**shared, **bins(x.shape[1], 0)}, feature_name=names
    )
    rows = features.construct().subset(appearance[order].tolist()).construct()
    items = lgb.Dataset(
        np.column_stack([first, second])[order].astype(float),
        categorical_feature=[0, 1],
        params={**shared, **bins(0, 2)},
        feature_name=["first", "second"],
    )
    _join_columns(rows, items.construct())
    return rows, order


def _join_columns(rows: lgb.Dataset, more: lgb.Dataset) -> None:
    """Append the columns of another data set of the same rows, as ``rows.add_features_from(more)`` does.

    That method warns that there are no raw data to join and that it forgets which features are categories, both of
    which are meant. Python can silence a warning for the whole process only, so the C function is called by itself. A
    release of LightGBM that hides it otherwise is asked by its method, and warns.
    """
    library, check = getattr(lgb.basic, "_LIB", None), getattr(lgb.basic, "_safe_call", None)
    handles = [getattr(dataset, "_handle", None) for dataset in (rows, more)]
    if library is None or check is None or None in handles:
        rows.add_features_from(more)
        return
    check(library.LGBM_DatasetAddFeaturesFrom(*handles))
    rows.data = rows.pandas_categorical = None
    # Unset before the bins are made, "auto" after: the bins know their categories.
    rows.feature_name, rows.categorical_feature = rows.get_feature_name(), "auto"


def binning(n_jobs: int | None) -> dict[str, Parameter]:
    """Parameters for making bins, a feature to a thread."""
    return {"verbosity": -1, "num_threads": n_jobs or 0}


def some_rows(dataset: lgb.Dataset, rows: IntArray, n_threads: int) -> lgb.Dataset:
    """Some of the rows, (r,) in ascending order.

    LightGBM's number of threads is one for the whole process, set by whatever was made last: data for a booster have to
    ask for as many as the booster does, which otherwise complains.
    """
    return dataset.subset(rows.tolist(), params={**dataset.params, "num_threads": n_threads}).construct()


@dataclass(frozen=True, slots=True, eq=False)
class BinnedCells:
    """A row for every category chosen in a cell, as shown and in the other order.

    Attributes
    ----------
    dataset : lightgbm.Dataset
    place : ndarray of int, shape (r,)
        Cell of each row.
    back : ndarray of bool, shape (r,)
        Whether the row is in the other order.
    weight : ndarray, shape (r,)
    """

    dataset: lgb.Dataset
    place: IntArray
    back: NDArray[np.bool_]
    weight: FloatArray

    @classmethod
    def of(
        cls,
        x: FloatArray,
        context: IntArray,
        cells: LabelledRows,
        parameters: Mapping[str, Parameter],
    ) -> BinnedCells:
        """Bin labelled cells, whose contexts, (m,), have features ``x``, (n, p)."""
        first, second, y, weight = cells.first, cells.second, cells.y, cells.weight
        chosen, label = np.nonzero(y)
        flip = exchanged_wins(y.shape[1])
        place, back = np.tile(chosen, 2), np.repeat([False, True], len(chosen))
        one, other = np.where(back, second[place], first[place]), np.where(back, first[place], second[place])
        dataset, order = binned_rows(x, context[place], one, other, parameters)
        dataset.set_label(np.concatenate([label, flip[label]])[order])
        share = np.tile(weight[chosen] * y[chosen, label], 2)
        return cls(dataset, place[order], back[order], share[order])

    def part(self, cells: IntArray, scores: FloatArray, mirrored: bool, n_threads: int) -> lgb.Dataset:
        """Some cells, (c,) in ascending order, with scores to start from, (c, C): as shown, or half in each order."""
        member = np.zeros(self.place.max(initial=-1) + 1, dtype=bool)
        member[cells] = True
        rows = np.flatnonzero(member[self.place] & (mirrored | ~self.back))
        begin = scores[np.searchsorted(cells, self.place[rows])]
        begin = exchange_wins(begin, self.back[rows])
        made = some_rows(self.dataset, rows, n_threads)
        made.set_weight(self.weight[rows] / 2 if mirrored else self.weight[rows])
        made.set_init_score(begin)
        return made
