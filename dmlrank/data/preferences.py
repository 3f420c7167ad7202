"""Preference data as arrays: contexts, votes and the cells (context, first, second) they fall into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .columns import Columns
from .formula.features import FeatureMap
from .outcomes import exchange_wins, exchanged_wins
from .shared_texts import SharedTexts

IntArray = NDArray[np.intp]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Labelled cells (context, first, second), sorted in this order.

    Attributes
    ----------
    context, first, second : ndarray of int, shape (m,)
        Where each cell lies.
    y : ndarray, shape (m, C)
        Mean label of the cell's votes; a row sums to one.
    n_votes : ndarray of int, shape (m,)
        Number of votes averaged.
    flipped : ndarray of bool, shape (m,)
        Where order does not matter, cells whose items were shown the other way round; nowhere else.
    """

    context: IntArray
    first: IntArray
    second: IntArray
    y: FloatArray
    n_votes: IntArray
    flipped: NDArray[np.bool_]

    @property
    def shown(self) -> tuple[IntArray, IntArray]:
        """The items in the order in which they were shown, (m,) each."""
        return np.where(self.flipped, self.second, self.first), np.where(self.flipped, self.first, self.second)

    def only(self, kept: NDArray[np.bool_] | IntArray) -> Cells:
        """The kept cells."""
        return Cells(*(getattr(self, name)[kept] for name in self.__slots__))

    def joined(self, others: Cells) -> Cells:
        """These cells and others, sorted."""
        both = Cells(*(np.concatenate([getattr(self, name), getattr(others, name)]) for name in self.__slots__))
        order = np.lexsort((both.second, both.first, both.context))
        return Cells(*(getattr(both, name)[order] for name in self.__slots__))

    def __len__(self) -> int:
        return len(self.context)

    def counts(self, n_items: int) -> NDArray[np.int64]:
        """Labelled cells of every ordered pair, (K, K); above the diagonal only where order does not matter."""
        pair = self.first * n_items + self.second
        return np.bincount(pair, minlength=n_items**2).reshape(n_items, n_items)


@dataclass(frozen=True, slots=True, eq=False)
class PreferenceData:
    """What a fit needs from a frame; n contexts, v votes, m labelled cells, K items, C categories, p features.

    Attributes
    ----------
    items : tuple of str
        Names of the K items, in the order of every array.
    categories : tuple of str
        Meanings of the C categories, in canonical order.
    labels : tuple of (str, str)
        What each label found was read as.
    x : ndarray, shape (n, p)
        Features; in single precision where all of them were handed in so.
    feature_map : FeatureMap
        What computes the features of further contexts.
    context_ids : ndarray of object, shape (n,)
        Identifiers in order of first appearance; tuples where several columns identify a context.
    seed_order : ndarray of int, shape (n,)
        Place of each context in an order that does not depend on the order of the rows, where identifiers are given.
    vote_cell : ndarray of int, shape (v,)
        Cell of each vote.
    vote_y : ndarray, shape (v, C)
        One-hot labels, or soft ones: rows that sum to one.
    vote_row : ndarray of int, shape (v,)
        Row of each vote among the rows that were kept.
    row_context : ndarray of int, shape (rows,)
        Context of every row that was kept.
    first_row : ndarray of int, shape (n,)
        First row of each context among the rows that were kept.
    columns : Columns
        Columns of the frame, for the rows that were kept: the formula's but for vectors, and all that options name.
    row_index : ndarray of int, shape (rows,)
        Position in the caller's frame of every row that was kept.
    n_rows, n_dropped : int
        Rows read, and rows dropped because values were missing.
    ordered : bool
        Whether showing a pair the other way round makes it another pair.
    outcome_kind : {"labels", "preferences", "probabilities"}
        What the outcome column or columns hold.
    n_votes_dropped : int
        Later votes on a context and pair that were left out.
    n_added : int
        Contexts that only the frame of unlabelled ones has.
    shared_texts : SharedTexts or None
        Contexts that share a text, where some do.
    """

    items: tuple[str, ...]
    categories: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    x: FloatArray
    feature_map: FeatureMap
    context_ids: NDArray[np.object_]
    seed_order: IntArray
    cells: Cells
    vote_cell: IntArray
    vote_y: FloatArray
    vote_row: IntArray
    row_context: IntArray
    row_index: IntArray
    first_row: IntArray
    columns: Columns
    n_rows: int
    n_dropped: int
    ordered: bool = True
    outcome_kind: str = "labels"
    n_votes_dropped: int = 0
    n_added: int = 0
    shared_texts: SharedTexts | None = None

    @property
    def flip(self) -> IntArray:
        """The categories with the two wins exchanged, (C,)."""
        return exchanged_wins(self.n_categories)

    @property
    def n_contexts(self) -> int:
        """Number of contexts, labelled or not, n."""
        return len(self.x)

    @property
    def n_items(self) -> int:
        """Number of items, K."""
        return len(self.items)

    @property
    def n_categories(self) -> int:
        """Number of categories, C."""
        return len(self.categories)

    @property
    def n_votes(self) -> int:
        """Number of votes, v."""
        return len(self.vote_cell)

    @property
    def n_unlabelled(self) -> int:
        """Number of contexts without any label."""
        return int((np.bincount(self.cells.context, minlength=self.n_contexts) == 0).sum())

    def by_context(self, name: str) -> NDArray[Any]:
        """Values of a column by context, (n,): those in the first row of each."""
        return self.columns[name][self.first_row]

    def context_table(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Columns as a DataFrame with a row per context, (n, columns): for functions of users, who know such frames."""
        return self.columns.table(names, self.first_row).reset_index(drop=True)

    def varying_context(self, values: NDArray[Any]) -> object:
        """The first context whose rows, (rows,) in all, have different values; None where there is none."""
        varies = values != values[self.first_row][self.row_context]
        return self.context_ids[self.row_context[int(np.flatnonzero(varies)[0])]] if varies.any() else None

    def pair_counts(self) -> NDArray[np.int64]:
        """Labelled cells of every ordered pair, (K, K); above the diagonal only where order does not matter."""
        return self.cells.counts(self.n_items)

    def pair_votes(self) -> NDArray[np.int64]:
        """Votes on every ordered pair, (K, K)."""
        pair = self.cells.first * self.n_items + self.cells.second
        votes = np.bincount(pair, weights=self.cells.n_votes, minlength=self.n_items**2)
        return votes.astype(np.int64).reshape(self.n_items, self.n_items)

    def unordered(self) -> PreferenceData:
        """The same data for pairs without order: the item with the smaller code first, labels flipped with it."""
        cells = self.cells
        back = cells.first > cells.second
        first, second = np.minimum(cells.first, cells.second), np.maximum(cells.first, cells.second)
        y = exchange_wins(cells.y, back)
        vote_y = exchange_wins(self.vote_y, back[self.vote_cell])
        merged = Cells(cells.context, first, second, y, cells.n_votes, back)
        return replace(self, cells=merged, vote_y=vote_y, ordered=False)

    def restrict(self, kept: IntArray) -> PreferenceData:
        """The same contexts with the votes among the ``kept`` items only; the others' battles become unlabelled.

        Categories that only the others' votes had are left out, as they are where the others were never read.
        """
        new_code = np.full(self.n_items, -1)
        new_code[kept] = np.arange(len(kept))
        first, second = new_code[self.cells.first], new_code[self.cells.second]
        inside = (first >= 0) & (second >= 0)
        y = self.cells.y[inside]
        chosen = y.any(axis=0) | (np.arange(self.n_categories) < 2)
        cells = replace(replace(self.cells, first=first, second=second).only(inside), y=y[:, chosen])
        vote_inside = inside[self.vote_cell]
        return replace(
            self,
            items=tuple(self.items[j] for j in kept),
            categories=tuple(name for name, here in zip(self.categories, chosen, strict=True) if here),
            cells=cells,
            vote_cell=(np.cumsum(inside) - 1)[self.vote_cell[vote_inside]],
            vote_y=self.vote_y[vote_inside][:, chosen],
            vote_row=self.vote_row[vote_inside],
        )


def first_rows(row_context: IntArray) -> IntArray:
    """First row of each context, (n,), from the context of every row."""
    return np.unique(row_context, return_index=True)[1].astype(np.intp)


def gather_cells(context: IntArray, first: IntArray, second: IntArray, y: FloatArray) -> tuple[Cells, IntArray]:
    """Average votes, (v,) and (v, C), over cells; the cell of each vote, (v,), beside them."""
    if (np.diff(context) > 0).all():
        # One vote on each context, in order: nothing to sort, nothing to average.
        once = np.ones(len(context), dtype=np.intp)
        return Cells(context, first, second, y, once, np.zeros(len(context), dtype=bool)), np.arange(len(context))
    n_items = int(max(first.max(), second.max())) + 1
    place = (context * n_items + first) * n_items + second
    _, vote, vote_cell, n_votes = np.unique(place, return_index=True, return_inverse=True, return_counts=True)
    vote_cell = vote_cell.reshape(-1)
    total = np.stack([np.bincount(vote_cell, share) for share in y.T], axis=1)
    mean = total / n_votes[:, None]
    return Cells(context[vote], first[vote], second[vote], mean, n_votes, np.zeros(len(vote), dtype=bool)), vote_cell
