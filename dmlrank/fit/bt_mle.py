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

    The steps of an earlier fit with first stages stay in the cache, for an update back to its estimator.

    Parameters
    ----------
    data_as_read : PreferenceData
        All items, with both orders of a pair apart.
    options : Options
    source : Source
    cache : Cache
    """
    slot = cache.slot("bt_mle")
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
    hidden = slot.call(hidden_scores_covariance, setup, likelihood, uniform)
    covariance = slot.call(sandwich_covariance, setup, influence, clusters, annotator=annotator, hidden=hidden)
    slot.call(warn_of_uniform_pairs, data, setup, uniform, hidden=hidden, covariance=covariance)
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
    pairs = data.unordered()
    mu = likelihood.probabilities(data.n_categories)[pairs.cells.first, pairs.cells.second]
    unit = data.seed_order if clusters is None else clusters.prompt
    remedy = "estimator='debiased' with position_bias=True"
    warn_of_uneven_orders(pairs, setup, mu, unit=unit, remedy=remedy)


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


def hidden_scores_covariance(
    setup: Setup, likelihood: BradleyTerryFit, uniform: UniformPairs | None
) -> FloatArray | None:
    """Return the part of the scores' covariance, (K, K), that labels without variation hide; None for no part."""
    if uniform is None:
        return None
    return uniform.covariance_along(partial(likelihood.score_changes, setup.weights.first))


def sandwich_covariance(
    setup: Setup,
    influence: Influence,
    clusters: Clusters | None,
    *,
    annotator: IntArray | None,
    hidden: FloatArray | None,
) -> Covariance:
    """Return the sandwich covariance H^-1 (sum s s') H^-1, with the part that labels without variation hide.

    Parameters
    ----------
    setup : Setup
    influence : Influence
        Of the scores.
    clusters : Clusters or None
        Units over which the scores s of the likelihood are summed; None for contexts.
    annotator : ndarray of int, shape (q,), or None
        The annotator of each block where annotators are clusters.
    hidden : ndarray, shape (K, K), or None
        The part that labels without variation hide.
    """
    gauge = setup.functional.gauge(influence.n_scores).basis
    covariance = clustered_covariance(influence, gauge, clusters, annotator)
    return covariance if hidden is None else covariance.plus(hidden)


def win_share(data: PreferenceData, setup: Setup, likelihood: BradleyTerryFit) -> FloatArray:
    """Return the share of comparisons that each model wins according to the fitted probabilities, (K,)."""
    return Borda(setup.weights, setup.graph).value(likelihood.probabilities(data.n_categories)[None])[0]
