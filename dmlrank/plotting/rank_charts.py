"""Bump charts: ranks of the models in several leaderboards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .style import Colour, hide_frame, literal, new_axes, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bump_chart(
    models: Sequence[str], leaderboards: Sequence[str], ranks: NDArray[np.float64], ax: Axes | None = None
) -> Axes:
    """A line per model through its ranks in the leaderboards, names at both ends.

    Parameters
    ----------
    models, leaderboards : sequence of str
        K and R names.
    ranks : ndarray, shape (K, R)
        NaN where a leaderboard does not have the model.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    """
    n_models, n_results = ranks.shape
    axes = new_axes(ax, height=1.0 + 0.32 * n_models, width=3.6 + 1.6 * n_results)
    place = np.arange(n_results)
    moved = np.nanmax(ranks, axis=1) > np.nanmin(ranks, axis=1)
    colours = dict(zip(np.flatnonzero(moved).tolist(), palette(int(moved.sum())), strict=True))
    for row, (model, own) in enumerate(zip(models, ranks, strict=True)):
        colour = colours.get(row, "0.45")
        axes.plot(place, own, "-o", color=colour, linewidth=2, markersize=6, clip_on=False)
        known = np.flatnonzero(~np.isnan(own))
        _name_at(axes, model, (known[0], own[known[0]]), -9, colour)
        if len(known) > 1:
            _name_at(axes, model, (known[-1], own[known[-1]]), 9, colour)
    axes.set_xlim(-0.9, n_results - 0.1)
    axes.set_ylim(np.nanmax(ranks) + 0.6, 0.4)
    axes.set_xticks(place, [literal(name) for name in leaderboards])
    axes.xaxis.tick_top()
    axes.set_yticks(np.arange(1, int(np.nanmax(ranks)) + 1))
    hide_frame(axes)
    return axes


def _name_at(axes: Axes, model: str, point: tuple[float, float], away: int, colour: Colour) -> None:
    """The model's name beside a point, so many typographic points to the right, or to the left where negative."""
    side = "right" if away < 0 else "left"
    axes.annotate(literal(model), point, (away, 0), textcoords="offset points", ha=side, va="center", color=colour)
