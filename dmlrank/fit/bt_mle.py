"""A fit without first stages: Bradley-Terry by maximum likelihood, with or without features."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .._utils.computation import warn
from ..data.outcomes import require_mirrored_worths
from ..data.preferences import FloatArray, PreferenceData
from ..estimation.bt_mle import (
    BradleyTerryFit,
    fit_bradley_terry,
    fit_contextual_bradley_terry,
    won_votes,
)
from ..estimation.influence import Influence
from ..estimation.unanimous_pairs import LabelErrors, UnanimousPairs, find_unanimous_pairs
from ..exceptions import OptionError
from ..functionals import Borda
from .checks import warn_of_unanimous_pairs, warn_of_uneven_orders
from .estimand import (
    OrderChoice,
    Setup,
    comparison_graph,
    restrict_items,
    set_up_likelihood,
    votes_left_out,
)
from .fit_covariance import clustered_covariance, crossed_cluster, make_covariance
from .stages import FirstStages, read_units
from .state import FitState, Units


def run_maximum_likelihood(stages: FirstStages, data_as_read: PreferenceData) -> FitState:
    """Carry out a fit by maximum likelihood.

    The covariance is the sandwich H^-1 (sum of s s') H^-1, plus the covariance for unanimous pairs. H is the Hessian of
    the negative log-likelihood. Each s is the gradient of the log-likelihood, summed over the votes of a context or
    cluster. With features, the scores are means over contexts, which add their own variance unless prompts are fixed.

    First stages of an earlier fit are kept: an update that changes the estimator back uses them again.
    """
    options, estimator = stages.options, stages.estimator
    if estimator.uses_features and options.weights is not None:
        raise OptionError(
            f"weights= of the earlier fit is not used by estimator={estimator.name!r}, which averages over all prompts "
            f"equally; use update(estimator={estimator.name!r}, weights=None), or estimator='debiased'"
        )
    # Maximum likelihood joins the two display orders of a pair.
    require_mirrored_worths(options.categories)
    # The votes alone decide which pairs are compared: min_labels= is an option of first stages.
    graph_option = "votes" if isinstance(options.graph, str) else options.graph
    of_votes = replace(options, graph=graph_option)
    ranked = restrict_items(data_as_read, of_votes, 1)
    data = stages.keep("ranked votes of the likelihood", (data_as_read, ranked.items), lambda: ranked)
    graph = comparison_graph(data, graph_option, 1)
    setup = set_up_likelihood(data, graph, options.category_weights, estimator.name)
    left_out = votes_left_out(data_as_read, data, graph, of_votes, OrderChoice(False, 1))
    if left_out:
        warn(left_out, stacklevel=2)
    units = read_units(data, stages.source, options, None, for_first_stages=False)
    likelihood = stages.keep(
        "likelihood",
        (data, graph_option, options.category_weights, estimator.name),
        lambda: _maximise(data, setup, estimator.uses_features),
    )
    influence = likelihood.influence(data, setup.weights.first, setup.graph.edges, units.blocks)
    unordered = data.unordered() if setup.weights.mirrored else data
    won = likelihood.cell_probabilities(unordered)
    mu = np.column_stack([won, 1 - won, np.zeros((len(won), data.n_categories - 2))])
    unanimous = _unanimous_pairs(unordered, mu, setup, units)
    added = None
    if unanimous is not None:
        # All labels of a unanimous pair agree, so that the sandwich contains no variance of these labels.
        derivative = likelihood.mean_derivative(likelihood.mean_z[None])
        added = unanimous.covariance_along(partial(likelihood.changes, derivative, setup.weights.first))
    gauge = setup.functional.gauge(influence.n_scores).basis
    if estimator.uses_features and options.prompts == "fixed":
        covariance = make_covariance(influence, gauge, units, True, unanimous_covariance=added)
    else:
        covariance = clustered_covariance(influence, gauge, units.clusters, units.annotator)
        covariance = covariance if added is None else covariance.plus(added)
    warn_of_unanimous_pairs(data, setup, unanimous, unanimous_covariance=added, covariance=covariance)
    if setup.weights.mirrored:
        remedy = "estimator='debiased' with position_bias=True"
        warn_of_uneven_orders(unordered, setup, mu, unit=units.of_contexts(data), remedy=remedy)
    return FitState(
        options=options,
        source=stages.source,
        data=data,
        dropped=tuple(name for name in data_as_read.items if name not in data.items),
        setup=setup,
        units=units,
        influence=influence,
        win_share=win_share(data, setup, likelihood),
        covariance=covariance,
        kept={**stages.earlier, **stages.kept},
        likelihood=likelihood,
        unanimous=unanimous,
    )


def _maximise(data: PreferenceData, setup: Setup, uses_features: bool) -> BradleyTerryFit:
    """Return the model, with or without features, that maximises the likelihood of the votes on the graph."""
    if uses_features:
        return fit_contextual_bradley_terry(data, setup.weights.first, setup.graph.edges)
    return fit_bradley_terry(won_votes(data, setup.weights.first, setup.graph.edges), data.items)


def _unanimous_pairs(data: PreferenceData, mu: FloatArray, setup: Setup, units: Units) -> UnanimousPairs | None:
    """Find the unanimous pairs; labels are weighted by their votes, and both orders of a pair are one pair.

    Shapes: mu (m, C).
    """
    cells, clusters = data.cells, units.clusters
    errors = LabelErrors(
        cells=cells,
        weight=cells.n_votes.astype(float),
        mu=mu,
        residual=cells.y - mu,
        unit=cells.context if clusters is None else clusters.of_context[cells.context],
        other_unit=crossed_cluster(data, clusters),
    )
    return find_unanimous_pairs(errors, data, setup.weights, setup.graph.edges)


def win_share(
    data: PreferenceData, setup: Setup, likelihood: BradleyTerryFit, inside: NDArray[np.bool_] | None = None
) -> FloatArray:
    """Return the share of comparisons that each model wins according to the fitted probabilities, (K,).

    Shapes: inside (n,).
    """
    mu = likelihood.mean_probabilities(data.x if inside is None else data.x[inside], data.n_categories)
    return Borda(setup.weights, setup.graph).value(mu[None])[0]


def win_probability_influence(steps: FitState, item: int, opponent: int) -> tuple[Influence, FloatArray | None]:
    """Return the influence values of P(item beats opponent) in a fit by maximum likelihood, by the delta method.

    With features, the probability is the mean over contexts.

    Shapes: returns (1, 1).
    """
    likelihood, first_weights = steps.likelihood, steps.setup.weights.first
    assert likelihood is not None
    p, derivative = likelihood.win_probability(steps.data.x, item, opponent)
    correction = likelihood.corrections(
        derivative, steps.data, first_weights, edges=steps.setup.graph.edges, blocks=steps.units.blocks
    )
    changes = partial(likelihood.changes, derivative, first_weights)
    unanimous_variance = None if steps.unanimous is None else steps.unanimous.covariance_along(changes)
    return replace(steps.influence.by_context(), value=p[:, None], correction=correction), unanimous_variance
