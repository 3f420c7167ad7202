"""Plots; matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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


def heat_map(models: Sequence[str], values: NDArray[np.float64], label: str, ax: Axes | None = None) -> Axes:
    """A table (K, K) in colours, item shown first in rows; pairs with nothing are left white.

    Parameters
    ----------
    models : sequence of str
    values : ndarray, shape (K, K)
    label : str
        What the colours mean.
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    axes: Any = new_axes(ax, height=2.2 + 0.42 * len(models))
    image = axes.imshow(np.where(values > 0, values, np.nan), cmap="Blues", vmin=0)
    names = [literal(name) for name in models]
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    if len(names) <= 12:
        middle = np.nanmax(values) / 2
        for j, k in np.argwhere(values > 0):
            shade = "white" if values[j, k] > middle else "0.2"
            axes.text(k, j, f"{values[j, k]:.3g}", ha="center", va="center", color=shade, fontsize=8)
    axes.get_figure().colorbar(image, ax=axes, label=label, shrink=0.8)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    return axes
