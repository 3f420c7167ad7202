"""z tests of single numbers: statistics, and their two-sided p-values."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from ..data.preferences import FloatArray


def z_statistics(distance: FloatArray, std_errors: FloatArray) -> FloatArray:
    """Distances from what is tested in standard errors, (d,); NaN where the standard error is zero.

    Examples
    --------
    >>> z_statistics(np.array([0.2, 0.0]), np.array([0.1, 0.0]))
    array([ 2., nan])
    """
    return np.divide(distance, std_errors, out=np.full(len(distance), np.nan), where=std_errors > 0)


def two_sided_p_values(z: FloatArray) -> FloatArray:
    """Two-sided normal p-values, (d,), of z statistics."""
    return 2 * norm.sf(np.abs(z))
