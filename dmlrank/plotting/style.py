"""Axes, colours and escaping that all figures share; matplotlib is imported when a figure is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..exceptions import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Colour: TypeAlias = str | tuple[float, ...]

DARK, LIGHT = "#1f4e79", "#7fa6c9"
# The palette of Okabe and Ito, which colour-blind readers can distinguish.
_OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555", "#8C6D31")


def new_axes(ax: Axes | None, height: float, width: float = 7.5) -> Axes:
    """Return the given axes, or the axes of a new figure of this size in inches.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtraError("plots need matplotlib: pip install 'dmlrank[plot]'") from None
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def hide_spines(axes: Axes, sides: Sequence[str] = ("top", "right")) -> None:
    """Hide lines of the frame."""
    for side in sides:
        axes.spines[side].set_visible(False)


def hide_frame(axes: Axes) -> None:
    """Hide the frame and the tick marks."""
    hide_spines(axes, ("top", "right", "bottom", "left"))
    axes.tick_params(length=0)


def horizontal_rows(axes: Axes, names: Sequence[str], label: str) -> None:
    """Prepare one row per name from the top down; the horizontal axis gets a grid and the label."""
    axes.set_yticks(np.arange(len(names))[::-1], [literal(name) for name in names])
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_xlabel(label)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    hide_spines(axes)


def literal(name: str) -> str:
    r"""Return the name with its dollar signs escaped, because matplotlib reads them as the start of a formula.

    Examples
    --------
    >>> print(literal("gpt-$"))
    gpt-\$
    """
    return name.replace("$", r"\$")


def palette(number: int) -> list[Colour]:
    """Return colours that are easy to distinguish; more than eight come from a colour map of matplotlib."""
    from matplotlib import colormaps

    if number <= len(_OKABE_ITO):
        return list(_OKABE_ITO[:number])
    return [colormaps["turbo"]((place + 0.5) / number) for place in range(number)]
