"""Tipping points: the gamma at which a bound, or its confidence limit, reaches the value of the hypothesis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq

from ..data.preferences import FloatArray
from .vote_bounds import Bounds

# Values of gamma at which bounds are evaluated, one after the other, until all of them have reached the value.
FURTHER_GAMMAS = (3.0, 5.0, 10.0, 30.0, 100.0)


def extend_until_reached(bounds: Bounds, value: FloatArray, evaluate: Callable[[float], Bounds]) -> Bounds:
    """Return the bounds with further values of gamma, up to 100, until every bound has reached its value.

    Parameters
    ----------
    bounds : Bounds
        At gamma = 1 and perhaps at larger values.
    value : ndarray, shape (J,)
        Value of each hypothesis.
    evaluate : callable
        Returns the bounds at one gamma.
    """
    for gamma in FURTHER_GAMMAS:
        if gamma <= bounds.gamma[-1]:
            continue
        if (distances(bounds, value)[0][-1] <= 0).all():
            break
        bounds = bounds.joined(evaluate(gamma))
    return bounds


def distances(bounds: Bounds, value: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how far bounds and confidence limits are from the value, (G, J) each.

    The bound is the one that comes closer to the value as gamma grows: the lower bound where the estimate is above the
    value, the upper bound elsewhere. A distance is negative where the value lies between the bounds.
    """
    is_above = bounds.lower[0] + bounds.upper[0] >= 2 * value
    of_bounds = np.where(is_above, bounds.lower - value, value - bounds.upper)
    of_limits = np.where(is_above, bounds.conf_lower - value, value - bounds.conf_upper)
    return of_bounds, of_limits


def tipping_gammas(gamma: FloatArray, distance: FloatArray) -> FloatArray:
    """Return the smallest gamma at which each distance, (G, J), is zero: 1 if it is none at gamma = 1, else inf.

    Between the values of gamma, (G,), the distance is interpolated by monotone cubics in log gamma.

    Parameters
    ----------
    gamma : ndarray, shape (G,)
        Increasing, from 1.
    distance : ndarray, shape (G, J)

    Examples
    --------
    >>> gamma = np.array([1.0, 2.0, 4.0])
    >>> tipping_gammas(gamma, np.array([[0.2, -0.1, 1.0], [0.0, -0.2, 0.9], [-0.2, -0.3, 0.8]])).tolist()
    [2.0, 1.0, inf]
    """
    return np.array([_smallest_root(np.log(gamma), column) for column in distance.T])


def _smallest_root(log_gamma: FloatArray, distance: FloatArray) -> float:
    """Return gamma where the interpolated distance is zero for the first time."""
    reached = np.flatnonzero(distance <= 0)
    if not len(reached):
        return float("inf")
    place = int(reached[0])
    if place == 0 or distance[place] == 0:
        return float(np.exp(log_gamma[place]))
    curve = PchipInterpolator(log_gamma, distance)
    return float(np.exp(brentq(curve, log_gamma[place - 1], log_gamma[place])))
