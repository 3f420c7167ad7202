"""Smooth main effects: a contextual Bradley-Terry model with ties, as a penalised likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ..._utils.blas import PRODUCT, product
from ...data.preferences import FloatArray, IntArray
from ..smooth.minimise import MULTINOMIAL_CURVATURE, PenalisedSearch
from ..training_rows import LabelledRows

# Penalties relative to the ridge of an item's curves: how strong an item is on average is nearly free; how prone it is
# to ties hardly differs between items unless the data say so.
_LEVEL = 0.1
_CLOSENESS = 0.1
_TIE_ITEM = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class MainEffects:
    r"""Scores of the categories from one curve per item.

    With :math:`a = u_j(x) - u_k(x) + c_{jk} + \beta` the scores are :math:`a/2` (first wins), :math:`-a/2` (second
    wins) and, for every kind of tie, :math:`s(x) + v_j(x) + v_k(x) + \gamma (\sqrt{1 + a^2} - 1)`.

    Attributes
    ----------
    strength : ndarray, shape (K, 1 + q)
        u, by coefficients of a constant and of the smooth columns.
    position : float
        beta, the advantage of being shown first.
    pair : ndarray, shape (K, K)
        c, antisymmetric: what a pair departs from its items' strengths by.
    closeness : ndarray, shape (C - 2,)
        gamma, how ties change with the distance between the two items.
    tie : ndarray, shape (C - 2, 1 + K, 1 + q)
        s, then v of every item.
    """

    strength: FloatArray
    position: float
    pair: FloatArray
    closeness: FloatArray
    tie: FloatArray

    @property
    def importance(self) -> FloatArray:
        """How much each smooth column moves the scores, (q,): its squared coefficients, summed."""
        return np.asarray(np.square(self.strength[:, 1:]).sum(axis=0) + np.square(self.tie[..., 1:]).sum(axis=(0, 1)))

    def loss(self, rows: LabelledRows) -> float:
        """Log-loss of labelled rows."""
        scores = self.at(rows.columns, rows.first, rows.second)
        log_mu = scores - logsumexp(scores, axis=1, keepdims=True)
        return -float(rows.weight @ (rows.y * log_mu).sum(axis=1))

    def table(self, columns: FloatArray) -> FloatArray:
        """Scores of every ordered pair, (n, K, K, C), in contexts with smooth columns (n, q)."""
        design = _with_constant(columns)
        strength = product(design, self.strength.T)
        advantage = strength[:, :, None] - strength[:, None, :] + self.pair + self.position
        scores = np.empty((*advantage.shape, 2 + len(self.closeness)))
        scores[..., 0], scores[..., 1] = advantage / 2, -advantage / 2
        distance = np.sqrt(1 + advantage**2) - 1
        for c, (closeness, tie) in enumerate(zip(self.closeness, self.tie, strict=True), start=2):
            shared, item = np.split(product(design, tie.T), [1], axis=1)
            level = shared[:, :, None] + (item[:, :, None] + item[:, None, :])
            scores[..., c] = level + closeness * distance
        return scores

    def at(self, columns: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Scores of given pairs, (r, C), the columns of whose contexts are (r, q)."""
        return self.of_design(_with_constant(columns), first, second)

    def of_design(self, design: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """The same for columns with a constant in front, (r, 1 + q)."""
        advantage = _along(design, self.strength[first] - self.strength[second])
        advantage += self.pair[first, second] + self.position
        scores = np.empty((len(first), 2 + len(self.closeness)))
        scores[:, 0], scores[:, 1] = advantage / 2, -advantage / 2
        distance = np.sqrt(1 + advantage**2) - 1
        for c, (closeness, tie) in enumerate(zip(self.closeness, self.tie, strict=True), start=2):
            scores[:, c] = _along(design, tie[0] + (tie[1 + first] + tie[1 + second])) + closeness * distance
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class _ByItem:
    """A design matrix whose rows are sorted by item, so that an item's rows are one or a few blocks.

    Blocks, (item, begin, end), are small enough for the linear algebra library to keep to one thread.
    """

    design: FloatArray
    blocks: list[tuple[int, int, int]]
    n_items: int

    @classmethod
    def of(cls, design: FloatArray, items: IntArray, n_items: int, width: int) -> _ByItem:
        """For coefficients and amounts of ``width`` columns."""
        bounds = np.searchsorted(items, np.arange(n_items + 1)).tolist()
        step = max(1, PRODUCT // (design.shape[1] * width))
        blocks = [
            (j, at, min(at + step, end))
            for j, (begin, end) in enumerate(pairwise(bounds))
            for at in range(begin, end, step)
        ]
        return cls(design, blocks, n_items)

    def times(self, coefficients: FloatArray) -> FloatArray:
        """Each row times its item's coefficients, (K, q, m): (r, m)."""
        made = np.empty((len(self.design), coefficients.shape[2]))
        for j, begin, end in self.blocks:
            np.matmul(self.design[begin:end], coefficients[j], out=made[begin:end])
        return made

    def sums(self, amount: FloatArray) -> FloatArray:
        """Sums of each item's rows weighted by ``amount``, (r, m): (K, q, m)."""
        made = np.zeros((self.n_items, self.design.shape[1], amount.shape[1]))
        for j, begin, end in self.blocks:
            made[j] += self.design[begin:end].T @ amount[begin:end]
        return made


@dataclass(frozen=True, slots=True, eq=False)
class MainEffectsLikelihood:
    """The multinomial log-likelihood of rows as a function of all main effects in one flat vector.

    The rows are sorted by the item shown first; ``shown_second`` holds them sorted by the other one, ``second_order``
    says which row is where, and ``second_place`` where each row is.

    References
    ----------
    Davidson (1970), On extending the Bradley-Terry model to accommodate ties; Wood (2017), Generalized Additive Models.
    """

    rows: LabelledRows
    shown_first: _ByItem
    shown_second: _ByItem
    second_order: IntArray
    second_place: IntArray
    n_items: int
    pair: IntArray
    sign: FloatArray
    penalty: FloatArray
    precision: FloatArray
    free: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: LabelledRows, n_items: int, ordered: bool) -> MainEffectsLikelihood:
        """Of labelled rows of K items; ``ordered`` says whether being shown first may matter."""
        rows = rows.only(np.argsort(rows.first, kind="stable"))
        design = _with_constant(rows.columns)
        order = np.argsort(rows.second, kind="stable")
        q, n_ties = design.shape[1], rows.y.shape[1] - 2
        sides = (
            _ByItem.of(design, rows.first, n_items, 1 + n_ties),
            _ByItem.of(design[order], rows.second[order], n_items, 1 + n_ties),
        )
        low, high = np.minimum(rows.first, rows.second), np.maximum(rows.first, rows.second)
        pair, sign = low * n_items + high, np.where(rows.first < rows.second, 1.0, -1.0)
        square = np.square(design)
        total = rows.weight @ square
        per_item = np.zeros((n_items, q))
        for items in (rows.first, rows.second):
            at = np.argsort(items, kind="stable")
            side = _ByItem.of(square[at], items[at], n_items, 1)
            per_item += side.sums(rows.weight[at, None])[..., 0]
        curves = np.ones((n_items, q))
        curves[:, 0] = _LEVEL
        ties = np.ones((n_ties, 1 + n_items, q))
        ties[:, 1:] = _TIE_ITEM
        ties[:, 0, 0] = 0.0
        pairs = np.bincount(pair, weights=rows.weight, minlength=n_items**2)
        penalty = [curves, [0.0], np.ones(n_items**2), np.full(n_ties, _CLOSENESS), ties]
        tie_precision = np.concatenate([total[None], per_item])
        precision = [per_item, [rows.weight.sum()], pairs, np.full(n_ties, total[0]), *[tie_precision] * n_ties]
        free = [np.ones(curves.shape), [float(ordered)], pairs > 0, np.ones(n_ties), np.ones(ties.shape)]
        return cls(
            rows,
            *sides,
            order,
            np.argsort(order),
            n_items,
            pair,
            sign,
            _flat(penalty),
            MULTINOMIAL_CURVATURE * _flat(precision) + 1e-3,
            _flat(free) > 0,
        )

    def search(
        self, ridge: float, start: FloatArray | None = None, *, tolerance: float | None = None
    ) -> PenalisedSearch:
        """Return a search for the effects with the largest penalised likelihood.

        Parameters
        ----------
        ridge : float
            Prior precision of the coefficients, in votes.
        start : ndarray, shape (d,), optional
            Where the search begins; zero when None.
        tolerance : float, optional
            See :class:`dmlrank.nuisance.smooth.minimise.PenalisedSearch`.
        """
        penalty = ridge * self.penalty
        # Steps in units of each effect's own precision: models with few votes converge as fast as those with many.
        unit = 1 / np.sqrt(self.precision + penalty)
        unit[~self.free] = 0.0
        return PenalisedSearch(self.loss, penalty, unit, start, tolerance=tolerance)

    def effects(self, flat: FloatArray) -> MainEffects:
        """The flat vector's parts under their names."""
        n_items, q, n_ties = self.n_items, self.shown_first.design.shape[1], self.rows.y.shape[1] - 2
        sizes = np.cumsum([n_items * q, 1, n_items**2, n_ties])
        strength, position, pair, closeness, tie = np.split(flat, sizes)
        upper = np.triu(pair.reshape(n_items, n_items), 1)
        return MainEffects(
            strength.reshape(n_items, q),
            float(position[0]),
            upper - upper.T,
            closeness,
            tie.reshape(n_ties, 1 + n_items, q),
        )

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log-likelihood, and its gradient."""
        rows, effects = self.rows, self.effects(flat)
        scores = self._scores(effects)
        top = scores.max(axis=1)
        share = np.exp(scores - top[:, None])
        total = share.sum(axis=1)
        log_total = top + np.log(total)
        loss = rows.weight @ (log_total - (rows.y * scores).sum(axis=1))
        slope = rows.weight[:, None] * (share / total[:, None] - rows.y)
        advantage = scores[:, 0] - scores[:, 1]
        root = np.sqrt(1 + advantage**2)
        through = (slope[:, 0] - slope[:, 1]) / 2 + (slope[:, 2:] @ effects.closeness) * advantage / root
        amount = np.column_stack([through, slope[:, 2:]])
        first, second = self.shown_first.sums(amount), self.shown_second.sums(amount[self.second_order])
        ties = [
            np.concatenate([first[..., c].sum(axis=0)[None], first[..., c] + second[..., c]])
            for c in range(1, amount.shape[1])
        ]
        gradient = _flat(
            [
                first[..., 0] - second[..., 0],
                [through.sum()],
                np.bincount(self.pair, weights=self.sign * through, minlength=self.n_items**2),
                (root - 1) @ slope[:, 2:],
                *ties,
            ]
        )
        return float(loss), gradient

    def _scores(self, effects: MainEffects) -> FloatArray:
        """Scores of the rows, (r, C), as :meth:`MainEffects.of_design` gives them."""
        rows, common, own = self.rows, effects.tie[:, 0], effects.tie[:, 1:]
        first = np.stack([effects.strength, *(common[:, None] + own)], axis=2)
        second = np.stack([-effects.strength, *own], axis=2)
        linear = self.shown_first.times(first) + self.shown_second.times(second)[self.second_place]
        advantage = linear[:, 0] + effects.pair[rows.first, rows.second] + effects.position
        distance = np.sqrt(1 + advantage**2) - 1
        return np.column_stack([advantage / 2, -advantage / 2, linear[:, 1:] + distance[:, None] * effects.closeness])


def _with_constant(columns: FloatArray) -> FloatArray:
    return np.hstack([np.ones((len(columns), 1)), columns])


def _along(design: FloatArray, coefficients: FloatArray) -> FloatArray:
    return np.einsum("rq,rq->r", design, coefficients)


def _flat(parts: list) -> FloatArray:
    return np.concatenate([np.ravel(part) for part in parts]).astype(float)
