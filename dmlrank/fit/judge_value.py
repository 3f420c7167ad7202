"""What judges are worth: how they agree with humans, what they bought, and what they would say alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from statsmodels.stats.inter_rater import cohens_kappa

from ..data.outcomes import exchange_wins
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..estimation.cross_fitting import CrossFittedMu, HeldOutLabels
from ..estimation.influence import Influence
from ..estimation.influence_blocks import blocks_by_context
from ..estimation.nuisance_estimates import NuisanceEstimates
from ..estimation.one_step import one_step
from ..estimation.one_step_result import Estimands
from ..estimation.outcome_floor import select_floor
from ..estimation.uniform_pairs import find_uniform_pairs
from ..inference.covariance import Covariance
from ..nuisance.judge.verdicts import Verdicts
from ..nuisance.outcome_model.cross_fit import fit_all
from ..nuisance.outcome_model.user_learners import is_own
from .fit_covariance import covariance_of
from .label_errors import one_step_label_errors
from .state import FitSteps, Repetition

_SAME = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class JudgeFigures:
    """Judges beside humans, and estimates with and without them; J judges, K models.

    Attributes
    ----------
    names : tuple of str
        The judges.
    how : {"two-stage", "features"}
    n_verdicts, n_unlabelled : int
        Judged pairs, and those of them without a human label.
    compared : ndarray, shape (J, 2)
        Pairs with a verdict and a human label, and those of them that neither called a tie.
    agreement, kappa : ndarray, shape (J, 2)
        Share of equal winners and Cohen's kappa, with ties and without.
    position : ndarray, shape (J, 3)
        Share of verdicts for the answer shown first, for the second, and of ties.
    human_position : ndarray, shape (J, 3)
        The same of the human labels on the pairs that a judge saw.
    both_orders : ndarray, shape (J, 2)
        Pairs judged in both orders, and how many kept their winner.
    log_loss : ndarray, shape (3,)
        Out-of-fold log-loss at the labelled pairs that were judged: without judge, of mu with it, given the verdict.
    n_votes : int
        Human votes.
    alone, alone_errors : ndarray, shape (K,)
        Scores and standard errors of the same fit without the judge.
    errors : ndarray, shape (K,)
        Standard errors with it.
    worth : float
        Further human votes that would have made the fit without judge as precise; infinite where none would.
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


def judge_figures(steps: FitSteps) -> JudgeFigures | None:
    """What a fit says of its judges; None where it has none."""
    verdicts, data = steps.verdicts, steps.data
    if verdicts is None:
        return None
    influence, covariance = without_judge(steps)
    counts = [_agreement(*_winners(verdicts, data, judge)) for judge in range(len(verdicts.names))]
    return JudgeFigures(
        names=verdicts.names,
        how=steps.options.judge_as,
        n_verdicts=len(verdicts.cells),
        n_unlabelled=int((~verdicts.labelled).sum()),
        compared=np.array([count for count, *_ in counts]),
        agreement=np.array([share for _, share, _ in counts]),
        kappa=np.array([kappa for *_, kappa in counts]),
        position=_position(verdicts),
        human_position=_human_position(verdicts, data),
        both_orders=verdicts.both_orders,
        log_loss=_losses(steps, verdicts),
        n_votes=data.n_votes,
        alone=influence.estimate,
        alone_errors=covariance.std_errors,
        errors=steps.covariance.std_errors,
        worth=worth_in_votes(influence, covariance, steps.covariance, data.n_votes),
    )


def without_judge(steps: FitSteps) -> tuple[Influence, Covariance]:
    """The estimate of the same fit without its judge: the same folds, propensities and labels."""
    o, wanted, made = steps.options, Estimands(steps.setup.functional), []
    for r in steps.repetitions:
        floor = r.floor if r.mu_without_judge is r.mu else _floor(r, steps)
        nuisances = NuisanceEstimates(r.mu_without_judge, r.propensity.cells, floor)
        passed = one_step(wanted, steps.data, nuisances, steps.blocks, steps.population(r), n_jobs=o.n_jobs)
        made.append(passed.target)
    influence = steps.estimator.average(made).by_context()
    functional, each = steps.setup.functional, steps.estimator.estimates(made)
    gauge, hidden = functional.gauge(steps.data.n_items).basis, steps.hidden_covariance(functional)
    return influence, covariance_of(steps, influence, gauge, each, hidden=hidden)


def _floor(r: Repetition, steps: FitSteps) -> float:
    if not steps.setup.functional.interior or not isinstance(steps.options.floor, str):
        return r.floor
    return select_floor(HeldOutLabels.of(r.mu_without_judge, steps.data))


def judge_alone(steps: FitSteps, verdicts: Verdicts) -> tuple[Influence, Covariance]:
    """What the judge's verdicts give in place of the votes, estimated in the same way: its ranking, with its error.

    Parameters
    ----------
    steps : FitSteps
        Of a fit with a judge.
    verdicts : Verdicts
        Its verdicts, which are probabilities of the categories.
    """
    data, o, functional = verdicts.as_votes(steps.data), steps.options, steps.setup.functional
    blocks, results, propensities, floors = blocks_by_context(data), [], [], []
    clusters = None if steps.clusters is None else replace(steps.clusters, annotator=None)
    for number, r in enumerate(steps.repetitions):
        assert r.judge_propensity is not None, "a fit with a judge has propensities of its verdicts"
        seeds = np.random.SeedSequence([o.seed, number, 1]).spawn(r.folds.n_folds)
        tune = "cv" if is_own(o.learner) else o.tune
        models = fit_all(data, r.folds, seeds, tune=tune, n_jobs=o.n_jobs, learner=o.learner)
        mu = CrossFittedMu(models, r.folds, data.x)
        floors.append(select_floor(HeldOutLabels.of(mu, data)) if functional.interior else 0.0)
        nuisances = NuisanceEstimates(mu, r.judge_propensity, floors[-1])
        population = steps.population(r)
        results.append(one_step(Estimands(functional), data, nuisances, blocks, population, n_jobs=o.n_jobs))
        propensities.append(r.judge_propensity)
    targets = [result.target for result in results]
    influence = steps.estimator.average(targets).by_context()
    errors = one_step_label_errors(
        data,
        results,
        propensities,
        corrections=[None] * len(results),
        clusters=clusters,
        context_weight=steps.context_weight,
    )
    uniform = find_uniform_pairs(errors, data, steps.setup.weights, steps.setup.graph.edges)
    hidden = None if uniform is None else uniform.covariance(functional, floors[0])
    alone, gauge = replace(steps, clusters=clusters, annotator=None), functional.gauge(data.n_items).basis
    return influence, covariance_of(alone, influence, gauge, steps.estimator.estimates(targets), hidden=hidden)


def worth_in_votes(humans: Influence, without: Covariance, covariance: Covariance, n_votes: int) -> float:
    """Further human votes, of the same kind, that would make the estimate without judge as precise as with it.

    More votes on the same prompts shrink the covariance of the correction, not that of F(mu) over prompts:
    V(N) = V_F + (V - V_F) n_votes / N. Scores are taken together, by the trace.

    Parameters
    ----------
    humans : Influence
        Without judge.
    without, covariance : Covariance
        Without and with it.
    n_votes : int
    """
    spread = humans.weight[:, None] * (humans.value - humans.plugin)
    prompts = float(np.square(spread).sum()) / len(spread) ** 2
    labels = max(float(np.trace(without.matrix)) - prompts, 0.0)
    left = float(np.trace(covariance.matrix)) - prompts
    return float(n_votes * (labels / left - 1)) if left > 0 else float("inf")


def _winners(verdicts: Verdicts, data: PreferenceData, judge: int) -> tuple[IntArray, IntArray]:
    """The winner of each labelled pair that a judge saw, by the votes and by the judge: 0 first, 1 second, 2 tie."""
    cells = data.cells
    seen = np.flatnonzero(verdicts.label >= 0)
    tally = np.zeros((len(verdicts.cells), 3))
    votes = cells.y[seen] * cells.n_votes[seen, None]
    votes = np.stack([votes[:, 0], votes[:, 1], votes[:, 2:].sum(axis=1)], axis=1)
    np.add.at(tally, verdicts.label[seen], votes)
    shares = verdicts.shares[judge]
    shares = exchange_wins(shares, verdicts.cells.flipped)
    both = (tally.sum(axis=1) > 0) & ~np.isnan(shares).any(axis=1)
    return _plurality(tally[both]), _plurality(shares[both])


def _plurality(shares: FloatArray) -> IntArray:
    """The option with most votes, (r,); a tie where several have."""
    top = shares >= shares.max(axis=1, keepdims=True) - _SAME
    return np.where(top.sum(axis=1) > 1, 2, top.argmax(axis=1))


def _agreement(human: IntArray, judge: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Pairs, share of equal winners and kappa, with ties and without, (2,) each.

    Examples
    --------
    >>> _agreement(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2]))[1].round(3)
    array([0.75 , 0.667])
    """
    decided = (human < 2) & (judge < 2)
    parts = [(human, judge), (human[decided], judge[decided])]
    made = [(len(a), *_kappa(a, b)) for a, b in parts]
    count, share, kappa = zip(*made, strict=True)
    return np.array(count), np.array(share), np.array(kappa)


def _kappa(a: IntArray, b: IntArray) -> tuple[float, float]:
    """Share of equal values and Cohen's kappa; NaN where there is nothing to compare."""
    if not len(a):
        return float("nan"), float("nan")
    table = np.zeros((3, 3))
    np.add.at(table, (a, b), 1.0)
    share = float(np.trace(table) / len(a))
    # Where both always name the same winner, chance explains all of the agreement: zero over zero.
    constant = np.diag(table).max() == len(a)
    return share, float("nan") if constant else float(cohens_kappa(table, return_results=False))


def _position(verdicts: Verdicts) -> FloatArray:
    """Mean verdicts of the pair as shown, (J, 3); NaN where they are no probabilities."""
    shares = verdicts.shares
    known = _known(verdicts)
    total = known.sum(axis=1)[:, None]
    mean = np.where(known[:, :, None], shares, 0.0).sum(axis=1) / np.maximum(total, 1)
    return np.where(total > 0, mean, np.nan)


def _human_position(verdicts: Verdicts, data: PreferenceData) -> FloatArray:
    cells, label = data.cells, verdicts.label
    y = exchange_wins(cells.y, cells.flipped)
    y = np.stack([y[:, 0], y[:, 1], y[:, 2:].sum(axis=1)], axis=1) * cells.n_votes[:, None]
    seen = [(label >= 0) & judged[np.maximum(label, 0)] for judged in _known(verdicts)]
    return np.stack(
        [y[here].sum(axis=0) / cells.n_votes[here].sum() if here.any() else np.full(3, np.nan) for here in seen]
    )


def _known(verdicts: Verdicts) -> NDArray[np.bool_]:
    """Where each judge's verdict is known as probabilities, (J, r)."""
    return np.asarray(~np.isnan(verdicts.shares).any(axis=2))


def _losses(steps: FitSteps, verdicts: Verdicts) -> FloatArray:
    """Log-loss at the labelled pairs that were judged, (3,), in the first repetition."""
    first = steps.repetitions[0]
    seen = np.flatnonzero(verdicts.label >= 0)
    cells = steps.data.cells.only(verdicts.label >= 0)
    alone, correction = first.mu_without_judge, first.judge_correction
    given = correction.m[verdicts.label[seen]] if correction is not None else first.mu.at(cells)
    return np.array([HeldOutLabels.by_cell(p, cells).log_loss for p in (alone.at(cells), first.mu.at(cells), given)])
