"""Parts of the sentences in notes: capitals and full stops, counts with their noun, percentages, values."""

from __future__ import annotations

import re

_SMALLEST_PERCENTAGE = 0.05


def as_sentence(text: str) -> str:
    """Return the text with a capital letter at the start and a full stop at the end.

    A first word that is an option or another piece of code stays as it is.
    """
    stripped = text.strip()
    if not stripped:
        return ""
    starts_with_a_word = re.match(r"[a-z]+(?:['’-][a-z]+)*[\s,;:.]", stripped + " ") is not None
    capitalised = stripped[0].upper() + stripped[1:] if starts_with_a_word else stripped
    return capitalised if capitalised[-1] in ".!?" else f"{capitalised}."


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def percentage(share: float) -> str:
    """Return a share as a percentage with one digit after the point."""
    value = 100 * share
    return f"{value:.1f} %" if value == 0 or value >= _SMALLEST_PERCENTAGE else "less than 0.1 %"


def value_text(value: float) -> str:
    """Return a value that scores are compared with: three significant figures, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
