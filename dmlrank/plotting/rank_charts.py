"""Bump charts: ranks of the models in several results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .style import Colour, hide_frame, literal, new_axes, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bump_chart(
    models: Sequence[str], results: Sequence[str], ranks: NDArray[np.float64], ax: Axes | None = None
) -> Axes:
    """Draw a line per model through its ranks in the results, with names at both ends.

    Parameters
    ----------
    models : sequence of str
        Names of the K models.
    results : sequence of str
        Names of the R results.
    ranks : ndarray, shape (K, R)
        NaN where a result does not have the model.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    """
    n_models, n_results = ranks.shape
    axes = new_axes(ax, height=1.0 + 0.32 * n_models, width=3.6 + 1.6 * n_results)
    place = np.arange(n_results)
    moved = np.nanmax(ranks, axis=1) > np.nanmin(ranks, axis=1)
    colours = dict(zip(np.flatnonzero(moved).tolist(), palette(int(moved.sum())), strict=True))
    for row, (model, line) in enumerate(zip(models, ranks, strict=True)):
        colour = colours.get(row, "0.45")
        axes.plot(place, line, "-o", color=colour, linewidth=2, markersize=6, clip_on=False)
        ranked = np.flatnonzero(~np.isnan(line))
        _write_name(axes, model, (ranked[0], line[ranked[0]]), offset=-9, colour=colour)
        if len(ranked) > 1:
            _write_name(axes, model, (ranked[-1], line[ranked[-1]]), offset=9, colour=colour)
    axes.set_xlim(-0.9, n_results - 0.1)
    axes.set_ylim(np.nanmax(ranks) + 0.6, 0.4)
    axes.set_xticks(place, [literal(name) for name in results])
    axes.xaxis.tick_top()
    axes.set_yticks(np.arange(1, int(np.nanmax(ranks)) + 1))
    hide_frame(axes)
    return axes


def _write_name(axes: Axes, model: str, point: tuple[float, float], *, offset: int, colour: Colour) -> None:
    """Write a model's name beside a point.

    Parameters
    ----------
    axes : matplotlib Axes
    model : str
    point : tuple of float
        In the coordinates of the data.
    offset : int
        Distance in typographic points: to the right, or to the left where negative.
    colour : str or tuple of float
    """
    side = "right" if offset < 0 else "left"
    axes.annotate(literal(model), point, (offset, 0), textcoords="offset points", ha=side, va="center", color=colour)
