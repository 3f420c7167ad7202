"""What a fit knows before its first stages: data, what is estimated, clusters, weights, verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..data.formula.parse import parse_formula
from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters, context_weights, read_clusters
from ..data.read_votes import read_preferences
from ..estimation.bt_restricted import check_restricted_categories
from ..estimation.cross_fitting import GivenMu
from ..estimation.influence import InfluenceBlocks
from ..nuisance.judge.verdicts import Verdicts, read_verdicts
from ..nuisance.outcome_model.supplied import checked_mu
from ..options import Options
from .estimand import Setup, comparison_graph, restrict_items, set_up
from .state import Memory, Source, influence_blocks


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Everything that all repetitions of a fit share.

    ``dropped`` are items that were read and are not ranked, ``weight`` is that of the contexts, ``given`` is mu where
    the user handed it in.
    """

    data: PreferenceData
    dropped: tuple[str, ...]
    graph: Graph
    setup: Setup
    clusters: Clusters | None
    weight: FloatArray | None
    verdicts: Verdicts | None
    blocks: InfluenceBlocks
    annotator: IntArray | None
    given: GivenMu | None


def gather(memory: Memory, read: PreferenceData, source: Source, o: Options) -> Inputs:
    """Restrict, bind and check what was read, each step redone only when something that it depends on has changed."""
    restriction = (read, o.graph, o.min_labels, o.component, o.min_comparisons)
    data = memory.step("items", restriction, lambda: restrict_items(*restriction))
    dropped = tuple(name for name in read.items if name not in data.items)
    graph = memory.step("graph", (data, o.graph, o.min_labels), lambda: comparison_graph(data, o.graph, o.min_labels))
    restricted = o.estimator == "bt_restricted"
    functional = "bt" if restricted and o.functional == "borda" else o.functional
    binding = (data, graph, o.min_labels, o.edge_weights, o.category_weights, functional)
    setup = memory.step("setup", binding, lambda: set_up(*binding))
    if restricted:
        check_restricted_categories(setup.weights, data.categories)
    clusters = memory.step("clusters", (data, o.groups, o.context), lambda: read_clusters(data, o.groups, o.context))
    weight = memory.step("weights", (data, o.weights), lambda: context_weights(data, o.weights))
    verdicts = memory.step(
        "verdicts",
        (data, o.judge, o.context, o.categories),
        lambda: _verdicts(data, source, o) if o.judge is not None else None,
    )
    blocks, annotator = memory.step(
        "blocks", (data, clusters, verdicts), lambda: influence_blocks(data, clusters, verdicts)
    )
    given = memory.step("given mu", (data, o.mu), lambda: None if o.mu is None else GivenMu(checked_mu(o.mu, data)))
    return Inputs(data, dropped, graph, setup, clusters, weight, verdicts, blocks, annotator, given)


def reading_options(o: Options) -> tuple[Any, ...]:
    """The options that reading the data depends on."""
    return (o.context, o.categories, o.missing, o.votes, o.unlabelled, o.position_bias, *_columns(o))


def _columns(o: Options) -> tuple[tuple[str, ...], str | None, str | None]:
    """Columns beside the formula's: groups, propensity, weights."""
    return tuple(name for name in o.groups if name != "context"), o.propensity_column, o.weights_column


def read_source(source: Source, o: Options) -> PreferenceData:
    """Read what the options ask for."""
    groups, propensity, weights = _columns(o)
    data = read_preferences(
        source.formula,
        source.data,
        source.environment,
        context=o.context,
        categories=o.categories,
        missing=o.missing,
        votes=o.votes,
        unlabelled=o.unlabelled,
        groups=(*groups, *([weights] if weights else [])),
        propensity=propensity,
    )
    return data if o.position_bias else data.unordered()


def _verdicts(data: PreferenceData, source: Source, o: Options) -> Verdicts:
    formula = parse_formula(source.formula)
    return read_verdicts(o.judge, data, formula, source.data, o.unlabelled, o.context, o.categories)
