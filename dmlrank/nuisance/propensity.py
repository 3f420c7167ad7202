"""Estimated propensities: models of all pairs, cross-fitted or labelling rates, their floor and scale, and vote rates.

The estimator of a restricted Bradley-Terry model needs the propensities of all pairs of a context, labelled or not,
because its Fisher information in a context is a sum over the pairs that may be labelled, weighted by propensities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from .._utils.tasks_and_threads import current, in_order, report
from ..data.arrays import BoolArray
from ..data.preferences import FloatArray, IntArray, PreferenceData, ShownBattles
from .boosting import BinnedRows, Settings, Tune, predict_pairs, split_jobs, thread_count, train_booster
from .training_rows import Folds, PairRows, TrainingRows, ordered_cells

if TYPE_CHECKING:
    import lightgbm as lgb

    from .all_pairs.predict import PairTrees
    from .pair_choice import PairShares


class PairPropensity(Protocol):
    """Propensities P(S_jk = 1 | x) of all ordered pairs (j, k), where S_jk is 1 if the pair is labelled, and else 0."""

    def table(self, contexts: IntArray) -> FloatArray:
        """Return the propensities of all pairs, (b, K, K), in b contexts; zero for a pair that is never labelled.

        Where display order is ignored, an entry is the expected number of labelled orders: the sum over both orders.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TabulatedPairPropensity:
    """Propensities of all pairs in a table per context, (n, K, K), or in one for all contexts, (1, K, K)."""

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
    """P(any pair of the context is labelled | x), by a booster, or constant where there is nothing to learn."""

    share: float
    booster: lgb.Booster | None = None

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the probability of any label, (b,), in contexts with features ``x``, (b, p)."""
        if self.booster is None:
            return np.full(len(x), self.share)
        return np.asarray(self.booster.predict(x, num_threads=current().n_jobs or 0), dtype=float)


@dataclass(frozen=True, slots=True, eq=False)
class PairChoicePropensity:
    """P(any label | x) times the pair's share, for data with at most one labelled pair per context."""

    shares: PairShares
    any_label: AnyLabelModel
    ordered: bool

    def table(self, x: FloatArray, n_items: int) -> FloatArray:
        """Return the estimates for all pairs, (b, K, K)."""
        table = self.shares.table(x) * self.any_label.predict(x)[:, None, None]
        return table if self.ordered else table + np.swapaxes(table, 1, 2)

    def at(self, x: FloatArray, first: IntArray, second: IntArray, n_items: int) -> FloatArray:
        """Return the estimates for one pair of each context, (b,)."""
        share = self.shares.at(x, first, second, both_orders=not self.ordered)
        return share * self.any_label.predict(x)


@dataclass(frozen=True, slots=True, eq=False)
class BoostedPropensity:
    """Propensities from a booster over rows [x, first, second].

    booster: P(the pair is labelled | x, pair), which :class:`.PairTrees` predict faster for all pairs. None if there is
        nothing to learn: every estimate is then one, which the scale turns into the pair's labelling rate.
    any_label: P(some pair is labelled | x), for data with at most one labelled pair per context, to which estimates are
        normalised; None for other data.
    """

    booster: lgb.Booster | PairTrees | None
    any_label: AnyLabelModel | None
    ordered: bool

    def table(self, x: FloatArray, n_items: int) -> FloatArray:
        """Return the estimates for all pairs, (b, K, K)."""
        from .all_pairs.predict import predict_all_pairs

        if self.booster is None:
            return np.full((len(x), n_items, n_items), 1.0 if self.ordered else 2.0)
        table = predict_all_pairs(self.booster, x, n_items)[..., 0]
        if self.any_label is not None:
            total = table.sum(axis=(1, 2))
            table = table * (self.any_label.predict(x) / total)[:, None, None]
        return table if self.ordered else table + np.swapaxes(table, 1, 2)

    def at(self, x: FloatArray, first: IntArray, second: IntArray, n_items: int) -> FloatArray:
        """Return the estimates for one pair of each context, (b,)."""
        from .all_pairs.predict import PairTrees
        from .pair_choice import pair_entries

        if self.booster is None or self.any_label is not None:
            return pair_entries(lambda chunk: self.table(chunk, n_items), x, first, second, n_items)
        orders = [(first, second)] if self.ordered else [(first, second), (second, first)]
        booster = self.booster.booster if isinstance(self.booster, PairTrees) else self.booster
        return np.sum([predict_pairs(booster, x, j, k) for j, k in orders], axis=0)


# The model of one fold: the propensities of all pairs, ``table(x, n_items)``, (b, K, K), and of single pairs, ``at``.
FoldPropensityModel: TypeAlias = PairChoicePropensity | BoostedPropensity


@dataclass(frozen=True, slots=True, eq=False)
class CrossFittedPairPropensity:
    """Cross-fitted propensities of all pairs, clipped at the floor and scaled like those of the labelled cells.

    floor, scale (K, K): Floor and scale of each pair; the scale is zero for a pair without a label.
    """

    models: tuple[FoldPropensityModel, ...]
    fold: IntArray
    x: FloatArray
    floor: FloatArray
    scale: FloatArray

    def table(self, contexts: IntArray) -> FloatArray:
        """Return out-of-fold propensities of all pairs, (b, K, K), in b contexts."""
        return np.maximum(self._by_fold(contexts), self.floor) * self.scale

    def at(self, context: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return out-of-fold propensities of one pair each in b contexts, (b,)."""
        estimates = self._by_fold(context, (first, second))
        return np.maximum(estimates, self.floor[first, second]) * self.scale[first, second]

    def _by_fold(self, context: IntArray, pair: tuple[IntArray, IntArray] | None = None) -> FloatArray:
        """Return estimates in b contexts by the models of their folds: of one pair each, (b,), or of all, (b, K, K)."""
        fold, n_items = self.fold[context], len(self.floor)
        values = np.empty((len(context), *((n_items, n_items) if pair is None else ())))
        for number, model in enumerate(self.models):
            rows = np.flatnonzero(fold == number)
            if len(rows):
                of_rows = self.x[context[rows]]
                if pair is None:
                    values[rows] = model.table(of_rows, n_items)
                else:
                    values[rows] = model.at(of_rows, pair[0][rows], pair[1][rows], n_items)
        return values


# The floor of a pair as a multiple of the pair's labelling rate. A label's weight 1 / pi is therefore at most ten times
# the weight that it would have if the pair were labelled equally often in all contexts.
_RELATIVE_FLOOR = 0.1


# Unlabelled pairs drawn for every labelled cell of a context.
NEGATIVES_PER_POSITIVE = 10


@dataclass(frozen=True, slots=True, eq=False)
class Propensity:
    """P(S_jk = 1 | x) at the labelled cells, (m,): "estimated", "marginal" (labelling rates of pairs) or "given".

    n_floored: Number of cells whose estimate was raised to the floor.
    pairs: Propensities of all pairs; None where only those of the labelled cells are known.
    """

    cells: FloatArray
    how: str
    n_floored: int = 0
    pairs: PairPropensity | None = None


def floor_and_scale(estimates: FloatArray, data: PreferenceData) -> tuple[FloatArray, FloatArray]:
    """Return the floor of every ordered pair's propensities and the factor of those above it, (K, K) each.

    The floor is a tenth of the pair's labelling rate. The scale makes the mean of S / pi over all contexts one; it is
    zero for a pair without a label.

    References
    ----------
    Hajek (1971), Comment on a paper by D. Basu, on weights that are normalised by their sum.
    """
    floor = _RELATIVE_FLOOR * (data.pair_counts() / data.n_contexts)
    inverse = 1 / np.maximum(estimates, floor[data.cells.first, data.cells.second])
    return floor, data.cells.sums(inverse, data.n_items) / data.n_contexts


def floored_and_scaled(estimates: FloatArray, data: PreferenceData) -> Propensity:
    """Apply the floor and the scale of estimates at the labelled cells, (m,), to these estimates."""
    first, second = data.cells.first, data.cells.second
    floor, scale = (table[first, second] for table in floor_and_scale(estimates, data))
    return Propensity(np.maximum(estimates, floor) * scale, "estimated", int((estimates < floor).sum()))


def for_both_orders(propensity: Propensity, data: PreferenceData, apart: BoolArray | None) -> Propensity:
    """Return propensities, halved where labels of models apart, (K,), stand for both orders of a pair shown in one."""
    if apart is None or not data.ordered or propensity.how == "given":
        return propensity
    first, second = data.cells.first, data.cells.second
    in_one = data.cells.of(apart) & (data.pair_counts()[second, first] == 0)
    return replace(propensity, cells=np.where(in_one, propensity.cells / 2, propensity.cells))


def marginal_propensity(data: PreferenceData, context_weight: FloatArray | None = None) -> Propensity:
    """Return each pair's labelling rate as its propensity: right where pairs were drawn regardless of the context.

    With rates among weighted contexts, (n,), the labels of each pair have weights that sum to one.
    """
    rates = data.pair_counts() / data.n_contexts
    if context_weight is not None:
        weights = data.cells.sums(context_weight[data.cells.context], data.n_items)
        # Labels that all have the weight zero count nothing, whatever their propensity is.
        rates = np.where(weights > 0, weights / context_weight.sum(), rates)
    pair_rates = rates if data.ordered else rates + rates.T
    pairs = TabulatedPairPropensity(pair_rates[None])
    return Propensity(rates[data.cells.first, data.cells.second], "marginal", pairs=pairs)


def estimate_propensity(
    data: PreferenceData, folds: Folds, seeds: list[np.random.SeedSequence], *, tune: Tune
) -> Propensity:
    """Estimate the propensities by cross-fitting, then clip them at the floor and scale them."""
    from .all_pairs.predict import PairTrees
    from .pair_choice import fit_pair_shares

    counts = data.pair_counts()
    # Without features, or where every pair is labelled everywhere, labelling rates are the propensities.
    if data.x.shape[1] == 0 or (counts[counts > 0] == data.n_contexts).all():
        return marginal_propensity(data)
    rngs, ordered = [np.random.default_rng(seed) for seed in seeds], data.ordered
    models: list[FoldPropensityModel]
    if np.bincount(data.cells.context).max(initial=0) > 1:
        models = [BoostedPropensity(booster, None, ordered) for booster in pair_boosters(data, folds, rngs, tune)]
    elif tune == "cv":
        shares = fit_pair_shares(data, folds.fold, rngs)
        any_label = _any_label_models(data, folds, rngs, tune)
        models = [PairChoicePropensity(*of_fold, ordered) for of_fold in zip(shares, any_label, strict=True)]
    else:
        boosters = pair_boosters(data, folds, rngs, tune)
        any_label = _any_label_models(data, folds, rngs, tune)
        trees = [booster and PairTrees.of(booster, data.n_items) for booster in boosters]
        models = [
            BoostedPropensity(of_fold, any_label_model if of_fold else None, ordered)
            for of_fold, any_label_model in zip(trees, any_label, strict=True)
        ]
    no_scale = np.ones((data.n_items, data.n_items))
    pairs = CrossFittedPairPropensity(tuple(models), folds.fold, data.x, 0 * no_scale, no_scale)
    estimates = pairs.at(data.cells.context, *data.cells.in_display_order)
    floor, scale = floor_and_scale(estimates, data)
    if not ordered:
        # They apply to a propensity that is the sum over both orders.
        floor, scale = floor + floor.T, scale + scale.T
    return replace(floored_and_scaled(estimates, data), pairs=replace(pairs, floor=floor, scale=scale))


def pair_boosters(
    data: PreferenceData, folds: Folds, rngs: list[np.random.Generator], tune: Tune
) -> list[lgb.Booster | None]:
    """Train a booster per fold for P(the pair is labelled | x, pair)."""
    return boosters_by_fold(BinnedRows.of_pairs(labelled_and_sampled_pairs(data, rngs[0]), data.x, tune), folds, rngs)


def _any_label_models(
    data: PreferenceData, folds: Folds, rngs: list[np.random.Generator], tune: Tune
) -> list[AnyLabelModel]:
    """Fit P(any label | x) for each fold; where every context has a label, the models predict the probability 1."""
    is_labelled = np.zeros(data.n_contexts, dtype=np.intp)
    is_labelled[data.cells.context] = 1
    if is_labelled.all():
        return [AnyLabelModel(1.0)] * len(rngs)
    contexts = np.argsort(data.seed_order)
    rows = TrainingRows(data.x[contexts], is_labelled[contexts], np.ones(len(contexts)), contexts)
    boosters = boosters_by_fold(BinnedRows.of(rows, tune, has_items=False), folds, rngs)
    return [AnyLabelModel(float(is_labelled.mean()), booster) for booster in boosters]


def boosters_by_fold(rows: BinnedRows, folds: Folds, rngs: list[np.random.Generator]) -> list[lgb.Booster | None]:
    """Train a booster for each fold on the rows of the contexts outside it, or none where all their labels are equal.

    All folds share the bins of the rows. With ``tune="cv"``, and with ``tune="random"`` on many rows, the settings
    are selected once for all folds: on the rows outside the first fold whose training rows have both labels.
    """
    fold = folds.fold[rows.unit]
    binned = replace(rows, unit=folds.unit[rows.unit])
    can_train = [len(np.unique(rows.label[fold != held_out])) > 1 for held_out in range(len(rngs))]
    settings: Settings | None = None
    if any(can_train):
        first = can_train.index(True)
        training_rows = binned.only(fold != first)
        if rows.tune == "cv" or training_rows.are_many:
            settings = training_rows.select_settings(rngs[first])
        # It would stay in memory while the folds are trained.
        del training_rows
    workers, jobs_per_fold = split_jobs(len(rows.label) * rows.n_features, len(rngs))
    if workers > 1:
        # The same number in all folds, although their sizes differ.
        smallest = min(int((fold != held_out).sum()) for held_out in range(len(rngs)))
        jobs_per_fold = thread_count(smallest * rows.n_features, jobs_per_fold)

    def train_fold(held_out: int) -> lgb.Booster | None:
        if not can_train[held_out]:
            return None
        return train_booster(binned.only(fold != held_out), rngs[held_out], settings)

    boosters: list[lgb.Booster | None] = []
    for booster in in_order(train_fold, range(len(rngs)), workers, n_jobs_of_each=jobs_per_fold):
        boosters.append(booster)
        report(len(boosters), len(rngs), "propensity, folds")
    return boosters


def labelled_and_sampled_pairs(data: PreferenceData, rng: np.random.Generator) -> PairRows:
    """Return the labelled cells (1) and sampled unlabelled pairs (0), weighted to stand for all, by context."""
    cells, n_items, n_pairs = data.cells, data.n_items, data.n_items * (data.n_items - 1)
    labelled = ordered_cells(data, np.ones(data.n_contexts, dtype=bool))
    n_labelled = np.bincount(cells.context[labelled], minlength=data.n_contexts)
    contexts = np.argsort(data.seed_order)
    n_draws = NEGATIVES_PER_POSITIVE * np.maximum(1, n_labelled[contexts])
    if n_draws.mean() >= n_pairs:
        # All pairs, where they are few.
        context, pair = np.repeat(contexts, n_pairs), np.tile(np.arange(n_pairs), len(contexts))
    else:
        context, pair = np.repeat(contexts, n_draws), rng.integers(n_pairs, size=n_draws.sum())
    # A pair code is first * (K - 1) + q, where q numbers all items except the first one: q is the second item if the
    # second item comes before the first one, and the second item minus 1 if it comes after the first one.
    first, second = pair // (n_items - 1), pair % (n_items - 1)
    second = second + (second >= first)
    key = (context * n_items + first) * n_items + second
    shown_first, shown_second = cells.in_display_order
    is_unlabelled = ~np.isin(key, (cells.context * n_items + shown_first) * n_items + shown_second)
    context, first, second = context[is_unlabelled], first[is_unlabelled], second[is_unlabelled]
    n_unlabelled = n_pairs - n_labelled
    n_drawn = np.bincount(context, minlength=data.n_contexts)
    return PairRows(
        np.concatenate([cells.context[labelled], context]),
        np.concatenate([shown_first[labelled], first]),
        np.concatenate([shown_second[labelled], second]),
        np.repeat([1, 0], [len(labelled), len(context)]),
        np.concatenate([np.ones(len(labelled)), n_unlabelled[context] / n_drawn[context]]),
    )


# --- vote rates -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CrossFittedVoteRates(CrossFittedPairPropensity):
    """Vote rates of ordered pairs from one booster per fold, each trained on the battles outside the fold.

    ordered: Whether display order matters; otherwise both orders have the rate of that with the smaller code first.
    """

    ordered: bool

    def table(self, contexts: IntArray) -> FloatArray:
        """Return out-of-fold rates of all pairs, (b, K, K), in b contexts."""
        table = CrossFittedPairPropensity.table(self, contexts)
        upper = np.triu(table)
        return table if self.ordered else upper + np.swapaxes(upper, 1, 2)


def estimate_vote_rates(
    data: PreferenceData, battles: ShownBattles, folds: Folds, seeds: list[np.random.SeedSequence], *, tune: Tune
) -> CrossFittedVoteRates | TabulatedPairPropensity:
    """Estimate the probability that a shown battle gets a vote: by fold, or by pair where there are no features."""
    if data.x.shape[1] == 0:
        pair, shape = battles.first * data.n_items + battles.second, (data.n_items, data.n_items)
        weights = battles.share, battles.share * battles.voted
        shown, voted = (np.bincount(pair, weight, data.n_items**2).reshape(shape) for weight in weights)
        if not data.ordered:
            shown, voted = shown + shown.T, voted + voted.T
        # Pairs that were not shown have the overall rate.
        overall = float(voted.sum() / shown.sum())
        return TabulatedPairPropensity(np.where(shown > 0, voted / np.where(shown > 0, shown, 1.0), overall)[None])
    # Contexts are sorted by identifier, so that the models do not depend on the order of the rows of the data.
    order = np.lexsort(
        (battles.voted, battles.flipped, battles.second, battles.first, data.seed_order[battles.context])
    )
    context, first, second = battles.context[order], battles.first[order], battles.second[order]
    rows = PairRows(context, first, second, battles.voted[order].astype(np.intp), battles.share[order])
    rngs = [np.random.default_rng(seed) for seed in seeds]
    boosters = boosters_by_fold(BinnedRows.of_pairs(rows, data.x, tune), folds, rngs)
    models = tuple(BoostedPropensity(booster, None, ordered=True) for booster in boosters)
    no_floor = np.zeros((data.n_items, data.n_items))
    return CrossFittedVoteRates(models, folds.fold, data.x, no_floor, np.ones_like(no_floor), data.ordered)
