"""Joint confidence regions: the ellipse of two scores, and simultaneous bands along a variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .intervals import MOST_SERIES
from .style import (
    DARK,
    GRID,
    LIGHT,
    REFERENCE,
    TEXT_SIZE,
    draw_reference,
    hide_spines,
    literal,
    new_axes,
    outside_legend,
    series_styles,
    too_many,
    write_names,
    write_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    axes.locator_params(nbins=5)
    axes.set_xlabel(literal(names[0]), fontsize=TEXT_SIZE)
    axes.set_ylabel(literal(names[1]), fontsize=TEXT_SIZE)
    axes.set_aspect("equal")
    write_title(axes, title)
    hide_spines(axes)
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
    axes.set_xlabel(literal(bands.variable), fontsize=TEXT_SIZE)
    axes.set_ylabel(label, fontsize=TEXT_SIZE)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    write_title(axes, title)
    outside_legend(axes)
    hide_spines(axes)
    return axes
