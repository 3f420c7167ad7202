"""Forest plots: estimates with their confidence intervals, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .style import DARK, LIGHT, hide_spines, horizontal_rows, literal, new_axes, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Estimates with the limits of their intervals, in the order in which they are drawn from top to bottom.

    Attributes
    ----------
    names : sequence of str
        Names of the d estimates.
    estimate, low, high : ndarray, shape (d,)
        Estimates and limits; a limit of a one-sided interval may be infinite.
    label : str
        Label of the axis: the estimated quantity, its unit, and the level of the intervals.
    """

    names: Sequence[str]
    estimate: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    label: str

    @property
    def reach(self) -> NDArray[np.float64]:
        """Distances of the limits from the estimates, (2, d)."""
        return np.stack([self.estimate - self.low, self.high - self.estimate])


def forest_plot(intervals: Intervals, reference: float | None, ax: Axes | None = None) -> Axes:
    """Draw estimates with intervals, one below the other.

    Parameters
    ----------
    intervals : Intervals
    reference : float or None
        Position of a dashed line in the unit of the estimates; no line when None.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    """
    axes = new_axes(ax, height=1.2 + 0.32 * len(intervals.names))
    place = np.arange(len(intervals.names))[::-1]
    axes.errorbar(intervals.estimate, place, xerr=intervals.reach, fmt="o", color=DARK, ecolor=LIGHT, capsize=3)
    _reference_line(axes, reference)
    horizontal_rows(axes, intervals.names, intervals.label)
    return axes


def grouped_forest_plot(
    intervals: Sequence[Intervals],
    groups: Sequence[str],
    reference: float | None,
    *,
    variable: str,
    ax: Axes | None = None,
) -> Axes:
    """Draw estimates by group, with the estimates of all groups for one name next to each other.

    Parameters
    ----------
    intervals : sequence of Intervals
        One per group, with the same names and label.
    groups : sequence of str
        Names of the groups.
    reference : float or None
        Position of a dashed line; no line when None.
    variable : str
        Variable that defines the groups: the title of the legend.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    """
    names = intervals[0].names[::-1]
    n_names, n_groups = len(names), len(groups)
    axes = new_axes(ax, height=1.4 + n_names * (0.18 + 0.13 * n_groups))
    step = 0.76 / n_groups
    for g, (group, name, colour) in enumerate(zip(intervals, groups, palette(n_groups), strict=True)):
        # The first group stands on top, as in the legend.
        place = np.arange(n_names)[::-1] + step * ((n_groups - 1) / 2 - g)
        axes.errorbar(
            group.estimate,
            place,
            xerr=group.reach,
            fmt="o",
            markersize=4,
            color=colour,
            elinewidth=1.2,
            capsize=0,
            label=literal(name),
        )
    for line in np.arange(n_names - 1) + 0.5:
        axes.axhline(line, color="0.9", linewidth=0.8, zorder=0)
    _reference_line(axes, reference)
    axes.set_yticks(np.arange(n_names), [literal(name) for name in names])
    axes.set_ylim(-0.6, n_names - 0.4)
    axes.set_xlabel(intervals[0].label)
    axes.legend(title=literal(variable), loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    hide_spines(axes)
    return axes


def difference_plot(
    intervals: Intervals, rejected: NDArray[np.bool_], margins: Sequence[float], ax: Axes | None = None
) -> Axes:
    """Draw differences with intervals, dark where the hypothesis is rejected; infinite limits end at the frame.

    Parameters
    ----------
    intervals : Intervals
    rejected : ndarray of bool, shape (d,)
        Whether each hypothesis is rejected.
    margins : sequence of float
        Differences on the boundary between hypothesis and alternative, marked by dashed lines.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    """
    axes = new_axes(ax, height=1.2 + 0.32 * len(intervals.names))
    place = np.arange(len(intervals.names))[::-1]
    low, high = intervals.low, intervals.high
    ends = np.concatenate([intervals.estimate, low[np.isfinite(low)], high[np.isfinite(high)], [0.0]])
    room = 0.08 * (np.nanmax(ends) - np.nanmin(ends) or 1.0)
    axis_ends = np.nanmin(ends) - room, np.nanmax(ends) + room
    colours = np.where(rejected, DARK, "0.55")
    axes.hlines(place, np.clip(low, *axis_ends), np.clip(high, *axis_ends), color=colours, linewidth=1.6)
    axes.scatter(intervals.estimate, place, color=colours, zorder=3)
    for line in margins:
        axes.axvline(line, color="0.4", linewidth=0.9, linestyle="--", zorder=1)
    axes.set_xlim(*axis_ends)
    horizontal_rows(axes, intervals.names, intervals.label)
    return axes


def _reference_line(axes: Axes, reference: float | None) -> None:
    """Draw a dashed vertical line at the reference, if there is one."""
    if reference is not None:
        axes.axvline(reference, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
