"""The one-step estimator: from the first stages to debiased estimates and their influence values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._utils.computation import in_workers, report
from .._utils.mapped_arrays import row_blocks, zeros
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..functionals.base import Functional, LabelScore
from .cross_fitting import (
    ContextPart,
    HeldOutLabels,
    IdenticalContexts,
    NumberedParts,
    clip_and_renormalise,
    count_below,
    may_save_half,
)
from .influence import (
    Estimands,
    Influence,
    InfluenceBlocks,
    KnownValues,
    NuisanceEstimates,
    OneStepResult,
    TargetPopulation,
    add_to_rows,
    name_influences,
)
from .residuals import (
    Residuals,
    has_variance_correction,
    local_variance_correction,
    pair_variance_scale,
    variance_correction,
    variance_scale_by_pair,
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


# Entries of mu in one chunk. A few arrays of this size are in memory at a time, in every thread.
CHUNK = 2_000_000
# Values and corrections from mu at all pairs need several arrays of the size of mu at the same time. They are computed
# for as many contexts as have a chunk of entries in this number of arrays.
_ARRAYS_PER_CHUNK = 8


def evaluate_contexts(
    estimands: Estimands,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation,
    *,
    known: KnownValues | None = None,
    chunk: int,
) -> OneStepResult:
    """Estimate by one step with the influence values of every context.

    Contexts are evaluated chunk by chunk, and contexts with equal features once per fold. No array has an entry for
    every context and every pair.
    """
    task = _Task.of(estimands, data, nuisances, blocks, population=population, chunk=chunk)
    if known is not None and not (population.sample is None and task.are_corrected_by_label):
        known = None
    needed = _contexts_needed(task, population.sample) if known is None else ~known.is_known
    parts = NumberedParts(nuisances.mu, contexts_at_a_time(data, chunk), needed)
    collectors = [_Collector(data.n_contexts, len(blocks.context), like=data.x) for _ in task.scores]
    n_floored = n_entries = n_done = 0
    if known is not None:
        n_floored, n_done = known.n_floored, int(known.is_known.sum())
        n_entries = n_done * task.entries_per_context
        for name, collector in zip(estimands.scores(), collectors, strict=True):
            collector.set_values(known.is_known, known.by_name[name])
    evaluated_parts = in_workers(
        _evaluate_part,
        (task, parts),
        range(len(parts)),
        name="scores of contexts",
        is_concurrent=parts.is_concurrent,
    )
    for number, evaluated in enumerate(evaluated_parts):
        part = parts[number]
        for score_part, collector in zip(evaluated.scores, collectors, strict=True):
            collector.add(part.contexts, score_part)
            if score_part.variance_correction is not None:
                collector.add_variance_correction(score_part.variance_correction)
        n_floored += evaluated.n_floored
        n_entries += len(part.contexts) * task.entries_per_context
        n_done += len(part.contexts)
        report(n_done, data.n_contexts, "scores, contexts")
    for score, collector in zip(task.scores, collectors, strict=True):
        _add_local_corrections(task, score, collector)
    sample_weight = population.sample_weights(data.n_contexts)
    influences = [collector.influence(blocks, task.weight, sample_weight) for collector in collectors]
    return OneStepResult(
        **name_influences(estimands, influences),
        cell_mu=task.cell_mu,
        n_floored=n_floored,
        n_entries=n_entries,
        labels=HeldOutLabels.of(nuisances.mu, data, task.cell_mu),
    )


def _add_local_corrections(task: _Task, score: Functional, collector: _Collector) -> None:
    """Add the corrections that need mu at labelled and judged pairs only, for all contexts together."""
    if score.pair_local:
        if not task.has_many_labels:
            collector.set_correction(task.local_correction(score, score.interior))
        if not score.linear:
            collector.add_variance_correction(task.local_variance_correction(score, score.interior))


def _evaluate_part(shared: tuple[_Task, NumberedParts], number: int) -> _EvaluatedPart:
    """Evaluate one part of the contexts."""
    task, parts = shared
    return task.evaluate(parts[number])


def contexts_at_a_time(data: PreferenceData, chunk: int = CHUNK) -> int:
    """Return the number of contexts whose probabilities have at most ``chunk`` entries, at least one."""
    return max(1, chunk // (data.n_items**2 * data.n_categories))


def _contexts_needed(task: _Task, sample: IntArray | None) -> NDArray[np.bool_] | None:
    """Return which contexts need mu at all pairs, (n,); None for all."""
    if sample is None:
        return None
    is_needed = np.zeros(task.data.n_contexts, dtype=bool)
    is_needed[sample] = True
    if not task.are_corrected_by_label:
        is_needed[task.residuals.context] = True
    return is_needed


@dataclass(frozen=True, slots=True, eq=False)
class _ScorePart:
    """One score evaluated in a part of b contexts with p influence blocks.

    value (b, d): F(mu) by context.
    block (p,): The blocks of these contexts; None for a score whose corrections :meth:`_Task.local_correction` computes
        for all contexts together.
    correction (p, d): Corrections by block.
    variance_correction (d, d): These contexts' part of the variance correction.
    """

    value: FloatArray
    block: IntArray | None = None
    correction: FloatArray | None = None
    variance_correction: FloatArray | None = None

    @classmethod
    def joined(cls, parts: Sequence[_ScorePart]) -> _ScorePart:
        """Join the results of one score in several sets of contexts, each with its blocks."""
        variance_corrections = [part.variance_correction for part in parts if part.variance_correction is not None]
        return cls(
            np.concatenate([part.value for part in parts]),
            np.concatenate([part.block for part in parts if part.block is not None]),
            np.concatenate([part.correction for part in parts if part.correction is not None]),
            np.sum(variance_corrections, axis=0) if variance_corrections else None,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """A few contexts that are evaluated at a time, with their r residuals and p influence blocks.

    contexts (b,).
    rows (r,): Residuals of these contexts.
    row_place (r,): Place of each residual's context in ``contexts``.
    row_block (r,): Place of each residual's block in ``block``.
    block (p,).
    block_place (p,): Place of each block's context in ``contexts``.
    directions: Directions that were computed already, by whether mu is clipped; see :meth:`_Task._directions`.
    """

    contexts: IntArray
    rows: IntArray
    row_place: IntArray
    row_block: IntArray
    block: IntArray
    block_place: IntArray
    directions: dict[bool, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _EvaluatedPart:
    """All scores evaluated in a part of the contexts.

    scores: One per score.
    n_floored: Number of entries of mu below the floor.
    """

    scores: list[_ScorePart]
    n_floored: int


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """The evaluation of several scores in parts of the contexts, with the inputs that all parts share.

    floor: Smallest probability of mu for scores that need a floor.
    weight (n,): Weights of the contexts in the target population.
    cell_mu (m, C): mu at the labelled cells.
    residuals: The e residuals of votes and verdicts.
    scale (K, K): See :func:`dmlrank.estimation.residuals.variance_scale_by_pair`; None where no score has a variance
        correction.
    row_bounds (n + 1,): First residual of each context, and e.
    block_bounds (n + 1,): First block of each context, and the number of blocks.
    chunk: Number of entries of mu in memory at a time.
    """

    scores: Sequence[Functional]
    data: PreferenceData
    blocks: InfluenceBlocks
    floor: float
    weight: FloatArray
    cell_mu: FloatArray
    residuals: Residuals
    scale: FloatArray | None
    row_bounds: IntArray
    block_bounds: IntArray
    chunk: int

    @classmethod
    def of(
        cls,
        estimands: Estimands,
        data: PreferenceData,
        nuisances: NuisanceEstimates,
        blocks: InfluenceBlocks,
        *,
        population: TargetPopulation,
        chunk: int,
    ) -> _Task:
        """Prepare the evaluation; the arguments are those of :func:`evaluate_contexts`."""
        cell_mu = nuisances.mu.at(data.cells)
        context_bounds = np.arange(data.n_contexts + 1)
        residuals, scores = Residuals.of(data, nuisances, blocks, cell_mu), tuple(estimands.scores().values())
        scale = None
        if any(has_variance_correction(score, data.n_contexts, data.n_items) for score in scores):
            scale = variance_scale_by_pair(cell_mu, data, nuisances.propensity, nuisances.judge)
        return cls(
            scores,
            data.without_names(),
            blocks,
            nuisances.floor,
            population.weights(data.n_contexts),
            cell_mu,
            residuals,
            scale,
            np.searchsorted(residuals.context, context_bounds),
            np.searchsorted(blocks.context, context_bounds),
            chunk,
        )

    @property
    def interior(self) -> bool:
        """Whether any score needs a floor."""
        return any(score.interior for score in self.scores)

    @property
    def has_many_labels(self) -> bool:
        """Whether contexts have so many labels that one derivative for each context costs less than one for each label.

        A derivative for each label takes K numbers, one for each context K x K x C. Tables of benchmark scores, with
        K (K - 1) / 2 labels in a context, have many labels.
        """
        return len(self.residuals.block) > self.data.n_contexts * self.data.n_items * self.data.n_categories

    @property
    def entries_per_context(self) -> int:
        """Number of entries of mu in a context that are compared with the floor; 0 where no score needs a floor."""
        return self.data.n_items * (self.data.n_items - 1) * self.data.n_categories * self.interior

    @property
    def are_corrected_by_label(self) -> bool:
        """Whether the corrections of all scores need mu at the labelled pairs alone."""
        return all(self.is_corrected_by_label(score) for score in self.scores)

    def is_corrected_by_label(self, score: Functional) -> bool:
        """Return whether the corrections of a score are the sum of one derivative for each label."""
        return score.pair_local and not self.has_many_labels

    def evaluate(self, part: ContextPart) -> _EvaluatedPart:
        """Compute values in a part of the contexts, and the corrections that are not computed by label."""
        by_label = {
            number: (score, bool(score.interior))
            for number, score in enumerate(self.scores)
            if score.pair_local and self.is_corrected_by_label(score)
        }
        if len(by_label) == len(self.scores):
            blocks = ((rows, unclipped, self._clipped(unclipped)) for rows, unclipped in part.blocks())
            return self._values_of(part, list(by_label.values()), blocks)
        unclipped = part.probabilities()
        clipped = self._clipped(unclipped)
        score_parts = self._evaluate_all_pairs(unclipped, clipped, part)
        evaluated = self._values_of(part, list(by_label.values()), [(slice(0, len(unclipped)), unclipped, clipped)])
        score_parts |= dict(zip(by_label, evaluated.scores, strict=True))
        return _EvaluatedPart([score_parts[number] for number in range(len(self.scores))], evaluated.n_floored)

    def _clipped(self, mu: FloatArray) -> FloatArray:
        """Return probabilities clipped at the floor and renormalised, if any score needs this."""
        return clip_and_renormalise(mu, self.floor) if self.interior else mu

    def _values_of(
        self,
        part: ContextPart,
        scores: Sequence[tuple[Functional, bool]],
        blocks: Iterable[tuple[slice, FloatArray, FloatArray]],
    ) -> _EvaluatedPart:
        """Compute the values of some scores in a part, whose probabilities come in blocks of rows."""
        n_contexts_of_row = np.bincount(part.place)
        values: list[list[FloatArray]] = [[] for _ in scores]
        n_floored = 0
        for rows, unclipped, clipped in blocks:
            if self.interior:
                n_floored += count_below(unclipped, self.floor, n_contexts_of_row[rows])
            for (score, is_clipped), of_score in zip(scores, values, strict=True):
                of_score.append(score.value(clipped if is_clipped else unclipped))
        return _EvaluatedPart([_ScorePart(np.concatenate(of_score)[part.place]) for of_score in values], n_floored)

    def _evaluate_all_pairs(
        self, unclipped: FloatArray, clipped: FloatArray, part: ContextPart
    ) -> dict[int, _ScorePart]:
        """Compute values and corrections that need mu at all pairs, (b, K, K, C), a few contexts at a time."""
        numbers = [number for number, score in enumerate(self.scores) if not self.is_corrected_by_label(score)]
        if not numbers:
            return {}
        step = contexts_at_a_time(self.data, self.chunk // _ARRAYS_PER_CHUNK)
        by_score: dict[int, list[_ScorePart]] = {number: [] for number in numbers}
        for start in range(0, len(part.contexts), step):
            span = slice(start, start + step)
            contexts = self._span(part.contexts[span])
            for number in numbers:
                score = self.scores[number]
                mu = (clipped if score.interior else unclipped)[part.place[span]]
                by_score[number].append(self._evaluate_span(score, mu, contexts))
        return {number: _ScorePart.joined(score_parts) for number, score_parts in by_score.items()}

    def _span(self, contexts: IntArray) -> _Span:
        """Find the residuals and the blocks of b contexts."""
        rows, row_place = _rows_of_contexts(self.row_bounds, contexts)
        block, block_place = _rows_of_contexts(self.block_bounds, contexts)
        row_block = np.searchsorted(block, self.residuals.block[rows])
        return _Span(contexts, rows, row_place, row_block, block, block_place)

    def _directions(self, span: _Span, clipped: bool) -> FloatArray:
        """Return the weighted residuals of each block as a direction in which mu changes, (p, K, K, C)."""
        if clipped not in span.directions:
            residuals, data = self.residuals, self.data
            direction = np.zeros((len(span.block), data.n_items, data.n_items, data.n_categories))
            entries = (span.row_block, residuals.first[span.rows], residuals.second[span.rows])
            amount = residuals.weighted(span.rows, clipped)
            if residuals.m is None and not data.cells.flipped.any():
                # Without verdicts and votes in both orders of a pair, a block has one residual for a pair at most.
                direction[entries] = amount
            else:
                np.add.at(direction, entries, amount)
            if not data.ordered:
                direction += in_other_order(direction)
            span.directions[clipped] = direction
        return span.directions[clipped]

    def _evaluate_span(self, score: Functional, mu: FloatArray, span: _Span) -> _ScorePart:
        """Compute values and corrections of b contexts from their mu, (b, K, K, C)."""
        contexts, rows, residuals = span.contexts, span.rows, self.residuals
        if isinstance(score, LabelScore):
            # Such scores use no verdicts, so that there is one residual for each entry of the blocks (the votes of one
            # block on one labelled cell), in the same order.
            labels = (span.row_place, residuals.first[rows], residuals.second[rows], residuals.target[rows])
            value, per_label = score.by_label(mu, contexts, *labels)
            correction = np.zeros((len(span.block), per_label.shape[1]))
            np.add.at(correction, span.row_block, self.blocks.entry_share[rows][:, None] * per_label)
            return _ScorePart(value, span.block, correction)
        one_block_each = len(span.block) == len(contexts)
        block_mu = mu if one_block_each else mu[span.block_place]
        delta = self._directions(span, score.interior)
        value, correction = score.value_and_derivative(block_mu, delta)
        first_block = np.searchsorted(span.block_place, np.arange(len(contexts)))
        added_variance = None
        if _is_corrected_with_value(score, self.data):
            assert self.scale is not None
            context_delta = delta if one_block_each else _sum_by_context(delta, span.block_place, len(contexts))
            total = variance_correction(score, mu, context_delta, self.scale, self.weight[contexts])
            added_variance = total / self.data.n_contexts
        return _ScorePart(value[first_block], span.block, correction, added_variance)

    def local_correction(self, score: Functional, clipped: bool) -> FloatArray:
        """Compute the corrections by block, (q, d), of a score that needs mu at labelled and judged pairs only."""
        rows, n_items, flip = self.residuals, self.data.n_items, self.data.flip
        total: FloatArray | None = None
        step = max(1, self.chunk // n_items)
        for start in range(0, len(rows.block), step):
            part = slice(start, start + step)
            first, second = rows.first[part], rows.second[part]
            mu, residual = rows.mu_for(clipped)[part], rows.weighted(part, clipped)
            change = score.derivative_at(mu, residual, first, second, n_items)
            if not self.data.ordered:
                change = change + score.derivative_at(mu[:, flip], residual[:, flip], second, first, n_items)
            if total is None:
                total = zeros((len(self.blocks.context), change.shape[1]), like=self.data.x)
            add_to_rows(total, rows.block[part], change)
        return np.zeros((len(self.blocks.context), 0)) if total is None else total

    def local_variance_correction(self, score: Functional, clipped: bool) -> FloatArray:
        """Compute the variance correction, (d, d), of a score that needs mu at labelled and judged pairs only."""
        rows, n_items = self.residuals, self.data.n_items
        total: FloatArray | None = None
        assert self.scale is not None
        step = max(1, self.chunk // (_ARRAYS_PER_CHUNK * self.data.n_categories))
        for start in range(0, len(rows.block), step):
            part = slice(start, start + step)
            pairs = (rows.first[part], rows.second[part], n_items)
            weight = self.scale[pairs[0], pairs[1]] * self.weight[rows.context[part]] ** 2
            delta = rows.weighted(part, clipped)
            change = local_variance_correction(score, rows.mu_clipped[part], delta, weight, pairs)
            total = change if total is None else total + change
        assert total is not None
        return total / self.data.n_contexts


def _is_corrected_with_value(score: Functional, data: PreferenceData) -> bool:
    """Return whether the variance correction of a score is computed from mu at all pairs, together with its value."""
    return not score.pair_local and has_variance_correction(score, data.n_contexts, data.n_items)


class _Collector:
    """Collects the values by context and the corrections by block of one score, part by part.

    like: Features of the contexts: where they are in a mapped file, the values and corrections are, too.
    """

    def __init__(self, n_contexts: int, n_blocks: int, *, like: FloatArray) -> None:
        self._n_contexts, self._n_blocks, self._like = n_contexts, n_blocks, like
        self._value: FloatArray | None = None
        self._correction: FloatArray | None = None
        self._variance_correction: FloatArray | None = None

    def add(self, contexts: IntArray, score_part: _ScorePart) -> None:
        """Store the score of a part of the contexts."""
        n_scores = score_part.value.shape[1]
        if self._value is None:
            self._value = zeros((self._n_contexts, n_scores), like=self._like)
        self._value[contexts] = score_part.value
        if score_part.block is not None:
            if self._correction is None:
                self._correction = zeros((self._n_blocks, n_scores), like=self._like)
            self._correction[score_part.block] = score_part.correction

    def set_values(self, is_known: NDArray[np.bool_], value: FloatArray) -> None:
        """Store the known values of some contexts, by a mask, (n,), and values, (n, d)."""
        self._value = np.where(is_known[:, None], value, 0.0)

    def set_correction(self, correction: FloatArray) -> None:
        """Store the corrections of all blocks, (q, d)."""
        self._correction = correction

    def add_variance_correction(self, amount: FloatArray) -> None:
        """Add the variance correction of a part of the contexts, (d, d)."""
        self._variance_correction = amount if self._variance_correction is None else self._variance_correction + amount

    def influence(self, blocks: InfluenceBlocks, weight: FloatArray, sample_weight: FloatArray | None) -> Influence:
        """Return the influence of the score; the weights are those of :class:`Influence`."""
        assert self._value is not None
        assert self._correction is not None
        if sample_weight is not None:
            # A part of the contexts may hold others than those of the sample.
            for block in row_blocks(self._value):
                self._value[block][~(sample_weight[block] > 0)] = 0.0
        return Influence(
            self._value,
            self._correction,
            blocks.context,
            blocks.weight,
            weight,
            self._variance_correction,
            sample_weight,
        )


def _sum_by_context(delta: FloatArray, place: IntArray, n_contexts: int) -> FloatArray:
    """Add up directions of blocks, (p, K, K, C), within the context, (p,), of each block: (b, K, K, C)."""
    total = np.zeros((n_contexts, *delta.shape[1:]))
    np.add.at(total, place, delta)
    return total


def _rows_of_contexts(bounds: IntArray, contexts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of b contexts in a table sorted by context, (r,), and the place of each row's context, (r,)."""
    start, count = bounds[contexts], bounds[contexts + 1] - bounds[contexts]
    place = np.repeat(np.arange(len(contexts)), count)
    return np.arange(count.sum()) + (start - (np.cumsum(count) - count))[place], place


_EVERY_CONTEXT = TargetPopulation()


def one_step(
    estimands: Estimands,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation = _EVERY_CONTEXT,
    *,
    known: KnownValues | None = None,
    chunk: int = CHUNK,
    max_stored: int = MAX_STORED,
) -> OneStepResult:
    """Estimate functionals of mu by one step from the first stages.

    The estimate is the mean over contexts of F(mu) plus the correction sum_jk S / pi J_jk (Y - mu_jk). F is the
    functional and J_jk its derivative in mu_jk. S is 1 where the ordered pair (j, k) is labelled, pi is the probability
    of a label, and Y is the label.

    Where all contexts of a group of identical contexts have the same influence value, one context of each group is
    evaluated (:mod:`dmlrank.estimation.one_step`); otherwise every context is
    (:mod:`dmlrank.estimation.one_step`).

    Notes
    -----
    The correction is the directional derivative of F along delta_jk = S / pi (Y - mu_jk), so that no Jacobian is
    computed.

    Where display order does not matter, delta_jk is the sum of the residuals of (j, k) and of the residuals of (k, j)
    with the wins exchanged; delta_kj is delta_jk with the wins exchanged. pi is then the probability that the pair is
    labelled in either order.

    References
    ----------
    Frauen et al., arXiv 2601.21816, equation eq:debiased_estimator of the source.
    """
    if groups_suffice(estimands, data, nuisances, blocks, population, max_stored=max_stored):
        return evaluate_groups(estimands, data, nuisances, blocks, population)
    return evaluate_contexts(estimands, data, nuisances, blocks, population, known=known, chunk=chunk)
