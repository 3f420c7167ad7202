"""Floor and scale of estimated propensities pi.

The floor limits the weight 1 / pi of a label. The scale makes the mean of S / pi over contexts one for every pair. S is
1 if the pair is labelled in the context and 0 otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...data.preferences import Cells, FloatArray, PreferenceData

# The floor of a pair as a multiple of the pair's labelling rate. A label's weight 1 / pi is therefore at most ten times
# the weight that it would have if the pair were labelled equally often in all contexts.
_RELATIVE_FLOOR = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class FloorAndScale:
    """A rule that raises estimated propensities to a floor and then multiplies them by a scale, pair by pair.

    The floor is a tenth of the pair's labelling rate, which is the share of contexts in which the pair is labelled.
    The scale makes the mean of S / pi over all contexts one, where S says whether the pair is labelled.

    floor (K, K): Smallest propensity of each ordered pair before scaling.
    scale (K, K): Factor of each ordered pair; zero for a pair without a label.

    References
    ----------
    Hajek (1971), Comment on a paper by D. Basu, on weights that are normalised by their sum.
    """

    floor: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, estimates: FloatArray, data: PreferenceData) -> FloorAndScale:
        """Derive the rule from estimates at the labelled cells, (m,)."""
        pair = data.cells.first * data.n_items + data.cells.second
        floor = _RELATIVE_FLOOR * (data.pair_counts() / data.n_contexts)
        inverse = 1 / np.maximum(estimates, floor.reshape(-1)[pair])
        scale = np.bincount(pair, weights=inverse, minlength=data.n_items**2) / data.n_contexts
        return cls(floor, scale.reshape(floor.shape))

    def at_cells(self, estimates: FloatArray, cells: Cells) -> tuple[FloatArray, int]:
        """Return floored and scaled estimates at the labelled cells, (m,), and how many were below the floor."""
        floor = self.floor[cells.first, cells.second]
        scaled = np.maximum(estimates, floor) * self.scale[cells.first, cells.second]
        return scaled, int((estimates < floor).sum())

    def of_pairs(self, ordered: bool) -> tuple[FloatArray, FloatArray]:
        """Return floor and scale of all pairs, (K, K) each.

        Where display order is ignored, they apply to a propensity that is the sum over both orders.
        """
        if ordered:
            return self.floor, self.scale
        return self.floor + self.floor.T, self.scale + self.scale.T
