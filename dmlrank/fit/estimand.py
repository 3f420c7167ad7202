"""What is estimated: the items, the comparison graph and the functional on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils.warning_collection import warn
from ..data.graph import Graph
from ..data.labels import square_by_name
from ..data.preferences import FloatArray, PreferenceData
from ..exceptions import DmlrankError, GraphError, IntervalWarning, OptionError, OptionTypeError, listed
from ..functionals import BradleyTerry, CategoryWeights, Custom, Functional, named
from .extrapolation import connecting_options


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """A functional bound to category weights and a graph.

    Attributes
    ----------
    functional : Functional
    weights : CategoryWeights
    graph : Graph
    edge_weights : str
        How the pairs are weighted, for the header.
    n_left_out : int
        Pairs with labels that are not on the graph.
    """

    functional: Functional
    weights: CategoryWeights
    graph: Graph
    edge_weights: str
    n_left_out: int


def with_enough_comparisons(data: PreferenceData, min_comparisons: int) -> PreferenceData:
    """The data without the models that have too few labelled contexts.

    Raises
    ------
    GraphError
        If fewer than two models are left.
    """
    while min_comparisons:
        labelled = data.pair_counts()
        enough = (labelled + labelled.T).sum(axis=1) >= min_comparisons
        if enough.all():
            break
        if enough.sum() < 2:
            raise GraphError(
                f"min_comparisons={min_comparisons} leaves {int(enough.sum())} models; at least two are needed"
            )
        data = data.restrict(np.flatnonzero(enough))
    return data


def restrict_items(
    data: PreferenceData, graph: Any, min_labels: int, component: str, min_comparisons: int
) -> PreferenceData:
    """Drop models with too few comparisons, then those outside the largest component where that is asked for.

    Raises
    ------
    GraphError
        If what is left is not connected, or fewer than two models are left.
    """
    data = with_enough_comparisons(data, min_comparisons)
    parts = comparison_graph(data, graph, min_labels).components()
    if len(parts) == 1:
        return data
    if component == "largest" and len(parts[0]) > 1:
        return data.restrict(parts[0])
    raise GraphError(explain_disconnected(data, parts, min_labels, graph))


def explain_disconnected(data: PreferenceData, parts: list[NDArray[np.intp]], min_labels: int, graph: Any) -> str:
    """What to tell of a graph that falls into several parts, and what to do."""
    shown = "; ".join("{" + listed(data.items[j] for j in part) + "}" for part in parts[:5])
    shown += " and more" if len(parts) > 5 else ""
    if not isinstance(graph, str):
        return (
            f"graph= does not connect the models: {len(parts)} components {shown}; add pairs between them, or let "
            f"graph='observed' find the pairs that have labels"
        )
    if graph == "votes":
        way_out = "component='largest' ranks the largest component only" if len(parts[0]) > 1 else "collect such votes"
        return f"no vote compares models across {len(parts)} components {shown}; {way_out}"
    advice = ["component='largest' ranks the largest component only"] if len(parts[0]) > 1 else []
    changes = connecting_options(data, min_labels)
    if changes is None:
        advice.append("more votes that compare models across components would connect them")
    else:
        options = " with ".join(f"{name}={value!r}" for name, value in changes.items())
        order = ", if display order does not matter" if "position_bias" in changes else ""
        advice.append(f"{options} would connect them{order}")
        if "min_labels" in changes:
            advice.append("edge_weights='counts' then lets pairs with few labels count less")
    return (
        f"the comparisons do not connect the models: {len(parts)} components {shown} "
        f"(a pair needs min_labels={min_labels} labelled contexts"
        f"{' in each order' if data.ordered else ''}); {'; '.join(advice)}"
    )


def comparison_graph(data: PreferenceData, graph: Any, min_labels: int) -> Graph:
    """The graph that ``graph=`` stands for; ``"votes"`` is every pair with a vote, in whichever order.

    Raises
    ------
    OptionTypeError, GraphError
        If it is none of ``"observed"``, ``"complete"``, a Graph and a symmetric boolean (K, K) array.
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
            edges = np.asarray(square_by_name(graph, data.items, name="graph"))
        except ValueError as error:
            if isinstance(error, DmlrankError):
                raise
            # Rows of different lengths.
            edges = np.empty(0, dtype=bool)
    return given_graph(edges, data.n_items, option="graph=", words="'observed', 'complete'")


def set_up(
    data: PreferenceData,
    graph: Any,
    *,
    min_labels: int,
    edge_weights: Any,
    category_weights: Any,
    functional: Any,
) -> Setup:
    """Bind the functional to the graph and the weights that the options ask for."""
    compared = comparison_graph(data, graph, min_labels)
    weights = _category_weights(category_weights, data)
    bound = bind_functional(
        functional, weights, compared, edge_weights=_edge_weights(edge_weights, data, compared), ordered=data.ordered
    )
    counts = data.pair_counts()
    n_left_out = int(np.triu((counts + counts.T > 0) & ~compared.edges).sum())
    _warn_of_graph(data, bound, compared, min_labels)
    bound.gauge(data.n_items)
    how = edge_weights if isinstance(edge_weights, str) else "given"
    return Setup(bound, weights, compared, how, n_left_out)


def set_up_likelihood(data: PreferenceData, graph: Graph, category_weights: Any) -> Setup:
    """Bradley-Terry on the pairs with votes.

    Raises
    ------
    OptionError
        If the category weights do not give the two models one win together in every category.
    """
    weights = _category_weights(category_weights, data)
    if weights.total is None or abs(weights.total - 1) > 1e-12:
        raise OptionError(
            f"estimator='bt_mle' needs category weights that add up to one in every category (a tie is half a win for "
            f"both); got {weights.first} and {weights.second}; category_weights='half' does"
        )
    counts = data.pair_counts()
    left_out = int(np.triu((counts + counts.T > 0) & ~graph.edges).sum())
    return Setup(BradleyTerry().bind(weights, graph), weights, graph, "votes", left_out)


def _warn_of_graph(data: PreferenceData, functional: Functional, graph: Graph, min_labels: int) -> None:
    """Warn where pairs that are to be compared have few labels, or opponents differ by schedule."""
    counts = data.pair_counts()
    enough, some = (Graph.observed(counts, least, data.ordered).edges for least in (min_labels, 1))
    n_thin = int(np.triu(graph.edges & some & ~enough).sum())
    if n_thin:
        warn(
            f"{n_thin:,} of {graph.n_edges:,} pairs on the graph have fewer than min_labels={min_labels} labelled "
            f"contexts{' in an order' if data.ordered else ''}, and few labels decide how their scores are corrected; "
            f"graph='observed' leaves such pairs out",
            stacklevel=2,
            kind=IntervalWarning,
        )
    if functional.name == "borda" and not graph.complete:
        warn(
            f"borda on an incomplete graph ({graph.n_edges} of {data.n_items * (data.n_items - 1) // 2} pairs) mixes "
            f"skill with schedule: models faced different opponents; functional='bt' does not",
            stacklevel=2,
        )


def bind_functional(
    functional: Any, weights: CategoryWeights, graph: Graph, *, edge_weights: FloatArray | None, ordered: bool
) -> Functional:
    """The functional that ``functional=`` stands for, bound to weights and graph; a fit's and a plan's.

    Parameters
    ----------
    functional : str, Functional or callable
    weights : CategoryWeights
    graph : Graph
    edge_weights : ndarray, shape (K, K), or None
    ordered : bool
        Whether the order of a pair matters.

    Raises
    ------
    OptionError, OptionTypeError
        If it cannot be used with these.
    """
    if not ordered and not weights.mirrored:
        raise OptionError(
            f"position_bias=False needs category weights that mirror (second = first with the wins exchanged); "
            f"these do not: {weights.first} and {weights.second}"
        )
    bound = chosen_functional(functional).bind(weights, graph, edge_weights)
    if isinstance(bound, Custom):
        bound = bound if ordered else bound.without_order()
        bound.examine(len(graph.edges))
    return bound


def given_graph(edges: NDArray[Any], n_items: int, *, option: str, words: str) -> Graph:
    """A graph from the caller's array, checked; a fit's and a plan's.

    Parameters
    ----------
    edges : ndarray
    n_items : int
    option : str
        In errors: how the option is called.
    words : str
        In errors: what is allowed beside an array.
    """
    shape = (n_items, n_items)
    if edges.shape != shape or edges.dtype != bool:
        raise OptionTypeError(
            f"{option} has shape {edges.shape} and type {edges.dtype}; allowed: {words}, or a symmetric boolean array "
            f"(models, models) = {shape}"
        )
    if not (edges == edges.T).all() or edges.diagonal().any():
        raise GraphError(f"{option} is not symmetric with an empty diagonal: a pair is compared or it is not")
    return Graph(edges)


def given_category_weights(weights: Any, n_categories: int, *, numbers: str, counted: str) -> CategoryWeights:
    """Category weights that are no word, checked; a fit's and a plan's.

    Parameters
    ----------
    weights : CategoryWeights or two sequences of n_categories numbers
    n_categories : int
    numbers : str
        In errors: what two sequences hold.
    counted : str
        In errors: what has how many categories.
    """
    if not isinstance(weights, CategoryWeights):
        try:
            first, second = weights
            weights = CategoryWeights(tuple(first), tuple(second))
        except (TypeError, ValueError) as error:
            if isinstance(error, OptionError):
                raise
            raise OptionTypeError(
                f"category_weights is a {type(weights).__name__}; allowed: 'half', 'paper', CategoryWeights, or two "
                f"sequences with {numbers}"
            ) from None
    if weights.n_categories != n_categories:
        raise OptionError(f"category_weights has {weights.n_categories} categories, {counted}")
    return weights


def chosen_functional(functional: Any) -> Functional:
    """The functional that ``functional=`` stands for, not yet bound."""
    if isinstance(functional, str):
        return named(functional)
    needed = ("bind", "value_and_derivative", "gauge")
    is_object = not isinstance(functional, type)
    if is_object and callable(functional) and not hasattr(functional, "value_and_derivative"):
        return Custom(functional)
    if not is_object or not all(hasattr(functional, name) for name in needed):
        seen = f"the class {functional.__name__}" if isinstance(functional, type) else f"a {type(functional).__name__}"
        raise OptionTypeError(
            f"functional is {seen}; allowed: 'borda', 'bt', 'rank_centrality', "
            f"'dominance', 'softmin', a function mu -> (n, d), or an object of a class in dmlrank.functionals, such as "
            f"RankCentrality(walk='rate')"
        )
    return functional


def _category_weights(weights: Any, data: PreferenceData) -> CategoryWeights:
    if isinstance(weights, str):
        return CategoryWeights.for_categories(data.categories, weights)
    return given_category_weights(
        weights,
        data.n_categories,
        numbers=f"one number per category {data.categories}",
        counted=f"the data have {data.n_categories}: {data.categories}",
    )


def check_edge_weights(edge_weights: Any, data: PreferenceData, graph: Graph) -> None:
    """Raise where edge weights that are no word cannot be used on a connected graph."""
    if isinstance(edge_weights, str) or not graph.connected:
        return
    weights = CategoryWeights.for_categories(data.categories, "half")
    given = _edge_weights(edge_weights, data, graph)
    bind_functional("bt", weights, graph, edge_weights=given, ordered=data.ordered).gauge(data.n_items)


def _edge_weights(edge_weights: Any, data: PreferenceData, graph: Graph) -> FloatArray | None:
    if not isinstance(edge_weights, str):
        table = square_by_name(edge_weights, data.items, name="edge_weights")
        try:
            return np.asarray(table, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise OptionTypeError(
                f"edge_weights is a {type(edge_weights).__name__}; allowed: 'equal', 'counts', or a symmetric array of "
                f"numbers (models, models) = {(data.n_items, data.n_items)}"
            ) from None
    if edge_weights == "equal":
        return None
    counts = data.pair_counts()
    return np.where(graph.edges, counts + counts.T, 0).astype(float)
