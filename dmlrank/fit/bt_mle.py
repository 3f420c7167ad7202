"""The steps of a fit without first stages: Bradley-Terry by maximum likelihood, with or without features."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..data.outcomes import require_mirrored_worths
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters, read_clusters
from ..estimation.bt_mle import (
    BradleyTerryFit,
    ContextualBradleyTerryFit,
    fit_bradley_terry,
    fit_contextual_bradley_terry,
    won_votes,
)
from ..estimation.influence import Influence, InfluenceBlocks
from ..estimation.unanimous_pairs import UnanimousPairs
from ..exceptions import OptionError
from ..functionals import Borda
from ..inference.covariance import Covariance
from ..options import Options
from .cache import Cache
from .display_order import OrderChoice
from .estimand import Setup, comparison_graph, restrict_items, set_up_likelihood
from .estimators import Estimator, estimator_named
from .fit_covariance import clustered_covariance, make_covariance
from .inputs import dropped_items, influence_blocks, warn_of_dependence
from .label_errors import likelihood_uniform_pairs, warn_of_uniform_pairs
from .position_test import warn_of_uneven_orders
from .state import FitSteps, Source
from .votes_used import warn_of_votes_left_out

Likelihood: TypeAlias = BradleyTerryFit | ContextualBradleyTerryFit


def run_maximum_likelihood(data_as_read: PreferenceData, options: Options, *, source: Source, cache: Cache) -> FitSteps:
    """Carry out the steps of a fit by maximum likelihood.

    If an earlier fit had first stages, the results of its steps stay in the cache: an update that changes the estimator
    back uses them again.
    """
    estimator = estimator_named(options.estimator)
    _check_unweighted(options, estimator)
    # Maximum likelihood joins the two display orders of a pair.
    require_mirrored_worths(options.categories)
    slot = cache.slot(estimator.name)
    data, setup = _ranked_votes(slot, data_as_read, options, estimator.name)
    clusters = slot.call(read_clusters, data, options.clusters, options.context)
    slot.call(warn_of_dependence, data, clusters, options.context)
    blocks, annotator = slot.call(influence_blocks, data, clusters)
    likelihood = slot.call(maximise, data, setup, estimator.uses_features)
    influence = slot.call(scores_influence, data, setup, likelihood, blocks=blocks)
    uniform = slot.call(likelihood_uniform_pairs, data, setup, likelihood, clusters=clusters)
    uniform_covariance = slot.call(likelihood_uniform_covariance, setup, likelihood, uniform)
    covariance = slot.call(
        sandwich_covariance,
        setup,
        influence,
        clusters,
        annotator=annotator,
        fixed_prompts=estimator.uses_features and options.prompts == "fixed",
        uniform_covariance=uniform_covariance,
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


def _ranked_votes(
    slot: Cache, data_as_read: PreferenceData, options: Options, estimator: str
) -> tuple[PreferenceData, Setup]:
    """Return the votes on the ranked items, and the functional with its graph."""
    # The votes alone decide which pairs are compared: min_labels= is an option of first stages.
    graph_option = "votes" if isinstance(options.graph, str) else options.graph
    data = slot.call(
        restrict_items,
        data_as_read,
        graph_option,
        min_labels=1,
        component=options.component,
    )
    graph = slot.call(comparison_graph, data, graph_option, 1)
    setup = slot.call(set_up_likelihood, data, graph, options.category_weights, estimator)
    slot.call(warn_of_votes_left_out, data, graph, graph_option, min_labels=1, order=OrderChoice(False))
    return data, setup


def _check_unweighted(options: Options, estimator: Estimator) -> None:
    """Raise where the prompts of an earlier fit have weights, which a mean over prompts would have to use."""
    if estimator.uses_features and options.weights is not None:
        raise OptionError(
            f"weights= of the earlier fit is not used by estimator={estimator.name!r}, which averages over all prompts "
            f"equally; use update(estimator={estimator.name!r}, weights=None), or estimator='debiased'"
        )


def warn_of_orders_in_likelihood(
    data: PreferenceData, setup: Setup, likelihood: Likelihood, clusters: Clusters | None
) -> None:
    """Warn where a position effect changes the scores; maximum likelihood does not take display order into account."""
    if not setup.weights.mirrored:
        return
    unordered = data.unordered()
    mu = category_probabilities(likelihood.cell_probabilities(unordered), data.n_categories)
    # Without clusters, every context is a unit of its own: seed_order numbers the contexts.
    unit = data.seed_order if clusters is None else clusters.of_context
    remedy = "estimator='debiased' with position_bias=True"
    warn_of_uneven_orders(unordered, setup, mu, unit=unit, remedy=remedy)


def category_probabilities(won: FloatArray, n_categories: int) -> FloatArray:
    """Return the category probabilities of cells, (m, C), from the probabilities that the first model wins, (m,)."""
    return np.column_stack([won, 1 - won, np.zeros((len(won), n_categories - 2))])


def maximise(data: PreferenceData, setup: Setup, uses_features: bool) -> Likelihood:
    """Return the model, with or without features, that maximises the likelihood of the votes on the graph."""
    if uses_features:
        return fit_contextual_bradley_terry(data, setup.weights.first, setup.graph.edges)
    return fit_bradley_terry(won_votes(data, setup.weights.first, setup.graph.edges), data.items)


def scores_influence(
    data: PreferenceData, setup: Setup, likelihood: Likelihood, *, blocks: InfluenceBlocks
) -> Influence:
    """Return the influence values of the scores."""
    return likelihood.influence(data, setup.weights.first, setup.graph.edges, blocks)


def likelihood_uniform_covariance(
    setup: Setup, likelihood: Likelihood, uniform: UnanimousPairs | None
) -> FloatArray | None:
    """Return the covariance of the scores, (K, K), that is added for uniform pairs; None where there are no such pairs.

    All labels of a uniform pair agree, so that the sandwich covariance contains no variance of these labels.
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
    fixed_prompts: bool,
    uniform_covariance: FloatArray | None,
) -> Covariance:
    """Return the sandwich covariance of the scores, H^-1 (sum of s s') H^-1, plus the covariance for uniform pairs.

    H is the Hessian of the negative log-likelihood. Each s is the gradient of the log-likelihood, summed over the votes
    of a context or cluster. With features, the scores are means over contexts, which add their own variance unless
    prompts are fixed.

    Shapes: annotator (q,), uniform_covariance (K, K).
    """
    gauge = setup.functional.gauge(influence.n_scores).basis
    if fixed_prompts:
        return make_covariance(
            influence, gauge, clusters, annotator=annotator, fixed_prompts=True, uniform_covariance=uniform_covariance
        )
    covariance = clustered_covariance(influence, gauge, clusters, annotator)
    return covariance if uniform_covariance is None else covariance.plus(uniform_covariance)


def win_share(
    data: PreferenceData, setup: Setup, likelihood: Likelihood, inside: NDArray[np.bool_] | None = None
) -> FloatArray:
    """Return the share of comparisons that each model wins according to the fitted probabilities, (K,).

    Shapes: inside (n,).
    """
    mu = likelihood.mean_probabilities(data.x if inside is None else data.x[inside], data.n_categories)
    return Borda(setup.weights, setup.graph).value(mu[None])[0]


def win_probability_influence(steps: FitSteps, item: int, opponent: int) -> tuple[Influence, FloatArray | None]:
    """Return the influence values of P(item beats opponent) in a fit by maximum likelihood, by the delta method.

    With features, the probability is the mean over contexts.

    Shapes: returns (1, 1).
    """
    likelihood, first_weights = steps.likelihood, steps.setup.weights.first
    assert likelihood is not None
    scores = steps.influence.by_context()
    if isinstance(likelihood, BradleyTerryFit):
        influence = likelihood.win_probability_influence(scores, item, opponent)
        of_scores = likelihood_uniform_covariance(steps.setup, likelihood, steps.uniform)
        gradient = likelihood.win_probability_gradient(item, opponent)
        return influence, None if of_scores is None else (gradient @ of_scores @ gradient).reshape(1, 1)
    p, derivative = likelihood.win_probability(steps.data.x, item, opponent)
    correction = likelihood.corrections(
        derivative, steps.data, first_weights, edges=steps.setup.graph.edges, blocks=steps.blocks
    )
    changes = partial(likelihood.changes, derivative, first_weights)
    uniform_variance = None if steps.uniform is None else steps.uniform.covariance_along(changes)
    return replace(scores, value=p[:, None], correction=correction), uniform_variance
