"""Scores by group and coefficients on functions of the prompt, from one fit; a base of RankResults."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from ..data.preferences import FloatArray
from ..estimation.influence import Influence
from ..estimation.linear_projection import Projected, project_influence
from ..exceptions import DmlrankWarning, OptionError
from ..fit.estimates import Scale
from ..fit.fit_covariance import clustered
from ..fit.state import Steps
from ..inference.covariance import Covariance
from ..inference.joint_covariance import stretch
from .context_variables import read_design, read_groups
from .groups import GroupResults, make_groups
from .joint_estimates import JointEstimates
from .projection import Projection
from .ranking import Claims


class Subgroups(Claims):
    """Leaderboards of groups of prompts, and what scores depend on."""

    __slots__ = ()

    def by(self, *columns: str) -> GroupResults:
        """A leaderboard for every group of prompts, from this fit, with the joint covariance of all.

        The scores of group g are theta_g = E[F(mu(X)) | G = g]. They come from the fit's influence values,
        phi_g = 1(G = g) (phi_raw - theta_g) / p_g, so that nothing is trained anew, and their mean by share of the
        groups is the score over all prompts (with ``subsample=``, up to what the sample's shares of the groups differ).

        Parameters
        ----------
        *columns : str
            A column of categories, or several: groups are the combinations that occur. Each has to be a feature of the
            formula or a function of the features; the data show the latter where prompts share their features.

        Returns
        -------
        GroupResults
            ``groups["coding"]`` is a result like this one: scores, intervals, tests, rank sets, summary.

        Raises
        ------
        OptionError
            If a column is not a function of the features, or the estimator is not the debiased one.
        DataError, MissingDataError
            If a group has fewer than two labelled prompts, or a column varies within a prompt or is missing.
        DataNotStoredError
            If the result was loaded without data.

        Warns
        -----
        DmlrankWarning
            Where a group has fewer than 30 prompts, or no vote on a model: its score is what the learner guesses.

        Notes
        -----
        A non-linear functional of a group needs preferences *given* the group: with mu(x) averaged over it,
        E[F(mu(X)) | G = g] is another number than the score of a leaderboard of the group. Hence the condition on
        columns.

        What the covariance of the fit has beyond the sum over influence values (for bt and rank_centrality, the
        correction for a shrunken mu) stretches the errors of all groups alike, as it does the overall scores. Clusters
        are the fit's, with their number in the small-sample factor.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ C(category) | model_a + model_b", battles, rng=0, n_jobs=1)
        >>> groups = res.by("category")
        >>> groups.params.shape, groups["coding"].params.idxmax()
        ((8, 6), 'gpt-4')
        """
        self.require_models("by", "gives scores of models by group")
        steps = self._projectable("by")
        found = read_groups(steps, columns)
        design = np.eye(len(found.names))[found.code]
        return make_groups(self, steps, found, *_project(steps, design, self.estimates.scale, "groups"))

    def project(self, formula: str) -> Projection:
        """What the scores of prompts depend on: the projection of F(mu(x)) on functions v of the prompt.

        beta = E[v v']^-1 E[v F(mu(X))'], one column of coefficients per model: the best linear description of how
        scores vary over prompts, whether or not it is linear. Estimated by regressing phi_raw on v, with influence
        E[v v']^-1 v (phi_raw - v'beta).

        Parameters
        ----------
        formula : str
            ``"~ C(category) + length"``, read by patsy, with a constant unless it says ``0 +``. Variables have to be
            features of the fit's formula, or functions of the features; see :meth:`by`.

        Returns
        -------
        Projection
            Coefficients, tests, simultaneous intervals and bands over a grid of one variable.

        Raises
        ------
        FormulaError
            If the formula cannot be read or its columns are collinear.
        OptionError
            If a variable is not a function of the features, or the estimator is not the debiased one.
        DataError, MissingDataError
            If a variable varies within a prompt or is missing.
        DataNotStoredError
            If the result was loaded without data.

        References
        ----------
        Semenova and Chernozhukov (2021), Debiased machine learning of conditional average treatment effects and other
        causal functions, Econometrics Journal 24.

        Examples
        --------
        >>> import dmlrank as dr
        >>> battles = dr.datasets.simulate_arena(n=2000, rng=0)
        >>> res = dr.dml_rank("winner ~ C(category) + length | model_a + model_b", battles, rng=0, n_jobs=1)
        >>> res.project("~ length").params.index.tolist()
        ['Intercept', 'length']
        >>> bool((res.project("~ 1").params.loc["Intercept"] - res.params).abs().max() < 1e-12)
        True
        """
        self.require_models("project", "describes scores of models")
        steps = self._projectable("project")
        design = read_design(steps, formula)
        projected, covariance = _project(steps, design.matrix, self.estimates.scale, "columns")
        e = self.estimates
        joint = JointEstimates(
            kind="coefficient",
            blocks=tuple(np.repeat(design.names, len(e.models)).tolist()),
            models=e.models * len(design.names),
            estimate=projected.estimate,
            covariance=covariance,
            reason=e.reason,
            alpha=e.alpha,
            seed=e.design.seed,
        )
        return Projection(design, e, joint)

    def _projectable(self, method: str) -> Steps:
        """The steps, where the estimate is a mean over contexts."""
        estimator = self.estimates.estimated_by
        if estimator.why_not_by_group:
            raise OptionError(
                f"{method}() with estimator={estimator.name!r}: {estimator.why_not_by_group}; use "
                f"update(estimator='debiased')"
            )
        return self._live(method)


def _project(steps: Steps, design: FloatArray, scale: Scale, what: str) -> tuple[Projected, Covariance]:
    """Coefficients on a design, (n, P), in the unit of ``scale``, with their covariance, (P K, P K)."""
    for one in (steps.influence, *(repetition.evaluated.influences[0] for repetition in steps.repetitions)):
        _check_counted(one.value_weight, design, what)
    fixed = steps.options.prompts == "fixed"
    influence = _in_unit(steps.influence.by_context(), scale)
    gauge = steps.setup.functional.gauge(influence.value.shape[1]).basis
    every = np.eye(design.shape[1])
    projected = project_influence(influence, design, fixed, with_blocks=steps.annotator is not None)
    overall = influence.given_prompts() if fixed else influence
    with warnings.catch_warnings():
        # Few clusters: the fit has said so.
        warnings.simplefilter("ignore", DmlrankWarning)
        joint = clustered(
            projected, np.asarray(np.kron(every, gauge), dtype=np.float64), steps.clusters, steps.annotator
        )
        alone = clustered(overall, gauge, steps.clusters, steps.annotator)
    if influence.variance_correction is not None:
        longer = np.kron(every, stretch(alone.matrix, alone.at_least(influence.variance_correction / len(design))))
        joint = replace(joint, matrix=longer @ joint.matrix @ longer.T)
    if len(steps.repetitions) > 1:
        each = [_in_unit(repetition.evaluated.influences[0].by_context(), scale) for repetition in steps.repetitions]
        joint = joint.between_repetitions(
            np.stack([project_influence(one, design, with_blocks=False).estimate for one in each])
        )
    return projected, joint


def _check_counted(weight: FloatArray, design: FloatArray, what: str) -> None:
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
