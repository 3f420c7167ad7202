"""Joint confidence regions: the ellipse of two scores, and simultaneous bands along a variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .style import DARK, LIGHT, hide_spines, literal, new_axes, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Scores along a variable, with simultaneous limits.

    Attributes
    ----------
    models : sequence of str
        The J models.
    variable : str
        Name of the variable.
    values : sequence
        The m values of the variable: numbers, or other objects, which are labelled by ``str``.
    estimate, low, high : ndarray, shape (J, m)
        Scores and limits.
    """

    models: Sequence[str]
    variable: str
    values: Sequence[object]
    estimate: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def ellipse_plot(
    outline: NDArray[np.float64],
    center: NDArray[np.float64],
    names: Sequence[str],
    *,
    scores: bool,
    title: str,
    ax: Axes | None = None,
) -> Axes:
    """Draw the confidence region of two scores or contrasts with its centre.

    Parameters
    ----------
    outline : ndarray, shape (m, 2)
        Points on the boundary; two points where the region is a line.
    center : ndarray, shape (2,)
        The estimates.
    names : sequence of str
        Labels of the two axes.
    scores : bool
        Whether the axes are scores, with a dashed line of equal scores; contrasts have dashed lines at zero.
    title : str
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    """
    axes = new_axes(ax, height=4.6, width=5.0)
    if len(outline) > 2:
        axes.fill(*outline.T, facecolor=LIGHT, alpha=0.35, edgecolor="none")
    axes.plot(*outline.T, color=DARK, linewidth=1.4)
    axes.plot(*center, "o", color=DARK)
    low, high = outline.min(axis=0), outline.max(axis=0)
    margin = 0.12 * (high - low).max()
    axes.set_xlim(low[0] - margin, high[0] + margin)
    axes.set_ylim(low[1] - margin, high[1] + margin)
    dashed: dict[str, Any] = {"color": "0.6", "linewidth": 0.8, "linestyle": "--", "zorder": 0}
    if scores:
        axes.axline((0.0, 0.0), slope=1, **dashed)
    else:
        axes.axhline(0.0, **dashed)
        axes.axvline(0.0, **dashed)
    axes.set_xlabel(literal(names[0]))
    axes.set_ylabel(literal(names[1]))
    axes.set_title(title, fontsize=9)
    axes.set_aspect("equal")
    hide_spines(axes)
    return axes


def band_plot(bands: Bands, label: str, title: str, ax: Axes | None = None) -> Axes:
    """Draw scores along a variable with their bands, or with intervals where the values are no numbers.

    Parameters
    ----------
    bands : Bands
    label : str
        Functional and unit of the scores.
    title : str
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    """
    axes = new_axes(ax, height=4.8, width=8.0)
    n_models, values = len(bands.models), bands.values
    numeric = all(isinstance(value, int | float | np.number) for value in values)
    place = np.array(values, dtype=float) if numeric else np.arange(len(values), dtype=float)
    step = 0.6 / n_models
    for number, (model, colour) in enumerate(zip(bands.models, palette(n_models), strict=True)):
        score, low, high = bands.estimate[number], bands.low[number], bands.high[number]
        if numeric:
            axes.fill_between(place, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(place, score, color=colour, label=literal(model))
        else:
            at = place + step * (number - (n_models - 1) / 2)
            reach = np.stack([score - low, high - score])
            axes.errorbar(at, score, yerr=reach, fmt="o", markersize=4, color=colour, label=literal(model))
    if not numeric:
        axes.set_xticks(place, [literal(str(value)) for value in values])
    axes.set_xlabel(literal(bands.variable))
    axes.set_ylabel(label)
    axes.set_title(title, fontsize=9)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    hide_spines(axes)
    return axes
