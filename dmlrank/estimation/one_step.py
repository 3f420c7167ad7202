"""The one-step estimator: from the first stages to debiased estimates and their influence values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .._utils.computation import in_workers, report
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..functionals.base import Functional
from .bt_restricted import RestrictedBradleyTerry
from .cross_fitting import (
    ContextPart,
    HeldOutLabels,
    IdenticalContexts,
    NumberedParts,
    clip_and_renormalise,
    contexts_at_a_time,
    count_below,
    may_save_half,
)
from .influence import (
    CompressedInfluence,
    Estimands,
    Influence,
    InfluenceBlocks,
    KnownValues,
    NuisanceEstimates,
    OneStepResult,
    TargetPopulation,
    add_to_rows,
    weight_sums,
)
from .residuals import (
    Residuals,
    has_variance_correction,
    local_variance_correction,
    pair_variance_scale,
    variance_correction,
    variance_scale_by_pair,
)

# Entries of mu in one chunk. A few arrays of this size are in memory at a time, in every thread.
CHUNK = 2_000_000
# Values and corrections from mu at all pairs need several arrays of the size of mu at the same time. They are computed
# for as many contexts as have a chunk of entries in this number of arrays.
_ARRAYS_PER_CHUNK = 8
# Influence values of one score that may be stored for all contexts: 160 MB, of which a fit needs a few.
MAX_STORED = 20_000_000
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
    r"""Estimate functionals of mu by one step from the first stages.

    Where contexts are identical and this saves work, one representative of each kind of identical contexts is
    evaluated, with the weights of its contexts added up; otherwise every context is evaluated.

    Notes
    -----
    The target is :math:`\theta = E\,F(\mu(X))` for a functional F of the category probabilities
    :math:`\mu_{jk}(x) = P(Y | x, (j, k))`. The influence value of a context is

    .. math:: \phi = F(\mu(x)) + \sum_{jk} \frac{S_{jk}}{\pi_{jk}(x)} J_{jk} (Y_{jk} - \mu_{jk}(x)) - \theta

    with J_jk the derivative of F in mu_jk, S_jk = 1 where the ordered pair (j, k) is labelled, and :math:`\pi_{jk}(x) =
    P(S_{jk} = 1 | x)`. The estimate is the mean over contexts of the first two terms at out-of-fold estimates of mu and
    pi, and its covariance is that of phi divided by n. The bias from estimated mu and pi has the order of the product
    of their errors, plus, where F is not linear, that of the squared error of mu.

    The correction is the directional derivative of F along :math:`\delta_{jk} = S_{jk} / \pi_{jk} (Y_{jk} -
    \mu_{jk})`, so that no Jacobian is computed. If the derivative in mu_jk depends on mu_jk alone, as for Borda and
    Bradley-Terry scores, it is the sum over labels of one derivative each and needs mu at the labelled pairs only.

    Where display order does not matter, delta_jk is the sum of the residuals of (j, k) and of the residuals of (k, j)
    with the wins exchanged; delta_kj is delta_jk with the wins exchanged. pi is then the probability that the pair is
    labelled in either order. With a judge, delta is G / rho (m - mu) + S / pi (Y - m), where G = 1 where the pair was
    judged, with probability rho, and m = P(Y | x, verdict).

    If mu is the same in all contexts of a fold, F(mu) and its derivative are the same as well. The correction of a
    context is linear in its residuals, so that the sum of the corrections in a fold is the derivative along the sum of
    the residuals, and the sums over all contexts of phi phi' and of phi^4 are sums over representatives, weighted by
    sums of the second and fourth powers of the contexts' weights.

    References
    ----------
    Frauen et al., arXiv 2601.21816, equation eq:debiased_estimator of the source.
    """
    kinds = useful_kinds(estimands, data, nuisances, blocks, population, max_stored=max_stored)
    if kinds is not None:
        return evaluate_identical_contexts(kinds, estimands, data, nuisances, blocks, population)
    return evaluate_contexts(estimands, data, nuisances, blocks, population, known=known, chunk=chunk)


# --- identical contexts -----------------------------------------------------------------------------------------------


def useful_kinds(
    estimands: Estimands,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation,
    *,
    max_stored: int = MAX_STORED,
) -> IdenticalContexts | None:
    """Return kinds of identical contexts where these give the same estimates as all contexts at a lower cost."""
    constant = nuisances.mu.by_fold()
    if constant is None or nuisances.judge is not None or population.sample is not None or not blocks.one_per_context:
        return None
    if not all(score.has_fast_pairs for score in estimands.scores().values()):
        return None
    needs_too_much = data.n_contexts * data.n_items > max_stored
    if not needs_too_much and not may_save_half(data):
        return None
    kinds = constant.identical_contexts(data)
    is_cheaper = 2 * len(kinds) <= data.n_contexts or needs_too_much
    return kinds if is_cheaper and kinds.is_constant_within_kinds(nuisances.propensity) else None


def evaluate_identical_contexts(
    kinds: IdenticalContexts,
    estimands: Estimands,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation,
) -> OneStepResult:
    """Estimate by one step with one influence value for each of the :func:`useful_kinds`."""
    constant = nuisances.mu.by_fold()
    assert constant is not None
    unclipped, cells, n = constant.tables(), kinds.cells, data.n_contexts
    pairs = (kinds.fold[kinds.cell_kind], cells.first, cells.second)
    cell_mu, pi = unclipped[pairs], nuisances.propensity[kinds.representative]
    scale = pair_variance_scale(HeldOutLabels(cell_mu, cells, kinds.n_cells), pi, data)
    weight = population.weights(n)
    sums, square_sums = (weight_sums(kinds, weight, power) for power in (1, 2))
    fold_weight = np.bincount(kinds.fold, sums, len(unclipped))
    clipped = clip_and_renormalise(unclipped, nuisances.floor)

    def evaluate(score: Functional) -> CompressedInfluence:
        mu = clipped if score.interior else unclipped
        residual = (cells.y - mu[pairs]) / pi[:, None]

        def direction(amount: FloatArray) -> FloatArray:
            """Return the sums of the residuals by fold and pair, (F, K, K, C), with an amount for each kind, (k,)."""
            code, n_codes = np.ravel_multi_index(pairs, mu.shape[:3]), int(np.prod(mu.shape[:3]))
            columns = [np.bincount(code, amount[kinds.cell_kind] * column, n_codes) for column in residual.T]
            total: FloatArray = np.stack(columns, axis=-1).astype(float).reshape(mu.shape)
            return total if data.ordered else total + in_other_order(total)

        by_fold, correction = score.value_and_derivative(mu, direction(sums))
        plugin = fold_weight @ by_fold / fold_weight.sum()
        added_variance = None
        if has_variance_correction(score, data):
            if score.pair_local:
                amount = scale[cells.first, cells.second] * square_sums[kinds.cell_kind]
                of_pairs = (cells.first, cells.second, data.n_items)
                added_variance = local_variance_correction(score, mu[pairs], residual, amount, of_pairs) / n
            else:
                added_variance = variance_correction(score, mu, direction(square_sums), scale, np.ones(len(mu))) / n
        estimate = plugin + correction.sum(axis=0) / n
        return CompressedInfluence(
            score, kinds, mu, residual, weight, data.ordered, blocks, by_fold, plugin, estimate, added_variance
        )

    influences = {name: evaluate(score) for name, score in estimands.scores().items()}
    n_below = n_entries = 0
    if any(score.interior for score in estimands.scores().values()):
        n_below = count_below(unclipped, nuisances.floor, np.bincount(constant.folds.fold, minlength=len(unclipped)))
        n_entries = n * data.n_items * (data.n_items - 1) * data.n_categories
    report(n, n, "scores, contexts")
    return OneStepResult(
        **influences,
        cell_mu=np.take(cell_mu, kinds.row, axis=0),
        n_floored=n_below,
        n_entries=n_entries,
        labels=HeldOutLabels.by_pair(nuisances.mu, kinds, data.n_items),
    )


# --- every context ----------------------------------------------------------------------------------------------------


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
    sums = [_Sums(data.n_contexts, len(blocks.context)) for _ in task.scores]
    n_floored = n_done = 0
    if known is not None:
        n_floored, n_done = known.n_floored, int(known.is_known.sum())
        for name, of_score in zip(estimands.scores(), sums, strict=True):
            of_score.value = np.where(known.is_known[:, None], known.by_name[name], 0.0)
    evaluated_parts = in_workers(
        _evaluate_part,
        (task, parts),
        range(len(parts)),
        name="scores of contexts",
        is_concurrent=parts.is_concurrent,
    )
    for number, (score_parts, n_low) in enumerate(evaluated_parts):
        contexts = parts[number].contexts
        for score_part, of_score in zip(score_parts, sums, strict=True):
            of_score.add(contexts, score_part)
        n_floored += n_low
        n_done += len(contexts)
        report(n_done, data.n_contexts, "scores, contexts")
    sample_weight = population.sample_weights(data.n_contexts)
    influences = {}
    for name, score, of_score in zip(estimands.scores(), task.scores, sums, strict=True):
        if score.pair_local and not task.has_many_labels:
            of_score.correction = task.corrections_by_label(score)
        if score.pair_local and not score.linear:
            of_score.variance_correction = task.variance_correction_by_label(score)
        influences[name] = of_score.influence(blocks, task.weight, sample_weight)
    return OneStepResult(
        **influences,
        cell_mu=task.cell_mu,
        n_floored=n_floored,
        n_entries=n_done * data.n_items * (data.n_items - 1) * data.n_categories * task.interior,
        labels=HeldOutLabels.of(nuisances.mu, data, task.cell_mu),
    )


def _evaluate_part(shared: tuple[_Task, NumberedParts], number: int) -> tuple[list[_ScorePart], int]:
    """Evaluate all scores in one part of the contexts; return them with the number of entries of mu below the floor."""
    task, parts = shared
    return task.evaluate(parts[number])


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
    block (p,): The blocks of these contexts; None for a score whose corrections are computed by label.
    correction (p, d): Corrections by block.
    variance_correction (d, d): These contexts' part of the variance correction.
    """

    value: FloatArray
    block: IntArray | None = None
    correction: FloatArray | None = None
    variance_correction: FloatArray | None = None


@dataclass(slots=True, eq=False)
class _Sums:
    """The values by context, (n, d), and the corrections by block, (q, d), of one score, filled part by part."""

    n_contexts: int
    n_blocks: int
    value: FloatArray | None = None
    correction: FloatArray | None = None
    variance_correction: FloatArray | None = None

    def add(self, contexts: IntArray, part: _ScorePart) -> None:
        """Store the score of a part of the contexts."""
        n_scores = part.value.shape[1]
        if self.value is None:
            self.value = np.zeros((self.n_contexts, n_scores))
        self.value[contexts] = part.value
        if part.block is not None:
            if self.correction is None:
                self.correction = np.zeros((self.n_blocks, n_scores))
            self.correction[part.block] = part.correction
        if part.variance_correction is not None:
            known = self.variance_correction
            self.variance_correction = part.variance_correction if known is None else known + part.variance_correction

    def influence(self, blocks: InfluenceBlocks, weight: FloatArray, sample_weight: FloatArray | None) -> Influence:
        """Return the influence of the score; the weights are those of :class:`Influence`."""
        assert self.value is not None
        assert self.correction is not None
        if sample_weight is not None:
            # A part of the contexts may hold others than those of the sample.
            self.value[~(sample_weight > 0)] = 0.0
        added = self.variance_correction
        return Influence(self.value, self.correction, blocks.context, blocks.weight, weight, added, sample_weight)


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
        if any(has_variance_correction(score, data) for score in scores):
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
    def are_corrected_by_label(self) -> bool:
        """Whether the corrections of all scores are sums of one derivative for each label, and need no other mu."""
        return not self.has_many_labels and all(score.pair_local for score in self.scores)

    def evaluate(self, part: ContextPart) -> tuple[list[_ScorePart], int]:
        """Compute values in a part of the contexts, and the corrections that are not computed by label."""
        of_all_pairs = [score for score in self.scores if self.has_many_labels or not score.pair_local]
        values: dict[Functional, list[FloatArray]] = {score: [] for score in self.scores if score not in of_all_pairs}
        blocks: Iterable[tuple[slice, FloatArray]] = part.blocks()
        if of_all_pairs:
            probabilities = part.probabilities()
            blocks = [(slice(0, len(probabilities)), probabilities)]
        n_contexts_of_row, n_floored = np.bincount(part.place), 0
        evaluated: dict[Functional, _ScorePart] = {}
        for rows, unclipped in blocks:
            clipped = clip_and_renormalise(unclipped, self.floor) if self.interior else unclipped
            if self.interior:
                n_floored += count_below(unclipped, self.floor, n_contexts_of_row[rows])
            for score, of_score in values.items():
                of_score.append(score.value(clipped if score.interior else unclipped))
            if of_all_pairs:
                evaluated = self._evaluate_all_pairs(of_all_pairs, unclipped, clipped, part)
        evaluated |= {score: _ScorePart(np.concatenate(of_score)[part.place]) for score, of_score in values.items()}
        return [evaluated[score] for score in self.scores], n_floored

    def _evaluate_all_pairs(
        self, scores: Sequence[Functional], unclipped: FloatArray, clipped: FloatArray, part: ContextPart
    ) -> dict[Functional, _ScorePart]:
        """Compute values and corrections that need mu at all pairs, (b, K, K, C), a few contexts at a time."""
        step = contexts_at_a_time(self.data, self.chunk // _ARRAYS_PER_CHUNK)
        by_score: dict[Functional, list[_ScorePart]] = {score: [] for score in scores}
        for start in range(0, len(part.contexts), step):
            span = slice(start, start + step)
            contexts = _Span.of(self, part.contexts[span])
            for score, score_parts in by_score.items():
                mu = (clipped if score.interior else unclipped)[part.place[span]]
                score_parts.append(self._evaluate_span(score, mu, contexts))
        joined = {}
        for score, score_parts in by_score.items():
            added = [p.variance_correction for p in score_parts if p.variance_correction is not None]
            joined[score] = _ScorePart(
                np.concatenate([p.value for p in score_parts]),
                np.concatenate([p.block for p in score_parts if p.block is not None]),
                np.concatenate([p.correction for p in score_parts if p.correction is not None]),
                np.sum(added, axis=0) if added else None,
            )
        return joined

    def _evaluate_span(self, score: Functional, mu: FloatArray, span: _Span) -> _ScorePart:
        """Compute values and corrections of b contexts from their mu, (b, K, K, C)."""
        contexts, rows, residuals = span.contexts, span.rows, self.residuals
        if isinstance(score, RestrictedBradleyTerry):
            # Such scores use no verdicts, so that there is one residual for each entry of the blocks (the votes of one
            # block on one labelled cell), in the same order.
            labels = (span.row_place, residuals.first[rows], residuals.second[rows], residuals.target[rows])
            value, per_label = score.by_label(mu, contexts, *labels)
            correction = np.zeros((len(span.block), per_label.shape[1]))
            np.add.at(correction, span.row_block, self.blocks.entry_share[rows][:, None] * per_label)
            return _ScorePart(value, span.block, correction)
        one_block_each = len(span.block) == len(contexts)
        delta = span.direction(self, score.interior)
        value, correction = score.value_and_derivative(mu if one_block_each else mu[span.block_place], delta)
        added_variance = None
        if not score.pair_local and has_variance_correction(score, self.data):
            assert self.scale is not None
            context_delta = delta
            if not one_block_each:
                context_delta = np.zeros((len(contexts), *delta.shape[1:]))
                np.add.at(context_delta, span.block_place, delta)
            total = variance_correction(score, mu, context_delta, self.scale, self.weight[contexts])
            added_variance = total / self.data.n_contexts
        first_block = np.searchsorted(span.block_place, np.arange(len(contexts)))
        return _ScorePart(value[first_block], span.block, correction, added_variance)

    def corrections_by_label(self, score: Functional) -> FloatArray:
        """Compute the corrections by block, (q, d), of a score that needs mu at labelled and judged pairs only."""
        rows, total = self.residuals, np.zeros((len(self.blocks.context), 0))
        step = max(1, self.chunk // self.data.n_items)
        for start in range(0, len(rows.block), step):
            part = slice(start, start + step)
            change = rows.derivatives(score, part, self.data)
            if not start:
                total = np.zeros((len(total), change.shape[1]))
            add_to_rows(total, rows.block[part], change)
        return total

    def variance_correction_by_label(self, score: Functional) -> FloatArray:
        """Compute the variance correction, (d, d), of a score that needs mu at labelled and judged pairs only."""
        rows, total = self.residuals, np.zeros(())
        assert self.scale is not None
        step = max(1, self.chunk // (_ARRAYS_PER_CHUNK * self.data.n_categories))
        for start in range(0, len(rows.block), step):
            part = slice(start, start + step)
            first, second = rows.first[part], rows.second[part]
            weight = self.scale[first, second] * self.weight[rows.context[part]] ** 2
            delta, pairs = rows.weighted(part, score.interior), (first, second, self.data.n_items)
            total = total + local_variance_correction(score, rows.mu_clipped[part], delta, weight, pairs)
        return total / self.data.n_contexts


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """A few contexts that are evaluated at a time, with their r residuals and p influence blocks.

    contexts (b,).
    rows (r,): Residuals of these contexts.
    row_place (r,): Place of each residual's context in ``contexts``.
    row_block (r,): Place of each residual's block in ``block``.
    block (p,).
    block_place (p,): Place of each block's context in ``contexts``.
    directions: Directions that were computed already, by whether mu is clipped; see :meth:`direction`.
    """

    contexts: IntArray
    rows: IntArray
    row_place: IntArray
    row_block: IntArray
    block: IntArray
    block_place: IntArray
    directions: dict[bool, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, task: _Task, contexts: IntArray) -> _Span:
        """Find the residuals and the blocks of b contexts."""
        rows, row_place = _rows_of_contexts(task.row_bounds, contexts)
        block, block_place = _rows_of_contexts(task.block_bounds, contexts)
        row_block = np.searchsorted(block, task.residuals.block[rows])
        return cls(contexts, rows, row_place, row_block, block, block_place)

    def direction(self, task: _Task, clipped: bool) -> FloatArray:
        """Return the weighted residuals of each block as a direction in which mu changes, (p, K, K, C)."""
        if clipped not in self.directions:
            residuals, data = task.residuals, task.data
            direction = np.zeros((len(self.block), data.n_items, data.n_items, data.n_categories))
            entries = (self.row_block, residuals.first[self.rows], residuals.second[self.rows])
            amount = residuals.weighted(self.rows, clipped)
            if residuals.m is None and not data.cells.flipped.any():
                # Without verdicts and votes in both orders of a pair, a block has one residual for a pair at most.
                direction[entries] = amount
            else:
                np.add.at(direction, entries, amount)
            if not data.ordered:
                direction += in_other_order(direction)
            self.directions[clipped] = direction
        return self.directions[clipped]


def _rows_of_contexts(bounds: IntArray, contexts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of b contexts in a table sorted by context, (r,), and the place of each row's context, (r,)."""
    start, count = bounds[contexts], bounds[contexts + 1] - bounds[contexts]
    place = np.repeat(np.arange(len(contexts)), count)
    return np.arange(count.sum()) + (start - (np.cumsum(count) - count))[place], place
