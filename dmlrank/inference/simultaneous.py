"""How wide simultaneous is: critical values, adjusted p-values and step-down tests of scores and their differences.

There are three kinds: max-t from normal draws, max-t from a multiplier bootstrap (both are :class:`MaxT`), and
confidence sequences, which hold at all looks at growing data (:class:`AllLooks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import ClassVar, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .._utils.tasks_and_threads import computing_with, one_thread
from ..data.arrays import RowRecord
from ..data.preferences import FloatArray, IntArray
from ..exceptions import OptionError, check_choice
from ..options import METHODS
from .bootstrap_and_max_t import (
    NORMAL_DRAWS,
    Contrasts,
    Draws,
    MultiplierBootstrap,
    NormalDraws,
    Sides,
    differences,
    holm,
    max_abs_normal_draws,
    max_t_critical_value,
    max_t_draws,
    max_t_p_values,
    step_down,
)
from .confidence_sequence import ConfidenceSequence
from .covariance import Covariance
from .score_limits import ContrastLaw, ContrastMatrix, normal_critical, normal_tail
from .wald import TWO_SIDED, Alternative

# Methods for tests of differences.
PAIR_METHODS = ("max-t", "step-down", "holm", "fdr_bh", "bonferroni", "none")
# Numbers of each test, in the order of tables.
TEST_COLUMNS = ["estimate", "std_error", "statistic", "p_value", "p_adjusted", "conf_low", "conf_high"]
# Methods that need nothing but the p-values.
_BY_P_VALUES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "holm": holm,
    "fdr_bh": lambda p: scipy.stats.false_discovery_control(p),
    "bonferroni": lambda p: np.minimum(1.0, p * len(p)),
    "none": np.asarray,
}
# p-values, adjusted p-values and the critical value of a family of tests.
Adjusted: TypeAlias = tuple[FloatArray, FloatArray, float]


@dataclass(frozen=True, eq=False)
class Family:
    """A family of two-sided tests whose largest absolute t statistic is drawn once, when it is first needed.

    varies (J,): Which of the estimates vary; the others are not in the family.
    draw: Returns draws of this statistic; None where one test decides all. With ``normal``, not those of a bootstrap.
    covariance, contrasts (J, d): Covariance whose degrees of freedom quantiles have, and what is estimated, or None.
    """

    varies: NDArray[np.bool_]
    draw: Callable[[], Draws] | None
    covariance: Covariance
    contrasts: ContrastMatrix | None = None
    normal: bool = True

    @classmethod
    def of_contrasts(
        cls, covariance: Covariance, contrasts: FloatArray | None = None, std_errors: FloatArray | None = None
    ) -> Family:
        """Return the family of J linear combinations of scores, (J, d), or of all scores, with normal draws."""
        factor = covariance.factor if contrasts is None else contrasts @ covariance.factor
        errors = np.sqrt(np.square(factor).sum(axis=1)) if std_errors is None else std_errors
        varies = errors > (1e-9 * errors.max(initial=0.0) if std_errors is None else 0)
        if varies.sum() <= 1 or factor.shape[1] == 1:
            return cls(varies, None, covariance, contrasts)
        return cls(varies, lambda: max_abs_normal_draws(factor[varies] / errors[varies, None]), covariance, contrasts)

    @cached_property
    def _maxima(self) -> Draws | None:
        return None if self.draw is None else self.draw()

    @one_thread()
    def critical(self, alpha: float) -> float:
        """Return the half-width of simultaneous intervals, in standard errors."""
        critical = float(normal_critical(alpha / 2))
        if self._maxima is not None:
            critical = max_t_critical_value(self._maxima, alpha, alpha / 2, int(self.varies.sum()), self.normal)
        return self.covariance.from_normal(critical)

    @one_thread()
    def p_values(self, z: FloatArray) -> FloatArray:
        """Return adjusted two-sided p-values, (J,); NaN where z is NaN, or the estimate is not in the family.

        A p-value is below alpha exactly where the interval with :meth:`critical` excludes the hypothetical value.
        """
        adjusted, tested = np.full(len(z), np.nan), self.varies & ~np.isnan(z)
        if tested.any():
            t = self.covariance.tails(self.contrasts).to_normal(np.abs(z))[tested]
            p = 2 * normal_tail(t)
            adjusted[tested] = p if self._maxima is None else max_t_p_values(t, p, self._maxima, self.normal)
        return adjusted


class MaxT:
    """max-t of scores and of their differences; what is drawn is kept.

    covariance: Covariance of the scores; ``widened``, that behind draws.
    bootstrap, multipliers: The multiplier bootstrap that draws, and its kind; None for normal draws.
    n_jobs: Number of threads of tests: one, or that of the fit.

    Notes
    -----
    With few units, t statistics and critical values are mapped to normal ones of the same tail probability and back,
    each with its own degrees of freedom: t statistics are then Student's, and normal draws say how they depend on each
    other. For independent estimates this is Sidak's bound. Draws with one common denominator would be too narrow,
    because every estimate has its own. Critical values are those of typical degrees of freedom, see
    :class:`ContrastLaw`.
    """

    def __init__(
        self,
        covariance: Covariance,
        seed: int = 0,
        bootstrap: MultiplierBootstrap | None = None,
        n_draws: int = NORMAL_DRAWS,
    ) -> None:
        # Draws of the bootstrap need no quantiles of Student's t.
        self.covariance = covariance if bootstrap is None else covariance.normal
        self.bootstrap, self._seed, self._n_draws = bootstrap, seed, n_draws
        self.multipliers = None if bootstrap is None else bootstrap.kind
        self.n_jobs: int | None = 1
        self.widened = self.covariance.widened
        self._step_down: tuple[FloatArray, tuple[FloatArray, Draws]] | None = None

    def __reduce__(self) -> tuple[type[MaxT], tuple[object, ...]]:
        # Files and copies hold what is needed to draw again.
        return type(self), (self.covariance, self._seed, self.bootstrap, self._n_draws)

    @cached_property
    def draws(self) -> NormalDraws | MultiplierBootstrap:
        """Joint draws of t statistics."""
        return self.bootstrap or NormalDraws(self.widened.factor, self._seed, self._n_draws)

    @cached_property
    def _scores(self) -> Family:
        """The family of all scores."""
        if self.bootstrap is None:
            return Family.of_contrasts(self.widened, std_errors=self.widened.std_errors)
        return self._bootstrapped(np.eye(len(self.widened.matrix)))

    @cached_property
    def _centred_scores(self) -> Family:
        """The family of all scores minus their mean."""
        centring = np.eye(len(self.covariance.matrix)) - 1 / len(self.covariance.matrix)
        if self.bootstrap is None:
            return Family.of_contrasts(self.widened, centring)
        return self._bootstrapped(centring)

    def _bootstrapped(self, combinations: FloatArray) -> Family:
        """Return the family of d combinations of scores, (d, d), drawn by the bootstrap."""
        assert self.bootstrap is not None
        units, added = self.bootstrap.units @ combinations.T, combinations @ self.bootstrap.added @ combinations.T
        bootstrap = replace(self.bootstrap, units=units, added=added)
        covariance = Covariance(combinations @ self.widened.matrix @ combinations, combinations)
        places = np.arange(len(combinations))
        scores = differences(covariance, places, np.full(len(places), len(places)))
        varies = scores.std_error > 0
        varying = scores.only(varies)
        draw = partial(max_t_draws, bootstrap, varying, absolute=True) if varies.any() else None
        return Family(varies, draw, covariance, normal=False)

    @cached_property
    def _pairs(self) -> Contrasts:
        """All differences that vary."""
        pairs = differences(self.widened, *np.triu_indices(len(self.widened.matrix), 1))
        return pairs.only(pairs.std_error > 0)

    @cached_property
    def _pair_maxima(self) -> Draws:
        """Draws of the largest absolute t statistic of all differences, which step-down tests have drawn."""
        if self._step_down is not None:
            return self._step_down[1][1]
        return max_t_draws(self.draws, self._pairs, absolute=True)

    def critical(self, alpha: float, method: str = "max-t") -> float:
        """Return the half-width of the scores' intervals, in standard errors.

        References
        ----------
        Frauen et al., arXiv 2601.21816, appendix "Simultaneous confidence intervals" [P app:cis].
        """
        check_choice(method, METHODS, "method")
        self._require_max_t(method, METHODS[:1])
        if method == "max-t":
            with computing_with(self.n_jobs):
                return self._scores.critical(alpha)
        n_tests = int((self.widened.std_errors > 0).sum()) if method == "bonferroni" else 1
        return self.covariance.from_normal(float(normal_critical(alpha / (2 * max(n_tests, 1)))))

    def adjusted_p_values(self, z: FloatArray, centred: bool) -> FloatArray:
        """Return two-sided p-values of the scores, adjusted for all of them, (d,); NaN where z is NaN."""
        if np.isnan(z).all():
            return np.full(len(z), np.nan)
        with computing_with(self.n_jobs):
            return (self._centred_scores if centred else self._scores).p_values(z)

    def adjustment(self, method: str) -> str:
        """Return the adjustment of p-values that stands for ``method``."""
        self._require_max_t(method, PAIR_METHODS[:2])
        return method

    def _require_max_t(self, method: str, allowed: Sequence[str]) -> None:
        """Raise where a bootstrap has nothing to say about a method."""
        if self.bootstrap is not None and method not in allowed:
            raise OptionError(f"method={method!r} of a bootstrap view; use method={' or '.join(map(repr, allowed))}")

    @one_thread()
    def adjust(
        self, contrasts: Contrasts, z: FloatArray, *, method: str, alternative: Alternative, alpha: float
    ) -> Adjusted:
        """Test differences of scores that vary, (J,), as one family; z are normal numbers of the same tails."""
        p, tail = alternative.p_values(z), alternative.tail(alpha)
        if method in _BY_P_VALUES:
            n_adjusted = 1 if method in ("none", "fdr_bh") else len(p)
            critical = float(normal_critical(tail / n_adjusted))
            return p, _BY_P_VALUES[method](p), self.covariance.from_normal(critical)
        absolute = alternative.side in ("two-sided", "equivalence")
        t = alternative.evidence(z)
        with computing_with(self.n_jobs):
            if method == "step-down":
                sides: Sides = "absolute" if absolute else "one"
                adjusted, maxima = step_down(self.draws, contrasts, t, sides=sides, p=p)[0]
            else:
                is_all = absolute and contrasts.n_pairs == len(self._pairs.first)
                maxima = self._pair_maxima if is_all else max_t_draws(self.draws, contrasts, absolute)
                adjusted = max_t_p_values(t, p, maxima, self.draws.normal)
        critical = max_t_critical_value(maxima, alpha, tail, len(p), self.draws.normal)
        return p, adjusted, self.covariance.from_normal(critical)

    @one_thread()
    def step_down(
        self, contrasts: Contrasts, z: FloatArray, families: Sequence[IntArray] | None = None
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Test both directions of differences, (J,), by families: adjusted p-values of "is positive" and "is negative".

        Both directions of a pair belong to a family until they are rejected. z are normal numbers of the same tails.
        """
        if families is None and self._step_down is not None and np.array_equal(self._step_down[0], z):
            results = [self._step_down[1]]
        else:
            first, second, t = contrasts.first, contrasts.second, np.abs(z)
            above = Contrasts(np.where(z < 0, second, first), np.where(z < 0, first, second), contrasts.std_error)
            tested, p = t > 0, normal_tail(t)
            with computing_with(self.n_jobs):
                results = step_down(self.draws, above, t, families=families, sides="opposites", p=p, is_tested=tested)
            if families is None:
                self._step_down = (z, results[0])
        of_families = [z] if families is None else [z[family] for family in families]
        by_family = zip(results, of_families, strict=True)
        return [(np.where(t > 0, p, 1.0), np.where(t < 0, p, 1.0)) for (p, _), t in by_family]

    @one_thread()
    def critical_of_pairs(self, alpha: float) -> float:
        """Return the critical value of two-sided tests of all differences; NaN where no difference varies."""
        n_pairs = len(self._pairs.first)
        if not n_pairs:
            return float("nan")
        critical = max_t_critical_value(self._pair_maxima, alpha, alpha / 2, n_pairs, self.draws.normal)
        return self.covariance.from_normal(critical)


@dataclass(frozen=True, slots=True, eq=False)
class AllLooks:
    """A confidence sequence of scores and of their differences.

    The joint distribution of all differences at all looks is not known: Bonferroni's method stands for max-t, and
    Holm's for its step-down tests.

    covariance: Covariance of the scores.
    """

    covariance: Covariance
    sequence: ConfidenceSequence
    multipliers: ClassVar[None] = None

    @property
    def widened(self) -> Covariance:
        """The covariance that says which estimates vary."""
        return self.covariance.widened

    def critical(self, alpha: float, method: str = "max-t") -> float:
        """Return the half-width of the scores' intervals, in standard errors; alpha is that of the sequence."""
        check_choice(method, METHODS, "method")
        return self.sequence.critical(1 if method == "none" else int((self.widened.std_errors > 0).sum()))

    def adjusted_p_values(self, z: FloatArray, centred: bool) -> FloatArray:
        """Return two-sided p-values of the scores, adjusted for all of them, (d,); NaN where z is NaN."""
        return self.sequence.adjusted_p_values(z)

    def adjustment(self, method: str) -> str:
        """Return the adjustment of p-values that stands for ``method``."""
        if method == "fdr_bh":
            raise OptionError("method='fdr_bh' holds at one look, not at all; use 'max-t', 'step-down' or 'none'")
        return {"max-t": "bonferroni", "step-down": "holm"}.get(method, method)

    def adjust(
        self, contrasts: Contrasts, z: FloatArray, *, method: str, alternative: Alternative, alpha: float
    ) -> Adjusted:
        """Test differences of scores that vary, (J,), as one family."""
        n_tests = 1 if method == "none" else len(z)
        boundary = self.sequence.boundary(n_tests)
        p, critical = alternative.p_values(z, boundary), alternative.critical(self.sequence.alpha / n_tests, boundary)
        return p, _BY_P_VALUES[self.adjustment(method)](p), critical

    def step_down(
        self, contrasts: Contrasts, z: FloatArray, families: Sequence[IntArray] | None = None
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Test both directions of differences, by families; see :meth:`ConfidenceSequence.step_down`."""
        return [self.sequence.step_down(z[family]) for family in families or [np.arange(len(z))]]


Simultaneous: TypeAlias = MaxT | AllLooks


@dataclass(frozen=True, slots=True, eq=False)
class PairTests(RowRecord):
    """Tests of J differences, first - second, of scores; NaN where one is fixed or does not vary. Shapes: all (J,).

    critical: Half-width of the intervals in standard errors.
    """

    shared = ("critical",)

    first: IntArray
    second: IntArray
    estimate: FloatArray
    std_error: FloatArray
    statistic: FloatArray
    p_value: FloatArray
    p_adjusted: FloatArray
    conf_low: FloatArray
    conf_high: FloatArray
    critical: float


def compare_differences(
    estimate: FloatArray,
    simultaneous: Simultaneous,
    first: IntArray,
    second: IntArray,
    *,
    method: str,
    alpha: float,
    alternative: Alternative = TWO_SIDED,
) -> PairTests:
    """Test all differences ``estimate[first] - estimate[second]``, (J,), as one family."""
    contrasts, law = law_of_differences(estimate, simultaneous, first, second)
    usable = contrasts.std_error > 0
    z, p, adjusted = (np.full(len(first), np.nan) for _ in range(3))
    critical = float("nan")
    if usable.any():
        z[usable] = alternative.statistics(law)[usable]
        p[usable], adjusted[usable], critical = simultaneous.adjust(
            contrasts.only(usable), law.tails.to_normal(z)[usable], method=method, alternative=alternative, alpha=alpha
        )
    low, high = (np.where(usable, limit, np.nan) for limit in alternative.limits(law, critical))
    return PairTests(first, second, law.estimate, contrasts.std_error, z, p, adjusted, low, high, critical)


def law_of_differences(
    estimate: FloatArray, simultaneous: Simultaneous, first: IntArray, second: IntArray
) -> tuple[Contrasts, ContrastLaw]:
    """Return differences ``estimate[first] - estimate[second]``, (J,), for draws, and with their law."""
    covariance, size = simultaneous.covariance, len(first)
    rows, signs = np.tile(np.arange(size), 2), np.repeat([1.0, -1.0], size)
    matrix = csr_array((signs, (rows, np.concatenate([first, second]))), shape=(size, len(estimate)))
    law = covariance.law(estimate[first] - estimate[second], differences(covariance, first, second).std_error, matrix)
    return differences(simultaneous.widened, first, second), law


@dataclass(frozen=True, slots=True, eq=False)
class Separation:
    """Which models are above which other models, with control of the family-wise error over all K (K - 1) statements.

    p_above (K, K): Adjusted p-value of the hypothesis "j is not above k" against "j is above k"; one on the diagonal.
    critical: Single-step critical value of all differences at ``alpha``; NaN where no difference varies.
    above (K, K): Whether model j is above model k at level ``alpha``.
    separated (K, K): Whether one of j and k is above the other.
    """

    p_above: FloatArray
    critical: float
    alpha: float
    above: NDArray[np.bool_] = field(init=False)
    separated: NDArray[np.bool_] = field(init=False)
    n_separated: int = field(init=False)

    def __post_init__(self) -> None:
        above = self.p_above <= self.alpha
        object.__setattr__(self, "above", above)
        object.__setattr__(self, "separated", above | above.T)
        object.__setattr__(self, "n_separated", int(above.sum()))


def separate(estimate: FloatArray, simultaneous: Simultaneous, alpha: float, sign: int = 1) -> Separation:
    """Test theta_j <= theta_k for all ordered pairs together by step-down; with the sign -1 theta_j >= theta_k.

    The family-wise error rate, of models said to be above others, holds also where scores are (nearly) equal.
    """
    p_above = np.ones((len(estimate), len(estimate)))
    contrasts, z = _varying_pairs(estimate, simultaneous, sign)
    if not len(z):
        return Separation(p_above, float("nan"), alpha)
    first, second = contrasts.first, contrasts.second
    p_above[first, second], p_above[second, first] = simultaneous.step_down(contrasts, z)[0]
    critical = simultaneous.adjust(contrasts, z, method="max-t", alternative=TWO_SIDED, alpha=alpha)[2]
    return Separation(p_above, critical, alpha)


def separate_each(estimate: FloatArray, simultaneous: Simultaneous, alpha: float, sign: int = 1) -> NDArray[np.bool_]:
    """Return whether each model is above, and below, each other model, (K, K, 2), by a family of tests for each model.

    All statements about model j hold together with probability ``1 - alpha``: the family consists of the differences
    between j and each other model, in both directions.
    """
    is_separated = np.zeros((len(estimate), len(estimate), 2), dtype=bool)
    contrasts, z = _varying_pairs(estimate, simultaneous, sign)
    of_model = [np.flatnonzero((contrasts.first == j) | (contrasts.second == j)) for j in range(len(estimate))]
    families = [family for family in of_model if len(family)]
    if not families:
        return is_separated
    models = [j for j, family in enumerate(of_model) if len(family)]
    results = simultaneous.step_down(contrasts, z, families)
    for j, family, (p_positive, p_negative) in zip(models, families, results, strict=True):
        is_first = contrasts.first[family] == j
        other = np.where(is_first, contrasts.second[family], contrasts.first[family])
        is_separated[j, other, 0] = np.where(is_first, p_positive, p_negative) <= alpha
        is_separated[j, other, 1] = np.where(is_first, p_negative, p_positive) <= alpha
    return is_separated


def _varying_pairs(estimate: FloatArray, simultaneous: Simultaneous, sign: int) -> tuple[Contrasts, FloatArray]:
    """Return all differences with a positive variance, and their z statistics, normal ones, times a sign, (J,)."""
    contrasts, law = law_of_differences(estimate, simultaneous, *np.triu_indices(len(estimate), 1))
    varies = contrasts.std_error > 0
    return contrasts.only(varies), sign * law.tails.to_normal(law.statistics())[varies]
