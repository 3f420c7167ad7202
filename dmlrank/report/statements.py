"""What a fit says in sentences: the short notes below its summary, and the sections of ``explain()`` and of pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._utils.number_text import decimals, fewest_decimals, p_value_clause
from ..data.derived_pairs import DERIVED_KINDS
from ..exceptions import listed
from ..fit.estimates import Estimates
from ..inference.multiple_testing import differences
from ..inference.ranks import smallest_gap
from ..inference.simultaneous import Separation

_NO_FEATURES = ("1", "0", "0 + 1", "1 + 0", "-1")
_FRACTIONS = {0.0: "0", 0.5: "1/2", 1.0: "1"}
_SMALLEST_PERCENTAGE = 0.05
MODELS_NAMED = 10
_POWER = 0.8
# Parts of sentences that name attributes and methods, which only users of Python have.
POINTERS_TO_METHODS = (" In words: res.explain(). Figures of the fit: res.diagnostics.", "; see .style", "; see .judge")
_IN_WORDS, _SEE_STYLE, _SEE_JUDGE = POINTERS_TO_METHODS
NO_ORDER = "The models are in the order of their scores; no test supports this order."


@dataclass(frozen=True, slots=True, eq=False)
class SummaryLevel:
    """What a summary states at its level of confidence.

    alpha: One minus the joint level of the intervals.
    critical: Half-width of the intervals in standard errors (max-t); NaN without intervals.
    separation: Which models are above which; None where the estimates are not scores of models, or have no intervals.
    letters: The compact letter display by model; empty where there is no separation.
    bootstrap: Multipliers of the bootstrap behind critical value and separation; None for normal draws.
    """

    alpha: float
    critical: float
    separation: Separation | None
    letters: tuple[str, ...] = ()
    bootstrap: str | None = None

    @property
    def confidence(self) -> str:
        """The joint level as a percentage."""
        return f"{100 * (1 - self.alpha):g} %"

    @property
    def bootstrap_words(self) -> str:
        """The bootstrap behind the critical values, after a comma; empty for normal draws."""
        return "" if self.bootstrap is None else f", {self.bootstrap} bootstrap"


# --- parts of sentences -----------------------------------------------------------------------------------------------


def as_sentence(text: str) -> str:
    """Return the text with a capital letter at the start and a full stop at the end.

    A first word that is an option or another piece of code stays as it is.
    """
    stripped = text.strip()
    if not stripped:
        return ""
    starts_with_a_word = re.match(r"[a-z]+(?:['’-][a-z]+)*[\s,;:.]", stripped + " ") is not None
    capitalised = stripped[0].upper() + stripped[1:] if starts_with_a_word else stripped
    return capitalised if capitalised[-1] in ".!?" else f"{capitalised}."


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


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
    style = {"equal": ", at equal style", "balanced": ", battles of equal style"}
    label = results.functional_label + average + (style[results.style.kind] if results.style else "")
    return label + ("" if results.scale.natural else f", {results.scale.name}")


def features_of(results: Estimates) -> str:
    """Return the features of the formula; empty where it has none."""
    features = results.description.formula.split("~", 1)[-1].split("|")[0].strip()
    return "" if features in _NO_FEATURES else features


def interval_method(results: Estimates) -> str:
    """Return how simultaneous intervals and adjusted p-values of scores hold jointly."""
    return "max-t" if results.sequence is None else "Bonferroni"


# --- the summary ------------------------------------------------------------------------------------------------------


def summary_notes(results: Estimates, level: SummaryLevel) -> tuple[str, ...]:
    """Return the notes below the summary: news, warnings in full, and in a few words what the numbers are."""
    separation, doubts = level.separation, results.diagnostics.doubts
    news, counts, doubtful = [], [], []
    if not results.has_intervals:
        news.append(as_sentence(f"estimates without intervals: {results.why_no_intervals}"))
        news += [NO_ORDER] * results.of_models
    if separation is not None:
        n_pairs = len(results.models) * (len(results.models) - 1) // 2
        verb = "is" if separation.n_separated == 1 else "are"
        counts.append(f"{separation.n_separated:,} of {n_pairs:,} pairs of models {verb} separated.")
    warnings = fit_warnings(results)
    n_warnings = len(warnings)
    if not warnings:
        counts.append(
            "Warnings: none." if results.has_intervals else "Warnings: none except that there are no intervals."
        )
    if doubts and results.has_intervals:
        all_warnings = results.diagnostics.warnings
        numbers = [str(n) for n, text in enumerate(all_warnings, start=1) if text in doubts]
        enumeration = " and ".join(filter(None, [", ".join(numbers[:-1]), numbers[-1]])) if numbers else ""
        places = f"warning{'s' * (len(numbers) > 1)} {enumeration}" if len(all_warnings) > 1 else "the warning"
        doubtful = [f"Intervals, tests and ranks may not hold for these data (see {places} below)."]
        doubtful += bootstrap_sentence(level)
    first_place = first_place_note(results, separation)[:1]
    labels = ["Warning"] if n_warnings == 1 else [f"Warning {n} of {n_warnings}" for n in range(1, n_warnings + 1)]
    return (
        *(" ".join(sentences) for sentences in (news, first_place, counts) if sentences),
        *untested_note(results),
        *(" ".join(sentences) for sentences in (_conditions(results), doubtful) if sentences),
        *(f"{label}: {text}" for label, text in zip(labels, warnings, strict=True)),
        _in_short(results, level),
    )


def _conditions(results: Estimates) -> list[str]:
    """Say what only some fits have: parts of the prompts, votes on similar style, judges, extensions."""
    sentences = []
    if results.part:
        what = "Warnings" if results.are_means else "Outcome model, propensities and warnings"
        sentences.append(f"{what} are those of the whole fit.")
    if results.diagnostics.models_dropped:
        sentences.append(f"These models are left out: {listed(results.diagnostics.models_dropped, MODELS_NAMED)}.")
    if results.diagnostics.second_order_by_model and results.diagnostics.second_order_treatment != "left in":
        name, bias, _ = results.diagnostics.largest_second_order
        sentences.append(f"A bias of up to {bias:+.1f} standard errors was removed ({name}).")
    gain = results.diagnostics.gain_of_runs
    if gain is not None:
        first, second = (results.models[j] for j in np.argsort(-results.estimate, kind="stable")[:2])
        sentences.append(f"More runs could shrink the interval of {first} - {second} by at most {100 * gain:.0f} %.")
    style, judge, extension = results.style, results.judge, results.extension
    if style is not None and style.kind == "balanced":
        sentences.append(
            f"Only votes on answers of nearly equal style count: {style.n_votes_left:,} of {style.n_votes:,}."
        )
    elif style is not None:
        sentences.append(f"Slopes on {listed(style.columns)} are removed{_SEE_STYLE}.")
    if judge is not None:
        noun = "judge" if len(judge.names) == 1 else "judges"
        names = ", ".join(map(repr, judge.names))
        sentences.append(f"Verdicts of the {noun} {names} on {counted(judge.n_verdicts, 'pair')} are used{_SEE_JUDGE}.")
    if extension is not None:
        again = "again on all rows" if extension.refitted else "not again"
        trained = "" if results.diagnostics.outcome_kind in DERIVED_KINDS else f"; the learners were trained {again}"
        sentences.append(f"The last extension added {counted(extension.rows_added, 'row')}{trained}.")
    return sentences


def fit_warnings(results: Estimates) -> list[str]:
    """Return the warnings of the fit as sentences, without the one that there are no intervals."""
    reason = results.why_no_intervals
    return [as_sentence(text) for text in results.diagnostics.warnings if not (reason and reason in text)]


def _in_short(results: Estimates, level: SummaryLevel) -> str:
    """Say in at most 60 words what the scores are, what holds jointly under which condition, and where to read more."""
    sentences = [_score_in_short(results)]
    if results.has_intervals:
        if results.neutral != 0:
            sentences.append(f"z and adj. P: against {neutral_text(results) or 'the mean'}.")
        sets = " and rank sets" if level.separation else ""
        bootstrap = f" ({level.bootstrap} bootstrap)" if level.bootstrap else ""
        conditions = ["the Bradley-Terry model holds"] * results.estimated_by.assumes_bradley_terry
        if results.estimated_by.has_first_stages and results.diagnostics.outcome_kind not in DERIVED_KINDS:
            conditions.append("votes not cast are like those cast")
        looks = "" if results.sequence is None else f" {results.sequence.clause}"
        condition = f" if {' and '.join(conditions)}" if conditions else ""
        confidence = f"{level.confidence} confidence{bootstrap}"
        sentences.append(f"All intervals{sets} hold jointly{looks} with {confidence}{condition}.")
    return " ".join(sentences) + _IN_WORDS


def _score_in_short(results: Estimates) -> str:
    """Say in a few words what the scores are."""
    if not results.of_models:
        return "Rows: outputs of a user-defined functional."
    n_models = len(results.models)
    opponents = f"the other {n_models - 1} models" if results.graph.complete else "different opponents"
    kind_in_short = results.kind.in_short.format(n_models=n_models, opponents=opponents)
    definition = kind_in_short or results.functional_label
    if results.averages_preferences:
        definition += ", from mean preferences"
    elif kind_in_short and not results.kind.linear and results.estimated_by.uses_features and features_of(results):
        definition += " given the formula's features"
    scale = results.scale
    unit = "" if scale.natural else ", in Elo points" if scale.name == "elo" else f", {scale.name}"
    if scale.anchor is not None:
        unit += f" ({scale.anchor[0]} = {scale.anchor[1]:g})"
    elif scale.mean is not None:
        unit += f" (mean {scale.mean:g})"
    return f"Scores: {definition}{unit}."


# --- first place ------------------------------------------------------------------------------------------------------


def first_place_note(results: Estimates, separation: Separation | None) -> list[str]:
    """Say whether first place is decided, and in a second part which gaps further prompts would show.

    First place is decided where the model with the highest score is above every other model. Otherwise the sentence
    names the best of the models that it is not separated from.
    """
    if separation is None or not results.has_intervals or not np.isfinite(separation.critical):
        return []
    first, *followers = np.argsort(-results.estimate, kind="stable").tolist()
    not_separated = [k for k in followers if not separation.above[first, k]]
    rival = not_separated[0] if not_separated else followers[0]
    pair = differences(results.covariance, np.array([first]), np.array([rival]))
    if not pair.std_error[0] > 0:
        return []
    gap = float(results.estimate[first] - results.estimate[rival])
    digits = decimals(pair.std_error, fewest=fewest_decimals(results.scale.natural))
    unit = " Elo points" if results.scale.name == "elo" else ""
    lead = f"{results.models[first]} leads {results.models[rival]} by {gap:.{digits}f}{unit}"
    if not not_separated:
        p = p_value_clause(float(separation.p_above[first, followers].max()))
        tests = "step-down tests" if results.sequence is None else "Holm's tests at all looks"
        return [f"First place is decided: {lead} and is above every other model ({tests}; largest adj. P {p})."]
    p = p_value_clause(float(separation.p_single[first, rival]))
    lead = f"First place is not decided: {lead} (adj. P {p})."
    if results.sequence is not None:
        # The power of tests at one sample size says little about tests at all looks.
        return [lead, "A later look may decide it."]
    d = results.description
    if d.prompts == "fixed":
        return [lead]
    # Which true gaps the present and larger numbers of prompts would show.
    least, remark = smallest_gap(float(pair.std_error[0]), separation.critical, _POWER), ""
    unit, number = "prompts" if d.context else "rows", d.n_contexts
    if d.clusters:
        unit, number = f"clusters (values of {d.clusters[0]!r})", results.covariance.n_clusters[0]
        if len(d.clusters) > 1:
            remark = f" The number of clusters (values of {d.clusters[1]!r}) is assumed to grow in proportion."
    present, doubled, tenfold = (f"{least / np.sqrt(multiple):.{digits}f}" for multiple in (1, 2, 10))
    return [
        lead,
        f"The smallest true gap that would be found with power {_POWER:.2f} is {present} with these {number:,} {unit}, "
        f"{doubled} with {number:,} more and {tenfold} with {9 * number:,} more.{remark}",
    ]


# --- notes that several tables have ---------------------------------------------------------------------------------


def sequential_note(results: Estimates) -> list[str]:
    """Say that statements hold at all looks and what had to be fixed in advance; nothing outside sequential views."""
    return [] if results.sequence is None else [results.sequence.promise]


def doubt_note(results: Estimates) -> list[str]:
    """Return the sentence that intervals, tests and ranks may not hold, for a summary that does not list warnings."""
    n_warnings = len(results.diagnostics.doubts)
    if not n_warnings or not results.has_intervals:
        return []
    reasons = "1 warning of the fit says why" if n_warnings == 1 else f"{n_warnings} warnings of the fit say why"
    return [
        f"Intervals, tests and ranks may not hold for these data: {reasons}. The text of each warning is in summary() "
        "of the fit."
    ]


def few_prompts_note(results: Estimates) -> list[str]:
    """Say which models have no rank, and why."""
    few = results.diagnostics.models_with_few_prompts
    if not few:
        return []
    return [f"No rank is given to {listed(few)}: a standard error rests on the equivalent of fewer than three prompts."]


def bootstrap_sentence(level: SummaryLevel) -> list[str]:
    """Say beside warnings which bootstrap the statements come from; nothing for normal draws."""
    if level.bootstrap is None:
        return []
    # With few clusters the intervals by normal multipliers are too short, too (docs/ranks.md).
    allows = "" if level.bootstrap == "gaussian" else ", which allows for few clusters"
    return [f"Critical values and adjusted p-values come from the {level.bootstrap} bootstrap{allows}."]


def part_note(results: Estimates) -> list[str]:
    """Say of a group's summary which figures describe the whole fit."""
    if not results.part:
        return []
    if results.are_means:
        return [f"The scores of {results.part} are means over its prompts. The warnings describe the whole fit."]
    return [
        f"The scores of {results.part} come from the outcome model and the propensities of the whole fit. The warnings "
        f"and the technical figures describe the whole fit."
    ]


def untested_note(results: Estimates) -> list[str]:
    """Say which scores have no test because their standard error is zero."""
    errors = results.covariance.std_errors
    if not results.has_intervals or not (results.fixed.any() or not (errors > 0).all()):
        return []
    names = ", ".join(name for name, error in zip(results.names, errors, strict=True) if not error > 0)
    reason = "the functional fixes the score" if results.fixed.any() else "the estimate does not vary in these data"
    return [f"There is no test for {names}: the standard error is zero, because {reason}."]


def score_definition(results: Estimates) -> str:
    """Say what a score is."""
    n_models = len(results.models)
    opponents = f" against the other {n_models - 1} models." if results.graph.complete else "."
    different = "" if results.graph.complete else " The models faced different opponents."
    meaning = results.kind.meaning.format(n_models=n_models, opponents=opponents + different)
    return meaning or f"The functional of the scores is {results.functional_label}."


def unit_sentences(results: Estimates) -> list[str]:
    """Say how scores were multiplied and shifted; nothing where they are in the functional's own unit."""
    unit = results.scale
    if unit.natural:
        return []
    unit_texts = {
        "elo": ["Scores are shown in Elo points (400 / ln 10 = 173.7 points for each unit of log-odds)."],
        "log-odds": [],
    }.get(unit.name, [f"Scores are shown multiplied by {unit.factor:g}."])
    if unit.anchor is not None:
        model, value = unit.anchor
        unit_texts.append(f"Scores are shifted so that {model} has {value:g}; the shift changes no interval's width.")
    elif unit.mean is not None:
        unit_texts.append(f"Scores are shifted so that their mean is {unit.mean:g}.")
    return unit_texts
