"""Votes that a fit uses, by model, and a warning where pairs that are not compared lose too many."""

from __future__ import annotations

from typing import Any

from .._utils.warning_collection import warn
from ..data.graph import Graph
from ..data.preferences import PreferenceData
from ..data.vote_counts import PairRule, VoteCounts, left_out_clause
from .display_order import OrderChoice


def count_votes(data: PreferenceData, graph: Graph) -> VoteCounts:
    """Votes on the compared pairs and in all, by model."""
    return VoteCounts.of(data.pair_votes(), graph)


def warn_of_votes_left_out(
    data: PreferenceData, compared: Graph, graph: Any, min_labels: int, order: OrderChoice
) -> None:
    """Warn where over 5 % of all votes, or over 20 % of a model's, are on pairs that are not compared.

    Parameters
    ----------
    data : PreferenceData
    compared : Graph
    graph : object
        The option.
    min_labels : int
    order : OrderChoice
    """
    counts = count_votes(data, compared)
    if counts.uses_most:
        return
    where, advice = _where_and_advice(data, graph, PairRule(data.ordered, min_labels), order)
    warn(
        f"{left_out_clause(counts, data.items)}: {where}, and the scores of these models rest on their other pairs; "
        f"{advice}",
        stacklevel=2,
    )


def _where_and_advice(data: PreferenceData, graph: Any, rule: PairRule, order: OrderChoice) -> tuple[str, str]:
    """On which pairs the votes are, and what would use them."""
    if not isinstance(graph, str):
        return "they are on pairs that graph= does not have", "add these pairs to graph=, or leave it out"
    where = f"they are on pairs with fewer than min_labels={rule.min_labels} labelled prompts"
    where += " in an order" if data.ordered else ""
    labelled, votes = data.pair_counts(), data.pair_votes()
    counted = [(other, VoteCounts.of(votes, other.graph(labelled))) for other in rule.looser(order.may_be_ignored)]
    for other, counts in counted:
        if counts.uses_most:
            return where, _advice(other, rule, counts)
    return (where, _advice(counted[-1][0], rule, counted[-1][1])) if counted else (where, "collect more labels of them")


def _advice(other: PairRule, rule: PairRule, counts: VoteCounts) -> str:
    advice = f"{other.changed_from(rule)} would use {100 * counts.share_used:.3g} % of all votes"
    if not other.position_bias and rule.position_bias:
        advice += " (order then does not matter)"
    if other.min_labels < rule.min_labels:
        advice += "; with edge_weights='counts' pairs count by their labels, so that those with few do not add noise"
    return advice
