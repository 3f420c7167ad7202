"""Arguments of the one-step estimator: the first stages, and the population whose mean scores it estimates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.preferences import Cells, FloatArray, IntArray
from .cross_fitting import MuSource


@dataclass(frozen=True, slots=True, eq=False)
class JudgeCorrection:
    """The part of the correction that comes from a judge's verdicts: weight (m - mu) at the judged cells.

    cells: The r judged cells.
    weight (r,): 1 / rho, where rho = P(the pair is judged | x), times the share of labelled pairs that were judged.
    m (r, C): Probabilities of the labels given x and the verdict, out of fold.
    label (m,): Index of every labelled cell among the judged cells; -1 for labelled cells that were not judged.
    """

    cells: Cells
    weight: FloatArray
    m: FloatArray
    label: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class NuisanceEstimates:
    """Estimates of the nuisances: mu and the propensities of labels and verdicts.

    mu: Out-of-fold probabilities of the categories.
    propensity (m,): pi at the labelled cells.
    floor: Smallest probability. For functionals with a logit or a division, mu is clipped at the floor and
        renormalised; the clipped mu then enters the functional, its derivative and the residual.
    judge: With a judge the correction is taken along G / rho (m - mu) + S / pi (Y - m), where G says whether the pair
        was judged, and m = mu for pairs that were not judged.
    """

    mu: MuSource
    propensity: FloatArray
    floor: float = 0.0
    judge: JudgeCorrection | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TargetPopulation:
    """The contexts whose mean scores are estimated.

    weight (n,): Weights in the target population, with mean one; None where every context counts one.
    sample (s,): Contexts over which F(mu) is averaged; None for all. The corrections are those of all contexts in
        either case.
    """

    weight: FloatArray | None = None
    sample: IntArray | None = None

    def weights(self, n_contexts: int) -> FloatArray:
        """Return the weight of each context, (n,)."""
        return np.ones(n_contexts) if self.weight is None else self.weight

    def sample_weights(self, n_contexts: int) -> FloatArray | None:
        """Return n / s for the s contexts of the sample and zero for all others, (n,); None without a sample."""
        if self.sample is None:
            return None
        weights = np.zeros(n_contexts)
        weights[self.sample] = n_contexts / len(self.sample)
        return weights
