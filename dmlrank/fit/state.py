"""The state of a fit: its formula, frame and options, what it has learnt and kept, and its estimates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..exceptions import DmlrankWarning
from ..functionals import Functional
from ..inference.covariance import Covariance
from ..nuisance.training_rows import Folds
from ..options import Options
from .compared_pairs import Extrapolation, MeanTarget, OrderChoice, Setup
from .estimators import Estimator, estimator_of

if TYPE_CHECKING:
    from ..data.formula.features import Environment
    from ..data.preferences import Clusters
    from ..data.style_columns import StyleDifferences
    from ..estimation.bt_mle import BradleyTerryFit
    from ..estimation.cross_fitting import FoldUnits, MuSource, SuppliedMu
    from ..estimation.diagnostics import Validity
    from ..estimation.equal_style import EqualStyleTerms, StyleInfluence
    from ..estimation.influence import (
        EstimandName,
        InfluenceBlocks,
        InfluenceFunction,
        OneStepInputs,
        OneStepResult,
    )
    from ..estimation.order_effect import IgnoredOrder, OrderEffect
    from ..estimation.predicted_scores import CorrectedMeans
    from ..estimation.second_order import SecondOrder
    from ..estimation.unanimous_pairs import UnanimousPairs
    from ..nuisance.propensity import Propensity
    from ..nuisance.verdicts import Verdicts


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The source of the data: formula, frame of any kind and the namespace of the call.

    change: Rows of the frame that are "dropped", or whose labels are "dropped labels" or "flipped labels", for a refit.
    copies (rows,): Of a table of counts, the number of votes that each row of ``data`` stands for; None elsewhere.
    written_out: The source of the same votes with a row for each, once a fit or a method has needed it.
    """

    formula: str
    data: object
    environment: Environment
    change: tuple[Literal["dropped", "dropped labels", "flipped labels"], IntArray] | None = None
    copies: IntArray | None = None
    written_out: list[Source] = field(default_factory=list, init=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Which votes depend on each other, and what the contexts weigh.

    blocks: The sets of votes whose corrections are added up: those of a context, or of an annotator on a context.
    clusters: None where contexts are independent.
    annotator (q,): The annotator of each block where annotators are clusters.
    context_weight (n,): Weights of the contexts in the target population; None where these are equal.
    task (n,): The task of each context where all tasks count the same, and contexts are independent within tasks.
    """

    blocks: InfluenceBlocks
    clusters: Clusters | None = None
    annotator: IntArray | None = None
    context_weight: FloatArray | None = None
    task: IntArray | None = None

    def of_blocks(self, data: PreferenceData) -> list[tuple[float, IntArray]]:
        """Return the independent unit of each block, (q,), with the sign 1.

        With two crossed kinds of clusters there are the units of either kind, and their intersections with the sign -1.
        A pair of blocks then counts once if it shares a unit of any kind.
        """
        context = self.blocks.context
        first = self.of_contexts(data)[context]
        second = self.annotator
        if second is None and self.clusters is not None and self.clusters.second_of_context is not None:
            second = self.clusters.second_of_context[context]
        if second is None:
            return [(1.0, first)]
        return [(1.0, first), (1.0, second), (-1.0, first * (int(second.max()) + 1) + second)]

    @property
    def cluster(self) -> IntArray | None:
        """The cluster of each context, (n,), of the first kind; None where contexts are independent."""
        return None if self.clusters is None else self.clusters.of_context

    def weights(self, data: PreferenceData) -> FloatArray:
        """Return the weight of each context in the target population, (n,), with mean one."""
        return np.ones(len(data.x)) if self.context_weight is None else self.context_weight

    def of_contexts(self, data: PreferenceData) -> IntArray:
        """Return the number of the independent unit of each context, (n,): its cluster, or its own."""
        return data.seed_order if self.cluster is None else self.cluster


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A result that an update uses again where its key is the same, with the warnings that were given for it.

    key: The data, earlier results and values of options on which the result depends.
    """

    key: tuple[object, ...]
    result: Any
    warnings: tuple[DmlrankWarning, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Everything that all repetitions of a fit share.

    mu: Probabilities that the user supplied.
    n_folds: Folds of the cross-fitting, at most as many as there are clusters.
    style: Style differences of the votes, for scores at equal style.
    """

    data: PreferenceData
    display_order: OrderChoice
    setup: Setup
    extrapolation: Extrapolation
    units: Units
    verdicts: Verdicts | None
    mu: SuppliedMu | None
    n_folds: int
    fold_units: FoldUnits
    style: StyleDifferences | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Repetition:
    """One repetition: an assignment to folds, the first stages cross-fitted on it, and the one-step estimates.

    mu_without_judge, propensity, judge_propensity: As in :class:`dmlrank.fit.stages.Learnt`.
    inputs: What estimates are made from by one step, mu among it.
    one_step_result, before_change: The one-step estimates of the scores, the win shares and the position effect, with
        the second-order step u where it is added to the scores, and before.
    mean: The functional, linearised at the mean preferences, with ``average="preferences"`` and a non-linear
        functional; None elsewhere.
    order_effect: The effect of display order that is taken off the scores; None where none is.
    style_influence: Influence of the scores at equal style, the averaged scores and the slopes.
    """

    mu_without_judge: MuSource
    propensity: Propensity
    judge_propensity: FloatArray | None
    folds: Folds
    inputs: OneStepInputs
    one_step_result: OneStepResult
    before_change: OneStepResult
    mean: MeanTarget | None = None
    second_order: SecondOrder | None = None
    order_effect: OrderEffect | None = None
    style_terms: EqualStyleTerms | None = None
    style_influence: StyleInfluence | None = None

    @property
    def target(self) -> InfluenceFunction:
        """Influence of the scores that are reported: at equal style where this adjustment is made."""
        return self.one_step_result.target if self.style_influence is None else self.style_influence.equal

    @property
    def change(self) -> InfluenceFunction | None:
        """The second-order step u with its influence values, added to the scores or not; None where none is known."""
        return None if self.second_order is None else self.second_order.influence(self.target)


# P value below which graded answers are said not to be like the others.
LEAST_LIKELY = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class GradeFigures:
    """How judges of L columns compare with the grades of K models, on the scale of the grades.

    answers, graded, judged (K,): Number of answers, of those with a grade, and of those with a score of every judge.
    alone, alone_errors (K,): Means of the grades alone, and their standard errors.
    judge, judge_errors (K,): Means of a + b J, the line through all graded answers; errors are about the judge.
    favour (K,): ``judge`` less the estimate, less the mean of this over models; favour_covariance (K, K).
    correlation (K,): Of grades and a + b J.
    worth (K,): Number of grades that would be as precise without a judge; NaN with few grades.
    explained (L + 1,): Share of the variance of grades within models that each judge explains out of fold, and all
        together with what else predicts grades.
    unlike (L,): By how much the judge's scores of graded answers are above those of the others; unlike_p: P value of
        the joint test that graded answers were drawn as the propensities say, or at random where they are estimated.
    """

    names: tuple[str, ...]
    answers: IntArray
    graded: IntArray
    judged: IntArray
    alone: FloatArray
    alone_errors: FloatArray
    judge: FloatArray
    judge_errors: FloatArray
    favour: FloatArray
    favour_covariance: FloatArray
    correlation: FloatArray
    worth: FloatArray
    explained: FloatArray
    unlike: FloatArray
    unlike_p: float


@dataclass(frozen=True, slots=True, eq=False)
class JudgeFigures:
    """Figures of the judges of a fit, and its estimates without them; J judges, K models.

    how: The option ``judge_as``: how the verdicts are used.
    n_verdicts, n_unlabelled: Number of judged pairs, and of judged pairs without a human label.
    compared (J, 2): Number of pairs with a verdict and a human label, and of those that neither called a tie.
    agreement, kappa (J, 2): Share of pairs with the same winner, Cohen's kappa: of these pairs, of those without ties.
    position, human_position (J, 3): Share of verdicts, and of human labels on the pairs with a verdict, for the answer
        shown first, for the second, and of ties.
    both_orders (J, 2): Number of pairs judged in both orders, and of those with the same winner in both.
    log_loss (3,): Out-of-fold log-loss at the labelled pairs that were judged: of mu without the judge, of mu with the
        judge, and of P(label | x, verdict).
    alone, alone_errors (K,): Scores and standard errors of the same fit without the judge, from human labels alone.
    errors (K,): Standard errors of the fit with the judge.
    worth: Further human votes that would make the fit without judge as precise; infinite where no number would.
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


@dataclass(frozen=True, slots=True, eq=False)
class StyleEstimates:
    """What a result keeps of an adjustment for style.

    deviations (r,): Root mean square of each style difference over the votes.
    estimate (3 K + r,): Raw scores, scores averaged over style, scores at equal style, and slopes, with their joint
        covariance.
    log_loss, log_loss_without: Out-of-fold log-loss per vote of the preference with and without style.
    """

    columns: tuple[str, ...]
    deviations: FloatArray
    n_votes: int
    estimate: FloatArray
    covariance: Covariance
    log_loss: float
    log_loss_without: float

    @property
    def n_models(self) -> int:
        """Number of models, K."""
        return (len(self.estimate) - len(self.columns)) // 3

    def scores(self, which: str) -> FloatArray:
        """Return the scores "raw", "averaged" or "equal", (K,)."""
        return self.estimate[self._place(which)]

    def errors(self, which: str) -> FloatArray:
        """Return the standard errors of the scores "raw", "averaged" or "equal", (K,)."""
        return self.covariance.std_errors[self._place(which)]

    @property
    def slopes(self) -> FloatArray:
        """Slopes on style, (r,)."""
        return self.estimate[3 * self.n_models :]

    @property
    def slope_covariance(self) -> Covariance:
        """Covariance of the slopes, (r, r)."""
        last = slice(3 * self.n_models, None)
        matrix = self.covariance.matrix[last, last]
        return replace(self.covariance, matrix=matrix, basis=np.eye(len(self.columns)), of_scores=None)

    def score_covariance(self, *which: str) -> FloatArray:
        """Return the joint covariance of s vectors of K scores, (K s, K s), named "raw", "averaged" or "equal"."""
        places = np.concatenate([np.arange(len(self.estimate))[self._place(one)] for one in which])
        return self.covariance.matrix[np.ix_(places, places)]

    def rescaled(self, factor: float, shift: float) -> StyleEstimates:
        """Return the estimates with scores factor * score + shift and slopes factor * slope."""
        estimate = factor * self.estimate
        estimate[: 3 * self.n_models] += shift
        return replace(self, estimate=estimate, covariance=self.covariance.scaled(factor))

    def _place(self, which: str) -> slice:
        number = ("raw", "averaged", "equal").index(which)
        return slice(number * self.n_models, (number + 1) * self.n_models)


@dataclass(frozen=True, slots=True, eq=False)
class FitState:
    """The results of a fit, from the data to the covariance of the scores.

    A fit with first stages has ``validity`` and ``repetitions``, and one by maximum likelihood has ``likelihood``.

    data, dropped: Votes on the ranked items, and items that are not ranked.
    influence, covariance: Of the scores; influence values are averaged over repetitions. Where contexts are identical,
        ``influence`` may have one value for each kind of them, and ``by_context()`` returns those of all contexts.
    win_share (K,): The share of comparisons that each model wins against its opponents.
    kept: Results of the stages by name, which an update uses again.
    propensity_factor: As in :class:`dmlrank.fit.estimates.Diagnostics`.
    unanimous: Compared pairs whose labels all agree; None where there are no such pairs.
    style: Joint estimates of scores before and after the adjustment for style, and of the slopes.
    known_propensity (n, K): Propensities of the scores of a table; None where they are estimated, or no score is drawn.
    predictor: How missing scores of a table are predicted; None where none is.
    widening (K,): By what standard errors of means grow where scores are missing; None where none is.
    ignored_order: What votes say of display order; None where it matters in the fit, or the columns have none.
    """

    options: Options
    source: Source
    data: PreferenceData
    dropped: tuple[str, ...]
    setup: Setup
    units: Units
    influence: InfluenceFunction
    win_share: FloatArray
    covariance: Covariance
    kept: dict[str, Kept] = field(repr=False)
    repetitions: tuple[Repetition, ...] = ()
    likelihood: BradleyTerryFit | None = None
    validity: Validity | None = None
    display_order: OrderChoice | None = None
    propensity_factor: float | None = None
    verdicts: Verdicts | None = None
    extrapolation: Extrapolation = field(default_factory=Extrapolation)
    unanimous: UnanimousPairs | None = None
    style: StyleEstimates | None = None
    grades: GradeFigures | None = None
    known_propensity: FloatArray | None = None
    predictor: CorrectedMeans | None = None
    widening: FloatArray | None = None
    ignored_order: IgnoredOrder | None = None

    @property
    def estimator(self) -> Estimator:
        """How the scores are estimated."""
        return estimator_of(self.options)

    @property
    def first(self) -> Repetition:
        """The first repetition of an estimator with first stages."""
        assert self.repetitions, f"{self.options.estimator} has no first stages"
        return self.repetitions[0]

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        # The state of a fit is never changed, and some learners and patsy's transforms cannot be copied.
        return self

    def unanimous_covariance(self, score: Functional, *, pooled: bool = True) -> FloatArray | None:
        """The covariance of an estimate, (d, d), that is added for unanimous pairs; None where nothing is added."""
        if self.unanimous is None or not self.estimator.is_debiased:
            return None
        return self.unanimous.covariance(score, self.first.inputs.floor, pooled=pooled)

    def influence_of(self, estimand: EstimandName) -> InfluenceFunction:
        """Return influence values of an estimand, averaged over repetitions as the estimator prescribes."""
        return self.estimator.average([r.one_step_result.influences[estimand] for r in self.repetitions])
