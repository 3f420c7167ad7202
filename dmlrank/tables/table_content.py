"""The content of a table as the writers of text, HTML and LaTeX read it, and computations that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .._utils.argument_checks import check_whole

Heads = list[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class TableContent:
    """The content of a table; :class:`dmlrank.tables.summary_table.Summary` describes the fields."""

    title: str
    header: tuple[tuple[str, ...], ...]
    columns: tuple[tuple[str, int], ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    row_head: str = "model"
    name_place: int = 0
    text_columns: tuple[int, ...] = ()
    heads_together: int = 1
    column_heads: tuple[str, ...] = ()
    numbered: bool = True

    def heads(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield every head with the places of the columns below it, the first column included."""
        yield self.row_head if self.name_place else "", (0,)
        start = 1
        for head, span in self.columns:
            yield head, tuple(range(start, start + span))
            start += span

    def is_text(self, place: int) -> bool:
        """Whether a column is aligned left, because it holds names or other text; ``place`` counts from zero."""
        check_whole("place", place, 0)
        return place <= self.name_place or place in self.text_columns

    def facts(self) -> list[tuple[str, str]]:
        """Return labels and values of the lines above the table, one pair after the other."""
        pairs = [pair for line in self.header for pair in zip(line[::2], line[1::2], strict=True)]
        return [(label, value) for label, value in pairs if label]


def leading_and_blocks(table: TableContent) -> tuple[Heads, list[Heads]]:
    """Return the heads that every panel repeats, and the blocks of heads that stay together."""
    heads = list(table.heads())
    leading = [head for head in heads if head[1][0] <= table.name_place]
    others, size = heads[len(leading) :], table.heads_together
    return leading, [others[start : start + size] for start in range(0, len(others), size)]


def flat_heads(table: TableContent) -> list[str]:
    """Return one head per column.

    These are the ``column_heads`` of the table. Without them, a head over two columns is that of an interval and
    becomes the heads "... lower" and "... upper".
    """
    if table.column_heads:
        return [next(table.heads())[0], *table.column_heads]
    return [
        text
        for head, places in table.heads()
        for text in ([head] if len(places) == 1 else [f"{head} lower", f"{head} upper"])
    ]


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
