"""The simulators of Frauen et al. (2026), and an arena: one battle per prompt between two of eight models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, fields
from functools import cache, reduce
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, softmax

from .._utils.argument_checks import check_whole, checked, number_in, resolve_seed
from ..data.arrays import FloatArray, IntArray
from ..data.frames import require_columns
from ..exceptions import DataError, OptionTypeError, listed, nearest
from ..functionals import CategoryWeights, named

Rng = int | np.random.Generator | None


def generator(rng: Rng) -> np.random.Generator:
    """Return the random generator that the option ``rng`` stands for; numpy's global generator is never used."""
    return rng if isinstance(rng, np.random.Generator) else np.random.default_rng(resolve_seed(rng))


def check_between(value: object, option: str, lower: float = -np.inf, upper: float = np.inf) -> None:
    """Check that the value of an option is a finite number between two bounds."""
    bounds = ["finite", *[f"at least {lower:g}"] * (lower > -np.inf), *[f"at most {upper:g}"] * (upper < np.inf)]
    allowed = f"it must be {' and '.join(bounds)}"
    number_in(option, value, lambda number: np.isfinite(number) and lower <= number <= upper, allowed)


def draw_categories(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw one category per row of a matrix of probabilities, (m, C); return their places, (m,)."""
    steps = np.cumsum(probabilities, axis=1)[:, :-1]
    return (rng.random((len(probabilities), 1)) >= steps).sum(axis=1)


def true_scores(
    functional: object,
    chunks: Iterable[tuple[FloatArray, FloatArray]],
    *,
    n_categories: int,
    models: tuple[str, ...],
) -> pd.Series:
    """Return the weighted mean of F(mu) over contexts, with ties one half where the functional leaves them open."""
    scorer: Any = named(functional) if isinstance(functional, str) else functional
    if isinstance(scorer, type) or not callable(getattr(scorer, "value", None)):
        raise OptionTypeError(f"functional must be a name or an object with value(mu), not {functional!r}")
    if hasattr(scorer, "bind"):
        scorer = scorer.bind(weights=CategoryWeights.half(n_categories))
    total, weight = np.zeros(()), 0.0
    for mu, weights in chunks:
        total = total + weights @ scorer.value(mu)
        weight += weights.sum()
    scores = total / weight
    return pd.Series(scores, index=models if len(scores) == len(models) else None)


_LABELS = np.array(["model_a", "model_b", "tie"], dtype=object)
# Entries of mu that are computed at a time.
_CHUNK_ENTRIES = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """One draw of a simulator's coefficients, for K items, p features and q = min(2, p).

    linear (K, p), offset (K,), quadratic (K, q), phase (K,): Coefficients W, b, W_q and phi of the utilities.
    selection (K,): How much each item raises the log-odds that its pairs are labelled.
    """

    linear: FloatArray
    offset: FloatArray
    quadratic: FloatArray
    phase: FloatArray
    selection: FloatArray


@dataclass(frozen=True, slots=True)
class Simulator(ABC):
    """A simulator with the parameters of :class:`Ties`; a subclass says how utilities become C probabilities."""

    n_categories: ClassVar[int]
    coefficients: int = 0
    _: KW_ONLY
    n_items: int = 3
    n_features: int = 2
    linear_scale: float = 1.0
    quadratic_scale: float = 0.6
    wave_scale: float = 0.6
    offset_scale: float = 0.5
    temperature: float = 1.0
    position_effect: float = 0.0
    min_mass: float = 0.0
    propensity_rate: float = 0.3
    selection_strength: float = 0.1
    selection_decay: float = 0.8
    selection_tilt: float = 0.4
    selection_scale: float = 0.2
    propensity_min: float = 0.01
    propensity_max: float = 0.5

    def __post_init__(self) -> None:
        for name, least in (("coefficients", 0), ("n_items", 2), ("n_features", 1)):
            check_whole(name, getattr(self, name), least)
        bounds = dict.fromkeys(("linear_scale", "quadratic_scale", "offset_scale", "selection_scale"), (0.0, np.inf))
        bounds |= dict.fromkeys(("selection_strength", "propensity_min", "propensity_max"), (0.0, 1.0))
        bounds |= {"temperature": (1e-6, np.inf), "min_mass": (0.0, 1 / self.n_categories)}
        bounds |= {"propensity_rate": (1e-9, 1 - 1e-9)}
        for field in fields(self):
            if field.type in (float, "float"):
                check_between(getattr(self, field.name), field.name, *bounds.get(field.name, ()))
        check_between(self.propensity_max, "propensity_max", lower=self.propensity_min)

    @abstractmethod
    def _probabilities(self, X: FloatArray) -> FloatArray:
        """Return category probabilities before they are raised to ``min_mass``, (n, K, K, C)."""

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the K items. Their numbers are padded with zeros, so that sorting by name keeps their order."""
        width = len(str(self.n_items - 1))
        return tuple(f"model_{item:0{width}d}" for item in range(self.n_items))

    def draw(self) -> Coefficients:
        """Return the coefficients for the seed ``coefficients``, always drawn in the same order.

        Returns
        -------
        Coefficients
            Coefficients of the utilities and of the selection of pairs.
        """
        rng = np.random.default_rng(self.coefficients)
        n_items, n_squares = self.n_items, min(2, self.n_features)
        return Coefficients(
            linear=self.linear_scale * rng.normal(size=(n_items, self.n_features)),
            offset=self.offset_scale * rng.normal(size=n_items),
            quadratic=self.quadratic_scale * rng.normal(size=(n_items, n_squares)),
            phase=rng.uniform(0, 2 * np.pi, n_items),
            selection=self.selection_scale * rng.normal(size=n_items),
        )

    def features(self, n: int, rng: Rng = None) -> FloatArray:
        """Draw the features of contexts, uniformly from the unit cube.

        Parameters
        ----------
        n : int
            Number of contexts.
        rng : int, numpy.random.Generator or None
            Seed, generator to advance, or None for fresh entropy.

        Returns
        -------
        numpy.ndarray, shape (n, p)
            Features, each between 0 and 1.
        """
        check_whole("n", n, 1)
        return generator(rng).random((n, self.n_features))

    def utilities(self, X: ArrayLike) -> FloatArray:
        """Return the utility of each item in each context.

        Parameters
        ----------
        X : array_like, shape (n, p)
            Features of the contexts, finite numbers.

        Returns
        -------
        numpy.ndarray, shape (n, K)
            Utilities u, before the division by ``temperature``.
        """
        features, c = self._checked_features(X), self.draw()
        squares = features[:, : c.quadratic.shape[1]] ** 2
        wave = np.sin(2 * np.pi * features[:, :1] + c.phase)
        return features @ c.linear.T + c.offset + squares @ c.quadratic.T + self.wave_scale * wave

    def mu(self, X: ArrayLike) -> FloatArray:
        """Return mu, the probabilities of the categories for every ordered pair in each context.

        Parameters
        ----------
        X : array_like, shape (n, p)
            Features of the contexts.

        Returns
        -------
        numpy.ndarray, shape (n, K, K, C)
            Probabilities of the C categories, which sum to one. They are zero for an item against itself.
        """
        mu = np.maximum(self._probabilities(self._checked_features(X)), self.min_mass)
        mu /= mu.sum(axis=-1, keepdims=True)
        mu[:, np.arange(self.n_items), np.arange(self.n_items)] = 0.0
        return mu

    def propensity(self, X: ArrayLike) -> FloatArray:
        """Return the probability that a pair is labelled, for every ordered pair in each context.

        Parameters
        ----------
        X : array_like, shape (n, p)
            Features of the contexts.

        Returns
        -------
        numpy.ndarray, shape (n, K, K)
            Propensities. They are zero for an item against itself.
        """
        features, effect = self._checked_features(X), self.draw().selection
        score = logit(self.propensity_rate) - self.selection_decay * np.abs(self.advantage(features))
        score += self.selection_tilt * (features[:, 0] - 0.5)[:, None, None] + effect[:, None] + effect
        mixed = (1 - self.selection_strength) * self.propensity_rate + self.selection_strength * expit(score)
        propensity = np.clip(mixed, self.propensity_min, self.propensity_max)
        propensity[:, np.arange(self.n_items), np.arange(self.n_items)] = 0.0
        return propensity

    def sample(self, n: int, rng: Rng = None) -> pd.DataFrame:
        """Draw contexts, labelled pairs and their labels, one row per label.

        Every ordered pair of a context is labelled independently, with probability ``propensity(X)``.

        Parameters
        ----------
        n : int
            Number of contexts.
        rng : int, numpy.random.Generator or None
            Seed, generator to advance, or None for fresh entropy.

        Returns
        -------
        pandas.DataFrame
            Columns ``question_id`` (the context), ``x0`` ... (the features), ``model_a``, ``model_b``, ``winner``
            (``model_a``, ``model_b`` or ``tie``) and the true ``propensity``. A context without a label has one row, in
            which the last four columns are missing. Rows are sorted by context.
        """
        rng = generator(rng)
        X = self.features(n, rng)
        propensity = self.propensity(X)
        cells = np.nonzero(rng.random(propensity.shape) < propensity)
        labels = draw_categories(self.mu(X)[cells], rng)
        context, first, second = cells
        unlabelled = np.setdiff1d(np.arange(n), context)
        rows, names = np.concatenate([context, unlabelled]), np.array(self.models, dtype=object)
        columns = {"question_id": rows} | {f"x{place}": X[rows, place] for place in range(X.shape[1])}
        cells_of = {"model_a": names[first], "model_b": names[second], "winner": _LABELS[labels]}
        missing = np.full(len(unlabelled), None, dtype=object)
        columns |= {name: np.concatenate([values, missing]) for name, values in cells_of.items()}
        columns["propensity"] = np.concatenate([propensity[cells], np.full(len(unlabelled), np.nan)])
        by_context = np.argsort(rows, kind="stable")
        return pd.DataFrame({name: values[by_context] for name, values in columns.items()})

    def truth(self, functional: object, n: int = 1_000_000, rng: Rng = 0) -> pd.Series:
        """Return the true scores by model: the mean of F(mu(X)) over ``n`` new contexts.

        Parameters
        ----------
        functional : str or functional
            Name of a functional, with ties one half, or any functional with a ``value``.
        n : int
            Number of contexts; the Monte-Carlo error falls with the square root of ``n``.
        rng : int, numpy.random.Generator or None
            Source of the contexts. The default gives the same numbers every time.

        Returns
        -------
        pandas.Series
            Scores, (K,), by model.
        """
        check_whole("n", n, 1)
        rng, size = generator(rng), max(1, _CHUNK_ENTRIES // (self.n_items**2 * self.n_categories))
        lengths = (min(size, n - start) for start in range(0, n, size))
        chunks = ((self.mu(self.features(length, rng)), np.ones(length)) for length in lengths)
        return true_scores(functional, chunks, n_categories=self.n_categories, models=self.models)

    def advantage(self, X: FloatArray) -> FloatArray:
        """Return the advantage d of the item shown first over the item shown second, in each context.

        Parameters
        ----------
        X : numpy.ndarray, shape (n, p)
            Features of the contexts.

        Returns
        -------
        numpy.ndarray, shape (n, K, K)
            Differences of the utilities divided by ``temperature``, plus the position effect.
        """
        utilities = self.utilities(X) / self.temperature
        position_effect = self.position_effect * (X[:, 0] - 0.5)
        return utilities[:, :, None] - utilities[:, None, :] + position_effect[:, None, None]

    def _checked_features(self, X: ArrayLike) -> FloatArray:
        """Return features as an array, (n, p); raise where they have another shape or are not finite."""
        features = np.asarray(X, dtype=float)
        if features.ndim != 2 or features.shape[1] != self.n_features:
            raise DataError(f"X has shape {features.shape}; it must be (n, {self.n_features}), a row per context")
        if not np.isfinite(features).all():
            raise DataError("X holds nan or infinite values; all features must be finite")
        return features


@dataclass(frozen=True, slots=True)
class Ties(Simulator):
    r"""Win, loss or tie from nonlinear utilities.

    .. math:: u_j(x) = W_j^\top x + b_j + W^{(q)\top}_j x_{1:q}^{\odot 2} + s \sin(2 \pi x_0 + \phi_j), \qquad
              d_{jk} = (u_j - u_k) / T + \beta (x_0 - 1/2)

    .. math:: \mu_{jk} = \mathrm{softmax}(d_{jk}, -d_{jk}, \tau_0 - \tau_1 |d_{jk}| + \tau_c \cos(2 \pi x_1))

    Probabilities below ``min_mass`` are raised to it and renormalised. The defaults are those of the experiment of
    Frauen et al. on debiasing. Their experiment with external judges is ``Ties(n_features=5)``.

    Parameters
    ----------
    coefficients : int
        Seed of the coefficients. With two features, true BT scores span 1.7 with 0, 1.1 with 3 and 3.0 with 4.
    n_items, n_features : int
        Number of items, K, and of features, p. With a single feature, the tie term uses it in place of x_1.
    linear_scale, quadratic_scale, wave_scale, offset_scale : float
        Standard deviations of the coefficients W, of W_q and, the last, of the constants b; the wave's amplitude s.
    temperature : float
        Number by which differences of utilities are divided, T.
    position_effect : float
        How much the first feature changes the advantage of the item shown first, beta.
    min_mass : float
        Smallest probability of a category.
    propensity_rate : float
        Probability that a pair is labelled if the selection depends on neither context nor items.
    selection_strength : float
        Weight, from 0 to 1, of the part of a propensity that depends on context and items.
    selection_decay : float
        How much more often pairs with similar utilities are labelled.
    selection_tilt : float
        How much the first feature changes a propensity.
    selection_scale : float
        Standard deviation of the items' selection effects.
    propensity_min, propensity_max : float
        Bounds to which propensities are clipped.
    tie_level, tie_decay, tie_wave : float
        Log-odds of a tie: their level (tau_0), how much they fall with the advantage (tau_1), and the amplitude of
        their dependence on the second feature (tau_c).

    References
    ----------
    Frauen et al. (2026), arXiv 2601.21816, appendix on simulations, "Nonlinear ties simulator".

    Examples
    --------
    >>> ties = Ties()
    >>> battles = ties.sample(500, rng=0)
    >>> list(battles)
    ['question_id', 'x0', 'x1', 'model_a', 'model_b', 'winner', 'propensity']
    >>> ties.truth("borda", n=20_000).round(1).to_dict()
    {'model_0': 0.6, 'model_1': 0.7, 'model_2': 0.2}
    """

    n_categories: ClassVar[int] = 3
    _: KW_ONLY
    min_mass: float = 0.05
    propensity_min: float = 0.05
    tie_level: float = 0.2
    tie_decay: float = 1.2
    tie_wave: float = 0.4

    def _probabilities(self, X: FloatArray) -> FloatArray:
        """Return category probabilities before they are raised to ``min_mass``, (n, K, K, C)."""
        advantage = self.advantage(X)
        wave = np.cos(2 * np.pi * X[:, min(1, self.n_features - 1)])[:, None, None]
        tie = self.tie_level - self.tie_decay * np.abs(advantage) + self.tie_wave * wave
        return softmax(np.stack([advantage, -advantage, tie], axis=-1), axis=-1)


@dataclass(frozen=True, slots=True)
class Bt(Simulator):
    r"""Win or loss. With ``gamma=0`` Bradley-Terry holds in every context; otherwise preferences have cycles.

    .. math:: \mu_{jk1}(x) = \sigma(d_{jk}(x) + \gamma C_{jk}), \qquad C_{j, j+1 \bmod K} = 1 = -C_{j+1 \bmod K, j}

    with the utilities and the advantage d of :class:`Ties`. The defaults are those of the experiment of Frauen et al.
    on misspecified Bradley-Terry models, in which gamma goes from 0 to 4. Their experiment on optimal data collection
    is ``Bt(n_items=3, n_features=2, gamma=1)``. With two items there is no cycle, and C is zero.

    Parameters
    ----------
    coefficients, n_items, n_features, linear_scale, quadratic_scale, wave_scale, offset_scale, temperature : float
        As those of :class:`Ties`, and so the following ones.
    position_effect, min_mass, propensity_rate, selection_strength, selection_decay, selection_tilt : float
        How pairs are chosen and won.
    selection_scale, propensity_min, propensity_max : float
        How propensities vary.
    gamma : float
        Strength of the cycle: how far the preferences are from a Bradley-Terry model.

    References
    ----------
    Frauen et al. (2026), arXiv 2601.21816, appendix on simulations, "BT misspecification simulator".

    Examples
    --------
    >>> bt = Bt(gamma=2)
    >>> bt.mu(bt.features(10, rng=0)).shape
    (10, 4, 4, 2)
    >>> sorted(bt.sample(200, rng=0)["winner"].dropna().unique())
    ['model_a', 'model_b']
    """

    n_categories: ClassVar[int] = 2
    _: KW_ONLY
    n_items: int = 4
    n_features: int = 5
    gamma: float = 0.0

    def _probabilities(self, X: FloatArray) -> FloatArray:
        """Return category probabilities before they are raised to ``min_mass``, (n, K, K, C)."""
        step = np.roll(np.eye(self.n_items), 1, axis=1)
        score = self.advantage(X) + self.gamma * (step - step.T)
        return np.stack([expit(score), expit(-score)], axis=-1)


# --- a simulated arena ------------------------------------------------------------------------------------------------

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
_ARENA_LABELS = np.array(["model_a", "model_b", "tie", "tie (bothbad)"], dtype=object)
# The length of a prompt in characters at which the length has no effect on strengths. About half of all prompts are
# longer.
_TYPICAL_LENGTH = 150.0
# Log-odds of "both good" and of "both bad" for two equally strong average models. The two other numbers say how much
# these log-odds fall per unit of the advantage of one model over the other (in either direction), and how much they
# change with the mean strength of the two models.
_GOOD_LEVEL, _BAD_LEVEL, _TIE_DECAY, _LEVEL_WEIGHT = -0.8, -0.45, 0.5, 0.4


# A prompt has the length in characters of a few optional sentences, whose slots are filled by words independently, so
# that the distribution of the length is a convolution, and true scores need no simulation. The sentences are given by
# numbers alone: of each word for a slot its number of characters ...
_SLOTS = """
form 13 11 14 7 18 21 15 10 12 11 16 13 12 14 16 12; topic 23 15 24 17 10 25 11 20 14 14 11 11 23 16 12 10 15 13 19 11;
tone 8 10 6 6 4 11 8 14 6 9 6 11; audience 9 12 17 13 8 9 6 19 18 17; author 9 11 5 15 10 14 6;
language 6 10 4 2 4 3 10 6 3 7 4; routine 22 31 32 24 26 25 23 28 29 26 18 29 33 20;
software 10 19 13 13 17 12 20 14 20 14 18; bug 24 19 16 13 16 16 15 16 10 17; number 2 2 2 2 2 2 2 2 2 2 3 3 3 3 3 3;
percent 1 1 2 2 2 2 2 2; goods 6 7 9 5 7 6 6 6 6; shape 8 6 9 8 6 9 7 4; function 10 11 9 12 13 6 13;
theorem 36 32 28 43 35 37; friend 3 3 5 3 5 4 4 4 6; place 3 10 14 10 16 9; person 5 6 6 6 4 5 6 4 4 5 5;
relation 7 6 6 4 5 9 11 9; object 3 8 7 6 6 6 4 3 4 3; room 7 5 6 6 5 11 7 7; claim 19 21 32 21 26 32 36 31;
fallacy 15 18 17 11 18; role 24 21 24 17 20 17 16 19 15 17 19 14 16 18; scene 14 16 11 23 16 15 15 15 17 26;
mood 5 7 8 9 5 10 5 9; entity 5 5 6 9 9 6 13 10 5; format 4 11 16 15 4 17 3; document 7 18 15 8 14 6 13 12 14 16;
company 9 14 17 13 8 9; city 6 7 5 7 6 4 5 6 7 6; month 7 5 5 4 6 9 8 8
"""
# ... and of each sentence the probability that it is present and its forms, from which it is drawn: the number of fixed
# characters, and the slots.
_SENTENCES = {
    "coding": """
    1: 24 language routine, 20 software language, 46 language bug, 67 language software, 41 language routine bug,
    44 software language routine; 0.4: 61, 67 number bug routine, 46; 0.3: 95 number, 61 number bug;
    0.2: 47 language bug
    """,
    "extraction": """
    1: 45 entity document format, 55 entity document format, 59 document entity, 79 document format, 31 entity document;
    0.85: 47 company city percent month number person, 39 percent month person company city number goods,
    45 person number goods city company; 0.6: 80 number goods percent, 61 person friend relation number month,
    71 city percent month; 0.4: 112 person company percent number goods city, 73 city month number friend
    """,
    "math": """
    1: 75 number goods percent number, 48 function percent, 38 theorem audience, 71 shape percent number,
    22 function percent, 50 percent number goods; 0.3: 35, 49; 0.15: 68 percent; 0.1: 69 number
    """,
    "reasoning": """
    1: 59 person friend relation, 72 person object room friend place, 50 claim relation,
    71 claim relation friend fallacy, 82 percent room object, 64 claim person relation;
    0.3: 63 object room place person; 0.25: 40 person friend relation, 35; 0.2: 60, 27
    """,
    "roleplay": """
    1: 28 role scene, 65 role mood, 57 role relation scene, 63 role mood, 55 role scene; 0.35: 34 mood object, 45;
    0.25: 42, 45; 0.2: 50 person role topic
    """,
    "writing": """
    1: 14 form topic, 31 form audience topic, 37 form topic tone, 38 form topic author, 40 form topic tone audience,
    70 form topic tone; 0.35: 49 person mood relation, 22 city month; 0.25: 59, 29; 0.2: 68 topic
    """,
}
_IN_ALL = "0.15: 36 audience, 61, 32 person; 0.2: 25 number, 14, 33, 28 audience; 0.1: 50, 46"
# The text of a prompt is drawn from the words of its category and those of all categories.
_WORDS = {
    "coding": "python function loop bug list code test compile array recursion",
    "extraction": "extract table invoice names dates column report entities amounts document",
    "math": "prove integral triangle sum percent equation theorem limit area prime",
    "reasoning": "puzzle argument premise conclude logic suppose fallacy therefore riddle truth",
    "roleplay": "pretend pirate wizard captain interview greet character scene angry dialogue",
    "writing": "story poem essay haiku letter tone article chapter speech rhyme",
}
_COMMON_WORDS = "please write give explain the and for with short answer"

CATEGORIES = tuple(_SENTENCES)
# Share of each category among the prompts, in the order of CATEGORIES (coding, extraction, math, ...).
SHARES = np.array([0.22, 0.12, 0.14, 0.16, 0.14, 0.22])


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that is present with some probability, drawn from forms with equal probabilities.

    forms: For each form its number of fixed characters, and the lengths of the words for each of its slots.
    """

    probability: float
    forms: tuple[tuple[int, list[list[int]]], ...]

    @property
    def n_uniforms(self) -> int:
        """Number of uniform random numbers for one draw: one for presence, one for the form, and one per slot."""
        return 2 + max(len(slots) for _, slots in self.forms)

    def drawn_lengths(self, uniforms: FloatArray) -> IntArray:
        """Return the number of characters that each row of uniform numbers selects; 0 where the sentence is absent."""
        lengths = np.zeros(len(uniforms), dtype=np.intp)
        form = np.where(uniforms[:, 0] < self.probability, (uniforms[:, 1] * len(self.forms)).astype(np.intp), -1)
        for place, (fixed, slots) in enumerate(self.forms):
            rows = form == place
            lengths[rows] = fixed
            for words, u in zip(slots, uniforms[rows, 2:].T, strict=False):
                lengths[rows] += np.array(words)[(u * len(words)).astype(np.intp)]
        return lengths

    def lengths(self, before: int) -> FloatArray:
        """Return the probability of each length, 0, 1, ..., after ``before`` blanks; words in slots are independent."""
        total = np.zeros(1)
        for fixed, slots in self.forms:
            pmf = np.eye(1, fixed + 1, fixed)[0]
            for words in slots:
                pmf = np.convolve(pmf, np.bincount(words) / len(words))
            total = np.pad(total, (0, max(0, before + len(pmf) - len(total))))
            total[before : before + len(pmf)] += self.probability * pmf / len(self.forms)
        total[0] += 1 - self.probability
        return total


@cache
def sentences(category: str) -> tuple[Sentence, ...]:
    """Return the sentences of a category's prompts. The first sentence is always present."""
    slots = {name: list(map(int, lengths)) for name, *lengths in map(str.split, _SLOTS.split(";"))}
    read = []
    for sentence in f"{_SENTENCES[category]}; {_IN_ALL}".split(";"):
        probability, forms = sentence.split(":")
        parts = [form.split() for form in forms.split(",")]
        with_slots = tuple((int(fixed), [slots[name] for name in names]) for fixed, *names in parts)
        read.append(Sentence(float(probability), with_slots))
    return tuple(read)


def draw_prompts(n: int, rng: np.random.Generator) -> tuple[IntArray, NDArray[np.object_]]:
    """Draw ``n`` prompts; return the places of their categories, (n,), and their texts, (n,)."""
    groups = rng.choice(len(CATEGORIES), size=n, p=SHARES)
    width = max(sum(sentence.n_uniforms for sentence in sentences(category)) for category in CATEGORIES)
    uniforms, prompts = rng.random((n, width)), np.empty(n, dtype=object)
    for group, category in enumerate(CATEGORIES):
        rows = uniforms[groups == group]
        lengths, n_used = np.zeros(len(rows), dtype=np.intp), 0
        for sentence in sentences(category):
            drawn = sentence.drawn_lengths(rows[:, n_used:])
            # Sentences that are present have a blank between them.
            lengths += drawn + (drawn > 0)
            n_used += sentence.n_uniforms
        words = np.array(f"{_WORDS[category]} {_COMMON_WORDS}".split(), dtype=object)
        texts = map(" ".join, words[(rows * len(words)).astype(np.intp)].tolist())
        # Words are repeated up to the length less one, for the blank after the last sentence, and end in a full stop.
        prompts[groups == group] = [
            (f"{text} " * (1 + size // len(text)))[:size].capitalize() + "."
            for text, size in zip(texts, (lengths - 2).tolist(), strict=True)
        ]
    return groups, prompts


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

    Log-odds :math:`t^{good}` and :math:`t^{bad}` of ties are larger for models of similar strength; "both good" is
    likelier for strong models, "both bad" for weak models and hard prompts. The matchups M are cyclic, so that no
    Bradley-Terry model holds. Outcomes depend on category and length alone, and the pair that is shown on the category,
    so that ``C(category) + length`` is all that has to be adjusted for.

    Parameters
    ----------
    coefficients : int
        Seed of the coefficients, which are drawn once per arena. Mean strengths are the same in every draw.
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
        check_whole("coefficients", self.coefficients, 0)
        check_between(self.position_effect, "position_effect")
        check_between(self.interaction, "interaction", lower=0.0)
        check_between(self.no_vote, "no_vote", 0.0, 0.99)
        check_whole("n_judges", self.n_judges, 1)

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
            Columns ``question_id``, ``prompt`` (words, many of them of its category), ``category`` and ``length``.
        """
        check_whole("n", n, 1)
        groups, prompts = draw_prompts(n, generator(rng))
        lengths = np.array([len(prompt) for prompt in prompts])
        columns = {"question_id": np.arange(n), "prompt": prompts, "category": np.array(CATEGORIES)[groups]}
        return pd.DataFrame(columns | {"length": lengths})

    def mu(self, contexts: pd.DataFrame) -> FloatArray:
        """Return mu, the probabilities that the first wins, the second wins, both are good, and both are bad.

        Parameters
        ----------
        contexts : pandas.DataFrame
            A row per prompt with columns ``category`` and ``length``; other columns are not used.

        Returns
        -------
        numpy.ndarray, shape (n, K, K, 4)
            Probabilities for every ordered pair and prompt; zero for a model against itself.
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
            A row per prompt with a column ``category``.

        Returns
        -------
        numpy.ndarray, shape (n, K, K)
            Propensities, whose sum by prompt is 1 - ``no_vote``; zero for a model against itself.
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
            The columns of :meth:`contexts`, then ``model_a``, ``model_b``, ``winner`` (``model_a``, ``model_b``,
            ``tie`` for both good, ``tie (bothbad)``, missing where nobody voted), ``judge`` and ``propensity``, the
            true probability that the pair of the row is shown and voted on.
        """
        rng = generator(rng)
        contexts = self.contexts(n, rng)
        rows, propensity = np.arange(n), self.propensity(contexts)
        pair = draw_categories(propensity.reshape(n, -1) / (1 - self.no_vote), rng)
        first, second = np.divmod(pair, len(self.models))
        winner = _ARENA_LABELS[draw_categories(self.mu(contexts)[rows, first, second], rng)]
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
            Name of a functional, with ties one half, or an object whose ``value`` turns mu, (n, K, K, 4), into (n, d).

        Returns
        -------
        pandas.Series
            Scores, (K,), by model.
        """
        chunks = []
        for group, category in enumerate(CATEGORIES):
            # The probability of each length in characters, 0, 1, 2, ..., among the prompts of the category.
            opening, *optional = sentences(category)
            pmf = reduce(np.convolve, (each.lengths(before=1) for each in optional), opening.lengths(before=0))
            lengths = np.flatnonzero(pmf)
            mu = self._probabilities(np.full(len(lengths), group), lengths.astype(float))
            chunks.append((mu, SHARES[group] * pmf[lengths]))
        return true_scores(functional, chunks, n_categories=len(_ARENA_LABELS), models=self.models)

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


@checked
def simulate_ties(n: int = 2000, *, coefficients: int = 0, rng: Rng = None, **parameters: float) -> pd.DataFrame:
    """Draw ``n`` contexts from :class:`Ties`, with their labelled pairs and the true propensities.

    Parameters
    ----------
    n : int
        Number of contexts.
    coefficients : int
        Seed of the coefficients of the simulator. The sample drawn with these coefficients has its own seed, ``rng``.
    rng : int, numpy.random.Generator or None
        Seed of the sample, generator to advance, or None for fresh entropy.
    **parameters : float
        Any other parameter of :class:`Ties`.

    Returns
    -------
    pandas.DataFrame
        As :meth:`Ties.sample`.

    Examples
    --------
    >>> battles = simulate_ties(300, rng=0)
    >>> battles["question_id"].nunique()
    300
    """
    return _simulator(Ties, coefficients, parameters).sample(n, rng)


@checked
def simulate_bt(n: int = 2000, *, coefficients: int = 0, rng: Rng = None, **parameters: float) -> pd.DataFrame:
    """Draw ``n`` contexts from :class:`Bt`, with their labelled pairs and the true propensities.

    Parameters
    ----------
    n : int
        Number of contexts.
    coefficients : int
        Seed of the coefficients of the simulator. The sample drawn with these coefficients has its own seed, ``rng``.
    rng : int, numpy.random.Generator or None
        Seed of the sample, generator to advance, or None for fresh entropy.
    **parameters : float
        Any other parameter of :class:`Bt`, such as ``gamma``.

    Returns
    -------
    pandas.DataFrame
        As :meth:`Bt.sample`; there are no ties.

    Examples
    --------
    >>> battles = simulate_bt(300, gamma=1.0, rng=0)
    >>> battles[["model_a", "model_b"]].stack().nunique()
    4
    """
    return _simulator(Bt, coefficients, parameters).sample(n, rng)


def _simulator(kind: type[Simulator], coefficients: int, parameters: dict[str, float]) -> Simulator:
    """Return a simulator with these parameters; raise where one of them does not exist."""
    names = [field.name for field in fields(kind) if field.name != "coefficients"]
    if wrong := [name for name in parameters if name not in names]:
        raise OptionTypeError(
            f"{kind.__name__} has no parameter {wrong[0]!r}; it has {listed(names, limit=20)}{nearest(wrong[0], names)}"
        )
    return kind(coefficients, **parameters)  # type: ignore[arg-type]  # n_items and n_features are checked as ints


@checked
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
