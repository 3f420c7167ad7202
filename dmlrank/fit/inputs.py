"""The inputs of a fit's first stages: data, estimand, clusters, weights of contexts, verdicts and number of folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from .._utils.warning_collection import warn
from ..data.alignment import align_by_index, row_index
from ..data.formula.parse import parse_formula
from ..data.frames import column_names
from ..data.learnt_features import LearntFeatures
from ..data.outcomes import Categories, require_mirrored_worths
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters, cluster_columns, context_weights, read_clusters
from ..data.read_votes import read_preferences, with_columns
from ..data.shared_texts import warn_of_shared_texts
from ..data.style_differences import StyleDifferences, read_style_differences
from ..estimation.cross_fitting import SuppliedMu
from ..estimation.folds import FoldUnits
from ..estimation.influence import InfluenceBlocks, blocks_by_context, blocks_by_group
from ..exceptions import DataError, listed
from ..functionals.linear_scores import LinkedScore
from ..nuisance.outcome_model.user_learners import checked_mu
from ..nuisance.propensity_model.supplied import propensity_columns
from ..nuisance.verdicts import Verdicts, judge_columns, read_verdicts
from ..options import Options
from ..style_adjustment import BalancedStyle, EqualStyle
from .balanced_votes import BalancedVotes, check_balanced_clusters, keep_balanced_votes, match_balanced_votes
from .cache import Cache
from .display_order import OrderChoice, choose_order, in_chosen_order
from .estimand import Setup, comparison_graph, restrict_items, set_up
from .estimators import estimator_named
from .extrapolation import Extrapolation, find_extrapolation
from .fold_units import fold_units
from .state import Source
from .votes_used import warn_of_votes_left_out


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Everything that all repetitions of a fit share.

    data: Votes on the ranked items.
    order: Whether display order matters.
    dropped: Items that were read and are not ranked.
    setup: The functional, bound to the graph of compared pairs and to category weights.
    extrapolation: The pairs that the scores use although they have no label.
    context_weight (n,): Weights of the contexts in the target population; None where these are equal.
    blocks: The sets of votes over which influence values are summed.
    annotator (q,): The annotator of each block where annotators are clusters.
    supplied_mu: mu where the user supplied it.
    n_folds: Folds of the cross-fitting, at most as many as there are clusters.
    fold_units: The units that are dealt to folds.
    style: Style differences of the votes, for scores at equal style.
    balanced: The votes that count beside all votes, for battles of equal style.
    """

    data: PreferenceData
    order: OrderChoice
    dropped: tuple[str, ...]
    setup: Setup
    extrapolation: Extrapolation
    clusters: Clusters | None
    context_weight: FloatArray | None
    verdicts: Verdicts | None
    blocks: InfluenceBlocks
    annotator: IntArray | None
    supplied_mu: SuppliedMu | None
    n_folds: int
    fold_units: FoldUnits
    style: StyleDifferences | None = None
    balanced: BalancedVotes | None = None


class ReadingOptions(NamedTuple):
    """The options that the reading of the data depends on.

    context, categories, missing, votes: As in :func:`dmlrank.dml_rank`.
    clusters: Columns of clusters.
    propensity, weights: Columns that hold propensities, and weights of the contexts.
    style: Columns with style differences.
    """

    context: tuple[str, ...]
    categories: Categories | None
    missing: str
    votes: str
    clusters: tuple[str, ...]
    propensity: str | None
    weights: str | None
    style: tuple[str, ...]

    @classmethod
    def of(cls, options: Options) -> ReadingOptions:
        """Take the values from the options of a fit."""
        return cls(
            options.context,
            options.categories,
            options.missing,
            options.votes,
            options.clusters,
            options.propensity_column,
            options.weights_column,
            options.style_columns,
        )


def read_source(
    source: Source,
    reading: ReadingOptions,
    *,
    extra_columns: tuple[str, ...] | None = (),
    learnt: LearntFeatures | None = None,
) -> PreferenceData:
    """Read the user's frame.

    If an update changes ``extra_columns`` only, the frame is not read again here: the data of the earlier fit are used,
    and a step that needs a missing column reads this column from the frame.
    """
    return read_preferences(
        source.formula,
        source.data,
        source.environment,
        context=reading.context,
        categories=reading.categories,
        missing=reading.missing,
        votes=reading.votes,
        groups=(
            *cluster_columns(reading.clusters, column_names(source.data)),
            *([reading.weights] if reading.weights else []),
        ),
        propensity=reading.propensity,
        style=reading.style,
        optional=extra_columns,
        learnt=learnt,
    )


def columns_of_later_steps(options: Options) -> tuple[str, ...] | None:
    """Return the columns that judges and propensities need; None for every column."""
    judges = judge_columns(options.judge)
    propensities = propensity_columns(options.propensity)
    return None if judges is None or propensities is None else (*judges, *propensities)


def prepare_inputs(cache: Cache, data_as_read: PreferenceData, source: Source, options: Options) -> Inputs:
    """Derive the inputs of the first stages from the data that were read.

    With the cache of an earlier fit, a step runs only if one of its arguments has changed.
    """
    data, order, balanced = _votes_that_count(cache, data_as_read, options)
    setup, extrapolation = _estimand(cache, data, order, options)
    clusters = cache.call(read_clusters, data, options.clusters, options.context)
    cache.call(warn_of_dependence, data, clusters, options.context)
    context_weight = cache.call(weights_by_context, data, options.weights, source=source, context=options.context)
    verdicts = cache.call(
        verdicts_on_pairs,
        data,
        source,
        options.judge,
        context=options.context,
        categories=options.categories,
    )
    style = _style_differences(cache, data, setup, options)
    blocks, annotator = cache.call(influence_blocks, data, clusters, verdicts)
    if isinstance(options.adjust, BalancedStyle):
        check_balanced_clusters(options.adjust, annotator)
    mu = cache.call(supplied_mu, data, options.mu)
    are_used = folds_are_used(data, options, mu, verdicts)
    n_folds = cache.call(number_of_folds, data, clusters, n_folds=options.n_folds, are_used=are_used)
    units = cache.call(fold_units, data, clusters, n_folds=n_folds, are_used=are_used)
    return Inputs(
        data,
        order,
        dropped_items(data_as_read, data),
        setup,
        extrapolation,
        clusters,
        context_weight,
        verdicts,
        blocks,
        annotator,
        mu,
        n_folds,
        units,
        style,
        balanced,
    )


def _votes_that_count(
    cache: Cache, data_as_read: PreferenceData, options: Options
) -> tuple[PreferenceData, OrderChoice, BalancedVotes | None]:
    """Return the votes on the ranked items that count, their display order, and their match among all votes."""
    if not isinstance(options.adjust, BalancedStyle):
        return *_ranked_data(cache, data_as_read, options), None
    data, order = _ranked_data(cache, cache.call(keep_balanced_votes, data_as_read, options.adjust), options)
    every = cache.slot("all votes").call(in_chosen_order, data_as_read, order)
    return data, order, cache.call(match_balanced_votes, data, every, options.adjust)


def _style_differences(cache: Cache, data: PreferenceData, setup: Setup, options: Options) -> StyleDifferences | None:
    """Return the style differences of the votes; None where scores are not adjusted to equal style."""
    if not isinstance(options.adjust, EqualStyle):
        return None
    # Functionals and category weights without a link are refused before anything is fitted.
    LinkedScore.of(setup.functional, data.n_items, data.ordered)
    return cache.call(read_style_differences, data, options.style_columns)


def _ranked_data(cache: Cache, data_as_read: PreferenceData, options: Options) -> tuple[PreferenceData, OrderChoice]:
    """Return the votes on the ranked items, and whether their display order matters."""
    order = cache.call(
        choose_order,
        data_as_read,
        options.position_bias,
        options.graph,
        min_labels=options.min_labels,
        category_weights=options.category_weights,
        propensity=options.propensity,
        mu=options.mu,
    )
    if not order.matters:
        require_mirrored_worths(options.categories)
    data = cache.call(in_chosen_order, data_as_read, order)
    data = cache.call(
        restrict_items,
        data,
        options.graph,
        min_labels=options.min_labels,
        component=options.component,
    )
    return data, order


def _estimand(cache: Cache, data: PreferenceData, order: OrderChoice, options: Options) -> tuple[Setup, Extrapolation]:
    """Return the estimand, and which pairs it extrapolates; warn of votes that it does not use."""
    estimator = estimator_named(options.estimator)
    graph = cache.call(comparison_graph, data, options.graph, options.min_labels)
    setup = cache.call(
        set_up,
        data,
        graph,
        min_labels=options.min_labels,
        edge_weights=options.edge_weights,
        category_weights=options.category_weights,
        functional=estimator.functional(options.functional),
    )
    extrapolation = cache.call(
        find_extrapolation,
        data,
        setup.functional,
        setup.graph,
        min_labels=options.min_labels,
        propensity=options.propensity,
    )
    cache.call(warn_of_votes_left_out, data, graph, options.graph, min_labels=options.min_labels, order=order)
    estimator.check_outcomes(setup.weights, data.categories)
    return setup, extrapolation


def warn_of_dependence(data: PreferenceData, clusters: Clusters | None, context: tuple[str, ...]) -> None:
    """Warn where contexts share a text and are not in the same cluster."""
    groups = (
        []
        if clusters is None
        else [group for group in (clusters.of_context, clusters.second_of_context) if group is not None]
    )
    warn_of_shared_texts(data.shared_texts, groups, context)


def weights_by_context(
    data: PreferenceData, weights: object, *, source: Source, context: tuple[str, ...]
) -> FloatArray | None:
    """Return the weights of the contexts; None where these are equal.

    Shapes: weights (n,).
    """
    if not isinstance(weights, pd.Series):
        return context_weights(data, weights)
    labels = pd.Index(list(data.context_ids))
    if not context:
        labels = row_index(source.data, data.n_rows)[data.context_ids.astype(np.intp)]
    contexts = f"the contexts ({listed(context)})" if context else "the rows"
    return context_weights(data, align_by_index(weights, labels, name="weights", of=contexts).to_numpy())


def dropped_items(data_as_read: PreferenceData, data: PreferenceData) -> tuple[str, ...]:
    """Return the items that were read and are not ranked."""
    return tuple(name for name in data_as_read.items if name not in data.items)


def influence_blocks(
    data: PreferenceData, clusters: Clusters | None, verdicts: Verdicts | None = None
) -> tuple[InfluenceBlocks, IntArray | None]:
    """Return the influence blocks and, where annotators are clusters, the annotator of each block, (q,).

    Verdicts of judges belong to no annotator.
    """
    if clusters is None or clusters.of_vote is None:
        return blocks_by_context(data), None
    return blocks_by_group(data, clusters.of_vote, verdicts.cells.context if verdicts else None)


def supplied_mu(data: PreferenceData, mu: object) -> SuppliedMu | None:
    """Return the probabilities that the user supplied, checked; None where they are estimated."""
    return None if mu is None else SuppliedMu(checked_mu(mu, data))


def verdicts_on_pairs(
    data: PreferenceData,
    source: Source,
    judge: object,
    *,
    context: tuple[str, ...],
    categories: Categories | None,
) -> Verdicts | None:
    """Return the verdicts of judges on the data's pairs; None without a judge."""
    if judge is None:
        return None
    data = with_columns(data, source.data, judge_columns(judge))
    return read_verdicts(judge, data, parse_formula(source.formula), context=context, categories=categories)


def folds_are_used(data: PreferenceData, options: Options, mu: SuppliedMu | None, verdicts: Verdicts | None) -> bool:
    """Whether anything is learnt by fold: mu, the verdicts of judges, propensities from features, or style."""
    has_features = data.x.shape[1] > 0 or options.propensity_formula is not None
    learns_style = options.adjust is not None
    return mu is None or verdicts is not None or learns_style or (options.estimates_propensity and has_features)


def number_of_folds(data: PreferenceData, clusters: Clusters | None, *, n_folds: int, are_used: bool) -> int:
    """Return the number of folds: ``n_folds``, or the number of clusters where these are fewer, with a warning.

    A cluster is never split, so that there cannot be more folds than clusters. Cross-fitting is valid with any number
    of folds from two on; with fewer folds the learners are trained on a smaller share of the data.
    """
    unit = data.seed_order if clusters is None else clusters.of_context
    n_units = len(np.unique(unit))
    if not are_used:
        return min(n_folds, n_units)
    if clusters is None or n_units >= n_folds:
        return n_folds
    name = clusters.names[0]
    if n_units < 2:
        raise DataError(
            f"all contexts are in one cluster of {name!r}: cross-fitting and standard errors need at least two "
            f"clusters; name a column with more values in cov_kwds, or leave cov_type='cluster' out"
        )
    warn(
        f"n_folds={n_folds} is more than the {n_units} clusters of {name!r}, and a cluster is never split: "
        f"{n_units} folds are used, and the learners are trained on {n_units - 1} of {n_units} clusters; "
        f"pass n_folds={n_units} to use the same folds without this warning",
        stacklevel=2,
    )
    return n_units
