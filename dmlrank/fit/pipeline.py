"""The steps of a fit in order, each redone only when something that it depends on has changed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..data.preferences import FloatArray, PreferenceData
from ..estimation.bt_restricted import RestrictedResampling, noise_under_restriction, pairs_needed
from ..estimation.cross_fitting import MuSource
from ..estimation.diagnostics import Validity, assess, remaining_bias, warn_of
from ..estimation.grouped import GroupedInfluence
from ..estimation.influence import Influence, clip_and_renormalise
from ..estimation.one_step import evaluate
from ..exceptions import DmlrankWarning
from ..functionals import Custom, Dominance, SoftMin
from ..functionals.base import is_linear, output_names
from ..functionals.win_probability import PairShare
from ..inference.covariance import Covariance, unforeseen_constant
from ..inference.hausman import RestrictionTest, compare_restricted
from ..nuisance.boosting.tuning import check_tune
from ..nuisance.outcome_model.user_learners import check_learner
from ..nuisance.propensity_model.supplied import check_propensity
from ..options import Options
from .bt_mle import maximum_likelihood
from .estimand import Setup
from .inputs import gather, read_source, reading_options
from .repetition import repeat, restricted_score
from .state import Memory, Repetition, Source, Steps, averaged, make_covariance

# Where a fit that assumes Bradley-Terry keeps the projection among its scores.
_PROJECTION = 3
# Tells the draws of its test from those of the fit.
_NOISE = 20


def run(options: Options, source: Source, previous: Steps | None = None) -> Steps:
    """Carry out a fit, reusing the steps of a previous one whose sources have not changed.

    Parameters
    ----------
    options : Options
        Checked.
    source : Source
    previous : Steps, optional
        What an earlier fit has made.
    """
    o, memory = options, Memory(previous.memory if previous else None)
    check_tune(o.tune)
    check_propensity(o.propensity)
    check_learner(o.learner, o.tune, o.propensity)
    read = memory.step("read", (source, *reading_options(o)), lambda: read_source(source, o))
    if o.estimator == "bt_mle":
        return maximum_likelihood(read, options, source, memory)
    inputs = gather(memory, read, source, o)
    repetitions = tuple(repeat(memory, number, inputs, source, o) for number in range(o.n_rep))
    data, setup, clusters, annotator = inputs.data, inputs.setup, inputs.clusters, inputs.annotator
    passes = tuple(repetition.evaluated for repetition in repetitions)
    influence = memory.step(
        "influence",
        (*passes, o.estimator),
        lambda: averaged([passed.influences[0] for passed in passes], o.estimator),
    )
    gauge = setup.functional.gauge(data.n_items).basis
    covariance = memory.step(
        "covariance",
        (influence, clusters, o.prompts),
        lambda: make_covariance(influence, gauge, clusters, annotator, o, [passed.influences[0] for passed in passes]),
    )
    memory.step("rank", (setup, covariance), lambda: _check_rank(setup, covariance, data.items))
    first = repetitions[0]
    validity = _doubts(memory, data, setup, influence, covariance, first, o)
    return Steps(
        o,
        source,
        data,
        inputs.dropped,
        setup,
        clusters,
        inputs.weight,
        inputs.blocks,
        annotator,
        repetitions,
        influence,
        covariance,
        memory.made,
        validity=validity,
        verdicts=inputs.verdicts,
    )


def pair_share(steps: Steps, item: int, opponent: int) -> tuple[float, Covariance]:
    """Share of comparisons that ``item`` wins against ``opponent``, estimated as the scores are."""
    if steps.likelihood:
        share = steps.likelihood.share_influence(steps.influence.by_context(), item, opponent)
        return float(share.estimate[0]), covariance_of(steps, share, np.empty((0, 1)))
    score = PairShare(steps.setup.weights, item, opponent)
    influences = [
        evaluate(
            [score],
            r.mu,
            steps.data,
            r.propensity.cells,
            steps.blocks,
            0.0,
            steps.context_weight,
            steps.options.n_jobs,
            r.sample,
            r.judged,
        ).influences[0]
        for r in steps.repetitions
    ]
    influence = averaged(influences, steps.options.estimator)
    return float(influence.estimate[0]), covariance_of(steps, influence, np.empty((0, 1)), influences)


def covariance_of(
    steps: Steps,
    influence: Influence | GroupedInfluence,
    gauge: FloatArray,
    repeated: Sequence[Influence | GroupedInfluence] = (),
) -> Covariance:
    """Covariance of another score's estimate, of the kind that the fit has."""
    return make_covariance(influence, gauge, steps.clusters, steps.annotator, steps.options, repeated)


def restriction_test(steps: Steps) -> RestrictionTest:
    """The restricted estimate against the projection of the same fit, with the covariance that the fit has.

    Where contexts are independent the statistic is held against its distribution in samples of labels from the model.
    """
    free, restricted = steps.influence_of(_PROJECTION).by_context(), steps.influence.by_context()
    free = replace(free, variance_correction=None)
    gap = replace(restricted, value=free.value - restricted.value, correction=free.correction - restricted.correction)
    gauge = steps.setup.functional.gauge(steps.data.n_items).basis
    each = [repetition.evaluated.influences for repetition in steps.repetitions]
    gaps = [replace(i[0], value=i[-1].value - i[0].value, correction=i[-1].correction - i[0].correction) for i in each]
    return compare_restricted(
        restricted.estimate,
        free.estimate,
        covariance_of(steps, free, gauge),
        covariance_of(steps, gap, gauge, gaps),
        steps.data.items,
        _noise_under_restriction(steps) if steps.clusters is None else None,
        np.random.default_rng(np.random.SeedSequence([steps.options.seed, _NOISE])),
    )


def _noise_under_restriction(steps: Steps) -> RestrictedResampling:
    """The labels' part in the difference of the two estimates, a mean over repetitions."""
    made = []
    for r in steps.repetitions:
        score = restricted_score(steps.setup, pairs_needed(r.propensity), steps.data.ordered)
        weight = steps.context_weight
        made.append(noise_under_restriction(score, r.mu, steps.data, r.propensity.cells, r.floor, weight))
    share, moved = (np.mean([getattr(noise, name) for noise in made], axis=0) for name in ("share", "moved"))
    return replace(made[0], share=share, moved=moved)


def scores_at(steps: Steps, x: FloatArray) -> FloatArray:
    """Scores in new contexts, (n, K), from the mean of all learners' probabilities."""
    if steps.likelihood:
        return np.tile(steps.likelihood.scores, (len(x), 1))
    mu = np.mean([repetition.mu.average(x) for repetition in steps.repetitions], axis=0)
    functional = steps.setup.functional
    return functional.value(clip_and_renormalise(mu, steps.repetitions[0].floor) if functional.interior else mu)


def _doubts(
    memory: Memory,
    data: PreferenceData,
    setup: Setup,
    influence: Influence | GroupedInfluence,
    covariance: Covariance,
    first: Repetition,
    o: Options,
) -> Validity:
    """What could break the intervals."""
    bias = memory.step(
        "second order",
        (data, setup, first.mu, first.floor),
        lambda: _remaining_bias(data, setup, first.mu, first.floor),
    )
    return memory.step(
        "validity",
        (data, setup, influence, covariance, bias, first.evaluated, o.estimator),
        lambda: _validity(data, setup, influence, covariance, bias, first, o),
    )


def _remaining_bias(data: PreferenceData, setup: Setup, mu: MuSource, floor: float) -> FloatArray:
    n_scores = len(output_names(setup.functional, data.items))
    return remaining_bias(setup.functional, mu, np.argsort(data.seed_order), n_scores, floor, data.n_items)


def _validity(
    data: PreferenceData,
    setup: Setup,
    influence: Influence | GroupedInfluence,
    covariance: Covariance,
    bias: FloatArray,
    first: Repetition,
    o: Options,
) -> Validity:
    """Signs that the intervals may not hold; the plug-in's are known not to."""
    validity = assess(influence, bias, first.evaluated.labels)
    if o.estimator == "bt_restricted":
        # The curvature is that of the projection; a Newton step along the model has another remainder.
        validity = replace(validity, second_order=np.full_like(validity.second_order, np.nan))
    if o.estimator in ("debiased", "bt_restricted"):
        names = output_names(setup.functional, data.items)
        warn_of(validity, covariance.std_errors, names, data.n_contexts, not is_linear(setup.functional))
    return validity


def _check_rank(setup: Setup, covariance: Covariance, items: tuple[str, ...]) -> None:
    """Warn where a covariance has a smaller rank than a functional of the user's own lets expect."""
    if not isinstance(setup.functional, Custom | Dominance | SoftMin):
        return
    constant = unforeseen_constant(covariance)
    if constant is not None:
        names = output_names(setup.functional, items)
        shown = " ".join(f"{c:+.3g}*{n}" for c, n in zip(constant, names, strict=True) if abs(c) > 1e-6)
        hint = "; if that is so whatever the data are, say it with Custom(fixed=...)"
        warnings.warn(
            f"the covariance is numerically singular: {shown} does not vary in these data, so that joint tests and "
            f"regions that involve it are not to be trusted"
            f"{hint if isinstance(setup.functional, Custom) else ' (few pairs and no features, for example)'}",
            DmlrankWarning,
            stacklevel=2,
        )
