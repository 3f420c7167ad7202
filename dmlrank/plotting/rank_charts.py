"""Pictures of ranks: confidence sets of ranks, and ranks in several results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray
from . import theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Largest number of lines of a bump chart, and of lines in colour: those that move most.
_MOST_LINES, _MOST_COLOURED = 100, 8
# Lines of a bump chart whose models nobody chose.
MOST_BY_DEFAULT = 20
# Letters of groups longer than this are left out of the picture.
_LONGEST_LETTERS = 8
_STILL = "0.68"
# Points.
_THICKEST_BAR = 14.0
# Height of a name of a bump chart, as a multiple of the size of its text, and the line from a rank to its name.
_NAME_HEIGHT = 1.22
_LEADER = {"arrowstyle": "-", "linewidth": 0.5, "shrinkA": 1.0, "shrinkB": 3.0}
# Inches from one result of a bump chart to the next.
_RESULT_WIDTH = 1.4


def rank_set_chart(ranks: pd.DataFrame, title: str, ax: Axes | None = None) -> Axes:
    """Draw every model's rank as a point on a bar from the best to the worst rank of its confidence set.

    Columns of the frame are ``rank``, ``lower``, ``upper`` and ``group``; its index has the names. Letters of groups
    stand at the right end of the rows, unless some are longer than eight letters.
    """
    columns = theme.row_columns(ax, len(ranks), f"a chart of the ranks of {len(ranks)} models")
    first, last = int(ranks["lower"].min()), int(ranks["upper"].max())
    letters_fit = max(map(len, ranks["group"])) <= _LONGEST_LETTERS
    for axes, rows, place in columns.parts(ranks):
        # A set of one rank has to be seen, too: every bar reaches a third of a rank beyond its ends.
        length, thickness = rows["upper"] - rows["lower"] + 0.66, min(0.5, _THICKEST_BAR / columns.pitch)
        axes.barh(place, length, thickness, left=rows["lower"] - 0.33, color=theme.LIGHT, linewidth=0)
        axes.plot(rows["rank"], place, "o", color=theme.DARK, markersize=columns.marker_size)
        theme.horizontal_rows(axes, list(rows.index), "rank (1 is best)", columns.pitch)
        margin = max(0.7, 0.015 * (last - first))
        axes.set_xlim(first - margin, last + margin)
        axes.locator_params(axis="x", integer=True)
        # With many models the margin reaches beyond rank 1 to a tick at 0, which is no rank.
        axes.xaxis.set_major_formatter(lambda rank, _: f"{rank:g}" if rank >= 1 else "")
        if letters_fit:
            size = min(theme.TEXT_SIZE, columns.pitch / 1.22)
            units: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            for row, text in zip(place, rows["group"], strict=True):
                axes.annotate(text, (1.0, row), (4, 0), **units, va="center", fontsize=size, annotation_clip=False)
            axes.text(
                1.0, 1.0, " group", transform=axes.transAxes, va="bottom", fontsize=theme.TEXT_SIZE - 1, color="0.35"
            )
    return columns.titled(title)


def bump_chart(
    models: Sequence[str], results: Sequence[str], ranks: FloatArray, ax: Axes | None = None, *, title: str = ""
) -> Axes:
    """Draw a line per model through its ranks in R results, (K, R), with names at the ends.

    The lines of the first models are coloured and thick. Models whose ranks move most would be a poor choice: those are
    the ones with few votes. Names of models with ranks close together stand apart, with thin lines to the ranks.
    """
    n_models, n_results = ranks.shape
    if n_models > _MOST_LINES:
        raise theme.too_many(f"a bump chart of {n_models} models", _MOST_LINES)
    row = theme.row_height(n_models)
    axes = theme.new_axes(ax, height=1.0 + row * n_models, width=4.2 + _RESULT_WIDTH * n_results)
    place, lowest = np.arange(n_results), float(np.nanmax(ranks))
    axes.set_xlim(-0.25, n_results - 0.75)
    axes.set_ylim(lowest + 0.6, float(np.nanmin(ranks)) - 0.6)
    height = 72 * row * n_models if ax is None else theme.axes_points(axes)[1]
    n_ranks = lowest - float(np.nanmin(ranks)) + 1.2
    pitch = height / n_ranks
    size = float(np.clip(height / (min(n_models, n_ranks) * _NAME_HEIGHT), 1.0, theme.TEXT_SIZE))
    drawn_names = map(theme.literal, theme.short_names(models))
    colours = dict(enumerate(theme.palette(min(n_models, _MOST_COLOURED))))
    names_at: dict[tuple[int, float, int], list[tuple[str, theme.Colour]]] = defaultdict(list)
    for number, (name, line) in enumerate(zip(drawn_names, ranks, strict=True)):
        colour, is_coloured = colours.get(number, _STILL), number in colours
        width, marker = (2.2, 0.4 * size) if is_coloured else (1.1, 0.28 * size)
        look: dict[str, Any] = {"linewidth": width, "markersize": 1.4 * marker, "zorder": 2 + is_coloured}
        axes.plot(place, line, "-o", color=colour, clip_on=False, **look)
        ranked = np.flatnonzero(~np.isnan(line))
        ends = [(ranked[0], -1), (ranked[-1], 1)] if len(ranked) else []
        for end, side in ends[: len(ranked)]:
            names_at[int(end), float(line[end]), side].append((name, colour if is_coloured else "0.3"))
    # The names stand beside the ends of their lines, apart from each other.
    for end, side in dict.fromkeys((end, side) for end, _, side in names_at):
        at_end = sorted(rank for other, rank, other_side in names_at if (other, other_side) == (end, side))
        apart = spread(at_end, size * _NAME_HEIGHT / pitch, axes.get_ylim()[0])
        is_spread = not np.allclose(apart, at_end)
        for rank, place_of_name in zip(at_end, apart, strict=True):
            # Models of equal rank share one label.
            labels = names_at[end, rank, side]
            names, colour = ", ".join(name for name, _ in labels), labels[0][1]
            text, align = (f"{names}  {rank:g}", "right") if side < 0 else (f"{rank:g}  {names}", "left")
            at = ((22 if is_spread else 8) * side, -pitch * (place_of_name - rank))
            leader = _LEADER | {"color": colour, "relpos": (side < 0, 0.5)} if is_spread else None
            written: dict[str, Any] = {"ha": align, "va": "center", "color": colour, "fontsize": size}
            axes.annotate(text, (end, rank), at, textcoords="offset points", arrowprops=leader, **written)
    theme.write_names(axes, results, place, axis="x", pitch=72 * _RESULT_WIDTH if ax is None else float("nan"))
    axes.xaxis.tick_top()
    # The ranks stand beside the names.
    axes.set_yticks([])
    theme.hide_frame(axes)
    return theme.write_title(axes, title)


def spread(places: Sequence[float], distance: float, last: float) -> list[float]:
    """Move sorted places apart so that neighbours have at least this distance.

    They move towards the end first, and then back until none lies beyond ``last``. Where there is too little room, the
    first places lie before the start.
    """
    apart: list[float] = []
    for place in places:
        apart.append(max(float(place), apart[-1] + distance) if apart else float(place))
    limit = last
    for number in range(len(apart) - 1, -1, -1):
        apart[number] = min(apart[number], limit)
        limit = apart[number] - distance
    return apart
