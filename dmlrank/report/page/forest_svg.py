"""The forest plot of a page: names beside intervals that are drawn as SVG and adapt to the width of the page."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from ...data.preferences import FloatArray
from .board import interval_text, number_text
from .page_text import label_text

# Heights in pixels: of a row, and above and below the rows.
ROW_HEIGHT, ROWS_TOP = 22, 28
_BOTTOM = 46
# A name that its column has no room for ends with dots; longer names are cut here, for the size of the page.
_LABEL_LENGTH = 60
_TICKS = 6
# Share of the range of the numbers that is added on either side of the axis.
_MARGIN = 0.03


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
) -> str:
    """Draw intervals as SVG beside their names, one row per name.

    Positions along the axis are percentages, so that the plot is as wide as its box while texts keep their size.
    Colours, fonts and widths come from the page's style sheet, which knows the heights of this module. The names are
    HTML and not SVG, because browsers shorten only HTML with dots and set only its width by the style sheet.

    Shapes: estimate, low, high (d,).
    """
    values = np.concatenate([low, high, [] if neutral is None else [neutral]])
    ticks, decimals = axis_ticks(float(values.min()), float(values.max()))
    margin = _MARGIN * (float(values.max() - values.min()) or 1.0)
    start, end = float(values.min()) - margin, float(values.max()) + margin

    def position(value: float) -> str:
        return f"{100 * (value - start) / (end - start):.2f}%"

    bottom = ROWS_TOP + ROW_HEIGHT * len(names)
    labels = "".join(f"<div>{label_text(name, _LABEL_LENGTH)}</div>" for name in names)
    grid = "".join(f'<line x1="{position(x)}" x2="{position(x)}" y1="{ROWS_TOP}" y2="{bottom}"/>' for x in ticks)
    numbers = "".join(
        f'<text x="{position(x)}" y="{y}">{number_text(x, decimals)}</text>'
        for y in (ROWS_TOP - 8, bottom + 16)
        for x in ticks
    )
    reference = ""
    if neutral is not None:
        x = position(neutral)
        reference = f'<line class="neutral" x1="{x}" x2="{x}" y1="{ROWS_TOP}" y2="{bottom}"/>'
    marks = "".join(
        f"<g><title>{number_text(score, digits)} ({interval_text(lower, upper, digits)})</title>"
        f'<line x1="{position(lower)}" x2="{position(upper)}" y1="{y}" y2="{y}"/>'
        f'<circle cx="{position(score)}" cy="{y}" r="4"/></g>'
        for y, score, lower, upper in zip(
            range(ROWS_TOP + ROW_HEIGHT // 2, bottom, ROW_HEIGHT), estimate, low, high, strict=True
        )
    )
    height = bottom + _BOTTOM
    return (
        f'<div class="forest" role="img" aria-label="{html.escape(description)}">'
        f'<svg class="rows" width="100%" height="{height}">'
        f'<rect y="{ROWS_TOP}" width="100%" height="{bottom - ROWS_TOP}" fill="url(#stripes)"/></svg>'
        f'<div class="names">{labels}</div>'
        f'<svg class="plot" height="{height}"><g class="grid">{grid}</g>'
        f'<g class="axis">{numbers}<text x="50%" y="{bottom + 36}">{html.escape(label)}</text></g>'
        f'{reference}<g class="marks">{marks}</g></svg></div>'
    )


def axis_ticks(low: float, high: float) -> tuple[list[float], int]:
    """Return round numbers from ``low`` to ``high`` for the ticks of an axis, and the decimals that they need."""
    width = (high - low) or max(abs(high), 1.0)
    step = 10.0 ** np.floor(np.log10(width / _TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if width / (step * factor) <= _TICKS)
    decimals = int(max(0, -np.floor(np.log10(step) + 1e-9)))
    places = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1)
    return [round(float(place * step), decimals) + 0.0 for place in places], decimals
