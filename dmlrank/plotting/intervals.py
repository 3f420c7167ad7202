"""Forest plots of scores, and heat maps of tables over pairs; matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .style import literal, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Estimates with the limits of their intervals, in the order in which they are drawn from top to bottom.

    Attributes
    ----------
    names : sequence of str
        d names.
    estimate, half_width : ndarray, shape (d,)
    reference : float or None
        Where a dashed line stands, in the unit of the estimates; none when None.
    label : str
        Under the axis: what is estimated, its unit, and the level of the intervals.
    """

    names: Sequence[str]
    estimate: NDArray[np.float64]
    half_width: NDArray[np.float64]
    reference: float | None
    label: str


def forest_plot(intervals: Intervals, ax: Axes | None = None) -> Axes:
    """Estimates with intervals, one below the other.

    Parameters
    ----------
    intervals : Intervals
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    axes = new_axes(ax, height=1.2 + 0.32 * len(intervals.names))
    place = np.arange(len(intervals.names))[::-1]
    axes.errorbar(
        intervals.estimate, place, xerr=intervals.half_width, fmt="o", color="#1f4e79", ecolor="#7fa6c9", capsize=3
    )
    if intervals.reference is not None:
        axes.axvline(intervals.reference, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    axes.set_yticks(place, [literal(name) for name in intervals.names])
    axes.set_ylim(-0.7, len(place) - 0.3)
    axes.set_xlabel(intervals.label)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes


def heat_map(models: Sequence[str], values: NDArray[np.float64], label: str, ax: Axes | None = None) -> Axes:
    """A table (K, K) in colours, item shown first in rows; pairs with nothing are left white.

    Parameters
    ----------
    models : sequence of str
    values : ndarray, shape (K, K)
    label : str
        What the colours mean.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    axes: Any = new_axes(ax, height=2.2 + 0.42 * len(models))
    image = axes.imshow(np.where(values > 0, values, np.nan), cmap="Blues", vmin=0)
    names = [literal(name) for name in models]
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    if len(names) <= 12:
        middle = np.nanmax(values) / 2
        for j, k in np.argwhere(values > 0):
            shade = "white" if values[j, k] > middle else "0.2"
            axes.text(k, j, f"{values[j, k]:.3g}", ha="center", va="center", color=shade, fontsize=8)
    axes.get_figure().colorbar(image, ax=axes, label=label, shrink=0.8)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    return axes
