"""How much each label contributes to the error of the scores, and uniform pairs, whose labels all agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .._utils.warning_collection import warn
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters
from ..estimation.bt_mle import BradleyTerryFit, ContextualBradleyTerryFit
from ..estimation.influence import JudgeCorrection, OneStepResult
from ..estimation.unanimous_pairs import LabelErrors, UnanimousPairs, find_unanimous_pairs
from ..exceptions import listed
from ..inference.covariance import Covariance
from ..nuisance.propensity_model.estimate import Propensity
from .estimand import Setup
from .state import FitSteps

# A fit warns where more than this share of a score's variance was added for uniform pairs.
_LARGE_SHARE = 0.5
# Names that a warning lists at most.
_MOST_NAMED = 5
# Numerical tolerance for "all labels agree".
_TOLERANCE = 1e-9
_WON, _LOST, _TIED = "won all their votes", "lost all their votes", "tied in all their votes"


def one_step_uniform_pairs(
    data: PreferenceData,
    setup: Setup,
    one_step_results: Sequence[OneStepResult],
    propensities: Sequence[Propensity],
    *,
    corrections: Sequence[JudgeCorrection | None],
    clusters: Clusters | None,
    context_weight: FloatArray | None,
) -> UnanimousPairs | None:
    """Find the uniform pairs of a fit with first stages; None where there are no such pairs.

    Shapes: context_weight (n,).
    """
    pi = [propensity.cells for propensity in propensities]
    errors = one_step_label_errors(
        data, one_step_results, pi, corrections=corrections, clusters=clusters, context_weight=context_weight
    )
    return find_unanimous_pairs(errors, data, setup.weights, setup.graph.edges)


def one_step_label_errors(
    data: PreferenceData,
    one_step_results: Sequence[OneStepResult],
    pi: Sequence[FloatArray],
    *,
    corrections: Sequence[JudgeCorrection | None],
    clusters: Clusters | None,
    context_weight: FloatArray | None,
) -> LabelErrors:
    """Return the contribution of every label to the error of a one-step estimate, averaged over repetitions.

    The contribution of a label has as factors its weight and its residual, the label less its expected value.

    Shapes: pi (m,), context_weight (n,).
    """
    cells, expected = data.cells, []
    for result, correction in zip(one_step_results, corrections, strict=True):
        mu = result.cell_mu
        if correction is not None:
            mu = np.where((correction.label >= 0)[:, None], correction.m[correction.label], mu)
        expected.append(mu)
    weight = _mean_of([1 / propensity for propensity in pi]) / data.n_contexts
    if context_weight is not None:
        weight = weight * context_weight[cells.context]
    return LabelErrors(
        cells=cells,
        weight=weight,
        mu=_mean_of([result.cell_mu for result in one_step_results]),
        residual=cells.y - _mean_of(expected),
        unit=cells.context if clusters is None else clusters.of_context[cells.context],
        n_units=data.n_contexts if clusters is None else len(np.unique(clusters.of_context)),
        other_unit=_crossed_cluster(data, clusters),
    )


def _mean_of(arrays: Sequence[FloatArray]) -> FloatArray:
    """Return the mean of arrays of the same shape; a single array is returned as it is, not copied."""
    return arrays[0] if len(arrays) == 1 else np.mean(arrays, axis=0)


def _crossed_cluster(data: PreferenceData, clusters: Clusters | None) -> IntArray | None:
    """Return the cluster of each labelled cell, (m,), in the second of two crossed groupings; None without one."""
    if clusters is None or len(clusters.names) < 2:
        return None
    if clusters.of_vote is None:
        return None if clusters.second_of_context is None else clusters.second_of_context[data.cells.context]
    annotator = np.full(len(data.cells), clusters.of_vote.max(), dtype=np.intp)
    np.minimum.at(annotator, data.vote_cell, clusters.of_vote)
    return annotator


def likelihood_uniform_pairs(
    data: PreferenceData,
    setup: Setup,
    likelihood: BradleyTerryFit | ContextualBradleyTerryFit,
    *,
    clusters: Clusters | None,
) -> UnanimousPairs | None:
    """Find the uniform pairs of a fit by maximum likelihood; None where there are no such pairs.

    Labels are weighted by their votes, not by propensities, and both orders of a pair are one pair.
    """
    if setup.weights.mirrored:
        data = data.unordered()
    cells = data.cells
    won = likelihood.cell_probabilities(data)
    mu = np.column_stack([won, 1 - won, np.zeros((len(won), data.n_categories - 2))])
    errors = LabelErrors(
        cells=cells,
        weight=cells.n_votes.astype(float),
        mu=mu,
        residual=cells.y - mu,
        unit=cells.context if clusters is None else clusters.of_context[cells.context],
        other_unit=_crossed_cluster(data, clusters),
    )
    return find_unanimous_pairs(errors, data, setup.weights, setup.graph.edges)


def uniform_covariance_by_column(steps: FitSteps, design: FloatArray) -> FloatArray | None:
    """Return the covariance of a projection's coefficients that is added for uniform pairs.

    Shapes: design (n, P), returns (P K, P K).
    """
    if bool(np.isin(design, (0.0, 1.0)).all() and (design.sum(axis=1) == 1).all()):
        return uniform_covariance_by_group(steps, design.T > 0)
    if steps.uniform is None:
        return None
    errors = _label_errors(steps)
    weight = np.ones(len(design)) if steps.context_weight is None else steps.context_weight
    gram = design.T @ (weight[:, None] * design) / len(design)
    factor = np.asarray(np.linalg.solve(gram, design.T).T, dtype=np.float64)
    cell_factor = factor[errors.cells.context] * errors.weight[:, None]
    cell_moment = cell_factor.T @ cell_factor / np.square(errors.weight).sum()
    return np.kron(cell_moment, steps.uniform.covariance(steps.setup.functional, steps.first.floor))


def _label_errors(steps: FitSteps) -> LabelErrors:
    """Return the contribution of every label to the error of the scores, averaged over repetitions."""
    return one_step_label_errors(
        steps.data,
        [r.one_step_result for r in steps.repetitions],
        [r.propensity.cells for r in steps.repetitions],
        corrections=[r.judge_correction for r in steps.repetitions],
        clusters=steps.clusters,
        context_weight=steps.context_weight,
    )


def uniform_covariance_by_group(steps: FitSteps, members: NDArray[np.bool_]) -> FloatArray | None:
    """Return the covariance of the scores by group, (G K, G K), that is added for uniform pairs: one block per group.

    Where groups overlap, a uniform pair of their common contexts also moves the scores of both groups together. This
    part is left out, so that differences between overlapping groups have errors that are not too small.

    Shapes: members (G, n), returns (G K, G K).
    """
    errors = _label_errors(steps)
    weight = np.ones(steps.data.n_contexts) if steps.context_weight is None else steps.context_weight
    n_groups, size = len(members), len(steps.influence.estimate)
    total, any_uniform = np.zeros((n_groups, size, n_groups, size)), False
    for g, inside in enumerate(members):
        factor = 1 / float((weight * inside).mean())
        group_errors = errors.only(inside[errors.cells.context], factor)
        group_errors = replace(group_errors, n_units=errors.n_units * inside.mean())
        pairs = find_unanimous_pairs(group_errors, steps.data, steps.setup.weights, steps.setup.graph.edges)
        if pairs is not None:
            any_uniform = True
            total[g, :, g, :] = pairs.covariance(steps.setup.functional, steps.first.floor)
    return total.reshape(n_groups * size, n_groups * size) if any_uniform else None


def warn_of_uniform_pairs(
    data: PreferenceData,
    setup: Setup,
    uniform: UnanimousPairs | None,
    *,
    uniform_covariance: FloatArray | None,
    covariance: Covariance,
) -> None:
    """Warn where a model won or lost all its votes, or most of a variance was added for uniform pairs.

    Shapes: uniform_covariance (d, d).
    """
    if uniform is None or uniform_covariance is None:
        return
    variances = np.square(covariance.std_errors)
    is_mostly_added = np.diag(uniform_covariance) > _LARGE_SHARE * np.where(variances > 0, variances, np.inf)
    models = one_sided_models(data, setup)
    if not is_mostly_added.any() and not any(models.values()):
        return
    names = listed((f"{data.items[j]} - {data.items[k]}" for j, k in uniform.pairs), _MOST_NAMED)
    clauses = [f"{listed(names_of, _MOST_NAMED)} {outcome}" for outcome, names_of in models.items() if names_of]
    clauses.append(f"on {len(uniform.pairs)} of {setup.graph.n_edges} compared pairs all labels agree ({names})")
    limit = ""
    if not setup.functional.linear and (models[_WON] or models[_LOST]):
        limit = (
            " The log-odds of a model that won or lost all its votes have no finite limit, so that the distance of its "
            "score from the others depends on the floor of the predicted probabilities; functional='borda' needs no "
            "floor."
        )
    warn(
        f"labels without variation: {'; '.join(clauses)}. The variance of such labels cannot be estimated from "
        f"them. Standard errors therefore assume that up to 3 of n labels could have been different (the rule of "
        f"three).{limit} Collect more votes on these pairs for smaller standard errors",
        stacklevel=2,
    )


def one_sided_models(data: PreferenceData, setup: Setup) -> dict[str, list[str]]:
    """Return the models that won, lost or tied all their votes on compared pairs.

    The keys are the words of the warning: "won all their votes", "lost all their votes" and "tied in all their votes".
    """
    cells, is_edge = data.cells, setup.graph.edges[data.cells.first, data.cells.second]
    cells = cells if is_edge.all() else cells.only(is_edge)
    gap = cells.y @ np.subtract(setup.weights.first, setup.weights.second)
    lowest, highest = np.full(data.n_items, np.inf), np.full(data.n_items, -np.inf)
    for item, item_gap in ((cells.first, gap), (cells.second, -gap)):
        np.minimum.at(lowest, item, item_gap)
        np.maximum.at(highest, item, item_gap)
    is_one_sided = {
        _WON: lowest > 1 - _TOLERANCE,
        _LOST: highest < -1 + _TOLERANCE,
        _TIED: np.maximum(-lowest, highest) < _TOLERANCE,
    }
    return {outcome: [data.items[j] for j in np.flatnonzero(mask)] for outcome, mask in is_one_sided.items()}
