"""What the paper's simulators share: utilities, selection, sampling and the true scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, fields
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from ..exceptions import DataError
from .random_draws import FloatArray, IntArray, Rng, check_between, check_count, draw_categories, generator
from .true_scores import Scorer, true_scores

_LABELS = np.array(["model_a", "model_b", "tie"], dtype=object)
_CHUNK_CELLS = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """One draw of the simulators' coefficients, for K items, p features and q = min(2, p).

    ``linear`` (K, p), ``offset`` (K,), ``quadratic`` (K, q), ``phase`` (K,) make the utilities; ``selection`` (K,)
    makes some items more often selected than others.
    """

    linear: FloatArray
    offset: FloatArray
    quadratic: FloatArray
    phase: FloatArray
    selection: FloatArray


@dataclass(frozen=True, slots=True)
class Simulator(ABC):
    """A simulator with its parameters; subclasses say how utilities become probabilities of C outcomes."""

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
        check_count(self.coefficients, "coefficients", smallest=0)
        check_count(self.n_items, "n_items", smallest=2)
        check_count(self.n_features, "n_features")
        for option in _real_options(type(self)):
            check_between(getattr(self, option), option)
        for option in ("linear_scale", "quadratic_scale", "offset_scale", "selection_scale"):
            check_between(getattr(self, option), option, lower=0.0)
        check_between(self.temperature, "temperature", lower=1e-6)
        check_between(self.min_mass, "min_mass", 0.0, 1 / self.n_categories)
        check_between(self.propensity_rate, "propensity_rate", 1e-9, 1 - 1e-9)
        check_between(self.selection_strength, "selection_strength", 0.0, 1.0)
        check_between(self.propensity_min, "propensity_min", 0.0, 1.0)
        check_between(self.propensity_max, "propensity_max", self.propensity_min, 1.0)

    @abstractmethod
    def _probabilities(self, X: FloatArray) -> FloatArray:
        """Category probabilities before the minimum mass, (n, K, K, C)."""

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the items; zero-padded, so that sorting by name keeps their order."""
        width = len(str(self.n_items - 1))
        return tuple(f"model_{item:0{width}d}" for item in range(self.n_items))

    def draw(self) -> Coefficients:
        """The coefficients that ``coefficients`` names, always drawn in the same order."""
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
        """Features of ``n`` contexts, (n, p), uniform on the unit cube."""
        return generator(rng).random((check_count(n, "n"), self.n_features))

    def utilities(self, X: ArrayLike) -> FloatArray:
        """Utility of every item, (n, K), in the contexts ``X``, (n, p)."""
        features, drawn = self._checked(X), self.draw()
        squares = features[:, : drawn.quadratic.shape[1]] ** 2
        wave = np.sin(2 * np.pi * features[:, :1] + drawn.phase)
        return features @ drawn.linear.T + drawn.offset + squares @ drawn.quadratic.T + self.wave_scale * wave

    def mu(self, X: ArrayLike) -> FloatArray:
        """Category probabilities, (n, K, K, C) with a zero diagonal, in the contexts ``X``, (n, p).

        Raises
        ------
        DataError
            If ``X`` is not a finite (n, p) array.
        """
        mu = np.maximum(self._probabilities(self._checked(X)), self.min_mass)
        mu /= mu.sum(axis=-1, keepdims=True)
        return _without_diagonal(mu)

    def propensity(self, X: ArrayLike) -> FloatArray:
        """Probability that the ordered pair is labelled, (n, K, K) with a zero diagonal, in ``X``, (n, p).

        Raises
        ------
        DataError
            If ``X`` is not a finite (n, p) array.
        """
        features, effect = self._checked(X), self.draw().selection
        score = logit(self.propensity_rate) - self.selection_decay * np.abs(self.advantage(features))
        score += self.selection_tilt * (features[:, 0] - 0.5)[:, None, None] + effect[:, None] + effect
        mixed = (1 - self.selection_strength) * self.propensity_rate + self.selection_strength * expit(score)
        return _without_diagonal(np.clip(mixed, self.propensity_min, self.propensity_max))

    def sample(self, n: int, rng: Rng = None) -> pd.DataFrame:
        """Contexts, selected pairs and their labels, one row per label.

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
            (shown first and second), ``winner`` (``model_a``, ``model_b`` or ``tie``) and ``propensity`` (true, of
            that row's pair). A context without a label keeps one row, with the last four missing. Contexts are in
            order; the first row of each holds its features exactly.

        Raises
        ------
        OptionError, OptionTypeError
            If ``n`` or ``rng`` are not what is asked for.
        """
        rng = generator(rng)
        X = self.features(n, rng)
        propensity = self.propensity(X)
        cells = np.nonzero(rng.random(propensity.shape) < propensity)
        labels = draw_categories(self.mu(X)[cells], rng)
        return _long_frame(X, cells, labels, propensity[cells], self.models)

    def truth(self, functional: str | Scorer, n: int = 1_000_000, rng: Rng = 0) -> pd.Series:
        """True scores by model: the mean of F(mu(X)) over ``n`` fresh contexts.

        Parameters
        ----------
        functional : str or functional
            ``"borda"``, ``"bt"`` or ``"rank_centrality"`` with ties one half, or any functional with a ``value``.
        n : int
            Number of contexts; the Monte-Carlo error is the scores' spread over contexts divided by its root.
        rng : int, numpy.random.Generator or None
            Source of the contexts. The default gives the same numbers every time.

        Returns
        -------
        pandas.Series
            Scores, (K,), by model.
        """
        weighted = self._weighted(check_count(n, "n"), generator(rng))
        return true_scores(functional, weighted, n_categories=self.n_categories, models=self.models)

    def _weighted(self, n: int, rng: np.random.Generator) -> Iterator[tuple[FloatArray, FloatArray]]:
        size = max(1, _CHUNK_CELLS // (self.n_items**2 * self.n_categories))
        for start in range(0, n, size):
            mu = self.mu(self.features(min(size, n - start), rng))
            yield mu, np.ones(len(mu))

    def advantage(self, X: FloatArray) -> FloatArray:
        """Advantage d of the item shown first over the one shown second, (n, K, K)."""
        utilities = self.utilities(X) / self.temperature
        tilt = self.position_effect * (X[:, 0] - 0.5)
        return utilities[:, :, None] - utilities[:, None, :] + tilt[:, None, None]

    def _checked(self, X: ArrayLike) -> FloatArray:
        features = np.asarray(X, dtype=float)
        if features.ndim != 2 or features.shape[1] != self.n_features:
            raise DataError(f"X has shape {features.shape}; needed is (n, {self.n_features}), a row per context")
        if not np.isfinite(features).all():
            raise DataError("X holds nan or infinite values")
        return features


def _real_options(kind: type[Simulator]) -> list[str]:
    return [field.name for field in fields(kind) if field.type in (float, "float")]


def _without_diagonal(values: FloatArray) -> FloatArray:
    items = np.arange(values.shape[1])
    values[:, items, items] = 0.0
    return values


def _long_frame(
    X: FloatArray, cells: tuple[IntArray, ...], labels: IntArray, propensity: FloatArray, models: tuple[str, ...]
) -> pd.DataFrame:
    """A row per label (context, first, second in ``cells``) and per context without one, in order of contexts."""
    context, first, second = cells
    unlabelled = np.setdiff1d(np.arange(len(X)), context)
    rows = np.concatenate([context, unlabelled])
    order = np.argsort(rows, kind="stable")
    rows, names = rows[order], np.array(models, dtype=object)

    def column(values: NDArray, missing: object) -> NDArray:
        return np.concatenate([values, np.full(len(unlabelled), missing, dtype=values.dtype)])[order]

    return pd.DataFrame(
        {"question_id": rows}
        | {f"x{position}": X[rows, position] for position in range(X.shape[1])}
        | {
            "model_a": column(names[first], None),
            "model_b": column(names[second], None),
            "winner": column(_LABELS[labels], None),
            "propensity": column(propensity, np.nan),
        }
    )
