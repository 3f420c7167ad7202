"""A win probability with a confidence interval that stays between 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

from .covariance import Covariance


@dataclass(frozen=True, slots=True)
class WinProbability:
    """Share of comparisons that ``first`` wins against ``second``.

    Attributes
    ----------
    first, second : str
    estimate, std_error : float
    conf_low, conf_high : float
        Limits at level ``1 - alpha``, for this share alone; made on the logit scale, so they stay between 0 and 1.
    alpha : float
    """

    first: str
    second: str
    estimate: float
    std_error: float
    conf_low: float
    conf_high: float
    alpha: float

    def __str__(self) -> str:
        level = f"{100 * (1 - self.alpha):g} %"
        limits = f"{self.conf_low:.3f} to {self.conf_high:.3f}"
        return f"{self.first} wins {self.estimate:.3f} against {self.second} ({level}: {limits})"


def win_probability(first: str, second: str, estimate: float, covariance: Covariance, alpha: float) -> WinProbability:
    """The share with a delta-method interval on the logit scale; on its own scale where it is not inside (0, 1).

    Examples
    --------
    >>> print(win_probability("a", "b", 0.9, Covariance(np.array([[0.0025]]), np.eye(1)), 0.05))
    a wins 0.900 against b (95 %: 0.752 to 0.964)
    """
    std_error = float(covariance.std_errors[0])
    half_width = norm.ppf(1 - alpha / 2) * std_error
    if 0 < estimate < 1:
        reach = half_width / (estimate * (1 - estimate))
        low, high = (float(expit(logit(estimate) + sign * reach)) for sign in (-1, 1))
    else:
        # A debiased share can leave the unit interval by chance.
        low, high = (float(np.clip(estimate + sign * half_width, 0, 1)) for sign in (-1, 1))
    return WinProbability(first, second, estimate, std_error, low, high, alpha)
