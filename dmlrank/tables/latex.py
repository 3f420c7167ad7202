r"""A table as LaTeX with booktabs: no wider than a line of text, and divided over pages where it is too high for one.

Widths follow from numbers of characters: names stand in a column of fixed width, in which they may be divided, and
columns for which a line has no room follow in panels below. LaTeX itself shrinks a table that is a little too wide.
"""

from __future__ import annotations

import math
import re
import unicodedata

from .display_text import inert
from .forms import Heads, TableContent, divide_columns, leading_and_blocks

# \linewidth of article at 10 pt, and the width of a digit in \footnotesize with some room, in points.
LINE_WIDTH = 345.0
_DIGIT = 4.5
# Points that a sign is narrower than a digit.
_NARROW = 1.9
# Letters are wider where there are many capitals, and narrower in sentences.
_NAME_LETTER, _PROSE_LETTER = 5.0, 3.8
# Half of the gap between two columns (\tabcolsep) in points.
_GAP = 3.0
# Largest share of the line for names, largest number of letters of a cell of text that is not divided over lines, and
# share of the line for the columns with such cells.
_NAME_SHARE, _LONG_TEXT, _TEXT_SHARE = 0.3, 40, 0.5
# A table on one page may be this much wider than a line: LaTeX shrinks it. A long one has no box to be shrunk.
_SHRUNK = 1.2
# Lines of a page at \footnotesize; \textheight of article at 10 pt is 550 points.
_PAGE_LINES = 51
_RAGGED = r">{\raggedright\arraybackslash}"
# Shares of the line for labels and values above the columns.
_FACT_SHARES = (0.2, 0.3, 0.2, 0.22)

_ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # \textquotedbl is not in LaTeX's default font encoding.
    '"': r"{\char34}",
} | {character: "\\" + character for character in "&%$#_{}"}
# Characters beyond ASCII that every LaTeX can typeset: accented Latin letters, and signs with a command of their own.
_GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu "
_GREEK += "nu xi pi rho sigma tau upsilon phi chi psi omega"
_COMMANDS = {
    "\u00a0": "~",
    "\u2013": "--",
    "\u2014": "---",
    "\u2018": "`",
    "\u2019": "'",
    "\u201c": "``",
    "\u201d": "''",
    "\u2026": r"\ldots{}",
    "\u2212": "$-$",
    "\u00d7": r"$\times$",
    "\u00b7": r"$\cdot$",
    "\u00b1": r"$\pm$",
    "\u00b0": r"$^\circ$",
    "\u2264": r"$\le$",
    "\u2265": r"$\ge$",
} | {letter: f"$\\{name}$" for letter, name in zip("αβγδεζηθικλμνξπρστυφχψω", _GREEK.split(), strict=True)}
# The accented and special letters of Latin-1 and Latin Extended-A that LaTeX's default font encoding has.
_LETTERS = (
    "\u00a1-\u00aa\u00ac-\u00ba\u00bc-\u00cf\u00d1-\u00dd\u00df-\u00ef\u00f1-\u00fd\u00ff-\u0103\u0106-\u010f"
    "\u0112-\u0117\u011a-\u0125\u0128-\u012d\u0130-\u0137\u0139-\u013e\u0141-\u0148\u014c-\u0165\u0168-\u0171"
    "\u0174-\u017e"
)
_TYPESET = f"[\x00-\x7f{_LETTERS}{''.join(_COMMANDS)}]"
# One run of characters that pdfLaTeX can typeset, or one run of others.
_RUNS = re.compile(f"({_TYPESET}+)|((?:(?!{_TYPESET}).)+)", flags=re.DOTALL)


# --- text -------------------------------------------------------------------------------------------------------------


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


def _breakable(text: str) -> str:
    r"""Return an escaped name that may be divided over lines: after punctuation, and within very long words."""
    pieces = re.findall(r"[^-_/.: ]{1,14}[-_/.:]* *|[-_/.: ]+", inert(text))
    # A line may end at a blank in any case.
    parts = (latex_text(piece) + ("" if piece.endswith(" ") else r"\allowbreak{}") for piece in pieces)
    return "".join(parts).removesuffix(r"\allowbreak{}")


def _prose(text: str) -> str:
    """Return a sentence, in which very long words may be divided."""
    # A quotation mark opens at the start of a word, and closes elsewhere.
    quoted = re.sub(r'(?<![^\s(])"', "\u201c", text).replace('"', "\u201d")
    words = (_breakable(word) if len(word) > 25 else latex_text(word) for word in quoted.split(" "))
    return re.sub(r"(?<![^ (])-(?=\d)", "$-$", " ".join(words))


# --- columns ----------------------------------------------------------------------------------------------------------


class _Columns:
    """The columns of a table: their widths in points, and how LaTeX sets them."""

    def __init__(self, table: TableContent, width: float) -> None:
        self.table, self.width = table, width
        n_columns = sum(len(places) for _, places in table.heads())
        longest = [max((len(row[place]) for row in table.rows), default=0) for place in range(n_columns)]
        self.sizes = [max((_number_width(row[place]) for row in table.rows), default=0.0) for place in range(n_columns)]
        self.is_long = [table.is_text(place) and longest[place] > _LONG_TEXT for place in range(n_columns)]
        for place in range(n_columns):
            if self.is_long[place]:
                self.sizes[place] = _TEXT_SHARE * width / sum(self.is_long)
        for head, places in table.heads():
            piece = max(map(_number_width, _head_pieces(head)), default=0.0)
            self.sizes[places[-1]] += max(0.0, piece - sum(self.sizes[place] for place in places))
        # Names are divided over lines only where all columns do not fit beside whole names.
        self.sizes[table.name_place] = 0.0
        others = self.total(list(table.heads()))
        whole = max(_DIGIT, longest[table.name_place] * _NAME_LETTER)
        self.sizes[table.name_place] = min(whole, max(_NAME_SHARE * width, width - others))

    def total(self, heads: Heads) -> float:
        """Return the width of the columns of some heads, with the gaps between them."""
        places = [place for _, group in heads for place in group]
        return sum(self.sizes[place] + 2 * _GAP for place in places) - 2 * _GAP

    def panels(self, available: float) -> list[Heads]:
        """Return the heads of every panel: one panel where all columns fit."""
        leading, blocks = leading_and_blocks(self.table)
        everything = [*leading, *(head for block in blocks for head in block)]
        if self.total(everything) <= available or not blocks:
            return [everything]
        widths = [self.total(block) + 2 * _GAP for block in blocks]
        panels = divide_columns(widths, available - self.total(leading))
        return [[*leading, *(head for place in panel for head in blocks[place])] for panel in panels]

    def alignment(self, heads: Heads, fill: bool) -> str:
        """Return the alignment of the columns of a panel; with ``fill`` the columns spread over the line."""
        alignment = r"@{\extracolsep{\fill}}" if fill else "@{}"
        for place in (place for _, group in heads for place in group):
            if place == self.table.name_place:
                alignment += rf"{_RAGGED[:-1]}\hangindent=1em}}p{{{self.sizes[place]:.1f}pt}}"
            elif self.is_long[place]:
                alignment += f"{_RAGGED}p{{{self.sizes[place]:.1f}pt}}"
            else:
                alignment += "l" if self.table.is_text(place) else "r"
        return f"{alignment}@{{}}"

    def head_rows(self, heads: Heads) -> list[str]:
        """Return the rows of heads, with a rule below each head that stands over several columns."""
        cells, rules, column = [], [], 1
        for head, places in heads:
            available = self.total([(head, places)])
            lines: list[str] = []
            for piece in _head_pieces(head):
                if lines and _number_width(lines[-1] + piece.rstrip()) <= available + 1e-6:
                    lines[-1] += piece
                else:
                    lines.append(piece)
            cell = r" \\ ".join(latex_text(line.rstrip()) for line in lines)
            if len(lines) > 1:
                side = "c" if len(places) > 1 else "l" if self.table.is_text(places[0]) else "r"
                cell = rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{cell}\end{{tabular}}"
            if len(places) > 1:
                cell = rf"\multicolumn{{{len(places)}}}{{c}}{{{cell}}}"
                rules.append(rf"\cmidrule(lr){{{column}-{column + len(places) - 1}}}")
            cells.append(cell)
            column += len(places)
        return [" & ".join(cells) + r" \\", *rules]

    def rows(self, heads: Heads) -> list[str]:
        """Return the rows of a panel."""
        places, lines = [place for _, group in heads for place in group], []
        for row in self.table.rows:
            cells = []
            for place in places:
                text = row[place]
                if place == self.table.name_place:
                    # In one line where a name has room, so that the cell reads as the name does.
                    has_room = len(text) * _NAME_LETTER <= self.sizes[place] and text.isascii()
                    cells.append(latex_text(text) if has_room else _breakable(text))
                elif self.is_long[place]:
                    cells.append(_prose(text))
                elif self.table.is_text(place) and not re.fullmatch(r"\d+(-\d+)?", text):
                    cells.append(latex_text(text))
                else:
                    cells.append(latex_number(text))
            lines.append(" & ".join(cells) + r" \\")
        return lines


def _number_width(text: str) -> float:
    """Return the width of a cell of numbers in points, with some room."""
    return _DIGIT * len(text) - _NARROW * len(re.findall(r"[.,:() ]", text))


def _head_pieces(head: str) -> list[str]:
    """Return the parts of a head between which it may be divided: words, and parts of words that end in punctuation.

    The brackets that mark an interval are left out, because LaTeX has a rule below its head.
    """
    is_interval = head.startswith("[") and head.endswith("]") and "]" not in head[:-1]
    bare = head[1:-1] if is_interval else head
    return re.findall(r"[^\s\-_/.:(\[]*[-_/.:(\[]+\s*|[^\s\-_/.:(\[]+\s*", bare)


# --- the table --------------------------------------------------------------------------------------------------------


def latex_table(table: TableContent, width: float, *, longtable: bool | None, label: str | None) -> str:
    """Return a table as LaTeX."""
    columns = _Columns(table, width)
    panels = columns.panels(width if longtable else _SHRUNK * width)
    is_long = _lines(columns, len(panels)) > _PAGE_LINES if longtable is None else longtable
    caption = latex_text(table.title) + (f"\\label{{{label}}}" if label else "")
    lines = _long(columns, caption) if is_long else _floating(columns, panels, caption)
    comment = rf"% Needs \usepackage{{array,booktabs,{'longtable' if is_long else 'graphicx'}}}."
    if any("\\Umathchar" in line for line in lines):
        comment += " Some names need XeLaTeX or LuaLaTeX; pdfLaTeX prints code points instead."
    return "\n".join([comment, *lines]) + "\n"


def _lines(columns: _Columns, n_panels: int) -> int:
    """Return about how many lines of a page a table takes."""
    table, width = columns.table, columns.width

    def n_lines(text: str, letter: float, available: float) -> int:
        return max(1, math.ceil(letter * len(text) / available))

    names = sum(n_lines(row[table.name_place], _NAME_LETTER, columns.sizes[table.name_place]) for row in table.rows)
    notes = sum(n_lines(note, _PROSE_LETTER, width) for note in table.notes)
    facts = sum(
        max(n_lines(value, _PROSE_LETTER, width * (0.25 if len(line) > 2 else 0.75)) for value in line[1::2])
        for line in table.header
    )
    return notes + n_panels * (names + 3) + facts + 4


def _fact_rows(table: TableContent) -> list[str]:
    """Return the small table above the columns: labels and values, two pairs in a line."""
    if not table.header:
        return []
    rows = []
    for line in table.header:
        cells = [_prose(text) for text in line]
        if len(line) == 2:
            cells[1] = rf"\multicolumn{{3}}{{{_RAGGED}p{{{sum(_FACT_SHARES[1:]):g}\linewidth}}@{{}}}}{{{cells[1]}}}"
        rows.append(" & ".join(cells) + r" \\")
    shares = "".join(rf"{_RAGGED}p{{{share:g}\linewidth}}" for share in _FACT_SHARES)
    return [
        rf"\setlength{{\tabcolsep}}{{4pt}}\begin{{tabular}}{{@{{}}{shares}@{{}}}}",
        r"\toprule",
        *rows,
        r"\end{tabular}",
    ]


def _notes(table: TableContent) -> list[str]:
    """Return the notes, a paragraph each; a single note has no number."""
    marks = [f"{{[}}{number}{{]}} " if table.numbered else "" for number in range(1, len(table.notes) + 1)]
    marks = [r"\emph{Note.} "] if len(marks) == 1 else marks
    return [rf"{mark}{_prose(note)}\par" for mark, note in zip(marks, table.notes, strict=True)]


def _floating(columns: _Columns, panels: list[Heads], caption: str) -> list[str]:
    """Return the lines of a table on one page."""
    table, facts = columns.table, _fact_rows(columns.table)
    lines = [r"\begin{table}", r"\centering\footnotesize", rf"\caption{{{caption}}}", r"\smallskip"]
    if facts:
        lines += [r"\begingroup", *facts, r"\endgroup", r"\par\medskip"]
    # All panels are in one tabular, so that their columns stand below one another.
    widest = max(panels, key=lambda heads: sum(len(places) for _, places in heads))
    lines += [
        rf"\setlength{{\tabcolsep}}{{{_GAP:g}pt}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{columns.alignment(widest, fill=False)}}}",
    ]
    for number, heads in enumerate(panels):
        lines += [r"\midrule" if number else r"\toprule", *columns.head_rows(heads), r"\midrule", *columns.rows(heads)]
    lines += [r"\bottomrule", r"\end{tabular}}", r"\par\medskip"]
    if table.notes:
        lines += [r"\begin{minipage}{\linewidth}\raggedright", *_notes(table), r"\end{minipage}"]
    return [*lines, r"\end{table}"]


def _long(columns: _Columns, caption: str) -> list[str]:
    """Return the lines of a table that may break over pages, with its heads on every page."""
    table, panels, facts = columns.table, columns.panels(columns.width), _fact_rows(columns.table)
    fill = bool(table.header) or len(panels) > 1
    lengths = rf"\setlength{{\tabcolsep}}{{{_GAP:g}pt}}\setlength{{\LTcapwidth}}{{\linewidth}}"
    lines = [r"\begingroup\footnotesize", lengths]
    if fill:
        lines.append(r"\setlength{\LTleft}{0pt}\setlength{\LTright}{0pt}")
    for number, heads in enumerate(panels):
        n_columns = sum(len(places) for _, places in heads)
        continued = rf"\multicolumn{{{n_columns}}}{{@{{}}l}}{{\tablename~\thetable, continued}} \\"
        first = [rf"\caption{{{caption}}} \\"]
        if number:
            # Each longtable increases LaTeX's table counter. All panels have the number of the first one.
            lines.append(r"\addtocounter{table}{-1}")
            first = [continued]
        elif facts:
            above = "\n".join(facts)
            first.append(
                rf"\multicolumn{{{n_columns}}}{{@{{}}c@{{}}}}{{\makebox[0pt][c]{{{above}}}}} \\[\medskipamount]"
            )
        head = [r"\toprule", *columns.head_rows(heads), r"\midrule"]
        lines += [
            rf"\begin{{longtable}}{{{columns.alignment(heads, fill)}}}",
            *first,
            *head,
            r"\endfirsthead",
            continued,
            *head,
            r"\endhead",
            r"\midrule",
            rf"\multicolumn{{{n_columns}}}{{r@{{}}}}{{continued on the next page}} \\",
            r"\endfoot",
            r"\bottomrule",
            r"\endlastfoot",
            *columns.rows(heads),
            r"\end{longtable}",
        ]
    return [*lines, r"\setlength{\parindent}{0pt}\raggedright", *_notes(table), r"\endgroup"]
