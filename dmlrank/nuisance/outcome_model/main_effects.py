"""The default outcome model: smooth main effects, as in a Bradley-Terry model with ties, and boosted trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from ..._utils.tasks_and_threads import SINGLE_THREAD_MULTIPLICATIONS, product, report
from ...data.arrays import row_slices
from ...data.outcomes import exchanged_wins
from ...data.preferences import AnyArray, BoolArray, Cells, FloatArray, IntArray, PreferenceData
from ..all_pairs.predict import PairTrees, predict_all_pairs
from ..all_pairs.trees import Link
from ..boosting import EXHAUSTIVE_THRESHOLDS, RANDOM_THRESHOLDS, BinnedPairs, predict_pairs
from ..effects_and_trees import BoostingStage, EffectsAndTrees, TunedEffects
from ..smooth import MULTINOMIAL_CURVATURE, Design, PenalisedLikelihood, SmoothBasis, with_constant
from ..training_rows import FoldCells, LabelledRows, labelled_cells

if TYPE_CHECKING:
    import lightgbm as lgb


# Every effect of MainEffects has a penalty, as a multiple of the ridge. For the curves of the strength it is the ridge
# itself. It is small for the constant of the strength and for gamma, the effect of the distance between two items on
# ties. It is large for the items' inclinations to ties, which therefore differ only where the labels show it clearly.
_CONSTANT_PENALTY = 0.1
_DISTANCE_PENALTY = 0.1
_ITEM_TIE_PENALTY = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class MainEffects:
    r"""Scores of the categories from curves of every item's strength and inclination to ties.

    The advantage of item j, shown first, over item k is :math:`a = u_j(x) - u_k(x) + c_{jk} + \beta`, where
    :math:`u_j(x)` is the strength of item j in a context with features x. The scores are :math:`a/2` (first wins),
    :math:`-a/2` (second wins) and, for every kind of tie, :math:`s(x) + v_j(x) + v_k(x) + \gamma (\sqrt{1 + a^2} - 1)`.
    There :math:`s(x)` is common to all items, :math:`v_j(x)` is the inclination of item j to this kind of tie, and
    :math:`\sqrt{1 + a^2} - 1` is the distance between the two items. The curves u, s and v are linear in the smooth
    columns: the q columns into which :class:`dmlrank.nuisance.smooth.SmoothBasis` turns the features.

    strength (K, 1 + q): Coefficients of u: of a constant, then of the smooth columns.
    position: beta, the position effect: the advantage of being shown first.
    pair (K, K): c, antisymmetric: by how much the advantage in a pair differs from the difference of the strengths.
    distance_effect (C - 2,): gamma, by kind of tie: how the score of the tie changes with the distance between the two
        items.
    tie (C - 2, 1 + K, 1 + q): Coefficients by kind of tie: of s, then of v of every item.
    """

    strength: FloatArray
    position: float
    pair: FloatArray
    distance_effect: FloatArray
    tie: FloatArray

    @property
    def importance(self) -> FloatArray:
        """How much each smooth column changes the scores, (q,): the sum of its squared coefficients."""
        return np.asarray(np.square(self.strength[:, 1:]).sum(axis=0) + np.square(self.tie[..., 1:]).sum(axis=(0, 1)))

    def loss(self, rows: LabelledRows) -> float:
        """Return the log-loss of labelled rows."""
        scores = self.at(rows.table, rows.first, rows.second, rows.context)
        log_mu = scores - logsumexp(scores, axis=1, keepdims=True)
        return -float(rows.weight @ (rows.y * log_mu).sum(axis=1))

    def table(self, columns: FloatArray) -> FloatArray:
        """Return the scores of every ordered pair, (n, K, K, C), in contexts with smooth columns, (n, q)."""
        in_contexts, n_outputs = self.in_contexts(columns), 2 + len(self.distance_effect)
        n, n_items = in_contexts.strength.shape
        scores, spare = np.zeros((n_outputs, n, n_items, n_items)), np.empty((3, n, n_items, n_items))
        in_contexts.add_to_all(scores, slice(None), None, spare)
        return np.moveaxis(scores, 0, -1)

    def in_contexts(self, columns: FloatArray) -> MainEffectScores:
        """Return the scores in contexts with smooth columns, (n, q), from which those of single pairs follow."""
        design = with_constant(columns)
        ties = tuple(product(design, tie.T) for tie in self.tie)
        return MainEffectScores(self, product(design, self.strength.T), ties, self.position == 0)

    def at(self, columns: FloatArray, first: IntArray, second: IntArray, context: IntArray | None = None) -> FloatArray:
        """Return the scores, (r, C), of one pair in each of r contexts, by default in each row of the columns."""
        scores = np.empty((len(first), 2 + len(self.distance_effect)))
        for rows in row_slices(len(first), columns.shape[1]):
            design = with_constant(columns[rows if context is None else context[rows]])
            j, k, of_rows = first[rows], second[rows], scores[rows]
            advantage = np.einsum("rq,rq->r", design, self.strength[j] - self.strength[k])
            advantage += self.pair[j, k] + self.position
            of_rows[:, 0], of_rows[:, 1] = advantage / 2, -advantage / 2
            distance = np.sqrt(1 + advantage**2) - 1
            for c, (gamma, tie) in enumerate(zip(self.distance_effect, self.tie, strict=True), start=2):
                of_ties = np.einsum("rq,rq->r", design, tie[0] + (tie[1 + j] + tie[1 + k]))
                of_rows[:, c] = of_ties + gamma * distance
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class MainEffectScores:
    """Main effects in n contexts: scores of all ordered pairs, to which a booster adds its own.

    strength (n, K): u of every item in every context.
    ties (n, 1 + K): s, then v of every item in every context, by kind of tie.
    mirrored: Whether there is no position effect, so that the other display order of a pair has the same scores, with
        first and second wins exchanged.
    """

    effects: MainEffects
    strength: FloatArray
    ties: tuple[FloatArray, ...]
    mirrored: bool

    def of_contexts(self, contexts: slice) -> MainEffectScores:
        """Return the scores in a range of the contexts."""
        ties = tuple(tie[contexts] for tie in self.ties)
        return MainEffectScores(self.effects, self.strength[contexts], ties, self.mirrored)

    def add_to_all(
        self, scores: FloatArray, contexts: slice, pairs: tuple[IntArray, IntArray] | None, spare: FloatArray
    ) -> None:
        """Add the scores in b contexts of all ordered pairs, (C, b, K, K), or of m pairs, (C, b, m), in place.

        ``spare`` is memory for three outputs that is overwritten.
        """
        # Places of the first and second item of the pairs in an array (b, K), and, for ties, of that with the smaller
        # and the larger number, so that given pairs have the same bits in both display orders.
        places: Sequence[Any] = (np.s_[:, :, None], np.s_[:, None, :]) * 2
        if pairs is not None:
            places = [np.s_[:, at] for at in (*pairs, np.minimum(*pairs), np.maximum(*pairs))]
        first, second, low, high = places
        advantage, half, of_items = spare
        np.subtract(self.strength[contexts][first], self.strength[contexts][second], out=advantage)
        advantage += self.effects.pair[pairs or slice(None)] + self.effects.position
        np.multiply(advantage, 0.5, out=half)
        scores[0] += half
        scores[1] -= half
        if not self.ties:
            return
        # The square root of 1 + a^2, less 1, in the memory of the advantages.
        np.square(advantage, out=advantage)
        advantage += 1
        np.sqrt(advantage, out=advantage)
        advantage -= 1
        for of_tie, gamma, tie in zip(scores[2:], self.effects.distance_effect, self.ties, strict=True):
            level, by_item = tie[contexts, :1], tie[contexts, 1:]
            np.multiply(advantage, gamma, out=half)
            half += np.add(by_item[high], (level + by_item)[low], out=of_items)
            of_tie += half


class _ByItem:
    """Rows of a design sorted by item, which ``order``, (r,), numbers; they are read in blocks of one item.

    The blocks are so small that the linear algebra library uses one thread.
    """

    def __init__(self, rows: LabelledRows, items: IntArray, n_items: int) -> None:
        self.order = np.argsort(items, kind="stable")
        self.design = Design(rows.table, rows.context[self.order])
        self.n_items = n_items
        self._bounds = np.searchsorted(items[self.order], np.arange(n_items + 1)).tolist()

    def _blocks(self, width: int) -> Iterator[tuple[int, slice, FloatArray]]:
        """Yield item, range of rows and design of each block, for a product with ``width`` columns."""
        step = max(1, SINGLE_THREAD_MULTIPLICATIONS // (self.design.shape[1] * width))
        for j, (begin, end) in enumerate(pairwise(self._bounds)):
            for at in range(begin, end, step):
                rows = slice(at, min(at + step, end))
                yield j, rows, self.design[rows]

    def times(self, coefficients: FloatArray) -> FloatArray:
        """Return each row times the coefficients of its item, (r, m); ``coefficients`` has the shape (K, q, m)."""
        products = np.empty((len(self.order), coefficients.shape[2]))
        for j, rows, design in self._blocks(coefficients.shape[2]):
            np.matmul(design, coefficients[j], out=products[rows])
        return products

    def sums(self, amount: FloatArray) -> FloatArray:
        """Return the sum of each item's rows times their amounts, (K, q, m); ``amount`` has the shape (r, m)."""
        sums = np.zeros((self.n_items, self.design.shape[1], amount.shape[1]))
        for j, rows, design in self._blocks(amount.shape[1]):
            sums[j] += design.T @ amount[rows]
        return sums

    def squares(self, weight: FloatArray) -> FloatArray:
        """Return the weighted sum of each item's squared rows, (K, q); ``weight`` has the shape (r,)."""
        sums = np.zeros((self.n_items, self.design.shape[1]))
        for j, rows, design in self._blocks(1):
            sums[j] += (np.square(design, dtype=float).T @ weight[rows, None])[:, 0]
        return sums


class MainEffectsLikelihood(PenalisedLikelihood[MainEffects]):
    """The multinomial log-likelihood of labelled rows of K items as a function of all main effects.

    The flat vector, (d,), holds the arrays of :class:`MainEffects` in the order of its attributes. All K x K
    entries of ``MainEffects.pair`` are in the vector, but only those above the diagonal are fitted.

    rows, shown_first: The rows, r of them, sorted by the item shown first, and their design.
    shown_second, place_by_second (r,): The design sorted by the item shown second, and each row's place in it.
    pair_number (r,): Number of each row's unordered pair, i K + j with i < j.
    sign (r,): 1 where the item with the smaller code is shown first, otherwise -1.

    References
    ----------
    Davidson (1970), On extending the Bradley-Terry model to accommodate ties; Wood (2017), Generalized Additive Models.
    """

    def __init__(self, rows: LabelledRows, n_items: int, ordered: bool) -> None:
        self.n_items = n_items
        self.shown_first = _ByItem(rows, rows.first, n_items)
        self.rows = rows = rows.only(self.shown_first.order)
        self.shown_second = _ByItem(rows, rows.second, n_items)
        self.place_by_second = np.argsort(self.shown_second.order)
        low, high = np.minimum(rows.first, rows.second), np.maximum(rows.first, rows.second)
        self.pair_number = low * n_items + high
        self.sign = np.where(rows.first < rows.second, 1.0, -1.0)
        pairs = np.bincount(self.pair_number, weights=rows.weight, minlength=n_items**2)
        design, n_ties = self.shown_first.design, rows.y.shape[1] - 2
        curves = np.ones((n_items, design.shape[1]))
        curves[:, 0] = _CONSTANT_PENALTY
        ties = np.ones((n_ties, 1 + n_items, design.shape[1]))
        ties[:, 1:] = _ITEM_TIE_PENALTY
        ties[:, 0, 0] = 0.0  # how frequent each kind of tie is overall is not penalised
        self.penalty = _flat([curves, np.zeros(1), np.ones(n_items**2), np.full(n_ties, _DISTANCE_PENALTY), ties])
        of_all = [rows.weight[r] @ np.square(design[r], dtype=float) for r in row_slices(*design.shape)]
        total = np.sum(of_all, axis=0)
        by_second = self.shown_second.squares(rows.weight[self.shown_second.order])
        per_item = self.shown_first.squares(rows.weight) + by_second
        votes, of_ties = rows.weight.sum(keepdims=True), np.concatenate([total[None], per_item])
        precision = _flat([per_item, votes, pairs, np.full(n_ties, total[0]), *[of_ties] * n_ties])
        self.precision = MULTINOMIAL_CURVATURE * precision + 1e-3  # positive also for effects without labels
        free = [np.ones_like(curves), np.full(1, ordered), pairs > 0, np.ones(n_ties), np.ones_like(ties)]
        self.is_free = _flat(free) > 0

    def effects(self, flat: FloatArray) -> MainEffects:
        """Return the effects whose coefficients stand in a flat vector."""
        n_items, q, n_ties = self.n_items, self.shown_first.design.shape[1], self.rows.y.shape[1] - 2
        sizes = np.cumsum([n_items * q, 1, n_items**2, n_ties])
        strength, position, pair, gamma, tie = np.split(flat, sizes)
        upper, ties = np.triu(pair.reshape(n_items, n_items), 1), tie.reshape(n_ties, 1 + n_items, q)
        return MainEffects(strength.reshape(n_items, q), float(position[0]), upper - upper.T, gamma, ties)

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the log-likelihood, and its gradient."""
        rows, effects = self.rows, self.effects(flat)
        common, by_item = effects.tie[:, 0], effects.tie[:, 1:]
        linear = self.shown_first.times(np.stack([effects.strength, *(common[:, None] + by_item)], axis=2))
        linear += self.shown_second.times(np.stack([-effects.strength, *by_item], axis=2))[self.place_by_second]
        advantage = linear[:, 0] + effects.pair[rows.first, rows.second] + effects.position
        distance = np.sqrt(1 + advantage**2) - 1
        of_ties = linear[:, 1:] + distance[:, None] * effects.distance_effect
        scores = np.column_stack([advantage / 2, -advantage / 2, of_ties])
        top = scores.max(axis=1)
        share = np.exp(scores - top[:, None])
        total = share.sum(axis=1)
        log_total = top + np.log(total)
        loss = rows.weight @ (log_total - (rows.y * scores).sum(axis=1))
        # In place: arrays with a row for every vote are the largest in memory here.
        slope = np.divide(share, total[:, None], out=share)
        slope -= rows.y
        slope *= rows.weight[:, None]
        advantage = scores[:, 0] - scores[:, 1]
        root = np.sqrt(1 + advantage**2)
        by_advantage = (slope[:, 0] - slope[:, 1]) / 2 + (slope[:, 2:] @ effects.distance_effect) * advantage / root
        amount = np.column_stack([by_advantage, slope[:, 2:]])
        first, second = self.shown_first.sums(amount), self.shown_second.sums(amount[self.shown_second.order])
        ties = [
            np.concatenate([first[..., c].sum(axis=0)[None], first[..., c] + second[..., c]])
            for c in range(1, amount.shape[1])
        ]
        of_pairs = np.bincount(self.pair_number, self.sign * by_advantage, minlength=self.n_items**2)
        strength, position = first[..., 0] - second[..., 0], by_advantage.sum(keepdims=True)
        return float(loss), _flat([strength, position, of_pairs, (root - 1) @ slope[:, 2:], *ties])


def _flat(parts: Sequence[AnyArray]) -> FloatArray:
    """Return arrays of any shapes in one vector."""
    return np.concatenate([np.ravel(part) for part in parts]).astype(float)


@dataclass(frozen=True, slots=True, eq=False)
class SmoothBoostedMu:
    """An outcome model whose scores are those of main effects plus those of a booster.

    basis: Basis of the smooth columns of the main effects.
    trees: The booster, prepared once for all chunks of contexts; None where trees did not lower the held-out log-loss.
    stage: How the booster was trained. Where it was trained on both display orders, the score of a pair is the mean of
        the scores of its two orders.
    """

    basis: SmoothBasis
    main_effects: MainEffects
    trees: PairTrees | None
    stage: BoostingStage
    n_items: int

    # Several threads may predict with this model at the same time.
    concurrent = True

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the category probabilities of every ordered pair, (n, K, K, C), in contexts with features ``x``."""
        columns = self.basis.of(x)
        if self.trees is not None:
            offset = self.main_effects.in_contexts(columns)
            return predict_all_pairs(self.trees, x, self.n_items, offset=offset)
        scores = np.moveaxis(self.main_effects.table(columns), -1, 0)
        mu = np.ascontiguousarray(np.moveaxis(Link(len(scores)).probabilities(scores), 0, -1))
        items = np.arange(self.n_items)
        mu[:, items, items] = 0.0
        return mu

    def blocks(self, x: FloatArray) -> Iterator[tuple[slice, FloatArray]] | None:
        """Yield ranges of contexts and their probabilities; see :meth:`.PairTrees.blocks`."""
        if self.trees is None or self.trees.tables is None:
            return None
        return self.trees.blocks(x, self.trees.trees.link, self.main_effects.in_contexts(self.basis.of(x)))

    def at(self, x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the category probabilities, (r, C), of one pair in each of r contexts with features ``x``, (r, p)."""
        scores = self.main_effects.at(self.basis.of(x), first, second)
        if self.trees is not None:
            of_trees = predict_pairs(self.trees.booster, x, first, second, raw_score=True)
            if self.stage.mirrored:
                in_other_order = predict_pairs(self.trees.booster, x, second, first, raw_score=True)
                of_trees = (of_trees + in_other_order[:, exchanged_wins(of_trees.shape[1])]) / 2
            scores += of_trees
        return np.asarray(softmax(scores, axis=-1))


def fit_smooth_boosted(
    data: PreferenceData,
    fold: IntArray,
    seeds: Sequence[np.random.SeedSequence],
    *,
    soft: Sequence[Cells] | None = None,
    like: BoostingStage | None = None,
) -> tuple[SmoothBoostedMu, ...]:
    """Fit one model per fold, each trained on the other folds.

    References
    ----------
    Ahrens, Hansen, Schaffer and Wiemann (2025), Model averaging and double machine learning.
    """
    basis = SmoothBasis.learn(data.x[np.argsort(data.seed_order)])
    cells = labelled_cells(data, basis, fold, soft or ())
    learner = MuLearner(cells, [np.random.default_rng(seed) for seed in seeds])
    if like is not None:
        learner.candidates = [like]
    selection, fitted_folds = learner.fit()
    stage, models = selection.stage, list[SmoothBoostedMu]()
    for fold_basis, effects, booster in fitted_folds:
        trees = None
        if booster is not None:
            trees = PairTrees.of(booster, data.n_items, mirrored=stage.mirrored, n_contexts=data.n_contexts)
        models.append(SmoothBoostedMu(fold_basis, effects, trees, stage, data.n_items))
        report(len(models), len(seeds), "mu, folds")
    return tuple(models)


class MuLearner(EffectsAndTrees[MainEffects]):
    """Main effects, then trees that learn the category of a vote."""

    name, effects_name = "mu", "main effects"
    ridges = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)

    def __init__(self, cells: FoldCells, rngs: Sequence[np.random.Generator]) -> None:
        super().__init__(cells, rngs)
        self.n_classes = cells.rows.y.shape[1]
        self.candidates = [BoostingStage(RANDOM_THRESHOLDS, True), BoostingStage(EXHAUSTIVE_THRESHOLDS, True)]
        if cells.ordered:
            self.candidates.append(BoostingStage(RANDOM_THRESHOLDS, False))

    def likelihood(self, training: FoldCells, prior: float) -> MainEffectsLikelihood:
        return MainEffectsLikelihood(training.rows.merged(training.n_items), training.n_items, training.ordered)

    def make_rows(self, tuned: TunedEffects[MainEffects]) -> VoteRows:
        all_cells = self.cells
        for soft_cells in self.cells.soft:
            all_cells = all_cells.joined(soft_cells)
        return VoteRows.of(all_cells.x, all_cells.rows)


@dataclass(frozen=True, slots=True, eq=False)
class VoteRows:
    """Labelled cells in bins: for every category with votes in a cell, one row in each of the two display orders.

    label (r,): Category of each row, in the display order of the row.
    is_swapped (r,): Whether this is not the display order of the row's cell.
    weight (r,): Votes of the cell for the row's category.
    """

    binned: BinnedPairs
    label: NDArray[np.int32]
    cell: NDArray[np.int32]
    is_swapped: BoolArray
    weight: FloatArray

    @classmethod
    def of(cls, x: FloatArray, cells: LabelledRows) -> VoteRows:
        """Bin labelled cells of contexts with features ``x``, (n, p)."""
        # There are millions of rows; their codes are kept in half the memory of numpy's default integers.
        voted_cell, label = (numbers.astype(np.int32) for numbers in np.nonzero(cells.y))
        flip = exchanged_wins(cells.y.shape[1]).astype(np.int32)
        cell, swapped = np.tile(voted_cell, 2), np.repeat([False, True], len(voted_cell))
        one, other = (items.astype(np.int32)[voted_cell] for items in (cells.first, cells.second))
        first, second = np.concatenate([one, other]), np.concatenate([other, one])
        binned, order = BinnedPairs.of(x, cells.context.astype(np.int32)[cell], first, second)
        labels = np.concatenate([label, flip[label]])
        weight = np.tile(cells.weight[voted_cell] * cells.y[voted_cell, label], 2)
        return cls(binned, labels[order], cell[order], swapped[order], weight[order])

    def loss_without_trees(self, tuned: TunedEffects[MainEffects]) -> float:
        """Return the held-out log-loss of the effects."""
        return tuned.loss

    def dataset(self, effects: MainEffects, cells: FoldCells, stage: BoostingStage, n_threads: int) -> lgb.Dataset:
        """Return the rows of some cells, with the scores of the effects as initial scores."""
        rows = cells.rows
        scores = effects.at(rows.table, rows.first, rows.second, rows.context)
        return self.subset(cells.number, scores, stage.mirrored, n_threads)

    def subset(self, cells: IntArray, scores: FloatArray, mirrored: bool, n_threads: int) -> lgb.Dataset:
        """Return the rows of some cells with weights and initial scores; cells (c,), scores (c, C)."""
        is_member = np.zeros(self.cell.max(initial=-1) + 1, dtype=bool)
        is_member[cells] = True
        rows = np.flatnonzero(is_member[self.cell] & (mirrored | ~self.is_swapped))
        place, is_swapped, flip = (
            np.searchsorted(cells, self.cell[rows]),
            self.is_swapped[rows],
            exchanged_wins(scores.shape[1]),
        )
        initial_scores = np.empty((scores.shape[1], len(rows)))
        for c, other in enumerate(flip.tolist()):
            initial_scores[c] = np.where(is_swapped, scores[place, other], scores[place, c])
        subset = self.binned.rows(rows, n_threads)
        subset.set_label(self.label[rows])
        subset.set_weight(self.weight[rows] / 2 if mirrored else self.weight[rows])
        # The largest array of a fold: ``set_init_score`` would keep a copy, and rows by category make another one.
        subset.set_field("init_score", initial_scores.ravel())
        return subset
