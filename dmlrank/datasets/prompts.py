"""Short English prompts by category, and the exact distribution of their lengths.

A prompt is a sequence of optional sentences. Each sentence is a template whose slots are filled independently, so that
the distribution of the length in characters is a convolution, and true scores need no simulation. ``prompts.json`` has
the words for the slots and the sentences by category.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeAlias

import numpy as np

from ..data.arrays import FloatArray, IntArray

_TEXTS = json.loads((files(__package__) / "prompts.json").read_text(encoding="utf-8"))
# Words by slot; templates from which the opening is drawn, by category; further sentences, each with the probability
# that it is present and its templates, by category and for all categories.
WORDS: dict[str, list[str]] = _TEXTS["words"]
OPENINGS: dict[str, list[str]] = _TEXTS["openings"]
DETAILS: dict[str, list[tuple[float, list[str]]]] = _TEXTS["details"]
COMMON: list[tuple[float, list[str]]] = _TEXTS["common"]

CATEGORIES = tuple(sorted(OPENINGS))
# Share of each category among the prompts, in the order of CATEGORIES (coding, extraction, math, ...).
SHARES = np.array([0.22, 0.12, 0.14, 0.16, 0.14, 0.22])


# A sentence: for each part, the words from which it is drawn; a fixed text is its own only word.
_Template: TypeAlias = list[list[str]]


def _template(text: str) -> _Template:
    """Return the template of a text in which ``{slot}`` stands for a word of the list of this name."""
    return [WORDS[part] if place % 2 else [part] for place, part in enumerate(re.split(r"\{(\w+)\}", text))]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that is present with some probability, drawn from several templates.

    probability: Probability that the sentence is present.
    templates: Templates with equal probabilities.
    """

    probability: float
    templates: tuple[_Template, ...]

    @property
    def n_uniforms(self) -> int:
        """Number of uniform random numbers for one draw: one for presence, one for the template, and one per slot."""
        return 2 + max(len(template) // 2 for template in self.templates)

    def fill(self, uniforms: FloatArray) -> str:
        """Return the sentence that uniform random numbers select; an empty text where it is not present."""
        if uniforms[0] >= self.probability:
            return ""
        parts = self.templates[int(uniforms[1] * len(self.templates))]
        of_parts = np.zeros(len(parts))
        of_parts[1::2] = uniforms[2 : 2 + len(parts) // 2]
        return "".join(words[int(uniform * len(words))] for words, uniform in zip(parts, of_parts, strict=True))

    def lengths(self, before: int) -> FloatArray:
        """Return the probability of each length in characters, 0, 1, ..., after ``before`` blanks where it is present.

        The lengths of words in different slots are independent.
        """
        total = np.zeros(1)
        for template in self.templates:
            fixed = sum(len(text) for (text,) in template[::2])
            pmf = np.eye(1, fixed + 1, fixed)[0]
            for words in template[1::2]:
                pmf = np.convolve(pmf, np.bincount([len(word) for word in words]) / len(words))
            total = np.pad(total, (0, max(0, before + len(pmf) - len(total))))
            total[before : before + len(pmf)] += self.probability * pmf / len(self.templates)
        total[0] += 1 - self.probability
        return total


@cache
def sentences(category: str) -> tuple[Sentence, ...]:
    """Return the sentences of a category's prompts. The first sentence is always present."""
    rows = [(1.0, OPENINGS[category]), *DETAILS[category], *COMMON]
    return tuple(Sentence(probability, tuple(map(_template, texts))) for probability, texts in rows)


def draw_prompts(n: int, rng: np.random.Generator) -> tuple[IntArray, list[str]]:
    """Draw ``n`` prompts; return the places of their categories, (n,), and their texts."""
    groups = rng.choice(len(CATEGORIES), size=n, p=SHARES)
    width = max(sum(sentence.n_uniforms for sentence in sentences(category)) for category in CATEGORIES)
    uniforms = rng.random((n, width))
    prompts = []
    for group, row in zip(groups, uniforms, strict=True):
        parts, n_used = [], 0
        for sentence in sentences(CATEGORIES[group]):
            parts.append(sentence.fill(row[n_used : n_used + sentence.n_uniforms]))
            n_used += sentence.n_uniforms
        prompts.append(" ".join(part for part in parts if part))
    return groups, prompts


def length_distribution(category: str) -> FloatArray:
    """Return the probability of each length in characters, 0, 1, 2, ..., among the prompts of a category."""
    opening, *optional = sentences(category)
    pmf = opening.lengths(before=0)
    for sentence in optional:
        pmf = np.convolve(pmf, sentence.lengths(before=1))
    return pmf
