"""The check before a fit: everything that can be counted without training a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from .._utils.computation import collected_warnings
from .._utils.laws import WaldLaw, normal_tail
from ..data.arrays import name_of
from ..data.columns import similar_names
from ..data.contexts import Rows, readable_rows, repeated_values
from ..data.derived_pairs import DERIVED_KINDS, DerivedPairs
from ..data.equal_values import warn_of_shared_texts
from ..data.formula.parse import names_in, parse_formula
from ..data.frames import column_names, count_copies, require_columns, take_columns
from ..data.graph import Graph, PairRule, VoteCounts, laplacian_inverse
from ..data.outcomes import COUNTS, WINNERS, require_mirrored_worths
from ..data.preferences import Cells, FloatArray, PreferenceData
from ..data.read_votes import missing_values, preferences_of, take_rows, warn_of_unequal_gaps
from ..data.vote_columns import FEW_CLUSTERS, Clusters, cluster_columns, effective_clusters, read_clusters
from ..exceptions import DataError, GraphError, OptionError
from ..fit.compared_pairs import check_edge_weights, choose_pairs, pairs_and_apart, restrict_items, votes_left_out
from ..fit.score_judges import grade_facts, read_judges
from ..fit.state import Source
from ..functionals import CategoryWeights
from ..options import EqualTasks, Options
from ..report.statements import as_sentence
from .advice import Found, find_errors, find_problems
from .check import Check, Cost, FirstPositionWins, OrderTest, Repeats, ScoreCheck


def inspect_data(source: Source, options: Options) -> Check:
    """Read data as a fit would, count what the page of a check shows, and report problems."""
    available, formula = column_names(source.data), parse_formula(source.formula)
    column, tasks = options.weights_column, None
    if column is not None:
        require_columns([column], available, "weights=")
        tasks = column if isinstance(options.weights, EqualTasks) else None
    with collected_warnings() as of_names:
        rows = take_rows(
            source.formula,
            source.data,
            source.environment,
            replace(options, missing="drop") if options.missing == "raise" else options,
            groups=cluster_columns(options.clusters, available),
            optional=names_in(formula.features).values,
        )
    # Without the rows that a fit refuses.
    readable, unreadable = readable_rows(rows)
    n_unreadable = len(rows.table) - len(readable.table)
    with collected_warnings() as notices:
        data = preferences_of(readable)
        if data.n_items < 2:
            raise DataError(
                f"check() looks at comparisons, and there is one model ({data.items[0]!r}); fit it: its mean needs none"
            )
        warn_of_unequal_gaps(source.data, options)
        clusters = read_clusters(data, options.clusters, options.context)
        groups = [] if clusters is None else [clusters.of_context, clusters.second_of_context]
        warn_of_shared_texts(data.shared_texts, groups, options.context)
    scores = None
    if isinstance(source.data, DerivedPairs) and source.data.rows is not None:
        fewest = options.pairs.min_votes if options.of_scores else 1
        scores = ScoreCheck.of(source.data.with_enough(fewest), formula, tasks)
        judges = read_judges(data, source.data.with_enough(fewest), options.judge)
        if judges is not None and data.scores is not None:
            scores = replace(scores, grades=tuple(grade_facts(judges, data.scores.mean)))
    order = choose_pairs(data, options)
    counts, min_labels = data.pair_counts(), order.min_labels
    of_fit = data if order.matters else data.unordered()
    compared, _ = pairs_and_apart(of_fit, options, min_labels)
    check_edge_weights(options.pairs.edge_weights, data, compared)
    # Sum and sum of squares of the shares that the item shown first won in every labelled cell, (K, K) each.
    share = data.cells.y @ np.array(CategoryWeights.half(data.n_categories).first)
    pair, size = data.cells.first * data.n_items + data.cells.second, (data.n_items, data.n_items)
    total, square = (np.bincount(pair, w, data.n_items**2).astype(float).reshape(size) for w in (share, share**2))
    settings = settings_table(counts, data.pair_votes(), min_labels)
    if data.outcome_kind in (*DERIVED_KINDS, WINNERS):
        # Pairs derived from scores or ranks have no display order, and columns of winners and losers say none.
        settings = settings[~settings["position_bias"]].reset_index(drop=True)
    missing_cells = {name: int(np.sum(mask)) for name, mask in missing_values(rows).items()}
    n_training_rows = round(len(data.cells) * (options.learning.n_folds - 1) / options.learning.n_folds)
    n_probabilities = data.n_contexts * data.n_items * (data.n_items - 1) * data.n_categories
    check = Check(
        formula=source.formula,
        context=options.context,
        min_labels=min_labels,
        position_bias=order.matters,
        order_reason=order.reason,
        edge_weights=options.pairs.edge_weights if isinstance(options.pairs.edge_weights, str) else "given",
        settings=settings,
        n_rows=data.n_rows,
        n_copies=0
        if rows.are_partitioned or scores is not None or data.outcome_kind == COUNTS
        else count_copies(source.data, formula.outcomes),
        n_dropped=data.n_dropped - n_unreadable,
        n_unreadable=n_unreadable,
        n_contexts=data.n_contexts,
        n_unlabelled=data.n_unlabelled,
        n_votes=data.n_votes,
        n_comparisons=len(data.cells),
        features=data.feature_map.names,
        categories=data.categories,
        labels=_label_table(data, formula.outcome, rows),
        models=_model_table(data, counts, total, compared),
        pairs=_pair_table(data, counts, total, compared),
        graph=compared,
        components=tuple(tuple(data.items[j] for j in part) for part in compared.components()),
        order=order_test(counts),
        position=position_effect(counts, total, square),
        repeats=_count_repeats(data.cells),
        same_prompt=_repeated_features(data),
        clusters=_cluster_table(clusters),
        missing=pd.Series(missing_cells, name="missing", dtype=int),
        similar_models=similar_names(data.items),
        cost=Cost(n_training_rows, n_probabilities, data.x.nbytes / 1e6),
        problems=(),
        errors=(),
        outcome_kind=data.outcome_kind,
        scores=scores,
    )
    errors = [*unreadable, *find_errors(Found(check, str(options.missing), options.learning.n_folds))]
    left_out = None
    try:
        if not order.matters:
            # A fit that joins the display orders refuses worths of grades that are not mirrored.
            require_mirrored_worths(options.categories)
        if scores is None:
            ranked = restrict_items(of_fit, options, min_labels)
            graph, _ = pairs_and_apart(ranked, options, min_labels)
            equal = check.edge_weights == "equal"
            left_out = votes_left_out(of_fit, ranked, graph, options, order, equal_weights=equal)
    except (OptionError, GraphError) as error:
        errors.insert(0, as_sentence(str(error)))
    shared = () if data.shared_texts is None else tuple(data.shared_texts.names)
    said = (*([str(left_out)] if left_out is not None else []), *map(str, notices))
    voters = () if rows.are_partitioned or scores is not None else _possible_voters(source, options, available, check)
    found = Found(check, str(options.missing), options.learning.n_folds, shared, said, voters)
    # What is said of names and labels comes first, because everything else depends on it.
    problems = (*(as_sentence(str(note)) for note in of_names), *find_problems(found))
    return replace(check, problems=(*errors, *problems), errors=tuple(errors))


def _possible_voters(source: Source, options: Options, available: Sequence[str], check: Check) -> tuple[str, ...]:
    """Return columns that may say who voted, where prompts are few: texts, each of which is in several rows."""
    if not check.context or check.n_contexts > FEW_CLUSTERS:
        return ()
    formula = parse_formula(source.formula)
    used = {formula.outcome, formula.first, formula.second, *names_in(formula.features).values, *options.context}
    table = take_columns(source.data, [name for name in available if name not in used])
    texts = [name for name in table.columns if pd.api.types.infer_dtype(table[name]) == "string"]
    return tuple(name for name in texts if FEW_CLUSTERS < table[name].nunique() <= len(table) / 2)


def _label_table(data: PreferenceData, outcome: str, rows: Rows) -> pd.DataFrame:
    """Return a row per label with its meaning, votes and share; columns of probabilities have no labels to count.

    Labels of ``rows`` that were not read come last.
    """
    table = pd.DataFrame(data.labels, columns=["label", "read_as"])
    if not outcome:
        return table.assign(votes=data.n_votes, share=1.0)
    if data.outcome_kind == COUNTS:
        places = [data.categories.index(meaning) if meaning in data.categories else -1 for meaning in table["read_as"]]
        table["votes"] = np.append(data.vote_y.sum(axis=0), 0)[places].astype(int)
        return table.assign(share=table["votes"] / data.n_votes)
    if data.outcome_kind in DERIVED_KINDS:
        n_tied = int(data.vote_y[:, 2:].sum())
        table["votes"] = [data.n_votes - n_tied, n_tied][: len(table)]
    else:
        raw = data.columns[outcome][data.vote_row] if outcome in data.columns else np.empty(0)
        votes = pd.Series([name_of(label) for label in raw], dtype=object).value_counts()
        table["votes"] = votes.reindex(table["label"]).fillna(0).to_numpy(dtype=int)
        if outcome in rows.roles and data.outcome_kind != "preferences":
            column = rows.roles[outcome].only(rows.labelled)
            found = pd.Series(np.bincount(column.codes), [name_of(level) for level in column.levels])
            unread = found[~found.index.isin(table["label"])].rename_axis("label").reset_index(name="votes")
            table = pd.concat([table, unread.assign(read_as="not read")], ignore_index=True) if len(unread) else table
    return table.assign(share=table["votes"] / data.n_votes)


def _model_table(data: PreferenceData, counts: NDArray[np.int64], total: FloatArray, graph: Graph) -> pd.DataFrame:
    """Return the table of models of a check; counts of votes (K, K)."""
    votes = data.pair_votes()
    n_contexts = (counts + counts.T).sum(axis=1)
    component = np.empty(data.n_items, dtype=int)
    for number, part in enumerate(graph.components(), start=1):
        component[part] = number
    wins = total.sum(axis=1) + (counts - total).sum(axis=0)
    with np.errstate(invalid="ignore"):  # A model without labels has no shares.
        share_first, win_share = counts.sum(axis=1) / n_contexts, wins / n_contexts
    return pd.DataFrame(
        {
            "comparisons": n_contexts,
            "votes": (votes + votes.T).sum(axis=1),
            "opponents": graph.degrees,
            "share_first": share_first,
            "win_share": win_share,
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
    with np.errstate(invalid="ignore"):  # A pair without labels has no shares.
        share_first, win_share = n_first / (n_first + n_second), wins / (n_first + n_second)
    return pd.DataFrame(
        {
            "first": names[first],
            "second": names[second],
            "contexts": n_first + n_second,
            "shown_first": n_first,
            "shown_second": n_second,
            "votes": votes[first, second] + votes[second, first],
            "share_first": share_first,
            "p_balanced": [
                scipy.stats.binomtest(a, a + b).pvalue if a + b else np.nan
                for a, b in zip(n_first.tolist(), n_second.tolist(), strict=True)
            ],
            "win_share": win_share,
            "compared": graph.edges[first, second],
        }
    )


def _repeated_features(data: PreferenceData) -> dict[str, int]:
    """Return by feature how many contexts repeat a value of another context, for features that identify a prompt."""
    variables = [name for name in data.feature_map.variables if name in data.columns]
    repeats = {name: count for name, count in repeated_values(data.context_table(variables)).items() if count}
    shared = data.shared_texts
    return repeats if shared is None else repeats | dict.fromkeys(shared.names, shared.n_repeats)


def _cluster_table(clusters: Clusters | None) -> pd.DataFrame:
    """Return the number, the effective number and the sizes of clusters by grouping column."""
    rows = {}
    if clusters is not None:
        groupings = [(clusters.of_context, "contexts"), (clusters.second_of_context, "contexts")]
        present = [(code, of) for code, of in [*groupings, (clusters.of_vote, "votes")] if code is not None]
        for name, (code, of) in zip(clusters.names, present, strict=True):
            sizes = np.unique(code, return_counts=True)[1]
            rows[name] = (
                len(sizes),
                effective_clusters(code),
                int(sizes.min()),
                float(np.median(sizes)),
                int(sizes.max()),
                of,
            )
    names = ["clusters", "effective", "smallest", "median", "largest", "of"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=names)


# --- counts -----------------------------------------------------------------------------------------------------------


def order_test(counts: NDArray[np.int64]) -> OrderTest:
    """Test whether display order is balanced in every pair; counts (K, K)."""
    first, second = np.nonzero(np.triu(counts + counts.T))
    n_first, n_second = counts[first, second], counts[second, first]
    statistic, df = float(((n_first - n_second) ** 2 / (n_first + n_second)).sum()), len(first)
    n_one_order = int((np.minimum(n_first, n_second) == 0).sum())
    return OrderTest(statistic, df, float(WaldLaw(df).tail(statistic)), n_one_order)


def position_effect(counts: NDArray[np.int64], total: FloatArray, square: FloatArray) -> FirstPositionWins:
    """Return how often the first position wins, over all pairs; counts, total, square (K, K)."""
    share = float(total.sum() / counts.sum())
    first, second = np.nonzero(np.triu(np.minimum(counts, counts.T) > 0))
    n = np.stack([counts[first, second], counts[second, first]]).astype(float)
    mean = np.stack([total[first, second], total[second, first]]) / n
    squares = np.stack([square[first, second], square[second, first]])
    if not n.size:
        return FirstPositionWins(share, np.nan, np.nan, np.nan)
    weight = n[0] * n[1] / n.sum(axis=0)
    weight /= weight.sum()
    variance = (squares - n * mean**2).sum() / max(n.sum() - n.size, 1.0)
    error = float(np.sqrt((weight**2 * (variance / n).sum(axis=0)).sum()) / 2)
    adjusted = float((weight * mean.mean(axis=0)).sum())
    p_value = float(2 * normal_tail(abs(adjusted - 0.5) / error)) if error > 0 else np.nan
    return FirstPositionWins(share, adjusted, error, p_value)


def _count_repeats(cells: Cells) -> Repeats:
    """Return how many contexts and cells have more than one vote, and how often votes on a cell agree."""
    votes = np.bincount(cells.context, weights=cells.n_votes)
    has_several = cells.n_votes > 1
    agreement = float((cells.y[has_several].max(axis=1) > 1 - 1e-9).mean()) if has_several.any() else np.nan
    return Repeats(int((votes > 1).sum()), int(votes.max()), int(has_several.sum()), agreement)


# --- choices of options -----------------------------------------------------------------------------------------------


def score_variances(labelled: NDArray[np.int64], rule: PairRule, edge_weights: str) -> FloatArray | None:
    r"""Return variances of Bradley-Terry scores, (K,); None where the pairs do not connect the models.

    The unit is the variance of one label's log-odds. Without features, and with models of about equal strength, the
    log-odds of an ordered pair with n labels have the variance v / n with the same v for all pairs. The log-odds of an
    unordered pair have the variance v / (n_jk + n_kj) where display order is ignored. Where it is modelled, they are
    the mean of both orders and have the variance v (1 / n_jk + 1 / n_kj) / 4. The scores are
    :math:`L_w^+ B' W \ell` with edge weights w, the incidence matrix B of the graph, W = diag(w)
    and the log-odds :math:`\ell` of the pairs, so that their covariance is :math:`L_w^+ L_{w^2 s} L_w^+`, with the
    Laplacian of the weights :math:`w^2 s` for variances s of the log-odds. Maximum likelihood weights pairs by their
    labels: w = 1 / s, and the covariance is :math:`L_{1/s}^+`.

    Shapes: labelled (K, K).
    """
    graph = rule.graph(labelled)
    if not graph.connected:
        return None
    counts = np.where(graph.edges, labelled, 0).astype(float)
    total = counts + counts.T
    weight = total if edge_weights == "counts" else graph.edges.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (1 / counts + 1 / counts.T) / 4 if rule.position_bias else 1 / total
    inverse = laplacian_inverse(weight)
    weighted = np.where(graph.edges, weight**2 * np.where(graph.edges, variance, 0.0), 0.0)
    return np.asarray(np.diag(inverse @ (np.diag(weighted.sum(axis=1)) - weighted) @ inverse))


def settings_table(labelled: NDArray[np.int64], votes: NDArray[np.int64], min_labels: int) -> pd.DataFrame:
    """Return votes and precision by ``position_bias``, ``min_labels`` (as given, and 1) and ``edge_weights``."""
    connected = Graph.observed(labelled, 1, ordered=False).connected
    likelihood_covariance = laplacian_inverse((labelled + labelled.T).astype(float)) if connected else None
    rows: list[tuple[object, ...]] = []
    for rule in dict.fromkeys(PairRule(ordered, least) for ordered in (True, False) for least in (min_labels, 1)):
        graph = rule.graph(labelled)
        counts = VoteCounts.of(votes, graph)
        least_share = float((counts.used / np.maximum(counts.total, 1)).min())
        for edge_weights in ("equal", "counts"):
            variances = score_variances(labelled, rule, edge_weights)
            ratio = np.array([np.nan])
            if variances is not None and likelihood_covariance is not None:
                ratio = np.sqrt(variances / likelihood_covariance.diagonal())
            numbers = (graph.n_edges, counts.n_used, counts.share_used, least_share, np.median(ratio), ratio.max())
            rows.append((rule.position_bias, rule.min_labels, edge_weights, *numbers))
    numbers_of_pairs = ["pairs", "votes", "share", "least_share", "se_median", "se_largest"]
    return pd.DataFrame(rows, columns=["position_bias", "min_labels", "edge_weights", *numbers_of_pairs])
