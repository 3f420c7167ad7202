"""``design``: a plan from probabilities. Options are read, and a specification of the plan is made from them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .._utils.argument_checks import check_flag, check_whole, real_number
from .._utils.computation import Report, computing, one_thread
from ..data.columns import align_by_index, align_pairs_by_name
from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from ..exceptions import OptionError, OptionTypeError, check_choice, shown
from ..fit.estimand import bind_functional
from ..fit.estimators import estimator_named
from ..functionals import CategoryWeights, Functional
from ..options import OPTIONS, PROMPTS
from .bt_restricted import RestrictedDesignProblem
from .criteria import EarlierLabels
from .plan import Plan
from .plan_options import (
    ContrastsLike,
    PlanOptions,
    check_mu,
    make_criterion,
    mu_array,
    read_context_weights,
    read_costs,
    read_edge_weights,
    read_graph,
    read_names,
    read_weights,
)
from .problem import DesignProblem, Pairs, SomeTables, Tables
from .rounds import UntilLike, read_until
from .specification import ALPHA, PlanNames, PlanSpecification, solve


def design(
    mu: ArrayLike,
    functional: str | Functional = "borda",
    *,
    budget: float,
    estimator: str = "debiased",
    criterion: str = "A",
    contrasts: ContrastsLike = None,
    costs: ArrayLike = 1.0,
    min_propensity: float | None = None,
    one_pair: bool = False,
    explore: float = 0.0,
    until: UntilLike = None,
    position_bias: bool = True,
    category_weights: str | CategoryWeights | Sequence[Sequence[float]] = "half",
    graph: Graph | ArrayLike | None = None,
    edge_weights: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    prompts: str = "random",
    floor: float = 0.005,
    models: Sequence[str] | None = None,
    contexts: Sequence[Hashable] | None = None,
    n_jobs: int | None = None,
    executor: object = None,
    progress: bool | Report = False,
) -> Plan:
    """Choose which pairs to label on which prompts, so that a budget leads to the most precise scores.

    Labels of one prompt are assumed to be independent given x, the features of the prompt. Where one annotator labels
    several pairs of a prompt, or x leaves out features on which the labels depend, standard errors may be larger than
    predicted.

    The covariance of the debiased estimator is known before there is any label, for any propensities pi of labelling a
    pair: n Cov = Cov F(mu(X)) + E sum_jk M_jk / pi_jk. Here F is the functional, which turns the probabilities mu(X) of
    a prompt X into scores; M_jk = J_jk V_jk J_jk', where J_jk is the derivative of F by the probabilities of the pair
    (j, k), and V_jk is the covariance of a label of this pair. This function minimises the trace of the covariance
    ("A"), its determinant ("D") or the variances of ``contrasts`` over all propensities that the budget can pay. A
    functional that fixes combinations of scores, such as the sum of Bradley-Terry scores, has no variance in these
    combinations; the determinant is that of the other ones.

    Parameters
    ----------
    mu : array, shape (n, K, K, C)
        Probabilities of the categories (first wins, second wins, then ties) when j is shown first and k second: from an
        earlier fit (:meth:`RankResults.design` does this), or from a judge where there is no human label yet. The plan
        keeps the array itself, not a copy.
    functional : {"borda", "bt", "rank_centrality"} or Functional
        The scores that the labels are for, as for :func:`dml_rank`.
    budget : float
        Largest expected cost of all labels together, in the unit of ``costs``.
    estimator : {"debiased", "bt_restricted"}
        The estimator that the labels are for. ``"bt_restricted"`` assumes the Bradley-Terry model (functional "bt",
        wins and losses), in which the information of a label depends on the other labels of its context. Propensities
        are then found by steps that each lower the objective.
    criterion : {"A", "D"}
        The sum of the variances ("A": short intervals), or the log determinant ("D": a small confidence ellipsoid).
    contrasts : optional
        The J combinations of scores that the plan is to estimate precisely, in place of all scores. Allowed are the
        hypotheses that :meth:`RankResults.t_test` reads, such as ``["a - b", "a - c"]`` or a matrix (J, K); ``Top(5)``
        for all differences among the five best models; and ``Against("a")`` for the differences between one model and
        each of the others.
    costs : float or array
        Cost of a label: one number, (n,) by context, (K, K) by pair, or (n, K, K).
    min_propensity : float, optional
        Smallest propensity of a pair of the graph. When None, a tenth of the propensity of the uniform plan, which
        spends the budget on all pairs with the same probability.
    one_pair : bool
        Whether every context gets at most one label.
    explore : float
        Share of the uniform plan that is mixed into the optimal one, as a protection against wrong probabilities. The
        mixture keeps to ``budget`` and ``min_propensity``, too.
    until : str, tuple or list, optional
        A question such as ``"gpt-4 > claude-v1"``, or several, that ends rounds of labelling when a sequential view
        decides it in either direction; see :meth:`Plan.decide`. Without ``contrasts`` the plan is for the differences
        of these models.
    position_bias : bool
        Whether the two display orders of a pair have propensities of their own. False: a pair has one propensity, and
        the model that is shown first is drawn at random. Fit the labels with the same ``position_bias``.
    category_weights : {"half", "paper"}, CategoryWeights or two sequences
        How much each category counts for the first and for the second model.
    graph : Graph or array (K, K) of bool, optional
        The compared pairs, from which the scores are computed; other pairs are not labelled. None: every pair.
    edge_weights : array (K, K), optional
        Weights of the pairs in the scores, as for :func:`dml_rank`.
    weights : array (n,), optional
        Weights of contexts in the target population.
    prompts : {"random", "fixed"}
        Whether the scores are about the population that the prompts are a sample of ("random"), or about these prompts
        alone ("fixed").
    floor : float
        Smallest probability of a category for functionals with a logit or a division. Smaller values of ``mu`` are
        clipped at the floor.
    models, contexts : sequences, optional
        Names of the K models and identifiers of the n contexts, in the order of ``mu``; numbered when None.
    n_jobs : int, optional
        Number of threads; all cores when None.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Workers that pass over the probabilities, as for :func:`dml_rank`. The plan does not depend on them.
    progress : bool or callable
        Whether progress is reported, as for :func:`dml_rank`.

    Returns
    -------
    Plan
        The optimal propensities, their cost and the precision that they lead to.

    Raises
    ------
    OptionError, OptionTypeError
        If an option cannot be used. Where ``min_propensity`` on every pair costs more than the budget, the message says
        the smallest budget that is enough.
    NuisanceError
        If ``mu`` does not hold probabilities.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P thrm:allocation], [P thrm:allocation_D], [P thm:allocation_onehot0].

    Examples
    --------
    >>> import dmlrank as dr
    >>> ties = dr.datasets.Ties()
    >>> x = ties.features(500, rng=0)
    >>> plan = dr.design(ties.mu(x), "bt", budget=600, models=ties.models)
    >>> round(plan.expected_cost), bool((plan.std_errors < plan.uniform_std_errors).all())
    (600, True)
    >>> plan.sample(rng=0).columns.tolist()
    ['context', 'model_a', 'model_b', 'propensity']
    """
    options = PlanOptions(
        budget=budget,
        criterion=criterion,
        contrasts=contrasts,
        costs=costs,
        min_propensity=min_propensity,
        one_pair=one_pair,
        explore=explore,
        until=until,
    )
    check_choice(estimator, ("debiased", "bt_restricted"), "estimator")
    check_flag("position_bias", position_bias)
    table = mu_array(mu)
    names = _read_plan_names(models, contexts, table.shape)
    check_mu(table, names.models, names.contexts, position_bias)
    bound = _bind_functional(
        functional,
        names,
        n_categories=table.shape[3],
        estimator=estimator,
        category_weights=category_weights,
        graph=graph,
        edge_weights=edge_weights,
        ordered=position_bias,
    )
    source = PlanSource(
        functional=bound,
        mu=table,
        names=names,
        position_bias=position_bias,
        weights=align_by_index(weights, pd.Index(names.contexts), name="weights", of="the contexts"),
        prompts=prompts,
        floor=floor,
        estimator=estimator,
    )
    if n_jobs is not None:
        check_whole("n_jobs", n_jobs, 1)
    with one_thread(), computing(n_jobs, executor, progress):
        specification = specify(source, options)
        return Plan(specification, solve(specification, options.budget))


def _bind_functional(
    functional: str | Functional,
    names: PlanNames,
    *,
    n_categories: int,
    estimator: str,
    category_weights: str | CategoryWeights | Sequence[Sequence[float]],
    graph: Graph | ArrayLike | None,
    edge_weights: ArrayLike | None,
    ordered: bool,
) -> Functional:
    """Return the functional with its category weights, graph and edge weights, which are read from the options."""
    if isinstance(functional, str) and functional == OPTIONS["functional"].default:
        functional = estimator_named(estimator).functional(functional)
    n_items, model_names = len(names.models), list(names.models)
    edges = None if edge_weights is None else align_pairs_by_name(edge_weights, model_names, name="edge_weights")
    return bind_functional(
        functional,
        read_weights(category_weights, n_categories),
        read_graph(align_pairs_by_name(graph, model_names, name="graph"), n_items),
        edge_weights=None if edges is None else read_edge_weights(edges, n_items),
        ordered=ordered,
    )


def _read_plan_names(
    models: Sequence[str] | None, contexts: Sequence[Hashable] | None, shape: tuple[int, ...]
) -> PlanNames:
    """Return the names of models and contexts for mu of this shape; they are numbered where the caller gave none."""
    n_contexts, n_items = shape[:2]
    width = len(str(n_items - 1))
    texts = None if models is None else [str(name) for name in read_names(models, n_items, "models", ())]
    names = read_names(texts, n_items, "models", [f"model_{j:0{width}d}" for j in range(n_items)])
    identifiers = np.empty(n_contexts, dtype=object)
    # Entry by entry: numpy would take a list of tuples for a matrix.
    for place, identifier in enumerate(read_names(contexts, n_contexts, "contexts", range(n_contexts))):
        identifiers[place] = identifier
    return PlanNames(tuple(names), identifiers, ("context",), "model_a", "model_b")


@dataclass(frozen=True, slots=True, eq=False)
class PlannedFit:
    """The parts of a fit that a plan for this fit needs.

    estimate (K,): The fit's scores, in the unit in which the fit reports them (such as Elo points).
    plugin (K,): Means of F(mu) over the fit's prompts, times ``unit``. A constant that the fit adds to its scores (such
        as 1000 Elo points) is not added. None where the plan is for the fit's own prompts.
    unit: Factor that turns the values of the functional into the fit's unit, such as Elo points per log-odds.
    earlier: The fit's labels; None for a plan from scratch.
    alpha: One minus the level of the fit's intervals.
    seed: Seed of the draws behind critical values.
    predict: Takes a frame of further contexts and returns their probabilities, (n, K, K, C).
    """

    estimate: FloatArray
    plugin: FloatArray | None
    unit: float
    earlier: EarlierLabels | None
    alpha: float
    seed: int
    predict: Callable[[object], FloatArray]

    def scores(self, mean: FloatArray) -> FloatArray:
        """Return the scores of the plan's prompts, (K,), from the means of F(mu) over these prompts, (K,).

        For the fit's own prompts these are the fit's estimates. Scores of new prompts are the estimates plus the
        difference of the means of F(mu): the bias of mu is assumed to be the same on the new prompts as on the fit's.
        """
        return self.estimate if self.plugin is None else self.estimate + mean - self.plugin


@dataclass(frozen=True, slots=True, eq=False)
class PlanSource:
    """What a plan is made from: probabilities of contexts and the functional whose scores are wanted.

    Contexts with equal probabilities share a row of ``mu``: g rows stand for n contexts.

    functional: Holds its category weights and its graph already.
    mu (g, K, K, C): Checked probabilities.
    position_bias: As for :func:`design`, like the following five.
    row (n,): The row of ``mu`` of each context; None where every context has a row of its own.
    fit: The fit that the plan is for; None for a plan from probabilities alone.
    """

    functional: Functional
    mu: Tables
    names: PlanNames
    position_bias: bool
    weights: ArrayLike | None
    prompts: str
    floor: float
    estimator: str = "debiased"
    row: IntArray | None = None
    fit: PlannedFit | None = None

    def __post_init__(self) -> None:
        floor = self.floor
        check_choice(self.prompts, PROMPTS, "prompts")
        smallest = real_number(floor)
        if smallest is None:
            raise OptionTypeError(
                f"floor={shown(floor)}; it is the smallest probability of a category and must be a number of at least 0"
            )
        if not 0 <= smallest * self.mu.shape[3] < 1:
            raise OptionError(
                f"floor={shown(floor)} with {self.mu.shape[3]} categories; it must be at least 0 and below "
                f"{1 / self.mu.shape[3]:.4g}, since the probabilities of the categories sum to one"
            )


def bound_graph(functional: Functional, n_items: int) -> Graph:
    """Return the pairs that a functional uses: those of its graph with a positive edge weight."""
    graph = functional.graph or Graph.all_pairs(n_items)
    weights = functional.edge_weights
    return graph if weights is None else Graph(graph.edges & (weights > 0))


def specify(source: PlanSource, options: PlanOptions) -> PlanSpecification:
    """Return the specification of a plan (its purpose and its limits); this takes one pass over the probabilities."""
    fit, functional = source.fit, source.functional
    names = replace(source.names, outputs=functional.names(source.names.models))
    scores, between_covariance, problem = _design_problem(source, options).scan()
    if fit is not None:
        scores = fit.scores(scores)
    gauge = functional.gauge(len(names.models)).basis
    questions = read_until(options.until, names.scores)
    wanted = list(questions) if options.contrasts is None and questions else options.contrasts
    criterion, contrasts, labels = make_criterion(options.criterion, wanted, list(names.scores), scores, gauge)
    return PlanSpecification(
        problem=problem,
        criterion=criterion,
        contrasts=contrasts,
        contrast_labels=labels,
        scores=scores,
        between_covariance=between_covariance,
        # The covariance with a label on every pair of every context: all propensities are one.
        full_covariance=problem.labelling_covariance(np.ones((1, 1))),
        gauge=gauge,
        min_propensity=options.min_propensity,
        explore=options.explore,
        names=names,
        predict=None if fit is None else fit.predict,
        earlier=None if fit is None else fit.earlier,
        alpha=ALPHA if fit is None else fit.alpha,
        seed=0 if fit is None else fit.seed,
        questions=questions,
    )


def _design_problem(source: PlanSource, options: PlanOptions) -> DesignProblem:
    """Return the design problem, in which contexts with equal probabilities, weights and costs share a row."""
    # ``row`` is the row of ``mu`` of each context; further below ``mu`` may be regrouped, and ``row`` with it.
    mu, row = source.mu, source.row
    pairs = Pairs.of(bound_graph(source.functional, len(source.names.models)), source.position_bias)
    n_contexts = len(mu) if row is None else len(row)
    cost = read_costs(options.costs, pairs, n_contexts)
    context_weight = read_context_weights(source.weights, n_contexts)
    if row is not None and (len(cost) > 1 or context_weight is not None):
        mu_row, first_context, row = _find_equal_contexts(row, cost, context_weight)
        mu = SomeTables(mu, mu_row)
        cost = cost if len(cost) == 1 else cost[first_context]
        context_weight = None if context_weight is None else context_weight[first_context]
    problem = DesignProblem(
        functional=source.functional,
        mu=mu,
        floor=float(source.floor),
        pairs=pairs,
        cost=cost,
        one_pair=bool(options.one_pair),
        context_weight=context_weight,
        fixed_prompts=source.prompts == "fixed",
        unit=1.0 if source.fit is None else source.fit.unit,
        row=row,
    )
    return RestrictedDesignProblem.of(problem) if estimator_named(source.estimator).needs_all_propensities else problem


def _find_equal_contexts(
    row: IntArray, cost: FloatArray, weight: FloatArray | None
) -> tuple[IntArray, IntArray, IntArray]:
    """Return groups of contexts with equal probabilities, weight and costs.

    Shapes: row (n,), cost (n or 1, m or 1), weight (n,).
    """
    if cost.shape[1] > 1 and len(cost) > 1:
        # Costs by context and pair hardly ever agree in all pairs: every context is a group of its own.
        return row, np.arange(len(row)), np.arange(len(row))
    columns = [row.astype(float), *([cost[:, 0]] if len(cost) > 1 else []), *([] if weight is None else [weight])]
    _, first_context, group = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
    return row[first_context], first_context, group.reshape(-1)
