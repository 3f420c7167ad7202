"""Problems that a check finds in data, as full sentences: what was found, why it matters, what to do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ..data.formula.parse import parse_formula
from ..data.vote_columns import FEW_CLUSTERS, FEW_EFFECTIVE, few_prompts_advice
from ..exceptions import listed
from ..report.statements import AS_MET, as_sentence, counted, first_of
from ..tables.display_text import p_value_clause
from .check import Check

# Votes that a label needs so that a learner can predict when voters choose this label.
_FEW_VOTES = 10
# p-values below this are reported as an effect.
_SIGNIFICANT = 0.001
# Pairs that a sentence names.
_PAIRS_NAMED = 5
# Settings are good enough where the largest standard error is at most this multiple of maximum likelihood's.
_LARGEST_RATIO = 1.5


def find_errors(check: Check, missing: str, n_folds: int) -> Iterator[str]:
    """Yield sentences about what stops a fit to these data: missing values, and too few prompts."""
    if check.scores is not None:
        yield from check.scores.errors() if missing == "raise" else ()
        return
    yield from _missing_values(check, missing)
    if check.features and check.n_contexts < n_folds:
        yield (
            f"{counted(check.n_contexts, 'prompt')} cannot be divided into {n_folds} folds. Use fewer folds: "
            f"learning=Learning(n_folds=...)."
        )


def find_problems(
    check: Check, shared: tuple[str, ...], notices: tuple[str, ...], voters: tuple[str, ...]
) -> Iterator[str]:
    """Yield sentences about problems of a fit to these data, the gravest first.

    ``shared`` are the columns whose texts several prompts share, and ``voters`` columns that may say who voted.
    """
    if check.scores is not None:
        for names in check.similar_models:
            yield (
                f"Are {' and '.join(map(repr, names))} the same model? The names differ only in blanks, letter case or "
                f"Unicode form, and they are ranked as {len(names)} models. If they are one model, write one name in "
                f"the data."
            )
        yield from (as_sentence(notice) for notice in notices)
        yield from check.scores.problems()
        yield from _few_clusters(check)
        return
    contexts = check.pairs[["shown_first", "shown_second"]].min(axis=1)
    # The number of each pair's contexts that has to reach min_labels: in its rarer order, or in both.
    contexts = contexts if check.position_bias else check.pairs["contexts"]
    if (check.pairs["compared"] == (contexts >= check.min_labels)).all():
        # Elsewhere the user gave a graph, and the settings do not decide which pairs are compared.
        yield from _better_settings(check)
    yield from (as_sentence(notice) for notice in notices)
    if check.n_copies and check.context:
        yield (
            f"{counted(check.n_copies, 'row')} equal an earlier row in every column. If they are copies, they hardly "
            f"matter, because a fit averages the votes on a prompt and pair; only estimator='bt_mle' counts each."
        )
    elif check.n_copies:
        yield (
            f"{counted(check.n_copies, 'row')} equal an earlier row in every column, and a fit counts each of them "
            f"as a vote. If they are copies, drop them."
        )
    yield from _pair_problems(check, contexts < check.min_labels)
    # Preferences between 0 and 1 are not labels that could be counted. Of grades and of labels that are derived from
    # scores, a fit learns the mean worth, however often each of them occurs.
    if check.labels["votes"].sum() >= check.n_votes and check.outcome_kind == "labels":
        yield from _label_problems(check)
    yield from _repetitions(check, shared)
    if check.has_display_order:
        yield from _order_effects(check)
    if check.context and check.n_contexts <= FEW_CLUSTERS and (voters or check.clusters.empty):
        columns = " or ".join(f"cov_type='cluster', cov_kwds={{'groups': {name!r}}}" for name in voters)
        advice = few_prompts_advice(check.n_contexts, columns) if voters else "Collect votes on more prompts"
        yield (
            f"There are only {check.n_contexts} prompts. With {FEW_CLUSTERS} prompts or fewer standard errors are too "
            f"small on average, however many votes there are. {advice}."
        )
    else:
        yield from _few_clusters(check)


def _few_clusters(check: Check) -> Iterator[str]:
    for name, row in check.clusters.iterrows():
        if row["clusters"] <= FEW_CLUSTERS:
            yield (
                f"There are only {row['clusters']} clusters in {name!r}. With {FEW_CLUSTERS} clusters or fewer "
                f"standard errors are too small on average. Use a finer grouping if it keeps dependent votes together."
            )
        elif row["effective"] < FEW_EFFECTIVE:
            yield (
                f"The {row['clusters']:,} clusters in {name!r} tell no more than {row['effective']:.1f} of one size, "
                f"because the largest has {row['largest']:,} {row['of']}. With fewer than {FEW_EFFECTIVE}, intervals "
                f"hold only roughly. Use a column with more even clusters if it keeps dependent votes together."
            )


def _better_settings(check: Check) -> Iterator[str]:
    """Recommend other settings, where the user's settings leave out many votes or have large standard errors."""
    table = check.settings
    if check.edge_weights not in ("equal", "counts"):
        return
    names = ["position_bias", "min_labels", "edge_weights"]
    requested = (check.position_bias, check.min_labels, check.edge_weights)
    best = table.iloc[recommended_row(table, requested)]
    current = table[(table[names] == list(requested)).all(axis=1)].iloc[0]
    changes = [
        f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}"
        for name, value, old in zip(names, best[names], requested, strict=True)
        if value != old
    ]
    if not changes or not np.isfinite(best["se_largest"]):
        return
    finding = (
        f"uses {100 * current['share']:.3g} % of the votes, and its standard errors of bt are up to "
        f"{current['se_largest']:.2f} times those of Bradley-Terry maximum likelihood"
        if np.isfinite(current["se_largest"])
        else "does not connect all models"
    )
    asks = f" and ask {AS_MET}" * (best["edge_weights"] == "counts" != check.edge_weights)
    yield (
        f"A fit with these settings {finding}. With {', '.join(changes)} it would use {100 * best['share']:.3g} % of "
        f"the votes, and standard errors would be up to {best['se_largest']:.2f} times those of maximum likelihood"
        f"{asks}. These figures come from counts of labels alone. The frame .settings compares all choices, and "
        f"docs/settings.md says how to choose."
    )


def recommended_row(table: pd.DataFrame, chosen: tuple[bool, int, str]) -> int:
    """Return the row of the recommended settings."""
    good = (table["share"] >= 0.95) & (table["least_share"] >= 0.8) & (table["se_largest"] <= _LARGEST_RATIO)
    options = table[["position_bias", "min_labels", "edge_weights"]]
    changes = (options != list(chosen)).sum(axis=1)
    error = table["se_largest"].fillna(np.inf)
    ranked = table.assign(bad=~good, changes=changes.where(good, 0), error=error, all_changes=changes)
    return int(ranked.sort_values(["bad", "changes", "error", "all_changes"], kind="stable").index[0])


def _missing_values(check: Check, missing: str) -> Iterator[str]:
    """Report missing values that a fit refuses."""
    counts = check.missing[check.missing > 0]
    if missing == "raise" and len(counts):
        columns = ", ".join(f"{name!r} in {count:,} of {check.n_rows:,} rows" for name, count in counts.items())
        keep = " missing='keep' passes missing numbers on to the learner."
        lacks_model = any(name in counts for name in parse_formula(check.formula).items)
        yield (
            f"Values are missing: {columns}. A fit raises an error. missing='drop' drops "
            f"{counted(check.n_dropped, 'row')}, as this check did.{'' if lacks_model else keep}"
        )
    elif check.n_dropped and missing in ("raise", "keep"):
        yield (
            f"The features of {counted(check.n_dropped, 'row')} are NaN although the columns that they are "
            f"computed from have no missing values there. A fit raises an error unless missing='drop' or "
            f"missing='keep' is passed."
        )


def _pair_problems(check: Check, has_few_labels: pd.Series) -> Iterator[str]:
    """Report pairs that are left out, pairs without enough labels, and an incomplete graph."""
    orders = "each order" if check.position_bias else "both orders together"
    requirement = f"min_labels={check.min_labels} labelled prompts in {orders}"
    left_out = check.pairs[(check.pairs["contexts"] > 0) & ~check.pairs["compared"]]
    if len(left_out):
        largest = left_out.sort_values("contexts", ascending=False).itertuples(index=False)
        pairs = [f"{r.first} - {r.second}: {r.shown_first} and {r.shown_second}" for r in largest]
        yield (
            f"{len(left_out)} of {len(check.pairs)} pairs have labels, but fewer than {requirement}, and a fit "
            f"leaves them out. Labelled prompts in each of the two orders: {first_of(pairs, _PAIRS_NAMED)}. A smaller "
            f"number, pairs=Pairs(min_labels=...), keeps these pairs. The frame .pairs lists all pairs."
        )
    n_weak = int((check.pairs["compared"] & has_few_labels).sum())
    if n_weak:
        yield (
            f"The graph has {counted(n_weak, 'pair')} with fewer than {requirement}. The contribution of these pairs "
            f"to the scores rests mainly on the learner's predictions, which few labels or none correct. "
            f"pairs=Pairs(graph='observed') leaves such pairs out."
        )
    if not check.graph.complete and len(check.components) == 1:
        yield (
            f"Only {check.graph.n_edges:,} of {len(check.pairs):,} pairs are compared. A score of functional='borda' "
            f"then depends on how strong the opponents of the model are. functional='bt' takes the opponents into "
            f"account."
        )
    if check.order.one_order and check.position_bias:
        yield (
            f"Pairs shown in one order only: {check.order.one_order}. Without labels in the other order a pair is not "
            f"compared. If display order does not matter, position_bias=False counts both orders together."
        )


def _label_problems(check: Check) -> Iterator[str]:
    """Report rare labels, wins that no label stands for, and labels that are numbers."""
    rare = check.labels[(check.labels["votes"] < _FEW_VOTES) & (check.labels["read_as"] != "not read")]
    if len(rare):
        yield (
            f"These labels have fewer than {_FEW_VOTES} votes each: {listed(rare['label'])}. A learner cannot predict "
            f"when they are chosen. categories={{label: meaning}} can merge them with other labels."
        )
    for meaning in ("first", "second"):
        if not check.labels["read_as"].isin([meaning, "the model that wins"]).any():
            yield (
                f"No label says that the model shown {meaning} wins. Check in the frame .labels whether every label is "
                f"read as it is meant."
            )
    if set(check.labels["label"]) <= {"0", "1"} and len(check.labels):
        yield (
            "The labels are the numbers 1 and 0. They are read as: 1 = the model shown first wins, 0 = the model shown "
            "second wins. Pass categories= if they mean something else."
        )


def _repetitions(check: Check, shared: tuple[str, ...]) -> Iterator[str]:
    """Report values under several identifiers, but for ``shared`` columns, and repeated votes that disagree."""
    for name, count in check.same_prompt.items():
        if check.context and name not in shared:
            yield (
                f"{count:,} of the contexts repeat a value of {name!r} under another {listed(check.context)}. If "
                f"these are the same prompt, their votes are not independent. context={name!r} joins them; clusters of "
                f"{name!r} allow for the dependence, too."
            )
    repeats = check.repeats
    if repeats.agreement < 1:
        yield (
            f"{repeats.cells:,} of the comparisons of an ordered pair on a prompt have more than one vote, and in "
            f"{1 - repeats.agreement:.0%} of them the votes disagree. A fit averages them. If further votes were asked "
            f"for because of the first one, keep the first vote of each alone."
        )


def _order_effects(check: Check) -> Iterator[str]:
    """Report display orders that are not balanced, and an effect of the first position."""
    order, position = check.order, check.position
    if order.p_value < _SIGNIFICANT and check.similar_models:
        yield (
            "Whether display order is balanced within pairs can be said after names that look the same are one model: "
            "where one side of a vote is spelt otherwise, such a name stands on this side only."
        )
    elif order.p_value < _SIGNIFICANT:
        consequence = (
            "Scores treat the two orders of a pair separately, so that they remain valid but are less precise."
            if check.position_bias
            else "With position_bias=False a position effect is mixed into the scores."
        )
        yield (
            f"Display order is not balanced within pairs (chi2 = {order.statistic:.1f}, df = {order.df}, p "
            f"{p_value_clause(order.p_value)}): some models are shown first more often than their opponents. "
            f"{consequence}"
        )
    if position.p_value < _SIGNIFICANT:
        consequence = " A fit that ignores display order would mix this effect into the scores."
        if check.similar_models:
            consequence = ""
        elif order.p_value >= _SIGNIFICANT:
            consequence = (
                " Both orders are shown about equally often, so that this hardly changes the scores of a fit that "
                "ignores display order."
            )
        yield (
            f"There is a position effect: the model shown first wins {position.adjusted:.3f} of the comparisons if "
            f"both display orders of every pair count equally (p {p_value_clause(position.p_value)}).{consequence}"
        )
