"""The test of the Bradley-Terry model that a restricted fit assumes, by model."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from .._utils.number_text import p_value_clause
from ..exceptions import OptionError
from ..fit.estimates import Estimates
from ..fit.post_estimation import restricted_against_projection
from ..fit.state import FitSteps
from .lookup import require_intervals, require_steps


@dataclass(frozen=True, slots=True, eq=False)
class RestrictionTest:
    """Hausman test of the Bradley-Terry model: restricted against unrestricted scores.

    Attributes
    ----------
    statistic : float
        Wald statistic; chi-squared in large samples if the model holds.
    df : int
        Degrees of freedom: the number of directions in which the two estimators can differ.
    pvalue : float
        The share of ``n_draws`` samples of labels from the restricted model whose statistic is at least as large; the
        p-value is at least 1 / (n_draws + 1). Samples are used because the statistic has heavier tails than chi-squared
        where probabilities are near 0 or 1. With clusters, the p-value comes from the chi-squared distribution.
    frame : DataFrame
        By model: ``restricted``, ``unrestricted``, ``difference`` (unrestricted minus restricted), ``std_error`` of the
        difference and ``z``.
    n_draws : int
        Number of samples from the restricted model; zero where the p-value comes from the chi-squared distribution.
    """

    statistic: float
    df: int
    pvalue: float
    frame: pd.DataFrame
    n_draws: int = 0

    def __str__(self) -> str:
        p = p_value_clause(self.pvalue)
        how = f"{self.n_draws:,} samples of labels from the model" if self.n_draws else "the chi-squared distribution"
        return (
            f"Hausman test of the Bradley-Terry model: chi2({self.df}) = {self.statistic:.2f}, p {p} (from {how})\n"
            f"{self.frame.to_string(float_format=lambda number: f'{number:.3f}')}"
        )


def bradley_terry_test(estimates: Estimates, steps: FitSteps | None) -> RestrictionTest:
    """Test the Bradley-Terry model that the fit assumes, see :meth:`RankResults.restriction_test`.

    Raises
    ------
    OptionError
        If the estimator assumes no such model, or nothing is restricted.
    DataNotStoredError
        If the result was loaded without data.
    """
    if not estimates.estimated_by.has_restriction_test:
        raise OptionError(
            f"restriction_test is for estimator='bt_restricted'; this fit has {estimates.estimator!r}: use "
            f"update(functional='bt', estimator='bt_restricted').restriction_test()"
        )
    require_intervals(estimates, "restriction_test")
    test = restricted_against_projection(require_steps(estimates, steps, "restriction_test"))
    columns = {
        "restricted": test.restricted,
        "unrestricted": test.unrestricted,
        "difference": test.unrestricted - test.restricted,
        "std_error": test.std_errors,
        "z": test.z,
    }
    frame = pd.DataFrame(columns, index=list(estimates.models))
    return RestrictionTest(test.statistic, test.df, test.pvalue, frame, test.n_draws)
