"""Intervals in the rows of a table, and scores against costs, of a page, as SVG."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FloatArray
from ..tables.summary_table import fixed_text, inert

_TICKS = 4
# Share of the range of the numbers that is added on either side of the axis.
_MARGIN = 0.05


def number_text(value: float, digits: int) -> str:
    """Return a number with this number of decimals and a minus sign that is not a hyphen."""
    return fixed_text(value, digits).replace("-", "\u2212")


def interval_text(low: float, high: float, digits: int) -> str:
    """Return an interval as text."""
    return f"{number_text(low, digits)} to {number_text(high, digits)}"


def ends_of_axis(low: FloatArray, high: FloatArray, is_few: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the ends of intervals on an axis, on which those of models with few votes leave room for the others, (d,).

    They reach beyond the others by at most a quarter of the range of these on either side.
    """
    others, ends = ~is_few & np.isfinite(low) & np.isfinite(high), (float(np.nanmin(low)), float(np.nanmax(high)))
    if others.sum() < 2:
        return ends
    least, most = float(low[others].min()), float(high[others].max())
    room = (most - least) / 4
    return max(least - room, ends[0]), min(most + room, ends[1])


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
        low, high = self.start + room, self.end - room
        width = (high - low) or max(abs(high), 1.0)
        step = 10.0 ** np.floor(np.log10(width / _TICKS))
        step *= next(factor for factor in (1, 2, 5, 10) if width / (step * factor) <= _TICKS)
        decimals = int(max(0, -np.floor(np.log10(step) + 1e-9)))
        places = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1)
        numbers = [round(float(place * step), decimals) + 0.0 for place in places]
        return [(self.at(x), number_text(x, decimals)) for x in numbers]

    def head(self) -> str:
        """Draw the numbers along the axis for the head of a column."""
        texts = "".join(f'<text x="{place}" y="11">{text}</text>' for place, text in self.ticks)
        return f'<svg class="axis" aria-hidden="true">{texts}</svg>'

    def mark(self, score: float, low: float, high: float) -> str:
        """Draw a score with its interval for a row; an arrow says that they go on beyond the axis."""
        start, end = self.at(low), self.at(high)
        width = float(end[:-1]) - float(start[:-1])
        dot = f'<circle cx="{self.at(score)}"/>' * bool(self.start <= score <= self.end)
        arrows = '<text class="cut">\u25c2</text>' * bool(low < self.start)
        arrows += '<text class="cut" x="100%">\u25b8</text>' * bool(high > self.end)
        return f'<svg><rect x="{start}" width="{width:.1f}%"/>{dot}{arrows}</svg>'


# The height of the plot of scores against costs in pixels, with room for the numbers below it.
_PLOT_HEIGHT, _BOTTOM, _TOP = 320, 24, 12


def scatter_svg(
    names: Sequence[str], kinds: Sequence[str], cost: FloatArray, score: FloatArray, *, named: bool, label: str
) -> str:
    """Draw scores over costs, each (3, K): number and limits, NaN for none; ``kinds`` are classes of the page."""
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
        text = f'<text x="{across.at(x)}" y="{height(y) - 8:.0f}"{side}>{html.escape(inert(name))}</text>'
        points += f'<g class="{kind}">{lines}{dot}{text if named or kind == "best" else ""}</g>'
    return (
        f'<svg class="scatter" role="img" aria-label="{html.escape(label)}" width="100%" height="{bottom + _BOTTOM}">'
        f'<g class="grid">{grid}</g>{points}</svg>'
    )
