"""Intervals and regions: forest plots, differences, the ellipse of two scores, and bands along a variable.

Estimates with intervals are a frame with the columns ``estimate``, ``low`` and ``high``. Its rows are drawn from top to
bottom, and its index has their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray
from . import theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Largest number of groups that a legend tells apart.
MOST_SERIES = 12
# Inches: the height of one column of a picture with several rows for each name.
_TALLEST_COLUMN = 18.0
_WEAK = "0.55"
# Letters of the names of two models.
LONGEST_PAIR = 48
# About so many markers stand on a line, which tell it from others in a copy without colours.
_MARKERS_ON_LINE = 8


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
    if n_groups > MOST_SERIES:
        advice = "draw plot('heat_map'), which has a column"
        raise theme.too_many(f"a forest plot of {n_groups} groups", MOST_SERIES, advice)
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


def difference_plot(
    intervals: pd.DataFrame, margins: Sequence[float], *, label: str, title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw differences with intervals: dark where ``rejected``, else grey. Infinite limits end at the frame."""
    columns = theme.row_columns(ax, len(intervals), f"a plot of {len(intervals):,} differences", width=8.0)
    ends = intervals[["estimate", "low", "high"]].replace([-np.inf, np.inf], np.nan)
    first, last = min(0.0, ends.min().min()), max(0.0, ends.max().max())
    room = 0.08 * (last - first or 1.0)
    for axes, rows, place in columns.parts(intervals):
        colours = np.where(rows["rejected"], theme.DARK, _WEAK)
        low, high = (rows[end].clip(first - room, last + room) for end in ("low", "high"))
        axes.hlines(place, low, high, color=colours, linewidth=1.4)
        fills = np.where(rows["rejected"], theme.DARK, "white").tolist()
        size = columns.marker_size**2
        axes.scatter(rows["estimate"], place, s=size, facecolors=fills, edgecolors=colours.tolist(), zorder=3)
        for line in margins:
            theme.draw_reference(axes, line)
        axes.set_xlim(first - room, last + room)
        theme.horizontal_rows(axes, list(rows.index), label, columns.pitch, longest=LONGEST_PAIR)
    return columns.titled(title)


def ellipse_plot(
    outline: FloatArray, center: FloatArray, names: Sequence[str], *, scores: bool, title: str, ax: Axes | None = None
) -> Axes:
    """Draw the confidence region of two scores or contrasts, an outline (m, 2), with its centre."""
    axes = theme.new_axes(ax, height=4.6, width=5.4)
    if len(outline) > 2:
        axes.fill(*outline.T, facecolor=theme.LIGHT, alpha=0.35, edgecolor="none")
    axes.plot(*outline.T, color=theme.DARK, linewidth=1.4)
    axes.plot(*center, "o", color=theme.DARK)
    low, high = outline.min(axis=0), outline.max(axis=0)
    # The region fills a square, so that its shape can be seen also where one score varies little.
    middle, half = (low + high) / 2, 0.62 * float((high - low).max())
    axes.axis((middle[0] - half, middle[0] + half, middle[1] - half, middle[1] + half))
    if scores:
        axes.axline((0.0, 0.0), slope=1, color=theme.REFERENCE, linewidth=0.9, linestyle="--", zorder=1)
    else:
        theme.draw_reference(axes, 0.0)
        theme.draw_reference(axes, 0.0, vertical=False)
    axes.locator_params(nbins=5)
    axes.set_aspect("equal")
    return theme.finish(axes, theme.literal(names[0]), theme.literal(names[1]), title)


def band_plot(
    bands: Mapping[str, pd.DataFrame], *, variable: str, label: str, title: str, ax: Axes | None = None
) -> Axes:
    """Draw the scores of models along a variable with bands, or with intervals where its values are no numbers.

    The index of every model's intervals has the values of the variable.
    """
    values = list(next(iter(bands.values())).index)
    if len(bands) > MOST_SERIES:
        raise theme.too_many(f"a picture of the bands of {len(bands)} models", MOST_SERIES)
    axes = theme.new_axes(ax, height=4.8, width=8.0)
    numeric = all(isinstance(value, int | float | np.number) for value in values)
    place = np.array(values, dtype=float) if numeric else np.arange(len(values), dtype=float)
    step = 0.6 / len(bands)
    for number, ((model, rows), look) in enumerate(zip(bands.items(), theme.series_styles(len(bands)), strict=True)):
        shared: dict[str, Any] = {"color": look.colour, "label": theme.literal(model)}
        if numeric:
            axes.fill_between(place, rows["low"], rows["high"], color=look.colour, alpha=0.15, linewidth=0)
            every = max(1, len(values) // _MARKERS_ON_LINE)
            shared |= {"linestyle": look.linestyle, "marker": look.marker, "markersize": 5, "markevery": every}
            axes.plot(place, rows["estimate"], **shared)
        else:
            at = place + step * (number - (len(bands) - 1) / 2)
            axes.errorbar(at, rows["estimate"].to_numpy(), yerr=_reach(rows), fmt=look.marker, markersize=4, **shared)
    if not numeric:
        axes.set_xlim(-0.6, len(values) - 0.4)
        theme.write_names(axes, [str(value) for value in values], place, axis="x")
    theme.outside_legend(axes)
    return theme.finish(axes, theme.literal(variable), label, title, grid="y")
