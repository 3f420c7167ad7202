"""What a plan is made from, read and checked before anything is computed: probabilities, costs, weights, names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .._utils.argument_checks import array_of_numbers, real_array, require_shape
from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from ..estimation.bt_restricted import check_restricted_categories
from ..exceptions import NuisanceError, OptionError, OptionTypeError, check_choice, listed, shown
from ..fit.compared_pairs import category_weights_from, graph_from_array
from ..functionals import BradleyTerry, CategoryWeights, Functional
from ..functionals.base import edge_matrix
from .problem import Limits, RestrictedVoteProblem, Tables, VoteProblem

T = TypeVar("T", bound=Hashable)


def vote_problem(
    functional: Functional,
    mu: Tables,
    row: IntArray,
    limits: Limits,
    *,
    is_restricted: bool,
    ordered: bool,
    weights: ArrayLike | None,
    **further: Any,
) -> VoteProblem:
    """Return the problem of labels of the pairs that a functional uses: those of its graph with a positive edge weight.

    Shapes: mu (g, K, K, C), row (n,), the table of each context; weights (n,). ``further`` are fields of the problem.
    """
    n_items, n_contexts = mu.shape[1], len(row)
    edges = edge_matrix(functional.graph, functional.edge_weights, n_items) > 0
    first, second = np.nonzero(edges if ordered else np.triu(edges))
    if is_restricted and (not isinstance(functional, BradleyTerry) or functional.weights is None):
        raise OptionError(f"estimator='bt_restricted' needs functional='bt', not {functional.name!r}; change one")
    if is_restricted and functional.weights is not None:
        check_restricted_categories(functional.weights, ("first", "second", "ties")[: mu.shape[3]])
    return (RestrictedVoteProblem if is_restricted else VoteProblem)(
        functional=functional,
        mu=mu,
        row=row,
        cost=_read_costs(limits.costs, first, second, (n_contexts, n_items, n_items), ordered),
        context_weight=read_context_weights(weights, n_contexts),
        one_pair=bool(limits.one_pair),
        first=first,
        second=second,
        ordered=ordered,
        **further,
    ).by_row()


def mu_array(mu: object) -> FloatArray:
    """Return probabilities as an array, (n, K, K, C), with zeros for a model and itself.

    An array of floats that has these zeros already is returned as it is, without a copy.
    """
    table = array_of_numbers(mu, 4)
    if table is None or table.shape[1] != table.shape[2] or min(table.shape[1:]) < 2 or not len(table):
        raise NuisanceError(
            f"mu is a {type(mu).__name__} with the shape {np.shape(cast(Any, mu))}; give probabilities (contexts, "
            f"models, models, categories) of at least one context, two models and two categories"
        )
    items = np.arange(table.shape[1])
    if (table[:, items, items] != 0).any():
        table = table.copy()
        table[:, items, items] = 0
    return table


def _read_costs(
    costs: ArrayLike, first: IntArray, second: IntArray, shape: tuple[int, int, int], ordered: bool
) -> FloatArray:
    """Return the cost of a label by context, (n or 1, m or 1), from one number, (n,), (K, K) or (n, K, K)."""
    array = array_of_costs(costs, {shape[:1]: "context", shape[1:]: "pair", shape: "context and pair"})
    if array.ndim < 2:
        cost = array.reshape(-1, 1)
    else:
        table = array.reshape(-1, *shape[1:])
        cost = table[:, first, second]
        if not ordered and not np.allclose(cost, table[:, second, first]):
            raise OptionError("costs of a pair differ by order; make them symmetric, or use position_bias=True")
    return positive_costs(cost)


def positive_costs(cost: FloatArray) -> FloatArray:
    """Return costs of cells that are positive numbers."""
    wrong = ~(np.isfinite(cost) & (cost > 0))
    if wrong.any():
        found = f"costs has the value {cost[wrong][0]} ({int(wrong.sum())} such values)"
        raise OptionError(f"{found}; every cost must be a positive number")
    return cost


def array_of_costs(costs: ArrayLike, allowed: Mapping[tuple[int, ...], str]) -> FloatArray:
    """Return costs as an array: one number, or of one of the shapes that are allowed, each with what has a cost."""
    shapes = ", ".join(["one number", *(f"a number per {what} {shape}" for shape, what in allowed.items())])
    array = real_array(costs, "costs", shapes)
    if array.ndim and array.shape not in allowed:
        raise OptionTypeError(f"costs has shape {array.shape}; allowed are {shapes}")
    return array


def read_context_weights(weights: ArrayLike | None, n_contexts: int) -> FloatArray:
    """Return weights of contexts in the target population, scaled to mean one: (n,), or (1,) where all are equal."""
    if weights is None:
        return np.ones(1)
    numbers = real_array(weights, "weights", "one number per context")
    require_shape(numbers, (n_contexts,), "weights", "one number per context", OptionTypeError)
    if not (np.isfinite(numbers).all() and (numbers >= 0).all() and numbers.any()):
        raise OptionError("weights must be finite numbers of at least 0, not all of them 0")
    return numbers / numbers.mean()


def read_category_weights(
    weights: str | CategoryWeights | Sequence[Sequence[float]], n_categories: int
) -> CategoryWeights:
    """Return weights of the categories of mu: "half", "paper", or the caller's own."""
    if isinstance(weights, str):
        check_choice(weights, ("half", "paper"), "category_weights")
        return CategoryWeights.half(n_categories) if weights == "half" else CategoryWeights.paper(n_categories)
    return category_weights_from(weights, n_categories)


def read_graph(graph: Graph | ArrayLike | None, n_items: int) -> Graph:
    """Return the graph of compared pairs; None and "complete" stand for every pair."""
    if graph is None or (isinstance(graph, str) and graph == "complete"):
        return Graph.all_pairs(n_items)
    edges = graph.edges if isinstance(graph, Graph) else np.asarray(graph)
    return graph_from_array(edges, n_items, option="graph", words="'complete', a Graph")


def read_names(names: Sequence[T] | None, size: int, option: str, default: Sequence[T]) -> list[T]:
    """Return names as a list, and check that there is one for each model or context and none twice."""
    if names is None:
        return list(default)
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise OptionTypeError(f"{option}={shown(names)} is a {type(names).__name__}; give a list of names")
    name_list = list(names)
    if not all(isinstance(name, Hashable) for name in name_list):
        raise OptionTypeError(f"{option} has an entry that is a list or a mapping; give texts, numbers or tuples")
    if len(name_list) != size:
        raise OptionError(f"{option} has {len(name_list)} names, but mu has {size} {option}; give one name for each")
    repeated = [name for name, count in Counter(name_list).items() if count > 1]
    if repeated:
        raise OptionError(f"{option} has repeated names, such as {listed(repeated, 3)}; every name must be different")
    return name_list


def rows_of_samples(
    identifiers: Iterable[object], columns: Sequence[str], carried: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return further columns of samples, (n, c), with the identifiers of contexts as index, named by ``columns``."""
    index = pd.Index(list(identifiers), name=columns[0], tupleize_cols=False)
    if len(columns) > 1:
        index = pd.MultiIndex.from_tuples(index, names=list(columns))
    return pd.DataFrame(index=index) if carried is None else carried.set_axis(index)
