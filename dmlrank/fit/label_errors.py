"""The labels' part in the error of a fit's estimates, and the uniform pairs among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._utils.warning_collection import warn
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters
from ..estimation.bt_mle import BradleyTerryFit
from ..estimation.nuisance_estimates import JudgeCorrection
from ..estimation.one_step_result import OneStepResult
from ..estimation.uniform_pairs import LabelErrors, UniformPairs, find_uniform_pairs
from ..exceptions import listed
from ..functionals.base import is_linear
from ..inference.covariance import Covariance
from ..nuisance.propensity_model.estimate import Propensity
from .estimand import Setup
from .state import FitSteps

# Share of a variance from which labels without variation decide it.
_NOTABLE = 0.5
_NAMED = 5
_EXACT = 1e-9
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
) -> UniformPairs | None:
    """Compared pairs whose labels all say the same; None where there is none.

    Parameters
    ----------
    data : PreferenceData
    setup : Setup
    one_step_results, propensities, corrections : sequence
        Of each repetition.
    clusters : Clusters or None
    context_weight : ndarray, shape (n,), or None
    """
    pi = [propensity.cells for propensity in propensities]
    errors = one_step_label_errors(
        data, one_step_results, pi, corrections=corrections, clusters=clusters, context_weight=context_weight
    )
    return find_uniform_pairs(errors, data, setup.weights, setup.graph.edges)


def one_step_label_errors(
    data: PreferenceData,
    one_step_results: Sequence[OneStepResult],
    pi: Sequence[FloatArray],
    *,
    corrections: Sequence[JudgeCorrection | None],
    clusters: Clusters | None,
    context_weight: FloatArray | None,
) -> LabelErrors:
    """Return what every label adds to the error of a one-step estimate, a mean over repetitions.

    Parameters
    ----------
    data : PreferenceData
    one_step_results, corrections : sequence
        Of each repetition.
    pi : sequence of ndarray, shape (m,)
        Propensities of the m labelled cells in each repetition.
    clusters : Clusters or None
    context_weight : ndarray, shape (n,), or None
    """
    cells, expected = data.cells, []
    for result, correction in zip(one_step_results, corrections, strict=True):
        mu = result.cell_mu
        if correction is not None:
            mu = np.where((correction.label >= 0)[:, None], correction.m[correction.label], mu)
        expected.append(mu)
    weight = np.mean([1 / propensity for propensity in pi], axis=0) / data.n_contexts
    if context_weight is not None:
        weight = weight * context_weight[cells.context]
    return LabelErrors(
        cells=cells,
        weight=weight,
        mu=np.mean([result.cell_mu for result in one_step_results], axis=0),
        residual=cells.y - np.mean(expected, axis=0),
        unit=cells.context if clusters is None else clusters.prompt[cells.context],
        n_units=data.n_contexts if clusters is None else len(np.unique(clusters.prompt)),
        other_unit=_crossed_cluster(data, clusters),
    )


def _crossed_cluster(data: PreferenceData, clusters: Clusters | None) -> IntArray | None:
    """Return the cluster of each labelled cell, (m,), in the second of two crossed groupings; None without one.

    A cell on which several annotators voted has the first of them.
    """
    if clusters is None or len(clusters.names) < 2:
        return None
    if clusters.annotator is None:
        return None if clusters.other is None else clusters.other[data.cells.context]
    annotator = np.full(len(data.cells), clusters.annotator.max(), dtype=np.intp)
    np.minimum.at(annotator, data.vote_cell, clusters.annotator)
    return annotator


def likelihood_uniform_pairs(
    data: PreferenceData, setup: Setup, fitted: BradleyTerryFit, clusters: Clusters | None
) -> UniformPairs | None:
    """The same of maximum likelihood, which counts votes, knows no propensities and takes both orders as one pair."""
    if setup.weights.mirrored:
        data = data.unordered()
    cells = data.cells
    mu = fitted.probabilities(data.n_categories)[cells.first, cells.second]
    errors = LabelErrors(
        cells=cells,
        weight=cells.n_votes.astype(float),
        mu=mu,
        residual=cells.y - mu,
        unit=cells.context if clusters is None else clusters.prompt[cells.context],
        other_unit=_crossed_cluster(data, clusters),
    )
    return find_uniform_pairs(errors, data, setup.weights, setup.graph.edges)


def hidden_covariance_by_column(steps: FitSteps, design: FloatArray) -> FloatArray | None:
    """What uniform pairs hide of the covariance of the coefficients on a design, (n, P), as (P K, P K).

    With indicators of groups each group has uniform pairs of its own. The columns of any other design share the fit's:
    the labels of a pair are taken to lie alike in the space of the design.
    """
    if steps.estimator.has_first_stages is False:
        return None
    errors = one_step_label_errors(
        steps.data,
        [r.one_step_result for r in steps.repetitions],
        [r.propensity.cells for r in steps.repetitions],
        corrections=[r.judge_correction for r in steps.repetitions],
        clusters=steps.clusters,
        context_weight=steps.context_weight,
    )
    weight = np.ones(len(design)) if steps.context_weight is None else steps.context_weight
    load = np.linalg.solve(design.T @ (weight[:, None] * design) / len(design), design.T).T
    groups = bool(np.isin(design, (0.0, 1.0)).all() and (design.sum(axis=1) == 1).all())
    blocks, functional = [], steps.setup.functional
    if not groups:
        if steps.uniform is None:
            return None
        near = load[errors.cells.context] * errors.weight[:, None]
        gram = near.T @ near / np.square(errors.weight).sum()
        return np.kron(gram, steps.uniform.covariance(functional, steps.first.floor))
    found = False
    for column in range(design.shape[1]):
        inside = design[:, column] > 0
        own = errors.only(inside[errors.cells.context], float(load[inside, column].max()))
        own = replace(own, n_units=errors.n_units * inside.mean())
        pairs = find_uniform_pairs(own, steps.data, steps.setup.weights, steps.setup.graph.edges)
        found |= pairs is not None
        blocks.append(None if pairs is None else pairs.covariance(functional, steps.first.floor))
    if not found:
        return None
    size = len(steps.influence.estimate)
    total = np.zeros((len(blocks) * size, len(blocks) * size))
    for place, block in enumerate(blocks):
        if block is not None:
            total[place * size : (place + 1) * size, place * size : (place + 1) * size] = block
    return total


def warn_of_uniform_pairs(
    data: PreferenceData,
    setup: Setup,
    uniform: UniformPairs | None,
    *,
    hidden: FloatArray | None,
    covariance: Covariance,
) -> None:
    """Warn where models won or lost everything, or labels without variation decide a standard error."""
    if uniform is None or hidden is None:
        return
    variances = np.square(covariance.std_errors)
    decided = np.diag(hidden) > _NOTABLE * np.where(variances > 0, variances, np.inf)
    sides = one_sided_models(data, setup)
    if not decided.any() and not any(sides.values()):
        return
    pairs = uniform.pairs
    names = listed((f"{data.items[j]} - {data.items[k]}" for j, k in pairs), _NAMED)
    found = [f"{listed(models, _NAMED)} {what}" for what, models in sides.items() if models]
    limit = ""
    if not is_linear(setup.functional) and (sides[_WON] or sides[_LOST]):
        limit = (
            "; scores from log-odds have no finite limit for such models, so that the floor of mu decides how far out "
            "they stand (functional='borda' is bounded)"
        )
    warn(
        f"labels without variation: {'; '.join([*found, ''])}on {len(pairs)} of {setup.graph.n_edges} compared pairs "
        f"all labels say the same ({names}). Such labels show no variance, so that standard errors allow for as many "
        f"other labels as the rule of three does (up to 3 in n){limit}. More votes on these pairs narrow them",
        stacklevel=2,
    )


def one_sided_models(data: PreferenceData, setup: Setup) -> dict[str, list[str]]:
    """Models that won, lost or tied everything that they were compared in."""
    cells = data.cells.only(setup.graph.edges[data.cells.first, data.cells.second])
    gap = cells.y @ np.subtract(setup.weights.first, setup.weights.second)
    low, high = np.full(data.n_items, np.inf), np.full(data.n_items, -np.inf)
    for side, own in ((cells.first, gap), (cells.second, -gap)):
        np.minimum.at(low, side, own)
        np.maximum.at(high, side, own)
    tests = {_WON: low > 1 - _EXACT, _LOST: high < -1 + _EXACT, _TIED: np.maximum(-low, high) < _EXACT}
    return {what: [data.items[j] for j in np.flatnonzero(found)] for what, found in tests.items()}
