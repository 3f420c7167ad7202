"""What is tested against what: differences, margins, and equivalence."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy.stats import norm

from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, check_choice

SIDES = ("two-sided", "larger", "smaller", "noninferiority", "equivalence")


def check_side(side: Any, delta: Any) -> float:
    """The margin as a number.

    Raises
    ------
    OptionError, OptionTypeError
        If the side is unknown, delta is no finite number, or a margin is needed and not above zero.
    """
    check_choice(side, SIDES, "side")
    if isinstance(delta, bool) or not isinstance(delta, Real) or not np.isfinite(float(delta)):
        raise OptionTypeError(f"delta is {delta!r}; needed is a finite number, in the unit of the scores")
    margin = float(delta)
    if side in ("noninferiority", "equivalence") and not margin > 0:
        raise OptionError(
            f"side={side!r} needs a margin above zero, delta={delta!r} is none: differences smaller than delta are "
            f"taken to be of no importance"
        )
    return margin


def statistics(estimate: FloatArray, std_error: FloatArray, side: str, delta: float) -> FloatArray:
    """z statistics of estimates, (J,): large where the alternative holds (for "smaller" small, "two-sided" both).

    =================  ============================  ====================
    side               alternative                   statistic times s.e.
    =================  ============================  ====================
    "two-sided"        difference != delta           difference - delta
    "larger"           difference > delta            difference - delta
    "smaller"          difference < delta            difference - delta
    "noninferiority"   difference > -delta           difference + delta
    "equivalence"      -delta < difference < delta   delta - abs(difference)
    =================  ============================  ====================
    """
    if side == "equivalence":
        return (delta - np.abs(estimate)) / std_error
    return (estimate + (delta if side == "noninferiority" else -delta)) / std_error


def evidence(z: FloatArray, side: str) -> FloatArray:
    """z statistics turned so that large ones speak against the hypothesis, (J,)."""
    return np.abs(z) if side == "two-sided" else -z if side == "smaller" else z


def p_values(z: FloatArray, side: str) -> FloatArray:
    """p-values of each statistic for itself, (J,)."""
    return norm.sf(evidence(z, side)) * (2 if side == "two-sided" else 1)


def limits(estimate: FloatArray, half_width: FloatArray, side: str) -> tuple[FloatArray, FloatArray]:
    """Lower and upper limits, (J,) each; infinite where the side asks for one limit only."""
    low = np.full(len(estimate), -np.inf) if side == "smaller" else estimate - half_width
    high = np.full(len(estimate), np.inf) if side in ("larger", "noninferiority") else estimate + half_width
    return low, high


def tail(alpha: float, side: str) -> float:
    """Probability beyond each limit of one comparison: half of alpha where both sides can err."""
    return alpha / 2 if side == "two-sided" else alpha


def question(side: str, delta: float) -> str:
    """The alternative in words, about "the difference".

    Examples
    --------
    >>> question("noninferiority", 0.1)
    'the difference is above -0.1'
    """
    return {
        "two-sided": f"the difference is not {delta:g}",
        "larger": f"the difference is above {delta:g}",
        "smaller": f"the difference is below {delta:g}",
        "noninferiority": f"the difference is above {-delta:g}",
        "equivalence": f"the difference lies between {-delta:g} and {delta:g}",
    }[side]
