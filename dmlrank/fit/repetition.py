"""One repetition of a fit: folds, cross-fitted first stages, and the one-step estimates from them."""

from __future__ import annotations

import numpy as np

from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters
from ..data.shared_texts import join_shared
from ..estimation.bt_restricted import RestrictedBradleyTerry, require_pair_propensities
from ..estimation.cross_fitting import HeldOutLabels, MuSource
from ..estimation.folds import assign_folds
from ..estimation.influence_blocks import InfluenceBlocks
from ..estimation.judge import judge_correction
from ..estimation.nuisance_estimates import JudgeCorrection, NuisanceEstimates, TargetPopulation
from ..estimation.one_step import one_step
from ..estimation.one_step_result import Estimands, OneStepResult
from ..estimation.outcome_floor import select_floor
from ..exceptions import OptionError
from ..functionals import Borda, BradleyTerry
from ..functionals.position_effect import PositionEffect
from ..nuisance.propensity_model.all_pairs import PairPropensity
from ..nuisance.propensity_model.estimate import Propensity
from ..nuisance.training_rows import Folds
from ..options import Options
from .cache import Cache
from .estimand import Setup
from .estimators import estimator_named
from .first_stages import (
    Draw,
    OutcomeLearner,
    PropensityModel,
    RepetitionSeed,
    cross_fit_mu,
    cross_fit_mu_and_judge,
    cross_fit_mu_with_verdicts,
    label_and_judge_propensities,
)
from .inputs import Inputs
from .state import Repetition, Source


def make_repetition(cache: Cache, number: int, inputs: Inputs, source: Source, o: Options) -> Repetition:
    """One repetition, each of its steps made again only where what it depends on has changed.

    Parameters
    ----------
    cache : Cache
    number : int
        Of the repetition, from 0.
    inputs : Inputs
    source : Source
    o : Options
    """
    data, setup, cache = inputs.data, inputs.setup, cache.slot(f"repetition {number}")
    seed = RepetitionSeed(o.seed, number)
    needs_all = estimator_named(o.estimator).needs_all_propensities
    folds = cache.call(
        make_folds, data, inputs.clusters, n_folds=o.n_folds, seed=seed, are_used=folds_are_used(inputs, o)
    )
    model = PropensityModel(
        o.propensity,
        o.propensity_column,
        o.propensity_formula,
        o.tune,
        inputs.graph,
        needs_all and not isinstance(o.propensity, str),
        source,
        o.unlabelled,
    )
    # Before mu: given propensities are checked before anything is trained.
    propensity, judge_propensity = cache.call(
        label_and_judge_propensities, data, folds, model, verdicts=inputs.verdicts, seed=seed, n_jobs=o.n_jobs
    )
    if needs_all:
        require_pair_propensities(propensity)
    learner = OutcomeLearner.of(o)
    alone = inputs.given_mu or cache.call(cross_fit_mu, data, folds, learner, seed=seed, n_jobs=o.n_jobs)
    mu: MuSource = alone
    correction: JudgeCorrection | None = None
    if inputs.verdicts is not None and o.judge_as == "features":
        mu = cache.call(
            cross_fit_mu_with_verdicts, data, folds, inputs.verdicts, tune=learner.tune, seed=seed, n_jobs=o.n_jobs
        )
    elif inputs.verdicts is not None and judge_propensity is not None:
        learnt = cache.call(
            cross_fit_mu_and_judge,
            data,
            folds,
            inputs.verdicts,
            mu_without_judge=alone,
            learner=learner,
            seed=seed,
            n_jobs=o.n_jobs,
        )
        correction = cache.call(judge_correction, inputs.verdicts, judge_propensity, learnt.m)
        mu = learnt.mu
    floor = cache.call(choose_floor, data, setup, mu, floor=o.floor)
    sample = cache.call(draw_sample, data, o.subsample, seed)
    one_step_result = cache.call(
        one_step_estimates,
        data,
        setup,
        mu,
        propensity=propensity,
        blocks=inputs.blocks,
        floor=floor,
        context_weight=inputs.context_weight,
        sample=sample,
        judged=correction,
        restricted=needs_all,
        n_jobs=o.n_jobs,
    )
    return Repetition(folds, mu, propensity, one_step_result, floor, sample, alone, correction, judge_propensity)


def folds_are_used(inputs: Inputs, o: Options) -> bool:
    """Whether anything is learnt by fold: mu, what judges say, or propensities from features."""
    learns_propensity = isinstance(o.propensity, str) and o.propensity == "estimate"
    has_features = inputs.data.x.shape[1] > 0 or o.propensity_formula is not None
    return inputs.given_mu is None or inputs.verdicts is not None or (learns_propensity and has_features)


def make_folds(
    data: PreferenceData, clusters: Clusters | None, *, n_folds: int, seed: RepetitionSeed, are_used: bool = True
) -> Folds:
    """Deal contexts, or clusters of them, into folds; contexts that share a text share a fold.

    Where nobody uses the folds and units are too few for them, there are fewer.
    """
    unit = data.seed_order if clusters is None else clusters.prompt
    n_folds = n_folds if are_used else min(n_folds, len(np.unique(unit)))
    unit = join_shared(unit, data.shared_texts, n_folds)
    what = "contexts" if clusters is None else f"clusters of {clusters.names[0]!r}"
    return assign_folds(unit, n_folds, np.random.default_rng(seed.child(Draw.FOLDS)), what)


def draw_sample(data: PreferenceData, size: int | None, seed: RepetitionSeed) -> IntArray | None:
    """Contexts that F(mu) is averaged over, (s,), whatever the order of the rows; None for all."""
    if size is None or size >= data.n_contexts:
        return None
    drawn = np.random.default_rng(seed.child(Draw.SAMPLE)).choice(data.n_contexts, size, replace=False)
    return np.sort(np.argsort(data.seed_order)[drawn])


def choose_floor(data: PreferenceData, setup: Setup, mu: MuSource, *, floor: float | str) -> float:
    """The floor of mu: given, or selected by the log-loss of the labels; zero where no functional needs one."""
    if not isinstance(floor, str):
        if floor * data.n_categories >= 1:
            raise OptionError(f"floor={floor} is too high for {data.n_categories} categories, which sum to one")
        return float(floor)
    if not setup.functional.interior:
        return 0.0
    return select_floor(HeldOutLabels.of(mu, data))


def one_step_estimates(
    data: PreferenceData,
    setup: Setup,
    mu: MuSource,
    *,
    propensity: Propensity,
    blocks: InfluenceBlocks,
    floor: float,
    context_weight: FloatArray | None,
    sample: IntArray | None,
    judged: JudgeCorrection | None,
    restricted: bool,
    n_jobs: int | None,
) -> OneStepResult:
    """The one-step estimates of the scores, the win shares and the position effect.

    Parameters
    ----------
    restricted : bool
        Whether the scores are those of the Bradley-Terry model; their projection is then estimated beside them.
    """
    estimands = fit_estimands(setup, require_pair_propensities(propensity) if restricted else None, data.ordered)
    nuisances = NuisanceEstimates(mu, propensity.cells, floor, judged)
    return one_step(estimands, data, nuisances, blocks, TargetPopulation(context_weight, sample), n_jobs=n_jobs)


def fit_estimands(setup: Setup, pairs: PairPropensity | None, ordered: bool) -> Estimands:
    """What a fit estimates; where Bradley-Terry is assumed the target is the restricted score."""
    shares, position = Borda(setup.weights, setup.graph), PositionEffect(setup.weights, setup.graph)
    if pairs is None:
        return Estimands(setup.functional, shares, position)
    return Estimands(restricted_score(setup, pairs, ordered), shares, position, projection=setup.functional)


def restricted_score(setup: Setup, pairs: PairPropensity, ordered: bool) -> RestrictedBradleyTerry:
    """The score of a fit that assumes Bradley-Terry."""
    assert isinstance(setup.functional, BradleyTerry)
    return RestrictedBradleyTerry(setup.functional, setup.graph, pairs, ordered)
