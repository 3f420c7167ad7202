"""Selection propensities at the labelled cells: estimated, marginal or given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from .._progress import report
from ..data.graph import Graph
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..exceptions import NuisanceError
from .lightgbm import TrainingRows, many, ordered_cells, settled, stack_rows, train_booster
from .pairs import PairTrees, predict_all_pairs
from .parameters import Settings
from .selection_tables import AnyLabel, EstimatedPairs, FoldSelection, GivenPairs, PairPropensity
from .tuning import Tune

_NEGATIVES_PER_POSITIVE = 10
# An estimated propensity may fall to a tenth of its pair's own rate, so no label weighs more than ten of its kind.
_RELATIVE_FLOOR = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Propensity:
    """P(S_jk = 1 | x) at the labelled cells.

    Attributes
    ----------
    cells : ndarray, shape (m,)
    how : str
        ``"estimated"``, ``"marginal"`` or ``"given"``.
    n_floored : int
        Cells at which the floor bit.
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
    raw = data.extras[column].to_numpy()[data.vote_row]
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
    fold: IntArray,
    unit: IntArray,
    tune: Tune,
    seeds: list[np.random.SeedSequence],
    n_jobs: int | None,
) -> Propensity:
    """Cross-fitted propensities, normalised, floored and scaled, in this order.

    One binary booster per fold tells labelled cells from sampled unlabelled ones [P app:nuisances]. Where no context
    has more than one labelled pair, the estimates are normalised over pairs to P(any label | x). They are then floored
    at a tenth of their pair's own rate, and scaled per pair over all contexts so that the mean of S / pi is one. Where
    order does not matter, the sum over both orders is the expected number of labelled orders.

    Parameters
    ----------
    data : PreferenceData
    fold, unit : ndarray of int, shape (n,)
        Fold of each context, and what inner folds must not split.
    seeds : list of SeedSequence
        One per fold.
    """
    if data.x.shape[1] == 0:
        return marginal_propensity(data)
    estimates, learnt = np.empty(len(data.cells)), list[FoldSelection]()
    settings: Settings | None = None
    for held_out, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        here = fold[data.cells.context] == held_out
        estimates[here], selection, settings = _fold_propensity(
            data, fold != held_out, here, unit, tune, rng, n_jobs, settings
        )
        learnt.append(selection)
        report(held_out + 1, len(seeds), "propensity, folds")
    floors, _, scale = _floor_and_scale(estimates, data)
    scales = scale.reshape(floors.shape)
    if not data.ordered:
        floors, scales = floors + floors.T, scales + scales.T
    every = EstimatedPairs(tuple(learnt), fold, data.x, floors, scales, n_jobs)
    return replace(scaled(estimates, data), pairs=every)


def scaled(estimates: FloatArray, data: PreferenceData) -> Propensity:
    """Estimates at the labelled cells, (m,), floored at a tenth of their pair's own rate and scaled pair by pair."""
    _, floor, scale = _floor_and_scale(estimates, data)
    pair = data.cells.first * data.n_items + data.cells.second
    floored = np.maximum(estimates, floor) * scale[pair]
    return Propensity(floored, "estimated", int((estimates < floor).sum()))


def _floor_and_scale(estimates: FloatArray, data: PreferenceData) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Floor of every pair, (K, K), and of every labelled cell, (m,), and factor of every pair, (K K,)."""
    pair = data.cells.first * data.n_items + data.cells.second
    floors = _RELATIVE_FLOOR * (data.pair_counts() / data.n_contexts)
    floor = floors.reshape(-1)[pair]
    scale = np.bincount(pair, weights=1 / np.maximum(estimates, floor), minlength=data.n_items**2) / data.n_contexts
    return floors, floor, scale


def _fold_propensity(
    data: PreferenceData,
    kept: NDArray[np.bool_],
    here: NDArray[np.bool_],
    unit: IntArray,
    tune: Tune,
    rng: np.random.Generator,
    n_jobs: int | None,
    settings: Settings | None,
) -> tuple[FloatArray, FoldSelection, Settings | None]:
    """Estimates at the cells of the held-out fold, before floor and scale, and what was learnt.

    With many rows a sample of the first fold's settles the hyperparameters for all folds.
    """
    cells = data.cells
    rows = selection_rows(data, kept, unit, rng)
    first, second = (items[here] for items in cells.shown)
    context = cells.context[here]
    if len(np.unique(rows.label)) == 1:
        every = FoldSelection(None, None, data.ordered)
        return np.full(len(context), 1.0 if data.ordered else 2.0), every, settings
    if settings is None and many(rows, tune):
        settings = settled(rows, None, data.n_items, tune, rng, n_jobs)
    booster = train_booster(rows, None, data.n_items, tune, rng, n_jobs, settings)
    if _one_pair_per_context(cells):
        whether = _any_label(data, kept, unit, tune, rng, n_jobs)
        any_label = whether.predict(data.x[context], n_jobs)
        total = np.empty(len(context))
        own = np.empty(len(context))
        trees = PairTrees.of(booster, data.n_items)
        step = max(1, 4_000_000 // max(data.n_items**2, data.x.shape[1]))
        for at in range(0, len(context), step):
            part = slice(at, at + step)
            table = predict_all_pairs(trees, data.x[context[part]], data.n_items, n_jobs=n_jobs)[..., 0]
            total[part] = table.sum(axis=(1, 2))
            own[part] = table[np.arange(len(table)), first[part], second[part]]
            if not data.ordered:
                own[part] += table[np.arange(len(table)), second[part], first[part]]
        return any_label * own / total, FoldSelection(trees, whether, data.ordered), settings
    threads = n_jobs or 0
    orders = [(first, second)] if data.ordered else [(first, second), (second, first)]
    shares = [booster.predict(stack_rows(data.x, context, a, b), num_threads=threads) for a, b in orders]
    return np.sum(shares, axis=0), FoldSelection(booster, None, data.ordered), settings


def _one_pair_per_context(cells: Cells) -> bool:
    return len(np.unique(cells.context)) == len(cells)


def _any_label(
    data: PreferenceData,
    kept: NDArray[np.bool_],
    unit: IntArray,
    tune: Tune,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> AnyLabel:
    """P(any label | x); one where every context has a label."""
    labelled = np.zeros(data.n_contexts, dtype=np.intp)
    labelled[data.cells.context] = 1
    if labelled.all():
        return AnyLabel(1.0)
    if len(np.unique(labelled[kept])) == 1:
        return AnyLabel(float(labelled.mean()))
    learned = _ordered_contexts(data, kept)
    rows = TrainingRows(data.x[learned], labelled[learned], np.ones(len(learned)), unit[learned])
    return AnyLabel(float(labelled.mean()), train_booster(rows, None, None, tune, rng, n_jobs))


def selection_rows(
    data: PreferenceData, kept: NDArray[np.bool_], unit: IntArray, rng: np.random.Generator
) -> TrainingRows:
    """Labelled cells of the kept contexts, and sampled unlabelled pairs weighted to stand for all of them.

    Parameters
    ----------
    data : PreferenceData
    kept : ndarray of bool, shape (n,)
    unit : ndarray of int, shape (n,)
    rng : Generator
    """
    cells, n_items = data.cells, data.n_items
    inside = ordered_cells(data, kept)
    n_labelled = np.bincount(cells.context[inside], minlength=data.n_contexts)
    draws, pair = _draw_pairs(_ordered_contexts(data, kept), n_labelled, n_items * (n_items - 1), rng)
    # The diagonal is skipped: code q of a row of K - 1 opponents stands for item q, or q + 1 from the item itself on.
    first, second = pair // (n_items - 1), pair % (n_items - 1)
    second = second + (second >= first)
    key = (draws * n_items + first) * n_items + second
    shown_first, shown_second = cells.shown
    free = ~np.isin(key, (cells.context * n_items + shown_first) * n_items + shown_second)
    draws, first, second = draws[free], first[free], second[free]
    n_free = n_items * (n_items - 1) - n_labelled
    n_drawn = np.bincount(draws, minlength=data.n_contexts)
    places = (cells.context[inside], draws), (shown_first[inside], first), (shown_second[inside], second)
    return TrainingRows(
        stack_rows(data.x, *(np.concatenate(both) for both in places)),
        np.repeat([1, 0], [len(inside), len(draws)]),
        np.concatenate([np.ones(len(inside)), n_free[draws] / n_drawn[draws]]),
        np.concatenate([unit[cells.context[inside]], unit[draws]]),
    )


def _ordered_contexts(data: PreferenceData, kept: NDArray[np.bool_]) -> IntArray:
    """The kept contexts in an order that the order of the data's rows does not change."""
    contexts = np.argsort(data.seed_order)
    return contexts[kept[contexts]]


def _draw_pairs(
    contexts: IntArray, n_labelled: IntArray, n_pairs: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Contexts and pair codes to stand for the unlabelled: every pair where they are few, else a sample."""
    draws = _NEGATIVES_PER_POSITIVE * np.maximum(1, n_labelled[contexts])
    if draws.mean() >= n_pairs:
        return np.repeat(contexts, n_pairs), np.tile(np.arange(n_pairs), len(contexts))
    return np.repeat(contexts, draws), rng.integers(n_pairs, size=draws.sum())
