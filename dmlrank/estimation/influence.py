"""Influence values of debiased estimates: F(mu) by context, and its correction by context or annotator.

F is the functional and DF its derivative, mu(x) is the outcome model and pi the propensity model, S is 1 where a pair
is labelled, and Y is its label. An influence block is all votes on one context or, where the votes of an annotator may
depend on each other, the votes of one annotator on one context (:mod:`dmlrank.estimation.influence_blocks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from .._utils.mapped_arrays import column_sums, empty, release_pages, row_blocks, take, zeros
from ..data.preferences import FloatArray, IntArray

T = TypeVar("T")


class InfluenceFunction(Protocol):
    """An estimate of d scores and the influence values phi of n contexts on it.

    :class:`Influence` stores the values of every context,
    :class:`dmlrank.estimation.influence_by_group.GroupedInfluence` computes them from groups of identical contexts.
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
        """Variance correction, (d, d), or None; see :class:`Influence`."""
        ...

    @property
    def subsample_inflation(self) -> float:
        """Relative increase of the standard errors that comes from averaging F(mu) over a sample of the contexts."""
        ...

    @property
    def value_weight(self) -> FloatArray:
        """Weight of each context in the mean of F(mu), (n,)."""
        ...

    def second_moment(self) -> FloatArray:
        """Return the sum of phi phi' over all contexts, (d, d)."""
        ...

    def power_sums(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums over all contexts of the second and of the fourth powers of phi, (d,) each."""
        ...

    def sums_by(self, unit: IntArray) -> FloatArray:
        """Return the sums of phi over units of contexts, (u, d); ``unit``, (n,), numbers each context's unit from 0."""
        ...

    def by_context(self) -> Influence:
        """Return the same influence with the values of every context."""
        ...

    def without_correction(self) -> Influence:
        """Return the influence of the plug-in estimate: F(mu) without the correction."""
        ...

    def given_prompts(self) -> Influence:
        """Return the influence of the same estimate where the prompts are fixed: the correction without F(mu)."""
        ...


class HasCentred(Protocol):
    """A class that stores the influence values of every context."""

    @property
    def centred(self) -> FloatArray:
        """phi, (n, d), with mean zero."""
        ...


class CentredValues:
    """Sums over the influence values of all contexts, for classes that store these as ``centred``, (n, d)."""

    __slots__ = ()

    @property
    def n_contexts(self: HasCentred) -> int:
        """Number of contexts, n."""
        return len(self.centred)

    def second_moment(self: HasCentred) -> FloatArray:
        """Return the sum of phi phi' over all contexts, (d, d)."""
        phi = self.centred
        return phi.T @ phi

    def power_sums(self: HasCentred) -> tuple[FloatArray, FloatArray]:
        """Return the sums over all contexts of the second and of the fourth powers of phi, (d,) each."""
        phi = self.centred
        return column_sums(phi, np.square), column_sums(phi, lambda rows: np.square(np.square(rows)))

    def sums_by(self: HasCentred, unit: IntArray) -> FloatArray:
        """Return the sums of phi over units of contexts, (u, d); ``unit``, (n,), numbers each context's unit from 0."""
        return unit_sums(self.centred, unit)

    def by_context(self: T) -> T:
        """Return this object, which stores the values of every context already."""
        return self


def unit_sums(rows: FloatArray, unit: IntArray) -> FloatArray:
    """Add up the rows, (n, d), of each unit, (u, d); ``unit``, (n,), numbers each row's unit from 0."""
    total = np.zeros((int(unit.max()) + 1, rows.shape[1]))
    np.add.at(total, unit, rows)
    return total


def add_to_rows(total: FloatArray, rows: IntArray, amounts: FloatArray) -> None:
    """Add amounts, (r, d), to rows of a table in place; a row may occur several times.

    ``np.add.at`` is slow and used for unsorted rows only. Strictly increasing rows occur once each, so that plain
    indexing is correct. In sorted rows, equal rows are neighbours and are added up first.
    """
    steps = np.diff(rows)
    if (steps > 0).all():
        if len(rows) == len(total):
            total += amounts
        else:
            total[rows] += amounts
    elif (steps >= 0).all():
        starts = np.concatenate([[0], 1 + np.flatnonzero(steps)])
        total[rows[starts]] += np.add.reduceat(amounts, starts, axis=0)
    else:
        np.add.at(total, rows, amounts)


@dataclass(frozen=True, slots=True, eq=False)
class Influence(CentredValues):
    """Influence values of every context: phi_i = F(mu(x_i)) + the sum of the corrections in context i.

    value (n, d): F(mu(x_i)).
    correction (q, d): Correction that each influence block contributes: the derivative DF(mu(x_i)) along S / pi (Y -
        mu).
    block_context (q,): Context of each block.
    block_weight (q,): Number of labelled cells in each block. A cell with votes in several blocks counts in each of
        them by the share of its votes there.
    weight (n,): Weight of each context in the target population, with mean one.
    variance_correction (d, d): How much larger the second moment of the correction would be if the derivative of F were
        taken at the true mu instead of the fitted one, to first order (:mod:`dmlrank.estimation.variance_correction`);
        None where no formula is available.
    sample_weight (n,): Where F(mu) is averaged over a sample of m contexts only: n / m for contexts in the sample, and
        0 for all other contexts, whose ``value`` is zero. None where F(mu) is averaged over all contexts.
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
        """Weight of each context in the mean of F(mu), (n,): with a sample, ``weight`` times ``sample_weight``."""
        return self.weight if self.sample_weight is None else self.weight * self.sample_weight

    @property
    def plugin(self) -> FloatArray:
        """Weighted mean of F(mu), (d,)."""
        # A product reads all values of a mapped array; further arrays are read afterwards.
        release_pages()
        return self.value_weight @ self.value / self.value_weight.sum()

    @property
    def estimate(self) -> FloatArray:
        """The debiased estimate, (d,)."""
        plugin = self.plugin
        release_pages()
        return plugin + self.weight[self.block_context] @ self.correction / len(self.value)

    @property
    def raw(self) -> FloatArray:
        """F(mu) plus correction of each context, (n, d), not centred; the weighted mean is the estimate."""
        total = self.correction_by_context
        for block in row_blocks(total):
            value = self.value[block]
            total[block] += value if self.sample_weight is None else self.sample_weight[block, None] * value
        return total

    @property
    def subsample_inflation(self) -> float:
        """Largest relative increase of a standard error that comes from averaging F(mu) over a sample.

        With S_F and S_D the variances of F and of the correction over contexts and C their covariance, the variance is
        S_F / m + (S_D + 2 C) / n instead of (S_F + S_D + 2 C) / n.
        """
        if self.sample_weight is None:
            return 0.0
        in_sample, n = self.sample_weight > 0, len(self.value)
        plugin, correction = self.plugin, self.correction_by_context
        mean_correction = self.estimate - plugin
        for block in row_blocks(correction):
            correction[block] = self.weight[block, None] * (correction[block] - mean_correction)
        value = self.weight[in_sample, None] * (self.value[in_sample] - plugin)
        value_variance = (value**2).mean(axis=0)
        other_terms = column_sums(correction, np.square) / n + 2 * (value * correction[in_sample]).mean(axis=0)
        full = value_variance + other_terms
        varies = full > 1e-300
        ratio = (value_variance * n / in_sample.sum() + other_terms)[varies] / full[varies]
        return float(np.sqrt(ratio.max(initial=1.0)) - 1)

    @property
    def correction_by_context(self) -> FloatArray:
        """Correction of each context, (n, d)."""
        total = zeros(self.value.shape, like=self.correction)
        for block in row_blocks(self.correction):
            add_to_rows(total, self.block_context[block], self.correction[block])
        return total

    @property
    def centred(self) -> FloatArray:
        """Influence values phi_i = w_i (F_i + correction_i - theta), (n, d), with mean zero; weights have mean one."""
        phi, estimate, plugin, value_weight = self.correction_by_context, self.estimate, self.plugin, self.value_weight
        for block in row_blocks(phi):
            weight = self.weight[block, None]
            if self.sample_weight is None:
                phi[block] = weight * (self.value[block] + phi[block] - estimate)
            else:
                value = value_weight[block, None] * (self.value[block] - plugin)
                phi[block] = value + weight * (phi[block] - (estimate - plugin))
        return phi

    @property
    def centred_correction(self) -> FloatArray:
        """Weighted corrections by block, (q, d), centred.

        The sum of the corrections over the blocks with labels is minus the estimated bias of F(mu). This bias is not
        noise, and is subtracted from the blocks in proportion to their labelled cells.
        """
        share = self.block_weight / self.block_weight.sum()
        weighted = empty(self.correction.shape, like=self.correction)
        for block in row_blocks(weighted):
            weighted[block] = self.weight[self.block_context[block], None] * self.correction[block]
        total = column_sums(take(weighted, self.block_weight > 0))
        for block in row_blocks(weighted):
            weighted[block] -= share[block, None] * total
        return weighted

    def without_correction(self) -> Influence:
        """Return the influence of the plug-in estimate: F(mu) without the correction."""
        return replace(self, correction=zeros(self.correction.shape, like=self.correction), variance_correction=None)

    def given_prompts(self) -> Influence:
        """Return the influence of the same estimate where the prompts are fixed: the correction without F(mu)."""
        return replace(self, value=np.broadcast_to(self.plugin, self.value.shape), sample_weight=None)


def mean_influence(influences: Sequence[Influence]) -> Influence:
    """Average the influence over repetitions with other folds, context by context and block by block."""
    value = _mean_of_arrays([_value_of_all_contexts(influence) for influence in influences])
    correction = _mean_of_arrays([influence.correction for influence in influences])
    available = [influence.variance_correction for influence in influences if influence.variance_correction is not None]
    variance_correction = np.mean(available, axis=0) if len(available) == len(influences) else None
    return replace(
        influences[0], value=value, correction=correction, variance_correction=variance_correction, sample_weight=None
    )


def _value_of_all_contexts(influence: Influence) -> FloatArray:
    """Return values of all contexts, (n, d); their mean has the value and variance of the sample's mean of F(mu)."""
    if influence.sample_weight is None:
        return influence.value
    values, plugin = empty(influence.value.shape, like=influence.value), influence.plugin
    for block in row_blocks(values):
        values[block] = plugin + influence.sample_weight[block, None] * (influence.value[block] - plugin)
    return values


def _mean_of_arrays(arrays: Sequence[FloatArray]) -> FloatArray:
    """Return the mean of arrays of one shape."""
    mean = empty(arrays[0].shape, like=arrays[0])
    for block in row_blocks(mean):
        mean[block] = np.mean([array[block] for array in arrays], axis=0)
    return mean
