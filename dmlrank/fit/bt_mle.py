"""The steps of a fit without first stages: Bradley-Terry by maximum likelihood."""

from __future__ import annotations

from functools import partial

from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters, read_clusters
from ..estimation.bt_mle import BradleyTerryFit, fit_bradley_terry, likelihood_influence, won_votes
from ..estimation.influence import Influence
from ..estimation.influence_blocks import InfluenceBlocks
from ..estimation.uniform_pairs import UniformPairs
from ..functionals import Borda
from ..inference.covariance import Covariance
from ..options import Options
from .cache import Cache
from .display_order import OrderChoice
from .estimand import Setup, comparison_graph, restrict_items, set_up_likelihood
from .fit_covariance import clustered_covariance
from .inputs import dropped_items, influence_blocks, warn_of_dependence
from .label_errors import likelihood_uniform_pairs, warn_of_uniform_pairs
from .position_test import warn_of_uneven_orders
from .state import FitSteps, Source
from .votes_used import warn_of_votes_left_out


def run_maximum_likelihood(data_as_read: PreferenceData, options: Options, *, source: Source, cache: Cache) -> FitSteps:
    """Carry out the steps of a fit by maximum likelihood.

    If an earlier fit had first stages, the results of its steps stay in the cache: an update that changes the estimator
    back uses them again.

    Parameters
    ----------
    data_as_read : PreferenceData
        Votes on all items, with the two orders of a pair as two pairs.
    options : Options
    source : Source
    cache : Cache
    """
    slot = cache.slot("bt_mle")
    # The votes alone decide which pairs are compared: min_labels= is an option of first stages.
    graph_option = "votes" if isinstance(options.graph, str) else options.graph
    data = slot.call(
        restrict_items,
        data_as_read,
        graph_option,
        min_labels=1,
        component=options.component,
        min_comparisons=options.min_comparisons,
    )
    graph = slot.call(comparison_graph, data, graph_option, 1)
    setup = slot.call(set_up_likelihood, data, graph, options.category_weights)
    slot.call(warn_of_votes_left_out, data, graph, graph_option, min_labels=1, order=OrderChoice(False))
    clusters = slot.call(read_clusters, data, options.groups, options.context)
    slot.call(warn_of_dependence, data, clusters, options.context)
    blocks, annotator = slot.call(influence_blocks, data, clusters)
    likelihood = slot.call(maximise, data, setup)
    influence = slot.call(scores_influence, data, setup, likelihood, blocks=blocks)
    uniform = slot.call(likelihood_uniform_pairs, data, setup, likelihood, clusters=clusters)
    uniform_covariance = slot.call(likelihood_uniform_covariance, setup, likelihood, uniform)
    covariance = slot.call(
        sandwich_covariance, setup, influence, clusters, annotator=annotator, uniform_covariance=uniform_covariance
    )
    slot.call(warn_of_uniform_pairs, data, setup, uniform, uniform_covariance=uniform_covariance, covariance=covariance)
    slot.call(warn_of_orders_in_likelihood, data, setup, likelihood, clusters)
    return FitSteps(
        options=options,
        source=source,
        data=data,
        dropped=dropped_items(data_as_read, data),
        setup=setup,
        clusters=clusters,
        context_weight=None,
        blocks=blocks,
        annotator=annotator,
        influence=influence,
        win_share=win_share(data, setup, likelihood),
        covariance=covariance,
        cache=cache.all_results,
        likelihood=likelihood,
        uniform=uniform,
    )


def warn_of_orders_in_likelihood(
    data: PreferenceData, setup: Setup, likelihood: BradleyTerryFit, clusters: Clusters | None
) -> None:
    """Warn where a position effect changes the scores; maximum likelihood does not take display order into account.

    Parameters
    ----------
    data : PreferenceData
    setup : Setup
    likelihood : BradleyTerryFit
    clusters : Clusters or None
    """
    if not setup.weights.mirrored:
        return
    unordered = data.unordered()
    mu = likelihood.probabilities(data.n_categories)[unordered.cells.first, unordered.cells.second]
    # Without clusters, every context is a unit of its own: seed_order numbers the contexts.
    unit = data.seed_order if clusters is None else clusters.of_context
    remedy = "estimator='debiased' with position_bias=True"
    warn_of_uneven_orders(unordered, setup, mu, unit=unit, remedy=remedy)


def maximise(data: PreferenceData, setup: Setup) -> BradleyTerryFit:
    """Return the scores that maximise the likelihood of the votes on the graph."""
    return fit_bradley_terry(won_votes(data, setup.weights.first, setup.graph.edges), data.items)


def scores_influence(
    data: PreferenceData, setup: Setup, likelihood: BradleyTerryFit, *, blocks: InfluenceBlocks
) -> Influence:
    """Return the influence values of the scores.

    Parameters
    ----------
    data : PreferenceData
    setup : Setup
    likelihood : BradleyTerryFit
    blocks : InfluenceBlocks
    """
    return likelihood_influence(likelihood, data, setup.weights.first, setup.graph.edges, blocks)


def likelihood_uniform_covariance(
    setup: Setup, likelihood: BradleyTerryFit, uniform: UniformPairs | None
) -> FloatArray | None:
    """Return the covariance of the scores, (K, K), that is added for uniform pairs; None where there are no such pairs.

    All labels of a uniform pair agree, so that the sandwich covariance contains no variance of these labels.

    Parameters
    ----------
    setup : Setup
    likelihood : BradleyTerryFit
    uniform : UniformPairs or None
    """
    if uniform is None:
        return None
    return uniform.covariance_along(partial(likelihood.score_changes, setup.weights.first))


def sandwich_covariance(
    setup: Setup,
    influence: Influence,
    clusters: Clusters | None,
    *,
    annotator: IntArray | None,
    uniform_covariance: FloatArray | None,
) -> Covariance:
    """Return the sandwich covariance of the scores, H^-1 (sum of s s') H^-1, plus the covariance for uniform pairs.

    H is the Hessian of the negative log-likelihood. Each s is the gradient of the log-likelihood, summed over the votes
    of a context or cluster.

    Parameters
    ----------
    setup : Setup
    influence : Influence
        Influence values of the scores.
    clusters : Clusters or None
        The units over which the gradients are summed; None for contexts.
    annotator : ndarray of int, shape (q,), or None
        The annotator of each block where annotators are clusters.
    uniform_covariance : ndarray, shape (K, K), or None
        As :func:`likelihood_uniform_covariance` returns it.
    """
    gauge = setup.functional.gauge(influence.n_scores).basis
    covariance = clustered_covariance(influence, gauge, clusters, annotator)
    return covariance if uniform_covariance is None else covariance.plus(uniform_covariance)


def win_share(data: PreferenceData, setup: Setup, likelihood: BradleyTerryFit) -> FloatArray:
    """Return the share of comparisons that each model wins according to the fitted probabilities, (K,)."""
    return Borda(setup.weights, setup.graph).value(likelihood.probabilities(data.n_categories)[None])[0]
