"""A win probability with a confidence interval that stays between 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

from .covariance import Covariance

# Standard errors, in units of p (1 - p), up to which the logit scale is used.
_STEEP = 2.0


@dataclass(frozen=True, slots=True)
class WinProbability:
    """Share of comparisons that ``first`` wins against ``second``.

    Attributes
    ----------
    first, second : str
    estimate, std_error : float
    conf_low, conf_high : float
        Limits at level ``1 - alpha``, for this share alone; between 0 and 1.
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
    """The share with a delta-method interval on the logit scale; on its own scale near or beyond 0 and 1.

    A debiased share can leave the unit interval by chance. It is then 0 or 1, with a standard error that holds the
    distance. A standard error above twice that of a share in one vote more than none is too large for the logit, whose
    slope has no bound.

    Examples
    --------
    >>> print(win_probability("a", "b", 0.9, Covariance(np.array([[0.0025]]), np.eye(1)), 0.05))
    a wins 0.900 against b (95 %: 0.752 to 0.964)
    >>> print(win_probability("a", "b", 1.001, Covariance(np.array([[0.0004]]), np.eye(1)), 0.05))
    a wins 1.000 against b (95 %: 0.961 to 1.000)
    """
    inside = min(max(estimate, 0.0), 1.0)
    std_error = float(np.hypot(covariance.std_errors[0], estimate - inside))
    estimate = inside
    half_width = norm.ppf(1 - alpha / 2) * std_error
    if std_error < _STEEP * estimate * (1 - estimate):
        reach = half_width / (estimate * (1 - estimate))
        low, high = (float(expit(logit(estimate) + sign * reach)) for sign in (-1, 1))
    else:
        low, high = (float(np.clip(estimate + sign * half_width, 0, 1)) for sign in (-1, 1))
    return WinProbability(first, second, estimate, std_error, low, high, alpha)
