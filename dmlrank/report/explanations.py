"""What a fit is in words: the sections of ``explain()`` and of pages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from ..data.derived_pairs import DERIVED_KINDS
from ..exceptions import listed
from ..fit.adjusted_for_style import StyleEstimates
from ..fit.estimates import Estimates
from ..functionals import FUNCTIONALS
from ..inference.simultaneous import PairTests
from ..inference.wald import two_sided_p_values, z_statistics
from ..tables.display_text import decimals, inert, isolated, p_value_clause, wrapped
from .fit_summary import fit_facts
from .statements import (
    MODELS_NAMED,
    NO_ORDER,
    SummaryLevel,
    as_sentence,
    counted,
    doubt_sentence,
    features_of,
    fewest_opponents,
    gap_note,
    interval_method,
    names_changed,
    neutral_text,
    part_note,
    percentage,
    position_sentence,
    score_definition,
    scores_there,
    sequential_note,
    some_of,
    the_others,
    tie_weight,
    unit_sentences,
    untested_note,
    verdict_sentences,
    verdicts_of,
    what_became_of_rows,
)

ASSOCIATION = (
    "This is an association, not an effect: style lies between the model and the vote, and better answers may be "
    "longer."
)
# Sources of the propensities in words.
_PROPENSITIES = {
    "estimated": "estimated from the features of the prompts",
    "marginal": "the shares of prompts on which the pairs were {chosen}, the same for all prompts",
    "given": "those that were given with the data",
}


# --- the sections -----------------------------------------------------------------------------------------------------


def explanations(
    results: Estimates,
    level: SummaryLevel,
    tests: PairTests | None = None,
    remarks: Sequence[tuple[str, Sequence[str]]] = (),
    *,
    on_page: bool = False,
) -> list[tuple[str, Sequence[str]]]:
    """Return titles and paragraphs of the sections on a fit: scores, first place, statements, method, data and others.

    A page shows first place and warnings elsewhere, and has columns of its own; ``tests`` are those of its pairs.
    """
    sets = "rank sets and groups" if any(level.letters) else "and rank sets"
    promises = f"What the intervals{',' * any(level.letters)} {sets} promise"
    promises = promises if results.has_intervals else "Why there are no intervals"
    style = results.style
    sections: list[tuple[str, Sequence[str]]] = [
        ("What the scores are", _score_sentences(results, level, on_page)),
        ("Style", [] if style is None else [f"{slope_sentences(results, style)} {ASSOCIATION}"]),
        ("First place", [*([] if on_page else verdict_sentences(results, level)), *gap_note(results, level)]),
        (promises, _promises(results, level, tests, on_page)),
        ("Data", _data_sentences(results)),
        ("Method", _method(results)),
        ("What is assumed", _assumptions(results)),
        *remarks,
        ("Diagnostics", _diagnostics(results, level, tests)),
    ]
    return [(title, paragraphs) for title, paragraphs in sections if paragraphs]


def explanation_text(results: Estimates, level: SummaryLevel) -> str:
    """Return the sections on a fit as text, in lines of at most 78 characters."""
    lines = []
    facts = [f"{label} {value}" for label, value in fit_facts(results)]
    for title, paragraphs in (*explanations(results, level), ("The fit in short", facts)):
        lines.append(title)
        for text in paragraphs:
            lines += wrapped("  " + isolated(inert(text)), 78, "  ")
        lines.append("")
    return "\n".join(lines).rstrip()


def _score_sentences(results: Estimates, level: SummaryLevel, on_page: bool) -> list[str]:
    """Say what a score is, what its unit is, what it is tested against, and how a win is counted."""
    tested = _tested_hypothesis(results, level) if results.has_intervals and not on_page else []
    said = score_definition(results) if results.of_models else "The rows are the outputs of a user-defined functional."
    meaning = " ".join(filter(None, [said, *unit_sentences(results), as_sentence(results.reason)]))
    if not results.of_models:
        return [meaning, *tested]
    opponents = the_others(results, "the models that it is compared with")
    if fewest := fewest_opponents(results):
        opponents += f" (a dash stands for fewer than {fewest})"
    averaged = f", averaged over {opponents}, which all count the same" if len(results.models) > 2 else ""
    # Win probabilities are about the votes, which scores at equal style are not.
    unadjusted = ", without the adjustment for style" if results.style else ""
    ties = results.description.tie_weights
    tie = f"; a tie counts {tie_weight(ties)}" if ties else ""
    return [
        meaning,
        *_dependence_sentences(results),
        *tested,
        *[
            f"The win probability is the estimated probability that the model wins a comparison{averaged}{unadjusted}"
            f"{tie}. The share of its {results.counts}s that a model won may be another number, because it depends on "
            f"the opponents that it met."
        ]
        * (not results.are_means),
    ]


def _dependence_sentences(results: Estimates) -> list[str]:
    """Say what the scores depend on, for the package's non-linear functionals and for maximum likelihood."""
    estimator, has_features = results.estimated_by, bool(features_of(results))
    if results.are_means:
        return ["The features of the formula are not used where no score is missing."] * has_features
    if estimator.uses_features and not estimator.has_first_stages:
        return [
            "The scores are means over prompts of r_j(x) = b_j + w_j'x, the scores of a Bradley-Terry model that are "
            "linear in the features x. The coefficients maximise the likelihood of all votes. If log-odds are not "
            "differences of such scores, the means depend on how often each pair was compared on which prompts."
        ]
    if not estimator.has_first_stages:
        return [
            "The scores maximise the Bradley-Terry likelihood of all votes. If log-odds are not differences of scores, "
            "the scores depend on how often each pair was compared.",
            *["The features of the formula are not used; estimator='bt_contextual' uses them."] * has_features,
        ]
    if results.functional not in FUNCTIONALS or results.kind.linear:
        return []
    if results.style is not None:
        return ["A formula with other features would define other scores, because log-odds are not linear in votes."]
    if results.description.average == "preferences":
        return [
            "Preferences are averaged over prompts first, and scores are computed from these averages. The target does "
            "not depend on the features in the formula."
        ]
    return [
        *["The estimator assumes that the Bradley-Terry model holds for every prompt; restriction_test() tests this."]
        * estimator.assumes_bradley_terry,
        "For each prompt, scores are computed from the preference probabilities given the features in the formula; the "
        "scores shown are their averages over prompts. The functional is not linear, so that this target depends on "
        "which features are conditioned on: a formula with other features would define other scores; "
        "average='preferences' has a target that does not depend on the features."
        if has_features
        else "The scores describe preferences averaged over all prompts. A formula with features would define other "
        "scores, unless the preferences are averaged before scores are computed (average='preferences').",
    ]


def _tested_hypothesis(results: Estimates, level: SummaryLevel) -> list[str]:
    """Say what z and adj. P compare a row with, and for how many tests p-values are adjusted."""
    row, n_rows = "a score" if results.of_models else "an output", len(results.names)
    average = ", the average of the models" if results.kind.link == "logit" else ""
    value = f"{neutral_text(results)}{average}" if results.neutral is not None else f"the mean {row.split()[-1]}"
    adjusted = f"adj. P is adjusted for the {n_rows} tests" if n_rows > 1 else "There is one test"
    ends = f" ({interval_method(results)})."
    if results.neutral is not None:
        subject = "it" if n_rows > 1 else "adj. P"
        ends = f": {subject} is below {level.alpha:g} exactly where the interval excludes {neutral_text(results)}."
    return [f"z and adj. P test whether {row} equals {value}. {adjusted}{ends}"]


def _promises(results: Estimates, level: SummaryLevel, tests: PairTests | None, on_page: bool) -> list[str]:
    """Say what intervals, rank sets and groups promise, and what they do not; or why there are none."""
    if not results.has_intervals:
        reason = f"These are estimates without intervals: {results.why_no_intervals}."
        return [f"{reason} {NO_ORDER}" if results.of_models else reason]
    n_rows, where = len(results.names), "at the top" if on_page else "in summary()"
    true = f"the true {'scores' if results.of_models else 'values'}"
    held = f"all {n_rows} intervals contain {true} at the same time"
    looks = "" if results.sequence is None else f", {results.sequence.clause}"
    sentences = [
        *[doubt_sentence(results, f": warnings {where} say why")] * bool(results.diagnostics.doubts),
        f"If the assumptions below hold, then with {level.confidence} confidence "
        f"{held if n_rows > 1 else 'the interval contains the true value'}{looks}"
        f"{'' if on_page else f' ({_how_jointly(results, level)})'}.",
        *sequential_note(results),
        *_rank_sentences(results, level, on_page),
    ]
    if tests is not None:
        sentences.append(
            "Differences of two models are tested all at once: intervals and adjusted p-values hold for all pairs "
            "together, so that any pair may be chosen after looking."
        )
    if not on_page:
        sentences += part_note(results)
        if results.estimated_by.is_unrestricted_one_step and results.diagnostics.outcome_kind not in DERIVED_KINDS:
            bounds = "; sensitivity() bounds the error" if results.style is None else ""
            sentences.append(f"Votes that were not cast are assumed to be like those that were{bounds}.")
    return [*sentences, *untested_note(results), *filter(None, [as_sentence(results.covariance.note)])]


def _how_jointly(results: Estimates, level: SummaryLevel) -> str:
    """Return how intervals of scores hold at the same time, for statisticians."""
    return f"{interval_method(results)}{level.bootstrap_words}, critical value {level.critical:.2f}"


def _rank_sentences(results: Estimates, level: SummaryLevel, on_page: bool) -> list[str]:
    """Say what rank sets and groups mean; nothing where there are none."""
    if level.separation is None:
        return []
    n_pairs = len(results.models) * (len(results.models) - 1) // 2
    column = "the column “Group”" if on_page else "ranks()"
    sign = "number" if any("," in group or group.isdigit() for group in level.letters) else "letter"
    groups = (
        f" Models without a common {sign} in {column} are separated. Models that share a {sign} may still differ. A "
        f"dash stands for all {sign}s from the first to the last."
        if any(level.letters)
        else ""
        if on_page
        else " Groups of models that are not separated have letters where there are at most 20 models."
    )
    return [
        f"With {level.confidence} confidence all rank sets contain the true ranks. Two models are separated where the "
        f"tests show that one of them ranks above the other: this holds for {level.separation.n_separated:,} of "
        f"{n_pairs:,} pairs.{groups}",
        "Intervals of single scores may overlap although the difference between two models is significant: compare "
        "two models by their difference, not by their intervals.",
    ]


def _method(results: Estimates) -> list[str]:
    """Say how the scores were estimated."""
    description, estimator = results.description, results.estimated_by
    if results.are_means and description.n_comparisons < description.n_contexts * len(results.names):
        weighted = ", each with the weight 1 / probability of its run" * (description.propensity == "given")
        return [
            "The scores are means over all prompts, although some models have no score on some of them. Features of "
            "the formula, and models with a score on every prompt, predict the scores that are not there, out of fold, "
            f"and the scores that are there correct the predictions{weighted}; where nothing predicts them, a score is "
            "the mean of those that are there. Standard errors come from the variance between prompts. Differences of "
            "models are paired on the prompts that both have."
        ]
    if results.are_means:
        return [
            "The scores are plain means, and nothing is learnt. Standard errors come from the variance between "
            "prompts, which contains that between runs. All models were scored on the same prompts, so that "
            "differences of models are paired: what makes a prompt hard for all of them cancels."
        ]
    if not estimator.has_first_stages:
        linear = "a Bradley-Terry model in which scores are linear in the prompt's features, averaged over prompts"
        model = linear if estimator.uses_features else "the Bradley-Terry model"
        return [
            f"The scores maximise the likelihood of {model}. Their standard errors are sandwich estimates, which do "
            f"not assume that the model is right."
        ]
    noun, chosen = f"{results.counts}s", _chosen(results)
    source = _PROPENSITIES.get(description.propensity, description.propensity).format(chosen=chosen)
    how = (
        f"estimated with cross-fitting (learner: {description.learner}; {description.n_folds} folds, "
        f"{counted(description.n_rep, 'repetition')}): the {noun} on a prompt are never predicted by a model that has "
        f"seen them"
    )
    if description.n_folds == 1:
        how = f"estimated by the frequencies of the pairs among all {noun}, because there are no features"
    learnt = (
        f"Preference probabilities were {how}. Propensities, the probabilities that a pair is {chosen}, are {source}."
    )
    if not estimator.is_debiased:
        return [learnt, "The scores are computed from the learnt probabilities without a correction of their bias."]
    corrected = (
        f"Each score is first computed from these probabilities and then corrected with the {noun}, each weighted by "
        "one over its propensity. The correction removes the first-order effect of errors in the learnt probabilities, "
        "so that intervals can be valid although machine learning was used."
    )
    assumed = "No Bradley-Terry model is assumed."
    if results.functional == "bt":
        assumed = (
            "No Bradley-Terry model is assumed: the scores are a log-odds projection, the scores whose differences "
            "come closest to the log-odds of wins of all pairs."
        )
    if estimator.assumes_bradley_terry:
        assumed = "The estimator assumes that a Bradley-Terry model holds in every prompt."
    return [learnt, f"{corrected} {assumed}"]


def _chosen(results: Estimates) -> str:
    """Say what happens to some of the pairs on a prompt: votes on them, or comparisons of scores or ranks."""
    return "voted on" if results.counts == "vote" else "compared"


def _assumptions(results: Estimates) -> list[str]:
    """Return one paragraph per assumption; none for estimates that claim nothing."""
    if not results.has_intervals:
        return []
    d, description, estimator = results.diagnostics, results.description, results.estimated_by
    unit, noun = "prompts" if description.context else "votes", f"{results.counts}s"
    independent = f"Different {unit} are independent"
    if description.clusters:
        names = " and of ".join(f"“{name}”" for name in description.clusters)
        independent = f"{noun.capitalize()} of different clusters of {names} are independent; within a cluster "
        independent += "they may depend"
    elif description.context:
        independent += f"; {noun} on the same prompt may depend on each other"
    weighted = ", weighted as the data say" if description.weighted else ""
    if description.equal_tasks:
        weighted = ", each task with the same weight"
    population = f"The {unit} are a sample of the population of {unit} to which the statements apply{weighted}."
    if description.prompts == "fixed":
        population = "The statements are about these prompts only."
    sampling = f"{population} {independent}."
    if results.are_means:
        normal = "many prompts, and more of them where nearly all scores of a model are equal"
        rounds = (
            "Runs were drawn with the given probabilities, whatever their scores would be: a round of runs may depend "
            "on earlier scores, but not on those of the prompt itself."
        )
        known = [rounds] * (description.propensity == "given")
        return [
            sampling,
            *known,
            f"Limits count one unseen prompt on their side; beyond that errors of the means are near normal, which "
            f"needs {normal}.",
        ]
    if not estimator.has_first_stages:
        holds = "linear in the prompt's features" if estimator.uses_features else "the same in all prompts"
        where = ", and on which prompts" if estimator.uses_features else ""
        return [
            sampling,
            f"Differences between models are {holds}. If they are not, the scores depend on how often each pair was "
            f"{_chosen(results)}{where}.",
        ]
    terms, chosen = features_of(results), _chosen(results)
    pairs = f"which pairs are {'shown and voted on' if results.counts == 'vote' else 'compared'}"
    choice = f"Given the features of the prompt in the formula ({terms}), {pairs} does not depend on how the {noun} "
    choice += "would turn out"
    if not terms:
        choice = f"{pairs.capitalize()} does not depend on the prompt in a way that also matters for the outcome: the "
        choice += "formula has no features of the prompts"
    is_linear = results.averages_preferences or (results.functional in FUNCTIONALS and results.kind.linear)
    squares = "" if is_linear else ", and of squares of the errors of the preference probabilities"
    normal = f"prompts: every standard error rests on the equivalent of at least {np.floor(d.effective_contexts):,.0f} "
    normal += "prompts"
    if description.clusters:
        numbers = zip(results.covariance.n_clusters, description.clusters, strict=True)
        counts = " and ".join(f"{n:,} of “{name}”" for n, name in numbers)
        normal = f"clusters, none of which has much of the votes: there are {counts}"
    return [
        sampling,
        f"{choice}.",
        f"Every compared pair had a chance to be {chosen} for every kind of prompt. The smallest propensity of a "
        f"{results.counts} is {d.min_propensity:.3g}.",
        "The learnt probabilities are close enough to the truth: the error that remains after the correction is a "
        f"product of the errors of the preference probabilities and of the propensities{squares}.",
        *[f"Errors of the scores are normally distributed, which needs many {normal}."]
        * bool(np.isfinite(d.effective_contexts)),
    ]


# --- data and judges --------------------------------------------------------------------------------------------------


def _data_sentences(results: Estimates) -> list[str]:
    """Say what was read, dropped and left out."""
    d = results.description
    unit, gap = ("prompt", "without a score of every model") if results.are_means else ("row", "with missing values")
    dropped = f" {counted(d.n_dropped, unit)} {gap} {'was' if d.n_dropped == 1 else 'were'} dropped."
    counts = f"{counted(d.n_votes, results.counts)} on {counted(d.n_contexts, 'prompt' if d.context else 'row')}"
    what = f"{results.counts} between these models" if results.diagnostics.models_dropped else results.counts
    unlabelled = f"; {counted(d.n_unlabelled, 'prompt')} without a {what}" if d.n_unlabelled else ""
    size = f"{counts}{unlabelled}.{dropped if d.n_dropped else ''}"
    size = "".join(what_became_of_rows(results)) or size
    return [
        " ".join([size, *names_changed(results), *scores_there(results)]),
        *_left_out_note(results),
        *_outcome_note(results),
        *_judge_note(results),
    ]


def _left_out_note(results: Estimates) -> list[str]:
    """Say which pairs, votes and models are left out, and which prompts were added."""
    d, votes, noun = results.diagnostics, results.votes, f"{results.counts}s"
    n_lost = votes.n_left_out if votes else 0
    sentences = []
    if d.pairs_left_out:
        with_votes = f" ({counted(n_lost, results.counts)})" if n_lost else ""
        verb = "is" if d.pairs_left_out == 1 else "are"
        sentences.append(f"{counted(d.pairs_left_out, 'pair')} with too few labels{with_votes} {verb} not compared.")
    if votes and n_lost and results.of_models:
        used, total = next((u, n) for u, n in zip(votes.used, votes.total, strict=True) if u < n)
        meaning = f"{used:,}/{total:,} means that {used:,} of {total:,} {noun} are used."
        sentences.append(f'In the column "{noun}", {meaning}')
    if d.models_dropped:
        sentences.append(f"These models are left out: {listed(d.models_dropped, MODELS_NAMED)}.")
    return [" ".join(sentences)] if sentences else []


def _outcome_note(results: Estimates) -> list[str]:
    """Say how labels were read that are numbers, probabilities or derived; labels that are words say it themselves."""
    words = {"first": "first wins", "second": "second wins"}
    labels, kind = results.diagnostics.labels, results.diagnostics.outcome_kind
    meanings = ", ".join(f"{label} = {words.get(meaning, meaning.replace('_', ' '))}" for label, meaning in labels)
    if kind == "preferences":
        low, high = sorted(label for label, _ in labels)
        return [f"The labels are preferences from {low} to {high} ({meanings}). There is no category for ties."]
    if kind == "counts":
        return [f"The columns are numbers of votes ({meanings})."]
    if kind == "probabilities":
        return [f"The labels are probabilities ({meanings})."]
    if kind == "grades":
        return [
            f"Labels are grades. Each number is the share of a win that a grade is worth for the model shown first; "
            f"the other model gets the remainder ({meanings}). {results.kind.meaning_of_grades}"
        ]
    if results.are_means:
        return []
    if kind in DERIVED_KINDS:
        (winner, _), *tie = labels
        ties = f" ({tie[0][0]}: a tie)" if tie else " (no ties)"
        return [
            f"Comparisons are those of the {kind} on a prompt: the model with the {winner} wins{ties}. Comparisons on "
            f"one prompt depend on each other, and the standard errors allow for that."
        ]
    return [f"Labels: {meanings}."] if any(x in ("0", "1", "True", "False") for x, _ in labels) else []


def _judge_note(results: Estimates) -> list[str]:
    """Say which judges' verdicts are used, and how much precision they add."""
    judge = results.judge
    if judge is None:
        return []
    verdicts = verdicts_of(judge)
    if not results.has_intervals:
        return [f"{verdicts} are used in the estimate."]
    varies = judge.alone_errors > 0
    ratio = float(np.square(judge.errors[varies] / judge.alone_errors[varies]).mean()) if varies.any() else float("nan")
    worth = f", which is equivalent to about {judge.worth:,.0f} more human votes" if 0 < judge.worth < np.inf else ""
    usage = "" if judge.how == "two-stage" else " as features of the outcome model"
    is_harmless = judge.how == "two-stage" or results.averages_preferences
    caution = "" if is_harmless else " Such features change what non-linear scores measure."
    return [
        f"{verdicts}, {judge.n_unlabelled:,} of them without a human label, are used{usage}. The variances of the "
        f"scores are on average {ratio:.2f} times those without verdicts{worth}.{caution}"
    ]


# --- figures ----------------------------------------------------------------------------------------------------------


def _diagnostics(results: Estimates, level: SummaryLevel, tests: PairTests | None) -> list[str]:
    """Return the figures on the first stages, the tests of ranks, the seed and the version of the fit."""
    d, description = results.diagnostics, results.description
    sentences = _figures(results, level) if results.estimated_by.has_first_stages else []
    if not (sentences or results.are_means):
        sentences = [
            f"In-sample log-loss is {d.log_loss:.3f} ({d.log_loss_constant:.3f} for a fair coin).",
            "Standard errors are sandwich estimates.",
            "Display order is ignored." if not d.order_effect_error else "The model has an effect of display order.",
        ]
    if tests is None and level.separation and level.separation.critical > 0:
        kind = "step-down tests" if results.sequence is None else "Holm's tests at all looks"
        sentences.append(
            f"Rank sets and letters come from {kind} of all differences{level.bootstrap_words} (critical value "
            f"{level.separation.critical:.2f})."
        )
    if tests is not None and np.isfinite(tests.critical):
        method, other = "single-step max-t", "step-down form of the same tests"
        if results.sequence is not None:
            method, other = "Bonferroni's method", "Holm's tests at all looks"
        sentences.append(
            f"Intervals of scores hold jointly ({_how_jointly(results, level)}). Intervals and p-values of differences "
            f"hold for all pairs ({method}{level.bootstrap_words}, critical value {tests.critical:.2f}); rank sets and "
            f"groups use the {other}, which separates the same pairs or a few more."
        )
    return [*sentences, f"Seed {description.seed}, dmlrank {description.version}."]


def _figures(results: Estimates, level: SummaryLevel) -> list[str]:
    """Return the figures of the outcome model, the propensities, the standard errors, the floor and display order."""
    d, description = results.diagnostics, results.description
    slope = f"; calibration slope {d.calibration:.2f} (1 is right)" if np.isfinite(d.calibration) else ""
    sentences = [
        f"Out-of-fold log-loss is {d.log_loss:.3f} ({d.log_loss_constant:.3f} for constant probabilities){slope}.",
        f"Labels are weighted by 1 / propensity. The effective sample size of the weighted labels of a pair is at "
        f"least {d.effective_share:.2f} times their number (1 if all weights are equal).",
    ]
    if results.has_intervals:
        if not results.description.clusters:
            sentences.append(
                f"Every standard error rests on the equivalent of at least {np.floor(d.effective_contexts):,.0f} "
                f"prompts of equal influence."
            )
        if d.bias_subtracted:
            sentences.append(
                f"A second-order bias of at most {d.bias_subtracted:.2f} standard errors was estimated and subtracted."
            )
        if d.second_order_by_model:
            name, bias, error = d.largest_second_order
            sentences.append(
                f"Errors of mu bias the scores to second order. The largest of these biases, that of {name}, is "
                f"estimated as {bias:+.2f} standard errors, with an error of {error:.2f}; the biases were "
                f"{d.second_order_treatment}."
            )
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
    reason = f", because {description.order_reason}" if description.order_reason else ""
    ordered, meaning = "modelled" if description.ordered else "ignored", ""
    # NaN, where the effect cannot be tested, is not below.
    if not description.ordered and abs(d.position_z) > norm.isf(level.alpha / 2):
        uneven = "" if d.order_effect_error else some_of([name for name, _ in d.uneven_orders])
        meaning = "; every model is shown first in about half of its labels, so that this favours none of them"
        if d.order_effect_error:
            meaning = "; one effect of order for all pairs is taken off the scores"
        if uneven:
            meaning = f"; not shown first in about half of their labels, so that scores contain part of this: {uneven}"
    return [*sentences, f"Display order is {ordered}{reason}; {position_sentence(results, level)}{meaning}."]


# --- style ------------------------------------------------------------------------------------------------------------


def slope_sentences(results: Estimates, style: StyleEstimates) -> str:
    """Say what scores at equal style are, with the slopes."""
    unit = "log-odds" if results.kind.link == "logit" else "win share"
    unit = unit if results.scale.natural else f"score, {results.scale.name}"
    errors, slopes = style.slope_covariance.std_errors, []
    p_values = two_sided_p_values(z_statistics(style.slopes, errors), style.slope_covariance)
    for name, slope, error, p in zip(style.columns, style.slopes, errors, p_values, strict=True):
        # The standard error has two digits.
        digits = decimals(np.array([error]), fewest=2)
        slopes.append(f"{name} {slope:.{digits}f} (std. err. {error:.{digits}f}, p {p_value_clause(p)})")
    return (
        f"Scores are those of answers that are alike in {listed(style.columns)}: the slopes on these style differences "
        f"within prompt and pair are removed. Slopes ({unit} for one unit of the difference): {'; '.join(slopes)}."
    )
