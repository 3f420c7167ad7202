"""The words in braces of :mod:`dmlrank.report.facts`: what facts are about, and parts of them that are computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..data.outcomes import MEANINGS
from ..estimation.diagnostics import LARGEST_BIAS
from ..exceptions import listed
from ..fit.estimates import Estimates
from ..fit.state import StyleEstimates
from ..inference.score_limits import normal_critical
from ..inference.simultaneous import PairTests
from ..inference.wald import two_sided_p_values, z_statistics
from ..tables.summary_table import decimals, fixed_text, p_value_clause
from . import phrases
from .first_place import Race, mean_of_one, race_of, wins_by_order

# The difference of log-odds that means 60 wins in 100 comparisons (59.9).
_LOG_ODDS_OF_60 = 0.4
# Sources of the propensities in words.
_PROPENSITIES = {
    "estimated": "estimated from the features of the prompts",
    "marginal": "the shares of prompts on which the pairs were {chosen}, the same for all prompts",
    "given": "those that were given with the data",
}


@dataclass(frozen=True, eq=False)
class Subject:
    """What facts are about: estimates at a level of confidence.

    results, level: The estimates, and what is stated at the level.
    tests: Tests of all pairs, which a page has.
    on_page: Whether the facts are for a page.
    """

    results: Estimates
    level: phrases.SummaryLevel
    tests: PairTests | None = None
    on_page: bool = False

    def __getitem__(self, word: str) -> object:
        """Return a word in braces: the estimates, their parts, a function of this module, or what it holds."""
        e = self.results
        known = {"e": e, "d": e.description, "g": e.diagnostics, "level": self.level, "race": self.race}
        if word in known:
            return known[word]
        return (WORDS[word] if word in WORDS else globals()[word])(self)

    @cached_property
    def race(self) -> Race | None:
        """The test of first place."""
        return race_of(self.results, self.level)

    @cached_property
    def modes(self) -> frozenset[str]:
        """What the result is and has, of which facts say for which of these they hold."""
        e, level = self.results, self.level
        d, g, unit = e.description, e.diagnostics, e.scale
        # The meaning of labels that are numbers has to be said.
        are_numbers = any(label in ("0", "1", "True", "False") for label, _ in g.labels)
        kind = "labels" if g.outcome_kind == "labels" and not are_numbers else f"{g.outcome_kind} read"
        holds = {
            "page": self.on_page,
            "tests of pairs": self.tests is not None and bool(np.isfinite(self.tests.critical)),
            "tests of ranks": self.tests is None and level.separation is not None and level.separation.critical > 0,
            "rank sets": level.separation is not None,
            "single": e.of_models and len(e.models) == 1,
            "race": self.race is not None,
            "bt": e.functional == "bt",
            "weighted": d.weighted and not d.equal_tasks,
            "elo": unit.name == "elo",
            "multiplied": unit.factor != 1 and unit.name not in ("elo", "log-odds"),
            "anchored": unit.anchor is not None,
            "centred": unit.anchor is None and unit.mean is not None,
            "by counts": d.edge_weights == "counts",
            "half ties": bool(d.tie_share) and not e.part and phrases.tie_weight(d.tie_weights) == "1/2",
            "tested against": e.neutral != 0 and len(e.names) > 1,
            "met": phrases.MET in phrases.win_head(e),
            "lost": bool(what_became_of_rows(self)),
            "dropped": d.n_dropped > 0,
            "renamed": d.n_names_changed > 0,
            "apart": bool(d.models_apart),
            "models left out": bool(g.models_dropped),
            "one fold": d.n_folds == 1,
            "order tested": bool(g.order_effect_error),
            "subtracted": bool(g.bias_subtracted),
            "second order": bool(g.second_order_by_model),
            "partly removed": g.second_order_treatment == "partly removed",
            "bias in doubt": g.second_order_treatment == "left in"
            and LARGEST_BIAS["left in"] < abs(g.largest_second_order[1]) <= 2 * g.largest_second_order[2],
            "floored": g.mu_entries > 0,
            "raised": g.means_raised > 0,
            "effective": bool(np.isfinite(g.effective_contexts)),
            "untested": bool(e.fixed.any() or not (e.covariance.widened.std_errors > 0).all()),
            "features of judges": e.judge is not None and e.judge.how != "two-stage",
        }
        return e.modes | {"always", kind} | {mode for mode, is_so in holds.items() if is_so}


# Words that are a part of a sentence.
WORDS: dict[str, Callable[[Subject], str]] = {
    "noun": lambda s: s.results.counts,
    "nouns": lambda s: f"{s.results.counts}s".capitalize(),
    "rows": lambda s: "prompts" if s.results.description.context else "rows",
    "unit": lambda s: "prompts" if s.results.description.context else "votes",
    "chosen": lambda s: "voted on" if s.results.counts == "vote" else "compared",
    "shown": lambda s: "shown and voted on" if s.results.counts == "vote" else "compared",
    "looks": lambda s: f" {s.results.looks}" if s.results.looks else "",
    "terms": lambda s: s.results.description.formula.split("~", 1)[-1].split("|")[0].strip(),
    "reason": lambda s: phrases.as_sentence(s.results.reason),
    "in_few_words": lambda s: score_words(s.results),
    "ties": lambda s: f"{100 * s.results.description.tie_share:.2g} %",
    "as_met": lambda s: phrases.AS_MET,
    "win_head": lambda s: phrases.win_head(s.results),
    "dash": lambda s: f' ("-": fewer than {fewest})' if (fewest := phrases.fewest_opponents(s.results)) else "",
    "score": lambda s: "a score" if s.results.of_models else "an output",
    "neutral_text": lambda s: phrases.neutral_text(s.results) or "the mean",
    "runs": lambda s: " ".join(phrases.scores_there(s.results)),
    "doubts": lambda s: " ".join(phrases.doubt_note(s.results)),
    "modelled": lambda s: phrases.modelled_sentence(s.results),
    "rests_on_people": lambda s: " ".join(phrases.grades_sentences(s.results)[:1]),
    "grades_and_judges": lambda s: " ".join(phrases.grades_sentences(s.results)[1:]),
    "style": lambda s: listed(s.results.style.columns if s.results.style else ()),
    "slopes": lambda s: slope_sentences(s.results, s.results.style) if s.results.style else "",
    "bounds": lambda s: "" if s.results.style else "; sensitivity() bounds the error",
    "covariance": lambda s: phrases.as_sentence(s.results.covariance.note),
    "names": lambda s: phrases.counted(s.results.description.n_names_changed, "name"),
    "apart_named": lambda s: listed(s.results.description.models_apart, phrases.MODELS_NAMED),
    "left_out": lambda s: listed(s.results.diagnostics.models_dropped, phrases.MODELS_NAMED),
    "scale": lambda s: " to ".join(sorted(label for label, _ in s.results.diagnostics.labels)),
    "by_runs": lambda s: ", each with the weight 1 / probability of its run" * ("drawn" in s.results.modes),
    "repetitions": lambda s: phrases.counted(s.results.description.n_rep, "repetition"),
    "clusters": lambda s: " and of ".join(f"“{name}”" for name in s.results.description.clusters),
    "n_effective": lambda s: f"{np.floor(s.results.diagnostics.effective_contexts):,.0f}",
    "reliable": lambda s: f"{LARGEST_BIAS['left in']:g}",
    "raised": lambda s: phrases.counted(s.results.diagnostics.means_raised, "pair"),
    "wins_by_order": lambda s: phrases.as_sentence(wins_by_order(s.results, s.level))[:-1],
    "order_effect": lambda s: fixed_text(s.results.diagnostics.order_effect, 3),
    "of_what": lambda s: "share of wins" if s.results.kind.link == "identity" else "log-odds of a win",
    "order_error": lambda s: fixed_text(s.results.diagnostics.order_effect_error, 3),
    "mean_of_one": lambda s: mean_of_one(s.results, s.level),
    "why_no_error": lambda s: (
        "the functional fixes the score" if s.results.fixed.any() else "the estimate does not vary in these data"
    ),
    "population": lambda s: (
        ", each task with the same weight"
        if s.results.description.equal_tasks
        else ", weighted as the data say" * s.results.description.weighted
    ),
    "jointly_by": lambda s: (
        f"{phrases.interval_method(s.results)}{s.level.bootstrap_words}, critical value {s.level.critical:.2f}"
    ),
    "tests_of_ranks": lambda s: "Holm's tests at all looks" if s.results.looks else "step-down tests",
}


def meaning(s: Subject) -> str:
    """Return what a score is."""
    e = s.results
    said = e.kind.meaning.format(**_of_kind(e))
    return said or f"A score is the output of {e.functional_label}."


def _of_kind(e: Estimates) -> dict[str, object]:
    """Return the words in braces of the descriptions of a functional."""
    n_apart, runs = len(e.description.models_apart), e.functional.lstrip("pas@^")
    of_average = f"{len(e.models) - n_apart} models" + " with enough votes" * bool(n_apart)
    return {"n_models": of_average, "opponents": phrases.the_others(e), "name": e.functional, "k": runs}


def neutral(s: Subject) -> str:
    """Return what scores are tested against."""
    against = phrases.neutral_text(s.results) or f"the mean {'score' if s.results.of_models else 'output'}"
    return against + ", the average of the models" * (s.results.kind.link == "logit" and "mean" not in against)


def adjusted(s: Subject) -> str:
    """Say for how many tests p-values are adjusted, and how they agree with the intervals."""
    e, n_rows = s.results, len(s.results.names)
    said = f"adj. P is adjusted for the {n_rows} tests" if n_rows > 1 else "There is one test"
    if e.neutral is None:
        return f"{said} ({phrases.interval_method(e)})."
    it = "it" if n_rows > 1 else "adj. P"
    return f"{said}: {it} is below {s.level.alpha:g} exactly where the interval excludes {phrases.neutral_text(e)}."


def all_intervals(s: Subject) -> str:
    """Return what contains what at the same time."""
    e, n_rows = s.results, len(s.results.names)
    if n_rows == 1:
        return "the interval contains the true value"
    return f"all {n_rows} intervals contain the true {'scores' if e.of_models else 'values'} at the same time"


def apart(s: Subject) -> str:
    """Return how many pairs of models are told apart."""
    n_models, n = len(s.results.models), s.level.separation.n_separated if s.level.separation else 0
    return f"{n:,} of {n_models * (n_models - 1) // 2:,} pairs"


def without_error(s: Subject) -> str:
    """Name the scores without a standard error."""
    errors = s.results.covariance.widened.std_errors
    return ", ".join(name for name, error in zip(s.results.names, errors, strict=True) if not error > 0)


def n_dropped(s: Subject) -> str:
    """Return the rows, or prompts, that are dropped."""
    n = s.results.description.n_dropped
    if s.results.are_means:
        return f"{phrases.counted(n, 'prompt')} without a score of every model {'is' if n == 1 else 'are'}"
    return f"{phrases.counted(n, 'row')} with missing values {'is' if n == 1 else 'are'}"


def counts(s: Subject) -> str:
    """Return what was read."""
    d, e = s.results.description, s.results
    what = f"{e.counts} between these models" if e.diagnostics.models_dropped else e.counts
    unlabelled = f"; {phrases.counted(d.n_unlabelled, 'prompt')} without a {what}" if d.n_unlabelled else ""
    on = phrases.counted(d.n_contexts, "prompt" if d.context else "row")
    return f"{phrases.counted(d.n_votes, e.counts)} on {on}{unlabelled}"


def meanings(s: Subject) -> str:
    """Return labels with their meanings."""
    g, wins = s.results.diagnostics, MEANINGS[:2]
    return ", ".join(f"{a} = {f'{b} wins' if b in wins else b.replace('_', ' ')}" for a, b in g.labels)


def winner(s: Subject) -> str:
    """Return which score or rank wins, and what is a tie."""
    (best, _), *tie = s.results.diagnostics.labels
    return f"the model with the {best} wins" + (f" ({tie[0][0]}: a tie)" if tie else " (no ties)")


def verdicts(s: Subject) -> str:
    """Return the verdicts that a fit uses as the subject of a sentence."""
    judge = s.results.judge
    assert judge is not None
    of = f"judge{'s' * (len(judge.names) > 1)} {', '.join(map(repr, judge.names))}"
    return f"Verdicts of the {of} on {phrases.counted(judge.n_verdicts, 'pair')}"


def gain(s: Subject) -> str:
    """Return how much precision the verdicts add."""
    judge = s.results.judge
    assert judge is not None
    varies = judge.alone_errors > 0
    ratio = float(np.square(judge.errors[varies] / judge.alone_errors[varies]).mean()) if varies.any() else float("nan")
    worth = f", which is equivalent to about {judge.worth:,.0f} more human votes" if 0 < judge.worth < np.inf else ""
    return f"{ratio:.2f} times those without verdicts{worth}"


def source(s: Subject) -> str:
    """Return where propensities come from."""
    given = s.results.description.propensity
    return _PROPENSITIES.get(given, given).format_map(s)


def n_clusters(s: Subject) -> str:
    """Return the numbers of clusters."""
    numbers = zip(s.results.covariance.n_clusters, s.results.description.clusters, strict=True)
    return " and ".join(f"{n:,} of “{name}”" for n, name in numbers)


def calibration(s: Subject) -> str:
    """Return the calibration slope after a semicolon."""
    slope = s.results.diagnostics.calibration
    return f"; calibration slope {slope:.2f} (1 is right)" if np.isfinite(slope) else ""


def bias(s: Subject) -> str:
    """Return the largest bias of second order with its error, and the model."""
    name, size, error = s.results.diagnostics.largest_second_order
    return f"{size:+.2f} standard errors (own error {error:.2f}), for {name}"


def floored(s: Subject) -> str:
    """Return how many predictions were raised to the floor."""
    g = s.results.diagnostics
    return f"{g.mu_floored:,} of {g.mu_entries:,} predictions ({phrases.percentage(g.mu_floored / g.mu_entries)})"


def score_words(results: Estimates) -> str:
    """Say in a few words what the scores are, their unit and what a difference means."""
    if not results.of_models:
        return results.functional_label
    scale, kind = results.scale, results.kind
    definition = kind.in_short.format(**_of_kind(results))
    definition = definition or results.functional_label
    definition += ", from mean preferences" if results.averages_preferences else ""
    unit = "" if scale.natural else ", in Elo points" if scale.name == "elo" else f", {scale.name}"
    if scale.anchor is not None:
        unit += f" ({scale.anchor[0]} = {scale.anchor[1]:g})"
    elif scale.mean is not None:
        unit += f" (mean {scale.mean:g})"
    unit += phrases.AT_EQUAL_STYLE if results.style else ""
    if kind.link == "logit":
        unit += f"; a lead of {_LOG_ODDS_OF_60 * scale.factor:.2g} means 60 wins in 100 comparisons"
    return f"{definition}{unit}"


# Names of scores in titles and heads; others have the name of their functional.
_NAMES = {"bt": "log-odds of a win", "borda": "share of wins"}


def score_head(e: Estimates, with_part: bool = True) -> str:
    """Return what is scored in a few words: quantity, unit, and all that makes it another number than the plain one."""
    if not e.of_models:
        return e.functional_label
    d, name = e.description, _NAMES.get(e.functional, e.functional.replace("_", " "))
    if e.are_means:
        name = d.outcome if e.functional == "mean" else f"{e.functional} of {d.outcome}"
    if e.scale.name == "elo":
        name = "Elo points"
    elif e.scale.name not in ("natural", "log-odds"):
        name = f"{e.scale.name} {name}" if e.scale.name.endswith(" times") else f"{name} in {e.scale.name}"
    parts = {
        e.estimated_by.label_suffix: bool(e.estimated_by.label_suffix),
        "not debiased": not e.estimated_by.is_debiased,
        "from mean preferences": e.averages_preferences,
        "opponents as often as met": d.edge_weights == "counts",
        f"every {d.equal_tasks} alike": bool(d.equal_tasks),
        "weighted": d.weighted and not d.equal_tasks,
        f"missing = {d.filled_with:g}": bool(d.n_filled),
        phrases.AT_EQUAL_STYLE.lstrip(", "): e.style is not None,
        "these prompts only": d.prompts == "fixed",
        e.part: bool(e.part) and with_part,
    }
    return ", ".join([name, *(text for text, holds in parts.items() if holds)])


def better_words(e: Estimates) -> str:
    """Return which direction is better, as a sentence; empty for outputs of a user's functional."""
    return ("More is better." if e.sign > 0 else "Less is better.") if e.of_models else ""


def measure(e: Estimates) -> str:
    """Return what a leaderboard measures, from how much data, and which direction is better, for its title."""
    d, votes = e.description, e.votes
    size = f"mean of {phrases.counted(d.n_contexts - d.n_unlabelled, 'prompt')}"
    if not e.are_means:
        size = phrases.counted(d.n_votes if votes is None or e.part else votes.n_used, e.counts)
    return "; ".join(filter(None, (f"{score_head(e)}, {size}", better_words(e)[:-1].lower(), e.looks.lstrip())))


def slope_sentences(e: Estimates, style: StyleEstimates) -> str:
    """Say what scores at equal style are, with the slopes."""
    unit = "log-odds" if e.kind.link == "logit" else "win share"
    unit = unit if e.scale.natural else f"score, {e.scale.name}"
    errors, slopes = style.slope_covariance.std_errors, []
    p_values = two_sided_p_values(z_statistics(style.slopes, errors), style.slope_covariance.tails())
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


def jointly(s: Subject) -> str:
    """Say under which conditions the intervals of the table hold at the same time."""
    conditions = [
        *["the Bradley-Terry model holds"] * ("assumes" in s.modes),
        *["votes not cast are like those cast"] * ({"learnt", "derived"} & s.modes == {"learnt"}),
    ]
    sets, they = (", and so do ranks" if "rank sets" in s.modes else ""), "intervals hold jointly"
    start = f"If {' and '.join(conditions)}, {they}" if conditions else they.capitalize()
    return f"{start}{WORDS['looks'](s)} with {confidence(s)}{sets}."


def confidence(s: Subject) -> str:
    """Return the level, and how intervals and tests allow for few prompts or clusters; no word where these are many."""
    e, d, covariance, multipliers = s.results, s.results.description, s.results.covariance, s.level.bootstrap
    rows = "votes" if d.n_votes == d.n_contexts and e.counts == "vote" else "rows"
    units, allows = "clusters" if d.clusters else "prompts" if d.context else rows, ""
    if multipliers:
        # With few clusters the intervals by normal multipliers are too short, too (docs/ranks.md).
        for_few = "" if multipliers == "gaussian" else ", which allows for few clusters"
        allows = f" ({multipliers} bootstrap{for_few})"
    elif e.sequence is None and covariance.means is not None:
        allows = f" (each limit allows for one unseen {units.removesuffix('s')})"
    elif e.sequence is None and covariance.has_few_units:
        are_effective = round(covariance.df + 1) < min(covariance.n_clusters, default=d.n_contexts)
        allows = f" ({covariance.df + 1:.0f} {'effective ' * are_effective}{units}: t quantiles)"
    return f"{s.level.confidence} confidence{allows}"


def what_became_of_rows(s: Subject) -> str:
    """Say how many rows are no votes that are used, by cause; nothing where all are, or where this is not known."""
    e, d = s.results, s.results.description
    n_rare = e.votes.n_left_out if e.votes else 0
    lost = [*d.rows_lost, ("with a vote on a pair that is not compared", n_rare)]
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in lost if number)
    if not (d.rows_lost and reasons) or e.part:
        return ""
    return f"{d.n_rows:,} rows: {reasons}; the votes of the other {d.n_votes - n_rare:,} are used."


def rows_in_short(s: Subject) -> str:
    """Say what became of rows where the summary's head, which has the rows without a vote, does not say it."""
    d, votes = s.results.description, s.results.votes
    known = sum(number for _, number in d.rows_lost) == d.n_unlabelled and not (votes and votes.n_left_out)
    return "" if known else what_became_of_rows(s)


def pairs_left_out(s: Subject) -> str:
    """Say which pairs and votes are left out."""
    n, votes, noun = s.results.diagnostics.pairs_left_out, s.results.votes, s.results.counts
    n_lost, said = votes.n_left_out if votes else 0, ""
    if n:
        with_votes = f" ({phrases.counted(n_lost, noun)})" if n_lost else ""
        said = f"{phrases.counted(n, 'pair')} with too few labels{with_votes} {'is' if n == 1 else 'are'} not compared."
    if votes and n_lost and s.results.of_models:
        used, total = next((u, n) for u, n in zip(votes.used, votes.total, strict=True) if u < n)
        said += f' In the column "{noun}s", {used:,}/{total:,} means that {used:,} of {total:,} {noun}s are used.'
    return said.lstrip()


def display_order(s: Subject) -> str:
    """Say how display order is treated, how much it matters, and whether this favours models."""
    d, g = s.results.description, s.results.diagnostics
    reason = f", because {d.order_reason}" if d.order_reason else ""
    ordered, meaning = "modelled" if d.ordered else "ignored", ""
    # NaN, where the effect cannot be tested, is not below.
    if not d.ordered and abs(g.position_z) > normal_critical(s.level.alpha / 2):
        uneven = "" if g.order_effect_error else phrases.some_of([name for name, _ in g.uneven_orders])
        meaning = "; every model is shown first in about half of its labels, so that this favours none of them"
        if g.order_effect_error:
            meaning = "; one effect of order for all pairs is taken off the scores"
        if uneven:
            meaning = f"; not shown first in about half of their labels, so that scores contain part of this: {uneven}"
    return f"Display order is {ordered}{reason}; {wins_by_order(s.results, s.level)}{meaning}."


def opponents(s: Subject) -> str:
    """Return over which opponents a win probability is averaged, and how ties count."""
    e, others = s.results, phrases.the_others(s.results, "the models that it is compared with")
    if fewest := phrases.fewest_opponents(e):
        others += f" (a dash stands for fewer than {fewest})"
    averaged = f", averaged over {others}, which all count the same" if len(e.models) > 2 else ""
    # Win probabilities are about the votes, which scores at equal style are not.
    unadjusted = ", without the adjustment for style" if e.style else ""
    ties = e.description.tie_weights
    return f"{averaged}{unadjusted}{f'; a tie counts {phrases.tie_weight(ties)}' if ties else ''}"


def tests_of_pairs(s: Subject) -> str:
    """Name the tests of pairs, and those of rank sets."""
    method, other = "single-step max-t", "step-down form of the same tests"
    if s.results.looks:
        method, other = "Bonferroni's method", "Holm's tests at all looks"
    critical = s.tests.critical if s.tests else np.nan
    return f"{method}{s.level.bootstrap_words}, critical value {critical:.2f}); rank sets and groups use the {other}"
