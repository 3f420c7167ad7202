"""One repetition of a fit: folds, cross-fitted first stages, and the one-step estimates from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._utils.computation import at_the_same_time, current
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..estimation.bt_restricted import RestrictedBradleyTerry, require_pair_propensities
from ..estimation.cross_fitting import HeldOutLabels, MuSource, select_floor
from ..estimation.equal_style import EqualStyleTerms
from ..estimation.folds import FoldUnits, assign_folds
from ..estimation.influence import (
    Estimands,
    InfluenceBlocks,
    JudgeCorrection,
    KnownValues,
    NuisanceEstimates,
    OneStepResult,
    TargetPopulation,
)
from ..estimation.judge import judge_correction
from ..estimation.one_step import one_step
from ..exceptions import OptionError
from ..functionals import Borda, BradleyTerry, Functional
from ..functionals.linear_scores import PositionEffect
from ..nuisance.propensity_model.all_pairs import PairPropensity
from ..nuisance.propensity_model.estimate import Propensity
from ..nuisance.training_rows import Folds
from ..options import Options
from .average import MeanTarget, mean_target, uses_mean_preferences
from .balanced_votes import balanced_propensity, weighted_training_data
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
from .style_steps import equal_style_terms, influence_at_equal_style


class OutcomeModels(NamedTuple):
    """The outcome models of one repetition.

    mu: Outcome probabilities that the estimates use; where there is a judge, they are estimated with its verdicts.
    mu_without_judge: Outcome probabilities from human labels alone; ``mu`` itself where there is no judge.
    judge_correction: The part of the bias correction that comes from verdicts; None without a two-stage judge.
    """

    mu: MuSource
    mu_without_judge: MuSource
    judge_correction: JudgeCorrection | None = None


class FirstStages(NamedTuple):
    """The first stages of one repetition.

    propensity: Propensities of labels.
    judge_propensity (r,): P(judged | x) at the judged cells; None without a judge.
    """

    propensity: Propensity
    judge_propensity: FloatArray | None
    models: OutcomeModels


def make_repetition(cache: Cache, number: int, inputs: Inputs, *, source: Source, options: Options) -> Repetition:
    """Carry out one repetition.

    With the cache of an earlier fit, a step runs only if one of its arguments has changed.
    """
    data, setup, cache = inputs.data, inputs.setup, cache.slot(f"repetition {number}")
    seed = RepetitionSeed(options.seed, number)
    folds = cache.call(make_folds, inputs.fold_units, n_folds=inputs.n_folds, seed=seed)
    stages = fit_first_stages(cache, inputs, folds, seed=seed, source=source, options=options)
    propensity, models = stages.propensity, stages.models
    floor = cache.call(choose_floor, data, setup, models.mu, floor=options.floor)
    sample = cache.call(draw_sample, data, options.subsample, seed)
    mean = mean_target_of(cache, inputs, stages, sample=sample, options=options)
    one_step_result = cache.call(
        one_step_estimates,
        data,
        setup,
        models.mu,
        propensity=propensity,
        blocks=inputs.blocks,
        floor=floor,
        context_weight=inputs.context_weight,
        sample=sample,
        judge_correction=models.judge_correction,
        is_restricted=estimator_named(options.estimator).assumes_bradley_terry,
        mean=mean,
    )
    style_terms = equal_style_of(cache, inputs, folds, propensity)
    return Repetition(
        folds=folds,
        mu=models.mu,
        propensity=propensity,
        one_step_result=one_step_result,
        floor=floor,
        sample=sample,
        mu_without_judge=models.mu_without_judge,
        judge_correction=models.judge_correction,
        judge_propensity=stages.judge_propensity,
        mean=mean,
        style_terms=style_terms,
        style_influence=None if style_terms is None else cache.call(influence_at_equal_style, style_terms),
    )


def mean_target_of(
    cache: Cache, inputs: Inputs, stages: FirstStages, *, sample: IntArray | None, options: Options
) -> MeanTarget | None:
    """Return the functional, linearised at the mean preferences; None where the scores of contexts are averaged.

    Shapes: sample (s,).
    """
    if not uses_mean_preferences(options.average, inputs.setup):
        return None
    return cache.call(
        target_of_mean_preferences,
        inputs.data,
        inputs.setup,
        stages.models.mu,
        propensity=stages.propensity,
        blocks=inputs.blocks,
        floor=options.floor,
        context_weight=inputs.context_weight,
        sample=sample,
        judge_correction=stages.models.judge_correction,
        estimator=options.estimator,
    )


def fit_first_stages(
    cache: Cache, inputs: Inputs, folds: Folds, *, seed: RepetitionSeed, source: Source, options: Options
) -> FirstStages:
    """Fit propensities and outcome models; on the user's workers at the same time where neither needs the other."""
    estimator = estimator_named(options.estimator)
    propensity_model = PropensityModel.of(
        options, inputs.setup.graph, source, needs_all_propensities=estimator.needs_all_propensities
    )

    def propensities() -> tuple[Propensity, FloatArray | None]:
        of_labels, of_verdicts = cache.call(
            label_and_judge_propensities,
            inputs.data if inputs.balanced is None else inputs.balanced.every,
            folds,
            propensity_model,
            verdicts=inputs.verdicts,
            seed=seed,
        )
        if inputs.balanced is not None:
            of_labels = cache.call(balanced_propensity, inputs.balanced, of_labels, folds)
        if estimator.needs_all_propensities:
            require_pair_propensities(of_labels)
        return of_labels, of_verdicts

    def outcome_models(judge_propensity: FloatArray | None) -> OutcomeModels:
        return fit_outcome_models(cache, inputs, folds, judge_propensity=judge_propensity, seed=seed, options=options)

    if current().workers and inputs.verdicts is None and propensity_model.word == "estimate":
        (propensity, judge_propensity), models = at_the_same_time(propensities, lambda: outcome_models(None))
    else:
        # Propensities come before mu, so that supplied propensities are checked before anything is trained.
        propensity, judge_propensity = propensities()
        models = outcome_models(judge_propensity)
    return FirstStages(propensity, judge_propensity, models)


def equal_style_of(cache: Cache, inputs: Inputs, folds: Folds, propensity: Propensity) -> EqualStyleTerms | None:
    """Return the terms of the scores at equal style; None where scores are not adjusted for style."""
    if inputs.style is None:
        return None
    return cache.call(
        equal_style_terms,
        inputs.data,
        inputs.setup,
        inputs.style,
        propensity=propensity,
        folds=folds,
        blocks=inputs.blocks,
        clusters=inputs.clusters,
        annotator=inputs.annotator,
        context_weight=inputs.context_weight,
    )


def fit_outcome_models(
    cache: Cache,
    inputs: Inputs,
    folds: Folds,
    *,
    judge_propensity: FloatArray | None,
    seed: RepetitionSeed,
    options: Options,
) -> OutcomeModels:
    """Fit mu by fold, first to human labels alone, then with verdicts where there is a judge.

    Shapes: judge_propensity (r,).
    """
    data, verdicts = inputs.data, inputs.verdicts
    learner = OutcomeLearner.of(options)
    training_data = data
    if inputs.balanced is not None:
        training_data = cache.call(weighted_training_data, data, inputs.balanced)
    mu: MuSource = inputs.supplied_mu or cache.call(cross_fit_mu, training_data, folds, learner, seed=seed)
    if verdicts is None:
        return OutcomeModels(mu, mu)
    if options.judge_as == "features":
        with_verdicts = cache.call(cross_fit_mu_with_verdicts, data, folds, verdicts, tune=learner.tune, seed=seed)
        return OutcomeModels(with_verdicts, mu)
    assert judge_propensity is not None, "a fit with a judge has propensities of its verdicts"
    judged = cache.call(
        cross_fit_mu_and_judge,
        data,
        folds,
        verdicts,
        mu_without_judge=mu,
        learner=learner,
        seed=seed,
    )
    return OutcomeModels(judged.mu, mu, cache.call(judge_correction, verdicts, judge_propensity, judged.m))


def make_folds(units: FoldUnits, *, n_folds: int, seed: RepetitionSeed) -> Folds:
    """Deal contexts, or clusters of them, to folds by the key of the repetition."""
    return assign_folds(units, n_folds, seed.fold_key)


def draw_sample(data: PreferenceData, size: int | None, seed: RepetitionSeed) -> IntArray | None:
    """Draw the contexts over which F(mu) is averaged, (s,); None for all contexts.

    The sample does not depend on the order of the rows.
    """
    if size is None or size >= data.n_contexts:
        return None
    drawn = np.random.default_rng(seed.child(Draw.SAMPLE)).choice(data.n_contexts, size, replace=False)
    return np.sort(np.argsort(data.seed_order)[drawn])


def choose_floor(data: PreferenceData, setup: Setup, mu: MuSource, *, floor: float | str) -> float:
    """Return the floor of mu: the user's, or the one with the smallest log-loss; 0 where the functional needs none."""
    if not isinstance(floor, str):
        if floor * data.n_categories >= 1:
            raise OptionError(
                f"floor={floor} is too high for {data.n_categories} categories: their probabilities sum to one, so "
                f"that a floor has to be below {1 / data.n_categories:.3g}; use a smaller floor, or floor='auto'"
            )
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
    judge_correction: JudgeCorrection | None,
    is_restricted: bool,
    mean: MeanTarget | None,
    known: KnownValues | None = None,
) -> OneStepResult:
    """Estimate the scores, the win shares and the position effect by the one-step estimator.

    Shapes: context_weight (n,), sample (s,).
    """
    pairs = require_pair_propensities(propensity) if is_restricted else None
    estimands = fit_estimands(setup, pairs, data.ordered, target=None if mean is None else mean.score)
    nuisances = NuisanceEstimates(mu, propensity.cells, floor, judge_correction)
    population = TargetPopulation(context_weight, sample)
    return one_step(estimands, data, nuisances, blocks, population, known=known)


def target_of_mean_preferences(
    data: PreferenceData,
    setup: Setup,
    mu: MuSource,
    *,
    propensity: Propensity,
    blocks: InfluenceBlocks,
    floor: float | str,
    context_weight: FloatArray | None,
    sample: IntArray | None,
    judge_correction: JudgeCorrection | None,
    estimator: str,
) -> MeanTarget:
    """Linearise the functional at the mean preferences of all contexts.

    Shapes: context_weight (n,), sample (s,).
    """
    return mean_target(
        data,
        setup,
        NuisanceEstimates(mu, propensity.cells, judge=judge_correction),
        blocks=blocks,
        population=TargetPopulation(context_weight, sample),
        floor=floor,
        estimator=estimator,
    )


def fit_estimands(
    setup: Setup, pairs: PairPropensity | None, ordered: bool, *, target: Functional | None = None
) -> Estimands:
    """Return the estimands of a fit."""
    shares, position = Borda(setup.weights, setup.graph), PositionEffect(setup.weights, setup.graph)
    if pairs is None:
        return Estimands(setup.functional if target is None else target, shares, position)
    return Estimands(restricted_score(setup, pairs, ordered), shares, position, projection=setup.functional)


def restricted_score(setup: Setup, pairs: PairPropensity, ordered: bool) -> RestrictedBradleyTerry:
    """Return the score of a fit that assumes Bradley-Terry."""
    assert isinstance(setup.functional, BradleyTerry)
    return RestrictedBradleyTerry(setup.functional, setup.graph, pairs, ordered)
