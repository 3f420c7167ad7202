"""Method, assumptions and diagnostics of a fit in plain words, with the numbers of the fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...fit.estimates import Estimates
from ..statements import (
    NO_FEATURES,
    as_sentence,
    counted,
    dependence_sentences,
    first_stage_sentences,
    interval_method,
    judge_note,
    left_out_note,
    likelihood_sentences,
    outcome_note,
    part_note,
    score_definition,
    sequential_note,
    style_sentences,
    tie_weight,
    unit_sentences,
    untested_note,
    win_shares_without_adjustment,
)
from .board import Board
from .page_text import prose

_PAPER = (
    "D. Frauen, A. Deviyani, M. van der Schaar and S. Feuerriegel (2026). Nonparametric LLM Evaluation from "
    "Preference Data. arXiv:2601.21816."
)
# Sources of the propensities in words.
_PROPENSITIES = {
    "estimated": "estimated from the features of the prompts",
    "marginal": "the shares of prompts on which the pairs were voted on, the same for all prompts",
    "given": "those that were given with the data",
}
_PROMISES = "What the intervals, rank sets and groups promise"
_ADDRESS = "https://arxiv.org/abs/2601.21816"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its paragraphs."""

    title: str
    paragraphs: tuple[str, ...]


def citation() -> tuple[str, str]:
    """Return the paper to cite, and its address."""
    return _PAPER, _ADDRESS


def explanations(board: Board) -> tuple[Section, ...]:
    """Return the sections below a leaderboard: scores, statements, method, assumptions, remarks, data, diagnostics."""
    results = board.results
    sections = [
        Section("What the scores are", tuple(_score_sentences(results))),
        Section("Style", tuple(style_sentences(results))),
        Section(_PROMISES if results.has_intervals else "Why there are no intervals", tuple(_promises(board))),
        Section("Method", tuple(_method(results))),
        Section("What is assumed", tuple(_assumptions(results))),
        *(Section(title, paragraphs) for title, paragraphs in board.remarks),
        Section("Data", tuple(_data_sentences(results))),
        Section("Diagnostics", tuple(_diagnostics(board))),
    ]
    return tuple(
        Section(section.title, tuple(map(prose, section.paragraphs))) for section in sections if section.paragraphs
    )


def group_notes(board: Board) -> tuple[str, ...]:
    """Return the notes below the leaderboard of a group of prompts."""
    return (*part_note(board.results), *untested_note(board.results))


def _score_sentences(results: Estimates) -> list[str]:
    """Say what a score is, what its unit is, and how a win is counted."""
    if not results.of_models:
        sentences = ["The rows are the outputs of a user-defined functional.", *unit_sentences(results)]
        return [" ".join([*sentences, as_sentence(results.reason)])]
    compared = "the models that it is compared with"
    opponents = f"the other {len(results.models) - 1} models" if results.graph.complete else compared
    ties = tie_weight(results.description.tie_weights)
    tie = f"; a tie counts {ties}" if results.description.tie_weights else ""
    meaning = [score_definition(results), *unit_sentences(results), as_sentence(results.reason)]
    return [
        " ".join(sentence for sentence in meaning if sentence),
        *dependence_sentences(results),
        f"The win share is the share of comparisons won against {opponents}{win_shares_without_adjustment(results)}"
        f"{tie}.",
    ]


def _promises(board: Board) -> list[str]:
    """Say what the columns of intervals, rank sets and groups promise, and what they do not."""
    results, level = board.results, board.level
    if not results.has_intervals:
        order = (
            " The models are in the order of their scores; no test supports this order." if results.of_models else ""
        )
        return [f"These are estimates without intervals: {results.why_no_intervals}.{order}"]
    n_rows = len(results.names)
    kind = "true scores" if results.of_models else "true values"
    doubted = bool(results.diagnostics.doubts)
    looks = "" if results.sequence is None else f", {results.sequence.clause}"
    condition = "If the assumptions below hold, then with"
    sentences = [
        *(["The warnings at the top say why intervals, tests and ranks may not hold for these data."] * doubted),
        f"{condition} {level.confidence} confidence all {n_rows} intervals contain the {kind} at the same time{looks} "
        f"({interval_method(results)}{level.bootstrap_words}, critical value {level.critical:.2f}).",
        *sequential_note(results),
    ]
    if level.separation is not None:
        n_pairs = n_rows * (n_rows - 1) // 2
        sign = "number" if any(group[:1].isdigit() for group in level.letters) else "letter"
        sentences += [
            f"With {level.confidence} confidence all rank sets contain the true ranks. Two models are separated where "
            f"the tests show that one of them ranks above the other: this holds for "
            f"{level.separation.n_separated:,} of {n_pairs:,} pairs. Models without a common {sign} in the column "
            f"“Group” are separated. Models that share a {sign} may still differ. A dash stands for all {sign}s from "
            f"the first to the last.",
            "Intervals of single scores may overlap although the difference between two models is significant: compare "
            "two models by their difference, not by their intervals.",
        ]
    if board.tests is not None and np.isfinite(board.tests.critical):
        method = "single-step max-t" if results.sequence is None else "Bonferroni's method"
        sentences.append(
            f"Differences of two models are tested all at once ({method}{level.bootstrap_words}, critical value "
            f"{board.tests.critical:.2f}): intervals and adjusted p-values hold for all pairs together, so that any "
            f"pair may be chosen after looking. Rank sets and groups use the step-down form of the same tests, which "
            f"separates the same pairs or a few more."
        )
    return [
        *sentences,
        *untested_note(results),
        *([as_sentence(results.covariance.note)] * bool(results.covariance.note)),
    ]


def _method(results: Estimates) -> list[str]:
    """Say how the scores were estimated."""
    description = results.description
    if not results.estimated_by.has_first_stages:
        model = "the Bradley-Terry model"
        if results.estimated_by.uses_features:
            model = "a Bradley-Terry model in which scores are linear in the prompt's features, averaged over prompts"
        return [
            f"The scores maximise the likelihood of {model}. Their standard errors are sandwich estimates, which do "
            f"not assume that the model is right."
        ]
    source = _PROPENSITIES.get(description.propensity, description.propensity)
    learnt = (
        f"Preference probabilities were estimated with cross-fitting (learner: {description.learner}; "
        f"{description.n_folds} folds, {counted(description.n_rep, 'repetition')}): the votes on a prompt are never "
        f"predicted by a model that has seen them. Propensities, the probabilities that a pair is voted on, are "
        f"{source}."
    )
    if not results.estimated_by.is_debiased:
        return [learnt, "The scores are computed from the learnt probabilities without a correction of their bias."]
    corrected = (
        "Each score is first computed from these probabilities and then corrected with the votes, each weighted by one "
        "over its propensity. The correction removes the first-order effect of errors in the learnt probabilities, so "
        "that intervals can be valid although machine learning was used."
    )
    bradley_terry = (
        "The estimator assumes that a Bradley-Terry model holds in every prompt."
        if results.estimated_by.assumes_bradley_terry
        else "No Bradley-Terry model is assumed."
    )
    return [learnt, f"{corrected} {bradley_terry}"]


def _assumptions(results: Estimates) -> list[str]:
    """Return one paragraph per assumption; none for estimates that claim nothing."""
    if not results.has_intervals:
        return []
    description, d = results.description, results.diagnostics
    sentences = [_sampling(results)]
    if not results.estimated_by.has_first_stages:
        sentences.append(
            "Differences between models are linear in the prompt's features. If they are not, the scores depend on how "
            "often each pair was voted on, and on which prompts."
            if results.estimated_by.uses_features
            else "Differences between models are the same in all prompts. If they are not, the scores depend on how "
            "often each pair was voted on."
        )
        return sentences
    terms = description.formula.split("~", 1)[-1].split("|")[0].strip()
    choice = (
        "Which pairs are shown and voted on does not depend on the prompt in a way that also matters for the outcome: "
        "the formula has no features of the prompts"
        if terms in NO_FEATURES
        else f"Given the features of the prompt in the formula ({terms}), which pairs are shown and voted on does not "
        f"depend on how the votes would turn out"
    )
    sentences += [
        f"{choice}.",
        f"Every compared pair had a chance to be voted on for every kind of prompt. The smallest propensity of a vote "
        f"is {d.min_propensity:.3g}.",
        "The learnt probabilities are close enough to the truth: the error that remains after the correction is a "
        "product of the errors of the preference probabilities and of the propensities.",
    ]
    if np.isfinite(d.effective_contexts):
        sentences.append(
            f"Errors of the scores are normally distributed, which needs many prompts: every standard error rests on "
            f"the equivalent of at least {d.effective_contexts:,.0f} prompts."
        )
    return sentences


def _sampling(results: Estimates) -> str:
    """Say which population the prompts or votes are a sample of, and which of them are independent."""
    description = results.description
    unit = "prompts" if description.context else "votes"
    if description.clusters:
        names = " and of ".join(f"“{name}”" for name in description.clusters)
        independent = f"Votes of different clusters of {names} are independent; within a cluster they may depend"
    else:
        independent = f"Different {unit} are independent" + (
            "; votes on the same prompt may depend on each other" if description.context else ""
        )
    if description.prompts == "fixed":
        return f"The statements are about these prompts only. {independent}."
    weighted = ", weighted as the data say" if description.weighted else ""
    return (
        f"The {unit} are a sample of the population of {unit} to which the statements apply{weighted}. {independent}."
    )


def _data_sentences(results: Estimates) -> list[str]:
    """Say what was read, dropped and left out."""
    d = results.description
    dropped = f" {counted(d.n_dropped, 'row')} with missing values {'was' if d.n_dropped == 1 else 'were'} dropped."
    counts = f"{counted(d.n_votes, 'vote')} on {counted(d.n_contexts, 'prompt' if d.context else 'row')}"
    unlabelled = f"; {counted(d.n_unlabelled, 'prompt')} without a vote" if d.n_unlabelled else ""
    return [
        f"{counts}{unlabelled}.{dropped if d.n_dropped else ''}",
        *left_out_note(results),
        *outcome_note(results),
        *judge_note(results),
    ]


def _diagnostics(board: Board) -> list[str]:
    """Return the figures on the first stages, the seed and the version of the fit."""
    results = board.results
    stages = results.estimated_by.has_first_stages
    return [
        *(first_stage_sentences(results) if stages else likelihood_sentences(results)),
        f"Seed {results.description.seed}, dmlrank {results.description.version}.",
    ]
