"""Score against cost: crosses of intervals with three statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from . import theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Statuses, the least important first, with marker and colours of the marker's edge and face.
STATUSES = WORSE, UNDECIDED, BEST = "worse and not cheaper", "undecided at its cost", "best at its cost"
_LOOKS = dict(
    zip(STATUSES, [("x", "0.55", "0.55"), ("D", "#B35C00", "white"), ("o", theme.DARK, theme.DARK)], strict=True)
)
# Costs whose largest is this multiple of the smallest have a logarithmic axis; models of which all names are written.
_LOGARITHMIC, _ALL_NAMED = 30, 15


def front_chart(table: pd.DataFrame, across: str, up: str, title: str, ax: Axes | None = None) -> Axes:
    """Draw scores over costs as crosses of their intervals, with the statuses by shape and colour.

    Columns of the frame are ``model``, ``status``, ``score``, ``cost`` and the limits of both. In large pictures only
    models that are best at their cost have names.
    """
    axes = theme.new_axes(ax, height=5.0, width=7.5)
    smallest = float(np.nanmin(table[["cost", "cost_low"]].to_numpy()))
    if 0 < _LOGARITHMIC * smallest < float(table["cost"].max()):
        axes.set_xscale("log")
    for status, (marker, colour, face) in _LOOKS.items():
        rows = table[table["status"] == status]
        axes.vlines(rows["cost"], rows["score_low"], rows["score_high"], color=colour, linewidth=1.0, alpha=0.6)
        axes.hlines(rows["score"], rows["cost_low"], rows["cost_high"], color=colour, linewidth=1.0, alpha=0.6)
        label = f"{status} ({len(rows)})" if len(rows) else ""
        axes.plot(rows["cost"], rows["score"], marker, color=colour, markerfacecolor=face, markersize=6, label=label)
        named = rows if status == BEST or len(table) <= _ALL_NAMED else rows[:0]
        for name, score, cost in named[["model", "score", "cost"]].itertuples(index=False):
            text = theme.literal(theme.short_names([name])[0])
            axes.annotate(text, (cost, score), (4, 3), textcoords="offset points", fontsize=theme.TEXT_SIZE - 1)
    axes.margins(x=0.12)
    axes.legend(frameon=False, fontsize=theme.TEXT_SIZE, loc="best")
    return theme.finish(axes, theme.literal(across), theme.literal(up), title)
