"""The covariance of a fit's estimates, with what is added for pairs whose labels all agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .._utils.computation import collected_warnings
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.vote_columns import Clusters
from ..estimation.influence import InfluenceFunction
from ..estimation.unanimous_pairs import LabelErrors, find_unanimous_pairs
from ..exceptions import OptionError, check_choice
from ..inference.covariance import CentredSums, Covariance, cluster_sums, one_way, robust, two_way
from ..inference.multiple_testing import BOOTSTRAP_DRAWS, MULTIPLIERS, MultiplierBootstrap
from .state import FitState, Repetition, Units


def covariance_of(
    state: FitState,
    influence: InfluenceFunction,
    gauge: FloatArray,
    estimates: FloatArray | None = None,
    *,
    unanimous_covariance: FloatArray | None = None,
) -> Covariance:
    """Estimate the covariance of any estimate from the fit's labels, with the covariance type and clusters of the fit.

    Shapes: gauge (d, g), estimates (R, d), unanimous_covariance (d, d).
    """
    fixed = state.options.prompts == "fixed"
    return make_covariance(influence, gauge, state.units, fixed, estimates, unanimous_covariance=unanimous_covariance)


def make_covariance(
    influence: InfluenceFunction,
    gauge: FloatArray,
    units: Units,
    fixed_prompts: bool,
    estimates: FloatArray | None = None,
    *,
    unanimous_covariance: FloatArray | None = None,
) -> Covariance:
    """Estimate the covariance of an estimate from its influence values.

    Shapes: gauge (d, g), estimates (R, d), unanimous_covariance (d, d).

    Notes
    -----
    With fixed prompts only the labels are random, and the variance of an estimate with influence values phi is
    E Var(phi | x). For every function g, the variance of phi - g(x) is at least as large, because it also contains the
    variance of E(phi | x) - g(x) over prompts. Two functions g are tried. In each direction in which the two
    covariances are proportional, the smaller of the two is used (:meth:`Covariance.at_most`). With g = F(mu) at the
    fitted mu, phi - g is the bias correction; its covariance is hardly too large where mu is good. With a constant g,
    the result is the covariance for new prompts; it is the smaller one where mu predicts worse than a constant, which
    may happen out of fold on a few dozen prompts.
    """
    clusters, annotator = units.clusters, units.annotator
    rows = influence if units.task is None else influence.by_context().within(units.task)
    covariance = _corrected(clustered_covariance(rows, gauge, clusters, annotator), influence, unanimous_covariance)
    if fixed_prompts:
        influence = influence.by_context().given_prompts()
        with collected_warnings():
            # Few clusters cause a warning, which the covariance for new prompts, above, has already given.
            of_labels = _corrected(
                clustered_covariance(influence, gauge, clusters, annotator), influence, unanimous_covariance
            )
        covariance = of_labels.at_most(covariance.matrix)
    if estimates is not None and len(estimates) > 1:
        covariance = covariance.with_repetition_variance(estimates)
    return covariance.without_rounding(influence.estimate)


def _corrected(
    covariance: Covariance, influence: InfluenceFunction, unanimous_covariance: FloatArray | None
) -> Covariance:
    """Return the covariance with the addition for unanimous pairs and with the variance correction, if any."""
    if unanimous_covariance is not None:
        covariance = covariance.plus(unanimous_covariance)
    if influence.variance_correction is None:
        return covariance
    return covariance.with_variance_correction(influence.variance_correction / influence.n_contexts)


def clustered_covariance(
    influence: CentredSums, gauge: FloatArray, clusters: Clusters | None, annotator: IntArray | None
) -> Covariance:
    """Estimate the covariance with clusters as independent units, and contexts where there are no clusters.

    Shapes: gauge (d, g), annotator (q,).
    """
    if clusters is None:
        return robust(influence, gauge)
    if annotator is not None:
        return two_way(influence.by_context(), clusters.of_context, annotator, gauge)
    if clusters.second_of_context is not None:
        second = clusters.second_of_context
        return two_way(influence.by_context(), clusters.of_context, second, gauge, of_contexts=True)
    return one_way(influence, clusters.of_context, gauge)


def multiplier_bootstrap(
    steps: FitState, kind: str, factor: float, seed: int, n_draws: int = BOOTSTRAP_DRAWS
) -> MultiplierBootstrap:
    """Return the multiplier bootstrap over the independent units of the fit's covariance."""
    clusters, influence = steps.units.clusters, steps.influence
    check_choice(kind, MULTIPLIERS, "multipliers")
    if clusters is not None and len(clusters.names) > 1:
        raise OptionError(
            f"bootstrap({kind!r}) is not available with clusters of {' and '.join(clusters.names)}: the bootstrap "
            f"multiplies influence values of independent units, and clusters in two ways have no independent units; "
            f"use the intervals of the result itself, which are too short if one of the two numbers of clusters is 30 "
            f"or fewer"
        )
    if steps.options.prompts == "fixed":
        influence = influence.by_context().given_prompts()
    elif steps.units.task is not None:
        influence = influence.by_context().within(steps.units.task)
    rows, small_sample_factor = cluster_sums(influence.by_context(), clusters.of_context if clusters else None)
    rows = rows * factor
    # The part of the covariance that the influence values of the units do not contain: variance between repetitions,
    # variance correction, unanimous pairs and the allowance.
    added = steps.covariance.widened.matrix * factor**2 - small_sample_factor * rows.T @ rows
    return MultiplierBootstrap(rows, small_sample_factor, added, kind, seed, n_draws)


def label_errors(data: PreferenceData, repetitions: Sequence[Repetition], units: Units) -> LabelErrors:
    """Return the contribution of every label to the error of the scores, averaged over repetitions.

    The contribution of a label has as factors its weight and its residual, the label less its expected value.
    """
    cells, clusters, expected = data.cells, units.clusters, []
    for r in repetitions:
        mu, correction = r.one_step_result.cell_mu, r.judge_correction
        if correction is not None:
            mu = np.where((correction.label >= 0)[:, None], correction.m[correction.label], mu)
        expected.append(mu)
    weight = np.mean([1 / r.propensity.cells for r in repetitions], axis=0) / data.n_contexts
    if units.context_weight is not None:
        weight = weight * units.context_weight[cells.context]
    return LabelErrors(
        cells=cells,
        weight=weight,
        mu=np.mean([r.one_step_result.cell_mu for r in repetitions], axis=0),
        residual=cells.y - np.mean(expected, axis=0),
        unit=cells.context if clusters is None else clusters.of_context[cells.context],
        n_units=data.n_contexts if clusters is None else len(np.unique(clusters.of_context)),
        other_unit=crossed_cluster(data, clusters),
    )


def crossed_cluster(data: PreferenceData, clusters: Clusters | None) -> IntArray | None:
    """Return the cluster of each labelled cell, (m,), in the second of two crossed groupings; None without one."""
    if clusters is None or len(clusters.names) < 2:
        return None
    if clusters.of_vote is None:
        return None if clusters.second_of_context is None else clusters.second_of_context[data.cells.context]
    annotator = np.full(len(data.cells), clusters.of_vote.max(), dtype=np.intp)
    np.minimum.at(annotator, data.vote_cell, clusters.of_vote)
    return annotator


def unanimous_covariance_by_column(steps: FitState, design: FloatArray) -> FloatArray | None:
    """Return the covariance of a projection's coefficients that is added for unanimous pairs.

    Shapes: design (n, P), returns (P K, P K).
    """
    if bool(np.isin(design, (0.0, 1.0)).all() and (design.sum(axis=1) == 1).all()):
        return unanimous_covariance_by_group(steps, design.T > 0)
    if steps.unanimous is None:
        return None
    errors = label_errors(steps.data, steps.repetitions, steps.units)
    weight = np.ones(len(design)) if steps.units.context_weight is None else steps.units.context_weight
    gram = design.T @ (weight[:, None] * design) / len(design)
    factor = np.asarray(np.linalg.solve(gram, design.T).T, dtype=np.float64)
    cell_factor = factor[errors.cells.context] * errors.weight[:, None]
    cell_moment = cell_factor.T @ cell_factor / np.square(errors.weight).sum()
    return np.kron(cell_moment, steps.unanimous.covariance(steps.setup.functional, steps.first.floor))


def unanimous_covariance_by_group(steps: FitState, members: NDArray[np.bool_]) -> FloatArray | None:
    """Return the covariance of the scores by group, (G K, G K), that is added for unanimous pairs: one block per group.

    Where groups overlap, a unanimous pair of their common contexts also moves the scores of both groups together. This
    part is left out, so that differences between overlapping groups have errors that are not too small.

    Shapes: members (G, n), returns (G K, G K).
    """
    if not steps.repetitions:
        return None
    errors = label_errors(steps.data, steps.repetitions, steps.units)
    weight = np.ones(steps.data.n_contexts) if steps.units.context_weight is None else steps.units.context_weight
    n_groups, size = len(members), len(steps.influence.estimate)
    total, any_unanimous = np.zeros((n_groups, size, n_groups, size)), False
    for g, inside in enumerate(members):
        factor = 1 / float((weight * inside).mean())
        group_errors = errors.only(inside[errors.cells.context], factor)
        group_errors = replace(group_errors, n_units=errors.n_units * inside.mean())
        pairs = find_unanimous_pairs(group_errors, steps.data, steps.setup.weights, steps.setup.graph.edges)
        if pairs is not None:
            any_unanimous = True
            total[g, :, g, :] = pairs.covariance(steps.setup.functional, steps.first.floor)
    return total.reshape(n_groups * size, n_groups * size) if any_unanimous else None
