"""Text as it is displayed: numbers, widths, wrapping, names that disturb no table, cells that no spreadsheet runs."""

from __future__ import annotations

import re
import textwrap
import unicodedata

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

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
    text = f"{number:.{digits}f}"
    return text if text.strip("-0.") else text.lstrip("-")


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
    texts = {
        name: table[name].map(lambda cell: not_a_formula(cell) if isinstance(cell, str) else cell)
        for name in table.columns
        if not (is_numeric_dtype(table[name].dtype) or is_bool_dtype(table[name].dtype))
    }
    heads = [not_a_formula(name) if isinstance(name, str) else name for name in table.columns]
    return rows_of_csv(table.assign(**texts).set_axis(heads, axis=1).to_csv(index=False, lineterminator="\r\n"))


def rows_of_csv(text: str) -> str:
    """Return CSV whose rows end with a line feed, from rows that end with both characters of a line end."""
    # Python's writer puts a cell with a line break into quotation marks only where the break is a part of its line end.
    return _ROW_END.sub(lambda found: found[1] or "\n", text)
