"""Which contexts and votes belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..exceptions import DataError, OptionError
from .preferences import FloatArray, IntArray, PreferenceData

# What stands for the contexts among the columns of clusters.
_CONTEXTS = "context"
# Prompts of equal weight, (sum w)^2 / sum w^2, below which there is no standard error.
_FEWEST = 2
_TINY = 1e-100


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Groupings of contexts and of votes.

    Attributes
    ----------
    names : tuple of str
        Columns, the prompt's first.
    prompt : ndarray of int, shape (n,)
        Group of each context in the first grouping.
    other : ndarray of int, shape (n,), or None
        Group of each context in a second grouping of contexts.
    annotator : ndarray of int, shape (v,), or None
        Group of each vote where the second grouping varies within contexts.
    """

    names: tuple[str, ...]
    prompt: IntArray
    other: IntArray | None = None
    annotator: IntArray | None = None


def read_clusters(data: PreferenceData, groups: tuple[str, ...], context: tuple[str, ...]) -> Clusters | None:
    """Tell groupings of contexts (topics, users) from groupings of votes (annotators who see many prompts).

    Parameters
    ----------
    data : PreferenceData
        Read with the grouping columns.
    groups : tuple of str
        At most two columns; ``"context"`` stands for the contexts themselves where no column has this name.
    context : tuple of str
        Columns that identify a context, for the advice in errors.

    Raises
    ------
    OptionError
        If annotators are named without the prompts that their votes share.
    """
    if not groups:
        return None
    by_context: dict[str, IntArray] = {}
    by_vote: dict[str, IntArray] = {}
    for name in groups:
        rows = _row_codes(data, name, context)
        if data.varying_context(rows) is None:
            by_context[name] = rows[data.first_row]
        else:
            by_vote[name] = rows[data.vote_row]
    if not by_context:
        raise OptionError(
            f"clusters {' and '.join(map(repr, by_vote))} vary within contexts: votes on one prompt are correlated "
            f"too, "
            f"so name the prompt beside the annotator: cov_kwds={{'groups': [{(context or ('context',))[0]!r}, "
            f"{next(iter(by_vote))!r}]}}"
        )
    names = (*by_context, *by_vote)
    coded = list(by_context.values())
    annotator = next(iter(by_vote.values()), None)
    return Clusters(names, coded[0], coded[1] if len(coded) > 1 else None, annotator)


def context_weights(data: PreferenceData, weights: Any) -> FloatArray | None:
    """Weights of the contexts in the target population, scaled to mean one, (n,); None where there are none.

    Parameters
    ----------
    data : PreferenceData
    weights : None, str or array_like, shape (n,)
        A column, the same in all rows of a context, or one number per context in order of first appearance.

    Raises
    ------
    DataError, OptionError
        If a weight is missing, infinite or negative, all are zero, or a column varies within a context.
    """
    if weights is None:
        return None
    if isinstance(weights, str):
        rows = data.columns.numbers(weights)
        values = rows[data.first_row]
        # A row that holds no number does not count as another value; no weight is -1.
        known = np.where(np.isfinite(rows), rows, values[data.row_context])
        where = data.varying_context(np.where(np.isnan(known), -1.0, known))
        if where is not None:
            raise DataError(f"weights={weights!r} varies within context {where!r}; a context has one weight")
    else:
        values = np.asarray(weights, dtype=float)
        if values.shape != (data.n_contexts,):
            raise OptionError(
                f"weights has shape {values.shape}; needed is one number per context, ({data.n_contexts},)"
            )
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"weights: {values[i]} in context {data.context_ids[i]!r} ({int(wrong.sum())} such); a weight is a finite "
            f"number of at least 0"
        )
    if not values.any():
        raise DataError("weights are zero in every context")
    if not _TINY < values.max() < 1 / _TINY:
        # Their ratios count; sums of squares have to be finite and positive.
        values = values / values.max()
    equal = float(values.sum() ** 2 / np.square(values).sum())
    if equal < _FEWEST:
        raise DataError(
            f"weights: the largest is {values.max() / values.sum():.3g} of their sum, so that {len(values):,} prompts "
            f"count as {equal:.2g} of equal weight; a standard error needs at least {_FEWEST} (some 30 to hold): check "
            f"the largest weights, or cut them off"
        )
    return values / values.mean()


def cluster_columns(groups: Sequence[str], available: Sequence[str]) -> tuple[str, ...]:
    """The columns that clusters are read from: all that are named, ``"context"`` only where there is such a column."""
    return tuple(name for name in groups if name != _CONTEXTS or name in available)


def _row_codes(data: PreferenceData, name: str, context: tuple[str, ...]) -> IntArray:
    if name == _CONTEXTS and (name not in data.columns.available or context == (name,)):
        return data.row_context
    # By value, not by appearance: folds must not depend on the order of the rows.
    return data.columns.sorted_codes(name)
