"""Penalised smooth effects of the context, whose ridge penalty and columns are selected on the held-out folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from ..._utils.computation import report
from ..._utils.mapped_arrays import empty, row_blocks, take
from ...data.preferences import FloatArray, IntArray
from ..training_rows import FoldCells, LabelledRows
from .basis import SmoothBasis
from .minimise import PenalisedSearch

# With more labelled cells than this number, hyperparameters are selected on a sample of this size with one trial fold.
SELECTION_SAMPLE = 20_000
# Number of features that get curves where there are too many features for all of them to have curves.
SCREENED = 8
# After this number of steps, the search with a new ridge stops for good if its held-out loss is not below that of the
# best ridge so far.
_STEPS_BEFORE_CHECK = 8


class Effects(Protocol):
    """Effects of items, as curves of the context features, on labels or on the choice of the pair that is shown."""

    @property
    def importance(self) -> FloatArray:
        """Importance of each smooth column, (q,): larger where the column changes the predictions more."""
        ...

    def loss(self, rows: LabelledRows) -> float:
        """Return the log-loss of the rows."""
        ...


E_co = TypeVar("E_co", bound=Effects, covariant=True)
E = TypeVar("E", bound=Effects)


class PenalisedLikelihood(Protocol[E_co]):
    """The likelihood of a training set as a function of the effects, which are penalised by a ridge."""

    def search(self, ridge: float, start: FloatArray | None = None) -> PenalisedSearch:
        """Return a search for the best effects under a ridge penalty; it begins at ``start``, or at zero."""
        ...

    def effects(self, flat: FloatArray) -> E_co:
        """Return the effects whose coefficients stand in a flat vector."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FoldEffects(Generic[E]):
    """Effects that were fitted for one fold.

    training, held_out: The cells that the effects were fitted to, and those of the fold.
    effects: The fitted effects.
    flat (d,): The coefficients of the effects in one vector, where a later search can begin.
    """

    training: FoldCells
    held_out: FoldCells
    effects: E
    flat: FloatArray

    @property
    def basis(self) -> SmoothBasis:
        """Basis of the smooth columns."""
        return self.training.basis

    def without_cells(self) -> FoldEffects[E]:
        """Return the fitted effects alone: the cells are as large as the data, and a fitted model needs none."""
        none = np.empty(0, dtype=np.intp)
        training, held_out = (
            replace(cells.only(none), x=cells.x[:0], soft=()) for cells in (self.training, self.held_out)
        )
        return replace(self, training=training, held_out=held_out)

    @property
    def loss(self) -> float:
        """Log-loss of the effects on the held-out cells."""
        return self.effects.loss(self.held_out.rows)


@dataclass(frozen=True, slots=True, eq=False)
class TunedEffects(Generic[E]):
    """Effects that were fitted for each trial fold with the selected ridge.

    A trial fold is a fold whose held-out log-loss is compared between the candidates, here the ridges.

    loss: Log-loss on the held-out cells of all trial folds.
    ridge: The selected prior precision of the coefficients.
    screened: Whether only the most important features are used, as curves.
    fits: One per trial fold.
    """

    loss: float
    ridge: float
    screened: bool
    fits: list[FoldEffects[E]]


@dataclass(frozen=True, slots=True, eq=False)
class SmoothEffectsModel(Generic[E]):
    """A penalised likelihood of smooth effects, and the ridges to select from.

    likelihood: Returns the likelihood of training cells.
    ridges: Prior precisions of the curves' coefficients that are tried, in decreasing order.
    name: What reports of progress call the effects.
    """

    likelihood: Callable[[FoldCells], PenalisedLikelihood[E]]
    ridges: Sequence[float]
    name: str

    def select(self, cells: FoldCells, trial_folds: range) -> TunedEffects[E]:
        """Return the effects with the smallest held-out log-loss.

        Where there are too many features for all of them to have curves, two models are compared. The first has a
        straight line of every feature. The second has curves of the features that are most important in the first one,
        and leaves the other features out. These features are chosen within every training set.
        """
        best = self.select_ridge([split(cells, f) for f in trial_folds], screened=False)
        if not len(cells.basis.straight):
            return best
        curves = _Curves(cells.x)
        splits = [_with_curves(fitted, curves) for fitted in best.fits]
        return min(best, self.select_ridge(splits, screened=True), key=lambda tuned: tuned.loss)

    def select_ridge(self, splits: Sequence[tuple[FoldCells, FoldCells]], *, screened: bool) -> TunedEffects[E]:
        """Return the effects with the ridge that has the smallest held-out log-loss."""
        best: TunedEffects[E] | None = None
        likelihoods = [self.likelihood(training) for training, _ in splits]
        starts: list[FloatArray | None] = [None] * len(splits)
        for n_tried, ridge in enumerate(self.ridges, start=1):
            searches = [likelihood.search(ridge, start) for likelihood, start in zip(likelihoods, starts, strict=True)]
            for n_steps in [_STEPS_BEFORE_CHECK, None] if best else [None]:
                for search in searches:
                    search.advance(n_steps)
                fits = [
                    FoldEffects(training, held_out, likelihood.effects(search.flat), search.flat)
                    for (training, held_out), likelihood, search in zip(splits, likelihoods, searches, strict=True)
                ]
                loss = sum(fitted.loss for fitted in fits)
                if best and loss >= best.loss:
                    break
            starts = [fitted.flat for fitted in fits]
            report(n_tried, len(self.ridges), f"{self.name}, ridges", minor=True)
            if best and loss >= best.loss:
                break
            best = TunedEffects(loss, ridge, screened, fits)
        assert best is not None
        return best

    def fit(
        self, cells: FoldCells, f: int, ridge: float, *, screened: bool, start: FloatArray | None = None
    ) -> FoldEffects[E]:
        """Return the effects of one fold with hyperparameters that a sample has selected.

        Shapes: start (d,).
        """
        training, held_out = split(cells, f)
        if not screened:
            return self._fit_split(training, held_out, ridge, start)
        lines = self._fit_split(training, held_out, ridge, None)
        return self._fit_split(*_with_curves(lines, _Curves(cells.x)), ridge, None)

    def _fit_split(
        self, training: FoldCells, held_out: FoldCells, ridge: float, start: FloatArray | None
    ) -> FoldEffects[E]:
        """Return the effects of the training cells.

        Shapes: start (d,).
        """
        likelihood = self.likelihood(training)
        search = likelihood.search(ridge, start)
        search.advance()
        return FoldEffects(training, held_out, likelihood.effects(search.flat), search.flat)


def split(cells: FoldCells, f: int) -> tuple[FoldCells, FoldCells]:
    """Return the training cells of fold ``f``, soft labels included, and the held-out cells of the fold."""
    return cells.training_cells(f), replace(cells.only(np.flatnonzero(cells.fold == f)), soft=())


def selection_cells(
    cells: FoldCells, n_folds: int, rng: np.random.Generator, *, sample_size: int = SELECTION_SAMPLE
) -> tuple[FoldCells, range]:
    """Return the cells on which hyperparameters are selected, and the trial folds, which are held out in turn.

    These are all cells and all folds. Where the cells are many, they are a random sample of the cells and the first
    fold.
    """
    if len(cells.rows) <= sample_size:
        return cells, range(n_folds)
    return _sample_cells(cells, sample_size, rng), range(1)


def _sample_cells(cells: FoldCells, size: int, rng: np.random.Generator) -> FoldCells:
    """Return a random sample of the labelled cells, with the same share of the soft-label cells of each fold."""
    share = size / len(cells.rows)
    soft = tuple(
        fold_cells.only(np.sort(rng.choice(len(fold_cells.rows), int(share * len(fold_cells.rows)), replace=False)))
        for fold_cells in cells.soft
    )
    return replace(cells.only(np.sort(rng.choice(len(cells.rows), size, replace=False))), soft=soft)


class _Curves:
    """Curves of single features, built when they are first needed and shared by all folds.

    x (n, p): Features of all contexts.
    """

    def __init__(self, x: FloatArray) -> None:
        self._x = x
        self._by_feature: dict[int, tuple[SmoothBasis, FloatArray]] = {}

    def of(self, features: IntArray) -> tuple[SmoothBasis, FloatArray]:
        """Return the basis of these features, and its columns in all contexts, (n, q)."""
        for f in features.tolist():
            if f not in self._by_feature:
                basis = SmoothBasis.learn(self._x, np.array([f]))
                self._by_feature[f] = basis, basis.of(self._x)
        bases, columns = zip(*(self._by_feature[f] for f in features.tolist()), strict=True)
        # The columns that indicate missing values come after the columns of all features.
        n_main = [table.shape[1] - len(basis.missing) for basis, table in zip(bases, columns, strict=True)]
        joined = empty((len(self._x), sum(table.shape[1] for table in columns)), like=self._x)
        for block in row_blocks(joined):
            main = [table[block, :n] for table, n in zip(columns, n_main, strict=True)]
            flags = [table[block, n:] for table, n in zip(columns, n_main, strict=True)]
            np.concatenate([*main, *flags], axis=1, out=joined[block])
        return SmoothBasis.joined(bases), joined


def _with_curves(fitted: FoldEffects[E], curves: _Curves) -> tuple[FoldCells, FoldCells]:
    """Return a fold's training and held-out cells with curves of the most important features."""
    straight = fitted.basis.straight
    leading = np.argsort(-fitted.effects.importance[: len(straight)], kind="stable")[:SCREENED]
    basis, columns = curves.of(np.sort(straight[leading]))
    training, held_out = (
        replace(cells, basis=basis, rows=replace(cells.rows, columns=take(columns, cells.context)))
        for cells in (fitted.training, fitted.held_out)
    )
    return training, held_out
