"""Propensities of all pairs of a context, for estimators whose information depends on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...data.preferences import FloatArray, IntArray
from ..all_pairs.predict import PairTrees, RowPredictor, predict_all_pairs
from ..training_rows import stack_rows
from .pair_choice import PairShares, pair_entries


class PairPropensity(Protocol):
    """P(S_jk = 1 | x) for all pairs of chosen contexts."""

    def table(self, contexts: IntArray) -> FloatArray:
        """Propensities, (b, K, K), zero for pairs that are never labelled; both orders' sum where order is ignored."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GivenPairs:
    """Known propensities, (n, K, K), or (1, K, K) where they are the same in all contexts."""

    values: FloatArray

    def table(self, contexts: IntArray) -> FloatArray:
        """Those of the contexts."""
        if len(self.values) == 1:
            return np.broadcast_to(self.values, (len(contexts), *self.values.shape[1:]))
        return np.asarray(self.values[contexts], dtype=float)


@dataclass(frozen=True, slots=True, eq=False)
class AnyLabel:
    """P(a context has any label | x): a booster, or one number where there is nothing to learn."""

    share: float
    booster: RowPredictor | None = None

    def predict(self, x: FloatArray, n_jobs: int | None) -> FloatArray:
        """The probability in contexts with features ``x``, (b,)."""
        if self.booster is None:
            return np.full(len(x), self.share)
        return np.asarray(self.booster.predict(x, num_threads=n_jobs or 0), dtype=float)


class FoldSelection(Protocol):
    """What one fold has learnt of selection, before floor and scale."""

    def table(self, x: FloatArray, n_items: int, n_jobs: int | None) -> FloatArray:
        """Estimates for all pairs, (b, K, K); the sum over both orders where order is ignored."""
        ...

    def at(self, x: FloatArray, first: IntArray, second: IntArray, n_items: int, n_jobs: int | None) -> FloatArray:
        """Estimates for one pair of each context, (b,)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SharedSelection:
    """P(any label | x), times the shares of the pairs: where no context has more than one labelled pair."""

    shares: PairShares
    any_label: AnyLabel
    ordered: bool

    def table(self, x: FloatArray, n_items: int, n_jobs: int | None) -> FloatArray:
        """Estimates for all pairs, (b, K, K)."""
        table = self.shares.table(x, n_jobs) * self.any_label.predict(x, n_jobs)[:, None, None]
        return table if self.ordered else table + np.swapaxes(table, 1, 2)

    def at(self, x: FloatArray, first: IntArray, second: IntArray, n_items: int, n_jobs: int | None) -> FloatArray:
        """Estimates for one pair of each context, (b,)."""
        return self.shares.at(x, first, second, n_jobs, not self.ordered) * self.any_label.predict(x, n_jobs)


@dataclass(frozen=True, slots=True, eq=False)
class BoostedSelection:
    """A booster over rows [x, first, second].

    Attributes
    ----------
    booster : Booster, PairTrees or None
        P(the pair is labelled | x, pair), prepared for all pairs or not; None where every pair is, or none.
    any_label : AnyLabel or None
        There where no context has more than one labelled pair: estimates are then shares of its probability.
    ordered : bool
    """

    booster: RowPredictor | PairTrees | None
    any_label: AnyLabel | None
    ordered: bool

    def table(self, x: FloatArray, n_items: int, n_jobs: int | None) -> FloatArray:
        """Estimates for all pairs, (b, K, K)."""
        if self.booster is None:
            return np.full((len(x), n_items, n_items), 1.0 if self.ordered else 2.0)
        table = predict_all_pairs(self.booster, x, n_items, n_jobs=n_jobs)[..., 0]
        if self.any_label is not None:
            total = table.sum(axis=(1, 2))
            table = table * (self.any_label.predict(x, n_jobs) / total)[:, None, None]
        return table if self.ordered else table + np.swapaxes(table, 1, 2)

    def at(self, x: FloatArray, first: IntArray, second: IntArray, n_items: int, n_jobs: int | None) -> FloatArray:
        """Estimates for one pair of each context, (b,)."""
        if self.booster is None or self.any_label is not None:
            return pair_entries(lambda own: self.table(own, n_items, n_jobs), x, first, second, n_items=n_items)
        orders = [(first, second)] if self.ordered else [(first, second), (second, first)]
        rows = (stack_rows(x, np.arange(len(x)), a, b) for a, b in orders)
        booster = self.booster.booster if isinstance(self.booster, PairTrees) else self.booster
        return np.sum([booster.predict(both, num_threads=n_jobs or 0) for both in rows], axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class EstimatedPairs:
    """Cross-fitted propensities, floored and scaled as those of the labelled cells are.

    Attributes
    ----------
    folds : tuple of FoldSelection
    fold : ndarray of int, shape (n,)
    x : ndarray, shape (n, p)
    floor, scale : ndarray, shape (K, K)
        By pair; the scale is zero for pairs without a label.
    n_jobs : int or None
    """

    folds: tuple[FoldSelection, ...]
    fold: IntArray
    x: FloatArray
    floor: FloatArray
    scale: FloatArray
    n_jobs: int | None

    def table(self, contexts: IntArray) -> FloatArray:
        """Out-of-fold estimates of the contexts."""
        n_items = len(self.floor)
        made = np.empty((len(contexts), n_items, n_items))
        for number, learnt in enumerate(self.folds):
            here = np.flatnonzero(self.fold[contexts] == number)
            if len(here):
                made[here] = learnt.table(self.x[contexts[here]], n_items, self.n_jobs)
        return np.maximum(made, self.floor) * self.scale
