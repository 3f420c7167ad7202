"""Limits of means of scores and of their contrasts that hold where few things happen: one unseen unit on each side.

A unit is a prompt, or a cluster of prompts. A contrast has the unit values d_i = D + n phi_i, with D its estimate and
phi its influence values. For the lower limit one unit is added at the smallest value that an unseen one would have, for
the upper limit at the largest one, and up to half a unit on the other side. The mean of all units with Dirichlet
weights, a Bayesian bootstrap, has the first three moments of a scaled beta variable, whose quantile is the limit. The
fourth moment gives the degrees of freedom with which a normal quantile becomes Student's.

For scores of 0 and 1 the limit away from zero is that of Clopper and Pearson (1934), The use of confidence or fiducial
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
from scipy.special import betainc, betaincinv, ndtr, ndtri
from scipy.stats import norm
from scipy.stats import t as student

from ..data.preferences import FloatArray, IntArray
from ..exceptions import DataNotStoredError

# Contrasts as a matrix, (J, d); of many pairs it is sparse.
ContrastMatrix: TypeAlias = FloatArray | csr_array
# Tail probabilities are kept inside of these, so that z statistics are finite.
_TAILS = 1e-300, 1 - 1e-16
# Fewest independent units, prompts or clusters, for normal quantiles; below it they are Student's, but for means.
FEW_UNITS = 100
# A variance below this share of the sum of its terms, or of the square of the mean, is a rounding error.
_ROUNDING, _EXACT = 1e-12, 1e-26
# Stands for no bound of scores, and beyond its root there is none.
UNBOUNDED = 1e250
# Number of contrasts, and of unit values, that are in memory at a time.
_CONTRASTS, _VALUES = 2_000, 4_000_000
# How many deviations as large as the range of scores count with those of the sample. Twenty scores near one end of
# their range do not show the rare one at the other end.
_PRIOR = 0.05


def _ratio(a: FloatArray, b: FloatArray, otherwise: float = 0.0) -> FloatArray:
    return np.divide(a, b, out=np.full(np.broadcast(a, b).shape, otherwise), where=np.asarray(b) > 0)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Number of units, mean and central moments with divisor n of J contrasts, (J,) each."""

    n: FloatArray
    mean: FloatArray
    variance: FloatArray
    third: FloatArray
    fourth: FloatArray

    def mirrored(self) -> Moments:
        """Return the moments of the contrasts times minus one."""
        return replace(self, mean=-self.mean, third=-self.third)

    def stretched(self, factor: FloatArray) -> Moments:
        """Return the moments of units whose deviations from the mean are multiplied by a factor, (J,)."""
        second, third, fourth = self.variance * factor**2, self.third * factor**3, self.fourth * factor**4
        return replace(self, variance=second, third=third, fourth=fourth)

    def with_mass(self, mass: FloatArray | float, at: FloatArray) -> Moments:
        """Return the moments after ``mass`` further units with the value ``at``."""
        n, gap = self.n + mass, at - self.mean
        shift = mass * gap / n
        second, third, fourth = (
            (self.n * part + mass * gap**power) / n
            for part, power in ((self.variance, 2), (self.third, 3), (self.fourth, 4))
        )
        return Moments(
            n,
            self.mean + shift,
            np.maximum(second - shift**2, 0.0),
            third - 3 * shift * second + 2 * shift**3,
            np.maximum(fourth - 4 * shift * third + 6 * shift**2 * second - 3 * shift**4, 0.0),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The law of lower limits: ``left`` + (``right`` - ``left``) Beta(a, b) with the tails of Student's t, (J,) each.

    df: Degrees of freedom of t, which is scaled to a variance of one.
    most, least: The estimate, above which no limit is, and the smallest possible value.
    error: Limits are also at most ``most`` - t error; zero where they need not be.
    df_first: z becomes Student's with these degrees of freedom first.
    """

    left: FloatArray
    right: FloatArray
    a: FloatArray
    b: FloatArray
    df: FloatArray
    most: FloatArray
    least: FloatArray
    error: FloatArray
    df_first: FloatArray

    @classmethod
    def of(
        cls, m: Moments, low: FloatArray, high: FloatArray, is_difference: NDArray[np.bool_], least: FloatArray
    ) -> Side:
        """Return the law for contrasts whose unseen unit would have the value ``low``, or on the other side ``high``.

        x, the effective number of events above the mean, has the typical size r; x / (2 x + 2) of such an event is
        added, so that 0 of n has the limit 0.

        Units above and below a difference are different events: gains say nothing of losses, and four moments make the
        tail beyond the rarer events too short. A limit of differences is therefore never beyond the normal one whose
        variance has the added unit. Elsewhere mean and skewness determine the variance, whose own error counts: z
        becomes Student's, with as many degrees of freedom as (k - 1 - g^2) s^4 / n, k kurtosis and g skewness, says.
        For scores of 0 and 1 these are infinite.

        The excess kurtosis of a mean with Dirichlet weights is that of the beta variable plus 6 (k - 1 - g^2) / n.
        """
        slope = _ratio(m.third, m.variance)
        size = np.sqrt(_ratio(m.fourth, m.variance))
        events = m.n * _ratio(m.variance, size**2) * (1 + _ratio(slope, size)) / 2
        other = np.minimum(m.mean + size, np.maximum(high, m.mean))
        units = m.with_mass(1.0, np.minimum(low, m.mean)).with_mass(events / (2 * events + 2), other)
        slope = _ratio(units.third, units.variance)
        half = np.sqrt(slope**2 / 4 + units.variance)
        left, right = units.mean + slope / 2 - half, units.mean + slope / 2 + half
        share = np.clip(_ratio(half - slope / 2, 2 * half, 0.5), 1e-300, 1.0)
        beyond = _ratio(units.fourth, units.variance**2, 1.0) - 1 - _ratio(slope**2, units.variance)
        own = _ratio(m.fourth, m.variance**2, 1.0) - 1 - _ratio(m.third**2, m.variance**3)
        added = np.maximum(m.mean - low, 0.0) ** 2 / m.n
        return cls(
            left=left,
            right=right,
            a=units.n * share,
            b=np.maximum(units.n * (1 - share), 1e-300),
            df=4 + units.n / np.maximum(beyond, 1e-9 * units.n),
            most=m.mean,
            least=np.minimum(least, m.mean),
            error=np.where(is_difference, np.sqrt((m.variance + added) / m.n), 0.0),
            df_first=np.where(is_difference, 1e12, (m.n - 1) * np.maximum(1.0, 2 / np.maximum(own, 1e-9))),
        )

    def limit(self, z: FloatArray | float) -> FloatArray:
        """Return the lower limits at z, a normal quantile."""
        first = student.isf(norm.sf(z), self.df_first)
        t = student.isf(norm.sf(first), self.df) * np.sqrt(1 - 2 / self.df)
        spread = self.right > self.left
        a, b = np.where(spread, self.a, 1.0), np.where(spread, self.b, 1.0)
        limit = self.left + (self.right - self.left) * betaincinv(a, b, ndtr(-t))
        return np.maximum(np.minimum(limit, self.most - np.maximum(t, 0) * self.error), self.least)

    def evidence(self, delta: FloatArray | float) -> FloatArray:
        """Return the z at which the lower limits are delta: evidence that the contrasts are above delta."""
        spread = self.right > self.left
        unit = np.clip((delta - self.left) / np.where(spread, self.right - self.left, 1.0), 0.0, 1.0)
        below = np.where(spread, betainc(self.a, self.b, unit), np.asarray(delta) >= self.left)
        t = -ndtri(np.clip(below, *_TAILS))
        most = np.divide(self.most - delta, self.error, out=np.full(t.shape, np.inf), where=self.error > 0)
        t = np.minimum(t, most)
        z = norm.isf(np.clip(student.sf(t / np.sqrt(1 - 2 / self.df), self.df), *_TAILS))
        z = norm.isf(np.clip(student.sf(z, self.df_first), *_TAILS))
        z = np.where(np.asarray(delta) < self.least, norm.isf(_TAILS[0]), z)
        return np.where(np.asarray(delta) >= self.most, np.minimum(z, 0.0), z)


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Limits of some contrasts on both sides: of those of one set of means, or sums of those of several.

    Limits of a sum of independent contrasts have the distances that the root of the sum of squares has (Zou and Donner
    2008, Construction of confidence limits about effect measures, Statistics in Medicine 27).

    rows (j,): Places of the contrasts.
    estimate, factor (j,): Of the sums; distances are multiplied by the factor, because of dependence.
    lower, upper: Laws of lower limits of each summand, and of each times minus one.
    """

    rows: IntArray
    estimate: FloatArray
    factor: FloatArray
    lower: tuple[Side, ...]
    upper: tuple[Side, ...]

    def limit(self, sides: Sequence[Side], z: FloatArray | float) -> FloatArray:
        """Return lower limits, or minus the upper ones, at z."""
        if len(sides) == 1:
            return sides[0].limit(z)
        squares = np.add.reduce([np.square(side.most - side.limit(z)) for side in sides])
        estimate = self.estimate if sides is self.lower else -self.estimate
        return np.asarray(estimate - self.factor * np.sqrt(squares))

    def evidence(self, sides: Sequence[Side], delta: FloatArray) -> FloatArray:
        """Return the z at which limits are delta; of sums it is found by bisection, and is 0 beyond the estimate."""
        if len(sides) == 1:
            return sides[0].evidence(delta)
        low, high = np.zeros(len(self.rows)), np.full(len(self.rows), norm.isf(_TAILS[0]))
        for _ in range(50):
            z = (low + high) / 2
            excludes = self.limit(sides, z) > delta
            low, high = np.where(excludes, z, low), np.where(excludes, high, z)
        return np.where(delta < (self.estimate if sides is self.lower else -self.estimate), low, 0.0)


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
        z = norm.isf(np.maximum(student.sf(np.abs(t) / self.scale, self.df), _TAILS[0]))
        return np.where(self.few, np.sign(t) * z, t)

    def from_normal(self, z: float | FloatArray) -> FloatArray:
        """Return the numbers above zero that t statistics exceed as often as a normal variable exceeds z."""
        return np.where(self.few, self.scale * student.isf(norm.sf(z), self.df), z) if self.few.any() else np.asarray(z)


@dataclass(frozen=True, slots=True, eq=False)
class ContrastLaw:
    """Limits and z statistics of J contrasts: normal ones, Student's, or those of means of scores.

    estimate, std_error (J,): Normal limits have NaN statistics where a standard error is zero.
    sides: Limits of means of scores, of some of the contrasts each; empty for other limits.
    tails: Of each contrast's t statistic.
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
        if not self.sides:
            half_width = critical * self.std_error
            if np.ndim(self.tails.df):
                half_width = self.tails.from_normal(self.typical.to_normal(np.asarray(critical))) * self.std_error
            return self.estimate - half_width, self.estimate + half_width
        low, high = np.empty((2, len(self.estimate)))
        for some in self.sides:
            low[some.rows], high[some.rows] = some.limit(some.lower, critical), -some.limit(some.upper, critical)
        return low, high

    def statistics(self, delta: float = 0.0) -> FloatArray:
        """Return signed z statistics against delta: |z| > c exactly where the limits at c exclude delta."""
        z = np.full(len(self.estimate), np.nan)
        if not self.sides:
            return np.divide(self.estimate - delta, self.std_error, out=z, where=self.std_error > 0)
        for some in self.sides:
            above = some.evidence(some.lower, np.full(len(some.rows), delta))
            below = some.evidence(some.upper, np.full(len(some.rows), -delta))
            z[some.rows] = np.where(above > 0, above, np.where(below > 0, -below, 0.0))
        return z


@dataclass(frozen=True, slots=True, eq=False)
class MeanScores:
    """K means of scores over n units: what limits of their contrasts need.

    estimate (K,): The means.
    n: Number of units.
    m11, m21, m31, m22 (K + 1, K + 1): Means over units of products c_j^p c_k^q of centred values of the models, and of
        the mean of all models, the last row and column.
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
    m31: FloatArray
    m22: FloatArray
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
        products = [np.zeros((len(mean) + 1,) * 2) for _ in range(4)]
        for rows in np.array_split(values, max(1, values.size // _VALUES)):
            c = rows - mean
            c = np.column_stack([c, c.mean(axis=1)])
            square = c**2
            for total, first, second in zip(products, (c, square, square * c, square), (c, c, c, square), strict=True):
                total += first.T @ second / n
        m11, m21, m31, m22 = products
        return cls(estimate=mean, n=float(n), m11=m11, m21=m21, m31=m31, m22=m22, values=values, **known)

    def moments(self, matrix: FloatArray) -> Moments:
        """Return the moments of contrasts, (J, K): from the products those of one or two means or the mean of all."""
        constant = np.where((matrix != 0).sum(axis=1) > 2, np.median(matrix, axis=1), 0.0)
        terms = np.column_stack([matrix - constant[:, None], constant * matrix.shape[1]])
        terms[np.abs(terms) < 1e-13 * np.abs(terms).max(axis=1, initial=0.0, keepdims=True)] = 0.0
        mean, n = matrix @ self.estimate, np.full(len(matrix), self.n)
        variance, third, fourth = (np.zeros(len(matrix)) for _ in range(3))
        is_short = (terms != 0).sum(axis=1) <= 2
        if is_short.any():
            rows, place = terms[is_short], np.arange(int(is_short.sum()))
            a = np.abs(rows).argmax(axis=1)
            x = rows[place, a]
            rows[place, a] = 0.0
            b = np.abs(rows).argmax(axis=1)
            y = rows[place, b]
            m11, m21, m31, m22 = self.m11, self.m21, self.m31, self.m22
            variance[is_short] = x**2 * m11[a, a] + y**2 * m11[b, b] + 2 * x * y * m11[a, b]
            third[is_short] = x**3 * m21[a, a] + y**3 * m21[b, b] + 3 * x * y * (x * m21[a, b] + y * m21[b, a])
            fourth[is_short] = x**4 * m22[a, a] + y**4 * m22[b, b] + 6 * x**2 * y**2 * m22[a, b]
            fourth[is_short] += 4 * x * y * (x**2 * m31[a, b] + y**2 * m31[b, a])
        if not is_short.all():
            if self.values is None:
                raise DataNotStoredError(
                    "a combination of three or more means of scores needs the scores of the prompts, and this result "
                    "was stored without them; ask for one mean or for the difference of two, or fit again"
                )
            for rows in np.array_split(np.flatnonzero(~is_short), max(1, len(matrix) * len(self.values) // _VALUES)):
                d = (self.values - self.estimate) @ matrix[rows].T
                variance[rows], third[rows], fourth[rows] = ((d**power).mean(axis=0) for power in (2, 3, 4))
        least = _ROUNDING * (matrix**2 @ np.diag(self.m11)[:-1])
        varies = variance > least + _EXACT * (np.abs(matrix) @ np.abs(self.estimate)) ** 2
        return Moments(n, mean, *(np.where(varies, part, 0.0) for part in (variance, third, fourth)))

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
        bounds = plus @ self.least - minus @ self.most, plus @ self.most - minus @ self.least
        shift = estimate - moments.mean
        bottom, top = (np.where(np.abs(end) < np.sqrt(UNBOUNDED), shift + end, np.inf) for end in bounds)
        if std_error is not None:
            target = moments.n * std_error**2 / small_sample
            moments = moments.stretched(np.sqrt(np.where(target > 0, _ratio(target, moments.variance, 1.0), 1.0)))
        moments = replace(moments, mean=estimate)
        low = estimate + reach * np.minimum(lowest + shift - estimate, 0.0)
        high = estimate + reach * np.maximum(highest + shift - estimate, 0.0)
        return (
            Side.of(moments, low, high, is_difference, np.where(np.isfinite(bottom), bottom, -np.inf)),
            Side.of(moments.mirrored(), -high, -low, is_difference, -top),
        )


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

    def only(self, part: int, place: slice) -> CombinedMeans:
        """Return the combinations in a place that are those of one part."""
        return CombinedMeans((self.parts[part],), self.matrix[place, self._places[part]])

    def is_possible(self, n_estimates: int) -> bool:
        """Whether all numbers, as they are read from a file, are finite and have the right shapes and signs."""
        numbers = [self.matrix]
        for part in self.parts:
            k = len(part.estimate)
            vectors = [part.estimate, part.low, part.high, part.size, part.reach, part.least, part.most]
            products = [part.m11, part.m21, part.m31, part.m22]
            if [each.shape for each in vectors + products] != [(k,)] * len(vectors) + [(k + 1, k + 1)] * len(products):
                return False
            numbers += [np.array(part.n), *vectors, *products]
            if part.n < 2 or (part.reach <= 0).any() or min(np.diag(part.m11).min(), np.diag(part.m22).min()) < 0:
                return False
        n_means = sum(len(part.estimate) for part in self.parts)
        return self.matrix.shape == (n_estimates, n_means) and all(np.isfinite(each).all() for each in numbers)

    @property
    def own(self) -> FloatArray:
        """Half the variance, (d, d), that one unseen unit adds to a difference of two means: each mean's own part."""
        variance = np.concatenate([(part.size * part.reach / part.n) ** 2 / 2 for part in self.parts])
        return np.asarray((self.matrix * variance) @ self.matrix.T)

    def law(
        self, estimate: FloatArray, std_error: FloatArray, contrasts: ContrastMatrix | None, small_sample: float
    ) -> ContrastLaw:
        """Return the law of contrasts, (J, d), of the combinations, or of the combinations themselves.

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
        return ContrastLaw(estimate, std_error, tuple(found))


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
        lower, upper = part.sides(matrix, estimate, std_error, small_sample)
        return Sides(rows, estimate, np.ones(len(rows)), (lower,), (upper,))
    each = [part.sides(matrix, matrix @ part.estimate, None, small_sample) for part, matrix in summands]
    of_parts = [part.moments(matrix) for part, matrix in summands]
    variance = small_sample * np.add.reduce([m.variance / m.n for m in of_parts])
    factor = np.where(std_error > 0, np.sqrt(_ratio(std_error**2, variance, 1.0)), 1.0)
    return Sides(rows, estimate, factor, *(tuple(sides) for sides in zip(*each, strict=True)))


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

    own = sums(values - np.median(values, axis=0)) + _PRIOR * np.array([span**2, span**4])
    pair = sum((sums(values[:, :j] - values[:, [j]]) for j in range(1, values.shape[1])), np.zeros(2))
    deviation = float(np.sqrt(own[1] / own[0])) if own[0] > 0 else 0.0
    return deviation, float(np.sqrt(pair[1] / pair[0])) if pair[0] > 0 else deviation
