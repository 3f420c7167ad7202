"""Contexts of one kind: where mu is the same in all contexts of a fold, these differ by their labels only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._utils.progress import report
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..functionals.base import AlongPairs, Local
from .cross_fitting import CrossFittedMu, MuSource
from .influence import Influence, InfluenceBlocks, JudgeCorrection, Labels, clip_and_renormalise, count_below
from .one_step import OneStepResult, evaluate
from .variance_correction import (
    CorrectionCovariance,
    LocalCorrectionCovariance,
    knows_correction_covariance,
    local_variance_correction,
    pair_variance_scale,
    variance_correction,
)

# Groups are counted in a table with a place for each that could be, unless it has many times more places than contexts.
_SPARE, _PER_CONTEXT = 1_000_000, 4


@dataclass(frozen=True, slots=True, eq=False)
class IdenticalContexts:
    """Which contexts are alike: the same fold, and the same label on the same pair.

    A million one-vote contexts of K items have at most K (K - 1) C kinds in a fold. Contexts without labels are one
    kind per fold; those with several labelled cells, or with labels that are not one-hot, are kinds of their own.

    Attributes
    ----------
    of : ndarray of int, shape (n,)
        Kind of each context.
    fold : ndarray of int, shape (k,)
        Fold of each kind, never decreasing.
    cells : Cells
        The r labelled cells of one context of each kind, with the votes of all its contexts.
    kind : ndarray of int, shape (r,)
        Kind that each of these belongs to, never decreasing.
    cell : ndarray of int, shape (r,)
        Which of the data's cells they are.
    row : ndarray of int, shape (m,)
        Which of them stands for each of the data's cells.
    """

    of: IntArray
    fold: IntArray
    cells: Cells
    kind: IntArray
    cell: IntArray
    row: IntArray

    def __len__(self) -> int:
        return len(self.fold)

    @property
    def count(self) -> IntArray:
        """Contexts of each kind, (k,)."""
        return np.bincount(self.of, minlength=len(self))

    @property
    def n_cells(self) -> IntArray:
        """Labelled cells that each of the r cells stands for, (r,)."""
        return np.bincount(self.row, minlength=len(self.cell))

    def by_pair(self, n_items: int) -> tuple[Cells, IntArray]:
        """The mean label of each fold's votes on each pair, as cells, and the labelled cells that each stands for."""
        cells, votes = self.cells, self.cells.n_votes
        number = (self.fold[self.kind] * n_items + cells.first) * n_items + cells.second
        bound = (int(self.fold.max()) + 1) * n_items**2
        total = np.bincount(number, votes, bound)
        found = np.flatnonzero(total)
        example = np.empty(bound, np.intp)
        example[number] = np.arange(len(number))
        where = example[found]
        y = np.stack([np.bincount(number, votes * share, bound)[found] for share in cells.y.T], axis=1)
        merged = cells.only(where)
        count = np.bincount(number, self.n_cells, bound)[found].astype(np.intp)
        return replace(merged, y=y / total[found, None], n_votes=total[found].astype(np.intp)), count

    def bounds(self, n_folds: int) -> IntArray:
        """Where the kinds of each fold begin, (n_folds + 1,)."""
        return np.searchsorted(self.fold, np.arange(n_folds + 1))

    def same(self, values: FloatArray) -> bool:
        """Whether contexts of one kind agree in what they say at their labelled cells, (m,)."""
        return bool((values[self.cell][self.row] == values).all())


def find_identical_contexts(data: PreferenceData, fold: IntArray) -> IdenticalContexts:
    """Sort contexts into kinds.

    Parameters
    ----------
    data : PreferenceData
    fold : ndarray of int, shape (n,)

    Examples
    --------
    >>> table = np.arange(6) % 3
    >>> _ranked(table, 3)[0].tolist()
    [0, 1, 2, 0, 1, 2]
    """
    cells = data.cells
    n_cells = np.bincount(cells.context, minlength=data.n_contexts)
    number, bound = _numbers(data, n_cells)
    of, example = _ranked(fold * bound + number, (int(fold.max()) + 1) * bound)
    # An example's cells in the order of the kinds; a cell's row counts on from the first one of its kind.
    first_cell, own = np.cumsum(n_cells) - n_cells, n_cells[example]
    kind = np.repeat(np.arange(len(example)), own)
    first_row = np.cumsum(own) - own
    cell = np.arange(len(kind)) + (first_cell[example] - first_row)[kind]
    row = first_row[of[cells.context]]
    if len(row) > len(example) or own.max(initial=0) > 1:
        row += np.arange(len(row)) - first_cell[cells.context]
    votes = np.bincount(row, weights=cells.n_votes, minlength=len(cell)).astype(np.intp)
    alike = Cells(cells.context[cell], cells.first[cell], cells.second[cell], cells.y[cell], votes, cells.flipped[cell])
    return IdenticalContexts(of, fold[example], alike, kind, cell, row)


def _numbers(data: PreferenceData, n_cells: IntArray) -> tuple[IntArray, int]:
    """A number for what each context says, (n,), and a bound that all are below."""
    cells, n_items, n_categories = data.cells, data.n_items, data.n_categories
    label, shared = _hard_labels(cells.y)
    code = (cells.first * n_items + cells.second) * n_categories + label
    n_codes = n_items**2 * n_categories
    if shared.all() and (n_cells == 1).all():
        return code, n_codes
    number = np.full(data.n_contexts, n_codes)
    shared &= n_cells[cells.context] == 1
    number[cells.context[shared]] = code[shared]
    alone = np.flatnonzero((n_cells > 0) & (number == n_codes))
    number[alone] += 1 + np.arange(len(alone))
    return number, n_codes + 1 + len(alone)


def _hard_labels(y: FloatArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """The category of every one-hot label, (m,), and which labels, (m, C), are one-hot."""
    label, ones, others = np.zeros(len(y), np.intp), np.zeros(len(y), np.intp), np.zeros(len(y), bool)
    for category, share in enumerate(y.T):
        hit = share == 1
        label += category * hit
        ones += hit
        others |= (share != 0) & ~hit
    return label, (ones == 1) & ~others


def _ranked(number: IntArray, bound: int) -> tuple[IntArray, IntArray]:
    """Place of each number among the different ones, (n,), and where one of each is found, (k,)."""
    if bound > _PER_CONTEXT * len(number) + _SPARE:
        _, example, place = np.unique(number, return_index=True, return_inverse=True)
        return place.reshape(-1), example
    where = np.full(bound, -1)
    where[number] = np.arange(len(number))
    found = np.flatnonzero(where >= 0)
    place = np.empty(bound, np.intp)
    place[found] = np.arange(len(found))
    return place[number], where[found]


# Influence values that are held at a time; a fifth of it takes about as long, four times as many longer.
_CHUNK = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums over all contexts: of phi phi', (d, d), and of the fourth powers of phi, (d,)."""

    second: FloatArray
    fourth: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class GroupedResiduals:
    """What the labels say of mu, which all scores share.

    Attributes
    ----------
    kinds : IdenticalContexts
    mu : ndarray, shape (F, K, K, C)
        mu in each fold, floored where the score has it so.
    residual : ndarray, shape (r, C)
        1 / pi (Y - mu) at the kinds' cells.
    weight : ndarray, shape (n,)
        Weights of the contexts in the target population, with mean one.
    flip : ndarray of int, shape (C,), or None
        The categories with the wins exchanged, where order does not matter.
    blocks : InfluenceBlocks
        One per context.
    """

    kinds: IdenticalContexts
    mu: FloatArray
    residual: FloatArray
    weight: FloatArray
    flip: IntArray | None
    blocks: InfluenceBlocks

    def weights(self, power: int) -> FloatArray:
        """Sum of a power of the contexts' weights by kind, (k,)."""
        total: FloatArray = np.bincount(self.kinds.of, self.weight**power, len(self.kinds)).astype(float)
        return total

    def direction(self, power: int) -> FloatArray:
        """Sum over each fold's contexts of their weight's power times delta, (F, K, K, C)."""
        kinds, shape = self.kinds, self.mu.shape
        n_items, n_categories = shape[1], shape[3]
        place = (kinds.fold[kinds.kind] * n_items + kinds.cells.first) * n_items + kinds.cells.second
        amount = self.weights(power)[kinds.kind]
        size = shape[0] * n_items**2
        columns = [np.bincount(place, amount * self.residual[:, c], size) for c in range(n_categories)]
        total: FloatArray = np.stack(columns, axis=-1).astype(float).reshape(shape)
        return total if self.flip is None else total + np.swapaxes(total, 1, 2)[..., self.flip]


@dataclass(frozen=True, slots=True, eq=False)
class GroupedInfluence:
    """Influence of a score whose contexts come in kinds; nothing of size (n, d) is held.

    Attributes
    ----------
    score : Local or AlongPairs
    told : GroupedResiduals
    by_fold : ndarray, shape (F, d)
        F(mu) in each fold.
    plugin, estimate : ndarray, shape (d,)
        Weighted mean of F(mu), and the debiased estimate.
    variance_correction : ndarray, shape (d, d), or None
        See :class:`dmlrank.estimation.influence.Influence`.
    known : Moments or None
        Where they have been computed already.
    """

    score: Any
    told: GroupedResiduals
    by_fold: FloatArray
    plugin: FloatArray
    estimate: FloatArray
    variance_correction: FloatArray | None = None
    known: Moments | None = None

    # F(mu) is averaged over all contexts.
    subsample_inflation = 0.0

    @property
    def n_contexts(self) -> int:
        """Number of contexts, n."""
        return len(self.told.weight)

    @property
    def n_scores(self) -> int:
        """Number of scores, d."""
        return len(self.estimate)

    @property
    def value_weight(self) -> FloatArray:
        """What each context's F(mu) counts, (n,)."""
        return self.told.weight

    @property
    def second_moment(self) -> FloatArray:
        """Sum of phi phi' over all contexts, (d, d)."""
        return self.moments().second

    def moments(self) -> Moments:
        """Second and fourth moments, from the kinds and how often each occurs."""
        if self.known is not None:
            return self.known
        roots, fourths = np.sqrt(self.told.weights(2)), self.told.weights(4)
        second, fourth = np.zeros((self.n_scores, self.n_scores)), np.zeros(self.n_scores)
        for part in self._parts():
            phi = self._unweighted(part)
            square = np.square(phi)
            fourth += fourths[part] @ np.square(square, out=square)
            # A product of a matrix with itself is half the work.
            phi *= roots[part, None]
            second += phi.T @ phi
        return Moments(second, fourth)

    def sums_by(self, group: IntArray) -> FloatArray:
        """Sums of phi over groups of contexts, (g, d); groups are numbered from 0."""
        kinds, n_groups = self.told.kinds, int(group.max()) + 1
        shape = (n_groups, len(kinds))
        counts = sparse.csc_array(sparse.coo_array((self.told.weight, (group, kinds.of)), shape=shape))
        total = np.zeros((n_groups, self.n_scores))
        for part in self._parts():
            total += counts[:, part] @ self._unweighted(part)
        return total

    def by_context(self) -> Influence:
        """The same, written out for every context."""
        kinds, blocks, n = self.told.kinds, self.told.blocks, self.n_contexts
        correction = np.zeros((len(kinds), self.n_scores))
        for part in self._parts():
            correction[part] = self._corrections(part)
        value = self.by_fold[kinds.fold[kinds.of]]
        weight = np.zeros(n)
        np.add.at(weight, blocks.entry_block, blocks.entry_share)
        return Influence(
            value, correction[kinds.of], blocks.context, weight, self.told.weight, self.variance_correction
        )

    def without_correction(self) -> Influence:
        """What the plug-in estimator makes of it: F(mu) alone."""
        return self.by_context().without_correction()

    def given_prompts(self) -> Influence:
        """What is uncertain where the prompts are fixed."""
        return self.by_context().given_prompts()

    def _parts(self) -> Iterator[slice]:
        """Groups in chunks, none of them across folds."""
        size = max(1, _CHUNK // self.n_scores)
        bounds = self.told.kinds.bounds(len(self.by_fold)).tolist()
        for start, end in pairwise(bounds):
            for at in range(start, end, size):
                yield slice(at, min(at + size, end))

    def _unweighted(self, part: slice) -> FloatArray:
        """F(mu) and correction less the estimate, of some kinds of one fold, (b, d)."""
        phi = self._corrections(part)
        phi += self.by_fold[self.told.kinds.fold[part.start]] - self.estimate
        return phi

    def _corrections(self, part: slice) -> FloatArray:
        """Corrections of some kinds of one fold, (b, d)."""
        told = self.told
        start, end = np.searchsorted(told.kinds.kind, [part.start, part.stop])
        first, second = told.kinds.cells.first[start:end], told.kinds.cells.second[start:end]
        mu = told.mu[told.kinds.fold[part.start]]
        change = self._along(mu, told.residual[start:end], first, second)
        if told.flip is not None:
            change += self._along(mu, told.residual[start:end][:, told.flip], second, first)
        place = told.kinds.kind[start:end] - part.start
        if len(place) == part.stop - part.start == (place[-1] + 1 if len(place) else 0) and (np.diff(place) > 0).all():
            return change
        total = np.zeros((part.stop - part.start, self.n_scores))
        np.add.at(total, place, change)
        return total

    def _along(self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Derivatives at ``mu``, (K, K, C), along directions at one pair each, (b, d)."""
        if isinstance(self.score, Local):
            return self.score.derivative_at(mu[first, second], delta, first, second, len(mu))
        return np.asarray(self.score.derivative_along(mu, delta, first, second))


def comes_in_kinds(scores: Sequence[Any], data: PreferenceData, blocks: InfluenceBlocks) -> bool:
    """Whether kinds say all: no features, one block per context, and scores that know single pairs."""
    knowing = all(isinstance(score, Local | AlongPairs) for score in scores)
    return knowing and data.x.shape[1] == 0 and blocks.context is blocks.own


def evaluate_once(
    scores: Sequence[Any],
    mu: MuSource,
    data: PreferenceData,
    kinds: IdenticalContexts | None,
    propensity: FloatArray,
    blocks: InfluenceBlocks,
    floor: float,
    weight: FloatArray | None,
    n_jobs: int | None,
    sample: IntArray | None,
    judged: JudgeCorrection | None,
) -> OneStepResult:
    """The pass, by kinds of contexts where these say all and are at most half as many as contexts; else of all."""
    if (
        kinds is not None
        and isinstance(mu, CrossFittedMu)
        and 2 * len(kinds) <= data.n_contexts
        and sample is None
        and judged is None
        and comes_in_kinds(scores, data, blocks)
        and kinds.same(propensity)
    ):
        return evaluate_kinds(scores, mu, data, kinds, propensity, blocks, floor, weight)
    return evaluate(scores, mu, data, propensity, blocks, floor, weight, n_jobs, sample, judged)


def evaluate_kinds(
    scores: Sequence[Any],
    mu: CrossFittedMu,
    data: PreferenceData,
    kinds: IdenticalContexts,
    propensity: FloatArray,
    blocks: InfluenceBlocks,
    floor: float,
    context_weight: FloatArray | None = None,
) -> OneStepResult:
    """The same as :func:`dmlrank.estimation.one_step.evaluate`, with one evaluation per kind of context.

    Parameters
    ----------
    kinds : IdenticalContexts
        For the folds of ``mu``, with the same propensities for all contexts of a kind.
    scores, mu, data, propensity, blocks, floor, context_weight
        As there; see :func:`comes_in_kinds`.

    Notes
    -----
    F(mu) and its derivative are those of the fold. The correction is linear in delta, so that its sum over a fold is
    the derivative along the sum of the deltas.
    """
    raw = np.concatenate([model.predict(np.empty((1, 0))) for model in mu.models])
    cells, fold = kinds.cells, kinds.fold[kinds.kind]
    cell_mu = raw[fold, cells.first, cells.second]
    pi = propensity[kinds.cell]
    worth = pair_variance_scale(cell_mu, data, pi, cells=cells, count=kinds.n_cells)
    weight = np.ones(data.n_contexts) if context_weight is None else context_weight
    flip = None if data.ordered else data.flip
    told = {}
    for interior, seen in ((False, raw), (True, clip_and_renormalise(raw, floor))):
        residual = (cells.y - seen[fold, cells.first, cells.second]) / pi[:, None]
        told[interior] = GroupedResiduals(kinds, seen, residual, weight, flip, blocks)
    influences = [_influence(score, told[bool(score.interior)], worth, data) for score in scores]
    # Only the scores themselves are asked for more than an estimate in every fit, and more than once.
    influences[0] = replace(influences[0], known=influences[0].moments())
    looked_at = _floored(raw, floor, mu.folds.fold) if any(score.interior for score in scores) else (0, 0)
    pairs, count = kinds.by_pair(data.n_items)
    labels = Labels(mu.at(pairs), pairs, count)
    report(data.n_contexts, data.n_contexts, "scores, contexts")
    return OneStepResult(tuple(influences), np.take(cell_mu, kinds.row, axis=0), *looked_at, labels)


def _floored(raw: FloatArray, floor: float, fold: IntArray) -> tuple[int, int]:
    """Entries of mu below the floor in all contexts, and all entries, for tables (F, K, K, C) by fold."""
    _, n_items, _, n_categories = raw.shape
    n_floored = int(count_below(raw, floor) @ np.bincount(fold, minlength=len(raw)))
    return n_floored, len(fold) * n_items * (n_items - 1) * n_categories


def _influence(score: Any, told: GroupedResiduals, worth: FloatArray, data: PreferenceData) -> GroupedInfluence:
    """Estimate and variance correction of one score."""
    by_fold, moved = score.value_and_derivative(told.mu, told.direction(1))
    share = np.bincount(told.kinds.fold, told.weights(1), len(told.mu))
    plugin = share @ by_fold / share.sum()
    estimate = plugin + moved.sum(axis=0) / data.n_contexts
    return GroupedInfluence(score, told, by_fold, plugin, estimate, _variance_correction(score, told, worth, data))


def _variance_correction(
    score: Any, told: GroupedResiduals, worth: FloatArray, data: PreferenceData
) -> FloatArray | None:
    """How far a shrunken mu makes standard errors too small, (d, d); None where it is not known.

    A derivative along delta is summed over contexts. Where it needs mu at all pairs, it is taken along the sum of the
    deltas of each fold.
    """
    n, cells, kind = data.n_contexts, told.kinds.cells, told.kinds.kind
    if isinstance(score, Local):
        if not isinstance(score, LocalCorrectionCovariance):
            return None
        weight = worth[cells.first, cells.second] * told.weights(2)[kind]
        mu = told.mu[told.kinds.fold[kind], cells.first, cells.second]
        made = local_variance_correction(score, mu, told.residual, weight, cells.first, cells.second, data.n_items)
        return made / n
    if isinstance(score, CorrectionCovariance) and knows_correction_covariance(score, n, data.n_items):
        return variance_correction(score, told.mu, told.direction(2), worth, np.ones(len(told.mu))) / n
    return None
