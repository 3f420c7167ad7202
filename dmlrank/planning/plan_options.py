"""The options of a plan: contrasts, costs, limits and names, read and checked before anything is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._utils.argument_checks import array_of_numbers, number_in
from ..data.graph import Graph
from ..data.hypotheses import HypothesisLike, read_hypothesis
from ..data.preferences import FloatArray, IntArray
from ..exceptions import (
    HypothesisError,
    NuisanceError,
    OptionError,
    OptionTypeError,
    UnknownModelError,
    check_choice,
    listed,
    nearest,
    shown,
)
from ..fit.compared_pairs import category_weights_from, graph_from_array
from ..functionals import CategoryWeights
from ..inference.covariance import free_basis
from ..report.statements import some_of
from .problem import DesignProblem, Pairs, PlanNames
from .search import Criterion, PlanSpecification

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Top:
    """All differences among the ``count`` best models, and those that decide which models these are.

    A plan from a fit asks which models are the best, too: another model may be among them unless simultaneous tests of
    the fit show ``count`` models to be above it. Its differences from those of the best models that it is not separated
    from are contrasts as well, and the plan's summary names the model. A plan from probabilities alone takes the models
    that they rank highest for the best.

    ``Top(1)`` asks who is first: its contrasts are the differences between the model with the highest score and those
    that the fit's test of first place does not separate from it, and this test decides which are found.

    Parameters
    ----------
    count : int
        From 1 to the number of models.

    Examples
    --------
    >>> Top(3).rows(["a", "b", "c", "d"], np.array([0.1, 0.9, 0.5, 0.7]))[1]
    ('b - c', 'b - d', 'c - d')
    """

    count: int

    def rows(
        self, models: list[str], scores: FloatArray, above: NDArray[np.bool_] | None = None
    ) -> tuple[FloatArray, tuple[str, ...]]:
        """Return the coefficients of the differences and their names.

        Parameters
        ----------
        models : list of str
            Names of the K models.
        scores : ndarray, shape (K,)
            Scores, by which the best models are chosen.
        above : ndarray of bool, shape (K, K), optional
            Whether model j is shown to be above model k, for ``Top(1)`` by the test of first place. None: the models
            with the highest scores are the best.

        Returns
        -------
        coefficients : ndarray, shape (J, K)
            One row for each of the J differences.
        labels : tuple of str
            Names of the differences, such as ``"a - b"``.

        Raises
        ------
        OptionError
            If ``count`` is not between 1 and the number of models, or is 1 and first place is decided.
        """
        if not 1 <= self.count <= len(models):
            raise OptionError(
                f"Top({self.count}) has no meaning for {len(models)} models; give a number from 1 to {len(models)}"
            )
        best, others = _best_and_open(self.count, scores, above)
        if self.count == 1:
            if above is None:
                others = np.delete(np.arange(len(models)), best)
            elif not len(others):
                raise OptionError(
                    f"Top(1) asks who is first, and this is decided: {models[best[0]]} is above every other model "
                    f"(test of first place); plan for the differences of more models, such as Top(2), or for all scores"
                )
            return _differences([(int(best[0]), int(k)) for k in others], models)
        boundary = [] if above is None else [(j, k) for k in others for j in best if not above[j, k]]
        return _differences([*combinations(np.sort(best), 2), *boundary], models)


@dataclass(frozen=True, slots=True)
class Against:
    """The differences between one model and each of the others, such as a new model and all earlier ones.

    Parameters
    ----------
    model : str
        Name of the model whose differences from all others matter.

    Examples
    --------
    >>> Against("b").rows(["a", "b", "c"], np.zeros(3))[1]
    ('b - a', 'b - c')
    """

    model: str

    def rows(
        self, models: list[str], scores: FloatArray, above: NDArray[np.bool_] | None = None
    ) -> tuple[FloatArray, tuple[str, ...]]:
        """Return the coefficients of the differences and their names.

        Parameters
        ----------
        models : list of str
            Names of the K models.
        scores, above : ndarray, shape (K,), and ndarray, shape (K, K), optional
            Not used; arguments because ``Top`` needs them.

        Returns
        -------
        coefficients : ndarray, shape (K - 1, K)
            One row for each difference.
        labels : tuple of str
            Names of the differences, such as ``"a - b"``.
        """
        if self.model not in models:
            raise UnknownModelError(
                f"unknown model {self.model!r}; the models are {listed(models)}{nearest(self.model, models)}"
            )
        item = models.index(self.model)
        return _differences([(item, k) for k in range(len(models)) if k != item], models)


ContrastsLike = HypothesisLike | Top | Against | None


def remark_on(contrasts: ContrastsLike, models: list[str], scores: FloatArray, above: NDArray[np.bool_] | None) -> str:
    """Return the sentence of a summary on which models are the best, where the contrasts are about them."""
    if not isinstance(contrasts, Top):
        return ""
    count = contrasts.count
    best, others = ([models[j] for j in part] for part in _best_and_open(count, scores, above))
    if count == 1:
        if above is None:
            return (
                f"The contrasts are the differences of {best[0]}, which has the highest score, from all other models."
            )
        return (
            f"First place is not decided: {best[0]} has the highest score, and the plan is for its differences from "
            f"the closest other model{'s' * (len(others) > 1)}, {some_of(others)}."
        )
    if above is None:
        return f"The best {count} models are taken to be those with the highest scores: {some_of(best)}."
    if not others:
        return f"It is decided that the best {count} models are {some_of(best)}."
    return (
        f"It is not decided which {count} models are the best: besides {some_of(best)}, which have the highest scores, "
        f"{some_of(others)} may be among them. The contrasts include the differences that decide it."
    )


def _best_and_open(count: int, scores: FloatArray, above: NDArray[np.bool_] | None) -> tuple[IntArray, IntArray]:
    """Return the models with the highest scores, and the others that may be among the best."""
    order = np.argsort(-scores, kind="stable")
    best, others = order[:count], order[count:]
    return best, others[:0] if above is None else others[above[:, others].sum(axis=0) < count]


def make_criterion(
    options: PlanOptions,
    models: list[str],
    scores: FloatArray,
    gauge: FloatArray,
    above: NDArray[np.bool_] | None = None,
) -> tuple[Criterion, FloatArray, tuple[str, ...]]:
    """Return criterion, coefficients of the J contrasts, (J, K), and their names.

    J is 0 for all scores. For ``above`` see :meth:`Top.rows`.
    """
    kind, free, contrasts = options.criterion, free_basis(gauge, len(models)), options.contrasts
    if contrasts is None:
        rows = np.eye(len(models)) if kind == "A" else free.T
        return Criterion(kind, rows), np.empty((0, len(models))), ()
    if isinstance(contrasts, Top | Against):
        targets, labels = contrasts.rows(models, scores, above)
    else:
        hypothesis = read_hypothesis(contrasts, models)
        targets, labels = hypothesis.matrix, hypothesis.labels
    # The contrasts in coordinates of the combinations that the functional does not fix.
    free_targets = targets @ free
    constant = np.linalg.norm(free_targets, axis=1) <= 1e-9 * np.linalg.norm(targets, axis=1)
    if constant.any():
        label = labels[int(np.flatnonzero(constant)[0])]
        raise HypothesisError(
            f"contrast {label!r} has a value that the functional fixes, which no label can change; leave it out"
        )
    if kind == "A":
        return Criterion(kind, targets), targets, labels
    # Some contrasts may follow from others, as one of the three differences of three models follows from the other two.
    # Their covariance has the determinant zero. The criterion takes a basis of the contrasts in their place.
    _, size, directions = np.linalg.svd(free_targets, full_matrices=False)
    return Criterion(kind, directions[size > 1e-9 * size[0]] @ free.T), targets, labels


def _differences(pairs: list[tuple[int, int]], models: list[str]) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the coefficients of the differences first - second, (J, K), and their names."""
    rows = np.eye(len(models))[[j for j, _ in pairs]] - np.eye(len(models))[[k for _, k in pairs]]
    return rows, tuple(f"{models[j]} - {models[k]}" for j, k in pairs)


# With a smaller budget, what labels add to the information is lost in rounding.
_SMALLEST_BUDGET = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class PlanOptions:
    """The options, with defaults, of :func:`dmlrank.design` and :meth:`RankResults.design`."""

    budget: float
    criterion: str = "A"
    contrasts: ContrastsLike = None
    costs: ArrayLike = 1.0
    min_propensity: float | None = None
    one_pair: bool = False
    explore: float = 0.0

    def __post_init__(self) -> None:
        explore = number_in("explore", self.explore, lambda x: 0 <= x < 1, "it must be a share, from 0 to below 1")
        allowed = f"it must be a number of labels or runs, of at least {_SMALLEST_BUDGET:g}"
        budget = number_in("budget", self.budget, lambda x: _SMALLEST_BUDGET <= x < np.inf, allowed)
        checked = {"budget": budget, "explore": explore}
        if (least := self.min_propensity) is not None:
            allowed = "it must be a number above 0 and at most 1"
            checked["min_propensity"] = number_in("min_propensity", least, lambda x: 0 < x <= 1, allowed)
        check_choice(self.criterion, ("A", "D"), "criterion")
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def check_positive(value: object, option: str) -> float:
    """Return an option that must be positive and finite as a float."""
    return number_in(option, value, lambda x: 0 < x < np.inf, "it must be a positive number")


def mu_array(mu: object) -> FloatArray:
    """Return probabilities as an array, (n, K, K, C), with zeros for a model and itself.

    An array of floats that has these zeros already is returned as it is, without a copy.
    """
    try:
        table = np.asanyarray(mu)
        if table.dtype.kind not in "biufO":
            raise TypeError
        if table.dtype.kind != "f":
            table = table.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise OptionTypeError(f"mu has the type {type(mu).__name__}; pass an array of probabilities") from None
    if table.ndim != 4 or table.shape[1] != table.shape[2] or min(table.shape[1:]) < 2 or not len(table):
        raise NuisanceError(
            f"mu has shape {table.shape}; its shape must be (contexts, models, models, categories), with at least one "
            f"context, two models and two categories"
        )
    items = np.arange(table.shape[1])
    if (table[:, items, items] != 0).any():
        table = table.copy()
        table[:, items, items] = 0
    return table


def read_costs(costs: ArrayLike, pairs: Pairs, n_contexts: int) -> FloatArray:
    """Return the cost of a label by context, (n or 1, m or 1), from one number, (n,), (K, K) or (n, K, K)."""
    n_items = pairs.n_items
    square = (n_items, n_items)
    array = array_of_costs(costs, {(n_contexts,): "context", square: "pair", (n_contexts, *square): "context and pair"})
    if array.ndim < 2:
        cost = array.reshape(-1, 1)
    else:
        table = array.reshape(-1, n_items, n_items)
        cost = pairs.take(table)
        if not pairs.ordered and not np.allclose(cost, table[:, pairs.second, pairs.first]):
            raise OptionError(
                "costs of a pair differ by display order, but with position_bias=False a pair has one cost in both "
                "orders; make costs symmetric, or use position_bias=True"
            )
    wrong = ~(np.isfinite(cost) & (cost > 0))
    if wrong.any():
        i, cell = (int(place[0]) for place in np.nonzero(wrong))
        place = f" in entry {i}" if array.ndim in (1, 3) else ""
        place += f" for models {pairs.first[cell]} and {pairs.second[cell]}" if array.ndim > 1 else ""
        raise OptionError(
            f"costs has the value {cost[i, cell]}{place} ({int(wrong.sum())} such values); every cost must be a "
            f"positive number"
        )
    return cost


def array_of_costs(costs: ArrayLike, allowed: Mapping[tuple[int, ...], str]) -> FloatArray:
    """Return costs as an array: one number, or of one of the shapes that are allowed, each with what has a cost."""
    try:
        array, found = np.asarray(costs, dtype=float), ""
    except (TypeError, ValueError, OverflowError):
        array, found = np.empty((0, 0)), f"is a {type(costs).__name__}"
    if array.ndim and array.shape not in allowed:
        shapes = ", ".join(f"a number per {what} {shape}" for shape, what in allowed.items())
        raise OptionTypeError(f"costs {found or f'has shape {array.shape}'}; allowed are one number, {shapes}")
    return array


def read_context_weights(weights: ArrayLike | None, n_contexts: int) -> FloatArray:
    """Return weights of contexts in the target population, scaled to mean one: (n,), or (1,) where all are equal."""
    if weights is None:
        return np.ones(1)
    numbers = array_of_numbers(weights, 1)
    if numbers is None or len(numbers) != n_contexts:
        raise OptionTypeError(f"weights is no array of one number per context; its shape must be {(n_contexts,)}")
    if not (np.isfinite(numbers).all() and (numbers >= 0).all() and numbers.any()):
        raise OptionError(
            "weights has values that are negative or not finite, or only zeros; give finite weights of at "
            "least 0, not all of them 0"
        )
    return numbers / numbers.mean()


def read_category_weights(
    weights: str | CategoryWeights | Sequence[Sequence[float]], n_categories: int
) -> CategoryWeights:
    """Return weights of the categories of mu: "half", "paper", or the caller's own."""
    if isinstance(weights, str):
        check_choice(weights, ("half", "paper"), "category_weights")
        return CategoryWeights.half(n_categories) if weights == "half" else CategoryWeights.paper(n_categories)
    return category_weights_from(
        weights, n_categories, numbers=f"{n_categories} numbers", counted=f"mu has {n_categories}"
    )


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


def specify(
    problem: DesignProblem,
    options: PlanOptions,
    names: PlanNames,
    scores_of: Callable[[FloatArray], FloatArray] = np.asarray,
    above: NDArray[np.bool_] | None = None,
) -> PlanSpecification:
    """Return the specification of a plan (its purpose and its limits); this takes one pass over the probabilities.

    ``scores_of`` takes the means of F(mu) over the plan's contexts, (K,), and returns the scores. ``above``, (K, K),
    says which models a fit shows to be above others.
    """
    functional = problem.functional
    names = replace(names, scores=functional.names(names.models))
    mean, between_covariance, full_covariance, problem = problem.by_row().scan()
    scores = scores_of(mean)
    gauge = functional.gauge(len(names.models)).basis
    models = list(names.scores)
    criterion, contrasts, labels = make_criterion(options, models, scores, gauge, above)
    return PlanSpecification(
        problem=problem,
        criterion=criterion,
        contrasts=contrasts,
        contrast_labels=labels,
        scores=scores,
        between_covariance=between_covariance,
        full_covariance=full_covariance,
        gauge=gauge,
        min_propensity=options.min_propensity,
        explore=options.explore,
        names=names,
        remark=remark_on(options.contrasts, models, scores, above),
        test="none" if isinstance(options.contrasts, Top) and options.contrasts.count == 1 else "max-t",
    )
