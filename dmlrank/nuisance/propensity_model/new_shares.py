"""Shares of pairs with items that enter after the training, with the effects of all other items held fixed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...data.preferences import FloatArray, IntArray, PreferenceData
from ..smooth.minimise import PenalisedSearch
from ..training_rows import LabelledRows
from .conditional_logit import PairChoiceEffects, PairChoiceLikelihood, pair_shares
from .pair_choice import PairShares


def fit_new_shares(
    model: PairShares, data: PreferenceData, in_training: NDArray[np.bool_], item: IntArray
) -> PairShares:
    """Return a model with effects of items that were not in the training, fitted to the pairs shown outside its fold.

    Effects of such items that an earlier extension has fitted are fitted again. The overall shares of all pairs are
    counted again. A context that shows no new item contributes, too: it says that the new items were not shown. Trees
    add nothing to the score of a pair with a new item.

    Shapes: in_training (n,), item (K_old,).
    """
    trained = np.arange(len(item)) if model.tree_items is None else model.tree_items
    known = item[trained]
    used = np.flatnonzero(in_training[data.cells.context])
    used = used[np.argsort(data.seed_order[data.cells.context[used]], kind="stable")]
    first, second = (items[used] for items in data.cells.in_display_order)
    share = pair_shares(first, second, data.n_items, model.prior)
    effects = PairChoiceEffects(
        share,
        _enlarged(model.effects.first[:, trained], known, data.n_items),
        _enlarged(model.effects.second[:, trained], known, data.n_items),
    )
    if np.isfinite(model.ridge):
        columns = model.basis.of(data.x[data.cells.context[used]])
        ones = np.ones(len(used))
        rows = LabelledRows(columns, first, second, ones[:, None], ones)
        effects = _fit(rows, effects, known, model.ridge)
    return replace(model, effects=effects, tree_items=known)


def _enlarged(coefficients: FloatArray, item: IntArray, n_items: int) -> FloatArray:
    """Return coefficients for K items, (1 + q, K), where those of items that are not in ``item`` are zero."""
    enlarged = np.zeros((len(coefficients), n_items))
    enlarged[:, item] = coefficients
    return enlarged


def _fit(rows: LabelledRows, effects: PairChoiceEffects, item: IntArray, ridge: float) -> PairChoiceEffects:
    """Return the effects, with those of items that are not in ``item`` fitted to the rows.

    Shapes: item (K_old,).
    """
    likelihood = PairChoiceLikelihood.of(rows, effects.share)
    penalty = ridge * likelihood.penalty
    step_scale = (1 / np.sqrt(likelihood.precision + penalty)).reshape(len(effects.first), -1)
    n_items = len(effects.share)
    step_scale[:, np.concatenate([item, n_items + item])] = 0.0
    start = np.hstack([(effects.first + effects.second) / 2, (effects.first - effects.second) / 2])
    search = PenalisedSearch(likelihood.loss, penalty, step_scale.reshape(-1), start.reshape(-1))
    search.advance()
    return likelihood.effects(search.flat)
