"""Intervals in the rows of a table, scores against costs, and the matrix of differences of a page, as SVG."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...data.preferences import FloatArray
from ...tables.display_text import fixed_text, inert

# A name that its place has no room for is cut here.
_LABEL_LENGTH = 60
_TICKS = 4
# Share of the range of the numbers that is added on either side of the axis.
_MARGIN = 0.05


def number_text(value: float, digits: int) -> str:
    """Return a number with this number of decimals and a minus sign that is not a hyphen."""
    return fixed_text(value, digits).replace("-", "\u2212")


def interval_text(low: float, high: float, digits: int) -> str:
    """Return an interval as text."""
    return f"{number_text(low, digits)} to {number_text(high, digits)}"


def _label(name: str, length: int) -> str:
    """Return a name as the escaped label of a plot: one line, at most ``length`` characters, no marks of direction."""
    line = " ".join(inert(name).split())
    return html.escape(line if len(line) <= length else line[: length - 1] + "…", quote=False)


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis of a table's intervals, from ``start`` to ``end``; places along it are percentages of the width.

    Texts keep their size while the axis is as wide as its box. Colours, sizes and heights are those of the style sheet.
    """

    start: float
    end: float
    is_logarithmic: bool = False

    @classmethod
    def of(cls, values: FloatArray, *, is_logarithmic: bool = False, margin: float = _MARGIN) -> Axis:
        """Return the axis that has room for all finite values."""
        seen = values[np.isfinite(values)]
        seen = np.log10(seen) if is_logarithmic else seen
        low, high = (float(seen.min()), float(seen.max())) if len(seen) else (0.0, 1.0)
        room = margin * ((high - low) or max(abs(high), 1.0))
        return cls(low - room, high + room, is_logarithmic)

    def at(self, value: float) -> str:
        """Return the place of a value."""
        place = np.log10(value) if self.is_logarithmic else value
        return f"{float(np.clip(100 * (place - self.start) / (self.end - self.start), 0, 100)):.1f}%"

    @property
    def ticks(self) -> list[tuple[str, str]]:
        """Places and texts of round numbers."""
        if self.is_logarithmic:
            powers = range(int(np.floor(self.start)), int(np.ceil(self.end)) + 1)
            values = [step * 10.0**power for power in powers for step in (1, 2, 5)]
            return [(self.at(x), f"{x:g}") for x in values if self.start <= np.log10(x) <= self.end]
        # A number at either end would reach beyond the axis.
        room = _MARGIN / 2 * (self.end - self.start)
        places, decimals = axis_ticks(self.start + room, self.end - room)
        return [(self.at(x), number_text(x, decimals)) for x in places]

    def head(self) -> str:
        """Draw the numbers along the axis for the head of a column."""
        texts = "".join(f'<text x="{place}" y="11">{text}</text>' for place, text in self.ticks)
        return f'<svg class="axis" aria-hidden="true">{texts}</svg>'

    def mark(self, score: float, low: float, high: float) -> str:
        """Draw a score with its interval for a row."""
        start, end = self.at(low), self.at(high)
        width = float(end[:-1]) - float(start[:-1])
        return f'<svg><rect x="{start}" width="{width:.1f}%"/><circle cx="{self.at(score)}"/></svg>'


# The height of the plot of scores against costs in pixels, with room for the numbers below it.
_PLOT_HEIGHT, _BOTTOM, _TOP = 320, 24, 12


def scatter_svg(
    names: Sequence[str], kinds: Sequence[str], cost: FloatArray, score: FloatArray, *, named: bool, label: str
) -> str:
    """Draw scores over costs with the intervals of both, each (3, K): number, lower and upper limit; NaN for none.

    ``kinds`` are classes of the style sheet. Names stand beside all points, or only those of the kind "front".
    """
    positive = cost[np.isfinite(cost)]
    across = Axis.of(
        cost, is_logarithmic=bool(positive.min() > 0 and positive.max() > 30 * positive.min()), margin=0.12
    )
    up = Axis.of(score)

    def height(value: float) -> float:
        return _TOP + (1 - float(up.at(value)[:-1]) / 100) * _PLOT_HEIGHT

    bottom = _TOP + _PLOT_HEIGHT
    grid = "".join(
        f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{bottom}"/><text x="{x}" y="{bottom + 16}">{text}</text>'
        for x, text in across.ticks
    )
    for place, text in up.ticks:
        y = _TOP + (1 - float(place[:-1]) / 100) * _PLOT_HEIGHT
        grid += f'<line x2="100%" y1="{y:.0f}" y2="{y:.0f}"/><text class="up" x="2" y="{y - 3:.0f}">{text}</text>'
    points = ""
    for j, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        (x, left, right), (y, low, high) = cost[:, j], score[:, j]
        lines = f'<line x1="{across.at(x)}" x2="{across.at(x)}" y1="{height(low):.0f}" y2="{height(high):.0f}"/>'
        if np.isfinite(left):
            lines += f'<line x1="{across.at(left)}" x2="{across.at(right)}" y1="{height(y):.0f}" y2="{height(y):.0f}"/>'
        dot = f'<circle cx="{across.at(x)}" cy="{height(y):.0f}" r="5"/>'
        side = " class=left" * (float(across.at(x)[:-1]) > 75)
        text = f'<text x="{across.at(x)}" y="{height(y) - 8:.0f}"{side}>{_label(name, _LABEL_LENGTH)}</text>'
        points += f'<g class="{kind}">{lines}{dot}{text if named or kind == "front" else ""}</g>'
    return (
        f'<svg class="scatter" role="img" aria-label="{html.escape(label)}" width="100%" height="{bottom + _BOTTOM}">'
        f'<g class="grid">{grid}</g>{points}</svg>'
    )


def axis_ticks(low: float, high: float) -> tuple[list[float], int]:
    """Return round numbers from ``low`` to ``high`` for the ticks of an axis, and the decimals that they need."""
    width = (high - low) or max(abs(high), 1.0)
    step = 10.0 ** np.floor(np.log10(width / _TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if width / (step * factor) <= _TICKS)
    decimals = int(max(0, -np.floor(np.log10(step) + 1e-9)))
    places = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1)
    return [round(float(place * step), decimals) + 0.0 for place in places], decimals


# The matrix has about this width in pixels; a cell has at least and at most the sizes below.
_WIDTH, _SMALLEST, _LARGEST = 640, 3.0, 46.0
_NAME_LENGTH, _RANK_WIDTH, _HEAD_HEIGHT = 22, 36, 22
# Width of a character of the labels, which are set in 12 pixels.
_CHARACTER = 7
# Cells of this size have names beside the rows, and cells of this size have numbers inside.
_SIZE_FOR_NAMES, _SIZE_FOR_NUMBERS = 11.0, 44.0
# Up to so many models have names above the columns, too, which are read upwards.
_MOST_NAMED = 20


def matrix_svg(
    names: Sequence[str],
    difference: FloatArray,
    separated: NDArray[np.bool_],
    *,
    digits: int,
    description: str,
    sign: int = 1,
) -> str:
    """Draw the differences of all pairs, (K, K): row minus column, coloured where a model is shown to be better.

    Of scores with the sign -1 the lower one is better.

    Neighbouring cells of one colour are drawn as one rectangle. As models are sorted by score, a row has few of them.
    """
    n_models = len(names)
    size = float(np.clip(np.floor(2 * _WIDTH / n_models) / 2, _SMALLEST, _LARGEST))
    longest = min(max(map(len, names)), _NAME_LENGTH) if size >= _SIZE_FOR_NAMES else 0
    left = _RANK_WIDTH + _CHARACTER * longest
    top = _HEAD_HEIGHT + (_CHARACTER * longest if n_models <= _MOST_NAMED else 0)
    # Differences of either sign have three shades, which as many separated pairs have.
    gap = np.abs(difference)
    limits = np.quantile(gap[separated], [1 / 3, 2 / 3]) if separated.any() else np.zeros(2)
    shade = 1 + (gap[:, :, None] >= limits).sum(axis=2)
    masks = {
        f"{letter}{number}": separated & (shade == number) & (side * difference > 0)
        for letter, side in (("a", sign), ("b", -sign))
        for number in (1, 2, 3)
    }
    masks["n"] = ~np.eye(n_models, dtype=bool) & ~separated
    cells = "".join(
        f'<path class="{kind}" d="{_rectangles(mask, left, top, size)}"/>' for kind, mask in masks.items() if mask.any()
    )
    side = n_models * size
    lines = np.arange(n_models + 1) * size
    grid = "".join(f"M{left} {top + x:g}h{side:g}M{left + x:g} {top}v{side:g}" for x in lines)
    grid = f'<path class="lines" d="{grid}"/>' if size >= 6 else ""
    numbers = ""
    if size >= _SIZE_FOR_NUMBERS:
        texts = "".join(
            f'<text x="{left + (column + 0.5) * size:g}" y="{top + (row + 0.5) * size + 4:g}">'
            f"{number_text(gap, min(digits, 2))}</text>"
            for (row, column), gap in np.ndenumerate(difference)
            if row != column
        )
        numbers = f'<g class="numbers">{texts}</g>'
    # The rank above the last column may be wider than the column.
    width, height = left + side + 12, top + side + 6
    return (
        f'<svg class="matrix" role="img" aria-label="{html.escape(description)}" width="{width:g}" '
        f'height="{height:g}" viewBox="0 0 {width:g} {height:g}" data-x="{left}" data-y="{top}" '
        f'data-size="{size:g}" data-count="{n_models}">{cells}{grid}{numbers}{_heads(names, left, top, size)}'
        f'<rect class="band"/><rect class="band"/><rect class="cursor" width="{size:g}" height="{size:g}"/></svg>'
    )


def _rectangles(mask: NDArray[np.bool_], left: float, top: float, size: float) -> str:
    """Return the path of the cells of one colour, (K, K), with a rectangle for each run of cells within a row."""
    padded = np.pad(mask, ((0, 0), (1, 1))).astype(np.int8)
    rows, starts = np.nonzero(np.diff(padded, axis=1) == 1)
    ends = np.nonzero(np.diff(padded, axis=1) == -1)[1]
    return "".join(
        f"M{left + a * size:g} {top + row * size:g}h{(b - a) * size:g}v{size:g}h{(a - b) * size:g}z"
        for row, a, b in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True)
    )


def _heads(names: Sequence[str], left: float, top: float, size: float) -> str:
    """Return ranks and names above the columns and beside the rows; only some ranks where cells are small."""
    step = next(step for step in (1, 5, 10, 20, 50) if step * size >= 18)
    places = [place for place in range(len(names)) if place == 0 or (place + 1) % step == 0]
    has_names = size >= _SIZE_FOR_NAMES
    labels = [_label(name, _NAME_LENGTH) for name in names] if has_names else []
    tops = sides = ""
    for place in places:
        x = left + (place + 0.5) * size
        tops += f'<text x="{x:g}" y="{top - 7}">{place + 1}</text>'
        if has_names and len(names) <= _MOST_NAMED:
            tops += f'<text class="up" transform="translate({x + 4:g} {top - 22}) rotate(-90)">{labels[place]}</text>'
    for place in range(len(names)) if has_names else places:
        y = f"{top + (place + 0.5) * size + 4:g}"
        sides += f'<text x="{left - 6}" y="{y}">{place + 1}</text>'
        # A text of its own, so that a name that is read from right to left does not move the number.
        sides += f'<text x="{left - 26}" y="{y}">{labels[place]}</text>' if has_names else ""
    font = f' font-size="{min(12.0, size):g}"' if has_names else ""
    return f'<g class="top">{tops}</g><g class="side"{font}>{sides}</g>'
