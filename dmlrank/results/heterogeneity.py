"""Heterogeneity of the scores: by group of contexts, and projected on functions of the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .._utils.warning_collection import collected_warnings
from ..data.preferences import FloatArray
from ..estimation.influence import Influence
from ..estimation.linear_projection import ProjectedInfluence, project_influence
from ..exceptions import OptionError
from ..fit.estimates import Estimates, Scale
from ..fit.fit_covariance import clustered_covariance
from ..fit.label_errors import hidden_covariance_by_column
from ..fit.state import FitSteps
from ..inference.covariance import Covariance
from ..inference.joint_covariance import transport_map
from .context_variables import read_design, read_groups
from .groups import GroupResults, Result, make_groups
from .joint_estimates import JointEstimates
from .lookup import require_intervals, require_steps
from .projection import Projection


def scores_by_group(
    estimates: Estimates, steps: FitSteps | None, columns: Sequence[str], as_result: Callable[[Estimates], Result]
) -> GroupResults[Result]:
    """A leaderboard for every group of contexts, see :meth:`RankResults.by`.

    Parameters
    ----------
    estimates : Estimates
    steps : FitSteps or None
        Of a fit with its data.
    columns : sequence of str
        What makes the groups.
    as_result : callable
        Makes the result of a group from its estimates.
    """
    live = _steps_of_mean(estimates, steps, "by")
    found = read_groups(live, columns)
    design = np.eye(len(found.names))[found.code]
    projected, covariance = _project(live, design, estimates.scale, "groups")
    return make_groups(estimates, live, found, projected=projected, covariance=covariance, as_result=as_result)


def project_scores(estimates: Estimates, steps: FitSteps | None, formula: str) -> Projection:
    """The projection of scores on functions of the context, see :meth:`RankResults.project`."""
    live = _steps_of_mean(estimates, steps, "project")
    design = read_design(live, formula)
    projected, covariance = _project(live, design.matrix, estimates.scale, "columns")
    joint = JointEstimates.of_blocks("coefficient", design.names, projected.estimate, covariance, estimates)
    return Projection(design, estimates, joint)


def _steps_of_mean(estimates: Estimates, steps: FitSteps | None, method: str) -> FitSteps:
    """The steps of a fit whose estimate is a debiased mean over contexts."""
    estimator = estimates.estimated_by
    if estimator.why_not_by_group:
        raise OptionError(
            f"{method}() with estimator={estimator.name!r}: {estimator.why_not_by_group}; use "
            f"update(estimator='debiased')"
        )
    require_intervals(estimates, f"{method}()")
    return require_steps(estimates, steps, method)


def _project(steps: FitSteps, design: FloatArray, scale: Scale, what: str) -> tuple[ProjectedInfluence, Covariance]:
    """Coefficients on a design, (n, P), in the unit of ``scale``, with their covariance, (P K, P K)."""
    for one in (steps.influence, *(repetition.one_step_result.target for repetition in steps.repetitions)):
        _check_weights(one.value_weight, design, what)
    fixed = steps.options.prompts == "fixed"
    influence = _in_unit(steps.influence.by_context(), scale)
    gauge = steps.setup.functional.gauge(influence.value.shape[1]).basis
    every = np.eye(design.shape[1])
    hidden = hidden_covariance_by_column(steps, design)

    def covariance(fixed: bool) -> tuple[ProjectedInfluence, Covariance]:
        projected = project_influence(influence, design, fixed, with_blocks=steps.annotator is not None)
        overall = influence.given_prompts() if fixed else influence
        with collected_warnings():
            # Few clusters: the fit has said so.
            joint = clustered_covariance(
                projected, np.asarray(np.kron(every, gauge), dtype=np.float64), steps.clusters, steps.annotator
            )
            alone = clustered_covariance(overall, gauge, steps.clusters, steps.annotator)
        if hidden is not None:
            joint = joint.plus(hidden * scale.factor**2)
        if influence.variance_correction is not None:
            stretched = np.kron(
                every, transport_map(alone.matrix, alone.at_least(influence.variance_correction / len(design)))
            )
            joint = replace(joint, matrix=stretched @ joint.matrix @ stretched.T)
        return projected, joint

    projected, joint = covariance(fixed)
    if fixed:
        # Never larger than for new prompts, as the fit's.
        joint = joint.at_most(covariance(False)[1].matrix)
    if len(steps.repetitions) > 1:
        each = [_in_unit(repetition.one_step_result.target.by_context(), scale) for repetition in steps.repetitions]
        joint = joint.with_repetition_variance(
            np.stack([project_influence(one, design, with_blocks=False).estimate for one in each])
        )
    return projected, joint


def _check_weights(weight: FloatArray, design: FloatArray, what: str) -> None:
    """Raise where weights, or the sample of ``subsample=``, leave nothing to a column of the design."""
    rank = np.linalg.matrix_rank(np.sqrt(weight)[:, None] * design / np.sqrt(np.square(design).mean(axis=0)))
    lacking = design.shape[1] - int(rank)
    if lacking:
        raise OptionError(
            f"{lacking} {what} have no weight: weights are zero in all of their prompts, or the sample of subsample= "
            f"has none of them"
        )


def _in_unit(influence: Influence, scale: Scale) -> Influence:
    """The influence of scores in another unit."""
    variance_correction = (
        None if influence.variance_correction is None else influence.variance_correction * scale.factor**2
    )
    return replace(
        influence,
        value=scale.of(influence.value),
        correction=scale.factor * influence.correction,
        variance_correction=variance_correction,
    )
