"""Names and sentences as text of a page, without unwritable characters and without marks that reverse the text."""

from __future__ import annotations

import html
import re

_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
# Marks that change the direction of the text around them.
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return the text with control characters and lone surrogates replaced by the replacement character."""
    return _UNWRITABLE.sub("\ufffd", text)


def prose(text: str) -> str:
    """A sentence that may contain names, without the names' direction marks, which could reverse the sentence."""
    return _DIRECTION.sub("", printable(text))


def label_text(name: str, length: int) -> str:
    """Return a name as the escaped label of a plot: one line, at most ``length`` characters, no marks of direction."""
    line = " ".join(prose(name).split())
    return html.escape(line if len(line) <= length else line[: length - 1] + "…", quote=False)
