"""Post-estimation: win probabilities of pairs, the restriction test and scores in new contexts, without a new fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._utils.computation import computing
from ..data.preferences import FloatArray, IntArray
from ..estimation.bt_restricted import RestrictedResampling, require_pair_propensities, resampling_under_restriction
from ..estimation.cross_fitting import clip_and_renormalise
from ..estimation.influence import Estimands, Influence, InfluenceFunction
from ..estimation.one_step import one_step
from ..functionals.linear_scores import PairWinProbability
from ..inference.covariance import Covariance
from ..inference.wald import DifferenceTest, wald_test_of_difference
from .bt_mle import win_probability_influence
from .fit_covariance import covariance_of
from .repetition import restricted_score
from .state import FitSteps

# The restriction test has the seed [seed of the fit, this number], so that its draws differ from those of the fit.
_NULL_SEED = 20


def pair_win_probability(steps: FitSteps, item: int, opponent: int) -> tuple[float, Covariance]:
    """Estimate the win probability of ``item`` against ``opponent``, with the estimator of the fit."""
    if steps.likelihood:
        win_probability, uniform_variance = win_probability_influence(steps, item, opponent)
        variance = covariance_of(steps, win_probability, np.empty((0, 1)), uniform_covariance=uniform_variance)
        return float(win_probability.estimate[0]), variance
    score = PairWinProbability(steps.setup.weights, item, opponent)
    with computing(steps.options.n_jobs):
        influences = [
            one_step(Estimands(score), steps.data, r.nuisances, steps.blocks, steps.population(r)).target
            for r in steps.repetitions
        ]
    influence = steps.estimator.average(influences)
    estimates = steps.estimator.estimates(influences)
    uniform_covariance = steps.uniform_covariance(score, pooled=False)
    return float(influence.estimate[0]), covariance_of(
        steps, influence, np.empty((0, 1)), estimates, uniform_covariance=uniform_covariance
    )


def restricted_against_projection(steps: FitSteps) -> DifferenceTest:
    """Test the restricted Bradley-Terry scores against the unrestricted projection, both of the same fit.

    The covariance is of the fit's type (``cov_type``). If contexts are independent, the p-value compares the statistic
    with its distribution in samples of labels from the restricted model.
    """
    projection, restricted = steps.influence_of("projection").by_context(), steps.influence.by_context()
    projection = replace(projection, variance_correction=None)
    gap = _difference(projection, restricted)
    gauge = steps.setup.functional.gauge(steps.data.n_items).basis
    gaps = [_difference(r.one_step_result.influence("projection"), r.one_step_result.target) for r in steps.repetitions]
    return wald_test_of_difference(
        restricted.estimate,
        projection.estimate,
        covariance=covariance_of(steps, projection, gauge),
        difference=covariance_of(steps, gap, gauge, steps.estimator.estimates(gaps)),
        null=restriction_null(steps) if steps.clusters is None else None,
        rng=np.random.default_rng(np.random.SeedSequence([steps.options.seed, _NULL_SEED])),
        # The covariance that uniform pairs add to the projection; they add no more than this to the difference.
        uniform_covariance=steps.uniform_covariance(steps.setup.functional),
    )


def _difference(projection: InfluenceFunction, restricted: InfluenceFunction) -> Influence:
    """Return the influence of the projection minus that of the restricted estimate."""
    projection, restricted = projection.by_context(), restricted.by_context()
    return replace(
        restricted,
        value=projection.value - restricted.value,
        correction=projection.correction - restricted.correction,
    )


def restriction_null(steps: FitSteps) -> RestrictedResampling:
    """Return the distribution of the difference of the two estimates under the restriction.

    Labels are drawn from the restricted model. Their probabilities, and the change that each label makes to the
    difference, are averaged over repetitions.
    """
    resamplings = []
    for r in steps.repetitions:
        score = restricted_score(steps.setup, require_pair_propensities(r.propensity), steps.data.ordered)
        resamplings.append(resampling_under_restriction(score, steps.data, r.nuisances, steps.context_weight))
    return replace(
        resamplings[0],
        share=np.mean([resampling.share for resampling in resamplings], axis=0),
        difference_change=np.mean([resampling.difference_change for resampling in resamplings], axis=0),
    )


def scores_of_contexts(steps: FitSteps) -> tuple[IntArray, FloatArray]:
    """Return F(mu(x)) in the contexts of a fit that averages preferences, from out-of-fold probabilities.

    Shapes: returns (s,), returns (n, d).
    """
    repetitions = steps.repetitions if steps.sample is None else steps.repetitions[:1]
    estimands = Estimands(steps.setup.functional)
    with computing(steps.options.n_jobs):
        values = [
            one_step(estimands, steps.data, r.nuisances, steps.blocks, steps.population(r)).target.by_context().value
            for r in repetitions
        ]
    contexts = np.arange(steps.data.n_contexts) if steps.sample is None else steps.sample
    return contexts, np.asarray(np.mean(values, axis=0))


def scores_at(steps: FitSteps, x: FloatArray) -> FloatArray:
    """Return the scores in new contexts, (n, K), from the mean probabilities of all learners.

    Shapes: x (n, p).
    """
    if steps.likelihood:
        return steps.likelihood.scores_at(x)
    with computing(steps.options.n_jobs):
        mu = np.mean([repetition.mu.average(x) for repetition in steps.repetitions], axis=0)
    functional = steps.setup.functional
    return functional.value(clip_and_renormalise(mu, steps.first.floor) if functional.interior else mu)
