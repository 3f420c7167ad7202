"""Names that differ only by blanks, letter case or Unicode form."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


def similar_names(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return groups of different names that look the same, each in order of appearance."""
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        alike.setdefault(_comparable_form(name), []).append(name)
    return [tuple(group) for group in alike.values() if len(group) > 1]


def _comparable_form(name: str) -> str:
    """Return a name in a form that is equal for names that look alike: without invisible characters and letter case."""
    visible = "".join(letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", visible.casefold()).split())
