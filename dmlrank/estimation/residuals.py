"""Inverse-propensity-weighted residuals of votes and verdicts, which the correction is the derivative along."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from .cross_fitting import HeldOutLabels
from .influence_blocks import InfluenceBlocks
from .nuisance_estimates import JudgeCorrection, NuisanceEstimates
from .outcome_floor import clip_and_renormalise
from .variance_correction import label_spread, pair_variance_scale


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Residuals weight (target - expected), each at one pair of one context, (e,), sorted by context.

    The target of a block's votes on a cell is their mean label, that of a verdict is m. Expected is mu, or m for votes
    where the pair was judged.

    Attributes
    ----------
    context, block, first, second : ndarray of int, shape (e,)
    weight : ndarray, shape (e,)
        1 / pi times the block's share of the cell's votes, or the verdict's weight.
    target, target_clipped : ndarray, shape (e, C)
        As it is, and for scores that need a floor.
    mu, mu_clipped : ndarray, shape (e, C)
    given, given_clipped : ndarray, shape (e, C), or None
        m where it is expected, NaN where mu is; None without a judge.
    """

    context: IntArray
    block: IntArray
    first: IntArray
    second: IntArray
    weight: FloatArray
    target: FloatArray
    target_clipped: FloatArray
    mu: FloatArray
    mu_clipped: FloatArray
    given: FloatArray | None = None
    given_clipped: FloatArray | None = None

    @classmethod
    def of(
        cls, data: PreferenceData, nuisances: NuisanceEstimates, blocks: InfluenceBlocks, cell_mu: FloatArray
    ) -> Residuals:
        """Those of all votes, and of the verdicts where there are some; ``cell_mu``, (m, C), is at labelled cells."""
        cell, cells, mu = blocks.entry_cell, data.cells, cell_mu[blocks.entry_cell]
        votes = cls(
            context=cells.context[cell],
            block=blocks.entry_block,
            first=cells.first[cell],
            second=cells.second[cell],
            weight=blocks.entry_share / nuisances.propensity[cell],
            target=blocks.entry_y,
            target_clipped=blocks.entry_y,
            mu=mu,
            mu_clipped=clip_and_renormalise(mu, nuisances.floor),
        )
        if nuisances.judge is None:
            return votes
        return votes._with_verdicts(nuisances, nuisances.judge, cell, blocks.own)

    def _with_verdicts(
        self, nuisances: NuisanceEstimates, judge: JudgeCorrection, cell: IntArray, block: IntArray
    ) -> Residuals:
        """Votes on the given cells and verdicts, sorted by context; verdicts are in the ``block`` of their context."""
        m, m_clipped, verdicts = judge.m, clip_and_renormalise(judge.m, nuisances.floor), judge.cells
        seen, unknown = (judge.label[cell] >= 0)[:, None], np.full(judge.m.shape, np.nan)
        order = np.argsort(np.concatenate([self.context, verdicts.context]), kind="stable")

        def joined(votes: FloatArray, added: FloatArray) -> FloatArray:
            return np.concatenate([votes, added])[order]

        def indices(votes: IntArray, added: IntArray) -> IntArray:
            return np.concatenate([votes, added])[order]

        mu = joined(self.mu, nuisances.mu.at(verdicts))
        return Residuals(
            context=indices(self.context, verdicts.context),
            block=indices(self.block, block[verdicts.context]),
            first=indices(self.first, verdicts.first),
            second=indices(self.second, verdicts.second),
            weight=joined(self.weight, judge.weight),
            target=joined(self.target, m),
            # A verdict that tells nothing is m = mu, clipped or not.
            target_clipped=joined(self.target, m_clipped),
            mu=mu,
            mu_clipped=clip_and_renormalise(mu, nuisances.floor),
            given=joined(np.where(seen, m[judge.label[cell]], np.nan), unknown),
            given_clipped=joined(np.where(seen, m_clipped[judge.label[cell]], np.nan), unknown),
        )

    def mu_for(self, clipped: bool) -> FloatArray:
        """mu, (e, C), clipped at the floor or not."""
        return self.mu_clipped if clipped else self.mu

    def weighted(self, rows: IntArray | slice, clipped: bool) -> FloatArray:
        """Weight (target - expected) of some rows, (r, C), with probabilities clipped at the floor or not."""
        expected = self.mu_for(clipped)[rows]
        known = self.given_clipped if clipped else self.given
        if known is not None:
            expected = np.where(np.isnan(known[rows]), expected, known[rows])
        target = self.target_clipped if clipped else self.target
        return np.asarray(self.weight[rows, None] * (target[rows] - expected))


def variance_scale_by_pair(
    mu: FloatArray, data: PreferenceData, propensity: FloatArray, judge: JudgeCorrection | None
) -> FloatArray:
    """:func:`pair_variance_scale` of the labels, with a judge around m, and that of m itself added, (K, K)."""
    labels = HeldOutLabels.by_cell(mu, data.cells)
    if judge is None:
        return pair_variance_scale(labels, propensity, data)
    given = mu.copy()
    seen = judge.label >= 0
    given[seen] = judge.m[judge.label[seen]]
    around = label_spread(labels, given)
    explained = max(label_spread(labels) - around, 0.0)
    known = explained * _mean_square_weight(judge.cells, judge.weight, data) * (1 if data.ordered else 4)
    return pair_variance_scale(labels, propensity, data, spread=around) + known


def _mean_square_weight(cells: Cells, weight: FloatArray, data: PreferenceData) -> FloatArray:
    """Squared weights of cells by pair, (K, K), as a mean over contexts."""
    pair = cells.first * data.n_items + cells.second
    mean = np.bincount(pair, weights=weight**2, minlength=data.n_items**2) / data.n_contexts
    return mean.reshape(data.n_items, data.n_items)
