"""The forest plot and the matrix of differences of a page, as SVG."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...data.preferences import FloatArray
from ...tables.display_text import fixed_text, inert

# Heights in pixels: of a row, and above and below the rows.
ROW_HEIGHT, ROWS_TOP = 22, 28
_BOTTOM = 24
# A name that its column has no room for ends with dots; longer names are cut here, for the size of the page.
_LABEL_LENGTH = 60
_TICKS = 6
# Share of the range of the numbers that is added on either side of the axis.
_MARGIN = 0.03


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


def _line(x: str, x2: str, y: int, y2: int, kind: str = "") -> str:
    """Return a line as SVG."""
    return f'<line{kind} x1="{x}" x2="{x2}" y1="{y}" y2="{y2}"/>'


def forest_svg(
    names: Sequence[str],
    estimate: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    neutral: float | None,
    digits: int,
    label: str,
    description: str,
    few: Sequence[bool],
) -> str:
    """Draw intervals as SVG beside their names, one row per name; rows of models with few votes are grey.

    Positions along the axis are percentages, so that the plot is as wide as its box while texts keep their size.
    Colours, fonts and widths come from the page's style sheet, which knows the heights of this module. The names are
    HTML and not SVG, because browsers shorten only HTML with dots and set only its width by the style sheet.
    """
    values = np.concatenate([low, high, [] if neutral is None else [neutral]])
    ticks, decimals = axis_ticks(float(values.min()), float(values.max()))
    margin = _MARGIN * (float(np.ptp(values)) or 1.0)
    start, end = float(values.min()) - margin, float(values.max()) + margin

    def position(value: float) -> str:
        return f"{100 * (value - start) / (end - start):.2f}%"

    bottom = ROWS_TOP + ROW_HEIGHT * len(names)
    kinds = [' class="few"' * is_few for is_few in few]
    labels = "".join(f"<div{kind}>{_label(name, _LABEL_LENGTH)}</div>" for name, kind in zip(names, kinds, strict=True))
    grid = "".join(_line(position(x), position(x), ROWS_TOP, bottom) for x in ticks)
    numbers = "".join(
        f'<text x="{position(x)}" y="{y}">{number_text(x, decimals)}</text>'
        for y in (ROWS_TOP - 8, bottom + 16)
        for x in ticks
    )
    x = "" if neutral is None else position(neutral)
    reference = x and _line(x, x, ROWS_TOP, bottom, ' class="neutral"')
    marks = "".join(
        f"<g{kind}><title>{number_text(score, digits)} ({interval_text(lower, upper, digits)})</title>"
        f"{_line(position(lower), position(upper), y, y)}"
        f'<circle cx="{position(score)}" cy="{y}" r="4"/></g>'
        for y, kind, score, lower, upper in zip(
            range(ROWS_TOP + ROW_HEIGHT // 2, bottom, ROW_HEIGHT), kinds, estimate, low, high, strict=True
        )
    )
    height = bottom + _BOTTOM
    return (
        f'<div class="forest" role="img" aria-label="{html.escape(description)}">'
        f'<svg class="rows" width="100%" height="{height}">'
        f'<rect y="{ROWS_TOP}" width="100%" height="{bottom - ROWS_TOP}" fill="url(#stripes)"/></svg>'
        f'<div class="names">{labels}</div>'
        f'<svg class="plot" height="{height}"><g class="grid">{grid}</g>'
        f'<g class="axis">{numbers}</g>'
        f'{reference}<g class="marks">{marks}</g></svg><div class="label">{html.escape(label)}</div></div>'
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
) -> str:
    """Draw the differences of all pairs, (K, K): row minus column, coloured where the pair is separated.

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
        f"{letter}{number}": separated & (shade == number) & (sign * difference > 0)
        for letter, sign in (("a", 1), ("b", -1))
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
