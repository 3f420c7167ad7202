"""Shares of the categories among votes that were not cast, at the extremes of the marginal sensitivity model.

Votes that were cast have the category probabilities mu. In the marginal sensitivity model with the bound gamma, votes
that were not cast have the probabilities mu(y) w(y) with 1/gamma <= w(y) <= gamma and a sum of one. The largest mean
worth of such a vote solves a fractional knapsack problem: w is gamma for the best categories and 1/gamma for the worst
categories. One category between them has the factor with which the probabilities sum to one.

References
----------
Tan (2006), A distributional approach for causal inference using propensity scores, JASA 101.
Dorn, Guo, Kallus (2024), Doubly-valid/doubly-sharp sensitivity analysis for causal inference with unmeasured
confounding, JASA.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class ExtremeShares:
    """The extreme probabilities of the categories of votes that were not cast.

    With the categories sorted from the best to the worst, M is the probability under mu of the best k categories. Their
    probability among votes not cast is G(M) = min(gamma M, 1 - (1 - M) / gamma): the first branch holds where all of
    them have the factor gamma, the second where all others have the factor 1/gamma.

    order (C,): Categories from the best to the worst; one order for all probabilities, or one for each of them.
    gamma: Bound of the odds ratio, at least 1.
    """

    order: IntArray
    gamma: float

    def of(self, mu: FloatArray) -> FloatArray:
        """Return the extreme probabilities u, (..., C), for probabilities ``mu``, (..., C), of votes that were cast."""
        best = self._cumulative(mu)
        share = np.where(self._is_steep(best), self.gamma * best, 1 - (1 - best) / self.gamma)
        return self._by_category(share)

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the derivative of u along ``delta``, (..., C), a direction that sums to zero over the categories."""
        change = self._cumulative(delta)
        change *= np.where(self._is_steep(self._cumulative(mu)), self.gamma, 1 / self.gamma)
        return self._by_category(change)

    def _is_steep(self, best: FloatArray) -> NDArray[np.bool_]:
        """Return where G has the slope gamma: where the best categories have less than 1 / (gamma + 1) of mu."""
        return np.asarray(best * (self.gamma + 1) < 1)

    def _cumulative(self, values: FloatArray) -> FloatArray:
        """Return the sums of values over the best categories, (..., C)."""
        if self.order.ndim == 1:
            return np.cumsum(values[..., self.order], axis=-1)
        return np.cumsum(np.take_along_axis(values, self.order, axis=-1), axis=-1)

    def _by_category(self, cumulative: FloatArray) -> FloatArray:
        """Return the differences of cumulative sums in the original order of the categories."""
        steps = np.diff(cumulative, axis=-1, prepend=0.0)
        shares = np.empty_like(steps)
        if self.order.ndim == 1:
            shares[..., self.order] = steps
        else:
            np.put_along_axis(shares, self.order, steps, axis=-1)
        return shares
