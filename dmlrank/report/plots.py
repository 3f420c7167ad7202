"""Plots; matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._drawing import literal, new_axes
from ..estimates import Estimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def forest_plot(results: Estimates, critical: float, alpha: float, ax: Axes | None = None) -> Axes:
    """Scores with simultaneous intervals, the best model on top; other outputs in the order given.

    Parameters
    ----------
    results : Estimates
    critical : float
        Half-width of the intervals in standard errors.
    alpha : float
        One minus their joint level.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    axes = new_axes(ax, height=1.2 + 0.32 * len(results.names))
    order = np.argsort(results.estimate, kind="stable") if results.of_models else np.arange(len(results.names))[::-1]
    place = np.arange(len(order))
    half_width = critical * results.covariance.std_errors[order]
    axes.errorbar(
        results.estimate[order], place, xerr=half_width, fmt="o", color="#1f4e79", ecolor="#7fa6c9", capsize=3
    )
    if results.neutral is not None:
        axes.axvline(results.neutral, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    axes.set_yticks(place, [literal(results.names[j]) for j in order])
    axes.set_ylim(-0.7, len(order) - 0.3)
    unit = "" if results.scale.natural else f", {results.scale.name}"
    axes.set_xlabel(f"{results.functional_label}{unit}, {100 * (1 - alpha):g} % simultaneous intervals")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes
