"""The check before a fit: what can be known without training anything on the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import EvalEnvironment

from .._utils.warning_collection import collected_warnings
from ..data.contexts import repeated_values
from ..data.formula.parse import names_in, parse_formula
from ..data.frames import column_names, name_of
from ..data.graph import Graph
from ..data.preferences import FloatArray, PreferenceData
from ..data.read_clusters import Clusters, cluster_columns, read_clusters
from ..data.read_votes import count_missing, preferences_of, take_rows
from ..data.unreadable import readable_rows
from ..fit.display_order import OrderChoice, edges_of_option, order_by_counts
from ..fit.estimand import check_edge_weights, comparison_graph
from ..fit.inputs import warn_of_dependence
from ..functionals import CategoryWeights
from .advice import find_problems
from .check import Check
from .cost import Cost
from .counts import balance_p_values, cluster_sizes, count_repeats, order_test, position_effect, win_shares
from .settings import settings_table
from .similar_names import similar_names


def inspect_data(
    formula: str,
    data: Any,
    environment: EvalEnvironment,
    *,
    context: Sequence[str],
    categories: Mapping[Any, str] | None,
    min_labels: int,
    missing: str,
    groups: Sequence[str],
    n_folds: int,
    position_bias: bool | str,
    graph: Any,
    edge_weights: Any,
    votes: str,
) -> Check:
    """Look at data as a fit would read them; parameters are those of :func:`dmlrank.check`."""
    columns = cluster_columns(groups, column_names(data))
    features = names_in(parse_formula(formula).features).values
    rows = take_rows(formula, data, environment, context=context, groups=columns, optional=features)
    lacking = count_missing(rows)
    readable, unreadable = readable_rows(rows, categories)
    kept = "keep" if missing == "keep" else "drop"
    with collected_warnings() as notices:
        read = preferences_of(readable, environment, categories=categories, missing=kept, votes=votes)
        clusters = read_clusters(read, tuple(groups), tuple(context))
        warn_of_dependence(read, clusters, tuple(context))
    order = _read_order(read, position_bias, graph, min_labels)
    compared = _read_graph(read, position_bias=order.matters, graph=graph, min_labels=min_labels)
    check_edge_weights(edge_weights, read, compared)
    found = _found(
        read,
        clusters,
        lacking,
        formula=formula,
        context=tuple(context),
        min_labels=min_labels,
        n_folds=n_folds,
        order=order,
        graph=compared,
        edge_weights=edge_weights if isinstance(edge_weights, str) else "given",
        n_unreadable=len(rows.table) - len(readable.table),
    )
    problems = find_problems(found, read, graph, missing=missing, n_folds=n_folds, notices=tuple(map(str, notices)))
    return replace(found, problems=(*unreadable, *problems))


def _read_order(read: PreferenceData, position_bias: bool | str, graph: Any, min_labels: int) -> OrderChoice:
    """Whether display order would matter in a fit, by counts alone."""
    if not isinstance(position_bias, str):
        return OrderChoice(bool(position_bias))
    return order_by_counts(read.pair_counts(), min_labels, edges_of_option(graph, read.n_items))


def _read_graph(read: PreferenceData, *, position_bias: bool, graph: Any, min_labels: int) -> Graph:
    """The pairs that a fit would use."""
    return comparison_graph(read if position_bias else read.unordered(), graph, min_labels)


def _found(
    read: PreferenceData,
    groups: Clusters | None,
    lacking: Mapping[str, int],
    *,
    formula: str,
    context: tuple[str, ...],
    min_labels: int,
    n_folds: int,
    order: OrderChoice,
    graph: Graph,
    edge_weights: str,
    n_unreadable: int,
) -> Check:
    """Everything but the problems."""
    counts, worth = read.pair_counts(), np.array(CategoryWeights.half(read.n_categories).first)
    total, square = win_shares(read.cells, worth, read.n_items)
    parts = graph.components()
    return Check(
        formula=formula,
        context=context,
        min_labels=min_labels,
        position_bias=order.matters,
        order_reason=order.reason,
        edge_weights=edge_weights,
        settings=settings_table(counts, read.pair_votes(), min_labels),
        n_rows=read.n_rows,
        n_dropped=read.n_dropped - n_unreadable,
        n_unreadable=n_unreadable,
        n_contexts=read.n_contexts,
        n_unlabelled=read.n_unlabelled,
        n_votes=read.n_votes,
        n_comparisons=len(read.cells),
        features=read.feature_map.names,
        categories=read.categories,
        labels=_labels(read, parse_formula(formula).outcome),
        models=_models(read, counts, total, graph),
        pairs=_pairs(read, counts, total, graph),
        graph=graph,
        components=tuple(tuple(read.items[j] for j in part) for part in parts),
        order=order_test(counts),
        position=position_effect(counts, total, square),
        repeats=count_repeats(read.cells),
        same_prompt=_same_prompt(read),
        clusters=_clusters(groups),
        missing=pd.Series(lacking, name="missing", dtype=int),
        similar_models=similar_names(read.items),
        cost=Cost.of(read, n_folds),
        problems=(),
    )


def _labels(read: PreferenceData, outcome: str) -> pd.DataFrame:
    # Columns of probabilities have no label that could be counted.
    raw = read.columns[outcome][read.vote_row] if outcome in read.columns else np.empty(0)
    votes = pd.Series([name_of(label) for label in raw], dtype=object).value_counts()
    table = pd.DataFrame(read.labels, columns=["label", "read_as"])
    table["votes"] = votes.reindex(table["label"]).fillna(0).to_numpy(dtype=int)
    table["share"] = table["votes"] / read.n_votes
    return table


def _models(read: PreferenceData, counts: NDArray[np.int64], total: FloatArray, graph: Graph) -> pd.DataFrame:
    votes = read.pair_votes()
    shown = (counts + counts.T).sum(axis=1)
    component = np.empty(read.n_items, dtype=int)
    for number, part in enumerate(graph.components(), start=1):
        component[part] = number
    won = total.sum(axis=1) + (counts - total).sum(axis=0)
    return pd.DataFrame(
        {
            "contexts": shown,
            "votes": (votes + votes.T).sum(axis=1),
            "opponents": graph.degrees,
            "share_first": _share(counts.sum(axis=1), shown),
            "win_share": _share(won, shown),
            "component": component,
        },
        index=pd.Index(read.items, name="model"),
    )


def _pairs(read: PreferenceData, counts: NDArray[np.int64], total: FloatArray, graph: Graph) -> pd.DataFrame:
    first, second = np.triu_indices(read.n_items, 1)
    one, other = counts[first, second], counts[second, first]
    votes = read.pair_votes()
    names = np.array(read.items, dtype=object)
    won = total[first, second] + other - total[second, first]
    return pd.DataFrame(
        {
            "first": names[first],
            "second": names[second],
            "contexts": one + other,
            "shown_first": one,
            "shown_second": other,
            "votes": votes[first, second] + votes[second, first],
            "share_first": _share(one, one + other),
            "p_balanced": balance_p_values(one, other),
            "win_share": _share(won, one + other),
            "compared": graph.edges[first, second],
        }
    )


def _share(part: NDArray[Any], whole: NDArray[Any]) -> FloatArray:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)


def _same_prompt(read: PreferenceData) -> dict[str, int]:
    repeated = repeated_values(
        read.context_table([name for name in read.feature_map.variables if name in read.columns])
    )
    found = {name: count for name, count in repeated.items() if count}
    shared = read.shared_texts
    return found if shared is None else found | dict.fromkeys(shared.names, shared.n_repeats)


def _clusters(groups: Clusters | None) -> pd.DataFrame:
    rows = {}
    if groups is not None:
        codes = [(groups.prompt, "contexts")]
        codes += [(groups.other, "contexts")] if groups.other is not None else []
        codes += [(groups.annotator, "votes")] if groups.annotator is not None else []
        rows = {name: (*cluster_sizes(code), of) for name, (code, of) in zip(groups.names, codes, strict=True)}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["clusters", "smallest", "median", "largest", "of"])
