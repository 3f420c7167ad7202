"""Floor and scale of estimated propensities: no label weighs too much, and the mean weight of every pair is one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...data.preferences import Cells, FloatArray, PreferenceData

# An estimated propensity may fall to a tenth of its pair's own rate, so no label weighs more than ten of its kind.
_RELATIVE_FLOOR = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class FloorAndScale:
    """What estimates are raised to and then multiplied by, pair by pair.

    The floor is a tenth of the pair's own rate, the share of contexts in which it is labelled. The scale makes the mean
    of S / pi over all contexts one.

    Attributes
    ----------
    floor : ndarray, shape (K, K)
    scale : ndarray, shape (K, K)
        Zero for pairs without a label.

    References
    ----------
    Hajek (1971), Comment on a paper by D. Basu, on weights that are normalised by their sum.
    """

    floor: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, estimates: FloatArray, data: PreferenceData) -> FloorAndScale:
        """For estimates at the labelled cells, (m,)."""
        pair = data.cells.first * data.n_items + data.cells.second
        floor = _RELATIVE_FLOOR * (data.pair_counts() / data.n_contexts)
        inverse = 1 / np.maximum(estimates, floor.reshape(-1)[pair])
        scale = np.bincount(pair, weights=inverse, minlength=data.n_items**2) / data.n_contexts
        return cls(floor, scale.reshape(floor.shape))

    def at_cells(self, estimates: FloatArray, cells: Cells) -> tuple[FloatArray, int]:
        """Estimates at the labelled cells, (m,), floored and scaled, and how many were below the floor."""
        floor = self.floor[cells.first, cells.second]
        scaled = np.maximum(estimates, floor) * self.scale[cells.first, cells.second]
        return scaled, int((estimates < floor).sum())

    def of_pairs(self, ordered: bool) -> tuple[FloatArray, FloatArray]:
        """Floor and scale of all pairs, (K, K), for the sum over both orders of a pair unless order matters."""
        if ordered:
            return self.floor, self.scale
        return self.floor + self.floor.T, self.scale + self.scale.T
