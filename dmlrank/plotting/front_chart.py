"""Score against cost: crosses of intervals with three statuses, and which names have room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..data.preferences import FloatArray
from . import theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Statuses, those first whose names and marks matter most, with marker and colours of the marker's edge and face.
_LOOKS = {"front": ("o", theme.DARK, theme.DARK), "open": ("D", "#B35C00", "white"), "dominated": ("x", "0.55", "0.55")}
STATUSES = tuple(_LOOKS)
# Costs whose largest is this multiple of the smallest have a logarithmic axis.
_LOGARITHMIC = 30
# Models of a picture in which all names may be written.
_ALL_NAMED = 30
# Width of a letter as a multiple of the size of the text.
_LETTER = 0.62


def is_logarithmic(table: pd.DataFrame) -> bool:
    """Return whether costs need a logarithmic axis: they and their limits are positive, and differ much."""
    smallest = float(np.nanmin(table[["cost", "cost_low"]].to_numpy()))
    return smallest > 0 and float(table["cost"].max()) > _LOGARITHMIC * smallest


def log_ticks(low: float, high: float) -> list[float]:
    """Return round costs between two limits for a logarithmic axis: powers of ten with their double and fivefold."""
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    factors = (1.0, 2.0, 5.0) if high / low < 1000 else (1.0, 3.0) if high / low < 10_000 else (1.0,)
    return [tick for tick in np.outer(powers, factors).ravel().tolist() if low <= tick <= high]


def names_with_room(
    x: FloatArray, y: FloatArray, width: FloatArray, height: float, ends: tuple[float, float]
) -> list[tuple[int, bool, bool]]:
    """Return which names have room beside their points, those that come first before others.

    A name may cover neither another name nor a point, and stays between the ends of the picture. All numbers are in
    points or pixels, upwards. A name stands at the right or left of its point (true or false), above or below it.

    Shapes: x, y, width (d,).
    """
    boxes: list[tuple[float, float, float, float]] = []
    chosen: list[tuple[int, bool, bool]] = []
    for j in range(len(x)):
        for is_above, is_right in ((True, True), (False, True), (True, False), (False, False)):
            left = x[j] + 4 if is_right else x[j] - 4 - width[j]
            low = y[j] + 2 if is_above else y[j] - 2 - height
            right, high = left + width[j], low + height
            covers = ((x > left - 4) & (x < right + 4) & (y > low - 4) & (y < high + 4)) & (np.arange(len(x)) != j)
            overlaps = any(a < right and left < b and c < high and low < d for a, b, c, d in boxes)
            if left >= ends[0] and right <= ends[1] and not covers.any() and not overlaps:
                boxes.append((left, right, low, high))
                chosen.append((j, is_right, is_above))
                break
    return chosen


def by_importance(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows, those of the front first, then those that are open, the highest scores first."""
    rank = table["status"].map(STATUSES.index).to_numpy()
    return table.iloc[np.lexsort((-table["score"].to_numpy(), rank))]


def n_named(table: pd.DataFrame) -> int:
    """Return of how many of the rows by importance names may be written: in large pictures not of dominated models."""
    return len(table) if len(table) <= _ALL_NAMED else int((table["status"] != "dominated").sum())


def front_chart(table: pd.DataFrame, *, across: str, up: str, title: str, ax: Axes | None = None) -> Axes:
    """Draw scores over costs as crosses of their intervals, with the statuses by shape and colour.

    Columns of the frame are ``model``, ``status``, ``score``, ``cost`` and the limits of both.
    """
    side = float(np.clip(4.2 + 0.03 * len(table), 4.4, 7.5))
    axes = theme.new_axes(ax, height=side, width=1.5 * side)
    size = float(np.clip(8 - 0.02 * len(table), 4.0, 7.0))
    faint = float(np.clip(12 / len(table), 0.15, 0.6))
    if is_logarithmic(table):
        axes.set_xscale("log")
        axes.set_xticks(log_ticks(float(np.nanmin(table[["cost", "cost_low"]])), float(table["cost"].max())))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
        axes.minorticks_off()
    for status in reversed(STATUSES):
        rows = table[table["status"] == status]
        if rows.empty:
            continue
        marker, colour, face = _LOOKS[status]
        alpha = max(faint, 0.8 * (status == "front"))
        lines: dict[str, Any] = {"color": colour, "linewidth": 1.0, "alpha": alpha, "zorder": 2}
        axes.vlines(rows["cost"], rows["score_low"], rows["score_high"], **lines)
        axes.hlines(rows["score"], rows["cost_low"], rows["cost_high"], **lines)
        points: dict[str, Any] = {"markerfacecolor": face, "markersize": size, "zorder": 3 + (status == "front")}
        axes.plot(rows["cost"], rows["score"], marker, color=colour, label=f"{status} ({len(rows)})", **points)
    axes.margins(x=0.08)
    theme.finish(axes, theme.literal(across), theme.literal(up), title)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], frameon=False, fontsize=theme.TEXT_SIZE, loc="best")
    rows = by_importance(table)
    # Where points are in the figure is known after its parts are arranged.
    axes.autoscale_view()
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    scale = 72 / figure.dpi
    at = axes.transData.transform(rows[["cost", "score"]].to_numpy()) * scale
    ends = tuple(axes.get_window_extent().intervalx * scale)
    names = [theme.literal(name) for name in theme.short_names(list(rows["model"]))]
    text = theme.TEXT_SIZE - 1
    width = np.array([_LETTER * text * len(name) for name in names])
    for j, is_right, is_above in names_with_room(at[:, 0], at[:, 1], width, theme.LINE_HEIGHT * text, ends):
        if j >= n_named(rows):
            break
        status, score, cost = rows[["status", "score", "cost"]].iloc[j]
        beside, align = (4, "left") if is_right else (-4, "right")
        above, base = (3, "bottom") if is_above else (-3, "top")
        look: dict[str, Any] = {"textcoords": "offset points", "ha": align, "va": base, "fontsize": text, "zorder": 5}
        colour = "black" if status == "front" else theme.WEAK_TEXT
        axes.annotate(names[j], (cost, score), (beside, above), color=colour, **look)
    return axes
