"""What a fit takes from the user's frame: votes, verdicts, units of dependence, and units that are dealt to folds."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._utils.warning_collection import warn
from ..data.columns import align_by_index, row_index
from ..data.contexts import IdentityNumbers, identity_numbers
from ..data.equal_values import join_shared, warn_of_shared_texts
from ..data.formula.parse import parse_formula
from ..data.frames import column_names
from ..data.preferences import FloatArray, IntArray, LearntFeatures, PreferenceData
from ..data.read_votes import read_preferences, with_columns
from ..data.vote_columns import Clusters, cluster_columns, context_weights, read_clusters
from ..estimation.folds import FoldUnits
from ..estimation.influence import blocks_by_context, blocks_by_group
from ..exceptions import DataError, listed
from ..nuisance.propensity_model.supplied import propensity_columns
from ..nuisance.verdicts import Verdicts, judge_columns, read_verdicts
from ..options import Options
from .state import Source, Units


def reading_options(options: Options) -> tuple[object, ...]:
    """Return the values of options on which the data that are read depend."""
    o = options
    columns = (o.clusters, o.propensity_column, o.weights_column, o.style_columns)
    return (o.context, o.categories, o.missing, o.votes, *columns)


def read_source(
    source: Source,
    options: Options,
    *,
    extra_columns: tuple[str, ...] | None = (),
    learnt: LearntFeatures | None = None,
) -> PreferenceData:
    """Read the user's frame; a step that later needs a column which was not read reads it from the frame."""
    clusters = cluster_columns(options.clusters, column_names(source.data))
    return read_preferences(
        source.formula,
        source.data,
        source.environment,
        context=options.context,
        categories=options.categories,
        missing=options.missing,
        votes=options.votes,
        groups=(*clusters, options.weights_column) if options.weights_column else clusters,
        propensity=options.propensity_column,
        style=options.style_columns,
        optional=extra_columns,
        learnt=learnt,
    )


def columns_of_later_steps(options: Options) -> tuple[str, ...] | None:
    """Return the columns that judges and propensities need; None for every column."""
    judges = judge_columns(options.judge)
    propensities = propensity_columns(options.propensity)
    return None if judges is None or propensities is None else (*judges, *propensities)


def verdicts_on_pairs(data: PreferenceData, source: Source, options: Options) -> Verdicts:
    """Return the verdicts of judges on the data's pairs."""
    data = with_columns(data, source.data, judge_columns(options.judge))
    formula, context, categories = parse_formula(source.formula), options.context, options.categories
    return read_verdicts(options.judge, data, formula, context=context, categories=categories)


def read_units(
    data: PreferenceData, source: Source, options: Options, verdicts: Verdicts | None, *, weighted: bool = True
) -> Units:
    """Read clusters and weights of contexts, and divide the votes into influence blocks.

    Verdicts of judges belong to no annotator.
    """
    clusters = read_clusters(data, options.clusters, options.context)
    warn_of_dependence(data, clusters, options.context)
    weight = weights_by_context(data, source, options) if weighted else None
    if clusters is None or clusters.of_vote is None:
        return Units(blocks_by_context(data), clusters, None, weight)
    blocks, annotator = blocks_by_group(data, clusters.of_vote, verdicts.cells.context if verdicts else None)
    return Units(blocks, clusters, annotator, weight)


def warn_of_dependence(data: PreferenceData, clusters: Clusters | None, context: tuple[str, ...]) -> None:
    """Warn where contexts share a text and are not in the same cluster."""
    groups = [] if clusters is None else [clusters.of_context, clusters.second_of_context]
    warn_of_shared_texts(data.shared_texts, [group for group in groups if group is not None], context)


def weights_by_context(data: PreferenceData, source: Source, options: Options) -> FloatArray | None:
    """Return the weights of the contexts, (n,); None where these are equal."""
    weights, context = options.weights, options.context
    if not isinstance(weights, pd.Series):
        return context_weights(data, weights)
    labels = pd.Index(list(data.context_ids))
    if not context:
        labels = row_index(source.data, data.n_rows)[data.context_ids.astype(np.intp)]
    contexts = f"the contexts ({listed(context)})" if context else "the rows"
    return context_weights(data, align_by_index(weights, labels, name="weights", of=contexts).to_numpy())


def number_of_folds(data: PreferenceData, clusters: Clusters | None, *, n_folds: int, are_used: bool) -> int:
    """Return the number of folds: ``n_folds``, or the number of clusters where these are fewer, with a warning.

    A cluster is never split, so that there cannot be more folds than clusters. Cross-fitting is valid with any number
    of folds from two on; with fewer folds the learners are trained on a smaller share of the data.
    """
    n_units = len(np.unique(data.seed_order if clusters is None else clusters.of_context))
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


def fold_units(data: PreferenceData, clusters: Clusters | None, *, n_folds: int, are_used: bool = True) -> FoldUnits:
    """Return the units that are dealt to folds: contexts, or clusters of them; units that share a text are joined."""
    unit = data.seed_order if clusters is None else clusters.of_context
    noun = "contexts" if clusters is None else f"clusters of {clusters.names[0]!r}"
    identity = _numbers_of_units(data, clusters, unit) if are_used else unit.astype(np.uint64)
    joined = join_shared(unit, data.shared_texts, n_folds)
    if joined is not unit:
        smallest = np.full(int(joined.max()) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
        np.minimum.at(smallest, joined, identity)
        identity = smallest[joined]
    return FoldUnits(joined, identity, noun, None if clusters is None else clusters.of_context)


def _numbers_of_units(data: PreferenceData, clusters: Clusters | None, unit: IntArray) -> IdentityNumbers:
    """Return the number that stands for the identifier of each context's unit, (n,).

    Shapes: unit (n,).
    """
    # The word "context" among the columns of clusters stands for the contexts, unless a column has this name.
    if clusters is None or clusters.names[0] not in data.columns:
        return identity_numbers(data.context_ids)
    context_of_unit = np.full(int(unit.max()) + 1, -1)
    context_of_unit[unit] = np.arange(len(unit))
    is_present = context_of_unit >= 0
    cells = data.by_context(clusters.names[0])[context_of_unit[is_present]]
    numbers = np.zeros(len(context_of_unit), np.uint64)
    numbers[is_present] = identity_numbers(cells)
    return numbers[unit]
