"""The numbers of a sensitivity analysis: bounds, tipping points and robustness values of contrasts."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from ..data.hypotheses import LinearHypothesis
from ..data.preferences import FloatArray
from .vote_bounds import Bounds


@dataclass(frozen=True, slots=True, eq=False)
class SensitivityNumbers:
    """The numbers of a sensitivity analysis of J contrasts, in the unit in which scores are shown.

    result_frame, tipping: As :class:`.sensitivity_results.SensitivityResults` describes them.
    hypothesis: The contrasts and their hypothetical values.
    estimate, std_error (J,): Estimates of the contrasts and their standard errors.
    critical: Half-width of the intervals at gamma = 1, in standard errors.
    spread (J,): B: the bias from an omitted variable is at most B C_Y C_D, where C_Y and C_D are the two strengths of
        the variable (:mod:`dmlrank.estimation.omitted_variables`).
    curve: All bounds that were evaluated, also beyond the gammas of ``result_frame``.
    gammas: The gammas that the user asked for.
    alpha: One minus the joint confidence level.
    functional: The functional and the unit of the scores.
    is_natural: Whether the scores are in the functional's own unit.
    n_shown, n_unvoted: Number of shown battles, and of those without a vote.
    is_sharp: Whether no contrast outside of the bounds is possible; otherwise this holds to first order in gamma - 1.
    is_linear: Whether the functional is linear, so that the bound of the bias from an omitted variable is exact.
    is_chosen_by_data: Whether the hypotheses are the default: neighbours on the leaderboard.
    """

    result_frame: pd.DataFrame
    tipping: pd.DataFrame
    hypothesis: LinearHypothesis
    estimate: FloatArray
    std_error: FloatArray
    critical: float
    spread: FloatArray
    curve: Bounds
    gammas: tuple[float, ...]
    alpha: float
    functional: str
    is_natural: bool
    n_shown: int
    n_unvoted: int
    is_sharp: bool
    is_linear: bool
    is_chosen_by_data: bool
