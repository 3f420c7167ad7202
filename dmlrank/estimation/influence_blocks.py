"""Influence blocks: the parts that a correction is kept in, one per context or one per context and annotator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray, IntArray, PreferenceData


@dataclass(frozen=True, slots=True, eq=False)
class InfluenceBlocks:
    """The votes by block: a block holds those of one context, or those of one annotator on one context.

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
        The block of each context that belongs to no annotator, -1 where there is none.
    """

    context: IntArray
    entry_block: IntArray
    entry_cell: IntArray
    entry_share: FloatArray
    entry_y: FloatArray
    own: IntArray

    @property
    def one_per_context(self) -> bool:
        """Whether block i is context i."""
        return self.context is self.own

    @property
    def weight(self) -> FloatArray:
        """Labelled cells that each block amounts to, shared cells in proportion to the votes, (q,)."""
        total: FloatArray = np.zeros(len(self.context))
        np.add.at(total, self.entry_block, self.entry_share)
        return total


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
