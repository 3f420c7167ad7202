"""Joint draws of t statistics under the null hypothesis: from the normal limit, and by the multiplier bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..data.preferences import FloatArray, IntArray
from ..exceptions import check_choice
from .covariance import Covariance

MULTIPLIERS = ("gaussian", "rademacher", "webb")

NORMAL_DRAWS = 100_000
BOOTSTRAP_DRAWS = 20_000
# Up to so many independent units every draw has standard errors of its own; with more they hardly vary.
STUDENTISED = 1_000

# One row of draws and a running maximum stay in the fastest memory.
_WIDTH = 4096
_SEED = 20260121
# Differences whose variance is below this share of the two scores' do not vary in the data.
_ROUNDING = 1e-12

Row = NDArray[np.floating[Any]]
# Rows of draws, (b,), of the contrasts that are asked for; each is overwritten by the next.
Rows = Callable[[Iterable[int]], Iterator[Row]]


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts:
    """Differences of scores, or scores themselves.

    Attributes
    ----------
    first, second : ndarray of int, shape (J,)
        Scores whose difference is meant; ``second`` is d, the number of scores, where the first stands alone.
    std_error : ndarray, shape (J,)
        Zero where a contrast is fixed by the functional or does not vary in the data.
    """

    first: IntArray
    second: IntArray
    std_error: FloatArray

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Where there is something to test, (J,)."""
        return self.std_error > 0

    def take(self, which: IntArray | NDArray[np.bool_]) -> Contrasts:
        """Some of the contrasts."""
        return Contrasts(self.first[which], self.second[which], self.std_error[which])

    def both_ways(self) -> Contrasts:
        """The contrasts, then all of them the other way round, (2J,); for differences."""
        first, second = np.concatenate([self.first, self.second]), np.concatenate([self.second, self.first])
        return Contrasts(first, second, np.tile(self.std_error, 2))


def differences(covariance: Covariance, first: IntArray, second: IntArray) -> Contrasts:
    """Differences of scores with their standard errors; ``second`` may be d, see :class:`Contrasts`.

    Parameters
    ----------
    covariance : Covariance
        Of d scores.
    first, second : ndarray of int, shape (J,)
    """
    padded = np.pad(covariance.matrix, (0, 1))
    own = np.diag(padded)
    total = own[first] + own[second]
    variance = total - 2 * padded[first, second]
    return Contrasts(first, second, np.sqrt(np.where(variance > _ROUNDING * total, variance, 0.0)))


class TStatisticDraws(Protocol):
    """Draws from the joint null distribution of t statistics."""

    @property
    def normal(self) -> bool:
        """Whether every t statistic is standard normal."""
        ...

    def blocks(self, contrasts: Contrasts) -> Iterator[Rows]:
        """Blocks of draws of the contrasts' t statistics; their standard errors are positive."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class NormalDraws:
    """t statistics under joint normality.

    Attributes
    ----------
    factor : ndarray, shape (d, r)
        The covariance is ``factor @ factor.T``.
    seed : int
        Of the fit, so that the same fit always has the same critical values.
    n_draws : int
    """

    factor: FloatArray
    seed: int
    n_draws: int = NORMAL_DRAWS

    @property
    def normal(self) -> bool:
        """Whether every t statistic is standard normal."""
        return True

    def blocks(self, contrasts: Contrasts) -> Iterator[Rows]:
        """Blocks of draws of the contrasts' t statistics."""
        rng = np.random.default_rng([_SEED, self.seed])
        # What all scores share cancels in differences; without it single precision is enough.
        alone = (contrasts.second == len(self.factor)).any()
        factor = self.factor if alone else self.factor - self.factor.mean(axis=0)
        kind, unit = _precision(factor, contrasts.std_error)
        scaled = (factor / unit).astype(kind)
        for start in range(0, self.n_draws, _WIDTH):
            width = min(_WIDTH, self.n_draws - start)
            scores = np.zeros((len(factor) + 1, width), dtype=kind)
            scores[:-1] = scaled @ rng.standard_normal((factor.shape[1], width), dtype=kind)
            yield _standardised_rows(scores, contrasts, unit)


@dataclass(frozen=True, slots=True, eq=False)
class MultiplierBootstrap:
    """t statistics from the influence of independent units, each multiplied by a random number.

    Attributes
    ----------
    rows : ndarray, shape (g, d)
        What each independent unit (a context, or a cluster of them) adds to the error of the estimate, whose
        covariance is ``small_sample * rows.T @ rows + added``.
    small_sample : float
        The factor that standard errors of few clusters have; those of the draws have it, too.
    added : ndarray, shape (d, d)
        Covariance of what comes on top, drawn as a normal error of its own: other deals of folds, and the correction
        for a shrunken mu. What is not positive in it is rounding, and left out.
    kind : {"gaussian", "rademacher", "webb"}
        Standard normal; one or minus one; the six points of Webb, for a handful of clusters.
    seed : int
    n_draws : int

    Notes
    -----
    With at most 1,000 units every draw is divided by a standard error of its own, from the multiplied and centred
    rows (bootstrap-t): that is what makes few clusters wider than the normal distribution.

    References
    ----------
    Chernozhukov, Chetverikov and Kato (2013), Gaussian approximations and multiplier bootstrap for maxima of sums;
    Cameron, Gelbach and Miller (2008), Bootstrap-based improvements for inference with clustered errors; Webb (2023),
    Reworking wild bootstrap-based inference for clustered errors.
    """

    rows: FloatArray
    small_sample: float
    added: FloatArray
    kind: str
    seed: int
    n_draws: int = BOOTSTRAP_DRAWS

    @property
    def normal(self) -> bool:
        """Whether every t statistic is standard normal."""
        return False

    def blocks(self, contrasts: Contrasts) -> Iterator[Rows]:
        """Blocks of draws of the contrasts' t statistics."""
        rng = np.random.default_rng([_SEED, self.seed])
        n_units, n_scores = self.rows.shape
        values, vectors = np.linalg.eigh(self.added)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        unit = float(np.median(contrasts.std_error))
        width = max(64, min(_WIDTH, 16_000_000 // n_units))
        for start in range(0, self.n_draws, width):
            size = min(width, self.n_draws - start)
            multipliers = draw_multipliers(rng, self.kind, (n_units, size))
            scores = np.zeros((n_scores + 1, size))
            scores[:-1] = (self.rows.T @ multipliers + root @ rng.standard_normal((n_scores, size))) / unit
            if n_units > STUDENTISED:
                yield _standardised_rows(scores, contrasts, unit)
            else:
                added = self.added / unit**2
                units, factor = self.rows / unit, self.small_sample
                yield _studentised_rows(scores, contrasts, multipliers, units=units, added=added, small_sample=factor)


def normal_draws(covariance: Covariance, seed: int) -> NormalDraws:
    """Draws with this covariance, in the directions that the functional leaves free."""
    return NormalDraws(covariance.factor, seed)


def max_abs_normal_draws(factor: FloatArray) -> FloatArray:
    """Draws of the largest absolute coordinate of N(0, factor factor'), (100,000,), for a factor (J, r).

    They do not depend on the fit's seed, and coordinates may be any combinations of scores, not differences alone.
    """
    rng = np.random.default_rng(_SEED)
    step = 10_000 if len(factor) <= 1000 else 1_000
    blocks = (rng.standard_normal((step, factor.shape[1])) @ factor.T for _ in range(NORMAL_DRAWS // step))
    return np.concatenate([np.abs(block).max(axis=1) for block in blocks])


def draw_multipliers(rng: np.random.Generator, kind: str, size: tuple[int, ...]) -> FloatArray:
    """Independent numbers with mean zero and variance one.

    Examples
    --------
    >>> sorted(set(draw_multipliers(np.random.default_rng(0), "webb", (100,)).round(3).tolist()))
    [-1.225, -1.0, -0.707, 0.707, 1.0, 1.225]
    """
    check_choice(kind, MULTIPLIERS, "bootstrap")
    if kind == "gaussian":
        return rng.standard_normal(size)
    points = np.array([1.0]) if kind == "rademacher" else np.sqrt([0.5, 1.0, 1.5])
    points = np.concatenate([-points, points])
    drawn: FloatArray = points[rng.integers(0, len(points), size=size, dtype=np.int8)]
    return drawn


def _precision(factor: FloatArray, std_error: FloatArray) -> tuple[type[np.floating[Any]], float]:
    """Single precision unless a difference is far smaller than its scores; and a unit near the standard errors."""
    size = np.sqrt(np.square(factor).sum(axis=1).max())
    return (np.float32 if std_error.min() > 1e-4 * size else np.float64), float(np.median(std_error))


def _standardised_rows(scores: Row, contrasts: Contrasts, unit: float) -> Rows:
    """Rows from draws of the scores, (d + 1, b), in units of ``unit``; the last one is zero."""
    inverse = (unit / contrasts.std_error).astype(scores.dtype)
    first, second = contrasts.first.tolist(), contrasts.second.tolist()

    def rows(which: Iterable[int]) -> Iterator[Row]:
        row = np.empty(scores.shape[1], dtype=scores.dtype)
        for i in which:
            np.subtract(scores[first[i]], scores[second[i]], out=row)
            np.multiply(row, inverse[i], out=row)
            yield row

    return rows


def _studentised_rows(
    scores: FloatArray,
    contrasts: Contrasts,
    multipliers: FloatArray,
    *,
    units: FloatArray,
    added: FloatArray,
    small_sample: float,
) -> Rows:
    """Rows from draws of the scores, each difference over its standard error in the draw."""
    units, added = np.pad(units, ((0, 0), (0, 1))), np.pad(added, (0, 1))
    squares = np.square(multipliers)
    n_units, step = len(units), 256

    def rows(which: Iterable[int]) -> Iterator[Row]:
        order = np.fromiter(which, dtype=np.intp)
        for start in range(0, len(order), step):
            first, second = (side[order[start : start + step]] for side in (contrasts.first, contrasts.second))
            each = units[:, first] - units[:, second]
            own = each.T @ multipliers
            variance = np.square(each).T @ squares - np.square(own) / n_units
            fixed = added[first, first] + added[second, second] - 2 * added[first, second]
            # All units on one side leave no spread: as far out as it gets.
            smallest = 1e-12 * np.square(each).sum(axis=0)[:, None]
            error = np.sqrt(small_sample * np.maximum(variance, smallest) + fixed[:, None])
            yield from (scores[first] - scores[second]) / error

    return rows
