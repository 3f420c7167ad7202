"""Text of numbers: p-values, digits after the point, scores with their standard errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Smaller p-values are shown as "below 0.001".
_SMALLEST_P_VALUE = 0.0005


def p_value_text(p: float) -> str:
    """Return a p-value as text in a table: three decimals, or "<0.001" where these would all be zero."""
    return "n/a" if np.isnan(p) else f"{p:.3f}" if p >= _SMALLEST_P_VALUE else "<0.001"


def p_value_clause(p: float) -> str:
    """Return a p-value as text after "P" or "p", with the digits of :func:`p_value_text`."""
    return "< 0.001" if p < _SMALLEST_P_VALUE else f"= {p:.3f}"


def decimals(std_errors: NDArray[np.float64], fewest: int = 3) -> int:
    """Return the number of decimals that shows two significant figures of the smallest standard error."""
    positive = std_errors[std_errors > 0]
    return int(np.clip(1 - np.floor(np.log10(positive.min())), fewest, 6)) if len(positive) else fewest


def fewest_decimals(is_natural: bool) -> int:
    """Return the smallest number of decimals: three in the functional's own unit, one in others such as Elo points."""
    return 3 if is_natural else 1


def fixed_text(number: float, digits: int) -> str:
    """Return a number with a fixed number of decimals; a number that is rounded to zero has no sign."""
    text = f"{number:.{digits}f}"
    return text if text.strip("-0.") else text.lstrip("-")


def score_text(score: float, std_error: float, digits: int) -> str:
    """Return a score as text, with its standard error in brackets unless this is NaN."""
    if np.isnan(std_error):
        return fixed_text(score, digits)
    return f"{fixed_text(score, digits)} ({std_error:.{digits}f})"
