"""The note of a summary about style, and the summary of the slopes and of the scores before and after."""

from __future__ import annotations

import numpy as np

from .._utils.number_text import decimals, p_value_clause
from ..exceptions import listed
from ..fit.estimates import Estimates
from ..fit.style_estimates import StyleEstimates
from ..inference.z_tests import two_sided_p_values, z_statistics
from .sentences import percentage

ASSOCIATION = (
    "This is an association, not an effect: style lies between the model and the vote, and better answers may be "
    "longer."
)


def style_unit(results: Estimates) -> str:
    """Return the addition to the functional's name; empty without an adjustment for style."""
    if results.style is None:
        return ""
    return ", at equal style" if results.style.kind == "equal" else ", battles of equal style"


def style_note(results: Estimates) -> list[str]:
    """Say what the adjustment for style does; empty without one."""
    style = results.style
    if style is None:
        return []
    if style.kind == "balanced":
        return [balanced_sentences(style)]
    return [f"{slope_sentences(results, style)} {ASSOCIATION} See .style for scores before and after the adjustment."]


def slope_sentences(results: Estimates, style: StyleEstimates) -> str:
    """Say what scores at equal style are, with the slopes."""
    unit = {"bt": "log-odds", "borda": "win share"}[results.functional]
    unit = unit if results.scale.natural else f"score, {results.scale.name}"
    errors = style.slope_covariance.std_errors
    slopes = "; ".join(
        f"{name} {slope:.{digits}f} (std. err. {error:.{digits}f}, {p_text(p)})"
        for name, slope, error, digits, p in zip(
            style.columns, style.slopes, errors, slope_digits(errors), slope_p_values(style), strict=True
        )
    )
    return (
        f"Scores are those of answers that are alike in {listed(style.columns)}: the slopes on these style differences "
        f"within prompt and pair are removed. Slopes ({unit} for one unit of the difference): {slopes}."
    )


def balanced_sentences(style: StyleEstimates) -> str:
    """Say which votes count at balanced style, and how many are left."""
    share = percentage(style.n_votes_left / style.n_votes)
    how = "" if style.weights == "band" else "; votes count less, the larger the difference is"
    return (
        f"Only votes on answers of nearly equal style count: differences of at most {style.within:g} in "
        f"{listed(style.columns)}{how}. {style.n_votes_left:,} of {style.n_votes:,} votes ({share}) are left. "
        f"{ASSOCIATION}"
    )


def slope_p_values(style: StyleEstimates) -> np.ndarray:
    """Return two-sided p-values of the slopes, (r,), not adjusted."""
    return two_sided_p_values(z_statistics(style.slopes, style.slope_covariance.std_errors))


def slope_digits(errors: np.ndarray) -> list[int]:
    """Return the number of decimals of each slope, so that its standard error has two digits."""
    return [decimals(np.array([error]), fewest=2) for error in errors]


def p_text(p: float) -> str:
    """Return a p-value with its sign of equality.

    Examples
    --------
    >>> p_text(0.0312), p_text(1e-9)
    ('p = 0.031', 'p < 0.001')
    """
    return f"p {p_value_clause(p)}"
