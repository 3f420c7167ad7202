"""Scores of humans, of humans and judges, and of the judges alone, side by side."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import norm

from ..exceptions import OptionError
from ..fit.estimates import Estimates
from ..fit.judge_value import estimate_from_verdicts
from ..fit.state import FitState
from .requirements import require_intervals


def judge_table(estimates: Estimates, steps: FitState, alpha: float) -> pd.DataFrame:
    """Return the frame that :meth:`RankResults.judge_table` documents, with a row per model."""
    figures, scale = estimates.judge, estimates.scale
    if figures is None or steps.verdicts is None:
        raise OptionError("judge_table: this fit has no judge; pass judge= to dml_rank")
    require_intervals(estimates, "judge_table")
    influence, covariance = estimate_from_verdicts(steps, steps.verdicts)
    score, error = scale.of(influence.estimate), covariance.std_errors * scale.factor
    half_width = norm.ppf(1 - alpha / 2) * error
    columns = {
        "humans": scale.of(figures.alone),
        "humans_se": figures.alone_errors * scale.factor,
        "both": estimates.estimate,
        "both_se": estimates.covariance.std_errors,
        "judge": score,
        "judge_se": error,
        "judge_lower": score - half_width,
        "judge_upper": score + half_width,
        "judge_differs": np.abs(score - estimates.estimate) > half_width,
    }
    return pd.DataFrame(columns, index=list(estimates.names))
