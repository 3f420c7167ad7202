"""Probability of each ordered pair to be the one that a context shows: a conditional logit, refined by boosted trees.

These probabilities are called shares, because they are the pairs' shares among the pairs shown. They need data with at
most one labelled pair per context.

In the conditional logit, every item has an effect u(x) on being shown at all, and an effect w(x) on being shown first
instead of second. Both are linear combinations of a constant and of smooth columns of the features, see
:class:`dmlrank.nuisance.smooth.SmoothBasis`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from math import lcm
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .._utils.tasks_and_threads import current, in_order, product, report, rows_of_a_product, transposed_product
from ..data.arrays import row_slices
from ..data.columns import row_codes
from ..data.preferences import FloatArray, IntArray, PreferenceData
from .all_pairs.predict import PairTrees, predict_all_pairs
from .boosting import BinnedPairs
from .effects_and_trees import BoostingStage, EffectsAndTrees, FoldEffects, TunedEffects
from .smooth import Design, PenalisedLikelihood, SmoothBasis, column_sums, with_constant
from .training_rows import FoldCells, LabelledRows, labelled_cells, ordered_cells

if TYPE_CHECKING:
    import lightgbm as lgb


# Prior precision of the effects w relative to the prior precision of the effects u: unless the data say otherwise,
# features hardly influence whether an item is shown first or second.
_PLACE_PRECISION = 10.0
# Prior precision of the constants relative to the prior precision of the curves: the prior hardly restricts how often
# an item is shown on average.
_CONSTANT_PRECISION = 0.1
# Largest number of entries of an array (rows, 2 K): the rows are processed in chunks of this size.
_CHUNK_SIZE = 250_000
# A likelihood is computed on several threads if a product over all rows takes at least this many multiplications.
_PARALLEL_FROM = 100_000_000
# Far from the optimum, sums over pairs can underflow; zeros are replaced by this number.
_TINY = np.finfo(float).tiny


@dataclass(frozen=True, slots=True, eq=False)
class PairChoiceEffects:
    r"""Probability of every ordered pair to be the one that a context shows.

    .. math:: \rho_{jk}(x) = \frac{\bar\rho_{jk} e^{a_j(x) + b_k(x)}}
              {\sum_{l \ne m} \bar\rho_{lm} e^{a_l(x) + b_m(x)}}

    The effect of an item is a = u + w where the item is shown first, and b = u - w where it is shown second.

    share (K, K): Overall shares rho bar, positive off the diagonal and zero on it.
    first, second (1 + q, K): Coefficients of a (items shown first) and of b (items shown second) in a constant and the
        q smooth columns.
    """

    share: FloatArray
    first: FloatArray
    second: FloatArray

    @property
    def importance(self) -> FloatArray:
        """Sum of the squared coefficients of each smooth column, (q,)."""
        return np.asarray((np.square(self.first[1:]) + np.square(self.second[1:])).sum(axis=1))

    def loss(self, rows: LabelledRows) -> float:
        """Return the log-loss: minus the sum of the log shares of the pairs shown."""
        shown = np.arange(len(rows))
        return -float(self.log_at(rows.table, rows.first, rows.second, shown, rows.context).sum())

    def log_at(
        self, columns: FloatArray, first: IntArray, second: IntArray, row: IntArray, context: IntArray | None = None
    ) -> FloatArray:
        """Return the log shares of r ordered pairs, (r,), each in one of m rows with smooth columns.

        Shapes: columns (n, q), context (m,): the place of each row's columns, by default the m rows are ``columns``.
        """
        context = np.arange(len(columns)) if context is None else context
        score = np.log(self.share[first, second])
        by_row = np.argsort(row, kind="stable")
        # The bits of a product depend on the place of a row in its block.
        step = lcm(rows_of_a_product(self.first[1:]), rows_of_a_product(self.share))
        for block in row_slices(len(context), max(columns.shape[1], len(self.share)), multiple_of=step):
            of_first, of_second = self._item_effects(columns[context[block]])
            a, b, maxima = _exponentials(of_first, of_second)
            log_total = maxima + np.log(np.maximum((product(a, self.share) * b).sum(axis=1), _TINY))
            pairs = by_row[slice(*np.searchsorted(row[by_row], [block.start, block.stop]))]
            place = row[pairs] - block.start
            effects = of_first[place, first[pairs]] + of_second[place, second[pairs]]
            score[pairs] = effects + score[pairs] - log_total[place]
        return score

    def table(self, columns: FloatArray) -> FloatArray:
        """Return shares of all pairs that are not normalised, (n, K, K): within a context, only their ratios matter."""
        a, b, _ = _exponentials(*self._item_effects(columns))
        shares = a[:, :, None] * b[:, None, :]
        shares *= self.share
        return shares

    def _item_effects(self, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the effects a and b of all items, (n, K) each."""
        return product(columns, self.first[1:]) + self.first[0], product(columns, self.second[1:]) + self.second[0]


def _exponentials(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return exp(a - max a) and exp(b - max b) by row, (n, K) each, and max a + max b, (n,)."""
    max_a, max_b = a.max(axis=1), b.max(axis=1)
    return np.exp(a - max_a[:, None]), np.exp(b - max_b[:, None]), max_a + max_b


def pair_shares(first: IntArray, second: IntArray, n_items: int, prior: float) -> FloatArray:
    """Estimate the overall shares of the ordered pairs, (K, K), shrunk towards products of their items' shares."""
    count = np.zeros((n_items, n_items))
    np.add.at(count, (first, second), 1.0)
    # Half an observation is added to how often each item is shown first, and to how often it is shown second.
    # Therefore, also a pair that was never shown has a positive share.
    independent = np.outer(count.sum(axis=1) + 0.5, count.sum(axis=0) + 0.5)
    np.fill_diagonal(independent, 0.0)
    count += prior * n_items * (n_items - 1) * independent / independent.sum()
    return np.asarray(count / count.sum())


class PairChoiceLikelihood(PenalisedLikelihood[PairChoiceEffects]):
    """The log-likelihood of rows that show one pair each, as a function of the effects u and w of the items.

    The search works on a flat vector of the coefficients (1 + q, 2 K), in which the K columns of u stand before the K
    columns of w. The effects have constants beside the overall shares: shares are not linear in the effects, so that
    even curves with mean zero change the average shares.

    design (d, 1 + q): Distinct rows of a constant and the smooth columns; the sum over all pairs depends on them alone.
    count (d,): Number of training rows with these columns.
    gradient_of_shown (1 + q, 2 K): Gradient of the part of the log-likelihood that is linear in the coefficients.

    References
    ----------
    McFadden (1974), Conditional logit analysis of qualitative choice behavior.
    """

    def __init__(self, rows: LabelledRows, share: FloatArray) -> None:
        self.share, n_items, design = share, len(share), Design(rows.table, rows.context)
        penalty = np.ones((design.shape[1], 2 * n_items))
        penalty[0] = _CONSTANT_PRECISION
        penalty[:, n_items:] *= _PLACE_PRECISION
        rate = share.sum(axis=0) + share.sum(axis=1)
        squares = column_sums(design, lambda rows: np.square(rows, dtype=float))
        precision = squares[:, None] * np.tile(rate * (1 - rate / 2), 2)
        self.penalty, self.precision = penalty.reshape(-1), precision.reshape(-1) + 1e-3

        def sums(items: IntArray) -> FloatArray:
            by_item = (with_constant(rows.table[rows.context[items == item]]) for item in range(n_items))
            return np.stack([shown.sum(axis=0, dtype=float) for shown in by_item], axis=1)

        first, second = sums(rows.first), sums(rows.second)
        self.gradient_of_shown = np.hstack([first + second, first - second])
        self.log_share = float(np.log(share[rows.first, rows.second]).sum())
        place = row_codes(rows.table[rows.context[block]] for block in row_slices(*design.shape))
        distinct = np.unique(place, return_index=True)[1]
        self.design = design if len(distinct) == len(rows) else Design(rows.table, rows.context[distinct])
        self.count = np.bincount(place, minlength=len(distinct)).astype(float)

    def effects(self, flat: FloatArray) -> PairChoiceEffects:
        """Return the effects whose coefficients the flat vector holds."""
        u, w = np.hsplit(flat.reshape(-1, 2 * len(self.share)), 2)
        return PairChoiceEffects(self.share, u + w, u - w)

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the log-likelihood, and its gradient, at the coefficients of the flat vector."""
        coefficients = flat.reshape(self.gradient_of_shown.shape)
        value = -float((coefficients * self.gradient_of_shown).sum()) - self.log_share
        gradient = -self.gradient_of_shown
        step = max(1, _CHUNK_SIZE // (2 * len(self.share)))

        def log_sums(start: int) -> tuple[float, FloatArray]:
            """Return the log of the sum over all pairs, added up over a chunk of rows, and its gradient."""
            columns, count = self.design[start : start + step], self.count[start : start + step]
            u, w = np.hsplit(product(columns, coefficients), 2)
            a, b, maxima = _exponentials(u + w, u - w)
            as_first = a * product(b, self.share.T)
            as_second = b * product(a, self.share)
            total = np.maximum(as_first.sum(axis=1), _TINY)
            weight = (count / total)[:, None]
            as_first *= weight
            as_second *= weight
            slope = np.hstack([as_first + as_second, as_first - as_second])
            return float(count @ (np.log(total) + maxima)), transposed_product(columns, slope)

        n_rows, width = self.design.shape
        is_large = n_rows * width * self.gradient_of_shown.shape[1] >= _PARALLEL_FROM
        for log_sum, slope in in_order(log_sums, range(0, n_rows, step), current().n_threads if is_large else 1):
            value += log_sum
            gradient += slope
        return value, gradient.reshape(-1)


# Candidates for `prior`: how strongly the overall shares of pairs are shrunk towards products of their items' shares.
_PRIORS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# Candidates for the prior precision of the curves, from nearly constant curves to nearly unrestricted ones.
_RIDGES = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
# Number of pairs that are drawn at random for each pair shown; the trees learn to distinguish the two.
DRAWN_PER_SHOWN = 5
# Largest number of pairs shown from which trees learn: six rows of a training matrix for each of them.
_MOST_CONTRASTED = 500_000
# Largest number of entries of the tables of all pairs that are computed at a time.
_TABLE_ENTRIES = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class PairShares:
    """Model of one fold for the share of each ordered pair: its probability to be the one that a context shows.

    trees: Boosted trees whose score is added to the log share of every pair; None where trees did not help.
    """

    basis: SmoothBasis
    effects: PairChoiceEffects
    trees: PairTrees | None = None

    def table(self, x: FloatArray) -> FloatArray:
        """Return the shares of all pairs, (n, K, K), which sum to one, in contexts with features ``x``, (n, p)."""
        shares = self.effects.table(self.basis.of(x))
        if self.trees is not None:
            scores = predict_all_pairs(self.trees, x, shares.shape[1], raw_score=True)[..., 0]
            np.exp(scores, out=scores)
            shares *= scores
        shares /= shares.sum(axis=(1, 2), keepdims=True)
        return shares

    def at(self, x: FloatArray, first: IntArray, second: IntArray, *, both_orders: bool = False) -> FloatArray:
        """Return the share of one pair in each context, (n,)."""
        if self.trees is not None:

            def table(chunk: FloatArray) -> FloatArray:
                shares = self.table(chunk)
                return shares + np.swapaxes(shares, 1, 2) if both_orders else shares

            return pair_entries(table, x, first, second, len(self.effects.share))
        columns, row = self.basis.of(x), np.arange(len(x))
        if not both_orders:
            return np.exp(self.effects.log_at(columns, first, second, row))
        j, k = np.concatenate([first, second]), np.concatenate([second, first])
        return np.exp(self.effects.log_at(columns, j, k, np.tile(row, 2))).reshape(2, -1).sum(axis=0)


def pair_entries(
    table: Callable[[FloatArray], FloatArray], x: FloatArray, first: IntArray, second: IntArray, n_items: int
) -> FloatArray:
    """Return one pair's entry of the table of all pairs for every context, (n,); equal contexts have one table."""
    code, entries = row_codes(x[rows] for rows in row_slices(*x.shape)), np.empty(len(x))
    distinct, by_code = np.unique(code, return_index=True)[1], np.argsort(code, kind="stable")
    bounds = np.searchsorted(code[by_code], np.arange(len(distinct) + 1))

    def fill(chunk: slice) -> None:
        values, members = table(x[distinct[chunk]]), by_code[bounds[chunk.start] : bounds[chunk.stop]]
        entries[members] = values[code[members] - chunk.start, first[members], second[members]]

    # A list: a single chunk is computed in this thread, which may use several.
    chunks = list(row_slices(len(distinct), max(n_items**2, x.shape[1]), _TABLE_ENTRIES))
    for _ in in_order(fill, chunks, current().n_threads):
        pass
    return entries


def fit_pair_shares(
    data: PreferenceData, fold: IntArray, rngs: Sequence[np.random.Generator]
) -> tuple[PairShares, ...]:
    """Fit one model per fold on the labelled contexts outside the fold, each of which shows one pair.

    References
    ----------
    Gutmann and Hyvarinen (2012), Noise-contrastive estimation of unnormalized statistical models.
    """
    learner = _ShareLearner(shown_pairs(data, fold), rngs)
    selection, fitted_folds = learner.fit()
    # The caller draws from this generator again; it goes on where the task, which has drawn from a copy, has ended.
    assert selection.state_of_rng is not None
    rngs[0].bit_generator.state = selection.state_of_rng
    models = list[PairShares]()
    for basis, effects, booster in fitted_folds:
        trees = PairTrees.of(booster, data.n_items) if booster else None
        models.append(PairShares(basis, effects, trees))
        report(len(models), len(rngs), "propensity, folds")
    return tuple(models)


class _ShareLearner(EffectsAndTrees[PairChoiceEffects]):
    """A conditional logit, then trees that learn to tell pairs shown from pairs drawn at random."""

    name, effects_name = "the propensity", "selection"
    ridges = _RIDGES
    # Trees with random thresholds can also approximate jumps. Where they do not reduce the loss, trees with exhaustive
    # thresholds are not expected to reduce it either.
    gives_up = True
    rows_per_vote = 1 + DRAWN_PER_SHOWN

    def __init__(self, cells: FoldCells, rngs: Sequence[np.random.Generator]) -> None:
        super().__init__(cells, rngs)
        self.rng = rngs[0]

    def select_effects(self) -> TunedEffects[PairChoiceEffects]:
        """Select the prior of the pair shares and fit the effects of each trial fold."""
        splits, tried = [self.sample.split(f) for f in self.trial_folds], []
        for prior in _PRIORS:
            fits = [_without_effects(*parts, prior) for parts in splits]
            shown = [(fit.effects.share, fit.held_out.rows) for fit in fits]
            loss = -sum(float(np.log(share[rows.first, rows.second]).sum()) for share, rows in shown)
            tried.append(TunedEffects(loss, np.inf, False, fits[0].flat, fits, prior))
        constant = min(tried, key=lambda tuned: tuned.loss)
        smooth = self.select_smooth_effects(constant.prior)
        return smooth if smooth.loss < constant.loss else constant

    def likelihood(self, training: FoldCells, prior: float) -> PairChoiceLikelihood:
        return PairChoiceLikelihood(training.rows, _overall_shares(training, prior))

    def fit_effects(self, f: int, tuned: TunedEffects[PairChoiceEffects]) -> FoldEffects[PairChoiceEffects]:
        if np.isinf(tuned.ridge):
            return _without_effects(*self.cells.split(f), tuned.prior)
        return super().fit_effects(f, tuned)

    def make_rows(self, tuned: TunedEffects[PairChoiceEffects]) -> NoiseContrast:
        """Draw pairs for the pairs shown, or for a random sample of them where they are many."""
        rng, cells, n = deepcopy(self.rng), self.cells, len(self.cells.rows)
        share = _overall_shares(cells, tuned.prior)
        if n > _MOST_CONTRASTED:
            # The cells on which the settings are selected are among them.
            is_chosen = np.zeros(n, dtype=bool)
            is_chosen[self.sample.number] = True
            others = np.flatnonzero(~is_chosen)
            n_others = max(0, _MOST_CONTRASTED - len(self.sample.rows))
            is_chosen[rng.choice(others, n_others, replace=False)] = True
            cells = cells.only(np.flatnonzero(is_chosen))
        contrast = NoiseContrast.of(cells, share, rng)
        self.state_of_rng = rng.bit_generator.state
        return contrast


def shown_pairs(data: PreferenceData, fold: IntArray) -> FoldCells:
    """Return the labelled pairs, in the display order in which they were shown, as rows of one vote each."""
    cells = labelled_cells(data, SmoothBasis.learn(data.x[np.argsort(data.seed_order)]), fold)
    labelled = ordered_cells(data, np.ones(data.n_contexts, dtype=bool))
    first, second = (items[labelled] for items in data.cells.in_display_order)
    ones = np.ones(len(labelled))
    return replace(cells, rows=replace(cells.rows, first=first, second=second, y=ones[:, None], weight=ones))


def _without_effects(training: FoldCells, held_out: FoldCells, prior: float) -> FoldEffects[PairChoiceEffects]:
    """Return effects of one fold that are all zero: the shares are the same in all contexts."""
    zeros = np.zeros((1 + training.rows.table.shape[1], training.n_items))
    effects = PairChoiceEffects(_overall_shares(training, prior), zeros, zeros)
    return FoldEffects(training, held_out, effects, np.append(zeros, zeros))


def _overall_shares(cells: FoldCells, prior: float) -> FloatArray:
    """Return the overall shares of the ordered pairs among those shown, (K, K)."""
    return pair_shares(cells.rows.first, cells.rows.second, cells.n_items, prior)


@dataclass(frozen=True, slots=True, eq=False)
class NoiseContrast:
    """Rows [x, first, second] that teach boosters to tell pairs shown from pairs drawn for the same contexts.

    cell (r,): Number of the labelled cell to which a row belongs: the row has the context of this cell, and either its
        pair or one that was drawn for the cell.
    is_shown (r,): One for a pair shown, zero for a pair drawn with the overall shares as probabilities.
    log_drawn (K, K): Logs of the expected number of draws of each pair per context.
    """

    binned: BinnedPairs
    cell: NDArray[np.int32]
    first: NDArray[np.int32]
    second: NDArray[np.int32]
    is_shown: NDArray[np.int8]
    log_drawn: FloatArray

    @classmethod
    def of(cls, cells: FoldCells, share: FloatArray, rng: np.random.Generator) -> NoiseContrast:
        """Draw pairs for all cells, with the overall shares, (K, K), as probabilities, and bin the rows."""
        rows, n_items = cells.rows, cells.n_items
        # There are millions of rows; their codes are kept in half the memory of numpy's default integers.
        pair = rng.choice(n_items**2, size=DRAWN_PER_SHOWN * len(rows), p=share.reshape(-1)).astype(np.int32)
        place = np.arange(len(rows), dtype=np.int32)
        place = np.concatenate([place, np.repeat(place, DRAWN_PER_SHOWN)])
        first = np.concatenate([rows.first.astype(np.int32), pair // n_items])
        second = np.concatenate([rows.second.astype(np.int32), pair % n_items])
        binned, order = BinnedPairs.of(cells.x, rows.context[place], first, second)
        is_shown = (order < len(rows)).astype(np.int8)
        cell = cells.number[place[order]].astype(np.int32)
        with np.errstate(divide="ignore"):
            log_drawn = np.log(DRAWN_PER_SHOWN * share)
        return cls(binned, cell, first[order], second[order], is_shown, log_drawn)

    def dataset(
        self, effects: PairChoiceEffects, cells: FoldCells, stage: BoostingStage, n_threads: int
    ) -> lgb.Dataset:
        """Return a data set of the rows of these cells; its initial scores are the log-odds that the effects imply."""
        rows, scores = self._scores(effects, cells)
        dataset = self.binned.rows(rows, n_threads)
        dataset.set_label(self.is_shown[rows])
        dataset.set_init_score(scores)
        return dataset

    def loss_without_trees(self, tuned: TunedEffects[PairChoiceEffects]) -> float:
        """Return the log-loss of the initial scores on the held-out cells of the trial folds."""
        total = 0.0
        for fitted in tuned.fits:
            rows, scores = self._scores(fitted.effects, fitted.held_out)
            total += float(np.logaddexp(0, np.where(self.is_shown[rows] == 1, -scores, scores)).sum())
        return total

    def _scores(self, effects: PairChoiceEffects, cells: FoldCells) -> tuple[IntArray, FloatArray]:
        """Return the rows of these cells, and for each row the log-odds that its pair was shown and not drawn."""
        # The cells may be more than those whose pairs are contrasted.
        place = np.full(max(self.cell.max(initial=-1), cells.number.max(initial=-1)) + 1, -1)
        place[cells.number] = np.arange(len(cells.number))
        rows = np.flatnonzero(place[self.cell] >= 0)
        first, second = (items[rows].astype(np.intp) for items in (self.first, self.second))
        log_share = effects.log_at(cells.rows.table, first, second, place[self.cell[rows]], cells.rows.context)
        return rows, log_share - self.log_drawn[first, second]
