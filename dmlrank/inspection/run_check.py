"""The check before a fit: everything that can be counted without training a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.warning_collection import collected_warnings
from ..data.contexts import repeated_values
from ..data.derived_pairs import DERIVED_KINDS
from ..data.formula.parse import names_in, parse_formula
from ..data.frames import column_names, require_columns
from ..data.graph import Graph
from ..data.outcomes import Categories, require_mirrored_worths
from ..data.plain_columns import name_of
from ..data.preferences import FloatArray, PreferenceData
from ..data.read_clusters import Clusters, cluster_columns, read_clusters
from ..data.read_votes import count_missing, preferences_of, take_rows
from ..data.unreadable import readable_rows
from ..exceptions import OptionError
from ..fit.display_order import OrderChoice, edges_of_option, order_by_counts
from ..fit.estimand import check_edge_weights, comparison_graph
from ..fit.inputs import warn_of_dependence
from ..fit.state import Source
from ..functionals import CategoryWeights
from ..options import Options
from ..report.statements import as_sentence
from .advice import find_problems
from .check import Check
from .cost import Cost
from .counts import balance_p_values, cluster_sizes, count_repeats, order_test, position_effect, win_shares
from .settings import settings_table
from .similar_names import similar_names
from .time_check import inspect_time


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """Data as a check has read them.

    preferences: Votes that can be read, with ordered pairs.
    missing_counts: By column: rows in which a needed value is missing.
    unreadable: A sentence about each kind of row that a fit refuses.
    n_unreadable: Number of these rows.
    notices: Warnings given while the data were read.
    """

    preferences: PreferenceData
    clusters: Clusters | None
    missing_counts: Mapping[str, int]
    unreadable: tuple[str, ...]
    n_unreadable: int
    notices: tuple[str, ...]


def inspect_data(source: Source, options: Options, *, time: str | None, period: str) -> Check:
    """Read data as a fit would, count what the page of a check shows, and report problems."""
    reading = _read_for_check(source, options, time)
    preferences = reading.preferences
    counts, min_labels = preferences.pair_counts(), options.min_labels
    if isinstance(options.position_bias, str):
        order = order_by_counts(counts, min_labels, edges_of_option(options.graph, preferences.n_items))
    else:
        order = OrderChoice(bool(options.position_bias))
    compared = comparison_graph(preferences if order.matters else preferences.unordered(), options.graph, min_labels)
    check_edge_weights(options.edge_weights, preferences, compared)
    total, square = win_shares(
        preferences.cells, np.array(CategoryWeights.half(preferences.n_categories).first), preferences.n_items
    )
    check = Check(
        formula=source.formula,
        context=options.context,
        min_labels=min_labels,
        position_bias=order.matters,
        order_reason=order.reason,
        edge_weights=options.edge_weights if isinstance(options.edge_weights, str) else "given",
        settings=_possible_settings(preferences, counts, min_labels),
        n_rows=preferences.n_rows,
        n_dropped=preferences.n_dropped - reading.n_unreadable,
        n_unreadable=reading.n_unreadable,
        n_contexts=preferences.n_contexts,
        n_unlabelled=preferences.n_unlabelled,
        n_votes=preferences.n_votes,
        n_comparisons=len(preferences.cells),
        features=preferences.feature_map.names,
        categories=preferences.categories,
        labels=_label_table(preferences, parse_formula(source.formula).outcome),
        models=_model_table(preferences, counts, total, compared),
        pairs=_pair_table(preferences, counts, total, compared),
        graph=compared,
        components=tuple(tuple(preferences.items[j] for j in part) for part in compared.components()),
        order=order_test(counts),
        position=position_effect(counts, total, square),
        repeats=count_repeats(preferences.cells),
        same_prompt=_repeated_features(preferences),
        clusters=_cluster_table(reading.clusters),
        missing=pd.Series(reading.missing_counts, name="missing", dtype=int),
        similar_models=similar_names(preferences.items),
        cost=Cost.of(preferences, options.n_folds),
        problems=(),
        outcome_kind=preferences.outcome_kind,
        time=None
        if time is None
        else inspect_time(preferences, time, period, clusters=reading.clusters, by_order=order.matters),
    )
    problems = find_problems(
        check, preferences, options.graph, missing=options.missing, n_folds=options.n_folds, notices=reading.notices
    )
    of_worths = () if order.matters else _problem_of_worths(options.categories)
    return replace(check, problems=(*of_worths, *reading.unreadable, *problems))


def _problem_of_worths(categories: Categories | None) -> tuple[str, ...]:
    """Return a sentence where the worths of grades are refused by a fit that joins the display orders."""
    try:
        require_mirrored_worths(categories)
    except OptionError as error:
        return (as_sentence(str(error)),)
    return ()


def _read_for_check(source: Source, options: Options, time: str | None) -> _Reading:
    """Read data as a fit would, without the rows that a fit refuses."""
    available = column_names(source.data)
    features = names_in(parse_formula(source.formula).features).values
    further = () if time is None else (time,)
    require_columns(further, available, "time=")
    rows = take_rows(
        source.formula,
        source.data,
        source.environment,
        context=options.context,
        groups=cluster_columns(options.clusters, available),
        optional=(*features, *further),
    )
    missing_counts = count_missing(rows)
    readable, unreadable = readable_rows(rows, options.categories)
    with collected_warnings() as notices:
        preferences = preferences_of(
            readable,
            source.environment,
            categories=options.categories,
            missing="keep" if options.missing == "keep" else "drop",
            votes=options.votes,
        )
        clusters = read_clusters(preferences, options.clusters, options.context)
        warn_of_dependence(preferences, clusters, options.context)
    n_unreadable = len(rows.table) - len(readable.table)
    return _Reading(preferences, clusters, missing_counts, unreadable, n_unreadable, tuple(map(str, notices)))


def _possible_settings(data: PreferenceData, counts: NDArray[np.int64], min_labels: int) -> pd.DataFrame:
    """Return the table of settings; without those that model display order, where pairs have none.

    Shapes: counts (K, K).
    """
    table = settings_table(counts, data.pair_votes(), min_labels)
    return table[~table["position_bias"]].reset_index(drop=True) if data.outcome_kind in DERIVED_KINDS else table


def _label_table(data: PreferenceData, outcome: str) -> pd.DataFrame:
    """Return a row per label with its meaning, votes and share; columns of probabilities have no labels to count."""
    table = pd.DataFrame(data.labels, columns=["label", "read_as"])
    if data.outcome_kind in DERIVED_KINDS:
        n_tied = int(data.vote_y[:, 2:].sum())
        table["votes"] = [data.n_votes - n_tied, n_tied][: len(table)]
        table["share"] = table["votes"] / data.n_votes
        return table
    raw = data.columns[outcome][data.vote_row] if outcome in data.columns else np.empty(0)
    votes = pd.Series([name_of(label) for label in raw], dtype=object).value_counts()
    table["votes"] = votes.reindex(table["label"]).fillna(0).to_numpy(dtype=int)
    table["share"] = table["votes"] / data.n_votes
    return table


def _model_table(data: PreferenceData, counts: NDArray[np.int64], total: FloatArray, graph: Graph) -> pd.DataFrame:
    """Return the table of models of a check.

    Shapes: counts (K, K), total (K, K).
    """
    votes = data.pair_votes()
    n_contexts = (counts + counts.T).sum(axis=1)
    component = np.empty(data.n_items, dtype=int)
    for number, part in enumerate(graph.components(), start=1):
        component[part] = number
    wins = total.sum(axis=1) + (counts - total).sum(axis=0)
    return pd.DataFrame(
        {
            "contexts": n_contexts,
            "votes": (votes + votes.T).sum(axis=1),
            "opponents": graph.degrees,
            "share_first": _ratio(counts.sum(axis=1), n_contexts),
            "win_share": _ratio(wins, n_contexts),
            "component": component,
        },
        index=pd.Index(data.items, name="model"),
    )


def _pair_table(data: PreferenceData, counts: NDArray[np.int64], total: FloatArray, graph: Graph) -> pd.DataFrame:
    """Return the table of unordered pairs of a check."""
    first, second = np.triu_indices(data.n_items, 1)
    n_first, n_second = counts[first, second], counts[second, first]
    votes = data.pair_votes()
    names = np.array(data.items, dtype=object)
    wins = total[first, second] + n_second - total[second, first]
    return pd.DataFrame(
        {
            "first": names[first],
            "second": names[second],
            "contexts": n_first + n_second,
            "shown_first": n_first,
            "shown_second": n_second,
            "votes": votes[first, second] + votes[second, first],
            "share_first": _ratio(n_first, n_first + n_second),
            "p_balanced": balance_p_values(n_first, n_second),
            "win_share": _ratio(wins, n_first + n_second),
            "compared": graph.edges[first, second],
        }
    )


def _ratio(part: NDArray[np.generic], total: NDArray[np.int64]) -> FloatArray:
    """Return the parts divided by their totals; NaN where a total is zero."""
    return np.divide(part, total, out=np.full(len(total), np.nan), where=total > 0)


def _repeated_features(data: PreferenceData) -> dict[str, int]:
    """Return by feature how many contexts repeat a value of another context, for features that identify a prompt."""
    variables = [name for name in data.feature_map.variables if name in data.columns]
    repeats = {name: count for name, count in repeated_values(data.context_table(variables)).items() if count}
    shared = data.shared_texts
    return repeats if shared is None else repeats | dict.fromkeys(shared.names, shared.n_repeats)


def _cluster_table(clusters: Clusters | None) -> pd.DataFrame:
    """Return the number and sizes of clusters by grouping column."""
    rows = {}
    if clusters is not None:
        codes = [(clusters.of_context, "contexts")]
        codes += [(clusters.second_of_context, "contexts")] if clusters.second_of_context is not None else []
        codes += [(clusters.of_vote, "votes")] if clusters.of_vote is not None else []
        rows = {name: (*cluster_sizes(code), of) for name, (code, of) in zip(clusters.names, codes, strict=True)}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["clusters", "smallest", "median", "largest", "of"])
