"""A simulated arena: one battle per prompt between two of eight models, as public arenas record them."""

from __future__ import annotations

import json
import re
from dataclasses import KW_ONLY, dataclass
from functools import cache
from importlib.resources import files
from typing import TypeAlias

import numpy as np
import pandas as pd
from scipy.special import softmax

from ..data.arrays import FloatArray, IntArray
from ..data.frames import require_columns
from ..exceptions import DataError, listed, nearest
from .simulators import Rng, check_between, check_count, draw_categories, generator, true_scores

# Log-odds of winning against an average model, roughly as in the arenas of 2023.
_STRENGTHS = {
    "alpaca-13b": -0.70,
    "claude-v1": 0.85,
    "dolly-v2-12b": -1.00,
    "gpt-3.5-turbo": 0.60,
    "gpt-4": 1.10,
    "koala-13b": -0.35,
    "palm-2": -0.10,
    "vicuna-13b": 0.00,
}
_LABELS = np.array(["model_a", "model_b", "tie", "tie (bothbad)"], dtype=object)
# The length of a prompt in characters at which the length has no effect on strengths. About half of all prompts are
# longer.
_TYPICAL_LENGTH = 150.0
# Log-odds of "both good" and of "both bad" for two equally strong average models. The two other numbers say how much
# these log-odds fall per unit of the advantage of one model over the other (in either direction), and how much they
# change with the mean strength of the two models.
_GOOD_LEVEL, _BAD_LEVEL, _TIE_DECAY, _LEVEL_WEIGHT = -0.8, -0.45, 0.5, 0.4


# --- prompts ----------------------------------------------------------------------------------------------------------

# A prompt is a sequence of optional sentences. Each sentence is a template whose slots are filled independently, so
# that the distribution of the length in characters is a convolution, and true scores need no simulation. prompts.json
# has the words for the slots and the sentences by category.
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
    """A sentence that is present with some probability, drawn from templates with equal probabilities."""

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
        """Return the probability of each length, 0, 1, ..., after ``before`` blanks; words in slots are independent."""
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


# --- the arena --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ArenaCoefficients:
    """One draw of the arena's coefficients, for K models and G categories of prompts.

    strength (G, K): Strength of each model in each category.
    length_slope (K,): What a long prompt adds to the strength of each model.
    matchup (G, K, K): The part of each advantage that no strengths explain: antisymmetric, with rows that sum to zero.
    difficulty (G,): How much likelier bad answers are in each category.
    show_probability (G, K, K): Probability that exactly this ordered pair is shown.
    """

    strength: FloatArray
    length_slope: FloatArray
    matchup: FloatArray
    difficulty: FloatArray
    show_probability: FloatArray


@dataclass(frozen=True, slots=True)
class Arena:
    r"""Votes of an arena whose outcomes and pairings depend on the prompt's category and length.

    With g the category, z = log(length / 150) and the strengths :math:`\theta_j = a_{gj} + b_j \tanh z`, the advantage
    d of model j, shown first, over model k and the probabilities of the four outcomes are

    .. math:: d_{jk} = \theta_j - \theta_k + M_{g,jk} + \text{position\_effect}, \qquad
              \mu_{jk} = \mathrm{softmax}(d_{jk}/2, -d_{jk}/2, t^{good}_{jk}, t^{bad}_{jk})

    Both kinds of tie have log-odds :math:`t^{good}` and :math:`t^{bad}` that are larger for models of similar
    strength. "Both good" is likelier for strong models, "both bad" for weak models and for hard prompts. The matchups M
    are cyclic, so that no Bradley-Terry model holds. Outcomes depend on nothing but category and length, and the pair
    that is shown depends on nothing but the category. Therefore ``C(category) + length`` is all that has to be adjusted
    for. Annotators differ in how often they vote, not in how they vote.

    Parameters
    ----------
    coefficients : int
        Seed of the coefficients, which are drawn once per arena: differences of the models by category and length,
        matchups, frequencies of pairs. Mean strengths are the same in every draw.
    position_effect : float
        What being shown first adds to the log-odds of winning.
    interaction : float
        Scale of all effects that depend on the prompt or on the pair. With 0, strengths are the same for every prompt.
    no_vote : float
        Probability that nobody votes on the pair that is shown, the same for every prompt.
    n_judges : int
        Number of annotators.

    Examples
    --------
    >>> arena = Arena()
    >>> arena.models
    ('alpaca-13b', 'claude-v1', 'dolly-v2-12b', 'gpt-3.5-turbo', 'gpt-4', 'koala-13b', 'palm-2', 'vicuna-13b')
    >>> contexts = arena.contexts(3, rng=0)
    >>> list(contexts)
    ['question_id', 'prompt', 'category', 'length']
    >>> arena.mu(contexts).shape
    (3, 8, 8, 4)
    >>> arena.truth("borda").idxmax()
    'gpt-4'
    """

    coefficients: int = 0
    _: KW_ONLY
    position_effect: float = 0.1
    interaction: float = 1.0
    no_vote: float = 0.03
    n_judges: int = 300

    def __post_init__(self) -> None:
        check_count(self.coefficients, "coefficients", smallest=0)
        check_between(self.position_effect, "position_effect")
        check_between(self.interaction, "interaction", lower=0.0)
        check_between(self.no_vote, "no_vote", 0.0, 0.99)
        check_count(self.n_judges, "n_judges")

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the K = 8 models, sorted: the order of ``mu``, ``propensity`` and ``truth``."""
        return tuple(_STRENGTHS)

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the prompt categories, sorted."""
        return CATEGORIES

    def draw(self) -> ArenaCoefficients:
        """Return the coefficients for the seed ``coefficients``, always drawn in the same order.

        Returns
        -------
        ArenaCoefficients
            Strengths, matchups and probabilities of pairs by category.
        """
        rng = np.random.default_rng(self.coefficients)
        n_groups, n_models = len(CATEGORIES), len(_STRENGTHS)
        base = np.array(list(_STRENGTHS.values()))
        by_group = rng.normal(size=(n_groups, n_models))
        length_slope = rng.normal(size=n_models)
        attack, defence = rng.normal(size=(2, n_groups, n_models))
        difficulty = rng.normal(size=n_groups)
        popularity = 0.15 * rng.normal(size=n_models) + 0.12 * rng.normal(size=(n_groups, n_models))
        # The cyclic part of pairwise preferences, which no strengths of single models explain, has rows of mean zero.
        preference = attack[:, :, None] * defence[:, None, :]
        matchup = preference - np.swapaxes(preference, 1, 2)
        mean = matchup.mean(axis=2)
        matchup += mean[:, None, :] - mean[:, :, None]
        popularity = np.clip(popularity, -0.35, 0.35)
        pair_score = popularity[:, :, None] + popularity[:, None, :] - 0.2 * np.abs(base[:, None] - base)
        pair_score[:, np.arange(n_models), np.arange(n_models)] = -np.inf
        return ArenaCoefficients(
            strength=base + self.interaction * 0.3 * (by_group - SHARES @ by_group),
            length_slope=self.interaction * 0.3 * length_slope,
            matchup=self.interaction * 0.25 * matchup,
            difficulty=self.interaction * 0.3 * (difficulty - SHARES @ difficulty),
            show_probability=softmax(pair_score, axis=(1, 2)),
        )

    def contexts(self, n: int, rng: Rng = None) -> pd.DataFrame:
        """Draw prompts with their category and length.

        Parameters
        ----------
        n : int
            Number of prompts.
        rng : int, numpy.random.Generator or None
            Seed, generator to advance, or None for fresh entropy.

        Returns
        -------
        pandas.DataFrame
            A row per prompt: ``question_id``, ``prompt``, ``category`` and ``length`` in characters.
        """
        groups, prompts = draw_prompts(check_count(n, "n"), generator(rng))
        lengths = np.array([len(prompt) for prompt in prompts])
        columns = {"question_id": np.arange(n), "prompt": prompts, "category": np.array(CATEGORIES)[groups]}
        return pd.DataFrame(columns | {"length": lengths})

    def mu(self, contexts: pd.DataFrame) -> FloatArray:
        """Return mu, the probabilities of the outcome categories for every ordered pair and prompt.

        The categories are: first wins, second wins, both good, both bad.

        Parameters
        ----------
        contexts : pandas.DataFrame
            A row per prompt with columns ``category`` and ``length``; other columns are not used.

        Returns
        -------
        numpy.ndarray, shape (n, K, K, 4)
            Probabilities, which sum to one over the categories. They are zero for a model against itself.

        Raises
        ------
        ColumnError
            If one of the columns is missing.
        DataError
            If a category is not one of the arena's, or a length is not positive.
        """
        require_columns(["length"], list(map(str, contexts)), "contexts")
        lengths = pd.to_numeric(contexts["length"], errors="coerce").to_numpy(dtype=float)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise DataError("column 'length' must hold the number of characters of each prompt, a positive number")
        return self._probabilities(_category_places(contexts), lengths)

    def propensity(self, contexts: pd.DataFrame) -> FloatArray:
        """Return the probability that an ordered pair is shown and voted on, for every ordered pair and prompt.

        Parameters
        ----------
        contexts : pandas.DataFrame
            A row per prompt with a column ``category``; other columns are not used.

        Returns
        -------
        numpy.ndarray, shape (n, K, K)
            Propensities. Those of a prompt sum to 1 - ``no_vote``. They are zero for a model against itself.
        """
        return (1 - self.no_vote) * self.draw().show_probability[_category_places(contexts)]

    def sample(self, n: int, rng: Rng = None) -> pd.DataFrame:
        """Draw battles, one per prompt.

        Parameters
        ----------
        n : int
            Number of battles.
        rng : int, numpy.random.Generator or None
            Seed, generator to advance, or None for fresh entropy.

        Returns
        -------
        pandas.DataFrame
            The columns of :meth:`contexts`, then ``model_a`` and ``model_b`` (shown first and second), ``winner``
            (``model_a``, ``model_b``, ``tie`` for both good, ``tie (bothbad)``, missing where nobody voted), ``judge``
            (the annotator) and ``propensity`` (the true probability that the pair of the row is shown and voted on).
        """
        rng = generator(rng)
        contexts = self.contexts(n, rng)
        rows, propensity = np.arange(n), self.propensity(contexts)
        pair = draw_categories(propensity.reshape(n, -1) / (1 - self.no_vote), rng)
        first, second = np.divmod(pair, len(self.models))
        winner = _LABELS[draw_categories(self.mu(contexts)[rows, first, second], rng)]
        winner[rng.random(n) < self.no_vote] = None
        activity = 1 / (np.arange(self.n_judges) + 5.0)
        judges = rng.choice(self.n_judges, size=n, p=activity / activity.sum())
        names = np.array(self.models)
        width = len(str(self.n_judges - 1))
        return contexts.assign(
            model_a=names[first],
            model_b=names[second],
            winner=winner,
            judge=[f"judge_{judge:0{width}d}" for judge in judges],
            propensity=propensity[rows, first, second],
        )

    def truth(self, functional: object) -> pd.Series:
        """Return the true scores by model, exactly: the mean of F(mu) over all categories and lengths.

        Parameters
        ----------
        functional : str or functional
            ``"borda"``, ``"bt"`` or ``"rank_centrality"`` with both kinds of tie one half, or any object whose method
            ``value`` turns category probabilities mu, (n, K, K, 4), into scores, (n, d).

        Returns
        -------
        pandas.Series
            Scores, (K,), by model.
        """
        chunks = []
        for group, category in enumerate(CATEGORIES):
            pmf = length_distribution(category)
            lengths = np.flatnonzero(pmf)
            mu = self._probabilities(np.full(len(lengths), group), lengths.astype(float))
            chunks.append((mu, SHARES[group] * pmf[lengths]))
        return true_scores(functional, chunks, n_categories=len(_LABELS), models=self.models)

    def _probabilities(self, groups: IntArray, lengths: FloatArray) -> FloatArray:
        """Return mu, (n, K, K, 4), for places of categories, (n,), and lengths, (n,)."""
        tables = self.draw()
        long = np.tanh(np.log(lengths / _TYPICAL_LENGTH))[:, None]
        strength = tables.strength[groups] + long * tables.length_slope
        advantage = strength[:, :, None] - strength[:, None, :] + tables.matchup[groups] + self.position_effect
        level = _LEVEL_WEIGHT * (strength[:, :, None] + strength[:, None, :]) / 2
        hard = (tables.difficulty[groups][:, None] + 0.3 * self.interaction * long)[:, :, None]
        closeness = -_TIE_DECAY * np.abs(advantage)
        good, bad = _GOOD_LEVEL + level + closeness, _BAD_LEVEL - level + closeness + hard
        mu = softmax(np.stack([advantage / 2, -advantage / 2, good, bad], axis=-1), axis=-1)
        items = np.arange(len(self.models))
        mu[:, items, items] = 0.0
        return mu


def simulate_arena(
    n: int = 4000,
    *,
    coefficients: int = 0,
    position_effect: float = 0.1,
    interaction: float = 1.0,
    no_vote: float = 0.03,
    n_judges: int = 300,
    rng: Rng = None,
) -> pd.DataFrame:
    """Draw from :class:`Arena`: ``n`` prompts, each with one battle of two models and its true propensity.

    Parameters
    ----------
    n : int
        Number of prompts.
    coefficients : int
        Seed of the coefficients of the arena. The sample drawn with these coefficients has its own seed, ``rng``.
    position_effect, interaction, no_vote : float
        As those of :class:`Arena`.
    n_judges : int
        Number of annotators.
    rng : int, numpy.random.Generator or None
        Seed of the sample, generator to advance, or None for fresh entropy.

    Returns
    -------
    pandas.DataFrame
        As :meth:`Arena.sample`.

    Examples
    --------
    >>> battles = simulate_arena(500, rng=0)
    >>> battles.loc[0, ["category", "model_a", "model_b", "winner"]].isna().sum()
    np.int64(0)
    """
    effects = {"position_effect": position_effect, "interaction": interaction}
    return Arena(coefficients, **effects, no_vote=no_vote, n_judges=n_judges).sample(n, rng)


def _category_places(contexts: pd.DataFrame) -> IntArray:
    """Return the place of each row's category among ``CATEGORIES``, (n,)."""
    require_columns(["category"], list(map(str, contexts)), "contexts")
    groups = pd.Index(CATEGORIES).get_indexer(pd.Index(contexts["category"]))
    if (groups < 0).any():
        unknown = contexts["category"].to_numpy()[groups < 0][0]
        raise DataError(
            f"category {unknown!r} is not one of the arena's: {listed(CATEGORIES)}{nearest(unknown, CATEGORIES)}"
        )
    return groups.astype(np.int64)
