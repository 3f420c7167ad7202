"""Rank sets: confidence sets for ranks, from step-down tests of all differences in both directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from .._utils.blas import one_thread
from ..data.preferences import FloatArray, IntArray
from .confidence_sequence import ConfidenceSequence
from .covariance import Covariance
from .multiple_testing import max_t_critical_value, max_t_draws, max_t_p_values, step_down
from .resampling import Contrasts, TStatisticDraws, differences


@dataclass(frozen=True, slots=True, eq=False)
class Separation:
    """Which models are above which other models, with control of the family-wise error over all K (K - 1) statements.

    p_above (K, K): Adjusted p-value of the hypothesis "j is not above k" against "j is above k"; one on the diagonal.
    p_single (K, K): Single-step adjusted p-value of the hypothesis "j and k are equal"; symmetric. It is at least as
        large as the smaller of ``p_above[j, k]`` and ``p_above[k, j]``.
    critical: Single-step critical value of all differences at ``alpha``; NaN where no difference varies.
    alpha: Family-wise error rate.
    """

    p_above: FloatArray
    p_single: FloatArray
    critical: float
    alpha: float

    @property
    def above(self) -> NDArray[np.bool_]:
        """Whether model j is above model k at level ``alpha``, (K, K)."""
        return self.p_above <= self.alpha

    @property
    def separated(self) -> NDArray[np.bool_]:
        """Whether models j and k are separated: one of the two is above the other, (K, K)."""
        return self.above | self.above.T

    @property
    def n_separated(self) -> int:
        """Number of separated pairs."""
        return int(self.above.sum())


class _PairResults(NamedTuple):
    """Tests of both directions of J differences as one family.

    p_positive, p_negative (J,): Adjusted p-values of "the difference is not positive" and of "the difference is not
        negative".
    p_single (J,): Single-step adjusted p-values of "the difference is zero".
    critical: Single-step critical value.
    """

    p_positive: FloatArray
    p_negative: FloatArray
    p_single: FloatArray
    critical: float


@one_thread()
def separate(estimate: FloatArray, covariance: Covariance, draws: TStatisticDraws, alpha: float) -> Separation:
    """Test theta_j <= theta_k for all ordered pairs together by step-down.

    Both directions of a pair belong to the family until they are rejected. A rejection therefore says which model of a
    pair is above the other. The family-wise error rate holds also where scores are equal or nearly equal.

    Shapes: estimate (K,).
    """

    def test(contrasts: Contrasts, z: FloatArray) -> _PairResults:
        z_of_both = np.concatenate([z, -z])
        both_directions = contrasts.both_ways()
        result = step_down(draws, both_directions, z_of_both, p=norm.sf(z_of_both), is_tested=z_of_both > 0)[0]
        single = max_t_p_values(np.abs(z), 2 * norm.sf(np.abs(z)), result.max_t, draws.normal)
        # The largest z statistic of both directions is the largest absolute z statistic of the pairs.
        critical = max_t_critical_value(result.max_t, alpha, alpha / 2, len(z), draws.normal)
        return _PairResults(result.p_adjusted[: len(z)], result.p_adjusted[len(z) :], single, critical)

    return _separate_by(test, estimate, covariance, alpha)


def separate_at_all_looks(estimate: FloatArray, covariance: Covariance, sequence: ConfidenceSequence) -> Separation:
    """Test theta_j <= theta_k for all ordered pairs together, at all looks at once.

    See :meth:`ConfidenceSequence.step_down` for the method and its proof. A pair is separated at least where its
    two-sided interval, which holds jointly with those of all other pairs, excludes zero.

    Shapes: estimate (K,).
    """

    def test(_: Contrasts, z: FloatArray) -> _PairResults:
        return _PairResults(*sequence.step_down(z), sequence.adjusted_p_values(z), sequence.critical(len(z)))

    return _separate_by(test, estimate, covariance, sequence.alpha)


def _separate_by(
    test: Callable[[Contrasts, FloatArray], _PairResults], estimate: FloatArray, covariance: Covariance, alpha: float
) -> Separation:
    """Test all pairs of models that differ by an estimate with variance.

    Shapes: estimate (K,).
    """
    n_scores = len(estimate)
    p_above, p_single = np.ones((n_scores, n_scores)), np.ones((n_scores, n_scores))
    contrasts, z = _differences_that_vary(estimate, covariance, *np.triu_indices(n_scores, 1))
    if not len(z):
        return Separation(p_above, p_single, float("nan"), alpha)
    first, second, results = contrasts.first, contrasts.second, test(contrasts, z)
    p_above[first, second], p_above[second, first] = results.p_positive, results.p_negative
    p_single[first, second] = p_single[second, first] = results.p_single
    return Separation(p_above, p_single, results.critical, alpha)


def _differences_that_vary(
    estimate: FloatArray, covariance: Covariance, first: IntArray, second: IntArray
) -> tuple[Contrasts, FloatArray]:
    """Return the differences with a positive variance among J differences, and their z statistics.

    Shapes: estimate (K,), first, second (J,).
    """
    contrasts = differences(covariance, first, second)
    contrasts = contrasts.take(contrasts.usable)
    return contrasts, (estimate[contrasts.first] - estimate[contrasts.second]) / contrasts.std_error


def separate_each_at_all_looks(
    estimate: FloatArray, covariance: Covariance, sequence: ConfidenceSequence
) -> NDArray[np.bool_]:
    """Separate each model from all other models, with a family of tests for each model, at all looks at once.

    Shapes: estimate (K,), returns (K, K, 2).
    """
    n_scores = len(estimate)
    is_separated = np.zeros((n_scores, n_scores, 2), dtype=bool)
    for j in range(n_scores):
        contrasts, z = _differences_that_vary(estimate, covariance, np.full(n_scores, j), np.arange(n_scores))
        is_separated[j, contrasts.second] = np.stack(sequence.step_down(z), axis=1) <= sequence.alpha
    return is_separated


@one_thread()
def separate_each(
    estimate: FloatArray, covariance: Covariance, draws: TStatisticDraws, alpha: float
) -> NDArray[np.bool_]:
    """Separate each model from all other models, with a family of tests for each model.

    All statements about model j hold together with probability ``1 - alpha``: the family consists of the differences
    between j and each other model, in both directions.

    Shapes: estimate (K,), returns (K, K, 2).
    """
    n_scores = len(estimate)
    contrasts, t = _differences_that_vary(estimate, covariance, *np.triu_indices(n_scores, 1))
    both_directions, t = contrasts.both_ways(), np.concatenate([t, -t])
    is_separated = np.zeros((n_scores, n_scores, 2), dtype=bool)
    families = [np.flatnonzero((both_directions.first == j) | (both_directions.second == j)) for j in range(n_scores)]
    models = [j for j in range(n_scores) if len(families[j])]
    if not models:
        return is_separated
    families_of_models = [families[j] for j in models]
    results = step_down(draws, both_directions, t, families=families_of_models, p=norm.sf(t), is_tested=t > 0)
    for j, result in zip(models, results, strict=True):
        rejected = families[j][result.p_adjusted <= alpha]
        above = both_directions.first[rejected] == j
        is_separated[j, both_directions.second[rejected[above]], 0] = True
        is_separated[j, both_directions.first[rejected[~above]], 1] = True
    return is_separated


def rank_bounds(above: NDArray[np.bool_], below: NDArray[np.bool_] | None = None) -> tuple[IntArray, IntArray]:
    """Return the best and the worst rank in the rank set of each model, (K,) each.

    The best rank is one plus the number of models above it, the worst rank is K less the number of models below it.

    Shapes: above (K, K), below (K, K).

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm (2024), Inference for ranks with applications to mobility across neighbourhoods
    and academic achievement across countries, Review of Economic Studies 91.
    """
    below = above.T if below is None else below
    return 1 + below.sum(axis=1), len(above) - above.sum(axis=1)


def ranks_of(scores: FloatArray) -> IntArray:
    """Return the ranks of scores, (K,): one plus the number of higher scores."""
    return 1 + (scores[None, :] > scores[:, None]).sum(axis=1)


@one_thread()
def critical_value_of_differences(covariance: Covariance, draws: TStatisticDraws, alpha: float) -> float:
    """Return the single-step critical value of all differences of scores; NaN where no difference varies.

    This is the critical value of :func:`separate`, and of the two-sided max-t tests of all differences.
    """
    contrasts = differences(covariance, *np.triu_indices(len(covariance.matrix), 1))
    contrasts = contrasts.take(contrasts.usable)
    if not len(contrasts.first):
        return float("nan")
    maxima = max_t_draws(draws, contrasts, absolute=True)
    return max_t_critical_value(maxima, alpha, alpha / 2, len(contrasts.first), draws.normal)


def power_of(difference: float, std_error: float, critical: float) -> float:
    """Return the power: the probability that an estimated difference exceeds ``critical`` standard errors."""
    return float(norm.cdf(difference / std_error - critical) + norm.cdf(-difference / std_error - critical))


def smallest_gap(std_error: float, critical: float, power: float = 0.8) -> float:
    """Return the smallest true difference whose test has a given power."""
    # The power is 1 up to rounding at a difference of 40 standard errors more than the critical value.
    largest = 40.0 + critical
    return std_error * float(brentq(lambda z: power_of(z, 1.0, critical) - power, 0.0, largest, xtol=1e-12))
