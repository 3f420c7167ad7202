"""First stages as the one-step estimator takes them, and the population whose mean it estimates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import Cells, FloatArray, IntArray
from .cross_fitting import MuSource


@dataclass(frozen=True, slots=True, eq=False)
class JudgeCorrection:
    """What a judge's verdicts add to the correction: weight (m - mu) at the judged cells.

    Attributes
    ----------
    cells : Cells
        The r judged cells.
    weight : ndarray, shape (r,)
        1 / rho, rho = P(the pair is judged | x), times the share of labelled pairs that were judged.
    m : ndarray, shape (r, C)
        Probabilities of the labels given x and the verdict, out of fold.
    label : ndarray of int, shape (m,)
        Judged cell of every labelled cell, -1 where it was not judged.
    """

    cells: Cells
    weight: FloatArray
    m: FloatArray
    label: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class NuisanceEstimates:
    """Estimates of the nuisances that a one-step estimate is made from.

    Attributes
    ----------
    mu : MuSource
        Out-of-fold probabilities of the categories.
    propensity : ndarray, shape (m,)
        pi at the labelled cells.
    floor : float
        Categories of mu below it are clipped for functionals with a logit or a division, and rows renormalised. The
        clipped mu is used everywhere: in F, in its derivative and in the residual.
    judge : JudgeCorrection or None
        Verdicts: the correction is along G / rho (m - mu) + S / pi (Y - m), with m = mu where nobody judged.
    """

    mu: MuSource
    propensity: FloatArray
    floor: float = 0.0
    judge: JudgeCorrection | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TargetPopulation:
    """The contexts whose mean scores are estimated.

    Attributes
    ----------
    weight : ndarray, shape (n,), or None
        Weights in the target population, with mean one; None where every context counts one.
    sample : ndarray of int, shape (s,), or None
        Contexts that F(mu) is averaged over; None for all. Corrections are those of all contexts.
    """

    weight: FloatArray | None = None
    sample: IntArray | None = None

    def weights(self, n_contexts: int) -> FloatArray:
        """Weight of each context, (n,)."""
        return np.ones(n_contexts) if self.weight is None else self.weight

    def sample_weights(self, n_contexts: int) -> FloatArray | None:
        """n / s for the s contexts of the sample and zero for the others, (n,); None without a sample."""
        if self.sample is None:
            return None
        shares = np.zeros(n_contexts)
        shares[self.sample] = n_contexts / len(self.sample)
        return shares
