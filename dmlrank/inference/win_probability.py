"""A win probability with a confidence interval that stays between 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

from .._utils.blas import one_thread
from .._utils.number_text import decimals
from ..tables.summary_table import Summarised, Summary
from .confidence_sequence import ConfidenceSequence
from .covariance import Covariance

# Largest standard error, in units of p (1 - p), for which the interval is computed on the logit scale.
_MAX_LOGIT_ERROR = 2.0


@dataclass(frozen=True, slots=True)
class WinProbability(Summarised):
    """Share of comparisons that ``first`` wins against ``second``.

    Attributes
    ----------
    first, second : str
        Names of the models.
    estimate, std_error : float
        The share and its standard error.
    conf_low, conf_high : float
        Limits of the interval at level ``1 - alpha`` for this share alone; between 0 and 1.
    alpha : float
        One minus the level.
    sequence : ConfidenceSequence or None
        Where the interval holds at all looks, what was fixed before the first look.
    """

    first: str
    second: str
    estimate: float
    std_error: float
    conf_low: float
    conf_high: float
    alpha: float
    sequence: ConfidenceSequence | None = None

    def __str__(self) -> str:
        digits = self._digits
        level = f"{100 * (1 - self.alpha):g} %" + ("" if self.sequence is None else f" {self.sequence.clause}")
        limits = f"{self.conf_low:.{digits}f} to {self.conf_high:.{digits}f}"
        return f"{self.first} wins {self.estimate:.{digits}f} against {self.second} ({level}: {limits})"

    @property
    def _digits(self) -> int:
        """Number of decimals, which follows the standard error."""
        return decimals(np.array([self.std_error]))

    def summary(self, title: str | None = None) -> Summary:
        """Return the table for a report.

        Parameters
        ----------
        title : str, optional
            Stands above the table in place of the default title.

        Returns
        -------
        Summary
            It has ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()`` and ``as_csv()``.
        """
        numbers = (self.estimate, self.std_error, self.conf_low, self.conf_high)
        row = (f"{self.first} against {self.second}", *(f"{number:.{self._digits}f}" for number in numbers))
        level = f"{100 * (1 - self.alpha):g}"
        columns = (("win share", 1), ("std err", 1), (f"[{level}% CI]", 2))
        note = (
            f"The win share is the share of comparisons that {self.first} wins against {self.second}, averaged over "
            f"prompts. With {level} % confidence the interval contains the true share; it holds for this share alone."
        )
        notes = (note,) if self.sequence is None else (note, self.sequence.promise)
        return Summary("Win Probability", (), columns, (row,), notes, row_head="pair").with_title(title)


@one_thread()
def win_probability(
    first: str,
    second: str,
    estimate: float,
    covariance: Covariance,
    alpha: float,
    *,
    sequence: ConfidenceSequence | None = None,
) -> WinProbability:
    """Return the share with an interval by the delta method on the logit scale, or on its own scale near 0 and 1.

    A debiased share can lie outside the unit interval by chance. It is then clipped to 0 or 1, and the squared distance
    between the share and this limit is added to the variance. The interval is computed on the scale of the share itself
    where the standard error is at least twice p (1 - p), because the slope of the logit has no bound.
    """
    share = min(max(estimate, 0.0), 1.0)
    std_error = float(np.hypot(covariance.std_errors[0], estimate - share))
    half_width = (norm.ppf(1 - alpha / 2) if sequence is None else sequence.critical()) * std_error
    if std_error < _MAX_LOGIT_ERROR * share * (1 - share):
        logit_half_width = half_width / (share * (1 - share))
        low, high = (float(expit(logit(share) + sign * logit_half_width)) for sign in (-1, 1))
    else:
        low, high = (float(np.clip(share + sign * half_width, 0, 1)) for sign in (-1, 1))
    return WinProbability(first, second, share, std_error, low, high, alpha, sequence)
