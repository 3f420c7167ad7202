"""Collecting the estimates of a fit from its steps: scores, description and diagnostics."""

from __future__ import annotations

import numpy as np

from .._utils.log_loss import log_loss
from .._utils.warning_collection import collected_warnings
from .._version import __version__
from ..data.preferences import FloatArray, PreferenceData
from ..exceptions import DmlrankWarning, IntervalWarning
from ..functionals.linear_scores import PositionEffect
from ..inference.covariance import clip_to_limits
from ..nuisance.outcome_model.cross_fit import ConstantMu
from ..nuisance.outcome_model.main_effects_boosting import SmoothBoostedMu
from ..nuisance.outcome_model.user_learners import learner_name
from ..nuisance.propensity_model.estimate import Propensity
from ..style_adjustment import BalancedStyle
from .average import average_over_repetitions
from .estimates import Diagnostics, Estimates, FitDescription
from .fit_covariance import covariance_of
from .judge_value import judge_figures
from .label_errors import one_sided_models
from .position_test import residual_position_test
from .state import FitSteps
from .style_estimates import StyleEstimates
from .votes_used import count_votes

# Smaller probabilities are raised to this one in the log-loss of the diagnostics.
_SMALLEST_PROBABILITY = 1e-15


def collect(steps: FitSteps, fit_warnings: tuple[DmlrankWarning, ...]) -> Estimates:
    """Return the estimates of a fit, without the critical value, for which the result draws."""
    functional, data, options = steps.setup.functional, steps.data, steps.options
    gauge = functional.gauge(data.n_items)
    names = functional.names(data.items)
    estimate, covariance = clip_to_limits(steps.influence.estimate, steps.covariance, functional.limits)
    return Estimates(
        models=data.items,
        functional=functional.name,
        functional_label=steps.estimator.functional_label(functional.label),
        estimator=options.estimator,
        estimate=estimate,
        plugin=_plugin(steps),
        shares=np.clip(steps.win_share, 0.0, 1.0),
        covariance=covariance,
        critical=float("nan"),
        alpha=options.alpha,
        neutral=functional.neutral(data.n_items),
        reason=gauge.reason,
        fixed=gauge.fixed,
        graph=steps.setup.graph,
        description=_description(steps),
        diagnostics=_diagnostics(steps, fit_warnings),
        outputs=() if names == data.items else names,
        judge=judge_figures(steps),
        extrapolation=steps.extrapolation.reason,
        votes=count_votes(data, steps.setup.graph),
        style=style_estimates(steps),
        extension=steps.extension,
    )


def style_estimates(steps: FitSteps) -> StyleEstimates | None:
    """Return what a result keeps of an adjustment for style; None without an adjustment."""
    adjust, style, balanced = steps.options.adjust, steps.style, steps.balanced
    if isinstance(adjust, BalancedStyle) and balanced is not None:
        nothing = float("nan")
        return StyleEstimates(
            kind="balanced",
            formula=adjust.formula,
            columns=adjust.columns,
            deviations=balanced.deviations,
            estimate=np.empty(0),
            covariance=None,
            log_loss=nothing,
            log_loss_without=nothing,
            n_votes=balanced.n_votes,
            n_votes_left=steps.data.n_votes,
            within=float(adjust.within),
            weights=adjust.weights,
        )
    if adjust is None or style is None:
        return None
    stages = [terms.stages for terms in style.by_repetition]
    return StyleEstimates(
        kind="equal",
        formula=adjust.formula,
        columns=style.differences.names,
        deviations=style.differences.deviations,
        estimate=style.estimate,
        covariance=style.covariance,
        log_loss=float(np.mean([one.log_loss for one in stages])),
        log_loss_without=float(np.mean([one.log_loss_without for one in stages])),
        n_votes=steps.data.n_votes,
        n_votes_left=steps.data.n_votes,
    )


def _plugin(steps: FitSteps) -> FloatArray:
    """Return the plug-in estimate: the mean of F(mu), or F at the mean of mu."""
    means = [repetition.mean.plugin for repetition in steps.repetitions if repetition.mean is not None]
    return average_over_repetitions(means) if means else steps.influence.plugin


def _bias_subtracted(steps: FitSteps) -> float:
    """Return the largest second-order bias that was subtracted from a score, in standard errors; 0 for none."""
    errors, mean = steps.covariance.std_errors, steps.first.mean
    if mean is None:
        return 0.0
    return float((np.abs(mean.bias[errors > 0]) / errors[errors > 0]).max(initial=0.0))


def _description(steps: FitSteps) -> FitDescription:
    """Return the description of a fit."""
    data, options, weights = steps.data, steps.options, steps.setup.weights
    votes = data.pair_votes()
    ties = zip(data.categories[2:], weights.first[2:], weights.second[2:], strict=True)
    return FitDescription(
        formula=steps.source.formula,
        outcome=steps.source.formula.split("~")[0].strip(),
        context=options.context,
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
        n_folds=steps.folds.n_folds if steps.repetitions else options.n_folds,
        n_rep=options.n_rep,
        prompts=options.prompts,
        weighted=options.weights is not None,
        ordered=data.ordered,
        order_reason=steps.order.reason if steps.order else "",
        propensity=steps.propensity.how if steps.repetitions else "not used",
        cov_type=options.cov_type,
        clusters=steps.clusters.names if steps.clusters else (),
        seed=options.seed,
        version=__version__,
        average=options.average,
    )


def _learner(steps: FitSteps) -> str:
    """Return the learner of mu in words, such as "smooth effects + lightgbm"."""
    if not steps.repetitions:
        return "none"
    if steps.options.mu is not None:
        return "given (mu=)"
    if steps.options.judge_as == "features":
        return "lightgbm, with verdicts"
    models = getattr(steps.mu, "models", ())
    n_constant = sum(isinstance(getattr(model, "model", model), ConstantMu) for model in models)
    if n_constant == len(models):
        return "pair frequencies" if steps.data.x.shape[1] == 0 else "category shares"
    has_trees = [model.trees is not None for model in models if isinstance(model, SmoothBoostedMu)]
    if has_trees:
        return "smooth effects + lightgbm" if any(has_trees) else "smooth effects"
    name = learner_name(steps.options.learner)
    return name if not n_constant else f"{name} (category shares in {n_constant} folds)"


def _diagnostics(steps: FitSteps, fit_warnings: tuple[DmlrankWarning, ...]) -> Diagnostics:
    """Return the diagnostics of a fit."""
    if steps.likelihood:
        return _likelihood_diagnostics(steps, steps.likelihood.log_loss, fit_warnings)
    data, first, labels = steps.data, steps.first, steps.one_step_result.labels
    position_effect, position_z = estimate_position_effect(steps)
    if steps.extrapolation.n_pairs or not steps.estimator.valid_intervals:
        position_z = float("nan")
    share = labels.votes.sum(axis=0) / data.n_votes
    loss = log_loss(labels.mu, labels.votes, smallest=_SMALLEST_PROBABILITY) / data.n_votes
    positive_share = share[share > 0]
    return Diagnostics(
        log_loss=loss,
        log_loss_constant=float(-(positive_share * np.log(positive_share)).sum()),
        min_propensity=float(_propensities_on_graph(steps).min()),
        effective_share=_effective_share(data, steps.propensity),
        propensity_floored=steps.propensity.n_floored,
        position_effect=position_effect,
        position_z=position_z,
        mu_floored=steps.one_step_result.n_floored,
        mu_entries=steps.one_step_result.n_entries,
        pairs_left_out=steps.setup.n_left_out,
        pairs_extrapolated=steps.extrapolation.n_pairs,
        models_dropped=steps.dropped,
        labels=data.labels,
        outcome_kind=data.outcome_kind,
        votes_dropped=data.n_votes_dropped,
        warnings=tuple(str(warning) for warning in fit_warnings),
        doubts=tuple(str(warning) for warning in fit_warnings if isinstance(warning, IntervalWarning)),
        floor=first.floor if steps.setup.functional.interior and first.mean is None else 0.0,
        means_raised=0 if first.mean is None else first.mean.floored.n_raised,
        bias_subtracted=_bias_subtracted(steps),
        subsample=0 if first.sample is None else len(first.sample),
        subsample_price=first.target.subsample_inflation,
        propensity_factor=steps.propensity_factor,
        **_validity(steps),
        pairs_without_variation=0 if steps.uniform is None else len(steps.uniform.pairs),
        models_without_variation=_one_sided_model_names(steps),
    )


def _validity(steps: FitSteps) -> dict[str, float]:
    """Return the fields of :class:`Diagnostics` about the validity of intervals; empty without first stages."""
    validity, errors = steps.validity, steps.covariance.std_errors
    if validity is None:
        return {}
    ratio = np.abs(validity.second_order[errors > 0]) / errors[errors > 0]
    return {
        "calibration": validity.calibration,
        "effective_contexts": float(validity.effective_contexts.min()),
        "second_order": float(ratio.max(initial=0.0)),
    }


def estimate_position_effect(steps: FitSteps) -> tuple[float, float]:
    """Return the position effect, the advantage of being shown first, and its z statistic.

    Where order matters, the position effect is estimated by the one-step estimator. Where order is assumed not to
    matter, the effect is the mean residual of the labels, counted for the model that was shown first.
    """
    if steps.data.ordered:
        influence = steps.influence_of("position_effect")
        score = PositionEffect(steps.setup.weights, steps.setup.graph)
        uniform_covariance = steps.uniform_covariance(score)
        with collected_warnings():
            # Few clusters cause a warning, which the covariance of the scores has already given.
            covariance = covariance_of(steps, influence, np.empty((0, 1)), uniform_covariance=uniform_covariance)
        effect, error = float(influence.estimate[0]), float(covariance.std_errors[0])
        return effect, effect / error if error > 0 else float("nan")
    gap = np.subtract(steps.setup.weights.first, steps.setup.weights.second)
    # Without clusters, every context is a unit of its own: seed_order numbers the contexts.
    unit = steps.data.seed_order if steps.clusters is None else steps.clusters.of_context
    return residual_position_test(steps.data.cells, gap, steps.one_step_result.cell_mu, unit)


def _likelihood_diagnostics(steps: FitSteps, loss: float, fit_warnings: tuple[DmlrankWarning, ...]) -> Diagnostics:
    """Return the diagnostics of a fit by maximum likelihood."""
    return Diagnostics(
        log_loss=loss,
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
        warnings=tuple(str(warning) for warning in fit_warnings),
        doubts=tuple(str(warning) for warning in fit_warnings if isinstance(warning, IntervalWarning)),
        pairs_without_variation=0 if steps.uniform is None else len(steps.uniform.pairs),
        models_without_variation=_one_sided_model_names(steps),
    )


def _one_sided_model_names(steps: FitSteps) -> tuple[str, ...]:
    """Return the models that won, lost or tied all their votes."""
    models = one_sided_models(steps.data, steps.setup)
    return tuple(name for names in models.values() for name in names)


def _propensities_on_graph(steps: FitSteps) -> FloatArray:
    """Return the propensities of the labelled cells of compared pairs."""
    cells = steps.data.cells
    return steps.propensity.cells[steps.setup.graph.edges[cells.first, cells.second]]


def _effective_share(data: PreferenceData, propensity: Propensity) -> float:
    """Return the smallest effective share of labels over pairs, with weights w = 1 / pi."""
    pair = data.cells.first * data.n_items + data.cells.second
    weight = 1 / propensity.cells
    count, total, square = (np.bincount(pair, weights=w) for w in (np.ones_like(weight), weight, weight**2))
    has_labels = count > 0
    return float((total[has_labels] ** 2 / (square[has_labels] * count[has_labels])).min())
