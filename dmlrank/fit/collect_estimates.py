"""The estimates of a fit, collected from its steps."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np

from .._utils.log_loss import log_loss
from .._utils.warning_collection import collected_warnings
from ..data.preferences import FloatArray, PreferenceData
from ..exceptions import DmlrankWarning, IntervalWarning
from ..functionals.base import output_names
from ..functionals.position_effect import PositionEffect
from ..inference.covariance import clip_to_limits
from ..inference.simultaneous import critical_value
from ..nuisance.outcome_model.cross_fit import ConstantMu
from ..nuisance.outcome_model.main_effects_boosting import SmoothBoostedMu
from ..nuisance.outcome_model.user_learners import learner_name
from ..nuisance.propensity_model.estimate import Propensity
from .estimates import Diagnostics, Estimates, FitDescription, score_limits
from .fit_covariance import covariance_of
from .judge_value import judge_figures
from .label_errors import one_sided_models
from .position_test import residual_position_test
from .state import FitSteps
from .votes_used import count_votes

_TINY = 1e-15


def collect(steps: FitSteps, given_warnings: tuple[DmlrankWarning, ...]) -> Estimates:
    """The estimates of a fit."""
    functional, data, o = steps.setup.functional, steps.data, steps.options
    gauge = functional.gauge(data.n_items)
    names = output_names(functional, data.items)
    estimate, covariance = clip_to_limits(steps.influence.estimate, steps.covariance, score_limits(functional.name))
    return Estimates(
        models=data.items,
        functional=functional.name,
        functional_label=steps.estimator.functional_label(functional.label),
        estimator=o.estimator,
        estimate=estimate,
        plugin=steps.influence.plugin,
        shares=np.clip(steps.win_share, 0.0, 1.0),
        covariance=covariance,
        critical=critical_value(covariance, o.alpha),
        alpha=o.alpha,
        neutral=functional.neutral(data.n_items),
        reason=gauge.reason,
        fixed=gauge.fixed,
        graph=steps.setup.graph,
        description=_description(steps),
        diagnostics=_diagnostics(steps, given_warnings),
        outputs=() if names == data.items else names,
        judge=judge_figures(steps),
        extrapolation=steps.extrapolation.reason,
        votes=count_votes(data, steps.setup.graph),
    )


def _description(steps: FitSteps) -> FitDescription:
    data, o, weights = steps.data, steps.options, steps.setup.weights
    votes = data.pair_votes()
    ties = zip(data.categories[2:], weights.first[2:], weights.second[2:], strict=True)
    return FitDescription(
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
        n_folds=steps.folds.n_folds if steps.repetitions else o.n_folds,
        n_rep=o.n_rep,
        prompts=o.prompts,
        weighted=o.weights is not None,
        ordered=data.ordered,
        order_reason=steps.order.reason if steps.order else "",
        propensity=steps.propensity.how if steps.repetitions else "not used",
        cov_type=o.cov_type,
        clusters=steps.clusters.names if steps.clusters else (),
        seed=o.seed,
        version=version("dmlrank"),
    )


def _learner(steps: FitSteps) -> str:
    if not steps.repetitions:
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


def _diagnostics(steps: FitSteps, given_warnings: tuple[DmlrankWarning, ...]) -> Diagnostics:
    if steps.likelihood:
        return _likelihood_diagnostics(steps, steps.likelihood.log_loss, given_warnings)
    data, first, labels = steps.data, steps.first, steps.one_step_result.labels
    position_effect, position_z = position_test(steps)
    if steps.extrapolation.n_pairs or not steps.estimator.valid_intervals:
        position_z = float("nan")
    share = labels.votes.sum(axis=0) / data.n_votes
    loss = log_loss(labels.mu, labels.votes, smallest=_TINY) / data.n_votes
    chosen = share[share > 0]
    return Diagnostics(
        log_loss=loss,
        log_loss_constant=float(-(chosen * np.log(chosen)).sum()),
        min_propensity=float(_on_graph(steps).min()),
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
        contexts_added=data.n_added,
        warnings=tuple(str(one) for one in given_warnings),
        doubts=tuple(str(one) for one in given_warnings if isinstance(one, IntervalWarning)),
        floor=first.floor if steps.setup.functional.interior else 0.0,
        subsample=0 if first.sample is None else len(first.sample),
        subsample_price=first.one_step_result.target.subsample_inflation,
        propensity_factor=steps.propensity_factor,
        **_validity(steps),
        pairs_without_variation=0 if steps.uniform is None else len(steps.uniform.pairs),
        models_without_variation=_one_sided(steps),
    )


def _validity(steps: FitSteps) -> dict[str, float]:
    validity, errors = steps.validity, steps.covariance.std_errors
    if validity is None:
        return {}
    ratio = np.abs(validity.second_order[errors > 0]) / errors[errors > 0]
    return {
        "calibration": validity.calibration,
        "effective_contexts": float(validity.effective_contexts.min()),
        "second_order": float(ratio.max(initial=0.0)),
    }


def position_test(steps: FitSteps) -> tuple[float, float]:
    """How much being shown first helps, and its z statistic.

    Where order matters it is a debiased score of its own. Where it is assumed not to, the residuals of pairs shown one
    way round are held against those of pairs shown the other way round.
    """
    if steps.data.ordered:
        influence = steps.influence_of("position_effect")
        score = PositionEffect(steps.setup.weights, steps.setup.graph)
        hidden = steps.hidden_covariance(score)
        with collected_warnings():
            # The covariance of the scores has warned of few clusters.
            covariance = covariance_of(steps, influence, np.empty((0, 1)), hidden=hidden)
        effect, error = float(influence.estimate[0]), float(covariance.std_errors[0])
        return effect, effect / error if error > 0 else float("nan")
    gap = np.subtract(steps.setup.weights.first, steps.setup.weights.second)
    unit = steps.data.seed_order if steps.clusters is None else steps.clusters.prompt
    return residual_position_test(steps.data.cells, gap, steps.one_step_result.cell_mu, unit)


def _likelihood_diagnostics(steps: FitSteps, loss: float, given_warnings: tuple[DmlrankWarning, ...]) -> Diagnostics:
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
        warnings=tuple(str(one) for one in given_warnings),
        doubts=tuple(str(one) for one in given_warnings if isinstance(one, IntervalWarning)),
        pairs_without_variation=0 if steps.uniform is None else len(steps.uniform.pairs),
        models_without_variation=_one_sided(steps),
    )


def _one_sided(steps: FitSteps) -> tuple[str, ...]:
    """Models that won, lost or tied everything."""
    sides = one_sided_models(steps.data, steps.setup)
    return tuple(name for names in sides.values() for name in names)


def _on_graph(steps: FitSteps) -> FloatArray:
    cells = steps.data.cells
    return steps.propensity.cells[steps.setup.graph.edges[cells.first, cells.second]]


def _effective_share(data: PreferenceData, propensity: Propensity) -> float:
    """(sum w)^2 / sum w^2 over a pair's labels with w = 1 / pi, divided by their number: the smallest over pairs."""
    pair = data.cells.first * data.n_items + data.cells.second
    weight = 1 / propensity.cells
    count, total, square = (np.bincount(pair, weights=w) for w in (np.ones_like(weight), weight, weight**2))
    seen = count > 0
    return float((total[seen] ** 2 / (square[seen] * count[seen])).min())
