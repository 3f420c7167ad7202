"""Estimated propensities pi of the labelled cells: cross-fitted, or the marginal rates of the pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np

from ..._utils.parallel import in_order
from ..._utils.progress import report
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..all_pairs.predict import PairTrees
from ..boosting.parameters import Settings
from ..boosting.train import (
    BinnedRows,
    BoosterSpec,
    a_sample_is_enough,
    select_settings,
    train_booster,
    workers_at,
)
from ..boosting.tuning import Tune
from ..training_rows import Folds, PairRows, TrainingRows, ordered_cells
from .all_pairs import (
    AnyLabel,
    BoostedSelection,
    EstimatedPairs,
    FoldSelection,
    GivenPairs,
    PairPropensity,
    SharedSelection,
)
from .floor_and_scale import FloorAndScale
from .pair_choice import PairShares, fit_pair_shares

NEGATIVES_PER_POSITIVE = 10


@dataclass(frozen=True, slots=True, eq=False)
class Propensity:
    """P(S_jk = 1 | x) at the labelled cells.

    Attributes
    ----------
    cells : ndarray, shape (m,)
    how : str
        ``"estimated"``, ``"marginal"`` or ``"given"``.
    n_floored : int
        Cells whose estimate was raised to the floor.
    pairs : PairPropensity or None
        Those of all pairs; None where only those of labelled cells are known.
    """

    cells: FloatArray
    how: str
    n_floored: int = 0
    pairs: PairPropensity | None = None


def marginal_propensity(data: PreferenceData) -> Propensity:
    """Pair frequencies: right when pairs were drawn without looking at the prompt."""
    rates = data.pair_counts() / data.n_contexts
    every = rates if data.ordered else rates + rates.T
    return Propensity(rates[data.cells.first, data.cells.second], "marginal", pairs=GivenPairs(every[None]))


def estimate_propensity(
    data: PreferenceData,
    folds: Folds,
    seeds: list[np.random.SeedSequence],
    *,
    tune: Tune,
    n_jobs: int | None,
) -> Propensity:
    """Cross-fitted propensities, normalised, floored and scaled, in this order.

    Where no context has more than one labelled pair, they are P(any label | x) times the pair's share in what is shown,
    which is learnt by smooth effects of the items and boosted trees (:func:`.pair_choice.fit_pair_shares`).
    Elsewhere, and with a ``tune`` of the user's own, one binary booster per fold tells labelled cells from sampled
    unlabelled ones [P app:nuisances], normalised over pairs where contexts have one. All estimates are then floored
    and scaled, see :class:`.floor_and_scale.FloorAndScale`. Where order does not matter, the sum over both orders is
    the expected number of labelled orders.

    Parameters
    ----------
    data : PreferenceData
    folds : Folds
    seeds : list of SeedSequence
        One per fold.
    tune, n_jobs
        See :class:`dmlrank.nuisance.boosting.train.BoosterSpec`.
    """
    if data.x.shape[1] == 0:
        return marginal_propensity(data)
    rngs = [np.random.default_rng(seed) for seed in seeds]
    estimates, learnt = np.empty(len(data.cells)), list[FoldSelection]()
    for held_out, selection in enumerate(_selections(data, folds, rngs, tune, n_jobs)):
        here = folds.fold[data.cells.context] == held_out
        first, second = (items[here] for items in data.cells.shown)
        estimates[here] = selection.at(data.x[data.cells.context[here]], first, second, data.n_items, n_jobs)
        learnt.append(selection)
    rule = FloorAndScale.of(estimates, data)
    floor, scale = rule.of_pairs(data.ordered)
    every = EstimatedPairs(tuple(learnt), folds.fold, data.x, floor, scale, n_jobs)
    return replace(floored_and_scaled(estimates, data, rule), pairs=every)


def floored_and_scaled(estimates: FloatArray, data: PreferenceData, rule: FloorAndScale | None = None) -> Propensity:
    """Estimates at the labelled cells, (m,), floored at a tenth of their pair's own rate and scaled pair by pair."""
    rule = rule or FloorAndScale.of(estimates, data)
    cells, n_floored = rule.at_cells(estimates, data.cells)
    return Propensity(cells, "estimated", n_floored)


def _selections(
    data: PreferenceData, folds: Folds, rngs: list[np.random.Generator], tune: Tune, n_jobs: int | None
) -> list[FoldSelection]:
    """What each fold learns."""
    if not _one_pair_per_context(data.cells):
        return [BoostedSelection(b, None, data.ordered) for b in pair_boosters(data, folds, rngs, tune, n_jobs)]
    made: list[FoldSelection] = []
    if tune == "cv":
        learnt: Sequence[PairShares | lgb.Booster | None] = fit_pair_shares(data, folds.fold, rngs, n_jobs)
    else:
        learnt = pair_boosters(data, folds, rngs, tune, n_jobs)
    for own, any_label in zip(learnt, _any_label(data, folds, rngs, tune, n_jobs), strict=True):
        if isinstance(own, PairShares):
            made.append(SharedSelection(own, any_label, data.ordered))
        elif own is None:
            made.append(BoostedSelection(None, None, data.ordered))
        else:
            made.append(BoostedSelection(PairTrees.of(own, data.n_items), any_label, data.ordered))
    return made


def pair_boosters(
    data: PreferenceData, folds: Folds, rngs: list[np.random.Generator], tune: Tune, n_jobs: int | None
) -> list[lgb.Booster | None]:
    """P(the pair is labelled | x, pair) by fold; None where every pair of the training contexts is."""
    rows = BinnedRows.of_pairs(selection_rows(data, rngs[0]), data.x, tune)
    return _boosters(rows, folds, BoosterSpec(None, data.n_items, tune, n_jobs), rngs)


def _any_label(
    data: PreferenceData, folds: Folds, rngs: list[np.random.Generator], tune: Tune, n_jobs: int | None
) -> list[AnyLabel]:
    """P(any label | x) by fold; one where every context has a label."""
    labelled = np.zeros(data.n_contexts, dtype=np.intp)
    labelled[data.cells.context] = 1
    share = float(labelled.mean())
    if labelled.all():
        return [AnyLabel(1.0)] * len(rngs)
    contexts = np.argsort(data.seed_order)
    rows = TrainingRows(data.x[contexts], labelled[contexts], np.ones(len(contexts)), contexts)
    boosters = _boosters(BinnedRows.of(rows, None, tune), folds, BoosterSpec(None, None, tune, n_jobs), rngs)
    return [AnyLabel(share, booster) for booster in boosters]


def _boosters(
    rows: BinnedRows, folds: Folds, spec: BoosterSpec, rngs: list[np.random.Generator]
) -> list[lgb.Booster | None]:
    """A booster per fold, trained on the rows of contexts (their units) outside it; None where these are all alike.

    All folds share one binning. Our own configurations are compared once, for all folds, and where rows are many so
    are those of a search: by rows outside the first fold.
    """
    fold = folds.fold[rows.unit]
    binned = replace(rows, unit=folds.unit[rows.unit])
    different = [len(np.unique(rows.label[fold != held_out])) > 1 for held_out in range(len(rngs))]
    settings: Settings | None = None
    # The rows of a fold that has been looked at already are not made again.
    parts = dict[int, BinnedRows]()
    if any(different):
        first = different.index(True)
        parts[first] = binned.only(fold != first)
        if spec.tune == "cv" or a_sample_is_enough(parts[first], spec.tune):
            settings = select_settings(parts[first], spec, rngs[first])
    workers, each = workers_at(len(rows.label) * rows.n_features, len(rngs), spec.n_jobs)
    own_spec = replace(spec, n_jobs=each)

    def train(held_out: int) -> lgb.Booster | None:
        if not different[held_out]:
            return None
        part = parts.pop(held_out) if held_out in parts else binned.only(fold != held_out)
        return train_booster(part, own_spec, rngs[held_out], settings)

    made = list[lgb.Booster | None]()
    for booster in in_order(train, range(len(rngs)), workers):
        made.append(booster)
        report(len(made), len(rngs), "propensity, folds")
    return made


def _one_pair_per_context(cells: Cells) -> bool:
    return len(np.unique(cells.context)) == len(cells)


def selection_rows(data: PreferenceData, rng: np.random.Generator) -> PairRows:
    """Labelled cells, and sampled unlabelled pairs weighted to stand for all of them, context by context."""
    cells, n_items = data.cells, data.n_items
    inside = ordered_cells(data, np.ones(data.n_contexts, dtype=bool))
    n_labelled = np.bincount(cells.context[inside], minlength=data.n_contexts)
    draws, pair = _draw_pairs(np.argsort(data.seed_order), n_labelled, n_items * (n_items - 1), rng)
    # The diagonal is skipped: code q of a row of K - 1 opponents stands for item q, or q + 1 from the item itself on.
    first, second = pair // (n_items - 1), pair % (n_items - 1)
    second = second + (second >= first)
    key = (draws * n_items + first) * n_items + second
    shown_first, shown_second = cells.shown
    free = ~np.isin(key, (cells.context * n_items + shown_first) * n_items + shown_second)
    draws, first, second = draws[free], first[free], second[free]
    n_free = n_items * (n_items - 1) - n_labelled
    n_drawn = np.bincount(draws, minlength=data.n_contexts)
    return PairRows(
        np.concatenate([cells.context[inside], draws]),
        np.concatenate([shown_first[inside], first]),
        np.concatenate([shown_second[inside], second]),
        np.repeat([1, 0], [len(inside), len(draws)]),
        np.concatenate([np.ones(len(inside)), n_free[draws] / n_drawn[draws]]),
    )


def _draw_pairs(
    contexts: IntArray, n_labelled: IntArray, n_pairs: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Contexts and pair codes to stand for the unlabelled: every pair where they are few, else a sample."""
    draws = NEGATIVES_PER_POSITIVE * np.maximum(1, n_labelled[contexts])
    if draws.mean() >= n_pairs:
        return np.repeat(contexts, n_pairs), np.tile(np.arange(n_pairs), len(contexts))
    return np.repeat(contexts, draws), rng.integers(n_pairs, size=draws.sum())
