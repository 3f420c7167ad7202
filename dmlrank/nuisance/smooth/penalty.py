"""Smooth effects of items: a search for the most likely effects, and the selection of their penalty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from ..._utils.computation import report
from ...data.preferences import FloatArray, IntArray
from ..training_rows import FoldCells, LabelledRows
from .basis import SmoothBasis

# Number of last steps, with the changes of the gradient along them, from which the inverse Hessian is estimated.
_MEMORY = 12
_MAX_STEPS = 200
# The slope promises a decrease of the function along a step. A step is halved until the function decreases by at least
# this share of the promise (Armijo condition) ...
_SUFFICIENT_SHARE = 1e-4
# ... or until the step has become shorter than this multiple of the first try.
_SHORTEST = 1e-10
# Typical second derivative of one vote's multinomial log-likelihood with respect to a score; it scales the steps.
MULTINOMIAL_CURVATURE = 0.15
# The search for the largest penalised log-likelihood ends where a further step promises a smaller increase than this.
_TOLERANCE = 1e-3

Objective: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]


class LBFGS:
    """A search for the minimum of a function by the limited-memory BFGS method, which can pause and go on.

    There are two reasons not to use SciPy's L-BFGS-B. First, SciPy's search cannot pause. The selection of a ridge
    penalty pauses after a few steps to see whether the ridge is worth further steps. Second, SciPy's search waits for
    the threads of BLAS, whereas this search computes nothing but sums of products of vectors. Both were compared on the
    main effects of the simulated arena (20 fits each of 405 and of 769 coefficients). Both evaluated the function
    equally often. SciPy 1.17 took 0.99 and 1.06 times as long as this search with one BLAS thread, and 1.8 and 4.2
    times as long with two BLAS threads.

    objective: Returns the value and the gradient. Coordinates should be scaled so that second derivatives are about
        one.
    start (d,): Where the search begins.
    tolerance: The search ends where a further step promises a smaller decrease than this.
    best (d,): The best point so far.

    References
    ----------
    Nocedal and Wright (2006), Numerical Optimization, algorithms 7.4 and 3.1.
    """

    def __init__(self, objective: Objective, start: FloatArray, tolerance: float) -> None:
        self._objective, self._tolerance = objective, tolerance
        self.best = start
        self._value, self._gradient = objective(start)
        self._steps: list[FloatArray] = []
        self._gradient_changes: list[FloatArray] = []
        self._steps_left = _MAX_STEPS

    def advance(self, n_steps: int | None = None) -> None:
        """Take at most ``n_steps`` further steps; when None, go on to the end of the search."""
        for _ in range(self._steps_left if n_steps is None else min(n_steps, self._steps_left)):
            direction = -_inverse_hessian_times(self._gradient, self._steps, self._gradient_changes)
            slope = float((self._gradient * direction).sum())
            if -slope < self._tolerance:
                self._steps_left = 0
                return
            self._step(direction, slope)
            self._steps_left -= 1

    def _step(self, direction: FloatArray, slope: float) -> None:
        """Move along a direction, in which the function has this slope, and remember the step."""
        size = 1.0
        while True:
            point = self.best + size * direction
            value, gradient = self._objective(point)
            if value <= self._value + _SUFFICIENT_SHARE * size * slope or size < _SHORTEST:
                break
            size /= 2
        step, change = point - self.best, gradient - self._gradient
        # A step along which the function curves downwards would make the estimated Hessian indefinite.
        if (step * change).sum() > 1e-10 * (change * change).sum():
            self._steps = [*self._steps, step][-_MEMORY:]
            self._gradient_changes = [*self._gradient_changes, change][-_MEMORY:]
        self.best, self._value, self._gradient = point, value, gradient


def minimise(objective: Objective, start: FloatArray, tolerance: float = 1e-3) -> FloatArray:
    """Return the minimum of a function, (d,); see :class:`LBFGS` for the arguments."""
    search = LBFGS(objective, start, tolerance)
    search.advance()
    return search.best


class PenalisedSearch:
    """A search for the largest penalised log-likelihood, with steps scaled by each coefficient's standard error.

    loss: Returns minus the log-likelihood and its gradient.
    penalty (d,): Prior precision of every coefficient.
    step_scale (d,): Approximate standard error of every coefficient; zero for coefficients that stay where the search
        begins.
    start (d,): Where the search begins; zero when None.
    tolerance: The search ends where a further step promises a smaller increase of the penalised log-likelihood than
        this. When None it is 0.001, which changes no coefficient by a noticeable part of its standard error.
    """

    def __init__(
        self,
        loss: Objective,
        penalty: FloatArray,
        step_scale: FloatArray,
        start: FloatArray | None = None,
        *,
        tolerance: float | None = None,
    ) -> None:
        begin = np.zeros(len(penalty)) if start is None else start

        def objective(steps: FloatArray) -> tuple[float, FloatArray]:
            flat = begin + step_scale * steps
            value, gradient = loss(flat)
            return value + float((penalty * flat**2).sum()) / 2, step_scale * (gradient + penalty * flat)

        self._begin, self._step_scale = begin, step_scale
        self._search = LBFGS(objective, np.zeros(len(penalty)), _TOLERANCE if tolerance is None else tolerance)

    @property
    def flat(self) -> FloatArray:
        """The best coefficients so far, (d,)."""
        return self._begin + self._step_scale * self._search.best

    def advance(self, n_steps: int | None = None) -> None:
        """Take at most ``n_steps`` further steps; when None, go on to the end of the search."""
        self._search.advance(n_steps)


def _inverse_hessian_times(gradient: FloatArray, steps: list[FloatArray], changes: list[FloatArray]) -> FloatArray:
    """Return the gradient, (d,), times the inverse Hessian that is estimated from the last steps.

    Shapes: gradient (d,), steps, changes (d,).
    """
    product, weights = gradient, []
    for step, change in zip(reversed(steps), reversed(changes), strict=True):
        weight = (step * product).sum() / (step * change).sum()
        product = product - weight * change
        weights.append(weight)
    if steps:
        product = product * ((steps[-1] * changes[-1]).sum() / (changes[-1] * changes[-1]).sum())
    for step, change, weight in zip(steps, changes, reversed(weights), strict=True):
        product = product + step * (weight - (change * product).sum() / (step * change).sum())
    return product


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
        main = [table[:, :n] for table, n in zip(columns, n_main, strict=True)]
        flags = [table[:, n:] for table, n in zip(columns, n_main, strict=True)]
        return SmoothBasis.joined(bases), np.concatenate([*main, *flags], axis=1)


def _with_curves(fitted: FoldEffects[E], curves: _Curves) -> tuple[FoldCells, FoldCells]:
    """Return a fold's training and held-out cells with curves of the most important features."""
    straight = fitted.basis.straight
    leading = np.argsort(-fitted.effects.importance[: len(straight)], kind="stable")[:SCREENED]
    basis, columns = curves.of(np.sort(straight[leading]))
    training, held_out = (
        replace(cells, basis=basis, rows=replace(cells.rows, columns=columns[cells.context]))
        for cells in (fitted.training, fitted.held_out)
    )
    return training, held_out
