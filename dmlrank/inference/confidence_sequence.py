r"""Asymptotic confidence sequences: intervals and tests that hold at all looks at growing data at once.

Notes
-----
There is one contrast with t independent units (contexts or clusters), estimate e_t and standard error s_t. The
influence values are independent with mean zero, so that z_t = (e_t - theta) / s_t behaves like W(t) / sqrt(t) for a
Brownian motion W. For every lambda, exp(lambda W(t) - lambda^2 t / 2) is a martingale that starts at one. Its mean over
lambda drawn from N(0, rho^2) is the martingale

.. math:: M_t = (1 + \tau)^{-1/2} \exp\{ z_t^2 \tau / (2 (1 + \tau)) \}, \qquad \tau = t \rho^2.

Ville's inequality says that M_t ever reaches 1/a with probability at most a. Hence p_t = min(1, 1 / M_t) is a p-value
at all looks at once, and the interval of sqrt((1 + 1/tau)(log(1 + tau) - 2 log a)) standard errors is a confidence
sequence.

One-sided tests take lambda from the half-normal distribution, N(0, rho^2) given lambda > 0. The martingale is then
2 Phi(y) M_t with y = z_t sqrt(tau / (1 + tau)). This martingale increases in z_t. It is therefore a supermartingale
for every theta that the one-sided null hypothesis allows. The two-sided martingale is the mean of the two one-sided
martingales.

Joint tests of d contrasts take lambda from N(0, rho^2 V^-1), where V is the covariance matrix of one unit's influence.
With the Wald statistic Q_t this gives (1 + tau)^{-d/2} exp{ Q_t tau / (2 (1 + tau)) }.

The squared half-width is smallest where tau = log(1 + tau) - 2 log(a) / d, which Lambert's W solves.

References
----------
Robbins (1970), Statistical methods related to the law of the iterated logarithm, Annals of Mathematical Statistics 41.
Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), Time-uniform central limit theory and asymptotic confidence
sequences, Annals of Statistics 52: estimated standard errors, estimates that are linear asymptotically, choice of rho.
Howard, Ramdas, McAuliffe and Sekhon (2021), Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of
Statistics 49: the one-sided mixture.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import lambertw, log_ndtr

from ..data.preferences import FloatArray
from ..exceptions import shown
from .bootstrap_and_max_t import holm


def best_tau(a: float, n_contrasts: int = 1) -> float:
    """Return the tau = t rho^2 at which the boundary of level ``a`` is lowest."""
    return float(-lambertw(-np.exp(-1 + 2 * np.log(a) / n_contrasts), -1).real - 1)


@dataclass(frozen=True, slots=True)
class Boundary:
    """The boundary of a confidence sequence at one look, by tau, the number of units times rho^2; above zero."""

    tau: float

    def critical(self, a: float) -> float:
        """Return the half-width of the two-sided interval of level 1 - a, in standard errors."""
        return float(np.sqrt(self.squared_radius(a, 1)))

    def one_sided_critical(self, a: float) -> float:
        """Return the distance of the one-sided limit of level 1 - a from the estimate, in standard errors."""

        def excess(z: float) -> float:
            return float(self._log_one_sided(np.array(z))) + float(np.log(a))

        # At the two-sided critical value, the one-sided martingale is at least as large as the two-sided one.
        return float(scipy.optimize.brentq(excess, 0.0, self.critical(a), xtol=1e-13))

    def squared_radius(self, a: float, n_contrasts: int) -> float:
        """Return the largest Wald statistic of ``n_contrasts`` contrasts inside the joint region of level 1 - a."""
        return float((1 + 1 / self.tau) * (n_contrasts * np.log1p(self.tau) - 2 * np.log(a)))

    def p_values(self, z: FloatArray) -> FloatArray:
        """Return two-sided p-values of z statistics, (J,); NaN where z is NaN."""
        return self.joint_p_values(np.square(z), 1)

    def one_sided_p_values(self, z: FloatArray) -> FloatArray:
        """Return p-values against alternatives for which z, (J,), is large; NaN where z is NaN."""
        return np.asarray(np.exp(np.minimum(0.0, -self._log_one_sided(z))))

    def joint_p_values(self, statistic: FloatArray | float, n_contrasts: int) -> FloatArray:
        """Return the p-values of Wald statistics of ``n_contrasts`` contrasts; NaN where a statistic is NaN."""
        return np.asarray(np.exp(np.minimum(0.0, -self._log_joint(statistic, n_contrasts))))

    def _log_joint(self, statistic: FloatArray | float, n_contrasts: int) -> FloatArray:
        """Return the logarithm of the joint martingale; that of one contrast is two-sided."""
        return np.asarray(statistic * self.tau / (2 * (1 + self.tau)) - n_contrasts / 2 * np.log1p(self.tau))

    def _log_one_sided(self, z: FloatArray) -> FloatArray:
        """Return the logarithm of the one-sided martingale."""
        below = log_ndtr(z * np.sqrt(self.tau / (1 + self.tau)))
        return np.asarray(np.log(2) + below + self._log_joint(np.square(z), 1))


@dataclass(frozen=True, slots=True)
class ConfidenceSequence:
    """What was fixed before the first look, and how many independent units there are at this look.

    planned: Number of units at which intervals are tightest relative to those of a single look.
    start, n_units: Number of units at the first look, and at this look.
    alpha: Probability that a family of statements is ever wrong.
    unit: The independent unit in the plural: prompts, rows, or clusters.
    """

    planned: int
    start: int
    alpha: float
    n_units: int
    unit: str

    def boundary(self, n_tests: int = 1, n_contrasts: int = 1) -> Boundary:
        """Return the boundary of each test in a family, with rho chosen for the level alpha / n_tests.

        rho does not change with the number of units, so that the boundaries of all looks belong to one martingale.
        """
        return Boundary(best_tau(self.alpha / max(n_tests, 1), n_contrasts) * self.n_units / self.planned)

    def critical(self, n_tests: int = 1) -> float:
        """Return the half-width, in standard errors, of intervals that hold jointly for ``n_tests`` contrasts."""
        return self.boundary(n_tests).critical(self.alpha / max(n_tests, 1))

    def adjusted_p_values(self, z: FloatArray) -> FloatArray:
        """Return two-sided p-values, (J,), adjusted for the tests whose z statistic is a number (Bonferroni).

        A p-value is at most alpha exactly where the interval of :meth:`critical` excludes the hypothetical value.
        """
        n_tests = int((~np.isnan(z)).sum())
        return np.minimum(1.0, n_tests * self.boundary(n_tests).p_values(z))

    def step_down(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Test both directions of J differences as one family.

        Shapes: z (J,), p_positive (J,), p_negative (J,).

        Notes
        -----
        A direction is shown if Holm's method over all 2 J one-sided tests rejects it, or if the two-sided interval of
        level alpha / J excludes zero. The probability that these two rules together ever show a wrong direction is at
        most alpha. Proof: let T be the m true hypotheses, and E the mean of their one-sided martingales. E is a
        martingale that starts at one.

        - If Holm's method rejects a member of T, take the first member that it rejects. At least m hypotheses are left
          then, and the martingale of this member is at least m / alpha.
        - If the two-sided interval of a difference of zero excludes zero, the sum of the two martingales of this
          difference, both in T, is at least 2 J / alpha >= m / alpha.
        - If the two-sided interval shows the wrong sign of another difference, then m <= 2 J - 1. The one-sided
          martingale of the wrong direction is at least Phi(y) 2 J / alpha with exp(y^2 / 2) >= J, so that
          Phi(-y) <= exp(-y^2 / 2) / 2 <= 1 / (2 J), and this martingale is at least m / alpha.

        In each case E >= 1 / alpha, and Ville's inequality bounds the probability that E ever reaches 1 / alpha.
        """
        n_pairs, boundary = len(z), self.boundary(len(z))
        both_signs = np.concatenate([z, -z])
        stepped = holm(boundary.one_sided_p_values(both_signs))
        single_step = np.where(both_signs > 0, np.minimum(1.0, n_pairs * boundary.p_values(both_signs)), 1.0)
        adjusted = np.minimum(stepped, single_step)
        return adjusted[:n_pairs], adjusted[n_pairs:]

    def why_not_alpha(self, alpha: object) -> str:
        """Return the message of the error where a caller asks for another alpha than the one of the view."""
        return (
            f"alpha={shown(alpha)}: this sequential view was made for alpha={self.alpha:g}, which cannot be changed "
            f"after a look; before the first look, choose another alpha for the fit and call sequential() then"
        )

    @property
    def clause(self) -> str:
        """When statements hold, as an adverbial clause."""
        return f"at all looks from {self.start:,} {self.unit} on"

    @property
    def promise(self) -> str:
        """What holds at all looks, and what had to be fixed before the first look, as sentences for a summary."""
        return (
            f"Sequential: intervals, tests and rank sets hold {self.clause} at once, so that votes may be "
            f"collected until a result is clear. Intervals are tightest at the planned "
            f"{self.planned:,} {self.unit}; there are {self.n_units:,} now. Chosen before the first look and never "
            f"changed afterwards: the planned {self.planned:,}, the start at {self.start:,}, the level of "
            f"{100 * (1 - self.alpha):g} % and the models. "
            f"The votes of later looks have to be on new {self.unit} from the same population."
        )
