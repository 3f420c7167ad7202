"""Influence by group of identical contexts: where mu is the same throughout a fold, one of each is evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy import sparse

from .._utils.progress import report
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..functionals.base import AlongPairs, Local
from ..functionals.protocols import LabelScore, OrderedPairs, Score
from .cross_fitting import HeldOutLabels
from .identical_contexts import IdenticalContexts
from .influence import Influence
from .influence_blocks import InfluenceBlocks
from .nuisance_estimates import NuisanceEstimates, TargetPopulation
from .one_step_result import Estimands, OneStepResult, name_influences
from .outcome_floor import clip_and_renormalise, count_below
from .variance_correction import (
    CorrectionCovariance,
    LocalCorrectionCovariance,
    knows_correction_covariance,
    local_variance_correction,
    pair_variance_scale,
    variance_correction,
)

# Influence values that are held at a time; a fifth of it takes about as long, four times as many longer.
_CHUNK = 1_000_000
# Values of one score that are held for all contexts rather than made anew by group: 160 MB, a few times.
_MOST_BY_CONTEXT = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums over all contexts of phi phi', (d, d), and of the fourth powers of phi, (d,)."""

    second: FloatArray
    fourth: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class GroupedResiduals:
    """mu and weighted residuals by group of identical contexts, which all scores share.

    Attributes
    ----------
    groups : IdenticalContexts
    mu : ndarray, shape (F, K, K, C)
        mu in each fold, clipped at the floor where the score needs one.
    residual : ndarray, shape (r, C)
        1 / pi (Y - mu) at the groups' cells.
    weight : ndarray, shape (n,)
        Weights of the contexts in the target population, with mean one.
    flip : ndarray of int, shape (C,), or None
        The categories with the wins exchanged, where order does not matter.
    blocks : InfluenceBlocks
        One per context.
    """

    groups: IdenticalContexts
    mu: FloatArray
    residual: FloatArray
    weight: FloatArray
    flip: IntArray | None
    blocks: InfluenceBlocks

    def weights(self, power: int) -> FloatArray:
        """Sum of a power of the contexts' weights by group, (k,)."""
        total: FloatArray = np.bincount(self.groups.group, self.weight**power, len(self.groups)).astype(float)
        return total

    def direction(self, power: int) -> FloatArray:
        """Sum over each fold's contexts of their weight's power times delta, (F, K, K, C)."""
        groups, shape = self.groups, self.mu.shape
        n_items, n_categories = shape[1], shape[3]
        place = (groups.fold[groups.cell_group] * n_items + groups.cells.first) * n_items + groups.cells.second
        amount = self.weights(power)[groups.cell_group]
        size = shape[0] * n_items**2
        columns = [np.bincount(place, amount * self.residual[:, c], size) for c in range(n_categories)]
        total: FloatArray = np.stack(columns, axis=-1).astype(float).reshape(shape)
        return total if self.flip is None else total + in_other_order(total)


@dataclass(frozen=True, slots=True, eq=False)
class GroupedInfluence:
    """Influence of a score by group of identical contexts; nothing of size (n, d) is held.

    Attributes
    ----------
    score : Local or AlongPairs
    residuals : GroupedResiduals
    by_fold : ndarray, shape (F, d)
        F(mu) in each fold.
    plugin, estimate : ndarray, shape (d,)
        Weighted mean of F(mu), and the debiased estimate.
    variance_correction : ndarray, shape (d, d), or None
        See :class:`dmlrank.estimation.influence.Influence`.
    """

    score: Score
    residuals: GroupedResiduals
    by_fold: FloatArray
    plugin: FloatArray
    estimate: FloatArray
    variance_correction: FloatArray | None = None
    # The second and fourth moments are asked for several times in a fit.
    _known: list[Moments] = field(default_factory=list, init=False, repr=False)

    @property
    def subsample_inflation(self) -> float:
        """Nothing: F(mu) is averaged over all contexts."""
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
        """What each context's F(mu) counts, (n,)."""
        return self.residuals.weight

    def second_moment(self) -> FloatArray:
        """Sum of phi phi' over all contexts, (d, d)."""
        return self.moments().second

    def power_sums(self) -> tuple[FloatArray, FloatArray]:
        """Sums over all contexts of the second and of the fourth powers of phi, (d,) each."""
        moments = self.moments()
        return np.diag(moments.second), moments.fourth

    def moments(self) -> Moments:
        """Second and fourth moments, from the groups and how often each occurs."""
        if not self._known:
            self._known.append(self._moments())
        return self._known[0]

    def _moments(self) -> Moments:
        roots, fourths = np.sqrt(self.residuals.weights(2)), self.residuals.weights(4)
        second, fourth = np.zeros((self.n_scores, self.n_scores)), np.zeros(self.n_scores)
        for part in self._parts():
            phi = self._unweighted(part)
            square = np.square(phi)
            fourth += fourths[part] @ np.square(square, out=square)
            # A product of a matrix with itself is half the work.
            phi *= roots[part, None]
            second += phi.T @ phi
        return Moments(second, fourth)

    def sums_by(self, unit: IntArray) -> FloatArray:
        """Sums of phi over units of contexts, (u, d), for the unit of each context, (n,), numbered from 0."""
        groups, n_units = self.residuals.groups, int(unit.max()) + 1
        shape = (n_units, len(groups))
        counts = sparse.csc_array(sparse.coo_array((self.residuals.weight, (unit, groups.group)), shape=shape))
        total = np.zeros((n_units, self.n_scores))
        for part in self._parts():
            total += counts[:, part] @ self._unweighted(part)
        return total

    def by_context(self) -> Influence:
        """The same with the values of every context."""
        groups, blocks, n = self.residuals.groups, self.residuals.blocks, self.n_contexts
        correction = np.zeros((len(groups), self.n_scores))
        for part in self._parts():
            correction[part] = self._corrections(part)
        value = self.by_fold[groups.fold[groups.group]]
        weight = np.zeros(n)
        np.add.at(weight, blocks.entry_block, blocks.entry_share)
        return Influence(
            value, correction[groups.group], blocks.context, weight, self.residuals.weight, self.variance_correction
        )

    def without_correction(self) -> Influence:
        """That of the plug-in estimator: F(mu) alone."""
        return self.by_context().without_correction()

    def given_prompts(self) -> Influence:
        """That of the estimate where the prompts are fixed: the correction alone."""
        return self.by_context().given_prompts()

    def _parts(self) -> Iterator[slice]:
        """Groups in chunks, none of them across folds."""
        size = max(1, _CHUNK // self.n_scores)
        bounds = self.residuals.groups.bounds(len(self.by_fold)).tolist()
        for start, end in pairwise(bounds):
            for at in range(start, end, size):
                yield slice(at, min(at + size, end))

    def _unweighted(self, part: slice) -> FloatArray:
        """F(mu) and correction less the estimate, of some groups of one fold, (b, d)."""
        phi = self._corrections(part)
        phi += self.by_fold[self.residuals.groups.fold[part.start]] - self.estimate
        return phi

    def _corrections(self, part: slice) -> FloatArray:
        """Corrections of some groups of one fold, (b, d)."""
        held = self.residuals
        start, end = np.searchsorted(held.groups.cell_group, [part.start, part.stop])
        first, second = held.groups.cells.first[start:end], held.groups.cells.second[start:end]
        mu = held.mu[held.groups.fold[part.start]]
        change = self._along(mu, held.residual[start:end], first, second)
        if held.flip is not None:
            change += self._along(mu, held.residual[start:end][:, held.flip], second, first)
        place = held.groups.cell_group[start:end] - part.start
        if len(place) == part.stop - part.start == (place[-1] + 1 if len(place) else 0) and (np.diff(place) > 0).all():
            return change
        total = np.zeros((part.stop - part.start, self.n_scores))
        np.add.at(total, place, change)
        return total

    def _along(self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Derivatives at ``mu``, (K, K, C), along directions at one pair each, (b, d)."""
        if isinstance(self.score, Local):
            return self.score.derivative_at(mu[first, second], delta, first, second, len(mu))
        assert isinstance(self.score, AlongPairs)
        return np.asarray(self.score.derivative_along(mu, delta, first, second))


def groups_suffice(
    estimands: Estimands,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation,
) -> bool:
    """Whether groups of identical contexts give the estimates of all contexts, at a lower cost.

    They do where mu and the propensities are the same within a group, each context is one block, no judge and no sample
    tells contexts apart, and every score knows its derivative along single pairs. They cost less where they are at most
    half as many as the contexts, or the values of all contexts would fill the memory.
    """
    constant = nuisances.mu.by_fold()
    if constant is None or nuisances.judge is not None or population.sample is not None or not blocks.one_per_context:
        return False
    if not all(isinstance(score, Local | AlongPairs) for score in estimands.scores().values()):
        return False
    groups = constant.identical_contexts(data)
    few = 2 * len(groups) <= data.n_contexts or data.n_contexts * data.n_items > _MOST_BY_CONTEXT
    return few and groups.is_constant_within_groups(nuisances.propensity)


def evaluate_groups(
    estimands: Estimands,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation,
) -> OneStepResult:
    """One evaluation for each group of identical contexts; arguments for which :func:`groups_suffice`.

    Notes
    -----
    F(mu) and its derivative are those of the fold. The correction is linear in delta, so that its sum over a fold is
    the derivative along the sum of the deltas.
    """
    constant = nuisances.mu.by_fold()
    assert constant is not None
    groups, raw = constant.identical_contexts(data), constant.tables()
    cells, fold = groups.cells, groups.fold[groups.cell_group]
    cell_mu, pi = raw[fold, cells.first, cells.second], nuisances.propensity[groups.example]
    scale = pair_variance_scale(HeldOutLabels(cell_mu, cells, groups.n_cells), pi, data)
    weight, flip = population.weights(data.n_contexts), None if data.ordered else data.flip
    residuals = {}
    for interior, seen in ((False, raw), (True, clip_and_renormalise(raw, nuisances.floor))):
        residual = (cells.y - seen[fold, cells.first, cells.second]) / pi[:, None]
        residuals[interior] = GroupedResiduals(groups, seen, residual, weight, flip, blocks)
    scores = list(estimands.scores().values())
    influences = [_influence(score, residuals[bool(score.interior)], scale, data) for score in scores]
    n_below = n_entries = 0
    if any(score.interior for score in scores):
        n_below = int(count_below(raw, nuisances.floor) @ np.bincount(constant.folds.fold, minlength=len(raw)))
        n_entries = data.n_contexts * data.n_items * (data.n_items - 1) * data.n_categories
    report(data.n_contexts, data.n_contexts, "scores, contexts")
    return OneStepResult(
        **name_influences(estimands, influences),
        cell_mu=np.take(cell_mu, groups.row, axis=0),
        n_floored=n_below,
        n_entries=n_entries,
        labels=HeldOutLabels.by_pair(nuisances.mu, groups, data.n_items),
    )


def _influence(
    score: Score | LabelScore, residuals: GroupedResiduals, scale: FloatArray, data: PreferenceData
) -> GroupedInfluence:
    """Estimate and variance correction of one score."""
    assert not isinstance(score, LabelScore)
    by_fold, moved = score.value_and_derivative(residuals.mu, residuals.direction(1))
    share = np.bincount(residuals.groups.fold, residuals.weights(1), len(residuals.mu))
    plugin = share @ by_fold / share.sum()
    estimate = plugin + moved.sum(axis=0) / data.n_contexts
    added = _variance_correction(score, residuals, scale, data)
    return GroupedInfluence(score, residuals, by_fold, plugin, estimate, added)


def _variance_correction(
    score: Score, residuals: GroupedResiduals, scale: FloatArray, data: PreferenceData
) -> FloatArray | None:
    """How far a shrunken mu makes standard errors too small, (d, d); None where it is not known.

    A derivative along delta is summed over contexts. Where it needs mu at all pairs, it is taken along the sum of the
    deltas of each fold.
    """
    n, groups = data.n_contexts, residuals.groups
    cells = groups.cells
    if isinstance(score, Local):
        if not isinstance(score, LocalCorrectionCovariance):
            return None
        weight = scale[cells.first, cells.second] * residuals.weights(2)[groups.cell_group]
        mu = residuals.mu[groups.fold[groups.cell_group], cells.first, cells.second]
        pairs = OrderedPairs(cells.first, cells.second, data.n_items)
        return local_variance_correction(score, mu, residuals.residual, weight, pairs) / n
    if isinstance(score, CorrectionCovariance) and knows_correction_covariance(score, n, data.n_items):
        every = np.ones(len(residuals.mu))
        return variance_correction(score, residuals.mu, residuals.direction(2), scale, every) / n
    return None
