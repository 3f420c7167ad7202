"""The one-step estimator: from the first stages to debiased estimates and their influence values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._utils.tasks_and_threads import report
from ..data.arrays import BoolArray, row_slices
from ..data.outcomes import in_other_order
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..functionals.base import SMALL_CHANGE, Functional, difference_step
from .bt_restricted import RestrictedBradleyTerry
from .cross_fitting import (
    ContextPart,
    CrossFittedMu,
    HeldOutLabels,
    IdenticalContexts,
    clip_and_count,
    clip_and_renormalise,
    contexts_at_a_time,
    may_save_half,
    mu_by_fold,
    over_parts,
)
from .influence import (
    CompressedInfluence,
    EstimandName,
    Influence,
    InfluenceBlocks,
    InfluenceFunction,
    JudgeCorrection,
    OneStepInputs,
    OneStepResult,
    add_to_rows,
    weight_sums,
)

Scalar = TypeVar("Scalar", bound=np.generic)

# Largest number of probabilities that all numerical derivatives of a variance correction may take together.
_CHEAP = 4e8
# Largest number of probabilities of all pairs that are kept for all contexts with different features: 320 MB.
_TABLE_ENTRIES = 4e7
# Length of a finite-difference step, relative to the smallest probability, where scores have a logit or a division.
_STEP = 1e-3


def has_variance_correction(score: Functional, data: PreferenceData) -> bool:
    """Whether the covariance of a score's correction depends on mu, and is cheap to compute."""
    if score.linear or isinstance(score, RestrictedBradleyTerry):
        return False
    has_formula = type(score).accumulate is not Functional.accumulate
    n_entries = data.n_contexts * data.n_items**2 * data.n_categories
    n_calls = 4 * data.n_items * (data.n_items - 1) * (data.n_categories - 1)
    return has_formula or n_calls * n_entries <= _CHEAP


def pair_variance_scale(
    labels: HeldOutLabels,
    propensity: FloatArray,
    data: PreferenceData,
    judge: JudgeCorrection | None = None,
    apart: BoolArray | None = None,
) -> FloatArray:
    """Return, for each ordered pair, (K, K), the factor of J V J' in the second moment of the correction.

    V is the covariance of a one-hot label with probabilities mu, and J the derivative of the functional. The factor is
    the mean of 1 / pi over contexts, times the relative variance of a label: labels that are means of several votes, or
    soft, have a smaller variance than one-hot labels with the same probabilities, at most as large; labels of models
    apart, (K,), do not count in it. The mean of 1 / pi is estimated by the mean of S / pi^2, which needs the
    propensities of labelled pairs only.

    With a judge, the residuals of the labels are taken around m = P(Y | x, verdict), and the variance of m around mu is
    added with the weights of the verdicts.

    Shapes: propensity (m,).
    """
    of_labels = _mean_by_pair(labels.cells, labels.cells.count / propensity**2, data)
    m = labels.mu if judge is None else np.where((judge.label >= 0)[:, None], judge.m[judge.label], labels.mu)
    count = labels.cells.count * ~labels.cells.of(apart)
    of_one_hot = max(float((count * (1 - np.square(labels.mu).sum(axis=1))).sum()), 1e-300)
    around_mu, around_m = (
        min(float((count[:, None] * np.square(labels.cells.y - p)).sum()) / of_one_hot, 1.0) for p in (labels.mu, m)
    )
    if judge is None:
        return of_labels * around_mu
    from_verdicts = max(around_mu - around_m, 0.0) * _mean_by_pair(judge.cells, judge.weight**2, data)
    return of_labels * around_m + from_verdicts


def variance_correction(
    score: Functional, mu: FloatArray, delta: FloatArray, scale: FloatArray, context_weight: FloatArray
) -> FloatArray:
    """Estimate the first-order change of the correction's second moment if J were taken at the true mu, (d, d).

    Shapes: mu (b, K, K, C), delta (b, K, K, C), scale (K, K), context_weight (b,), returns (d, d).

    Notes
    -----
    The correction of a context is sum_jk S_jk / pi_jk J_jk (Y_jk - mu_jk), with J_jk the derivative of the functional F
    in mu_jk. Given the context, its second moment is sum_jk J V J' / pi, where V is the covariance of a label. The mean
    of phi phi' contains the true covariance of the labels, through the residuals, but the derivative J = DF at
    the fitted mu. Where mu is shrunken, J is too small, and so are the standard errors. The second moment
    sum_jk J V J' / pi is a functional of the mu in J, and has a one-step correction: its derivative along
    delta = S / pi (Y - mu), whose expectation given the context is the true minus the fitted mu. The derivative is
    computed as a central difference. 1 / pi is replaced by its mean over contexts, ``scale``, which needs the
    propensities of labelled pairs only: the mean of S / pi^2.

    A linear functional has the same J everywhere and no variance correction. If J_jk depends on mu_jk alone, the
    derivative along delta is a sum over labelled pairs (:func:`local_variance_correction`). Only the positive part of
    the correction is added to a covariance.
    """
    nonzero = np.flatnonzero(delta.any(axis=(1, 2, 3)))
    fitted, direction = mu[nonzero], delta[nonzero]
    step = difference_step(fitted, direction, score.interior, _STEP)
    amount = (context_weight[nonzero] ** 2 / (2 * step))[:, None, None] * scale
    change = step[:, None, None, None] * direction
    # V stays at the fitted mu: the residuals contain the true covariance of the labels already.
    return score.accumulate(fitted + change, amount, fitted) - score.accumulate(fitted - change, amount, fitted)


def local_variance_correction(
    score: Functional, mu: FloatArray, delta: FloatArray, weight: FloatArray, pairs: tuple[IntArray, IntArray, int]
) -> FloatArray:
    """Compute :func:`variance_correction`, (d, d), for a score whose J at a pair depends on mu at the same pair only.

    The sum over pairs is then a sum over labelled cells.

    Shapes: mu (m, C), delta (m, C), weight (m,).
    """
    # Category by category, because the maximum over a short last axis takes several times as long.
    largest = reduce(np.maximum, np.abs(delta).T)
    nonzero = np.flatnonzero(largest > 0)
    fitted = mu[nonzero]
    nonzero_pairs = (pairs[0][nonzero], pairs[1][nonzero], pairs[2])
    smallest = reduce(np.minimum, np.where(fitted > 0, fitted, 1.0).T)
    step = (_STEP * smallest if score.interior else SMALL_CHANGE) / largest[nonzero]
    amount, change = weight[nonzero] / (2 * step), step[:, None] * delta[nonzero]
    above = score.accumulate_at(fitted + change, amount, fitted, *nonzero_pairs)
    return above - score.accumulate_at(fitted - change, amount, fitted, *nonzero_pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Residuals, weight times (target - expected value), of e votes and verdicts, sorted by context.

    The target of a block's votes on a cell is their mean label; the target of a verdict is m = P(Y | x, verdict). The
    expected value is mu, or m for votes on a pair with a verdict.

    context, block, first, second (e,): Context, influence block and ordered pair of each residual.
    weight (e,): 1 / pi times the block's share of the cell's votes, or the weight of the verdict.
    mu, target, expected: Two of each, (e, C): as they are, and with probabilities clipped at the floor, for scores that
        need a floor.
    """

    context: IntArray
    block: IntArray
    first: IntArray
    second: IntArray
    weight: FloatArray
    mu: tuple[FloatArray, ...]
    target: tuple[FloatArray, ...]
    expected: tuple[FloatArray, ...]

    @classmethod
    def of(cls, inputs: OneStepInputs, cell_mu: FloatArray) -> Residuals:
        """Compute the residuals of all votes, and of the verdicts if there is a judge; shapes: cell_mu (m, C)."""

        def with_clipped(p: FloatArray) -> tuple[FloatArray, ...]:
            return p, clip_and_renormalise(p, inputs.floor)

        cells, blocks, judge = inputs.data.cells, inputs.blocks, inputs.judge
        # With one block per context, the entries are the labelled cells in their order, and nothing has to be copied.
        cell = slice(None) if blocks.one_per_context else blocks.entry_cell
        mu, y = with_clipped(cell_mu[cell]), blocks.entry_y
        context, first, second = cells.context[cell], cells.first[cell], cells.second[cell]
        weight = blocks.entry_share / inputs.propensity[cell]
        if judge is None:
            return cls(context, blocks.entry_block, first, second, weight, mu, (y, y), mu)
        # m is clipped like mu: if a verdict says nothing about the label, m = mu, and its residual must be zero.
        verdicts, m, verdict_mu = judge.cells, with_clipped(judge.m), with_clipped(inputs.mu.at(judge.cells))
        judged_cell = judge.label[blocks.entry_cell]
        has_verdict = (judged_cell >= 0)[:, None]
        by_context = np.argsort(np.concatenate([context, verdicts.context]), kind="stable")

        def join(of_votes: NDArray[Scalar], of_verdicts: NDArray[Scalar]) -> NDArray[Scalar]:
            return np.concatenate([of_votes, of_verdicts])[by_context]

        known = [np.where(has_verdict, p[judged_cell], of_votes) for p, of_votes in zip(m, mu, strict=True)]
        return cls(
            context=join(context, verdicts.context),
            block=join(blocks.entry_block, blocks.context_block[verdicts.context]),
            first=join(first, verdicts.first),
            second=join(second, verdicts.second),
            weight=join(weight, judge.weight),
            mu=tuple(map(join, mu, verdict_mu)),
            target=tuple(join(y, p) for p in m),
            expected=tuple(map(join, known, verdict_mu)),
        )

    def weighted(self, rows: IntArray | slice, clipped: bool) -> FloatArray:
        """Return the weighted residuals of r rows, (r, C), with probabilities clipped at the floor or not."""
        return np.asarray(self.weight[rows, None] * (self.target[clipped][rows] - self.expected[clipped][rows]))

    def derivatives(self, score: Functional, rows: IntArray | slice, data: PreferenceData) -> FloatArray:
        """Return the derivatives of a pair-local score along the weighted residuals of r rows, (r, d)."""
        first, second = self.first[rows], self.second[rows]
        mu, residual = self.mu[score.interior][rows], self.weighted(rows, score.interior)
        change = score.derivative_at(mu, residual, first, second, data.n_items)
        if data.ordered:
            return change
        return change + score.derivative_at(mu[:, data.flip], residual[:, data.flip], second, first, data.n_items)

    def corrections(self, score: Functional, data: PreferenceData, n_blocks: int) -> FloatArray:
        """Return the corrections by block, (q, d), of a pair-local score, which needs mu at these residuals only."""
        total = np.zeros((n_blocks, 0))
        for part in row_slices(len(self.block), data.n_items, CHUNK):
            change = self.derivatives(score, part, data)
            if not part.start:
                total = np.zeros((n_blocks, change.shape[1]))
            add_to_rows(total, self.block[part], change)
        return total


def _mean_by_pair(cells: Cells, amounts: FloatArray, data: PreferenceData) -> FloatArray:
    """Average the amounts of cells, (m,), over all contexts, for each ordered pair, (K, K).

    Where display order does not matter, a residual moves the probabilities of both orders of its pair. This doubles the
    correction and multiplies its square, for which the amounts stand, by 4.
    """
    return cells.sums(amounts, data.n_items) / data.n_contexts * (1 if data.ordered else 4)


# Entries of mu in one chunk. A few arrays of this size are in memory at a time, in every thread.
CHUNK = 2_000_000
# Values and corrections from mu at all pairs need several arrays of the size of mu at the same time. They are computed
# for as many contexts as have a chunk of entries in this number of arrays.
_ARRAYS_PER_CHUNK = 8
# Influence values of one score that may be stored for all contexts: 160 MB, of which a fit needs a few.
MAX_STORED = 20_000_000


def one_step(estimands: Mapping[EstimandName, Functional], inputs: OneStepInputs) -> OneStepResult:
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

    If mu is the same in all contexts of a fold, or in those with the same features, F(mu) and its derivative are the
    same as well. The correction of a context is linear in its residuals, so that the sum of the corrections of these
    contexts is the derivative along the sum of the residuals, and the sums over all contexts of phi phi' and of phi^4
    are sums over representatives, weighted by sums of the second and fourth powers of the contexts' weights.

    References
    ----------
    Frauen et al., arXiv 2601.21816, equation eq:debiased_estimator of the source.
    """
    kinds = useful_kinds(estimands, inputs)
    if kinds is not None:
        return evaluate_identical_contexts(kinds, estimands, inputs)
    return evaluate_contexts(estimands, inputs)


# --- identical contexts -----------------------------------------------------------------------------------------------


def useful_kinds(estimands: Mapping[EstimandName, Functional], inputs: OneStepInputs) -> IdenticalContexts | None:
    """Return kinds of identical contexts where these give the same estimates as all contexts at a lower cost."""
    data, mu, size = inputs.data, inputs.mu, inputs.data.n_items**2 * inputs.data.n_categories
    needs_too_much = data.n_contexts * data.n_items > MAX_STORED
    if (
        not isinstance(mu, CrossFittedMu)
        or (mu_by_fold(mu) is None and not (needs_too_much and len(mu.numbered_tables()[1]) * size <= _TABLE_ENTRIES))
        or inputs.judge is not None
        or not inputs.blocks.one_per_context
        or not all(score.has_fast_pairs for score in estimands.values())
        or not (needs_too_much or may_save_half(data))
    ):
        return None
    kinds = mu.identical_contexts(data)
    is_cheaper = 2 * len(kinds) <= data.n_contexts or needs_too_much or data.copies is not None
    return kinds if is_cheaper and kinds.is_constant_within_kinds(inputs.propensity) else None


def evaluate_identical_contexts(
    kinds: IdenticalContexts, estimands: Mapping[EstimandName, Functional], inputs: OneStepInputs
) -> OneStepResult:
    """Estimate by one step with one influence value for each of the :func:`useful_kinds`."""
    data, weight, mu_of_folds = inputs.data, inputs.weight, inputs.mu
    assert isinstance(mu_of_folds, CrossFittedMu)
    unclipped, cells, n = mu_of_folds.tables(kinds.table_context), kinds.cells, data.n_contexts
    pairs = (kinds.table[kinds.cell_kind], cells.first, cells.second)
    pi, has_features = inputs.propensity[kinds.representative], mu_by_fold(mu_of_folds) is None
    held_out = (mu_of_folds.at if has_features else mu_of_folds.held_out)(data.cells)
    cell_mu = held_out if has_features else np.take(unclipped[pairs], kinds.row, axis=0)
    apart = next(iter(estimands.values())).apart
    scale = pair_variance_scale(HeldOutLabels(held_out[kinds.representative], cells), pi, data, apart=apart)
    sums, square_sums = (weight_sums(kinds, weight, power) for power in (1, 2))
    table_weight = np.bincount(kinds.table, sums, len(unclipped))
    n_contexts = np.bincount(kinds.table[kinds.kind], data.copies, len(unclipped)).astype(np.intp)
    clipped, n_below = clip_and_count(unclipped, inputs.floor, n_contexts)

    def evaluate(score: Functional) -> CompressedInfluence:
        mu = clipped if score.interior else unclipped
        residual = (cells.y - mu[pairs]) / pi[:, None]

        def directions(amount: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
            """Yield b tables, (b, K, K, C), with the sums of their residuals; each kind has an amount, (k,)."""
            for part in row_slices(len(mu), mu[0].size, CHUNK):
                tables, rows = mu[part], slice(*np.searchsorted(pairs[0], [part.start, part.stop]))
                at, n_codes = tuple(of_cells[rows] for of_cells in pairs), int(np.prod(tables.shape[:3]))
                code = np.ravel_multi_index((at[0] - part.start, *at[1:]), tables.shape[:3])
                of_rows = amount[kinds.cell_kind[rows]]
                columns = [np.bincount(code, of_rows * column, n_codes) for column in residual[rows].T]
                total: FloatArray = np.stack(columns, axis=-1).astype(float).reshape(tables.shape)
                yield tables, total if data.ordered else total + in_other_order(total)

        values, corrections = zip(*(score.value_and_derivative(*of_part) for of_part in directions(sums)), strict=True)
        by_table, correction = np.concatenate(values), np.concatenate(corrections)
        plugin = table_weight @ by_table / table_weight.sum()
        added_variance = None
        if has_variance_correction(score, data):
            if score.pair_local:
                amount = scale[cells.first, cells.second] * square_sums[kinds.cell_kind]
                of_pairs = (cells.first, cells.second, data.n_items)
                added_variance = local_variance_correction(score, mu[pairs], residual, amount, of_pairs) / n
            else:
                of_tables = directions(square_sums)
                by_part = [variance_correction(score, *some, scale, np.ones(len(some[0]))) for some in of_tables]
                added_variance = np.sum(by_part, axis=0) / n
        estimate = plugin + correction.sum(axis=0) / n
        return CompressedInfluence(
            score, kinds, mu, pi, weight, data.ordered, inputs.blocks, by_table, plugin, estimate, added_variance
        )

    influences: dict[EstimandName, InfluenceFunction] = {name: evaluate(score) for name, score in estimands.items()}
    needs_floor = any(score.interior for score in estimands.values())
    report(n, n, "scores, contexts")
    return OneStepResult(
        influences,
        cell_mu,
        held_out,
        HeldOutLabels.of(inputs.mu, data, held_out),
        n_below * needs_floor,
        n * data.n_items * (data.n_items - 1) * data.n_categories * needs_floor,
    )


# --- every context ----------------------------------------------------------------------------------------------------


def evaluate_contexts(estimands: Mapping[EstimandName, Functional], inputs: OneStepInputs) -> OneStepResult:
    """Estimate by one step with the influence values of every context.

    Contexts are evaluated chunk by chunk, and contexts with equal features once per fold. No array has an entry for
    every context and every pair.
    """
    data, blocks, cell_mu = inputs.data, inputs.blocks, inputs.mu.at(inputs.data.cells)
    residuals, scale = Residuals.of(inputs, cell_mu), None
    constant = mu_by_fold(inputs.mu)
    held_out = cell_mu if constant is None else constant.held_out(data.cells)
    if any(has_variance_correction(score, data) for score in estimands.values()):
        labels = HeldOutLabels(held_out, data.cells)
        apart = next(iter(estimands.values())).apart
        scale = pair_variance_scale(labels, inputs.propensity, data, inputs.judge, apart)
    task = _Task(estimands, data.without_names(), blocks, inputs.floor, inputs.weight, residuals, scale)
    by_label = {name: score for name, score in estimands.items() if task.is_by_label(score)}
    values: dict[EstimandName, FloatArray] = {}
    n_floored = n_done = 0
    n_blocks = len(blocks.context)
    corrections = {name: residuals.corrections(score, data, n_blocks) for name, score in by_label.items()}
    added: dict[EstimandName, FloatArray] = {
        name: task.variance_correction_by_label(score)
        for name, score in estimands.items()
        if score.pair_local and not score.linear
    }
    size = contexts_at_a_time(data, CHUNK)
    for part, (of_part, n_low) in over_parts(task.evaluate, inputs.mu, size, "scores"):
        contexts = part.contexts
        for name, (value, block, correction, more) in of_part.items():
            if name not in values:
                values[name] = np.zeros((data.n_contexts, value.shape[1]))
            values[name][contexts] = value
            if correction is not None:
                if name not in corrections:
                    corrections[name] = np.zeros((len(blocks.context), value.shape[1]))
                corrections[name][block] = correction
            if more is not None:
                added[name] = added[name] + more if name in added else more
        n_floored += n_low
        n_done += len(contexts)
    given = blocks.context, blocks.weight, inputs.weight
    return OneStepResult(
        {name: Influence(values[name], corrections[name], *given, added.get(name)) for name in estimands},
        cell_mu,
        held_out,
        HeldOutLabels.of(inputs.mu, data, held_out),
        n_floored,
        n_done * data.n_items * (data.n_items - 1) * data.n_categories * task.interior,
    )


class _ScorePart(NamedTuple):
    """One score evaluated in a part of b contexts with p influence blocks.

    value (b, d): F(mu) by context.
    block (p,), correction (p, d): The blocks of these contexts and their corrections; None for a score whose
        corrections are computed by label.
    added (d, d): These contexts' part of the variance correction.
    """

    value: FloatArray
    block: IntArray | None = None
    correction: FloatArray | None = None
    added: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """The evaluation of several scores in parts of the contexts, with the inputs that all parts share.

    floor: Smallest probability of mu for scores that need a floor.
    weight (n,): Weights of the contexts in the target population.
    residuals: The e residuals of votes and verdicts.
    scale (K, K): See :func:`dmlrank.estimation.one_step.pair_variance_scale`; None where no score has a variance
        correction.
    """

    scores: Mapping[EstimandName, Functional]
    data: PreferenceData
    blocks: InfluenceBlocks
    floor: float
    weight: FloatArray
    residuals: Residuals
    scale: FloatArray | None

    @property
    def interior(self) -> bool:
        """Whether any score needs a floor."""
        return any(score.interior for score in self.scores.values())

    def is_by_label(self, score: Functional) -> bool:
        """Whether the corrections of a score are sums of one derivative for each label, and need no other mu.

        A derivative for each label takes K numbers, one for each context K x K x C. Tables of benchmark scores, with
        K (K - 1) / 2 labels in a context, have so many labels that one derivative for each context costs less.
        """
        most = self.data.n_contexts * self.data.n_items * self.data.n_categories
        return score.pair_local and len(self.residuals.block) <= most

    def evaluate(self, part: ContextPart) -> tuple[dict[EstimandName, _ScorePart], int]:
        """Compute values in a part of the contexts, and the corrections that are not computed by label."""
        of_all_pairs = {name: score for name, score in self.scores.items() if not self.is_by_label(score)}
        by_label = {name: score for name, score in self.scores.items() if name not in of_all_pairs}
        values: dict[EstimandName, list[FloatArray]] = {name: [] for name in by_label}
        blocks: Iterable[tuple[slice, FloatArray]] = part.blocks()
        if of_all_pairs:
            probabilities = part.probabilities()
            blocks = [(slice(0, len(probabilities)), probabilities)]
        n_contexts_of_row, n_floored = np.bincount(part.place), 0
        evaluated: dict[EstimandName, _ScorePart] = {}
        for rows, unclipped in blocks:
            clipped = unclipped
            if self.interior:
                clipped, n_low = clip_and_count(unclipped, self.floor, n_contexts_of_row[rows])
                n_floored += n_low
            for name, score in by_label.items():
                values[name].append(score.value(clipped if score.interior else unclipped))
            for name, score in of_all_pairs.items():
                evaluated[name] = self._with_corrections(score, clipped if score.interior else unclipped, part)
        evaluated |= {name: _ScorePart(np.concatenate(of_rows)[part.place]) for name, of_rows in values.items()}
        return evaluated, n_floored

    def _with_corrections(self, score: Functional, mu: FloatArray, part: ContextPart) -> _ScorePart:
        """Compute values and corrections from mu at all pairs, (b, K, K, C), a few contexts at a time."""
        residuals, data = self.residuals, self.data
        pieces, added = list[tuple[FloatArray, IntArray, FloatArray]](), list[FloatArray]()
        for span in row_slices(len(part.contexts), data.n_items**2 * data.n_categories, CHUNK // _ARRAYS_PER_CHUNK):
            contexts, some_mu = part.contexts[span], mu[part.place[span]]
            rows, row_place = rows_of_contexts(residuals.context, contexts)
            block, block_place = rows_of_contexts(self.blocks.context, contexts)
            row_block, first, second = np.searchsorted(block, residuals.block[rows]), residuals.first, residuals.second
            if isinstance(score, RestrictedBradleyTerry):
                # Such scores use no verdicts, so that there is one residual for each entry of the blocks (the votes of
                # one block on one labelled cell), in the same order.
                value, share, change = score.by_label(some_mu, contexts, row_place, first[rows], second[rows])
                change *= (residuals.target[0][rows, 0] - share)[:, None]
                correction = np.zeros((len(block), change.shape[1]))
                np.add.at(correction, row_block, self.blocks.entry_share[rows][:, None] * change)
                pieces.append((value, block, correction))
                continue
            # The weighted residuals of each block as a direction in which mu changes.
            delta = np.zeros((len(block), *mu.shape[1:]))
            entry = (row_block * data.n_items + first[rows]) * data.n_items + second[rows]
            add_to_rows(delta.reshape(-1, data.n_categories), entry, residuals.weighted(rows, score.interior))
            if not data.ordered:
                delta += in_other_order(delta)
            one_block_each = len(block) == len(contexts)
            value, correction = score.value_and_derivative(some_mu if one_block_each else some_mu[block_place], delta)
            if not score.pair_local and has_variance_correction(score, data):
                assert self.scale is not None
                if not one_block_each:
                    of_blocks, delta = delta, np.zeros((len(contexts), *mu.shape[1:]))
                    np.add.at(delta, block_place, of_blocks)
                more = variance_correction(score, some_mu, delta, self.scale, self.weight[contexts])
                added.append(more / data.n_contexts)
            first_block = np.searchsorted(block_place, np.arange(len(contexts)))
            pieces.append((value[first_block], block, correction))
        values, blocks, corrections = zip(*pieces, strict=True)
        of_part = np.concatenate(values), np.concatenate(blocks), np.concatenate(corrections)
        return _ScorePart(*of_part, np.sum(added, axis=0) if added else None)

    def variance_correction_by_label(self, score: Functional) -> FloatArray:
        """Compute the variance correction, (d, d), of a score that needs mu at labelled and judged pairs only."""
        rows, total = self.residuals, np.zeros(())
        assert self.scale is not None
        for part in row_slices(len(rows.block), _ARRAYS_PER_CHUNK * self.data.n_categories, CHUNK):
            first, second = rows.first[part], rows.second[part]
            weight = self.scale[first, second] * self.weight[rows.context[part]] ** 2
            delta, pairs = rows.weighted(part, score.interior), (first, second, self.data.n_items)
            total = total + local_variance_correction(score, rows.mu[True][part], delta, weight, pairs)
        return total / self.data.n_contexts


def rows_of_contexts(context: IntArray, contexts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of b contexts in a table sorted by context, (r,), and the place of each row's context, (r,)."""
    start = np.searchsorted(context, contexts)
    count = np.searchsorted(context, contexts, side="right") - start
    place = np.repeat(np.arange(len(contexts)), count)
    return np.arange(count.sum()) + (start - (np.cumsum(count) - count))[place], place
