"""What all plots share; matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import Any

from .exceptions import MissingExtraError

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
