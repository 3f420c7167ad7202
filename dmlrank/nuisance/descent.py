"""Minimising a smooth function of many coefficients."""

from __future__ import annotations

from collections.abc import Callable

from ..data.preferences import FloatArray

_MEMORY = 12
_MAX_STEPS = 200
# Share of the decrease that the slope promises which a step has to bring (Armijo).
_SUFFICIENT = 1e-4
_SHORTEST = 1e-10


def minimised(
    objective: Callable[[FloatArray], tuple[float, FloatArray]], start: FloatArray, tolerance: float = 1e-3
) -> FloatArray:
    """Where a function is smallest, by the limited-memory BFGS method.

    SciPy's routine spends most of its time waiting for the threads of BLAS on problems of this size; this one needs
    sums of products of vectors only.

    Parameters
    ----------
    objective : callable
        Value and gradient, in units in which the curvature is about one.
    start : ndarray, shape (d,)
    tolerance : float
        Decrease of the function that a further step has to promise.

    References
    ----------
    Nocedal and Wright (2006), Numerical Optimization, algorithms 7.4 and 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> minimised(lambda z: (float(((z - 3) ** 2).sum()), 2 * (z - 3)), np.zeros(2)).round(2)
    array([3., 3.])
    """
    at, (value, gradient) = start, objective(start)
    steps: list[FloatArray] = []
    bends: list[FloatArray] = []
    for _ in range(_MAX_STEPS):
        direction = -_towards(gradient, steps, bends)
        slope = float((gradient * direction).sum())
        if -slope < tolerance:
            break
        size = 1.0
        while True:
            new = at + size * direction
            new_value, new_gradient = objective(new)
            if new_value <= value + _SUFFICIENT * size * slope or size < _SHORTEST:
                break
            size /= 2
        step, bend = new - at, new_gradient - gradient
        # Where the function bends the wrong way along a step, the step says nothing about its minimum.
        if (step * bend).sum() > 1e-10 * (bend * bend).sum():
            steps, bends = [*steps, step][-_MEMORY:], [*bends, bend][-_MEMORY:]
        at, value, gradient = new, new_value, new_gradient
    return at


def _towards(gradient: FloatArray, steps: list[FloatArray], bends: list[FloatArray]) -> FloatArray:
    """The inverse Hessian that the last steps tell of, times the gradient."""
    ahead, weights = gradient, []
    for step, bend in zip(reversed(steps), reversed(bends), strict=True):
        weight = (step * ahead).sum() / (step * bend).sum()
        ahead = ahead - weight * bend
        weights.append(weight)
    if steps:
        ahead = ahead * ((steps[-1] * bends[-1]).sum() / (bends[-1] * bends[-1]).sum())
    for step, bend, weight in zip(steps, bends, reversed(weights), strict=True):
        ahead = ahead + step * (weight - (bend * ahead).sum() / (step * bend).sum())
    return ahead
