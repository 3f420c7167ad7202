"""Penalised smooth effects of the context: ridge penalty and columns are selected by the held-out folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from ..._utils.progress import report
from ...data.preferences import FloatArray, IntArray
from ..training_rows import FoldCells, LabelledRows
from .basis import SmoothBasis
from .minimise import PenalisedSearch

# Labelled cells from which one fold and a sample of this size select the hyperparameters for all folds.
MANY = 20_000
# Features that get curves where there are too many for all to have them.
SCREENED = 8
# Steps after which a ridge that is behind the stiffer one's held-out loss is given up.
_PEEK = 8


class Effects(Protocol):
    """Effects of items on what is seen of a pair, as curves in the smooth columns."""

    @property
    def importance(self) -> FloatArray:
        """How much each smooth column matters, (q,)."""
        ...

    def loss(self, rows: LabelledRows) -> float:
        """Log-loss of rows."""
        ...


E_co = TypeVar("E_co", bound=Effects, covariant=True)
E = TypeVar("E", bound=Effects)


class PenalisedLikelihood(Protocol[E_co]):
    """A likelihood of effects."""

    def search(self, ridge: float, start: FloatArray | None = None) -> PenalisedSearch:
        """A search for its effects under a penalty, from given ones."""
        ...

    def effects(self, flat: FloatArray) -> E_co:
        """Effects by name."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FoldEffects(Generic[E]):
    """Effects of one fold: learnt from ``training``, judged by ``held``."""

    training: FoldCells
    held: FoldCells
    main: E
    flat: FloatArray

    @property
    def basis(self) -> SmoothBasis:
        """What makes the smooth columns."""
        return self.training.basis

    @property
    def loss(self) -> float:
        """Log-loss of the effects on the held-out cells."""
        return self.main.loss(self.held.rows)


@dataclass(frozen=True, slots=True, eq=False)
class TunedEffects(Generic[E]):
    """Effects with the best ridge: a fit per trial fold, with screened features or all."""

    loss: float
    ridge: float
    screened: bool
    fits: list[FoldEffects[E]]


@dataclass(frozen=True, slots=True, eq=False)
class SmoothEffectsModel(Generic[E]):
    """A penalised likelihood of smooth effects, and the ridges to choose from.

    Attributes
    ----------
    problem : callable
        The likelihood of training cells.
    ridges : sequence of float
        Prior precisions of the curves' coefficients that are tried, from stiff to free.
    what : str
        For reports of progress.
    """

    problem: Callable[[FoldCells], PenalisedLikelihood[E]]
    ridges: Sequence[float]
    what: str

    def select(self, cells: FoldCells, trials: range) -> TunedEffects[E]:
        """The effects with the smallest held-out log-loss.

        Where features are too many for curves, those that matter most to straight lines are given curves as well, and
        the others are left out: chosen within every training set, and kept if it lowers the loss.
        """
        best = self.select_ridge([split(cells, f) for f in trials], False)
        if not len(cells.basis.straight):
            return best
        curves = _Curves(cells.x)
        screened = [_curved(own, curves) for own in best.fits]
        return min(best, self.select_ridge(screened, True), key=lambda smooth: smooth.loss)

    def select_ridge(self, splits: list[tuple[FoldCells, FoldCells]], screened: bool) -> TunedEffects[E]:
        """The ridge with the smallest held-out log-loss.

        The way from a stiff fit to a freer one leads from few to many degrees of freedom. Where its first steps have
        made the held-out loss larger, the rest would as well, and is not gone: fits that are too free take most steps.
        """
        best: TunedEffects[E] | None = None
        problems = [self.problem(training) for training, _ in splits]
        starts: list[FloatArray | None] = [None] * len(splits)
        for done, ridge in enumerate(self.ridges, start=1):
            searches = [problem.search(ridge, start) for problem, start in zip(problems, starts, strict=True)]
            for n_steps in [_PEEK, None] if best else [None]:
                for search in searches:
                    search.advance(n_steps)
                fits = [
                    FoldEffects(*own, problem.effects(search.flat), search.flat)
                    for own, problem, search in zip(splits, problems, searches, strict=True)
                ]
                loss = sum(fitted.loss for fitted in fits)
                if best and loss >= best.loss:
                    break
            starts = [fitted.flat for fitted in fits]
            report(done, len(self.ridges), f"{self.what}, ridges", minor=True)
            if best and loss >= best.loss:
                break
            best = TunedEffects(loss, ridge, screened, fits)
        assert best is not None
        return best

    def fit(self, cells: FoldCells, f: int, ridge: float, screened: bool, start: FloatArray | None) -> FoldEffects[E]:
        """Effects of one fold, with what a sample has selected."""
        training, held = split(cells, f)
        if not screened:
            return self._fitted(training, held, ridge, start)
        lines = self._fitted(training, held, ridge, None)
        return self._fitted(*_curved(lines, _Curves(cells.x)), ridge, None)

    def _fitted(self, training: FoldCells, held: FoldCells, ridge: float, start: FloatArray | None) -> FoldEffects[E]:
        problem = self.problem(training)
        search = problem.search(ridge, start)
        search.advance()
        return FoldEffects(training, held, problem.effects(search.flat), search.flat)


def split(cells: FoldCells, f: int) -> tuple[FoldCells, FoldCells]:
    """What a fold's model learns from, and what it is judged by."""
    return cells.and_soft(f), replace(cells.only(np.flatnonzero(cells.fold == f)), soft=())


def selection_cells(cells: FoldCells, n_folds: int, rng: np.random.Generator) -> tuple[FoldCells, range]:
    """The cells that select hyperparameters, and the folds that hold them out: all, or a sample and the first fold."""
    return (cells, range(n_folds)) if len(cells.rows) <= MANY else (sampled(cells, rng), range(1))


def sampled(cells: FoldCells, rng: np.random.Generator) -> FoldCells:
    """A sample that the first fold and the rest share as they share all cells."""
    share = MANY / len(cells.rows)
    soft = tuple(
        more.only(np.sort(rng.choice(len(more.rows), int(share * len(more.rows)), replace=False)))
        for more in cells.soft
    )
    return replace(cells.only(np.sort(rng.choice(len(cells.rows), MANY, replace=False))), soft=soft)


class _Curves:
    """Curves of single features, learnt once for the folds that choose them."""

    def __init__(self, x: FloatArray) -> None:
        self._x = x
        self._known: dict[int, tuple[SmoothBasis, FloatArray]] = {}

    def of(self, features: IntArray) -> tuple[SmoothBasis, FloatArray]:
        """The basis of some features, and its columns in all contexts."""
        for f in features.tolist():
            if f not in self._known:
                basis = SmoothBasis.learn(self._x, np.array([f]))
                self._known[f] = basis, basis.of(self._x)
        bases, columns = zip(*(self._known[f] for f in features.tolist()), strict=True)
        n_flags = [len(basis.missing) for basis in bases]
        main = [own[:, : own.shape[1] - n] for own, n in zip(columns, n_flags, strict=True)]
        flags = [own[:, own.shape[1] - n :] for own, n in zip(columns, n_flags, strict=True)]
        return SmoothBasis.joined(bases), np.hstack([*main, *flags])


def _curved(fitted: FoldEffects[Any], curves: _Curves) -> tuple[FoldCells, FoldCells]:
    """A fold's cells with curves of the most important features instead of straight lines of all."""
    straight: IntArray = fitted.basis.straight
    leading = np.argsort(-fitted.main.importance[: len(straight)], kind="stable")[:SCREENED]
    basis, columns = curves.of(np.sort(straight[leading]))
    training, held = (
        replace(own, basis=basis, rows=replace(own.rows, columns=columns[own.context]))
        for own in (fitted.training, fitted.held)
    )
    return training, held
