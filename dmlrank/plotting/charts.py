"""The pictures: forest plots, ranks, differences and other numbers by pair, score against cost, and those behind a fit.

Estimates with intervals are a frame with the columns ``estimate``, ``low`` and ``high``. Rows of a frame are drawn from
top to bottom, and its index has their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.preferences import BoolArray, FloatArray
from . import theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable


# Largest number of groups that a legend tells apart.
_MOST_SERIES = 12


def forest_plot(
    intervals: pd.DataFrame,
    reference: float | None,
    *,
    label: str,
    title: str = "",
    ax: Axes | None = None,
    ends: tuple[float, float] | None = None,
) -> Axes:
    """Draw estimates with intervals, one below the other; arrows where they go on beyond ``ends``."""
    axes, pitch = theme.row_axes(ax, len(intervals), f"a forest plot of {len(intervals)} models")
    size, place = theme.marker_size(pitch), np.arange(len(intervals))[::-1]
    look: dict[str, Any] = {"fmt": "o", "color": theme.DARK, "ecolor": theme.LIGHT, "markersize": size}
    look |= {"elinewidth": 0.3 * size, "capsize": 0.5 * size}
    drawn = intervals if ends is None else intervals.clip(*ends)
    bars = axes.errorbar(drawn["estimate"].to_numpy(), place, xerr=_reach(drawn), **look)
    bars.lines[0].set_xdata(intervals["estimate"].where(drawn["estimate"] == intervals["estimate"]))
    for side, arrow in (("low", "<"), ("high", ">")):
        is_cut = (drawn[side] != intervals[side]).to_numpy()
        axes.plot(drawn[side][is_cut], place[is_cut], arrow, color=theme.LIGHT, markersize=size)
    theme.draw_reference(axes, reference)
    theme.horizontal_rows(axes, list(intervals.index), label, pitch)
    return theme.write_title(axes, title)


def _reach(rows: pd.DataFrame) -> FloatArray:
    """Return the distances of the limits from the estimates, (2, d)."""
    return np.stack([rows["estimate"] - rows["low"], rows["high"] - rows["estimate"]])


def grouped_forest_plot(
    intervals: Mapping[str, pd.DataFrame],
    reference: float | None,
    *,
    variable: str,
    label: str,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw estimates by group, with the estimates of all groups for one name next to each other."""
    n_groups, names = len(intervals), list(next(iter(intervals.values())).index)
    if n_groups > _MOST_SERIES:
        raise theme.too_many(f"a forest plot of {n_groups} groups", _MOST_SERIES, "choose groups by a coarser column")
    row = 0.2 + 0.12 * n_groups
    what = f"a forest plot of {len(names)} models in {n_groups} groups"
    axes, pitch = theme.row_axes(ax, len(names), what, width=8.0, row=row)
    step, place = 0.76 / n_groups, np.arange(len(names))[::-1]
    size = float(np.clip(0.5 * step * pitch, 2.0, 5.0))
    looks = theme.series_styles(n_groups)
    for g, ((group, rows), look) in enumerate(zip(intervals.items(), looks, strict=True)):
        # The first group stands on top, as in the legend.
        at = place + step * ((n_groups - 1) / 2 - g)
        marks: dict[str, Any] = {"fmt": look.marker, "markersize": size, "color": look.colour}
        marks |= {"elinewidth": 0.35 * size, "label": theme.literal(group)}
        axes.errorbar(rows["estimate"].to_numpy(), at, xerr=_reach(rows), **marks)
    for line in place[:-1] - 0.5:
        axes.axhline(line, color=theme.GRID, linewidth=0.8, zorder=0)
    theme.draw_reference(axes, reference)
    axes.set_ylim(-0.6, len(place) - 0.4)
    theme.write_names(axes, names, place, pitch=pitch)
    axes.set_xlabel(label, fontsize=theme.TEXT_SIZE)
    theme.hide_spines(axes)
    theme.outside_legend(axes, variable)
    return theme.write_title(axes, title)


def curve_chart(curves: Mapping[str, pd.DataFrame], across: str, up: str, title: str, ax: Axes | None = None) -> Axes:
    """Draw estimates with bands over the numbers that index the frames, a curve for each name."""
    from matplotlib.ticker import MaxNLocator

    if len(curves) > _MOST_SERIES:
        raise theme.too_many(f"a picture of {len(curves)} curves", _MOST_SERIES)
    axes = theme.new_axes(ax, height=4.5)
    for (name, rows), look in zip(curves.items(), theme.series_styles(len(curves)), strict=True):
        marks: dict[str, Any] = {"marker": look.marker, "linestyle": look.linestyle, "color": look.colour}
        axes.plot(rows.index, rows["estimate"], markersize=4, label=theme.literal(name), **marks)
        axes.fill_between(rows.index, rows["low"], rows["high"], color=look.colour, alpha=0.15, linewidth=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    theme.outside_legend(axes)
    return theme.finish(axes, across, theme.literal(up), title)


# Letters of groups longer than this are left out of the picture.
_LONGEST_LETTERS = 8
# Points.
_THICKEST_BAR = 14.0


def rank_set_chart(ranks: pd.DataFrame, title: str, ax: Axes | None = None, *, scores: str = "score") -> Axes:
    """Draw every model's rank as a point on a bar from the best to the worst rank of its confidence set.

    Columns of the frame are ``rank``, ``lower``, ``upper`` and ``group``; its index has the names. Letters of groups
    stand at the right end of the rows, unless some are longer than eight letters.
    """
    axes, pitch = theme.row_axes(ax, len(ranks), f"a chart of the ranks of {len(ranks)} models")
    first, last, place = int(ranks["lower"].min()), int(ranks["upper"].max()), np.arange(len(ranks))[::-1]
    # A set of one rank has to be seen, too: every bar reaches a third of a rank beyond its ends.
    length, thickness = ranks["upper"] - ranks["lower"] + 0.66, min(0.5, _THICKEST_BAR / pitch)
    axes.barh(place, length, thickness, left=ranks["lower"] - 0.33, color=theme.LIGHT, linewidth=0)
    axes.plot(ranks["rank"], place, "o", color=theme.DARK, markersize=theme.marker_size(pitch))
    theme.horizontal_rows(axes, list(ranks.index), f"rank by {theme.literal(scores)} (1 is best)", pitch)
    margin = max(0.7, 0.015 * (last - first))
    axes.set_xlim(first - margin, last + margin)
    axes.locator_params(axis="x", integer=True)
    # With many models the margin reaches beyond rank 1 to a tick at 0, which is no rank.
    axes.xaxis.set_major_formatter(lambda rank, _: f"{rank:g}" if rank >= 1 else "")
    if max(map(len, ranks["group"])) <= _LONGEST_LETTERS:
        size = min(theme.TEXT_SIZE, pitch / theme.LINE_HEIGHT)
        units: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        for row, text in zip(place, ranks["group"], strict=True):
            axes.annotate(text, (1.0, row), (4, 0), **units, va="center", fontsize=size, annotation_clip=False)
        axes.text(1.0, 1.0, " group", transform=axes.transAxes, va="bottom", fontsize=theme.TEXT_SIZE - 1, color="0.35")
    return theme.write_title(axes, title)


# With more models, cells of a square have no room for a number, or no room at all.
_MOST_WITH_NUMBERS, _MOST_MODELS = 12, 300
# Inches of the cells of a square.
_LARGEST_CELL, _SMALLEST_CELL = 0.46, 0.085


def heat_map(models: Sequence[str], values: FloatArray, label: str, ax: Axes | None = None, *, title: str = "") -> Axes:
    """Draw a table (K, K) in colours, with the item shown first in rows; pairs with the value zero stay white."""
    n_models = len(models)
    axes, pitch = _square(models, "a heat map", _LARGEST_CELL, ax)
    extent = (0, n_models, n_models, 0)
    image = axes.imshow(np.where(values > 0, values, np.nan), cmap=theme.sequential_colours(), vmin=0, extent=extent)
    for j, k in np.argwhere(values > 0) if n_models <= _MOST_WITH_NUMBERS else []:
        shade = theme.text_colour_at(image, values[j, k])
        axes.text(k + 0.5, j + 0.5, f"{values[j, k]:.3g}", ha="center", va="center", color=shade, fontsize=8)
    return _finished_square(axes, image, models, pitch, label, title)


# With more models, cells have no room for a number, or for lines between them.
_MOST_WITH_DIFFERENCES, _MOST_WITH_LINES = 14, 100
# With more models, cells are pixels of an image in files of vectors, and by default only the best models are drawn.
MOST_IN_MATRIX, BEST_IN_MATRIX = 59, 40
# Inches of a cell.
_LARGEST_WIN_CELL = 0.42


def difference_matrix(
    models: Sequence[str],
    difference: FloatArray,
    rejected: BoolArray,
    *,
    title: str,
    ax: Axes | None = None,
    scores: str = "score",
) -> Axes:
    """Draw row's score minus column's score, (K, K), coloured where the hypothesis is rejected and grey elsewhere."""
    n_models = len(models)
    axes, pitch = _square(models, "a matrix of differences", _LARGEST_WIN_CELL, ax)
    scale = float(np.nanmax(np.abs(difference))) or 1.0
    axes.set_facecolor(theme.NOT_SIGNIFICANT)
    significant = np.where(rejected, difference, np.nan)
    image = axes.pcolormesh(
        significant, cmap=theme.signed_colours(), vmin=-scale, vmax=scale, rasterized=n_models > MOST_IN_MATRIX
    )
    if n_models <= _MOST_WITH_LINES:
        image.set_edgecolor("white")
        image.set_linewidth(0.6 if n_models <= 30 else 0.2)
    axes.set_aspect("equal")
    axes.set_ylim(n_models, 0)
    for row, column in np.argwhere(np.isfinite(difference)) if n_models <= _MOST_WITH_DIFFERENCES else []:
        gap = difference[row, column]
        colour = theme.text_colour_at(image, gap) if rejected[row, column] else theme.WEAK_TEXT
        axes.text(column + 0.5, row + 0.5, f"{gap:z.2f}", ha="center", va="center", fontsize=7.5, color=colour)
    return _finished_square(axes, image, models, pitch, f"{theme.literal(scores)}: row minus column", title)


def _square(models: Sequence[str], what: str, largest_cell: float, ax: Axes | None) -> tuple[Axes, float]:
    """Return axes for a square with a row and a column per model, and the points from one name to the next."""
    n_models = len(models)
    if n_models > _MOST_MODELS:
        raise theme.too_many(f"{what} of {n_models} models", _MOST_MODELS)
    if ax is not None:
        return ax, float("nan")
    side = max(theme.SMALLEST_SIDE, n_models * float(np.clip(2.6 / n_models**0.65, _SMALLEST_CELL, largest_cell)))
    pitch = 72 * side / n_models
    size = float(np.clip(pitch / theme.LINE_HEIGHT, theme.SMALLEST_TEXT, theme.TEXT_SIZE))
    outside = side + size * theme.names_width(models) / 72
    return theme.new_axes(None, height=outside + 1.0, width=max(outside + 1.6, theme.NARROWEST)), pitch


def _finished_square(
    axes: Axes, image: ScalarMappable, models: Sequence[str], pitch: float, label: str, title: str
) -> Axes:
    """Write names on both sides, the colour bar and the title."""
    if np.isnan(pitch):
        # The names stand beside and below the square, which therefore becomes smaller than the caller's axes.
        lines = theme.LINE_HEIGHT * len(models)
        pitch = min(theme.axes_points(axes)) / (lines + theme.names_width(models)) * theme.LINE_HEIGHT
    for axis in ("x", "y"):
        theme.write_names(axes, models, np.arange(len(models)) + 0.5, axis=axis, pitch=pitch)
    theme.hide_frame(axes)
    # The colour bar takes its room from the figure, so that the size of the axes does not change.
    axes.figure.colorbar(image, ax=axes, shrink=0.7, aspect=30, fraction=0.05).set_label(
        label, fontsize=theme.TEXT_SIZE
    )
    return theme.write_title(axes, title)


# Statuses, the least important first, with marker and colours of the marker's edge and face.
STATUSES = WORSE, UNDECIDED, BEST = "worse and not cheaper", "undecided at its cost", "best at its cost"
_LOOKS = dict(
    zip(STATUSES, [("x", "0.55", "0.55"), ("D", "#B35C00", "white"), ("o", theme.DARK, theme.DARK)], strict=True)
)
# Costs whose largest is this multiple of the smallest have a logarithmic axis; models of which all names are written.
_LOGARITHMIC, _ALL_NAMED = 30, 15


def front_chart(table: pd.DataFrame, across: str, up: str, title: str, ax: Axes | None = None) -> Axes:
    """Draw scores over costs as crosses of their intervals, with the statuses by shape and colour.

    Columns of the frame are ``model``, ``status``, ``score``, ``cost`` and the limits of both. In large pictures only
    models that are best at their cost have names.
    """
    axes = theme.new_axes(ax, height=5.0, width=7.5)
    smallest = float(np.nanmin(table[["cost", "cost_low"]].to_numpy()))
    if 0 < _LOGARITHMIC * smallest < float(table["cost"].max()):
        axes.set_xscale("log")
    for status, (marker, colour, face) in _LOOKS.items():
        rows = table[table["status"] == status]
        axes.vlines(rows["cost"], rows["score_low"], rows["score_high"], color=colour, linewidth=1.0, alpha=0.6)
        axes.hlines(rows["score"], rows["cost_low"], rows["cost_high"], color=colour, linewidth=1.0, alpha=0.6)
        label = f"{status} ({len(rows)})" if len(rows) else ""
        axes.plot(rows["cost"], rows["score"], marker, color=colour, markerfacecolor=face, markersize=6, label=label)
        named = rows if status == BEST or len(table) <= _ALL_NAMED else rows[:0]
        for name, score, cost in named[["model", "score", "cost"]].itertuples(index=False):
            text = theme.literal(theme.short_names([name])[0])
            axes.annotate(text, (cost, score), (4, 3), textcoords="offset points", fontsize=theme.TEXT_SIZE - 1)
    axes.margins(x=0.12)
    axes.legend(frameon=False, fontsize=theme.TEXT_SIZE, loc="best")
    return theme.finish(axes, theme.literal(across), theme.literal(up), title)


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
    axes, pitch = theme.row_axes(ax, len(names), f"a chart of {len(names):,} prompts")
    colours = np.where(values > 0, _RAISES, _LOWERS).tolist()
    axes.barh(np.arange(len(names))[::-1], values, 0.66, color=colours)
    axes.axvline(0.0, color=theme.REFERENCE, linewidth=0.9)
    axes.locator_params(axis="x", nbins=6)
    theme.horizontal_rows(axes, names, label, pitch)
    return theme.write_title(axes, title)
