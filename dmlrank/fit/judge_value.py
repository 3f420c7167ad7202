"""The value of judges: agreement with humans, gain in precision, and the ranking by the verdicts alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..data.outcomes import exchange_wins
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..estimation.cross_fitting import CrossFittedMu, HeldOutLabels, select_floor
from ..estimation.influence import (
    Influence,
    InfluenceBlocks,
    NuisanceEstimates,
    OneStepResult,
    blocks_by_context,
)
from ..estimation.mean_preferences import mean_preferences
from ..estimation.one_step import one_step
from ..estimation.unanimous_pairs import find_unanimous_pairs
from ..functionals import Functional
from ..inference.covariance import Covariance
from ..nuisance.outcome_model.cross_fit import fit_all
from ..nuisance.verdicts import Verdicts
from .estimand import mean_targets
from .fit_covariance import covariance_of, label_errors
from .state import FitState, Repetition, Units

# Shares that differ by less than this are equal.
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class JudgeFigures:
    """Figures of the judges of a fit, and its estimates without them; J judges, K models.

    names: The judges.
    how: The option ``judge_as``: how the verdicts are used.
    n_verdicts, n_unlabelled: Number of judged pairs, and of judged pairs without a human label.
    compared (J, 2): Number of pairs with a verdict and a human label, and of those that neither of the two called a
        tie.
    agreement, kappa (J, 2): Share of pairs with the same winner, and Cohen's kappa: of all these pairs, and of those
        without ties.
    position (J, 3): Share of verdicts for the answer shown first, for the second, and of ties.
    human_position (J, 3): Share of human labels for the answer shown first, for the second, and of ties, on the pairs
        with a verdict of the judge.
    both_orders (J, 2): Number of pairs judged in both orders, and of those with the same winner in both.
    log_loss (3,): Out-of-fold log-loss at the labelled pairs that were judged: of mu without the judge, of mu with the
        judge, and of P(label | x, verdict).
    n_votes: Number of human votes.
    alone, alone_errors (K,): Scores and standard errors of the same fit without the judge, from human labels alone.
    errors (K,): Standard errors of the fit with the judge.
    worth: Equivalent votes: the number of further human votes that would make the fit without judge as precise as the
        fit with the judge; infinite where no number would.
    """

    names: tuple[str, ...]
    how: str
    n_verdicts: int
    n_unlabelled: int
    compared: IntArray
    agreement: FloatArray
    kappa: FloatArray
    position: FloatArray
    human_position: FloatArray
    both_orders: IntArray
    log_loss: FloatArray
    n_votes: int
    alone: FloatArray
    alone_errors: FloatArray
    errors: FloatArray
    worth: float


def judge_figures(steps: FitState, verdicts: Verdicts) -> JudgeFigures:
    """Return the figures of a fit's judges."""
    data, cells, label = steps.data, steps.data.cells, verdicts.label
    votes = _three_categories(exchange_wins(cells.y, cells.flipped)) * cells.n_votes[:, None]
    agreements, position, human_position = [], [], []
    for shares in verdicts.shares:
        agreements.append(winner_agreement(*_winners(verdicts, data, shares)))
        is_known = ~np.isnan(shares).any(axis=1)
        position.append(shares[is_known].sum(axis=0) / is_known.sum() if is_known.any() else np.full(3, np.nan))
        both = (label >= 0) & is_known[np.maximum(label, 0)]
        human_position.append(votes[both].sum(axis=0) / cells.n_votes[both].sum() if both.any() else np.full(3, np.nan))
    first, is_judged = steps.first, label >= 0
    judged_cells, correction = cells.only(is_judged), first.judge_correction
    without_judge, with_judge = first.mu_without_judge.at(judged_cells), first.mu.at(judged_cells)
    with_verdict = with_judge if correction is None else correction.m[label[is_judged]]
    predictions = (without_judge, with_judge, with_verdict)
    influence, covariance = estimate_without_judge(steps)
    return JudgeFigures(
        names=verdicts.names,
        how=steps.options.judge_as,
        n_verdicts=len(verdicts.cells),
        n_unlabelled=int((~verdicts.labelled).sum()),
        compared=np.array([count for count, *_ in agreements]),
        agreement=np.array([share for _, share, _ in agreements]),
        kappa=np.array([kappa for *_, kappa in agreements]),
        position=np.array(position),
        human_position=np.array(human_position),
        both_orders=verdicts.both_orders,
        log_loss=np.array([HeldOutLabels.by_cell(mu, judged_cells).log_loss for mu in predictions]),
        n_votes=data.n_votes,
        alone=influence.estimate,
        alone_errors=covariance.std_errors,
        errors=steps.covariance.std_errors,
        worth=equivalent_votes(influence, covariance, steps.covariance, n_votes=data.n_votes),
    )


def _estimate(
    steps: FitState, data: PreferenceData, blocks: InfluenceBlocks, r: Repetition, nuisances: NuisanceEstimates
) -> OneStepResult:
    """Estimate the scores by one step, with the average of the fit."""
    score: Functional = steps.setup.functional
    population = steps.population(r)
    if r.mean is not None:
        means = mean_preferences(data, nuisances, blocks, population)
        score = mean_targets(means, data, steps.setup, steps.options)[0].score
    return one_step({"target": score}, data, nuisances, blocks, population)


def estimate_without_judge(steps: FitState) -> tuple[Influence, Covariance]:
    """Estimate the scores of the same fit without its judge, with the same folds, propensities and labels."""
    functional, targets = steps.setup.functional, []
    for r in steps.repetitions:
        floor, mu = r.floor, r.mu_without_judge
        if mu is not r.mu and functional.interior and isinstance(steps.options.floor, str):
            floor = select_floor(HeldOutLabels.of(mu, steps.data))
        nuisances = NuisanceEstimates(mu, r.propensity.cells, floor)
        targets.append(_estimate(steps, steps.data, steps.units.blocks, r, nuisances).target)
    influence, estimates = steps.estimator.average(targets).by_context(), steps.estimator.estimates(targets)
    gauge, unanimous_covariance = functional.gauge(steps.data.n_items).basis, steps.unanimous_covariance(functional)
    return influence, covariance_of(steps, influence, gauge, estimates, unanimous_covariance=unanimous_covariance)


def estimate_from_verdicts(steps: FitState, verdicts: Verdicts) -> tuple[Influence, Covariance]:
    """Estimate the scores as the fit does, with the verdicts of a judge in place of the votes."""
    data, options, functional = verdicts.as_votes(steps.data), steps.options, steps.setup.functional
    blocks, repetitions = blocks_by_context(data), []
    clusters = None if steps.units.clusters is None else replace(steps.units.clusters, of_vote=None)
    without_annotators = replace(steps, units=Units(blocks, clusters, None, steps.units.context_weight))
    for number, r in enumerate(steps.repetitions):
        assert r.judge_propensity is not None, "a fit with a judge has propensities of its verdicts"
        seeds = np.random.SeedSequence([options.seed, number, 1]).spawn(r.folds.n_folds)
        tune = "cv" if not isinstance(options.learner, str) else options.tune
        mu = CrossFittedMu(fit_all(data, r.folds, seeds, tune=tune, learner=options.learner), r.folds, data.x)
        floor = select_floor(HeldOutLabels.of(mu, data)) if functional.interior else 0.0
        result = _estimate(steps, data, blocks, r, NuisanceEstimates(mu, r.judge_propensity, floor))
        propensity = replace(r.propensity, cells=r.judge_propensity)
        repetitions.append(
            replace(r, one_step_result=result, propensity=propensity, floor=floor, judge_correction=None)
        )
    targets = [r.one_step_result.target for r in repetitions]
    influence, estimates = steps.estimator.average(targets).by_context(), steps.estimator.estimates(targets)
    errors = label_errors(data, repetitions, without_annotators.units)
    unanimous = find_unanimous_pairs(errors, data, steps.setup.weights, steps.setup.graph.edges)
    added = None if unanimous is None else unanimous.covariance(functional, repetitions[0].floor)
    gauge = functional.gauge(data.n_items).basis
    return influence, covariance_of(without_annotators, influence, gauge, estimates, unanimous_covariance=added)


def equivalent_votes(
    influence: Influence, covariance_without_judge: Covariance, covariance: Covariance, *, n_votes: int
) -> float:
    """Return the number of further human votes that would replace the judge.

    With so many further votes, the estimate without judge would be as precise as the estimate with the judge. Votes are
    assumed to be added on the same prompts. They reduce the part of the variance that comes from the labels, and do not
    change V_F, the variance of F(mu) between prompts: with N votes instead of n_votes, the variance V of the estimate
    without judge becomes V(N) = V_F + (V - V_F) n_votes / N. The trace of a covariance stands for its variance.
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
    """Return the winner of each pair with votes and a verdict: 0 first, 1 second, 2 tie.

    Shapes: shares (r, 3), returns (q,).
    """
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
    """Return number of pairs, share of equal winners and kappa, (2,) each: of all pairs, and of pairs without ties.

    Shapes: human, judge (q,).
    """
    without_ties = (human < 2) & (judge < 2)
    pairs = [(human, judge), (human[without_ties], judge[without_ties])]
    count, share, kappa = zip(*[(len(a), *share_and_kappa(a, b)) for a, b in pairs], strict=True)
    return np.array(count), np.array(share), np.array(kappa)


def share_and_kappa(a: IntArray, b: IntArray) -> tuple[float, float]:
    """Return the share of equal values and Cohen's kappa; NaN for no values."""
    from statsmodels.stats.inter_rater import cohens_kappa

    if not len(a):
        return float("nan"), float("nan")
    table = np.zeros((3, 3))
    np.add.at(table, (a, b), 1.0)
    share = float(np.trace(table) / len(a))
    # If all values of a and b are one and the same category, the agreement by chance is 1, too, and kappa is 0 / 0.
    is_constant = np.diag(table).max() == len(a)
    return share, float("nan") if is_constant else float(cohens_kappa(table, return_results=False))
