"""The units that are dealt to folds, with the numbers that stand for their identifiers."""

from __future__ import annotations

import numpy as np

from ..data.identity_numbers import IdentityNumbers, identity_numbers
from ..data.preferences import IntArray, PreferenceData
from ..data.read_clusters import Clusters
from ..data.shared_texts import join_shared
from ..estimation.folds import FoldUnits


def fold_units(data: PreferenceData, clusters: Clusters | None, *, n_folds: int, are_used: bool = True) -> FoldUnits:
    """Return the units that are dealt to folds: contexts, or clusters of them; units that share a text are joined."""
    unit = data.seed_order if clusters is None else clusters.of_context
    noun = "contexts" if clusters is None else f"clusters of {clusters.names[0]!r}"
    identity = _numbers_of_units(data, clusters, unit) if are_used else unit.astype(np.uint64)
    joined = join_shared(unit, data.shared_texts, n_folds)
    if joined is not unit:
        smallest = np.full(int(joined.max()) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
        np.minimum.at(smallest, joined, identity)
        identity = smallest[joined]
    return FoldUnits(joined, identity, noun, None if clusters is None else clusters.of_context)


def _numbers_of_units(data: PreferenceData, clusters: Clusters | None, unit: IntArray) -> IdentityNumbers:
    """Return the number that stands for the identifier of each context's unit, (n,).

    Shapes: unit (n,).
    """
    # The word "context" among the columns of clusters stands for the contexts, unless a column has this name.
    if clusters is None or clusters.names[0] not in data.columns:
        return identity_numbers(data.context_ids)
    context_of_unit = np.full(int(unit.max()) + 1, -1)
    context_of_unit[unit] = np.arange(len(unit))
    is_present = context_of_unit >= 0
    cells = data.by_context(clusters.names[0])[context_of_unit[is_present]]
    numbers = np.zeros(len(context_of_unit), np.uint64)
    numbers[is_present] = identity_numbers(cells)
    return numbers[unit]
