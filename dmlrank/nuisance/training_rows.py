"""Labelled cells as rows that models are trained on, and the folds that hold these rows out.

There are three kinds of rows. :class:`LabelledRows` are for smooth effects: one row per cell, which refers to the
smooth columns of its context. :class:`TrainingRows` are for classifiers: one row per cell and category, with the
features in a matrix. :class:`PairRows` are for LightGBM where that matrix would be large: they refer to the contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ..data.arrays import RowRecord, row_slices
from ..data.columns import row_codes
from ..data.preferences import BoolArray, Cells, FloatArray, IntArray, PreferenceData
from .smooth import SmoothBasis

# Smaller probabilities are raised to this one: a label with probability zero costs much, but not infinitely much.
_SMALLEST = 1e-12

# Smallest probabilities among which the log-loss of held-out labels selects.
FLOORS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1)

# Rows that are gathered at a time, and number of rows from which equal ones are merged.
_BLOCK, MERGED_FROM = 1024, 500_000


def log_loss(p: FloatArray, votes: FloatArray, *, smallest: float = _SMALLEST) -> float:
    """Return the log-loss of probabilities, (m, C), summed over all votes, (m, C)."""
    return -float((votes * np.log(np.maximum(p, smallest))).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """Folds of cross-fitting: the model of a fold is trained on the other folds and predicts this fold.

    fold (n,): Fold of each context.
    unit (n,): Unit of each context: a prompt, or a cluster of prompts. Contexts of one unit always share a fold, also
        in the cross-validation within a training set.
    """

    fold: IntArray
    unit: IntArray
    n_folds: int


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows(RowRecord):
    """Labelled cells as rows for smooth effects, one row per cell, r of them.

    table (n, q): Smooth columns of all contexts, which all selections of rows share.
    y (r, C): Shares of the categories among the votes of each cell, whose number is its weight.
    """

    table: FloatArray
    context: IntArray
    first: IntArray
    second: IntArray
    y: FloatArray
    weight: FloatArray
    shared = ("table",)

    def joined(self, other: LabelledRows) -> LabelledRows:
        """Return these rows with other rows of the same table below them."""
        names = [field.name for field in fields(self)[1:]]
        return LabelledRows(self.table, *(np.concatenate([getattr(self, n), getattr(other, n)]) for n in names))

    def merged(self, n_items: int) -> LabelledRows:
        """Return one row for all that have equal columns and items, where these are many; the likelihood is the same.

        With few rows this would save little, and change the last digits of sums.
        """
        if len(self) < MERGED_FROM:
            return self
        place = row_codes(self.table[self.context[rows]] for rows in row_slices(len(self), self.table.shape[1]))
        if (place.max() + 1) * n_items * (n_items - 1) / 2 > len(self):
            return self
        code = (place * n_items + self.first) * n_items + self.second
        _, representative, kind = np.unique(code, return_index=True, return_inverse=True)
        votes = np.stack([np.bincount(kind, self.weight * share) for share in self.y.T], axis=1)
        merged, weight = self.only(representative), np.bincount(kind, self.weight).astype(float)
        return replace(merged, y=votes / weight[:, None], weight=weight)

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True, eq=False)
class FoldCells(RowRecord):
    """Labelled cells as rows, m of them, with the fold that holds each cell out.

    basis: Basis of the smooth columns of ``rows``, from features ``x`` (n, p) of all contexts.
    number (m,): Index of each cell among all cells of the fit, those with soft labels included.
    ordered: Whether display order matters.
    soft: Cells with soft labels (predicted probabilities instead of votes), by fold. The model of a fold is trained on
        them, and no loss is computed on them. Empty where there are no soft labels.
    """

    rows: LabelledRows
    basis: SmoothBasis
    x: FloatArray
    fold: IntArray
    number: IntArray
    n_items: int
    ordered: bool
    soft: tuple[FoldCells, ...] = ()
    shared = ("basis", "x", "n_items", "ordered", "soft")

    def joined(self, other: FoldCells) -> FoldCells:
        """Return these cells with the other cells below them."""
        fold, number = np.concatenate([self.fold, other.fold]), np.concatenate([self.number, other.number])
        return replace(self, rows=self.rows.joined(other.rows), fold=fold, number=number, soft=())

    def split(self, f: int) -> tuple[FoldCells, FoldCells]:
        """Return the training cells of fold ``f``, soft labels included, and the held-out cells of the fold."""
        training, held_out = (self.only(np.flatnonzero(part)) for part in (self.fold != f, self.fold == f))
        if self.soft:
            training = training.joined(self.soft[f].only(np.flatnonzero(self.soft[f].fold != f)))
        return training, replace(held_out, soft=())


def labelled_cells(
    data: PreferenceData, basis: SmoothBasis, fold: IntArray, soft_cells: Sequence[Cells] = ()
) -> FoldCells:
    """Return all labelled cells as rows, and the soft-label cells of every fold; all are numbered consecutively."""
    table, parts, count = basis.of(data.x), list[FoldCells](), 0
    for cells in (data.cells, *soft_cells):
        cell = ordered_cells(replace(data, cells=cells), np.ones(data.n_contexts, dtype=bool))
        context, weight = cells.context[cell], cells.n_votes[cell].astype(float)
        rows = LabelledRows(table, context, cells.first[cell], cells.second[cell], cells.y[cell], weight)
        number = count + np.arange(len(cell))
        parts.append(FoldCells(rows, basis, data.x, fold[context], number, data.n_items, data.ordered))
        count += len(cell)
    return replace(parts[0], soft=tuple(parts[1:]))


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
    """Rows for a classifier, without the matrix of their features: each row names its context and its items."""

    context: IntArray
    first: IntArray
    second: IntArray
    label: IntArray
    weight: FloatArray


def outcome_rows(data: PreferenceData, in_training: BoolArray, unit: IntArray) -> TrainingRows:
    """Return one row for every category that was chosen in a cell of the training contexts, weighted by its votes.

    Where display order does not matter, every vote gives one row in each order, each with half of the vote's weight.
    """
    cells, training_cells = data.cells, ordered_cells(data, in_training)
    place, label = np.nonzero(cells.y[training_cells])
    cell = training_cells[place]
    features = stack_rows(data.x, cells.context[cell], cells.first[cell], cells.second[cell])
    weight = cells.y[cell, label] * cells.n_votes[cell]
    row_unit = unit[cells.context[cell]]
    if data.ordered:
        return TrainingRows(features, label, weight, row_unit)
    swapped = features.copy()
    swapped[:, [-2, -1]] = swapped[:, [-1, -2]]
    return TrainingRows(
        np.concatenate([features, swapped]),
        np.concatenate([label, data.flip[label]]),
        np.concatenate([weight, weight]) / 2,
        np.concatenate([row_unit, row_unit]),
    )


def ordered_cells(data: PreferenceData, in_training: BoolArray) -> IntArray:
    """Return the labelled cells of the training contexts, (r,), in an order that does not depend on the data's rows.

    The order of a booster's rows changes the last digits of its sums, and thereby its trees.
    """
    cell = np.flatnonzero(in_training[data.cells.context])
    return cell[np.argsort(data.seed_order[data.cells.context[cell]], kind="stable")]


def stack_rows(x: FloatArray, context: IntArray, first: IntArray, second: IntArray) -> FloatArray:
    """Return rows [x, first, second], (r, p + 2)."""
    rows = np.empty((len(context), x.shape[1] + 2), x.dtype)
    for part in row_slices(len(context), 1, _BLOCK):
        rows[part, :-2] = x[context[part]]
    rows[:, -2], rows[:, -1] = first, second
    return rows
