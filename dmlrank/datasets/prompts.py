"""Short English prompts by category, and the exact distribution of their lengths.

A prompt is a sequence of optional sentences. Each sentence is a template whose slots are filled independently, so that
the distribution of the length in characters is a convolution, and true scores need no simulation. ``prompts.json`` has
the words for the slots and the sentences by category.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Formatter

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


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence as literals and slots in turn: ``literals[0] slots[0] literals[1] ...``.

    literals: Fixed texts, one more than there are slots.
    slots: For each slot, the words from which it is filled.
    """

    literals: tuple[str, ...]
    slots: tuple[list[str], ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Return the template of a text in which ``{slot}`` stands for a word of the list of this name."""
        literals, slots, literal = [], [], ""
        for before, slot, _, _ in Formatter().parse(text):
            literal += before
            if slot is not None:
                literals.append(literal)
                slots.append(WORDS[slot])
                literal = ""
        return cls((*literals, literal), tuple(slots))

    def fill(self, uniforms: FloatArray) -> str:
        """Return the sentence with a word in each slot, selected by uniform random numbers, at least one per slot."""
        parts = [self.literals[0]]
        for words, literal, uniform in zip(self.slots, self.literals[1:], uniforms, strict=False):
            parts += [words[int(uniform * len(words))], literal]
        return "".join(parts)

    def lengths(self) -> FloatArray:
        """Return the probability of each length in characters, 0, 1, 2, ..."""
        pmf = np.eye(1, sum(map(len, self.literals)) + 1, sum(map(len, self.literals)))[0]
        for words in self.slots:
            pmf = np.convolve(pmf, np.bincount([len(word) for word in words]) / len(words))
        return pmf


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that is present with some probability, drawn from several templates.

    probability: Probability that the sentence is present.
    templates: Templates with equal probabilities.
    """

    probability: float
    templates: tuple[Template, ...]

    @property
    def n_uniforms(self) -> int:
        """Number of uniform random numbers for one draw: one for presence, one for the template, and one per slot."""
        return 2 + max(len(template.slots) for template in self.templates)

    def fill(self, uniforms: FloatArray) -> str:
        """Return the sentence that uniform random numbers select; an empty text where it is not present."""
        if uniforms[0] >= self.probability:
            return ""
        return self.templates[int(uniforms[1] * len(self.templates))].fill(uniforms[2:])

    def lengths(self, before: int) -> FloatArray:
        """Return the probability of each length, with ``before`` blanks added where the sentence is present."""
        pmfs = [template.lengths() for template in self.templates]
        total = np.zeros(max(map(len, pmfs)) + before)
        for pmf in pmfs:
            total[before : before + len(pmf)] += self.probability * pmf / len(pmfs)
        total[0] += 1 - self.probability
        return total


@cache
def sentences(category: str) -> tuple[Sentence, ...]:
    """Return the sentences of a category's prompts. The first sentence is always present."""
    rows = [(1.0, OPENINGS[category]), *DETAILS[category], *COMMON]
    return tuple(Sentence(probability, tuple(map(Template.parse, texts))) for probability, texts in rows)


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
