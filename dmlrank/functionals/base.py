"""The protocol of a ranking functional, and its gauge: which combinations of scores it fixes."""

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
    """Directions of score space that the functional fixes, whatever the data say, and why.

    Parameters
    ----------
    basis : array, (g, K)
        Orthonormal rows; g = 0 where every score is identified by itself.
    reason : str
        For the reader of a summary, e.g. "scores sum to 0, so only differences between models are identified".
    """

    basis: FloatArray
    reason: str

    @classmethod
    def spanned_by(cls, directions: ArrayLike, reason: str) -> Gauge:
        """The gauge of independent directions, (g, K), made orthonormal.

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
        """Every score is identified by itself."""
        return cls(np.empty((0, n_items)), "the functional fixes no combination of the scores")

    @property
    def fixed(self) -> NDArray[np.bool_]:
        """Items whose own score is a constant, (K,): their standard error is zero by construction."""
        return np.asarray(np.square(self.basis).sum(axis=0) > 1 - 1e-9)


class Functional(Protocol):
    """A ranking functional F(mu), its directional derivative and what a label tells about it.

    Arrays hold n contexts: ``mu`` and ``delta`` are (n, K, K, C) with j first and k second in ``[:, j, k]``, scores
    are (n, K).
    """

    @property
    def name(self) -> str:
        """The word that ``functional=`` takes."""
        ...

    @property
    def label(self) -> str:
        """Human words for a header."""
        ...

    @property
    def interior(self) -> bool:
        """Whether a logit or a division needs ``mu`` to be floored away from 0 and 1."""
        ...

    def bind(
        self,
        weights: CategoryWeights | None = None,
        graph: Graph | None = None,
        edge_weights: FloatArray | None = None,
    ) -> Functional:
        """A copy in which what was not set yet is set."""
        ...

    def neutral(self, n_items: int) -> float | None:
        """Score of an item as good as the others; None where there is no such number."""
        ...

    def value(self, mu: FloatArray) -> FloatArray:
        """Scores, (n, K)."""
        ...

    def derivative(self, mu: FloatArray, delta: FloatArray) -> FloatArray:
        """Directional derivative of the scores at ``mu`` along ``delta``, (n, K)."""
        ...

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both, sharing the work."""
        ...

    def information(self, mu: FloatArray, metric: FloatArray | None = None) -> FloatArray:
        """Trace of metric J V J' for every ordered pair, (n, K, K): what one label of the pair tells."""
        ...

    def accumulate(self, mu: FloatArray, amount: FloatArray, labels: FloatArray | None = None) -> FloatArray:
        """Sum of amount J V J' over contexts and ordered pairs, (K, K), for amounts (n, K, K).

        J is taken at ``mu``, the covariance V of a label where its probabilities are ``labels``, by default ``mu``.
        """
        ...

    def gauge(self, n_items: int) -> Gauge:
        """What the scores cannot do."""
        ...


def is_linear(functional: object) -> bool:
    """Whether a functional is linear in mu; one that does not say is where it needs no floor.

    Examples
    --------
    >>> from dmlrank.functionals import Borda, Dominance
    >>> is_linear(Borda()), is_linear(Dominance())
    (True, False)
    """
    return bool(getattr(functional, "linear", not getattr(functional, "interior", True)))


def output_names(functional: object, items: Sequence[str]) -> tuple[str, ...]:
    """Names of a functional's outputs: the items, unless it has names of its own."""
    names = getattr(functional, "names", None)
    return tuple(items) if names is None else tuple(names(items))


@runtime_checkable
class Local(Protocol):
    """A score whose derivative along one pair's probabilities depends on these probabilities alone.

    Corrections then need mu at the labelled pairs only, not at all pairs of every context.
    """

    def value(self, mu: FloatArray) -> FloatArray:
        """Scores, (n, d)."""
        ...

    def derivative_at(
        self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray, n_items: int
    ) -> FloatArray:
        """Derivative, (r, d), along ``delta``, (r, C), at the ordered pairs (first, second) with ``mu``, (r, C)."""
        ...


@runtime_checkable
class AlongPairs(Protocol):
    """A score that knows its derivative at one mu along many directions, each of them zero but for one pair."""

    def derivative_along(self, mu: FloatArray, delta: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """Derivative, (r, d), at ``mu``, (K, K, C), along ``delta``, (r, C), at the ordered pairs (first, second)."""
        ...


def symmetric_metric(metric: FloatArray | None, n_items: int) -> FloatArray:
    """The symmetric part of a (K, K) metric, the identity where none was given.

    Raises
    ------
    OptionError
        If the shape is another one.
    """
    if metric is None:
        return np.eye(n_items)
    if metric.shape != (n_items, n_items):
        raise OptionError(f"metric has shape {metric.shape}, the scores need {(n_items, n_items)}")
    return (metric + metric.T) / 2
