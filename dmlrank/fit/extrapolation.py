"""Extrapolation: pairs without labels that the scores use, and the options with which no such pair is used."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._utils.warning_collection import warn
from ..data.graph import Graph
from ..data.preferences import PreferenceData
from ..functionals import Functional

# Values of min_labels that are tried, in this order, where the graph does not connect the models.
_FEWER_LABELS = (5, 2, 1)


class Extrapolation(NamedTuple):
    """The extrapolated pairs of a fit: pairs without a label that the scores use.

    n_pairs: Number of these pairs.
    reason: Why there are no intervals, and the call of ``update`` that gives a result with intervals; empty where no
        pair is extrapolated.
    """

    n_pairs: int = 0
    reason: str = ""


def unlabelled_pairs(data: PreferenceData) -> NDArray[np.bool_]:
    """Return the pairs without a label, (K, K).

    Where display order matters, pairs that have labels in one order only are among them.
    """
    counts = data.pair_counts()
    labelled = np.minimum(counts, counts.T) if data.ordered else counts + counts.T
    return np.asarray(labelled == 0)


def extrapolated_pairs(data: PreferenceData, functional: Functional, graph: Graph) -> NDArray[np.bool_]:
    """Return those of the :func:`unlabelled_pairs` that the functional uses, (K, K).

    The learner's prediction for such a pair enters the scores. No label corrects the prediction, and no standard error
    includes its error.
    """
    pairs = graph.edges & unlabelled_pairs(data)
    if functional.edge_weights is not None:
        pairs = pairs & (functional.edge_weights > 0)
    if pairs.any() and not functional.uses(pairs):
        return np.zeros_like(pairs)
    return np.asarray(pairs)


def find_extrapolation(
    data: PreferenceData, functional: Functional, graph: Graph, *, min_labels: int, propensity: object
) -> Extrapolation:
    """Count the extrapolated pairs, with a warning where there are any.

    With supplied propensities of all pairs (an array, a function, a plan) no pair is extrapolated: a pair without a
    label might have had one, so that the bias correction is right on average.
    """
    pairs = extrapolated_pairs(data, functional, graph) if isinstance(propensity, str) else np.zeros((1, 1), dtype=bool)
    n_pairs = int(np.triu(pairs).sum())
    if not n_pairs:
        return Extrapolation()
    counts = data.pair_counts()
    n_one_order = int(np.triu(pairs & (counts + counts.T > 0)).sum())
    n_never_compared = n_pairs - n_one_order
    clauses = [f"{n_never_compared:,} of {graph.n_edges:,} pairs were never compared"] if n_never_compared else []
    if n_one_order:
        clauses.append(f"{n_one_order:,} of {graph.n_edges:,} pairs were compared in one display order only")
    reason = (
        f"{' and '.join(clauses)}, so that no label corrects what the learner predicts for them; "
        f"{_update_with_intervals(data, min_labels)} has intervals"
    )
    warn(f"estimates without intervals: {reason}", stacklevel=2)
    return Extrapolation(n_pairs, reason)


def connecting_options(data: PreferenceData, min_labels: int) -> dict[str, object] | None:
    """Return changes of options that make a connected graph of the pairs with labels; None where no change does.

    The changes are tried in this order: a smaller ``min_labels`` (5), the labels of both display orders together, and
    both orders together with ever smaller ``min_labels`` down to 1.
    """
    counts, fewer = data.pair_counts(), tuple(n_labels for n_labels in _FEWER_LABELS if n_labels < min_labels)
    candidates = [(n_labels, True) for n_labels in (min_labels, *fewer[:1])] if data.ordered else []
    for n_labels, ordered in candidates + [(n_labels, False) for n_labels in (min_labels, *fewer)]:
        if Graph.observed(counts, n_labels, ordered).connected:
            changes: dict[str, object] = {} if n_labels == min_labels else {"min_labels": n_labels}
            return changes if ordered == data.ordered else changes | {"position_bias": False}
    return None


def _update_with_intervals(data: PreferenceData, min_labels: int) -> str:
    """Return the call of ``update`` whose scores use compared pairs only."""
    changes = connecting_options(data, min_labels)
    if changes is None:
        changes = {"component": "largest"}
    options = ", ".join(f"{name}={value!r}" for name, value in ({"graph": "observed"} | changes).items())
    condition = " (if display order does not matter)" if "position_bias" in changes else ""
    return f"update({options}){condition}"
