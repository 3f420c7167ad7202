"""The covariance of a fit's estimates, with contexts or clusters of contexts as independent units."""

from __future__ import annotations

from .._utils.warning_collection import collected_warnings
from ..data.preferences import FloatArray, IntArray
from ..data.read_clusters import Clusters
from ..estimation.influence import InfluenceFunction
from ..exceptions import OptionError, check_choice
from ..inference.covariance import (
    CentredSums,
    Covariance,
    cluster_sums,
    one_way,
    robust,
    two_way,
    two_way_contexts,
)
from ..inference.resampling import BOOTSTRAP_DRAWS, MULTIPLIERS, MultiplierBootstrap
from .state import FitSteps


def covariance_of(
    steps: FitSteps,
    influence: InfluenceFunction,
    gauge: FloatArray,
    estimates: FloatArray | None = None,
    *,
    uniform_covariance: FloatArray | None = None,
) -> Covariance:
    """Estimate the covariance of any estimate from the fit's labels, with the covariance type and clusters of the fit.

    Shapes: gauge (d, g), estimates (R, d), uniform_covariance (d, d).
    """
    return make_covariance(
        influence,
        gauge,
        steps.clusters,
        annotator=steps.annotator,
        fixed_prompts=steps.options.prompts == "fixed",
        estimates=estimates,
        uniform_covariance=uniform_covariance,
    )


def make_covariance(
    influence: InfluenceFunction,
    gauge: FloatArray,
    clusters: Clusters | None,
    *,
    annotator: IntArray | None,
    fixed_prompts: bool,
    estimates: FloatArray | None = None,
    uniform_covariance: FloatArray | None = None,
) -> Covariance:
    """Estimate the covariance of an estimate from its influence values.

    Shapes: gauge (d, g), annotator (q,), estimates (R, d), uniform_covariance (d, d).

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
    covariance = _corrected(clustered_covariance(influence, gauge, clusters, annotator), influence, uniform_covariance)
    if fixed_prompts:
        influence = influence.given_prompts()
        with collected_warnings():
            # Few clusters cause a warning, which the covariance for new prompts, above, has already given.
            of_labels = _corrected(
                clustered_covariance(influence, gauge, clusters, annotator), influence, uniform_covariance
            )
        covariance = of_labels.at_most(covariance.matrix)
    if estimates is not None and len(estimates) > 1:
        covariance = covariance.with_repetition_variance(estimates)
    return covariance.without_rounding(influence.estimate)


def _corrected(
    covariance: Covariance, influence: InfluenceFunction, uniform_covariance: FloatArray | None
) -> Covariance:
    """Return the covariance with the addition for uniform pairs and with the variance correction, if there are such."""
    if uniform_covariance is not None:
        covariance = covariance.plus(uniform_covariance)
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
        return two_way_contexts(influence.by_context(), clusters.of_context, clusters.second_of_context, gauge)
    return one_way(influence, clusters.of_context, gauge)


def multiplier_bootstrap(
    steps: FitSteps, kind: str, factor: float, seed: int, n_draws: int = BOOTSTRAP_DRAWS
) -> MultiplierBootstrap:
    """Return the multiplier bootstrap over the independent units of the fit's covariance."""
    clusters, influence = steps.clusters, steps.influence
    check_choice(kind, MULTIPLIERS, "multipliers")
    if clusters is not None and len(clusters.names) > 1:
        raise OptionError(
            f"bootstrap({kind!r}) is not available with clusters of {' and '.join(clusters.names)}: the bootstrap "
            f"multiplies influence values of independent units, and clusters in two ways have no independent units; "
            f"use the intervals of the result itself, which are too short if one of the two numbers of clusters is 30 "
            f"or fewer"
        )
    if steps.options.prompts == "fixed":
        influence = influence.given_prompts()
    rows, small_sample_factor = cluster_sums(influence.by_context(), clusters.of_context if clusters else None)
    rows = rows * factor
    # The part of the covariance that the influence values of the units do not contain: variance between repetitions,
    # variance correction and uniform pairs.
    added = steps.covariance.matrix * factor**2 - small_sample_factor * rows.T @ rows
    return MultiplierBootstrap(rows, small_sample_factor, added, kind, seed, n_draws)
