"""Bar charts with a row per name: the influence of single prompts, and the pairs of a labelling plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .style import DARK, LIGHT, REFERENCE, TEXT_SIZE, draw_reference, horizontal_rows, outside_legend, row_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RAISES, _LOWERS = DARK, "#e8953a"
# Largest number of letters in the name of a pair, which consists of the names of two models.
_LONGEST_PAIR = 48


def influence_chart(
    names: Sequence[str], values: NDArray[np.float64], *, label: str, title: str, ax: Axes | None = None
) -> Axes:
    """Draw the largest influence values as bars: dark blue where a prompt raises the score, light orange elsewhere.

    Shapes: values (m,).
    """
    columns = row_columns(ax, len(names), f"a chart of {len(names):,} prompts")
    for axes, part in zip(columns.axes, columns.slices, strict=True):
        rows = values[part]
        colours = np.where(rows > 0, _RAISES, _LOWERS).tolist()
        axes.barh(np.arange(len(rows))[::-1], rows, 0.66, color=colours)
        axes.axvline(0.0, color=REFERENCE, linewidth=0.9)
        axes.locator_params(axis="x", nbins=6)
        horizontal_rows(axes, names[part], label, columns.pitch)
    columns.write_title(title)
    return columns.axes[0]


def pair_chart(
    names: Sequence[str],
    labels: NDArray[np.float64],
    *,
    parts: Sequence[str],
    mean: float,
    n_contexts: int,
    title: str,
    ax: Axes | None = None,
) -> Axes:
    """Draw the expected labels of pairs as bars, which have a plain and a hatched part for the two display orders.

    Shapes: labels (m, 1).
    """
    columns = row_columns(ax, len(names), f"a chart of {len(names):,} pairs", width=10.0)
    from matplotlib.ticker import MaxNLocator

    for axes, part in zip(columns.axes, columns.slices, strict=True):
        rows = labels[part]
        place, start = np.arange(len(rows))[::-1], np.zeros(len(rows))
        for length, name, colour, hatch in zip(rows.T, parts, (DARK, LIGHT), ("", "///"), strict=False):
            axes.barh(place, length, 0.66, left=start, color=colour, hatch=hatch, edgecolor="white", label=name)
            start = start + length
        draw_reference(axes, mean)
        axes.plot([], [], color=REFERENCE, linewidth=0.9, linestyle="--", label="uniform plan")
        axes.set_xlim(0, 1.05 * max(float(labels.sum(axis=1).max()), mean))
        horizontal_rows(axes, names[part], "expected labels", columns.pitch, longest=_LONGEST_PAIR)
        upper = axes.secondary_xaxis(
            "top", functions=(partial(np.multiply, 1 / n_contexts), partial(np.multiply, n_contexts))
        )
        upper.set_xlabel("expected labels per prompt", fontsize=TEXT_SIZE)
        # Small numbers have many digits.
        upper.xaxis.set_major_locator(MaxNLocator(5))
    outside_legend(columns.axes[-1])
    columns.write_title(title)
    return columns.axes[0]
