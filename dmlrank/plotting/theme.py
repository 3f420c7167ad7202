"""Sizes, colours, markers, names and titles that all pictures share; matplotlib is imported when a picture is drawn.

A picture grows with its number of models. Rows become lower, and names become smaller, then only every second or third
is written. Nothing is told by hue alone: series differ in marker and line
style, too, and the classes of a colour map (:func:`signed_colours`) differ in lightness.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..exceptions import MissingExtraError, OptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure


Colour: TypeAlias = str | tuple[float, ...]

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

    colour: Colour
    marker: str
    linestyle: str | tuple[int, tuple[int, ...]]


def palette(number: int) -> list[Colour]:
    """Return colours that are easy to distinguish; more than eight come from a map that grows lighter throughout."""
    from matplotlib import colormaps

    if number <= len(_PALETTE):
        return list(_PALETTE[:number])
    return [colormaps["cividis"](0.95 * place / (number - 1)) for place in range(number)]


def series_styles(number: int) -> list[SeriesStyle]:
    """Return the looks of several series: colour, marker and line style."""
    return [
        SeriesStyle(colour, _MARKERS[place % len(_MARKERS)], _LINE_STYLES[place % len(_LINE_STYLES)])
        for place, colour in enumerate(palette(number))
    ]


def sequential_colours() -> Colormap:
    """Return a colour map for amounts: from near white to dark blue, without a change of direction in lightness."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("amounts", ["#eef4fa", "#a9c9e4", "#5b93c4", "#1f5c96", "#08306b"])


def signed_colours() -> Colormap:
    """Return a colour map for signed numbers on a scale that is symmetric about zero, where it jumps.

    Negative numbers are light orange, positive numbers dark blue. The two sides share no lightness, and both are darker
    than ``NOT_SIGNIFICANT``, so that a copy in grey shows the sign, too.
    """
    from matplotlib.colors import LinearSegmentedColormap

    stops = [(0.0, "#e8953a"), (0.5, "#fbd9a6"), (0.5, "#6c98c6"), (1.0, "#08306b")]
    return LinearSegmentedColormap.from_list("signed", stops)


def relative_luminance(colour: Colour) -> float:
    """Return the relative luminance of a colour: 0 for black, 1 for white.

    References
    ----------
    W3C (2018), Web Content Accessibility Guidelines 2.1, definition of relative luminance.
    """
    from matplotlib.colors import to_rgb

    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def text_colour_at(image: ScalarMappable, value: float) -> str:
    """Return the colour of text with the higher contrast on the cell of a heat map that shows this value."""
    background = tuple(np.ravel(image.to_rgba(np.array([value]))))
    # At this luminance, black and white have the same contrast ratio.
    return "black" if relative_luminance(background) > 0.179 else "white"


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


def hide_frame(axes: Axes) -> None:
    """Hide the frame and the tick marks."""
    hide_spines(axes, ("top", "right", "bottom", "left"))
    axes.tick_params(length=0)


def horizontal_rows(axes: Axes, names: Sequence[str], label: str, pitch: float = float("nan")) -> None:
    """Prepare one row per name from the top down; the horizontal axis gets a grid and the label."""
    axes.set_ylim(-0.7, len(names) - 0.3)
    write_names(axes, names, np.arange(len(names))[::-1], pitch=pitch)
    finish(axes, label, "", "", grid="x")


def write_names(
    axes: Axes,
    names: Sequence[str],
    places: NDArray[np.number],
    *,
    axis: str = "y",
    pitch: float = float("nan"),
) -> None:
    """Write names along an axis, smaller where there are many, and only every second or third where there is no room.

    The limits of the axis have to be set before.
    """
    at = np.asarray(places, dtype=float)
    if np.isnan(pitch):
        # Points from one place to the next in the axes as they are now.
        start, end = axes.get_ylim() if axis == "y" else axes.get_xlim()
        distance = abs(float(at[1] - at[0])) if len(at) > 1 else 1.0
        pitch = axes_points(axes)[axis == "y"] * distance / abs(end - start)
    size = min(TEXT_SIZE, pitch / LINE_HEIGHT)
    step = 1 if size >= SMALLEST_TEXT else int(np.ceil(SMALLEST_TEXT * LINE_HEIGHT / pitch))
    shown, texts = at[::step], [literal(name) for name in short_names(names)[::step]]
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
    """Write a title above the axes, in lines that end at punctuation where they can, and return the axes."""
    letters = max(24, int(axes_points(axes)[0] / (_LETTER_WIDTH * TITLE_SIZE)))
    lines: list[str] = []
    for text in title.split("\n"):
        # Lines are not broken at spaces that do not allow a break.
        for breakable in (re.sub("(?<![,:;]) ", "\u00a0", text), text):
            parts = textwrap.wrap(breakable, letters, break_long_words=False, break_on_hyphens=False)
            if max(map(len, parts), default=0) <= letters:
                break
        lines += [part.replace("\u00a0", " ") for part in parts]
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
