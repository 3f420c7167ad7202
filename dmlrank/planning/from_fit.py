"""``design_fit``: a plan from the probabilities that a fit predicts, for the prompts of the fit or for new ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._utils.computation import warn
from ..data.formula.features import new_features
from ..data.formula.parse import parse_formula
from ..data.frames import column_names, require_columns, take_columns
from ..data.preferences import FloatArray, IntArray
from ..estimation.cross_fitting import MuSource, distinct_rows
from ..exceptions import DataError, OptionError, listed
from ..fit.compared_pairs import finite_table
from ..fit.estimates import Estimates
from ..fit.estimators import MEANS
from ..fit.state import FitState
from ..functionals.linear_scores import Linearised
from ..inference.ranks import first_place
from ..inference.simultaneous import MaxT, separate
from ..report.statements import counted
from .allocation import Computed, Rows
from .design import problem_of, specify
from .plan import Plan
from .plan_options import PlanOptions, Top, read_context_weights, read_costs
from .problem import Pairs, PlanNames, Tables
from .score_plan import design_scores
from .search import EarlierLabels, solve

# Number of probabilities that are predicted at a time, and the largest number that is kept in memory.
_CHUNK_NUMBERS = 2_000_000
STORED_NUMBERS = 50_000_000
# Number of labels of a pair whose floor changes no probability that a learner predicts.
_MANY_LABELS = 1_000_000
# Held during predictions of a learner that must not run in several threads at once.
_ONE_AT_A_TIME = Lock()


class Prompts(NamedTuple):
    """The prompts that a plan from a fit is for, with identifiers, (n,), and the columns that hold these.

    tables (g, K, K, C), row (n,): Tables of probabilities, which prompts may share, and the table of each prompt.
    """

    tables: Tables
    row: IntArray
    identifiers: NDArray[np.object_]
    columns: tuple[str, ...]


def design_fit(
    estimates: Estimates,
    steps: FitState,
    newdata: object,
    options: PlanOptions,
    from_scratch: bool = False,
    *,
    candidate: str | None = None,
    stored_numbers: int = STORED_NUMBERS,
) -> Plan:
    """Return the plan for the prompts of a fit, or for the new prompts in ``newdata``."""
    if steps.estimator is MEANS:
        if newdata is not None:
            raise OptionError(
                "newdata= is for votes; a plan for scores is for the prompts of the fit: it adds runs to theirs, or "
                "with from_scratch=True plans runs of all models on as many prompts of the same kind"
            )
        above = _above(estimates, options)
        return design_scores(estimates, steps, options, above, candidate=candidate, from_scratch=from_scratch)
    if candidate is not None:
        raise OptionError("candidate= is a model of a plan for means of scores, and these data are votes; leave it out")
    if not steps.estimator.has_first_stages:
        raise OptionError(
            f"estimator={estimates.estimator!r} has no cross-fitted probabilities of every pair on every prompt, which "
            f"a plan needs; fit with estimator='debiased'"
        )
    if estimates.extrapolation:
        warn(
            f"{estimates.diagnostics.pairs_extrapolated:,} pairs were never compared, so that the learner extrapolates "
            f"their probabilities; the plan depends on these probabilities, and its predicted standard errors do not "
            f"take account of the fit's labels",
        )
    weights, mean, functional = steps.units.context_weight, steps.first.mean, steps.setup.functional
    if newdata is not None and weights is not None:
        raise OptionError(
            "this fit has weights=, which are not known for new prompts; leave out newdata= to plan for the prompts of "
            "the fit"
        )
    prompts = _own_prompts(steps) if newdata is None else _new_prompts(steps, newdata)
    tables, row, n_contexts = prompts.tables, prompts.row, len(prompts.row)
    if np.prod(tables.shape, dtype=float) <= stored_numbers:
        # Larger tables are predicted anew in every pass.
        stored = np.empty(tables.shape)
        for part in _chunks(tables):
            stored[part] = tables[part]
        tables = stored
    if mean is not None:
        functional = mean.score if newdata is None else _linearised_at(steps, tables, row)
    pairs = Pairs.of(functional, len(steps.data.items), steps.data.ordered)
    problem = problem_of(steps.estimator.plan_estimator)(
        functional=functional,
        mu=tables,
        row=row,
        floor=float(steps.repetitions[0].floor),
        pairs=pairs,
        cost=read_costs(options.costs, pairs, n_contexts),
        one_pair=bool(options.one_pair),
        context_weight=read_context_weights(weights, n_contexts),
        fixed_prompts=steps.options.prompts == "fixed",
        unit=estimates.scale.factor,
    )

    # The scores are the fit's estimates, for new prompts plus the difference of the means of F(mu): the bias of mu is
    # assumed to be the same on the new prompts as on the fit's. A constant that the fit adds to its scores, such as
    # 1000 Elo points, is not added to the means of F(mu).
    estimate, plugin = estimates.estimate, estimates.plugin - estimates.scale.shift
    earlier = None
    if not from_scratch and estimates.has_intervals and (newdata is None or steps.options.prompts == "random"):
        share = None if newdata is None else n_contexts / (n_contexts + steps.data.n_contexts)
        earlier = EarlierLabels(estimates.covariance.matrix * n_contexts, share)
    formula = parse_formula(steps.source.formula)
    names = PlanNames(steps.data.items, prompts.identifiers, prompts.columns, formula.first, formula.second)

    def scores_of(mean: FloatArray) -> FloatArray:
        return estimate if newdata is None else estimate + mean - plugin

    specification = specify(problem, options, names, scores_of, _above(estimates, options))
    remarks = [*_doubts(estimates, steps, has_votes=newdata is None), specification.remark]
    specification = replace(
        specification,
        remark=" ".join(filter(None, remarks)),
        predict=partial(_predict, steps),
        earlier=earlier,
        alpha=estimates.alpha,
        seed=estimates.description.seed,
    )
    return Plan(specification, solve(specification, options.budget))


def _doubts(estimates: Estimates, steps: FitState, *, has_votes: bool) -> Iterator[str]:
    """Yield why labels may be less precise than a plan predicts; ``has_votes``: the plan's prompts are the fit's."""
    n_doubts = len(estimates.diagnostics.doubts)
    if n_doubts and estimates.has_intervals:
        say = "says" if n_doubts == 1 else "say"
        yield (
            f"The fit's intervals may not hold for these data ({counted(n_doubts, 'warning')} of the fit {say} why), "
            f"and what this plan predicts may not hold either."
        )
    if has_votes:
        yield (
            "The prompts have votes already, and labels of the same prompt are taken as independent given its "
            "features: where prompts favour models in ways that features do not tell, standard errors will be larger "
            "than predicted."
        )
    if steps.setup.edge_weights == "counts":
        yield (
            "Weights of pairs are held at the present counts of labels. A later fit with edge_weights='counts' counts "
            "the new labels, too: if only a few differences matter, labels on these pairs alone may then make them "
            "more precise than this plan does."
        )


def _above(estimates: Estimates, options: PlanOptions) -> NDArray[np.bool_] | None:
    """Return which models the fit shows to be above which others, (K, K), where the contrasts depend on it."""
    if not isinstance(options.contrasts, Top) or not estimates.has_intervals or not estimates.of_models:
        return None
    simultaneous = MaxT(estimates.covariance, estimates.description.seed)
    separation = separate(estimates.estimate, simultaneous, estimates.alpha)
    first = first_place(estimates.estimate, simultaneous, separation)
    if options.contrasts.count > 1 or first is None:
        return separation.above
    above = np.zeros_like(separation.above)
    above[first.leader, first.others] = first.p <= first.alpha
    return above


def _chunks(tables: Tables) -> list[slice]:
    """Return ranges of tables with about two million probabilities each."""
    size = max(1, _CHUNK_NUMBERS // int(np.prod(tables.shape[1:])))
    return [slice(start, start + size) for start in range(0, len(tables), size)]


def _linearised_at(steps: FitState, tables: Tables, row: IntArray) -> Linearised:
    """Return the functional of mean preferences, linearised at the mean over new prompts, (n,)."""
    share, total = np.bincount(row, minlength=len(tables)) / len(row), np.zeros(tables.shape[1:])
    for part in _chunks(tables):
        total += np.tensordot(share[part], tables[part], 1)
    # Predicted probabilities are finite; the floor for many labels only keeps log-odds from overflowing.
    many_labels = np.full(total.shape[:2], _MANY_LABELS)
    finite = finite_table(total, many_labels, steps.setup, steps.options.floor)
    return Linearised.at(steps.setup.functional, finite.table)


def _own_prompts(steps: FitState) -> Prompts:
    """Return the prompts of the fit, with out-of-fold probabilities."""
    data, sources = steps.data, [repetition.mu for repetition in steps.repetitions]
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
    return Prompts(tables, row.reshape(-1), data.context_ids, steps.options.context or ("context",))


def _out_of_fold(
    sources: Sequence[MuSource], contexts: IntArray, n_contexts: int, shape: tuple[int, ...], rows: Rows
) -> FloatArray:
    """Return out-of-fold probabilities of some of the contexts, (b, K, K, C): means over repetitions."""
    chosen = contexts[rows]
    place = np.full(n_contexts, -1)
    place[chosen] = np.arange(len(chosen))
    mean = np.zeros((len(chosen), *shape))
    for source in sources:
        for fold_part in source.parts(max(1, len(chosen)), place >= 0):
            with nullcontext() if fold_part.concurrent else _ONE_AT_A_TIME:
                probabilities = fold_part.probabilities()[fold_part.place]
            mean[place[fold_part.contexts]] += probabilities / len(sources)
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
        raise DataError(
            f"newdata has several rows with the same {listed(id_columns)}; a plan needs one row per prompt: drop the "
            f"repeated rows"
        )
    first_context, row = distinct_rows(x, np.arange(len(x)))
    sources = [repetition.mu for repetition in steps.repetitions]
    shape = (len(first_context), data.n_items, data.n_items, data.n_categories)
    tables = Computed(shape, partial(_at_features, sources, x[first_context]))
    return Prompts(tables, row, np.fromiter(values, object, len(x)), id_columns or ("row",))


def _at_features(sources: Sequence[MuSource], x: FloatArray, rows: Rows) -> FloatArray:
    """Return probabilities of some of the new contexts, (b, K, K, C): means over all learners."""
    with _ONE_AT_A_TIME:
        return np.asarray(np.mean([source.average(x[rows]) for source in sources], axis=0))


def _predict(steps: FitState, newdata: object) -> FloatArray:
    """Return probabilities of new prompts, (n, K, K, C)."""
    prompts = _new_prompts(steps, newdata)
    return prompts.tables[slice(0, len(prompts.tables))][prompts.row]
