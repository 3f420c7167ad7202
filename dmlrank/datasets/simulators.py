"""The simulators of Frauen et al. (2026), and what they share: utilities, selection of pairs, sampling, true scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit, logit, softmax

from .._utils.argument_checks import check_whole, checked, number_in, resolve_seed
from ..data.arrays import FloatArray, IntArray
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

    linear (K, p): Coefficients of the features in the utilities, W.
    offset (K,): Constants of the utilities, b.
    quadratic (K, q): Coefficients of the squares of the first q features, W_q.
    phase (K,): Phases of the wave, phi.
    selection (K,): How much each item raises the log-odds that its pairs are labelled, b_pi.
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
            Features of the contexts.

        Returns
        -------
        numpy.ndarray, shape (n, K)
            Utilities u, before the division by ``temperature``.

        Raises
        ------
        DataError
            If ``X`` is not a finite (n, p) array.
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
            Columns ``question_id`` (the context, 0 to n - 1), ``x0`` ... (the features), ``model_a`` and ``model_b``
            (shown first and second), ``winner`` (``model_a``, ``model_b`` or ``tie``) and ``propensity`` (the true
            propensity of the row's pair). A context without a label has one row, in which the last four columns are
            missing. Rows are sorted by context.
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
            ``"borda"``, ``"bt"`` or ``"rank_centrality"`` with ties one half, or any functional with a ``value``.
        n : int
            Number of contexts. The Monte-Carlo error is the scores' standard deviation over contexts divided by the
            square root of ``n``.
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

    Probabilities below ``min_mass`` are raised to ``min_mass``, and then all are renormalised. The defaults are those
    of the experiment of Frauen et al. on debiasing. Their experiment with external judges is ``Ties(n_features=5)``.

    Parameters
    ----------
    coefficients : int
        Seed of the coefficients. With two features, true BT scores span 1.7 with 0, 1.1 with 3 and 3.0 with 4.
    n_items, n_features : int
        Number of items, K, and of features, p. With a single feature, the tie term uses it in place of x_1.
    linear_scale, quadratic_scale : float
        Standard deviation of the coefficients W (sigma_l) and of the coefficients W_q of the squares (sigma_q).
    wave_scale : float
        Amplitude of the wave, s.
    offset_scale : float
        Standard deviation of the constants b.
    temperature : float
        Number by which differences of utilities are divided, T.
    position_effect : float
        How much the first feature changes the advantage of the item shown first, beta.
    min_mass : float
        Smallest probability of a category, epsilon_mu.
    propensity_rate : float
        Probability that a pair is labelled if the selection depends on neither context nor items, pi_p.
    selection_strength : float
        Weight of the part of a propensity that depends on context and items, lambda_pi: from 0, where every propensity
        is ``propensity_rate``, to 1.
    selection_decay : float
        How much more often pairs with similar utilities are labelled, kappa_pi.
    selection_tilt : float
        How much the first feature changes a propensity, eta_pi.
    selection_scale : float
        Standard deviation of the items' selection effects b_pi.
    propensity_min, propensity_max : float
        Bounds to which propensities are clipped, pi_min and pi_max.
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
    coefficients, n_items, n_features : int
        As those of :class:`Ties`.
    linear_scale, quadratic_scale, wave_scale, offset_scale, temperature, position_effect, min_mass : float
        As those of :class:`Ties`.
    propensity_rate, selection_strength, selection_decay, selection_tilt, selection_scale : float
        As those of :class:`Ties`.
    propensity_min, propensity_max : float
        As those of :class:`Ties`.
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
