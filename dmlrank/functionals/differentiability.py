"""Checks that a user's function is a differentiable functional: finite, by context, on the graph, without kinks."""

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
_ALIKE = 1e-9
# Relative difference between an analytic derivative and a difference quotient that is not rounding.
_DERIVATIVE = 1e-5
# Grid of a path, how often it is refined around its sharpest bend, and by how much.
_GRID, _REFINED, _ZOOM = 65, 8, 6
# Share of the path's largest slope by which slopes may still differ at the last, tiny step.
_KINK = 1e-2


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Probabilities at which a function is tried.

    Attributes
    ----------
    even : ndarray, shape (1, K, K, C)
        All categories alike: all items tie.
    draws : ndarray, shape (4, K, K, C)
        Random, away from 0 and 1.
    """

    even: FloatArray
    draws: FloatArray

    @classmethod
    def of(cls, n_items: int, n_categories: int) -> Probe:
        """The probe for K items and C categories, always the same.

        Examples
        --------
        >>> Probe.of(3, 2).draws.shape
        (4, 3, 3, 2)
        """
        rng = np.random.default_rng(_SEED)
        even = np.full((1, n_items, n_items, n_categories), 1 / n_categories)
        draws = 0.1 / n_categories + 0.9 * rng.dirichlet(np.ones(n_categories), size=(4, n_items, n_items))
        items = np.arange(n_items)
        even[:, items, items] = draws[:, items, items] = 0.0
        return cls(even, draws)


def check_values(function: Function, probe: Probe, title: str) -> FloatArray:
    """Values at the probe, (4, d).

    Raises
    ------
    OptionError
        If they are not finite, differ between two calls, or a context's value depends on the other contexts.
    """
    values = function(probe.draws)
    if not np.isfinite(values).all() or not np.isfinite(function(probe.even)).all():
        raise OptionError(
            f"functional {title!r} returns NaN or infinity at ordinary probabilities; is the diagonal left out, where "
            f"mu is zero?"
        )
    if values.shape[1] == 0:
        raise OptionError(f"functional {title!r} returns no numbers; needed is (n, d) with d at least 1")
    scale = np.abs(values).max(initial=1e-300)
    alone = np.concatenate([function(probe.draws[i : i + 1]) for i in range(len(values))])
    if np.abs(function(probe.draws) - values).max() > _ALIKE * scale:
        raise OptionError(f"functional {title!r} returns other values when it is called again; it may draw no numbers")
    if np.abs(alone - values).max() > _ALIKE * scale:
        raise OptionError(
            f"functional {title!r} gives a context another value when it is called with other contexts; a row of its "
            f"result may depend on that row of mu only (the mean over contexts is taken afterwards)"
        )
    return values


def uses_pairs(function: Function, probe: Probe, pairs: NDArray[np.bool_]) -> bool:
    """Whether the function depends on the probabilities of these ordered pairs, (K, K)."""
    moved = probe.draws.copy()
    moved[:, pairs] = probe.even[:, pairs]
    before = function(probe.draws)
    return bool(np.abs(function(moved) - before).max() > _ALIKE * np.abs(before).max(initial=1e-300))


def check_off_graph(function: Function, probe: Probe, graph: Graph, title: str) -> None:
    """Raise :class:`GraphError` where the function depends on pairs that are not compared."""
    off = ~graph.edges & ~np.eye(graph.n_items, dtype=bool)
    if not off.any():
        return
    if uses_pairs(function, probe, off):
        raise GraphError(
            f"functional {title!r} uses pairs that are not compared ({int(off.sum()) // 2} of "
            f"{off.shape[0] * (off.shape[0] - 1) // 2} pairs are not), so that no label corrects what it says of them; "
            f"let it use compared pairs only (res.graph.edges), lower min_labels=, or drop models with "
            f"min_comparisons="
        )


def check_smooth(function: Function, probe: Probe, title: str) -> None:
    """Search for jumps and kinks along paths between probabilities, one of them through the point where all tie.

    Each path is refined around its sharpest bend. On a smooth path the slopes on both sides of a point come together
    as steps get smaller; at a kink their difference stays, at a jump it grows.

    Raises
    ------
    OptionError
        If one is found.
    """
    draws = probe.draws
    for start, stop in ((draws[0], 2 * probe.even[0] - draws[0]), (draws[1], draws[2]), (draws[2], draws[3])):
        slope, bends = _sharpest(function, start, stop)
        # Below, all is rounding: the function is constant along the path.
        if slope <= 1e-9 * max(1.0, np.abs(function(draws)).max()):
            continue
        if bends[-1] > _KINK * slope:
            jump = bends[-1] > 100 * max(bends[0], slope)
            hint = (
                "a step such as 'share above 0.6' is smooth as Dominance(tau=0.6, sharpness=20)"
                if jump
                else "a minimum is smooth as SoftMin(sharpness=20), a threshold as Dominance(tau=0.6, sharpness=20)"
            )
            raise OptionError(
                f"functional {title!r} is not differentiable: it has a {'jump' if jump else 'kink'}, where no estimate "
                f"is normally distributed; {hint}"
            )


def _sharpest(function: Function, start: FloatArray, stop: FloatArray) -> tuple[float, list[float]]:
    """Largest slope of the path, and the sharpest change of slope at ever smaller steps around it."""
    low, high, bends, slope = 0.0, 1.0, list[float](), 0.0
    for level in range(_REFINED):
        t = np.linspace(low, high, _GRID)
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
        low, high = max(0.0, middle - _GRID // (2 * _ZOOM) * step), min(1.0, middle + _GRID // (2 * _ZOOM) * step)
    return slope, bends


def check_derivative(
    analytic: Callable[[FloatArray, FloatArray], FloatArray],
    differences: Callable[[FloatArray, FloatArray], FloatArray],
    probe: Probe,
    title: str,
) -> None:
    """Raise :class:`OptionError` where an analytic derivative disagrees with differences of the function."""
    delta = probe.draws[::-1] - probe.draws
    expected, given = differences(probe.draws, delta), analytic(probe.draws, delta)
    if given.shape != expected.shape:
        raise OptionError(
            f"the derivative of functional {title!r} returns shape {given.shape}; needed is {expected.shape}, as the "
            f"function does"
        )
    apart = np.abs(given - expected)
    scale = max(float(np.abs(expected).max()), 1e-12)
    if not apart.max() <= _DERIVATIVE * scale:
        i, output = np.unravel_index(int(np.nanargmax(np.where(np.isnan(apart), np.inf, apart))), apart.shape)
        raise OptionError(
            f"the derivative of functional {title!r} is {given[i, output]:.6g} where differences of the function give "
            f"{expected[i, output]:.6g} (output {output + 1}); leave directional= out to use differences"
        )
