"""Columns of a table that is wider than a line, divided over panels below one another."""

from __future__ import annotations

from collections.abc import Sequence


def divide_columns(widths: Sequence[float], available: float) -> list[list[int]]:
    """Divide columns over as few panels as possible, with nearly equal numbers of columns."""
    greedy: list[list[int]] = []
    used = 0.0
    for place, width in enumerate(widths):
        if greedy and used + width <= available:
            greedy[-1].append(place)
            used += width
        else:
            greedy.append([place])
            used = width
    if len(greedy) < 2:
        return greedy
    size, n_larger = divmod(len(widths), len(greedy))
    ends = [(panel + 1) * size + min(panel + 1, n_larger) for panel in range(len(greedy))]
    equal = [list(range(start, end)) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return equal if all(sum(widths[place] for place in panel) <= available for panel in equal) else greedy
