"""The blocks of a debiased estimate: F(mu) by context, and its correction by context or annotator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData


@dataclass(frozen=True, slots=True, eq=False)
class InfluenceBlocks:
    """The votes by the blocks that the correction is kept in: one per context, or one per context and annotator.

    Attributes
    ----------
    context : ndarray of int, shape (q,)
        Context of each block.
    entry_block, entry_cell : ndarray of int, shape (e,)
        A block's votes on one cell.
    entry_share : ndarray, shape (e,)
        Their number as a share of the cell's votes.
    entry_y : ndarray, shape (e, C)
        Their mean label.
    own : ndarray of int, shape (n,)
        The block of each context that is no annotator's, -1 where there is none.
    """

    context: IntArray
    entry_block: IntArray
    entry_cell: IntArray
    entry_share: FloatArray
    entry_y: FloatArray
    own: IntArray

    @property
    def weight(self) -> FloatArray:
        """Labelled cells that each block amounts to, shared cells in proportion to the votes, (q,)."""
        total: FloatArray = np.zeros(len(self.context))
        np.add.at(total, self.entry_block, self.entry_share)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class JudgeCorrection:
    """What a judge's verdicts add to the correction: weight (m - mu) at the judged cells.

    Attributes
    ----------
    cells : Cells
        The r judged cells.
    weight : ndarray, shape (r,)
        1 / rho, rho = P(the pair is judged | x), times the share of labelled pairs that were judged.
    m : ndarray, shape (r, C)
        Probabilities of the labels given x and the verdict, out of fold.
    label : ndarray of int, shape (m,)
        Judged cell of every labelled cell, -1 where it was not judged.
    """

    cells: Cells
    weight: FloatArray
    m: FloatArray
    label: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """What labels say of mu where it is linear in them: cells with the same mu may be one, with their mean label.

    Attributes
    ----------
    mu : ndarray, shape (r, C)
        Out-of-fold probabilities, not floored.
    cells : Cells
        The r cells with all votes that they stand for.
    count : ndarray of int, shape (r,)
        Labelled cells that each stands for.
    """

    mu: FloatArray
    cells: Cells
    count: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Influence:
    """The blocks phi_i = a_i + sum of the corrections in context i, not yet centred.

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
    sampled : ndarray, shape (n,), or None
        Where F(mu) is averaged over a sample of m contexts only: n / m for these, 0 for the others, whose ``value`` is
        zero. None where all contexts count.
    """

    value: FloatArray
    correction: FloatArray
    block_context: IntArray
    block_weight: FloatArray
    weight: FloatArray
    variance_correction: FloatArray | None = None
    sampled: FloatArray | None = None

    def by_context(self) -> Influence:
        """The same: it is written out for every context."""
        return self

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
        return self.weight if self.sampled is None else self.weight * self.sampled

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
        value = self.value if self.sampled is None else self.sampled[:, None] * self.value
        return value + self.correction_by_context

    @property
    def subsample_inflation(self) -> float:
        """What averaging F over a sample adds to the standard errors, as a share; the largest over scores.

        With S_F and S_D the variances of F and of the correction over contexts and C their covariance, the variance is
        S_F / m + (S_D + 2 C) / n instead of (S_F + S_D + 2 C) / n.
        """
        if self.sampled is None:
            return 0.0
        kept = self.sampled > 0
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
        if self.sampled is None:
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
        return replace(self, value=np.broadcast_to(self.plugin, self.value.shape), sampled=None)


def mean_influence(influences: Sequence[Influence]) -> Influence:
    """The mean over repetitions with other folds, value by value and block by block."""
    value = np.mean([_as_if_all(influence) for influence in influences], axis=0)
    correction = np.mean([influence.correction for influence in influences], axis=0)
    known = [influence.variance_correction for influence in influences if influence.variance_correction is not None]
    variance_correction = np.mean(known, axis=0) if len(known) == len(influences) else None
    return replace(
        influences[0], value=value, correction=correction, variance_correction=variance_correction, sampled=None
    )


def _as_if_all(influence: Influence) -> FloatArray:
    """Values, (n, d), whose mean and spread over all contexts are those of the sample's."""
    if influence.sampled is None:
        return influence.value
    return influence.plugin + influence.sampled[:, None] * (influence.value - influence.plugin)


def blocks_by_context(data: PreferenceData) -> InfluenceBlocks:
    """One block per context; it is empty where the context has no label."""
    cells, everyone = data.cells, np.arange(data.n_contexts)
    return InfluenceBlocks(everyone, cells.context, np.arange(len(cells)), np.ones(len(cells)), cells.y, everyone)


def blocks_by_group(
    data: PreferenceData, vote_group: IntArray, judged: IntArray | None = None
) -> tuple[InfluenceBlocks, IntArray]:
    """One block per context and group, and the group of each block, (q,); -1 for what belongs to the context alone.

    Parameters
    ----------
    data : PreferenceData
    vote_group : ndarray of int, shape (v,)
        Who gave each vote, numbered from 0.
    judged : ndarray of int, optional
        Contexts that have a block of their own beside the groups', as those without a label have.
    """
    entries, vote_entry, count = np.unique(
        np.stack([data.vote_cell, vote_group], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    y = np.zeros((len(entries), data.n_categories))
    np.add.at(y, vote_entry.reshape(-1), data.vote_y)
    cell, group = entries.T
    unlabelled = np.setdiff1d(np.arange(data.n_contexts), data.cells.context)
    unlabelled = unlabelled if judged is None else np.union1d(unlabelled, judged)
    owners = np.concatenate(
        [
            np.stack([data.cells.context[cell], group], axis=1),
            np.stack([unlabelled, np.full_like(unlabelled, -1)], axis=1),
        ]
    )
    blocks, owner_block = np.unique(owners, axis=0, return_inverse=True)
    share = count / data.cells.n_votes[cell]
    own = np.full(data.n_contexts, -1, dtype=np.intp)
    alone = np.flatnonzero(blocks[:, 1] < 0)
    own[blocks[alone, 0]] = alone
    made = InfluenceBlocks(blocks[:, 0], owner_block.reshape(-1)[: len(cell)], cell, share, y / count[:, None], own)
    return made, blocks[:, 1]


def clip_and_renormalise(mu: FloatArray, floor: float) -> FloatArray:
    """Probabilities with categories below the floor raised to it and rows renormalised.

    Parameters
    ----------
    mu : ndarray, shape (n, K, K, C) or (m, C)
        All pairs of contexts, with a diagonal that stays as it is, or single pairs.
    floor : float
    """
    low = mu < floor
    items = np.arange(mu.shape[1]) if mu.ndim == 4 else None
    if items is not None:
        low[:, items, items] = False
    if not low.any():
        return mu
    lifted = np.maximum(mu, floor)
    if items is not None:
        lifted[:, items, items] = mu[:, items, items]
    # Category by category: a sum over a short last axis takes several times as long.
    total = lifted[..., 0].copy()
    for c in range(1, mu.shape[-1]):
        total += lifted[..., c]
    total[total <= 0] = 1.0
    lifted /= total[..., None]
    return lifted


def count_below(mu: FloatArray, floor: float) -> IntArray:
    """Entries below the floor in each context, (n,), of probabilities (n, K, K, C) with a diagonal of zeros."""
    n, n_items, _, n_categories = mu.shape
    return np.count_nonzero((mu < floor).reshape(n, -1), axis=1) - n_items * n_categories * (floor > 0)
