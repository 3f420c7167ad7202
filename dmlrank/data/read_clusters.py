"""Clusters of contexts and of votes, and weights of contexts, read from columns of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..exceptions import DataError, OptionError
from .arrays import FloatArray, IntArray
from .preferences import PreferenceData

# In ``cov_kwds["groups"]``, this word stands for the contexts themselves.
_CONTEXTS = "context"
# Smallest effective number of prompts, (sum w)^2 / sum w^2, for which a standard error can be computed.
_FEWEST_PROMPTS = 2
# The square of a weight below this number, or above its inverse, can underflow to zero or overflow to infinity.
_TINY = 1e-100


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Clusters of contexts and of votes.

    names: Columns of the clusters. The first column is constant within contexts.
    of_context (n,): Cluster of each context by the first column.
    second_of_context (n,): Cluster of each context by the second column, if it is constant within contexts.
    of_vote (v,): Cluster of each vote by the second column, if it varies within contexts.
    """

    names: tuple[str, ...]
    of_context: IntArray
    second_of_context: IntArray | None = None
    of_vote: IntArray | None = None


def read_clusters(data: PreferenceData, groups: tuple[str, ...], context: tuple[str, ...]) -> Clusters | None:
    """Read clusters of contexts (topics, users) and clusters of votes (annotators who see many prompts)."""
    if not groups:
        return None
    by_context: dict[str, IntArray] = {}
    by_vote: dict[str, IntArray] = {}
    for name in groups:
        rows = _clusters_of_rows(data, name, context)
        if data.varying_context(rows) is None:
            by_context[name] = rows[data.first_row]
        else:
            by_vote[name] = rows[data.vote_row]
    if not by_context:
        raise OptionError(
            f"clusters {' and '.join(map(repr, by_vote))} vary within contexts; clusters of prompts are needed as "
            f"well, because votes on one prompt are correlated; name the columns of prompt and annotator: "
            f"cov_kwds={{'groups': [{(context or ('context',))[0]!r}, {next(iter(by_vote))!r}]}}"
        )
    names = (*by_context, *by_vote)
    coded = list(by_context.values())
    return Clusters(names, coded[0], coded[1] if len(coded) > 1 else None, next(iter(by_vote.values()), None))


def context_weights(data: PreferenceData, weights: object) -> FloatArray | None:
    """Return the weights of the contexts in the target population, scaled to mean one, (n,), or None.

    Shapes: weights (n,).
    """
    if weights is None:
        return None
    if isinstance(weights, str):
        rows = data.columns.numbers(weights)
        values = rows[data.first_row]
        # A weight may be missing in some rows of a context, where it is filled from the context's first row. A weight
        # that is missing there too becomes -1, because NaN would differ from itself in the comparison.
        filled_rows = np.where(np.isfinite(rows), rows, values[data.row_context])
        context = data.varying_context(np.where(np.isnan(filled_rows), -1.0, filled_rows))
        if context is not None:
            raise DataError(
                f"weights={weights!r} varies within context {context!r}; a context has one weight: make the column "
                f"constant within contexts"
            )
    else:
        values = np.asarray(weights, dtype=float)
        if values.shape != (data.n_contexts,):
            raise OptionError(
                f"weights has shape {values.shape}; it must hold one number per context, ({data.n_contexts},)"
            )
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"weights: the weight of context {data.context_ids[i]!r} is {values[i]} ({int(wrong.sum())} such "
            f"contexts); a weight must be a finite number of at least 0"
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
            f"count as {n_effective:.2g} of equal weight; a standard error needs at least {_FEWEST_PROMPTS}, and a "
            f"reliable one about 30: check the largest weights, or replace them by an upper limit"
        )
    return values / values.mean()


def cluster_columns(groups: Sequence[str], available: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of clusters: all that are named, but ``"context"`` only where a column has this name."""
    return tuple(name for name in groups if name != _CONTEXTS or name in available)


def _clusters_of_rows(data: PreferenceData, name: str, context: tuple[str, ...]) -> IntArray:
    """Return the cluster of each row, (rows,)."""
    if name == _CONTEXTS and (name not in data.columns.available or context == (name,)):
        return data.row_context
    # Clusters are numbered by their sorted values, so that folds do not depend on the order of the rows.
    return data.columns.sorted_codes(name)
