"""``design_fit``: a plan from the probabilities that a fit predicts, for the prompts of the fit or for new ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.tasks_and_threads import warn
from ..data.arrays import row_slices
from ..data.formula.features import caller_environment, new_features
from ..data.formula.parse import parse_formula
from ..data.frames import column_names, require_columns, take_columns
from ..data.graph import Graph
from ..data.pairs_from_scores import read_scores
from ..data.preferences import FEW_CLUSTERS, FloatArray, IntArray
from ..estimation.cross_fitting import MuSource, distinct_rows
from ..exceptions import DataError, OptionError, listed
from ..fit.estimates import Estimates, collect
from ..fit.estimators import MEANS, options_for
from ..fit.fit_covariance import clustered_covariance
from ..fit.method import run
from ..fit.state import FitState, Source
from ..functionals import BradleyTerry, Functional
from ..inference.covariance import robust
from ..inference.ranks import first_place
from ..inference.simultaneous import MaxT, separate
from ..options import Options
from ..report.phrases import AS_MET, counted, some_of
from .criteria import Goal, of_eigenvalues
from .plan import Plan, specify
from .problem import Computed, Limits, Rows, Tables, VoteProblem
from .reading import rows_of_samples, vote_problem
from .score_plan import ScoreProblem, score_problem
from .solution import labels_before

# Number of probabilities that are predicted at a time, and the largest number that is kept in memory.
_CHUNK_NUMBERS = 2_000_000
STORED_NUMBERS = 50_000_000
# Smallest propensity of a plan of grades, as a share of the mean, and the least gain for which it prefers prompts.
_LEAST_GRADED, _LEAST_GAIN = 0.25, 0.05
_OF_ARENA = "Votes count as in an arena, and the plan is for the leader against its rivals; contrasts= asks for others."
_UNMET = (
    "No votes compare {pairs}: labels of a pair without votes are planned with the learner's prediction from others, "
    "which no vote has checked; plan again after the first of them."
)
# Weight of such a pair, as a share of that of a vote.
_NEXT_TO_NOTHING = 1e-6
# Held during predictions of a learner that must not run in several threads at once.
_ONE_AT_A_TIME = Lock()


# The prompts that a plan from a fit is for: tables of probabilities, (g, K, K, C), the table of each prompt, (n,), and
# the other columns of samples, with identifiers as index.
Prompts: TypeAlias = tuple[Tables, IntArray, pd.DataFrame]


def design_table(table: pd.DataFrame, goal: Goal, limits: Limits, candidate: str | None) -> Plan:
    """Return the plan of runs from the scores of earlier models, a row per prompt and a column per model."""
    prompt = "prompt" if table.index.name is None else str(table.index.name)
    if prompt in ("model", "score"):
        raise DataError(
            f"the index of the table is named {prompt!r}, as a column of the runs is; give it the name of the prompts: "
            f"table.rename_axis('prompt')"
        )
    n_missing = int(table.isna().to_numpy().sum())
    if n_missing:
        raise DataError(
            f"{n_missing:,} of {table.size:,} scores of the table are missing; leave out prompts or models (dropna)"
        )
    n, names = table.shape[0], [str(name) for name in table.columns]
    rows = {prompt: np.repeat(table.index, len(names)), "model": np.tile(names, n), "score": table.to_numpy().ravel()}
    # The folds in which scores are predicted are always dealt alike: the plan depends on the table alone.
    of_fit = Options.of({"context": prompt, "rng": 0})
    formula = "score ~ 1 | model"
    data = read_scores(formula, pd.DataFrame(rows), context=(prompt,), run=None)
    steps = run(options_for(data, of_fit, {}), Source(formula, data, caller_environment({}, depth=0)))
    return design_fit(collect(steps, ()), steps, None, goal, limits, candidate is None, candidate=candidate)


def design_fit(
    estimates: Estimates,
    steps: FitState,
    newdata: object,
    goal: Goal,
    limits: Limits,
    from_scratch: bool,
    candidate: str | None,
) -> Plan:
    """Return the plan for the prompts of a fit, or for the new prompts in ``newdata``."""
    is_arena = goal.of_all_scores and goal.criterion == "A" and _is_arena(steps)
    goal = replace(goal, top=1) if is_arena else goal
    above = _above(estimates, goal.top, from_scratch)
    apart = () if above is None else estimates.description.models_apart
    goal = replace(
        goal,
        scores=estimates.estimate,
        sign=estimates.sign,
        above=above,
        aside=np.flatnonzero(np.isin(estimates.names, apart)),
        fit=estimates.covariance,
        alpha=estimates.alpha,
        seed=estimates.description.seed,
    )
    if steps.estimator is MEANS:
        if newdata is not None:
            raise OptionError(
                "newdata= is for votes; a plan for scores is for the prompts of the fit, or with from_scratch=True for "
                "as many of the same kind. For others, run all models on them and fit the rows of all prompts"
            )
        of_scores, goal = score_problem(estimates, steps, goal, limits, candidate, from_scratch)
        return specify(of_scores, goal, limits) if steps.grades is None else _plan_of_grades(of_scores, goal, limits)
    if candidate is not None:
        raise OptionError("candidate= is a model of a plan for means of scores, and these data are votes; leave it out")
    if not steps.estimator.has_first_stages:
        raise OptionError(
            f"estimator={estimates.estimator!r} has no probabilities of every pair; fit with estimator='debiased'"
        )
    if estimates.extrapolation:
        warn(
            f"{estimates.diagnostics.pairs_extrapolated:,} pairs were never compared: the plan rests on extrapolated "
            f"probabilities, and leaves out the fit's labels"
        )
    if is_arena and goal.above is not None:
        placed = np.setdiff1d(np.arange(len(estimates.models)), goal.aside)
        leader = placed[np.argmax(estimates.merit[placed])]
        rivals = placed[placed != leader]
        if goal.above[leader, rivals].all():
            goal = replace(goal, top=None, contrasts=[(estimates.models[leader], estimates.models[j]) for j in rivals])
    functional, unmet = _with_pairs_asked(steps, goal, estimates)
    problem = _problem_of_fit(steps, functional, estimates.scale.factor, newdata, limits)
    if newdata is not None:
        # A constant that the fit adds to its scores, such as 1000 Elo points, is not added to the means of F(mu).
        goal = replace(goal, plugin=estimates.plugin - estimates.scale.shift)
    if not from_scratch and estimates.has_intervals and (newdata is None or not problem.fixed_prompts):
        n = problem.n_contexts
        goal = replace(
            goal,
            earlier=estimates.covariance.matrix * n,
            share=None if newdata is None else n / (n + steps.data.n_contexts),
            dependence=dependence_in_clusters(estimates, steps) * n,
        )
    counts, present, by_counts = None, steps.setup.functional.edge_weights, steps.setup.weighting == "counts"
    if by_counts and isinstance(problem.functional, BradleyTerry) and present is not None:
        counts = np.zeros_like(present) if goal.earlier is None else present
        # Where a pair has a label for every prompt, no propensity says what further labels add.
        smallest = problem.smallest_propensity(limits)
        counts = counts if labels_before(problem, counts).max() + smallest < 1 else None
    doubts = [_OF_ARENA] * is_arena + [_UNMET.format(pairs=some_of(unmet))] * bool(unmet)
    doubts += _doubts(estimates, steps, goal, has_votes=newdata is None, weights_held=by_counts and counts is None)
    if counts is not None and goal.earlier is not None and goal.dependence.any():
        doubts.append("What the dependence of the fit's votes in clusters adds to standard errors is left out.")
    goal = replace(goal, counts=counts, remarks=tuple(doubts), predict=partial(_predict, steps))
    return specify(problem, goal, limits)


def _plan_of_grades(problem: ScoreProblem, goal: Goal, limits: Limits) -> Plan:
    """Return a plan of what people grade next: by residual deviation where this pays, and at random elsewhere."""
    if limits.min_propensity is None:
        limits = replace(limits, min_propensity=_LEAST_GRADED * problem.uniform(limits.budget))
    at_random = replace(
        problem,
        mu=np.sqrt(np.square(problem.mu).mean(axis=0)) * np.ones_like(problem.mu),
        single_run=problem.single_run.mean(axis=0) * np.ones_like(problem.mu),
    )
    plans = specify(problem, goal, limits), specify(at_random, goal, limits)
    gain = 1 - np.sqrt(plans[0].objective / plans[1].objective)
    if pays := gain >= _LEAST_GAIN:
        remark = f"Standard errors are {100 * gain:.0f} % smaller than with random prompts."
    else:
        remark = "Prompts are drawn at random: to prefer those that are hard to predict would gain less than 5 %."
    plan = plans[0] if pays else plans[1]
    return replace(plan, goal=replace(plan.goal, remarks=(*plan.goal.remarks, remark)))


def _is_arena(steps: FitState) -> bool:
    """Return whether the fit has the options of ``pairs="arena"``."""
    pairs, functional = steps.options.pairs, steps.setup.functional
    has_options = pairs.edge_weights == "counts" and pairs.min_labels == 1 and not steps.data.ordered
    is_bt = isinstance(functional, BradleyTerry) and steps.estimator.has_first_stages and steps.first.mean is None
    return has_options and is_bt


def _with_pairs_asked(steps: FitState, goal: Goal, estimates: Estimates) -> tuple[Functional, list[str]]:
    """Return the functional with the pairs of contrasts that have no votes, and these pairs.

    Such a pair may get labels where pairs are weighted by counts; elsewhere it would change what the scores are.
    """
    functional, names = steps.setup.functional, list(estimates.models)
    if steps.setup.weighting != "counts" or not isinstance(functional, BradleyTerry) or functional.edge_weights is None:
        return functional, []
    rows, _ = goal.contrasts_of(names, estimates.estimate)
    pairs = [np.flatnonzero(row) for row in rows if (row != 0).sum() == 2 and row.sum() == 0]
    edges, weights = steps.setup.graph.edges.copy(), functional.edge_weights.copy()
    unmet = [(int(j), int(k)) for j, k in pairs if not weights[j, k] > 0]
    for j, k in unmet:
        edges[j, k] = edges[k, j] = True
        weights[j, k] = weights[k, j] = _NEXT_TO_NOTHING
    if unmet:
        functional = BradleyTerry(functional.weights, Graph(edges), weights, functional.apart)
    return functional, [f"{names[j]} with {names[k]}" for j, k in unmet]


def _problem_of_fit(
    steps: FitState, functional: Functional, unit: float, newdata: object, limits: Limits
) -> VoteProblem:
    """Return the problem of the labels of the prompts of a fit, or of new ones."""
    data, weights = steps.data, steps.units.context_weight
    if newdata is not None and weights is not None:
        raise OptionError("weights= of the fit are not known for new prompts; leave out newdata=")
    tables, row, contexts = _own_prompts(steps) if newdata is None else _new_prompts(steps, newdata)
    if np.prod(tables.shape, dtype=float) <= STORED_NUMBERS:
        # Larger tables are predicted anew in every pass.
        stored = np.empty(tables.shape)
        for part in row_slices(len(tables), int(np.prod(tables.shape[1:])), _CHUNK_NUMBERS):
            stored[part] = tables[part]
        tables = stored
    formula = parse_formula(steps.source.formula)
    if steps.first.mean is not None:
        if newdata is not None:
            raise OptionError(
                "newdata= has no meaning for average='preferences'; leave it out, or plan with update(average='scores')"
            )
        functional = steps.first.mean.score
    return vote_problem(
        functional,
        tables,
        row,
        limits,
        is_restricted=steps.estimator.needs_all_propensities,
        ordered=data.ordered,
        weights=weights,
        floor=float(steps.first.inputs.floor),
        fixed_prompts=steps.options.prompts == "fixed",
        unit=unit,
        models=tuple(data.items),
        contexts=contexts,
        columns=(formula.first, formula.second),
    )


def dependence_in_clusters(estimates: Estimates, steps: FitState) -> FloatArray:
    """Return what the dependence of votes in a cluster adds to the covariance of the scores, (K, K)."""
    units, gauge = steps.units, steps.setup.functional.gauge(len(estimates.models)).basis
    if units.clusters is None:
        return np.zeros_like(estimates.covariance.matrix)
    clustered = clustered_covariance(steps.influence, gauge, units.clusters, units.annotator)
    added = (clustered.matrix - robust(steps.influence, gauge).matrix) * estimates.scale.factor**2
    return of_eigenvalues(added, partial(np.maximum, 0.0))


def _doubts(estimates: Estimates, steps: FitState, goal: Goal, *, has_votes: bool, weights_held: bool) -> Iterator[str]:
    """Yield why labels may be less precise than a plan predicts or than they could be."""
    is_bt = isinstance(steps.setup.functional, BradleyTerry) and steps.first.mean is None
    n_doubts = len(estimates.diagnostics.doubts)
    if n_doubts and estimates.has_intervals:
        warned = counted(n_doubts, "warning")
        yield f"The fit's intervals may not hold for these data ({warned} of the fit), nor may this plan."
    n = steps.data.n_contexts
    if has_votes and n <= FEW_CLUSTERS and steps.options.prompts == "random":
        yield f"The plan is for further labels on the same {n} prompts, which say little about others."
    if has_votes:
        yield (
            "The prompts have votes already, and labels of the same prompt are taken as independent given its "
            "features: standard errors are larger where prompts favour models in other ways."
        )
    if is_bt and steps.setup.weighting == "equal" and not goal.of_all_scores:
        yield (
            "Pairs have equal weights, so that a difference rests on labels of all pairs of both models; a fit with "
            f"pairs=Pairs(edge_weights='counts') needs fewer labels for a few differences, but asks {AS_MET}."
        )
    if estimates.diagnostics.second_order_treatment != "left in":
        name, _, own_error = estimates.diagnostics.largest_second_order
        yield (
            f"Standard errors of a later fit are larger: the plan leaves out the error of the second-order bias that "
            f"is removed (in this fit {own_error:.2f} standard errors for {name})."
        )
    if weights_held:
        yield "Weights of pairs are held at the present counts of labels; a later fit counts the new ones, too."


def _above(estimates: Estimates, top: int | None, from_scratch: bool) -> NDArray[np.bool_] | None:
    """Return which models the fit shows to be above which others, (K, K), where the contrasts depend on it."""
    if top is None or not estimates.has_intervals or not estimates.of_models:
        return None
    if top == 1 and from_scratch:
        # The new labels alone have to decide it, against every other model.
        return None
    simultaneous = MaxT(estimates.covariance, estimates.description.seed)
    separation = separate(estimates.estimate, simultaneous, estimates.alpha, estimates.sign)
    few = np.isin(estimates.models, estimates.description.models_apart)
    first = first_place(estimates.estimate, simultaneous, separation, estimates.sign, few)
    if top != 1 or first is None:
        return separation.above
    above = np.zeros_like(separation.above)
    above[first.leader, first.others] = first.p <= first.alpha
    return above


def _own_prompts(steps: FitState) -> Prompts:
    """Return the prompts of the fit, with out-of-fold probabilities."""
    data, sources = steps.data, [repetition.inputs.mu for repetition in steps.repetitions]
    # Each repetition has a source of probabilities, which yields the contexts in parts. A part holds different tables
    # of probabilities, and ``part.place`` is the number of each context's table within the part. ``groups`` numbers
    # the tables of all parts. Contexts with equal numbers in every repetition have equal probabilities.
    groups = np.empty((data.n_contexts, len(sources)), dtype=np.intp)
    for number, source in enumerate(sources):
        first = 0
        for part in source.parts(data.n_contexts):
            groups[part.contexts, number] = first + part.place
            first += int(part.place.max(initial=-1)) + 1
    _, contexts, row = np.unique(groups, axis=0, return_index=True, return_inverse=True)
    if len(contexts) == data.n_contexts:
        contexts = row = np.arange(data.n_contexts)
    shape = (data.n_items, data.n_items, data.n_categories)
    tables = Computed((len(contexts), *shape), partial(_out_of_fold, sources, contexts, data.n_contexts, shape))
    return tables, row.reshape(-1), rows_of_samples(data.context_ids, steps.options.context or ("context",))


def _out_of_fold(
    sources: Sequence[MuSource], contexts: IntArray, n_contexts: int, shape: tuple[int, ...], rows: Rows
) -> FloatArray:
    """Return out-of-fold probabilities of some of the contexts, (b, K, K, C): means over repetitions."""
    chosen = contexts[rows]
    place = np.full(n_contexts, -1)
    place[chosen] = np.arange(len(chosen))
    # In memory the numbers of a category are next to each other, as in the blocks.
    mean = np.moveaxis(np.zeros((shape[-1], len(chosen), *shape[:-1])), 0, -1)
    for source in sources:
        for fold_part in source.parts(max(1, len(chosen)), place >= 0):
            with nullcontext() if fold_part.concurrent else _ONE_AT_A_TIME:
                for block, probabilities in fold_part.blocks():
                    inside = (fold_part.place >= block.start) & (fold_part.place < block.stop)
                    of_contexts = probabilities[fold_part.place[inside] - block.start]
                    mean[place[fold_part.contexts[inside]]] += of_contexts / len(sources)
    return mean


def _new_prompts(steps: FitState, newdata: object) -> Prompts:
    """Return new prompts; prompts with equal features share a table of probabilities."""
    data, columns = steps.data, column_names(newdata)
    require_columns(data.feature_map.variables, columns, "newdata")
    # New prompts without the identifying columns are numbered.
    id_columns = steps.options.context if set(steps.options.context) <= set(columns) else ()
    frame = take_columns(newdata, list(dict.fromkeys([*data.feature_map.variables, *id_columns])))
    x = new_features(data.feature_map, frame, keep_missing=steps.options.missing == "keep")
    if len(id_columns) == 1:
        values: Sequence[object] = frame[id_columns[0]].tolist()
    else:
        values = list(frame[list(id_columns)].itertuples(index=False, name=None)) if id_columns else range(len(x))
    if len(set(values)) < len(values):
        raise DataError(f"newdata has several rows with the same {listed(id_columns)}; drop the repeated rows")
    first_context, row = distinct_rows(x, np.arange(len(x)))
    sources = [repetition.inputs.mu for repetition in steps.repetitions]
    shape = (len(first_context), data.n_items, data.n_items, data.n_categories)
    tables = Computed(shape, partial(_at_features, sources, x[first_context]))
    return tables, row, rows_of_samples(values, id_columns or ("row",))


def _at_features(sources: Sequence[MuSource], x: FloatArray, rows: Rows) -> FloatArray:
    """Return probabilities of some of the new contexts, (b, K, K, C): means over all learners."""
    with _ONE_AT_A_TIME:
        return np.asarray(np.mean([source.average(x[rows]) for source in sources], axis=0))


def _predict(steps: FitState, newdata: object) -> FloatArray:
    """Return probabilities of new prompts, (n, K, K, C)."""
    tables, row, _ = _new_prompts(steps, newdata)
    return tables[slice(0, len(tables))][row]
