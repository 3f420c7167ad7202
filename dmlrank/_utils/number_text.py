"""Text of numbers: p-values, digits after the point, scores with their standard errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Smaller p-values are shown as "below 0.001".
_SMALLEST_P_VALUE = 0.0005


def p_value_text(p: float) -> str:
    """Return a p-value as text in a table.

    Examples
    --------
    >>> p_value_text(0.04321), p_value_text(1e-5), p_value_text(float("nan"))
    ('0.043', '<.001', 'n/a')
    """
    return "n/a" if np.isnan(p) else f"{p:.3f}" if p >= _SMALLEST_P_VALUE else "<.001"


def p_value_clause(p: float, figures: int | None = None) -> str:
    """Return a p-value as text after "P" or "p", with three decimals.

    Parameters
    ----------
    p : float
    figures : int, optional
        Number of decimals of a p-value of at least 0.1, and of significant figures of a smaller one.

    Examples
    --------
    >>> p_value_clause(0.04321), p_value_clause(1e-5)
    ('= 0.043', '< 0.001')
    >>> p_value_clause(0.97, figures=2), p_value_clause(0.0123, figures=2)
    ('= 0.97', '= 0.012')
    """
    if p < _SMALLEST_P_VALUE:
        return "< 0.001"
    return f"= {p:.{figures or 3}f}" if figures is None or p >= 0.1 else f"= {p:.{figures}g}"


def decimals(std_errors: NDArray[np.float64], fewest: int = 3) -> int:
    """Return the number of decimals that shows two significant figures of the smallest standard error.

    Parameters
    ----------
    std_errors : ndarray
    fewest : int
        Smallest number that is returned; the largest is six.

    Examples
    --------
    >>> decimals(np.array([0.00096, 0.02]))
    5
    """
    positive = std_errors[std_errors > 0]
    return int(np.clip(1 - np.floor(np.log10(positive.min())), fewest, 6)) if len(positive) else fewest


def score_text(score: float, std_error: float, digits: int) -> str:
    """Return a score as text, with its standard error in brackets unless this is NaN.

    Examples
    --------
    >>> score_text(0.51234, 0.0321, 3)
    '0.512 (0.032)'
    >>> score_text(0.51234, float("nan"), 3)
    '0.512'
    """
    if np.isnan(std_error):
        return f"{score:.{digits}f}"
    return f"{score:.{digits}f} ({std_error:.{digits}f})"
