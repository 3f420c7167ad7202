"""A table as plain text, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import re

from .column_panels import divide_columns
from .display_text import display_width, inert, isolated, padded, wrapped
from .spreadsheet_text import not_a_formula
from .table_content import Heads, TableContent, flat_heads, leading_and_blocks

_MIN_WIDTH = 94
# Smallest width of the labels of sentences above the columns.
_LABEL_WIDTH = 20
_GAP = 2


def text_table(table: TableContent, width: int | None = None) -> str:
    """Return a table as plain text; columns that do not fit into ``width`` follow in further panels."""
    rows = [tuple(isolated(inert(cell)) for cell in row) for row in table.rows]
    sizes = _column_sizes(table, rows)
    leading, blocks = leading_and_blocks(table)
    lead_width = sum(sizes[place] + _GAP for _, places in leading for place in places)
    block_widths = [sum(sizes[place] + _GAP for _, places in block for place in places) for block in blocks]
    if width is None or not blocks:
        panels = [list(range(len(blocks)))]
    else:
        panels = divide_columns(block_widths, width - lead_width)
    body_width = lead_width + max((sum(block_widths[place] for place in panel) for panel in panels), default=0)
    header = [tuple(isolated(inert(text)) for text in line) for line in table.header]
    pairs = [line for line in header if len(line) > 2]
    sides = [max((sum(map(display_width, line[at : at + 2])) + 2 for line in pairs), default=0) for at in (0, 2)]
    total = max(body_width, sum(sides) + 2 if pairs else 0, _MIN_WIDTH if width is None else min(width, _MIN_WIDTH))
    lines = [padded(isolated(inert(table.title)), total, "^").rstrip(), "=" * total]
    if header:
        lines += [*_header_lines(header, total, sides[1]), "=" * total]
    for number, panel in enumerate(panels):
        shown = leading + [head for place in panel for head in blocks[place]]
        lines += ["-" * total] * (number > 0) + _panel_lines(table, rows, shown, sizes, total)
    lines.append("=" * total)
    for number, note in enumerate(table.notes, start=1):
        lines += wrapped(isolated(f"[{number}] {inert(note)}"), total)
    return "\n".join(lines)


def _column_sizes(table: TableContent, rows: list[tuple[str, ...]]) -> list[int]:
    """Return the width of every column: that of its widest cell, or of its part of the head."""
    n_columns = sum(len(places) for _, places in table.heads())
    sizes = [max((display_width(row[place]) for row in rows), default=0) for place in range(n_columns)]
    for head, places in table.heads():
        below = sum(sizes[place] for place in places) + _GAP * (len(places) - 1)
        sizes[places[-1]] += max(0, display_width(isolated(inert(head))) - below)
    return sizes


def _header_lines(header: list[tuple[str, ...]], total: int, right: int) -> list[str]:
    """Return the lines above the columns."""
    left = total - _GAP - right
    label_width = max([_LABEL_WIDTH, *(display_width(line[0]) + 2 for line in header if len(line) == 2)])
    lines = []
    for line in header:
        if len(line) == 2:
            lines += wrapped(padded(line[0], label_width) + line[1], total, indent=" " * label_width)
            continue
        a, b, c, d = line
        shown = (padded(b, left - display_width(a), ">"), padded(d, right - display_width(c), ">"))
        lines.append(f"{a}{shown[0]}  {c}{shown[1]}".rstrip())
    return lines


def _panel_lines(
    table: TableContent, rows: list[tuple[str, ...]], heads: Heads, sizes: list[int], total: int
) -> list[str]:
    """Return heads, a rule and rows of a panel."""
    places = [place for _, group in heads for place in group]
    n_numbers = max(1, len(places) - 1)
    extra = (total - sum(sizes[place] + _GAP for place in places)) // n_numbers
    gaps = dict.fromkeys(places, _GAP + extra)
    widths = {place: sizes[place] + gaps[place] for place in places[1:]}
    first = total - sum(widths.values())
    head_line = padded(isolated(inert(heads[0][0])), first)
    for head, group in heads[1:]:
        size, text = sum(widths[place] for place in group), isolated(inert(head))
        head_line += " " * _GAP + padded(text, size - _GAP) if table.is_text(group[0]) else padded(text, size, ">")
    lines = [head_line.rstrip() if not table.name_place else head_line, "-" * total]
    for row in rows:
        line = padded(row[0], first)
        for place in places[1:]:
            if table.is_text(place):
                line += " " * _GAP + padded(row[place], widths[place] - _GAP)
            else:
                line += padded(row[place], widths[place], ">")
        lines.append(line.rstrip())
    return lines


def markdown_table(table: TableContent) -> str:
    """Return a table as GitHub-flavoured Markdown."""
    heads = ["" if place == 0 and not table.name_place else head for place, head in enumerate(flat_heads(table))]
    lines = [f"**{_markdown(table.title)}**", ""]
    if table.header:
        lines += ["| | | | |", "|:--|:--|:--|:--|"]
        lines += ["| " + " | ".join(map(_markdown, (*line, "", "")[:4])) + " |" for line in table.header]
        lines.append("")
    aligned = "".join("|:--" if table.is_text(place) else "|--:" for place in range(len(heads)))
    lines += ["| " + " | ".join(map(_markdown, heads)) + " |", f"{aligned}|"]
    lines += ["| " + " | ".join(map(_markdown, row)) + " |" for row in table.rows]
    lines += ["", *(f"{number}. {_markdown(note)}" for number, note in enumerate(table.notes, start=1))]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    """Return the text with the characters escaped that Markdown would read as markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$&])", r"\\\1", isolated(inert(text)))


def csv_table(table: TableContent) -> str:
    """Return the rows of a table as CSV, with the heads in the first line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = [table.row_head, *flat_heads(table)[1:]]
    writer.writerow([not_a_formula(head) for head in heads])
    writer.writerows([not_a_formula(cell) for cell in row] for row in table.rows)
    return out.getvalue()
