"""Text in LaTeX: characters escaped, numbers with a minus sign, and the width of a text in points."""

from __future__ import annotations

import re
import unicodedata

from .display_text import inert

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
