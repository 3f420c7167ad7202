"""The steps of a fit without first stages: Bradley-Terry by maximum likelihood."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..data.preferences import PreferenceData
from ..data.read_clusters import read_clusters
from ..estimation.bt_mle import BradleyTerryFit, fit_bradley_terry, likelihood_influence, won_votes
from ..estimation.cross_fitting import CrossFittedMu, Folds
from ..estimation.influence import Influence, Labels
from ..estimation.one_step import OneStepResult
from ..functionals import Borda
from ..nuisance.outcome_model.cross_fit import ConstantMu
from ..nuisance.propensity_model.estimate import Propensity
from ..options import Options
from .estimand import Setup, comparison_graph, restrict_items, set_up_likelihood
from .state import Memory, Repetition, Source, Steps, clustered, influence_blocks


def maximum_likelihood(read: PreferenceData, o: Options, source: Source, memory: Memory) -> Steps:
    """The steps of a fit without first stages; those of an earlier fit stay in memory for the way back."""
    words = "votes" if isinstance(o.graph, str) else o.graph
    restriction = (read, words, 1, o.component, o.min_comparisons)
    data = memory.step("bt_mle items", restriction, lambda: restrict_items(*restriction))
    graph = memory.step("bt_mle graph", (data, words), lambda: comparison_graph(data, words, 1))
    setup = memory.step(
        "bt_mle setup", (data, graph, o.category_weights), lambda: set_up_likelihood(data, graph, o.category_weights)
    )
    clusters = memory.step(
        "bt_mle clusters", (data, o.groups, o.context), lambda: read_clusters(data, o.groups, o.context)
    )
    blocks, annotator = memory.step("bt_mle blocks", (data, clusters), lambda: influence_blocks(data, clusters))
    worth, edges = setup.weights.first, graph.edges
    fitted = memory.step(
        "bt_mle scores", (data, setup), lambda: fit_bradley_terry(won_votes(data, worth, edges), data.items)
    )
    influence = memory.step(
        "bt_mle influence", (fitted, blocks), lambda: likelihood_influence(fitted, data, worth, edges, blocks)
    )
    gauge = setup.functional.gauge(data.n_items).basis
    covariance = memory.step(
        "bt_mle covariance", (influence, clusters), lambda: clustered(influence, gauge, clusters, annotator)
    )
    return Steps(
        o,
        source,
        data,
        tuple(name for name in read.items if name not in data.items),
        setup,
        clusters,
        None,
        blocks,
        annotator,
        (_nothing_repeated(data, setup, fitted, influence),),
        influence,
        covariance,
        memory.kept,
        fitted,
    )


def _nothing_repeated(data: PreferenceData, setup: Setup, fitted: BradleyTerryFit, influence: Influence) -> Repetition:
    """What stands in the place of a repetition: the model's own probabilities, no folds, no propensities."""
    mu = fitted.probabilities(data.n_categories)
    cell_mu = mu[data.cells.first, data.cells.second]
    wins = np.tile(Borda(setup.weights, setup.graph).value(mu[None]), (data.n_contexts, 1))
    shares = replace(influence, value=wins).without_correction()
    folds = Folds(np.zeros(data.n_contexts, dtype=np.intp), data.seed_order, 1)
    return Repetition(
        folds,
        CrossFittedMu((ConstantMu(mu),), folds, data.x),
        Propensity(np.full(len(data.cells), np.nan), "not used"),
        OneStepResult(
            (influence, shares), cell_mu, 0, 0, Labels(cell_mu, data.cells, np.ones(len(data.cells), np.intp))
        ),
    )
