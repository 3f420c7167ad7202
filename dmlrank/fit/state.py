"""The state of a fit: what the user handed in and what every step has made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from patsy import EvalEnvironment

from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..data.read_clusters import Clusters
from ..estimation.bt_mle import BradleyTerryFit
from ..estimation.cross_fitting import MuSource
from ..estimation.diagnostics import Validity
from ..estimation.influence import InfluenceFunction
from ..estimation.influence_blocks import InfluenceBlocks
from ..estimation.nuisance_estimates import JudgeCorrection, NuisanceEstimates, TargetPopulation
from ..estimation.one_step_result import EstimandName, OneStepResult
from ..estimation.uniform_pairs import UniformPairs
from ..functionals.protocols import Score
from ..inference.covariance import Covariance
from ..nuisance.judge.verdicts import Verdicts
from ..nuisance.propensity_model.estimate import Propensity
from ..nuisance.training_rows import Folds
from ..options import Options
from .cache import CachedStep
from .display_order import OrderChoice
from .estimand import Setup
from .estimators import Estimator, estimator_named
from .extrapolation import Extrapolation


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What the user handed in: formula, frame and the namespace of the call."""

    formula: str
    data: Any
    environment: EvalEnvironment


@dataclass(frozen=True, slots=True, eq=False)
class Repetition:
    """One deal of folds, the first stages cross-fitted on it, and the one-step estimates from them.

    Attributes
    ----------
    folds : Folds
    mu : MuSource
        Outcome probabilities, with a judge where there is one.
    propensity : Propensity
        P(labelled | x) at the labelled cells.
    one_step_result : OneStepResult
        The one-step estimates.
    floor : float
        Smallest probability of a category; 0 where the functional needs none.
    sample : ndarray of int, shape (s,), or None
        Contexts that F(mu) is averaged over; None where these are all.
    mu_without_judge : MuSource
        mu from human labels alone; ``mu`` itself where there is no judge.
    judge_correction : JudgeCorrection or None
        What verdicts add to the correction.
    judge_propensity : ndarray, shape (r,), or None
        P(judged | x) at the judged cells.
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

    @property
    def nuisances(self) -> NuisanceEstimates:
        """The first stages as the one-step estimator takes them."""
        return NuisanceEstimates(self.mu, self.propensity.cells, self.floor, self.judge_correction)


@dataclass(frozen=True, slots=True, eq=False)
class FitSteps:
    """What every step of a fit has made.

    An estimator with first stages has ``repetitions``, of which there is at least one, and ``validity``; maximum
    likelihood has ``likelihood`` in their place.

    Attributes
    ----------
    options : Options
    source : Source
    data : PreferenceData
    dropped : tuple of str
        Items that were read and are not ranked.
    setup : Setup
    clusters : Clusters or None
    context_weight : ndarray, shape (n,), or None
    blocks : InfluenceBlocks
    annotator : ndarray of int, shape (q,), or None
        The annotator of each block where annotators are clusters.
    influence : InfluenceFunction
        Of the scores, averaged over repetitions.
    win_share : ndarray, shape (K,)
        The share of comparisons that each model wins against its opponents.
    covariance : Covariance
    cache : dict of str to CachedStep
        For an update.
    repetitions : tuple of Repetition
    likelihood : BradleyTerryFit or None
    validity : Validity or None
    order : OrderChoice or None
        Whether display order matters, and what decided it.
    propensity_factor : float or None
        Mean of S / pi over prompts and pairs where propensities are given; None elsewhere.
    verdicts : Verdicts or None
    extrapolation : Extrapolation
        Pairs that the scores are made of although nobody compared them.
    uniform : UniformPairs or None
        Compared pairs whose labels all say the same; None where there is none.
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
    likelihood: BradleyTerryFit | None = None
    validity: Validity | None = None
    order: OrderChoice | None = None
    propensity_factor: float | None = None
    verdicts: Verdicts | None = None
    extrapolation: Extrapolation = field(default_factory=Extrapolation)
    uniform: UniformPairs | None = None

    @property
    def estimator(self) -> Estimator:
        """How the scores are estimated."""
        return estimator_named(self.options.estimator)

    @property
    def first(self) -> Repetition:
        """The first repetition, of an estimator with first stages."""
        assert self.repetitions, f"{self.options.estimator} has no first stages"
        return self.repetitions[0]

    @property
    def sample(self) -> IntArray | None:
        """Contexts that F(mu) is averaged over in the first repetition, (s,); None where these are all."""
        return self.repetitions[0].sample if self.repetitions else None

    @property
    def folds(self) -> Folds:
        """Folds of the first repetition."""
        return self.first.folds

    @property
    def mu(self) -> MuSource:
        """Probabilities of the first repetition."""
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
        # Nothing changes the steps of a fit, and learners of all kinds and patsy's transforms cannot be copied.
        return self

    def population(self, repetition: Repetition) -> TargetPopulation:
        """The contexts whose mean a repetition estimates."""
        return TargetPopulation(self.context_weight, repetition.sample)

    def hidden_covariance(self, score: Score, *, pooled: bool = True) -> FloatArray | None:
        """What labels without variation hide of the covariance of a score's debiased estimate; None for nothing."""
        if self.uniform is None or not self.estimator.is_debiased:
            return None
        return self.uniform.covariance(score, self.first.floor, pooled=pooled)

    def influence_of(self, estimand: EstimandName) -> InfluenceFunction:
        """Influence of an estimand, averaged over repetitions, not debiased for the plug-in."""
        return self.estimator.average([r.one_step_result.influence(estimand) for r in self.repetitions])
