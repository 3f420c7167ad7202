"""Groups of identical contexts: contexts of one fold with the same labels, whose influence values are the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData

# Codes are looked up in a table with one entry for each possible code, unless the table would be larger than
# _SPARE_ENTRIES plus _ENTRIES_PER_CONTEXT times the number of contexts; larger sets of codes are sorted.
_SPARE_ENTRIES, _ENTRIES_PER_CONTEXT = 1_000_000, 4


@dataclass(frozen=True, slots=True, eq=False)
class IdenticalContexts:
    """Groups of contexts in the same fold with the same label on the same ordered pair.

    Without features, all contexts of a group have the same mu and therefore the same influence value.

    A million contexts with one vote each on K models form at most K (K - 1) C groups in a fold. The contexts without
    labels form one group per fold. A context with several labelled cells, or with a label that is not one-hot, is a
    group of its own.

    group (n,): Group of each context.
    fold (k,): Fold of each group, never decreasing.
    cells: The r labelled cells of one representative context of each group, with the votes of all contexts in the
        group.
    cell_group (r,): Group of each of these r cells, never decreasing.
    representative (r,): For each of the r cells, its index among the m labelled cells of the data.
    row (m,): For each labelled cell of the data, the index of the cell among the r that represents it.
    """

    group: IntArray
    fold: IntArray
    cells: Cells
    cell_group: IntArray
    representative: IntArray
    row: IntArray

    def __len__(self) -> int:
        return len(self.fold)

    @property
    def count(self) -> IntArray:
        """Number of contexts in each group, (k,)."""
        return np.bincount(self.group, minlength=len(self))

    @property
    def n_cells(self) -> IntArray:
        """Number of the data's labelled cells that each of the r cells represents, (r,)."""
        return np.bincount(self.row, minlength=len(self.representative))

    def by_pair(self, n_items: int) -> tuple[Cells, IntArray]:
        """Average the labels of each fold and ordered pair."""
        return merge_by_pair(self.cells, self.fold[self.cell_group], self.n_cells, n_items)

    def bounds(self, n_folds: int) -> IntArray:
        """Return the index of the first group of each fold and the number of groups, (n_folds + 1,)."""
        return np.searchsorted(self.fold, np.arange(n_folds + 1))

    def is_constant_within_groups(self, values: FloatArray) -> bool:
        """Whether the labelled cells that one cell represents all have the same value; ``values`` is (m,)."""
        return bool((values[self.representative][self.row] == values).all())


def merge_by_pair(cells: Cells, fold: IntArray, n_cells: IntArray | None, n_items: int) -> tuple[Cells, IntArray]:
    """Average the labels of each fold and ordered pair.

    Shapes: fold (r,), n_cells (r,).
    """
    votes = cells.n_votes
    code = (fold * n_items + cells.first) * n_items + cells.second
    n_codes = (int(fold.max()) + 1) * n_items**2
    votes_by_code = np.bincount(code, votes, n_codes)
    present = np.flatnonzero(votes_by_code)
    cell_of_code = np.empty(n_codes, np.intp)
    cell_of_code[code] = np.arange(len(code))
    total = votes_by_code[present]
    y = np.stack([np.bincount(code, votes * share, n_codes)[present] for share in cells.y.T], axis=1)
    merged = replace(cells.only(cell_of_code[present]), y=y / total[:, None], n_votes=total.astype(np.intp))
    return merged, np.bincount(code, n_cells, n_codes)[present].astype(np.intp)


def may_save_half(data: PreferenceData) -> bool:
    """Whether the groups of identical contexts could be at most half as many as the contexts.

    A context with several labelled cells is a group of its own. Where most contexts are of this kind, a search for
    groups saves nothing.
    """
    n_cells = np.bincount(data.cells.context, minlength=data.n_contexts)
    return 2 * int((n_cells > 1).sum()) < data.n_contexts


def find_identical_contexts(data: PreferenceData, fold: IntArray) -> IdenticalContexts:
    """Sort contexts into groups of identical ones.

    Shapes: fold (n,).
    """
    cells = data.cells
    n_cells = np.bincount(cells.context, minlength=data.n_contexts)
    code, n_codes = _label_codes(data, n_cells)
    group, context_of_group = _group_equal(fold * n_codes + code, (int(fold.max()) + 1) * n_codes)
    # The cells of the representative contexts follow each other in the order of the groups.
    first_cell, n_group_cells = np.cumsum(n_cells) - n_cells, n_cells[context_of_group]
    cell_group = np.repeat(np.arange(len(context_of_group)), n_group_cells)
    first_row = np.cumsum(n_group_cells) - n_group_cells
    cell = np.arange(len(cell_group)) + (first_cell[context_of_group] - first_row)[cell_group]
    row = first_row[group[cells.context]]
    # A context with several cells is a group of its own, whose cells have consecutive rows. With one
    # cell in every context, the number to add is zero, and the addition is skipped.
    if len(row) > len(context_of_group) or n_group_cells.max(initial=0) > 1:
        row += np.arange(len(row)) - first_cell[cells.context]
    votes = np.bincount(row, weights=cells.n_votes, minlength=len(cell)).astype(np.intp)
    merged = Cells(
        cells.context[cell], cells.first[cell], cells.second[cell], cells.y[cell], votes, cells.flipped[cell]
    )
    return IdenticalContexts(group, fold[context_of_group], merged, cell_group, cell, row)


def _label_codes(data: PreferenceData, n_cells: IntArray) -> tuple[IntArray, int]:
    """Return an integer code for the labels of each context, (n,), and an upper limit: all codes are smaller."""
    cells, n_items, n_categories = data.cells, data.n_items, data.n_categories
    label, can_share = _one_hot_labels(cells.y)
    cell_code = (cells.first * n_items + cells.second) * n_categories + label
    n_cell_codes = n_items**2 * n_categories
    if can_share.all() and (n_cells == 1).all():
        return cell_code, n_cell_codes
    code = np.full(data.n_contexts, n_cell_codes)
    # Contexts with several labelled cells, or a label that is not one-hot, get a code that no other context has.
    can_share &= n_cells[cells.context] == 1
    code[cells.context[can_share]] = cell_code[can_share]
    ungrouped = np.flatnonzero((n_cells > 0) & (code == n_cell_codes))
    code[ungrouped] += 1 + np.arange(len(ungrouped))
    return code, n_cell_codes + 1 + len(ungrouped)


def _one_hot_labels(y: FloatArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return the category of every one-hot label, (m,), and which labels, (m, C), are one-hot."""
    label, n_ones, has_fraction = np.zeros(len(y), np.intp), np.zeros(len(y), np.intp), np.zeros(len(y), bool)
    for category, share in enumerate(y.T):
        is_one = share == 1
        label += category * is_one
        n_ones += is_one
        has_fraction |= (share != 0) & ~is_one
    return label, (n_ones == 1) & ~has_fraction


def _group_equal(code: IntArray, n_codes: int) -> tuple[IntArray, IntArray]:
    """Return the rank of each code among the k distinct ones, (n,), and the index of one context for each, (k,)."""
    if n_codes > _ENTRIES_PER_CONTEXT * len(code) + _SPARE_ENTRIES:
        _, context, rank = np.unique(code, return_index=True, return_inverse=True)
        return rank.reshape(-1), context
    context_of_code = np.full(n_codes, -1)
    context_of_code[code] = np.arange(len(code))
    present = np.flatnonzero(context_of_code >= 0)
    rank_of_code = np.empty(n_codes, np.intp)
    rank_of_code[present] = np.arange(len(present))
    return rank_of_code[code], context_of_code[present]
