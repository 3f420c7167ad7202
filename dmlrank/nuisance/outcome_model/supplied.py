"""Supplied outcome model: checks of the preference probabilities that the user passes as ``mu=``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..._utils.argument_checks import real_array
from ...data.outcomes import in_other_order
from ...data.preferences import FloatArray, PreferenceData
from ...exceptions import NuisanceError, OptionTypeError

# Largest accepted error of the sum of a pair's probabilities, which should be one. Where display order does not matter,
# also the largest accepted difference between the probabilities of a pair and those of the other display order.
_TOLERANCE = 1e-6


def checked_mu(mu: object, data: PreferenceData) -> FloatArray:
    """Check out-of-fold probabilities of the user, and return them as an array, (n, K, K, C), with a zero diagonal.

    Shapes: mu (n, K, K, C).
    """
    try:
        table = real_array(mu)
    except (TypeError, ValueError, OverflowError):
        raise OptionTypeError(
            f"mu= has the type {type(mu).__name__}, which is not an array of numbers; pass an array of probabilities, "
            f"(contexts, models, models, categories)"
        ) from None
    n_items = data.n_items
    shape = (data.n_contexts, n_items, n_items, data.n_categories)
    if table.shape != shape:
        raise NuisanceError(
            f"mu= has shape {table.shape}; the shape has to be (contexts, models, models, categories) = {shape}, with "
            f"contexts in order of first appearance, models {data.items[0]!r} ... {data.items[-1]!r}, and categories "
            f"{data.categories}"
        )
    pairs = ~np.eye(n_items, dtype=bool)
    is_probability = ((table >= 0) & (table <= 1)).all(axis=-1)
    _refuse(~is_probability & pairs, "is not a probability", table, data)
    sums_to_one = np.abs(table.sum(axis=-1) - 1) <= _TOLERANCE
    _refuse(~sums_to_one & pairs, "does not sum to one over the categories", table, data)
    if not data.ordered:
        differs = np.abs(table - in_other_order(table)).max(axis=-1) > _TOLERANCE
        finding = "differs between the two display orders of a pair, which position_bias=False does not allow,"
        _refuse(differs & pairs, finding, table, data)
    if table[:, ~pairs].any():
        table = np.where(pairs[:, :, None], table, 0.0)
    return table


def _refuse(is_wrong: NDArray[np.bool_], finding: str, table: FloatArray, data: PreferenceData) -> None:
    """Raise an error if there are wrong places, and show the first of them.

    Shapes: is_wrong (n, K, K), table (n, K, K, C).
    """
    if is_wrong.any():
        i, j, k = (int(place[0]) for place in np.nonzero(is_wrong))
        raise NuisanceError(
            f"mu= {finding} in {int(is_wrong.sum())} places, first in context {data.context_ids[i]!r} for "
            f"{data.items[j]!r} before {data.items[k]!r}: {table[i, j, k].tolist()}; correct these probabilities"
        )
