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
# Okabe and Ito's colours, which the colour-blind can tell apart.
_OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555", "#8C6D31")


def new_axes(ax: Axes | None, height: float, width: float = 7.5) -> Axes:
    """The given axes, or those of a new figure of this size in inches.

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
    """Take lines of the frame away."""
    for side in sides:
        axes.spines[side].set_visible(False)


def hide_frame(axes: Axes) -> None:
    """Take the frame and the tick marks away."""
    hide_spines(axes, ("top", "right", "bottom", "left"))
    axes.tick_params(length=0)


def horizontal_rows(axes: Axes, names: Sequence[str], label: str) -> None:
    """One row per name, from the top down, with a grid along the horizontal axis, which has this label."""
    axes.set_yticks(np.arange(len(names))[::-1], [literal(name) for name in names])
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_xlabel(label)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    hide_spines(axes)


def literal(name: str) -> str:
    """The name with its dollar signs escaped: in matplotlib they would start a formula.

    Examples
    --------
    >>> print(literal("gpt-$"))
    gpt-\\$
    """
    return name.replace("$", r"\$")


def palette(number: int) -> list[Colour]:
    """So many colours that can be told apart, as well as that goes; needs matplotlib."""
    from matplotlib import colormaps

    if number <= len(_OKABE_ITO):
        return list(_OKABE_ITO[:number])
    return [colormaps["turbo"]((place + 0.5) / number) for place in range(number)]
