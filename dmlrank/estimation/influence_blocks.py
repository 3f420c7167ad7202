"""Influence blocks: the sets of votes for which corrections are stored.

A block is all votes on one context, or all votes of one group, such as an annotator, on one context.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import FloatArray, IntArray, PreferenceData


@dataclass(frozen=True, slots=True, eq=False)
class InfluenceBlocks:
    """The votes of each block: all votes on one context, or the votes of one group on one context.

    A group is the votes of an annotator, for example. An entry is the votes of one block on one labelled cell.

    context (q,): Context of each block.
    entry_block, entry_cell (e,): Block and labelled cell of each entry.
    entry_share (e,): Number of the entry's votes as a share of the cell's votes.
    entry_y (e, C): Mean label of the entry's votes.
    context_block (n,): For each context, its block that belongs to no group; -1 where the context has no such block.
    """

    context: IntArray
    entry_block: IntArray
    entry_cell: IntArray
    entry_share: FloatArray
    entry_y: FloatArray
    context_block: IntArray

    @property
    def one_per_context(self) -> bool:
        """Whether block i is context i."""
        return self.context is self.context_block

    @property
    def weight(self) -> FloatArray:
        """Number of labelled cells in each block, (q,).

        A cell with votes in several blocks counts in each of them by the share of its votes there.
        """
        total: FloatArray = np.zeros(len(self.context))
        np.add.at(total, self.entry_block, self.entry_share)
        return total


def blocks_by_context(data: PreferenceData) -> InfluenceBlocks:
    """Make one block per context; a context without labels has an empty block."""
    cells, contexts = data.cells, np.arange(data.n_contexts)
    # One number in memory stands for the m equal shares.
    share = np.broadcast_to(1.0, len(cells))
    return InfluenceBlocks(contexts, cells.context, np.arange(len(cells)), share, cells.y, contexts)


def blocks_by_group(
    data: PreferenceData, vote_group: IntArray, judged: IntArray | None = None
) -> tuple[InfluenceBlocks, IntArray]:
    """Make one block for each group of votes on each context.

    Shapes: vote_group (v,), returns (q,).
    """
    entries, vote_entry, count = np.unique(
        np.stack([data.vote_cell, vote_group], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    y = np.zeros((len(entries), data.n_categories))
    np.add.at(y, vote_entry.reshape(-1), data.vote_y)
    cell, group = entries.T
    unlabelled = np.setdiff1d(np.arange(data.n_contexts), data.cells.context)
    unlabelled = unlabelled if judged is None else np.union1d(unlabelled, judged)
    context_and_group = np.concatenate(
        [
            np.stack([data.cells.context[cell], group], axis=1),
            np.stack([unlabelled, np.full_like(unlabelled, -1)], axis=1),
        ]
    )
    blocks, block_of_row = np.unique(context_and_group, axis=0, return_inverse=True)
    share = count / data.cells.n_votes[cell]
    context_block = np.full(data.n_contexts, -1, dtype=np.intp)
    without_group = np.flatnonzero(blocks[:, 1] < 0)
    context_block[blocks[without_group, 0]] = without_group
    influence_blocks = InfluenceBlocks(
        context=blocks[:, 0],
        entry_block=block_of_row.reshape(-1)[: len(cell)],
        entry_cell=cell,
        entry_share=share,
        entry_y=y / count[:, None],
        context_block=context_block,
    )
    return influence_blocks, blocks[:, 1]
