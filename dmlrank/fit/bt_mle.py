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
from .fit_covariance import clustered
from .inputs import dropped_items, influence_blocks, warn_of_dependence
from .label_errors import likelihood_uniform_pairs, warn_of_uniform_pairs
from .state import FitSteps, Source
from .votes_used import warn_of_votes_left_out


def maximum_likelihood(read: PreferenceData, o: Options, source: Source, cache: Cache) -> FitSteps:
    """The steps of a fit without first stages; those of an earlier fit stay in the cache for the way back."""
    own = cache.slot("bt_mle")
    words = "votes" if isinstance(o.graph, str) else o.graph
    data = own.call(restrict_items, read, words, 1, o.component, o.min_comparisons)
    graph = own.call(comparison_graph, data, words, 1)
    setup = own.call(set_up_likelihood, data, graph, o.category_weights)
    own.call(warn_of_votes_left_out, data, graph, words, 1, OrderChoice(False))
    clusters = own.call(read_clusters, data, o.groups, o.context)
    own.call(warn_of_dependence, data, clusters, o.context)
    blocks, annotator = own.call(influence_blocks, data, clusters)
    fitted = own.call(maximise, data, setup)
    influence = own.call(scores_influence, data, setup, fitted, blocks)
    uniform = own.call(likelihood_uniform_pairs, data, setup, fitted, clusters)
    hidden = own.call(hidden_scores_covariance, setup, fitted, uniform)
    covariance = own.call(sandwich_covariance, setup, influence, clusters, annotator=annotator, hidden=hidden)
    own.call(warn_of_uniform_pairs, data, setup, uniform, hidden=hidden, covariance=covariance)
    return FitSteps(
        options=o,
        source=source,
        data=data,
        dropped=dropped_items(read, data),
        setup=setup,
        clusters=clusters,
        context_weight=None,
        blocks=blocks,
        annotator=annotator,
        influence=influence,
        win_share=win_share(data, setup, fitted),
        covariance=covariance,
        cache=cache.kept,
        likelihood=fitted,
        uniform=uniform,
    )


def maximise(data: PreferenceData, setup: Setup) -> BradleyTerryFit:
    """The scores with the largest likelihood of the votes on the graph."""
    return fit_bradley_terry(won_votes(data, setup.weights.first, setup.graph.edges), data.items)


def scores_influence(data: PreferenceData, setup: Setup, fitted: BradleyTerryFit, blocks: InfluenceBlocks) -> Influence:
    """Influence values of the scores."""
    return likelihood_influence(fitted, data, setup.weights.first, setup.graph.edges, blocks)


def hidden_scores_covariance(setup: Setup, fitted: BradleyTerryFit, uniform: UniformPairs | None) -> FloatArray | None:
    """What labels without variation hide of the covariance of the scores, (K, K); None for nothing."""
    if uniform is None:
        return None
    return uniform.covariance_along(partial(fitted.score_changes, setup.weights.first))


def sandwich_covariance(
    setup: Setup,
    influence: Influence,
    clusters: Clusters | None,
    *,
    annotator: IntArray | None,
    hidden: FloatArray | None,
) -> Covariance:
    """H^-1 (sum s s') H^-1 with the independence that the clusters leave, and with what labels hide."""
    gauge = setup.functional.gauge(influence.n_scores).basis
    covariance = clustered(influence, gauge, clusters, annotator)
    return covariance if hidden is None else covariance.plus(hidden)


def win_share(data: PreferenceData, setup: Setup, fitted: BradleyTerryFit) -> FloatArray:
    """The share of comparisons that each model wins by the fitted probabilities, (K,)."""
    return Borda(setup.weights, setup.graph).value(fitted.probabilities(data.n_categories)[None])[0]
