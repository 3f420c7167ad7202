"""Checks that a user's function of mu is finite, treats contexts separately, uses only compared pairs and is smooth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..data.graph import Graph
from ..data.preferences import FloatArray
from ..exceptions import GraphError, OptionError

Function = Callable[[FloatArray], FloatArray]

_SEED = 20260121
# Relative differences between values up to this number are rounding.
_VALUE_TOLERANCE = 1e-9
# Relative differences between an analytic derivative and a difference quotient up to this number are rounding.
_DERIVATIVE_TOLERANCE = 1e-5
# Number of points on a path, number of refinements around the sharpest bend, and factor by which each refines.
_N_POINTS, _N_REFINEMENTS, _ZOOM = 65, 8, 6
# Slopes at the last, tiny step may differ by this share of the path's largest slope.
_KINK_TOLERANCE = 1e-2


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Probabilities at which a function is tried.

    uniform (1, K, K, C): All categories have the same probability, so that all items tie.
    draws (4, K, K, C): Random probabilities away from 0 and 1.
    """

    uniform: FloatArray
    draws: FloatArray

    @classmethod
    def of(cls, n_items: int, n_categories: int) -> Probe:
        """Return the probe for K items and C categories, which is the same in every call."""
        rng = np.random.default_rng(_SEED)
        uniform = np.full((1, n_items, n_items, n_categories), 1 / n_categories)
        draws = 0.1 / n_categories + 0.9 * rng.dirichlet(np.ones(n_categories), size=(4, n_items, n_items))
        items = np.arange(n_items)
        uniform[:, items, items] = draws[:, items, items] = 0.0
        return cls(uniform, draws)


def check_values(function: Function, probe: Probe, title: str) -> FloatArray:
    """Return the function's values at the probe's draws, (4, d)."""
    values = function(probe.draws)
    if not np.isfinite(values).all() or not np.isfinite(function(probe.uniform)).all():
        raise OptionError(
            f"functional {title!r} returns NaN or infinity at ordinary probabilities; allowed: finite numbers; check "
            f"that the function leaves out the diagonal, where mu is zero"
        )
    if values.shape[1] == 0:
        raise OptionError(f"functional {title!r} returns no numbers; allowed: an array (n, d) with d at least 1")
    scale = np.abs(values).max(initial=1e-300)
    one_by_one = np.concatenate([function(probe.draws[i : i + 1]) for i in range(len(values))])
    if np.abs(function(probe.draws) - values).max() > _VALUE_TOLERANCE * scale:
        raise OptionError(
            f"functional {title!r} returns other values when it is called again; let it draw no random numbers and "
            f"keep no state"
        )
    if np.abs(one_by_one - values).max() > _VALUE_TOLERANCE * scale:
        raise OptionError(
            f"functional {title!r} gives a context another value when it is called with other contexts; let a row of "
            f"the result depend on the same row of mu only (the mean over contexts is taken afterwards)"
        )
    return values


def uses_pairs(function: Function, probe: Probe, pairs: NDArray[np.bool_]) -> bool:
    """Whether the function depends on the probabilities of these ordered pairs, (K, K)."""
    changed = probe.draws.copy()
    changed[:, pairs] = probe.uniform[:, pairs]
    values = function(probe.draws)
    return bool(np.abs(function(changed) - values).max() > _VALUE_TOLERANCE * np.abs(values).max(initial=1e-300))


def check_off_graph(function: Function, probe: Probe, graph: Graph, title: str) -> None:
    """Check that the function does not depend on pairs that are not compared."""
    off = ~graph.edges & ~np.eye(graph.n_items, dtype=bool)
    if not off.any():
        return
    if uses_pairs(function, probe, off):
        raise GraphError(
            f"functional {title!r} uses pairs that are not compared ({int(off.sum()) // 2} of "
            f"{off.shape[0] * (off.shape[0] - 1) // 2} pairs are not), so that no label corrects their estimates; let "
            f"the function use compared pairs only (res.graph.edges), lower min_labels=, or drop models with "
            f"min_comparisons="
        )


def check_smooth(function: Function, probe: Probe, title: str) -> None:
    """Search for jumps and kinks along three straight paths from one array of probabilities to another.

    The first path passes through the point where all items tie, because many functions have their kink there. Each path
    is refined around its sharpest bend. As the steps get smaller, the slopes on both sides of a point approach each
    other on a smooth path. At a kink their difference stays; at a jump it grows.
    """
    draws = probe.draws
    for start, stop in ((draws[0], 2 * probe.uniform[0] - draws[0]), (draws[1], draws[2]), (draws[2], draws[3])):
        slope, bends = _sharpest_bends(function, start, stop)
        # Where no slope exceeds this limit, the function is constant along the path, up to rounding.
        if slope <= 1e-9 * max(1.0, np.abs(function(draws)).max()):
            continue
        if bends[-1] > _KINK_TOLERANCE * slope:
            is_jump = bends[-1] > 100 * max(bends[0], slope)
            hint = (
                "a step such as 'share above 0.6' is smooth as Dominance(tau=0.6, sharpness=20)"
                if is_jump
                else "a minimum is smooth as SoftMin(sharpness=20), a threshold as Dominance(tau=0.6, sharpness=20)"
            )
            raise OptionError(
                f"functional {title!r} is not differentiable: it has a {'jump' if is_jump else 'kink'}, where no "
                f"estimate is normally distributed; {hint}"
            )


def _sharpest_bends(function: Function, start: FloatArray, stop: FloatArray) -> tuple[float, list[float]]:
    """Return the largest slope of the path, and the largest change of slope at smaller and smaller steps."""
    low, high, bends, slope = 0.0, 1.0, list[float](), 0.0
    for level in range(_N_REFINEMENTS):
        t = np.linspace(low, high, _N_POINTS)
        step = t[1] - t[0]
        values = function(start + t[:, None, None, None] * (stop - start))
        slopes = np.diff(values, axis=0) / step
        if level == 0:
            slope = float(np.abs(slopes).max())
        change = np.abs(np.diff(slopes, axis=0)).max(axis=1)
        place = int(np.argmax(change))
        bends.append(float(change[place]))
        if step < 1e-7:
            break
        middle = t[place + 1]
        low, high = (
            max(0.0, middle - _N_POINTS // (2 * _ZOOM) * step),
            min(1.0, middle + _N_POINTS // (2 * _ZOOM) * step),
        )
    return slope, bends


def check_derivative(
    analytic: Callable[[FloatArray, FloatArray], FloatArray],
    differences: Callable[[FloatArray, FloatArray], FloatArray],
    probe: Probe,
    title: str,
) -> None:
    """Check that an analytic derivative agrees with differences of the function."""
    delta = probe.draws[::-1] - probe.draws
    expected, derivative = differences(probe.draws, delta), analytic(probe.draws, delta)
    if derivative.shape != expected.shape:
        raise OptionError(
            f"the derivative of functional {title!r} returns shape {derivative.shape}; allowed: {expected.shape}, the "
            f"shape that the function returns"
        )
    error = np.abs(derivative - expected)
    scale = max(float(np.abs(expected).max()), 1e-12)
    if not error.max() <= _DERIVATIVE_TOLERANCE * scale:
        i, output = np.unravel_index(int(np.nanargmax(np.where(np.isnan(error), np.inf, error))), error.shape)
        raise OptionError(
            f"the derivative of functional {title!r} is {derivative[i, output]:.6g} where differences of the function "
            f"give {expected[i, output]:.6g} (output {output + 1}); correct directional=, or leave it out to use "
            f"differences"
        )
