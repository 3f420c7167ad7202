"""Heat maps: a number by pair of models, and the matrix of differences between models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..data.preferences import BoolArray, FloatArray
from . import theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable


# With more models, cells of a square have no room for a number, or no room at all.
_MOST_WITH_NUMBERS, _MOST_MODELS = 12, 300
# Inches of the cells of a square.
_LARGEST_CELL, _SMALLEST_CELL = 0.46, 0.085


def heat_map(models: Sequence[str], values: FloatArray, label: str, ax: Axes | None = None, *, title: str = "") -> Axes:
    """Draw a table (K, K) in colours, with the item shown first in rows; pairs with the value zero stay white."""
    n_models = len(models)
    axes, pitch = _square(models, "a heat map", _LARGEST_CELL, ax)
    extent = (0, n_models, n_models, 0)
    image = axes.imshow(np.where(values > 0, values, np.nan), cmap=theme.sequential_colours(), vmin=0, extent=extent)
    for j, k in np.argwhere(values > 0) if n_models <= _MOST_WITH_NUMBERS else []:
        shade = theme.text_colour_at(image, values[j, k])
        axes.text(k + 0.5, j + 0.5, f"{values[j, k]:.3g}", ha="center", va="center", color=shade, fontsize=8)
    return _finished_square(axes, image, models, pitch, label, title)


# With more models, cells have no room for a number, or for lines between them.
_MOST_WITH_DIFFERENCES, _MOST_WITH_LINES = 14, 100
# With more models, cells are pixels of an image in files of vectors, and by default only the best models are drawn.
MOST_IN_MATRIX, BEST_IN_MATRIX = 59, 40
# Inches of a cell.
_LARGEST_WIN_CELL = 0.42


def difference_matrix(
    models: Sequence[str],
    difference: FloatArray,
    rejected: BoolArray,
    *,
    title: str,
    ax: Axes | None = None,
    scores: str = "score",
) -> Axes:
    """Draw row's score minus column's score, (K, K), coloured where the hypothesis is rejected and grey elsewhere."""
    n_models = len(models)
    axes, pitch = _square(models, "a matrix of differences", _LARGEST_WIN_CELL, ax)
    scale = float(np.nanmax(np.abs(difference))) or 1.0
    axes.set_facecolor(theme.NOT_SIGNIFICANT)
    significant = np.where(rejected, difference, np.nan)
    image = axes.pcolormesh(
        significant, cmap=theme.signed_colours(), vmin=-scale, vmax=scale, rasterized=n_models > MOST_IN_MATRIX
    )
    if n_models <= _MOST_WITH_LINES:
        image.set_edgecolor("white")
        image.set_linewidth(0.6 if n_models <= 30 else 0.2)
    axes.set_aspect("equal")
    axes.set_ylim(n_models, 0)
    for row, column in np.argwhere(np.isfinite(difference)) if n_models <= _MOST_WITH_DIFFERENCES else []:
        gap = difference[row, column]
        colour = theme.text_colour_at(image, gap) if rejected[row, column] else theme.WEAK_TEXT
        axes.text(column + 0.5, row + 0.5, f"{gap:z.2f}", ha="center", va="center", fontsize=7.5, color=colour)
    return _finished_square(axes, image, models, pitch, f"{theme.literal(scores)}: row minus column", title)


def _square(models: Sequence[str], what: str, largest_cell: float, ax: Axes | None) -> tuple[Axes, float]:
    """Return axes for a square with a row and a column per model, and the points from one name to the next."""
    n_models = len(models)
    if n_models > _MOST_MODELS:
        raise theme.too_many(f"{what} of {n_models} models", _MOST_MODELS)
    if ax is not None:
        return ax, float("nan")
    side = max(theme.SMALLEST_SIDE, n_models * float(np.clip(2.6 / n_models**0.65, _SMALLEST_CELL, largest_cell)))
    pitch = 72 * side / n_models
    size = float(np.clip(pitch / theme.LINE_HEIGHT, theme.SMALLEST_TEXT, theme.TEXT_SIZE))
    outside = side + size * theme.names_width(models) / 72
    return theme.new_axes(None, height=outside + 1.0, width=max(outside + 1.6, theme.NARROWEST)), pitch


def _finished_square(
    axes: Axes, image: ScalarMappable, models: Sequence[str], pitch: float, label: str, title: str
) -> Axes:
    """Write names on both sides, the colour bar and the title."""
    if np.isnan(pitch):
        # The names stand beside and below the square, which therefore becomes smaller than the caller's axes.
        lines = theme.LINE_HEIGHT * len(models)
        pitch = min(theme.axes_points(axes)) / (lines + theme.names_width(models)) * theme.LINE_HEIGHT
    for axis in ("x", "y"):
        theme.write_names(axes, models, np.arange(len(models)) + 0.5, axis=axis, pitch=pitch)
    theme.hide_frame(axes)
    # The colour bar takes its room from the figure, so that the size of the axes does not change.
    axes.figure.colorbar(image, ax=axes, shrink=0.7, aspect=30, fraction=0.05).set_label(
        label, fontsize=theme.TEXT_SIZE
    )
    return theme.write_title(axes, title)
