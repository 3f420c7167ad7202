"""What a fit says: the one list of facts, from which summary, verdict, ``explain()``, page and command line choose.

A new sentence is a line in ``_LIST``. A line has the modes of a result for which the fact holds (words of
``Estimates.modes`` and ``Subject.modes``; a minus sign is "not"), a colon, the short form, a stroke and the long form.
A summary has short forms, ``explain()`` and pages long ones. Without a stroke both are the same; an empty form says
nothing. Lines that begin with blanks continue the one before. Words in braces are found by ``words.Subject``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..fit.estimates import Estimates
from ..tables.summary_table import isolated, wrapped
from .fact_words import Subject
from .phrases import SummaryLevel, as_sentence

_LIST = """
= First place
single, intervals, means: {mean_of_one}
race: {race.who_leads}
race: {race.order_of_lead}
race: {race.by_how_much}
race: {apart} are told apart.
race: {race.what_would_decide[0]}
race: | {race.what_would_decide[1]}
race: | {race.all_pairs_at_once}
always: {rests_on_people}
= Why there are no intervals
-intervals: These are estimates without intervals: {e.why_no_intervals}.
-intervals, models: The models are in the order of their scores; no test supports this order.
= Warnings
-warned: Warnings: none.
= Of which prompts
part, means: The scores of {e.part} are means over its prompts; warnings are those of the whole fit.
part, -means: The scores of {e.part} come from the outcome model and the propensities of the whole fit, whose warnings
  and figures these are.
= What the scores are
always: {runs}
models: Scores: {in_few_words}. | {meaning}
apart: With few votes, placed by these among the others and no part of their average or scores: {apart_named}.
-models: Rows: outputs of a user-defined functional. | The rows are the outputs of a user-defined functional.
tasks: Tasks (values of {d.equal_tasks!r}) count the same.
weighted: | Prompts are weighted as the data say.
elo: | Scores are shown in Elo points (400 / ln 10 = 173.7 points for each unit of log-odds).
multiplied: | Scores are shown multiplied by {e.scale.factor:g}.
anchored: | Scores are shifted so that {e.scale.anchor[0]} has {e.scale.anchor[1]:g}; the shift changes no interval's
  width.
centred: | Scores are shifted so that their mean is {e.scale.mean:g}.
always: | {reason}
page, half ties: A tie counts as half a win; {ties} of the {noun}s are ties. |
page, looks: Intervals, tests and rank sets hold{looks}. |
= What they depend on
means, features: | The features of the formula are not used where no score is missing.
contextual: | The scores are means over prompts of r_j(x) = b_j + w_j'x, scores of a Bradley-Terry model that are
  linear in the features x.
likelihood, -contextual, features: | The features of the formula are not used; estimator='bt_contextual' uses them.
learnt, curved, style: | A formula with other features would define other scores, because log-odds are not linear in
  votes.
learnt, curved, -style, averaged: | Preferences are averaged over prompts first, and scores are computed from these
  averages. The target does not depend on the features in the formula.
learnt, curved, -style, -averaged, assumes: | It is assumed that the Bradley-Terry model holds for every prompt;
  restriction_test() tests this.
learnt, curved, -style, -averaged, features: | For each prompt, scores are computed from the preference probabilities
  given the features in the formula, and averaged over prompts. They are not linear in the preferences: a formula with
  other features would define other scores; average='preferences' has a target that does not depend on the features.
learnt, curved, -style, -averaged, -features: | The scores describe preferences averaged over all prompts. A formula
  with features would define other scores, unless average='preferences'.
= The columns
by counts: Pairs weigh as much as they have labels: {as_met}, and with smaller standard errors. |
met: {win_head}: against the models that each was compared with, which differ{dash}. |
intervals, tested against: z and adj. P: against {neutral_text}. |
intervals, -page: | z and adj. P test whether {score} equals {neutral}. {adjusted}
models, -means: | The win probability is the estimated probability that the model wins a comparison{opponents}.
= Style
style: Slopes on {style} are removed; see .style. | {slopes}
= What the intervals and ranks promise
intervals: | {doubts}
intervals: {jointly} | If the assumptions below hold, then with {confidence} {all_intervals}{looks}.
looks: | {e.sequence.promise}
rank sets: | With {level.confidence} confidence all rank sets, the ranks that the data leave possible, contain the true
  ranks. Two models are told apart where the tests show that one of them ranks above the other: this holds for {apart}.
rank sets: | Compare two models by their difference: their intervals may overlap although it is significant.
intervals, one-step, -derived, -page: | Votes that were not cast are assumed to be like those that were{bounds}.
intervals, untested: There is no test for {without_error}: the standard error is zero, because {why_no_error}.
always: | {covariance}
= Data
lost: {rows_in_short} | {what_became_of_rows}
-lost: | {counts}.
-lost, dropped, -means: | {n_dropped} dropped.
dropped, means: {n_dropped} left out.
renamed: {names} of models had outer blanks or another Unicode form, and lost them.
always: | {pairs_left_out}
models left out: These models are left out: {left_out}.
winners read: The two columns of models say who won and who lost, so that display order plays no part. |
counts read: The columns are numbers of votes: {meanings}.
preferences read: | The labels are preferences from {scale} ({meanings}). There is no category for ties.
probabilities read: | The labels are probabilities ({meanings}).
grades read: | Labels are grades. Each number is the share of a win that a grade is worth for the model shown first;
  the other model gets the remainder ({meanings}). {e.kind.meaning_of_grades}
labels read: | Labels: {meanings}.
derived, -means: | Comparisons are those of the {g.outcome_kind} on a prompt: {winner}. Comparisons on one prompt
  depend on each other, and the standard errors allow for that.
always: {modelled}
always: {grades_and_judges}
judge, -intervals: {verdicts} are used; see .judge. | {verdicts} are used in the estimate.
judge, intervals: {verdicts} are used; see .judge. | {verdicts}, {e.judge.n_unlabelled:,} of them without a human label,
  are used. The variances of the scores are on average {gain}.
judge, features of judges, intervals: | Verdicts are features of the outcome model, which change what non-linear scores
  measure.
= Method
means, gaps: | The scores are means over all prompts, although some models have no score on some of them. Features of
  the formula, judges, and other models whose scores are not missing together with these, predict the scores that are
  not there, out of fold, and the scores that are there correct the predictions{by_runs}. Standard errors come from the
  variance between prompts. Differences of models are paired on the prompts that both have.
means, -gaps: | The scores are plain means, and nothing is learnt. Standard errors come from the variance between
  prompts, which contains that between runs. Differences of models are paired: what makes a prompt hard for all
  cancels.
likelihood: | The scores maximise the likelihood. Their standard errors are sandwich estimates, which do not assume
  that the model is right.
learnt, one fold: | Preference probabilities were estimated by the frequencies of the pairs among all {noun}s, because
  there are no features.
learnt, -one fold: | Preference probabilities were estimated with cross-fitting (learner: {d.learner}; {d.n_folds}
  folds, {repetitions}): the {noun}s on a prompt are never predicted by a model that has seen them.
learnt: | Propensities, the probabilities that a pair is {chosen}, are {source}.
learnt, -corrected: | The scores are computed from the learnt probabilities without a correction of their bias.
corrected: | Each score is first computed from these probabilities and then corrected with the {noun}s, each weighted
  by one over its propensity, which removes the first-order effect of errors in the learnt probabilities.
corrected, -assumes: | No Bradley-Terry model is assumed.
corrected, -assumes, bt: | The scores are those whose differences come closest to the log-odds of wins of all pairs.
= What is assumed
intervals, -fixed: | The {unit} are a sample of the population of {unit} to which the statements apply{population}.
intervals, fixed: | The statements are about these prompts only.
intervals, clusters: | {nouns} of different clusters of {clusters} are independent; within a cluster they may depend.
intervals, context, -clusters: | Different prompts are independent; {noun}s on the same prompt may depend on each
  other.
intervals, -context, -clusters: | Different votes are independent.
intervals, means, drawn: | Runs were drawn with the given probabilities, whatever their scores would be: a round of
  runs may depend on earlier scores, but not on those of the prompt itself.
intervals, means: | Limits count one unseen prompt on their side; beyond that errors of the means are near normal,
  which needs many prompts, and more of them where nearly all scores of a model are equal.
intervals, contextual: | Differences between models are linear in the prompt's features. If they are not, the scores
  depend on how often each pair was {chosen}, and on which prompts.
intervals, likelihood, -contextual: | Differences between models are the same in all prompts. If they are not, the
  scores depend on how often each pair was {chosen}.
intervals, learnt, features: | Given the features of the prompt in the formula ({terms}), which pairs are {shown} does
  not depend on how the {noun}s would turn out.
intervals, learnt, -features: | Which pairs are {shown} does not depend on the prompt in a way that also matters for
  the outcome: the formula has no features of the prompts.
intervals, learnt: | Every compared pair had a chance to be {chosen} for every kind of prompt. The smallest propensity
  of a {noun} is {g.min_propensity:.3g}.
intervals, learnt: | The learnt probabilities are close enough to the truth: the error that remains after the
  correction is a product of the errors of the preference probabilities and of the propensities.
intervals, learnt, -linear: | Squares of the errors of the preference probabilities remain, too, and are small enough.
intervals, learnt, -linear, second order: | The bias from these squares was estimated and {g.second_order_treatment}.
intervals, learnt, effective, -clusters: | Errors of the scores are normally distributed, which needs many prompts:
  every standard error rests on the equivalent of at least {n_effective} prompts of equal influence.
intervals, learnt, effective, clusters: | Errors of the scores are normally distributed, which needs many clusters,
  none of which has much of the votes: there are {n_clusters}.
= Diagnostics
learnt: | Out-of-fold log-loss is {g.log_loss:.3f} ({g.log_loss_constant:.3f} for constant probabilities){calibration}.
likelihood: | In-sample log-loss is {g.log_loss:.3f} ({g.log_loss_constant:.3f} for a fair coin).
learnt: | Labels are weighted by 1 / propensity; the effective number of those of a pair is at least
  {g.effective_share:.2f} times their number.
intervals, subtracted: A bias of up to {g.bias_subtracted:.1f} standard errors was estimated and subtracted.
intervals, second order: | Errors of mu bias the scores to second order. The largest of these biases is estimated as
  {bias}; the biases were {g.second_order_treatment}.
intervals, partly removed: | The labels are too few to see all of them, along every function of the features.
intervals, bias in doubt: Scores may have a bias, estimated as up to {bias}; intervals are reliable up to {reliable}.
  Collect more {noun}s, or use functional='borda', which has no such bias. |
learnt, floored: | The floor of {g.floor:g}, the smallest probability that the outcome model may give to a category,
  was applied to {floored}.
raised: | The mean preferences of {raised} were so close to 0 or 1 that they were raised to a floor.
learnt, ordered: {wins_by_order}. | {display_order}
learnt, -ordered: | {display_order}
order tested: Being shown first adds {order_effect} to the {of_what} (standard error {order_error}).
order tested, learnt: This was estimated in the pairs that were shown in both orders and is taken off the scores of
  all, which assumes that order has the same effect in every pair.
intervals: {doubts} |
intervals, -tests of pairs: | Intervals of scores hold jointly by {jointly_by}.
tests of ranks: | Rank sets and groups come from {tests_of_ranks} of all differences{level.bootstrap_words} (critical
  value {level.separation.critical:.2f}).
tests of pairs: | Intervals of scores hold jointly ({jointly_by}). Intervals and p-values of differences hold for all
  pairs ({tests_of_pairs}, which tells the same pairs apart or a few more.
always: | Seed {d.seed}, dmlrank {d.version}.
= More
always: More: res.explain().
= The short table
rank sets: A rank set has the ranks that the data leave possible.
looks: {e.sequence.promise}
always: Estimated from {d.n_votes:,} {noun}s on {d.n_contexts:,} {rows}.
intervals: {doubts}
"""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact; its place in the list is its topic and its order.

    modes: Those of a result for which it holds; a minus sign is "not".
    short: What a summary says, and a verdict where the topic is first place.
    long: What ``explain()`` and a page say.
    """

    modes: tuple[str, ...]
    short: str
    long: str

    def holds(self, modes: frozenset[str]) -> bool:
        """Whether the fact is about what has these modes."""
        return all((mode.removeprefix("-") in modes) != mode.startswith("-") for mode in self.modes)


def read_facts(text: str) -> dict[str, tuple[Fact, ...]]:
    """Return the facts of the list by topic, which is a section of ``explain()`` and of pages."""
    facts: dict[str, tuple[Fact, ...]] = {}
    topic = ""
    for block in re.split(r"\n(?=\S)", text.strip()):
        line = " ".join(block.split())
        if line.startswith("= "):
            facts[topic := line[2:]] = ()
            continue
        modes, _, said = line.partition(":")
        short, stroke, long = (part.strip() for part in said.partition("|"))
        facts[topic] += (Fact(tuple(modes.split(", ")), short, long if stroke else short),)
    return facts


FACTS = read_facts(_LIST)
FIRST, _NONE, _WARNINGS, PART, SCORES, _DEPEND, _COLUMNS, _STYLE, *_LATER = FACTS
_PROMISES, _DATA, _METHOD, _ASSUMED, _FIGURES, _MORE, _SHORT = _LATER
# The topics of each paragraph below a summary; warnings stand before the last paragraph.
_PARAGRAPHS = ((FIRST, _NONE, _WARNINGS), (PART, _STYLE, _DATA, _FIGURES), (SCORES, _COLUMNS, _PROMISES, _MORE))
# The sections of explain(), and of a page below "How to read this page", in their order.
_SECTIONS = (SCORES, _DEPEND, _COLUMNS, _STYLE, FIRST, _NONE, _PROMISES, PART, _DATA, _METHOD, _ASSUMED, _FIGURES)


def short_facts(subject: Subject, *topics: str) -> list[str]:
    """Return what a summary says about topics, in the order of the list."""
    facts = (fact for topic in topics for fact in FACTS[topic] if fact.short and fact.holds(subject.modes))
    return list(filter(None, (fact.short.format_map(subject) for fact in facts)))


def long_facts(subject: Subject, topic: str) -> list[str]:
    """Return what ``explain()`` says about a topic; a page has the short facts on first place above its table."""
    shown = (fact for fact in FACTS[topic] if fact.long and not (subject.on_page and fact.short and topic == FIRST))
    return list(filter(None, (fact.long.format_map(subject) for fact in shown if fact.holds(subject.modes))))


def summary_notes(results: Estimates, level: SummaryLevel) -> tuple[str, ...]:
    """Return the notes below the summary: first place, what some fits have, warnings in full, what the table is."""
    subject, warnings = Subject(results, level), fit_warnings(results)
    n_warnings = len(warnings)
    labels = ["Warning"] if n_warnings == 1 else [f"Warning {n} of {n_warnings}" for n in range(1, n_warnings + 1)]
    first, some, last = (" ".join(short_facts(subject, *topics)) for topics in _PARAGRAPHS)
    warned = (f"{label}: {text}" for label, text in zip(labels, warnings, strict=True))
    return tuple(filter(None, (first, some, *warned, last)))


def short_note(results: Estimates, level: SummaryLevel) -> list[str]:
    """Return the sentences below the short table for a report."""
    subject = Subject(results, level)
    return [*long_facts(subject, SCORES), *short_facts(subject, _NONE, _PROMISES, _SHORT)]


def explanations(subject: Subject) -> list[tuple[str, list[str]]]:
    """Return titles and paragraphs of the sections on a fit."""
    sections = [(topic, long_facts(subject, topic)) for topic in _SECTIONS]
    return [(title, texts) for title, texts in sections if texts]


def explanation_text(results: Estimates, level: SummaryLevel, in_short: Sequence[tuple[str, str]]) -> str:
    """Return the sections on a fit as text, in lines of at most 78 characters."""
    lines = []
    sections = explanations(Subject(results, level))
    for title, paragraphs in (*sections, ("The fit in short", [f"{label} {value}" for label, value in in_short])):
        lines.append(title)
        for text in paragraphs:
            lines += wrapped("  " + isolated(text), 78, "  ")
        lines.append("")
    return "\n".join(lines).rstrip()


def fit_warnings(results: Estimates) -> list[str]:
    """Return the warnings of the fit as sentences, without the one that there are no intervals."""
    reason = results.why_no_intervals
    return [as_sentence(text) for text in results.diagnostics.warnings if not (reason and reason in text)]
