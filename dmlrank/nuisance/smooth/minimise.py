"""Limited-memory BFGS: where a smooth function of many coefficients is smallest, and a penalised likelihood largest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...data.preferences import FloatArray

_MEMORY = 12
_MAX_STEPS = 200
# Share of the decrease that the slope promises which a step has to bring (Armijo).
_SUFFICIENT = 1e-4
_SHORTEST = 1e-10
# Curvature of a multinomial log-likelihood in a score, for scaling the steps.
MULTINOMIAL_CURVATURE = 0.15
# Decrease of a penalised log-likelihood that a further step has to promise.
_TOLERANCE = 1e-3

Objective = Callable[[FloatArray], tuple[float, FloatArray]]


class LBFGS:
    """A search for where a function is smallest, by the limited-memory BFGS method, that can pause.

    SciPy's L-BFGS-B cannot pause, which giving up a ridge early needs, and it waits for the threads of BLAS; this one
    needs sums of products of vectors only. SciPy 1.17 needed as many values of the function for the main effects of
    the simulated arena (20 fits each of 405 and of 769 coefficients). It took 0.99 and 1.06 times as long as this one
    with one BLAS thread, and 1.8 and 4.2 times as long with two, which is what a user has.

    Parameters
    ----------
    objective : callable
        Value and gradient, in units in which the curvature is about one.
    start : ndarray, shape (d,)
    tolerance : float
        Decrease of the function that a further step has to promise.

    Attributes
    ----------
    at : ndarray, shape (d,)
        The best point so far.

    References
    ----------
    Nocedal and Wright (2006), Numerical Optimization, algorithms 7.4 and 3.1.
    """

    def __init__(self, objective: Objective, start: FloatArray, tolerance: float) -> None:
        self._objective, self._tolerance = objective, tolerance
        self.at = start
        self._value, self._gradient = objective(start)
        self._steps: list[FloatArray] = []
        self._gradient_changes: list[FloatArray] = []
        self._left = _MAX_STEPS

    def advance(self, n_steps: int | None = None) -> None:
        """Go on for so many steps, or to the end."""
        for _ in range(self._left if n_steps is None else min(n_steps, self._left)):
            direction = -_inverse_hessian_times(self._gradient, self._steps, self._gradient_changes)
            slope = float((self._gradient * direction).sum())
            if -slope < self._tolerance:
                self._left = 0
                return
            self._step(direction, slope)
            self._left -= 1

    def _step(self, direction: FloatArray, slope: float) -> None:
        size = 1.0
        while True:
            new = self.at + size * direction
            value, gradient = self._objective(new)
            if value <= self._value + _SUFFICIENT * size * slope or size < _SHORTEST:
                break
            size /= 2
        step, change = new - self.at, gradient - self._gradient
        # Where the function curves downwards along a step, the step says nothing about its minimum.
        if (step * change).sum() > 1e-10 * (change * change).sum():
            self._steps, self._gradient_changes = (
                [*self._steps, step][-_MEMORY:],
                [*self._gradient_changes, change][-_MEMORY:],
            )
        self.at, self._value, self._gradient = new, value, gradient


def minimised(objective: Objective, start: FloatArray, tolerance: float = 1e-3) -> FloatArray:
    """Where a function is smallest; see :class:`LBFGS`.

    Examples
    --------
    >>> import numpy as np
    >>> minimised(lambda z: (float(((z - 3) ** 2).sum()), 2 * (z - 3)), np.zeros(2)).round(2)
    array([3., 3.])
    """
    search = LBFGS(objective, start, tolerance)
    search.advance()
    return search.at


class PenalisedSearch:
    """A search for the largest penalised log-likelihood, in steps of a given unit for every coefficient.

    Parameters
    ----------
    loss : callable
        Minus the log-likelihood and its gradient.
    penalty : ndarray, shape (d,)
        Precision of every coefficient's prior.
    unit : ndarray, shape (d,)
        About the coefficients' standard errors; zero for those that stay where they are.
    start : ndarray, shape (d,), optional
        Zero when None.
    tolerance : float, optional
        Decrease that a further step has to promise; one that is small beside any standard error when None.
    """

    def __init__(
        self,
        loss: Objective,
        penalty: FloatArray,
        unit: FloatArray,
        start: FloatArray | None = None,
        *,
        tolerance: float | None = None,
    ) -> None:
        begin = np.zeros(len(penalty)) if start is None else start

        def objective(steps: FloatArray) -> tuple[float, FloatArray]:
            flat = begin + unit * steps
            value, gradient = loss(flat)
            return value + float((penalty * flat**2).sum()) / 2, unit * (gradient + penalty * flat)

        self._begin, self._unit = begin, unit
        self._search = LBFGS(objective, np.zeros(len(penalty)), _TOLERANCE if tolerance is None else tolerance)

    @property
    def flat(self) -> FloatArray:
        """The coefficients so far, (d,)."""
        return self._begin + self._unit * self._search.at

    def advance(self, n_steps: int | None = None) -> None:
        """Go on for so many steps, or to the end."""
        self._search.advance(n_steps)


def _inverse_hessian_times(gradient: FloatArray, steps: list[FloatArray], changes: list[FloatArray]) -> FloatArray:
    """The inverse Hessian estimated from the last steps and changes of the gradient, times the gradient."""
    ahead, weights = gradient, []
    for step, change in zip(reversed(steps), reversed(changes), strict=True):
        weight = (step * ahead).sum() / (step * change).sum()
        ahead = ahead - weight * change
        weights.append(weight)
    if steps:
        ahead = ahead * ((steps[-1] * changes[-1]).sum() / (changes[-1] * changes[-1]).sum())
    for step, change, weight in zip(steps, changes, reversed(weights), strict=True):
        ahead = ahead + step * (weight - (change * ahead).sum() / (step * change).sum())
    return ahead
