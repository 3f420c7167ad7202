"""Sources of mu: probabilities of all pairs in contexts that their model was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .._utils.log_loss import log_loss
from ..data.preferences import Cells, FloatArray, IntArray, PreferenceData
from ..exceptions import DataError
from ..nuisance.outcome_model.cross_fit import MuModel, on_one_thread
from ..nuisance.training_rows import Folds
from .identical_contexts import IdenticalContexts, find_identical_contexts

# Rows that are looked at to see whether contexts repeat.
_PEEK = 2000
# Sets of cells whose probabilities are remembered: labels, verdicts, labels by group.
_KEPT = 4


@dataclass(frozen=True, slots=True, eq=False)
class ContextPart:
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
    """Out-of-fold preference probabilities of all contexts, in parts that fit into memory."""

    def chunks(self, size: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """Indices of at most ``size`` contexts, (b,), and their probabilities, (b, K, K, C), until all have come."""
        ...

    def parts(self, size: int, kept: NDArray[np.bool_] | None = None) -> Iterator[ContextPart]:
        """The (kept) contexts in parts of at most ``size`` different ones each."""
        ...

    def average(self, x: FloatArray) -> FloatArray:
        """Probabilities in new contexts with features ``x``, (n, p): the mean over the models of all folds."""
        ...

    def at(self, cells: Cells) -> FloatArray:
        """Out-of-fold probabilities of labelled cells, (m, C)."""
        ...

    def by_fold(self) -> MuByFold | None:
        """The same as one table per fold; None where contexts of one fold may differ."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MuByFold:
    """Probabilities that are the same in all contexts of a fold, as they are without features."""

    models: tuple[MuModel, ...]
    folds: Folds
    # Groups for the labels that were asked about last: several fits on the same first stages ask about the same ones.
    _groups: dict[Cells, IdenticalContexts]

    def identical_contexts(self, data: PreferenceData) -> IdenticalContexts:
        """Groups of contexts with the same fold and the same labels."""
        if data.cells not in self._groups:
            self._groups.clear()
            self._groups[data.cells] = find_identical_contexts(data, self.folds.fold)
        return self._groups[data.cells]

    def tables(self) -> FloatArray:
        """Probabilities in the contexts of each fold, (F, K, K, C)."""
        return np.concatenate([model.predict(np.empty((1, 0))) for model in self.models])


@dataclass(frozen=True, slots=True, eq=False)
class CrossFittedMu:
    """One model per fold, each trained on the other folds."""

    models: tuple[MuModel, ...]
    folds: Folds
    x: FloatArray
    # Answers about whole sets of cells: several steps ask about the same labels and verdicts.
    _known: dict[Cells, FloatArray] = field(default_factory=dict, init=False, repr=False)
    _groups: dict[Cells, IdenticalContexts] = field(default_factory=dict, init=False, repr=False)

    def chunks(self, size: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """Out-of-fold probabilities, fold by fold."""
        for held_out, model in enumerate(self.models):
            here = np.flatnonzero(self.folds.fold == held_out)
            for at in range(0, len(here), size):
                part = here[at : at + size]
                yield part, model.predict(self.x[part])

    def parts(self, size: int, kept: NDArray[np.bool_] | None = None) -> Iterator[ContextPart]:
        """Parts of equal size, fold by fold; contexts with equal features are asked about once per fold."""
        for held_out, model in enumerate(self.models):
            alone, inside = on_one_thread(model), self.folds.fold == held_out
            here = np.flatnonzero(inside if kept is None else inside & kept)
            representative, place = distinct_rows(self.x, here)
            order = np.argsort(place, kind="stable")
            bounds = np.searchsorted(place[order], np.arange(0, len(representative) + size, size))
            for number, at in enumerate(range(0, len(representative), size)):
                members = np.sort(order[bounds[number] : bounds[number + 1]])
                rows = representative[at : at + size]
                ask = partial(_asked, alone, self.x, rows)
                yield ContextPart(here[members], place[members] - at, ask, getattr(model, "concurrent", False))

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

    def by_fold(self) -> MuByFold | None:
        """One table per fold without features, else None."""
        return None if self.x.shape[1] else MuByFold(self.models, self.folds, self._groups)


@dataclass(frozen=True, slots=True, eq=False)
class SuppliedMu:
    """Ready probabilities, (n, K, K, C)."""

    mu: FloatArray

    def chunks(self, size: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """The given probabilities, in order."""
        for at in range(0, len(self.mu), size):
            yield np.arange(at, min(at + size, len(self.mu))), self.mu[at : at + size]

    def parts(self, size: int, kept: NDArray[np.bool_] | None = None) -> Iterator[ContextPart]:
        """Parts in order."""
        contexts = np.arange(len(self.mu)) if kept is None else np.flatnonzero(kept)
        for at in range(0, len(contexts), size):
            part = contexts[at : at + size]
            yield ContextPart(part, np.arange(len(part)), partial(self.mu.__getitem__, part), True)

    def average(self, x: FloatArray) -> FloatArray:
        """Raise: given probabilities know nothing of other contexts."""
        raise DataError("predict(newdata) needs a learner; this fit was given mu=")

    def at(self, cells: Cells) -> FloatArray:
        """The given probabilities of labelled cells, (m, C)."""
        return self.mu[cells.context, cells.first, cells.second]

    def by_fold(self) -> MuByFold | None:
        """None: given probabilities know no folds."""
        return None


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutLabels:
    """Labels beside their out-of-fold probabilities; cells with equal ones may be one, with their mean label.

    Attributes
    ----------
    mu : ndarray, shape (r, C)
        Out-of-fold probabilities, not floored.
    cells : Cells
        The r cells with all votes that they stand for.
    count : ndarray of int, shape (r,)
        Labelled cells that each stands for.
    """

    mu: FloatArray
    cells: Cells
    count: IntArray

    @property
    def votes(self) -> FloatArray:
        """Votes for each category, (r, C)."""
        return self.cells.n_votes[:, None] * self.cells.y

    @property
    def log_loss(self) -> float:
        """Log-loss per vote."""
        return log_loss(self.mu, self.votes) / float(self.cells.n_votes.sum())

    @classmethod
    def by_cell(cls, mu: FloatArray, cells: Cells) -> HeldOutLabels:
        """Every labelled cell by itself, with its probabilities, (m, C)."""
        return cls(mu, cells, np.ones(len(cells), np.intp))

    @classmethod
    def by_pair(cls, mu: MuSource, groups: IdenticalContexts, n_items: int) -> HeldOutLabels:
        """The mean label of each fold's votes on each pair, where mu is the same in all contexts of a fold."""
        cells, count = groups.by_pair(n_items)
        return cls(mu.at(cells), cells, count)

    @classmethod
    def of(cls, mu: MuSource, data: PreferenceData) -> HeldOutLabels:
        """All labels, by pair where mu is the same in all contexts of a fold: its log-loss is linear in the labels."""
        constant = mu.by_fold()
        if constant is None:
            return cls.by_cell(mu.at(data.cells), data.cells)
        return cls.by_pair(mu, constant.identical_contexts(data), data.n_items)


def _asked(model: MuModel, x: FloatArray, rows: IntArray) -> FloatArray:
    return model.predict(x[rows])


def distinct_rows(x: FloatArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """First of each set of equal rows, and the set of each row; every row by itself where few could be equal."""
    if x.shape[1] == 0 or len(rows) == 0:
        return rows[:1], np.zeros(len(rows), dtype=np.intp)
    # Most contexts differ in one column already: then nothing is gained by comparing whole rows.
    if max(len(np.unique(x[rows[:_PEEK], f])) for f in range(x.shape[1])) > min(len(rows), _PEEK) / 2:
        return rows, np.arange(len(rows))
    _, first, place = np.unique(x[rows], axis=0, return_index=True, return_inverse=True, equal_nan=True)
    return rows[first], place.reshape(-1)
