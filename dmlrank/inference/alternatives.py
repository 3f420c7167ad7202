"""z tests of single numbers, and their alternatives: two-sided, one-sided, non-inferiority and equivalence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from .._utils.argument_checks import real_number
from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, check_choice, shown
from .confidence_sequence import Boundary

# scipy's names of two sides.
_SYNONYMS = {"greater": "larger", "less": "smaller"}
SIDES = ("two-sided", "larger", "smaller", "noninferiority", "equivalence")


def z_statistics(distance: FloatArray, std_errors: FloatArray) -> FloatArray:
    """Divide distances from hypothetical values, (d,), by their standard errors; NaN where these are zero."""
    return np.divide(distance, std_errors, out=np.full(len(distance), np.nan), where=std_errors > 0)


def two_sided_p_values(z: FloatArray) -> FloatArray:
    """Return the two-sided normal p-values, (d,), of z statistics."""
    return 2 * norm.sf(np.abs(z))


@dataclass(frozen=True, slots=True)
class Alternative:
    """The alternative hypothesis about a difference.

    =================  ============================  ====================
    side               alternative                   statistic times s.e.
    =================  ============================  ====================
    "two-sided"        difference != delta           difference - delta
    "larger"           difference > delta            difference - delta
    "smaller"          difference < delta            difference - delta
    "noninferiority"   difference > -delta           difference + delta
    "equivalence"      -delta < difference < delta   delta - abs(difference)
    =================  ============================  ====================

    delta: Value that the difference is compared with, in the unit of the scores; for the last two sides a margin above
        zero.
    """

    side: str = "two-sided"
    delta: float = 0.0

    def statistics(self, estimate: FloatArray, std_error: FloatArray) -> FloatArray:
        """Return the z statistics, (J,), from estimates and standard errors of J differences; see the table."""
        if self.side == "equivalence":
            return (self.delta - np.abs(estimate)) / std_error
        return (estimate + (self.delta if self.side == "noninferiority" else -self.delta)) / std_error

    def evidence(self, z: FloatArray) -> FloatArray:
        """Return the z statistics with signs such that large values are evidence for the alternative, (J,)."""
        return np.abs(z) if self.side == "two-sided" else -z if self.side == "smaller" else z

    def p_values(self, z: FloatArray) -> FloatArray:
        """Return the unadjusted p-values, (J,)."""
        return norm.sf(self.evidence(z)) * (2 if self.side == "two-sided" else 1)

    def sequential_p_values(self, z: FloatArray, boundary: Boundary) -> FloatArray:
        """Return the unadjusted p-values at a look of a confidence sequence, (J,)."""
        evidence = self.evidence(z)
        return boundary.p_values(evidence) if self.side == "two-sided" else boundary.one_sided_p_values(evidence)

    def sequential_critical(self, alpha: float, boundary: Boundary) -> float:
        """Return the half-width of intervals of level 1 - alpha at a look, in standard errors."""
        return boundary.critical(alpha) if self.side == "two-sided" else boundary.one_sided_critical(alpha)

    def limits(self, estimate: FloatArray, half_width: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper limits, (J,) each; one of the two is infinite for one-sided alternatives."""
        low = np.full(len(estimate), -np.inf) if self.side == "smaller" else estimate - half_width
        one_sided = self.side in ("larger", "noninferiority")
        return low, np.full(len(estimate), np.inf) if one_sided else estimate + half_width

    def tail(self, alpha: float) -> float:
        """Return the probability of the null distribution beyond the critical value: half of alpha for "two-sided"."""
        return alpha / 2 if self.side == "two-sided" else alpha

    @property
    def clause(self) -> str:
        """The alternative as a clause about "the difference"."""
        delta = self.delta
        return {
            "two-sided": f"the difference is not {delta:g}",
            "larger": f"the difference is above {delta:g}",
            "smaller": f"the difference is below {delta:g}",
            "noninferiority": f"the difference is above {-delta:g}",
            "equivalence": f"the difference lies between {-delta:g} and {delta:g}",
        }[self.side]


TWO_SIDED = Alternative()


def read_alternative(side: str, delta: float) -> Alternative:
    """Check the options ``side`` and ``delta``, and return the alternative that they describe."""
    side = _SYNONYMS.get(side, side) if isinstance(side, str) else side
    check_choice(side, SIDES, "side")
    margin = real_number(delta)
    if margin is None or not np.isfinite(margin):
        raise OptionTypeError(f"delta is {shown(delta)}; give a finite number, in the unit of the scores")
    if side in ("noninferiority", "equivalence") and not margin > 0:
        raise OptionError(
            f"side={side!r} needs a margin above zero, and delta is {shown(delta)}; give the smallest difference that "
            f"matters as delta, in the unit of the scores"
        )
    return Alternative(side, margin)
