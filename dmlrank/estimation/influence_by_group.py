"""Influence values by group of identical contexts.

Where mu is the same in all contexts of a fold, one context of each group is evaluated instead of all contexts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy import sparse

from .._utils.computation import report
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..functionals import Functional
from .cross_fitting import HeldOutLabels
from .identical_contexts import IdenticalContexts, may_save_half
from .influence import Influence
from .influence_blocks import InfluenceBlocks
from .nuisance_estimates import NuisanceEstimates, TargetPopulation
from .one_step_result import Estimands, OneStepResult, name_influences
from .outcome_floor import clip_and_renormalise, count_below
from .variance_correction import (
    has_variance_correction,
    local_variance_correction,
    pair_variance_scale,
    variance_correction,
)

# Number of influence values in memory at a time. The computation takes as long with a fifth of this number, and longer
# with four times this number.
_CHUNK = 1_000_000
# Influence values of one score that may be stored for all contexts: 160 MB, of which a fit needs a few.
MAX_STORED = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums over all contexts of powers of the influence values phi.

    second (d, d): Sum of phi phi'.
    fourth (d,): Sum of the fourth powers.
    """

    second: FloatArray
    fourth: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class GroupedResiduals:
    """mu and weighted residuals by group of identical contexts, which all scores share.

    mu (F, K, K, C): mu in each of the F folds, clipped at the floor for scores that need a floor.
    residual (r, C): 1 / pi (Y - mu) at the groups' cells.
    weight (n,): Weights of the contexts in the target population, with mean one.
    flip (C,): The categories with the wins exchanged, where display order does not matter; None where it does.
    blocks: One per context.
    """

    groups: IdenticalContexts
    mu: FloatArray
    residual: FloatArray
    weight: FloatArray
    flip: IntArray | None
    blocks: InfluenceBlocks

    def weight_sums(self, power: int) -> FloatArray:
        """Add up a power of the contexts' weights in each group, (k,)."""
        total: FloatArray = np.bincount(self.groups.group, self.weight**power, len(self.groups)).astype(float)
        return total

    def direction(self, power: int) -> FloatArray:
        """Add up the weighted residuals of all contexts by fold and ordered pair, (F, K, K, C).

        The weight of a residual is the weight of its context, raised to ``power``.
        """
        groups, shape = self.groups, self.mu.shape
        n_items, n_categories = shape[1], shape[3]
        code = (groups.fold[groups.cell_group] * n_items + groups.cells.first) * n_items + groups.cells.second
        amount = self.weight_sums(power)[groups.cell_group]
        n_codes = shape[0] * n_items**2
        columns = [np.bincount(code, amount * self.residual[:, c], n_codes) for c in range(n_categories)]
        total: FloatArray = np.stack(columns, axis=-1).astype(float).reshape(shape)
        return total if self.flip is None else total + in_other_order(total)


@dataclass(frozen=True, slots=True, eq=False)
class GroupedInfluence:
    """Influence of a score by group of identical contexts, without arrays of shape (n, d).

    by_fold (F, d): F(mu) in each fold.
    plugin, estimate (d,): Weighted mean of F(mu), and the debiased estimate.
    variance_correction (d, d): See :class:`dmlrank.estimation.influence.Influence`.
    _moments: Cache of :meth:`moments`, which a fit needs several times: empty, or with one element.
    """

    score: Functional
    residuals: GroupedResiduals
    by_fold: FloatArray
    plugin: FloatArray
    estimate: FloatArray
    variance_correction: FloatArray | None = None
    _moments: list[Moments] = field(default_factory=list, init=False, repr=False)

    @property
    def subsample_inflation(self) -> float:
        """Relative increase of the standard errors from averaging F(mu) over a sample; zero, as there is no sample."""
        return 0.0

    @property
    def n_contexts(self) -> int:
        """Number of contexts, n."""
        return len(self.residuals.weight)

    @property
    def n_scores(self) -> int:
        """Number of scores, d."""
        return len(self.estimate)

    @property
    def value_weight(self) -> FloatArray:
        """Weight of each context in the mean of F(mu), (n,)."""
        return self.residuals.weight

    def second_moment(self) -> FloatArray:
        """Return the sum of phi phi' over all contexts, (d, d)."""
        return self.moments().second

    def power_sums(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums over all contexts of the second and of the fourth powers of phi, (d,) each."""
        moments = self.moments()
        return np.diag(moments.second), moments.fourth

    def moments(self) -> Moments:
        """Return second and fourth moments, computed from the groups and the weights of their contexts."""
        if not self._moments:
            self._moments.append(self._compute_moments())
        return self._moments[0]

    def _compute_moments(self) -> Moments:
        """Add up the moments over the groups, chunk by chunk."""
        roots, fourths = np.sqrt(self.residuals.weight_sums(2)), self.residuals.weight_sums(4)
        second, fourth = np.zeros((self.n_scores, self.n_scores)), np.zeros(self.n_scores)
        for part in self._parts():
            phi = self._phi_before_weighting(part)
            square = np.square(phi)
            fourth += fourths[part] @ np.square(square, out=square)
            # The product of a matrix and its own transpose takes half as long as another product.
            phi *= roots[part, None]
            second += phi.T @ phi
        return Moments(second, fourth)

    def sums_by(self, unit: IntArray) -> FloatArray:
        """Return the sums of phi over units of contexts, (u, d); ``unit``, (n,), numbers each context's unit from 0."""
        groups, n_units = self.residuals.groups, int(unit.max()) + 1
        shape = (n_units, len(groups))
        counts = sparse.csc_array(sparse.coo_array((self.residuals.weight, (unit, groups.group)), shape=shape))
        total = np.zeros((n_units, self.n_scores))
        for part in self._parts():
            total += counts[:, part] @ self._phi_before_weighting(part)
        return total

    def by_context(self) -> Influence:
        """Return the same influence with the values of every context."""
        groups, blocks, n = self.residuals.groups, self.residuals.blocks, self.n_contexts
        correction = np.zeros((len(groups), self.n_scores))
        for part in self._parts():
            correction[part] = self._corrections(part)
        value = self.by_fold[groups.fold[groups.group]]
        block_weight = np.zeros(n)
        np.add.at(block_weight, blocks.entry_block, blocks.entry_share)
        return Influence(
            value=value,
            correction=correction[groups.group],
            block_context=blocks.context,
            block_weight=block_weight,
            weight=self.residuals.weight,
            variance_correction=self.variance_correction,
        )

    def without_correction(self) -> Influence:
        """Return the influence of the plug-in estimate: F(mu) without the correction."""
        return self.by_context().without_correction()

    def given_prompts(self) -> Influence:
        """Return the influence of the same estimate where the prompts are fixed: the correction without F(mu)."""
        return self.by_context().given_prompts()

    def _parts(self) -> Iterator[slice]:
        """Yield the groups in chunks, each of them within one fold."""
        size = max(1, _CHUNK // self.n_scores)
        bounds = self.residuals.groups.bounds(len(self.by_fold)).tolist()
        for fold_start, fold_end in pairwise(bounds):
            for start in range(fold_start, fold_end, size):
                yield slice(start, min(start + size, fold_end))

    def _phi_before_weighting(self, part: slice) -> FloatArray:
        """Return F(mu) plus correction less the estimate, (b, d), for b groups of one fold."""
        phi = self._corrections(part)
        phi += self.by_fold[self.residuals.groups.fold[part.start]] - self.estimate
        return phi

    def _corrections(self, part: slice) -> FloatArray:
        """Return the corrections of b groups of one fold, (b, d)."""
        residuals, groups = self.residuals, self.residuals.groups
        start, end = np.searchsorted(groups.cell_group, [part.start, part.stop])
        first, second = groups.cells.first[start:end], groups.cells.second[start:end]
        mu, delta = residuals.mu[groups.fold[part.start]], residuals.residual[start:end]
        change = self.score.derivative_along(mu, delta, first, second, ordered=residuals.flip is None)
        place = groups.cell_group[start:end] - part.start
        n_groups = part.stop - part.start
        if np.array_equal(place, np.arange(n_groups)):
            return change
        total = np.zeros((n_groups, self.n_scores))
        np.add.at(total, place, change)
        return total


def groups_suffice(
    estimands: Estimands,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation,
    *,
    max_stored: int = MAX_STORED,
) -> bool:
    """Whether groups of identical contexts give the same estimates as all contexts, at a lower cost."""
    constant = nuisances.mu.by_fold()
    if constant is None or nuisances.judge is not None or population.sample is not None or not blocks.one_per_context:
        return False
    if not all(score.has_fast_pairs for score in estimands.scores().values()):
        return False
    needs_too_much = data.n_contexts * data.n_items > max_stored
    if not needs_too_much and not may_save_half(data):
        return False
    groups = constant.identical_contexts(data)
    is_cheaper = 2 * len(groups) <= data.n_contexts or needs_too_much
    return is_cheaper and groups.is_constant_within_groups(nuisances.propensity)


def evaluate_groups(
    estimands: Estimands,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation,
) -> OneStepResult:
    """Estimate by one step with one influence value for each group of identical contexts.

    :func:`groups_suffice` has to be true for the arguments.

    Notes
    -----
    F(mu) and its derivative are the same in all contexts of a fold. The correction of a context is the derivative along
    its residuals, and therefore linear in them. The sum of the corrections in a fold is the derivative along the sum of
    the residuals.
    """
    constant = nuisances.mu.by_fold()
    assert constant is not None
    groups, unclipped = constant.identical_contexts(data), constant.tables()
    cells, fold = groups.cells, groups.fold[groups.cell_group]
    cell_mu, pi = unclipped[fold, cells.first, cells.second], nuisances.propensity[groups.representative]
    scale = pair_variance_scale(HeldOutLabels(cell_mu, cells, groups.n_cells), pi, data)
    weight, flip = population.weights(data.n_contexts), None if data.ordered else data.flip
    residuals = {}
    for interior, mu in ((False, unclipped), (True, clip_and_renormalise(unclipped, nuisances.floor))):
        residual = (cells.y - mu[fold, cells.first, cells.second]) / pi[:, None]
        residuals[interior] = GroupedResiduals(groups, mu, residual, weight, flip, blocks)
    scores = list(estimands.scores().values())
    influences = [_influence_of_score(score, residuals[bool(score.interior)], scale, data) for score in scores]
    n_below = n_entries = 0
    if any(score.interior for score in scores):
        contexts_by_fold = np.bincount(constant.folds.fold, minlength=len(unclipped))
        n_below = count_below(unclipped, nuisances.floor, contexts_by_fold)
        n_entries = data.n_contexts * data.n_items * (data.n_items - 1) * data.n_categories
    report(data.n_contexts, data.n_contexts, "scores, contexts")
    return OneStepResult(
        **name_influences(estimands, influences),
        cell_mu=np.take(cell_mu, groups.row, axis=0),
        n_floored=n_below,
        n_entries=n_entries,
        labels=HeldOutLabels.by_pair(nuisances.mu, groups, data.n_items),
    )


def _influence_of_score(
    score: Functional, residuals: GroupedResiduals, scale: FloatArray, data: PreferenceData
) -> GroupedInfluence:
    """Compute the estimate and the variance correction of one score.

    Shapes: scale (K, K).
    """
    by_fold, correction = score.value_and_derivative(residuals.mu, residuals.direction(1))
    fold_weight = np.bincount(residuals.groups.fold, residuals.weight_sums(1), len(residuals.mu))
    plugin = fold_weight @ by_fold / fold_weight.sum()
    estimate = plugin + correction.sum(axis=0) / data.n_contexts
    added_variance = _variance_correction_of_score(score, residuals, scale, data)
    return GroupedInfluence(score, residuals, by_fold, plugin, estimate, added_variance)


def _variance_correction_of_score(
    score: Functional, residuals: GroupedResiduals, scale: FloatArray, data: PreferenceData
) -> FloatArray | None:
    """Compute the variance correction of one score, (d, d); None where no formula is available.

    Shapes: scale (K, K).
    """
    n, groups = data.n_contexts, residuals.groups
    cells = groups.cells
    if not has_variance_correction(score, n, data.n_items):
        return None
    if score.pair_local:
        weight = scale[cells.first, cells.second] * residuals.weight_sums(2)[groups.cell_group]
        mu = residuals.mu[groups.fold[groups.cell_group], cells.first, cells.second]
        pairs = (cells.first, cells.second, data.n_items)
        return local_variance_correction(score, mu, residuals.residual, weight, pairs) / n
    fold_weight = np.ones(len(residuals.mu))
    return variance_correction(score, residuals.mu, residuals.direction(2), scale, fold_weight) / n
