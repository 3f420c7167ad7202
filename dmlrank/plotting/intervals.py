"""Intervals and regions: forest plots, differences, the ellipse of two scores, and bands along a variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .theme import (
    DARK,
    GRID,
    LIGHT,
    REFERENCE,
    TEXT_SIZE,
    draw_reference,
    finish,
    hide_spines,
    horizontal_rows,
    literal,
    new_axes,
    outside_legend,
    row_columns,
    series_styles,
    too_many,
    write_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Largest number of groups that a legend tells apart.
MOST_SERIES = 12
# Inches: the height of one column of a picture with several rows for each name.
_TALLEST_COLUMN = 18.0
_WEAK = "0.55"
# Letters of the names of two models.
_LONGEST_PAIR = 48


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Estimates with the limits of their intervals, in the order in which they are drawn from top to bottom.

    names: Names of the d estimates.
    estimate, low, high (d,): Estimates and limits; a limit of a one-sided interval may be infinite.
    label: Label of the axis: the estimated quantity and its unit.
    title: What is held at which level, and for how many models.
    """

    names: Sequence[str]
    estimate: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    label: str
    title: str = ""

    @property
    def reach(self) -> NDArray[np.float64]:
        """Distances of the limits from the estimates, (2, d)."""
        return np.stack([self.estimate - self.low, self.high - self.estimate])

    def __getitem__(self, part: slice) -> Intervals:
        """Return some of the intervals."""
        numbers = {name: getattr(self, name)[part] for name in ("names", "estimate", "low", "high")}
        return replace(self, **numbers)


def forest_plot(intervals: Intervals, reference: float | None, ax: Axes | None = None) -> Axes:
    """Draw estimates with intervals, one below the other."""
    n_rows = len(intervals.names)
    columns = row_columns(ax, n_rows, f"a forest plot of {n_rows} models")
    size = columns.marker_size
    for axes, part in zip(columns.axes, columns.slices, strict=True):
        rows = intervals[part]
        place = np.arange(len(rows.names))[::-1]
        axes.errorbar(
            rows.estimate,
            place,
            xerr=rows.reach,
            fmt="o",
            color=DARK,
            ecolor=LIGHT,
            markersize=size,
            elinewidth=0.3 * size,
            capsize=0.5 * size,
        )
        draw_reference(axes, reference)
        horizontal_rows(axes, rows.names, rows.label, columns.pitch)
    columns.write_title(intervals.title)
    return columns.axes[0]


def grouped_forest_plot(
    intervals: Sequence[Intervals],
    groups: Sequence[str],
    reference: float | None,
    *,
    variable: str,
    ax: Axes | None = None,
) -> Axes:
    """Draw estimates by group, with the estimates of all groups for one name next to each other."""
    n_names, n_groups = len(intervals[0].names), len(groups)
    if n_groups > MOST_SERIES:
        raise too_many(f"a forest plot of {n_groups} groups", MOST_SERIES, "draw plot('heat_map'), which has a column")
    row = 0.2 + 0.12 * n_groups
    what = f"a forest plot of {n_names} models in {n_groups} groups"
    columns = row_columns(ax, n_names, what, width=8.0, row=row, most_rows=int(_TALLEST_COLUMN / row))
    step = 0.76 / n_groups
    size = float(np.clip(0.5 * step * columns.pitch, 2.0, 5.0))
    for axes, part in zip(columns.axes, columns.slices, strict=True):
        n_rows = len(intervals[0].names[part])
        for g, (group, name, look) in enumerate(zip(intervals, groups, series_styles(n_groups), strict=True)):
            rows = group[part]
            # The first group stands on top, as in the legend.
            place = np.arange(n_rows)[::-1] + step * ((n_groups - 1) / 2 - g)
            axes.errorbar(
                rows.estimate,
                place,
                xerr=rows.reach,
                fmt=look.marker,
                markersize=size,
                color=look.colour,
                elinewidth=0.35 * size,
                label=literal(name),
            )
        for line in np.arange(n_rows - 1) + 0.5:
            axes.axhline(line, color=GRID, linewidth=0.8, zorder=0)
        draw_reference(axes, reference)
        axes.set_ylim(-0.6, n_rows - 0.4)
        write_names(axes, intervals[0].names[part], np.arange(n_rows)[::-1], pitch=columns.pitch)
        axes.set_xlabel(intervals[0].label, fontsize=TEXT_SIZE)
        hide_spines(axes)
    outside_legend(columns.axes[-1], variable)
    columns.write_title(intervals[0].title)
    return columns.axes[0]


def difference_plot(
    intervals: Intervals, rejected: NDArray[np.bool_], margins: Sequence[float], ax: Axes | None = None
) -> Axes:
    """Draw differences with intervals: dark and filled where the hypothesis is rejected, grey and hollow elsewhere.

    Infinite limits end at the frame.

    Shapes: rejected (d,).
    """
    n_rows, low, high = len(intervals.names), intervals.low, intervals.high
    columns = row_columns(ax, n_rows, f"a plot of {n_rows:,} differences", width=8.0)
    ends = np.concatenate([intervals.estimate, low[np.isfinite(low)], high[np.isfinite(high)], [0.0]])
    room = 0.08 * (np.nanmax(ends) - np.nanmin(ends) or 1.0)
    axis_ends = np.nanmin(ends) - room, np.nanmax(ends) + room
    for axes, part in zip(columns.axes, columns.slices, strict=True):
        rows, is_rejected = intervals[part], rejected[part]
        place = np.arange(len(rows.names))[::-1]
        colours = np.where(is_rejected, DARK, _WEAK)
        axes.hlines(place, np.clip(rows.low, *axis_ends), np.clip(rows.high, *axis_ends), color=colours, linewidth=1.4)
        fills = np.where(is_rejected, DARK, "white")
        axes.scatter(
            rows.estimate,
            place,
            s=columns.marker_size**2,
            facecolors=fills.tolist(),
            edgecolors=colours.tolist(),
            zorder=3,
        )
        for line in margins:
            draw_reference(axes, line)
        axes.set_xlim(*axis_ends)
        horizontal_rows(axes, rows.names, rows.label, columns.pitch, longest=_LONGEST_PAIR)
    columns.write_title(intervals.title)
    return columns.axes[0]


# About so many markers stand on a line, which tell it from others in a copy without colours.
_MARKERS_ON_LINE = 8


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Scores along a variable, with simultaneous limits.

    models: The J models.
    variable: Name of the variable.
    values: The m values of the variable: numbers, or other objects, which are labelled by ``str``.
    estimate, low, high (J, m): Scores and limits.
    """

    models: Sequence[str]
    variable: str
    values: Sequence[object]
    estimate: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def ellipse_plot(
    outline: NDArray[np.float64],
    center: NDArray[np.float64],
    names: Sequence[str],
    *,
    scores: bool,
    title: str,
    ax: Axes | None = None,
) -> Axes:
    """Draw the confidence region of two scores or contrasts with its centre.

    Shapes: outline (m, 2), center (2,).
    """
    axes = new_axes(ax, height=4.6, width=5.4)
    if len(outline) > 2:
        axes.fill(*outline.T, facecolor=LIGHT, alpha=0.35, edgecolor="none")
    axes.plot(*outline.T, color=DARK, linewidth=1.4)
    axes.plot(*center, "o", color=DARK)
    low, high = outline.min(axis=0), outline.max(axis=0)
    # The region fills a square, so that its shape can be seen also where one score varies little.
    middle, half = (low + high) / 2, 0.62 * float((high - low).max())
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    if scores:
        axes.axline((0.0, 0.0), slope=1, color=REFERENCE, linewidth=0.9, linestyle="--", zorder=1)
    else:
        draw_reference(axes, 0.0)
        draw_reference(axes, 0.0, vertical=False)
    axes.locator_params(nbins=5)
    axes.set_aspect("equal")
    finish(axes, literal(names[0]), literal(names[1]), title)
    return axes


def band_plot(bands: Bands, label: str, title: str, ax: Axes | None = None) -> Axes:
    """Draw scores along a variable with their bands, or with intervals where the values are no numbers."""
    n_models, values = len(bands.models), bands.values
    if n_models > MOST_SERIES:
        raise too_many(f"a picture of the bands of {n_models} models", MOST_SERIES)
    axes = new_axes(ax, height=4.8, width=8.0)
    numeric = all(isinstance(value, int | float | np.number) for value in values)
    place = np.array(values, dtype=float) if numeric else np.arange(len(values), dtype=float)
    step = 0.6 / n_models
    for number, (model, look) in enumerate(zip(bands.models, series_styles(n_models), strict=True)):
        score, low, high = bands.estimate[number], bands.low[number], bands.high[number]
        if numeric:
            axes.fill_between(place, low, high, color=look.colour, alpha=0.15, linewidth=0)
            axes.plot(
                place,
                score,
                color=look.colour,
                linestyle=look.linestyle,
                marker=look.marker,
                markersize=5,
                markevery=max(1, len(values) // _MARKERS_ON_LINE),
                label=literal(model),
            )
        else:
            at = place + step * (number - (n_models - 1) / 2)
            reach = np.stack([score - low, high - score])
            axes.errorbar(at, score, yerr=reach, fmt=look.marker, markersize=4, color=look.colour, label=literal(model))
    if not numeric:
        axes.set_xlim(-0.6, len(values) - 0.4)
        write_names(axes, [str(value) for value in values], place, axis="x")
    outside_legend(axes)
    finish(axes, literal(bands.variable), label, title, grid="y")
    return axes
