"""Means of the scores of a contextual Bradley-Terry model over groups of contexts, and projections of the scores.

The scores r(x) are linear in the model's coefficients, which are estimated from the labels in all contexts. Labels
therefore contribute to the scores of every group, also of groups to which their contexts do not belong.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FloatArray
from ..estimation.bt_mle import ContextualBradleyTerryFit
from ..estimation.influence import GroupParts, Influence, InfluenceInGroups, ProjectedInfluence, project_influence
from .scores_in_groups import GroupScores
from .state import FitSteps


def likelihood_scores_in_groups(steps: FitSteps, members: NDArray[np.bool_]) -> GroupScores:
    """Return the scores of groups of contexts, the means of r(x) over the contexts of each group.

    Shapes: members (G, n).
    """
    influence, n = steps.influence.by_context(), steps.data.n_contexts
    derivative = _contextual_fit(steps).mean_derivative(rows_of_groups(steps, members))
    corrections = _corrections(steps, derivative).reshape(len(influence.block_context), len(members), -1)

    # The values r(x) are averaged over the contexts of the group, and the corrections over all contexts. An
    # ``Influence`` with ``sample_weight`` computes these two averages.
    def part_of(group: int) -> Influence:
        inside = members[group]
        return replace(influence, correction=corrections[:, group], sample_weight=inside * (n / inside.sum()))

    parts = GroupParts(part_of, len(members))
    contexts, blocks = np.arange(n), np.arange(len(influence.block_context))
    in_groups = InfluenceInGroups(
        parts, (contexts,) * len(parts), (blocks,) * len(parts), n, len(influence.block_context)
    )
    return GroupScores(in_groups, np.stack([part.plugin for part in parts]))


def project_likelihood(
    steps: FitSteps, influence: Influence, design: FloatArray, *, fixed_prompts: bool, factor: float
) -> ProjectedInfluence:
    """Regress the scores r(x) on functions v of the context: beta = E[v v']^-1 E[v r(X)'].

    Shapes: design (n, P).
    """
    of_prompts = project_influence(influence.without_correction(), design, fixed_prompts, with_blocks=False)
    derivative = _contextual_fit(steps).mean_derivative(rows_of_design(steps, design))
    correction = factor * _corrections(steps, derivative)
    centred = of_prompts.centred.copy()
    np.add.at(centred, steps.blocks.context, correction)
    return replace(of_prompts, centred=centred, centred_correction=correction, block_context=steps.blocks.context)


def rows_of_groups(steps: FitSteps, members: NDArray[np.bool_]) -> FloatArray:
    """Return the mean in each group, (G, p + 1), of the constant and the scaled features."""
    z = _contextual_fit(steps).z(steps.data.x)
    return np.asarray(members @ z / members.sum(axis=1, keepdims=True), dtype=np.float64)


def rows_of_design(steps: FitSteps, design: FloatArray) -> FloatArray:
    """Return the coefficients of the constant and the scaled features on functions of the context, (P, p + 1)."""
    z = _contextual_fit(steps).z(steps.data.x)
    return np.asarray(np.linalg.solve(design.T @ design, design.T @ z), dtype=np.float64)


def likelihood_uniform_covariance_of_rows(steps: FitSteps, rows: FloatArray) -> FloatArray | None:
    """Return the covariance of scores, (P K, P K), that is added for pairs whose labels all agree (uniform pairs).

    Without such pairs the function returns None. The scores are those at several values of z, one in each row.

    Shapes: rows (P, p + 1).
    """
    if steps.uniform is None:
        return None
    fitted = _contextual_fit(steps)
    return steps.uniform.covariance_along(
        partial(fitted.changes, fitted.mean_derivative(rows), steps.setup.weights.first)
    )


def _contextual_fit(steps: FitSteps) -> ContextualBradleyTerryFit:
    """Return the contextual model of a fit."""
    assert isinstance(steps.likelihood, ContextualBradleyTerryFit)
    return steps.likelihood


def _corrections(steps: FitSteps, derivative: FloatArray) -> FloatArray:
    """Return the influence values of targets that come from the labels, (q, d)."""
    return _contextual_fit(steps).corrections(
        derivative, steps.data, steps.setup.weights.first, edges=steps.setup.graph.edges, blocks=steps.blocks
    )
