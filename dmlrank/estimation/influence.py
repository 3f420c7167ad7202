"""Influence functions of debiased estimates: F(mu) by context, and its correction by context or annotator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from ..data.preferences import FloatArray, IntArray

T = TypeVar("T")


class InfluenceFunction(Protocol):
    """An estimate of d scores with the influence phi of n contexts on it, however the values are held.

    :class:`Influence` holds them for every context, :class:`dmlrank.estimation.influence_by_group.GroupedInfluence`
    once for each group of identical contexts.
    """

    @property
    def estimate(self) -> FloatArray:
        """The debiased estimate, (d,)."""
        ...

    @property
    def plugin(self) -> FloatArray:
        """Weighted mean of F(mu), (d,)."""
        ...

    @property
    def n_contexts(self) -> int:
        """Number of contexts, n."""
        ...

    @property
    def variance_correction(self) -> FloatArray | None:
        """See :class:`Influence`, (d, d)."""
        ...

    @property
    def subsample_inflation(self) -> float:
        """What averaging F over a sample adds to the standard errors, as a share."""
        ...

    @property
    def value_weight(self) -> FloatArray:
        """What each context's F(mu) counts, (n,)."""
        ...

    def second_moment(self) -> FloatArray:
        """Sum of phi phi' over all contexts, (d, d)."""
        ...

    def power_sums(self) -> tuple[FloatArray, FloatArray]:
        """Sums over all contexts of the second and of the fourth powers of phi, (d,) each."""
        ...

    def sums_by(self, unit: IntArray) -> FloatArray:
        """Sums of phi over units of contexts, (u, d), for the unit of each context, (n,), numbered from 0."""
        ...

    def by_context(self) -> Influence:
        """The same with the values of every context."""
        ...

    def without_correction(self) -> Influence:
        """That of the plug-in estimator: F(mu) alone."""
        ...

    def given_prompts(self) -> Influence:
        """That of the estimate where the prompts are fixed: the correction alone."""
        ...


class HasCentred(Protocol):
    """Influence values of every context."""

    @property
    def centred(self) -> FloatArray:
        """phi, (n, d), with mean zero."""
        ...


class CentredValues:
    """Sums over the values phi of every context, for classes that hold these as ``centred``, (n, d)."""

    __slots__ = ()

    @property
    def n_contexts(self: HasCentred) -> int:
        """Number of contexts, n."""
        return len(self.centred)

    def second_moment(self: HasCentred) -> FloatArray:
        """Sum of phi phi' over all contexts, (d, d)."""
        phi = self.centred
        return phi.T @ phi

    def power_sums(self: HasCentred) -> tuple[FloatArray, FloatArray]:
        """Sums over all contexts of the second and of the fourth powers of phi, (d,) each."""
        square = np.square(self.centred)
        return square.sum(axis=0), np.square(square).sum(axis=0)

    def sums_by(self: HasCentred, unit: IntArray) -> FloatArray:
        """Sums of phi over units of contexts, (u, d), for the unit of each context, (n,), numbered from 0."""
        return unit_sums(self.centred, unit)

    def by_context(self: T) -> T:
        """Itself: it holds the values of every context."""
        return self


def unit_sums(rows: FloatArray, unit: IntArray) -> FloatArray:
    """Sums of rows, (n, d), over the units that they belong to, (u, d); units are numbered from 0.

    Examples
    --------
    >>> unit_sums(np.array([[1.0], [2.0], [4.0]]), np.array([0, 1, 0]))
    array([[5.],
           [2.]])
    """
    total = np.zeros((int(unit.max()) + 1, rows.shape[1]))
    np.add.at(total, unit, rows)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Influence(CentredValues):
    """phi_i = F(mu(x_i)) + the sum of the corrections in context i, before centring, for every context i.

    Attributes
    ----------
    value : ndarray, shape (n, d)
        F(mu(x_i)).
    correction : ndarray, shape (q, d)
        DF(mu(x_i))[S / pi (Y - mu)], by block.
    block_context : ndarray of int, shape (q,)
    block_weight : ndarray, shape (q,)
        Labelled cells that each block amounts to.
    weight : ndarray, shape (n,)
        Weight of each context in the target population, with mean one.
    variance_correction : ndarray, shape (d, d), or None
        How much larger the second moment of the correction would be if the derivative of F were taken at the true mu
        instead of the fitted one, to first order (:mod:`dmlrank.estimation.variance_correction`); None where it is not
        known.
    sample_weight : ndarray, shape (n,), or None
        Where F(mu) is averaged over a sample of m contexts only: n / m for these, 0 for the others, whose ``value`` is
        zero. None where all contexts count.
    """

    value: FloatArray
    correction: FloatArray
    block_context: IntArray
    block_weight: FloatArray
    weight: FloatArray
    variance_correction: FloatArray | None = None
    sample_weight: FloatArray | None = None

    @property
    def n_contexts(self) -> int:
        """Number of contexts, n."""
        return len(self.value)

    @property
    def n_scores(self) -> int:
        """Number of scores, d."""
        return self.value.shape[1]

    @property
    def value_weight(self) -> FloatArray:
        """What each context's F(mu) counts, (n,): its weight, times n / m in the sample of m contexts, else zero."""
        return self.weight if self.sample_weight is None else self.weight * self.sample_weight

    @property
    def plugin(self) -> FloatArray:
        """Weighted mean of F(mu), (d,)."""
        return self.value_weight @ self.value / self.value_weight.sum()

    @property
    def estimate(self) -> FloatArray:
        """The debiased estimate, (d,)."""
        return self.plugin + self.weight[self.block_context] @ self.correction / len(self.value)

    @property
    def raw(self) -> FloatArray:
        """F + correction by context, (n, d), not centred: their weighted mean is the estimate."""
        value = self.value if self.sample_weight is None else self.sample_weight[:, None] * self.value
        return value + self.correction_by_context

    @property
    def subsample_inflation(self) -> float:
        """What averaging F over a sample adds to the standard errors, as a share; the largest over scores.

        With S_F and S_D the variances of F and of the correction over contexts and C their covariance, the variance is
        S_F / m + (S_D + 2 C) / n instead of (S_F + S_D + 2 C) / n.
        """
        if self.sample_weight is None:
            return 0.0
        kept = self.sample_weight > 0
        value = self.weight[kept, None] * (self.value[kept] - self.plugin)
        correction = self.weight[:, None] * (self.correction_by_context - (self.estimate - self.plugin))
        spread, n = (value**2).mean(axis=0), len(self.value)
        rest = (correction**2).mean(axis=0) + 2 * (value * correction[kept]).mean(axis=0)
        varying = spread + rest > 1e-300
        ratio = (spread * n / kept.sum() + rest)[varying] / (spread + rest)[varying]
        return float(np.sqrt(ratio.max(initial=1.0)) - 1)

    @property
    def correction_by_context(self) -> FloatArray:
        """Correction of each context, (n, d)."""
        total = np.zeros_like(self.value)
        np.add.at(total, self.block_context, self.correction)
        return total

    @property
    def centred(self) -> FloatArray:
        """phi_i, (n, d), with mean zero: w_i (F_i + correction - theta) with weights of mean one."""
        if self.sample_weight is None:
            return self.weight[:, None] * (self.value + self.correction_by_context - self.estimate)
        correction = self.correction_by_context - (self.estimate - self.plugin)
        return self.value_weight[:, None] * (self.value - self.plugin) + self.weight[:, None] * correction

    @property
    def centred_correction(self) -> FloatArray:
        """Weighted corrections, (q, d), less each block's share in their sum, the bias of F(mu) that they undo."""
        share = self.block_weight / self.block_weight.sum()
        weighted = self.weight[self.block_context, None] * self.correction
        return weighted - share[:, None] * weighted[self.block_weight > 0].sum(axis=0)

    def without_correction(self) -> Influence:
        """What the plug-in estimator makes of it: F(mu) alone."""
        return replace(self, correction=np.zeros_like(self.correction), variance_correction=None)

    def given_prompts(self) -> Influence:
        """What is uncertain where the prompts are fixed: the correction alone, around the same estimate."""
        return replace(self, value=np.broadcast_to(self.plugin, self.value.shape), sample_weight=None)


def mean_influence(influences: Sequence[Influence]) -> Influence:
    """The mean over repetitions with other folds, value by value and block by block."""
    value = np.mean([_as_if_all(influence) for influence in influences], axis=0)
    correction = np.mean([influence.correction for influence in influences], axis=0)
    known = [influence.variance_correction for influence in influences if influence.variance_correction is not None]
    variance_correction = np.mean(known, axis=0) if len(known) == len(influences) else None
    return replace(
        influences[0], value=value, correction=correction, variance_correction=variance_correction, sample_weight=None
    )


def _as_if_all(influence: Influence) -> FloatArray:
    """Values, (n, d), whose mean and spread over all contexts are those of the sample's."""
    if influence.sample_weight is None:
        return influence.value
    return influence.plugin + influence.sample_weight[:, None] * (influence.value - influence.plugin)
