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
    """A summary table, which can be written as text, HTML, LaTeX, Markdown and CSV.

    Attributes
    ----------
    title : str
        Stands above the table.
    header : tuple of (str, str, str, str)
        Two pairs of label and value per line.
    columns : tuple of (str, int)
        Head and span of every column after the column of the rows' names: the span is the number of columns that share
        the head.
    rows : tuple of tuple of str
        Name and cells of every row.
    notes : tuple of str
        Sentences below the table.
    row_head : str
        Head of the rows' names in CSV.

    Examples
    --------
    >>> table = Summary("Scores", (("Functional:", "bt", "Votes:", "100"),), (("coef", 1),), (("gpt-4", "0.8"),), ())
    >>> print(table.as_csv())
    model,coef
    gpt-4,0.8
    <BLANKLINE>
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
        start = 0
        for head, span in self.columns:
            n_missing = len(head) - sum(widths[start : start + span]) - 2 * (span - 1)
            widths[start + span - 1] += max(0, n_missing)
            start += span
        body_width = name_width + sum(widths) + 2 * len(widths)
        left_width, right_width = (
            max(len(line[place]) + len(line[place + 1]) + 2 for line in self.header) for place in (0, 2)
        )
        width = max(body_width, left_width + right_width + 2, _MIN_WIDTH)
        left_width = width - 2 - right_width
        # The columns are widened evenly, so that the rules, the header and the table end together.
        padding = (width - body_width) // len(widths)
        name_width = width - sum(widths) - (2 + padding) * len(widths)
        lines = [self.title.center(width).rstrip(), "=" * width]
        for a, b, c, d in self.header:
            lines.append(f"{a}{b:>{left_width - len(a)}}  {c}{d:>{right_width - len(c)}}".rstrip())
        lines.append("=" * width)
        padded = [size + 2 + padding for size in widths]
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
        """Yield the heads, each as wide as the columns that it stands over."""
        start = 0
        for head, span in self.columns:
            yield f"{head:>{sum(widths[start : start + span])}}"
            start += span

    def as_html(self) -> str:
        """Return the table as HTML; names are escaped."""
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
        r"""Return the table as a LaTeX ``table``; the document needs ``\usepackage{booktabs}``.

        The table is set in footnotesize. Values of the header and notes wrap within the width of the line.
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
        """Return the table as GitHub-flavoured Markdown."""
        heads = ["", *self._flat_heads()]
        lines = [f"**{_markdown(self.title)}**", "", "| | | | |", "|:--|:--|:--|:--|"]
        lines += ["| " + " | ".join(map(_markdown, line)) + " |" for line in self.header]
        lines += ["", "| " + " | ".join(map(_markdown, heads)) + " |", "|:--" + "|--:" * (len(heads) - 1) + "|"]
        lines += ["| " + " | ".join(map(_markdown, row)) + " |" for row in self.rows]
        lines += ["", *(f"{i}. {_markdown(note)}" for i, note in enumerate(self.notes, start=1))]
        return "\n".join(lines) + "\n"

    def as_csv(self) -> str:
        """Return the rows of the table as CSV, with the heads in the first line."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([self.row_head, *self._flat_heads()])
        writer.writerows(self.rows)
        return out.getvalue()

    def _flat_heads(self) -> list[str]:
        """Return one head per column; a head over two columns becomes a lower and an upper limit."""
        return [
            name
            for head, span in self.columns
            for name in ([head] if span == 1 else [f"{head} lower", f"{head} upper"])
        ]

    def _repr_html_(self) -> str:
        return self.as_html()


def _latex(text: str) -> str:
    """Return the text with the characters escaped that LaTeX would read as commands."""
    escaped = "".join(_LATEX.get(character, character) for character in _one_line(text))
    # Without braces, LaTeX would read a bracket or star at the start of a row as an option of the line break before it,
    # and it would join neighbours to one sign, such as two hyphens to a dash.
    return re.sub(r"[\[\]*]|(?<=-)-|(?<=[!?])`|(?<=[`'])[`']", lambda m: "{" + m[0] + "}", escaped)


def _markdown(text: str) -> str:
    """Return the text with the characters escaped that Markdown would read as markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$&])", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    """Return the text without line breaks, which would end a row of a table."""
    return " ".join(text.split()) if re.search(r"[\r\n\v\f\x85\u2028\u2029]", text) else text


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)
