"""Estimates of the propensities of the labelled cells: cross-fitted models, or the labelling rates of the pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import lightgbm as lgb
import numpy as np

from ..._utils.computation import in_order, report
from ..._utils.mapped_arrays import take
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..all_pairs.predict import PairTrees
from ..boosting.parameters import Settings
from ..boosting.train import (
    BinnedRows,
    BoosterSpec,
    a_sample_is_enough,
    select_settings,
    split_jobs,
    train_booster,
)
from ..boosting.tuning import Tune
from ..training_rows import Folds, PairRows, TrainingRows, ordered_cells
from .all_pairs import (
    AnyLabelModel,
    BoostedPropensity,
    CrossFittedPairPropensity,
    FoldPropensityModel,
    PairChoicePropensity,
    PairPropensity,
    TabulatedPairPropensity,
)
from .floor_and_scale import FloorAndScale
from .pair_choice import fit_pair_shares

# Unlabelled pairs drawn for every labelled cell of a context.
NEGATIVES_PER_POSITIVE = 10

# Trains a booster as `train_booster` does: takes rows, a specification, a generator and the settings to use; where the
# settings are None, the trainer selects them.
BoosterTrainer: TypeAlias = Callable[[BinnedRows, BoosterSpec, np.random.Generator, Settings | None], lgb.Booster]


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
    train: BoosterTrainer = train_booster,
) -> Propensity:
    """Estimate the propensities by cross-fitting, then clip them at the floor and scale them."""
    if needs_no_model(data):
        return marginal_propensity(data)
    rngs = [np.random.default_rng(seed) for seed in seeds]
    models = _fit_models(data, folds, rngs, BoosterSpec(None, data.n_items, tune), train)
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
    estimates = np.empty(len(cells))
    for number, model in enumerate(models):
        of_model = fold[cells.context] == number
        if of_model.any():
            first, second = (items[of_model] for items in cells.in_display_order)
            estimates[of_model] = model.at(take(x, cells.context[of_model]), first, second, n_items)
    return estimates


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
    train: BoosterTrainer,
) -> list[FoldPropensityModel]:
    """Fit the propensity model of each fold."""
    if not has_one_pair_per_context(data.cells):
        boosters = pair_boosters(data, folds, rngs, spec, train)
        return [BoostedPropensity(booster, None, data.ordered) for booster in boosters]
    if spec.tune == "cv":
        shares = fit_pair_shares(data, folds.fold, rngs)
        any_label = _any_label_models(data, folds, rngs, spec, train)
        return [PairChoicePropensity(*models, data.ordered) for models in zip(shares, any_label, strict=True)]
    boosters = pair_boosters(data, folds, rngs, spec, train)
    any_label = _any_label_models(data, folds, rngs, spec, train)
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
    train: BoosterTrainer = train_booster,
) -> list[lgb.Booster | None]:
    """Train a booster per fold for P(the pair is labelled | x, pair)."""
    rows = BinnedRows.of_pairs(labelled_and_sampled_pairs(data, rngs[0]), data.x, spec.tune)
    return boosters_by_fold(rows, folds, spec, rngs, train)


def _any_label_models(
    data: PreferenceData,
    folds: Folds,
    rngs: list[np.random.Generator],
    spec: BoosterSpec,
    train: BoosterTrainer,
) -> list[AnyLabelModel]:
    """Fit P(any label | x) for each fold; where every context has a label, the models predict the probability 1."""
    is_labelled = np.zeros(data.n_contexts, dtype=np.intp)
    is_labelled[data.cells.context] = 1
    share = float(is_labelled.mean())
    if is_labelled.all():
        return [AnyLabelModel(1.0)] * len(rngs)
    contexts = np.argsort(data.seed_order)
    rows = TrainingRows(take(data.x, contexts), is_labelled[contexts], np.ones(len(contexts)), contexts)
    binned = BinnedRows.of(rows, spec.tune, has_items=False)
    boosters = boosters_by_fold(binned, folds, replace(spec, n_items=None), rngs, train)
    return [AnyLabelModel(share, booster) for booster in boosters]


def boosters_by_fold(
    rows: BinnedRows,
    folds: Folds,
    spec: BoosterSpec,
    rngs: list[np.random.Generator],
    train: BoosterTrainer = train_booster,
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
        return train(training, spec, rngs[held_out], settings)

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
