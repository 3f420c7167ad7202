"""Display order: whether showing a pair the other way round makes it another pair, decided by counts of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.graph import Graph
from ..data.preferences import PreferenceData
from ..exceptions import DmlrankError
from ..functionals import CategoryWeights
from ..nuisance.propensity_model.supplied import is_plan
from .estimand import with_enough_comparisons


@dataclass(frozen=True, slots=True)
class OrderChoice:
    """Whether display order matters.

    Attributes
    ----------
    matters : bool
    reason : str
        What decided it; empty where the caller did.
    may_be_ignored : bool
        Whether ``position_bias=False`` is possible with the other options as they are.
    """

    matters: bool
    reason: str = ""
    may_be_ignored: bool = True


def choose_order(
    read: PreferenceData,
    position_bias: bool | str,
    graph: Any,
    *,
    min_labels: int,
    min_comparisons: int,
    category_weights: Any,
    propensity: Any,
    mu: Any,
) -> OrderChoice:
    """Whether order matters: what the caller says, or with ``"auto"`` what counts of labels and other options allow.

    Parameters
    ----------
    read : PreferenceData
        Ordered.
    position_bias, graph, min_labels, min_comparisons, category_weights, propensity, mu
        As in :func:`dmlrank.dml_rank`.
    """
    obstacle = ""
    if not _mirrored(category_weights):
        obstacle = "the category weights do not mirror"
    elif mu is not None:
        obstacle = "mu= has both orders of a pair"
    elif _is_of_ordered_pairs(propensity):
        obstacle = "propensity= is that of ordered pairs"
    if not isinstance(position_bias, str):
        return OrderChoice(bool(position_bias), may_be_ignored=not obstacle)
    if obstacle:
        return OrderChoice(True, obstacle, may_be_ignored=False)
    data = with_enough_comparisons(read, min_comparisons)
    return order_by_counts(data.pair_counts(), min_labels, pairs_given(graph, data.n_items))


def order_by_counts(counts: NDArray[np.int64], min_labels: int, edges: NDArray[np.bool_] | None = None) -> OrderChoice:
    """Order matters where every pair with enough labels in all has enough of them in both orders.

    Parameters
    ----------
    counts : ndarray of int, shape (K, K)
        Labelled contexts of every ordered pair.
    min_labels : int
    edges : ndarray of bool, shape (K, K), optional
        Pairs that count; all of them by default.

    Examples
    --------
    >>> order_by_counts(np.array([[0, 12], [15, 0]]), 10)
    OrderChoice(matters=True, reason='every pair with 10 labels has them in both orders', may_be_ignored=True)
    >>> order_by_counts(np.array([[0, 12], [4, 0]]), 10).reason
    '1 of 1 pairs with 10 labels in all have fewer in an order'
    """
    in_all, in_both = (np.triu(Graph.observed(counts, min_labels, ordered).edges) for ordered in (False, True))
    if edges is not None:
        in_all, in_both = in_all & edges, in_both & edges
    enough, lacking = int(in_all.sum()), int((in_all & ~in_both).sum())
    labels = f"{min_labels} label{'s' * (min_labels != 1)}"
    if lacking:
        return OrderChoice(False, f"{lacking:,} of {enough:,} pairs with {labels} in all have fewer in an order")
    return OrderChoice(True, f"every pair with {labels} has them in both orders")


def in_chosen_order(read: PreferenceData, order: OrderChoice) -> PreferenceData:
    """The data as they are, or with both orders of a pair as one."""
    return read if order.matters else read.unordered()


def _mirrored(weights: Any) -> bool:
    """Whether category weights count a win of the first as they count one of the second; those that words name do."""
    if isinstance(weights, str):
        return True
    if not isinstance(weights, CategoryWeights):
        try:
            first, second = weights
            weights = CategoryWeights(tuple(first), tuple(second))
        except (TypeError, ValueError, DmlrankError):
            # What cannot be read is refused where the functional is bound.
            return True
    return bool(weights.mirrored)


def _is_of_ordered_pairs(propensity: Any) -> bool:
    """Whether propensities are supplied that mean something else where order does not matter.

    A plan says itself what its propensities are of, and is translated.
    """
    if isinstance(propensity, str):
        return propensity not in ("estimate", "marginal")
    return not (is_plan(propensity) and hasattr(propensity, "position_bias"))


def pairs_given(graph: Any, n_items: int) -> NDArray[np.bool_] | None:
    """The pairs of a graph that the caller gave; None where it is a word, or does not fit."""
    if isinstance(graph, str):
        return None
    edges = np.asarray(graph.edges if isinstance(graph, Graph) else graph)
    return edges if edges.shape == (n_items, n_items) and edges.dtype == bool else None
