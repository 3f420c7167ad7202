"""Leaderboards side by side: scores of the same models under several adjustments, with a line per model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .style import (
    SMALLEST_TEXT,
    TEXT_SIZE,
    hide_frame,
    new_axes,
    palette,
    row_height,
    short_names,
    too_many,
    write_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Largest number of models that can be told apart in one picture.
_MOST_MODELS = 60


@dataclass(frozen=True, slots=True, eq=False)
class Leaderboard:
    """One column of the picture: scores of all models under one adjustment.

    title: Name of the adjustment, above the column.
    score, std_error (K,): Scores and their standard errors.
    rank (K,): Ranks by score, from 1.
    """

    title: str
    score: NDArray[np.float64]
    std_error: NDArray[np.float64]
    rank: NDArray[np.int64]


def leaderboards_plot(
    models: Sequence[str], boards: Sequence[Leaderboard], adjusted_for: str, ax: Axes | None = None
) -> Axes:
    """Draw leaderboards side by side, with coloured lines for models whose places in the first and last one differ."""
    n_models = len(models)
    if n_models > _MOST_MODELS:
        raise too_many(f"leaderboards of {n_models} models", _MOST_MODELS, "use style.table")
    row = row_height(n_models)
    axes = new_axes(ax, height=1.3 + row * n_models, width=2.2 + 2.4 * len(boards))
    places = np.stack([np.argsort(np.argsort(-board.score, kind="stable")) for board in boards], axis=1)
    moves = np.flatnonzero(places[:, 0] != places[:, -1])
    colours = dict(zip(moves.tolist(), palette(len(moves)), strict=True))
    size = max(SMALLEST_TEXT, min(TEXT_SIZE, 72 * row / 1.4))
    names = short_names(models)
    for j in range(n_models):
        colour = colours.get(j, "0.35")
        axes.plot(range(len(boards)), places[j], "-", color=colour, linewidth=1.6 if j in colours else 0.8, zorder=1)
        for column, board in enumerate(boards):
            text = f"{board.rank[j]}  {names[j]}\n{board.score[j]:.2f} ± {board.std_error[j]:.2f}"
            axes.text(
                column,
                places[j, column],
                text.replace("\n", "   ") if n_models > 12 else text,
                ha="center",
                va="center",
                fontsize=size,
                color="black",
                bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": colour, "linewidth": 1.2},
                zorder=2,
            )
    axes.set_xlim(-0.6, len(boards) - 0.4)
    axes.set_ylim(n_models - 0.3, -0.7)
    axes.set_xticks(range(len(boards)), [board.title for board in boards], fontsize=TEXT_SIZE)
    axes.xaxis.tick_top()
    axes.set_yticks([])
    hide_frame(axes)
    write_title(axes, f"Scores with standard errors, before and after adjusting for {adjusted_for}")
    return axes
