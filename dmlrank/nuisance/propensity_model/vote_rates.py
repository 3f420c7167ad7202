"""Vote rates: the probability that a shown battle gets a vote, given the features and the pair."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...data.preferences import FloatArray, IntArray, PreferenceData
from ...data.shown_battles import ShownBattles
from ..boosting.train import BinnedRows, BoosterSpec
from ..boosting.tuning import Tune
from ..training_rows import Folds, PairRows
from .all_pairs import BoostedPropensity, PairPropensity, TabulatedPairPropensity
from .estimate import boosters_by_fold


@dataclass(frozen=True, slots=True, eq=False)
class CrossFittedVoteRates:
    """Vote rates from one booster per fold, each trained on the battles outside the fold.

    models: The model of each fold.
    fold (n,): Fold of each context.
    x (n, p): Features of the contexts.
    n_items: K.
    ordered: Whether display order matters. Otherwise both orders have the rate of the order with the smaller code
        first.
    """

    models: tuple[BoostedPropensity, ...]
    fold: IntArray
    x: FloatArray
    n_items: int
    ordered: bool

    def table(self, contexts: IntArray) -> FloatArray:
        """Return out-of-fold rates of all pairs, (b, K, K), in b contexts."""
        table = np.empty((len(contexts), self.n_items, self.n_items))
        for fold, model in enumerate(self.models):
            rows = np.flatnonzero(self.fold[contexts] == fold)
            if len(rows):
                table[rows] = model.table(self.x[contexts[rows]], self.n_items)
        if not self.ordered:
            upper = np.triu(table)
            table = upper + np.swapaxes(upper, 1, 2)
        return table

    def at(self, context: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return out-of-fold rates of one pair each in b contexts, (b,)."""
        rates = np.empty(len(context))
        for fold, model in enumerate(self.models):
            rows = np.flatnonzero(self.fold[context] == fold)
            if len(rows):
                rates[rows] = model.at(self.x[context[rows]], first[rows], second[rows], self.n_items)
        return rates


@dataclass(frozen=True, slots=True, eq=False)
class TabulatedVoteRates:
    """Vote rates that are the same in all contexts.

    values (K, K): Rate of each ordered pair.
    """

    values: FloatArray

    def table(self, contexts: IntArray) -> FloatArray:
        """Return the rates of all pairs, (b, K, K), in b contexts."""
        return np.broadcast_to(self.values, (len(contexts), *self.values.shape))

    def at(self, context: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the rates of one pair each in b contexts, (b,)."""
        return self.values[first, second]


@dataclass(frozen=True, slots=True, eq=False)
class PropensitiesAsVoteRates:
    """Propensities of labels as vote rates, where every pair of every context counts as shown.

    pairs: Propensities of all pairs.
    """

    pairs: PairPropensity

    def table(self, contexts: IntArray) -> FloatArray:
        """Return the rates of all pairs, (b, K, K), in b contexts: the propensities, at most 1."""
        return np.minimum(self.pairs.table(contexts), 1.0)

    @property
    def is_constant(self) -> bool:
        """Whether the rates are the same in all contexts."""
        return isinstance(self.pairs, TabulatedPairPropensity) and len(self.pairs.values) == 1


def estimate_vote_rates(
    data: PreferenceData,
    battles: ShownBattles,
    folds: Folds,
    seeds: list[np.random.SeedSequence],
    *,
    tune: Tune,
) -> CrossFittedVoteRates | TabulatedVoteRates:
    """Estimate the probability that a shown battle gets a vote, by cross-fitting.

    One booster per fold learns from the features and the pair which shown battles got a vote. Without features, the
    rate of a pair is the share of its shown battles that got a vote.
    """
    if data.x.shape[1] == 0:
        return TabulatedVoteRates(_share_of_votes(data, battles))
    # Contexts are sorted by identifier, so that the models do not depend on the order of the rows of the data.
    by_identifier = np.lexsort(
        (battles.voted, battles.flipped, battles.second, battles.first, data.seed_order[battles.context])
    )
    rows = PairRows(
        battles.context[by_identifier],
        battles.first[by_identifier],
        battles.second[by_identifier],
        battles.voted[by_identifier].astype(np.intp),
        battles.share[by_identifier],
    )
    rngs = [np.random.default_rng(seed) for seed in seeds]
    spec = BoosterSpec(None, data.n_items, tune)
    boosters = boosters_by_fold(BinnedRows.of_pairs(rows, data.x, tune), folds, spec, rngs)
    models = tuple(BoostedPropensity(booster, None, ordered=True) for booster in boosters)
    return CrossFittedVoteRates(models, folds.fold, data.x, data.n_items, data.ordered)


def _share_of_votes(data: PreferenceData, battles: ShownBattles) -> FloatArray:
    """Return the share of battles with a vote for every ordered pair, (K, K); the overall share for pairs not shown."""
    pair = battles.first * data.n_items + battles.second
    shown = np.bincount(pair, battles.share, data.n_items**2).reshape(data.n_items, -1)
    voted = np.bincount(pair, battles.share * battles.voted, data.n_items**2).reshape(data.n_items, -1)
    if not data.ordered:
        shown, voted = shown + shown.T, voted + voted.T
    overall = float(voted.sum() / shown.sum())
    return np.where(shown > 0, voted / np.where(shown > 0, shown, 1.0), overall)


def shown_data(data: PreferenceData, battles: ShownBattles) -> PreferenceData:
    """Return the data with the shown cells in place of the labelled cells, for a model of what is shown."""
    return replace(data, cells=battles.cells(data.n_items, data.n_categories)[0])
