"""Smooth main effects of the items: a Bradley-Terry model with ties whose strengths depend on the context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ..._utils.computation import SINGLE_THREAD_MULTIPLICATIONS, product
from ...data.arrays import row_slices
from ...data.preferences import FloatArray, IntArray
from ..smooth.basis import with_constant
from ..smooth.penalty import MULTINOMIAL_CURVATURE, PenalisedSearch
from ..training_rows import LabelledRows

# Every effect of MainEffects has a penalty, as a multiple of the ridge. For the curves of the strength it is the ridge
# itself. It is small for the constant of the strength and for gamma, the effect of the distance between two items on
# ties. It is large for the items' inclinations to ties, which therefore differ only where the labels show it clearly.
_CONSTANT_PENALTY = 0.1
_DISTANCE_PENALTY = 0.1
_ITEM_TIE_PENALTY = 10.0

# Number of an item, and the first row and the end of a block of its rows.
_Block: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class MainEffects:
    r"""Scores of the categories from curves of every item's strength and inclination to ties.

    The advantage of item j, shown first, over item k is :math:`a = u_j(x) - u_k(x) + c_{jk} + \beta`, where
    :math:`u_j(x)` is the strength of item j in a context with features x. The scores are :math:`a/2` (first wins),
    :math:`-a/2` (second wins) and, for every kind of tie, :math:`s(x) + v_j(x) + v_k(x) + \gamma (\sqrt{1 + a^2} - 1)`.
    There :math:`s(x)` is common to all items, :math:`v_j(x)` is the inclination of item j to this kind of tie, and
    :math:`\sqrt{1 + a^2} - 1` is the distance between the two items. The curves u, s and v are linear in the smooth
    columns: the q columns into which :class:`dmlrank.nuisance.smooth.basis.SmoothBasis` turns the features.

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

    @property
    def flat(self) -> FloatArray:
        """All effects in one vector, (d,), as :class:`MainEffectsLikelihood` orders them; pairs above the diagonal."""
        pair = np.triu(self.pair, 1)
        return _flat([self.strength, np.array([self.position]), pair, self.distance_effect, self.tie])

    def only(self, items: IntArray) -> MainEffects:
        """Return the effects of some items."""
        tie = np.concatenate([self.tie[:, :1], self.tie[:, 1 + items]], axis=1)
        pair = self.pair[np.ix_(items, items)]
        return MainEffects(self.strength[items], self.position, pair, self.distance_effect, tie)

    def loss(self, rows: LabelledRows) -> float:
        """Return the log-loss of labelled rows."""
        scores = self.at(rows.columns, rows.first, rows.second)
        log_mu = scores - logsumexp(scores, axis=1, keepdims=True)
        return -float(rows.weight @ (rows.y * log_mu).sum(axis=1))

    def table(self, columns: FloatArray) -> FloatArray:
        """Return the scores of every ordered pair, (n, K, K, C), in contexts with smooth columns, (n, q)."""
        in_contexts = self.in_contexts(columns)
        n, n_items = in_contexts.strength.shape
        scores = np.empty((n, n_items, n_items, 2 + len(self.distance_effect)))
        for first in range(n_items):
            scores[:, first] = in_contexts.of_first(first, slice(None), slice(None)).transpose(1, 2, 0)
        return scores

    def in_contexts(self, columns: FloatArray) -> MainEffectScores:
        """Return the scores in contexts with smooth columns, (n, q), from which those of single pairs follow."""
        design = with_constant(columns)
        common, item = [], []
        for tie in self.tie:
            of_tie = product(design, tie.T)
            common.append(of_tie[:, :1])
            item.append(of_tie[:, 1:])
        return MainEffectScores(self, product(design, self.strength.T), tuple(common), tuple(item))

    def at(self, columns: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the scores, (r, C), of one pair in each of r contexts with smooth columns, (r, q)."""
        scores = np.empty((len(first), 2 + len(self.distance_effect)))
        for rows in row_slices(*columns.shape):
            scores[rows] = self.of_design(with_constant(columns[rows]), first[rows], second[rows])
        return scores

    def of_design(self, design: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the scores as :meth:`at` does, for smooth columns with a constant in front, (r, 1 + q)."""
        advantage = _row_products(design, self.strength[first] - self.strength[second])
        advantage += self.pair[first, second] + self.position
        scores = np.empty((len(first), 2 + len(self.distance_effect)))
        scores[:, 0], scores[:, 1] = advantage / 2, -advantage / 2
        distance = np.sqrt(1 + advantage**2) - 1
        for c, (gamma, tie) in enumerate(zip(self.distance_effect, self.tie, strict=True), start=2):
            scores[:, c] = _row_products(design, tie[0] + (tie[1 + first] + tie[1 + second])) + gamma * distance
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class MainEffectScores:
    """Main effects in n contexts, as :class:`dmlrank.nuisance.all_pairs.predict.PairOffset` describes them.

    effects: The main effects.
    strength (n, K): u of every item in every context.
    tie_level (n, 1): s in every context, by kind of tie.
    tie_by_item (n, K): v of every item in every context, by kind of tie.
    """

    effects: MainEffects
    strength: FloatArray
    tie_level: tuple[FloatArray, ...]
    tie_by_item: tuple[FloatArray, ...]

    @property
    def mirrored(self) -> bool:
        """Whether there is no position effect."""
        return self.effects.position == 0

    def of_first(self, first: int, seconds: slice, contexts: IntArray | slice) -> FloatArray:
        """Return the scores, (C, b, k), of one first item and k second items in b contexts."""
        strength = self.strength[contexts]
        advantage = strength[:, first, None] - strength[:, seconds]
        advantage += self.effects.pair[first, seconds] + self.effects.position
        return self._scores(advantage, first, seconds, contexts)

    def of_second(self, second: int, firsts: slice, contexts: IntArray | slice) -> FloatArray:
        """Return the scores, (C, b, k), of k first items and one second item in b contexts."""
        strength = self.strength[contexts]
        advantage = strength[:, firsts] - strength[:, second, None]
        advantage += self.effects.pair[firsts, second] + self.effects.position
        return self._scores(advantage, second, firsts, contexts)

    def of_contexts(self, contexts: slice) -> MainEffectScores:
        """Return the scores in a range of the contexts."""
        return MainEffectScores(
            self.effects,
            self.strength[contexts],
            tuple(level[contexts] for level in self.tie_level),
            tuple(by_item[contexts] for by_item in self.tie_by_item),
        )

    def add_to_all(self, scores: FloatArray, contexts: slice) -> None:
        """Add the scores of all ordered pairs in b contexts to other scores, (C, b, K, K), in place."""
        strength = self.strength[contexts]
        advantage = strength[:, :, None] - strength[:, None, :]
        advantage += self.effects.pair + self.effects.position
        half = advantage / 2
        scores[0] += half
        scores[1] -= half
        if not self.tie_level:
            return
        # The square root of 1 + a^2, less 1, in the memory of the advantages.
        np.square(advantage, out=advantage)
        advantage += 1
        np.sqrt(advantage, out=advantage)
        advantage -= 1
        ties = zip(scores[2:], self.effects.distance_effect, self.tie_level, self.tie_by_item, strict=True)
        for of_tie, gamma, level, by_item in ties:
            np.multiply(advantage, gamma, out=half)
            of_tie += half
            of_tie += by_item[contexts][:, None, :]
            of_tie += (level[contexts] + by_item[contexts])[:, :, None]

    def _scores(self, advantage: FloatArray, item: int, others: slice, contexts: IntArray | slice) -> FloatArray:
        """Return scores from the advantages of the first items.

        Shapes: advantage (b, k).
        """
        scores = np.empty((2 + len(self.tie_level), *advantage.shape))
        np.divide(advantage, 2, out=scores[0])
        np.negative(scores[0], out=scores[1])
        if self.tie_level:
            distance = np.sqrt(1 + advantage**2) - 1
        ties = zip(self.effects.distance_effect, self.tie_level, self.tie_by_item, strict=True)
        for c, (gamma, level, by_item) in enumerate(ties, start=2):
            by_item = by_item[contexts]
            np.multiply(gamma, distance, out=scores[c])
            scores[c] += by_item[:, others] + (level[contexts] + by_item[:, item, None])
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class _ByItem:
    """A design matrix whose rows are sorted by item, so that the rows of an item form one or a few blocks.

    design (r, q): The matrix.
    blocks: Item, first row and end of each block. The blocks are so small that the linear algebra library uses one
        thread.
    n_items: Number of items, K.
    """

    design: FloatArray
    blocks: list[_Block]
    n_items: int

    @classmethod
    def of(cls, design: FloatArray, items: IntArray, n_items: int, width: int) -> _ByItem:
        """Divide a matrix into blocks.

        Shapes: design (r, q), items (r,).
        """
        bounds = np.searchsorted(items, np.arange(n_items + 1)).tolist()
        step = max(1, SINGLE_THREAD_MULTIPLICATIONS // (design.shape[1] * width))
        blocks = [
            (j, at, min(at + step, end))
            for j, (begin, end) in enumerate(pairwise(bounds))
            for at in range(begin, end, step)
        ]
        return cls(design, blocks, n_items)

    def times(self, coefficients: FloatArray) -> FloatArray:
        """Return each row times the coefficients of its item, (r, m); ``coefficients`` has the shape (K, q, m)."""
        products = np.empty((len(self.design), coefficients.shape[2]))
        for j, begin, end in self.blocks:
            np.matmul(self.design[begin:end], coefficients[j], out=products[begin:end])
        return products

    def sums(self, amount: FloatArray) -> FloatArray:
        """Return the sum of each item's rows times their amounts, (K, q, m); ``amount`` has the shape (r, m)."""
        sums = np.zeros((self.n_items, self.design.shape[1], amount.shape[1]))
        for j, begin, end in self.blocks:
            sums[j] += self.design[begin:end].T @ amount[begin:end]
        return sums


@dataclass(frozen=True, slots=True, eq=False)
class MainEffectsLikelihood:
    """The multinomial log-likelihood of labelled rows as a function of all main effects in one flat vector.

    The flat vector, (d,), holds the arrays of :class:`MainEffects` in the order of its attributes. All K x K
    entries of ``MainEffects.pair`` are in the vector, but only those above the diagonal are fitted.

    rows: The rows, r of them, sorted by the item shown first.
    shown_first, shown_second: The smooth columns, with a constant in front, sorted by the item shown first and by the
        item shown second.
    order_by_second (r,): Numbers of the rows in the order that ``shown_second`` has them in.
    place_by_second (r,): Place of each row in ``shown_second``; the inverse of ``order_by_second``.
    n_items: Number of items, K.
    pair_number (r,): Number of each row's unordered pair, i K + j with i < j.
    sign (r,): 1 where the item with the smaller code is shown first, otherwise -1.
    penalty (d,): Penalty of every effect, as a multiple of the ridge.
    precision (d,): Approximate Fisher information of the labels about every effect. It only scales the steps of the
        search.
    is_free (d,): Whether an effect is fitted; an effect that is not fitted is zero.

    References
    ----------
    Davidson (1970), On extending the Bradley-Terry model to accommodate ties; Wood (2017), Generalized Additive Models.
    """

    rows: LabelledRows
    shown_first: _ByItem
    shown_second: _ByItem
    order_by_second: IntArray
    place_by_second: IntArray
    n_items: int
    pair_number: IntArray
    sign: FloatArray
    penalty: FloatArray
    precision: FloatArray
    is_free: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: LabelledRows, n_items: int, ordered: bool) -> MainEffectsLikelihood:
        """Prepare labelled rows of K items; ``ordered`` says whether display order matters."""
        by_first = np.argsort(rows.first, kind="stable")
        design = with_constant(rows.columns, by_first)
        # The likelihood needs the columns in the two designs alone; here they would be in memory once more.
        rows = replace(rows, columns=np.empty((len(rows), 0))).only(by_first)
        order_by_second = np.argsort(rows.second, kind="stable")
        q, n_ties = design.shape[1], rows.y.shape[1] - 2
        sides = (
            _ByItem.of(design, rows.first, n_items, 1 + n_ties),
            _ByItem.of(design[order_by_second], rows.second[order_by_second], n_items, 1 + n_ties),
        )
        low, high = np.minimum(rows.first, rows.second), np.maximum(rows.first, rows.second)
        pair_number, sign = low * n_items + high, np.where(rows.first < rows.second, 1.0, -1.0)
        total = np.sum([rows.weight[r] @ np.square(design[r], dtype=float) for r in row_slices(*design.shape)], axis=0)
        weights = rows.weight, rows.weight[order_by_second]
        items = rows.first, rows.second[order_by_second]
        per_item = np.sum(
            [_information(s.design, i, w, n_items) for s, i, w in zip(sides, items, weights, strict=True)], axis=0
        )
        curves = np.ones((n_items, q))
        curves[:, 0] = _CONSTANT_PENALTY
        ties = np.ones((n_ties, 1 + n_items, q))
        ties[:, 1:] = _ITEM_TIE_PENALTY
        ties[:, 0, 0] = 0.0  # how frequent each kind of tie is overall is not penalised
        pairs = np.bincount(pair_number, weights=rows.weight, minlength=n_items**2)
        penalty = [curves, np.zeros(1), np.ones(n_items**2), np.full(n_ties, _DISTANCE_PENALTY), ties]
        tie_precision = np.concatenate([total[None], per_item])
        votes = rows.weight.sum(keepdims=True)
        precision = [per_item, votes, pairs, np.full(n_ties, total[0]), *[tie_precision] * n_ties]
        is_compared = (pairs > 0).astype(float)
        free = [np.ones_like(curves), np.full(1, float(ordered)), is_compared, np.ones(n_ties), np.ones_like(ties)]
        return cls(
            rows,
            *sides,
            order_by_second,
            np.argsort(order_by_second),
            n_items,
            pair_number,
            sign,
            _flat(penalty),
            MULTINOMIAL_CURVATURE * _flat(precision) + 1e-3,  # positive also for effects without labels
            _flat(free) > 0,
        )

    def search(
        self, ridge: float, start: FloatArray | None = None, *, tolerance: float | None = None
    ) -> PenalisedSearch:
        """Return a search for the effects with the largest penalised likelihood.

        Shapes: start (d,).
        """
        penalty = ridge * self.penalty
        # With steps in units of the standard errors, effects of items with few votes converge as fast as the others.
        step_scale = 1 / np.sqrt(self.precision + penalty)
        step_scale[~self.is_free] = 0.0
        return PenalisedSearch(self.loss, penalty, step_scale, start, tolerance=tolerance)

    def effects(self, flat: FloatArray) -> MainEffects:
        """Return the effects whose coefficients stand in a flat vector."""
        n_items, q, n_ties = self.n_items, self.shown_first.design.shape[1], self.rows.y.shape[1] - 2
        sizes = np.cumsum([n_items * q, 1, n_items**2, n_ties])
        strength, position, pair, gamma, tie = np.split(flat, sizes)
        upper = np.triu(pair.reshape(n_items, n_items), 1)
        return MainEffects(
            strength.reshape(n_items, q),
            float(position[0]),
            upper - upper.T,
            gamma,
            tie.reshape(n_ties, 1 + n_items, q),
        )

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the log-likelihood, and its gradient."""
        rows, effects = self.rows, self.effects(flat)
        scores = self._scores(effects)
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
        first, second = self.shown_first.sums(amount), self.shown_second.sums(amount[self.order_by_second])
        ties = [
            np.concatenate([first[..., c].sum(axis=0)[None], first[..., c] + second[..., c]])
            for c in range(1, amount.shape[1])
        ]
        gradient = _flat(
            [
                first[..., 0] - second[..., 0],
                by_advantage.sum(keepdims=True),
                np.bincount(self.pair_number, self.sign * by_advantage, minlength=self.n_items**2).astype(float),
                (root - 1) @ slope[:, 2:],
                *ties,
            ]
        )
        return float(loss), gradient

    def _scores(self, effects: MainEffects) -> FloatArray:
        """Return the scores of the rows, (r, C), which equal those of :meth:`MainEffects.of_design`."""
        rows, common, by_item = self.rows, effects.tie[:, 0], effects.tie[:, 1:]
        first = np.stack([effects.strength, *(common[:, None] + by_item)], axis=2)
        second = np.stack([-effects.strength, *by_item], axis=2)
        linear = self.shown_first.times(first) + self.shown_second.times(second)[self.place_by_second]
        advantage = linear[:, 0] + effects.pair[rows.first, rows.second] + effects.position
        distance = np.sqrt(1 + advantage**2) - 1
        return np.column_stack(
            [advantage / 2, -advantage / 2, linear[:, 1:] + distance[:, None] * effects.distance_effect]
        )


def _information(design: FloatArray, items: IntArray, weight: FloatArray, n_items: int) -> FloatArray:
    """Return sums of squared columns over the rows of each item, (K, q).

    Shapes: design (r, q), its rows sorted by item; items, weight (r,).
    """
    per_item = np.zeros((n_items, design.shape[1]))
    for j, begin, end in _ByItem.of(design, items, n_items, 1).blocks:
        per_item[j] += (np.square(design[begin:end], dtype=float).T @ weight[begin:end, None])[:, 0]
    return per_item


def _row_products(design: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Return the products of each row with its own coefficients, (r,); both arguments are (r, q)."""
    return np.einsum("rq,rq->r", design, coefficients)


def _flat(parts: Sequence[FloatArray]) -> FloatArray:
    """Return arrays of any shapes in one vector."""
    return np.concatenate([np.ravel(part) for part in parts]).astype(float)
