"""Extrapolation: pairs that scores are made of although nobody compared them, and graphs that do without them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._utils.warning_collection import warn
from ..data.graph import Graph
from ..data.preferences import PreferenceData
from ..functionals import Custom, Functional

_FEWER_LABELS = (5, 2, 1)


class Extrapolation(NamedTuple):
    """Pairs without a label that scores are made of.

    Attributes
    ----------
    n_pairs : int
        How many.
    reason : str
        Why there are no intervals, and what has some; empty where no pair is extrapolated.
    """

    n_pairs: int = 0
    reason: str = ""


def unlabelled_pairs(data: PreferenceData) -> NDArray[np.bool_]:
    """Pairs without a label, in one of the orders where order matters, (K, K)."""
    counts = data.pair_counts()
    labelled = np.minimum(counts, counts.T) if data.ordered else counts + counts.T
    return np.asarray(labelled == 0)


def uncompared_pairs(data: PreferenceData, functional: Functional, graph: Graph) -> NDArray[np.bool_]:
    """Pairs that the functional uses and that have no label, in one of the orders where order matters, (K, K).

    What such a pair adds to a score is the learner's word on it: no label corrects it, and no standard error knows how
    wrong it is.
    """
    pairs = graph.edges & unlabelled_pairs(data)
    weights = getattr(functional, "edge_weights", None)
    if weights is not None:
        pairs = pairs & (np.asarray(weights) > 0)
    if isinstance(functional, Custom) and pairs.any() and not functional.uses(pairs):
        return np.zeros_like(pairs)
    return np.asarray(pairs)


def find_extrapolation(
    data: PreferenceData, functional: Functional, graph: Graph, *, min_labels: int, propensity: Any
) -> Extrapolation:
    """The pairs that are extrapolated, with a warning where there are any.

    Known propensities of all pairs (an array, a function, a plan) say that a pair without a label might have had one:
    the correction is then right on average, and nothing is extrapolated.

    Parameters
    ----------
    data : PreferenceData
    functional : Functional
        Bound.
    graph : Graph
    min_labels : int
    propensity
        The option.
    """
    pairs = uncompared_pairs(data, functional, graph) if isinstance(propensity, str) else np.zeros((1, 1), dtype=bool)
    n_pairs = int(np.triu(pairs).sum())
    if not n_pairs:
        return Extrapolation()
    counts = data.pair_counts()
    one_order = int(np.triu(pairs & (counts + counts.T > 0)).sum())
    never = n_pairs - one_order
    seen = [f"{never:,} of {graph.n_edges:,} pairs were never compared"] if never else []
    seen += [f"{one_order:,} of {graph.n_edges:,} pairs were compared in one display order only"] if one_order else []
    reason = (
        f"{' and '.join(seen)}, so that no label corrects what the learner makes of them; "
        f"{_without_them(data, min_labels)} has intervals"
    )
    warn(f"estimates without intervals: {reason}", stacklevel=2)
    return Extrapolation(n_pairs, reason)


def connecting_options(data: PreferenceData, min_labels: int) -> dict[str, object] | None:
    """Changes of options with which the pairs that have labels connect the models; None where nothing does.

    Somewhat fewer labels per pair first, then both display orders counted together, then down to one label.
    """
    counts, fewer = data.pair_counts(), tuple(least for least in _FEWER_LABELS if least < min_labels)
    tries = [(least, True) for least in (min_labels, *fewer[:1])] if data.ordered else []
    for least, ordered in tries + [(least, False) for least in (min_labels, *fewer)]:
        if Graph.observed(counts, least, ordered).connected:
            changes: dict[str, object] = {} if least == min_labels else {"min_labels": least}
            return changes if ordered == data.ordered else changes | {"position_bias": False}
    return None


def _without_them(data: PreferenceData, min_labels: int) -> str:
    """The update that is made of compared pairs alone."""
    changes = connecting_options(data, min_labels)
    found: dict[str, object] = {"component": "largest"} if changes is None else changes
    options = ", ".join(f"{name}={value!r}" for name, value in ({"graph": "observed"} | found).items())
    order = " (if display order does not matter)" if "position_bias" in found else ""
    return f"update({options}){order}"
