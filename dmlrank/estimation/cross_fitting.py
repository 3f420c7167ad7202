"""Cross-fitting by context: nuisances are never asked about a context they were trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import Cells, FloatArray, IntArray
from ..exceptions import DataError
from ..nuisance.outcome_model.cross_fit import MuModel, on_one_thread
from ..nuisance.training_rows import Folds

# Rows that are looked at to see whether contexts repeat.
_PEEK = 2000
# Sets of cells whose probabilities are remembered: labels, verdicts, labels by kind.
_KEPT = 4


def assign_folds(unit: IntArray, n_folds: int, rng: np.random.Generator, unit_name: str = "contexts") -> Folds:
    """Deal units into folds of (nearly) the same number of units.

    Parameters
    ----------
    unit : ndarray of int, shape (n,)
        Contexts of the same unit share a fold; numbered from 0, with gaps or without.
    n_folds : int
    rng : Generator

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
        raise DataError(f"{n_units} {unit_name} cannot be dealt into n_folds={n_folds} folds; use fewer folds")
    fold_of_unit = rng.permutation(np.arange(n_units) % n_folds)
    return Folds(fold_of_unit[position], unit, n_folds)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some contexts and how to get their probabilities; equal contexts share a row.

    Attributes
    ----------
    contexts : ndarray of int, shape (c,)
    place : ndarray of int, shape (c,)
        Row of each context in the probabilities.
    probabilities : callable
        Returns (b, K, K, C); may be called in another thread where ``concurrent``.
    concurrent : bool
    """

    contexts: IntArray
    place: IntArray
    probabilities: Callable[[], FloatArray]
    concurrent: bool


class MuSource(Protocol):
    """Out-of-fold preference probabilities of all contexts, in pieces that fit into memory."""

    def chunks(self, size: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """Indices of at most ``size`` contexts, (b,), and their probabilities, (b, K, K, C), until all have come."""
        ...

    def parts(self, size: int, kept: NDArray[np.bool_] | None = None) -> Iterator[Part]:
        """The (kept) contexts in parts of at most ``size`` different ones each."""
        ...

    def average(self, x: FloatArray) -> FloatArray:
        """Probabilities in new contexts with features ``x``, (n, p): the mean over the models of all folds."""
        ...

    def at(self, cells: Cells) -> FloatArray:
        """Out-of-fold probabilities of labelled cells, (m, C)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class CrossFittedMu:
    """One model per fold, each trained on the other folds."""

    models: tuple[MuModel, ...]
    folds: Folds
    x: FloatArray
    # Answers about whole sets of cells: several steps ask about the same labels and verdicts.
    _known: dict[Cells, FloatArray] = field(default_factory=dict, init=False, repr=False)

    def chunks(self, size: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """Out-of-fold probabilities, fold by fold."""
        for held_out, model in enumerate(self.models):
            here = np.flatnonzero(self.folds.fold == held_out)
            for at in range(0, len(here), size):
                part = here[at : at + size]
                yield part, model.predict(self.x[part])

    def parts(self, size: int, kept: NDArray[np.bool_] | None = None) -> Iterator[Part]:
        """Parts of equal size, fold by fold; contexts with equal features are asked about once per fold."""
        for held_out, model in enumerate(self.models):
            alone, inside = on_one_thread(model), self.folds.fold == held_out
            here = np.flatnonzero(inside if kept is None else inside & kept)
            representative, place = _distinct_rows(self.x, here)
            order = np.argsort(place, kind="stable")
            bounds = np.searchsorted(place[order], np.arange(0, len(representative) + size, size))
            for number, at in enumerate(range(0, len(representative), size)):
                members = np.sort(order[bounds[number] : bounds[number + 1]])
                rows = representative[at : at + size]
                ask = partial(_asked, alone, self.x, rows)
                yield Part(here[members], place[members] - at, ask, getattr(model, "concurrent", False))

    def average(self, x: FloatArray) -> FloatArray:
        """Mean over the models of all folds, (n, K, K, C)."""
        return sum((model.predict(x) for model in self.models[1:]), self.models[0].predict(x)) / len(self.models)

    def at(self, cells: Cells) -> FloatArray:
        """Out-of-fold probabilities of labelled cells, (m, C); not to be written to."""
        if cells in self._known:
            return self._known[cells]
        probabilities = np.empty(cells.y.shape)
        for held_out, model in enumerate(self.models):
            here = np.flatnonzero(self.folds.fold[cells.context] == held_out)
            if not len(here):
                continue
            probabilities[here] = model.at(self.x[cells.context[here]], cells.first[here], cells.second[here])
        probabilities.flags.writeable = False
        if len(self._known) == _KEPT:
            self._known.pop(next(iter(self._known)))
        self._known[cells] = probabilities
        return probabilities


@dataclass(frozen=True, slots=True, eq=False)
class GivenMu:
    """Ready probabilities, (n, K, K, C)."""

    mu: FloatArray

    def chunks(self, size: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """The given probabilities, in order."""
        for at in range(0, len(self.mu), size):
            yield np.arange(at, min(at + size, len(self.mu))), self.mu[at : at + size]

    def parts(self, size: int, kept: NDArray[np.bool_] | None = None) -> Iterator[Part]:
        """Parts in order."""
        contexts = np.arange(len(self.mu)) if kept is None else np.flatnonzero(kept)
        for at in range(0, len(contexts), size):
            part = contexts[at : at + size]
            yield Part(part, np.arange(len(part)), partial(self.mu.__getitem__, part), True)

    def average(self, x: FloatArray) -> FloatArray:
        """Raise: given probabilities know nothing of other contexts."""
        raise DataError("predict(newdata) needs a learner; this fit was given mu=")

    def at(self, cells: Cells) -> FloatArray:
        """The given probabilities of labelled cells, (m, C)."""
        return self.mu[cells.context, cells.first, cells.second]


def _asked(model: MuModel, x: FloatArray, rows: IntArray) -> FloatArray:
    return model.predict(x[rows])


def _distinct_rows(x: FloatArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """First of each set of equal rows, and the set of each row; every row by itself where few could be equal."""
    if x.shape[1] == 0 or len(rows) == 0:
        return rows[:1], np.zeros(len(rows), dtype=np.intp)
    # Most contexts differ in one column already: then nothing is gained by comparing whole rows.
    if max(len(np.unique(x[rows[:_PEEK], f])) for f in range(x.shape[1])) > min(len(rows), _PEEK) / 2:
        return rows, np.arange(len(rows))
    _, first, place = np.unique(x[rows], axis=0, return_index=True, return_inverse=True, equal_nan=True)
    return rows[first], place.reshape(-1)
