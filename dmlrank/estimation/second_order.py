r"""The second-order bias of curved scores that are learnt from features: estimated from the labels, and removed.

The one-step estimator of a curved functional keeps a bias of second order in the error of the fitted mu; that of
log-odds pulls the scores of extreme models to the middle. Propensities that are known do not remove it, and neither
does calibration of mu.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from operator import iadd
from typing import TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dtrtri
from scipy.special import logit

from .._utils.tasks_and_threads import in_workers, one_thread, trim_memory, warn
from ..data.arrays import RowRecord, row_slices
from ..data.columns import row_codes
from ..data.preferences import FloatArray, IntArray, PreferenceData
from ..exceptions import IntervalWarning, listed
from ..functionals import BradleyTerry, Functional
from .cross_fitting import CrossFittedMu, clip_and_renormalise
from .influence import AddedByLabel, CompressedInfluence, InfluenceFunction, OneStepInputs, OneStepResult, add_to_rows

# Contexts over which the curvature is averaged, in closed form and by differences, and features on which the error of
# mu may depend.
_N_CONTEXTS, _N_CONTEXTS_OF_OTHERS, _N_FEATURES = 400, 200, 5
# Groups of units for functionals whose curvature has no closed form. Contexts are fewer where a functional would get
# more than ``_CHEAP`` probabilities, and there is no estimate where there would be fewer than ``_FEWEST_CONTEXTS``.
_N_GROUPS, _FEWEST_CONTEXTS, _CHEAP = 10, 20, 1e8
# Largest standard error of u in standard errors of the scores, in the root mean square over scores. With more, the
# dictionary gets smaller, but for Bradley-Terry scores, whose noise is small. Below _ROUNDING u is rounding.
_LARGEST_NOISE, _ROUNDING = 0.75, 1e-10
# Standard deviations at which features are cut, so that no product of two features is an outlier.
_CUT = 3.0
# Columns of the dictionary for each labelled cell of a fold, at most. With more, the estimate is mostly noise.
_COLUMNS_PER_LABEL = 0.2
# A column is left out where less than this share of its norm lies beyond the columns before it.
_DEPENDENT = 1e-6
# Share of entries from which a product of a matrix with itself is faster if the matrix is not sparse.
_DENSE = 0.2
# Win shares of pairs that have no floor stay this far from 0 and 1.
_SMALLEST = 1e-6
# A fold is left out where pairs of labels of different units have less than this share of all pairs: next to all of its
# labels are those of one unit, whose own noise cannot be told from the error of mu.
_FEWEST_PAIRS = 0.1
# Labels show an error of mu along a product of three features where log-odds are wrong by this much in the root mean
# square, and the mean square is this many standard deviations from 0. At most so many coefficients are estimated.
_LARGEST_ERROR, _CERTAIN, _MOST_COLUMNS = 0.3, 5.0, 2000
# Entries of a table that are computed at a time, so that a few of them stay in cache; rows of a block of a matrix.
_ENTRIES, _BLOCK = 250_000, 512

# Numbers of the independent unit of each block, (q,), or label, (e,), with a sign: see :func:`second_order`.
Units: TypeAlias = Sequence[tuple[float, IntArray]]


@dataclass(frozen=True, slots=True, eq=False)
class SecondOrder:
    """The estimated second-order bias of d scores: what is added to the estimates to remove it.

    change (d,): u, which is added to the scores; the estimated bias is -u.
    correction (q, d): What is added to the correction of each influence block. The weighted sum over blocks is n u.
        Where influence values are those of kinds of contexts, it is the same for the labels of each kind.
    is_full: Whether the labels are enough for the full dictionary.
    """

    change: FloatArray
    correction: FloatArray | AddedByLabel
    is_full: bool

    def removed_from(self, result: OneStepResult) -> OneStepResult:
        """Return a one-step estimate with u added to the scores and to their influence values."""
        corrected: InfluenceFunction
        if isinstance(self.correction, AddedByLabel):
            assert isinstance(result.target, CompressedInfluence)
            estimate = result.target.estimate + self.change
            corrected = replace(result.target, added=self.correction, estimate=estimate)
        else:
            target = result.target.by_context()
            corrected = replace(target, correction=target.correction + self.correction)
        return replace(result, influences={**result.influences, "target": corrected})

    def influence(self, target: InfluenceFunction) -> InfluenceFunction:
        """Return u with its influence values, from the estimate to which it was added."""
        if isinstance(self.correction, AddedByLabel):
            assert isinstance(target, CompressedInfluence)
            return target.of_added(self.correction, self.change)
        whole = target.by_context()
        value = np.zeros_like(whole.value)
        return replace(whole, value=value, correction=self.correction, variance_correction=None)


@one_thread()
def second_order(
    functional: Functional, inputs: OneStepInputs, target: InfluenceFunction, units: Units
) -> SecondOrder | None:
    r"""Estimate the second-order bias of curved scores; None where the labels are too few for any dictionary.

    ``units`` are numbers of the independent unit of each block, (q,), with a sign. There is one entry where units are
    contexts or clusters. With two crossed kinds of clusters, labels depend on each other if they share one of either:
    the entries are both kinds, and their intersections with the sign -1.

    Notes
    -----
    Let d be the error of the fitted mu. On average, one step moves F(mu^) by its derivative along d, so that the
    estimate lacks, to second order,

        u = 1/2 E D2F(mu^)[d, d].

    Let s be the fitted win share of a pair, v = s (1 - s), and e the error of its log-odds, so that a label y has
    E(y - s) = v e to first order, and d = v e. For Bradley-Terry scores, F = sum_jk D_jk logit s_jk, this is u = E
    sum_jk D_jk (2 s_jk - 1) e_jk^2 / 2. The weights 2 s - 1 are bounded, and no propensity enters. For other scores
    second derivatives are differences of derivatives, or the functional's own. Scores that take more than win shares
    have a further part d for each category of ties, with the tie's share in place of s; wins of both models give way so
    that the win share stays.

    The error is expanded as e_jk = t(x)'(b_j - b_k) + c L_jk, with q functions t of the context: 1, the features that
    move mu most, their squares and cubes, and products of two; and with L the fitted log-odds, cut at 3, because a
    learner that shrinks does so wherever log-odds are large, also by features that t lacks. A tie is the same from both
    sides: there it is t(x)'(b_j + b_k) + c L_jk. The labels of a fold are independent of the mu that predicts the fold.
    With z the columns of a label's pair, b = H^-1 sum_i z_i (y_i - s_i) estimates the coefficients, where H is sum_i
    v_i z_i z_i' over all folds, scaled to the labels of one, plus the identity matrix. With b_i the term of unit i, w_i
    its share of the weight of the fold's labels, and M the mean over contexts of D2F along the fields v z of two
    columns,

        u = 1 / (1 - sum_i w_i^2) 1/2 {b'M b - sum_i b_i'M b_i},

    a sum over all pairs of different units of a fold, free of the labels' own noise, divided by the share of these
    pairs among all, which is (n - 1) / n for n units of one size. Units are contexts or clusters for Bradley-Terry
    scores, whose D2F has no terms of two pairs, and ten groups of them for others, where b_i'M b_i needs second
    derivatives along the field of each. M b needs those along the whole field and along each pair.

    M is averaged over contexts of all folds: those of the fold alone are the labels' own, and would give too large a u.
    The estimates of folds are averaged by their weight. The influence of a label on u is its derivative in the label's
    weight,

        1 / (1 - sum_i w_i^2) b'M H^-1 z_i (y_i - s_i - v_i z_i'b),

    to which 1/2 b'M H^-1 z_i v_i z_i'b is added as the label's part of u itself, so that groups of contexts get the
    part that comes from their labels. Pairs of units of which one is the label's own are not taken out of the
    derivative. There the residual stands twice, and its product with the residual in the one-step estimate is a third
    power, whose mean is against the sign of 2 s - 1: the sample covariance of u with the one-step estimate is too low.
    Over 200 samples of each of 19 simulators, the errors of the two for the best model had correlations of -0.04 to
    0.21. The covariance of the sum is therefore, direction by direction, at least the sum of both covariances
    (:meth:`dmlrank.inference.covariance.Covariance.at_least`).

    References
    ----------
    Robins, Li, Tchetgen Tchetgen and van der Vaart (2008), Higher order influence functions. Liu, Mukherjee, Newey and
    Robins, arXiv 1705.07577. Liu, Mukherjee and Robins, arXiv 1904.04276.
    """
    data, blocks, weight, mu = inputs.data, inputs.blocks, inputs.weight, inputs.mu
    assert isinstance(mu, CrossFittedMu)
    n, n_items, n_folds = data.n_contexts, data.n_items, len(mu.models)
    bt = functional if isinstance(functional, BradleyTerry) else None
    n_contexts = _N_CONTEXTS if bt else _affordable_contexts(functional, data, n_folds)
    if not n_contexts:
        return None
    # Equal contexts are evaluated once.
    place = row_codes(data.x[rows] for rows in row_slices(*data.x.shape))
    parts, distinct = Part.of(functional), np.unique(place, return_index=True)[1]
    contexts = np.argsort(data.seed_order)[:n_contexts]
    evaluated, at = np.unique(place[contexts], return_inverse=True)
    shares, tables, x = [], list[FloatArray](), data.x[distinct[evaluated]]
    for model in mu.models:
        # The probabilities of all categories are several times as large as the win shares.
        slices = row_slices(len(x), n_items**2 * data.n_categories)
        of_rows = (clip_and_renormalise(model.predict(x[rows]), inputs.floor) for rows in slices)
        if bt is None:
            lowest = _SMALLEST if functional.interior else 0.0
            tables.append(clip_and_renormalise(np.concatenate(list(of_rows)), lowest))
        shares.append(np.concatenate([parts[0].shares(table) for table in (of_rows if bt else tables[-1:])]))
    units = units if bt else _groups(data.seed_order[blocks.context], units)
    directions = np.empty(0)
    if bt is not None:
        # The weights of the two items sum to one, so that the term of a pair, logit s1 - logit s2, is twice logit s.
        # Where order does not matter, both orders of a pair have the same term, and one of them counts twice.
        of_pairs = 2.0 if data.ordered else 4 * np.triu(np.ones((n_items, n_items)))[..., None]
        directions = of_pairs * bt.label_directions(n_items)
    fold_weight = np.bincount(mu.folds.fold, weight, n_folds) / weight.sum()
    strongest = strongest_features(data, contexts, shares, at)
    n_labels, fold_of_entry = len(data.cells) / n_folds, mu.folds.fold[data.cells.context[blocks.entry_cell]]
    of_evaluated, estimated = np.bincount(at, weight[contexts]) / weight[contexts].sum(), None
    for number, (functions, is_full) in enumerate(dictionaries(data, strongest, n_labels, distinct, place)):
        labels = [Labels.of(inputs, part, functions, place) for part in parts]
        if not number:
            _warn_of_products(data, strongest, labels[0], distinct, place, fold_of_entry, units, n_labels)
            trim_memory(n)
        information = [one.information(n_items, one.variance) for one in labels]
        for one, of_part in zip(labels, information, strict=True):
            of_part /= one.weight.sum()
        of_votes, at_contexts = (labels, information, fold_of_entry, units), (functions[evaluated], of_evaluated)
        task = _Task(functional, data.ordered, *of_votes, shares if bt else tables, directions, *at_contexts)
        trim_memory(n)
        change, found, folds = np.zeros(target.n_scores), [], np.unique(fold_of_entry).tolist()
        for fold, of_fold in zip(folds, in_workers(_Task.in_fold, task, folds, name="second order"), strict=True):
            if of_fold is not None:
                share_of_pairs, u, *by_label = of_fold
                factor = fold_weight[fold] / share_of_pairs
                change += factor * u
                found.append((np.flatnonzero(fold_of_entry == fold), n * factor, *by_label))
        trim_memory(n)
        # What the labels have beyond u is their own noise, which was taken out of u. It is spread over the labels.
        n_labels_of_blocks = weight[blocks.context] @ blocks.weight
        if bt is not None and isinstance(target, CompressedInfluence):
            added = _added_by_kind(target, labels[0], functions[place[target.kinds.table_context]], found)
            excess = n * (target.of_added(added, change).mean_correction() - change)
            return SecondOrder(change, replace(added, shift=-excess / n_labels_of_blocks), is_full)
        correction = np.zeros((len(blocks.context), target.n_scores))
        for rows, factor, solved, left in found:
            for one, columns, of_labels in zip(labels, solved, left, strict=True):
                mine = one.only(rows)
                add_to_rows(correction, mine.block, mine.values(columns) * (factor * of_labels)[:, None])
        excess = weight[blocks.context] @ correction - n * change
        correction -= blocks.weight[:, None] * (excess / n_labels_of_blocks)
        estimated = SecondOrder(change, correction, is_full)
        if bt is not None:
            return estimated
        noise, of_scores = (one.power_sums()[0] for one in (estimated.influence(target), target))
        relative = float(np.mean(noise / np.where(of_scores > 0, of_scores, np.inf)))
        if relative <= _LARGEST_NOISE**2:
            # Differences of a function that is linear, though nobody said so, are rounding.
            return estimated if relative > _ROUNDING else None
    return estimated


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """The estimate of u in each fold, with the inputs that folds share.

    labels, information: Of each part; the information is scaled to labels of weight one.
    fold_of_entry (e,): Fold of each label.
    units: See :func:`second_order`.
    tables: By fold, win shares in the b contexts, (b, K, K), or probabilities, (b, K, K, C).
    directions (K, K, d): Those of Bradley-Terry scores, whose u has a closed form; empty for others.
    functions (b, q), weight (b,): Of the contexts.
    """

    functional: Functional
    ordered: bool
    labels: list[Labels]
    information: list[FloatArray]
    fold_of_entry: IntArray
    units: Units
    tables: list[FloatArray]
    directions: FloatArray
    functions: FloatArray
    weight: FloatArray

    def in_fold(self, fold: int) -> tuple[float, FloatArray, list[FloatArray], list[FloatArray]] | None:
        """Return the share of pairs of different units, u before the division by it, and what labels add, by part.

        A label adds z'H^-1 M b, of which H^-1 M b is returned, (K q + 1, d), times a number, (e,). None where nearly
        all labels are those of one unit.
        """
        rows, table = np.flatnonzero(self.fold_of_entry == fold), self.tables[fold]
        labels, n_items = [one.only(rows) for one in self.labels], table.shape[1]
        units = [(sign, unit[labels[0].block]) for sign, unit in self.units]
        share_of_pairs, size = labels[0].share_of_pairs(units), float(labels[0].weight.sum())
        if share_of_pairs < _FEWEST_PAIRS:
            return None
        known = zip(labels, self.information, strict=True)
        errors = [ErrorOfMu.of(one, information * size, n_items) for one, information in known]
        if len(self.directions):
            of_contexts = self.functions, self.weight, self.directions
            u, *gradients = errors[0].curvature(labels[0], units, table, *of_contexts)
        else:
            u, gradients = self.curvature(table, labels, errors, units)
        solved, left = list[FloatArray](), list[FloatArray]()
        for one, error, gradient in zip(labels, errors, gradients, strict=True):
            solved.append(error.solve(gradient))
            left.append(one.residual - one.variance * one.values(error.coefficients[:, None])[:, 0] / 2)
        return share_of_pairs, u, solved, left

    def curvature(
        self, table: FloatArray, labels: Sequence[Labels], errors: Sequence[ErrorOfMu], groups: Units
    ) -> tuple[FloatArray, list[FloatArray]]:
        """Return u of any functional, (d,), before the division by the share of pairs, and M b, (K q + 1, d), by part.

        Shapes: table (b, K, K, C).
        """
        n_items, columns, changes = table.shape[1], [], []
        for one in labels:
            share = one.part.shares(table)
            columns.append(one.as_column(share))
            variance = share * (1 - share) * (1 - np.eye(n_items))
            changes.append(variance[..., None] * one.part.direction)

        def direction(coefficients: Sequence[FloatArray]) -> FloatArray:
            """Return how mu changes with the coefficients of the parts, (b, K, K, C)."""
            total: FloatArray = np.zeros(())
            for one, b, column, way in zip(labels, coefficients, columns, changes, strict=True):
                of_item = self.functions @ b[:-1].reshape(n_items, -1).T
                error = of_item[:, :, None] + one.part.sign * of_item[:, None, :] + b[-1] * column
                total = total + error[..., None] * way
            return total

        total = direction([error.coefficients for error in errors])
        own = np.zeros(())
        for sign, group in groups:
            terms = [error.terms(one, group, n_items) for one, error in zip(labels, errors, strict=True)]
            for of_parts in zip(*terms, strict=True):
                along = direction(of_parts)
                own = own + sign * (self.weight @ self.functional.second_derivative(table, along, along))
        first, second = np.nonzero(~np.eye(n_items, dtype=bool)) if self.ordered else np.triu_indices(n_items, 1)
        pairs = np.tile(first, len(labels)), np.tile(second, len(labels))
        slopes = np.stack(
            [
                self.functional.second_derivative_along(
                    at, np.concatenate([way[x, first, second] for way in changes]), along, *pairs, ordered=self.ordered
                )
                for x, (at, along) in enumerate(zip(table, total, strict=True))
            ]
        )
        slopes = (slopes * self.weight[:, None, None]).reshape(len(table), len(labels), len(first), -1)
        gradients = []
        for one, column, slope in zip(labels, columns, slopes.transpose(1, 0, 2, 3), strict=True):
            of_pair = np.einsum("xpd,xq->pqd", slope, self.functions, optimize=True)
            by_item = np.zeros((n_items, *of_pair.shape[1:]))
            np.add.at(by_item, first, of_pair)
            np.add.at(by_item, second, one.part.sign * of_pair)
            of_column = np.einsum("xpd,xp->d", slope, column[:, first, second])
            gradients.append(np.concatenate([by_item.reshape(-1, slope.shape[2]), of_column[None]]))
        known = zip(errors, gradients, strict=True)
        return (sum(error.coefficients @ gradient for error, gradient in known) - own) / 2, gradients


def _added_by_kind(
    target: CompressedInfluence,
    labels: Labels,
    functions: FloatArray,
    found: Sequence[tuple[IntArray, float, list[FloatArray], list[FloatArray]]],
) -> AddedByLabel:
    """Return what labels add to u where each kind of contexts has one sum, with no shift; shapes: functions (T, q)."""
    kinds, (n_tables, d), q = target.kinds, target.by_table.shape, functions.shape[1]
    amount, n_items = np.zeros(len(labels.residual)), target.mu.shape[1]
    of_items, of_column = np.zeros((n_tables, n_items, d)), np.zeros((n_tables, d))
    for rows, factor, (columns,), (left,) in found:
        amount[rows] = factor * left
        tables = np.unique(kinds.table[kinds.kind[labels.block[rows]]])
        of_items[tables] = (functions[tables] @ columns[:-1].reshape(n_items, q, d)).transpose(1, 0, 2)
        of_column[tables] = columns[-1]
    at = kinds.representative
    return AddedByLabel(of_items, of_column, amount[at], labels.log_odds[at], np.zeros(d))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A linear function of the categories of a pair whose error is expanded in the dictionary.

    worth (C,): The function: the worth of each category to the item shown first, or the indicator of a tie.
    direction (C,): How the categories change where the part grows by one and other parts stay.
    sign: -1 where exchanging the items turns the error of the log-odds round, 1 where it leaves it.
    """

    worth: FloatArray
    direction: FloatArray
    sign: int

    @classmethod
    def of(cls, functional: Functional) -> list[Part]:
        """Return the win share and, where the functional takes more than win shares, every category of ties."""
        worth = np.array(functional.category_weights.first)
        of_wins = np.eye(len(worth))[0] - np.eye(len(worth))[1]
        parts, spread = [cls(worth, of_wins / (worth[0] - worth[1]), -1)], worth[0] - worth[1]
        for tie in [] if functional.uses_shares else np.eye(len(worth))[2:]:
            # Wins of the two items give way so that the win share stays.
            less = np.eye(len(worth))[1] + (worth @ tie - worth[1]) / spread * of_wins
            parts.append(cls(tie, tie - less, 1))
        return parts

    def shares(self, probabilities: FloatArray) -> FloatArray:
        """Return the part at all pairs, (b, K, K), from probabilities, (b, K, K, C); 1/2 on the diagonal."""
        # Sums depend on the layout of an array, and models that were read from a file have another one.
        shares = np.ascontiguousarray(np.clip(probabilities @ self.worth, _SMALLEST, 1 - _SMALLEST))
        items = np.arange(shares.shape[1])
        shares[:, items, items] = 0.5
        return shares


@dataclass(frozen=True, slots=True, eq=False)
class Labels(RowRecord):
    """Labels from which the error of mu is estimated: e entries, the votes of a block on a labelled cell.

    part: The part of the categories that the labels are about.
    functions (m, q): The functions t of all different contexts.
    context, first, second, block (e,): Number of the different context, items and influence block of each entry.
    residual, variance (e,): y - s and v = s (1 - s), times the share.
    weight (e,): Weight of the context in the target population.
    share (e,): The block's share of the cell's votes.
    log_odds (e,): The fitted log-odds, cut, divided by their root mean square over all labels, which is ``scale``.
    """

    part: Part
    functions: FloatArray
    context: IntArray
    first: IntArray
    second: IntArray
    block: IntArray
    residual: FloatArray
    variance: FloatArray
    weight: FloatArray
    share: FloatArray
    log_odds: FloatArray
    scale: float
    shared = ("part", "functions", "scale")

    @classmethod
    def of(cls, inputs: OneStepInputs, part: Part, functions: FloatArray, place: IntArray) -> Labels:
        """Return the labels of a fit beside mu out of fold; ``place``, (n,), numbers the different contexts."""
        cells, blocks, worth = inputs.data.cells, inputs.blocks, part.worth
        cell = slice(None) if blocks.one_per_context else blocks.entry_cell
        fitted = clip_and_renormalise(inputs.mu.at(cells), inputs.floor) @ worth
        fitted = np.clip(fitted, _SMALLEST, 1 - _SMALLEST)[cell]
        log_odds = np.clip(logit(fitted), -_CUT, _CUT)
        scale = float(np.sqrt(np.square(log_odds).mean())) or 1.0
        return cls(
            part=part,
            functions=functions,
            context=place[cells.context[cell]],
            first=cells.first[cell],
            second=cells.second[cell],
            block=blocks.entry_block,
            residual=(blocks.entry_y @ worth - fitted) * blocks.entry_share,
            variance=fitted * (1 - fitted) * blocks.entry_share,
            weight=inputs.weight[cells.context[cell]],
            share=blocks.entry_share,
            log_odds=log_odds / scale,
            scale=scale,
        )

    def share_of_pairs(self, units: Units) -> float:
        """Return the share of pairs of entries, by weight, that are of different units."""
        sizes = ((sign, np.bincount(unit, self.weight * self.share)) for sign, unit in units)
        return 1 - sum(sign * float(np.square(size / size.sum()).sum()) for sign, size in sizes)

    def as_column(self, share: FloatArray) -> FloatArray:
        """Return the column of fitted log-odds at win shares."""
        return np.asarray(np.clip(logit(share), -_CUT, _CUT) / self.scale)

    def by_pair(self, n_items: int) -> Iterator[tuple[int, int, IntArray]]:
        """Yield both items and the rows of each ordered pair with labels."""
        code = self.first * n_items + self.second
        order = np.argsort(code, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
            yield int(self.first[rows[0]]), int(self.second[rows[0]]), rows

    def information(self, n_items: int, v: FloatArray) -> FloatArray:
        """Return the weighted sum of v z z', (K q + 1, K q + 1), for v, (e,)."""
        q, v = self.functions.shape[1], self.weight * v
        information = np.zeros((n_items * q + 1, n_items * q + 1))
        total = information[:-1, :-1].reshape(n_items, q, n_items, q)
        for j, k, rows in self.by_pair(n_items):
            t = self.functions[self.context[rows]]
            product = t.T @ (v[rows, None] * t)
            for one, other, sign in ((j, j, 1), (k, k, 1), (j, k, self.part.sign), (k, j, self.part.sign)):
                total[one, :, other] += sign * product
        information[-1] = information[:, -1] = self.sums(v * self.log_odds, n_items)
        return information

    def sums(self, amount: FloatArray, n_items: int) -> FloatArray:
        """Return the sum of z times amounts, (K q + 1,), for amounts (e,)."""
        of_items = [
            np.bincount(self.first, of_function, n_items)
            + self.part.sign * np.bincount(self.second, of_function, n_items)
            for of_function in (amount * t[self.context] for t in self.functions.T)
        ]
        return np.append(np.stack(of_items, axis=1).ravel(), amount @ self.log_odds)

    def scores(self, unit: IntArray, n_items: int, n_units: int) -> sparse.csr_array:
        """Return the weighted sums of z (y - s) by unit, (units, K q + 1); ``unit``, (e,), numbers units from 0."""
        q = self.functions.shape[1]
        residual = (self.weight * self.residual)[:, None]
        amount = residual * self.functions[self.context]
        places = [item[:, None] * q + np.arange(q) for item in (self.first, self.second)]
        place = np.concatenate([*places, np.full_like(residual, n_items * q, dtype=int)], axis=1)
        amounts = np.concatenate([amount, self.part.sign * amount, residual * self.log_odds[:, None]], axis=1)
        entries = amounts.ravel(), (np.repeat(unit, 2 * q + 1), place.ravel())
        return sparse.csr_array(entries, shape=(n_units, n_items * q + 1))

    def squares(self, sign: float, unit: IntArray, n_items: int) -> FloatArray:
        """Return the sum over units, (e,), of products of their sums of z (y - s), (K q + 1, K q + 1), with a sign."""
        distinct, number = np.unique(unit, return_inverse=True)
        if len(distinct) == len(unit):
            return self.information(n_items, sign * self.weight * np.square(self.residual))
        scores = self.scores(number.reshape(-1), n_items, len(distinct))
        if scores.nnz > _DENSE * scores.shape[0] * scores.shape[1]:
            dense = scores.toarray()
            return np.asarray(sign * (dense.T @ dense))
        return np.asarray(sign * (scores.T @ scores).toarray())

    def values(self, coefficients: FloatArray) -> FloatArray:
        """Return z'b of each entry, (e, d), for coefficients (K q + 1, d)."""
        q, d = self.functions.shape[1], coefficients.shape[1]
        of_item = coefficients[:-1].reshape(-1, q, d)
        values = self.log_odds[:, None] * coefficients[-1]
        for j, k, rows in self.by_pair(len(of_item)):
            values[rows] += self.functions[self.context[rows]] @ (of_item[j] + self.part.sign * of_item[k])
        return values


@dataclass(frozen=True, slots=True, eq=False)
class ErrorOfMu:
    """The error of a part of mu in one fold, as the labels of this fold show it.

    coefficients (K q + 1,): b, and last c.
    root: The inverse of the Cholesky factor of H, lower triangular: H^-1 is the product of its transpose with it.
    """

    coefficients: FloatArray
    root: FloatArray

    @classmethod
    def of(cls, labels: Labels, information: FloatArray, n_items: int) -> ErrorOfMu:
        """Regress the residuals of labels on the dictionary, with a ridge of one on columns of unit scale.

        ``information`` is overwritten.
        """
        information.flat[:: len(information) + 1] += 1
        # numpy's functions, unlike scipy's, let other threads compute; the transpose is in LAPACK's order.
        root = dtrtri(np.linalg.cholesky(information).T, lower=0, overwrite_c=1)[0].T
        return cls(root.T @ (root @ labels.sums(labels.weight * labels.residual, n_items)), root)

    def solve(self, right: FloatArray) -> FloatArray:
        """Return H^-1 times columns, (K q + 1, d)."""
        return self.root.T @ (self.root @ right)

    def terms(self, labels: Labels, group: IntArray, n_items: int) -> FloatArray:
        """Return the terms of groups of entries, (groups, K q + 1), whose sum is b; ``group``, (e,), numbers them."""
        scores = labels.scores(group, n_items, int(group.max()) + 1)
        return self.solve(scores.toarray().T).T

    def noise(self, labels: Labels, units: Units, n_items: int) -> FloatArray:
        """Return the sum of b_i b_i' over independent units i, (K q + 1, K q + 1), c_i among b_i."""
        noise = reduce(iadd, (labels.squares(sign, unit, n_items) for sign, unit in units))
        _sandwich(self.root, noise, is_lower=True)
        _sandwich(self.root.T, noise, is_lower=False)
        return noise

    def curvature(
        self,
        labels: Labels,
        units: Units,
        share: FloatArray,
        functions: FloatArray,
        weight: FloatArray,
        directions: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return u of Bradley-Terry scores in closed form, (d,), before the division by the share of pairs, and M b.

        Shapes: share (b, K, K), functions (b, q), weight (b,), directions (K, K, d), returns (d,), (K q + 1, d).
        """
        n_items, q, d = share.shape[1], functions.shape[1], directions.shape[2]
        of_noise, t = self.noise(labels, units, n_items), functions
        of_items, of_column = of_noise[:-1, :-1].reshape(n_items, q, n_items, q), of_noise[-1, :-1].reshape(n_items, q)
        by_item, own = self.coefficients[:-1].reshape(n_items, q), np.einsum("jajb->jab", of_items)
        of_pair, of_change, of_slope = np.zeros((n_items, n_items, q)), *np.zeros((2, n_items, n_items))
        squares, pairs = (t[:, :, None] * t[:, None, :]).reshape(len(t), -1), np.nonzero(directions.any(axis=2))
        for block in row_slices(len(pairs[0]), max(len(t), q**2), _ENTRIES):
            j, k = pairs[0][block], pairs[1][block]
            of_block = share[:, j, k]
            column, curve = labels.as_column(of_block), (2 * of_block - 1) * weight[:, None]
            error = t @ (by_item[j] - by_item[k]).T + self.coefficients[-1] * column
            # Of the log-odds' coefficient, and twice its covariance with the others.
            variance = column * (2 * (t @ (of_column[j] - of_column[k]).T) + of_noise[-1, -1] * column)
            crossed = of_items[j, :, k]
            noise = (own[j] + own[k] - crossed - crossed.transpose(0, 2, 1)).reshape(len(j), -1)
            of_change[j, k] = (curve * (np.square(error) - variance)).sum(axis=0)
            of_change[j, k] -= ((curve.T @ squares) * noise).sum(axis=1)
            curve *= error
            of_pair[j, k], of_slope[j, k] = curve.T @ t, (curve * column).sum(axis=0)
        u, slope = np.tensordot(of_change, directions) / 2, np.tensordot(of_slope, directions)
        gradient = of_pair.transpose(0, 2, 1) @ directions
        gradient -= of_pair.transpose(1, 2, 0) @ directions.transpose(1, 0, 2)
        return u, np.concatenate([gradient.reshape(-1, d), slope[None]])


def _sandwich(outer: FloatArray, middle: FloatArray, *, is_lower: bool) -> None:
    """Put outer @ middle @ outer.T, for a triangular and a symmetric matrix, in the place of the symmetric one."""
    blocks = [*row_slices(len(middle), 1, _BLOCK)]
    # A block of rows needs no row or column of the blocks that are done.
    for rows in reversed(blocks) if is_lower else blocks:
        used = slice(0, rows.stop) if is_lower else slice(rows.start, None)
        product = outer[rows, used] @ middle[used, used] @ outer[used, used].T
        middle[rows, used], middle[used, rows] = product, product.T


def _groups(order: IntArray, units: Units) -> Units:
    """Deal the units of blocks to groups by the first of their contexts, which does not depend on the order of rows.

    Shapes: order (q,), the number of each block's context.
    """
    groups = []
    for _, unit in units[:2]:
        number = np.unique(unit, return_inverse=True)[1].reshape(-1)
        first = np.full(int(number.max()) + 1, order.max())
        np.minimum.at(first, number, order)
        groups.append(first[number] % _N_GROUPS)
    if len(units) > 2:
        groups.append(groups[0] * _N_GROUPS + groups[1])
    return [(sign, group) for (sign, _), group in zip(units, groups, strict=True)]


def _affordable_contexts(functional: Functional, data: PreferenceData, n_folds: int) -> int:
    """Return over how many contexts the curvature of a functional is averaged; 0 where it would take too long."""
    if functional.has_fast_pairs:
        return _N_CONTEXTS_OF_OTHERS
    n_directions = (data.n_categories - 1) * data.n_items * (data.n_items - 1) // (1 if data.ordered else 2)
    n_contexts = int(_CHEAP // (4 * n_directions * n_folds * data.n_items**2 * data.n_categories))
    return min(_N_CONTEXTS_OF_OTHERS, n_contexts) if n_contexts >= _FEWEST_CONTEXTS else 0


def strongest_features(
    data: PreferenceData, contexts: IntArray, shares: Sequence[FloatArray], at: IntArray
) -> IntArray:
    """Return the features that with their squares explain the fitted strengths best, the best first.

    Shapes: contexts (c,), shares (b, K, K), at (c,), the place of each context.
    """
    strength = np.mean([(np.log(share) - np.log1p(-share)).mean(axis=2) for share in shares], axis=0)[at]
    x = np.ascontiguousarray(data.x[contexts], float)
    varies = np.flatnonzero(
        [np.ptp(column[~np.isnan(column)]) > 0 if (~np.isnan(column)).any() else 0 for column in x.T]
    )
    strength, explained = strength - strength.mean(axis=0), []
    for z in _standardised(x[:, varies]).T:
        basis = np.column_stack([z, z**2])
        basis -= basis.mean(axis=0)
        explained.append(np.square(basis @ np.linalg.lstsq(basis, strength, rcond=None)[0]).sum())
    return varies[np.argsort(-np.array(explained), kind="stable")[:_N_FEATURES]]


def dictionaries(
    data: PreferenceData, strongest: IntArray, n_labels: float, distinct: IntArray, place: IntArray
) -> Iterator[tuple[FloatArray, bool]]:
    """Yield functions of the m different contexts, (m, q), of which a fold has labels enough, and whether they are all.

    They are 1, the features that move the fitted win shares most, their squares and cubes, and products of two of them,
    without columns that depend linearly on those before them. Products are left out first, then powers, then features;
    nothing is yielded where labels are too few even for one number per item.

    Shapes: distinct (m,), one context of each; place (n,), the number of each context among these.
    """
    x = _standardised(np.ascontiguousarray(data.x[:, np.sort(strongest)], float))[distinct]
    root, n_cells = np.sqrt(np.bincount(place))[:, None], np.bincount(place[data.cells.context], minlength=len(x))
    first, second = np.triu_indices(x.shape[1], 1)
    parts = [np.ones((len(x), 1)), x, np.hstack([x**2, x**3]), x[:, first] * x[:, second]]
    for n_parts in range(len(parts), 0, -1):
        functions = np.hstack(parts[:n_parts])
        # Powers and products of dummy variables repeat what stands before them.
        beyond = np.abs(np.diag(np.linalg.qr(root * functions, mode="r")))
        functions = functions[:, : len(beyond)]
        functions = functions[:, beyond > _DEPENDENT * np.sqrt(np.square(root * functions).sum(axis=0))]
        if functions.shape[1] * data.n_items <= _COLUMNS_PER_LABEL * n_labels:
            scale = np.sqrt(n_cells @ np.square(functions) / n_cells.sum())
            yield functions / np.where(scale > 0, scale, 1.0), n_parts == len(parts)


def _warn_of_products(
    data: PreferenceData,
    strongest: IntArray,
    labels: Labels,
    distinct: IntArray,
    place: IntArray,
    fold_of_entry: IntArray,
    units: Units,
    n_labels: float,
) -> None:
    """Warn where labels show that mu misses how three features act together, which the dictionary does not have.

    With t what the dictionary leaves of a product of three features, and e_jk = t(x) (b_j - b_k), the mean of v e_jk^2
    is b'H b less the labels' own noise, as in u; its standard deviation where e is 0 follows from the noise.
    """
    n_items, q = data.n_items, int(min(_COLUMNS_PER_LABEL * n_labels, _MOST_COLUMNS) // data.n_items)
    triples = [*combinations(range(len(strongest)), 3)][:q]
    if not triples:
        return
    x, known = _standardised(np.ascontiguousarray(data.x[:, strongest], float))[distinct], labels.functions
    products, count = np.stack([x[:, triple].prod(axis=1) for triple in triples], axis=1), np.bincount(place)
    size, counted = count @ np.square(products), count[:, None] * known
    products -= known @ np.linalg.lstsq(counted.T @ known, counted.T @ products, rcond=None)[0]
    left = count @ np.square(products)
    new = np.flatnonzero(left > _DEPENDENT * size)
    if not len(new):
        return
    labels = replace(labels, functions=products[:, new] / np.sqrt(left[new] / len(place)))
    information = labels.information(n_items, labels.variance) / labels.weight.sum()
    shared, folds = (labels, information, fold_of_entry, units, n_items), np.unique(fold_of_entry).tolist()
    found, noise, total, n_estimated = np.zeros(len(new)), np.zeros(len(new)), 0.0, 0
    for of_fold in in_workers(_along_products, shared, folds, name="products of features"):
        if of_fold is not None:
            found, noise, total = found + of_fold[0], noise + of_fold[1], total + of_fold[2]
            n_estimated += n_items
    worst = int(found.argmax())
    deviation = noise[worst] * np.sqrt(2 / max(n_estimated, 1))
    if found[worst] > max(_LARGEST_ERROR**2 * total, _CERTAIN * deviation):
        columns = set(strongest[list(triples[new[worst]])].tolist())
        names = [name for name, places in data.feature_map.terms.items() if not columns.isdisjoint(places)]
        warn(
            f"held-out labels show that the fitted probabilities miss how {listed(names)} act together: along the "
            f"product of the three, log-odds are wrong by {np.sqrt(found[worst] / total):.2f} in the root mean square, "
            f"where {_LARGEST_ERROR:g} hardly matters. Intervals of this functional, which is curved, may cover far "
            f"too seldom. Add the product, {':'.join(names)}, to the formula, or use functional='borda', which is "
            f"linear",
            kind=IntervalWarning,
        )


def _along_products(
    shared: tuple[Labels, FloatArray, IntArray, Units, int], fold: int
) -> tuple[FloatArray, FloatArray, float] | None:
    """Return b'H b less the noise of a fold's labels, this noise, by product, and the weighted sum of v."""
    of_all, information, fold_of_entry, of_blocks, n_items = shared
    labels = of_all.only(np.flatnonzero(fold_of_entry == fold))
    units = [(sign, unit[labels.block]) for sign, unit in of_blocks]
    share_of_pairs = labels.share_of_pairs(units)
    if share_of_pairs < _FEWEST_PAIRS:
        return None
    known = information * labels.weight.sum()
    error = ErrorOfMu.of(labels, known.copy(), n_items)
    b, by_product = error.coefficients[:-1].reshape(n_items, -1), (n_items, labels.functions.shape[1]) * 2
    known, own = (part[:-1, :-1].reshape(by_product) for part in (known, error.noise(labels, units, n_items)))
    found, noise = np.einsum("jt,jtkt,kt->t", b, known, b), np.einsum("jtkt,jtkt->t", known, own)
    return (found - noise) / share_of_pairs, noise, float(labels.weight @ labels.variance)


def _standardised(x: FloatArray) -> FloatArray:
    """Return features with mean 0 and standard deviation 1, cut; 0 for what is missing or constant."""
    # Squares of very large or small numbers would leave the range of floating point.
    size = np.nanmax(np.abs(x), axis=0, initial=0.0)
    x = x / np.where(size > 0, size, 1.0)
    deviation = np.nanstd(x, axis=0)
    z = (x - np.nanmean(x, axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return np.clip(np.nan_to_num(z), -_CUT, _CUT)
