"""z tests of single numbers: z statistics and two-sided p-values."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from ..data.preferences import FloatArray


def z_statistics(distance: FloatArray, std_errors: FloatArray) -> FloatArray:
    """Divide distances from hypothetical values, (d,), by their standard errors; NaN where these are zero."""
    return np.divide(distance, std_errors, out=np.full(len(distance), np.nan), where=std_errors > 0)


def two_sided_p_values(z: FloatArray) -> FloatArray:
    """Return the two-sided normal p-values, (d,), of z statistics."""
    return 2 * norm.sf(np.abs(z))
