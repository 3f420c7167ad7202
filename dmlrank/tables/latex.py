"""Text in LaTeX: characters escaped, numbers with a minus sign, and the width of a text in points."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from .display_text import inert
from .table_content import Heads, TableContent, divide_columns, leading_and_blocks

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
}
_GREEK_NAMES = (
    *(
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "zeta",
        "eta",
        "theta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
    ),
    *("pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
)
_GREEK_LETTERS = "αβγδεζηθικλμνξπρστυφχψω"
_COMMANDS |= {letter: f"$\\{name}$" for letter, name in zip(_GREEK_LETTERS, _GREEK_NAMES, strict=True)}
# The accented and special letters of Latin-1 and Latin Extended-A that LaTeX's default font encoding has.
_LETTERS = (
    "\u00a1-\u00aa\u00ac-\u00ba\u00bc-\u00cf\u00d1-\u00dd\u00df-\u00ef\u00f1-\u00fd\u00ff-\u0103\u0106-\u010f"
    + (
        "\u0112-\u0117\u011a-\u0125\u0128-\u012d\u0130-\u0137\u0139-\u013e\u0141-\u0148\u014c-\u0165\u0168-\u0171\u0174-\u017e"
    )
)
_TYPESET = f"[\x00-\x7f{_LETTERS}{''.join(_COMMANDS)}]"
# One run of characters that pdfLaTeX can typeset, or one run of others.
_RUNS = re.compile(f"({_TYPESET}+)|((?:(?!{_TYPESET}).)+)", flags=re.DOTALL)

# Widths of the characters from blank to tilde in Computer Modern at 8 pt, in thousandths of the font's size.
_WIDTHS = (
    354, 295, 531, 885, 531, 885, 826, 295, 413, 413, 531, 826, 295, 354, 295, 531,
    531, 531, 531, 531, 531, 531, 531, 531, 531, 531, 295, 295, 826, 826, 826, 502,
    826, 796, 752, 767, 811, 723, 693, 834, 796, 383, 545, 825, 664, 973, 796, 826,
    723, 826, 782, 590, 767, 796, 796, 1091, 796, 796, 649, 295, 531, 295, 531, 400,
    295, 531, 590, 472, 590, 472, 325, 531, 590, 295, 325, 561, 295, 885, 590, 531,
    590, 561, 414, 419, 413, 590, 561, 767, 561, 561, 472, 531, 300, 531, 531,
)  # fmt: skip
_FONT_SIZE = 8.0
# Widths of other letters and signs, and of a code point with six characters.
_LETTER_WIDTH, _CODE_POINT_WIDTH = 750, 4000


def latex_text(text: str) -> str:
    r"""Return a text with the characters escaped that LaTeX would read as commands.

    Characters that pdfLaTeX cannot typeset, such as Chinese, stay as they are for XeLaTeX and LuaLaTeX. In pdfLaTeX
    their code points appear instead, so that the document compiles.
    """
    composed = unicodedata.normalize("NFC", inert(text))
    return "".join(_typeset(run[1]) if run[1] else _code_points(run[2]) for run in _RUNS.finditer(composed))


def latex_number(text: str) -> str:
    """Return a cell of numbers: a minus sign for a hyphen before a number, a dash between two ranks."""
    if re.fullmatch(r"\d+-\d+", text):
        return text.replace("-", "--")
    signed = re.sub(r"(?<![\w.-])(?:\{-\}|-)(?=[\d.]|inf)", "$-$", latex_text(text))
    # LaTeX would make the blank after a rank wider, as at the end of a sentence.
    return signed.replace(". ", ".\\ ")


def breakable(text: str, every: int = 14) -> str:
    r"""Return an escaped name that may be divided over lines: after punctuation, and within very long words."""
    pieces = re.findall(rf"[^-_/.: ]{{1,{every}}}[-_/.:]* *|[-_/.: ]+", inert(text))
    # A line may end at a blank in any case.
    parts = (latex_text(piece) + ("" if piece.endswith(" ") else r"\allowbreak{}") for piece in pieces)
    return "".join(parts).removesuffix(r"\allowbreak{}")


def width_in_points(text: str) -> float:
    r"""Return the width of a text in \\footnotesize of a document at 10 pt (Computer Modern at 8 pt)."""
    thousandths = 0.0
    for character in inert(text):
        code = ord(character)
        if code < 127:
            thousandths += _WIDTHS[code - 32]
        elif re.match(_TYPESET, character):
            thousandths += _LETTER_WIDTH
        else:
            # pdfLaTeX prints code points such as U+901A.
            thousandths += _CODE_POINT_WIDTH
    # A minus sign is wider than the hyphen that stands for it in the text.
    thousandths += 480 * len(re.findall(r"(?<![\w.])-(?=[\d.])", text))
    return thousandths * _FONT_SIZE / 1000


def _typeset(text: str) -> str:
    """Return the escaped form of a text of characters that pdfLaTeX can typeset."""
    escaped = "".join(_ESCAPED.get(character, character) for character in text)
    # Without braces, LaTeX would read a bracket or star at the start of a row as an option of the line break before it,
    # and it would join neighbours to one sign, such as two hyphens to a dash.
    apart = re.sub(r"[\[\]*]|(?<=-)-|(?<=[!?])`|(?<=[`'])[`']", lambda match: "{" + match[0] + "}", escaped)
    return "".join(_COMMANDS.get(character, character) for character in apart)


def _code_points(text: str) -> str:
    """Return characters that only XeLaTeX and LuaLaTeX can typeset, with their code points for pdfLaTeX."""
    points = r"\allowbreak{}".join(f"U+{ord(character):04X}" for character in text)
    return rf"{{\ifdefined\Umathchar {text}\else {points}\fi}}"


# \linewidth of article at 10 pt, in points.
LINE_WIDTH = 345.0
# Half of the gap between two columns (\tabcolsep), in points.
_GAPS = (5.0, 4.0, 2.5)
# Shares of the line for the rows' names: the largest one where the table is divided into panels, and the smallest one
# where names are divided over lines so that all columns stand side by side.
_NAME_SHARE, _LEAST_NAME_SHARE = 0.3, 0.18
# Largest width of a column of text, in points.
_TEXT_WIDTH = 170.0
_LINE_HEIGHT = 9.5
# Height of a table, in points, above which it breaks over pages; \textheight of article at 10 pt is 550.
_PAGE_HEIGHT = 490.0
# Widths computed from the fonts' metrics lack kerning and rounding; this much of a line stays empty.
_MARGIN = 2.0
_ROUNDING = 0.01
# Largest share of the line for each of the two columns with labels in the lines above the table.
_LABEL_SHARE = 0.27


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a table is fitted to the line.

    panels: Heads of every panel, with the places of their columns.
    gap: Half of the gap between two columns, in points.
    name_width: Largest width of a name, in points; None where names are not divided.
    whole_heads: Whether every head stands in one line.
    """

    panels: list[Heads]
    gap: float
    name_width: float | None
    whole_heads: bool = False


def latex_table(table: TableContent, width: float, *, longtable: bool | None, label: str | None) -> str:
    """Return a table as LaTeX."""
    layout = _fitted(table, width - _MARGIN)
    is_long = _height(table, layout, width) > _PAGE_HEIGHT if longtable is None else longtable
    caption = latex_text(table.title) + (f"\\label{{{label}}}" if label else "")
    lines = _long(table, layout, width, caption) if is_long else _floating(table, layout, width, caption)
    comment = "% Needs \\usepackage{booktabs,longtable}." if is_long else "% Needs \\usepackage{booktabs}."
    if any("\\Umathchar" in line for line in lines):
        comment += " Some names need XeLaTeX or LuaLaTeX; pdfLaTeX prints code points instead."
    return "\n".join([comment, *lines]) + "\n"


# --- the fit to the line ----------------------------------------------------------------------------------------------


def _fitted(table: TableContent, width: float) -> _Layout:
    """Return the layout with which the table fits into a line: gaps, the width of names, and panels."""
    leading, blocks = leading_and_blocks(table)
    all_heads = [*leading, *(head for block in blocks for head in block)]
    for whole_heads, gaps in ((True, _GAPS[:2]), (False, _GAPS)):
        sizes = _column_widths(table, whole_heads)
        for gap in gaps:
            if _heads_width(all_heads, sizes, gap) <= width:
                return _Layout([all_heads], gap, None, whole_heads)
    gap, longest_name = _GAPS[-1], sizes[table.name_place]
    left_over = width - _heads_width(all_heads, sizes, gap) + longest_name
    if left_over >= _LEAST_NAME_SHARE * width:
        return _Layout([all_heads], gap, left_over)
    gap, limit = _GAPS[0], _NAME_SHARE * width
    lead_width = _heads_width(leading, sizes, gap) - max(0.0, longest_name - limit)
    block_widths = [_heads_width(block, sizes, gap) + 2 * gap for block in blocks]
    panels = divide_columns(block_widths, width - lead_width)
    heads = [[*leading, *(head for place in panel for head in blocks[place])] for panel in panels]
    return _Layout(heads, gap, limit if longest_name > limit else None)


def _column_widths(table: TableContent, whole_heads: bool) -> list[float]:
    """Return the widths of all columns in points, those of the heads included."""
    n_columns = sum(len(places) for _, places in table.heads())
    widths = [max((width_in_points(row[place]) for row in table.rows), default=0.0) for place in range(n_columns)]
    widths = [
        min(width, _TEXT_WIDTH) if place > table.name_place and table.is_text(place) else width
        for place, width in enumerate(widths)
    ]
    for head, places in table.heads():
        pieces = [_bare(head)] if whole_heads else _head_pieces(_bare(head))
        missing = max(map(width_in_points, pieces), default=0.0) - sum(widths[place] for place in places)
        widths[places[-1]] += max(0.0, missing)
    return widths


def _heads_width(heads: Heads, sizes: Sequence[float], gap: float) -> float:
    """Return the width of the columns of some heads, with the gaps between them."""
    places = [place for _, group in heads for place in group]
    return sum(sizes[place] for place in places) + 2 * gap * (len(places) - 1)


def _head_pieces(head: str) -> list[str]:
    """Return the parts of a head between which it may be divided: words, and parts of words that end in punctuation."""
    return re.findall(r"[^\s\-_/.:(\[]*[-_/.:(\[]+|[^\s\-_/.:(\[]+", head)


def _bare(head: str) -> str:
    """Return a head without the brackets that mark an interval, which has a rule below its head in LaTeX."""
    return head[1:-1] if head.startswith("[") and head.endswith("]") and "]" not in head[:-1] else head


def _head_lines(head: str, available: float) -> list[str]:
    """Return a head divided into lines that are not wider than the column, where its parts allow it."""
    lines: list[str] = []
    end = 0
    for piece in _head_pieces(head):
        start = head.index(piece, end)
        joined = (lines[-1] if lines else "") + head[end:start] + piece
        if lines and width_in_points(joined) <= available:
            lines[-1] = joined
        else:
            lines.append(piece)
        end = start + len(piece)
    return lines


def _height(table: TableContent, layout: _Layout, width: float) -> float:
    """Return the estimated height of the table in points."""
    n_notes = sum(math.ceil(width_in_points(note) / width + 0.15) for note in table.notes)
    limit = layout.name_width or math.inf
    n_rows = sum(math.ceil(width_in_points(row[table.name_place]) / limit) or 1 for row in table.rows)
    n_facts = sum(
        max(math.ceil(width_in_points(value) / ((0.22 if len(line) > 2 else 0.65) * width)) for value in line[1::2])
        for line in table.header
    )
    return _LINE_HEIGHT * (n_notes + len(layout.panels) * (n_rows + 3) + n_facts + 4)


# --- the parts --------------------------------------------------------------------------------------------------------


def _alignment(table: TableContent, heads: Heads, fill: bool) -> str:
    """Return the alignment of the columns of a panel; with ``fill`` the columns spread over the line."""
    places = [place for _, group in heads for place in group]
    letters = "".join("l" if table.is_text(place) else "r" for place in places)
    return rf"@{{\extracolsep{{\fill}}}}{letters}@{{}}" if fill else f"@{{}}{letters}@{{}}"


def _head_rows(table: TableContent, heads: Heads, layout: _Layout) -> list[str]:
    """Return the rows of heads, with a rule below each head that stands over several columns."""
    sizes = _column_widths(table, layout.whole_heads)
    cells, rules, column = [], [], 1
    for head, places in heads:
        available = sum(sizes[place] for place in places) + 2 * layout.gap * (len(places) - 1) + _ROUNDING
        lines = [latex_text(line) for line in _head_lines(_bare(head), available)]
        side = "c" if len(places) > 1 else "l" if table.is_text(places[0]) else "r"
        cell = _stacked(lines, side)
        if len(places) > 1:
            cell = rf"\multicolumn{{{len(places)}}}{{c}}{{{cell}}}"
            rules.append(rf"\cmidrule(lr){{{column}-{column + len(places) - 1}}}")
        cells.append(cell)
        column += len(places)
    return [" & ".join(cells) + r" \\", *rules]


def _stacked(lines: Sequence[str], side: str) -> str:
    """Return the lines of a head, one below the other."""
    if len(lines) < 2:
        return "".join(lines)
    text = r" \\ ".join(lines)
    return rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{text}\end{{tabular}}"


def _body_rows(table: TableContent, heads: Heads, layout: _Layout) -> list[str]:
    """Return the rows of a panel."""
    places = [place for _, group in heads for place in group]
    return [" & ".join(_cell(table, row, place, layout) for place in places) + r" \\" for row in table.rows]


def _cell(table: TableContent, row: Sequence[str], place: int, layout: _Layout) -> str:
    """Return a cell of a row; a name that is too wide is divided over lines."""
    text = row[place]
    if place == table.name_place and layout.name_width and width_in_points(text) > layout.name_width:
        return _paragraph(text, layout.name_width, indent=True)
    if not table.is_text(place) or (re.fullmatch(r"\d+(-\d+)?", text) and place != table.name_place):
        return latex_number(text)
    is_long = place > table.name_place and width_in_points(text) > _TEXT_WIDTH
    return _paragraph(text, _TEXT_WIDTH) if is_long else latex_text(text)


def _paragraph(text: str, width: float, *, indent: bool = False) -> str:
    """Return a text that is divided over lines of a width in points."""
    hanging = r"\hangindent=1em " if indent else ""
    words = breakable(text) if indent else _prose(text)
    return rf"\parbox[t]{{{width:.1f}pt}}{{\raggedright {hanging}\strut {words}\strut}}"


def _fact_rows(table: TableContent, width: float) -> list[str]:
    """Return the small table above the columns: labels and values, two pairs in a line."""
    if not table.header:
        return []
    gap = 4.0
    sizes: tuple[float, ...] = _fact_widths([line for line in table.header if len(line) > 2], width - 6 * gap - 1)
    alone = [line for line in table.header if len(line) == 2]
    label_width = min(max((width_in_points(line[0]) for line in alone), default=0.0) + 1, _LABEL_SHARE * width)
    if alone:
        sizes = (max(label_width, sizes[0]), *sizes[1:])
    if len(alone) == len(table.header):
        sizes = (label_width, width - label_width - 2 * gap - 1)
    rows = []
    for line in table.header:
        if len(line) == 2:
            value = _paragraph(line[1], width - sizes[0] - 2 * gap - 1)
            span = rf"\multicolumn{{3}}{{l@{{}}}}{{{value}}}" if len(sizes) > 2 else value
            rows.append(rf"{_fitting(line[0], sizes[0])} & {span} \\")
        else:
            rows.append(" & ".join(_fitting(text, size) for text, size in zip(line, sizes, strict=True)) + r" \\")
    columns = "".join(f"p{{{size:.1f}pt}}" for size in sizes)
    return [
        rf"\setlength{{\tabcolsep}}{{{gap:g}pt}}\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
        r"\toprule",
        *rows,
        r"\end{tabular}",
    ]


def _fitting(text: str, width: float) -> str:
    """Return a text in a column of a width in points: one line if it fits, otherwise several."""
    return latex_text(text) if width_in_points(text) <= width else _paragraph(text, width)


def _fact_widths(lines: Sequence[Sequence[str]], width: float) -> tuple[float, ...]:
    """Return the widths of two columns of labels and two of values, in points, for lines of four texts."""
    natural = [max((width_in_points(line[place]) for line in lines), default=0.0) + 1 for place in range(4)]
    labels = [min(natural[place], _LABEL_SHARE * width) for place in (0, 2)]
    available = width - sum(labels)
    # Both columns of values have their natural width, or as much of it as there is place for.
    least = 0.35 * available
    left = min(max(available * natural[1] / (natural[1] + natural[3]), least), available - least)
    left = min(max(left, available - natural[3]), max(natural[1], available - natural[3]))
    return labels[0], left, labels[1], available - left


def _notes(table: TableContent) -> list[str]:
    """Return the notes, a paragraph each; a single note has no number."""
    texts = [_prose(note) for note in table.notes]
    if len(texts) == 1:
        return [rf"\emph{{Note.}} {texts[0]}\par"]
    return [f"{{[}}{number}{{]}} {text}\\par" for number, text in enumerate(texts, start=1)]


def _prose(text: str) -> str:
    """Return a sentence, in which very long words may be divided."""
    # A quotation mark opens at the start of a word, and closes elsewhere.
    quoted = re.sub(r'(?<![^\s(])"', "\u201c", text).replace('"', "\u201d")
    words = (breakable(word) if len(word) > 25 else latex_text(word) for word in quoted.split(" "))
    return re.sub(r"(?<![^ (])-(?=\d)", "$-$", " ".join(words))


def _floating(table: TableContent, layout: _Layout, width: float, caption: str) -> list[str]:
    """Return the lines of a table on one page."""
    lines = [r"\begin{table}", r"\centering\footnotesize", rf"\caption{{{caption}}}", r"\smallskip"]
    if table.header:
        lines += [r"\begingroup", *_fact_rows(table, width), r"\endgroup", r"\par\medskip"]
    fill = bool(table.header) or len(layout.panels) > 1
    kind = "tabular*" if fill else "tabular"
    size = r"{\linewidth}" if fill else ""
    # All panels are in one tabular, so that their columns stand below one another.
    widest = max(layout.panels, key=lambda heads: sum(len(places) for _, places in heads))
    lines += [
        rf"\setlength{{\tabcolsep}}{{{layout.gap:g}pt}}",
        rf"\begin{{{kind}}}{size}{{{_alignment(table, widest, fill)}}}",
    ]
    for number, heads in enumerate(layout.panels):
        lines += [r"\midrule" if number else r"\toprule", *_head_rows(table, heads, layout), r"\midrule"]
        lines += _body_rows(table, heads, layout)
    lines += [r"\bottomrule", rf"\end{{{kind}}}", r"\par\medskip"]
    if table.notes:
        lines += [r"\begin{minipage}{\linewidth}\raggedright", *_notes(table), r"\end{minipage}"]
    return [*lines, r"\end{table}"]


def _long(table: TableContent, layout: _Layout, width: float, caption: str) -> list[str]:
    """Return the lines of a table that may break over pages, with its heads on every page."""
    fill = bool(table.header) or len(layout.panels) > 1
    lines = [
        r"\begingroup\footnotesize",
        rf"\setlength{{\tabcolsep}}{{{layout.gap:g}pt}}\setlength{{\LTcapwidth}}{{\linewidth}}",
    ]
    if fill:
        lines.append(r"\setlength{\LTleft}{0pt}\setlength{\LTright}{0pt}")
    for number, heads in enumerate(layout.panels):
        n_columns = sum(len(places) for _, places in heads)
        continued = rf"\multicolumn{{{n_columns}}}{{@{{}}l}}{{\tablename~\thetable, continued}} \\"
        first = [rf"\caption{{{caption}}} \\"]
        if number:
            # Each longtable increases LaTeX's table counter. All panels have the number of the first one.
            lines.append(r"\addtocounter{table}{-1}")
            first = [continued]
        elif table.header:
            above = "\n".join(_fact_rows(table, width))
            box = rf"\makebox[0pt][c]{{{above}}}"
            first.append(rf"\multicolumn{{{n_columns}}}{{@{{}}c@{{}}}}{{{box}}} \\[\medskipamount]")
        head = [r"\toprule", *_head_rows(table, heads, layout), r"\midrule"]
        lines += [
            rf"\begin{{longtable}}{{{_alignment(table, heads, fill)}}}",
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
            *_body_rows(table, heads, layout),
            r"\end{longtable}",
        ]
    return [*lines, r"\setlength{\parindent}{0pt}\raggedright", *_notes(table), r"\endgroup"]
