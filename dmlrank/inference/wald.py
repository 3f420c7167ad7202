"""z tests, Wald tests and Hausman's test of linear hypotheses, with the structural rank of the covariance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from .._utils.argument_checks import real_number
from .._utils.tasks_and_threads import one_thread
from ..data.hypotheses import HypothesisLike, LinearHypothesis, read_hypothesis
from ..data.preferences import FloatArray
from ..exceptions import HypothesisError, OptionError, OptionTypeError, check_choice, listed, shown
from .confidence_sequence import Boundary, ConfidenceSequence
from .covariance import Covariance
from .score_limits import ContrastLaw, Tails, WaldLaw, normal_critical, normal_tail

# scipy's names of two sides.
_SYNONYMS = {"greater": "larger", "less": "smaller"}
SIDES = ("two-sided", "larger", "smaller", "noninferiority", "equivalence")


def z_statistics(distance: FloatArray, std_errors: FloatArray) -> FloatArray:
    """Divide distances from hypothetical values, (d,), by their standard errors; NaN where these are zero."""
    return np.divide(distance, std_errors, out=np.full(len(distance), np.nan), where=std_errors > 0)


def two_sided_p_values(z: FloatArray, tails: Tails) -> FloatArray:
    """Return the two-sided p-values, (d,), of z statistics with tails."""
    return 2 * normal_tail(np.abs(tails.to_normal(z)))


@dataclass(frozen=True, slots=True)
class Alternative:
    """The alternative hypothesis about a difference.

    =================  ============================  ====================
    side               alternative                   statistic times s.e.
    =================  ============================  ====================
    "two-sided"        difference != delta           difference - delta
    "larger"           difference > delta            difference - delta
    "smaller"          difference < delta            difference - delta
    "noninferiority"   difference > -delta           difference + delta
    "equivalence"      -delta < difference < delta   delta - abs(difference)
    =================  ============================  ====================

    delta: Value that the difference is compared with, in the unit of the scores; for the last two sides a margin above
        zero.
    """

    side: str = "two-sided"
    delta: float = 0.0

    def statistics(self, law: ContrastLaw, zero: FloatArray | float = 0.0) -> FloatArray:
        """Return the z statistics, (J,), of J differences from ``zero`` with a law; see the table for normal ones."""
        if self.side == "equivalence":
            return np.minimum(law.statistics(zero - self.delta), -law.statistics(zero + self.delta))
        return law.statistics(zero + (-self.delta if self.side == "noninferiority" else self.delta))

    def evidence(self, z: FloatArray) -> FloatArray:
        """Return the z statistics with signs such that large values are evidence for the alternative, (J,)."""
        return np.abs(z) if self.side == "two-sided" else -z if self.side == "smaller" else z

    def p_values(self, z: FloatArray, boundary: Boundary | None = None) -> FloatArray:
        """Return the unadjusted p-values, (J,), for one look, or at a look of a confidence sequence."""
        evidence, is_two_sided = self.evidence(z), self.side == "two-sided"
        if boundary is None:
            return normal_tail(evidence) * (2 if is_two_sided else 1)
        return boundary.p_values(evidence) if is_two_sided else boundary.one_sided_p_values(evidence)

    def critical(self, alpha: float, boundary: Boundary | None = None) -> float:
        """Return the half-width of intervals of level 1 - alpha, in standard errors."""
        if boundary is None:
            return float(normal_critical(self.tail(alpha)))
        return boundary.critical(alpha) if self.side == "two-sided" else boundary.one_sided_critical(alpha)

    def limits(self, law: ContrastLaw, critical: float) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper limits, (J,) each; one of the two is infinite for one-sided alternatives."""
        low, high = law.limits(critical)
        if self.side == "smaller":
            low = np.full(len(low), -np.inf)
        return low, np.full(len(low), np.inf) if self.side in ("larger", "noninferiority") else high

    def tail(self, alpha: float) -> float:
        """Return the probability of the null distribution beyond the critical value: half of alpha for "two-sided"."""
        return alpha / 2 if self.side == "two-sided" else alpha

    @property
    def clause(self) -> str:
        """The alternative as a clause about "the difference"."""
        delta = self.delta
        return {
            "two-sided": f"the difference is not {delta:g}",
            "larger": f"the difference is above {delta:g}",
            "smaller": f"the difference is below {delta:g}",
            "noninferiority": f"the difference is above {-delta:g}",
            "equivalence": f"the difference lies between {-delta:g} and {delta:g}",
        }[self.side]


TWO_SIDED = Alternative()


def read_alternative(side: str, delta: float) -> Alternative:
    """Check the options ``side`` and ``delta``, and return the alternative that they describe."""
    side = _SYNONYMS.get(side, side) if isinstance(side, str) else side
    check_choice(side, SIDES, "side")
    margin = real_number(delta)
    if margin is None or not np.isfinite(margin):
        raise OptionTypeError(f"delta is {shown(delta)}; give a finite number, in the unit of the scores")
    if side in ("noninferiority", "equivalence") and not margin > 0:
        raise OptionError(f"side={side!r} needs a margin above zero, and delta is {shown(delta)}")
    return Alternative(side, margin)


# A contrast counts as fixed by the functional where the norm of its projection on the free directions is below this
# share of the contrast's norm.
_FIXED_BELOW = 1e-9
# A variance below this share of the sum of the absolute values of its terms counts as a rounding error.
_ROUNDING = 1e-13
# Two estimates count as equal in a direction where the variance of their difference is below this share of the largest
# variance of the unrestricted estimate. Statistics that differ by less than this share count as equal.
_EQUAL_BELOW = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class NamedEstimates:
    """Estimates, (d,), under the names that hypotheses use, with their covariance.

    reason: Clause that says what the functional fixes, for errors.
    sequence: Where tests and regions hold at all looks, what was fixed before the first look.
    """

    estimate: FloatArray
    covariance: Covariance
    names: Sequence[str]
    reason: str
    sequence: ConfidenceSequence | None = None

    def hypothesis(self, hypothesis: HypothesisLike) -> LinearHypothesis:
        """Read a hypothesis about the estimates, in words or numbers."""
        return read_hypothesis(hypothesis, self.names)


@dataclass(frozen=True, slots=True, eq=False)
class ZTests:
    """z tests of J linear combinations, (J,); attributes have the names that they have in statsmodels.

    effect, sd: Estimates of the combinations, named ``c_names`` as in the hypothesis, and standard errors.
    pvalue: Not adjusted for several tests; an array without dimensions where J is 1.
    sequence: Where the tests hold at all looks, what was fixed before the first look.
    covariance: Covariance of the combinations.
    """

    effect: FloatArray
    sd: FloatArray
    statistic: FloatArray
    pvalue: FloatArray
    c_names: list[str]
    covariance: Covariance
    alternative: Alternative = TWO_SIDED
    sequence: ConfidenceSequence | None = None

    def conf_int(self, alpha: float | None = None) -> FloatArray:
        """Return the limits that decide the tests at ``alpha``, each of the combinations by itself.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; 0.05 when None, or that of a sequential view, which cannot be changed. The level for
            equivalence is 1 - 2 alpha.

        Returns
        -------
        ndarray, shape (J, 2)
            Lower and upper limits; one of the two is infinite for one-sided alternatives.
        """
        level = self._level(alpha)
        if self.sequence is None:
            critical = self.covariance.from_normal(self.alternative.critical(level))
        else:
            critical = self.alternative.critical(level, self.sequence.boundary())
        law = self.covariance.law(self.effect)
        return np.column_stack(self.alternative.limits(law, critical))

    def _level(self, alpha: float | None) -> float:
        """Return the alpha of intervals; raise where a caller asks for another one than that of a sequential view."""
        if self.sequence is None:
            return 0.05 if alpha is None else alpha
        if alpha is not None and alpha != self.sequence.alpha:
            raise OptionError(self.sequence.why_not_alpha(alpha))
        return self.sequence.alpha


Tests = TypeVar("Tests", bound=ZTests)


@dataclass(frozen=True, slots=True, eq=False)
class WaldTestResults:
    """One joint chi-squared test, or F test with few units; attributes have the names that they have in statsmodels.

    Attributes
    ----------
    statistic : float
        Wald statistic; with few units, F.
    pvalue : float
        p-value.
    df_denom : float
        Degrees of freedom: of chi-squared, the structural rank of the restrictions; of F, those of the denominator.
    sequence : ConfidenceSequence or None
        Where the test holds at all looks, what was fixed before the first look.
    law : str
        ``"chi2"``, or ``"F"`` with fewer than 100 prompts or clusters for each restriction (Hotelling's test), and
        between independent groups of prompts (Johansen's test).
    df_num : int or None
        Degrees of freedom of the numerator of F; None for chi-squared.
    """

    statistic: float
    pvalue: float
    df_denom: float
    sequence: ConfidenceSequence | None = field(default=None, repr=False)
    law: str = "chi2"
    df_num: int | None = None

    @property
    def rank(self) -> int:
        """Number of independent restrictions."""
        return int(self.df_denom if self.df_num is None else self.df_num)

    @property
    def figures(self) -> str:
        """The statistic with its law and degrees of freedom, such as ``chi2(3) = 8.1``, for sentences."""
        df = f"{self.df_denom:g}" if self.df_num is None else f"{self.df_num}, {self.df_denom:.4g}"
        return f"{self.law}({df}) = {float(self.statistic):.1f}"

    def summary(self) -> str:
        """Return statistic, p-value and degrees of freedom as text."""
        kind = f"({self.law})" if self.sequence is None else f"valid {self.sequence.clause}"
        df_num = "" if self.df_num is None else f"df_num={self.df_num}, "
        numbers = f"statistic={self.statistic}, p-value={self.pvalue}, {df_num}df_denom={self.df_denom:g}"
        return f"<Wald test {kind}: {numbers}>"

    def __str__(self) -> str:
        return self.summary()


@one_thread()
def z_tests(
    kind: type[Tests], estimates: NamedEstimates, hypothesis: LinearHypothesis, alternative: Alternative = TWO_SIDED
) -> Tests:
    """Test every row of a hypothesis ``matrix @ theta = value`` by a z test; ``kind`` is the class of the result."""
    covariance, matrix = estimates.covariance, hypothesis.matrix
    free = np.linalg.norm(matrix @ covariance.basis, axis=1)
    for row, label in enumerate(hypothesis.labels):
        if free[row] <= _FIXED_BELOW * np.linalg.norm(matrix[row]):
            constant = round(float(matrix[row] @ estimates.estimate), 12) + 0.0  # no minus zero
            raise HypothesisError(f"{label!r} is the constant {constant:.4g} whatever the data say: {estimates.reason}")
        # Where the terms of a variance cancel, the sum is a rounding error instead of zero.
        varied = covariance.widened.matrix
        terms = np.abs(matrix[row]) @ np.abs(varied) @ np.abs(matrix[row])
        if not matrix[row] @ varied @ matrix[row] > _ROUNDING * terms:
            raise HypothesisError(
                f"{label!r} has a standard error of zero, because it does not vary in these data; leave it out"
            )
    covariance = covariance.of_combinations(matrix)
    effect, sequence = matrix @ estimates.estimate, estimates.sequence
    law = covariance.law(effect)
    z, boundary = alternative.statistics(law, hypothesis.value), None if sequence is None else sequence.boundary()
    p = alternative.p_values(law.tails.to_normal(z), boundary)
    pairs = zip(hypothesis.labels, hypothesis.value, strict=True)
    names = [label if value == 0 else f"{label} = {value:g}" for label, value in pairs]
    return kind(effect, covariance.std_errors, z, np.squeeze(p), names, covariance, alternative, sequence)


@one_thread()
def wald_test(estimates: NamedEstimates, hypothesis: LinearHypothesis, n_units: Sequence[int] = ()) -> WaldTestResults:
    """Test all rows of a hypothesis jointly by a Wald test.

    The degrees of freedom of the chi-squared distribution are the structural rank of the hypothesis: the number of
    independent restrictions on what the functional leaves free. With ``sequence`` the p-value is that of the joint
    martingale of :mod:`dmlrank.inference.confidence_sequence` in place of the chi-squared distribution. With
    ``n_units`` the estimates are means of independent groups of so many units, see :func:`f_law_of_groups`.
    """
    covariance, matrix, value = estimates.covariance.widened, hypothesis.matrix, hypothesis.value
    about = listed(hypothesis.labels)
    left_vectors, sizes, _ = np.linalg.svd(matrix @ covariance.basis, full_matrices=True)
    rank = int((sizes > _FIXED_BELOW * np.linalg.norm(matrix)).sum())
    if rank == 0:
        raise HypothesisError(
            f"there is nothing to test about {about}, constant whatever the data say: {estimates.reason}"
        )
    fewest = min(min(covariance.n_clusters, default=np.inf), covariance.df + 1)
    if fewest <= rank:
        units = "effective clusters" if covariance.n_clusters else "prompts"
        raise HypothesisError(
            f"{rank} restrictions cannot be tested with {fewest:.0f} {units}; test fewer models at once, or use t_test"
        )
    fixed = left_vectors[:, rank:].T
    misfit = fixed @ (matrix @ estimates.estimate - value)
    if len(misfit) and np.abs(misfit).max() > 1e-8 * max(1.0, np.abs(value).max()):
        raise HypothesisError(f"the equations about {about} contradict what the functional fixes: {estimates.reason}")
    free = left_vectors[:, :rank].T
    restrictions, values = free @ matrix, free @ value
    spectrum, axes = np.linalg.eigh(restrictions @ covariance.matrix @ restrictions.T)
    if spectrum[-1] <= 0 or spectrum[0] <= 1e-14 * spectrum[-1]:
        raise HypothesisError(f"some combination of {about} does not vary in the data; leave one of them out")
    misfit, sequence = restrictions @ estimates.estimate - values, estimates.sequence
    statistic = float(misfit @ np.linalg.pinv(restrictions @ (covariance.matrix @ restrictions.T)) @ misfit)
    if n_units:
        factor, df = f_law_of_groups(restrictions, covariance.matrix, n_units)
        p = float(WaldLaw(rank, df).tail(statistic / factor))
        return WaldTestResults(statistic / factor, p, df, law="F", df_num=rank)
    if sequence is None:
        law = covariance.of_combinations((axes / np.sqrt(spectrum)).T @ restrictions).wald_law(rank)
        p = float(law.tail(statistic))
        if not law.is_f:
            return WaldTestResults(statistic, p, rank)
        return WaldTestResults(statistic / law.scale, p, law.second, law="F", df_num=rank)
    p = float(sequence.boundary(1, rank).joint_p_values(statistic, rank))
    return WaldTestResults(statistic, p, rank, sequence)


def f_law_of_groups(restrictions: FloatArray, matrix: FloatArray, n_units: Sequence[int]) -> tuple[float, float]:
    """Return factor and second degrees of freedom of F, the law of a Wald statistic of independent groups' means.

    The statistic divided by the factor is about F with as many first degrees of freedom as restrictions. Each group's
    covariance is estimated from its own units (Johansen 1980, The Welch-James approximation, Biometrika 67). ``matrix``
    holds a block of equal size for each group.

    Shapes: restrictions (r, d), matrix (d, d).
    """
    rank, size = len(restrictions), len(matrix) // len(n_units)
    between = restrictions @ matrix @ restrictions.T
    share = matrix @ restrictions.T @ np.linalg.solve(between, restrictions)
    parts = [share[place : place + size, place : place + size] for place in range(0, len(matrix), size)]
    a = sum((np.sum(p * p.T) + np.trace(p) ** 2) / (2 * (n - 1)) for p, n in zip(parts, n_units, strict=True))
    return float(rank + 2 * a - 6 * a / (rank + 2)), float(rank * (rank + 2) / (3 * a))


@dataclass(frozen=True, slots=True, eq=False)
class DifferenceTest:
    """Wald test that two estimates of the same d scores differ by noise alone.

    statistic: Wald statistic, chi-squared under the restriction in large samples.
    df: Number of directions in which the two estimates can differ.
    std_errors (d,): Of the unrestricted less the restricted estimate.
    n_draws: Samples from the restricted model behind the p-value; zero where the p-value is that of chi-squared.
    """

    statistic: float
    df: int
    pvalue: float
    std_errors: FloatArray
    n_draws: int


def wald_test_of_difference(
    restricted: FloatArray,
    unrestricted: FloatArray,
    *,
    covariance: Covariance,
    difference: Covariance,
    null: Callable[[FloatArray, np.random.Generator], FloatArray] | None,
    rng: np.random.Generator,
    unanimous_covariance: FloatArray | None = None,
) -> DifferenceTest:
    """Test whether the unrestricted scores, (d,), differ from the restricted ones, (d,), by more than noise.

    ``null`` returns Wald statistics, (B,), of B samples from the restricted model, in some directions, (d, r).
    """
    estimated_difference = unrestricted - restricted
    spectrum, axes = np.linalg.eigh(difference.reduced)
    differs = spectrum > _EQUAL_BELOW * max(float(np.linalg.eigvalsh(covariance.reduced)[-1]), 0.0)
    if not differs.any():
        raise OptionError(
            "the restriction cannot be tested: it needs at least three models whose compared pairs form a cycle"
        )
    directions = difference.basis @ axes[:, differs]
    variance = np.diag(spectrum[differs])
    if unanimous_covariance is not None and null is None:
        variance = variance + directions.T @ unanimous_covariance @ directions
    coordinates = directions.T @ estimated_difference
    statistic, df = float(coordinates @ np.linalg.solve(variance, coordinates)), int(differs.sum())
    std_errors = (difference if unanimous_covariance is None else difference.plus(unanimous_covariance)).std_errors
    pvalue, n_draws = float(WaldLaw(df).tail(statistic)), 0
    if null is not None:
        draws = null(directions, rng)
        n_draws = len(draws)
        # Statistics that differ by rounding count as equal.
        pvalue = (1 + int((draws >= statistic * (1 - _EQUAL_BELOW)).sum())) / (1 + n_draws)
    return DifferenceTest(statistic, df, pvalue, std_errors, n_draws)
