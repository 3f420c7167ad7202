"""Pictures of the first stages: the overlap of propensities, and the calibration of the outcome model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .style import (
    DARK,
    GRID,
    LIGHT,
    REFERENCE,
    TEXT_SIZE,
    hide_spines,
    literal,
    new_axes,
    outside_legend,
    series_styles,
    write_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BARS = 30


@dataclass(frozen=True, slots=True, eq=False)
class ReliabilityCurve:
    """Fitted probabilities of one category beside the observed shares, by bins of the fitted probability.

    category: Name of the category.
    fitted, observed, low, high (b,): Of each bin: the mean fitted probability, the observed share of the category, and
        the limits of the confidence interval of this share.
    """

    category: str
    fitted: NDArray[np.float64]
    observed: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def overlap_chart(propensity: NDArray[np.float64], title: str, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the propensities of the labelled cells, and the share of cells below each propensity.

    Shapes: propensity (m,).
    """
    axes = new_axes(ax, height=4.2, width=7.5)
    ordered = np.sort(propensity)
    low, high = float(ordered[0]), float(ordered[-1])
    # Equal propensities are one bar of a visible width.
    low, high = (low / 1.3, high * 1.3) if high < 1.01 * low else (low * 0.98, high * 1.02)
    bins = np.geomspace(low, high, _BARS + 1)
    share = np.histogram(ordered, bins)[0] / len(ordered)
    axes.bar(
        bins[:-1], share, np.diff(bins), align="edge", color=LIGHT, edgecolor="white", linewidth=0.4, label="in the bar"
    )
    axes.step(
        np.r_[low, ordered, high],
        np.r_[0.0, np.arange(1, len(ordered) + 1) / len(ordered), 1.0],
        where="post",
        color=DARK,
        linewidth=1.6,
        label="up to the propensity",
    )
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("propensity of the labelled cell (probability that the pair is labelled)", fontsize=TEXT_SIZE)
    axes.set_ylabel("share of labelled cells", fontsize=TEXT_SIZE)
    _plain_log_ticks(axes)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=TEXT_SIZE, loc="upper left")
    hide_spines(axes)
    write_title(axes, title)
    return axes


def _plain_log_ticks(axes: Axes) -> None:
    """Write numbers such as 0.02 beside a logarithmic axis, at few places."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    low, high = axes.get_xlim()
    per_decade = (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
    if high / low < 4:
        axes.set_xticks(np.round(np.geomspace(low, high, 5)[1:-1], 2 - int(np.floor(np.log10(low)))))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(LogLocator(subs=per_decade))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def reliability_chart(curves: Sequence[ReliabilityCurve], title: str, ax: Axes | None = None) -> Axes:
    """Draw observed shares against fitted probabilities by category, with a dashed line where the two are equal."""
    axes = new_axes(ax, height=4.8, width=6.4)
    axes.axline((0.0, 0.0), slope=1, color=REFERENCE, linewidth=0.9, linestyle="--", zorder=1)
    for curve, look in zip(curves, series_styles(len(curves)), strict=True):
        axes.errorbar(
            curve.fitted,
            curve.observed,
            yerr=np.stack([curve.observed - curve.low, curve.high - curve.observed]),
            fmt=look.marker,
            color=look.colour,
            markersize=5,
            elinewidth=1.1,
            capsize=2,
            label=literal(curve.category),
        )
    ends = np.concatenate([np.r_[curve.fitted, curve.low, curve.high] for curve in curves])
    room = 0.04 * (ends.max() - ends.min() or 1.0)
    limits = max(-0.02, ends.min() - room), min(1.02, ends.max() + room)
    axes.set_xlim(*limits)
    axes.set_ylim(*limits)
    axes.set_aspect("equal")
    axes.set_xlabel("fitted probability (out of fold)", fontsize=TEXT_SIZE)
    axes.set_ylabel("observed share of labels", fontsize=TEXT_SIZE)
    axes.grid(color=GRID)
    axes.set_axisbelow(True)
    outside_legend(axes, "category")
    hide_spines(axes)
    write_title(axes, title)
    return axes
