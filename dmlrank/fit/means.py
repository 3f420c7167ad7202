"""A fit without first stages: means of scores over prompts."""

from __future__ import annotations

import numpy as np

from .._utils.computation import warn
from ..data.derived_pairs import DerivedPairs
from ..data.graph import Graph
from ..data.preferences import FloatArray, PreferenceData
from ..data.runs import ScoreTable
from ..estimation.diagnostics import FEW_UNLIKE, effective_contexts, warn_of_few_prompts
from ..estimation.influence import Influence
from ..exceptions import DataError, IntervalWarning, MissingDataError, listed
from ..functionals import CategoryWeights
from ..functionals.mean_score import MeanScore
from .estimand import Setup
from .fit_covariance import make_covariance
from .stages import FirstStages, read_units
from .state import FitState


def run_means(stages: FirstStages, data: PreferenceData) -> FitState:
    """Carry out a fit of means of scores.

    The score of model j is the mean over prompts of Y_ij, the mean score of its runs on prompt i. Its influence value
    is Y_ij less the score, so that the covariance of all scores, and of their differences, is that of paired data.

    First stages of an earlier fit are kept: an update that changes the functional back uses them again.
    """
    options, scores, source = stages.options, data.scores, stages.source.data
    assert scores is not None
    assert isinstance(source, DerivedPairs)
    _require_complete(scores, data)
    weights, graph = CategoryWeights.for_categories(data.categories, "half"), Graph.all_pairs(data.n_items)
    setup = Setup(MeanScore(number=source.number), weights, graph, "equal", 0)
    units = read_units(data, stages.source, options, None)
    n = data.n_contexts
    influence = Influence(
        value=scores.mean,
        correction=np.zeros((n, data.n_items)),
        block_context=np.arange(n),
        block_weight=np.ones(n),
        weight=np.ones(n) if units.context_weight is None else units.context_weight,
    )
    covariance = make_covariance(influence, setup.functional.gauge(data.n_items).basis, units, fixed_prompts=False)
    warn_of_few_prompts(effective_contexts(influence), data.items, n, FEW_UNLIKE, "add prompts")
    constant = [name for name, error in zip(data.items, covariance.std_errors, strict=True) if not error > 0]
    if constant:
        warn(
            f"the scores of {listed(constant)} are the same on all {n:,} prompts: their standard error is zero, which "
            f"says nothing about further prompts",
            kind=IntervalWarning,
            stacklevel=2,
        )
    return FitState(
        options=options,
        source=stages.source,
        data=data,
        dropped=(),
        setup=setup,
        units=units,
        influence=influence,
        win_share=np.full(data.n_items, np.nan),
        covariance=covariance,
        kept={**stages.earlier, **stages.kept},
    )


def _require_complete(scores: ScoreTable, data: PreferenceData) -> None:
    """Raise where scores are missing, or there is one prompt only."""
    is_missing = np.isnan(scores.mean)
    n_complete = int((~is_missing.any(axis=1)).sum())
    if is_missing.any():
        counts = is_missing.sum(axis=0)
        worst = [f"{data.items[j]} ({counts[j]:,})" for j in np.argsort(-counts, kind="stable") if counts[j]]
        raise MissingDataError(
            f"{int(is_missing.sum()):,} of {is_missing.size:,} scores are missing, of {listed(worst, 5)}; "
            f"{n_complete:,} of {len(is_missing):,} prompts have a score of every model. Means over different prompts "
            f"cannot be compared: restrict to the common prompts (missing='common'), count a missing score as a value "
            f"(missing=0.0), or compare models on the prompts that they share (functional='borda' or 'bt')"
        )
    if len(is_missing) < 2:
        raise DataError("there is one prompt only; a standard error needs at least two")


def variance_from_runs(state: FitState, contrasts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the part of the variance of contrasts of scores that comes from runs, and the variance of one run, (P,).

    The variance of a single run, the second result, is that of the contrast on a prompt with one run of each model,
    averaged over prompts. Where a model has one run on a prompt, its mean variance on other prompts stands in; NaN
    where it has no second run on any prompt.

    Shapes: contrasts (P, K).
    """
    scores = state.data.scores
    assert scores is not None
    weight = np.ones(len(scores.mean)) if state.units.context_weight is None else state.units.context_weight
    is_known = np.isfinite(scores.variance)
    known = np.where(is_known, scores.variance, 0.0)
    mean = np.full(known.shape[1], np.nan)
    np.divide(known.sum(axis=0), is_known.sum(axis=0), out=mean, where=is_known.any(axis=0))
    variance = np.where(is_known, known, mean)
    of_means = np.square(weight) @ (variance / scores.n_runs) / len(weight) ** 2
    of_one_run = np.square(weight) @ variance / len(weight)
    # A model that a contrast leaves out must not make it NaN.
    totals = [np.where(contrasts != 0, np.square(contrasts) * part, 0.0).sum(axis=1) for part in (of_means, of_one_run)]
    return totals[0], totals[1]


def gain_of_runs(state: FitState) -> float | None:
    """Return the share by which unlimited runs would shrink the interval of the first model minus the second one."""
    first, second = np.argsort(-state.influence.estimate, kind="stable")[:2]
    contrast = np.zeros((1, state.data.n_items))
    contrast[0, [first, second]] = 1.0, -1.0
    total = float((contrast @ state.covariance.matrix @ contrast.T)[0, 0])
    of_runs = float(variance_from_runs(state, contrast)[0][0])
    return 1 - float(np.sqrt(max(1 - of_runs / total, 0.0))) if total > 0 and np.isfinite(of_runs) else None
