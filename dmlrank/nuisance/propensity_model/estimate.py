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


@dataclass(frozen=True, slots=True, eq=False)
class FloorAndScale:
    """A rule that raises estimated propensities to a floor and then multiplies them by a scale, pair by pair.

    The floor is a tenth of the pair's labelling rate, which is the share of contexts in which the pair is labelled.
    The scale makes the mean of S / pi over all contexts one, where S says whether the pair is labelled.

    floor (K, K): Smallest propensity of each ordered pair before scaling.
    scale (K, K): Factor of each ordered pair; zero for a pair without a label.

    References
    ----------
    Hajek (1971), Comment on a paper by D. Basu, on weights that are normalised by their sum.
    """

    floor: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, estimates: FloatArray, data: PreferenceData) -> FloorAndScale:
        """Derive the rule from estimates at the labelled cells, (m,)."""
        pair = data.cells.first * data.n_items + data.cells.second
        floor = _RELATIVE_FLOOR * (data.pair_counts() / data.n_contexts)
        inverse = 1 / np.maximum(estimates, floor.reshape(-1)[pair])
        scale = np.bincount(pair, weights=inverse, minlength=data.n_items**2) / data.n_contexts
        return cls(floor, scale.reshape(floor.shape))

    def at_cells(self, estimates: FloatArray, cells: Cells) -> tuple[FloatArray, int]:
        """Return floored and scaled estimates at the labelled cells, (m,), and how many were below the floor."""
        floor = self.floor[cells.first, cells.second]
        scaled = np.maximum(estimates, floor) * self.scale[cells.first, cells.second]
        return scaled, int((estimates < floor).sum())

    def of_pairs(self, ordered: bool) -> tuple[FloatArray, FloatArray]:
        """Return floor and scale of all pairs, (K, K) each.

        Where display order is ignored, they apply to a propensity that is the sum over both orders.
        """
        if ordered:
            return self.floor, self.scale
        return self.floor + self.floor.T, self.scale + self.scale.T


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


def marginal_propensity(data: PreferenceData) -> Propensity:
    """Return each pair's labelling rate as its propensity: right where pairs were drawn regardless of the context."""
    rates = data.pair_counts() / data.n_contexts
    pair_rates = rates if data.ordered else rates + rates.T
    pairs = TabulatedPairPropensity(pair_rates[None])
    return Propensity(rates[data.cells.first, data.cells.second], "marginal", pairs=pairs)


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
    rngs = [np.random.default_rng(seed) for seed in seeds]
    models = _fit_models(data, folds, rngs, BoosterSpec(None, data.n_items, tune))
    estimates = estimates_at_cells(models, folds.fold, data.x, data.cells, n_items=data.n_items)
    return propensity_from_models(models, folds.fold, data, estimates)


def estimates_at_cells(
    models: Sequence[FoldPropensityModel],
    fold: IntArray,
    x: FloatArray,
    cells: Cells,
    *,
    n_items: int,
) -> FloatArray:
    """Return what the models predict at labelled cells, (m,), before floor and scale.

    Shapes: fold (n,), x (n, p).
    """
    first, second = cells.in_display_order

    def predict(model: FoldPropensityModel, of_model: IntArray) -> FloatArray:
        return model.at(x[cells.context[of_model]], first[of_model], second[of_model], n_items)

    return by_fold(models, fold[cells.context], (), predict)


def propensity_from_models(
    models: Sequence[FoldPropensityModel],
    fold: IntArray,
    data: PreferenceData,
    estimates: FloatArray,
) -> Propensity:
    """Apply floor and scale to what the models predict.

    Shapes: fold (n,), estimates (m,).
    """
    rule = FloorAndScale.of(estimates, data)
    floor, scale = rule.of_pairs(data.ordered)
    pairs = CrossFittedPairPropensity(tuple(models), fold, data.x, floor, scale)
    return replace(floored_and_scaled(estimates, data, rule), pairs=pairs, estimates=estimates)


def needs_no_model(data: PreferenceData) -> bool:
    """Whether labelling rates are the propensities: without features, or where all propensities are one.

    All propensities are one if every compared pair is labelled in every context.
    """
    counts = data.pair_counts()
    return data.x.shape[1] == 0 or bool((counts[counts > 0] == data.n_contexts).all())


def floored_and_scaled(estimates: FloatArray, data: PreferenceData, rule: FloorAndScale | None = None) -> Propensity:
    """Apply floor and scale to estimates at the labelled cells, (m,); by default these estimates determine the rule."""
    rule = rule or FloorAndScale.of(estimates, data)
    cells, n_floored = rule.at_cells(estimates, data.cells)
    return Propensity(cells, "estimated", n_floored)


def _fit_models(
    data: PreferenceData,
    folds: Folds,
    rngs: list[np.random.Generator],
    spec: BoosterSpec,
) -> list[FoldPropensityModel]:
    """Fit the propensity model of each fold."""
    if not has_one_pair_per_context(data.cells):
        boosters = pair_boosters(data, folds, rngs, spec)
        return [BoostedPropensity(booster, None, data.ordered) for booster in boosters]
    if spec.tune == "cv":
        shares = fit_pair_shares(data, folds.fold, rngs)
        any_label = _any_label_models(data, folds, rngs, spec)
        return [PairChoicePropensity(*models, data.ordered) for models in zip(shares, any_label, strict=True)]
    boosters = pair_boosters(data, folds, rngs, spec)
    any_label = _any_label_models(data, folds, rngs, spec)
    return [
        BoostedPropensity(None, None, data.ordered)
        if booster is None
        else BoostedPropensity(PairTrees.of(booster, data.n_items), any_label_model, data.ordered)
        for booster, any_label_model in zip(boosters, any_label, strict=True)
    ]


def pair_boosters(
    data: PreferenceData,
    folds: Folds,
    rngs: list[np.random.Generator],
    spec: BoosterSpec,
) -> list[lgb.Booster | None]:
    """Train a booster per fold for P(the pair is labelled | x, pair)."""
    rows = BinnedRows.of_pairs(labelled_and_sampled_pairs(data, rngs[0]), data.x, spec.tune)
    return boosters_by_fold(rows, folds, spec, rngs)


def _any_label_models(
    data: PreferenceData,
    folds: Folds,
    rngs: list[np.random.Generator],
    spec: BoosterSpec,
) -> list[AnyLabelModel]:
    """Fit P(any label | x) for each fold; where every context has a label, the models predict the probability 1."""
    is_labelled = np.zeros(data.n_contexts, dtype=np.intp)
    is_labelled[data.cells.context] = 1
    share = float(is_labelled.mean())
    if is_labelled.all():
        return [AnyLabelModel(1.0)] * len(rngs)
    contexts = np.argsort(data.seed_order)
    rows = TrainingRows(data.x[contexts], is_labelled[contexts], np.ones(len(contexts)), contexts)
    binned = BinnedRows.of(rows, spec.tune, has_items=False)
    boosters = boosters_by_fold(binned, folds, spec._replace(n_items=None), rngs)
    return [AnyLabelModel(share, booster) for booster in boosters]


def boosters_by_fold(
    rows: BinnedRows,
    folds: Folds,
    spec: BoosterSpec,
    rngs: list[np.random.Generator],
) -> list[lgb.Booster | None]:
    """Train a booster for each fold on the rows of the contexts outside it.

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


def has_one_pair_per_context(cells: Cells) -> bool:
    """Return whether no context has more than one labelled cell."""
    return int(np.bincount(cells.context).max(initial=0)) <= 1


def labelled_and_sampled_pairs(data: PreferenceData, rng: np.random.Generator) -> PairRows:
    """Return the labelled cells (label 1) and a sample of the unlabelled pairs (label 0), context by context.

    The sampled pairs of a context are weighted to stand for all its unlabelled pairs.
    """
    cells, n_items = data.cells, data.n_items
    labelled = ordered_cells(data, np.ones(data.n_contexts, dtype=bool))
    n_labelled = np.bincount(cells.context[labelled], minlength=data.n_contexts)
    context, pair = _draw_pairs(np.argsort(data.seed_order), n_labelled, n_items * (n_items - 1), rng)
    # A pair code is first * (K - 1) + q, where q numbers all items except the first one: q is the second item if the
    # second item comes before the first one, and the second item minus 1 if it comes after the first one.
    first, second = pair // (n_items - 1), pair % (n_items - 1)
    second = second + (second >= first)
    key = (context * n_items + first) * n_items + second
    shown_first, shown_second = cells.in_display_order
    is_unlabelled = ~np.isin(key, (cells.context * n_items + shown_first) * n_items + shown_second)
    context, first, second = context[is_unlabelled], first[is_unlabelled], second[is_unlabelled]
    n_unlabelled = n_items * (n_items - 1) - n_labelled
    n_drawn = np.bincount(context, minlength=data.n_contexts)
    return PairRows(
        np.concatenate([cells.context[labelled], context]),
        np.concatenate([shown_first[labelled], first]),
        np.concatenate([shown_second[labelled], second]),
        np.repeat([1, 0], [len(labelled), len(context)]),
        np.concatenate([np.ones(len(labelled)), n_unlabelled[context] / n_drawn[context]]),
    )


def _draw_pairs(
    contexts: IntArray, n_labelled: IntArray, n_pairs: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Draw pairs that stand for the unlabelled ones: all pairs of a context where they are few, else a sample.

    Shapes: contexts (n,), n_labelled (n,).
    """
    n_draws = NEGATIVES_PER_POSITIVE * np.maximum(1, n_labelled[contexts])
    if n_draws.mean() >= n_pairs:
        return np.repeat(contexts, n_pairs), np.tile(np.arange(n_pairs), len(contexts))
    return np.repeat(contexts, n_draws), rng.integers(n_pairs, size=n_draws.sum())


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

        def predict(model: FoldPropensityModel, rows: IntArray) -> FloatArray:
            return model.table(self.x[contexts[rows]], self.n_items)

        table = by_fold(self.models, self.fold[contexts], (self.n_items, self.n_items), predict)
        if not self.ordered:
            upper = np.triu(table)
            table = upper + np.swapaxes(upper, 1, 2)
        return table

    def at(self, context: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return out-of-fold rates of one pair each in b contexts, (b,)."""

        def predict(model: FoldPropensityModel, rows: IntArray) -> FloatArray:
            return model.at(self.x[context[rows]], first[rows], second[rows], self.n_items)

        return by_fold(self.models, self.fold[context], (), predict)


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
        return TabulatedPairPropensity(_share_of_votes(data, battles)[None])
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
