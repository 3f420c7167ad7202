"""What a result keeps when data and learners are gone: numbers, labels and how they came about."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from .data.graph import Graph
from .data.preferences import FloatArray, PreferenceData
from .functionals.base import output_names
from .inference.covariance import Covariance
from .inference.simultaneous import critical_value
from .judging import JudgeFigures, judge_figures
from .nuisance.classifiers import learner_name
from .nuisance.learners import ConstantMu
from .nuisance.propensity import Propensity
from .nuisance.smooth_boosting import SmoothBoostedMu
from .pipeline import covariance_of
from .steps import Steps

_TINY = 1e-15
# Estimators that assume a model say so in the functional's name.
_LABELS = {"bt_mle": "bt (maximum likelihood)", "bt_restricted": "bt (model assumed)"}


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
        assumption); NaN where labels or their order do not vary.
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
        Pairs compared without enough labels (``graph="complete"`` or a given graph).
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
    subsample : int
        Prompts that F(mu) is averaged over; 0 where all are.
    subsample_price : float
        What that adds to the standard errors, as a share; the largest over models.
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


@dataclass(frozen=True, slots=True)
class Design:
    """What the fit was made from: the counts and choices of the summary's header."""

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
    outputs : tuple of str
        Names of what is estimated where these are not the models' scores; empty where they are.
    part : str
        Of what part of the contexts the scores are, such as ``"category = coding"``; empty where of all.
    judge : JudgeFigures or None
        What judges said and bought, in the unit of the functional.
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
    design: Design
    diagnostics: Diagnostics
    scale: Scale = Scale()
    part: str = ""
    judge: JudgeFigures | None = None
    outputs: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What the d estimates are called: the models, or the outputs."""
        return self.outputs or self.models

    @property
    def of_models(self) -> bool:
        """Whether the estimates are scores of the models, which can be ranked."""
        return not self.outputs

    def against_neutral(self) -> tuple[FloatArray, FloatArray]:
        """Distance of each score from the neutral value, (d,), and its standard error, (d,)."""
        n_models = len(self.names)
        if self.neutral is not None:
            return self.estimate - self.neutral, self.covariance.std_errors
        centring = np.eye(n_models) - 1 / n_models
        variance = np.diag(centring @ self.covariance.matrix @ centring)
        return centring @ self.estimate, np.sqrt(np.maximum(variance, 0.0))


def collect(steps: Steps, given_warnings: tuple[str, ...]) -> Estimates:
    """The estimates of a fit."""
    functional, data, o = steps.setup.functional, steps.data, steps.options
    gauge = functional.gauge(data.n_items)
    names = output_names(functional, data.items)
    position = (np.nan, np.nan) if steps.likelihood else position_test(steps)
    return Estimates(
        models=data.items,
        functional=functional.name,
        functional_label=_LABELS.get(o.estimator, functional.label),
        estimator=o.estimator,
        estimate=steps.influence.estimate,
        plugin=steps.influence.plugin,
        shares=steps.influence_of(1).estimate,
        covariance=steps.covariance,
        critical=critical_value(steps.covariance, o.alpha),
        alpha=o.alpha,
        neutral=functional.neutral(data.n_items),
        reason=gauge.reason,
        fixed=gauge.fixed,
        graph=steps.setup.graph,
        design=_design(steps),
        diagnostics=_diagnostics(steps, position, given_warnings),
        outputs=() if names == data.items else names,
        judge=judge_figures(steps),
    )


def _design(steps: Steps) -> Design:
    data, o, weights = steps.data, steps.options, steps.setup.weights
    votes = data.pair_votes()
    ties = zip(data.categories[2:], weights.first[2:], weights.second[2:], strict=True)
    return Design(
        formula=steps.source.formula,
        outcome=steps.source.formula.split("~")[0].strip(),
        context=o.context,
        n_contexts=data.n_contexts,
        n_unlabelled=data.n_unlabelled,
        n_comparisons=len(data.cells),
        n_votes=data.n_votes,
        n_rows=data.n_rows,
        n_dropped=data.n_dropped,
        smallest_pair=int((votes + votes.T)[steps.setup.graph.edges].min()),
        categories=data.categories,
        tie_weights=tuple(ties),
        edge_weights=steps.setup.edge_weights,
        learner=_learner(steps),
        n_folds=o.n_folds,
        n_rep=o.n_rep,
        prompts=o.prompts,
        weighted=o.weights is not None,
        ordered=o.position_bias,
        propensity=steps.propensity.how,
        cov_type=o.cov_type,
        clusters=steps.clusters.names if steps.clusters else (),
        seed=o.seed,
        version=version("dmlrank"),
    )


def _learner(steps: Steps) -> str:
    if steps.likelihood:
        return "none"
    if steps.options.mu is not None:
        return "given (mu=)"
    if steps.options.judge_as == "features":
        return "lightgbm, with verdicts"
    models = getattr(steps.mu, "models", ())
    constant = sum(isinstance(getattr(model, "model", model), ConstantMu) for model in models)
    if constant == len(models):
        return "pair frequencies" if steps.data.x.shape[1] == 0 else "category shares"
    boosted = [model.trees is not None for model in models if isinstance(model, SmoothBoostedMu)]
    if boosted:
        return "smooth effects + lightgbm" if any(boosted) else "smooth effects"
    name = learner_name(steps.options.learner)
    return name if not constant else f"{name} ({constant} folds: shares)"


def _diagnostics(steps: Steps, position: tuple[float, float], given_warnings: tuple[str, ...]) -> Diagnostics:
    data, first = steps.data, steps.repetitions[0]
    if steps.likelihood:
        return _likelihood_diagnostics(steps, steps.likelihood.log_loss, given_warnings)
    labels = steps.evaluated.labels
    votes = labels.cells.y * labels.cells.n_votes[:, None]
    share = votes.sum(axis=0) / data.n_votes
    loss = -(votes * np.log(np.maximum(labels.mu, _TINY))).sum() / data.n_votes
    chosen = share[share > 0]
    return Diagnostics(
        log_loss=float(loss),
        log_loss_constant=float(-(chosen * np.log(chosen)).sum()),
        min_propensity=float(_on_graph(steps).min()),
        effective_share=_effective_share(data, steps.propensity),
        propensity_floored=steps.propensity.n_floored,
        position_effect=position[0],
        position_z=position[1],
        mu_floored=steps.evaluated.n_floored,
        mu_entries=steps.evaluated.n_entries,
        pairs_left_out=steps.setup.n_left_out,
        pairs_extrapolated=steps.setup.n_extrapolated,
        models_dropped=steps.dropped,
        labels=data.labels,
        outcome_kind=data.outcome_kind,
        votes_dropped=data.n_votes_dropped,
        contexts_added=data.n_added,
        warnings=given_warnings,
        floor=steps.repetitions[0].floor if steps.setup.functional.interior else 0.0,
        subsample=0 if first.sample is None else len(first.sample),
        subsample_price=first.evaluated.influences[0].price_of_sample,
        **_validity(steps),
    )


def _validity(steps: Steps) -> dict[str, float]:
    validity, errors = steps.validity, steps.covariance.std_errors
    if validity is None:
        return {}
    ratio = np.abs(validity.second_order[errors > 0]) / errors[errors > 0]
    return {
        "calibration": validity.calibration,
        "effective_contexts": float(validity.effective_contexts.min()),
        "second_order": float(ratio.max(initial=0.0)),
    }


def position_test(steps: Steps) -> tuple[float, float]:
    """How much being shown first helps, and its z statistic.

    Where order matters it is a debiased score of its own. Where it is assumed not to, the residuals of pairs shown one
    way round are held against those of pairs shown the other way round.
    """
    if steps.data.ordered:
        influence = steps.influence_of(2)
        covariance = covariance_of(steps, influence, np.empty((0, 1)))
        effect, error = float(influence.estimate[0]), float(covariance.std_errors[0])
        return effect, effect / error if error > 0 else float("nan")
    cells, weights = steps.data.cells, steps.setup.weights
    gap = np.subtract(weights.first, weights.second)
    turned = np.where(cells.flipped, -1.0, 1.0)
    residual = turned * ((cells.y - steps.evaluated.cell_mu) @ gap)
    unit = steps.data.seed_order if steps.clusters is None else steps.clusters.prompt
    spread = np.sqrt((np.bincount(unit[cells.context], weights=residual) ** 2).sum())
    both = cells.flipped.any() and not cells.flipped.all()
    return float(residual.mean()), float(residual.sum() / spread) if both and spread > 0 else float("nan")


def _likelihood_diagnostics(steps: Steps, log_loss: float, given_warnings: tuple[str, ...]) -> Diagnostics:
    return Diagnostics(
        log_loss=log_loss,
        log_loss_constant=float(np.log(2)),
        min_propensity=np.nan,
        effective_share=np.nan,
        propensity_floored=0,
        position_effect=np.nan,
        position_z=np.nan,
        mu_floored=0,
        mu_entries=0,
        pairs_left_out=steps.setup.n_left_out,
        pairs_extrapolated=0,
        models_dropped=steps.dropped,
        labels=steps.data.labels,
        outcome_kind=steps.data.outcome_kind,
        warnings=given_warnings,
    )


def _on_graph(steps: Steps) -> FloatArray:
    cells = steps.data.cells
    return steps.propensity.cells[steps.setup.graph.edges[cells.first, cells.second]]


def _effective_share(data: PreferenceData, propensity: Propensity) -> float:
    """(sum w)^2 / sum w^2 over a pair's labels with w = 1 / pi, divided by their number: the smallest over pairs."""
    pair = data.cells.first * data.n_items + data.cells.second
    weight = 1 / propensity.cells
    count, total, square = (np.bincount(pair, weights=w) for w in (np.ones_like(weight), weight, weight**2))
    seen = count > 0
    return float((total[seen] ** 2 / (square[seen] * count[seen])).min())
