"""What the results of a fit say in sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._utils.number_text import decimals, fewest_decimals, p_value_clause
from ..data.derived_pairs import DERIVED_KINDS
from ..exceptions import listed
from ..fit.adjusted_for_style import StyleEstimates
from ..fit.estimates import Estimates
from ..functionals import FUNCTIONALS
from ..inference.alternatives import two_sided_p_values, z_statistics
from ..inference.ranks import abbreviate_letters, smallest_gap
from ..inference.resampling import differences
from ..inference.simultaneous import Separation

_SMALLEST_PERCENTAGE = 0.05


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


def value_text(value: float) -> str:
    """Return a value that scores are compared with: three significant figures, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


ASSOCIATION = (
    "This is an association, not an effect: style lies between the model and the vote, and better answers may be "
    "longer."
)


def style_unit(results: Estimates) -> str:
    """Return the addition to the functional's name; empty without an adjustment for style."""
    if results.style is None:
        return ""
    return ", at equal style" if results.style.kind == "equal" else ", battles of equal style"


def style_note(results: Estimates) -> list[str]:
    """Say in the summary of a fit what the adjustment for style does; empty without one."""
    see = " See .style for scores before and after the adjustment."
    is_equal = results.style is not None and results.style.kind == "equal"
    return [text + see * is_equal for text in style_sentences(results)]


def style_sentences(results: Estimates) -> list[str]:
    """Say what the adjustment for style does; empty without one."""
    style = results.style
    if style is None:
        return []
    if style.kind == "balanced":
        return [balanced_sentences(style)]
    return [f"{slope_sentences(results, style)} {ASSOCIATION}"]


def win_shares_without_adjustment(results: Estimates) -> str:
    """Return the addition to the meaning of win shares: scores at equal style are not about the same votes."""
    is_equal = results.style is not None and results.style.kind == "equal"
    return ", without the adjustment for style" if is_equal else ""


def slope_sentences(results: Estimates, style: StyleEstimates) -> str:
    """Say what scores at equal style are, with the slopes."""
    unit = "log-odds" if results.kind.link == "logit" else "win share"
    unit = unit if results.scale.natural else f"score, {results.scale.name}"
    errors = style.slope_covariance.std_errors
    slopes = "; ".join(
        f"{name} {slope:.{digits}f} (std. err. {error:.{digits}f}, p {p_value_clause(p)})"
        for name, slope, error, digits, p in zip(
            style.columns, style.slopes, errors, slope_digits(errors), slope_p_values(style), strict=True
        )
    )
    return (
        f"Scores are those of answers that are alike in {listed(style.columns)}: the slopes on these style differences "
        f"within prompt and pair are removed. Slopes ({unit} for one unit of the difference): {slopes}."
    )


def balanced_sentences(style: StyleEstimates) -> str:
    """Say which votes count at balanced style, and how many are left."""
    share = percentage(style.n_votes_left / style.n_votes)
    how = "" if style.weights == "band" else "; votes count less, the larger the difference is"
    return (
        f"Only votes on answers of nearly equal style count: differences of at most {style.within:g} in "
        f"{listed(style.columns)}{how}. {style.n_votes_left:,} of {style.n_votes:,} votes ({share}) are left. "
        f"{ASSOCIATION}"
    )


def slope_p_values(style: StyleEstimates) -> np.ndarray:
    """Return two-sided p-values of the slopes, (r,), not adjusted."""
    return two_sided_p_values(z_statistics(style.slopes, style.slope_covariance.std_errors))


def slope_digits(errors: np.ndarray) -> list[int]:
    """Return the number of decimals of each slope, so that its standard error has two digits."""
    return [decimals(np.array([error]), fewest=2) for error in errors]


def functional_name(results: Estimates) -> str:
    """Return the functional with its unit, without the adjustment."""
    return results.functional_label + ("" if results.scale.natural else f", {results.scale.name}")


NO_FEATURES = ("1", "0", "0 + 1", "1 + 0", "-1")
_FRACTIONS = {0.0: "0", 0.5: "1/2", 1.0: "1"}


def meaning_note(results: Estimates) -> str:
    """Say what the scores are, what they are compared with, and what "win" is."""
    if results.of_models:
        sentences = [
            score_definition(results),
            *unit_sentences(results),
            as_sentence(results.reason),
            *dependence_sentences(results),
        ]
    else:
        sentences = ["The rows are the outputs of a user-defined functional.", *unit_sentences(results)]
        sentences.append(as_sentence(results.reason))
    if results.has_intervals:
        sentences.append(_tested_hypothesis(results))
    if results.of_models:
        sentences.append(_win_sentence(results))
    return " ".join(sentence for sentence in sentences if sentence)


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


def dependence_sentences(results: Estimates) -> list[str]:
    """Say what the scores depend on, for the package's non-linear functionals and for maximum likelihood.

    The scores of non-linear functionals depend on the features unless preferences are averaged first; those of maximum
    likelihood depend on which pairs were compared. Where the estimator assumes Bradley-Terry, this is said, too.
    """
    if not results.estimated_by.has_first_stages:
        return _likelihood_model(results)
    assumption = (
        ["The estimator assumes that the Bradley-Terry model holds for every prompt; restriction_test() tests this."]
        if results.estimated_by.assumes_bradley_terry
        else []
    )
    if results.functional not in FUNCTIONALS or results.kind.linear:
        return []
    if results.style is not None and results.style.kind == "equal":
        return ["A formula with other features would define other scores, because log-odds are not linear in votes."]
    if results.description.average == "preferences":
        return [
            "Preferences are averaged over prompts first, and scores are computed from these averages. The target does "
            "not depend on the features in the formula."
        ]
    if _features_of(results) in NO_FEATURES:
        return [
            *assumption,
            "The scores describe preferences averaged over all prompts. A formula with features would define other "
            "scores, unless the preferences are averaged before scores are computed (average='preferences').",
        ]
    return [
        *assumption,
        "For each prompt, scores are computed from the preference probabilities given the features in the formula; the "
        "scores shown are their averages over prompts. The functional is not linear, so that this target depends on "
        "which features are conditioned on: a formula with other features would define other scores, and "
        "average='preferences' has a target that does not depend on the features.",
    ]


def _likelihood_model(results: Estimates) -> list[str]:
    """Say which model's likelihood the scores maximise, and on what they depend where the model does not hold."""
    if results.estimated_by.uses_features:
        return [
            "The scores are means over prompts of r_j(x) = b_j + w_j'x, the scores of a Bradley-Terry model that are "
            "linear in the features x. The coefficients maximise the likelihood of all votes. If log-odds are not "
            "differences of such scores, the means depend on how often each pair was compared on which prompts."
        ]
    unused = (
        []
        if _features_of(results) in NO_FEATURES
        else ["The features of the formula are not used; estimator='bt_contextual' uses them."]
    )
    return [
        "The scores maximise the Bradley-Terry likelihood of all votes. If log-odds are not differences of scores, "
        "the scores depend on how often each pair was compared.",
        *unused,
    ]


def _features_of(results: Estimates) -> str:
    """Return the features of the formula."""
    return results.description.formula.split("~", 1)[-1].split("|")[0].strip()


def _tested_hypothesis(results: Estimates) -> str:
    """Say what z and adj. P compare a row with."""
    row = "a score" if results.of_models else "an output"
    if results.neutral is None:
        return f"z and adj. P test whether {row} equals the mean {row.split()[-1]}."
    if results.kind.link == "logit":
        return f"z and adj. P test whether {row} equals {neutral_text(results)}, the average of the models."
    return f"z and adj. P test whether {row} equals {neutral_text(results)}."


def neutral_text(results: Estimates) -> str:
    """Return the value that scores are tested against as text; empty where this is the mean score."""
    return "" if results.neutral is None else value_text(results.neutral)


def _win_sentence(results: Estimates) -> str:
    """Say what the column "win" is, and how ties count there."""
    description = results.description
    compared = "the models that it is compared with"
    opponents = f"the other {len(results.models) - 1} models" if results.graph.complete else compared
    ties = tie_weight(description.tie_weights)
    counting = f"; a tie counts {ties}" if description.tie_weights else ""
    return (
        f'"win" is the share of comparisons won against {opponents}{win_shares_without_adjustment(results)}{counting}.'
    )


def tie_weight(ties: Sequence[tuple[str, float, float]]) -> str:
    """Return how much ties count, in words."""
    if not ties:
        return "no ties"
    weights = {name: _fraction(a) if a == b else f"{_fraction(a)} and {_fraction(b)}" for name, a, b in ties}
    if len(set(weights.values())) == 1:
        return next(iter(weights.values()))
    return ", ".join(f"{name.replace('_', ' ')} {weight}" for name, weight in weights.items())


def _fraction(weight: float) -> str:
    return _FRACTIONS.get(weight, f"{weight:g}")


_POWER = 0.8
# Sample sizes for which the note gives the smallest gap, as multiples of the fit's own.
_SAMPLE_MULTIPLES = (1, 2, 10)


def first_place_note(results: Estimates, separation: Separation) -> list[str]:
    """Write the note on first place.

    First place is decided where the model with the highest score is above every other model. Otherwise the note names
    the best of the models that it is not separated from.
    """
    ranking = np.argsort(-results.estimate, kind="stable")
    first, followers = int(ranking[0]), ranking[1:]
    not_separated = [int(k) for k in followers if not separation.above[first, k]]
    rival = not_separated[0] if not_separated else int(followers[0])
    pair = differences(results.covariance, np.array([first]), np.array([rival]))
    gap = float(results.estimate[first] - results.estimate[rival])
    if not results.has_intervals or not np.isfinite(separation.critical) or not pair.usable[0]:
        return []
    std_error = float(pair.std_error[0])
    digits = decimals(pair.std_error, fewest=fewest_decimals(results.scale.natural))
    unit = " Elo points" if results.scale.name == "elo" else ""
    lead = f"{results.models[first]} leads {results.models[rival]} by {gap:.{digits}f}{unit}"
    if not not_separated:
        p = p_value_clause(float(separation.p_above[first, followers].max()))
        tests = "step-down tests" if results.sequence is None else "Holm's tests at all looks"
        return [f"First place is decided: {lead} and is above every other model ({tests}; the largest adjusted p {p})."]
    p = p_value_clause(float(separation.p_single[first, rival]))
    if results.sequence is not None:
        # The power of tests at one sample size says little about tests at all looks.
        return [f"First place is not decided: {lead} (adjusted p {p}). A later look may decide it."]
    gaps = _gap_clause(results, separation, std_error, digits)
    return [f"First place is not decided: {lead} (adjusted p {p}).{gaps}"]


def _gap_clause(results: Estimates, separation: Separation, std_error: float, digits: int) -> str:
    """Write which true gaps the present and larger numbers of prompts would show."""
    if results.description.prompts == "fixed":
        return ""
    unit, number, remark = _sampling_unit(results)
    gap = smallest_gap(std_error, separation.critical, _POWER)
    present, doubled, tenfold = (f"{gap / np.sqrt(multiple):.{digits}f}" for multiple in _SAMPLE_MULTIPLES)
    largest_addition = (_SAMPLE_MULTIPLES[-1] - 1) * number
    return (
        f" The smallest true gap that would be found with power {_POWER:.2f} is {present} with these {number:,} "
        f"{unit}, {doubled} with {number:,} more and {tenfold} with {largest_addition:,} more.{remark}"
    )


def _sampling_unit(results: Estimates) -> tuple[str, int, str]:
    """Return what is independent in words, how many of these there are, and a remark where there are two kinds."""
    names, counts = results.description.clusters, results.covariance.n_clusters
    if not names:
        return "prompts" if results.description.context else "rows", results.description.n_contexts, ""
    remark = (
        "" if len(names) == 1 else f" The number of clusters (values of {names[1]!r}) is assumed to grow in proportion."
    )
    return f"clusters (values of {names[0]!r})", counts[0], remark


_MODELS_NAMED = 10


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


def fit_notes(results: Estimates, level: SummaryLevel) -> tuple[str, ...]:
    """Return the notes of a fit: meaning, inference, first place, data, warnings, technical figures."""
    return (
        meaning_note(results),
        *style_note(results),
        _inference_note(results, level),
        *sequential_note(results),
        *(first_place_note(results, level.separation) if level.separation else []),
        *part_note(results),
        *untested_note(results),
        *left_out_note(results),
        *outcome_note(results),
        *judge_note(results),
        *extension_note(results),
        *_warning_notes(results),
        _technical_note(results, level),
    )


def extension_note(results: Estimates) -> list[str]:
    """Say how rows were added to the fit, and which prompts are out of sample for which models; nothing without it."""
    extension = results.extension
    if extension is None:
        return []
    parts = [counted(extension.rows_added, "row"), f"with {counted(extension.contexts_new, 'new prompt')}"]
    if extension.contexts_with_new_votes:
        parts.append(f"and further votes on {counted(extension.contexts_with_new_votes, 'earlier prompt')}")
    if extension.models_new:
        parts.append(
            f"and the new {'model' if len(extension.models_new) == 1 else 'models'} {listed(extension.models_new)}"
        )
    sentences = [f"The last extension added {' '.join(parts)}."]
    if extension.refitted:
        sentences.append(f"The learners were trained again on all rows: {extension.reason}.")
    else:
        sentences.append(f"The learners were not trained again: {extension.reason}.")
        if extension.contexts_of_no_fold:
            sentences.append(
                f"{extension.contexts_of_no_fold:,} prompts are new to the learners of all folds, and the mean of "
                f"these learners predicts them; {extension.contexts_of_a_fold:,} prompts are predicted by the learner "
                f"of their fold, which has not seen them."
            )
    sentences += [as_sentence(remark) for remark in extension.remarks]
    return [" ".join(sentences)]


def interval_method(results: Estimates) -> str:
    """Return how simultaneous intervals and adjusted p-values of scores hold jointly."""
    return "max-t" if results.sequence is None else "Bonferroni"


def sequential_note(results: Estimates) -> list[str]:
    """Say that statements hold at all looks and what had to be fixed in advance; nothing outside sequential views."""
    return [] if results.sequence is None else [results.sequence.promise]


def _looks(results: Estimates) -> str:
    """Return when the statements of a sequential view hold, after a comma; empty for other results."""
    return "" if results.sequence is None else f", {results.sequence.clause}"


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


def bootstrap_sentence(level: SummaryLevel) -> list[str]:
    """Say beside warnings which bootstrap the statements come from; nothing for normal draws."""
    if level.bootstrap is None:
        return []
    # With few clusters the intervals by normal multipliers are too short, too (docs/ranks.md).
    allows = "" if level.bootstrap == "gaussian" else ", which allows for few clusters"
    return [f"Critical values and adjusted p-values come from the {level.bootstrap} bootstrap{allows}."]


def _doubt_sentences(results: Estimates, level: SummaryLevel) -> list[str]:
    """Say which of the warnings in the notes below are reasons why intervals, tests and ranks may not hold."""
    diagnostics = results.diagnostics
    if not diagnostics.doubts:
        return []
    numbers = [str(n) for n, text in enumerate(diagnostics.warnings, start=1) if text in diagnostics.doubts]
    enumeration = " and ".join([", ".join(numbers[:-1]), numbers[-1]]) if len(numbers) > 1 else "".join(numbers)
    places = f"warning{'s' * (len(numbers) > 1)} {enumeration}" if len(diagnostics.warnings) > 1 else "the warning"
    return [
        f"Intervals, tests and ranks may not hold for these data (see {places} below). This note describes what they "
        f"mean if they hold.",
        *bootstrap_sentence(level),
    ]


# --- intervals, ranks and their conditions ----------------------------------------------------------------------------


def _inference_note(results: Estimates, level: SummaryLevel) -> str:
    """Say what intervals, adjusted p-values, rank sets and letters promise, or why there are none."""
    if not results.has_intervals:
        reason = f"Estimates without intervals: {results.why_no_intervals}."
        return (
            f"{reason} The models are in the order of their scores; no test supports this order."
            if (results.of_models)
            else reason
        )
    n_rows = len(results.names)
    coverage = "the interval contains the true value" if n_rows == 1 else f"all {n_rows} intervals contain the true "
    coverage += "" if n_rows == 1 else f"{'scores' if results.of_models else 'values'} at the same time"
    coverage += _looks(results)
    construction = f"{interval_method(results)}{level.bootstrap_words}, critical value {level.critical:.2f}"
    sentences = [
        *_doubt_sentences(results, level),
        f"With {level.confidence} confidence {coverage} ({construction}).",
    ]
    adjusted = f"adj. P is adjusted for the {n_rows} tests" if n_rows > 1 else "There is one test"
    if results.neutral is None:
        sentences.append(f"{adjusted} ({interval_method(results)}{level.bootstrap_words}).")
    else:
        subject = "it" if n_rows > 1 else "adj. P"
        excludes = f"{subject} is below {level.alpha:g} exactly where the interval excludes {neutral_text(results)}"
        sentences.append(f"{adjusted}: {excludes}.")
    if level.separation:
        sentences += _rank_sentences(results, level, level.separation)
    sentences += _missing_label_sentence(results)
    sentences.append(as_sentence(results.covariance.note))
    return " ".join(sentence for sentence in sentences if sentence)


def _missing_label_sentence(results: Estimates) -> list[str]:
    """Say that labels are assumed to be missing at random; nothing where labels are complete by design."""
    if not results.estimated_by.is_unrestricted_one_step or results.diagnostics.outcome_kind in DERIVED_KINDS:
        return []
    bounds = "; sensitivity() bounds the error" if results.style is None else ""
    return [f"Votes that were not cast are assumed to be like those that were{bounds}."]


def _rank_sentences(results: Estimates, level: SummaryLevel, separation: Separation) -> list[str]:
    """Say what the columns "set" and "grp" mean."""
    n_models = len(results.models)
    n_pairs = n_models * (n_models - 1) // 2
    promise = f"with {level.confidence} confidence all rank sets contain the true ranks"
    verb = "is" if separation.n_separated == 1 else "are"
    separated = f"{separation.n_separated:,} of {n_pairs:,} pairs {verb} separated"
    if level.letters and not any(level.letters):
        return [
            f'"set" is the rank set: {promise}.',
            f'"grp" is empty, because there are too many groups of models that are not separated ({separated}).',
        ]
    sign = "number" if any("," in group or group.isdigit() for group in level.letters) else "letter"
    is_abbreviated = any("-" in abbreviate_letters(group) for group in level.letters)
    return [
        f'"set" is the rank set: {promise}.',
        f'"grp": models that share no {sign} are separated, which means that one of them is shown to rank above the '
        f"other ({separated}). Models that share a {sign} may "
        f"still differ."
        + (f' A dash stands for all {sign}s from the first to the last, as in "a-e".' if is_abbreviated else ""),
    ]


def part_note(results: Estimates) -> list[str]:
    """Say of a group's summary which figures describe the whole fit."""
    if not results.part:
        return []
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


# --- data, judges, warnings -------------------------------------------------------------------------------------------


def left_out_note(results: Estimates) -> list[str]:
    """Say which pairs, votes and models are left out, and which prompts were added."""
    d, votes = results.diagnostics, results.votes
    n_lost = votes.n_left_out if votes else 0
    sentences = []
    if d.pairs_left_out:
        pairs = counted(d.pairs_left_out, "pair")
        with_votes = f" ({counted(n_lost, 'vote')})" if n_lost else ""
        verb = "is" if d.pairs_left_out == 1 else "are"
        sentences.append(f"{pairs} with too few labels{with_votes} {verb} not compared.")
    if votes and n_lost and results.of_models:
        used, total = next((u, n) for u, n in zip(votes.used, votes.total, strict=True) if u < n)
        sentences.append(f'In the column "votes", {used:,}/{total:,} means that {used:,} of {total:,} votes are used.')
    if d.votes_dropped:
        verb = "is" if d.votes_dropped == 1 else "are"
        sentences.append(f"{counted(d.votes_dropped, 'later vote')} on the same prompt and pair {verb} left out.")
    if d.models_dropped:
        sentences.append(f"These models are left out: {listed(d.models_dropped, _MODELS_NAMED)}.")
    return [" ".join(sentences)] if sentences else []


def outcome_note(results: Estimates) -> list[str]:
    """Say how labels were read that are numbers, probabilities or derived; labels that are words say it themselves."""
    words = {"first": "first wins", "second": "second wins"}
    labels, kind = results.diagnostics.labels, results.diagnostics.outcome_kind
    meanings = ", ".join(f"{label} = {words.get(meaning, meaning.replace('_', ' '))}" for label, meaning in labels)
    if kind == "preferences":
        return [f"The labels are preferences from 0 to 1 ({meanings}). There is no category for ties."]
    if kind == "probabilities":
        return [f"The labels are probabilities ({meanings})."]
    if kind == "grades":
        return [_grades_sentence(results)]
    if kind in DERIVED_KINDS:
        (winner, _), *tie = labels
        ties = f" ({tie[0][0]}: a tie)" if tie else " (no ties)"
        return [
            f"Votes are comparisons of the {kind} on a prompt: the model with the {winner} wins{ties}. Comparisons on "
            f"one prompt depend on each other, and the standard errors allow for that."
        ]
    return [f"Labels: {meanings}."] if any(x in ("0", "1", "True", "False") for x, _ in labels) else []


def _grades_sentence(results: Estimates) -> str:
    """Say what grades are worth, and that scores use mean worths as shares of wins."""
    words = {"first": "first wins", "second": "second wins"}
    grades = ", ".join(
        f"{label} = {words.get(meaning, meaning.replace('_', ' '))}" for label, meaning in results.diagnostics.labels
    )
    return (
        f"Labels are grades. Each number is the share of a win that a grade is worth for the model shown first; the "
        f"other model gets the remainder ({grades}). {results.kind.meaning_of_grades}"
    )


def judge_note(results: Estimates) -> list[str]:
    """Say which judges' verdicts are used, and how much precision they add."""
    judge = results.judge
    if judge is None:
        return []
    noun = "judge" if len(judge.names) == 1 else "judges"
    verdicts = f"Verdicts of the {noun} {', '.join(map(repr, judge.names))} on {counted(judge.n_verdicts, 'pair')}"
    if not results.has_intervals:
        return [f"{verdicts} are used in the estimate."]
    varies = judge.alone_errors > 0
    ratio = float(np.square(judge.errors[varies] / judge.alone_errors[varies]).mean()) if varies.any() else float("nan")
    equivalent = (
        f", which is equivalent to about {judge.worth:,.0f} more human votes" if 0 < judge.worth < np.inf else ""
    )
    usage = "" if judge.how == "two-stage" else " as features of the outcome model"
    is_harmless = judge.how == "two-stage" or results.averages_preferences
    caution = "" if is_harmless else " Such features change what non-linear scores measure."
    return [
        f"{verdicts}, {judge.n_unlabelled:,} of them without a human label, are used{usage}. The variances of the "
        f"scores are on average {ratio:.2f} times those without verdicts{equivalent}.{caution}"
    ]


def _warning_notes(results: Estimates) -> list[str]:
    """Return a note for each warning of the fit, except for the warning that there are no intervals."""
    reason = results.why_no_intervals
    warnings = [text for text in results.diagnostics.warnings if not (reason and reason in text)]
    if not warnings:
        is_said_above = bool(reason and results.diagnostics.warnings)
        return ["Warnings: none except that there are no intervals." if is_said_above else "Warnings: none."]
    if len(warnings) == 1:
        return [f"Warning: {as_sentence(warnings[0])}"]
    return [f"Warning {n} of {len(warnings)}: {as_sentence(text)}" for n, text in enumerate(warnings, start=1)]


# --- technical figures ------------------------------------------------------------------------------------------------


def _technical_note(results: Estimates, level: SummaryLevel) -> str:
    """Return the figures on first stages, standard errors, display order, dropped rows and seed."""
    description, stages = results.description, results.estimated_by.has_first_stages
    sentences = first_stage_sentences(results) if stages else likelihood_sentences(results)
    if level.separation and level.separation.critical > 0:
        tests = "step-down tests" if results.sequence is None else "Holm's tests at all looks"
        sentences.append(
            f"Rank sets and letters come from {tests} of all differences{level.bootstrap_words} (critical value "
            f"{level.separation.critical:.2f})."
        )
    verb = "was" if description.n_dropped == 1 else "were"
    sentences += [f"{counted(description.n_dropped, 'row')} {verb} dropped.", f"Seed {description.seed}."]
    return f"Technical: {' '.join(sentences)}"


def likelihood_sentences(results: Estimates) -> list[str]:
    """Return the figures of a maximum likelihood fit, which has no first stages."""
    d = results.diagnostics
    return [
        f"In-sample log-loss is {d.log_loss:.3f} ({d.log_loss_constant:.3f} for a fair coin).",
        "Standard errors are sandwich estimates.",
        "Display order is ignored.",
    ]


def first_stage_sentences(results: Estimates) -> list[str]:
    """Return the figures of the outcome model, the propensities, the standard errors and the floor."""
    d = results.diagnostics
    slope = f"; calibration slope {d.calibration:.2f} (1 is right)" if np.isfinite(d.calibration) else ""
    sentences = [
        f"Out-of-fold log-loss is {d.log_loss:.3f} ({d.log_loss_constant:.3f} for constant probabilities){slope}.",
        f"Labels are weighted by 1 / propensity. The effective sample size of the weighted labels of a pair is at "
        f"least {d.effective_share:.2f} times their number (1 if all weights are equal).",
        *_std_error_sentences(results),
    ]
    if d.mu_entries:
        sentences.append(
            f"The floor of {d.floor:g}, the smallest probability that the outcome model may give to a category, was "
            f"applied to {d.mu_floored:,} of {d.mu_entries:,} predictions ({percentage(d.mu_floored / d.mu_entries)})."
        )
    elif not d.means_raised:
        sentences.append("Predicted probabilities needed no floor.")
    if d.means_raised:
        sentences.append(
            f"The mean preferences of {counted(d.means_raised, 'pair')} were so close to 0 or 1 that their log-odds or "
            f"ratios would have no bound; they were raised to a floor."
        )
    return [*sentences, _display_order_sentence(results)]


def _std_error_sentences(results: Estimates) -> list[str]:
    """Say what the standard errors rest on, and the bias that remains; nothing where there are no standard errors."""
    d = results.diagnostics
    if not results.has_intervals:
        return []
    sentences = [
        f"Every standard error rests on the equivalent of at least {d.effective_contexts:,.0f} prompts of equal "
        f"influence."
    ]
    if d.subsample:
        sentences.append(
            f"Scores are averaged over a subsample of {d.subsample:,} prompts, which adds "
            f"{100 * d.subsample_price:.1f} % to the standard errors."
        )
    if d.bias_subtracted:
        sentences.append(
            f"A second-order bias of at most {d.bias_subtracted:.2f} standard errors was estimated and subtracted."
        )
    if np.isfinite(d.second_order) and d.second_order > 0:
        sentences.append(
            f"The second-order bias is estimated as up to {d.second_order:.2f} standard errors; the true bias can be "
            f"several times as large."
        )
    return sentences


def _display_order_sentence(results: Estimates) -> str:
    """Say whether display order is modelled, what decided that, and the test of a position effect."""
    description, z = results.description, results.diagnostics.position_z
    treatment = "modelled" if description.ordered else "ignored"
    reason = f", because {description.order_reason}" if description.order_reason else ""
    effect = f"position effect z = {z:.2f}" if np.isfinite(z) else "a position effect cannot be tested"
    return f"Display order is {treatment}{reason}; {effect}."
