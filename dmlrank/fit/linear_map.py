"""Estimates of a fit that are linear maps of the scores of its contexts, with their covariance.

The formulas stand in :mod:`dmlrank.estimation.joint_influence`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._utils.tasks_and_threads import current, in_order
from ..data.arrays import FloatArray
from ..estimation.influence import Influence, mean_influence
from ..estimation.joint_influence import JointInfluence, in_groups, mean_over_repetitions, on_functions
from ..estimation.unanimous_pairs import find_unanimous_pairs
from ..inference.covariance import Covariance, transport_map
from .estimates import Scale
from .fit_covariance import clustered_covariance, label_errors
from .state import FitState


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The map of scores of contexts to those of G groups, which may overlap: their contexts, ``members``, (G, n)."""

    members: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.members)

    def of(self, influence: Influence, *, with_blocks: bool = True) -> JointInfluence:
        """Return the influence of the scores of groups; they always have that of their blocks."""
        return in_groups(influence, self.members)

    def unanimous_covariance(self, state: FitState) -> FloatArray | None:
        """Return the covariance, (G K, G K), that is added for unanimous pairs: one block per group.

        Where groups overlap, a unanimous pair of their common contexts also moves the scores of both groups together.
        This part is left out, so that differences between overlapping groups have errors that are not too small.
        """
        if not state.repetitions:
            return None
        errors = label_errors(state.data, state.repetitions, state.units, state.setup.functional.apart)
        n_groups, size = len(self), len(state.influence.estimate)
        total, any_unanimous = np.zeros((n_groups, size, n_groups, size)), False
        for g, inside in enumerate(self.members):
            factor = 1 / float((state.influence.weight * inside).mean())
            own = errors.only(inside[errors.cells.context])
            own = replace(own, weight=factor * own.weight, n_units=errors.n_units * inside.mean())
            pairs = find_unanimous_pairs(own, state.data, state.setup.weights, state.setup.graph.edges)
            if pairs is not None:
                any_unanimous = True
                total[g, :, g, :] = pairs.covariance(state.setup.functional, state.first.inputs.floor)
        return total.reshape(n_groups * size, n_groups * size) if any_unanimous else None


@dataclass(frozen=True, slots=True, eq=False)
class Functions:
    """The map of scores of contexts to their coefficients on P functions with the values ``design``, (n, P)."""

    design: FloatArray

    def __len__(self) -> int:
        return self.design.shape[1]

    def of(self, influence: Influence, *, with_blocks: bool = True) -> JointInfluence:
        """Return the influence of the coefficients."""
        return on_functions(influence, self.design, with_blocks=with_blocks)

    def unanimous_covariance(self, state: FitState) -> FloatArray | None:
        """Return the covariance, (P K, P K), that is added for unanimous pairs."""
        if bool(np.isin(self.design, (0.0, 1.0)).all() and (self.design.sum(axis=1) == 1).all()):
            return Groups(self.design.T > 0).unanimous_covariance(state)
        if state.unanimous is None:
            return None
        errors = label_errors(state.data, state.repetitions, state.units, state.setup.functional.apart)
        design = self.design
        gram = design.T @ (state.influence.weight[:, None] * design) / len(design)
        factor = np.asarray(np.linalg.solve(gram, design.T).T, dtype=np.float64)
        cell_factor = factor[errors.cells.context] * errors.weight[:, None]
        cell_moment = cell_factor.T @ cell_factor / np.square(errors.weight).sum()
        return np.kron(cell_moment, state.unanimous.covariance(state.setup.functional, state.first.inputs.floor))


Targets: TypeAlias = Groups | Functions


def linear_map(
    state: FitState, targets: Targets, scale: Scale, by_repetition: Sequence[JointInfluence] = ()
) -> tuple[JointInfluence, Covariance]:
    """Return the estimates of targets, in the unit of ``scale``, with their influence values and covariance.

    ``by_repetition`` has the targets' influence where they are no linear map of the scores of contexts.
    """
    of_fit, units = in_unit(state.influence.by_context(), scale), state.units
    clusters, annotator = units.clusters, units.annotator
    fixed, n_targets = state.options.prompts == "fixed", len(targets)
    gauge = state.setup.functional.gauge(of_fit.n_scores).basis
    gauges = np.asarray(np.kron(np.eye(n_targets), gauge), dtype=np.float64)
    mapped = partial(targets.of, with_blocks=annotator is not None)
    if state.likelihood is None:
        added = targets.unanimous_covariance(state)
    else:
        # The targets of the map of the constant and the scaled features, (P, p + 1).
        z = state.likelihood.z(state.data.x)
        of_z = Influence(z, np.empty((0, z.shape[1])), np.empty(0, dtype=np.intp), np.empty(0), of_fit.weight)
        derivative = state.likelihood.mean_derivative(mapped(of_z).plugin.reshape(-1, z.shape[1]))
        corrections = scale.factor * state.likelihood.corrections(derivative, state.data, units.blocks)
        mapped = partial(_with_corrections, mapped, corrections)
        of_labels = partial(state.likelihood.changes, derivative)
        added = None if state.unanimous is None else state.unanimous.covariance_along(of_labels)
    joint = mean_over_repetitions(by_repetition) if by_repetition else mapped(of_fit)

    def clustered(influence: JointInfluence) -> Covariance:
        return clustered_covariance(influence, gauges, clusters, annotator, n_parts=n_targets)

    def influence_of(scores: Influence, fixed: bool) -> JointInfluence:
        if scores is of_fit and (by_repetition or not fixed):
            return joint.changed(Influence.given_prompts) if fixed else joint
        # Values of zero have no influence, also where no function of the context is constant.
        return mapped(replace(scores, value=np.zeros_like(scores.value)) if fixed else scores)

    def covariance(scores: Influence, fixed: bool) -> Covariance:
        made = clustered(influence_of(scores, fixed))
        if added is not None:
            made = made.plus(added * scale.factor**2)
        if scores.variance_correction is not None:
            overall = scores.given_prompts() if fixed else scores
            of_scores = clustered_covariance(overall, gauge, clusters, annotator)
            corrected = of_scores.with_variance_correction(scores.variance_correction / scores.n_contexts)
            inflation = transport_map(of_scores.matrix, corrected)
            blocks = made.matrix.reshape(n_targets, len(inflation), n_targets, len(inflation))
            inflated = np.einsum("ab,pbqc,dc->paqd", inflation, blocks, inflation, optimize=True)
            made = replace(made, matrix=inflated.reshape(made.matrix.shape))
        # With fixed prompts the covariance is never larger than that for new prompts, as in the fit.
        return made.at_most(covariance(scores, False).matrix) if fixed else made

    tasks: list[Callable[[], Covariance]] = [partial(covariance, of_fit, fixed)]
    changes = [in_unit(r.change.by_context(), scale) for r in state.repetitions if r.change is not None]
    if changes and state.options.learning.second_order:
        # As in the fit, variances are at least those before the step u was added plus those of u.
        before = [in_unit(r.before_change.target.by_context(), scale) for r in state.repetitions]
        tasks.append(partial(covariance, mean_influence(before), fixed))
        tasks.append(lambda: clustered(mapped(mean_influence(changes))))
    made, *others = in_order(lambda task: task(), tasks, current().n_threads, boosts=False)
    if others:
        made = made.at_least(np.add(*(other.matrix for other in others)))
    if state.widening is not None:
        both = np.tile(state.widening, n_targets)
        made = replace(made, matrix=made.matrix * np.outer(both, both))
    if len(state.repetitions) > 1:
        scores = (in_unit(r.one_step_result.target.by_context(), scale) for r in state.repetitions)
        repeated = [one.estimate for one in by_repetition or map(mapped, scores)]
        made = made.with_repetition_variance(np.stack(repeated))
    return joint, made


def in_unit(influence: Influence, scale: Scale) -> Influence:
    """Return the influence of scores in another unit."""
    if scale.factor == 1 and not scale.shift:
        return influence
    value, correction, square = scale.of(influence.value), influence.correction, influence.variance_correction
    square = None if square is None else square * scale.factor**2
    return replace(influence, value=value, correction=scale.factor * correction, variance_correction=square)


def _with_corrections(
    mapped: Callable[[Influence], JointInfluence], corrections: FloatArray, influence: Influence
) -> JointInfluence:
    """Return the influence of targets whose values are mapped, and whose corrections, (q, P K), are those of labels."""
    joint, n, n_blocks = mapped(influence.without_correction()), influence.n_contexts, len(influence.block_context)
    n_targets, size = len(joint.sizes), joint.sizes[0]

    def part(number: int) -> Influence:
        of_target = slice(number * size, (number + 1) * size)
        value = np.broadcast_to(joint.plugin[of_target], (n, size)).copy()
        value[joint.contexts[number]] += joint.centred_in(number)
        return replace(influence, value=value, correction=corrections[:, of_target])

    return JointInfluence(
        part, joint.sizes, (np.arange(n),) * n_targets, (np.arange(n_blocks),) * n_targets, n, n_blocks
    )
