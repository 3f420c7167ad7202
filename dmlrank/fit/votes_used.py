"""The votes that a fit uses, by model, with a warning where too many are on pairs that are not compared."""

from __future__ import annotations

from .._utils.warning_collection import warn
from ..data.graph import Graph
from ..data.preferences import PreferenceData
from ..data.vote_counts import PairRule, VoteCounts, left_out_clause
from .display_order import OrderChoice


def count_votes(data: PreferenceData, graph: Graph) -> VoteCounts:
    """Count the votes on compared pairs and the votes in all, by model."""
    return VoteCounts.of(data.pair_votes(), graph)


def warn_of_votes_left_out(
    data: PreferenceData, compared: Graph, graph: object, *, min_labels: int, order: OrderChoice
) -> None:
    """Warn where over 5 % of all votes, or over 20 % of a model's votes, are on pairs that are not compared."""
    counts = count_votes(data, compared)
    # uses_most: at least 95 % of all votes, and at least 80 % of the votes of every model.
    if counts.uses_most:
        return
    if isinstance(graph, str):
        reason, advice = _advice_on_few_labels(data, PairRule(data.ordered, min_labels), order)
    else:
        reason = "these votes are on pairs that graph= does not have"
        advice = "add these pairs to graph=, or leave graph= out"
    warn(
        f"{left_out_clause(counts, data.items)}: {reason}. Scores are computed from the other pairs only; {advice}",
        stacklevel=2,
    )


def _advice_on_few_labels(data: PreferenceData, rule: PairRule, order: OrderChoice) -> tuple[str, str]:
    """Return the reason why votes are left out, and the options with which most votes are used."""
    reason = f"these votes are on pairs with fewer than min_labels={rule.min_labels} labelled prompts"
    reason += " in one of the two orders" if data.ordered else ""
    labelled, votes = data.pair_counts(), data.pair_votes()
    looser_rules = rule.looser(order.may_be_ignored)
    counts_by_rule = [(looser, VoteCounts.of(votes, looser.graph(labelled))) for looser in looser_rules]
    if not counts_by_rule:
        return reason, "collect more labels of these pairs"
    sufficient = [(looser, counts) for looser, counts in counts_by_rule if counts.uses_most]
    return reason, _votes_used_sentence(rule, *(sufficient[0] if sufficient else counts_by_rule[-1]))


def _votes_used_sentence(rule: PairRule, looser: PairRule, counts: VoteCounts) -> str:
    """Return the sentence about the votes that a looser rule for compared pairs would use."""
    advice = f"{looser.changed_from(rule)} would use {100 * counts.share_used:.3g} % of all votes"
    if not looser.position_bias and rule.position_bias:
        advice += " (display order then does not matter)"
    if looser.min_labels < rule.min_labels:
        advice += (
            "; with edge_weights='counts' in addition, pairs with few labels get little weight and add little noise"
        )
    return advice
