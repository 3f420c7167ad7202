"""Fragility analysis of a fit: which contrasts are examined, and their numbers in the unit of the scores."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .._utils.blas import one_thread
from ..data.hypotheses import HypothesisLike, read_hypothesis
from ..exceptions import OptionError, OptionTypeError, check_choice
from ..fit.estimates import Estimates
from ..fit.state import FitState
from ..inference.simultaneous import Family, Simultaneous
from ..sensitivity.fragility import (
    Answer,
    Question,
    RefitFrames,
    Units,
    answer,
    contrast_error,
    predicted_set,
    units_of,
)
from ..sensitivity.fragility_results import FragilityResults
from .ranking import compare_models
from .sensitivity_analysis import require_free_contrasts

TARGETS = ("sign", "significance")


@one_thread()
def analyse_fragility(
    estimates: Estimates,
    steps: FitState,
    simultaneous: Simultaneous,
    hypothesis: HypothesisLike | None,
    unit: str,
    target: str,
) -> FragilityResults:
    """Return how few units turn results, see :meth:`RankResults.fragility`."""
    check_choice(target, TARGETS, "target")
    if not isinstance(unit, str):
        raise OptionTypeError(
            f"unit is a {type(unit).__name__}; allowed: 'context', 'vote', 'cluster' or the name of a column"
        )
    if unit == "vote" and steps.options.average != "scores":
        raise OptionError(
            f"unit='vote' with average={steps.options.average!r}: the influence of single votes is known for "
            f"average='scores'; use unit='context'"
        )
    if unit == "vote" and steps.options.adjust is not None:
        raise OptionError(
            "unit='vote' with adjust=: the influence of single votes is known without an adjustment for style; use "
            "unit='context', or update(adjust=None)"
        )
    frames = RefitFrames.of(steps)
    units = units_of(steps, unit)
    if hypothesis is None:
        questions = [_first_place(estimates, steps, simultaneous, units, target)]
    else:
        questions = _questions(estimates, hypothesis, target)
    answers = [answer(steps, frames, units, question) for question in questions]
    return _results(answers, estimates, steps, units, target=target)


def _questions(estimates: Estimates, hypothesis: HypothesisLike, target: str) -> list[Question]:
    """Return a question for each contrast of a hypothesis: how few units turn its sign or significance."""
    contrasts, scale = read_hypothesis(hypothesis, estimates.names), estimates.scale
    require_free_contrasts(estimates, contrasts)
    critical = 0.0
    if target == "significance":
        critical = Family.of_contrasts(estimates.covariance, contrasts.matrix).critical(estimates.alpha)
    value = (contrasts.value - scale.shift * contrasts.matrix.sum(axis=1)) / scale.factor
    return [
        Question(label, row, float(number), critical)
        for label, row, number in zip(contrasts.labels, contrasts.matrix, value, strict=True)
    ]


def _first_place(
    estimates: Estimates, steps: FitState, simultaneous: Simultaneous, units: Units, target: str
) -> Question:
    """Return the question whether the first model stays first."""
    if not estimates.of_models:
        raise OptionError(
            f"fragility() of a functional whose outputs are not scores of models needs a hypothesis about these "
            f"outputs, such as {estimates.names[0]!r}"
        )
    ranking = np.argsort(-estimates.estimate, kind="stable")
    critical = 0.0
    if target == "significance":
        critical = compare_models(estimates, simultaneous, alpha=estimates.alpha).critical
    questions = []
    for rival in ranking[1:]:
        contrast = np.zeros(len(ranking))
        contrast[ranking[0]], contrast[rival] = 1.0, -1.0
        label = read_hypothesis(contrast, estimates.names).labels[0]
        questions.append(Question(label, contrast, 0.0, critical))
    sets = [predicted_set(steps, units, question) for question in questions]
    numbers = [np.inf if units_dropped is None else len(units_dropped) for units_dropped in sets]
    return questions[int(np.argmin(numbers))]


def _results(
    answers: list[Answer], estimates: Estimates, steps: FitState, units: Units, *, target: str
) -> FragilityResults:
    """Return the numbers in the unit of the scores."""
    scale, rows, identifiers, notes = estimates.scale, [], {}, []
    for one in answers:
        shift, number = scale.shift * one.question.contrast.sum(), one.dropped
        rows.append(
            {
                "hypothesis": one.question.label,
                "dropped": pd.NA if number is None else len(number),
                "share": np.nan if number is None else len(number) / len(units),
                "before": scale.factor * one.before + shift,
                "after": scale.factor * one.after + shift,
                "confirmed": one.confirmed,
            }
        )
        identifiers[one.question.label] = [] if number is None else units.identifiers[number].tolist()
        notes += _remarks(one, target)
    frame = pd.DataFrame(rows).astype({"dropped": "Int64"})
    errors = np.array([scale.factor * contrast_error(steps.covariance, one.question.contrast) for one in answers])
    return FragilityResults(frame, identifiers, units.name, target, len(units), errors, tuple(notes))


def _remarks(one: Answer, target: str) -> list[str]:
    """Return notes on a contrast whose result did not turn, or did not have to; none for other contrasts."""
    label = one.question.label
    if one.dropped is None:
        return [
            f"{label}: by the influence values, no set of at most half of the units turns the result if it is dropped."
        ]
    if not len(one.dropped):
        what = "the interval contains the hypothetical value" if target == "significance" else "the difference is 0"
        return [f"{label}: nothing has to be dropped, because {what} in the fit."]
    if one.failure:
        return [f"{label}: the refit failed, so that the result is not confirmed: {one.failure}."]
    if not one.confirmed:
        return [
            f"{label}: the result did not turn in {one.n_refits} refits. The table shows the last refit and "
            f"the units that it left out."
        ]
    return []
