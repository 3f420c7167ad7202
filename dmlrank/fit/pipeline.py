"""The steps of a fit in order, each redone only when something that it depends on has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._utils.warning_collection import warn
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters
from ..estimation.cross_fitting import HeldOutLabels, MuSource
from ..estimation.diagnostics import Validity, measure_validity, remaining_bias, warn_about_intervals
from ..estimation.influence import InfluenceFunction
from ..estimation.uniform_pairs import UniformPairs
from ..exceptions import IntervalWarning, listed
from ..functionals import Custom, Dominance, SoftMin
from ..functionals.base import is_linear, output_names
from ..inference.covariance import Covariance, find_constant_combination
from ..nuisance.boosting.tuning import check_tune
from ..nuisance.outcome_model.user_learners import check_learner
from ..nuisance.propensity_model.mean_weight import check_mean_weights
from ..nuisance.propensity_model.supplied import check_propensity
from ..options import Options
from .bt_mle import maximum_likelihood
from .cache import Cache
from .estimand import Setup
from .estimates import score_limits
from .estimators import estimator_named
from .fit_covariance import make_covariance
from .inputs import Reading, columns_of_later_steps, prepare_inputs, read_source
from .label_errors import one_step_uniform_pairs, warn_of_uniform_pairs
from .repetition import make_repetition
from .state import FitSteps, Source

_NAMED = 5


def run(options: Options, source: Source, previous: FitSteps | None = None) -> FitSteps:
    """Carry out a fit, reusing the steps of a previous one whose sources have not changed.

    Parameters
    ----------
    options : Options
        Checked.
    source : Source
    previous : FitSteps, optional
        What an earlier fit has made.
    """
    o, cache = options, Cache(previous.cache if previous else None)
    check_tune(o.tune)
    check_propensity(o.propensity)
    check_learner(o.learner, o.tune, o.propensity)
    read = cache.call(read_source, source, Reading.of(o), columns_along=columns_of_later_steps(o))
    if not estimator_named(o.estimator).has_first_stages:
        return maximum_likelihood(read, o, source, cache)
    return _with_first_stages(read, o, source, cache)


def _with_first_stages(read: PreferenceData, o: Options, source: Source, cache: Cache) -> FitSteps:
    """The steps of a fit with cross-fitted first stages."""
    estimator = estimator_named(o.estimator)
    inputs = prepare_inputs(cache, read, source, o)
    repetitions = tuple(make_repetition(cache, number, inputs, source, o) for number in range(o.n_rep))
    data, setup = inputs.data, inputs.setup
    targets = tuple(repetition.one_step_result.target for repetition in repetitions)
    shares = [repetition.one_step_result.influence("win_share") for repetition in repetitions]
    influence = cache.call(average_influence, targets, o.estimator)
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
    hidden = cache.call(hidden_scores_covariance, setup, uniform, floor=repetitions[0].floor, estimator=o.estimator)
    covariance = cache.call(
        scores_covariance,
        setup,
        influence,
        targets,
        estimator=o.estimator,
        clusters=inputs.clusters,
        annotator=inputs.annotator,
        prompts=o.prompts,
        n_items=data.n_items,
        hidden=hidden,
    )
    cache.call(warn_of_scores_outside, setup, influence, data.items)
    cache.call(warn_of_uniform_pairs, data, setup, uniform, hidden=hidden, covariance=covariance)
    cache.call(check_rank, setup, covariance, data.items)
    first = repetitions[0]
    unit = inputs.clusters.prompt if inputs.clusters else data.seed_order
    propensity_factor = cache.call(check_mean_weights, data, first.propensity, unit)
    bias = cache.call(second_order_bias, data, setup, first.mu, first.floor)
    validity = cache.call(
        assess_validity,
        data,
        setup,
        influence,
        covariance=covariance,
        bias=bias,
        labels=first.one_step_result.labels,
        estimator=o.estimator,
        extrapolated=inputs.extrapolation.n_pairs > 0,
    )
    return FitSteps(
        options=o,
        source=source,
        data=data,
        dropped=inputs.dropped,
        setup=setup,
        clusters=inputs.clusters,
        context_weight=inputs.context_weight,
        blocks=inputs.blocks,
        annotator=inputs.annotator,
        influence=influence,
        win_share=estimator.average(shares).estimate,
        covariance=covariance,
        cache=cache.made,
        repetitions=repetitions,
        validity=validity,
        order=inputs.order,
        propensity_factor=propensity_factor,
        verdicts=inputs.verdicts,
        extrapolation=inputs.extrapolation,
        uniform=uniform,
    )


def average_influence(influences: Sequence[InfluenceFunction], estimator: str) -> InfluenceFunction:
    """The influence values of the repetitions' mean, as the estimator sees them."""
    return estimator_named(estimator).average(influences)


def hidden_scores_covariance(
    setup: Setup, uniform: UniformPairs | None, *, floor: float, estimator: str
) -> FloatArray | None:
    """What labels without variation hide of the covariance of the scores, (d, d); None for nothing.

    Of the restricted Bradley-Terry estimate they hide no more than of the projection, which weighs labels less well.
    """
    if uniform is None or not estimator_named(estimator).is_debiased:
        return None
    return uniform.covariance(setup.functional, floor)


def scores_covariance(
    setup: Setup,
    influence: InfluenceFunction,
    repeated: Sequence[InfluenceFunction],
    *,
    estimator: str,
    clusters: Clusters | None,
    annotator: IntArray | None,
    prompts: str,
    n_items: int,
    hidden: FloatArray | None,
) -> Covariance:
    """The covariance of the scores.

    Parameters
    ----------
    setup : Setup
    influence : InfluenceFunction
        Averaged over repetitions.
    repeated : sequence of InfluenceFunction
        Of each repetition.
    estimator, clusters, annotator, prompts, n_items
        See :func:`dmlrank.fit.fit_covariance.make_covariance`.
    hidden : ndarray, shape (d, d), or None
        What labels without variation hide.
    """
    return make_covariance(
        influence,
        setup.functional.gauge(n_items).basis,
        clusters,
        annotator=annotator,
        fixed_prompts=prompts == "fixed",
        estimates=estimator_named(estimator).estimates(repeated) if len(repeated) > 1 else None,
        hidden=hidden,
    )


def second_order_bias(data: PreferenceData, setup: Setup, mu: MuSource, floor: float) -> FloatArray:
    """What the functional's curvature leaves of the bias, (d,), from how far the folds' models are apart."""
    n_scores = len(output_names(setup.functional, data.items))
    return remaining_bias(
        setup.functional, mu, np.argsort(data.seed_order), n_scores=n_scores, floor=floor, n_items=data.n_items
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
    extrapolated: bool,
) -> Validity:
    """Signs that the intervals may not hold, with a warning where there are intervals."""
    validity, chosen = measure_validity(influence, bias, labels), estimator_named(estimator)
    if chosen.assumes_bradley_terry:
        # The curvature is that of the projection; a Newton step along the model has another remainder.
        validity = replace(validity, second_order=np.full_like(validity.second_order, np.nan))
    if chosen.valid_intervals and not extrapolated:
        names = output_names(setup.functional, data.items)
        warn_about_intervals(
            validity,
            covariance.std_errors,
            names,
            data.n_contexts,
            not is_linear(setup.functional),
            remedies=_remedies(setup, data),
        )
    return validity


def warn_of_scores_outside(setup: Setup, influence: InfluenceFunction, items: tuple[str, ...]) -> None:
    """Warn where the correction moved a share out of its limits, as it may with a few labels."""
    low, high = score_limits(setup.functional.name)
    outside = np.flatnonzero((influence.estimate < low) | (influence.estimate > high))
    if len(outside):
        shown = listed((f"{items[j]} {influence.estimate[j]:.3g}" for j in outside), _NAMED)
        warn(
            f"estimated shares outside of {low:g} to {high:g}: {shown}; they are set to the limit and their standard "
            f"errors hold the distance. So few labels, or such small propensities, decide little: more labels are "
            f"needed",
            stacklevel=2,
            kind=IntervalWarning,
        )


def _remedies(setup: Setup, data: PreferenceData) -> list[str]:
    """Options that make a functional depend less on pairs with few labels, beside those that are set already."""
    remedies = []
    if setup.functional.name == "bt" and setup.edge_weights == "equal":
        remedies.append("edge_weights='counts' lets pairs with few labels count less")
    if data.ordered and setup.weights.mirrored:
        remedies.append("position_bias=False makes one pair of both orders, if order does not matter")
    return remedies


def check_rank(setup: Setup, covariance: Covariance, items: tuple[str, ...]) -> None:
    """Warn where a covariance has a smaller rank than a functional of the user's own lets expect."""
    if not isinstance(setup.functional, Custom | Dominance | SoftMin):
        return
    constant = find_constant_combination(covariance)
    if constant is not None:
        names = output_names(setup.functional, items)
        shown = " ".join(f"{c:+.3g}*{n}" for c, n in zip(constant, names, strict=True) if abs(c) > 1e-6)
        hint = "; if that is so whatever the data are, say it with Custom(fixed=...)"
        warn(
            f"the covariance is numerically singular: {shown} does not vary in these data, so that joint tests and "
            f"regions that involve it are not to be trusted"
            f"{hint if isinstance(setup.functional, Custom) else ' (few pairs and no features, for example)'}",
            stacklevel=2,
            kind=IntervalWarning,
        )
