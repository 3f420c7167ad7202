"""Groups of identical contexts: those of one fold with the same labels, which share an influence without features."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData

# Groups are counted in a table with a place for each that could be, unless it has many times more places than contexts.
_SPARE, _PER_CONTEXT = 1_000_000, 4


@dataclass(frozen=True, slots=True, eq=False)
class IdenticalContexts:
    """Groups of contexts in the same fold with the same label on the same pair.

    A million one-vote contexts of K items make at most K (K - 1) C groups in a fold. Contexts without labels are one
    group per fold; those with several labelled cells, or with labels that are not one-hot, are groups of their own.

    Attributes
    ----------
    group : ndarray of int, shape (n,)
        Group of each context.
    fold : ndarray of int, shape (k,)
        Fold of each group, never decreasing.
    cells : Cells
        The r labelled cells of one context of each group, with the votes of all contexts in the group.
    cell_group : ndarray of int, shape (r,)
        Group that each of these cells belongs to, never decreasing.
    example : ndarray of int, shape (r,)
        Which of the data's cells they are.
    row : ndarray of int, shape (m,)
        Which of the r cells stands for each of the data's cells.
    """

    group: IntArray
    fold: IntArray
    cells: Cells
    cell_group: IntArray
    example: IntArray
    row: IntArray

    def __len__(self) -> int:
        return len(self.fold)

    @property
    def count(self) -> IntArray:
        """Contexts of each group, (k,)."""
        return np.bincount(self.group, minlength=len(self))

    @property
    def n_cells(self) -> IntArray:
        """Labelled cells that each of the r cells stands for, (r,)."""
        return np.bincount(self.row, minlength=len(self.example))

    def by_pair(self, n_items: int) -> tuple[Cells, IntArray]:
        """The mean label of each fold's votes on each pair, as cells, and the labelled cells that each stands for."""
        cells, votes = self.cells, self.cells.n_votes
        number = (self.fold[self.cell_group] * n_items + cells.first) * n_items + cells.second
        bound = (int(self.fold.max()) + 1) * n_items**2
        total = np.bincount(number, votes, bound)
        found = np.flatnonzero(total)
        example = np.empty(bound, np.intp)
        example[number] = np.arange(len(number))
        where = example[found]
        y = np.stack([np.bincount(number, votes * share, bound)[found] for share in cells.y.T], axis=1)
        merged = cells.only(where)
        count = np.bincount(number, self.n_cells, bound)[found].astype(np.intp)
        return replace(merged, y=y / total[found, None], n_votes=total[found].astype(np.intp)), count

    def bounds(self, n_folds: int) -> IntArray:
        """Where the groups of each fold begin, (n_folds + 1,)."""
        return np.searchsorted(self.fold, np.arange(n_folds + 1))

    def is_constant_within_groups(self, values: FloatArray) -> bool:
        """Whether contexts of one group have the same values at their labelled cells, (m,)."""
        return bool((values[self.example][self.row] == values).all())


def find_identical_contexts(data: PreferenceData, fold: IntArray) -> IdenticalContexts:
    """Sort contexts into groups of identical ones.

    Parameters
    ----------
    data : PreferenceData
    fold : ndarray of int, shape (n,)
        Fold of each context.
    """
    cells = data.cells
    n_cells = np.bincount(cells.context, minlength=data.n_contexts)
    number, bound = _numbers(data, n_cells)
    group, example = _ranked(fold * bound + number, (int(fold.max()) + 1) * bound)
    # An example's cells in the order of the groups; a cell's row counts on from the first one of its group.
    first_cell, own = np.cumsum(n_cells) - n_cells, n_cells[example]
    cell_group = np.repeat(np.arange(len(example)), own)
    first_row = np.cumsum(own) - own
    cell = np.arange(len(cell_group)) + (first_cell[example] - first_row)[cell_group]
    row = first_row[group[cells.context]]
    if len(row) > len(example) or own.max(initial=0) > 1:
        row += np.arange(len(row)) - first_cell[cells.context]
    votes = np.bincount(row, weights=cells.n_votes, minlength=len(cell)).astype(np.intp)
    alike = Cells(cells.context[cell], cells.first[cell], cells.second[cell], cells.y[cell], votes, cells.flipped[cell])
    return IdenticalContexts(group, fold[example], alike, cell_group, cell, row)


def _numbers(data: PreferenceData, n_cells: IntArray) -> tuple[IntArray, int]:
    """A number for each context's labels, (n,), and a bound that all are below."""
    cells, n_items, n_categories = data.cells, data.n_items, data.n_categories
    label, shared = _hard_labels(cells.y)
    code = (cells.first * n_items + cells.second) * n_categories + label
    n_codes = n_items**2 * n_categories
    if shared.all() and (n_cells == 1).all():
        return code, n_codes
    number = np.full(data.n_contexts, n_codes)
    shared &= n_cells[cells.context] == 1
    number[cells.context[shared]] = code[shared]
    alone = np.flatnonzero((n_cells > 0) & (number == n_codes))
    number[alone] += 1 + np.arange(len(alone))
    return number, n_codes + 1 + len(alone)


def _hard_labels(y: FloatArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """The category of every one-hot label, (m,), and which labels, (m, C), are one-hot."""
    label, ones, others = np.zeros(len(y), np.intp), np.zeros(len(y), np.intp), np.zeros(len(y), bool)
    for category, share in enumerate(y.T):
        hit = share == 1
        label += category * hit
        ones += hit
        others |= (share != 0) & ~hit
    return label, (ones == 1) & ~others


def _ranked(number: IntArray, bound: int) -> tuple[IntArray, IntArray]:
    """Place of each number among the different ones, (n,), and where one of each is found, (k,).

    Examples
    --------
    >>> _ranked(np.arange(6) % 3, 3)[0].tolist()
    [0, 1, 2, 0, 1, 2]
    """
    if bound > _PER_CONTEXT * len(number) + _SPARE:
        _, example, place = np.unique(number, return_index=True, return_inverse=True)
        return place.reshape(-1), example
    where = np.full(bound, -1)
    where[number] = np.arange(len(number))
    found = np.flatnonzero(where >= 0)
    place = np.empty(bound, np.intp)
    place[found] = np.arange(len(found))
    return place[number], where[found]
