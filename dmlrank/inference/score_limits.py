"""Limits of means of scores and of their contrasts that hold where few things happen: one unseen unit on each side.

A unit is a prompt, or a cluster of prompts. A contrast has the unit values d_i = D + n phi_i, with D its estimate and
phi its influence values. For the lower limit one unit is added at the smallest value that an unseen one would have, for
the upper limit at the largest one. The mean of all units with Dirichlet weights, a Bayesian bootstrap, has the first
three moments of a scaled beta variable, whose quantile is the limit. The saddlepoint of this mean itself has limits
0.94 to 1.09 times as wide, needs all values, and is not exact for 0 of n.

For scores of 0 and 1 the limits are those of Clopper and Pearson (1934), The use of confidence or fiducial
limits, Biometrika 26; of 0 in n it is 1 - tail^(1 / n), the rule of three. Limits become normal as 1 / sqrt(n). What
they cover is in docs/validity.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.sparse import csr_array, issparse
from scipy.special import betainc, betaincinv, chdtrc, chdtri, fdtrc, fdtri, ndtr, ndtri, stdtr, stdtrit

from ..data.preferences import FloatArray, IntArray
from ..estimation.unanimous_pairs import RULE_OF_THREE
from ..exceptions import DataNotStoredError

# Contrasts as a matrix, (J, d); of many pairs it is sparse.
ContrastMatrix: TypeAlias = FloatArray | csr_array
# Tail probabilities are kept inside of these, so that z statistics are finite.
_TAILS = 1e-300, 1 - 1e-16
# Fewest independent units, prompts or clusters, for normal quantiles; below it they are Student's, but for means.
FEW_UNITS = 100
# A variance below this share of the sum of its terms, or of the square of the mean, is a rounding error.
_ROUNDING, _EXACT = 1e-12, 1e-26
# Stands for no bound of scores.
UNBOUNDED = 1e250
# Number of contrasts, and of unit values, that are in memory at a time.
_CONTRASTS, _VALUES = 2_000, 4_000_000
# How many deviations as large as the range of scores count with those of the sample. Twenty scores near one end of
# their range do not show the rare one at the other end. Of differences, many fewer: the models share hard prompts.
_PRIOR, _PRIOR_OF_PAIRS = 0.05, 5e-5


# Tails and quantiles are those of scipy.special: to load scipy.stats takes a third of a second.
Numbers = float | NDArray[np.float64]


def normal_tail(z: Numbers) -> Any:
    """Return the probability that a normal variable exceeds z."""
    return ndtr(np.negative(z))


def normal_critical(tail: Numbers) -> Any:
    """Return the number that a normal variable exceeds with a probability."""
    return -ndtri(tail)


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


def _ratio(a: FloatArray, b: FloatArray, otherwise: float = 0.0) -> FloatArray:
    return np.divide(a, b, out=np.full(np.broadcast(a, b).shape, otherwise), where=np.asarray(b) > 0)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Number of units, mean and central moments with divisor n of J contrasts, (J,) each."""

    n: FloatArray
    mean: FloatArray
    variance: FloatArray
    third: FloatArray

    def mirrored(self) -> Moments:
        """Return the moments of the contrasts times minus one."""
        return replace(self, mean=-self.mean, third=-self.third)

    def with_unit(self, value: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return number of units, mean, variance and third moment after a further unit with a value, (J,)."""
        n, gap = self.n + 1, value - self.mean
        shift = gap / n
        second, third = ((self.n * part + gap**power) / n for part, power in ((self.variance, 2), (self.third, 3)))
        variance = np.maximum(second - shift**2, 0.0)
        return n, self.mean + shift, variance, third - 3 * shift * second + 2 * shift**3


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The law of lower limits: ``left`` + (``right`` - ``left``) Beta(a, b), (J,) each.

    most, least: The estimate, above which no limit is, and the smallest possible value.
    error: Limits are also at most ``most`` - z error; zero where they need not be.
    """

    left: FloatArray
    right: FloatArray
    a: FloatArray
    b: FloatArray
    most: FloatArray
    least: FloatArray
    error: FloatArray

    @classmethod
    def of(cls, m: Moments, low: FloatArray, is_difference: NDArray[np.bool_], least: FloatArray) -> Side:
        """Return the law for contrasts whose unseen unit would have the value ``low``.

        Units above and below a difference are different events: gains say nothing of losses, and three moments make the
        tail beyond the rarer events too short. A limit of differences is therefore never beyond the normal one whose
        variance has the added unit.
        """
        n, mean, variance, third = m.with_unit(np.minimum(low, m.mean))
        slope = _ratio(third, variance)
        half = np.sqrt(slope**2 / 4 + variance)
        left, right = mean + slope / 2 - half, mean + slope / 2 + half
        share = np.clip(_ratio(half - slope / 2, 2 * half, 0.5), 1e-300, 1.0)
        added = np.maximum(m.mean - low, 0.0) ** 2 / m.n
        return cls(
            left=left,
            right=right,
            a=n * share,
            b=np.maximum(n * (1 - share), 1e-300),
            most=m.mean,
            least=np.minimum(least, m.mean),
            error=np.where(is_difference, np.sqrt((m.variance + added) / m.n), 0.0),
        )

    def limit(self, z: FloatArray | float) -> FloatArray:
        """Return the lower limits at z, a normal quantile."""
        spread = self.right > self.left
        a, b = np.where(spread, self.a, 1.0), np.where(spread, self.b, 1.0)
        limit = self.left + (self.right - self.left) * betaincinv(a, b, normal_tail(z))
        return np.maximum(np.minimum(limit, self.most - np.maximum(z, 0) * self.error), self.least)

    def evidence(self, delta: FloatArray | float) -> FloatArray:
        """Return the z at which the lower limits are delta: evidence that the contrasts are above delta."""
        spread = self.right > self.left
        unit = np.clip((delta - self.left) / np.where(spread, self.right - self.left, 1.0), 0.0, 1.0)
        below = np.where(spread, betainc(self.a, self.b, unit), np.asarray(delta) >= self.left)
        z = normal_critical(np.clip(below, *_TAILS))
        most = np.divide(self.most - delta, self.error, out=np.full(z.shape, np.inf), where=self.error > 0)
        z = np.minimum(z, most)
        z = np.where(np.asarray(delta) < self.least, normal_critical(_TAILS[0]), z)
        return np.where(np.asarray(delta) >= self.most, np.minimum(z, 0.0), z)


@dataclass(frozen=True, slots=True, eq=False)
class SummedSide:
    """The law of lower limits of sums of independent contrasts, such as those of several sets of means.

    They have the distances that the root of the sum of squares has (Zou and Donner 2008, Construction of confidence
    limits about effect measures, Statistics in Medicine 27).

    estimate, factor (j,): Of the sums; distances are multiplied by the factor, because of dependence.
    summands: Laws of the limits of each summand.
    """

    estimate: FloatArray
    factor: FloatArray
    summands: tuple[Side, ...]

    def limit(self, z: FloatArray | float) -> FloatArray:
        """Return the lower limits at z, a normal quantile."""
        squares = np.add.reduce([np.square(side.most - side.limit(z)) for side in self.summands])
        return np.asarray(self.estimate - self.factor * np.sqrt(squares))

    def evidence(self, delta: FloatArray) -> FloatArray:
        """Return the z at which the lower limits are delta, by bisection; 0 beyond the estimate."""
        low, high = np.zeros(len(self.estimate)), np.full(len(self.estimate), normal_critical(_TAILS[0]))
        for _ in range(50):
            z = (low + high) / 2
            excludes = self.limit(z) > delta
            low, high = np.where(excludes, z, low), np.where(excludes, high, z)
        return np.where(delta < self.estimate, low, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Limits of some contrasts on both sides.

    rows (j,): Places of the contrasts.
    lower, upper: Laws of their lower limits, and of those of the contrasts times minus one.
    """

    rows: IntArray
    lower: Side | SummedSide
    upper: Side | SummedSide


@dataclass(frozen=True, slots=True, eq=False)
class Tails:
    """Tails of t statistics: normal, or with fewer than ``FEW_UNITS`` units Student's times a scale.

    df: Degrees of freedom of all statistics, or of each of J, (J,).
    """

    df: FloatArray | float = np.inf
    scale: float = 1.0

    @property
    def few(self) -> NDArray[np.bool_]:
        """Where the tails are Student's."""
        return np.asarray(self.df + 1 < FEW_UNITS)

    def to_normal(self, t: FloatArray) -> FloatArray:
        """Return the numbers that a normal variable exceeds as often as a t statistic exceeds t, (J,)."""
        if not self.few.any():
            return t
        z = normal_critical(np.maximum(stdtr(self.df, -np.abs(t) / self.scale), _TAILS[0]))
        return np.where(self.few, np.sign(t) * z, t)

    def from_normal(self, z: float | FloatArray) -> FloatArray:
        """Return the numbers above zero that t statistics exceed as often as a normal variable exceeds z."""
        return (
            np.where(self.few, -self.scale * stdtrit(self.df, normal_tail(z)), z) if self.few.any() else np.asarray(z)
        )


@dataclass(frozen=True, slots=True, eq=False)
class ContrastLaw:
    """Limits and z statistics of J contrasts: normal ones, Student's, those of means of scores, or those of win shares.

    estimate, std_error (J,): z statistics of normal limits and of win shares are NaN where a standard error is zero.
    sides: Limits of means of scores or of win shares, of some of the contrasts each; empty for other limits.
    tails: Of each contrast's statistic.
    typical: Tails to which critical values belong.
    """

    estimate: FloatArray
    std_error: FloatArray
    sides: tuple[Sides, ...] = ()
    tails: Tails = Tails()
    typical: Tails = Tails()

    def limits(self, critical: float) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper limits at a critical value, in standard errors unless they are those of means.

        A contrast with other tails than the typical ones has the critical value that it exceeds as often.
        """
        own: FloatArray = np.full(len(self.estimate), float(critical))
        if np.ndim(self.tails.df):
            own = self.tails.from_normal(self.typical.to_normal(own))
        if not self.sides:
            return self.estimate - own * self.std_error, self.estimate + own * self.std_error
        low, high = self.estimate.copy(), self.estimate.copy()
        for some in self.sides:
            z = own[some.rows]
            low[some.rows], high[some.rows] = some.lower.limit(z), -some.upper.limit(z)
        return low, high

    def statistics(self, delta: FloatArray | float = 0.0) -> FloatArray:
        """Return signed z statistics against delta, (J,): |z| > c exactly where the limits at c exclude delta."""
        z, delta = np.full(len(self.estimate), np.nan), np.broadcast_to(delta, self.estimate.shape)
        if not self.sides:
            return np.divide(self.estimate - delta, self.std_error, out=z, where=self.std_error > 0)
        for some in self.sides:
            above, below = some.lower.evidence(delta[some.rows]), some.upper.evidence(-delta[some.rows])
            z[some.rows] = np.where(above > 0, above, np.where(below > 0, -below, 0.0))
        return z


@dataclass(frozen=True, slots=True, eq=False)
class WinShares:
    """What limits of win shares from votes need: those of Clopper and Pearson, with an effective number of votes.

    low, high (d,): Smallest and largest possible values.
    df: Degrees of freedom of quantiles.
    """

    low: FloatArray
    high: FloatArray
    df: float

    @classmethod
    def between(cls, limits: tuple[float, float], size: int, df: float) -> WinShares | None:
        """Return what limits of scores between the same ``limits`` need; None where these are infinite."""
        low, high = np.outer(limits, np.ones(size))
        return cls(low, high, df) if np.isfinite(limits).all() else None

    @classmethod
    def side_by_side(cls, blocks: Sequence[WinShares]) -> WinShares:
        """Return what limits of the shares of several results together need."""
        low, high = (np.concatenate([getattr(block, end) for block in blocks]) for end in ("low", "high"))
        return cls(low, high, min(block.df for block in blocks))

    def combined(self, matrix: ContrastMatrix) -> WinShares:
        """Return the possible values of contrasts, (J, d)."""
        size = abs(matrix)
        plus, minus = (size + matrix) / 2, (size - matrix) / 2
        return WinShares(plus @ self.low - minus @ self.high, plus @ self.high - minus @ self.low, self.df)

    def sides(self, estimate: FloatArray, std_error: FloatArray) -> tuple[Sides, ...]:
        """Return the limits of the shares or contrasts, (d,), from their estimates and standard errors.

        Of all possible values, u of the way has the standard error s: so has a share of N = u (1 - u) / s^2 votes (Korn
        and Graubard 1998, Confidence intervals for proportions with small expected number of positive counts estimated
        from survey data, Survey Methodology 24). Less than one vote from an end, N is about 1 / s and, at the end,
        sqrt(c) / s, where labels that are all equal have been given the variance c / n.
        """
        rows = np.flatnonzero((std_error > 0) & (self.high > self.low))
        estimate_of, low, high = estimate[rows], self.low[rows], self.high[rows]
        u, s = np.clip((estimate_of - low) / (high - low), 0, 1), std_error[rows] / (high - low)
        near = np.minimum(u, 1 - u)
        at_end = 1 + (np.sqrt(RULE_OF_THREE) - 1) * np.maximum(1 - near / s, 0)
        n = np.maximum(u * (1 - u) / s**2, at_end * np.sqrt(1 - near) / s)
        none = np.zeros(len(rows))

        def side(u: FloatArray, most: FloatArray, low: FloatArray, high: FloatArray) -> Side:
            a = np.maximum(n * u, 1e-300)
            return Side(low, high, a, n * (1 - u) + 1, most, np.minimum(low, most), none)

        return (Sides(rows, side(u, estimate_of, low, high), side(1 - u, -estimate_of, -high, -low)),)


def df_of_shares(influence: FloatArray) -> float:
    """Return the degrees of freedom of standard errors of win shares, from influence values of prompts, (n, d).

    (k - 1 - g^2) s^4 / n is the variance of a variance that mean and skewness do not determine, with kurtosis k and
    skewness g. It is zero where every prompt has one vote on the same pair; of all shares the mean counts.
    """
    centred = influence - influence.mean(axis=0)
    second, third, fourth = ((centred**power).mean(axis=0) for power in (2, 3, 4))
    second = np.where(second > _EXACT, second, 0.0)
    own = _ratio(fourth, second**2, 1.0) - 1 - _ratio(third**2, second**3)
    return float((len(influence) - 1) * np.maximum(1.0, 2 / np.maximum(own.mean(), 1e-9)))


@dataclass(frozen=True, slots=True, eq=False)
class MeanScores:
    """K means of scores over n units: what limits of their contrasts need.

    estimate (K,): The means.
    n: Number of units.
    m11, m21 (K + 1, K + 1): Means over units of products c_j^p c_k^q of centred values of the models, and of the mean
        of all models, the last row and column.
    low, high (K,): Values that an unseen unit would have in a mean, on both sides.
    size (K,): Typical size of a difference of two models on a unit.
    reach (K,): How much farther from the mean than ``low`` and ``high`` an unseen unit is: above one where prompts have
        unequal weights, or few of them a score of the model.
    least, most (K,): Bounds of the scores.
    values (n, K): Unit values; None in a stored result.
    """

    estimate: FloatArray
    n: float
    m11: FloatArray
    m21: FloatArray
    low: FloatArray
    high: FloatArray
    size: FloatArray
    reach: FloatArray
    least: FloatArray
    most: FloatArray
    values: FloatArray | None = field(default=None, metadata={"stored": False})

    @classmethod
    def of(cls, values: FloatArray, **known: Any) -> MeanScores:
        """Return the means of unit values, (n, K), with the fields that these do not tell."""
        mean, n = values.mean(axis=0), len(values)
        m11, m21 = np.zeros((2, len(mean) + 1, len(mean) + 1))
        for rows in np.array_split(values, max(1, values.size // _VALUES)):
            c = rows - mean
            c = np.column_stack([c, c.mean(axis=1)])
            m11 += c.T @ c / n
            m21 += np.square(c).T @ c / n
        return cls(estimate=mean, n=float(n), m11=m11, m21=m21, values=values, **known)

    def moments(self, matrix: FloatArray) -> Moments:
        """Return the moments of contrasts, (J, K): from the products those of one or two means or the mean of all."""
        constant = np.where((matrix != 0).sum(axis=1) > 2, np.median(matrix, axis=1), 0.0)
        terms = np.column_stack([matrix - constant[:, None], constant * matrix.shape[1]])
        terms[np.abs(terms) < 1e-13 * np.abs(terms).max(axis=1, initial=0.0, keepdims=True)] = 0.0
        mean, n = matrix @ self.estimate, np.full(len(matrix), self.n)
        variance, third = np.zeros((2, len(matrix)))
        is_short = (terms != 0).sum(axis=1) <= 2
        if is_short.any():
            rows, place = terms[is_short], np.arange(int(is_short.sum()))
            a = np.abs(rows).argmax(axis=1)
            x = rows[place, a]
            rows[place, a] = 0.0
            b = np.abs(rows).argmax(axis=1)
            y = rows[place, b]
            m11, m21 = self.m11, self.m21
            variance[is_short] = x**2 * m11[a, a] + y**2 * m11[b, b] + 2 * x * y * m11[a, b]
            third[is_short] = x**3 * m21[a, a] + y**3 * m21[b, b] + 3 * x * y * (x * m21[a, b] + y * m21[b, a])
        if not is_short.all():
            if self.values is None:
                raise DataNotStoredError(
                    "a combination of three or more means needs scores that are not stored; ask for the difference of "
                    "two, or fit again"
                )
            for rows in np.array_split(np.flatnonzero(~is_short), max(1, len(matrix) * len(self.values) // _VALUES)):
                d = (self.values - self.estimate) @ matrix[rows].T
                variance[rows], third[rows] = (d**2).mean(axis=0), (d**3).mean(axis=0)
        least = _ROUNDING * (matrix**2 @ np.diag(self.m11)[:-1])
        varies = variance > least + _EXACT * (np.abs(matrix) @ np.abs(self.estimate)) ** 2
        return Moments(n, mean, *(np.where(varies, part, 0.0) for part in (variance, third)))

    def sides(
        self, matrix: FloatArray, estimate: FloatArray, std_error: FloatArray | None, small_sample: float
    ) -> tuple[Side, Side]:
        """Return the laws of lower limits of contrasts, (J, K), and of these times minus one.

        estimate (J,): Of the contrasts; on another level it differs from that of the means by a constant.
        std_error (J,): Unit values are multiplied so that their variance is that behind the standard error, which may
            have more than their own, less its small-sample factor; None where it is their own.
        """
        moments = self.moments(matrix)
        plus, minus = np.maximum(matrix, 0.0), np.maximum(-matrix, 0.0)
        is_difference = np.abs(matrix.sum(axis=1)) < 1e-9 * np.abs(matrix).sum(axis=1)
        farthest = np.maximum(plus @ self.size, minus @ self.size)
        lowest = np.where(is_difference, -farthest, plus @ self.low - minus @ self.high)
        highest = np.where(is_difference, farthest, plus @ self.high - minus @ self.low)
        reach = ((matrix != 0) * self.reach).max(axis=1)
        low = estimate + reach * np.minimum(lowest - moments.mean, 0.0)
        high = estimate + reach * np.maximum(highest - moments.mean, 0.0)
        least, most = plus @ self.least - minus @ self.most, plus @ self.most - minus @ self.least
        least, most = (end + estimate - moments.mean for end in (least, most))
        if std_error is not None:
            target = moments.n * std_error**2 / small_sample
            factor = np.sqrt(np.where(target > 0, _ratio(target, moments.variance, 1.0), 1.0))
            moments = replace(moments, variance=moments.variance * factor**2, third=moments.third * factor**3)
        moments = replace(moments, mean=estimate)
        lower = Side.of(moments, low, is_difference, least)
        return lower, Side.of(moments.mirrored(), -high, is_difference, -most)


@dataclass(frozen=True, slots=True, eq=False)
class CombinedMeans:
    """Linear combinations of means of scores: of one set of means, or of several, such as groups or results.

    parts: The sets of means; those of the same units are one.
    matrix (d, D): The combinations of the D means of all parts.
    """

    parts: tuple[MeanScores, ...]
    matrix: FloatArray

    @classmethod
    def side_by_side(cls, blocks: Sequence[CombinedMeans], orders: Sequence[IntArray] | None = None) -> CombinedMeans:
        """Return the combinations of several results together, each of one part where ``orders`` are given.

        With orders, (n,) each, all results have the same units, which the orders make those of the same rows.
        """
        parts = tuple(part for block in blocks for part in block.parts)
        if orders is not None:
            values = [part.values[order] for part, order in zip(parts, orders, strict=True) if part.values is not None]
            names = ("low", "high", "size", "reach", "least", "most")
            known = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
            parts = (MeanScores.of(np.hstack(values), **known),)
        return cls(parts, np.asarray(block_diag(*(block.matrix for block in blocks))))

    def combined(self, matrix: FloatArray) -> CombinedMeans:
        """Return combinations, (J, d), of these combinations."""
        return replace(self, matrix=matrix @ self.matrix)

    @property
    def _places(self) -> list[slice]:
        """The columns of the matrix that are the means of each part."""
        ends = np.cumsum([0, *(len(part.estimate) for part in self.parts)]).tolist()
        return [slice(*pair) for pair in pairwise(ends)]

    @property
    def own(self) -> FloatArray:
        """Half the variance, (d, d), that one unseen unit adds to a difference of two means: each mean's own part."""
        variance = np.concatenate([(part.size * part.reach / part.n) ** 2 / 2 for part in self.parts])
        return np.asarray((self.matrix * variance) @ self.matrix.T)

    def sides(
        self, estimate: FloatArray, std_error: FloatArray, contrasts: ContrastMatrix | None, small_sample: float
    ) -> tuple[Sides, ...]:
        """Return the limits of contrasts, (J, d), of the combinations, or of the combinations themselves.

        estimate, std_error (J,): Of the contrasts.
        """
        contrasts = np.eye(len(self.matrix)) if contrasts is None else contrasts
        found, places = [], self._places
        for start in range(0, contrasts.shape[0], _CONTRASTS):
            some: Any = contrasts[start : start + _CONTRASTS]
            matrix = (some.toarray() if issparse(some) else some) @ self.matrix
            touched = np.column_stack([(matrix[:, place] != 0).any(axis=1) for place in places])
            touched[:, 0] |= ~touched.any(axis=1)
            for pattern in np.unique(touched, axis=0):
                inside = np.flatnonzero((touched == pattern).all(axis=1))
                rows, of_parts = inside + start, zip(self.parts, places, pattern, strict=True)
                chosen = [(part, matrix[inside, place]) for part, place, has in of_parts if has]
                found.append(_sides_of(rows, chosen, estimate[rows], std_error[rows], small_sample))
        return tuple(found)


def _sides_of(
    rows: IntArray,
    summands: Sequence[tuple[MeanScores, FloatArray]],
    estimate: FloatArray,
    std_error: FloatArray,
    small_sample: float,
) -> Sides:
    """Return the limits of contrasts that are sums of contrasts, (j, K) each, of sets of means."""
    if len(summands) == 1:
        part, matrix = summands[0]
        return Sides(rows, *part.sides(matrix, estimate, std_error, small_sample))
    each = [part.sides(matrix, matrix @ part.estimate, None, small_sample) for part, matrix in summands]
    of_parts = [part.moments(matrix) for part, matrix in summands]
    variance = small_sample * np.add.reduce([m.variance / m.n for m in of_parts])
    factor = np.where(std_error > 0, np.sqrt(_ratio(std_error**2, variance, 1.0)), 1.0)
    lower, upper = zip(*each, strict=True)
    return Sides(rows, SummedSide(estimate, factor, lower), SummedSide(-estimate, factor, upper))


def fewest_units(margin: float, tail: float, size: float = 1.0) -> int:
    """Return the number of units without an event from which a limit of ``tail`` excludes the margin."""
    return 1 if margin >= size else int(np.ceil(np.log(tail) / np.log1p(-margin / size) - 1e-9))


def typical_sizes(values: FloatArray, span: float) -> tuple[float, float]:
    """Return the typical sizes of a deviation of one model from its median and of a difference of two on a unit.

    Each is sqrt(sum d^4 / sum d^2), which is 1 for 0 and 1, and large for skewed scores. A share of a deviation as
    large as the range of scores, ``span``, counts with those of the sample. Where no model differs from another one, a
    difference has the size of a deviation.
    """
    smallest = 1e-12 * np.abs(values).max(initial=0.0)

    def sums(d: FloatArray) -> FloatArray:
        square = np.square(np.where(np.abs(d) > smallest, d, 0.0))
        return np.array([square.sum(), np.square(square).sum()])

    full = np.array([span**2, span**4])
    own = sums(values - np.median(values, axis=0)) + _PRIOR * full
    pair = sum((sums(values[:, :j] - values[:, [j]]) for j in range(1, values.shape[1])), np.zeros(2))
    deviation = float(np.sqrt(own[1] / own[0])) if own[0] > 0 else 0.0
    if not pair[0] > 0:
        return deviation, deviation
    pair = pair + _PRIOR_OF_PAIRS * full
    return deviation, float(np.sqrt(pair[1] / pair[0]))
