"""Bounds of contrasts of scores if votes that were not cast differ from votes that were, with standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._utils.warning_collection import collected_warnings
from ..data.preferences import FloatArray
from ..data.shown_battles import ShownBattles
from ..estimation.first_order_bounds import first_order_bounds
from ..estimation.influence import Influence, InfluenceFunction, mean_influence
from ..estimation.voting_bounds import BoundInputs, additive_bounds
from ..fit.fit_covariance import make_covariance
from ..fit.state import FitSteps
from ..functionals.base import PairAdditiveScore, is_linear
from ..inference.covariance import Covariance
from ..inference.simultaneous import critical_value_of_contrasts
from .voting import shown_battles_of, voting_stage

# Largest number of influence values that are stored for one pass over the contexts.
_MAX_STORED = 60_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Bounds of J contrasts at G values of gamma.

    gamma (G,).
    lower, upper (G, J): Estimates of the bounds.
    lower_error, upper_error (G, J): Standard errors of the estimated bounds.
    critical (G,): Half-width of the intervals in standard errors, simultaneous over contrasts and over both bounds.
    """

    gamma: FloatArray
    lower: FloatArray
    upper: FloatArray
    lower_error: FloatArray
    upper_error: FloatArray
    critical: FloatArray

    @property
    def conf_lower(self) -> FloatArray:
        """Lower confidence limits of the lower bounds, (G, J)."""
        return self.lower - self.critical[:, None] * self.lower_error

    @property
    def conf_upper(self) -> FloatArray:
        """Upper confidence limits of the upper bounds, (G, J)."""
        return self.upper + self.critical[:, None] * self.upper_error

    def joined(self, further: Bounds) -> Bounds:
        """Return these bounds and further ones, sorted by gamma."""
        order = np.argsort(np.concatenate([self.gamma, further.gamma]), kind="stable")
        return Bounds(
            *(np.concatenate([getattr(self, name), getattr(further, name)])[order] for name in self.__slots__)
        )


@dataclass(frozen=True, slots=True, eq=False)
class BoundEvaluation:
    """The bounds of contrasts of a fit, ready to be evaluated at any gamma.

    contrasts (J, K): Linear combinations of the scores.
    inputs: One for each repetition of the fit.
    added_covariance (2 J, 2 J): What the fit's covariance of the contrasts contains beyond the covariance of the
        influence values: variance correction and uniform pairs. The bounds get the same addition.
    critical_of_family: Critical value of a larger family of contrasts, from which the data have chosen these; 0 for
        none.
    """

    steps: FitSteps
    contrasts: FloatArray
    battles: ShownBattles
    inputs: tuple[BoundInputs, ...]
    added_covariance: FloatArray
    critical_of_family: float = 0.0

    @classmethod
    def of(cls, steps: FitSteps, contrasts: FloatArray, critical_of_family: float = 0.0) -> BoundEvaluation:
        """Prepare the evaluation: estimate vote rates and the probabilities of showing a pair."""
        battles = shown_battles_of(steps)
        weights, weight = steps.setup.weights, steps.population(steps.first).weights(steps.data.n_contexts)
        worth = np.subtract(weights.first, weights.second)
        inputs = tuple(
            BoundInputs(
                steps.data,
                repetition.nuisances,
                steps.blocks,
                voting_stage(steps, repetition, number, battles),
                weight,
                worth,
            )
            for number, repetition in enumerate(steps.repetitions)
        )
        added = contrasts @ _added_covariance(steps) @ contrasts.T
        return cls(steps, contrasts, battles, inputs, np.tile(added, (2, 2)), critical_of_family)

    @property
    def is_sharp(self) -> bool:
        """Whether no distribution of the votes that were not cast gives a contrast outside of the bounds.

        Otherwise this holds to first order in gamma - 1.
        """
        return _has_pair_terms(self.steps) or is_linear(self.steps.setup.functional)

    def influences(self, gammas: Sequence[float]) -> list[list[Influence]]:
        """Return the influence of lower and upper bounds, for each gamma a list with one entry per repetition."""
        functional, jobs = self.steps.setup.functional, self.steps.options.n_jobs
        by_repetition = []
        for inputs in self.inputs:
            if _has_pair_terms(self.steps):
                assert isinstance(functional, PairAdditiveScore)
                by_repetition.append(additive_bounds(functional, self.contrasts, gammas, inputs, n_jobs=jobs))
            else:
                by_repetition.append(first_order_bounds(functional, self.contrasts, gammas, inputs))
        return [list(influences) for influences in zip(*by_repetition, strict=True)]

    def at(self, gammas: Sequence[float], alpha: float) -> Bounds:
        """Return the bounds with their standard errors."""
        size = self.steps.data.n_contexts * 2 * len(self.contrasts)
        step = max(1, _MAX_STORED // size)
        evaluated = [
            self._with_error(influences, alpha)
            for start in range(0, len(gammas), step)
            for influences in self.influences(gammas[start : start + step])
        ]
        estimate, error = (np.array([row[part] for row in evaluated]) for part in (0, 1))
        n = len(self.contrasts)
        return Bounds(
            np.asarray(gammas, dtype=float),
            estimate[:, :n],
            estimate[:, n:],
            error[:, :n],
            error[:, n:],
            np.array([row[2] for row in evaluated]),
        )

    def _with_error(self, influences: list[Influence], alpha: float) -> tuple[FloatArray, FloatArray, float]:
        """Return estimates and standard errors of lower and upper bounds, (2 J,) each, and the critical value."""
        covariance = self._covariance(influences)
        critical = critical_value_of_contrasts(covariance, np.eye(len(covariance.matrix)), alpha)
        estimate = np.mean([influence.estimate for influence in influences], axis=0)
        return estimate, covariance.std_errors, max(critical, self.critical_of_family)

    def _covariance(self, influences: list[Influence]) -> Covariance:
        """Return the covariance of lower and upper bounds, (2 J, 2 J), of the fit's type."""
        influence = influences[0] if len(influences) == 1 else mean_influence(influences)
        with collected_warnings():  # The fit has already warned of few clusters.
            return make_covariance(
                influence,
                np.empty((0, influence.n_scores)),
                self.steps.clusters,
                annotator=self.inputs[0].voting.annotator,
                fixed_prompts=self.steps.options.prompts == "fixed",
                estimates=np.stack([influence.estimate for influence in influences]),
                uniform_covariance=self.added_covariance,
            )


def _has_pair_terms(steps: FitSteps) -> bool:
    """Whether the scores have the form of :class:`PairAdditiveScore`, so that the bounds are sharp."""
    functional, weights = steps.setup.functional, steps.setup.weights
    if not isinstance(functional, PairAdditiveScore) or functional.label_directions(steps.data.n_items) is None:
        return False
    order = np.argsort(np.subtract(weights.first, weights.second), kind="stable")
    first, second = np.array(weights.first)[order], np.array(weights.second)[order]
    return bool((np.diff(first) >= 0).all() and (np.diff(second) <= 0).all())


def _added_covariance(steps: FitSteps) -> FloatArray:
    """Return the fit's covariance of the scores less the covariance of the influence values alone, (K, K)."""
    influence = steps.influence
    without: InfluenceFunction = replace(influence.by_context(), variance_correction=None)
    gauge = steps.setup.functional.gauge(steps.data.n_items).basis
    with collected_warnings():
        alone = make_covariance(
            without,
            gauge,
            steps.clusters,
            annotator=steps.annotator,
            fixed_prompts=steps.options.prompts == "fixed",
            estimates=steps.estimator.estimates([r.one_step_result.target for r in steps.repetitions]),
        )
    return steps.covariance.matrix - alone.matrix
