"""``design``: a plan of labels from probabilities, or of runs from the scores of earlier models."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .._utils.argument_checks import check_whole, checked, number_in
from .._utils.tasks_and_threads import Report, computing_with, one_thread
from ..data.columns import align_by_index, align_pairs_by_name
from ..data.graph import Graph
from ..data.hypotheses import HypothesisLike
from ..exceptions import OptionError, check_choice
from ..fit.compared_pairs import bind_functional
from ..fit.estimators import estimator_named
from ..functionals import Borda, CategoryWeights, Functional
from ..functionals.linear_scores import MeanScore
from ..nuisance.outcome_model.user_learners import check_mu
from ..options import PROMPTS
from .criteria import Goal
from .from_fit import design_table
from .plan import Plan, specify
from .problem import Limits
from .reading import mu_array, read_category_weights, read_graph, read_names, rows_of_samples, vote_problem

# The options of a plan of labels alone.
_OF_VOTES = ("estimator", "position_bias", "category_weights", "graph", "edge_weights", "weights", "floor", "prompts")


@checked
def design(
    mu: ArrayLike | pd.DataFrame,
    functional: str | Functional = "borda",
    *,
    budget: float,
    estimator: str = "debiased",
    criterion: str = "A",
    contrasts: HypothesisLike | None = None,
    top: int | None = None,
    against: str | None = None,
    costs: ArrayLike = 1.0,
    min_propensity: float | None = None,
    one_pair: bool = False,
    explore: float = 0.0,
    candidate: str | None = None,
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
    progress: bool | Report = False,
) -> Plan:
    """Choose which pairs to label on which prompts, so that a budget leads to the most precise scores.

    Labels of one prompt are assumed to be independent given its features x; where they are not, as where one annotator
    labels several pairs of it, standard errors may be larger than predicted.

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
        keeps the array itself, not a copy. Or a frame, (n, K), with the scores of earlier models, a row for each prompt
        and a column for each model: the plan is then for runs of models on these prompts, of all models in a round of
        its own, or of ``candidate``. It takes ``budget``, ``contrasts``, ``top``, ``against``, ``costs`` and
        ``min_propensity``, as the ``design`` of a fit of scores does.
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
        hypotheses that :meth:`RankResults.t_test` reads, such as ``["a - b", "a - c"]`` or a matrix (J, K).
    top : int, optional
        In place of contrasts: the plan is for all differences among so many best models, and those that decide which
        these are where a fit leaves it open; 1: who is first.
    against : str, optional
        In place of contrasts: the plan is for the differences between this model and each of the others.
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
    candidate : str, optional
        With a frame of scores: the name of a model without a score, which the plan runs.
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
        alone ("fixed"; not for a table of scores).
    floor : float
        Smallest probability of a category for functionals with a logit or a division. Smaller values of ``mu`` are
        clipped at the floor.
    models, contexts : sequences, optional
        Names of the K models and identifiers of the n contexts, in the order of ``mu``; numbered when None.
    n_jobs : int, optional
        Number of threads; all cores when None.
    progress : bool or callable
        Whether progress is reported, as for :func:`dml_rank`.

    Returns
    -------
    Plan
        The optimal propensities, their cost and the precision that they lead to.

    References
    ----------
    Frauen et al., arXiv 2601.21816, [P thrm:allocation], [P thrm:allocation_D], [P thm:allocation_onehot0].

    Examples
    --------
    >>> import dmlrank as dr
    >>> ties = dr.datasets.Ties()
    >>> x = ties.features(500, rng=0)
    >>> plan = dr.design(ties.mu(x), "bt", budget=600, models=ties.models)
    >>> round(plan.expected_cost), plan.objective < plan.uniform_objective
    (600, True)
    >>> plan.sample(rng=0).columns.tolist()
    ['context', 'model_a', 'model_b', 'propensity']
    """
    arguments, parameters = locals(), inspect.signature(design).parameters
    goal, limits = Goal(criterion, contrasts, top, against), Limits(budget, costs, min_propensity, one_pair, explore)
    if isinstance(mu, pd.DataFrame):
        given = [
            f"{name}=" for name in (*_OF_VOTES, "models", "contexts") if arguments[name] is not parameters[name].default
        ]
        if given or functional not in ("borda", MeanScore.name):
            raise OptionError(
                f"{', '.join(given) or 'functional='} belongs to a plan of labels, not of runs; leave it out"
            )
        with one_thread(), computing_with(n_jobs, progress):
            return design_table(mu, goal, limits, candidate)
    if candidate is not None:
        raise OptionError("candidate= is a model of a plan of runs, made from a frame of scores; leave it out")
    check_choice(prompts, PROMPTS, "prompts")
    check_choice(estimator, ("debiased", "bt_restricted"), "estimator")
    if n_jobs is not None:
        check_whole("n_jobs", n_jobs, 1)
    table = mu_array(mu)
    n_contexts, n_items, _, n_categories = table.shape
    allowed = f"at least 0 and below {1 / n_categories:.4g}, since {n_categories} probabilities sum to one"
    floor = number_in("floor", floor, lambda x: 0 <= x * n_categories < 1, f"it must be a number of {allowed}")
    numbered = [f"model_{j:0{len(str(n_items - 1))}d}" for j in range(n_items)]
    texts = [str(name) for name in read_names(models, n_items, "models", numbered)]
    names = read_names(texts, n_items, "models", numbered)
    rows = rows_of_samples(read_names(contexts, n_contexts, "contexts", range(n_contexts)), ("context",))
    check_mu(table, names, list(rows.index), position_bias)
    if isinstance(functional, str) and functional == Borda.name:
        functional = estimator_named(estimator).functional(functional)
    # The functional checks its edge weights.
    edges: Any = align_pairs_by_name(edge_weights, names, name="edge_weights")
    bound = bind_functional(
        functional,
        read_category_weights(category_weights, n_categories),
        read_graph(align_pairs_by_name(graph, names, name="graph"), n_items),
        edge_weights=edges,
        ordered=position_bias,
    )
    problem = vote_problem(
        bound,
        table,
        np.arange(n_contexts),
        limits,
        is_restricted=estimator == "bt_restricted",
        ordered=position_bias,
        weights=align_by_index(weights, rows.index, name="weights", of="the contexts"),
        floor=floor,
        fixed_prompts=prompts == "fixed",
        models=tuple(names),
        contexts=rows,
        columns=("model_a", "model_b"),
    )
    with one_thread(), computing_with(n_jobs, progress):
        return specify(problem, goal, limits)
