"""Tidy frames of a result, in broom's words."""

from __future__ import annotations

import pandas as pd

from ..estimates import Estimates
from .summary import standardised, two_sided


def tidy_frame(results: Estimates, critical: float) -> pd.DataFrame:
    """One row per model: term, estimate, std_error, statistic, p_value, conf_low, conf_high."""
    std_errors = results.covariance.std_errors
    z = standardised(*results.against_neutral())
    return pd.DataFrame(
        {
            "term": list(results.models),
            "estimate": results.estimate,
            "std_error": std_errors,
            "statistic": z,
            "p_value": two_sided(z),
            "conf_low": results.estimate - critical * std_errors,
            "conf_high": results.estimate + critical * std_errors,
        }
    )
