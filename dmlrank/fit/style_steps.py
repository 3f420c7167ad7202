"""The steps of a fit with ``adjust=EqualStyle(...)``: rows of votes, first stages, and joint estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters
from ..data.style_differences import StyleDifferences
from ..estimation.equal_style import EqualStyleTerms, StyleInfluence
from ..estimation.influence import Influence, InfluenceBlocks, InfluenceFunction, mean_influence
from ..functionals.linear_scores import LinkedScore
from ..nuisance.propensity_model.estimate import Propensity
from ..nuisance.style import StyleRows, fit_style_stages
from ..nuisance.training_rows import Folds
from .estimand import Setup
from .fit_covariance import make_covariance
from .style_estimates import StyleFit


def equal_style_terms(
    data: PreferenceData,
    setup: Setup,
    differences: StyleDifferences,
    *,
    propensity: Propensity,
    folds: Folds,
    blocks: InfluenceBlocks,
    clusters: Clusters | None,
    annotator: IntArray | None,
    context_weight: FloatArray | None,
) -> EqualStyleTerms:
    """Fit the first stages of scores at equal style, and return the terms of the one-step estimates.

    Shapes: annotator (q,), context_weight (n,).
    """
    link = LinkedScore.of(setup.functional, data.n_items, data.ordered)
    vote_group = None if annotator is None or clusters is None else clusters.of_vote
    block = _block_of_votes(data, blocks, annotator, vote_group)
    rows = _style_rows(data, link, differences, propensity=propensity.cells, fold=folds.fold, block=block)
    stages = fit_style_stages(rows, link, data.x, fold=folds.fold, seed_order=data.seed_order)
    weight = np.ones(data.n_contexts) if context_weight is None else context_weight
    return EqualStyleTerms.of(link, stages, rows, blocks, weight / weight.mean())


def _block_of_votes(
    data: PreferenceData, blocks: InfluenceBlocks, annotator: IntArray | None, vote_group: IntArray | None
) -> IntArray:
    """Return the influence block of every vote, (v,).

    Shapes: annotator (q,), vote_group (v,).
    """
    context = data.cells.context[data.vote_cell]
    if annotator is None or vote_group is None:
        return context
    n_groups = int(annotator.max()) + 2
    code = blocks.context * n_groups + annotator + 1
    order = np.argsort(code)
    return order[np.searchsorted(code[order], context * n_groups + vote_group + 1)]


def _style_rows(
    data: PreferenceData,
    link: LinkedScore,
    differences: StyleDifferences,
    *,
    propensity: FloatArray,
    fold: IntArray,
    block: IntArray,
) -> StyleRows:
    """Return the votes as rows, sorted by context.

    Shapes: propensity (m,), fold (n,), block (v,).
    """
    cell, cells, y = data.vote_cell, data.cells, link.preference(data.vote_y)
    keys = (y, *differences.values.T, cells.second[cell], cells.first[cell], data.seed_order[cells.context[cell]])
    vote = np.lexsort(keys)
    cell = cell[vote]
    return StyleRows(
        context=cells.context[cell],
        block=block[vote],
        first=cells.first[cell],
        second=cells.second[cell],
        share=1 / cells.n_votes[cell],
        propensity=propensity[cell],
        style=differences.values[vote],
        y=y[vote],
        fold=fold[cells.context[cell]],
    )


def influence_at_equal_style(terms: EqualStyleTerms) -> StyleInfluence:
    """Return the influence of the estimates of one repetition."""
    return terms.influence()


def joint_style_fit(
    differences: StyleDifferences,
    by_repetition: tuple[EqualStyleTerms, ...],
    raw: tuple[InfluenceFunction, ...],
    adjusted: tuple[StyleInfluence, ...],
    *,
    setup: Setup,
    clusters: Clusters | None,
    annotator: IntArray | None,
    prompts: str,
    uniform_covariance: FloatArray | None,
) -> StyleFit:
    """Return the joint estimates of raw, averaged and equal scores and slopes, with their covariance.

    Shapes: annotator (q,), uniform_covariance (K, K).
    """
    stacked = [_stack(one.by_context(), other) for one, other in zip(raw, adjusted, strict=True)]
    influence = mean_influence(stacked)
    n_slopes = len(differences.names)
    n_items = (influence.n_scores - n_slopes) // 3
    gauge = style_gauge(setup, n_slopes, influence.n_scores)
    addition = None
    if uniform_covariance is not None:
        addition = np.zeros((influence.n_scores,) * 2)
        addition[: 3 * n_items, : 3 * n_items] = np.tile(uniform_covariance, (3, 3))
    covariance = make_covariance(
        influence,
        gauge,
        clusters,
        annotator=annotator,
        fixed_prompts=prompts == "fixed",
        estimates=np.stack([one.estimate for one in stacked]) if len(stacked) > 1 else None,
        uniform_covariance=addition,
    )
    return StyleFit(differences, by_repetition, influence.estimate, covariance)


def style_gauge(setup: Setup, n_slopes: int, n_estimates: int) -> FloatArray:
    """Return the gauge of raw, averaged and equal scores and slopes, (3 g, 3 K + r): each score vector has its own."""
    basis = setup.functional.gauge((n_estimates - n_slopes) // 3).basis
    return np.hstack([np.kron(np.eye(3), basis), np.zeros((3 * len(basis), n_slopes))])


def _stack(raw: Influence, adjusted: StyleInfluence) -> Influence:
    """Return the influence of raw, averaged and equal scores and slopes as one influence."""
    parts: Sequence[Influence] = (raw, adjusted.averaged, adjusted.equal, adjusted.slopes)
    n_scores = sum(part.n_scores for part in parts)
    variance_correction = None
    if raw.variance_correction is not None:
        variance_correction = np.zeros((n_scores, n_scores))
        variance_correction[: raw.n_scores, : raw.n_scores] = raw.variance_correction
    return replace(
        raw,
        value=np.hstack([part.value for part in parts]),
        correction=np.hstack([part.correction for part in parts]),
        variance_correction=variance_correction,
    )
