"""Battles that were shown to voters, with and without a vote: rows of the data that name two models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import FloatArray, IntArray
from .preferences import Cells, PreferenceData


@dataclass(frozen=True, slots=True, eq=False)
class ShownBattles:
    """Rows of the data that name two ranked models, each of them a battle that was shown to a voter.

    A shown cell is a context with an ordered pair that was shown there. A labelled cell is a shown cell with a vote.

    row (b,): Row of each battle among the rows that the fit uses.
    context, first, second (b,): Context and items of each battle. Where display order does not matter, ``first`` is the
        smaller code.
    flipped (b,): Whether item ``second`` was shown first; false everywhere where display order matters.
    voted (b,): Whether the battle got a vote.
    share (b,): One divided by the number of battles of the same shown cell.
    """

    row: IntArray
    context: IntArray
    first: IntArray
    second: IntArray
    flipped: NDArray[np.bool_]
    voted: NDArray[np.bool_]
    share: FloatArray

    @property
    def n_unvoted(self) -> int:
        """Number of battles without a vote."""
        return int((~self.voted).sum())

    def __len__(self) -> int:
        return len(self.row)

    def cells(self, n_items: int, n_categories: int) -> tuple[Cells, IntArray]:
        """Return the shown cells in the form of labelled cells, and the cell of each battle, (b,).

        The labels ``y`` of these cells are zero, because a shown cell need not have a vote.
        """
        code = ((self.context.astype(np.int64) * n_items + self.first) * n_items + self.second) * 2 + self.flipped
        _, battle, cell, count = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        y = np.zeros((len(battle), n_categories))
        cells = Cells(
            self.context[battle],
            self.first[battle],
            self.second[battle],
            y,
            count.astype(np.intp),
            self.flipped[battle],
        )
        return cells, cell.reshape(-1)


def read_shown_battles(data: PreferenceData, first: str, second: str) -> ShownBattles:
    """Return all rows that name two different ranked models, voted or not."""
    place_of = {name: place for place, name in enumerate(data.items)}
    left, right = (data.columns.coded(name).places(place_of) for name in (first, second))
    voted = np.zeros(len(data.row_context), dtype=bool)
    voted[data.vote_row] = True
    row = np.flatnonzero((left >= 0) & (right >= 0) & (left != right))
    left, right = left[row], right[row]
    flipped = np.zeros(len(row), dtype=bool) if data.ordered else left > right
    battles = ShownBattles(
        row=row,
        context=data.row_context[row],
        first=np.where(flipped, right, left),
        second=np.where(flipped, left, right),
        flipped=flipped,
        voted=voted[row],
        share=np.ones(len(row)),
    )
    cells, cell = battles.cells(data.n_items, data.n_categories)
    return ShownBattles(
        row=battles.row,
        context=battles.context,
        first=battles.first,
        second=battles.second,
        flipped=flipped,
        voted=battles.voted,
        share=1 / cells.n_votes[cell],
    )
