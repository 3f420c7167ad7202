"""Hausman's specification test: whether a restricted and an unrestricted estimate differ by more than noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.stats import chi2

from ..data.preferences import FloatArray
from ..exceptions import OptionError
from .covariance import Covariance
from .z_tests import z_statistics

# The two estimates count as equal in a direction where the variance of their difference is below this share of the
# largest variance of the unrestricted estimate.
_EQUAL_BELOW = 1e-9
_ROUNDING = 1e-9


class NullDistribution(Protocol):
    """Distribution of Wald statistics under the restriction, from which samples are drawn."""

    def statistics(self, directions: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return Wald statistics, (B,), of B samples from the restricted model.

        Shapes: directions (d, r).
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DifferenceTest:
    """Wald test that two estimates of the same d scores differ by noise alone.

    statistic: Wald statistic, chi-squared under the restriction in large samples.
    df: Number of directions in which the two estimates can differ.
    restricted, unrestricted (d,): The two estimates.
    std_errors (d,): Standard errors of the unrestricted less the restricted estimate.
    z (d,): Difference over its standard error; NaN where the standard error is zero.
    n_draws: Samples from the restricted model behind the p-value; zero where the p-value is that of chi-squared.
    """

    statistic: float
    df: int
    pvalue: float
    restricted: FloatArray
    unrestricted: FloatArray
    std_errors: FloatArray
    z: FloatArray
    n_draws: int = 0


def wald_test_of_difference(
    restricted: FloatArray,
    unrestricted: FloatArray,
    *,
    covariance: Covariance,
    difference: Covariance,
    null: NullDistribution | None,
    rng: np.random.Generator,
    uniform_covariance: FloatArray | None = None,
) -> DifferenceTest:
    """Test whether the unrestricted scores differ from the restricted ones by more than noise.

    Shapes: restricted, unrestricted (d,), uniform_covariance (d, d).
    """
    estimated_difference = unrestricted - restricted
    spectrum, axes = np.linalg.eigh(difference.reduced)
    differs = spectrum > _EQUAL_BELOW * max(float(np.linalg.eigvalsh(covariance.reduced)[-1]), 0.0)
    if not differs.any():
        raise OptionError(
            "the restriction cannot be tested: with these pairs (two models, or a graph without cycles) the restricted "
            "and the unrestricted scores are the same. A test needs at least three models whose compared pairs form a "
            "cycle"
        )
    directions = difference.basis @ axes[:, differs]
    variance = np.diag(spectrum[differs])
    if uniform_covariance is not None and null is None:
        variance = variance + directions.T @ uniform_covariance @ directions
    coordinates = directions.T @ estimated_difference
    statistic, df = float(coordinates @ np.linalg.solve(variance, coordinates)), int(differs.sum())
    std_errors = (difference if uniform_covariance is None else difference.plus(uniform_covariance)).std_errors
    if null is None:
        pvalue, n_draws = float(chi2.sf(statistic, df)), 0
    else:
        draws = null.statistics(directions, rng)
        n_draws = len(draws)
        # Statistics that differ by rounding count as equal.
        pvalue = (1 + int((draws >= statistic * (1 - _ROUNDING)).sum())) / (1 + n_draws)
    return DifferenceTest(
        statistic=statistic,
        df=df,
        pvalue=pvalue,
        restricted=restricted,
        unrestricted=unrestricted,
        std_errors=std_errors,
        z=z_statistics(estimated_difference, std_errors),
        n_draws=n_draws,
    )
