"""Estimated propensities of labels: cross-fitted models or labelling rates, their floor and scale, and vote rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np

from ..._utils.computation import in_order, report
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ...data.vote_columns import ShownBattles
from ..all_pairs.predict import PairTrees
from ..boosting.train import (
    BinnedRows,
    BoosterSpec,
    a_sample_is_enough,
    select_settings,
    split_jobs,
    train_booster,
)
from ..boosting.tuning import Settings, Tune
from ..training_rows import Folds, PairRows, TrainingRows, ordered_cells
from .all_pairs import (
    AnyLabelModel,
    BoostedPropensity,
    CrossFittedPairPropensity,
    FoldPropensityModel,
    PairChoicePropensity,
    PairPropensity,
    TabulatedPairPropensity,
    by_fold,
)
from .pair_choice import fit_pair_shares

# The floor of a pair as a multiple of the pair's labelling rate. A label's weight 1 / pi is therefore at most ten times
# the weight that it would have if the pair were labelled equally often in all contexts.
_RELATIVE_FLOOR = 0.1


# Unlabelled pairs drawn for every labelled cell of a context.
NEGATIVES_PER_POSITIVE = 10


@dataclass(frozen=True, slots=True, eq=False)
class Propensity:
    """P(S_jk = 1 | x) at the labelled cells.

    cells (m,): Propensity of each labelled cell.
    how: Where the propensities come from: ``"estimated"`` by models of the features, ``"marginal"`` (labelling rates of
        the pairs) or ``"given"`` by the user.
    n_floored: Number of cells whose estimate was raised to the floor.
    pairs: Propensities of all pairs; None where only those of the labelled cells are known.
    estimates (m,): What the models predict at the labelled cells, before floor and scale; None where no model predicts.
    """

    cells: FloatArray
    how: str
    n_floored: int = 0
    pairs: PairPropensity | None = None
    estimates: FloatArray | None = None


def floor_and_scale(estimates: FloatArray, data: PreferenceData) -> tuple[FloatArray, FloatArray]:
    """Return the floor of every ordered pair's propensities and the factor of those above it, (K, K) each.

    The floor is a tenth of the pair's labelling rate, which is the share of contexts in which the pair is labelled.
    The scale makes the mean of S / pi over all contexts one, where S says whether the pair is labelled; it is zero for
    a pair without a label.

    Shapes: estimates (m,), at the labelled cells.

    References
    ----------
    Hajek (1971), Comment on a paper by D. Basu, on weights that are normalised by their sum.
    """
    pair = data.cells.first * data.n_items + data.cells.second
    floor = _RELATIVE_FLOOR * (data.pair_counts() / data.n_contexts)
    inverse = 1 / np.maximum(estimates, floor.reshape(-1)[pair])
    scale = np.bincount(pair, weights=inverse, minlength=data.n_items**2) / data.n_contexts
    return floor, scale.reshape(floor.shape)


def floored_and_scaled(estimates: FloatArray, data: PreferenceData) -> Propensity:
    """Apply the floor and the scale of estimates at the labelled cells, (m,), to these estimates."""
    first, second = data.cells.first, data.cells.second
    floor, scale = (table[first, second] for table in floor_and_scale(estimates, data))
    return Propensity(np.maximum(estimates, floor) * scale, "estimated", int((estimates < floor).sum()))


def marginal_propensity(data: PreferenceData) -> Propensity:
    """Return each pair's labelling rate as its propensity: right where pairs were drawn regardless of the context."""
    rates = data.pair_counts() / data.n_contexts
    pair_rates = rates if data.ordered else rates + rates.T
    pairs = TabulatedPairPropensity(pair_rates[None])
    return Propensity(rates[data.cells.first, data.cells.second], "marginal", pairs=pairs)


def needs_no_model(data: PreferenceData) -> bool:
    """Whether labelling rates are the propensities: without features, or where all propensities are one.

    All propensities are one if every compared pair is labelled in every context.
    """
    counts = data.pair_counts()
    return data.x.shape[1] == 0 or bool((counts[counts > 0] == data.n_contexts).all())


def has_one_pair_per_context(cells: Cells) -> bool:
    """Return whether no context has more than one labelled cell."""
    return int(np.bincount(cells.context).max(initial=0)) <= 1


def estimate_propensity(
    data: PreferenceData,
    folds: Folds,
    seeds: list[np.random.SeedSequence],
    *,
    tune: Tune,
) -> Propensity:
    """Estimate the propensities by cross-fitting, then clip them at the floor and scale them."""
    if needs_no_model(data):
        return marginal_propensity(data)
    rngs, ordered = [np.random.default_rng(seed) for seed in seeds], data.ordered
    models: list[FoldPropensityModel]
    if not has_one_pair_per_context(data.cells):
        models = [BoostedPropensity(booster, None, ordered) for booster in pair_boosters(data, folds, rngs, tune)]
    elif tune == "cv":
        shares = fit_pair_shares(data, folds.fold, rngs)
        any_label = _any_label_models(data, folds, rngs, tune)
        models = [PairChoicePropensity(*of_fold, ordered) for of_fold in zip(shares, any_label, strict=True)]
    else:
        boosters = pair_boosters(data, folds, rngs, tune)
        any_label = _any_label_models(data, folds, rngs, tune)
        models = [
            BoostedPropensity(PairTrees.of(booster, data.n_items), any_label_model, ordered)
            if booster
            else BoostedPropensity(None, None, ordered)
            for booster, any_label_model in zip(boosters, any_label, strict=True)
        ]
    return propensity_from_models(models, folds.fold, data, estimates_at_cells(models, folds.fold, data))


def estimates_at_cells(
    models: Sequence[FoldPropensityModel], fold: IntArray, data: PreferenceData, cells: Cells | None = None
) -> FloatArray:
    """Return what the models predict at labelled cells, (m,), before floor and scale; by default at all of them.

    Shapes: fold (n,).
    """
    cells = data.cells if cells is None else cells
    context, (first, second) = cells.context, cells.in_display_order
    return by_fold(
        models,
        fold[context],
        (),
        lambda model, of_model: model.at(data.x[context[of_model]], first[of_model], second[of_model], data.n_items),
    )


def propensity_from_models(
    models: Sequence[FoldPropensityModel], fold: IntArray, data: PreferenceData, estimates: FloatArray
) -> Propensity:
    """Apply floor and scale to what the models predict.

    Shapes: fold (n,), estimates (m,).
    """
    floor, scale = floor_and_scale(estimates, data)
    if not data.ordered:
        # They apply to a propensity that is the sum over both orders.
        floor, scale = floor + floor.T, scale + scale.T
    pairs = CrossFittedPairPropensity(tuple(models), fold, data.x, floor, scale)
    return replace(floored_and_scaled(estimates, data), pairs=pairs, estimates=estimates)


def pair_boosters(
    data: PreferenceData, folds: Folds, rngs: list[np.random.Generator], tune: Tune
) -> list[lgb.Booster | None]:
    """Train a booster per fold for P(the pair is labelled | x, pair)."""
    rows = BinnedRows.of_pairs(labelled_and_sampled_pairs(data, rngs[0]), data.x, tune)
    return boosters_by_fold(rows, folds, BoosterSpec(None, data.n_items, tune), rngs)


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
    binned = BinnedRows.of(rows, tune, has_items=False)
    boosters = boosters_by_fold(binned, folds, BoosterSpec(None, None, tune), rngs)
    return [AnyLabelModel(float(is_labelled.mean()), booster) for booster in boosters]


def boosters_by_fold(
    rows: BinnedRows,
    folds: Folds,
    spec: BoosterSpec,
    rngs: list[np.random.Generator],
) -> list[lgb.Booster | None]:
    """Train a booster for each fold on the rows of the contexts outside it, or none where all their labels are equal.

    All folds share the bins of the rows. With ``tune="cv"``, and with ``tune="random"`` on many rows, the settings
    are selected once for all folds: on the rows outside the first fold whose training rows have both labels.
    """
    fold = folds.fold[rows.unit]
    binned = replace(rows, unit=folds.unit[rows.unit])
    can_train = [len(np.unique(rows.label[fold != held_out])) > 1 for held_out in range(len(rngs))]
    settings: Settings | None = None
    # Gathering the training rows of a fold takes time. The training rows on which the settings are selected are
    # therefore kept until the booster of this fold is trained.
    training_rows = dict[int, BinnedRows]()
    if any(can_train):
        first = can_train.index(True)
        training_rows[first] = binned.only(fold != first)
        if spec.tune == "cv" or a_sample_is_enough(training_rows[first], spec.tune):
            settings = select_settings(training_rows[first], spec, rngs[first])
    workers, jobs_per_fold = split_jobs(len(rows.label) * rows.n_features, len(rngs))

    def train_fold(held_out: int) -> lgb.Booster | None:
        if not can_train[held_out]:
            return None
        training = training_rows.pop(held_out) if held_out in training_rows else binned.only(fold != held_out)
        return train_booster(training, spec, rngs[held_out], settings)

    boosters = list[lgb.Booster | None]()
    for booster in in_order(train_fold, range(len(rngs)), workers, n_jobs_of_each=jobs_per_fold):
        boosters.append(booster)
        report(len(boosters), len(rngs), "propensity, folds")
    return boosters


def labelled_and_sampled_pairs(data: PreferenceData, rng: np.random.Generator) -> PairRows:
    """Return the labelled cells (label 1) and a sample of the unlabelled pairs (label 0), context by context.

    The sampled pairs of a context are weighted to stand for all its unlabelled pairs.
    """
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
class CrossFittedVoteRates:
    """Vote rates from one booster per fold, each trained on the battles outside the fold.

    pairs: The rates of ordered pairs.
    ordered: Whether display order matters. Otherwise both orders have the rate of the order with the smaller code
        first.
    """

    pairs: CrossFittedPairPropensity
    ordered: bool

    def table(self, contexts: IntArray) -> FloatArray:
        """Return out-of-fold rates of all pairs, (b, K, K), in b contexts."""
        table = self.pairs.table(contexts)
        upper = np.triu(table)
        return table if self.ordered else upper + np.swapaxes(upper, 1, 2)

    def at(self, context: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return out-of-fold rates of one pair each in b contexts, (b,)."""
        return self.pairs.at(context, first, second)


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
) -> CrossFittedVoteRates | TabulatedPairPropensity:
    """Estimate the probability that a shown battle gets a vote, by cross-fitting.

    One booster per fold learns from the features and the pair which shown battles got a vote. Without features, the
    rate of a pair is the share of its shown battles that got a vote.
    """
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
    no_floor = np.zeros((data.n_items, data.n_items))
    pairs = CrossFittedPairPropensity(models, folds.fold, data.x, no_floor, np.ones_like(no_floor))
    return CrossFittedVoteRates(pairs, data.ordered)
