"""The estimand of a fit: the ranked items, the comparison graph, and the functional bound to weights and graph.

A functional is bound when it has received the category weights, the graph and the weights of the pairs, so that it can
be computed from mu alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from .._utils.argument_checks import real_array
from .._utils.warning_collection import warn
from ..data.alignment import align_pairs_by_name
from ..data.graph import Graph
from ..data.preferences import FloatArray, PreferenceData
from ..exceptions import DmlrankError, GraphError, IntervalWarning, OptionError, OptionTypeError, listed
from ..functionals import BradleyTerry, CategoryWeights, Functional, functional_from
from .extrapolation import connecting_options


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """A functional bound to category weights and a graph.

    edge_weights: How the pairs are weighted, for the summary: "equal", "counts", "given" or "votes".
    n_left_out: Number of pairs with labels that are not on the graph.
    """

    functional: Functional
    weights: CategoryWeights
    graph: Graph
    edge_weights: str
    n_left_out: int


def restrict_items(data: PreferenceData, graph: object, *, min_labels: int, component: str) -> PreferenceData:
    """Drop the models outside the largest component of the graph if ``component="largest"``; otherwise raise."""
    parts = comparison_graph(data, graph, min_labels).components()
    if len(parts) == 1:
        return data
    if component == "largest" and len(parts[0]) > 1:
        return data.restrict(parts[0])
    raise GraphError(explain_disconnected(data, parts, graph, min_labels=min_labels))


def explain_disconnected(
    data: PreferenceData, components: list[NDArray[np.intp]], graph: object, *, min_labels: int
) -> str:
    """Explain that a graph falls into several components, and what to do."""
    names = "; ".join("{" + listed(data.items[j] for j in component) + "}" for component in components[:5])
    names += " and more" if len(components) > 5 else ""
    largest = ["component='largest' ranks the largest component only"] if len(components[0]) > 1 else []
    if not isinstance(graph, str):
        return (
            f"graph= does not connect the models: {len(components)} components {names}; add pairs between the "
            f"components, or use graph='observed' for the pairs that have labels"
        )
    if graph == "votes":
        advice = largest or ["collect votes that compare models across components"]
        return f"no vote compares models across {len(components)} components {names}; {advice[0]}"
    advice = largest
    changes = connecting_options(data, min_labels)
    if changes is None:
        advice.append("more votes that compare models across components would connect them")
    else:
        options = " with ".join(f"{name}={value!r}" for name, value in changes.items())
        condition = ", if display order does not matter" if "position_bias" in changes else ""
        advice.append(f"{options} would connect them{condition}")
        if "min_labels" in changes:
            advice.append("edge_weights='counts' then gives pairs with few labels less weight")
    return (
        f"the comparisons do not connect the models: {len(components)} components {names} "
        f"(a pair needs min_labels={min_labels} labelled contexts"
        f"{' in each order' if data.ordered else ''}); {'; '.join(advice)}"
    )


def comparison_graph(data: PreferenceData, graph: object, min_labels: int) -> Graph:
    """Return the graph that the option ``graph`` asks for.

    Shapes: graph (K, K).
    """
    if isinstance(graph, Graph):
        edges = graph.edges
    elif isinstance(graph, str) and graph == "votes":
        counts = data.pair_counts()
        return Graph.observed(counts + counts.T, 1)
    elif isinstance(graph, str):
        if graph == "complete":
            return Graph.all_pairs(data.n_items)
        return Graph.observed(data.pair_counts(), min_labels, data.ordered)
    else:
        try:
            edges = np.asarray(align_pairs_by_name(graph, data.items, name="graph"))
        except ValueError as error:
            if isinstance(error, DmlrankError):
                raise
            # Rows of different lengths are no array. The empty array has a wrong shape, which is an error below.
            edges = np.empty(0, dtype=bool)
    return graph_from_array(edges, data.n_items, option="graph=", words="'observed', 'complete'")


def set_up(
    data: PreferenceData,
    graph: Graph,
    *,
    min_labels: int,
    edge_weights: object,
    category_weights: object,
    functional: object,
) -> Setup:
    """Bind the functional to the graph and the weights that the options ask for."""
    unbound = functional_from(functional)
    weights = _weights_of(unbound, category_weights, data)
    weighting = _edge_weighting(unbound, edge_weights)
    bound = bind_functional(
        unbound, weights, graph, edge_weights=_edge_weights(edge_weights, data, graph), ordered=data.ordered
    )
    counts = data.pair_counts()
    n_left_out = int(np.triu((counts + counts.T > 0) & ~graph.edges).sum())
    _warn_of_graph(data, bound, graph, min_labels)
    # Called for its errors: some functionals have no gauge on this graph.
    bound.gauge(data.n_items)
    return Setup(bound, weights, graph, weighting, n_left_out)


def set_up_likelihood(data: PreferenceData, graph: Graph, category_weights: object, estimator: str) -> Setup:
    """Bind the Bradley-Terry functional to the pairs with votes."""
    weights = _category_weights(category_weights, data)
    if weights.total is None or abs(weights.total - 1) > 1e-12:
        raise OptionError(
            f"category_weights are {weights.first} and {weights.second}, which do not sum to one in every category; "
            f"estimator={estimator!r} counts every vote as one win, a tie as half a win for both models; use "
            f"category_weights='half'"
        )
    counts = data.pair_counts()
    left_out = int(np.triu((counts + counts.T > 0) & ~graph.edges).sum())
    return Setup(BradleyTerry().bind(weights, graph), weights, graph, "votes", left_out)


def _warn_of_graph(data: PreferenceData, functional: Functional, graph: Graph, min_labels: int) -> None:
    """Warn where compared pairs have few labels, or Borda scores compare models that met different opponents."""
    counts = data.pair_counts()
    has_enough, has_labels = (Graph.observed(counts, n_labels, data.ordered).edges for n_labels in (min_labels, 1))
    n_few = int(np.triu(graph.edges & has_labels & ~has_enough).sum())
    if n_few:
        warn(
            f"{n_few:,} of {graph.n_edges:,} compared pairs have fewer than min_labels={min_labels} labelled "
            f"prompts{' in one of the two orders' if data.ordered else ''}; the contribution of these pairs to the "
            f"scores rests mainly on the learner's predictions, which few labels correct; graph='observed' leaves such "
            f"pairs out",
            stacklevel=2,
            kind=IntervalWarning,
        )
    if functional.ignores_opponents and not graph.complete:
        n_pairs = data.n_items * (data.n_items - 1) // 2
        warn(
            f"{functional.name} is computed on an incomplete graph ({graph.n_edges:,} of {n_pairs:,} pairs): models "
            f"faced different opponents, and a score depends on how strong these are; functional='bt' takes the "
            f"opponents into account",
            stacklevel=2,
        )


def bind_functional(
    functional: object, weights: CategoryWeights, graph: Graph, *, edge_weights: FloatArray | None, ordered: bool
) -> Functional:
    """Return the functional of a fit or a plan, bound to weights and graph.

    Shapes: edge_weights (K, K).
    """
    if not ordered and not weights.mirrored:
        raise OptionError(
            f"category weights {weights.first} and {weights.second} treat the two items differently: where "
            f"display order does not matter, both items need the same weights, with the two wins exchanged; change "
            f"category_weights, or use position_bias=True"
        )
    return functional_from(functional).bind(weights, graph, edge_weights).in_fit(len(graph.edges), ordered)


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
            f"{option} is not symmetric with an empty diagonal, but an edge has no direction and no model is compared "
            f"with itself; set [j, k] and [k, j] to the same value, and [j, j] to False"
        )
    return Graph(cast(NDArray[np.bool_], edges))


def category_weights_from(weights: object, n_categories: int, *, numbers: str, counted: str) -> CategoryWeights:
    """Return category weights that a user gave as an object or as numbers."""
    if not isinstance(weights, CategoryWeights):
        try:
            first, second = cast("tuple[Iterable[float], Iterable[float]]", weights)
            weights = CategoryWeights(tuple(first), tuple(second))
        except (TypeError, ValueError) as error:
            if isinstance(error, OptionError):
                raise
            raise OptionTypeError(
                f"category_weights is a {type(weights).__name__}; allowed: 'half', 'paper', CategoryWeights, or two "
                f"sequences with {numbers}"
            ) from None
    if weights.n_categories != n_categories:
        raise OptionError(
            f"category_weights has {weights.n_categories} categories, {counted}; give {n_categories} numbers for each "
            f"of the two models"
        )
    return weights


def _category_weights(weights: object, data: PreferenceData) -> CategoryWeights:
    """Return the category weights that the option asks for."""
    if isinstance(weights, str):
        return CategoryWeights.for_categories(data.categories, weights)
    return category_weights_from(
        weights,
        data.n_categories,
        numbers=f"one number per category {data.categories}",
        counted=f"the data have {data.n_categories}: {data.categories}",
    )


def _weights_of(functional: Functional, option: object, data: PreferenceData) -> CategoryWeights:
    """Return the category weights of the functional's own if it has some, otherwise those of the option."""
    asked, own = _category_weights(option, data), functional.weights
    if own is None:
        return asked
    if own.n_categories != data.n_categories:
        raise OptionError(
            f"functional={functional.name!r} has category weights of its own for {own.n_categories} categories, the "
            f"data have {data.n_categories}: {data.categories}; give the functional {data.n_categories} weights for "
            f"each of the two models, or none"
        )
    # The default of the option says nothing about what the user wants.
    is_default = isinstance(option, str) and option == "half"
    if not is_default and asked != own:
        raise OptionError(
            f"functional={functional.name!r} has category weights of its own, {own.first} and {own.second}, and "
            f"category_weights= asks for {asked.first} and {asked.second}; give them in one place"
        )
    return own


def _edge_weighting(functional: Functional, option: object) -> str:
    """Return which weights pairs have: "equal", "counts" or "given"; ``option`` is the option ``edge_weights``."""
    has_own = functional.edge_weights is not None
    if not isinstance(option, str):
        if has_own:
            raise OptionError(
                f"functional={functional.name!r} has edge weights of its own, and edge_weights= is given, too; give "
                f"them in one place"
            )
        return "given"
    if has_own and option != "equal":
        raise OptionError(
            f"functional={functional.name!r} has edge weights of its own, and edge_weights={option!r} asks for others; "
            f"give them in one place"
        )
    return "given" if has_own else option


def check_edge_weights(edge_weights: object, data: PreferenceData, graph: Graph) -> None:
    """Raise where an array of edge weights cannot be used on the graph.

    Nothing is checked on a graph that is not connected, which is a problem of its own.
    """
    if isinstance(edge_weights, str) or not graph.connected:
        return
    weights = CategoryWeights.for_categories(data.categories, "half")
    weights_of_pairs = _edge_weights(edge_weights, data, graph)
    bind_functional("bt", weights, graph, edge_weights=weights_of_pairs, ordered=data.ordered).gauge(data.n_items)


def _edge_weights(edge_weights: object, data: PreferenceData, graph: Graph) -> FloatArray | None:
    """Return the weights of the pairs that the option asks for, (K, K); None for equal weights."""
    if not isinstance(edge_weights, str):
        table = align_pairs_by_name(edge_weights, data.items, name="edge_weights")
        try:
            return real_array(table)
        except (TypeError, ValueError, OverflowError):
            raise OptionTypeError(
                f"edge_weights is a {type(edge_weights).__name__}; allowed: 'equal', 'counts', or a symmetric array of "
                f"numbers (models, models) = {(data.n_items, data.n_items)}"
            ) from None
    if edge_weights == "equal":
        return None
    counts = data.pair_counts()
    return np.where(graph.edges, counts + counts.T, 0).astype(float)
