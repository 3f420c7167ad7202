"""Preference data as arrays: contexts, votes, and cells, which average the votes on one context and ordered pair.

Clusters, weights, and battles that were shown without a vote, are read from the columns of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.argument_checks import require_shape
from ..exceptions import DataError, OptionError, named_rows, shown
from .arrays import AnyArray, BoolArray, FloatArray, IntArray, RowRecord, name_of
from .columns import Columns, SharedTexts
from .derived_pairs import ScoreTable
from .formula.features import FeatureMap
from .outcomes import exchange_wins, exchanged_wins


@dataclass(frozen=True, slots=True, eq=False)
class Cells(RowRecord):
    """Labelled cells, sorted by context, first item and second item, (m,) each.

    y (m, C): Mean label of the cell's ``n_votes`` votes; a row sums to one.
    n_votes (m,): Number of votes, of all copies.
    flipped (m,): Whether item ``second`` of the cell was shown first, and item ``first`` second. All entries are false
        where display order matters, because there each display order has its own cell.
    copies (m,): Number of contexts with this cell, of which one stands for all; None where each is its own.
    """

    context: IntArray
    first: IntArray
    second: IntArray
    y: FloatArray
    n_votes: IntArray
    flipped: BoolArray
    copies: IntArray | None = None

    @property
    def count(self) -> IntArray:
        """Number of contexts that each cell stands for, (m,)."""
        return np.broadcast_to(np.intp(1), len(self)) if self.copies is None else self.copies

    @property
    def n_labels(self) -> int:
        """Number of labelled cells, all copies counted."""
        return len(self) if self.copies is None else int(self.copies.sum())

    @property
    def votes_each(self) -> FloatArray | IntArray:
        """Number of votes on each cell in one context, (m,)."""
        return self.n_votes if self.copies is None else self.n_votes / self.copies

    @property
    def in_display_order(self) -> tuple[IntArray, IntArray]:
        """The item shown first and the item shown second in each cell, (m,) each."""
        return np.where(self.flipped, self.second, self.first), np.where(self.flipped, self.first, self.second)

    def of(self, items: BoolArray | None) -> BoolArray:
        """Return whether each cell has one of some items, (K,), (m,)."""
        return np.zeros(len(self), dtype=bool) if items is None else items[self.first] | items[self.second]

    def joined(self, further: Cells) -> Cells:
        """Return these cells and further cells, sorted by context, first item and second item."""
        names = [name for name in self.__slots__ if name != "copies"]
        joint = Cells(*(np.concatenate([getattr(self, name), getattr(further, name)]) for name in names))
        return joint.only(np.lexsort((joint.second, joint.first, joint.context)))

    def __len__(self) -> int:
        return len(self.context)

    def counts(self, n_items: int) -> NDArray[np.int64]:
        """Return the labelled cells of every ordered pair, (K, K); above the diagonal where order does not matter."""
        return self.sums(self.copies, n_items).astype(np.int64)

    def sums(self, amounts: AnyArray | None, n_items: int) -> FloatArray:
        """Return the sums of amounts of cells, (m,), by ordered pair, (K, K); numbers of cells when None."""
        sums = np.bincount(self.first * n_items + self.second, amounts, n_items**2)
        return np.asarray(sums.reshape(n_items, n_items), dtype=float)


@dataclass(frozen=True, slots=True, eq=False)
class PreferenceData:
    """The data of a fit: n contexts, v votes, m labelled cells, K items, C categories, p features.

    items: Names of the K items, in the order of every array.
    categories: Meanings of the C categories, in canonical order.
    x (n, p): Features, in single precision if the user's all were, or in a file (``np.memmap``).
    feature_map: Computes the features of further contexts.
    context_ids (n,): Identifiers in order of first appearance; tuples where several columns identify a context.
    seed_order (n,): Position of each context among the sorted identifiers, or the rows, the order of random steps.
    vote_cell (v,): Cell of each vote.
    vote_y (v, C): Labels as rows that sum to one: one-hot labels, or probabilities.
    vote_row (v,): Row of each vote among the rows that are used.
    row_context, row_index (rows,): Context, and position in the caller's frame, of every row that is used.
    first_row (n,): First row of each context among the rows that are used.
    columns: Columns of the frame for the rows that are used, except vectors.
    n_rows, n_dropped: Rows of the caller's frames, and those that were dropped because values were missing.
    ordered: Whether display order matters, so that a pair shown in the reverse order is another pair.
    outcome_kind: What the outcome column or columns hold, or what the labels are derived from.
    same: Number of rows that compare a model with itself, by model; these rows are left out.
    n_names_changed: Names of models that had outer blanks or another Unicode form.
    n_votes_elsewhere: Votes on other models, which are left out.
    shared_texts: The contexts that share a text, if some do.
    scores: The scores that the votes follow from, where the data are scores.
    copies (n,): Number of equal contexts that each row stands for, in a table of counts, where a context has one vote.
        Then n is the number of rows, and ``n_contexts`` the sum of copies. None elsewhere.
    n_unlabelled: Number of contexts without any label.
    flip (C,): Positions of the categories with "first wins" and "second wins" exchanged.
    """

    items: tuple[str, ...]
    categories: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    x: FloatArray
    feature_map: FeatureMap
    context_ids: AnyArray
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
    same: tuple[tuple[str, int], ...] = ()
    n_names_changed: int = 0
    n_votes_elsewhere: int = 0
    shared_texts: SharedTexts | None = None
    scores: ScoreTable | None = None
    copies: IntArray | None = None
    n_contexts: int = field(init=False)
    n_items: int = field(init=False)
    n_categories: int = field(init=False)
    n_votes: int = field(init=False)
    n_unlabelled: int = field(init=False)
    flip: IntArray = field(init=False)

    def __post_init__(self) -> None:
        is_labelled = np.bincount(self.cells.context, minlength=len(self.x)) > 0
        copies = np.broadcast_to(np.intp(1), len(self.x)) if self.copies is None else self.copies
        derived = {
            "n_contexts": int(copies.sum()),
            "n_items": len(self.items),
            "n_categories": len(self.categories),
            "n_votes": len(self.vote_cell) if self.copies is None else int(self.cells.n_votes.sum()),
            "n_unlabelled": int(copies[~is_labelled].sum()),
            "flip": exchanged_wins(len(self.categories)),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def score_table(self) -> ScoreTable:
        """The scores, of data that are a table of scores."""
        assert self.scores is not None
        return self.scores

    def without_names(self) -> PreferenceData:
        """Return the arrays that models and scores need, for workers: no identifiers, columns or single votes."""
        none = np.empty(0, dtype=np.intp)
        return replace(
            self,
            feature_map=FeatureMap("", (), (), None),
            context_ids=np.empty(0, dtype=object),
            vote_cell=none,
            vote_y=np.empty((0, self.n_categories)),
            vote_row=none,
            row_context=none,
            row_index=none,
            first_row=none,
            columns=Columns((), pd.DataFrame()),
            shared_texts=None,
            scores=None,
        )

    def by_context(self, name: str) -> AnyArray:
        """Return the values of a column by context, (n,): those in the first row of each context."""
        return self.columns[name][self.first_row]

    def context_table(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return columns as a DataFrame with a row per context, (n, columns), for functions that users write."""
        return self.columns.table(names, self.first_row).reset_index(drop=True)

    def varying_context(self, values: AnyArray) -> object:
        """Return the identifier of the first context whose rows differ in ``values``, (rows,), or None."""
        varies = values != values[self.first_row][self.row_context]
        return self.context_ids[self.row_context[int(np.flatnonzero(varies)[0])]] if varies.any() else None

    def one_per_context(self, values: AnyArray, what: str) -> AnyArray:
        """Return the value of each context, (n,), from ``values``, (rows,); raise where rows of a context differ."""
        context = self.varying_context(values)
        if context is not None:
            raise DataError(f"{what} varies within context {context!r}; all rows of a context must have the same value")
        return values[self.first_row]

    def pair_counts(self) -> NDArray[np.int64]:
        """Return the number of labelled cells of every ordered pair, (K, K), as :meth:`Cells.counts` does."""
        return self.cells.counts(self.n_items)

    def pair_votes(self) -> NDArray[np.int64]:
        """Return the number of votes on every ordered pair, (K, K)."""
        return self.cells.sums(self.cells.n_votes, self.n_items).astype(np.int64)

    def contexts_beside(self, items: BoolArray | None) -> BoolArray:
        """Return the contexts, (n,), but for those all of whose labels are of pairs with one of some items, (K,)."""
        has_one, is_beside = self.cells.of(items), np.ones(len(self.x), dtype=bool)
        is_beside[self.cells.context[has_one]] = False
        is_beside[self.cells.context[~has_one]] = True
        return is_beside

    def unordered(self) -> PreferenceData:
        """Return the data for pairs without order: the smaller code is first in every cell, wins exchanged for it."""
        cells = self.cells
        is_reversed = cells.first > cells.second
        if not is_reversed.any():
            return replace(self, ordered=False)
        first, second = np.minimum(cells.first, cells.second), np.maximum(cells.first, cells.second)
        y = exchange_wins(cells.y, is_reversed)
        merged = replace(cells, first=first, second=second, y=y, flipped=is_reversed)
        vote_y = exchange_wins(self.vote_y, is_reversed[self.vote_cell])
        return replace(self, cells=merged, vote_y=vote_y, ordered=False)

    def with_wins_exchanged(self, votes: BoolArray) -> PreferenceData:
        """Return the data with "first wins" and "second wins" exchanged in the labels of some votes, (v,)."""
        y, place, cells = exchange_wins(self.vote_y, votes), self.vote_cell, self.cells
        cells, _ = gather_cells(cells.context[place], cells.first[place], cells.second[place], y)
        return replace(self, vote_y=y, cells=cells)

    def restrict(self, items: IntArray) -> PreferenceData:
        """Return the same contexts with only the votes on two of these ``items``, and the categories of these votes."""
        new_code = np.full(self.n_items, -1)
        new_code[items] = np.arange(len(items))
        first, second = new_code[self.cells.first], new_code[self.cells.second]
        inside = (first >= 0) & (second >= 0)
        y = self.cells.y[inside]
        is_used = y.any(axis=0) | (np.arange(self.n_categories) < 2)
        cells = replace(replace(self.cells, first=first, second=second).only(inside), y=y[:, is_used])
        vote_inside = inside[self.vote_cell]
        return replace(
            self,
            items=tuple(self.items[j] for j in items),
            categories=tuple(self.categories[c] for c in np.flatnonzero(is_used)),
            cells=cells,
            vote_cell=(np.cumsum(inside) - 1)[self.vote_cell[vote_inside]],
            vote_y=self.vote_y[vote_inside][:, is_used],
            vote_row=self.vote_row[vote_inside],
            n_votes_elsewhere=self.n_votes_elsewhere + int(self.cells.n_votes[~inside].sum()),
            scores=None if self.scores is None else self.scores.only(items),
        )


def gather_cells(context: IntArray, first: IntArray, second: IntArray, y: FloatArray) -> tuple[Cells, IntArray]:
    """Average votes over cells; return the cells, and the cell of each vote, (v,)."""
    n_items = int(max(first.max(initial=0), second.max(initial=0))) + 1
    place = (context.astype(np.int64) * n_items + first) * n_items + second
    if (np.diff(place) > 0).all():
        # Every cell has one vote, and the votes are sorted already.
        n_votes = np.ones(len(context), dtype=np.intp)
        return Cells(context, first, second, y, n_votes, np.zeros(len(context), dtype=bool)), np.arange(len(context))
    _, vote, vote_cell, n_votes = np.unique(place, return_index=True, return_inverse=True, return_counts=True)
    vote_cell = vote_cell.reshape(-1)
    total = np.stack([np.bincount(vote_cell, share) for share in y.T], axis=1)
    mean = total / n_votes[:, None]
    return Cells(context[vote], first[vote], second[vote], mean, n_votes, np.zeros(len(vote), dtype=bool)), vote_cell


# --- what columns say of votes and contexts ---------------------------------------------------------------------------

# In ``cov_kwds["groups"]``, this word stands for the contexts themselves.
CONTEXTS = "context"
# Smallest effective number of prompts, (sum w)^2 / sum w^2, for which a standard error can be computed.
_FEWEST_PROMPTS = 2
# With so many prompts or clusters, or fewer, standard errors are too small on average.
FEW_CLUSTERS = 30
# Effective clusters below which intervals hold only roughly, and below which a fit is refused.
FEW_EFFECTIVE, FEWEST_EFFECTIVE = 10, 3
# The square of a weight below this number, or above its inverse, can underflow to zero or overflow to infinity.
_TINY = 1e-100


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Clusters of contexts and of votes, by one or two columns, of which the first is constant within contexts.

    second_of_context (n,): Cluster of each context by the second column, if it is constant within contexts.
    of_vote (v,): Cluster of each vote by the second column, if it varies within contexts.
    """

    names: tuple[str, ...]
    of_context: IntArray
    second_of_context: IntArray | None = None
    of_vote: IntArray | None = None

    @property
    def by_name(self) -> dict[str, tuple[IntArray, str]]:
        """Clusters by column, each with what they are of: contexts or votes."""
        parts = [(self.of_context, "contexts"), (self.second_of_context, "contexts"), (self.of_vote, "votes")]
        return dict(zip(self.names, ((code, of) for code, of in parts if code is not None), strict=True))


def few_prompts_advice(n_prompts: int, by: str) -> str:
    """Say what to do where many annotators voted on few prompts; ``by`` names the clusters of the annotators."""
    return (
        f"Collect votes on more prompts; or, for statements about these {n_prompts} prompts alone, leave context= out "
        f"and cluster by the annotators ({by}), as if these voted independently of each other"
    )


def read_clusters(data: PreferenceData, groups: tuple[str, ...], context: tuple[str, ...]) -> Clusters | None:
    """Read clusters of contexts (topics, users) and clusters of votes (annotators who see many prompts)."""
    if not groups:
        return None
    by_context: dict[str, IntArray] = {}
    by_vote: dict[str, IntArray] = {}
    for name in groups:
        if name == CONTEXTS and (name not in data.columns.available or context == (name,)):
            rows = data.row_context
        else:
            # Clusters are numbered by their sorted values, so that folds do not depend on the order of the rows.
            rows = data.columns.sorted_codes(name)
        if data.varying_context(rows) is None:
            by_context[name] = rows[data.first_row]
        else:
            by_vote[name] = rows[data.vote_row]
    if not by_context:
        varying = f"clusters {' and '.join(map(repr, by_vote))} vary within contexts"
        if data.n_contexts <= FEW_CLUSTERS:
            few = f"there are only {data.n_contexts} contexts, too few to be a second kind of clusters"
            groups_advice = f"cov_type='cluster', cov_kwds={{'groups': {next(iter(by_vote))!r}}}"
            raise OptionError(f"{varying}, and {few}. {few_prompts_advice(data.n_contexts, groups_advice)}")
        raise OptionError(
            f"{varying}; votes on one prompt are correlated, too: name the columns of prompt and annotator, "
            f"cov_kwds={{'groups': [{(context or ('context',))[0]!r}, {next(iter(by_vote))!r}]}}"
        )
    names = (*by_context, *by_vote)
    coded = list(by_context.values())
    return Clusters(names, coded[0], coded[1] if len(coded) > 1 else None, next(iter(by_vote.values()), None))


def effective_clusters(cluster: IntArray, weight: FloatArray | None = None) -> float:
    """Return the number of clusters of one size with the same sum of squared shares, from the cluster of each row."""
    sizes = np.bincount(cluster, weight).astype(float)
    return float(np.square(sizes.sum()) / np.square(sizes).sum())


def require_effective_clusters(clusters: Clusters) -> None:
    """Raise where so few clusters have most of the contexts or votes that there is no standard error."""
    for name, (cluster, _) in clusters.by_name.items():
        effective = effective_clusters(cluster)
        # A single cluster has an error of its own.
        if effective > 1 and round(effective) < FEWEST_EFFECTIVE:
            largest = np.bincount(cluster).max() / len(cluster)
            raise DataError(
                f"the clusters of {name!r} count as {effective:.1f} of one size ({100 * largest:.0f} % are in one), "
                f"and standard errors need {FEWEST_EFFECTIVE}; give another column as groups"
            )


def read_tasks(data: PreferenceData, column: str, *, are_fixed: bool) -> IntArray:
    """Return the task of each context, (n,), numbered from 0; a fixed task needs two prompts."""
    rows = data.columns.sorted_codes(column)
    task = np.unique(data.one_per_context(rows, f"the task of weights=EqualTasks({column!r})"), return_inverse=True)[1]
    first = np.argmax(np.bincount(task)[task] == 1)
    if are_fixed and np.bincount(task)[task[first]] == 1:
        raise DataError(
            f"weights=EqualTasks({column!r}): task {name_of(data.by_context(column)[first])!r} has one prompt and no "
            f"variance; join small tasks, or cluster by tasks: cov_type='cluster', cov_kwds={{'groups': {column!r}}}"
        )
    return task


def context_weights(data: PreferenceData, weights: object) -> FloatArray | None:
    """Return the weights of the contexts in the target population, (n,), scaled to mean one, or None."""
    if weights is None:
        return None
    if isinstance(weights, str):
        rows = data.columns.numbers(weights)
        values = rows[data.first_row]
        # A weight may be missing in some rows of a context, where it is filled from the context's first row. A weight
        # that is missing there too becomes -1, because NaN would differ from itself in the comparison.
        filled_rows = np.where(np.isfinite(rows), rows, values[data.row_context])
        data.one_per_context(np.where(np.isnan(filled_rows), -1.0, filled_rows), f"weights={weights!r}")
    else:
        values = np.asarray(weights, dtype=float)
        require_shape(values, (data.n_contexts,), "weights", "one number per context", OptionError)
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        value = data.by_context(weights)[wrong][0] if isinstance(weights, str) else values[wrong][0]
        raise DataError(
            f"weights: {shown(value, 80)} in {named_rows(wrong, [*map(shown, data.context_ids)], 'context')}; allowed: "
            f"numbers, 0 or more"
        )
    if not values.any():
        raise DataError("weights are zero in every context; at least two contexts need a positive weight")
    if not _TINY < values.max() < 1 / _TINY:
        # Only the ratios of weights matter, and sums of their squares must be finite and positive.
        values = values / values.max()
    n_effective = float(values.sum() ** 2 / np.square(values).sum())
    if n_effective < _FEWEST_PROMPTS:
        raise DataError(
            f"weights: the largest is {values.max() / values.sum():.3g} of their sum, so that {len(values):,} prompts "
            f"count as {n_effective:.2g}, and not as {_FEWEST_PROMPTS}: set an upper limit"
        )
    return values / values.mean()


@dataclass(frozen=True, slots=True, eq=False)
class ShownBattles:
    """Rows of the data that name two ranked models, each of them a battle that was shown to a voter. Shapes: all (b,).

    A shown cell is a context with an ordered pair that was shown there. A labelled cell is a shown cell with a vote.

    row: Row of each battle among the rows that the fit uses.
    first, second: Items; where display order does not matter, ``first`` is the smaller code.
    flipped: Whether item ``second`` was shown first; false everywhere where display order matters.
    share: One divided by the number of battles of the same shown cell.
    """

    row: IntArray
    context: IntArray
    first: IntArray
    second: IntArray
    flipped: BoolArray
    voted: BoolArray
    share: FloatArray

    @property
    def n_unvoted(self) -> int:
        """Number of battles without a vote."""
        return int((~self.voted).sum())

    def __len__(self) -> int:
        return len(self.row)

    def cells(self, n_items: int, n_categories: int) -> tuple[Cells, IntArray]:
        """Return the shown cells as labelled cells with labels of zero, and the cell of each battle, (b,)."""
        code = ((self.context.astype(np.int64) * n_items + self.first) * n_items + self.second) * 2 + self.flipped
        _, battle, cell, count = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
        y = np.zeros((len(battle), n_categories))
        context, first, second = (column[battle] for column in (self.context, self.first, self.second))
        return Cells(context, first, second, y, count.astype(np.intp), self.flipped[battle]), cell.reshape(-1)


def read_shown_battles(data: PreferenceData, first: str, second: str) -> ShownBattles:
    """Return all rows that name two different ranked models, voted or not."""
    coded = (data.columns.coded(name).with_plain_names()[0] for name in (first, second))
    left, right = (column.places(data.items) for column in coded)
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
    return replace(battles, share=1 / cells.n_votes[cell])
