"""Heat maps of a number by pair of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .style import hide_frame, literal, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# With more models, cells have no room for a number.
_MOST_WITH_NUMBERS = 12


def heat_map(models: Sequence[str], values: NDArray[np.float64], label: str, ax: Axes | None = None) -> Axes:
    """Draw a table (K, K) in colours, with the item shown first in rows; pairs with the value zero stay white.

    Parameters
    ----------
    models : sequence of str
    values : ndarray, shape (K, K)
    label : str
        Meaning of the colours.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    """
    axes = new_axes(ax, height=2.2 + 0.42 * len(models))
    image = axes.imshow(np.where(values > 0, values, np.nan), cmap="Blues", vmin=0)
    names = [literal(name) for name in models]
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    if len(names) <= _MOST_WITH_NUMBERS:
        middle = np.nanmax(values) / 2
        for j, k in np.argwhere(values > 0):
            shade = "white" if values[j, k] > middle else "0.2"
            axes.text(k, j, f"{values[j, k]:.3g}", ha="center", va="center", color=shade, fontsize=8)
    # The colour bar takes its room from the figure, so that the size of the axes does not change.
    axes.figure.colorbar(image, ax=axes, label=label, shrink=0.8)
    hide_frame(axes)
    return axes
