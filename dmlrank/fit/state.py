"""The state of a fit: its formula, frame and options, and the results of its steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray
from patsy import EvalEnvironment

from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters
from ..estimation.bt_mle import BradleyTerryFit, ContextualBradleyTerryFit
from ..estimation.cross_fitting import MuSource
from ..estimation.diagnostics import RemainingBias, Validity
from ..estimation.equal_style import EqualStyleTerms, StyleInfluence
from ..estimation.influence import (
    EstimandName,
    InfluenceBlocks,
    InfluenceFunction,
    JudgeCorrection,
    NuisanceEstimates,
    OneStepResult,
    TargetPopulation,
)
from ..estimation.unanimous_pairs import UnanimousPairs
from ..functionals import Functional
from ..inference.covariance import Covariance
from ..nuisance.propensity_model.estimate import Propensity
from ..nuisance.training_rows import Folds
from ..nuisance.verdicts import Verdicts
from ..options import Options
from .average import MeanTarget
from .balanced_votes import BalancedVotes
from .cache import CachedStep
from .display_order import OrderChoice
from .estimand import Setup
from .estimators import Estimator, estimator_named
from .extension_record import Extension
from .extrapolation import Extrapolation
from .style_estimates import StyleFit


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The source of the data: formula, frame and the namespace of the call.

    data: In any kind of frame that :func:`dmlrank.dml_rank` reads.
    environment: Functions and arrays that the formula may name.
    """

    formula: str
    data: object
    environment: EvalEnvironment


@dataclass(frozen=True, slots=True, eq=False)
class Repetition:
    """One repetition: an assignment to folds, the first stages cross-fitted on it, and the one-step estimates.

    mu: Outcome probabilities, estimated with the judge's verdicts where there is a judge.
    propensity: P(the pair is labelled | x) at the labelled cells.
    one_step_result: The one-step estimates of the scores, the win shares and the position effect.
    floor: Smallest probability of a category in mu; 0 where the functional needs none.
    sample (s,): Contexts over which F(mu) is averaged; None for all contexts.
    mu_without_judge: mu from human labels alone; ``mu`` itself where there is no judge.
    judge_correction: The part of the bias correction that comes from verdicts; None without a two-stage judge.
    judge_propensity (r,): P(the pair is judged | x) at the judged cells; None without a judge.
    mean: The functional, linearised at the mean preferences, with ``average="preferences"`` and a non-linear
        functional; None elsewhere.
    style_terms: Terms of the scores at equal style; None without this adjustment.
    style_influence: Influence of the scores at equal style, the averaged scores and the slopes.
    """

    folds: Folds
    mu: MuSource
    propensity: Propensity
    one_step_result: OneStepResult
    floor: float
    sample: IntArray | None
    mu_without_judge: MuSource
    judge_correction: JudgeCorrection | None = None
    judge_propensity: FloatArray | None = None
    mean: MeanTarget | None = None
    style_terms: EqualStyleTerms | None = None
    style_influence: StyleInfluence | None = None

    @property
    def target(self) -> InfluenceFunction:
        """Influence of the scores that are reported: at equal style where this adjustment is made."""
        return self.one_step_result.target if self.style_influence is None else self.style_influence.equal

    @property
    def nuisances(self) -> NuisanceEstimates:
        """The first stages, as the one-step estimator takes them."""
        return NuisanceEstimates(self.mu, self.propensity.cells, self.floor, self.judge_correction)


@dataclass(frozen=True, slots=True, eq=False)
class FitSteps:
    """The results of a fit's steps, from the data to the covariance of the scores.

    A fit with first stages has ``validity`` and at least one entry in ``repetitions``. A fit by maximum likelihood has
    neither; it has ``likelihood``.

    data: Votes on the ranked items.
    dropped: Items that were read and are not ranked.
    setup: The functional, bound to graph and category weights.
    context_weight (n,): Weights of the contexts in the target population; None where these are equal.
    blocks: The sets of votes over which influence values are summed.
    annotator (q,): The annotator of each block where annotators are clusters.
    influence: Influence values of the scores, averaged over repetitions.
    win_share (K,): The share of comparisons that each model wins against its opponents.
    covariance: Covariance of the scores.
    cache: Results of the steps' functions, which an update uses again.
    validity: Signs that the intervals may not hold.
    order: Whether display order matters, and why; None for maximum likelihood.
    propensity_factor: For supplied propensities pi, the mean of S / pi over prompts and pairs, where S is 1 for a
        labelled pair and 0 otherwise; it is near 1 if pi is right. None where propensities are not supplied.
    verdicts: Verdicts of judges.
    extrapolation: Pairs that the scores use although they have no label.
    uniform: Compared pairs whose labels all agree; None where there are no such pairs.
    style: Joint estimates of scores before and after the adjustment for style, and of the slopes.
    balanced: The votes that count beside all votes, for battles of equal style.
    extension: How rows were added to a fit; None where all rows were fitted together.
    is_later (n,): Whether a context has votes that came after the training; None where all rows were fitted together.
    bias: The second-order bias of the scores, with its terms by context; None for maximum likelihood.
    """

    options: Options
    source: Source
    data: PreferenceData
    dropped: tuple[str, ...]
    setup: Setup
    clusters: Clusters | None
    context_weight: FloatArray | None
    blocks: InfluenceBlocks
    annotator: IntArray | None
    influence: InfluenceFunction
    win_share: FloatArray
    covariance: Covariance
    cache: dict[str, CachedStep] = field(repr=False)
    repetitions: tuple[Repetition, ...] = ()
    likelihood: BradleyTerryFit | ContextualBradleyTerryFit | None = None
    validity: Validity | None = None
    order: OrderChoice | None = None
    propensity_factor: float | None = None
    verdicts: Verdicts | None = None
    extrapolation: Extrapolation = field(default_factory=Extrapolation)
    uniform: UnanimousPairs | None = None
    style: StyleFit | None = None
    balanced: BalancedVotes | None = None
    extension: Extension | None = None
    is_later: NDArray[np.bool_] | None = None
    bias: RemainingBias | None = None

    @property
    def estimator(self) -> Estimator:
        """How the scores are estimated."""
        return estimator_named(self.options.estimator)

    @property
    def first(self) -> Repetition:
        """The first repetition of an estimator with first stages."""
        assert self.repetitions, f"{self.options.estimator} has no first stages"
        return self.repetitions[0]

    @property
    def sample(self) -> IntArray | None:
        """Contexts over which the first repetition averages F(mu), (s,); None for all contexts."""
        return self.repetitions[0].sample if self.repetitions else None

    @property
    def folds(self) -> Folds:
        """Folds of the first repetition."""
        return self.first.folds

    @property
    def mu(self) -> MuSource:
        """Outcome probabilities of the first repetition."""
        return self.first.mu

    @property
    def propensity(self) -> Propensity:
        """Propensities of the first repetition."""
        return self.first.propensity

    @property
    def one_step_result(self) -> OneStepResult:
        """The one-step estimates of the first repetition."""
        return self.first.one_step_result

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        # The steps of a fit are never changed, and some learners and patsy's transforms cannot be copied.
        return self

    def population(self, repetition: Repetition) -> TargetPopulation:
        """Return the target population of a repetition: weights and sample of the contexts."""
        return TargetPopulation(self.context_weight, repetition.sample)

    def uniform_covariance(self, score: Functional, *, pooled: bool = True) -> FloatArray | None:
        """The covariance of an estimate, (d, d), that is added for uniform pairs; None where nothing is added."""
        if self.uniform is None or not self.estimator.is_debiased:
            return None
        return self.uniform.covariance(score, self.first.floor, pooled=pooled)

    def influence_of(self, estimand: EstimandName) -> InfluenceFunction:
        """Return influence values of an estimand, averaged over repetitions as the estimator prescribes."""
        return self.estimator.average([r.one_step_result.influence(estimand) for r in self.repetitions])
