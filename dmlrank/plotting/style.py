"""What all plots share; matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import Any

from ..exceptions import MissingExtraError

DARK, LIGHT = "#1f4e79", "#7fa6c9"


def new_axes(ax: Any, height: float, width: float = 7.5) -> Any:
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


def literal(name: str) -> str:
    """The name with its dollar signs escaped: in matplotlib they would start a formula."""
    return name.replace("$", r"\$")


def palette(number: int) -> list[Any]:
    """So many colours that can be told apart, as well as that goes; needs matplotlib."""
    from matplotlib import colormaps

    # Okabe and Ito's, which the colour-blind can tell apart.
    few = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555", "#8C6D31"]
    return few[:number] if number <= len(few) else [colormaps["turbo"]((i + 0.5) / number) for i in range(number)]
