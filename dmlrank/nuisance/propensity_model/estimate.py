"""Propensities pi of the labelled cells: estimated by cross-fitting, marginal or given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real

import lightgbm as lgb
import numpy as np

from ..._utils.parallel import in_order
from ..._utils.progress import report
from ...data.graph import Graph
from ...data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ...exceptions import NuisanceError
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

_NEGATIVES_PER_POSITIVE = 10


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


def given_propensity(data: PreferenceData, values: FloatArray, graph: Graph, zeros_allowed: bool = False) -> Propensity:
    """Use an array (n, K, K) of known propensities unchanged.

    With ``zeros_allowed`` a pair on the comparison graph may have propensity 0 where it has no label.

    Raises
    ------
    NuisanceError
        If the shape is wrong, or a value on the comparison graph or at a label is not in (0, 1] ((0, 2] where order
        does not matter: there it is the expected number of labelled orders, the same for both orders of a pair).
    """
    shape = (data.n_contexts, data.n_items, data.n_items)
    if values.shape != shape:
        raise NuisanceError(
            f"propensity= has shape {values.shape}; needed is (contexts, models, models) = {shape}, in the order of "
            f"first appearance and of the models' names"
        )
    cells = data.cells
    needed = np.broadcast_to(graph.edges, shape).copy()
    needed[cells.context, cells.first, cells.second] = True
    most = 1 if data.ordered else 2
    wrong = ~((values > 0) & (values <= most)) & needed
    if zeros_allowed:
        wrong &= values != 0
        wrong[cells.context, cells.first, cells.second] |= values[cells.context, cells.first, cells.second] == 0
    if wrong.any():
        i, j, k = (int(place[0]) for place in np.nonzero(wrong))
        raise NuisanceError(
            f"propensity= is {values[i, j, k]} in context {data.context_ids[i]!r} for {data.items[j]!r} before "
            f"{data.items[k]!r} ({int(wrong.sum())} such entries); a ranked or labelled pair needs one in (0, {most}]"
        )
    uneven = ~np.isclose(values, np.swapaxes(values, 1, 2)) & needed
    if not data.ordered and uneven.any():
        i, j, k = (int(place[0]) for place in np.nonzero(uneven))
        raise NuisanceError(
            f"propensity= differs by order in context {data.context_ids[i]!r} for {data.items[j]!r} and "
            f"{data.items[k]!r} ({values[i, j, k]} and {values[i, k, j]}); with position_bias=False it is the expected "
            f"number of labelled orders of the pair, such as pi + pi.transpose(0, 2, 1)"
        )
    at_cells = values[cells.context, cells.first, cells.second].astype(float)
    return Propensity(at_cells, "given", pairs=GivenPairs(np.where(needed, values, 0.0)))


def column_propensity(data: PreferenceData, column: str) -> Propensity:
    """Use a column that holds the propensity of each row's own pair (ordered, where order matters).

    Raises
    ------
    NuisanceError
        If a labelled row's value is not in (0, 1] ((0, 2] where order does not matter), or the votes of one pair in
        one context disagree.
    """
    raw = data.columns[column][data.vote_row]
    try:
        votes = raw.astype(float)
    except (TypeError, ValueError):
        odd = next(value for value in raw if not isinstance(value, Real))
        raise NuisanceError(f"propensity column {column!r} is not numeric, for example {odd!r}") from None
    most = 1 if data.ordered else 2
    wrong = ~((votes > 0) & (votes <= most))
    if wrong.any():
        row = int(data.row_index[data.vote_row[np.flatnonzero(wrong)[0]]])
        raise NuisanceError(
            f"propensity column {column!r} is {votes[wrong][0]} in row {row} ({int(wrong.sum())} such labelled rows); "
            f"a propensity lies in (0, {most}]"
        )
    pair_of_cell = _pair_places(data.cells)
    low, high = (np.full(len(data.cells), fill) for fill in (np.inf, -np.inf))
    np.minimum.at(low, pair_of_cell[data.vote_cell], votes)
    np.maximum.at(high, pair_of_cell[data.vote_cell], votes)
    low, high = low[pair_of_cell], high[pair_of_cell]
    apart = high - low > 1e-9 * high
    if apart.any():
        cell = int(np.flatnonzero(apart)[0])
        raise NuisanceError(
            f"propensity column {column!r} has different values ({low[cell]}, {high[cell]}) for votes on the same pair "
            f"in context {data.context_ids[data.cells.context[cell]]!r}; a pair has one propensity per context"
        )
    return Propensity(high, "given")


def _pair_places(cells: Cells) -> IntArray:
    """A number for every (context, pair), (m,): equal for the two orders of a pair where they are one."""
    places = np.stack([cells.context, cells.first, cells.second], axis=1)
    return np.unique(places, axis=0, return_inverse=True)[1].reshape(-1)


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
    draws = _NEGATIVES_PER_POSITIVE * np.maximum(1, n_labelled[contexts])
    if draws.mean() >= n_pairs:
        return np.repeat(contexts, n_pairs), np.tile(np.arange(n_pairs), len(contexts))
    return np.repeat(contexts, draws), rng.integers(n_pairs, size=draws.sum())
