"""What a fit knows before its first stages: data, what is estimated, clusters, weights, verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..data.formula.parse import parse_formula
from ..data.frames import column_names
from ..data.graph import Graph
from ..data.labels import by_label, row_labels
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters, cluster_columns, context_weights, read_clusters
from ..data.read_votes import read_preferences, with_columns
from ..data.shared_texts import warn_of_shared_texts
from ..estimation.cross_fitting import SuppliedMu
from ..estimation.influence_blocks import InfluenceBlocks, blocks_by_context, blocks_by_group
from ..exceptions import listed
from ..nuisance.judge.verdicts import Verdicts, judge_columns, read_verdicts
from ..nuisance.outcome_model.supplied import checked_mu
from ..nuisance.propensity_model.supplied import propensity_columns
from ..options import Options
from .cache import Cache
from .display_order import OrderChoice, choose_order, in_chosen_order
from .estimand import Setup, comparison_graph, restrict_items, set_up
from .estimators import estimator_named
from .extrapolation import Extrapolation, find_extrapolation
from .state import Source
from .votes_used import warn_of_votes_left_out


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Everything that all repetitions of a fit share.

    Attributes
    ----------
    data : PreferenceData
    order : OrderChoice
    dropped : tuple of str
        Items that were read and are not ranked.
    graph : Graph
    setup : Setup
    extrapolation : Extrapolation
    clusters : Clusters or None
    context_weight : ndarray, shape (n,), or None
        Weights in the target population.
    verdicts : Verdicts or None
    blocks : InfluenceBlocks
    annotator : ndarray of int, shape (q,), or None
        The annotator of each block where annotators are clusters.
    given_mu : SuppliedMu or None
        mu where the user supplied it.
    """

    data: PreferenceData
    order: OrderChoice
    dropped: tuple[str, ...]
    graph: Graph
    setup: Setup
    extrapolation: Extrapolation
    clusters: Clusters | None
    context_weight: FloatArray | None
    verdicts: Verdicts | None
    blocks: InfluenceBlocks
    annotator: IntArray | None
    given_mu: SuppliedMu | None


class Reading(NamedTuple):
    """The options that reading the data depends on.

    Attributes
    ----------
    context, categories, missing, votes, unlabelled
        As in :func:`dmlrank.dml_rank`.
    groups : tuple of str
        Columns of clusters.
    propensity, weights : str or None
        Columns that hold propensities, and weights of the contexts.
    """

    context: tuple[str, ...]
    categories: Any
    missing: str
    votes: str
    unlabelled: Any
    groups: tuple[str, ...]
    propensity: str | None
    weights: str | None

    @classmethod
    def of(cls, o: Options) -> Reading:
        """Those of a fit."""
        return cls(
            o.context,
            o.categories,
            o.missing,
            o.votes,
            o.unlabelled,
            o.groups,
            o.propensity_column,
            o.weights_column,
        )


def read_source(source: Source, reading: Reading, *, columns_along: tuple[str, ...] | None = ()) -> PreferenceData:
    """Read what the options ask for, and beside it the columns that later steps of the fit ask for (None: every one).

    An update that asks for other columns keeps these data; the steps that need the columns read the frame for them.
    """
    return read_preferences(
        source.formula,
        source.data,
        source.environment,
        context=reading.context,
        categories=reading.categories,
        missing=reading.missing,
        votes=reading.votes,
        unlabelled=reading.unlabelled,
        groups=(
            *cluster_columns(reading.groups, column_names(source.data)),
            *([reading.weights] if reading.weights else []),
        ),
        propensity=reading.propensity,
        optional=columns_along,
    )


def columns_of_later_steps(o: Options) -> tuple[str, ...] | None:
    """Columns that judges and propensities ask for; None for every column."""
    judges, propensities = judge_columns(o.judge), propensity_columns(o.propensity, o.propensity_formula)
    return None if judges is None or propensities is None else (*judges, *propensities)


def prepare_inputs(cache: Cache, read: PreferenceData, source: Source, o: Options) -> Inputs:
    """Restrict, bind and check what was read, each step made again only where what it depends on has changed."""
    estimator = estimator_named(o.estimator)
    order = cache.call(
        choose_order,
        read,
        o.position_bias,
        o.graph,
        min_labels=o.min_labels,
        min_comparisons=o.min_comparisons,
        category_weights=o.category_weights,
        propensity=o.propensity,
        mu=o.mu,
    )
    data = cache.call(in_chosen_order, read, order)
    data = cache.call(restrict_items, data, o.graph, o.min_labels, o.component, o.min_comparisons)
    graph = cache.call(comparison_graph, data, o.graph, o.min_labels)
    setup = cache.call(
        set_up,
        data,
        graph,
        min_labels=o.min_labels,
        edge_weights=o.edge_weights,
        category_weights=o.category_weights,
        functional=estimator.functional(o.functional),
    )
    extrapolation = cache.call(
        find_extrapolation, data, setup.functional, setup.graph, min_labels=o.min_labels, propensity=o.propensity
    )
    cache.call(warn_of_votes_left_out, data, graph, o.graph, o.min_labels, order)
    estimator.check_outcomes(setup.weights, data.categories)
    clusters = cache.call(read_clusters, data, o.groups, o.context)
    cache.call(warn_of_dependence, data, clusters, o.context)
    weight = cache.call(weights_by_label, data, o.weights, source, o.context)
    verdicts = cache.call(
        take_verdicts,
        data,
        source,
        o.judge,
        unlabelled=o.unlabelled,
        context=o.context,
        categories=o.categories,
    )
    blocks, annotator = cache.call(influence_blocks, data, clusters, verdicts)
    return Inputs(
        data=data,
        order=order,
        dropped=dropped_items(read, data),
        graph=graph,
        setup=setup,
        extrapolation=extrapolation,
        clusters=clusters,
        context_weight=weight,
        verdicts=verdicts,
        blocks=blocks,
        annotator=annotator,
        given_mu=cache.call(supplied_mu, data, o.mu),
    )


def warn_of_dependence(data: PreferenceData, clusters: Clusters | None, context: tuple[str, ...]) -> None:
    """Warn where contexts share a text and no cluster holds them."""
    groups = [] if clusters is None else [group for group in (clusters.prompt, clusters.other) if group is not None]
    warn_of_shared_texts(data.shared_texts, groups, context)


def weights_by_label(data: PreferenceData, weights: Any, source: Source, context: tuple[str, ...]) -> FloatArray | None:
    """Weights of the contexts, those of a Series by its labels: identifiers of contexts, or of rows without them."""
    if not isinstance(weights, pd.Series):
        return context_weights(data, weights)
    labels = pd.Index(list(data.context_ids))
    if not context and not data.n_added:
        labels = row_labels(source.data, data.n_rows)[data.context_ids.astype(np.intp)]
    found = by_label(weights, labels, name="weights", of=f"the contexts ({listed(context)})" if context else "the rows")
    return context_weights(data, found.to_numpy())


def dropped_items(read: PreferenceData, data: PreferenceData) -> tuple[str, ...]:
    """Items that were read and are not ranked."""
    return tuple(name for name in read.items if name not in data.items)


def influence_blocks(
    data: PreferenceData, clusters: Clusters | None, verdicts: Verdicts | None = None
) -> tuple[InfluenceBlocks, IntArray | None]:
    """Blocks of the correction, and the annotator of each where annotators are clusters; verdicts are nobody's."""
    if clusters is None or clusters.annotator is None:
        return blocks_by_context(data), None
    return blocks_by_group(data, clusters.annotator, verdicts.cells.context if verdicts else None)


def supplied_mu(data: PreferenceData, mu: Any) -> SuppliedMu | None:
    """mu where the user supplied it, checked."""
    return None if mu is None else SuppliedMu(checked_mu(mu, data))


def take_verdicts(
    data: PreferenceData, source: Source, judge: Any, *, unlabelled: Any, context: tuple[str, ...], categories: Any
) -> Verdicts | None:
    """What judges said of the data's pairs; None without a judge."""
    if judge is None:
        return None
    data = with_columns(data, source.data, unlabelled, judge_columns(judge))
    return read_verdicts(judge, data, parse_formula(source.formula), context=context, categories=categories)
