"""The picture of ranks with their confidence sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from . import theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Letters of groups longer than this are left out of the picture.
_LONGEST_LETTERS = 8
# Points.
_THICKEST_BAR = 14.0


def rank_set_chart(ranks: pd.DataFrame, title: str, ax: Axes | None = None, *, scores: str = "score") -> Axes:
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
        theme.horizontal_rows(axes, list(rows.index), f"rank by {theme.literal(scores)} (1 is best)", columns.pitch)
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
