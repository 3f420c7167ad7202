"""Influence of every context, from one pass over the probabilities of all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._utils.parallel import core_count, in_order
from .._utils.progress import report
from ..data.outcomes import in_other_order
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..functionals.base import Local
from ..functionals.protocols import LabelRows, LabelScore, OrderedPairs, Score
from .cross_fitting import ContextPart, HeldOutLabels
from .influence import Influence
from .influence_blocks import InfluenceBlocks
from .nuisance_estimates import NuisanceEstimates, TargetPopulation
from .one_step_result import Estimands, OneStepResult, name_influences
from .outcome_floor import clip_and_renormalise, count_below
from .residuals import Residuals, variance_scale_by_pair
from .variance_correction import (
    CorrectionCovariance,
    LocalCorrectionCovariance,
    knows_correction_covariance,
    local_variance_correction,
    variance_correction,
)

# Numbers in one chunk of mu: a few arrays of this size live at a time, in every thread.
CHUNK = 2_000_000


def evaluate_contexts(
    estimands: Estimands,
    data: PreferenceData,
    nuisances: NuisanceEstimates,
    blocks: InfluenceBlocks,
    population: TargetPopulation,
    *,
    n_jobs: int | None,
    chunk: int,
) -> OneStepResult:
    """Evaluate every context; see :func:`dmlrank.estimation.one_step.one_step`.

    Contexts come in chunks, equal ones once; nothing of the size of all contexts times all pairs is held.
    """
    task = _Task.of(estimands, data, nuisances, blocks, population=population, chunk=chunk)
    size, wanted = contexts_at_a_time(data, chunk), _wanted(task, population.sample)
    results = [_Collected(data.n_contexts, len(blocks.context)) for _ in task.scores]
    n_floored = n_entries = done = 0
    chunks = in_order(
        lambda part: (part, task.part(part)),
        nuisances.mu.parts(size, wanted),
        core_count(n_jobs),
        together=lambda part: part.concurrent,
    )
    for part, made in chunks:
        for own, result in zip(made.scores, results, strict=True):
            result.add(part.contexts, own)
            if own.variance_correction is not None:
                result.correct_variance(own.variance_correction)
        n_floored += made.n_floored
        n_entries += len(part.contexts) * data.n_items * (data.n_items - 1) * data.n_categories * task.interior
        done += len(part.contexts)
        report(done, data.n_contexts, "scores, contexts")
    for score, result in zip(task.scores, results, strict=True):
        if isinstance(score, Local):
            result.correct(task.local_correction(score, score.interior))
            if isinstance(score, LocalCorrectionCovariance):
                result.correct_variance(task.local_variance_correction(score, score.interior))
    sampled = population.sample_weights(data.n_contexts)
    return OneStepResult(
        **name_influences(estimands, [result.influence(blocks, task.weight, sampled) for result in results]),
        cell_mu=task.cell_mu,
        n_floored=n_floored,
        n_entries=n_entries,
        labels=HeldOutLabels.by_cell(task.cell_mu, data.cells),
    )


def contexts_at_a_time(data: PreferenceData, chunk: int = CHUNK) -> int:
    """Contexts whose probabilities are held at a time, as ``chunk`` numbers."""
    return max(1, chunk // (data.n_items**2 * data.n_categories))


def _wanted(task: _Task, sample: IntArray | None) -> NDArray[np.bool_] | None:
    """Contexts whose probabilities are needed: the sample's, and the labelled ones where a score is not local."""
    if sample is None:
        return None
    wanted = np.zeros(task.data.n_contexts, dtype=bool)
    wanted[sample] = True
    if not all(isinstance(score, Local) for score in task.scores):
        wanted[task.residuals.context] = True
    return wanted


@dataclass(frozen=True, slots=True, eq=False)
class _ScoreChunk:
    """One score in one chunk: values by context, and for scores that are not local corrections by block."""

    value: FloatArray
    block: IntArray | None = None
    correction: FloatArray | None = None
    variance_correction: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    scores: list[_ScoreChunk]
    n_floored: int


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Everything that is known before the pass begins; the pass changes none of it."""

    scores: Sequence[Score | LabelScore]
    data: PreferenceData
    blocks: InfluenceBlocks
    floor: float
    weight: FloatArray
    cell_mu: FloatArray
    residuals: Residuals
    scale: FloatArray
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
        cell_mu = nuisances.mu.at(data.cells)
        numbers = np.arange(data.n_contexts + 1)
        residuals = Residuals.of(data, nuisances, blocks, cell_mu)
        return cls(
            tuple(estimands.scores().values()),
            data,
            blocks,
            nuisances.floor,
            population.weights(data.n_contexts),
            cell_mu,
            residuals,
            variance_scale_by_pair(cell_mu, data, nuisances.propensity, nuisances.judge),
            np.searchsorted(residuals.context, numbers),
            np.searchsorted(blocks.context, numbers),
            chunk,
        )

    @property
    def interior(self) -> bool:
        """Whether any score needs a floor."""
        return any(score.interior for score in self.scores)

    def part(self, part: ContextPart) -> _Chunk:
        """Values, and corrections of scores that are not local, in one chunk of contexts."""
        raw = part.probabilities()
        table = clip_and_renormalise(raw, self.floor) if self.interior else raw
        n_floored = 0
        if self.interior:
            n_floored = int(count_below(raw, self.floor) @ np.bincount(part.place, minlength=len(raw)))
        return _Chunk(
            [
                _ScoreChunk(score.value(mu)[part.place]) if isinstance(score, Local) else self._dense(score, mu, part)
                for score, mu in ((score, table if score.interior else raw) for score in self.scores)
            ],
            n_floored,
        )

    def _dense(self, score: Score | LabelScore, mu: FloatArray, part: ContextPart) -> _ScoreChunk:
        """Values and corrections from the probabilities of all pairs, a few contexts at a time."""
        step = contexts_at_a_time(self.data, self.chunk)
        spans = [slice(at, at + step) for at in range(0, len(part.contexts), step)]
        made = [self._dense_block(score, mu[part.place[span]], part.contexts[span]) for span in spans]
        known = [own.variance_correction for own in made if own.variance_correction is not None]
        return _ScoreChunk(
            np.concatenate([own.value for own in made]),
            np.concatenate([own.block for own in made if own.block is not None]),
            np.concatenate([own.correction for own in made if own.correction is not None]),
            np.sum(known, axis=0) if known else None,
        )

    def _dense_block(self, score: Score | LabelScore, mu: FloatArray, contexts: IntArray) -> _ScoreChunk:
        rows, row_place = _within(self.row_bounds, contexts)
        block, block_place = _within(self.block_bounds, contexts)
        row = np.searchsorted(block, self.residuals.block[rows])
        if isinstance(score, LabelScore):
            # Such scores know no verdicts: the rows are the entries of the blocks.
            held = self.residuals
            labels = LabelRows(row_place, held.first[rows], held.second[rows], held.target[rows])
            value, added = score.by_label(mu, contexts, labels)
            correction = np.zeros((len(block), added.shape[1]))
            np.add.at(correction, row, self.blocks.entry_share[rows][:, None] * added)
            return _ScoreChunk(value, block, correction)
        base = mu if len(block) == len(contexts) else mu[block_place]
        delta = np.zeros(base.shape)
        at = (row, self.residuals.first[rows], self.residuals.second[rows])
        np.add.at(delta, at, self.residuals.weighted(rows, score.interior))
        if not self.data.ordered:
            delta += in_other_order(delta)
        value, correction = score.value_and_derivative(base, delta)
        first_block = np.searchsorted(block_place, np.arange(len(contexts)))
        added_variance = None
        if isinstance(score, CorrectionCovariance) and knows_correction_covariance(
            score, self.data.n_contexts, self.data.n_items
        ):
            whole = delta if len(block) == len(contexts) else _summed(delta, block_place, len(contexts))
            added_variance = (
                variance_correction(score, mu, whole, self.scale, self.weight[contexts]) / self.data.n_contexts
            )
        return _ScoreChunk(value[first_block], block, correction, added_variance)

    def local_correction(self, score: Local, clipped: bool) -> FloatArray:
        """Corrections by block, (q, d), of a score that needs mu at the labelled and judged pairs only."""
        rows, n_items, flip = self.residuals, self.data.n_items, self.data.flip
        total: FloatArray | None = None
        step = max(1, self.chunk // n_items)
        for at in range(0, len(rows.block), step):
            part = slice(at, at + step)
            first, second = rows.first[part], rows.second[part]
            mu, residual = rows.mu_for(clipped)[part], rows.weighted(part, clipped)
            change = score.derivative_at(mu, residual, first, second, n_items)
            if not self.data.ordered:
                change = change + score.derivative_at(mu[:, flip], residual[:, flip], second, first, n_items)
            if total is None:
                total = np.zeros((len(self.blocks.context), change.shape[1]))
            _add_rows(total, rows.block[part], change)
        return np.zeros((len(self.blocks.context), 0)) if total is None else total

    def local_variance_correction(self, score: LocalCorrectionCovariance, clipped: bool) -> FloatArray:
        """The variance correction of a score that needs mu at the labelled and judged pairs only, (d, d)."""
        rows, n_items = self.residuals, self.data.n_items
        total: FloatArray | None = None
        step = max(1, self.chunk // n_items)
        for at in range(0, len(rows.block), step):
            part = slice(at, at + step)
            pairs = OrderedPairs(rows.first[part], rows.second[part], n_items)
            weight = self.scale[pairs.first, pairs.second] * self.weight[rows.context[part]] ** 2
            delta = rows.weighted(part, clipped)
            made = local_variance_correction(score, rows.mu_clipped[part], delta, weight, pairs)
            total = made if total is None else total + made
        assert total is not None
        return total / self.data.n_contexts


def _add_rows(total: FloatArray, rows: IntArray, amounts: FloatArray) -> None:
    """Add to rows of a table, some of them several times; plainly where each occurs once, which is much faster."""
    if len(rows) < 2 or (np.diff(rows) > 0).all():
        total[rows] += amounts
    else:
        np.add.at(total, rows, amounts)


class _Collected:
    """Values by context and corrections by block, filled chunk by chunk."""

    def __init__(self, n_contexts: int, n_blocks: int) -> None:
        self._shape = (n_contexts, n_blocks)
        self._value: FloatArray | None = None
        self._correction: FloatArray | None = None
        self._variance_correction: FloatArray | None = None

    def add(self, contexts: IntArray, own: _ScoreChunk) -> None:
        """File the scores of a chunk."""
        width = own.value.shape[1]
        if self._value is None:
            self._value = np.zeros((self._shape[0], width))
        self._value[contexts] = own.value
        if own.block is not None:
            if self._correction is None:
                self._correction = np.zeros((self._shape[1], width))
            self._correction[own.block] = own.correction

    def correct(self, correction: FloatArray) -> None:
        """File the corrections of a local score."""
        self._correction = correction

    def correct_variance(self, amount: FloatArray) -> None:
        """Add a share of the variance correction."""
        self._variance_correction = amount if self._variance_correction is None else self._variance_correction + amount

    def influence(self, blocks: InfluenceBlocks, weight: FloatArray, sampled: FloatArray | None) -> Influence:
        """Everything that was filed."""
        assert self._value is not None
        assert self._correction is not None
        value = self._value if sampled is None else np.where(sampled[:, None] > 0, self._value, 0.0)
        return Influence(
            value, self._correction, blocks.context, blocks.weight, weight, self._variance_correction, sampled
        )


def _summed(delta: FloatArray, place: IntArray, n_contexts: int) -> FloatArray:
    """Directions of contexts, (b, K, K, C), from those of their blocks."""
    total = np.zeros((n_contexts, *delta.shape[1:]))
    np.add.at(total, place, delta)
    return total


def _within(bounds: IntArray, contexts: IntArray) -> tuple[IntArray, IntArray]:
    """Rows of the given contexts in a table sorted by context, and the place of each row's context among these."""
    start, count = bounds[contexts], bounds[contexts + 1] - bounds[contexts]
    place = np.repeat(np.arange(len(contexts)), count)
    return np.arange(count.sum()) + (start - (np.cumsum(count) - count))[place], place
