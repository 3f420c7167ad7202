"""Parts of the sentences in notes: capitals and full stops, counts with their noun, percentages, values."""

from __future__ import annotations

import re

_SMALLEST_PERCENTAGE = 0.05


def as_sentence(text: str) -> str:
    """Return the text with a capital letter at the start and a full stop at the end.

    A first word that is an option or another piece of code stays as it is.

    Examples
    --------
    >>> as_sentence("only 3 clusters"), as_sentence("graph='complete' has no intervals")
    ('Only 3 clusters.', "graph='complete' has no intervals.")
    """
    stripped = text.strip()
    if not stripped:
        return ""
    starts_with_a_word = re.match(r"[a-z]+(?:['’-][a-z]+)*[\s,;:.]", stripped + " ") is not None
    capitalised = stripped[0].upper() + stripped[1:] if starts_with_a_word else stripped
    return capitalised if capitalised[-1] in ".!?" else f"{capitalised}."


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in the singular or plural.

    Examples
    --------
    >>> counted(1, "row"), counted(23130, "row"), counted(2, "category", "categories")
    ('1 row', '23,130 rows', '2 categories')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def percentage(share: float) -> str:
    """Return a share as a percentage with one digit after the point.

    Examples
    --------
    >>> percentage(23130 / 896000), percentage(1e-5), percentage(0.0)
    ('2.6 %', 'less than 0.1 %', '0.0 %')
    """
    value = 100 * share
    return f"{value:.1f} %" if value == 0 or value >= _SMALLEST_PERCENTAGE else "less than 0.1 %"


def value_text(value: float) -> str:
    """Return a value that scores are compared with: three significant figures, or all digits before the point.

    Examples
    --------
    >>> value_text(1 / 3), value_text(1012.5), value_text(0.0)
    ('0.333', '1,012', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
