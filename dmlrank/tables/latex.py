r"""A table as LaTeX with booktabs, or with longtable where it has more rows than a page."""

from __future__ import annotations

import re
import unicodedata

from .display_text import inert
from .forms import TableContent

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


def latex_table(table: TableContent, *, longtable: bool | None, label: str | None) -> str:
    """Return a table as LaTeX; it is as wide as its columns are."""
    alignment, cells, rules = "", [], []
    for head, places in table.heads():
        for place in places:
            is_long = place in table.text_columns and any(len(row[place]) > _LONG_TEXT for row in table.rows)
            alignment += r"p{0.5\linewidth}" if is_long else "l" if table.is_text(place) else "r"
        cells.append(latex_text(head))
        if len(places) > 1:
            cells[-1] = rf"\multicolumn{{{len(places)}}}{{c}}{{{cells[-1]}}}"
            rules.append(rf"\cmidrule(lr){{{places[0] + 1}-{places[-1] + 1}}}")
    heads = [r"\toprule", " & ".join(cells) + r" \\", *rules, r"\midrule"]
    rows = []
    for row in table.rows:
        texts = [latex_number(cell) for cell in row]
        texts[table.name_place] = latex_text(row[table.name_place])
        rows.append(" & ".join(texts) + r" \\")
    caption = rf"\caption{{{latex_text(table.title)}}}" + (rf"\label{{{label}}}" if label else "")
    marks = [f"[{number}] " if table.numbered else "" for number in range(1, len(table.notes) + 1)]
    notes = [f"{name} {value}" for name, value in table.facts()]
    notes += [mark + note for mark, note in zip(marks, table.notes, strict=True)]
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
