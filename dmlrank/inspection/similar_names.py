"""Names that differ by blanks, letter case or Unicode form only."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


def similar_names(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of different names that look the same, each in order of appearance.

    Examples
    --------
    >>> similar_names(["gpt-4", "GPT-4 ", "claude"])
    [('gpt-4', 'GPT-4 ')]
    """
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        alike.setdefault(_plain(name), []).append(name)
    return [tuple(group) for group in alike.values() if len(group) > 1]


def _plain(name: str) -> str:
    """A name without what the eye does not see: compatible characters, blanks and letter case made equal."""
    visible = "".join(letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", visible.casefold()).split())
