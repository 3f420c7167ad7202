"""Problems that a check finds in data, as full sentences: what was found, why it matters, what to do.

The list has the form of that in :mod:`dmlrank.report.facts`; a word in braces may give several problems.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ..data.formula.parse import parse_formula
from ..data.vote_columns import FEW_CLUSTERS, FEW_EFFECTIVE, few_prompts_advice
from ..exceptions import listed
from ..report.facts import read_facts
from ..report.statements import AS_MET, as_sentence, counted, first_of
from ..tables.display_text import p_value_clause
from .check import Check

_PROBLEMS = read_facts("""
= Errors
scores, raise, gaps: Scores are missing of {worst}; {c.scores.n_common:,} of {c.scores.n_prompts:,} prompts have a score
  of every model. Say what a missing score means: missing='common' restricts to these prompts, which is right if scores
  are missing for reasons that have nothing to do with the answers; missing='model' lets features of the formula say
  which scores are missing; missing=0.0 counts them as failures. If people graded some answers and a judge all, name the
  judge's column (judge=). Where a plan drew which runs were made, fit with its
  propensities (propensity=), and not with missing='common', because the plan prefers some prompts.
votes, raise, missing: Values are missing: {missing}. A fit raises an error. missing='drop' drops {dropped}, as this
  check did.{keep}
votes, nan features: The features of {dropped} are NaN although the columns that they are computed from have no missing
  values there. A fit raises an error unless missing='drop' or missing='keep' is passed.
votes, few folds: {prompts} cannot be divided into {n_folds} folds. Use fewer folds: learning=Learning(n_folds=...).
= Problems
scores: {similar}
scores: {notices}
scores, lost runs: {lost_runs} {are} left out, because the model has a score on the prompt from another run, unless
  missing=0.0 counts them as failures; sensitivity() of the fit bounds what they could change.
scores, many runs: A model has {runs} scores on a prompt on average, which count as its runs: are the
  {c.scores.n_prompts:,} values of the column of prompts prompts, or tasks of many prompts? Name the column that
  identifies a prompt in context=, and that of runs in run=.
votes: {better_settings}
votes: {notices}
votes, copies, context: {copies} equal an earlier row in every column. If they are copies, they hardly matter, because a
  fit averages the votes on a prompt and pair; only estimator='bt_mle' counts each.
votes, copies, -context: {copies} equal an earlier row in every column, and a fit counts each of them as a vote. If they
  are copies, drop them.
votes, left out: {n_left_out} of {n_pairs} pairs have labels, but fewer than {requirement}, and a fit leaves them out.
  Labelled prompts in each of the two orders: {pairs}. A smaller number, pairs=Pairs(min_labels=...), keeps these pairs.
  The frame .pairs lists all pairs.
votes, weak: The graph has {weak} with fewer than {requirement}. The contribution of these pairs to the scores rests
  mainly on the learner's predictions, which few labels or none correct. pairs=Pairs(graph='observed') leaves such pairs
  out.
votes, incomplete: Only {c.graph.n_edges:,} of {n_pairs} pairs are compared. A score of functional='borda' then depends
  on how strong the opponents of the model are. functional='bt' takes the opponents into account.
votes, one order: Pairs shown in one order only: {c.order.one_order}. Without labels in the other order a pair is not
  compared. If display order does not matter, position_bias=False counts both orders together.
votes, labels, rare: These labels have fewer than {few_votes} votes each: {rare}. A learner cannot predict when they are
  chosen. categories={{label: meaning}} can merge them with other labels.
votes, labels: {no_wins}
votes, labels, numbers: The labels are the numbers 1 and 0. They are read as: 1 = the model shown first wins, 0 = the
  model shown second wins. Pass categories= if they mean something else.
votes: {same_prompts}
votes, disagree: {c.repeats.cells:,} of the comparisons of an ordered pair on a prompt have more than one vote, and in
  {disagreement} of them the votes disagree. A fit averages them. If further votes were asked for because of the first
  one, keep the first vote of each alone.
votes, unbalanced, similar: Whether display order is balanced within pairs can be said after names that look the same
  are one model: where one side of a vote is spelt otherwise, such a name stands on this side only.
votes, unbalanced, -similar, ordered: {unbalanced} Scores treat the two orders of a pair separately, so that they remain
  valid but are less precise.
votes, unbalanced, -similar, -ordered: {unbalanced} With position_bias=False a position effect is mixed into the scores.
votes, position, similar: {position}
votes, position, -similar, unbalanced: {position} A fit that ignores display order would mix this effect into the
  scores.
votes, position, -similar, -unbalanced: {position} Both orders are shown about equally often, so that this hardly
  changes the scores of a fit that ignores display order.
votes, few prompts: There are only {c.n_contexts} prompts. With {few_clusters} prompts or fewer standard errors are too
  small on average, however many votes there are. {few_prompts_advice}.
-few prompts: {clusters}
""")
# Between the problems that one word gives; no line break, which names may have.
_SEVERAL = "\x1e"
# Votes that a label needs so that a learner can predict when voters choose this label.
_FEW_VOTES = 10
# p-values below this are reported as an effect.
_SIGNIFICANT = 0.001
# How labels are counted, by whether display order matters.
_ORDERS = {True: "each order", False: "both orders together"}
# Pairs that a sentence names.
_PAIRS_NAMED = 5
# Runs of a model on a prompt, on average, from which on the prompts may be something else.
_MANY_RUNS = 20
# Settings are good enough where the largest standard error is at most this multiple of maximum likelihood's.
_LARGEST_RATIO = 1.5


@dataclass(frozen=True, eq=False)
class Found:
    """What problems are about: a check without problems, and what only the reading of the data knows.

    missing: The option of this name.
    shared: Columns whose texts several prompts share.
    notices: Warnings of the reading.
    voters: Columns that may say who voted.
    """

    check: Check
    missing: str
    n_folds: int
    shared: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    voters: tuple[str, ...] = ()

    def __getitem__(self, word: str) -> object:
        """Return a word in braces."""
        return {"c": self.check, "n_folds": self.n_folds}.get(word) or _WORDS[word](self)

    @cached_property
    def contexts(self) -> pd.Series:
        """The number of each pair's contexts that has to reach min_labels: in its rarer order, or in both."""
        c = self.check
        return c.pairs[["shown_first", "shown_second"]].min(axis=1) if c.position_bias else c.pairs["contexts"]

    @cached_property
    def left_out(self) -> pd.DataFrame:
        """Pairs with labels that are not compared."""
        pairs = self.check.pairs
        return pairs[(pairs["contexts"] > 0) & ~pairs["compared"]]

    @cached_property
    def rare(self) -> pd.Series:
        """Labels with few votes."""
        labels = self.check.labels
        return labels["label"][(labels["votes"] < _FEW_VOTES) & (labels["read_as"] != "not read")]

    @cached_property
    def n_weak(self) -> int:
        """Compared pairs with few labels."""
        return int((self.check.pairs["compared"] & (self.contexts < self.check.min_labels)).sum())

    @cached_property
    def modes(self) -> frozenset[str]:
        """What the data have, of which problems say for which of these they hold."""
        c, scores, n_missing = self.check, self.check.scores, int((self.check.missing > 0).sum())
        holds = {
            "scores": scores is not None,
            "votes": scores is None,
            "raise": self.missing == "raise",
            "missing": n_missing > 0,
            "nan features": c.n_dropped > 0
            and self.missing in ("raise", "keep")
            and not (n_missing and self.missing == "raise"),
            "few folds": bool(c.features) and c.n_contexts < self.n_folds,
            "copies": c.n_copies > 0,
            "context": bool(c.context),
            "left out": len(self.left_out) > 0,
            "weak": self.n_weak > 0,
            "incomplete": not c.graph.complete and len(c.components) == 1,
            "one order": c.order.one_order > 0 and c.position_bias,
            # Preferences between 0 and 1 are not labels that could be counted. Of grades and of labels that are derived
            # from scores, a fit learns the mean worth, however often each of them occurs.
            "labels": c.outcome_kind == "labels" and c.labels["votes"].sum() >= c.n_votes,
            "rare": len(self.rare) > 0,
            "numbers": set(c.labels["label"]) <= {"0", "1"} and len(c.labels) > 0,
            "disagree": c.repeats.agreement < 1,
            "similar": bool(c.similar_models),
            "ordered": c.position_bias,
            "unbalanced": c.has_display_order and c.order.p_value < _SIGNIFICANT,
            "position": c.has_display_order and c.position.p_value < _SIGNIFICANT,
            "few prompts": scores is None
            and bool(c.context)
            and c.n_contexts <= FEW_CLUSTERS
            and bool(self.voters or c.clusters.empty),
        }
        if scores is not None:
            n_cells = max(int(scores.models["prompts"].sum()), 1)
            holds |= {
                "gaps": bool((scores.models["missing"] > 0).any()) and not scores.grades,
                "lost runs": scores.n_lost > 0,
            }
            holds |= {"many runs": scores.n_scores > _MANY_RUNS * n_cells}
        return frozenset(mode for mode, is_so in holds.items() if is_so)


def find_errors(found: Found) -> list[str]:
    """Return sentences about what stops a fit to these data: missing values, and too few prompts."""
    return _said(found, "Errors")


def find_problems(found: Found) -> list[str]:
    """Return sentences about problems of a fit to these data, the gravest first."""
    return _said(found, "Problems")


def _said(found: Found, topic: str) -> list[str]:
    texts = (fact.short.format_map(found) for fact in _PROBLEMS[topic] if fact.holds(found.modes))
    return [line for text in texts for line in text.split(_SEVERAL) if line]


def _worst_gaps(f: Found) -> str:
    scores = f.check.scores
    assert scores is not None
    gaps = scores.models["missing"][scores.models["missing"] > 0].sort_values(ascending=False, kind="stable")
    return listed([f"{name} ({count:,})" for name, count in gaps.items()], 5)


def _missing(f: Found) -> str:
    counts = f.check.missing[f.check.missing > 0]
    return ", ".join(f"{name!r} in {count:,} of {f.check.n_rows:,} rows" for name, count in counts.items())


def _keep(f: Found) -> str:
    lacks_model = any(f.check.missing.get(name, 0) > 0 for name in parse_formula(f.check.formula).items)
    return "" if lacks_model else " missing='keep' passes missing numbers on to the learner."


def _similar(f: Found) -> str:
    return _SEVERAL.join(
        f"Are {' and '.join(map(repr, names))} the same model? The names differ only in blanks, letter case or Unicode "
        f"form, and they are ranked as {len(names)} models. If they are one model, write one name in the data."
        for names in f.check.similar_models
    )


def _runs(f: Found) -> str:
    scores = f.check.scores
    return f"{scores.n_scores / int(scores.models['prompts'].sum()):.0f}" if scores else ""


def _pairs(f: Found) -> str:
    largest = f.left_out.sort_values("contexts", ascending=False).itertuples(index=False)
    return first_of([f"{r.first} - {r.second}: {r.shown_first} and {r.shown_second}" for r in largest], _PAIRS_NAMED)


def _no_wins(f: Found) -> str:
    return _SEVERAL.join(
        f"No label says that the model shown {meaning} wins. Check in the frame .labels whether every label is read as "
        f"it is meant."
        for meaning in ("first", "second")
        if not f.check.labels["read_as"].isin([meaning, "the model that wins"]).any()
    )


def _same_prompts(f: Found) -> str:
    context = f.check.context
    return _SEVERAL.join(
        f"{count:,} of the contexts repeat a value of {name!r} under another {listed(context)}. If these are the same "
        f"prompt, their votes are not independent. context={name!r} joins them; clusters of {name!r} allow for the "
        f"dependence, too."
        for name, count in f.check.same_prompt.items()
        if context and name not in f.shared
    )


def _unbalanced(f: Found) -> str:
    order = f.check.order
    return (
        f"Display order is not balanced within pairs (chi2 = {order.statistic:.1f}, df = {order.df}, p "
        f"{p_value_clause(order.p_value)}): some models are shown first more often than their opponents."
    )


def _position(f: Found) -> str:
    position = f.check.position
    return (
        f"There is a position effect: the model shown first wins {position.adjusted:.3f} of the comparisons if both "
        f"display orders of every pair count equally (p {p_value_clause(position.p_value)})."
    )


def _advice_on_prompts(f: Found) -> str:
    columns = " or ".join(f"cov_type='cluster', cov_kwds={{'groups': {name!r}}}" for name in f.voters)
    return few_prompts_advice(f.check.n_contexts, columns) if f.voters else "Collect votes on more prompts"


def _few_clusters(f: Found) -> str:
    texts = []
    for name, row in f.check.clusters.iterrows():
        if row["clusters"] <= FEW_CLUSTERS:
            texts.append(
                f"There are only {row['clusters']} clusters in {name!r}. With {FEW_CLUSTERS} clusters or fewer "
                f"standard errors are too small on average. Use a finer grouping if it keeps dependent votes together."
            )
        elif row["effective"] < FEW_EFFECTIVE:
            texts.append(
                f"The {row['clusters']:,} clusters in {name!r} tell no more than {row['effective']:.1f} of one size, "
                f"because the largest has {row['largest']:,} {row['of']}. With fewer than {FEW_EFFECTIVE}, intervals "
                f"hold only roughly. Use a column with more even clusters if it keeps dependent votes together."
            )
    return _SEVERAL.join(texts)


def _better_settings(f: Found) -> str:
    """Recommend other settings, where the user's settings leave out many votes or have large standard errors."""
    c, table = f.check, f.check.settings
    if not (c.pairs["compared"] == (f.contexts >= c.min_labels)).all() or c.edge_weights not in ("equal", "counts"):
        # The user gave a graph or weights, and the settings do not decide which pairs are compared.
        return ""
    names = ["position_bias", "min_labels", "edge_weights"]
    requested = (c.position_bias, c.min_labels, c.edge_weights)
    best = table.iloc[recommended_row(table, requested)]
    current = table[(table[names] == list(requested)).all(axis=1)].iloc[0]
    changes = [
        f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}"
        for name, value, old in zip(names, best[names], requested, strict=True)
        if value != old
    ]
    if not changes or not np.isfinite(best["se_largest"]):
        return ""
    if best[names].tolist() == [False, 1, "counts"]:
        changes = ["pairs='arena'"]
    finding = (
        f"uses {100 * current['share']:.3g} % of the votes, and its standard errors of bt are up to "
        f"{current['se_largest']:.2f} times those of Bradley-Terry maximum likelihood"
        if np.isfinite(current["se_largest"])
        else "does not connect all models"
    )
    asks = f" and ask {AS_MET}" * (best["edge_weights"] == "counts" != c.edge_weights)
    return (
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


_WORDS: dict[str, Callable[[Found], str]] = {
    "worst": _worst_gaps,
    "missing": _missing,
    "keep": _keep,
    "dropped": lambda f: counted(f.check.n_dropped, "row"),
    "prompts": lambda f: counted(f.check.n_contexts, "prompt"),
    "similar": _similar,
    "notices": lambda f: _SEVERAL.join(map(as_sentence, f.notices)),
    "lost_runs": lambda f: counted(f.check.scores.n_lost if f.check.scores else 0, "run", "runs") + " without a score",
    "are": lambda f: "is" if f.check.scores and f.check.scores.n_lost == 1 else "are",
    "runs": _runs,
    "better_settings": _better_settings,
    "copies": lambda f: counted(f.check.n_copies, "row"),
    "n_left_out": lambda f: f"{len(f.left_out)}",
    "n_pairs": lambda f: f"{len(f.check.pairs):,}",
    "requirement": lambda f: f"min_labels={f.check.min_labels} labelled prompts in {_ORDERS[f.check.position_bias]}",
    "pairs": _pairs,
    "weak": lambda f: counted(f.n_weak, "pair"),
    "few_votes": lambda f: f"{_FEW_VOTES}",
    "rare": lambda f: listed(f.rare),
    "no_wins": _no_wins,
    "same_prompts": _same_prompts,
    "disagreement": lambda f: f"{1 - f.check.repeats.agreement:.0%}",
    "unbalanced": _unbalanced,
    "position": _position,
    "few_clusters": lambda f: f"{FEW_CLUSTERS}",
    "few_prompts_advice": _advice_on_prompts,
    "clusters": _few_clusters,
}
