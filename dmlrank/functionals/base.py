"""The protocol of a ranking functional, and its gauge: the combinations of scores that the functional fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..data.graph import Graph
from ..data.preferences import FloatArray, IntArray
from ..exceptions import OptionError
from .category_weights import CategoryWeights


@dataclass(frozen=True, slots=True, eq=False)
class Gauge:
    """Linear combinations of scores that are constant whatever the data say, and the reason.

    Parameters
    ----------
    basis : array, (g, K)
        Coefficients of the combinations: orthonormal rows, none where every score is identified by itself.
    reason : str
        The reason for the reader of a summary, such as "scores sum to 0, so only differences between models are
        identified".
    """

    basis: FloatArray
    reason: str

    @classmethod
    def spanned_by(cls, directions: ArrayLike, reason: str) -> Gauge:
        """Return the gauge of linearly independent directions, (g, K), after making them orthonormal.

        Examples
        --------
        >>> Gauge.spanned_by([[3.0, 4.0]], "an example").basis
        array([[0.6, 0.8]])
        """
        rows = np.atleast_2d(np.asarray(directions, dtype=float))
        columns, upper = np.linalg.qr(rows.T)
        return cls(np.sign(np.diag(upper))[:, None] * columns.T, reason)

    @classmethod
    def none(cls, n_items: int) -> Gauge:
        """Return the gauge of a functional that fixes no combination: every score is identified by itself."""
        return cls(np.empty((0, n_items)), "the functional fixes no combination of the scores")

    @property
    def fixed(self) -> NDArray[np.bool_]:
        """Which items have a constant score, (K,): its standard error is zero by construction."""
        return np.asarray(np.square(self.basis).sum(axis=0) > 1 - 1e-9)


class Functional(Protocol):
    """A ranking functional F(mu), with its directional derivative and the information in labels.

    Arrays hold n contexts. ``mu`` and ``delta`` are (n, K, K, C), where ``[:, j, k]`` is about item j shown first and
    item k shown second. Scores are (n, K).
    """

    @property
    def name(self) -> str:
        """Name for the option ``functional=``."""
        ...

    @property
    def label(self) -> str:
        """Name and short description, for headers."""
        ...

    @property
    def interior(self) -> bool:
        """Whether ``mu`` has to be clipped at a floor, because the functional has a logit or a division."""
        ...

    def bind(
        self,
        weights: CategoryWeights | None = None,
        graph: Graph | None = None,
        edge_weights: FloatArray | None = None,
    ) -> Functional:
        """Return a copy in which the arguments fill in what has not been set yet."""
        ...

    def neutral(self, n_items: int) -> float | None:
        """Return the score of an item that is as good as the others; None where this score is not a fixed number."""
        ...

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the scores, (n, K)."""
        ...

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the directional derivative of the scores at ``mu`` along ``delta``, (n, K)."""
        ...

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return scores and directional derivative, (n, K) each, with shared computations."""
        ...

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        """Return the trace of metric J V J' for every ordered pair, (n, K, K): the variance that one label adds."""
        ...

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Return the sum of amount J V J' over contexts and ordered pairs, (K, K), for amounts (n, K, K).

        J is the Jacobian at ``mu``. V is the covariance of a label whose probabilities are ``labels``, by default
        ``mu``.
        """
        ...

    def gauge(self, n_items: int) -> Gauge:
        """Return the combinations of scores that the functional fixes."""
        ...


def is_linear(functional: object) -> bool:
    """Whether a functional is linear in mu; without an attribute ``linear``, whether it needs no floor.

    Examples
    --------
    >>> from dmlrank.functionals import Borda, Dominance
    >>> is_linear(Borda()), is_linear(Dominance())
    (True, False)
    """
    return bool(getattr(functional, "linear", not getattr(functional, "interior", True)))


def output_names(functional: object, items: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a functional's outputs: the items, unless the functional has its own names."""
    names = getattr(functional, "names", None)
    return tuple(items) if names is None else tuple(names(items))


@runtime_checkable
class PairLocalScore(Protocol):
    """A score whose derivative in the probabilities of a pair depends on the probabilities of this pair alone.

    The correction of such a score needs mu at the labelled pairs only, not at all pairs of every context.
    """

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the scores, (n, d)."""
        ...

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Return the derivative, (r, d), along directions that are zero except at one ordered pair each.

        Parameters
        ----------
        mu : ndarray, shape (r, C)
            Category probabilities of the pairs.
        delta : ndarray, shape (r, C)
            Directions.
        first, second : ndarray of int, shape (r,)
            The ordered pair of each direction.
        n_items : int
            K.
        """
        ...


@runtime_checkable
class PairDerivativeScore(Protocol):
    """A score with a fast derivative at one mu along many directions, each of which is zero except at one pair."""

    def derivative_along(self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Return the derivative, (r, d), along directions that are zero except at one ordered pair each.

        Parameters
        ----------
        mu : ndarray, shape (K, K, C)
            Category probabilities of all pairs in one context.
        delta : ndarray, shape (r, C)
            Directions.
        first, second : ndarray of int, shape (r,)
            The ordered pair of each direction.
        """
        ...


def symmetric_metric(metric: FloatArray | None, n_items: int) -> FloatArray:
    """Return the symmetric part of a metric, (K, K); by default the identity.

    Raises
    ------
    OptionError
        If the metric has another shape.
    """
    if metric is None:
        return np.eye(n_items)
    if metric.shape != (n_items, n_items):
        raise OptionError(f"metric has shape {metric.shape}; allowed for these scores: {(n_items, n_items)}")
    return (metric + metric.T) / 2
