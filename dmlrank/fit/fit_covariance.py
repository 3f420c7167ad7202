"""The covariance of a fit's estimates, with the independence that its prompts and clusters leave."""

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
from ..inference.resampling import MULTIPLIERS, MultiplierBootstrap
from .state import FitSteps


def covariance_of(
    steps: FitSteps,
    influence: InfluenceFunction,
    gauge: FloatArray,
    estimates: FloatArray | None = None,
    *,
    hidden: FloatArray | None = None,
) -> Covariance:
    """Covariance of another score's estimate, of the kind that the fit has.

    Parameters
    ----------
    steps : FitSteps
    influence : InfluenceFunction
        Of d scores, averaged over repetitions.
    gauge : ndarray, shape (d, g)
        Directions that do not vary.
    estimates : ndarray, shape (R, d), optional
        The estimates of the repetitions, whose spread is added.
    hidden : ndarray, shape (d, d), optional
        See :func:`make_covariance`.
    """
    return make_covariance(
        influence,
        gauge,
        steps.clusters,
        annotator=steps.annotator,
        fixed_prompts=steps.options.prompts == "fixed",
        estimates=estimates,
        hidden=hidden,
    )


def make_covariance(
    influence: InfluenceFunction,
    gauge: FloatArray,
    clusters: Clusters | None,
    *,
    annotator: IntArray | None,
    fixed_prompts: bool,
    estimates: FloatArray | None = None,
    hidden: FloatArray | None = None,
) -> Covariance:
    """Covariance of an estimate from its influence values.

    Parameters
    ----------
    influence : InfluenceFunction
        Of d scores, averaged over repetitions.
    gauge : ndarray, shape (d, g)
        Directions that do not vary.
    clusters : Clusters or None
    annotator : ndarray of int, shape (q,), or None
        The annotator of each block where annotators are clusters.
    fixed_prompts : bool
        Whether the labels alone are random; see Notes.
    estimates : ndarray, shape (R, d), optional
        The estimates of several repetitions, whose spread is added.
    hidden : ndarray, shape (d, d), optional
        What labels without variation hide, see :class:`dmlrank.estimation.uniform_pairs.UniformPairs`.

    Notes
    -----
    With fixed prompts the variance that counts is that of the labels, E Var(phi | x). The spread of phi - g(x) is never
    below it, whatever g is: it adds the spread of E(phi | x) - g(x) over prompts. With g = F(mu), the fitted mu, this
    is the covariance of the correction, hardly too large where mu is good. Where mu predicts worse than a constant, as
    it may out of fold on a few dozen prompts, it exceeds the covariance for new prompts, which has g constant. So the
    smaller of the two is taken, direction by direction.
    """
    covariance = _corrected(clustered_covariance(influence, gauge, clusters, annotator), influence, hidden)
    if fixed_prompts:
        influence = influence.given_prompts()
        with collected_warnings():
            # Few clusters: the covariance for new prompts has said so.
            given = _corrected(clustered_covariance(influence, gauge, clusters, annotator), influence, hidden)
        covariance = given.at_most(covariance.matrix)
    if estimates is not None and len(estimates) > 1:
        covariance = covariance.with_repetition_variance(estimates)
    return covariance.without_rounding(influence.estimate)


def _corrected(covariance: Covariance, influence: InfluenceFunction, hidden: FloatArray | None) -> Covariance:
    """The covariance with what its labels hide and with the variance correction, where there are such."""
    if hidden is not None:
        covariance = covariance.plus(hidden)
    if influence.variance_correction is None:
        return covariance
    return covariance.at_least(influence.variance_correction / influence.n_contexts)


def clustered_covariance(
    influence: CentredSums, gauge: FloatArray, clusters: Clusters | None, annotator: IntArray | None
) -> Covariance:
    """Covariance with the independence that the clusters leave."""
    if clusters is None:
        return robust(influence, gauge)
    if annotator is not None:
        return two_way(influence.by_context(), clusters.prompt, annotator, gauge)
    if clusters.other is not None:
        return two_way_contexts(influence.by_context(), clusters.prompt, clusters.other, gauge)
    return one_way(influence, clusters.prompt, gauge)


def multiplier_bootstrap(steps: FitSteps, kind: str, factor: float, seed: int) -> MultiplierBootstrap:
    """Bootstrap draws from the independent units of the fit's covariance.

    Parameters
    ----------
    steps : FitSteps
    kind : str
        Kind of multipliers.
    factor : float
        Of the unit in which scores are shown.
    seed : int

    Raises
    ------
    OptionError
        If clusters are two-way, so that there are no independent units.
    """
    clusters, influence = steps.clusters, steps.influence
    check_choice(kind, MULTIPLIERS, "bootstrap")
    if clusters is not None and len(clusters.names) > 1:
        raise OptionError(
            f"bootstrap={kind!r} multiplies independent units, and with clusters of {' and '.join(clusters.names)} "
            f"there are none: their covariance is a difference, V_1 + V_2 - V_12, which no multipliers have; use "
            f"bootstrap=None, or update(cov_kwds={{'groups': {clusters.names[0]!r}}})"
        )
    if steps.options.prompts == "fixed":
        influence = influence.given_prompts()
    rows, small_sample = cluster_sums(influence.by_context(), clusters.prompt if clusters else None)
    rows = rows * factor
    # What the covariance has beyond its units: other deals of folds, the correction for a shrunken mu.
    added = steps.covariance.matrix * factor**2 - small_sample * rows.T @ rows
    return MultiplierBootstrap(rows, small_sample, added, kind, seed)
