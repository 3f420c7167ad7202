"""A summary table and how it is written: text, HTML, LaTeX, Markdown, CSV."""

from __future__ import annotations

import csv
import html
import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_MIN_WIDTH = 94
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # \textquotedbl is not in LaTeX's default font encoding.
    '"': r"{\char34}",
} | {character: "\\" + character for character in "&%$#_{}"}


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary table.

    Attributes
    ----------
    title : str
    header : tuple of (str, str, str, str)
        Two pairs of label and value per line.
    columns : tuple of (str, int)
        Heads of the columns beside the models' names, and how many columns each stands over.
    rows : tuple of tuple of str
        Name and cells, the best model first.
    notes : tuple of str
    row_head : str
        What the rows are, as the head of their names in CSV.
    """

    title: str
    header: tuple[tuple[str, str, str, str], ...]
    columns: tuple[tuple[str, int], ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    row_head: str = "model"

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()

    def with_title(self, title: str | None) -> Summary:
        """Return the table under another title, or as it is where the title is None."""
        return self if title is None else replace(self, title=title)

    def as_text(self) -> str:
        """Return the table as plain text."""
        rows = [tuple(map(_one_line, row)) for row in self.rows]
        name_width = max(len(row[0]) for row in rows) + 2
        widths = [max(len(cell) for cell in column) for column in zip(*(row[1:] for row in rows), strict=True)]
        at = 0
        for head, span in self.columns:
            lacking = len(head) - sum(widths[at : at + span]) - 2 * (span - 1)
            widths[at + span - 1] += max(0, lacking)
            at += span
        body_width = name_width + sum(widths) + 2 * len(widths)
        left, right = (max(len(line[at]) + len(line[at + 1]) + 2 for line in self.header) for at in (0, 2))
        width = max(body_width, left + right + 2, _MIN_WIDTH)
        left = width - 2 - right
        # What is left over widens the columns evenly, so that the rules and both tables end together.
        spread = (width - body_width) // len(widths)
        name_width = width - sum(widths) - (2 + spread) * len(widths)
        lines = [self.title.center(width).rstrip(), "=" * width]
        for a, b, c, d in self.header:
            lines.append(f"{a}{b:>{left - len(a)}}  {c}{d:>{right - len(c)}}".rstrip())
        lines.append("=" * width)
        padded = [size + 2 + spread for size in widths]
        lines.append(" " * name_width + "".join(self._heads(padded)))
        lines.append("-" * width)
        for name, *row in rows:
            cells = (f"{cell:>{size}}" for cell, size in zip(row, padded, strict=True))
            lines.append(f"{name:<{name_width}}{''.join(cells)}".rstrip())
        lines.append("=" * width)
        for number, note in enumerate(self.notes, start=1):
            lines += textwrap.wrap(f"[{number}] {note}", width, subsequent_indent="    ", break_on_hyphens=False)
        return "\n".join(lines)

    def _heads(self, widths: Sequence[int]) -> Iterator[str]:
        at = 0
        for head, span in self.columns:
            yield f"{head:>{sum(widths[at : at + span])}}"
            at += span

    def as_html(self) -> str:
        """The table as HTML; names are escaped."""
        head = "<th></th>" + "".join(f'<th colspan="{span}">{html.escape(text)}</th>' for text, span in self.columns)
        body = "".join(f"<tr>{_cells('th', row[:1])}{_cells('td', row[1:])}</tr>\n" for row in self.rows)
        facts = "".join(
            f"<tr>{_cells('th', (a,))}{_cells('td', (b,))}{_cells('th', (c,))}{_cells('td', (d,))}</tr>\n"
            for a, b, c, d in self.header
        )
        notes = "".join(f"<li>{html.escape(note)}</li>\n" for note in self.notes)
        return (
            f'<table class="simpletable">\n<caption>{html.escape(self.title)}</caption>\n{facts}</table>\n'
            f'<table class="simpletable">\n<tr>{head}</tr>\n{body}</table>\n<ol>\n{notes}</ol>'
        )

    def as_latex(self) -> str:
        """The table as a LaTeX ``table``; the document needs ``\\usepackage{booktabs}``.

        It is set in footnotesize, values of the header and notes wrap within the width of the line.
        """
        aligned = "l" + "r" * sum(span for _, span in self.columns)
        heads = [
            f"\\multicolumn{{{span}}}{{c}}{{{_latex(head)}}}" if span > 1 else _latex(head)
            for head, span in self.columns
        ]
        lines = [
            r"\begin{table}",
            rf"\centering\footnotesize\setlength{{\tabcolsep}}{{{4 if len(self._flat_heads()) < 9 else 2.5:g}pt}}",
            f"\\caption{{{_latex(self.title)}}}",
            r"\begin{tabular}{@{}lp{.26\linewidth}lp{.24\linewidth}@{}}",
            r"\toprule",
            *(" & ".join(map(_latex, line)) + r" \\" for line in self.header),
            r"\bottomrule",
            r"\end{tabular}",
            r"\par\medskip",
            f"\\begin{{tabular}}{{@{{}}{aligned}@{{}}}}",
            r"\toprule",
            " & ".join(["", *heads]) + r" \\",
            r"\midrule",
            *(" & ".join(map(_latex, row)) + r" \\" for row in self.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\par\medskip",
            r"\begin{minipage}{\linewidth}\raggedright",
            *(f"{{[}}{i}{{]}} {_latex(note)}\\par" for i, note in enumerate(self.notes, start=1)),
            r"\end{minipage}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def as_markdown(self) -> str:
        """The table as GitHub-flavoured Markdown."""
        heads = ["", *self._flat_heads()]
        lines = [f"**{_markdown(self.title)}**", "", "| | | | |", "|:--|:--|:--|:--|"]
        lines += ["| " + " | ".join(map(_markdown, line)) + " |" for line in self.header]
        lines += ["", "| " + " | ".join(map(_markdown, heads)) + " |", "|:--" + "|--:" * (len(heads) - 1) + "|"]
        lines += ["| " + " | ".join(map(_markdown, row)) + " |" for row in self.rows]
        lines += ["", *(f"{i}. {_markdown(note)}" for i, note in enumerate(self.notes, start=1))]
        return "\n".join(lines) + "\n"

    def as_csv(self) -> str:
        """The rows of the table, as shown, as CSV with a line of heads."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([self.row_head, *self._flat_heads()])
        writer.writerows(self.rows)
        return out.getvalue()

    def _flat_heads(self) -> list[str]:
        """One head per column: a head over two columns is a lower and an upper limit."""
        return [
            name
            for head, span in self.columns
            for name in ([head] if span == 1 else [f"{head} lower", f"{head} upper"])
        ]

    def _repr_html_(self) -> str:
        return self.as_html()


def _latex(text: str) -> str:
    """The text with what LaTeX would take for commands escaped."""
    escaped = "".join(_LATEX.get(character, character) for character in _one_line(text))
    # Braces keep a bracket or star at the start of a row from being read as an option of the line break before it, and
    # neighbours from becoming one sign, such as a dash of two hyphens or Spanish marks.
    return re.sub(r"[\[\]*]|(?<=-)-|(?<=[!?])`|(?<=[`'])[`']", lambda m: "{" + m[0] + "}", escaped)


def _markdown(text: str) -> str:
    """The text with what Markdown would take for markup escaped."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$&])", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    """The text without line breaks, which would end a row of a table."""
    return " ".join(text.split()) if re.search(r"[\r\n\v\f\x85\u2028\u2029]", text) else text


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)
