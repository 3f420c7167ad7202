"""Display order: whether a fit treats the two orders of a pair as two pairs, decided by counts of labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ..data.formula.parse import one_sided
from ..data.graph import Graph
from ..data.preferences import PreferenceData
from ..exceptions import DmlrankError
from ..functionals import CategoryWeights
from ..nuisance.propensity_model.supplied import is_plan


@dataclass(frozen=True, slots=True)
class OrderChoice:
    """The choice whether display order matters.

    matters: Whether the two orders of a pair are two pairs.
    reason: Reason of the choice; empty where the caller chose.
    may_be_ignored: Whether ``position_bias=False`` is possible without a change of the other options.
    """

    matters: bool
    reason: str = ""
    may_be_ignored: bool = True


def choose_order(
    data_as_read: PreferenceData,
    position_bias: bool | str,
    graph: object,
    *,
    min_labels: int,
    category_weights: object,
    propensity: object,
    mu: object,
) -> OrderChoice:
    """Choose whether order matters: as the caller says, or with ``"auto"`` by counts of labels and other options."""
    obstacle = ""
    if not _is_mirrored(category_weights):
        obstacle = "the category weights treat the two items differently"
    elif mu is not None:
        obstacle = "mu= has probabilities for both orders of a pair"
    elif _is_of_ordered_pairs(propensity):
        obstacle = "propensity= has propensities of ordered pairs"
    if not isinstance(position_bias, str):
        return OrderChoice(bool(position_bias), may_be_ignored=not obstacle)
    if obstacle:
        return OrderChoice(True, obstacle, may_be_ignored=False)
    return order_by_counts(data_as_read.pair_counts(), min_labels, edges_of_option(graph, data_as_read.n_items))


def order_by_counts(counts: NDArray[np.int64], min_labels: int, edges: NDArray[np.bool_] | None = None) -> OrderChoice:
    """Choose by counts: order matters if every pair with enough labels in total has enough labels in each order.

    Shapes: counts (K, K), edges (K, K).
    """
    in_total, in_each_order = (np.triu(Graph.observed(counts, min_labels, ordered).edges) for ordered in (False, True))
    if edges is not None:
        in_total, in_each_order = in_total & edges, in_each_order & edges
    n_enough, n_lacking = int(in_total.sum()), int((in_total & ~in_each_order).sum())
    labels = f"{min_labels} label{'s' * (min_labels != 1)}"
    if n_lacking:
        reason = (
            f"{n_lacking:,} of {n_enough:,} pairs with at least {labels} have fewer than {min_labels} in one of their "
            f"two display orders"
        )
        return OrderChoice(False, reason)
    return OrderChoice(True, f"every pair with at least {labels} has at least {min_labels} in each display order")


def in_chosen_order(data_as_read: PreferenceData, order: OrderChoice) -> PreferenceData:
    """Return the data; where order does not matter, the two orders of a pair become one pair."""
    return data_as_read if order.matters else data_as_read.unordered()


def _is_mirrored(weights: object) -> bool:
    """Whether the category weights treat the item shown first and the item shown second alike."""
    if isinstance(weights, str):
        return True
    if not isinstance(weights, CategoryWeights):
        try:
            first, second = cast("tuple[Iterable[float], Iterable[float]]", weights)
            weights = CategoryWeights(tuple(first), tuple(second))
        except (TypeError, ValueError, DmlrankError):
            # Weights that cannot be read are refused where the functional is bound.
            return True
    return bool(weights.mirrored)


def _is_of_ordered_pairs(propensity: object) -> bool:
    """Whether propensities are supplied that have to be those of ordered pairs."""
    if isinstance(propensity, str):
        return propensity not in ("estimate", "marginal") and one_sided(propensity) is None
    return not (is_plan(propensity) and hasattr(propensity, "position_bias"))


def edges_of_option(graph: object, n_items: int) -> NDArray[np.bool_] | None:
    """Return the edges of a graph that the caller gave, (K, K); None for a word, or a graph of another shape."""
    if isinstance(graph, str):
        return None
    edges = np.asarray(graph.edges if isinstance(graph, Graph) else graph)
    return edges if edges.shape == (n_items, n_items) and edges.dtype == bool else None
