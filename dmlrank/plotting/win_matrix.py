"""The win matrix: which differences of scores between two models are significant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .style import (
    NARROWEST,
    NOT_SIGNIFICANT,
    SMALLEST_SIDE,
    TEXT_SIZE,
    WEAK_TEXT,
    hide_frame,
    names_inches,
    new_axes,
    signed_colours,
    square_pitch,
    text_colour_at,
    too_many,
    write_names,
    write_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# With more models, cells have no room for a number, for lines between them, or for themselves.
_MOST_WITH_NUMBERS, _MOST_WITH_LINES, _MOST_MODELS = 14, 100, 300
# Inches of a cell.
_LARGEST_CELL, _SMALLEST_CELL = 0.42, 0.085


def win_matrix(
    models: Sequence[str],
    difference: NDArray[np.float64],
    rejected: NDArray[np.bool_],
    *,
    title: str,
    ax: Axes | None = None,
) -> Axes:
    """Draw the row's score minus the column's score, coloured where the hypothesis is rejected and grey elsewhere.

    Shapes: difference (K, K), rejected (K, K).
    """
    n_models = len(models)
    if n_models > _MOST_MODELS:
        raise too_many(f"a win matrix of {n_models} models", _MOST_MODELS)
    cell = float(np.clip(2.6 / n_models**0.65, _SMALLEST_CELL, _LARGEST_CELL))
    side = max(SMALLEST_SIDE, cell * n_models)
    pitch = 72 * side / n_models
    beside = names_inches(models, pitch)
    axes = new_axes(ax, height=side + beside + 1.0, width=max(side + beside + 1.6, NARROWEST))
    scale = float(np.nanmax(np.abs(difference))) or 1.0
    axes.set_facecolor(NOT_SIGNIFICANT)
    significant = np.where(rejected, difference, np.nan)
    image = axes.pcolormesh(significant, cmap=signed_colours(), vmin=-scale, vmax=scale)
    if n_models <= _MOST_WITH_LINES:
        image.set_edgecolor("white")
        image.set_linewidth(0.6 if n_models <= 30 else 0.2)
    axes.set_aspect("equal")
    axes.set_ylim(n_models, 0)
    for row, column in np.argwhere(np.isfinite(difference)) if n_models <= _MOST_WITH_NUMBERS else []:
        gap = difference[row, column]
        colour = text_colour_at(image, gap) if rejected[row, column] else WEAK_TEXT
        axes.text(column + 0.5, row + 0.5, f"{gap:z.2f}", ha="center", va="center", fontsize=7.5, color=colour)
    pitch = pitch if ax is None else square_pitch(axes, models)
    for axis in ("x", "y"):
        write_names(axes, models, np.arange(n_models) + 0.5, axis=axis, pitch=pitch)
    hide_frame(axes)
    # The colour bar takes its room from the figure, so that the size of the axes does not change.
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.7, aspect=30, fraction=0.05)
    bar.set_label("score of the row minus score of the column", fontsize=TEXT_SIZE)
    write_title(axes, title)
    return axes
