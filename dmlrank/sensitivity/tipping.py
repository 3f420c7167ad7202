"""Tipping points: the gamma at which a bound, or its confidence limit, reaches the value of the hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq

from ..data.preferences import FloatArray
from .vote_bounds import Bounds

# Values of gamma at which bounds are evaluated to find tipping points, as far as these need them.
GRID = (1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 25.0, 50.0, 100.0)


def extend_to_tipping_points(
    bounds: Bounds, value: FloatArray, evaluate: Callable[[Sequence[float]], Bounds]
) -> Bounds:
    """Return the bounds with those values of the grid that tipping points need.

    Larger values are added until every bound has reached its value, or gamma is 100. Then values are added between the
    two evaluated values that enclose a tipping point.

    Shapes: value (J,).
    """
    for gamma in GRID:
        if gamma > bounds.gamma[-1] and (distances(bounds, value)[0][-1] > 0).any():
            bounds = bounds.joined(evaluate([gamma]))
    inside = set[float]()
    for distance in distances(bounds, value):
        places = np.argmax(distance <= 0, axis=0)
        for place in places[places > 0]:
            low, high = bounds.gamma[place - 1], bounds.gamma[place]
            inside |= {gamma for gamma in GRID if low < gamma < high}
    return bounds.joined(evaluate(sorted(inside))) if inside else bounds


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

    Shapes: gamma (G,), distance (G, J).
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
