"""Short English prompts by category, and the exact distribution of their lengths.

A prompt is a sequence of optional sentences. Each sentence is a template whose slots are filled independently, so that
the distribution of the length in characters is a convolution, and true scores need no simulation. The module begins
with the words for the slots and the sentences by category.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from string import Formatter

import numpy as np

from ..data.arrays import FloatArray, IntArray

# fmt: off
# Word lists are in paragraphs, because one word per line would be a thousand lines.

# The probability that a sentence is present, and the templates from which it is drawn.
Sentences = tuple[float, tuple[str, ...]]

_NUMBERS = tuple(str(number) for number in (12, 15, 18, 24, 36, 45, 60, 72, 90, 96, 120, 144, 180, 250, 375, 480))

WORDS: dict[str, tuple[str, ...]] = {
    # writing
    "form": (
        "a short story", "a blog post", "a cover letter", "a haiku", "a persuasive essay", "a product description",
        "a press release", "a limerick", "a newsletter", "an obituary", "a wedding speech", "a film review",
        "a fairy tale", "a travel diary", "an advertisement", "a song lyric",
    ),
    "topic": (
        "an abandoned lighthouse", "urban gardening", "the first snow of winter", "electric bicycles", "a lost dog",
        "learning to cook at forty", "remote work", "a village by the sea", "coffee culture", "climate change",
        "forgiveness", "growing old", "a power cut in the city", "public libraries", "night trains", "beekeeping",
        "a broken violin", "space tourism", "handwritten letters", "street food",
    ),
    "tone": (
        "cheerful", "melancholy", "formal", "ironic", "warm", "suspenseful", "humorous", "matter-of-fact", "poetic",
        "nostalgic", "urgent", "understated",
    ),
    "audience": (
        "teenagers", "busy parents", "retired engineers", "new employees", "tourists", "investors", "nurses",
        "first-year students", "children under ten", "local journalists",
    ),
    "author": ("Hemingway", "Jane Austen", "Kafka", "Agatha Christie", "Mark Twain", "Ursula Le Guin", "Borges"),
    # coding
    "language": ("Python", "JavaScript", "Rust", "Go", "Java", "C++", "TypeScript", "Kotlin", "SQL", "Haskell", "Ruby"),
    "routine": (
        "reverses a linked list", "finds duplicate rows in a table", "parses a date in several formats",
        "merges two sorted arrays", "validates an email address", "computes a moving average",
        "traverses a binary tree", "flattens a nested dictionary", "downloads a file with retries",
        "detects a cycle in a graph", "tokenizes a string", "sorts integers with quicksort",
        "caches the results of a slow call", "converts JSON to CSV",
    ),
    "software": (
        "a REST API", "a command line tool", "a chat server", "a web scraper", "a unit test suite", "a login form",
        "a database migration", "a Docker image", "a regular expression", "a shell script", "a recursive parser",
    ),
    "bug": (
        "a null pointer exception", "an off-by-one error", "a race condition", "a memory leak", "a stack overflow",
        "an infinite loop", "a type mismatch", "a failing import", "a deadlock", "an encoding error",
    ),
    # math
    "number": _NUMBERS,
    "percent": ("5", "8", "10", "15", "20", "25", "30", "40"),
    "goods": ("apples", "tickets", "notebooks", "tiles", "bottles", "bricks", "stamps", "loaves", "cables"),
    "shape": ("triangle", "circle", "rectangle", "cylinder", "sphere", "trapezoid", "hexagon", "cone"),
    "function": ("x^2 sin(x)", "exp(-x) / x", "ln(x + 1)", "x^3 - 4x + 1", "sqrt(1 + x^2)", "tan(x)", "1 / (1 + x^2)"),
    "theorem": (
        "the square root of two is irrational", "there are infinitely many primes",
        "the harmonic series diverges", "every tree has one edge fewer than vertices",
        "the sum of two odd integers is even", "a bounded monotone sequence converges",
    ),
    # reasoning
    "friend": ("Tom", "Wei", "Yusuf", "Zoe", "Pablo", "Nora", "Olga", "Lars", "Victor"),
    "place": ("car", "top drawer", "laundry basket", "school bag", "bathroom cabinet", "old piano"),
    "person": ("Alice", "Bashir", "Carmen", "Dmitri", "Elif", "Fatou", "George", "Hana", "Ivan", "Julia", "Kwame"),
    "relation": ("brother", "sister", "cousin", "aunt", "uncle", "neighbour", "grandmother", "colleague"),
    "object": ("key", "umbrella", "red box", "parcel", "candle", "marble", "coin", "hat", "lamp", "map"),
    "room": ("kitchen", "attic", "garage", "cellar", "study", "garden shed", "hallway", "library"),
    "claim": (
        "all swans are white", "every politician lies", "cheaper flights are always worse",
        "tall people earn more", "cats are smarter than dogs", "sugar makes children hyperactive",
        "breakfast is the most important meal", "reading on screens ruins memory",
    ),
    "fallacy": ("a false dilemma", "circular reasoning", "survivorship bias", "a straw man", "post hoc reasoning"),
    # roleplay
    "role": (
        "a ship's captain in 1780", "a medieval blacksmith", "a sarcastic robot butler", "a job interviewer",
        "a detective in Paris", "a wise old dragon", "a football coach", "an alien ambassador", "Sherlock Holmes",
        "a hotel concierge", "a stand-up comedian", "a museum guide", "a time traveller", "a strict librarian",
    ),
    "scene": (
        "a storm at sea", "a crowded tavern", "a courtroom", "the first day at school", "an empty theatre",
        "a royal banquet", "a space station", "a haunted hotel", "a farmers' market", "a locker room at half-time",
    ),
    "mood": ("angry", "jealous", "homesick", "overjoyed", "bored", "frightened", "proud", "exhausted"),
    # extraction
    "entity": ("names", "dates", "prices", "addresses", "companies", "places", "phone numbers", "job titles", "verbs"),
    "format": ("JSON", "a CSV table", "a markdown table", "a bulleted list", "YAML", "one line per item", "XML"),
    "document": (
        "invoice", "meeting transcript", "customer review", "contract", "weather report", "recipe", "press article",
        "medical note", "bank statement", "flight itinerary",
    ),
    "company": ("Northwind", "Acme Logistics", "Bluebird Airlines", "Helios Energy", "Oak Bank", "Tidewater"),
    "city": ("Lisbon", "Nairobi", "Osaka", "Toronto", "Krakow", "Lima", "Hanoi", "Bergen", "Chennai", "Denver"),
    "month": ("January", "March", "April", "June", "August", "September", "November", "December"),
}

OPENINGS: dict[str, tuple[str, ...]] = {
    "writing": (
        "Write {form} about {topic}.",
        "Draft {form} for {audience} on the subject of {topic}.",
        "Compose {form} about {topic} with a tone that is {tone}.",
        "Please write {form} about {topic} in the style of {author}.",
        "I need {form} on {topic}. Keep it {tone} and suitable for {audience}.",
        "Help me rewrite the opening paragraph of {form} on {topic} so that it sounds more {tone}.",
    ),
    "coding": (
        "Write a {language} function that {routine}.",
        "How do I build {software} in {language}?",
        "My {language} program crashes with {bug}. How can I debug it?",
        "Explain the difference between {language} modules and classes with code for {software}.",
        "Refactor this {language} code so that it {routine} without {bug}.",
        "Implement {software} in {language} with tests, and show how it {routine}.",
    ),
    "math": (
        "A shop sells {number} {goods} at a discount of {percent} percent. What do they cost at {number} cents each?",
        "Find the derivative of {function} and evaluate it at x = {percent}.",
        "Prove that {theorem}, in a way that convinces {audience}.",
        "A {shape} of {percent} cm is enlarged to {number} cm. How do its area and its perimeter change?",
        "Integrate {function} from 0 to {percent}.",
        "How many ways are there to arrange {percent} of {number} {goods} in a row?",
    ),
    "reasoning": (
        "{person} is taller than {friend} but shorter than her {relation}. Who is the tallest?",
        "{person} leaves the {object} in the {room} and leaves. {friend} moves it to the {place}. Where will she look?",
        "Is the argument valid: {claim}, therefore my {relation} must agree?",
        "Which logical fallacy is behind the claim that {claim}? My {relation} {friend} says that it is {fallacy}.",
        "There are {percent} people in the {room}. One always lies and has the {object}. How can you find out who?",
        "If {claim}, what would {person} and her {relation} expect to observe? Argue step by step.",
    ),
    "roleplay": (
        "Pretend you are {role}. Describe {scene}.",
        "Act as {role} and answer my questions. First question: why are you so {mood}?",
        "Let's play a game: you are {role}, I am your {relation}, and we meet in {scene}.",
        "You are {role}. Stay in character and comfort a traveller who feels {mood}.",
        "Imagine {role} arriving at {scene}. Write the dialogue that follows.",
    ),
    "extraction": (
        "Extract all {entity} from the following {document} and return {format}.",
        "List the {entity} and the abbreviations mentioned in this {document} as {format}.",
        "Summarize the {document} below in three sentences and highlight the {entity}.",
        "Classify each sentence of this {document} as positive, negative or neutral. Answer with {format}.",
        "Count how often {entity} occur in the {document}.",
    ),
}

DETAILS: dict[str, tuple[Sentences, ...]] = {
    "writing": (
        (0.35, (
            "The main character is {person}, who feels {mood} and misses a {relation}.",
            "Set the scene in {city} in {month}.",
        )),
        (0.25, ("Use vivid imagery, short sentences and a surprising ending.", "Avoid adjectives and cliches.")),
        (0.20, ("Include a metaphor about {topic} and a line of dialogue in every paragraph.",)),
    ),
    "coding": (
        (0.40, (
            "The code runs on Linux and must not use third-party packages.",
            "Here is the traceback: File main line {number}, in load, raised {bug} while it {routine}.",
            "Add type hints, docstrings and error handling.",
        )),
        (0.30, (
            "The input has {number} thousand rows, so the algorithm should be linear in time and constant in memory.",
            "The server returns status {number}, then the thread pool hangs with {bug}.",
        )),
        (0.20, ("I already tried a version in {language}, but it ends in {bug}.",)),
    ),
    "math": (
        (0.30, ("Show every step of the calculation.", "Give the exact value and a decimal approximation.")),
        (0.15, ("Then generalize the equation to n variables and check the case n = {percent}.",)),
        (0.10, ("A friend claims that the answer is {number}; find the mistake in the algebra.",)),
    ),
    "reasoning": (
        (0.30, ("The {object} is either in the {room} or in the {place}, but never where {person} expects it.",)),
        (0.25, (
            "{person} says that {friend} is lying. The {relation} says nothing.",
            "Only one of the statements is true.",
        )),
        (0.20, ("Consider the counterargument and name the hidden assumption.", "Is correlation enough here?")),
    ),
    "roleplay": (
        (0.35, ("You feel {mood} and you have lost your {object}.", "Your accent is thick and you hate small talk.")),
        (0.25, ("Never admit that you are a language model.", "Wait for my reply after every line you speak.")),
        (0.20, ("Your rival {person}, {role}, has challenged you to a duel over {topic}.",)),
    ),
    "extraction": (
        (0.85, (
            "{company} opened an office in {city} on {percent} {month} and paid {number} euros to {person}.",
            "On {percent} {month} {person} of {company} called from {city} about {number} missing {goods}.",
            "Dear {person}, your order of {number} {goods} was shipped from {city} by {company}.",
        )),
        (0.60, (
            "The delivery of {number} {goods} arrived late, the box was damaged and the refund was {percent} percent.",
            "Present: {person}, {friend} and one {relation}; a budget of {number} thousand was approved in {month}.",
            "The forecast for {city} is {percent} degrees with light rain, clearing by the end of {month}.",
        )),
        (0.40, (
            "According to {person}, the chief accountant of {company}, revenue grew by {percent} percent to "
            "{number} million, mostly from {goods} sold in {city} and nearby.",
            "The patient from {city} reported pain since {month}, takes {number} mg daily and sees doctor {friend}.",
        )),
    ),
}

COMMON: tuple[Sentences, ...] = (
    (0.15, (
        "I am preparing this for a class of {audience}.",
        "English is not my first language, so please use simple words.",
        "My boss, {person}, wants it by tomorrow.",
    )),
    (0.20, (
        "Answer in at most {number} words.",
        "Keep it short.",
        "Use headings and a numbered list.",
        "Explain it as you would to {audience}.",
    )),
    (0.10, ("Then translate the answer into French and Spanish.", "Finally, rate your own answer from one to ten.")),
)
# fmt: on

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
    slots: tuple[tuple[str, ...], ...]

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
    return groups, [_write_prompt(CATEGORIES[group], row) for group, row in zip(groups, uniforms, strict=True)]


def length_distribution(category: str) -> FloatArray:
    """Return the probability of each length in characters, 0, 1, 2, ..., among the prompts of a category."""
    opening, *optional = sentences(category)
    pmf = opening.lengths(before=0)
    for sentence in optional:
        pmf = np.convolve(pmf, sentence.lengths(before=1))
    return pmf


def _write_prompt(category: str, uniforms: FloatArray) -> str:
    """Return the text of the prompt that uniform random numbers select."""
    parts, n_used = [], 0
    for sentence in sentences(category):
        parts.append(sentence.fill(uniforms[n_used : n_used + sentence.n_uniforms]))
        n_used += sentence.n_uniforms
    return " ".join(part for part in parts if part)
