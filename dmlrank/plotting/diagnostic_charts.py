"""Charts behind a fit: overlap, calibration, and influence of prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.preferences import FloatArray
from . import theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_BARS = 30


def overlap_chart(propensity: FloatArray, title: str, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the propensities of the labelled cells, and the share of cells below each propensity."""
    axes = theme.new_axes(ax, height=4.2, width=7.5)
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    ordered = np.sort(propensity)
    low, high = float(ordered[0]), float(ordered[-1])
    # Equal propensities are one bar of a visible width.
    low, high = (low / 1.3, high * 1.3) if high < 1.01 * low else (low * 0.98, high * 1.02)
    bins = np.geomspace(low, high, _BARS + 1)
    share = np.histogram(ordered, bins)[0] / len(ordered)
    bar: dict[str, Any] = {"align": "edge", "color": theme.LIGHT, "edgecolor": "white", "linewidth": 0.4}
    axes.bar(bins[:-1], share, np.diff(bins), **bar, label="in the bar")
    below = np.r_[0.0, np.arange(1, len(ordered) + 1) / len(ordered), 1.0]
    line: dict[str, Any] = {"where": "post", "color": theme.DARK, "linewidth": 1.6}
    axes.step(np.r_[low, ordered, high], below, **line, label="up to the propensity")
    axes.set(xscale="log", xlim=(low, high), ylim=(0, 1.02))
    # Few numbers such as 0.02 in place of powers of ten.
    if high / low < 4:
        axes.set_xticks(np.round(np.geomspace(low, high, 5)[1:-1], 2 - int(np.floor(np.log10(low)))))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 300 else (1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False, fontsize=theme.TEXT_SIZE, loc="upper left")
    across = "propensity of the labelled cell (probability that the pair is labelled)"
    return theme.finish(axes, across, "share of labelled cells", title, grid="y")


def reliability_curve(
    fitted: FloatArray, labels: FloatArray, votes: NDArray[np.int64], *, alpha: float, n_bins: int = 10
) -> pd.DataFrame:
    """Compare fitted probabilities of one category with the observed shares, by bins with equal numbers of votes.

    The columns are the mean ``fitted`` probability, the ``observed`` share, and the limits ``low`` and ``high`` of
    Wilson's interval of the share, which holds for one bin and takes votes as independent.
    """
    from statsmodels.stats.proportion import proportion_confint

    place = np.unique(fitted, return_inverse=True)[1]
    votes_of_distinct = np.bincount(place, votes)
    # The bin of a probability follows from the votes up to the middle of its own votes.
    middle = (np.cumsum(votes_of_distinct) - votes_of_distinct / 2) / votes.sum()
    bins = np.unique(np.minimum((middle * n_bins).astype(int), n_bins - 1), return_inverse=True)[1][place]
    n_votes = np.bincount(bins, votes).astype(np.float64)
    mean_fitted, observed = (np.bincount(bins, votes * numbers) / n_votes for numbers in (fitted, labels))
    low, high = proportion_confint(observed * n_votes, n_votes, alpha, method="wilson")
    # Rounding may move a limit beyond the share where all labels agree.
    low, high = np.minimum(low, observed), np.maximum(high, observed)
    return pd.DataFrame({"fitted": mean_fitted, "observed": observed, "low": low, "high": high})


def reliability_chart(curves: Mapping[str, pd.DataFrame], title: str, ax: Axes | None = None) -> Axes:
    """Draw observed shares against fitted probabilities by category, with a dashed line where the two are equal."""
    axes = theme.new_axes(ax, height=4.8, width=6.4)
    axes.axline((0.0, 0.0), slope=1, color=theme.REFERENCE, linewidth=0.9, linestyle="--", zorder=1)
    for (category, curve), look in zip(curves.items(), theme.series_styles(len(curves)), strict=True):
        fitted, observed = curve["fitted"].to_numpy(), curve["observed"].to_numpy()
        reach = np.stack([curve["observed"] - curve["low"], curve["high"] - curve["observed"]])
        marks: dict[str, Any] = {"fmt": look.marker, "color": look.colour, "markersize": 5, "elinewidth": 1.1}
        axes.errorbar(fitted, observed, yerr=reach, capsize=2, label=theme.literal(category), **marks)
    ends = np.concatenate([curve[["fitted", "low", "high"]].to_numpy().ravel() for curve in curves.values()])
    room = 0.04 * (ends.max() - ends.min() or 1.0)
    limits = max(-0.02, ends.min() - room), min(1.02, ends.max() + room)
    axes.set(xlim=limits, ylim=limits, aspect="equal")
    theme.outside_legend(axes, "category")
    return theme.finish(axes, "fitted probability (out of fold)", "observed share of labels", title)


_RAISES, _LOWERS = theme.DARK, "#e8953a"


def influence_chart(
    names: Sequence[str], values: FloatArray, *, label: str, title: str, ax: Axes | None = None
) -> Axes:
    """Draw the largest influence values as bars: dark blue where a prompt raises the score, light orange elsewhere."""
    columns = theme.row_columns(ax, len(names), f"a chart of {len(names):,} prompts")
    for axes, rows, place in columns.parts(pd.DataFrame({"value": values}, index=list(names))):
        axes.barh(place, rows["value"], 0.66, color=np.where(rows["value"] > 0, _RAISES, _LOWERS).tolist())
        axes.axvline(0.0, color=theme.REFERENCE, linewidth=0.9)
        axes.locator_params(axis="x", nbins=6)
        theme.horizontal_rows(axes, list(rows.index), label, columns.pitch)
    return columns.titled(title)
