"""Tails and quantiles of the laws of tests, from scipy.special: to load scipy.stats takes a third of a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, chdtri, fdtrc, fdtri, ndtr, ndtri, stdtr, stdtrit

Numbers = float | NDArray[np.float64]


def normal_tail(z: Numbers) -> Any:
    """Return the probability that a normal variable exceeds z."""
    return ndtr(np.negative(z))


def normal_critical(tail: Numbers) -> Any:
    """Return the number that a normal variable exceeds with a probability."""
    return -ndtri(tail)


def student_tail(t: Numbers, df: Numbers) -> Any:
    """Return the probability that a variable with Student's law exceeds t."""
    return stdtr(df, np.negative(t))


def student_critical(tail: Numbers, df: Numbers) -> Any:
    """Return the number that a variable with Student's law exceeds with a probability."""
    return -stdtrit(df, tail)


@dataclass(frozen=True, slots=True)
class WaldLaw:
    """A chi-squared law, or with ``second`` degrees of freedom that of ``scale`` times a variable of Fisher's F."""

    rank: float
    second: float = np.inf
    scale: float = 1.0

    @property
    def is_f(self) -> bool:
        """Whether the law is that of F."""
        return bool(np.isfinite(self.second))

    def tail(self, statistic: Numbers) -> Any:
        """Return the probability that a variable exceeds a statistic."""
        if self.is_f:
            return fdtrc(self.rank, self.second, np.divide(statistic, self.scale))
        return chdtrc(self.rank, statistic)

    def critical(self, tail: Numbers) -> Any:
        """Return the number that a variable exceeds with a probability."""
        if self.is_f:
            return self.scale * fdtri(self.rank, self.second, np.subtract(1, tail))
        return chdtri(self.rank, tail)
