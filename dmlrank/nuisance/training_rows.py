"""Labelled cells as rows that models are trained on, and the folds that hold these rows out.

There are three kinds of rows. :class:`LabelledRows` are for smooth effects: one row per cell, with smooth columns.
:class:`TrainingRows` are for classifiers: one row per cell and category, with the features in a matrix.
:class:`PairRows` are for LightGBM where that matrix would be large: they refer to the contexts that hold the features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from .smooth.basis import SmoothBasis

# Smaller probabilities are raised to this one: a label with probability zero costs much, but not infinitely much.
_SMALLEST = 1e-12

# Smallest probabilities among which the log-loss of held-out labels selects.
FLOORS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1)


def log_loss(p: FloatArray, votes: FloatArray, *, smallest: float = _SMALLEST) -> float:
    """Return the log-loss, summed over all votes.

    Shapes: p (m, C), votes (m, C).
    """
    return -float((votes * np.log(np.maximum(p, smallest))).sum())


_ARRAYS_BY_CELL = ("context", "fold", "number")
# Rows that are gathered at a time.
_BLOCK = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """Folds of cross-fitting: the model of a fold is trained on the other folds and predicts this fold.

    fold (n,): Fold of each context.
    unit (n,): Unit of each context: a prompt, or a cluster of prompts. Contexts of one unit always share a fold, also
        in the cross-validation within a training set.
    n_folds: Number of folds.
    """

    fold: IntArray
    unit: IntArray
    n_folds: int


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows:
    """Labelled cells as rows for smooth effects, one row per cell, r of them.

    columns (r, q): Smooth columns of each cell's context.
    first, second (r,): Codes of the items shown first and second.
    y (r, C): Shares of the categories among the votes of each cell.
    weight (r,): Number of votes.
    """

    columns: FloatArray
    first: IntArray
    second: IntArray
    y: FloatArray
    weight: FloatArray

    def only(self, rows: IntArray) -> LabelledRows:
        """Return the rows with these numbers, in their order."""
        return LabelledRows(*(getattr(self, name)[rows] for name in self.__slots__))

    def joined(self, other: LabelledRows) -> LabelledRows:
        """Return these rows with the other rows below them."""
        names = self.__slots__
        return LabelledRows(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True, eq=False)
class FoldCells:
    """Labelled cells as rows, m of them, with the fold that holds each cell out.

    rows: The cells as rows.
    basis: Basis of the smooth columns of ``rows``.
    x (n, p): Features of all contexts.
    context, fold (m,): Context and fold of each cell.
    number (m,): Index of each cell among all cells of the fit, those with soft labels included.
    n_items: Number of items, K.
    ordered: Whether display order matters.
    soft: Cells with soft labels (predicted probabilities instead of votes), by fold. The model of a fold is trained on
        them, and no loss is computed on them. Empty where there are no soft labels.
    """

    rows: LabelledRows
    basis: SmoothBasis
    x: FloatArray
    context: IntArray
    fold: IntArray
    number: IntArray
    n_items: int
    ordered: bool
    soft: tuple[FoldCells, ...] = ()

    def only(self, cells: IntArray) -> FoldCells:
        """Return the cells at these places, in their order."""
        context, fold, number = (getattr(self, name)[cells] for name in _ARRAYS_BY_CELL)
        return replace(self, rows=self.rows.only(cells), context=context, fold=fold, number=number)

    def training_cells(self, f: int) -> FoldCells:
        """Return the cells that the model of fold ``f`` is trained on: outside the fold, soft labels included."""
        labelled = self.only(np.flatnonzero(self.fold != f))
        if not self.soft:
            return labelled
        return labelled.joined(self.soft[f].only(np.flatnonzero(self.soft[f].fold != f)))

    def joined(self, other: FoldCells) -> FoldCells:
        """Return these cells with the other cells below them."""
        rows = self.rows.joined(other.rows)
        context, fold, number = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in _ARRAYS_BY_CELL
        )
        return replace(self, rows=rows, context=context, fold=fold, number=number, soft=())


def labelled_cells(data: PreferenceData, basis: SmoothBasis, fold: IntArray) -> FoldCells:
    """Return all labelled cells as rows.

    Shapes: fold (n,).
    """
    cells, cell = data.cells, ordered_cells(data, np.ones(data.n_contexts, dtype=bool))
    context, weight = cells.context[cell], cells.n_votes[cell].astype(float)
    rows = LabelledRows(basis.of(data.x)[context], cells.first[cell], cells.second[cell], cells.y[cell], weight)
    return FoldCells(rows, basis, data.x, context, fold[context], np.arange(len(cell)), data.n_items, data.ordered)


def with_soft_labels(
    labelled: FoldCells, data: PreferenceData, fold: IntArray, soft_cells: Sequence[Cells]
) -> FoldCells:
    """Return labelled cells together with the soft-label cells of every fold, all numbered consecutively.

    Shapes: fold (n,).
    """
    soft, count = list[FoldCells](), len(labelled.rows)
    for cells in soft_cells:
        cells_of_fold = labelled_cells(replace(data, cells=cells), labelled.basis, fold)
        soft.append(replace(cells_of_fold, number=count + cells_of_fold.number))
        count += len(cells_of_fold.rows)
    return replace(labelled, soft=tuple(soft))


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRows:
    """Rows for a classifier, each with one category as its label; a cell with votes for two categories gives two rows.

    features (r, p + 2): Context features, then the codes of the first and of the second item. The shape is (r, p),
        without items, for the probability that a context has any label.
    label (r,): Category of each row.
    weight (r,): Votes that the row stands for.
    unit (r,): Unit of each row's context. Cross-validation within the rows keeps the rows of a unit in one fold.
    """

    features: FloatArray
    label: IntArray
    weight: FloatArray
    unit: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """Rows for a classifier, without the matrix of their features: each row names its context and its items.

    context, first, second (r,): Context and items of each row.
    label (r,): Category of each row.
    weight (r,): Weight of each row.
    """

    context: IntArray
    first: IntArray
    second: IntArray
    label: IntArray
    weight: FloatArray


def outcome_rows(data: PreferenceData, in_training: NDArray[np.bool_], unit: IntArray) -> TrainingRows:
    """Return one row for every category that was chosen in a cell of the training contexts, weighted by its votes.

    Where display order does not matter, every vote gives one row in each order, each with half of the vote's weight.

    Shapes: in_training (n,), unit (n,).
    """
    cells, training_cells = data.cells, ordered_cells(data, in_training)
    place, label = np.nonzero(cells.y[training_cells])
    cell = training_cells[place]
    features = stack_rows(data.x, cells.context[cell], cells.first[cell], cells.second[cell])
    weight = cells.y[cell, label] * cells.n_votes[cell]
    rows = TrainingRows(features, label, weight, unit[cells.context[cell]])
    return rows if data.ordered else _in_both_orders(rows, data.flip)


def _in_both_orders(rows: TrainingRows, flip: IntArray) -> TrainingRows:
    """Return each row in its own and in the other order, with half of its weight in each.

    Shapes: flip (C,).
    """
    swapped = rows.features.copy()
    swapped[:, [-2, -1]] = swapped[:, [-1, -2]]
    return TrainingRows(
        np.concatenate([rows.features, swapped]),
        np.concatenate([rows.label, flip[rows.label]]),
        np.concatenate([rows.weight, rows.weight]) / 2,
        np.concatenate([rows.unit, rows.unit]),
    )


def ordered_cells(data: PreferenceData, in_training: NDArray[np.bool_]) -> IntArray:
    """Return the labelled cells of the training contexts, (r,), in an order that does not depend on the data's rows.

    The order of a booster's rows changes the last digits of its sums, and thereby its trees. Therefore the cells are
    sorted by ``data.seed_order``.

    Shapes: in_training (n,).
    """
    cell = np.flatnonzero(in_training[data.cells.context])
    return cell[np.argsort(data.seed_order[data.cells.context[cell]], kind="stable")]


def stack_rows(
    x: FloatArray, context: IntArray, first: IntArray, second: IntArray, *, block: int = _BLOCK
) -> FloatArray:
    """Return rows [x, first, second], (r, p + 2).

    Shapes: x (n, p), context, first, second (r,).
    """
    rows = np.empty((len(context), x.shape[1] + 2), x.dtype)
    for begin in range(0, len(context), block):
        part = slice(begin, begin + block)
        rows[part, :-2] = x[context[part]]
    rows[:, -2], rows[:, -1] = first, second
    return rows
