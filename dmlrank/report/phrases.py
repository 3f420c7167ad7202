"""Parts of sentences that facts, tables and other rooms share, notes of tables, also of groups and comparisons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from ..exceptions import listed
from ..fit.estimates import Estimates
from ..fit.state import LEAST_LIKELY
from ..inference.ranks import FirstPlace
from ..inference.simultaneous import Separation
from ..inference.wald import WaldTestResults
from ..options import OPTIONS
from ..tables.summary_table import fixed_text, p_value_clause

_FRACTIONS = {0.0: "0", 0.5: "1/2", 1.0: "1"}
_SMALLEST_PERCENTAGE = 0.05
MODELS_NAMED = 10
_NAMED_IN_VERDICT = 6
# Share of prompts on tasks without a run of a model from which the summary says so.
_LEAST_MODELLED = 0.05
# A model with less than this share of the median votes has few.
_THIN = 0.2
AT_EQUAL_STYLE = ", at equal style"
# At the head of the win probabilities where models have different opponents.
MET = "met"
# Opponents over which a win probability is averaged, at least; 2 for up to four models.
_FEWEST_OPPONENTS = 3
AS_MET = "another question than with equal weights, about opponents as often as met"


@dataclass(frozen=True, slots=True, eq=False)
class SummaryLevel:
    """What a summary states at its level of confidence.

    alpha: One minus the joint level of the intervals.
    critical: Half-width of the intervals in standard errors (max-t); NaN without intervals.
    separation: Which models are above which; None where the estimates are not scores of models, or have no intervals.
    bootstrap: Multipliers of the bootstrap behind critical value and separation; None for normal draws.
    first: Whether first place is decided; None where there is no separation, or no difference varies.
    """

    alpha: float
    critical: float
    separation: Separation | None
    bootstrap: str | None = None
    first: FirstPlace | None = None

    @property
    def confidence(self) -> str:
        """The joint level as a percentage."""
        return f"{100 * (1 - self.alpha):g} %"

    @property
    def bootstrap_words(self) -> str:
        """The bootstrap behind the critical values, after a comma; empty for normal draws."""
        return "" if self.bootstrap is None else f", {self.bootstrap} bootstrap"


def as_sentence(text: str) -> str:
    """Return the text with a capital letter, unless it begins with code, and a full stop at the end."""
    stripped = text.strip()
    if not stripped:
        return ""
    starts_with_a_word = re.match(r"[a-z]+(?:['’-][a-z]+)*[\s,;:.]", stripped + " ") is not None
    capitalised = stripped[0].upper() + stripped[1:] if starts_with_a_word else stripped
    return capitalised if capitalised[-1] in ".!?" else f"{capitalised}."


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def the_others(results: Estimates, where_they_differ: str = "opponents that differ between models") -> str:
    """Return "the other 7 models", or what to call a model's opponents where these differ between models."""
    if apart := results.description.models_apart:
        return f"the {len(results.models) - len(apart)} models with enough votes"
    n_models = len(results.models)
    others = "the other model" if n_models == 2 else f"the other {n_models - 1} models"
    return others if results.graph.complete else where_they_differ


def enumerated(texts: Sequence[str]) -> str:
    """Return texts with commas between them, and "and" before the last one."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def some_of(names: Sequence[str]) -> str:
    """Return names in a sentence; of many names the first ones, and how many others there are."""
    few = len(names) <= _NAMED_IN_VERDICT + 1
    return enumerated(names if few else [*names[:_NAMED_IN_VERDICT], f"{len(names) - _NAMED_IN_VERDICT} others"])


def first_of(texts: Sequence[str], n_named: int, separator: str = "; ") -> str:
    """Return the first of several texts as one, which says how many others there are."""
    n_others = len(texts) - n_named
    return separator.join([*texts[:n_named], *[f"and {n_others:,} more"] * (n_others > 0)])


def percentage(share: float) -> str:
    """Return a share as a percentage with one digit after the point."""
    value = 100 * share
    return f"{value:.1f} %" if value == 0 or value >= _SMALLEST_PERCENTAGE else "less than 0.1 %"


def neutral_text(results: Estimates) -> str:
    """Return the value that scores are tested against as text; empty where this is the mean score."""
    value = results.neutral
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def tie_weight(ties: Sequence[tuple[str, float, float]]) -> str:
    """Return how much ties count, in words."""
    if not ties:
        return "no ties"
    weights = {}
    for name, *both in ties:
        first, second = (_FRACTIONS.get(weight, f"{weight:g}") for weight in both)
        weights[name] = first if first == second else f"{first} and {second}"
    if len(set(weights.values())) == 1:
        return next(iter(weights.values()))
    return ", ".join(f"{name.replace('_', ' ')} {weight}" for name, weight in weights.items())


def functional_unit(results: Estimates) -> str:
    """Return the functional, whether it is one of mean preferences, and the unit in which its scores are shown."""
    average = " of mean preferences" if results.averages_preferences else ""
    label = results.functional_label + average + (AT_EQUAL_STYLE if results.style else "")
    return label + ("" if results.scale.natural else f", {results.scale.name}")


def win_head(results: Estimates) -> str:
    """Return the head of the win probabilities; empty without such a column, or where the score is this probability."""
    if not results.of_models or results.are_means or np.allclose(results.shares, results.estimate, rtol=0, atol=1e-9):
        return ""
    return "win" if results.graph.complete else f"win vs {MET}"


def fewest_opponents(results: Estimates) -> int:
    """Return the number of opponents below which a win probability is about them; 0 where all models have as many."""
    fewest = min(max(len(results.models) - 2, 2), _FEWEST_OPPONENTS)
    return fewest if results.graph.degrees.min() < fewest and not results.graph.complete else 0


def interval_method(results: Estimates) -> str:
    """Return how simultaneous intervals and adjusted p-values of scores hold jointly."""
    return "max-t" if results.sequence is None else "Bonferroni"


def scores_there(results: Estimates) -> list[str]:
    """Say how many runs have a score, or were drawn, or how many missing scores count as a value."""
    d = results.description
    if results.are_means and d.propensity == "given":
        there, possible = d.n_comparisons, d.n_contexts * len(results.models)
        what = "runs of a model on a prompt were made" if results.grades is None else "answers were graded"
        return [
            f"{there:,} of {possible:,} {what} ({percentage(there / possible)}), drawn "
            f"with known probabilities of at least {results.diagnostics.min_propensity:.2g}."
        ]
    if d.n_filled:
        return [f"{counted(d.n_filled, 'missing score')} count{'s' * (d.n_filled == 1)} as {d.filled_with:g}."]
    return [f"{d.runs_there}; runs without one are left out."] if d.runs_there else []


def models_with_few_votes(results: Estimates) -> dict[str, int]:
    """Return the votes of models that have less than a fifth of those of a typical model, or of the most scores."""
    if results.votes is None or results.counts == "comparison":
        return {}
    total = results.votes.total
    # A plan for few models runs most of them hardly at all.
    usual = np.max(total) if results.are_means else np.median(total)
    return {results.models[j]: int(total[j]) for j in np.flatnonzero(total < _THIN * usual)}


def models_to_mark(results: Estimates) -> list[str]:
    """Return the models with few votes, and those that alone rest on few prompts."""
    d = results.diagnostics
    few = {*models_with_few_votes(results), *d.models_with_few_prompts, *d.doubtful_models}
    return [name for name in results.names if name in few]


# Options and methods in the text of a warning, which only users of Python can use.
_OPTION = re.compile(rf"(?<![\w.])(?:{'|'.join(OPTIONS)})=")
_CODE = re.compile(rf"{_OPTION.pattern}|(?<!\w)\.?[a-z_]+\(\)|\b(?:update|design|compare)\(")


def without_code(text: str) -> str:
    """Return a text for a page, without clauses that name options or methods; in the first one, names alone go."""
    without_brackets = re.sub(r" \([^()]*\)", lambda match: "" if _CODE.search(match[0]) else match[0], text)
    first, *others = re.split(r"(?<=[.;])\s+", without_brackets)
    kept = [_OPTION.sub("", first)]
    for clause in others:
        if not _CODE.search(clause):
            kept.append(clause)
        elif clause.endswith("."):
            # The sentence ends before the clause that is left out.
            kept[-1] = f"{kept[-1][:-1]}."
    shown = " ".join(kept)
    return f"{shown[:-1]}." if shown.endswith(";") else shown


# --- notes that several tables have ---------------------------------------------------------------------------------


def doubt_note(results: Estimates) -> list[str]:
    """Say that intervals, tests and ranks may not hold, of which models where this is known, and where to read why."""
    if not (results.diagnostics.doubts and results.has_intervals):
        return []
    names = results.diagnostics.doubtful_models
    n_others, n_warnings = len(results.names) - len(names) if names else 0, len(results.diagnostics.doubts)
    others = f" This does not concern comparisons among the other {n_others} models." if n_others else ""
    of = f"of {enumerated(names)} " if names else ""
    why = f"{counted(n_warnings, 'warning')} of the fit {'says' if n_warnings == 1 else 'say'} why"
    return [f"Intervals, tests and ranks {of}may not hold for these data: {why}.{others}"]


def few_votes_note(results: Estimates, where: str = "") -> list[str]:
    """Say which models with few votes may hide what holds of others, in tables that do not mark them."""
    votes = models_with_few_votes(results)
    few = [f"{name} {n_votes:,}" for name, n_votes in votes.items()]
    named = ", ".join(few[:MODELS_NAMED]) + ", ..." * (len(few) > MODELS_NAMED)
    return [
        f"Models with few votes{where} ({named}) widen the intervals of all scores, and may hide "
        f"what holds of other models; res.update(min_votes={max(votes.values(), default=0) + 1}) leaves them out."
    ] * (bool(few) and not results.are_means)


def few_prompts_note(results: Estimates) -> list[str]:
    """Say which models have no rank, and why."""
    few = results.diagnostics.models_with_few_prompts
    reason = "a standard error rests on the equivalent of fewer than three prompts"
    return [f"No rank is given to {listed(few)}: {reason}."] * bool(few)


def unseen_note(results: Estimates) -> list[str]:
    """Say which models have no score in a group, because a score would be a prediction alone."""
    unseen = listed([model for model, no in zip(results.names, results.is_unseen, strict=True) if no], MODELS_NAMED)
    return [f"Models without a {results.counts} in this group have no score here: {unseen}."] * bool(unseen)


def sequential_note(results: Estimates) -> list[str]:
    """Say that statements hold at all looks and what had to be fixed in advance; nothing outside sequential views."""
    return [] if results.sequence is None else [results.sequence.promise]


def modelled_sentence(results: Estimates) -> str:
    """Say which model's score rests most on tasks on which it was never run; empty where none does."""
    d = results.description
    if max(d.share_modelled, default=0.0) <= _LEAST_MODELLED:
        return ""
    j = int(np.argmax(d.share_modelled))
    name, unit = results.models[j], d.clusters[0]
    return (
        f"{100 * d.share_modelled[j]:.0f} of 100 prompts of {name} are on {unit}s on which it was never run: there its "
        f"score rests on the other models' scores and on features, and on {name} being as far from them as on the "
        f"{unit}s it was run on; see sensitivity()."
    )


def grades_sentences(results: Estimates) -> list[str]:
    """Say what judges of scores add, what rests on people, and whether graded answers are like the others."""
    g = results.grades
    if g is None:
        return []
    judges, n = f"judge{'s' * (len(g.names) > 1)} {listed(g.names)}", int(g.graded.sum())
    few, many = int(g.graded.min()), int(g.graded.max())
    text = f"People graded {n:,} of {int(g.answers.sum()):,} answers, and the {judges} scored {int(g.judged.sum()):,}"
    is_known = np.isfinite(g.worth) & (g.graded < g.answers)
    if is_known.any():
        each = f"{few:,}" if few == many else f"{few:,} to {many:,}"
        worth = float(np.median(g.worth[is_known]))
        most = float(np.median(g.graded[is_known])) / max(1 - float(g.explained[-1]), 1e-3)
        further = f"; with any number of further judged prompts at most {most:,.0f}" if most > 1.05 * worth else ""
        text += f": the {each} grades of a model are worth about {worth:,.0f}{further}"
    sentences = [f"{text}."]
    half = results.covariance.from_normal(2.0) * np.sqrt(np.diag(g.favour_covariance))
    place = int(np.argmax(np.abs(g.favour) - half)) if len(g.favour) > 1 else 0
    if len(g.favour) > 1 and abs(g.favour[place]) > 1.5 * half[place]:
        way = "higher" if g.favour[place] > 0 else "lower"
        sentences.append(
            f"The {judges} place{'s' * (len(g.names) == 1)} {results.names[place]} "
            f"{fixed_text(abs(g.favour[place]), 3)} {way} than people do, compared with the other models; see .judge."
        )
    if g.unlike_p < LEAST_LIKELY:
        ways = enumerated([f"{fixed_text(abs(d), 2)} {'above' if d > 0 else 'below'}" for d in g.unlike])
        drawn = (
            "they were not drawn with the propensities that were given"
            if results.description.propensity == "given"
            else "they were not drawn at random; their propensities are estimated from judge and features"
        )
        sentences.append(f"Graded answers have judge scores {ways} the others: {drawn}.")
    return sentences


# Labelled prompts or clusters that a group needs for each free score before the law of the test of equality holds: with
# 25, a 5 % test by chi-squared rejects true hypotheses in up to 8 % of simulations (docs/groups.md), with 3 the test of
# independent groups by F.
_PER_SCORE, _PER_SCORE_OF_F = 25, 3


def independent_prompts(e: Estimates) -> int:
    """Return the number of labelled prompts of a group, or of clusters where these are fewer."""
    return min(
        e.description.n_contexts - e.description.n_unlabelled, *(e.covariance.n_clusters or [e.description.n_contexts])
    )


def unseen_models(e: Estimates) -> list[str]:
    """Return the models without a vote in a group."""
    return [name for name, is_unseen in zip(e.models, e.is_unseen, strict=True) if is_unseen]


def in_joint_tests(names: Sequence[str], estimates: Iterable[Estimates]) -> tuple[list[str], str]:
    """Return the models of joint tests, all where fewer than two would be left, and say in brackets which are not.

    A covariance says too little of models with few votes: those that are apart, whose intervals are in doubt, or that
    have no vote in a group.
    """
    few = set[str]()
    for e in estimates:
        few |= {*e.description.models_apart, *e.diagnostics.doubtful_models, *unseen_models(e)}
    left_out = [name for name in names if name in few]
    if not 0 < len(left_out) < len(names) - 1:
        return [*names], ""
    return [name for name in names if name not in few], f" (without {some_of(left_out)}: too few votes)"


def equality_note(fit: Estimates, groups: Mapping[str, Estimates], equality: WaldTestResults | str) -> str:
    """Return the test that all models have the same scores in every group, with a caution where groups are small."""
    if isinstance(equality, str):
        return f"There is no test of equal scores in all groups: {equality}."
    what = "every model has the same score in all groups"
    hardness, without = "", in_joint_tests(fit.models, groups.values())[1]
    if fit.are_means:
        what = "differences between models are the same in all groups (each model's score less the mean score of all "
        what += "models)"
        hardness = " Whether the prompts of some groups are harder for all models is another question, and not tested."
    note = (
        f"Test that {what}{without}: {equality.figures}, P {p_value_clause(float(equality.pvalue))}. "
        f'"P equal" tests one model at a time, '
        f"adjusted for all models by Holm's method.{hardness}"
    )
    sizes = {name: independent_prompts(e) for name, e in groups.items()}
    smallest = min(sizes, key=sizes.__getitem__)
    n_required = (_PER_SCORE_OF_F if equality.law == "F" else _PER_SCORE) * equality.rank // (len(groups) - 1)
    if sizes[smallest] < n_required:
        note += (
            f" The joint test rejects too often for these data: it needs {n_required} labelled prompts or clusters in "
            f"every group, and {smallest} has {sizes[smallest]}."
        )
    return note


# Numbers of reversals, and of changes of ranks or scores, that a sentence names.
_REVERSALS_NAMED, CHANGES_NAMED = 3, 5


# The words with which the news of a comparison begins, which pages show above its table.
MOVED, _RANKED, OVERALL = NEWS = ("What moved", "Ranked in", "All prompts:")


def arrival_sentences(names: Sequence[str], results: Sequence[Estimates]) -> list[str]:
    """Say which models one of two neighbouring results has and the other has not: new ones, and those that are gone."""
    sentences = []
    for one, other in chain(*(((k, k - 1), (k - 1, k)) for k in range(1, len(names)))):
        alone = [model for model in results[one].models if model not in results[other].models]
        if alone:
            sentences.append(f"{_RANKED} {names[one]!r}, not in {names[other]!r}: {first_of(alone, CHANGES_NAMED)}.")
    return sentences


def move_sentence(moves: pd.DataFrame, names: Sequence[str], level: float) -> str:
    """Say which models' ranks are shown to have changed; ``moves`` has these rows only."""
    confidence = f"({100 * level:g} % joint confidence)"
    if not len(moves):
        later = repr(names[1]) if len(names) == 2 else "any later result"
        return f"{MOVED}: no model's rank is shown to differ between {names[0]!r} and {later} {confidence}."
    texts = []
    row: Any
    for row in moves.itertuples():
        low, high = sorted((abs(row.rank_change_low), abs(row.rank_change_high)))
        places = f"{low}" if low == high else f"{low} to {high}"
        verb = "rose" if row.rank_change_low > 0 else "fell"
        texts.append(f"{row.model} {verb} by {places} place{'s' * (high > 1)} in {row.result!r}")
    return f"{MOVED} from {names[0]!r}: {first_of(texts, CHANGES_NAMED)} {confidence}."


def reversal_note(
    names: Sequence[str], results: Sequence[Estimates], reversals: pd.DataFrame | str, alpha: float, of: str = "results"
) -> str:
    """Say which pairs of models two results, or groups, order differently, and for which of them a test shows it."""
    without_intervals = [name for name, result in zip(names, results, strict=True) if not result.has_intervals]
    if without_intervals:
        # The note before this one says why there are no intervals.
        return f"There are no tests between the results, because {without_intervals[0]!r} has no intervals."
    if isinstance(reversals, str):
        return f"There are no tests between the results. {as_sentence(reversals)}"
    if not len(reversals):
        return f"All {of} have the models that they share in the same order."
    statement = (
        f"{counted(len(reversals), 'pair')} of models {'is' if len(reversals) == 1 else 'are'} in opposite orders"
    )
    confidence = f"at a joint confidence level of {100 * (1 - alpha):g} %"
    significant = reversals[reversals["p_adjusted"] <= alpha]
    if not len(significant):
        return (
            f"{statement} in two of the {of}. The tests do not show for any of them {confidence} that both orders "
            f"are real."
        )
    columns = ["model", "other", "above_in", "below_in", "p_adjusted"]
    named = [
        f"{model} is above {other} in {above_in} and below in {below_in} (adjusted p {p_value_clause(p)})"
        for model, other, above_in, below_in, p in significant[columns].to_numpy(dtype=object)
    ]
    return (
        f"{statement} in two of the {of}. For {len(significant):,} of them the tests show {confidence} that both "
        f"orders are real: {first_of(named, _REVERSALS_NAMED)}."
    )
