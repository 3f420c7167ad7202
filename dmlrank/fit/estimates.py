"""The estimates of a fit: the numbers, names and descriptions that a result keeps without data and learners."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..data.derived_pairs import DERIVED_KINDS, DerivedPairs
from ..data.frames import period_of
from ..data.graph import Graph, VoteCounts
from ..data.preferences import FloatArray
from ..estimation.diagnostics import effective_contexts
from ..estimation.influence import mean_influence
from ..exceptions import DmlrankWarning, IntervalWarning
from ..functionals import Functional, kind_of
from ..functionals.linear_scores import MeanScore, PositionEffect
from ..inference.confidence_sequence import ConfidenceSequence
from ..inference.covariance import Covariance, clip_to_limits
from ..inference.score_limits import ContrastLaw
from ..inference.wald import two_sided_p_values
from ..nuisance.outcome_model.cross_fit import ConstantMu
from ..nuisance.training_rows import log_loss
from ..options import EqualTasks
from ..tables.summary_table import Summarised, Summary, fixed_text
from .estimators import MEANS, Estimator, estimator_named
from .fit_covariance import covariance_of, one_sided_models, shares_of
from .state import FitState, GradeFigures, JudgeFigures, StyleEstimates


@dataclass(frozen=True, slots=True)
class Diagnostics(Summarised):
    """Diagnostics of a fit: quality of the first stages, data that were left out, warnings.

    Maximum likelihood has no first stages: figures of first stages are NaN or zero, and the log-loss is in-sample.

    Attributes
    ----------
    n_votes, n_comparisons : int
        Number of votes, and of labelled cells (a prompt with an ordered pair); for means of scores, of scores, and of
        prompts times models.
    categories : tuple of str
        Meanings of the outcome categories, in the order of the last axis of mu, which a user's functional gets.
    cov_type : str
        Type of covariance.
    log_loss, log_loss_constant : float
        Out-of-fold log-loss of mu per vote, and the log-loss of a constant prediction, the shares of the categories.
    min_propensity : float
        Smallest propensity at a labelled cell of a compared pair.
    effective_share : float
        Effective sample size of the weights 1 / pi within a pair, as a share of its labels; the smallest over pairs.
    propensity_floored : int
        Labelled cells whose estimated propensity was raised to the floor.
    position_effect : float
        Win share of the model shown first minus the win share of the other model, averaged over the compared pairs.
    position_z : float
        z statistic of the position effect, a test of "order does not matter" (with ``position_bias=False`` a score test
        of this assumption); NaN where labels or their order do not vary, and for estimates without intervals.
    uneven_orders : tuple of (str, float)
        Models that are not shown first in about half of their labels, with the share, where order is ignored.
    order_of_lead : float
        Where most pairs were shown in one order only, of how many of 100 comparisons a model would have to win when it
        is shown first for this alone to make the lead of the first over the second model; 0 elsewhere.
    order_effect, order_effect_error : float
        What being shown first adds to the log-odds of a win (to the share of wins in a fit of Borda scores), and its
        standard error: by ``bt_mle`` with ``position_bias=True``, and where an effect that was estimated in the pairs
        shown in both orders is taken off the scores; 0 elsewhere.
    mu_floored : int
        Entries of mu that were raised to the floor, for functionals that need a floor.
    mu_entries : int
        Entries of mu that were compared with the floor; 0 where the functional needs no floor.
    floor : float
        The floor of mu; 0 where the functional needs none.
    calibration : float
        Slope of the labels' log-odds on those of mu out of fold: below 1 mu is too extreme, above 1 mu is too close to
        the mean; NaN where mu does not vary.
    effective_contexts : float
        Effective number of contexts behind a standard error, (sum phi^2)^2 / sum phi^4; the smallest over models.
    models_with_few_prompts : tuple of str
        Models whose standard error rests on the equivalent of fewer than three prompts; they get no rank, only a set.
    second_order : float
        Estimated bias that one-step scores have because the functional is curved and mu is estimated with error, in
        standard errors; the largest over models. 0 for linear functionals, NaN where no estimate is available.
    second_order_by_model : tuple of (str, float, float)
        Each model with this bias and the standard error of its estimate, both in standard errors of the score.
    second_order_treatment : {"removed", "partly removed", "left in"}
        Whether the scores are without this bias; "partly removed" where the labels are too few to see all of it.
    pairs_left_out : int
        Pairs that have labels and are not compared, because they have too few labels or ``graph=`` leaves them out.
    pairs_extrapolated : int
        Pairs without labels that the scores use (``graph="complete"`` or a graph of the caller).
    models_dropped : tuple of str
        Models left out by ``component=``.
    labels : tuple of (str, str)
        Each label, or column of probabilities, with the meaning that it was read as.
    outcome_kind : {"labels", "winners", "grades", "preferences", "probabilities", "counts", "scores", "ranks"}
        Kind of outcome: labels, numbers in [0, 1], or one probability per category.
    warnings : tuple of str
        Warnings given during the fit.
    doubts : tuple of str
        The part of ``warnings`` that is about standard errors, intervals and tests that may not hold.
    doubtful_models : tuple of str
        The models that all doubts are about; empty where comparisons among the others may not hold either.
    pairs_without_variation : int
        Number of compared pairs whose labels all agree.
    models_without_variation : tuple of str
        Models that won, lost or tied all their votes.
    propensity_factor : float or None
        Mean of S / pi over prompts and pairs, where S is 1 for a labelled pair and 0 otherwise; near 1 where supplied
        propensities pi are right. None where propensities are estimated, or labels are too few to tell.
    means_raised : int
        Pairs whose mean preferences were raised to a floor, with ``average="preferences"``.
    bias_subtracted : float
        Second-order bias that was subtracted from the scores, with ``average="preferences"``, in standard errors; the
        largest over models.
    """

    n_votes: int = 0
    n_comparisons: int = 0
    categories: tuple[str, ...] = ()
    cov_type: str = ""
    log_loss: float = float("nan")
    log_loss_constant: float = float("nan")
    min_propensity: float = float("nan")
    effective_share: float = float("nan")
    propensity_floored: int = 0
    position_effect: float = float("nan")
    position_z: float = float("nan")
    mu_floored: int = 0
    mu_entries: int = 0
    pairs_left_out: int = 0
    pairs_extrapolated: int = 0
    models_dropped: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    outcome_kind: str = "labels"
    warnings: tuple[str, ...] = ()
    floor: float = 0.0
    calibration: float = float("nan")
    effective_contexts: float = float("nan")
    models_with_few_prompts: tuple[str, ...] = ()
    second_order: float = float("nan")
    doubts: tuple[str, ...] = ()
    pairs_without_variation: int = 0
    models_without_variation: tuple[str, ...] = ()
    propensity_factor: float | None = None
    means_raised: int = 0
    bias_subtracted: float = 0.0
    uneven_orders: tuple[tuple[str, float], ...] = ()
    order_of_lead: float = 0.0
    order_effect: float = 0.0
    order_effect_error: float = 0.0
    second_order_by_model: tuple[tuple[str, float, float], ...] = ()
    second_order_treatment: str = "left in"
    doubtful_models: tuple[str, ...] = ()

    @property
    def largest_second_order(self) -> tuple[str, float, float]:
        """The entry of ``second_order_by_model`` with the largest bias; without a name and zero where there is none."""
        return max(self.second_order_by_model, key=lambda entry: abs(entry[1]), default=("", 0.0, 0.0))

    def summary(self, title: str | None = None) -> Summary:
        """Return the table for a report, under a ``title``: figures of this fit with meanings; warnings are notes."""
        columns = (("value", 1), ("meaning", 1))
        notes = self.warnings or ("The fit gave no warnings.",)
        table = Summary("Diagnostics", (), columns, tuple(_figures(self)), notes, row_head="figure", text_columns=(2,))
        return table.with_title(title)


@dataclass(frozen=True, slots=True)
class FitDescription:
    """The description of a fit: the counts and options that the header of its summary shows.

    outcome: The left side of the formula.
    context: Columns that identify a context; empty where every row is one.
    n_comparisons, n_votes: Number of labelled cells, and of votes. For means of scores, number of prompts times models,
        and number of scores.
    n_dropped: Number of rows that were left out for missing values.
    smallest_pair: Votes on the compared pair with the fewest votes.
    tie_weights: Each category of ties, with its weights for the first and the second model.
    edge_weights: How the pairs are weighted: "equal", "counts", "given" or "votes".
    learner, propensity: The learner of mu and the source of the propensities, in words.
    order_reason: Why display order matters or does not, where ``position_bias="auto"`` decided; empty elsewhere.
    date: Day on which the fit was made (UTC), such as "2026-03-31".
    period: First and last day in the data, where the user's frame has one column of times; empty elsewhere.
    n_filled, filled_with: Missing scores, runs included, that count as a value (``missing=0.0``), and this value.
    equal_tasks: Column of the tasks that all count the same (``weights=EqualTasks(...)``); empty elsewhere.
    runs_there: How many runs of a table of scores have a score; empty where all have one, or gaps have another reason.
    runs_lost: Lost runs of each model; empty where no run is lost, or gaps have another reason.
    score_range: Smallest and largest mean score of a model on a prompt, for means of scores; empty elsewhere.
    n_names_changed: Names of models that had outer blanks or another Unicode form than NFC.
    rows_lost: Numbers of rows that are no votes on these models, with the reason; empty where a row has no vote itself.
    models_apart: Models with few votes, which count in no score but their own.
    share_modelled: By model, the share of prompts in clusters on which it was never run; empty where none is modelled.
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
    average: str = "scores"
    date: str = ""
    period: tuple[str, ...] = ()
    n_filled: int = 0
    filled_with: float = 0.0
    equal_tasks: str = ""
    runs_there: str = ""
    runs_lost: tuple[int, ...] = ()
    score_range: tuple[float, ...] = ()
    n_names_changed: int = 0
    lower_is_better: bool = False
    tie_share: float = 0.0
    rows_lost: tuple[tuple[str, int], ...] = ()
    models_apart: tuple[str, ...] = ()
    share_modelled: tuple[float, ...] = ()


# Right sides of formulas without features.
NO_FEATURES = ("1", "0", "0 + 1", "1 + 0", "-1")
# Units of log-odds by name, with the factors that make them.
UNITS = {"elo": 400 / float(np.log(10)), "log-odds": 1.0}


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale on which scores are shown: factor * score + shift.

    name: ``"natural"``, ``"elo"``, ``"log-odds"`` or the factor in words.
    mean: Mean score that the user asked for; None where the user fixed the score of a model, or asked for no shift.
    anchor: The model whose score the user fixed, with this score; None where no score is fixed.
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
        """The unit or factor that the user asked for."""
        return self.name if self.name in UNITS else self.factor

    @staticmethod
    def name_of(factor: float) -> str:
        """Return the name of a factor that has no unit."""
        return f"{factor:g} times"

    def of(self, scores: FloatArray) -> FloatArray:
        """Return scores of the functional on this scale."""
        return self.factor * scores + self.shift


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Estimates with their covariance: d = K scores of the models, or d other numbers with their own names.

    functional, functional_label: Name of the functional, and its label with the assumption of the estimator.
    shares (K,): The share of comparisons each model wins against its opponents.
    critical: Critical value of the simultaneous intervals at ``alpha``, one minus the level of the fit.
    neutral: Score of a model that is as good as the others; None where each score is tested against the mean score.
    reason: Why the covariance is singular: the constraint that the functional fixes.
    fixed (d,): Scores that are constant whatever the data are.
    scale: Scale of ``estimate``, ``plugin``, ``covariance`` and ``neutral``.
    extrapolation: Why there are no intervals where the scores use pairs without labels; empty where all have labels.
    outputs: Names of the estimates where these are not the models' scores; empty where they are.
    part: The part of the contexts that the scores are about, such as ``"category = coding"``; empty for all contexts.
    judge, style: Figures of the judges on the scale of the functional, and of the style on that of ``estimate``.
    grades: Figures of the judges of a table of scores, on the scale of the functional.
    sequence: What was fixed before the first look, in a view whose intervals and tests hold at all looks; None where
        they hold for one look.
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
    grades: GradeFigures | None = None
    outputs: tuple[str, ...] = ()
    extrapolation: str = ""
    votes: VoteCounts | None = None
    style: StyleEstimates | None = None
    sequence: ConfidenceSequence | None = None

    @property
    def modes(self) -> frozenset[str]:
        """What this result is and has, in the words by which facts (``report/facts.py``) say of which they hold."""
        d, kind = self.description, self.diagnostics.outcome_kind
        is_known = self.kind is not Functional
        holds = {
            "models": self.of_models,
            "intervals": self.has_intervals,
            "warned": bool(self.diagnostics.warnings),
            "curved": is_known and not self.kind.linear,
            "linear": self.averages_preferences or (is_known and self.kind.linear),
            "averaged": d.average == "preferences",
            "features": d.formula.split("~", 1)[-1].split("|")[0].strip() not in NO_FEATURES,
            "context": bool(d.context),
            "clusters": bool(d.clusters),
            "fixed": d.prompts == "fixed",
            "drawn": d.propensity == "given",
            "gaps": d.n_comparisons < d.n_contexts * len(self.names),
            "tasks": bool(d.equal_tasks),
            "ordered": d.ordered,
            "derived": kind in DERIVED_KINDS,
            "style": self.style is not None,
            "judge": self.judge is not None,
            "looks": self.sequence is not None,
            "part": bool(self.part),
        }
        return self.estimated_by.modes | {mode for mode, is_so in holds.items() if is_so}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the d estimates: the models, or the outputs."""
        return self.outputs or self.models

    @property
    def estimated_by(self) -> Estimator:
        """The estimator: what it assumes, and whether its intervals are valid."""
        return estimator_named(self.estimator)

    @property
    def are_means(self) -> bool:
        """Whether the estimates are means of scores."""
        return self.estimated_by is MEANS

    @property
    def counts(self) -> str:
        """What the data are counted in: votes, comparisons on a prompt that follow from scores or ranks, or scores."""
        is_derived = self.diagnostics.outcome_kind in DERIVED_KINDS
        return "score" if self.are_means else "comparison" if is_derived else "vote"

    @property
    def sign(self) -> int:
        """1 where the highest score is the best, -1 where it is the lowest."""
        return -1 if self.description.lower_is_better else 1

    @property
    def best_end(self) -> str:
        """Which score is the best, in a word."""
        return "highest" if self.sign > 0 else "lowest"

    @property
    def merit(self) -> FloatArray:
        """The scores with the sign that makes the best one the largest, (d,)."""
        return self.sign * self.estimate

    @property
    def why_no_intervals(self) -> str:
        """Why there are no intervals, and which call of ``update`` gives intervals; empty where there are some."""
        return self.estimated_by.why_no_intervals or self.extrapolation

    @property
    def has_intervals(self) -> bool:
        """Whether the estimates have standard errors, intervals and tests."""
        return not self.why_no_intervals

    @property
    def std_errors(self) -> FloatArray:
        """Standard errors, (d,); NaN where there are no intervals."""
        errors = self.covariance.std_errors
        return errors if self.has_intervals else np.full_like(errors, np.nan)

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest possible score on the scale of the result; infinite unless the scores are win shares."""
        low, high = sorted(float(self.scale.of(np.array(end))) for end in self.kind.limits)
        return low, high

    def intervals(self, critical: float) -> tuple[FloatArray, FloatArray]:
        """Return both ends of intervals at a critical value, (d,) each."""
        if not self.has_intervals:
            return np.full_like(self.estimate, np.nan), np.full_like(self.estimate, np.nan)
        return self.covariance.law(self.estimate).limits(critical)

    @property
    def kind(self) -> type[Functional]:
        """Class of the functional, for what is said about its scores; the base class for functionals without a name."""
        return kind_of(self.functional)

    @property
    def quantity(self) -> str:
        """What a mean of scores is, with the column of scores."""
        return f"mean {self.description.outcome}" if self.functional == MeanScore.name else self.functional_label

    @property
    def averages_preferences(self) -> bool:
        """Whether preferences are averaged over prompts before scores are computed, and this makes a difference."""
        return self.description.average == "preferences" and not self.kind.linear

    @property
    def of_models(self) -> bool:
        """Whether the estimates are scores of the models, which can be ranked."""
        return not self.outputs

    @property
    def looks(self) -> str:
        """When intervals and tests hold, as an adverbial clause; empty where they hold for one look."""
        return "" if self.sequence is None else self.sequence.clause

    @property
    def is_unseen(self) -> NDArray[np.bool_]:
        """Whether no vote is on a score's model, (d,): in a group its score is a prediction that is not shown."""
        if self.votes is None or not self.of_models:
            return np.zeros(len(self.names), dtype=bool)
        return np.asarray(self.votes.total == 0)

    def _against_neutral(self) -> ContrastLaw | None:
        """Return the law of each score, without a neutral value less the mean score; None for no test."""
        if not self.has_intervals or (self.neutral is None and len(self.names) == 1):
            return None
        if self.neutral is not None:
            return self.covariance.law(self.estimate)
        centring = np.eye(len(self.names)) - 1 / len(self.names)
        return self.covariance.of_combinations(centring).law(centring @ self.estimate)

    def neutral_statistics(self) -> FloatArray:
        """Return the z statistic of each score against the neutral value, or the mean score, (d,); NaN without one."""
        law = self._against_neutral()
        return np.full_like(self.estimate, np.nan) if law is None else law.statistics(self.neutral or 0.0)

    def p_values(self) -> FloatArray:
        """Return two-sided p-values of the scores against the neutral value, (d,), each for one score."""
        law, z = self._against_neutral(), self.neutral_statistics()
        if self.sequence is not None:
            return self.sequence.boundary().p_values(z)
        return z if law is None else two_sided_p_values(z, law.tails)


def _figures(d: Diagnostics) -> list[tuple[str, str, str]]:
    """Return the figures of a fit with their meanings; those that the fit does not have are left out."""
    rows = list[tuple[str, str, str]]()
    if np.isfinite(d.log_loss):
        rows.append(("log-loss", f"{d.log_loss:.3f}", f"{d.log_loss_constant:.3f} for constant probabilities"))
    if np.isfinite(d.calibration):
        rows.append(("calibration slope of mu", fixed_text(d.calibration, 2), "1 is right; below 1 mu is too extreme"))
    if d.mu_entries:
        counts = f"{d.mu_floored:,} of {d.mu_entries:,} predictions were raised to it"
        rows.append(("floor of mu", f"{d.floor:g}", counts))
    if d.means_raised:
        rows.append(("mean preferences raised", f"{d.means_raised:,}", "to their floor"))
    if d.min_propensity > 0:
        rows.append(("smallest propensity", f"{d.min_propensity:.3g}", "at a label of a compared pair"))
        rows.append(("propensities raised", f"{d.propensity_floored:,}", "estimated propensities below their floor"))
    if np.isfinite(d.effective_share):
        meaning = "of a pair's labels count after weighting; 1 if all weights are equal"
        rows.append(("effective share", f"{d.effective_share:.2f}", meaning))
    if d.propensity_factor is not None:
        rows.append(("mean of S / pi", f"{d.propensity_factor:.3f}", "near 1 where supplied propensities are right"))
    if np.isfinite(d.position_effect):
        z = f"z = {fixed_text(d.position_z, 2)}" if np.isfinite(d.position_z) else "cannot be tested"
        meaning = f"win share of the model shown first minus that of the other; {z}"
        rows.append(("position effect", fixed_text(d.position_effect, 3), meaning))
    if np.isfinite(d.effective_contexts):
        rows.append(("equivalent prompts", f"{d.effective_contexts:,.0f}", "on which a standard error rests, at least"))
    if d.second_order_by_model:
        name, bias, error = d.largest_second_order
        meaning = f"standard errors (own error {error:.2f}), of {name}; {d.second_order_treatment}"
        rows.append(("second-order bias", f"{bias:+.2f}", meaning))
    rows.append(("pairs left out", f"{d.pairs_left_out:,}", "pairs with labels that are not compared"))
    dropped, constant = ", ".join(d.models_dropped), ", ".join(d.models_without_variation)
    left_out = (
        ("pairs extrapolated", d.pairs_extrapolated, "pairs without labels that the scores use"),
        ("models left out", len(d.models_dropped), dropped),
        ("pairs without variation", d.pairs_without_variation, "compared pairs whose labels all agree"),
        ("models without variation", len(d.models_without_variation), constant),
    )
    return rows + [(name, f"{count:,}", meaning) for name, count, meaning in left_out if count]


# Probabilities of labels below this one are raised to it in log-losses, so that no loss is infinite.
SMALLEST_PROBABILITY = 1e-15
# Models whose standard error rests on the equivalent of fewer prompts get no rank.
_FEWEST_PROMPTS = 3.0


def collect(state: FitState, fit_warnings: tuple[DmlrankWarning, ...]) -> Estimates:
    """Return the estimates of a fit; the result draws for their critical value (``inference/simultaneous.py``)."""
    functional, data, options = state.setup.functional, state.data, state.options
    gauge, suffix = functional.gauge(data.n_items), state.estimator.label_suffix
    names = functional.names(data.items)
    estimate, covariance = clip_to_limits(state.influence.estimate, state.covariance, functional.limits)
    covariance = replace(covariance, shares=shares_of(state, state.influence, covariance, functional.limits))
    at_means = [repetition.mean.plugin for repetition in state.repetitions if repetition.mean is not None]
    if state.estimator is MEANS:
        n_scores = data.score_table.n_runs.sum(axis=0)
        votes = VoteCounts(n_scores, n_scores)
    else:
        votes = VoteCounts.of(data.pair_votes(), state.setup.graph)
    description = _description(state)
    judge = None
    if state.verdicts is not None:
        from .post_estimation import judge_figures

        judge = judge_figures(state, state.verdicts)
    shared = {name: getattr(description, name) for name in ("n_votes", "n_comparisons", "categories", "cov_type")}
    return Estimates(
        models=data.items,
        functional=functional.name,
        functional_label=f"bt ({suffix})" if suffix else functional.label,
        estimator=state.estimator.name,
        estimate=estimate,
        plugin=np.asarray(np.mean(at_means, axis=0)) if at_means else state.influence.plugin,
        shares=np.clip(state.win_share, 0.0, 1.0),
        covariance=covariance,
        critical=float("nan"),
        alpha=options.alpha,
        neutral=functional.neutral(data.n_items),
        reason=gauge.reason,
        fixed=gauge.fixed,
        graph=state.setup.graph,
        description=description,
        diagnostics=replace(_diagnostics(state, fit_warnings), **shared),
        outputs=() if names == data.items else names,
        judge=judge,
        grades=state.grades,
        extrapolation=state.extrapolation.reason,
        votes=votes,
        style=state.style,
    )


def _description(state: FitState) -> FitDescription:
    """Return the description of a fit."""
    data, options, weights = state.data, state.options, state.setup.weights
    votes = data.pair_votes()
    ties = zip(data.categories[2:], weights.first[2:], weights.second[2:], strict=True)
    n_comparisons, n_votes, n_unlabelled = data.cells.n_labels, data.n_votes, data.n_unlabelled
    score_range = tuple[float, ...]()
    apart = state.setup.functional.apart
    edges, one_model = state.setup.graph.edges, data.n_contexts if data.n_items == 1 else None
    smallest_pair = one_model or int((votes + votes.T)[edges].min())
    if state.estimator is MEANS:
        scores, is_there = data.score_table, (data.score_table.n_runs > 0).astype(int)
        n_comparisons, n_votes, n_unlabelled = int(is_there.sum()), int(scores.n_runs.sum()), 0
        smallest_pair = one_model or int((is_there.T @ is_there)[edges].min())
        score_range = (float(np.nanmin(scores.mean)), float(np.nanmax(scores.mean)))
    n_filled, runs_there, runs_lost, derived = 0, "", tuple[int, ...](), state.source.data
    are_drawn = state.estimator is MEANS and not options.estimates_propensity
    if isinstance(derived, DerivedPairs) and options.estimates_propensity:
        if state.estimator is MEANS:
            # The same prompts and models as in the numbers of prompts and scores.
            is_used = np.isin(np.arange(len(derived.values)), data.row_index)
            derived = derived.with_enough(options.pairs.min_votes).only(is_used)
        n_filled = 0 if isinstance(options.missing, str) else int(derived.n_missing.sum())
        runs_there = derived.runs_there if isinstance(options.missing, str) and state.grades is None else ""
        if runs_there:
            lost_by_model = dict(zip(derived.models, derived.n_missing.tolist(), strict=True))
            runs_lost = tuple(lost_by_model[name] for name in data.items)
    n_same, n_elsewhere = sum(count for _, count in data.same), data.n_votes_elsewhere
    without = data.n_rows - data.n_dropped - n_same - n_elsewhere - data.n_votes
    lost = (
        ("with missing values", data.n_dropped),
        ("of a model against itself", n_same),
        ("without a vote", without),
        ("with a vote on a model that is left out", n_elsewhere),
    )
    return FitDescription(
        formula=state.source.formula,
        outcome=state.source.formula.split("~")[0].strip() or "none",
        context=options.context,
        n_contexts=data.n_contexts,
        n_unlabelled=n_unlabelled,
        n_comparisons=n_comparisons,
        n_votes=n_votes,
        n_rows=data.n_rows,
        n_dropped=data.n_dropped,
        smallest_pair=smallest_pair,
        categories=data.categories,
        tie_weights=tuple(ties),
        edge_weights=state.setup.weighting,
        learner=_learner(state),
        n_folds=state.first.folds.n_folds if state.repetitions else options.learning.n_folds,
        n_rep=max(1, len(state.repetitions)),
        prompts=options.prompts,
        weighted=options.weights is not None,
        ordered=data.ordered,
        order_reason=state.display_order.reason if state.display_order else "",
        propensity=state.first.propensity.how if state.repetitions else "given" if are_drawn else "not used",
        cov_type=options.cov_type,
        clusters=state.units.clusters.names if state.units.clusters else (),
        seed=options.seed,
        version=__version__,
        average=options.average,
        date=datetime.now(UTC).date().isoformat(),
        period=period_of(state.source.data),
        n_filled=n_filled,
        filled_with=0.0 if isinstance(options.missing, str) else float(options.missing),
        equal_tasks=options.weights.column if isinstance(options.weights, EqualTasks) else "",
        runs_there=runs_there,
        runs_lost=runs_lost,
        score_range=score_range,
        n_names_changed=data.n_names_changed,
        lower_is_better=options.lower_is_better and state.estimator is MEANS,
        tie_share=float(data.cells.n_votes @ data.cells.y[:, 2:].sum(axis=1) / max(data.n_votes, 1)),
        models_apart=() if apart is None else tuple(np.array(data.items)[apart].tolist()),
        rows_lost=() if data.outcome_kind in DERIVED_KINDS or options.adjust is not None else lost,
        share_modelled=_share_modelled(state),
    )


def _share_modelled(state: FitState) -> tuple[float, ...]:
    """Return the share of prompts in clusters on which each model was never run; empty where none is modelled."""
    if state.estimator is not MEANS or state.units.clusters is None or not state.options.estimates_propensity:
        return ()
    from .judges_of_scores import modelled_shares

    shares, _ = modelled_shares(state.data, state.units)
    return tuple(shares.tolist()) if shares.any() else ()


def _learner(state: FitState) -> str:
    """Return the learner of mu in words, such as "smooth effects + lightgbm"."""
    if not state.repetitions:
        return "none"
    if state.options.learning.mu is not None:
        return "given (mu=)"
    if state.options.learning.judge_as == "features":
        return "lightgbm, with verdicts"
    models = getattr(state.first.inputs.mu, "models", ())
    n_constant = sum(isinstance(getattr(model, "model", model), ConstantMu) for model in models)
    if n_constant == len(models):
        return "pair frequencies" if state.data.x.shape[1] == 0 else "category shares"
    from ..nuisance.outcome_model.main_effects import SmoothBoostedMu
    from ..nuisance.outcome_model.user_learners import learner_name

    has_trees = [model.trees is not None for model in models if isinstance(model, SmoothBoostedMu)]
    if has_trees:
        return "smooth effects + lightgbm" if any(has_trees) else "smooth effects"
    name = learner_name(state.options.learner)
    return name if not n_constant else f"{name} (category shares in {n_constant} folds)"


def _diagnostics(state: FitState, fit_warnings: tuple[DmlrankWarning, ...]) -> Diagnostics:
    """Return the diagnostics of a fit."""
    data, setup, errors = state.data, state.setup, state.covariance.std_errors
    likelihood = state.likelihood
    counts = data.pair_counts()
    names, doubts = setup.functional.names(data.items), [w for w in fit_warnings if isinstance(w, IntervalWarning)]
    named = {name for warning in doubts for name in warning.models} if all(one.models for one in doubts) else set()
    figures = Diagnostics(
        log_loss=likelihood.log_loss if likelihood else np.nan,
        log_loss_constant=float(np.log(2)) if likelihood else np.nan,
        pairs_left_out=int(np.triu((counts + counts.T > 0) & ~setup.graph.edges).sum()),
        pairs_extrapolated=state.extrapolation.n_pairs,
        models_dropped=state.dropped,
        labels=data.labels,
        outcome_kind=data.outcome_kind,
        warnings=tuple(map(str, fit_warnings)),
        doubts=tuple(map(str, doubts)),
        doubtful_models=tuple(name for name in names if name in named) if len(named) < len(names) - 1 else (),
        pairs_without_variation=0 if state.unanimous is None else len(state.unanimous.pairs),
        models_without_variation=tuple(name for names in one_sided_models(data, setup).values() for name in names),
    )
    of_order = None
    if likelihood:
        from .direct_fits import order_influence

        of_order = order_influence(state, likelihood)
    if taken_off := [(r.order_effect, r.target) for r in state.repetitions if r.order_effect is not None]:
        of_order = mean_influence([effect.influence(target) for effect, target in taken_off])
    if of_order is not None:
        order_error = float(covariance_of(state, of_order, np.empty((0, 1))).std_errors[0])
        figures = replace(figures, order_effect=float(of_order.estimate[0]), order_effect_error=order_error)
    if state.ignored_order is not None and not taken_off:
        figures = replace(figures, order_of_lead=state.ignored_order.of_lead)
    validity = state.validity
    if state.estimator is MEANS:
        n_effective, drawn = float(effective_contexts(state.influence).min()), state.known_propensity
        least = np.nan if drawn is None else float(drawn[data.score_table.n_runs > 0].min())
        return replace(figures, effective_contexts=n_effective, min_propensity=least)
    if validity is None:
        return figures
    first, result, propensity, mean = state.first, state.first.one_step_result, state.first.propensity, state.first.mean
    position_effect, position_z = estimate_position_effect(state)
    if state.extrapolation.n_pairs or state.estimator.why_no_intervals:
        position_z = float("nan")
    share = result.labels.votes.sum(axis=0) / data.n_votes
    positive_share = share[share > 0]
    is_compared = setup.graph.edges[data.cells.first, data.cells.second]
    few = [data.items[j] for j in np.flatnonzero(validity.effective_contexts < _FEWEST_PROMPTS)]
    # The effective share of the labels of each pair, with weights 1 / pi.
    pair, weight = data.cells.first * data.n_items + data.cells.second, 1 / propensity.cells
    amounts = (np.ones_like(weight), weight, weight**2)
    count, total, square = (np.bincount(pair, weights=w * data.cells.count) for w in amounts)
    effective = total[count > 0] ** 2 / (square[count > 0] * count[count > 0])
    by_model = tuple[tuple[str, float, float], ...]()
    if np.isfinite(validity.second_order).all() and validity.second_order.any():
        ratios = (
            np.stack([validity.second_order, validity.second_order_errors], axis=1)
            / np.where(errors > 0, errors, np.inf)[:, None]
        )
        by_model = tuple((name, float(bias), float(error)) for name, (bias, error) in zip(names, ratios, strict=True))

    def largest(bias: FloatArray) -> float:
        return float((np.abs(bias[errors > 0]) / errors[errors > 0]).max(initial=0.0))

    return replace(
        figures,
        log_loss=log_loss(result.labels.mu, result.labels.votes, smallest=SMALLEST_PROBABILITY) / data.n_votes,
        log_loss_constant=float(-(positive_share * np.log(positive_share)).sum()),
        min_propensity=float(propensity.cells[is_compared].min()),
        effective_share=float(effective.min()),
        propensity_floored=propensity.n_floored,
        position_effect=position_effect,
        position_z=position_z,
        uneven_orders=() if state.ignored_order is None else state.ignored_order.uneven,
        mu_floored=result.n_floored,
        mu_entries=result.n_entries,
        floor=first.inputs.floor if setup.functional.interior and mean is None else 0.0,
        means_raised=0 if mean is None else mean.floored.n_raised,
        bias_subtracted=0.0 if mean is None else largest(mean.bias),
        propensity_factor=state.propensity_factor,
        calibration=validity.calibration,
        effective_contexts=float(validity.effective_contexts.min()),
        models_with_few_prompts=tuple(few) if len(validity.effective_contexts) == len(data.items) else (),
        second_order=largest(validity.second_order),
        second_order_by_model=by_model,
        second_order_treatment=validity.treatment,
    )


def estimate_position_effect(state: FitState) -> tuple[float, float]:
    """Return the position effect, the advantage of being shown first, and its z statistic."""
    # Where order is assumed not to matter, residuals of the labels are regressed on display order within pairs.
    if state.data.ordered:
        influence = state.influence_of("position_effect")
        score = PositionEffect(state.setup.weights, state.setup.shared_graph)
        added = state.unanimous_covariance(score)
        covariance = covariance_of(state, influence, np.empty((0, 1)), unanimous_covariance=added)
        effect, error = float(influence.estimate[0]), float(covariance.std_errors[0])
        return effect, effect / error if error > 0 else float("nan")
    order = state.ignored_order
    return (float("nan"), float("nan")) if order is None else (order.effect, order.z)
