"""The check before a fit: everything that can be counted without training a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.tasks_and_threads import collected_warnings
from ..data.arrays import name_of
from ..data.columns import CodedColumn, warn_of_shared_texts
from ..data.contexts import Rows, repeated_values
from ..data.derived_pairs import DERIVED_KINDS, DerivedPairs
from ..data.formula.parse import Formula, names_in, parse_formula
from ..data.frames import count_copies
from ..data.graph import Graph, PairRule, VoteCounts, laplacian_inverse
from ..data.outcomes import COUNTS, WINNERS, require_mirrored_worths
from ..data.preferences import Clusters, FloatArray, PreferenceData, effective_clusters, read_clusters
from ..data.read_votes import missing_values, preferences_of, take_rows, warn_of_unequal_gaps
from ..exceptions import DataError, GraphError, OptionError
from ..fit.compared_pairs import (
    OrderChoice,
    check_edge_weights,
    choose_pairs,
    pairs_and_apart,
    restrict_items,
    votes_left_out,
)
from ..fit.judges_of_scores import grade_facts, read_judges
from ..fit.stages import counted
from ..fit.state import Source
from ..functionals import CategoryWeights
from ..inference.score_limits import WaldLaw, fewest_units, normal_tail
from ..options import EqualTasks, Options
from ..report.phrases import as_sentence, first_of
from .check import Check, Problem, find_problems

# Columns with these names, as tables of logs have them, say what a prompt belongs to and why a score is missing.
_TASK, _ERROR = "task", "error"
_FEATURES_NAMED = 6
# How labels are counted, by whether display order matters.
_ORDERS = {True: "in each display order", False: "in both display orders together"}
# Options and counts, some of them with a text, and frames by name.
Counted = tuple[dict[str, object], dict[str, object], dict[str, pd.DataFrame]]


def inspect_data(source: Source, options: Options) -> Check:
    """Read data as a fit would, count what the page of a check shows, and report problems."""
    source = counted(source, options)
    formula = parse_formula(source.formula)
    lenient = replace(options, missing="drop") if options.missing == "raise" else options
    with collected_warnings() as of_names:
        rows = take_rows(
            source.formula,
            source.data,
            source.environment,
            lenient,
            optional=names_in(formula.features).values,
            copies=source.copies,
        )
    runs = source.data if isinstance(source.data, DerivedPairs) and source.data.rows is not None else None
    readable, told, n_unreadable, first_error = rows, list[Problem](), 0, None
    while True:
        # Without the rows that a fit refuses, if it could read others.
        try:
            with collected_warnings() as notices:
                data = preferences_of(readable, compares=runs is None)
            break
        except DataError as error:
            first_error, is_refused = first_error or error, np.isin(readable.index, error.rows)
            if not is_refused.any():
                raise first_error from None
            told.append((as_sentence(str(error)), "This check left these rows out.", "error", "labels"))
            n_unreadable += readable.number(is_refused)
            readable = readable.only(~is_refused)
    with collected_warnings() as of_prompts:
        warn_of_unequal_gaps(source.data, options)
        clusters = read_clusters(data, options.clusters, options.context)
        codes = [] if clusters is None else [clusters.of_context, clusters.second_of_context]
        warn_of_shared_texts(data.shared_texts, codes, options.context)
    notices += of_prompts
    if runs is not None:
        scores = runs.with_enough(options.pairs.min_votes if options.of_scores else 1)
        chosen, counts, frames = _count_scores(scores, formula, data, options)
    else:
        order = choose_pairs(data, options)
        of_fit = data if order.matters else data.unordered()
        compared, _ = pairs_and_apart(of_fit, options, order.min_labels)
        check_edge_weights(options.pairs.edge_weights, data, compared)
        chosen, counts, frames = _count_votes(data, rows, options, order, compared)
        try:
            if not order.matters:
                # A fit that joins the display orders refuses worths of grades that are not mirrored.
                require_mirrored_worths(options.categories)
            ranked = restrict_items(of_fit, compared, options, order.min_labels)
            graph, _ = pairs_and_apart(ranked, options, order.min_labels)
            equal = options.pairs.edge_weights == "equal"
            left_out = votes_left_out(of_fit, ranked, graph, options, order, equal_weights=equal)
            notices = [*filter(None, [left_out]), *notices]
        except (OptionError, GraphError) as error:
            told.insert(0, (as_sentence(str(error)), "", "error", "models"))
        has_copies = not rows.are_partitioned and data.outcome_kind != COUNTS
        n_copies = count_copies(source.data, formula.outcomes) if has_copies else 0
        of_rows = {"rows": rows.n_rows, "rows_that_cannot_be_read": n_unreadable, "copies_of_rows": n_copies}
        counts = of_rows | {"rows_with_missing_values": data.n_dropped - n_unreadable} | counts
    names, shared = data.feature_map.names, () if data.shared_texts is None else tuple(data.shared_texts.names)
    common = {
        "formula": source.formula,
        "context": (", ".join(options.context), "" if options.context else "every row is a prompt of its own"),
        "missing": str(options.missing),
    }
    counts |= {"models": data.n_items, "features": (len(names), first_of(names, _FEATURES_NAMED, ", "))}
    frames |= {
        "options": _frame("option", ("value", "reason"), common | chosen),
        "counts": _frame("count", ("number", "note"), counts),
        "features": pd.DataFrame(index=pd.Index(names, name="feature")),
        "columns": _column_table(rows, data),
        "clusters": _cluster_table(clusters),
    }
    check = Check(**{each.name: frames.get(each.name, pd.DataFrame()) for each in fields(Check)})
    found = find_problems(check, options, formula, shared)
    # What is said of names and labels comes first, because everything else depends on it.
    told += [(as_sentence(str(note)), "", "warning", "models") for note in of_names]
    told += [(as_sentence(str(note)), "", "warning", "") for note in notices]
    problems = pd.DataFrame([*told, *found], columns=["found", "advice", "severity", "where"])
    problems = problems.sort_values("severity", kind="stable", ignore_index=True)
    return replace(check, problems=problems[["severity", "where", "found", "advice"]].rename_axis("problem"))


def _frame(index: str, columns: Sequence[str], rows: Mapping[str, object]) -> pd.DataFrame:
    """Return a frame of rows by name; a single value of two has an empty text beside it."""
    complete = {name: row if isinstance(row, tuple) else (row, "") for name, row in rows.items()}
    return pd.DataFrame.from_dict(complete, orient="index", columns=[*columns]).rename_axis(index)


def _column_table(rows: Rows, data: PreferenceData) -> pd.DataFrame:
    """Return by column the rows in which a needed value is missing, and the contexts that repeat another's value."""
    variables = [name for name in data.feature_map.variables if name in data.columns]
    repeats = repeated_values(data.context_table(variables))
    if data.shared_texts is not None:
        repeats |= dict.fromkeys(data.shared_texts.names, data.shared_texts.n_repeats)
    missing = {name: rows.number(mask) for name, mask in missing_values(rows).items()}
    found = {name: (missing.get(name, 0), repeats.get(name, 0)) for name in {**missing, **repeats}}
    return _frame("column", ("missing", "repeats"), {name: of for name, of in found.items() if any(of)})


def _cluster_table(clusters: Clusters | None) -> pd.DataFrame:
    """Return the number, the effective number and the sizes of clusters by grouping column."""
    rows = {}
    for name, (code, of) in clusters.by_name.items() if clusters else ():
        sizes = np.unique(code, return_counts=True)[1]
        ends = int(sizes.min()), float(np.median(sizes)), int(sizes.max())
        rows[name] = (len(sizes), effective_clusters(code), *ends, of)
    return _frame("column", ("clusters", "effective", "smallest", "median", "largest", "of"), rows)


# --- scores -----------------------------------------------------------------------------------------------------------


def _count_scores(scores: DerivedPairs, formula: Formula, data: PreferenceData, options: Options) -> Counted:
    """Count what a table of runs holds, without models that have fewer scores than ``min_votes``."""
    runs, rows, weights = scores.runs, scores.rows, options.weights
    assert runs is not None
    assert rows is not None
    equal_tasks, n_runs = weights.column if isinstance(weights, EqualTasks) else "", runs.table().n_runs
    task = equal_tasks or _TASK
    columns = {"prompts": n_runs > 0, "missing": n_runs == 0, "scores": n_runs, "lost_runs": runs.n_missing}
    numbers = [name for name in columns if name != "lost_runs" or runs.expected.max() > 1]
    cells = pd.DataFrame({name: columns[name].ravel() for name in numbers}).assign(
        mean=runs.table().mean.ravel(),
        model=np.tile(scores.models, len(n_runs)),
        task=np.repeat(scores.table[task].to_numpy(), n_runs.shape[1]) if task in scores.table else "",
    )
    has_error = rows[formula.outcome].isna() & (rows[_ERROR].notna() if _ERROR in rows else False)

    def counted(**keys: pd.Series) -> pd.DataFrame:
        errors, found = has_error.groupby([*keys.values()]).sum(), cells.groupby([*keys])
        table = found.agg(dict.fromkeys(numbers, "sum") | {"mean": "mean"})
        return table.assign(errors=errors.reindex(table.index, fill_value=0))

    places = CodedColumn.of(rows[formula.first]).with_plain_names()[0].places(scores.models)
    model = pd.Series(np.array([*scores.models, None], dtype=object)[places], rows.index)
    models, tasks = counted(model=model), pd.DataFrame()
    if task in scores.table:
        tasks = counted(model=model, task=rows[task])
    if equal_tasks:
        models["mean"] = tasks["mean"].groupby(level="model").mean()
    n_prompts, n_missing, most_runs = len(n_runs), int((n_runs == 0).sum()), int(n_runs.max())
    missing = f"{scores.runs_missing}; no model lacks a prompt" if scores.runs_missing else ""
    judges, gate = read_judges(data, scores, options.judge), ""
    if judges is None and np.isin(runs.value, (0, 1)).all():
        needed = ", ".join(f"{margin:g} needs {fewest_units(margin, 0.05):,}" for margin in (0.01, 0.02, 0.05))
        gate = f"margins of a gate at level 0.95 can be {1 - 0.05 ** (1 / n_prompts):.2g} and more if none is lost; "
        gate += f"{needed} prompts"
    frames = {"models": models} | ({"tasks": tasks} if task not in scores.prompt else {})
    if judges is not None and data.scores is not None:
        facts = grade_facts(judges, data.scores.mean)
        frames["grades"] = _frame("fact", ["found"], {name: (text,) for name, text in facts})
    counts = {
        "prompts": (n_prompts, gate),
        "common_prompts": (int((n_runs > 0).all(axis=1).sum()), "have a score of every model"),
        "scores": (len(runs.value), scores.runs_there),
        "missing_scores": (n_missing, f"of {len(cells):,}, a model on a prompt" if n_missing else missing),
        "lost_runs": int(runs.n_missing[n_runs > 0].sum()),
        "most_runs_on_a_prompt": most_runs if most_runs > 1 else 0,
        "rows_with_errors": int(models["errors"].sum()),
    }
    means = f"over the tasks of {equal_tasks!r}, which count the same" if equal_tasks else "over prompts"
    return {"means": means}, counts, frames


# --- votes ------------------------------------------------------------------------------------------------------------


def _count_votes(data: PreferenceData, rows: Rows, options: Options, order: OrderChoice, compared: Graph) -> Counted:
    """Count votes by label, model and pair, and what settings would make of them."""
    counts, cells, given = data.pair_counts(), data.cells, options.pairs.edge_weights
    # Pairs derived from scores or ranks have no display order, and columns of winners and losers say none.
    why_unordered = "none, because the columns say who won and who lost" if data.outcome_kind == WINNERS else ""
    if data.outcome_kind in DERIVED_KINDS:
        why_unordered = f"none, because the comparisons are derived from {data.outcome_kind}"
    # Sum and sum of squares of the shares that the item shown first won in every labelled cell, (K, K) each.
    share, several = cells.y @ np.array(CategoryWeights.half(data.n_categories).first), cells.votes_each > 1
    total, square = (cells.sums(w * cells.count, data.n_items) for w in (share, share**2))
    settings = settings_table(counts, data.pair_votes(), order.min_labels)
    requested = (order.matters, order.min_labels, given if isinstance(given, str) else "given")
    # Where the user gave a graph or weights, the settings do not decide which pairs are compared.
    is_rule = (PairRule(order.matters, order.min_labels).graph(counts).edges == compared.edges).all()
    settings["chosen"] = [bool(is_rule) and row == requested for row in settings.index]
    models, pairs = _models_and_pairs(data, counts, total, compared)
    order_tests = order_table(counts, total, square)
    if why_unordered:
        settings, order_tests = settings[settings.index.isin([False], level="position_bias")], pd.DataFrame()
        models = models.drop(columns="share_first")
        pairs = pairs.drop(columns=["shown_first", "shown_second", "share_first"])
    votes = np.bincount(cells.context, weights=cells.votes_each)
    chosen: dict[str, object] = {
        "outcome": data.outcome_kind,
        "position_bias": (order.matters, why_unordered or order.reason),
        "min_labels": (order.min_labels, _ORDERS[order.matters]),
        "edge_weights": requested[2],
    }
    found = {
        "prompts": data.n_contexts,
        "prompts_without_a_label": data.n_unlabelled,
        "prompts_with_several_votes": (int((votes > 1).sum()), f"at most {votes.max():,.0f}" * bool(votes.max() > 1)),
        "votes": data.n_votes,
        "comparisons": cells.n_labels,
        "comparisons_with_several_votes": int(several.sum()),
        "comparisons_that_disagree": int((cells.y[several].max(axis=1) <= 1 - 1e-9).sum()),
        "pairs": len(pairs),
        "pairs_without_a_label": int((pairs["contexts"] == 0).sum()),
        "pairs_in_one_order": int((((counts > 0) ^ (counts.T > 0)).sum()) // 2),
        "pairs_compared": compared.n_edges,
        "fewest_labels_of_these": int(pairs["contexts"][pairs["compared"]].min()) if compared.n_edges else 0,
        "components": len(compared.components()),
    }
    frames = {"labels": _label_table(data, rows), "models": models, "pairs": pairs}
    return chosen, found, frames | {"settings": settings, "order": order_tests}


def _label_table(data: PreferenceData, rows: Rows) -> pd.DataFrame:
    """Return a row per label with its meaning, votes and share; labels that were not read come last.

    Where the outcome is no column of labels, the votes for a meaning are those of its category.
    """
    table = pd.DataFrame(data.labels, columns=["label", "read_as"]).set_index("label")
    if rows.formula.outcome in rows.roles:
        column = rows.roles[rows.formula.outcome].only(rows.labelled)
        counts = np.bincount(column.codes, minlength=len(column.levels))
        votes = pd.Series(counts, [name_of(level) for level in column.levels]).groupby(level=0).sum()
        if data.outcome_kind != "preferences":
            table = table.reindex(table.index.union(votes.index, sort=False)).fillna("not read").rename_axis("label")
        table["votes"] = votes.reindex(table.index, fill_value=0)
    else:
        of_category = dict(zip(data.categories, data.cells.n_votes @ data.cells.y, strict=True))
        of_category["the model that wins"] = data.n_votes - of_category.get("tie", 0)
        table["votes"] = [round(of_category.get(meaning, 0)) for meaning in table["read_as"]]
    return table.assign(share=table["votes"] / (rows.number(rows.labelled) if rows.derived is None else data.n_votes))


def _models_and_pairs(
    data: PreferenceData, counts: NDArray[np.int64], total: FloatArray, compared: Graph
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables of models and of unordered pairs; counts of labelled cells, total of wins, (K, K)."""
    both, votes, component = counts + counts.T, data.pair_votes(), np.empty(data.n_items, dtype=int)
    for number, part in enumerate(compared.components(), start=1):
        component[part] = number
    wins, names, (j, k) = total + (counts - total).T, np.array(data.items, dtype=object), np.triu_indices(len(both), 1)
    with np.errstate(invalid="ignore"):  # Without labels there are no shares.
        models = {
            "comparisons": both.sum(axis=1),
            "votes": (votes + votes.T).sum(axis=1),
            "opponents": compared.degrees,
            "share_first": counts.sum(axis=1) / both.sum(axis=1),
            "win_share": wins.sum(axis=1) / both.sum(axis=1),
            "component": component,
        }
        pairs = {
            "contexts": both[j, k],
            "shown_first": counts[j, k],
            "shown_second": counts[k, j],
            "votes": (votes + votes.T)[j, k],
            "share_first": counts[j, k] / both[j, k],
            "win_share": wins[j, k] / both[j, k],
            "compared": compared.edges[j, k],
        }
    index = pd.MultiIndex.from_arrays([names[j], names[k]], names=["first", "second"])
    of_models = pd.DataFrame(models, pd.Index(data.items, name="model"))
    return of_models, pd.DataFrame(pairs, index).sort_values("contexts", kind="stable")


# --- display order ----------------------------------------------------------------------------------------------------


def order_table(counts: NDArray[np.int64], total: FloatArray, square: FloatArray) -> pd.DataFrame:
    """Return the test that display order is balanced in every pair, and how often the first position wins.

    The chi-squared statistic is the sum of (n_jk - n_kj)^2 / (n_jk + n_kj) over pairs. The adjusted share of wins has
    both orders of every pair weighted alike, so that it does not grow where strong models are shown first more often;
    it is NaN where no pair was shown in both orders. Its error is that of independent cells; the test is against 1/2.

    Shapes: counts, total, square (K, K).
    """
    first, second = np.nonzero(np.triu(counts + counts.T))
    n_first, n_second = counts[first, second], counts[second, first]
    statistic, df = float(((n_first - n_second) ** 2 / (n_first + n_second)).sum()), len(first)
    first, second = np.nonzero(np.triu(np.minimum(counts, counts.T) > 0))
    n = np.stack([counts[first, second], counts[second, first]]).astype(float)
    mean = np.stack([total[first, second], total[second, first]]) / n
    squares = np.stack([square[first, second], square[second, first]])
    adjusted = error = p_value = np.nan
    if n.size:
        weight = n[0] * n[1] / n.sum(axis=0)
        weight /= weight.sum()
        variance = (squares - n * mean**2).sum() / max(n.sum() - n.size, 1.0)
        error = float(np.sqrt((weight**2 * (variance / n).sum(axis=0)).sum()) / 2)
        adjusted = float((weight * mean.mean(axis=0)).sum())
        p_value = float(2 * normal_tail(abs(adjusted - 0.5) / error)) if error > 0 else np.nan
    rows = {
        "balance": (statistic, np.nan, df, float(WaldLaw(df).tail(statistic))),
        "first wins": (float(total.sum() / counts.sum()), np.nan, np.nan, np.nan),
        "first wins, adjusted": (adjusted, error, np.nan, p_value),
    }
    return _frame("test", ("value", "std_error", "df", "p_value"), rows)


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
    names = ["position_bias", "min_labels", "edge_weights"]
    table = pd.DataFrame(rows, columns=[*names, "pairs", "votes", "share", "least_share", "se_median", "se_largest"])
    return table.set_index(names)
