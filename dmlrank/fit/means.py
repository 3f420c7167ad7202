"""A fit without first stages: means of scores over prompts."""

from __future__ import annotations

import numpy as np

from .._utils.computation import warn
from ..data.derived_pairs import DerivedPairs
from ..data.graph import Graph
from ..data.preferences import PreferenceData
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
