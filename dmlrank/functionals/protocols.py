"""Protocols of scores: what the one-step estimator asks of a functional."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..data.preferences import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class OrderedPairs:
    """Ordered pairs of items.

    Attributes
    ----------
    first, second : ndarray of int, shape (r,)
        The item shown first, and the item shown second.
    n_items : int
        K, all items there are.
    """

    first: IntArray
    second: IntArray
    n_items: int


@dataclass(frozen=True, slots=True, eq=False)
class LabelRows:
    """Labels of some contexts.

    Attributes
    ----------
    place : ndarray of int, shape (e,)
        Which of the contexts each label belongs to.
    first, second : ndarray of int, shape (e,)
        The item shown first, and the item shown second.
    y : ndarray, shape (e, C)
        Mean labels.
    """

    place: IntArray
    first: IntArray
    second: IntArray
    y: FloatArray


class Score(Protocol):
    """What the estimator needs of a functional; one that is :class:`Local`, too, needs mu at labelled pairs only."""

    @property
    def interior(self) -> bool:
        """Whether ``mu`` has to be floored."""
        ...

    def value(self, mu: FloatArray) -> FloatArray:
        """F(mu), (b, d)."""
        ...

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """F(mu) and DF(mu)[delta], (b, d) each."""
        ...


@runtime_checkable
class LabelScore(Protocol):
    """A score whose correction is not the derivative of a functional, but a sum over labels."""

    @property
    def interior(self) -> bool:
        """Whether ``mu`` has to be floored."""
        ...

    def by_label(self, mu: FloatArray, contexts: IntArray, labels: LabelRows) -> tuple[FloatArray, FloatArray]:
        """Scores of the contexts, (b, d), and what each label adds to its context's influence, (e, d)."""
        ...
