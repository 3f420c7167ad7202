"""The steps of a fit in order; an update runs a step again only where an argument of the step has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._utils.warning_collection import warn
from ..data.derived_pairs import DERIVED_KINDS
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters
from ..estimation.cross_fitting import HeldOutLabels, MuSource
from ..estimation.diagnostics import (
    RemainingBias,
    Validity,
    measure_validity,
    remaining_bias,
    warn_about_intervals,
)
from ..estimation.influence import InfluenceFunction
from ..estimation.unanimous_pairs import UnanimousPairs
from ..exceptions import IntervalWarning, listed
from ..inference.covariance import Covariance, find_constant_combination
from ..nuisance.boosting.tuning import check_tune
from ..nuisance.outcome_model.user_learners import check_learner
from ..nuisance.propensity_model.supplied import check_mean_weights, check_propensity
from ..options import Options
from .average import warn_of_large_bias, warn_of_means_outside
from .bt_mle import run_maximum_likelihood
from .cache import Cache
from .estimand import Setup
from .estimators import estimator_named
from .fit_covariance import make_covariance
from .inputs import Inputs, ReadingOptions, columns_of_later_steps, prepare_inputs, read_source
from .label_errors import one_step_uniform_pairs, warn_of_uniform_pairs
from .position_test import warn_of_uneven_orders
from .repetition import make_repetition
from .state import FitSteps, Repetition, Source
from .style_estimates import StyleFit
from .style_steps import joint_style_fit

# Names that a warning lists at most.
_MOST_NAMED = 5
# The calibration of mu does not matter where the factor with which its error enters the estimate has a variance of at
# most this size.
_SMALL_WEIGHT_OF_MU = 0.05


class ScoreEstimate(NamedTuple):
    """The scores of a fit, averaged over its repetitions, with their covariance.

    uniform: Compared pairs whose labels all agree; None where there are no such pairs.
    style: Joint estimates before and after the adjustment to equal style; None without it.
    """

    influence: InfluenceFunction
    covariance: Covariance
    uniform: UnanimousPairs | None
    style: StyleFit | None = None


def run(options: Options, source: Source, previous: FitSteps | None = None) -> FitSteps:
    """Carry out a fit; results of a previous fit are used for the steps whose arguments have not changed."""
    return run_with_cache(options, source, Cache(previous.cache if previous else None), previous)


def run_with_cache(options: Options, source: Source, cache: Cache, previous: FitSteps | None = None) -> FitSteps:
    """Carry out a fit whose steps are called through a cache."""
    check_tune(options.tune)
    check_propensity(options.propensity)
    check_learner(options.learner, options.tune, estimates_propensity=options.estimates_propensity)
    columns = columns_of_later_steps(options)
    data_as_read = cache.call(read_source, source, ReadingOptions.of(options), extra_columns=columns)
    if estimator_named(options.estimator).has_first_stages:
        steps = _run_with_first_stages(data_as_read, options, source=source, cache=cache)
        return steps if previous is None else keep_extension(steps, previous)
    return run_maximum_likelihood(data_as_read, options, source=source, cache=cache)


def keep_extension(steps: FitSteps, previous: FitSteps) -> FitSteps:
    """Return the steps with the extension of an earlier fit, where their mu is the one of this fit."""
    is_same_mu = previous.repetitions and steps.first.mu_without_judge is previous.first.mu_without_judge
    return replace(steps, extension=previous.extension, is_later=previous.is_later) if is_same_mu else steps


def _run_with_first_stages(data_as_read: PreferenceData, options: Options, *, source: Source, cache: Cache) -> FitSteps:
    """Carry out the steps of a fit with cross-fitted first stages."""
    inputs = prepare_inputs(cache, data_as_read, source, options)
    repetitions = tuple(
        make_repetition(cache, number, inputs, source=source, options=options) for number in range(options.n_rep)
    )
    scores = _estimate_scores(cache, inputs, repetitions, options)
    bias = _second_order_bias(cache, inputs, scores, first=repetitions[0])
    validity = _examine_intervals(cache, inputs, scores, first=repetitions[0], bias=bias, options=options)
    # Without clusters, every context is a unit of its own: seed_order numbers the contexts.
    unit = inputs.clusters.of_context if inputs.clusters else inputs.data.seed_order
    propensity_factor = cache.call(check_mean_weights, inputs.data, repetitions[0].propensity, unit)
    mu = repetitions[0].one_step_result.cell_mu
    cache.call(warn_of_uneven_orders, inputs.data, inputs.setup, mu, unit=unit, remedy="position_bias=True")
    win_shares = [repetition.one_step_result.influence("win_share") for repetition in repetitions]
    return FitSteps(
        options=options,
        source=source,
        data=inputs.data,
        dropped=inputs.dropped,
        setup=inputs.setup,
        clusters=inputs.clusters,
        context_weight=inputs.context_weight,
        blocks=inputs.blocks,
        annotator=inputs.annotator,
        influence=scores.influence,
        win_share=estimator_named(options.estimator).average(win_shares).estimate,
        covariance=scores.covariance,
        cache=cache.results,
        repetitions=repetitions,
        validity=validity,
        bias=bias,
        order=inputs.order,
        propensity_factor=propensity_factor,
        verdicts=inputs.verdicts,
        extrapolation=inputs.extrapolation,
        uniform=scores.uniform,
        style=scores.style,
        balanced=inputs.balanced,
    )


def _estimate_scores(
    cache: Cache, inputs: Inputs, repetitions: tuple[Repetition, ...], options: Options
) -> ScoreEstimate:
    """Average the scores over repetitions and estimate their covariance."""
    data, setup = inputs.data, inputs.setup
    targets = tuple(repetition.target for repetition in repetitions)
    influence = cache.call(average_influence, targets, options.estimator)
    uniform = cache.call(
        one_step_uniform_pairs,
        data,
        setup,
        tuple(repetition.one_step_result for repetition in repetitions),
        tuple(repetition.propensity for repetition in repetitions),
        corrections=tuple(repetition.judge_correction for repetition in repetitions),
        clusters=inputs.clusters,
        context_weight=inputs.context_weight,
    )
    uniform_covariance = cache.call(
        scores_uniform_covariance, setup, uniform, floor=repetitions[0].floor, estimator=options.estimator
    )
    covariance = cache.call(
        scores_covariance,
        setup,
        influence,
        targets,
        estimator=options.estimator,
        clusters=inputs.clusters,
        annotator=inputs.annotator,
        prompts=options.prompts,
        n_items=data.n_items,
        uniform_covariance=uniform_covariance,
    )
    cache.call(warn_of_scores_outside, setup, influence, data.items)
    cache.call(
        warn_of_uniform_pairs, data, setup, uniform, uniform_covariance=uniform_covariance, covariance=covariance
    )
    cache.call(check_rank, setup, covariance, data.items)
    style = _fit_at_equal_style(cache, inputs, repetitions, uniform_covariance=uniform_covariance, options=options)
    return ScoreEstimate(influence, covariance, uniform, style)


def _fit_at_equal_style(
    cache: Cache,
    inputs: Inputs,
    repetitions: tuple[Repetition, ...],
    *,
    uniform_covariance: FloatArray | None,
    options: Options,
) -> StyleFit | None:
    """Return joint estimates before and after the adjustment to equal style; None without this adjustment.

    Shapes: uniform_covariance (d, d).
    """
    if inputs.style is None:
        return None
    return cache.call(
        joint_style_fit,
        inputs.style,
        tuple(r.style_terms for r in repetitions if r.style_terms is not None),
        tuple(r.one_step_result.target for r in repetitions),
        tuple(r.style_influence for r in repetitions if r.style_influence is not None),
        setup=inputs.setup,
        clusters=inputs.clusters,
        annotator=inputs.annotator,
        prompts=options.prompts,
        uniform_covariance=uniform_covariance,
    )


def _second_order_bias(cache: Cache, inputs: Inputs, scores: ScoreEstimate, *, first: Repetition) -> RemainingBias:
    """Return the second-order bias of the scores; NaN where it is part of the estimate, with its own warnings."""
    if first.mean is None:
        return cache.call(second_order_bias, inputs.data, inputs.setup, first.mu, floor=first.floor)
    cache.call(warn_of_means_outside, first.mean.floored)
    names = inputs.setup.functional.names(inputs.data.items)
    cache.call(warn_of_large_bias, first.mean, scores.covariance.std_errors, names)
    return RemainingBias(np.full_like(first.mean.bias, np.nan))


def _examine_intervals(
    cache: Cache, inputs: Inputs, scores: ScoreEstimate, *, first: Repetition, bias: RemainingBias, options: Options
) -> Validity:
    """Look for signs that the intervals may not hold, and warn of them."""
    return cache.call(
        assess_validity,
        inputs.data,
        inputs.setup,
        scores.influence,
        covariance=scores.covariance,
        bias=bias.total,
        labels=first.one_step_result.labels,
        estimator=options.estimator,
        is_extrapolated=inputs.extrapolation.n_pairs > 0,
        mu_hardly_matters=mu_hardly_matters(inputs.data, inputs.setup, first.propensity.cells),
        is_of_functional=inputs.style is None,
    )


def average_influence(influences: Sequence[InfluenceFunction], estimator: str) -> InfluenceFunction:
    """Average the influence of the scores over repetitions, as the estimator prescribes."""
    return estimator_named(estimator).average(influences)


def scores_uniform_covariance(
    setup: Setup, uniform: UnanimousPairs | None, *, floor: float, estimator: str
) -> FloatArray | None:
    """Return the covariance of the scores, (d, d), that is added for uniform pairs; None where nothing is added.

    All labels of a uniform pair agree, so that the influence values contain no variance of these labels. For
    ``bt_restricted`` the covariance is that of the unrestricted Bradley-Terry projection, which is not smaller: the
    restricted estimator weights the labels more efficiently.
    """
    if uniform is None or not estimator_named(estimator).is_debiased:
        return None
    return uniform.covariance(setup.functional, floor)


def scores_covariance(
    setup: Setup,
    influence: InfluenceFunction,
    by_repetition: Sequence[InfluenceFunction],
    *,
    estimator: str,
    clusters: Clusters | None,
    annotator: IntArray | None,
    prompts: str,
    n_items: int,
    uniform_covariance: FloatArray | None,
) -> Covariance:
    """Estimate the covariance of the scores.

    Shapes: annotator (q,), uniform_covariance (d, d).
    """
    return make_covariance(
        influence,
        setup.functional.gauge(n_items).basis,
        clusters,
        annotator=annotator,
        fixed_prompts=prompts == "fixed",
        estimates=estimator_named(estimator).estimates(by_repetition) if len(by_repetition) > 1 else None,
        uniform_covariance=uniform_covariance,
    )


def second_order_bias(
    data: PreferenceData, setup: Setup, mu: MuSource, *, floor: float, known: RemainingBias | None = None
) -> RemainingBias:
    """Estimate the bias that remains because the functional is not linear in mu.

    The estimate comes from the differences between the fitted mu of different folds.
    """
    return remaining_bias(
        setup.functional,
        mu,
        np.argsort(data.seed_order),
        n_scores=len(setup.functional.names(data.items)),
        floor=floor,
        n_items=data.n_items,
        known=known,
    )


def assess_validity(
    data: PreferenceData,
    setup: Setup,
    influence: InfluenceFunction,
    *,
    covariance: Covariance,
    bias: FloatArray,
    labels: HeldOutLabels,
    estimator: str,
    is_extrapolated: bool,
    mu_hardly_matters: bool,
    is_of_functional: bool = True,
) -> Validity:
    """Return the signs that the intervals may not hold, with a warning where there are intervals.

    Shapes: bias (d,).
    """
    validity, fit_estimator = measure_validity(influence, bias, labels), estimator_named(estimator)
    if fit_estimator.assumes_bradley_terry or not is_of_functional:
        # The bias was estimated for the unrestricted projection, and does not hold for the restricted estimate.
        validity = replace(validity, second_order=np.full_like(validity.second_order, np.nan))
    if fit_estimator.valid_intervals and not is_extrapolated:
        names = setup.functional.names(data.items)
        warn_about_intervals(
            validity,
            covariance.std_errors,
            names,
            data.n_contexts,
            not setup.functional.linear,
            remedies=_remedies(setup, data),
            pairs_are_derived=data.outcome_kind in DERIVED_KINDS,
            mu_hardly_matters=mu_hardly_matters,
        )
    return validity


def mu_hardly_matters(data: PreferenceData, setup: Setup, propensity: FloatArray) -> bool:
    """Return whether the estimate is nearly the same for every mu.

    The influence value of a linear functional is F(mu) + DF S / pi (Y - mu). If every compared pair is labelled in
    every context, S = pi = 1, and the influence value is F(Y), whatever mu is. Otherwise the error of mu enters with
    the factor 1 - S / pi, whose variance is (1 - pi) / pi. Tables of benchmark scores of which few are missing, or
    none, are of this kind.

    Shapes: propensity (m,).
    """
    n_cells = data.n_contexts * setup.graph.n_edges * (2 if data.ordered else 1)
    smallest = min(float(propensity.min(initial=1.0)), len(data.cells) / max(n_cells, 1))
    return setup.functional.linear and smallest >= 1 / (1 + _SMALL_WEIGHT_OF_MU)


def warn_of_scores_outside(setup: Setup, influence: InfluenceFunction, items: tuple[str, ...]) -> None:
    """Warn where the bias correction has moved a win share below 0 or above 1, which happens with few labels."""
    low, high = setup.functional.limits
    outside = np.flatnonzero((influence.estimate < low) | (influence.estimate > high))
    if len(outside):
        shares = listed((f"{items[j]} {influence.estimate[j]:.3g}" for j in outside), _MOST_NAMED)
        warn(
            f"estimated win shares lie outside of {low:g} to {high:g}: {shares}. The labels of these models "
            f"are too few, or their propensities too small, for a precise estimate. The shares are shown as {low:g} or "
            f"{high:g}, and the squared distance of the estimate from the value shown is added to its variance. "
            f"Collect more labels of these models",
            stacklevel=2,
            kind=IntervalWarning,
        )


def _remedies(setup: Setup, data: PreferenceData) -> list[str]:
    """Return advice: the options that are not set and make the scores depend less on pairs with few labels."""
    remedies = []
    if setup.functional.link == "logit" and setup.edge_weights == "equal":
        remedies.append("edge_weights='counts' gives pairs with few labels less weight")
    if data.ordered and setup.weights.mirrored:
        remedies.append("position_bias=False joins both display orders of a pair, if order does not matter")
    return remedies


def check_rank(setup: Setup, covariance: Covariance, items: tuple[str, ...]) -> None:
    """Warn where the covariance has a smaller rank than the functional's gauge implies.

    Borda, Bradley-Terry and rank centrality are not checked: their gauge is known from theory.
    """
    if setup.functional.gauge_is_known:
        return
    constant = find_constant_combination(covariance)
    if constant is not None:
        names = setup.functional.names(items)
        terms = " ".join(f"{c:+.3g}*{name}" for c, name in zip(constant, names, strict=True) if abs(c) > 1e-6)
        warn(
            f"the covariance is numerically singular: {terms} does not vary in these data, so that joint tests and "
            f"regions that involve this combination are not reliable; {setup.functional.singular_advice}",
            stacklevel=2,
            kind=IntervalWarning,
        )
