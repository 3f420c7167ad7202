"""Tests of families: t statistics drawn from the normal limit or the multiplier bootstrap, and adjusted p-values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._utils.tasks_and_threads import current, in_order, one_thread, threads_of_fit
from ..data.arrays import FloatArray, IntArray, RowRecord
from .covariance import Covariance, root_of
from .score_limits import normal_critical

# Number of draws under normality, and of the bootstrap.
NORMAL_DRAWS = 100_000
BOOTSTRAP_DRAWS = 20_000
# Smallest number of draws, for many contrasts: 250 of them lie beyond a 95 % critical value.
_FEWEST_DRAWS = 5_000
# Largest number of drawn t statistics: 100,000 draws for up to 20,000 pairs in both directions (200 models have 19,900
# pairs).
_MAX_STATISTICS = 4_000_000_000
# Largest number of multiplications of :func:`max_abs_normal_draws`: 100,000 draws for up to 500 scores.
_MAX_PRODUCTS = 25_000_000_000
# Largest number of contrasts times draws that are in memory at a time.
_MOST_DRAWN = 50_000_000
# Largest number of independent units for which every draw is divided by standard errors of its own. With more units
# these standard errors hardly vary.
STUDENTISED = 1_000

# Largest number of units for which one multiplier each is drawn, if the multipliers are not normal. For normal
# multipliers this number is STUDENTISED: with more units, the sum over all units is drawn from its normal distribution.
MULTIPLIED = 4_000

# Number of draws that are made at a time.
_WIDTH = 4096
# Number of draws that are processed together, unless each has standard errors of its own.
_DRAWS_IN_CACHE = 2048
# Largest number of t statistics of scores with all others that are compared at a time, and largest share of all that
# are compared in this way.
_COMPARED, _MOST_COMPARED = 1_000_000, 0.3
# Largest number of columns of which maxima by row are computed column by column.
_FEW_COLUMNS = 16
_SEED = 20260121
# A difference does not vary in the data where its variance is below this share of the variances of the two scores.
_ROUNDING = 1e-12

# Draws in single or double precision.
Draws: TypeAlias = NDArray[np.floating[Any]]
# Takes the indices of c contrasts and returns their draws, (c, b), in a new array.
DrawContrasts: TypeAlias = Callable[[IntArray], Draws]


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts(RowRecord):
    """Differences of scores, or scores themselves.

    first, second (J,): The contrast is the difference first - second of two scores, or the first score alone where
        ``second`` is d, the number of scores.
    std_error (J,): Zero where the functional fixes a contrast or the contrast does not vary in the data.
    """

    first: IntArray
    second: IntArray
    std_error: FloatArray

    @property
    def n_pairs(self) -> int:
        """Number of different pairs of scores, whatever the direction of their difference."""
        n_scores = 1 + max(int(self.first.max(initial=0)), int(self.second.max(initial=0)))
        is_compared = np.zeros((n_scores, n_scores), dtype=bool)
        is_compared[np.minimum(self.first, self.second), np.maximum(self.first, self.second)] = True
        return int(is_compared.sum())


def differences(covariance: Covariance, first: IntArray, second: IntArray) -> Contrasts:
    """Return differences of scores with their standard errors; ``second`` may be d, see :class:`Contrasts`."""
    padded = np.pad(covariance.matrix, (0, 1))
    variances = np.diag(padded)
    total = variances[first] + variances[second]
    variance = total - 2 * padded[first, second]
    return Contrasts(first, second, np.sqrt(np.where(variance > _ROUNDING * total, variance, 0.0)))


@dataclass(frozen=True, slots=True, eq=False)
class NormalDraws:
    """t statistics under joint normality.

    factor (d, r): The covariance is ``factor @ factor.T``.
    seed: Seed of the fit, so that a fit always has the same critical values.
    n_draws: Largest number of draws; with more than 20,000 pairs of scores there are fewer, but at least 5,000.
    """

    factor: FloatArray
    seed: int
    n_draws: int = NORMAL_DRAWS
    # Whether every t statistic is standard normal.
    normal: ClassVar[bool] = True

    def blocks(self, contrasts: Contrasts) -> Iterator[DrawContrasts]:
        """Yield blocks of draws of the contrasts' t statistics."""
        rng = np.random.default_rng([_SEED, self.seed])
        # The mean of the scores cancels in differences. After subtracting it, single precision is accurate enough.
        has_single_scores = max(contrasts.first.max(), contrasts.second.max()) == len(self.factor)
        factor = self.factor if has_single_scores else self.factor - self.factor.mean(axis=0)
        size, scale = np.sqrt(np.square(factor).sum(axis=1).max()), float(np.median(contrasts.std_error))
        dtype: type[np.floating[Any]] = np.float32 if contrasts.std_error.min() > 1e-4 * size else np.float64
        scaled = (factor / scale).astype(dtype)
        # Tests of pairs in one direction and in both directions have the same draws, and so the same critical value.
        n_affordable = _MAX_STATISTICS // max(2 * contrasts.n_pairs, 1) // 1000 * 1000
        n_draws = min(self.n_draws, max(_FEWEST_DRAWS, n_affordable))
        for start in range(0, n_draws, _WIDTH):
            width = min(_WIDTH, n_draws - start)
            scores = np.zeros((len(factor) + 1, width), dtype=dtype)
            scores[:-1] = scaled @ rng.standard_normal((factor.shape[1], width), dtype=dtype)
            yield from DrawnScores.parts(scores, contrasts, scale)


@dataclass(frozen=True, slots=True, eq=False)
class MultiplierBootstrap:
    """t statistics by the multiplier bootstrap: the influence of each independent unit times a random number.

    units (g, d): Contribution of each independent unit (a context, or a cluster of contexts) to the error of the
        estimate, whose covariance is ``small_sample * units.T @ units + added``.
    small_sample: Small-sample factor of the standard errors with clusters; the standard errors of the draws use it,
        too.
    added (d, d): Covariance that the influence values do not contain, drawn as an independent normal error: from other
        assignments to folds, and from the correction for a shrunken mu. Negative eigenvalues are rounding and are
        dropped.
    kind: Distribution of the multipliers: standard normal; one or minus one; or Webb's six points, for few clusters.

    Notes
    -----
    With at most 1,000 units every draw is divided by a standard error of its own, computed from the multiplied and
    centred contributions (bootstrap-t). With few clusters the draws therefore have heavier tails than the normal
    distribution.

    Multipliers are independent with mean zero and variance one; their distributions may differ. With more than 4,000
    units, the 4,000 units with the largest part in the variances have multipliers of the chosen kind, and all other
    units have normal multipliers. A sum with normal multipliers is normal with the covariance of the units, and is
    drawn at once: a draw with a million units takes no longer than one with 4,000.

    References
    ----------
    Chernozhukov, Chetverikov and Kato (2013), Gaussian approximations and multiplier bootstrap for maxima of sums;
    Cameron, Gelbach and Miller (2008), Bootstrap-based improvements for inference with clustered errors; Webb (2023),
    Reworking wild bootstrap-based inference for clustered errors.
    """

    units: FloatArray
    small_sample: float
    added: FloatArray
    kind: str
    seed: int
    n_draws: int = BOOTSTRAP_DRAWS
    normal: ClassVar[bool] = False

    def blocks(self, contrasts: Contrasts) -> Iterator[DrawContrasts]:
        """Yield blocks of draws of the contrasts' t statistics."""
        rng = np.random.default_rng([_SEED, self.seed])
        multiplied, remaining_covariance = self._split_units()
        n_units, n_scores = multiplied.shape
        root = root_of(self.added + remaining_covariance)
        scale = float(np.median(contrasts.std_error))
        width = max(64, min(_WIDTH, 16_000_000 // max(n_units, 1)))
        for start in range(0, self.n_draws, width):
            size = min(width, self.n_draws - start)
            multipliers = draw_multipliers(rng, self.kind, (n_units, size))
            scores = np.zeros((n_scores + 1, size))
            scores[:-1] = (multiplied.T @ multipliers + root @ rng.standard_normal((n_scores, size))) / scale
            if len(self.units) > STUDENTISED:
                yield from DrawnScores.parts(scores, contrasts, scale)
            else:
                yield self._studentised_draws(scores, contrasts, multipliers, scale)

    def _studentised_draws(
        self, scores: FloatArray, contrasts: Contrasts, multipliers: FloatArray, scale: float
    ) -> DrawContrasts:
        """Return a function that computes draws of contrasts, each divided by the standard error in the same draw."""
        units, added = np.pad(self.units / scale, ((0, 0), (0, 1))), np.pad(self.added / scale**2, (0, 1))
        squares = np.square(multipliers)

        def draw_contrasts(selected: IntArray) -> Draws:
            first, second = contrasts.first[selected], contrasts.second[selected]
            unit_contrasts = units[:, first] - units[:, second]
            total = unit_contrasts.T @ multipliers
            variance = np.square(unit_contrasts).T @ squares - np.square(total) / len(units)
            added_variance = added[first, first] + added[second, second] - 2 * added[first, second]
            # Where the multiplied contributions of all units are equal, their variance in the draw is zero up to
            # rounding. A lower limit keeps the t statistic finite, though very large.
            smallest = 1e-12 * np.square(unit_contrasts).sum(axis=0)[:, None]
            std_error = np.sqrt(self.small_sample * np.maximum(variance, smallest) + added_variance[:, None])
            return np.asarray((scores[first] - scores[second]) / std_error)

        return draw_contrasts

    def _split_units(self) -> tuple[FloatArray, FloatArray]:
        """Return the units that are multiplied one by one, (m, d), and the covariance of the remaining sum, (d, d)."""
        n_units, n_scores = self.units.shape
        max_multiplied = MULTIPLIED if self.kind != "gaussian" else STUDENTISED
        if n_units <= max_multiplied:
            return self.units, np.zeros((n_scores, n_scores))
        if self.kind == "gaussian":
            return self.units[:0], self.units.T @ self.units
        total = np.square(self.units).sum(axis=0)
        share = np.square(self.units) @ np.divide(1.0, total, out=np.zeros(n_scores), where=total > 0)
        is_multiplied = np.zeros(n_units, dtype=bool)
        is_multiplied[np.argsort(-share, kind="stable")[:max_multiplied]] = True
        remaining = self.units[~is_multiplied]
        return self.units[is_multiplied], remaining.T @ remaining


def max_abs_normal_draws(factor: FloatArray) -> FloatArray:
    """Draw the largest absolute coordinate of N(0, factor factor'), (draws,), for a factor of shape (J, r).

    The draws do not depend on the seed of the fit. Coordinates may be any combinations of scores. There are 100,000
    draws for up to 500 coordinates, and fewer for more coordinates.
    """
    rng = np.random.default_rng(_SEED)
    step = 10_000 if len(factor) <= 500 else 1_000
    n_draws = min(NORMAL_DRAWS, max(_FEWEST_DRAWS, _MAX_PRODUCTS // max(factor.size, 1) // 1000 * 1000))

    def maxima_of(normal: FloatArray) -> FloatArray:
        rows = normal @ factor.T
        np.abs(rows, out=rows)
        # For few columns, maxima column by column are several times as fast.
        return np.asarray(reduce(np.maximum, rows.T) if rows.shape[1] <= _FEW_COLUMNS else rows.max(axis=1))

    normals = (rng.standard_normal((step, factor.shape[1])) for _ in range(n_draws // step))
    n_threads = min(threads_of_fit(), max(1, _MOST_DRAWN // (step * len(factor))))
    return np.concatenate([*in_order(maxima_of, normals, n_threads, boosts=False)])


def draw_multipliers(rng: np.random.Generator, kind: str, size: tuple[int, ...]) -> FloatArray:
    """Draw independent numbers with mean zero and variance one, of one of the ``options.MULTIPLIERS``."""
    if kind == "gaussian":
        return rng.standard_normal(size)
    points = np.array([1.0]) if kind == "rademacher" else np.sqrt([0.5, 1.0, 1.5])
    points = np.concatenate([-points, points])
    drawn: FloatArray = points[rng.integers(0, len(points), size=size, dtype=np.int8)]
    return drawn


@dataclass(frozen=True, slots=True, eq=False)
class DrawnScores:
    """Draws of scores, whose differences are divided by the same standard errors in all draws.

    scores (d + 1, b): The last row is zero.
    inverse (J,): One over the standard errors of the contrasts, in units of the scores.
    """

    scores: Draws
    contrasts: Contrasts
    inverse: Draws

    @classmethod
    def parts(cls, scores: Draws, contrasts: Contrasts, scale: float) -> Iterator[DrawnScores]:
        """Yield draws that are processed together."""
        inverse = (scale / contrasts.std_error).astype(scores.dtype)
        for start in range(0, scores.shape[1], _DRAWS_IN_CACHE):
            yield cls(scores[:, start : start + _DRAWS_IN_CACHE], contrasts, inverse)

    def __call__(self, selected: IntArray) -> Draws:
        """Return the t statistics of c contrasts, (c, b)."""
        drawn = self.scores[self.contrasts.first[selected]]
        drawn -= self.scores[self.contrasts.second[selected]]
        drawn *= self.inverse[selected, None]
        return drawn

    def count_exceedances(self, by_size: IntArray, t: FloatArray) -> tuple[FloatArray, Draws]:
        """Do what :func:`_count_exceedances` does, with the opposites, where there are many contrasts of few scores.

        The largest t statistic among some opposites of a draw is a lower limit of its running maximum, and few
        contrasts exceed it. With scores s = u sd, the t statistic of j and k is at most the larger of u_j and u_k
        times (2 sd_j^2 + 2 sd_k^2)^(1/2) / se_jk, by the inequality of Cauchy and Schwarz, whatever the sd are. Only
        scores of which this bound exceeds the limit are compared with all others.
        """
        scores, n_tested = np.ascontiguousarray(self.scores.T), len(by_size)
        width, size = scores.shape
        first, second = self.contrasts.first[by_size], self.contrasts.second[by_size]
        # One over the standard error of each pair, and the place of each direction: 0 for opposites.
        rate, place = np.zeros((size, size), scores.dtype), np.zeros((size, size), dtype=np.intp)
        rate[first, second] = rate[second, first] = self.inverse[by_size]
        place[first, second] = np.arange(1, n_tested + 1)
        variance = np.maximum(np.square(scores).mean(axis=0), 1e-12)
        bound = (rate * np.sqrt(2 * (variance[:, None] + variance))).max(axis=1) / np.sqrt(variance) * (1 + 1e-4)
        bounds, draws, limit = scores * bound, np.arange(width), np.zeros(width, scores.dtype)
        of_opposites = np.where(place > 0, -rate, rate)
        for score in (bounds.argmax(axis=1), bounds.argmin(axis=1)):
            drawn = (scores[draws, score][:, None] - scores) * of_opposites[score]
            np.maximum(limit, drawn.max(axis=1), out=limit)
        draw, score = np.divmod(np.flatnonzero(np.abs(bounds) > limit[:, None]), size)
        if len(draw) * size > _MOST_COMPARED * n_tested * width:
            return _count_exceedances(self, by_size, t, np.ones(n_tested, dtype=bool), "opposites", _STEP_OF_MANY)
        found = [(draws, np.zeros(width, np.intp), limit)]
        step = max(1, _COMPARED // size)
        for part in (slice(start, start + step) for start in range(0, len(draw), step)):
            drawn = (scores[draw[part], score[part]][:, None] - scores[draw[part]]) * rate[score[part]]
            row, other = np.divmod(np.flatnonzero(np.abs(drawn) > limit[draw[part], None]), size)
            value, one = drawn[row, other], score[part][row]
            found.append((draw[part][row], np.where(value > 0, place[one, other], place[other, one]), np.abs(value)))
        # The running maximum of each draw, as steps: from one place to the next.
        drawn_in, start, value = map(np.concatenate, zip(*found, strict=True))
        by_value, order = np.argsort(value, kind="stable"), np.lexsort((start, drawn_in))
        size_of = np.empty_like(by_value)
        size_of[by_value] = np.arange(len(value))
        drawn_in, start = drawn_in[order], start[order]
        running = np.maximum.accumulate(size_of[order] + len(value) * drawn_in) - len(value) * drawn_in
        maximum, is_last = value[by_value][running], np.append(np.diff(drawn_in) > 0, True)
        start, stop = np.maximum(start, 1), np.where(is_last, n_tested + 1, np.append(start[1:], 0))
        stop = np.minimum(stop, 1 + np.searchsorted(t.astype(scores.dtype), maximum, side="right"))
        begins, ends = (np.bincount(at[stop > start], minlength=n_tested + 2) for at in (start, stop))
        return np.cumsum(begins - ends)[1:-1].astype(float), maximum[is_last]


# Which t statistics of a contrast count: its own, its absolute value, or its own as tested and the opposite one as not.
Sides: TypeAlias = Literal["one", "absolute", "opposites"]
# Draws from the joint null distribution of t statistics.
TStatisticDraws: TypeAlias = NormalDraws | MultiplierBootstrap


# Number of contrasts whose draws are processed together: of few contrasts, and of many, which several threads share.
# These wait for one another after every operation on arrays.
_STEP, _STEP_OF_MANY = 32, 256
# Fewest contrasts whose blocks of draws are shared among threads; for fewer, threads take more time than they save.
_FEWEST_FOR_THREADS = 1000
# Smallest adjusted p-value that draws can give: one over the number of draws, which is below a million.
_SMALLEST_SHARE = 1e-6

# A quantile of the draws is used only where at least this number of draws lies beyond the quantile. In the same way,
# the share of draws beyond a t statistic is used only where it is the share of at least this number of draws.
_FEWEST_BEYOND = 10


def holm(p: FloatArray) -> FloatArray:
    """Adjust p-values, (m,), by Holm's step-down.

    ``multipletests`` of statsmodels gives the same numbers, but its Holm branch runs the garbage collector and takes
    150 ms a call, where this function takes 0.1 ms; the rank sets of 50 models need 50 calls.
    """
    by_size = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[by_size] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[by_size] = np.minimum(1.0, stepped)
    return adjusted


@one_thread()
def max_t_draws(draws: TStatisticDraws, contrasts: Contrasts, absolute: bool) -> Draws:
    """Draw the max-t statistic, the largest (absolute) t statistic of the contrasts, (draws,)."""
    n_contrasts = len(contrasts.first)
    is_tested = np.zeros(n_contrasts, dtype=bool)
    sides: Sides = "opposites" if absolute else "one"
    return step_down(draws, contrasts, np.zeros(n_contrasts), sides=sides, is_tested=is_tested)[0][1]


def max_t_critical_value(maxima: Draws, alpha: float, tail: float, n_tests: int, normal: bool = True) -> float:
    """Return the critical value of a family of tests from draws of the max-t statistic of the family.

    Under normality the exact critical value lies between that of a single test and Bonferroni's, and the quantile of
    the draws is clipped to these limits. Where fewer than ten draws lie beyond the quantile, the critical value is
    Bonferroni's. With draws of a bootstrap there is no upper limit.
    """
    single_test_value = float(normal_critical(tail))
    if not normal:
        return max(float(np.quantile(maxima, 1 - alpha)), single_test_value)
    bonferroni_value = float(normal_critical(tail / n_tests))
    if alpha * len(maxima) < _FEWEST_BEYOND:
        return bonferroni_value
    return float(np.clip(np.quantile(maxima, 1 - alpha), single_test_value, bonferroni_value))


def max_t_p_values(t: FloatArray, p: FloatArray, maxima: Draws, normal: bool = True) -> FloatArray:
    """Adjust p-values by single-step max-t, (m,): below alpha where t exceeds :func:`max_t_critical_value`."""
    sorted_maxima = np.sort(maxima)
    last = len(sorted_maxima) - 1
    # This inverts numpy's quantile, which interpolates between draws.
    share = 1 - np.interp(t.astype(sorted_maxima.dtype), sorted_maxima, np.arange(last + 1) / last)
    if not normal:
        return np.maximum(np.maximum(share, 1 / (last + 2)), p)
    bounds = np.minimum(1.0, p * len(p))
    smallest_share = _FEWEST_BEYOND / (last + 1)
    share = np.where(share < smallest_share, np.minimum(smallest_share, bounds), share)
    return np.clip(share, p, bounds)


def _count_exceedances(
    draw_contrasts: DrawContrasts,
    by_size: IntArray,
    t: FloatArray,
    is_counted: NDArray[np.bool_],
    sides: Sides,
    step: int,
) -> tuple[FloatArray, Draws]:
    """Count the draws in which the running maximum of a family's t statistics reaches each observed one, (m,).

    The running maximum at a hypothesis is the largest drawn t statistic of this hypothesis and of all less extreme
    ones. The hypotheses, ``by_size`` with the least extreme first, are processed in stretches of ``step``. Counts are
    zero for hypotheses whose number of draws is not used afterwards. The draws of the largest t statistic, (b,), are
    returned as well.
    """
    count = np.zeros(len(by_size))
    maximum: Draws | None = None
    parts = [slice(start, start + step) for start in range(0, len(by_size), step)]
    if sides == "opposites":
        # All opposites are less extreme. Where they already reach the observed t in all draws, order does not matter.
        left = []
        for part in parts:
            drawn = draw_contrasts(by_size[part])
            lowest = -drawn.min(axis=0)
            maximum = lowest if maximum is None else np.maximum(maximum, lowest, out=maximum)
            if maximum.min() >= t[part][-1]:
                count[part] = len(maximum)
                np.maximum(maximum, drawn.max(axis=0), out=maximum)
            else:
                left.append(part)
        parts = left
    for part in parts:
        drawn = draw_contrasts(by_size[part])
        if sides == "absolute":
            np.abs(drawn, out=drawn)
        if maximum is not None:
            np.maximum(drawn[0], maximum, out=drawn[0])
        if maximum is not None and maximum.min() >= t[part][-1]:
            # The running maximum before this stretch reaches the stretch's largest observed t in all draws.
            count[part] = len(maximum)
            maximum = drawn.max(axis=0)
        elif is_counted[part].any():
            for before, after in pairwise(drawn):
                np.maximum(before, after, out=after)
            count[part] = np.count_nonzero(drawn >= t[part].astype(drawn.dtype)[:, None], axis=1)
            maximum = drawn[-1].copy()
        else:
            maximum = drawn.max(axis=0)
    assert maximum is not None
    return count, maximum


@one_thread()
def step_down(
    draws: TStatisticDraws,
    contrasts: Contrasts,
    t: FloatArray,
    *,
    families: Sequence[IntArray] | None = None,
    sides: Sides = "one",
    p: FloatArray | None = None,
    is_tested: NDArray[np.bool_] | None = None,
) -> list[tuple[FloatArray, Draws]]:
    """Test families of hypotheses by step-down max-t.

    Each observed t statistic is compared with draws of the largest t statistic of the hypotheses that were not rejected
    before it. Returns the adjusted p-values of each family, in its order, with the draws of its max-t statistic.
    With the sides "opposites", the opposite of each hypothesis, of which t has the other sign, is in the family, too;
    it is not tested, and t is not negative.

    References
    ----------
    Romano and Wolf (2005), Exact and approximate stepdown methods for multiple hypothesis testing.
    """

    def step_down_p(p: FloatArray) -> FloatArray:
        return holm(np.append(p, np.ones_like(p)))[: len(p)] if sides == "opposites" else holm(p)

    families = [np.arange(len(t))] if families is None else families
    # With the least extreme hypothesis first, the running maximum is over all hypotheses that are not rejected before.
    sorted_families = [family[np.argsort(t[family], kind="stable")] for family in families]
    tested = np.ones(len(t), dtype=bool) if is_tested is None else is_tested
    # Where Holm's p-value is tiny, the draws have no part in the adjusted one.
    are_counted = [
        tested[by_size] & (p is None or not draws.normal or step_down_p(p[by_size]) > _SMALLEST_SHARE)
        for by_size in sorted_families
    ]
    counts = [np.zeros(len(by_size)) for by_size in sorted_families]
    maxima: list[list[Draws]] = [[] for _ in families]

    is_large = len(t) >= _FEWEST_FOR_THREADS
    n_threads, step = (current().n_threads, _STEP_OF_MANY) if is_large else (1, _STEP)

    def count_in(draw_contrasts: DrawContrasts) -> list[tuple[FloatArray, Draws]]:
        if is_large and sides == "opposites" and isinstance(draw_contrasts, DrawnScores):
            return [draw_contrasts.count_exceedances(by_size, t[by_size]) for by_size in sorted_families]
        return [
            _count_exceedances(draw_contrasts, by_size, t[by_size], is_counted, sides, step)
            for by_size, is_counted in zip(sorted_families, are_counted, strict=True)
        ]

    for of_families in in_order(count_in, draws.blocks(contrasts), n_threads, boosts=False):
        for number, (count, maximum) in enumerate(of_families):
            counts[number] += count
            maxima[number].append(maximum)
    results = []
    for family, by_size, count, drawn in zip(families, sorted_families, counts, maxima, strict=True):
        max_t = np.concatenate(drawn)
        share = (1.0 + count) / (1.0 + len(max_t))
        if p is not None and draws.normal:
            share = np.clip(share, p[by_size], step_down_p(p[by_size]))
        share[~tested[by_size]] = 1.0
        adjusted = np.empty(len(t))
        adjusted[by_size] = np.maximum.accumulate(share[::-1])[::-1]
        results.append((adjusted[family], max_t))
    return results
