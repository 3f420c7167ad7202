"""Features from the transforms of a fit: its contexts keep their features, those of new contexts are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..exceptions import DataError
from .arrays import FloatArray, IntArray
from .formula.features import FeatureMap
from .plain_columns import Variable
from .preferences import PreferenceData


@dataclass(frozen=True, slots=True, eq=False)
class LearntFeatures:
    """Features of the contexts of a fit, by identifier, with the fitted transforms.

    feature_map: The fitted transforms.
    x (n_old, p): Features of the contexts of the fit.
    identifiers (n_old,): Identifiers of the contexts of the fit among the joined rows.
    """

    feature_map: FeatureMap
    x: FloatArray
    identifiers: NDArray[np.object_]

    @classmethod
    def of(cls, data: PreferenceData) -> LearntFeatures:
        """Return the features of a fit.

        Without ``context=``, every row is a context, and its position identifies it, also among the joined rows.
        """
        return cls(data.feature_map, data.x, data.context_ids)

    def numbers(self, identifiers: NDArray[np.object_]) -> IntArray:
        """Return the number of each context, (n,), among those of the fit; -1 for a new context.

        No two of the ``identifiers`` are equal.
        """
        n_old = len(self.identifiers)
        if np.array_equal(identifiers[:n_old], self.identifiers):
            # Contexts are numbered in the order of their first row, so that those of the fit most often come first.
            return np.concatenate([np.arange(n_old), np.full(len(identifiers) - n_old, -1)])
        number = {identifier: place for place, identifier in enumerate(self.identifiers)}
        return np.array([number.get(identifier, -1) for identifier in identifiers], dtype=np.intp)

    def places(self, data: PreferenceData) -> IntArray:
        """Return the number that each context of the fit has in data that were read later, (n_old,)."""
        number = self.numbers(data.context_ids)
        place = np.full(len(self.x), -1)
        place[number[number >= 0]] = np.flatnonzero(number >= 0)
        return place

    def matrix(
        self, identifiers: NDArray[np.object_], columns_of: Callable[[IntArray], Mapping[str, Variable]]
    ) -> FloatArray:
        """Return the features of contexts, (n, p).

        Shapes: identifiers (n,).
        """
        number = self.numbers(identifiers)
        x: FloatArray = self.x[number]
        new = np.flatnonzero(number < 0)
        if len(new):
            x[new] = self.feature_map.matrix(columns_of(new), len(new), DataError)
        return x
