r"""The goal of a plan: a criterion, contrasts, what a fit knows; and what a plan is made from, read and checked.

Sigma is n times the covariance of the scores, and L, (J, K), holds the coefficients of the J contrasts that the plan is
for. The A criterion is the trace of L Sigma L', the D criterion its log determinant. The *labelling covariance* is the
part of Sigma that depends on the propensities of the plan: E sum_jk M_jk / pi_jk (:mod:`dmlrank.planning.problem`).

Notes
-----
Let B be the covariance of the scores between contexts, A the covariance of the fit, times n, and V the labelling
covariance. Without earlier labels :math:`\Sigma = B + V`. With them, Sigma is the covariance of the estimate from all
labels, times the number of contexts of the plan. Given the prompts, the errors of the labels are independent.

- A plan for new prompts: one fit of all rows, each with the propensity of its own round, weights every prompt equally.
  If the plan's prompts are a share w of all prompts, :math:`\Sigma = (1 - w)^2 A + w^2 (B + V)`. Sigma may be larger
  than A where few labels are spread over many new prompts.
- Labels that are joined pair by pair, with the propensities of all rounds together: :math:`\Sigma = B + V`, or
  :math:`w B + V` with new prompts.
- A plan for the fit's own prompts: the estimate from all labels is at least as precise as the best weighted mean of the
  fit's estimate and the one from the planned labels, which share B, :math:`\Sigma = B + (A^{-1} + V^{-1})^{-1}`. Here A
  is the part of the fit's covariance beyond B. One fit of all rows weights labels as if they were independent. What the
  dependence of the fit's labels in clusters adds to its covariance, C, is therefore not in A and adds :math:`G C G'`
  with the weight :math:`G = V (A + V)^{-1}` of the fit's estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from .._utils.argument_checks import array_of_numbers, number_in, real_array, require_shape
from ..data.graph import Graph
from ..data.hypotheses import HypothesisLike, read_hypothesis
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray, IntArray
from ..estimation.bt_restricted import check_restricted_categories
from ..exceptions import HypothesisError, NuisanceError, OptionError, OptionTypeError, check_choice, listed, shown
from ..fit.compared_pairs import category_weights_from, graph_from_array
from ..functionals import BradleyTerry, CategoryWeights, Functional
from ..functionals.base import edge_matrix
from ..inference.covariance import Covariance, free_basis
from ..report.phrases import some_of
from .problem import Limits, RestrictedVoteProblem, Tables, VoteProblem

T = TypeVar("T", bound=Hashable)
# Coefficients of combinations of scores, (J, K), and their names.
Targets: TypeAlias = tuple[FloatArray, tuple[str, ...]]
# Share of the largest eigenvalue below which a direction has no variance.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """What a plan is for, what a fit knows of it, and how precise scores become.

    contrasts, top, against: What the caller asks for, at most one of the three: combinations of scores, the differences
        that decide which models are the ``top`` best, or those of one model from all others. None: all scores.
    scores (K,): Those that the plan starts from, before :meth:`settled` those of the fit; None: the problem has them.
    sign: -1 where the lowest score of the fit is the best.
    plugin (K,): Plug-in estimates of the fit, where the plan is for other prompts.
    above (K, K): Which models the fit shows to be above which others; None where it is not known.
    aside (q,): Places of the models with too few votes to be rivals; none without a fit.
    earlier (K, K): Covariance of the fit's scores, times the number of contexts of the plan, where the labels of
        the fit are used together with those of the plan.
    share: Share w of the plan's prompts among all prompts; None for a plan for the fit's own prompts.
    fit: Covariance of the fit's scores, whose clusters say how precise standard errors are; None without a fit.
    dependence (K, K): The part of ``earlier`` that comes from the dependence of labels in a cluster.
    counts (K, K): Labels of each pair so far, where pairs are weighted by the counts of all labels, and a fit of all
        labels joins them with those of the plan pair by pair; None: weights stay as they are.
    alpha, seed: Default of intervals and tests, and the seed of the draws behind critical values.
    predict: Takes a frame of further contexts and returns their probabilities, (n, K, K, C).
    targets: Coefficients, (J, K), and names of the contrasts, or of all scores.
    rows: L, the coefficients whose covariance the criterion is about.
    """

    criterion: str = "A"
    contrasts: HypothesisLike | None = None
    top: int | None = None
    against: str | None = None
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))
    sign: int = 1
    plugin: FloatArray | None = None
    above: NDArray[np.bool_] | None = None
    aside: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    earlier: FloatArray | None = None
    share: float | None = None
    fit: Covariance | None = None
    dependence: FloatArray = field(default_factory=lambda: np.zeros(()))
    counts: FloatArray | None = None
    remarks: tuple[str, ...] = ()
    alpha: float = 0.05
    seed: int = 0
    predict: Callable[[object], FloatArray] | None = None
    targets: Targets = field(default_factory=lambda: (np.empty((0, 0)), ()))
    rows: FloatArray = field(default_factory=lambda: np.zeros(()))

    def __post_init__(self) -> None:
        check_choice(self.criterion, ("A", "D"), "criterion")
        given = [f"{name}=" for name in ("contrasts", "top", "against") if getattr(self, name) is not None]
        if len(given) > 1:
            raise OptionError(f"{' and '.join(given)} are both given, and each is what a plan is for; leave one out")

    @property
    def of_all_scores(self) -> bool:
        """Whether the caller asks for all scores."""
        return self.contrasts is None and self.top is None and self.against is None

    def settled(self, implied: FloatArray, names: Sequence[str], gauge: FloatArray) -> Goal:
        """Return the goal of a problem: with scores, from those that it implies, and with coefficients of contrasts."""
        scores = implied
        if len(self.scores):
            # The bias of mu is assumed to be the same on other prompts as on the fit's.
            scores = self.scores if self.plugin is None else self.scores + implied - self.plugin
        contrasts, remark = self.contrasts_of(list(names), scores), self.remark(list(names), scores)
        return replace(
            self,
            scores=scores,
            remarks=(*self.remarks, *([remark] if remark else [])),
            targets=(np.eye(len(scores)), tuple(names)) if self.of_all_scores else contrasts,
            rows=criterion_rows(self.criterion, contrasts, gauge),
        )

    def contrasts_of(self, names: list[str], scores: FloatArray) -> Targets:
        """Return the coefficients of the J contrasts, (J, K), and their names; J is 0 for all scores.

        A plan from a fit asks which models are the best, too: another model may be among them unless simultaneous tests
        of the fit show ``top`` models to be above it. Its differences from those of the best models that it is not
        separated from are contrasts as well. For first place the test is that of first place.
        """
        asked = self.contrasts
        if self.against is not None:
            asked = [(self.against, name) for name in names if name != self.against]
        elif self.top is not None:
            asked = [(names[j], names[k]) for j, k in self._pairs_of_top(self.top, names, scores)]
        if asked is None:
            return np.empty((0, len(names))), ()
        hypothesis = read_hypothesis(asked, names)
        return hypothesis.matrix, tuple(hypothesis.labels)

    def _pairs_of_top(self, count: int, names: list[str], scores: FloatArray) -> list[tuple[int, int]]:
        if not 1 <= count <= len(names):
            raise OptionError(f"top={count} is no number of {len(names)} models; give one from 1 to {len(names)}")
        best, others = self._best_and_open(count, scores)
        if count == 1 and self.above is None:
            others = np.delete(np.arange(len(names)), best)
        if count == 1 and not len(others):
            raise OptionError(
                f"top=1 asks who is first, and this is decided: {names[best[0]]} is above every other model; plan for "
                f"more models, such as top=2, or for all scores"
            )
        if count == 1:
            return [(best[0], k) for k in others]
        is_open = [] if self.above is None else [(j, k) for k in others for j in best if not self.above[j, k]]
        return [*combinations(np.sort(best), 2), *is_open]

    def _best_and_open(self, count: int, scores: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the models with the best scores, and the others that may be among the best."""
        order = np.argsort(-self.sign * scores, kind="stable")
        order = order[np.argsort(np.isin(order, self.aside), kind="stable")]
        best, others = order[:count], order[count:]
        if self.above is None:
            return best, others[:0]
        others = others[~np.isin(others, self.aside)]
        return best, others[self.above[:, others].sum(axis=0) < count]

    def remark(self, names: list[str], scores: FloatArray) -> str:
        """Return the sentence of a summary on which models are the best, where the contrasts are about them."""
        if self.top is None:
            return ""
        best, others = ([names[j] for j in part] for part in self._best_and_open(self.top, scores))
        which, few = "highest" if self.sign > 0 else "lowest", ""
        if aside := [names[j] for j in self.aside]:
            few = f" Next to no votes are planned for {some_of(aside)}: too few so far; contrasts= can name them."
        if self.top == 1 and self.above is None:
            return f"The contrasts are the differences of {best[0]}, which has the {which} score, from all others."
        if self.top == 1:
            return (
                f"First place is not decided: {best[0]} has the {which} score, and the plan is for its differences "
                f"from the closest other model{'s' * (len(others) > 1)}, {some_of(others)}.{few}"
            )
        if self.above is None:
            return f"The best {self.top} models are taken to be those with the {which} scores: {some_of(best)}."
        if not others:
            return f"It is decided that the best {self.top} models are {some_of(best)}."
        return (
            f"It is not decided which {self.top} models are the best: besides {some_of(best)}, which have the {which} "
            f"scores, {some_of(others)} may be among them. The contrasts include the differences that decide it."
        )

    @property
    def merit(self) -> FloatArray:
        """Scores of which the highest are the best, (K,)."""
        return self.sign * self.scores

    @property
    def linear(self) -> bool:
        """Whether the objective is linear in the labelling covariance, so that one allocation finds the optimum."""
        of_own = self.earlier is not None and self.counts is None and self.share is None
        return self.criterion == "A" and not of_own

    def objective(self, sigma: FloatArray) -> float:
        """Return the trace of L Sigma L' ("A"), or the log determinant of L Sigma L' ("D")."""
        covariance = self.rows @ sigma @ self.rows.T
        return float(np.trace(covariance) if self.criterion == "A" else np.linalg.slogdet(covariance)[1])

    def sigma(self, labelling: FloatArray, between: FloatArray) -> FloatArray:
        """Return Sigma, n times the covariance of the scores, from the labelling covariance V and B; (K, K) all."""
        if self.earlier is None:
            return between + labelling
        if self.counts is not None:
            return between * (self.share or 1.0) + labelling
        if self.share is not None:
            return (1 - self.share) ** 2 * self.earlier + self.share**2 * (between + labelling)
        beyond = self._beyond(self.earlier, between)
        weight = labelling @ _inverse(beyond + labelling)
        return between + symmetric(beyond @ weight.T + weight @ self.dependence @ weight.T)

    def sigma_without_plan(self, between: FloatArray) -> FloatArray | None:
        """Return Sigma, (K, K), from the earlier labels alone; None without any."""
        if self.earlier is None or self.counts is not None or self.share is not None:
            return self.earlier
        return between + self._beyond(self.earlier, between) + self.dependence

    def metric(self, labelling: FloatArray, between: FloatArray) -> FloatArray:
        """Return the derivative of the objective by the labelling covariance, (K, K)."""
        rows = self.rows
        metric = rows.T @ rows
        if self.criterion == "D":
            inverse = symmetric(np.asarray(np.linalg.inv(rows @ self.sigma(labelling, between) @ rows.T)))
            metric = np.asarray(rows.T @ inverse @ rows)
        if self.earlier is None or self.counts is not None:
            return metric
        if self.share is not None:
            return self.share**2 * metric
        # Sigma changes by G' dV G with this slope G, and with the weight of dependent labels.
        beyond = self._beyond(self.earlier, between)
        inverse = _inverse(beyond + labelling)
        slope = inverse @ beyond
        of_weight = inverse @ self.dependence @ inverse @ labelling @ metric @ slope.T
        return np.asarray(slope @ metric @ slope.T + of_weight + of_weight.T)

    def _beyond(self, earlier: FloatArray, between: FloatArray) -> FloatArray:
        """Return the part of the fit's covariance beyond B that independent labels would have, (K, K)."""
        # By chance the fit's covariance may be smaller than B in a direction. There the fit's labels count as free of
        # noise.
        return of_eigenvalues(symmetric(earlier - self.dependence - between), partial(np.maximum, 0.0))


def criterion_rows(kind: str, targets: Targets, gauge: FloatArray) -> FloatArray:
    """Return L, the coefficients of the combinations of scores whose covariance the criterion is about, (J, K).

    For "D" the rows are linearly independent, and no combination of them is fixed by the functional.
    """
    rows, labels = targets
    free = free_basis(gauge, rows.shape[1])
    if not len(rows):
        return np.eye(rows.shape[1]) if kind == "A" else free.T
    # The contrasts in coordinates of the combinations that the functional does not fix.
    free_rows = rows @ free
    constant = np.linalg.norm(free_rows, axis=1) <= 1e-9 * np.linalg.norm(rows, axis=1)
    if constant.any():
        raise HypothesisError(
            f"contrast {labels[int(np.argmax(constant))]!r} has a value that the functional fixes; leave it out"
        )
    if kind == "A":
        return rows
    # Some contrasts may follow from others, as one of the three differences of three models follows from the other two.
    # Their covariance has the determinant zero. The criterion takes a basis of the contrasts in their place.
    _, size, directions = np.linalg.svd(free_rows, full_matrices=False)
    return np.asarray(directions[size > 1e-9 * size[0]] @ free.T)


def of_eigenvalues(matrix: FloatArray, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return a symmetric matrix with a function of its eigenvalues in their place."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * function(values)) @ vectors.T)


def symmetric(matrix: FloatArray) -> FloatArray:
    """Return the mean of a matrix and its transpose."""
    return np.asarray((matrix + matrix.T) / 2)


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the generalised inverse of a covariance, (K, K), zero where the covariance has no variance."""
    return np.asarray(np.linalg.pinv(matrix, rcond=ROUNDING, hermitian=True), dtype=np.float64)


# --- what a plan is made from, read and checked before anything is computed -------------------------------------------


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
    if not ordered:
        # Other functionals than those of the package and functions of users may read one order alone.
        draws = np.random.default_rng(0).dirichlet(np.ones(mu.shape[3]), size=(1, n_items, n_items))
        draws[:, np.eye(n_items, dtype=bool)] = 0
        if not np.allclose(functional.value(draws), functional.value(in_other_order(draws)), rtol=1e-6, atol=1e-9):
            raise OptionError(
                f"functional {functional.label!r} reads the two display orders of a pair in different ways, and with "
                f"position_bias=False a label is about both; take the mean of both orders, as "
                f"Custom(function) does by itself, or plan with position_bias=True"
            )
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


def check_positive(value: object, option: str) -> float:
    """Return an option that must be positive and finite as a float."""
    return number_in(option, value, lambda x: 0 < x < np.inf, "it must be a positive number")


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
