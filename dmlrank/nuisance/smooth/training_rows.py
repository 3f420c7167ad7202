"""Labelled cells as rows to learn from, with what says which fold holds them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..boosting.train import ordered_cells
from ..outcome_model.main_effects import LabelledRows
from .basis import SmoothBasis

_BY_CELL = ("context", "fold", "number")


@dataclass(frozen=True, slots=True, eq=False)
class FoldCells:
    """Labelled cells as rows, the fold of each, and its number among all cells, soft ones included."""

    rows: LabelledRows
    basis: SmoothBasis
    x: FloatArray
    context: IntArray
    fold: IntArray
    number: IntArray
    n_items: int
    ordered: bool
    # Soft labels by fold, for training only.
    soft: tuple[FoldCells, ...] = ()

    def only(self, kept: IntArray) -> FoldCells:
        """Some of the cells."""
        context, fold, number = (getattr(self, name)[kept] for name in _BY_CELL)
        return replace(self, rows=self.rows.only(kept), context=context, fold=fold, number=number)

    def and_soft(self, f: int) -> FoldCells:
        """The labels outside a fold and the soft ones that go with it."""
        own = self.only(np.flatnonzero(self.fold != f))
        if not self.soft:
            return own
        more = self.soft[f].only(np.flatnonzero(self.soft[f].fold != f))
        return own.and_more(more)

    def and_more(self, others: FoldCells) -> FoldCells:
        """These cells and others below them."""
        rows = self.rows.and_more(others.rows)
        context, fold, number = (np.concatenate([getattr(own, name) for own in (self, others)]) for name in _BY_CELL)
        return replace(self, rows=rows, context=context, fold=fold, number=number, soft=())


def labelled(data: PreferenceData, basis: SmoothBasis, fold: IntArray) -> FoldCells:
    cells, inside = data.cells, ordered_cells(data, np.ones(data.n_contexts, dtype=bool))
    context = cells.context[inside]
    weight = cells.n_votes[inside].astype(float)
    columns = basis.of(data.x)[context]
    rows = LabelledRows(columns, cells.first[inside], cells.second[inside], cells.y[inside], weight)
    number = np.arange(len(context))
    return FoldCells(rows, basis, data.x, context, fold[context], number, data.n_items, data.ordered)


def with_soft(cells: FoldCells, data: PreferenceData, fold: IntArray, soft: Sequence[Cells]) -> FoldCells:
    """The labels, and for every fold soft ones, all numbered in one row."""
    made, count = list[FoldCells](), len(cells.rows)
    for more in soft:
        own = labelled(replace(data, cells=more), cells.basis, fold)
        made.append(replace(own, number=count + own.number))
        count += len(own.rows)
    return replace(cells, soft=tuple(made))
