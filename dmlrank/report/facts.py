"""What a fit says: the one list of facts, from which summary, verdict, ``explain()``, page and command line choose.

A new sentence is a :class:`Fact` in ``FACTS``, at the place where it is to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import norm

from ..data.derived_pairs import DERIVED_KINDS
from ..data.outcomes import COUNTS, MEANINGS, WINNERS
from ..estimation.diagnostics import LARGEST_BIAS
from ..exceptions import listed
from ..fit.adjusted_for_style import StyleEstimates
from ..fit.estimates import Estimates
from ..inference.simultaneous import PairTests
from ..inference.wald import two_sided_p_values, z_statistics
from ..tables.display_text import decimals, fixed_text, inert, isolated, p_value_clause, wrapped
from . import first_place as of_first
from .statements import (
    AS_MET,
    AT_EQUAL_STYLE,
    MET,
    MODELS_NAMED,
    SummaryLevel,
    as_sentence,
    counted,
    doubt_note,
    fewest_opponents,
    interval_method,
    neutral_text,
    percentage,
    runs_or_prompts,
    scores_there,
    some_of,
    the_others,
    tie_weight,
    win_head,
)

# Clusters that raise standard errors by a factor above this are said to matter.
_MATTERS = 1.1
# The difference of log-odds that means 60 wins in 100 comparisons (59.9).
_LOG_ODDS_OF_60 = 0.4
# Sources of the propensities in words.
_PROPENSITIES = {
    "estimated": "estimated from the features of the prompts",
    "marginal": "the shares of prompts on which the pairs were {chosen}, the same for all prompts",
    "given": "those that were given with the data",
}
# Topics, which are the sections of explain() and of pages in their order.
SCORES, _STYLE, FIRST, _PROMISES = (
    "What the scores are",
    "Style",
    "First place",
    "What the intervals and ranks promise",
)
_NONE, _DATA, _METHOD, _ASSUMED = "Why there are no intervals", "Data", "Method", "What is assumed"
_FIGURES, _WARNINGS, _REST = "Diagnostics", "Warnings", "What the table shows"
PART = "Part of the prompts"
# The sections of explain(), without those that are in the summary alone.
_SECTIONS = (SCORES, _STYLE, FIRST, _NONE, _PROMISES, PART, _DATA, _METHOD, _ASSUMED, _FIGURES)
# The topics of each paragraph below a summary; warnings stand before the last paragraph.
_PARAGRAPHS = ((FIRST, _NONE, _WARNINGS), (PART, _STYLE, _DATA, _FIGURES), (SCORES, _REST, _PROMISES))


@dataclass(frozen=True, eq=False)
class Subject:
    """What facts are about: estimates at a level of confidence, with their words.

    results, level: The estimates, and what is stated at the level.
    tests: Tests of all pairs, which a page has.
    on_page: Whether the facts are for a page.
    """

    results: Estimates
    level: SummaryLevel
    tests: PairTests | None = None
    on_page: bool = False

    @cached_property
    def modes(self) -> frozenset[str]:
        """What the result is and has, of which facts say for which of these they hold."""
        level, e = self.level, self.results
        holds = {
            "page": self.on_page,
            "pairs": self.tests is not None and bool(np.isfinite(self.tests.critical)),
            "ranks": level.separation is not None,
            "single": e.of_models and len(e.models) == 1,
            "race": self.race is not None and not self.race.untold,
        }
        return e.modes | {mode for mode, is_so in holds.items() if is_so}

    @cached_property
    def race(self) -> of_first.Race | None:
        """The test of first place."""
        return of_first.race_of(self.results, self.level)

    @cached_property
    def words(self) -> dict[str, object]:
        """The words of texts in braces."""
        e, d = self.results, self.results.description
        linear = "linear in the prompt's features" if "contextual" in self.modes else "the same in all prompts"
        return {
            "e": e,
            "d": d,
            "g": e.diagnostics,
            "n_rows": len(e.names),
            "nouns": f"{e.counts}s",
            "noun": e.counts,
            "chosen": "voted on" if e.counts == "vote" else "compared",
            "unit": "prompts" if d.context else "votes",
            "confidence": self.level.confidence,
            "terms": features_of(e),
            "others": the_others(e),
            "linear": linear,
            "where": ", and on which prompts" if "contextual" in self.modes else "",
            "looks": "" if e.sequence is None else f" {e.sequence.clause}",
            "promise": "" if e.sequence is None else e.sequence.promise,
        }

    def says(self, text: Text) -> str:
        """Return a text about this subject."""
        return text(self) if callable(text) else text.format_map(self.words)


Text = str | Callable[[Subject], str]


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact: its place in ``FACTS`` is its order.

    topic: The section of ``explain()`` and of pages.
    modes: Words of ``Subject.modes`` with commas between them, all of which have to hold; a minus sign is "not".
    short: What a summary says, and a verdict where the topic is first place; empty for nothing.
    long: What ``explain()`` and a page say; the short form where None, nothing where it is empty.
    """

    topic: str
    modes: str
    short: Text = ""
    long: Text | None = None

    def holds(self, subject: Subject) -> bool:
        """Whether the fact is about such a result."""
        wanted = (mode.strip() for mode in self.modes.split(",") if mode)
        return all((mode.lstrip("-") in subject.modes) != mode.startswith("-") for mode in wanted)


def short_facts(subject: Subject, *topics: str) -> list[str]:
    """Return what a summary says about topics, in the order of the list."""
    found = (
        subject.says(fact.short) for topic in topics for fact in FACTS if fact.topic == topic and fact.holds(subject)
    )
    return [text for text in found if text]


def long_facts(subject: Subject, topic: str) -> list[str]:
    """Return what ``explain()`` says about a topic; a page has the short facts on first place above its table."""
    facts = (fact for fact in FACTS if fact.topic == topic and fact.holds(subject))
    shown = (fact for fact in facts if not (subject.on_page and fact.short and topic == FIRST))
    found = (subject.says(fact.short if fact.long is None else fact.long) for fact in shown)
    return [text for text in found if text]


def verdict_sentences(results: Estimates, level: SummaryLevel) -> list[str]:
    """Return who leads and whether this is decided, by how much, which pairs are told apart, what would decide."""
    return short_facts(Subject(results, level), FIRST)


def summary_notes(results: Estimates, level: SummaryLevel) -> tuple[str, ...]:
    """Return the notes below the summary: first place, what some fits have, warnings in full, what the table is."""
    subject, warnings = Subject(results, level), fit_warnings(results)
    n_warnings = len(warnings)
    labels = ["Warning"] if n_warnings == 1 else [f"Warning {n} of {n_warnings}" for n in range(1, n_warnings + 1)]
    first, some, last = (" ".join(short_facts(subject, *topics)) for topics in _PARAGRAPHS)
    warned = (f"{label}: {text}" for label, text in zip(labels, warnings, strict=True))
    return tuple(filter(None, (first, some, *warned, last)))


def explanations(
    subject: Subject, remarks: Sequence[tuple[str, Sequence[str]]] = ()
) -> list[tuple[str, Sequence[str]]]:
    """Return titles and paragraphs of the sections on a fit; ``remarks`` stand before the diagnostics."""
    sections: list[tuple[str, Sequence[str]]] = [(topic, long_facts(subject, topic)) for topic in _SECTIONS]
    return [(title, texts) for title, texts in (*sections[:-1], *remarks, sections[-1]) if texts]


def explanation_text(results: Estimates, level: SummaryLevel, in_short: Sequence[tuple[str, str]]) -> str:
    """Return the sections on a fit as text, in lines of at most 78 characters."""
    lines = []
    sections = explanations(Subject(results, level))
    for title, paragraphs in (*sections, ("The fit in short", [f"{label} {value}" for label, value in in_short])):
        lines.append(title)
        for text in paragraphs:
            lines += wrapped("  " + isolated(inert(text)), 78, "  ")
        lines.append("")
    return "\n".join(lines).rstrip()


def fit_warnings(results: Estimates) -> list[str]:
    """Return the warnings of the fit as sentences, without the one that there are no intervals."""
    reason = results.why_no_intervals
    return [as_sentence(text) for text in results.diagnostics.warnings if not (reason and reason in text)]


# --- what the scores are ----------------------------------------------------------------------------------------------


def features_of(results: Estimates) -> str:
    """Return the features of the formula; empty where it has none."""
    features = results.description.formula.split("~", 1)[-1].split("|")[0].strip()
    return features if "features" in results.modes else ""


def score_words(results: Estimates) -> str:
    """Say in a few words what the scores are, their unit and what a difference means."""
    if not results.of_models:
        return results.functional_label
    scale, kind = results.scale, results.kind
    definition = kind.in_short.format(n_models=len(results.models), opponents=the_others(results))
    definition = definition or results.functional_label
    definition += ", from mean preferences" if results.averages_preferences else ""
    unit = "" if scale.natural else ", in Elo points" if scale.name == "elo" else f", {scale.name}"
    if scale.anchor is not None:
        unit += f" ({scale.anchor[0]} = {scale.anchor[1]:g})"
    elif scale.mean is not None:
        unit += f" (mean {scale.mean:g})"
    unit += AT_EQUAL_STYLE if results.style else ""
    if kind.link == "logit":
        unit += f"; a lead of {_LOG_ODDS_OF_60 * scale.factor:.2g} means 60 wins in 100 comparisons"
    return f"{definition}{unit}"


def score_definition(results: Estimates) -> str:
    """Say what a score is, and how it was multiplied and shifted."""
    d, unit = results.description, results.scale
    meaning = results.kind.meaning.format(n_models=len(results.models), opponents=the_others(results))
    said = [meaning or f"A score is the output of {results.functional_label}."]
    if d.equal_tasks:
        said.append(f"Prompts are weighted so that all tasks (values of {d.equal_tasks!r}) count the same.")
    elif d.weighted:
        said.append("Prompts are weighted as the data say.")
    if unit.name == "elo":
        said.append("Scores are shown in Elo points (400 / ln 10 = 173.7 points for each unit of log-odds).")
    elif not unit.natural and unit.name != "log-odds":
        said.append(f"Scores are shown multiplied by {unit.factor:g}.")
    if unit.anchor is not None:
        model, value = unit.anchor
        said.append(f"Scores are shifted so that {model} has {value:g}; the shift changes no interval's width.")
    elif unit.mean is not None:
        said.append(f"Scores are shifted so that their mean is {unit.mean:g}.")
    return " ".join(said)


def _meaning(s: Subject) -> str:
    outputs = "The rows are the outputs of a user-defined functional."
    said = score_definition(s.results) if s.results.of_models else outputs
    return " ".join(filter(None, [said, as_sentence(s.results.reason)]))


def _tested(s: Subject) -> str:
    """Say what z and adj. P compare a row with, and for how many tests p-values are adjusted."""
    e, n_rows = s.results, len(s.results.names)
    row, value = "a score" if e.of_models else "an output", neutral_text(e)
    average = ", the average of the models" if e.kind.link == "logit" else ""
    adjusted = f"adj. P is adjusted for the {n_rows} tests" if n_rows > 1 else "There is one test"
    ends = f" ({interval_method(e)})."
    if e.neutral is not None:
        subject = "it" if n_rows > 1 else "adj. P"
        ends = f": {subject} is below {s.level.alpha:g} exactly where the interval excludes {value}."
    against = f"{value}{average}" if e.neutral is not None else f"the mean {row.split()[-1]}"
    return f"z and adj. P test whether {row} equals {against}. {adjusted}{ends}"


def _tested_in_short(s: Subject) -> str:
    against = neutral_text(s.results) or "the mean"
    return f"z and adj. P: against {against}." if s.results.neutral != 0 else ""


def _wins(s: Subject) -> str:
    """Say what a win probability is."""
    e, opponents = s.results, the_others(s.results, "the models that it is compared with")
    if fewest := fewest_opponents(e):
        opponents += f" (a dash stands for fewer than {fewest})"
    averaged = f", averaged over {opponents}, which all count the same" if len(e.models) > 2 else ""
    # Win probabilities are about the votes, which scores at equal style are not.
    unadjusted = ", without the adjustment for style" if e.style else ""
    ties = e.description.tie_weights
    return (
        f"The win probability is the estimated probability that the model wins a comparison{averaged}{unadjusted}"
        f"{f'; a tie counts {tie_weight(ties)}' if ties else ''}. The share of its {e.counts}s that a model won may be "
        f"another number, because it depends on the opponents that it met."
    )


def _met(s: Subject) -> str:
    fewest, head = fewest_opponents(s.results), win_head(s.results)
    dash = f' ("-": fewer than {fewest})' if fewest else ""
    return f"{head}: against the models that each was compared with, which differ{dash}." if MET in head else ""


def _ties(s: Subject) -> str:
    d = s.results.description
    is_half = d.tie_share and not s.results.part and tie_weight(d.tie_weights) == "1/2"
    ties = f"{100 * d.tie_share:.2g} % of the {s.results.counts}s are ties"
    return f"A tie counts as half a win; {ties}." if is_half else ""


def slope_sentences(e: Estimates, style: StyleEstimates) -> str:
    """Say what scores at equal style are, with the slopes."""
    unit = "log-odds" if e.kind.link == "logit" else "win share"
    unit = unit if e.scale.natural else f"score, {e.scale.name}"
    errors, slopes = style.slope_covariance.std_errors, []
    p_values = two_sided_p_values(z_statistics(style.slopes, errors), style.slope_covariance)
    for name, slope, error, p in zip(style.columns, style.slopes, errors, p_values, strict=True):
        # The standard error has two digits.
        digits = decimals(np.array([error]), fewest=2)
        slopes.append(f"{name} {slope:.{digits}f} (std. err. {error:.{digits}f}, p {p_value_clause(p)})")
    return (
        f"Scores are those of answers that are alike in {listed(style.columns)}: the slopes on these style differences "
        f"within prompt and pair are removed. Slopes ({unit} for one unit of the difference): {'; '.join(slopes)}. "
        f"This is an association, not an effect: style lies between the model and the vote, and better answers may be "
        f"longer."
    )


def _of_race(say: Callable[[of_first.Race], str]) -> Text:
    """Return the text of a sentence about the test of first place."""
    return lambda s: say(s.race) if s.race is not None else ""


# --- what holds -------------------------------------------------------------------------------------------------------


def _jointly(s: Subject) -> str:
    """Say under which conditions the intervals of the table hold at the same time."""
    conditions = [
        *["the Bradley-Terry model holds"] * ("assumes" in s.modes),
        *["votes not cast are like those cast"] * ({"learnt", "derived"} & s.modes == {"learnt"}),
    ]
    sets, they = (", and so do ranks" if "ranks" in s.modes else ""), "intervals hold jointly"
    start = f"If {' and '.join(conditions)}, {they}" if conditions else they.capitalize()
    # With few clusters the intervals by normal multipliers are too short, too (docs/ranks.md).
    allows = "" if s.level.bootstrap == "gaussian" else ", which allows for few clusters"
    bootstrap = f" ({s.level.bootstrap} bootstrap{allows})" if s.level.bootstrap else few_units_words(s.results)
    return f"{start}{s.words['looks']} with {s.level.confidence} confidence{bootstrap}{sets}."


def few_units_words(results: Estimates) -> str:
    """Say in parentheses how intervals and tests allow for few prompts or clusters; empty where these are many."""
    covariance, d = results.covariance, results.description
    if results.sequence is not None:
        return ""
    rows = "votes" if d.n_votes == d.n_contexts and results.counts == "vote" else "rows"
    units = "clusters" if d.clusters else "prompts" if d.context else rows
    if covariance.means is not None:
        return f" (each limit allows for one unseen {units.removesuffix('s')})"
    if not covariance.has_few_units:
        return ""
    are_effective = round(covariance.df + 1) < min(covariance.n_clusters, default=d.n_contexts)
    return f" ({covariance.df + 1:.0f} {'effective ' * are_effective}{units}: t quantiles)"


def _held(s: Subject) -> str:
    """Say what all intervals contain at the same time."""
    e, n_rows = s.results, len(s.results.names)
    held = f"all {n_rows} intervals contain the true {'scores' if e.of_models else 'values'} at the same time"
    held = held if n_rows > 1 else "the interval contains the true value"
    looks = f",{s.words['looks']}" if e.sequence else ""
    how = "" if s.on_page else f" ({_how_jointly(s)})"
    return f"If the assumptions below hold, then with {s.level.confidence} confidence {held}{looks}{how}."


def _how_jointly(s: Subject) -> str:
    """Return how intervals of scores hold at the same time, for statisticians."""
    return f"{interval_method(s.results)}{s.level.bootstrap_words}, critical value {s.level.critical:.2f}"


def _ranks(s: Subject) -> str:
    """Say what rank sets and groups mean."""
    separation, n_models = s.level.separation, len(s.results.models)
    assert separation is not None
    column = "the column “Group”" if s.on_page else "ranks()"
    sign = "number" if any("," in group or group.isdigit() for group in s.level.letters) else "letter"
    groups = (
        f" Models without a common {sign} in {column} are told apart. Models that share a {sign} may still differ. A "
        f"dash stands for all {sign}s from the first to the last."
    )
    return (
        f"With {s.level.confidence} confidence all rank sets, the ranks that the data leave possible, contain the true "
        f"ranks. Two models are told apart where the tests show that one of them ranks above the other: this holds for "
        f"{separation.n_separated:,} of {n_models * (n_models - 1) // 2:,} pairs.{groups * any(s.level.letters)}"
    )


def _untested(s: Subject) -> str:
    """Say which scores have no test because their standard error is zero."""
    e, errors = s.results, s.results.covariance.widened.std_errors
    if not (e.fixed.any() or not (errors > 0).all()):
        return ""
    names = ", ".join(name for name, error in zip(e.names, errors, strict=True) if not error > 0)
    reason = "the functional fixes the score" if e.fixed.any() else "the estimate does not vary in these data"
    return f"There is no test for {names}: the standard error is zero, because {reason}."


# --- data -------------------------------------------------------------------------------------------------------------


def _what_became_of_rows(s: Subject) -> str:
    """Say how many rows are no votes that are used, by cause; nothing where all are, or where this is not known."""
    e, d = s.results, s.results.description
    n_rare = e.votes.n_left_out if e.votes else 0
    lost = [*d.rows_lost, ("with a vote on a pair that is not compared", n_rare)]
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in lost if number)
    if not (d.rows_lost and reasons) or e.part:
        return ""
    return f"{d.n_rows:,} rows: {reasons}; the votes of the other {d.n_votes - n_rare:,} are used."


def _rows_in_short(s: Subject) -> str:
    """Say what became of rows where the summary's head, which has the rows without a vote, does not say it."""
    d, votes = s.results.description, s.results.votes
    known = sum(number for _, number in d.rows_lost) == d.n_unlabelled and not (votes and votes.n_left_out)
    return "" if known else _what_became_of_rows(s)


def _counts(s: Subject) -> str:
    """Say what was read and dropped."""
    if said := _what_became_of_rows(s):
        return said
    d, e = s.results.description, s.results
    unit, gap = ("prompt", "without a score of every model") if e.are_means else ("row", "with missing values")
    dropped = f" {counted(d.n_dropped, unit)} {gap} {'was' if d.n_dropped == 1 else 'were'} dropped."
    what = f"{e.counts} between these models" if e.diagnostics.models_dropped else e.counts
    unlabelled = f"; {counted(d.n_unlabelled, 'prompt')} without a {what}" if d.n_unlabelled else ""
    size = f"{counted(d.n_votes, e.counts)} on {counted(d.n_contexts, 'prompt' if d.context else 'row')}"
    return f"{size}{unlabelled}.{dropped if d.n_dropped else ''}"


def _prompts_left_out(s: Subject) -> str:
    n = s.results.description.n_dropped
    return f"{counted(n, 'prompt')} without a score of every model {'is' if n == 1 else 'are'} left out." if n else ""


def _names_changed(s: Subject) -> str:
    n = s.results.description.n_names_changed
    return f"{counted(n, 'name')} of models had outer blanks or another Unicode form, and lost them." if n else ""


def _models_left_out(s: Subject) -> str:
    dropped = s.results.diagnostics.models_dropped
    return f"These models are left out: {listed(dropped, MODELS_NAMED)}." if dropped else ""


def _pairs_left_out(s: Subject) -> str:
    """Say which pairs and votes are left out."""
    n, votes, noun = s.results.diagnostics.pairs_left_out, s.results.votes, s.results.counts
    n_lost, said = votes.n_left_out if votes else 0, ""
    if n:
        with_votes = f" ({counted(n_lost, noun)})" if n_lost else ""
        said = f"{counted(n, 'pair')} with too few labels{with_votes} {'is' if n == 1 else 'are'} not compared."
    if votes and n_lost and s.results.of_models:
        used, total = next((u, n) for u, n in zip(votes.used, votes.total, strict=True) if u < n)
        said += f' In the column "{noun}s", {used:,}/{total:,} means that {used:,} of {total:,} {noun}s are used.'
    return said.lstrip()


def _labels(s: Subject) -> str:
    """Say how labels were read that are numbers, probabilities or derived; labels that are words say it themselves."""
    words, g = {"first": "first wins", "second": "second wins"}, s.results.diagnostics
    labels, kind = g.labels, g.outcome_kind
    meanings = ", ".join(f"{label} = {words.get(meaning, meaning.replace('_', ' '))}" for label, meaning in labels)
    if kind == "preferences":
        low, high = sorted(label for label, _ in labels)
        return f"The labels are preferences from {low} to {high} ({meanings}). There is no category for ties."
    if kind == "counts":
        return f"The columns are numbers of votes ({meanings})."
    if kind == "probabilities":
        return f"The labels are probabilities ({meanings})."
    if kind == "grades":
        return (
            f"Labels are grades. Each number is the share of a win that a grade is worth for the model shown first; "
            f"the other model gets the remainder ({meanings}). {s.results.kind.meaning_of_grades}"
        )
    if kind in DERIVED_KINDS:
        (winner, _), *tie = labels
        ties = f" ({tie[0][0]}: a tie)" if tie else " (no ties)"
        return (
            f"Comparisons are those of the {kind} on a prompt: the model with the {winner} wins{ties}. Comparisons on "
            f"one prompt depend on each other, and the standard errors allow for that."
        )
    return f"Labels: {meanings}." if any(x in ("0", "1", "True", "False") for x, _ in labels) else ""


def _labels_in_short(s: Subject) -> str:
    g = s.results.diagnostics
    if g.outcome_kind == COUNTS:
        words = [
            f"{name} = {f'{meaning} wins' if meaning in MEANINGS[:2] else meaning.replace('_', ' ')}"
            for name, meaning in g.labels
        ]
        return f"The columns are numbers of votes: {', '.join(words)}."
    winners = "The two columns of models say who won and who lost, so that display order plays no part."
    return winners if g.outcome_kind == WINNERS else ""


def _judge(s: Subject) -> str:
    """Say which judges' verdicts are used, and how much precision they add."""
    judge, e = s.results.judge, s.results
    assert judge is not None
    if not e.has_intervals:
        return f"{_verdicts(s)} are used in the estimate."
    varies = judge.alone_errors > 0
    ratio = float(np.square(judge.errors[varies] / judge.alone_errors[varies]).mean()) if varies.any() else float("nan")
    worth = f", which is equivalent to about {judge.worth:,.0f} more human votes" if 0 < judge.worth < np.inf else ""
    usage = "" if judge.how == "two-stage" else " as features of the outcome model"
    is_harmless = judge.how == "two-stage" or e.averages_preferences
    caution = "" if is_harmless else " Such features change what non-linear scores measure."
    return (
        f"{_verdicts(s)}, {judge.n_unlabelled:,} of them without a human label, are used{usage}. The variances of the "
        f"scores are on average {ratio:.2f} times those without verdicts{worth}.{caution}"
    )


def _verdicts(s: Subject) -> str:
    """Return the verdicts that a fit uses as the subject of a sentence."""
    judge = s.results.judge
    assert judge is not None
    noun = "judge" if len(judge.names) == 1 else "judges"
    return f"Verdicts of the {noun} {', '.join(map(repr, judge.names))} on {counted(judge.n_verdicts, 'pair')}"


def _dependence_of_clusters(s: Subject) -> str:
    """Say how much clusters change standard errors, by column and for two columns together."""
    d, factors, noun = s.results.description, s.results.diagnostics.cluster_factors, f"{s.results.counts}s"
    names = list(map(repr, d.clusters))
    if not factors:
        return ""
    times = f"{factors[-1]:.2f} times those of independent {'prompts' if d.context else noun} (median)"
    text = f"Standard errors with clusters of {' and '.join(names)} are {times}"
    if len(names) == 1:
        return f"{text}: {noun} of the same {names[0]} {'hardly ' * (factors[0] <= _MATTERS)}depend on each other."
    alone = [f"with {name} alone {factor:.2f} times" for name, factor in zip(names, factors, strict=False)]
    text = f"{text}, {' and '.join(alone[: len(factors) - 1])}."
    if len(factors) == 3 and max(factors[:2]) <= _MATTERS < factors[2]:
        text += " Neither matters by itself, and both together count twice what they share: name one of them."
    return text


# --- method, assumptions and figures ----------------------------------------------------------------------------------


def _learnt(s: Subject) -> str:
    """Say how preference probabilities and propensities were learnt."""
    d, noun = s.results.description, s.words["nouns"]
    source = _PROPENSITIES.get(d.propensity, d.propensity).format_map(s.words)
    how = (
        f"estimated with cross-fitting (learner: {d.learner}; {d.n_folds} folds, {counted(d.n_rep, 'repetition')}): "
        f"the {noun} on a prompt are never predicted by a model that has seen them"
    )
    if d.n_folds == 1:
        how = f"estimated by the frequencies of the pairs among all {noun}, because there are no features"
    return (
        f"Preference probabilities were {how}. Propensities, the probabilities that a pair is {s.words['chosen']}, are "
        f"{source}."
    )


def _sampling(s: Subject) -> str:
    """Say of what the data are a sample, and what is independent."""
    d, unit, noun = s.results.description, s.words["unit"], str(s.words["nouns"])
    independent = f"Different {unit} are independent"
    if d.clusters:
        names = " and of ".join(f"“{name}”" for name in d.clusters)
        independent = f"{noun.capitalize()} of different clusters of {names} are independent; within a cluster "
        independent += "they may depend"
    elif d.context:
        independent += f"; {noun} on the same prompt may depend on each other"
    weighted = ", each task with the same weight" if d.equal_tasks else ", weighted as the data say" * d.weighted
    population = f"The {unit} are a sample of the population of {unit} to which the statements apply{weighted}."
    fixed = "The statements are about these prompts only."
    return f"{fixed if d.prompts == 'fixed' else population} {independent}."


def _choice_of_pairs(s: Subject) -> str:
    pairs = f"which pairs are {'shown and voted on' if s.results.counts == 'vote' else 'compared'}"
    if "features" in s.modes:
        how = f"does not depend on how the {s.words['nouns']} would turn out"
        return f"Given the features of the prompt in the formula ({s.words['terms']}), {pairs} {how}."
    return (
        f"{pairs.capitalize()} does not depend on the prompt in a way that also matters for the outcome: the formula "
        f"has no features of the prompts."
    )


def _normal(s: Subject) -> str:
    """Say what normal errors of the scores need."""
    e, effective = s.results, s.results.diagnostics.effective_contexts
    if not np.isfinite(effective):
        return ""
    needs = f"prompts: every standard error rests on the equivalent of at least {np.floor(effective):,.0f} prompts of "
    needs += "equal influence"
    if e.description.clusters:
        numbers = zip(e.covariance.n_clusters, e.description.clusters, strict=True)
        counts = " and ".join(f"{n:,} of “{name}”" for n, name in numbers)
        needs = f"clusters, none of which has much of the votes: there are {counts}"
    return f"Errors of the scores are normally distributed, which needs many {needs}."


def _losses(s: Subject) -> str:
    g = s.results.diagnostics
    slope = f"; calibration slope {g.calibration:.2f} (1 is right)" if np.isfinite(g.calibration) else ""
    return f"Out-of-fold log-loss is {g.log_loss:.3f} ({g.log_loss_constant:.3f} for constant probabilities){slope}."


def _bias(s: Subject) -> str:
    """Say how large the biases of curved scores are, and what became of them."""
    g = s.results.diagnostics
    if g.bias_subtracted:
        return f"A bias of up to {g.bias_subtracted:.1f} standard errors was estimated and subtracted."
    if not g.second_order_by_model:
        return ""
    name, bias, error = g.largest_second_order
    return (
        f"Errors of mu bias the scores to second order. The largest of these biases, that of {name}, is estimated as "
        f"{bias:+.2f} standard errors, with an error of {error:.2f}; the biases were {g.second_order_treatment}."
    )


def _bias_left_in(s: Subject) -> str:
    """Say where a bias may be left in; estimates of more than two of their own errors have a warning."""
    g, limit = s.results.diagnostics, LARGEST_BIAS["left in"]
    name, bias, error = g.largest_second_order if g.second_order_by_model else ("", 0.0, 0.0)
    if g.second_order_treatment != "left in" or not limit < abs(bias) <= 2 * error:
        return ""
    return (
        f"Scores may have a bias, estimated as up to {bias:+.1f} standard errors (own error {error:.1f}) ({name}); "
        f"intervals are reliable up to {limit:g}. Collect more {s.words['nouns']}, or use functional='borda', which "
        f"has no such bias."
    )


def _floor(s: Subject) -> str:
    """Say how many predictions or means were raised to a floor."""
    g = s.results.diagnostics
    said = "" if g.means_raised else "Predicted probabilities needed no floor."
    if g.mu_entries:
        said = (
            f"The floor of {g.floor:g}, the smallest probability that the outcome model may give to a category, was "
            f"applied to {g.mu_floored:,} of {g.mu_entries:,} predictions ({percentage(g.mu_floored / g.mu_entries)})."
        )
    if g.means_raised:
        said += (
            f" The mean preferences of {counted(g.means_raised, 'pair')} were so close to 0 or 1 that their log-odds "
            f"or ratios would have no bound; they were raised to a floor."
        )
    return said.lstrip()


def _wins_by_order(s: Subject) -> str:
    return of_first.wins_by_order(s.results, s.level)


def _display_order(s: Subject) -> str:
    """Say how display order is treated, how much it matters, and whether this favours models."""
    d, g = s.results.description, s.results.diagnostics
    reason = f", because {d.order_reason}" if d.order_reason else ""
    ordered, meaning = "modelled" if d.ordered else "ignored", ""
    # NaN, where the effect cannot be tested, is not below.
    if not d.ordered and abs(g.position_z) > norm.isf(s.level.alpha / 2):
        uneven = some_of([name for name, _ in g.uneven_orders])
        meaning = "; every model is shown first in about half of its labels, so that this favours none of them"
        if uneven:
            meaning = f"; not shown first in about half of their labels, so that scores contain part of this: {uneven}"
    return f"Display order is {ordered}{reason}; {_wins_by_order(s)}{meaning}."


def _order_effect(s: Subject) -> str:
    g = s.results.diagnostics
    adds, error = (fixed_text(one, 3) for one in (g.order_effect, g.order_effect_error))
    effect = f"Being shown first adds {adds} to the log-odds of a win (standard error {error})."
    return effect if g.order_effect_error else ""


def _tests_of_ranks(s: Subject) -> str:
    """Say from which tests rank sets and letters come."""
    separation, tests, looks = s.level.separation, s.tests, "looks" in s.modes
    if tests is not None and "pairs" in s.modes:
        method, other = "single-step max-t", "step-down form of the same tests"
        if looks:
            method, other = "Bonferroni's method", "Holm's tests at all looks"
        return (
            f"Intervals of scores hold jointly ({_how_jointly(s)}). Intervals and p-values of differences hold for all "
            f"pairs ({method}{s.level.bootstrap_words}, critical value {tests.critical:.2f}); rank sets and groups use "
            f"the {other}, which separates the same pairs or a few more."
        )
    if tests is not None or separation is None or not separation.critical > 0:
        return ""
    kind = "Holm's tests at all looks" if looks else "step-down tests"
    return (
        f"Rank sets and groups come from {kind} of all differences{s.level.bootstrap_words} (critical value "
        f"{separation.critical:.2f})."
    )


def _joined(say: Callable[[Estimates], Sequence[str]]) -> Text:
    """Return the text of sentences that tables have as notes, too."""
    return lambda s: " ".join(say(s.results))


FACTS: tuple[Fact, ...] = (
    # --- first place, with which a summary begins; the verdict is its short facts ---
    Fact(FIRST, "single, intervals, means", lambda s: of_first.mean_of_one(s.results, s.level)),
    Fact(FIRST, "", _of_race(of_first.who_leads)),
    Fact(FIRST, "race", _of_race(of_first.order_of_lead)),
    Fact(FIRST, "race", _of_race(of_first.by_how_much)),
    Fact(FIRST, "race", _of_race(of_first.pairs_told_apart)),
    Fact(FIRST, "race", _of_race(lambda race: of_first.what_would_decide(race)[0])),
    Fact(FIRST, "race", "", _of_race(lambda race: of_first.what_would_decide(race)[1])),
    Fact(FIRST, "race", "", _of_race(of_first.all_pairs_at_once)),
    Fact(FIRST, "", "", _of_race(of_first.smallest_lead)),
    Fact(_NONE, "-intervals", lambda s: f"These are estimates without intervals: {s.results.why_no_intervals}."),
    Fact(_NONE, "-intervals, models", "The models are in the order of their scores; no test supports this order."),
    Fact(_WARNINGS, "-warned", "Warnings: none."),
    # --- what the scores are ---
    Fact(SCORES, "", _joined(scores_there)),
    Fact(SCORES, "models", lambda s: f"Scores: {score_words(s.results)}.", ""),
    Fact(SCORES, "-models", "Rows: outputs of a user-defined functional.", ""),
    Fact(SCORES, "page", _ties, ""),
    Fact(SCORES, "page, looks", "Intervals, tests and rank sets hold{looks}.", ""),
    Fact(SCORES, "", "", _meaning),
    Fact(SCORES, "means, features", "", "The features of the formula are not used where no score is missing."),
    Fact(
        SCORES,
        "contextual",
        "",
        "The scores are means over prompts of r_j(x) = b_j + w_j'x, the scores of a Bradley-Terry model that are "
        "linear in the features x. The coefficients maximise the likelihood of all votes. If log-odds are not "
        "differences of such scores, the means depend on how often each pair was compared on which prompts.",
    ),
    Fact(
        SCORES,
        "likelihood, -contextual",
        "",
        "The scores maximise the Bradley-Terry likelihood of all votes. If log-odds are not differences of scores, "
        "the scores depend on how often each pair was compared.",
    ),
    Fact(
        SCORES,
        "likelihood, -contextual, features",
        "",
        "The features of the formula are not used; estimator='bt_contextual' uses them.",
    ),
    Fact(
        SCORES,
        "learnt, curved, style",
        "",
        "A formula with other features would define other scores, because log-odds are not linear in votes.",
    ),
    Fact(
        SCORES,
        "learnt, curved, -style, averaged",
        "",
        "Preferences are averaged over prompts first, and scores are computed from these averages. The target does "
        "not depend on the features in the formula.",
    ),
    Fact(
        SCORES,
        "learnt, curved, -style, -averaged, assumes",
        "",
        "It is assumed that the Bradley-Terry model holds for every prompt; restriction_test() tests this.",
    ),
    Fact(
        SCORES,
        "learnt, curved, -style, -averaged, features",
        "",
        "For each prompt, scores are computed from the preference probabilities given the features in the formula; the "
        "scores shown are their averages over prompts. They are not linear in the preferences, and so depend on which "
        "features are conditioned on: a formula with other features would define other scores; average='preferences' "
        "has a target that does not depend on the features.",
    ),
    Fact(
        SCORES,
        "learnt, curved, -style, -averaged, -features",
        "",
        "The scores describe preferences averaged over all prompts. A formula with features would define other "
        "scores, unless the preferences are averaged before scores are computed (average='preferences').",
    ),
    Fact(SCORES, "intervals, -page", "", _tested),
    Fact(SCORES, "models, -means", "", _wins),
    # --- what a summary says of its columns alone ---
    Fact(
        _REST,
        "",
        lambda s: (
            f"Pairs weigh as much as they have labels: {AS_MET}, and with smaller standard errors."
            if s.results.description.edge_weights == "counts"
            else ""
        ),
    ),
    Fact(_REST, "", _met),
    Fact(_REST, "intervals, several", _tested_in_short),
    Fact(
        _STYLE,
        "style",
        lambda s: f"Slopes on {listed(s.results.style.columns if s.results.style else ())} are removed; see .style.",
        lambda s: slope_sentences(s.results, s.results.style) if s.results.style else "",
    ),
    # --- what intervals and ranks promise ---
    Fact(_PROMISES, "intervals", "", _joined(doubt_note)),
    Fact(_PROMISES, "intervals", _jointly, _held),
    Fact(_PROMISES, "looks", "", "{promise}"),
    Fact(_PROMISES, "ranks", "", _ranks),
    Fact(
        _PROMISES,
        "ranks",
        "",
        "Intervals of single scores may overlap although the difference between two models is significant: compare "
        "two models by their difference, not by their intervals.",
    ),
    Fact(
        _PROMISES,
        "pairs",
        "",
        "Differences of two models are tested all at once: intervals and adjusted p-values hold for all pairs "
        "together, so that any pair may be chosen after looking.",
    ),
    Fact(
        PART, "part, means", "The scores of {e.part} are means over its prompts; warnings are those of the whole fit."
    ),
    Fact(
        PART,
        "part, -means",
        "The scores of {e.part} come from the outcome model and the propensities of the whole fit, whose warnings and "
        "figures these are.",
    ),
    Fact(
        _PROMISES,
        "intervals, one-step, -derived, -page",
        "",
        lambda s: (
            "Votes that were not cast are assumed to be like those that were"
            f"{'' if s.results.style else '; sensitivity() bounds the error'}."
        ),
    ),
    Fact(_PROMISES, "intervals", _untested),
    Fact(_PROMISES, "intervals", "", lambda s: as_sentence(s.results.covariance.note)),
    Fact(_PROMISES, "-page", "More: res.explain().", ""),
    # --- data ---
    Fact(_DATA, "", _rows_in_short, _counts),
    Fact(_DATA, "means", _prompts_left_out, ""),
    Fact(_DATA, "", _names_changed),
    Fact(_DATA, "", "", _pairs_left_out),
    Fact(_DATA, "", _models_left_out),
    Fact(_DATA, "-means", _labels_in_short, _labels),
    Fact(_DATA, "tasks", "Tasks (values of {d.equal_tasks!r}) count the same.", ""),
    Fact(_DATA, "clusters", _dependence_of_clusters, ""),
    Fact(_DATA, "", _joined(runs_or_prompts), ""),
    Fact(_DATA, "judge", lambda s: f"{_verdicts(s)} are used; see .judge.", _judge),
    # --- method ---
    Fact(
        _METHOD,
        "means, gaps",
        "",
        lambda s: (
            "The scores are means over all prompts, although some models have no score on some of them. Features of "
            "the formula, and models with a score on every prompt, predict the scores that are not there, out of fold, "
            "and the scores that are there correct the predictions"
            f"{', each with the weight 1 / probability of its run' * ('drawn' in s.modes)}; where nothing predicts "
            "them, a score is the mean of those that are there. Standard errors come from the variance between "
            "prompts. Differences of models are paired on the prompts that both have."
        ),
    ),
    Fact(
        _METHOD,
        "means, -gaps",
        "",
        "The scores are plain means, and nothing is learnt. Standard errors come from the variance between "
        "prompts, which contains that between runs. All models were scored on the same prompts, so that "
        "differences of models are paired: what makes a prompt hard for all of them cancels.",
    ),
    Fact(
        _METHOD,
        "likelihood",
        "",
        lambda s: (
            "The scores maximise the likelihood of "
            + (
                "a Bradley-Terry model in which scores are linear in the prompt's features, averaged over prompts"
                if "contextual" in s.modes
                else "the Bradley-Terry model"
            )
            + ". Their standard errors are sandwich estimates, which do not assume that the model is right."
        ),
    ),
    Fact(_METHOD, "learnt", "", _learnt),
    Fact(
        _METHOD,
        "learnt, -corrected",
        "",
        "The scores are computed from the learnt probabilities without a correction of their bias.",
    ),
    Fact(
        _METHOD,
        "corrected",
        "",
        "Each score is first computed from these probabilities and then corrected with the {nouns}, each weighted by "
        "one over its propensity. The correction removes the first-order effect of errors in the learnt probabilities, "
        "so that intervals can be valid although machine learning was used.",
    ),
    Fact(_METHOD, "corrected, assumes", "", "It is assumed that a Bradley-Terry model holds in every prompt."),
    Fact(
        _METHOD,
        "corrected, -assumes",
        "",
        lambda s: (
            "No Bradley-Terry model is assumed"
            + (
                ": the scores are those whose differences come closest to the log-odds of wins of all pairs."
                if s.results.functional == "bt"
                else "."
            )
        ),
    ),
    # --- assumptions ---
    Fact(_ASSUMED, "intervals", "", _sampling),
    Fact(
        _ASSUMED,
        "intervals, means, drawn",
        "",
        "Runs were drawn with the given probabilities, whatever their scores would be: a round of runs may depend "
        "on earlier scores, but not on those of the prompt itself.",
    ),
    Fact(
        _ASSUMED,
        "intervals, means",
        "",
        "Limits count one unseen prompt on their side; beyond that errors of the means are near normal, which needs "
        "many prompts, and more of them where nearly all scores of a model are equal.",
    ),
    Fact(
        _ASSUMED,
        "intervals, likelihood",
        "",
        "Differences between models are {linear}. If they are not, the scores depend on how often each pair was "
        "{chosen}{where}.",
    ),
    Fact(_ASSUMED, "intervals, learnt", "", _choice_of_pairs),
    Fact(
        _ASSUMED,
        "intervals, learnt",
        "",
        "Every compared pair had a chance to be {chosen} for every kind of prompt. The smallest propensity of a {noun} "
        "is {g.min_propensity:.3g}.",
    ),
    Fact(
        _ASSUMED,
        "intervals, learnt",
        "",
        lambda s: (
            "The learnt probabilities are close enough to the truth: the error that remains after the correction is a "
            "product of the errors of the preference probabilities and of the propensities"
            f"{'' if 'linear' in s.modes else ', and of squares of the errors of the preference probabilities'}."
        ),
    ),
    Fact(_ASSUMED, "intervals, learnt", "", _normal),
    # --- figures ---
    Fact(_FIGURES, "learnt", "", _losses),
    Fact(
        _FIGURES,
        "learnt",
        "",
        "Labels are weighted by 1 / propensity. The effective sample size of the weighted labels of a pair is at least "
        "{g.effective_share:.2f} times their number (1 if all weights are equal).",
    ),
    Fact(_FIGURES, "learnt, intervals", _bias_left_in, _bias),
    Fact(_FIGURES, "learnt", "", _floor),
    Fact(
        _FIGURES,
        "learnt, ordered",
        lambda s: as_sentence(_wins_by_order(s)),
        _display_order,
    ),
    Fact(_FIGURES, "learnt, -ordered", "", _display_order),
    Fact(
        _FIGURES,
        "likelihood",
        "",
        "In-sample log-loss is {g.log_loss:.3f} ({g.log_loss_constant:.3f} for a fair coin).",
    ),
    Fact(_FIGURES, "likelihood", _order_effect),
    Fact(_FIGURES, "intervals", _joined(doubt_note), ""),
    Fact(_FIGURES, "", "", _tests_of_ranks),
    Fact(_FIGURES, "", "", "Seed {d.seed}, dmlrank {d.version}."),
)
