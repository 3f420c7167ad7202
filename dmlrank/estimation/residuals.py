"""Residuals of votes and verdicts, weighted by inverse propensities.

The correction of the one-step estimator is the derivative of the functional along these residuals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..functionals.base import Functional
from .bt_restricted import RestrictedBradleyTerry
from .cross_fitting import HeldOutLabels, clip_and_renormalise
from .influence import InfluenceBlocks, JudgeCorrection, NuisanceEstimates

Scalar = TypeVar("Scalar", bound=np.generic)

# Largest number of probabilities that all numerical derivatives of a variance correction may take together.
_CHEAP = 4e8
# Length of a finite-difference step, relative to the smallest probability.
_STEP = 1e-3


def has_variance_correction(score: Functional, data: PreferenceData) -> bool:
    """Whether the covariance of a score's correction depends on mu, and is cheap to compute."""
    if score.linear or isinstance(score, RestrictedBradleyTerry):
        return False
    has_formula = type(score).accumulate is not Functional.accumulate
    n_entries = data.n_contexts * data.n_items**2 * data.n_categories
    n_calls = 4 * data.n_items * (data.n_items - 1) * (data.n_categories - 1)
    return has_formula or n_calls * n_entries <= _CHEAP


def relative_label_variance(labels: HeldOutLabels, around: FloatArray | None = None) -> float:
    """Return the variance of the labels divided by the variance of one-hot labels with probabilities mu; at most one.

    The variance is the sum of the squared residuals. Residuals are taken around mu, or around other probabilities,
    ``around``, (m, C).
    """
    residual = labels.cells.y - (labels.mu if around is None else around)
    squares = float((labels.count[:, None] * np.square(residual)).sum())
    squares_of_one_hot = float((labels.count * (1 - np.square(labels.mu).sum(axis=1))).sum())
    return min(squares / max(squares_of_one_hot, 1e-300), 1.0)


def pair_variance_scale(
    labels: HeldOutLabels, propensity: FloatArray, data: PreferenceData, *, relative_variance: float | None = None
) -> FloatArray:
    """Return the mean of 1 / pi over contexts by ordered pair, (K, K), times the relative variance of a label.

    The mean of 1 / pi is estimated by the mean of S / pi^2, which needs the propensities of labelled pairs only. Labels
    that are means of several votes, or soft, have a smaller variance than one-hot labels with the same probabilities.
    With a judge, the variance of the labels around m = P(Y | x, verdict) is smaller still and has to be passed.

    Shapes: propensity (m,).
    """
    relative_variance = relative_label_variance(labels) if relative_variance is None else relative_variance
    return _mean_by_pair(labels.cells, labels.count / propensity**2, data) * relative_variance


def variance_correction(
    score: Functional, mu: FloatArray, delta: FloatArray, scale: FloatArray, context_weight: FloatArray
) -> FloatArray:
    """Estimate the first-order change of the correction's second moment if J were taken at the true mu, (d, d).

    Shapes: mu (b, K, K, C), delta (b, K, K, C), scale (K, K), context_weight (b,), returns (d, d).

    Notes
    -----
    The correction of a context is sum_jk S_jk / pi_jk J_jk (Y_jk - mu_jk), with J_jk the derivative of the functional F
    in mu_jk. Given the context, its second moment is sum_jk J V J' / pi, where V is the covariance of a label. The mean
    of phi phi' contains the true covariance of the labels, through the residuals, but the derivative J = DF at
    the fitted mu. Where mu is shrunken, J is too small, and so are the standard errors. The second moment
    sum_jk J V J' / pi is a functional of the mu in J, and has a one-step correction: its derivative along
    delta = S / pi (Y - mu), whose expectation given the context is the true minus the fitted mu. The derivative is
    computed as a central difference. 1 / pi is replaced by its mean over contexts, ``scale``, which needs the
    propensities of labelled pairs only: the mean of S / pi^2.

    A linear functional has the same J everywhere and no variance correction. If J_jk depends on mu_jk alone, the
    derivative along delta is a sum over labelled pairs (:func:`local_variance_correction`). Only the positive part of
    the correction is added to a covariance.
    """
    largest = np.abs(delta).max(axis=(1, 2, 3))
    nonzero = np.flatnonzero(largest > 0)
    fitted, direction = mu[nonzero], delta[nonzero]
    smallest = np.where(fitted > 0, fitted, 1.0).min(axis=(1, 2, 3))
    step = _STEP * smallest / largest[nonzero]
    amount = (context_weight[nonzero] ** 2 / (2 * step))[:, None, None] * scale
    change = step[:, None, None, None] * direction
    # V stays at the fitted mu: the residuals contain the true covariance of the labels already.
    return score.accumulate(fitted + change, amount, fitted) - score.accumulate(fitted - change, amount, fitted)


def local_variance_correction(
    score: Functional,
    mu: FloatArray,
    delta: FloatArray,
    weight: FloatArray,
    pairs: tuple[IntArray, IntArray, int],
) -> FloatArray:
    """Compute :func:`variance_correction`, (d, d), for a score whose J at a pair depends on mu at the same pair only.

    The sum over pairs is then a sum over labelled cells.

    Shapes: mu (m, C), delta (m, C), weight (m,).
    """
    # Category by category, because the maximum over a short last axis takes several times as long.
    largest = reduce(np.maximum, np.abs(delta).T)
    nonzero = np.flatnonzero(largest > 0)
    fitted = mu[nonzero]
    nonzero_pairs = (pairs[0][nonzero], pairs[1][nonzero], pairs[2])
    step = _STEP * reduce(np.minimum, np.where(fitted > 0, fitted, 1.0).T) / largest[nonzero]
    amount, change = weight[nonzero] / (2 * step), step[:, None] * delta[nonzero]
    above = score.accumulate_at(fitted + change, amount, fitted, *nonzero_pairs)
    return above - score.accumulate_at(fitted - change, amount, fitted, *nonzero_pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Residuals, weight times (target - expected value), of e votes and verdicts, sorted by context.

    The target of a block's votes on a cell is their mean label; the target of a verdict is m = P(Y | x, verdict). The
    expected value is mu, or m for votes on a pair with a verdict.

    context, block, first, second (e,): Context, influence block and ordered pair of each residual.
    weight (e,): 1 / pi times the block's share of the cell's votes, or the weight of the verdict.
    mu, target, expected (e, C): As they are.
    mu_clipped, target_clipped, expected_clipped (e, C): For scores that need a floor. Probabilities are clipped at it.
    """

    context: IntArray
    block: IntArray
    first: IntArray
    second: IntArray
    weight: FloatArray
    mu: FloatArray
    target: FloatArray
    expected: FloatArray
    mu_clipped: FloatArray
    target_clipped: FloatArray
    expected_clipped: FloatArray

    @classmethod
    def of(
        cls, data: PreferenceData, nuisances: NuisanceEstimates, blocks: InfluenceBlocks, cell_mu: FloatArray
    ) -> Residuals:
        """Compute the residuals of all votes, and of the verdicts if there is a judge.

        Shapes: cell_mu (m, C).
        """
        # With one block per context, the entries are the labelled cells in their order, and nothing has to be copied.
        cell = slice(None) if blocks.one_per_context else blocks.entry_cell
        cells, mu, y, judge = data.cells, cell_mu[cell], blocks.entry_y, nuisances.judge
        mu_clipped = clip_and_renormalise(mu, nuisances.floor)
        context, first, second = cells.context[cell], cells.first[cell], cells.second[cell]
        weight = blocks.entry_share / nuisances.propensity[cell]
        if judge is None:
            return cls(context, blocks.entry_block, first, second, weight, mu, y, mu, mu_clipped, y, mu_clipped)
        # m is clipped like mu: if a verdict says nothing about the label, m = mu, and its residual must be zero.
        m, m_clipped, verdicts = judge.m, clip_and_renormalise(judge.m, nuisances.floor), judge.cells
        judged_cell = judge.label[blocks.entry_cell]
        has_verdict = (judged_cell >= 0)[:, None]
        by_context = np.argsort(np.concatenate([context, verdicts.context]), kind="stable")

        def join(of_votes: NDArray[Scalar], of_verdicts: NDArray[Scalar]) -> NDArray[Scalar]:
            return np.concatenate([of_votes, of_verdicts])[by_context]

        verdict_mu = nuisances.mu.at(verdicts)
        verdict_mu_clipped = clip_and_renormalise(verdict_mu, nuisances.floor)
        return cls(
            context=join(context, verdicts.context),
            block=join(blocks.entry_block, blocks.context_block[verdicts.context]),
            first=join(first, verdicts.first),
            second=join(second, verdicts.second),
            weight=join(weight, judge.weight),
            mu=join(mu, verdict_mu),
            target=join(y, m),
            expected=join(np.where(has_verdict, m[judged_cell], mu), verdict_mu),
            mu_clipped=join(mu_clipped, verdict_mu_clipped),
            target_clipped=join(y, m_clipped),
            expected_clipped=join(np.where(has_verdict, m_clipped[judged_cell], mu_clipped), verdict_mu_clipped),
        )

    def mu_for(self, clipped: bool) -> FloatArray:
        """Return mu, (e, C), clipped at the floor or not."""
        return self.mu_clipped if clipped else self.mu

    def weighted(self, rows: IntArray | slice, clipped: bool) -> FloatArray:
        """Return the weighted residuals of r rows, (r, C), with probabilities clipped at the floor or not."""
        target, expected = (self.target_clipped, self.expected_clipped) if clipped else (self.target, self.expected)
        return np.asarray(self.weight[rows, None] * (target[rows] - expected[rows]))

    def derivatives(self, score: Functional, rows: IntArray | slice, data: PreferenceData) -> FloatArray:
        """Return the derivatives of a pair-local score along the weighted residuals of r rows, (r, d)."""
        first, second = self.first[rows], self.second[rows]
        mu, residual = self.mu_for(score.interior)[rows], self.weighted(rows, score.interior)
        change = score.derivative_at(mu, residual, first, second, data.n_items)
        if data.ordered:
            return change
        return change + score.derivative_at(mu[:, data.flip], residual[:, data.flip], second, first, data.n_items)


def variance_scale_by_pair(
    mu: FloatArray, data: PreferenceData, propensity: FloatArray, judge: JudgeCorrection | None
) -> FloatArray:
    """Return, for each ordered pair, (K, K), the factor of J V J' in the second moment of the correction.

    V is the covariance of a one-hot label with probabilities mu, and J the derivative of the functional. Without a
    judge the factor is :func:`pair_variance_scale`. With a judge the residuals of the labels are taken around m, and
    the variance of m around mu is added with the weights of the verdicts.

    Shapes: mu (m, C), propensity (m,).
    """
    labels = HeldOutLabels.by_cell(mu, data.cells)
    if judge is None:
        return pair_variance_scale(labels, propensity, data)
    has_verdict = (judge.label >= 0)[:, None]
    variance_around_m = relative_label_variance(labels, np.where(has_verdict, judge.m[judge.label], mu))
    variance_of_m = max(relative_label_variance(labels) - variance_around_m, 0.0)
    from_verdicts = variance_of_m * _mean_by_pair(judge.cells, judge.weight**2, data)
    return pair_variance_scale(labels, propensity, data, relative_variance=variance_around_m) + from_verdicts


def _mean_by_pair(cells: Cells, amounts: FloatArray, data: PreferenceData) -> FloatArray:
    """Average the amounts of cells, (m,), over all contexts, for each ordered pair, (K, K).

    Where display order does not matter, a residual moves the probabilities of both orders of its pair. This doubles the
    correction and multiplies its square, for which the amounts stand, by 4.
    """
    pair = cells.first * data.n_items + cells.second
    mean = np.bincount(pair, weights=amounts, minlength=data.n_items**2) / data.n_contexts
    return mean.reshape(data.n_items, data.n_items) * (1 if data.ordered else 4)
