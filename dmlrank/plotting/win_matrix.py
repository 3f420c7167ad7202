"""The win matrix: which differences of scores between two models are significant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .style import hide_frame, literal, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# With more models, cells have no room for a number.
_MOST_WITH_NUMBERS = 14


def win_matrix(
    models: Sequence[str],
    difference: NDArray[np.float64],
    rejected: NDArray[np.bool_],
    *,
    title: str,
    ax: Axes | None = None,
) -> Axes:
    """Draw the row's score minus the column's score, coloured where the hypothesis is rejected and grey elsewhere.

    Parameters
    ----------
    models : sequence of str
        The K models, the best first.
    difference : ndarray, shape (K, K)
        NaN where a pair is not tested.
    rejected : ndarray of bool, shape (K, K)
    title : str
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    """
    n_models = len(models)
    side = max(3.2, 1.6 + 0.42 * n_models)
    axes = new_axes(ax, height=side, width=side + 1.2)
    scale = float(np.nanmax(np.abs(difference))) or 1.0
    axes.set_facecolor("0.93")
    significant = np.where(rejected, difference, np.nan)
    image = axes.pcolormesh(significant, cmap="RdBu", vmin=-scale, vmax=scale, edgecolors="white", linewidth=0.6)
    for row, column in np.argwhere(np.isfinite(difference)) if n_models <= _MOST_WITH_NUMBERS else []:
        gap, coloured = difference[row, column], rejected[row, column]
        colour = "white" if coloured and abs(gap) > 0.6 * scale else "black" if coloured else "0.45"
        axes.text(column + 0.5, row + 0.5, f"{gap:.2f}", ha="center", va="center", fontsize=7.5, color=colour)
    centres, names = np.arange(n_models) + 0.5, [literal(name) for name in models]
    size = 9 if n_models <= 30 else 9 * 30 / n_models
    axes.set_xticks(centres, names, rotation=90, fontsize=size)
    axes.set_yticks(centres, names, fontsize=size)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    hide_frame(axes)
    # The colour bar takes its room from the figure, so that the size of the axes does not change.
    axes.figure.colorbar(image, ax=axes, label="score of the row minus score of the column", shrink=0.8)
    axes.set_title(title, fontsize=9)
    return axes
