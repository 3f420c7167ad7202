"""Sensitivity and fragility of a result: refusal of fits without bounds, default hypotheses, and units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import scipy

from .._utils.argument_checks import real_number
from .._utils.computation import one_thread, warn
from ..data.derived_pairs import DerivedPairs
from ..data.hypotheses import HypothesisLike, LinearHypothesis, read_hypothesis
from ..data.preferences import FloatArray, IntArray
from ..estimation.influence import Influence
from ..estimation.omitted_variables import robustness_value
from ..exceptions import HypothesisError, IntervalWarning, OptionError, OptionTypeError, check_choice, shown
from ..fit.estimates import Estimates
from ..fit.fit_covariance import make_covariance
from ..fit.state import FitState
from ..inference.simultaneous import Family, MaxT, Simultaneous
from ..report.statements import functional_unit
from ..sensitivity.benchmark import benchmark_frame, scales_of_bias
from ..sensitivity.fragility import (
    Answer,
    Question,
    RefitFrames,
    Units,
    answer,
    answer_of_nearest,
    contrast_error,
    units_of,
)
from ..sensitivity.vote_bounds import (
    BoundEvaluation,
    Bounds,
    SensitivityNumbers,
    distances,
    extend_to_tipping_points,
    tipping_gammas,
)
from .requirements import require_intervals
from .sensitivity_results import FragilityResults, ScoreBounds, SensitivityResults

# A contrast is fixed by the functional where its standard error is below this share of the largest standard error of a
# score, times the largest absolute coefficient of the contrast.
_FIXED = 1e-9


def analyse_sensitivity(
    estimates: Estimates, steps: FitState, simultaneous: Simultaneous, hypothesis: HypothesisLike | None, gamma: object
) -> SensitivityResults:
    """Return bounds, tipping points and robustness values, see :meth:`RankResults.sensitivity`."""
    gammas = read_gammas(gamma)
    require_debiased_fit(estimates, steps)
    contrasts, value, critical = _contrasts(estimates, simultaneous, hypothesis)
    scale, alpha = estimates.scale, estimates.alpha
    evaluation = BoundEvaluation.of(steps, contrasts.matrix, critical)
    if not evaluation.battles.n_unvoted:
        warn(
            "the data have no shown battles without a vote (rows with two models and a missing winner): sensitivity "
            "counts every pair without a vote as one on which people refrained from voting, so that the bounds are "
            "wide; keep the battles without a vote in the data",
            stacklevel=3,
            kind=IntervalWarning,
        )
    bounds = extend_to_tipping_points(
        evaluation.at(sorted({1.0, *gammas}), alpha), value, lambda further: evaluation.at(further, alpha)
    )
    estimate, std_error = (bounds.lower[0] + bounds.upper[0]) / 2, bounds.lower_error[0]
    scales = scales_of_bias(steps, contrasts.matrix)
    spread, of_every_cell = (np.mean([getattr(one, b) for one in scales], axis=0) for b in ("aggregate", "every_cell"))
    shift = scale.shift * contrasts.matrix.sum(axis=1)
    shown = replace(
        bounds,
        lower=scale.factor * bounds.lower + shift,
        upper=scale.factor * bounds.upper + shift,
        lower_error=scale.factor * bounds.lower_error,
        upper_error=scale.factor * bounds.upper_error,
    )
    numbers = SensitivityNumbers(
        result_frame=_frame(shown, contrasts.labels, gammas),
        tipping=_tipping_frame(bounds, contrasts.labels, value, spread, of_every_cell),
        names=tuple(estimates.names),
        hypothesis=contrasts,
        estimate=scale.factor * estimate + shift,
        std_error=scale.factor * std_error,
        critical=float(bounds.critical[0]),
        spread=scale.factor * spread,
        curve=shown,
        gammas=gammas,
        alpha=alpha,
        functional=functional_unit(estimates),
        is_natural=scale.natural,
        n_shown=len(evaluation.battles),
        n_unvoted=evaluation.battles.n_unvoted,
        is_sharp=evaluation.is_sharp,
        is_linear=steps.setup.functional.linear,
        is_chosen_by_data=hypothesis is None,
    )
    return SensitivityResults(numbers, partial(benchmark_frame, steps, numbers, scale.factor))


def score_bounds(
    estimates: Estimates,
    steps: FitState,
    simultaneous: Simultaneous,
    hypothesis: HypothesisLike | None,
    gamma: object,
    score_range: object,
) -> ScoreBounds:
    """Return bounds of contrasts of means for any missing scores, see :meth:`RankResults.sensitivity`."""
    if gamma is not None:
        raise OptionError("gamma= is about votes, and these are means of scores, whose bounds are by score_range=")
    assert steps.data.scores is not None
    scores = steps.data.scores.mean
    is_missing = np.isnan(scores)
    if not is_missing.any():
        raise OptionError(
            "sensitivity() of means of scores bounds what missing scores could change, and this fit has none; fit the "
            "table with its gaps (missing='model')"
        )
    known = scores[~is_missing]
    low, high = (float(known.min()), float(known.max())) if score_range is None else _checked_range(score_range, known)
    contrasts, _, critical = _contrasts(estimates, simultaneous, hypothesis)
    matrix, filled = contrasts.matrix, np.where(is_missing, 0.0, scores)
    ends = np.stack([matrix * low, matrix * high])
    values = [filled @ matrix.T + is_missing @ extreme.T for extreme in (ends.min(axis=0), ends.max(axis=0))]
    n = len(scores)
    weight = np.ones(n) if steps.units.context_weight is None else steps.units.context_weight
    influence = Influence(np.hstack(values), np.zeros((n, 2 * len(matrix))), np.arange(n), np.ones(n), weight)
    covariance = make_covariance(influence, np.empty((0, 2 * len(matrix))), steps.units, fixed_prompts=False)
    # Every prompt counts here, so that the degrees of freedom are those of all prompts.
    critical = critical or covariance.from_normal(float(scipy.stats.norm.isf(estimates.alpha / 2)))
    scale, shift = estimates.scale.factor, estimates.scale.shift * matrix.sum(axis=1)
    (lower, upper), (of_lower, of_upper) = (
        part.reshape(2, -1) * scale for part in (influence.estimate, covariance.std_errors)
    )
    frame = pd.DataFrame(
        {
            "hypothesis": list(contrasts.labels),
            "lower": lower + shift,
            "upper": upper + shift,
            "conf_lower": lower + shift - critical * of_lower,
            "conf_upper": upper + shift + critical * of_upper,
        }
    )
    return ScoreBounds(frame, (low, high), int(is_missing.sum()))


def _checked_range(score_range: object, known: FloatArray) -> tuple[float, float]:
    """Return the smallest and the largest possible score; raise where a score lies outside."""
    ends = list(score_range) if isinstance(score_range, (tuple, list)) else []
    numbers = [real_number(end) for end in ends]
    if len(numbers) != 2 or None in numbers or not numbers[0] < numbers[1]:  # type: ignore[operator]
        raise OptionError(f"score_range={shown(score_range)} is not allowed: it is (smallest, largest), such as (0, 1)")
    low, high = float(numbers[0]), float(numbers[1])  # type: ignore[arg-type]
    if known.min() < low or known.max() > high:
        raise OptionError(
            f"score_range={shown(score_range)}: the scores lie between {known.min():g} and {known.max():g}; give a "
            f"range that contains them"
        )
    return low, high


def _tipping_frame(
    bounds: Bounds, labels: Sequence[str], value: FloatArray, spread: FloatArray, of_every_cell: FloatArray
) -> pd.DataFrame:
    """Return tipping points and robustness values, a row per contrast.

    Shapes: value (J,), spread (J,), of_every_cell (J,).
    """
    of_bounds, of_limits = distances(bounds, value)
    # At gamma = 1 both bounds are the estimate.
    distance, beyond_interval = np.abs(of_bounds[0]), np.maximum(of_limits[0], 0.0)
    return pd.DataFrame(
        {
            "hypothesis": list(labels),
            "gamma_estimate": tipping_gammas(bounds.gamma, of_bounds),
            "gamma_interval": tipping_gammas(bounds.gamma, of_limits),
            "rv": robustness_value(distance, spread),
            "rv_alpha": robustness_value(beyond_interval, spread),
            "rv_every_cell": robustness_value(distance, of_every_cell),
            "rv_alpha_every_cell": robustness_value(beyond_interval, of_every_cell),
        }
    )


def read_gammas(gamma: object) -> tuple[float, ...]:
    """Return the values of gamma, sorted, each once."""
    numbers = set()
    for value in np.atleast_1d(np.asarray(gamma, dtype=object)).ravel():
        number = real_number(value)
        if number is None:
            raise OptionTypeError(f"gamma holds {shown(value)}; allowed: numbers of at least 1, such as (1, 1.5, 2)")
        if not (np.isfinite(number) and number >= 1):
            raise OptionError(
                f"gamma holds {shown(value)}; allowed: finite numbers of at least 1, because gamma bounds an odds "
                f"ratio from above and 1/gamma bounds it from below"
            )
        numbers.add(number)
    if not numbers:
        raise OptionError("gamma is empty; give at least one number, such as gamma=1.5")
    return tuple(sorted(numbers))


def require_debiased_fit(estimates: Estimates, steps: FitState) -> None:
    """Raise for fits that have no bounds."""
    options, estimator = steps.options, f"estimator={estimates.estimator!r}"
    if isinstance(steps.source.data, DerivedPairs):
        raise OptionError(
            "sensitivity() with comparisons made from scores or rankings: nobody voted on single battles, so that "
            "voting cannot depend on the label; fit a frame of battles"
        )
    refusals = (
        (
            not estimates.estimated_by.is_unrestricted_one_step,
            (estimator, "the bounds are those of the debiased estimator", "estimator='debiased'"),
        ),
        (
            options.judge is not None,
            ("judge=", "the bounds have no formula for verdicts, which exist without votes", "judge=None"),
        ),
        (
            options.adjust is not None,
            ("adjust=", "the bounds have no formula for an adjustment for style", "adjust=None"),
        ),
        (
            options.average != "scores",
            (
                f"average={options.average!r}",
                "the bounds are those of the mean scores of the prompts",
                "average='scores'",
            ),
        ),
        (steps.sample is not None, ("subsample=", "the bounds need the preferences in all prompts", "subsample=None")),
    )
    for is_refused, (option, why, change) in refusals:
        if is_refused:
            raise OptionError(f"sensitivity() with {option}: {why}; use update({change}).sensitivity()")
    require_intervals(estimates, "sensitivity")


def _contrasts(
    estimates: Estimates, simultaneous: Simultaneous, hypothesis: HypothesisLike | None
) -> tuple[LinearHypothesis, FloatArray, float]:
    """Return the contrasts, their values in the functional's own unit, and the critical value of a larger family."""
    if hypothesis is not None:
        return *read_free_contrasts(estimates, hypothesis), 0.0
    ranking, one_each = _ranking(estimates, "sensitivity"), np.eye(len(estimates.names))
    neighbours = read_free_contrasts(estimates, one_each[ranking[:-1]] - one_each[ranking[1:]])
    return *neighbours, _critical_of_pairs(estimates, simultaneous)


def _ranking(estimates: Estimates, method: str) -> IntArray:
    """Return the places of the models, the best first, from which a method takes its default hypotheses."""
    if not estimates.of_models:
        raise OptionError(
            f"{method}() of a functional whose outputs are not scores of models needs a hypothesis about these "
            f"outputs, such as {estimates.names[0]!r}"
        )
    return np.argsort(-estimates.estimate, kind="stable")


def _critical_of_pairs(estimates: Estimates, simultaneous: Simultaneous) -> float:
    """Return the critical value of the differences of all pairs; sensitivity and fragility are not of all looks."""
    assert isinstance(simultaneous, MaxT)
    return simultaneous.critical_of_pairs(estimates.alpha)


def read_free_contrasts(estimates: Estimates, hypothesis: HypothesisLike) -> tuple[LinearHypothesis, FloatArray]:
    """Return contrasts with their values in the functional's own unit; raise where the functional fixes one."""
    contrasts, scale = read_hypothesis(hypothesis, estimates.names), estimates.scale
    matrix = contrasts.matrix
    error = np.sqrt(np.square(matrix @ estimates.covariance.factor).sum(axis=1))
    largest = max(estimates.covariance.std_errors.max(), 1e-300)
    is_fixed = error <= _FIXED * largest * np.abs(matrix).max(axis=1)
    if is_fixed.any():
        label = contrasts.labels[int(np.flatnonzero(is_fixed)[0])]
        raise HypothesisError(
            f"{label} has the same value whatever the data are ({estimates.reason}); give a contrast that can vary, "
            f"such as the difference of two models"
        )
    return contrasts, (contrasts.value - scale.shift * matrix.sum(axis=1)) / scale.factor


def _frame(bounds: Bounds, labels: Sequence[str], gammas: Sequence[float]) -> pd.DataFrame:
    """Return a row per hypothesis and gamma that the user asked for."""
    rows = np.flatnonzero(np.isin(bounds.gamma, gammas))
    columns = {"hypothesis": np.repeat(np.array(labels, dtype=object), len(rows))}
    columns["gamma"] = np.tile(bounds.gamma[rows], len(labels))
    for name in ("lower", "upper", "conf_lower", "conf_upper"):
        columns[name] = getattr(bounds, name)[rows].T.ravel()
    return pd.DataFrame(columns)


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
        answers = [answer_of_nearest(steps, frames, units, _first_place(estimates, simultaneous, target))]
    else:
        contrasts, value = read_free_contrasts(estimates, hypothesis)
        critical = 0.0
        if target == "significance":
            critical = Family.of_contrasts(estimates.covariance, contrasts.matrix).critical(estimates.alpha)
        rows = zip(contrasts.labels, contrasts.matrix, value.tolist(), strict=True)
        answers = [answer(steps, frames, units, Question(*row, critical)) for row in rows]
    return _results(answers, estimates, steps, units, target=target)


def _first_place(estimates: Estimates, simultaneous: Simultaneous, target: str) -> list[Question]:
    """Return the questions whether the first model stays before each of the others."""
    ranking, one_each = _ranking(estimates, "fragility"), np.eye(len(estimates.names))
    rivals = read_hypothesis(one_each[ranking[0]] - one_each[ranking[1:]], estimates.names)
    critical = _critical_of_pairs(estimates, simultaneous) if target == "significance" else 0.0
    return [Question(*rival, 0.0, critical) for rival in zip(rivals.labels, rivals.matrix, strict=True)]


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
