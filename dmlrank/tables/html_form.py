"""A table as HTML with its own style sheet, for notebooks, web sites and files."""

from __future__ import annotations

import html
import re

from .display_text import inert, isolated
from .table_content import TableContent, facts

# All rules begin with the class of the table, so that nothing else on a page changes. Colours are those of the page, so
# that the table is readable on light and dark pages. Only a file that holds nothing but the table follows the colour
# scheme of the reader's system.
_STYLE = """
.dmlrank-table{width:fit-content;max-width:100%;min-width:min(100%,46rem);margin:.75em 0;color:inherit;
font-size:.9rem;line-height:1.45;overflow-wrap:anywhere;
text-align:left}
.dmlrank-table .t{font-size:1.1em;font-weight:600;margin:0 0 .5em}
.dmlrank-table dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,max(22em,34%)),1fr));
gap:0 2.5em;margin:0;width:0;min-width:100%;
padding:.4em 0;border-top:2px solid}
.dmlrank-table dl>div{display:flex;justify-content:space-between;gap:1em}
.dmlrank-table dt{font-weight:400;opacity:.75;margin:0}
.dmlrank-table dd{margin:0;text-align:right}
.dmlrank-table .w{grid-template-columns:1fr}
.dmlrank-table .w>div{justify-content:flex-start}
.dmlrank-table .w dt{flex:0 0 9em}
.dmlrank-table .w dd{text-align:left}
.dmlrank-table .b{overflow-x:auto;border-top:2px solid;border-bottom:2px solid}
.dmlrank-table table{border-collapse:collapse;width:100%;margin:0;font-size:inherit;color:inherit;
font-variant-numeric:tabular-nums;border:0;background:none}
.dmlrank-table tr{background:none;border:0}
.dmlrank-table th,.dmlrank-table td{padding:.22em .6em;text-align:right;white-space:nowrap;border:0;color:inherit;
vertical-align:baseline;background:none}
.dmlrank-table th:first-child,.dmlrank-table td:first-child{padding-left:0}
.dmlrank-table th:last-child,.dmlrank-table td:last-child{padding-right:0}
.dmlrank-table thead th{font-weight:600;vertical-align:bottom;border-bottom:1px solid;white-space:normal;
overflow-wrap:normal}
.dmlrank-table thead th[colspan]{text-align:center}
.dmlrank-table tbody tr:nth-child(even){background:rgba(128,128,128,.09)}
.dmlrank-table tbody tr:hover{background:rgba(128,128,128,.2)}
.dmlrank-table tbody th{font-weight:600;white-space:normal;overflow-wrap:break-word;min-width:7em;max-width:24em}
.dmlrank-table .l,.dmlrank-table thead th.l{text-align:left}
.dmlrank-table ol{width:0;min-width:100%;box-sizing:border-box;margin:.6em 0 0;padding-left:1.7em;font-size:.9em}
.dmlrank-table li{margin:.25em 0}
@media(max-width:30rem){.dmlrank-table{font-size:.82rem}.dmlrank-table th,.dmlrank-table td{padding:.25em .45em}}
@media print{.dmlrank-table .b{overflow:visible}.dmlrank-table tr{break-inside:avoid}}
:root:has(>body>.dmlrank-table:only-child){color-scheme:light dark;font-family:system-ui,sans-serif}
""".strip()
# Removes the line breaks within the rules above.
_STYLE_TEXT = re.sub(r"(?<=[,;])\n", "", _STYLE)


def html_table(table: TableContent) -> str:
    """Return a table as a part of an HTML page, with its own style; names are escaped.

    Letters that are read from right to left stay within their cell. The rows' names are marked as heads for screen
    readers, and a table that is wider than the page scrolls by itself.
    """
    heads = []
    for head, places in table.heads():
        span = f' colspan="{len(places)}"' if len(places) > 1 else ""
        side = ' class="l"' if table.is_text(places[0]) else ""
        heads.append(f'<th scope="col"{span}{side}>{escaped(head)}</th>' if head else "<th></th>")
    rows = "".join(
        f"<tr>{''.join(_cell(table, place, cell) for place, cell in enumerate(row))}</tr>\n" for row in table.rows
    )
    # Sentences take the whole width of the table.
    kind = ' class="w"' if any(len(line) == 2 for line in table.header) else ""
    pairs = "".join(f"<div><dt>{escaped(label)}</dt><dd>{escaped(value)}</dd></div>\n" for label, value in facts(table))
    notes = "".join(f"<li>{escaped(note)}</li>\n" for note in table.notes)
    title = escaped(table.title)
    return (
        f'<div class="dmlrank-table" dir="ltr">\n<style>\n{_STYLE_TEXT}\n</style>\n<p class="t">{title}</p>\n'
        + (f"<dl{kind}>\n{pairs}</dl>\n" if pairs else "")
        + f'<div class="b" role="region" aria-label="{title}" tabindex="0">\n<table>\n'
        f"<thead>\n<tr>{''.join(heads)}</tr>\n</thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n"
        + (f"<ol>\n{notes}</ol>\n" if notes else "")
        + "</div>"
    )


def _cell(table: TableContent, place: int, cell: str) -> str:
    """Return a cell; the one with the row's name is the head of the row."""
    if place == table.name_place:
        return f'<th scope="row" class="l">{escaped(cell)}</th>'
    return f'<td class="l">{escaped(cell)}</td>' if table.is_text(place) else f"<td>{escaped(cell)}</td>"


def escaped(text: str) -> str:
    """Return a text without the characters that HTML reads as markup, and without control characters."""
    return html.escape(isolated(inert(text)))
