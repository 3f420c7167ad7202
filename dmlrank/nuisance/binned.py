"""Labelled cells in LightGBM's bins: made once, shared by all folds and configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np

from ..data.preferences import FloatArray, IntArray
from .parameters import Parameter

# Bins of a feature. Finer thresholds left the held-out log-loss as it was and took up to half of the time.
_BINS = 63
# Items are categories; those beyond the number of bins would be taken together.
_ITEM_BINS = 255


def bins(n_features: int, n_item_columns: int) -> dict[str, Parameter]:
    """LightGBM's parameters for the bins of features, the last of which are codes of items.

    Examples
    --------
    >>> bins(2, 2)
    {'max_bin_by_feature': '63,63,255,255'}
    """
    widths = [_BINS] * n_features + [_ITEM_BINS] * n_item_columns
    return {"max_bin_by_feature": ",".join(map(str, widths))}


@dataclass(frozen=True, slots=True, eq=False)
class BinnedCells:
    """A row for every category chosen in a cell, and below these the same rows in the other order.

    Attributes
    ----------
    dataset : lightgbm.Dataset
    place : ndarray of int, shape (r,)
        Cell of each row as shown.
    weight : ndarray, shape (r,)
    flip : ndarray of int, shape (C,)
        The categories with the two wins exchanged.
    """

    dataset: lgb.Dataset
    place: IntArray
    weight: FloatArray
    flip: IntArray

    @classmethod
    def of(
        cls, rows: FloatArray, y: FloatArray, weight: FloatArray, parameters: Mapping[str, Parameter]
    ) -> BinnedCells:
        """Bin cells, which are rows [x, first, second], (m, p + 2), with labels (m, C) and votes (m,)."""
        place, label = np.nonzero(y)
        flip = np.array([1, 0, *range(2, y.shape[1])])
        both = np.concatenate([rows[place], rows[place]])
        both[len(place) :, [-2, -1]] = rows[place][:, [-1, -2]]
        p = rows.shape[1]
        dataset = lgb.Dataset(
            both,
            np.concatenate([label, flip[label]]),
            categorical_feature=[p - 2, p - 1],
            params=dict(parameters),
        ).construct()
        return cls(dataset, place, weight[place] * y[place, label], flip)

    def part(self, cells: IntArray, scores: FloatArray, mirrored: bool) -> lgb.Dataset:
        """Some cells, (c,) in ascending order, with scores to start from, (c, C): as shown, or half in each order."""
        member = np.zeros(self.place[-1] + 1 if len(self.place) else 0, dtype=bool)
        member[cells] = True
        rows = np.flatnonzero(member[self.place])
        begin = scores[np.searchsorted(cells, self.place[rows])]
        weight = self.weight[rows]
        if mirrored:
            rows, weight = np.concatenate([rows, len(self.place) + rows]), np.tile(weight / 2, 2)
            begin = np.concatenate([begin, begin[:, self.flip]])
        made = self.dataset.subset(rows.tolist()).construct()
        made.set_weight(weight)
        made.set_init_score(begin)
        return made
