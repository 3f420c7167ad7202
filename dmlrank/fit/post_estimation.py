"""Post-estimation from the first stages of a fit: pairs, the restriction test, new contexts, groups and projections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._utils.computation import collected_warnings, computing
from ..data.preferences import FloatArray, IntArray
from ..estimation.bt_mle import BradleyTerryFit
from ..estimation.bt_restricted import RestrictedResampling, resampling_under_restriction
from ..estimation.cross_fitting import clip_and_renormalise, mu_by_fold
from ..estimation.equal_style import EqualStyleTerms
from ..estimation.influence import (
    Influence,
    InfluenceFunction,
    InfluenceInGroups,
    ProjectedInfluence,
    influence_in_groups,
    project_influence,
)
from ..estimation.mean_preferences import mean_preference_influence, mean_preferences
from ..estimation.one_step import one_step
from ..functionals import Functional
from ..functionals.linear_scores import PairScores
from ..inference.covariance import Covariance
from ..inference.wald import DifferenceTest, wald_test_of_difference
from .adjusted_for_style import side_by_side
from .direct_fits import win_probability_influence
from .estimand import mean_targets
from .estimators import MEANS
from .fit_covariance import covariance_of
from .stages import restricted_score
from .state import FitState, Repetition

# The restriction test has the seed [seed of the fit, this number], so that its draws differ from those of the fit.
_NULL_SEED = 20


def pair_win_probability(steps: FitState, item: int, opponent: int) -> tuple[float, Covariance]:
    """Estimate the win probability of ``item`` against ``opponent``, with the estimator of the fit."""
    if steps.likelihood:
        win_probability, unanimous_variance = win_probability_influence(steps, item, opponent)
        variance = covariance_of(steps, win_probability, np.empty((0, 1)), unanimous_covariance=unanimous_variance)
        return float(win_probability.estimate[0]), variance
    estimate, covariance = _estimate(steps, PairScores.win_probability(steps.setup.weights, item, opponent), 1)
    return float(estimate[0]), covariance


def _estimate(steps: FitState, score: Functional, size: int) -> tuple[FloatArray, Covariance]:
    """Estimate ``size`` numbers by the estimator of the fit, with their covariance; each is the functional of one pair.

    Shapes: returns (size,).
    """
    influences = _one_step_targets(steps, score, steps.repetitions)
    influence, estimates = steps.estimator.average(influences), steps.estimator.estimates(influences)
    added, gauge = steps.unanimous_covariance(score, pooled=False), np.empty((0, size))
    return influence.estimate, covariance_of(steps, influence, gauge, estimates, unanimous_covariance=added)


def _one_step_targets(steps: FitState, score: Functional, repetitions: Sequence[Repetition]) -> list[InfluenceFunction]:
    """Return the one-step estimates of a functional from the first stages of repetitions."""
    data, blocks = steps.data, steps.units.blocks
    with computing(steps.options.n_jobs):
        return [one_step({"target": score}, data, r.nuisances, blocks, steps.population(r)).target for r in repetitions]


def restricted_against_projection(steps: FitState) -> DifferenceTest:
    """Test the restricted Bradley-Terry scores against the unrestricted projection, both of the same fit.

    The covariance is of the fit's type (``cov_type``). If contexts are independent, the p-value compares the statistic
    with its distribution in samples of labels from the restricted model.
    """
    projection, restricted = steps.influence_of("projection").by_context(), steps.influence.by_context()
    projection = replace(projection, variance_correction=None)
    gap = _difference(projection, restricted)
    gauge = steps.setup.functional.gauge(steps.data.n_items).basis
    gaps = [
        _difference(r.one_step_result.influences["projection"], r.one_step_result.target) for r in steps.repetitions
    ]
    return wald_test_of_difference(
        restricted.estimate,
        projection.estimate,
        covariance=covariance_of(steps, projection, gauge),
        difference=covariance_of(steps, gap, gauge, steps.estimator.estimates(gaps)),
        null=restriction_null(steps).statistics if steps.units.clusters is None else None,
        rng=np.random.default_rng(np.random.SeedSequence([steps.options.seed, _NULL_SEED])),
        # The covariance that unanimous pairs add to the projection; they add no more than this to the difference.
        unanimous_covariance=steps.unanimous_covariance(steps.setup.functional),
    )


def _difference(projection: InfluenceFunction, restricted: InfluenceFunction) -> Influence:
    """Return the influence of the projection minus that of the restricted estimate."""
    projection, restricted = projection.by_context(), restricted.by_context()
    return replace(
        restricted,
        value=projection.value - restricted.value,
        correction=projection.correction - restricted.correction,
    )


def restriction_null(steps: FitState) -> RestrictedResampling:
    """Return the distribution of the difference of the two estimates under the restriction.

    Labels are drawn from the restricted model. Their probabilities, and the change that each label makes to the
    difference, are averaged over repetitions.
    """
    resamplings = []
    for r in steps.repetitions:
        score = restricted_score(steps.setup, r.propensity, steps.data.ordered)
        resamplings.append(resampling_under_restriction(score, steps.data, r.nuisances, steps.units.context_weight))
    return replace(
        resamplings[0],
        share=np.mean([resampling.share for resampling in resamplings], axis=0),
        difference_change=np.mean([resampling.difference_change for resampling in resamplings], axis=0),
    )


def scores_of_contexts(steps: FitState) -> tuple[IntArray, FloatArray]:
    """Return F(mu(x)) in the contexts of a fit that averages preferences, from out-of-fold probabilities.

    Shapes: returns (s,), returns (n, d).
    """
    repetitions = steps.repetitions if steps.sample is None else steps.repetitions[:1]
    targets = _one_step_targets(steps, steps.setup.functional, repetitions)
    values = [target.by_context().value for target in targets]
    contexts = np.arange(steps.data.n_contexts) if steps.sample is None else steps.sample
    return contexts, np.asarray(np.mean(values, axis=0))


def scores_at(steps: FitState, x: FloatArray) -> FloatArray:
    """Return the scores in new contexts, (n, K), from the mean probabilities of all learners.

    Shapes: x (n, p).
    """
    if steps.likelihood:
        return steps.likelihood.scores_at(x)
    with computing(steps.options.n_jobs):
        mu = np.mean([repetition.mu.average(x) for repetition in steps.repetitions], axis=0)
    functional = steps.setup.functional
    return functional.value(clip_and_renormalise(mu, steps.first.floor) if functional.interior else mu)


# Largest number of influence values (contexts times pairs) that are stored at a time: 240 MB.
MAX_VALUES = 30_000_000
# Largest number of pairs whose joint covariance is computed.
MAX_JOINT = 1_500


class Margins(NamedTuple):
    """Margins of P pairs of models.

    estimate, std_error (P,): Margins and their standard errors.
    covariance: Joint covariance; None where the pairs or the contexts are too many.
    """

    estimate: FloatArray
    std_error: FloatArray
    covariance: Covariance | None


def pair_margins(steps: FitState, item: IntArray, opponent: IntArray, *, max_values: int = MAX_VALUES) -> Margins:
    """Estimate the margins of pairs of models with the estimator and the type of covariance of the fit.

    Shapes: item, opponent (P,).
    """
    # Without features the influence values are those of groups of identical contexts, which need little memory.
    is_grouped = (
        mu_by_fold(steps.first.mu) is not None and steps.verdicts is None and steps.units.blocks.one_per_context
    )
    size = MAX_JOINT if is_grouped else min(MAX_JOINT, max(1, max_values // steps.data.n_contexts))
    parts = [slice(start, start + size) for start in range(0, len(item), size)]
    with collected_warnings():
        # The fit has already warned of few clusters.
        weights = steps.setup.weights
        margins = [PairScores.margins(weights, item[part], opponent[part]) for part in parts]
        estimates = [_estimate(steps, score, len(item[part])) for score, part in zip(margins, parts, strict=True)]
    return Margins(
        np.concatenate([estimate for estimate, _ in estimates]),
        np.concatenate([covariance.std_errors for _, covariance in estimates]),
        estimates[0][1] if len(estimates) == 1 else None,
    )


class GroupScores(NamedTuple):
    """The scores of G groups in one repetition.

    influence: The scores with their influence values.
    plugin (G, d): Plug-in scores, without bias correction.
    style: With ``adjust=EqualStyle(...)``, the raw scores, scores averaged over style, scores at equal style, and
        slopes; otherwise None.
    """

    influence: InfluenceInGroups
    plugin: FloatArray
    style: InfluenceInGroups | None = None


def scores_in_groups(steps: FitState, members: NDArray[np.bool_]) -> list[GroupScores]:
    """Return the scores of groups of contexts in each repetition; no first stage is fitted again.

    With ``average="scores"`` a group's scores are means of its contexts' scores. With ``average="preferences"`` they
    are the functional at the mean preferences of the group, F(E[mu(X) | G]).

    Shapes: members (G, n).
    """
    data, blocks, by_repetition = steps.data, steps.units.blocks, list[GroupScores]()
    if steps.estimator is MEANS:
        influence = influence_in_groups(steps.influence.by_context(), members)
        return [GroupScores(influence, np.stack([part.plugin for part in influence.parts]))]
    for r in steps.repetitions:
        target, plugin, style = r.one_step_result.target.by_context(), None, None
        if r.style_terms is not None:
            influence, style = _at_equal_style(r.style_terms, target, members)
        elif r.mean is None:
            influence = influence_in_groups(target, members)
        else:
            nuisances, population = r.nuisances, steps.population(r)
            means = mean_preferences(data, nuisances, blocks, population, members=members)
            targets = mean_targets(means, data, steps.setup, steps.options)
            scores = [one.score for one in targets]
            influence = mean_preference_influence(scores, data, nuisances, blocks, population, members=members)
            plugin = np.stack([one.plugin for one in targets])
        if plugin is None:
            plugin = np.stack([part.plugin for part in influence.parts])
        by_repetition.append(GroupScores(influence, plugin, style))
    return by_repetition


def _at_equal_style(
    terms: EqualStyleTerms, raw: Influence, members: NDArray[np.bool_]
) -> tuple[InfluenceInGroups, InfluenceInGroups]:
    """Return scores at equal style in groups, with the slopes of each group, alone and beside all other scores."""
    equal, every = list[InfluenceInGroups](), list[InfluenceInGroups]()
    for inside in members:
        influence = terms.influence([inside.astype(float)])
        parts = (influence.equal, side_by_side((raw, influence.averaged, influence.equal, influence.slopes)))
        for groups, part in zip((equal, every), parts, strict=True):
            groups.append(influence_in_groups(part, inside[None]))

    def joined(groups: list[InfluenceInGroups]) -> InfluenceInGroups:
        contexts, blocks = tuple(one.contexts[0] for one in groups), tuple(one.blocks[0] for one in groups)
        n_contexts, n_blocks = groups[0].n_contexts, groups[0].n_blocks
        return InfluenceInGroups(lambda group: groups[group].part(0), contexts, blocks, n_contexts, n_blocks)

    return joined(equal), joined(every)


def likelihood_scores_in_groups(steps: FitState, members: NDArray[np.bool_]) -> GroupScores:
    """Return the scores of groups of contexts, the means of r(x) over the contexts of each group.

    Shapes: members (G, n).
    """
    influence, n = steps.influence.by_context(), steps.data.n_contexts
    derivative = _likelihood(steps).mean_derivative(rows_of_groups(steps, members))
    corrections = _corrections(steps, derivative).reshape(len(influence.block_context), len(members), -1)

    # The values r(x) are averaged over the contexts of the group, and the corrections over all contexts. An
    # ``Influence`` with ``sample_weight`` computes these two averages.
    def part_of(group: int) -> Influence:
        inside = members[group]
        return replace(influence, correction=corrections[:, group], sample_weight=inside * (n / inside.sum()))

    contexts, blocks = np.arange(n), np.arange(len(influence.block_context))
    in_groups = InfluenceInGroups(
        part_of, (contexts,) * len(members), (blocks,) * len(members), n, len(influence.block_context)
    )
    return GroupScores(in_groups, np.stack([part.plugin for part in in_groups.parts]))


def project_likelihood(
    steps: FitState, influence: Influence, design: FloatArray, *, fixed_prompts: bool, factor: float
) -> ProjectedInfluence:
    """Regress the scores r(x) on functions v of the context: beta = E[v v']^-1 E[v r(X)'].

    Shapes: design (n, P).
    """
    of_prompts = project_influence(influence.without_correction(), design, fixed_prompts, with_blocks=False)
    derivative = _likelihood(steps).mean_derivative(rows_of_design(steps, design))
    correction = factor * _corrections(steps, derivative)
    centred = of_prompts.centred.copy()
    np.add.at(centred, steps.units.blocks.context, correction)
    return replace(of_prompts, centred=centred, centred_correction=correction, block_context=steps.units.blocks.context)


def rows_of_groups(steps: FitState, members: NDArray[np.bool_]) -> FloatArray:
    """Return the mean in each group, (G, p + 1), of the constant and the scaled features."""
    z = _likelihood(steps).z(steps.data.x)
    return np.asarray(members @ z / members.sum(axis=1, keepdims=True), dtype=np.float64)


def rows_of_design(steps: FitState, design: FloatArray) -> FloatArray:
    """Return the coefficients of the constant and the scaled features on functions of the context, (P, p + 1)."""
    z = _likelihood(steps).z(steps.data.x)
    return np.asarray(np.linalg.solve(design.T @ design, design.T @ z), dtype=np.float64)


def likelihood_unanimous_covariance_of_rows(steps: FitState, rows: FloatArray) -> FloatArray | None:
    """Return the covariance of scores, (P K, P K), that is added for pairs whose labels all agree (unanimous pairs).

    Without such pairs the function returns None. The scores are those at several values of z, one in each row.

    Shapes: rows (P, p + 1).
    """
    if steps.unanimous is None:
        return None
    fitted = _likelihood(steps)
    return steps.unanimous.covariance_along(
        partial(fitted.changes, fitted.mean_derivative(rows), steps.setup.weights.first)
    )


def _likelihood(steps: FitState) -> BradleyTerryFit:
    """Return the model of a fit by maximum likelihood."""
    assert steps.likelihood is not None
    return steps.likelihood


def _corrections(steps: FitState, derivative: FloatArray) -> FloatArray:
    """Return the influence values of targets that come from the labels, (q, d)."""
    return _likelihood(steps).corrections(
        derivative, steps.data, steps.setup.weights.first, edges=steps.setup.graph.edges, blocks=steps.units.blocks
    )
