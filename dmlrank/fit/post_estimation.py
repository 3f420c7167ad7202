"""Post-estimation from the first stages of a fit: pairs, restriction test, new contexts, groups, judges."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._utils.tasks_and_threads import computing_with
from ..data.outcomes import exchange_wins
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..estimation.bt_restricted import RestrictedResampling, resampling_under_restriction, restricted_score
from ..estimation.cross_fitting import CrossFittedMu, HeldOutLabels, clip_and_renormalise, select_floor
from ..estimation.influence import Influence, InfluenceFunction, OneStepInputs, OneStepResult, blocks_by_context
from ..estimation.joint_influence import JointInfluence, in_groups
from ..estimation.mean_preferences import mean_preference_influence, mean_preferences
from ..estimation.one_step import one_step
from ..estimation.unanimous_pairs import find_unanimous_pairs
from ..functionals import Functional
from ..functionals.linear_scores import WinShare
from ..inference.covariance import Covariance, clip_to_limits
from ..inference.wald import DifferenceTest, wald_test_of_difference
from .compared_pairs import mean_targets
from .fit_covariance import covariance_of, label_errors, shares_of
from .state import FitState, JudgeFigures, Units

if TYPE_CHECKING:
    from ..estimation.equal_style import EqualStyleTerms
    from ..nuisance.verdicts import Verdicts

# The restriction test has the seed [seed of the fit, this number], so that its draws differ from those of the fit.
_NULL_SEED = 20


def pair_win_probability(state: FitState, item: int, opponent: int) -> tuple[FloatArray, Covariance]:
    """Estimate the win probability of ``item`` against ``opponent``, (1,), with the estimator of the fit."""
    influence: InfluenceFunction
    estimates = None
    if state.likelihood:
        from .direct_fits import win_probability_influence

        influence, added = win_probability_influence(state, item, opponent)
    else:
        score = WinShare(state.setup.weights, item, opponent)
        influences = _one_step_targets(state, score)
        influence, estimates = state.estimator.average(influences), state.estimator.estimates(influences)
        added = state.unanimous_covariance(score, pooled=False)
    covariance = covariance_of(state, influence, np.empty((0, 1)), estimates, unanimous_covariance=added)
    share, covariance = clip_to_limits(influence.estimate, covariance, WinShare.limits)
    return share, replace(covariance, shares=shares_of(state, influence, covariance, WinShare.limits))


def _one_step_targets(state: FitState, score: Functional) -> list[InfluenceFunction]:
    """Return the one-step estimates of a functional from the first stages of each repetition."""
    with computing_with(state.options.n_jobs):
        return [one_step({"target": score}, r.inputs).target for r in state.repetitions]


def restricted_against_projection(state: FitState) -> tuple[FloatArray, FloatArray, DifferenceTest]:
    """Return restricted Bradley-Terry scores, their unrestricted projection in the same fit, and a test of both.

    The covariance is of the fit's type (``cov_type``). If contexts are independent, the p-value compares the statistic
    with its distribution in samples of labels from the restricted model.
    """
    projection, restricted = state.influence_of("projection").by_context(), state.influence.by_context()
    projection = replace(projection, variance_correction=None)
    gap = _difference(projection, restricted)
    gauge = state.setup.functional.gauge(state.data.n_items).basis
    gaps = [
        _difference(r.one_step_result.influences["projection"], r.one_step_result.target) for r in state.repetitions
    ]
    scores = restricted.estimate, projection.estimate
    test = wald_test_of_difference(
        *scores,
        covariance=covariance_of(state, projection, gauge),
        difference=covariance_of(state, gap, gauge, state.estimator.estimates(gaps)),
        null=restriction_null(state).statistics if state.units.clusters is None else None,
        rng=np.random.default_rng(np.random.SeedSequence([state.options.seed, _NULL_SEED])),
        # The covariance that unanimous pairs add to the projection; they add no more than this to the difference.
        unanimous_covariance=state.unanimous_covariance(state.setup.functional),
    )
    return *scores, test


def _difference(projection: InfluenceFunction, restricted: InfluenceFunction) -> Influence:
    """Return the influence of the projection minus that of the restricted estimate."""
    projection, restricted = projection.by_context(), restricted.by_context()
    return replace(
        restricted, value=projection.value - restricted.value, correction=projection.correction - restricted.correction
    )


def restriction_null(state: FitState) -> RestrictedResampling:
    """Return the distribution of the difference of the two estimates under the restriction.

    Labels are drawn from the restricted model. Their probabilities, and the change that each label makes to the
    difference, are averaged over repetitions.
    """
    resamplings = []
    for r in state.repetitions:
        score = restricted_score(state.setup.functional, r.propensity, state.data.ordered)
        resamplings.append(resampling_under_restriction(score, r.inputs))
    return replace(
        resamplings[0],
        share=np.mean([resampling.share for resampling in resamplings], axis=0),
        difference_change=np.mean([resampling.difference_change for resampling in resamplings], axis=0),
    )


def scores_of_contexts(state: FitState) -> FloatArray:
    """Return F(mu(x)) of the contexts, (n, d), from out-of-fold probabilities, in a fit to mean preferences."""
    targets = _one_step_targets(state, state.setup.functional)
    return np.asarray(np.mean([target.by_context().value for target in targets], axis=0))


def scores_at(state: FitState, x: FloatArray) -> FloatArray:
    """Return the scores in new contexts ``x``, (n, p), from the mean probabilities of all learners, (n, K)."""
    if state.likelihood:
        return state.likelihood.scores_at(x)
    with computing_with(state.options.n_jobs):
        mu = np.mean([repetition.inputs.mu.average(x) for repetition in state.repetitions], axis=0)
    functional = state.setup.functional
    return functional.value(clip_and_renormalise(mu, state.first.inputs.floor) if functional.interior else mu)


class GroupScores(NamedTuple):
    """The scores of G groups in one repetition.

    style: With ``adjust=EqualStyle(...)``, the raw scores, scores averaged over style, scores at equal style, and
        slopes; otherwise None.
    """

    influence: JointInfluence
    plugin: FloatArray
    style: JointInfluence | None = None


def scores_in_groups(state: FitState, members: NDArray[np.bool_]) -> list[GroupScores]:
    """Return the scores of groups of contexts in each repetition where they are no means of scores of contexts.

    With ``average="preferences"`` they are the functional at the mean preferences of the group, F(E[mu(X) | G]); at
    equal style, each group has slopes of its own. No first stage is fitted again.

    Shapes: members (G, n).
    """
    by_repetition = list[GroupScores]()
    for r in state.repetitions:
        if r.style_terms is not None:
            influence, style = _at_equal_style(r.style_terms, r.one_step_result.target.by_context(), members)
            by_repetition.append(GroupScores(influence, influence.plugin.reshape(len(members), -1), style))
        elif r.mean is not None:
            inputs = r.inputs
            targets = mean_targets(mean_preferences(inputs, members), state.data, state.setup, state.options)
            influence = mean_preference_influence([one.score for one in targets], inputs, members)
            by_repetition.append(GroupScores(influence, np.stack([one.plugin for one in targets])))
    return by_repetition


def _at_equal_style(
    terms: EqualStyleTerms, raw: Influence, members: NDArray[np.bool_]
) -> tuple[JointInfluence, JointInfluence]:
    """Return scores at equal style in groups, with the slopes of each group, alone and beside all other scores."""
    from .adjusted_for_style import stacked_estimates

    equal, every = list[JointInfluence](), list[JointInfluence]()
    for inside in members:
        influence = terms.influence(inside.astype(float))
        parts = (influence.equal, stacked_estimates((raw, influence.averaged, influence.equal, influence.slopes)))
        for groups, part in zip((equal, every), parts, strict=True):
            groups.append(in_groups(part, inside[None]))

    def joined(groups: list[JointInfluence]) -> JointInfluence:
        sizes, contexts, blocks = (
            tuple(getattr(one, name)[0] for one in groups) for name in ("sizes", "contexts", "blocks")
        )
        n_contexts, n_blocks = groups[0].n_contexts, groups[0].n_blocks
        return JointInfluence(lambda group: groups[group].part(0), sizes, contexts, blocks, n_contexts, n_blocks)

    return joined(equal), joined(every)


# Shares that differ by less than this are equal.
_TOLERANCE = 1e-9


def judge_figures(state: FitState, verdicts: Verdicts) -> JudgeFigures:
    """Return the figures of a fit's judges."""
    data, cells, label = state.data, state.data.cells, verdicts.label
    votes = _three_categories(exchange_wins(cells.y, cells.flipped)) * cells.n_votes[:, None]
    agreements, position, human_position = [], [], []
    for shares in verdicts.shares:
        agreements.append(winner_agreement(*_winners(verdicts, data, shares)))
        is_known = ~np.isnan(shares).any(axis=1)
        position.append(shares[is_known].sum(axis=0) / is_known.sum() if is_known.any() else np.full(3, np.nan))
        both = (label >= 0) & is_known[np.maximum(label, 0)]
        human_position.append(votes[both].sum(axis=0) / cells.n_votes[both].sum() if both.any() else np.full(3, np.nan))
    first, is_judged = state.first, label >= 0
    judged_cells, correction = cells.only(is_judged), first.inputs.judge
    without_judge, with_judge = first.mu_without_judge.at(judged_cells), first.inputs.mu.at(judged_cells)
    with_verdict = with_judge if correction is None else correction.m[label[is_judged]]
    predictions = (without_judge, with_judge, with_verdict)
    influence, covariance = estimate_without_judge(state)
    return JudgeFigures(
        names=verdicts.names,
        how=state.options.learning.judge_as,
        n_verdicts=len(verdicts.cells),
        n_unlabelled=int((~verdicts.labelled).sum()),
        compared=np.array([count for count, *_ in agreements]),
        agreement=np.array([share for _, share, _ in agreements]),
        kappa=np.array([kappa for *_, kappa in agreements]),
        position=np.array(position),
        human_position=np.array(human_position),
        both_orders=verdicts.both_orders,
        log_loss=np.array([HeldOutLabels(mu, judged_cells).log_loss for mu in predictions]),
        n_votes=data.n_votes,
        alone=influence.estimate,
        alone_errors=covariance.std_errors,
        errors=state.covariance.std_errors,
        worth=equivalent_votes(influence, covariance, state.covariance, n_votes=data.n_votes),
    )


def _one_step_of_fit(state: FitState, inputs: OneStepInputs) -> OneStepResult:
    """Estimate the scores by one step, with the average of the fit."""
    score: Functional = state.setup.functional
    if state.first.mean is not None:
        score = mean_targets(mean_preferences(inputs), inputs.data, state.setup, state.options)[0].score
    return one_step({"target": score}, inputs)


def estimate_without_judge(state: FitState) -> tuple[Influence, Covariance]:
    """Estimate the scores of the same fit without its judge, with the same folds, propensities and labels."""
    functional, targets = state.setup.functional, []
    for r in state.repetitions:
        floor, mu = r.inputs.floor, r.mu_without_judge
        if mu is not r.inputs.mu and functional.interior and isinstance(state.options.learning.floor, str):
            floor = select_floor(HeldOutLabels.of(mu, state.data))
        without_judge = replace(r.inputs, mu=mu, floor=floor, judge=None)
        targets.append(_one_step_of_fit(state, without_judge).target)
    influence, estimates = state.estimator.average(targets).by_context(), state.estimator.estimates(targets)
    gauge, unanimous_covariance = functional.gauge(state.data.n_items).basis, state.unanimous_covariance(functional)
    return influence, covariance_of(state, influence, gauge, estimates, unanimous_covariance=unanimous_covariance)


def estimate_from_verdicts(state: FitState) -> tuple[Influence, Covariance]:
    """Estimate the scores as the fit does, with the verdicts of a judge in place of the votes."""
    from ..nuisance.outcome_model.cross_fit import fit_all

    assert state.verdicts is not None
    data, options, functional = state.verdicts.as_votes(state.data), state.options, state.setup.functional
    blocks, weight, repetitions = blocks_by_context(data), state.units.weights(data), []
    clusters = None if state.units.clusters is None else replace(state.units.clusters, of_vote=None)
    without_annotators = replace(state, units=Units(blocks, clusters, None, state.units.context_weight))
    for number, r in enumerate(state.repetitions):
        assert r.judge_propensity is not None, "a fit with a judge has propensities of its verdicts"
        seeds = np.random.SeedSequence([options.seed, number, 1]).spawn(r.folds.n_folds)
        mu = CrossFittedMu(
            fit_all(data, r.folds, seeds, tune=options.learning.tune, learner=options.learner), r.folds, data.x
        )
        floor = select_floor(HeldOutLabels.of(mu, data)) if functional.interior else 0.0
        inputs = OneStepInputs(data, blocks, weight, mu, r.judge_propensity, floor)
        repetitions.append(replace(r, inputs=inputs, one_step_result=_one_step_of_fit(state, inputs)))
    targets = [r.one_step_result.target for r in repetitions]
    influence, estimates = state.estimator.average(targets).by_context(), state.estimator.estimates(targets)
    errors = label_errors(data, repetitions, without_annotators.units, state.setup.functional.apart)
    unanimous = find_unanimous_pairs(errors, data, state.setup.weights, state.setup.graph.edges)
    added = None if unanimous is None else unanimous.covariance(functional, repetitions[0].inputs.floor)
    gauge = functional.gauge(data.n_items).basis
    return influence, covariance_of(without_annotators, influence, gauge, estimates, unanimous_covariance=added)


def equivalent_votes(
    influence: Influence, covariance_without_judge: Covariance, covariance: Covariance, *, n_votes: int
) -> float:
    """Return the number of further human votes that would replace the judge.

    Votes on the same prompts reduce the part of the variance that comes from the labels, and not V_F, the variance of
    F(mu) between prompts: with N votes instead of n_votes, the variance V of the estimate without judge becomes
    V(N) = V_F + (V - V_F) n_votes / N. The trace of a covariance stands for its variance.
    """
    deviation = influence.weight[:, None] * (influence.value - influence.plugin)
    prompt_variance = float(np.square(deviation).sum()) / len(deviation) ** 2
    label_variance = max(float(np.trace(covariance_without_judge.matrix)) - prompt_variance, 0.0)
    label_variance_with_judge = float(np.trace(covariance.matrix)) - prompt_variance
    if label_variance_with_judge <= 0:
        return float("inf")
    return float(n_votes * (label_variance / label_variance_with_judge - 1))


def _three_categories(votes: FloatArray) -> FloatArray:
    """Return votes by category, (r, C), as first wins, second wins and ties of all kinds, (r, 3)."""
    return np.stack([votes[:, 0], votes[:, 1], votes[:, 2:].sum(axis=1)], axis=1)


def _winners(verdicts: Verdicts, data: PreferenceData, shares: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the winner of each pair with votes and a verdict, (q,) each: 0 first, 1 second, 2 tie; shares (r, 3)."""
    cells = data.cells
    judged = np.flatnonzero(verdicts.label >= 0)
    tally = np.zeros((len(verdicts.cells), 3))
    np.add.at(tally, verdicts.label[judged], _three_categories(cells.y[judged] * cells.n_votes[judged, None]))
    shares = exchange_wins(shares, verdicts.cells.flipped)
    is_comparable = (tally.sum(axis=1) > 0) & ~np.isnan(shares).any(axis=1)
    return _plurality(tally[is_comparable]), _plurality(shares[is_comparable])


def judged_winners(y: FloatArray, verdicts: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the winner by votes and by verdicts: 0 first, 1 second, 2 tie; (m,) each. Shapes: y (m, C)."""
    return _plurality(_three_categories(y)), _plurality(verdicts)


def _plurality(shares: FloatArray) -> IntArray:
    """Return the category with the largest share, (q,); 2, a tie, where several categories have the largest share."""
    is_largest = shares >= shares.max(axis=1, keepdims=True) - _TOLERANCE
    return np.where(is_largest.sum(axis=1) > 1, 2, is_largest.argmax(axis=1))


def winner_agreement(human: IntArray, judge: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return number of pairs, share of equal winners and kappa, (2,): of all q pairs, and of those without ties."""
    from statsmodels.stats.inter_rater import cohens_kappa

    without_ties = (human < 2) & (judge < 2)
    counts, shares, kappas = [], [], []
    for a, b in ((human, judge), (human[without_ties], judge[without_ties])):
        table = np.zeros((3, 3))
        np.add.at(table, (a, b), 1.0)
        counts.append(len(a))
        shares.append(np.trace(table) / len(a) if len(a) else np.nan)
        # If all winners are one and the same, or there are none, the agreement by chance is 1, too, and kappa is 0 / 0.
        is_constant = np.diag(table).max() == len(a)
        kappas.append(np.nan if is_constant else float(cohens_kappa(table, return_results=False)))
    return np.array(counts), np.array(shares), np.array(kappas)
