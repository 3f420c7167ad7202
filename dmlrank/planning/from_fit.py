"""A plan from a fit: the probabilities that it predicts, for its own prompts or for new ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._utils.warning_collection import warn
from ..data.formula.features import new_features
from ..data.formula.parse import parse_formula
from ..data.frames import column_names, require_columns, take_columns
from ..data.preferences import FloatArray
from ..exceptions import DataError, OptionError, listed
from ..fit.estimates import Estimates
from ..fit.state import Steps
from .design import PlannedFit, bound_graph, specify
from .earlier_labels import EarlierLabels
from .plan import Plan
from .specification import PlanNames
from .validate import PlanOptions

# Doubles of a chunk of probabilities.
_CHUNK = 2_000_000


def design_fit(
    estimates: Estimates, steps: Steps, newdata: object, options: PlanOptions, from_scratch: bool = False
) -> Plan:
    """The plan for a fit's prompts, or for new ones where ``newdata`` is a frame of them.

    Its labels are added to those of the fit, unless it is ``from_scratch``.
    """
    if not steps.estimator.has_first_stages:
        raise OptionError(
            "design needs probabilities of every pair on every prompt, which estimator='bt_mle' has none of; "
            "update(estimator='debiased') fits them"
        )
    if estimates.extrapolation:
        warn(
            f"the plan counts on probabilities of pairs that were never compared "
            f"({estimates.diagnostics.pairs_extrapolated:,} pairs), which are the learner's guess, and on none of the "
            f"fit's labels; regret() says what wrong probabilities cost",
            stacklevel=3,
        )
    fit_options, functional = steps.options, steps.setup.functional
    columns = fit_options.context or ("context",)
    weight = None
    if newdata is None:
        mu, ids, weight = _own_mu(steps), steps.data.context_ids, steps.context_weight
    elif steps.context_weight is not None:
        raise OptionError(
            "this fit has weights=, which new prompts do not have; plan for its own prompts (newdata=None)"
        )
    else:
        mu, ids, columns = _new_mu(steps, newdata)
    formula = parse_formula(steps.source.formula)
    specification = specify(
        functional,
        mu,
        PlanNames(steps.data.items, ids, columns, formula.first, formula.second),
        bound_graph(functional, steps.data.n_items),
        options,
        position_bias=steps.data.ordered,
        weights=weight,
        prompts=fit_options.prompts,
        floor=steps.repetitions[0].floor,
        n_jobs=fit_options.n_jobs,
        estimator=steps.estimator.plan_estimator,
        fit=PlannedFit(
            estimate=estimates.estimate,
            plugin=None if newdata is None else estimates.plugin - estimates.scale.shift,
            unit=estimates.scale.factor,
            earlier=None if from_scratch else _earlier_labels(estimates, len(ids), newdata is None),
            alpha=estimates.alpha,
            seed=estimates.description.seed,
            predict=lambda frame: _new_mu(steps, frame)[0],
        ),
    )
    return Plan.within(specification, options.budget)


def _earlier_labels(estimates: Estimates, n_contexts: int, own_prompts: bool) -> EarlierLabels | None:
    """What the fit's labels know of the scores that the plan is for; None where that is nothing."""
    if not estimates.has_intervals:
        return None
    if not own_prompts and estimates.description.prompts == "fixed":
        # The scores of the new prompts alone, on which the fit has no label.
        return None
    return EarlierLabels(estimates.covariance.matrix * n_contexts, own_prompts)


def _own_mu(steps: Steps) -> FloatArray:
    """Out-of-fold probabilities of the fit's prompts, (n, K, K, C), the mean over repetitions."""
    data = steps.data
    mu = np.zeros((data.n_contexts, data.n_items, data.n_items, data.n_categories))
    size = max(1, _CHUNK // int(np.prod(mu.shape[1:])))
    for repetition in steps.repetitions:
        for contexts, table in repetition.mu.chunks(size):
            mu[contexts] += table / len(steps.repetitions)
    return mu


def _new_mu(steps: Steps, newdata: object) -> tuple[FloatArray, NDArray[np.object_], tuple[str, ...]]:
    """Probabilities and identifiers of new prompts, from the mean of all learners, and the identifying columns."""
    feature_map, known = steps.data.feature_map, column_names(newdata)
    require_columns(feature_map.variables, known, "newdata")
    # New prompts without the identifying columns are numbered.
    named = steps.options.context if set(steps.options.context) <= set(known) else ()
    table = take_columns(newdata, list(dict.fromkeys([*feature_map.variables, *named])))
    x = new_features(feature_map, table, keep_missing=steps.options.missing == "keep")
    ids = np.empty(len(x), dtype=object)
    if len(named) == 1:
        ids[:] = table[named[0]].tolist()
    elif named:
        ids[:] = list(table[list(named)].itertuples(index=False, name=None))
    else:
        ids[:] = range(len(x))
    if len(set(ids.tolist())) < len(ids):
        raise DataError(f"newdata: {listed(named)} names a prompt more than once; a plan needs a row per prompt")
    made = np.empty((len(x), steps.data.n_items, steps.data.n_items, steps.data.n_categories))
    size = max(1, _CHUNK // int(np.prod(made.shape[1:])))
    for at in range(0, len(x), size):
        part = x[at : at + size]
        made[at : at + size] = np.mean([r.mu.average(part) for r in steps.repetitions], axis=0)
    return made, ids, named or ("row",)
