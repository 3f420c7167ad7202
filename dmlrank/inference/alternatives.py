"""Alternatives of tests: two-sided, one-sided, non-inferiority and equivalence, with a margin."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy.stats import norm

from ..data.preferences import FloatArray
from ..exceptions import OptionError, OptionTypeError, check_choice

# scipy's words for two of the sides.
_SYNONYMS = {"greater": "larger", "less": "smaller"}
SIDES = ("two-sided", "larger", "smaller", "noninferiority", "equivalence")


@dataclass(frozen=True, slots=True)
class Alternative:
    """What a test is to show of a difference.

    =================  ============================  ====================
    side               alternative                   statistic times s.e.
    =================  ============================  ====================
    "two-sided"        difference != delta           difference - delta
    "larger"           difference > delta            difference - delta
    "smaller"          difference < delta            difference - delta
    "noninferiority"   difference > -delta           difference + delta
    "equivalence"      -delta < difference < delta   delta - abs(difference)
    =================  ============================  ====================

    Attributes
    ----------
    side : {"two-sided", "larger", "smaller", "noninferiority", "equivalence"}
    delta : float
        In the unit of the difference; a margin above zero for the last two sides.
    """

    side: str = "two-sided"
    delta: float = 0.0

    def statistics(self, estimate: FloatArray, std_error: FloatArray) -> FloatArray:
        """z statistics, (J,): large where the alternative holds (for "smaller" small, for "two-sided" both)."""
        if self.side == "equivalence":
            return (self.delta - np.abs(estimate)) / std_error
        return (estimate + (self.delta if self.side == "noninferiority" else -self.delta)) / std_error

    def evidence(self, z: FloatArray) -> FloatArray:
        """z statistics turned so that large ones speak against the hypothesis, (J,)."""
        return np.abs(z) if self.side == "two-sided" else -z if self.side == "smaller" else z

    def p_values(self, z: FloatArray) -> FloatArray:
        """p-values of each statistic for itself, (J,)."""
        return norm.sf(self.evidence(z)) * (2 if self.side == "two-sided" else 1)

    def limits(self, estimate: FloatArray, half_width: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Lower and upper limits, (J,) each; infinite where the side asks for one limit only."""
        low = np.full(len(estimate), -np.inf) if self.side == "smaller" else estimate - half_width
        one_sided = self.side in ("larger", "noninferiority")
        return low, np.full(len(estimate), np.inf) if one_sided else estimate + half_width

    def tail(self, alpha: float) -> float:
        """Probability beyond each limit of one comparison: half of alpha where both sides can err."""
        return alpha / 2 if self.side == "two-sided" else alpha

    @property
    def words(self) -> str:
        """The alternative as a clause about "the difference".

        Examples
        --------
        >>> Alternative("noninferiority", 0.1).words
        'the difference is above -0.1'
        """
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
    """The alternative that options ask for.

    Raises
    ------
    OptionError, OptionTypeError
        If the side is unknown, delta is no finite number, or a margin is needed and not above zero.
    """
    side = _SYNONYMS.get(side, side) if isinstance(side, str) else side
    check_choice(side, SIDES, "side")
    if isinstance(delta, bool) or not isinstance(delta, Real) or not np.isfinite(float(delta)):
        raise OptionTypeError(f"delta is {delta!r}; needed is a finite number, in the unit of the scores")
    margin = float(delta)
    if side in ("noninferiority", "equivalence") and not margin > 0:
        raise OptionError(
            f"side={side!r} needs a margin above zero, delta={delta!r} is none: differences smaller than delta are "
            f"taken to be of no importance"
        )
    return Alternative(side, margin)
