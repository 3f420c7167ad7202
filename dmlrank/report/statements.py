"""What a fit says in sentences: the short notes below its summary, and the sections of ``explain()`` and of pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from ..data.columns import similar_names
from ..data.derived_pairs import DERIVED_KINDS
from ..data.outcomes import COUNTS, MEANINGS, WINNERS
from ..data.vote_columns import FEW_CLUSTERS
from ..estimation.diagnostics import LARGEST_BIAS
from ..exceptions import listed
from ..fit.estimates import Estimates
from ..fit.post_estimation import JudgeFigures
from ..inference.bootstrap_and_max_t import differences
from ..inference.ranks import FirstPlace, smallest_gap
from ..inference.simultaneous import Separation
from ..options import OPTIONS
from ..tables.display_text import decimals, fewest_decimals, fixed_text, p_value_clause

_NO_FEATURES = ("1", "0", "0 + 1", "1 + 0", "-1")
_FRACTIONS = {0.0: "0", 0.5: "1/2", 1.0: "1"}
_SMALLEST_PERCENTAGE = 0.05
MODELS_NAMED = 10
_NAMED_IN_VERDICT = 6
POWER = 0.8
# Intervals of wins in 100 comparisons that are narrower than this have a digit after the point.
_NARROW = 3
# A model with less than this share of the median votes has few.
_THIN = 0.2
# Clusters that raise standard errors by a factor above this are said to matter.
_MATTERS = 1.1
# Beyond this multiple of the data no number of prompts is named.
_MOST_TIMES = 1000
_AT_EQUAL_STYLE = ", at equal style"
# The difference of log-odds that means 60 wins in 100 comparisons (59.9).
_LOG_ODDS_OF_60 = 0.4
# At the head of the win probabilities where models have different opponents.
MET = "met"
# Opponents over which a win probability is averaged, at least; 2 for up to four models.
_FEWEST_OPPONENTS = 3
AS_MET = "another question than with equal weights, about opponents as often as met"
NO_ORDER = "The models are in the order of their scores; no test supports this order."


@dataclass(frozen=True, slots=True, eq=False)
class SummaryLevel:
    """What a summary states at its level of confidence.

    alpha: One minus the joint level of the intervals.
    critical: Half-width of the intervals in standard errors (max-t); NaN without intervals.
    separation: Which models are above which; None where the estimates are not scores of models, or have no intervals.
    letters: The compact letter display by model; empty where there is no separation.
    bootstrap: Multipliers of the bootstrap behind critical value and separation; None for normal draws.
    first: Whether first place is decided; None where there is no separation, or no difference varies.
    """

    alpha: float
    critical: float
    separation: Separation | None
    letters: tuple[str, ...] = ()
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


# --- parts of sentences -----------------------------------------------------------------------------------------------


def as_sentence(text: str) -> str:
    """Return the text with a capital letter, unless it begins with code, and a full stop at the end."""
    stripped = text.strip()
    if not stripped:
        return ""
    starts_with_a_word = re.match(r"[a-z]+(?:['’-][a-z]+)*[\s,;:.]", stripped + " ") is not None
    capitalised = stripped[0].upper() + stripped[1:] if starts_with_a_word else stripped
    return capitalised if capitalised[-1] in ".!?" else f"{capitalised}."


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def the_others(results: Estimates, where_they_differ: str = "opponents that differ between models") -> str:
    """Return "the other 7 models", or what to call a model's opponents where these differ between models."""
    n_models = len(results.models)
    others = "the other model" if n_models == 2 else f"the other {n_models - 1} models"
    return others if results.graph.complete else where_they_differ


def enumerated(texts: Sequence[str]) -> str:
    """Return texts with commas between them, and "and" before the last one."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


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


def tie_sentence(results: Estimates) -> str:
    """Say on a page how ties count and how many there are, after a blank; empty without ties."""
    d = results.description
    if not d.tie_share or results.part or tie_weight(d.tie_weights) != "1/2":
        return ""
    return f" A tie counts as half a win; {100 * d.tie_share:.2g} % of the {results.counts}s are ties."


def functional_unit(results: Estimates) -> str:
    """Return the functional, whether it is one of mean preferences, and the unit in which its scores are shown."""
    average = " of mean preferences" if results.averages_preferences else ""
    label = results.functional_label + average + (_AT_EQUAL_STYLE if results.style else "")
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
    doubts = results.diagnostics.doubts
    news, doubtful = verdict_sentences(results, level), []
    if not results.has_intervals:
        news.append(as_sentence(f"estimates without intervals: {results.why_no_intervals}"))
        news += [NO_ORDER] * results.of_models
    warnings = fit_warnings(results)
    n_warnings, exception = len(warnings), "" if results.has_intervals else " except that there are no intervals"
    news += [f"Warnings: none{exception}."] * (n_warnings == 0)
    if doubts and results.has_intervals:
        all_warnings = results.diagnostics.warnings
        numbers = [str(n) for n, text in enumerate(all_warnings, start=1) if text in doubts]
        places = f"warning{'s' * (len(numbers) > 1)} {enumerated(numbers)}" if len(all_warnings) > 1 else "the warning"
        doubtful = [doubt_sentence(results, f" (see {places} below)"), *bootstrap_sentence(level)]
    labels = ["Warning"] if n_warnings == 1 else [f"Warning {n} of {n_warnings}" for n in range(1, n_warnings + 1)]
    return (
        *[" ".join(news)] * bool(news),
        *untested_note(results),
        *(" ".join(sentences) for sentences in (_conditions(results, level), doubtful) if sentences),
        *(f"{label}: {text}" for label, text in zip(labels, warnings, strict=True)),
        _in_short(results, level),
    )


def _conditions(results: Estimates, level: SummaryLevel) -> list[str]:
    """Say what only some fits have: parts of the prompts, missing scores, style, judges."""
    sentences = []
    if results.description.ordered and results.estimated_by.has_first_stages:
        sentences.append(as_sentence(position_sentence(results, level)))
    if error := results.diagnostics.order_effect_error:
        adds, within = (fixed_text(one, 3) for one in (results.diagnostics.order_effect, error))
        of_what = "share of wins" if results.kind.link == "identity" else "log-odds of a win"
        sentences.append(f"Being shown first adds {adds} to the {of_what} (standard error {within}).")
        if results.estimated_by.has_first_stages:
            sentences.append(
                "This was estimated in the pairs that were shown in both orders and is taken off the scores of all, "
                "which assumes that order has the same effect in every pair."
            )
    if results.diagnostics.outcome_kind == WINNERS:
        sentences.append("The two columns of models say who won and who lost, so that display order plays no part.")
    if results.diagnostics.outcome_kind == COUNTS:
        words = [
            f"{name} = {f'{meaning} wins' if meaning in MEANINGS[:2] else meaning.replace('_', ' ')}"
            for name, meaning in results.diagnostics.labels
        ]
        sentences.append(f"The columns are numbers of votes: {', '.join(words)}.")
    if results.part:
        what = "Warnings" if results.are_means else "Outcome model, propensities and warnings"
        sentences.append(f"{what} are those of the whole fit.")
    if results.diagnostics.models_dropped:
        sentences.append(f"These models are left out: {listed(results.diagnostics.models_dropped, MODELS_NAMED)}.")
    if results.diagnostics.second_order_by_model:
        name, bias, error = results.diagnostics.largest_second_order
        size, limit = f"{bias:+.1f} standard errors (own error {error:.1f})", LARGEST_BIAS["left in"]
        if results.diagnostics.second_order_treatment != "left in":
            sentences.append(f"A bias of up to {size} was estimated and subtracted ({name}).")
        elif limit < abs(bias) <= 2 * error:
            # Estimates of more than two of their own errors have a warning.
            sentences.append(
                f"Scores may have a bias, estimated as up to {size} ({name}); intervals are reliable up to {limit:g}. "
                f"Collect more {results.counts}s, or use functional='borda', which has no such bias."
            )
    if bias := results.diagnostics.bias_subtracted:
        sentences.append(f"A bias of up to {bias:.1f} standard errors was estimated and subtracted.")
    d = results.description
    sentences += [*what_became_of_rows(results), *names_changed(results), *scores_there(results)]
    if results.are_means and d.n_dropped:
        verb = "is" if d.n_dropped == 1 else "are"
        sentences.append(f"{counted(d.n_dropped, 'prompt')} without a score of every model {verb} left out.")
    if d.equal_tasks:
        sentences.append(f"Tasks (values of {d.equal_tasks!r}) count the same.")
    sentences += _dependence_of_clusters(results)
    sentences += runs_or_prompts(results)
    style, judge = results.style, results.judge
    if style is not None:
        sentences.append(f"Slopes on {listed(style.columns)} are removed; see .style.")
    if judge is not None:
        sentences.append(f"{verdicts_of(judge)} are used; see .judge.")
    return sentences


def names_changed(results: Estimates) -> list[str]:
    """Say how many names of models were changed when they were read; empty where none was."""
    n = results.description.n_names_changed
    return [f"{counted(n, 'name')} of models had outer blanks or another Unicode form, and lost them."] if n else []


def runs_or_prompts(results: Estimates) -> list[str]:
    """Say what twice the runs and twice the prompts make of the standard error of a difference, where it is known."""
    gain = results.diagnostics.gain_of_runs
    if gain is None:
        return []
    best = np.argsort(-results.merit, kind="stable")[:2]
    first, second = (results.models[j] for j in best)
    error = float(differences(results.covariance, best[:1], best[1:]).std_error[0])
    # Twice the runs halve the part of runs in the variance, 1 - (1 - gain)^2; twice the prompts halve all of it.
    digits = decimals(np.array([error / 2]), fewest=fewest_decimals(results.scale.natural))
    now, runs, prompts = (
        fixed_text(error * factor, digits) for factor in (1.0, np.sqrt((1 + (1 - gain) ** 2) / 2), np.sqrt(0.5))
    )
    cut = " (the part of prompts, estimated below zero, counts as zero)" if gain == 1 else ""
    return [
        f"Standard error of {first} - {second}: {now}; twice the runs: {runs}{cut}, twice the prompts at the same "
        f"price of runs: {prompts}."
    ]


def _dependence_of_clusters(results: Estimates) -> list[str]:
    """Say how much clusters change standard errors, by column and for two columns together."""
    d, noun, factors = results.description, f"{results.counts}s", results.diagnostics.cluster_factors
    names = list(map(repr, d.clusters))
    if not factors:
        return []
    times = f"{factors[-1]:.2f} times those of independent {'prompts' if d.context else noun} (median)"
    text = f"Standard errors with clusters of {' and '.join(names)} are {times}"
    if len(names) == 1:
        hardly = "" if factors[0] > _MATTERS else "hardly "
        return [f"{text}: {noun} of the same {names[0]} {hardly}depend on each other."]
    alone = [f"with {name} alone {factor:.2f} times" for name, factor in zip(names, factors, strict=False)]
    text = f"{text}, {' and '.join(alone[: len(factors) - 1])}."
    if len(factors) == 3 and max(factors[:2]) <= _MATTERS < factors[2]:
        text += " Neither matters by itself, and both together count twice what they share: name one of them."
    return [text]


def what_became_of_rows(results: Estimates) -> list[str]:
    """Say how many rows are no votes that are used, by cause; nothing where all are, or where this is not known."""
    d, n_rare = results.description, results.votes.n_left_out if results.votes else 0
    lost = [*d.rows_lost, ("with a vote on a pair that is not compared", n_rare)]
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in lost if number)
    if not (d.rows_lost and reasons) or results.part:
        return []
    return [f"{d.n_rows:,} rows: {reasons}; the votes of the other {d.n_votes - n_rare:,} are used."]


def scores_there(results: Estimates) -> list[str]:
    """Say how many runs have a score, or were drawn, or how many missing scores count as a value."""
    d = results.description
    if results.are_means and d.propensity == "given":
        there, possible = d.n_comparisons, d.n_contexts * len(results.models)
        return [
            f"{there:,} of {possible:,} runs of a model on a prompt were made ({percentage(there / possible)}), drawn "
            f"with known probabilities of at least {results.diagnostics.min_propensity:.2g}."
        ]
    if d.n_filled:
        return [f"{counted(d.n_filled, 'missing score')} count{'s' * (d.n_filled == 1)} as {d.filled_with:g}."]
    return [f"{d.runs_there}; runs without one are left out."] if d.runs_there else []


def verdicts_of(judge: JudgeFigures) -> str:
    """Return the verdicts that a fit uses as the subject of a sentence."""
    noun = "judge" if len(judge.names) == 1 else "judges"
    return f"Verdicts of the {noun} {', '.join(map(repr, judge.names))} on {counted(judge.n_verdicts, 'pair')}"


def fit_warnings(results: Estimates) -> list[str]:
    """Return the warnings of the fit as sentences, without the one that there are no intervals."""
    reason = results.why_no_intervals
    return [as_sentence(text) for text in results.diagnostics.warnings if not (reason and reason in text)]


def _in_short(results: Estimates, level: SummaryLevel) -> str:
    """Say in at most 60 words what the scores are, what holds jointly under which condition, and where to read more."""
    sentences = [
        f"Scores: {score_words(results)}." if results.of_models else "Rows: outputs of a user-defined functional."
    ]
    if results.description.edge_weights == "counts":
        sentences.append(f"Pairs weigh as much as they have labels: {AS_MET}, and with smaller standard errors.")
    if MET in win_head(results):
        fewest = fewest_opponents(results)
        dash = f' ("-": fewer than {fewest})' if fewest else ""
        sentences.append(f"{win_head(results)}: against the models that each was compared with, which differ{dash}.")
    if results.has_intervals:
        if results.neutral != 0 and len(results.names) > 1:
            sentences.append(f"z and adj. P: against {neutral_text(results) or 'the mean'}.")
        sets = "; so do rank sets" if level.separation else ""
        bootstrap = f" ({level.bootstrap} bootstrap)" if level.bootstrap else ""
        conditions = ["the Bradley-Terry model holds"] * results.estimated_by.assumes_bradley_terry
        if results.estimated_by.has_first_stages and results.diagnostics.outcome_kind not in DERIVED_KINDS:
            conditions.append("votes not cast are like those cast")
        looks = "" if results.sequence is None else f" {results.sequence.clause}"
        start = f"If {' and '.join(conditions)}, the" if conditions else "The"
        confidence = f"{level.confidence} confidence{bootstrap or few_units_words(results)}"
        sentences.append(f"{start} table's intervals hold jointly{looks} with {confidence}{sets}.")
    return " ".join(sentences) + " In words: res.explain(). Figures of the fit: res.diagnostics."


def few_units_words(results: Estimates) -> str:
    """Say in parentheses how intervals and tests allow for few prompts or clusters; empty where these are many."""
    covariance = results.covariance
    if results.sequence is not None:
        return ""
    units = "clusters" if results.description.clusters else _independent_units(results)[0]
    if covariance.means is not None:
        return f" (each limit allows for one unseen {units.removesuffix('s')})"
    if not covariance.has_few_units:
        return ""
    are_effective = round(covariance.df + 1) < min(covariance.n_clusters, default=results.description.n_contexts)
    return f" ({covariance.df + 1:.0f} {'effective ' * are_effective}{units}: t quantiles)"


def score_words(results: Estimates, *, on_page: bool = False) -> str:
    """Say in a few words what the scores are; a page says what a difference means, and the rest below."""
    if not results.of_models:
        return results.functional_label
    n_models, scale = len(results.models), results.scale
    kind_in_short = results.kind.in_short.format(n_models=n_models, opponents=the_others(results))
    definition = kind_in_short or results.functional_label
    if results.averages_preferences:
        definition += ", from mean preferences"
    elif kind_in_short and not results.kind.linear and results.estimated_by.uses_features and features_of(results):
        definition += "" if on_page else " given the formula's features"
    unit = "" if scale.natural else ", in Elo points" if scale.name == "elo" else f", {scale.name}"
    if scale.anchor is not None:
        unit += f" ({scale.anchor[0]} = {scale.anchor[1]:g})"
    elif scale.mean is not None:
        unit += f" (mean {scale.mean:g})"
    if on_page:
        unit += _AT_EQUAL_STYLE if results.style else ""
        if results.kind.link == "logit":
            unit += f"; a lead of {_LOG_ODDS_OF_60 * scale.factor:.2g} means 60 wins in 100 comparisons"
    return f"{definition}{unit}"


def position_sentence(results: Estimates, level: SummaryLevel) -> str:
    """Say how often a model wins when shown first and when second, with an interval of its own in a fit of one look."""
    effect, z = results.diagnostics.position_effect, results.diagnostics.position_z
    if not (np.isfinite(effect) and np.isfinite(z)):
        return "the effect of being shown first cannot be tested"
    error = effect / z if z else 0.0
    ends = np.clip(effect + norm.isf(level.alpha / 2) * error * np.array([-1, 1]), -1, 1)
    first, second, low, high = (fixed_text(50 + 50 * number, 1) for number in (effect, -effect, *ends))
    # An interval of one look does not hold at several.
    interval = f" ({level.confidence} interval by itself {low} to {high})" if results.sequence is None else ""
    return f"a model wins {first} of 100 when shown first{interval}, {second} when second"


# --- the verdict ------------------------------------------------------------------------------------------------------


def verdict_sentences(results: Estimates, level: SummaryLevel, *, on_page: bool = False) -> list[str]:
    """Say who leads, by how much, what is undecided and what would decide it, from the tests behind the table.

    A page says so without statistical terms; of the p-values it has that of a decision, which is not in its tables.
    """
    first, separation = level.first, level.separation
    if results.are_means and len(results.models) == 1 and results.has_intervals:
        digits = decimals(results.std_errors, fewest=fewest_decimals(results.scale.natural))
        ends = (results.estimate, *results.intervals(level.critical))
        score, low, high = (fixed_text(float(end[0]), digits) for end in ends)
        about = f"{results.models[0]} has a mean {results.description.outcome} of {score}"
        return [f"{about} ({level.confidence} interval {low} to {high})."]
    if first is None or separation is None:
        return []
    leader = results.models[first.leader]
    tied, n_others = [results.models[k] for k in first.others[~first.separated]], len(first.others)
    alike, several = _models_of_several_names(results)
    if not alike.isdisjoint([leader, *tied]):
        return [f"{several} This fit does not say who is first, because one of the first models has several names."]
    # Models that no test puts below another one may be first.
    may_lead = [leader, *(results.models[k] for k in first.others if not separation.above[:, k].any())]
    thin = {name: n for name, n in _models_with_few_votes(results).items() if name in may_lead}
    # Those that the named test leaves open; tests of all pairs may leave others open, too.
    p_values = {results.models[k]: float(p) for k, p in zip(first.others, first.p, strict=True)}
    may_be_first = [name for name, p in p_values.items() if not p <= first.alpha]
    few = [name for name in may_be_first if name in results.diagnostics.models_with_few_prompts or name in thin]
    enough = [name for name in may_be_first if name not in few] or few
    nobody = f"none of the other {n_others} models" if n_others > 1 else "no other model"
    is_nobody = len(may_be_first) == n_others
    apart = f"{nobody} is" if is_nobody else f"{some_of(enough)} {'is' if len(enough) == 1 else 'are'} not"
    question = "test of first place" if first.is_single else "adjusted for all pairs"
    # Votes against models that are left out counted for min_votes=, too, and are not known here.
    enough_votes = (
        f"{max(thin.values(), default=0) + 1}" if not results.diagnostics.models_dropped else " of a larger number"
    )
    if not first.decided and leader in thin:
        others = [j for j in np.argsort(-results.merit, kind="stable") if results.models[j] not in thin]
        return [
            f"First place is not decided: the {results.counts}s of {some_of([*thin])} (at most {max(thin.values()):,}) "
            f"do not show who is first. Of the others {results.models[others[0]]} has the {results.best_end} score"
            + ("." if on_page else f"; a fit with pairs=Pairs(min_votes={enough_votes}) ranks them.")
        ]
    equal = [results.models[k] for k in first.others[first.difference == 0]]
    n_pairs = len(results.models) * (len(results.models) - 1) // 2
    stricter = f"the stricter check of all {n_pairs:,} pairs of models at once"
    leads = f"{leader} leads" + (f", with the same score as {some_of(equal)}" if equal else "")
    if first.decided:
        lead = f"First place is decided: {leader} is first ({question}: P {p_value_clause(float(first.p.max()))})."
        includes_zero = np.flatnonzero(first.low <= 0)
        if first.is_single and len(includes_zero) and not tied:
            over = some_of([results.models[k] for k in first.others[includes_zero]])
            lead += (
                f" The simultaneous interval of its lead over {over} contains zero, because it belongs to {stricter}."
            )
    else:
        named = p_values if is_nobody else enough
        p = "" if on_page else f" ({question}: P {p_value_clause(max(p_values[name] for name in named))})"
        lead = f"First place is not decided: {leads}, but {apart} separated from it{p}."
        unknown = [name for name in few if name not in thin]
        if unknown and enough != few and not is_nobody:
            lead += f" {some_of(unknown)} {'has' if len(unknown) == 1 else 'have'} too few prompts to say."
        if thin := {name: thin[name] for name in few if name in thin}:
            most, is_one = max(thin.values()), len(thin) == 1
            lead += f" {some_of([*thin])} may be first, too: with {'' if is_one else 'at most '}"
            lead += f"{counted(most, results.counts)}{'' if is_one else ' each'} this stays open"
            lead += "." if on_page else f"; a fit with pairs=Pairs(min_votes={enough_votes}) ranks the others."
    if further := [name for name in tied if name not in may_be_first]:
        behind = f"{stricter}, behind rank sets and simultaneous intervals,"
        if on_page:
            lead += f" Nearly ruled out as first, and left open by {behind} alone: {some_of(further)}."
        else:
            lead += f" Only {behind} leaves {some_of(further)} open."
    verb = "is" if separation.n_separated == 1 else "are"
    pairs = f"{separation.n_separated:,} of {n_pairs:,} pairs of models {verb} separated."
    if on_page:
        pairs = f"Which of two models is better is shown for {separation.n_separated:,} of {n_pairs:,} pairs."
    if wins := results.diagnostics.order_of_lead:
        lead += (
            f" Most pairs were shown in one order only: if a model wins {fixed_text(wins, 1)} of 100 when shown first, "
            f"display order alone makes this lead."
        )
    lead = f"{several} {lead}".lstrip()
    return [lead, _lead_sentence(results, level, first), pairs, *_what_would_decide(results, first, on_page, few)]


def _models_of_several_names(results: Estimates) -> tuple[set[str], str]:
    """Return names that differ only by letter case, inner blanks or Unicode form, and a sentence about them."""
    if results.diagnostics.outcome_kind in DERIVED_KINDS:
        return set(), ""
    ranked = [results.models[j] for j in np.argsort(-results.merit, kind="stable")]
    groups = similar_names([*ranked, *results.diagnostics.models_dropped])
    groups = [group for group in groups if not set(ranked).isdisjoint(group)]
    if not groups:
        return set(), ""
    named = "; ".join(" and ".join(map(repr, group)) for group in groups[:2]) + "; ..." * (len(groups) > 2)
    return {name for group in groups for name in group}, (
        f"Names that differ only by letter case, inner blanks or Unicode form are probably one model, but are ranked "
        f"as different models ({named}); write one name for each model in the data."
    )


def _models_with_few_votes(results: Estimates) -> dict[str, int]:
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
    few = {*_models_with_few_votes(results), *d.models_with_few_prompts, *d.doubtful_models}
    return [name for name in results.names if name in few]


def some_of(names: Sequence[str]) -> str:
    """Return names in a sentence; of many names the first ones, and how many others there are."""
    few = len(names) <= _NAMED_IN_VERDICT + 1
    return enumerated(names if few else [*names[:_NAMED_IN_VERDICT], f"{len(names) - _NAMED_IN_VERDICT} others"])


def first_of(texts: Sequence[str], n_named: int, separator: str = "; ") -> str:
    """Return the first of several texts as one, which says how many others there are."""
    n_others = len(texts) - n_named
    return separator.join([*texts[:n_named], *[f"and {n_others:,} more"] * (n_others > 0)])


def _lead_sentence(results: Estimates, level: SummaryLevel, first: FirstPlace) -> str:
    """Say by how much the leader is above the best model that may be first as well, or else the second one."""
    place = first.rival
    leader, rival = results.models[first.leader], results.models[first.others[place]]
    gap, ends = float(first.difference[place]), results.inside(np.array([first.low[place], first.high[place]]))
    digits = decimals(first.std_error[[place]], fewest=fewest_decimals(results.scale.natural))
    score, is_natural = float(results.estimate[first.leader]), results.scale.natural
    is_share = is_natural and bool((results.estimate >= 0).all() and (results.estimate <= 1).all())

    def interval(low: str, high: str) -> str:
        return f"{level.confidence} simultaneous interval {low} to {high}"

    if is_share and results.functional == "borda":
        digits = max(digits - 2, 0)
        points = [fixed_text(100 * number, digits) for number in (score, gap, *np.clip(ends, -1, 1))]
        opponents = f"the other model{'s' * (len(results.models) > 2)}" if results.graph.complete else "its opponents"
        what = f"wins {points[0]} of 100 comparisons with {opponents}"
        return f"{leader} {what}, {points[1]} more than {rival} ({interval(*points[2:])})."
    if results.are_means:
        own, *texts = (fixed_text(number, digits) for number in (score, gap, *ends))
        gap_words = f"{texts[0]} {'more' if results.sign > 0 else 'less'} than {rival}"
        what = f"has a mean {results.description.outcome} of {own}, {gap_words}"
        return f"{leader} {what} ({interval(*texts[1:])})."
    texts = [fixed_text(number, digits) for number in (gap, *ends)]
    unit = " Elo points" if results.scale.name == "elo" else ""
    if results.kind.link == "logit":
        shares = 100 / (1 + np.exp(-np.array([gap, *ends]) / results.scale.factor))
        wins, *limits = (fixed_text(share, int(shares[2] - shares[1] < _NARROW)) for share in shares)
        compared = f"{leader} would by its score win {wins} of 100 comparisons with {rival} ({interval(*limits)})"
        return f"{compared}; its score is {texts[0]}{unit} higher."
    return f"{leader} leads {rival} by {texts[0]}{unit} ({interval(*texts[1:])})."


def _what_would_decide(results: Estimates, first: FirstPlace, on_page: bool, few: Sequence[str]) -> list[str]:
    """Say how many prompts would decide first place if the leads were as estimated; nothing where it is decided.

    Models with few votes are left aside where the others need less.
    """
    if first.decided:
        return []
    if results.sequence is not None:
        return ["A later look may decide it."]
    has_few = np.isin(np.array(results.models)[first.others], few)
    is_short, times = first.p > first.alpha, first.times_more(POWER)
    aside, are_too_few = "", _are_too_few(results)
    if not are_too_few and 0 < (of_others := first.times_more(POWER, ~has_few)) < times:
        names = [results.models[k] for k in first.others[is_short & has_few]]
        aside = f"; this leaves aside {some_of(names)}, on which more votes are missing"
        is_short, times = is_short & ~has_few, of_others
    wanted = data_wanted(results, times)
    wanted = wanted.replace(f"(power {POWER:.2f})", f"with a chance of {100 * POWER:.0f} %") if on_page else wanted
    if not wanted:
        return []
    supposed = "" if are_too_few else " if the leads were as estimated"
    supposed += ", and more if they are smaller" * ("would decide it (" in wanted or "would decide it with" in wanted)
    rivals = [first.leader, *first.others[is_short]]
    # Votes on pairs of other models say next to nothing about the difference of two such scores.
    votes = results.votes if results.functional in ("borda", "bt") and results.counts == "vote" else None
    involved, n_used = (int(votes.used[rivals].sum()), votes.n_used) if votes else (0, 0)
    clusters, is_targeted = results.description.clusters, times <= _MOST_TIMES and not are_too_few
    # Of two kinds of clusters it is not known how their numbers would grow together.
    is_targeted &= len(clusters) < (1 if results.are_means else 2)
    if results.are_means and is_targeted and len(rivals) < len(results.models):
        named = [results.models[k] for k in rivals]
        who = enumerated(named) if len(named) <= 3 else f"the leader and its {len(named) - 1} closest rivals"
        return [
            f"{wanted} if the leads were as estimated, and more if they are smaller; only {who} need scores on them."
        ]
    if not is_targeted or not 0 < 2 * involved < n_used:
        drawn = ", with pairs drawn as so far" * (results.counts == "vote" and "in all" in wanted)
        return [f"{wanted}{supposed}{drawn}{aside}."]
    closest = results.models[rivals[1]] if len(rivals) == 2 else f"one of its {len(rivals) - 1} closest rivals"
    further = max(int(float(f"{np.ceil((times - 1) * involved):.2g}")), 1)
    new = ", on new prompts," * bool(results.description.context and n_used > results.description.n_contexts)
    what = "independent votes"
    if clusters:
        number = float(f"{np.ceil((times - 1) * results.covariance.n_clusters[0]):.2g}")
        what, new = "votes", f"{new or ','} from {number:,.15g} further values of the column {clusters[0]!r},"
    targeted = f"About {further:,} further {what} on pairs with the leader or {closest}{new} would decide it "
    if on_page:
        return [f"{targeted}with a chance of {100 * POWER:.0f} %{supposed}{aside}."]
    return [
        f"{targeted}(power {POWER:.2f}){supposed}; with pairs drawn as so far, "
        f"{wanted[0].lower()}{wanted[1:].partition(' would decide it')[0]}{aside}."
    ]


# Options and methods in the text of a warning, which only users of Python can use.
_OPTION = re.compile(rf"(?<![\w.])(?:{'|'.join(OPTIONS)})=")
_CODE = re.compile(rf"{_OPTION.pattern}|(?<!\w)\.?[a-z_]+\(\)|\b(?:update|design|compare)\(")


def without_code(text: str) -> str:
    """Return a text for readers of a page: clauses that name options or methods of Python are left out.

    In the first clause, which says what was found, the names of options go and their values stay.
    """
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


def data_wanted(results: Estimates, times: float) -> str:
    """Say how many prompts would decide a question, a multiple of those that there are; no full stop.

    Empty where no number of prompts would, or where the power at one sample size says little: for tests at all looks.
    """
    d = results.description
    if d.prompts == "fixed" or results.sequence is not None:
        return ""
    unit, number, _ = _independent_units(results)
    if _are_too_few(results):
        return f"{number} {unit} are too few to say how many would decide it"
    if times > _MOST_TIMES:
        return f"Even {_MOST_TIMES:,} times as many {unit} would not decide it"
    # Two digits, because what is estimated is uncertain.
    wanted = max(int(float(f"{np.ceil(times * number):.2g}")), number + 1)
    votes = ""
    if d.clusters:
        each, of_all = (float(f"{n:.2g}") for n in (d.n_votes / number, d.n_votes / number * wanted))
        votes = f"; about {each:,.6g} {results.counts}s of each, {of_all:,.15g} {results.counts}s"
    return f"About {wanted:,} independent {unit} in all ({number:,} so far{votes}) would decide it (power {POWER:.2f})"


def _are_too_few(results: Estimates) -> bool:
    """Return whether votes are about so few independent units that no number of further ones can be named."""
    return not results.are_means and _independent_units(results)[1] <= FEW_CLUSTERS


def _independent_units(results: Estimates) -> tuple[str, int, str]:
    """Return what the precision grows with, its number, and a remark where a second kind of cluster grows, too."""
    d, n_clusters = results.description, results.covariance.n_clusters
    if not d.clusters:
        rows = "votes" if d.n_votes == d.n_contexts and results.counts == "vote" else "rows"
        return "prompts" if d.context else rows, d.n_contexts, ""
    fewest, remark = int(np.argmin(n_clusters)), ""
    if len(d.clusters) > 1:
        remark = f" The number of values of the column {d.clusters[1 - fewest]!r} is assumed to grow in proportion."
    return f"values of the column {d.clusters[fewest]!r}", n_clusters[fewest], remark


def gap_note(results: Estimates, level: SummaryLevel) -> list[str]:
    """Say which true lead over the best rival the test of first place would find, now and with more prompts."""
    first = level.first
    if first is None or first.decided or results.sequence is not None or results.description.prompts == "fixed":
        return []
    error = float(first.std_error[first.rival])
    if not error > 0:
        return []
    unit, number, remark = _independent_units(results)
    digits = decimals(np.array([error]), fewest=fewest_decimals(results.scale.natural))
    least = smallest_gap(error, first.critical, POWER)
    present, doubled, tenfold = (f"{least / np.sqrt(multiple):.{digits}f}" for multiple in (1, 2, 10))
    leader, rival = results.models[first.leader], results.models[first.others[first.rival]]
    test = "test of first place" if first.is_single else "test of all pairs"
    return [
        f"The smallest true lead of {leader} over {rival} that the {test} would find with power {POWER:.2f} is "
        f"{present} with these {number:,} {unit}, {doubled} with {number:,} more and {tenfold} with {9 * number:,} "
        f"more{', with pairs drawn as so far' * (results.counts == 'vote')}.{remark}"
    ]


# --- notes that several tables have ---------------------------------------------------------------------------------


def sequential_note(results: Estimates) -> list[str]:
    """Say that statements hold at all looks and what had to be fixed in advance; nothing outside sequential views."""
    return [] if results.sequence is None else [results.sequence.promise]


def doubt_sentence(results: Estimates, reason: str = "") -> str:
    """Say that intervals, tests and ranks may not hold, and of which models where this is known."""
    names = results.diagnostics.doubtful_models
    n_others = len(results.names) - len(names) if names else 0
    others = f" This does not concern comparisons among the other {n_others} models." if n_others else ""
    doubted = f"Intervals, tests and ranks {f'of {enumerated(names)} ' if names else ''}may not hold for these data"
    return f"{doubted}{reason}.{others}"


def doubt_note(results: Estimates) -> list[str]:
    """Return the sentence that intervals, tests and ranks may not hold, for a summary that does not list warnings."""
    n_warnings = len(results.diagnostics.doubts)
    reasons = f"{counted(n_warnings, 'warning')} of the fit {'says' if n_warnings == 1 else 'say'} why"
    doubts = doubt_sentence(results, f": {reasons}") + " The text of each warning is in summary() of the fit."
    return [doubts] * bool(n_warnings and results.has_intervals)


def few_votes_note(results: Estimates, where: str = "") -> list[str]:
    """Say which models with few votes may hide what holds of others, in tables that do not mark them."""
    few = [f"{name} {n_votes:,}" for name, n_votes in _models_with_few_votes(results).items()]
    named = ", ".join(few[:MODELS_NAMED]) + ", ..." * (len(few) > MODELS_NAMED)
    return [
        f"Models with few votes{where} ({named}) widen the intervals of all scores, and may hide "
        f"what holds of other models: see a fit with a larger min_votes, which leaves them out."
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
    warned = "warnings and the " if results.diagnostics.warnings else ""
    if results.are_means:
        return [f"The scores of {results.part} are means over its prompts."]
    return [
        f"The scores of {results.part} come from the outcome model and the propensities of the whole fit, which the "
        f"{warned}technical figures describe."
    ]


def untested_note(results: Estimates) -> list[str]:
    """Say which scores have no test because their standard error is zero."""
    errors = results.covariance.widened.std_errors
    if not results.has_intervals or not (results.fixed.any() or not (errors > 0).all()):
        return []
    names = ", ".join(name for name, error in zip(results.names, errors, strict=True) if not error > 0)
    reason = "the functional fixes the score" if results.fixed.any() else "the estimate does not vary in these data"
    return [f"There is no test for {names}: the standard error is zero, because {reason}."]


def score_definition(results: Estimates) -> str:
    """Say what a score is."""
    meaning = results.kind.meaning.format(n_models=len(results.models), opponents=the_others(results))
    meaning = meaning or f"The functional of the scores is {results.functional_label}."
    d = results.description
    if d.equal_tasks:
        return f"{meaning} Prompts are weighted so that all tasks (values of {d.equal_tasks!r}) count the same."
    return f"{meaning} Prompts are weighted as the data say." if d.weighted else meaning


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
