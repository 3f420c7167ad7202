"""Every table as text, Markdown, CSV, HTML and LaTeX: numbers, widths, names that disturb no table, and its class."""

from __future__ import annotations

import csv
import html
import io
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._utils.argument_checks import check_text, checked

# Smaller p-values are shown as "below 0.001".
_SMALLEST_P_VALUE = 0.0005
# Characters that cannot be shown: controls, lone surrogates, and codes that are no characters.
_UNSHOWABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_REPLACEMENT = "\ufffd"
# Marks that change the direction of the text around them.
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LINE_BREAKS = re.compile(r"[\r\n\t\v\f\x85\u2028\u2029]")
# Letters that are read from right to left, with the characters between two of them that are neither letters nor digits.
_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_RIGHT_TO_LEFT_RUN = re.compile(f"[{_RIGHT_TO_LEFT}](?:[^A-Za-z]*[{_RIGHT_TO_LEFT}])?")
# These two characters keep the direction of the text between them from the text outside.
_ISOLATE, _END_OF_ISOLATE = "\u2068", "\u2069"


# --- numbers ---------------------------------------------------------------------------------------------------------


def p_value_text(p: float) -> str:
    """Return a p-value as text in a table: three decimals, or "<0.001" where these would all be zero."""
    return "n/a" if np.isnan(p) else f"{p:.3f}" if p >= _SMALLEST_P_VALUE else "<0.001"


def p_value_clause(p: float) -> str:
    """Return a p-value as text after "P" or "p", with the digits of :func:`p_value_text`."""
    return "< 0.001" if p < _SMALLEST_P_VALUE else f"= {p:.3f}"


def decimals(std_errors: NDArray[np.float64], fewest: int = 3) -> int:
    """Return the number of decimals that shows two significant figures of the smallest standard error."""
    positive = std_errors[std_errors > 0]
    return int(np.clip(1 - np.floor(np.log10(positive.min())), fewest, 6)) if len(positive) else fewest


def fewest_decimals(is_natural: bool) -> int:
    """Return the smallest number of decimals: three in the functional's own unit, one in others such as Elo points."""
    return 3 if is_natural else 1


def fixed_text(number: float, digits: int) -> str:
    """Return a number with a fixed number of decimals; a number that is rounded to zero has no sign."""
    return f"{number:z.{digits}f}"


def score_texts(scores: NDArray[np.float64], std_errors: NDArray[np.float64], digits: int) -> list[str]:
    """Return scores as texts, with standard errors in brackets unless these are NaN; a dash for no score."""
    return [
        "-" if np.isnan(score) else fixed_text(score, digits) + ("" if np.isnan(error) else f" ({error:.{digits}f})")
        for score, error in zip(scores, std_errors, strict=True)
    ]


# --- names and other texts --------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """Return the text with control characters and lone surrogates replaced by the replacement character."""
    return _UNSHOWABLE.sub(_REPLACEMENT, text)


def undirected(text: str) -> str:
    """Return a printable text without the marks of direction that a name could reverse a sentence with."""
    return _DIRECTION.sub("", printable(text))


def inert(text: str) -> str:
    """Return a text without control characters, marks of direction and line breaks, in quotes where blanks end it."""
    shown = undirected(text)
    shown = f"'{shown}'" if shown.startswith(" ") or shown.endswith(" ") else shown
    return " ".join(shown.split()) if _LINE_BREAKS.search(shown) else shown


def isolated(text: str) -> str:
    """Return an inert text in which letters that are read from right to left do not move their neighbours."""
    return _RIGHT_TO_LEFT_RUN.sub(lambda run: f"{_ISOLATE}{run[0]}{_END_OF_ISOLATE}", inert(text))


def display_width(text: str) -> int:
    """Return the number of columns that a text takes in a terminal or a fixed-width font.

    Wide characters of East Asia and emoji take two columns, combining marks take none. The parts of an emoji that is
    put together are counted one by one, as many terminals show them.
    """
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    """Return the number of columns of a character: none for combining marks and formats, but the soft hyphen."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf") and character != "\u00ad":
        return 0
    return 1 + (unicodedata.east_asian_width(character) in "WF")


def padded(text: str, width: int, align: str = "<") -> str:
    """Return a text filled with blanks up to a display width, aligned left ("<"), right (">") or centred ("^")."""
    missing = max(0, width - display_width(text))
    before = {"<": 0, ">": missing, "^": missing // 2}[align]
    return " " * before + text + " " * (missing - before)


def wrapped(text: str, width: int, indent: str = "    ") -> list[str]:
    """Return lines of at most this display width, later ones indented; only words that are too long are divided."""
    if text.isascii():
        return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)
    lines, line = [], ""
    for chunk in re.findall(r" +|[^ ]+", text):
        if display_width(line + chunk) <= width:
            line += chunk
        elif chunk.startswith(" ") or display_width(indent + chunk) <= width:
            lines.append(line)
            # Blanks at the end of a line are dropped.
            line = indent + chunk.lstrip(" ")
        else:
            for character in chunk:
                if display_width(line + character) > width:
                    lines.append(line)
                    line = indent
                line += character
    return [shown.rstrip() for shown in [*lines, line] if shown.strip()]


# Characters that start a formula in spreadsheets, after any number of apostrophes that this module has put before them:
# at the start of a cell, and where some programs start a cell within another one (line breaks, tabs, semicolons).
_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff0b\uff1d\uff20\uff0d]")
_FORMULA_WITHIN = re.compile(r"(?<=[\r\n\v\f\x1c-\x1e\x85\u2028\u2029\t;])'*[=+\-@\uff0b\uff1d\uff20\uff0d]")
# The end of a row of CSV, or a cell in quotation marks.
_ROW_END = re.compile(r'("[^"]*")|\r\n')


def not_a_formula(text: str) -> str:
    """Return a cell of a CSV file that no spreadsheet runs: an apostrophe precedes what looks like a formula.

    Numbers and single signs, such as the "-" of an empty cell, are returned as they are. Different texts stay
    different.
    """
    text = _FORMULA_WITHIN.sub(r"'\g<0>", text)
    if len(text) == 1 or not _FORMULA.match(text):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def safe_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV in which no name is a formula."""

    def safe(cell: object) -> object:
        return not_a_formula(cell) if isinstance(cell, str) else cell

    texts = table.select_dtypes(exclude=["number", "bool", "boolean"]).map(safe)
    return rows_of_csv(table.assign(**texts).rename(columns=safe).to_csv(index=False, lineterminator="\r\n"))


def rows_of_csv(text: str) -> str:
    """Return CSV whose rows end with a line feed, from rows that end with both characters of a line end."""
    # Python's writer puts a cell with a line break into quotation marks only where the break is a part of its line end.
    return _ROW_END.sub(lambda found: found[1] or "\n", text)


Heads = list[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary table, which can be written as text, HTML, LaTeX, Markdown and CSV.

    Attributes
    ----------
    title : str
        Stands above the table.
    header : tuple of tuple of str
        Lines above the table, each with two pairs of label and value, or one, whose value may be a sentence.
    columns : tuple of (str, int)
        Head and span of every column after the first one: the span is the number of columns that share the head.
    rows : tuple of tuple of str
        Name and cells of every row.
    notes : tuple of str
        Sentences below the table.
    row_head : str
        Head of the first column, shown where this does not hold the rows' names.
    name_place : int
        The column that holds the rows' names. The columns up to this one are repeated where a table is divided.
    text_columns : tuple of int
        Further columns that hold text and are aligned left.
    numbered : bool
        Whether the notes have numbers.

    Examples
    --------
    >>> table = Summary("Scores", (("Functional:", "bt", "Votes:", "100"),), (("coef", 1),), (("gpt-4", "0.8"),), ())
    >>> print(table.as_csv())
    model,coef
    gpt-4,0.8
    <BLANKLINE>
    """

    title: str
    header: tuple[tuple[str, ...], ...]
    columns: tuple[tuple[str, int], ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    row_head: str = "model"
    name_place: int = 0
    text_columns: tuple[int, ...] = ()
    numbered: bool = True

    def __post_init__(self) -> None:
        """Leave out empty notes, and check that every cell has a head: the last cells would be dropped in silence."""
        object.__setattr__(self, "notes", tuple(filter(None, self.notes)))
        n_cells = 1 + sum(span for _, span in self.columns)
        assert all(len(row) == n_cells for row in self.rows), f"{self.title!r} has rows without {n_cells} cells"

    def heads(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield every head with the places of the columns below it, the first column included."""
        yield self.row_head if self.name_place else "", (0,)
        start = 1
        for head, span in self.columns:
            yield head, tuple(range(start, start + span))
            start += span

    def is_text(self, place: int) -> bool:
        """Whether a column is aligned left, because it holds names or other text; ``place`` counts from zero."""
        return place <= self.name_place or place in self.text_columns

    def facts(self) -> list[tuple[str, str]]:
        """Return labels and values of the lines above the table, one pair after the other."""
        pairs = [pair for line in self.header for pair in zip(line[::2], line[1::2], strict=True)]
        return [(label, value) for label, value in pairs if label]

    def as_text(self, width: int | None = None) -> str:
        """Return the table as plain text.

        Parameters
        ----------
        width : int, optional
            Largest width in characters; columns that do not fit follow in further panels below.
        """
        rows = [tuple(isolated(cell) for cell in row) for row in self.rows]
        # A column is as wide as its widest cell, or as its part of the head.
        all_heads = list(self.heads())
        sizes = [max((display_width(row[place]) for row in rows), default=0) for _, at in all_heads for place in at]
        for head, places in all_heads:
            below = sum(sizes[place] for place in places) + _GAP * (len(places) - 1)
            sizes[places[-1]] += max(0, display_width(isolated(head)) - below)
        # The heads that every panel repeats, and the panels of the others.
        leading = [head for head in all_heads if head[1][0] <= self.name_place]

        def size_of(heads: Heads) -> int:
            return sum(sizes[place] + _GAP for _, places in heads for place in places)

        panels: list[Heads] = [[]]
        for further in all_heads[len(leading) :]:
            if width is not None and panels[-1] and size_of([*leading, *panels[-1], further]) > width:
                panels.append([])
            panels[-1].append(further)
        body_width = size_of(leading) + max(map(size_of, panels))
        header = [tuple(isolated(text) for text in line) for line in self.header]
        pairs = [line for line in header if len(line) > 2]
        sides = [max((sum(map(display_width, line[at : at + 2])) + 1 for line in pairs), default=0) for at in (0, 2)]
        total = max(body_width, sum(sides) + 2 if pairs else 0, _MIN_WIDTH if width is None else min(width, _MIN_WIDTH))
        left, right = total - _GAP - sides[1], sides[1]
        label_width = max([_LABEL_WIDTH, *(display_width(line[0]) + 2 for line in header if len(line) == 2)])
        lines = [padded(isolated(self.title), total, "^").rstrip(), "=" * total]
        for label, value, *second in header:
            if second:
                first = label + padded(value, left - display_width(label), ">")
                lines.append(f"{first}  {second[0]}{padded(second[1], right - display_width(second[0]), '>')}".rstrip())
            else:
                lines += wrapped(padded(label, label_width) + value, total, indent=" " * label_width)
        lines += ["=" * total] * bool(header)
        for number, panel in enumerate(panels):
            lines += ["-" * total] * (number > 0) + _panel_lines(self, rows, [*leading, *panel], sizes, total)
        lines.append("=" * total)
        for number, note in enumerate(self.notes, start=1):
            mark, indent = (f"[{number}] ", "    ") if self.numbered else ("", "")
            lines += wrapped(mark + isolated(note), total, indent)
        return "\n".join(lines)

    def as_html(self) -> str:
        """Return the table as HTML with a style of its own; names are escaped.

        The style applies to this table alone. Its colours are those of the page, light or dark.
        """
        sides = [' class="l"' if self.is_text(place) else "" for _, places in self.heads() for place in places]
        heads = ""
        for head, places in self.heads():
            span = f' colspan="{len(places)}"' if len(places) > 1 else ""
            heads += f'<th scope="col"{span}{sides[places[0]]}>{escaped(head)}</th>' if head else "<th></th>"
        rows = ""
        for row in self.rows:
            # The cell with the row's name is the head of the row.
            cells = ""
            for place, cell in enumerate(row):
                tag, scope = ("th", ' scope="row"') if place == self.name_place else ("td", "")
                cells += f"<{tag}{scope}{sides[place]}>{escaped(cell)}</{tag}>"
            rows += f"<tr>{cells}</tr>\n"
        # Sentences take the whole width of the table.
        kind = ' class="w"' if any(len(line) == 2 for line in self.header) else ""
        pairs = "".join(
            f"<div><dt>{escaped(label)}</dt><dd>{escaped(value)}</dd></div>\n" for label, value in self.facts()
        )
        outer, item = ("ol", "li") if self.numbered else ("div", "p")
        notes = "".join(f"<{item}>{escaped(note)}</{item}>\n" for note in self.notes)
        title = escaped(self.title)
        return (
            f'<div class="dmlrank-table" dir="ltr">\n<style>\n{_STYLE}\n</style>\n<p class="t">{title}</p>\n'
            + (f"<dl{kind}>\n{pairs}</dl>\n" if pairs else "")
            + f'<div class="b" role="region" aria-label="{title}" tabindex="0">\n<table>\n'
            f"<thead>\n<tr>{heads}</tr>\n</thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n"
            + (f'<{outer} class="n">\n{notes}</{outer}>\n' if notes else "")
            + "</div>"
        )

    def as_markdown(self) -> str:
        """Return the table as GitHub-flavoured Markdown."""
        heads = _flat_heads(self)
        lines = [f"**{_markdown(self.title)}**", ""]
        if self.header:
            lines += ["| | | | |", "|:--|:--|:--|:--|"]
            lines += ["| " + " | ".join(map(_markdown, (*line, "", "")[:4])) + " |" for line in self.header]
            lines.append("")
        aligned = "".join("|:--" if self.is_text(place) else "|--:" for place in range(len(heads)))
        lines += ["| " + " | ".join(map(_markdown, heads)) + " |", f"{aligned}|"]
        lines += ["| " + " | ".join(map(_markdown, row)) + " |" for row in self.rows]
        # Two blanks end a line within a paragraph.
        notes = (
            (f"{number}. " if self.numbered else "", _markdown(note)) for number, note in enumerate(self.notes, start=1)
        )
        lines += ["", *(f"{mark}{note}{'' if mark else '  '}" for mark, note in notes)]
        return "\n".join(lines) + "\n"

    def as_csv(self) -> str:
        """Return the rows of the table as CSV, with the heads in the first line.

        An apostrophe stands before names that begin like a formula of a spreadsheet (``=``, ``+``, ``-`` or ``@``).
        """
        out = io.StringIO(newline="")
        writer = csv.writer(out)
        heads = [self.row_head, *_flat_heads(self)[1:]]
        writer.writerow([not_a_formula(head) for head in heads])
        writer.writerows([not_a_formula(cell) for cell in row] for row in self.rows)
        return rows_of_csv(out.getvalue())

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()

    def with_title(self, title: str | None) -> Summary:
        """Return the table under another title, or as it is where the title is None."""
        if title is None:
            return self
        check_text("title", title)
        return replace(self, title=title)

    def with_notes(self, *notes: str) -> Summary:
        """Return the table with further notes before its own ones; empty notes are left out."""
        return replace(self, notes=(*notes, *self.notes))

    def as_latex(self, *, longtable: bool | None = None, label: str | None = None) -> str:
        r"""Return the table as LaTeX; the document needs ``\usepackage{booktabs,longtable}``.

        Parameters
        ----------
        longtable : bool, optional
            Whether the table may break over pages, with its heads repeated. None: only if it has more than 40 rows.
        label : str, optional
            Name for ``\ref``, such as ``"tab:scores"``.
        """
        alignment, cells, rules = "", [], []
        for head, places in self.heads():
            for place in places:
                is_long = place in self.text_columns and any(len(row[place]) > _LONG_TEXT for row in self.rows)
                alignment += r"p{0.5\linewidth}" if is_long else "l" if self.is_text(place) else "r"
            cells.append(latex_text(head))
            if len(places) > 1:
                cells[-1] = rf"\multicolumn{{{len(places)}}}{{c}}{{{cells[-1]}}}"
                rules.append(rf"\cmidrule(lr){{{places[0] + 1}-{places[-1] + 1}}}")
        heads = [r"\toprule", " & ".join(cells) + r" \\", *rules, r"\midrule"]
        rows = []
        for row in self.rows:
            texts = [latex_number(cell) for cell in row]
            texts[self.name_place] = latex_text(row[self.name_place])
            rows.append(" & ".join(texts) + r" \\")
        caption = rf"\caption{{{latex_text(self.title)}}}" + (rf"\label{{{label}}}" if label else "")
        marks = [f"[{number}] " if self.numbered else "" for number in range(1, len(self.notes) + 1)]
        notes = [f"{name} {value}" for name, value in self.facts()]
        notes += [mark + note for mark, note in zip(marks, self.notes, strict=True)]
        below = [r"{\raggedright\setlength{\parindent}{0pt}", *(rf"{latex_text(note)}\par" for note in notes), "}"]
        columns = rf"{{@{{}}{alignment}@{{}}}}"
        if len(rows) > _PAGE_ROWS if longtable is None else longtable:
            long = [r"\endfirsthead", *heads, r"\endhead", r"\bottomrule", r"\endfoot", *rows, r"\end{longtable}"]
            lines = [r"\begingroup\small", rf"\begin{{longtable}}{columns}", rf"{caption} \\", *heads, *long]
            lines += [*below, r"\endgroup"]
        else:
            lines = [r"\begin{table}", r"\centering\small", caption, rf"\begin{{tabular}}{columns}", *heads, *rows]
            lines += [r"\bottomrule", r"\end{tabular}\par\smallskip", *below, r"\end{table}"]
        comment = r"% Needs \usepackage{booktabs,longtable}."
        if any("\\Umathchar" in line for line in lines):
            comment += " Some names need XeLaTeX or LuaLaTeX; pdfLaTeX prints code points instead."
        return "\n".join([comment, *lines]) + "\n"


class Summarised:
    """An object that prints as its summary table, in notebooks as HTML; its methods check what they are given."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        checked(cls)

    # The table for a report.
    summary: Callable[..., Summary]

    def __str__(self) -> str:
        return self.summary().as_text()

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def _flat_heads(table: Summary) -> list[str]:
    """Return one head per column for Markdown and CSV: of a head over two columns "... lower" and "... upper"."""
    return [
        text
        for head, places in table.heads()
        for text in ([head] if len(places) == 1 else [f"{head} lower", f"{head} upper"])
    ]


_MIN_WIDTH = 78
# Smallest width of the labels of sentences above the columns.
_LABEL_WIDTH = 20
_GAP = 2


def _panel_lines(table: Summary, rows: list[tuple[str, ...]], heads: Heads, sizes: list[int], total: int) -> list[str]:
    """Return heads, a rule and rows of a panel."""
    places = [place for _, group in heads for place in group]
    extra = (total - sum(sizes[place] + _GAP for place in places)) // max(1, len(places) - 1)
    widths = {place: sizes[place] + _GAP + extra for place in places[1:]}
    first = total - sum(widths.values())

    def cell(text: str, width: int, place: int) -> str:
        """Return a cell with the gap before it, to the left or the right."""
        return " " * _GAP + padded(text, width - _GAP) if table.is_text(place) else padded(text, width, ">")

    head_line = padded(isolated(heads[0][0]), first)
    for head, group in heads[1:]:
        head_line += cell(isolated(head), sum(widths[place] for place in group), group[0])
    lines = [head_line.rstrip() if not table.name_place else head_line, "-" * total]
    for row in rows:
        cells = [cell(row[place], widths[place], place) for place in places[1:]]
        lines.append("".join([padded(row[0], first), *cells]).rstrip())
    return lines


def _markdown(text: str) -> str:
    """Return the text with the characters escaped that Markdown would read as markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$&])", r"\\\1", isolated(text))


# All rules begin with the class of the table, so that nothing else on a page changes. Colours are those of the page, so
# that the table is readable on light and dark pages. Only a file that holds nothing but the table follows the colour
# scheme of the reader's system. Line breaks within rules are removed.
_STYLE = re.sub(r"(?<=[,;])\n", "", (files(__package__) / "table.css").read_text(encoding="utf-8").strip())


def escaped(text: str) -> str:
    """Return a text without the characters that HTML reads as markup, and without control characters."""
    return html.escape(isolated(text))


# --- LaTeX ------------------------------------------------------------------------------------------------------------

# A table with more rows breaks over pages.
_PAGE_ROWS = 40
# A column of text with a longer cell is set as paragraphs.
_LONG_TEXT = 40
_ESCAPES = r"\textbackslash{} \textasciitilde{} \textasciicircum{} \textless{} \textgreater{} \textbar{} {\char34}"
_ESCAPED = dict(zip('\\~^<>|"', _ESCAPES.split(), strict=True)) | {sign: "\\" + sign for sign in "&%$#_{}"}
# Signs beyond ASCII with a command that every LaTeX has.
_SIGNS = r"~ -- --- ` ' `` '' \ldots{} $-$ $\times$ $\cdot$ $\pm$ $^\circ$ $\le$ $\ge$"
_GREEK = r"$\alpha$ $\beta$ $\gamma$ $\delta$ $\epsilon$ $\theta$ $\lambda$ $\mu$ $\pi$ $\rho$ $\sigma$ $\tau$ $\omega$"
_COMMANDS = dict(zip("\u00a0–—‘’“”…−×·±°≤≥αβγδεθλμπρστω", f"{_SIGNS} {_GREEK}".split(), strict=True))
# The accented and special letters of Latin-1 and Latin Extended-A that LaTeX's default font encoding has.
_LETTERS = (
    "\u00a1-\u00aa\u00ac-\u00ba\u00bc-\u00cf\u00d1-\u00dd\u00df-\u00ef\u00f1-\u00fd\u00ff-\u0103\u0106-\u010f"
    "\u0112-\u0117\u011a-\u0125\u0128-\u012d\u0130-\u0137\u0139-\u013e\u0141-\u0148\u014c-\u0165\u0168-\u0171"
    "\u0174-\u017e"
)
_TYPESET = f"[\x00-\x7f{_LETTERS}{''.join(_COMMANDS)}]"
# One run of characters that pdfLaTeX can typeset, or one run of others.
_RUNS = re.compile(f"({_TYPESET}+)|((?:(?!{_TYPESET}).)+)", flags=re.DOTALL)


def latex_text(text: str) -> str:
    r"""Return a text with the characters escaped that LaTeX would read as commands.

    Characters that pdfLaTeX cannot typeset, such as Chinese, stay as they are for XeLaTeX and LuaLaTeX. In pdfLaTeX
    their code points appear instead, so that the document compiles.
    """
    parts = []
    for typeset, other in _RUNS.findall(unicodedata.normalize("NFC", inert(text))):
        if other:
            points = r"\allowbreak{}".join(f"U+{ord(character):04X}" for character in other)
            parts.append(rf"{{\ifdefined\Umathchar {other}\else {points}\fi}}")
        escaped = "".join(_ESCAPED.get(character, character) for character in typeset)
        # Without braces, LaTeX would read a bracket or star at the start of a row as an option of the line break before
        # it, and it would join neighbours to one sign, such as two hyphens to a dash.
        apart = re.sub(r"[\[\]*]|(?<=-)-|(?<=[!?])`|(?<=[`'])[`']", r"{\g<0>}", escaped)
        parts.append("".join(_COMMANDS.get(character, character) for character in apart))
    return "".join(parts)


def latex_number(text: str) -> str:
    """Return a cell of numbers: a minus sign for a hyphen before a number, a dash between two ranks."""
    if re.fullmatch(r"\d+-\d+", text):
        return text.replace("-", "--")
    signed = re.sub(r"(?<![\w.-])(?:\{-\}|-)(?=[\d.]|inf)", "$-$", latex_text(text))
    # LaTeX would make the blank after a rank wider, as at the end of a sentence.
    return signed.replace(". ", ".\\ ")
