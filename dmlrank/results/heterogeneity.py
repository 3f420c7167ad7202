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
from ..fit.label_errors import uniform_covariance_by_column
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
    """Return scores in every group of contexts, see :meth:`RankResults.by`.

    Parameters
    ----------
    estimates : Estimates
    steps : FitSteps or None
        Steps of a fit with its data.
    columns : sequence of str
        Columns that define the groups.
    as_result : callable
        Returns the result of a group from its estimates.
    """
    fit_steps = _steps_of_mean(estimates, steps, "by")
    groups = read_groups(fit_steps, columns)
    design = np.eye(len(groups.names))[groups.code]
    projected, covariance = _project(fit_steps, design, estimates.scale, "groups")
    return make_groups(estimates, fit_steps, groups, projected=projected, covariance=covariance, as_result=as_result)


def project_scores(estimates: Estimates, steps: FitSteps | None, formula: str) -> Projection:
    """Return the projection of scores on functions of the context, see :meth:`RankResults.project`."""
    fit_steps = _steps_of_mean(estimates, steps, "project")
    design = read_design(fit_steps, formula)
    projected, covariance = _project(fit_steps, design.matrix, estimates.scale, "columns")
    joint = JointEstimates.of_blocks("coefficient", design.names, projected.estimate, covariance, estimates)
    return Projection(design, estimates, joint)


def _steps_of_mean(estimates: Estimates, steps: FitSteps | None, method: str) -> FitSteps:
    """Return the steps of a fit whose estimate is a debiased mean over contexts; raise for other fits."""
    estimator = estimates.estimated_by
    if estimator.why_not_by_group:
        raise OptionError(
            f"{method}() with estimator={estimator.name!r}: {estimator.why_not_by_group}; use "
            f"update(estimator='debiased')"
        )
    require_intervals(estimates, f"{method}()")
    return require_steps(estimates, steps, method)


def _project(steps: FitSteps, design: FloatArray, scale: Scale, what: str) -> tuple[ProjectedInfluence, Covariance]:
    """Regress the influence on a design and return coefficients with their covariance, (P K, P K).

    Parameters
    ----------
    steps : FitSteps
    design : ndarray, shape (n, P)
        Functions of the contexts.
    scale : Scale
        The unit of the coefficients.
    what : str
        What the columns of the design are, for an error.
    """
    repeated = [repetition.one_step_result.target for repetition in steps.repetitions]
    for estimate in (steps.influence, *repeated):
        _check_weights(estimate.value_weight, design, what)
    fixed = steps.options.prompts == "fixed"
    influence = _in_unit(steps.influence.by_context(), scale)
    gauge = steps.setup.functional.gauge(influence.value.shape[1]).basis
    columns = np.eye(design.shape[1])
    uniform_covariance = uniform_covariance_by_column(steps, design)

    def covariance(fixed: bool) -> tuple[ProjectedInfluence, Covariance]:
        projected = project_influence(influence, design, fixed, with_blocks=steps.annotator is not None)
        overall = influence.given_prompts() if fixed else influence
        with collected_warnings():
            # The fit has warned of few clusters already.
            joint = clustered_covariance(
                projected, np.asarray(np.kron(columns, gauge), dtype=np.float64), steps.clusters, steps.annotator
            )
            of_scores = clustered_covariance(overall, gauge, steps.clusters, steps.annotator)
        if uniform_covariance is not None:
            joint = joint.plus(uniform_covariance * scale.factor**2)
        if influence.variance_correction is not None:
            corrected = of_scores.with_variance_correction(influence.variance_correction / len(design))
            inflation = np.kron(columns, transport_map(of_scores.matrix, corrected))
            joint = replace(joint, matrix=inflation @ joint.matrix @ inflation.T)
        return projected, joint

    projected, joint = covariance(fixed)
    if fixed:
        # The covariance is never larger than that for new prompts, as in the fit.
        joint = joint.at_most(covariance(False)[1].matrix)
    if len(steps.repetitions) > 1:
        rescaled = [_in_unit(estimate.by_context(), scale) for estimate in repeated]
        joint = joint.with_repetition_variance(
            np.stack([project_influence(values, design, with_blocks=False).estimate for values in rescaled])
        )
    return projected, joint


def _check_weights(weight: FloatArray, design: FloatArray, what: str) -> None:
    """Raise where all prompts of a column of the design have weight zero or are not in the sample of ``subsample=``."""
    rank = np.linalg.matrix_rank(np.sqrt(weight)[:, None] * design / np.sqrt(np.square(design).mean(axis=0)))
    n_missing = design.shape[1] - int(rank)
    if n_missing:
        raise OptionError(
            f"{n_missing} of {design.shape[1]} {what} have no weight: weights= is zero in all of their prompts, or the "
            f"sample of subsample= has none of these prompts; change weights= or subsample=, or leave these {what} out"
        )


def _in_unit(influence: Influence, scale: Scale) -> Influence:
    """Return the influence of scores in another unit."""
    variance_correction = (
        None if influence.variance_correction is None else influence.variance_correction * scale.factor**2
    )
    return replace(
        influence,
        value=scale.of(influence.value),
        correction=scale.factor * influence.correction,
        variance_correction=variance_correction,
    )
