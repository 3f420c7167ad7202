"""Scores at equal style (:mod:`dmlrank.estimation.equal_style`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .._utils.tasks_and_threads import warn
from ..data.preferences import FloatArray, IntArray
from ..data.style_columns import StyleDifferences
from ..estimation.influence import Influence, mean_influence
from ..exceptions import DataError, IntervalWarning
from ..functionals.linear_scores import LinkedScore
from .compared_pairs import Setup
from .fit_covariance import make_covariance
from .state import Inputs, Repetition, StyleEstimates

if TYPE_CHECKING:
    from ..estimation.equal_style import EqualStyleTerms

# Log-odds that are hardly learnt, and shares of the variation of a style column in votes with larger ones: of slopes
# that may be infinite, and of slopes that are too small. Smallest share of the variation left by models and features.
# benchmarks/studies/style_limits.py has what they find.
_EDGE, _DECIDED, _SATURATED, _LEAST_LEFT = 4.0, 0.95, 0.5, 0.05


def equal_style_terms(
    inputs: Inputs, differences: StyleDifferences, propensity: FloatArray, fold: IntArray
) -> EqualStyleTerms:
    """Fit the first stages of scores at equal style on rows of votes; return terms of the one-step estimates."""
    from ..estimation.equal_style import EqualStyleTerms
    from ..nuisance.style import StyleRows, fit_style_stages

    data, units, cells, style = inputs.data, inputs.units, inputs.data.cells, differences.values
    link = LinkedScore(inputs.setup.functional, data.n_items, data.ordered)
    y, cell, context = link.preference(data.vote_y), data.vote_cell, cells.context[data.vote_cell]
    # Rows are sorted by context, and do not depend on the order of the votes.
    vote = np.lexsort((y, *style.T, cells.second[cell], cells.first[cell], data.seed_order[context]))
    block = context
    if units.annotator is not None and units.clusters is not None and units.clusters.of_vote is not None:
        # The influence block of a vote is that of its context and annotator.
        n_groups = int(units.annotator.max()) + 2
        code = units.blocks.context * n_groups + units.annotator + 1
        order = np.argsort(code)
        block = order[np.searchsorted(code[order], context * n_groups + units.clusters.of_vote + 1)]
    cell, context = cell[vote], context[vote]
    rows = StyleRows(
        context=context,
        block=block[vote],
        first=cells.first[cell],
        second=cells.second[cell],
        share=1 / cells.n_votes[cell],
        propensity=propensity[cell],
        style=style[vote],
        y=y[vote],
        fold=fold[context],
    )
    stages = fit_style_stages(rows, link, data.x, fold=fold, seed_order=data.seed_order)
    weight = units.weights(data)
    return EqualStyleTerms.of(link, stages, rows, units.blocks, weight / weight.mean())


def joint_style_fit(
    inputs: Inputs, repetitions: Sequence[Repetition], fixed_prompts: bool, unanimous_covariance: FloatArray | None
) -> StyleEstimates:
    """Return joint estimates of raw scores, averaged scores, scores at equal style and slopes."""
    differences, stacked = inputs.style, list[Influence]()
    assert differences is not None
    for r in repetitions:
        raw, style = r.one_step_result.target.by_context(), r.style_influence
        assert style is not None, "a fit at equal style has the influence of its scores in every repetition"
        joint, n_items = stacked_estimates((raw, style.averaged, style.equal, style.slopes)), raw.n_scores
        if raw.variance_correction is not None:
            variance_correction = np.zeros((joint.n_scores, joint.n_scores))
            variance_correction[:n_items, :n_items] = raw.variance_correction
            joint = replace(joint, variance_correction=variance_correction)
        stacked.append(joint)
    influence, added = mean_influence(stacked), None
    if unanimous_covariance is not None:
        # A label that had another category would move raw, averaged and equal scores together.
        added = np.zeros((influence.n_scores,) * 2)
        added[: 3 * n_items, : 3 * n_items] = np.tile(unanimous_covariance, (3, 3))
    gauge = style_gauge(inputs.setup, len(differences.names), influence.n_scores)
    estimates = np.stack([one.estimate for one in stacked])
    covariance = make_covariance(influence, gauge, inputs.units, fixed_prompts, estimates, unanimous_covariance=added)
    by_repetition = tuple(r.style_terms for r in repetitions if r.style_terms is not None)
    # Slopes may be far off, or infinite.
    terms = by_repetition[0]
    at_edge = terms.share_at_edge(_EDGE) if terms.link.is_logit else np.zeros(len(differences.names))
    left = np.diag(terms.relative(terms.means().variance))
    for name, share, variation in zip(differences.names, at_edge, left, strict=True):
        if share > _DECIDED:
            raise DataError(
                f"{share:.0%} of the variation of style column {name!r} is in votes that are almost sure, so that its "
                f"slope may be infinite; use functional='borda', or leave the column out"
            )
        if share > _SATURATED:
            warn(
                f"{share:.0%} of the variation of style column {name!r} is in votes whose fitted log-odds are beyond "
                f"+-{_EDGE:g}: its slope is probably too small, and its interval too short; use functional='borda'",
                kind=IntervalWarning,
            )
        if variation < _LEAST_LEFT:
            warn(
                f"given model and features, {variation:.1%} of the variation of style column {name!r} is left: its "
                f"slope may be far off; leave the column out if models and features determine it",
                kind=IntervalWarning,
            )
    return StyleEstimates(
        differences.names,
        differences.deviations,
        inputs.data.n_votes,
        estimate=influence.estimate,
        covariance=covariance,
        log_loss=float(np.mean([one.stages.log_loss for one in by_repetition])),
        log_loss_without=float(np.mean([one.stages.log_loss_without for one in by_repetition])),
    )


def stacked_estimates(parts: Sequence[Influence]) -> Influence:
    """Return the influence of several vectors of estimates as one influence, without a variance correction."""
    value, correction = (np.hstack([getattr(part, name) for part in parts]) for name in ("value", "correction"))
    return replace(parts[0], value=value, correction=correction, variance_correction=None)


def style_gauge(setup: Setup, n_slopes: int, n_estimates: int) -> FloatArray:
    """Return the gauge of raw, averaged and equal scores and slopes, (3 g, 3 K + r): each score vector has its own."""
    basis = setup.functional.gauge((n_estimates - n_slopes) // 3).basis
    return np.hstack([np.kron(np.eye(3), basis), np.zeros((3 * len(basis), n_slopes))])
