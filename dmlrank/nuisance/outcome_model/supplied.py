"""Supplied outcome model: preference probabilities of the user, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...data.outcomes import in_other_order
from ...data.preferences import FloatArray, PreferenceData
from ...exceptions import NuisanceError, OptionTypeError

_SUM = 1e-6


def checked_mu(mu: Any, data: PreferenceData) -> FloatArray:
    """Out-of-fold probabilities, (n, K, K, C), with a zero diagonal.

    Raises
    ------
    NuisanceError
        If the shape is wrong, an entry is not a probability, the categories of a pair do not sum to one, or the two
        orders of a pair differ where order does not matter.
    """
    try:
        table = np.asarray(mu, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise OptionTypeError(f"mu= is a {type(mu).__name__}; needed is an array of probabilities") from None
    n_items = data.n_items
    shape = (data.n_contexts, n_items, n_items, data.n_categories)
    if table.shape != shape:
        raise NuisanceError(
            f"mu= has shape {table.shape}; needed is (contexts, models, models, categories) = {shape}: contexts in "
            f"order "
            f"of first appearance, models {data.items[0]!r} ... {data.items[-1]!r}, categories {data.categories}"
        )
    pairs = ~np.eye(n_items, dtype=bool)
    wrong = ~((table >= 0) & (table <= 1)).all(axis=-1) & pairs
    _refuse(wrong, "is not a probability", table, data)
    off = ~(np.abs(table.sum(axis=-1) - 1) <= _SUM) & pairs
    _refuse(off, "does not sum to one over the categories", table, data)
    if not data.ordered:
        apart = np.abs(table - in_other_order(table)).max(axis=-1) > _SUM
        _refuse(apart & pairs, "is not the flip of the other order (position_bias=False)", table, data)
    if table[:, ~pairs].any():
        table = np.where(pairs[:, :, None], table, 0.0)
    return table


def _refuse(wrong: Any, what: str, table: FloatArray, data: PreferenceData) -> None:
    if wrong.any():
        i, j, k = (int(place[0]) for place in np.nonzero(wrong))
        raise NuisanceError(
            f"mu= {what} in {int(wrong.sum())} places, first in context {data.context_ids[i]!r} for {data.items[j]!r} "
            f"before {data.items[k]!r}: {table[i, j, k].tolist()}"
        )
