"""The options of a plan and the probabilities that it is made from, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._utils.argument_checks import array_of_numbers
from ..data.graph import Graph
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray
from ..exceptions import NuisanceError, OptionError, OptionTypeError, check_choice, listed
from ..fit.estimand import category_weights_from, graph_from_array
from ..functionals import CategoryWeights
from .contrasts import ContrastsLike
from .problem import Pairs

T = TypeVar("T", bound=Hashable)

# By how much probabilities may miss what they should be.
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class PlanOptions:
    """The options that every plan has, whether probabilities or a fit make it; see :func:`dmlrank.design`.

    The signatures of :func:`dmlrank.design` and :meth:`RankResults.design` have these names and defaults.

    Attributes
    ----------
    budget : float
        Positive.
    criterion : {"A", "D"}
    contrasts : optional
        What :meth:`RankResults.t_test` reads, ``Top`` or ``Against``; all scores when None.
    costs : float or array
        One number, (n,), (K, K) or (n, K, K).
    min_propensity : float, optional
        Above 0 and at most 1; a tenth of the uniform plan's when None.
    one_pair : bool
    explore : float
        From 0 to below 1.

    Raises
    ------
    OptionError, OptionTypeError
        If a number or a word is not allowed.

    Examples
    --------
    >>> PlanOptions(budget=100).criterion
    'A'
    """

    budget: float
    criterion: str = "A"
    contrasts: ContrastsLike = None
    costs: ArrayLike = 1.0
    min_propensity: float | None = None
    one_pair: bool = False
    explore: float = 0.0

    def __post_init__(self) -> None:
        checked = {"budget": check_positive(self.budget, "budget"), "explore": check_share(self.explore, "explore")}
        if self.min_propensity is not None:
            checked["min_propensity"] = check_positive(self.min_propensity, "min_propensity", 1.0)
        check_choice(self.criterion, ("A", "D"), "criterion")
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def check_mu(
    mu: FloatArray,
    models: Sequence[str],
    contexts: Sequence[Hashable] | NDArray[np.object_],
    ordered: bool,
    *,
    rows: int = 1024,
) -> None:
    """Raise :class:`NuisanceError` unless every pair has probabilities, and mirrored ones where order is ignored.

    Parameters
    ----------
    mu : ndarray, shape (n, K, K, C)
    models, contexts : sequences
        Their names, for the message.
    ordered : bool
    rows : int
        Contexts that are looked at together.
    """
    off_diagonal = ~np.eye(mu.shape[1], dtype=bool)
    for at in range(0, len(mu), rows):
        table = np.asarray(mu[at : at + rows], dtype=float)
        total = (table.reshape(-1, table.shape[3]) @ np.ones(table.shape[3])).reshape(table.shape[:3])
        faults: list[tuple[NDArray[np.bool_], str]] = []
        if not (table.min() >= 0 and table.max() <= 1):
            faults.append((np.asarray(~((table >= 0) & (table <= 1)).all(axis=-1)), "is not a probability"))
        faults.append((~np.asarray(np.abs(total - 1) <= _CLOSE), "does not sum to one over the categories"))
        if not ordered:
            apart = np.abs(table - in_other_order(table)).max(axis=-1) > _CLOSE
            faults.append((apart, "is not the flip of the other order (position_bias=False)"))
        for fault, what in faults:
            fault &= off_diagonal
            if fault.any():
                i, j, k = (int(place[0]) for place in np.nonzero(fault))
                raise NuisanceError(
                    f"mu {what} in context {contexts[at + i]!r} for {models[j]!r} before {models[k]!r}: "
                    f"{table[i, j, k].tolist()}"
                )


def mu_array(mu: object) -> FloatArray:
    """The probabilities as an array of four dimensions with an empty diagonal, not copied where they are one."""
    try:
        table = np.asanyarray(mu)
        if table.dtype.kind not in "f":
            table = table.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise OptionTypeError(f"mu is a {type(mu).__name__}; needed is an array of probabilities") from None
    if (
        table.ndim != 4
        or table.shape[1] != table.shape[2]
        or table.shape[1] < 2
        or table.shape[3] < 2
        or not len(table)
    ):
        raise NuisanceError(f"mu has shape {table.shape}; needed is (contexts, models, models, categories)")
    items = np.arange(table.shape[1])
    if (table[:, items, items] != 0).any():
        table = table.copy()
        table[:, items, items] = 0
    return table


def read_costs(costs: ArrayLike, pairs: Pairs, n_contexts: int) -> FloatArray:
    """What a label of each cell costs, (n or 1, m or 1), from one number, (n,), (K, K) or (n, K, K).

    Raises
    ------
    OptionTypeError, OptionError
        If they have another shape, a cost is not positive, or the orders of a pair that has no order differ.
    """
    n_items = pairs.n_items
    shapes = {0: (), 1: (n_contexts,), 2: (n_items, n_items), 3: (n_contexts, n_items, n_items)}
    try:
        given = np.asarray(costs, dtype=float)
    except (TypeError, ValueError, OverflowError):
        given = np.empty((0,) * 4)
    if given.shape != shapes.get(given.ndim):
        seen = f"has shape {given.shape}" if given.ndim < 4 else f"is a {type(costs).__name__}"
        raise OptionTypeError(
            f"costs {seen}; allowed: one number, a number per context {shapes[1]}, per pair {shapes[2]}, or both "
            f"{shapes[3]}"
        )
    if given.ndim == 0:
        made = given.reshape(1, 1)
    elif given.ndim == 1:
        made = given[:, None]
    else:
        table = given if given.ndim == 3 else given[None]
        if not pairs.ordered and not np.allclose(pairs.take(table), table[:, pairs.second, pairs.first]):
            raise OptionError("costs differ by order; with position_bias=False a pair has one cost in both orders")
        made = pairs.take(table)
    wrong = ~(np.isfinite(made) & (made > 0))
    if wrong.any():
        i, cell = (int(place[0]) for place in np.nonzero(wrong))
        where = f" in entry {i}" if given.ndim in (1, 3) else ""
        where += f" for models {pairs.first[cell]} and {pairs.second[cell]}" if given.ndim > 1 else ""
        raise OptionError(
            f"costs are {made[i, cell]}{where} ({int(wrong.sum())} such); every cost is a positive number"
        )
    return made


def read_edge_weights(edge_weights: ArrayLike, n_items: int) -> FloatArray:
    """Edge weights as an array of numbers, (K, K).

    Raises
    ------
    OptionTypeError
        If they are something else.
    """
    numbers = array_of_numbers(edge_weights, 2)
    shown = _shown(edge_weights) if numbers is None else f"an array of shape {numbers.shape}"
    if numbers is None or numbers.shape != (n_items, n_items):
        raise OptionTypeError(
            f"edge_weights is {shown}; needed is a symmetric array of numbers (models, models) = "
            f"{(n_items, n_items)}, or None"
        )
    return numbers


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str | Real) and len(repr(value)) < 60 else f"a {type(value).__name__}"


def check_positive(value: object, option: str, most: float = np.inf) -> float:
    """A number above 0 and not above ``most``."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise OptionTypeError(f"{option}={value!r}; needed is a number")
    if not 0 < float(value) <= most or not np.isfinite(float(value)):
        limit = "a positive number" if most == np.inf else f"a number above 0 and at most {most:g}"
        raise OptionError(f"{option}={value!r}; needed is {limit}")
    return float(value)


def check_share(value: object, option: str) -> float:
    """A number from 0 to below 1."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise OptionTypeError(f"{option}={value!r}; needed is a number")
    if not 0 <= float(value) < 1:
        raise OptionError(f"{option}={value!r}; needed is a share, from 0 to below 1")
    return float(value)


def read_names(names: Sequence[T] | None, size: int, what: str, made: Sequence[T]) -> list[T]:
    """Names as a list, each once; ``made`` where none were given."""
    if names is None:
        return list(made)
    known = list(names)
    if len(known) != size:
        raise OptionError(f"{what} names {len(known)}, mu has {size}")
    if len(set(known)) < size:
        twice = [name for name in dict.fromkeys(known) if known.count(name) > 1] if size < 1000 else []
        raise OptionError(f"{what} names every one once{'; twice: ' + listed(twice, 3) if twice else ''}")
    return known


def read_weights(weights: str | CategoryWeights | Sequence[Sequence[float]], n_categories: int) -> CategoryWeights:
    """Category weights of mu's categories in canonical order."""
    if isinstance(weights, str):
        schemes = {"half": CategoryWeights.half, "paper": CategoryWeights.paper}
        if weights not in schemes:
            raise OptionError(f"category_weights={weights!r} is not known; allowed: 'half', 'paper', CategoryWeights")
        return schemes[weights](n_categories)
    return category_weights_from(
        weights, n_categories, numbers=f"{n_categories} numbers", counted=f"mu has {n_categories}"
    )


def read_graph(graph: Graph | ArrayLike | None, n_items: int) -> Graph:
    """The graph of the pairs that count: a Graph, a symmetric boolean array, or every pair."""
    if graph is None or (isinstance(graph, str) and graph == "complete"):
        return Graph.all_pairs(n_items)
    edges = graph.edges if isinstance(graph, Graph) else np.asarray(graph)
    return graph_from_array(edges, n_items, option="graph", words="'complete', a Graph")


def read_context_weights(weights: ArrayLike | None, n_contexts: int) -> FloatArray | None:
    """Weights of contexts in the target population, scaled to mean one."""
    if weights is None:
        return None
    try:
        given = np.asarray(weights, dtype=float)
    except (TypeError, ValueError, OverflowError):
        given = np.empty((0, 0))
    if given.shape != (n_contexts,):
        raise OptionTypeError(f"weights has shape {given.shape}; needed is a number per context, {(n_contexts,)}")
    if not (np.isfinite(given).all() and (given >= 0).all() and given.any()):
        raise OptionError("weights are finite, not negative and not all zero")
    return given / given.mean()
