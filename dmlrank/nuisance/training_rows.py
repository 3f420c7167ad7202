"""Labelled cells as rows that models are trained on, and the folds that hold them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from .smooth.basis import SmoothBasis

_BY_CELL = ("context", "fold", "number")
# Rows that are gathered at a time.
_BLOCK = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """Folds of cross-fitting: a model of a fold is trained on the other folds and predicts this one.

    Attributes
    ----------
    fold : ndarray of int, shape (n,)
        Fold of each context.
    unit : ndarray of int, shape (n,)
        What folds do not split, and inner folds must not split either.
    n_folds : int
    """

    fold: IntArray
    unit: IntArray
    n_folds: int


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows:
    """Labelled cells to learn from.

    Attributes
    ----------
    columns : ndarray, shape (r, q)
        Smooth columns of each cell's context.
    first, second : ndarray of int, shape (r,)
    y : ndarray, shape (r, C)
        Mean labels.
    weight : ndarray, shape (r,)
        Votes.
    """

    columns: FloatArray
    first: IntArray
    second: IntArray
    y: FloatArray
    weight: FloatArray

    def only(self, kept: IntArray) -> LabelledRows:
        """Some of the rows."""
        return LabelledRows(*(getattr(self, name)[kept] for name in self.__slots__))

    def and_more(self, others: LabelledRows) -> LabelledRows:
        """These rows and others below them."""
        names = self.__slots__
        return LabelledRows(*(np.concatenate([getattr(self, name), getattr(others, name)]) for name in names))

    def __len__(self) -> int:
        return len(self.first)


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


def labelled_cells(data: PreferenceData, basis: SmoothBasis, fold: IntArray) -> FoldCells:
    """All labelled cells as rows, with the smooth columns of their contexts and the fold that holds them out."""
    cells, inside = data.cells, ordered_cells(data, np.ones(data.n_contexts, dtype=bool))
    context = cells.context[inside]
    weight = cells.n_votes[inside].astype(float)
    columns = basis.of(data.x)[context]
    rows = LabelledRows(columns, cells.first[inside], cells.second[inside], cells.y[inside], weight)
    number = np.arange(len(context))
    return FoldCells(rows, basis, data.x, context, fold[context], number, data.n_items, data.ordered)


def with_soft_labels(cells: FoldCells, data: PreferenceData, fold: IntArray, soft: Sequence[Cells]) -> FoldCells:
    """The labels, and for every fold soft ones, all numbered in one row."""
    made, count = list[FoldCells](), len(cells.rows)
    for more in soft:
        own = labelled_cells(replace(data, cells=more), cells.basis, fold)
        made.append(replace(own, number=count + own.number))
        count += len(own.rows)
    return replace(cells, soft=tuple(made))


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRows:
    """Rows of a classification problem.

    Attributes
    ----------
    features : ndarray, shape (r, p + 2)
        Context features, then the codes of the first and of the second item; (r, p) where no items take part.
    label : ndarray of int, shape (r,)
    weight : ndarray, shape (r,)
    unit : ndarray of int, shape (r,)
        What inner folds must not split.
    """

    features: FloatArray
    label: IntArray
    weight: FloatArray
    unit: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """Rows [x, first, second] that need not be stacked: contexts and items, (r,), with labels and weights, (r,)."""

    context: IntArray
    first: IntArray
    second: IntArray
    label: IntArray
    weight: FloatArray


def outcome_rows(data: PreferenceData, kept: NDArray[np.bool_], unit: IntArray) -> TrainingRows:
    """One row for every category that was chosen in a cell of the ``kept`` contexts, weighted by its votes.

    Where order does not matter every row stands in both orders, with half its weight in each.

    Parameters
    ----------
    data : PreferenceData
    kept : ndarray of bool, shape (n,)
        Contexts to learn from.
    unit : ndarray of int, shape (n,)
    """
    cells, inside = data.cells, ordered_cells(data, kept)
    place, label = np.nonzero(cells.y[inside])
    cell = inside[place]
    features = stack_rows(data.x, cells.context[cell], cells.first[cell], cells.second[cell])
    weight = cells.y[cell, label] * cells.n_votes[cell]
    rows = TrainingRows(features, label, weight, unit[cells.context[cell]])
    return rows if data.ordered else _in_both_orders(rows, data.flip)


def _in_both_orders(rows: TrainingRows, flip: IntArray) -> TrainingRows:
    back = rows.features.copy()
    back[:, [-2, -1]] = back[:, [-1, -2]]
    return TrainingRows(
        np.concatenate([rows.features, back]),
        np.concatenate([rows.label, flip[rows.label]]),
        np.concatenate([rows.weight, rows.weight]) / 2,
        np.concatenate([rows.unit, rows.unit]),
    )


def ordered_cells(data: PreferenceData, kept: NDArray[np.bool_]) -> IntArray:
    """Labelled cells of the ``kept`` contexts, (r,), in an order that the order of the data's rows does not change.

    A booster's sums depend on the order of its rows in the last digits, and its trees on its sums.
    """
    inside = np.flatnonzero(kept[data.cells.context])
    return inside[np.argsort(data.seed_order[data.cells.context[inside]], kind="stable")]


def stack_rows(
    x: FloatArray, context: IntArray, first: IntArray, second: IntArray, *, block: int = _BLOCK
) -> FloatArray:
    """Rows [x, first, second], (r, p + 2), gathered ``block`` at a time."""
    rows = np.empty((len(context), x.shape[1] + 2), dtype=x.dtype)
    # In blocks: x[context] as a whole would be a second matrix of this size.
    for at in range(0, len(context), block):
        part = slice(at, at + block)
        rows[part, :-2] = x[context[part]]
    rows[:, -2], rows[:, -1] = first, second
    return rows
