"""Influence values of debiased estimates: F(mu) by context, and its correction by context or annotator.

F is the functional and DF its derivative, mu(x) is the outcome model and pi the propensity model, S is 1 where a pair
is labelled, and Y is its label. An influence block is all votes on one context or, where the votes of an annotator may
depend on each other, the votes of one annotator on one context (:mod:`dmlrank.estimation.influence`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from scipy import sparse

from .._utils.tasks_and_threads import in_order, threads_of_fit
from ..data.arrays import BoolArray, row_slices
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..functionals import Functional, is_moved_by_pair
from .cross_fitting import HeldOutLabels, IdenticalContexts, MuSource

# Number of influence values of identical contexts in memory at a time. The computation takes as long with a fifth of
# this number, and longer with four times this number.
_CHUNK = 1_000_000
# Multiplications of a product from which second moments of Bradley-Terry scores are summed by pair.
_LARGE_PRODUCT = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class InfluenceBlocks:
    """The votes of each block: all votes on one context, or the votes of one group on one context.

    A group is the votes of an annotator, for example. An entry is the votes of one block on one labelled cell.

    context (q,): Context of each block.
    entry_block, entry_cell (e,): Block and labelled cell of each entry.
    entry_share (e,): Number of the entry's votes as a share of the cell's votes.
    entry_y (e, C): Mean label of the entry's votes.
    context_block (n,): For each context, its block that belongs to no group; -1 where the context has no such block.
    """

    context: IntArray
    entry_block: IntArray
    entry_cell: IntArray
    entry_share: FloatArray
    entry_y: FloatArray
    context_block: IntArray

    @property
    def one_per_context(self) -> bool:
        """Whether block i is context i."""
        return self.context is self.context_block

    @property
    def weight(self) -> FloatArray:
        """Number of labelled cells in each block, (q,).

        A cell with votes in several blocks counts in each of them by the share of its votes there.
        """
        total: FloatArray = np.bincount(self.entry_block, self.entry_share, len(self.context)).astype(float)
        return total


def blocks_by_context(data: PreferenceData) -> InfluenceBlocks:
    """Make one block per context; a context without labels has an empty block."""
    cells, contexts = data.cells, np.arange(len(data.x))
    # One number in memory stands for the m equal shares.
    share = np.broadcast_to(1.0, len(cells))
    return InfluenceBlocks(contexts, cells.context, np.arange(len(cells)), share, cells.y, contexts)


def blocks_by_group(
    data: PreferenceData, vote_group: IntArray, judged: IntArray | None = None
) -> tuple[InfluenceBlocks, IntArray]:
    """Make one block for each group of votes on each context; shapes: vote_group (v,), returns (q,)."""
    entries, vote_entry, count = np.unique(
        np.stack([data.vote_cell, vote_group], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    y = unit_sums(data.vote_y, vote_entry.reshape(-1))
    cell, group = entries.T
    unlabelled = np.setdiff1d(np.arange(data.n_contexts), data.cells.context)
    unlabelled = unlabelled if judged is None else np.union1d(unlabelled, judged)
    context = np.concatenate([data.cells.context[cell], unlabelled])
    group = np.concatenate([group, np.full_like(unlabelled, -1)])
    blocks, block_of_row = np.unique(np.stack([context, group], axis=1), axis=0, return_inverse=True)
    share = count / data.cells.n_votes[cell]
    context_block = np.full(data.n_contexts, -1, dtype=np.intp)
    without_group = np.flatnonzero(blocks[:, 1] < 0)
    context_block[blocks[without_group, 0]] = without_group
    influence_blocks = InfluenceBlocks(
        context=blocks[:, 0],
        entry_block=block_of_row.reshape(-1)[: len(cell)],
        entry_cell=cell,
        entry_share=share,
        entry_y=y / count[:, None],
        context_block=context_block,
    )
    return influence_blocks, blocks[:, 1]


@dataclass(frozen=True, slots=True, eq=False)
class JudgeCorrection:
    """The part of the correction that comes from a judge's verdicts: weight (m - mu) at the judged cells.

    cells: The r judged cells.
    weight (r,): 1 / rho, where rho = P(the pair is judged | x), times the share of labelled pairs that were judged.
    m (r, C): Probabilities of the labels given x and the verdict, out of fold.
    label (m,): Index of every labelled cell among the judged cells; -1 for labelled cells that were not judged.
    """

    cells: Cells
    weight: FloatArray
    m: FloatArray
    label: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class OneStepInputs:
    """What estimates are made from by one step: data, influence blocks, weights of contexts, and first stages.

    weight (n,): Weights of the contexts in the target population, with mean one.
    mu: Out-of-fold probabilities of the categories.
    propensity (m,): pi at the labelled cells.
    floor: Smallest probability. For functionals with a logit or a division, mu is clipped at the floor and
        renormalised; the clipped mu then enters the functional, its derivative and the residual.
    judge: With a judge the correction is taken along G / rho (m - mu) + S / pi (Y - m), where G says whether the pair
        was judged, and m = mu for pairs that were not judged.
    """

    data: PreferenceData
    blocks: InfluenceBlocks
    weight: FloatArray
    mu: MuSource
    propensity: FloatArray
    floor: float = 0.0
    judge: JudgeCorrection | None = None


T = TypeVar("T")

# Number of influence values whose products are added up by one thread at a time.
_MOMENT_VALUES = 10_000_000


class CentredValues:
    """Sums over the influence values of all contexts, for classes that have these."""

    __slots__ = ()

    @property
    def centred(self) -> FloatArray:
        """phi, (n, d), with mean zero."""
        raise NotImplementedError

    @property
    def centred_correction(self) -> FloatArray:
        """Corrections by block, (q, d), with mean zero."""
        raise NotImplementedError

    @property
    def n_contexts(self) -> int:
        """Number of contexts, n."""
        return len(self.centred)

    @property
    def copies(self) -> IntArray | None:
        """Number of contexts that each row stands for, (n,); None where it is one."""
        return None

    def second_moment(self) -> FloatArray:
        """Return the sum of phi phi' over all contexts, (d, d)."""
        phi = self.centred if self.copies is None else self.centred * np.sqrt(self.copies)[:, None]
        parts = [*row_slices(len(phi), phi.shape[1], _MOMENT_VALUES)]
        moments = in_order(lambda part: phi[part].T @ phi[part], parts, threads_of_fit(), boosts=False)
        return np.asarray(sum(moments, np.zeros((phi.shape[1], phi.shape[1]))))

    def power_sums(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums over all contexts of the second and of the fourth powers of phi, (d,) each."""
        squares = np.square(self.centred)
        if self.copies is not None:
            copies = self.copies.astype(float)
            return copies @ squares, copies @ np.square(squares)
        return squares.sum(axis=0), np.square(squares, out=squares).sum(axis=0)

    def sums_by(self, unit: IntArray, power: int = 1) -> FloatArray:
        """Return the sums of powers of phi over units of contexts, (u, d); ``unit``, (n,), numbers the units from 0."""
        return unit_sums(self.centred**power, unit)

    def block_sums_by(self, unit: IntArray, power: int = 1) -> FloatArray:
        """Return the sums of powers of corrections over units of blocks, (u, d); a ``unit``, (q,), of -1 is none."""
        has_unit = unit >= 0
        return unit_sums(self.centred_correction[has_unit] ** power, unit[has_unit])

    def by_context(self: T) -> T:
        """Return this object, which stores the values of every context already."""
        return self


def unit_sums(rows: FloatArray, unit: IntArray) -> FloatArray:
    """Add up the rows, (n, d), of each unit, (u, d); ``unit``, (n,), numbers each row's unit from 0."""
    total = np.zeros((int(unit.max()) + 1, rows.shape[1]))
    np.add.at(total, unit, rows)
    return total


def add_to_rows(total: FloatArray, rows: IntArray, amounts: FloatArray) -> None:
    """Add amounts, (r, d), to rows of a table in place; a row may occur several times.

    ``np.add.at`` is slow and used for unsorted rows only. Strictly increasing rows occur once each, so that plain
    indexing is correct. In sorted rows, equal rows are neighbours and are added up first.
    """
    steps = np.diff(rows)
    if (steps > 0).all():
        if len(rows) == len(total):
            total += amounts
        else:
            total[rows] += amounts
    elif (steps >= 0).all():
        starts = np.concatenate([[0], 1 + np.flatnonzero(steps)])
        total[rows[starts]] += np.add.reduceat(amounts, starts, axis=0)
    else:
        np.add.at(total, rows, amounts)


@dataclass(frozen=True, slots=True, eq=False)
class Influence(CentredValues):
    """Influence values of every context: phi_i = F(mu(x_i)) + the sum of the corrections in context i.

    value (n, d): F(mu(x_i)).
    correction (q, d): Correction that each influence block contributes: the derivative DF(mu(x_i)) along S / pi (Y -
        mu).
    block_context (q,): Context of each block.
    block_weight (q,): Number of labelled cells in each block. A cell with votes in several blocks counts in each of
        them by the share of its votes there.
    weight (n,): Weight of each context in the target population, with mean one.
    variance_correction (d, d): How much larger the second moment of the correction would be if the derivative of F were
        taken at the true mu instead of the fitted one, to first order (:mod:`dmlrank.estimation.one_step`);
        None where no formula is available.
    copies (n,): Number of contexts that each row stands for; None where it is one. Weights are then equal.
    """

    value: FloatArray
    correction: FloatArray
    block_context: IntArray
    block_weight: FloatArray
    weight: FloatArray
    variance_correction: FloatArray | None = None
    copies: IntArray | None = None

    @property
    def n_contexts(self) -> int:
        """Number of contexts, n."""
        return len(self.value) if self.copies is None else int(self.copies.sum())

    @property
    def n_scores(self) -> int:
        """Number of scores, d."""
        return self.value.shape[1]

    @property
    def plugin(self) -> FloatArray:
        """Weighted mean of F(mu), (d,)."""
        weight = self.weight if self.copies is None else self.copies
        return weight @ self.value / weight.sum()

    @property
    def estimate(self) -> FloatArray:
        """The debiased estimate, (d,)."""
        weight = self.weight if self.copies is None else self.copies
        return self.plugin + weight[self.block_context] @ self.correction / self.n_contexts

    @property
    def correction_by_context(self) -> FloatArray:
        """Correction of each context, (n, d)."""
        total = np.zeros(self.value.shape)
        add_to_rows(total, self.block_context, self.correction)
        return total

    @property
    def centred(self) -> FloatArray:
        """Influence values phi_i = w_i (F_i + correction_i - theta), (n, d), with mean zero; weights have mean one."""
        phi = self.correction_by_context
        # In place: the arrays have a row for every context.
        phi += self.value
        phi -= self.estimate
        phi *= self.weight[:, None]
        return phi

    @property
    def centred_correction(self) -> FloatArray:
        """Weighted corrections by block, (q, d), centred.

        The sum of the corrections over the blocks with labels is minus the estimated bias of F(mu). This bias is not
        noise, and is subtracted from the blocks in proportion to their labelled cells.
        """
        share = self.block_weight / self.block_weight.sum()
        weighted = self.weight[self.block_context, None] * self.correction
        return np.asarray(weighted - share[:, None] * weighted[self.block_weight > 0].sum(axis=0))

    def without_correction(self) -> Influence:
        """Return the influence of the plug-in estimate: F(mu) without the correction."""
        return replace(self, correction=np.zeros_like(self.correction), variance_correction=None)

    def within(self, stratum: IntArray, *, borrow: bool = True) -> Influence:
        """Return the influence of the same estimate where the shares of strata, (n,), are fixed.

        Influence values are taken less their means in the stratum and, with ``borrow``, multiplied so that a stratum of
        n_t has the variance (sum of squares) / n_t + S / n_t: S, the mean of the variances s_t^2 with weights
        1 - 1 / n_t, is worth one prompt. In strata of one size this is s_t^2. A stratum of two prompts tells next to
        nothing of its own variance, and would decide the degrees of freedom.
        """
        centred = self.centred / self.weight[:, None]
        size = np.bincount(stratum).astype(float)
        means = np.zeros((len(size), self.n_scores))
        add_to_rows(means, stratum, centred / size[stratum][:, None])
        factor = 1 + borrow * size * np.square(1 / size).sum() / (1 - 1 / size).sum()
        deviation = (centred - means[stratum]) * np.sqrt(factor)[stratum][:, None]
        nothing = np.zeros_like(self.correction)
        return replace(self, value=self.estimate + deviation, correction=nothing)

    def among(self, chosen: BoolArray) -> Influence:
        """Return the influence of the same estimate, whose mean correction is taken off some contexts, (n,), alone.

        Without features F(mu) is the same in all contexts. That of those with votes on models apart alone then changes
        no variance of the others.
        """
        weight = chosen * (self.weight if self.copies is None else self.copies)
        share = chosen * (self.n_contexts / weight.sum())
        return replace(self, value=self.value + np.outer(1 - share, self.estimate - self.plugin))

    def given_prompts(self) -> Influence:
        """Return the influence of the same estimate where the prompts are fixed: the correction without F(mu)."""
        return replace(self, value=np.broadcast_to(self.plugin, self.value.shape))


@dataclass(frozen=True, slots=True, eq=False)
class AddedByLabel:
    """What labels add to influence values: amount (E_j - E_k + c column) + shift, for items j and k of the label.

    of_items (T, K, d), of_column (T, d): E and c, in each table.
    amount, column (r,): Of the cells of the kinds' representatives.
    shift (d,): What every label adds besides.
    """

    of_items: FloatArray
    of_column: FloatArray
    amount: FloatArray
    column: FloatArray
    shift: FloatArray

    def of(self, table: int, rows: slice, first: IntArray, second: IntArray) -> FloatArray:
        """Return what labels of one table add, (b, d)."""
        added = self.of_items[table][first]
        added -= self.of_items[table][second]
        added += self.column[rows, None] * self.of_column[table]
        added *= self.amount[rows, None]
        added += self.shift
        return added


@dataclass(frozen=True, eq=False)
class CompressedInfluence:
    """Influence of a score from k kinds of identical contexts, without arrays of shape (n, d).

    mu (T, K, K, C): mu in each of the T tables of the kinds, clipped at the floor for scores that need a floor.
    propensity (r,): pi at the cells of the kinds' representatives, whose residuals are (Y - mu) / pi.
    weight (n,): Weights of the contexts in the target population, with mean one.
    by_table (T, d): F(mu) in each table.
    plugin, estimate (d,): Weighted mean of F(mu), and the debiased estimate.
    variance_correction (d, d): See :class:`dmlrank.estimation.influence.Influence`.
    excess (k,): By how much of the mean correction the value of each kind is above that of its table; None for none.
    added: What is added to the correction; None for nothing.
    """

    score: Functional
    kinds: IdenticalContexts
    mu: FloatArray
    propensity: FloatArray
    weight: FloatArray
    ordered: bool
    blocks: InfluenceBlocks
    by_table: FloatArray
    plugin: FloatArray
    estimate: FloatArray
    variance_correction: FloatArray | None = None
    excess: FloatArray | None = None
    added: AddedByLabel | None = None

    @property
    def n_contexts(self) -> int:
        """Number of contexts, n."""
        return len(self.weight) if self.kinds.copies is None else int(self.kinds.copies.sum())

    @property
    def n_scores(self) -> int:
        """Number of scores, d."""
        return len(self.estimate)

    def second_moment(self) -> FloatArray:
        """Return the sum of phi phi' over all contexts, (d, d)."""
        return self._moments[0]

    def power_sums(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums over all contexts of the second and of the fourth powers of phi, (d,) each."""
        second, fourth = self._moments
        return np.diag(second), fourth

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """The sums over all contexts of phi phi', (d, d), and of the fourth powers of phi, (d,)."""
        squares, fourths = (weight_sums(self.kinds, self.weight, power) for power in (2, 4))
        second, fourth = np.zeros((self.n_scores, self.n_scores)), np.zeros(self.n_scores)
        amounts, kinds, score = np.zeros_like(second), self.kinds, self.score
        shift, moved = self.by_table - self.estimate, np.zeros_like(self.by_table)
        # Where a label moves scores along the direction of its pair, sums by pair take the place of products, which
        # would take long.
        is_large = len(kinds) * second.size > _LARGE_PRODUCT and bool((np.diff(kinds.cell_kind) > 0).all())
        by_pair = is_large and is_moved_by_pair(score) and self.excess is None and self.added is None
        for part in self._parts():
            phi = self._phi_before_weighting(part)
            square = np.square(phi)
            fourth += fourths[part] @ np.square(square, out=square)
            if not by_pair:
                # The product of a matrix and its own transpose takes half as long as another product.
                phi *= np.sqrt(squares[part, None])
                second += phi.T @ phi
                continue
            rows = slice(*np.searchsorted(kinds.cell_kind, [part.start, part.stop]))
            pairs, table = (kinds.cells.first[rows], kinds.cells.second[rows]), kinds.table[part.start]
            change = score.term_changes(self.mu[table], self._residual(table, rows), *pairs, ordered=self.ordered)
            np.add.at(amounts, pairs, squares[kinds.cell_kind[rows]] * np.square(change))
            moved[table] += squares[part] @ phi - squares[part].sum() / 2 * shift[table]
        if by_pair:
            crossed = moved.T @ shift
            second = score.sum_over_pairs(amounts) + crossed + crossed.T
        return second, fourth

    def sums_by(self, unit: IntArray, power: int = 1) -> FloatArray:
        """Return the sums of powers of phi over units of contexts, (u, d); ``unit``, (n,), numbers the units from 0."""
        shape = (int(unit.max()) + 1, len(self.kinds))
        counts = sparse.csc_array(sparse.coo_array((self.weight**power, (unit, self.kinds.kind)), shape=shape))
        total = np.zeros((shape[0], self.n_scores))
        for part in self._parts():
            total += counts[:, part] @ self._phi_before_weighting(part) ** power
        return total

    def by_context(self) -> Influence:
        """Return the same influence with the values of every context."""
        correction = np.zeros((len(self.kinds), self.n_scores))
        for part in self._parts():
            correction[part] = self._corrections(part)
        value = self.by_table[self.kinds.table]
        if self.excess is not None:
            value = value + np.outer(self.excess, self.estimate - self.plugin)
        return Influence(
            value=value[self.kinds.kind],
            correction=correction[self.kinds.kind],
            block_context=self.blocks.context,
            block_weight=self.blocks.weight,
            weight=self.weight,
            variance_correction=self.variance_correction,
            copies=self.kinds.copies,
        )

    def _parts(self) -> Iterator[slice]:
        """Yield the kinds in chunks, each of them with one table."""
        size = max(1, _CHUNK // self.n_scores)
        # The tables of the kinds never decrease.
        bounds = np.searchsorted(self.kinds.table, np.arange(len(self.by_table) + 1))
        for first, end in pairwise(bounds.tolist()):
            for start in range(first, end, size):
                yield slice(start, min(start + size, end))

    def _phi_before_weighting(self, part: slice) -> FloatArray:
        """Return F(mu) plus correction less the estimate, (b, d), for b kinds of one table."""
        phi = self._corrections(part)
        phi += self.by_table[self.kinds.table[part.start]] - self.estimate
        if self.excess is not None:
            phi += np.outer(self.excess[part], self.estimate - self.plugin)
        return phi

    def among(self, chosen: BoolArray) -> CompressedInfluence:
        """Return the influence as :meth:`Influence.among` does; equal contexts are chosen alike."""
        weight = self.weight if self.kinds.copies is None else self.weight * self.kinds.copies
        of_kind = np.zeros(len(self.kinds), dtype=bool)
        of_kind[self.kinds.kind] = chosen
        return replace(self, excess=1 - of_kind * (self.n_contexts / weight[chosen].sum()))

    def mean_correction(self) -> FloatArray:
        """Return the weighted mean of the corrections, (d,)."""
        sums = weight_sums(self.kinds, self.weight, 1)
        of_parts = [sums[part] @ self._corrections(part) for part in self._parts()]
        return np.asarray(np.sum(of_parts, axis=0) / self.n_contexts)

    def of_added(self, added: AddedByLabel, estimate: FloatArray) -> CompressedInfluence:
        """Return the influence of what labels add alone, with this estimate."""
        nothing, no_residuals = np.zeros_like(self.by_table), np.broadcast_to(np.inf, self.propensity.shape)
        alone = replace(self, propensity=no_residuals, by_table=nothing, plugin=nothing[0], variance_correction=None)
        return replace(alone, estimate=estimate, excess=None, added=added)

    def _residual(self, table: int, rows: slice) -> FloatArray:
        """Return the residuals of cells with one table, (b, C)."""
        cells = self.kinds.cells
        mu = self.mu[table, cells.first[rows], cells.second[rows]]
        return np.asarray((cells.y[rows] - mu) / self.propensity[rows, None])

    def _corrections(self, part: slice) -> FloatArray:
        """Return the corrections of b kinds of one table, (b, d)."""
        kinds, table = self.kinds, self.kinds.table[part.start]
        rows = slice(*np.searchsorted(kinds.cell_kind, [part.start, part.stop]))
        pairs = kinds.cells.first[rows], kinds.cells.second[rows]
        residual = self._residual(table, rows)
        change = self.score.derivative_along(self.mu[table], residual, *pairs, ordered=self.ordered)
        if self.added is not None:
            change += self.added.of(table, rows, *pairs)
        place = kinds.cell_kind[rows] - part.start
        if np.array_equal(place, np.arange(part.stop - part.start)):
            return change
        total = np.zeros((part.stop - part.start, self.n_scores))
        np.add.at(total, place, change)
        return total


def weight_sums(kinds: IdenticalContexts, weight: FloatArray, power: int) -> FloatArray:
    """Add up a power of the contexts' weights, (n,), in each kind, (k,)."""
    of_contexts = weight**power if kinds.copies is None else weight**power * kinds.copies
    total: FloatArray = np.bincount(kinds.kind, of_contexts, len(kinds)).astype(float)
    return total


InfluenceFunction: TypeAlias = Influence | CompressedInfluence


def mean_influence(influences: Sequence[Influence]) -> Influence:
    """Average the influence over repetitions with other folds, context by context and block by block."""
    first = influences[0]
    if len(influences) == 1:
        return first
    corrections = [influence.variance_correction for influence in influences]
    added = [correction for correction in corrections if correction is not None]
    return replace(
        first,
        value=np.mean([influence.value for influence in influences], axis=0),
        correction=np.mean([influence.correction for influence in influences], axis=0),
        variance_correction=np.mean(added, axis=0) if len(added) == len(influences) else None,
    )


# Functionals of mu that are estimated together, from one pass over the probabilities: the one that the user fits, the
# share of comparisons that each model wins, how much a model gains from being shown first, and the projection on
# Bradley-Terry scores where the target assumes the Bradley-Terry model.
EstimandName: TypeAlias = Literal["target", "win_share", "position_effect", "projection"]


@dataclass(frozen=True, slots=True, eq=False)
class OneStepResult:
    """Result of the one-step estimator.

    influences: Estimate and influence of each estimand.
    cell_mu (m, C): Probabilities at the labelled cells from which the step is taken, not clipped.
    held_out (m, C): Probabilities at the labelled cells that their labels have not entered: ``cell_mu`` where there are
        folds.
    labels: The labels beside these probabilities.
    n_floored: Number of entries of mu (context, ordered pair, category) below the floor; pairs that are not edges count
        too.
    n_entries: Number of entries of mu in all; zero where no estimand needs a floor.
    """

    influences: Mapping[EstimandName, InfluenceFunction]
    cell_mu: FloatArray
    held_out: FloatArray
    labels: HeldOutLabels
    n_floored: int = 0
    n_entries: int = 0

    @property
    def target(self) -> InfluenceFunction:
        """The influence function of the functional that the user fits."""
        return self.influences["target"]


@dataclass(frozen=True, slots=True, eq=False)
class StackedInfluence(CentredValues):
    """Influence values that are stored for every context.

    centred (n, d): Influence values, with mean zero.
    centred_correction (q, d), block_context (q,): Corrections by influence block, centred, and the context of each.
    """

    centred: FloatArray = field()
    centred_correction: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    block_context: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @property
    def n_scores(self) -> int:
        """Number of estimates, d."""
        return self.centred.shape[1]
