"""The estimand of a fit: ranked models, display order, compared pairs, the functional, and what is averaged.

A functional is bound when it has received the category weights, the graph and the weights of the pairs, so that it can
be computed from mu alone. Scores of mean preferences, F(E mu(X)), are those of ``average="preferences"``; the mean of
scores, E F(mu(X)), is ``average="scores"``. For a linear functional F the two are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .._utils.argument_checks import real_array
from .._utils.tasks_and_threads import warn
from ..data.arrays import BoolArray
from ..data.columns import align_pairs_by_name
from ..data.formula.parse import one_sided
from ..data.graph import MOST_OF_ALL, Graph, PairRule, VoteCounts, losses_clause
from ..data.outcomes import WINNERS
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..estimation.mean_preferences import FlooredPreferences, MeanPreferences
from ..exceptions import (
    DmlrankError,
    DmlrankWarning,
    GraphError,
    IntervalWarning,
    OptionError,
    OptionTypeError,
    failing_as,
    listed,
)
from ..functionals import Borda, BradleyTerry, CategoryWeights, Custom, Functional, functional_from, kind_of
from ..functionals.custom import examine, looks_at
from ..functionals.linear_scores import Linearised, curvature_bias
from ..nuisance.supplied_propensity import is_plan
from ..options import Options, in_its_place
from .estimators import estimator_named, estimator_of

# Names that a sentence lists at most.
MOST_NAMED = 5


class Extrapolation(NamedTuple):
    """The number of extrapolated pairs of a fit: pairs without a label that the scores use.

    reason: Why there are no intervals, and the call of ``update`` that gives some; empty without such pairs.
    """

    n_pairs: int = 0
    reason: str = ""


def unlabelled_pairs(data: PreferenceData, apart: BoolArray | None) -> BoolArray:
    """Return the pairs without a label, (K, K), or without one in one of the orders, where display order matters.

    A pair of a model apart, (K,), that was shown in one order stands for both.
    """
    counts = data.pair_counts()
    in_one, in_both = counts + counts.T == 0, np.minimum(counts, counts.T) == 0
    if not data.ordered:
        return np.asarray(in_one)
    return np.asarray(in_both if apart is None else np.where(apart[:, None] | apart, in_one, in_both))


def find_extrapolation(data: PreferenceData, setup: Setup, options: Options, min_labels: int) -> Extrapolation:
    """Count the pairs without a label that the functional uses, with a warning where there are any.

    No label corrects the learner's prediction for such a pair, and no standard error includes its error. With supplied
    propensities of all pairs no pair is extrapolated: one without a label might have had one.
    """
    graph, functional = setup.graph, setup.functional
    pairs = graph.edges & unlabelled_pairs(data, functional.apart)
    if functional.edge_weights is not None:
        pairs = pairs & (functional.edge_weights > 0)
    if not isinstance(options.propensity, str) or not pairs.any() or not looks_at(functional, pairs):
        return Extrapolation()
    n_pairs, counts = int(np.triu(pairs).sum()), data.pair_counts()
    n_one_order = int(np.triu(pairs & (counts + counts.T > 0)).sum())
    clauses = []
    if n_pairs > n_one_order:
        clauses.append(f"{n_pairs - n_one_order:,} of {graph.n_edges:,} pairs were never compared")
    if n_one_order:
        clauses.append(f"{n_one_order:,} of {graph.n_edges:,} pairs were compared in one display order only")
    changes = connecting_options(data, min_labels)
    if changes is None:
        changes = {"component": "largest"}
    update = ", ".join(f"{name}={value!r}" for name, value in ({"graph": "observed"} | changes).items())
    condition = " (if display order does not matter)" if "position_bias" in changes else ""
    reason = (
        f"{' and '.join(clauses)}, so that no label corrects what the learner predicts for them; "
        f"update({update}){condition} has intervals"
    )
    warn(f"estimates without intervals: {reason}")
    return Extrapolation(n_pairs, reason)


def connecting_options(data: PreferenceData, min_labels: int) -> dict[str, object] | None:
    """Return changes of options, smallest first, that make a connected graph of pairs with labels; None without any."""
    rule, counts = PairRule(data.ordered, min_labels), data.pair_counts()
    with_order = [rule, *rule.looser(False)[:1]] if data.ordered else [rule]
    for looser in (*with_order, *rule.looser(True)):
        if looser.graph(counts).connected:
            changes: dict[str, object] = {} if looser.min_labels == min_labels else {"min_labels": looser.min_labels}
            return changes if looser.position_bias == data.ordered else changes | {"position_bias": False}
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """A functional bound to category weights and a graph.

    weighting: How the pairs are weighted, for the summary: "equal", "counts", "given" or "votes".
    """

    functional: Functional
    weights: CategoryWeights
    graph: Graph
    weighting: str

    @property
    def shared_graph(self) -> Graph:
        """The compared pairs of models that are not apart: what all scores share comes from these alone."""
        apart = self.functional.apart
        return self.graph if apart is None else Graph(self.graph.edges & ~apart & ~apart[:, None])


def restrict_items(data: PreferenceData, graph: Graph, options: Options, min_labels: int) -> PreferenceData:
    """Drop the models outside the largest component of the graph where ``component`` allows it; otherwise raise."""
    component = options.pairs.component
    parts = graph.components()
    if len(parts) == 1:
        return data
    share = _share_in_largest(data, graph)
    may_drop = component == "largest" or (component == "auto" and share >= 1 - MOST_OF_ALL)
    if may_drop and len(parts[0]) > 1:
        return data.restrict(parts[0])
    names = "; ".join("{" + listed(data.items[j] for j in part) + "}" for part in parts[:5])
    names += " and more" if len(parts) > 5 else ""
    kept = f"the largest has {100 * share:.3g} % of the votes, and {100 * (1 - MOST_OF_ALL):g} % have to stay"
    largest = "collect votes that compare models across components"
    if len(parts[0]) > 1:
        largest = f"pairs=Pairs(component='largest') ranks the {len(parts[0])} models of the largest alone"
    if not isinstance(options.pairs.graph, str):
        raise GraphError(
            f"pairs=Pairs(graph=...) does not connect the models: {len(parts)} components {names}; {kept}; add pairs "
            f"between the components, or use pairs=Pairs(graph='observed') for the pairs that have labels"
        )
    if not estimator_of(options).has_first_stages:
        raise GraphError(f"no vote compares models across {len(parts)} components {names}; {kept}; {largest}")
    changes, advice = connecting_options(data, min_labels), largest
    if changes is not None:
        condition = ", if display order does not matter" if "position_bias" in changes else ""
        advice = (
            f"{', '.join(in_its_place(name, repr(value)) for name, value in changes.items())} connects them{condition}"
        )
    raise GraphError(
        f"the comparisons do not connect the models: {len(parts)} components {names} (a pair needs "
        f"min_labels={min_labels} labelled contexts{' in each order' if data.ordered else ''}); {kept}; {advice}"
    )


def _share_in_largest(data: PreferenceData, graph: Graph) -> float:
    """Return the votes on compared pairs in the largest component, as a share of those that compare two models."""
    part, votes = graph.components()[0], data.pair_votes()
    votes = np.where(graph.edges, votes + votes.T, 0)
    return float(votes[np.ix_(part, part)].sum()) / 2 / max(data.n_votes, 1)


# A model with fewer votes than this share of the models' median is set apart.
_THIN = 0.1


def models_apart(data: PreferenceData, options: Options) -> BoolArray | None:
    """Return the models that are placed by their own votes and count in no other score, (K,); None without any."""
    functional = estimator_of(options).functional(options.functional)
    takes = isinstance(functional, BradleyTerry | Borda) or functional in ("auto", BradleyTerry.name, Borda.name)
    if not takes or options.adjust is not None or options.estimator == "bt_restricted":
        return None
    votes = data.pair_votes()
    n_votes, needed = (votes + votes.T).sum(axis=1), options.pairs.apart
    apart = n_votes < (_THIN * np.median(n_votes) if isinstance(needed, str) else needed)
    return apart if apart.any() and (~apart).sum() > 1 else None


def pairs_and_apart(data: PreferenceData, options: Options, min_labels: int) -> tuple[Graph, BoolArray | None]:
    """Return the compared pairs and the models apart, (K,), which need one label on a pair with another model.

    None is apart where the caller gave pairs or propensities, and where the others are not connected without them.
    """
    graph, apart = comparison_graph(data, options.pairs.graph, min_labels), models_apart(data, options)
    is_given = not (isinstance(options.pairs.graph, str) and isinstance(options.propensity, str))
    if apart is None or is_given or options.pairs.graph != "observed":
        return graph, None
    # A label of one order corrects both along a direction, and not in a table of mean preferences.
    needs_both = data.ordered and options.average == "preferences"
    of_few = Graph.observed(data.pair_counts(), 1, needs_both).edges
    edges = np.where(apart[:, None] ^ apart, of_few, graph.edges & ~apart)
    if not Graph(edges[np.ix_(~apart, ~apart)]).connected:
        return graph, None
    return Graph(edges), apart


def comparison_graph(data: PreferenceData, graph: object, min_labels: int) -> Graph:
    """Return the graph that the option ``graph`` asks for."""
    if isinstance(graph, str) and graph == "complete":
        return Graph.all_pairs(data.n_items)
    if isinstance(graph, str):
        fewest, ordered = (1, False) if graph == "votes" else (min_labels, data.ordered)
        return Graph.observed(data.pair_counts(), fewest, ordered)
    if isinstance(graph, Graph):
        edges = graph.edges
    else:
        with failing_as(OptionTypeError, "pairs=Pairs(graph=...): reading an array", ValueError):
            edges = np.asarray(align_pairs_by_name(graph, data.items, name="graph"))
    return graph_from_array(edges, data.n_items, option="pairs=Pairs(graph=...)", words="'observed', 'complete'")


def set_up(data: PreferenceData, options: Options, graph: Graph, apart: BoolArray | None, min_labels: int) -> Setup:
    """Bind the functional to the compared pairs and the weights that the options ask for."""
    unbound = functional_from(estimator_named(options.estimator).functional(options.functional))
    weights = _category_weights(options, data, unbound)
    weighting = options.pairs.edge_weights if isinstance(options.pairs.edge_weights, str) else "given"
    if unbound.edge_weights is not None:
        if weighting != "equal":
            raise OptionError(
                f"functional={unbound.name!r} and pairs=Pairs(edge_weights=...) have edge weights; use one place"
            )
        weighting = "given"
    weights_of_pairs = _edge_weights(options.pairs.edge_weights, data, graph)
    bound = bind_functional(unbound, weights, graph, edge_weights=weights_of_pairs, ordered=data.ordered)
    counts, shared = data.pair_counts(), graph
    if apart is not None:
        assert isinstance(bound, BradleyTerry | Borda)
        bound, shared = replace(bound, apart=apart), Graph(graph.edges[np.ix_(~apart, ~apart)])
    if apart is not None and isinstance(bound, BradleyTerry):
        # Their log-odds count by their numbers of labels.
        given = graph.edges.astype(float) if bound.edge_weights is None else bound.edge_weights
        own = np.where(apart[:, None] | apart, counts + counts.T, given)
        bound = replace(bound, edge_weights=np.where(graph.edges, own, 0.0))
    has_enough, has_labels = (Graph.observed(counts, n_labels, data.ordered).edges for n_labels in (min_labels, 1))
    n_few = int(np.triu(graph.edges & has_labels & ~has_enough).sum())
    # Beside models apart, whose pairs need one label, pairs have enough.
    if n_few and apart is None:
        warn(
            f"{n_few:,} of {graph.n_edges:,} compared pairs have fewer than min_labels={min_labels} labelled "
            f"prompts{' in one of the two orders' if data.ordered else ''}, which hardly correct what the learner "
            f"predicts for them; pairs=Pairs(graph='observed') leaves such pairs out",
            kind=IntervalWarning,
        )
    if bound.ignores_opponents and not shared.complete:
        n_items = len(shared.edges)
        warn(
            f"{bound.name} is computed on an incomplete graph ({shared.n_edges:,} of {n_items * (n_items - 1) // 2:,} "
            f"pairs): scores depend on how strong opponents are; functional='bt' takes the opponents into account",
        )
    # Called for its errors: some functionals have no gauge on this graph.
    bound.gauge(data.n_items)
    return Setup(bound, weights, graph, weighting)


def set_up_likelihood(data: PreferenceData, graph: Graph, options: Options) -> Setup:
    """Bind the Bradley-Terry functional to the pairs with votes."""
    functional = replace(BradleyTerry(), apart=models_apart(data, options))
    weights, estimator = _category_weights(options, data, functional), options.estimator
    if weights.total is None or abs(weights.total - 1) > 1e-12:
        raise OptionError(
            f"category_weights {weights.first} and {weights.second} do not sum to one in every category, and "
            f"estimator={estimator!r} counts every vote as one win; use pairs=Pairs(category_weights='half')"
        )
    return Setup(functional.bind(weights, graph), weights, graph, "votes")


def bind_functional(
    functional: object, weights: CategoryWeights, graph: Graph, *, edge_weights: FloatArray | None, ordered: bool
) -> Functional:
    """Return the functional of a fit or a plan, bound to weights and graph; edge_weights (K, K)."""
    if not ordered and not weights.mirrored:
        raise OptionError(
            f"category weights {weights.first} and {weights.second} treat the two items differently, although display "
            f"order does not matter; change category_weights, or use position_bias=True"
        )
    bound = functional_from(functional).bind(weights, graph, edge_weights)
    if isinstance(bound, Custom) and not ordered:
        bound = replace(bound, mirrored=True)
    if type(bound) is not kind_of(bound.name):
        # No built-in functional.
        examine(bound, len(graph.edges), ordered)
    return bound


def graph_from_array(edges: NDArray[np.generic], n_items: int, *, option: str, words: str) -> Graph:
    """Return the graph that a user's array describes."""
    shape = (n_items, n_items)
    if edges.shape != shape or edges.dtype != bool:
        raise OptionTypeError(
            f"{option} has shape {edges.shape} and type {edges.dtype}; allowed: {words}, or a symmetric boolean array "
            f"(models, models) = {shape}"
        )
    if not (edges == edges.T).all() or edges.diagonal().any():
        raise GraphError(
            f"{option} is not symmetric with an empty diagonal; set [j, k] to the value of [k, j], and [j, j] to False"
        )
    return Graph(cast(NDArray[np.bool_], edges))


def category_weights_from(option: object, n_categories: int | None = None) -> CategoryWeights:
    """Return category weights that a user gave as an object or as numbers."""
    weights = option
    if not isinstance(weights, CategoryWeights):
        advice = "; allowed: 'half', 'paper', CategoryWeights, or two sequences with one number per category"
        with failing_as(OptionTypeError, "category_weights: reading two sequences", (TypeError, ValueError), advice):
            first, second = cast("tuple[Iterable[float], Iterable[float]]", weights)
            weights = CategoryWeights(tuple(first), tuple(second))
    if n_categories is not None and weights.n_categories != n_categories:
        raise OptionError(
            f"category_weights has {weights.n_categories} categories; give {n_categories} numbers for each model"
        )
    return weights


def _category_weights(options: Options, data: PreferenceData, functional: Functional) -> CategoryWeights:
    """Return the category weights of the functional's own if it has some, otherwise those that the option asks for."""
    option, own = options.pairs.category_weights, functional.weights
    if isinstance(option, str):
        asked = CategoryWeights.for_categories(data.categories, option)
    else:
        asked = category_weights_from(option, data.n_categories)
    if own is None:
        return asked
    if own.n_categories != data.n_categories:
        raise OptionError(
            f"functional={functional.name!r} has weights of {own.n_categories} categories, the data have "
            f"{data.n_categories}: {data.categories}; give it {data.n_categories} for each of the two models, or none"
        )
    # The default of the option says nothing about what the user wants.
    if asked != own and not (isinstance(option, str) and option == "half"):
        raise OptionError(
            f"functional={functional.name!r} has category weights of its own, {own.first} and {own.second}, and "
            f"pairs=Pairs(category_weights=...) asks for {asked.first} and {asked.second}; give them in one place"
        )
    return own


def check_edge_weights(edge_weights: object, data: PreferenceData, graph: Graph) -> None:
    """Raise where an array of edge weights cannot be used on the graph, unless this is not connected."""
    if isinstance(edge_weights, str) or not graph.connected:
        return
    weights = CategoryWeights.for_categories(data.categories, "half")
    weights_of_pairs = _edge_weights(edge_weights, data, graph)
    bind_functional("bt", weights, graph, edge_weights=weights_of_pairs, ordered=data.ordered).gauge(data.n_items)


def _edge_weights(edge_weights: object, data: PreferenceData, graph: Graph) -> FloatArray | None:
    """Return the weights of the pairs that the option asks for, (K, K); None for equal weights."""
    if not isinstance(edge_weights, str):
        table = align_pairs_by_name(edge_weights, data.items, name="edge_weights")
        return real_array(table, "edge_weights", "'equal', 'counts', or a symmetric array (models, models)")
    if edge_weights == "equal":
        return None
    counts = data.pair_counts()
    return np.where(graph.edges, counts + counts.T, 0).astype(float)


@dataclass(frozen=True, slots=True)
class OrderChoice:
    """The choices which pairs are compared: whether display order matters, and how many labels a pair needs.

    may_be_ignored: Whether ``position_bias=False`` is possible without a change of the other options.
    lost_with_ten: Share of the votes that ``min_labels=10`` would leave out, where ``"auto"`` chose 1 instead.
    """

    matters: bool
    min_labels: int
    reason: str = ""
    may_be_ignored: bool = True
    lost_with_ten: float | None = None


# Largest floor of a mean probability.
_LARGEST_FLOOR = 0.1
# Labels of a compared pair where the caller says "auto".
_ENOUGH_LABELS = 10


def choose_pairs(votes: PreferenceData, options: Options) -> OrderChoice:
    """Choose order and ``min_labels``: as the caller says, or with "auto" 10, or 1 where 10 would lose many votes.

    Many are more than 5 % of all votes, or of those of the models that votes connect where these alone are ranked, or,
    with ``component="all"``, so many that the models are not connected. Votes on models apart decide nothing.
    """
    apart = models_apart(votes, options) if isinstance(options.pairs.graph, str) else None
    if apart is not None:
        votes = votes.restrict(np.flatnonzero(~apart))
    if not isinstance(options.pairs.min_labels, str):
        return _choose_order(votes, options, int(options.pairs.min_labels))
    choice = _choose_order(votes, options, _ENOUGH_LABELS)
    if not isinstance(options.pairs.graph, str) or options.pairs.graph != "observed":
        return choice
    fewer, counts = _choose_order(votes, options, 1), votes.pair_counts()
    graph, of_fewer = (Graph.observed(counts, one.min_labels, one.matters) for one in (choice, fewer))
    share = _share_in_largest(votes, graph)
    most = _share_in_largest(votes, of_fewer) if options.pairs.component == "largest" else 1.0
    is_enough = share >= (1 - MOST_OF_ALL) * most and (options.pairs.component != "all" or graph.connected)
    return choice if is_enough else replace(fewer, lost_with_ten=1 - share)


def _choose_order(votes: PreferenceData, options: Options, min_labels: int) -> OrderChoice:
    """Choose whether order matters: as the caller says, or with ``"auto"`` by counts of labels and other options."""
    weights, propensity = options.pairs.category_weights, options.propensity
    if not isinstance(weights, str):
        # Weights that cannot be read are refused where the functional is bound.
        with suppress(DmlrankError):
            weights = category_weights_from(weights)
    if isinstance(propensity, str):
        is_of_ordered_pairs = propensity not in ("estimate", "marginal") and one_sided(propensity) is None
    else:
        is_of_ordered_pairs = not (is_plan(propensity) and hasattr(propensity, "position_bias"))
    obstacle = ""
    if isinstance(weights, CategoryWeights) and not weights.mirrored:
        obstacle = "the category weights treat the two items differently"
    elif options.learning.mu is not None:
        obstacle = "learning=Learning(mu=...) has probabilities for both orders of a pair"
    elif is_of_ordered_pairs:
        obstacle = "propensity= has propensities of ordered pairs"
    if votes.outcome_kind == WINNERS:
        why = "every vote that is no tie is for the model in the same column: the columns say who won and who lost"
        if not isinstance(options.position_bias, str) and options.position_bias:
            raise OptionError(
                f"position_bias=True is not possible: {why}, and not who was shown first. Leave it out, or name the "
                f"columns of the models in the order in which they were shown"
            )
        return OrderChoice(False, min_labels, why)
    if not isinstance(options.position_bias, str):
        return OrderChoice(bool(options.position_bias), min_labels, may_be_ignored=not obstacle)
    if obstacle:
        return OrderChoice(True, min_labels, obstacle, may_be_ignored=False)
    # Order matters if every pair with enough labels in total has enough labels in each order.
    counts, graph = votes.pair_counts(), options.pairs.graph
    in_total, in_each_order = (np.triu(Graph.observed(counts, min_labels, ordered).edges) for ordered in (False, True))
    if not isinstance(graph, str):
        edges = np.asarray(graph.edges if isinstance(graph, Graph) else graph)
        if edges.shape == in_total.shape and edges.dtype == bool:
            in_total, in_each_order = in_total & edges, in_each_order & edges
    n_enough, n_lacking = int(in_total.sum()), int((in_total & ~in_each_order).sum())
    labels = f"{min_labels} label{'s' * (min_labels != 1)}"
    if n_lacking:
        reason = (
            f"{n_lacking:,} of {n_enough:,} pairs with at least {labels} have fewer than {min_labels} in one of their "
            f"two display orders"
        )
        return OrderChoice(False, min_labels, reason)
    reason = f"every pair with at least {labels} has at least {min_labels} in each display order"
    return OrderChoice(True, min_labels, reason)


def votes_left_out(
    read: PreferenceData,
    data: PreferenceData,
    compared: Graph,
    options: Options,
    choice: OrderChoice,
    *,
    equal_weights: bool = False,
    takes_weights: bool = True,
) -> DmlrankWarning | None:
    """Return a warning that counts and names the votes that are left out; None where there is nothing to say.

    There is where rows compare a model with itself, where models are left out that the caller did not give up, where
    more than 5 % of all votes, or more than 20 % of a model's, are on pairs that are not compared, and where pairs with
    few labels count because ``min_labels="auto"`` decided so. ``read`` are the votes on all models.
    """
    counts = VoteCounts.of(data.pair_votes(), compared)
    dropped = [name for name in read.items if name not in data.items]
    kept, votes = [read.items.index(name) for name in data.items], read.pair_votes()
    n_same, n_dropped = sum(count for _, count in read.same), int(votes.sum() - votes[np.ix_(kept, kept)].sum())
    # uses_most: at least 95 % of all votes, and at least 80 % of the votes of every model.
    all_count = ""
    if choice.lost_with_ten is not None and equal_weights:
        all_count = (
            f"Pairs with few labelled prompts are kept (min_labels='auto' is 1): without pairs that have fewer than "
            f"10, {100 * choice.lost_with_ten:.3g} % of the votes would be lost. They count as much as others"
        )
        if takes_weights:
            all_count += "; pairs=Pairs(edge_weights='counts') gives them less weight, which asks about opponents as "
            all_count += "often as met"
    if counts.uses_most and not n_same and not (dropped and options.pairs.component == "auto"):
        return DmlrankWarning(all_count) if all_count else None
    reasons, advice, of_models = [], "", losses_clause(counts, data.items) if counts.n_left_out else ""
    if counts.n_left_out:
        reason, advice = _of_thin_pairs(data, counts, options, choice, takes_weights)
        reasons.append((counts.n_left_out, f"{reason}{of_models}"))
    if dropped:
        by_labels = isinstance(options.pairs.graph, str)
        why = "compared pairs do not connect with the others" if by_labels else "are left out"
        named = f"{len(dropped)} model{'s' * (len(dropped) != 1)} that {why} ({listed(dropped, MOST_NAMED)})"
        reasons.append((n_dropped, f"{n_dropped:,} votes are on {named}"))
    sentences = []
    if reasons:
        n_lost, n_all = counts.n_left_out + n_dropped, counts.n_used + counts.n_left_out + n_dropped
        largest_first = "; ".join(text for _, text in sorted(reasons, reverse=True))
        share = f"{100 * n_lost / n_all:.2g} %"
        sentences.append(f"{n_lost:,} of {n_all:,} votes ({share}) are left out: {largest_first}")
    if n_same:
        models = ", ".join(f"{name!r} {count:,}" for name, count in read.same[:MOST_NAMED])
        models += ", ..." if len(read.same) > MOST_NAMED else ""
        rows, ending = ("row", "s") if n_same == 1 else ("rows", "")
        sentences.append(
            f"{n_same:,} {rows} compare{ending} a model with itself ({models}) and count{ending} as no vote"
        )
    if counts.n_left_out:
        sentences.append(f"Scores are computed from the other pairs only{f'; {advice}' if advice else ''}")
    return DmlrankWarning(". ".join(filter(None, (*sentences, all_count))))


def _of_thin_pairs(
    data: PreferenceData, counts: VoteCounts, options: Options, choice: OrderChoice, takes_weights: bool
) -> tuple[str, str]:
    """Return why votes are on pairs that are not compared, and how to use them; no advice where few are lost."""
    if not isinstance(options.pairs.graph, str):
        return f"{counts.n_left_out:,} votes are on pairs outside of the graph", (
            "add these pairs to the graph in pairs=Pairs(graph=...), or leave the graph out"
        )
    rule = PairRule(data.ordered, choice.min_labels)
    enough = f"{rule.min_labels} {'labelled prompts' if options.context else 'votes'}"
    reason = f"{counts.n_left_out:,} votes are on pairs with fewer than {enough}"
    reason += f"{' in one of the two orders' if data.ordered else ''} (min_labels={rule.min_labels})"
    if counts.uses_most:
        return reason, ""
    advice = "collect more labels of these pairs"
    labelled, votes = data.pair_counts(), data.pair_votes()
    looser_rules = rule.looser(choice.may_be_ignored)
    if looser_rules:
        by_rule = [(looser, VoteCounts.of(votes, looser.graph(labelled))) for looser in looser_rules]
        looser, used = next((one for one in by_rule if one[1].uses_most), by_rule[-1])
        advice = f"{looser.changed_from(rule)} would use {100 * used.share_used:.3g} % of all votes"
        if not looser.position_bias and rule.position_bias:
            advice += " (display order then does not matter)"
        if looser.min_labels < rule.min_labels and takes_weights:
            advice += "; with pairs=Pairs(edge_weights='counts') in addition, pairs with few labels count little"
    return reason, advice


class MeanTarget(NamedTuple):
    """The scores of mean preferences, as a target of the one-step estimator.

    score: F(t+) - b + J(t+) (mu - t), in the words of :mod:`dmlrank.fit.method`; ``floored`` is t+.
    plugin (d,): The functional at the mean of mu, without bias correction.
    bias (d,): b, zero where it cannot be computed.
    """

    score: Linearised
    plugin: FloatArray
    floored: FlooredPreferences
    bias: FloatArray


def mean_targets(means: MeanPreferences, data: PreferenceData, setup: Setup, options: Options) -> list[MeanTarget]:
    """Linearise the functional at the mean preferences of each group."""
    functional, is_debiased, targets = setup.functional, estimator_named(options.estimator).is_debiased, []
    for debiased, plugin, n_labels, moment in zip(
        means.one_step, means.plugin, means.n_labels, means.moment, strict=True
    ):
        floored, plugin_floored = (
            finite_table(one, n_labels, setup, options.learning.floor) for one in (debiased, plugin)
        )
        table, centre = (floored, debiased) if is_debiased else (plugin_floored, plugin)
        bias = np.zeros(len(functional.value(table.table[None])[0]))
        if is_debiased:
            bias = curvature_bias(functional, table.table, moment, setup.graph.edges, data.ordered)
            bias = np.where(np.isfinite(bias), bias, 0.0)
        score = Linearised.at(functional, table.table, centre, bias)
        targets.append(MeanTarget(score, functional.value(plugin_floored.table[None])[0], table, bias))
    return targets


def finite_table(table: FloatArray, n_labels: IntArray, setup: Setup, floor: float | str) -> FlooredPreferences:
    """Return a table of mean preferences at which the functional of the fit is finite, close to an estimated table.

    Negative probabilities become 0. For a functional with a logit or a division, the probabilities of a pair with n
    labels are raised to 1 / (2 (n + 1)) where the share of one of the two models is closer to 0 or 1: about the
    correction of an empirical logit by half a label (Haldane 1956; Anscombe 1956). Shapes: table (K, K, C), n_labels
    (K, K).
    """
    functional, uses = setup.functional, setup.graph.edges
    is_outside = (table < 0).any(axis=-1) & uses
    lowest = float(min(table[is_outside].min(initial=0.0), 0.0))
    proper = np.maximum(table, 0.0)
    total = proper.sum(axis=-1, keepdims=True)
    # A pair without a negative probability stays as it is, so that its sum is not changed by rounding.
    changes = (table < 0).any(axis=-1, keepdims=True) & (total > 0)
    proper = np.where(changes, proper / np.where(total > 0, total, 1), proper)
    n_outside = int(np.triu(is_outside | is_outside.T).sum())
    if not functional.interior:
        return FlooredPreferences(proper, 0, n_outside, lowest)
    of_labels = np.minimum(0.5 / (n_labels + 1.0), _LARGEST_FLOOR)
    floors = of_labels if isinstance(floor, str) else np.full(uses.shape, floor)
    shares = np.stack([share[0] for share in setup.weights.scores(proper[None])], axis=-1)
    nearest_limit = np.minimum(shares, 1 - shares).min(axis=-1) if functional.uses_shares else proper.min(axis=-1)
    needs_floor = uses & (nearest_limit < floors)
    raised = np.maximum(proper, floors[:, :, None])
    # With a floor of zero, the probabilities of a model and itself stay zero.
    raised_total = raised.sum(axis=-1, keepdims=True)
    raised /= np.where(raised_total > 0, raised_total, 1)
    n_raised = int(np.triu(needs_floor | needs_floor.T).sum())
    return FlooredPreferences(np.where(needs_floor[:, :, None], raised, proper), n_raised, n_outside, lowest)
