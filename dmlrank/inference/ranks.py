"""Confidence sets for ranks, from step-down tests of all differences in both directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from ..data.preferences import FloatArray, IntArray
from .covariance import Covariance
from .multiple_testing import max_t_critical_value, max_t_draws, max_t_p_values, step_down
from .resampling import TStatisticDraws, differences


@dataclass(frozen=True, slots=True, eq=False)
class Separation:
    """Which models are above which, with the family-wise error of all K (K - 1) such statements held.

    Attributes
    ----------
    p_above : ndarray, shape (K, K)
        Adjusted p-value of "j is above k" against "j is not above k"; one on the diagonal.
    p_single : ndarray, shape (K, K)
        Adjusted p-value of "j and k differ" in a single step, symmetric; never below ``p_above`` in either direction.
    critical : float
        Single-step critical value of all differences at ``alpha``; NaN where no difference varies.
    alpha : float
    """

    p_above: FloatArray
    p_single: FloatArray
    critical: float
    alpha: float

    @property
    def above(self) -> NDArray[np.bool_]:
        """Where j is above k at level ``alpha``, (K, K)."""
        return self.p_above <= self.alpha

    @property
    def separated(self) -> NDArray[np.bool_]:
        """Where one of the two is above the other, (K, K)."""
        return self.above | self.above.T

    @property
    def n_separated(self) -> int:
        """Pairs of which one is above the other."""
        return int(self.above.sum())


def separate(estimate: FloatArray, covariance: Covariance, draws: TStatisticDraws, alpha: float) -> Separation:
    """Step-down tests of theta_j <= theta_k for all ordered pairs together.

    Both directions of a pair stay in the family until they are rejected, so that what is claimed is the direction, and
    ties and near ties are covered.

    Parameters
    ----------
    estimate : ndarray, shape (K,)
    covariance : Covariance
    draws : TStatisticDraws
        Of the K scores.
    alpha : float
        Family-wise error.
    """
    n_scores = len(estimate)
    p_above, p_single = np.ones((n_scores, n_scores)), np.ones((n_scores, n_scores))
    first, second = np.triu_indices(n_scores, 1)
    contrasts = differences(covariance, first, second)
    contrasts = contrasts.take(contrasts.usable)
    if not len(contrasts.first):
        return Separation(p_above, p_single, float("nan"), alpha)
    ordered = contrasts.both_ways()
    t = (estimate[ordered.first] - estimate[ordered.second]) / ordered.std_error
    stepped = step_down(draws, ordered, t, p=norm.sf(t), counted=t > 0)[0]
    p_above[ordered.first, ordered.second] = stepped.p_adjusted
    size = np.abs(t[: len(contrasts.first)])
    adjusted = max_t_p_values(size, 2 * norm.sf(size), stepped.max_t, draws.normal)
    p_single[ordered.first, ordered.second] = np.tile(adjusted, 2)
    critical = max_t_critical_value(stepped.max_t, alpha, alpha, len(t), draws.normal)
    return Separation(p_above, p_single, critical, alpha)


def separate_each(
    estimate: FloatArray, covariance: Covariance, draws: TStatisticDraws, alpha: float
) -> NDArray[np.bool_]:
    """What can be said of one model at a time: (K, K, 2), whether it is above each other one, and whether below.

    Row j holds with probability ``1 - alpha`` for itself: its family is the differences to j, in both directions.
    """
    n_scores = len(estimate)
    first, second = np.triu_indices(n_scores, 1)
    contrasts = differences(covariance, first, second)
    ordered = contrasts.take(contrasts.usable).both_ways()
    found = np.zeros((n_scores, n_scores, 2), dtype=bool)
    families = [np.flatnonzero((ordered.first == j) | (ordered.second == j)) for j in range(n_scores)]
    models = [j for j in range(n_scores) if len(families[j])]
    if not models:
        return found
    t = (estimate[ordered.first] - estimate[ordered.second]) / ordered.std_error
    chosen = [families[j] for j in models]
    stepped = step_down(draws, ordered, t, families=chosen, p=norm.sf(t), counted=t > 0)
    for j, result in zip(models, stepped, strict=True):
        rejected = families[j][result.p_adjusted <= alpha]
        above = ordered.first[rejected] == j
        found[j, ordered.second[rejected[above]], 0] = True
        found[j, ordered.first[rejected[~above]], 1] = True
    return found


def rank_bounds(above: NDArray[np.bool_], below: NDArray[np.bool_] | None = None) -> tuple[IntArray, IntArray]:
    """Best and worst possible rank of each model: one plus those above it, K less those below it, (K,) each.

    Parameters
    ----------
    above : ndarray of bool, shape (K, K)
        Whether j is above k.
    below : ndarray of bool, shape (K, K), optional
        Whether j is below k; the other side of ``above`` when None.

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm (2024), Inference for ranks with applications to mobility across neighbourhoods
    and academic achievement across countries, Review of Economic Studies 91.

    Examples
    --------
    >>> above = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)
    >>> rank_bounds(above)
    (array([1, 1, 3]), array([2, 2, 3]))
    """
    below = above.T if below is None else below
    return 1 + below.sum(axis=1), len(above) - above.sum(axis=1)


def ranks_of(scores: FloatArray) -> IntArray:
    """One plus the number of higher scores, (K,)."""
    return 1 + (scores[None, :] > scores[:, None]).sum(axis=1)


def critical_value_of_differences(covariance: Covariance, draws: TStatisticDraws, alpha: float) -> float:
    """Single-step critical value of all differences of scores; NaN where none varies.

    What :func:`separate` compares a single difference with first, before it steps down.
    """
    contrasts = differences(covariance, *np.triu_indices(len(covariance.matrix), 1))
    contrasts = contrasts.take(contrasts.usable)
    if not len(contrasts.first):
        return float("nan")
    maxima = max_t_draws(draws, contrasts, absolute=True)
    # Both directions of a pair are claims of their own, each of which can err at one limit only.
    return max_t_critical_value(maxima, alpha, alpha, 2 * len(contrasts.first), draws.normal)


def power_of(difference: float, std_error: float, critical: float) -> float:
    """Probability that an estimated difference is more than ``critical`` standard errors away from zero.

    Examples
    --------
    >>> round(power_of(2.8, 1.0, 1.96), 2)
    0.8
    """
    return float(norm.cdf(difference / std_error - critical) + norm.cdf(-difference / std_error - critical))


def smallest_gap(std_error: float, critical: float, power: float = 0.8) -> float:
    """The smallest true difference that an estimate with this standard error shows with the power.

    Parameters
    ----------
    std_error : float
    critical : float
        Critical value of the test, in standard errors.
    power : float
        Above that of no difference.

    Examples
    --------
    >>> round(smallest_gap(1.0, 1.96), 2)         # 1.96 + 0.84
    2.8
    """
    reach = 40.0 + critical
    return std_error * float(brentq(lambda z: power_of(z, 1.0, critical) - power, 0.0, reach, xtol=1e-12))
