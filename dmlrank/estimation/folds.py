"""Random assignment of contexts to the folds of cross-fitting."""

from __future__ import annotations

import numpy as np

from ..data.preferences import IntArray
from ..exceptions import DataError
from ..nuisance.training_rows import Folds


def assign_folds(unit: IntArray, n_folds: int, rng: np.random.Generator, unit_name: str = "contexts") -> Folds:
    """Assign contexts to folds at random, so that all contexts of a unit share a fold.

    The numbers of units in two folds differ by at most one.

    Parameters
    ----------
    unit : ndarray of int, shape (n,)
        Unit of each context, numbered from 0; some numbers may not occur.
    n_folds : int
        Number of folds.
    rng : Generator
        Permutes the units.
    unit_name : str
        Plural noun for the units, for the error.

    Raises
    ------
    DataError
        If there are fewer units than folds.

    Examples
    --------
    >>> folds = assign_folds(np.array([0, 0, 1, 2]), 3, np.random.default_rng(0))
    >>> bool(folds.fold[0] == folds.fold[1])
    True
    """
    present = np.bincount(unit) > 0
    n_units, position = int(present.sum()), (np.cumsum(present) - 1)[unit]
    if n_units < n_folds:
        raise DataError(
            f"{n_units} {unit_name} cannot be divided into n_folds={n_folds} folds, because every fold needs at least "
            f"one of them; use fewer folds"
        )
    fold_of_unit = rng.permutation(np.arange(n_units) % n_folds)
    return Folds(fold_of_unit[position], unit, n_folds)
