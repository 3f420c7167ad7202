"""Joint draws of t statistics under the null hypothesis: from the normal limit, and by the multiplier bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
# Many contrasts have fewer draws, which still put 500 beyond a 95 % critical value.
_FEWEST_DRAWS = 10_000
# t statistics that are drawn at most: 100,000 draws for up to 40,000 contrasts, both directions of 200 models.
_MOST_STATISTICS = 4_000_000_000
# Products of draws and a factor's entries that are made at most: 100,000 draws for up to 500 scores.
_MOST_PRODUCTS = 25_000_000_000
# Up to so many independent units every draw has standard errors of its own; with more they hardly vary.
STUDENTISED = 1_000

# Units whose multipliers are drawn one by one, unless they are normal.
MULTIPLIED = 4_000

# One row of draws and a running maximum stay in the fastest memory.
_WIDTH = 4096
_SEED = 20260121
# Differences whose variance is below this share of the two scores' do not vary in the data.
_ROUNDING = 1e-12

Row = NDArray[np.floating[Any]]
# Draws, (c, b), of the c contrasts that are asked for by place; the caller may overwrite them.
Rows = Callable[[IntArray], Row]


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
        At most; more than 40,000 contrasts have fewer draws, 10,000 at least.
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
        n_draws = min(self.n_draws, _affordable(_MOST_STATISTICS, len(contrasts.first)))
        for start in range(0, n_draws, _WIDTH):
            width = min(_WIDTH, n_draws - start)
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

    Multipliers are independent with mean zero and variance one, and need not have one distribution. Of more than 4,000
    units, those 4,000 have the asked kind that add most to the variances; the others have normal ones. A sum with
    normal multipliers is normal with the covariance of its units and is drawn at once, so that a draw does not cost
    more with a million units than with thousands.

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
        multiplied, others = self._parts()
        n_units, n_scores = multiplied.shape
        root = _root(self.added + others)
        unit = float(np.median(contrasts.std_error))
        width = max(64, min(_WIDTH, 16_000_000 // max(n_units, 1)))
        for start in range(0, self.n_draws, width):
            size = min(width, self.n_draws - start)
            multipliers = draw_multipliers(rng, self.kind, (n_units, size))
            scores = np.zeros((n_scores + 1, size))
            scores[:-1] = (multiplied.T @ multipliers + root @ rng.standard_normal((n_scores, size))) / unit
            if len(self.rows) > STUDENTISED:
                yield _standardised_rows(scores, contrasts, unit)
            else:
                added = self.added / unit**2
                units, factor = self.rows / unit, self.small_sample
                yield _studentised_rows(scores, contrasts, multipliers, units=units, added=added, small_sample=factor)

    def _parts(self) -> tuple[FloatArray, FloatArray]:
        """The units that are multiplied one by one, (m, d), and the covariance of the others' sum, (d, d)."""
        n_units, n_scores = self.rows.shape
        most = MULTIPLIED if self.kind != "gaussian" else STUDENTISED
        if n_units <= most:
            return self.rows, np.zeros((n_scores, n_scores))
        if self.kind == "gaussian":
            return self.rows[:0], self.rows.T @ self.rows
        spread = np.square(self.rows).sum(axis=0)
        share = np.square(self.rows) @ np.divide(1.0, spread, out=np.zeros(n_scores), where=spread > 0)
        kept = np.zeros(n_units, dtype=bool)
        kept[np.argsort(-share, kind="stable")[:most]] = True
        others = self.rows[~kept]
        return self.rows[kept], others.T @ others


def normal_draws(covariance: Covariance, seed: int) -> NormalDraws:
    """Draws with this covariance, in the directions that the functional leaves free."""
    return NormalDraws(covariance.factor, seed)


def max_abs_normal_draws(factor: FloatArray) -> FloatArray:
    """Draws of the largest absolute coordinate of N(0, factor factor'), (draws,), for a factor (J, r).

    They do not depend on the fit's seed, and coordinates may be any combinations of scores, not differences alone.
    There are 100,000 of them for up to 500 coordinates, and fewer for more.
    """
    rng = np.random.default_rng(_SEED)
    step = 10_000 if len(factor) <= 500 else 1_000
    n_draws = min(NORMAL_DRAWS, _affordable(_MOST_PRODUCTS, factor.size))
    blocks = (rng.standard_normal((step, factor.shape[1])) @ factor.T for _ in range(n_draws // step))
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


def _root(matrix: FloatArray) -> FloatArray:
    """A factor, (d, d), of the positive part of a symmetric matrix; the rest is rounding."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _affordable(budget: int, each: int) -> int:
    """Draws that a budget of numbers allows where each draw needs some, in thousands and never too few.

    Examples
    --------
    >>> _affordable(4_000_000_000, 999_000), _affordable(4_000_000_000, 89_700)
    (10000, 44000)
    """
    return max(_FEWEST_DRAWS, budget // max(each, 1) // 1000 * 1000)


def _precision(factor: FloatArray, std_error: FloatArray) -> tuple[type[np.floating[Any]], float]:
    """Single precision unless a difference is far smaller than its scores; and a unit near the standard errors."""
    size = np.sqrt(np.square(factor).sum(axis=1).max())
    return (np.float32 if std_error.min() > 1e-4 * size else np.float64), float(np.median(std_error))


def _standardised_rows(scores: Row, contrasts: Contrasts, unit: float) -> Rows:
    """Rows from draws of the scores, (d + 1, b), in units of ``unit``; the last one is zero."""
    inverse = (unit / contrasts.std_error).astype(scores.dtype)

    def rows(which: IntArray) -> Row:
        made = scores[contrasts.first[which]]
        made -= scores[contrasts.second[which]]
        made *= inverse[which, None]
        return made

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
    n_units = len(units)

    def rows(which: IntArray) -> Row:
        first, second = contrasts.first[which], contrasts.second[which]
        each = units[:, first] - units[:, second]
        own = each.T @ multipliers
        variance = np.square(each).T @ squares - np.square(own) / n_units
        fixed = added[first, first] + added[second, second] - 2 * added[first, second]
        # All units on one side leave no spread: as far out as it gets.
        smallest = 1e-12 * np.square(each).sum(axis=0)[:, None]
        error = np.sqrt(small_sample * np.maximum(variance, smallest) + fixed[:, None])
        return np.asarray((scores[first] - scores[second]) / error)

    return rows
