"""What the estimator needs of the scores that it evaluates."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..data.preferences import FloatArray, IntArray


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

    def by_label(
        self, mu: FloatArray, contexts: IntArray, place: IntArray, first: IntArray, second: IntArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Scores of the contexts, (b, d), and what each label adds to its context's influence, (e, d)."""
        ...
