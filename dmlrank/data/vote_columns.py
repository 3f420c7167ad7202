"""What columns say about votes and contexts: clusters, weights, and battles that were shown without a vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._utils.argument_checks import require_shape
from ..exceptions import DataError, OptionError
from .arrays import BoolArray, FloatArray, IntArray, name_of
from .preferences import Cells, PreferenceData

# In ``cov_kwds["groups"]``, this word stands for the contexts themselves.
_CONTEXTS = "context"
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

    def without_annotators(self) -> Clusters:
        """Return the clusters of contexts alone."""
        return self if self.of_vote is None else replace(self, names=self.names[:1], of_vote=None)


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
        if name == _CONTEXTS and (name not in data.columns.available or context == (name,)):
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
    present = (clusters.of_context, clusters.second_of_context, clusters.of_vote)
    for name, cluster in zip(clusters.names, (code for code in present if code is not None), strict=True):
        effective = effective_clusters(cluster)
        # A single cluster has an error of its own.
        if effective > 1 and round(effective) < FEWEST_EFFECTIVE:
            largest = np.bincount(cluster).max() / len(cluster)
            raise DataError(
                f"the clusters of {name!r} count as {effective:.1f} of one size, because the largest has "
                f"{100 * largest:.0f} % of all, and standard errors need {FEWEST_EFFECTIVE}; give another column as "
                f"groups, or leave cov_type out"
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
        i = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"weights: the weight of context {data.context_ids[i]!r} is {values[i]} ({int(wrong.sum())} such "
            f"contexts); weights are finite numbers of at least 0"
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
            f"count as {n_effective:.2g}; a standard error needs {_FEWEST_PROMPTS}: replace the largest by an upper "
            f"limit"
        )
    return values / values.mean()


def cluster_columns(groups: Sequence[str], available: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of clusters: all that are named, but ``"context"`` only where a column has this name."""
    return tuple(name for name in groups if name != _CONTEXTS or name in available)


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
    place_of = {name: place for place, name in enumerate(data.items)}
    coded = (data.columns.coded(name).with_plain_names()[0] for name in (first, second))
    left, right = (column.places(place_of) for column in coded)
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
