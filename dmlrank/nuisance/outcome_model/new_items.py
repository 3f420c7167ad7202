"""Main effects of items that enter after the training, fitted with all other effects and the trees held fixed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...data.preferences import IntArray, PreferenceData
from ..training_rows import LabelledRows
from .main_effects import MainEffects, MainEffectsLikelihood
from .main_effects_boosting import SmoothBoostedMu


def fit_new_items(
    model: SmoothBoostedMu, data: PreferenceData, in_training: NDArray[np.bool_], item: IntArray
) -> SmoothBoostedMu:
    """Return a model with main effects of items that were not in the training, fitted to labels outside its fold.

    Effects of such items that an earlier extension has fitted are fitted again. A label of a new item contributes to
    the likelihood as in the training; the curves of its known opponents, the position effect and the effects of ties
    are fixed. The penalty is that of the training. Trees add nothing to the score of a pair with a new item.

    Shapes: in_training (n,), item (K_old,).
    """
    trained = np.arange(model.n_items) if model.tree_items is None else model.tree_items
    is_new = np.ones(data.n_items, dtype=bool)
    is_new[item[trained]] = False
    effects = enlarged(model.main_effects.only(trained), item[trained], data.n_items)
    cells = data.cells
    used = np.flatnonzero(in_training[cells.context] & (is_new[cells.first] | is_new[cells.second]))
    if len(used):
        used = used[np.argsort(data.seed_order[cells.context[used]], kind="stable")]
        rows = LabelledRows(
            model.basis.of(data.x[cells.context[used]]),
            cells.first[used],
            cells.second[used],
            cells.y[used],
            cells.n_votes[used].astype(float),
        )
        effects = _fit(rows, effects, is_new, data.ordered, model.ridge)
    return replace(model, main_effects=effects, n_items=data.n_items, tree_items=item[trained])


def enlarged(effects: MainEffects, item: IntArray, n_items: int) -> MainEffects:
    """Return the effects for K items, where those of items that are not in ``item``, (K_old,), are zero."""
    strength = np.zeros((n_items, effects.strength.shape[1]))
    strength[item] = effects.strength
    pair = np.zeros((n_items, n_items))
    pair[np.ix_(item, item)] = effects.pair
    tie = np.zeros((len(effects.tie), 1 + n_items, effects.strength.shape[1]))
    tie[:, 0], tie[:, 1 + item] = effects.tie[:, 0], effects.tie[:, 1:]
    return MainEffects(strength, effects.position, pair, effects.distance_effect, tie)


def _fit(
    rows: LabelledRows, effects: MainEffects, is_new: NDArray[np.bool_], ordered: bool, ridge: float
) -> MainEffects:
    """Return the effects, with those of new items fitted to the rows.

    Shapes: is_new (K,).
    """
    n_items = len(is_new)
    likelihood = MainEffectsLikelihood.of(rows, n_items, ordered)
    belongs_to_new = MainEffects(
        np.broadcast_to(is_new[:, None], effects.strength.shape).astype(float),
        0.0,
        (is_new[:, None] | is_new).astype(float),
        np.zeros(len(effects.distance_effect)),
        np.broadcast_to(np.append(False, is_new)[:, None], effects.tie.shape).astype(float),
    )
    with_fixed_effects = replace(likelihood, is_free=likelihood.is_free & (belongs_to_new.flat > 0))
    search = with_fixed_effects.search(ridge, effects.flat)
    search.advance()
    return likelihood.effects(search.flat)
