"""What a result keeps when data and learners are gone: numbers, labels and how they came about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..data.graph import Graph
from ..data.preferences import FloatArray
from ..data.vote_counts import VoteCounts
from ..inference.covariance import Covariance
from ..inference.simultaneous import simultaneous_p_values
from ..inference.z_tests import z_statistics
from .estimators import Estimator, estimator_named
from .judge_value import JudgeFigures


def score_limits(functional: str) -> tuple[float, float]:
    """Smallest and largest possible score of a functional: win shares lie between 0 and 1, others have no limits."""
    return (0.0, 1.0) if functional == "borda" else (-np.inf, np.inf)


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """How well the first stages fit and overlap.

    Maximum likelihood has no first stages: what is about them is NaN or zero, and the log-loss is in-sample.

    Attributes
    ----------
    log_loss, log_loss_constant : float
        Out-of-fold log-loss of mu per vote, and that of the category shares alone.
    min_propensity : float
        Smallest propensity at a labelled cell of a compared pair.
    effective_share : float
        Effective sample size of the weights 1 / pi within a pair, as a share of its labels; the smallest over pairs.
    propensity_floored : int
        Labelled cells at which the floor of estimated propensities bit.
    position_effect : float
        How much larger the share of the model shown first is than that of the other, averaged over the compared pairs.
    position_z : float
        Its z statistic, a test of "order does not matter" (with ``position_bias=False`` a score test of that
        assumption); NaN where labels or their order do not vary, and for estimates without intervals.
    mu_floored : int
        Entries of mu that were raised to the floor, for functionals that need one.
    mu_entries : int
        Entries of mu looked at; 0 where the functional needs no floor.
    floor : float
        The floor of mu; 0 where the functional needs none.
    calibration : float
        Slope of the labels' log-odds on those of mu out of fold: below 1 mu is too extreme, above 1 it is shrunken;
        NaN where mu does not vary.
    effective_contexts : float
        Contexts that the standard errors rest on, (sum phi^2)^2 / sum phi^4; the smallest over models.
    second_order : float
        Bias that the functional's curvature leaves at a noisy mu, in standard errors; the largest over models. NaN
        where it is not known (``mu=`` given).
    pairs_left_out : int
        Pairs with labels, but too few to be compared.
    pairs_extrapolated : int
        Pairs that the scores are made of although nobody compared them (``graph="complete"`` or a given graph).
    models_dropped : tuple of str
        Models left out by ``component=`` or ``min_comparisons=``.
    labels : tuple of (str, str)
        What each label, or column of probabilities, was read as.
    outcome_kind : {"labels", "preferences", "probabilities"}
        What the outcome holds: hard labels, numbers in [0, 1], or one probability per category.
    votes_dropped : int
        Later votes on a prompt and pair that were left out (``votes="first"``).
    contexts_added : int
        Contexts that only the frame of ``unlabelled=`` has.
    warnings : tuple of str
        Warnings given during the fit.
    doubts : tuple of str
        Those of them that say why intervals may not hold.
    subsample : int
        Prompts that F(mu) is averaged over; 0 where all are.
    subsample_price : float
        What that adds to the standard errors, as a share; the largest over models.
    pairs_without_variation : int
        Compared pairs whose labels all say the same.
    models_without_variation : tuple of str
        Models that won, lost or tied everything.
    propensity_factor : float or None
        Mean of S / pi over prompts and pairs, 1 where given propensities are right; None where they are
        estimated, or labels are too few to say.
    """

    log_loss: float
    log_loss_constant: float
    min_propensity: float
    effective_share: float
    propensity_floored: int
    position_effect: float
    position_z: float
    mu_floored: int
    mu_entries: int
    pairs_left_out: int
    pairs_extrapolated: int
    models_dropped: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    outcome_kind: str = "labels"
    votes_dropped: int = 0
    contexts_added: int = 0
    warnings: tuple[str, ...] = ()
    floor: float = 0.0
    calibration: float = float("nan")
    effective_contexts: float = float("nan")
    second_order: float = float("nan")
    subsample: int = 0
    subsample_price: float = 0.0
    doubts: tuple[str, ...] = ()
    pairs_without_variation: int = 0
    models_without_variation: tuple[str, ...] = ()
    propensity_factor: float | None = None


@dataclass(frozen=True, slots=True)
class FitDescription:
    """The description of a fit: the counts and options that its summary's header shows.

    Options stand here under the name that :attr:`dmlrank.options.Option.described_as` gives them. ``ordered`` says
    whether display order matters, and ``order_reason`` what decided it where ``position_bias="auto"`` did.
    """

    formula: str
    outcome: str
    context: tuple[str, ...]
    n_contexts: int
    n_unlabelled: int
    n_comparisons: int
    n_votes: int
    n_rows: int
    n_dropped: int
    smallest_pair: int
    categories: tuple[str, ...]
    tie_weights: tuple[tuple[str, float, float], ...]
    edge_weights: str
    learner: str
    n_folds: int
    n_rep: int
    prompts: str
    weighted: bool
    ordered: bool
    propensity: str
    cov_type: str
    clusters: tuple[str, ...]
    seed: int
    version: str
    order_reason: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """In what unit scores are shown: factor * score + shift.

    Attributes
    ----------
    name : str
        ``"natural"``, ``"elo"``, ``"log-odds"`` or the factor in words.
    factor, shift : float
    mean : float or None
        The mean score that was asked for.
    anchor : tuple of (str, float), or None
        The model and the score of it that were asked for.
    """

    name: str = "natural"
    factor: float = 1.0
    shift: float = 0.0
    mean: float | None = None
    anchor: tuple[str, float] | None = None

    @property
    def natural(self) -> bool:
        """Whether scores are shown as the functional gives them."""
        return self.name == "natural"

    @property
    def request(self) -> str | float:
        """What was asked for, to ask for it again."""
        return self.name if self.name in ("elo", "log-odds") else self.factor

    def of(self, scores: FloatArray) -> FloatArray:
        """Scores of the functional in this unit."""
        return self.factor * scores + self.shift


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Scores with their covariance: of the d = K models, or d other numbers with names of their own.

    Attributes
    ----------
    models : tuple of str
        The K models.
    functional, functional_label, estimator : str
    estimate, plugin : ndarray, shape (d,)
        Scores and their plug-in estimates.
    shares : ndarray, shape (K,)
        The share of comparisons each model wins against its opponents.
    covariance : Covariance
    critical : float
        Critical value of the simultaneous intervals at ``alpha``.
    neutral : float or None
        Score of a model as good as the others; None where each score is tested against the mean score.
    reason : str
        What the functional fixes.
    fixed : ndarray of bool, shape (d,)
        Scores that are constants whatever the data say.
    scale : Scale
        In what unit ``estimate``, ``plugin``, ``covariance`` and ``neutral`` are.
    extrapolation : str
        Which pairs were never compared, so that there are no intervals, and what has some; empty where there are none.
    outputs : tuple of str
        Names of what is estimated where these are not the models' scores; empty where they are.
    part : str
        Of what part of the contexts the scores are, such as ``"category = coding"``; empty where of all.
    judge : JudgeFigures or None
        What judges said and bought, in the unit of the functional.
    votes : VoteCounts or None
        Votes of each model, on compared pairs and in all; None in results stored by versions that did not count them.
    """

    models: tuple[str, ...]
    functional: str
    functional_label: str
    estimator: str
    estimate: FloatArray
    plugin: FloatArray
    shares: FloatArray
    covariance: Covariance
    critical: float
    alpha: float
    neutral: float | None
    reason: str
    fixed: NDArray[np.bool_]
    graph: Graph
    description: FitDescription
    diagnostics: Diagnostics
    scale: Scale = Scale()
    part: str = ""
    judge: JudgeFigures | None = None
    outputs: tuple[str, ...] = ()
    extrapolation: str = ""
    votes: VoteCounts | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What the d estimates are called: the models, or the outputs."""
        return self.outputs or self.models

    @property
    def estimated_by(self) -> Estimator:
        """The estimator: what it assumes, and whether its intervals are valid."""
        return estimator_named(self.estimator)

    @property
    def why_no_intervals(self) -> str:
        """Why these are estimates without intervals, and what has some; empty where they have intervals."""
        return self.estimated_by.why_no_intervals or self.extrapolation

    @property
    def has_intervals(self) -> bool:
        """Whether there are standard errors, intervals and tests that hold."""
        return not self.why_no_intervals

    @property
    def std_errors(self) -> FloatArray:
        """Standard errors, (d,); NaN where there are no intervals."""
        errors = self.covariance.std_errors
        return errors if self.has_intervals else np.full_like(errors, np.nan)

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest possible score: those of win shares, 0 and 1 in the unit shown; else infinite."""
        low, high = sorted(float(self.scale.of(np.array(end))) for end in score_limits(self.functional))
        return low, high

    def intervals(self, critical: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of intervals whose half-width is ``critical`` standard errors, within the limits."""
        half_width, limits = critical * self.std_errors, self.limits
        low, high = (np.clip(self.estimate + sign * half_width, *limits) for sign in (-1, 1))
        return low, high

    @property
    def of_models(self) -> bool:
        """Whether the estimates are scores of the models, which can be ranked."""
        return not self.outputs

    def against_neutral(self) -> tuple[FloatArray, FloatArray]:
        """Distance of each score from the neutral value, (d,), and its standard error, (d,), NaN without intervals."""
        n_models = len(self.names)
        if self.neutral is not None:
            return self.estimate - self.neutral, self.std_errors
        centring = np.eye(n_models) - 1 / n_models
        variance = np.diag(centring @ self.covariance.matrix @ centring)
        errors = np.sqrt(np.maximum(variance, 0.0))
        return centring @ self.estimate, errors if self.has_intervals else np.full_like(errors, np.nan)

    def adjusted_p_values(self) -> FloatArray:
        """Two-sided p-values of each score against the neutral value, adjusted for all of them by max-t, (d,).

        Where the neutral value is a number, they are below alpha exactly where the simultaneous interval excludes it.
        """
        centring = None if self.neutral is not None else np.eye(len(self.names)) - 1 / len(self.names)
        return simultaneous_p_values(self.covariance, z_statistics(*self.against_neutral()), centring)
