"""Protocols with the methods that the one-step estimator calls on a score, and records of pairs and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..data.preferences import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class OrderedPairs:
    """Ordered pairs of items.

    first, second (r,): Codes of the item shown first and of the item shown second.
    n_items: K, the number of all items.
    """

    first: IntArray
    second: IntArray
    n_items: int


@dataclass(frozen=True, slots=True, eq=False)
class LabelRows:
    """Labelled cells of a set of contexts.

    place (e,): Place of each cell's context in the set of contexts.
    first, second (e,): Codes of the item shown first and of the item shown second.
    y (e, C): Mean labels of the cells.
    """

    place: IntArray
    first: IntArray
    second: IntArray
    y: FloatArray


class Score(Protocol):
    """The methods of a functional that the one-step estimator calls.

    For a score that is also a :class:`.base.PairLocalScore`, the estimator needs mu at the labelled pairs only.
    """

    @property
    def interior(self) -> bool:
        """Whether ``mu`` has to be clipped at a floor."""
        ...

    def value(self, mu: FloatArray) -> FloatArray:
        """Return the d scores F(mu) of b contexts, (b, d), from their probabilities ``mu``, (b, K, K, C)."""
        ...

    def value_and_derivative(self, mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return F(mu) and its derivative along ``delta``, (b, d) each."""
        ...


@runtime_checkable
class LabelScore(Protocol):
    """A score with a method that computes the contribution of each label to the influence values.

    The estimator calls this method instead of the derivative along the residuals of the labels.
    """

    @property
    def interior(self) -> bool:
        """Whether ``mu`` has to be clipped at a floor."""
        ...

    def by_label(self, mu: FloatArray, contexts: IntArray, labels: LabelRows) -> tuple[FloatArray, FloatArray]:
        """Return the scores of b contexts, (b, d), and the term of each label in its context's influence, (e, d).

        Shapes: mu (b, K, K, C), contexts (b,).
        """
        ...
