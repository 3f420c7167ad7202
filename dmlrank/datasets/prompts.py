"""Short English prompts by category, and the exact distribution of their lengths.

A prompt is a row of optional sentences. Each sentence is a template whose slots are filled independently, so that the
distribution of the length in characters is a convolution and true scores need no simulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from string import Formatter

import numpy as np

from .prompt_words import COMMON, DETAILS, OPENINGS, WORDS
from .random_draws import FloatArray, IntArray

CATEGORIES = tuple(sorted(OPENINGS))
# Share of each category among the prompts, in the order of CATEGORIES (coding, extraction, math, ...).
SHARES = np.array([0.22, 0.12, 0.14, 0.16, 0.14, 0.22])


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence as literals and slots: ``literals[0] slots[0] literals[1] ...``, one literal more than slots."""

    literals: tuple[str, ...]
    slots: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """The template of a text with ``{slot}`` in it, each the name of a list of words."""
        literals, slots, literal = [], [], ""
        for before, slot, _, _ in Formatter().parse(text):
            literal += before
            if slot is not None:
                literals.append(literal)
                slots.append(WORDS[slot])
                literal = ""
        return cls((*literals, literal), tuple(slots))

    def fill(self, uniforms: FloatArray) -> str:
        """The sentence that uniform numbers, at least one per slot, choose."""
        parts = [self.literals[0]]
        for words, literal, uniform in zip(self.slots, self.literals[1:], uniforms, strict=False):
            parts += [words[int(uniform * len(words))], literal]
        return "".join(parts)

    def lengths(self) -> FloatArray:
        """Probability of every length in characters, 0, 1, 2, ..."""
        pmf = np.eye(1, sum(map(len, self.literals)) + 1, sum(map(len, self.literals)))[0]
        for words in self.slots:
            pmf = np.convolve(pmf, np.bincount([len(word) for word in words]) / len(words))
        return pmf


@dataclass(frozen=True, slots=True)
class Sentence:
    """One of several templates, present with some probability."""

    probability: float
    templates: tuple[Template, ...]

    @property
    def n_uniforms(self) -> int:
        """Uniform numbers that one draw uses up: presence, template, slots."""
        return 2 + max(len(template.slots) for template in self.templates)

    def fill(self, uniforms: FloatArray) -> str:
        """The sentence, or nothing."""
        if uniforms[0] >= self.probability:
            return ""
        return self.templates[int(uniforms[1] * len(self.templates))].fill(uniforms[2:])

    def lengths(self, before: int) -> FloatArray:
        """Probability of every length, with ``before`` characters of space added where the sentence is present."""
        pmfs = [template.lengths() for template in self.templates]
        total = np.zeros(max(map(len, pmfs)) + before)
        for pmf in pmfs:
            total[before : before + len(pmf)] += self.probability * pmf / len(pmfs)
        total[0] += 1 - self.probability
        return total


@cache
def sentences(category: str) -> tuple[Sentence, ...]:
    """The sentences of a category's prompts; the first is always there."""
    rows = [(1.0, OPENINGS[category]), *DETAILS[category], *COMMON]
    return tuple(Sentence(probability, tuple(map(Template.parse, texts))) for probability, texts in rows)


def draw_prompts(n: int, rng: np.random.Generator) -> tuple[IntArray, list[str]]:
    """Category indices, (n,), and texts of ``n`` prompts."""
    groups = rng.choice(len(CATEGORIES), size=n, p=SHARES)
    width = max(sum(sentence.n_uniforms for sentence in sentences(category)) for category in CATEGORIES)
    uniforms = rng.random((n, width))
    return groups, [_write(CATEGORIES[group], row) for group, row in zip(groups, uniforms, strict=True)]


def length_distribution(category: str) -> FloatArray:
    """Probability of every length in characters, 0, 1, 2, ..., among the prompts of a category."""
    opening, *others = sentences(category)
    pmf = opening.lengths(before=0)
    for sentence in others:
        pmf = np.convolve(pmf, sentence.lengths(before=1))
    return pmf


def _write(category: str, uniforms: FloatArray) -> str:
    parts, used = [], 0
    for sentence in sentences(category):
        parts.append(sentence.fill(uniforms[used : used + sentence.n_uniforms]))
        used += sentence.n_uniforms
    return " ".join(part for part in parts if part)
