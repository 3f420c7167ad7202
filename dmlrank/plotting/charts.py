"""The pictures, and the sizes, colours, markers, names and titles that they share; matplotlib is imported late.

Estimates with intervals are a frame with the columns ``estimate``, ``low`` and ``high``. Rows of a frame are drawn from
top to bottom, and its index has their names. A picture grows with its number of models. Rows become lower, and names
become smaller, then only every second or third is written. Nothing is told by hue alone: series differ in marker and
line style, too, and the classes of a colour map (:func:`signed_colours`) differ in lightness.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data.preferences import BoolArray, FloatArray
from ..exceptions import MissingExtraError, OptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure


DARK, LIGHT = "#1f4e79", "#7fa6c9"
# Lines, grids and cells that say "nothing found"; the reference line is darker than the grid.
GRID, REFERENCE, NOT_SIGNIFICANT, WEAK_TEXT = "0.9", "0.45", "0.93", "0.35"
# Width in inches of a figure of a square that has room for a title, and the smallest side of the square.
NARROWEST, SMALLEST_SIDE = 6.2, 3.0
# Sizes of text in typographic points.
TITLE_SIZE, TEXT_SIZE, SMALLEST_TEXT = 10.0, 9.0, 5.0

# After the palette of Okabe and Ito, which colour-blind readers can distinguish, with a darker blue and without the
# yellow. The first four differ in lightness by at least 12 units of CIE L*.
_PALETTE = ("#00497A", "#E69F00", "#009E73", "#B04A7B", "#56B4E9", "#8C2D04", "#D55E00", "#555555")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "*", "p")
_LINE_STYLES: tuple[str | tuple[int, tuple[int, ...]], ...] = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))

# Inches of a row, and of all rows of a picture.
_ROW, _LOWEST_ROW, _TALLEST = 0.32, 0.19, 42.0
# Height of a line of text, and width of a letter, as multiples of the size of the text.
LINE_HEIGHT, _LETTER_WIDTH = 1.22, 0.58
_LONGEST_NAME = 60


class SeriesStyle(NamedTuple):
    """Look of one series of a picture, in matplotlib's words; two series differ in more than their hue."""

    colour: str
    marker: str
    linestyle: str | tuple[int, tuple[int, ...]]


# The looks of the series of a picture, as many as a legend tells apart.
SERIES = [
    SeriesStyle(colour, marker, line)
    for marker, colour, line in zip(_MARKERS, cycle(_PALETTE), cycle(_LINE_STYLES), strict=False)
]


def signed_colours() -> Colormap:
    """Return a colour map for signed numbers on a scale that is symmetric about zero, where it jumps.

    Negative numbers are light orange, positive numbers dark blue. The two sides share no lightness, and both are darker
    than ``NOT_SIGNIFICANT``, so that a copy in grey shows the sign, too.
    """
    from matplotlib.colors import LinearSegmentedColormap

    stops = [(0.0, "#e8953a"), (0.5, "#fbd9a6"), (0.5, "#6c98c6"), (1.0, "#08306b")]
    return LinearSegmentedColormap.from_list("signed", stops)


def text_colour_at(image: ScalarMappable, value: float) -> str:
    """Return the colour of text on the cell of a heat map that shows this value: black on light cells."""
    return "black" if np.ravel(image.to_rgba(np.array([value])))[:3] @ [0.3, 0.59, 0.11] > 0.5 else "white"


def new_axes(ax: Axes | None, height: float, width: float = 7.5) -> Axes:
    """Return the given axes, or the axes of a new figure of this size in inches."""
    return ax if ax is not None else new_figure(height, width).subplots()


def new_figure(height: float, width: float = 7.5) -> Figure:
    """Return a new, empty figure of this size in inches, which arranges its axes so that no text is cut off."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtraError("plots need matplotlib: pip install 'dmlrank[plot]'") from None
    return plt.figure(figsize=(width, height), layout="constrained")


def row_axes(
    ax: Axes | None, n_rows: int, what: str, *, width: float = 7.5, row: float | None = None
) -> tuple[Axes, float]:
    """Return axes for a picture with a row of so many inches per name, and the points from one row to the next.

    Without ``row``, rows are lower where there are many.
    """
    row = round(float(np.clip(_ROW - 0.00375 * (n_rows - 12), _LOWEST_ROW, _ROW)), 3) if row is None else row
    if n_rows * row > _TALLEST:
        raise too_many(what, int(_TALLEST / row))
    if ax is not None:
        return ax, axes_points(ax)[1] / (n_rows + 0.4)
    return new_axes(None, 1.2 + row * n_rows, width), 72 * row


def marker_size(pitch: float) -> float:
    """Return the size of a marker that does not touch those of the next rows, in points."""
    return float(np.clip(0.3 * pitch, 2.5, 6.0))


def too_many(what: str, most: int, advice: str = "choose some with models= or top=") -> OptionError:
    """Return the error for a picture that nobody could read."""
    return OptionError(f"{what} cannot be read; at most {most} can be drawn; {advice}")


def hide_spines(axes: Axes, sides: Sequence[str] = ("top", "right")) -> None:
    """Hide lines of the frame."""
    for side in sides:
        axes.spines[side].set_visible(False)


def finish(axes: Axes, across: str, up: str, title: str, *, grid: Literal["both", "x", "y", ""] = "both") -> Axes:
    """Write labels and title, draw a grid below the data, hide the upper and right line, and return the axes."""
    axes.set_xlabel(across, fontsize=TEXT_SIZE)
    axes.set_ylabel(up, fontsize=TEXT_SIZE)
    if grid:
        axes.grid(axis=grid, color=GRID)
        axes.set_axisbelow(True)
    hide_spines(axes)
    return write_title(axes, title)


def horizontal_rows(axes: Axes, names: Sequence[str], label: str, pitch: float, title: str = "") -> Axes:
    """Name one row per name from the top down; the horizontal axis gets a grid and the label. Return the axes."""
    axes.set_ylim(-0.7, len(names) - 0.3)
    write_names(axes, names, np.arange(len(names))[::-1], pitch=pitch)
    return finish(axes, label, "", title, grid="x")


def write_names(axes: Axes, names: Sequence[str], places: NDArray[np.number], *, pitch: float, axis: str = "y") -> None:
    """Write names along an axis, smaller where there are many, and only every second or third where there is no room.

    The points from one place to the next are the ``pitch``.
    """
    size = min(TEXT_SIZE, pitch / LINE_HEIGHT)
    step = 1 if size >= SMALLEST_TEXT else int(np.ceil(SMALLEST_TEXT * LINE_HEIGHT / pitch))
    shown, texts = places[::step], [literal(name) for name in short_names(names)[::step]]
    size = max(size, SMALLEST_TEXT)
    if axis == "y":
        axes.set_yticks(shown, texts, fontsize=size)
        return
    fits = 1.1 * _LETTER_WIDTH * size * max(map(len, texts), default=0) < pitch
    axes.set_xticks(shown, texts, fontsize=size, rotation=0.0 if fits else 90.0)


def axes_points(axes: Axes) -> tuple[float, float]:
    """Return width and height of the axes in points, as they are before the figure is arranged."""
    place, box = axes.get_position(original=True), axes.figure.bbox
    points = 72 / axes.figure.dpi
    return float(points * box.width * place.width), float(points * box.height * place.height)


def names_width(names: Sequence[str]) -> float:
    """Return the length of the longest name as it is drawn, as a multiple of the size of the text."""
    return _LETTER_WIDTH * max(map(len, short_names(names)), default=0)


def write_title(axes: Axes, title: str) -> Axes:
    """Write a title above the axes, in lines as long as these, and return the axes."""
    letters = max(24, int(axes_points(axes)[0] / (_LETTER_WIDTH * TITLE_SIZE)))
    lines = (textwrap.fill(text, letters, break_long_words=False, break_on_hyphens=False) for text in title.split("\n"))
    axes.set_title("\n".join(lines), fontsize=TITLE_SIZE)
    return axes


def draw_reference(axes: Axes, position: float | None) -> None:
    """Draw a dashed line at a value that the picture is compared with; nothing when None."""
    if position is not None:
        axes.axvline(position, color=REFERENCE, linewidth=0.9, linestyle="--", zorder=1)


def outside_legend(axes: Axes, title: str = "") -> None:
    """Write the legend to the right of the axes, where it hides nothing."""
    axes.legend(
        title=literal(title), loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=TEXT_SIZE - 0.5
    )


def level_words(alpha: float, what: str = "intervals", held: str = "simultaneous", method: str = "max-t") -> str:
    """Return what is held at which level, for titles."""
    return f"{100 * (1 - alpha):g} % {held} {what}{f' ({method})' if method else ''}"


def models_words(n_drawn: int, n_models: int, noun: str = "models") -> str:
    """Return the number of models in a picture, and how many there are where not all are drawn."""
    return f"{n_drawn} {noun}" if n_models == n_drawn else f"{n_drawn} of {n_models} {noun}"


def literal(name: str) -> str:
    r"""Return the name as matplotlib has to be given it: on one line, and without signs that matplotlib interprets.

    Dollar signs would start a formula. A legend leaves out names that begin with an underscore; a space of no width
    before the underscore keeps them.
    """
    text = " ".join(name.split()).replace("$", r"\$")
    return f"\u200b{text}" if text.startswith("_") else text


def short_names(names: Sequence[str], longest: int = _LONGEST_NAME) -> list[str]:
    """Return the names without the middle of long names, unless two names would become equal."""
    head, tail, texts = longest // 2, longest - longest // 2 - 1, list(map(str, names))
    cut = [name if len(name) <= longest else f"{name[:head]}…{name[-tail:]}" for name in texts]
    return cut if len(set(cut)) == len(set(names)) else texts


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
    axes, pitch = row_axes(ax, len(intervals), f"a forest plot of {len(intervals)} models")
    size, place = marker_size(pitch), np.arange(len(intervals))[::-1]
    look: dict[str, Any] = {"fmt": "o", "color": DARK, "ecolor": LIGHT, "markersize": size}
    look |= {"elinewidth": 0.3 * size, "capsize": 0.5 * size}
    drawn = intervals if ends is None else intervals.clip(*ends)
    # An interval beyond the ends is an arrow alone.
    bar = drawn.mask((drawn["low"] == drawn["high"]) & (intervals["low"] < intervals["high"]))
    bars = axes.errorbar(bar["estimate"].to_numpy(), place, xerr=_reach(bar), **look)
    bars.lines[0].set_xdata(intervals["estimate"].where(drawn["estimate"] == intervals["estimate"]))
    for side, arrow, sign in (("low", "<", 1), ("high", ">", -1)):
        goes_on = (sign * drawn[side] > sign * intervals[side]).to_numpy()
        axes.plot(drawn[side][goes_on], place[goes_on], arrow, color=LIGHT, markersize=size)
    draw_reference(axes, reference)
    return horizontal_rows(axes, list(intervals.index), label, pitch, title)


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
    if n_groups > len(SERIES):
        raise too_many(f"a forest plot of {n_groups} groups", len(SERIES), "choose groups by a coarser column")
    row = 0.2 + 0.12 * n_groups
    what = f"a forest plot of {len(names)} models in {n_groups} groups"
    axes, pitch = row_axes(ax, len(names), what, width=8.0, row=row)
    step, place = 0.76 / n_groups, np.arange(len(names))[::-1]
    size = float(np.clip(0.5 * step * pitch, 2.0, 5.0))
    for g, ((group, rows), look) in enumerate(zip(intervals.items(), SERIES, strict=False)):
        # The first group stands on top, as in the legend.
        at = place + step * ((n_groups - 1) / 2 - g)
        marks: dict[str, Any] = {"fmt": look.marker, "markersize": size, "color": look.colour}
        marks |= {"elinewidth": 0.35 * size, "label": literal(group)}
        axes.errorbar(rows["estimate"].to_numpy(), at, xerr=_reach(rows), **marks)
    for line in place[:-1] - 0.5:
        axes.axhline(line, color=GRID, linewidth=0.8, zorder=0)
    draw_reference(axes, reference)
    outside_legend(axes, variable)
    return horizontal_rows(axes, names, label, pitch, title)


def curve_chart(curves: Mapping[str, pd.DataFrame], across: str, up: str, title: str, ax: Axes | None = None) -> Axes:
    """Draw estimates with bands over the numbers that index the frames, a curve for each name."""
    from matplotlib.ticker import MaxNLocator

    if len(curves) > len(SERIES):
        raise too_many(f"a picture of {len(curves)} curves", len(SERIES))
    axes = new_axes(ax, height=4.5)
    for (name, rows), look in zip(curves.items(), SERIES, strict=False):
        marks: dict[str, Any] = {"marker": look.marker, "linestyle": look.linestyle, "color": look.colour}
        axes.plot(rows.index, rows["estimate"], markersize=4, label=literal(name), **marks)
        axes.fill_between(rows.index, rows["low"], rows["high"], color=look.colour, alpha=0.15, linewidth=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    outside_legend(axes)
    return finish(axes, across, literal(up), title)


# Letters of groups longer than this are left out of the picture.
_LONGEST_LETTERS = 8
# Points.
_THICKEST_BAR = 14.0


def rank_set_chart(ranks: pd.DataFrame, title: str, ax: Axes | None = None, *, scores: str = "score") -> Axes:
    """Draw every model's rank as a point on a bar from the best to the worst rank of its confidence set.

    Columns of the frame are ``rank``, ``lower``, ``upper`` and ``group``; its index has the names. Letters of groups
    stand at the right end of the rows, unless some are longer than eight letters.
    """
    axes, pitch = row_axes(ax, len(ranks), f"a chart of the ranks of {len(ranks)} models")
    first, last, place = int(ranks["lower"].min()), int(ranks["upper"].max()), np.arange(len(ranks))[::-1]
    # A set of one rank has to be seen, too: every bar reaches a third of a rank beyond its ends.
    length, thickness = ranks["upper"] - ranks["lower"] + 0.66, min(0.5, _THICKEST_BAR / pitch)
    axes.barh(place, length, thickness, left=ranks["lower"] - 0.33, color=LIGHT, linewidth=0)
    axes.plot(ranks["rank"], place, "o", color=DARK, markersize=marker_size(pitch))
    margin = max(0.7, 0.015 * (last - first))
    axes.set_xlim(first - margin, last + margin)
    axes.locator_params(axis="x", integer=True)
    # With many models the margin reaches beyond rank 1 to a tick at 0, which is no rank.
    axes.xaxis.set_major_formatter(lambda rank, _: f"{rank:g}" if rank >= 1 else "")
    if max(map(len, ranks["group"])) <= _LONGEST_LETTERS:
        size = min(TEXT_SIZE, pitch / LINE_HEIGHT)
        units: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        for row, text in zip(place, ranks["group"], strict=True):
            axes.annotate(text, (1.0, row), (4, 0), **units, va="center", fontsize=size, annotation_clip=False)
        axes.text(1.0, 1.0, " group", transform=axes.transAxes, va="bottom", fontsize=TEXT_SIZE - 1, color="0.35")
    return horizontal_rows(axes, list(ranks.index), f"rank by {literal(scores)} (1 is best)", pitch, title)


# With more models, cells of a square have no room for a number, or no room at all.
_MOST_WITH_NUMBERS, _MOST_MODELS = 12, 300
# Inches of the cells of a square.
_LARGEST_CELL, _SMALLEST_CELL = 0.46, 0.085


def heat_map(models: Sequence[str], values: FloatArray, label: str, ax: Axes | None = None, *, title: str = "") -> Axes:
    """Draw a table (K, K) in colours, with the item shown first in rows; pairs with the value zero stay white."""
    n_models = len(models)
    axes, pitch = _square(models, "a heat map", _LARGEST_CELL, ax)
    extent = (0, n_models, n_models, 0)
    image = axes.imshow(np.where(values > 0, values, np.nan), cmap="Blues", vmin=0, extent=extent)
    for j, k in np.argwhere(values > 0) if n_models <= _MOST_WITH_NUMBERS else []:
        shade = text_colour_at(image, values[j, k])
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
    axes.set_facecolor(NOT_SIGNIFICANT)
    significant = np.where(rejected, difference, np.nan)
    image = axes.pcolormesh(
        significant, cmap=signed_colours(), vmin=-scale, vmax=scale, rasterized=n_models > MOST_IN_MATRIX
    )
    if n_models <= _MOST_WITH_LINES:
        image.set_edgecolor("white")
        image.set_linewidth(0.6 if n_models <= 30 else 0.2)
    axes.set_aspect("equal")
    axes.set_ylim(n_models, 0)
    for row, column in np.argwhere(np.isfinite(difference)) if n_models <= _MOST_WITH_DIFFERENCES else []:
        gap = difference[row, column]
        colour = text_colour_at(image, gap) if rejected[row, column] else WEAK_TEXT
        axes.text(column + 0.5, row + 0.5, f"{gap:z.2f}", ha="center", va="center", fontsize=7.5, color=colour)
    return _finished_square(axes, image, models, pitch, f"{literal(scores)}: row minus column", title)


def _square(models: Sequence[str], what: str, largest_cell: float, ax: Axes | None) -> tuple[Axes, float]:
    """Return axes for a square with a row and a column per model, and the points from one name to the next."""
    n_models = len(models)
    if n_models > _MOST_MODELS:
        raise too_many(f"{what} of {n_models} models", _MOST_MODELS)
    if ax is not None:
        # The names stand beside and below the square, which therefore becomes smaller than the caller's axes.
        return ax, min(axes_points(ax)) / (LINE_HEIGHT * n_models + names_width(models)) * LINE_HEIGHT
    side = max(SMALLEST_SIDE, n_models * float(np.clip(2.6 / n_models**0.65, _SMALLEST_CELL, largest_cell)))
    pitch = 72 * side / n_models
    size = float(np.clip(pitch / LINE_HEIGHT, SMALLEST_TEXT, TEXT_SIZE))
    outside = side + size * names_width(models) / 72
    return new_axes(None, height=outside + 1.0, width=max(outside + 1.6, NARROWEST)), pitch


def _finished_square(
    axes: Axes, image: ScalarMappable, models: Sequence[str], pitch: float, label: str, title: str
) -> Axes:
    """Write names on both sides, the colour bar and the title."""
    for axis in ("x", "y"):
        write_names(axes, models, np.arange(len(models)) + 0.5, axis=axis, pitch=pitch)
    hide_spines(axes, ("top", "right", "bottom", "left"))
    axes.tick_params(length=0)
    # The colour bar takes its room from the figure, so that the size of the axes does not change.
    axes.figure.colorbar(image, ax=axes, shrink=0.7, aspect=30, fraction=0.05).set_label(label, fontsize=TEXT_SIZE)
    return write_title(axes, title)


# Statuses, the least important first, with marker and colours of the marker's edge and face.
STATUSES = WORSE, UNDECIDED, BEST = "worse and not cheaper", "undecided at its cost", "best at its cost"
_LOOKS = dict(zip(STATUSES, [("x", "0.55", "0.55"), ("D", "#B35C00", "white"), ("o", DARK, DARK)], strict=True))
# Costs whose largest is this multiple of the smallest have a logarithmic axis; models of which all names are written.
_LOGARITHMIC, _ALL_NAMED = 30, 15


def front_chart(table: pd.DataFrame, across: str, up: str, title: str, ax: Axes | None = None) -> Axes:
    """Draw scores over costs as crosses of their intervals, with the statuses by shape and colour.

    Columns of the frame are ``model``, ``status``, ``score``, ``cost`` and the limits of both. In large pictures only
    models that are best at their cost have names.
    """
    axes = new_axes(ax, height=5.0, width=7.5)
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
            text = literal(short_names([name])[0])
            axes.annotate(text, (cost, score), (4, 3), textcoords="offset points", fontsize=TEXT_SIZE - 1)
    axes.margins(x=0.12)
    axes.legend(frameon=False, fontsize=TEXT_SIZE, loc="best")
    return finish(axes, literal(across), literal(up), title)


_BARS = 30


def overlap_chart(propensity: FloatArray, title: str, ax: Axes | None = None) -> Axes:
    """Draw the histogram of the propensities of the labelled cells, and the share of cells below each propensity."""
    axes = new_axes(ax, height=4.2, width=7.5)
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    ordered = np.sort(propensity)
    low, high = float(ordered[0]), float(ordered[-1])
    # Equal propensities are one bar of a visible width.
    low, high = (low / 1.3, high * 1.3) if high < 1.01 * low else (low * 0.98, high * 1.02)
    bins = np.geomspace(low, high, _BARS + 1)
    share = np.histogram(ordered, bins)[0] / len(ordered)
    bar: dict[str, Any] = {"align": "edge", "color": LIGHT, "edgecolor": "white", "linewidth": 0.4}
    axes.bar(bins[:-1], share, np.diff(bins), **bar, label="in the bar")
    below = np.r_[0.0, np.arange(1, len(ordered) + 1) / len(ordered), 1.0]
    line: dict[str, Any] = {"where": "post", "color": DARK, "linewidth": 1.6}
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
    axes.legend(frameon=False, fontsize=TEXT_SIZE, loc="upper left")
    across = "propensity of the labelled cell (probability that the pair is labelled)"
    return finish(axes, across, "share of labelled cells", title, grid="y")


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
    axes = new_axes(ax, height=4.8, width=6.4)
    axes.axline((0.0, 0.0), slope=1, color=REFERENCE, linewidth=0.9, linestyle="--", zorder=1)
    for (category, curve), look in zip(curves.items(), cycle(SERIES), strict=False):
        fitted, observed = curve["fitted"].to_numpy(), curve["observed"].to_numpy()
        reach = np.stack([curve["observed"] - curve["low"], curve["high"] - curve["observed"]])
        marks: dict[str, Any] = {"fmt": look.marker, "color": look.colour, "markersize": 5, "elinewidth": 1.1}
        axes.errorbar(fitted, observed, yerr=reach, capsize=2, label=literal(category), **marks)
    ends = np.concatenate([curve[["fitted", "low", "high"]].to_numpy().ravel() for curve in curves.values()])
    room = 0.04 * (ends.max() - ends.min() or 1.0)
    limits = max(-0.02, ends.min() - room), min(1.02, ends.max() + room)
    axes.set(xlim=limits, ylim=limits, aspect="equal")
    outside_legend(axes, "category")
    return finish(axes, "fitted probability (out of fold)", "observed share of labels", title)


_RAISES, _LOWERS = DARK, "#e8953a"


def influence_chart(
    names: Sequence[str], values: FloatArray, *, label: str, title: str, ax: Axes | None = None
) -> Axes:
    """Draw the largest influence values as bars: dark blue where a prompt raises the score, light orange elsewhere."""
    axes, pitch = row_axes(ax, len(names), f"a chart of {len(names):,} prompts")
    colours = np.where(values > 0, _RAISES, _LOWERS).tolist()
    axes.barh(np.arange(len(names))[::-1], values, 0.66, color=colours)
    axes.axvline(0.0, color=REFERENCE, linewidth=0.9)
    axes.locator_params(axis="x", nbins=6)
    return horizontal_rows(axes, names, label, pitch, title)
