"""Penalised likelihoods of item effects, and the search for the most likely effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...data.preferences import FloatArray

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
# The search for the largest penalised log-likelihood ends where a further step promises a smaller increase than this,
# which changes no coefficient by a noticeable part of its standard error.
_TOLERANCE = 1e-3

Objective: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]
E = TypeVar("E")


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

    def __init__(self, objective: Objective, start: FloatArray, tolerance: float = _TOLERANCE) -> None:
        self._objective, self._tolerance = objective, tolerance
        self.best = start
        self._value, self._gradient = objective(start)
        self._steps: list[FloatArray] = []
        self._gradient_changes: list[FloatArray] = []
        self._steps_left = _MAX_STEPS

    def advance(self, n_steps: int | None = None) -> None:
        """Take at most ``n_steps`` further steps; when None, go on to the end of the search."""
        for _ in range(self._steps_left if n_steps is None else min(n_steps, self._steps_left)):
            direction = -self._inverse_hessian_times(self._gradient)
            slope = float((self._gradient * direction).sum())
            if -slope < self._tolerance:
                self._steps_left = 0
                return
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
            self._steps_left -= 1

    def _inverse_hessian_times(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient, (d,), times the inverse Hessian that is estimated from the last steps."""
        steps, changes = self._steps, self._gradient_changes
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


def minimise(objective: Objective, start: FloatArray, tolerance: float = _TOLERANCE) -> FloatArray:
    """Return the minimum of a function, (d,); see :class:`LBFGS` for the arguments."""
    search = LBFGS(objective, start, tolerance)
    search.advance()
    return search.best


class PenalisedSearch(LBFGS):
    """A search for the largest penalised log-likelihood, in steps of each coefficient's standard error.

    loss: Returns minus the log-likelihood and its gradient.
    penalty (d,): Prior precision of every coefficient.
    step_scale (d,): Approximate standard error of every coefficient; zero for coefficients that stay where the search
        begins.
    start (d,): Where the search begins; zero when None.
    """

    def __init__(
        self,
        loss: Objective,
        penalty: FloatArray,
        step_scale: FloatArray,
        start: FloatArray | None = None,
        tolerance: float = _TOLERANCE,
    ) -> None:
        begin = np.zeros(len(penalty)) if start is None else start

        def objective(steps: FloatArray) -> tuple[float, FloatArray]:
            flat = begin + step_scale * steps
            value, gradient = loss(flat)
            return value + float((penalty * flat**2).sum()) / 2, step_scale * (gradient + penalty * flat)

        self._begin, self._step_scale = begin, step_scale
        super().__init__(objective, np.zeros(len(penalty)), tolerance)

    @property
    def flat(self) -> FloatArray:
        """The best coefficients so far, (d,)."""
        return self._begin + self._step_scale * self.best


class PenalisedLikelihood(Generic[E]):
    """The likelihood of labels as a function of effects in one flat vector, (d,), which a ridge penalises.

    penalty (d,): Penalty of every effect, as a multiple of the ridge.
    precision (d,): Approximate Fisher information of the labels about every effect. It only scales the steps of the
        search: in units of the standard errors, effects of items with few votes converge as fast as the others.
    is_free (d,): Whether an effect is fitted; an effect that is not fitted stays where the search begins.
    """

    penalty: FloatArray
    precision: FloatArray
    is_free: NDArray[np.bool_]

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the log-likelihood, and its gradient."""
        raise NotImplementedError

    def effects(self, flat: FloatArray) -> E:
        """Return the effects whose coefficients stand in a flat vector."""
        raise NotImplementedError

    def search(self, ridge: float, start: FloatArray | None = None, tolerance: float = _TOLERANCE) -> PenalisedSearch:
        """Begin a search for the most likely effects under a ridge penalty, at ``start`` or at zero."""
        penalty = ridge * self.penalty
        step_scale = np.where(self.is_free, 1 / np.sqrt(self.precision + penalty), 0.0)
        return PenalisedSearch(self.loss, penalty, step_scale, start, tolerance)

    def fit(self, ridge: float, start: FloatArray | None = None) -> FloatArray:
        """Return the coefficients of the most likely effects under a ridge penalty, (d,)."""
        search = self.search(ridge, start)
        search.advance()
        return search.flat
