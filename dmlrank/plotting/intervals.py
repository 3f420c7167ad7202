"""Forest plots: estimates with intervals, of all prompts or by group; curves over the number of runs.

Estimates with intervals are a frame with the columns ``estimate``, ``low`` and ``high``. Its rows are drawn from top to
bottom, and its index has their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray
from . import theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Largest number of groups that a legend tells apart.
_MOST_SERIES = 12
# Inches: the height of one column of a picture with several rows for each name.
_TALLEST_COLUMN = 18.0


def forest_plot(
    intervals: pd.DataFrame, reference: float | None, *, label: str, title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw estimates with intervals, one below the other."""
    columns = theme.row_columns(ax, len(intervals), f"a forest plot of {len(intervals)} models")
    size = columns.marker_size
    look: dict[str, Any] = {"fmt": "o", "color": theme.DARK, "ecolor": theme.LIGHT, "markersize": size}
    look |= {"elinewidth": 0.3 * size, "capsize": 0.5 * size}
    for axes, rows, place in columns.parts(intervals):
        axes.errorbar(rows["estimate"].to_numpy(), place, xerr=_reach(rows), **look)
        theme.draw_reference(axes, reference)
        theme.horizontal_rows(axes, list(rows.index), label, columns.pitch)
    return columns.titled(title)


def _reach(rows: pd.DataFrame) -> FloatArray:
    """Return the distances of the limits from the estimates, (2, d)."""
    return np.stack([rows["estimate"] - rows["low"], rows["high"] - rows["estimate"]])


def grouped_forest_plot(
    intervals: Mapping[str, pd.DataFrame],
    reference: float | None,
    *,
    variable: str,
    label: str,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw estimates by group, with the estimates of all groups for one name next to each other."""
    n_groups, names = len(intervals), list(next(iter(intervals.values())).index)
    if n_groups > _MOST_SERIES:
        raise theme.too_many(f"a forest plot of {n_groups} groups", _MOST_SERIES, "choose groups by a coarser column")
    row = 0.2 + 0.12 * n_groups
    what = f"a forest plot of {len(names)} models in {n_groups} groups"
    columns = theme.row_columns(ax, len(names), what, width=8.0, row=row, most_rows=int(_TALLEST_COLUMN / row))
    step = 0.76 / n_groups
    size = float(np.clip(0.5 * step * columns.pitch, 2.0, 5.0))
    looks = theme.series_styles(n_groups)
    for column, part in enumerate(columns.slices):
        axes, place = columns.axes[column], np.arange(len(names[part]))[::-1]
        for g, ((group, frame), look) in enumerate(zip(intervals.items(), looks, strict=True)):
            rows = frame[part]
            # The first group stands on top, as in the legend.
            at = place + step * ((n_groups - 1) / 2 - g)
            marks: dict[str, Any] = {"fmt": look.marker, "markersize": size, "color": look.colour}
            marks |= {"elinewidth": 0.35 * size, "label": theme.literal(group)}
            axes.errorbar(rows["estimate"].to_numpy(), at, xerr=_reach(rows), **marks)
        for line in place[:-1] - 0.5:
            axes.axhline(line, color=theme.GRID, linewidth=0.8, zorder=0)
        theme.draw_reference(axes, reference)
        axes.set_ylim(-0.6, len(place) - 0.4)
        theme.write_names(axes, names[part], place, pitch=columns.pitch)
        axes.set_xlabel(label, fontsize=theme.TEXT_SIZE)
        theme.hide_spines(axes)
    theme.outside_legend(columns.axes[-1], variable)
    return columns.titled(title)


def curve_chart(curves: Mapping[str, pd.DataFrame], across: str, up: str, title: str, ax: Axes | None = None) -> Axes:
    """Draw estimates with bands over the numbers that index the frames, a curve for each name."""
    from matplotlib.ticker import MaxNLocator

    if len(curves) > _MOST_SERIES:
        raise theme.too_many(f"a picture of {len(curves)} curves", _MOST_SERIES)
    axes = theme.new_axes(ax, height=4.5)
    for (name, rows), look in zip(curves.items(), theme.series_styles(len(curves)), strict=True):
        marks: dict[str, Any] = {"marker": look.marker, "linestyle": look.linestyle, "color": look.colour}
        axes.plot(rows.index, rows["estimate"], markersize=4, label=theme.literal(name), **marks)
        axes.fill_between(rows.index, rows["low"], rows["high"], color=look.colour, alpha=0.15, linewidth=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    theme.outside_legend(axes)
    return theme.finish(axes, across, theme.literal(up), title)
