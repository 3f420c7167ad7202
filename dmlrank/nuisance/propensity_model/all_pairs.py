"""Propensities of all pairs of a context, labelled or not.

The estimator of a restricted Bradley-Terry model needs them, because its Fisher information in a context is a sum over
all pairs that may be labelled, weighted by their propensities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import lightgbm as lgb
import numpy as np

from ..._utils.computation import current
from ...data.preferences import FloatArray, IntArray
from ..all_pairs.predict import PairTrees, predict_all_pairs
from ..training_rows import stack_rows
from .pair_choice import PairShares, pair_entries


class PairPropensity(Protocol):
    """Propensities P(S_jk = 1 | x) of all ordered pairs (j, k), where S_jk is 1 if the pair is labelled, and else 0."""

    def table(self, contexts: IntArray) -> FloatArray:
        """Return the propensities of all pairs, (b, K, K), in b contexts.

        The propensity of a pair that is never labelled is zero. Where display order is ignored, an entry is the
        expected number of labelled orders of the pair: the sum over both orders.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TabulatedPairPropensity:
    """Propensities of all pairs in a table.

    values (n, K, K): One table per context, or a single one where the propensities are the same in all contexts.
    """

    values: FloatArray

    def table(self, contexts: IntArray) -> FloatArray:
        """Return the propensities of all pairs, (b, K, K), in b contexts."""
        if len(self.values) == 1:
            return np.broadcast_to(self.values, (len(contexts), *self.values.shape[1:]))
        return np.asarray(self.values[contexts], dtype=float)

    def at(self, context: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the propensities of one pair each in b contexts, (b,)."""
        return np.asarray(self.values[0 if len(self.values) == 1 else context, first, second])


@dataclass(frozen=True, slots=True, eq=False)
class AnyLabelModel:
    """P(any pair of the context is labelled | x).

    share: Share of contexts that have a label. Without a booster, this share is the prediction for every context.
    booster: Predicts the probability from the features. None if every context has a label, or if the training contexts
        of the fold all have a label or all have none, so that there is nothing to learn.
    """

    share: float
    booster: lgb.Booster | None = None

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the probability of any label, (b,), in contexts with features ``x``, (b, p)."""
        if self.booster is None:
            return np.full(len(x), self.share)
        return np.asarray(self.booster.predict(x, num_threads=current().lightgbm_threads), dtype=float)


class FoldPropensityModel(Protocol):
    """A propensity model fitted for one fold, before its estimates are clipped at the floor and scaled."""

    def table(self, x: FloatArray, n_items: int) -> FloatArray:
        """Return the estimates for all pairs, (b, K, K); where display order is ignored, sums over both orders."""
        ...

    def at(self, x: FloatArray, first: IntArray, second: IntArray, n_items: int) -> FloatArray:
        """Return the estimates for one pair of each context, (b,).

        Shapes: x (b, p), first, second (b,).
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PairChoicePropensity:
    """P(any label | x) times the pair's share, for data with at most one labelled pair per context.

    shares: P(the pair is the labelled one | x, some pair is labelled).
    any_label: P(some pair is labelled | x).
    ordered: Whether display order matters.
    """

    shares: PairShares
    any_label: AnyLabelModel
    ordered: bool

    def table(self, x: FloatArray, n_items: int) -> FloatArray:
        """Return the estimates for all pairs, (b, K, K)."""
        table = self.shares.table(x) * self.any_label.predict(x)[:, None, None]
        return table if self.ordered else table + np.swapaxes(table, 1, 2)

    def at(self, x: FloatArray, first: IntArray, second: IntArray, n_items: int) -> FloatArray:
        """Return the estimates for one pair of each context, (b,).

        Shapes: x (b, p), first, second (b,).
        """
        share = self.shares.at(x, first, second, both_orders=not self.ordered)
        return share * self.any_label.predict(x)


@dataclass(frozen=True, slots=True, eq=False)
class BoostedPropensity:
    """Propensities from a booster over rows [x, first, second].

    booster: P(the pair is labelled | x, pair). A :class:`.PairTrees` predicts the same as its booster, but all pairs
        faster. None if the training contexts have labels on all pairs or on none, so that there is nothing to learn.
        Every estimate is then one. The scale (:func:`.floor_and_scale`) turns this one into the pair's labelling rate.
    any_label: P(some pair is labelled | x), for data with at most one labelled pair per context. The booster's
        estimates are then normalised to sum to this probability in every context. None for other data.
    ordered: Whether display order matters.
    """

    booster: lgb.Booster | PairTrees | None
    any_label: AnyLabelModel | None
    ordered: bool

    def table(self, x: FloatArray, n_items: int) -> FloatArray:
        """Return the estimates for all pairs, (b, K, K)."""
        if self.booster is None:
            return np.full((len(x), n_items, n_items), 1.0 if self.ordered else 2.0)
        table = predict_all_pairs(self.booster, x, n_items)[..., 0]
        if self.any_label is not None:
            total = table.sum(axis=(1, 2))
            table = table * (self.any_label.predict(x) / total)[:, None, None]
        return table if self.ordered else table + np.swapaxes(table, 1, 2)

    def at(self, x: FloatArray, first: IntArray, second: IntArray, n_items: int) -> FloatArray:
        """Return the estimates for one pair of each context, (b,).

        Shapes: x (b, p), first, second (b,).
        """
        if self.booster is None or self.any_label is not None:
            return pair_entries(lambda chunk: self.table(chunk, n_items), x, first, second, n_items=n_items)
        orders = [(first, second)] if self.ordered else [(first, second), (second, first)]
        stacks = (stack_rows(x, np.arange(len(x)), j, k) for j, k in orders)
        booster = self.booster.booster if isinstance(self.booster, PairTrees) else self.booster
        return np.sum([booster.predict(rows, num_threads=current().lightgbm_threads) for rows in stacks], axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class MeanPropensity:
    """The mean of the models of all folds, for contexts that none of these models has seen.

    models: One per fold.
    """

    models: tuple[FoldPropensityModel, ...]

    def table(self, x: FloatArray, n_items: int) -> FloatArray:
        """Return the estimates for all pairs, (b, K, K)."""
        return np.asarray(np.mean([model.table(x, n_items) for model in self.models], axis=0))

    def at(self, x: FloatArray, first: IntArray, second: IntArray, n_items: int) -> FloatArray:
        """Return the estimates for one pair of each context, (b,).

        Shapes: x (b, p), first, second (b,).
        """
        return np.asarray(np.mean([model.at(x, first, second, n_items) for model in self.models], axis=0))


def by_fold(
    models: Sequence[FoldPropensityModel],
    fold: IntArray,
    shape: tuple[int, ...],
    predict: Callable[[FoldPropensityModel, IntArray], FloatArray],
) -> FloatArray:
    """Return predictions, (b, ...), each by the model of its fold, (b,); ``predict`` takes a model and rows."""
    values = np.empty((len(fold), *shape))
    for number, model in enumerate(models):
        rows = np.flatnonzero(fold == number)
        if len(rows):
            values[rows] = predict(model, rows)
    return values


@dataclass(frozen=True, slots=True, eq=False)
class CrossFittedPairPropensity:
    """Cross-fitted propensities of all pairs, clipped at the floor and scaled like those of the labelled cells.

    models: The model of each fold, trained on the contexts outside the fold, then the mean of these models where some
        contexts came after the training.
    fold (n,): The model of each context, by its place in ``models``.
    x (n, p): Features of the contexts.
    floor, scale (K, K): Floor and scale of each pair; the scale is zero for a pair without a label.
    """

    models: tuple[FoldPropensityModel, ...]
    fold: IntArray
    x: FloatArray
    floor: FloatArray
    scale: FloatArray

    @property
    def trained(self) -> tuple[FoldPropensityModel, ...]:
        """The models of the folds, without their mean."""
        return tuple(model for model in self.models if not isinstance(model, MeanPropensity))

    def table(self, contexts: IntArray) -> FloatArray:
        """Return out-of-fold propensities of all pairs, (b, K, K), in b contexts."""
        n_items = len(self.floor)
        table = by_fold(
            self.models,
            self.fold[contexts],
            (n_items, n_items),
            lambda model, rows: model.table(self.x[contexts[rows]], n_items),
        )
        return np.maximum(table, self.floor) * self.scale

    def at(self, context: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return out-of-fold propensities of one pair each in b contexts, (b,)."""
        estimates = by_fold(
            self.models,
            self.fold[context],
            (),
            lambda model, rows: model.at(self.x[context[rows]], first[rows], second[rows], len(self.floor)),
        )
        return np.maximum(estimates, self.floor[first, second]) * self.scale[first, second]
