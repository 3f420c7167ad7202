"""Simultaneous confidence intervals: critical values (max-t, Bonferroni, pointwise) and adjusted p-values."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from .._utils.blas import one_thread
from ..exceptions import check_choice
from .covariance import Covariance, FloatArray
from .multiple_testing import max_t_critical_value, max_t_p_values
from .resampling import max_abs_normal_draws

METHODS = ("max-t", "bonferroni", "none")


@one_thread()
def critical_value(covariance: Covariance, alpha: float, method: str = "max-t") -> float:
    """Return the half-width of simultaneous two-sided intervals of scores, in standard errors.

    References
    ----------
    Frauen et al., arXiv 2601.21816, appendix "Simultaneous confidence intervals" [P app:cis].
    """
    check_choice(method, METHODS, "method")
    std_errors = covariance.std_errors
    varies = std_errors > 0
    n_varying = int(varies.sum())
    if method == "none" or n_varying <= 1:
        return float(norm.isf(alpha / 2))
    if method == "bonferroni":
        return float(norm.isf(alpha / (2 * n_varying)))
    return _max_t(covariance.factor[varies], std_errors[varies], alpha)


@one_thread()
def critical_value_of_contrasts(covariance: Covariance, contrasts: FloatArray, alpha: float) -> float:
    """Return the half-width of simultaneous intervals of J linear combinations of scores, by max-t.

    Shapes: contrasts (J, d).
    """
    factor = contrasts @ covariance.factor
    std_errors = np.sqrt(np.square(factor).sum(axis=1))
    varies = std_errors > 1e-9 * std_errors.max(initial=0.0)
    if varies.sum() <= 1:
        return float(norm.isf(alpha / 2))
    return _max_t(factor[varies], std_errors[varies], alpha)


@one_thread()
def simultaneous_p_values(covariance: Covariance, z: FloatArray, contrasts: FloatArray | None = None) -> FloatArray:
    """Return two-sided p-values of J z statistics, adjusted for their number by single-step max-t, (J,).

    A p-value is below alpha exactly where the interval with :func:`critical_value` at alpha excludes the hypothetical
    value. The p-value is NaN where z is NaN.

    Shapes: z (J,), contrasts (J, d).
    """
    factor = covariance.factor if contrasts is None else contrasts @ covariance.factor
    varies = ~np.isnan(z)
    adjusted, absolute_z = np.full(len(z), np.nan), np.abs(z)
    unadjusted = 2 * norm.sf(absolute_z)
    if varies.sum() <= 1 or factor.shape[1] == 1:
        adjusted[varies] = unadjusted[varies]
    else:
        std_errors = np.sqrt(np.square(factor[varies]).sum(axis=1))
        maxima = max_abs_normal_draws(factor[varies] / std_errors[:, None])
        adjusted[varies] = max_t_p_values(absolute_z[varies], unadjusted[varies], maxima)
    return adjusted


def _max_t(factor: FloatArray, std_errors: FloatArray, alpha: float) -> float:
    """Return the max-t critical value of J estimates with covariance factor factor', for a factor of shape (J, r)."""
    if factor.shape[1] == 1:
        return float(norm.isf(alpha / 2))
    maxima = max_abs_normal_draws(factor / std_errors[:, None])
    return max_t_critical_value(maxima, alpha, alpha / 2, len(factor))
